//! What does one run look like in the table?

use std::time::Duration;

use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{LimitFrom, Mark};
use crate::model::StopReason;
use crate::model::time::Stamp;
use crate::page::part::chart::{Spark, filled};
use crate::page::part::href;
use crate::page::runs::fill::{ListContext, Listed};
use crate::page::runs::{RunRow, ScoreCell, StepsCell, StepsLimit};
use crate::page::shell::{Status, When};

/// A longer name loses its middle; its last [`NAME_END`] characters stay, since names of one series end differently.
const MAX_NAME: usize = 48;
const NAME_END: usize = 12;
/// Characters of a task, a verdict or a model's name in the table; the run's page shows all.
const MAX_LINE: usize = 240;

/// The row of `listed`; `is_new` gives it the edge of a row that changed.
pub(crate) fn row(ctx: &ListContext, listed: &Listed, is_new: bool) -> RunRow {
    let run = &*listed.summary;
    let key = run.key.as_str();
    let (verdict, note) = verdict(run);
    let (issues, problems) = run.issues;
    RunRow {
        id: href::run_id(key),
        href: href::run(key),
        mark: key.to_owned(),
        marked: ctx.marks.iter().any(|mark| mark == key),
        key: format::visible_line(key).into_owned(),
        name: middle(&format::visible_line(key)),
        task: run.task.as_deref().map(line).filter(|task| !task.is_empty()),
        status: if run.partial { Status::Indexing } else { status(run.verdict.mark) },
        verdict,
        note,
        issues: (problems > 0).then(|| (format::counted(issues, "issue"), href::tab(key, "issues"))),
        steps: steps(run),
        score: run.last_score.map(|last| ScoreCell {
            last: format::score(last),
            spark: Spark::new(&run.spark.iter().copied().map(Some).collect::<Vec<_>>()),
        }),
        duration: run.duration_ms.and_then(duration),
        tokens: run.tokens.map(format::tokens),
        model: run.model.as_deref().map(line).filter(|model| !model.is_empty()),
        updated: run.updated.and_then(|micros| when(ctx, micros)),
        is_new,
    }
}

/// The status of a run with this mark.
pub(crate) fn status(mark: Mark) -> Status {
    match mark {
        Mark::Running => Status::Running,
        Mark::Quiet => Status::Quiet,
        Mark::Stalled => Status::Stalled,
        Mark::Answered => Status::Answered,
        Mark::Limit => Status::Limit,
        Mark::OwnRule => Status::OwnRule,
        Mark::Critic => Status::CriticStop,
        Mark::Cancelled => Status::Cancelled,
        Mark::Error => Status::Error,
        Mark::Died => Status::Died,
        Mark::Unknown => Status::Unknown,
    }
}

/// The verdict and what goes with it. A run that is still being read has none yet.
fn verdict(run: &Summary) -> (String, Option<String>) {
    if run.partial {
        return (format!("Being read, {} so far", format::counted(run.steps, "step")), None);
    }
    match run.verdict.sentence.split_once(" · ") {
        Some((sentence, note)) => (line(sentence), Some(line(note))),
        None => (line(&run.verdict.sentence), None),
    }
}

/// Steps against their limit. The limit counts the steps of the newest run in the directory only.
fn steps(run: &Summary) -> StepsCell {
    let limit = run.verdict.limit.filter(|_| run.steps_now > 0);
    let Some((limit, most)) = limit.and_then(|limit| Some((limit, usize::try_from(limit.steps).ok()?))) else {
        let done = if run.steps == 0 { "none".to_owned() } else { format::count(run.steps as u64) };
        return StepsCell { done, limit: None };
    };
    let reason = run.verdict.stop_reason.as_deref().map(StopReason::parse);
    let by_this_limit = match reason {
        Some(StopReason::BudgetSteps) => true,
        // This rule may go by another limit than the one that is known.
        Some(StopReason::MaxSteps) => run.steps_now >= most,
        _ => false,
    };
    StepsCell {
        done: format::count(run.steps_now as u64),
        limit: Some(StepsLimit {
            limit: format::count(most as u64),
            filled: filled(run.steps_now, most),
            ended: by_this_limit && run.verdict.mark == Mark::Limit && limit.from != LimitFrom::State,
        }),
    }
}

/// Milliseconds in words, where they are a duration at all.
pub(crate) fn duration(ms: f64) -> Option<String> {
    Duration::try_from_secs_f64(ms / 1e3).ok().map(format::duration)
}

/// A moment as an age.
pub(crate) fn when(ctx: &ListContext, micros: i64) -> Option<When> {
    let clock = format::clock(Stamp { micros, zoned: true }, &ctx.zone)?;
    Some(When { iso: clock.iso, words: format::age(micros, ctx.now, &ctx.zone), title: clock.title })
}

/// Text of a trace on one line of at most [`MAX_LINE`] characters.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let shown = format::visible_line(&text);
    match shown.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default().trim_end()),
        None => shown.into_owned(),
    }
}

/// A name with its middle left out where it is long.
fn middle(name: &str) -> String {
    let length = name.chars().count();
    if length <= MAX_NAME {
        return name.to_owned();
    }
    let start = name.chars().take(MAX_NAME - 1 - NAME_END);
    start.chain(['…']).chain(name.chars().skip(length - NAME_END)).collect()
}
