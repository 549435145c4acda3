//! Measures the speed of full-text search as a page requests it, with a warm page cache.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use crate::Options;
use crate::board::Board;
use crate::report::{self, Samples};
use crate::wait::until;
use crate::writer::Writer;

/// Creates runs of about 8 MB each, `megabytes` in total. The last step of the last run contains
/// `unicorn`.
fn many(root: &Path, megabytes: u64) -> u64 {
    let said: String = (0..400)
        .map(|n| format!("line {n}: def test_{n}(): assert add({n}, 1) == 1 # ok\n"))
        .collect();
    let runs = megabytes.div_ceil(8);
    for run in 0..runs {
        let dir = root.join(format!("run-{run}"));
        let mut writer = Writer::start(&dir);
        writer.append_step("short");
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(dir.join("steps.jsonl"))
            .expect("the file exists");
        for step in 1..=360 {
            let last = if run + 1 == runs && step == 360 {
                "unicorn"
            } else {
                "horse"
            };
            let line = serde_json::json!({"step_id": step, "output": format!("{said}{step}"), "animal": last});
            writeln!(file, "{line}").expect("there is room");
        }
    }
    runs
}

pub(crate) fn run(options: &Options) {
    let megabytes = options.number("--megabytes", 2_000);
    let scratch = options.scratch();
    let runs = many(scratch.path(), megabytes);
    let board = Board::serve(scratch.path());
    until("all runs are known", || {
        let health = board.json("/healthz");
        (health["runs"] == runs && health["indexing"] == 0).then_some(())
    });
    for (what, text, found) in [
        ("a word that occurs once", "unicorn", 1),
        ("the same in capitals", "UNICORN", 1),
        ("a word that doesn't occur", "platypus", 0),
        ("words of common letters", "a rest into the", 0),
        ("a letter with an accent", "%C3%A9", 0),
        ("two lines", "end%0Aof", 0),
    ] {
        let (mut beside, mut last) = (Samples::default(), serde_json::Value::Null);
        until(what, || {
            last = board.json(&format!("/api/search?q={}", text.replace(' ', "%20")));
            if last["state"] == "done" {
                return Some(());
            }
            let asked = Instant::now();
            board.get("/");
            beside.push(asked.elapsed());
            None
        });
        assert_eq!(last["found"], found, "{last}");
        let (bytes, ms) = (last["bytes_done"].as_f64(), last["elapsed_ms"].as_f64());
        let speed = bytes.unwrap_or_default() / 1e3 / ms.unwrap_or_default().max(1.0);
        report::number(&format!("{what}: MB/s"), speed, "500");
        beside.print("run table meanwhile", "");
    }
    first_hit(&board);
    cancelled(&board);
}

/// Measures the time to a page with hits, for a text that occurs everywhere.
fn first_hit(board: &Board) {
    let start = Instant::now();
    until("the first hit is on the page", || {
        board
            .get("/search?q=assert%20add")
            .text()
            .contains("<mark>")
            .then_some(())
    });
    report::duration(
        "a text that occurs everywhere: to the first hits on the page",
        start.elapsed(),
        "",
    );
}

/// Measures the time from a click on Stop to the end of the work.
fn cancelled(board: &Board) {
    let mut took = Samples::default();
    for n in 0..20 {
        let path = format!("/api/search?q=assert%20add({n}%2C");
        let asked = board.json(&path);
        if asked["state"] != "running" {
            continue;
        }
        let start = Instant::now();
        let path = format!("{path}&cancel={}", asked["number"]);
        until("it is cancelled", || {
            (board.json(&path)["state"] == "cancelled").then_some(())
        });
        took.push(start.elapsed());
    }
    took.print("cancel to the end of the work", "");
}
