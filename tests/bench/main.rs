//! Measures board's performance: `cargo bench --bench board -- NAME [--option VALUE]...`
//!
//! | name | measures | options |
//! |---|---|---|
//! | `append` | one more step at the end of 100, 10,000 and 100,000; CPU to serve a large run, compared with reading it once | `--appends 300 --megabytes 400` |
//! | `live` | from an append to its announcement, to the API, and to a changed page in a real browser, among other viewers | `--appends 300 --idle 200 --pace 200` (ms) `--viewers 1` |
//! | `crowd` | many runs growing at once, many streams on one run | `--writers 200 --seconds 20 --streams 200 --appends 300` |
//! | `steady` | many runs growing all the time: how soon each append is announced, and whether it is; Overview and Failures meanwhile | `--writers 500 --pace 200` (ms) `--seconds 60 --streams 50 --viewers 10` |
//! | `many` | many runs: start, list, page, memory, idle, changes, second start; compared with QitOS's viewer if `BOARD_QITOS` names a Python that has it | `--runs 2000` |
//! | `huge` | one long run: first page, whole index, single steps, memory | `--megabytes 400` |
//! | `engine` | the embedded engine: time per step with the trace off and on, bytes per step | `--steps 1000` |
//! | `why` | questions about one long run: its explanation, its page, other rules | `--steps 20000` |
//! | `sweep` | other rules on many runs, and the run table meanwhile | `--runs 2000 --steps 100` |
//! | `search` | a text in all runs: bytes per second, first hits, cancelling, the run table meanwhile | `--megabytes 2000` |
//! | `sessions` | sessions of coding agents, copied from those below `BOARD_SESSIONS` or from the samples: until all are read, compared with `jq`; a long one; an Inspect log in an archive of 400 MB | `--runs 2000 --megabytes 1000` |
//! | `replay` | one long run event by event, in a real browser: first paint, jumps, size of the document | `--steps 5000` |
//! | `pages` | pages in a real browser, compared with an empty one: time until the end is shown, elements, requests, work; a key press, a scroll; QitOS's viewer as in `many` | `--steps 1000 --loads 9` |
//! | `table` | tables of many runs of 50 steps: traces read per second, memory, the second call | `--runs 10000` |
//! | `fleet` | cost per run with a store of 1,000 to 100,000 objects, extrapolated to a million runs a day | `--runs 100000` |
//! | `soak` | a long mixed load: memory, failed requests, the view at the end | `--minutes 30` |
//!
//! Without a name, all benchmarks except `soak` run. `--dir DIR` sets where data is created
//! (default: the system's temporary directory). The data is removed afterwards. Nothing fails for
//! being slow: the numbers are for people to compare.

#![cfg(test)] // Always so; clippy lets tests unwrap where it sees this.

mod append;
#[path = "../support/board.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod board;
#[path = "../e2e/cdp.rs"]
mod cdp;
#[path = "../support/chance.rs"]
mod chance;
#[path = "../support/client.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod client;
mod crowd;
#[path = "../support/disk.rs"]
mod disk;
mod engine;
mod fleet;
#[path = "../support/heavy.rs"]
mod heavy;
#[path = "../support/http.rs"]
mod http;
mod huge;
mod live;
mod many;
#[path = "../support/memory.rs"]
mod memory;
#[path = "../e2e/page.rs"]
#[expect(
    dead_code,
    reason = "shared with the browser tests, which use more of it"
)]
mod page;
mod pages;
#[path = "../support/pulse.rs"]
mod pulse;
mod replay;
mod report;
mod search;
mod sessions;
mod soak;
#[path = "../support/sse.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod sse;
mod steady;
mod sweep;
mod table;
#[path = "../support/wait.rs"]
mod wait;
mod why;
#[path = "../support/writer.rs"]
mod writer;

type Bench = fn(&Options);

/// All benchmarks, in the order in which they run by default.
const BENCHES: [(&str, Bench); 16] = [
    ("append", append::run),
    ("live", live::run),
    ("crowd", crowd::run),
    ("steady", steady::run),
    ("many", many::run),
    ("huge", huge::run),
    ("engine", engine::run),
    ("why", why::run),
    ("sweep", sweep::run),
    ("search", search::run),
    ("sessions", sessions::run),
    ("replay", replay::run),
    ("pages", pages::run),
    ("table", table::run),
    ("fleet", fleet::run),
    ("soak", soak::run),
];
/// Options with a numeric value.
const NUMBERS: [&str; 12] = [
    "--appends",
    "--idle",
    "--pace",
    "--viewers",
    "--runs",
    "--megabytes",
    "--steps",
    "--writers",
    "--seconds",
    "--streams",
    "--minutes",
    "--loads",
];

/// The parsed command line.
#[derive(Debug)]
struct Options {
    names: Vec<String>,
    dir: std::path::PathBuf,
    numbers: std::collections::BTreeMap<String, u64>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            names: Vec::new(),
            dir: std::env::temp_dir(),
            numbers: Default::default(),
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                // Cargo adds it.
                "--bench" => {}
                "--dir" => options.dir = value()?.into(),
                option if NUMBERS.contains(&option) => {
                    let number = value()?
                        .parse()
                        .map_err(|_| format!("{arg} needs a number"))?;
                    options.numbers.insert(arg, number);
                }
                name if BENCHES.iter().any(|(known, _)| *known == name) => options.names.push(arg),
                _ => return Err(format!("unknown: {arg}")),
            }
        }
        Ok(options)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.numbers.get(name).copied().unwrap_or(default)
    }

    fn wants(&self, name: &str) -> bool {
        (self.names.is_empty() && name != "soak") || self.names.iter().any(|wanted| wanted == name)
    }

    /// Creates a directory that is deleted when dropped.
    fn scratch(&self) -> tempfile::TempDir {
        tempfile::tempdir_in(&self.dir)
            .unwrap_or_else(|error| panic!("{}: {error}", self.dir.display()))
    }
}

fn main() {
    let options = Options::read(std::env::args().skip(1)).unwrap_or_else(|error| {
        eprintln!("{error}; see the head of tests/bench/main.rs");
        std::process::exit(2)
    });
    for (name, bench) in BENCHES {
        if options.wants(name) {
            println!("{name}");
            bench(&options);
        }
    }
}
