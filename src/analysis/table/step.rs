//! The columns of the steps table, in order.

use std::borrow::Cow;
use std::sync::Arc;

use super::Read::{Flag, Number, Text, Texts, Time, Whole};
use super::run::Run;
use super::{Field, Read, whole};
use crate::analysis::newest::newest_run;
use crate::analysis::rule_replay::Counted;
use crate::analysis::timing::{began, took};
use crate::model::index::Group;
use crate::model::step::Usage;
use crate::model::time::day;
use crate::model::{CriticMark, Gate, StepHead, Symbol};
use crate::stop::StepFacts;

/// A step of the newest run.
#[derive(Debug)]
pub(crate) struct Step {
    run: Arc<Run>,
    n: usize,
    /// The index of its round.
    round: Option<usize>,
    counted: Option<Counted>,
    usage: Usage,
    address: String,
}

/// Returns the rows for the steps of a run, in order.
pub(crate) fn steps(run: &Arc<Run>) -> impl Iterator<Item = Step> {
    let unknown_from = run.record.steps_unknown.then_some(0);
    let first = [
        run.record.lost.map(|lost| lost.from),
        run.record.foreign,
        unknown_from,
    ]
    .into_iter()
    .flatten()
    .min();
    let lost = first.unwrap_or(u64::MAX);
    // Copied steps have their rows in the run they're copied from.
    let own = run.index.newest_start() + run.summary.copied_steps();
    // So do steps of sub-agents that have their own rows.
    let separate_children = run
        .summary
        .relation
        .separate_children
        .as_ref()
        .map(|separate_children| separate_children.steps(&run.index))
        .unwrap_or_default();
    newest_run(&run.index)
        .filter(move |(n, _)| *n >= own && !separate_children.contains(n))
        .map(move |(n, head)| {
            let usage = head.usage_alone(run.index.tokens_before(n));
            // A reply of a sub-agent doesn't change what the run's limits counted.
            let upto = run
                .course
                .partition_point(|counted| counted.step <= n as u64);
            let counted = upto
                .checked_sub(1)
                .and_then(|last| run.course.get(last))
                .copied();
            Step {
                run: Arc::clone(run),
                n,
                round: run.index.group_of(n),
                // After a missing step, the counts are unknown.
                counted: counted
                    .filter(|at| (at.step == n as u64 || head.is_nested) && (n as u64) < lost),
                usage,
                address: format!("{}?step={n}", run.place.address),
            }
        })
}

impl Step {
    fn head(&self) -> Option<&StepHead> {
        self.run.index.steps().get(self.n)
    }

    /// Returns the step if its line is readable. If it isn't, missing facts are unknown rather than
    /// absent.
    fn readable(&self) -> Option<&StepHead> {
        self.head().filter(|head| head.fate.is_readable())
    }

    fn round(&self) -> Option<&Group> {
        self.run.index.groups().get(self.round?)
    }

    /// Returns the facts that stop rules used.
    fn facts(&self) -> Option<&StepFacts> {
        let at = self
            .run
            .record
            .facts
            .binary_search_by_key(&(self.n as u64), |facts| facts.step);
        let nested = || {
            self.run
                .record
                .nested
                .iter()
                .map(|(_, facts)| facts)
                .find(|facts| facts.step == self.n as u64)
        };
        at.ok()
            .and_then(|at| self.run.record.facts.get(at))
            .or_else(nested)
    }

    fn name(&self, symbol: Symbol) -> Option<Cow<'_, str>> {
        Some(self.run.index.name(symbol))
            .filter(|name| !name.is_empty())
            .map(Cow::Borrowed)
    }

    fn names(&self, symbols: impl Iterator<Item = Symbol>) -> Vec<&str> {
        symbols.map(|symbol| self.run.index.name(symbol)).collect()
    }

    fn began(&self) -> Option<i64> {
        began(&self.run.index, self.round()?)
    }

    /// Returns the critic with the lowest score, or else the deciding one.
    fn critic(&self) -> Option<&CriticMark> {
        let head = self.head()?;
        head.lowest_critic()
            .or_else(|| head.critics.get(head.deciding()?))
            .or(head.critics.first())
    }

    fn model(&self) -> Option<Cow<'_, str>> {
        let of_run = || {
            self.run
                .index
                .manifest()
                .get()?
                .model_of_steps()
                .map(Cow::Borrowed)
        };
        self.name(self.head()?.model).or_else(of_run)
    }

    fn cost(&self, estimated: bool) -> Option<f64> {
        let facts = self.facts()?;
        // A sub-agent's reply has its cost in its own row.
        let cost = if self.run.index.format().is_one_file() {
            facts.cost_usd
        } else {
            facts.cost()
        };
        cost.filter(|_| says_cost(facts) && facts.cost_estimated == estimated)
    }
}

/// Returns whether a step records its cost. A step without a model call costs nothing for a rule,
/// and its record has no cost.
fn says_cost(facts: &StepFacts) -> bool {
    facts.cost_usd.is_some() || facts.late_cost_usd.is_some()
}

/// The columns of the steps table.
pub(crate) static STEPS: &[Field<Step>] = &[
    field(
        "transcript_id",
        Text(|step| Some(step.run.summary.key.as_str().into())),
    ),
    field("step", Whole(|step| whole(step.n))),
    field(
        "source_uri",
        Text(|step| Some(step.address.as_str().into())),
    ),
    field(
        "date",
        Text(|step| day(step.run.summary.started?).map(Cow::Owned)),
    ),
    field("at", Time(Step::began)),
    field("agent", Text(|step| step.name(step.head()?.agent))),
    field("model", Text(Step::model)),
    field(
        "tools",
        Texts(|step| Some(step.names(step.readable()?.tools()))),
    ),
    field(
        "tool_errors",
        Whole(|step| whole(step.head()?.tool_errors()?)),
    ),
    field("tokens_in", Whole(|step| whole(step.usage.input?))),
    field("tokens_out", Whole(|step| whole(step.usage.output?))),
    field("cost_usd", Number(|step| step.cost(false))),
    field(
        "duration_ms",
        Number(|step| Some(took(step.round()?)? as f64 / 1e3)),
    ),
    field("finish_reason", Text(|step| step.name(step.head()?.finish))),
    field("critic", Text(|step| step.name(step.critic()?.name))),
    field("score", Number(|step| step.head()?.lowest_score())),
    field(
        "changed_keys",
        Texts(|step| Some(step.names(step.readable()?.changed.iter().copied()))),
    ),
    // An unreadable line has no known tool call.
    field(
        "fingerprint",
        Text(|step| {
            let head = step.head()?;
            let known = head.fate.is_readable() && !head.call.is_empty();
            known.then(|| format!("{:016x}", head.asked_hash).into())
        }),
    ),
    field(
        "call",
        Text(|step| {
            Some(&*step.head()?.call)
                .filter(|call| !call.is_empty())
                .map(Cow::Borrowed)
        }),
    ),
    field("mode", Text(|step| step.name(step.head()?.mode))),
    field(
        "error",
        Text(|step| step.run.index.failure_of(step.n).map(Cow::Borrowed)),
    ),
    field("cost_estimated", Number(|step| step.cost(true))),
    field(
        "tokens",
        Whole(|step| whole(step.run.index.tokens_of(step.n)?)),
    ),
    // What limits had counted. A rule stops the run at the first step where its count reaches the
    // limit.
    field("steps_so_far", Whole(|step| whole(step.counted?.steps))),
    field("tokens_so_far", Whole(|step| whole(step.counted?.tokens?))),
    field("cost_so_far", Number(|step| step.counted?.cost_usd)),
    field(
        "tokens_asked",
        Whole(|step| whole(step.counted?.tokens_asked?)),
    ),
    field(
        "asked_before_end",
        Flag(|step| {
            step.counted
                .map(|at| at.completed && at.tokens_gate < Gate::AfterStep)
        }),
    ),
    field(
        "tokens_estimated",
        Flag(|step| {
            step.run
                .index
                .tokens_of(step.n)
                .map(|_| step.run.index.tokens_estimated(step.n))
        }),
    ),
    field("sub_agent", Flag(|step| Some(step.head()?.is_nested))),
];

const fn field(name: &'static str, read: Read<Step>) -> Field<Step> {
    Field::new(name, read)
}
