//! Collects the facts about a sample's run as a whole: its task, limits, scores and end.

use super::super::ends::{End, ends, name_in};
use super::super::value::{
    above_zero, answer_in, cut, filled, given, int, is_true, leading, limit, member, micros,
    number, short, total_in,
};
use super::part::{self, MAX_SCORES, graded, scores, sums};
use crate::format::Part;
use crate::format::part::text;
use crate::model::json::walk;
use crate::model::step::Usage;
use crate::model::tags::RecordedTags;
use crate::model::time::parse_ts;
use crate::model::words::grouped;
use crate::model::{
    Bound, Can, Capabilities, Certainty, Ended, Format, Manifest, Op, Outcome, RunScore, Statement,
    ToolLimit, Trial,
};

/// What any log can record.
pub(super) const FORMAT: Format = Format {
    name: "Inspect log",
    can: Capabilities {
        state: Can::Partly,
        scores: Can::Yes,
        times: Can::Yes,
        tokens: Can::Partly,
        cost: Can::Partly,
        limits: Can::Partly,
        success: Can::Partly,
        facts: Can::No,
    },
    file: "sample",
    has_exchange: true,
    is_sample: true,
    assemble: Some(part::assembled),
    ..Format::UNKNOWN
};

/// A log without samples, which records no steps.
static LOG_ALONE: Format = Format {
    file: "log",
    has_reply_steps: false,
    is_sample: false,
    ..FORMAT
};

fields! {
    struct Header { status, eval, plan, error, stats, results, invalidated }
    struct Eval { run_id, created, task, model, solver, solver_args, model_generate_config, config, packages, tags }
    struct Packages { inspect_ai }
    struct Plan { steps }
    struct Solver { solver, params }
    struct Stats { started_at, completed_at }
    struct Error { message, traceback }
    struct Limit { reason, message, limit, kind = "type" }
    struct Score { value }
    struct Results { scores }
    struct Scored { name, metrics }
    struct Edit { value, provenance }
    struct Invalidation { author, reason }
}

/// The facts of a sample, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The document with the facts about all samples.
    pub(super) header: Option<String>,
    /// The final scores, and the scores in events for samples without final scores.
    scores: Vec<RunScore>,
    judged: Vec<RunScore>,
    /// Scores edited by a person: the scorer, and a sentence about the edit.
    edits: Vec<(Box<str>, Box<str>)>,
    pub(super) model: Option<Box<str>>,
    grades: Vec<f64>,
    limit: Option<(usize, String)>,
    limit_event: Option<(usize, String)>,
    error: Option<(usize, String)>,
    usage: Option<String>,
    /// The tokens and the cost of the steps that record them, and whether a step lacks them.
    of_steps: (Option<u64>, Option<f64>),
    lacks_tokens: bool,
    lacks_cost: bool,
    /// The tokens of all replies, including those to scorers, and whether a reply lacks them.
    of_replies: Option<u64>,
    lacks_reply: bool,
    /// The output tokens of all replies.
    written: Option<u64>,
    /// Who invalidated the result, and why.
    invalidation: Option<Box<str>>,
    /// The number of failed attempts before this one, and the error of the last one.
    retries: usize,
    retried_after: Box<str>,
    /// Contradictions between the records.
    conflicts: Vec<Box<str>>,
    /// Whether a scorer made a model request. The sample's usage is then not the agent's alone.
    pub(super) was_scored: bool,
    answer: Option<Box<str>>,
    /// The expected answer.
    target: Option<Box<str>>,
    /// The tokens of the requests by scorers, and whether a request lacks them.
    of_graders: Option<u64>,
    lacks_graders: bool,
    id: Option<String>,
    epoch: Option<i64>,
    uuid: Option<Box<str>>,
    started: Option<i64>,
    completed: Option<i64>,
    /// A time of the sample without a UTC offset, as written.
    pub(super) unzoned: Option<String>,
    total_seconds: Option<f64>,
    working_seconds: Option<f64>,
    turns: Option<f64>,
    /// The number of messages in the final conversation.
    messages: u64,
    /// The limits that the sample itself records.
    limits: Vec<(&'static str, f64)>,
    is_whole: bool,
}

/// The last reply of the model.
#[derive(Debug, Default)]
pub(super) struct Last {
    said: Option<Box<str>>,
    finish: String,
    /// Whether it makes tool calls.
    calls: bool,
    /// Whether one of the calls submits the answer.
    submits: bool,
    /// The answer that the call named `submit` submits.
    submitted: Option<String>,
    event: Option<usize>,
}

impl Last {
    /// Creates it from the step's part, its text, and its event.
    pub(super) fn of(
        part: &Part,
        said: Option<Box<str>>,
        event: Option<usize>,
        facts: &Facts,
    ) -> Self {
        // The tool that submits the answer may have another name. Its result is then the answer.
        let is_answer = |output: &str| {
            text(Some(output)).is_some_and(|output| Some(cut(output.trim())) == facts.answer)
        };
        let takes = |id: &str| {
            part.answers
                .iter()
                .any(|answer| answer.call == id && is_answer(&answer.output))
        };
        Self {
            said,
            finish: part.finish.clone().unwrap_or_default(),
            calls: !part.calls.is_empty(),
            submits: part
                .calls
                .iter()
                .any(|call| call.name == "submit" || takes(&call.id)),
            submitted: part
                .calls
                .iter()
                .find(|call| call.name == "submit")
                .and_then(|call| {
                    filled(member(&call.args, "answer")).map(|answer| answer.trim().to_owned())
                }),
            event,
        }
    }
}

/// Names of limits, our units for them, and the factor from Inspect's unit to ours.
const LIMITS: [(&str, &str, f64); 6] = [
    ("message_limit", "messages", 1.0),
    ("token_limit", "tokens", 1.0),
    ("time_limit", "ms", 1e3),
    ("working_limit", "ms", 1e3),
    ("cost_limit", "usd", 1.0),
    ("turn_limit", "turns", 1.0),
];

/// The kinds of limits that end a sample.
const LIMIT_ENDS: &[End] = ends! {
    "message" => Truncated, "Message limit reached";
    "token" => Truncated, "Token limit reached";
    "time" => Truncated, "Time limit reached";
    "working" => Truncated, "Working time limit reached";
    "cost" => Truncated, "Cost limit reached";
    "turn" => Truncated, "Turn limit reached";
    "context" => Failed, Ended::CONTEXT_FULL;
    "operator" => Cancelled, "Stopped by the operator";
    "*" => Truncated, "Stopped by a limit";
};

/// The finish reasons of a last reply that isn't complete.
const FINISHES: &[End] = ends! {
    "max_tokens" => Truncated, Ended::CUT_REPLY;
    "model_length" => Failed, Ended::CONTEXT_FULL;
    "content_filter" => Failed, Ended::REFUSED;
};

/// The statuses of an evaluation without samples.
const STATUSES: &[End] = ends! {
    "success" => Completed, "The evaluation finished, but the log contains no samples";
    "cancelled" => Cancelled, "The evaluation was cancelled";
    "error" => Failed, "The evaluation failed with an error";
};

impl Facts {
    fn time(&mut self, value: &str) -> Option<i64> {
        let stamp = parse_ts(&text(Some(value))?)?;
        if !stamp.zoned {
            self.unzoned = Some(value.to_owned());
        }
        Some(stamp.micros)
    }

    /// Takes a member of the sample. `at` is its event.
    pub(super) fn take(&mut self, key: &str, value: &str, at: Option<usize>) {
        let said = at.map(|at| (at, value.to_owned()));
        match key {
            "scores" => {
                let grades =
                    walk::members(value).filter_map(|(_, score)| graded(Score::of(score).value?));
                self.grades = grades.collect();
                self.scores = scores(value, at);
                self.edits = walk::members(value)
                    .take(MAX_SCORES)
                    .filter_map(|(name, score)| edited(name, score))
                    .collect();
            }
            "limit" => self.limit = said,
            "error" => self.error = said,
            "model_usage" => self.usage = Some(value.to_owned()),
            "invalidation" => {
                self.invalidation = value.starts_with('{').then(|| invalidated(value))
            }
            "error_retries" => {
                self.retries += 1;
                self.retried_after = cut(&filled(Error::of(value).message).unwrap_or_default());
            }
            "output" => self.answer = filled(Some(value)).map(|answer| cut(answer.trim())),
            "target" => self.target = target(value),
            "uuid" => self.uuid = short(Some(value)),
            "id" => {
                self.id = text(Some(value)).or_else(|| int(Some(value)).map(|id| id.to_string()))
            }
            "epoch" => self.epoch = int(Some(value)),
            "started_at" => self.started = self.time(value),
            "completed_at" => self.completed = self.time(value),
            "total_time" => self.total_seconds = number(Some(value)),
            "working_time" => self.working_seconds = number(Some(value)),
            "messages" => self.messages += 1,
            "turn_count" => self.turns = number(Some(value)),
            _ => {
                let limit = LIMITS
                    .iter()
                    .find(|(name, ..)| *name == key)
                    .zip(above_zero(Some(value)));
                self.limits
                    .extend(limit.map(|((name, ..), limit)| (*name, limit)));
            }
        }
        // A sample is written when it's over. Its scores come before its events, and its usage
        // after them.
        self.is_whole |= key == "model_usage";
    }

    /// Takes the scores in an event.
    pub(super) fn judged(&mut self, scores: Vec<RunScore>) {
        for given in scores {
            self.judged.retain(|known| known.name != given.name);
            if self.judged.len() < MAX_SCORES {
                self.judged.push(given);
            }
        }
    }

    /// Takes the event of a limit that ended the sample.
    pub(super) fn limit_event(&mut self, at: usize, record: &str) {
        self.limit_event = Some((at, record.to_owned()));
    }

    /// Adds the usage of a reply, to the agent or to a scorer.
    pub(super) fn asked(&mut self, part: &Part) {
        let wrote = part.tokens.and_then(|tokens| tokens.output);
        self.written = self
            .written
            .into_iter()
            .chain(wrote)
            .reduce(u64::saturating_add);
        match part
            .tokens
            .and_then(|tokens| Some(tokens.input?.saturating_add(tokens.output?)))
        {
            Some(more) => {
                self.of_replies = Some(self.of_replies.unwrap_or_default().saturating_add(more))
            }
            None => self.lacks_reply = true,
        }
    }

    /// Adds the usage of a request by a scorer.
    pub(super) fn graded(&mut self, part: &Part) {
        let tokens = part
            .tokens
            .and_then(|tokens| Some(tokens.input?.saturating_add(tokens.output?)));
        self.lacks_graders |= tokens.is_none();
        let all = self.of_graders.into_iter().chain(tokens);
        self.of_graders = all.reduce(u64::saturating_add);
    }

    /// Adds the recorded usage of a step.
    pub(super) fn step(&mut self, part: &Part) {
        let (tokens, cost) = &mut self.of_steps;
        if let Some(more) = part
            .tokens
            .and_then(|tokens| Some(tokens.input?.saturating_add(tokens.output?)))
        {
            *tokens = Some(tokens.unwrap_or_default().saturating_add(more));
        } else {
            self.lacks_tokens = true;
        }
        if let Some(more) = part.cost {
            *cost = Some(cost.unwrap_or_default() + more);
        } else {
            self.lacks_cost = true;
        }
    }

    /// Sets the facts of the run. `latest` is the newest time of an event.
    pub(super) fn tell(&mut self, last: Last, latest: Option<i64>, run: &mut Manifest) {
        let header = self.header.take().unwrap_or_default();
        let header = Header::of(&header);
        let eval = header.eval.map(Eval::of).unwrap_or_default();
        let stats = header.stats.map(Stats::of).unwrap_or_default();
        // A member of an archive is a sample, even if it's unreadable.
        let is_sample = run.is_closed
            || self.id.is_some()
            || self.uuid.is_some()
            || self.is_whole
            || latest.is_some();
        // The log of a finished evaluation was written at its end.
        run.is_closed |= matches!(
            text(header.status).as_deref(),
            Some("success" | "cancelled" | "error")
        );
        let of_log = || {
            let id = [
                filled(eval.run_id),
                self.id.clone(),
                self.epoch.map(|epoch| epoch.to_string()),
            ];
            Some(id.into_iter().flatten().collect::<Vec<_>>().join("/")).filter(|id| !id.is_empty())
        };
        let tags = RecordedTags::of(
            eval.tags
                .into_iter()
                .flat_map(walk::items)
                .filter_map(walk::string),
        );
        run.notes.extend(
            tags.left_out_words()
                .map(|words| format!("{words}.").into()),
        );
        run.tags = tags.kept;
        run.invalidation = self.invalidation.take();
        let is_invalidated = is_true(header.invalidated) && run.invalidation.is_none();
        run.notes.extend(
            is_invalidated
                .then(|| "The log is marked as invalidated, but this sample isn't.".into()),
        );
        run.notes.extend(self.retried());
        run.run_id = self.uuid.take().or_else(|| of_log().map(|id| cut(&id)));
        run.model = short(eval.model).or(self.model.take());
        let last_solver = last_solver(header.plan);
        run.trial = is_sample.then(|| {
            // If the log names no agent, it's the last solver of the plan.
            let args = if filled(eval.solver).is_some() {
                eval.solver_args
            } else {
                last_solver.params
            };
            Box::new(Trial {
                task_set: short(eval.task),
                task_id: self.id.as_deref().map(cut),
                repeat: self.epoch,
                target: self.target.take(),
                set_results: set_results(header.results),
                agent_args: given(args),
                model_options: given(eval.model_generate_config),
                messages: self.counted_messages(),
            })
        });
        run.agent = filled(eval.solver)
            .or_else(|| filled(last_solver.solver))
            .map(|agent| cut(&agent));
        let version = eval
            .packages
            .map(Packages::of)
            .and_then(|packages| filled(packages.inspect_ai));
        run.tool = Some(cut(&format!("Inspect {}", version.unwrap_or_default())))
            .map(|tool| tool.trim_end().into());
        let (tokens, usage, cost) = self.used();
        // Events contain the sample's scores too, but without the scorers' names.
        let judged = std::mem::take(&mut self.judged);
        self.compare_scores(&judged);
        run.notes.extend(
            std::mem::take(&mut self.edits)
                .into_iter()
                .map(|(_, words)| words),
        );
        run.scores = if self.scores.is_empty() {
            judged
        } else {
            std::mem::take(&mut self.scores)
        };
        run.grader_tokens = self
            .of_graders
            .filter(|tokens| *tokens > 0 && !self.lacks_graders);
        run.tokens = tokens.filter(|tokens| *tokens > 0);
        run.usage = usage;
        run.cost_usd = cost.filter(|cost| *cost > 0.0);
        run.statements = self.totals();
        run.limits = self.limits_of(eval.config, tokens, cost);
        run.started_at = self.started;
        run.latency_s = self.total_seconds.filter(|seconds| *seconds >= 0.0);
        if !is_sample {
            (run.started_at, run.updated_at) =
                (micros(stats.started_at), micros(stats.completed_at));
            run.ended = log_ended(&header).map(Box::new);
            run.format = &LOG_ALONE;
            return;
        }
        run.ended = self
            .ended(&last, text(header.status).as_deref() == Some("success"))
            .map(Box::new);
        run.conflicts = std::mem::take(&mut self.conflicts);
        run.updated_at = self.completed.or(latest).filter(|_| run.ended.is_some());
        // The sample's completion is the last reply, whatever it contains.
        let is_answer = run
            .ended
            .as_ref()
            .is_some_and(|end| end.outcome == Outcome::Completed);
        let answer = self.answer.take();
        let submitted = last.submitted.as_deref().map(cut).filter(|_| is_answer);
        // A program may add text around it.
        let is_other = answer
            .as_ref()
            .zip(submitted.as_ref())
            .is_some_and(|(a, b)| !a.contains(&**b) && !b.contains(&**a));
        run.final_result = if is_other {
            None
        } else {
            answer.clone().or(last.said).filter(|_| is_answer)
        };
        if let Some((answer, submitted)) = answer.zip(submitted).filter(|_| is_other) {
            run.statements.extend([
                answer_in("output.completion", answer),
                answer_in("the submit call", submitted),
            ]);
        }
        let grades = std::mem::take(&mut self.grades);
        // For grades between the two, it isn't recorded which are good.
        let clear = !grades.is_empty() && grades.iter().all(|grade| *grade == 0.0 || *grade == 1.0);
        run.success =
            (clear && run.invalidation.is_none()).then(|| grades.iter().all(|grade| *grade == 1.0));
    }

    /// Compares the scores of the sample with those in events. Events of older versions name no
    /// scorer.
    fn compare_scores(&mut self, judged: &[RunScore]) {
        let says = |given: &RunScore| {
            given
                .score
                .map(|score| score.to_string())
                .or_else(|| given.grade.as_deref().map(str::to_owned))
        };
        let only = |scores: &[RunScore]| {
            if let [only] = scores {
                says(only)
            } else {
                None
            }
        };
        let mut found: Vec<String> = Vec::new();
        for given in &self.scores {
            let named = judged
                .iter()
                .find(|event| event.name == given.name)
                .and_then(says);
            let event = named.or_else(|| only(judged).filter(|_| self.scores.len() == 1));
            let is_edited = self.edits.iter().any(|(name, _)| *name == given.name);
            if let Some((own, event)) = says(given)
                .zip(event)
                .filter(|(own, event)| own != event && !is_edited)
            {
                found.push(format!(
                    "The sample has the score {own} by {}, but the score event records {event}",
                    given.name
                ));
            }
        }
        self.conflicts
            .extend(found.into_iter().map(|words| cut(&words)));
    }

    /// Describes how often the sample was retried, and why.
    fn retried(&self) -> Option<Box<str>> {
        let times = if self.retries == 1 {
            "once".to_owned()
        } else {
            format!("{} times", self.retries)
        };
        let after = if self.retries == 1 {
            "after an error"
        } else {
            "after errors. The last one was:"
        };
        let words = self.retried_after.trim().trim_end_matches('.');
        let sep = if self.retries == 1 { ": " } else { " " };
        (self.retries > 0)
            .then(|| format!("The sample was retried {times} {after}{sep}{words}.").into())
    }

    /// The tokens, usage and cost that the sample records for all models.
    fn recorded(&self) -> (Option<u64>, Usage, Option<f64>) {
        let each = self
            .usage
            .as_deref()
            .into_iter()
            .flat_map(walk::members)
            .map(|(_, usage)| sums(usage));
        // A sum is unknown if any model lacks the value.
        let both = |one: (Option<u64>, Usage, Option<f64>),
                    more: (Option<u64>, Usage, Option<f64>)| {
            let tokens = one
                .0
                .zip(more.0)
                .map(|(one, more)| one.saturating_add(more));
            (
                tokens,
                one.1.plus(more.1),
                one.2.zip(more.2).map(|(one, more)| one + more),
            )
        };
        each.reduce(both).unwrap_or_default()
    }

    /// Returns the totals that the sample and its replies record. The sample's usage includes
    /// scorers and failed attempts.
    fn totals(&self) -> Vec<Statement> {
        if self.was_scored || self.retries > 0 {
            return Vec::new();
        }
        let (_, usage, cost) = self.recorded();
        let (_, replies) = self.of_steps;
        let pair = |unit, recorded: Option<f64>, replies: Option<f64>| {
            let pair = recorded
                .zip(replies)
                .filter(|(recorded, replies)| *recorded > 0.0 || *replies > 0.0);
            let stated = move |(recorded, replies)| {
                [
                    total_in(unit, recorded, "model_usage"),
                    total_in(unit, replies, "the sum of the replies"),
                ]
            };
            pair.into_iter().flat_map(stated)
        };
        let wrote = |tokens: Option<u64>| tokens.map(|tokens| tokens as f64);
        let cost = pair("usd", cost, replies.filter(|_| !self.lacks_cost));
        cost.chain(pair(
            "tokens_out",
            wrote(usage.output),
            wrote(self.written.filter(|_| !self.lacks_reply)),
        ))
        .collect()
    }

    /// Returns the difference between the sample's total and the sum of its replies.
    pub(super) fn differences(&mut self) -> Option<String> {
        let (total, replies) = self
            .recorded()
            .0
            .zip(self.of_replies.filter(|_| !self.lacks_reply))?;
        // A failed attempt may have used tokens, and has no events here.
        let is_more = total > replies && self.retries == 0;
        if total == replies {
            return None;
        }
        // For all formats, a total below the sum of the steps is reported elsewhere.
        if is_more || self.was_scored {
            let (total, replies) = (grouped(total), grouped(replies));
            let words = format!(
                "model_usage records {total} tokens, but the sample's replies add up to {replies}"
            );
            self.conflicts.push(words.into());
        }
        let (total, replies) = (grouped(total), grouped(replies));
        Some(format!(
            "model_usage records {total} tokens, but the replies add up to {replies}"
        ))
    }

    /// Returns the tokens, the usage and the cost: those that the sample records for all models if
    /// only the agent used them, otherwise those of the steps.
    fn used(&self) -> (Option<u64>, Usage, Option<f64>) {
        let (tokens, cost) = self.of_steps;
        // If a step lacks its usage, the sum of the others isn't the run's.
        let (tokens, cost) = (
            tokens.filter(|_| !self.lacks_tokens),
            cost.filter(|_| !self.lacks_cost),
        );
        if self.was_scored {
            return (tokens, Usage::default(), cost);
        }
        let recorded = self.recorded();
        match recorded.0 {
            Some(_) => (recorded.0, recorded.1, recorded.2.or(cost)),
            None => (tokens, Usage::default(), recorded.2.or(cost)),
        }
    }

    fn limits_of(
        &self,
        config: Option<&str>,
        tokens: Option<u64>,
        cost: Option<f64>,
    ) -> Vec<ToolLimit> {
        let of_log = |name: &str| config.and_then(|config| above_zero(member(config, name)));
        let named = |(name, unit, scale): &(&'static str, &'static str, f64)| {
            let own = self
                .limits
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, limit)| *limit);
            // The limit that ended the sample may not be configured anywhere.
            let own = own
                .or_else(|| of_log(name))
                .or_else(|| self.limit_of_end(name))?;
            let used = self.used_of(name, tokens, cost).map(|used| used * scale);
            let limit = limit(name, Some(own * scale), unit, used)?;
            // If a model scored the sample, only the steps are known to be the agent's.
            let is_part = self.was_scored && matches!(*unit, "tokens" | "usd");
            let limit = limit.bounded(if is_part {
                Bound::AtLeast
            } else {
                Bound::Exact
            });
            Some(if *name == "token_limit" {
                limit.compared(Op::Above)
            } else {
                limit
            })
        };
        LIMITS.iter().filter_map(named).collect()
    }

    /// Returns impossible times of the sample, with the reasons.
    pub(super) fn odd_times(&self) -> [(Option<f64>, &'static str); 4] {
        let between = self
            .started
            .zip(self.completed)
            .and_then(|(started, completed)| completed.checked_sub(started));
        let idle = self
            .total_seconds
            .zip(self.working_seconds)
            .map(|(total, working)| total - working);
        [
            (
                self.total_seconds,
                "total_time is negative, so it is ignored",
            ),
            (self.working_seconds, "working_time is negative"),
            (
                between.map(|micros| micros as f64 / 1e6),
                "the sample's recorded completion is before its start",
            ),
            // Both are rounded.
            (
                idle.map(|idle| idle + 0.1),
                "working_time is longer than total_time",
            ),
        ]
    }

    /// Returns how much of a limit the sample used.
    fn used_of(&self, name: &str, tokens: Option<u64>, cost: Option<f64>) -> Option<f64> {
        match name {
            "token_limit" => tokens.map(|tokens| tokens as f64),
            "time_limit" => self.total_seconds,
            "working_limit" => self.working_seconds,
            "cost_limit" => cost,
            "turn_limit" => self.turns,
            "message_limit" => self.counted_messages().map(|count| count as f64),
            _ => None,
        }
    }

    /// Returns the limit of this name, if it's recorded as the one that ended the sample.
    fn limit_of_end(&self, name: &str) -> Option<f64> {
        let (_, record) = self.limit.as_ref().or(self.limit_event.as_ref())?;
        let of = Limit::of(record);
        let is_own = text(of.kind).is_some_and(|kind| name.strip_suffix("_limit") == Some(&*kind));
        above_zero(of.limit).filter(|_| is_own)
    }

    /// Returns the number of messages, if the log contains those of the finished sample.
    fn counted_messages(&self) -> Option<u64> {
        Some(self.messages).filter(|count| self.is_whole && *count > 0)
    }

    fn ended(&mut self, last: &Last, is_success: bool) -> Option<Ended> {
        let mut told: Vec<(&str, Ended)> = Vec::new();
        told.extend(self.failed().map(|end| ("sample.error", end)));
        if let Some((at, limit)) = self.limit.clone() {
            let end = self.stopped(&limit).map(|end| end.at_event(at));
            told.extend(end.map(|end| ("sample.limit", end)));
        }
        // A program may catch the exception of a limit and continue. So the event alone counts only
        // if nothing else ended the sample.
        if let Some((at, event)) = self
            .limit_event
            .clone()
            .filter(|_| self.limit.is_some() || told.is_empty())
        {
            let end = self.stopped(&event).map(|end| end.at_event(at));
            told.extend(end.map(|end| ("the sample_limit event", end)));
        }
        if let Some((end, conflict)) = Ended::agreed(told) {
            self.conflicts.extend(conflict);
            return Some(end);
        }
        // A sample is written when it's over.
        self.is_whole.then(|| self.concluded(last, is_success))
    }

    /// Returns the error that ended the sample.
    fn failed(&self) -> Option<Ended> {
        let (at, error) = self.error.as_ref()?;
        let message = filled(Error::of(error).message).unwrap_or_default();
        let raised = End::raised(name_in(message.trim()));
        let end = raised.unwrap_or_else(|| End::error("")).at_event(*at);
        Some(match end.outcome {
            Outcome::Cancelled => end.word("cancelled"),
            _ => end.word("error").detail(cut(message.trim())),
        })
    }

    /// Returns the end of a sample without an error or limit. No record states the outcome.
    fn concluded(&self, last: &Last, is_success: bool) -> Ended {
        let none = |word| {
            Ended::new(
                word,
                "Ended without an answer",
                Outcome::Unknown,
                Certainty::Inferred,
            )
        };
        let event = last.event;
        match End::of(FINISHES, &last.finish) {
            Some(end) if !last.submits => Ended { event, ..end },
            _ if last.calls && !last.submits => none(Ended::WITH_CALLS),
            _ if event.is_none() && self.answer.is_none() => none(Ended::WITHOUT_REPLY),
            _ if is_success => Ended::answered(Ended::UNBROKEN),
            // If the log's status isn't success, only the last reply shows the end.
            _ if last.submits => Ended::answered("submit"),
            _ if last.finish.is_empty() => Ended::answered(Ended::NO_CALLS),
            _ => Ended::answered(&last.finish),
        }
    }

    fn stopped(&mut self, limit: &str) -> Option<Ended> {
        let of = Limit::of(limit);
        // Older versions record the amount only in the event.
        let in_event = self
            .limit_event
            .as_ref()
            .and_then(|(_, event)| filled(Limit::of(event).message));
        let reason = filled(of.reason)
            .or_else(|| filled(of.message))
            .or(in_event)
            .unwrap_or_default();
        let kind = text(of.kind).unwrap_or_default();
        let end = End::of(LIMIT_ENDS, &kind)?.detail(cut(&reason));
        let name = format!("{kind}_limit");
        let Some((name, unit, scale)) = LIMITS.iter().find(|(known, ..)| *known == name) else {
            return Some(end);
        };
        let in_words = |word: &str| leading(reason.split_once(word)?.1).map(|n| n * scale);
        let measured = in_words("value:").or_else(|| in_words("count:"));
        let end = end.at(&[("", name)]);
        let (limit, worded) = (number(of.limit).map(|n| n * scale), in_words("limit:"));
        if let Some((limit, worded)) = limit.zip(worded).filter(|(limit, worded)| limit != worded) {
            let words = format!(
                "limit.limit records a limit of {limit} {unit}, but limit.reason records {worded}"
            );
            if !self.conflicts.iter().any(|known| **known == words) {
                self.conflicts.push(words.as_str().into());
            }
            return Some(end.detail(words).compare(measured, None, unit));
        }
        Some(end.compare(measured, limit.or(worded), unit))
    }
}

/// Metrics of a log that are kept, at most.
const MAX_METRICS: usize = 8;

/// Returns the metrics of all samples in a log, in words. With several scorers, each metric follows
/// the name of its scorer.
fn set_results(results: Option<&str>) -> Option<Box<str>> {
    let scores = results.and_then(|results| Results::of(results).scores)?;
    let scores: Vec<Scored<'_>> = walk::items(scores)
        .take(MAX_METRICS)
        .map(Scored::of)
        .collect();
    let is_one = scores.len() < 2;
    let metrics = scores.iter().flat_map(|scored| {
        let scorer = filled(scored.name).filter(|_| !is_one);
        let metrics = scored.metrics.into_iter().flat_map(walk::members);
        metrics.filter_map(move |(name, metric)| {
            let value = number(Score::of(metric).value)?;
            let names = [scorer.clone(), text(Some(name))];
            let names: Vec<String> = names.into_iter().flatten().collect();
            Some(format!("{} {value:.2}", names.join(" ")))
        })
    });
    let metrics: Vec<String> = metrics.take(MAX_METRICS).collect();
    (!metrics.is_empty()).then(|| cut(&metrics.join(", ")))
}

/// Returns the expected answer: a text, or several in a list.
fn target(value: &str) -> Option<Box<str>> {
    let words = match text(Some(value)) {
        Some(words) => words.trim().to_owned(),
        None => {
            let each = walk::items(value).take(MAX_SCORES);
            let each = each.filter_map(|one| filled(Some(one)));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    (!words.is_empty()).then(|| cut(&words))
}

/// Returns the scorer of an edited score, and a sentence about who edited it and why. The newest
/// edit counts.
fn edited(name: &str, score: &str) -> Option<(Box<str>, Box<str>)> {
    let edits = member(score, "history")
        .into_iter()
        .flat_map(walk::items)
        .map(Edit::of);
    let (before, last) = edits.fold((None, None), |(_, last), edit| (last, Some(edit)));
    let (before, last): (Option<Edit<'_>>, Edit<'_>) = (before, last?);
    let by = Invalidation::of(last.provenance.filter(|by| by.starts_with('{'))?);
    let name = text(Some(name)).unwrap_or_default();
    let who = filled(by.author).map_or_else(String::new, |author| format!(" by {author}"));
    let why = filled(by.reason).map_or_else(String::new, |reason| {
        format!(": {}", reason.trim_end_matches('.'))
    });
    let word = |value: &str| text(Some(value)).unwrap_or_else(|| value.to_owned());
    let change = before.and_then(|before| before.value).zip(last.value);
    let change = change.map_or_else(String::new, |(a, b)| {
        format!(" from {} to {}", word(a), word(b))
    });
    Some((
        cut(&name),
        cut(&format!(
            "The score of {name} was edited{change}{who}{why}."
        )),
    ))
}

/// Describes who invalidated a sample, and why.
fn invalidated(record: &str) -> Box<str> {
    let Invalidation { author, reason, .. } = Invalidation::of(record);
    let by = filled(author).map_or_else(String::new, |author| format!(" by {author}"));
    let why = filled(reason).map_or_else(String::new, |reason| {
        format!(": {}", reason.trim_end_matches('.'))
    });
    cut(&format!("invalidated{by}{why}"))
}

/// Returns the end of an evaluation without samples.
fn log_ended(header: &Header<'_>) -> Option<Ended> {
    let end = End::of(STATUSES, &text(header.status)?)?;
    let error = header.error.filter(|_| end.outcome == Outcome::Failed);
    let error = error.map(Error::of).unwrap_or_default();
    Some(end.detail(cut(&filled(error.message).unwrap_or_default())))
}

fn last_solver(plan: Option<&str>) -> Solver<'_> {
    let steps = plan
        .and_then(|plan| Plan::of(plan).steps)
        .unwrap_or_default();
    walk::items(steps)
        .last()
        .map(Solver::of)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_text_or_several() {
        for (recorded, told) in [
            (r#"" Yes""#, Some("Yes")),
            (r#"["bike", "bicycle"]"#, Some("bike, bicycle")),
            (r#""""#, None),
            ("[]", None),
            ("null", None),
            (r#"{"a": 1}"#, None),
        ] {
            assert_eq!(target(recorded).as_deref(), told, "{recorded}");
        }
        let long = format!("\"{}\"", "x".repeat(100_000));
        assert!(target(&long).is_some_and(|words| words.len() < 1_000));
    }

    #[test]
    fn the_metrics_of_a_log_name_their_scorers_if_there_are_several() {
        let metrics =
            r#"{"accuracy": {"value": 0.75}, "stderr": {"value": 0.25}, "odd": {"value": null}}"#;
        let one = format!(r#"{{"scores": [{{"name": "match", "metrics": {metrics}}}]}}"#);
        let words = |results: &str| set_results(Some(results)).map(String::from);
        assert_eq!(words(&one).as_deref(), Some("accuracy 0.75, stderr 0.25"));
        let two = r#"{"scores": [{"name": "a", "metrics": {"mean": {"value": 1}}},
            {"name": "b", "metrics": {"mean": {"value": 0}}}]}"#;
        assert_eq!(words(two).as_deref(), Some("a mean 1.00, b mean 0.00"));
        assert_eq!(words("null"), None);
        assert_eq!(words(r#"{"scores": []}"#), None);
    }
}
