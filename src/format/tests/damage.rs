//! Truncates, damages and splits every sample of another tool: step pages agree with the index, and
//! nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thin_vec::ThinVec;

use crate::format::{
    Draft, EventDraft, HEAD_BYTES, Open, RecordPlace, Sections, Shape, Source, Tool, step_head,
    tool,
};
use crate::model::{Delta, Fate, IssueKind, Names, Record, Span, StepHead};
use crate::soak::times;

/// Returns the sections of a tool whose runs are sections of a text.
fn sections(tool: &Tool) -> Option<&'static Sections> {
    match tool.shape {
        Shape::Several(several) => several.sections,
        _ => None,
    }
}

/// Returns the name of a file. Some files are recognized only by their exact name.
fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Samples whose records are lines, or made from lines, smallest first.
fn samples() -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools")];
    let mut found = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let lines = || {
                tool(name_of(&path), &fs::read(&path).unwrap()).is_some_and(|tool| {
                    matches!(tool.shape, Shape::Lines) || sections(tool).is_some()
                })
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
    for name in [".aider.chat.history.md", "messages.jsonl"] {
        assert!(found.iter().any(|path| name_of(path) == name), "{name}");
    }
    found
}

/// Returns the records of each run in a file.
fn runs(tool: &Tool, bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let Some(sections) = sections(tool) else {
        let lines = lines.filter(|line| !line.trim_ascii().is_empty());
        return vec![lines.map(<[u8]>::to_vec).collect()];
    };
    let mut runs: Vec<Vec<&[u8]>> = Vec::new();
    for line in lines {
        if (sections.begins)(line).is_some() {
            runs.push(Vec::new());
        }
        runs.last_mut().into_iter().for_each(|run| run.push(line));
    }
    let records = |lines: Vec<&[u8]>| {
        let (mut rewrite, mut document) = ((sections.rewrite)(), Vec::new());
        for line in lines {
            rewrite.line(&String::from_utf8_lossy(line), false, &mut document);
        }
        rewrite.end(&mut document);
        let document: Value = serde_json::from_slice(&document).unwrap();
        let records = document["records"].as_array().unwrap();
        records
            .iter()
            .map(|record| record.to_string().into_bytes())
            .collect()
    };
    runs.into_iter().map(records).collect()
}

/// Reads the runs of a file in chunks of `each` records, and asserts that each head agrees with the
/// step's records.
fn steps(name: &str, bytes: &[u8], each: usize) -> Vec<StepHead> {
    let Some(tool) = tool(name, &bytes[..bytes.len().min(HEAD_BYTES)]) else {
        return Vec::new();
    };
    // A document is read as a whole.
    let each = if sections(tool).is_some() {
        usize::MAX
    } else {
        each
    };
    let runs = runs(tool, bytes).into_iter();
    runs.flat_map(|lines| steps_of(tool, name, &lines, each, None))
        .collect()
}

/// Reads a run. `beside` is its second document.
fn steps_of(
    tool: &'static Tool,
    name: &str,
    lines: &[Vec<u8>],
    each: usize,
    beside: Option<&str>,
) -> Vec<StepHead> {
    let (mut open, mut names, mut reader) = (
        Open::new(&tool.format, tool.shape),
        Names::default(),
        tool.reader(),
    );
    beside.into_iter().for_each(|text| reader.beside(text));
    let (mut heads, mut texts): (Vec<StepHead>, Vec<String>) = (Vec::new(), Vec::new());
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
        let (name, bytes) = (name_of(&path), fs::read(&path).unwrap());
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
        let (name, bytes) = (name_of(&path), fs::read(&path).unwrap());
        let mut seen = 0;
        // In a text, the beginning of a line by the program looks like one by the model.
        let is_text = tool(name, &bytes).is_some_and(|tool| sections(tool).is_some());
        let last_line = |cut: usize| {
            let end = bytes[..cut].iter().rposition(|byte| *byte == b'\n');
            end.map_or(0, |end| end + 1)
        };
        for cut in (0..=bytes.len()).step_by(bytes.len() / times(30, 300) + 1) {
            let cut = if is_text { last_line(cut) } else { cut };
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
        let (name, bytes) = (name_of(&path), fs::read(&path).unwrap());
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

#[test]
fn a_spoilt_second_document_breaks_nothing() {
    let mut names = Vec::new();
    for path in samples() {
        let (name, bytes) = (name_of(&path), fs::read(&path).unwrap());
        let tool = tool(name, &bytes[..bytes.len().min(HEAD_BYTES)]).unwrap();
        let companion = tool.companion(path.file_name().unwrap());
        let Some(companion) = companion.filter(|companion| !companion.is_clock) else {
            continue;
        };
        let mut dir = path.parent().unwrap();
        if companion.is_above {
            dir = dir.parent().unwrap();
        }
        let Ok(beside) = fs::read_to_string(dir.join(&companion.name)) else {
            continue;
        };
        let lines = runs(tool, &bytes).swap_remove(0);
        let whole = steps_of(tool, name, &lines, usize::MAX, Some(&beside));
        for at in (0..beside.len()).step_by(beside.len() / times(25, 100) + 1) {
            let Some((start, rest)) = beside.split_at_checked(at) else {
                continue;
            };
            let without_one = rest.get(1..).unwrap_or_default();
            for spoilt in [start.to_owned(), format!("{start}[{without_one}")] {
                let found = steps_of(tool, name, &lines, usize::MAX, Some(&spoilt));
                assert_eq!(found.len(), whole.len(), "{name} beside {}", companion.name);
            }
        }
        names.push(companion.name);
    }
    assert!(names.iter().any(|name| name == "meta.json"), "{names:?}");
}
