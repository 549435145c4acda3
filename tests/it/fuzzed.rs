//! Tests that bugs found by fuzzing stay fixed: every kept input is checked again with its target's
//! property.

use std::fs;

use crate::disk::{corpus, walk};
use crate::properties;
use crate::soak::times;

/// Checks one input.
type Property = fn(&[u8]);

const TARGETS: &[(&str, Property)] = &[
    ("agent_file", properties::agent_file),
    ("chat_wire", properties::chat_wire),
    ("key_path", properties::key_path),
    ("lines", properties::lines),
    ("manifest", properties::manifest),
    ("model_text", properties::model_text),
    ("query", properties::query),
    ("redact", properties::redact),
    ("rules", properties::rules),
    ("state", properties::state),
    ("stores", properties::stores),
    ("tail", properties::tail),
    ("tools", properties::tools),
];

/// Maximum size of the inputs in the repository.
const MAX_KEPT_BYTES: u64 = 200 << 10;

#[test]
fn what_was_found_holds() {
    let mut kept = 0;
    for path in walk(&corpus().join("fuzz"))
        .into_iter()
        .filter(|path| path.is_file())
    {
        let target = path
            .parent()
            .and_then(|dir| dir.file_name())
            .expect("an input is in the directory of its target");
        let check = TARGETS
            .iter()
            .find(|(name, _)| target == *name)
            .map(|(_, check)| check);
        let check = check.unwrap_or_else(|| panic!("{} is for no target", path.display()));
        let bytes = fs::read(&path).expect("an input can be read");
        kept += bytes.len() as u64;
        println!("{}", path.display());
        check(&bytes);
    }
    assert!(kept > 0 && kept <= MAX_KEPT_BYTES, "{kept} bytes are kept");
}

#[test]
fn every_parser_has_its_target() {
    let fuzz = corpus().join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("the fuzz crate exists");
    let names: Vec<String> = fs::read_dir(fuzz.join("fuzz_targets"))
        .expect("the targets exist")
        .flatten()
        .map(|entry| {
            entry
                .path()
                .file_stem()
                .expect("a target has a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(names.len(), TARGETS.len());
    for name in names {
        assert!(
            TARGETS.iter().any(|(target, _)| *target == name),
            "{name} is not checked here"
        );
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} isn't a binary of the fuzz crate"
        );
    }
}

#[test]
fn real_runs_hold_in_every_target_for_files() {
    let files = walk(&corpus()).into_iter().filter(|path| path.is_file());
    // Runs have three files each, and a stride of five covers all three names.
    for path in files.step_by(times(5, 1)) {
        let bytes = fs::read(&path).expect("the corpus can be read");
        match path.file_name().and_then(|name| name.to_str()) {
            Some("manifest.json") => properties::manifest(&bytes),
            Some("steps.jsonl" | "events.jsonl") => {
                bytes.split(|byte| *byte == b'\n').for_each(|line| {
                    properties::lines(line);
                    properties::redact(line);
                })
            }
            _ => {}
        }
    }
}

#[test]
fn sessions_of_every_tool_hold_whole_and_spoilt() {
    let samples = corpus().join("../../sample_runs/tools");
    let mut read = 0;
    for path in walk(&samples).into_iter().filter(|path| path.is_file()) {
        let name = path.to_string_lossy().into_owned();
        let ends = [".jsonl", "no other", ".json", ".traj", ".traj.json"];
        let Some(at) = (0..ends.len()).rev().find(|at| name.ends_with(ends[*at])) else {
            continue;
        };
        let bytes = fs::read(&path).expect("a sample can be read");
        let of = |pieces: u8, content: &[u8]| {
            properties::tools(&[&[at as u8, pieces], content].concat())
        };
        (0..times(2, 4) as u8).for_each(|pieces| of(7 * pieces, &bytes));
        // A few damaged copies, reproducible, with different bytes in each sample.
        let bytes_that_spoil = b"\"{}[],:0n\\\0\n\xff".iter().enumerate();
        let every = times(6, 1);
        for (n, spoilt) in bytes_that_spoil.skip(read % every).step_by(every) {
            let mut copy = bytes.clone();
            let place = (n * 7_919 + bytes.len() / 3) % bytes.len().max(1);
            copy.iter_mut()
                .skip(place)
                .take(1)
                .for_each(|byte| *byte = *spoilt);
            of(5, &copy);
        }
        read += 1;
    }
    assert!(read > 20, "{read} samples");
}

#[test]
fn stores_of_every_tool_hold_whole_and_spoilt() {
    let samples = corpus().join("../../sample_runs/tools");
    let names = [
        "opencode.db",
        "kilo.db",
        "state.db",
        "crush.db",
        "sessions.db",
        ".aider.chat.history.md",
    ];
    let mut read = 0;
    for path in walk(&samples) {
        let name = path.to_string_lossy().into_owned();
        let Some(at) = names.iter().position(|store| name.ends_with(store)) else {
            continue;
        };
        let file = fs::read(&path).expect("a sample can be read");
        let log = fs::read(format!("{name}-wal")).unwrap_or_default();
        let kib = file.len().div_ceil(1024);
        let whole = [&[at as u8, kib as u8], &file[..], &log].concat();
        properties::stores(&whole);
        for n in 0..times(8, 400) {
            let mut copy = whole.clone();
            // Reproducible, with different places and bytes in each copy.
            for place in 0..=n % 5 {
                let place = 2 + (n * 7_919 + place * 104_729) % (copy.len() - 2);
                copy[place] = b"\0\xff\x01\"}:\n>#"[n % 9];
            }
            properties::stores(&copy);
        }
        read += 1;
    }
    assert_eq!(read, names.len());
}
