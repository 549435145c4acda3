//! Measures the cost per run in large fleets: a board over a store with 1,000, 10,000 and 100,000
//! objects of one run each, then tables of as many runs on disk. Extrapolates to a million runs a
//! day. docs/fleet.md cites the results.
//!
//! The store is on the loopback and answers at once. CPU time and requests are board's own, and
//! the latency of a real store isn't included.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Options;
use crate::board::{BINARY, Board};
use crate::report;
use crate::table::{generate, size_below, timed};

/// Objects per page of a listing.
const PAGE: u64 = 1_000;
/// A board that hasn't read everything by then hangs.
const PATIENCE: Duration = Duration::from_secs(600);
/// Number of listings measured without any changes.
const LISTINGS: u64 = 3;
/// The number of runs for the extrapolation.
const RUNS_A_DAY: f64 = 1e6;

pub(crate) fn run(options: &Options) {
    let most = options.number("--runs", 100_000);
    let (mut seen, mut exported) = (Followed::default(), Exported::default());
    for count in [1_000, 10_000, 100_000]
        .into_iter()
        .filter(|count| *count <= most)
    {
        let fewer = seen;
        seen = followed(options, count);
        // The program's base memory must not be multiplied.
        seen.a_run = (seen.memory - fewer.memory) / (seen.objects - fewer.objects);
        // Tables need runs on disk, so their number is limited to what fits.
        exported = if count <= 10_000 {
            tables(options, count)
        } else {
            exported
        };
    }
    a_day(&seen, &exported);
}

/// The cost of following a store.
#[derive(Debug, Default)]
struct Followed {
    objects: f64,
    /// CPU microseconds to fetch and read an object, and to see in a listing that it hasn't
    /// changed.
    first_us: f64,
    listed_us: f64,
    /// Bytes of memory, in total and per additional run.
    memory: f64,
    a_run: f64,
}

/// Follows a store with `count` runs of one object each.
fn followed(options: &Options, count: u64) -> Followed {
    let store = Store::start(count);
    let cache = options.scratch();
    // Listing 100,000 objects takes most of a second. A shorter interval would make listings most
    // of what is measured before everything is read.
    let every = (count / 10_000).max(1);
    let mut command = Command::new(BINARY);
    for name in std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("AWS_"))
    {
        command.env_remove(name);
    }
    command
        .args([
            "serve",
            "s3://bucket/runs",
            "--port",
            "0",
            "--s3-every",
            &every.to_string(),
            "--s3-requests",
            "100000",
        ])
        .env("XDG_CACHE_HOME", cache.path())
        .env("AWS_ENDPOINT_URL", format!("http://{}", store.address))
        .env("AWS_CONFIG_FILE", "/nowhere")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/nowhere");
    let board = Board::spawn(command, cache.path());
    wait_until("all runs are known", || {
        let health = board.json("/healthz");
        health["runs"] == count && health["indexing"] == 0
    });
    let (first, asked) = (report::cpu(board.pid()), store.asked());
    report::duration(
        &format!("{count} objects: processor until all are read"),
        first,
        "",
    );
    report::number(
        &format!("{count} objects: requests, listings among them"),
        (asked.0 + asked.1) as f64,
        "",
    );
    let whole = |lists: u64| lists.div_ceil(count.div_ceil(PAGE));
    let from = whole(asked.0);
    wait_until("some listings more", || {
        whole(store.asked().0) > from + LISTINGS
    });
    let listings = (store.asked().0 - asked.0) as f64 / count.div_ceil(PAGE) as f64;
    let listed = (report::cpu(board.pid()) - first).as_secs_f64() / listings;
    report::number(
        &format!("{count} objects: a listing without news, ms of processor"),
        listed * 1e3,
        "",
    );
    report::number(
        &format!("{count} objects: its requests"),
        count.div_ceil(PAGE) as f64,
        "",
    );
    assert_eq!(store.asked().1, asked.1, "no object is fetched twice");
    report::memory(board.pid(), "");
    Followed {
        objects: count as f64,
        first_us: first.as_secs_f64() * 1e6 / count as f64,
        listed_us: listed * 1e6 / count as f64,
        memory: crate::memory::now_kib(board.pid()).unwrap_or_default() as f64 * 1024.0,
        a_run: 0.0,
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < PATIENCE,
            "timed out after {PATIENCE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The cost of tables.
#[derive(Debug, Default)]
struct Exported {
    trace_bytes: f64,
    /// For the tables of runs and of steps: bytes of rows per run, and CPU microseconds.
    rows: [f64; 2],
    us: [f64; 2],
}

/// Writes tables for `count` runs of 50 steps.
fn tables(options: &Options, count: u64) -> Exported {
    let scratch = options.scratch();
    let root = scratch.path().join("runs");
    let mut exported = Exported {
        trace_bytes: generate(&root, count) as f64 / count as f64,
        ..Exported::default()
    };
    for (at, table) in ["runs", "steps"].into_iter().enumerate() {
        let out = scratch.path().join("table");
        let took = timed(
            Command::new(BINARY)
                .args(["table", table, "--out"])
                .arg(&out)
                .arg(&root),
        );
        exported.rows[at] = size_below(&out.join(table)) as f64 / count as f64;
        exported.us[at] = took.cpu.as_secs_f64() * 1e6 / count as f64;
        report::number(
            &format!("{count} runs: table of {table}, us of processor a run"),
            exported.us[at],
            "",
        );
        report::number(
            &format!("{count} runs: table of {table}, bytes a run"),
            exported.rows[at],
            "",
        );
    }
    exported
}

/// Prints the cost of a day with a million runs, with the formula for each number.
fn a_day(seen: &Followed, exported: &Exported) {
    let say = |what: &str, value: f64, unit: &str, sum: String| {
        println!("  {what:<44} {value:12.1} {unit:<14} = {sum}")
    };
    println!(
        "  {RUNS_A_DAY} runs a day of one object each, at the figures of {} objects",
        seen.objects
    );
    let hour = RUNS_A_DAY / 24.0;
    let (listed, first) = (seen.listed_us, seen.first_us);
    say(
        "requests to list a day's runs once",
        RUNS_A_DAY / 1e3,
        "requests",
        "runs / 1,000".to_owned(),
    );
    say(
        "CPU for those",
        RUNS_A_DAY * listed / 1e6,
        "s",
        format!("runs x {listed:.1} us"),
    );
    say(
        "the same of one hour's runs",
        hour / 1e3,
        "requests",
        "runs / 24 / 1,000".to_owned(),
    );
    say(
        "requests to have the day's runs",
        RUNS_A_DAY,
        "requests",
        "runs x 1 object".to_owned(),
    );
    say(
        "processor to have and read them",
        RUNS_A_DAY * first / 1e6,
        "s",
        format!("runs x {first:.0} us"),
    );
    let bytes = exported.trace_bytes;
    say(
        "bytes of trace",
        RUNS_A_DAY * bytes / 1e9,
        "GB",
        format!("runs x {bytes:.0} bytes"),
    );
    let memory = seen.a_run;
    say(
        "memory of a board that knows them all",
        RUNS_A_DAY * memory / 1e6,
        "MB",
        format!("runs x {memory:.0} bytes"),
    );
    for (at, table) in ["runs", "steps"].into_iter().enumerate() {
        let (rows, us) = (exported.rows[at], exported.us[at]);
        say(
            &format!("rows of {table}"),
            RUNS_A_DAY * rows / 1e9,
            "GB",
            format!("runs x {rows:.0} bytes"),
        );
        say(
            "CPU for those",
            RUNS_A_DAY * us / 1e6,
            "s",
            format!("runs x {us:.0} us"),
        );
        say(
            "a file of an hour",
            hour * rows / 1e6,
            "MB",
            format!("runs / 24 x {rows:.0} bytes"),
        );
    }
}

/// A store that serves the same run under every key.
struct Store {
    address: SocketAddr,
    /// Number of requests for listings, and for objects.
    counts: Arc<[AtomicU64; 2]>,
}

impl Store {
    fn start(objects: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let counts = Arc::<[AtomicU64; 2]>::default();
        let counted = Arc::clone(&counts);
        let line = r#"{"step_id":0,"decision":{"mode":"final","final_answer":"done"},"actions":[],"action_results":[]}"#;
        let body = Arc::new(format!("{line}\n"));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counts, body) = (Arc::clone(&counted), Arc::clone(&body));
                std::thread::spawn(move || answer(&stream, objects, &body, &counts));
            }
        });
        Self { address, counts }
    }

    fn asked(&self) -> (u64, u64) {
        let [lists, gets] = &*self.counts;
        (lists.load(Ordering::Relaxed), gets.load(Ordering::Relaxed))
    }
}

/// Answers the requests on one connection until it closes.
fn answer(stream: &TcpStream, objects: u64, body: &str, [lists, gets]: &[AtomicU64; 2]) {
    const TAG: &str = "0123456789abcdef0123456789abcdef-1";
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .for_each(drop);
        let answer = if path.contains("list-type=2") {
            lists.fetch_add(1, Ordering::Relaxed);
            let from = path
                .split("continuation-token=")
                .nth(1)
                .and_then(|rest| rest.split('&').next()?.parse().ok());
            listing(from.unwrap_or(0), objects, body.len(), TAG)
        } else {
            gets.fetch_add(1, Ordering::Relaxed);
            body.to_owned()
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nETag: \"{TAG}\"\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        let mut out = stream;
        if out
            .write_all(head.as_bytes())
            .and_then(|()| out.write_all(answer.as_bytes()))
            .is_err()
        {
            return;
        }
    }
}

fn listing(from: u64, objects: u64, size: usize, tag: &str) -> String {
    let to = objects.min(from + PAGE);
    let mut out = format!(
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{}</IsTruncated>",
        to < objects
    );
    if to < objects {
        let _ = write!(out, "<NextContinuationToken>{to}</NextContinuationToken>");
    }
    for n in from..to {
        let _ = write!(
            out,
            "<Contents><Key>runs/{:04}/{n:07}/steps.jsonl</Key><ETag>&quot;{tag}&quot;</ETag><Size>{size}</Size>\
             <LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>",
            n / 1_000
        );
    }
    out + "</ListBucketResult>"
}
