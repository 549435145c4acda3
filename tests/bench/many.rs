//! What do many runs cost? The time until all are known, the list, its page, and memory.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::Options;
use crate::board::Board;
use crate::disk::corpus;
use crate::report::{self, Samples};
use crate::wait::until;

const TEMPLATE: &str = "q060_redaction";

pub(crate) fn run(options: &Options) {
    let count = options.number("--runs", 2000);
    let scratch = options.scratch();
    let size = generate(scratch.path(), count);
    report::bytes(&format!("{count} runs on disk"), size, "");

    let start = Instant::now();
    let board = Board::serve(scratch.path());
    until("all runs are known", || {
        let health = board.json("/healthz");
        (health["runs"] == count && health["indexing"] == 0).then_some(())
    });
    report::duration("start to all runs known", start.elapsed(), "3000 ms");

    for (what, path, goal) in [
        ("list of 100 runs", "/api/runs?limit=100", "p50 10 ms"),
        ("list with a query", "/api/runs?limit=100&q=stop:final+steps%3E1", ""),
        ("run table", "/", "p50 20 ms"),
    ] {
        let mut took = Samples::default();
        let mut size = 0;
        for _ in 0..100 {
            let start = Instant::now();
            size = board.get(path).body.len();
            took.push(start.elapsed());
        }
        took.print(&format!("{what} ({} KiB)", size / 1024), goal);
    }
    report::memory(board.pid(), "80 MiB");
}

/// Writes `count` copies of a recorded run under ids of their own; the answer is their size in bytes.
fn generate(root: &Path, count: u64) -> u64 {
    let template = corpus().join("q060").join(TEMPLATE);
    let files = ["manifest.json", "steps.jsonl", "events.jsonl"];
    let texts = files.map(|file| (file, fs::read_to_string(template.join(file)).expect("the template is readable")));
    let mut size = 0;
    for n in 0..count {
        let id = format!("run_{n:06}");
        let dir = root.join(&id);
        fs::create_dir(&dir).expect("the run directory can be made");
        for (file, text) in &texts {
            let text = text.replace(TEMPLATE, &id);
            size += text.len() as u64;
            fs::write(dir.join(file), text).expect("the run can be written");
        }
    }
    size
}
