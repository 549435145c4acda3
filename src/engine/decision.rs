//! Defines the decisions of an agent: act, answer, wait, or choose among candidates.
//!
//! Independent of the model's text, which `parse` handles. Modes and keys are those of the trace
//! format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum nesting depth of branches. Deeper ones are refused.
const MAX_NESTING: usize = 8;

/// One decision of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decision {
    /// The kind of decision.
    pub mode: Mode,
    /// The reason, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// The answer of a final decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<String>,
    /// The actions, in order. A step's line has them next to the decision.
    #[serde(default, skip_serializing)]
    pub actions: Vec<Action>,
    /// The decisions to choose from. Kept after the choice, so that the trace shows the
    /// alternatives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Additional data to record.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// The kind of a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// Execute the actions.
    Act,
    /// Give the final answer.
    Final,
    /// Do nothing in this step.
    #[default]
    Wait,
    /// Choose one of the candidates. Resolved before anything is recorded.
    Branch,
}

impl Mode {
    /// Returns the mode as written in the trace.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Act => "act",
            Mode::Final => "final",
            Mode::Wait => "wait",
            Mode::Branch => "branch",
        }
    }
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Action {
    /// The tool's name.
    pub name: String,
    /// The arguments, a JSON object.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// The id under which the model expects the result.
    #[serde(default, rename = "action_id", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Action {
    /// Creates a call without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.args.insert(key.into(), value.into());
        self
    }
}

/// A decision to choose from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Candidate {
    /// The kind of decision.
    pub mode: Mode,
    /// The reason, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// The final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<String>,
    /// The actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
    /// The selector's score, if it gives scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Candidate {
    fn decision(&self) -> Decision {
        Decision {
            mode: self.mode,
            rationale: self.rationale.clone(),
            final_answer: self.final_answer.clone(),
            actions: self.actions.clone(),
            candidates: Vec::new(),
            meta: self.meta.clone(),
        }
    }
}

impl From<Decision> for Candidate {
    fn from(decision: Decision) -> Self {
        let Decision {
            mode,
            rationale,
            final_answer,
            actions,
            meta,
            ..
        } = decision;
        Self {
            mode,
            rationale,
            final_answer,
            actions,
            score: None,
            meta,
        }
    }
}

/// The chosen candidate, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The index among the candidates.
    pub index: usize,
    /// The reason, in one sentence.
    pub why: String,
    /// A score for each candidate. Empty if the selector gives no scores.
    pub scores: Vec<f64>,
}

/// Chooses among the candidates of a branch.
pub trait Selector: Send + Sync {
    /// Returns the name under which the choice is recorded.
    fn name(&self) -> &str;

    /// Chooses one of `candidates`, which is never empty.
    ///
    /// # Errors
    /// If no candidate can be chosen, the step fails.
    fn choose(&self, candidates: &[Candidate]) -> Result<Choice, String>;
}

/// Chooses the first candidate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct First;

impl Selector for First {
    fn name(&self) -> &str {
        "first"
    }

    fn choose(&self, candidates: &[Candidate]) -> Result<Choice, String> {
        let why = format!("the first of {}", candidates.len());
        Ok(Choice {
            index: 0,
            why,
            scores: Vec::new(),
        })
    }
}

impl Decision {
    /// Creates a decision to execute these actions.
    pub fn act(actions: impl IntoIterator<Item = Action>) -> Self {
        Self {
            mode: Mode::Act,
            actions: actions.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Creates a final decision with this answer.
    pub fn final_answer(answer: impl Into<String>) -> Self {
        Self {
            mode: Mode::Final,
            final_answer: Some(answer.into()),
            ..Self::default()
        }
    }

    /// Creates a decision to do nothing in this step, with the reason.
    pub fn wait(rationale: impl Into<String>) -> Self {
        Self {
            mode: Mode::Wait,
            rationale: Some(rationale.into()),
            ..Self::default()
        }
    }

    /// Creates a decision to choose among these candidates with the engine's [`Selector`].
    pub fn branch(candidates: impl IntoIterator<Item = Decision>) -> Self {
        let candidates = candidates.into_iter().map(Candidate::from).collect();
        Self {
            mode: Mode::Branch,
            candidates,
            ..Self::default()
        }
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, rationale: impl Into<String>) -> Self {
        self.rationale = Some(rationale.into());
        self
    }

    /// Adds data to record.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self
    }

    /// Checks that the decision can be executed. An act decision needs actions with names, a final
    /// decision needs a non-blank answer, and a branch needs candidates that can be executed.
    ///
    /// # Errors
    /// Describes what is missing.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_at(0)
    }

    fn validate_at(&self, depth: usize) -> Result<(), String> {
        if depth > MAX_NESTING {
            return Err(format!("branches are nested deeper than {MAX_NESTING}"));
        }
        match self.mode {
            Mode::Act if self.actions.is_empty() => {
                Err("a decision to act has no actions".to_owned())
            }
            Mode::Act
                if self
                    .actions
                    .iter()
                    .any(|action| action.name.trim().is_empty()) =>
            {
                Err("an action has no name".to_owned())
            }
            Mode::Final
                if self
                    .final_answer
                    .as_deref()
                    .is_none_or(|answer| answer.trim().is_empty()) =>
            {
                Err("a final decision has no answer".to_owned())
            }
            Mode::Branch if self.candidates.is_empty() => {
                Err("a branch has no candidates".to_owned())
            }
            Mode::Branch => {
                self.candidates
                    .iter()
                    .enumerate()
                    .try_for_each(|(place, candidate)| {
                        if candidate.mode == Mode::Branch {
                            return Err(format!("candidate {place} is a branch itself"));
                        }
                        candidate
                            .decision()
                            .validate_at(depth + 1)
                            .map_err(|wrong| format!("candidate {place}: {wrong}"))
                    })
            }
            Mode::Act | Mode::Final | Mode::Wait => Ok(()),
        }
    }

    /// Returns the candidate that `selector` chooses, with all candidates and the reason.
    ///
    /// # Errors
    /// Fails if the branch is invalid, or if the selector fails or returns an index out of range.
    pub fn resolve(self, selector: &dyn Selector) -> Result<Self, String> {
        if self.mode != Mode::Branch {
            return Ok(self);
        }
        self.validate()?;
        let name = selector.name().to_owned();
        let choice = selector
            .choose(&self.candidates)
            .map_err(|why| format!("the selector {name} failed: {why}"))?;
        let Some(winner) = self.candidates.get(choice.index) else {
            let (index, many) = (choice.index, self.candidates.len());
            return Err(format!(
                "the selector {name} chose candidate {index} of {many}"
            ));
        };
        let mut decision = winner.decision();
        let chosen = Value::from(choice.index);
        let branch = [
            ("chosen", chosen),
            ("selector", name.into()),
            ("why", choice.why.into()),
            ("rationale", self.rationale.into()),
        ];
        let branch = branch
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        decision
            .meta
            .insert("branch".to_owned(), Value::Object(branch));
        decision.candidates = self.candidates;
        // Scores that aren't finite would silently be written as null.
        for (candidate, score) in decision.candidates.iter_mut().zip(choice.scores) {
            candidate.score = Some(score).filter(|score| score.is_finite());
        }
        Ok(decision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        let wrong = |decision: Decision| decision.validate().unwrap_err();
        assert_eq!(wrong(Decision::act([])), "a decision to act has no actions");
        assert_eq!(
            wrong(Decision::act([Action::new(" ")])),
            "an action has no name"
        );
        assert_eq!(
            wrong(Decision::final_answer(" \n")),
            "a final decision has no answer"
        );
        assert_eq!(wrong(Decision::branch([])), "a branch has no candidates");
        let nested = Decision::branch([Decision::wait("x"), Decision::act([])]);
        assert_eq!(
            wrong(nested),
            "candidate 1: a decision to act has no actions"
        );
        assert_eq!(Decision::wait("later").validate(), Ok(()));
    }

    /// Chooses the candidate with the highest `meta.score`, the first one if scores are equal.
    struct HighestScore;

    impl Selector for HighestScore {
        fn name(&self) -> &str {
            "highest_score"
        }

        fn choose(&self, candidates: &[Candidate]) -> Result<Choice, String> {
            let score = |candidate: &Candidate| candidate.meta.get("score")?.as_f64();
            let scores: Option<Vec<_>> = candidates.iter().map(score).collect();
            let scores = scores.ok_or("a candidate has no score in `meta`")?;
            let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let index = scores.iter().position(|score| *score == best);
            Ok(Choice {
                index: index.unwrap_or_default(),
                why: format!("score {best}, the highest of {}", candidates.len()),
                scores,
            })
        }
    }

    #[test]
    fn a_branch_keeps_its_candidates_and_the_reason() {
        let score =
            |name: &str, score: f64| Decision::act([Action::new(name)]).meta("score", score);
        let branch = Decision::branch([score("a", 0.5), score("b", 0.9), score("c", 0.9)])
            .because("three ways");
        let chosen = branch.clone().resolve(&HighestScore).unwrap();
        assert_eq!(
            (
                chosen.mode,
                chosen.actions[0].name.as_str(),
                chosen.candidates.len()
            ),
            (Mode::Act, "b", 3)
        );
        assert_eq!(chosen.meta["branch"]["why"], "score 0.9, the highest of 3");
        assert_eq!(chosen.meta["branch"]["rationale"], "three ways");
        assert_eq!(
            chosen
                .candidates
                .iter()
                .map(|c| c.score)
                .collect::<Vec<_>>(),
            [Some(0.5), Some(0.9), Some(0.9)]
        );
        assert_eq!(branch.resolve(&First).unwrap().actions[0].name, "a");
    }

    #[test]
    fn a_selector_that_points_outside_fails_the_branch() {
        struct Outside;
        impl Selector for Outside {
            fn name(&self) -> &str {
                "outside"
            }
            fn choose(&self, _: &[Candidate]) -> Result<Choice, String> {
                Ok(Choice {
                    index: 7,
                    why: String::new(),
                    scores: Vec::new(),
                })
            }
        }
        let wrong = Decision::branch([Decision::wait("x")])
            .resolve(&Outside)
            .unwrap_err();
        assert_eq!(wrong, "the selector outside chose candidate 7 of 1");
    }
}
