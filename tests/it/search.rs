//! Tests searching all runs: the page, the JSON and the command, and how a search ends early.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use scraper::Html;
use serde_json::Value;

use crate::architecture::project;
use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus, walk};
use crate::heavy::many_long;
use crate::html::{attribute, hrefs, texts};
use crate::wait::until;

/// A board over some recorded runs, completely read.
fn some_runs() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    for run in ["q060_handoff", "q060_html_injection", "q060_sigkill"] {
        copy(
            &corpus().join("q060").join(run),
            &dir.path().join("runs").join(run),
        );
    }
    let board = Board::serve(&dir.path().join("runs"));
    board.until_read();
    (dir, board)
}

fn search(args: &[&str]) -> Output {
    Command::new(BINARY)
        .arg("search")
        .args(args)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn page_json_and_command_find_the_same() {
    let (dir, board) = some_runs();
    let root = dir.path().join("runs").display().to_string();
    let json = board.answered("/api/search?q=SCRIPT&limit=1000");
    let found = json["found"].as_u64().unwrap();
    assert!(
        found > 3 && json["runs"] == 3 && json["bytes_done"] == json["bytes"],
        "{json}"
    );
    let hits = json["hits"].as_array().unwrap();
    // Only some of the matches in a line with very many are kept.
    assert!(hits.len() > 3 && hits.len() as u64 <= found);

    let page = Html::parse_document(board.get("/search?q=SCRIPT&scope=files&limit=1000").text());
    // The page shows a text repeated in several files once, and links its other occurrences.
    let marks = texts(&page, "#found mark");
    let words = |all: Vec<String>| all.into_iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(
        words(marks.clone()),
        words(
            hits.iter()
                .map(|hit| hit["text"].as_str().unwrap().to_owned())
                .collect()
        )
    );
    assert!(
        marks.len() < hits.len() && !texts(&page, "#found li .dim a").is_empty(),
        "{} marks",
        marks.len()
    );
    assert_eq!(
        texts(&page, "#found h2 .st").len(),
        texts(&page, "#found h2").len(),
        "each run shows how it ended"
    );
    assert!(
        texts(&page, "#found [role=status]")[0].contains(&format!("{found} matches in ")),
        "{marks:?}"
    );
    for link in hrefs(&page, "#found li > p > a") {
        assert_eq!(board.get(&link).status, 200, "{link}");
    }

    let said: Value = serde_json::from_slice(&search(&[&root, "script", "--json"]).stdout).unwrap();
    let places = |hits: &Value| {
        let place = |hit: &Value| {
            format!(
                "{} {} {} {} {}",
                hit["run"], hit["file"], hit["offset"], hit["step"], hit["field"]
            )
        };
        let mut places: Vec<_> = hits.as_array().unwrap().iter().map(place).collect();
        places.sort();
        places
    };
    assert_eq!(places(&said["hits"]), places(&json["hits"]));
    let text = search(&[&root, "script"]);
    assert_eq!(text.status.code(), Some(0));
    let lines = String::from_utf8(text.stdout).unwrap();
    let (hits_said, foot) = (
        lines.lines().filter(|line| line.contains(": ")).count(),
        lines.lines().last(),
    );
    assert!(
        hits_said >= hits.len()
            && foot.is_some_and(|foot| foot.starts_with(&format!("{found} matches in "))),
        "{lines}"
    );
    assert!(
        lines
            .lines()
            .any(|line| line.starts_with("q060_html_injection  step ")),
        "{lines}"
    );
}

#[test]
fn a_query_narrows_the_runs_and_nothing_found_is_the_answer_no() {
    let (dir, board) = some_runs();
    let root = dir.path().join("runs").display().to_string();
    let json = board.answered("/api/search?q=run_id&in=handoff%20bogus%3C");
    assert_eq!(
        (&json["runs"], json["ignored"].as_array().unwrap().len()),
        (&Value::from(1), 1),
        "{json}"
    );
    assert_eq!(board.answered("/api/search?q=nothing-says-so")["found"], 0);
    assert_eq!(board.json("/api/search")["state"], Value::Null);
    let long = "x".repeat(501);
    assert_eq!(board.get(&format!("/api/search?q={long}")).status, 400);
    assert_eq!(board.get(&format!("/search?q={long}")).status, 400);

    let none = search(&[&root, "nothing-says-so"]);
    assert_eq!(
        (none.status.code(), none.stderr.as_slice()),
        (Some(1), &b""[..])
    );
    assert_eq!(
        search(&[&root, "run_id", "--in", "handoff"]).status.code(),
        Some(0)
    );
    assert_eq!(
        search(&[&root, "run_id", "--in", "bogus<"]).status.code(),
        Some(2)
    );
    assert_eq!(search(&["/no/such/root", "x"]).status.code(), Some(3));
    assert_eq!(search(&[]).status.code(), Some(2));
    assert_eq!(search(&[&root, ""]).status.code(), Some(2));
}

#[test]
fn a_record_in_two_files_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let session = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/claude-code");
    for project in ["one", "other"] {
        copy(&session, &dir.path().join("runs").join(project));
    }
    let board = Board::serve(&dir.path().join("runs"));
    board.until_read();
    let json = board.answered("/api/search?q=ledger&limit=1000");
    let root = dir.path().join("runs").display().to_string();
    let foot = |query: &[&str]| {
        let found = search(&[&[&*root, "ledger"], query].concat());
        let lines = String::from_utf8(found.stdout).unwrap();
        lines.lines().last().unwrap().to_owned()
    };
    let (once, runs) = (json["found"].as_u64().unwrap(), &json["runs"]);
    let counted = foot(&["--in", ""]);
    assert!(
        counted.starts_with(&format!("{once} matches in "))
            && counted.contains(&format!(" of {runs} runs ({runs} duplicates not searched)")),
        "{counted}"
    );
    let document = |query: &[&str]| -> Value {
        let found = search(&[&[&*root, "ledger", "--json"], query].concat());
        serde_json::from_slice(&found.stdout).unwrap()
    };
    assert_eq!(&json["duplicates_left_out"], runs);
    assert_eq!(&document(&["--in", ""])["duplicates_left_out"], runs);
    assert_eq!(document(&[])["duplicates_left_out"], 0);
    // Without a query, all files are searched.
    let all = foot(&[]);
    assert!(
        all.starts_with(&format!("{} matches in ", 2 * once)),
        "{all}"
    );
    let both = search(&[&root, "ledger", "--in", "duplicate_of:one"]);
    assert_eq!(both.status.code(), Some(0));
}

#[test]
fn a_text_may_begin_with_a_dash() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir_all(temp.path().join("runs/a")).unwrap();
    fs::write(
        temp.path().join("runs/a/steps.jsonl"),
        "{\"step_id\": 0, \"decision\": {}, \"note\": \"rm -rf cart\"}\n",
    )
    .unwrap();
    for args in [
        ["--json", "runs", "--", "-rf"].as_slice(),
        &["runs", "--json", "--", "-rf"],
        &["runs", "-rf", "--json"],
        &["--json", "--", "-rf"],
        &["-rf", "--json"],
        &["rm -rf", "--json"],
    ] {
        let said = Command::new(BINARY)
            .current_dir(temp.path())
            .arg("search")
            .args(args)
            .output()
            .unwrap();
        assert_eq!(
            said.status.code(),
            Some(0),
            "{args:?}: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(
            (&said["found"], &said["hits"][0]["field"]),
            (&1.into(), &"note".into()),
            "{args:?}"
        );
    }
}

#[test]
fn what_cannot_be_searched_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("odd");
    fs::create_dir(&run).unwrap();
    let long = format!("{{\"x\": \"needle{}\"}}\n", "y".repeat(9 << 20));
    // The first record identifies the file as a run's.
    fs::write(
        run.join("steps.jsonl"),
        format!("{{\"step_id\": 0}}\n{long}torn: needle"),
    )
    .unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    let json = board.answered("/api/search?q=needle");
    assert_eq!(
        (&json["found"], &json["left_out_count"]),
        (&Value::from(1), &Value::from(1)),
        "{json}"
    );
    assert_eq!(
        (&json["hits"][0]["field"], &json["hits"][0]["before"]),
        (&Value::Null, &Value::from("torn: "))
    );
    let page = Html::parse_document(board.get("/search?q=needle&scope=files").text());
    assert!(texts(&page, "#found .swp-n li")[0].starts_with("odd, steps.jsonl: 1 line longer"));
}

#[test]
fn a_search_goes_on_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    many_long(dir.path(), 250, 100);
    let board = Board::serve(dir.path());
    board.until_read();
    let path = "/api/search?q=count&limit=50";
    let first = board.json(path);
    assert_eq!(
        first["state"], "running",
        "it takes longer than an answer waits"
    );
    let page = Html::parse_document(board.get("/search?q=count&scope=files").text());
    assert_eq!(texts(&page, "progress").len(), 1);
    assert_eq!(board.get(&attribute(&page, "a#cancel", "href")).status, 200);
    let last = board.answered(path);
    assert_eq!(last["state"], "cancelled");
    assert!(
        last["runs_done"].as_u64() < last["runs"].as_u64()
            && last["found"].as_u64() >= first["found"].as_u64()
    );
    // As many as were found before it was stopped, up to the limit.
    let shown = last["found"].as_u64().unwrap().min(50);
    assert_eq!(last["hits"].as_array().unwrap().len() as u64, shown);
    let page = Html::parse_document(board.get("/search?q=count&scope=files").text());
    assert!(texts(&page, "#found [role=status]")[0].starts_with("Cancelled: "));
}

/// Searches messages and tool calls until all runs come from the index, and returns the result.
fn from_index(board: &Board, text: &str) -> Value {
    let path = format!("/api/search?scope=said&limit=1000&q={text}");
    until("all runs are in the index", || {
        // A search without changes since would be answered again.
        let last = board.answered(&path);
        let again = format!("{path}&again={}", last["number"]);
        let json = board.answered(&again);
        (json["runs_from_index"] == json["runs"]).then_some(json)
    })
}

#[test]
fn what_was_said_and_done_is_found_with_and_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("runs");
    copy(&project().join("sample_runs"), &root);
    // A run without an end that was written lately may still grow, so it isn't in the index.
    for file in walk(&root).into_iter().filter(|path| path.is_file()) {
        let old = SystemTime::now() - Duration::from_secs(48 * 3600);
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(old).unwrap();
    }
    let (cache, board) = (
        dir.path().join("cache"),
        Board::serve_with(&root, 0, &["--threads", "1"]),
    );
    let indexed = Board::serve_with_cache(&root, &cache);
    board.until_read();
    for text in ["test", "Error", "no%20such%20words", "é", "ok", "%0A"] {
        let path = format!("/api/search?scope=said&limit=1000&q={text}");
        let (files, index) = (board.answered(&path), from_index(&indexed, text));
        assert_eq!(files["runs_from_index"], 0);
        for same in [
            "hits",
            "found",
            "runs",
            "runs_with_hits",
            "scope",
            "left_out",
        ] {
            assert_eq!(files[same], index[same], "{same} of {text}");
        }
        assert_eq!(index["scope"], "said");
        // Everything that was said is somewhere in the files, or is the title of a run.
        let everything = board.answered(&format!("/api/search?limit=1000&q={text}"));
        let runs = |json: &Value| {
            let hits = json["hits"].as_array().unwrap().iter();
            let said = hits.filter(|hit| hit["field"] != "title");
            said.map(|hit| hit["run"].as_str().unwrap().to_owned())
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert!(
            everything["hits_left_out"] != 0 || runs(&index).is_subset(&runs(&everything)),
            "{text}"
        );
    }
    let fields = |text: &str| {
        let json = from_index(&indexed, text);
        let hits = json["hits"].as_array().unwrap().iter();
        hits.map(|hit| hit["field"].as_str().unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let found = fields("test");
    for field in ["title", "prompt", "reply", "call Bash", "result Bash"] {
        assert!(found.contains(field), "{field} in {found:?}");
    }
    // The index outlives the board.
    drop(indexed);
    let next = Board::serve_with_cache(&root, &cache);
    next.until_read();
    let json = next.answered("/api/search?scope=said&q=test");
    let number = |name: &str| json[name].as_u64().unwrap();
    // A run that wasn't kept as ended must stay the same for a while first.
    assert!(number("runs_from_index") + 2 >= number("runs"), "{json}");
    assert_eq!(from_index(&next, "test")["bytes_done"], 0);
}

#[test]
fn all_matches_are_counted_although_only_the_first_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cache) = (dir.path().join("runs"), dir.path().join("cache"));
    many_long(&root, 150, 12);
    for run in ["q060_handoff", "q060_html_injection"] {
        copy(&corpus().join("q060").join(run), &root.join(run));
    }
    let indexed = Board::serve_with_cache(&root, &cache);
    let files = Board::serve(&root);
    files.until_read();
    for text in ["result", "RESULT%2011", "result%20no", "calc.py"] {
        let path = format!("/api/search?scope=said&limit=1000&q={text}");
        let (whole, index) = (files.answered(&path), from_index(&indexed, text));
        for same in ["hits", "found", "runs", "runs_done", "runs_with_hits"] {
            assert_eq!(whole[same], index[same], "{same} of {text}");
        }
        assert_eq!(index["hits_left_out"], whole["hits_left_out"], "{text}");
    }
    let last = from_index(&indexed, "result");
    let (found, again) = (last["found"].as_u64().unwrap(), &last["number"]);
    assert!(found >= 1_800 && last["hits_left_out"] == found - 1_000);

    // A program that doesn't wait gets the same hits, and no more than there are in the end.
    let path = "/api/search?scope=said&limit=200&wait=hits&q=result";
    let early = indexed.json(&format!("{path}&again={again}"));
    let number = |name: &str| early[name].as_u64().unwrap();
    assert!(number("found") <= found && number("runs_done") <= number("runs"));
    assert_eq!(
        early["state"] == "done",
        number("runs_done") == number("runs")
    );
    let (hits, all) = (&early["hits"], last["hits"].as_array().unwrap());
    let hits = hits.as_array().unwrap();
    assert!(all[..200].starts_with(hits), "{early}");
    assert_eq!(number("hits_left_out"), number("found") - hits.len() as u64);
    let end = indexed.answered(path);
    assert_eq!(
        (&end["number"], &end["found"]),
        (&early["number"], &last["found"])
    );
    for query in ["q=x&wait=1", "wait=1"] {
        let wrong = indexed.get(&format!("/api/search?{query}"));
        assert!(
            wrong.status == 400 && wrong.text().contains("hits"),
            "{query}: {}",
            wrong.text()
        );
    }
    let page = Html::parse_document(indexed.get("/search?q=result").text());
    let answer = format!(
        "{} matches in ",
        last["found"].as_u64().map(grouped).unwrap()
    );
    assert!(
        texts(&page, "#found [role=status]")[0].starts_with(&answer),
        "{answer}"
    );
}

/// Separates thousands.
fn grouped(number: u64) -> String {
    format!("{},{:03}", number / 1_000, number % 1_000)
}

#[test]
fn a_run_that_changed_is_found_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (root, cache) = (dir.path().join("runs"), dir.path().join("cache"));
    for run in ["q060_handoff", "q060_html_injection"] {
        copy(&corpus().join("q060").join(run), &root.join(run));
    }
    let board = Board::serve_with_cache(&root, &cache);
    board.until_read();
    let before = from_index(&board, "calc.py");
    assert!(before["found"].as_u64().unwrap() > 0, "{before}");
    let steps = root.join("q060_handoff/steps.jsonl");
    let changed = fs::read_to_string(&steps)
        .unwrap()
        .replace("calc.py", "HANDED_0VER");
    assert!(changed.contains("HANDED_0VER"));
    fs::write(&steps, changed).unwrap();
    let found = until("the change is found", || {
        let last = board.answered("/api/search?scope=said&q=HANDED_0VER");
        let again = format!(
            "/api/search?scope=said&q=HANDED_0VER&again={}",
            last["number"]
        );
        let json = board.answered(&again);
        (json["found"] != 0).then_some(json)
    });
    // Before the run is in the index again, its files are searched.
    assert_eq!(found["hits"][0]["run"], "q060_handoff");
    let after = from_index(&board, "HANDED_0VER");
    assert_eq!(after["hits"], found["hits"]);
    let wrong = board.get("/api/search?q=x&scope=all");
    assert!(
        wrong.status == 400 && wrong.text().contains("messages"),
        "{}",
        wrong.text()
    );
}
