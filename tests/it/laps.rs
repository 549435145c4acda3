//! Tests the number of steps of the newest run in a directory that was used twice. A recorded run
//! is taken apart and reassembled, and the commands report on the result.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::board::BINARY;
use crate::disk::corpus;

/// The parts of a recorded run of three steps.
struct Parts {
    start: Vec<String>,
    rounds: [Vec<String>; 3],
    end: Vec<String>,
    steps: Vec<String>,
}

/// Parts of a file, in order.
type Pieces<'a> = Vec<&'a [String]>;

fn parts() -> Parts {
    let used = corpus().join("q060/q060_rerun_same_id");
    let lines = |name: &str| -> Vec<String> {
        fs::read_to_string(used.join(name))
            .unwrap()
            .lines()
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let parse = |line: &String| serde_json::from_str::<Value>(line).unwrap();
    let events = lines("events.jsonl");
    let phases: Vec<String> = events
        .iter()
        .map(|line| parse(line)["phase"].as_str().unwrap().to_owned())
        .collect();
    let of = |phase: &str| phases.iter().position(|it| it == phase).unwrap();
    let (init, end) = (of("INIT"), of("END"));
    let second = (end..events.len())
        .find(|at| phases[*at] == "toolset_setup_start")
        .unwrap();
    let round = |id: i64| {
        events[init + 1..end]
            .iter()
            .filter(|line| parse(line)["step_id"] == id)
            .cloned()
            .collect()
    };
    let steps = lines("steps.jsonl")[..3].to_vec();
    assert_eq!(
        steps
            .iter()
            .map(|line| parse(line)["step_id"].as_i64())
            .collect::<Vec<_>>(),
        [0, 1, 2].map(Some)
    );
    Parts {
        start: events[..=init].to_vec(),
        rounds: [round(0), round(1), round(2)],
        end: events[end..second].to_vec(),
        steps,
    }
}

/// Writes a run with these lines. Returns the number of steps in `board list`, and the output of
/// `board why`.
fn told(root: &Path, name: &str, events: &[&[String]], steps: &[&[String]]) -> (Value, String) {
    let runs = root.join(name);
    let dir = runs.join("run");
    fs::create_dir_all(&dir).unwrap();
    fs::copy(
        corpus().join("q060/q060_rerun_same_id/manifest.json"),
        dir.join("manifest.json"),
    )
    .unwrap();
    fs::write(dir.join("events.jsonl"), events.concat().concat()).unwrap();
    fs::write(dir.join("steps.jsonl"), steps.concat().concat()).unwrap();
    let said = |args: &[&str], at: &Path| {
        let output = Command::new(BINARY)
            .args(args)
            .arg(at)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let list: Value = serde_json::from_str(&said(&["list", "--json"], &runs)).unwrap();
    (list["runs"][0]["steps"].clone(), said(&["why"], &dir))
}

#[test]
fn the_steps_of_the_newest_run_are_those_whose_lines_are_there() {
    let root = tempfile::tempdir().unwrap();
    let Parts {
        start,
        rounds: [first, second, third],
        end,
        steps,
    } = &parts();
    let finished: Pieces<'_> = vec![start, first, second, third, end];
    let cases: [(&str, Pieces<'_>, Pieces<'_>, i64); 5] = [
        (
            "resumed",
            vec![start, first, &second[..3], start, second, third, end],
            vec![steps],
            3,
        ),
        (
            "died before its first line",
            vec![start, &first[..3], start, first, second, third, end],
            vec![steps],
            3,
        ),
        (
            "over a finished one",
            [finished.clone(), finished].concat(),
            vec![steps, steps],
            3,
        ),
        (
            "in its first round",
            vec![start, first, second, third, end, start, &first[..3]],
            vec![steps],
            0,
        ),
        (
            "a line twice",
            vec![start, first, second, third, end],
            vec![steps, &steps[2..]],
            3,
        ),
    ];
    for (name, events, lines, wanted) in cases {
        let (counted, why) = told(root.path(), name, &events, &lines);
        assert_eq!(counted, wanted, "{name}");
        assert_eq!(
            why.contains("Answered at step 2"),
            wanted > 0,
            "{name}: {why}"
        );
        assert!(!why.contains("No answer was given"), "{name}: {why}");
    }
}

#[test]
fn a_line_written_twice_is_named_and_begins_no_run() {
    let root = tempfile::tempdir().unwrap();
    let Parts {
        start,
        rounds: [first, second, third],
        end,
        steps,
    } = &parts();
    let events: [&[String]; 5] = [start, first, second, third, end];
    told(root.path(), "twice", &events, &[steps, &steps[2..]]);
    let output = Command::new(BINARY)
        .arg("check")
        .arg(root.path().join("twice/run"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("the line repeats the one before, but no event marks a new run"),
        "{said}"
    );
    assert!(!said.contains("step ids restart"), "{said}");
}

#[test]
fn what_the_first_run_came_to_is_not_what_the_second_one_does() {
    let root = tempfile::tempdir().unwrap();
    let used = corpus().join("q060/q060_rerun_same_id");
    let dir = root.path().join("run");
    fs::create_dir_all(&dir).unwrap();
    let lines = |name: &str| -> Vec<String> {
        fs::read_to_string(used.join(name))
            .unwrap()
            .lines()
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let (events, steps) = (lines("events.jsonl"), lines("steps.jsonl"));
    let begins: Vec<usize> = (0..events.len())
        .filter(|at| events[*at].contains("\"INIT\""))
        .collect();
    let end = events
        .iter()
        .position(|line| line.contains("\"END\""))
        .unwrap();
    // The engine rewrites the manifest when the second run ends.
    let mut manifest: Value =
        serde_json::from_slice(&fs::read(used.join("manifest.json")).unwrap()).unwrap();
    manifest["updated_at"] = serde_json::from_str::<Value>(&events[end]).unwrap()["ts"].clone();
    fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(dir.join("events.jsonl"), events[..begins[1] + 3].concat()).unwrap();
    fs::write(dir.join("steps.jsonl"), steps[..3].concat()).unwrap();
    let said = |args: &[&str]| {
        let output = Command::new(BINARY)
            .args(args)
            .arg(root.path().join("run"))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let why = said(&["why"]);
    assert!(why.contains("Died in step 0 while"), "{why}");
    assert!(!why.contains("all tests pass"), "{why}");
    let shown: Value = serde_json::from_str(&said(&["show", "--json"])).unwrap();
    assert_eq!(
        (&shown["liveness"], &shown["final_result"]),
        (&"died".into(), &Value::Null),
        "{shown:#}"
    );
}
