//! Compares two indexes by their contents. Symbols are compared by name, not by number.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use trace_board::model::Index;
use trace_board::trace::{RunDir, RunReader};

/// Refreshes the reader until it has read everything.
pub fn follow(reader: &mut RunReader, index: &mut Index, limit: u64) {
    loop {
        let delta = reader.refresh(limit);
        let more = delta.more;
        index.apply(delta);
        if !more {
            return;
        }
    }
}

/// Indexes a run from its current files in one pass.
pub fn read_at_once(dir: &Path, settle: Duration) -> Index {
    let mut index = Index::default();
    follow(
        &mut RunReader::settling(RunDir::alone(dir), settle),
        &mut index,
        u64::MAX,
    );
    index
}

/// Returns an index's contents as text, with symbols replaced by their names. Symbol numbers and
/// the order of issues depend on which file was read first.
pub fn meaning(index: &Index) -> Vec<String> {
    let said = |value: &dyn Debug| {
        let text = format!("{value:?}");
        let mut parts = text.split("Symbol(");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // Text in the trace may contain `Symbol(` too.
            let Some((number, rest)) = part.split_once(')') else {
                out.push_str(part);
                continue;
            };
            match number.parse::<usize>() {
                Ok(number) => {
                    let name = number
                        .checked_sub(1)
                        .and_then(|at| index.names().since(0).get(at));
                    out.push_str(name.map_or("", |name| name));
                }
                Err(_) => out.push_str(number),
            }
            out.push_str(rest);
        }
        out
    };
    let mut issues: Vec<String> = index
        .issues()
        .listed()
        .iter()
        .map(|issue| said(issue))
        .collect();
    issues.sort();
    let mut all: Vec<String> = index.steps().iter().map(|step| said(step)).collect();
    all.extend(index.events().iter().map(|event| said(event)));
    all.extend(index.groups().iter().map(|group| said(group)));
    all.extend(index.segments().iter().map(|segment| said(segment)));
    all.push(said(index.tally()));
    all.push(format!(
        "{} failed, {} without line",
        index.failed_steps(),
        index.count_without_line()
    ));
    all.push(said(index.manifest()));
    all.extend(issues);
    all.push(said(&index.passing_issues()));
    all.push(said(&(
        index.steps_file(),
        index.events_file(),
        index.steps_read(),
        index.events_read(),
    )));
    all.push(said(&(
        index.first_ts(),
        index.last_ts(),
        index.slowest_gap(),
        index.back_steps(),
    )));
    all.push(said(
        &(0..index.steps().len())
            .map(|n| index.group_of(n))
            .collect::<Vec<_>>(),
    ));
    all.push(said(
        &(0..index.groups().len())
            .map(|at| index.step_of(at))
            .collect::<Vec<_>>(),
    ));
    all.push(said(&(
        index.lap_starts(),
        index.groups_without_line(),
        index.pending_group(),
        index.join_is_open(),
    )));
    all
}

/// Returns the first difference between two indexes.
pub fn first_difference(left: &Index, right: &Index) -> Option<(String, String)> {
    let (left, right) = (meaning(left), meaning(right));
    let longer = left.len().max(right.len());
    let at = |said: &[String], n: usize| said.get(n).cloned().unwrap_or_default();
    (0..longer)
        .map(|n| (at(&left, n), at(&right, n)))
        .find(|(left, right)| left != right)
}
