//! Measures in a real browser how soon a long run's replay page is shown, and how soon it reaches
//! another step.

use serde_json::json;

use crate::Options;
use crate::board::Board;
use crate::page::Page;
use crate::report::{self, Samples};
use crate::wait::until;
use crate::writer::{Writer, append};

/// Events per step; QitOS writes about twelve.
const EVENTS: usize = 12;
/// Number of repetitions.
const ROUNDS: u64 = 20;

/// Milliseconds from the start of the navigation to the first contentful paint, or null before it.
const PAINT: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null";

/// Moves to a position and measures the time until the page shows it.
const JUMP: &str = "(async at => {
    const started = performance.now();
    const slider = document.getElementById('pos');
    slider.value = at;
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    while (document.getElementById('replay').dataset.at !== String(at)) await new Promise(requestAnimationFrame);
    return performance.now() - started;
})";

pub(crate) fn run(options: &Options) {
    let steps = options.number("--steps", 5_000);
    let scratch = options.scratch();
    let mut writer = Writer::start(&scratch.path().join("run"));
    for n in 0..steps {
        writer.begin_step();
        // As many events as QitOS's engine writes with critics and several stages.
        let more = json!({"step_id": n, "phase": "ACT", "ok": true, "payload": {"stage": "progress"}, "ts": null});
        (8..EVENTS).for_each(|_| append(&writer.dir.join("events.jsonl"), &more.to_string()));
        writer.end_step(&format!("result {n}"));
    }
    writer.finish("budget_steps");
    let board = Board::serve(scratch.path());
    until("the run is known", || {
        (board.json("/healthz")["indexing"] == 0 && board.json("/api/runs/run")["steps"] == steps)
            .then_some(())
    });
    let events = board.json("/api/runs/run")["events"].clone();
    let (mut painted, mut jumped) = (Samples::default(), Samples::default());
    let page = Page::open();
    let place = |round: u64| (round * 2_654_435_761) % steps;
    for round in 0..ROUNDS {
        page.goto(&format!(
            "http://{}/runs/run/replay?step={}&event=9&key=count",
            board.address,
            place(round)
        ));
        page.wait(&format!(
            "({PAINT}) !== null && window.htmx && document.readyState === 'complete'"
        ));
        painted.push_ms(page.eval(PAINT).as_f64().unwrap_or(f64::NAN));
    }
    let last = page
        .eval("Number(document.getElementById('pos').max)")
        .as_u64()
        .unwrap_or(0);
    for round in 1..=ROUNDS {
        let at = (round * 2_654_435_761) % last;
        jumped.push_ms(
            page.eval(&format!("{JUMP}({at})"))
                .as_f64()
                .unwrap_or(f64::NAN),
        );
    }
    let nodes = page.count("*");
    painted.print(
        &format!("replay of {steps} steps, {events} events: first paint"),
        "300 ms",
    );
    jumped.print("jump to any event", "100 ms");
    println!("  {nodes} nodes in the document (goal: 3000)");
    report::memory(board.pid(), "");
}
