//! Finds the earliest sign of trouble in the newest run, which may be long before the end.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::chain::{
    Repeat, Repeats, WAIT, describe_failure, failed_command, is_fall, key, of_engine,
};
use crate::analysis::format::score;
use crate::analysis::newest::newest_run;
use crate::model::{CriticAction, CriticMark, Index, StepHead, Symbol};

/// Limits the critic requests listed for a step.
const MAX_WISHES: usize = 4;

/// The first sign of trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Trouble {
    /// The step, counted from 0; null for an error in a step without a line.
    pub step: Option<usize>,
    /// The first failed event of that step, if the step has no line.
    pub event: Option<usize>,
    /// A short description of what went wrong.
    pub text: String,
    /// The shell command that failed, on one line.
    pub command: Option<String>,
    /// Whether it describes a repetition of steps.
    #[serde(skip)]
    pub repeats: bool,
}

impl Trouble {
    /// Splits the text after the command that it begins with, if it does.
    pub(crate) fn parts(&self) -> (Option<&str>, &str) {
        let command = self.command.as_deref();
        let rest = command.and_then(|command| {
            let quoted = self.text.strip_prefix('`')?.strip_prefix(command)?;
            quoted.strip_prefix('`')
        });
        match rest {
            Some(rest) => (command, rest),
            None => (None, &self.text),
        }
    }

    /// Returns the step or the event that it comes from.
    pub fn place(&self, index: &Index) -> Option<String> {
        match (self.step, self.event) {
            (Some(step), _) => Some(format!("step {}", index.label(step))),
            (None, Some(event)) => Some(format!("event {event}")),
            (None, None) => None,
        }
    }
}

/// Returns whichever comes first: an error, a failed tool, a return code, a requested retry or
/// stop, a score that drops, or the first step of a repetition.
pub(super) fn first_trouble(index: &Index) -> Option<Trouble> {
    let mut before: Vec<(Symbol, f64)> = Vec::new();
    let mut repeats = Repeats::default();
    let mut first: Option<Trouble> = None;
    for (n, step) in newest_run(index) {
        // Waiting isn't trouble.
        repeats.push(n, key(index, step).filter(|key| *key != WAIT));
        if let Some(repeat) = repeats.now().filter(|repeat| !repeat.makes_progress(index)) {
            // It began some steps ago, maybe before anything else went wrong.
            let earlier = first
                .as_ref()
                .and_then(|trouble| trouble.step)
                .is_none_or(|at| repeat.first < at);
            return if earlier {
                Some(repetition(index, &repeat))
            } else {
                first
            };
        }
        if first.is_none() {
            let text = signs(index, n, step, &mut before).join("; ");
            first = (!text.is_empty()).then_some(Trouble {
                step: Some(n),
                event: None,
                text,
                command: failed_command(step).map(str::to_owned),
                repeats: false,
            });
        }
        // A repetition that hasn't shown by now began after this step.
        if first
            .as_ref()
            .and_then(|trouble| trouble.step)
            .is_some_and(|at| n >= at + Repeats::LONGEST)
        {
            break;
        }
    }
    first.or_else(|| without_line(index))
}

/// Returns the signs of trouble in step `n`, most serious first.
fn signs(index: &Index, n: usize, step: &StepHead, before: &mut Vec<(Symbol, f64)>) -> Vec<String> {
    let mut signs = Vec::new();
    match index.error_of(n) {
        Some((_, error)) => signs.push(of_engine(error).into_owned()),
        None => signs.extend(describe_failure(index, step)),
    }
    signs.extend(drops(index, step, before));
    signs.extend(wishes(index, step));
    signs
}

/// Returns the critics' requests for a retry or stop, each with the critic's name. Only the
/// deciding critic has a reason.
fn wishes(index: &Index, step: &StepHead) -> impl Iterator<Item = String> {
    let deciding = step.deciding();
    let wish = move |(at, mark): (usize, &CriticMark)| {
        let wish = match mark.action {
            CriticAction::Retry => "requested a retry",
            CriticAction::Stop => "requested a stop",
            CriticAction::Continue | CriticAction::Failed | CriticAction::Other => return None,
        };
        let reason = step
            .critic_reason
            .as_deref()
            .filter(|reason| deciding == Some(at) && !reason.is_empty());
        let why = reason.map_or_else(String::new, |why| format!(": {why}"));
        Some(format!("{} {wish}{why}", index.name(mark.name)))
    };
    step.critics
        .iter()
        .enumerate()
        .filter_map(wish)
        .take(MAX_WISHES)
}

/// Describes the first critic whose score is far below its previous one. Updates `before` with the
/// scores of `step`.
fn drops(index: &Index, step: &StepHead, before: &mut Vec<(Symbol, f64)>) -> Option<String> {
    let mut words = None;
    for mark in &step.critics {
        // Scores off the scale can't be compared with those on it.
        let Some(now) = mark.score.filter(|score| (0.0..=1.0).contains(score)) else {
            continue;
        };
        match before.iter_mut().find(|(name, _)| *name == mark.name) {
            Some((_, was)) => {
                if is_fall(*was, now) && words.is_none() {
                    words = Some(format!(
                        "{} {} → {}",
                        index.name(mark.name),
                        score(*was),
                        score(now)
                    ));
                }
                *was = now;
            }
            None => before.push((mark.name, now)),
        }
    }
    words
}

fn repetition(index: &Index, repeat: &Repeat<'_>) -> Trouble {
    Trouble {
        step: Some(repeat.first),
        event: None,
        text: repeat.begins(index),
        command: None,
        repeats: true,
    }
}

/// Returns the first error of a round whose step has no line.
fn without_line(index: &Index) -> Option<Trouble> {
    let first = index.segment()?.first_group;
    index.groups().iter().skip(first).find_map(|group| {
        let (_, error) = group.error.as_ref()?;
        let events = index.events().range(group.first..group.end);
        let event = group.first
            + events
                .clone()
                .position(|event| !event.ok)
                .unwrap_or_default();
        Some(Trouble {
            step: None,
            event: Some(event),
            text: of_engine(error).into_owned(),
            command: None,
            repeats: false,
        })
    })
}
