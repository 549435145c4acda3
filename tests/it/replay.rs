//! Tests over HTTP that every position of every run has an address, and that invalid positions are
//! reported.

use std::path::Path;

use scraper::Html;

use crate::board::Board;
use crate::disk::{copy, corpus};
use crate::html;
use crate::soak::times;
use crate::traces::traces;
use crate::wait::until;
use crate::writer::Writer;

fn serve(root: &Path) -> Board {
    let board = Board::serve(root);
    board.until_read();
    board
}

/// A board over one run of the corpus.
fn with(run: &str) -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    copy(&corpus().join(run), &dir.path().join("run"));
    let board = serve(dir.path());
    (dir, board)
}

/// Returns a data attribute of `#replay`.
fn data(page: &str, name: &str) -> String {
    html::attribute(
        &Html::parse_document(page),
        "#replay",
        &format!("data-{name}"),
    )
}

fn texts(page: &str, what: &str) -> Vec<String> {
    html::texts(&Html::parse_document(page), what)
}

fn part(board: &Board, query: &str) -> String {
    let answer = board.get(&format!("/runs/run/replay/part?{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    answer.text().to_owned()
}

/// Walks every run below `root` with fewer than `most` events from start to end and back.
fn walked(root: &Path, most: u64) -> usize {
    let board = serve(root);
    let runs = board.json("/api/runs?limit=1000");
    let mut places = 0;
    for run in runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| run["events"].as_u64() < Some(most))
    {
        let key = crate::client::segment(run["key"].as_str().unwrap());
        let start = board.get(&format!("/runs/{key}/replay?step=start"));
        assert_eq!(start.status, 200, "{key}");
        if let [why] = &texts(start.text(), "#replay > .empty")[..] {
            assert!(
                run["events"] == 0 && (run["steps"] == 0 || run["steps"].is_null()),
                "{key} says {why}"
            );
            continue;
        }
        let last: usize = data(start.text(), "last").parse().unwrap();
        let mut seen = Vec::new();
        for at in 0..=last {
            let answer = board.get(&format!("/runs/{key}/replay/part?at={at}"));
            let here = data(answer.text(), "url");
            assert!(!seen.contains(&here), "{key}: {here} occurs twice");
            seen.push(here);
        }
        // A position's address leads back to it.
        for (at, here) in seen.iter().enumerate().step_by(7) {
            assert_eq!(data(board.get(here).text(), "at"), at.to_string(), "{here}");
        }
        places += seen.len();
    }
    places
}

#[test]
fn every_place_of_the_corpus_has_an_address_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let runs = [
        "q060/q060_handoff",
        "q060/q060_sigkill",
        "q060/q060_recovered_errors",
        "q060/q060_task_validation_failed",
        "q060/q060_rerun_same_id",
        "q060/q060_crash_final_without_result",
        "emulated/emulated_q060_events_missing",
        "emulated/emulated_q060_steps_missing",
        "emulated/emulated_q060_garbage_lines",
        "emulated/emulated_q060_jsonl_empty",
    ];
    for run in runs.into_iter().step_by(times(3, 1)) {
        let from = corpus().join(run);
        copy(&from, &dir.path().join(from.file_name().unwrap()));
    }
    assert!(walked(dir.path(), 200) > times(50, 200));
}

#[test]
fn every_place_of_the_real_runs_has_an_address_of_its_own() {
    let Some(root) = traces() else { return };
    assert!(walked(&root, 40) > 300);
}

#[test]
fn a_step_without_a_line_is_named_apart() {
    let (_dir, board) = with("q060/q060_sigkill");
    let page = board.get("/runs/run?step=9");
    assert!(
        page.text()
            .contains("It has 4 steps, numbered from 0 to 3.")
    );
    let replay = board.get("/runs/run/replay?step=9");
    let says = "It has 4 steps, numbered from 0 to 3, and step 4, which has no line.";
    assert!(replay.text().contains(says), "{}", replay.text());
    assert_eq!(board.get("/runs/run/replay?step=4").status, 200);
    // The task ends with a full stop, which no title of a page keeps.
    for (path, shows) in [
        ("share", "Share"),
        ("steps/1", "Step 1"),
        ("replay", "Replay start"),
    ] {
        let page = board.get(&format!("/runs/run/{path}"));
        let title = format!("<title>Run a job; the process is killed: {shows}");
        assert!(page.text().contains(&title), "{path}");
    }
}

#[test]
fn what_is_no_place_is_not_found_and_what_there_is_is_said() {
    let (_dir, board) = with("q060/q060_handoff");
    for (query, says) in [
        ("step=7", "It has 7 steps, numbered from 0 to 6"),
        ("step=x", "It has 7 steps, numbered from 0 to 6"),
        (
            "step=0&event=11",
            "It has 10 events, numbered from 1 to 10.",
        ),
        ("step=0&speed=9", "Use 0.5, 1, 2, 5, 20, 100 or 500."),
        ("step=0&clock=sun", "Use step, time or gaps."),
    ] {
        for page in ["replay", "replay/part"] {
            let answer = board.get(&format!("/runs/run/{page}?{query}"));
            assert_eq!(answer.status, 404, "{query}");
            assert!(answer.text().contains(says), "{query}: {}", answer.text());
        }
    }
    assert_eq!(board.get("/runs/run/replay?event=many").status, 400);
    assert_eq!(board.get("/runs/no-such-run/replay").status, 404);
}

#[test]
fn moves_are_counted_from_the_place_and_end_at_the_ends() {
    let (_dir, board) = with("q060/q060_handoff");
    let url = |query: &str| data(&part(&board, query), "url");
    assert_eq!(
        url("step=2&event=9&events=1"),
        "/runs/run/replay?step=2&event=10"
    );
    assert_eq!(
        url("step=2&event=9&steps=1"),
        "/runs/run/replay?step=3&event=1"
    );
    assert_eq!(
        url("step=2&event=9&steps=-1"),
        "/runs/run/replay?step=1&event=1"
    );
    assert_eq!(
        url("step=2&event=9&steps=-1000"),
        "/runs/run/replay?step=start&event=1"
    );
    let end = url("step=end");
    assert_eq!(url("at=0&events=1000"), end);
    assert_eq!(
        url("step=0&speed=2&clock=gaps&key=tool_calls&break=err%3Atrue"),
        "/runs/run/replay?step=0&event=1&speed=2&clock=gaps&key=tool_calls&break=err%3Atrue"
    );
}

#[test]
fn the_state_changes_with_the_reduce_and_not_before() {
    let (_dir, board) = with("q060/q060_handoff");
    let before = part(&board, "step=2&event=7");
    let after = part(&board, "step=2&event=8");
    assert_eq!(
        texts(&before, ".pane:first-child header .dim"),
        ["before step 2"]
    );
    assert_eq!(
        texts(&after, ".pane:first-child header .dim"),
        ["after step 2"]
    );
    assert_eq!(
        board.json("/api/runs/run/state/2")["state"]["tool_calls"],
        2
    );
    let changed = |html: &str| texts(html, "#state li.chg .k");
    assert!(changed(&before).is_empty());
    assert!(
        changed(&after).contains(&"tool_calls".to_owned()),
        "{:?}",
        changed(&after)
    );
}

#[test]
fn breakpoints_are_counted_kept_and_named_where_they_are_not_understood() {
    let (_dir, board) = with("q060/q060_handoff");
    let html = part(
        &board,
        "step=3&event=6&break=tool%3Arun_python&add=state.tool_calls+changed&add=bogus%3C",
    );
    assert_eq!(
        texts(&html, ".mid header .end"),
        ["at breakpoint tool:run_python"]
    );
    let bad = texts(&html, ".bps .bad");
    assert!(
        matches!(&bad[..], [one] if one.starts_with("Ignored bogus<: ")),
        "{bad:?}"
    );
    assert_eq!(texts(&html, ".opts header .end"), ["3 active"]);
    assert_eq!(
        texts(&html, ".bps input[checked] + label"),
        ["tool:run_python", "state.tool_calls changed", "bogus<"]
    );
    let url = data(&html, "url");
    assert_eq!(
        url,
        "/runs/run/replay?step=3&event=6&break=tool%3Arun_python&break=state.tool_calls%20changed&break=bogus%3C"
    );
    // Playing stops only after the tool's result.
    assert_eq!(
        texts(
            &part(&board, "step=3&event=2&break=tool%3Arun_python"),
            ".mid header .end"
        ),
        [""]
    );
}

#[test]
fn a_live_run_opens_at_its_end_and_the_pulse_follows_it_only_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(&dir.path().join("run"));
    writer.step("one");
    let board = serve(dir.path());
    let url = |path: &str| {
        let answer = board.get(path);
        data(answer.text(), "url")
    };
    assert_eq!(url("/runs/run/replay"), "/runs/run/replay?step=0&event=8");
    writer.begin_step();
    until("the next step is seen", || {
        (url("/runs/run/replay") == "/runs/run/replay?step=1&event=4").then_some(())
    });
    assert_eq!(
        url("/runs/run/replay/live?step=0&event=8&last=1"),
        "/runs/run/replay?step=1&event=4"
    );
    assert_eq!(
        url("/runs/run/replay/live?step=0&event=3"),
        "/runs/run/replay?step=0&event=3"
    );
    assert_eq!(
        url("/runs/run/replay/live?step=9&event=3"),
        "/runs/run/replay?step=1&event=4",
        "the nearest position"
    );
}
