//! Measures whether work grows with the run: the cost of one more step at the end of a short and of
//! a long run, and the cost of serving a large run until it's indexed, compared with reading it
//! once.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::summary::summary;
use trace_board::model::{Index, RunKey};
use trace_board::trace::{RunDir, RunReader};

use crate::Options;
use crate::board::{BINARY, Board};
use crate::report::{self, Samples};
use crate::sse::Stream;
use crate::wait::until;
use crate::writer::Writer;

/// Lengths of the runs that steps are appended to.
const LENGTHS: [u64; 3] = [100, 10_000, 100_000];
/// Maximum number of bytes read per file and refresh, as in board.
const LIMIT: u64 = 4 << 20;

pub(crate) fn run(options: &Options) {
    let appends = options.number("--appends", 300);
    for steps in LENGTHS {
        let scratch = options.scratch();
        let mut writer = Writer::start(&scratch.path().join("grows"));
        (0..steps).for_each(|n| writer.step(&format!("{n} lines")));
        for is_held in [false, true] {
            in_the_index(&mut writer, steps, appends, is_held);
        }
        in_the_board(scratch.path(), &mut writer, steps, appends);
    }
    for output in [200, crate::huge::RESULT_BYTES] {
        indexing(options, output);
    }
}

/// Measures reading, indexing and summarizing appended steps. With `is_held`, the previous index
/// stays in use, as if a page were open.
fn in_the_index(writer: &mut Writer, steps: u64, appends: u64, is_held: bool) {
    let mut reader = RunReader::new(RunDir::alone(&writer.dir));
    let mut index = Arc::new(Index::default());
    // The run is still in progress.
    let now = jiff::Timestamp::now().as_microsecond();
    let outside = ExternalFacts {
        now,
        ..ExternalFacts::default()
    };
    loop {
        let delta = reader.refresh(LIMIT);
        let more = delta.more;
        Arc::make_mut(&mut index).apply(delta);
        if !more {
            break;
        }
    }
    let (mut reading, mut taking, mut summing, mut all) = Default::default();
    let note = |samples: &mut Samples, start: Instant| samples.push(start.elapsed());
    for n in 0..appends {
        writer.step(&format!("{n} lines more"));
        let page = is_held.then(|| Arc::clone(&index));
        let start = Instant::now();
        let delta = reader.refresh(LIMIT);
        note(&mut reading, start);
        let taken = Instant::now();
        Arc::make_mut(&mut index).apply(delta);
        note(&mut taking, taken);
        let summed = Instant::now();
        black_box(summary(
            &RunKey::new("grows"),
            String::new(),
            &index,
            outside,
        ));
        note(&mut summing, summed);
        note(&mut all, start);
        drop(page);
    }
    let held = if is_held { ", held by a page" } else { "" };
    for (what, samples) in [
        ("read", reading),
        ("take in", taking),
        ("sum up", summing),
        ("all", all),
    ] {
        samples.print(&format!("append at {steps}: {what}{held}"), "");
    }
}

/// Measures the CPU time that a board uses per append while no page reads it and one stream gets
/// the events.
fn in_the_board(root: &Path, writer: &mut Writer, steps: u64, appends: u64) {
    let board = Board::serve(root);
    board.until_read();
    let stream = Stream::open(board.address, "/runs/grows/events");
    stream.next();
    let before = report::cpu(board.pid());
    for n in 0..appends {
        writer.step(&format!("{n} lines more"));
        stream.next();
    }
    let used = report::cpu(board.pid()).saturating_sub(before);
    report::per_step(
        &format!("append at {steps}: CPU of the board"),
        used,
        appends,
        "",
    );
}

/// Measures serving a large run until it's fully indexed, compared with explaining its end once.
fn indexing(options: &Options, output: usize) {
    let scratch = options.scratch();
    let dir = scratch.path().join("huge");
    crate::huge::generate(&dir, options, output);
    let mut once = Command::new(BINARY)
        .arg("why")
        .arg(&dir)
        .stdout(Stdio::null())
        .spawn()
        .expect("board runs");
    // A child's CPU time can be read until it's waited for.
    until("it is explained", || {
        report::has_ended(once.id()).then_some(())
    });
    report::duration(
        &format!("CPU to explain steps of {output} bytes once"),
        report::cpu(once.id()),
        "",
    );
    once.wait().expect("board ends");
    let board = Board::serve(scratch.path());
    until("the whole run is known", || {
        (board.json("/healthz")["indexing"] == 0).then_some(())
    });
    let used = report::cpu(board.pid());
    report::duration(
        "CPU to serve them until they are known",
        used,
        "a tenth more at most",
    );
}
