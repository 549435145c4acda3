//! Tests Inspect logs that are truncated, damaged or malicious.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use super::{keys, members, read_all, read_run, reasons};
use crate::archives::{Packed, archive};
use crate::formats::sample;
use crate::soak::times;
use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::summary::summary;
use trace_board::model::{RunKey, TraceFile};
use trace_board::trace::{RootScanner, RunDir, Stamps};

/// Step counts of runs that were already read. Most damage to a log leaves all its runs but one
/// unchanged, and rereading those took two thirds of the tests' time.
#[derive(Default)]
struct Known(HashMap<u64, usize>);

impl Known {
    /// Reads every run below a directory whose bytes aren't known yet. Returns the number of steps
    /// of all runs.
    fn steps(&mut self, dir: &Path) -> usize {
        let found = RootScanner::new(dir.to_owned()).scan();
        let mut steps = 0;
        for (key, run) in &found.runs {
            let bytes = |file| {
                run.read_all(file, u64::MAX)
                    .map_err(|error| error.to_string())
            };
            let sizes = Stamps::of(run).map(|stamps| stamps.sizes());
            let mut hasher = DefaultHasher::new();
            (
                key.as_str(),
                sizes,
                bytes(TraceFile::Events),
                bytes(TraceFile::Manifest),
            )
                .hash(&mut hasher);
            steps += *self
                .0
                .entry(hasher.finish())
                .or_insert_with(|| read_run(run).steps().len());
        }
        steps
    }
}

/// Truncates a log at every `every` bytes, and damages bytes at such offsets. Each listed step must
/// be readable, and everything before a truncation must stay.
fn cut_and_spoilt(log: &str, every: usize) {
    let temp = tempfile::tempdir().expect("a directory");
    let whole = fs::read(sample("tools/inspect").join(log)).expect("the sample");
    let path = temp.path().join(log);
    let mut known = Known::default();
    let mut most = 0;
    for cut in (0..whole.len()).step_by(every).chain([whole.len()]) {
        fs::write(&path, &whole[..cut]).expect("written");
        let steps = known.steps(temp.path());
        assert!(
            steps >= most,
            "{log}: {steps} steps of {cut} bytes, {most} of fewer"
        );
        most = steps;
    }
    for at in (0..whole.len()).step_by(every.max(3)) {
        // A byte that is already there damages nothing.
        for byte in [0, b'"', b'{', 0xff]
            .into_iter()
            .filter(|byte| *byte != whole[at])
        {
            let mut spoilt = whole.clone();
            spoilt[at] = byte;
            fs::write(&path, &spoilt).expect("written");
            known.steps(temp.path());
        }
    }
}

#[test]
fn a_running_log_cut_at_any_byte() {
    cut_and_spoilt("running.eval", times(13, 1));
}

#[test]
fn an_archive_cut_at_many_bytes() {
    cut_and_spoilt("ledger.eval", times(331, 37));
}

#[test]
fn a_document_cut_at_many_bytes() {
    cut_and_spoilt("ledger.json", times(1_301, 211));
}

#[test]
fn damaged_members_are_shown_as_far_as_they_go() {
    let temp = tempfile::tempdir().expect("a directory");
    let sample = members("running.eval");
    let (name, bytes) = sample.last().expect("a sample");
    let issue = |packed: Packed| {
        fs::write(temp.path().join("l.eval"), archive(&[packed])).expect("written");
        let (found, indexes) = read_all(temp.path());
        assert_eq!(found.runs.len(), 1);
        let issues = indexes[0]
            .issues()
            .listed()
            .iter()
            .chain(indexes[0].passing_issues());
        (
            indexes[0].steps().len(),
            issues
                .map(|issue| issue.reason.clone())
                .collect::<Vec<_>>()
                .join("; "),
        )
    };
    let whole = || Packed::deflated(name, bytes);
    let (steps, said) = issue(Packed {
        crc: whole().crc ^ 1,
        ..whole()
    });
    assert_eq!(
        (steps, said.as_str()),
        (
            2,
            "the archive member is damaged: its checksum differs from the central directory's"
        )
    );
    let (steps, said) = issue(Packed {
        size: whole().size - 100,
        ..whole()
    });
    assert_eq!(steps, 2);
    assert!(
        said.contains("longer than the central directory says"),
        "{said}"
    );
    let (_, said) = issue(Packed {
        size: whole().size + 100,
        ..whole()
    });
    assert!(said.contains("ends 100 bytes early"), "{said}");
    let (steps, said) = issue(Packed {
        size: 3 << 30,
        ..whole()
    });
    assert_eq!(steps, 0);
    assert!(
        said.starts_with("the archive member wasn't decompressed: its "),
        "{said}"
    );
    assert!(
        said.contains("expand to more than 200 times that size, as in a decompression bomb"),
        "{said}"
    );
    let (_, said) = issue(Packed {
        method: 12,
        ..whole()
    });
    assert!(
        said.contains("uses compression method 12, which board doesn't support"),
        "{said}"
    );
    let mut spoilt = whole();
    let middle = spoilt.bytes.len() / 2;
    spoilt.bytes.truncate(middle);
    let (_, said) = issue(spoilt);
    assert!(said.contains("the archive member"), "{said}");
}

#[test]
fn a_bomb_is_held_to_what_its_directory_says() {
    let temp = tempfile::tempdir().expect("a directory");
    let zeros = vec![b' '; 64 << 20];
    let bomb = Packed {
        size: 1_000,
        ..Packed::deflated("samples/1_epoch_1.json", &zeros)
    };
    // Overlapping members could make an archive bomb of any size.
    let (header, twin) = (
        Packed::stored("header.json", b"{}"),
        Packed {
            at: Some(0),
            ..bomb.clone()
        },
    );
    fs::write(
        temp.path().join("a.eval"),
        archive(std::slice::from_ref(&bomb)),
    )
    .expect("written");
    fs::write(temp.path().join("b.eval"), archive(&[bomb, header, twin])).expect("written");
    let (found, indexes) = read_all(temp.path());
    assert_eq!(
        (keys(&found), indexes[0].steps().len()),
        (vec!["a.eval/1_epoch_1"], 0)
    );
    assert_eq!(
        reasons(&found),
        [(
            "b.eval",
            "archive members overlap, or extend past the end of the file"
        )]
    );
}

#[test]
fn a_damaged_sample_of_an_archive_does_not_live() {
    let temp = tempfile::tempdir().expect("a directory");
    let sample = members("running.eval");
    let (name, bytes) = sample.last().expect("a sample");
    let header = Packed::deflated(
        "header.json",
        br#"{"status": "success", "eval": {"run_id": "r"}}"#,
    );
    let whole = || Packed::deflated(name, bytes);
    let spoilt = |at: usize| {
        let mut packed = whole();
        packed.bytes[at..at + 8].fill(0xff);
        packed
    };
    let middle = whole().bytes.len() / 2;
    let cases = [
        (
            Packed {
                size: whole().size / 2,
                ..whole()
            },
            "damaged: it is longer than the central directory says",
        ),
        (
            Packed {
                size: 3 << 30,
                ..whole()
            },
            "expand to more than 200 times that size, as in a decompression bomb",
        ),
        (
            Packed {
                method: 12,
                ..whole()
            },
            "uses compression method 12, which board doesn't support",
        ),
        (
            Packed {
                method: 93,
                ..whole()
            },
            "damaged",
        ),
        (spoilt(0), "damaged"),
        (spoilt(middle), "damaged"),
        (
            Packed::deflated(name, &bytes[..bytes.len() / 2]),
            "the document is truncated",
        ),
        (Packed::deflated(name, b""), "the file is empty"),
        (
            Packed::deflated(name, b"no JSON"),
            "the file isn't a single JSON document",
        ),
        (Packed::deflated(name, br#"{"id": 1}"#), "No end recorded"),
    ];
    let path = temp.path().join("l.eval");
    for (case, (packed, why)) in cases.into_iter().enumerate() {
        fs::write(&path, archive(&[header.clone(), packed])).expect("written");
        let index = read_run(&RunDir::of_file(&path).expect("readable").expect("a run"));
        let newest = index.last_ts().unwrap_or(1_700_000_000_000_000);
        for seconds in [1, 20, 120, 7_200] {
            let now = newest + seconds * 1_000_000;
            let outside = ExternalFacts {
                now,
                written: Some((newest, newest)),
                process: None,
            };
            let row = summary(&RunKey::new("run"), String::new(), &index, outside);
            let told = (
                row.life.liveness.word(),
                row.verdict.mark.word(),
                row.verdict.certainty.as_str(),
            );
            assert_eq!(
                told,
                ("unknown", "unknown", "unknown"),
                "case {case} after {seconds} s"
            );
            assert!(
                row.verdict.sentence.contains(why),
                "case {case}: {}",
                row.verdict.sentence
            );
        }
    }
}
