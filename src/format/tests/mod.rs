mod damage;
mod heads;

use super::*;
use crate::model::head::MAX_CHANGED;
use crate::model::issue::Remark;
use crate::model::{CriticAction, Fate, IssueKind, Names, StepHead};

fn read(line: &str) -> (StepHead, Vec<Remark>, Names) {
    let mut names = Names::default();
    let (head, remarks) = step_head(line.as_bytes(), &mut names);
    (head, remarks, names)
}

#[test]
fn a_step_of_qitos_0_6() {
    let (head, remarks, names) = read(
        r#"{"step_id": 4, "agent_id": "fixer", "decision": {"mode": "act", "actions": [{"name": "run", "args": {"path": "a.py", "n": 2}}]},
        "action_results": [{"status": "success", "output": {"returncode": 1}, "error": null}],
        "critic_outputs": [{"action": "retry", "reason": "no", "score": 0.2, "critic_name": "V", "state_patch": {"a": 1}},
            {"score": "high", "instruction_patch": "", "state_patch": {}}],
        "state_diff": {"plan": {"before": 1, "after": 2}}, "context": {"input_tokens_total": 10, "output_tokens": 2, "tokens_total": 30}}"#,
    );
    assert_eq!(remarks, []);
    assert_eq!(&*head.call, r#"run(path="a.py", n=2)"#);
    assert_eq!(
        (head.returncode, head.tokens, head.tokens_total),
        (Some(1), Some(12), Some(30))
    );
    assert_eq!(names.get(head.critics[0].name), "V");
    assert_eq!(
        (names.get(head.critics[1].name), head.critics[1].score),
        ("critic 2", None)
    );
    assert!(head.requested(CriticAction::Retry) && !head.requested(CriticAction::Stop));
    assert_eq!(
        head.critics
            .iter()
            .map(|mark| mark.patches)
            .collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn wrong_types_cost_only_their_field() {
    let (head, remarks, _) = read(
        r#"{"step_id": null, "decision": "text", "actions": {}, "action_results": 5, "state_diff": []}"#,
    );
    assert_eq!(head.fate, Fate::Good);
    assert_eq!(remarks.len(), 5);
    assert!(remarks.iter().all(|(kind, _)| *kind == IssueKind::Field));
}

#[test]
fn nan_is_a_repair_and_no_score() {
    let (head, remarks, _) = read(r#"{"step_id": 0, "critic_outputs": [{"score": NaN}]}"#);
    assert_eq!(head.fate, Fate::Repaired);
    assert_eq!(remarks[0].0, IssueKind::Repaired);
    assert_eq!(head.critics[0].score, None);
}

/// Hashes of a step's actions and results.
fn prints(line: &str) -> (u64, u64) {
    let (head, _, _) = read(line);
    (head.asked_hash, head.result_hash)
}

#[test]
fn a_call_is_known_by_all_of_it() {
    let long = "x".repeat(4_000);
    let call = |args: &str| {
        prints(&format!(
            r#"{{"decision": {{"mode": "act", "actions": [{{"name": "w", "args": {args}, "action_id": 7}}]}}}}"#
        ))
        .0
    };
    assert_ne!(
        call(&format!(r#"{{"t": "{long}a"}}"#)),
        call(&format!(r#"{{"t": "{long}b"}}"#))
    );
    assert_ne!(call(r#"{"list": [1, 2]}"#), call(r#"{"list": [1, 3]}"#));
    assert_eq!(
        call(r#"{"a": 1, "b": {"c": [1.0]}}"#),
        call(r#"{"b":{"c":[1]},"a":1}"#)
    );
    assert_eq!(call(r#"{"a": "\u00e9"}"#), call(r#"{"a": "é"}"#));
}

#[test]
fn ids_tries_and_reasons_are_no_part_of_what_is_asked() {
    let step = |id: &str, why: &str| {
        let action = format!(r#"{{"name": "w", "args": {{"n": 1}}, "action_id": "{id}"}}"#);
        prints(&format!(
            r#"{{"decision": {{"mode": "act", "rationale": "{why}", "actions": [{action}]}}}}"#
        ))
        .0
    };
    assert_eq!(step("a", "because"), step("b", "so"));
    let end = |answer: &str| {
        prints(&format!(
            r#"{{"decision": {{"mode": "final", "final_answer": {answer}}}}}"#
        ))
        .0
    };
    assert_ne!(end(r#""yes""#), end(r#""no""#));
    assert_ne!(end(r#"{"a": 1}"#), end(r#"{"a": 2}"#));
}

#[test]
fn a_result_is_known_without_how_long_it_took() {
    let step = |output: &str, took: f64| {
        let result = format!(
            r#"{{"status": "success", "output": {output}, "metadata": {{"latency_ms": {took}}}}}"#
        );
        prints(&format!(r#"{{"action_results": [{result}]}}"#)).1
    };
    assert_eq!(step(r#"{"code": 0}"#, 1.5), step(r#"{"code": 0}"#, 2.5));
    assert_ne!(step(r#"{"code": 0}"#, 1.5), step(r#"{"code": 1}"#, 1.5));
}

#[test]
fn a_state_is_known_by_both_sides_of_every_change() {
    let hash = |diff: &str| {
        read(&format!(r#"{{"step_id": 0, "state_diff": {diff}}}"#))
            .0
            .state_hash
    };
    let plain = hash(
        r#"{"a": {"before": 1, "after": [2, {"x": 1, "y": "\u00e9"}]}, "b": {"before": 0, "after": 1}}"#,
    );
    assert_eq!(
        plain,
        hash(
            r#"{"b":{"after":1.0,"before":0}, "a": {"after": [2, {"y": "é", "x": 1}], "before": 1}}"#
        )
    );
    let others = [
        r#"{"a": {"before": 1, "after": [2, {"x": 1, "y": "e"}]}, "b": {"before": 0, "after": 1}}"#,
        r#"{"a": {"before": 2, "after": [2, {"x": 1, "y": "é"}]}, "b": {"before": 0, "after": 1}}"#,
        r#"{"a": {"before": 1, "after": [2, {"x": 1, "y": "é"}]}}"#,
        r#"["a"]"#,
    ];
    assert!(others.iter().all(|other| hash(other) != plain));
    let none = read(r#"{"step_id": 0}"#).0.state_hash;
    assert_eq!([hash("{}"), hash("null")], [none, none]);
    let many = |last: usize| -> u64 {
        let keys: Vec<String> = (0..=MAX_CHANGED)
            .map(|n| format!(r#""k{n}": {{"after": {}}}"#, n.min(last)))
            .collect();
        hash(&format!("{{{}}}", keys.join(", ")))
    };
    assert_ne!(
        many(MAX_CHANGED - 1),
        many(MAX_CHANGED),
        "keys that the index has no room for count, too"
    );
}

#[test]
fn a_line_that_cannot_be_read_is_like_its_copy_alone() {
    assert_eq!(prints("garbage").0, prints("garbage").0);
    assert_ne!(prints("garbage").0, prints("other garbage").0);
}

#[test]
fn damage_is_named() {
    let kind = |text: &[u8]| manifest(text).unwrap_err().0;
    assert_eq!(kind(b""), IssueKind::Torn);
    assert_eq!(kind(b"{\"run_id\": \"x"), IssueKind::Torn);
    assert_eq!(kind(b"[1]"), IssueKind::Foreign);
    assert_eq!(kind(b"hello"), IssueKind::NotJson);
}

#[test]
fn summary_and_layout() {
    let text = br#"{"run_id": "r", "status": "completed", "token_usage": 0, "latency_seconds": NaN,
        "summary": {"stop_reason": "final", "task_result": {"success": true, "metrics": {"elapsed_seconds": 2}}}}"#;
    let (manifest, remarks) = super::manifest(text).unwrap();
    assert_eq!(manifest.format.name, "QitOS 0.3");
    assert_eq!(
        (manifest.tokens, manifest.latency_s, manifest.success),
        (None, Some(2.0), Some(true))
    );
    assert_eq!(remarks.len(), 1);
    assert!(manifest.is_final());
}

#[test]
fn a_cost_of_nothing_is_no_cost() {
    let cost = |text: &str| manifest(text.as_bytes()).unwrap().0.cost_usd;
    assert_eq!(
        cost(r#"{"cost": 0.0, "token_usage": 900, "summary": {"cost": 0.0}}"#),
        None
    );
    assert_eq!(
        cost(r#"{"cost": null, "summary": {"cost": 0.0042}}"#),
        Some(0.0042)
    );
    assert_eq!(
        cost(r#"{"cost": 1.5, "summary": {"cost": 1.5}}"#),
        Some(1.5)
    );
    assert_eq!(
        (
            cost(r#"{"cost": -1}"#),
            cost(r#"{"cost": Infinity}"#),
            cost(r#"{"cost": "much"}"#)
        ),
        (None, None, None)
    );
}

#[test]
fn the_layout_of_our_own_writer() {
    let name = |text: &str| manifest(text.as_bytes()).unwrap().0.format.name;
    let rest = r#""parent_run_id": null, "token_usage": 0"#;
    assert_eq!(
        name(&format!(r#"{{"writer": "board 0.1.0", {rest}}}"#)),
        "board"
    );
    assert_eq!(
        name(&format!(r#"{{"writer": "other 0.1.0", {rest}}}"#)),
        "QitOS 0.6"
    );
    assert_eq!(name(&format!(r#"{{"writer": 7, {rest}}}"#)), "QitOS 0.6");
}

#[test]
fn a_return_code_counts_however_it_is_spelled() {
    let code = |result: &str| {
        let (head, _, _) = read(&format!(
            r#"{{"step_id": 0, "decision": {{"mode": "act"}}, "action_results": [{result}]}}"#
        ));
        assert_eq!(head.returncode.is_none(), head.is_ok());
        head.returncode
    };
    for key in ["returncode", "return_code", "exit_code", "exitcode"] {
        assert_eq!(code(&format!(r#"{{"{key}": 1}}"#)), Some(1));
        assert_eq!(code(&format!(r#"{{"{key}": 0}}"#)), None);
        assert_eq!(
            code(&format!(
                r#"{{"status": "success", "output": {{"{key}": 2}}}}"#
            )),
            Some(2)
        );
    }
    assert_eq!(
        code(r#"{"returncode": 0, "output": {"exit_code": 3}}"#),
        Some(3)
    );
    assert_eq!(
        (code(r#"{"exit_code": "2"}"#), code(r#"{"exit_code": "0"}"#)),
        (Some(2), None)
    );
    assert_eq!(code(r#""returncode 1""#), None);
}

#[test]
fn an_empty_error_is_none() {
    let error = |error: &str| {
        read(&format!(
            r#"{{"step_id": 0, "action_results": [{{"error": {error}}}]}}"#
        ))
        .0
        .error
    };
    let none = [
        "null",
        r#""""#,
        "{}",
        "[]",
        "false",
        r#""none""#,
        r#""None""#,
        "0",
        r#"{"code": 0, "message": "OK"}"#,
    ];
    for nothing in none.into_iter().chain([r#"{"code": null, "message": ""}"#]) {
        assert_eq!(error(nothing), None, "{nothing}");
    }
    assert_eq!(error(r#""boom""#).as_deref(), Some("boom"));
    assert_eq!(
        error(r#"{"type": "E"}"#).as_deref(),
        Some(r#"{"type": "E"}"#)
    );
    assert_eq!(error(r#"{"code": 5}"#).as_deref(), Some(r#"{"code": 5}"#));
}

#[test]
fn a_failure_keeps_its_recorded_message() {
    let error = |result: &str| {
        let (head, ..) = read(&format!(
            r#"{{"step_id": 0, "decision": {{"mode": "act"}}, "action_results": [{result}]}}"#
        ));
        assert_eq!(head.error.is_none(), head.is_ok(), "{result}");
        head.error
    };
    for (result, words) in [
        (
            r#"{"status": "error", "message": "value '41' rejected", "code": 422}"#,
            "value '41' rejected",
        ),
        (
            r#"{"returncode": 0, "status": "failed", "message": "quota exceeded"}"#,
            "quota exceeded",
        ),
        (
            r#"{"status": "error", "output": {"message": "in use"}, "error": null, "metadata": {}}"#,
            "in use",
        ),
        (
            r#"{"status": "denied", "output": {"error": "not you"}, "error": ""}"#,
            "not you",
        ),
        (
            r#"{"status": "error", "error": "none"}"#,
            "failed without a message",
        ),
        (r#"{"error": "gone"}"#, "gone"),
    ] {
        assert_eq!(error(result).as_deref(), Some(words), "{result}");
    }
    for good in [
        r#"{"status": "success", "result": {"returncode": 1}, "error": "", "failed": false, "exit_code": "0"}"#,
        r#"{"status": "ok", "error": "none", "value": 1}"#,
        r#"{"status": "success", "error": {"code": 0}}"#,
        r#"{"status": "success", "message": "done"}"#,
    ] {
        assert_eq!(error(good), None, "{good}");
    }
}

#[test]
fn the_first_critic_that_asks_for_anything_decides() {
    let step = |actions: [&str; 2]| {
        let [a, b] = actions.map(|action| {
            format!(r#"{{"action": "{action}", "reason": "{action} it", "critic_name": ""}}"#)
        });
        read(&format!(
            r#"{{"step_id": 0, "critic_outputs": [{a}, {b}]}}"#
        ))
        .0
    };
    let head = step(["approve", "retry"]);
    assert_eq!(
        (head.deciding(), head.critic_reason.as_deref()),
        (Some(1), Some("retry it"))
    );
    let head = step(["failed", "retry"]);
    assert_eq!(
        (head.deciding(), head.critic_reason.as_deref()),
        (Some(0), None)
    );
    assert!(head.requested(CriticAction::Failed) && !head.requested(CriticAction::Retry));
    assert_eq!(step(["continue", "continue"]).deciding(), None);
}

#[test]
fn undecodable_fields_lose_only_themselves() {
    let (head, remarks, _) =
        read(r#"{"step_id": 7, "critic_outputs": [{"score": 1e999, "action": "stop"}]}"#);
    assert_eq!(
        (
            head.step_id,
            head.fate,
            head.critics.len(),
            head.critics[0].score
        ),
        (Some(7), Fate::Good, 1, None)
    );
    assert_eq!(remarks, []);
    let (head, remarks, _) = read(r#"{"step_id": 1, "step_id": 2}"#);
    assert_eq!(
        (head.step_id, head.fate, remarks.len()),
        (Some(2), Fate::Repaired, 1)
    );
    // An unpaired surrogate is reported wherever it occurs.
    let (head, remarks, _) = read(r#"{"step_id": 1, "observation": {"text": "\ud83d"}}"#);
    assert_eq!(
        (head.fate, remarks[0].0),
        (Fate::Repaired, IssueKind::Repaired)
    );
    let (head, ..) = read(r#"{"step_id": 1, "observation": {"text": "\ud83d\ude00 \\ud83d"}}"#);
    assert_eq!(head.fate, Fate::Good);
}

#[test]
fn the_beginning_of_a_long_argument_is_enough() {
    let call = |text: &str| {
        let text = serde_json::to_string(text)
            .unwrap()
            .replace('😀', r"\ud83d\ude00");
        read(&format!(
            r#"{{"actions": [{{"name": "w", "args": {{"t": {text}}}}}]}}"#
        ))
        .0
        .call
    };
    for text in [
        "x".repeat(5_000),
        "\n\"".repeat(3_000),
        "😀".repeat(2_000),
        format!("a{}", "😀é".repeat(2_000)),
    ] {
        let call = call(&text);
        assert!(
            call.starts_with("w(t=\"") && (150..=163).contains(&call.len()),
            "{call}"
        );
    }
}

#[test]
fn an_invalid_count_in_a_manifest_is_an_issue_with_its_field() {
    let reasons = |text: &str| -> Vec<String> {
        let (_, remarks) = manifest(text.as_bytes()).unwrap();
        assert!(
            remarks.iter().all(|(kind, _)| *kind == IssueKind::Field),
            "{remarks:?}"
        );
        remarks.into_iter().map(|(_, reason)| reason).collect()
    };
    let odd = r#"{"run_id": "a", "step_count": -1, "event_count": 1.5, "token_usage": "many", "resumed_from": {"steps": [1]},
        "summary": {"steps": "five", "token_usage": {}, "task_result": {"metrics": {"steps": 1e300}}},
        "branched_from": {"steps": true}}"#;
    assert_eq!(
        reasons(odd),
        [
            "/step_count is -1, not a count",
            "/event_count is 1.5, not a count",
            "/token_usage is a string, not a count",
            "/summary/steps is a string, not a count",
            "/summary/token_usage is an object, not a count",
            "/summary/task_result/metrics/steps is 1e300, not a count",
            "/resumed_from/steps is an array, not a count",
            "/branched_from/steps is a boolean, not a count",
        ]
    );
    let sound = r#"{"run_id": "a", "parent_run_id": "b", "step_count": 3, "event_count": 0, "token_usage": null,
        "summary": {"steps": 3.0, "task_result": {"metrics": {}}}}"#;
    assert_eq!(reasons(sound), [""; 0]);
    assert_eq!(
        reasons(r#"{"run_id": "a", "parent_run_id": "a"}"#),
        ["/parent_run_id names the run itself"]
    );
}
