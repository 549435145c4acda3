//! The sentence about a run whose score says that its task isn't solved. A second sentence has the
//! end of the run.

use super::facts::Facts;
use super::wording::{NoteKind, Wording};
use crate::analysis::format::{number, score};
use crate::model::RunScore;

/// How the sentence about such a run begins.
pub(in crate::analysis) const UNSOLVED: &str = "Unsolved: ";

/// Names of the checks listed with a reward. None of them is a score of the run.
const CHECKS: [&str; 5] = [
    "database",
    "actions met",
    "assertions met",
    "statements met",
    "told as asked",
];

/// Returns whether a score is only a part of a reward.
pub(in crate::analysis) fn is_part_of_reward(name: &str) -> bool {
    name.starts_with("reward.") || CHECKS.contains(&name)
}

impl Facts<'_> {
    /// Returns the sentence about a run that answered but whose score says that the task isn't
    /// solved: "Unsolved: closeness_log 0.00".
    pub(super) fn unsolved(&self) -> Option<String> {
        let manifest = self.manifest?;
        let given = deciding(&manifest.scores)?;
        let value = given.score?;
        // A reward of 0 says as much as a recorded failure. A full score contradicts it.
        let is_failed = match manifest.success {
            Some(_) => self.is_unsuccessful() && value < 1.0,
            None => *given.name == *"reward" && value == 0.0,
        };
        let value = match value {
            reward if *given.name == *"reward" && reward.fract() == 0.0 => number(reward),
            value => score(value),
        };
        is_failed.then(|| format!("{UNSOLVED}{} {value}", given.name))
    }
}

/// Returns the score that decides whether the task is solved: the reward if there is one, otherwise the
/// lowest score that isn't part of a reward.
pub(in crate::analysis) fn deciding(scores: &[RunScore]) -> Option<&RunScore> {
    let scored = || scores.iter().filter(|given| given.score.is_some());
    let is_reward = |given: &&RunScore| *given.name == *"reward";
    let reward = scored().find(is_reward);
    let whole = scored().filter(|given| !is_part_of_reward(&given.name));
    reward.or_else(|| {
        whole.min_by(|one, other| {
            let value = |given: &RunScore| given.score.unwrap_or(f64::MAX);
            value(one).total_cmp(&value(other))
        })
    })
}

/// Returns the sentence about the end, without the reward, and then what else happened.
pub(super) fn how_it_ended(wording: &Wording, second: &str) -> String {
    let sentence = wording.sentence_without(NoteKind::Reward);
    let stop = if sentence.ends_with(['.', '…']) {
        ""
    } else {
        "."
    };
    match second {
        "" => format!("{sentence}{stop}"),
        second => format!("{sentence}{stop} {second}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_decides_before_other_scores_and_its_parts() {
        let name = |scores: &[(&str, f64)]| {
            let scores: Vec<_> = scores
                .iter()
                .map(|(name, score)| RunScore::number(*name, *score))
                .collect();
            deciding(&scores).map(|given| given.name.to_string())
        };
        assert_eq!(name(&[]), None);
        let graded = [("style", 1.0), ("match", 0.0)];
        assert_eq!(name(&graded).as_deref(), Some("match"), "the lowest");
        let rewarded = [("reward.DB", 0.0), ("reward", 1.0), ("match", 0.5)];
        assert_eq!(name(&rewarded).as_deref(), Some("reward"));
        let word = RunScore {
            name: "grade".into(),
            grade: Some("D".into()),
            ..RunScore::default()
        };
        assert_eq!(deciding(&[word]), None, "no number");
    }

    #[test]
    fn the_end_comes_second_without_its_reward() {
        use super::super::wording::Note;
        let wording = Wording::new("Finished at step 5".to_owned(), String::new())
            .basis("inferred: no error".to_owned())
            .note("a note")
            .noted([Note::new(NoteKind::Reward, "reward 0")]);
        assert_eq!(
            how_it_ended(&wording, "In step 4, bash failed."),
            "Finished at step 5 (inferred: no error) · a note. In step 4, bash failed."
        );
    }
}
