//! Checks the files of a run: however they're split, the index is the same and every line is at its
//! recorded offset.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use trace_board::analysis::diff::{changes_of_step, diff};
use trace_board::analysis::state::{state_at, walk};
use trace_board::model::json::Json;
use trace_board::model::{Index, Lines, Span, TraceFile};
use trace_board::trace::{RunDir, RunReader};

use super::index::{first_difference, follow, read_at_once};

/// Number of leading bytes that control how the rest is split.
const PLAN_BYTES: usize = 8;
/// Separates the steps from the events in an input.
const BETWEEN: &[u8] = b"\n#\n";
/// More steps slow down the comparison of every state and find nothing new.
const MAX_STEPS: usize = 24;

/// Splits an input into steps and events.
fn files(data: &[u8]) -> [&[u8]; 2] {
    let between = data
        .windows(BETWEEN.len())
        .position(|bytes| bytes == BETWEEN);
    match between {
        // The LF before the separator ends the last step.
        Some(at) => [&data[..=at], &data[at + BETWEEN.len()..]],
        None => [data, b""],
    }
}

fn append(dir: &Path, file: TraceFile, bytes: &[u8]) {
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join(file.name()));
    opened
        .and_then(|mut file| file.write_all(bytes))
        .expect("a temporary file can be written");
}

/// Two growing files, read after each piece and all at once. The first bytes set the read limit and
/// the piece lengths.
pub fn tail(data: &[u8]) {
    let Some((plan, rest)) = data.split_at_checked(PLAN_BYTES) else {
        return;
    };
    let dir = TempDir::new().expect("a temporary directory");
    let limit = if plan[0] == 0 {
        u64::MAX
    } else {
        u64::from(plan[0])
    };
    let [steps, events] = files(rest);
    let mut left = [(TraceFile::Steps, steps), (TraceFile::Events, events)];
    let mut reader = RunReader::settling(RunDir::alone(dir.path()), Duration::ZERO);
    let mut index = Index::default();
    for cut in &plan[1..] {
        let (file, bytes) = &mut left[usize::from(*cut & 1)];
        let (piece, rest) = bytes.split_at(bytes.len() * usize::from(*cut >> 1) / 127);
        *bytes = rest;
        append(dir.path(), *file, piece);
        follow(&mut reader, &mut index, limit);
    }
    for (file, bytes) in left {
        append(dir.path(), file, bytes);
    }
    follow(&mut reader, &mut index, limit);
    let at_once = read_at_once(dir.path(), Duration::ZERO);
    assert_eq!(first_difference(&index, &at_once), None);
    let spans: [Vec<(Span, u64)>; 2] = [
        at_once
            .steps()
            .iter()
            .map(|step| (step.span, step.line))
            .collect(),
        at_once
            .events()
            .iter()
            .map(|event| (event.span, event.line))
            .collect(),
    ];
    for (bytes, spans) in [steps, events].into_iter().zip(spans) {
        lie_inside(bytes, &spans);
    }
}

/// Asserts that the spans cover whole lines of the file, in order and with the right line numbers.
fn lie_inside(bytes: &[u8], spans: &[(Span, u64)]) {
    let mut end = 0;
    for (span, number) in spans {
        let (start, len) = (span.offset as usize, span.len as usize);
        let line = bytes
            .get(start..start + len)
            .expect("a line lies inside its file");
        assert!(
            !line.contains(&b'\n') && start >= end,
            "a line holds no line end and lies behind the one before"
        );
        let before = bytes[..start].iter().filter(|byte| **byte == b'\n').count() as u64;
        assert_eq!(before + 1, *number, "the line at {start}");
        end = start + len;
    }
}

/// Reads lines from a run directory.
struct Files<'a>(&'a RunDir);

impl Lines for Files<'_> {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.0
            .read_span(file, span)
            .map_err(|error| error.to_string())
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        fs::read(self.0.file(TraceFile::Manifest)).map_err(|error| error.to_string())
    }

    fn has_asset(&self, _: &str) -> Result<(), String> {
        Err("there is none".to_owned())
    }
}

/// The states of a run: computing one step's state alone gives the same result as walking all
/// steps.
pub fn state(data: &[u8]) {
    let [steps, events] = files(data);
    for line in steps.split(|byte| *byte == b'\n') {
        let Some(line) = std::str::from_utf8(line).ok().and_then(Json::parse) else {
            continue;
        };
        assert_eq!(diff(&line, &line).pieces(100, 100).pieces, [], "{line}");
        for change in line
            .get("state_diff")
            .map(changes_of_step)
            .unwrap_or_default()
        {
            let (path, words) = change.row();
            assert!(path == change.key || path.starts_with(change.key), "{path}");
            assert!(!words.is_empty(), "{path}");
        }
    }
    let dir = TempDir::new().expect("a temporary directory");
    append(dir.path(), TraceFile::Steps, steps);
    append(dir.path(), TraceFile::Events, events);
    let index = read_at_once(dir.path(), Duration::ZERO);
    let run = RunDir::alone(dir.path());
    let lines = Files(&run);
    let mut seen = 0;
    walk(&index, &lines, &mut |n, keys| {
        let alone = state_at(&index, &lines, n).expect("a step of the walk is a step");
        let mut alone = alone.keys;
        let mut walked = keys.to_vec();
        alone.sort_by(|a, b| a.key.cmp(&b.key));
        walked.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(alone, walked, "after step {n}");
        seen += 1;
        seen < MAX_STEPS
    });
    assert_eq!(seen, index.steps().len().min(MAX_STEPS));
}
