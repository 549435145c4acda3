//! Measures how soon each append is announced while many runs keep growing, and whether any
//! announcement is missing. Meanwhile, `--viewers` clients look at the pages over all runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Options;
use crate::board::Board;
use crate::http;
use crate::memory;
use crate::report::{self, Samples};
use crate::sse::Stream;
use crate::wait::until;
use crate::writer::Writer;

/// A reader without events for this long won't get any more.
const DEAF_AFTER: Duration = Duration::from_secs(10);
/// How long a viewer looks at a page before it opens the next one.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn run(options: &Options) {
    let count = options.number("--writers", 500);
    let seconds = options.number("--seconds", 60);
    let pace = Duration::from_millis(options.number("--pace", 200));
    let listeners = options.number("--streams", 50).min(count);
    let scratch = options.scratch();
    let name = |n: u64| format!("run-{n:03}");
    let mut writers: Vec<Writer> = (0..count)
        .map(|n| Writer::start(&scratch.path().join(name(n))))
        .collect();
    let board = Board::serve(scratch.path());
    until("all runs are known", || {
        (board.json("/healthz")["runs"] == count).then_some(())
    });
    board.until_read();
    let over = Arc::new(AtomicBool::new(false));
    let heard: Vec<_> = (0..listeners)
        .map(|n| {
            listen(
                Stream::open(board.address, &format!("/runs/{}/events", name(n))),
                &over,
            )
        })
        .collect();
    let viewers: Vec<_> = (0..options.number("--viewers", 10))
        .map(|_| view(board.address, &over))
        .collect();
    let before = report::cpu(board.pid());
    let (start, mut late) = (Instant::now(), 0);
    let mut appended: Vec<Vec<Instant>> =
        vec![Vec::new(); usize::try_from(listeners).unwrap_or_default()];
    let rounds = seconds * 1_000 / u64::try_from(pace.as_millis()).unwrap_or(1).max(1);
    let mut memory = Vec::new();
    for round in 0..rounds {
        if round % (rounds / 3).max(1) == 0 {
            memory.extend(memory::now_kib(board.pid()));
        }
        for (n, writer) in writers.iter_mut().enumerate() {
            let due = pace.mul_f64(round as f64 + n as f64 / count as f64);
            match due.checked_sub(start.elapsed()) {
                Some(wait) => std::thread::sleep(wait),
                None => late += 1,
            }
            let written = Instant::now();
            writer.append_step("counted");
            if let Some(appended) = appended.get_mut(n) {
                appended.push(written);
            }
        }
    }
    let used = report::cpu(board.pid()) - before;
    let took = start.elapsed();
    let steps = |run: &str| board.json(&format!("/api/runs/{run}"))["steps"].as_u64();
    for n in 0..count {
        until("all steps are known", || {
            (steps(&name(n)) == Some(rounds)).then_some(())
        });
    }
    over.store(true, Ordering::Relaxed);
    // Ends the listeners' wait for the next event.
    writers
        .iter_mut()
        .for_each(|writer| writer.append_step("counted"));
    let mut looks = [Samples::default(), Samples::default()];
    for viewer in viewers {
        for (all, looks) in looks.iter_mut().zip(viewer.join().expect("a viewer ends")) {
            looks.into_iter().for_each(|took| all.push(took));
        }
    }
    let (mut announced, mut unheard) = (Samples::default(), 0);
    for (appended, heard) in appended.into_iter().zip(heard) {
        let heard = heard.join().expect("a listener ends");
        for written in appended {
            // One event may cover several appends.
            match heard.get(heard.partition_point(|at| *at < written)) {
                Some(at) if at.duration_since(written) < DEAF_AFTER => {
                    announced.push(at.duration_since(written))
                }
                _ => unheard += 1,
            }
        }
    }
    let what = format!("{count} runs, {pace:?} each, {listeners} listeners: append to revision");
    announced.print(&what, "p50 100, p99 1000 ms");
    report::number("appends without a notification", f64::from(unheard), "0");
    report::number("appends that the writers made late", f64::from(late), "0");
    report::number(
        "percent of one core meanwhile",
        used.as_secs_f64() / took.as_secs_f64() * 100.0,
        "",
    );
    for (path, looks) in PAGES.iter().zip(looks) {
        looks.print(&format!("{path} meanwhile"), "");
    }
    for (third, kib) in memory.into_iter().enumerate() {
        let what = format!("MiB resident before third {} of the time", third + 1);
        report::number(&what, kib as f64 / 1024.0, "");
    }
    report::memory(board.pid(), "");
}

/// The pages that viewers look at.
const PAGES: [&str; 2] = ["/overview", "/failures"];

/// Opens the pages in turn until `over` is set. Returns how long each took, by page.
fn view(address: SocketAddr, over: &Arc<AtomicBool>) -> JoinHandle<[Vec<Duration>; 2]> {
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        let mut looks = [const { Vec::new() }; 2];
        while !over.load(Ordering::Relaxed) {
            for (path, looks) in PAGES.iter().zip(&mut looks) {
                let asked = Instant::now();
                let answer = http::request(address, "GET", path, &[]);
                assert_eq!(answer.status, 200, "{path}");
                looks.push(asked.elapsed());
                std::thread::sleep(LOOK);
            }
        }
        looks
    })
}

/// Records the time of each event, until the first one after `over` is set.
fn listen(stream: Stream, over: &Arc<AtomicBool>) -> JoinHandle<Vec<Instant>> {
    stream.next();
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        let mut heard = Vec::new();
        while !over.load(Ordering::Relaxed) {
            stream.next();
            heard.push(Instant::now());
        }
        heard
    })
}
