//! Cases of where runs are found: copies, foreign directories, skipped files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{assert_says, board, board_json, cases};

const ARCHIVED: &str = "88-cx-archived-copy";
const RESUMED: &str = "01-cc-resumed-copies";
const UTF16: &str = "78-cc-utf16";

/// The rows of a list: key and a field.
fn rows(list: &Value, field: &str) -> Vec<(String, Value)> {
    let rows = list["runs"].as_array().unwrap().iter();
    rows.map(|row| (row["key"].as_str().unwrap().to_owned(), row[field].clone()))
        .collect()
}

fn sum(list: &Value, field: &str) -> i64 {
    rows(list, field)
        .iter()
        .map(|(_, value)| value.as_i64().unwrap_or_default())
        .sum()
}

/// Copies the files below a directory to another one.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name())
        };
        if from.is_dir() {
            copy(&from, &to.join(name))
        } else {
            fs::copy(from, to.join(name)).map(|_| ()).unwrap()
        }
    }
}

#[test]
fn an_archived_session_is_one_run_and_says_where_it_is_stored() {
    let list = board_json(&["list", ARCHIVED]);
    assert_eq!(
        (&list["total"], &list["copies"], sum(&list, "tokens")),
        (&1.into(), &1.into(), 1_100)
    );
    let row = &list["runs"][0];
    assert!(
        row["key"].as_str().unwrap().starts_with("sessions/"),
        "the archived one is the copy: {row}"
    );
    assert!(
        row["also_at"][0]
            .as_str()
            .unwrap()
            .starts_with("archived_sessions/"),
        "{row}"
    );
    let groups = board_json(&["list", ARCHIVED, "--group", "project"]);
    let group = &groups["groups"][0];
    assert_eq!(
        (
            &group["runs"],
            &group["sums"]["tokens"]["sum"],
            &group["twins"]
        ),
        (&1.into(), &1_100.into(), &1.into())
    );
    assert_says(
        &board(&["list", ARCHIVED]),
        &[
            "also in archived_sessions/",
            "1 run",
            "1 duplicate not counted",
        ],
    );
    let copies = board_json(&["list", ARCHIVED, "duplicate_of:sessions"]);
    assert!(
        copies["runs"][0]["duplicate_of"]
            .as_str()
            .unwrap()
            .starts_with("sessions/"),
        "{copies}"
    );
    // Here the duplicate is the run that is counted.
    let asked = board(&["list", ARCHIVED, "duplicate_of:sessions"]);
    assert!(asked.contains("\n1 of 2 runs\n"), "{asked}");
    assert!(!asked.contains("not counted"), "{asked}");
}

#[test]
fn a_search_in_the_runs_of_a_query_finds_a_text_of_duplicates_once() {
    let search = |rest: &[&str]| {
        let found = board_json(&[&["search", ARCHIVED, "token_count"], rest].concat());
        (found["runs"].clone(), found["found"].as_u64().unwrap())
    };
    let (one, once) = search(&["--in", "steps>=0"]);
    assert!(one == 1 && once > 0);
    // One of the two files may have records that the other lacks.
    assert_eq!(search(&[]), (2.into(), 2 * once));
    // The query may ask for the duplicates.
    assert_eq!(search(&["--in", "duplicate_of:sessions"]), (1.into(), once));
}

#[test]
fn the_copy_that_grew_is_the_one_that_counts() {
    let temp = tempfile::tempdir().unwrap();
    copy(&cases().join(ARCHIVED), temp.path());
    let archived = fs::read_dir(temp.path().join("archived_sessions"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read_to_string(&archived).unwrap();
    let again = text
        .lines()
        .filter(|line| line.contains("response_item") || line.contains("token_count"));
    let more: String = again
        .map(|line| line.replace("T10:00", "T10:05") + "\n")
        .collect();
    fs::write(&archived, text + &more).unwrap();
    let list = board_json(&["list", temp.path().to_str().unwrap()]);
    assert_eq!(list["total"], 1);
    assert!(
        list["runs"][0]["key"]
            .as_str()
            .unwrap()
            .starts_with("archived_sessions/"),
        "{}",
        list["runs"][0]
    );
    assert_eq!(list["runs"][0]["steps"], 2);
}

#[test]
fn a_resumed_session_counts_only_what_is_new_in_it() {
    for is_swapped in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let names = [
            "833d90bb-ac8b-416f-8273-4cef0f666e1b.jsonl",
            "dca31315-aa17-41ed-8e4b-3cd969215b95.jsonl",
        ];
        let [long, short] = if is_swapped {
            ["z/long.jsonl", "a/short.jsonl"]
        } else {
            ["a/long.jsonl", "z/short.jsonl"]
        };
        for (name, to) in names.iter().zip([long, short]) {
            let to = temp.path().join(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(cases().join(RESUMED).join(name), to).unwrap();
        }
        let list = board_json(&["list", temp.path().to_str().unwrap(), "--sort", "run"]);
        assert_eq!(
            (&list["total"], sum(&list, "tokens")),
            (&2.into(), 3_533),
            "swapped: {is_swapped}"
        );
        let of = |key: &str, field: &str| {
            list["runs"]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| row["key"] == key)
                .unwrap()[field]
                .clone()
        };
        assert_eq!(
            (of(long, "tokens"), of(long, "steps"), of(long, "turns")),
            (1_222.into(), 1.into(), 1.into())
        );
        assert_eq!(
            (
                of(short, "tokens"),
                of(short, "steps"),
                of(short, "copied_steps")
            ),
            (2_311.into(), 2.into(), 0.into())
        );
        assert_eq!(
            (of(long, "copied_from"), of(long, "copied_steps")),
            (short.into(), 2.into())
        );
        assert_eq!(of(long, "started_at"), "2026-03-10T10:00:02.000000Z");
        // Without the first one, nothing tells that its records are copies.
        fs::remove_file(temp.path().join(short)).unwrap();
        let alone = board_json(&["list", temp.path().to_str().unwrap()]);
        assert_eq!(
            (&alone["runs"][0]["steps"], sum(&alone, "tokens")),
            (&3.into(), 3_533)
        );
    }
}

#[test]
fn sessions_that_were_resumed_from_one_share_its_steps_once() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    copy(&cases().join(RESUMED), temp.path());
    let long = fs::read_to_string(
        temp.path()
            .join("833d90bb-ac8b-416f-8273-4cef0f666e1b.jsonl"),
    )
    .unwrap();
    // A second branch, and an identical copy under the id of a third session.
    let other = long
        .replace("833d90bb", "933d90bb")
        .replace("2026-03-10T10:", "2026-03-10T11:")
        .replace("msg_01b1", "msg_01c1");
    fs::write(
        temp.path()
            .join("933d90bb-ac8b-416f-8273-4cef0f666e1b.jsonl"),
        other,
    )
    .unwrap();
    fs::write(
        temp.path()
            .join("a33d90bb-ac8b-416f-8273-4cef0f666e1b.jsonl"),
        long.replace("833d90bb", "a33d90bb"),
    )
    .unwrap();
    let list = board_json(&["list", dir]);
    assert_eq!(
        (&list["total"], sum(&list, "tokens"), sum(&list, "steps")),
        (&3.into(), 2_311 + 2 * 1_222, 4)
    );
    assert_eq!(sum(&list, "copied_steps"), 4);
    for table in ["runs", "steps"] {
        let rows: Vec<Value> = board(&["table", table, dir])
            .lines()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect();
        assert_eq!(
            rows.len(),
            if table == "runs" { 3 } else { 4 },
            "{table}: {rows:?}"
        );
    }
}

#[test]
fn a_session_and_its_captured_stream_are_one_run() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
    let temp = tempfile::tempdir().unwrap();
    let session = "gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl";
    for (from, to) in [
        (session, "tmp/p/chats/session.jsonl"),
        ("gemini-stream/answered.jsonl", "stream.jsonl"),
    ] {
        let to = temp.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(samples.join(from), to).unwrap();
    }
    let list = board_json(&["list", temp.path().to_str().unwrap()]);
    let row = &list["runs"][0];
    assert_eq!(
        (&list["total"], &row["key"]),
        (&1.into(), &"tmp/p/chats/session.jsonl".into())
    );
    assert_eq!(row["also_at"], serde_json::json!(["stream.jsonl"]));
    // If only one of the two records the end, that end is reported, whichever of them counts.
    let text = board(&["list", temp.path().to_str().unwrap()]);
    assert_says(
        &text,
        &["also in stream.jsonl", "stream.jsonl records: Answered"],
    );
    // So does the file alone.
    let file = temp.path().join("tmp/p/chats/session.jsonl");
    let why = board(&["why", file.to_str().unwrap()]);
    assert_says(&why, &["Answered", "stream.jsonl"]);
    fs::remove_file(temp.path().join("tmp/p/chats/session.jsonl")).unwrap();
    assert_eq!(
        board_json(&["list", temp.path().to_str().unwrap()])["runs"][0]["key"],
        "stream.jsonl"
    );
}

#[test]
fn text_in_utf_16_is_skipped_with_the_reason() {
    let list = board_json(&["list", UTF16]);
    assert_eq!(
        (&list["total"], &list["skipped_total"]),
        (&0.into(), &1.into())
    );
    let skipped = &list["skipped"][0];
    assert_says(skipped["reason"].as_str().unwrap(), &["UTF-16", "UTF-8"]);
    assert_eq!(skipped["kind"], "file");
    assert_says(
        &board(&["list", UTF16]),
        &["skipped: d2fd5d49-62e9-427c-84d3-00988709dd86.jsonl: UTF-16 text"],
    );
}

#[test]
fn what_another_program_wrote_is_no_run_and_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = temp.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let gptme = r#"{"seq": 1, "ts": "2026-11-25T18:25:43+00:00", "type": "message_append", "payload": {"message": {}}}"#;
    write("gptme/events.jsonl", gptme);
    let kilo = r#"{"type": "text", "timestamp": 1, "sessionID": "a", "part": {}}"#;
    for n in 0..6 {
        write(&format!("kilo/{n}/events.jsonl"), kilo);
    }
    write(
        "vibe/generations/1/manifest.json",
        r#"{"checkpoint":{},"generation":"1","manifest_version":1}"#,
    );
    write("app/manifest.json", r#"{"name":"app","icons":[]}"#);
    write("notes/notes.jsonl", "");
    write("ours/events.jsonl", "{\"phase\": \"INIT\"}\n");
    // Has a record, so it isn't empty, but the record doesn't identify its format.
    write("bare/events.jsonl", "{\"phase\": \"END\"}\n");
    write("bare/manifest.json", "{\"run_id\": \"a\"}");
    let dir = temp.path().to_str().unwrap();
    let list = board_json(&["list", dir]);
    assert_eq!(
        (&list["total"], &list["runs"][0]["key"]),
        (&1.into(), &"ours".into())
    );
    let files = &list["skipped_files"];
    assert_eq!(
        files["unsupported format (looks like an OpenCode or Kilo stream)"],
        6
    );
    assert_eq!(
        (&files["unknown format"], &files["empty file"]),
        (&3.into(), &1.into())
    );
    assert_says(
        &board(&["list", dir]),
        &[
            "skipped: 6 files: unsupported format (looks like an OpenCode or Kilo stream)",
            "skipped: 1 file: empty file",
        ],
    );
}

#[test]
fn a_root_may_be_one_file() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/inspect");
    let log = fs::read_dir(&samples)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "eval"));
    let log = log.expect("a sample with several runs");
    let whole = board_json(&["list", samples.to_str().unwrap()]);
    let name = log.file_name().unwrap().to_str().unwrap().to_owned();
    let expected = rows(&whole, "steps")
        .into_iter()
        .filter(|(key, _)| key.starts_with(&name))
        .collect::<Vec<_>>();
    let one = board_json(&["list", log.to_str().unwrap()]);
    assert!(!expected.is_empty());
    let sorted = |mut rows: Vec<(String, Value)>| {
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    assert_eq!(sorted(rows(&one, "steps")), sorted(expected.clone()));
    let table = board(&["table", "runs", log.to_str().unwrap()]);
    assert_eq!(table.lines().count(), expected.len());
    let first = one["runs"][0]["path"].as_str().unwrap();
    assert!(first.starts_with(log.to_str().unwrap()), "{first}");
    board_json(&["why", first]);
}
