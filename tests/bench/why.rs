//! Measures questions about one long run: its explanation, its page, and the effect of other rules.

use std::time::Instant;

use crate::Options;
use crate::board::Board;
use crate::engine::write_run;
use crate::report::{self, Samples};
use crate::wait::until;
use crate::writer::Writer;

/// Number of repetitions per question.
const ROUNDS: usize = 20;

pub(crate) fn run(options: &Options) {
    let steps = options.number("--steps", 20_000);
    let scratch = options.scratch();
    write_run(scratch.path(), "ours", steps);
    let mut qitos = Writer::start(&scratch.path().join("qitos"));
    (0..steps).for_each(|n| qitos.step(&format!("{n} lines")));
    qitos.finish("budget_steps");

    let board = Board::serve(scratch.path());
    until("both runs are known", || {
        let known = |run: &str| board.json(&format!("/api/runs/{run}"))["steps"] == steps;
        (board.json("/healthz")["indexing"] == 0 && known("ours") && known("qitos")).then_some(())
    });
    for run in ["ours", "qitos"] {
        for (what, path, goal) in [
            ("explanation", format!("/api/runs/{run}/why"), "50 ms"),
            ("run page", format!("/runs/{run}"), ""),
            (
                "three rules",
                format!(
                    "/api/runs/{run}/whatif?rule=max_steps=50&rule=stagnation=5&rule=timeout=60"
                ),
                "",
            ),
        ] {
            let mut took = Samples::default();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let answer = board.get(&path);
                took.push(start.elapsed());
                assert_eq!(answer.status, 200, "{path}");
            }
            took.print(&format!("{run}, {steps} steps: {what}"), goal);
        }
    }
    report::memory(board.pid(), "");
}
