//! Tests that `board list` groups runs as the page does.

use std::path::Path;

use serde_json::Value;

use crate::board::Board;
use crate::cli::board;

#[test]
fn runs_are_put_together_in_the_list_and_in_the_api() {
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs/tools/claude-code")
        .display()
        .to_string();
    let said = board(&["list", &sessions, "--group", "parent", "--sort", "run"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = said.stdout.lines().collect();
    // A header, a run, a group of two, a run, the total, and the source of the estimated costs.
    assert_eq!(lines.len(), 8, "{}", said.stdout);
    assert!(
        lines[2].contains("2 runs · 13.5k tokens"),
        "{}",
        said.stdout
    );
    let indent = |line: &str| line.len() - line.trim_start().len();
    assert_eq!(
        [3, 4, 5].map(|at| indent(lines.get(at).unwrap_or(&""))),
        [2, 4, 2],
        "{}",
        said.stdout
    );
    let said = board(&["list", &sessions, "--group", "project", "--json"]);
    let listed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(
        (&listed["groups_total"], &listed["runs"]),
        (&1.into(), &Value::Array(Vec::new()))
    );
    let group = &listed["groups"][0];
    assert_eq!(
        (&group["runs"], &group["failed"], &group["name"]),
        (&4.into(), &0.into(), &"/home/me/ledger".into())
    );
    assert_eq!(
        group["sums"]["tokens"],
        serde_json::json!({"sum": 47_278, "runs": 4, "estimated": false, "lower_bounds": 0})
    );
    assert_eq!(group["rows"].as_array().map(Vec::len), Some(4));
    let served = Board::serve(Path::new(&sessions));
    served.until_read();
    let answer = served.json("/api/runs?group=project&limit=10");
    assert_eq!(answer["groups"][0]["sums"], group["sums"]);
    assert_eq!(served.get("/api/runs?group=colour").status, 400);
    assert_eq!(served.get("/?group=colour").status, 400);
    assert_eq!(board(&["list", &sessions, "--group", "colour"]).code, 2);
}

#[test]
fn the_list_takes_every_order_that_its_help_does_not_exclude() {
    let help = board(&["list", "--help"]).stdout;
    let (_, fields) = help.split_once("Fields:\n").unwrap();
    let (fields, without) = fields
        .split_once("Fields that don't work with --sort:\n")
        .unwrap();
    let without: Vec<&str> = without.split_whitespace().collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs/final")
        .display()
        .to_string();
    let mut refused = 0;
    // Each line begins with a field; its description follows.
    for field in fields
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        let said = board(&["list", &root, "--sort", field]);
        assert_eq!(
            said.code == 0,
            !without.contains(&field),
            "{field}: {}",
            said.stderr
        );
        refused += usize::from(said.code != 0);
    }
    assert!(
        refused > 1 && refused == without.len(),
        "{refused} of {without:?}"
    );
}
