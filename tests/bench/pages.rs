//! Measures how soon pages and steps are shown in a browser, and how much work a page is, compared
//! with an empty page.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Options;
use crate::board::Board;
use crate::many::viewer;
use crate::page::Page;
use crate::report::Samples;
use crate::wait::until;
use crate::writer::Writer;

/// A run too long for any page to hold all its rows.
const LONG: u64 = 20_000;
/// Number of repetitions of each action on a page.
const ROUNDS: u64 = 11;
/// How long a loaded page rests before its metrics are read.
const REST: Duration = Duration::from_millis(200);
/// The last block of each page; a load is complete once it has text.
const LAST: [(&str, &str); 5] = [
    ("run", "#stepview .pager"),
    ("long", "#stepview .pager"),
    ("replay", "#replay"),
    ("runs", ".foot"),
    ("empty", "body"),
];

/// Presses a key and measures the time until the step is drawn. Then waits for its row, which
/// scrolls the list.
const KEY: &str = "(async key => {
    const before = document.getElementById('stepview').dataset.n, started = performance.now();
    document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    while (document.getElementById('stepview').dataset.n === before) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    const took = performance.now() - started, row = `#step-${document.getElementById('stepview').dataset.n} > a[aria-current]`;
    while (!document.querySelector(row)) await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
    return took;
})";

/// Scrolls the list to a line and measures the time until its row is drawn.
const SCROLL: &str = "(async line => {
    const started = performance.now();
    document.getElementById('steps').scrollTop = line * 28;
    while (!document.getElementById(`step-${line}`)) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - started;
})";

/// The cost of loading a page, in milliseconds.
#[derive(Debug, Default)]
struct Cost {
    shown: Samples,
    task: Samples,
    layout: Samples,
    elements: u64,
    requests: u64,
    bytes: u64,
}

pub(crate) fn run(options: &Options) {
    let (steps, loads) = (
        options.number("--steps", 1_000),
        options.number("--loads", 9),
    );
    let scratch = options.scratch();
    for (name, steps) in [("run", steps), ("long", LONG)] {
        let mut writer = Writer::start(&scratch.path().join(name));
        (0..steps).for_each(|n| writer.step(&format!("result {n}")));
        writer.finish("final");
    }
    let board = Board::serve(scratch.path());
    until("both runs are known", || {
        let known = |name: &str| {
            board.json(&format!("/api/runs/{name}"))["steps"]
                .as_u64()
                .unwrap_or_default()
        };
        (board.json("/healthz")["indexing"] == 0 && known("run") == steps && known("long") == LONG)
            .then_some(())
    });
    let url = |path: &str| format!("http://{}{path}", board.address);
    let paths = [
        "/runs/run",
        "/runs/long",
        "/runs/run/replay",
        "/",
        "/healthz",
    ];
    let mut costs: [Cost; 5] = Default::default();
    for cycle in 0..=loads {
        for ((cost, path), (_, last)) in costs.iter_mut().zip(paths).zip(LAST) {
            load(cost, &url(path), last, cycle > 0);
        }
    }
    let empty = costs.last().map_or(f64::NAN, |cost| cost.shown.median());
    for (cost, (name, _)) in costs.iter().zip(LAST) {
        cost.print(name, empty);
    }
    let page = Page::open();
    for name in ["run", "long"] {
        page.goto(&url(&format!("/runs/{name}")));
        page.wait("document.readyState === 'complete'");
        let (mut keys, mut near, mut far) =
            (Samples::default(), Samples::default(), Samples::default());
        let steps = if name == "run" { steps } else { LONG };
        for round in 0..ROUNDS {
            keys.push_ms(
                page.eval(&format!("{KEY}('k')"))
                    .as_f64()
                    .unwrap_or(f64::NAN),
            );
            let line = (round * 2_654_435_761) % (steps - 200);
            far.push_ms(
                page.eval(&format!("{SCROLL}({line})"))
                    .as_f64()
                    .unwrap_or(f64::NAN),
            );
            near.push_ms(
                page.eval(&format!("{SCROLL}({})", line + 100))
                    .as_f64()
                    .unwrap_or(f64::NAN),
            );
        }
        keys.print(&format!("{name}: k to the step drawn"), "60 ms");
        near.print(&format!("{name}: scroll to the next rows"), "60 ms");
        far.print(&format!("{name}: scroll to any rows"), "60 ms");
    }
    if let Some((mut other, address)) = viewer(scratch.path()) {
        let mut cost = Cost::default();
        load(
            &mut cost,
            &format!("http://{address}/run/run"),
            "body",
            true,
        );
        cost.print("qitos: run", empty);
        other
            .kill()
            .and_then(|()| other.wait())
            .expect("its viewer ends");
    }
}

/// Loads a page twice in separate contexts: once to measure when `last` has text, once for its
/// cost.
fn load(cost: &mut Cost, url: &str, last: &str, counts: bool) {
    let page = Page::open();
    let start = Instant::now();
    page.call("Page.navigate", &json!({"url": url}));
    page.wait(&format!(
        "location.href.startsWith('http') && document.querySelector('{last}')?.innerText.trim()"
    ));
    let shown = start.elapsed();
    drop(page);
    let page = Page::open();
    page.call("Performance.enable", &json!({}));
    page.goto(url);
    std::thread::sleep(REST);
    let answer = page.call("Performance.getMetrics", &json!({}));
    let metric = |name: &str| {
        let found = answer["metrics"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|metric| metric["name"] == name);
        found
            .and_then(|metric| metric["value"].as_f64())
            .unwrap_or(f64::NAN)
            * 1e3
    };
    (cost.elements, (cost.requests, cost.bytes)) = (page.count("*"), page.requests());
    if counts {
        cost.shown.push(shown);
        cost.task.push_ms(metric("TaskDuration"));
        cost.layout
            .push_ms(metric("LayoutDuration") + metric("RecalcStyleDuration"));
    }
}

impl Cost {
    /// Prints medians. `empty` is the time until the empty page was shown.
    fn print(&self, name: &str, empty: f64) {
        let mut line = format!(
            "  {name:<12} end shown {:7.1} ms = {:5.2} x empty",
            self.shown.median(),
            self.shown.median() / empty
        );
        let _ = write!(
            line,
            ", main thread {:7.1} ms, of it layout and style {:6.1}",
            self.task.median(),
            self.layout.median()
        );
        let _ = write!(
            line,
            ", {} elements, {} requests, {:.1} KB sent",
            self.elements,
            self.requests,
            self.bytes as f64 / 1e3
        );
        println!("{line}");
    }
}
