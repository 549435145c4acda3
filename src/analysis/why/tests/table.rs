//! Every stop reason in every layout: the sentence, its certainty, and the rule that fired.

use super::*;
use crate::analysis::why::Standing;

const REASONS: [&str; 18] = [
    "success",
    "final",
    "final_result",
    "max_steps",
    "budget_steps",
    "budget_time",
    "budget_tokens",
    "agent_condition",
    "critic_stop",
    "stagnation",
    "env_terminal",
    "task_validation_failed",
    "env_capability_mismatch",
    "unrecoverable_error",
    "context_overflow",
    "cancelled_immediate",
    "cancelled_after_step",
    "interrupt",
];

/// The fields that distinguish the layouts, with the writer's name if there is one.
const LAYOUTS: [(&str, &str); 4] = [
    ("A", ""),
    ("B", r#""token_usage": 0,"#),
    ("C", r#""token_usage": 0, "parent_run_id": null,"#),
    ("board", r#""writer": "board 1","#),
];

/// Returns the code of board's engine that older viewers read as `reason`.
fn code(reason: &str) -> &str {
    match reason {
        "success" => "keyword",
        "unrecoverable_error" => "recovery_exhausted",
        other => other,
    }
}

/// A run of two steps that ended for `reason`, as a writer of `layout` records it.
fn ended(reason: &str, layout: (&str, &str)) -> Run {
    let preflight = matches!(reason, "task_validation_failed" | "env_capability_mismatch");
    let run = match reason {
        "critic_stop" => calls("a")
            .step(r#""decision": {"mode": "act"}, "critic_outputs": [{"critic_name": "C", "action": "stop"}]"#),
        _ if preflight => Run::default(),
        _ => calls("ab"),
    };
    let stop = match layout.0 {
        "board" => format!(
            r#", "stop": {{"code": "{}", "criterion": "rule", "source": "policy", "step": {}, "stop_reason": "{reason}"}},
            "stop_rules": {{"budget": {{}}, "completion": [], "policies": [
                {{"id": "rule", "rule": {{"opaque": ["after_step"]}}, "from": "engine"}}]}}"#,
            code(reason),
            if preflight { "null" } else { "1" }
        ),
        _ => String::new(),
    };
    let answer = if matches!(reason, "success" | "final" | "final_result") {
        "\"x\""
    } else {
        "null"
    };
    // QitOS records `failed` only for an unrecoverable error, board's engine for every failure.
    let status = match reason {
        "unrecoverable_error" => "failed",
        "cancelled_immediate" => "stopped",
        "context_overflow" if layout.0 == "board" => "failed",
        "cancelled_after_step" if layout.0 == "board" => "stopped",
        _ if preflight && layout.0 == "board" => "failed",
        _ => "completed",
    };
    let manifest = format!(
        r#"{{{} "status": "{status}", "summary": {{"stop_reason": "{reason}", "final_result": {answer}}}{stop}}}"#,
        layout.1
    );
    Run {
        manifest,
        ..run.ended(reason)
    }
}

/// Returns the line for `reason` in `layout`.
fn told(reason: &str, layout: (&str, &str)) -> String {
    let (summary, why) = ended(reason, layout).explained();
    let verdict = &summary.verdict;
    let fired: Vec<&str> = why
        .rules
        .iter()
        .filter(|rule| rule.result == Standing::Fired)
        .map(|rule| &*rule.id)
        .collect();
    assert_eq!(verdict.stop_reason.as_deref(), Some(reason));
    // The fired rule comes first, and only one rule ends a run.
    assert!(
        fired.len() == 1 && why.rules[0].result == Standing::Fired,
        "{reason} in {}: {fired:?}",
        layout.0
    );
    let step = verdict
        .step
        .map_or_else(|| "-".to_owned(), |step| step.to_string());
    let (mark, outcome) = (verdict.mark.word(), verdict.outcome.as_str());
    format!(
        "{mark}, {outcome}, {}, step {step}, by {}: {}",
        verdict.certainty.as_str(),
        fired[0],
        verdict.sentence
    )
}

#[test]
fn every_reason_in_every_layout() {
    let mut table = String::new();
    for reason in REASONS.into_iter().chain(["a_new_word"]) {
        let mut rows: Vec<(String, String)> = Vec::new();
        for layout in LAYOUTS {
            let line = told(reason, layout);
            match rows.iter_mut().find(|(_, known)| *known == line) {
                Some((layouts, _)) => *layouts += &format!(" {}", layout.0),
                None => rows.push((layout.0.to_owned(), line)),
            }
        }
        rows.iter()
            .for_each(|(layouts, line)| table += &format!("{reason} [{layouts}] {line}\n"));
    }
    insta::assert_snapshot!(table, @r#"
    success [A B C] answered, completed, recorded, step 1, by success: Answered at step 1 (recorded as success)
    success [board] answered, completed, recorded, step 1, by rule: Answered at step 1
    final [A B C] answered, completed, recorded, step 1, by unrecorded: Answered at step 1
    final [board] answered, completed, recorded, step 1, by rule: Answered at step 1
    final_result [A B C] answered, completed, recorded, step 1, by unrecorded: Answered at step 1
    final_result [board] answered, completed, recorded, step 1, by rule: Answered at step 1
    max_steps [A B C] limit, truncated, recorded, step 1, by max_steps: Step limit reached after step 1
    max_steps [board] limit, truncated, recorded, step 1, by rule: Step limit reached
    budget_steps [A B C] limit, truncated, recorded, step 1, by budget.steps: Step limit reached after step 1
    budget_steps [board] limit, truncated, recorded, step 1, by rule: Step limit reached
    budget_time [A B C] limit, truncated, recorded, step 1, by budget.time: Time limit reached
    budget_time [board] limit, truncated, recorded, step 1, by rule: Time limit reached
    budget_tokens [A B C] limit, truncated, recorded, step 1, by budget.tokens: Token limit reached
    budget_tokens [board] limit, truncated, recorded, step 1, by rule: Token limit reached
    agent_condition [A B C] stopped, completed, recorded, step 1, by agent: The agent's own stop condition was met after step 1
    agent_condition [board] stopped, halted, recorded, step 1, by rule: The agent's own stop condition was met after step 1
    critic_stop [A B C] critic stop, halted, recorded, step 1, by critics: Stopped by the critic C
    critic_stop [board] critic stop, halted, recorded, step 1, by rule: Stopped by the critic C
    stagnation [A B C] limit, halted, recorded, step 1, by unrecorded: Stopped with "stagnation" after 2 steps; the rule isn't recorded
    stagnation [board] limit, halted, recorded, step 1, by rule: State unchanged for too long
    env_terminal [A B C] stopped, completed, recorded, step 1, by env: The environment ended the episode at step 1
    env_terminal [board] stopped, halted, recorded, step 1, by rule: The environment ended the episode at step 1
    task_validation_failed [A B C] error, failed, recorded, step -, by preflight: Not started: the task failed validation
    task_validation_failed [board] error, failed, recorded, step -, by rule: Not started: the task failed validation
    env_capability_mismatch [A B C] error, failed, recorded, step -, by preflight: Not started: the environment lacks a required capability
    env_capability_mismatch [board] error, failed, recorded, step -, by rule: Not started: the environment lacks a required capability
    unrecoverable_error [A B C] error, failed, recorded, step 1, by recovery: Failed in step 1; the error message isn't recorded
    unrecoverable_error [board] error, failed, recorded, step 1, by rule: Failed with an error after step 1: a step failed
    context_overflow [A B C] limit, failed, recorded, step 1, by context: Context window full
    context_overflow [board] limit, failed, recorded, step 1, by rule: Context window full at step 1
    cancelled_immediate [A B C] cancelled, cancelled, recorded, step 1, by cancel: Cancelled after step 1
    cancelled_immediate [board] cancelled, cancelled, recorded, step 1, by rule: Cancelled during step 1
    cancelled_after_step [A B C] cancelled, cancelled, recorded, step 1, by cancel: Cancelled after step 1
    cancelled_after_step [board] cancelled, cancelled, recorded, step 1, by rule: Cancelled after step 1
    interrupt [A B C] cancelled, cancelled, recorded, step 1, by cancel: Interrupted from outside after step 1
    interrupt [board] stopped, halted, recorded, step 1, by rule: Stopped by the custom rule interrupt after step 1
    a_new_word [A B C] unknown, unknown, unknown, step 1, by unknown: Stopped with "a_new_word", an unknown stop reason
    a_new_word [board] stopped, halted, recorded, step 1, by rule: Stopped by the custom rule a_new_word after step 1
    "#);
}
