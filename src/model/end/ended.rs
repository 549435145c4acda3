//! Represents the end of a run as another tool's trace records it. Each format has its own reader,
//! but the result has the same meaning for all formats.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use super::headline::Named;
use super::kinds::{Certainty, Outcome};
use super::reading::{Op, Reading};
use crate::model::stored;
use crate::model::words::words;

/// The end of a run, or of the last turn of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The tool's own word, as written in the trace: `end_turn`, `error_max_turns`, `submitted
    /// (exit_cost)`. Empty if the trace has none.
    pub word: Box<str>,
    /// What happened, as a headline: "Answered", "Turn limit reached", "Interrupted by the user".
    pub headline: Box<str>,
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the end is recorded or only inferred from the last records.
    pub certainty: Certainty,
    /// Details from the tool: the text of an error, or the reason for a refusal.
    pub detail: Box<str>,
    /// A related fact that isn't a reason: several rewards, or that the existing changes were
    /// submitted.
    pub note: Box<str>,
    /// The reward, in words: "reward 1". Empty if there isn't one.
    pub reward: Box<str>,
    /// Whether `detail` is the whole sentence.
    pub is_sentence: bool,
    /// The value measured against the limit, if either is recorded.
    pub measured: Option<f64>,
    /// The limit.
    pub limit: Option<f64>,
    /// The unit of both values, in the plural: `turns`, `usd`, `tokens`, `ms`.
    #[serde(deserialize_with = "stored::word")]
    pub unit: stored::Word,
    /// How the tool compares the two values.
    pub op: Op,
    /// Whether `measured` is exact or a bound.
    pub bound: Bound,
    /// The limits that may have ended the run. Which of them did depends on the amounts used.
    pub candidates: Vec<Candidate>,
    /// Further limits reached at the same moment.
    pub also: Vec<Reached>,
    /// All limits that could have ended the run, if the records show that none of them was reached.
    pub refuted: Vec<Reached>,
    /// The name of the file that records the end, if it differs from the file of the records.
    /// Otherwise empty.
    #[serde(deserialize_with = "stored::word")]
    pub file: stored::Word,
    /// The number of the event that records the end.
    pub event: Option<usize>,
    /// What happened to later turns without steps, as the end of a sentence: "a later turn was
    /// interrupted before any step". Empty if there were none.
    pub later: Box<str>,
}

/// A limit that may have ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The subject of a headline: `Step`, `Cost`.
    #[serde(deserialize_with = "stored::word")]
    pub subject: stored::Word,
    /// The limit's name in the list of limits: [`ToolLimit::name`](crate::model::ToolLimit::name).
    #[serde(deserialize_with = "stored::word")]
    pub limit: stored::Word,
}

words! {
    /// The kind of limit or condition that ended a run. The words are the same for all tools.
    pub enum EndKind {
        /// A number of steps, turns, messages or requests.
        Steps = "steps",
        /// Tokens.
        Tokens = "tokens",
        /// Money.
        Cost = "cost",
        /// Time.
        Time = "time",
        /// The context window.
        Context = "context",
        /// The run repeated itself.
        Loop = "loop",
    }
}

impl EndKind {
    /// Returns the kind of a limit in this unit.
    pub(crate) fn of_unit(unit: &str) -> Option<Self> {
        match unit {
            "steps" | "turns" | "rounds" | "messages" | "iterations" | "simulator steps"
            | "requests" | "model calls" => Some(Self::Steps),
            "tokens" => Some(Self::Tokens),
            "usd" => Some(Self::Cost),
            "ms" => Some(Self::Time),
            _ => None,
        }
    }
}

/// Returns whether a limit in this unit counts steps under a name of its tool.
pub(crate) fn counts_steps(unit: &str) -> bool {
    matches!(unit, "steps" | "iterations" | "simulator steps")
}

/// The headline of a run whose records disagree about its end.
const DISAGREE: &str = "The records disagree on how the run ended";

/// Whether two records describe the same end.
enum Likeness {
    Same,
    Other,
}

/// How a measured figure relates to the real one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// The figure is the real one.
    #[default]
    Exact,
    /// The real figure is equal or greater.
    AtLeast,
    /// The real figure is equal or less.
    AtMost,
}

impl Bound {
    /// Returns the words before a figure: "at least ", "at most ", or nothing.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::AtLeast => "at least ",
            Self::AtMost => "at most ",
        }
    }
}

/// A value measured against a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// The measured value.
    pub measured: f64,
    /// The limit.
    pub limit: f64,
    /// The unit of both values, in the plural.
    #[serde(deserialize_with = "stored::word")]
    pub unit: stored::Word,
}

impl Ended {
    /// Creates an end without figures.
    pub fn new(word: &str, headline: &str, outcome: Outcome, certainty: Certainty) -> Self {
        Self {
            word: word.into(),
            headline: headline.into(),
            outcome,
            certainty,
            detail: Box::default(),
            note: Box::default(),
            reward: Box::default(),
            is_sentence: false,
            measured: None,
            limit: None,
            unit: "",
            op: Op::AtLeast,
            bound: Bound::Exact,
            candidates: Vec::new(),
            also: Vec::new(),
            refuted: Vec::new(),
            file: "",
            event: None,
            later: Box::default(),
        }
    }

    /// Creates the end of a run whose model ended its turn, or whose last reply made no tool calls.
    /// `word` is the finish reason, or names the evidence.
    pub fn answered(word: &str) -> Self {
        Self::new(word, "Answered", Outcome::Completed, Certainty::Inferred)
    }

    /// Creates the end of a turn whose last reply has neither calls nor text, such as one of nothing
    /// but thoughts. `word` is the finish reason.
    pub fn unanswered(word: &str) -> Self {
        Self::new(word, Self::NO_ANSWER, Outcome::Unknown, Certainty::Inferred)
    }

    /// Creates the end of a run whose last reply made no tool calls and was truncated. `word` is
    /// the finish reason.
    pub fn cut_reply(word: &str) -> Self {
        Self::new(
            word,
            Self::CUT_REPLY,
            Outcome::Truncated,
            Certainty::Inferred,
        )
    }

    /// Creates the end of a run whose last reply is a refusal by the model or by a content filter.
    /// `word` is the finish reason.
    pub fn refused(word: &str) -> Self {
        Self::new(word, Self::REFUSED, Outcome::Failed, Certainty::Inferred)
    }

    /// Creates the end of a run whose last step's call of `tool` was cancelled, with nothing after
    /// it. `who` is "by the user" if a record says so, otherwise empty.
    pub fn cancelled_call(
        word: &str,
        who: &str,
        step: usize,
        tool: &str,
        certainty: Certainty,
    ) -> Self {
        let who = if who.is_empty() {
            String::new()
        } else {
            format!(" {who}")
        };
        let sentence =
            format!("Cancelled{who} in step {step} during a call to {tool}; no records follow");
        let end = Self::new(
            word,
            &format!("Cancelled{who}"),
            Outcome::Cancelled,
            certainty,
        );
        Self {
            is_sentence: true,
            ..end.detail(sentence)
        }
    }

    /// Creates the end of a run whose last step's call of `tool` wasn't permitted, with nothing after
    /// it. `word` is the finish reason of the reply.
    pub fn refused_call(word: &str, step: usize, tool: &str) -> Self {
        let end = Self::new(
            word,
            "Stopped at a refused call",
            Outcome::Cancelled,
            Certainty::Inferred,
        );
        Self {
            is_sentence: true,
            ..end.detail(format!(
                "Stopped in step {step} because a call of {tool} wasn't permitted; no records follow"
            ))
        }
    }

    /// The headline of a turn that completed without an answer.
    pub const NO_ANSWER: &str = "Turn ended without an answer";

    /// The headline of a run whose last reply was truncated.
    pub const CUT_REPLY: &str = "Reply token limit reached";

    /// The headline of a run whose last reply is a refusal.
    pub const REFUSED: &str = "The model refused to continue";

    /// The headline of a run whose context window was full.
    pub const CONTEXT_FULL: &str = "Context window full";

    /// The headline of a run that was stopped because it repeated itself.
    pub const LOOPED: &str = "Stopped by loop detection";

    /// Returns whether the details are the verdict in board's own words, so that they say nothing
    /// new beside it.
    pub fn restates_verdict(&self) -> bool {
        self.is_sentence && self.outcome == Outcome::Cancelled
    }

    /// Returns what the headline names.
    pub fn named(&self) -> Named<'_> {
        Named::of(&self.headline)
    }

    /// Returns the kind of limit or condition that ended the run, or `None` for all other ends.
    pub fn kind(&self) -> Option<EndKind> {
        match &*self.headline {
            Self::CONTEXT_FULL => return Some(EndKind::Context),
            Self::LOOPED => return Some(EndKind::Loop),
            _ if self.outcome != Outcome::Truncated => return None,
            _ => {}
        }
        let by_unit = EndKind::of_unit(self.unit);
        // If no figure has a unit, the headline names the limit.
        let begins = |words: &[&str]| words.iter().any(|word| self.headline.starts_with(word));
        by_unit.or_else(|| {
            let by_headline = [
                (
                    ["Step limit", "Turn limit", "Request limit", "Message limit"].as_slice(),
                    EndKind::Steps,
                ),
                (&["Token"], EndKind::Tokens),
                (&["Cost limit", "Cost budget"], EndKind::Cost),
                (&["Time limit", "Working time limit"], EndKind::Time),
            ];
            by_headline
                .into_iter()
                .find(|(words, _)| begins(words))
                .map(|(_, kind)| kind)
        })
    }

    /// Returns whether the last records show that the model answered, but none records the end of
    /// the run.
    pub fn is_inferred_answer(&self) -> bool {
        self.outcome == Outcome::Completed && self.certainty == Certainty::Inferred
    }

    /// Returns whether board inferred that the run died. Readers of a tool's own records never
    /// infer a failure without a recorded word.
    pub fn is_death(&self) -> bool {
        self.outcome == Outcome::Failed
            && self.certainty == Certainty::Inferred
            && self.word.is_empty()
    }

    /// The evidence of an answer in a trace without finish reasons: board's own words, as those
    /// below, instead of a word of the tool.
    pub const NO_CALLS: &str = "the last reply made no tool calls";
    /// The last reply made tool calls, and the run is over.
    pub(crate) const WITH_CALLS: &str = "a last reply with calls";
    /// The trace has no reply.
    pub(crate) const WITHOUT_REPLY: &str = "a sample without a reply";
    /// The trace is complete and records no reason.
    pub(crate) const UNBROKEN: &str = "no error or limit recorded";
    /// The trace is complete and records neither an error nor an answer.
    pub(crate) const NO_ERROR: &str = "no error";

    /// Returns whether the word is board's own description of the last records, and not a word
    /// in the trace. Also recognizes it in an exported trace.
    pub(crate) fn is_own_word(&self) -> bool {
        let own = [
            Self::NO_CALLS,
            Self::WITH_CALLS,
            Self::WITHOUT_REPLY,
            Self::UNBROKEN,
            Self::NO_ERROR,
        ];
        self.certainty == Certainty::Inferred && own.contains(&&*self.word)
    }

    /// Returns the measured value and its limit as a [`Reading`].
    pub fn reading(&self) -> Reading {
        Reading {
            measured: self.measured.and_then(Number::from_f64),
            limit: self.limit.and_then(Number::from_f64),
            op: self.limit.map(|_| self.op),
            unit: self.unit.into(),
            ..Reading::default()
        }
    }

    /// Combines the ends that several records state, the most important record first. Each comes
    /// with its source as the subject of a sentence.
    ///
    /// Returns the end and, if the records disagree, a sentence about it without a full stop. If
    /// they disagree even about the outcome, the end is unknown.
    pub fn agreed(told: Vec<(&str, Self)>) -> Option<(Self, Option<Box<str>>)> {
        let mut told = told.into_iter();
        let (mut who, mut end) = told.next()?;
        let mut conflict: Option<String> = None;
        for (other_who, other) in told {
            match end.compared_with(&other) {
                Likeness::Same if other.weight() > end.weight() => (who, end) = (other_who, other),
                Likeness::Same => {}
                Likeness::Other => {
                    let words = format!(
                        "{who} records {}, but {other_who} records {}",
                        end.name(),
                        other.name()
                    );
                    if end.outcome != other.outcome {
                        let disputed =
                            Self::new("", DISAGREE, Outcome::Unknown, Certainty::Unknown);
                        let event = end.event.or(other.event);
                        end = Self {
                            event,
                            ..disputed.detail(words.clone())
                        };
                    }
                    conflict.get_or_insert(words);
                }
            }
        }
        Some((end, conflict.map(Into::into)))
    }

    /// Returns whether two records describe the same end.
    fn compared_with(&self, other: &Self) -> Likeness {
        let is_disputed = |end: &Self| &*end.headline == DISAGREE;
        let kinds = self
            .kind()
            .zip(other.kind())
            .is_none_or(|(one, other)| one == other);
        // A program reports every failure with its exit code, so an exit code agrees with any of
        // them.
        let is_plain = |end: &Self| &*end.word == "NonZeroAgentExitCodeError";
        let is_bad = |end: &Self| {
            !matches!(
                end.outcome,
                Outcome::Completed | Outcome::Unknown | Outcome::Running
            )
        };
        let is_one = self.outcome == other.outcome && kinds;
        let is_report = is_plain(self) && is_bad(other) || is_plain(other) && is_bad(self);
        if is_disputed(self) || is_disputed(other) || is_one || is_report {
            Likeness::Same
        } else {
            Likeness::Other
        }
    }

    /// Ranks the end by information: a cause outranks an exit code, and figures outrank none.
    fn weight(&self) -> usize {
        let is_cause = &*self.word != "NonZeroAgentExitCodeError";
        let has_figures =
            self.measured.is_some() || self.limit.is_some() || !self.candidates.is_empty();
        usize::from(is_cause) * 4
            + usize::from(has_figures) * 2
            + usize::from(!self.detail.is_empty())
    }

    /// Returns the tool's word, or the headline if it has none.
    fn name(&self) -> &str {
        if self.word.is_empty() {
            &self.headline
        } else {
            &self.word
        }
    }

    /// Sets the event that records the end.
    #[must_use]
    pub fn at_event(self, event: usize) -> Self {
        Self {
            event: Some(event),
            ..self
        }
    }

    /// Sets the tool's word.
    #[must_use]
    pub fn word(self, word: impl Into<Box<str>>) -> Self {
        Self {
            word: word.into(),
            ..self
        }
    }

    /// Sets the details from the tool.
    #[must_use]
    pub fn detail(self, detail: impl Into<Box<str>>) -> Self {
        Self {
            detail: detail.into(),
            ..self
        }
    }

    /// Sets the related fact.
    #[must_use]
    pub fn note(self, note: impl Into<Box<str>>) -> Self {
        Self {
            note: note.into(),
            ..self
        }
    }

    /// Sets the reward, in words.
    #[must_use]
    pub fn reward(self, reward: impl Into<Box<str>>) -> Self {
        Self {
            reward: reward.into(),
            ..self
        }
    }

    /// Returns the details, the related fact and the reward, joined by semicolons.
    pub fn words(&self) -> String {
        let all = [&self.detail, &self.note, &self.reward]
            .into_iter()
            .filter(|words| !words.is_empty());
        all.map(|words| &**words).collect::<Vec<_>>().join("; ")
    }

    /// Sets the measured value and the limit.
    #[must_use]
    pub fn compare(self, measured: Option<f64>, limit: Option<f64>, unit: &'static str) -> Self {
        Self {
            measured,
            limit,
            unit,
            ..self
        }
    }

    /// Sets the limits that may have ended the run. Each pair is the subject of a headline and the
    /// limit's name.
    #[must_use]
    pub fn at(self, limits: &[(&'static str, &'static str)]) -> Self {
        let candidates = limits
            .iter()
            .map(|(subject, limit)| Candidate { subject, limit });
        Self {
            candidates: candidates.collect(),
            ..self
        }
    }

    /// Completes the end with the run's limits. If a limit has no measured value, `spent` looks up
    /// what the records say the run used in a unit.
    pub fn settle(&mut self, limits: &[ToolLimit], spent: impl Fn(&str) -> Option<f64>) {
        let limits: Vec<(&'static str, ToolLimit)> = self.candidates(limits);
        let limits = limits.into_iter().map(|(subject, limit)| {
            let used = limit.used.or_else(|| spent(limit.unit));
            (subject, ToolLimit { used, ..limit })
        });
        let limits: Vec<(&'static str, ToolLimit)> = limits.collect();
        let [(_, only)] = limits.as_slice() else {
            return self.settle_among(&limits);
        };
        self.op = only.op;
        let limit = self.limit.unwrap_or(only.limit);
        let is_bound_of_use = |used: &f64| match only.bound {
            Bound::Exact => true,
            Bound::AtLeast => only.op.holds(*used, limit),
            Bound::AtMost => !only.op.holds(*used, limit),
        };
        if self.measured.is_none()
            && let Some(used) = only.used.filter(is_bound_of_use)
        {
            (self.measured, self.bound) = (Some(used), only.bound);
        }
        // A total never shrinks. If it's below the limit now, it contradicts the earlier
        // measurement.
        let is_total = matches!(only.unit, "tokens" | "usd");
        if let (Some(measured), Some(used), true) =
            (self.measured, only.used, is_total && only.unit == self.unit)
            && only.op.holds(measured, limit)
            && Reading::compare(used, only.op, limit, only.unit).is_refuted()
            && only.bound != Bound::AtLeast
        {
            self.refuted = vec![Reached {
                measured: used,
                limit,
                unit: only.unit,
            }];
        }
        // The end holds no limit on which the records disagree, so fill it in here.
        if !self.candidates.is_empty() && self.unit.is_empty() {
            (self.limit, self.unit) = (Some(limit), only.unit);
        }
    }

    /// Names the limits that were reached. If the records show that none was, keeps them all in
    /// `refuted`.
    fn settle_among(&mut self, limits: &[(&'static str, ToolLimit)]) {
        let pair = |limit: &ToolLimit| {
            limit.used.map(|measured| Reached {
                measured,
                limit: limit.limit,
                unit: limit.unit,
            })
        };
        let held = limits
            .iter()
            .filter(|(_, limit)| limit.is_reached() == Some(true));
        let held: Vec<&(&str, ToolLimit)> = held.collect();
        if held.is_empty() {
            let all_below = limits
                .iter()
                .all(|(_, limit)| limit.is_reached() == Some(false));
            self.refuted = limits
                .iter()
                .filter(|_| all_below)
                .filter_map(|(_, limit)| pair(limit))
                .collect();
            return;
        }
        let names: Vec<String> = held
            .iter()
            .enumerate()
            .map(|(at, (name, _))| {
                if at == 0 {
                    (*name).to_owned()
                } else {
                    name.to_lowercase()
                }
            })
            .collect();
        self.headline = match names.as_slice() {
            [names @ .., last] if !names.is_empty() => {
                format!("{} and {last} limit reached", names.join(", "))
            }
            _ => format!("{} limit reached", names.concat()),
        }
        .into();
        if let Some((_, first)) = held.first() {
            (self.measured, self.limit, self.unit) = (first.used, Some(first.limit), first.unit);
            (self.op, self.bound) = (first.op, first.bound);
        }
        self.also = held
            .iter()
            .skip(1)
            .filter_map(|(_, limit)| pair(limit))
            .collect();
    }

    /// Returns the limits that may have ended the run. If the end names none, returns the only one
    /// with the same unit.
    fn candidates(&self, limits: &[ToolLimit]) -> Vec<(&'static str, ToolLimit)> {
        if !self.candidates.is_empty() {
            let named = |candidate: &Candidate| {
                let limit = limits.iter().find(|limit| limit.name == candidate.limit)?;
                Some((candidate.subject, limit.clone()))
            };
            return self.candidates.iter().filter_map(named).collect();
        }
        let is_own = |limit: &&ToolLimit| self.limit.is_some() && limit.unit == self.unit;
        let own: Vec<&ToolLimit> = limits.iter().filter(is_own).collect();
        match own.as_slice() {
            [only] => vec![("", (*only).clone())],
            _ => Vec::new(),
        }
    }
}

/// A limit set for another tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolLimit {
    /// The tool's name for the limit.
    #[serde(deserialize_with = "stored::word")]
    pub name: stored::Word,
    /// The value of the limit.
    pub limit: f64,
    /// Its unit, in the plural: `steps`, `turns`, `messages`, `usd`, `tokens`, `ms`.
    #[serde(deserialize_with = "stored::word")]
    pub unit: stored::Word,
    /// The amount used, if the trace records it. Otherwise board's own count is shown.
    pub used: Option<f64>,
    /// Whether `used` is exact or only a bound.
    pub bound: Bound,
    /// The operator that the tool compares the two with.
    pub op: Op,
}

impl ToolLimit {
    /// Returns the limit with another operator.
    #[must_use]
    pub fn compared(self, op: Op) -> Self {
        Self { op, ..self }
    }

    /// Returns the limit with `used` as a bound only.
    #[must_use]
    pub fn bounded(self, bound: Bound) -> Self {
        Self { bound, ..self }
    }

    /// Returns whether the recorded use reaches the limit, or `None` if unknown.
    pub fn is_reached(&self) -> Option<bool> {
        self.is_reached_by(self.used?, self.bound)
    }

    /// Returns whether the given use reaches the limit, or `None` if unknown.
    pub fn is_reached_by(&self, used: f64, bound: Bound) -> Option<bool> {
        let reading = Reading::compare(used, self.op, self.limit, self.unit);
        match (bound, self.op.holds(used, self.limit)) {
            (Bound::AtMost, true) | (Bound::AtLeast, false) => None,
            (_, true) => Some(true),
            // Rounding may hide that the limit was reached.
            (_, false) => reading.is_refuted().then_some(false),
        }
    }
}
