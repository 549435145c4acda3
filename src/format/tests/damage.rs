//! Truncates, damages and splits every sample of another tool: step pages agree with the index, and
//! nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use thin_vec::ThinVec;

use crate::format::{
    Draft, EventDraft, HEAD_BYTES, Open, RecordPlace, Shape, Source, step_head, tool,
};
use crate::model::{Delta, Fate, IssueKind, Names, Record, Span, StepHead};
use crate::soak::times;

/// Samples whose records are lines, smallest first.
fn samples() -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools")];
    let mut found = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let lines = || {
                tool(path.to_str().unwrap(), &fs::read(&path).unwrap())
                    .is_some_and(|tool| matches!(tool.shape, Shape::Lines))
            };
            if path.is_dir() {
                open.push(path);
            } else if lines() {
                found.push(path);
            }
        }
    }
    found.sort_by_key(|path| fs::metadata(path).unwrap().len());
    assert!(found.len() > 5);
    found
}

/// Reads lines in chunks of `each`, and asserts that each head agrees with the step's records.
fn steps(name: &str, bytes: &[u8], each: usize) -> Vec<StepHead> {
    let Some(tool) = tool(name, &bytes[..bytes.len().min(HEAD_BYTES)]) else {
        return Vec::new();
    };
    let (mut open, mut names, mut reader) = (
        Open::new(&tool.format, tool.shape),
        Names::default(),
        tool.reader(),
    );
    let (mut heads, mut texts): (Vec<StepHead>, Vec<String>) = (Vec::new(), Vec::new());
    let lines: Vec<&[u8]> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .collect();
    for some in lines.chunks(each) {
        let mut delta = Delta::default();
        let mut draft = Draft::new(&mut open, &mut names, &mut delta);
        for line in some {
            let record = Record::of(line);
            let line = texts.len() as u64;
            draft.at(RecordPlace {
                span: Span {
                    offset: line,
                    len: 1,
                },
                line,
                fate: record.fate,
            });
            if record.fate.is_readable() {
                reader.record(
                    Source {
                        text: &record.text,
                        path: 0,
                        key: "",
                        file: Path::new(name),
                    },
                    &mut draft,
                );
            } else {
                draft.event(EventDraft {
                    failed: true,
                    ..EventDraft::default()
                });
            }
            texts.push(record.text.into_owned());
        }
        reader.look(&mut draft);
        draft.end();
        heads.append(&mut delta.steps);
        delta
            .touched
            .into_iter()
            .for_each(|(n, head)| heads[n] = head);
        delta
            .abandoned
            .into_iter()
            .for_each(|(n, is_abandoned)| heads[n].is_abandoned = is_abandoned);
        assert_eq!(delta.events.len(), some.len(), "every record is one event");
    }
    for (n, head) in heads.iter().enumerate() {
        let parts: Vec<String> = head
            .parts
            .iter()
            .map(|at| texts[*at as usize].clone())
            .collect();
        let line = (tool.format.assemble.unwrap())(n, &parts);
        let (page, remarks) = step_head(line.as_bytes(), &mut names);
        // These fields come from the parts alone.
        let StepHead {
            span,
            line,
            parts,
            unanswered,
            is_abandoned,
            is_nested,
            ..
        } = head.clone();
        assert_eq!(
            *head,
            StepHead {
                span,
                line,
                parts,
                unanswered,
                is_abandoned,
                is_nested,
                links: ThinVec::new(),
                ..page
            },
            "step {n} of {name}"
        );
        assert!(
            remarks.is_empty() && page.fate == Fate::Good,
            "step {n} of {name}: {remarks:?}"
        );
    }
    heads
}

#[test]
fn what_is_repaired_in_a_step_is_reported_once() {
    // The record is valid. Only the JSON that the model wrote into a string has half a pair.
    let lines = [
        r#"{"timestamp":"2026-05-04T09:00:00Z","type":"session_meta","payload":{"id":"a"}}"#,
        r#"{"timestamp":"2026-05-04T09:00:01Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":\"echo \\ud83d\"}","call_id":"c"}}"#,
        r#"{"timestamp":"2026-05-04T09:00:02Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"done"}}"#,
    ];
    let tool = tool("rollout-1.jsonl", lines[0].as_bytes()).unwrap();
    for each in 1..=lines.len() {
        let (mut open, mut names) = (Open::new(&tool.format, tool.shape), Names::default());
        let (mut reader, mut issues, mut at) = (tool.reader(), Vec::new(), 0);
        for some in lines.chunks(each) {
            let mut delta = Delta::default();
            let mut draft = Draft::new(&mut open, &mut names, &mut delta);
            for text in some {
                at += 1;
                let span = Span { offset: at, len: 1 };
                let (line, fate) = (at, Fate::Good);
                draft.at(RecordPlace { span, line, fate });
                let (path, key, file) = (0, "", Path::new(""));
                reader.record(
                    Source {
                        text,
                        path,
                        key,
                        file,
                    },
                    &mut draft,
                );
            }
            reader.look(&mut draft);
            draft.end();
            issues.extend(delta.issues.into_iter().map(|issue| {
                let is_repair = issue.kind == IssueKind::Repaired;
                (is_repair, issue.line, issue.reason)
            }));
        }
        let reason = "lone surrogate shown as U+FFFD".to_owned();
        assert_eq!(issues, [(true, Some(2), reason)], "{each} lines a look");
    }
}

#[test]
fn samples_read_in_pieces_are_the_same() {
    for path in samples() {
        let (name, bytes) = (path.to_str().unwrap(), fs::read(&path).unwrap());
        // Only fields without symbols are compared, because symbol numbers depend on the order of
        // the records.
        let told = |each: usize| -> Vec<_> {
            let heads = steps(name, &bytes, each).into_iter();
            heads
                .map(|head| {
                    (
                        head.line,
                        head.parts,
                        head.call,
                        head.result_hash,
                        head.tokens,
                        head.error,
                        head.is_abandoned,
                    )
                })
                .collect()
        };
        let whole = told(usize::MAX);
        assert!(!whole.is_empty(), "{name} has steps");
        for each in [1, 2, 3, 5] {
            assert_eq!(told(each), whole, "{name} by {each} lines");
        }
    }
}

#[test]
fn a_truncation_loses_only_what_follows() {
    for path in samples() {
        let (name, bytes) = (path.to_str().unwrap(), fs::read(&path).unwrap());
        let mut seen = 0;
        for cut in (0..=bytes.len()).step_by(bytes.len() / times(30, 300) + 1) {
            let found = steps(name, &bytes[..cut], usize::MAX).len();
            assert!(
                found >= seen || found == 0,
                "{found} steps of {cut} bytes of {name}, {seen} of fewer"
            );
            seen = found.max(seen);
        }
    }
}

#[test]
fn spoilt_bytes_break_nothing() {
    for path in samples() {
        let (name, bytes) = (path.to_str().unwrap(), fs::read(&path).unwrap());
        for (at, byte) in (0..bytes.len())
            .step_by(bytes.len() / times(25, 100) + 1)
            .zip(b"\"{}[],:0n\\\0\n\xff".iter().cycle())
        {
            let mut spoilt = bytes.clone();
            spoilt[at] = *byte;
            steps(name, &spoilt, 3);
        }
    }
}
