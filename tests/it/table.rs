//! Tests that an updated table equals a freshly written one, whatever happened in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use scraper::Html;
use serde_json::{Value, json};

use crate::board::{BINARY, Board};
use crate::disk::{copy, walk};
use crate::html::hrefs;
use crate::soak::times;
use crate::wait::until;

fn table(args: &[&str]) -> Output {
    Command::new(BINARY)
        .arg("table")
        .args(args)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the report of `board table --out`.
#[track_caller]
fn keep(which: &str, root: &Path, out: &Path) -> Value {
    let said = table(&[
        which,
        root.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--json",
    ]);
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    serde_json::from_slice(&said.stdout).unwrap()
}

/// Returns the contents of a table's files by relative path.
fn files(table: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = |path: PathBuf| {
        (
            path.strip_prefix(table).unwrap().to_owned(),
            fs::read(&path).unwrap(),
        )
    };
    walk(table)
        .into_iter()
        .filter(|path| path.is_file())
        .map(file)
        .collect()
}

/// Enough sample runs for a table of several files.
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
    let said = table(&[
        "runs",
        root,
        "--in",
        "steps>3",
        "--board",
        "http://board.example/",
    ]);
    let runs = rows(&said.stdout);
    assert!(
        said.status.success() && runs.len() > 3,
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert!(
        runs.iter().all(|run| run["steps"].as_i64().unwrap() > 3),
        "{runs:?}"
    );
    assert!(runs.is_sorted_by_key(|run| run["transcript_id"].as_str().unwrap().to_owned()));
    assert!(
        runs[0]["source_uri"]
            .as_str()
            .unwrap()
            .starts_with("http://board.example/runs/"),
        "{}",
        runs[0]
    );
    assert_eq!(
        said.stdout,
        table(&[
            "runs",
            root,
            "--in",
            "steps>3",
            "--board",
            "http://board.example/"
        ])
        .stdout
    );
    let steps = rows(&table(&["steps", root, "--in", "steps>3"]).stdout);
    let of = |run: &Value| {
        steps
            .iter()
            .filter(|step| step["transcript_id"] == run["transcript_id"])
            .count()
    };
    assert!(
        runs.iter()
            .all(|run| of(run) as i64 == run["steps"].as_i64().unwrap())
    );
    let csv =
        String::from_utf8(table(&["steps", root, "--in", "steps>3", "--format", "csv"]).stdout)
            .unwrap();
    assert!(csv.starts_with("transcript_id,step,source_uri,") && csv.lines().count() > steps.len());
}

#[test]
fn fields_of_csv_are_to_the_letter() {
    let (_dir, root) = some_runs();
    copy(&root.join("wait"), &root.join("-x"));
    copy(&root.join("wait"), &root.join("=1+1,\"a\"\r"));
    let said = table(&["runs", root.to_str().unwrap(), "--format", "csv"]).stdout;
    let csv = String::from_utf8(said).unwrap();
    let keys: Vec<Value> = rows(&table(&["runs", root.to_str().unwrap()]).stdout);
    assert!(
        keys.iter().any(|row| row["transcript_id"] == "-x"),
        "{keys:?}"
    );
    for key in keys
        .iter()
        .map(|row| row["transcript_id"].as_str().unwrap())
    {
        let field = if key.contains([',', '"', '\r']) {
            format!("\"{}\"", key.replace('"', "\"\""))
        } else {
            key.to_owned()
        };
        assert_eq!(csv.matches(&format!("\r\n{field},")).count(), 1, "{key:?}");
    }
}

#[test]
fn a_kept_table_is_brought_up_to_date() {
    let (dir, root) = some_runs();
    let out = dir.path().join("table");
    let first = keep("runs", &root, &out);
    assert_eq!(first["files"], first["files_written"]);
    let again = keep("runs", &root, &out);
    assert_eq!(
        (&again["files_written"], &again["files_removed"]),
        (&0.into(), &0.into()),
        "{again}"
    );
    assert_eq!(again["rows"], first["rows"]);

    // One run disappears, one appears, one changes, and one of the table's files is missing.
    fs::remove_dir_all(root.join("unicode")).unwrap();
    copy(&root.join("wait"), &root.join("waits_more"));
    let manifest = root.join("wait/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("\"status\": \"completed\""), "{text}");
    fs::write(
        &manifest,
        text.replace("\"status\": \"completed\"", "\"status\":\"completed\""),
    )
    .unwrap();
    let spoilt = walk(&out.join("runs"))
        .into_iter()
        .find(|path| path.is_file())
        .unwrap();
    fs::remove_file(&spoilt).unwrap();
    keep("runs", &root, &out);
    let fresh = dir.path().join("fresh");
    keep("runs", &root, &fresh);
    let kept = files(&out.join("runs"));
    assert!(kept == files(&fresh.join("runs")), "{:?}", kept.keys());
    let ids: Vec<Value> = kept
        .values()
        .flat_map(|bytes| rows(bytes))
        .map(|run| run["transcript_id"].clone())
        .collect();
    assert!(
        ids.contains(&"waits_more".into()) && !ids.contains(&"unicode".into()),
        "{ids:?}"
    );

    // Without runs, no files remain.
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
    // Killed after the first file appears, after the second, and so on.
    for seen in 1..=whole.len().min(3) {
        let mut child = Command::new(BINARY)
            .args([
                "table",
                "steps",
                root.to_str().unwrap(),
                "--out",
                out.to_str().unwrap(),
            ])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let is_file = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "jsonl");
        let there = || {
            out.join("steps").is_dir()
                && walk(&out.join("steps"))
                    .iter()
                    .filter(|path| is_file(path))
                    .count()
                    >= seen
        };
        until("a file is there, or it came to its end", || {
            (there() || child.try_wait().unwrap().is_some()).then_some(())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        for (name, bytes) in files(&out.join("steps")) {
            assert!(whole[&name] == bytes, "{}", name.display());
        }
    }
    keep("steps", &root, &out);
    assert!(files(&out.join("steps")) == whole);
    let beside = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(".board-")
    };
    assert_eq!(
        walk(&out).into_iter().find(beside),
        None,
        "the leftovers of a killed call are removed"
    );
}

#[test]
fn what_the_table_did_not_write_is_neither_overwritten_nor_removed() {
    let (dir, root) = some_runs();
    let out = dir.path().join("table");
    keep("runs", &root, &out);
    let own = walk(&out.join("runs"))
        .into_iter()
        .find(|path| path.is_file())
        .unwrap();
    let bytes = fs::read(&own).unwrap();
    let refused = |place: &Path, why: &str| {
        let before = files(&out);
        let said = table(&[
            "runs",
            root.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--format",
            "csv",
        ]);
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(2), "{text}");
        assert!(
            text.contains(place.to_str().unwrap()) && text.contains(why) && text.contains("hint: "),
            "{text}"
        );
        assert!(files(&out) == before, "{why}");
    };
    // An unlisted file of any format in the table, and another file in place of a listed one.
    let foreign = own.with_file_name("99.csv");
    fs::write(&foreign, "mine").unwrap();
    refused(&foreign, "doesn't list it");
    fs::remove_file(&foreign).unwrap();
    fs::write(&own, "mine").unwrap();
    refused(&own, "has changed since it was written");
    fs::remove_file(&own).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("file"), "theirs").unwrap();
        symlink(elsewhere.join("file"), &own).unwrap();
        refused(&own, "symbolic link");
        fs::remove_file(&own).unwrap();
        let moved = dir.path().join("moved");
        for place in
            ["runs", "_board", "_board/runs.lock", "_board/runs.jsonl"].map(|name| out.join(name))
        {
            fs::rename(&place, &moved).unwrap();
            symlink(&moved, &place).unwrap();
            refused(&place, "symbolic link");
            fs::remove_file(&place).unwrap();
            fs::rename(&moved, &place).unwrap();
        }
        let day = out.join("runs/day=1999-01-01");
        symlink(&elsewhere, &day).unwrap();
        refused(&day, "symbolic link");
        fs::remove_file(&day).unwrap();
        assert_eq!(
            files(&elsewhere),
            BTreeMap::from([("file".into(), b"theirs".to_vec())])
        );
        // The directory itself may be a link, because the user named it.
        symlink(&out, dir.path().join("link")).unwrap();
        keep("runs", &root, &dir.path().join("link"));
    }
    keep("runs", &root, &out);
    assert!(
        fs::read(&own).unwrap() == bytes,
        "missing files are rewritten"
    );
}

#[test]
fn a_row_leads_to_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs");
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("more");
    copy(&root.join("long"), &other.join("long"));
    let board = Board::serve_with(&root, 0, &[other.to_str().unwrap()]);
    board.until_read();
    let address = format!("http://{}", board.address);
    let args = [
        root.to_str().unwrap(),
        other.to_str().unwrap(),
        "--board",
        &address,
    ];
    let (runs, steps) = (
        table(&[&["runs"], &args[..]].concat()),
        table(&[&["steps"], &args[..]].concat()),
    );
    let (runs, steps) = (rows(&runs.stdout), rows(&steps.stdout));
    let known: Vec<Value> = runs
        .iter()
        .map(|run| run["transcript_id"].clone())
        .collect();
    assert!(
        known.contains(&"sample_runs/long".into()) && known.contains(&"more/long".into()),
        "{known:?}"
    );
    let page = |row: &Value| {
        let uri = row["source_uri"].as_str().unwrap().to_owned();
        let answer = board.get(uri.strip_prefix(&address).unwrap());
        assert_eq!(answer.status, 200, "{uri}");
        (Html::parse_document(answer.text()), uri)
    };
    for run in runs.iter().step_by(times(6, 1)) {
        let (page, uri) = page(run);
        // The page's tabs lead to the same run.
        let tabs = hrefs(&page, "#tabs a");
        assert!(
            tabs.iter()
                .any(|tab| tab.starts_with(&uri[address.len()..])),
            "{uri}: {tabs:?}"
        );
    }
    // The first, middle and last step of a run.
    let (mut opened, mut from, mut nth) = (0, 0, 0);
    while from < steps.len() {
        let of_run = steps[from..]
            .iter()
            .take_while(|row| row["transcript_id"] == steps[from]["transcript_id"])
            .count();
        // One of them for every fourth run; in soak tests, all three for each.
        let places = [0, of_run / 2, of_run - 1];
        let enough = if nth % 4 == 0 { 1 } else { 0 };
        let tried = places.iter().cycle().skip(nth / 4).take(times(enough, 3));
        nth += 1;
        for row in BTreeSet::from_iter(tried.copied())
            .into_iter()
            .map(|at| &steps[from + at])
        {
            let (page, uri) = page(row);
            let current = hrefs(
                &page,
                &format!("#step-{} a[aria-current=true]", row["step"]),
            );
            assert_eq!(current.len(), 1, "{uri} opens the step");
            opened += 1;
        }
        from += of_run;
    }
    assert!(opened > times(20, 100), "{opened}");
}

#[test]
fn a_row_holds_what_its_format_records() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs");
    let root = samples.to_str().unwrap();
    let (runs, steps) = (
        rows(&table(&["runs", root]).stdout),
        rows(&table(&["steps", root]).stdout),
    );
    let is = |key: &str, expected: Value| {
        let run = runs
            .iter()
            .find(|run| run["transcript_id"] == key)
            .unwrap_or_else(|| panic!("{key}"));
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&run[name], value, "{name} of {key}");
        }
    };
    // As recorded in the files.
    is(
        "tools/inspect/ledger.eval/rent_epoch_1",
        json!({"task_set": "ledger", "task_id": "rent", "task_repeat": 1,
        "agent_args": "{}", "model_options": null}),
    );
    is(
        "tools/tau2/results.json/restart_trial_0",
        json!({"task_set": "telecom", "task_id": "restart", "task_repeat": 0,
        "model_options": "{\"temperature\": 0.0}", "message_count": 11}),
    );
    is(
        "tools/harbor/nightly/ledger__solved",
        json!({"task_set": null, "task_id": "ledger"}),
    );
    is(
        "tools/swe-agent/submitted.traj",
        json!({"task_id": "ledger-1", "message_count": 12}),
    );
    is(
        "tools/mini-swe-agent/submitted.traj.json",
        json!({"message_count": 9, "model_options": null,
        "agent_args": "{\"system_template\": \"You fix one issue.\", \"instance_template\": \"{{task}}\", \"step_limit\": 0, \
            \"cost_limit\": 3.0, \"wall_time_limit_seconds\": 0, \"max_consecutive_format_errors\": 3}"}),
    );
    is(
        "success",
        json!({"task_id": "disk", "task_set": null, "message_count": null}),
    );
    // A prompt, five replies and the results of six calls.
    let session = "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
    is(session, json!({"message_count": 12, "task_id": null}));
    let finished = |key: &str| -> Vec<Value> {
        let of_run = steps.iter().filter(|step| step["transcript_id"] == key);
        of_run.map(|step| step["finish_reason"].clone()).collect()
    };
    assert_eq!(
        finished(session),
        ["tool_use", "tool_use", "tool_use", "tool_use", "end_turn"]
    );
    assert!(
        finished("model_native")
            .iter()
            .all(|word| word == "tool_calls" || word == "stop"),
        "{:?}",
        finished("model_native")
    );
    assert!(
        finished("qitos/q060_critic_stop")
            .iter()
            .all(Value::is_null)
    );
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_board_that_writes_no_parquet_says_what_does() {
    let (dir, root) = some_runs();
    let out = dir.path().join("table");
    for more in [&[][..], &["--out", out.to_str().unwrap()]] {
        let said = table(
            &[
                &["steps", root.to_str().unwrap(), "--format", "parquet"],
                more,
            ]
            .concat(),
        );
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(
            (said.status.code(), said.stdout.len()),
            (Some(2), 0),
            "{text}"
        );
        assert!(
            text.contains("lacks the `parquet` feature") && text.contains("--features parquet"),
            "{text}"
        );
        assert!(
            text.contains("COPY (FROM read_json('table/steps/*/*.jsonl')) TO 'steps.parquet'"),
            "{text}"
        );
    }
    assert!(!out.exists());
}

#[cfg(feature = "parquet")]
#[test]
fn a_kept_table_of_parquet_is_brought_up_to_date() {
    let (dir, root) = some_runs();
    let keep = |out: &Path| {
        let args = [
            "steps",
            root.to_str().unwrap(),
            "--format",
            "parquet",
            "--json",
            "--out",
            out.to_str().unwrap(),
        ];
        let said = table(&args);
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
        serde_json::from_slice::<Value>(&said.stdout).unwrap()
    };
    let out = dir.path().join("table");
    assert!(keep(&out)["files_written"].as_u64().unwrap() > 3);
    assert_eq!(keep(&out)["files_written"], 0);
    fs::remove_dir_all(root.join("unicode")).unwrap();
    copy(&root.join("wait"), &root.join("waits_more"));
    keep(&out);
    let fresh = dir.path().join("fresh");
    keep(&fresh);
    let kept = files(&out.join("steps"));
    assert!(kept == files(&fresh.join("steps")), "{:?}", kept.keys());
    assert!(
        kept.values()
            .all(|bytes| bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"))
    );
}

#[test]
fn a_place_that_is_none_is_refused() {
    let (dir, root) = some_runs();
    let refused = |args: &[&str], what: &str| {
        let said = table(args);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(
            !said.status.success() && text.contains(what) && text.contains("hint: "),
            "{text}"
        );
    };
    let (root, out) = (root.to_str().unwrap(), dir.path().join("table"));
    let out = out.to_str().unwrap();
    // `DIR/runs` would be the root itself.
    refused(
        &["runs", root, "--out", dir.path().to_str().unwrap()],
        "which board only reads",
    );
    refused(
        &["runs", root, "--out", &format!("{root}/table")],
        "which board only reads",
    );
    assert!(!Path::new(root).join("table").exists() && !dir.path().join("_board").exists());
    keep("runs", Path::new(root), Path::new(out));
    let other = format!("{root}/qitos");
    refused(&["runs", &other, "--out", out], "the table of other runs");
    fs::remove_dir_all(Path::new(out).join("_board")).unwrap();
    refused(&["runs", root, "--out", out], "didn't write");
    refused(&["runs", "/no/such/place"], "no runs in");
}
