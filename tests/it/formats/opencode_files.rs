//! Tests sessions of OpenCode whose messages and parts have their own files.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use trace_board::model::TraceFile;
use trace_board::trace::{RootScanner, read_index};

use super::{Read, read, sample};
use crate::disk;
use crate::soak::times;

const SAMPLE: &str = "tools/opencode-files";
const PROJECT: &str = "storage/session/4a1f00c2d3";

fn session(number: u8) -> String {
    format!("{PROJECT}/ses_file000{number}.json")
}

fn copied() -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("a directory");
    disk::copy(&sample(SAMPLE), temp.path());
    temp
}

fn of(root: &Path, number: u8) -> Read {
    read(&root.join(session(number)))
}

/// Returns the reasons of the issues of a session.
fn issues(run: &Read) -> Vec<String> {
    let issues = run.index.issues().listed().iter();
    issues.map(|issue| issue.reason.clone()).collect()
}

/// Returns every file below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let paths = disk::walk(dir).into_iter();
    paths.filter(|path| path.is_file()).collect()
}

#[test]
fn a_root_with_messages_alone_says_where_the_sessions_are() {
    for (root, is_alone) in [
        ("message", true),
        ("message/ses_file0001", true),
        ("part", true),
        ("part/msg_0002", true),
        ("session", false),
        ("", false),
    ] {
        let found = RootScanner::new(sample(SAMPLE).join("storage").join(root)).scan();
        let reasons = found.skipped.iter().map(|skipped| &*skipped.reason);
        let reasons = reasons.filter(|reason| reason.contains("name a directory above as a root"));
        assert_eq!(reasons.count(), usize::from(is_alone), "{root}");
        assert_eq!(found.runs.is_empty(), is_alone, "{root}");
    }
}

#[test]
fn only_the_files_of_sessions_are_runs() {
    let found = RootScanner::new(sample(SAMPLE)).scan();
    let keys: Vec<&str> = found.runs.keys().map(|key| key.as_str()).collect();
    assert_eq!(keys, [session(1), session(2), session(3)]);
    let skipped: Vec<&str> = found.skipped.iter().map(|skipped| &*skipped.path).collect();
    assert_eq!(
        skipped,
        ["storage/project", "storage/session_diff", "storage/todo"]
    );
    for dir in found.runs.values() {
        let index = read_index(dir);
        for step in index.steps() {
            let line = dir.line(|| &index, TraceFile::Steps, step.span);
            line.expect("a listed step can be read");
        }
        for event in index.events() {
            let line = dir.line(|| &index, TraceFile::Events, event.span);
            line.expect("a listed event can be read");
        }
    }
}

#[test]
fn a_session_is_made_from_its_messages_and_parts() {
    let run = of(&sample(SAMPLE), 1);
    let row = &run.row;
    // The session, its prompt, and four replies.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (4, 1, 6, (0, 0))
    );
    // The sums of 1,000, 1,540, 1,730, 1,820. The output includes the reasoning.
    assert_eq!((row.tokens, row.usage.cached), (Some(6_090), Some(4_500)));
    let micros = row.cost_usd.map(|cost| (cost * 1e6).round());
    assert_eq!(micros, Some(8_000.0), "four times 0.002");
    assert_eq!((row.turns, row.children), (Some(1), Some(1)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    assert_eq!(row.task.as_deref(), Some("The total is wrong, fix it."));
    assert_eq!(row.title(), "Ledger total fix");
    assert_eq!(row.project.as_deref(), Some("/home/me/ledger"));
    assert_eq!(row.changed, ["files.ledger.py"]);
    assert_eq!(
        &*row.verdict.sentence,
        "Finished at step 3 (inferred from \"stop\")"
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.child_ids, ["ses_file0002".into()]);
    assert_eq!(manifest.tool.as_deref(), Some("OpenCode 1.1.60"));
    assert_eq!(manifest.agent.as_deref(), Some("build"));
    let step = run.step(0);
    assert_eq!(step["action_results"][0]["returncode"], 1, "{step}");
    assert!(
        run.step(1)
            .to_string()
            .contains("-    return sum(rows[1:])")
    );

    let child = of(&sample(SAMPLE), 2);
    assert_eq!(child.row.parent.as_deref(), Some("ses_file0001"));
    assert_eq!((child.row.steps, child.row.tokens), (1, Some(310)));
}

#[test]
fn an_old_session_does_not_tell_whether_input_includes_the_cache() {
    let run = of(&sample(SAMPLE), 3);
    assert_eq!((run.row.steps, run.row.tool_calls), (2, Some(2)));
    assert_eq!(run.row.tokens, None);
    assert_eq!(run.row.title(), "Build it.");
    // The second command was running when the program was killed.
    assert_eq!(&*run.row.verdict.sentence, "No end recorded after step 1");
    assert!(run.step(0).to_string().contains("\"tool-calls\""));
}

#[test]
fn what_is_written_later_is_read() {
    let temp = copied();
    let before = of(temp.path(), 3);
    assert_eq!(before.row.tool_errors, None);
    let part = files(&temp.path().join("storage/part/msg_0010"))
        .pop()
        .expect("a part");
    let text = fs::read_to_string(&part).expect("readable");
    let text = text
        .replace("\"running\"", "\"completed\", \"output\": \"no rule\"")
        .replace("\"output\": \"\"", "\"output\": \"\", \"exit\": 2");
    fs::write(&part, text).expect("written");
    let after = of(temp.path(), 3);
    assert_eq!(after.row.tool_errors, Some(1));

    let message = temp
        .path()
        .join("storage/message/ses_file0003/msg_0011.json");
    fs::write(
        &message,
        r#"{"id":"msg_0011","role":"user","time":{"created":1767345700000}}"#,
    )
    .expect("written");
    let parts = temp.path().join("storage/part/msg_0011");
    fs::create_dir(&parts).expect("created");
    fs::write(
        parts.join("prt_9.json"),
        r#"{"type":"text","text":"And now?"}"#,
    )
    .expect("written");
    assert_eq!(of(temp.path(), 3).row.turns, Some(2));
}

#[test]
fn files_that_are_damaged_or_too_large_are_named() {
    let temp = copied();
    let parts = temp.path().join("storage/part/msg_0002");
    let paths = files(&parts);
    fs::write(&paths[1], "{\"type\":\"reasoning\",").expect("written");
    let large = format!("{{\"type\":\"text\",\"text\":\"{}\"}}", "x".repeat(9 << 20));
    fs::write(&paths[2], large).expect("written");
    let message = temp
        .path()
        .join("storage/message/ses_file0001/msg_0003.json");
    fs::write(message, "[1]").expect("written");
    let run = of(temp.path(), 1);
    assert_eq!(run.row.steps, 3, "the others remain");
    let name = paths[1]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert_eq!(
        issues(&run),
        [
            "the message has values that are too large to be read".to_owned(),
            format!("{name} isn't a JSON object"),
            "msg_0003.json isn't a JSON object".to_owned(),
        ]
    );
}

#[test]
fn large_values_of_a_message_are_left_out_and_the_prompt_stays() {
    let temp = copied();
    let path = temp
        .path()
        .join("storage/message/ses_file0001/msg_0001.json");
    let text = fs::read_to_string(&path).expect("readable");
    let text = text.replace(
        "\"diffs\": []",
        &format!("\"diffs\": [\"{}\"]", "y".repeat(3 << 20)),
    );
    fs::write(&path, text).expect("written");
    let run = of(temp.path(), 1);
    assert_eq!(run.row.task.as_deref(), Some("The total is wrong, fix it."));
    assert_eq!(run.row.issues, (1, 1), "{:?}", issues(&run));
}

#[test]
fn messages_outside_of_the_root_are_missing() {
    let temp = copied();
    let root = temp.path().join(PROJECT);
    let found = RootScanner::new(root).scan();
    assert_eq!(found.runs.len(), 3);
    for dir in found.runs.values() {
        let index = read_index(dir);
        assert_eq!(index.steps().len(), 0);
        let issue = index.issues().listed().first().expect("an issue");
        assert!(issue.reason.contains("missing here or outside the root"));
        let manifest = index.manifest().get().expect("a manifest");
        let end = manifest.ended.as_deref().expect("an end");
        assert_eq!(&*end.headline, "Its messages are missing");
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    let temp = copied();
    let outside = tempfile::tempdir().expect("a directory");
    let secret = outside.path().join("secret.json");
    fs::write(&secret, r#"{"type":"text","text":"outside"}"#).expect("written");
    let parts = temp.path().join("storage/part");
    std::os::unix::fs::symlink(&secret, parts.join("msg_0002/prt_0001.json")).expect("a link");
    fs::remove_dir_all(parts.join("msg_0005")).expect("removed");
    std::os::unix::fs::symlink(outside.path(), parts.join("msg_0005")).expect("a link");
    let socket = parts.join("msg_0002/prt_0009.json");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let run = of(temp.path(), 1);
    let texts: Vec<String> = (0..run.row.steps)
        .map(|n| run.step(n).to_string())
        .collect();
    assert!(texts.iter().all(|text| !text.contains("outside")));
    let expected = [
        "prt_0001.json isn't a regular file",
        "prt_0009.json can't be opened: No such device or address (os error 6)",
        "msg_0005 isn't a directory",
    ];
    assert_eq!(issues(&run), expected);
}

#[test]
fn a_file_in_another_directory_is_named() {
    let temp = copied();
    let storage = temp.path().join("storage");
    fs::copy(
        storage.join("part/msg_0002/prt_0003.json"),
        storage.join("part/msg_0004/prt_0003.json"),
    )
    .expect("copied");
    fs::copy(
        storage.join("message/ses_file0002/msg_0007.json"),
        storage.join("message/ses_file0001/msg_0007.json"),
    )
    .expect("copied");
    let expected = [
        "a part is of another message, by its own record",
        "the message is of another session, by its own record",
    ];
    assert_eq!(issues(&of(temp.path(), 1)), expected);
    assert_eq!(issues(&of(&sample(SAMPLE), 1)), [""; 0]);
}

#[test]
fn any_file_may_be_truncated() {
    let whole = files(&sample(SAMPLE)).len();
    let step = times(5, 1);
    for nth in (0..whole).step_by(step) {
        let temp = copied();
        let path = files(temp.path()).remove(nth);
        let text = fs::read(&path).expect("readable");
        fs::write(&path, &text[..text.len() / 2]).expect("written");
        let found = RootScanner::new(temp.path().to_owned()).scan();
        for (key, dir) in &found.runs {
            let index = read_index(dir);
            let has_issue = index.issues().total() + index.passing_issues().len() > 0;
            let name = path.file_name().expect("a name").to_string_lossy();
            let is_whole =
                index.steps().len() == read_index(&of_sample(key.as_str())).steps().len();
            assert!(is_whole || has_issue, "{name} in {}", key.as_str());
        }
    }
}

fn of_sample(key: &str) -> trace_board::trace::RunDir {
    let run = trace_board::trace::RunDir::of_file(&sample(SAMPLE).join(key));
    run.expect("readable").expect("a trace")
}

#[test]
fn a_saved_session_is_one_document() {
    let run = of(&sample(SAMPLE), 1);
    let text = run
        .dir
        .read_all(TraceFile::Events, 1 << 20)
        .expect("readable");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("exported.json");
    fs::write(&path, text).expect("written");
    let saved = read(&path);
    assert_eq!(
        (saved.row.steps, saved.row.tokens, saved.row.events),
        (run.row.steps, run.row.tokens, run.row.events)
    );
    assert_eq!(saved.step(1), run.step(1));
}

/// Writes the rows that the program makes from the files when it's updated. Their times are those of
/// the update.
fn migrated(storage: &Path, database: &Path) {
    let db = Connection::open(database).expect("created");
    db.execute_batch(
        "CREATE TABLE session(id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT, \
         time_created INTEGER, time_updated INTEGER); \
         CREATE TABLE message(id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT); \
         CREATE TABLE part(id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, \
         time_updated INTEGER, data TEXT);",
    )
    .expect("tables");
    let json = |path: &Path| -> serde_json::Value {
        let text = fs::read_to_string(path).expect("readable");
        serde_json::from_str(&text).expect("JSON")
    };
    for path in files(&storage.join("session")) {
        let info = json(&path);
        let text = |key: &str| info[key].as_str().map(str::to_owned);
        let id = text("id").expect("an id");
        db.execute(
            "INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                &id,
                text("parentID"),
                text("directory"),
                text("title"),
                text("version"),
                info["time"]["created"].as_i64(),
                info["time"]["updated"].as_i64(),
            ),
        )
        .expect("inserted");
        for path in files(&storage.join("message").join(&id)) {
            let info = json(&path);
            let (message, time) = (info["id"].as_str(), info["time"]["created"].as_i64());
            db.execute(
                "INSERT INTO message VALUES (?1, ?2, ?3, ?3 + 9000000, ?4)",
                (message, &id, time, info.to_string()),
            )
            .expect("inserted");
            for path in files(&storage.join("part").join(message.expect("an id"))) {
                let part = json(&path);
                db.execute(
                    "INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?4 + 9000000, ?5)",
                    (part["id"].as_str(), message, &id, time, part.to_string()),
                )
                .expect("inserted");
            }
        }
    }
}

#[test]
fn a_session_that_is_also_in_the_database_counts_once() {
    let temp = copied();
    // A name that comes after that of the files.
    let store = temp.path().join("z");
    fs::create_dir(&store).expect("created");
    migrated(&temp.path().join("storage"), &store.join("opencode.db"));
    let output = std::process::Command::new(crate::board::BINARY)
        .args(["list", "--json"])
        .arg(temp.path())
        .output()
        .expect("board runs");
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs = listed["runs"].as_array().expect("runs");
    let named: Vec<(&str, &str)> = runs
        .iter()
        .map(|run| {
            let of = run["duplicate_of"].as_str().unwrap_or_default();
            (run["key"].as_str().unwrap_or_default(), of)
        })
        .collect();
    for number in 1..=3 {
        let counted = format!("z/opencode.db/ses_file000{number}");
        assert!(named.contains(&(&counted, "")), "{named:?}");
        let other = session(number);
        assert!(
            named
                .iter()
                .all(|(key, of)| *key != other || *of == counted),
            "{named:?}"
        );
    }
}
