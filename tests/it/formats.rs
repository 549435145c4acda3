//! Tests that traces of other tools are read correctly: each sample against figures counted by
//! hand, samples with damage, and all recorded sessions, if available.

use std::fs;
use std::path::{Path, PathBuf};

use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::summary::{Summary, summary};
use trace_board::model::{Index, RunKey, TraceFile};
use trace_board::trace::{RunDir, read_index};

use crate::soak::times;

mod agents;
mod aider;
mod amp;
mod at_hand;
mod atif;
mod branches;
mod claude;
mod claude_stream;
mod cline;
mod codex;
mod continue_cli;
mod copilot;
mod doubled;
mod droid;
mod ends;
mod exported;
mod figures;
mod gemini;
mod gptme;
mod inspect;
mod kimi;
mod kimi_cli;
mod mini_swe_agent;
mod missing;
mod opencode_files;
mod openhands;
mod openhands_exported;
mod otlp;
mod pi;
mod qwen;
mod sent;
mod stores;
mod swe_agent;
mod tau2;
mod truth;
mod turns;
mod vibe;
mod waiting;

/// A run in a single file, and its row.
pub(crate) struct Read {
    pub(crate) dir: RunDir,
    pub(crate) index: Index,
    pub(crate) row: Summary,
}

/// Reads a file that must be a tool's trace, as of a year after its last event.
pub(crate) fn read(path: &Path) -> Read {
    let dir = RunDir::of_file(path)
        .expect("it can be read")
        .unwrap_or_else(|| panic!("{} is a trace", path.display()));
    let index = read_index(&dir);
    let now = index.last_ts().unwrap_or_default() + 365 * 86_400_000_000;
    let row = summary(
        &RunKey::new("run"),
        String::new(),
        &index,
        ExternalFacts {
            now,
            ..ExternalFacts::default()
        },
    );
    Read { dir, index, row }
}

impl Read {
    /// Returns the line of step `n`, as pages get it.
    pub(crate) fn step(&self, n: usize) -> serde_json::Value {
        let span = self.index.steps().get(n).unwrap().span;
        let line = self
            .dir
            .line(|| &self.index, TraceFile::Steps, span)
            .expect("the step can be read");
        serde_json::from_slice(&line).expect("it is JSON")
    }
}

/// Returns the directory of this name below `BOARD_FOREIGN`, which holds files of other tools, or
/// `None`.
pub(crate) fn foreign(name: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("BOARD_FOREIGN")
        .map(|dir| PathBuf::from(dir).join(name))
        .filter(|dir| dir.is_dir());
    if dir.is_none() {
        eprintln!("skipped: BOARD_FOREIGN names no directory with files of {name}");
    }
    dir
}

pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs")
        .join(name)
}

/// Truncates the sample at many offsets and damages its bytes. Nothing may fail, each listed step
/// must be readable, and everything before the damage must stay.
pub(crate) fn damaged(path: &Path) {
    let whole = fs::read(path).expect("the sample");
    let steps = read(path).index.steps().len();
    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join(path.file_name().expect("a name"));
    let mut seen = 0;
    let look = |bytes: &[u8]| {
        fs::write(&copy, bytes).expect("written");
        let Some(dir) = RunDir::of_file(&copy).expect("readable") else {
            return 0;
        };
        let index = read_index(&dir);
        for step in index.steps() {
            dir.line(|| &index, TraceFile::Steps, step.span)
                .expect("a listed step can be read");
        }
        index.steps().len()
    };
    // Soak tests try every byte of a small sample. Other runs try every few bytes, at distances
    // that hit each kind of place.
    let stride = 1 + whole.len() / times(50, 1_500);
    for cut in (0..whole.len()).step_by(stride).chain([whole.len()]) {
        let found = look(&whole[..cut]);
        assert!(
            found >= seen || found == 0 && seen == 0,
            "{found} steps of {cut} bytes, {seen} of fewer"
        );
        seen = found.max(seen);
    }
    assert_eq!(seen, steps);
    for (at, byte) in (0..whole.len())
        .step_by(stride)
        .zip([0, b'"', b'{', b'\n', 0xff].iter().cycle())
    {
        let mut spoilt = whole.clone();
        spoilt[at] = *byte;
        look(&spoilt);
    }
}
