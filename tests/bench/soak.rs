//! Runs a board under a long mixed load: writers that start, grow, end, rewrite and delete runs,
//! streams that come and go, one stream without a reader, and pages and requests of all kinds.
//! Reports the work and its cost each minute. At the end, reports whether memory stayed constant,
//! and whether a client sees the same as on a fresh board.

use std::fs;
use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::Options;
use crate::board::Board;
use crate::chance::Chance;
use crate::client::{Client, differences_after, segment};
use crate::heavy::many_long;
use crate::http;
use crate::memory;
use crate::report;
use crate::writer::Writer;

/// Number of runs without a writer.
const IDLE: usize = 100;
/// Number of threads that write one run after another.
const WRITERS: u64 = 4;
/// Number of runs that a writer keeps; it deletes older ones.
const LEFT: u64 = 10;
const ASKERS: u64 = 3;
const LISTENERS: u64 = 10;
/// Interval between memory samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// The first percentage of samples counts as warm-up.
const WARM_UP_PERCENT: usize = 25;
/// Fluctuation of a process's memory, in KiB, that doesn't count as growth.
const WAVER_KIB: u64 = 2048;

/// Counters shared by all threads.
#[derive(Debug, Default)]
struct Counts {
    done: AtomicBool,
    requests: AtomicU64,
    not_there: AtomicU64,
    busy: AtomicU64,
    faults: AtomicU64,
    streams: AtomicU64,
    steps: AtomicU64,
}

pub(crate) fn run(options: &Options) {
    let minutes = options.number("--minutes", 30);
    let scratch = options.scratch();
    let root = scratch.path().join("runs");
    many_long(&root.join("idle"), IDLE, 50);
    let board = Board::serve(&root);
    board.until_read();
    let (counts, address, pid) = (Counts::default(), board.address, board.pid());
    let start = Instant::now();
    let mut memory = Vec::new();
    // A stream without a reader. Board must not keep what it can't send.
    let _unread = http::open(address, "GET", "/events", &[]).expect("a stream opens");
    std::thread::scope(|scope| {
        let (counts, root) = (&counts, root.as_path());
        for n in 0..WRITERS {
            scope.spawn(move || write(root, n, counts));
        }
        for n in 0..ASKERS {
            scope.spawn(move || ask(address, n, counts));
        }
        for n in 0..LISTENERS {
            scope.spawn(move || listen(address, n, counts));
        }
        let (mut told, mut before) = (0, Seen::of(pid, counts));
        while start.elapsed() < Duration::from_secs(60 * minutes) {
            std::thread::sleep(SAMPLE_EVERY);
            memory.push(memory::now_kib(pid).unwrap_or_default());
            if start.elapsed().as_secs() / 60 > told {
                told += 1;
                let now = Seen::of(pid, counts);
                println!("  minute {told:>3}: {}", now.since(&before));
                before = now;
            }
        }
        counts.done.store(true, Relaxed);
    });
    println!(
        "  in all: {}",
        Seen::of(pid, &counts).since(&Seen::default())
    );
    tell_memory(&memory);
    report::memory(pid, "");
    let differences = differences(&board, &root);
    println!(
        "  what a client sees that differs from a fresh board: {}",
        differences.len()
    );
    let faults = counts.faults.load(Relaxed);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(faults, 0, "requests that failed");
}

/// Writes one run after another until the test is over.
fn write(root: &Path, writer: u64, counts: &Counts) {
    let mut chance = Chance::new(writer);
    let dir = |n: u64| root.join(format!("writer-{writer}/run-{n:06}"));
    for n in 0.. {
        let mut run = Writer::start(&dir(n));
        for step in 0..chance.below(80) {
            if counts.done.load(Relaxed) {
                return;
            }
            run.step(&format!(
                "step {step} {}",
                "of many words ".repeat(chance.place(100))
            ));
            counts.steps.fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_millis(chance.below(60)));
        }
        if !chance.once_in(4) {
            run.finish("final");
        }
        // Truncates an older run, overwrites its lines, or appends half of it again, so that a line
        // may be torn.
        let older = dir(n.saturating_sub(chance.below(LEFT))).join("steps.jsonl");
        if let Ok(text) = fs::read(&older) {
            let half = text.len() / 2;
            let file = fs::OpenOptions::new().write(true).open(&older);
            let mut file = file.expect("a readable file can be written");
            match chance.below(4) {
                0 => file.set_len(half as u64).expect("the file can be cut"),
                1 => file
                    .write_all(&text.to_ascii_lowercase())
                    .expect("the file can be written"),
                2 => fs::write(&older, [&text[..], &text[..half]].concat())
                    .expect("the file can be written"),
                _ => {}
            }
        }
        if let Some(old) = n.checked_sub(LEFT) {
            fs::remove_dir_all(dir(old)).expect("a run can be deleted");
        }
    }
}

/// Sends one request after another until the test is over.
fn ask(address: SocketAddr, asker: u64, counts: &Counts) {
    let mut chance = Chance::new(1000 + asker);
    let mut keys: Vec<String> = vec!["idle/long-0".to_owned()];
    while !counts.done.load(Relaxed) {
        if chance.once_in(20)
            && let Ok(answer) = http::try_request(address, "GET", "/api/runs?limit=60", &[])
        {
            let runs = answer.json();
            let rows = runs["runs"].as_array().expect("a list of runs");
            keys = rows
                .iter()
                .filter_map(|row| row["key"].as_str())
                .map(segment)
                .collect();
        }
        let (one, two) = (
            &keys[chance.place(keys.len())],
            &keys[chance.place(keys.len())],
        );
        let n = chance.below(60);
        let path = match chance.below(24) {
            0 => "/".to_owned(),
            1 => format!("/?q=steps%3E{n}+step&sort=steps"),
            2 => format!("/?q=word{}", chance.below(1_000_000)),
            3 => format!("/api/runs?q=stop:final&limit={}", n + 1),
            4 => format!("/api/whatif?sweep=max_steps&values=1..{}", 10 + n % 2),
            5 => format!("/whatif?rule=max_steps={}", 10 + n % 2),
            6 => format!("/compare?a={one}&b={two}"),
            7 => format!("/api/compare?a={one}&b={two}"),
            8 => format!("/scores?run={one}&run={two}"),
            9 => format!("/runs/{one}/replay?step={n}"),
            10 => format!("/runs/{one}/whatif?rule=max_steps={}", n + 1),
            11 => format!("/runs/{one}/scores"),
            12 => format!("/runs/{one}?tab=events"),
            13 => format!("/runs/{one}?tab=state&step={n}"),
            14 => format!("/runs/{one}?tab=issues"),
            15 => format!("/runs/{one}/export.html?redact=1"),
            16 => format!("/runs/{one}/steps/{n}"),
            17 => format!("/api/runs/{one}/steps/{n}"),
            18 => format!("/api/runs/{one}/state/{n}"),
            19 => format!("/api/runs/{one}/why"),
            20 => format!("/api/runs/{one}/raw"),
            21 => format!("/runs/{one}/live?steps={n}"),
            22 => "/live/runs".to_owned(),
            _ => format!("/runs/{one}"),
        };
        match http::try_request(address, "GET", &path, &[]).map(|answer| answer.status) {
            Ok(200..=400) => {}
            // The run was deleted after it was listed, or has fewer steps.
            Ok(404) => _ = counts.not_there.fetch_add(1, Relaxed),
            // Board evaluates a few what-if questions at a time and refuses the others.
            Ok(503) if path.contains("whatif?") => _ = counts.busy.fetch_add(1, Relaxed),
            answer => {
                println!("  {path}: {answer:?}");
                counts.faults.fetch_add(1, Relaxed);
            }
        }
        counts.requests.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(chance.below(40)));
    }
}

/// Opens streams, reads a few lines and leaves, until the test is over.
fn listen(address: SocketAddr, listener: u64, counts: &Counts) {
    let mut chance = Chance::new(2000 + listener);
    while !counts.done.load(Relaxed) {
        let path = if chance.once_in(2) {
            "/events"
        } else {
            "/runs/idle%2Flong-0/events"
        };
        let Ok((head, mut stream)) = http::open(address, "GET", path, &[]) else {
            continue;
        };
        if head.status != 200 {
            counts.faults.fetch_add(1, Relaxed);
        }
        counts.streams.fetch_add(1, Relaxed);
        let until = Instant::now() + Duration::from_millis(chance.below(3000));
        stream
            .get_ref()
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("the socket takes the option");
        let mut line = String::new();
        while Instant::now() < until && !counts.done.load(Relaxed) {
            line.clear();
            // A silent stream hasn't failed.
            let _ = stream.read_line(&mut line);
        }
    }
}

/// Compares the view of a client at the end with that of a client of a fresh board.
fn differences(board: &Board, root: &Path) -> Vec<String> {
    let fresh = Board::serve(root);
    fresh.until_read();
    let (mut client, mut other) = (
        Client::new(board.address, true),
        Client::new(fresh.address, true),
    );
    differences_after(Duration::from_secs(90), &mut client, &mut other)
}

/// Compares memory after the warm-up with memory at the end.
fn tell_memory(samples: &[u64]) {
    let warm = samples
        .get(samples.len() * WARM_UP_PERCENT / 100..)
        .unwrap_or_default();
    let third = warm.len() / 3;
    if third == 0 {
        return println!("  memory: too short a time to tell");
    }
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() / samples.len() as u64;
    let (first, last) = (mean(&warm[..third]), mean(&warm[warm.len() - third..]));
    let flat = last <= first + WAVER_KIB;
    println!(
        "  memory: {:.1} MiB in the first third after the warm-up, {:.1} MiB in the last: {}",
        first as f64 / 1024.0,
        last as f64 / 1024.0,
        if flat { "flat" } else { "it grew" }
    );
}

/// The counters at one moment.
#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    not_there: u64,
    busy: u64,
    faults: u64,
    streams: u64,
    steps: u64,
    cpu: Duration,
    memory_kib: u64,
    at: Option<Instant>,
}

impl Seen {
    fn of(pid: u32, counts: &Counts) -> Self {
        Self {
            requests: counts.requests.load(Relaxed),
            not_there: counts.not_there.load(Relaxed),
            busy: counts.busy.load(Relaxed),
            faults: counts.faults.load(Relaxed),
            streams: counts.streams.load(Relaxed),
            steps: counts.steps.load(Relaxed),
            cpu: report::cpu(pid),
            memory_kib: memory::now_kib(pid).unwrap_or_default(),
            at: Some(Instant::now()),
        }
    }

    fn since(&self, before: &Self) -> String {
        let took = self.at.zip(before.at).map(|(now, before)| now - before);
        let share = took.map_or_else(String::new, |took| {
            format!(
                " ({:.0}% of a core)",
                100.0 * (self.cpu - before.cpu).as_secs_f64() / took.as_secs_f64()
            )
        });
        format!(
            "{:6.1} MiB, {} steps written, {} requests ({} not found, {} deferred, {} failed), {} streams, {:.1} s of CPU{share}",
            self.memory_kib as f64 / 1024.0,
            self.steps - before.steps,
            self.requests - before.requests,
            self.not_there - before.not_there,
            self.busy - before.busy,
            self.faults - before.faults,
            self.streams - before.streams,
            (self.cpu - before.cpu).as_secs_f64(),
        )
    }
}
