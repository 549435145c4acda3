//! Reads results of tau2-bench: one JSON document with settings of all simulations under `info`,
//! the tasks, and the simulations. Each simulation is a conversation between an agent and a
//! simulated user, and is a run. If each simulation has a separate file, that file doesn't record
//! the models and limits.
//!
//! According to its data model, a message or request of the agent is a step, a message of the user
//! begins a turn, and the user's own tools don't belong to the agent. A spoken conversation is
//! recorded as ticks, and either side may continue in each. A tick in which the agent makes
//! tool calls is a step. How many replies were in between isn't recorded.

use super::conversation::Conversation;
use super::ends::{End, ends};
use super::part::{self, text};
use super::value::{
    above_zero, count, cut, filled, given, int, is_text, is_true, limit, member, number, short,
    spoken, total_in, unpacked,
};
use super::watch::{begun, has_begun};
use super::{
    Answer, CallDraft, Draft, EventDraft, Part, Paths, Reader, Several, Shape, Source, Tokens, Tool,
};
use crate::model::index::is_same_total;
use crate::model::json::walk;
use crate::model::step::NO_WORDS;
use crate::model::{Bound, Can, Capabilities, Ended, Format, IssueKind, Outcome, RunScore, Trial};

const FORMAT: Format = Format {
    name: "tau2 simulation",
    can: Capabilities {
        scores: Can::Partly,
        times: Can::Partly,
        tokens: Can::Partly,
        cost: Can::Partly,
        limits: Can::Partly,
        success: Can::Partly,
        ..Capabilities::NONE
    },
    file: "simulation",
    assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
    ..Format::UNKNOWN
};

/// A file of results.
pub(super) static RESULTS: Tool = Tool {
    format: FORMAT,
    shape: Shape::Several(&Several {
        paths: PATHS,
        runs: &[&["simulations", "*"]],
        named_by: &[
            &["simulations", "*", "task_id"],
            &["simulations", "*", "trial"],
        ],
        name: |values| match values {
            [Some(task), trial] => {
                let task = text(Some(task)).unwrap_or_else(|| task.clone());
                Some(format!("{task}_trial_{}", trial.as_deref().unwrap_or("0")))
            }
            _ => None,
        },
        ..Several::NONE
    }),
    is: |name, head| {
        let info = begun(head)
            .into_iter()
            .find(|(key, _)| *key == "\"info\"")
            .map(|(_, info)| info.as_bytes());
        name.ends_with(".json")
            && info.is_some_and(|info| has_begun(info, &["user_info", "agent_info"]))
    },
    reader: || Box::new(Simulation::default()),
};

/// A file with one simulation.
pub(super) static SIMULATION: Tool = Tool {
    format: FORMAT,
    shape: Shape::Document(PATHS),
    is: |name, head| {
        name.ends_with(".json") && has_begun(head, &["task_id", "start_time", "termination_reason"])
    },
    reader: || Box::new(Simulation::default()),
};

const PATHS: Paths = &[
    &["messages", "*"],
    &["id"],
    &["start_time"],
    &["end_time"],
    &["duration"],
    &["termination_reason"],
    &["agent_cost"],
    &["reward_info"],
    &["info"],
    &["ticks", "*"],
    &["task_id"],
    &["trial"],
    &["user_cost"],
];

/// The reasons why the simulator ended a conversation.
const ENDS: &[End] = ends! {
    "user_stop" => Completed, "The user ended the conversation";
    "agent_stop" => Completed, "The agent ended the conversation";
    "max_steps" => Truncated, "Step limit reached", "Step": "max_steps";
    "timeout" => Truncated, "Time limit reached";
    "too_many_errors" => Halted, "Too many failed calls", "Error": "max_errors";
    "context_window_exceeded" => Failed, Ended::CONTEXT_FULL;
    "agent_error" => Failed, "Failed with an agent error";
    "user_error" => Failed, "Failed with an error in the simulated user";
    "infrastructure_error" => Failed, "Failed with an infrastructure error";
    "*_error" => Failed, "Failed with an error";
    "*" => Unknown, "Ended";
};

/// At most this many scores of a simulation are kept.
const MAX_SCORES: usize = 64;

fields! {
    struct Message {
        role, content, calls = "tool_calls", timestamp, cost, usage, raw = "raw_data", id, requestor, error,
        results = "tool_messages",
    }
    struct Call { id, name, arguments }
    struct Tick { timestamp, calls = "agent_tool_calls", results = "agent_tool_results" }
    struct Raw { model }
    struct Spent { prompt_tokens, completion_tokens }
    struct Reward {
        reward, breakdown = "reward_breakdown", db_check, env_assertions, action_checks, nl_assertions,
        communicate_checks,
    }
    struct Check {
        reward = "db_reward", matches = "action_match", met, action, assertion = "env_assertion",
        statement = "nl_assertion", told = "info", db_match,
    }
    struct Named { name, func = "func_name" }
    struct Results { info }
    struct Info { max_steps, max_errors, agent = "agent_info", environment = "environment_info" }
    struct Agent { implementation, llm, llm_args }
    struct Environment { domain_name }
}

/// A simulation while it is being read.
#[derive(Debug, Default)]
struct Simulation {
    /// The settings of all simulations.
    info: String,
    conversation: Conversation,
    /// Whether it's a spoken conversation.
    is_spoken: bool,
    /// The recorded reason for its end.
    word: Option<String>,
    seconds: Option<f64>,
    reward: Option<(usize, String)>,
    /// The program's note about the end.
    note: Option<String>,
    started: Option<i64>,
    ended: Option<i64>,
    trial: Trial,
    /// The recorded costs of the agent and of the simulated user.
    cost: Option<f64>,
    user_cost: Option<f64>,
    /// The sum of the simulated user's message costs, and whether a message lacks its cost.
    of_user: Option<f64>,
    lacks_user_cost: bool,
    /// The sum of the agent's reply costs, and whether a reply lacks its cost.
    spent: Option<f64>,
    lacks_cost: bool,
    /// The number of the agent's replies.
    replies: u64,
    /// The number of tool results that are errors, including those of the user's tools.
    failed: usize,
}

impl Reader for Simulation {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let value = Some(record.text);
        match record.path {
            0 => self.message(record.text, draft),
            1 => draft.run().run_id = filled(value).map(|id| cut(&id)),
            2 => self.started = draft.time(value),
            3 => self.ended = draft.time(value),
            4 => self.seconds = number(value),
            5 => self.word = filled(value),
            6 => self.cost = number(value),
            9 => self.tick(record.text, draft),
            10 => {
                self.trial.task_id = filled(value)
                    .or_else(|| int(value).map(|id| id.to_string()))
                    .map(|id| cut(&id))
            }
            11 => self.trial.repeat = int(value),
            12 => self.user_cost = number(value),
            path if record.text.starts_with('{') => {
                let phase = if path == 7 { "reward_info" } else { "info" };
                let at = draft.event(EventDraft::new(phase, None));
                match path {
                    7 => self.reward = Some((at, record.text.to_owned())),
                    _ => self.note = filled(member(record.text, "error")),
                }
            }
            _ => {}
        }
    }

    fn beside(&mut self, text: &str) {
        self.info = Results::of(text).info.unwrap_or_default().to_owned();
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        let info = Info::of(&self.info);
        let agent = info.agent.map(Agent::of).unwrap_or_default();
        let reward = self
            .reward
            .as_ref()
            .map(|(_, reward)| Reward::of(reward))
            .unwrap_or_default();
        let rewarded = number(reward.reward);
        let scores = scores(&reward);
        let ended = self.ended(rewarded);
        let is_over = ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let last = self.conversation.last().filter(|_| is_over);
        let answer = last.and_then(|n| draft.said(n));
        let told = self.of_user.filter(|_| !self.lacks_user_cost);
        let user = self
            .user_cost
            .zip(told)
            .filter(|(total, sum)| !is_same_total("usd", *total, *sum));
        if let Some((total, sum)) = user {
            let reason =
                format!("user_cost is {total} USD, but the user's messages add up to {sum}");
            draft.issue_of_whole(IssueKind::Count, reason);
        }
        let took = draft.took(self.seconds, "the duration is negative, so it is ignored");
        let between = draft.between(
            self.started,
            self.ended,
            "the simulation's recorded end is before its start",
        );
        let run = draft.run();
        run.tool = Some("tau2".into());
        // A simulation is written when it's over.
        run.is_closed = true;
        run.notes = failed_checks(&reward)
            .map(|note| vec![note])
            .unwrap_or_default();
        // Each reply is a message here, so the cost of the agent is that of its steps.
        run.model_calls =
            Some(self.replies).filter(|_| !self.is_spoken && self.trial.messages.is_some());
        run.agent = filled(agent.implementation).map(|agent| cut(&agent));
        run.trial = Some(Box::new(Trial {
            task_set: info
                .environment
                .map(Environment::of)
                .and_then(|environment| short(environment.domain_name)),
            model_options: given(agent.llm_args),
            ..self.trial.clone()
        }));
        run.model = filled(agent.llm)
            .map(|model| cut(&model))
            .or(run.model.take());
        // Each step of the simulator adds at least one message.
        let messages = self
            .trial
            .messages
            .filter(|_| !self.is_spoken)
            .map(|messages| messages as f64);
        let failed = messages.map(|_| self.failed as f64);
        run.limits = [
            limit(
                "max_steps",
                above_zero(info.max_steps),
                "simulator steps",
                messages,
            )
            .map(|limit| limit.bounded(Bound::AtMost)),
            limit("max_errors", above_zero(info.max_errors), "errors", failed),
        ]
        .into_iter()
        .flatten()
        .collect();
        (run.started_at, run.updated_at) = (self.started, self.ended);
        run.latency_s = took.filter(|seconds| *seconds > 0.0);
        let between = between
            .filter(|_| run.latency_s.is_some())
            .map(|seconds| seconds * 1e3);
        run.statements = between
            .map(|ms| total_in("ms", ms, "start_time and end_time"))
            .into_iter()
            .collect();
        run.cost_usd = self.cost.filter(|cost| *cost > 0.0);
        let spent = self.spent.filter(|spent| *spent > 0.0);
        match self.cost {
            // Without a known price, the simulator records 0 here and in every reply.
            Some(zero) if zero == 0.0 && spent.is_some() => {
                run.statements.push(total_in("usd", zero, "agent_cost"))
            }
            None if !self.lacks_cost => run.cost_usd = spent,
            _ => {}
        }
        run.conflicts = odd_product(&reward).into_iter().collect();
        run.turns = Some(self.conversation.turns()).filter(|_| !self.is_spoken);
        // Without messages, the number of steps is unknown too.
        run.steps_unknown = self.is_spoken || self.trial.messages.is_none();
        // By tau2-bench's own definition, a task succeeds if it gets the full reward.
        run.success = rewarded.map(|rewarded| rewarded >= 1.0);
        run.scores = scores;
        run.ended = ended.map(Box::new);
        run.final_result = answer;
    }
}

impl Simulation {
    fn message(&mut self, record: &str, draft: &mut Draft<'_>) {
        let message = Message::of(record);
        let role = text(message.role).unwrap_or_default();
        let mark = EventDraft::new(&role, draft.time(message.timestamp));
        if mark.ts.is_some() && draft.is_again(record) {
            return draft.again(&mark);
        }
        *self.trial.messages.get_or_insert_default() += 1;
        if role == "tool" {
            let results = message
                .results
                .into_iter()
                .flat_map(walk::items)
                .map(Message::of);
            let errors = results.map(|result| result.error).chain([message.error]);
            self.failed += errors.filter(|error| is_true(*error)).count();
        }
        if role == "user" {
            match number(message.cost) {
                Some(cost) => self.of_user = Some(cost + self.of_user.unwrap_or_default()),
                None => self.lacks_user_cost = true,
            }
        }
        let is_start = self.conversation.last().is_none() && self.conversation.turns() == 0;
        match &*role {
            // The program supplies the greeting.
            "assistant" if is_start && !is_reply(&message) => {
                draft.event(mark.stage("greeting"));
            }
            "assistant" => {
                self.replies += 1;
                let part = part_of(record);
                self.spent = part
                    .cost
                    .map(|cost| cost + self.spent.unwrap_or_default())
                    .or(self.spent);
                self.lacks_cost |= part.cost.is_none();
                draft.name_model(&part);
                self.conversation
                    .reply(None, draft.latest(), mark, part, draft);
            }
            "user" if is_text(message.content) => {
                self.conversation
                    .prompt(&spoken(message.content), &mark, draft);
            }
            "tool" if message.requestor != Some("\"user\"") => {
                let part = part_of(record);
                match self.conversation.step_of(&part) {
                    // Some of the results in one message may be the user's.
                    None if message.results.is_some() => {
                        draft.event(mark.stage("result").failed(part.has_failed()));
                    }
                    step => draft.results(step.as_slice(), mark.stage("result"), part),
                }
            }
            _ => {
                let stage = if role == "tool" || message.calls.is_some() {
                    "tool of the user"
                } else {
                    ""
                };
                draft.event(mark.stage(stage).failed(is_true(message.error)));
            }
        }
    }

    /// Handles a tick of a spoken conversation.
    fn tick(&mut self, record: &str, draft: &mut Draft<'_>) {
        let tick = Tick::of(record);
        let mark = EventDraft::new("tick", draft.time(tick.timestamp));
        if mark.ts.is_some() && draft.is_again(record) {
            return draft.again(&mark);
        }
        // If the same is also recorded in messages, those are the steps.
        self.is_spoken |= self.conversation.last().is_none();
        if !self.is_spoken {
            draft.event(mark);
            return;
        }
        let part = part_of_tick(&tick);
        if part.calls.is_empty() && part.answers.is_empty() {
            draft.event(mark);
        } else if part.calls.is_empty() {
            let step = self.conversation.step_of(&part);
            draft.results(step.as_slice(), mark.stage("result"), part);
        } else {
            let mark = mark.failed(part.has_failed());
            self.conversation
                .reply(None, draft.latest(), mark, part, draft);
        }
    }

    fn ended(&self, given: Option<f64>) -> Option<Ended> {
        let mut end = End::of(ENDS, self.word.as_deref()?)?;
        if &*end.word == "timeout" {
            end = end.compare(self.seconds.map(|seconds| seconds * 1e3), None, "ms");
        }
        // Next to a limit, the reward would read like another of its figures.
        let has_figures = end.measured.is_some() || !end.candidates.is_empty();
        let reward = given
            .filter(|_| !has_figures)
            .map(|reward| format!("reward {reward}"));
        let note = self.note.as_deref().map(cut).unwrap_or_default();
        Some(end.detail(note).reward(reward.unwrap_or_default()))
    }
}

/// Returns whether a message came from a model.
fn is_reply(message: &Message<'_>) -> bool {
    [message.usage, message.raw, message.calls]
        .into_iter()
        .flatten()
        .any(|value| value != "null")
}

/// Returns the lists of checks, each with the score name for its share of met checks, and with the
/// noun for one check.
fn checks<'a>(reward: &Reward<'a>) -> [(&'static str, &'static str, Vec<Check<'a>>); 4] {
    let each = |list: Option<&'a str>| {
        list.into_iter()
            .flat_map(walk::items)
            .map(Check::of)
            .collect()
    };
    [
        ("actions met", "action check", each(reward.action_checks)),
        ("assertions met", "assertion", each(reward.env_assertions)),
        ("statements met", "statement", each(reward.nl_assertions)),
        (
            "told as asked",
            "communication check",
            each(reward.communicate_checks),
        ),
    ]
}

impl Check<'_> {
    fn is_met(&self) -> bool {
        is_true(self.met.or(self.matches))
    }

    /// Returns a short description of the check.
    fn name(&self) -> String {
        let named = self
            .action
            .or(self.assertion)
            .map(Named::of)
            .unwrap_or_default();
        let words = [named.name, named.func, self.statement, self.told]
            .into_iter()
            .find_map(filled);
        words.unwrap_or_default()
    }
}

/// Returns the scores of the simulation: the reward, its factors, and the shares of met checks.
fn scores(reward: &Reward<'_>) -> Vec<RunScore> {
    let whole = number(reward.reward).map(|given| RunScore::number("reward", given));
    let parts = reward.breakdown.into_iter().flat_map(walk::members);
    let parts = parts.filter_map(|(key, given)| {
        let name = cut(&format!("reward.{}", text(Some(key)).unwrap_or_default()));
        Some(RunScore::number(name, number(Some(given))?))
    });
    let database = reward
        .db_check
        .and_then(|check| number(Check::of(check).reward));
    let shares = checks(reward).into_iter().filter_map(|(name, _, checks)| {
        let met = checks.iter().filter(|check| check.is_met()).count();
        let failed: Vec<String> = checks
            .iter()
            .filter(|check| !check.is_met())
            .map(Check::name)
            .collect();
        let failed = failed
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        let reason = (!failed.is_empty()).then(|| cut(&format!("failed: {failed}")));
        let share = (!checks.is_empty()).then(|| met as f64 / checks.len() as f64)?;
        Some(RunScore {
            reason,
            ..RunScore::number(name, share)
        })
    });
    let database = database.map(|given| RunScore::number("database", given));
    whole
        .into_iter()
        .chain(parts)
        .chain(database)
        .chain(shares)
        .take(MAX_SCORES)
        .collect()
}

/// Returns a conflict if the reward isn't the product of its parts.
fn odd_product(reward: &Reward<'_>) -> Option<Box<str>> {
    let given = number(reward.reward)?;
    let parts = reward
        .breakdown
        .into_iter()
        .flat_map(walk::members)
        .map(|(_, part)| number(Some(part)));
    let parts = parts
        .collect::<Option<Vec<f64>>>()
        .filter(|parts| !parts.is_empty())?;
    let product: f64 = parts.iter().product();
    ((product - given).abs() > 1e-6).then(|| {
        cut(&format!(
            "The reward is {given}, but the product of its parts (reward_breakdown) is {product}"
        ))
    })
}

/// Describes checks that failed although the reward is full, as a sentence. A reward counts only
/// some of the checks.
fn failed_checks(reward: &Reward<'_>) -> Option<Box<str>> {
    let full = number(reward.reward).filter(|reward| *reward >= 1.0)?;
    let of_list = |(_, what, checks): (_, &str, Vec<Check<'_>>)| {
        let failed: Vec<&Check<'_>> = checks.iter().filter(|check| !check.is_met()).collect();
        let names: Vec<String> = failed
            .iter()
            .map(|check| check.name())
            .filter(|name| !name.is_empty())
            .collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(" ({})", names.join(", "))
        };
        let (few, many) = (failed.len(), checks.len());
        let what = if many == 1 {
            what.to_owned()
        } else {
            format!("{what}s")
        };
        (few > 0).then(|| format!("{few} of {many} {what} failed{names}"))
    };
    let mut failed: Vec<String> = checks(reward).into_iter().filter_map(of_list).collect();
    let database = reward
        .db_check
        .map(Check::of)
        .is_some_and(|check| check.db_match == Some("false"));
    failed.extend(database.then(|| "the database check failed".to_owned()));
    let parts = reward.breakdown.into_iter().flat_map(walk::members);
    failed.extend(parts.filter_map(|(key, given)| {
        let given = number(Some(given)).filter(|given| *given < 1.0)?;
        Some(format!("its part {} is {given}", text(Some(key))?))
    }));
    (!failed.is_empty()).then(|| {
        cut(&format!(
            "The reward is {full}, but {}.",
            failed.join(" and ")
        ))
    })
}

/// Returns the part of a step that a message contains.
fn part_of(record: &str) -> Part {
    let message = Message::of(record);
    if message.role.is_none() {
        return part_of_tick(&Tick::of(record));
    }
    let mut part = Part::default();
    if message.role == Some("\"tool\"") {
        let several = message
            .results
            .into_iter()
            .flat_map(walk::items)
            .map(Message::of);
        let own = |result: &Message<'_>| result.requestor != Some("\"user\"");
        part.answers = match message.results {
            Some(_) => several.filter(own).map(|result| answer(&result)).collect(),
            None => vec![answer(&message)],
        };
        return part;
    }
    part.text
        .extend(Some(spoken(message.content)).filter(|said| !said.is_empty()));
    part.calls = asked(message.calls);
    part.model = message.raw.and_then(|raw| filled(Raw::of(raw).model));
    part.cost = number(message.cost);
    let usage = message
        .usage
        .filter(|usage| usage.starts_with('{'))
        .map(Spent::of);
    part.tokens = usage.map(|usage| Tokens {
        input: count(usage.prompt_tokens),
        output: count(usage.completion_tokens),
        ..Tokens::default()
    });
    part
}

fn asked(calls: Option<&str>) -> Vec<CallDraft> {
    let calls = calls.into_iter().flat_map(walk::items).map(Call::of);
    calls
        .map(|call| CallDraft {
            id: text(call.id).unwrap_or_default(),
            name: text(call.name).unwrap_or_default(),
            args: call.arguments.unwrap_or_default().to_owned(),
        })
        .collect()
}

/// Returns the part of a step that a tick contains.
fn part_of_tick(tick: &Tick<'_>) -> Part {
    let results = tick
        .results
        .into_iter()
        .flat_map(walk::items)
        .map(Message::of);
    Part {
        calls: asked(tick.calls),
        answers: results.map(|result| answer(&result)).collect(),
        ..Part::default()
    }
}

fn answer(result: &Message<'_>) -> Answer {
    let words = text(result.content).unwrap_or_default();
    let failed = is_true(result.error);
    let error = failed.then(|| {
        if words.is_empty() {
            NO_WORDS.to_owned()
        } else {
            words.clone()
        }
    });
    Answer {
        call: text(result.id).unwrap_or_default(),
        status: Some(if failed { "error" } else { "success" }),
        output: if failed {
            "null".to_owned()
        } else {
            unpacked(&words)
        },
        error,
        ..Answer::default()
    }
}
