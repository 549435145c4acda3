//! Tests properties of every input: the index doesn't depend on how a run's files grow, and no
//! content makes the reader or the index fail.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index as Place;
use trace_board::model::Index;
use trace_board::trace::{RunDir, RunReader, SETTLE};

use crate::disk::corpus;
use crate::properties::{first_difference, follow, meaning, read_at_once};
use crate::soak::times;

/// Runs with an unusual feature each: repairs, torn ends, several runs in one file, retries, events
/// without steps.
const RUNS: &[&str] = &[
    "q060/q060_rerun_same_id",
    "q060/q060_recovered_errors",
    "q060/q060_lone_surrogate",
    "q060/q060_partial_line_events",
    "q060/q060_handoff",
    "q060/q060_line_separators",
    "q010/q010_critic_stop",
    "emulated/emulated_q060_garbage_lines",
    "emulated/emulated_q060_last_line_without_newline",
];

const GROWING: [&str; 2] = ["steps.jsonl", "events.jsonl"];

/// Writes, each with a file and the share of its remaining bytes.
fn writes() -> impl Strategy<Value = Vec<(usize, Place)>> {
    prop::collection::vec((0..GROWING.len(), any::<Place>()), 0..30)
}

/// Bytes that may be on a disk: JSON fragments in any order, and arbitrary bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\\",
            "\n",
            "\r\n",
            " ",
            "0",
            "-1",
            "1e999",
            "NaN",
            "-Infinity",
            "null",
            "true",
            "\"step_id\":",
            "\"decision\":",
            "\"mode\":",
            "\"act\"",
            "\"actions\":",
            "\"critic_outputs\":",
            "\"score\":",
            "\"state_diff\":",
            "\"action_results\":",
            "\"phase\":",
            "\"END\"",
            "\"payload\":",
            "\"ts\":",
            "\"2026-11-21T20:25:58.295052+00:00\"",
            "\"summary\":",
            "\"stop_reason\":",
            "\"final\"",
            "\\ud83d",
            "\u{2028}",
            "{}\n",
            "{\"step_id\": 99999999999999999999}\n",
            "\u{feff}",
            "\0",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times(32, 256) as u32))]

    #[test]
    fn any_chopping_of_appends_gives_the_same_index(
        run in prop::sample::select(RUNS),
        writes in writes(),
        manifest_at in any::<Place>(),
        limit in prop_oneof![Just(u64::MAX), 1_u64..100_000],
        settle in prop::sample::select(vec![Duration::ZERO, SETTLE]),
    ) {
        let source = corpus().join(run);
        let dir = tempfile::tempdir().unwrap();
        let whole = GROWING.map(|file| fs::read(source.join(file)).unwrap());
        let mut left = whole.each_ref().map(Vec::as_slice);
        let mut reader = RunReader::settling(RunDir::alone(dir.path()), settle);
        let mut index = Index::default();
        let manifest_at = manifest_at.index(writes.len() + 1);
        for (number, (file, place)) in writes.iter().enumerate() {
            if number == manifest_at {
                fs::copy(source.join("manifest.json"), dir.path().join("manifest.json")).unwrap();
            }
            let (piece, rest) = left[*file].split_at(place.index(left[*file].len() + 1));
            left[*file] = rest;
            let path = dir.path().join(GROWING[*file]);
            fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(piece).unwrap();
            follow(&mut reader, &mut index, limit);
        }
        for (file, rest) in GROWING.iter().zip(left) {
            fs::OpenOptions::new().create(true).append(true).open(dir.path().join(file)).unwrap().write_all(rest).unwrap();
        }
        if manifest_at == writes.len() {
            fs::copy(source.join("manifest.json"), dir.path().join("manifest.json")).unwrap();
        }
        follow(&mut reader, &mut index, limit);
        let at_once = read_at_once(dir.path(), settle);
        prop_assert_eq!(first_difference(&index, &at_once), None);
    }

    #[test]
    fn no_bytes_make_the_reader_fail(steps in bytes(), events in bytes(), manifest in bytes(), limit in 1_u64..1000) {
        let dir = tempfile::tempdir().unwrap();
        for (file, bytes) in [("steps.jsonl", steps), ("events.jsonl", events), ("manifest.json", manifest)] {
            fs::write(dir.path().join(file), bytes).unwrap();
        }
        let index = read_at_once(dir.path(), Duration::ZERO);
        let mut pieces = Index::default();
        follow(&mut RunReader::settling(RunDir::alone(dir.path()), Duration::ZERO), &mut pieces, limit);
        prop_assert_eq!(first_difference(&index, &pieces), None);
    }

    #[test]
    fn no_change_of_a_real_run_makes_the_reader_fail(
        run in prop::sample::select(RUNS),
        file in prop::sample::select(vec!["steps.jsonl", "events.jsonl", "manifest.json"]),
        changes in prop::collection::vec((any::<Place>(), any::<u8>()), 1..20),
    ) {
        let dir = tempfile::tempdir().unwrap();
        crate::disk::copy(&corpus().join(run), dir.path());
        let mut bytes = fs::read(dir.path().join(file)).unwrap();
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(dir.path().join(file), bytes).unwrap();
        let index = read_at_once(dir.path(), Duration::ZERO);
        prop_assert!(!meaning(&index).is_empty());
    }
}
