//! Tests `board tag`, and that lists, the API and a running board know the tags.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::soak::times;
use crate::wait::until;

/// A home with four runs in `runs`: a, b, c, and one below a directory `tag=nightly`.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for run in ["a", "b", "c", "tag=nightly/d"] {
            copy(&corpus().join("q060/q060_handoff"), &home.runs().join(run));
            // Otherwise they are duplicates.
            let manifest = home.runs().join(run).join("manifest.json");
            let mut fields: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
            fields["run_id"] = json!(run);
            fs::write(&manifest, fields.to_string()).unwrap();
        }
        home
    }

    fn runs(&self) -> PathBuf {
        self.0.path().join("runs")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("settings/board/tags.json")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env("XDG_CONFIG_HOME", self.0.path().join("settings"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command, and returns its exit code and what it printed.
    fn said(&self, args: &[&str]) -> (i32, String, String) {
        let output = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap_or(-1);
        (code, text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    fn prints(&self, args: &[&str], expected: &str) {
        assert_eq!(
            self.said(args),
            (0, expected.to_owned(), String::new()),
            "{args:?}"
        );
    }

    /// Returns the keys and the tags of the runs that match.
    fn listed(&self, query: &str) -> Vec<(String, Value)> {
        let (code, stdout, stderr) = self.said(&["list", "runs", query, "--json", "--sort", "run"]);
        assert_eq!((code, &*stderr), (0, ""));
        rows(&serde_json::from_str(&stdout).unwrap())
    }
}

fn rows(list: &Value) -> Vec<(String, Value)> {
    let rows = list["runs"].as_array().unwrap().iter();
    rows.map(|row| (row["key"].as_str().unwrap().to_owned(), row["tags"].clone()))
        .collect()
}

fn row(key: &str, tags: &[&str]) -> (String, Value) {
    (key.to_owned(), json!(tags))
}

#[test]
fn a_tag_names_a_set_of_runs() {
    let home = Home::new();
    home.prints(
        &["tag", "--list"],
        "no tags; `board tag QUERY NAME` adds one\n",
    );
    home.prints(&["tag", "run=a", "v1"], "tagged 1 run with v1\n");
    home.prints(
        &["tag", "run=a", "v1", "runs"],
        "tagged 0 runs with v1; 1 run already had it\n",
    );
    home.prints(
        &["tag", "run=a,b", "v1"],
        "tagged 1 run with v1; 1 run already had it\n",
    );
    home.prints(&["tag", "run=c", "v10"], "tagged 1 run with v10\n");
    home.prints(&["tag"], "v1   2 runs\nv10  1 run\n");

    // A whole tag, not a part of one.
    assert_eq!(
        home.listed("tag:v1"),
        [row("a", &["v1"]), row("b", &["v1"])]
    );
    assert_eq!(home.listed("tag:v"), []);
    assert_eq!(home.listed("tag:V10,nothing"), [row("c", &["v10"])]);
    assert_eq!(
        home.listed("-tag:v1"),
        [row("c", &["v10"]), row("tag=nightly/d", &["nightly"])]
    );
    assert_eq!(home.listed("tag:none"), []);
    assert_eq!(home.listed("tag:nightly").len(), 1);
    let (code, text, _) = home.said(&["list", "runs", "tag:v1"]);
    assert!(
        code == 0 && text.contains("  tag  ") && text.contains("  v1  "),
        "{text}"
    );

    let (code, text, _) = home.said(&["experiment", "tag:v1", "tag:v10", "runs", "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (
            code,
            answer["a"]["runs"].clone(),
            answer["b"]["runs"].clone()
        ),
        (0, json!(2), json!(1)),
        "{text}"
    );

    home.prints(
        &["tag", "run=b,c", "v1", "--remove"],
        "removed v1 from 1 of 2 matching runs\n",
    );
    assert_eq!(home.listed("tag:v1"), [row("a", &["v1"])]);
    home.prints(
        &["tag", "run:nightly", "nightly", "--remove"],
        "removed nightly from 0 of 1 matching run; 1 run still has it from its records or a directory\n",
    );
    let (code, text, _) = home.said(&["tag", "run=none-such", "v1"]);
    assert_eq!((code, &*text), (1, "no run matches\n"));
    // Only its own directory changed.
    let names = fs::read_dir(home.file().parent().unwrap()).unwrap();
    let names: BTreeSet<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["tags.json", "tags.lock"].map(Into::into).into());
}

#[test]
fn a_run_that_is_gone_can_lose_a_tag_and_a_later_run_does_not_inherit_it() {
    let home = Home::new();
    home.prints(&["tag", "run=a,b,c", "x"], "tagged 3 runs with x\n");
    fs::remove_dir_all(home.runs().join("b")).unwrap();
    fs::remove_dir_all(home.runs().join("c")).unwrap();
    // The next run in the directory began an hour later, with the same id.
    let manifest = home.runs().join("a/manifest.json");
    let mut fields: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let listed = home.said(&["list", "runs", "run=a", "--json"]).1;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let began: jiff::Timestamp = listed["runs"][0]["started_at"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let later = began + jiff::Span::new().hours(1);
    fields["started_at"] = json!(later.to_string());
    fs::write(&manifest, fields.to_string()).unwrap();
    assert_eq!(home.listed("run=a"), [row("a", &[])]);

    home.prints(&["tag"], "x  3 runs, 2 of them without files\n");
    let (code, text, _) = home.said(&["tag", "run=b", "x", "--remove"]);
    assert_eq!(
        (code, &*text),
        (
            1,
            "no run matches, so nothing was removed; 2 runs without files have x: board tag --forget x\n"
        )
    );
    home.prints(
        &["tag", "--forget", "X"],
        "removed X from 2 runs that no longer exist\n",
    );
    let (code, text, _) = home.said(&["tag", "--forget", "x", "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, answer), (1, json!({"tag": "x", "forgotten": 0})));
    home.prints(
        &["tag", "run=a", "x", "--remove"],
        "removed x from 0 of 1 matching run\n",
    );
    home.prints(&["tag"], "no tags; `board tag QUERY NAME` adds one\n");
    assert_eq!(home.said(&["tag", "run=a", "x", "--forget", "x"]).0, 2);
}

#[test]
fn a_tag_is_removed_from_duplicates_too() {
    let home = Home::new();
    let session = Path::new(env!("CARGO_MANIFEST_DIR")).join(
        "sample_runs/tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a03.jsonl",
    );
    for name in ["x", "y"] {
        fs::create_dir(home.runs().join(name)).unwrap();
        fs::copy(&session, home.runs().join(name).join("s.jsonl")).unwrap();
    }
    home.prints(&["tag", "run:x/s", "t"], "tagged 1 run with t\n");
    home.prints(&["tag", "duplicate_of:x/s", "t"], "tagged 1 run with t\n");
    home.prints(
        &["tag", "run:s.jsonl", "t", "--remove"],
        "removed t from 2 of 2 matching runs\n",
    );
    home.prints(&["tag"], "no tags; `board tag QUERY NAME` adds one\n");
}

#[test]
fn tags_in_manifests_and_logs_count_too() {
    let home = Home::new();
    let recorded = |run: &str, tags: Value| {
        let file = home.runs().join(run).join("manifest.json");
        let mut fields: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        fields["tag"] = json!("one two");
        fields["tags"] = tags;
        fs::write(&file, fields.to_string()).unwrap();
    };
    recorded("a", json!(["nightly", 7, "b", "nightly"]));
    recorded(
        "b",
        json!((0..40).map(|n| n.to_string()).collect::<Vec<_>>()),
    );
    assert_eq!(
        home.listed("tag:nightly"),
        [
            row("a", &["b", "nightly", "one two"]),
            row("tag=nightly/d", &["nightly"])
        ]
    );
    assert_eq!(home.listed("tag:\"one two\"").len(), 2);
    let b = home.listed("run=b");
    assert_eq!(b[0].1.as_array().unwrap().len(), 32);
    let (_, text, _) = home.said(&["check", "runs/b"]);
    assert!(text.contains("9 tags are skipped"), "{text}");
    home.prints(
        &["tag", "run=a", "nightly"],
        "tagged 0 runs with nightly; 1 run already had it\n",
    );
}

#[test]
fn a_running_board_follows_the_tags() {
    let home = Home::new();
    let command = home.command(&["serve", "runs", "--port", "0", "--no-cache"]);
    let board = Board::spawn(command, home.0.path());
    board.until_read();
    let found = |query: &str| rows(&board.json(&format!("/api/runs?sort=run&q={query}")));
    assert_eq!(found("tag:x"), []);
    assert_eq!(found("tag:nightly"), [row("tag=nightly/d", &["nightly"])]);
    home.prints(&["tag", "run=a,b", "x"], "tagged 2 runs with x\n");
    until("the board shows the tag", || {
        (found("tag:x") == [row("a", &["x"]), row("b", &["x"])]).then_some(())
    });
    let values = board.json("/api/complete?q=tag:");
    let values = values["items"].as_array().unwrap();
    assert!(
        values
            .iter()
            .any(|item| (&item["text"], &item["count"]) == (&json!("x"), &json!(2))),
        "{values:?}"
    );
    let page = board.get("/?q=tag:x").text().to_owned();
    assert!(page.contains(">Tags<"), "{page}");

    // A file that can't be used changes nothing.
    let good = fs::read(home.file()).unwrap();
    fs::write(home.file(), "{").unwrap();
    home.said(&["list", "runs"]);
    assert_eq!(found("tag:x").len(), 2);
    fs::write(home.file(), good).unwrap();
    home.prints(
        &["tag", "run=a,b", "x", "--remove"],
        "removed x from 2 of 2 matching runs\n",
    );
    until("the board drops the tag", || {
        found("tag:x").is_empty().then_some(())
    });
}

#[test]
fn a_file_that_cannot_be_used_is_kept_and_named() {
    let home = Home::new();
    fs::create_dir_all(home.file().parent().unwrap()).unwrap();
    let many: Vec<String> = (0..33).map(|n| n.to_string()).collect();
    let long = "x".repeat(65);
    for (text, why) in [
        ("{".to_owned(), "EOF while parsing"),
        (
            json!({"version": 3, "sets": {}}).to_string(),
            "its version is 3, but board supports versions 1 and 2",
        ),
        (
            json!({"version": 1, "runs": {"/a": many}}).to_string(),
            "/a has more than 32 tags",
        ),
        (
            json!({"version": 1, "runs": {"/a": [long]}}).to_string(),
            "a tag has 1 to 64 characters",
        ),
        (
            json!({"version": 1, "runs": {"/a": ["a b"]}}).to_string(),
            "a tag can't contain spaces",
        ),
        (
            json!({"version": 2, "runs": {"/a": {"tags": ["a b"]}}}).to_string(),
            "a tag can't contain spaces",
        ),
        (" ".repeat((16 << 20) + 1), "larger than 16 MiB"),
    ] {
        fs::write(home.file(), &text).unwrap();
        for args in [
            &["tag", "run=a", "x"][..],
            &["tag"],
            &["list", "tag:x", "runs"],
            &["experiment", "tag:a", "tag:b"],
        ] {
            let (code, stdout, stderr) = home.said(args);
            assert_eq!((code, &*stdout), (3, ""), "{args:?}");
            assert!(
                stderr.contains("tags.json") && stderr.contains(why) && stderr.contains("move"),
                "{args:?}: {stderr}"
            );
        }
        let (code, stdout, stderr) = home.said(&["list", "runs"]);
        assert_eq!(code, 0, "a query without tags needs none");
        assert!(stdout.contains("4 runs"), "{stdout}");
        assert!(
            stderr.contains("warning") && stderr.contains(why),
            "{stderr}"
        );
        assert_eq!(fs::read_to_string(home.file()).unwrap(), text);
    }
    for name in [
        "",
        "a b",
        "a,b",
        "a\"b",
        "it's",
        "a\tb",
        "./runs",
        "a/b",
        "none",
        &"x".repeat(65),
    ] {
        let (code, _, stderr) = home.said(&["tag", "run=a", name]);
        assert_eq!(code, 2, "{name:?}: {stderr}");
    }
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let home = Home::new();
    let writers = times(8, 40);
    let children: Vec<_> = (0..writers)
        .map(|n| {
            let (run, name) = (["run=a", "run=b"][n % 2], format!("n{}", n / 2));
            let mut command = home.command(&["tag", run, &name]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let written: Value = serde_json::from_slice(&fs::read(home.file()).unwrap()).unwrap();
    let runs = home.runs().canonicalize().unwrap();
    for run in ["a", "b"] {
        let tagged = &written["runs"][path(&runs.join(run))];
        let tags = tagged["tags"].as_array().unwrap();
        assert_eq!(tags.len(), writers / 2, "{written}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
