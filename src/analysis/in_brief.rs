//! States how a run ended in the few words of a table cell, beginning with its status.
//!
//! The words come from the verdict: its brief form, or else its sentence after the status, then
//! its notes.

use super::format::{capitalised, counted, number, score};
use super::run_result::ShownStatus;
use super::summary::Summary;
use super::verdict::{NoteKind, UNSOLVED};

impl Summary {
    /// Returns how the run ended: `Finished, 8 failed steps`, `API error 529: Overloaded`,
    /// `Turn limit: 3 of 3 turns`. A run that is still being read has no end yet.
    pub fn end_in_brief(&self) -> String {
        if self.partial {
            return format!("Indexing, {} so far", counted(self.steps, "step"));
        }
        let (status, verdict) = (self.shown_status(), &self.verdict);
        let is_answer = status.is_answer();
        let reward = self.reward().filter(|_| is_answer);
        let mut words = match &*verdict.brief {
            _ if is_answer => self.answer_in_brief(status, reward),
            "" => after_status(status, verdict.head()),
            brief => brief.to_owned(),
        };
        let is_told = |kind| match kind {
            NoteKind::Reward => reward.is_some(),
            // An answer counts its errors.
            NoteKind::Recovered => is_answer,
            NoteKind::Denial | NoteKind::Other => false,
        };
        for note in verdict.notes.iter().filter(|note| !is_told(note.kind)) {
            words.push_str(if is_answer { ", " } else { " · " });
            words.push_str(&note.words);
        }
        words
    }

    /// Returns the reward, if the run has one as its score.
    fn reward(&self) -> Option<f64> {
        let is_rewarded = self.scores.iter().any(|given| given.name == "reward");
        self.last_score.filter(|_| is_rewarded)
    }

    /// Returns the status of an answer, its reward and the number of steps in which something failed.
    fn answer_in_brief(&self, status: ShownStatus, reward: Option<f64>) -> String {
        let mut words = capitalised(status.as_str());
        let sentence = self.verdict.head();
        if sentence.starts_with(UNSOLVED) && status == ShownStatus::Unsolved {
            words = sentence.to_owned();
        } else if let Some(reward) = reward {
            let reward = if reward.fract() == 0.0 {
                number(reward)
            } else {
                score(reward)
            };
            words = format!("{words}: reward {reward}");
        }
        let failed = self.steps_with_failures();
        if failed > 0 {
            // A step may have several errors.
            words = format!("{words}, {}", counted(failed, "failed step"));
        }
        words
    }
}

/// Returns the status, then the sentence, unless that begins with the status or says as much.
fn after_status(status: ShownStatus, sentence: &str) -> String {
    let word = capitalised(status.as_str());
    let begins = sentence
        .get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(&word));
    match sentence {
        "" => word,
        _ if begins || matches!(status, ShownStatus::Error | ShownStatus::Stopped) => {
            capitalised(sentence)
        }
        _ => match sentence.split_once(": ") {
            // A second colon would make the rest read as the result.
            Some((what, why)) if status == ShownStatus::Unknown && !why.contains([':', '(']) => {
                format!("{word}: {} ({why})", uncapitalised(what))
            }
            _ => format!("{word}: {}", uncapitalised(sentence)),
        },
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
    use super::*;
    use crate::analysis::run_status::RunStatus;
    use crate::analysis::select::sample::run;
    use crate::analysis::summary::GivenScore;
    use crate::analysis::verdict::Note;

    fn brief(mark: RunStatus, sentence: &str, brief: &str, notes: &[(NoteKind, &str)]) -> String {
        let mut run = run("a", mark, None);
        run.verdict.sentence = sentence.into();
        run.verdict.brief = brief.into();
        let notes = notes.iter().map(|(kind, words)| Note::new(*kind, *words));
        run.verdict.notes = notes.collect();
        run.end_in_brief()
    }

    #[test]
    fn an_end_begins_with_the_status() {
        use RunStatus as S;
        for (mark, sentence, words, expected) in [
            (S::Answered, "Finished at step 4", "", "Finished"),
            (S::Limit, "Enough", "", "Limit: enough"),
            (
                S::Error,
                "Failed in step 3: boom",
                "",
                "Failed in step 3: boom",
            ),
            (
                S::Error,
                "API error after step 3: Invalid API key · Fix external API key",
                "API error: Invalid API key · Fix external API key",
                "API error: Invalid API key · Fix external API key",
            ),
            (
                S::Error,
                "Failed in step 3: no (inferred)",
                "",
                "Failed in step 3: no (inferred)",
            ),
            (
                S::Stopped,
                "The environment ended the episode at step 4",
                "",
                "The environment ended the episode at step 4",
            ),
            (
                S::Cancelled,
                "The evaluation was cancelled",
                "",
                "Cancelled: the evaluation was cancelled",
            ),
            (
                S::Unknown,
                "No end recorded after step 0",
                "",
                "Unknown: no end recorded after step 0",
            ),
            (
                S::Unknown,
                "No result for Bash in step 0: killed, or waiting for the user",
                "",
                "Unknown: no result for Bash in step 0 (killed, or waiting for the user)",
            ),
            (
                S::Running,
                "Step 5 of 40: waiting for bash",
                "",
                "Running: step 5 of 40: waiting for bash",
            ),
            (S::Died, "Died in step 4", "", "Died in step 4"),
            (S::Died, "", "", "Died"),
            (S::Unknown, "API lost", "", "Unknown: API lost"),
            (
                S::Unknown,
                "Gemini CLI stopped",
                "",
                "Unknown: Gemini CLI stopped",
            ),
        ] {
            assert_eq!(brief(mark, sentence, words, &[]), expected, "{sentence}");
        }
    }

    #[test]
    fn notes_follow_the_end() {
        use NoteKind::{Other, Recovered, Reward};
        let answered = |notes: &[_]| brief(RunStatus::Answered, "Answered at step 3", "", notes);
        assert_eq!(
            answered(&[
                (Recovered, "after 2 recovered errors"),
                (Other, "1 critic retry")
            ]),
            "Finished, 1 critic retry"
        );
        assert_eq!(
            answered(&[(Other, "conflicting records")]),
            "Finished, conflicting records"
        );
        assert_eq!(
            answered(&[(Reward, "reward 0.5")]),
            "Finished, reward 0.5",
            "no score has it"
        );
        assert_eq!(
            answered(&[(Other, "after all")]),
            "Finished, after all",
            "the kind counts, not the words"
        );
        let limit = |notes: &[_]| {
            let sentence = "Turn limit reached after step 2: 3 of 3 turns";
            brief(
                RunStatus::Limit,
                sentence,
                "Turn limit: 3 of 3 turns",
                notes,
            )
        };
        assert_eq!(
            limit(&[(Other, "an answer was ready"), (Reward, "reward 0")]),
            "Turn limit: 3 of 3 turns · an answer was ready · reward 0"
        );
    }

    #[test]
    fn an_answer_counts_its_errors_and_tells_its_reward() {
        let mut run = run("a", RunStatus::Answered, None);
        run.errors = 8;
        assert_eq!(run.end_in_brief(), "Finished, 8 failed steps");
        run.scores = [GivenScore {
            name: "reward".to_owned(),
            value: Some("1".to_owned()),
        }]
        .into();
        (run.last_score, run.errors) = (Some(1.0), 1);
        run.verdict.notes = [Note::new(NoteKind::Reward, "reward 1")].into();
        assert_eq!(run.end_in_brief(), "Succeeded: reward 1, 1 failed step");
        run.last_score = Some(2.0 / 3.0);
        assert!(run.end_in_brief().ends_with("reward 0.67, 1 failed step"));
        run.partial = true;
        assert_eq!(run.end_in_brief(), "Indexing, 6 steps so far");
    }
}
