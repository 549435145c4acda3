//! Lists the issues in the files of a run, each with its position.

use super::format::{self, count as thousands, counted};
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::index::{FileState, Why};
use crate::model::{
    Can, Index, Issue, IssueKind, ManifestState, StepHead, StopVerdict, Total, TraceFile,
};

/// An issue in the files of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Issue")]
pub struct FileIssue {
    #[serde(rename = "file")]
    pub(crate) name: &'static str,
    /// What the named file holds.
    #[serde(skip)]
    pub file: TraceFile,
    /// The line number, from 1.
    pub line: Option<u64>,
    /// The offset of the line in the file, in bytes.
    pub offset: Option<u64>,
    #[allow(missing_docs, reason = "the API has no text for it")]
    pub reason: String,
    #[schemars(with = "String")]
    #[allow(missing_docs, reason = "the API has no text for it")]
    pub kind: IssueKind,
    /// Whether data is lost. Otherwise the issue is only a note.
    pub problem: bool,
}

/// Returns all issues of a run: those found while reading, those of its current state, and those
/// that only the whole run shows.
pub fn issues(index: &Index) -> Vec<FileIssue> {
    let mut all = index.issues().listed().to_vec();
    all.extend(index.passing_issues().iter().cloned());
    all.extend(of_the_whole(index));
    all.extend(without_line(index));
    all.extend(skipped(index));
    all.sort_by_key(|issue| (issue.file, issue.offset, issue.line));
    let format = index.format();
    let named = all.into_iter().map(|issue| FileIssue {
        name: format.file_name(issue.file),
        file: issue.file,
        line: issue.line,
        offset: issue.offset,
        reason: issue.reason,
        problem: issue.kind.is_problem(),
        kind: issue.kind,
    });
    named.collect()
}

/// Returns the number of issues, including unlisted ones, and the number of those that lose data.
pub fn counts(index: &Index) -> (usize, usize) {
    let whole = of_the_whole(index);
    let rest = || index.passing_issues().iter().chain(&whole);
    let skipped = skipped(index).len();
    let problems = rest().filter(|issue| issue.kind.is_problem()).count() + skipped;
    // The newest round may still get its line, or is known to have none. A missing line of another
    // round loses no data.
    let last = index.groups().len().checked_sub(1);
    let open = usize::from(
        index
            .pending_group()
            .or(last.filter(|at| is_open(index, *at)))
            .is_some(),
    );
    let lost = if index.is_cut() {
        0
    } else {
        index.count_without_line().saturating_sub(open)
    };
    (
        index.issues().total() + rest().count() + lost + skipped,
        index.issues().problems() + problems,
    )
}

/// Formats the numbers of issues and of problems: "2 problems, 1 note", or "no issues".
pub fn in_words((total, problems): (usize, usize)) -> String {
    match (problems, total - problems) {
        (0, 0) => "no issues".to_owned(),
        (0, notes) => counted(notes, "note"),
        (problems, 0) => counted(problems, "problem"),
        (problems, notes) => format!(
            "{}, {}",
            counted(problems, "problem"),
            counted(notes, "note")
        ),
    }
}

/// The maximum number of ranges of skipped lines that are named for each file.
const MAX_SKIPS: usize = 20;

/// Returns the lines that were counted but not kept.
fn skipped(index: &Index) -> Vec<Issue> {
    let mut issues = Vec::new();
    let lists = [
        (TraceFile::Steps, index.step_skips(), "step"),
        (TraceFile::Events, index.event_skips(), "event"),
    ];
    for (file, skips, noun) in lists {
        let more = skips.list().len().saturating_sub(MAX_SKIPS);
        let named = skips.list().iter().filter(|skip| skip.why == Why::Room);
        let void = skips.list().iter().filter(|skip| skip.why == Why::Void);
        for (at, skip) in named.chain(void).take(MAX_SKIPS).enumerate() {
            let count = counted(skip.count, noun);
            let (first, last) = (thousands(skip.lines.0), thousands(skip.lines.1));
            let more = if at + 1 == MAX_SKIPS && more > 0 {
                format!(" (and {})", counted(more, "more range"))
            } else {
                String::new()
            };
            let reason = match skip.why {
                Why::Room => format!(
                    "skipped {count} in lines {first} to {last}{more}: the run has more than board keeps, so only the \
                     first and the newest are kept"
                ),
                Why::Void => format!(
                    "lines {first} to {last} hold no records, so they're counted but not kept{more}"
                ),
            };
            let (line, offset) = (Some(skip.lines.0), Some(skip.bytes.0));
            issues.push(Issue {
                kind: IssueKind::Skipped,
                file,
                line,
                offset,
                reason,
            });
        }
    }
    issues
}

/// Returns the issues that no single line shows, except rounds without a line, because there may be
/// many.
fn of_the_whole(index: &Index) -> Vec<Issue> {
    let mut issues = Vec::new();
    let mut add = |kind, file, reason| {
        issues.push(Issue {
            kind,
            file,
            line: None,
            offset: None,
            reason,
        })
    };
    let manifest = index.manifest().get();
    if *index.manifest() == ManifestState::Missing {
        add(
            IssueKind::Missing,
            TraceFile::Manifest,
            "file not found".to_owned(),
        );
    }
    let (steps, events) = (index.steps_file(), index.events_file());
    let missing = |file: FileState, name: TraceFile| {
        !file.exists
            && !index
                .passing_issues()
                .iter()
                .any(|issue| issue.file == name)
    };
    // A run that ended before its first step has no steps.
    let ended_early =
        index.groups().is_empty() && manifest.is_none_or(|manifest| manifest.steps_counted() == 0);
    if missing(steps, TraceFile::Steps) && !ended_early {
        add(
            IssueKind::Missing,
            TraceFile::Steps,
            "file not found, although the run had steps".to_owned(),
        );
    }
    if missing(events, TraceFile::Events) {
        add(
            IssueKind::Missing,
            TraceFile::Events,
            "file not found".to_owned(),
        );
    }
    if let Some(reason) = super::verdict::other_run(index) {
        add(IssueKind::Renamed, TraceFile::Manifest, reason);
    }
    let runs = index
        .segments()
        .iter()
        .enumerate()
        .filter(|(at, segment)| *at == 0 || !segment.continues_previous())
        .count();
    if runs > 1 {
        add(
            IssueKind::Segments,
            TraceFile::Events,
            format!("{runs} runs wrote to this directory"),
        );
    }
    // A writer counts only what it wrote itself. If several runs wrote into the directory, its
    // counts don't match the files.
    if let Some(manifest) =
        manifest.filter(|manifest| manifest.is_final() && runs <= 1 && !index.is_partial())
    {
        // A line that was written twice counts once. The writer may or may not have counted it
        // twice.
        let repeats = index.tally().repeats.count;
        let pairs = [
            (
                TraceFile::Steps,
                manifest.step_count,
                index.step_count(),
                repeats,
            ),
            (
                TraceFile::Events,
                manifest.event_count,
                index.event_count(),
                0,
            ),
        ];
        for (file, stated, there, repeats) in pairs {
            // A missing file is a separate issue.
            let exists = if file == TraceFile::Steps {
                steps.exists
            } else {
                events.exists
            };
            let fits = |stated: i64| {
                [there, there - repeats]
                    .iter()
                    .any(|there| stated == *there as i64)
            };
            if let Some(stated) = stated.filter(|stated| exists && !fits(*stated)) {
                let records = match usize::try_from(stated) {
                    Ok(stated) => counted(stated, "record"),
                    Err(_) => format!("{stated} records"),
                };
                add(
                    IssueKind::Count,
                    file,
                    format!("the manifest counts {records}, but the file has {there}"),
                );
            }
        }
    }
    if let Some(copied) = manifest.and_then(|manifest| manifest.copied.as_ref()) {
        let from = copied
            .from
            .as_deref()
            .map_or_else(|| "another run".to_owned(), |from| format!("run {from}"));
        let records = counted(
            usize::try_from(copied.records).unwrap_or(usize::MAX),
            "record",
        );
        let reason = format!("{records} copied from {from} (counted there, not here)");
        add(IssueKind::Copied, TraceFile::Events, reason);
    }
    issues.extend(total(index));
    let mut add = |kind, file, reason| {
        issues.push(Issue {
            kind,
            file,
            line: None,
            offset: None,
            reason,
        })
    };
    if index.join_is_open() && !index.is_cut() {
        let reason =
            "step ids restart differently in steps and events, so the newest of both are matched";
        add(IssueKind::Join, TraceFile::Events, reason.to_owned());
    }
    issues.extend(back_in_time(index));
    issues.extend(left(index));
    issues.extend(of_the_ids(index));
    issues.extend(without_facts(index));
    issues
}

/// Returns an issue if a recorded total of tokens differs from the sum of the steps.
fn total(index: &Index) -> Option<Issue> {
    let manifest = index.manifest().get().filter(|_| !index.is_partial())?;
    let total = manifest.total.as_ref()?;
    let aside = if total.aside.is_empty() {
        String::new()
    } else {
        format!(" ({})", total.aside)
    };
    let reason = match (manifest.tokens_summed, total.read) {
        (Some(summed), _) => differs(total, summed, manifest.cached_summed)?,
        (None, Some((recorded, read))) if recorded != read => {
            let [recorded, read] = [recorded, read].map(format::count);
            format!(
                "the {} records {recorded} input tokens, but the replies add up to {read}",
                total.record
            )
        }
        (None, _) => return None,
    };
    let reason = format!("{reason}{aside}");
    Some(Issue {
        kind: match total.counts_other {
            true => IssueKind::CountsOther,
            false => IssueKind::Count,
        },
        file: TraceFile::Events,
        line: None,
        offset: None,
        reason,
    })
}

/// Returns how a total differs from the sum of the steps, and of the child runs if recorded.
fn differs(total: &Total, summed: u64, cached: Option<u64>) -> Option<String> {
    let record = total.record;
    let children = total.children.filter(|_| total.has_children);
    let expected = summed.saturating_add(children.unwrap_or_default());
    let is_explained = total.has_children && children.is_none() && total.tokens > summed;
    if total.tokens != expected && !is_explained {
        let [recorded, summed] = [total.tokens, summed].map(format::count);
        let children =
            children.map(|children| format!(" and the child runs to {}", format::count(children)));
        let children = children.unwrap_or_default();
        return Some(format!(
            "the {record} records {recorded} tokens, but the steps add up to {summed}{children}"
        ));
    }
    let (recorded, cached) = total.cached.zip(cached).filter(|_| !total.has_children)?;
    let [recorded, summed] = [recorded, cached].map(format::count);
    (recorded != summed).then(|| {
        format!("the {record} records {recorded} cached tokens, but the steps add up to {summed}")
    })
}

/// Returns an issue for the first event that is older than the one before it, with the number of
/// such events.
fn back_in_time(index: &Index) -> Option<Issue> {
    let times = index.back_steps();
    if times == 0 {
        return None;
    }
    let back = index.first_back().and_then(|at| index.events().get(at));
    let (line, offset) = back.map(|event| (event.line, event.span.offset)).unzip();
    let more = if times > 1 {
        format!(" (and {})", counted(times - 1, "more time"))
    } else {
        String::new()
    };
    let reason = format!("a record is older than the one before it{more}");
    Some(Issue {
        kind: IssueKind::Time,
        file: TraceFile::Events,
        line,
        offset,
        reason,
    })
}

/// Returns an issue for the first abandoned step, which the run went back past, with the number of
/// such steps.
fn left(index: &Index) -> Option<Issue> {
    let left = index.tally().abandoned;
    let first = index.steps().get(left.first?)?;
    let steps = counted(left.count, "step");
    let were = if left.count == 1 { "was" } else { "were" };
    let reason = format!("{steps} {were} abandoned when the session was rewound");
    let (line, offset) = (Some(first.line), Some(first.span.offset));
    Some(Issue {
        kind: IssueKind::Left,
        file: TraceFile::Steps,
        line,
        offset,
        reason,
    })
}

/// Returns issues for step ids that start over within a run, and for missing ids.
fn of_the_ids(index: &Index) -> Vec<Issue> {
    let mut issues = Vec::new();
    let place = |kind, step: &StepHead, reason| {
        let (line, offset) = (Some(step.line), Some(step.span.offset));
        Issue {
            kind,
            file: TraceFile::Steps,
            line,
            offset,
            reason,
        }
    };
    let run_starts = index.lap_starts();
    if run_starts.len() > index.segments().len().max(1)
        && !index.is_cut()
        && let Some(step) = run_starts
            .last()
            .and_then(|start| index.steps().get(*start))
    {
        let id = step
            .step_id
            .map_or_else(String::new, |id| format!(" at {id}"));
        let reason = format!("step ids restart here{id}, but no event marks a new run");
        issues.push(place(IssueKind::Join, step, reason));
    }
    let repeats = index.tally().repeats;
    if let Some(step) = repeats.first.and_then(|at| index.steps().get(at)) {
        let more = repeats.count - 1;
        let more = if more > 0 {
            format!(" (and {more} more)")
        } else {
            String::new()
        };
        let reason = format!("the line repeats the one before, but no event marks a new run{more}");
        issues.push(place(IssueKind::Join, step, reason));
    }
    let (late, first) = index.late_steps();
    if let Some((n, step)) = first.and_then(|at| Some((at, index.steps().get(at)?))) {
        let more = if late > 1 {
            format!(" (and {} more)", late - 1)
        } else {
            String::new()
        };
        let reason = format!("step {} is out of order{more}", index.label(n));
        issues.push(place(IssueKind::Join, step, reason));
    }
    let jumps = index.tally().jumps;
    let jump = jumps.first.and_then(|at| {
        let (step, before) = (
            index.steps().get(at)?,
            index.steps().get(at.checked_sub(1)?)?,
        );
        Some((step, before.step_id?, step.step_id?))
    });
    if let Some((step, from, to)) = jump {
        let more = jumps.count - 1;
        let more = if more > 0 {
            format!(" (and {})", counted(more, "more jump"))
        } else {
            String::new()
        };
        let reason = format!("step ids jump from {from} to {to}{more}");
        issues.push(place(IssueKind::Gap, step, reason));
    }
    issues
}

/// Returns issues for steps without facts, in formats that record facts.
fn without_facts(index: &Index) -> Vec<Issue> {
    if index.format().can.facts != Can::Yes || index.segments().len() > 1 {
        return Vec::new();
    }
    let mut issues = Vec::new();
    let without = index.tally().without_facts;
    if let Some(first) = without.first.and_then(|at| index.steps().get(at)) {
        let more = without.count - 1;
        let more = if more > 0 {
            format!(" (and {more} more)")
        } else {
            String::new()
        };
        issues.push(Issue {
            kind: IssueKind::Field,
            file: TraceFile::Steps,
            line: Some(first.line),
            offset: Some(first.span.offset),
            reason: format!("the step has no facts for re-evaluating stop rules{more}"),
        });
    }
    // A damaged line has no step id, and isn't known to be a step.
    let readable = |step: &&StepHead| step.fate.is_readable();
    let last = index.steps().iter().rfind(readable);
    let last_id = last.and_then(|step| step.step_id);
    let named = index.stop().map(StopVerdict::step_id);
    // It may be the step of a damaged line at the end.
    let is_damaged = index
        .steps()
        .last()
        .is_some_and(|step| !step.fate.is_readable());
    let is_open = index.stop().is_some_and(StopVerdict::is_of_open_step);
    let differs = |named: &Option<i64>| match is_damaged {
        true => last_id > *named,
        // A run that is dropped within a step doesn't write the step's line.
        false if is_open && named.is_some_and(|named| named == last_id.map_or(0, |id| id + 1)) => {
            false
        }
        false => last_id != *named,
    };
    if let Some(named) = named.filter(|named| !index.is_partial() && differs(named)) {
        let of_verdict = named.map_or_else(
            || "the verdict names no last step".to_owned(),
            |id| format!("the verdict records that step {id} ran last"),
        );
        let of_file = match (last, last_id) {
            (None, _) => "the file has no steps".to_owned(),
            (Some(_), None) => "the last step in the file has no id".to_owned(),
            (Some(_), Some(id)) if is_damaged => format!("the file has step {id}"),
            (Some(_), Some(id)) => format!("the file ends at step {id}"),
        };
        let reason = format!("{of_verdict}, but {of_file}");
        let file = TraceFile::Steps;
        issues.push(Issue {
            kind: IssueKind::Count,
            file,
            line: None,
            offset: None,
            reason,
        });
    }
    issues
}

/// Returns whether the run was dropped within this round, so that its step never gets a line.
fn is_open(index: &Index, round: usize) -> bool {
    let stop = index.stop().filter(|stop| stop.is_of_open_step());
    let group = index.groups().get(round);
    let is_last = round + 1 == index.groups().len();
    let has_line = index.step_of(round).is_some();
    is_last
        && !has_line
        && stop
            .zip(group)
            .is_some_and(|(stop, group)| group.step_id == stop.step_id())
}

/// Returns issues for rounds that have events but no step line, apart from the round in progress.
fn without_line(index: &Index) -> Vec<Issue> {
    // If steps or events were dropped, their lines exist and were read.
    if index.is_cut() {
        return Vec::new();
    }
    let groups = index.groups_without_line();
    // The newest round may still get its line.
    let lost = groups
        .into_iter()
        .filter(|at| Some(*at) != index.pending_group() && !is_open(index, *at));
    lost.filter_map(|at| {
        let group = index.groups().get(at)?;
        let first = index.events().get(group.first)?;
        let events = counted(group.end - group.first, "event");
        let of = group.step_id.map_or_else(
            || "without a step id".to_owned(),
            |id| format!("of step {id}"),
        );
        let matches = if group.end - group.first == 1 {
            "matches"
        } else {
            "match"
        };
        Some(Issue {
            kind: IssueKind::NoStepLine,
            file: TraceFile::Events,
            line: Some(first.line),
            offset: Some(first.span.offset),
            reason: format!(
                "{events} {of} {matches} no line in steps.jsonl{}",
                interrupted_round_note(index, at)
            ),
        })
    })
    .collect()
}

/// Describes what happened to an interrupted round when the run was resumed. `round` is an index
/// into [`Index::groups`]. Empty if the run wasn't resumed there.
pub fn interrupted_round_note(index: &Index, round: usize) -> &'static str {
    let next = index
        .segment_of(round)
        .and_then(|at| index.segments().get(at + 1));
    if !next.is_some_and(|next| next.continues_previous() && next.first_group == round + 1) {
        return "";
    }
    let id = index.groups().get(round).and_then(|group| group.step_id);
    let mut later = index.groups().iter().skip(round + 1);
    match id.is_some() && later.any(|group| group.step_id == id) {
        true => ": the step was interrupted and redone when the run was resumed",
        false => ": the step was interrupted, and the run continued without it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, EventHead, Names};

    /// Returns the issues of a run with these steps and with events at these seconds, as kind, line
    /// and reason.
    fn found(steps: &[&str], seconds: &[i64]) -> Vec<(IssueKind, Option<u64>, String)> {
        let mut names = Names::default();
        let read = |(at, line): (usize, &&str)| {
            let head = crate::format::step_head(line.as_bytes(), &mut names).0;
            StepHead {
                line: at as u64 + 1,
                ..head
            }
        };
        let steps = steps.iter().enumerate().map(read).collect();
        let event = |(at, second): (usize, &i64)| {
            let head = EventHead {
                ts: Some(*second),
                line: at as u64 + 1,
                ok: true,
                ..EventHead::default()
            };
            (head, None)
        };
        let events = seconds.iter().enumerate().map(event).collect();
        let there = FileState {
            exists: true,
            ..FileState::default()
        };
        let mut index = Index::default();
        let names = names.since(0).to_vec();
        let manifest = Some(ManifestState::Read(Box::default()));
        index.apply(Delta {
            names,
            steps,
            events,
            manifest,
            steps_file: there,
            events_file: there,
            ..Delta::default()
        });
        assert_eq!(counts(&index).0, issues(&index).len());
        issues(&index)
            .into_iter()
            .map(|issue| (issue.kind, issue.line, issue.reason))
            .collect()
    }

    #[test]
    fn ids_that_jump_or_restart_have_their_line() {
        let step = |id: i64| format!(r#"{{"step_id": {id}}}"#);
        let said = |ids: &[i64]| {
            let steps: Vec<String> = ids.iter().map(|id| step(*id)).collect();
            found(&steps.iter().map(|line| &**line).collect::<Vec<_>>(), &[0])
        };
        assert_eq!(said(&[0, 1, 2]), []);
        assert_eq!(
            said(&[3, 4]),
            [],
            "a resumed run starts where the earlier one ended"
        );
        let jump = (
            IssueKind::Gap,
            Some(2),
            "step ids jump from 0 to 3 (and 1 more jump)".to_owned(),
        );
        assert_eq!(said(&[0, 3, 7]), [jump]);
        let over = "step ids restart here at 0, but no event marks a new run".to_owned();
        assert_eq!(said(&[0, 1, 0]), [(IssueKind::Join, Some(3), over)]);
    }

    #[test]
    fn a_line_written_twice_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("events.jsonl", "");
        write(
            "steps.jsonl",
            "{\"step_id\": 0}\n{\"step_id\": 1}\n{\"step_id\": 1}\n",
        );
        let said = |counted: usize| {
            write(
                "manifest.json",
                &format!(r#"{{"status": "completed", "step_count": {counted}}}"#),
            );
            let index = crate::trace::read_index(&crate::trace::RunDir::alone(dir.path()));
            let steps = issues(&index)
                .into_iter()
                .filter(|issue| issue.file == TraceFile::Steps);
            steps.map(|issue| issue.reason).collect::<Vec<_>>()
        };
        let twice = "the line repeats the one before, but no event marks a new run";
        assert_eq!(
            (said(2), said(3)),
            (vec![twice.to_owned()], vec![twice.to_owned()])
        );
        assert_eq!(
            said(4),
            ["the manifest counts 4 records, but the file has 3", twice]
        );
    }

    #[test]
    fn time_going_backwards_is_reported_at_its_first_line() {
        let back = |reason: &str| [(IssueKind::Time, Some(3), reason.to_owned())];
        assert_eq!(
            found(&[], &[1, 5, 4]),
            back("a record is older than the one before it")
        );
        assert_eq!(
            found(&[], &[1, 5, 4, 6, 2]),
            back("a record is older than the one before it (and 1 more time)")
        );
    }

    #[test]
    fn a_state_changed_elsewhere_is_a_note_unless_the_writer_rules_that_out() {
        let step = |id: u64, before: &str, after: &str, facts: &str| {
            format!(
                r#"{{"step_id": {id}, "state_diff": {{"plan": {{"before": {before}, "after": {after}}}}}{facts}}}"#
            )
        };
        let said = |second: &str, facts: &str| {
            let steps = [step(0, "1", "2", facts), step(1, second, "9", facts)];
            found(&steps.iter().map(|line| &**line).collect::<Vec<_>>(), &[0])
                .into_iter()
                .map(|found| found.0)
                .collect()
        };
        let none: Vec<IssueKind> = Vec::new();
        assert_eq!(
            (said("2", ""), said("7", "")),
            (none, vec![IssueKind::Outside])
        );
        assert!(!IssueKind::Outside.is_problem() && IssueKind::State.is_problem());
        let all = (0..40).map(|id| step(id, "1", "2", "")).collect::<Vec<_>>();
        let noted = found(&all.iter().map(|line| &**line).collect::<Vec<_>>(), &[0]);
        assert_eq!(
            (noted.len(), &*noted[19].2),
            (
                20,
                "plan changed after the previous step, not by a recorded step (later changes like this aren't listed)"
            )
        );
    }
}
