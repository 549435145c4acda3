//! Reads trajectories of SWE-agent: one JSON document `*.traj`, rewritten as a whole after each
//! step.
//!
//! Covers versions 0.7 to 1.1. An element of `trajectory` is a step with its observation. Tokens
//! and cost are recorded only for the whole run. Before 1.0, `state` is JSON text with the state
//! that the step found. Since then it's an object with the state that the step left. In both cases,
//! comparison with the adjacent step's record shows what a step changed. A demonstration may
//! consist of a `history` of messages only.

use super::ends::{End, ends};
use super::part::{self, quoted, text};
use super::value::{above_zero, count, cut, filled, is_true, limit, number, patched, unpacked};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool};
use crate::model::json::{Json, walk};
use crate::model::step::Usage;
use crate::model::{Bound, Can, Capabilities, Certainty, Ended, Format, Op, Outcome, ToolLimit};

/// A trajectory.
pub(super) static TRAJECTORY: Tool = Tool {
    format: Format {
        name: "SWE-agent trajectory",
        can: Capabilities {
            state: Can::Partly,
            limits: Can::Partly,
            ..Capabilities::NONE
        },
        file: "trajectory",
        no_end_reason: "SWE-agent writes the exit status only when a run ends",
        has_command_tools: true,
        assemble: Some(assembled),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Document(&[
        &["trajectory", "*"],
        &["history", "*"],
        &["info"],
        &["replay_config"],
    ]),
    is: |name, head| {
        let is = |(key, value): &(&str, &str)| {
            matches!(*key, "\"trajectory\"" | "\"history\"") && value.starts_with('[')
        };
        name.ends_with(".traj") && begun(head).iter().any(is)
    },
    reader: || Box::new(Trajectory::default()),
};

fields! {
    struct Element { action, observation, response, thought, execution_time, state }
    struct Item { role, content, thought, action, tool_calls, tool_call_ids, demo = "is_demo" }
    struct ToolCall { id, function }
    struct Function { name, arguments }
    struct Info { exit_status, submission, model_stats, version = "swe_agent_version" }
    struct Stats { instance_cost, total_cost, tokens_sent, tokens_received, api_calls }
    struct Config { agent, problem_statement }
    struct Agent { model, tools }
    struct Model { name, per_instance_cost_limit, total_cost_limit, per_instance_call_limit }
    struct Tools { total_execution_timeout }
    struct Problem { id, text }
}

/// The exit statuses.
const ENDS: &[End] = ends! {
    "submitted" => Completed, "Submitted";
    "exit_cost" => Truncated, "Cost or call limit reached",
        "Cost": "per_instance_cost_limit",
        "Model call": "per_instance_call_limit",
        "Total cost": "total_cost_limit";
    "exit_context" => Failed, Ended::CONTEXT_FULL;
    "exit_total_execution_time" => Truncated, "Time limit for commands reached";
    "exit_command_timeout" => Truncated, "Too many commands timed out";
    "exit_format" => Failed, "Too many replies without a runnable command";
    "exit_api" => Failed, "API error";
    "exit_environment_error" => Failed, "Failed with an environment error";
    "exit_error" => Failed, "Failed with an error";
    "exit_forfeit" => Failed, "The agent gave up";
    "exit_command" => Cancelled, "Ended by a user command";
    "early_exit" => Failed, "Ended early";
    "*" => Unknown, "Ended for a reason board doesn't know";
};

/// A trajectory while it is being read.
#[derive(Debug, Default)]
struct Trajectory {
    /// Whether an element of the trajectory was read. The history then repeats the elements.
    has_elements: bool,
    /// The number of replies in a history before the elements that no element has repeated yet.
    unrepeated: usize,
    /// The newest step with a state: its number, its event, and its recorded state.
    last: Option<(usize, usize, String)>,
    /// The step of a demonstration that the next message belongs to.
    open: Option<usize>,
    /// Whether the newest call of a demonstration submits.
    submits: bool,
    has_info: bool,
    /// The text about the end in an element that isn't a reply.
    note: String,
    end: Option<Ended>,
    limits: Limits,
    stats: [Option<f64>; 3],
    /// The number of replies that the program counted.
    counted: Option<u64>,
    answer: Option<Box<str>>,
}

#[derive(Debug, Default)]
struct Limits {
    cost: Option<f64>,
    total_cost: Option<f64>,
    calls: Option<f64>,
    seconds: Option<f64>,
}

impl Reader for Trajectory {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        match record.path {
            0 => self.element(record.text, draft),
            1 => self.item(record.text, draft),
            2 => self.info(record.text, draft),
            _ => self.config(record.text, draft),
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let end = self.end.take().map(|end| self.named(end));
        // In a demonstration, only the messages show how it ended.
        let end = end.or_else(|| {
            let submitted = self.submits && !self.has_elements && !self.has_info;
            submitted.then(|| {
                Ended::new(
                    "submit",
                    "Submitted",
                    Outcome::Completed,
                    Certainty::Inferred,
                )
            })
        });
        let limits = self.given();
        draft.counted_calls(self.counted);
        let run = draft.run();
        // The format records no times, so a new file doesn't mean that its run continues.
        run.is_untimed = true;
        run.limits = limits;
        run.final_result = self.answer.take().filter(|_| end.is_some());
        run.ended = end.map(Box::new);
    }
}

impl Trajectory {
    fn element(&mut self, record: &str, draft: &mut Draft<'_>) {
        self.has_elements = true;
        let element = Element::of(record);
        let mark = EventDraft::new("trajectory", None);
        // A command may be repeated with the same result, but not with exactly the same duration.
        let is_measured =
            number(element.execution_time).is_some_and(|seconds| seconds.fract() != 0.0);
        if is_measured && draft.is_again(record) {
            return draft.again(&mark);
        }
        let part = part_of(record);
        if part.calls.is_empty() && part.text.is_empty() {
            // When the program ends the run, it writes its own text in place of the model's.
            self.note = text(element.thought).unwrap_or_default();
            draft.event(mark.stage("no reply"));
            return;
        }
        if let Some(state) = element.state {
            note_project(state, draft);
        }
        // The keys of a document may be in any order. A history before the elements has the same
        // steps.
        if let Some(rest) = self.unrepeated.checked_sub(1) {
            self.unrepeated = rest;
            draft.event(mark.stage("again"));
            return;
        }
        let n = draft.reply(None, None, mark);
        let at = draft.newest();
        let mut part = part;
        if let Some(state) = element.state {
            part.changes = left(
                state,
                self.last.as_ref().map(|(.., before)| before.as_str()),
                n,
            );
            if let Some((before, event, found)) = &self.last {
                let found = found_by_next(found, state);
                if !found.is_empty() {
                    draft.part(
                        *before,
                        Part {
                            changes: found,
                            ..Part::default()
                        },
                    );
                } else if !part.changes.is_empty() {
                    draft.part(n, std::mem::take(&mut part));
                    draft.refer(n, *event);
                }
            }
            self.last = Some((n, at, state.to_owned()));
        }
        draft.part(n, part);
    }

    /// Handles a message. The elements repeat the messages, if there are any.
    fn item(&mut self, record: &str, draft: &mut Draft<'_>) {
        let item = Item::of(record);
        let role = text(item.role).unwrap_or_default();
        *draft
            .run()
            .trial
            .get_or_insert_default()
            .messages
            .get_or_insert_default() += 1;
        let mark = EventDraft::new("history", None).stage(&role);
        let is_demo = is_true(item.demo);
        match &*role {
            // The elements came first, so this is before the first of them although it's recorded later.
            "user" if !draft.has_task() && !is_demo && self.has_elements => {
                let note = Some(draft.task(text(item.content).as_deref()));
                draft.event(EventDraft { note, ..mark });
            }
            "user" if !draft.has_task() && !is_demo => {
                draft.prompt(text(item.content).as_deref(), &mark)
            }
            _ if self.has_elements => {}
            "assistant" if !is_demo => {
                let n = draft.reply(None, None, mark);
                let part = part_of(record);
                self.submits = part.calls.last().is_some_and(|call| call.name == "submit");
                draft.part(n, part);
                self.open = Some(n);
                self.unrepeated += 1;
            }
            "tool" | "user" if !is_demo && self.open.is_some() => {
                let step = self.open.take();
                draft.results(step.as_slice(), mark, part_of(record));
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    fn info(&mut self, record: &str, draft: &mut Draft<'_>) {
        self.has_info = true;
        let info = Info::of(record);
        let stats = info.model_stats.map(Stats::of).unwrap_or_default();
        let status = filled(info.exit_status);
        let stage = status.as_deref().unwrap_or_default();
        let at = draft.event(EventDraft::new("info", None).stage(stage));
        self.counted = count(stats.api_calls);
        self.stats = [stats.instance_cost, stats.total_cost, stats.api_calls].map(number);
        let submission = filled(info.submission).unwrap_or_default();
        self.answer = Some(submission.trim())
            .filter(|answer| !answer.is_empty())
            .map(cut);
        self.end = status
            .and_then(|word| ended(&word))
            .map(|end| end.at_event(at));
        let run = draft.run();
        run.patched = patched(&submission);
        run.cost_usd = above_zero(stats.instance_cost);
        let [input, output] = [stats.tokens_sent, stats.tokens_received].map(count);
        run.usage = Usage {
            input,
            output,
            ..Usage::default()
        };
        // With only one of the two, the sum is unknown.
        let sum = input
            .zip(output)
            .map(|(sent, received)| sent.saturating_add(received));
        run.tokens = sum.filter(|tokens| *tokens > 0);
        let version =
            filled(info.version).map_or_else(String::new, |version| format!(" {version}"));
        run.tool = Some(cut(&format!("SWE-agent{version}")));
    }

    /// Handles the configuration: an object, or its text.
    fn config(&mut self, record: &str, draft: &mut Draft<'_>) {
        let decoded = text(Some(record).filter(|text| text.starts_with('"')));
        let config = Config::of(decoded.as_deref().unwrap_or(record));
        let agent = config.agent.map(Agent::of).unwrap_or_default();
        let model = agent.model.map(Model::of).unwrap_or_default();
        let problem = config
            .problem_statement
            .map(Problem::of)
            .unwrap_or_default();
        let tools = agent.tools.map(Tools::of).unwrap_or_default();
        self.limits = Limits {
            cost: above_zero(model.per_instance_cost_limit),
            total_cost: above_zero(model.total_cost_limit),
            calls: above_zero(model.per_instance_call_limit),
            seconds: above_zero(tools.total_execution_timeout),
        };
        let note = filled(problem.text).map(|task| draft.task(Some(&task)));
        draft.event(EventDraft {
            phase: "replay_config",
            note,
            ..EventDraft::default()
        });
        let run = draft.run();
        run.model = filled(model.name).map(|name| cut(&name));
        run.run_id = filled(problem.id).map(|id| cut(&id));
        run.trial
            .get_or_insert_default()
            .task_id
            .clone_from(&run.run_id);
    }

    /// Returns the run's limits. The program compares with `<`, so a value equal to a limit doesn't
    /// reach it.
    fn given(&self) -> Vec<ToolLimit> {
        let [cost, total, calls] = self.stats;
        let Limits {
            cost: within,
            total_cost,
            calls: at_most,
            seconds,
        } = self.limits;
        // All runs of a batch together cost at least as much as this one.
        let bound = if total.is_some() {
            Bound::Exact
        } else {
            Bound::AtLeast
        };
        let total = limit("total_cost_limit", total_cost, "usd", total.or(cost))
            .map(|limit| limit.bounded(bound));
        let limits = [
            limit("per_instance_cost_limit", within, "usd", cost),
            total,
            limit("per_instance_call_limit", at_most, "model calls", calls),
            // The program measures more than the steps' commands, and doesn't record the result.
            limit(
                "total_execution_timeout",
                seconds.map(|seconds| seconds * 1e3),
                "ms",
                None,
            ),
        ];
        limits
            .into_iter()
            .flatten()
            .map(|limit| limit.compared(Op::Above))
            .collect()
    }

    /// Adds the program's text about the end.
    fn named(&self, end: Ended) -> Ended {
        if end.words().is_empty() && !self.note.is_empty() {
            end.detail(cut(&self.note))
        } else {
            end
        }
    }
}

/// Sets the project to the working directory in the first state that has one.
fn note_project(state: &str, draft: &mut Draft<'_>) {
    if draft.run().project.is_none() {
        let dir = members(state)
            .into_iter()
            .find(|(key, _)| key == "working_dir");
        draft.run().project = dir
            .and_then(|(_, dir)| filled(Some(&dir)))
            .map(|dir| cut(&dir));
    }
}

/// Returns the cause of the end. If something else led to the submission, that is the cause.
fn cause(word: &str) -> &str {
    word.strip_prefix("submitted (")
        .and_then(|word| word.strip_suffix(')'))
        .unwrap_or(word)
        .trim()
}

fn ended(word: &str) -> Option<Ended> {
    let cause = cause(word);
    let end = End::of(ENDS, cause)?.word(word);
    Some(match end.outcome {
        Outcome::Unknown => end.detail(word),
        _ if cause == word => end,
        _ => end.note("the work so far was submitted"),
    })
}

/// Assembles a step's line from its element and the adjacent one that shows its changes, or from
/// the messages of a demonstration.
fn assembled(n: usize, records: &[String]) -> String {
    let mut parts: Vec<Part> = Vec::new();
    let own = records
        .first()
        .map(|own| Element::of(own))
        .unwrap_or_default();
    let other = records
        .get(1)
        .map(|other| Element::of(other))
        .filter(|other| other.action.is_some());
    let of_messages = if own.state.is_some() {
        1
    } else {
        records.len()
    };
    parts.extend(
        records
            .iter()
            .take(of_messages)
            .map(|record| part_of(record)),
    );
    if let Some(state) = own.state {
        let other = other.and_then(|other| other.state);
        let changes = match other.map(|other| found_by_next(state, other)) {
            Some(found) if !found.is_empty() => found,
            _ => left(state, other, n),
        };
        parts.push(Part {
            changes,
            ..Part::default()
        });
    }
    part::line(n, parts)
}

/// Returns the part of a step that an element or a demonstration's message contains, without the
/// state.
fn part_of(record: &str) -> Part {
    let element = Element::of(record);
    let item = Item::of(record);
    let mut part = Part::default();
    let role = text(item.role);
    if let Some("tool" | "user") = role.as_deref() {
        let call = item
            .tool_call_ids
            .and_then(|ids| walk::items(ids).next())
            .and_then(|id| text(Some(id)));
        part.answers.push(Answer {
            call: call.unwrap_or_default(),
            ..answer(item.content)
        });
        return part;
    }
    let reply = filled(element.response.or(item.content));
    let thought = filled(element.thought).filter(|thought| reply.as_ref() != Some(thought));
    part.text.extend(reply);
    let calls = item
        .tool_calls
        .into_iter()
        .flat_map(walk::items)
        .map(ToolCall::of);
    part.calls.extend(calls.map(|call| {
        let function = call.function.map(Function::of).unwrap_or_default();
        // The arguments are JSON text.
        let args = text(function.arguments).map(|args| unpacked(&args));
        CallDraft {
            id: text(call.id).unwrap_or_default(),
            name: text(function.name).unwrap_or_default(),
            args: args
                .or_else(|| function.arguments.map(unpacked))
                .unwrap_or_default(),
        }
    }));
    if let Some(action) = filled(element.action).filter(|_| part.calls.is_empty()) {
        // Tools are shell commands, so the first word is the tool.
        let name = action
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        part.calls.push(CallDraft {
            id: String::new(),
            name,
            args: format!("{{\"command\":{}}}", quoted(&action)),
        });
        if element.observation.is_some() {
            let ms = number(element.execution_time).map(|seconds| seconds * 1e3);
            part.answers.push(Answer {
                ms,
                ..answer(element.observation)
            });
        }
    }
    // A reply that consists only of its text has no separate thought.
    part.thought
        .extend(thought.filter(|_| !part.text.is_empty() || !part.calls.is_empty()));
    part
}

fn answer(output: Option<&str>) -> Answer {
    Answer {
        output: unpacked(output.unwrap_or("null")),
        ..Answer::default()
    }
}

type Changes = Vec<(String, Option<String>, Option<String>)>;

/// Returns what step `n` changed if its record contains the state that it left. `before` is the
/// state that the previous step left.
fn left(state: &str, before: Option<&str>, n: usize) -> Changes {
    match before {
        _ if state.starts_with('"') => Vec::new(),
        Some(before) if before.starts_with('{') => between(members(before), &members(state)),
        None if n == 0 => members(state)
            .into_iter()
            .map(|(key, value)| (key, None, Some(value)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns what a step changed if its record contains the state that it found. `next` is the state
/// that the next step found.
fn found_by_next(state: &str, next: &str) -> Changes {
    let are_texts = state.starts_with('"') && next.starts_with('"');
    if are_texts {
        between(members(state), &members(next))
    } else {
        Vec::new()
    }
}

fn between(before: Vec<(String, String)>, after: &[(String, String)]) -> Changes {
    let old = |key: &str| {
        before
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value)
    };
    let mut changes: Changes = Vec::new();
    for (key, value) in after {
        if old(key) != Some(value) {
            changes.push((
                key.clone(),
                Some(old(key).cloned().unwrap_or_else(null)),
                Some(value.clone()),
            ));
        }
    }
    let gone = before
        .into_iter()
        .filter(|(key, _)| !after.iter().any(|(known, _)| known == key));
    changes.extend(gone.map(|(key, value)| (key, Some(value), Some(null()))));
    changes
}

fn null() -> String {
    "null".to_owned()
}

/// Returns the keys and values of a state, which is an object or its text.
fn members(state: &str) -> Vec<(String, String)> {
    let decoded = text(Some(state).filter(|state| state.starts_with('"')));
    let state = decoded.as_deref().unwrap_or(state);
    if !Json::is_json(state) {
        return Vec::new();
    }
    let members = walk::members(state);
    members
        .map(|(key, value)| {
            (
                walk::string(key).unwrap_or_default().into_owned(),
                unpacked(value),
            )
        })
        .collect()
}
