//! Reads trajectories in the Agent Trajectory Interchange Format (ATIF): one JSON document that
//! lists the steps of the user, the system and the agent. Covers versions 1.0 to 1.8, as the RFC
//! defines them and as programs write them.
//!
//! Only what the agent did is a step here. Steps copied from another trajectory for context count
//! in that one. The format doesn't record how a run ended.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use super::conversation::Conversation;
use super::part::{self, quoted, text};
use super::value::{
    count, cut, exported_end, filled, int, is_true, member, micros, number, spoken, total_in,
    unpacked,
};
use super::watch::begun;
use super::{Answer, CallDraft, Draft, EventDraft, Part, Reader, Shape, Source, Tokens, Tool};
use crate::model::index::is_same_total;
use crate::model::json::walk;
use crate::model::{
    Can, Capabilities, Certainty, Ended, EventKind, EventNote, Format, IssueKind, Outcome, RunScore,
};

/// A trajectory that is not part of a trial.
pub(super) static TRAJECTORY: Tool = Tool {
    format: Format {
        name: "ATIF trajectory",
        file: "trajectory",
        no_end_reason: UNTOLD,
        // Only trajectories that this program exported have scores.
        can: Capabilities {
            scores: Can::Partly,
            ..FORMAT.can
        },
        ..FORMAT
    },
    shape: Shape::Document(PATHS),
    is: |_, head| is_trajectory(head),
    reader: || {
        Box::new(Trajectory {
            is_alone: true,
            ..Trajectory::default()
        })
    },
};

const UNTOLD: &str = "ATIF doesn't record how a run ended";

/// What any trajectory can record.
pub(super) const FORMAT: Format = Format {
    can: Capabilities {
        times: Can::Partly,
        tokens: Can::Partly,
        cost: Can::Partly,
        ..Capabilities::NONE
    },
    assemble: Some(|n, records| part::line(n, records.iter().map(|record| part_of(record)))),
    is_of_coding_agent: true,
    ..Format::UNKNOWN
};

pub(super) const PATHS: &[&[&str]] = &[
    &["steps", "*"],
    &["agent"],
    &["final_metrics"],
    &["schema_version"],
    &["session_id"],
    &["trajectory_id"],
    &["continued_trajectory_ref"],
    &["subagent_trajectories", "*", "agent"],
    &["subagent_trajectories", "*", "trajectory_id"],
    &["extra", "board"],
    &["subagent_trajectories", "*", "final_metrics"],
];

/// The newest minor version that this reader knows.
const NEWEST: u32 = 8;
/// Scores kept per run, at most.
const MAX_SCORES: usize = 64;

fields! {
    struct Step {
        id = "step_id", source, timestamp, message, reasoning = "reasoning_content", model = "model_name", tool_calls,
        observation, metrics, copied = "is_copied_context", asked = "llm_call_count", extra,
    }
    struct Call { id = "tool_call_id", name = "function_name", arguments }
    struct Observation { results }
    struct Outcomes { call = "source_call_id", content, refs = "subagent_trajectory_ref", extra }
    struct Extra { is_error, exit_code }
    struct Metrics { prompt_tokens, completion_tokens, cached_tokens, cost_usd, extra }
    struct Totals {
        prompt = "total_prompt_tokens", completion = "total_completion_tokens", cached = "total_cached_tokens",
        cost = "total_cost_usd", steps = "total_steps", extra,
    }
    struct Agent { name, version, model = "model_name", extra }
    struct RecordPlace { index = "continuation_index", parent = "parent_session_id" }
    struct Board {
        verdict, outcome, reason = "stop_reason", certainty, scores, untold = "steps_untold", started = "started_at",
        took = "duration_ms",
    }
    struct StepBoard { began, ended, scores }
    struct Scored { name, score }
    struct Ref { id = "trajectory_id", session = "session_id", path = "trajectory_path" }
}

pub(super) fn is_trajectory(head: &[u8]) -> bool {
    begun(head)
        .iter()
        .any(|(key, value)| *key == "\"schema_version\"" && value.starts_with("\"ATIF-v1."))
}

/// A trajectory while it is being read.
#[derive(Debug, Default)]
pub(super) struct Trajectory {
    conversation: Conversation,
    /// At least one record was read.
    pub(super) is_read: bool,
    /// The `step_id` of the previous step.
    id: Option<i64>,
    /// Sums over the agent's steps, as far as they record them.
    pub(super) read: Option<u64>,
    pub(super) wrote: Option<u64>,
    cost: Option<f64>,
    /// Some step of the agent lacks its tokens or its cost, so that the sum is partial.
    pub(super) lacks_tokens: bool,
    pub(super) lacks_cost: bool,
    /// How often the agent's steps called a model, and whether any of them records that. A step
    /// that doesn't record it counts as one call.
    asked: u64,
    tells_asked: bool,
    totals: Spent,
    /// The usage of steps copied from another trajectory. Totals may include it.
    of_copies: Spent,
    /// The usage of the trajectories embedded in this one, and how many of them record each value.
    of_held: Spent,
    held_that_say: [usize; 3],
    cached: Option<u64>,
    /// Cached tokens of the agent's steps. Known only if each step with tokens records them.
    of_cache: Option<u64>,
    lacks_cached: bool,
    /// Steps of all sources: as the totals count them, and as the file has them.
    counted: Option<u64>,
    steps: u64,
    /// All tokens together. This program's own export records only that if input and output are
    /// unknown.
    tokens: Option<u64>,
    /// The number of this continuation within its session, and the session that started it.
    index: u64,
    parent: Option<String>,
    session: Option<String>,
    /// The id of this trajectory alone; continuations share a session id.
    own_id: Option<String>,
    /// Ids of other trajectories that this one names or embeds, how many it embeds, and how many of
    /// those have a name.
    children: BTreeSet<String>,
    held: usize,
    held_by_name: usize,
    copied: bool,
    goes_on: Option<String>,
    /// Whether this program exported the trajectory, and if so, how the run ended and how it was
    /// scored.
    is_exported: bool,
    end: Option<Ended>,
    scores: Vec<RunScore>,
    /// It is not part of a trial. Such a file is written when its run is over, so a new file
    /// doesn't mean that the run continues.
    is_alone: bool,
    steps_unknown: bool,
    began: Option<i64>,
    took: Option<f64>,
    /// The last step made tool calls, and the time of their results isn't recorded: the format
    /// only has the time of the reply.
    end_unknown: bool,
}

/// Usage: input tokens, output tokens, US dollars.
type Spent = (Option<u64>, Option<u64>, Option<f64>);

fn plus(sum: Spent, more: Spent) -> Spent {
    let tokens = |sum: Option<u64>, more: Option<u64>| {
        more.map(|more| more.saturating_add(sum.unwrap_or_default()))
            .or(sum)
    };
    let cost = more
        .2
        .map(|more| more + sum.2.unwrap_or_default())
        .or(sum.2);
    (tokens(sum.0, more.0), tokens(sum.1, more.1), cost)
}

fn spent(totals: &Totals<'_>) -> Spent {
    (
        count(totals.prompt),
        count(totals.completion),
        number(totals.cost),
    )
}

impl Reader for Trajectory {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        self.is_read = true;
        let value = Some(record.text);
        match record.path {
            0 => self.step(record.text, draft),
            1 => {
                let place = agent(record.text, trial_of(record.file), draft);
                self.index = count(place.index).unwrap_or_default();
                self.parent = filled(place.parent);
            }
            2 => {
                draft.event(EventDraft::new("final_metrics", None));
                let totals = Totals::of(record.text);
                self.totals = spent(&totals);
                self.cached = count(totals.cached);
                self.counted = count(totals.steps);
                self.tokens = totals
                    .extra
                    .and_then(|extra| count(member(extra, "total_tokens")));
            }
            3 => version(&text(value).unwrap_or_default(), draft),
            4 => self.session = filled(value),
            5 => self.own_id = filled(value),
            6 => self.goes_on = filled(value),
            7 => {
                draft.event(EventDraft::new("subagent_trajectories", None));
                self.held += 1;
            }
            8 => {
                self.held_by_name += 1;
                self.children.extend(filled(value));
            }
            10 => {
                let held = spent(&Totals::of(record.text));
                let says = [held.0.is_some(), held.1.is_some(), held.2.is_some()];
                self.held_that_say
                    .iter_mut()
                    .zip(says)
                    .for_each(|(count, says)| *count += usize::from(says));
                self.of_held = plus(self.of_held, held);
            }
            _ => {
                let event = draft.event(EventDraft::new("extra", None));
                let board = Board::of(record.text);
                self.is_exported = true;
                self.steps_unknown = is_true(board.untold);
                self.began = micros(board.started);
                self.took = number(board.took)
                    .filter(|ms| *ms >= 0.0)
                    .map(|ms| ms / 1e3);
                self.end = end(&board).map(|end| end.at_event(event));
                let scored = board.scores.into_iter().flat_map(walk::members);
                let score = |(name, given): (&str, &str)| {
                    let score = number(Some(given));
                    let grade = filled(Some(given))
                        .filter(|_| score.is_none())
                        .map(|grade| cut(&grade));
                    let name = cut(&walk::string(name)?);
                    (score.is_some() || grade.is_some()).then_some(RunScore {
                        name,
                        score,
                        grade,
                        ..RunScore::default()
                    })
                };
                self.scores = scored.filter_map(score).take(MAX_SCORES).collect();
            }
        }
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        // A continuation is a separate run, but not a child run.
        let children = self.children.len() + self.held.saturating_sub(self.held_by_name);
        self.compare("final_metrics records", self.totals, draft);
        // Totals may count steps in other files.
        let is_whole = self.goes_on.is_none() && self.index == 0 && !self.copied && children == 0;
        if let Some(counted) = self
            .counted
            .filter(|counted| is_whole && *counted != self.steps)
        {
            let reason = format!(
                "final_metrics records {counted} steps, but the file has {}",
                self.steps
            );
            draft.issue(IssueKind::Count, reason);
        }
        let held = self.of_cache.filter(|_| is_whole && !self.lacks_cached);
        if let Some((total, sum)) = self.cached.zip(held).filter(|(total, sum)| total != sum) {
            let reason = format!(
                "final_metrics records {total} cached tokens, but the steps add up to {sum}"
            );
            draft.run().conflicts.push(cut(&reason));
            draft.issue(IssueKind::Count, reason);
        }
        let (prompt, completion, cost) = self.totals;
        let sum = prompt
            .zip(completion)
            .map(|(prompt, completion)| prompt.saturating_add(completion));
        let unsaid = self.read.is_none() && self.wrote.is_none();
        // Per the format, totals include other agents. Those are separate runs here.
        let is_alone = children == 0 && !self.copied && self.goes_on.is_none();
        let told = sum.or(self.tokens.filter(|_| self.is_exported));
        let of_steps = self.cost.filter(|_| !self.lacks_cost);
        let goes_on = self.goes_on.as_deref().map(|path| {
            Ended::new(
                "continued_trajectory_ref",
                "Continues in another file",
                Outcome::Unknown,
                Certainty::Recorded,
            )
            .detail(cut(path))
        });
        let end = self.end.clone();
        let (id, before) = self.names();
        let run = draft.run();
        run.run_id = id.map(|id| cut(&id));
        // A step of a trial keeps the trial as its parent.
        run.parent = run
            .parent
            .take()
            .or_else(|| before.map(|before| cut(&before)));
        run.children = Some(children as u64);
        run.tokens = told.filter(|tokens| self.is_exported || (unsaid && *tokens > 0));
        if run.tokens.is_some() {
            (run.usage.input, run.usage.cached, run.usage.output) =
                (prompt, self.cached, completion);
        }
        // Programs write 0 when they don't know.
        if run.tokens.is_none() {
            // Only if they refer to the same input tokens as the steps.
            run.usage.cached = self
                .cached
                .filter(|cached| *cached > 0 && prompt.is_some() && prompt == self.read);
        }
        let cost = cost.filter(|cost| *cost > 0.0 || self.is_exported);
        run.cost_usd = if self.is_exported || is_alone {
            cost.or(of_steps)
        } else {
            of_steps.or(cost.filter(|_| self.cost.is_none()))
        };
        run.model_calls = self.tells_asked.then_some(self.asked);
        run.scores = std::mem::take(&mut self.scores);
        run.steps_unknown = self.steps_unknown;
        (run.started_at, run.latency_s) = (self.began, self.took);
        run.end_unknown = self.end_unknown;
        run.is_untimed = self.is_alone;
        run.ended = goes_on.or(end).map(Box::new);
    }
}

/// The format can't record an end. `board export` adds its verdict in `extra`.
fn end(board: &Board<'_>) -> Option<Ended> {
    let word = |raw| text(raw).unwrap_or_default();
    exported_end(
        &text(board.outcome)?,
        &word(board.certainty),
        &word(board.reason),
        &word(board.verdict),
    )
}

impl Trajectory {
    /// Returns the id of the run, and the run that it belongs to. Continuations of one session
    /// share its id or add their number to it.
    fn names(&self) -> (Option<String>, Option<String>) {
        let Some(session) = self.session.as_deref().filter(|_| self.index > 0) else {
            return (
                self.own_id.clone().or_else(|| self.session.clone()),
                self.parent.clone(),
            );
        };
        let first = session
            .strip_suffix(&format!("-cont-{}", self.index))
            .unwrap_or(session);
        let before = if self.index == 1 {
            first.to_owned()
        } else {
            format!("{first}-cont-{}", self.index - 1)
        };
        (
            self.own_id
                .clone()
                .or_else(|| Some(format!("{first}-cont-{}", self.index))),
            Some(before),
        )
    }

    fn step(&mut self, record: &str, draft: &mut Draft<'_>) {
        let step = Step::of(record);
        self.steps += 1;
        let source = text(step.source).unwrap_or_default();
        let ts = draft.time(step.timestamp);
        let before = draft.latest();
        let own = step
            .extra
            .and_then(|extra| member(extra, "board"))
            .map(StepBoard::of);
        let ended = own.and_then(|own| micros(own.ended));
        let mark = EventDraft::new(&source, ts);
        // Each step has a unique id.
        if int(step.id).is_some() && draft.is_again(record) {
            return draft.again(&mark);
        }
        let results = || {
            step.observation
                .map(Observation::of)
                .and_then(|seen| seen.results)
                .into_iter()
                .flat_map(walk::items)
        };
        for refs in results()
            .filter_map(|result| Outcomes::of(result).refs)
            .flat_map(walk::items)
            .map(Ref::of)
        {
            self.children.extend(
                filled(refs.id)
                    .or_else(|| filled(refs.path))
                    .or_else(|| filled(refs.session)),
            );
        }
        let copied = is_true(step.copied);
        self.copied |= copied;
        match &*source {
            _ if copied => {
                let part = part_of(record);
                let tokens = part.tokens.unwrap_or_default();
                self.of_copies = plus(self.of_copies, (tokens.input, tokens.output, part.cost));
                draft.copied("", &mark);
            }
            "agent" => {
                let part = part_of(record);
                let asked = own.map_or(before, |own| micros(own.began));
                self.end_unknown = !part.calls.is_empty() && ended.is_none();
                self.add(&part, count(step.asked));
                let mark = mark.failed(part.has_failed());
                let n = self.conversation.step(asked, mark, part, draft);
                // The format has no field for the time of the tool results, so this program's own
                // export adds one.
                if let Some(ended) = ended.filter(|ended| Some(*ended) != ts) {
                    draft.event(EventDraft {
                        kind: EventKind::Inside,
                        step: Some(n),
                        note: Some(EventNote::Until(ended)),
                        ..EventDraft::new(&source, None).stage("result")
                    });
                }
            }
            "user" if !draft.has_task() => draft.prompt(Some(&spoken(step.message)), &mark),
            "user" | "system" => {
                draft.event(mark);
            }
            _ => {
                draft.event(mark);
                draft.issue(
                    IssueKind::Field,
                    format!(
                        "unknown source {}, so this isn't counted as a step of the agent",
                        quoted(&cut(&source))
                    ),
                );
            }
        }
        let id = int(step.id);
        if let Some((before, id)) = self
            .id
            .zip(id)
            .filter(|(before, id)| before.checked_add(1) != Some(*id))
        {
            draft.issue(IssueKind::Gap, format!("step_id {id} follows {before}"));
        }
        self.id = id.or(self.id);
    }

    fn add(&mut self, part: &Part, asked: Option<u64>) {
        let tokens = part.tokens.unwrap_or_default();
        let plus = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or_default().saturating_add(more));
            }
        };
        plus(&mut self.read, tokens.input);
        plus(&mut self.of_cache, tokens.cached);
        self.lacks_cached |= tokens.input.is_some() && tokens.cached.is_none();
        plus(&mut self.wrote, tokens.output);
        self.asked = self.asked.saturating_add(asked.unwrap_or(1));
        self.tells_asked |= asked.is_some();
        let has_asked = asked != Some(0);
        self.lacks_tokens |= has_asked && (tokens.input.is_none() || tokens.output.is_none());
        let cost = part.cost.filter(|cost| *cost >= 0.0);
        self.lacks_cost |= has_asked && cost.is_none();
        self.cost = cost
            .map(|cost| cost + self.cost.unwrap_or_default())
            .or(self.cost);
    }

    /// Compares totals for the whole run with the sums over its steps. `who` states the totals. Per
    /// the format they include other agents, and programs may or may not include copied steps. So
    /// totals are never less than the sums over the steps. They are never more either, if
    /// everything they may include is known.
    pub(super) fn compare(&self, who: &str, totals: Spent, draft: &mut Draft<'_>) {
        let children = self.children.len() + self.held.saturating_sub(self.held_by_name);
        // A continuation may also count what the previous file had.
        // This program exports totals that include usage outside any step.
        let is_alone =
            self.goes_on.is_none() && self.index == 0 && !self.is_exported && children <= self.held;
        let [says_read, says_wrote, says_cost] =
            self.held_that_say.map(|say| is_alone && say == self.held);
        let own = (self.read, self.wrote, self.cost);
        let (read, wrote, cost) = plus(plus(own, self.of_copies), self.of_held);
        let tokens = [
            (
                "prompt tokens",
                totals.0,
                own.0,
                read.filter(|_| says_read && !self.lacks_tokens),
            ),
            (
                "completion tokens",
                totals.1,
                own.1,
                wrote.filter(|_| says_wrote && !self.lacks_tokens),
            ),
        ];
        for (what, total, sum, most) in tokens {
            let Some((total, sum)) = total.zip(sum) else {
                continue;
            };
            if total < sum || most.is_some_and(|most| total > most) {
                let words = format!("{who} {total} {what}, but the steps add up to {sum}");
                draft.run().conflicts.push(cut(&words));
                draft.issue(IssueKind::Count, words);
            }
        }
        let Some((total, sum)) = totals.2.zip(own.2.filter(|_| !self.lacks_cost)) else {
            return;
        };
        let differs = |other: f64| !is_same_total("usd", total, other);
        if (total < sum && differs(sum))
            || cost.is_some_and(|most| says_cost && total > most && differs(most))
        {
            draft.issue(
                IssueKind::Count,
                format!("{who} {total} USD, but the steps add up to {sum}"),
            );
            let field = if who.starts_with("result") {
                "result.json"
            } else {
                "final_metrics"
            };
            let stated = [
                total_in("usd", total, field),
                total_in("usd", sum, "the steps' metrics"),
            ];
            draft.run().statements.extend(stated);
        }
    }
}

/// Returns the trial, if the file holds the trajectory of one of its steps:
/// `TRIAL/steps/STEP/agent/trajectory.json`.
fn trial_of(file: &Path) -> Option<&str> {
    let mut names = file
        .ancestors()
        .skip(1)
        .map(|dir| dir.file_name().and_then(OsStr::to_str));
    let is_step = names.next() == Some(Some("agent")) && names.nth(1) == Some(Some("steps"));
    names.next().flatten().filter(|_| is_step)
}

fn agent<'a>(record: &'a str, trial: Option<&str>, draft: &mut Draft<'_>) -> RecordPlace<'a> {
    draft.event(EventDraft::new("agent", None));
    let agent = Agent::of(record);
    let name = filled(agent.name);
    let version = filled(agent.version).map_or_else(String::new, |version| format!(" {version}"));
    let run = draft.run();
    run.tool = name.as_ref().map(|name| cut(&format!("{name}{version}")));
    run.agent = name.map(|name| cut(&name));
    run.model = filled(agent.model).map(|model| cut(&model));
    run.parent = trial.map(cut);
    agent.extra.map(RecordPlace::of).unwrap_or_default()
}

fn version(word: &str, draft: &mut Draft<'_>) {
    let minor = word
        .strip_prefix("ATIF-v1.")
        .and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_none_or(|minor| minor > NEWEST) {
        draft.issue(
            IssueKind::Version,
            format!("unknown version {word}; board supports ATIF-v1.0 to 1.{NEWEST}"),
        );
    }
}

/// Returns the part that a step of the agent holds.
fn part_of(record: &str) -> Part {
    let step = Step::of(record);
    let metrics = step.metrics.map(Metrics::of).unwrap_or_default();
    let reasoning = metrics
        .extra
        .and_then(|extra| count(member(extra, "reasoning_tokens")));
    let calls = step
        .tool_calls
        .into_iter()
        .flat_map(walk::items)
        .map(Call::of);
    let results = step
        .observation
        .map(Observation::of)
        .and_then(|seen| seen.results);
    Part {
        model: filled(step.model),
        thought: filled(step.reasoning).into_iter().collect(),
        text: Some(spoken(step.message))
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect(),
        calls: calls
            .map(|call| CallDraft {
                id: text(call.id).unwrap_or_default(),
                name: text(call.name).unwrap_or_default(),
                args: call.arguments.map(unpacked).unwrap_or_default(),
            })
            .collect(),
        answers: results
            .into_iter()
            .flat_map(walk::items)
            .map(answer)
            .collect(),
        tokens: step.metrics.map(|_| Tokens {
            input: count(metrics.prompt_tokens),
            cached: count(metrics.cached_tokens),
            output: count(metrics.completion_tokens),
            reasoning,
            ..Tokens::default()
        }),
        cost: number(metrics.cost_usd),
        scores: scores(&step),
        ..Part::default()
    }
}

/// Returns the scores of a step. The format has no field for them, so only this program's own
/// export has any.
fn scores(step: &Step<'_>) -> Vec<(String, Option<f64>, Option<String>)> {
    let own = step
        .extra
        .and_then(|extra| member(extra, "board"))
        .map(StepBoard::of);
    let scored = own
        .and_then(|own| own.scores)
        .into_iter()
        .flat_map(walk::items)
        .map(Scored::of);
    scored
        .filter_map(|scored| Some((filled(scored.name)?, number(scored.score), None)))
        .take(MAX_SCORES)
        .collect()
}

/// Reads a tool result. The format has no field for failure, but some programs record it in
/// `extra`.
fn answer(result: &str) -> Answer {
    let result = Outcomes::of(result);
    let extra = result.extra.map(Extra::of).unwrap_or_default();
    let exit = int(extra.exit_code);
    let status = match (extra.is_error, exit) {
        (Some("true"), _) => Some("error"),
        (Some("false"), _) | (None, Some(0)) => Some("success"),
        _ => None,
    };
    let error = (status == Some("error"))
        .then(|| spoken(result.content))
        .filter(|error| !error.is_empty());
    Answer {
        call: text(result.call).unwrap_or_default(),
        status,
        output: unpacked(result.content.unwrap_or("null")),
        error,
        exit,
        ms: None,
    }
}
