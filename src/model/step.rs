//! What is kept of a step line? The place of the line and what lists, charts and search need.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::value::RawValue;

use super::fingerprint::{Kept, Print, of_line, of_state};
use super::json::Members;
use super::loose::{Keys, Many, Maybe, Scalar, wire};
use super::names::capped;
use super::recorded::RecordedFacts;
use super::repair::{Remark, object, read_object};
use super::{IssueKind, Names, Span, Symbol};

/// A call in a list is cut to about this many bytes; the step itself shows all of it.
const MAX_CALL_BYTES: usize = 160;
/// An error or a critic's reason in a list is cut to this many bytes.
const MAX_NOTE_BYTES: usize = 240;
/// A change whose JSON is longer than this many bytes is not compared with the step before.
const MAX_LINKED_BYTES: usize = 1 << 16;
/// At most this many critics or tools of one step are indexed; the line itself shows all.
const MAX_INDEXED: usize = 64;
/// At most this many changed keys of one step are indexed, two bytes each; whoever asks for the state reads the line of
/// a step that changed more.
pub const MAX_CHANGED: usize = 1_024;

/// One line of `steps.jsonl` as the index keeps it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepHead {
    /// Where the line lies.
    pub span: Span,
    /// The line's number in its file, counted from 1; blank lines count here.
    pub line: u64,
    /// How well the line could be read.
    pub fate: Fate,
    /// The recorded label; may repeat or be missing.
    pub step_id: Option<i64>,
    /// The acting agent's name; only QitOS 0.6 records it.
    pub agent: Symbol,
    /// The decision's mode: `act`, `final`, `wait`, `handoff`; empty where there was no decision.
    pub mode: Symbol,
    /// The first action as a call on one line, or the answer, or why there is none.
    pub call: Box<str>,
    /// A hash of all that is asked for: names and arguments of all actions, else the answer or the agent handed over to;
    /// a line that cannot be read has one of its bytes.
    pub asked_hash: u64,
    /// A hash of what came of it: the results of the actions but for their `metadata`.
    pub result_hash: u64,
    /// A hash of what changed in the state: all keys of `state_diff` with their values, before and after.
    pub state_hash: u64,
    /// How many actions the decision holds.
    pub actions: u32,
    /// The names of the actions, in order.
    pub tools: Box<[Symbol]>,
    /// The state keys that `state_diff` names.
    pub changed: Box<[Symbol]>,
    /// The critics' outputs, in order.
    pub critics: Box<[CriticMark]>,
    /// The reason of the first critic that asked for a retry or a stop.
    pub critic_reason: Option<Box<str>>,
    /// The first error of a tool or its environment.
    pub error: Option<Box<str>>,
    /// The first return code that is not zero.
    pub returncode: Option<i64>,
    /// Tokens of this step's own requests (input and output of the last one), where recorded.
    pub tokens: Option<u64>,
    /// Tokens of the run up to and with this step, where recorded.
    pub tokens_total: Option<u64>,
    /// The facts that the stop rules looked at; only our own engine records them.
    pub facts: Option<Box<RecordedFacts>>,
    /// What the changed keys were and became; the index compares and drops it.
    pub links: Box<[StateLink]>,
}

/// What a changed state key was before the step and after it, as hashes of the JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateLink {
    /// The key.
    pub key: Symbol,
    /// The value before; `None` where the line does not say, or at too great a length.
    pub before: Option<u64>,
    /// The value after.
    pub after: Option<u64>,
}

/// How well a line could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fate {
    /// As written.
    #[default]
    Good,
    /// After a repair, or without some fields.
    Repaired,
    /// The last line, complete but for its line end; it may still change.
    Provisional,
    /// JSON that is not an object.
    Foreign,
    /// Not JSON, or longer than the board parses.
    Unreadable,
}

impl Fate {
    /// Whether the line is an object whose fields can be shown.
    pub fn is_readable(self) -> bool {
        matches!(self, Fate::Good | Fate::Repaired | Fate::Provisional)
    }
}

/// One critic's output in the index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticMark {
    /// The critic's recorded name, or `critic 1`, `critic 2` by position.
    pub name: Symbol,
    /// What it asked for.
    pub action: CriticAction,
    /// Its score where that is a finite number.
    pub score: Option<f64>,
    /// Whether it wants the prompt or the state changed.
    pub patches: bool,
}

/// What a critic asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CriticAction {
    /// Go on; also what engines do with words they do not know.
    #[default]
    Continue,
    /// Do it again.
    Retry,
    /// End the run.
    Stop,
    /// Nothing: the critic itself failed.
    Failed,
    /// A word that is none of these.
    Other,
}

impl StepHead {
    /// Whether no tool failed, no command returned non-zero and a decision was made.
    pub fn is_ok(&self) -> bool {
        self.fate.is_readable() && self.error.is_none() && self.returncode.is_none() && self.mode != Symbol::default()
    }

    /// Whether a critic asked for `action`.
    pub fn asked(&self, action: CriticAction) -> bool {
        // Engines obey the first critic in list order that wants anything but to continue.
        let decides = |mark: &&CriticMark| !matches!(mark.action, CriticAction::Continue | CriticAction::Other);
        let first = self.critics.iter().find(decides);
        first.is_some_and(|mark| mark.action == action)
    }

    /// The lowest score of the step.
    pub fn lowest_score(&self) -> Option<f64> {
        self.critics.iter().filter_map(|mark| mark.score).min_by(f64::total_cmp)
    }

    /// Reads a line; never fails. `span` and `line` are left for the caller to fill.
    pub fn read(line: &[u8], names: &mut Names) -> (Self, Vec<Remark>) {
        let (read, fate, mut remarks) = read_object(line, |text| Some(object::<StepWire<'_>>(text)?.into_head(names)));
        let (head, more) = read.unwrap_or_default();
        remarks.extend(more);
        let asked_hash = if fate.is_readable() { head.asked_hash } else { of_line(line) };
        (Self { fate, asked_hash, ..head }, remarks)
    }
}

wire! {
    struct StepWire<'a> {
        step_id: Scalar<'a>,
        agent_id: Scalar<'a>,
        decision: Maybe<'a, DecisionWire<'a>>,
        actions: Many<'a, Maybe<'a, ActionWire<'a>>>,
        action_results: Many<'a, Kept<'a, Maybe<'a, ResultWire<'a>>>>,
        tool_invocations: Many<'a, Maybe<'a, InvocationWire<'a>>>,
        critic_outputs: Many<'a, Maybe<'a, CriticWire<'a>>>,
        state_diff: Kept<'a, Maybe<'a, Members<'a>>>,
        context: Maybe<'a, ContextWire<'a>>,
        model_response: Maybe<'a, ResponseWire<'a>>,
        facts: Option<&'a RawValue>,
        error: Option<&'a RawValue>,
    }

    struct DecisionWire<'a> {
        mode: Scalar<'a>,
        actions: Many<'a, Maybe<'a, ActionWire<'a>>>,
        final_answer: Kept<'a, Scalar<'a>>,
        rationale: Scalar<'a>,
        meta: Maybe<'a, MetaWire<'a>>,
    }

    struct MetaWire<'a> {
        handoff_target: Scalar<'a>,
        parser_error: Scalar<'a>,
    }

    /// One action of a decision.
    pub(super) struct ActionWire<'a> {
        pub(super) name: Scalar<'a>,
        args: Kept<'a, Maybe<'a, Keys<'a>>>,
    }

    struct ResultWire<'a> {
        status: Scalar<'a>,
        error: Scalar<'a>,
        returncode: Scalar<'a>,
        exit_code: Scalar<'a>,
        output: Maybe<'a, OutputWire<'a>>,
    }

    struct OutputWire<'a> {
        returncode: Scalar<'a>,
        exit_code: Scalar<'a>,
    }

    struct InvocationWire<'a> {
        status: Scalar<'a>,
        error: Scalar<'a>,
        error_category: Scalar<'a>,
    }

    struct CriticWire<'a> {
        critic_name: Scalar<'a>,
        name: Scalar<'a>,
        critic: Scalar<'a>,
        action: Scalar<'a>,
        score: Scalar<'a>,
        reason: Scalar<'a>,
        instruction_patch: Scalar<'a>,
        modified_prompt: Scalar<'a>,
        state_patch: Maybe<'a, Keys<'a>>,
    }

    struct ContextWire<'a> {
        input_tokens_total: Scalar<'a>,
        output_tokens: Scalar<'a>,
        tokens_total: Scalar<'a>,
    }

    struct ResponseWire<'a> {
        text: Scalar<'a>,
        usage: Maybe<'a, UsageWire<'a>>,
    }

    struct UsageWire<'a> {
        total_tokens: Scalar<'a>,
    }
}

fn count(scalar: &Scalar<'_>) -> Option<u64> {
    scalar.int().and_then(|value| u64::try_from(value).ok())
}

impl StepWire<'_> {
    fn into_head(self, names: &mut Names) -> (StepHead, Vec<Remark>) {
        let mut remarks = Vec::new();
        self.remark_odd_types(&mut remarks);
        let said = self.model_response.value().and_then(|response| response.text.str()).unwrap_or_default();
        let facts = RecordedFacts::of(self.facts, self.error, said);
        let mut head = StepHead { step_id: self.step_id.int(), facts, ..StepHead::default() };
        head.agent = names.intern(self.agent_id.str().unwrap_or_default());
        let decision = self.decision.value();
        head.mode = names.intern(decision.and_then(|d| d.mode.str()).unwrap_or_default());
        let actions = match decision {
            Some(decision) if !decision.actions.items.is_empty() => &decision.actions,
            _ => &self.actions,
        };
        head.actions = u32::try_from(actions.items.len()).unwrap_or(u32::MAX);
        let tools = actions.items.iter().filter_map(|action| action.value()?.name.text());
        head.tools = tools.take(MAX_INDEXED).map(|name| names.intern(name)).collect();
        head.call = self.call(actions).into_boxed_str();
        head.asked_hash = self.asked(actions);
        let mut results = Print::default();
        self.action_results.items.iter().for_each(|result| results.result(result));
        head.result_hash = results.done();
        head.state_hash = of_state(&self.state_diff);
        if let Some(Members(keys)) = self.state_diff.value.value() {
            head.changed = keys.iter().take(MAX_CHANGED).map(|(key, _)| names.intern(&key.0)).collect();
            let changes = head.changed.iter().zip(keys);
            head.links = changes.map(|(key, (_, change))| link(*key, change.get())).collect();
        }
        self.critics_into(&mut head, names, &mut remarks);
        self.errors_into(&mut head);
        if let Some(context) = self.context.value() {
            head.tokens_total = count(&context.tokens_total);
            head.tokens =
                count(&context.input_tokens_total).map(|input| input + count(&context.output_tokens).unwrap_or(0));
        }
        if head.tokens.is_none() {
            head.tokens = self.model_response.value().and_then(|r| count(&r.usage.value()?.total_tokens));
        }
        // A scripted step reports zeros where no model was asked.
        head.tokens = head.tokens.filter(|tokens| *tokens > 0);
        (head, remarks)
    }

    fn remark_odd_types(&self, remarks: &mut Vec<Remark>) {
        let mut odd = |field: &str, what: &str, expected: &str| {
            remarks.push((IssueKind::Field, format!("{field} is {what}; expected {expected}")));
        };
        if self.step_id.int().is_none() {
            odd("step_id", self.step_id.type_name(), "a whole number");
        }
        if let Some(other) = self.decision.other().filter(|other| !other.is_nothing()) {
            odd("decision", other.type_name(), "an object or null");
        }
        let lists = [
            ("actions", &self.actions.instead),
            ("action_results", &self.action_results.instead),
            ("tool_invocations", &self.tool_invocations.instead),
            ("critic_outputs", &self.critic_outputs.instead),
        ];
        for (field, instead) in lists {
            if let Some(other) = instead.as_ref().filter(|other| !other.is_nothing()) {
                odd(field, other.type_name(), "an array");
            }
        }
        match self.state_diff.value.other() {
            Some(other) if !other.is_nothing() => odd("state_diff", other.type_name(), "an object"),
            _ => {}
        }
        let keys = self.state_diff.value.value().map_or(&[][..], |Members(keys)| keys);
        let redacted = keys.iter().filter(|(_, value)| value.get().trim_matches('"') == REDACTED).count();
        if redacted > 0 {
            remarks.push((IssueKind::Redacted, format!("{redacted} changed state values were blanked by the writer")));
        }
    }

    fn call(&self, actions: &Many<'_, Maybe<'_, ActionWire<'_>>>) -> String {
        if let Some(first) = actions.items.iter().find_map(Maybe::value) {
            let more = actions.items.len() - 1;
            let call = first.call();
            return if more > 0 { format!("{call} +{more} more") } else { call };
        }
        let Some(decision) = self.decision.value() else { return String::new() };
        let meta = decision.meta.value();
        let target = meta.and_then(|meta| meta.handoff_target.text());
        let answer = decision.final_answer.value.text();
        let rationale = decision.rationale.text();
        let line = match (decision.mode.str(), target, answer) {
            (_, Some(target), _) => format!("hand off to {target}"),
            (_, None, Some(answer)) => format!("answer: {answer}"),
            (Some(mode), None, None) if !mode.is_empty() => match rationale {
                _ if meta.is_some_and(|meta| !meta.parser_error.is_nothing()) => {
                    format!("{mode}: model text not understood")
                }
                Some(rationale) => format!("{mode}: {rationale}"),
                None => mode.to_owned(),
            },
            _ => String::new(),
        };
        one_line(&line, MAX_CALL_BYTES)
    }

    /// The hash of all that the step asks for. Why it does is left out: a reason is no part of what is done.
    fn asked(&self, actions: &Many<'_, Maybe<'_, ActionWire<'_>>>) -> u64 {
        let mut print = Print::default();
        for action in &actions.items {
            let Some(action) = action.value() else { continue };
            print.word(action.name.text().unwrap_or_default());
            print.value(&action.args);
        }
        if let Some(decision) = self.decision.value().filter(|_| actions.items.is_empty()) {
            print.word(decision.mode.str().unwrap_or_default());
            print.value(&decision.final_answer);
            let target = decision.meta.value().and_then(|meta| meta.handoff_target.text());
            print.word(target.unwrap_or_default());
        }
        print.done()
    }

    fn critics_into(&self, head: &mut StepHead, names: &mut Names, remarks: &mut Vec<Remark>) {
        let mut marks = Vec::new();
        for (index, output) in self.critic_outputs.items.iter().take(MAX_INDEXED).enumerate() {
            let Some(output) = output.value() else {
                let what = output.other().map_or("nothing", Scalar::type_name);
                remarks.push((IssueKind::Field, format!("critic output {} is {what}, expected an object", index + 1)));
                continue;
            };
            let name = [&output.critic_name, &output.name, &output.critic].into_iter().find_map(Scalar::text);
            let name = name.map_or_else(|| format!("critic {}", index + 1), str::to_owned);
            let action = match output.action.str() {
                Some("continue") | None => CriticAction::Continue,
                Some("retry") => CriticAction::Retry,
                Some("stop") => CriticAction::Stop,
                Some("failed") => CriticAction::Failed,
                Some(_) => CriticAction::Other,
            };
            if head.critic_reason.is_none() && matches!(action, CriticAction::Retry | CriticAction::Stop) {
                head.critic_reason = Some(one_line(output.reason.str().unwrap_or_default(), MAX_NOTE_BYTES).into());
            }
            let prompts = [&output.instruction_patch, &output.modified_prompt];
            let patches = prompts.into_iter().any(|prompt| prompt.str().is_some_and(|text| !text.is_empty()))
                || output.state_patch.value().is_some_and(|Keys(keys)| !keys.is_empty());
            marks.push(CriticMark { name: names.intern(&name), action, score: output.score.number(), patches });
        }
        head.critics = marks.into();
    }

    fn errors_into(&self, head: &mut StepHead) {
        for result in self.action_results.items.iter().filter_map(|result| result.value.value()) {
            let failed = matches!(result.status.str(), Some("error" | "failed"));
            if head.error.is_none() && (failed || !result.error.is_nothing()) {
                let text = result.error.text().unwrap_or("failed without a message");
                head.error = Some(one_line(text, MAX_NOTE_BYTES).into());
            }
            let output = result.output.value();
            let codes = [
                Some(&result.returncode),
                Some(&result.exit_code),
                output.map(|o| &o.returncode),
                output.map(|o| &o.exit_code),
            ];
            let code = codes.into_iter().flatten().find_map(Scalar::int).filter(|code| *code != 0);
            head.returncode = head.returncode.or(code);
        }
        for invocation in self.tool_invocations.items.iter().filter_map(Maybe::value) {
            let failed = matches!(invocation.status.str(), Some("error" | "timed_out" | "cancelled" | "skipped"));
            if head.error.is_none() && failed {
                let text = invocation.error.text().or(invocation.error_category.text());
                head.error =
                    Some(one_line(text.or(invocation.status.str()).unwrap_or_default(), MAX_NOTE_BYTES).into());
            }
        }
    }
}

/// A change, `{"before": .., "after": ..}`; of anything else only the key.
fn link(key: Symbol, change: &str) -> StateLink {
    let sides = match serde_json::from_str(change) {
        Ok(Members(sides)) if change.len() <= MAX_LINKED_BYTES => sides,
        _ => Vec::new(),
    };
    let side = |name: &str| {
        let (_, value) = sides.iter().find(|(side, _)| side.0 == name)?;
        let mut hasher = DefaultHasher::new();
        value.get().hash(&mut hasher);
        Some(hasher.finish())
    };
    StateLink { key, before: side("before"), after: side("after") }
}

/// What QitOS 0.6 writes in place of a value whose key looks secret.
pub const REDACTED: &str = "__redacted__";

impl ActionWire<'_> {
    /// The call on one line, as in `read_file(path="calc.py")`.
    pub(super) fn call(&self) -> String {
        let mut call = String::from(self.name.text().unwrap_or("(no name)"));
        call.push('(');
        if let Some(Keys(args)) = self.args.value.value() {
            for (index, (key, value)) in args.iter().enumerate() {
                if call.len() > MAX_CALL_BYTES {
                    break;
                }
                call.push_str(if index == 0 { "" } else { ", " });
                let _ = match value {
                    Scalar::Str(text) => write!(call, "{key}=\"{}\"", super::names::cut_at(text, MAX_CALL_BYTES)),
                    Scalar::Bool(value) => write!(call, "{key}={value}"),
                    Scalar::Int(value) => write!(call, "{key}={value}"),
                    Scalar::Float(value) => write!(call, "{key}={value}"),
                    Scalar::Array => write!(call, "{key}=[…]"),
                    Scalar::Object => write!(call, "{key}={{…}}"),
                    Scalar::Absent | Scalar::Null => write!(call, "{key}=null"),
                };
            }
        }
        call.push(')');
        one_line(&call, MAX_CALL_BYTES)
    }
}

/// `text` on one line, cut to `max` bytes.
pub(super) fn one_line(text: &str, max: usize) -> String {
    let head = super::names::cut_at(text, max + 1);
    let line: String = head.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c }).collect();
    capped(&line, max).into()
}

#[cfg(test)]
mod tests;
