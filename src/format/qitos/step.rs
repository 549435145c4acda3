//! Reads lines of `steps.jsonl` in all layouts of QitOS and of board's engine.

use std::borrow::Cow;
use std::collections::HashMap;

use super::layout::QITOS;
use crate::model::issue::Remark;
use crate::model::json::{Members, walk};
use crate::model::loose::Scalar;
use crate::model::redact::BLANK;
use crate::model::repair::has_half_pair;
use crate::model::step::{
    Call, Changes, CriticAction, CriticOutput, Decision, Effort, Infinite, Invocation, List,
    Outcome, Parsing, Picture, Pointer, Step, Usage, Value,
};
use crate::model::{IssueKind, Names, Record, StepHead};

/// The keys of a critic's output that [`CriticOutput`] has fields for.
const CRITIC: [&str; 7] = [
    "critic_name",
    "name",
    "critic",
    "action",
    "score",
    "reason",
    "details",
];
/// The changes that a critic may ask for, with the word for each.
const PATCHES: [(&str, &str); 3] = [
    ("instruction_patch", "instruction"),
    ("modified_prompt", "prompt"),
    ("state_patch", "state"),
];

fields! {
    struct Line {
        step_id, agent_id, decision, actions, action_results, tool_invocations, critic_outputs, state_diff,
        observation, context, model_response, facts, error, visual_assets, decision_source, parser_selected,
        parser_attempts, parser_diagnostics, parser_fallback_used, parser_salvage_applied,
        native_tool_call_fallback_reason, cost_usd, model, finish_reason,
    }
    struct Decided { mode, actions, final_answer, rationale, meta, candidates }
    struct Meta { handoff_target, parser_error }
    struct Action { name, args, max_retries, timeout_s }
    struct Result {
        status, output, error, message, metadata, cut_from_bytes, env, returncode, return_code, exit_code, exitcode,
    }
    struct Output { error, message, returncode, return_code, exit_code, exitcode }
    struct Context {
        input_tokens_total, output_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, tokens_total, counting_mode, other_models,
    }
    struct OtherModel {
        model, input_tokens, output_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens,
    }
    struct Response { text, usage, fields, finish_reason }
    struct Critic { critic_name, name, critic, action, score, reason, details }
    struct Ran {
        tool_name, status, error, error_category, latency_ms, attempts, timeout_s, toolset_name, toolset_version,
        source, cancel_source,
    }
}

/// Reads a line of steps into the form that the index keeps. Never fails. The caller fills in the
/// offset.
pub fn head(line: &[u8], names: &mut Names) -> (StepHead, Vec<Remark>) {
    let mut head = StepHead::default();
    let text = std::str::from_utf8(line)
        .ok()
        .filter(|text| !has_half_pair(text));
    // Nearly all lines parse directly. Only the others take the slower path that finds out what is
    // wrong.
    if let Some(step) = text.and_then(read) {
        head.absorb(&step, names);
        return (head, step.remarks);
    }
    let record = Record::whole(line);
    let step = read(&record.text).filter(|_| record.fate.is_readable());
    let Some(step) = step else {
        return (StepHead::unread(record.fate, line), record.remarks);
    };
    let mut remarks = record.remarks.clone();
    head.fate = record.fate;
    head.absorb(&step, names);
    remarks.extend(step.remarks);
    (head, remarks)
}

/// Returns the step in a line, or `None` if the text isn't a JSON object.
pub(crate) fn read(text: &str) -> Option<Step<'_>> {
    let start = text.trim_ascii_start().starts_with('{');
    let Members(members) = Some(text)
        .filter(|_| start)
        .and_then(|text| serde_json::from_str(text).ok())?;
    let mut line = Line::default();
    let mut step = Step::default();
    let mut repeated = Vec::new();
    for (key, value) in members {
        let is_again = line.take(&key.0, value.get());
        if !is_held(&key.0, value.get()) {
            step.rest.push((
                key.0,
                Value {
                    text: value.get(),
                    at: Pointer::default(),
                },
            ));
        } else if is_again {
            repeated.push(key.0);
        }
    }
    for key in repeated {
        step.is_damaged = true;
        step.remarks.push((
            IssueKind::Field,
            format!("field {key} is repeated; the last one counts"),
        ));
    }
    line.fill(&mut step);
    Some(step)
}

/// Returns whether a field of [`Step`] holds a member of a line. If it has an unexpected type, or
/// only a part of it is held, the member is shown as written.
fn is_held(key: &str, value: &str) -> bool {
    let starts = |opening: char| value.starts_with(opening);
    match key {
        "step_id" => value.parse::<i64>().is_ok(),
        "decision" | "state_diff" | "observation" | "parser_diagnostics" | "facts" => starts('{'),
        "error" => Value {
            text: value,
            at: Pointer::default(),
        }
        .get("phase")
        .is_some(),
        "actions" | "action_results" | "tool_invocations" | "critic_outputs" | "visual_assets" => {
            starts('[')
        }
        "agent_id" | "decision_source" | "parser_selected" | "native_tool_call_fallback_reason" => {
            starts('"')
        }
        "parser_fallback_used" | "parser_salvage_applied" => matches!(value, "true" | "false"),
        _ => false,
    }
}

fn word(value: Option<&str>) -> Option<Cow<'_, str>> {
    walk::string(value?).filter(|word| !word.is_empty())
}

fn number(value: Option<&str>) -> Option<f64> {
    Scalar::of(value?)?.number()
}

fn int(value: Option<&str>) -> Option<i64> {
    Scalar::of(value?)?.int()
}

fn count(value: Option<&str>) -> Option<u64> {
    u64::try_from(int(value)?).ok()
}

/// Returns a value unless it is null.
pub(super) fn some<'a>(text: Option<&'a str>, at: Pointer) -> Option<Value<'a>> {
    text.filter(|text| *text != "null")
        .map(|text| Value { text, at })
}

/// Returns a value unless it is null, empty or false.
fn filled<'a>(text: Option<&'a str>, at: Pointer) -> Option<Value<'a>> {
    some(text, at).filter(|value| !value.is_empty() && value.text != "false")
}

fn is_true(value: Option<&str>) -> bool {
    value == Some("true")
}

impl<'a> Line<'a> {
    fn fill(self, step: &mut Step<'a>) {
        self.remark_odd_types(step);
        step.id = int(self.step_id);
        step.agent = word(self.agent_id);
        step.decision = some(self.decision, Pointer::new("/decision")).map(decision);
        step.calls = self.calls();
        let results = Pointer::new("/action_results");
        step.results = list(self.action_results, results, outcome);
        let invocations = Pointer::new("/tool_invocations");
        step.has_invocations = self.tool_invocations.is_some_and(|list| list != "null");
        step.invocations = list(self.tool_invocations, invocations, invocation);
        step.critics = self.critics();
        step.changes = self.state_diff.map(|text| {
            Changes(Value {
                text,
                at: Pointer::new("/state_diff"),
            })
        });
        step.observation = some(self.observation, Pointer::new("/observation"));
        let state = step.observation.and_then(|seen| seen.get("state"));
        step.state = some(state, Pointer::new("/observation").member("/state"))
            .filter(|state| state.is_object());
        step.facts = some(self.facts, Pointer::new("/facts"));
        // This crate's engine records the counters in the step's changes, like any other change.
        if step.facts.is_none() {
            step.counters = QITOS.counters;
        }
        step.error = some(self.error, Pointer::new("/error"));
        step.pictures = list(
            self.visual_assets,
            Pointer::new("/visual_assets"),
            |value| Picture {
                value,
                path: value.get("path").and_then(walk::string),
            },
        );
        let below =
            |invocation: &Invocation<'_>| invocation.effort.latency_ms.filter(|ms| *ms < 0.0);
        if let Some(ms) = step.invocations.iter().find_map(below) {
            step.remarks.push((
                IssueKind::Field,
                format!("tool_invocations has a negative latency_ms: {ms}"),
            ));
        }
        self.usage(step);
        self.parsing(step);
    }

    /// Reads the model's text, tokens and cost.
    fn usage(&self, step: &mut Step<'a>) {
        let response = self.model_response.map(Response::of).unwrap_or_default();
        step.text = some(response.text, Pointer::new("/model_response/text"));
        step.is_text_unknown = response.text == Some("null");
        if let Some(decision) = &mut step.decision {
            decision.rationale = decision.rationale.or_else(|| thought(response.fields));
        }
        let context = self.context.map(Context::of).unwrap_or_default();
        step.tokens_total = count(context.tokens_total);
        step.tokens_estimated =
            word(context.counting_mode).is_some_and(|mode| mode == "engine_estimate");
        let cost = number(self.cost_usd);
        step.cost_usd = cost.filter(|cost| *cost >= 0.0);
        if step.cost_usd != cost {
            step.remarks.push((
                IssueKind::Field,
                "cost_usd is negative, so it is ignored".to_owned(),
            ));
        }
        step.model = word(self.model);
        step.finish = word(self.finish_reason).or_else(|| word(response.finish_reason));
        let asked = count(context.input_tokens_total);
        let (output, cached) = (count(context.output_tokens), count(context.cached_tokens));
        step.usage = Usage {
            input: asked,
            cached,
            output,
            reasoning: count(context.reasoning_tokens),
            written: count(context.cache_write_tokens),
            written_1h: count(context.cache_write_1h_tokens),
        };
        let others = context
            .other_models
            .into_iter()
            .flat_map(walk::items)
            .map(OtherModel::of);
        step.other_models.extend(others.filter_map(|other| {
            let (input, output, cached) =
                (other.input_tokens, other.output_tokens, other.cached_tokens);
            let usage = Usage {
                input: count(input),
                cached: count(cached),
                output: count(output),
                reasoning: None,
                written: count(other.cache_write_tokens),
                written_1h: count(other.cache_write_1h_tokens),
            };
            Some((word(other.model)?, usage))
        }));
        step.tokens = asked.map(|input| input + count(context.output_tokens).unwrap_or(0));
        if step.tokens.is_none() {
            fields! { struct Usage { total_tokens } }
            step.tokens = response
                .usage
                .and_then(|usage| count(Usage::of(usage).total_tokens));
        }
        // A scripted step made no model request and reports zeros.
        step.tokens = step.tokens.filter(|tokens| *tokens > 0);
    }

    fn parsing(&self, step: &mut Step<'a>) {
        let diagnostics = filled(self.parser_diagnostics, Pointer::new("/parser_diagnostics"));
        step.parsing = Parsing {
            source: word(self.decision_source),
            parser: word(self.parser_selected),
            attempts: some(self.parser_attempts, Pointer::new("/parser_attempts")),
            diagnostics: diagnostics.filter(|value| value.is_object()),
            is_fallback: is_true(self.parser_fallback_used),
            is_salvaged: is_true(self.parser_salvage_applied),
            no_native_calls: word(self.native_tool_call_fallback_reason),
        };
    }

    /// Returns the calls. QitOS writes the actions twice: inside the decision, and as a member of the
    /// step. This crate's engine writes only the latter.
    fn calls(&self) -> List<Call<'a>> {
        let beside = list(self.actions, Pointer::new("/actions"), call);
        if !beside.is_empty() {
            return beside;
        }
        list(
            self.decision.and_then(|text| Decided::of(text).actions),
            Pointer::new("/decision/actions"),
            call,
        )
    }

    /// Returns the critics' outputs. QitOS runs all its critics at every step, in the order of its
    /// list, and names each by its class. Critics of the same class are distinguished by their
    /// position.
    fn critics(&self) -> List<CriticOutput<'a>> {
        let outputs = || list(self.critic_outputs, Pointer::new("/critic_outputs"), critic);
        let mut places: HashMap<Cow<'a, str>, (usize, usize)> = HashMap::new();
        let all = outputs();
        if all.len() > 1 {
            all.iter()
                .filter(|output| output.is_named)
                .for_each(|output| {
                    places.entry(output.name.clone()).or_default().0 += 1;
                });
        }
        if places.values().all(|(total, _)| *total == 1) {
            return all;
        }
        list(
            self.critic_outputs,
            Pointer::new("/critic_outputs"),
            |value| {
                let mut output = critic(value);
                if let Some((_, place)) = places
                    .get_mut(&output.name)
                    .filter(|(total, _)| output.is_named && *total > 1)
                {
                    *place += 1;
                    output.name = format!("{} {place}", output.name).into();
                }
                output
            },
        )
    }

    fn remark_odd_types(&self, step: &mut Step<'a>) {
        let mut odd = |field: &str, value: Option<&str>, expected: &str| {
            let what = value
                .map_or(Some(Scalar::Absent), Scalar::of)
                .as_ref()
                .map_or("not readable", Scalar::type_name);
            step.remarks.push((
                IssueKind::Field,
                format!("{field} is {what}; expected {expected}"),
            ));
        };
        if int(self.step_id).is_none() {
            odd("step_id", self.step_id, "a whole number");
        }
        let is_not = |value: &Option<&str>, opening: char| {
            value.is_some_and(|text| text != "null" && !text.starts_with(opening))
        };
        if is_not(&self.decision, '{') {
            odd("decision", self.decision, "an object or null");
        }
        let lists = [
            ("actions", self.actions),
            ("action_results", self.action_results),
            ("tool_invocations", self.tool_invocations),
            ("critic_outputs", self.critic_outputs),
        ];
        for (field, value) in lists.into_iter().filter(|(_, value)| is_not(value, '[')) {
            odd(field, value, "an array");
        }
        if is_not(&self.state_diff, '{') {
            odd("state_diff", self.state_diff, "an object");
        }
        let changes = self.state_diff.into_iter().flat_map(walk::members);
        let redacted = changes
            .filter(|(_, value)| value.trim_matches('"') == BLANK)
            .count();
        if redacted > 0 {
            let what = format!("{redacted} changed state values were blanked by the writer");
            step.remarks.push((IssueKind::Redacted, what));
        }
        let outputs = self
            .critic_outputs
            .into_iter()
            .flat_map(walk::items)
            .enumerate();
        for (at, output) in outputs
            .filter(|(_, output)| !output.starts_with('{'))
            .take(MAX_REMARKS)
        {
            let what = Scalar::of(output)
                .as_ref()
                .map_or("not readable", Scalar::type_name);
            let what = format!("critic output {} is {what}, expected an object", at + 1);
            step.remarks.push((IssueKind::Field, what));
        }
    }
}

/// At most this many malformed critic outputs are reported.
const MAX_REMARKS: usize = 64;

fn list<'a, T>(
    text: Option<&'a str>,
    at: Pointer,
    mut read: impl FnMut(Value<'a>) -> T,
) -> List<T> {
    let items = text.into_iter().flat_map(walk::items).enumerate();
    items
        .map(|(index, text)| {
            read(Value {
                text,
                at: at.item(index),
            })
        })
        .collect()
}

fn decision(value: Value<'_>) -> Decision<'_> {
    let decided = Decided::of(value.text);
    let meta = decided.meta.map(Meta::of).unwrap_or_default();
    Decision {
        value,
        mode: word(decided.mode),
        rationale: some(decided.rationale, Pointer::new("/decision/rationale")),
        answer: some(decided.final_answer, Pointer::new("/decision/final_answer")),
        handoff: word(meta.handoff_target),
        is_misread: meta.parser_error.is_some_and(|error| error != "null"),
        candidates: some(decided.candidates, Pointer::new("/decision/candidates")),
        meta: some(decided.meta, Pointer::new("/decision/meta")),
    }
}

/// Returns the reasoning that a model's message contains next to its text. The field's name depends
/// on the service.
fn thought(fields: Option<&str>) -> Option<Value<'_>> {
    fields! { struct Thought { reasoning_content, reasoning, thinking, thinking_blocks, reasoning_details, content } }
    let said = Thought::of(fields?);
    let of = |name: &'static str, text| {
        filled(text, Pointer::new("/model_response/fields").member(name))
    };
    of("/reasoning_content", said.reasoning_content)
        .or_else(|| of("/reasoning", said.reasoning))
        .or_else(|| of("/thinking", said.thinking))
        .or_else(|| of("/thinking_blocks", said.thinking_blocks))
        .or_else(|| of("/reasoning_details", said.reasoning_details))
        .or_else(|| of("/content", said.content))
}

/// Reads one action, of a decision or of a candidate for one.
pub(super) fn call(value: Value<'_>) -> Call<'_> {
    let action = Action::of(value.text);
    Call {
        value,
        name: word(action.name),
        args: action.args.map(|text| Value {
            text,
            at: value.at.member("/args"),
        }),
        max_retries: number(action.max_retries),
        timeout_s: number(action.timeout_s),
    }
}

pub(super) fn invocation(value: Value<'_>) -> Invocation<'_> {
    let ran = Ran::of(value.text);
    Invocation {
        value,
        tool: word(ran.tool_name),
        status: word(ran.status),
        error: some(ran.error, value.at.member("/error")),
        category: word(ran.error_category),
        effort: ran.effort(),
    }
}

impl<'a> Ran<'a> {
    fn effort(&self) -> Effort<'a> {
        Effort {
            latency_ms: number(self.latency_ms),
            attempts: number(self.attempts),
            timeout_s: number(self.timeout_s),
            toolset: word(self.toolset_name),
            toolset_version: word(self.toolset_version),
            source: word(self.source),
            cancelled_by: word(self.cancel_source),
        }
    }
}

fn outcome(value: Value<'_>) -> Outcome<'_> {
    let result = Result::of(value.text);
    let metadata = result.metadata.map(Ran::of).unwrap_or_default();
    let at = |member| value.at.member(member);
    // QitOS 0.6 wraps the tool's return value. This crate's engine does too, but omits missing
    // members.
    let there = |fields: &[Option<&str>]| fields.iter().flatten().count();
    let wrap = [result.status, result.output, result.error, result.metadata];
    let has_both = result.status.is_some() && result.output.is_some();
    let is_wrapped = there(&wrap) == 4
        || has_both && there(&wrap) + there(&[result.cut_from_bytes]) == result.members;
    let output = if is_wrapped {
        result.output.map(|text| Value {
            text,
            at: at("/output"),
        })
    } else {
        Some(value)
    };
    let inner = result.output.map(Output::of).unwrap_or_default();
    let status = word(result.status);
    let codes = [
        result.returncode,
        result.return_code,
        result.exit_code,
        result.exitcode,
    ];
    let from_env = metadata.source.is_some_and(|source| source == "\"env\"");
    let env = match (
        result.env.filter(|_| result.members == 1),
        result.output.filter(|_| from_env),
    ) {
        (Some(env), _) => Some(Value {
            text: env,
            at: at("/env"),
        }),
        (None, Some(output)) => {
            let inner = Value {
                text: output,
                at: at("/output"),
            };
            Some(inner.get("env").map_or(inner, |text| Value {
                text,
                at: at("/output/env"),
            }))
        }
        (None, None) => None,
    };
    Outcome {
        value,
        tool: word(metadata.tool_name),
        error: told(result.error, at("/error")).or_else(|| {
            status
                .as_deref()
                .filter(|status| Outcome::is_failure(status))?;
            told(result.message, at("/message")).or_else(|| inner.words(value.at))
        }),
        status,
        output,
        is_wrapped,
        // If the result and its output disagree, the failure counts.
        exit: first_failure(codes).or_else(|| inner.exit()),
        env,
        is_cut: result.cut_from_bytes.is_some()
            || output.is_some_and(|output| is_wrapped && is_cut(output.text)),
        cut_from_bytes: number(result.cut_from_bytes),
        effort: metadata.effort(),
    }
}

/// Returns the result of a call that has these members. `output` is JSON, and `error` a text and the
/// same as JSON.
pub(in crate::format) fn outcome_of<'a>(
    status: &'a str,
    output: &'a str,
    error: Option<(&str, &'a str)>,
    exit: Option<i64>,
) -> Outcome<'a> {
    let at = Pointer::default();
    let inner = Output::of(output);
    let error = error.filter(|(words, _)| !words.is_empty() && !is_none(words));
    let error = error.map(|(_, text)| Value { text, at });
    Outcome {
        value: Value::default(),
        tool: None,
        error: error.or_else(|| inner.words(at).filter(|_| Outcome::is_failure(status))),
        status: Some(Cow::Borrowed(status)),
        output: Some(Value { text: output, at }),
        is_wrapped: true,
        exit: exit.filter(|code| *code != 0).or_else(|| inner.exit()),
        env: None,
        is_cut: is_cut(output),
        cut_from_bytes: None,
        effort: Effort::default(),
    }
}

/// Returns the critics' outputs in a list of them.
pub(in crate::format) fn critics(outputs: &str) -> List<CriticOutput<'_>> {
    let line = Line {
        critic_outputs: Some(outputs),
        ..Line::default()
    };
    line.critics()
}

impl<'a> Output<'a> {
    /// Returns the error that a tool's output describes. `at` is the location of the result.
    fn words(&self, at: Pointer) -> Option<Value<'a>> {
        told(self.error, at.member("/output/error"))
            .or_else(|| told(self.message, at.member("/output/message")))
    }

    /// Returns the exit code in a tool's output unless it is zero.
    fn exit(&self) -> Option<i64> {
        first_failure([
            self.returncode,
            self.return_code,
            self.exit_code,
            self.exitcode,
        ])
    }
}

/// Returns the first exit code that isn't zero.
fn first_failure(codes: [Option<&str>; 4]) -> Option<i64> {
    codes.into_iter().find_map(|code| {
        int(code)
            .or_else(|| word(code)?.trim().parse().ok())
            .filter(|code| *code != 0)
    })
}

/// Returns whether QitOS 0.6 replaced an output by its start and end, with a line between them that
/// marks the omission.
fn is_cut(output: &str) -> bool {
    let marked = |at: usize| {
        let digits = output
            .get(at + CUT.len()..)
            .unwrap_or_default()
            .trim_start_matches(|c: char| c.is_ascii_digit());
        digits.starts_with(" chars total] ...\\n")
    };
    output.starts_with('"') && memchr::memmem::find_iter(output.as_bytes(), CUT).any(marked)
}

/// How that line begins, as JSON text.
const CUT: &[u8] = br"\n... [truncated, ";

/// Returns the error in a member, or `None` if the member states that there was no error.
fn told(text: Option<&str>, at: Pointer) -> Option<Value<'_>> {
    let value = filled(text, at)?;
    let is_none = match Scalar::of(value.text)? {
        Scalar::Str(text) => is_none(&text),
        Scalar::Object => {
            let code = value.get("code");
            let is_zero = code.is_some_and(|code| matches!(code, "0" | "\"0\""));
            is_zero || walk::members(value.text).all(|(_, text)| Value { text, at }.is_empty())
        }
        other => other.number() == Some(0.0),
    };
    (!is_none).then_some(value)
}

/// Returns whether a text states that there was no error.
fn is_none(text: &str) -> bool {
    ["none", "null", "no error", "ok"]
        .iter()
        .any(|word| text.trim().eq_ignore_ascii_case(word))
}

pub(super) fn critic(value: Value<'_>) -> CriticOutput<'_> {
    let output = Critic::of(value.text);
    let named = [output.critic_name, output.name, output.critic]
        .into_iter()
        .find_map(word);
    let place = value.at.index.unwrap_or_default() + 1;
    let action = match output.action.and_then(walk::string).as_deref() {
        Some("continue") | None => CriticAction::Continue,
        Some("retry") => CriticAction::Retry,
        Some("stop") => CriticAction::Stop,
        Some("failed") => CriticAction::Failed,
        Some(_) => CriticAction::Other,
    };
    let patch = |(key, name): &(&'static str, &'static str)| {
        let patch = filled(value.get(key), Pointer::default())?;
        Some((*name, patch))
    };
    let others = walk::members(value.text).filter_map(|(key, text)| {
        let key = walk::string(key)?;
        let value = filled(Some(text), Pointer::default())?;
        (!CRITIC.contains(&key.as_ref())).then_some((key, value))
    });
    let infinite = match output.score.and_then(walk::string).as_deref() {
        Some("-Infinity") => Some(Infinite::Below),
        Some("Infinity") => Some(Infinite::Above),
        _ => None,
    };
    CriticOutput {
        value,
        is_named: named.is_some(),
        name: named.unwrap_or_else(|| format!("critic {place}").into()),
        action,
        word: output.action.map(|text| Value {
            text,
            at: value.at.member("/action"),
        }),
        score: number(output.score),
        infinite,
        raw_score: output.score.map(|text| Value {
            text,
            at: value.at.member("/score"),
        }),
        reason: some(output.reason, value.at.member("/reason")),
        details: filled(output.details, value.at.member("/details")),
        patches: PATCHES.iter().filter_map(patch).collect(),
        rest: others.collect(),
    }
}
