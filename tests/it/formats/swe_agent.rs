//! Tests trajectories of SWE-agent.

use super::{damaged, read, sample};

fn trajectory(name: &str) -> std::path::PathBuf {
    sample(&format!("tools/swe-agent/{name}.traj"))
}

#[test]
fn a_submitted_trajectory() {
    let run = read(&trajectory("submitted"));
    let row = &run.row;
    // Five elements of the trajectory, one message of the history, and two objects about the run.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues.0),
        (5, 0, 8, 0)
    );
    assert_eq!((row.tokens, row.cost_usd), (Some(8_530), Some(0.0213)));
    assert_eq!(row.tools, ["find_file", "open", "edit", "python", "submit"]);
    assert_eq!(row.changed, ["open_file", "working_dir", "diff"]);
    assert_eq!(row.model.as_deref(), Some("example/small-1"));
    assert_eq!(row.run_id.as_deref(), Some("ledger-1"));
    assert_eq!(row.verdict.sentence, "Submitted at step 4");
    assert_eq!(
        (
            row.verdict.certainty.as_str(),
            row.verdict.stop_reason.as_deref()
        ),
        ("recorded", Some("submitted"))
    );
    assert!(
        row.task
            .as_deref()
            .is_some_and(|task| task.starts_with("shares(100, 3) loses one"))
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.tool.as_deref(), Some("SWE-agent 1.1.0"));
    assert_eq!(manifest.project.as_deref(), Some("/ledger"));
    assert!(
        manifest
            .final_result
            .as_deref()
            .is_some_and(|answer| answer.starts_with("diff --git"))
    );
}

#[test]
fn a_step_shows_what_it_changed_beside_its_neighbour() {
    let run = read(&trajectory("submitted"));
    let step = run.step(1);
    assert_eq!(step["actions"][0]["args"]["command"], "open split.py");
    assert_eq!(step["action_results"][0]["status"], "not recorded");
    assert_eq!(step["action_results"][0]["metadata"]["latency_ms"], 250);
    assert_eq!(step["state_diff"]["open_file"]["before"], "n/a");
    assert_eq!(step["state_diff"]["open_file"]["after"], "/ledger/split.py");
    assert_eq!(
        step["state_diff"].as_object().map(serde_json::Map::len),
        Some(1)
    );
    assert!(
        run.step(0)["state_diff"]["open_file"]["before"].is_null(),
        "the state before the first step isn't recorded"
    );
    assert!(run.step(3)["state_diff"].is_null(), "nothing changed");
    // Before 1.0, a step's state is the one that it started with.
    let older = read(&trajectory("going_on"));
    assert_eq!(
        older.step(1)["state_diff"]["open_file"]["after"],
        "/ledger/split.py"
    );
    assert!(
        (0..3)
            .filter(|n| *n != 1)
            .all(|n| older.step(n)["state_diff"].is_null())
    );
    for n in 0..5 {
        let changed: Vec<&str> = run
            .index
            .steps()
            .get(n)
            .expect("a step")
            .changed
            .iter()
            .map(|key| run.index.name(*key))
            .collect();
        let shown = run.step(n)["state_diff"]
            .as_object()
            .map(|keys| keys.keys().cloned().collect::<Vec<_>>());
        assert_eq!(
            shown.unwrap_or_default().len(),
            changed.len(),
            "the head of step {n} and its page agree"
        );
    }
}

#[test]
fn the_limit_that_was_reached_is_named() {
    let run = read(&trajectory("cost_limit"));
    let said =
        "Cost limit reached after step 2: $0.0508, limit $0.0500 · the work so far was submitted";
    assert_eq!(
        (run.row.verdict.sentence.as_str(), run.row.steps),
        (said, 3)
    );
    assert_eq!(
        (
            run.row.verdict.mark.word(),
            run.row.verdict.certainty.as_str()
        ),
        ("limit", "recorded")
    );
    let going_on = read(&trajectory("going_on"));
    assert_eq!(
        (
            going_on.row.steps,
            going_on.row.cost_usd,
            going_on.row.tokens
        ),
        (3, None, None)
    );
    assert!(
        going_on
            .index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.ended.is_none())
    );
}

#[test]
fn a_damaged_trajectory_loses_only_what_is_damaged() {
    damaged(&trajectory("going_on"));
}

#[test]
fn a_page_never_shows_bytes_of_another_document_in_the_places_of_the_one_that_was_read() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run.traj");
    let text = std::fs::read_to_string(sample("tools/swe-agent/submitted.traj")).unwrap();
    std::fs::write(&path, &text).unwrap();
    let run = read(&path);
    std::fs::write(&path, format!("   {text}")).unwrap();
    let span = run.index.steps().get(1).unwrap().span;
    let line = run
        .dir
        .line(|| &run.index, trace_board::model::TraceFile::Steps, span);
    assert!(line.is_err_and(|why| why.contains("was rewritten")));
}

#[test]
fn the_limits_that_it_was_given_are_told() {
    let run = read(&trajectory("submitted"));
    let limits = run
        .index
        .manifest()
        .get()
        .map(|run| run.limits.clone())
        .unwrap_or_default();
    let told: Vec<_> = limits
        .iter()
        .map(|limit| (limit.name, limit.limit, limit.unit, limit.used))
        .collect();
    let first = ("per_instance_cost_limit", 3.0, "usd", Some(0.0213));
    assert_eq!(told.first(), Some(&first));
    let second = told.get(1).map(|limit| (limit.0, limit.1, limit.2));
    assert_eq!(
        (told.len(), second),
        (2, Some(("total_execution_timeout", 1_800_000.0, "ms"))),
        "0 is no limit"
    );
}

#[test]
fn a_demonstration_whose_last_call_submits_was_submitted() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("demo.traj");
    let verdict = |last: &str, more: &serde_json::Value| {
        let call = |name: &str| serde_json::json!([{"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}]);
        let mut document = serde_json::json!({"history": [
            {"role": "user", "content": "Mend it."},
            {"role": "assistant", "content": "I do.", "action": last, "tool_calls": call(last)},
            {"role": "tool", "content": "diff --git a/a b/a", "tool_call_ids": ["c"]},
        ]});
        document
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        std::fs::write(&path, document.to_string()).unwrap();
        read(&path).row.verdict
    };
    let none = serde_json::json!({});
    let submitted = verdict("submit", &none);
    assert!(
        submitted.sentence.starts_with("Submitted at step 0"),
        "{}",
        submitted.sentence
    );
    assert_eq!(submitted.certainty.as_str(), "inferred");
    assert_eq!(verdict("edit", &none).mark.word(), "unknown");
    // The recorded exit status takes precedence.
    let told = verdict(
        "submit",
        &serde_json::json!({"info": {"exit_status": "exit_forfeit"}}),
    );
    assert!(
        told.sentence.starts_with("The agent gave up"),
        "{}",
        told.sentence
    );
}

#[test]
fn replies_are_counted_as_the_run_counts_them() {
    let text = std::fs::read_to_string(trajectory("submitted")).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("run.traj");
    for (calls, expected, issues) in [("5", Some(5), 0), ("7", Some(7), 1), ("null", Some(5), 0)] {
        std::fs::write(
            &path,
            text.replace("\"api_calls\": 5", &format!("\"api_calls\": {calls}")),
        )
        .expect("written");
        let row = read(&path).row;
        assert_eq!(
            (row.steps, row.model_calls, row.issues),
            (5, expected, (issues, 0))
        );
    }
}
