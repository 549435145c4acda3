//! How did a run end, as another tool's trace tells it? Read by that tool's format; what it means is the same for all.

use serde_json::Number;

use super::{Certainty, Op, Outcome, Reading};

/// The end of a run, or of the last turn of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The tool's own word, as it stands in the trace: `end_turn`, `error_max_turns`, `submitted (exit_cost)`; empty where
    /// there is none.
    pub word: Box<str>,
    /// What happened, in the words of a headline: "Answered", "Turn limit reached", "Interrupted by the user".
    pub headline: Box<str>,
    /// How it came out.
    pub outcome: Outcome,
    /// Whether the trace says so, or its last records only suggest it.
    pub certainty: Certainty,
    /// What the tool says besides: the text of an error, the reason of a refusal.
    pub detail: Box<str>,
    /// Whether that is the whole sentence.
    pub is_sentence: bool,
    /// What was measured against which limit, where either is recorded.
    pub measured: Option<f64>,
    /// The limit.
    pub limit: Option<f64>,
    /// The unit of both, in the plural: `turns`, `usd`, `tokens`, `ms`.
    pub unit: &'static str,
    /// Further limits that were reached at the same moment.
    pub also: Vec<Reached>,
    /// The name of the file that tells of it, where that is another one than the records'; else empty.
    pub file: &'static str,
    /// The event that tells of it, by number.
    pub event: Option<usize>,
    /// What became of turns without steps that came after it, as the end of the sentence: "a further turn was interrupted
    /// before any step". Empty where none came.
    pub later: Box<str>,
}

/// What was measured against a limit that it reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// What was measured.
    pub measured: f64,
    /// The limit.
    pub limit: f64,
    /// The unit of both, in the plural.
    pub unit: &'static str,
}

impl Ended {
    /// An end without figures.
    pub fn new(word: &str, headline: &str, outcome: Outcome, certainty: Certainty) -> Self {
        Self {
            word: word.into(),
            headline: headline.into(),
            outcome,
            certainty,
            detail: Box::default(),
            is_sentence: false,
            measured: None,
            limit: None,
            unit: "",
            also: Vec::new(),
            file: "",
            event: None,
            later: Box::default(),
        }
    }

    /// The model ended its turn, or its reply asks for nothing more: `word` is its finish reason, or what shows it.
    pub fn answered(word: &str) -> Self {
        Self::new(word, "Answered", Outcome::Completed, Certainty::Inferred)
    }

    /// The last reply asks for nothing more and had no room for more, by its finish reason `word`.
    pub fn cut_reply(word: &str) -> Self {
        Self::new(word, "The reply reached its token limit", Outcome::Truncated, Certainty::Inferred)
    }

    /// The last reply is a refusal of the model, or of what filters its words, by its finish reason `word`.
    pub fn refused(word: &str) -> Self {
        Self::new(word, "The model refused", Outcome::Failed, Certainty::Inferred)
    }

    /// The last step's call of `tool` was cancelled, and nothing follows. `who` is "by the user" where a record says so.
    pub fn cancelled_call(word: &str, who: &str, step: usize, tool: &str, certainty: Certainty) -> Self {
        let who = if who.is_empty() { String::new() } else { format!(" {who}") };
        let sentence = format!("Cancelled{who} in step {step} while {tool} ran; nothing follows");
        let end = Self::new(word, &format!("Cancelled{who}"), Outcome::Cancelled, certainty);
        Self { is_sentence: true, ..end.detail(sentence) }
    }

    /// Whether the last records show that the model answered, and none says that the run ended with that.
    pub fn is_inferred_answer(&self) -> bool {
        self.outcome == Outcome::Completed && self.certainty == Certainty::Inferred
    }

    /// Whether a board said so of a run that died. No reader of a tool's own records infers a failure without a word for it.
    pub fn is_death(&self) -> bool {
        self.outcome == Outcome::Failed && self.certainty == Certainty::Inferred && self.word.is_empty()
    }

    /// What shows that a model answered where the trace holds no finish reason.
    pub const NO_CALLS: &str = "a reply without calls";

    /// What was measured against which limit. A limit ends a run that reaches it.
    pub fn reading(&self) -> Reading {
        Reading {
            measured: self.measured.and_then(Number::from_f64),
            limit: self.limit.and_then(Number::from_f64),
            op: self.limit.map(|_| Op::AtLeast),
            unit: self.unit.into(),
            ..Reading::default()
        }
    }

    /// The same, told of by an event.
    #[must_use]
    pub fn told_by(self, event: usize) -> Self {
        Self { event: Some(event), ..self }
    }

    /// The same, with the tool's words.
    #[must_use]
    pub fn detail(self, detail: impl Into<Box<str>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// The same, with what was measured and the limit.
    #[must_use]
    pub fn compare(self, measured: Option<f64>, limit: Option<f64>, unit: &'static str) -> Self {
        Self { measured, limit, unit, ..self }
    }

    /// An end by the limits that were reached, each with its name as a subject: `Step`, `Cost`. `None` where none was.
    pub fn at_limits(word: &str, reached: &[(&str, Option<Reached>)]) -> Option<Self> {
        let all: Vec<(&str, Reached)> =
            reached.iter().filter_map(|(name, reached)| Some((*name, (*reached)?))).collect();
        let (_, first) = *all.first()?;
        let names: Vec<String> = all
            .iter()
            .enumerate()
            .map(|(at, (name, _))| match at {
                0 => (*name).to_owned(),
                _ => name.to_lowercase(),
            })
            .collect();
        let headline = match names.as_slice() {
            [name] => format!("{name} limit reached"),
            [names @ .., last] => format!("{} and {last} limit reached", names.join(", ")),
            [] => return None,
        };
        let end = Self::new(word, &headline, Outcome::Truncated, Certainty::Recorded);
        let also = all.into_iter().skip(1).map(|(_, reached)| reached).collect();
        Some(Self { also, ..end.compare(Some(first.measured), Some(first.limit), first.unit) })
    }
}
