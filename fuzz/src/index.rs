//! When do two indexes say the same? Names are compared, not their numbers.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use trace_board::model::Index;
use trace_board::trace::{RunDir, RunReader};

/// Looks until there is nothing more to read.
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

/// The index of a run that is read as it is now.
pub fn read_at_once(dir: &Path, settle: Duration) -> Index {
    let mut index = Index::default();
    follow(
        &mut RunReader::settling(RunDir::alone(dir), settle),
        &mut index,
        u64::MAX,
    );
    index
}

/// Everything an index says, with names in place of their numbers: those depend on which file was read first, and so
/// does the order in which oddities were found.
pub fn meaning(index: &Index) -> Vec<String> {
    let said = |value: &dyn Debug| {
        let text = format!("{value:?}");
        let mut parts = text.split("Symbol(");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // A text of the trace may hold the word too.
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

/// The first thing two indexes say differently.
pub fn first_difference(left: &Index, right: &Index) -> Option<(String, String)> {
    let (left, right) = (meaning(left), meaning(right));
    let longer = left.len().max(right.len());
    let at = |said: &[String], n: usize| said.get(n).cloned().unwrap_or_default();
    (0..longer)
        .map(|n| (at(&left, n), at(&right, n)))
        .find(|(left, right)| left != right)
}
