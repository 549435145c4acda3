//! Reads trajectories of mini-swe-agent: one JSON document `*.traj.json`, rewritten as a whole
//! after each step.
//!
//! Covers versions 1 and 2.4, with the messages under `messages` and facts about the run under
//! `info`. The oldest files are a bare list of messages: commands are in fenced code blocks, and
//! the end of the run isn't recorded.

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::part::{self, quoted, text};
use super::value::{
    above_zero, answer_in, count, cut, filled, given, int, limit, number, patched, seconds, spoken,
    total_in, unpacked,
};
use super::watch::{begun, has_begun};
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Paths, Reader, Shape, Source, Tokens, Tool,
};
use crate::model::json::walk;
use crate::model::{
    Bound, Can, Capabilities, Certainty, Ended, Fact, Format, Outcome, Statement, stated,
};

/// A trajectory.
pub(super) static TRAJECTORY: Tool = Tool {
    format: Format {
        name: "mini-swe-agent trajectory",
        can: Capabilities {
            times: Can::Partly,
            tokens: Can::Partly,
            cost: Can::Partly,
            limits: Can::Partly,
            ..Capabilities::NONE
        },
        file: "trajectory",
        assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
        is_of_coding_agent: true,
        ..Format::UNKNOWN
    },
    shape: Shape::Document(PATHS),
    is: |name, head| name.ends_with(".json") && is_trajectory(name, head),
    reader: || Box::new(Trajectory::default()),
};

pub(super) const PATHS: Paths = &[&["messages", "*"], &["*"], &["info"], &["instance_id"]];

/// The text that a command prints to end the run.
const SUBMIT: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

const TIME_LIMIT: &str = "wall_time_limit_seconds";

/// The exit statuses. A run also ends with the name of an exception.
const ENDS: &[End] = ends! {
    "Submitted" => Completed, "Submitted";
    // The recorded figures show which of the two limits it was.
    "LimitsExceeded" => Truncated, "Step or cost limit reached",
        "Step": "step_limit", "Cost": "cost_limit";
    "TimeExceeded" => Truncated, "Time limit reached", "Time": TIME_LIMIT;
    "RepeatedFormatError" => Failed, "Too many replies without a runnable command";
    "ContextWindowExceeded" => Failed, Ended::CONTEXT_FULL;
};

fields! {
    struct Message { role, object, content, output, reasoning = "reasoning_content", extra, tool_call_id, call_id, kind = "type" }
    struct Extra {
        actions, cost, timestamp, response, returncode, exception = "exception_info", exit_status, submission,
        interrupt = "interrupt_type",
    }
    struct Action { command, id = "tool_call_id" }
    struct Response { usage, model }
    struct Usage {
        prompt_tokens, completion_tokens, input_tokens, output_tokens, prompt_tokens_details, completion_tokens_details,
        input_tokens_details, output_tokens_details, cache_creation_input_tokens,
    }
    struct Details { cached_tokens, reasoning_tokens }
    struct Info { model_stats, config, version = "mini_version", exit_status, submission, traceback }
    struct Stats { instance_cost, api_calls }
    struct Config { agent, model, environment }
    struct Limits { step_limit, cost_limit, wall_time_limit_seconds }
    struct Model { model_name, model_kwargs }
    struct Environment { cwd }
}

/// Returns whether a file is a trajectory: by a key at its end that only trajectories have, by the
/// version next to the configuration, or by the first message of a bare list.
fn is_trajectory(name: &str, head: &[u8]) -> bool {
    let info = |(key, value): &(&str, &str)| match *key {
        "\"trajectory_format\"" => value.starts_with("\"mini-swe-agent"),
        "\"info\"" => has_begun(value.as_bytes(), &["mini_version"]),
        _ => false,
    };
    let bare = || {
        let head = String::from_utf8_lossy(head);
        let first = walk::items(&head).next().map(Message::of);
        first.is_some_and(|first| first.role == Some("\"system\"") && first.content.is_some())
    };
    begun(head).iter().any(info) || (name.ends_with(".traj.json") && (bare() || begun_of_old(head)))
}

/// Returns whether a file was written by one of the first versions, which don't record their
/// version.
fn begun_of_old(head: &[u8]) -> bool {
    begun(head)
        .iter()
        .any(|(key, value)| *key == "\"info\"" && has_begun(value.as_bytes(), &["model_stats"]))
}

/// A trajectory while it is being read.
#[derive(Debug, Default)]
struct Trajectory {
    conversation: Conversation,
    /// The first recorded time of a message.
    began: Option<i64>,
    /// The sum of the recorded costs of replies.
    spent: f64,
    info: About,
    /// The last message, written by the program: its event, its status and its text.
    exit: Option<(usize, String, String)>,
    /// The submission in that message.
    exit_answer: Option<String>,
    /// Whether the last reply is a single command that prints [`SUBMIT`], and its result isn't a
    /// command output after which the program continued.
    submits: bool,
}

/// The facts about the run in `info`.
#[derive(Debug, Default)]
struct About {
    event: Option<usize>,
    status: Option<String>,
    answer: Option<String>,
    traceback: Option<String>,
    counted: Option<u64>,
    cost: Option<f64>,
}

impl Reader for Trajectory {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        match record.path {
            0 | 1 => self.message(record.text, draft),
            2 => self.about(record.text, draft),
            _ => {
                let id = filled(Some(record.text)).map(|id| cut(&id));
                draft
                    .run()
                    .trial
                    .get_or_insert_default()
                    .task_id
                    .clone_from(&id);
                draft.run().run_id = id;
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let (ended, conflict) = self
            .ended(draft)
            .map_or((None, None), |(end, conflict)| (Some(end), conflict));
        let is_answer = ended
            .as_ref()
            .is_some_and(|end| end.outcome != Outcome::Unknown);
        let [own, other] = [&self.info.answer, &self.exit_answer].map(|answer| {
            answer
                .as_deref()
                .filter(|_| is_answer)
                .map(|answer| cut(answer.trim()))
        });
        let at = draft.latest().filter(|_| ended.is_some());
        draft.counted_calls(self.info.counted);
        // The oldest files record no times, so a new file doesn't mean that its run continues.
        let is_untimed = draft.latest().is_none();
        // The program's clock starts before its first reply.
        let elapsed = self
            .began
            .zip(draft.latest())
            .map(|(began, latest)| latest.saturating_sub(began) as f64 / 1e3);
        let submitted = self.info.answer.as_deref().or(self.exit_answer.as_deref());
        let run = draft.run();
        run.patched = patched(submitted.unwrap_or_default());
        for limit in run
            .limits
            .iter_mut()
            .filter(|limit| limit.name == TIME_LIMIT)
        {
            (limit.used, limit.bound) = (elapsed, Bound::AtLeast);
        }
        run.is_untimed = is_untimed;
        run.updated_at = at;
        run.conflicts = conflict.into_iter().collect();
        run.statements
            .retain(|statement| matches!(statement.fact, Fact::Limit(_)));
        // If a program doesn't know its model's price, it counts no cost for replies either.
        let is_zero = self.info.cost == Some(0.0) && self.spent > 0.0;
        run.statements
            .extend(is_zero.then(|| total_in("usd", 0.0, "info.model_stats.instance_cost")));
        // If two records differ, neither is preferred.
        match (own, other) {
            (Some(own), Some(other)) if own != other => {
                run.statements.extend([
                    answer_in("info.submission", own),
                    answer_in("the exit message", other),
                ]);
                run.final_result = None;
            }
            (own, other) => run.final_result = own.or(other),
        }
        run.ended = ended.map(Box::new);
    }
}

impl Trajectory {
    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let extra = message.extra.map(Extra::of).unwrap_or_default();
        let role = text(message.role)
            .or_else(|| text(message.kind))
            .or_else(|| text(message.object))
            .unwrap_or_default();
        let ts = seconds(extra.timestamp);
        self.began = self.began.or(ts);
        let mark = EventDraft::new(&role, ts);
        if ts.is_some() && draft.is_again(record) {
            return draft.again(&mark);
        }
        // The program's own last message isn't part of the conversation.
        if role != "exit" {
            *draft
                .run()
                .trial
                .get_or_insert_default()
                .messages
                .get_or_insert_default() += 1;
        }
        match &*role {
            "assistant" | "response" => {
                let part = part_of(record);
                self.spent += part.cost.filter(|cost| *cost > 0.0).unwrap_or_default();
                self.submits = matches!(&*part.calls, [call] if prints_submit(&call.args));
                draft.name_model(&part);
                self.conversation.step(draft.latest(), mark, part, draft);
            }
            "user" if !draft.has_task() => draft.prompt(Some(&spoken(message.content)), &mark),
            "user" | "tool" | "function_call_output" => self.answer(record, &extra, mark, draft),
            "exit" => {
                let status = text(extra.exit_status).unwrap_or_default();
                let at = draft.event(mark.stage(&status));
                self.exit_answer = filled(extra.submission);
                self.exit = Some((at, status, spoken(message.content)));
            }
            _ => {
                draft.event(mark);
            }
        }
    }

    /// Handles a command's result, or the program's response to a reply without a command.
    fn answer(
        &mut self,
        record: &str,
        extra: &Extra<'_>,
        mark: EventDraft<'_>,
        draft: &mut Draft<'_>,
    ) {
        let interrupt = text(extra.interrupt);
        self.submits &= is_submission(&spoken(Message::of(record).content));
        let waits = self.conversation.waiting(draft);
        match waits.filter(|_| interrupt.is_none()) {
            Some(n) => draft.results(&[n], mark.stage("result"), part_of(record)),
            None => {
                let stage = interrupt.as_deref().unwrap_or("note");
                draft.event(mark.stage(stage).failed(stage == "FormatError"));
            }
        }
    }

    fn about(&mut self, record: &str, draft: &mut Draft<'_>) {
        let info = Info::of(record);
        let stats = info.model_stats.map(Stats::of).unwrap_or_default();
        let config = info.config.map(Config::of).unwrap_or_default();
        let limits = config.agent.map(Limits::of).unwrap_or_default();
        let status = filled(info.exit_status);
        let stage = status.as_deref().unwrap_or_default();
        let at = draft.event(EventDraft::new("info", None).stage(stage));
        self.info = About {
            event: Some(at),
            status,
            answer: filled(info.submission),
            traceback: filled(info.traceback),
            counted: count(stats.api_calls),
            cost: number(stats.instance_cost),
        };
        let step_limit = above_zero(limits.step_limit);
        let seconds = above_zero(limits.wall_time_limit_seconds);
        let held = [
            limit("step_limit", step_limit, "steps", number(stats.api_calls)),
            limit(
                "cost_limit",
                above_zero(limits.cost_limit),
                "usd",
                number(stats.instance_cost),
            ),
            limit(TIME_LIMIT, seconds.map(|seconds| seconds * 1e3), "ms", None),
        ];
        let run = draft.run();
        run.limits = held.into_iter().flatten().collect();
        run.cost_usd = above_zero(stats.instance_cost);
        run.statements.extend(step_limit.map(|limit| {
            let (who, field) = ("the trace", "info.config.agent.step_limit".into());
            Statement::number(
                Fact::Limit("steps"),
                limit,
                stated::Source {
                    who,
                    file: "",
                    line: None,
                    field,
                },
            )
        }));
        let model = config.model.map(Model::of).unwrap_or_default();
        run.model = filled(model.model_name).map(|model| cut(&model));
        let trial = run.trial.get_or_insert_default();
        (trial.agent_args, trial.model_options) = (given(config.agent), given(model.model_kwargs));
        run.project = config
            .environment
            .map(Environment::of)
            .and_then(|env| filled(env.cwd))
            .map(|cwd| cut(&cwd));
        let version =
            filled(info.version).map_or_else(String::new, |version| format!(" {version}"));
        run.tool = Some(cut(&format!("mini-swe-agent{version}")));
    }

    /// Determines the end from both records of it: the status in `info`, and the last message.
    fn ended(&self, draft: &Draft<'_>) -> Option<(Ended, Option<Box<str>>)> {
        let words = self.exit.as_ref().map_or("", |(.., words)| words.as_str());
        let of_info = self
            .info
            .status
            .as_deref()
            .map(|word| ("info", self.ending(word, words)));
        let of_info = of_info.map(|(who, end)| {
            (
                who,
                Ended {
                    event: self.info.event,
                    ..end
                },
            )
        });
        let of_exit = self.exit.as_ref().filter(|(_, word, _)| !word.is_empty());
        let of_exit = of_exit.map(|(event, word, _)| {
            (
                "the exit message",
                self.ending(word, words).at_event(*event),
            )
        });
        let told: Vec<(&str, Ended)> = of_exit.into_iter().chain(of_info).collect();
        if told.is_empty() {
            // In a bare list of messages, only the submitting command shows how the run ended.
            let last = self.conversation.last();
            let answered = last.is_some_and(|n| draft.unanswered(n) == 0);
            let is_bare = self.info.event.is_none();
            let end = || Ended::new(SUBMIT, "Submitted", Outcome::Completed, Certainty::Inferred);
            return (is_bare && self.submits && answered).then(|| (end(), None));
        }
        Ended::agreed(told)
    }

    fn ending(&self, word: &str, words: &str) -> Ended {
        let known = End::of(ENDS, word).or_else(|| End::raised(word));
        known.unwrap_or_else(|| {
            let last = self
                .info
                .traceback
                .as_deref()
                .and_then(|text| text.trim_end().lines().last());
            let why = [last.unwrap_or_default(), words, word]
                .into_iter()
                .find(|words| !words.is_empty());
            End::error(word).detail(cut(why.unwrap_or_default()))
        })
    }
}

/// Returns the part of a step that a message contains.
fn part_of(record: &str) -> Part {
    let message = Message::of(record);
    let extra = message.extra.map(Extra::of).unwrap_or_default();
    let mut part = Part::default();
    if message.role != Some("\"assistant\"") && message.object != Some("\"response\"") {
        part.answers.push(answer(&message, &extra));
        return part;
    }
    let response = extra.response.map(Response::of).unwrap_or_default();
    let reply = match message.output {
        Some(output) => walk::items(output)
            .map(|item| spoken(Message::of(item).content))
            .collect::<Vec<_>>()
            .join("\n"),
        None => spoken(message.content),
    };
    part.thought.extend(filled(message.reasoning));
    part.model = filled(response.model);
    part.cost = number(extra.cost);
    part.tokens = response.usage.map(tokens);
    part.calls = match extra.actions {
        Some(actions) => walk::items(actions).map(asked).collect(),
        None => fenced(&reply)
            .map(|command| call(String::new(), &quoted(command)))
            .collect(),
    };
    if part.calls.is_empty() {
        // The program reports this to the model and retries, so such a reply is never an answer.
        part.error = Some("the reply contains no command".to_owned());
    }
    part.text
        .extend(Some(reply).filter(|reply| !reply.is_empty()));
    part
}

fn asked(action: &str) -> CallDraft {
    let fields = Action::of(action);
    call(
        text(fields.id).unwrap_or_default(),
        fields.command.unwrap_or(action),
    )
}

fn call(id: String, command: &str) -> CallDraft {
    CallDraft {
        id,
        name: "bash".to_owned(),
        args: format!("{{\"command\":{}}}", unpacked(command)),
    }
}

/// Returns whether a command prints the word that ends the run, rather than merely mentioning it.
fn prints_submit(args: &str) -> bool {
    let command = text(super::value::member(args, "command")).unwrap_or_default();
    let first = command
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    first.split(['&', ';', '|']).any(|command| {
        let word = command.trim().strip_prefix("echo ").unwrap_or_default();
        word.trim().trim_matches(['"', '\'']) == SUBMIT
    })
}

/// Returns whether a result is the submission. The program removes the first line of such an
/// output, and wraps any other output in its own text.
fn is_submission(said: &str) -> bool {
    match said.strip_prefix("<returncode>") {
        Some(shown) => {
            let (code, shown) = shown.split_once("</returncode>").unwrap_or_default();
            let output = shown.trim_start().strip_prefix("<output>").unwrap_or(shown);
            code.trim() == "0"
                && output
                    .trim_start()
                    .lines()
                    .next()
                    .is_some_and(|first| first.trim() == SUBMIT)
        }
        None => ![
            "Observation:",
            "The last command ",
            "Please always provide ",
        ]
        .iter()
        .any(|own| said.starts_with(own)),
    }
}

/// Returns the commands in a reply that is plain text.
fn fenced(reply: &str) -> impl Iterator<Item = &str> {
    let blocks = reply.split("```").skip(1).step_by(2);
    blocks.filter_map(|block| {
        let (language, command) = block.split_once('\n')?;
        matches!(language.trim(), "bash" | "mswea_bash_command").then(|| command.trim())
    })
}

fn answer(message: &Message<'_>, extra: &Extra<'_>) -> Answer {
    let output = message.output.or(message.content);
    // In the oldest files, only the text contains the exit code.
    let in_text = || {
        let words = text(output)?;
        words
            .strip_prefix("<returncode>")?
            .split_once('<')?
            .0
            .trim()
            .parse()
            .ok()
    };
    let exit = int(extra.returncode).or_else(in_text);
    let error = filled(extra.exception);
    let status = match (&error, exit) {
        (Some(_), _) => Some("error"),
        (None, Some(0)) => Some("success"),
        // A nonzero exit code may be a command's regular result.
        _ => None,
    };
    Answer {
        call: text(message.tool_call_id.or(message.call_id)).unwrap_or_default(),
        status,
        output: unpacked(output.unwrap_or("null")),
        error,
        exit,
        ms: None,
    }
}

fn tokens(usage: &str) -> Tokens {
    let usage = Usage::of(usage);
    let read = usage
        .prompt_tokens_details
        .or(usage.input_tokens_details)
        .map(Details::of)
        .unwrap_or_default();
    let wrote = usage
        .completion_tokens_details
        .or(usage.output_tokens_details)
        .map(Details::of)
        .unwrap_or_default();
    Tokens {
        input: count(usage.prompt_tokens.or(usage.input_tokens)),
        cached: count(read.cached_tokens),
        output: count(usage.completion_tokens.or(usage.output_tokens)),
        reasoning: count(wrote.reasoning_tokens),
        written: count(usage.cache_creation_input_tokens),
        written_1h: None,
    }
}
