use super::*;
use crate::analysis::life::{ExternalFacts, life};
use crate::model::{Delta, Issue, IssueKind, ManifestState, Names, Origin, TraceFile};

/// Judges a run with these lines, long after it was written.
fn sentence(steps: &[&str], events: &[&str], manifest: Option<&str>) -> (String, String) {
    let verdict = judged(steps, events, manifest);
    (verdict.sentence.to_string(), verdict.second.to_string())
}

fn judged(steps: &[&str], events: &[&str], manifest: Option<&str>) -> Verdict {
    judged_at(LATER, steps, events, manifest)
}

/// Long after files of time 0 were written, in microseconds.
const LATER: i64 = 1_000_000_000_000;

fn judged_at(now: i64, steps: &[&str], events: &[&str], manifest: Option<&str>) -> Verdict {
    let mut names = Names::default();
    let steps = steps
        .iter()
        .map(|line| crate::format::step_head(line.as_bytes(), &mut names).0)
        .collect();
    let mut delta = Delta {
        steps,
        ..Delta::default()
    };
    for line in events {
        let (head, note, _) = crate::format::event_head(line.as_bytes(), &mut names);
        delta.events.push((head, note));
    }
    delta.manifest = manifest.map(|text| {
        ManifestState::Read(Box::new(
            crate::format::manifest(text.as_bytes()).unwrap().0,
        ))
    });
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    let outside = ExternalFacts {
        now,
        written: Some((0, 0)),
        ..ExternalFacts::default()
    };
    verdict(&index, &life(&index, outside))
}

const STEP_0: &str = r#"{"step_id": 0, "decision": {"mode": "act"}}"#;
const OPENS_0: &str = r#"{"step_id": 0, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
const OPENS_1: &str = r#"{"step_id": 1, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
const STOP: &str = r#"{"step_id": 0, "phase": "CHECK_STOP", "payload": {"stage": "stop", "stop_reason": "final"}}"#;
const TEARDOWN: &str = r#"{"step_id": 0, "phase": "toolset_teardown_start", "payload": {}}"#;
const FINAL: &str =
    r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;

#[test]
fn a_step_that_no_file_tells_of_is_not_made_up() {
    assert_eq!(sentence(&[], &[], Some(FINAL)).0, "Answered");
    assert_eq!(
        sentence(&[STEP_0], &[], Some(FINAL)).0,
        "Answered at step 0"
    );
    assert_eq!(
        sentence(&[STEP_0], &[OPENS_0, OPENS_1], Some(FINAL)).0,
        "Answered at step 1"
    );
}

#[test]
fn what_a_run_does_now_is_what_its_newest_event_says() {
    let now = |event: &str| {
        let ready = r#"{"step_id": 0, "phase": "DECIDE", "payload": {"stage": "decision_ready", "mode": "handoff"}}"#;
        judged_at(
            1,
            &[],
            &[OPENS_0, ready, event],
            Some(r#"{"status": "running"}"#),
        )
        .sentence
    };
    let event = |phase: &str, stage: &str| {
        format!(r#"{{"step_id": 0, "phase": "{phase}", "payload": {{"stage": "{stage}"}}}}"#)
    };
    for (phase, stage, does) in [
        ("HANDOFF_START", "", "handing off to another agent"),
        ("HANDOFF_END", "", "handing off to another agent"),
        ("CHECK_STOP", "start", "checking rules"),
        ("CHECK_STOP", "continue", "checking rules"),
        ("CRITIC", "outputs", "asking critics"),
        ("REDUCE", "start", "updating its state"),
    ] {
        assert_eq!(
            now(&event(phase, stage)),
            format!("Step 0: {does}"),
            "{phase} {stage}"
        );
    }
    assert_eq!(now(STOP), "Step 0: ending the run", "the check is over");
}

#[test]
fn a_tool_that_a_guard_let_pass_is_waited_for() {
    let call = r#"{"step_id": 0, "phase": "DECIDE", "payload": {"stage": "decision_ready", "mode": "act",
        "actions": [{"name": "slow", "args": {}}, {"name": "other", "args": {}}]}}"#;
    let gate = |stage: &str| {
        format!(
            r#"{{"step_id": 0, "phase": "GATE", "payload": {{"stage": "{stage}", "tool": "slow", "action": 0}}}}"#
        )
    };
    let events = |stages: &[&str]| {
        let call = call.replace('\n', " ");
        [OPENS_0.to_owned(), call]
            .into_iter()
            .chain(stages.iter().map(|stage| gate(stage)))
            .collect::<Vec<_>>()
    };
    let judged = |second: i64, stages: &[&str]| {
        let events = events(stages);
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        judged_at(second, &[], &events, Some(r#"{"status": "running"}"#)).sentence
    };
    assert_eq!(judged(1, &["allow"]), "Step 0: waiting for slow");
    assert_eq!(judged(1, &["change"]), "Step 0: waiting for slow");
    assert_eq!(judged(1, &["change", "allow"]), "Step 0: waiting for slow");
    assert_eq!(
        judged(1, &["deny", "change"]),
        "Step 0: waiting for a tool",
        "the second call"
    );
    assert_eq!(
        judged(1, &["allow", "allow"]),
        "Step 0: waiting for a tool",
        "the second call"
    );
    assert_eq!(judged(1, &["ask"]), "Step 0: asking for approval");
    assert_eq!(
        judged(1, &["deny"]),
        "Step 0: continuing without a call that was denied"
    );
    assert_eq!(judged(1, &["stop"]), "Step 0: ending the run");
}

#[test]
fn a_death_names_the_place_and_a_stop_that_was_decided() {
    let died = |steps: &[&str], events: &[&str]| sentence(steps, events, None).0;
    assert_eq!(died(&[], &[OPENS_0]), "Died in step 0 while deciding");
    assert_eq!(
        died(&[STEP_0], &[OPENS_0]),
        "Died after step 0 while deciding"
    );
    assert_eq!(
        died(&[STEP_0], &[OPENS_0, STOP]),
        "Died after step 0: stop reason \"final\" recorded, but no END event"
    );
    assert_eq!(
        died(&[STEP_0], &[OPENS_0, TEARDOWN]),
        "Died after step 0: the engine closed its tools but wrote no END event"
    );
    assert_eq!(
        died(&[], &[OPENS_0, STOP, TEARDOWN]),
        "Died in step 0: stop reason \"final\" recorded, but no END event"
    );
    assert_eq!(
        died(&[], &[TEARDOWN]),
        "Died in setup: the engine closed its tools but wrote no END event"
    );
}

#[test]
fn a_phase_that_is_not_known_is_named_as_recorded() {
    let odd = r#"{"step_id": 0, "phase": "DREAM_ON", "payload": {}}"#;
    assert_eq!(
        sentence(&[], &[odd], None).0,
        "Died in step 0; the last event is DREAM_ON"
    );
    let running = judged_at(1, &[], &[odd], Some(r#"{"status": "running"}"#));
    assert_eq!(running.sentence, "Step 0: the last event is DREAM_ON");
}

#[test]
fn what_cannot_be_read_is_not_told_as_unwritten() {
    let index = |passing: Vec<Issue>| {
        let mut index = Index::default();
        index.apply(Delta {
            passing,
            ..Delta::default()
        });
        index
    };
    let issue = |file| Issue {
        kind: IssueKind::Unreadable,
        file,
        line: None,
        offset: None,
        reason: String::new(),
    };
    let after =
        |passing: Vec<Issue>| stop_word::without_events(&index(passing), Some("step 1".to_owned()));
    assert_eq!(after(vec![]), "Died after step 1: no events were written");
    assert_eq!(
        after(vec![issue(TraceFile::Steps)]),
        "Died after step 1: no events were written"
    );
    assert_eq!(
        after(vec![issue(TraceFile::Events)]),
        "Unknown end after step 1: the events can't be read"
    );
    assert_eq!(
        stop_word::nothing_yet(&index(vec![])),
        "Started; nothing written yet"
    );
    assert_eq!(
        stop_word::nothing_yet(&index(vec![issue(TraceFile::Steps)])),
        "Unreadable so far"
    );
}

#[test]
fn a_run_that_starts_over_and_dies_is_not_the_run_before() {
    let init = r#"{"step_id": 0, "phase": "INIT", "payload": {}}"#;
    let end = r#"{"step_id": 1, "phase": "END", "payload": {"stop_reason": "final"}}"#;
    let (words, _) = sentence(&[STEP_0], &[init, OPENS_0, end, init, TEARDOWN], None);
    assert_eq!(
        words,
        "Died in setup: the engine closed its tools but wrote no END event"
    );
}

#[test]
fn the_second_sentence_tells_the_last_error_and_never_scolds_a_run_that_did_not_start() {
    let error = r#"{"step_id": 0, "phase": "RECOVER", "ok": false, "error": "no space left", "payload": {}}"#;
    assert_eq!(
        sentence(&[], &[OPENS_0, error], None).1,
        "Error in step 0: no space left."
    );
    let end = r#"{"step_id": 0, "phase": "END", "ok": false, "payload": {"stop_reason": "env_capability_mismatch",
        "issues": [{"code": "ENV_HEALTH_CHECK_FAILED", "message": "down"}]}}"#;
    let (words, second) = sentence(&[], &[end], None);
    assert_eq!(words, "Not started: the environment is unhealthy");
    assert_eq!(second, "");
}

/// Judges a run of one step with this mode (`final` for an answer) that ended with this verdict.
fn recorded_as(mode: &str, stop: &str) -> Verdict {
    let step = format!(r#"{{"step_id": 0, "decision": {{"mode": "{mode}"}}, "facts": {{}}}}"#);
    let end = format!(
        r#"{{"step_id": 0, "phase": "END", "ok": false, "error": "e", "payload": {{"stop": {stop}}}}}"#
    );
    let manifest = format!(r#"{{"writer": "board 0.1.0", "status": "completed", "stop": {stop}}}"#);
    judged(&[&step], &[OPENS_0, &end], Some(&manifest))
}

#[test]
fn a_recorded_limit_is_told_with_what_was_measured() {
    let budget = recorded_as(
        "final",
        r#"{"code": "budget_steps", "criterion": "budget.steps", "source": "budget", "gate": "before_step", "step": 0,
        "outcome": "truncated", "measured": 1, "limit": 1, "op": ">=", "unit": "steps", "limit_from": "task",
        "also": ["budget.tokens", "stop[1]"]}"#,
    );
    assert_eq!(
        budget.sentence,
        "Step limit reached: 1 of 1 step · the answer wasn't accepted"
    );
    assert_eq!(
        budget.second,
        "At the same time, the token limit was reached and stop[1] was true."
    );
    assert_eq!(
        (budget.outcome, budget.mark, budget.step),
        (Outcome::Truncated, RunStatus::Limit, Some(0))
    );
    assert_eq!(budget.certainty, Certainty::Recorded);
    // Work that was dropped at the limit has the limit's code as its criterion.
    let dropped = recorded_as(
        "act",
        r#"{"code": "budget_time", "criterion": "budget_time", "source": "budget", "gate": "after_step", "step": 0,
        "outcome": "truncated", "detail": "the run had to end within 400 ms", "also": ["budget.time"]}"#,
    );
    assert_eq!(dropped.second, "");
    let time = recorded_as(
        "act",
        r#"{"code": "timeout", "source": "policy", "step": 0, "measured": 61500, "limit": 60000, "op": ">",
        "unit": "ms", "limit_from": "cli"}"#,
    );
    assert_eq!(time.sentence, "Timeout: 1 min 2 s, limit 1 min");
    let unstarted = r#"{"code": "budget_tokens", "source": "budget", "measured": 0, "limit": 0, "unit": "tokens"}"#;
    assert_eq!(
        recorded_as("act", unstarted).sentence,
        "Token limit reached: 0 of 0 tokens · before the first step"
    );
}

#[test]
fn a_stop_reason_that_the_agent_borrowed_is_told_as_its_own() {
    let ends = |code: &str, reason: &str, detail: &str| {
        let stop = format!(
            r#"{{"code": "{code}", "source": "agent", "gate": "after_step", "step": 0, "stop_reason": "{reason}",
            "outcome": "truncated", "detail": "{detail}"}}"#
        );
        let verdict = recorded_as("act", &stop);
        (verdict.sentence.to_string(), verdict.mark)
    };
    assert_eq!(
        ends(
            "budget_steps",
            "budget_steps",
            "the agent set its stop reason to budget_steps"
        ),
        (
            "The agent ended the run as budget_steps after step 0".to_owned(),
            RunStatus::Stopped
        )
    );
    let (sentence, mark) = ends(
        "critic_stop",
        "critic_stop",
        "the agent set its stop reason to critic_stop",
    );
    assert_eq!(
        (&*sentence, mark),
        (
            "The agent ended the run as critic_stop after step 0",
            RunStatus::Stopped
        )
    );
    let (sentence, _) = ends(
        "task_validation_failed",
        "task_validation_failed",
        "the agent set its stop reason to task_validation_failed",
    );
    assert_eq!(
        sentence,
        "The agent ended the run as task_validation_failed after step 0"
    );
    // The state's word is told, not the code that it stands for.
    let (sentence, _) = ends(
        "cancelled_after_step",
        "cancelled_after_step",
        "the agent set its stop reason to interrupt",
    );
    assert_eq!(
        sentence,
        "The agent ended the run as interrupt after step 0"
    );
}

#[test]
fn a_rule_that_stops_with_the_code_of_an_answer_answers_nothing() {
    let stop = r#"{"code": "final", "criterion": "done", "source": "policy", "gate": "after_step", "step": 0,
        "stop_reason": "agent_condition", "outcome": "halted", "detail": "it is done"}"#;
    let verdict = recorded_as("act", stop);
    assert_eq!(
        (&*verdict.sentence, verdict.mark, verdict.outcome),
        (
            "Stopped by the rule done after step 0, without an answer: it is done",
            RunStatus::Stopped,
            Outcome::Halted
        )
    );
    assert_eq!(verdict.contradictions, [""; 0]);
}

/// Every code has its own sentence, and a status that fits its outcome.
#[test]
fn every_code_reads_as_a_sentence() {
    use crate::model::{Code, Source};
    let mut table = String::new();
    for code in Code::KNOWN.iter().cloned().chain([Code::from("mine")]) {
        let source = if code == Code::AgentFailed {
            Source::Error
        } else {
            Source::Policy
        };
        let outcome = code.outcome(&source);
        let stop = format!(
            r#"{{"code": "{code}", "criterion": "c", "source": "policy", "step": 0, "outcome": "{}",
            "stop_reason": "{}", "detail": "why", "measured": 3, "limit": 3, "unit": "things"}}"#,
            outcome.as_str(),
            code.stop_reason(&source)
        );
        let verdict = recorded_as("act", &stop);
        // The run has no answer.
        let outcome = match code {
            Code::AgentCondition | Code::EnvTerminal => Outcome::Halted,
            _ => outcome,
        };
        assert_eq!(verdict.outcome.as_str(), outcome.as_str(), "{code}");
        table.push_str(&format!("{}: {}\n", verdict.mark.word(), verdict.sentence));
    }
    insta::assert_snapshot!(table, @r"
    answered: Answered at step 0
    answered: Answered at step 0
    stopped: The agent's own stop condition was met after step 0
    stopped: The environment ended the episode at step 0
    answered: Answered at step 0: why
    answered: Answered at step 0 with the requested JSON
    answered: Answered at step 0: why
    limit: Round limit reached: 3 of 3 things
    limit: Step limit reached: 3 of 3 things
    limit: Step limit reached: 3 of 3 things
    limit: Timeout: 3 of 3 things
    limit: Time limit reached: 3 of 3 things
    limit: Time limit reached: 3 of 3 things
    limit: Token limit exceeded: 3 of 3 things
    limit: Token limit reached: 3 of 3 things
    limit: 3 identical replies in a row
    limit: State unchanged for 3 steps in a row
    stopped: Stopped because the agent requested a tool that ends the run: why
    stopped: Stopped by text in the model's reply at step 0: why
    critic stop: Stopped by a critic: why
    critic stop: Stopped by low critic scores: why
    error: Stopped after 3 failed steps in a row
    error: Stopped by an invalid rule: why
    error: Failed with an error after step 0: why
    error: Failed with an error after step 0: why
    error: Failed with an error after step 0: why
    error: The agent's code failed in step 0: why
    error: Failed with an error after step 0: why
    error: Failed with an error after step 0: why
    error: Ended because the trace couldn't be written: why
    limit: Context window full at step 0: why
    error: Not started: why
    error: Not started: why
    cancelled: Cancelled during step 0
    cancelled: Cancelled after step 0
    stopped: Stopped by the custom rule mine after step 0: why
    ");
}

#[test]
fn the_tool_that_ended_a_run_is_named_by_its_action() {
    let step = r#"{"step_id": 0, "decision": {"mode": "act", "actions": [{"name": "look"}, {"name": "deploy"}]}, "facts": {}}"#;
    let of = |detail: &str, evidence: &str| {
        let stop = format!(
            r#"{{"code": "stop_on_tool", "criterion": "stop[0]", "source": "policy", "step": 0, "detail": "{detail}",
            "evidence": {evidence}}}"#
        );
        let end = format!(r#"{{"step_id": 0, "phase": "END", "payload": {{"stop": {stop}}}}}"#);
        let manifest =
            format!(r#"{{"writer": "board 0.1.0", "status": "completed", "stop": {stop}}}"#);
        judged(&[step], &[OPENS_0, &end], Some(&manifest)).sentence
    };
    let named = "Stopped because the agent requested deploy";
    let deploy = r#"[{"step": 0, "action": 1}]"#;
    assert_eq!(of("the model called deploy", deploy), named);
    assert_eq!(
        of("the model called deploy, and 8 steps, limit 8", deploy),
        named
    );
    let both = "the tool deploy was asked for, and the tool look was asked for";
    assert_eq!(
        of(
            both,
            r#"[{"step": 0, "action": 1}, {"step": 0, "action": 0}]"#
        ),
        format!("Stopped because the agent requested a tool that ends the run: {both}")
    );
    assert_eq!(
        of("why", r#"[{"step": 0, "action": 7}]"#),
        "Stopped because the agent requested a tool that ends the run: why"
    );
}

#[test]
fn a_run_cancelled_between_two_steps_was_in_neither() {
    let at = |gate: &str| {
        let stop = format!(
            r#"{{"code": "cancelled_immediate", "source": "cancel", "gate": "{gate}", "step": 0}}"#
        );
        recorded_as("act", &stop).sentence
    };
    assert_eq!(at("before_step"), "Cancelled after step 0");
    assert_eq!(at("after_decide"), "Cancelled during step 0");
    assert_eq!(at("after_step"), "Cancelled during step 0");
}

#[test]
fn an_end_without_a_manifest_is_enough() {
    let end = r#"{"step_id": 0, "phase": "END", "ok": false, "error": "no task", "payload": {"stop_reason":
        "task_validation_failed", "stop": {"code": "task_validation_failed", "source": "preflight", "detail": "no task"}}}"#;
    let verdict = judged(&[], &[end], None);
    assert_eq!(verdict.sentence, "Not started: no task");
    assert_eq!(
        (verdict.second.as_str(), verdict.step, verdict.mark),
        ("", None, RunStatus::Error)
    );
}

#[test]
fn the_limit_that_held_is_the_recorded_one() {
    let manifest = |rules: &str| {
        let text = format!(
            r#"{{"status": "running", "stop_rules": {rules}, "summary": {{"task_meta": {{"budget": {{"max_steps": 4}}}}}}}}"#
        );
        let limit = judged(&[STEP_0], &[OPENS_0], Some(&text)).limit.unwrap();
        (limit.steps, limit.from)
    };
    assert_eq!(manifest("null"), (4, LimitFrom::SetBy(Origin::Task)));
    assert_eq!(
        manifest(r#"{"budget": {"steps": {"limit": 10, "from": "default"}}}"#),
        (10, LimitFrom::SetBy(Origin::Default))
    );
    assert_eq!(
        manifest(r#"{"budget": {"steps": 7}}"#),
        (7, LimitFrom::SetBy(Origin::Engine))
    );
}

/// A step with an answer for which a critic requested a stop.
const ANSWER_1: &str = r#"{"step_id": 1, "decision": {"mode": "final", "final_answer": "x"},
    "critic_outputs": [{"action": "stop", "score": 0.1, "reason": "wrong"}]}"#;

fn end(step: u64, reason: &str) -> String {
    format!(
        r#"{{"step_id": {step}, "phase": "END", "ok": true, "payload": {{"stop_reason": "{reason}"}}}}"#
    )
}

#[test]
fn an_answer_that_a_critic_stopped_was_given() {
    let manifest = r#"{"status": "completed", "summary": {"stop_reason": "critic_stop"}}"#;
    let verdict = judged(
        &[STEP_0, ANSWER_1],
        &[OPENS_0, OPENS_1, &end(1, "critic_stop")],
        Some(manifest),
    );
    assert_eq!(
        verdict.sentence,
        "Stopped by critic 1 (score 0.10): wrong · the answer wasn't accepted"
    );
    assert_eq!((&*verdict.second, verdict.answered), ("", false));
}

#[test]
fn the_files_may_disagree_on_the_end() {
    let verdict = judged(
        &[STEP_0, ANSWER_1],
        &[OPENS_0, OPENS_1, &end(1, "critic_stop")],
        Some(FINAL),
    );
    assert_eq!(
        verdict.sentence,
        "The files disagree on how the run ended: the manifest records final, but the END event records critic_stop"
    );
    assert_eq!(
        (&*verdict.second, verdict.mark, verdict.certainty),
        ("", RunStatus::Unknown, Certainty::Unknown)
    );
    let said = "The files disagree on how the run ended: final (manifest.json /summary/stop_reason), \
        critic_stop (events.jsonl:0 /payload/stop_reason)";
    assert_eq!(verdict.contradictions, [said]);
}

#[test]
fn an_answer_that_is_not_recorded_was_given_all_the_same() {
    let without = FINAL.replace(r#", "final_result": "x""#, "");
    let verdict = judged(&[], &[], Some(&without));
    assert_eq!(
        (&*verdict.sentence, &*verdict.second),
        ("Answered", "Its answer isn't recorded.")
    );
    let limit = without.replace("\"final\"", "\"budget_steps\"");
    assert_eq!(
        judged(&[STEP_0], &[], Some(&limit)).second,
        "No answer was given."
    );
}

#[test]
fn a_last_step_without_a_line_has_no_place() {
    let verdict = judged(
        &[STEP_0],
        &[OPENS_0, OPENS_1, &end(1, "final")],
        Some(FINAL),
    );
    assert_eq!(
        (&*verdict.sentence, verdict.step),
        ("Answered at step 1", None)
    );
}

#[test]
fn what_stands_after_the_end_is_no_part_of_the_run() {
    let late = r#"{"step_id": 2, "decision": {"mode": "act"}}"#;
    let opens_late = r#"{"step_id": 2, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
    let answer = r#"{"step_id": 1, "decision": {"mode": "final", "final_answer": "x"}}"#;
    let end = end(1, "final");
    for events in [
        &[OPENS_0, OPENS_1, &end][..],
        &[OPENS_0, OPENS_1, &end, opens_late],
    ] {
        let verdict = judged(&[STEP_0, answer, late], events, Some(FINAL));
        assert_eq!(
            (&*verdict.sentence, verdict.step),
            ("Answered at step 1 · conflicting records", Some(1))
        );
        assert_eq!(
            verdict.contradictions,
            ["The END event comes after step 1, but steps.jsonl continues to step 2"]
        );
    }
}

#[test]
fn a_good_end_without_an_answer_is_not_answered() {
    let ended = |reason: &str, answer: &str| {
        let manifest = format!(
            r#"{{"status": "completed", "summary": {{"stop_reason": "{reason}", "final_result": {answer}}}}}"#
        );
        judged(&[STEP_0], &[OPENS_0, &end(0, reason)], Some(&manifest)).answered
    };
    let told = [
        ended("final", r#""x""#),
        ended("env_terminal", "null"),
        ended("agent_condition", "null"),
        ended("env_terminal", r#""x""#),
        ended("critic_stop", r#""x""#),
    ];
    assert_eq!(told, [true, false, false, true, false]);
}

/// Earlier versions of the engine recorded such an end as completed.
#[test]
fn an_end_without_an_answer_is_halted_whatever_the_outcome_recorded() {
    let ended = |code: &str, outcome: &str, answer: &str| {
        let stop = format!(
            r#"{{"code": "{code}", "source": "agent", "gate": "after_step", "step": 0, "stop_reason": "{code}",
            "outcome": "{outcome}"}}"#
        );
        let manifest = format!(
            r#"{{"writer": "board 0.1.0", "status": "completed", "stop": {stop},
            "summary": {{"stop_reason": "{code}", "final_result": {answer}}}}}"#
        );
        let step = r#"{"step_id": 0, "decision": {"mode": "act"}, "facts": {}}"#;
        let verdict = judged(&[step], &[OPENS_0], Some(&manifest));
        assert!(verdict.contradictions.is_empty(), "{verdict:?}");
        (verdict.outcome, verdict.mark, verdict.answered)
    };
    for code in ["agent_condition", "env_terminal"] {
        let halted = (Outcome::Halted, RunStatus::Stopped, false);
        assert_eq!(ended(code, "completed", "null"), halted);
        assert_eq!(ended(code, "halted", "null"), halted);
        assert_eq!(
            ended(code, "completed", r#""x""#),
            (Outcome::Completed, RunStatus::Stopped, true)
        );
    }
}

#[test]
fn a_state_that_changed_is_not_told_as_unchanged() {
    let told = |diff: &str| {
        let step = |id: u64| {
            format!(
                r#"{{"step_id": {id}, "decision": {{"mode": "act"}}, "state_diff": {{{diff}}}, "facts": {{}}}}"#
            )
        };
        let stop = r#"{"code": "stagnation", "criterion": "stop[0]", "source": "policy", "step": 2, "outcome": "halted",
            "measured": 2, "limit": 2, "op": ">=", "unit": "steps without change",
            "evidence": [{"from_step": 0, "to_step": 2}]}"#;
        let manifest =
            format!(r#"{{"writer": "board 0.1.0", "status": "completed", "stop": {stop}}}"#);
        judged(&[&step(0), &step(1), &step(2)], &[OPENS_0], Some(&manifest)).sentence
    };
    let counted = r#""current_step": {"before": 1, "after": 2}"#;
    assert_eq!(
        told(counted),
        "State unchanged for 2 steps in a row",
        "the engine's counter changes in every step"
    );
    let part = "The state that the agent compares didn't change for 2 steps in a row";
    assert_eq!(
        told(r#""n": {"before": 1, "after": 2}"#),
        part,
        "an agent may compare only part of the state"
    );
}

#[test]
fn two_answers_are_a_contradiction() {
    let told = |answer: &str| {
        let stop = format!(
            r#"{{"step_id": 0, "phase": "CHECK_STOP", "payload": {{"stage": "stop", "stop_reason": "final", "final_result": "{answer}"}}}}"#
        );
        let long = "x".repeat(3_000);
        let manifest = FINAL.replace("\"x\"", &format!("\"{long}\""));
        judged(
            &[STEP_0],
            &[OPENS_0, &stop, &end(0, "final")],
            Some(&manifest),
        )
        .contradictions
    };
    assert_eq!(
        told(&"x".repeat(3_000)),
        [""; 0],
        "each is kept up to its own maximum length"
    );
    for other in ["y", "x", &format!("{}y", "x".repeat(300))] {
        let said = told(other);
        assert!(
            said.len() == 1 && said[0].starts_with("The files disagree on the answer: "),
            "{said:?}"
        );
    }
}

#[test]
fn two_verdicts_of_one_rule_are_told_by_what_differs() {
    let stop = |measured: u64| {
        format!(
            r#"{{"code": "budget_tokens", "criterion": "budget.tokens", "source": "budget", "gate": "after_step", "step": 0,
            "outcome": "truncated", "measured": {measured}, "limit": 4000, "op": ">=", "unit": "tokens"}}"#
        )
    };
    let told = |in_manifest: &str, in_event: &str| {
        let end = format!(
            r#"{{"step_id": 0, "phase": "END", "payload": {{"stop_reason": "budget_tokens", "stop": {in_event}}}}}"#
        );
        let manifest =
            format!(r#"{{"writer": "board 0.1.0", "status": "completed", "stop": {in_manifest}}}"#);
        judged(&[STEP_0], &[OPENS_0, &end], Some(&manifest)).contradictions
    };
    assert_eq!(
        told(&stop(999_999), &stop(5698)),
        [
            "The manifest and the END event both record budget_tokens by budget.tokens after step 0 but differ: \
             measured is 999999 vs. 5698",
            "The files disagree on the tokens: 999,999 (manifest.json /stop/measured), \
             5,698 (events.jsonl:0 /payload/stop/measured)"
        ]
    );
    let without = stop(5698).replace(r#""limit": 4000, "#, "");
    assert!(told(&stop(5698), &without)[0].ends_with("but differ: limit is 4000 vs. missing"));
}

#[test]
fn a_run_that_cannot_be_read_right_now_gets_no_verdict_of_its_own() {
    let reason = "can't be read right now: No space left on device (os error 28)";
    let away = |file| Issue {
        kind: IssueKind::Away,
        file,
        line: None,
        offset: None,
        reason: reason.to_owned(),
    };
    for file in TraceFile::ALL {
        let mut index = Index::default();
        index.apply(Delta {
            passing: vec![away(file)],
            ..Delta::default()
        });
        let life =
            crate::analysis::life::life(&index, crate::analysis::life::ExternalFacts::default());
        let found = verdict(&index, &life);
        assert_eq!(
            found.sentence,
            "Can't be read right now: No space left on device (os error 28)"
        );
        assert_eq!(
            (found.outcome, found.mark),
            (Outcome::Unknown, RunStatus::Unknown)
        );
        assert_eq!((life.liveness, found.answered), (Liveness::Unknown, false));
    }
}
