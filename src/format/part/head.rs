//! Builds the index entry of a step from its [`Part`].
//!
//! The entry equals that of the step's [line](Part::line), but is built without writing and parsing
//! JSON, except for small texts.

use std::borrow::Cow;

use super::{Answer, Part, joined, quoted};
use crate::format::qitos;
use crate::model::issue::Remark;
use crate::model::names::cut_at;
use crate::model::repair::has_half_pair;
use crate::model::step::{Call, Changes, Decision, Effort, NOT_RECORDED, Outcome, Pointer};
use crate::model::step::{Step, Usage, Value};
use crate::model::{Format, Names, StepHead};

/// The index shows one line of a rationale, so that the rest of it needn't be escaped. The line is
/// shorter, even if each of its characters is escaped.
const MAX_RATIONALE_BYTES: usize = 4 << 10;

/// The JSON texts of a step that its [`Part`] doesn't hold.
#[derive(Debug)]
struct Texts<'p> {
    args: Vec<Cow<'p, str>>,
    results: Vec<ResultTexts<'p>>,
    /// The answer of a step that answers.
    answer: Option<String>,
    /// The rationale of a step that neither acts nor answers.
    rationale: Option<String>,
    changes: Option<String>,
    critics: Option<String>,
    error: Option<String>,
}

#[derive(Debug)]
struct ResultTexts<'p> {
    tool: Option<&'p str>,
    answer: Cow<'p, Answer>,
    error: Option<String>,
}

impl<'p> Texts<'p> {
    fn of(part: &'p Part) -> Self {
        let mode = part.mode().unwrap_or_default();
        let results = part.results().into_iter();
        Self {
            args: part.calls.iter().map(|call| call.args_json()).collect(),
            results: results
                .map(|(tool, answer)| ResultTexts {
                    tool,
                    error: answer.error.as_deref().map(quoted),
                    answer,
                })
                .collect(),
            answer: (mode == "final").then(|| quoted(&joined(&part.text))),
            rationale: part
                .rationale(mode)
                .filter(|_| !matches!(mode, "act" | "final"))
                .map(|text| quoted(cut_at(&text, MAX_RATIONALE_BYTES))),
            changes: part.changes_json(),
            critics: part.critics_json(),
            error: part.error_json(),
        }
    }
}

impl Texts<'_> {
    /// Returns whether JSON that a tool wrote into a string has half of a surrogate pair. The
    /// record with the string is valid, so it wasn't repaired.
    fn has_half_pair(&self) -> bool {
        let args = self.args.iter().map(|args| &**args);
        let outputs = self.results.iter().map(|result| &*result.answer.output);
        args.chain(outputs)
            .chain(self.changes.as_deref())
            .any(has_half_pair)
    }
}

impl Part {
    /// Returns step `n` as the index keeps it, and the repairs that its line needs.
    pub fn head(&self, n: usize, names: &mut Names) -> (StepHead, Vec<Remark>) {
        let texts = Texts::of(self);
        if texts.has_half_pair() {
            return qitos::step_head(self.line(n).as_bytes(), names);
        }
        let mut head = StepHead::default();
        head.absorb(&self.step(n, &texts), names);
        (head, Vec::new())
    }

    /// Returns the fields of step `n` that the index reads.
    fn step<'a>(&'a self, n: usize, texts: &'a Texts<'a>) -> Step<'a> {
        let mode = self.mode();
        let decision = mode.map(|mode| Decision {
            value: Value::default(),
            mode: Some(Cow::Borrowed(mode)),
            rationale: texts.rationale.as_deref().map(value),
            answer: texts.answer.as_deref().map(value),
            handoff: None,
            is_misread: false,
            candidates: None,
            meta: None,
        });
        let calls = self.calls.iter().zip(&texts.args);
        let calls = calls.map(|(call, args)| Call {
            value: value("{}"),
            name: word(&call.name),
            args: Some(value(args)),
            max_retries: None,
            timeout_s: None,
        });
        let critics = texts.critics.as_deref();
        Step {
            id: i64::try_from(n).ok(),
            agent: self.agent.as_deref().and_then(word),
            decision,
            calls: calls.collect(),
            results: texts.results.iter().map(ResultTexts::outcome).collect(),
            critics: critics.map(qitos::critics).unwrap_or_default(),
            changes: texts.changes.as_deref().map(value).map(Changes),
            counters: Format::UNKNOWN.counters,
            model: self.model.as_deref().and_then(word),
            finish: self.finish.as_deref().and_then(word),
            cost_usd: self.cost.filter(|cost| cost.is_finite() && *cost >= 0.0),
            error: texts.error.as_deref().map(value),
            ..self.usage_of_step()
        }
    }

    /// Returns a step with the tokens alone.
    fn usage_of_step(&self) -> Step<'_> {
        if self.tokens.is_none() {
            return Step::default();
        }
        let all = self.all_tokens();
        // If it is unknown how much was written, it is unknown what the step took.
        let output = count(all.output);
        let input = count(all.input).filter(|_| all.output.is_some());
        let others = self.others.iter().filter_map(|(model, tokens)| {
            let usage = Usage {
                input: count(tokens.input),
                cached: count(tokens.cached),
                output: count(tokens.output),
                reasoning: None,
                written: count(tokens.written),
                written_1h: count(tokens.written_1h),
            };
            Some((word(model)?, usage))
        });
        Step {
            tokens: input
                .map(|input| input + output.unwrap_or(0))
                .filter(|tokens| *tokens > 0),
            tokens_estimated: self.tokens_estimated,
            usage: Usage {
                input,
                cached: count(all.cached),
                output,
                reasoning: count(all.reasoning),
                written: count(all.written),
                written_1h: count(all.written_1h),
            },
            other_models: others.collect(),
            ..Step::default()
        }
    }
}

impl ResultTexts<'_> {
    fn outcome(&self) -> Outcome<'_> {
        let answer = &*self.answer;
        let status = answer.status.unwrap_or(NOT_RECORDED);
        let error = answer.error.as_deref().zip(self.error.as_deref());
        let outcome = qitos::outcome_of(status, answer.output_json(), error, answer.exit);
        Outcome {
            tool: self.tool.and_then(word),
            effort: Effort {
                latency_ms: answer.known_ms().filter(|ms| ms.is_finite()),
                ..Effort::default()
            },
            ..outcome
        }
    }
}

fn value(text: &str) -> Value<'_> {
    Value {
        text,
        at: Pointer::default(),
    }
}

/// Returns a name unless it is empty.
fn word(text: &str) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(text)).filter(|text| !text.is_empty())
}

/// Returns a count unless it is too large for a JSON integer.
fn count(number: Option<u64>) -> Option<u64> {
    number.filter(|number| i64::try_from(*number).is_ok())
}
