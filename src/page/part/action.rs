//! What did the step do, and what came back? Joins the calls of a decision with their invocations and results.
//!
//! The three lists of a step line carry no ids that join them: order does, and the tool's name where it is written.
//! What finds no partner is shown alone and says so.

use std::collections::VecDeque;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::model::json::Json;
use crate::page::part::fold::{Fold, Folded};
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::sign::Sign;
use crate::page::part::text;
use crate::page::part::text::Line;

/// An argument whose text is longer than this stands below the call.
const ARGUMENT: usize = 80;
/// Keys whose text is what a tool printed; errors come first.
const OUTPUTS: [&str; 10] =
    ["error", "stderr", "stdout", "content", "text", "output", "message", "result", "body", "diff"];

/// The Action, result section of a step.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/action.html")]
pub(crate) struct Actions {
    /// Each call with what came back.
    pub pairs: Vec<Pair>,
    /// What the environment answered.
    pub env: Vec<Env>,
    /// What is said of those that are not shown.
    pub more: Line,
}

impl HtmlSafe for Actions {}

/// A call with its invocation and its result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pair {
    /// The call; `None` where a result has no call.
    pub call: Option<Call>,
    /// How it went: status, return code, category of the error.
    pub marks: Vec<Sign>,
    /// Latency, attempts, toolset, timeout.
    pub facts: Line,
    /// What is missing or odd about this pair.
    pub note: Line,
    /// Texts that came back, errors first.
    pub blocks: Vec<Block>,
    /// The rest of the result, by key; the key is empty where the result has none.
    pub rest: Vec<(Line, JsonView)>,
    /// Small values of the result in words.
    pub small: Line,
    /// The result on a page of its own.
    pub href: Option<String>,
}

/// A tool call as it reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    /// The name of the tool.
    pub name: Line,
    /// The arguments that fit on the line.
    pub args: Vec<Arg>,
    /// The arguments that do not.
    pub long: Vec<Block>,
}

/// One argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arg {
    /// Its name and `=`; empty where arguments are not named.
    pub name: Line,
    /// Its value.
    pub value: Line,
    /// A comma where another one follows.
    pub comma: &'static str,
}

/// A text with a label.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// The label.
    pub label: Line,
    /// The text.
    pub text: Folded,
    /// Whether it tells of an error.
    pub error: bool,
}

/// What the environment answered to a step.
#[derive(Debug, Clone)]
pub(crate) struct Env {
    /// Whether it is done, rewards and errors.
    pub marks: Vec<Sign>,
    /// The whole answer.
    pub view: JsonView,
}

/// A value and its index in its list.
type Item<'v, 'a> = (usize, &'v Json<'a>);

impl Actions {
    /// Joins `actions`, `tool_invocations` and `action_results` of a step line.
    pub(crate) fn new(step: &Json<'_>, fold: &mut Fold) -> Self {
        let items = |key: &str| step.get(key).and_then(Json::as_array).unwrap_or_default().iter().enumerate();
        let mut invocations: VecDeque<Item<'_, '_>> = items("tool_invocations").collect();
        let (env, results): (Vec<_>, Vec<_>) =
            items("action_results").partition(|(_, result)| environment(result).is_some());
        let mut results: VecDeque<Item<'_, '_>> = results.into();
        let asked = items("actions").len();
        let mut out = Self::default();
        let mut left = asked;
        for (index, action) in items("actions") {
            if !fold.takes(out.pairs.len()) {
                break;
            }
            left -= 1;
            let name = action.get("name").and_then(Json::as_str);
            // With as many of each, order alone is right even where names differ.
            let invocation = take(&mut invocations, name, asked - index, |item| item.get("tool_name"));
            let result = take(&mut results, name, asked - index, |item| item.get("metadata")?.get("tool_name"));
            out.pairs.push(pair(Some((index, action)), invocation, result, fold));
        }
        while left == 0 && (!invocations.is_empty() || !results.is_empty()) && fold.takes(out.pairs.len()) {
            out.pairs.push(pair(None, invocations.pop_front(), results.pop_front(), fold));
        }
        out.tell_apart();
        let mut left = left.max(invocations.len()).max(results.len());
        for (index, result) in env {
            if fold.takes(out.env.len()) {
                out.env.extend(env_entry(index, result, fold));
            } else {
                left += 1;
            }
        }
        out.more = not_shown(left, "more call or result", "more calls or results");
        out
    }

    /// Numbers the texts of a tool that was called before in the same step: as regions they need names of their own.
    fn tell_apart(&mut self) {
        let mut called: Vec<Line> = Vec::new();
        for pair in &mut self.pairs {
            let Some(call) = &pair.call else { continue };
            let before = called.iter().filter(|name| **name == call.name).count();
            called.push(call.name.clone());
            for block in pair.blocks.iter_mut().filter(|_| before > 0) {
                block.text.name = format!("{}, call {}", block.text.name, before + 1).into();
            }
        }
    }

    /// Whether nothing was called and nothing came back.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.env.is_empty()
    }
}

/// What is said of `left` items of a list that are not shown; nothing where all are.
pub(crate) fn not_shown(left: usize, one: &str, many: &str) -> Line {
    match left {
        0 => Line::default(),
        1 => format!("and 1 {one}, which the raw line has").into(),
        _ => format!("and {} {many}, which the raw line has", format::count(left as u64)).into(),
    }
}

/// Takes the item that belongs to the call of `name`: the next one where as many are left as calls are, or where the
/// names agree or are not written; else the first of that name.
fn take<'v, 'a>(
    items: &mut VecDeque<Item<'v, 'a>>,
    name: Option<&str>,
    calls_left: usize,
    name_of: impl Fn(&'v Json<'a>) -> Option<&'v Json<'a>>,
) -> Option<Item<'v, 'a>> {
    let agrees = |item: &Item<'v, 'a>| match name_of(item.1).and_then(Json::as_str) {
        Some(other) => name.is_none_or(|name| name == other),
        None => true,
    };
    if items.len() == calls_left {
        return items.pop_front();
    }
    let at = items.iter().position(agrees)?;
    items.remove(at)
}

/// The environment's answer in a result, with the pointer to it inside the result.
fn environment<'v, 'a>(result: &'v Json<'a>) -> Option<(&'v Json<'a>, &'static str)> {
    if let Some(env) = result.get("env").filter(|_| result.as_object().is_some_and(|members| members.len() == 1)) {
        return Some((env, "/env"));
    }
    let from_env = result.get("metadata").and_then(|meta| meta.get("source")).and_then(Json::as_str) == Some("env");
    let output = result.get("output").filter(|_| from_env)?;
    Some(output.get("env").map_or((output, "/output"), |env| (env, "/output/env")))
}

fn env_entry(index: usize, result: &Json<'_>, fold: &mut Fold) -> Option<Env> {
    let (env, inner) = environment(result)?;
    let mut marks = Vec::new();
    if env.get("done") == Some(&Json::Bool(true)) {
        marks.push(Sign::word("mk", "rule", "done"));
    }
    if let Some(Json::Number(reward)) = env.get("reward") {
        marks.push(Sign::plain("mk", format!("reward {reward}")));
    }
    if let Some(error) = env.get("error").and_then(Json::as_str) {
        marks.push(Sign::word("mk err", "error", text::one_line(error, 200).0));
    }
    Some(Env { marks, view: fold.json(env, &format!("/action_results/{index}{inner}")) })
}

fn pair(
    action: Option<Item<'_, '_>>,
    invocation: Option<Item<'_, '_>>,
    result: Option<Item<'_, '_>>,
    fold: &mut Fold,
) -> Pair {
    let mut out = Pair {
        call: action.map(|(index, action)| call(action, &format!("/actions/{index}"), fold)),
        ..Pair::default()
    };
    let invoked = invocation.map(|(_, invocation)| invocation);
    if out.call.is_none() {
        let name = invoked.and_then(|item| item.get("tool_name")).and_then(Json::as_str);
        out.call = name.map(|name| Call { name: name.into(), ..Call::default() });
    }
    out.note = match (action.is_some(), invocation.is_some(), result.is_some()) {
        (true, true, true) => Line::default(),
        (_, true, false) => "no result recorded".into(),
        (true, false, true) => "result without an invocation: no tool ran".into(),
        (true, false, false) => "not called: no invocation and no result".into(),
        (false, true, true) => "invocation and result without a call in the decision".into(),
        (false, false, _) => "result without a call".into(),
    };
    let value = result.map(|(_, result)| result);
    out.marks = marks(invoked, value);
    out.facts = facts(action.map(|(_, action)| action), invoked, value).into();
    let error = invoked.and_then(|item| item.get("error")).and_then(Json::as_str);
    let told = value.and_then(|item| item.get("error")).and_then(Json::as_str);
    if let (Some(error), Some((index, _))) = (error.filter(|error| told != Some(*error)), invocation) {
        out.block("error", error, &format!("/tool_invocations/{index}/error"), true, fold);
    }
    if let Some((index, result)) = result {
        out.result(result, &format!("/action_results/{index}"), fold);
    }
    out
}

/// Whether a result is wrapped as QitOS 0.6 writes it, or as our own engine does, which leaves out what is not there.
fn is_wrapped(result: &Json<'_>) -> bool {
    let ours = |key: &str| matches!(key, "status" | "output" | "error" | "cut_from_bytes");
    let all = ["status", "output", "error", "metadata"].iter().all(|key| result.get(key).is_some());
    all || ["status", "output"].iter().all(|key| result.get(key).is_some())
        && result.as_object().is_some_and(|members| members.iter().all(|(key, _)| ours(key)))
}

fn marks(invocation: Option<&Json<'_>>, result: Option<&Json<'_>>) -> Vec<Sign> {
    let word = |value: Option<&Json<'_>>, key: &str| Some(value?.get(key)?.as_str()?.to_owned());
    let ran = word(invocation, "status");
    let came = word(result.filter(|result| is_wrapped(result)), "status");
    let mut marks = Vec::new();
    match (&ran, &came) {
        (Some(ran), Some(came)) if ran != came => {
            marks.push(status(&format!("call {ran}"), ran));
            marks.push(status(&format!("result {came}"), came));
        }
        _ => marks.extend(ran.or(came).map(|word| status(&word, &word))),
    }
    marks.extend(word(invocation, "error_category").map(|category| Sign::plain("mk err", category)));
    if let Some(code) = result.and_then(return_code) {
        marks.push(Sign::plain("mk err", format!("returncode {code}")));
    }
    marks
}

fn status(text: &str, word: &str) -> Sign {
    match word {
        "success" => Sign::plain("mk", text),
        "skipped" | "cancelled" => Sign::word("mk", "cancel", text),
        "error" | "timed_out" | "failed" | "denied" => Sign::word("mk err", "error", text),
        _ => Sign::word("mk", "unknown", text),
    }
}

/// A return code that is not 0, as written.
pub(crate) fn return_code<'v>(result: &'v Json<'_>) -> Option<&'v str> {
    let output = if is_wrapped(result) { result.get("output")? } else { result };
    ["returncode", "return_code", "exit_code", "exitcode"].iter().find_map(|key| match output.get(key) {
        Some(Json::Number(code)) if *code != "0" => Some(*code),
        _ => None,
    })
}

fn facts(action: Option<&Json<'_>>, invocation: Option<&Json<'_>>, result: Option<&Json<'_>>) -> String {
    let metadata = result.filter(|result| is_wrapped(result)).and_then(|result| result.get("metadata"));
    let number =
        |key: &str| invocation.and_then(|item| item.get(key)).or_else(|| metadata?.get(key)).and_then(Json::as_f64);
    let word =
        |key: &str| invocation.and_then(|item| item.get(key)).and_then(Json::as_str).filter(|word| !word.is_empty());
    let mut facts = Vec::new();
    facts.extend(number("latency_ms").map(format::millis));
    let most = action.and_then(|action| action.get("max_retries")).and_then(Json::as_f64);
    facts.extend(number("attempts").map(|attempts| match most {
        Some(most) => format!("attempt {attempts} of {}", most + 1.0),
        None => format!("{attempts} attempt{}", if attempts == 1.0 { "" } else { "s" }),
    }));
    match (word("toolset_name"), word("toolset_version")) {
        (Some(name), Some(version)) => facts.push(format!("toolset {name} {version}")),
        (Some(name), None) => facts.push(format!("toolset {name}")),
        _ => {
            facts.extend(word("source").filter(|source| *source != "toolset").map(|source| format!("source {source}")))
        }
    }
    let cut = result.filter(|result| is_wrapped(result)).and_then(|result| result.get("cut_from_bytes")?.as_f64());
    facts.extend(cut.map(|whole| format!("cut from {}", format::bytes(whole as u64))));
    let timeout = number("timeout_s").or_else(|| action?.get("timeout_s")?.as_f64());
    facts.extend(timeout.map(|seconds| format!("timeout {}", format::millis(seconds * 1000.0))));
    facts.extend(word("cancel_source").map(|source| format!("cancelled by {source}")));
    facts.join(" · ")
}

/// Reads one action of a decision.
pub(crate) fn call(action: &Json<'_>, pointer: &str, fold: &mut Fold) -> Call {
    let Some(name) = action.get("name").and_then(Json::as_str) else {
        let value = text::one_line(&action.to_string(), ARGUMENT).0.into();
        return Call {
            name: "no name".into(),
            args: vec![Arg { name: Line::default(), value, comma: "" }],
            long: Vec::new(),
        };
    };
    let mut out = Call { name: name.into(), ..Call::default() };
    match action.get("args") {
        Some(Json::Object(args)) => {
            for (shown, (key, value)) in args.iter().enumerate() {
                if !fold.takes(shown) {
                    let value = not_shown(args.len() - shown, "more argument", "more arguments");
                    out.args.push(Arg { name: Line::default(), value, comma: "" });
                    break;
                }
                fold.spend(key);
                let at = format!("{pointer}/args/{}", token(key));
                out.argument(key, value, &at, fold);
            }
        }
        Some(args) if !args.is_empty() => out.argument("", args, &format!("{pointer}/args"), fold),
        _ => {}
    }
    let last = out.args.len().saturating_sub(1);
    out.args.iter_mut().take(last).for_each(|arg| arg.comma = ", ");
    out
}

impl Call {
    fn argument(&mut self, key: &str, value: &Json<'_>, at: &str, fold: &mut Fold) {
        let name: Line = if key.is_empty() { Line::default() } else { format!("{key}=").into() };
        let written = value.to_string();
        let breaks = matches!(value, Json::String(text) if text.contains('\n'));
        if written.len() <= ARGUMENT && !breaks {
            self.args.push(Arg { name, value: written.into(), comma: "" });
            return;
        }
        let text = match value {
            Json::String(text) => fold.text(text, at),
            _ => fold.text(&written, at),
        };
        let size = format::bytes(written.len() as u64);
        self.args.push(Arg { name, value: format!("… {size} below").into(), comma: "" });
        let label = if key.is_empty() { "arguments" } else { key };
        self.long.push(Block { label: label.into(), text, error: false });
    }
}

impl Pair {
    fn block(&mut self, label: &str, text: &str, at: &str, error: bool, fold: &mut Fold) {
        let name = match &self.call {
            Some(call) => format!("{label} of {}", call.name),
            None => label.to_owned(),
        };
        self.blocks.push(Block { label: label.into(), text: fold.text(text, at).named(name), error });
    }

    fn result(&mut self, result: &Json<'_>, at: &str, fold: &mut Fold) {
        self.href = fold.links.value(at);
        if !is_wrapped(result) {
            self.output(result, at, fold);
            return;
        }
        if let Some(error) = result.get("error").and_then(Json::as_str) {
            self.block("error", error, &format!("{at}/error"), true, fold);
        }
        if let Some(output) = result.get("output") {
            self.output(output, &format!("{at}/output"), fold);
        }
    }

    fn output(&mut self, output: &Json<'_>, at: &str, fold: &mut Fold) {
        match output {
            Json::Null if self.blocks.is_empty() => self.small = "no output".into(),
            Json::Null => {}
            Json::String(text) if text.is_empty() => self.small = "empty text".into(),
            Json::String(text) => self.block("output", text, at, false, fold),
            Json::Object(members) => self.members(members, at, fold),
            _ => self.rest.push((Line::default(), fold.json(output, at))),
        }
    }

    /// Splits an object into the texts it holds, small values in words, and the rest.
    fn members(&mut self, members: &[(std::borrow::Cow<'_, str>, Json<'_>)], at: &str, fold: &mut Fold) {
        let rank = |key: &str| OUTPUTS.iter().position(|output| *output == key);
        let is_block = |key: &str, text: &str| {
            !text.is_empty() && (rank(key).is_some() || text.contains('\n') || text.len() > ARGUMENT)
        };
        let mut texts: Vec<_> = members
            .iter()
            .filter_map(|(key, value)| Some((key.as_ref(), value.as_str()?)))
            .filter(|(key, text)| is_block(key, text))
            .collect();
        texts.sort_by_key(|(key, _)| rank(key).unwrap_or(OUTPUTS.len()));
        let mut left = 0;
        for (key, text) in texts {
            if !fold.takes(self.blocks.len()) {
                left += 1;
                continue;
            }
            fold.spend(key);
            self.block(key, text, &format!("{at}/{}", token(key)), matches!(key, "error" | "stderr"), fold);
        }
        let mut small = Vec::new();
        for (key, value) in members {
            match value {
                Json::String(text) if text.is_empty() => small.push(format!("{key} empty")),
                Json::String(text) if is_block(key, text) => {}
                Json::String(text) => small.push(format!("{key} {text}")),
                Json::Array(_) | Json::Object(_) | Json::Deep(_) if !fold.takes(self.rest.len()) => left += 1,
                Json::Array(_) | Json::Object(_) | Json::Deep(_) => {
                    fold.spend(key);
                    let view = fold.json(value, &format!("{at}/{}", token(key)));
                    self.rest.push((key.as_ref().into(), view));
                }
                _ => small.push(format!("{key} {value}")),
            }
        }
        if left > 0 {
            small.insert(0, not_shown(left, "more value", "more values").as_str().to_owned());
        }
        self.small = small.join(" · ").into();
        fold.spend(self.small.as_str());
    }
}

#[cfg(test)]
mod tests;
