//! Tests which rule is reported for a run that records only a word. A rule that the files don't
//! name is never reported.

use super::*;
use crate::analysis::verdict::LimitFrom;
use crate::analysis::why::Standing;

/// A task with limits that no run here reaches.
const INIT: &str = r#"{"step_id": 0, "phase": "INIT", "payload": {"task_meta": {"budget":
    {"max_steps": 40, "max_tokens": 1000, "max_runtime_seconds": 600}}}}"#;

/// Four steps that each changed the state, under the task's limits if `task` is true.
fn four(task: bool) -> Run {
    let run = if task {
        Run::default().event(INIT)
    } else {
        Run::default()
    };
    "abcd"
        .chars()
        .fold(run, |run, tool| run.call(&tool.to_string(), "plan"))
}

/// The same, stopped for `reason` by a criterion with the wording `words`.
fn by_criterion(task: bool, reason: &str, words: &str) -> Run {
    let check = format!(
        r#"{{"step_id": 3, "phase": "CHECK_STOP", "payload": {{"stage": "stop", "stop_reason": "{reason}", "stop_detail": "{words}"}}}}"#
    );
    let end = format!(
        r#"{{"step_id": 3, "phase": "END", "ok": true, "payload": {{"stop_reason": "{reason}"}}}}"#
    );
    let manifest =
        format!(r#"{{"status": "completed", "summary": {{"stop_reason": "{reason}"}}}}"#);
    Run {
        manifest,
        ..four(task).event(&check).event(&end)
    }
}

/// The same, stopped for `reason` with an END event like that of a budget.
fn by_budget(task: bool, reason: &str, manifest: &str) -> Run {
    with(&four(task).ended(reason), manifest)
}

/// Returns the names of the rules with this result.
fn named(why: &Why, standing: Standing) -> Vec<String> {
    why.rules
        .iter()
        .filter(|rule| rule.result == standing)
        .map(RuleStatus::name)
        .collect()
}

#[test]
fn a_criterion_is_not_told_as_the_budget_of_the_same_word() {
    for (reason, words, sentence, rule) in [
        (
            "budget_steps",
            "step_id=3 reached max_steps=3",
            "Step limit reached after step 3 (limit 3)",
            "Step limit",
        ),
        (
            "budget_time",
            "elapsed=0.566s >= max_runtime_seconds=0.400s",
            "Time limit reached after step 3: 566 ms, limit 400 ms",
            "Time limit",
        ),
        (
            "budget_tokens",
            "total_tokens=90 >= max_tokens=80",
            "Token limit reached after step 3: 90 tokens, limit 80",
            "Token limit",
        ),
        (
            "stagnation",
            "stagnant_steps=3",
            "State unchanged for 3 steps in a row",
            "State unchanged",
        ),
        (
            "stagnation",
            "guard says enough",
            "Stopped by a criterion after 4 steps: guard says enough (recorded as stagnation)",
            "Stop criterion",
        ),
        (
            "agent_condition",
            "guard says enough",
            "Stopped by a criterion after 4 steps: guard says enough (recorded as agent_condition)",
            "Stop criterion",
        ),
    ] {
        for task in [true, false] {
            let (summary, why) = by_criterion(task, reason, words).explained();
            assert_eq!(summary.verdict.sentence, sentence);
            assert_eq!(named(&why, Standing::Fired), [rule], "{reason} {words}");
            assert!(
                why.rules.iter().all(|rule| !rule.also),
                "no limit is true besides: {:?}",
                why.rules
            );
            assert_eq!(
                why.contradictions, [""; 0],
                "the numbers of the budget don't matter"
            );
        }
    }
}

#[test]
fn the_criteria_that_were_set_are_named_where_they_are_recorded() {
    let spec = r#""run_spec": {"stop_criteria": ["FinalResultCriteria", "GuardCriteria"]}"#;
    let row = |run: Run, reason: &str| {
        let manifest = format!(
            r#"{{"status": "completed", "summary": {{"stop_reason": "{reason}"}}, {spec}}}"#
        );
        let why = with(&run, &manifest).explained().1;
        let rule = why
            .rules
            .into_iter()
            .find(|rule| rule.id == "criteria")
            .unwrap();
        (rule.result, rule.note)
    };
    let set = "FinalResultCriteria, GuardCriteria";
    let check = r#"{"step_id": 3, "phase": "CHECK_STOP", "payload": {"stage": "continue"}}"#;
    let asked = four(false).event(check).ended("budget_steps");
    assert_eq!(row(asked, "budget_steps"), (Standing::Held, set.to_owned()));
    let not_asked = row(four(false).ended("budget_steps"), "budget_steps");
    assert_eq!(
        not_asked,
        (
            Standing::Unknown,
            format!("{set}; not checked in the last step")
        )
    );
    let note = format!("one of {set}: guard says enough; recorded as stagnation");
    assert_eq!(
        row(
            by_criterion(false, "stagnation", "guard says enough"),
            "stagnation"
        ),
        (Standing::Fired, note)
    );
}

#[test]
fn a_budget_is_named_where_its_end_event_or_its_numbers_show_it() {
    let manifest = |limit: &str| {
        let meta = format!(r#""task_meta": {{"budget": {{"max_steps": {limit}}}}}"#);
        format!(
            r#"{{"status": "completed", "summary": {{"stop_reason": "budget_steps", {meta}}}}}"#
        )
    };
    let (summary, why) = by_budget(false, "budget_steps", &manifest("4")).explained();
    assert_eq!(summary.verdict.sentence, "Step limit reached: 4 of 4 steps");
    assert_eq!(named(&why, Standing::Fired), ["Step limit"]);
    // No file states the limit. A budget's END event shows that the run ended at it.
    let (summary, why) = by_budget(false, "budget_steps", &manifest("null")).explained();
    assert_eq!(summary.verdict.sentence, "Step limit reached after step 3");
    assert_eq!(
        summary.verdict.limit.map(|limit| (limit.steps, limit.from)),
        Some((4, LimitFrom::Inferred))
    );
    assert_eq!(named(&why, Standing::Fired), ["Step limit"]);
    // With only a manifest, the numbers show it or nothing does.
    let alone = |limit: &str| {
        let run = Run {
            events: Vec::new(),
            manifest: manifest(limit),
            ..four(false)
        };
        let (summary, why) = run.explained();
        (
            summary.verdict.sentence.to_string(),
            summary.verdict.limit.map(|limit| limit.steps),
            named(&why, Standing::Fired),
        )
    };
    assert_eq!(
        alone("4"),
        (
            "Step limit reached: 4 of 4 steps".to_owned(),
            Some(4),
            vec!["Step limit".to_owned()]
        )
    );
    let unknown = "Stopped with \"budget_steps\" after 4 steps; the rule isn't recorded".to_owned();
    assert_eq!(
        alone("null"),
        (unknown, None, vec!["Unrecorded rule".to_owned()]),
        "no limit is invented"
    );
}

#[test]
fn numbers_that_refute_the_word_are_named() {
    for (reason, says) in [
        ("budget_steps", "4 of 40 steps"),
        ("budget_tokens", "100 of 1,000 tokens"),
        ("budget_time", "1.3 s, limit 10 min"),
    ] {
        let manifest = format!(
            r#"{{"status": "completed", "token_usage": 100, "latency_seconds": 1.3, "summary": {{"stop_reason": "{reason}"}}}}"#
        );
        let (summary, why) = by_budget(true, reason, &manifest).explained();
        let sentence = format!("Stopped with \"{reason}\" after 4 steps; the rule isn't recorded");
        assert_eq!(summary.verdict.sentence, sentence);
        assert_eq!(named(&why, Standing::Fired), ["Unrecorded rule"]);
        let words = format!(
            "The stop reason {reason} implies that a limit was reached, but the trace records {says}"
        );
        assert_eq!(why.contradictions, [words]);
    }
}

/// A run with errors in its failure report: whether each is recoverable, and what the engine did.
fn failing(reason: &str, failures: &[(&str, &str)]) -> Run {
    let error = |run: Run, _| {
        run.event(
            r#"{"step_id": 1, "phase": "RECOVER", "ok": false, "error": "down", "payload": {}}"#,
        )
    };
    let report: Vec<String> = (failures.iter())
        .map(|(recoverable, decision)| {
            format!(
                r#"{{"step_id": 1, "phase": "DECIDE", "category": "model_error", "message": "down",
                "recoverable": {recoverable}, "decision": "{decision}"}}"#
            )
        })
        .collect();
    let status = if reason == "final" {
        "completed"
    } else {
        "failed"
    };
    let manifest = format!(
        r#"{{"status": "{status}", "summary": {{"stop_reason": "{reason}", "final_result": "x",
        "failure_report": {{"failures": [{}]}}}}}}"#,
        report.join(", ")
    );
    with(
        &failures.iter().fold(calls("ab"), error).ended(reason),
        &manifest,
    )
}

#[test]
fn no_limit_of_recoveries_is_made_up() {
    let row = |run: Run| {
        let why = run.explained().1;
        let row = why
            .rules
            .into_iter()
            .find(|rule| rule.id == "recovery")
            .unwrap();
        assert_eq!((row.reading.limit(), row.limit_from), (None, None));
        (row.name(), row.result, row.reading.measured())
    };
    let six = [("true", "continue"); 6];
    assert_eq!(
        row(failing("final", &six)),
        ("Error recovery".to_owned(), Standing::Unknown, Some(6.0))
    );
    let exhausted = [("true", "continue"), ("true", "stop")];
    assert_eq!(
        row(failing("unrecoverable_error", &exhausted)),
        ("Error recovery".to_owned(), Standing::Fired, Some(1.0))
    );
    for failures in [[("false", "stop")], [("null", "stop")]] {
        let row = row(failing("unrecoverable_error", &failures));
        assert_eq!(row, ("Error recovery".to_owned(), Standing::Fired, None));
    }
}

#[test]
fn an_error_is_no_sort_that_is_not_recovered_from_where_the_report_says_otherwise() {
    let told = |failures: &[(&str, &str)]| {
        let (summary, why) = failing("unrecoverable_error", failures).explained();
        (summary.verdict.sentence, why.rules[0].note.clone())
    };
    let exhausted = [("true", "continue"), ("true", "stop")];
    assert!(told(&exhausted).0.starts_with("Recovery gave up in "));
    assert_eq!(
        told(&exhausted).1,
        "the last error was recoverable too; the limit isn't recorded"
    );
    assert_eq!(
        told(&[("false", "stop")]).1,
        "not a recoverable kind of error"
    );
    assert_eq!(
        told(&[("null", "stop")]).1,
        "neither the limit nor whether it was recoverable is recorded"
    );
}

#[test]
fn errors_before_a_pause_are_counted_too() {
    const RECOVERED: &str =
        r#"{"step_id": 0, "phase": "RECOVER", "ok": false, "error": "down", "payload": {}}"#;
    let run = Run::default()
        .event(INIT)
        .call("a", "x")
        .event(RECOVERED)
        .event(INIT)
        .call("b", "x")
        .event(RECOVERED);
    let run = run.step(r#""decision": {"mode": "final"}"#).ended("final");
    let manifest =
        r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;
    assert_eq!(
        with(&run, manifest).explained().0.verdict.sentence,
        "Answered at step 2 · after 2 recovered errors"
    );
}

#[test]
fn the_newest_failure_is_the_one_that_ended_the_run() {
    let mut failures = vec![("true", "continue"); 60];
    let (summary, why) = failing("unrecoverable_error", &failures).explained();
    assert_eq!(
        summary.verdict.sentence, "Failed in step 1: down · an answer was ready",
        "none of these ended the run"
    );
    assert_eq!(
        why.rules[0].note,
        "neither the limit nor whether it was recoverable is recorded"
    );
    failures.push(("false", "stop"));
    assert_eq!(
        failing("unrecoverable_error", &failures)
            .explained()
            .1
            .rules[0]
            .note,
        "not a recoverable kind of error"
    );
}

/// A manifest with this end and without an answer.
fn unanswered(reason: &str) -> String {
    format!(r#"{{"status": "completed", "summary": {{"stop_reason": "{reason}"}}}}"#)
}

#[test]
fn a_stop_check_without_words_leaves_open_which_rule_it_was() {
    for reason in ["budget_steps", "budget_time", "stagnation", "max_steps"] {
        let check = format!(
            r#"{{"step_id": 3, "phase": "CHECK_STOP", "payload": {{"stage": "stop", "stop_reason": "{reason}"}}}}"#
        );
        let end = format!(
            r#"{{"step_id": 3, "phase": "END", "ok": true, "payload": {{"stop_reason": "{reason}"}}}}"#
        );
        let run = Run {
            manifest: unanswered(reason),
            ..four(false).event(&check).event(&end)
        };
        let (summary, why) = run.explained();
        let sentence = format!("Stopped with \"{reason}\" after 4 steps; the rule isn't recorded");
        assert_eq!(
            summary.verdict.sentence, sentence,
            "an agent may set the word itself"
        );
        assert_eq!(named(&why, Standing::Fired), ["Unrecorded rule"]);
    }
}

#[test]
fn an_end_that_no_file_bears_out_is_told_as_recorded_and_not_as_true() {
    let told = |run: Run, reason: &str| {
        let (summary, why) = with(&run.ended(reason), &unanswered(reason)).explained();
        assert_eq!(
            (summary.verdict.mark, summary.verdict.answered),
            (RunStatus::Unknown, false)
        );
        (
            summary.verdict.sentence.to_string(),
            why.contradictions.last().cloned().unwrap_or_default(),
        )
    };
    for reason in ["final", "success", "final_result"] {
        let says = format!("Ended with \"{reason}\" after step 1, but no file has an answer");
        let but = format!("The stop reason {reason} implies an answer, but no file has one");
        assert_eq!(told(calls("ab"), reason), (says, but));
    }
    for reason in ["task_validation_failed", "env_capability_mismatch"] {
        let says = format!(
            "Ended with \"{reason}\" after 2 steps, although that means the run never started"
        );
        let but = format!(
            "The stop reason {reason} implies that the run didn't start, but it has 2 steps"
        );
        assert_eq!(told(calls("ab"), reason), (says, but));
    }
    let says = "Ended with \"critic_stop\" after step 1, but no critic requested a stop";
    let but = "The stop reason critic_stop implies that a critic stopped the run, but none requested a stop";
    assert_eq!(
        told(calls("ab"), "critic_stop"),
        (says.to_owned(), but.to_owned())
    );
}

#[test]
fn a_finished_manifest_without_an_end_event_is_a_contradiction() {
    let manifest =
        r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;
    let words = "The manifest records completed, but the newest run has no readable END event";
    assert_eq!(
        with(&four(true), manifest).explained().1.contradictions,
        [words]
    );
    assert_eq!(
        with(&calls("ab"), manifest).explained().1.contradictions,
        [""; 0],
        "nothing but lost events"
    );
}

#[test]
fn a_manifest_that_its_writer_never_updates_contradicts_nothing() {
    for reason in ["task_validation_failed", "env_capability_mismatch"] {
        let run = with(
            &Run::default().event(INIT).ended(reason),
            r#"{"status": "running"}"#,
        );
        assert_eq!(run.explained().1.contradictions, [""; 0], "{reason}");
    }
    let words = "The manifest still records status running, but the END event records that the run ended with critic_stop";
    let run = with(&calls("a").ended("critic_stop"), r#"{"status": "running"}"#);
    assert_eq!(
        run.explained().1.contradictions.last().map(String::as_str),
        Some(words)
    );
}

#[test]
fn a_run_that_answered_by_its_state_was_not_ended_by_a_final_decision() {
    let manifest =
        r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;
    let (summary, why) = with(&calls("ab").ended("final"), manifest).explained();
    assert_eq!(
        (&*summary.verdict.sentence, summary.verdict.mark),
        ("Answered at step 1", RunStatus::Answered)
    );
    assert_eq!(named(&why, Standing::Fired), ["Unrecorded rule"]);
    let answered = calls("a").step(r#""decision": {"mode": "final"}"#);
    assert_eq!(
        named(
            &with(&answered.ended("final"), manifest).explained().1,
            Standing::Fired
        ),
        ["Final answer"]
    );
    // If the last step has no line, its events show the decision.
    let decided = |mode: &str, actions: &str| {
        let ready = r#"{"step_id": 2, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
        let decided = format!(
            r#"{{"step_id": 2, "phase": "DECIDE", "payload": {{"stage": "decision_ready", "mode": "{mode}", "actions": [{actions}]}}}}"#
        );
        let why = with(
            &calls("ab").event(ready).event(&decided).ended("final"),
            manifest,
        )
        .explained()
        .1;
        named(&why, Standing::Fired).remove(0)
    };
    assert_eq!(decided("final", ""), "Final answer");
    assert_eq!(decided("act", r#"{"name": "a"}"#), "Unrecorded rule");
}

#[test]
fn what_was_not_asked_in_the_last_step_is_not_told_from_the_step_before() {
    const CONTINUED: &str =
        r#"{"step_id": 0, "phase": "CHECK_STOP", "payload": {"stage": "continue"}}"#;
    let critic = |mode: &str| {
        format!(
            r#""decision": {{"mode": "{mode}"}}, "critic_outputs": [{{"critic_name": "C", "action": "stop", "score": 0.1}}]"#
        )
    };
    let row = |run: Run, id: &str| {
        let why = with(&run.ended("critic_stop"), &unanswered("critic_stop"))
            .explained()
            .1;
        let rule = why.rules.into_iter().find(|rule| rule.id == id).unwrap();
        (rule.result, rule.note)
    };
    let asked = |mode: &str| calls("a").event(CONTINUED).step(&critic(mode));
    for id in ["agent", "env"] {
        assert_eq!(
            row(asked("act"), id),
            (Standing::Unknown, "not checked in the last step".to_owned())
        );
    }
    assert_eq!(
        row(asked("act"), "decision"),
        (Standing::Held, String::new()),
        "there was none"
    );
    assert_eq!(row(asked("final"), "decision").0, Standing::Unknown);
}

#[test]
fn a_run_that_died_after_its_stop_check_names_the_rule_that_had_stopped_it() {
    let check = r#"{"step_id": 1, "phase": "CHECK_STOP", "payload": {"stage": "stop", "stop_reason": "final"}}"#;
    let run = calls("a")
        .step(r#""decision": {"mode": "final"}"#)
        .event(check);
    let why = with(&run, r#"{"status": "running"}"#).explained().1;
    assert_eq!(named(&why, Standing::Fired), ["Final answer"]);
}

#[test]
fn steps_are_not_counted_from_lines_that_hold_none() {
    let measured = |line: &str| {
        let mut run = calls("ab");
        run.steps.push(line.to_owned());
        let manifest =
            r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;
        let why = with(&run.ended("final"), manifest).explained().1;
        why.rules
            .into_iter()
            .find(|rule| rule.id == "budget.steps")
            .unwrap()
            .reading
            .measured()
    };
    assert_eq!(measured(r#"{"step_id": 1.5}"#), None);
    assert_eq!(measured(r#""just a text""#), None);
    // A run that died in step 3 and has no line for step 1. Including that, three were over.
    let died = |run: Run| {
        let why = with(&run, r#"{"status": "running"}"#).explained().1;
        why.rules
            .into_iter()
            .find(|rule| rule.id == "budget.steps")
            .unwrap()
            .reading
            .measured()
    };
    let begun = || {
        let mut run = calls("abcd");
        run.steps.pop();
        run
    };
    assert_eq!(died(begun()), Some(3.0));
    let mut without = begun();
    without.steps.remove(1);
    assert_eq!(died(without), None);
}

#[test]
fn where_the_files_disagree_on_the_end_no_rule_is_said_to_have_held() {
    let manifest = r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x",
        "task_meta": {"budget": {"max_steps": 40}}}}"#;
    let why = by_budget(true, "critic_stop", manifest).explained().1;
    assert_eq!(named(&why, Standing::Fired), [""; 0]);
    let mut held = named(&why, Standing::Held);
    held.sort();
    assert_eq!(held, ["Step limit"], "there was room left");
}
