//! Checks trace files of any tool: the index doesn't depend on how the file grew, and step pages
//! agree with it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use trace_board::format::step_head;
use trace_board::model::{Fate, Index, StepHead, TraceFile};
use trace_board::trace::{RootScanner, RunDir, RunReader, read_index};

use super::index::{first_difference, follow};

/// File names that are recognized as traces.
const NAMES: [&str; 5] = [
    "a.jsonl",
    "11111111-1111-4111-8111-111111111111.jsonl",
    "a.json",
    "a.traj",
    "a.traj.json",
];
/// File names that are recognized as files of several runs.
const STORES: [&str; 6] = [
    "opencode.db",
    "kilo.db",
    "state.db",
    "crush.db",
    "sessions.db",
    ".aider.chat.history.md",
];
/// More pieces slow a run down and find nothing new.
const MAX_PIECES: usize = 32;

/// A growing file. The first byte picks its name, the second the number of pieces it's written in.
pub fn tools(data: &[u8]) {
    let [name, pieces, content @ ..] = data else {
        return;
    };
    let temp = TempDir::new().expect("a temporary directory");
    let path = temp.path().join(NAMES[usize::from(*name) % NAMES.len()]);
    fs::write(&path, content).expect("a temporary file can be written");
    let Ok(Some(dir)) = RunDir::of_file(&path) else {
        return;
    };
    let mut whole = Index::default();
    follow(
        &mut RunReader::settling(dir.clone(), Duration::ZERO),
        &mut whole,
        u64::MAX,
    );
    pages(&dir, &whole);
    // After a document was complete once, its contents stay until it's complete again.
    if path.extension().is_none_or(|end| end != "jsonl") {
        return;
    }
    grow(
        &dir,
        &path,
        content,
        1 + usize::from(*pieces) % MAX_PIECES,
        &whole,
    );
}

/// A file with several runs. The first byte picks its name, the second the number of KiB that are the file. The rest is its
/// log.
pub fn stores(data: &[u8]) {
    let [name, kib, content @ ..] = data else {
        return;
    };
    let temp = TempDir::new().expect("a temporary directory");
    let name = STORES[usize::from(*name) % STORES.len()];
    let (file, log) = content.split_at(content.len().min(usize::from(*kib) << 10));
    fs::write(temp.path().join(name), file).expect("a temporary file can be written");
    if !log.is_empty() {
        fs::write(temp.path().join(format!("{name}-wal")), log)
            .expect("a temporary file can be written");
    }
    for dir in RootScanner::new(temp.path().to_owned())
        .scan()
        .runs
        .values()
    {
        let index = read_index(dir);
        pages(dir, &index);
        assert_eq!(first_difference(&read_index(dir), &index), None);
    }
}

/// Asserts that each listed step can be read and agrees with its index entry.
fn pages(dir: &RunDir, index: &Index) {
    for (n, head) in index.steps().iter().enumerate() {
        let line = dir
            .line(|| index, TraceFile::Steps, head.span)
            .expect("a listed step can be read");
        let (page, remarks) = step_head(&line, &mut index.names().clone());
        assert!(
            remarks.is_empty() && page.fate == Fate::Good,
            "step {n}: {remarks:?}"
        );
        // These fields come from the records, not from the step's line.
        let StepHead {
            span,
            line,
            parts,
            call_ids,
            unanswered,
            is_abandoned,
            is_nested,
            ..
        } = head.clone();
        let page = StepHead {
            span,
            line,
            parts,
            call_ids,
            unanswered,
            is_abandoned,
            is_nested,
            outside: head.outside.clone(),
            links: Default::default(),
            ..page
        };
        assert_eq!(*head, page, "step {n}");
    }
}

/// Asserts that reading after each piece yields the same index as reading the whole file.
fn grow(dir: &RunDir, path: &Path, content: &[u8], pieces: usize, whole: &Index) {
    fs::write(path, b"").expect("a temporary file can be written");
    let (mut reader, mut index) = (
        RunReader::settling(dir.clone(), Duration::ZERO),
        Index::default(),
    );
    for piece in content.chunks(content.len() / pieces + 1) {
        let file = OpenOptions::new().append(true).open(path);
        file.and_then(|mut file| file.write_all(piece))
            .expect("a temporary file can be written");
        follow(&mut reader, &mut index, u64::MAX);
    }
    assert_eq!(first_difference(&index, whole), None);
}
