//! What is told of two steps that stand side by side? Thought, decision, result, critics, state and what followed, in
//! the same order for both; where both have a text, what differs in it is marked.

use crate::analysis::compare::{Comparison, Row};
use crate::analysis::diff::{Change, Kind, TextChange, diff};
use crate::analysis::format;
use crate::model::json::Json;
use crate::model::step::{Call, Changes, Outcome, Value};
use crate::model::{CriticAction, Step, TraceFile};
use crate::page::compare::{Moment, Opened, Told};
use crate::page::lens::{Lens, status};
use crate::page::part::critic::Critic;
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::sign::{Link, Phrase, Sign, Word};
use crate::page::part::state_diff::{Piece, StateDiff};
use crate::page::part::text::one_line;

/// A text is cut to so many bytes; the step's own page has all of it.
const MAX_TEXT: usize = 4_000;
/// So many characters are kept around what differs in a text.
const AROUND: usize = 160;
/// So many changed keys are named.
const MAX_KEYS: usize = 8;
/// A critic's reason is cut to so many characters.
const MAX_REASON: usize = 400;

/// A text of a step, or why there is none.
type Text = Result<String, &'static str>;
/// What is compared word by word, each with its name.
type Texts = [(&'static str, Text); 3];

/// What a step's line says.
struct Said {
    thought: Text,
    asks: (&'static str, Text),
    result: Text,
    critics: Phrase,
    state: Phrase,
}

/// Both steps of a row.
pub(crate) fn opened(comparison: &Comparison, row: &Row, a: &Lens<'_>, b: &Lens<'_>) -> Opened {
    let one = row.pair.a.map(|n| (n, said(a, n)));
    let other = row.pair.b.map(|n| (n, said(b, n)));
    let texts = |said: &Option<(usize, Said)>| said.as_ref().map(|(_, said)| said.texts());
    let (left, right) = (texts(&one), texts(&other));
    let base = |letter, class| Moment { letter, class, ..Moment::default() };
    let absent = |is_a: bool, lens: &Lens<'_>| missing(comparison, row, is_a, lens);
    let first = moment(base("A", "side-a"), a, one, right.as_ref(), absent(true, a));
    let second = moment(base("B", "side-b"), b, other, left.as_ref(), absent(false, b));
    Opened { sides: vec![first, second] }
}

/// One side; `beside` is what the other one says, `absent` what stands here where this run has no such step.
fn moment(
    base: Moment,
    lens: &Lens<'_>,
    said: Option<(usize, Said)>,
    beside: Option<&Texts>,
    absent: String,
) -> Moment {
    let is_a = base.letter == "A";
    match said {
        Some((n, said)) => Moment { told: told(lens, n, said, beside, is_a), ..headed(base, lens, n) },
        None => Moment { title: Link::new(absent, ""), ..base },
    }
}

fn headed(moment: Moment, lens: &Lens<'_>, n: usize) -> Moment {
    let mode = lens.index.steps().get(n).map(|step| lens.index.name(step.mode)).unwrap_or_default();
    Moment { title: Link::new(format!("Step {}", lens.label(n)), lens.at_step(n)), mode: mode.into(), ..moment }
}

/// What stands where a run has no such step.
fn missing(comparison: &Comparison, row: &Row, is_a: bool, lens: &Lens<'_>) -> String {
    let step = |row: &Row| if is_a { row.pair.a } else { row.pair.b };
    let rest = comparison.rows.iter().skip_while(|other| *other != row);
    match rest.filter_map(step).next() {
        Some(n) => format!("No such step; goes on with step {}", lens.label(n)),
        None if lens.index.steps().is_empty() => "No steps at all".to_owned(),
        None => "No more steps".to_owned(),
    }
}

impl Said {
    /// What is compared word by word.
    fn texts(&self) -> Texts {
        [("Thought", self.thought.clone()), (self.asks.0, self.asks.1.clone()), ("Result", self.result.clone())]
    }
}

fn told(lens: &Lens<'_>, n: usize, said: Said, beside: Option<&Texts>, first: bool) -> Vec<Told> {
    let mut out = Vec::new();
    // Results of different calls differ in everything; marks would say nothing.
    let same_call = beside.is_some_and(|[_, asks, _]| asks.0 == said.asks.0 && asks.1 == said.asks.1);
    for (at, (term, text)) in said.texts().into_iter().enumerate() {
        let other = beside.and_then(|beside| beside.get(at)).filter(|(known, _)| *known == term);
        let other = other.filter(|_| term != "Result" || same_call);
        let other = other.and_then(|(_, text)| text.as_deref().ok());
        out.push(match text {
            Ok(text) => Told { term, pieces: marked(&text, other, first), ..Told::default() },
            Err(why) => Told { term, says: Phrase::new().dim(why), ..Told::default() },
        });
    }
    out.push(Told { term: "Critics", says: said.critics, ..Told::default() });
    out.push(Told { term: "State", says: said.state, ..Told::default() });
    out.push(Told { term: "Then", says: then(lens, n), ..Told::default() });
    out
}

/// A text with what the other side does not have marked: taken away in A, come in B.
fn marked(text: &str, other: Option<&str>, is_a: bool) -> Vec<Piece> {
    let plain = || vec![Piece::Same(text.into())];
    let Some(other) = other.filter(|other| *other != text) else { return plain() };
    let (before, after) = if is_a { (text, other) } else { (other, text) };
    let (before, after) = (Json::String(before.into()), Json::String(after.into()));
    let Change::Text(TextChange::Edited(parts)) = diff(&before, &after) else { return plain() };
    let own = if is_a { Kind::Del } else { Kind::Ins };
    let last = parts.len().saturating_sub(1);
    let piece = |(at, (kind, text)): (usize, &(Kind, &str))| match kind {
        Kind::Same => Some(Piece::Same(around(text, at == 0, at == last).into())),
        kind if *kind == own && is_a => Some(Piece::Del((*text).into())),
        kind if *kind == own => Some(Piece::Ins((*text).into())),
        _ => None,
    };
    parts.iter().enumerate().filter_map(piece).collect()
}

/// Unchanged text with its middle left out where it is long; at the ends of the whole text, all but what is near.
fn around(text: &str, starts: bool, ends: bool) -> String {
    let length = text.chars().count();
    if length <= 2 * AROUND + 20 {
        return text.to_owned();
    }
    let head: String = text.chars().take(if starts { 0 } else { AROUND }).collect();
    let tail: String = text.chars().skip(length - if ends { 0 } else { AROUND }).collect();
    format!("{head} … {tail}")
}

const UNREAD: &str = "the line cannot be read";

fn said(lens: &Lens<'_>, n: usize) -> Said {
    let span = lens.index.steps().get(n).map(|step| step.span);
    let record = span.and_then(|span| lens.lines.record(TraceFile::Steps, span).ok());
    match record.as_ref().and_then(crate::format::step) {
        Some(step) => read(&step),
        None => Said {
            thought: Err(UNREAD),
            asks: ("Decision", Err(UNREAD)),
            result: Err(UNREAD),
            critics: Phrase::new().dim(UNREAD),
            state: Phrase::new().dim(UNREAD),
        },
    }
}

fn read(step: &Step<'_>) -> Said {
    let decision = step.decision.as_ref().filter(|decision| !decision.value.is_empty());
    let thought = decision.and_then(|decision| decision.rationale?.string()).filter(|text| !text.trim().is_empty());
    let results: Vec<String> = step.results.iter().map(result).collect();
    let asks = match (decision.and_then(|decision| decision.answer), decision) {
        _ if !step.calls.is_empty() => {
            let calls: Vec<String> = step.calls.iter().map(call).collect();
            ("Action", Ok(cut(&calls.join("\n"))))
        }
        (Some(answer), _) => ("Answer", Ok(cut(&answer.plain()))),
        (None, Some(_)) => ("Decision", Err("no action and no answer")),
        (None, None) => ("Decision", Err("none recorded")),
    };
    Said {
        thought: thought.as_deref().map(cut).ok_or("none recorded"),
        asks,
        result: if results.is_empty() { Err("none recorded") } else { Ok(cut(&results.join("\n"))) },
        critics: critics(step),
        state: state(step),
    }
}

fn cut(text: &str) -> String {
    let head = crate::model::names::cut_at(text, MAX_TEXT);
    if head.len() < text.len() {
        format!("{head}… (cut; {} in all)", format::bytes(text.len() as u64))
    } else {
        text.to_owned()
    }
}

fn call(call: &Call<'_>) -> String {
    let Some(name) = call.name.as_deref() else { return call.value.json().to_string() };
    let args = match call.args.map(Value::json) {
        Some(Json::Object(args)) => {
            args.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
        }
        Some(args) if !args.is_empty() => args.to_string(),
        _ => String::new(),
    };
    format!("{name}({args})")
}

/// What came back, the error first; how long it took is told elsewhere.
fn result(result: &Outcome<'_>) -> String {
    let error = result.error.map(|error| format!("error: {}", error.plain()));
    let is_whole = |output: Value<'_>| output.at == result.value.at;
    let output = result.output.filter(|output| !(is_whole(*output) && error.is_some()) && !output.is_empty());
    let parts: Vec<String> = [error, output.map(|output| output.plain().into_owned())].into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("\n") }
}

fn critics(step: &Step<'_>) -> Phrase {
    if step.critics.is_empty() {
        return Phrase::new().dim("no critic spoke");
    }
    let mut fold = Fold::new(ValueLinks::default());
    let mut says = Phrase::new();
    for (at, critic) in Critic::read_all(&step.critics, |_| None, &mut fold).into_iter().enumerate() {
        let long = critic.long_reason.map(|reason| reason.shown).unwrap_or_default();
        let reason = if critic.reason.is_empty() { long } else { critic.reason.as_str().to_owned() };
        let name = format!("{}{} ", if at > 0 { "; " } else { "" }, critic.name);
        says = says.text(name).strong(critic.score).text(" ").sign(critic.mark);
        if !reason.is_empty() {
            says = says.text(format!(", “{}”", one_line(&reason, MAX_REASON).0));
        }
    }
    says
}

fn state(step: &Step<'_>) -> Phrase {
    let Some(Changes(changes)) = step.changes else { return Phrase::new().dim("not recorded") };
    let diff = StateDiff::new(&changes.json(), None, &mut Fold::new(ValueLinks::default()), "");
    let Some(diff) = diff else { return Phrase::from("nothing changed") };
    let mut says = Phrase::new();
    for (at, row) in diff.rows.iter().take(MAX_KEYS).enumerate() {
        says =
            says.text(if at > 0 { "; " } else { "" }).and(Word::Code(row.key.clone())).text(format!(" {}", row.change));
    }
    match diff.rows.len().saturating_sub(MAX_KEYS) {
        0 => says,
        more => says.dim(format!(" and {}", format::counted(more, "more key"))),
    }
}

/// What followed the step.
fn then(lens: &Lens<'_>, n: usize) -> Phrase {
    let next = n + 1;
    if next < lens.index.steps().len() {
        let retry = lens.index.steps().get(n).is_some_and(|step| step.asked(CriticAction::Retry));
        let says =
            if retry { Phrase::new().sign(Sign::word("mk retry", "retry", "retry")).text(", ") } else { Phrase::new() };
        return says.text("goes on with ").link(format!("step {}", lens.label(next)), lens.at_step(next));
    }
    let mark = status(lens.summary);
    let says = Phrase::new().text(format!("{}: {}", mark.word(), lens.summary.verdict.sentence));
    if lens.summary.life.liveness.may_grow() {
        Phrase::new().text("the newest step; ").text(lens.summary.verdict.sentence.as_str())
    } else {
        says
    }
}
