//! What is wrong with the files themselves? Everything odd about a run, with its place.

use super::verdict::recorded;
use crate::model::index::FileState;
use crate::model::manifest::Layout;
use crate::model::{Index, Issue, IssueKind, ManifestState, TraceFile};

/// All issues of a run: those met while reading, those that hold now, and those that only the whole shows.
pub fn issues(index: &Index) -> Vec<Issue> {
    let mut all = index.issues().listed().to_vec();
    all.extend(index.passing_issues().iter().cloned());
    all.extend(of_the_whole(index));
    all.sort_by_key(|issue| (issue.file, issue.offset, issue.line));
    all
}

/// How many issues there are, the unlisted ones too, and how many of them cost data.
pub fn counts(index: &Index) -> (usize, usize) {
    let whole = of_the_whole(index);
    let rest = || index.passing_issues().iter().chain(&whole);
    let problems = rest().filter(|issue| issue.kind.is_problem()).count();
    (index.issues().total() + rest().count(), index.issues().problems() + problems)
}

/// What no single line shows.
fn of_the_whole(index: &Index) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut add = |kind, file, reason| issues.push(Issue { kind, file, line: None, offset: None, reason });
    let manifest = index.manifest().get();
    if *index.manifest() == ManifestState::Missing {
        add(IssueKind::Missing, TraceFile::Manifest, "there is no such file".to_owned());
    }
    let (steps, events) = (index.steps_file(), index.events_file());
    let missing = |file: FileState, name: TraceFile| {
        !file.exists && !index.passing_issues().iter().any(|issue| issue.file == name)
    };
    // A run that ended before its first step rightly has no steps.
    let ended_early =
        index.groups().is_empty() && manifest.is_none_or(|manifest| manifest.step_count.unwrap_or(0) == 0);
    if missing(steps, TraceFile::Steps) && !ended_early {
        add(IssueKind::Missing, TraceFile::Steps, "there is no such file, though the run had steps".to_owned());
    }
    if missing(events, TraceFile::Events) {
        add(IssueKind::Missing, TraceFile::Events, "there is no such file".to_owned());
    }
    let runs = index.segments().len();
    if runs > 1 {
        add(IssueKind::Segments, TraceFile::Events, format!("{runs} runs wrote into this directory"));
    }
    // A writer counts only what it wrote itself, so with several runs its counts say nothing about the files.
    if let Some(manifest) = manifest.filter(|manifest| manifest.is_final() && runs <= 1 && !index.is_partial()) {
        let pairs = [
            (TraceFile::Steps, manifest.step_count, index.steps().len()),
            (TraceFile::Events, manifest.event_count, index.events().len()),
        ];
        for (file, counted, there) in pairs {
            // A file that is not there is an issue of its own.
            let exists = if file == TraceFile::Steps { steps.exists } else { events.exists };
            if let Some(counted) = counted.filter(|counted| exists && *counted != there as i64) {
                add(IssueKind::Count, file, format!("the manifest counts {counted}, the file has {there}"));
            }
        }
    }
    if index.join_is_open() {
        let reason = "step ids start over differently in steps and events; the newest are taken to belong together";
        add(IssueKind::Join, TraceFile::Events, reason.to_owned());
    }
    if index.back_steps() > 0 {
        add(IssueKind::Time, TraceFile::Events, format!("time goes backwards {} times", index.back_steps()));
    }
    issues.extend(without_line(index));
    issues.extend(of_our_own(index));
    issues
}

/// What our own engine promises of its traces and QitOS does not.
fn of_our_own(index: &Index) -> Vec<Issue> {
    let ours = index.manifest().get().is_some_and(|manifest| manifest.layout == Layout::Board);
    if !ours || index.segments().len() > 1 {
        return Vec::new();
    }
    let mut issues = Vec::new();
    let bare = |(_, step): &(usize, &crate::model::StepHead)| step.fate.is_readable() && step.facts.is_none();
    let mut without = index.steps().iter().enumerate().filter(bare);
    if let Some((_, first)) = without.next() {
        let more = without.count();
        let more = if more > 0 { format!(", nor have {more} more") } else { String::new() };
        issues.push(Issue {
            kind: IssueKind::Field,
            file: TraceFile::Steps,
            line: Some(first.line),
            offset: Some(first.span.offset),
            reason: format!("the step has no facts to ask stop rules about again{more}"),
        });
    }
    let last = index.steps().last().and_then(|step| step.step_id);
    let named = recorded(index).map(|stop| stop.step);
    if let Some(named) = named.filter(|named| *named != last && !index.is_partial()) {
        let words = |step: Option<i64>| step.map_or_else(|| "no step".to_owned(), |id| format!("step {id}"));
        let reason = format!("the verdict has {} as the last that ran, the file {}", words(named), words(last));
        let file = TraceFile::Steps;
        issues.push(Issue { kind: IssueKind::Count, file, line: None, offset: None, reason });
    }
    issues
}

/// Rounds that events tell of and no step line does: the step under way, or one whose line is lost.
fn without_line(index: &Index) -> Vec<Issue> {
    let groups = index.groups_without_line();
    // The newest round may still get its line.
    let lost = groups.into_iter().filter(|at| Some(*at) != index.pending_group());
    lost.filter_map(|at| {
        let group = index.groups().get(at)?;
        let first = index.events().get(group.first)?;
        let id = group.step_id.map_or_else(|| "no id".to_owned(), |id| format!("step {id}"));
        Some(Issue {
            kind: IssueKind::NoStepLine,
            file: TraceFile::Events,
            line: Some(first.line),
            offset: Some(first.span.offset),
            reason: format!("{} events of {id} belong to no line of steps.jsonl", group.end - group.first),
        })
    })
    .collect()
}
