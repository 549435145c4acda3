//! Tests the explanations of every recorded run against snapshots of `board why`, each checked
//! against its files once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::board::{BINARY, Board};
use crate::disk::{corpus, walk};
use crate::soak::{soak, times};
use crate::traces::traces;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs")
}

/// Lists every run directory below `root`, sorted.
fn runs(root: &Path) -> Vec<PathBuf> {
    let is_run = |path: &PathBuf| {
        ["manifest.json", "steps.jsonl", "events.jsonl"]
            .iter()
            .any(|file| path.join(file).is_file())
    };
    let runs: Vec<PathBuf> = walk(root).into_iter().filter(is_run).collect();
    assert!(runs.len() > 20, "{} has runs", root.display());
    runs
}

fn said(run: &Path, more: &[&str]) -> String {
    // A single-file run is named by the given path, so the path must not contain any of this
    // machine's directories.
    let (root, name) = (run.parent().unwrap(), run.file_name().unwrap());
    let mut why = Command::new(BINARY);
    let output = why
        .current_dir(root)
        .arg("why")
        .arg(name)
        .args(more)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(
        (output.status.code(), &*err),
        (Some(0), ""),
        "{}",
        run.display()
    );
    out
}

/// Returns the explanations of one of every `every` runs below `root`. Rules without a known result
/// are left out; the heading contains their number.
fn explanations(root: &Path, every: usize) -> Vec<String> {
    let told = |run: PathBuf| {
        let text = said(&run, &[]);
        assert!(
            !text.contains(&*root.to_string_lossy()),
            "no local path in {text}"
        );
        // The note of a rule is aligned with the others', two or more spaces after the result.
        let is_unknown = |line: &str| {
            line.split_once(" unknown  ")
                .is_some_and(|(_, note)| note.trim_start().starts_with('('))
        };
        let lines = text
            .lines()
            .filter(|line| !(line.starts_with("  ") && is_unknown(line)));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    runs(root).into_iter().step_by(every).map(told).collect()
}

/// Asserts that these explanations are part of the snapshot.
fn stand_in(snapshot: &str, some: &[String]) {
    for text in some {
        assert!(
            snapshot.contains(text.trim_end()),
            "with BOARD_SOAK=1 this test shows what changed; not in the snapshot: {text}"
        );
    }
}

#[test]
fn runs_of_the_corpus_are_explained() {
    if soak() {
        insta::assert_snapshot!("corpus", explanations(&corpus(), 1).join("\n"));
    } else {
        let kept = include_str!("snapshots/it__why__corpus.snap");
        stand_in(kept, &explanations(&corpus(), 4));
    }
}

#[test]
fn sample_runs_are_explained() {
    if soak() {
        insta::assert_snapshot!("samples", explanations(&samples(), 1).join("\n"));
    } else {
        let kept = include_str!("snapshots/it__why__samples.snap");
        stand_in(kept, &explanations(&samples(), 4));
    }
}

#[test]
fn every_other_recorded_run_is_explained() {
    let Some(traces) = traces() else { return };
    insta::assert_snapshot!("traces", explanations(&traces, 1).join("\n"));
}

fn document(run: &Path) -> Value {
    serde_json::from_str(&said(run, &["--json"])).expect("one document")
}

#[test]
fn our_own_runs_are_explained_by_their_recorded_verdict() {
    let mut with_verdict = 0;
    let every = times(2, 1);
    for run in runs(&samples()).into_iter().step_by(every) {
        let Ok(bytes) = fs::read(run.join("manifest.json")) else {
            continue;
        };
        let manifest: Value = serde_json::from_slice(&bytes).unwrap();
        let Some(stop) = manifest.get("stop").filter(|stop| stop.is_object()) else {
            continue;
        };
        with_verdict += 1;
        let told = document(&run);
        let fired: Vec<&Value> = told["rules"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|rule| rule["result"] == "fired")
            .collect();
        let [fired] = fired.as_slice() else {
            panic!("{}: {fired:?}", run.display())
        };
        let place = run.display();
        assert_eq!(
            (&fired["code"], &fired["step_id"]),
            (&stop["code"], stop.get("step").unwrap_or(&Value::Null)),
            "{place}"
        );
        for number in ["measured", "limit"] {
            if let Some(recorded) = stop.get(number) {
                assert_eq!(&fired[number], recorded, "{place}");
            }
        }
        assert_eq!(
            (&told["outcome"], &told["certainty"]),
            (&stop["outcome"], &json!("recorded")),
            "{place}"
        );
        let also: Vec<&Value> = told["rules"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|rule| rule["also"] == true)
            .collect();
        let named = stop
            .get("also")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        assert_eq!(also.len(), named, "{place}: {also:?}");
    }
    assert!(with_verdict > 20 / every, "the sample runs record verdicts");
}

#[test]
fn the_command_and_the_server_say_the_same() {
    let board = Board::serve(&samples());
    board.until_read();
    for name in [
        "budget_tokens",
        "crash",
        "critic_stop",
        "refused_answer",
        "task_validation_failed",
    ] {
        let told = document(&samples().join(name));
        assert_eq!(told, board.json(&format!("/api/runs/{name}/why")), "{name}");
        for key in [
            "headline",
            "outcome",
            "stop_reason",
            "certainty",
            "step",
            "evidence",
            "rules",
            "contradictions",
            "first_trouble",
            "liveness",
        ] {
            assert!(told.get(key).is_some(), "{name} has {key}");
        }
        for rule in told["rules"].as_array().unwrap() {
            for key in [
                "id",
                "kind",
                "result",
                "measured",
                "limit",
                "op",
                "unit",
                "limit_from",
                "headroom",
            ] {
                assert!(rule.get(key).is_some(), "{name}: {rule} has {key}");
            }
        }
    }
}
