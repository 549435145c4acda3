//! What stands on a comparison? Two runs become sides, rows, numbers and settings; more of them become numbers.

pub(crate) mod moment;
pub(crate) mod overlay;

use crate::analysis::compare::{Comparison, MAX_DIFFERS, Relation, Row, Unit, compare, measures};
use crate::analysis::format;
use crate::model::{CriticAction, Index, StepHead};
use crate::page::compare::json;
use crate::page::compare::{
    AlignedRow, Cell, CompareBody, ConfigRow, ConfigTable, MetricRow, Metrics, Opened, Side, Steps,
};
use crate::page::lens::{Lens, micros, status};
use crate::page::part::href;
use crate::page::part::sign::{Fact, Link, Phrase, Sign};
use crate::page::part::text::{Line, one_line};
use crate::page::step::fill::manifest_text;

/// So many rows are shown at once.
const WINDOW: usize = 200;
/// A call in a row is cut to so many characters.
const MAX_CALL: usize = 200;
/// An answer in the facts is cut to so many characters.
const MAX_ANSWER: usize = 160;
/// A value of a setting is cut to so many characters.
const MAX_VALUE: usize = 200;
/// So many tools of the common steps are named.
const MAX_TOOLS: usize = 4;

/// Two runs beside each other; `from` is the first row of a window that was asked for.
pub(crate) fn compare_body(a: &Lens<'_>, b: &Lens<'_>, from: Option<usize>) -> CompareBody {
    let comparison = compare(a.index, b.index);
    let keys = (a.key(), b.key());
    let mut acts = vec![Link::new("Swap", href::compare(keys.1, keys.0))];
    if !comparison.rows.is_empty() {
        let at = comparison.first.unwrap_or_default();
        acts.push(Link::new("Replay in lockstep", href::lockstep(keys.0, keys.1, at)));
    }
    let mut notes: Vec<Line> = Vec::new();
    if keys.0 == keys.1 {
        notes.push("A and B are the same run.".into());
    }
    notes.extend([("A", a), ("B", b)].into_iter().filter_map(|(letter, lens)| goes_on(letter, lens)));
    CompareBody {
        says: comparison.sentence(a.index, b.index).into(),
        acts,
        notes,
        sides: vec![side(0, a), side(1, b)],
        steps: Some(steps(&comparison, a, b, from)),
        overlay: overlay::of_two(&comparison, a, b),
        metrics: metrics(a, b),
        config: Some(config(a, b)),
    }
}

/// More than two runs: outcomes and numbers.
pub(crate) fn compare_many(lenses: &[&Lens<'_>]) -> CompareBody {
    let sides: Vec<Side> = lenses.iter().enumerate().map(|(place, lens)| side(place, lens)).collect();
    let mut head: Vec<Line> = Vec::new();
    let mut rows = Vec::new();
    for lens in lenses {
        let measures = measures(lens.summary, lens.index);
        head = measures.iter().map(|measure| measure.name.into()).collect();
        let cells = measures.iter().map(|measure| (measure.unit.words(measure.value).into(), measure.value.is_none()));
        rows.push(MetricRow { name: Link::new(lens.key(), href::run(lens.key())), cells: cells.collect() });
    }
    CompareBody {
        says: format!("{} side by side. Steps are aligned for two runs only.", format::counted(lenses.len(), "run"))
            .into(),
        notes: lenses.iter().zip(&sides).filter_map(|(lens, side)| goes_on(&side.letter, lens)).collect(),
        sides,
        overlay: overlay::of_many(lenses),
        metrics: Metrics { head, rows },
        ..CompareBody::default()
    }
}

/// One row opened: both steps with all that is told of them.
pub(crate) fn opened(comparison: &Comparison, row: &Row, a: &Lens<'_>, b: &Lens<'_>) -> Opened {
    moment::opened(comparison, row, a, b)
}

fn goes_on(letter: &str, lens: &Lens<'_>) -> Option<Line> {
    let running = lens.summary.life.liveness.may_grow();
    running.then(|| format!("{letter} is still going: {}.", lens.summary.verdict.sentence).into())
}

/// The letter of the run at `place`, and its class.
fn letter(place: usize) -> (String, &'static str) {
    let class = match place {
        0 => "side-a",
        1 => "side-b",
        _ => "side-c",
    };
    (crate::page::scores::overlay::letter(place), class)
}

fn side(place: usize, lens: &Lens<'_>) -> Side {
    let summary = lens.summary;
    let (letter, class) = letter(place);
    let mut facts = Vec::new();
    let limit = summary.verdict.limit.map_or_else(String::new, |limit| format!(" of {}", limit.steps));
    facts.push(Fact::new("steps", format!("{}{limit}", format::count(lens.index.steps().len() as u64))));
    let took = if summary.life.liveness.may_grow() { "so far" } else { "took" };
    facts.extend(summary.duration_ms.map(|ms| Fact::new(took, micros((ms * 1e3) as i64))));
    // Line ends of prose are blanks here.
    let line = |text: &str| one_line(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_ANSWER).0;
    facts.extend(summary.answer.as_deref().map(|answer| Fact::new("answer", format!("“{}”", line(answer)))));
    facts.extend(summary.task.as_deref().map(|task| Fact::new("task", line(task))));
    Side {
        letter,
        class,
        run: Link::new(lens.key(), href::run(lens.key())),
        says: format!("{}.", summary.verdict.sentence).into(),
        status: status(summary),
        facts,
    }
}

fn steps(comparison: &Comparison, a: &Lens<'_>, b: &Lens<'_>, from: Option<usize>) -> Steps {
    let total = comparison.rows.len();
    let row = |at: usize| comparison.rows.get(at).map(|row| aligned(at, row, a, b));
    let rows = |from: usize, to: usize| (from..to.min(total)).filter_map(row).collect::<Vec<_>>();
    let first = comparison.first.and_then(|at| Some((at, comparison.rows.get(at)?)));
    let page = |label: String, at: Option<usize>| Link::new(label, href::compare_from(a.key(), b.key(), at));
    let mut out = Steps { about: "aligned by action and arguments".into(), ..Steps::default() };
    out.title = match first {
        Some((_, row)) => format!("First difference: {}", words(row, a, b)).into(),
        None => "No difference in the steps".into(),
    };
    if let Some(from) = from {
        let from = from.min(total.saturating_sub(1));
        out.about = format!(
            "rows {} of {}",
            format::range(from as u64 + 1, (from + WINDOW).min(total) as u64),
            format::count(total as u64)
        )
        .into();
        out.after = rows(from, from + WINDOW);
        out.pages.extend((from > 0).then(|| page("Earlier rows".to_owned(), Some(from.saturating_sub(WINDOW)))));
        out.pages.push(page("First difference".to_owned(), None));
        out.pages.extend((from + WINDOW < total).then(|| page("Later rows".to_owned(), Some(from + WINDOW))));
        return out;
    }
    let common = first.map_or(total, |(at, _)| at);
    let shown = common.saturating_sub(WINDOW);
    out.before = rows(shown, common);
    let place = if first.is_some() { " before it" } else { "" };
    out.fold = format!("{}{place}", format::counted(common, "step")).into();
    out.fold_about = common_words(comparison, common, a, b).into();
    if shown > 0 {
        out.pages.push(page(format!("{} earlier", format::counted(shown, "row")), Some(shown.saturating_sub(WINDOW))));
    }
    if let Some((at, row)) = first {
        out.opened = Some(opened(comparison, row, a, b));
        out.after = rows(at + 1, at + 1 + WINDOW);
        let left = total.saturating_sub(at + 1 + WINDOW);
        if left > 0 {
            out.pages.push(page(format!("{} later", format::counted(left, "row")), Some(at + 1 + WINDOW)));
        }
    }
    out
}

/// `step 5`, or `step 5 of A, step 7 of B`.
pub(crate) fn words(row: &Row, a: &Lens<'_>, b: &Lens<'_>) -> String {
    match (row.pair.a.map(|n| a.label(n)), row.pair.b.map(|n| b.label(n))) {
        (Some(one), Some(other)) if one == other => format!("step {one}"),
        (Some(one), Some(other)) => format!("step {one} of A, step {other} of B"),
        (Some(one), None) => format!("step {one} of A"),
        (None, Some(other)) => format!("step {other} of B"),
        (None, None) => "no step".to_owned(),
    }
}

/// Which tools the common steps call, and what differs in them all the same.
fn common_words(comparison: &Comparison, common: usize, a: &Lens<'_>, b: &Lens<'_>) -> String {
    let mut tools: Vec<&str> = Vec::new();
    let rows = comparison.rows.get(..common).unwrap_or_default();
    for step in rows.iter().filter_map(|row| a.index.steps().get(row.pair.a?)) {
        for tool in step.tools.iter().map(|tool| a.index.name(*tool)) {
            if !tools.contains(&tool) {
                tools.push(tool);
            }
        }
    }
    let more = if tools.len() > MAX_TOOLS { ", …" } else { "" };
    tools.truncate(MAX_TOOLS);
    let mut parts = vec![format!("{}{more}", tools.join(", "))];
    for (letter, lens, ordinal) in
        [("A", a, (|row: &Row| row.pair.a) as fn(&Row) -> Option<usize>), ("B", b, |row| row.pair.b)]
    {
        let retried = rows.iter().filter_map(ordinal).filter(|n| asked(lens.index, *n, CriticAction::Retry)).count();
        if retried > 0 {
            parts.push(format!("{letter} was asked to retry in {}", format::counted(retried, "step")));
        }
    }
    let unlike = rows.iter().filter(|row| row.relation != Relation::Same).count();
    if unlike > 0 {
        parts.push(format!("results, critics, scores or states differ in {}", format::counted(unlike, "step")));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

fn asked(index: &Index, n: usize, action: CriticAction) -> bool {
    index.steps().get(n).is_some_and(|step| step.asked(action))
}

fn aligned(at: usize, row: &Row, a: &Lens<'_>, b: &Lens<'_>) -> AlignedRow {
    AlignedRow {
        label: label_of(row, a, b).into(),
        href: href::lockstep(a.key(), b.key(), at),
        a: row.pair.a.and_then(|n| cell(a.index, n)),
        b: row.pair.b.and_then(|n| cell(b.index, n)),
        relation: row.relation.label(),
        differs: row.relation.is_parting() && row.pair.a.is_some() && row.pair.b.is_some(),
    }
}

/// `5`, or `5 · 7` where the steps of a row have two labels.
pub(crate) fn label_of(row: &Row, a: &Lens<'_>, b: &Lens<'_>) -> String {
    match (row.pair.a.map(|n| a.label(n)), row.pair.b.map(|n| b.label(n))) {
        (Some(one), Some(other)) if one != other => format!("{one} · {other}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

fn cell(index: &Index, n: usize) -> Option<Cell> {
    let step: &StepHead = index.steps().get(n)?;
    let call = if step.call.is_empty() { "no decision recorded" } else { &step.call };
    let mut score = Phrase::new();
    if let Some(lowest) = step.lowest_score() {
        score = score.dim(format::score(lowest));
    }
    if step.asked(CriticAction::Retry) {
        score = score.sign(Sign::icon("mk retry", "retry", "retry asked for"));
    }
    if step.asked(CriticAction::Stop) {
        score = score.sign(Sign::icon("mk stop", "critic", "stop asked for"));
    }
    if !step.is_ok() && step.fate.is_readable() {
        score = score.sign(Sign::icon("mk err", "error", "something failed"));
    }
    Some(Cell { call: one_line(call, MAX_CALL).0.into(), score })
}

fn metrics(a: &Lens<'_>, b: &Lens<'_>) -> Metrics {
    let pairs = measures(a.summary, a.index).into_iter().zip(measures(b.summary, b.index));
    let rows = pairs.map(|(one, other)| {
        let unit: Unit = one.unit;
        let delta = unit.delta(one.value, other.value);
        let dim = delta == "same" || delta == format::MISSING;
        let cells = vec![
            (unit.words(one.value).into(), one.value.is_none()),
            (unit.words(other.value).into(), other.value.is_none()),
            (delta.into(), dim),
        ];
        MetricRow { name: Link::new(one.name, ""), cells }
    });
    Metrics { head: vec!["A".into(), "B".into(), "B − A".into()], rows: rows.collect() }
}

fn config(a: &Lens<'_>, b: &Lens<'_>) -> ConfigTable {
    let texts = [manifest_text(a.lines), manifest_text(b.lines)];
    let [one, other] = &texts;
    let config = json::settings(
        &json::Side { summary: a.summary, index: a.index, manifest: one.as_deref() },
        &json::Side { summary: b.summary, index: b.index, manifest: other.as_deref() },
    );
    let value = |text: Option<String>| {
        text.map(|text| {
            let plain = serde_json::from_str::<String>(&text).unwrap_or(text);
            Line::from(one_line(if plain.is_empty() { "\"\"" } else { &plain }, MAX_VALUE).0)
        })
    };
    let differ = if config.count() == 1 { "setting differs" } else { "settings differ" };
    let count = config.count();
    let about =
        if count == 0 { "no setting differs".to_owned() } else { format!("{} {differ}", format::count(count as u64)) };
    let equal = format::counted(config.equal.len(), "equal setting");
    ConfigTable {
        about: about.into(),
        rows: config
            .differs
            .into_iter()
            .map(|setting| ConfigRow {
                path: setting.path.into(),
                a: value(setting.a),
                b: value(setting.b),
                affects: setting.affects,
            })
            .collect(),
        more: match config.more {
            0 => Line::default(),
            more => format!("{} that differ are not shown.", format::counted(more, "more setting")).into(),
        },
        equal: if config.equal.is_empty() { Line::default() } else { equal.into() },
        equal_names: equal_names(&config.equal).into(),
    }
}

/// The names of equal settings, as many as anybody looks through.
fn equal_names(names: &[String]) -> String {
    let shown = names.get(..MAX_DIFFERS).unwrap_or(names);
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), format::count(more as u64)),
    }
}
