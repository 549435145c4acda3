//! Describes what all rules together would have done: one sentence, and one about the answer.

use super::{RuleResult, STEPS_UNTOLD, StopTiming, together};
use crate::analysis::facts::Record;
use crate::analysis::format::capitalised;
use crate::analysis::format::counted;
use crate::analysis::headline::Headline;
use crate::analysis::lost::unfinished;
use crate::analysis::newest::has_answer;
use crate::analysis::summary::Summary;
use crate::model::Index;
use crate::stop::Gate;

pub(super) fn headline(
    results: &[RuleResult],
    names: &[String],
    suggested: bool,
    record: &Record,
    summary: &Summary,
    index: &Index,
) -> Headline {
    let live = summary.life.liveness.may_grow();
    if record.steps_unknown {
        let why = capitalised(STEPS_UNTOLD);
        return format!("{why}, so rules can't be evaluated.").into();
    }
    let Some(last) = record.last_step() else {
        if let Some(lost) = record.lost {
            return format!("{}, so rules can't be evaluated.", lost.words()).into();
        }
        let so_far = if live { " so far" } else { "" };
        return format!("No steps ran{so_far}, so there is nothing to evaluate.").into();
    };
    let label = |step: u64| super::label(index, step);
    let (these, none) = match results {
        [] => return "No rules were added to the run's own.".to_owned().into(),
        _ if suggested => ("These example rules", "None of these example rules would"),
        [_] => ("This rule", "This rule would not"),
        _ => ("These rules", "None of these rules would"),
    };
    let (first, open) = together(results);
    let Some((place, first)) = first else {
        let last = label(last);
        return match (open, results) {
            (true, [_]) => "Not enough data to evaluate this rule.".to_owned().into(),
            (true, all) if all.iter().all(|result| result.unknown_from.is_some()) => {
                "Not enough data to evaluate these rules.".to_owned().into()
            }
            (true, _) => Headline::from("Some rules couldn't be evaluated.".to_owned())
                .and(&format!("The others don't stop the run by step {last}.")),
            (false, _) if live => {
                format!("{none} have stopped the run so far, up to step {last}.").into()
            }
            (false, _) if record.begun => {
                format!("{none} have stopped the run by step {last}, the last recorded step.")
                    .into()
            }
            (false, _) => {
                format!("{none} have stopped the run by step {last}, its last recorded step.")
                    .into()
            }
        };
    };
    // Of several rules, names the only one that fires there.
    let fired = |result: &&RuleResult| {
        let stops = matches!(result.found, StopTiming::Earlier | StopTiming::Same);
        stops && result.step == first.step
    };
    let these = match results.iter().filter(fired).count() {
        1 if results.len() > 1 => names
            .get(place)
            .map_or_else(|| these.to_owned(), |name| name.clone()),
        _ => these.to_owned(),
    };
    let lead = match (first.found, first.step) {
        (StopTiming::Earlier, Some(step)) => {
            let instead = match record.lost {
                _ if first.step == Some(last) => String::new(),
                Some(_) => String::new(),
                None if record.foreign.is_some() => String::new(),
                None if live => format!(" instead of step {} (the last so far)", label(last)),
                None => format!(" instead of step {}", ended_in(record, index, last)),
            };
            format!(
                "{these} would have stopped the run at step {}{instead}, saving {}.",
                label(step),
                saved(first, record)
            )
        }
        (StopTiming::Earlier, None) => {
            format!(
                "{these} would have stopped the run before the first step, saving {}.",
                saved(first, record)
            )
        }
        _ => {
            let before = match first.gate.filter(|_| first.cuts) {
                Some(Gate::BeforeStep) => ", but before that step began",
                Some(_) => ", but before that step's actions ran",
                None => "",
            };
            let so = if live {
                "the last so far"
            } else {
                "where it ended"
            };
            format!(
                "{these} would have stopped the run at step {}, {so}{before}.",
                label(last)
            )
        }
    };
    let mut said = Headline::from(lead);
    if first.cuts && !live {
        said = said.and(answer(first, summary, index));
    }
    // Nothing is earlier than the first step.
    if open && first.step != Some(0) {
        said = said.and("A rule that couldn't be evaluated might have stopped it earlier.");
    }
    said
}

/// Returns the label of the step in which the run ended. If it died in a step without a line, that
/// step comes after `last`.
fn ended_in(record: &Record, index: &Index, last: u64) -> String {
    let unfinished = unfinished(index).filter(|_| record.begun);
    let id = unfinished.and_then(|group| group.step_id);
    id.map_or_else(|| super::label(index, last), |id| id.to_string())
}

/// Describes what a stop there saves: steps, and tokens if known.
fn saved(first: &RuleResult, record: &Record) -> String {
    let some = |number: Option<u64>, noun| {
        number
            .filter(|number| *number > 0)
            .map(|n| counted(n as usize, noun))
    };
    let about = if record.is_estimated() { "≈" } else { "" };
    let tokens = some(first.saved.tokens, "token").map(|tokens| format!("{about}{tokens}"));
    let parts: Vec<String> = [some(first.saved.steps, "step"), tokens]
        .into_iter()
        .flatten()
        .collect();
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join(" and ")
    }
}

fn answer(first: &RuleResult, summary: &Summary, index: &Index) -> &'static str {
    match (summary.verdict.answer_known(), first.answer_lost) {
        (Some(true), Some(true)) => "The answer would have been lost.",
        (Some(true), _) => "It would have ended with an answer.",
        (None, _) => "Whether an answer would have been lost is unknown.",
        (Some(false), _) if has_answer(index) => "The run has an answer, but it didn't end well.",
        (Some(false), _) => "There was no answer to lose.",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{RuleSet, report};
    use crate::analysis::facts::tests::Files;
    use crate::analysis::life::ExternalFacts;
    use crate::analysis::summary::summary;
    use crate::model::RunKey;

    fn said(run: &str, rules: &[&str]) -> String {
        let files = Files::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(run));
        let summary = summary(
            &RunKey::new("x"),
            run.to_owned(),
            &files.index,
            ExternalFacts::default(),
        );
        let rule_set =
            RuleSet::new(rules.iter().map(|rule| rule.parse().unwrap()).collect()).unwrap();
        report(&rule_set, &summary, &files.index, &files)
            .headline
            .to_string()
    }

    #[test]
    fn one_sentence_for_each_case() {
        for (run, rules, expected) in [
            (
                "sample_runs/fix_bug",
                &[][..],
                "No rules were added to the run's own.",
            ),
            (
                "sample_runs/fix_bug",
                &["max_steps=4"],
                "This rule would have stopped the run at step 3 instead of step 10, saving 7 steps. The answer would have been lost.",
            ),
            (
                "sample_runs/fix_bug",
                &["max_steps=11", "max_steps=90"],
                "max_steps=11 would have stopped the run at step 10, where it ended.",
            ),
            (
                "sample_runs/fix_bug",
                &["max_steps=90"],
                "This rule would not have stopped the run by step 10, its last recorded step.",
            ),
            (
                "sample_runs/fix_bug",
                &["critic_below=nobody:0.5"],
                "Not enough data to evaluate this rule.",
            ),
            (
                "sample_runs/fix_bug",
                &["critic_below=nobody:0.5", "critic_below=nobody2:0.5"],
                "Not enough data to evaluate these rules.",
            ),
            (
                "sample_runs/fix_bug",
                &["critic_below=nobody:0.5", "max_steps=90"],
                "Some rules couldn't be evaluated. The others don't stop the run by step 10.",
            ),
            (
                "sample_runs/fix_bug",
                &["critic_below=nobody:0.5", "max_steps=11"],
                "max_steps=11 would have stopped the run at step 10, where it ended. A rule that couldn't be evaluated might have stopped it earlier.",
            ),
            (
                "sample_runs/stagnation",
                &["max_rounds=5"],
                "This rule would have stopped the run at step 4, where it ended, but before that step's actions ran. There was no answer to lose.",
            ),
            (
                "sample_runs/task_validation_failed",
                &["max_steps=1"],
                "No steps ran, so there is nothing to evaluate.",
            ),
            (
                "tests/corpus/emulated/emulated_q060_steps_last_line_cut",
                &["max_steps=3"],
                "This rule would have stopped the run at step 2, saving 1 step. There was no answer to lose.",
            ),
        ] {
            assert_eq!(said(run, rules), expected, "{run} {rules:?}");
        }
    }
}
