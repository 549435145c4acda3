//! Measures many growing runs, and many clients of one run, including some that never read.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::Options;
use crate::board::Board;
use crate::report::{self, Samples};
use crate::sse::Stream;
use crate::wait::until;
use crate::writer::Writer;

/// Readers that request the event stream or all bytes of the run and never read the response.
const DEAF: usize = 20;
/// Time between two appends to one run.
const PACE: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &Options) {
    growing(options);
    streams(options);
}

/// Appends a step to each of many runs every second, and measures the delay until one of them is
/// announced.
fn growing(options: &Options) {
    let count = options.number("--writers", 200);
    let seconds = options.number("--seconds", 20);
    let scratch = options.scratch();
    let mut writers: Vec<Writer> = (0..count)
        .map(|n| Writer::start(&scratch.path().join(format!("run-{n:03}"))))
        .collect();
    let board = Board::serve(scratch.path());
    until("all runs are known", || {
        (board.json("/healthz")["runs"] == count).then_some(())
    });
    let stream = Stream::open(board.address, "/runs/run-000/events");
    stream.next();
    let before = report::cpu(board.pid());
    let (start, mut announced, mut late) = (Instant::now(), Samples::default(), 0);
    for second in 0..seconds {
        for (n, writer) in writers.iter_mut().enumerate() {
            let due = Duration::from_secs_f64(second as f64 + n as f64 / count as f64);
            match due.checked_sub(start.elapsed()) {
                Some(wait) => std::thread::sleep(wait),
                None => late += 1,
            }
            if n > 0 {
                writer.step("counted");
                continue;
            }
            // The revisions of the step's events are announced before that of its line.
            let written = Instant::now();
            writer.append_step("counted");
            stream.next();
            announced.push(written.elapsed());
        }
    }
    let used = report::cpu(board.pid()) - before;
    announced.print(&format!("{count} growing runs: append to revision"), "");
    report::number(
        "percent of one core meanwhile",
        used.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0,
        "",
    );
    report::number("appends that the writers made late", f64::from(late), "0");
    report::memory(board.pid(), "");
    let steps = |run: &str| board.json(&format!("/api/runs/{run}"))["steps"].as_u64();
    for n in 0..count {
        let run = format!("run-{n:03}");
        until("all steps are known", || {
            (steps(&run) == Some(seconds)).then_some(())
        });
    }
}

/// Measures how long it takes until the last of many streams on one run has announced an append.
fn streams(options: &Options) {
    let count = options.number("--streams", 200);
    let appends = options.number("--appends", 300);
    let scratch = options.scratch();
    let mut writer = Writer::start(&scratch.path().join("live"));
    (0..1_000).for_each(|n| writer.append_step(&format!("{n}{}", "x".repeat(1_000))));
    let board = Board::serve(scratch.path());
    board.until_read();
    report::memory(board.pid(), "");
    let deaf: Vec<TcpStream> = (0..DEAF)
        .map(|n| {
            let path = ["/runs/live/events", "/api/runs/live/raw"][n % 2];
            let mut stream =
                TcpStream::connect(board.address).expect("the board takes connections");
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n",
                board.address
            )
            .expect("the request is sent");
            stream
        })
        .collect();
    let open: Vec<Stream> = (0..count)
        .map(|_| Stream::open(board.address, "/runs/live/events"))
        .collect();
    for stream in &open {
        stream.next();
    }
    let (mut first, mut last) = (Samples::default(), Samples::default());
    for n in 0..appends {
        std::thread::sleep(PACE);
        let start = Instant::now();
        writer.append_step(&format!("{n}"));
        for (at, stream) in open.iter().enumerate() {
            stream.next();
            if at == 0 {
                first.push(start.elapsed());
            }
        }
        last.push(start.elapsed());
    }
    first.print(&format!("{count} streams: append to the first"), "");
    last.print(
        &format!(
            "{count} streams, {} readers that never read: append to the last",
            deaf.len()
        ),
        "",
    );
    report::memory(board.pid(), "");
}
