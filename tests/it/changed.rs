//! Tests the list of files changed by a run, whichever tool wrote the trace.

use std::fs;
use std::path::Path;

use crate::board::Board;

fn samples() -> Board {
    let board = Board::serve(&Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs"));
    board.until_read();
    board
}

fn files(board: &Board, key: &str) -> serde_json::Value {
    board.json(&format!("/api/runs/{}/files", key.replace('/', "%2F")))
}

#[test]
fn each_file_has_its_edits_in_order() {
    let board = samples();
    let told = files(&board, "critic_stop");
    assert_eq!(
        (&told["total"], &told["edits"], &told["steps_unread"]),
        (&1.into(), &4.into(), &0.into())
    );
    let file = &told["files"][0];
    assert_eq!(
        (&file["path"], &file["added"], &file["removed"]),
        (&"offer.txt".into(), &4.into(), &0.into())
    );
    let steps: Vec<_> = file["edits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edit| edit["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, [0, 1, 2, 3]);
    let page = board.get("/runs/critic_stop?tab=files");
    assert!(
        page.text().contains("1 file edited")
            && page.text().contains("4 edits, steps 0–3")
            && page.text().contains("file=offer.txt"),
        "{}",
        page.text()
    );
    let page = board.get("/runs/critic_stop?tab=files&file=offer.txt");
    assert_eq!(
        page.text().matches("crowns\n").count(),
        5, // each edit writes the whole file, and one line remains
        "{}",
        page.text()
    );
    assert!(page.text().contains("/runs/critic_stop?step=3"));
    let page = board.get("/runs/critic_stop?tab=files&file=nowhere");
    assert!(page.text().contains("No edits of this file found."));
}

#[test]
fn other_tools_edits_are_found_in_calls_and_in_records() {
    let board = samples();
    let claude = "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
    let told = files(&board, claude);
    let edit = &told["files"][0]["edits"][0];
    assert_eq!(
        (&told["files"][0]["path"], &edit["kind"], &edit["ok"]),
        (
            &"/home/me/ledger/split.py".into(),
            &"changed".into(),
            &true.into()
        )
    );
    // Recorded changes take precedence over the edits in a script.
    let codex = "tools/codex/sessions/2026/05/04/rollout-2026-05-04T09-00-00-019df000-0000-7000-8000-0000000000a1.jsonl";
    let told = files(&board, codex);
    let paths: Vec<_> = told["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["split.py", "shares.py"]);
    let counted = |n: usize| {
        (
            told["files"][n]["added"].as_u64(),
            told["files"][n]["removed"].as_u64(),
        )
    };
    assert_eq!(
        [counted(0), counted(1)],
        [(Some(1), Some(1)), (Some(2), Some(0))],
        "by the diffs in the records"
    );
    assert_eq!(
        told["files"][0]["edits"][0]["call"],
        serde_json::Value::Null
    );
}

#[test]
fn lines_that_a_call_names_by_number_are_counted() {
    let board = samples();
    let told = files(&board, "fix_bug");
    let file = &told["files"][0];
    assert_eq!(
        (&file["path"], &file["added"], &file["removed"]),
        (&"cart.sh".into(), &1.into(), &2.into())
    );
    let page = board.get("/runs/fix_bug?tab=files&file=cart.sh");
    assert!(
        page.text().contains("line 14")
            && page
                .text()
                .contains("/ <b><span class=\"c-n\">100</span></b>))"),
        "{}",
        page.text()
    );
}

#[test]
fn what_takes_too_long_to_align_is_listed_and_not_counted() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("large");
    fs::create_dir(&run).unwrap();
    let old = "same\n".repeat(3_900);
    let step = |n: usize| {
        let args = serde_json::json!({"path": "a.txt", "old": old, "new": format!("{old}more")});
        let step = serde_json::json!({"step_id": n, "decision": {"mode": "act"}, "actions": [{"name": "replace", "args": args}],
            "action_results": [{"status": "success", "output": "ok"}]});
        format!("{step}\n")
    };
    fs::write(
        run.join("steps.jsonl"),
        (0..5).map(step).collect::<String>(),
    )
    .unwrap();
    fs::write(run.join("events.jsonl"), "").unwrap();
    fs::write(
        run.join("manifest.json"),
        r#"{"run_id": "large", "schema_version": "v1", "status": "completed"}"#,
    )
    .unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let told = files(&board, "large");
    let file = &told["files"][0];
    assert_eq!(
        (&told["edits"], &file["added"], &file["edits_uncounted"]),
        (&5.into(), &3.into(), &2.into())
    );
}

#[test]
fn a_change_without_lines_is_no_change_of_no_lines() {
    let board = samples();
    let page = board.get("/runs/tools%2Fcodex-exec%2Fanswered.jsonl?tab=files");
    assert!(
        page.text().contains("not counted") && !page.text().contains("+0"),
        "{}",
        page.text()
    );
    let page = board.get(
        "/runs/tools%2Fcodex-exec%2Fanswered.jsonl?tab=files&file=%2Fhome%2Fme%2Fledger%2Fsplit.py",
    );
    assert!(
        page.text()
            .contains("Changed lines not recorded, or too many to show."),
        "{}",
        page.text()
    );
}

#[test]
fn a_failed_edit_is_told_and_not_added_up() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("failed");
    fs::create_dir(&run).unwrap();
    let step = r#"{"step_id": 0, "decision": {"mode": "act"}, "actions": [{"name": "replace", "args": {"path": "calc.py", "old": "a", "new": "b"}}],
        "action_results": [{"status": "error", "error": "no such text"}], "tool_invocations": [{"tool_name": "replace", "status": "error"}]}"#;
    fs::write(run.join("steps.jsonl"), step.replace('\n', " ") + "\n").unwrap();
    fs::write(run.join("events.jsonl"), "").unwrap();
    fs::write(
        run.join("manifest.json"),
        r#"{"run_id": "failed", "schema_version": "v1", "status": "completed"}"#,
    )
    .unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let told = files(&board, "failed");
    let file = &told["files"][0];
    assert_eq!(
        (
            &file["added"],
            &file["edits_failed"],
            &file["edits"][0]["ok"]
        ),
        (&0.into(), &1.into(), &false.into())
    );
    let page = board.get("/runs/failed?tab=files");
    assert!(page.text().contains("1 edit, 1 failed"), "{}", page.text());
}

#[test]
fn windows_of_files_join() {
    let board = samples();
    let all = files(&board, "plan");
    let (mut after, mut paths) = (String::new(), Vec::new());
    loop {
        let part = board.json(&format!("/api/runs/plan/files?limit=3{after}"));
        paths.extend(part["files"].as_array().unwrap().iter().cloned());
        let Some(next) = part["next"].as_u64() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(&paths, all["files"].as_array().unwrap());
    assert_eq!(paths.len(), 7);
}

/// Returns the text that a button of a page copies.
fn copied(page: &str) -> String {
    let (_, rest) = page.split_once("data-copy=\"diff --git").expect("a button");
    let text = rest.split('"').next().expect("an end");
    let text = format!("diff --git{text}").replace("&#10;", "\n");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("&#") {
        let (number, after) = after.split_once(';').expect("a number");
        out.push_str(before);
        out.extend(number.parse().ok().and_then(char::from_u32));
        rest = after;
    }
    out + rest
}

#[test]
fn the_copied_patch_turns_the_first_version_into_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let first = "one\ntwo <b>\r\nthree\n\tfour & \u{202e}five\nlast";
    let texts = [
        ("two <b>", "2 <i>"),
        ("one\n", "one\none and a half\n"),
        ("last", "last\nend\n"),
    ];
    let (mut text, mut lines) = (first.to_owned(), String::new());
    for (n, (old, new)) in texts.iter().enumerate() {
        let input =
            serde_json::json!({"file_path": "/p/a.txt", "old_string": old, "new_string": new});
        let call = serde_json::json!({"type": "assistant", "uuid": format!("a{n}"), "sessionId": "s", "cwd": "/p", "timestamp": format!("2026-01-01T00:00:0{n}Z"),
            "message": {"id": format!("m{n}"), "role": "assistant", "model": "m", "content": [{"type": "tool_use", "id": format!("t{n}"), "name": "Edit", "input": input}]}});
        let result = serde_json::json!({"type": "user", "uuid": format!("u{n}"), "sessionId": "s", "cwd": "/p", "timestamp": format!("2026-01-01T00:00:0{n}Z"),
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("t{n}"), "content": "The file has been updated."}]},
            "toolUseResult": {"filePath": "/p/a.txt", "oldString": old, "newString": new, "originalFile": text, "structuredPatch": [], "replaceAll": false}});
        lines.push_str(&format!("{call}\n{result}\n"));
        text = text.replacen(old, new, 1);
    }
    fs::write(dir.path().join("s.jsonl"), lines).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let page = board.get("/runs/s.jsonl?tab=files");
    let patch = copied(page.text());
    assert!(
        !page.text().contains('\u{202e}'),
        "hidden characters are visible"
    );
    assert_eq!(
        patch,
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,7 @@\n one\n-two <b>\r\n+one and a half\n+2 <i>\r\n three\n \tfour & \u{202e}five\n-last\n\\ No newline at end of file\n+last\n+end\n"
    );
    let found = board.json("/api/runs?q=file:a.txt");
    assert_eq!(found["matched"], 1);
    assert_eq!(board.json("/api/runs?q=file:b.txt")["matched"], 0);
}

#[test]
fn files_open_in_the_editor_only_if_the_settings_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let project = fs::canonicalize(dir.path()).unwrap().join("ledger");
    let runs = dir.path().join("runs");
    fs::create_dir_all(&project).unwrap();
    fs::create_dir_all(&runs).unwrap();
    fs::write(project.join("split.py"), "x\n").unwrap();
    let session =
        "sample_runs/tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(session)).unwrap();
    let text = text
        .replace("/home/me/ledger", project.to_str().unwrap())
        .replace("AssertionError: 99 != 100", "split.py:2: error: 99 != 100");
    fs::write(runs.join("s.jsonl"), text).unwrap();
    let config = dir.path().join("config.toml");
    fs::write(&config, "editor = \"zed\"\n").unwrap();
    let pages = |board: &Board| {
        board.until_read();
        let paths = ["?tab=files", "?step=1", "?tab=timeline"];
        paths.map(|path| board.get(&format!("/runs/s.jsonl{path}")).text().to_owned())
    };
    let config = config.to_str().unwrap();
    let board = Board::serve_with(&runs, 0, &["--config", config]);
    let [files, step, _] = pages(&board);
    let opens = |line: usize| format!("href=\"zed://file{}/split.py:{line}\"", project.display());
    assert!(
        files.contains(&opens(1)) && files.contains(&opens(2)),
        "{files}"
    );
    assert!(step.contains(&opens(2)), "{step}");
    fs::remove_file(project.join("split.py")).unwrap();
    assert!(
        pages(&board).iter().all(|page| !page.contains("zed:")),
        "the file is gone"
    );
    fs::write(project.join("split.py"), "x\n").unwrap();
    let plain = Board::serve(&runs);
    assert!(
        pages(&plain)
            .iter()
            .all(|page| !page.contains("split.py:2\""))
    );
}
