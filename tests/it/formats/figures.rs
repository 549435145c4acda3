//! Is what is computed of another tool's run true of it: whose step a reply is, what was spent and when, whose a score is,
//! which reply is an answer? Asked by commands, as people ask.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::sample;
use crate::board::BINARY;

/// What the board says of this file, by this command.
fn said(path: &Path, command: &[&str]) -> Value {
    let output = Command::new(BINARY).args(command).arg("--json").arg(path).output().expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{command:?}: {output:?}"))
}

/// What these rules would have done.
fn asked(path: &Path, rules: &[&str]) -> Vec<Value> {
    let rules: Vec<&str> = rules.iter().flat_map(|rule| ["--rule", rule]).collect();
    let told = said(path, &[&["whatif"], &rules[..]].concat());
    told["runs"][0]["rules"].as_array().expect("rules").clone()
}

#[test]
fn a_limit_between_what_the_steps_cost_and_what_the_run_cost_cannot_be_told() {
    // $0.0095 by its steps; a reply that is not in the file cost the rest of $0.0125.
    let path = sample("tools/mini-swe-agent/submitted.traj.json");
    let rules =
        ["max_cost=0.002", "max_cost=0.006", "max_cost=0.009", "max_cost=0.011", "max_cost=0.0125", "max_cost=0.013"];
    let told = asked(&path, &rules);
    let words: Vec<_> = told.iter().map(|rule| rule["result"].as_str().unwrap()).collect();
    assert_eq!(words, ["earlier", "unknown", "unknown", "unknown", "unknown", "not_reached"]);
    assert_eq!(told[3]["needs"], "when the run spent the $0.003 that none of its own steps says is not recorded");
    let between = |at: usize| (told[at]["unknown_from"].as_u64(), told[at]["at_latest"].as_u64());
    assert_eq!((between(1), between(2), between(3)), ((Some(0), Some(1)), (Some(1), Some(2)), (Some(2), None)));
    // Tables have no number where a rule has none.
    let root = path.parent().expect("a directory");
    let output =
        Command::new(BINARY).args(["table", "steps", "--format", "jsonl"]).arg(root).output().expect("it runs");
    let steps = String::from_utf8(output.stdout).expect("text");
    let counted: Vec<_> = steps
        .lines()
        .map(|step| serde_json::from_str::<Value>(step).expect("JSON"))
        .filter(|step| step["transcript_id"] == "submitted.traj.json")
        .map(|step| (step["cost_usd"].as_f64(), step["cost_so_far"].as_f64(), step["tokens_so_far"].as_u64()))
        .collect();
    let expected =
        [(0.004, 940), (0.003, 2_170), (0.0025, 3_595)].map(|(cost, tokens)| (Some(cost), None, Some(tokens)));
    assert_eq!(counted, expected);
}
