//! Tests that the page, the API and the command line agree on where two runs diverge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scraper::Html;
use serde_json::{Value, json};

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::html::{hrefs, selector, texts};
use crate::soak::times;

fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs")
        .join(name)
}

/// A board over runs of our own engine that diverge at step 1, and one killed run.
fn board() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    for run in ["fix_bug", "loop", "max_rounds", "task_validation_failed"] {
        copy(&ours(run), &dir.path().join(run));
    }
    copy(
        &corpus().join("q060/q060_sigkill"),
        &dir.path().join("a b/q060_sigkill"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    (dir, board)
}

fn diff(a: &Path, b: &Path, more: &[&str]) -> (Option<i32>, String) {
    let said = Command::new(BINARY)
        .arg("diff")
        .args([a, b])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stderr), "");
    (said.status.code(), String::from_utf8(said.stdout).unwrap())
}

#[test]
fn the_sides_show_the_steps_of_the_newest_run_and_only_a_limit_that_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    for run in [
        "q060/q060_rerun_same_id",
        "model_driven/qitos_coding_20260222_044138_940343",
    ] {
        copy(
            &corpus().join(run),
            &dir.path().join(run.rsplit('/').next().unwrap()),
        );
    }
    let board = Board::serve(dir.path());
    board.until_read();
    let page = board.get("/compare?a=q060_rerun_same_id&b=qitos_coding_20260222_044138_940343");
    let page = Html::parse_document(page.text());
    let facts: Vec<String> = texts(&page, ".ab .facts > div:nth-child(2) dd")
        .iter()
        .map(|text| text.trim().to_owned())
        .collect();
    // The first directory was used twice, so only the agent's own state has a step count.
    assert_eq!(facts, ["4", "2 of 14"]);
}

#[test]
fn the_api_tells_where_two_runs_part() {
    let (_dir, board) = board();
    let compared = board.json("/api/compare?a=fix_bug&b=loop");
    assert_eq!(
        compared["first_divergence"],
        json!({"a": 1, "b": 1, "what": "action"})
    );
    assert_eq!(compared["common_prefix"], 1);
    let rows = compared["aligned"].as_array().unwrap();
    assert!(
        rows.iter()
            .all(|row| (row["same"] == true) == (row["what"] == "none")),
        "{rows:?}"
    );
    assert_eq!(compared["aligned"].as_array().map(Vec::len), Some(11));
    assert_eq!(
        (&compared["a"]["key"], &compared["b"]["key"]),
        (&json!("fix_bug"), &json!("loop"))
    );
    let metric = |name: &str| {
        let metrics = compared["metrics"].as_array().unwrap();
        metrics
            .iter()
            .find(|metric| metric["name"] == name)
            .cloned()
            .unwrap()
    };
    let steps = json!({"name": "steps", "a": 11.0, "b": 4.0, "delta": -7.0, "a_estimated": false, "b_estimated": false});
    assert_eq!(metric("steps"), steps);
    assert_eq!(
        metric("tokens")["a"],
        0.0,
        "each of its steps records that it made no model request"
    );
    let paths: Vec<&str> = compared["config"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|setting| setting["path"].as_str())
        .collect();
    assert_eq!(paths.first(), Some(&"task"));
    assert!(
        !paths
            .iter()
            .any(|path| path.contains("run_id") || path.contains("latency")),
        "{paths:?}"
    );
    let same = board.json("/api/compare?a=loop&b=loop");
    assert_eq!(
        (&same["differs"], &same["first_divergence"]),
        (&json!(false), &Value::Null)
    );
}

#[test]
fn what_cannot_be_compared_is_said() {
    let (_dir, board) = board();
    let response = board.get("/api/compare?a=fix_bug&b=lop");
    assert_eq!(
        (response.status, response.header("content-type")),
        (404, "application/problem+json")
    );
    let page = board.get("/compare?a=fix_bug&b=lop");
    assert_eq!(page.status, 404);
    let page = Html::parse_document(page.text());
    assert!(
        hrefs(&page, "main a").contains(&"/runs/loop".to_owned()),
        "a similar name is suggested"
    );
    assert_eq!(board.get("/api/compare?a=fix_bug").status, 400);
    assert_eq!(
        board.get("/compare/replay?a=fix_bug&b=loop&at=99").status,
        404
    );
}

#[test]
fn the_page_opens_the_first_difference() {
    let (_dir, board) = board();
    let page = Html::parse_document(board.get("/compare?a=fix_bug&b=loop").text());
    let says = "Different tasks. The runs diverge at step 1: A calls run_command, B calls read_file. Same actions in the first step. \
                Results already differ at step 0.";
    assert_eq!(texts(&page, ".pagehead .says"), [says]);
    assert_eq!(texts(&page, ".diverge h3 a"), ["Step 1", "Step 1"]);
    // A step of one run alone is worded as in its list, without the call.
    let alone = texts(&page, "section > .scroll .align tr").join("; ");
    assert!(alone.contains("replace_lines cart.sh"), "{alone}");
    assert!(!alone.contains("replace_lines("), "{alone}");
    assert_eq!(
        hrefs(&page, ".diverge h3 a"),
        ["/runs/fix_bug?step=1", "/runs/loop?step=1"]
    );
    assert_eq!(
        texts(&page, "details.prefix tbody tr .rel"),
        ["result differs"]
    );
    let after = texts(&page, "section > .scroll .align .rel");
    assert_eq!(
        after,
        [
            vec!["action differs", "arguments differ"],
            vec!["only in A"; 7]
        ]
        .concat()
    );
    assert_eq!(
        hrefs(&page, ".pagehead .end a"),
        [
            "/compare?a=loop&b=fix_bug",
            "/compare/replay?a=fix_bug&b=loop&at=1"
        ]
    );
    assert_eq!(texts(&page, "[aria-current=page]"), ["Compare"]);
    // Data exchanged with tools isn't prose, so it's set in monospace.
    let code = texts(&page, ".diverge dd.mono");
    assert_eq!(code.len(), 4, "action and result of both: {code:?}");
}

#[test]
fn odd_pairs_have_a_page() {
    let (_dir, board) = board();
    let says = |query: &str| {
        let response = board.get(&format!("/compare?{query}"));
        assert_eq!(response.status, 200, "{query}");
        texts(&Html::parse_document(response.text()), ".pagehead .says").concat()
    };
    assert_eq!(
        says("a=loop&b=loop"),
        "All 4 steps are the same in both runs: actions, results, critics with their scores, and state changes."
    );
    assert_eq!(
        says("a=task_validation_failed&b=task_validation_failed"),
        "Neither run has any steps."
    );
    assert!(says("a=task_validation_failed&b=loop").contains("A has no steps"));
    assert!(says("a=loop&b=fix_bug&c=a%20b%2Fq060_sigkill").contains("The runs diverge at step"),);
    let choice = Html::parse_document(board.get("/compare?a=loop").text());
    assert_eq!(texts(&choice, "h1"), ["Compare"]);
    assert_eq!(
        texts(&choice, ".likely h2"),
        ["Previous and next runs"],
        "no other run has its task"
    );
    assert!(
        hrefs(&choice, ".likely a")
            .iter()
            .all(|href| href.starts_with("/compare?a=loop&b="))
    );
    let pairs = hrefs(
        &Html::parse_document(board.get("/compare").text()),
        ".likely a",
    );
    assert!(
        !pairs.is_empty() && pairs.iter().all(|href| board.get(href).status == 200),
        "{pairs:?}"
    );
}

#[test]
fn the_scores_of_more_than_six_runs_are_a_band() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..8 {
        copy(&ours("fix_bug"), &dir.path().join(format!("r{n}")));
    }
    copy(&ours("loop"), &dir.path().join("silent"));
    let board = Board::serve(dir.path());
    board.until_read();
    let page = |runs: usize| {
        let runs: Vec<String> = (0..runs).map(|n| format!("run=r{n}")).collect();
        Html::parse_document(
            board
                .get(&format!("/compare?{}&run=silent", runs.join("&")))
                .text(),
        )
    };
    let band = page(8);
    let quart = selector("#compare .overlay .quart");
    assert_eq!(band.select(&quart).count(), 1);
    assert_eq!(
        texts(&band, "#compare .overlay svg > title"),
        ["Lowest critic score per step, 9 runs"]
    );
    assert!(
        texts(&band, "#compare figcaption")
            .concat()
            .starts_with("The band covers the middle half of the runs")
    );
    assert_eq!(
        texts(&band, "#compare .overlay svg .strong"),
        ["A"],
        "only the first has a line"
    );
    let lines = page(5);
    assert_eq!(
        (
            lines.select(&quart).count(),
            texts(&lines, "#compare figcaption").len()
        ),
        (0, 0)
    );
    assert_eq!(
        texts(&lines, "#compare .overlay svg .strong").len(),
        5,
        "a run without scores has no line"
    );
}

#[test]
fn two_marked_runs_are_a_and_b() {
    let (_dir, board) = board();
    let response = board.get("/compare?run=loop&run=fix_bug");
    assert_eq!(
        (response.status, response.header("location")),
        (303, "/compare?a=loop&b=fix_bug")
    );
    for marking in ["", "&marking=1"] {
        let path = format!("/?q=steps%3E0&mark=loop&mark=fix_bug{marking}");
        // As a browser without scripts reads it, with the menus.
        let text = board.get(&path).text().replace("<noscript>", "");
        let table = Html::parse_document(&text);
        assert_eq!(texts(&table, "#tray strong"), ["2 marked"]);
        let rows = selector("#rows tr.marked");
        assert_eq!(table.select(&rows).count(), 2);
        let checked = selector("#rows input[checked]");
        let boxes = if marking.is_empty() { 0 } else { 2 };
        assert_eq!(table.select(&checked).count(), boxes);
        // A form submits them, whether or not their rows have checkboxes.
        let hidden = selector("#cmp input[type=hidden][name=run]");
        assert_eq!(table.select(&hidden).count(), 2 - boxes);
        let links = hrefs(&table, "#facets a, #strip a");
        assert!(
            links.len() > 5
                && links
                    .iter()
                    .all(|href| href.ends_with("mark=loop&mark=fix_bug"))
        );
    }
    // A marked run that the filter hides is still submitted.
    let other = Html::parse_document(board.get("/?q=loop&mark=fix_bug").text());
    let hidden = selector("#cmp input[type=hidden][name=run][value=fix_bug]");
    assert_eq!(other.select(&hidden).count(), 1);
}

#[test]
fn the_command_says_no_where_runs_differ() {
    let (code, said) = diff(&ours("fix_bug"), &ours("loop"), &[]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("The runs diverge at step 1: A calls run_command, B calls read_file."),
        "{said}"
    );
    assert!(said.contains("> 1 run_command"), "{said}");
    let (code, said) = diff(&ours("loop"), &ours("loop"), &["--json"]);
    assert_eq!(code, Some(0));
    let same: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(same["first_divergence"], Value::Null);
    assert_eq!(same["config"], json!([]));
}

#[test]
fn states_that_differ_are_a_difference() {
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("loop");
    copy(&ours("loop"), &other);
    let steps = fs::read_to_string(other.join("steps.jsonl")).unwrap();
    let mut lines: Vec<Value> = steps
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines[2]["state_diff"] = json!({"left": {"before": 3, "after": 2}});
    let written: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(other.join("steps.jsonl"), written.concat()).unwrap();
    let one = dir.path().join("same");
    copy(&other, &one);
    assert_eq!(diff(&one, &other, &[]).0, Some(0));
    fs::write(
        other.join("steps.jsonl"),
        written
            .concat()
            .replace(r#"{"after":2,"before":3}"#, r#"{"after":1,"before":3}"#),
    )
    .unwrap();
    let (code, said) = diff(&one, &other, &["--json"]);
    let compared: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &compared["differs"]), (Some(1), &json!(true)));
    assert_eq!(
        compared["first_divergence"],
        json!({"a": 2, "b": 2, "what": "state"})
    );
}

#[test]
fn pairs_of_the_corpus_have_an_answer() {
    for group in ["q010", "q030", "emulated"] {
        let runs: Vec<PathBuf> = std::fs::read_dir(corpus().join(group))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        let runs: Vec<PathBuf> = runs
            .into_iter()
            .filter(|run| std::fs::read_dir(run).unwrap().count() > 1)
            .collect();
        assert!(runs.len() > 2, "{group}");
        for (at, a) in runs.iter().enumerate() {
            // Compares each run with itself and the next one; in soak tests, with every run.
            let others = runs.iter().cycle().skip(at).take(times(2, runs.len()));
            for b in others {
                let (code, said) = diff(a, b, &["--json"]);
                let compared: Value = serde_json::from_str(&said).unwrap();
                let parted = compared["differs"] == true;
                assert_eq!(
                    code,
                    Some(i32::from(parted)),
                    "{} {}",
                    a.display(),
                    b.display()
                );
                assert!(
                    a != b || !parted,
                    "{} differs from itself: {}",
                    a.display(),
                    compared["first_divergence"]
                );
            }
        }
    }
}

#[test]
fn runs_with_the_same_steps_may_differ() {
    let trials = "sample_runs/tools/harbor/nightly/ledger__";
    let diff = Command::new(BINARY)
        .arg("diff")
        .args(["solved", "timeout"].map(|trial| format!("{trials}{trial}")))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8(diff.stdout).unwrap();
    assert_eq!(diff.status.code(), Some(1));
    assert!(
        said.contains("The 2 steps are the same in both runs")
            && said.contains("The runs differ in the verdict, the last score and 4 settings."),
        "{said}"
    );
}

#[test]
fn three_runs_are_compared_in_columns() {
    let (_dir, board) = board();
    let response = board.get("/compare?run=loop&run=fix_bug&run=max_rounds");
    let marked = Html::parse_document(response.text());
    let page = board.get("/compare?a=loop&b=fix_bug&c=max_rounds");
    let page = Html::parse_document(page.text());
    assert_eq!(texts(&marked, "#compare"), texts(&page, "#compare"));
    assert_eq!(texts(&page, "h1"), ["3 runs compared"]);
    assert_eq!(
        texts(&page, ".ab .where"),
        ["loop", "fix_bug", "max_rounds"]
    );
    assert_eq!(texts(&page, ".diverge > section").len(), 3);
    let first = selector("table.align.several tr.first");
    assert_eq!(page.select(&first).count(), 1);
    let compared = board.json("/api/compare?a=loop&b=fix_bug&c=max_rounds");
    assert_eq!(compared["runs"].as_array().map(Vec::len), Some(3));
    let rows = compared["aligned"].as_array().unwrap();
    assert!(
        rows.iter()
            .all(|row| row["steps"].as_array().map(Vec::len) == Some(3))
    );
    assert!(compared["first_divergence"].is_object());
    // Equal runs have nothing but a count, with a link to all rows.
    let dir = tempfile::tempdir().unwrap();
    for run in ["a", "b", "c"] {
        copy(&ours("loop"), &dir.path().join(run));
    }
    let board = Board::serve(dir.path());
    board.until_read();
    let equal = Html::parse_document(board.get("/compare?a=a&b=b&c=c").text());
    assert_eq!(
        texts(&equal, "table.align.several .gap a"),
        ["4 equal steps"]
    );
    let all = hrefs(&equal, "table.align.several .gap a");
    let shown = Html::parse_document(board.get(&all[0]).text());
    assert_eq!(texts(&shown, "table.align.several tbody tr").len(), 4);
}

#[test]
fn a_run_is_not_offered_for_comparison_with_itself() {
    let (_dir, board) = board();
    let page = Html::parse_document(board.get("/compare?a=loop").text());
    let offered = selector("datalist option[value=loop]");
    assert_eq!(page.select(&offered).count(), 0);
    assert!(
        !hrefs(&page, ".likely a")
            .iter()
            .any(|href| href.contains("a=loop&b=loop"))
    );
}

/// A Claude Code session in `/home/a/proj`: a prompt, a command, two edits of a file with this new text,
/// and an answer.
fn edits(id: &str, task: &str, new: &str, printed: &str) -> String {
    let call = |n: u32, name: &str, input: Value, result: &str| {
        let asked = json!({"type": "assistant", "message": {"id": format!("m{n}"), "role": "assistant", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": format!("c{n}"), "name": name, "input": input}]}});
        let given = json!({"type": "user", "message": {"role": "user", "content":
            [{"type": "tool_result", "tool_use_id": format!("c{n}"), "content": result}]}});
        [asked, given]
    };
    let path = "/home/a/proj/tests/of/the/browser/test_timeline.py";
    let input = json!({"file_path": path, "old_string": "x = 1", "new_string": new});
    let mut records = vec![json!({"type": "user", "message": {"role": "user", "content": task}})];
    records.extend(call(1, "Bash", json!({"command": "pytest -q"}), printed));
    records.extend(call(2, "Edit", input.clone(), "edited"));
    records.extend(call(3, "Edit", input, "edited"));
    records.push(json!({"type": "assistant", "message": {"id": "m4", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Done."}]}}));
    let mut text = String::new();
    for (n, mut record) in records.into_iter().enumerate() {
        record["uuid"] = json!(format!("{id}{n}"));
        record["sessionId"] = json!(id);
        record["cwd"] = json!("/home/a/proj");
        record["timestamp"] = json!(format!("2026-05-04T09:00:{n:02}.000Z"));
        text += &format!("{record}\n");
    }
    text
}

#[test]
fn answers_are_markdown_and_titles_have_code() {
    let dir = tempfile::tempdir().unwrap();
    let end = |id: &str, answer: &str| {
        edits(id, "Run `make`.", "x = 2", "ok")
            + &serde_json::json!({"type": "assistant", "uuid": format!("{id}z"), "sessionId": id, "timestamp": "2026-01-02T04:00:00Z",
                "message": {"id": "z", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                    "content": [{"type": "text", "text": answer}]}}).to_string()
            + "\n"
    };
    let answer = "It **passes**:\n\n- `make` is fast";
    fs::write(dir.path().join("a.jsonl"), end("a", answer)).unwrap();
    let other = "## Nothing\n\nworks <b>here</b> at all";
    fs::write(dir.path().join("b.jsonl"), end("b", other)).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let page = Html::parse_document(board.get("/compare?a=a.jsonl&b=b.jsonl").text());
    for part in ["h1", ".ab h2"] {
        assert!(!texts(&page, part).concat().contains('`'), "{part}");
        assert!(texts(&page, &format!("{part} code")).contains(&"make".to_owned()));
    }
    assert_eq!(texts(&page, ".ab .facts strong"), ["passes"]);
    assert_eq!(texts(&page, ".ab .facts li code"), ["make"]);
    assert_eq!(texts(&page, ".ab .facts .md-h"), ["Nothing"]);
    assert!(texts(&page, ".ab .facts b").is_empty());
    // The last steps side by side have little in common, so nothing is marked.
    let last = texts(&page, ".align tbody tr").len();
    let at = (0..=last).rev().find_map(|at| {
        let page = board.get(&format!("/compare/replay?a=a.jsonl&b=b.jsonl&at={at}"));
        let page = Html::parse_document(page.text());
        let strong = texts(&page, ".diverge dd .md strong");
        (!strong.is_empty()).then_some(strong)
    });
    assert_eq!(at.unwrap_or_default(), ["passes"]);
    let share = Html::parse_document(board.get("/runs/a.jsonl/share").text());
    assert_eq!(texts(&share, ".pagehead code"), ["make"]);
}

#[test]
fn rows_say_what_the_steps_did_and_long_results_are_folded() {
    let dir = tempfile::tempdir().unwrap();
    let long: Vec<String> = (0..30).map(|n| format!("line {n}")).collect();
    let task = "Mend the timeline.";
    fs::write(
        dir.path().join("a.jsonl"),
        edits("a", task, "x = 2", &long.join("\n")),
    )
    .unwrap();
    fs::write(
        dir.path().join("b.jsonl"),
        edits("b", &format!("{task}\nIt is slow."), "x = 3", "1 failed"),
    )
    .unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let page = Html::parse_document(board.get("/compare?a=a.jsonl&b=b.jsonl").text());
    let cells = texts(&page, ".align tbody .call");
    // Two edits of the same file look different where they differ, and name it by its project's path.
    let edits: Vec<&String> = cells
        .iter()
        .filter(|cell| cell.starts_with("Edit test_timeline.py +1 −1"))
        .collect();
    assert!(
        edits.len() == 2
            && edits[0].contains("x = 2")
            && edits[1].contains("x = 3")
            && !cells.iter().any(|cell| cell.contains("/home/a/proj")),
        "{cells:?}"
    );
    // The title is the first line of the task, which isn't repeated.
    let facts = texts(&page, ".ab section .facts .asis");
    assert!(!facts.iter().any(|fact| fact.contains(task)), "{facts:?}");
    assert!(facts.contains(&"It is slow.".to_owned()), "{facts:?}");
    // The runs may be compared from their first step on.
    let first = Html::parse_document(board.get("/compare/replay?a=a.jsonl&b=b.jsonl&at=0").text());
    assert_eq!(
        texts(&first, ".diverge details.rest > summary"),
        ["22 more lines"]
    );
    let whole = texts(&first, ".diverge dd.mono").join("\n");
    assert!(
        whole.contains("line 0") && whole.contains("line 29"),
        "{whole}"
    );
}
