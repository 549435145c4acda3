//! Tests that rows match their columns' types and agree with the pages.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};
use crate::analysis::facts::{Depth, record};
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::summary;
use crate::analysis::why::{Standing, ended_by, why};
use crate::model::RunKey;

/// The names of the documented table, in order. Others may follow.
const RUN_NAMES: &str = "transcript_id source_type source_id source_uri date task_set task_id task_repeat agent agent_args model \
    model_options score score_explanation success message_count total_time total_tokens error limit format format_version outcome \
    stop_kind stop_word stop_grade stop_limit stop_measured first_trouble_step steps tool_calls tool_errors tokens_in \
    tokens_cached tokens_out cost_usd started_at ended_at parent_id root path size_bytes issues";
const STEP_NAMES: &str = "transcript_id step at agent model tools tool_errors tokens_in tokens_out cost_usd duration_ms \
    finish_reason critic score changed_keys fingerprint";

fn holds(cell: &Cell<'_>) -> Holds {
    match cell {
        Cell::Text(_) => Holds::Text,
        Cell::Texts(_) => Holds::Texts,
        Cell::Whole(_) => Holds::Whole,
        Cell::Number(_) => Holds::Number,
        Cell::Time(_) => Holds::Time,
        Cell::Flag(_) => Holds::Flag,
    }
}

fn keeps_to<T>(fields: &[Field<T>], row: &T) {
    for field in fields {
        assert!(
            field
                .cell(row)
                .is_none_or(|cell| holds(&cell) == field.holds),
            "{field:?}"
        );
    }
}

#[test]
fn names_are_those_of_the_documents() {
    let runs: Vec<&str> = RUNS.iter().map(|field| field.name).collect();
    assert_eq!(
        runs.iter()
            .take(RUN_NAMES.split(' ').count())
            .copied()
            .collect::<Vec<_>>()
            .join(" "),
        RUN_NAMES
    );
    assert_eq!(runs.iter().collect::<HashSet<_>>().len(), runs.len());
    let steps: Vec<&str> = STEPS.iter().map(|field| field.name).collect();
    assert!(STEP_NAMES.split(' ').all(|name| steps.contains(&name)));
    assert_eq!(steps.iter().collect::<HashSet<_>>().len(), steps.len());
}

#[test]
fn a_cost_that_no_step_records_is_no_0() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060/q060_minimal");
    let files = Files::open(&path);
    let summary = summary(
        &RunKey::new("a"),
        String::new(),
        &files.index,
        ExternalFacts::default(),
    );
    let record = record(&files.index, &files, Depth::Heads);
    assert!(
        record.facts.iter().all(|facts| facts.cost().is_none()),
        "it may have called a model"
    );
    let place = RunSource {
        root: "r".to_owned(),
        size: 1,
        address: "/runs/a".to_owned(),
    };
    let run = Arc::new(Run::new(summary, files.index, record, place));
    let mut rows = 0;
    for step in steps(&run) {
        for name in [
            "cost_usd",
            "cost_estimated",
            "cost_so_far",
            "tokens",
            "tokens_so_far",
            "tokens_asked",
        ] {
            let field = STEPS.iter().find(|field| field.name == name).unwrap();
            assert_eq!(field.cell(&step), None, "{name}");
        }
        rows += 1;
    }
    assert!(rows > 0);
}

#[test]
fn steps_of_our_own_engine_that_asked_no_model_used_no_tokens() {
    let files =
        Files::open(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/final"));
    let summary = summary(
        &RunKey::new("a"),
        String::new(),
        &files.index,
        ExternalFacts::default(),
    );
    assert_eq!(summary.tokens, Some(0));
    let record = record(&files.index, &files, Depth::Heads);
    let run = Arc::new(Run::new(summary, files.index, record, RunSource::default()));
    for name in ["tokens", "tokens_so_far", "tokens_asked"] {
        let field = STEPS.iter().find(|field| field.name == name).unwrap();
        assert!(
            steps(&run).all(|step| field.cell(&step) == Some(Cell::Whole(0))),
            "{name}"
        );
    }
    let field = RUNS
        .iter()
        .find(|field| field.name == "tokens_of_steps")
        .unwrap();
    assert_eq!(field.cell(&*run), Some(Cell::Whole(0)));
}

#[test]
fn a_line_that_stands_there_twice_counts_once() {
    let mut found = 0;
    for path in runs_below("sample_runs")
        .into_iter()
        .chain(runs_below("sample_runs/qitos"))
    {
        let whole = Files::open(&path);
        let text = std::fs::read_to_string(path.join("steps.jsonl")).unwrap_or_default();
        if whole.index.segments().len() != 1 || text.lines().count() < 3 {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&path).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
            }
        }
        let doubled =
            |(n, line): (usize, &str)| format!("{line}\n").repeat(if n == 1 { 2 } else { 1 });
        std::fs::write(
            dir.path().join("steps.jsonl"),
            text.lines().enumerate().map(doubled).collect::<String>(),
        )
        .unwrap();
        let twice = Files::open(dir.path());
        assert_eq!(twice.index.tally().repeats.count, 1, "{}", path.display());
        let numbers = |files: &Files| {
            let summary = summary(
                &RunKey::new("a"),
                String::new(),
                &files.index,
                ExternalFacts::default(),
            );
            let record = record(&files.index, files, Depth::Heads);
            let counts = (
                summary.steps,
                summary.steps_now,
                summary.errors,
                summary.tokens,
            );
            let (lost, tools) = (record.lost.map(|lost| lost.count), record.facts.len());
            let place = RunSource {
                root: "r".to_owned(),
                size: 1,
                address: String::new(),
            };
            let run = Arc::new(Run::new(summary, files.index.clone(), record, place));
            let sum = |name: &str| {
                let field = STEPS.iter().find(|field| field.name == name).unwrap();
                steps(&run)
                    .map(|step| format!("{:?}", field.cell(&step)))
                    .collect::<Vec<_>>()
            };
            let of_run = |name: &str| {
                format!(
                    "{:?}",
                    RUNS.iter()
                        .find(|field| field.name == name)
                        .unwrap()
                        .cell(&*run)
                )
            };
            let columns = [
                "tokens",
                "steps_so_far",
                "tokens_so_far",
                "call",
                "duration_ms",
            ]
            .map(sum);
            (
                counts,
                lost,
                tools,
                columns,
                ["steps", "tool_calls", "tool_errors", "tokens_of_steps"].map(of_run),
            )
        };
        assert_eq!(numbers(&twice), numbers(&whole), "{}", path.display());
        found += 1;
    }
    assert!(found > 5, "{found}");
}

#[test]
fn rows_say_what_pages_say() {
    let (mut numbers, mut rows) = (0, 0);
    for path in runs_below("sample_runs")
        .into_iter()
        .chain(runs_below("sample_runs/qitos"))
    {
        let files = Files::open(&path);
        let summary = summary(
            &RunKey::new("a b"),
            String::new(),
            &files.index,
            ExternalFacts::default(),
        );
        // The rule that ended the run measured the same value as the table of rules on the page.
        let why = why(&summary, &files.index, &files);
        let fired = why
            .rules
            .iter()
            .find(|rule| rule.result == Standing::Fired || rule.is_inferred);
        let both = |reading: &crate::model::Reading| reading.measured().zip(reading.limit());
        let told = ended_by(&summary, &files.index).and_then(|reading| both(&reading));
        assert_eq!(
            told,
            fired.and_then(|rule| both(&rule.reading)),
            "{}",
            path.display()
        );
        numbers += usize::from(told.is_some());

        let record = record(&files.index, &files, Depth::Heads);
        let place = RunSource {
            root: "r".to_owned(),
            size: 1,
            address: "/runs/a%20b".to_owned(),
        };
        let run = Arc::new(Run::new(summary, files.index, record, place));
        keeps_to(RUNS, &*run);
        let field = |name: &str| STEPS.iter().find(|field| field.name == name).unwrap();
        let mut counted = Some(Cell::Whole(0));
        for (n, step) in steps(&run).enumerate() {
            keeps_to(STEPS, &step);
            let address = format!("/runs/a%20b?step={}", n + run.index.newest_start());
            assert_eq!(
                field("source_uri").cell(&step),
                Some(Cell::Text(address.into()))
            );
            counted = field("tokens_so_far").cell(&step).map(|cell| match cell {
                Cell::Whole(sum) => Cell::Whole(sum),
                other => panic!("{other:?}"),
            });
            rows += 1;
        }
        let whole = RUNS
            .iter()
            .find(|field| field.name == "tokens_of_steps")
            .unwrap()
            .cell(&*run);
        assert!(
            whole.is_none() || whole == counted,
            "{}: {whole:?} {counted:?}",
            path.display()
        );
    }
    assert!(numbers > 5 && rows > 300, "{numbers} {rows}");
}

#[test]
fn of_a_step_whose_line_cannot_be_read_nothing_is_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("manifest.json"),
        r#"{"run_id": "r", "status": "running"}"#,
    )
    .unwrap();
    std::fs::write(
        dir.path().join("steps.jsonl"),
        "{\"step_id\": 0, \"state_diff\": {}}\n{\"step_id\": 1, \"dec\n",
    )
    .unwrap();
    let files = Files::open(dir.path());
    let summary = summary(
        &RunKey::new("r"),
        String::new(),
        &files.index,
        ExternalFacts::default(),
    );
    let record = record(&files.index, &files, Depth::Heads);
    let run = Arc::new(Run::new(summary, files.index, record, RunSource::default()));
    let field = |name: &str| STEPS.iter().find(|field| field.name == name).unwrap();
    for name in ["tools", "tool_errors", "changed_keys"] {
        let told: Vec<bool> = steps(&run)
            .map(|step| field(name).cell(&step).is_some())
            .collect();
        assert_eq!(told, [true, false], "{name}");
    }
}
