//! Measures the cost of evaluating rules on many runs, as a browser requests it, and of the pages
//! meanwhile.

use std::time::{Duration, Instant};

use crate::Options;
use crate::board::Board;
use crate::heavy::many_long;
use crate::report::{self, Samples};
use crate::wait::until;

pub(crate) fn run(options: &Options) {
    let (count, steps) = (
        options.number("--runs", 2000),
        options.number("--steps", 100),
    );
    let scratch = options.scratch();
    many_long(scratch.path(), count as usize, steps as usize);
    let board = Board::serve(scratch.path());
    until("all runs are known", || {
        let health = board.json("/healthz");
        (health["runs"] == count && health["indexing"] == 0).then_some(())
    });
    for (what, query) in [
        ("max_steps, 50 limits", "sweep=max_steps&values=1..100/50"),
        ("stagnation, 50 limits", "sweep=stagnation&values=1..50"),
        ("content_match, one rule", "rule=content_match%3Dnever-said"),
    ] {
        let path = format!("/api/whatif?{query}");
        let (mut beside, start) = (Samples::default(), Instant::now());
        let took = until(what, || {
            let answer = board.json(&path);
            if answer["state"] == "done" {
                assert_eq!(answer["runs"]["asked"], count, "{answer}");
                return Some(start.elapsed());
            }
            let asked = Instant::now();
            board.get("/");
            beside.push(asked.elapsed());
            None
        });
        report::duration(
            &format!("{count} runs of {steps} steps: {what}"),
            took,
            "5000 ms",
        );
        if took > Duration::from_millis(250) {
            beside.print("run table meanwhile", "");
        }
    }
}
