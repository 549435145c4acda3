//! What does the run table say about a run? One row of facts, taken from the index alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use super::copies::{Apart, CopiedPart, Fingerprint, Related, Relation};
use super::format;
use super::life::{Life, Outside, life};
use super::stated::{cost_usd, tokens};
use super::verdict::{RunStatus, Verdict, verdict};
use super::{
    facts, health,
    life::Liveness,
    newest::{copied, is_untold, kept_answer, newest_run, own_least_ms, own_ms},
};
use crate::model::index::{Distinct, RunTally};
use crate::model::price::Prices;
use crate::model::step::Usage;
use crate::model::{Can, Certainty, EventKind, Index, Outcome, RunKey, RunScore, Symbol};

/// What readers call the checks whose shares stand beside a reward; none of them is a score of the run.
const CHECKS: [&str; 5] = [
    "database",
    "actions met",
    "assertions met",
    "statements met",
    "told as asked",
];

/// The score that a run was given: the reward where there is one, else the least of all that are no parts of a reward.
fn given<'a>(scores: impl Iterator<Item = &'a RunScore> + Clone) -> Option<f64> {
    let whole = scores
        .clone()
        .find(|given| *given.name == *"reward")
        .and_then(|given| given.score);
    let is_part = |name: &str| name.starts_with("reward.") || CHECKS.contains(&name);
    let others = scores
        .filter(|given| !is_part(&given.name))
        .filter_map(|given| given.score);
    whole.or_else(|| others.min_by(f64::total_cmp))
}

#[cfg(test)]
mod tests;

/// What lists, search and headers need of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its name on the board; not written down, since it depends on how the roots were named.
    #[serde(skip, default = "unnamed")]
    pub key: RunKey,
    /// The directory, as the person would type it; not written down either.
    #[serde(skip, default = "no_path")]
    pub path: Arc<str>,
    /// The recorded run id.
    pub run_id: Option<String>,
    /// The manifest's word.
    pub status: Option<String>,
    /// How alive it is.
    pub life: Life,
    /// Why it stopped.
    pub verdict: Verdict,
    /// How often somebody began to write into the directory.
    pub segments: usize,
    /// How many of these, the last ones, make the newest run: somebody went on with it. All that follows is of that run.
    pub parts: usize,
    /// Step lines that are JSON.
    pub steps: usize,
    /// Event lines that are JSON.
    pub events: usize,
    /// Step lines; what the step limit counts.
    pub steps_now: usize,
    /// Those of them that are replies of sub-agents, and none of the run's own.
    pub steps_nested: usize,
    /// How many there were is not known: the records do not tell where each step begins, steps ran that have no line, or lines
    /// are there that are no steps.
    pub steps_untold: bool,
    /// Tokens, where recorded.
    pub tokens: Option<u64>,
    /// Whether any of them is known to be an estimate.
    pub tokens_estimated: bool,
    /// Whether they are those of a whole thread, with what runs took that it went on from, if any.
    pub tokens_of_thread: bool,
    /// How many steps do not say what they took, where that makes it more than the sum of the others, or unknown.
    pub tokens_untold: usize,
    /// How many steps do not say what they took, whether the run says it as a whole or not.
    pub steps_without_tokens: usize,
    /// What it cost in US dollars, where recorded.
    pub cost_usd: Option<f64>,
    /// The same where the run itself estimated it from prices of its own.
    pub cost_by_run_usd: Option<f64>,
    /// Where that is not recorded: the tokens by model, from which it can be estimated.
    pub spent: ThinVec<Spent>,
    /// The prices for an estimate; not written down, since a person may change them.
    #[serde(skip)]
    pub prices: Option<Arc<Prices>>,
    /// Run time in milliseconds: the writer's figure, else from the first to the last event.
    pub duration_ms: Option<f64>,
    /// Where that is unknown because a clock went back: the time from the first event to the last, a lower bound.
    pub duration_at_least_ms: Option<f64>,
    /// The lowest score of the run as a whole, else of the last step that has one.
    pub last_score: Option<f64>,
    /// The lowest score of each step with one, thinned.
    pub spark: ThinVec<f64>,
    /// The critics' names, in order of appearance.
    pub critics: ThinVec<String>,
    /// The tools' names, in order of appearance.
    pub tools: ThinVec<String>,
    /// The models that wrote its steps and its own, where there are several.
    pub models: ThinVec<String>,
    /// The agents' names, in order of appearance.
    pub agents: ThinVec<String>,
    /// The state keys that steps changed.
    pub changed: ThinVec<String>,
    /// The model's name.
    pub model: Option<String>,
    /// The task in words.
    pub task: Option<String>,
    /// The titles of the session, the one that counts first.
    pub titles: ThinVec<String>,
    /// The answer.
    pub answer: Option<String>,
    /// The run that started this one, or from which it branched.
    pub parent: Option<String>,
    /// The run of whose thread it is a later segment, in a file of its own.
    pub continues: Option<String>,
    /// Where it branched: how many steps at its beginning are those of its parent.
    pub branched_after: Option<u64>,
    /// What the trace is called that it was read from.
    pub format: String,
    /// Whether only its task says what it is about, and not its name.
    pub is_session: bool,
    /// The program that wrote it, with its version.
    pub tool: Option<String>,
    /// The directory that the agent worked in.
    pub project: Option<String>,
    /// How many prompts of a person it answers.
    pub turns: Option<u64>,
    /// How many runs it started.
    pub children: Option<u64>,
    /// The ids of those, as far as its own records name them.
    pub child_ids: ThinVec<String>,
    /// Whether each of its steps is one reply of the model.
    pub steps_are_replies: bool,
    /// Its recorded totals are with all that its child runs took.
    pub totals_with_children: bool,
    /// The total that a record of another tool states for the whole run.
    pub total: Option<u64>,
    /// Whether such a record says what may explain a difference to the steps.
    pub total_explained: bool,
    /// The scores that it was given as a whole, by who gave them.
    pub scores: ThinVec<GivenScore>,
    /// Whether it succeeded, where that is recorded.
    pub success: Option<bool>,
    /// Who took back what it came to, and why.
    pub invalidation: Option<String>,
    /// The tokens apart, as far as that is known.
    pub usage: Usage,
    /// Replies of the model.
    pub model_calls: Option<u64>,
    /// Calls of tools that it asked for.
    pub tool_calls: Option<u64>,
    /// Those that failed.
    pub tool_errors: Option<u64>,
    /// How many files its tools changed, as far as the trace tells.
    pub files_changed: Option<u64>,
    /// Microseconds since the epoch.
    pub started: Option<i64>,
    /// The newest recorded time, else the newest time a file changed; microseconds since the epoch.
    pub updated: Option<i64>,
    /// How many oddities the files have, and how many of them cost data.
    pub issues: (usize, usize),
    /// Steps in which something failed, as far as lines and events tell.
    pub errors: usize,
    /// Lines or events that may tell of more such steps are missing.
    pub errors_untold: bool,
    /// The file of events is missing.
    pub events_untold: bool,
    /// The reader has bytes before it that are not in the index yet: all counts are "at least".
    pub partial: bool,
    /// What it shares with its copies.
    pub fingerprint: Fingerprint,
    /// What the steps took that it begins with and that another run has: they are in none of the numbers above.
    pub copied: Option<CopiedPart>,
    /// How it relates to others that hold the same records; not written down, since that depends on them.
    #[serde(skip)]
    pub relation: Related,
}

/// A score that a run was given as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GivenScore {
    /// Who or what gave it.
    pub name: String,
    /// The number, or the grade in words, as it is shown; `None` where neither is recorded.
    pub value: Option<String>,
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

/// At most this many contradictions between copies are added to a run's own.
const MAX_DENIED: usize = 20;
/// At most this many scores of a run are kept.
const MAX_SCORES: usize = 100;

/// What steps of one model took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The model.
    pub model: String,
    /// All that it read.
    pub input: u64,
    /// Of it, what its cache held.
    pub cached: u64,
    /// All that it wrote.
    pub output: u64,
    /// Steps that do not say what they took.
    pub untold: usize,
    /// What steps cost that say so; their tokens are in none of the sums.
    pub paid: f64,
}

/// What a run cost, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Cost {
    /// As the trace says.
    Recorded(f64),
    /// By its tokens and a table of prices.
    Estimated(f64),
}

impl Cost {
    /// The amount.
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
    /// What is said where no step is there to show, without a full stop. Steps that are unknown are not said to be none.
    pub fn no_step(&self, index: &Index) -> &'static str {
        match (index.groups().is_empty(), self.life.liveness.may_grow()) {
            (true, true) => "No step has begun yet",
            (true, false) if self.steps_untold => {
                "No step has a line; how many there were is not known"
            }
            (true, false) => "No step was recorded",
            (false, true) => "No step has a line yet",
            (false, false) => "No step has a line; what is known of them is in their events",
        }
    }

    /// The run's model, and beside it those that wrote some of its steps.
    pub fn models_words(&self) -> Option<String> {
        let model = self.model.clone()?;
        let others: Vec<&str> = self
            .models
            .iter()
            .map(String::as_str)
            .filter(|other| *other != model)
            .collect();
        Some(if others.is_empty() {
            model
        } else {
            format!("{model}; of other steps {}", others.join(", "))
        })
    }

    /// What the session is called, by its user, else by its program.
    pub fn title(&self) -> Option<&str> {
        self.titles.first().map(String::as_str)
    }

    /// How many runs the directory holds.
    pub fn runs_here(&self) -> usize {
        (self.segments + 1).saturating_sub(self.parts.max(1))
    }

    /// Whether both say the same of a run, whatever it is called.
    pub fn is_like(&self, other: &Self) -> bool {
        let (prices, relation) = (self.prices.clone(), self.relation.clone());
        *self
            == Self {
                key: self.key.clone(),
                path: self.path.clone(),
                prices,
                relation,
                ..other.clone()
            }
    }

    /// Whether both say the same of a run, apart from what changes with the time of day.
    pub fn is_same_but_for_time(&self, other: &Self) -> bool {
        self.is_like(&Self {
            life: self.life.clone(),
            ..other.clone()
        })
    }

    /// The same run, whose cost can be estimated by these prices.
    #[must_use]
    pub fn priced(self, prices: &Arc<Prices>) -> Self {
        Self {
            prices: Some(prices).filter(|prices| !prices.is_empty()).cloned(),
            ..self
        }
    }

    /// The run whose steps it begins with, where that is known.
    pub fn copied_from(&self) -> Option<&str> {
        let declared = self
            .parent
            .as_deref()
            .filter(|_| self.copied_steps() > 0 && self.branched_after.is_some());
        self.relation
            .copied
            .as_ref()
            .map(|(from, _)| from.as_str())
            .or(declared)
    }

    /// Whether it counts: another file may hold all of it.
    pub fn counts(&self) -> bool {
        self.relation.duplicate_of.is_none()
    }

    /// How many steps at its beginning are copied from another run.
    pub fn copied_steps(&self) -> usize {
        self.copied.map_or(0, |copied| copied.steps)
    }

    /// The same run, as it relates to others. `index` is asked only where it begins with their steps.
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
        let own = match (copied, &relation.apart) {
            (Some(steps), _) => self.without_copied(&index(), steps),
            (None, Some(apart)) => self.without_children(&index(), apart),
            (None, None) => self,
        };
        let cost_usd = own
            .cost_usd
            .or(relation.cost_usd.filter(|_| copied.is_none()));
        let (children, parent) = (
            relation.children.or(own.children),
            relation.parent.clone().or(own.parent.clone()),
        );
        let mut run = Self {
            cost_usd,
            children,
            parent,
            ..own
        };
        for contradiction in relation
            .says
            .iter()
            .flat_map(|says| &says.contradictions)
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

    /// The same run without what counts in the rows of its children.
    fn without_children(mut self, index: &Index, apart: &Apart) -> Self {
        let (mut tokens, mut usage) = (Some(0_u64), Usage::of_nothing());
        for n in apart.steps(index) {
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
                self.tokens_untold = self.tokens_untold.saturating_sub(1);
            }
            tokens = tokens
                .zip(step.tokens)
                .map(|(sum, tokens)| sum.saturating_add(tokens));
            usage = usage.plus(step.usage.get());
        }
        let (tokens, usage) = if self.totals_with_children {
            (apart.tokens, apart.usage)
        } else {
            (tokens, usage)
        };
        let less = |all: Option<u64>, part: Option<u64>| all?.checked_sub(part?);
        let own = newest_run(index).filter(|(_, step)| !step.is_nested);
        let read: u64 = own
            .filter_map(|(_, step)| step.usage.get().input)
            .fold(0, u64::saturating_add);
        // What its own steps read is at least in what it took: else the total is without its children.
        let is_without = less(self.usage.input, usage.input).is_some_and(|input| input < read);
        if !is_without {
            self.tokens = less(self.tokens, tokens);
            self.usage = Usage {
                input: less(self.usage.input, usage.input),
                cached: less(self.usage.cached, usage.cached),
                output: less(self.usage.output, usage.output),
                reasoning: less(self.usage.reasoning, usage.reasoning),
            };
        }
        self
    }

    /// The same run without what its first `copied` steps took: that counts in the run that they were copied from.
    fn without_copied(mut self, index: &Index, copied: usize) -> Self {
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
        // Of a total that holds steps of which nothing is known, nobody knows the rest.
        let tokens = before
            .tokens_so_far
            .or((before.readable == 0 || is_of_steps).then_some(0));
        let tokens = tokens.filter(|_| is_of_steps || before.untold_tokens == 0);
        let less = |all: Option<u64>, less: Option<u64>| Some(all?.saturating_sub(less?));
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
        self.tokens = self
            .tokens
            .filter(|tokens| *tokens == 0)
            .or(less(self.tokens, tokens));
        self.tokens_untold = self.tokens_untold.saturating_sub(before.untold_tokens);
        self.steps_without_tokens = self
            .steps_without_tokens
            .saturating_sub(before.untold_tokens);
        let usage = self.usage;
        self.usage = if before.readable == 0 {
            usage
        } else {
            Usage {
                input: less(usage.input, before.usage.input),
                cached: less(usage.cached, before.usage.cached),
                output: less(usage.output, before.usage.output),
                reasoning: less(usage.reasoning, before.usage.reasoning),
            }
        };
        let all_paid = before
            .spent
            .iter()
            .all(|(_, spent)| spent.untold == 0 && spent.input == 0 && spent.output == 0);
        let paid: f64 = before.spent.iter().map(|(_, spent)| spent.paid).sum();
        let own_cost =
            |cost: Option<f64>| cost.filter(|_| all_paid).map(|cost| (cost - paid).max(0.0));
        (self.cost_usd, self.cost_by_run_usd) =
            (own_cost(self.cost_usd), own_cost(self.cost_by_run_usd));
        let cut_off = self.spent.iter().map(|spent| spent.untold).sum::<usize>();
        let cut_off = cut_off.saturating_sub(before.untold_tokens + own.untold_tokens);
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

    /// The steps that it has, where that is known.
    pub fn steps_known(&self) -> Option<usize> {
        (!self.steps_untold).then_some(self.steps)
    }

    /// How many events it has, where that is known.
    pub fn events_known(&self) -> Option<usize> {
        (!self.events_untold).then_some(self.events)
    }

    /// In how many steps something failed, where that is known.
    pub fn errors_known(&self) -> Option<usize> {
        (!self.errors_untold).then_some(self.errors)
    }

    /// How many runs its files tell of; `None` where the file that tells is missing.
    pub fn segments_known(&self) -> Option<usize> {
        (self.segments > 0 || !self.events_untold).then_some(self.segments)
    }

    /// Its tokens in words; where a step does not say what it took, that it was more, and where one estimates it, about how
    /// many.
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
        Some(match self.tokens_untold {
            0 => tokens,
            untold => format!("{tokens}; {} not say", steps_do(untold)),
        })
    }

    /// What is said before the number of its tokens.
    pub fn tokens_bound(&self) -> &'static str {
        match (self.tokens_untold > 0, self.tokens_estimated) {
            (false, false) => "",
            (false, true) => "about ",
            (true, false) => "at least ",
            (true, true) => "at least about ",
        }
    }

    /// How long it took in words: `12 s`, or `at least 12 s` where a clock went back.
    pub fn took_words(&self) -> Option<String> {
        let least = || {
            Some(format!(
                "at least {}",
                format::millis(self.duration_at_least_ms?)
            ))
        };
        self.duration_ms.map(format::millis).or_else(least)
    }

    /// Whether its counts of lines are those of `index`.
    pub fn counts_lines_of(&self, index: &Index) -> bool {
        let (steps, events) = lines(index);
        let own = self.events + self.copied.map_or(0, |copied| copied.events);
        (self.steps_now, own, self.partial) == (steps, events, index.is_partial())
    }

    /// What it cost: as recorded, else by estimate.
    pub fn cost(&self) -> Option<Cost> {
        self.cost_usd
            .map(Cost::Recorded)
            .or_else(|| self.cost_estimated_usd().map(Cost::Estimated))
    }

    /// What it cost in words, with what an estimate is made from.
    pub fn cost_words(&self) -> Option<String> {
        Some(match self.cost()? {
            Cost::Recorded(usd) => format::usd(usd),
            Cost::Estimated(usd) => format!("~{}, {}", format::usd(usd), self.estimated_from()?),
        })
    }

    /// Where the prices of its estimate stand: `estimated from prices.toml`.
    pub fn estimated_from(&self) -> Option<String> {
        if self.cost_by_run_usd.is_some() {
            return Some("estimated by the run itself".to_owned());
        }
        Some(format!(
            "estimated from {}",
            format::visible_line(self.prices.as_deref()?.source())
        ))
    }

    /// What it cost by its tokens, where that is not recorded: as the run itself estimated it, else by the prices here. `None`
    /// where a step does not say what it took or a model has no price.
    pub fn cost_estimated_usd(&self) -> Option<f64> {
        if self.cost_by_run_usd.is_some() {
            return self.cost_by_run_usd;
        }
        let prices = self
            .prices
            .as_deref()
            .filter(|_| self.cost_usd.is_none() && !self.spent.is_empty())?;
        let cost = |spent: &Spent| {
            let usage = Usage {
                input: Some(spent.input),
                cached: Some(spent.cached),
                output: Some(spent.output),
                reasoning: None,
            };
            let is_all_paid = spent.input == 0 && spent.output == 0;
            let tokens = if is_all_paid {
                0.0
            } else {
                prices.cost(&spent.model, usage)?
            };
            (spent.untold == 0).then_some(tokens + spent.paid)
        };
        self.spent.iter().map(cost).sum()
    }
}

/// "1 step does", "2 steps do".
pub(super) fn steps_do(steps: usize) -> String {
    format!(
        "{} {}",
        format::counted(steps, "step"),
        if steps == 1 { "does" } else { "do" }
    )
}

/// How many of the state's keys that steps changed are files; `None` where the format does not tell of files, and where it
/// tells of some and of none here: commands change files as well.
fn files_changed(index: &Index) -> Option<u64> {
    let (format, changed) = (index.format(), index.tally().run.changed.iter());
    let files = changed
        .filter(|key| index.name(*key).starts_with("files."))
        .count() as u64;
    (format.is_one_file() && (files > 0 || format.can.state == Can::Yes)).then_some(files)
}

/// The tokens apart: as the run says, else those of its steps, where they add up to what it took.
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
        ..whole
    }
}

/// Replies of the model: as the run counts them, else of another tool's run the steps are nothing else, of ours events tell of them, and where none does
/// that may be because no model was asked.
fn model_calls(index: &Index) -> Option<u64> {
    let format = index.format();
    if format.is_one_file() {
        let manifest = index.manifest().get();
        let untold =
            manifest.is_some_and(|manifest| manifest.steps_untold || manifest.replies_untold);
        let seen = (format.tells_replies && !untold).then_some(index.tally().run.readable as u64);
        return manifest.and_then(|manifest| manifest.model_calls).or(seen);
    }
    let outputs: usize = index
        .newest_segments()
        .iter()
        .map(|segment| segment.outputs)
        .sum();
    Some(outputs as u64).filter(|outputs| *outputs > 0)
}

/// The tokens by model, where the run records no cost; a step that does not name its model is the run's, and so are
/// `untold` steps that have no line.
fn spent(index: &Index, tally: &RunTally, untold: usize) -> Vec<Spent> {
    let manifest = index.manifest().get();
    if manifest.is_some_and(|manifest| manifest.cost_usd.is_some()) {
        return Vec::new();
    }
    let of_run = manifest
        .and_then(|manifest| manifest.model_of_steps())
        .unwrap_or_default();
    let spent = |(model, tally): &(Symbol, crate::model::index::Spent)| Spent {
        model: Some(index.name(*model))
            .filter(|name| !name.is_empty())
            .unwrap_or(of_run)
            .to_owned(),
        input: tally.input,
        cached: tally.cached,
        output: tally.output,
        untold: tally.untold,
        paid: tally.paid,
    };
    let all = || tally.spent.iter();
    // Where nothing is known of tokens there is nothing to estimate.
    let told = all().any(|(_, spent)| spent.input + spent.output > 0 || spent.paid > 0.0);
    if !told {
        return Vec::new();
    }
    let mut models: Vec<Spent> = all().map(spent).collect();
    match models.iter_mut().find(|spent| spent.model == of_run) {
        Some(spent) => spent.untold += untold,
        None if untold > 0 => {
            let model = of_run.to_owned();
            models.push(Spent {
                model,
                input: 0,
                cached: 0,
                output: 0,
                untold,
                paid: 0.0,
            });
        }
        None => {}
    }
    models
}

/// The run's model and those of its steps, where that is more than one.
fn models(index: &Index) -> Vec<String> {
    let of_run = index
        .manifest()
        .get()
        .and_then(|manifest| manifest.model.as_deref());
    let of_steps = index
        .tally()
        .run
        .spent
        .iter()
        .map(|(model, _)| index.name(*model))
        .filter(|name| !name.is_empty());
    let mut all: Vec<String> = Vec::new();
    for model in of_run.into_iter().chain(of_steps) {
        if all.iter().all(|known| known != model) {
            all.push(model.to_owned());
        }
    }
    if all.len() > 1 { all } else { Vec::new() }
}

/// How many rounds of the newest run have an error and no step line.
fn failed_without_line(index: &Index) -> usize {
    if index.format().is_one_file() || index.count_without_line() == 0 {
        return 0;
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
        .filter(|round| {
            index
                .groups()
                .get(*round)
                .is_some_and(|group| group.error.is_some())
        })
        .count()
}

/// How many step lines and readable event lines the newest run has.
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

/// Sums a run up.
pub fn summary(
    key: &RunKey,
    path: impl Into<Arc<str>>,
    index: &Index,
    outside: Outside,
) -> Summary {
    let life = life(index, outside);
    let written = outside.written.map(|(_, newest)| newest);
    let manifest = index.manifest().get();
    let init = index
        .segment()
        .and_then(|segment| segment.init.as_ref())
        .map(|(_, init)| init);
    let text = |text: Option<&Box<str>>| text.map(|text| text.to_string());
    let run = &index.tally().run;
    let names = |symbols: &Distinct| {
        symbols
            .iter()
            .map(|symbol| index.name(symbol).to_owned())
            .collect::<Vec<_>>()
    };
    let segments = index.newest_segments();
    let manifest_time = manifest.and_then(|manifest| manifest.updated_at);
    // A clock may have gone back, and lines of a session need not stand in the order of their times.
    let newest = index
        .segments()
        .iter()
        .filter_map(|segment| segment.span)
        .map(|(_, latest)| latest)
        .max();
    // What a record began may have gone on after the newest of them was written.
    let first_group = segments.first().map_or(0, |segment| segment.first_group);
    let until = index
        .groups()
        .range(first_group..index.groups().len())
        .filter_map(|group| group.until)
        .max();
    let recorded = newest.max(manifest_time).max(until);
    let run_scores = manifest.into_iter().flat_map(|manifest| &manifest.scores);
    let (steps, events) = lines(index);
    // Where nothing is known of all of them, nothing is known of each that says nothing.
    let are_of_steps =
        tokens(index).is_none() || manifest.is_some_and(|manifest| manifest.tokens_of_steps);
    let is_summed_up = manifest.is_some_and(|manifest| manifest.tokens.is_some());
    // While it goes on, its numbers are those so far. A step in which it broke off is done anew where somebody goes on.
    let cut_off = usize::from(life.liveness.is_over() && facts::has_reply_without_line(index));
    let broken_off = facts::spent_without_line(index).filter(|_| cut_off > 0 && !is_summed_up);
    // Steps without a line may have called anything.
    let is_counted = facts::is_counted(index);
    // So may those whose results alone are there.
    let unread = facts::unread(index);
    let has_calls = is_counted
        && unread == 0
        && manifest.is_none_or(|manifest| manifest.answers_without_calls == 0);
    let took = own_ms(index);
    let steps_untold = is_untold(index) || !is_counted || index.away().is_some();
    let events_untold = !index.format().is_one_file() && !index.events_file().exists;
    // An event that cannot be read may tell of an error.
    let errors_untold = steps_untold
        || events_untold
        || unread > 0
        || segments.iter().any(|segment| segment.unreadable > 0);
    // Of a run none of whose steps is told nothing that steps do is counted.
    let nothing_told = run.readable == 0 && is_untold(index);
    let whole = Summary {
        key: key.clone(),
        path: path.into(),
        run_id: text(manifest.and_then(|manifest| manifest.run_id.as_ref())),
        status: text(manifest.and_then(|manifest| manifest.status.as_ref())),
        verdict: if index.is_partial() {
            Verdict::of_unread(steps)
        } else {
            verdict(index, &life)
        },
        segments: index.segments().len(),
        parts: segments.len(),
        // A line that cannot be read is a step where other records count as many.
        steps: if unread > 0 && is_counted {
            steps
        } else {
            run.readable
        },
        events,
        steps_now: steps,
        // Where all are, nobody says what they are nested in.
        steps_nested: if run.nested < run.readable {
            run.nested
        } else {
            0
        },
        steps_untold,
        // What is recorded of the step in which the run broke off counts; it may have taken more.
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
        tokens_of_thread: manifest.is_some_and(|manifest| manifest.tokens_of_thread),
        tokens_untold: if are_of_steps { run.untold_tokens } else { 0 }
            + if is_summed_up { 0 } else { cut_off },
        steps_without_tokens: run.untold_tokens + cut_off,
        cost_usd: cost_usd(index)
            .filter(|_| manifest.is_none_or(|manifest| !manifest.cost_estimated)),
        cost_by_run_usd: manifest
            .filter(|manifest| manifest.cost_estimated)
            .and_then(|manifest| manifest.cost_usd),
        spent: spent(index, run, cut_off).into(),
        prices: None,
        duration_ms: took,
        duration_at_least_ms: if took.is_none() {
            own_least_ms(index)
        } else {
            None
        },
        last_score: given(run_scores.clone())
            .or(run.last_score.filter(|_| !index.has_disordered_steps())),
        spark: run.lows.as_slice().into(),
        critics: run_scores
            .clone()
            .map(|given| given.name.to_string())
            .fold(names(&run.critics), distinct)
            .into(),
        tools: names(&run.tools).into(),
        models: models(index).into(),
        agents: names(&run.agents)
            .into_iter()
            .chain(text(manifest.and_then(|m| m.agent.as_ref())))
            .fold(Vec::new(), distinct)
            .into(),
        changed: names(&run.changed).into(),
        model: text(
            manifest
                .and_then(|manifest| manifest.model.as_ref())
                .or(init.and_then(|init| init.model.as_ref())),
        ),
        task: text(init.and_then(|init| init.task.as_ref())),
        titles: manifest
            .iter()
            .flat_map(|manifest| &manifest.titles)
            .map(|title| title.to_string())
            .collect(),
        answer: kept_answer(index).map(str::to_owned),
        branched_after: manifest.and_then(|manifest| manifest.branched_after),
        continues: text(manifest.and_then(|manifest| manifest.continues.as_ref())),
        parent: text(manifest.and_then(|manifest| manifest.parent.as_ref())),
        format: index.format().name.to_owned(),
        is_session: index.format().is_session,
        tool: text(manifest.and_then(|manifest| manifest.tool.as_ref())),
        project: text(manifest.and_then(|manifest| manifest.project.as_ref())),
        turns: manifest
            .and_then(|manifest| manifest.turns)
            .filter(|turns| *turns > 0 || !nothing_told),
        children: manifest.and_then(|manifest| manifest.children),
        steps_are_replies: index.format().tells_replies,
        child_ids: manifest
            .iter()
            .flat_map(|manifest| &manifest.child_ids)
            .map(|id| id.to_string())
            .collect(),
        totals_with_children: manifest.is_some_and(|manifest| manifest.totals_with_children),
        total: manifest
            .and_then(|manifest| manifest.total.as_ref())
            .map(|total| total.tokens),
        total_explained: manifest
            .and_then(|manifest| manifest.total.as_ref())
            .is_some_and(|it| !it.aside.is_empty()),
        scores: run_scores.take(MAX_SCORES).map(GivenScore::of).collect(),
        success: manifest.and_then(|manifest| manifest.success),
        invalidation: text(manifest.and_then(|manifest| manifest.invalidation.as_ref())),
        usage: match broken_off {
            Some(more) => usage(index).with_reply(more.input, more.output),
            None => usage(index),
        },
        model_calls: model_calls(index),
        tool_calls: Some(run.calls).filter(|_| has_calls && !nothing_told),
        // Where nobody says how a call went, nobody knows whether it failed.
        tool_errors: Some(run.failed_calls)
            .filter(|_| !run.untold_calls && has_calls && !nothing_told),
        files_changed: files_changed(index),
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
        errors: index.failed_steps() + failed_without_line(index),
        errors_untold,
        events_untold,
        partial: index.is_partial(),
        fingerprint: Fingerprint::of(index),
        copied: None,
        relation: Related::default(),
        life,
    };
    match copied(index) {
        Some(copied) => whole.without_copied(index, copied),
        None => whole,
    }
}

impl Summary {
    /// The same of a run of which nothing was read yet: what is not known of it is not concluded from its absence.
    #[must_use]
    pub fn unread(self) -> Self {
        Self {
            verdict: Verdict::of_unread(0),
            partial: true,
            ..self
        }
    }
}

impl Verdict {
    /// Of a run that is still being read: there is none yet.
    fn of_unread(steps: usize) -> Self {
        Self {
            sentence: format!("Being read, {} so far", format::counted(steps, "step")),
            second: String::new(),
            outcome: Outcome::Unknown,
            mark: RunStatus::Unknown,
            certainty: Certainty::Unknown,
            answered: false,
            contradictions: Vec::new(),
            stop_reason: None,
            step: None,
            limit: None,
        }
    }
}

fn distinct(mut list: Vec<String>, name: String) -> Vec<String> {
    if !list.contains(&name) {
        list.push(name);
    }
    list
}
