//! Measures `board table` on many runs of 50 steps, written to a directory: traces read per second,
//! memory, and the second call, when nothing has changed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Options;
use crate::board::BINARY;
use crate::memory;
use crate::report;
use crate::writer::Writer;

/// Steps per run.
const STEPS: usize = 50;
/// Number of distinct runs. The others are links to their files, so each file is read as often, and
/// the disk needn't hold all of them.
const ORIGINALS: u64 = 64;

pub(crate) fn run(options: &Options) {
    let count = options.number("--runs", 10_000);
    let scratch = options.scratch();
    let root = scratch.path().join("runs");
    let size = generate(&root, count);
    report::bytes(&format!("{count} runs of {STEPS} steps"), size, "");
    for (table, formats) in [("runs", &["jsonl"][..]), ("steps", &["jsonl", "csv"])] {
        for format in formats {
            let out = scratch.path().join(format!("table-{format}"));
            let args = ["table", table, "--format", format, "--out"];
            let first = timed(Command::new(BINARY).args(args).arg(&out).arg(&root));
            let what = format!("{table} as {format}");
            let speed = size as f64 / 1e6 / first.took.as_secs_f64();
            report::number(&format!("{what}: MB of trace a second"), speed, "200");
            report::duration(&format!("{what}: processor"), first.cpu, "");
            report::number(
                &format!("{what}: memory at most, MiB"),
                first.most_kib as f64 / 1024.0,
                "150",
            );
            report::bytes(&format!("{what}: files"), size_below(&out.join(table)), "");
            let again = timed(Command::new(BINARY).args(args).arg(&out).arg(&root));
            report::duration(&format!("{what}: again, nothing changed"), again.took, "");
        }
    }
}

/// The cost of running a program.
pub(crate) struct Took {
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
    pub(crate) most_kib: u64,
}

/// Runs a program to the end and expects success.
pub(crate) fn timed(command: &mut Command) -> Took {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().expect("board runs");
    let mut most_kib = 0;
    // A child's CPU time can be read until it's waited for, its peak memory only while it runs.
    while !report::has_ended(child.id()) {
        most_kib = memory::most_kib(child.id())
            .unwrap_or_default()
            .max(most_kib);
        std::thread::sleep(Duration::from_millis(2));
    }
    let (took, cpu) = (start.elapsed(), report::cpu(child.id()));
    assert!(child.wait().expect("board ends").success());
    Took {
        took,
        cpu,
        most_kib,
    }
}

/// Creates `count` runs, a hundred per directory. Returns the size of their files.
pub(crate) fn generate(root: &Path, count: u64) -> u64 {
    let mut size = 0;
    for n in 0..count {
        let dir = root
            .join(format!("{:04}", n / 100))
            .join(format!("run-{n:06}"));
        let original = n % ORIGINALS;
        let first = root
            .join(format!("{:04}", original / 100))
            .join(format!("run-{original:06}"));
        if n < ORIGINALS {
            let mut writer = Writer::start(&dir);
            for step in 0..STEPS {
                let lines = (0..20).map(|line| {
                    format!(
                        "part-{n}.txt:{line}: {} lines of step {step}\n",
                        line * step
                    )
                });
                writer.step(&lines.collect::<String>());
            }
            writer.finish(if n % 3 == 0 { "max_steps" } else { "final" });
        } else {
            fs::create_dir_all(&dir).expect("the run directory can be made");
            for file in ["manifest.json", "steps.jsonl", "events.jsonl"] {
                fs::hard_link(first.join(file), dir.join(file)).expect("a file can have two names");
            }
        }
        size += size_below(&dir);
    }
    size
}

/// Returns the size of all files below a directory.
pub(crate) fn size_below(dir: &Path) -> u64 {
    let size = |path: std::path::PathBuf| {
        fs::metadata(path).map_or(0, |file| if file.is_file() { file.len() } else { 0 })
    };
    crate::disk::walk(dir).into_iter().map(size).sum()
}
