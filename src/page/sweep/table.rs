//! Defines the tables of a sweep, with one row for each limit or rule and the runs whose answer it
//! loses.

use std::borrow::Cow;

use crate::analysis::format;
use crate::analysis::sweep::{Effect, MAX_LOST, Measure, PreparedSweep, Sum, Sweep};
use crate::model::RunKey;
use crate::page::part::{chart, href};
use crate::stop::{EXACT, plain};

/// How many runs a row lists before the rest is folded.
const SHOWN: usize = 2;

/// A table of limits or of rules.
#[derive(Debug)]
pub(super) struct Table<'a> {
    /// A description for screen readers.
    pub(super) caption: String,
    /// The heading of the rows: the varied rule's name, or `Rule`.
    pub(super) what: String,
    /// The measures summed up.
    pub(super) measures: Vec<Measure>,
    pub(super) rows: Vec<Row<'a>>,
    sweep: &'a Sweep,
}

/// A limit, a rule, or the recorded result.
#[derive(Debug)]
pub(super) struct Row<'a> {
    /// The element id, which the curve links to.
    pub(super) id: String,
    /// The limit or the rule.
    pub(super) name: String,
    pub(super) is_best: bool,
    /// Of the recorded result: the answers of runs that couldn't be evaluated at some limit, which
    /// other rows don't count.
    not_evaluated: u64,
    effect: Cow<'a, Effect>,
}

impl<'a> Row<'a> {
    fn new(id: String, name: String, effect: &'a Effect) -> Self {
        Self {
            id,
            name,
            is_best: false,
            not_evaluated: 0,
            effect: Cow::Borrowed(effect),
        }
    }

    pub(super) fn cut(&self) -> String {
        format::count(self.effect.cut)
    }

    pub(super) fn share(&self, table: &Table<'_>) -> String {
        format::percent(self.effect.cut, table.sweep.runs)
    }

    /// Returns the length of the bar out of 100.
    pub(super) fn bar(&self, table: &Table<'_>) -> String {
        chart::filled(self.effect.cut as usize, table.sweep.runs as usize)
    }

    pub(super) fn lost(&self) -> u64 {
        self.effect.lost
    }

    pub(super) fn kept(&self) -> String {
        let kept = format::count(self.effect.kept);
        match self.not_evaluated {
            0 => kept,
            runs => format!("{kept} (up to {} not evaluated)", format::count(runs)),
        }
    }

    pub(super) fn unknown(&self) -> String {
        format::count(self.effect.unknown)
    }

    pub(super) fn spent(&self, measure: &Measure) -> String {
        self.amount(*measure, |sum| sum.spent)
    }

    pub(super) fn saved(&self, measure: &Measure) -> String {
        self.amount(*measure, |sum| sum.saved)
    }

    fn amount(&self, measure: Measure, of: impl Fn(&Sum) -> u64) -> String {
        let sum = self.effect.sum(measure);
        match measure {
            _ if sum.runs == 0 => "unknown".to_owned(),
            Measure::Steps => format::count(of(sum)),
            Measure::Tokens => format::tokens(of(sum)),
            Measure::Ms if of(sum) == 0 => "0".to_owned(),
            Measure::Ms => format::millis(of(sum) as f64),
        }
    }

    /// Returns the answers kept among the runs of a sum, if the sum doesn't cover all runs. Only
    /// the measure that the curve shows has them.
    pub(super) fn answers(&self, table: &Table<'_>, measure: &Measure) -> Option<String> {
        let sum = self.effect.sum(*measure);
        (sum.runs > 0 && sum.runs != table.sweep.runs && *measure == table.sweep.measure()).then(
            || {
                format!(
                    "{} of {}",
                    format::count(sum.kept),
                    format::counted(sum.answers as usize, "answer")
                )
            },
        )
    }

    /// Returns the runs whose answer is lost, split into those shown and those folded.
    pub(super) fn lost_in(&self) -> (Vec<LostIn<'_>>, Vec<LostIn<'_>>) {
        let mut shown: Vec<_> = self
            .effect
            .lost_in
            .iter()
            .map(|(key, step)| LostIn { key, step: *step })
            .collect();
        // Folding a single run would save no space.
        let more = if shown.len() > SHOWN + 1 {
            shown.split_off(SHOWN)
        } else {
            Vec::new()
        };
        (shown, more)
    }

    /// Returns the number of runs not shown: `281 more`.
    pub(super) fn folded(&self, more: &[LostIn<'_>]) -> String {
        let unnamed = self.effect.lost.saturating_sub(MAX_LOST as u64);
        format!("{} more", format::count(more.len() as u64 + unnamed))
    }

    /// Returns the number of runs that aren't listed at all.
    pub(super) fn unnamed(&self) -> Option<String> {
        let unnamed = self.effect.lost.saturating_sub(MAX_LOST as u64);
        (unnamed > 0).then(|| format::count(unnamed))
    }
}

/// A run whose answer is lost, and the step where the rule stops it.
#[derive(Debug)]
pub(super) struct LostIn<'a> {
    key: &'a RunKey,
    step: Option<u64>,
}

impl LostIn<'_> {
    pub(super) fn name(&self) -> &str {
        self.key.as_str()
    }

    pub(super) fn href(&self) -> String {
        self.step.map_or_else(
            || href::run(self.name()),
            |step| href::run_at(self.name(), step as usize),
        )
    }

    pub(super) fn note(&self) -> String {
        self.step.map_or_else(
            || "stopped before the first step".to_owned(),
            |step| format!("stopped at step {step}"),
        )
    }
}

impl<'a> Table<'a> {
    /// Builds the table of the varied rule's limits, with the recorded result as its first row.
    pub(super) fn limits(
        prepared: &PreparedSweep,
        sweep: &'a Sweep,
        best: Option<usize>,
    ) -> Option<Self> {
        let (sweep_rule, first) = (prepared.sweep_rule()?, sweep.limits().first()?);
        let limits = sweep.limits().iter();
        let not_evaluated = limits.map(|effect| effect.unknown_answers).max();
        let mut rows = vec![Row {
            not_evaluated: not_evaluated.unwrap_or_default(),
            effect: Cow::Owned(first.as_recorded(sweep.answers)),
            ..Row::new("recorded".to_owned(), "as recorded".to_owned(), first)
        }];
        let limits = prepared.values().iter().zip(sweep.limits()).enumerate();
        rows.extend(limits.map(|(place, (value, effect))| Row {
            is_best: best == Some(place),
            ..Row::new(row_id(place), limit(*value), effect)
        }));
        Some(Table {
            caption: format!(
                "{} by limit, over {}",
                sweep_rule.name(),
                format::counted(sweep.runs as usize, "run")
            ),
            what: sweep_rule.label(),
            measures: Measure::ALL
                .into_iter()
                .filter(|measure| first.sum(*measure).runs > 0)
                .collect(),
            rows,
            sweep,
        })
    }

    /// Builds the table of the rules that aren't varied, individually and combined.
    pub(super) fn rules(prepared: &PreparedSweep, sweep: &'a Sweep) -> Option<Self> {
        let first = sweep.rules().first()?;
        let names = prepared.names().skip(sweep.limits().len());
        let names = names.chain(prepared.asks_together().then(|| "all of them".to_owned()));
        let rows = names.zip(sweep.rules()).enumerate();
        Some(Table {
            caption: format!(
                "Each rule over {}",
                format::counted(sweep.runs as usize, "run")
            ),
            what: "Rule".to_owned(),
            measures: vec![sweep.measure_of(first)],
            rows: rows
                .map(|(place, (name, effect))| Row::new(format!("rule-{place}"), name, effect))
                .collect(),
            sweep,
        })
    }

    /// Returns how many runs a measure is summed over.
    pub(super) fn over(&self, measure: &Measure) -> String {
        let runs = self
            .sweep
            .limits()
            .first()
            .map_or(0, |effect| effect.sum(*measure).runs);
        format::counted(runs as usize, "run")
    }
}

/// Formats a limit: `12,000`, `0.35`, `1e300`.
pub(super) fn limit(value: f64) -> String {
    let is_count = value.fract() == 0.0 && (0.0..EXACT).contains(&value);
    if is_count {
        format::count(value as u64)
    } else {
        plain(value)
    }
}

/// Formats a sum with its unit.
pub(super) fn amount(number: u64, measure: Measure) -> String {
    match measure {
        Measure::Steps => format::counted(number as usize, "step"),
        Measure::Tokens => format::counted(number as usize, "token"),
        Measure::Ms => format::millis(number as f64),
    }
}

/// Returns the element id of a limit's row.
pub(super) fn row_id(place: usize) -> String {
    format!("limit-{place}")
}
