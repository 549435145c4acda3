//! Shows the actions of a step and their results. Joins the calls of a decision with their
//! invocations and results.
//!
//! The three lists have no ids in common. They are joined by order, and by the tool's name if it is
//! recorded. An item without a partner is shown alone with a note.

use std::collections::{BTreeSet, VecDeque};

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::format;
use crate::analysis::patch;
use crate::model::CallEnd;
use crate::model::json::Json;
use crate::model::names::{MAX_ANSWER_BYTES, capped};
use crate::model::step::{
    Call as RecordedCall, Effort, Invocation, NOT_RECORDED, Outcome, Step, Value,
};
use crate::model::telling::{Tells, lines_of_file, said_line, telling_line, tests_line};
use crate::page::part::attachment;
use crate::page::part::edit::FileEdit;
use crate::page::part::fold::{Fold, Folded};
use crate::page::part::json_tree::{JsonView, token};
use crate::page::part::sign::Sign;
use crate::page::part::text;
use crate::page::part::text::Line;

/// Arguments with longer texts are shown below the call; bytes.
const ARGUMENT: usize = 80;
/// Keys of texts that a tool printed, errors first.
const OUTPUTS: [&str; 10] = [
    "error", "stderr", "stdout", "content", "text", "output", "message", "result", "body", "diff",
];

/// The Action, result section of a step.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "part/action.html")]
pub(crate) struct Actions {
    /// Each call with its result.
    pub pairs: Vec<Pair>,
    /// The replies of the environment.
    pub env: Vec<Env>,
    /// States how many calls or results aren't shown.
    pub more: Line,
}

impl HtmlSafe for Actions {}

/// A call with its invocation and its result.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pair {
    /// The call. `None` for a result without a call.
    pub call: Option<Call>,
    /// The file edits that the call requests.
    pub edits: Vec<FileEdit>,
    /// The outcome: status, return code, category of the error.
    pub marks: Vec<Sign>,
    /// Latency, attempts, toolset, timeout.
    pub facts: Line,
    /// States what is missing or odd about this pair.
    pub note: Line,
    /// Texts of the result, errors first.
    pub blocks: Vec<Block>,
    /// The rest of the result, by key. The key is empty if the rest isn't a member of an object.
    pub rest: Vec<(Line, JsonView)>,
    /// Small values of the result as text.
    pub small: Line,
    /// The address of the result on a separate page.
    pub href: Option<String>,
    /// Whether the result only confirms the edits.
    pub confirms_edits: bool,
    /// Whether the result records a failure.
    is_failed: bool,
    /// The file that the call reads.
    pub reads: Option<String>,
    /// The task that the call gives to a helper, if it may start one. If it's truncated, it ends with an
    /// ellipsis.
    pub asks: Option<String>,
}

/// Names of arguments that hold a file's path.
const PATHS: [&str; 8] = [
    "file_path",
    "filePath",
    "filepath",
    "target_file",
    "absolute_path",
    "path",
    "filename",
    "file",
];
/// Words in the names of tools that print a file unchanged.
const READERS: [&str; 4] = ["read", "view", "cat", "open"];

/// Names of arguments that hold the task of a helper.
const ASKS: [&str; 6] = [
    "prompt",
    "message",
    "task",
    "objective",
    "query",
    "description",
];
/// The bytes of a task that are compared: the most that a summary has.
const MAX_ASKED: usize = MAX_ANSWER_BYTES;

/// Returns the task that a call may give to a helper, truncated if it's long.
fn asked_by(args: &Json<'_>) -> Option<String> {
    let words = ASKS.iter().find_map(|key| args.get(key)?.as_str())?;
    let words = words.trim();
    (!words.is_empty()).then(|| capped(words, MAX_ASKED).into_string())
}

/// Returns the file that a call reads, judging by the tool's name and an argument.
fn read_by(tool: &str, args: &Json<'_>) -> Option<String> {
    let tool = tool.to_ascii_lowercase();
    let is_reader = READERS.iter().any(|word| tool.contains(word));
    let path = PATHS.iter().find_map(|key| args.get(key)?.as_str());
    path.filter(|_| is_reader).map(str::to_owned)
}

/// Names of arguments that describe a call best, in order of preference.
const OBJECTS: [&str; 19] = [
    "script",
    "pattern",
    "query",
    "url",
    "file_path",
    "filePath",
    "filepath",
    "target_file",
    "absolute_path",
    "notebook_path",
    "path",
    "filename",
    "file",
    "dir_path",
    "dirpath",
    "description",
    "skill",
    "prompt",
    "message",
];
/// Limits the characters of a call's object, and of the first line of a result.
const MAX_OBJECT: usize = 160;
const MAX_FIRST_LINE: usize = 120;

/// Returns the argument that describes the call best, in one line: a command, a pattern with its
/// directory, a file with its line range, or the edited files.
fn object(call: &RecordedCall<'_>, args: &Json<'_>, edits: &patch::CallEdits<'_>) -> String {
    if let Some(files) = files_of(edits) {
        return files;
    }
    if let Some(text) = args.as_str() {
        return line_of(text);
    }
    if let Some(command) = call.command() {
        return line_of(&command);
    }
    let commands = patch::commands_in_scripts(args);
    if let Some((first, others)) = commands.split_first() {
        let first = line_of(first);
        return match others.len() {
            0 => first,
            others => format!("{first} and {}", format::counted(others, "more command")),
        };
    }
    let tool = call.name.as_deref().unwrap_or_default();
    let found = OBJECTS.iter().find_map(|key| {
        let words = args.get(key)?.as_str()?;
        (!words.trim().is_empty()).then_some((*key, words))
    });
    let Some((key, words)) = found else {
        return String::new();
    };
    let number = |key: &str| match args.get(key) {
        Some(Json::Number(number)) => number.parse::<u64>().ok(),
        _ => None,
    };
    let more = match key {
        "pattern" => args
            .get("path")
            .and_then(Json::as_str)
            .map(|path| format!(" {path}")),
        _ if PATHS.contains(&key) && read_by(tool, args).is_some() => {
            // Gemini CLI and Qwen Code count lines from 0.
            let from = u64::from(tool == "read_file");
            let first = number("offset").map(|first| (first + from).max(1));
            match (first, number("limit")) {
                (first, Some(lines)) if lines > 0 => {
                    let first = first.unwrap_or(1);
                    Some(format!(":{first}–{}", first.saturating_add(lines - 1)))
                }
                (Some(first), _) => Some(format!(":{first}–")),
                _ => None,
            }
        }
        _ => None,
    };
    format!("{}{}", line_of(words), more.unwrap_or_default())
}

/// Returns the files that a call edits, in one line.
fn files_of(edits: &patch::CallEdits<'_>) -> Option<String> {
    let paths: BTreeSet<&str> = edits.edits.iter().map(|edit| &*edit.path).collect();
    let first = text::one_line(&edits.edits.first()?.path, MAX_OBJECT).0;
    Some(match paths.len() - 1 {
        0 => first,
        others => format!("{first} and {}", format::counted(others, "more file")),
    })
}

/// The words that coding agents use for the status of a task.
const TASK_STATUSES: [&str; 8] = [
    "pending",
    "todo",
    "in_progress",
    "in-progress",
    "completed",
    "done",
    "cancelled",
    "blocked",
];

/// Returns the progress of a list of tasks and the one in progress: "1 of 3 done · Run the tests".
fn todos(args: &Json<'_>) -> Option<String> {
    let lists = ["todos", "plan", "items"];
    let tasks = lists
        .iter()
        .find_map(|key| args.get(key)?.as_array())
        .filter(|tasks| !tasks.is_empty())?;
    let status = |task: &Json<'_>| match task.get("completed") {
        Some(Json::Bool(true)) => Some("done".to_owned()),
        Some(Json::Bool(false)) => Some("pending".to_owned()),
        _ => {
            let status = task.get("status").and_then(Json::as_str);
            status.map(str::to_ascii_lowercase)
        }
    };
    let known: Option<Vec<String>> = tasks.iter().map(status).collect();
    let known = known?;
    let is_task = |status: &String| TASK_STATUSES.contains(&status.as_str());
    if !known.iter().all(is_task) {
        return None;
    }
    let done = known
        .iter()
        .filter(|status| matches!(&***status, "completed" | "done"));
    let now = known.iter().position(|status| status.contains("progress"));
    let names = ["content", "step", "title", "description", "text"];
    let now = now
        .and_then(|at| tasks.get(at))
        .and_then(|task| names.iter().find_map(|key| task.get(key)?.as_str()));
    let mut words = format!("{} of {} done", done.count(), tasks.len());
    if let Some(now) = now {
        words = format!("{words} · {}", line_of(now));
    }
    Some(words)
}

/// Returns the first line that isn't blank. An ellipsis replaces the others.
fn line_of(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default().trim();
    let (shown, is_whole) = text::one_line(first, MAX_OBJECT);
    match lines.next() {
        Some(_) if is_whole => format!("{shown} …"),
        _ => shown,
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Call {
    pub name: Line,
    /// The argument that describes the call best, in one line: a command, a file, a pattern. Without
    /// one, all short arguments.
    pub object: Line,
    /// Whether the object is the progress of a list of tasks.
    pub is_progress: bool,
    /// The arguments that fit on the line.
    pub args: Vec<Arg>,
    /// The other arguments.
    pub long: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arg {
    /// The name and `=`. Empty if the arguments have no names.
    pub name: Line,
    pub value: Line,
    /// A comma, if another argument follows.
    pub comma: &'static str,
}

#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub label: Line,
    pub text: Folded,
    /// The line that says most: the first line of an output, the end of a test run, or an error.
    pub first_line: Line,
    /// Whether it reports an error.
    pub error: bool,
}

/// A reply of the environment to a step.
#[derive(Debug, Clone)]
pub(crate) struct Env {
    /// Whether the environment is done, the reward and errors.
    pub marks: Vec<Sign>,
    /// The whole reply.
    pub view: JsonView,
}

impl Pair {
    /// Returns whether a sign of the call already says what a block is: an error.
    pub(crate) fn has_sign(&self, block: &Block) -> bool {
        let is_same = |mark: &Sign| mark.text.as_str() == block.label.as_str();
        block.error && self.marks.iter().any(is_same)
    }
}

impl Actions {
    /// Joins the first call of a step with its invocation and result.
    pub(crate) fn first(step: &Step<'_>, fold: &mut Fold) -> Option<Pair> {
        Self::up_to(1, step, fold).pairs.into_iter().next()
    }

    /// Joins the calls of a step with their invocations and results.
    pub(crate) fn new(step: &Step<'_>, fold: &mut Fold) -> Self {
        Self::up_to(usize::MAX, step, fold)
    }

    /// Joins at most `most` calls.
    fn up_to(most: usize, step: &Step<'_>, fold: &mut Fold) -> Self {
        let mut invocations: VecDeque<&Invocation<'_>> = step.invocations.iter().collect();
        let (env, results): (Vec<_>, Vec<_>) =
            step.results.iter().partition(|result| result.env.is_some());
        let mut results: VecDeque<&Outcome<'_>> = results.into();
        let call_count = step.calls.total();
        let mut out = Self::default();
        let mut left = call_count;
        for (index, call) in step.calls.iter().enumerate() {
            if out.pairs.len() == most || !fold.takes(out.pairs.len()) {
                break;
            }
            left -= 1;
            let name = call.name.as_deref();
            // If the numbers match, order alone is right, even if the names differ.
            let invocation = take(&mut invocations, name, call_count - index, |item| {
                item.tool.as_deref()
            });
            let result = take(&mut results, name, call_count - index, |item| {
                item.tool.as_deref()
            });
            out.pairs.push(pair(
                Some(call),
                invocation,
                result,
                step.has_invocations,
                fold,
            ));
        }
        while left == 0
            && (!invocations.is_empty() || !results.is_empty())
            && fold.takes(out.pairs.len())
        {
            out.pairs.push(pair(
                None,
                invocations.pop_front(),
                results.pop_front(),
                step.has_invocations,
                fold,
            ));
        }
        out.tell_apart();
        let more = |total: usize, read: usize| total - read;
        let mut left = left
            .max(invocations.len() + more(step.invocations.total(), step.invocations.len()))
            .max(results.len() + more(step.results.total(), step.results.len()));
        for result in env {
            if fold.takes(out.env.len()) {
                out.env.extend(result.env.map(|env| env_entry(env, fold)));
            } else {
                left += 1;
            }
        }
        out.more = not_shown(left, "more call or result", "more calls or results");
        out
    }

    /// Numbers the texts of repeated calls of a tool in this step, and repeated edits of a file. As
    /// regions of the page they need distinct names.
    fn tell_apart(&mut self) {
        let mut edited: Vec<Line> = Vec::new();
        for edit in self.pairs.iter_mut().flat_map(|pair| &mut pair.edits) {
            let before = edited.iter().filter(|path| **path == edit.path).count();
            edited.push(edit.path.clone());
            if before > 0 {
                edit.name = format!("{}, edit {}", edit.name, before + 1).into();
            }
        }
        let mut called: Vec<Line> = Vec::new();
        for pair in &mut self.pairs {
            let Some(call) = &pair.call else { continue };
            let before = called.iter().filter(|name| **name == call.name).count();
            called.push(call.name.clone());
            // A page with many texts doesn't name them.
            let is_named = |block: &&mut Block| before > 0 && !block.text.name.is_empty();
            for block in pair.blocks.iter_mut().filter(is_named) {
                block.text.name = format!("{}, call {}", block.text.name, before + 1).into();
            }
        }
    }

    /// Returns whether there are no calls and no results.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty() && self.env.is_empty()
    }
}

/// States that `left` items of a list aren't shown. Returns an empty line for 0.
pub(crate) fn not_shown(left: usize, one: &str, many: &str) -> Line {
    match left {
        0 => Line::default(),
        1 => format!("and 1 {one} (see the raw record)").into(),
        _ => format!(
            "and {} {many} (see the raw record)",
            format::count(left as u64)
        )
        .into(),
    }
}

/// Takes the item of the call `name`. If there are as many items as calls, takes the next one.
/// Otherwise takes the first item that has this name or no name.
fn take<'v, T>(
    items: &mut VecDeque<&'v T>,
    name: Option<&str>,
    calls_left: usize,
    name_of: impl Fn(&T) -> Option<&str>,
) -> Option<&'v T> {
    let agrees =
        |item: &&T| name_of(item).is_none_or(|other| name.is_none_or(|name| name == other));
    if items.len() == calls_left {
        return items.pop_front();
    }
    let at = items.iter().position(agrees)?;
    items.remove(at)
}

fn env_entry(answer: Value<'_>, fold: &mut Fold) -> Env {
    let env = answer.json();
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
    Env {
        marks,
        view: fold.json(&env, &answer.at.to_string()),
    }
}

fn pair(
    call: Option<&RecordedCall<'_>>,
    invocation: Option<&Invocation<'_>>,
    result: Option<&Outcome<'_>>,
    tells: bool,
    fold: &mut Fold,
) -> Pair {
    let args = call.and_then(|call| call.args).map(Value::json);
    let name = call
        .and_then(|call| call.name.as_deref())
        .unwrap_or_default();
    let requested = args
        .as_ref()
        .map(|args| patch::requested_edits(name, args))
        .unwrap_or_default();
    let mut out = Pair {
        call: call.map(|call| Call::new(call, args.as_ref(), &requested, fold)),
        reads: args.as_ref().and_then(|args| read_by(name, args)),
        asks: args.as_ref().and_then(asked_by),
        ..Pair::default()
    };
    let done = CallEnd::of(result, invocation).is_ok();
    out.confirms_edits = done == Some(true) && !requested.edits.is_empty();
    if requested.too_large.is_some() {
        out.note = "edit too large to show line by line".into();
    }
    let scripts = args.as_ref().and_then(patch::in_scripts);
    let in_scripts = scripts
        .as_ref()
        .map(|patches| patch::requested_edits("", patches))
        .unwrap_or_default();
    if requested.edits.is_empty()
        && let Some((call, files)) = out.call.as_mut().zip(files_of(&in_scripts))
    {
        call.object = files.into();
    }
    let edits = if requested.edits.is_empty() {
        &in_scripts.edits
    } else {
        &requested.edits
    };
    for edit in edits {
        if !fold.takes(out.edits.len()) {
            out.note = not_shown(edits.len() - out.edits.len(), "more edit", "more edits");
            break;
        }
        out.edits.push(FileEdit::new(edit, done, fold));
    }
    if out.call.is_none() {
        let name = invocation.and_then(|invocation| invocation.tool.as_deref());
        out.call = name.map(|name| Call {
            name: name.into(),
            ..Call::default()
        });
    }
    let note: Line = match (call.is_some(), invocation.is_some(), result.is_some()) {
        (true, true, true) => Line::default(),
        (true, false, true) if !tells => Line::default(),
        (true, false, false) if !tells => "no result recorded".into(),
        (_, true, false) => "no result recorded".into(),
        (true, false, true) => "result without an invocation (no tool ran)".into(),
        (true, false, false) => "not called (no invocation and no result)".into(),
        (false, true, true) => "invocation and result without a call in the decision".into(),
        (false, false, _) => "a result without a recorded call".into(),
    };
    if !note.is_empty() {
        out.note = note;
    }
    out.marks = marks(invocation, result);
    out.facts = facts(call, invocation, result).into();
    let error = invocation.and_then(|invocation| invocation.error);
    let result_text = result
        .and_then(|result| result.error)
        .and_then(Value::string);
    if let Some((error, text)) = error
        .and_then(|error| Some((error, error.string()?)))
        .filter(|(_, text)| result_text.as_ref() != Some(text))
    {
        out.block("error", &text, &error.at.to_string(), true, fold);
    }
    if let Some(result) = result {
        out.result(result, fold);
    }
    out
}

fn marks(invocation: Option<&Invocation<'_>>, result: Option<&Outcome<'_>>) -> Vec<Sign> {
    let ran = invocation.and_then(|invocation| invocation.status.as_deref());
    let came = result.and_then(|result| match result.status.as_deref() {
        Some(status) if result.is_wrapped || Outcome::is_failure(status) => Some(status),
        _ => result.has_failed().then_some("error"),
    });
    let code = result.and_then(|result| result.exit);
    let mut marks = Vec::new();
    match (ran, came) {
        // The call returned, but its command failed.
        (Some("success"), Some("success") | None) | (None, Some("success"))
            if code.is_some_and(|code| code != 0) => {}
        (Some(ran), Some(came)) if ran != came => {
            marks.push(status(&format!("call {ran}"), ran));
            marks.push(status(&format!("result {came}"), came));
        }
        _ => marks.extend(ran.or(came).map(|word| match word {
            NOT_RECORDED => status("outcome not recorded", word),
            word => status(word, word),
        })),
    }
    let category = invocation.and_then(|invocation| invocation.category.as_deref());
    marks.extend(category.map(|category| Sign::plain("mk err", category)));
    marks.extend(
        code.map(|code| Sign::plain("mk err", format!("exit code {}", format::exit_code(code)))),
    );
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

fn facts(
    call: Option<&RecordedCall<'_>>,
    invocation: Option<&Invocation<'_>>,
    result: Option<&Outcome<'_>>,
) -> String {
    let result = result.filter(|result| result.is_wrapped);
    let efforts = [
        invocation.map(|invocation| &invocation.effort),
        result.map(|result| &result.effort),
    ];
    let number = |of: fn(&Effort<'_>) -> Option<f64>| efforts.into_iter().flatten().find_map(of);
    let word = |of: for<'v> fn(&'v Effort<'_>) -> Option<&'v str>| {
        invocation.and_then(|invocation| of(&invocation.effort))
    };
    let mut facts = Vec::new();
    facts.extend(number(|effort| effort.latency_ms).map(format::millis));
    let most = call.and_then(|call| call.max_retries);
    facts.extend(number(|effort| effort.attempts).map(|attempts| match most {
        Some(most) => format!("attempt {attempts} of {}", most + 1.0),
        None => format!(
            "{attempts} attempt{}",
            if attempts == 1.0 { "" } else { "s" }
        ),
    }));
    match (
        word(|effort| effort.toolset.as_deref()),
        word(|effort| effort.toolset_version.as_deref()),
    ) {
        (Some(name), Some(version)) => facts.push(format!("toolset {name} {version}")),
        (Some(name), None) => facts.push(format!("toolset {name}")),
        _ => {
            let source =
                word(|effort| effort.source.as_deref()).filter(|source| *source != "toolset");
            facts.extend(source.map(|source| format!("source {source}")));
        }
    }
    let cut = result.and_then(|result| result.cut_from_bytes);
    facts.extend(cut.map(|whole| format!("truncated from {}", format::bytes(whole as u64))));
    let timeout = number(|effort| effort.timeout_s).or_else(|| call?.timeout_s);
    facts.extend(timeout.map(|seconds| format!("timeout {}", format::millis(seconds * 1000.0))));
    facts.extend(
        word(|effort| effort.cancelled_by.as_deref())
            .map(|source| format!("cancelled by {source}")),
    );
    facts.join(" · ")
}

impl Call {
    /// Reads a call. Skips arguments that are shown as an edit.
    fn new(
        call: &RecordedCall<'_>,
        args: Option<&Json<'_>>,
        edits: &patch::CallEdits<'_>,
        fold: &mut Fold,
    ) -> Self {
        let Some(name) = call.name.as_deref() else {
            let value = text::one_line(&call.value.json().to_string(), ARGUMENT)
                .0
                .into();
            return Self {
                name: "no name".into(),
                object: Line::default(),
                is_progress: false,
                args: vec![Arg {
                    name: Line::default(),
                    value,
                    comma: "",
                }],
                long: Vec::new(),
            };
        };
        let object = args
            .map(|args| object(call, args, edits))
            .unwrap_or_default();
        let progress = args.filter(|_| object.is_empty()).and_then(todos);
        let mut out = Self {
            name: name.into(),
            is_progress: progress.is_some(),
            object: progress.unwrap_or(object).into(),
            ..Self::default()
        };
        let at = call
            .args
            .map(|args| args.at.to_string())
            .unwrap_or_default();
        match args {
            Some(Json::Object(args)) => {
                let args: Vec<_> = args
                    .iter()
                    .filter(|(key, _)| !edits.arguments.contains(&&**key))
                    .collect();
                for (shown, (key, value)) in args.iter().enumerate() {
                    if !fold.takes(shown) {
                        let value =
                            not_shown(args.len() - shown, "more argument", "more arguments");
                        out.args.push(Arg {
                            name: Line::default(),
                            value,
                            comma: "",
                        });
                        break;
                    }
                    fold.spend(key);
                    out.argument(key, value, &format!("{at}/{}", token(key)), fold);
                }
            }
            Some(args) if !args.is_empty() && edits.edits.is_empty() => {
                out.argument("", args, &at, fold)
            }
            _ => {}
        }
        let last = out.args.len().saturating_sub(1);
        out.args
            .iter_mut()
            .take(last)
            .for_each(|arg| arg.comma = ", ");
        if out.object.is_empty() {
            let args = out
                .args
                .iter()
                .filter(|arg| !arg.value.as_str().starts_with('…'));
            let args: Vec<String> = args
                .map(|arg| format!("{}{}", arg.name, arg.value))
                .collect();
            out.object = text::one_line(&args.join(", "), MAX_OBJECT).0.into();
        }
        out
    }

    fn argument(&mut self, key: &str, value: &Json<'_>, at: &str, fold: &mut Fold) {
        let name: Line = if key.is_empty() {
            Line::default()
        } else {
            format!("{key}=").into()
        };
        let written = value.to_string();
        let breaks = matches!(value, Json::String(text) if text.contains('\n'));
        if written.len() <= ARGUMENT && !breaks {
            self.args.push(Arg {
                name,
                value: written.into(),
                comma: "",
            });
            return;
        }
        let text = match value {
            Json::String(text) if matches!(key, "command" | "cmd") => fold.code(text, at, "bash"),
            Json::String(text) => fold.text(text, at),
            _ => fold.text(&written, at),
        };
        let size = format::bytes(written.len() as u64);
        self.args.push(Arg {
            name,
            value: format!("… shown below, {size}").into(),
            comma: "",
        });
        let label = if key.is_empty() { "arguments" } else { key };
        self.long.push(Block {
            label: label.into(),
            text,
            first_line: Line::default(),
            error: false,
        });
    }
}

impl Pair {
    fn block(&mut self, label: &str, text: &str, at: &str, error: bool, fold: &mut Fold) {
        let name = match &self.call {
            Some(call) => format!("{label} of {}", call.name),
            None => label.to_owned(),
        };
        let folded = match error || self.is_failed {
            true => fold.failing(text, at),
            false => fold.output(text, at, self.reads.as_deref()),
        };
        self.blocks.push(Block {
            label: label.into(),
            // Named texts are regions of the page. A page with many texts would have too many.
            text: match fold.is_brief() {
                true => folded,
                false => folded.named(name),
            },
            first_line: self.first_line(text, error || self.is_failed),
            error,
        });
    }

    /// Returns what a text says in one line.
    fn first_line(&self, text: &str, is_failed: bool) -> Line {
        let line = if is_failed {
            let cause = telling_line(text, Tells::Last);
            match tests_line(text).filter(|tests| *tests != cause) {
                Some(tests) => format!("{tests} · {cause}").into(),
                None => cause,
            }
        } else {
            let lines = self.reads.as_ref().and_then(|_| lines_of_file(text));
            match lines {
                Some(lines) => format::counted(lines, "line").into(),
                None => said_line(text),
            }
        };
        text::one_line(&line, MAX_FIRST_LINE).0.into()
    }

    fn result(&mut self, result: &Outcome<'_>, fold: &mut Fold) {
        self.is_failed = result.has_failed() || result.exit.is_some();
        self.href = fold.links.value(&result.value.at.to_string());
        if let Some((error, text)) = result
            .error
            .filter(|_| result.is_wrapped)
            .and_then(|error| Some((error, error.string()?)))
        {
            self.block("error", &text, &error.at.to_string(), true, fold);
        }
        if let Some(output) = result.output {
            self.output(
                &output.json(),
                &output.at.to_string(),
                result.has_failed(),
                fold,
            );
        }
    }

    fn output(&mut self, output: &Json<'_>, at: &str, failed: bool, fold: &mut Fold) {
        match output {
            Json::Null if self.blocks.is_empty() => self.small = "no output".into(),
            Json::Null => {}
            Json::String(text) if text.is_empty() => self.small = "empty text".into(),
            Json::String(_) if attachment::of(output).is_some() => {
                self.rest.push((Line::default(), fold.json(output, at)))
            }
            Json::String(text) => self.block("output", text, at, false, fold),
            Json::Object(members) => self.members(members, at, failed, fold),
            Json::Array(blocks) => {
                // Tools return texts and pictures as a list of blocks.
                let is_blocks = blocks
                    .iter()
                    .all(|block| block.get("type").and_then(Json::as_str).is_some());
                let words = blocks
                    .iter()
                    .filter(|_| is_blocks)
                    .filter_map(|block| block.get("text")?.as_str());
                let words = words.collect::<Vec<_>>().join("\n");
                if !words.is_empty() {
                    self.block("output", &words, at, false, fold);
                }
                self.rest.push((Line::default(), fold.json(output, at)));
            }
            _ => self.rest.push((Line::default(), fold.json(output, at))),
        }
    }

    /// Splits an object into texts, small values in words, and the rest.
    fn members(
        &mut self,
        members: &[(std::borrow::Cow<'_, str>, Json<'_>)],
        at: &str,
        failed: bool,
        fold: &mut Fold,
    ) {
        let rank = |key: &str| OUTPUTS.iter().position(|output| *output == key);
        let is_block = |key: &str, text: &str| {
            !text.is_empty()
                && !attachment::is_data(text)
                && (rank(key).is_some() || text.contains('\n') || text.len() > ARGUMENT)
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
            // The `error` of a successful tool may say that there was no error.
            let is_error = key == "stderr" || key == "error" && failed;
            self.block(key, text, &format!("{at}/{}", token(key)), is_error, fold);
        }
        let mut small = Vec::new();
        for (key, value) in members {
            match value {
                Json::String(text) if text.is_empty() => small.push(format!("{key} empty")),
                Json::String(text) if is_block(key, text) => {}
                Json::String(text) if attachment::is_data(text) => {
                    let view = fold.json(value, &format!("{at}/{}", token(key)));
                    self.rest.push((key.as_ref().into(), view));
                }
                Json::String(text) => small.push(format!("{key} {text}")),
                Json::Array(_) | Json::Object(_) | Json::Deep(_)
                    if !fold.takes(self.rest.len()) =>
                {
                    left += 1
                }
                Json::Array(_) | Json::Object(_) | Json::Deep(_) => {
                    fold.spend(key);
                    let view = fold.json(value, &format!("{at}/{}", token(key)));
                    self.rest.push((key.as_ref().into(), view));
                }
                _ => small.push(format!("{key} {value}")),
            }
        }
        if left > 0 {
            small.insert(
                0,
                not_shown(left, "more value", "more values")
                    .as_str()
                    .to_owned(),
            );
        }
        self.small = small.join(" · ").into();
        fold.spend(self.small.as_str());
    }
}

#[cfg(test)]
mod tests;
