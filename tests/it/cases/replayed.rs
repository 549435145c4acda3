//! Recorded verdicts of board against a replay of the recorded rules.

use serde_json::{Value, json};

use super::ends::{Copy, sample};

/// Edits the verdict in the manifest and in the END event.
fn edit_stop(run: &Copy, edit: impl Fn(&mut Value)) {
    run.edit_manifest(|manifest| edit(&mut manifest["stop"]));
    run.edit_records("events.jsonl", |event| {
        if event["phase"] == "END" {
            edit(&mut event["payload"]["stop"]);
        }
    });
}

/// Asserts that one contradiction has all `parts`, that the end isn't called recorded, and how the rule's row stands.
#[track_caller]
fn assert_denied(run: &Copy, rule: &str, parts: &[&str]) {
    let (_, certainty, said) = run.why();
    assert!(
        said.lines()
            .any(|line| parts.iter().all(|part| line.contains(part))),
        "{parts:?} is missing in:\n{said}"
    );
    assert_ne!(certainty, "recorded");
    assert_ne!(row(run, rule)["result"], "fired");
}

/// The row of a rule.
fn row(run: &Copy, id: &str) -> Value {
    let why = run.json(&["why"]);
    let mut rows = why["rules"].as_array().unwrap().iter();
    rows.find(|row| row["id"] == id)
        .unwrap_or_else(|| panic!("no row of {id} in {why}"))
        .clone()
}

#[test]
fn a_rule_that_ended_the_run_stands_among_the_recorded_rules() {
    let run = sample("stagnation");
    edit_stop(&run, |stop| stop["criterion"] = "stop[7]".into());
    assert_denied(
        &run,
        "stop[7]",
        &[
            "names the rule stop[7]",
            "the recorded rules don't include it",
        ],
    );
    let run = sample("budget_tokens");
    run.edit_manifest(|manifest| {
        drop(
            manifest["stop_rules"]["budget"]
                .as_object_mut()
                .unwrap()
                .remove("tokens"),
        )
    });
    assert_denied(
        &run,
        "budget.tokens",
        &["The verdict names the rule budget.tokens, but the recorded rules don't include it"],
    );
}

#[test]
fn a_rule_ends_a_run_under_its_own_code() {
    let run = sample("stagnation");
    run.set(
        "/stop_rules/policies/0/rule",
        json!({"type": "loop_detection", "window": 9}),
    );
    assert_denied(
        &run,
        "stop[0]",
        &[
            "stop[0] as stagnation",
            "the recorded rule is loop_detection",
        ],
    );
}

#[test]
fn the_limit_of_a_verdict_is_that_of_its_rule() {
    let run = sample("stagnation");
    run.set("/stop_rules/policies/0/rule/steps", 9);
    let parts = [
        "disagree on the limit",
        "4 (manifest.json /stop/limit",
        "9 (manifest.json /stop_rules/policies/0)",
    ];
    assert_denied(&run, "stop[0]", &parts);
    assert!(
        run.why().0.contains("disagree on the limit"),
        "{}",
        run.why().0
    );
    let run = sample("max_rounds");
    run.set("/stop_rules/policies/0/rule/rounds", 30);
    assert_denied(
        &run,
        "stop[0]",
        &[
            "disagree on the limit",
            "30 (manifest.json /stop_rules/policies/0)",
        ],
    );
}

#[test]
fn a_rule_that_the_recorded_steps_do_not_make_true_ended_nothing() {
    let run = sample("stagnation");
    let mut next = 0;
    run.edit_records("steps.jsonl", |step| {
        next += 1;
        step["facts"]["signature"] = next.into();
    });
    assert_denied(
        &run,
        "stop[0]",
        &[
            "stop[0] ended the run",
            "by the recorded steps it wasn't true",
        ],
    );
    for (name, fact, rule) in [
        ("agent_condition", "agent_stop", "agent"),
        ("env_terminal", "env_terminal", "env"),
    ] {
        let run = sample(name);
        run.edit_records("steps.jsonl", |step| {
            drop(step["facts"].as_object_mut().unwrap().remove(fact))
        });
        assert_denied(&run, rule, &["by the recorded steps", "wasn't true"]);
    }
    let run = sample("critic_stop");
    run.edit_records("steps.jsonl", |step| {
        for output in step["critic_outputs"].as_array_mut().unwrap() {
            output["action"] = "continue".into();
        }
    });
    assert_denied(&run, "critics", &["critic[0] ended the run", "wasn't true"]);
    let run = sample("success");
    run.replace_all("VERIFIED", "CHECKED");
    run.set("/stop_rules/completion/0/rule/keyword", "VERIFIED");
    assert_denied(
        &run,
        "accept[0]",
        &["accept[0] ended the run", "wasn't true"],
    );
}

#[test]
fn what_a_verdict_measured_is_what_the_recorded_steps_come_to() {
    let run = sample("stagnation");
    edit_stop(&run, |stop| stop["measured"] = 7.into());
    assert_denied(
        &run,
        "stop[0]",
        &["doesn't match the recorded steps", "measured is 7, not 4"],
    );
    let run = sample("stagnation");
    edit_stop(&run, |stop| {
        stop["detail"] = "no state change for 8 steps (limit 4)".into()
    });
    assert_denied(&run, "stop[0]", &["detail is", "8 steps (limit 4)"]);
    let run = sample("stagnation");
    edit_stop(&run, |stop| stop["limit_from"] = "task".into());
    assert_denied(&run, "stop[0]", &["limit_from is task, not engine"]);
}

/// Before the rule's code was `final`, it was the rule's name.
#[test]
fn the_code_of_a_final_result_in_an_older_trace_is_no_contradiction() {
    let run = sample("success");
    run.set(
        "/stop_rules/completion/0/rule",
        json!({"type": "final_result"}),
    );
    edit_stop(&run, |stop| {
        stop["code"] = "final_result".into();
        stop["detail"] = "there is a final result".into();
    });
    let (_, certainty, said) = run.why();
    assert_eq!(certainty, "recorded", "{said}");
    assert_eq!(row(&run, "accept[0]")["result"], "fired");
}

#[test]
fn a_rule_that_is_asked_earlier_and_was_true_too_ended_the_run() {
    let run = sample("budget_tokens");
    run.set("/stop_rules/budget/steps/limit", 5);
    run.set("/summary/task_meta/budget/max_steps", 5);
    run.replace_all("\"max_steps\":20", "\"max_steps\":5");
    assert_denied(
        &run,
        "budget.tokens",
        &[
            "budget.tokens ended the run",
            "budget.steps was also true",
            "checked first",
        ],
    );
    assert_eq!(row(&run, "budget.steps")["also"], true);
}

#[test]
fn a_run_does_not_go_on_past_a_rule_that_was_true() {
    let run = sample("stagnation");
    run.set("/stop_rules/budget/steps/limit", 3);
    assert_denied(
        &run,
        "stop[0]",
        &[
            "By the recorded rules, budget.steps would have ended the run after step 2",
            "but the run continued",
        ],
    );
}

#[test]
fn the_rules_that_are_said_to_be_true_too_are_those_that_were() {
    let run = sample("budget_tokens");
    edit_stop(&run, |stop| stop["also"] = json!(["budget.steps"]));
    let (_, certainty, said) = run.why();
    assert!(
        said.contains("budget.steps was also true, but by the recorded steps it wasn't (5 of 20"),
        "{said}"
    );
    assert_ne!(certainty, "recorded");
    assert_eq!(row(&run, "budget.steps")["also"], false);
    assert!(
        !run.json(&["why"])["second"]
            .to_string()
            .contains("step budget")
    );
}

#[test]
fn a_rule_that_lacks_a_fact_is_no_contradiction() {
    let run = sample("stagnation");
    run.edit_records("steps.jsonl", |step| {
        drop(step["facts"].as_object_mut().unwrap().remove("signature"))
    });
    assert_eq!(
        (run.why().1, run.why().2),
        ("recorded".to_owned(), String::new())
    );
    let run = sample("budget_tokens");
    run.edit_records("steps.jsonl", |step| {
        if step["step_id"] == 2 {
            step["facts"].as_object_mut().unwrap().remove("usage");
        }
    });
    assert_eq!(run.why().2, "");
    let run = sample("budget_tokens");
    run.edit_lines("steps.jsonl", |lines| drop(lines.remove(2)));
    assert!(
        !run.why().2.contains("by the recorded steps"),
        "{}",
        run.why().2
    );
}

#[test]
fn an_outcome_that_its_code_denies_is_unknown() {
    let run = sample("budget_tokens");
    edit_stop(&run, |stop| stop["outcome"] = "completed".into());
    let row = &run.json(&["list"])["runs"][0];
    assert_eq!(
        (&row["outcome"], &row["mark"]),
        (&"unknown".into(), &"limit".into()),
        "{row}"
    );
    let whatif = run.json(&["whatif", "--rule", "max_steps=2"]);
    assert!(
        !whatif.to_string().contains("answer would have been lost"),
        "{whatif}"
    );
}
