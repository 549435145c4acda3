//! Summarizes a run as one row of facts for the run table, using only the index.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::call_times::{CallTimes, ToolSum, tool_sums};
use super::compact::{Blank, Seldom, Shared};
use super::copies::{CopiedPart, Fingerprint, Related, Relation, SeparateChildren, ThreadBefore};
use super::failures::{RunFailure, failures_of_run};
use super::format;
use super::life::{ExternalFacts, Life, life};
use super::ordinals::kept_of_all;
use super::stated::{cost_usd, tokens, total};
use super::verdict::{RunStatus, Verdict, deciding, is_part_of_reward, verdict};
use super::{
    health,
    life::Liveness,
    lost,
    newest::{are_steps_unknown, copied, kept_answer, newest_run},
    timing::{own_least_ms, own_ms},
};
use crate::model::failure::FailureTally;
use crate::model::index::{Distinct, Group, QUARTER, RunTally, SpentKey};
use crate::model::price::{KindCosts, Prices, RequestSize};
use crate::model::step::Usage;
use crate::model::{Can, Certainty, Copied, Earlier, EventKind, Index, Outcome, RunKey, RunScore};

#[cfg(test)]
mod tests;

/// The facts about a run that lists, search and headers need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The run's name in board. Not stored, since it depends on how the roots are named.
    #[serde(skip, default = "unnamed")]
    pub key: RunKey,
    /// The directory, as the user would type it. Not stored either.
    #[serde(skip, default = "no_path")]
    pub path: Arc<str>,
    /// The recorded run id.
    pub run_id: Option<Box<str>>,
    /// Whether the run is alive.
    pub life: Life,
    /// Why it stopped.
    pub verdict: Verdict,
    /// The number of segments: how often a writer began to write into the directory.
    pub segments: usize,
    /// How many of the last segments form the newest run, because it was resumed. All fields below
    /// describe that run.
    pub parts: usize,
    /// Step lines that are valid JSON.
    pub steps: usize,
    /// Event lines that are valid JSON.
    pub events: usize,
    /// All step lines, as counted by the step limit.
    pub steps_now: usize,
    /// Whether the number of steps is unknown: the records don't show where each step begins, some
    /// steps have no line, or some lines aren't steps.
    pub steps_unknown: bool,
    /// Tokens, if recorded.
    pub tokens: Option<u64>,
    /// Whether any of the tokens are known to be estimates.
    pub tokens_estimated: bool,
    /// Steps that don't record their tokens, if that makes the tokens of the run a lower bound or
    /// unknown.
    pub tokens_unknown: usize,
    /// Steps that don't record their tokens, whether or not the run records a total.
    pub steps_without_tokens: usize,
    /// The tokens by model and time. The cost can be estimated from them.
    pub spent: ThinVec<Spent>,
    /// The prices for an estimate. Not stored, since the user may change them.
    #[serde(skip)]
    pub prices: Option<Arc<Prices>>,
    /// The run time in milliseconds: the writer's figure, or else the time from the first to the
    /// last event.
    pub duration_ms: Option<f64>,
    /// The lowest score of the whole run, or else of the last step with a score.
    pub last_score: Option<f64>,
    /// The critics' names, in order of appearance.
    pub critics: ThinVec<String>,
    /// The tools' names, in order of appearance.
    pub tools: ThinVec<String>,
    /// The calls of each of these tools.
    pub tool_sums: ThinVec<ToolSum>,
    /// How long the calls of these tools took. Empty until the run is over, because each update would
    /// walk all its steps.
    pub call_times: CallTimes,
    /// The run's model and those of its steps, if there are several.
    pub models: ThinVec<String>,
    /// The agents' names, in order of appearance.
    pub agents: ThinVec<String>,
    /// The model's name.
    pub model: Option<Shared>,
    /// The text of the task.
    pub task: Option<Box<str>>,
    /// The answer.
    pub answer: Option<Box<str>>,
    /// The name of the trace's format.
    pub format: Shared,
    /// Whether the run is identified by its task, because its name doesn't describe it.
    pub is_session: bool,
    /// The program that wrote the trace, with its version.
    pub tool: Option<Shared>,
    /// Whether each step is one reply of the model.
    pub steps_are_replies: bool,
    /// The scores given to the whole run, by who gave them.
    pub scores: ThinVec<GivenScore>,
    /// Whether the run succeeded, if recorded.
    pub success: Option<bool>,
    /// The tokens by kind, as far as known.
    pub usage: Seldom<Usage>,
    /// The number of model replies.
    pub model_calls: Option<u64>,
    /// The number of tool calls requested.
    pub tool_calls: Option<u64>,
    /// The number of failed tool calls.
    pub tool_errors: Option<u64>,
    /// The start time, in microseconds since the epoch.
    pub started: Option<i64>,
    /// The newest recorded time, or else the newest file modification; microseconds since the
    /// epoch.
    pub updated: Option<i64>,
    /// The number of issues in the files, and how many of them lost data.
    pub issues: (usize, usize),
    /// Steps in which something failed, according to lines and events.
    pub errors: usize,
    /// How many of them are only lines that can't be read, which may not have failed.
    pub errors_unread: usize,
    /// These steps by message, in the order of their first steps, and what ended the run.
    pub failures: ThinVec<RunFailure>,
    /// Whether lines or events that may contain more such steps are missing.
    pub errors_unknown: bool,
    /// Whether the events file is missing.
    pub events_unknown: bool,
    /// Whether the reader has more bytes to index, so that all counts are lower bounds.
    pub partial: bool,
    /// The data that the run shares with its copies.
    pub fingerprint: Fingerprint,
    /// Its tags, in alphabetical order: those that it records, and those that it was given. Not
    /// stored, since the user may change them.
    #[serde(skip)]
    pub tags: ThinVec<String>,
    /// How the run relates to others with the same records. Not stored, since that depends on them.
    #[serde(skip)]
    pub relation: Related,
    /// The facts that few runs have. Readers of a summary find them as if they were its own fields.
    pub rare: Seldom<RareFacts>,
}

/// The facts of a [`Summary`] that few runs have. They take memory only if there are any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RareFacts {
    /// The status in the manifest.
    pub status: Option<String>,
    /// The failed steps that are in none of the failures.
    pub failures_left_out: usize,
    /// Step lines that are replies of sub-agents rather than the run's own.
    pub steps_nested: usize,
    /// Whether the tokens are those of a whole thread, including the runs that this one continues,
    /// if any.
    pub tokens_of_thread: bool,
    /// The cost in US dollars, if recorded.
    pub cost_usd: Option<f64>,
    /// The cost in US dollars that the run itself estimated from its own prices.
    pub cost_by_run_usd: Option<f64>,
    /// If a clock went back and the run time is unknown: the time from the first to the last event
    /// in milliseconds, a lower bound.
    pub duration_at_least_ms: Option<f64>,
    /// The lowest score of each step that has one, downsampled.
    pub spark: ThinVec<f64>,
    /// The state keys that steps changed.
    pub changed: ThinVec<String>,
    /// The titles of the session, the preferred one first.
    pub titles: ThinVec<String>,
    /// The first line of the task, if the program wrote the same text before it in each run.
    pub task_line: Option<Box<str>>,
    /// The tags that the run itself records.
    pub recorded_tags: ThinVec<String>,
    /// The run that started this one, or from which it was forked.
    pub parent: Option<Box<str>>,
    /// Other ids than the run's, by which files with records of the same session find each other.
    pub shared_ids: ThinVec<Box<str>>,
    /// The run whose thread this one continues in a separate file.
    pub continues: Option<Box<str>>,
    /// The fork point: how many steps at the start are the parent's.
    pub branched_after: Option<u64>,
    /// The directory in which the agent worked.
    pub project: Option<String>,
    /// The number of user prompts that the run responds to.
    pub turns: Option<u64>,
    /// The number of child runs.
    pub children: Option<u64>,
    /// The ids of the child runs, as far as the run's own records name them.
    pub child_ids: ThinVec<String>,
    /// Whether the recorded totals include the child runs.
    pub totals_with_children: bool,
    /// Whether the recorded cost includes that of the child runs.
    pub cost_with_children: bool,
    /// The ids of the child runs whose cost is included although they record it too.
    pub paid_children: ThinVec<String>,
    /// The token total that another tool recorded for the whole run.
    pub total: Option<u64>,
    /// Whether that record states what may explain a difference from the steps.
    pub total_explained: bool,
    /// The answer that the task expects, if recorded.
    pub target: Option<Box<str>>,
    /// The answer that was scored, if a score names it.
    pub scored_answer: Option<Box<str>>,
    /// The sample that the run is, if it's one of an evaluation.
    pub sample: Option<Box<Sample>>,
    /// The tokens of the requests that graders made to models. They aren't among the run's tokens.
    pub grader_tokens: Option<u64>,
    /// Who invalidated the result, and why.
    pub invalidation: Option<String>,
    /// The number of files that tools changed, as far as the trace shows.
    pub files_changed: Option<u64>,
    /// The paths of the first files among them: at most 64 and 4 KiB.
    pub files_edited: ThinVec<String>,
    /// The usage of the copied steps at the start of the run. It's not included in the fields
    /// above.
    pub copied: Option<CopiedPart>,
    /// The records at the start that are copied from another run and aren't steps of this one.
    pub copied_records: Option<Copied>,
    /// The hash of the prompt.
    pub prompt_hash: Option<Box<str>>,
    /// The last score of each critic, and the scores of the whole run, as far as they're numbers.
    pub critic_scores: ThinVec<CriticScore>,
}

/// A sample of an evaluation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The name of the evaluation's task.
    pub task: Option<Box<str>>,
    /// The id of the sample.
    pub id: Option<Box<str>>,
    /// The number of this run among those of the sample, if recorded.
    pub epoch: Option<i64>,
    /// The metrics over all samples of the log, in words.
    pub results: Option<Box<str>>,
}

impl Sample {
    /// Returns the sample that a run is.
    fn of(index: &Index) -> Option<Box<Self>> {
        let manifest = index.manifest().get()?;
        let trial = manifest
            .trial
            .as_deref()
            .filter(|_| manifest.format.is_sample)?;
        Some(Box::new(Self {
            task: trial.task_set.clone(),
            id: trial.task_id.clone(),
            epoch: trial.repeat,
            results: trial.set_results.clone(),
        }))
    }

    /// Returns the name of the evaluation's task without its package.
    pub fn task_name(&self) -> Option<&str> {
        let name = self
            .task
            .as_deref()?
            .trim_end_matches('/')
            .rsplit('/')
            .next();
        name.filter(|name| !name.is_empty())
    }

    /// Returns the words that name the sample: the task without its package, the id and the epoch.
    pub fn words(&self) -> Vec<String> {
        let words = |(term, value): (&str, String)| match term {
            "eval" => value,
            term => format!("{term} {value}"),
        };
        self.named().map(words).collect()
    }

    /// Returns the same as terms and values.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, String)> {
        let task = self.task_name().map(|task| ("eval", task.to_owned()));
        let id = self.id.as_deref().map(|id| ("sample", id.to_owned()));
        let epoch = self.epoch.map(|epoch| ("epoch", epoch.to_string()));
        [task, id, epoch].into_iter().flatten()
    }
}

impl Blank for RareFacts {
    fn blank() -> &'static Self {
        static BLANK: LazyLock<RareFacts> = LazyLock::new(RareFacts::default);
        &BLANK
    }
}

impl Blank for Usage {
    fn blank() -> &'static Self {
        static BLANK: Usage = Usage {
            input: None,
            cached: None,
            output: None,
            reasoning: None,
            written: None,
            written_1h: None,
        };
        &BLANK
    }
}

impl Deref for Summary {
    type Target = RareFacts;

    fn deref(&self) -> &RareFacts {
        &self.rare
    }
}

impl DerefMut for Summary {
    fn deref_mut(&mut self) -> &mut RareFacts {
        &mut self.rare
    }
}

/// A score given to the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenScore {
    /// Who or what gave the score.
    pub name: String,
    /// The number or grade, formatted; `None` if neither is recorded.
    pub value: Option<String>,
}

/// A critic's last score, or a score of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriticScore {
    /// Who or what gave the score.
    pub name: String,
    /// The score.
    pub score: f64,
}

impl GivenScore {
    fn of(given: &RunScore) -> Self {
        let grade = || given.grade.as_deref().map(str::to_owned);
        Self {
            name: given.name.to_string(),
            value: given.score.map(format::score).or_else(grade),
        }
    }
}

/// Limits the contradictions between copies that are added to a run's own.
const MAX_DENIED: usize = 20;
/// Limits the scores kept for a run.
const MAX_SCORES: usize = 100;
/// The number of last steps that are searched for a critic's last score.
const MAX_SCORED_STEPS: usize = 10_000;

/// Returns the last score of each critic, and the scores of the whole run. The latter win.
fn critic_scores<'a>(
    index: &Index,
    given: impl Iterator<Item = &'a RunScore>,
) -> ThinVec<CriticScore> {
    let mut found: ThinVec<CriticScore> = ThinVec::new();
    let mut add = |name: &str, score: Option<f64>| {
        let score = score.filter(|score| score.is_finite());
        let is_new = found.len() < MAX_SCORES && found.iter().all(|known| known.name != name);
        if let Some(score) = score.filter(|_| is_new) {
            let name = name.to_owned();
            found.push(CriticScore { name, score });
        }
    };
    given.for_each(|given| add(&given.name, given.score));
    let mut missing: Vec<_> = index.tally().run.critics.iter().collect();
    for (_, step) in newest_run(index).rev().take(MAX_SCORED_STEPS) {
        if missing.is_empty() {
            break;
        }
        for mark in step
            .critics
            .iter()
            .rev()
            .filter(|mark| mark.score.is_some())
        {
            if let Some(at) = missing.iter().position(|symbol| *symbol == mark.name) {
                missing.swap_remove(at);
                add(index.name(mark.name), mark.score);
            }
        }
    }
    found
}

/// The usage of the steps of one model in a quarter of an hour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The model.
    pub model: Shared,
    /// When the steps began, in quarters of an hour since the epoch, if recorded.
    pub quarter: Option<i32>,
    /// The size of the requests.
    pub size: RequestSize,
    /// Whether the steps record their cost.
    pub is_paid: bool,
    /// Steps that don't record their tokens.
    pub unknown: u32,
    /// All input tokens.
    pub input: u64,
    /// Input tokens that came from the cache.
    pub cached: u64,
    /// Input tokens that were written to the cache.
    pub written: u64,
    /// The part of `written` that the cache keeps for an hour.
    pub written_1h: u64,
    /// All output tokens.
    pub output: u64,
    /// The recorded cost in US dollars.
    pub paid: f64,
}

impl Spent {
    fn new(model: &str, key: SpentKey, sum: &crate::model::index::Spent) -> Self {
        Self {
            model: model.into(),
            quarter: key.quarter,
            size: key.size,
            is_paid: key.is_paid,
            unknown: u32::try_from(sum.unknown).unwrap_or(u32::MAX),
            input: sum.input,
            cached: sum.cached,
            written: sum.written,
            written_1h: sum.written_1h,
            output: sum.output,
            paid: sum.paid,
        }
    }

    /// Returns the sum of input and output tokens.
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns the tokens by kind.
    pub fn usage(&self) -> Usage {
        Usage {
            input: Some(self.input),
            cached: Some(self.cached),
            output: Some(self.output),
            reasoning: None,
            written: Some(self.written),
            written_1h: Some(self.written_1h),
        }
    }

    /// Returns the recorded cost, or else the cost of the known tokens by these prices, in US
    /// dollars. `None` if the model has no price.
    pub fn cost(&self, prices: Option<&Prices>) -> Option<f64> {
        if self.is_paid || self.tokens() == 0 {
            return Some(self.paid);
        }
        prices?.cost(&self.model, self.usage(), self.size)
    }

    /// Returns the cost of the known tokens by these prices, by kind of token. `None` if the model
    /// has no price.
    pub fn costs_by_price(&self, prices: Option<&Prices>) -> Option<KindCosts> {
        prices?.costs(&self.model, self.usage(), self.size)
    }
}

/// The cost of a run, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Cost {
    /// Recorded by the trace.
    Recorded(f64),
    /// Estimated from the tokens and a price table.
    Estimated(f64),
}

impl Cost {
    /// Returns the amount.
    pub fn usd(self) -> f64 {
        match self {
            Cost::Recorded(usd) | Cost::Estimated(usd) => usd,
        }
    }
}

fn no_path() -> Arc<str> {
    Arc::from("")
}

fn unnamed() -> RunKey {
    RunKey::new("")
}

impl Summary {
    /// Returns the message to show if there's no step, without a full stop. Unknown steps aren't
    /// reported as missing.
    pub fn no_step(&self, index: &Index) -> &'static str {
        match (index.groups().is_empty(), self.life.liveness.may_grow()) {
            _ if self.partial => "No steps have been read yet",
            (true, true) => "No steps have begun yet",
            (true, false) if self.steps_unknown => {
                "No steps are recorded and their number is unknown"
            }
            (true, false) => "No steps were recorded",
            (false, true) => "No steps have been written yet",
            (false, false) => "Only the events of steps are recorded",
        }
    }

    /// Describes which steps the run has in a sentence about `subject`, without a full stop. `total`
    /// is how many the index keeps.
    pub fn has_steps(&self, subject: &str, index: &Index, total: usize) -> String {
        match (total, kept_of_all(index)) {
            (0, _) => self.no_step(index).to_owned(),
            (_, Some(steps)) => format!("{subject} has {steps}"),
            (1, None) => format!("{subject} has 1 step, step 0"),
            (_, None) => format!(
                "{subject} has {total} steps, numbered from 0 to {}",
                total - 1
            ),
        }
    }

    /// Returns the models to which the run's tokens or its cost belong; some may repeat. Without a
    /// record of the steps' models, that's the run's model.
    pub fn models_used(&self) -> impl Iterator<Item = &str> {
        let used = || {
            let spent = self.spent.iter();
            spent.filter(|spent| spent.tokens() > 0 || spent.paid > 0.0)
        };
        let known = used().map(Spent::tokens).fold(0, u64::saturating_add);
        let has_rest = self.tokens.unwrap_or(0) > known;
        let is_undivided = || used().next().is_none() && self.cost().is_some();
        let own = self.model.as_deref().filter(|_| has_rest || is_undivided());
        used()
            .map(|spent| spent.model.as_str())
            .chain(own)
            .filter(|name| !name.is_empty())
    }

    /// Returns the run's model, followed by the other models that wrote some of its steps.
    pub fn models_words(&self) -> Option<String> {
        let model = self.model.clone()?;
        let others: Vec<&str> = self
            .models
            .iter()
            .map(String::as_str)
            .filter(|other| *other != &*model)
            .collect();
        Some(if others.is_empty() {
            model.to_string()
        } else {
            format!("{model}; other steps: {}", others.join(", "))
        })
    }

    /// Returns the title that the trace records: the user's, or else the program's.
    pub fn recorded_title(&self) -> Option<&str> {
        self.titles.first().map(String::as_str)
    }

    /// Returns the title of the run: the recorded one, else the first line of its task without the
    /// program's own text, else the name of its directory or file.
    pub fn title(&self) -> &str {
        let task = self.task.as_deref().unwrap_or_default();
        let first_line = || task.lines().map(str::trim).find(|line| !line.is_empty());
        self.recorded_title()
            .or(self.task_line.as_deref())
            .or_else(first_line)
            .unwrap_or_else(|| self.key.name())
    }

    /// Returns the log that contains the run, if the run is a sample: the beginning of its key.
    pub fn log(&self) -> Option<&str> {
        let id = self.sample.as_deref()?.id.as_deref()?;
        let (log, _) = self.key.as_str().rsplit_once(&format!("/{id}_"))?;
        Some(log)
    }

    /// Returns the scores of the whole run that have a value, without the parts of a reward.
    pub fn whole_scores(&self) -> impl Iterator<Item = (&str, &str)> {
        let has_reward = self.scores.iter().any(|given| given.name == "reward");
        let whole = self
            .scores
            .iter()
            .filter(move |given| !has_reward || !is_part_of_reward(&given.name));
        whole.filter_map(|given| Some((given.name.as_str(), given.value.as_deref()?)))
    }

    /// Returns the number of runs in the directory.
    pub fn runs_here(&self) -> usize {
        (self.segments + 1).saturating_sub(self.parts.max(1))
    }

    /// Returns whether both summaries have the same facts. Ignores key, path, prices, tags and
    /// relations.
    pub fn is_like(&self, other: &Self) -> bool {
        let (prices, relation) = (self.prices.clone(), self.relation.clone());
        *self
            == Self {
                key: self.key.clone(),
                path: self.path.clone(),
                tags: self.tags.clone(),
                prices,
                relation,
                ..other.clone()
            }
    }

    /// Returns whether both summaries have the same facts, apart from those that change with the
    /// time of day.
    pub fn is_same_but_for_time(&self, other: &Self) -> bool {
        self.is_like(&Self {
            life: self.life.clone(),
            ..other.clone()
        })
    }

    /// Returns the run with these prices for estimating its cost.
    #[must_use]
    pub fn priced(self, prices: &Arc<Prices>) -> Self {
        Self {
            prices: Some(prices).filter(|prices| !prices.is_empty()).cloned(),
            ..self
        }
    }

    /// Returns the tags of the run, including those that it was given, if they aren't those in
    /// `self.tags`. Of two spellings, the recorded one counts.
    pub fn tags_if_changed<'a>(
        &'a self,
        given: impl Iterator<Item = &'a str>,
    ) -> Option<ThinVec<String>> {
        let recorded = self.recorded_tags.iter().map(String::as_str);
        let mut tags: BTreeMap<String, &str> = BTreeMap::new();
        for tag in recorded.chain(given) {
            tags.entry(tag.to_lowercase()).or_insert(tag);
        }
        let is_same = self.tags.iter().eq(tags.values());
        (!is_same).then(|| tags.into_values().map(str::to_owned).collect())
    }

    /// Returns the run that its first records are copied from, if known: its key, or its id if it
    /// isn't known.
    pub fn copied_from(&self) -> Option<&str> {
        let relation = &self.relation;
        let declared = self
            .parent
            .as_deref()
            .filter(|_| self.copied_steps() > 0 && self.branched_after.is_some());
        let records = self.copied_records.as_ref();
        let key = relation.copied.as_ref().map(|(from, _)| from);
        key.or(relation.records_from.as_ref())
            .map(RunKey::as_str)
            .or(declared)
            .or_else(|| records?.from.as_deref())
    }

    /// Returns whether the file of a session has neither prompts nor steps.
    pub(super) fn is_empty_session(&self) -> bool {
        self.is_session && self.steps == 0 && self.turns == Some(0)
    }

    /// Returns whether the run counts. It doesn't if another file contains all of it.
    pub fn counts(&self) -> bool {
        self.relation.duplicate_of.is_none()
    }

    /// Returns how many steps at its start are copied from another run.
    pub fn copied_steps(&self) -> usize {
        self.copied.map_or(0, |copied| copied.steps)
    }

    /// Returns the run with its relations applied. `index` is called only if steps count in another
    /// run.
    #[must_use]
    pub fn related<I: std::ops::Deref<Target = Index>>(
        self,
        relation: Relation,
        index: impl FnOnce() -> I,
    ) -> Self {
        let copied = relation
            .copied
            .as_ref()
            .map(|(_, steps)| *steps)
            .filter(|_| self.copied.is_none());
        let own = match (copied, &relation.separate_children) {
            (Some(steps), _) => {
                let index = index();
                self.without_copied(&index, steps, &failed_without_line(&index))
            }
            (None, Some(separate_children)) => self.without_children(&index(), separate_children),
            (None, None) => self,
        };
        let cost_usd = own
            .cost_usd
            .or(relation.cost_usd.filter(|_| copied.is_none()));
        let (children, parent) = (
            relation.children.or(own.children),
            relation
                .parent
                .as_deref()
                .map(Box::from)
                .or(own.parent.clone()),
        );
        let mut run = match relation.thread_before.as_ref() {
            Some(before) if own.tokens_of_thread => own.without_thread(before),
            _ => own,
        };
        if (run.cost_usd, run.children) != (cost_usd, children) || run.parent != parent {
            (run.cost_usd, run.children, run.parent) = (cost_usd, children, parent);
        }
        // The run may have ended since.
        let is_open = matches!(run.verdict.outcome, Outcome::Unknown | Outcome::Running);
        if let Some(end) = relation.end.as_ref().filter(|_| is_open) {
            let own = std::mem::replace(&mut run.verdict, end.verdict.clone());
            (run.verdict.second, run.verdict.contradictions) = (own.second, own.contradictions);
            run.life = end.life.clone();
            run.answer = run.answer.take().or_else(|| end.answer.clone());
        }
        for contradiction in relation
            .differences
            .iter()
            .flat_map(|differences| &differences.contradictions)
            .take(MAX_DENIED)
        {
            run.verdict.contradictions.push(contradiction.clone());
            if run.verdict.certainty == Certainty::Recorded {
                run.verdict.certainty = Certainty::Inferred;
            }
        }
        Self {
            relation: relation.into(),
            ..run
        }
    }

    /// Removes the tokens of the thread before the run.
    fn without_thread(mut self, before: &ThreadBefore) -> Self {
        let less = |all: Option<u64>, part: Option<u64>| all?.checked_sub(part?);
        let (all, part) = (*self.usage, before.usage);
        self.tokens = less(self.tokens, Some(before.tokens));
        self.usage = Usage {
            input: less(all.input, part.input),
            cached: less(all.cached, part.cached),
            output: less(all.output, part.output),
            reasoning: less(all.reasoning, part.reasoning),
            written: less(all.written, part.written),
            written_1h: less(all.written_1h, part.written_1h),
        }
        .into();
        self.tokens_of_thread = false;
        // Without tokens by step, the whole total is in one place.
        let known = self.spent.iter().map(Spent::tokens);
        if known.fold(0, u64::saturating_add) > self.tokens.unwrap_or_default() {
            let kinds = [
                part.input,
                part.cached,
                part.written,
                part.written_1h,
                part.output,
            ];
            let mut left = kinds.map(Option::unwrap_or_default);
            for spent in &mut self.spent {
                let own = [
                    &mut spent.input,
                    &mut spent.cached,
                    &mut spent.written,
                    &mut spent.written_1h,
                    &mut spent.output,
                ];
                for (own, left) in own.into_iter().zip(&mut left) {
                    let taken = (*own).min(*left);
                    (*own, *left) = (*own - taken, *left - taken);
                }
            }
        }
        self
    }

    /// Sets the failures to those of these steps, of steps without a line (`lost`), and of the end.
    fn with_failures(mut self, index: &Index, of_steps: &FailureTally, lost: &[&Group]) -> Self {
        let tally = with_lost(index, of_steps, lost);
        let (failures, left_out) = failures_of_run(index, &tally, &self.life, &self.verdict);
        self.failures = failures.into();
        if self.failures_left_out != left_out {
            self.failures_left_out = left_out;
        }
        self
    }

    /// Removes what counts in the rows of the child runs.
    fn without_children(mut self, index: &Index, separate_children: &SeparateChildren) -> Self {
        let (mut tokens, mut usage) = (Some(0_u64), Usage::of_nothing());
        let mut steps = separate_children.steps(index);
        // Copied steps don't count here already, whether they're of a child or not.
        let start = index.newest_start();
        let copied: BTreeSet<usize> = (start..start + self.copied_steps()).collect();
        let all: BTreeSet<usize> = steps.union(&copied).copied().collect();
        steps.retain(|n| !copied.contains(n));
        let own = index.tally_without(&all);
        self = self.with_failures(index, &own.failures, &failed_without_line(index));
        self.tool_sums = tool_sums(index, &own);
        if self.call_times != CallTimes::default() {
            self.call_times = CallTimes::of(index, &mut self.tool_sums, |n| !all.contains(&n));
        }
        if !self.spent.is_empty() {
            let unknown = self.spent.iter().map(|spent| spent.unknown as usize);
            let cut_off = unknown
                .sum::<usize>()
                .saturating_sub(index.tally().run.unknown_tokens);
            self.spent = spent(index, &own, cut_off).into();
        }
        for n in steps {
            let Some(step) = index.steps().get(n) else {
                continue;
            };
            self.steps = self.steps.saturating_sub(1);
            self.steps_nested = self.steps_nested.saturating_sub(1);
            self.errors = self
                .errors
                .saturating_sub(usize::from(!step.is_ok() || index.error_of(n).is_some()));
            self.model_calls = self.model_calls.map(|calls| calls.saturating_sub(1));
            self.tool_calls = self
                .tool_calls
                .map(|calls| calls.saturating_sub(u64::from(step.actions)));
            self.tool_errors = self
                .tool_errors
                .map(|errors| errors.saturating_sub(u64::from(step.failed_calls)));
            if step.tokens.is_none() {
                self.steps_without_tokens = self.steps_without_tokens.saturating_sub(1);
                self.tokens_unknown = self.tokens_unknown.saturating_sub(1);
            }
            tokens = tokens
                .zip(step.tokens)
                .map(|(sum, tokens)| sum.saturating_add(tokens));
            usage = usage.plus(step.usage.get());
        }
        let (tokens, usage) = if self.totals_with_children {
            (separate_children.tokens, separate_children.usage)
        } else {
            (tokens, usage)
        };
        let less = |all: Option<u64>, part: Option<u64>| all?.checked_sub(part?);
        let own = newest_run(index).filter(|(_, step)| !step.is_nested);
        let read: u64 = own
            .filter_map(|(_, step)| step.usage.get().input)
            .fold(0, u64::saturating_add);
        // If subtracting leaves less than the run's own steps read, the total already excludes the
        // children.
        let is_without = less(self.usage.input, usage.input).is_some_and(|input| input < read);
        if !is_without {
            self.tokens = less(self.tokens, tokens);
            self.usage = Usage {
                input: less(self.usage.input, usage.input),
                cached: less(self.usage.cached, usage.cached),
                output: less(self.usage.output, usage.output),
                reasoning: less(self.usage.reasoning, usage.reasoning),
                written: less(self.usage.written, usage.written),
                written_1h: less(self.usage.written_1h, usage.written_1h),
            }
            .into();
        }
        self
    }

    /// Removes the usage of the first `copied` steps, which counts in the run that they were copied
    /// from.
    fn without_copied(mut self, index: &Index, copied: usize, lost: &[&Group]) -> Self {
        let (before, own) = index.tally_apart(copied);
        let last = (index.newest_start() + copied)
            .checked_sub(1)
            .and_then(|last| index.end_of(last))
            .unwrap_or(0);
        let events = || index.events().iter().take(last);
        let is_of_steps = index
            .manifest()
            .get()
            .is_none_or(|manifest| manifest.tokens_of_steps);
        // If a total includes steps with unknown usage, the remainder is unknown.
        let tokens = before
            .tokens_so_far
            .or((before.readable == 0 || is_of_steps).then_some(0));
        let tokens = tokens.filter(|_| is_of_steps || before.unknown_tokens == 0);
        let are_own = index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.tokens_without_copies);
        let less = |all: Option<u64>, less: Option<u64>| match are_own {
            true => all,
            false => Some(all?.saturating_sub(less?)),
        };
        let copied_events = last.min(self.events);
        self.copied = Some(CopiedPart {
            steps: copied,
            tokens: before.tokens_so_far,
            events: copied_events,
        });
        self.steps = own.readable;
        self.steps_nested = self.steps_nested.saturating_sub(before.nested);
        self.events -= copied_events;
        self.errors = self.errors.saturating_sub(before.failed);
        self = self.with_failures(index, &own.failures, lost);
        self.tokens = self
            .tokens
            .filter(|tokens| *tokens == 0)
            .or(less(self.tokens, tokens));
        self.tokens_unknown = self.tokens_unknown.saturating_sub(before.unknown_tokens);
        self.steps_without_tokens = self
            .steps_without_tokens
            .saturating_sub(before.unknown_tokens);
        let usage = *self.usage;
        self.usage = Seldom::from(if before.readable == 0 {
            usage
        } else {
            Usage {
                input: less(usage.input, before.usage.input),
                cached: less(usage.cached, before.usage.cached),
                output: less(usage.output, before.usage.output),
                reasoning: less(usage.reasoning, before.usage.reasoning),
                written: less(usage.written, before.usage.written),
                written_1h: less(usage.written_1h, before.usage.written_1h),
            }
        });
        let all_paid = before
            .spent
            .iter()
            .all(|(key, spent)| key.is_paid || *spent == crate::model::index::Spent::default());
        let paid: f64 = before.spent.iter().map(|(_, spent)| spent.paid).sum();
        let own_cost =
            |cost: Option<f64>| cost.filter(|_| all_paid).map(|cost| (cost - paid).max(0.0));
        (self.cost_usd, self.cost_by_run_usd) =
            (own_cost(self.cost_usd), own_cost(self.cost_by_run_usd));
        let unknown = self.spent.iter().map(|spent| spent.unknown as usize);
        let cut_off = unknown
            .sum::<usize>()
            .saturating_sub(before.unknown_tokens + own.unknown_tokens);
        if !self.spent.is_empty() {
            self.spent = spent(index, &own, cut_off).into();
        }
        let is_one_file = index.format().is_one_file();
        let outputs = || {
            events()
                .filter(|event| event.kind == EventKind::Output)
                .count() as u64
        };
        let replies = if is_one_file {
            before.readable as u64
        } else {
            outputs()
        };
        self.model_calls = self.model_calls.map(|calls| calls.saturating_sub(replies));
        self.tool_calls = self.tool_calls.map(|_| own.calls);
        self.tool_errors = self.tool_errors.map(|_| own.failed_calls);
        self.tool_sums = tool_sums(index, &own);
        if self.call_times != CallTimes::default() {
            let first = index.newest_start() + copied;
            self.call_times = CallTimes::of(index, &mut self.tool_sums, |n| n >= first);
        }
        if is_one_file {
            let prompts = events()
                .filter(|event| index.name(event.stage) == "prompt")
                .count() as u64;
            self.turns = self.turns.map(|turns| turns.saturating_sub(prompts));
            self.started = index
                .events()
                .range(last..index.events().len())
                .find_map(|event| event.ts)
                .or(self.started);
            let took = self
                .started
                .zip(index.last_ts())
                .map(|(from, to)| (to - from) as f64 / 1e3);
            self.duration_ms = took.filter(|ms| *ms >= 0.0);
            self.duration_at_least_ms = None;
        }
        self
    }

    /// Returns the number of steps, if known.
    pub fn steps_known(&self) -> Option<usize> {
        (!self.steps_unknown).then_some(self.steps)
    }

    /// Returns the number of events, if known.
    pub fn events_known(&self) -> Option<usize> {
        (!self.events_unknown).then_some(self.events)
    }

    /// Returns the number of steps in which something failed, if known.
    pub fn errors_known(&self) -> Option<usize> {
        (!self.errors_unknown).then_some(self.errors)
    }

    /// Returns the number of steps that are known to have failed: not those whose line can't be read.
    pub fn steps_with_failures(&self) -> usize {
        self.errors.saturating_sub(self.errors_unread)
    }

    /// Returns the number of segments, or `None` if the events file that would show them is
    /// missing.
    pub fn segments_known(&self) -> Option<usize> {
        (self.segments > 0 || !self.events_unknown).then_some(self.segments)
    }

    /// Formats the tokens: with "at least" if a step doesn't record its tokens, and "≈" if some
    /// are estimates.
    pub fn tokens_words(&self) -> Option<String> {
        let of_thread = if self.tokens_of_thread {
            " in the whole thread"
        } else {
            ""
        };
        let tokens = format!(
            "{}{}{of_thread}",
            self.tokens_bound(),
            format::count(self.tokens?)
        );
        Some(match self.tokens_unknown {
            0 => tokens,
            1 => format!("{tokens}; 1 step doesn't record its tokens"),
            unknown => format!(
                "{tokens}; {} don't record their tokens",
                format::counted(unknown, "step")
            ),
        })
    }

    /// Returns the qualifier for the number of tokens.
    pub fn tokens_bound(&self) -> &'static str {
        match (self.tokens_unknown > 0, self.tokens_estimated) {
            (false, false) => "",
            (false, true) => "≈",
            (true, false) => "at least ",
            (true, true) => "at least ≈",
        }
    }

    /// Formats the run time: `12 s`, or `at least 12 s` if a clock went back.
    pub fn took_words(&self) -> Option<String> {
        let least = || {
            Some(format!(
                "at least {}",
                format::millis(self.duration_at_least_ms?)
            ))
        };
        self.duration_ms.map(format::millis).or_else(least)
    }

    /// Returns whether the line counts match those of `index`.
    pub fn counts_lines_of(&self, index: &Index) -> bool {
        let (steps, events) = lines(index);
        let own = self.events + self.copied.map_or(0, |copied| copied.events);
        (self.steps_now, own, self.partial) == (steps, events, index.is_partial())
    }

    /// Returns whether the recorded cost includes that of `child`, although the child records it too.
    pub fn pays(&self, child: &Self) -> bool {
        child
            .run_id
            .as_deref()
            .is_some_and(|id| self.paid_children.iter().any(|paid| paid == id))
    }

    /// Returns the cost: recorded, or else estimated.
    pub fn cost(&self) -> Option<Cost> {
        self.cost_usd
            .map(Cost::Recorded)
            .or_else(|| self.cost_estimated_usd().map(Cost::Estimated))
    }

    /// Formats the cost, with the source of an estimate.
    pub fn cost_words(&self) -> Option<String> {
        let (usd, note) = self.cost_and_note()?;
        Some(match note {
            Some(note) => format!("{usd}, {note}"),
            None => usd,
        })
    }

    /// Formats the cost, and what is to know about it: the source of an estimate, or what it includes.
    pub(crate) fn cost_and_note(&self) -> Option<(String, Option<String>)> {
        Some(match self.cost()? {
            Cost::Recorded(usd) => {
                let has_children = self.cost_with_children && self.children > Some(0);
                let note = has_children.then(|| "child runs included".to_owned());
                (format::usd(usd), note)
            }
            Cost::Estimated(usd) => {
                let from = self.estimated_from();
                let note = from.unwrap_or_else(|| "estimated".to_owned());
                (format!("≈{}", format::usd(usd)), Some(note))
            }
        })
    }

    /// Returns the source of a cost estimate: `estimated from list prices of 2026-11-27`.
    pub fn estimated_from(&self) -> Option<String> {
        self.estimate_source()
            .map(|from| format!("estimated {from}"))
    }

    /// Returns the same without the first word: `from list prices of 2026-11-27`.
    pub(crate) fn estimate_source(&self) -> Option<String> {
        if self.cost_by_run_usd.is_some() {
            return Some("by the run itself".to_owned());
        }
        let models = self
            .spent
            .iter()
            .filter(|spent| !spent.is_paid && spent.tokens() > 0)
            .map(|spent| &*spent.model);
        let source = self.prices.as_deref()?.source_of(models);
        (!source.is_empty()).then(|| format!("from {}", format::visible_line(&source)))
    }

    /// Returns the estimated cost if none is recorded: the run's own estimate, or else one from
    /// prices. `None` if a step doesn't record its tokens, a model has no price, or the steps are only
    /// a part of the recorded thread.
    pub fn cost_estimated_usd(&self) -> Option<f64> {
        if self.cost_by_run_usd.is_some() {
            return self.cost_by_run_usd;
        }
        if self.steps_are_part_of_thread() {
            return None;
        }
        self.priced_steps()?
            .map(|(spent, cost)| cost.filter(|_| spent.unknown == 0 || spent.is_paid))
            .sum()
    }

    /// Returns the cost of the steps whose tokens and prices are known, if that's not all of them.
    pub fn cost_at_least_usd(&self) -> Option<f64> {
        if self.cost().is_some() {
            return None;
        }
        let sum: f64 = self.priced_steps()?.filter_map(|(_, cost)| cost).sum();
        Some(sum).filter(|sum| *sum > 0.0)
    }

    /// Returns the steps with their costs, if the run records no cost and there are prices.
    fn priced_steps(&self) -> Option<impl Iterator<Item = (&Spent, Option<f64>)>> {
        let prices = self
            .prices
            .as_deref()
            .filter(|_| self.cost_usd.is_none() && self.has_usage())?;
        Some(
            self.spent
                .iter()
                .map(|spent| (spent, spent.cost(Some(prices)))),
        )
    }

    /// Returns whether the recorded tokens are those of a thread and the steps are only a part of it.
    fn steps_are_part_of_thread(&self) -> bool {
        let known = self.spent.iter().map(Spent::tokens);
        let known = known.fold(0, u64::saturating_add);
        self.tokens_of_thread && self.tokens.is_some_and(|tokens| tokens > known)
    }

    /// Returns whether any step records tokens or a cost. Otherwise there's nothing to estimate.
    fn has_usage(&self) -> bool {
        self.spent
            .iter()
            .any(|spent| spent.tokens() > 0 || spent.paid > 0.0)
    }
}

/// Counts the files among the state keys that steps changed. `None` if the format doesn't record
/// files, or if it records only some of them and none is recorded here: commands change files too.
fn files_changed(index: &Index) -> Option<u64> {
    let (format, changed) = (index.format(), index.tally().run.changed.iter());
    let files = changed
        .filter(|key| index.name(*key).starts_with("files."))
        .count() as u64;
    (format.is_one_file() && (files > 0 || format.can.state == Can::Yes)).then_some(files)
}

/// Maximum number of paths of edited files that a row keeps.
const MAX_FILES: usize = 64;
/// Maximum number of bytes of these paths.
const MAX_FILE_BYTES: usize = 4096;

/// Returns the paths of the first files among the state keys that steps changed, in the patch that
/// the run submitted, and in calls, if the format doesn't record which files they changed.
fn files_edited(index: &Index) -> ThinVec<String> {
    let (format, run) = (index.format(), &index.tally().run);
    let is_recorded = format.is_one_file() && format.can.state == Can::Yes;
    let changed = run.changed.iter().filter(|_| format.is_one_file());
    let changed = changed.filter_map(|key| index.name(key).strip_prefix("files."));
    let manifest = index.manifest().get();
    let patched = manifest.map_or(&[][..], |manifest| &manifest.patched);
    let requested = run.edited.iter().filter(|_| !is_recorded);
    let paths = changed
        .chain(patched.iter().map(|path| &**path))
        .chain(requested.map(|key| index.name(key)));
    let mut known = BTreeSet::new();
    let mut left = MAX_FILE_BYTES;
    let fits = |path: &&str| {
        let rest = left.checked_sub(path.len());
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    paths
        .filter(|path| known.insert(*path))
        .take(MAX_FILES)
        .take_while(fits)
        .map(str::to_owned)
        .collect()
}

/// Returns the tokens by kind: the run's own figures, or those of its steps if they add up to the
/// run's total.
fn usage(index: &Index) -> Usage {
    let of_run = index
        .manifest()
        .get()
        .map(|manifest| manifest.usage)
        .unwrap_or_default();
    let adds_up = |usage: Usage| {
        let sum = usage
            .input
            .map(|input| input.saturating_add(usage.output.unwrap_or_default()));
        sum.is_some() && sum == tokens(index)
    };
    let of_steps = Some(index.tally().run.usage)
        .filter(|usage| adds_up(*usage))
        .unwrap_or_default();
    let whole = if adds_up(of_run) { of_run } else { of_steps };
    Usage {
        cached: of_run.cached.or(of_steps.cached),
        reasoning: of_run.reasoning.or(of_steps.reasoning),
        written: of_run.written.or(of_steps.written),
        written_1h: of_run.written_1h.or(of_steps.written_1h),
        ..whole
    }
}

/// Returns a number from the steps, with that before the run's first record if the program doesn't
/// keep those records.
fn with_earlier(
    index: &Index,
    here: Option<u64>,
    before: impl Fn(&Earlier) -> Option<u64>,
) -> Option<u64> {
    let manifest = index.manifest().get();
    match manifest.and_then(|manifest| manifest.earlier.as_ref()) {
        Some(earlier) => before(earlier)?.checked_add(here?),
        None => here,
    }
}

/// Counts the model's replies: the run's own count, or else the steps of another tool's run if each
/// is a reply. In our own traces, events record the replies. Without such events, it's unknown
/// whether a model was called.
fn model_calls(index: &Index) -> Option<u64> {
    let format = index.format();
    if format.is_one_file() {
        let manifest = index.manifest().get();
        let unknown =
            manifest.is_some_and(|manifest| manifest.steps_unknown || manifest.replies_unknown);
        let here =
            (format.has_reply_steps && !unknown).then_some(index.tally().run.readable as u64);
        let seen = with_earlier(index, here, |earlier| earlier.replies);
        return manifest.and_then(|manifest| manifest.model_calls).or(seen);
    }
    let outputs: usize = index
        .newest_segments()
        .iter()
        .map(|segment| segment.outputs)
        .sum();
    Some(outputs as u64).filter(|outputs| *outputs > 0)
}

/// Returns the tokens by model and time, or nothing if no step records any. Steps without a model
/// name count for the run's model, as do `unknown` steps that have no line.
fn spent(index: &Index, tally: &RunTally, unknown: usize) -> Vec<Spent> {
    let of_run = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.model_of_steps())
        .unwrap_or_default();
    let has_usage = |(_, sum): &(SpentKey, crate::model::index::Spent)| {
        sum.input > 0 || sum.output > 0 || sum.paid > 0.0
    };
    if !tally.spent.iter().any(has_usage) {
        return Vec::new();
    }
    let spent = |(key, sum): &(SpentKey, crate::model::index::Spent)| {
        let name = Some(index.name(key.model)).filter(|name| !name.is_empty());
        Spent::new(name.unwrap_or(of_run), *key, sum)
    };
    let lost = crate::model::index::Spent {
        unknown,
        ..crate::model::index::Spent::default()
    };
    let lost = (unknown > 0).then(|| Spent::new(of_run, SpentKey::default(), &lost));
    tally.spent.iter().map(spent).chain(lost).collect()
}

/// Returns the tokens by model and time. If they're recorded only for the whole run, they count at
/// the time of the newest record.
fn spent_or_whole(index: &Index, tally: &RunTally, unknown: usize) -> Vec<Spent> {
    let of_steps = spent(index, tally, unknown);
    if !of_steps.is_empty() {
        return of_steps;
    }
    let manifest = index.manifest().get();
    let whole = usage(index);
    let unknown = u32::try_from(uncounted(index)).unwrap_or(u32::MAX);
    let models = manifest.map_or(&[][..], |manifest| &manifest.models);
    let of_models = models.iter().map(|(_, usage, _)| *usage);
    // The models' tokens count only if they're those of the run.
    if of_models
        .reduce(Usage::plus)
        .is_some_and(|sum| (sum.input, sum.output) == (whole.input, whole.output))
    {
        let spent = models
            .iter()
            .filter_map(|(model, usage, at)| of_whole(model, *usage, at.or(index.last_ts())));
        let mut spent: Vec<Spent> = spent.collect();
        // It's not recorded which model the other replies are of.
        if let Some(last) = spent.last_mut() {
            last.unknown = unknown;
        }
        return spent;
    }
    // Of several models, it isn't known which one used how many.
    let is_split = models.len() > 1;
    let model = manifest.and_then(|manifest| manifest.model_of_steps().filter(|_| !is_split));
    let spent = of_whole(model.unwrap_or_default(), whole, index.last_ts());
    spent
        .map(|spent| Spent { unknown, ..spent })
        .into_iter()
        .collect()
}

/// Returns the tokens of a whole run, or of a model in it, at the time of the last use.
fn of_whole(model: &str, usage: Usage, at: Option<i64>) -> Option<Spent> {
    let (input, output) = usage.input.zip(usage.output)?;
    let cached = usage.cached.unwrap_or(0).min(input);
    let written = usage.written.unwrap_or(0).min(input - cached);
    let quarter = at.map(|ts| ts.div_euclid(QUARTER));
    (input > 0 || output > 0).then(|| Spent {
        model: model.into(),
        quarter: quarter.and_then(|quarter| i32::try_from(quarter).ok()),
        input,
        cached,
        written,
        written_1h: usage.written_1h.unwrap_or(0).min(written),
        output,
        ..Spent::default()
    })
}

/// Returns how many replies the totals of the run don't include.
fn uncounted(index: &Index) -> usize {
    let manifest = index.manifest().get();
    let replies = manifest.map_or(0, |manifest| manifest.replies_uncounted);
    usize::try_from(replies).unwrap_or(usize::MAX)
}

/// Returns the run's model and those of its steps, if that's more than one.
fn models(index: &Index) -> Vec<String> {
    let manifest = index.manifest().get();
    let of_run = manifest.and_then(|manifest| manifest.model.as_deref());
    let of_whole = manifest.map_or(&[][..], |manifest| &manifest.models);
    let of_whole = of_whole.iter().map(|(model, ..)| &**model);
    let of_steps = index
        .tally()
        .run
        .spent
        .iter()
        .map(|(key, _)| index.name(key.model))
        .filter(|name| !name.is_empty());
    let mut all: Vec<String> = Vec::new();
    for model in of_run.into_iter().chain(of_whole).chain(of_steps) {
        if all.iter().all(|known| known != model) {
            all.push(model.to_owned());
        }
    }
    if all.len() > 1 { all } else { Vec::new() }
}

/// Returns the rounds of the newest run that have an error but no step line.
fn failed_without_line(index: &Index) -> Vec<&Group> {
    if index.format().is_one_file() || index.count_without_line() == 0 {
        return Vec::new();
    }
    let first = index
        .newest_segments()
        .first()
        .map_or(0, |segment| segment.first_group);
    let rounds = index
        .groups_without_line()
        .into_iter()
        .filter(|round| *round >= first);
    rounds
        .filter_map(|round| index.groups().get(round))
        .filter(|group| group.error.is_some())
        .collect()
}

/// Adds the failures of steps without a line.
fn with_lost<'a>(index: &Index, tally: &'a FailureTally, lost: &[&Group]) -> Cow<'a, FailureTally> {
    let mut tally = Cow::Borrowed(tally);
    for group in lost {
        if let Some(error) = &group.error {
            let key = index.key_of_event(error);
            tally.to_mut().add_without_step(key, group.started);
        }
    }
    tally
}

/// Counts the step lines and the readable event lines of the newest run.
fn lines(index: &Index) -> (usize, usize) {
    let segments = index.newest_segments();
    let first_event = segments.first().map_or(0, |segment| segment.first_event);
    let unreadable: usize = segments.iter().map(|segment| segment.unreadable).sum();
    (
        index.newest_len(),
        index
            .event_count_since(first_event)
            .saturating_sub(unreadable),
    )
}

/// Returns the answer of the score that decides whether the task is solved, or else the one that all
/// scores name.
fn scored_answer(scores: &[RunScore]) -> Option<Box<str>> {
    let deciding = deciding(scores).and_then(|given| given.answer.as_ref());
    let mut all = scores.iter().filter_map(|given| given.answer.as_ref());
    let only = || {
        let first = all.next()?;
        all.all(|answer| answer == first).then_some(first)
    };
    deciding.or_else(only).cloned()
}

/// Summarizes a run.
pub fn summary(
    key: &RunKey,
    path: impl Into<Arc<str>>,
    index: &Index,
    outside: ExternalFacts,
) -> Summary {
    let life = life(index, outside);
    let written = outside.written.map(|(_, newest)| newest);
    let manifest = index.manifest().get();
    let init = index
        .segment()
        .and_then(|segment| segment.init.as_ref())
        .map(|(_, init)| init);
    let text = |text: Option<&Box<str>>| text.map(|text| text.to_string());
    let shared = |text: Option<&Box<str>>| text.map(|text| Shared::from(&**text));
    let run = &index.tally().run;
    let lost = failed_without_line(index);
    let names = |symbols: &Distinct| {
        symbols
            .iter()
            .map(|symbol| index.name(symbol).to_owned())
            .collect::<Vec<_>>()
    };
    let segments = index.newest_segments();
    let manifest_time = manifest.and_then(|manifest| manifest.updated_at);
    // A clock may have gone back, and the lines of a session may be out of order.
    let newest = index
        .segments()
        .iter()
        .filter_map(|segment| segment.span)
        .map(|(_, latest)| latest)
        .max();
    // Something that a record started may have continued after the newest record was written.
    let until = segments.iter().filter_map(|segment| segment.until).max();
    let recorded = newest.max(manifest_time).max(until);
    let run_scores = manifest.into_iter().flat_map(|manifest| &manifest.scores);
    let (steps, events) = lines(index);
    // If the run's tokens are unknown, so are those of the steps that don't record theirs.
    let are_of_steps =
        tokens(index).is_none() || manifest.is_some_and(|manifest| manifest.tokens_of_steps);
    let is_summed_up = manifest.is_some_and(|manifest| manifest.tokens.is_some());
    // A running run's numbers are those so far. A step that broke off is repeated if the run is
    // resumed, so it counts only once the run is over.
    let cut_off = usize::from(life.liveness.is_over() && lost::has_reply_without_line(index));
    let broken_off = lost::spent_without_line(index).filter(|_| cut_off > 0 && !is_summed_up);
    // Steps without a line may have made tool calls.
    let is_counted = lost::is_counted(index);
    // So may tool calls be missing if only their results are recorded.
    let unread = lost::unread(index);
    let has_calls = is_counted
        && unread == 0
        && manifest.is_none_or(|manifest| manifest.answers_without_calls == 0);
    let took = own_ms(index);
    let steps_unknown = are_steps_unknown(index) || !is_counted || index.away().is_some();
    let events_unknown = !index.format().is_one_file() && !index.events_file().exists;
    // An unreadable event may contain an error.
    let errors_unknown = steps_unknown
        || events_unknown
        || unread > 0
        || segments.iter().any(|segment| segment.unreadable > 0);
    // If no step of a run is recorded, what steps do can't be counted.
    let no_steps_recorded = run.readable == 0 && are_steps_unknown(index);
    let rare = RareFacts {
        status: text(manifest.and_then(|manifest| manifest.status.as_ref())),
        failures_left_out: 0,
        // If all steps are nested, there's no record of what they're nested in.
        steps_nested: if run.nested < run.readable {
            run.nested
        } else {
            0
        },
        tokens_of_thread: manifest.is_some_and(|manifest| manifest.tokens_of_thread),
        cost_usd: cost_usd(index)
            .filter(|_| manifest.is_none_or(|manifest| !manifest.cost_estimated)),
        cost_by_run_usd: manifest
            .filter(|manifest| manifest.cost_estimated)
            .and_then(|manifest| manifest.cost_usd),
        duration_at_least_ms: if took.is_none() {
            own_least_ms(index)
        } else {
            None
        },
        spark: run.lows.as_slice().into(),
        changed: names(&run.changed).into(),
        titles: manifest
            .iter()
            .flat_map(|manifest| &manifest.titles)
            .map(|title| title.to_string())
            .collect(),
        task_line: init.and_then(|init| init.title.clone()),
        recorded_tags: manifest
            .iter()
            .flat_map(|manifest| &manifest.tags)
            .map(|tag| tag.to_string())
            .collect(),
        branched_after: manifest.and_then(|manifest| manifest.branched_after),
        shared_ids: manifest
            .iter()
            .flat_map(|manifest| manifest.shared_ids.iter().cloned())
            .collect(),
        continues: manifest.and_then(|manifest| manifest.continues.clone()),
        parent: manifest.and_then(|manifest| manifest.parent.clone()),
        project: text(manifest.and_then(|manifest| manifest.project.as_ref())),
        turns: manifest
            .and_then(|manifest| manifest.turns)
            .filter(|turns| *turns > 0 || !no_steps_recorded),
        children: manifest.and_then(|manifest| manifest.children),
        child_ids: manifest
            .iter()
            .flat_map(|manifest| &manifest.child_ids)
            .map(|id| id.to_string())
            .collect(),
        totals_with_children: manifest.is_some_and(|manifest| manifest.totals_with_children),
        cost_with_children: manifest.is_some_and(|manifest| manifest.cost_with_children),
        paid_children: manifest
            .iter()
            .flat_map(|manifest| &manifest.paid_children)
            .map(|id| id.to_string())
            .collect(),
        total: manifest
            .and_then(|manifest| manifest.total.as_ref())
            .map(|total| total.tokens),
        total_explained: manifest
            .and_then(|manifest| manifest.total.as_ref())
            .is_some_and(|it| !it.aside.is_empty()),
        target: manifest
            .and_then(|manifest| manifest.trial.as_deref())
            .and_then(|trial| trial.target.clone()),
        scored_answer: manifest.and_then(|manifest| scored_answer(&manifest.scores)),
        sample: Sample::of(index),
        grader_tokens: manifest.and_then(|manifest| manifest.grader_tokens),
        invalidation: text(manifest.and_then(|manifest| manifest.invalidation.as_ref())),
        files_changed: files_changed(index),
        files_edited: files_edited(index),
        copied: None,
        copied_records: manifest.and_then(|manifest| manifest.copied.clone()),
        prompt_hash: manifest.and_then(|manifest| manifest.prompt_hash.clone()),
        critic_scores: critic_scores(index, run_scores.clone()),
    };
    let mut call_sums = tool_sums(index, run);
    let call_times = if life.liveness.is_over() && !index.is_partial() {
        CallTimes::of(index, &mut call_sums, |_| true)
    } else {
        CallTimes::default()
    };
    let whole = Summary {
        key: key.clone(),
        path: path.into(),
        run_id: manifest.and_then(|manifest| manifest.run_id.clone()),
        verdict: if index.is_partial() {
            Verdict::of_unread(steps)
        } else {
            verdict(index, &life)
        },
        segments: index.segments().len(),
        parts: segments.len(),
        // An unreadable line is a step if other records count it as one.
        steps: if unread > 0 && is_counted {
            steps
        } else {
            run.readable
        },
        events,
        steps_now: steps,
        steps_unknown,
        // Includes the recorded usage of the step in which the run broke off. It may have used
        // more.
        tokens: match (tokens(index), broken_off) {
            (Some(tokens), Some(more)) => Some(
                tokens
                    .saturating_add(more.input)
                    .saturating_add(more.output),
            ),
            (None, Some(more)) if run.readable == 0 => Some(more.input.saturating_add(more.output)),
            (tokens, _) => tokens,
        },
        tokens_estimated: run.tokens_estimated || broken_off.is_some_and(|spent| spent.is_estimate),
        tokens_unknown: if are_of_steps {
            run.unknown_tokens
        } else {
            uncounted(index)
        } + if is_summed_up { 0 } else { cut_off },
        steps_without_tokens: run.unknown_tokens + cut_off,
        // If the tokens are disputed, those of the steps are only one of the answers.
        spent: if total(index, "tokens").disputed().is_some() {
            ThinVec::new()
        } else {
            spent_or_whole(index, run, cut_off).into()
        },
        prices: None,
        duration_ms: took,
        last_score: manifest
            .and_then(|manifest| deciding(&manifest.scores)?.score)
            .or(run.last_score.filter(|_| !index.has_disordered_steps())),
        critics: run_scores
            .clone()
            .map(|given| given.name.to_string())
            .fold(names(&run.critics), distinct)
            .into(),
        tools: run
            .tools
            .iter()
            .map(|tool| index.name(tool).to_owned())
            .collect(),
        tool_sums: call_sums,
        call_times,
        models: models(index).into(),
        agents: names(&run.agents)
            .into_iter()
            .chain(text(manifest.and_then(|m| m.agent.as_ref())))
            .fold(Vec::new(), distinct)
            .into(),
        model: shared(
            manifest
                .and_then(|manifest| manifest.model.as_ref())
                .or(init.and_then(|init| init.model.as_ref())),
        ),
        task: init.and_then(|init| init.task.clone()),
        answer: kept_answer(index).map(Box::from),
        format: index.format().name.into(),
        is_session: index.format().is_session,
        tool: shared(manifest.and_then(|manifest| manifest.tool.as_ref())),
        steps_are_replies: index.format().has_reply_steps,
        scores: run_scores.take(MAX_SCORES).map(GivenScore::of).collect(),
        success: manifest.and_then(|manifest| manifest.success),
        usage: match broken_off {
            Some(more) => usage(index).with_reply(more.input, more.output),
            None => usage(index),
        }
        .into(),
        model_calls: model_calls(index),
        tool_calls: with_earlier(
            index,
            Some(run.calls).filter(|_| has_calls && !no_steps_recorded),
            |earlier| earlier.calls,
        ),
        // If the result of a call isn't recorded, it's unknown whether the call failed.
        tool_errors: with_earlier(
            index,
            Some(run.failed_calls)
                .filter(|_| !run.unknown_calls && has_calls && !no_steps_recorded),
            |earlier| earlier.failed_calls,
        ),
        started: manifest
            .and_then(|manifest| manifest.started_at)
            .or_else(|| match index.is_disordered() {
                true => index.events().iter().filter_map(|event| event.ts).min(),
                false => segments
                    .first()
                    .and_then(|segment| segment.span)
                    .map(|(first, _)| first),
            }),
        updated: if life.liveness == Liveness::Finished {
            recorded.or(written)
        } else {
            recorded.max(life.sign).or(written)
        },
        issues: health::counts(index),
        errors: index.failed_steps() + lost.len(),
        errors_unread: unread,
        failures: ThinVec::new(),
        errors_unknown,
        events_unknown,
        partial: index.is_partial(),
        fingerprint: Fingerprint::of(index),
        tags: sorted(&rare.recorded_tags),
        relation: Related::default(),
        life,
        rare: rare.into(),
    };
    match copied(index) {
        Some(copied) => whole.without_copied(index, copied, &lost),
        None => whole.with_failures(index, &index.failures(), &lost),
    }
}

impl Summary {
    /// Marks the run as not read yet, so that missing facts aren't taken as absent.
    #[must_use]
    pub fn unread(self) -> Self {
        Self {
            verdict: Verdict::of_unread(0),
            failures: ThinVec::new(),
            partial: true,
            ..self
        }
    }
}

impl Verdict {
    /// Returns the verdict of a run that is still being read: unknown.
    fn of_unread(steps: usize) -> Self {
        Self {
            sentence: format!("Being read, {} so far", format::counted(steps, "step")).into(),
            head: Shared::default(),
            brief: Shared::default(),
            notes: ThinVec::new(),
            second: Shared::default(),
            outcome: Outcome::Unknown,
            mark: RunStatus::Unknown,
            certainty: Certainty::Unknown,
            answered: false,
            contradictions: ThinVec::new(),
            stop_reason: None,
            step: None,
            limit: None,
        }
    }
}

fn sorted(tags: &[String]) -> ThinVec<String> {
    let mut tags: ThinVec<String> = tags.into();
    tags.sort_unstable();
    tags
}

fn distinct(mut list: Vec<String>, name: String) -> Vec<String> {
    if !list.contains(&name) {
        list.push(name);
    }
    list
}
