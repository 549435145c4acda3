use std::fs;
use std::time::Duration;

use super::{RunDir, RunReader};
use crate::model::{Fate, Index, IssueKind};

const ALL: u64 = 1 << 40;

fn event(step: usize) -> String {
    format!(r#"{{"step_id": {step}, "phase": "ACT", "ts": "2026-01-01T00:00:00Z"}}"#)
}

fn reader(dir: &tempfile::TempDir, settle: Duration) -> RunReader {
    RunReader::settling(RunDir::alone(dir.path()), settle)
}

fn passing(index: &Index, kind: IssueKind) -> usize {
    index.passing_issues().iter().filter(|issue| issue.kind == kind).count()
}

#[test]
fn a_missing_line_end_is_told_only_while_it_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let (mut reader, mut index) = (reader(&dir, Duration::ZERO), Index::default());
    fs::write(&path, event(0)).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!((index.events()[0].fate, passing(&index, IssueKind::Unterminated)), (Fate::Provisional, 1));
    index.apply(reader.refresh(ALL));
    assert_eq!(passing(&index, IssueKind::Unterminated), 1);
    fs::write(&path, format!("{}\n{}\n", event(0), event(1))).unwrap();
    index.apply(reader.refresh(ALL));
    assert_eq!((index.events().len(), index.events()[0].fate), (2, Fate::Good));
    assert_eq!((passing(&index, IssueKind::Unterminated), index.issues().total()), (0, 0));
}

#[test]
fn an_unfinished_line_may_be_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    for first in [String::new(), format!("{}\n", event(0))] {
        let (mut reader, mut index) = (reader(&dir, Duration::from_secs(3600)), Index::default());
        fs::write(&path, format!("{first}{}", "x".repeat(5_000))).unwrap();
        index.apply(reader.refresh(ALL));
        for times in [1, 100] {
            fs::write(&path, format!("{first}{}", format!("{}\n", event(1)).repeat(times))).unwrap();
            index.apply(reader.refresh(ALL));
            assert_eq!((index.events_read(), index.issues().total()), (times + first.lines().count(), 0));
        }
    }
}
