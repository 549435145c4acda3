//! Is a table that is kept the one that a single call would write, whatever happened meanwhile?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::board::BINARY;
use crate::disk::{copy, walk};
use crate::wait::until;

fn table(args: &[&str]) -> Output {
    Command::new(BINARY).arg("table").args(args).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

/// What `--out` says that it did.
#[track_caller]
fn keep(which: &str, root: &Path, out: &Path) -> Value {
    let said = table(&[which, root.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

/// The files of a table with their bytes, by their names below it.
fn files(table: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = |path: PathBuf| (path.strip_prefix(table).unwrap().to_owned(), fs::read(&path).unwrap());
    walk(table).into_iter().filter(|path| path.is_file()).map(file).collect()
}

/// Some runs of the samples, as many as make several files.
fn some_runs() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("runs");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs");
    for name in ["qitos", "unicode", "wait", "long", "loop_detection"] {
        if samples.join(name).is_dir() {
            copy(&samples.join(name), &root.join(name));
        }
    }
    (dir, root)
}

fn rows(bytes: &[u8]) -> Vec<Value> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn rows_go_to_stdout_in_both_formats() {
    let (_dir, root) = some_runs();
    let root = root.to_str().unwrap();
    let said = table(&["runs", root, "--in", "steps>3", "--board", "http://board.example/"]);
    let runs = rows(&said.stdout);
    assert!(said.status.success() && runs.len() > 3, "{}", String::from_utf8_lossy(&said.stderr));
    assert!(runs.iter().all(|run| run["steps"].as_i64().unwrap() > 3), "{runs:?}");
    assert!(runs.is_sorted_by_key(|run| run["transcript_id"].as_str().unwrap().to_owned()));
    assert!(runs[0]["source_uri"].as_str().unwrap().starts_with("http://board.example/runs/"), "{}", runs[0]);
    assert_eq!(said.stdout, table(&["runs", root, "--in", "steps>3", "--board", "http://board.example/"]).stdout);
    let steps = rows(&table(&["steps", root, "--in", "steps>3"]).stdout);
    let of = |run: &Value| steps.iter().filter(|step| step["transcript_id"] == run["transcript_id"]).count();
    assert!(runs.iter().all(|run| of(run) as i64 == run["steps"].as_i64().unwrap()));
    let csv = String::from_utf8(table(&["steps", root, "--in", "steps>3", "--format", "csv"]).stdout).unwrap();
    assert!(csv.starts_with("transcript_id,step,source_uri,") && csv.lines().count() > steps.len());
}

#[test]
fn a_kept_table_is_brought_up_to_date() {
    let (dir, root) = some_runs();
    let out = dir.path().join("table");
    let first = keep("runs", &root, &out);
    assert_eq!(first["files"], first["files_written"]);
    let again = keep("runs", &root, &out);
    assert_eq!((&again["files_written"], &again["files_removed"]), (&0.into(), &0.into()), "{again}");
    assert_eq!(again["rows"], first["rows"]);

    // One run goes, one comes, one changes, and a file of the table is not what it was.
    fs::remove_dir_all(root.join("unicode")).unwrap();
    copy(&root.join("wait"), &root.join("waits_more"));
    let manifest = root.join("wait/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("\"status\": \"completed\""), "{text}");
    fs::write(&manifest, text.replace("\"status\": \"completed\"", "\"status\":\"completed\"")).unwrap();
    let spoilt = walk(&out.join("runs")).into_iter().find(|path| path.is_file()).unwrap();
    fs::write(&spoilt, "{}\n").unwrap();
    keep("runs", &root, &out);
    let fresh = dir.path().join("fresh");
    keep("runs", &root, &fresh);
    let kept = files(&out.join("runs"));
    assert!(kept == files(&fresh.join("runs")), "{:?}", kept.keys());
    let ids: Vec<Value> = kept.values().flat_map(|bytes| rows(bytes)).map(|run| run["transcript_id"].clone()).collect();
    assert!(ids.contains(&"waits_more".into()) && !ids.contains(&"unicode".into()), "{ids:?}");

    // Without runs there is nothing left.
    fs::remove_dir_all(&root).unwrap();
    fs::create_dir(&root).unwrap();
    keep("runs", &root, &out);
    assert_eq!(files(&out.join("runs")), BTreeMap::new());
}

#[test]
fn a_call_that_is_killed_leaves_whole_files_and_the_next_one_goes_on() {
    let (dir, root) = some_runs();
    let (out, fresh) = (dir.path().join("table"), dir.path().join("fresh"));
    keep("steps", &root, &fresh);
    let whole = files(&fresh.join("steps"));
    // Killed once the first file is there, once the second is, and so on.
    for seen in 1..=whole.len().min(3) {
        let mut child = Command::new(BINARY)
            .args(["table", "steps", root.to_str().unwrap(), "--out", out.to_str().unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let is_file = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "jsonl");
        let there = || {
            out.join("steps").is_dir() && walk(&out.join("steps")).iter().filter(|path| is_file(path)).count() >= seen
        };
        until("a file is there, or it came to its end", || {
            (there() || child.try_wait().unwrap().is_some()).then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        for (name, bytes) in files(&out.join("steps")) {
            let is_beside = name.file_name().unwrap().to_str().unwrap().starts_with(".board-");
            assert!(is_beside || whole[&name] == bytes, "{}", name.display());
        }
    }
    keep("steps", &root, &out);
    assert!(files(&out.join("steps")) == whole);
}

#[test]
fn a_place_that_is_none_is_refused() {
    let (dir, root) = some_runs();
    let refused = |args: &[&str], what: &str| {
        let said = table(args);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(!said.status.success() && text.contains(what) && text.contains("hint: "), "{text}");
    };
    let (root, out) = (root.to_str().unwrap(), dir.path().join("table"));
    let out = out.to_str().unwrap();
    // `DIR/runs` would be the root itself.
    refused(&["runs", root, "--out", dir.path().to_str().unwrap()], "only read");
    refused(&["runs", root, "--out", &format!("{root}/table")], "only read");
    assert!(!Path::new(root).join("table").exists() && !dir.path().join("_board").exists());
    keep("runs", Path::new(root), Path::new(out));
    let other = format!("{root}/qitos");
    refused(&["runs", &other, "--out", out], "the table of other runs");
    fs::remove_dir_all(Path::new(out).join("_board")).unwrap();
    refused(&["runs", root, "--out", out], "did not write");
    refused(&["runs", "/no/such/place"], "no runs in");
}
