//! Measures how soon a reader sees an appended step, starting before the write: as a revision on
//! the stream, as the step in the API, and as a changed page in a browser, with idle runs beside
//! it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::Options;
use crate::board::Board;
use crate::disk::{copy, corpus};
use crate::http;
use crate::page::Page;
use crate::pulse::pulse_of;
use crate::report::Samples;
use crate::sse::Stream;
use crate::writer::Writer;

/// Milliseconds between two appends: enough to see each on its own, and few enough for a busy run.
/// Appends faster than a page can be drawn are shown together, so a shorter pace measures the
/// browser's queue.
const PACE_MS: u64 = 200;

/// Sizes of a step's payload.
const SIZES: [(&str, usize); 2] = [("1 KB", 1_000), ("30 KB", 30_000)];

/// Records in the page when each step row appears.
const OBSERVE: &str = "window.seen = {}; new MutationObserver(changes => {
    const now = performance.timeOrigin + performance.now();
    for (const change of changes) for (const node of change.addedNodes)
        if (node.id?.startsWith('step-')) window.seen[node.id] ??= now;
}).observe(document.body, {childList: true, subtree: true})";

pub(crate) fn run(options: &Options) {
    let appends = options.number("--appends", 300);
    let pace = Duration::from_millis(options.number("--pace", PACE_MS));
    for (size, len) in SIZES {
        let scratch = options.scratch();
        for n in 0..options.number("--idle", 200) {
            copy(
                &corpus().join("q060/q060_redaction"),
                &scratch.path().join(format!("idle-{n:04}")),
            );
        }
        let mut writer = Writer::start(&scratch.path().join("live"));
        let board = Board::serve(scratch.path());
        board.until_read();
        let load = Load {
            size,
            payload: "x".repeat(len),
            appends,
            pace,
            viewers: options.number("--viewers", 1),
        };
        through_the_api(&board, &mut writer, &load);
        in_a_browser(&board, &mut writer, &load);
    }
}

/// The size, number and pace of appends.
struct Load {
    size: &'static str,
    payload: String,
    appends: u64,
    pace: Duration,
    viewers: u64,
}

fn through_the_api(board: &Board, writer: &mut Writer, load: &Load) {
    let stream = Stream::open(board.address, "/runs/live/events");
    stream.next();
    let (mut announced, mut readable) = (Samples::default(), Samples::default());
    for _ in 0..load.appends {
        std::thread::sleep(load.pace);
        let n = writer.steps;
        let start = Instant::now();
        writer.append_step(&load.payload);
        loop {
            stream.next();
            let heard = start.elapsed();
            if board.get(&format!("/api/runs/live/steps/{n}")).status == 200 {
                announced.push(heard);
                readable.push(start.elapsed());
                break;
            }
        }
    }
    announced.print(&format!("append of {} to revision", load.size), "");
    readable.print(
        &format!("append of {} to readable through the API", load.size),
        "p50 10, p99 50 ms",
    );
}

fn in_a_browser(board: &Board, writer: &mut Writer, load: &Load) {
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (1..load.viewers)
        .map(|_| viewer(board.address, Arc::clone(&over)))
        .collect();
    let page = Page::open();
    page.goto(&format!("http://{}/runs/live", board.address));
    page.eval(OBSERVE);
    let mut written = Vec::new();
    for _ in 0..load.appends {
        std::thread::sleep(load.pace);
        written.push((writer.steps, epoch_ms()));
        writer.append_step(&load.payload);
    }
    let last = writer.steps - 1;
    page.wait(&format!("window.seen['step-{last}']"));
    let seen = page.eval("window.seen");
    let mut changed = Samples::default();
    let mut missed = 0;
    for (n, start) in written {
        match seen.get(format!("step-{n}")).and_then(Value::as_f64) {
            Some(at) => changed.push_ms(at - start),
            None => missed += 1,
        }
    }
    let what = format!(
        "append of {} to a changed page, {} viewers",
        load.size, load.viewers
    );
    changed.print(&what, "p50 20, p99 80 ms");
    if missed > 0 {
        println!("  {missed} steps never appeared as rows");
    }
    over.store(true, Ordering::Relaxed);
    // Ends the viewers' wait for the next event.
    writer.append_step(&load.payload);
    others
        .into_iter()
        .for_each(|viewer| viewer.join().expect("a viewer ends"));
}

/// Behaves like an open page: waits for each change and requests it.
fn viewer(address: SocketAddr, over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let get = |path: &str| http::request(address, "GET", path, &[]).text().to_owned();
        let stream = Stream::open(address, "/runs/live/events");
        let mut ask = pulse_of(&get("/runs/live"));
        while !over.load(Ordering::Relaxed) {
            stream.next();
            ask = pulse_of(&get(&ask));
        }
    })
}

fn epoch_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
