//! Determines which rule caused a stop word. QitOS uses the same word for its budget and for a
//! criterion that counts the same thing. The stop check, the END event and the numbers show which
//! of them it was. Otherwise it's unknown.

use serde::{Deserialize, Serialize};

use super::criterion::{Criterion, checked, criterion};
use super::facts::{Facts, last_mode};
use crate::analysis::lost::lost;
use crate::analysis::newest::{after_the_end, newest_run};
use crate::analysis::stated::tokens;
use crate::analysis::timing::took_ms;
use crate::model::index::is_same_total;
use crate::model::{Agreement, Can, Fact, Index, Manifest, Op, Origin, Stated, StopReason};

/// The cause of the stop word of a run that records no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis) enum Cause<'a> {
    /// The word itself names it: an answer, a critic, the environment, an error.
    Named,
    /// The budget.
    Budget,
    /// A criterion in the list.
    Criterion(Criterion<'a>),
    /// No file records which rule, or the numbers refute the rule that the word names.
    NotRecorded,
}

/// Determines the cause of `word`, with which the newest run ended.
pub(in crate::analysis) fn cause<'a>(index: &'a Index, word: &str) -> Cause<'a> {
    let reason = StopReason::parse(word);
    let limit = matches!(
        reason,
        StopReason::BudgetSteps | StopReason::BudgetTime | StopReason::BudgetTokens
    );
    if let Some((_, criterion)) = criterion(index, word) {
        return Cause::Criterion(criterion);
    }
    let checked = checked(index, word);
    // An agent may have set the word itself, whatever then stopped the run: a final decision, its
    // own condition, the environment, or a criterion without words.
    if reason == StopReason::Stagnation
        || checked.is_some() && (limit || reason == StopReason::MaxSteps)
    {
        return Cause::NotRecorded;
    }
    if reason == StopReason::Final && last_mode(index).is_some_and(|mode| mode != "final") {
        return Cause::NotRecorded;
    }
    if !limit {
        return Cause::Named;
    }
    // The budget is checked before a step, and its END event is not `ok`. That of a criterion is.
    let ended_ok = index
        .segment()
        .and_then(|segment| segment.end.as_ref())
        .map(|(.., ok)| *ok);
    match (Spent::of(index, reason).is_used_up(), ended_ok) {
        (Some(false), _) | (_, Some(true)) | (None, None) => Cause::NotRecorded,
        (Some(true), _) | (None, Some(false)) => Cause::Budget,
    }
}

/// A limit of the task's budget and how much of it was used, as far as the files record it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::analysis) struct Spent {
    /// The usage, in steps, milliseconds or tokens.
    pub(in crate::analysis) measured: Option<f64>,
    /// The comparison.
    pub(in crate::analysis) op: Op,
    /// The limit, as stated by the records.
    pub(in crate::analysis) limit: Agreement<f64>,
}

impl Spent {
    /// Returns the limit that `reason` names. Has no numbers for any other reason.
    pub(in crate::analysis) fn of(index: &Index, reason: StopReason) -> Self {
        let of = |measured, op, unit| Self {
            measured,
            op,
            limit: index.limit(unit),
        };
        match reason {
            StopReason::BudgetSteps => of(counted_steps(index), Op::AtLeast, "steps"),
            StopReason::BudgetTime => of(took_ms(index), Op::Above, "ms"),
            StopReason::BudgetTokens => of(
                tokens(index).map(|tokens| tokens as f64),
                Op::AtLeast,
                "tokens",
            ),
            _ => Self {
                measured: None,
                op: Op::AtLeast,
                limit: Agreement::Unknown,
            },
        }
    }

    /// Returns how much of the limit that `reason` names was used before the last step began, if
    /// that was all of it. The budget is checked before each step, so under this limit the last
    /// step wouldn't have run.
    pub(in crate::analysis) fn overrun(index: &Index, reason: StopReason) -> Option<f64> {
        let spent = Self::of(index, reason);
        let limit = *spent.limit.agreed()?;
        let is_whole = index.newest_segments().len() <= 1
            && index.format().can.facts != Can::Yes
            && !index.is_partial();
        if !is_whole || index.format().is_one_file() || index.is_disordered() {
            return None;
        }
        let used = match reason {
            StopReason::BudgetSteps => spent
                .measured
                .map(|steps| steps - 1.0)
                .filter(|steps| *steps >= 0.0),
            StopReason::BudgetTokens => {
                let before = newest_run(index).rev().nth(after_the_end(index) + 1);
                before
                    .and_then(|(_, step)| step.tokens_total)
                    .map(|tokens| tokens as f64)
            }
            StopReason::BudgetTime => {
                time_before_the_last(index).filter(|used| !is_same_total("ms", *used, limit))
            }
            _ => None,
        };
        used.filter(|used| spent.op.holds(*used, limit))
    }

    /// Returns whether the limit was reached. `None` if a number is missing, or if records state
    /// both a limit that was reached and one that wasn't.
    pub(in crate::analysis) fn is_used_up(&self) -> Option<bool> {
        let stated = match &self.limit {
            Agreement::Unknown => return None,
            Agreement::Agreed(stated) | Agreement::Disputed(stated) => stated,
        };
        let measured = self.measured?;
        let is_reached = |stated: &Stated<f64>| self.op.holds(measured, stated.value);
        match (stated.iter().all(is_reached), stated.iter().any(is_reached)) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        }
    }
}

/// Returns how long the newest run had taken when its last step began, in milliseconds.
fn time_before_the_last(index: &Index) -> Option<f64> {
    let segment = index
        .segment()
        .filter(|segment| segment.goes_back.is_none())?;
    let begun = index.events().get(segment.init.as_ref()?.0)?.ts?;
    let ended = segment.end.as_ref().map_or(usize::MAX, |(at, ..)| *at);
    let last = index
        .groups()
        .iter()
        .rev()
        .find(|group| group.first < ended)?;
    Some((last.started.filter(|_| last.first >= segment.first_event)? - begun) as f64 / 1e3)
}

/// Returns the number of steps that ran, if each of them has a line.
fn counted_steps(index: &Index) -> Option<f64> {
    let (first, manifest, segment) = (
        index.newest_start(),
        index.manifest().get(),
        index.segment(),
    );
    // Steps without a line ran too, so the file doesn't show their number. A round cut short by an
    // exception wasn't a step.
    let ended = segment.is_some_and(|segment| segment.end.is_some())
        || manifest.is_some_and(|manifest| manifest.is_final());
    // The round that is running, or in which a run died, isn't a step yet.
    let begun = segment.map_or(0, |segment| {
        index.groups().len().saturating_sub(segment.first_group + 1)
    });
    let whole = if ended {
        lost(index).is_none()
    } else {
        begun <= index.newest_len()
    };
    // A line without a round either wasn't a step or can't be distinguished from one.
    let odd =
        !index.is_disordered() && (first..index.steps().len()).any(|n| index.group_of(n).is_none());
    let odd = odd && segment.is_some_and(|segment| segment.first_group < index.groups().len());
    (whole && !odd).then(|| index.newest_len().saturating_sub(after_the_end(index)) as f64)
}

/// A step limit and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLimit {
    /// The maximum number of steps.
    pub steps: i64,
    /// The source of the limit.
    pub from: LimitFrom,
}

/// How a limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitFrom {
    /// The records state who set it.
    SetBy(Origin),
    /// A criterion's own wording names it.
    Criteria,
    /// It's inferred from where the rule ended the run.
    Inferred,
    /// The agent's state contains it. It's checked in addition to the budget, and often larger.
    State,
}

impl LimitFrom {
    /// Returns the word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            LimitFrom::SetBy(origin) => origin.as_str(),
            LimitFrom::Criteria => "criteria",
            LimitFrom::Inferred => "inferred",
            LimitFrom::State => "state",
        }
    }

    /// Describes the source, as the end of a phrase about a limit or a rule: "set by the task".
    pub fn words(self) -> &'static str {
        match self {
            LimitFrom::SetBy(Origin::Task) => "set by the task",
            LimitFrom::SetBy(Origin::Engine) => "set by the engine",
            LimitFrom::SetBy(Origin::Cli) => "set on the command line",
            LimitFrom::SetBy(Origin::State) => "set in the agent's state",
            LimitFrom::SetBy(Origin::Default) => "default",
            LimitFrom::Criteria => "read from the stop detail",
            LimitFrom::Inferred => "inferred",
            LimitFrom::State => "set in the agent's state",
        }
    }

    /// Returns whether it's recorded that the run ends at this limit.
    pub fn is_budget(self) -> bool {
        matches!(self, LimitFrom::SetBy(_))
    }
}

impl Facts<'_> {
    pub(super) fn limit(&self) -> Option<StepLimit> {
        let limit = |from| move |steps| StepLimit { steps, from };
        let held = self
            .manifest
            .and_then(|manifest| manifest.budget?.steps)
            .map_or(Origin::Task, |held| held.from);
        let state = self.segment.and_then(|segment| segment.state_limit);
        // If another tool's run ended at its own count of steps, that isn't a limit on the steps
        // here.
        let is_counted = |manifest: &Manifest| {
            manifest
                .statements
                .iter()
                .any(|it| it.fact == Fact::Limit("steps"))
        };
        let is_own = !self.index.format().is_one_file() || self.manifest.is_some_and(is_counted);
        match Some(self.index.limit("steps"))
            .filter(|_| is_own)
            .unwrap_or(Agreement::Unknown)
        {
            Agreement::Agreed(stated) => stated.first().map(|stated| StepLimit {
                steps: stated.value as i64,
                from: LimitFrom::SetBy(held),
            }),
            Agreement::Disputed(_) => None,
            Agreement::Unknown => self
                .spent_steps()
                .map(limit(LimitFrom::Inferred))
                .or(state.map(limit(LimitFrom::State))),
        }
    }

    /// Returns the number of steps at which the budget ended the run. That's the step in the END
    /// event, which never began.
    fn spent_steps(&self) -> Option<i64> {
        let word = self
            .reason
            .filter(|word| StopReason::parse(word) == StopReason::BudgetSteps)?;
        let named = self
            .index
            .events()
            .get(self.segment?.end.as_ref()?.0)?
            .step_id;
        let done = i64::try_from(self.done).ok()?;
        (cause(self.index, word) == Cause::Budget && named == Some(done)).then_some(done)
    }
}
