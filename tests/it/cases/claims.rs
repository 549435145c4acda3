//! Claims about an end that other records deny: success, the last stop check, failures, answers and numbers.

use serde_json::{Value, json};

use super::ends::{Copy, sample};

fn corpus(name: &str) -> Copy {
    Copy::of_dir(
        &std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/corpus")
            .join(name),
    )
}

/// A small run of QitOS that answered.
fn minimal() -> Copy {
    corpus("q060/q060_minimal")
}

/// Asserts that one contradiction has all `parts`, and that the end isn't called recorded.
#[track_caller]
fn assert_denied(run: &Copy, parts: &[&str]) {
    let (headline, certainty, said) = run.why();
    assert!(
        said.lines()
            .any(|line| parts.iter().all(|part| line.contains(part))),
        "{parts:?} is missing in:\n{said}\n{headline}"
    );
    assert_ne!(certainty, "recorded");
}

/// Edits the payload of the events of a phase and stage.
fn edit_events(run: &Copy, phase: &str, stage: &str, edit: impl Fn(&mut Value)) {
    run.edit_records("events.jsonl", |event| {
        let is_it =
            event["phase"] == phase && (stage.is_empty() || event["payload"]["stage"] == stage);
        if is_it {
            edit(event);
        }
    });
}

#[test]
fn success_is_what_the_end_says() {
    let run = corpus("q060/q060_wait_forever");
    run.set("/summary/task_result/success", true);
    assert_denied(
        &run,
        &["The stop reason is budget_steps, but success is recorded as true"],
    );
    let run = sample("budget_tokens");
    run.set("/summary/task_result/success", true);
    assert_denied(
        &run,
        &["The verdict is budget_tokens, but success is recorded as true"],
    );
}

#[test]
fn an_end_in_order_is_no_failure() {
    let run = minimal();
    edit_events(&run, "END", "", |event| event["ok"] = false.into());
    assert_denied(&run, &["The END event (events.jsonl:", "isn't ok", "final"]);
}

#[test]
fn the_last_stop_check_ends_the_run() {
    let run = minimal();
    edit_events(&run, "CHECK_STOP", "stop", |event| {
        event["payload"]["stage"] = "continue".into();
        event["payload"]
            .as_object_mut()
            .unwrap()
            .remove("stop_reason");
    });
    assert_denied(
        &run,
        &[
            "The last stop check (events.jsonl:",
            "continued the run, but the stop reason is",
        ],
    );
}

#[test]
fn the_failure_report_has_the_reason_and_the_number_of_failures() {
    let run = minimal();
    run.set("/summary/failure_report/stop_reason", "critic_stop");
    assert_denied(
        &run,
        &[
            "disagree on how the run ended",
            "critic_stop (manifest.json /summary/failure_report/stop_reason)",
        ],
    );
    let run = corpus("q060/q060_recovered_errors");
    run.set("/summary/failure_report/failure_count", 9);
    assert_denied(&run, &["The failure report counts 9 but lists 3"]);
    let run = corpus("q060/q060_recovered_errors");
    run.set("/summary/failure_report/failures", json!([]));
    run.set("/summary/failure_report/failure_count", 0);
    assert_denied(&run, &["The failure report lists 0", "3 RECOVER events"]);
}

#[test]
fn an_end_by_an_error_has_an_error() {
    let run = minimal();
    run.replace_all("\"final\"", "\"unrecoverable_error\"");
    run.set("/status", "failed");
    run.set("/summary/task_result/success", false);
    edit_events(&run, "END", "", |event| event["ok"] = false.into());
    assert_denied(
        &run,
        &["unrecoverable_error implies that an error ended the run, but no file records an error"],
    );
}

#[test]
fn a_cancelled_run_is_not_completed() {
    let run = corpus("q060/q060_cancel_immediate");
    run.set("/status", "completed");
    assert_denied(&run, &["The status is completed", "cancelled_immediate"]);
}

#[test]
fn an_accepted_answer_ends_the_run() {
    let run = corpus("q060/q060_unicode");
    run.set_in("steps.jsonl", 1, "/decision/mode", "final");
    assert_denied(
        &run,
        &["In step 0, the decision is final and no critic rejected it, but the run continued"],
    );
}

#[test]
fn a_record_without_an_answer_denies_one_with_a_text() {
    for pointer in ["/summary/final_result", "/summary/task_result/final_result"] {
        let run = minimal();
        run.set(pointer, Value::Null);
        assert_denied(
            &run,
            &[
                "disagree on the answer",
                &format!("none (manifest.json {pointer}"),
            ],
        );
        run.set(pointer, 42);
        assert_denied(&run, &["disagree on the answer", "42 (not text)"]);
    }
    let run = minimal();
    edit_events(&run, "CHECK_STOP", "stop", |event| {
        event["payload"]["final_result"] = Value::Null
    });
    assert_denied(&run, &["disagree on the answer", "none (events.jsonl:"]);
    let run = minimal();
    run.edit_records("steps.jsonl", |step| {
        step["decision"]["final_answer"] = Value::Null
    });
    assert_denied(&run, &["disagree on the answer", "none (steps.jsonl:"]);
    let run = minimal();
    run.edit_records("steps.jsonl", |step| {
        step["decision"]["final_answer"] = json!({"text": "x"})
    });
    assert_denied(
        &run,
        &[
            "disagree on the answer",
            "a value that isn't text (steps.jsonl:",
        ],
    );
}

#[test]
fn a_blank_answer_is_no_answer() {
    for blank in ["", "  \n"] {
        let run = minimal();
        run.set("/summary/final_result", blank);
        run.set("/summary/task_result/final_result", blank);
        run.edit_records("steps.jsonl", |step| {
            step["decision"]["final_answer"] = blank.into()
        });
        edit_events(&run, "CHECK_STOP", "stop", |event| {
            event["payload"]["final_result"] = blank.into()
        });
        let why = run.json(&["why"]);
        assert!(
            why["headline"]
                .as_str()
                .unwrap()
                .starts_with("Ended with an empty answer"),
            "{why}"
        );
        assert_eq!(run.json(&["list"])["runs"][0]["mark"], "unknown");
        assert_denied(&run, &["the answer is empty"]);
    }
}

#[test]
fn a_time_is_not_negative_and_half_of_it_is_another_time() {
    let run = corpus("q060/q060_unicode");
    run.set("/latency_seconds", -5.0);
    assert_denied(&run, &["disagree on the time", "/latency_seconds"]);
    assert!(run.json(&["list"])["runs"][0]["duration_ms"].is_null());
    let run = sample("final");
    for pointer in [
        "/latency_seconds",
        "/summary/latency_seconds",
        "/summary/task_result/metrics/elapsed_seconds",
    ] {
        run.set(pointer, 0.0);
    }
    assert_denied(&run, &["disagree on the time"]);
}

#[test]
fn a_run_whose_model_replied_did_not_take_0_tokens() {
    let run = corpus("q060/q060_visual_desktop");
    for pointer in [
        "/token_usage",
        "/summary/token_usage",
        "/summary/task_result/metrics/token_usage",
        "/summary/context/tokens_total",
    ] {
        run.set(pointer, 0);
    }
    assert_denied(
        &run,
        &["disagree on the tokens", "0 (manifest.json /token_usage"],
    );
    assert!(run.json(&["list"])["runs"][0]["tokens"].is_null());
}

#[test]
fn the_context_of_the_summary_counts_the_same_tokens() {
    let run = corpus("q060/q060_visual_desktop");
    run.set("/summary/context/tokens_total", 99_999);
    assert_denied(
        &run,
        &[
            "disagree on the tokens",
            "99,999 (manifest.json /summary/context/tokens_total)",
        ],
    );
}

#[test]
fn a_running_total_does_not_fall() {
    let run = corpus("q060/q060_visual_desktop");
    run.set_in("steps.jsonl", 3, "/context/tokens_total", 1);
    assert_denied(
        &run,
        &["The running total of tokens falls from", "to 1 in step 2"],
    );
}

#[test]
fn a_limit_that_was_reached_before_the_last_step_held_nobody() {
    let limit = |run: &Copy, limit: Value| {
        edit_events(run, "INIT", "", |event| {
            event["payload"]["task_meta"]["budget"]["max_steps"] = limit.clone();
        });
        run.edit_manifest(|manifest| {
            manifest["summary"]["task_meta"] = json!({"budget": {"max_steps": limit.clone()}})
        });
    };
    for steps in [1, 0, -3] {
        let run = corpus("q060/q060_unicode");
        limit(&run, steps.into());
        assert_denied(
            &run,
            &[
                "The step limit of",
                "was reached before the last step began",
                "but the run continued",
            ],
        );
        let why = run.json(&["why"]);
        let row = why["rules"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["id"] == "budget.steps")
            .unwrap();
        assert_eq!(
            (&row["result"], &row["also"]),
            (&"unknown".into(), &false.into()),
            "{row}"
        );
    }
}

#[test]
fn the_numbers_of_a_criterion_are_those_of_the_run() {
    let stopped = |word: &str, words: &str| {
        let run = corpus("q060/q060_visual_desktop");
        let (from, word) = ("\"env_terminal\"", format!("\"{word}\""));
        run.replace_all(from, &word);
        run.set("/summary/task_result/success", false);
        edit_events(&run, "CHECK_STOP", "stop", |event| {
            event["payload"]["stop_detail"] = words.into();
            event["payload"]
                .as_object_mut()
                .unwrap()
                .remove("env_terminal");
        });
        run
    };
    let run = stopped("budget_tokens", "total_tokens=18830 >= max_tokens=15000");
    assert_denied(
        &run,
        &[
            "disagree on the tokens",
            "18,830 (events.jsonl:",
            "/payload/stop_detail",
        ],
    );
    let run = stopped("max_steps", "step_id=50 reached max_steps=50");
    assert_denied(
        &run,
        &["disagree on the number of steps", "51 (events.jsonl:"],
    );
    let run = stopped("budget_time", "total_tokens=9686 >= max_tokens=1500");
    assert_denied(
        &run,
        &["The stop reason is budget_time, but the criterion behind it records total_tokens=9686"],
    );
    let run = stopped(
        "budget_time",
        "elapsed=84.000s >= max_runtime_seconds=70.000s",
    );
    assert!(
        run.why()
            .0
            .contains("the criterion measured 1 min 24 s, but this run took"),
        "{}",
        run.why().0
    );
}

#[test]
fn a_step_does_not_end_before_it_begins() {
    let run = sample("budget_tokens");
    run.set_in("steps.jsonl", 3, "/facts/t_end_ms", 10);
    assert_denied(&run, &["The times in the facts of step 2", "run backwards"]);
}
