//! Measures one very long run: the first page, the whole index, single steps, page size and memory.

use std::path::Path;
use std::time::Instant;

use crate::Options;
use crate::board::Board;
use crate::report::{self, Samples};
use crate::wait::until;
use crate::writer::Writer;

/// A step's result is in both its line and its event, so it takes twice this.
pub(crate) const RESULT_BYTES: usize = 20_000;
/// Approximate size of a step's other events.
const EVENTS_BYTES: u64 = 2_000;

/// Number of single steps requested.
const LOOKS: u64 = 200;

pub(crate) fn run(options: &Options) {
    let scratch = options.scratch();
    let steps = generate(&scratch.path().join("huge"), options, RESULT_BYTES);
    let size = |file: &str| {
        scratch
            .path()
            .join("huge")
            .join(file)
            .metadata()
            .map_or(0, |meta| meta.len())
    };
    report::bytes(
        &format!("one run of {steps} steps on disk"),
        size("steps.jsonl") + size("events.jsonl"),
        "",
    );

    let start = Instant::now();
    let board = Board::serve(scratch.path());
    let page = until("the run has a page", || {
        Some(board.get("/runs/huge")).filter(|page| page.status == 200)
    });
    report::duration("start to first page", start.elapsed(), "500 ms");
    report::bytes("first page", page.body.len() as u64, "400 KiB");
    until("the whole run is known", || {
        (board.json("/healthz")["indexing"] == 0 && board.json("/api/runs/huge")["steps"] == steps)
            .then_some(())
    });
    report::duration("start to whole index", start.elapsed(), "3000 ms");

    let page_size = looks(&board, "huge", steps);
    report::bytes("largest page", page_size as u64, "400 KiB");
    report::memory(board.pid(), "120 MiB");
}

/// Requests steps of a run through the API and as pages. Returns the size of the largest page in
/// bytes.
pub(crate) fn looks(board: &Board, key: &str, steps: u64) -> usize {
    let mut page_size = 0;
    for (what, prefix) in [
        (
            "any step through the API",
            format!("/api/runs/{key}/steps/"),
        ),
        ("any step on the run page", format!("/runs/{key}?step=")),
        ("any step on its own page", format!("/runs/{key}/steps/")),
    ] {
        let mut took = Samples::default();
        for look in 0..LOOKS {
            // A stride that shares no factor with the number of steps visits them out of order.
            let n = look * 7_919 % steps;
            let start = Instant::now();
            let answer = board.get(&format!("{prefix}{n}"));
            took.push(start.elapsed());
            assert_eq!(answer.status, 200, "{prefix}{n}");
            if !prefix.starts_with("/api") {
                page_size = page_size.max(answer.body.len());
            }
        }
        took.print(what, "30 ms");
    }
    page_size
}

/// Writes a run whose steps have `output` bytes of output each. Returns the number of steps.
pub(crate) fn generate(dir: &Path, options: &Options, output: usize) -> u64 {
    let steps = options.number("--megabytes", 400) * 1_000_000 / (2 * output as u64 + EVENTS_BYTES);
    let mut writer = Writer::start(dir);
    for n in 0..steps {
        let row = format!("part-{n}.txt \"counted\":\t{} lines in \u{e4}ll\n", n % 977);
        writer.step(&row.repeat(output / row.len()));
    }
    writer.finish("final");
    steps
}
