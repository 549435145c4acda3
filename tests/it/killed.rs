//! What is left when the engine's process is killed? Every complete line, and a manifest that can be read.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::board::BINARY;
use crate::wait::DEADLINE;

/// Plays the long scenario, kills it once `steps.jsonl` has `bytes`, and looks at what is there; whether it was killed
/// before its end.
fn killed_at(bytes: u64) -> bool {
    let root = tempfile::tempdir().unwrap();
    let mut child = Command::new(BINARY)
        .args(["demo", "--scenario", "long"])
        .arg(root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let run = root.path().join("long");
    let steps = run.join("steps.jsonl");
    let start = Instant::now();
    // Without a pause: the run takes some milliseconds, and it is to be met in the middle.
    while fs::metadata(&steps).map_or(0, |file| file.len()) < bytes && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < DEADLINE, "no {bytes} bytes were written");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let manifest: Value = serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    for (file, key) in [("steps.jsonl", "step_count"), ("events.jsonl", "event_count")] {
        let text = fs::read(run.join(file)).unwrap();
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let (torn, whole) = lines.split_last().unwrap();
        let whole: Vec<Value> = whole.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
        assert!(whole.len() as u64 >= manifest[key].as_u64().unwrap(), "no line that was counted is lost");
        if file == "steps.jsonl" {
            assert!(whole.iter().enumerate().all(|(at, line)| line["step_id"] == at));
        }
        // One write a line: what is torn is the line that was being written, and most often nothing is.
        assert!(serde_json::from_slice::<Value>(torn).is_err());
    }
    let check = Command::new(BINARY).arg("check").arg("--json").arg(&run).output().unwrap();
    let said: Value = serde_json::from_slice(&check.stdout).unwrap();
    let killed = manifest["status"] == "running";
    let issues = said["runs"][0]["issues_list"].as_array().unwrap();
    assert!(issues.len() <= usize::from(killed), "a torn last line at most: {issues:?}");
    killed
}

#[test]
fn no_complete_line_is_lost_and_the_manifest_can_be_read() {
    let killed = (0..12).filter(|place| killed_at(1 + place * 15_000)).count();
    assert!(killed >= 6, "only {killed} of 12 were met in the middle");
}
