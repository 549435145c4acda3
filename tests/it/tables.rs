//! Reads the expected contents of recorded runs from the tables in their README.

use std::fs;
use std::path::Path;

/// One row: the contents of a run's files.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The manifest's stop reason, or that of the END event.
    pub(crate) stop_reason: Stop,
    /// The manifest's status, if the manifest is readable.
    pub(crate) status: Option<String>,
    pub(crate) steps: Lines,
    pub(crate) events: Lines,
}

/// The stop reason in a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// This one.
    Named(String),
    /// None is recorded anywhere.
    Null,
    /// The table doesn't list one, because there's no manifest.
    Unsaid,
}

/// The numbers of lines in a file that are JSON, and that aren't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) good: u64,
    pub(crate) bad: u64,
}

/// Reads the rows of the README in `dir`.
pub(crate) fn read(dir: &Path) -> Vec<Row> {
    let path = dir.join("README.md");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Row> = text.lines().filter_map(row).collect();
    assert!(rows.len() > 20, "{} has tables", path.display());
    rows
}

fn row(line: &str) -> Option<Row> {
    let line = line.strip_prefix("| `")?;
    let (name, rest) = line.split_once("` | ")?;
    let cells: Vec<&str> = rest.trim_end_matches(['|', ' ']).split(" | ").collect();
    let [_, stop, status, steps, events, ..] = cells.as_slice() else {
        return None;
    };
    let stop_reason = match stop
        .strip_prefix("null [END: ")
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(end) => Stop::Named(end.to_owned()),
        None if *stop == "null" => Stop::Null,
        None if *stop == "-" => Stop::Unsaid,
        None => Stop::Named((*stop).to_owned()),
    };
    let status = (!status.starts_with('(')).then(|| (*status).to_owned());
    Some(Row {
        name: name.to_owned(),
        stop_reason,
        status,
        steps: lines(steps),
        events: lines(events),
    })
}

fn lines(cell: &str) -> Lines {
    let (good, bad) = cell
        .strip_suffix(" bad")
        .and_then(|both| both.split_once('+'))
        .unwrap_or((cell, "0"));
    let number = |text: &str| {
        if text == "none" {
            0
        } else {
            text.parse().unwrap_or_else(|_| panic!("{cell:?}"))
        }
    };
    Lines {
        good: number(good),
        bad: number(bad),
    }
}

#[test]
fn cells_are_understood() {
    let row =
        row("| `a` | x (y) | null [END: env_unhealthy] | (unreadable) | none | 69+3 bad | - | 1 |")
            .unwrap();
    assert_eq!(row.stop_reason, Stop::Named("env_unhealthy".to_owned()));
    assert_eq!(row.status, None);
    assert_eq!(
        (row.steps, row.events),
        (Lines { good: 0, bad: 0 }, Lines { good: 69, bad: 3 })
    );
}
