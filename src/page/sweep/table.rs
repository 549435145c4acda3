//! What stands in the tables of a sweep? One row a limit, or a rule, with the runs whose answer it loses.

use crate::analysis::format;
use crate::analysis::sweep::{Effect, MAX_LOST, Measure, Sum, Sweep};
use crate::page::part::href;
use crate::page::part::text::Line;
use crate::page::sweep::{Form, Standing};

/// So many runs are named in a row before the rest is folded.
const SHOWN: usize = 2;

/// A table of limits or of rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// What it is, for those who do not see it.
    pub caption: Line,
    /// What its rows are: `max_steps`, `rule`.
    pub what: Line,
    /// The heads of the sums: `tokens`, and over how many runs.
    pub groups: Vec<(&'static str, String)>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One limit, one rule, or what was recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    /// Its element id, to which the curve links.
    pub id: String,
    /// The limit, or the rule.
    pub name: Line,
    /// Why it stands out: `saves most, loses none`.
    pub tag: Option<&'static str>,
    /// Runs cut.
    pub cut: String,
    /// Its share of all runs.
    pub share: String,
    /// Its length in a bar of 100.
    pub bar: String,
    /// Answers lost.
    pub lost: u64,
    /// Answers kept.
    pub kept: String,
    /// Runs of which it cannot be told.
    pub unknown: String,
    /// Steps, tokens and time, as far as there are such columns.
    pub amounts: Vec<Amount>,
    /// The runs whose answer is lost.
    pub victims: Vec<Victim>,
    /// More of them.
    pub more: Vec<Victim>,
    /// How many are not named at all.
    pub unnamed: Option<String>,
}

/// What is spent and saved of one measure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Spent.
    pub spent: String,
    /// Saved.
    pub saved: String,
    /// Answers kept among the runs of this sum: `50 of 52`; where these are all runs, nothing.
    pub kept: Option<String>,
}

/// A run whose answer is lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Victim {
    /// Its name.
    pub name: Line,
    /// The step at which it is cut, on its page.
    pub href: String,
    /// `cut at 2`.
    pub note: String,
}

const MEASURES: [(Measure, &str); 3] = [(Measure::Steps, "steps"), (Measure::Tokens, "tokens"), (Measure::Ms, "time")];

/// The limits of the varied rule, below what was recorded.
pub(crate) fn limits(standing: &Standing<'_>, sweep: &Sweep, best: Option<usize>) -> Option<Table> {
    let dial = standing.inquiry.dial()?;
    let shown = shown(sweep.limits().first()?);
    let recorded = sweep.limits().first().map(|effect| recorded(effect, &shown, sweep));
    let values = standing.inquiry.values().iter().zip(sweep.limits()).enumerate();
    let limits = values.map(|(place, (value, effect))| Row {
        id: row_id(place),
        name: limit(*value).into(),
        tag: (best == Some(place)).then_some("saves most, loses no answer"),
        ..row(effect, &shown, sweep)
    });
    let groups = shown.iter().map(|(measure, name)| {
        let runs = sweep.limits().first().map_or(0, |effect| effect.sum(*measure).runs);
        (*name, format::counted(runs as usize, "run"))
    });
    Some(Table {
        caption: format!("{} at each limit, over {}", dial.name(), format::counted(sweep.runs as usize, "run")).into(),
        what: dial.name().into(),
        groups: groups.collect(),
        rows: recorded.into_iter().chain(limits).collect(),
    })
}

/// The measures that any run records.
fn shown(effect: &Effect) -> Vec<(Measure, &'static str)> {
    MEASURES.into_iter().filter(|(measure, _)| effect.sum(*measure).runs > 0).collect()
}

/// A limit as it reads: `12,000`, `0.35`.
pub(crate) fn limit(value: f64) -> String {
    if value.fract() == 0.0 && value >= 0.0 { format::count(value as u64) } else { value.to_string() }
}

/// The element id of a limit.
pub(crate) fn row_id(place: usize) -> String {
    format!("limit-{place}")
}

fn recorded(effect: &Effect, shown: &[(Measure, &str)], sweep: &Sweep) -> Row {
    let whole = |sum: &Sum| Sum { spent: sum.recorded(), saved: 0, kept: sum.answers, ..*sum };
    Row {
        id: "recorded".to_owned(),
        name: "as recorded".into(),
        cut: "0".to_owned(),
        kept: format::count(sweep.answers),
        unknown: "0".to_owned(),
        amounts: shown.iter().map(|(measure, _)| amount(&whole(effect.sum(*measure)), *measure, sweep)).collect(),
        ..Row::default()
    }
}

/// The rules that are not varied, and these together.
pub(crate) fn rules(standing: &Standing<'_>, sweep: &Sweep) -> Option<Table> {
    let first = sweep.rules().first()?;
    let measure = sweep.measure_of(first);
    let names = standing.inquiry.names().skip(sweep.limits().len());
    let names = names.chain(standing.inquiry.asks_together().then(|| "all of them".to_owned()));
    let shown = MEASURES.into_iter().filter(|(each, _)| *each == measure).collect::<Vec<_>>();
    let rows = names.zip(sweep.rules()).enumerate().map(|(place, (name, effect))| Row {
        id: format!("rule-{place}"),
        name: name.into(),
        ..row(effect, &shown, sweep)
    });
    Some(Table {
        caption: format!("Each rule over {}", format::counted(sweep.runs as usize, "run")).into(),
        what: "rule".into(),
        groups: shown.iter().map(|(_, name)| (*name, String::new())).collect(),
        rows: rows.collect(),
    })
}

fn row(effect: &Effect, shown: &[(Measure, &str)], sweep: &Sweep) -> Row {
    let victim = |(key, step): (&crate::model::RunKey, &Option<u64>)| Victim {
        name: key.as_str().into(),
        href: step.map_or_else(|| href::run(key.as_str()), |step| href::run_at(key.as_str(), step as usize)),
        note: step.map_or_else(|| "cut before its first step".to_owned(), |step| format!("cut at {step}")),
    };
    let mut victims: Vec<Victim> = effect.lost.named.iter().map(victim).collect();
    // One more is shown rather than folded alone.
    let more = if victims.len() > SHOWN + 1 { victims.split_off(SHOWN) } else { Vec::new() };
    let unnamed = effect.lost.count.saturating_sub(MAX_LOST as u64);
    Row {
        cut: format::count(effect.cut),
        share: format::percent(effect.cut, sweep.runs),
        bar: crate::page::part::chart::filled(effect.cut as usize, sweep.runs as usize),
        lost: effect.lost.count,
        kept: format::count(effect.kept),
        unknown: format::count(effect.unknown),
        amounts: shown.iter().map(|(measure, _)| amount(effect.sum(*measure), *measure, sweep)).collect(),
        victims,
        more,
        unnamed: (unnamed > 0).then(|| format!("and {} more", format::count(unnamed))),
        ..Row::default()
    }
}

fn amount(sum: &Sum, measure: Measure, sweep: &Sweep) -> Amount {
    let text = |number: u64| match measure {
        Measure::Steps => format::count(number),
        Measure::Tokens => format::tokens(number),
        Measure::Ms => format::millis(number as f64),
    };
    if sum.runs == 0 {
        return Amount { spent: "unknown".to_owned(), saved: "unknown".to_owned(), kept: None };
    }
    // The picture is drawn over the runs of one sum; its answers stand beside this one.
    let kept = (sum.runs != sweep.runs && measure == sweep.measure())
        .then(|| format!("{} of {} answers", format::count(sum.kept), format::count(sum.answers)));
    Amount { spent: text(sum.spent), saved: text(sum.saved), kept }
}

/// Which runs the query selects, in words.
pub(crate) fn selected(form: &Form, total: usize, known: usize) -> String {
    if form.query.trim().is_empty() {
        return format!("all {}", format::counted(known, "run"));
    }
    format!("{} of {}", format::count(total as u64), format::counted(known, "run"))
}
