//! Tests that the examples run, and that their traces record what happened. `cargo run --example`
//! builds the same files.

#[path = "../../examples/coding_agent.rs"]
mod coding_agent;
#[path = "../../examples/custom_rule.rs"]
mod custom_rule;
#[path = "../../examples/environment.rs"]
mod environment;
#[path = "../../examples/first_agent.rs"]
mod first_agent;
#[path = "../../examples/guard_and_continue.rs"]
mod guard_and_continue;
#[path = "../../examples/judge_and_retry.rs"]
mod judge_and_retry;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use trace_board::llm::Client;

use crate::architecture::project;
use crate::board::BINARY;
use crate::endpoint::{Endpoint, calls, says};
use crate::written::keep;

/// Returns the output of `board why` for the run, and keeps the run for the checks with QitOS's
/// tools.
fn why(runs: &Path, name: &str) -> Value {
    keep(&runs.join(name));
    let output = Command::new(BINARY)
        .arg("why")
        .arg(runs.join(name))
        .arg("--json")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[tokio::test]
async fn the_first_agent_asks_its_model_and_records_each_run() {
    let sum = json!({"numbers": [19, 23]});
    let endpoint = Endpoint::playing([
        calls("a", "add", &sum),
        says("It is 42."),
        calls("b", "add", &sum),
        says("Still 42."),
    ]);
    let runs = tempfile::tempdir().unwrap();
    for answer in ["It is 42.", "Still 42."] {
        let model = Client::openai(&endpoint.base_url, "tiny").unwrap();
        let result = first_agent::run(model, runs.path()).await.unwrap();
        assert_eq!(result.require_answer().unwrap(), answer);
        let dir = result.trace.unwrap();
        let name = dir.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("clerk-"), "{name}");
        assert_eq!(why(runs.path(), name)["stop_reason"], "final");
    }
    let told = &endpoint.seen()[1].body["messages"][3];
    assert_eq!(
        (&told["role"], &told["content"]),
        (&json!("tool"), &json!("42"))
    );
}

#[tokio::test]
async fn a_coding_agent_is_sent_back_until_the_test_passes() {
    let runs = tempfile::tempdir().unwrap();
    let result = coding_agent::run(runs.path()).await.unwrap();
    assert_eq!(
        result.require_answer().unwrap(),
        "`greet.sh` printed \"Helo\". It's fixed, and the test passes."
    );
    let repair = result.state.unwrap().data;
    assert_eq!((repair.test_runs, repair.exit_code), (1, Some(0)));
    let why = why(runs.path(), "coding_agent");
    assert_eq!(
        (&why["stop_reason"], &why["step"]),
        (&"final".into(), &4.into()),
        "{why}"
    );
}

#[tokio::test]
async fn what_the_judge_refuses_is_written_again() {
    let runs = tempfile::tempdir().unwrap();
    let result = judge_and_retry::run(runs.path()).await.unwrap();
    let scores: Vec<f64> = result
        .steps
        .iter()
        .flat_map(|step| &step.critics)
        .map(|critic| critic.score.as_ref().and_then(Value::as_f64).unwrap())
        .collect();
    assert_eq!(scores, [0.3, 0.6, 0.9]);
    // Three replies of the writer and three of the judge.
    let used = result.stats.tokens;
    assert_eq!(
        (used.input, used.output),
        (60 + 110 + 160 + 40 + 40 + 44, 9 + 12 + 17 + 11 + 8 + 4)
    );
    let why = why(runs.path(), "judge_and_retry");
    assert_eq!(why["stop_reason"], "final");
    // The judge's tokens are part of its step's, so nothing contradicts them.
    assert_eq!(why["contradictions"], json!([]), "{why}");
}

#[tokio::test]
async fn a_rule_in_code_ends_the_run_under_its_own_name() {
    let runs = tempfile::tempdir().unwrap();
    let result = custom_rule::run(runs.path()).await.unwrap();
    assert_eq!(
        (result.verdict.code.as_str(), result.verdict.step),
        ("reserve", Some(2))
    );
    let data = result.state.unwrap().data;
    assert_eq!((data.spent, data.bought.len()), (13, 3));
    let why = why(runs.path(), "custom_rule");
    // QitOS's stop reason for a user's own condition. The rule has its own field.
    assert_eq!(why["stop_reason"], "agent_condition", "{why}");
    let rule = &why["rules"][0];
    assert_eq!(
        (&rule["id"], &rule["measured"], &rule["limit"]),
        (&"reserve".into(), &7.into(), &8.into()),
        "{rule}"
    );
    assert!(
        why["headline"]
            .as_str()
            .unwrap()
            .contains("7 of 20 coins left, below the reserve of 8"),
        "{why}"
    );
}

#[tokio::test]
async fn the_environment_ends_the_episode() {
    let runs = tempfile::tempdir().unwrap();
    let result = environment::run(runs.path()).await.unwrap();
    assert_eq!(
        (result.verdict.code.as_str(), result.step_count),
        ("env_terminal", 3)
    );
    assert_eq!(
        why(runs.path(), "environment")["stop_reason"],
        "env_terminal"
    );
}

#[tokio::test]
async fn what_a_guard_refuses_is_not_bought_and_the_run_goes_on_in_its_own_trace() {
    let runs = tempfile::tempdir().unwrap();
    let (result, notes) = guard_and_continue::run(runs.path()).await.unwrap();
    assert_eq!(
        result.require_answer().unwrap(),
        "bought bread, cheese, olives"
    );
    assert_eq!(result.step_count, 5);
    let calls = notes.iter().filter(|note| note.ends_with(": buy")).count();
    let ends: Vec<_> = notes
        .iter()
        .map(String::as_str)
        .filter(|note| note.starts_with("ended"))
        .collect();
    assert_eq!(
        (calls, ends),
        (3, vec!["ended: budget_steps", "ended: final"]),
        "a refused call isn't executed: {notes:?}"
    );
    let why = why(runs.path(), "guard_and_continue");
    assert_eq!(
        (&why["stop_reason"], &why["step"]),
        (&"final".into(), &4.into()),
        "{why}"
    );
    let lines =
        std::fs::read_to_string(runs.path().join("guard_and_continue/steps.jsonl")).unwrap();
    assert!(
        lines
            .lines()
            .nth(1)
            .unwrap()
            .contains("the shopper is too young"),
        "{lines}"
    );
}

#[test]
fn the_first_agent_of_the_docs_is_compiled_and_has_as_many_lines_as_they_say() {
    let text = |path: &str| std::fs::read_to_string(project().join(path)).unwrap();
    let block = |text: &str, fence: &str| {
        let code = text.split_once(fence).unwrap().1;
        code.split_once("\n```").unwrap().0.to_owned()
    };
    // Its documentation test is compiled.
    let library = text("src/lib.rs").replace("//! ", "").replace("//!", "");
    let program = block(&library, "```no_run,standalone_crate\n");
    let guide = text("docs/agents.md");
    assert_eq!(block(&guide, "```rust\n"), program);
    let elsewhere = [
        "rig/src/main.rs",
        "clerk_pydantic_ai.py",
        "clerk_agents_sdk.py",
    ]
    .map(|path| text(&format!("examples/elsewhere/{path}")));
    let programs = [&program, &elsewhere[0], &elsewhere[1], &elsewhere[2]];
    let totals = programs.map(|program| {
        assert!(!program.contains("//"), "a comment");
        let lines = program.lines().filter(|line| !line.trim().is_empty());
        format!("**{}**", lines.count())
    });
    let totals = format!("| **total** | {} |", totals.join(" | "));
    assert!(guide.contains(&totals), "{totals}");
}
