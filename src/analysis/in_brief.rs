//! States how a run ended in the few words of a table cell, beginning with its status.
//!
//! The words come from the verdict's sentence. A sentence that no rule here knows follows the
//! status unchanged.

use super::format::{self, capitalised, counted};
use super::run_result::ShownStatus;
use super::summary::Summary;

/// The mark of a verdict that is inferred. A table shows an icon for it.
const INFERRED: &str = " (inferred";
/// The longest HTTP status code in an error; characters.
const CODE: usize = 3;

impl Summary {
    /// Returns how the run ended: `Finished, 8 errors`, `API error 529: Overloaded`,
    /// `Turn limit: 3 of 3 turns`. A run that is still being read has no end yet.
    pub fn end_in_brief(&self) -> String {
        if self.partial {
            return format!("Indexing, {} so far", counted(self.steps, "step"));
        }
        let status = self.shown_status();
        let mut parts = self.verdict.sentence.split(" · ");
        let sentence = parts.next().unwrap_or_default();
        let sentence = sentence
            .rfind(INFERRED)
            .and_then(|at| sentence.get(..at))
            .unwrap_or(sentence);
        let mut words = match status {
            status if status.is_answer() => self.answer_in_brief(status),
            ShownStatus::Limit => limit(sentence),
            ShownStatus::Error => error(sentence),
            ShownStatus::Critic => critic(sentence),
            ShownStatus::Cancelled => match sentence.strip_prefix("Interrupted") {
                Some(rest) => format!("Cancelled{rest}"),
                None => after_status(status, sentence),
            },
            ShownStatus::Unknown => {
                // The page of the run explains which tools don't record an end.
                let is_plain = sentence.starts_with("No end recorded");
                after_status(
                    status,
                    if is_plain {
                        "no end recorded"
                    } else {
                        sentence
                    },
                )
            }
            _ => after_status(status, sentence),
        };
        let is_answer = status.is_answer();
        for note in parts.filter(|note| !(is_answer && note.starts_with("after "))) {
            words.push_str(if is_answer { ", " } else { " · " });
            words.push_str(note);
        }
        words
    }

    /// Returns the status of an answer, its reward and the number of errors on the way.
    fn answer_in_brief(&self, status: ShownStatus) -> String {
        let mut words = capitalised(status.as_str());
        let is_rewarded = self.scores.iter().any(|given| given.name == "reward");
        if let Some(reward) = self.last_score.filter(|_| is_rewarded) {
            words = format!("{words}: reward {}", format::score(reward));
        }
        if self.errors > 0 {
            words = format!("{words}, {}", counted(self.errors, "error"));
        }
        words
    }
}

/// Returns the status, then the sentence, unless that begins with the status.
fn after_status(status: ShownStatus, sentence: &str) -> String {
    let word = capitalised(status.as_str());
    let begins = sentence
        .get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(&word));
    match sentence {
        "" => word,
        _ if begins => capitalised(sentence),
        _ => format!("{word}: {}", uncapitalised(sentence)),
    }
}

/// Shortens `Turn limit reached after step 2: 3 turns, limit 3` to `Turn limit: 3 of 3 turns`.
fn limit(sentence: &str) -> String {
    if let Some(rest) = sentence.strip_prefix("Stopped by a ") {
        return capitalised(&criterion(rest).unwrap_or_else(|| rest.to_owned()));
    }
    if sentence.starts_with("The reply") && sentence.contains(" output token limit") {
        return "Reply token limit".to_owned();
    }
    let Some((which, rest)) = sentence.split_once(" limit reached") else {
        return after_status(ShownStatus::Limit, sentence);
    };
    let amounts = rest.split_once(": ").map(|(_, amounts)| amounts);
    let used = amounts.and_then(|amounts| amounts.split_once(", limit "));
    match used {
        Some((used, limit)) if !limit.contains(' ') => match used.split_once(' ') {
            Some((number, unit)) => format!("{which} limit: {number} of {limit} {unit}"),
            None => format!("{which} limit: {used} of {limit}"),
        },
        _ => format!("{which} limit{rest}"),
    }
}

/// Shortens `token criterion after 5 steps: total=1883 >= max=1500` to `token criterion: 1883 of
/// 1500`.
fn criterion(words: &str) -> Option<String> {
    let (which, why) = words.split_once(": ")?;
    let (which, _) = which.split_once(" after ")?;
    let (used, limit) = why.split_once(" >= ")?;
    let amount = |side: &str| Some(side.split_once('=')?.1.to_owned());
    Some(format!("{which}: {} of {}", amount(used)?, amount(limit)?))
}

/// Shortens `Failed with an API error after step 1: 529 Overloaded` to `API error 529: Overloaded`.
fn error(sentence: &str) -> String {
    if let Some(rest) = sentence.strip_prefix("The model refused") {
        return format!("Refused by the model{rest}");
    }
    let kind = ["API error", "error"]
        .into_iter()
        .find(|kind| sentence.starts_with(&format!("Failed with an {kind}")));
    let (Some(kind), Some((_, why))) = (kind, sentence.split_once(": ")) else {
        return capitalised(sentence);
    };
    let (kind, why) = (capitalised(kind), why.trim());
    let is_code =
        |code: &&str| code.len() == CODE && code.bytes().all(|byte| byte.is_ascii_digit());
    match why.split_once(' ').filter(|(code, _)| is_code(code)) {
        Some((code, why)) => format!("{kind} {code}: {why}"),
        None => format!("{kind}: {why}"),
    }
}

/// Shortens `Stopped by the critic Judge (score 0.05): no` to `Critic stop: Judge (score 0.05): no`.
fn critic(sentence: &str) -> String {
    let who = ["Stopped by the critic ", "Stopped by "]
        .into_iter()
        .find_map(|start| sentence.strip_prefix(start));
    match who {
        Some(who) => format!("Critic stop: {who}"),
        None => after_status(ShownStatus::Critic, sentence),
    }
}

/// Writes the first letter small, unless it begins a name or an abbreviation.
fn uncapitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let (first, second) = (chars.next(), chars.clone().next());
    let is_word = second.is_none_or(|second| second.is_lowercase() || second == ' ');
    let is_title = sentence
        .split(' ')
        .nth(1)
        .is_some_and(|next| next.starts_with(char::is_uppercase));
    match first {
        Some(first) if is_word && !is_title => first.to_lowercase().chain(chars).collect(),
        _ => sentence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::run_status::RunStatus;
    use crate::analysis::select::sample::run;
    use crate::analysis::summary::GivenScore;

    fn brief(mark: RunStatus, sentence: &str) -> String {
        let mut run = run("a", mark, None);
        run.verdict.sentence = sentence.into();
        run.end_in_brief()
    }

    #[test]
    fn an_end_begins_with_the_status() {
        for (mark, sentence, expected) in [
            (
                RunStatus::Answered,
                "Finished at step 4 (inferred from end_turn)",
                "Finished",
            ),
            (
                RunStatus::Answered,
                "Answered at step 3 · after 2 recovered errors · 1 critic retry",
                "Finished, 1 critic retry",
            ),
            (
                RunStatus::Answered,
                "Answered at step 3 · conflicting records",
                "Finished, conflicting records",
            ),
            (
                RunStatus::Limit,
                "Turn limit reached after step 2: 3 turns, limit 3",
                "Turn limit: 3 of 3 turns",
            ),
            (
                RunStatus::Limit,
                "Cost limit reached after step 2: $0.0753, limit $0.0500 (inferred from budget_usd)",
                "Cost limit: $0.0753 of $0.0500",
            ),
            (
                RunStatus::Limit,
                "Step limit reached after 6 steps",
                "Step limit after 6 steps",
            ),
            (
                RunStatus::Limit,
                "Stopped by a stagnation criterion: no change for 3 steps in a row",
                "Stagnation criterion: no change for 3 steps in a row",
            ),
            (
                RunStatus::Limit,
                "The reply in step 3 reached its output token limit",
                "Reply token limit",
            ),
            (
                RunStatus::Limit,
                "Stopped by a token criterion after 5 steps: total_tokens=1883 >= max_tokens=1500",
                "Token criterion: 1883 of 1500",
            ),
            (RunStatus::Limit, "Enough", "Limit: enough"),
            (
                RunStatus::Error,
                "Failed with an API error after step 1: 529 Overloaded",
                "API error 529: Overloaded",
            ),
            (
                RunStatus::Error,
                "Failed with an error after step 1: boom",
                "Error: boom",
            ),
            (
                RunStatus::Error,
                "Failed in step 3: CUDA out of memory",
                "Failed in step 3: CUDA out of memory",
            ),
            (
                RunStatus::Error,
                "The model refused after step 1",
                "Refused by the model after step 1",
            ),
            (
                RunStatus::Critic,
                "Stopped by the critic Judge (score 0.05): no",
                "Critic stop: Judge (score 0.05): no",
            ),
            (
                RunStatus::Cancelled,
                "Interrupted by the user after step 0",
                "Cancelled by the user after step 0",
            ),
            (
                RunStatus::Cancelled,
                "The evaluation was cancelled",
                "Cancelled: the evaluation was cancelled",
            ),
            (
                RunStatus::Unknown,
                "No end recorded after step 0: ATIF doesn't record how a run ended",
                "Unknown: no end recorded",
            ),
            (
                RunStatus::Unknown,
                "Ends in step 0 without a result for Bash · killed, or waiting for the user",
                "Unknown: ends in step 0 without a result for Bash · killed, or waiting for the user",
            ),
            (
                RunStatus::Running,
                "Step 5 of 40: waiting for bash",
                "Running: step 5 of 40: waiting for bash",
            ),
            (RunStatus::Died, "Died in step 4", "Died in step 4"),
            (RunStatus::Died, "", "Died"),
            (RunStatus::Unknown, "API lost", "Unknown: API lost"),
            (
                RunStatus::Unknown,
                "Gemini CLI stopped",
                "Unknown: Gemini CLI stopped",
            ),
        ] {
            assert_eq!(brief(mark, sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn an_answer_counts_its_errors_and_tells_its_reward() {
        let mut run = run("a", RunStatus::Answered, None);
        run.errors = 8;
        assert_eq!(run.end_in_brief(), "Finished, 8 errors");
        run.scores = [GivenScore {
            name: "reward".to_owned(),
            value: Some("1".to_owned()),
        }]
        .into();
        (run.last_score, run.errors) = (Some(1.0), 1);
        assert_eq!(run.end_in_brief(), "Succeeded: reward 1.00, 1 error");
        run.partial = true;
        assert_eq!(run.end_in_brief(), "Indexing, 6 steps so far");
    }
}
