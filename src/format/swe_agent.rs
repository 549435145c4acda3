//! How does SWE-agent write a trajectory? One JSON document `*.traj`, rewritten as a whole after each step.
//!
//! Seen in versions 0.7 to 1.1. An element of `trajectory` is a step with its observation; tokens and cost are known of
//! the run alone. Before 1.0, `state` is a text of JSON and what the step found; since then it is an object and what the
//! step left. Either way a step shows what it changed beside its neighbour's record. A demonstration may be nothing but a
//! `history` of messages.

use super::part::{self, quoted, text};
use super::value::{above_zero, count, cut, filled, is_true, limit, number, unpacked};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tool};
use crate::model::json::{Json, walk};
use crate::model::step::Usage;
use crate::model::{
    Bound, Can, Capabilities, Certainty, Ended, EventKind, Format, Op, Outcome, ToolLimit,
};

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
        untold: "SWE-agent records it when the run ends",
        assemble: Some(assembled),
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

/// A trajectory under way.
#[derive(Debug, Default)]
struct Trajectory {
    /// An element of the trajectory was seen: the history says the same once more.
    has_elements: bool,
    /// Counts the replies of a history before the elements that no element has repeated yet.
    unrepeated: usize,
    /// The newest step with a state: its number, its event, and the state as it stands there.
    last: Option<(usize, usize, String)>,
    /// The step that a demonstration goes on with.
    open: Option<usize>,
    /// The newest call of a demonstration is the one that submits.
    submits: bool,
    has_info: bool,
    /// What an element that is no reply says of the end.
    note: String,
    end: Option<Ended>,
    limits: Limits,
    stats: [Option<f64>; 3],
    /// The replies that the program counts.
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
        // A demonstration has nothing but its messages to tell of its end.
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
        // It records no time: that the file is new doesn't show that its run continues.
        run.is_closed = true;
        run.limits = limits;
        run.final_result = self.answer.take().filter(|_| end.is_some());
        run.ended = end.map(Box::new);
    }
}

impl Trajectory {
    fn element(&mut self, record: &str, draft: &mut Draft<'_>) {
        self.has_elements = true;
        let element = Element::of(record);
        let mark = EventDraft {
            phase: "trajectory",
            ..EventDraft::default()
        };
        // The same command may come to the same again, but not in the same time.
        let is_measured =
            number(element.execution_time).is_some_and(|seconds| seconds.fract() != 0.0);
        if is_measured && draft.is_again(record) {
            return draft.again(&mark);
        }
        let part = part_of(record);
        if part.calls.is_empty() && part.text.is_empty() {
            // The program speaks in place of the model where it ends the run.
            self.note = text(element.thought).unwrap_or_default();
            draft.event(EventDraft {
                stage: "no reply",
                ..mark
            });
            return;
        }
        if let Some(state) = element.state {
            note_project(state, draft);
        }
        // The keys of a document may be in any order: a history before the elements has the same steps.
        if let Some(rest) = self.unrepeated.checked_sub(1) {
            self.unrepeated = rest;
            draft.event(EventDraft {
                stage: "again",
                ..mark
            });
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

    /// A message, which the steps repeat where there are any.
    fn item(&mut self, record: &str, draft: &mut Draft<'_>) {
        let item = Item::of(record);
        let role = text(item.role).unwrap_or_default();
        *draft
            .run()
            .trial
            .get_or_insert_default()
            .messages
            .get_or_insert_default() += 1;
        let mark = EventDraft {
            phase: "history",
            stage: &role,
            ..EventDraft::default()
        };
        let is_demo = is_true(item.demo);
        match &*role {
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
                draft.event(EventDraft {
                    kind: EventKind::Inside,
                    step: self.open,
                    ..mark
                });
                if let Some(n) = self.open.take() {
                    draft.part(n, part_of(record));
                }
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
        let mark = EventDraft {
            phase: "info",
            stage: status.as_deref().unwrap_or_default(),
            ..EventDraft::default()
        };
        let at = draft.event(mark);
        self.counted = count(stats.api_calls);
        self.stats = [stats.instance_cost, stats.total_cost, stats.api_calls].map(number);
        self.answer = filled(info.submission).map(|answer| cut(answer.trim()));
        self.end = status.map(|word| ended(&word).told_by(at));
        let run = draft.run();
        run.cost_usd = above_zero(stats.instance_cost);
        let [input, output] = [stats.tokens_sent, stats.tokens_received].map(count);
        run.usage = Usage {
            input,
            output,
            ..Usage::default()
        };
        // Of one half nobody knows the sum.
        let sum = input
            .zip(output)
            .map(|(sent, received)| sent.saturating_add(received));
        run.tokens = sum.filter(|tokens| *tokens > 0);
        let version =
            filled(info.version).map_or_else(String::new, |version| format!(" {version}"));
        run.tool = Some(cut(&format!("SWE-agent{version}")));
    }

    /// The configuration: an object, or its text.
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

    /// The limits that the run was given. The program compares with `<`: what equals a limit doesn't reach it.
    fn given(&self) -> Vec<ToolLimit> {
        let [cost, total, calls] = self.stats;
        let Limits {
            cost: within,
            total_cost,
            calls: at_most,
            seconds,
        } = self.limits;
        // All runs of a batch together cost no less than this one.
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
            // The program measures more than the commands of the steps, and doesn't record how much.
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

    /// The end with what the program says about it.
    fn named(&self, end: Ended) -> Ended {
        if end.words().is_empty() && !self.note.is_empty() {
            end.detail(cut(&self.note))
        } else {
            end
        }
    }
}

/// Takes the directory of the project from the first state that names one.
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

/// What ended the run: of what was submitted because of something else, that.
fn cause(word: &str) -> &str {
    word.strip_prefix("submitted (")
        .and_then(|word| word.strip_suffix(')'))
        .unwrap_or(word)
        .trim()
}

fn ended(word: &str) -> Ended {
    let cause = cause(word);
    let (headline, outcome) = match cause {
        "submitted" => ("Submitted", Outcome::Completed),
        "exit_cost" => ("Cost or call limit reached", Outcome::Truncated),
        "exit_context" => (Ended::CONTEXT_FULL, Outcome::Failed),
        "exit_total_execution_time" => ("Time limit of the commands reached", Outcome::Truncated),
        "exit_command_timeout" => ("Too many commands timed out", Outcome::Truncated),
        "exit_format" => (
            "Replies without a command that could be run",
            Outcome::Failed,
        ),
        "exit_api" => ("Ended by an API error", Outcome::Failed),
        "exit_environment_error" => ("Ended by an error of the environment", Outcome::Failed),
        "exit_error" => ("Ended by an error", Outcome::Failed),
        "exit_forfeit" => ("The agent gave up", Outcome::Failed),
        "exit_command" => ("Ended by a command of the user", Outcome::Cancelled),
        "early_exit" => ("Ended early", Outcome::Failed),
        _ => (
            "Ended for a reason that the board does not know",
            Outcome::Unknown,
        ),
    };
    let end = Ended::new(word, headline, outcome, Certainty::Recorded);
    let end = match cause {
        "exit_cost" => end.at(&[
            ("Cost", "per_instance_cost_limit"),
            ("Model call", "per_instance_call_limit"),
            ("Total cost", "total_cost_limit"),
        ]),
        _ => end,
    };
    match (outcome, cause == word) {
        (Outcome::Unknown, _) => end.detail(word),
        (_, true) => end,
        (_, false) => end.aside("what was there was submitted"),
    }
}

/// The line of a step: of its element and of the one that shows what it changed, or of the messages of a demonstration.
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

/// What an element, or a message of a demonstration, says of its step, but for the state.
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
        // The arguments are a text of JSON.
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
        // Tools are commands of a shell: the first word is the tool.
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
    // A reply that is nothing but its text is no thought beside it.
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

/// What step `n` changed, whose record holds the state that it left; `before` is what the step before it left.
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

/// What a step changed whose record holds the state that it found; `next` is what the step after it found.
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

/// The keys and values of a state: an object, or its text.
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
