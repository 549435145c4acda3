//! Reads the directories of Harbor trials. The agent's steps are in an ATIF trajectory. The end of
//! the trial, its times and the verifier's rewards are in `result.json` next to it, which is written
//! last.

use super::ends::{End, ends};
use super::part::text;
use super::value::{above_zero, count, cut, filled, limit, micros, number, short, total_in};
use super::watch::has_begun;
use super::{Draft, Reader, Shape, Source, Tool, atif, claude, codex, mini_swe_agent};
use crate::model::json::walk;
use crate::model::step::Usage;
use crate::model::{
    self, Can, Capabilities, Certainty, Ended, Fact, Format, IssueKind, Outcome, RunScore,
    Statement, ToolLimit, stated,
};

/// A trial.
pub(super) static TRIAL: Tool = Tool {
    format: Format {
        name: "Harbor trial",
        file: "trajectory",
        can: Capabilities {
            scores: Can::Partly,
            ..atif::FORMAT.can
        },
        ..atif::FORMAT
    },
    shape: Shape::Directory {
        paths: atif::PATHS,
        below: "agent",
        records: "trajectory.json",
        beside: RESULT,
    },
    // This file exists from the start. The one of a job has no trial.
    is: |name, head| name == "config.json" && has_begun(head, &["trial_name", "task"]),
    reader: || Box::new(Trial::default()),
};

/// A trial that contains Claude Code's output but no trajectory. Harbor writes the trajectory at
/// the end, and not in all versions.
pub(super) static CLAUDE_TRIAL: Tool = Tool {
    format: Format {
        name: TRIAL.format.name,
        file: "stream",
        is_session: false,
        can: Capabilities {
            scores: Can::Partly,
            ..claude::stream::CLAUDE.format.can
        },
        ..claude::stream::CLAUDE.format
    },
    shape: Shape::LinesBelow {
        below: "agent",
        records: "claude-code.txt",
        beside: RESULT,
    },
    is: |_, _| false,
    reader: || Box::new(Captured::new(&claude::stream::CLAUDE)),
};

/// The same for Codex.
pub(super) static CODEX_TRIAL: Tool = Tool {
    format: Format {
        name: TRIAL.format.name,
        file: "stream",
        is_session: false,
        can: Capabilities {
            scores: Can::Partly,
            ..codex::exec::STREAM.format.can
        },
        ..codex::exec::STREAM.format
    },
    shape: Shape::LinesBelow {
        below: "agent",
        records: "codex.txt",
        beside: RESULT,
    },
    is: |_, _| false,
    reader: || Box::new(Captured::new(&codex::exec::STREAM)),
};

/// The same for mini-swe-agent, which writes its own trajectory.
pub(super) static MINI_TRIAL: Tool = Tool {
    format: Format {
        name: TRIAL.format.name,
        can: Capabilities {
            scores: Can::Partly,
            ..mini_swe_agent::TRAJECTORY.format.can
        },
        ..mini_swe_agent::TRAJECTORY.format
    },
    shape: Shape::Directory {
        paths: mini_swe_agent::PATHS,
        below: "agent",
        records: "mini-swe-agent.trajectory.json",
        beside: RESULT,
    },
    is: |_, _| false,
    reader: || Box::new(Captured::new(&mini_swe_agent::TRAJECTORY)),
};

/// The files that contain an agent's steps, each with its reader.
const CAPTURED: [(&str, &Tool); 3] = [
    ("agent/claude-code.txt", &CLAUDE_TRIAL),
    ("agent/codex.txt", &CODEX_TRIAL),
    ("agent/mini-swe-agent.trajectory.json", &MINI_TRIAL),
];

/// Returns the reader for a trial without a trajectory, depending on the files that its agent
/// wrote.
pub(super) fn with_records(has: impl Fn(&str) -> bool) -> Option<&'static Tool> {
    if has("agent/trajectory.json") {
        return None;
    }
    CAPTURED
        .into_iter()
        .find_map(|(file, tool)| has(file).then_some(tool))
}

/// The file with the result of the trial.
const RESULT: &str = "result.json";

/// The headline of a trial whose sandbox failed.
const NO_SANDBOX: &str = "The sandbox failed";

/// Harbor's exceptions, by who or what ended the trial.
const ENDS: &[End] = ends! {
    "AgentTimeoutError" => Truncated, "Agent time limit reached";
    "OutputTokenExceededError" | "OutputLengthExceededError" =>
        Truncated, Ended::CUT_REPLY;
    "ApiUsageLimitError" => Failed, "Provider usage limit reached";
    "ApiRateLimitError" | "RateLimitError" => Failed, "Provider rate limit reached";
    "AgentSafetyRefusalError" | "ContentPolicyViolationError" => Failed, Ended::REFUSED;
    "EnvironmentStartTimeoutError" | "SandboxBuildFailedError" | "AgentSetupTimeoutError" |
    "HealthcheckError" | "SandboxLikelyOutOfMemoryError" | "MemoryLimitExceededError" |
    "SSHAccessError" => Failed, NO_SANDBOX;
    "VerifierTimeoutError" | "RewardFileNotFoundError" | "RewardFileEmptyError" |
    "VerifierOutputParseError" => Failed, "The verifier failed";
    "InternalServerError" | "ServiceUnavailableError" | "APIConnectionError" | "APIError" |
    "UnknownApiError" | "NetworkConnectionError" | "Api*" => Failed, "API error";
    "*" => Failed, "Failed with an error";
};

/// A trial with several steps has a trajectory for each.
pub(super) const RUNS_INSIDE: &[&str] = &["steps", "*", "agent"];
/// At most this many rewards of a trial are kept.
const MAX_REWARDS: usize = 64;

fields! {
    struct Result {
        trial_name, agent_info, agent_result, verifier_result, exception = "exception_info", started_at, finished_at,
        agent_execution, steps = "step_results", step_name, task_name, source, config,
    }
    struct Config { agent, of_all = "timeout_multiplier", of_agent = "agent_timeout_multiplier" }
    struct AgentConfig { given = "override_timeout_sec", most = "max_timeout_sec" }
    struct AgentInfo { name, version, model_info }
    struct ModelInfo { name, provider }
    struct AgentResult { input = "n_input_tokens", cached = "n_cache_tokens", output = "n_output_tokens", cost_usd }
    struct Verified { rewards, reward }
    struct Exception { kind = "exception_type", message = "exception_message" }
    struct Timing { started_at, finished_at }
}

/// A trial while it is being read.
#[derive(Debug, Default)]
struct Trial {
    trajectory: atif::Trajectory,
    result: Option<String>,
}

impl Reader for Trial {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        self.trajectory.record(record, draft);
    }

    fn beside(&mut self, text: &str) {
        self.result = Some(text.to_owned());
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        self.trajectory.look(draft);
        let Some(text_of_result) = &self.result else {
            return;
        };
        let result = Result::of(text_of_result);
        about(&result, draft);
        if is_reversed(&result) {
            draft.issue_of_whole(IssueKind::Time, REVERSED);
        }
        let steps = result.steps.into_iter().flat_map(walk::items).count() as u64;
        let used = result.agent_result.map(AgentResult::of).unwrap_or_default();
        let above = |tokens: Option<&str>| count(tokens).filter(|tokens| *tokens > 0);
        let whole = (
            above(used.input),
            above(used.output),
            above_zero(used.cost_usd),
        );
        self.trajectory.compare("result.json records", whole, draft);
        let tokens = count(used.input)
            .zip(count(used.output))
            .map(|(read, wrote)| read.saturating_add(wrote));
        // If a step doesn't record its tokens, the steps' sum is partial.
        let of_steps = [self.trajectory.read, self.trajectory.wrote]
            .into_iter()
            .flatten()
            .reduce(u64::saturating_add);
        let lacks = self.trajectory.lacks_tokens || of_steps.is_none();
        let tokens = tokens.filter(|tokens| lacks && *tokens > of_steps.unwrap_or_default());
        let of_trial = ended(&result);
        // The agent's times are recorded even if its sandbox never started.
        let is_unstarted = of_trial
            .as_ref()
            .is_some_and(|end| &*end.headline == NO_SANDBOX);
        let has_run = result
            .agent_execution
            .is_some_and(|execution| execution.starts_with('{'))
            && !is_unstarted;
        let run = draft.run();
        // The agent ran, but no readable file contains its steps.
        run.steps_unknown |= has_run && !self.trajectory.is_read && steps == 0;
        run.children = run.children.map(|children| children + steps);
        if tokens.is_some() {
            run.tokens = tokens;
            run.usage = usage_of(&used);
        }
        // Cached tokens are recorded only as a total.
        if run.usage.cached.is_none()
            && count(used.input).is_some_and(|read| Some(read) == self.trajectory.read)
        {
            run.usage.cached = count(used.cached).filter(|cached| *cached > 0);
        }
        let cost = above_zero(used.cost_usd);
        run.cost_usd = if self.trajectory.lacks_cost {
            cost.or(run.cost_usd)
        } else {
            run.cost_usd.or(cost)
        };
        run.ended = of_trial.map(Box::new).or(run.ended.take());
    }
}

/// A trial whose steps are read from the agent's output instead of a trajectory.
#[derive(Debug)]
struct Captured {
    stream: Box<dyn Reader>,
    result: Option<String>,
    /// Whether the reversed times have been reported.
    is_reversed: bool,
}

impl Captured {
    fn new(tool: &Tool) -> Self {
        Self {
            stream: tool.reader(),
            result: None,
            is_reversed: false,
        }
    }
}

impl Reader for Captured {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        self.stream.record(record, draft);
    }

    fn beside(&mut self, text: &str) {
        self.result = Some(text.to_owned());
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        self.stream.look(draft);
        let Some(text_of_result) = &self.result else {
            return;
        };
        let result = Result::of(text_of_result);
        about(&result, draft);
        // This is called again for each new line.
        if is_reversed(&result) && !std::mem::replace(&mut self.is_reversed, true) {
            draft.issue_of_whole(IssueKind::Time, REVERSED);
        }
        let used = result.agent_result.map(AgentResult::of).unwrap_or_default();
        let tokens = count(used.input)
            .zip(count(used.output))
            .map(|(read, wrote)| read.saturating_add(wrote));
        let run = draft.run();
        // The stream counts its agent's tokens.
        if run.tokens.is_none() && tokens.is_some_and(|tokens| tokens > 0) {
            run.tokens = tokens;
            run.usage = usage_of(&used);
        }
        let cost_of_stream = run.cost_usd.filter(|_| !run.cost_estimated);
        run.cost_usd = run.cost_usd.or(above_zero(used.cost_usd));
        let of_trial = ended(&result).map(Box::new);
        // Without an exception, the trial only records that the agent finished. The stream records
        // how.
        let is_through = of_trial
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let is_other = run
            .ended
            .as_ref()
            .is_some_and(|end| end.outcome != Outcome::Completed);
        let of_stream = run.ended.take().map(|end| *end);
        let (end, conflict) = match (of_trial.map(|end| *end), of_stream) {
            (Some(_), Some(stream)) if is_through && is_other => (Some(stream), None),
            (Some(trial), Some(stream)) if stream.certainty == Certainty::Recorded => {
                let told = vec![(RESULT, trial), ("the agent's output", stream)];
                Ended::agreed(told).map_or((None, None), |(end, conflict)| (Some(end), conflict))
            }
            (trial, stream) => (trial.or(stream), None),
        };
        run.ended = end.map(Box::new);
        let conflict = conflict.filter(|words| !run.conflicts.contains(words));
        run.conflicts.extend(conflict);
        run.statements
            .retain(|statement| !matches!(statement.fact, Fact::Total(_)));
        if let Some((of_trial, of_stream)) = above_zero(used.cost_usd).zip(cost_of_stream) {
            run.statements.extend([
                total_in("usd", of_trial, "result.json agent_result.cost_usd"),
                total_in("usd", of_stream, "the agent's output"),
            ]);
        }
        run.awaits_user = false;
    }
}

fn usage_of(used: &AgentResult<'_>) -> Usage {
    Usage {
        input: count(used.input),
        cached: count(used.cached),
        output: count(used.output),
        ..Usage::default()
    }
}

/// Sets the facts in the trial's result, wherever its steps come from.
fn about(result: &Result<'_>, draft: &mut Draft<'_>) {
    let agent = result.agent_info.map(AgentInfo::of).unwrap_or_default();
    let asked = agent.model_info.map(ModelInfo::of).unwrap_or_default();
    let [started_at, finished_at] =
        [result.started_at, result.finished_at].map(|time| draft.time_of_whole(time));
    let limit = limit(
        "override_timeout_sec",
        timeout(result),
        "ms",
        took(result).map(|seconds| seconds * 1e3),
    );
    let run = draft.run();
    run.statements
        .retain(|statement| !matches!(statement.fact, Fact::Limit(_)));
    run.statements.extend(limit.iter().map(of_config));
    run.limits = limit.into_iter().collect();
    run.scores = rewards(result);
    run.trial = Some(Box::new(model::Trial {
        task_set: short(result.source),
        task_id: short(result.task_name),
        ..Default::default()
    }));
    run.run_id = filled(result.trial_name)
        .map(|name| cut(&name))
        .or(run.run_id.take());
    (run.started_at, run.updated_at) = (started_at, finished_at);
    if let Some(name) = filled(agent.name) {
        let version = filled(agent.version).filter(|version| version != "unknown");
        let version = version.map_or_else(String::new, |version| format!(" {version}"));
        run.tool = Some(cut(&format!("{name}{version}")));
        run.agent = Some(cut(&name));
    }
    if run.model.is_none() {
        let provider =
            filled(asked.provider).map_or_else(String::new, |provider| format!("{provider}/"));
        run.model = filled(asked.name).map(|name| cut(&format!("{provider}{name}")));
    }
    run.latency_s = took(result).or(run.latency_s);
}

/// Returns the agent's time limit as a statement of the configuration.
fn of_config(limit: &ToolLimit) -> Statement {
    let field = "config.agent.override_timeout_sec".into();
    let source = stated::Source {
        who: "the configuration",
        file: RESULT,
        line: None,
        field,
    };
    Statement::number(Fact::Limit("ms"), limit.limit, source)
}

/// Returns whether the recorded finish of the trial is before its start.
fn is_reversed(result: &Result<'_>) -> bool {
    let times = micros(result.started_at).zip(micros(result.finished_at));
    times.is_some_and(|(started, finished)| finished < started)
}

const REVERSED: &str = "the trial's recorded finish is before its start";

/// Returns how long the agent ran, in seconds.
fn took(result: &Result<'_>) -> Option<f64> {
    let run = result.agent_execution.map(Timing::of)?;
    let (from, to) = micros(run.started_at).zip(micros(run.finished_at))?;
    Some(to.checked_sub(from)? as f64 / 1e6).filter(|seconds| *seconds >= 0.0)
}

/// Returns the agent's time limit in the trial's configuration, in milliseconds. Without one, the
/// limit of the task applies, which isn't in any file of the trial.
fn timeout(result: &Result<'_>) -> Option<f64> {
    let config = result.config.map(Config::of)?;
    let agent = config.agent.map(AgentConfig::of)?;
    let seconds = above_zero(agent.given)?;
    let seconds = above_zero(agent.most).map_or(seconds, |most| seconds.min(most));
    let factor = number(config.of_agent)
        .or_else(|| number(config.of_all))
        .unwrap_or(1.0);
    Some(seconds * factor * 1e3)
}

/// Returns how the trial ended, or `None` if it hasn't.
fn ended(result: &Result<'_>) -> Option<Ended> {
    told_end(result).map(|ended| Ended {
        file: RESULT,
        ..ended
    })
}

fn told_end(result: &Result<'_>) -> Option<Ended> {
    let exception = result
        .exception
        .filter(|exception| exception.starts_with('{'))
        .map(Exception::of);
    // A trial with several steps records an exception in each of them.
    let of_steps = || {
        let steps = result
            .steps
            .into_iter()
            .flat_map(walk::items)
            .map(Result::of);
        steps
            .filter_map(|step| step.exception)
            .find(|exception| exception.starts_with('{'))
            .map(Exception::of)
    };
    let rewards = rewards(result);
    let Some(exception) = exception.or_else(of_steps) else {
        text(result.finished_at)?;
        let end = Ended::new(
            "finished",
            "The agent finished",
            Outcome::Completed,
            Certainty::Recorded,
        );
        return Some(rewarded(end, &rewards));
    };
    let kind = text(exception.kind).unwrap_or_default();
    let message = text(exception.message).unwrap_or_default();
    let end = End::raised(&kind).or_else(|| End::of(ENDS, &kind))?;
    if kind == "AgentTimeoutError" {
        let took = took(result).map(|seconds| seconds * 1e3);
        let seconds = message
            .split_whitespace()
            .find_map(|word| word.parse::<f64>().ok());
        let limit = seconds
            .map(|seconds| seconds * 1e3)
            .or_else(|| timeout(result));
        return Some(rewarded(end, &rewards).compare(took, limit, "ms"));
    }
    let line = message.lines().next().unwrap_or_default();
    Some(rewarded(end.detail(cut(line)), &rewards))
}

/// Returns the verifier's rewards for the trial, or for each of its steps if there aren't any for the
/// whole.
fn rewards(result: &Result<'_>) -> Vec<RunScore> {
    let own = of_verifier(result, "");
    if !own.is_empty() {
        return own;
    }
    let steps = result
        .steps
        .into_iter()
        .flat_map(walk::items)
        .map(Result::of);
    steps
        .flat_map(|step| of_verifier(&step, &text(step.step_name).unwrap_or_default()))
        .collect()
}

fn of_verifier(result: &Result<'_>, step: &str) -> Vec<RunScore> {
    let verified = result.verifier_result.map(Verified::of).unwrap_or_default();
    let name = |name: &str| {
        if step.is_empty() {
            cut(name)
        } else {
            cut(&format!("{step}: {name}"))
        }
    };
    let each = verified
        .rewards
        .into_iter()
        .flat_map(walk::members)
        .filter_map(|(reward, value)| {
            let value = number(Some(value))?;
            Some(RunScore::number(
                name(&text(Some(reward)).unwrap_or_default()),
                value,
            ))
        });
    // Older results have a single reward.
    let one = number(verified.reward).map(|value| RunScore::number(name("reward"), value));
    each.chain(one).take(MAX_REWARDS).collect()
}

/// Adds the rewards. A single one may be the run's reward.
fn rewarded(end: Ended, rewards: &[RunScore]) -> Ended {
    let words = in_words(rewards);
    match rewards {
        [one] if &*one.name == "reward" => end.reward(words),
        _ => end.note(words),
    }
}

fn in_words(rewards: &[RunScore]) -> String {
    let each = rewards
        .iter()
        .filter_map(|given| Some(format!("{} {}", given.name, given.score?)));
    let each: Vec<String> = each.collect();
    cut(&each.join(", ")).into()
}
