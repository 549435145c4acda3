//! Measures trace files of agent tools: many sessions until all are read, CPU time compared with
//! `jq`, one long session, and a log in an archive.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rawzip::{CompressionMethod, ZipArchiveWriter};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::Options;
use crate::board::Board;
use crate::chance::Chance;
use crate::disk::walk;
use crate::huge::looks;
use crate::report::{self, Samples};
use crate::wait::until;

/// Size of the long session.
const LONG_BYTES: u64 = 100_000_000;
/// Size of the archive on disk.
const ARCHIVE_BYTES: u64 = 400_000_000;
/// Matches the ids that link a session's records. A session repeated under the same ids is a
/// duplicate and counts only once.
const IDS: &str = r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:msg|toolu|call|req|fc|rs)_[0-9A-Za-z]+)\b";

pub(crate) fn run(options: &Options) {
    let templates = templates();
    many(options, &templates);
    long(options, &templates);
    archive(options);
}

/// Returns the sessions to copy: those below `BOARD_SESSIONS`, or the samples of Claude Code and
/// Codex.
fn templates() -> Vec<String> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
    let given = std::env::var_os("BOARD_SESSIONS").map(PathBuf::from);
    let dirs = given.map_or_else(
        || vec![samples.join("claude-code"), samples.join("codex")],
        |dir| vec![dir],
    );
    let files = dirs
        .iter()
        .flat_map(|dir| walk(dir))
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files
        .filter_map(|path| fs::read_to_string(path).ok())
        .filter(|text| text.contains("\"sessionId\"") || text.contains("session_meta"))
        .collect()
}

/// Writes a session of about `size` bytes by repeating `template`, each time with new ids except
/// for the session's. Returns the number of bytes.
fn write(path: &Path, template: &str, number: u64, size: u64) -> u64 {
    let ids = Regex::new(IDS).expect("the ids are a regex");
    let own = Regex::new(r#""(?:sessionId|session_id|id)":"([0-9a-f-]{36})""#)
        .expect("the session's id is a regex");
    let session = own
        .captures(template)
        .map(|found| found[1].to_owned())
        .unwrap_or_default();
    let mut out = BufWriter::new(File::create(path).expect("the session can be made"));
    let mut written = 0;
    for round in 0.. {
        let text = ids.replace_all(template, |found: &Captures<'_>| {
            let (id, mark) = (&found[0], format!("{:06x}", round & 0xff_ffff));
            match id {
                // The file stays one session, with an id unlike that of other copies.
                id if id == session => format!("{number:08x}{}", &id[8..]),
                id if id.contains('_') => format!("{id}{mark}"),
                id => format!("{}{mark}", &id[..id.len() - mark.len()]),
            }
        });
        // A session starts only once, so its first record isn't repeated.
        let lines = text
            .lines()
            .filter(|line| round == 0 || !line.contains("\"session_meta\""));
        for line in lines {
            writeln!(out, "{line}").expect("the session can be written");
            written += line.len() as u64 + 1;
        }
        if written >= size {
            break;
        }
    }
    out.flush().expect("the session can be written");
    written
}

/// Measures many sessions: the time until all are read, the list, memory, and CPU time compared
/// with `jq`.
fn many(options: &Options, templates: &[String]) {
    let (count, megabytes) = (
        options.number("--runs", 2000),
        options.number("--megabytes", 1000),
    );
    let scratch = options.scratch();
    let mut size = 0;
    for (number, template) in (0..count).zip(templates.iter().cycle()) {
        // As many sessions per directory as a project would have.
        let dir = scratch
            .path()
            .join(format!("-home-me-project-{}", number % 40));
        fs::create_dir_all(&dir).expect("the directory can be made");
        size += write(
            &dir.join(format!("{number:08x}-0000-4000-8000-000000000000.jsonl")),
            template,
            number,
            megabytes * 1_000_000 / count,
        );
    }
    report::bytes(
        &format!("{count} sessions of {} recorded ones", templates.len()),
        size,
        "",
    );
    let start = Instant::now();
    let board = Board::serve(scratch.path());
    assert_eq!(board.get("/").status, 200);
    report::duration("start to the first page", start.elapsed(), "300 ms");
    until("all sessions are known", || {
        let health = board.json("/healthz");
        (health["runs"] == count && health["indexing"] == 0).then_some(())
    });
    report::duration(
        "start to all sessions known",
        start.elapsed(),
        "5000 ms for 1 GB",
    );
    let used = report::cpu(board.pid());
    report::number(
        "megabytes for each second of processor",
        size as f64 / 1e6 / used.as_secs_f64(),
        "",
    );
    for (what, path, goal) in [
        ("list of 100 runs", "/api/runs?limit=100", "10 ms"),
        ("run table", "/", ""),
    ] {
        let mut took = Samples::default();
        for _ in 0..50 {
            let start = Instant::now();
            assert_eq!(board.get(path).status, 200);
            took.push(start.elapsed());
        }
        took.print(what, goal);
    }
    report::memory(board.pid(), "150 MiB");
    drop(board);
    jq(scratch.path(), size);
}

/// Measures the CPU time of `jq -c .type` for the same files.
fn jq(dir: &Path, size: u64) {
    let script =
        "TIMEFORMAT='%U %S'; time find \"$1\" -name '*.jsonl' -exec jq -c .type {} + > /dev/null";
    let output = Command::new("bash")
        .args(["-c", script, "bash"])
        .arg(dir)
        .output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .unwrap_or_default();
    let seconds: f64 = text
        .lines()
        .last()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|part| part.parse::<f64>().ok())
        .sum();
    if seconds > 0.0 {
        report::number("jq -c .type: the same", size as f64 / 1e6 / seconds, "");
    } else {
        println!("  jq: not measured: {}", text.trim());
    }
}

/// Measures one long session: its first page, then any step.
fn long(options: &Options, templates: &[String]) {
    let scratch = options.scratch();
    let template = templates
        .iter()
        .max_by_key(|text| text.len())
        .expect("samples exist");
    let size = write(&scratch.path().join("long.jsonl"), template, 1, LONG_BYTES);
    report::bytes("one session", size, "");
    let start = Instant::now();
    let board = Board::serve(scratch.path());
    until("the session has a page", || {
        (board.get("/runs/long.jsonl").status == 200).then_some(())
    });
    report::duration("start to its first page", start.elapsed(), "500 ms");
    let steps = until("the whole session is known", || {
        (board.json("/healthz")["indexing"] == 0)
            .then(|| board.json("/api/runs/long.jsonl")["steps"].as_u64())
            .flatten()
    });
    report::duration(
        &format!("start to all its {steps} steps known"),
        start.elapsed(),
        "",
    );
    looks(&board, "long.jsonl", steps);
    report::memory(board.pid(), "");
}

/// Measures an Inspect log in an archive: the time until its first run is listed and until all are
/// read.
fn archive(options: &Options) {
    let scratch = options.scratch();
    let path = scratch.path().join("log.eval");
    let samples = write_archive(&path);
    report::bytes(
        &format!("an archive of {samples} samples"),
        path.metadata().map_or(0, |meta| meta.len()),
        "",
    );
    let start = Instant::now();
    let board = Board::serve(scratch.path());
    until("the first sample is listed", || {
        (board.json("/api/runs?limit=1")["total"].as_u64() > Some(0)).then_some(())
    });
    report::duration("start to the first row", start.elapsed(), "1000 ms");
    until("all samples are known", || {
        let health = board.json("/healthz");
        (health["runs"] == samples && health["indexing"] == 0).then_some(())
    });
    report::duration("start to all samples known", start.elapsed(), "");
    let run = &board.json("/api/runs?limit=1")["runs"][0];
    let key = run["key"]
        .as_str()
        .expect("a run has a key")
        .replace('/', "%2F")
        .replace(' ', "%20");
    looks(&board, &key, run["steps"].as_u64().unwrap_or(1));
    report::memory(board.pid(), "200 MiB");
}

/// Writes the sample log as an archive, adding 20 KB to each tool result. Returns the number of
/// samples.
fn write_archive(path: &Path) -> u64 {
    let sample =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/inspect/ledger.json");
    let text = fs::read_to_string(sample).expect("the sample is readable");
    let mut log: Value = serde_json::from_str(&text).expect("the sample is JSON");
    let template = log["samples"][1].take();
    log.as_object_mut()
        .expect("a log is an object")
        .remove("samples");
    let mut chance = Chance::new(7);
    let mut zip = ZipArchiveWriter::new(BufWriter::new(
        File::create(path).expect("the archive can be made"),
    ));
    let mut number = 0;
    loop {
        let mut sample = template.clone();
        number += 1;
        sample["id"] = json!(format!("sample-{number}"));
        sample["uuid"] = json!(format!("uuid-{number}"));
        for event in sample["events"]
            .as_array_mut()
            .expect("a sample has events")
        {
            if event["event"] == "tool" {
                let mut noise = String::new();
                (0..1250).for_each(|_| {
                    write!(noise, "{:016x}", chance.below(u64::MAX))
                        .expect("a text accepts all bytes")
                });
                event["result"] = json!(noise);
            }
        }
        let name = format!("samples/sample-{number}_epoch_{}.json", sample["epoch"]);
        member(&mut zip, &name, &sample);
        if zip.stream_offset() >= ARCHIVE_BYTES {
            break;
        }
    }
    member(&mut zip, "header.json", &log);
    zip.finish()
        .and_then(|mut out| Ok(out.flush()?))
        .expect("the archive can be ended");
    number
}

fn member(zip: &mut ZipArchiveWriter<BufWriter<File>>, name: &str, value: &Value) {
    let method = CompressionMethod::DEFLATE;
    let (mut entry, config) = zip
        .new_file(name)
        .compression_method(method)
        .start()
        .expect("a member can be begun");
    let encoder = flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast());
    let mut writer = config.wrap(encoder);
    serde_json::to_writer(&mut writer, value).expect("a member can be written");
    let (encoder, output) = writer.finish().expect("a member can be ended");
    encoder.finish().expect("a member can be ended");
    entry.finish(output).expect("a member can be ended");
}
