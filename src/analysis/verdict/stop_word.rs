//! Describes a stop word in one sentence, for runs that record a word but no verdict, such as those
//! of QitOS.

use super::RunStatus;
use super::cause::{Cause, Spent, cause};
use super::criterion::{Criterion, Own};
use super::facts::{Facts, steps};
use super::wording::{Note, NoteKind, Wording};
use crate::analysis::format::{self, count, millis, number, score};
use crate::analysis::lost::is_counted;
use crate::analysis::newest::{has_answer, kept_answer};
use crate::analysis::stated::tokens;
use crate::analysis::timing::took_ms;
use crate::model::index::{Segment, is_same_total};
use crate::model::names::the_critic;
use crate::model::{
    Code, CriticAction, Ended, Index, IssueKind, Manifest, Outcome, StopReason, TraceFile,
};
use crate::stop;

/// Returns the outcome and the status that a stop reason implies.
pub(super) fn classify(reason: StopReason) -> (Outcome, RunStatus) {
    use StopReason as R;
    match reason {
        R::Success | R::Final => (Outcome::Completed, RunStatus::Answered),
        R::AgentCondition | R::EnvTerminal => (Outcome::Completed, RunStatus::Stopped),
        R::MaxSteps | R::BudgetSteps | R::BudgetTime | R::BudgetTokens => {
            (Outcome::Truncated, RunStatus::Limit)
        }
        R::Stagnation => (Outcome::Halted, RunStatus::Limit),
        R::CriticStop => (Outcome::Halted, RunStatus::Critic),
        R::ContextOverflow => (Outcome::Failed, RunStatus::Limit),
        R::UnrecoverableError | R::TaskValidationFailed | R::EnvCapabilityMismatch => {
            (Outcome::Failed, RunStatus::Error)
        }
        R::CancelledImmediate | R::CancelledAfterStep | R::Interrupt => {
            (Outcome::Cancelled, RunStatus::Cancelled)
        }
        R::Other => (Outcome::Unknown, RunStatus::Unknown),
    }
}

/// Returns the sentence for a run that died and has no readable events.
pub(super) fn without_events(index: &Index, step: Option<String>) -> String {
    let after = step.map_or_else(
        || "before step 0".to_owned(),
        |step| format!("after {step}"),
    );
    if is_unreadable(index, TraceFile::Events) {
        return format!("Unknown end {after}: the events can't be read");
    }
    format!("Died {after}: no events were written")
}

/// Returns the sentence for a running run without steps and events.
pub(super) fn nothing_yet(index: &Index) -> &'static str {
    let unreadable = TraceFile::ALL
        .iter()
        .any(|file| is_unreadable(index, *file));
    if unreadable {
        "Unreadable so far"
    } else {
        "Started; nothing written yet"
    }
}

/// Returns whether a file contains something that isn't a readable record.
fn is_unreadable(index: &Index, file: TraceFile) -> bool {
    use IssueKind::{Away, Foreign, NotJson, TooLong, Torn, Unreadable};
    let issues = index.issues().listed().iter().chain(index.passing_issues());
    issues.into_iter().any(|issue| {
        issue.file == file
            && matches!(
                issue.kind,
                Unreadable | Away | Torn | NotJson | Foreign | TooLong
            )
    })
}

impl Facts<'_> {
    /// Returns the sentence for `word`.
    pub(super) fn stopped(&self, word: &str) -> Wording {
        let wording = match cause(self.index, word) {
            Cause::Named | Cause::Budget => self.named(word),
            Cause::Criterion(criterion) => self.criterion(criterion, word),
            // The word says that the run answered, whichever rule detected it.
            Cause::NotRecorded if StopReason::parse(word).says_answered() => self.named(word),
            Cause::NotRecorded => {
                let done = steps(self.done);
                format!("Stopped with \"{word}\" after {done}; the rule isn't recorded").into()
            }
        };
        wording
            .note(self.refusal(classify(StopReason::parse(word)).0))
            .noted(self.asides(word))
    }

    /// Describes an answer in the last step that didn't end the run.
    pub(super) fn refusal(&self, outcome: Outcome) -> &'static str {
        let accepted = matches!(outcome, Outcome::Completed | Outcome::Unknown);
        let refused = self.answers() && !accepted && !has_answer(self.index);
        if refused {
            "the answer wasn't accepted"
        } else {
            ""
        }
    }

    /// Describes a run that a criterion ended.
    fn criterion(&self, criterion: Criterion<'_>, word: &str) -> Wording {
        let reason = StopReason::parse(word);
        let answered = reason.says_answered();
        let done = steps(self.done);
        let words = criterion.words;
        let reading = criterion.reading();
        let reached = reading
            .as_ref()
            .and_then(|reading| Some((reading.measured()?, reading.limit()?, &*reading.unit)));
        let at_limit = |headline: &str| {
            let after = self.step_after("after");
            match reached {
                Some(_) => Wording::limit(headline, &after, reached),
                None => Wording::limit(headline, &format!("{after}: {words}"), None),
            }
        };
        match criterion.own {
            Some(Own::Result) => self.named(word),
            // It compares the id of the last step, which isn't the number of steps.
            Some(Own::Steps) => match reached {
                Some((_, limit, _)) => {
                    let rest = format!("{} (limit {})", self.step_after("after"), number(limit));
                    Wording::limit("Step limit reached", &rest, None)
                }
                None => at_limit("Step limit reached"),
            },
            Some(Own::Time) => {
                let counted = criterion.reading().and_then(|reading| reading.measured());
                let longer = counted.zip(took_ms(self.index)).filter(|(counted, took)| {
                    counted > took && !is_same_total("ms", *counted, *took)
                });
                let longer = longer.map_or_else(String::new, |(counted, took)| {
                    let (counted, took) = (millis(counted), millis(took));
                    format!(
                        "the criterion measured {counted}, but this run took {took}: its clock started earlier or is wrong"
                    )
                });
                at_limit("Time limit reached").note(&longer)
            }
            Some(Own::Tokens) => at_limit("Token limit reached"),
            Some(Own::Stagnation) => {
                let number = words.trim_start_matches("stagnant_steps=");
                // The criterion keeps its count if the same engine runs again.
                let checked = criterion.reading().and_then(|reading| reading.measured());
                let is_older =
                    checked.is_some_and(|checked| checked > self.done as f64) && self.is_whole();
                let (span, rest) = match is_older {
                    true => (
                        format!("{number} checks"),
                        format!(
                            " in a row, including an earlier run of the same engine (this run has {done})"
                        ),
                    ),
                    false => (format!("{number} steps"), " in a row".to_owned()),
                };
                let brief = format!("State unchanged for {span}");
                Wording::new(format!("{brief}{rest}"), brief)
            }
            None if answered => self.named(word).basis(words.to_owned()),
            None => {
                format!("Stopped by a criterion after {done}: {words} (recorded as {word})").into()
            }
        }
    }

    /// Returns whether each step that ran has its line.
    fn is_whole(&self) -> bool {
        is_counted(self.index)
    }

    /// Describes the word itself.
    fn named(&self, word: &str) -> Wording {
        let bracketed =
            |text: Option<&str>| text.map_or_else(String::new, |text| format!(" ({text})"));
        if let Some(wording) = self.of_disputed_limit(word) {
            return wording;
        }
        let reason = StopReason::parse(word);
        let headline = stop::budget_of(reason).map_or("Limit reached", |row| row.headline);
        let sentence = match reason {
            // QitOS evaluates no success criteria. Its agents and rules set the word themselves.
            StopReason::Success => {
                format!("Answered{} (recorded as {word})", self.step_after("at"))
            }
            StopReason::Final => format!("Answered{}", self.step_after("at")),
            StopReason::BudgetSteps => match self.limit().filter(|limit| limit.from.is_budget()) {
                Some(limit) => {
                    let reached = (self.done as f64, limit.steps as f64, "steps");
                    return Wording::limit(headline, "", Some(reached));
                }
                None => return Wording::limit(headline, &self.step_after("after"), None),
            },
            StopReason::MaxSteps => {
                let headline = stop::row(word).and_then(|row| row.headline);
                return Wording::limit(headline.unwrap_or(word), &self.step_after("after"), None);
            }
            StopReason::BudgetTime => {
                let took = took_ms(self.index);
                let took = took.map_or_else(String::new, |took| format!(" after {}", millis(took)));
                return Wording::limit(headline, &took, None);
            }
            StopReason::BudgetTokens => {
                let used = tokens(self.index);
                let used = used.map_or_else(String::new, |tokens| {
                    format!(" after {} tokens", count(tokens))
                });
                return Wording::limit(headline, &used, None);
            }
            StopReason::ContextOverflow => {
                let overflow = self.segment.and_then(|segment| segment.overflow.as_ref());
                let words = overflow.map_or_else(String::new, |(_, words)| format!(": {words}"));
                let head = format!("{}{words}", Ended::CONTEXT_FULL);
                return Wording::new(head, Ended::CONTEXT_FULL.to_owned());
            }
            StopReason::AgentCondition => format!(
                "The agent's own stop condition was met{}",
                self.step_after("after")
            ),
            StopReason::CriticStop => return self.critic_stop(),
            StopReason::Stagnation => "State unchanged for too long".to_owned(),
            StopReason::EnvTerminal => {
                format!("The environment ended the episode{}", self.step_after("at"))
            }
            StopReason::TaskValidationFailed => {
                format!(
                    "Not started: the task failed validation{}",
                    bracketed(self.preflight_issue())
                )
            }
            // QitOS uses the same reason for an environment that fails its health check.
            StopReason::EnvCapabilityMismatch => {
                let issue = self.preflight_issue();
                let unhealthy = issue.is_some_and(|issue| issue.starts_with("ENV_HEALTH"));
                let why = if unhealthy {
                    "the environment is unhealthy"
                } else {
                    "the environment lacks a required capability"
                };
                format!("Not started: {why}")
            }
            StopReason::UnrecoverableError => self.error(),
            // Cancellation is checked before a step. When it was requested isn't recorded.
            StopReason::CancelledImmediate => format!("Cancelled {}", self.place()),
            StopReason::CancelledAfterStep => format!("Cancelled{}", self.step_after("after")),
            StopReason::Interrupt => format!("Interrupted from outside {}", self.place()),
            StopReason::Other => {
                format!("Stopped with \"{word}\", an unknown stop reason")
            }
        };
        sentence.into()
    }

    /// Describes a run that a budget ended, if records disagree on its limit.
    fn of_disputed_limit(&self, word: &str) -> Option<Wording> {
        let reason = StopReason::parse(word);
        let what = stop::budget_of(reason)?.headline;
        let unit = match reason {
            StopReason::BudgetSteps => "steps",
            StopReason::BudgetTime => "ms",
            StopReason::BudgetTokens => "tokens",
            _ => return None,
        };
        let spent = Spent::of(self.index, reason);
        let measured = spent
            .measured
            .or((reason == StopReason::BudgetSteps).then_some(self.done as f64));
        let disputed =
            self.disputed_limit(what, &self.index.limit(unit), (measured, spent.op, unit));
        disputed.or_else(|| self.disputed_total(what, unit))
    }

    /// Returns notes, such as on an answer that exists although something else ended the run.
    pub(super) fn asides(&self, word: &str) -> Vec<Note> {
        let mut asides = Vec::new();
        let answered = StopReason::parse(word).says_answered();
        let is_kept = self.manifest.is_some() && kept_answer(self.index).is_some();
        if !answered && is_kept && !StopReason::parse(word).is_preflight() {
            asides.push(Note::new(NoteKind::Other, "an answer was ready"));
        }
        if answered && self.is_unsuccessful() {
            asides.push(Note::new(
                NoteKind::Other,
                "but success is recorded as false",
            ));
        }
        // A resumed run has several segments.
        let segments = self.index.newest_segments();
        let sum = |of: fn(&Segment) -> usize| segments.iter().map(of).sum();
        let (retries, recovered) = (
            sum(|segment| segment.retries),
            sum(|segment| segment.recoveries),
        );
        if retries > 0 {
            let words = match retries {
                1 => "1 critic retry".to_owned(),
                _ => format!("{retries} critic retries"),
            };
            asides.push(Note::new(NoteKind::Other, words));
        }
        if recovered > 0 && StopReason::parse(word) != StopReason::UnrecoverableError {
            let words = format!("after {}", format::counted(recovered, "recovered error"));
            asides.push(Note::new(NoteKind::Recovered, words));
        }
        asides
    }

    pub(super) fn critic_stop(&self) -> Wording {
        let reason = self
            .segment
            .and_then(|segment| segment.critics.as_ref())
            .filter(|(_, stopped, _)| *stopped);
        let (mut who, mut at) = ("a critic".to_owned(), String::new());
        let mut why = reason.map(|(_, _, reason)| reason.to_string());
        if let Some((_, step)) = self.last
            && let Some(mark) = step
                .critics
                .iter()
                .find(|mark| mark.action == CriticAction::Stop)
        {
            who = the_critic(self.index.name(mark.name)).into_owned();
            at = mark
                .score
                .map_or_else(String::new, |value| format!(" (score {})", score(value)));
            why = why.or_else(|| step.critic_reason.as_deref().map(str::to_owned));
        }
        let why = why
            .filter(|why| !why.is_empty())
            .map_or_else(String::new, |why| format!(": {why}"));
        let name = who.strip_prefix("the critic ").unwrap_or(&who);
        let brief = format!("Critic stop: {name}{at}{why}");
        Wording::new(format!("Stopped by {who}{at}{why}"), brief)
    }

    pub(super) fn error(&self) -> String {
        if let Some(failure) = self.manifest.and_then(Manifest::fatal) {
            let step = failure
                .step_id
                .map_or_else(|| self.step_now(), |id| format!("step {id}"));
            let words = failure.message.trim_end_matches('.');
            let is_first = self.stop.is_some_and(|stop| stop.code == Code::StepFailed);
            let what = if failure.is_given_up() && !is_first {
                "Recovery gave up"
            } else {
                "Failed"
            };
            // The evidence names the category.
            return format!("{what} in {step}: {words}");
        }
        match self.segment.and_then(|segment| segment.error.as_ref()) {
            Some((_, text)) => format!(
                "Failed in {}: {}",
                self.step_now(),
                text.trim_end_matches('.')
            ),
            None => format!(
                "Failed in {}; the error message isn't recorded",
                self.step_now()
            ),
        }
    }

    /// Returns whether a file records the error that ended the run.
    pub(super) fn has_error(&self) -> bool {
        self.manifest
            .is_some_and(|manifest| !manifest.failures.is_empty())
            || self.segment.is_some_and(|segment| segment.error.is_some())
    }

    fn preflight_issue(&self) -> Option<&str> {
        self.segment?.end.as_ref()?.1.issue.as_deref()
    }

    pub(super) fn no_reason(&self) -> String {
        match self.step() {
            Some(step) => format!("Ended after {step} without a recorded reason"),
            None => "Ended without a recorded reason or step".to_owned(),
        }
    }
}
