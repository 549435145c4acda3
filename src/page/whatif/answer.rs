//! Describes the result of each rule: its name and limit, its cells, and how it compares with the
//! record.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format::{self, MISSING, count, counted};
use crate::analysis::whatif::{EndCause, RuleEffect, RuleResult, StopTiming, WhatIfReport, label};
use crate::page::part::sign::{Phrase, Sign};
use crate::page::part::text::{self, one_line};
use crate::page::run_view::RunView;
use crate::page::whatif::cells::{Cell, Cells, steps_per_column};
use crate::stop::{Amount, Counts, Gate, StopSpec};

/// Limits the characters of a limit and of a reason.
const LIMIT_CHARS: usize = 48;
const WHY_CHARS: usize = 240;

/// The results of each rule, `#answer`.
#[derive(Template)]
#[template(path = "whatif/whatif_answer.html")]
pub(crate) struct RulesAnswer<'a> {
    pub view: &'a RunView<'a>,
    pub report: WhatIfReport,
}

impl HtmlSafe for RulesAnswer<'_> {}

/// The combined result of all requested rules in a sentence, `#lead`.
#[derive(Template)]
#[template(path = "whatif/whatif_lead.html")]
pub(crate) struct Lead<'a> {
    report: &'a WhatIfReport,
}

impl HtmlSafe for Lead<'_> {}

/// Whether the rule would have ended the run if all requested rules applied, its answer, and a note
/// if the rule is the run's own.
type Shown<'a> = (bool, &'a RuleEffect, &'static str);

impl RulesAnswer<'_> {
    /// Returns the combined result, which is shown above the form.
    pub(crate) fn lead(&self) -> Lead<'_> {
        Lead {
            report: &self.report,
        }
    }

    fn total(&self) -> usize {
        self.report
            .steps
            .map_or(0, |(first, last)| last.saturating_sub(first) as usize + 1)
    }

    fn about(&self) -> String {
        let recorded = if self.report.recorded.live {
            "recorded so far"
        } else {
            "recorded"
        };
        let about = format!(
            "each on its own · {} {recorded}",
            counted(self.total(), "step")
        );
        match steps_per_column(self.total()) {
            1 => about,
            more => format!("{about} · one column per {more} steps"),
        }
    }

    /// Returns the heading of the cell column.
    fn span(&self) -> String {
        let span = |(first, last)| format!("Steps {}–{}", self.label(first), self.label(last));
        self.report.steps.map_or_else(|| "Steps".to_owned(), span)
    }

    fn label(&self, step: u64) -> String {
        label(self.view.index, step)
    }

    /// Lists the rules in the order of the steps where they fire, with disabled rules last. A
    /// requested rule that is also the run's own appears once, with a note.
    pub(super) fn rows(&self) -> Vec<Shown<'_>> {
        let report = &self.report;
        let requested = report.rules.iter().enumerate().map(|(place, answer)| {
            let same = report.own_rules.iter().find(|own| own.rule == answer.rule);
            let is_hit = report.first == Some(place);
            (is_hit, answer, same.map_or("", RuleEffect::own_note))
        });
        let is_requested =
            |own: &RuleEffect| report.rules.iter().any(|answer| answer.rule == own.rule);
        let own = report.own_rules.iter().filter(|own| !is_requested(own));
        let mut rows: Vec<_> = requested
            .chain(own.map(|own| (false, own, own.own_note())))
            .collect();
        rows.sort_by_key(|(_, answer, _)| order(&answer.result));
        rows
    }

    /// Whether any cell is unknown, so that the legend explains it.
    fn has_unknown(&self) -> bool {
        self.report
            .all_rules()
            .any(|answer| answer.result.unknown_from.is_some())
    }

    fn typed(&self, answer: &RuleEffect) -> String {
        one_line(&answer.rule.to_string(), WHY_CHARS).0
    }

    /// Returns the step where a rule fires.
    pub(super) fn at(&self, result: &RuleResult) -> Phrase {
        match result.step.and_then(|step| usize::try_from(step).ok()) {
            Some(step) => Phrase::new().link(
                format!("step {}", self.view.label(step)),
                self.view.at_step(step),
            ),
            None if result.fires() => Phrase::from("before the first step"),
            None => Phrase::new().dim(MISSING),
        }
    }

    /// Returns the steps, tokens and time saved. Rules that don't fire have no numbers, and missing
    /// numbers are unknown.
    pub(super) fn saved(&self, result: &RuleResult) -> (String, String, String) {
        let number = |value: Option<u64>, show: &dyn Fn(u64) -> String| match value {
            Some(value) => show(value),
            None if result.fires() => "unknown".to_owned(),
            None => MISSING.to_owned(),
        };
        let saved = &result.saved;
        let time = number(saved.ms, &|ms| match ms {
            0 => "0".to_owned(),
            ms => format::millis(ms as f64),
        });
        let mark = |tokens| format::bound(false, self.report.estimated && tokens > 0);
        let tokens = |tokens| format!("{}{}", mark(tokens), format::tokens(tokens));
        (
            number(saved.steps, &count),
            number(saved.tokens, &tokens),
            time,
        )
    }

    /// Describes what happens to the run's answer.
    pub(super) fn answer(&self, result: &RuleResult) -> Phrase {
        let answered = self.view.summary.verdict.answered;
        match (result.answer(answered), result.answer_lost) {
            (Some(words), Some(true)) => Phrase::new().strong(words),
            (Some(words), Some(false)) if answered => Phrase::from(words),
            (words, _) => Phrase::new().dim(words.unwrap_or(MISSING)),
        }
    }

    pub(super) fn why(&self, effect: &RuleEffect) -> String {
        let reason = effect.result.reason(self.view.index);
        if reason == effect.result.found.words() {
            // Another column says it.
            return String::new();
        }
        let reason = match &effect.rule {
            EndCause::Ending(code) => format!("recorded as \"{code}\": {reason}"),
            _ => reason,
        };
        one_line(&reason, WHY_CHARS).0
    }

    /// Returns the cells of all steps, or `None` if no step ran or the rule is disabled.
    fn cells(&self, result: &RuleResult) -> Option<Cells> {
        let (first, last) = self.report.steps.filter(|_| result.off.is_none())?;
        let cell = |step: u64| match (result.fires(), result.step) {
            (true, Some(at)) if step == at => Cell::Fires,
            (true, Some(at)) if step < at => Cell::Requested,
            (true, _) => Cell::Beyond,
            (false, _) if result.unknown_from.is_some_and(|from| step >= from) => Cell::Unknown,
            (false, _) => Cell::Requested,
        };
        Some(Cells::new(&(first..=last).map(cell).collect::<Vec<_>>()))
    }

    /// Lists the limitations of these answers.
    pub(super) fn notes(&self) -> Vec<String> {
        let report = &self.report;
        let mut notes = Vec::new();
        let mut add = |applies: bool, words: String| notes.extend(applies.then_some(words));
        let any = |holds: fn(&RuleEffect) -> bool| report.all_rules().any(holds);
        add(
            report.recorded.live,
            "The run hasn't ended. These results cover its record so far.".to_owned(),
        );
        add(
            !report.recorded.live && !any(|answer| answer.ended),
            format!(
                "No recorded rule ended the run. Its verdict: {}.",
                one_line(&self.view.summary.verdict.sentence, WHY_CHARS).0
            ),
        );
        add(
            any(|answer| {
                answer.result.found == StopTiming::NotReached && answer.result.off.is_none()
            }),
            "What the run would have done after its recorded end is unknown.".to_owned(),
        );
        add(
            any(|answer| {
                answer.result.saved.ms.is_some_and(|ms| ms > 0) || asks_time(&answer.rule)
            }),
            "Time saved is measured to the end of the last step, on the recording machine's clock."
                .to_owned(),
        );
        add(
            report.estimated,
            "Some token counts are estimates because the provider didn't report them.".to_owned(),
        );
        notes.extend(report.gaps());
        notes
    }
}

fn asks_time(rule: &EndCause) -> bool {
    match rule {
        EndCause::Spec(spec) => spec.row().counts == Counts::Time,
        EndCause::Budget(row, _) => row.rule.counts == Counts::Time,
        EndCause::InCode(_) | EndCause::Ending(_) => false,
    }
}

/// Sorts firing rules first, by step, and disabled rules last.
fn order(result: &RuleResult) -> (u8, Option<u64>, Option<Gate>) {
    let rank = match result.found {
        _ if result.off.is_some() => 3,
        StopTiming::Earlier | StopTiming::Same => 0,
        StopTiming::NotReached => 1,
        StopTiming::Unknown => 2,
    };
    (rank, result.step, result.gate)
}

/// Describes how a rule compares with the record.
pub(super) fn against(result: &RuleResult) -> Sign {
    match result.found {
        _ if result.off.is_some() => Sign::plain("mk", "off"),
        StopTiming::Earlier => Sign::word("mk lim", "limit", result.found.words()),
        StopTiming::Same => Sign::word("mk", "dot", result.found.words()),
        StopTiming::NotReached => Sign::word("mk", "ring", result.found.words()),
        StopTiming::Unknown => Sign::word("mk", "unknown", result.found.words()),
    }
}

/// Returns the name by which a rule is written in `--rule`, if it can be.
pub(super) fn written(rule: &EndCause) -> Option<&'static str> {
    match rule {
        EndCause::Spec(spec) => Some(spec.name()),
        EndCause::Budget(..) | EndCause::InCode(_) | EndCause::Ending(_) => None,
    }
}

/// Returns a rule's name and its limit.
pub(super) fn words(rule: &EndCause) -> (String, String) {
    let (name, limit) = match rule {
        EndCause::Spec(spec) => {
            let (name, limit) = of_spec(spec);
            return (name, one_line(&limit, LIMIT_CHARS).0);
        }
        EndCause::Budget(row, limit) => (row.label, EndCause::limit_words(row, *limit)),
        EndCause::InCode(id) => ("Custom rule", one_line(id, LIMIT_CHARS).0),
        // The column of reasons quotes the recorded word.
        EndCause::Ending(_) => ("Recorded end", MISSING.to_owned()),
    };
    (name.to_owned(), limit)
}

fn of_spec(spec: &StopSpec) -> (String, String) {
    let members = |of: &[StopSpec], join: &str| {
        let member = |spec: &StopSpec| {
            let (name, limit) = of_spec(spec);
            format!("{name} {limit}").trim_end().to_owned()
        };
        of.iter().map(member).collect::<Vec<_>>().join(join)
    };
    let limit = match spec.limit() {
        Amount::Count(number) => count(number),
        Amount::Seconds(seconds) => format!("{} s", count(seconds)),
        Amount::Text(text) => text.into_owned(),
        Amount::AnyOf(of) => members(of, " or "),
        Amount::AllOf(of) => members(of, " and "),
    };
    (spec.row().label.to_owned(), limit)
}
