//! Tests that unknown values are reported as unknown on pages, in JSON and on the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::client::segment;
use crate::disk::{copy, corpus};
use crate::html::{attributes, hrefs, page, texts};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs")
        .join(name)
}

/// A board over copies of these runs, each under the last part of its path, completely read.
fn board<const N: usize>(runs: [PathBuf; N]) -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    for run in runs {
        let to = dir.path().join(run.file_name().unwrap());
        if run.is_dir() {
            copy(&run, &to)
        } else {
            fs::copy(&run, &to).map(|_| ()).unwrap()
        }
    }
    let board = Board::serve(dir.path());
    board.until_read();
    (dir, board)
}

/// An aborted simulation that records neither messages nor ticks.
const UNTOLD: &str = "sim-voice-0.json";

#[test]
fn a_run_none_of_whose_steps_is_told_is_not_shown_as_one_without_steps() {
    let (dir, board) = board([
        sample("tools/tau2/voice/simulations").join(UNTOLD),
        sample("final"),
    ]);
    let row = board.json(&format!("/api/runs/{UNTOLD}"));
    for key in ["steps", "tool_calls", "tool_errors", "turns"] {
        assert_eq!(row[key], Value::Null, "{key}");
    }
    let steps = page(&board, &format!("/runs/{UNTOLD}"));
    assert!(
        texts(&steps, "#tabs a").contains(&"Steps unknown".to_owned()),
        "{:?}",
        texts(&steps, "#tabs a")
    );
    assert!(!texts(&steps, "#runhead dt").contains(&"turns".to_owned()));
    let untold = "No steps are recorded and their number is unknown";
    assert_eq!(texts(&steps, "#stepview"), [format!("{untold}.")]);
    let of_tab =
        |tab: &str, what: &str| texts(&page(&board, &format!("/runs/{UNTOLD}?tab={tab}")), what);
    assert_eq!(of_tab("timeline", "#timeline-h"), [untold]);
    assert_eq!(
        of_tab("state", "#statetab"),
        [format!("{untold}, so there is no state to show.")]
    );
    let scores = texts(&page(&board, &format!("/runs/{UNTOLD}/scores")), "main").concat();
    assert!(
        scores.contains(&format!("{untold}, so there are no scores.")),
        "{scores}"
    );

    let compared = board.json(&format!("/api/compare?a={UNTOLD}&b=final"));
    let metrics = compared["metrics"].as_array().unwrap();
    for id in ["steps", "tool_calls", "critic_retries", "errors"] {
        let metric = metrics.iter().find(|metric| metric["name"] == id).unwrap();
        assert_eq!(metric["a"], Value::Null, "{metric}");
        assert!(metric["b"].is_number(), "{metric}");
    }
    let said = Command::new(BINARY)
        .arg("diff")
        .args([UNTOLD, "final"].map(|run| dir.path().join(run)))
        .output();
    let said = String::from_utf8(said.unwrap().stdout).unwrap();
    assert!(said.contains("A has no more recorded steps."), "{said}");
}

/// A step with a duration is on the timeline, in the samples of all formats.
#[test]
fn the_timeline_shows_every_step_with_a_duration() {
    let (_dir, board) = board([sample("tools"), sample("fix_bug"), sample("crash")]);
    let runs = board.json("/api/runs?limit=500");
    let (mut timelines, mut spans) = (0, 0);
    for run in runs["runs"].as_array().unwrap() {
        let key = segment(run["key"].as_str().unwrap());
        let html = page(&board, &format!("/runs/{key}?tab=timeline&table=1"));
        let durations = texts(&html, ".tl-table td:nth-child(4)");
        let known = durations
            .iter()
            .filter(|words| !["", "–"].contains(&&***words))
            .count();
        let notes = texts(&html, ".tl-notes").concat();
        let hidden = match notes.split_once(" aren't shown: their durations") {
            Some((count, _)) => count.split(' ').next().unwrap().parse().unwrap(),
            None => usize::from(notes.contains("1 step isn't shown: its duration")),
        };
        assert!(
            hidden + known <= durations.len(),
            "{key}: {hidden} hidden, {known} known: {durations:?}"
        );
        if known > 0 {
            assert!(!hrefs(&html, "#lanes a").is_empty(), "{key}: no spans");
            timelines += 1;
            spans += known;
        }
    }
    assert!(
        timelines > 40 && spans > 200,
        "{timelines} timelines, {spans} steps"
    );
}

#[test]
fn what_ended_before_its_first_step_is_not_awaited() {
    let (dir, board) = board([sample("task_validation_failed")]);
    let of_tab = |tab: &str, what: &str| {
        texts(
            &page(&board, &format!("/runs/task_validation_failed{tab}")),
            what,
        )
    };
    assert_eq!(
        of_tab("?tab=state", "#statetab"),
        ["No steps were recorded, so there is no state to show."]
    );
    assert_eq!(
        of_tab("?tab=timeline", "#timeline-h"),
        ["No steps were recorded"]
    );
    assert!(
        of_tab("/scores", "main")
            .concat()
            .contains("No steps were recorded, so there are no scores.")
    );
    let said = Command::new(BINARY)
        .arg("state")
        .arg(dir.path().join("task_validation_failed"))
        .output()
        .unwrap();
    let said = String::from_utf8(said.stderr).unwrap();
    assert!(
        said.contains("no steps were recorded") && !said.contains("yet"),
        "{said}"
    );
}

#[test]
fn a_score_off_the_scale_is_the_lowest_all_the_same() {
    let (_dir, board) = board([corpus().join("q060/q060_nan_infinity")]);
    let run = page(&board, "/runs/q060_nan_infinity");
    assert_eq!(
        texts(&run, ".strip-words .low"),
        ["lowest score: \u{2212}5.00 at step 6"]
    );
    let whole = run.html();
    assert!(whole.contains("NumericCritic \u{2212}5.00"), "with a minus");
    assert!(
        whole.contains("NumericCritic 1.00e308") && !whole.contains("00000000000"),
        "no number with 309 digits"
    );
    assert!(!whole.contains("-0.00"), "zero has no minus sign");
}

#[test]
fn a_pick_that_leaves_no_step_does_not_say_that_the_run_has_none() {
    let (_dir, board) = board([sample("fix_bug")]);
    let picked = page(&board, "/runs/fix_bug?tool=read_file&err=1");
    assert_eq!(texts(&picked, "#stepview"), ["No steps match."]);
}

#[test]
fn what_stands_out_in_an_earlier_run_of_the_directory_is_not_said_of_the_newest() {
    let (_dir, board) = board([corpus().join("q060/q060_rerun_same_id")]);
    let run = page(&board, "/runs/q060_rerun_same_id");
    let row = board.json("/api/runs/q060_rerun_same_id");
    assert_eq!(
        (&row["errors"], &row["segment_count"]),
        (&0.into(), &2.into()),
        "the failed command belongs to the first run"
    );
    let legend = texts(&run, ".strip-words li");
    let steps = board.json("/api/runs/q060_rerun_same_id/steps");
    assert!(steps["total"].as_u64().unwrap() > 4, "{steps}");
    assert!(
        legend.len() == 1 && legend[0].starts_with("longest: step "),
        "{legend:?}"
    );
    let longest = hrefs(&run, ".strip-words .took a").concat();
    let n: u64 = longest
        .split("step=")
        .nth(1)
        .unwrap()
        .split('&')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(n >= 3, "step {n} belongs to the newest run");
    let ranges = attributes(&run, ".strip-links a", "title");
    assert!(
        ranges[1].starts_with("step 1 of run 1: 1 failed command")
            && ranges[4].starts_with("step 1 of run 2"),
        "{ranges:?}"
    );
    let says = texts(&run, "#runhead dd").join("|");
    assert!(
        says.contains("2 runs in this directory. Totals cover only the newest; lists cover all."),
        "{says}"
    );
}

#[test]
fn of_a_line_that_is_no_event_nothing_is_said_to_be_well() {
    let (_dir, board) = board([corpus().join("emulated/emulated_q060_garbage_lines")]);
    let run = "/runs/emulated_q060_garbage_lines";
    let events = page(&board, &format!("{run}?tab=events&after=0"));
    let rows = texts(&events, "table.evs tbody tr");
    let cells = |n: usize, column: usize| {
        texts(&events, &format!("#event-{n} td:nth-child({column})")).concat()
    };
    assert_eq!(rows.len(), 50);
    for n in [5, 6, 7, 8, 9, 12] {
        assert_eq!(
            (&*cells(n, 4), &*cells(n, 6)),
            ("–", "unknown"),
            "event {n}"
        );
    }
    assert_eq!((&*cells(4, 4), &*cells(4, 6)), ("0", "ok"));
    // Three lines are JSON but not objects.
    assert_eq!(board.json(&format!("/api{run}"))["events"], 69);
    assert!(
        texts(&events, "#tabs a").contains(&"Events 69".to_owned()),
        "{:?}",
        texts(&events, "#tabs a")
    );
    assert_eq!(
        texts(&events, ".eventform .dim"),
        ["0–49 of 72 lines, 3 not JSON"]
    );
    assert_eq!(texts(&events, ".eventform option")[0], "all 72");
}

#[test]
fn an_event_that_is_asked_for_is_among_those_shown() {
    let (_dir, board) = board([sample("long")]);
    let shown = |query: &str| {
        texts(
            &page(&board, &format!("/runs/long?tab=events{query}")),
            ".eventform .dim",
        )
        .concat()
    };
    let total = board.json("/api/runs/long")["events"].as_u64().unwrap();
    let last = format!("{}–{} of 1,952", "1,902", "1,951");
    assert_eq!(total, 1_952);
    assert_eq!(shown("&open=500"), "500–549 of 1,952");
    assert_eq!(
        (shown(""), shown("&after=5000"), shown("&open=5000")),
        (last.clone(), last.clone(), last)
    );
    let open = page(&board, "/runs/long?tab=events&open=500");
    assert_eq!(attributes(&open, "table.evs tr.open", "id"), ["event-500"]);
}

#[test]
fn lines_that_nobody_can_count_are_not_0() {
    let (_dir, board) = board([sample("tools/codex-exec/answered.jsonl"), sample("fix_bug")]);
    let files = board.json("/api/runs/answered.jsonl/files");
    let file = &files["files"][0];
    assert_eq!(
        (&file["edits_uncounted"], &file["added"], &file["removed"]),
        (&1.into(), &Value::Null, &Value::Null)
    );
    let files = board.json("/api/runs/fix_bug/files");
    assert!(files["files"][0]["added"].is_number(), "{files}");
}

#[test]
fn a_repetition_is_left_out_only_where_the_evidence_tells_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let overflow = temp.path().join("context_overflow");
    copy(&sample("context_overflow"), &overflow);
    // Calls that change the state aren't trouble, so these only count.
    let steps = overflow.join("steps.jsonl");
    let text = fs::read_to_string(&steps).unwrap();
    fs::write(
        &steps,
        text.replace("\"words\":{\"before", "\"metrics\":{\"before"),
    )
    .unwrap();
    let (_dir, board) = board([overflow, sample("loop")]);
    let first = |run: &str| {
        texts(
            &page(&board, &format!("/runs/{run}")),
            "#verdict-panel dd.first",
        )
        .concat()
    };
    // Requests also grow from the same step on, which is another kind of trouble.
    assert_eq!(
        first("context_overflow"),
        "Step 0: the same call repeats: listen()"
    );
    assert_eq!(first("loop"), "", "its evidence is the repetition");
    let why = board.json("/api/runs/loop/why");
    assert!(
        why["first_trouble"]["text"]
            .as_str()
            .unwrap()
            .contains("the same call repeats"),
        "{why}"
    );
    assert!(
        why["evidence"][0].get("repeats").is_none(),
        "for pages only"
    );
}

/// Writes two steps, the second with an estimated token count.
fn write_estimated(run: &Path) {
    fs::create_dir(run).unwrap();
    let step = |n: u32, mode: &str| {
        let counts = format!(
            r#""input_tokens_total": 1200, "output_tokens": 34, "tokens_total": {}"#,
            1234 * (n + 1)
        );
        let context = format!(r#"{{{counts}, "counting_mode": "{mode}"}}"#);
        format!(
            "{{\"step_id\": {n}, \"decision\": {{\"mode\": \"wait\"}}, \"context\": {context}}}\n"
        )
    };
    let steps = step(0, "provider_usage") + &step(1, "engine_estimate");
    fs::write(run.join("steps.jsonl"), steps).unwrap();
    let event = |n: u32| {
        let at = format!(r#""phase": "DECIDE", "ts": "2026-03-01T10:00:0{n}+00:00""#);
        format!("{{\"step_id\": {n}, {at}, \"payload\": {{\"stage\": \"state_ready\"}}}}\n")
    };
    fs::write(run.join("events.jsonl"), event(0) + &event(1)).unwrap();
    fs::write(
        run.join("manifest.json"),
        r#"{"run_id": "guessed", "status": "completed"}"#,
    )
    .unwrap();
}

#[test]
fn estimated_tokens_are_marked_wherever_they_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    write_estimated(&dir.path().join("guessed"));
    let board = Board::serve(dir.path());
    board.until_read();
    let rows = page(&board, "/?cols=run,tokens,input");
    assert_eq!(texts(&rows, "td.c-num"), ["≈2,468", "≈2,400"]);
    assert_eq!(
        attributes(&rows, "td.c-num", "title"),
        ["some tokens are estimated"; 2]
    );
    let run = page(&board, "/runs/guessed");
    assert_eq!(texts(&run, "#steprows .tok"), ["1,234", "≈1,234"]);
    assert!(texts(&run, "#runhead").concat().contains("≈2,468"));
    let facts = |n: usize| {
        texts(
            &page(&board, &format!("/runs/guessed/steps/{n}")),
            "#stepfacts",
        )
        .concat()
    };
    assert!(
        facts(0).contains(" 1,234 tokens") && !facts(0).contains('≈'),
        "{}",
        facts(0)
    );
    assert!(facts(1).contains("≈1,234 tokens"), "{}", facts(1));
    let flags = [0, 1].map(|n| {
        board.json(&format!("/api/runs/guessed/steps/{n}"))["head"]["tokens_estimated"].clone()
    });
    assert_eq!(flags, [Value::Bool(false), Value::Bool(true)]);

    let command = |args: &[&str]| {
        let said = Command::new(BINARY)
            .current_dir(dir.path())
            .args(args)
            .output()
            .unwrap();
        String::from_utf8(said.stdout).unwrap()
    };
    assert!(command(&["show", "guessed", "--step", "1"]).contains("≈1,234"));
    let flags = |table: &str| -> Vec<Value> {
        let rows = command(&["table", table, "."]);
        rows.lines()
            .map(|row| serde_json::from_str::<Value>(row).unwrap()["tokens_estimated"].clone())
            .collect()
    };
    assert_eq!(
        (flags("runs"), flags("steps")),
        (
            vec![Value::Bool(true)],
            [false, true].map(Value::Bool).to_vec()
        )
    );

    fs::create_dir(dir.path().join("exported")).unwrap();
    command(&["export", "guessed", "--otlp", "exported/guessed.otlp.json"]);
    let listed: Value = serde_json::from_str(&command(&["list", "exported", "--json"])).unwrap();
    let again = &listed["runs"][0];
    assert_eq!(
        (&again["tokens"], &again["tokens_estimated"]),
        (&2468.into(), &Value::Bool(true)),
        "{listed}"
    );
}

#[test]
fn a_start_of_the_whole_run_without_an_offset_is_noted() {
    let check = |run: &Path| {
        let said = Command::new(BINARY).arg("check").arg(run).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    };
    const NOTE: &str = "the time has no UTC offset; all such times are assumed to be UTC";
    let said = check(&sample("tools/tau2/voice/simulations").join(UNTOLD));
    assert!(said.contains(NOTE), "{said}");
    let dir = tempfile::tempdir().unwrap();
    let trial = dir.path().join("trial");
    copy(&sample("tools/harbor/nightly/ledger__timeout"), &trial);
    assert!(!check(&trial).contains(NOTE));
    let result = fs::read_to_string(trial.join("result.json")).unwrap();
    fs::write(trial.join("result.json"), result.replace("Z\"", "\"")).unwrap();
    let said = check(&trial);
    assert!(said.contains(NOTE), "{said}");
}
