//! What does a query see of a run, and of one step?

use super::survey::{NO_MODEL, NO_STOP};
use super::{INDEXING, Summary};
use crate::analysis::query::{Field, NumberField, Query, Subject};
use crate::analysis::verdict::Mark;
use crate::model::index::Group;
use crate::model::{CriticAction, Index, Outcome, StepHead, Symbol};

/// A run, as far as its summary tells.
///
/// - `status` is the word in the status column, and the manifest's own word unless that is a word of the status
///   column too: a manifest that says `running` proves nothing, so `status:running` finds what the board sees running.
/// - `stop` is `none` and `model` is `not recorded` where the files hold none.
/// - `critic` finds names; what critics decided is known of steps only.
/// - `err` is whether a step had an error or the run failed; unknown while a run without one is still being read.
/// - `state.KEY changed` finds runs in which some step changed KEY. The values of a state are not in a summary, so
///   `state.KEY:value` finds no run.
impl Subject for Summary {
    fn text(&self, out: &mut dyn FnMut(&str)) {
        out(self.key.as_str());
        out(&self.verdict.sentence);
        out(&self.verdict.second);
        [&self.run_id, &self.task, &self.model, &self.answer].into_iter().flatten().for_each(|text| out(text));
    }

    fn words(&self, field: Field, out: &mut dyn FnMut(&str)) {
        let mut all = |names: &[String]| names.iter().for_each(|name| out(name));
        match field {
            Field::Tool => all(&self.tools),
            Field::Critic => all(&self.critics),
            Field::Agent => all(&self.agents),
            Field::Status => {
                mark_words(self, out);
                let own = self.status.as_deref().filter(|word| !is_mark(word));
                own.into_iter().for_each(out);
            }
            Field::Outcome => {
                out(self.verdict.outcome.as_str());
                mark_words(self, out);
            }
            Field::Stop => out(stop_word(self)),
            Field::Liveness => out(self.life.liveness.word()),
            Field::Model => out(model_word(self)),
            Field::Task => self.task.as_deref().into_iter().for_each(out),
        }
    }

    fn numbers(&self, field: NumberField, out: &mut dyn FnMut(f64)) {
        let number = match field {
            NumberField::Steps => Some(self.steps as f64),
            NumberField::Events => Some(self.events as f64),
            NumberField::Tokens => self.tokens.map(|tokens| tokens as f64),
            NumberField::Score => self.last_score,
            NumberField::Duration => self.duration_ms.map(|ms| ms / 1e3),
            NumberField::Issues => Some(self.issues.0 as f64),
        };
        number.into_iter().for_each(out);
    }

    fn erred(&self) -> Option<bool> {
        let failed = self.verdict.outcome == Outcome::Failed;
        if self.partial { (self.errors > 0).then_some(true) } else { Some(self.errors > 0 || failed) }
    }

    fn state(&self, _key: &str, _out: &mut dyn FnMut(&str)) {}

    fn changed(&self, key: &str) -> bool {
        self.changed.iter().any(|changed| changed.eq_ignore_ascii_case(key))
    }
}

/// The word in the status column.
pub(super) fn status_word(run: &Summary) -> &'static str {
    if run.partial { INDEXING } else { run.verdict.mark.word() }
}

/// The recorded stop reason, or [`NO_STOP`].
pub(super) fn stop_word(run: &Summary) -> &str {
    run.verdict.stop_reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or(NO_STOP)
}

/// The model's name, or [`NO_MODEL`].
pub(super) fn model_word(run: &Summary) -> &str {
    run.model.as_deref().filter(|model| !model.is_empty()).unwrap_or(NO_MODEL)
}

/// The word in the status column, and its spelling without a blank: `own_rule` needs no quotes.
fn mark_words(run: &Summary, out: &mut dyn FnMut(&str)) {
    out(status_word(run));
    match run.verdict.mark {
        Mark::OwnRule if !run.partial => out("own_rule"),
        Mark::Critic if !run.partial => out("critic_stop"),
        _ => {}
    }
}

fn is_mark(word: &str) -> bool {
    Mark::ALL.iter().any(|mark| mark.word().eq_ignore_ascii_case(word)) || word.eq_ignore_ascii_case(INDEXING)
}

/// The ordinals of the steps that match `query`, rising.
pub fn matching_steps<'a>(index: &'a Index, query: &'a Query) -> impl Iterator<Item = usize> + 'a {
    let step = |ordinal| StepSubject::new(index, ordinal);
    (0..index.steps().len()).filter(move |ordinal| step(*ordinal).is_some_and(|step| query.matches(&step)))
}

/// One step of a run, as far as its index tells.
///
/// - `status` is the decision's mode, `critic` finds names and what they decided, `steps` is the ordinal, `events` and
///   `duration` are those of the step's events, `score` is each critic's score.
/// - Free words search the call, the names of all tools called, errors and the reason of a critic that objected.
/// - `stop`, `outcome`, `liveness`, `task`, `model` and `issues` belong to runs and find no step.
/// - The values of the state are not in the index, so `state.KEY:value` finds no step; `state.KEY changed` does.
#[derive(Debug, Clone, Copy)]
pub struct StepSubject<'a> {
    index: &'a Index,
    ordinal: usize,
    step: &'a StepHead,
    group: Option<&'a Group>,
}

impl<'a> StepSubject<'a> {
    /// The step at `ordinal`, if there is one.
    pub fn new(index: &'a Index, ordinal: usize) -> Option<Self> {
        let step = index.steps().get(ordinal)?;
        let group = index.round_of(ordinal);
        Some(Self { index, ordinal, step, group })
    }

    fn name(&self, symbol: Symbol, out: &mut dyn FnMut(&str)) {
        if symbol != Symbol::default() {
            out(self.index.name(symbol));
        }
    }
}

impl Subject for StepSubject<'_> {
    fn text(&self, out: &mut dyn FnMut(&str)) {
        out(&self.step.call);
        self.step.tools.iter().for_each(|tool| self.name(*tool, out));
        [&self.step.error, &self.step.critic_reason].into_iter().flatten().for_each(|text| out(text));
        if let Some((_, words)) = self.group.and_then(|group| group.error.as_ref()) {
            out(words);
        }
    }

    fn words(&self, field: Field, out: &mut dyn FnMut(&str)) {
        match field {
            Field::Status => self.name(self.step.mode, out),
            Field::Agent => self.name(self.step.agent, out),
            Field::Tool => self.step.tools.iter().for_each(|tool| self.name(*tool, out)),
            Field::Critic => self.step.critics.iter().for_each(|critic| {
                self.name(critic.name, out);
                match critic.action {
                    CriticAction::Continue => out("continue"),
                    CriticAction::Retry => out("retry"),
                    CriticAction::Stop => out("stop"),
                    CriticAction::Failed => out("failed"),
                    CriticAction::Other => {}
                }
            }),
            Field::Stop | Field::Outcome | Field::Liveness | Field::Task | Field::Model => {}
        }
    }

    fn numbers(&self, field: NumberField, out: &mut dyn FnMut(f64)) {
        match field {
            NumberField::Steps => out(self.ordinal as f64),
            NumberField::Events => self.group.iter().for_each(|group| out((group.end - group.first) as f64)),
            NumberField::Tokens => self.step.tokens.iter().for_each(|tokens| out(*tokens as f64)),
            NumberField::Score => self.step.critics.iter().filter_map(|critic| critic.score).for_each(out),
            NumberField::Duration => {
                let span = self.group.and_then(|group| Some(group.ended? - group.started?));
                span.into_iter().for_each(|micros| out(micros as f64 / 1e6));
            }
            NumberField::Issues => {}
        }
    }

    fn erred(&self) -> Option<bool> {
        let event = self.group.is_some_and(|group| group.error.is_some());
        self.step.fate.is_readable().then(|| event || !self.step.is_ok())
    }

    fn state(&self, _key: &str, _out: &mut dyn FnMut(&str)) {}

    fn changed(&self, key: &str) -> bool {
        self.step.changed.iter().any(|changed| self.index.name(*changed).eq_ignore_ascii_case(key))
    }
}
