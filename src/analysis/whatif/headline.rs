//! What would all rules together have done? One sentence, and one on the answer.

use super::{Found, RuleResult, together};
use crate::analysis::facts::Record;
use crate::analysis::format::counted;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::Outcome;
use crate::model::Index;

pub(super) fn headline(results: &[RuleResult], record: &Record, summary: &Summary, index: &Index) -> String {
    let live = summary.life.liveness.may_grow();
    let Some(last) = record.last_step() else {
        let so_far = if live { " so far" } else { "" };
        return format!("No step ran{so_far}, so there is nothing to ask rules about.");
    };
    let label = |step: u64| usize::try_from(step).map_or_else(|_| step.to_string(), |step| index.label(step));
    let (these, none, verb) = match results {
        [] => return "No rule is asked beside the run's own.".to_owned(),
        [_] => ("This rule", "This rule would not", "it"),
        _ => ("These rules", "None of these rules would", "one of them"),
    };
    let (first, open) = together(results);
    let unsure = || format!(" Whether {verb} would have ended it earlier cannot be told.");
    let Some((_, first)) = first else {
        return match (open, results) {
            (true, [_]) => "Whether this rule would have ended it cannot be told.".to_owned(),
            (true, _) => {
                format!("None of these rules is known to end it by step {}; some cannot be told.", label(last))
            }
            (false, _) if live => format!("{none} have ended it so far, up to step {}.", label(last)),
            (false, _) => format!("{none} have ended it by step {}, where the record ends.", label(last)),
        };
    };
    let mut said = match (first.found, first.step) {
        (Found::Earlier, Some(step)) => format!(
            "{these} would have ended it at step {} instead of {}{} and saved {}.",
            label(step),
            label(last),
            if live { ", the last so far," } else { "" },
            saved(first)
        ),
        (Found::Earlier, None) => format!("{these} would have let no step run, and saved {}.", saved(first)),
        _ if live => format!("{these} would have ended it at step {}, the last so far.", label(last)),
        _ => format!("{these} would have ended it at step {}, where it ended.", label(last)),
    };
    if first.found == Found::Earlier && !live {
        said.push_str(&answer(first, summary));
    }
    if open {
        said.push_str(&unsure());
    }
    said
}

/// What was spared: steps, and tokens where they are known.
fn saved(first: &RuleResult) -> String {
    let some = |number: Option<u64>, noun| number.filter(|number| *number > 0).map(|n| counted(n as usize, noun));
    let parts: Vec<String> =
        [some(first.saved.steps, "step"), some(first.saved.tokens, "token")].into_iter().flatten().collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
}

fn answer(first: &RuleResult, summary: &Summary) -> String {
    let has_answer = summary.answer.is_some();
    match (summary.verdict.outcome, first.answer_lost) {
        (Outcome::Completed, true) if has_answer => " Its answer would have been lost.",
        (Outcome::Completed, true) => " Its good end would have been lost.",
        (Outcome::Completed, false) => " An answer would have been there.",
        _ if has_answer => " The run left an answer but did not end well.",
        _ => " No answer is lost: there was none.",
    }
    .to_owned()
}
