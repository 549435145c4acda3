//! Collects the facts about one step from the records of another tool.
//!
//! A reader turns each record into a [`Part`], and [`Part::add`] merges the parts of a step.
//! [`head`](Part::head) is the step as the index keeps it. [`line`](Part::line) is the step as JSON
//! in the layout of this crate's own steps, for pages and exports. Values that a tool wrote as JSON
//! stay JSON text.

mod head;
mod line;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::num::NonZeroU8;

pub(super) use crate::model::json::quoted;
use crate::model::json::walk;
use crate::model::step::{DECLINED, FAILED, NO_ANSWER, NOT_RECORDED, Usage};

pub(super) use line::{line, line_of};

/// At most this many calls, results, and other items of one kind are read per step. Further ones
/// are only counted. No known model makes a tenth as many calls in one reply.
pub(in crate::format) const MAX_PIECES: usize = 1_024;
/// At most this many texts of one kind are read per step.
const MAX_TEXTS: usize = 16 * MAX_PIECES;

/// The part of a step that one record contains. Texts are decoded, except in fields that are
/// documented as JSON.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// The agent that acts, if the run has several.
    pub agent: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Why the reply ended, in the provider's word.
    pub finish: Option<String>,
    /// The model's thoughts.
    pub thought: Vec<String>,
    /// The model's texts.
    pub text: Vec<String>,
    /// Texts that continue the last text of an earlier record.
    pub tail: Vec<String>,
    /// Whether the record omits the model's text.
    pub is_text_unknown: bool,
    /// The tool calls.
    pub calls: Vec<CallDraft>,
    /// The tool results. Results of calls that aren't the step's own are ignored.
    pub answers: Vec<Answer>,
    /// Further records of a call next to its result, or of what the step's only call did, such as a
    /// command of a script. They aren't results themselves.
    pub beside: Vec<Answer>,
    /// The changed state keys with their old and new values as JSON. A value is `None` if it isn't
    /// recorded.
    pub changes: Vec<(String, Option<String>, Option<String>)>,
    /// Unified diffs of changed files, each with the index of its change in `changes`.
    pub diffs: Vec<(usize, String)>,
    /// The scores of the step: name, value, explanation.
    pub scores: Vec<(String, Option<f64>, Option<String>)>,
    /// The tokens of the request.
    pub tokens: Option<Tokens>,
    /// Whether the tokens are recorded as an estimate.
    pub tokens_estimated: bool,
    /// The tokens of other models in the same request, by model name. Not included in `tokens`.
    pub others: Vec<(String, Tokens)>,
    /// The cost in US dollars.
    pub cost: Option<f64>,
    /// An error of the step itself, such as a failed model request.
    pub error: Option<String>,
    /// Whether it is the error of a reply that the model began but didn't complete.
    pub is_incomplete: bool,
    /// Whether it is a reply within a call of another step: by a sub-agent whose replies are
    /// interleaved with those of the run.
    pub is_nested: bool,
    /// Whether the record contains the whole step and so replaces earlier parts.
    pub whole: bool,
    /// The number of calls, results and other items that were dropped because the step is full.
    pub beyond: usize,
}

/// A tool call.
#[derive(Debug, Clone, Default)]
pub struct CallDraft {
    /// Its id, which its result names. In formats without ids, the position of the call among those
    /// of the step.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as JSON.
    pub args: String,
}

/// A tool result.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The id of the call. Empty for the step's next call without a result.
    pub call: String,
    /// `success`, `error`, `cancelled`, or the tool's own word. `None` if the format doesn't record
    /// it.
    pub status: Option<&'static str>,
    /// The output for the model, as JSON.
    pub output: String,
    /// The error message.
    pub error: Option<String>,
    /// The exit code.
    pub exit: Option<i64>,
    /// The duration in milliseconds.
    pub ms: Option<f64>,
}

/// The tokens of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All input tokens, including cached ones.
    pub input: Option<u64>,
    /// The cached tokens among the input.
    pub cached: Option<u64>,
    /// All output tokens, including reasoning tokens.
    pub output: Option<u64>,
    /// The reasoning tokens among the output.
    pub reasoning: Option<u64>,
    /// The tokens among the input that were written to a cache.
    pub written: Option<u64>,
    /// The tokens among `written` that the cache keeps for an hour.
    pub written_1h: Option<u64>,
}

impl Tokens {
    /// Returns the sum of input and output, if both are known.
    pub fn sum(self) -> Option<u64> {
        Some(self.input?.saturating_add(self.output?))
    }

    /// Returns the tokens, or `None` if all are zero: programs write zeros if the provider reported
    /// no usage.
    pub fn reported(self) -> Option<Self> {
        let counts = [self.input, self.cached, self.output, self.written];
        let is_used = counts.into_iter().flatten().any(|tokens| tokens > 0);
        is_used.then_some(self)
    }

    /// Adds the cached tokens and those written to the cache to the input, for tools that count them
    /// separately.
    pub fn with_cache_as_input(self) -> Self {
        let beside = [self.cached, self.written].into_iter().flatten();
        let with = |input| beside.fold(input, u64::saturating_add);
        Self {
            input: self.input.map(with),
            ..self
        }
    }

    /// Returns the sum of both. If one of them doesn't record a value, the sum is unknown, except
    /// for the parts of input and output, which needn't be recorded.
    fn plus(self, more: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let either = |a: Option<u64>, b: Option<u64>| both(a, b).or(a).or(b);
        Self {
            input: both(self.input, more.input),
            cached: either(self.cached, more.cached),
            output: both(self.output, more.output),
            reasoning: either(self.reasoning, more.reasoning),
            written: either(self.written, more.written),
            written_1h: either(self.written_1h, more.written_1h),
        }
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input,
            cached: tokens.cached,
            output: tokens.output,
            reasoning: tokens.reasoning,
            written: tokens.written,
            written_1h: tokens.written_1h,
        }
    }
}

impl Part {
    /// Returns the pairs of results in this part and in `more` that contradict each other about the
    /// same call.
    pub(super) fn contrary<'a>(
        &'a self,
        more: &'a Part,
    ) -> impl Iterator<Item = (&'a Answer, &'a Answer)> {
        let known = |new: &Answer| {
            self.answers
                .iter()
                .find(|known| !new.call.is_empty() && known.call == new.call)
        };
        let pairs = more
            .answers
            .iter()
            .filter(|_| !more.whole)
            .filter_map(move |new| Some((known(new)?, new)));
        pairs.filter(|(known, new)| {
            known
                .status
                .zip(new.status)
                .is_some_and(|(known, new)| known != new)
        })
    }

    /// Merges the part of another record of the same step. If a fact is repeated, the last record
    /// counts.
    pub fn add(&mut self, more: Part) {
        fn replace<T>(known: &mut Option<T>, more: Option<T>) {
            *known = more.or(known.take());
        }
        if more.whole {
            *self = more;
            self.bound();
            return;
        }
        self.beyond += more.beyond;
        replace(&mut self.agent, more.agent);
        replace(&mut self.model, more.model);
        replace(&mut self.finish, more.finish);
        // A later record of the tokens covers all models.
        if more.tokens.is_some() {
            self.others = more.others;
            self.tokens_estimated = more.tokens_estimated;
        }
        replace(&mut self.tokens, more.tokens);
        replace(&mut self.cost, more.cost);
        replace(&mut self.error, more.error);
        self.is_text_unknown |= more.is_text_unknown;
        self.is_incomplete |= more.is_incomplete;
        self.is_nested |= more.is_nested;
        self.thought.extend(more.thought);
        self.text.extend(more.text);
        for tail in more.tail {
            match self.text.last_mut() {
                Some(text) => text.push_str(&tail),
                None => self.text.push(tail),
            }
        }
        for call in more.calls {
            let is_full = self.calls.len() >= MAX_PIECES;
            match self
                .calls
                .iter_mut()
                .find(|known| !call.id.is_empty() && known.id == call.id)
            {
                // A repeated call may lack its arguments.
                Some(known) if call.args.is_empty() && !known.args.is_empty() => {}
                Some(known) => *known = call,
                None if is_full => self.beyond += 1,
                None => self.calls.push(call),
            }
        }
        for answer in more.answers {
            let is_full = self.answers.len() >= MAX_PIECES;
            match self
                .answers
                .iter_mut()
                .find(|known| !answer.call.is_empty() && known.call == answer.call)
            {
                Some(known) => known.merge(answer),
                None if is_full => self.beyond += 1,
                None => self.answers.push(answer),
            }
        }
        self.beside.extend(more.beside);
        let before = self.changes.len();
        self.diffs
            .extend(more.diffs.into_iter().map(|(at, diff)| (before + at, diff)));
        self.changes.extend(more.changes);
        self.scores.extend(more.scores);
        self.bound();
    }

    /// Drops what exceeds the limits of a step, and counts it.
    fn bound(&mut self) {
        fn to<T>(list: &mut Vec<T>, most: usize) -> usize {
            let beyond = list.len().saturating_sub(most);
            list.truncate(most);
            beyond
        }
        self.beyond += to(&mut self.calls, MAX_PIECES) + to(&mut self.answers, MAX_PIECES);
        self.beyond += to(&mut self.beside, MAX_PIECES) + to(&mut self.scores, MAX_PIECES);
        self.beyond += to(&mut self.changes, MAX_PIECES);
        self.beyond += to(&mut self.thought, MAX_TEXTS) + to(&mut self.text, MAX_TEXTS);
    }

    /// Replaces each string that is exactly `reference` by `text`. `reference` must be a word that
    /// needs no escaping in JSON.
    pub(super) fn replace(&mut self, reference: &str, text: &str) {
        let in_json = [quoted(reference), quoted(text)];
        let words = |words: &mut String| {
            if words == reference {
                text.clone_into(words);
            }
        };
        let json = |json: &mut String| {
            if json.contains(&*in_json[0]) {
                *json = json.replace(&*in_json[0], &in_json[1]);
            }
        };
        [&mut self.thought, &mut self.text, &mut self.tail]
            .into_iter()
            .flatten()
            .for_each(words);
        self.error.iter_mut().for_each(words);
        self.calls.iter_mut().for_each(|call| json(&mut call.args));
        for answer in self.answers.iter_mut().chain(&mut self.beside) {
            json(&mut answer.output);
            answer.error.iter_mut().for_each(words);
        }
        for (_, before, after) in &mut self.changes {
            before.iter_mut().chain(after).for_each(json);
        }
        self.scores
            .iter_mut()
            .filter_map(|(.., reason)| reason.as_mut())
            .for_each(words);
    }

    /// Returns the tokens of all its models.
    pub(super) fn all_tokens(&self) -> Tokens {
        let own = self.tokens.unwrap_or_default();
        self.others
            .iter()
            .fold(own, |sum, (_, tokens)| sum.plus(*tokens))
    }

    /// Returns its approximate size in bytes.
    pub(super) fn len(&self) -> usize {
        let texts = self
            .thought
            .iter()
            .chain(&self.text)
            .chain(&self.tail)
            .map(String::len);
        let calls = self.calls.iter().map(|call| call.args.len());
        let answers = self.answers.iter().map(|answer| answer.output.len());
        let changes = self
            .changes
            .iter()
            .flat_map(|(_, before, after)| before.iter().chain(after))
            .map(String::len);
        let diffs = self.diffs.iter().map(|(_, diff)| diff.len());
        texts
            .chain(calls)
            .chain(answers)
            .chain(changes)
            .chain(diffs)
            .sum()
    }

    /// Gives back memory that short lists reserve for more items. A draft holds thousands of steps
    /// with one call or text each.
    pub(super) fn shrink(&mut self) {
        fn shrink<T>(list: &mut Vec<T>) {
            if list.len() < 4 {
                list.shrink_to_fit();
            }
        }
        shrink(&mut self.thought);
        shrink(&mut self.text);
        shrink(&mut self.calls);
        shrink(&mut self.answers);
        shrink(&mut self.beside);
        shrink(&mut self.changes);
        shrink(&mut self.scores);
    }

    /// Returns approximately how many bytes it takes in memory.
    pub(super) fn weight(&self) -> usize {
        let texts = self.thought.len() + self.text.len() + self.tail.len();
        let pieces = self.calls.len()
            + self.answers.len()
            + self.beside.len()
            + self.changes.len()
            + self.scores.len();
        self.len() + texts * 48 + pieces * 256
    }

    /// Returns the 1-based position of the first call without a result.
    pub(super) fn first_unanswered(&self) -> Option<NonZeroU8> {
        let at = (0..self.calls.len()).find(|at| self.answer_to(*at).is_none())?;
        NonZeroU8::new(u8::try_from(at + 1).ok()?)
    }

    /// Returns what the step decided: `act`, `final`, `thought` or [`NOT_RECORDED`]. `None` if it
    /// decided nothing.
    fn mode(&self) -> Option<&'static str> {
        let has_thought = !is_empty(&self.thought) || self.finish.is_some();
        let is_cut_short = self
            .finish
            .as_deref()
            .is_some_and(|finish| is_at_limit(finish) || is_refusal(finish));
        match (self.calls.is_empty(), is_empty(&self.text)) {
            (false, _) => Some("act"),
            // A reply isn't an answer if the tool rejected it, if it was truncated or refused, or
            // if a result followed.
            (true, false) if self.error.is_some() || !self.answers.is_empty() || is_cut_short => {
                Some("thought")
            }
            (true, false) => Some("final"),
            (true, true) if has_thought => Some("thought"),
            // An omitted text isn't an empty one.
            (true, true) => self.is_text_unknown.then_some(NOT_RECORDED),
        }
    }

    /// Returns why the step decided as it did: the thought, or the text if the step has no thought
    /// and didn't answer.
    fn rationale(&self, mode: &str) -> Option<Cow<'_, str>> {
        let texts = if mode != "final" && is_empty(&self.thought) {
            &self.text
        } else {
            &self.thought
        };
        Some(joined(texts)).filter(|text| !text.is_empty())
    }

    /// Returns whether the model wrote any text.
    pub fn has_text(&self) -> bool {
        self.text.iter().any(|text| !text.trim().is_empty())
    }

    /// Returns whether the step is a text without calls, after which the model waits for a prompt.
    pub fn is_answer(&self) -> bool {
        self.calls.is_empty() && !self.text.is_empty()
    }

    /// Returns whether a result records that its call failed.
    pub fn has_failed(&self) -> bool {
        self.answers
            .iter()
            .any(|answer| answer.status == Some("error"))
    }

    /// Returns the number of calls without a result.
    pub fn unanswered(&self) -> usize {
        (0..self.calls.len())
            .filter(|at| self.answer_to(*at).is_none())
            .count()
    }

    /// Returns the result of the call at this position: by the call's id, otherwise by its position
    /// among the results without an id.
    fn answer_to(&self, at: usize) -> Option<&Answer> {
        let call = self.calls.get(at)?;
        let named = self
            .answers
            .iter()
            .find(|answer| !call.id.is_empty() && answer.call == call.id);
        named.or_else(|| {
            self.answers
                .iter()
                .filter(|answer| answer.call.is_empty())
                .nth(at)
        })
    }

    /// Returns the result of call `at`, merged with its further records. `calls_of` contains the
    /// call of each item in `beside`.
    fn result_of(&self, at: usize, calls_of: &[Option<usize>]) -> Option<Cow<'_, Answer>> {
        let answer = self.answer_to(at)?;
        let mut result = Cow::Borrowed(answer);
        if calls_of.contains(&Some(at)) {
            let mut merged = Answer::default();
            for (beside, _) in self
                .beside
                .iter()
                .zip(calls_of)
                .filter(|(_, of)| **of == Some(at))
            {
                let mut beside = beside.clone();
                // The success of a part of a call isn't the success of the call.
                if beside.status == Some("success") && !self.is_named_by(at, &beside) {
                    beside.status = None;
                }
                merged.merge(beside);
            }
            merged.merge(answer.clone());
            result = Cow::Owned(merged);
        }
        // The text that the model was given says more than the program's placeholder.
        if matches!(result.error.as_deref(), Some(FAILED | DECLINED))
            && let Some(words) = text(Some(&result.output)).filter(|words| !words.is_empty())
        {
            result.to_mut().error = Some(words);
        }
        Some(result)
    }

    /// Returns the results of the step, each with its tool: those of the calls in their order, then
    /// those that belong to no call. A call without a result has one with the status [`NO_ANSWER`],
    /// unless no call has a result.
    fn results(&self) -> Vec<(Option<&str>, Cow<'_, Answer>)> {
        let calls_of: Vec<_> = self
            .beside
            .iter()
            .map(|beside| self.beside_of(beside))
            .collect();
        let mut results = Vec::new();
        if self.unanswered() < self.calls.len() {
            for (at, call) in self.calls.iter().enumerate() {
                let result = self.result_of(at, &calls_of).unwrap_or_else(|| {
                    Cow::Owned(Answer {
                        status: Some(NO_ANSWER),
                        ..Answer::default()
                    })
                });
                results.push((Some(&*call.name), result));
            }
        }
        // Results without an id belong to the calls by position if a call has no result by its id.
        let is_named = |call: &CallDraft| {
            self.answers
                .iter()
                .any(|answer| !call.id.is_empty() && answer.call == call.id)
        };
        let taken = if self.calls.iter().all(is_named) {
            0
        } else {
            self.calls.len()
        };
        let spare = self
            .answers
            .iter()
            .filter(|answer| answer.call.is_empty())
            .skip(taken);
        // A failure counts even if no record says which call failed.
        let failed = self
            .beside
            .iter()
            .zip(&calls_of)
            .filter(|(beside, of)| of.is_none() && beside.error.is_some())
            .map(|(beside, _)| beside);
        results.extend(
            spare
                .chain(failed)
                .map(|answer| (None, Cow::Borrowed(answer))),
        );
        results
    }

    /// Returns whether a record has the id of call `at`.
    fn is_named_by(&self, at: usize, beside: &Answer) -> bool {
        let call = self.calls.get(at);
        call.is_some_and(|call| !call.id.is_empty() && call.id == beside.call)
    }

    /// Returns the position of the call that an item in `beside` belongs to.
    fn beside_of(&self, beside: &Answer) -> Option<usize> {
        let named = self
            .calls
            .iter()
            .position(|call| !call.id.is_empty() && call.id == beside.call);
        named.or((self.calls.len() == 1).then_some(0))
    }
}

/// Joins texts with a blank line between them.
fn joined(texts: &[String]) -> Cow<'_, str> {
    match texts {
        [text] => Cow::Borrowed(text),
        texts => Cow::Owned(texts.join("\n\n")),
    }
}

/// Returns whether [`joined`] returns an empty text.
fn is_empty(texts: &[String]) -> bool {
    match texts {
        [] => true,
        [text] => text.is_empty(),
        _ => false,
    }
}

/// Returns whether a reply ended at a token limit, by the provider's word.
pub(crate) fn is_at_limit(finish: &str) -> bool {
    let words = [
        "length",
        "max_tokens",
        "max_output_tokens",
        "model_length",
        "model_context_window_exceeded",
    ];
    words.iter().any(|word| word.eq_ignore_ascii_case(finish))
}

/// Returns whether a reply ended because the model refused or a filter blocked it, by the
/// provider's word.
pub(super) fn is_refusal(finish: &str) -> bool {
    let words = [
        "refusal",
        "content_filter",
        "safety",
        "prohibited_content",
        "blocklist",
        "spii",
    ];
    words
        .iter()
        .any(|word| word.eq_ignore_ascii_case(&finish.replace('-', "_")))
}

impl CallDraft {
    /// Returns the arguments as a JSON object.
    fn args_json(&self) -> Cow<'_, str> {
        match &*self.args {
            "" => Cow::Borrowed("{}"),
            args if args.starts_with('{') => Cow::Borrowed(args),
            // Arguments of another type are kept as a member, so that different calls stay
            // different.
            args => Cow::Owned(format!("{{\"arguments\":{args}}}")),
        }
    }
}

impl Answer {
    /// Returns the output as JSON.
    fn output_json(&self) -> &str {
        if self.output.is_empty() {
            "null"
        } else {
            &self.output
        }
    }

    /// Returns how long the call took, in milliseconds. A negative time is unknown.
    fn known_ms(&self) -> Option<f64> {
        self.ms.filter(|ms| *ms >= 0.0)
    }

    /// Merges another record of the same call. The more serious status counts, so if one record
    /// reports a failure and another only the end, the call failed.
    fn merge(&mut self, more: Answer) {
        let weight = |status: Option<&str>| match status {
            Some("cancelled") => 4,
            Some("error") => 3,
            Some("success") => 1,
            Some(_) => 2,
            None => 0,
        };
        if weight(more.status) >= weight(self.status) {
            self.status = more.status;
        }
        if !more.output.is_empty() {
            self.output = more.output;
        }
        self.error = more.error.or(self.error.take());
        self.exit = more.exit.or(self.exit);
        self.ms = more.ms.or(self.ms);
    }
}

/// Returns the text of a JSON string. If an escape in it isn't valid, returns the text as written.
pub(super) fn text(value: Option<&str>) -> Option<String> {
    let value = value?;
    walk::string(value)
        .map(std::borrow::Cow::into_owned)
        .or_else(|| {
            let inner = value.strip_prefix('"')?.strip_suffix('"')?;
            Some(inner.to_owned())
        })
}
