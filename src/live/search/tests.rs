use std::path::{Path, PathBuf};

use super::*;
use crate::model::json::Json;
use crate::model::repair::{Retreat, retreat};
use crate::soak::times;
use crate::trace::{RootScanner, read_index};

/// Everything a search reports.
#[derive(Default)]
struct Heard {
    bytes: u64,
    found: Vec<LineMatch>,
    left_out: Vec<String>,
    patience: Option<usize>,
}

impl HitSink for Heard {
    fn read(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        true
    }

    fn found(&mut self, found: LineMatch) -> bool {
        self.found.push(found);
        self.patience.is_none_or(|most| self.found.len() < most)
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        self.left_out.push(format!("{}: {why}", file.name()));
    }
}

fn heard(dir: &RunDir, text: &str) -> Heard {
    let (mut heard, index) = (Heard::default(), Arc::new(read_index(dir)));
    assert!(search(
        dir,
        &Needle::new(text).unwrap(),
        &mut || Arc::clone(&index),
        &mut heard
    ));
    heard
}

/// Returns every text in a line, found without the search code.
fn says(line: &[u8]) -> Vec<String> {
    fn all(json: &Json<'_>, said: &mut Vec<String>) {
        match json {
            Json::Array(items) => items.iter().for_each(|item| all(item, said)),
            Json::Object(members) => members.iter().for_each(|(key, value)| {
                said.push(key.to_string());
                all(value, said);
            }),
            Json::String(text) => said.push(text.to_string()),
            other => said.push(other.to_string()),
        }
    }
    let mut said = Vec::new();
    let text = String::from_utf8_lossy(line).into_owned();
    match (
        Json::parse(&text),
        retreat(line, |text| Json::parse(text).is_some()),
    ) {
        (Some(json), _) => all(&json, &mut said),
        (None, Retreat::Repaired { text, .. }) => all(&Json::parse(&text).unwrap(), &mut said),
        (None, _) => said.push(text),
    }
    said
}

/// Returns the runs below `root`.
fn runs(root: &Path) -> Vec<RunDir> {
    RootScanner::new(root.to_owned())
        .scan()
        .runs
        .into_values()
        .collect()
}

/// Returns texts of the run that are hard to find: words of all kinds, truncated anywhere, in the
/// other case.
fn texts(lines: &[(TraceFile, Vec<String>)], number: usize) -> Vec<String> {
    let all: Vec<&String> = lines
        .iter()
        .flat_map(|(_, said)| said)
        .filter(|text| !text.is_empty())
        .collect();
    let mut texts = Vec::new();
    for n in 0..number {
        let Some(text) = all.get((n * 7_919 + n * n) % all.len().max(1)) else {
            break;
        };
        let count = text.chars().count();
        let from = (n * 31) % count;
        let cut: String = text.chars().skip(from).take(1 + n % 9).collect();
        texts.push(if n % 3 == 0 {
            cut.to_ascii_uppercase()
        } else {
            cut
        });
    }
    let awkward = ["\"", "\\", "\n", "é", "null", "/", "the", "error"];
    texts.extend(
        awkward
            .iter()
            .skip(all.len() % awkward.len())
            .take(1)
            .map(|text| (*text).to_owned()),
    );
    texts
}

fn agrees(dir: &RunDir, number: usize) {
    let mut lines: Vec<(TraceFile, Vec<String>)> = Vec::new();
    if let Some(beside) = dir
        .beside_records(&read_index(dir), MAX_MANIFEST_SEARCHED)
        .ok()
        .flatten()
    {
        lines.push((TraceFile::Events, says(&beside.bytes)));
    }
    if dir.is_document() {
        for event in read_index(dir).events().iter() {
            lines.push((
                TraceFile::Events,
                says(&dir.read_span(TraceFile::Events, event.span).unwrap()),
            ));
        }
    }
    for file in dir
        .line_files()
        .iter()
        .copied()
        .filter(|_| !dir.is_document())
    {
        let read = dir
            .read_lines(file)
            .into_iter()
            .flatten()
            .map(Result::unwrap);
        lines.extend(read.flatten().map(|line| (file, says(&line))));
    }
    lines.extend(
        dir.read_all(TraceFile::Manifest, MAX_MANIFEST_SEARCHED)
            .ok()
            .map(|all| (TraceFile::Manifest, says(&all))),
    );
    let sorted = |mut counts: Vec<(TraceFile, usize)>| {
        counts.sort();
        counts
    };
    for text in texts(&lines, number) {
        let heard = heard(dir, &text);
        let lower = text.to_ascii_lowercase();
        let holds = |said: &Vec<String>| {
            said.iter()
                .filter(|said| said.to_ascii_lowercase().contains(&lower))
                .count()
        };
        let naive = lines
            .iter()
            .map(|(file, said)| (*file, holds(said)))
            .filter(|(_, found)| *found > 0);
        let found = heard
            .found
            .iter()
            .map(|found| (found.file, found.line.found));
        assert_eq!(
            sorted(found.collect()),
            sorted(naive.collect()),
            "{text:?} in {}",
            dir.path().display()
        );
    }
}

#[test]
fn a_search_finds_what_reading_everything_finds() {
    let mut roots = vec![PathBuf::from("tests/corpus"), PathBuf::from("sample_runs")];
    roots.extend(std::env::var_os("BOARD_TRACES").map(PathBuf::from));
    let dirs: Vec<RunDir> = roots.iter().flat_map(|root| runs(root)).collect();
    assert!(dirs.len() > 50, "{} runs", dirs.len());
    for dir in dirs.iter().step_by(times(4, 1)) {
        agrees(dir, 2);
    }
}

#[test]
fn what_a_document_says_beside_its_records_is_found_once() {
    let places = |name: &str, text: &str| {
        let dir = runs(Path::new("sample_runs/tools"))
            .into_iter()
            .find(|dir| dir.path().ends_with(name))
            .unwrap();
        let found = heard(&dir, text).found.into_iter();
        found
            .map(|found| {
                (
                    found.place.beside_records,
                    found.place.event,
                    found.line.hits[0].path.clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    let end = (true, None, "termination_reason".to_owned());
    assert_eq!(
        places("voice/simulations/sim-voice-0.json", "infrastructure_error"),
        [end]
    );
    let prompt = places("swe-agent/cost_limit.traj", "You fix one issue.");
    assert!(
        prompt.iter().any(|(beside, event, path)| *beside
            && event.is_none()
            && path.starts_with("history[0]")),
        "{prompt:?}"
    );
    // A text of a record is found in the record, and not again in the document.
    let dir = runs(Path::new("sample_runs/tools"))
        .into_iter()
        .find(|dir| dir.path().ends_with("swe-agent/cost_limit.traj"))
        .unwrap();
    let index = read_index(&dir);
    let beside = dir.beside_records(&index, u64::MAX).unwrap().unwrap();
    let whole = dir.read_all(TraceFile::Events, u64::MAX).unwrap();
    let records: u64 = index.events().iter().map(|event| event.span.len).sum();
    assert_eq!(
        (beside.bytes.len(), beside.len),
        (whole.len(), whole.len() as u64 - records)
    );
    assert!(crate::model::json::Json::is_json(
        std::str::from_utf8(&beside.bytes).unwrap()
    ));
    let too_long = dir
        .beside_records(&index, beside.bytes.len() as u64 - 1)
        .unwrap_err();
    assert_eq!(too_long.kind(), std::io::ErrorKind::FileTooLarge);
}

#[test]
fn a_hit_names_its_step_and_its_event() {
    let dir = RunDir::alone(Path::new("sample_runs/qitos/q060_critic_stop"));
    let index = read_index(&dir);
    let all = heard(&dir, "step_id");
    assert_eq!(
        all.found
            .iter()
            .filter(|found| found.file == TraceFile::Steps)
            .count(),
        index.steps().len()
    );
    for found in &all.found {
        match found.file {
            TraceFile::Steps => {
                let step = found.place.step.unwrap();
                assert_eq!(
                    index.steps().get(step).unwrap().span.offset,
                    found.place.offset
                );
            }
            TraceFile::Events => {
                assert_eq!(
                    index
                        .events()
                        .get(found.place.event.unwrap())
                        .unwrap()
                        .span
                        .offset,
                    found.place.offset
                )
            }
            TraceFile::Manifest => assert_eq!(found.place, LinePlace::default()),
        }
    }
    assert!(
        all.found
            .iter()
            .any(|found| found.file == TraceFile::Events && found.place.step == Some(1))
    );
    let sizes = ["manifest.json", "steps.jsonl", "events.jsonl"]
        .map(|name| dir.path().join(name).metadata().unwrap().len());
    assert_eq!(all.bytes, sizes.iter().sum::<u64>());
}

#[test]
fn lines_across_blocks_and_lines_too_long_to_take() {
    let root = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for n in 0..2_000 {
        text.push_str(&format!(
            "{{\"step_id\": {n}, \"x\": \"{}needle\"}}\n",
            "y".repeat(n)
        ));
    }
    let long = format!("{{\"x\": \"needle{}\"}}\n", "y".repeat(9 << 20));
    let last = "{\"step_id\": 1, \"x\": \"the last needle\"}";
    std::fs::write(
        root.path().join("steps.jsonl"),
        format!("{long}{text}{long}{long}{last}"),
    )
    .unwrap();
    std::fs::create_dir(root.path().join("events.jsonl")).unwrap();
    let heard = heard(&RunDir::alone(root.path()), "NEEDLE");
    assert_eq!(heard.found.len(), 2_001);
    assert_eq!(heard.found.last().unwrap().line.hits[0].before, "the last ");
    assert_eq!(
        heard.left_out,
        [
            "steps.jsonl: 3 lines longer than 8388608 bytes",
            "events.jsonl: not a regular file"
        ]
    );
    let mut offset = long.len() as u64;
    for (line, found) in text.lines().zip(&heard.found) {
        assert_eq!(found.place.offset, offset);
        offset += line.len() as u64 + 1;
    }
}

#[test]
fn a_search_ends_when_it_is_told_to() {
    let dir = RunDir::alone(Path::new("sample_runs/qitos/q060_critic_stop"));
    let mut heard = Heard {
        patience: Some(2),
        ..Heard::default()
    };
    let index = Arc::new(read_index(&dir));
    assert!(!search(
        &dir,
        &Needle::new("e").unwrap(),
        &mut || Arc::clone(&index),
        &mut heard
    ));
    assert_eq!(heard.found.len(), 2);
}
