//! Do rows hold what their columns promise, and say what pages say?

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};
use crate::analysis::facts::{Depth, record};
use crate::analysis::life::Outside;
use crate::analysis::summary::summary;
use crate::analysis::why::{Standing, ended_by, why};
use crate::model::RunKey;

/// Every name of the documented table, in its order; others may follow.
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
        assert!(field.cell(row).is_none_or(|cell| holds(&cell) == field.holds), "{field:?}");
    }
}

#[test]
fn names_are_those_of_the_documents() {
    let runs: Vec<&str> = RUNS.iter().map(|field| field.name).collect();
    assert_eq!(runs.iter().take(RUN_NAMES.split(' ').count()).copied().collect::<Vec<_>>().join(" "), RUN_NAMES);
    assert_eq!(runs.iter().collect::<HashSet<_>>().len(), runs.len());
    let steps: Vec<&str> = STEPS.iter().map(|field| field.name).collect();
    assert!(STEP_NAMES.split(' ').all(|name| steps.contains(&name)));
    assert_eq!(steps.iter().collect::<HashSet<_>>().len(), steps.len());
}

#[test]
fn rows_say_what_pages_say() {
    let (mut numbers, mut rows) = (0, 0);
    for path in runs_below("sample_runs").into_iter().chain(runs_below("sample_runs/qitos")) {
        let files = Files::open(&path);
        let summary = summary(&RunKey::new("a b"), String::new(), &files.index, Outside::default());
        // The rule that ended it measured what the page's table of rules says.
        let why = why(&summary, &files.index, &files);
        let fired = why.rules.iter().find(|rule| rule.result == Standing::Fired || rule.is_inferred);
        let both = |reading: &crate::model::Reading| reading.measured().zip(reading.limit());
        let told = ended_by(&summary, &files.index).and_then(|reading| both(&reading));
        assert_eq!(told, fired.and_then(|rule| both(&rule.reading)), "{}", path.display());
        numbers += usize::from(told.is_some());

        let record = record(&files.index, &files, Depth::Heads);
        let place = Place { root: "r".to_owned(), size: 1, address: "/runs/a%20b".to_owned() };
        let run = Arc::new(Run::new(summary, files.index, record, place));
        keeps_to(RUNS, &*run);
        let field = |name: &str| STEPS.iter().find(|field| field.name == name).unwrap();
        let mut counted = Some(Cell::Whole(0));
        for (n, step) in steps(&run).enumerate() {
            keeps_to(STEPS, &step);
            let address = format!("/runs/a%20b?step={}", n + run.index.newest_start());
            assert_eq!(field("source_uri").cell(&step), Some(Cell::Text(address.into())));
            counted = field("tokens_so_far").cell(&step).map(|cell| match cell {
                Cell::Whole(sum) => Cell::Whole(sum),
                other => panic!("{other:?}"),
            });
            rows += 1;
        }
        let whole = RUNS.iter().find(|field| field.name == "tokens_of_steps").unwrap().cell(&*run);
        assert!(whole.is_none() || whole == counted, "{}: {whole:?} {counted:?}", path.display());
    }
    assert!(numbers > 5 && rows > 300, "{numbers} {rows}");
}
