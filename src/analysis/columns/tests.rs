use std::collections::HashSet;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::*;
use crate::analysis::select::sample::run;
use crate::analysis::summary::Cost;
use crate::analysis::verdict::RunStatus;

#[test]
fn names_keys_and_positions_are_distinct() {
    let mut names = HashSet::new();
    for column in COLUMNS {
        for name in [Some(column.name), column.alias].into_iter().flatten() {
            assert!(names.insert(name), "{name} names two columns");
            assert_eq!(Column::find(&name.to_uppercase()), Some(column));
        }
    }
    let keys: Vec<_> = COLUMNS.iter().filter_map(|column| column.key).collect();
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    let heads: HashSet<_> = COLUMNS.iter().map(Column::csv_head).collect();
    assert_eq!(
        heads.len(),
        COLUMNS.len(),
        "two CSV columns have the same name"
    );
    assert_eq!(
        (named("writer").csv_head(), named("tool").csv_head()),
        ("tool", "tools")
    );
    let places: Vec<_> = COLUMNS
        .iter()
        .filter_map(|column| Some(column.cell?.place))
        .collect();
    assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
}

#[test]
fn the_table_follows_the_column_positions() {
    let mut run = run("a", RunStatus::Answered, None);
    (run.tokens, run.model, run.last_score) = (Some(1), Some("m".into()), Some(0.5));
    let names: Vec<_> = shown(&[&Arc::new(run)], false)
        .iter()
        .map(|(column, _)| column.name)
        .collect();
    assert_eq!(
        names,
        ["run", "verdict", "steps", "duration", "tokens", "updated"]
    );
}

#[test]
fn a_text_that_few_runs_have_takes_no_room() {
    let has_target = |filled: usize, of_groups: bool| {
        let runs: Vec<_> = (0..40)
            .map(|n| {
                let mut run = run(&format!("run {n}"), RunStatus::Answered, None);
                run.target = (n < filled).then(|| "4".into());
                Arc::new(run)
            })
            .collect();
        let runs: Vec<_> = runs.iter().collect();
        let columns = shown(&runs, of_groups);
        columns.iter().any(|(column, _)| column.name == "target")
    };
    assert_eq!(
        [1, 2].map(|filled| has_target(filled, false)),
        [false, true]
    );
    assert_eq!(
        [9, 10].map(|filled| has_target(filled, true)),
        [false, true]
    );
}

#[test]
fn an_optional_column_is_shown_if_a_run_fills_it() {
    let mut paid = run("a", RunStatus::Answered, None);
    paid.cost_usd = Some(0.0042);
    let (paid, free) = (
        Arc::new(paid),
        Arc::new(run("b", RunStatus::Answered, None)),
    );
    let names: Vec<_> = shown(&[&free, &paid], false)
        .iter()
        .map(|(column, _)| column.name)
        .collect();
    // No run has tokens, so the table has no column for them.
    assert_eq!(names[2..], ["steps", "duration", "cost", "updated"]);
    let cost = Column::find("cost").unwrap();
    assert_eq!(
        cost.value(&paid)
            .and_then(|value| value.words(0, &TimeZone::UTC))
            .as_deref(),
        Some("$0.0042")
    );
    assert_eq!(
        (cost.value(&free), cost.number(&paid)),
        (None, Some(0.0042))
    );
    let guessed = Value::Usd(Cost::Estimated(0.12));
    assert_eq!(
        guessed.words(0, &TimeZone::UTC).as_deref(),
        Some("≈$0.1200")
    );
}

#[test]
fn the_docs_name_every_column() {
    let docs = include_str!("../../../docs/using.md");
    let (_, search) = docs.split_once("## Search").unwrap();
    let (search, _) = search.split_once("\n## ").unwrap();
    let named: HashSet<&str> = search
        .split('`')
        .skip(1)
        .step_by(2)
        .flat_map(str::split_whitespace)
        .collect();
    for column in COLUMNS {
        assert!(
            named.contains(column.name),
            "docs/using.md lacks {}",
            column.name
        );
    }
    let (_, sorts) = search
        .split_once("You can sort by all fields except `")
        .unwrap();
    let (unsorted, _) = sorts.split_once('`').unwrap();
    let told: HashSet<&str> = unsorted.split_whitespace().collect();
    let refused: HashSet<&str> = COLUMNS
        .iter()
        .filter(|column| !column.is_sortable())
        .map(|column| column.name)
        .collect();
    assert_eq!(told, refused);
}
