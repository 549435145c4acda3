use super::*;
use crate::analysis::life::{Outside, life};
use crate::model::{Delta, EventHead, ManifestState, Names};

/// A run of the given lines, looked at long after it was written.
fn sentence(steps: &[&str], events: &[&str], manifest: Option<&str>) -> (String, String) {
    let mut names = Names::default();
    let steps = steps.iter().map(|line| StepHead::read(line.as_bytes(), &mut names).0).collect();
    let mut delta = Delta { steps, ..Delta::default() };
    for line in events {
        let (head, note, _) = EventHead::read(line.as_bytes(), &mut names);
        delta.events.push((head, note));
    }
    delta.manifest = manifest.map(|text| ManifestState::Read(Box::new(Manifest::read(text.as_bytes()).unwrap().0)));
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    let outside = Outside { now: 1_000_000_000_000, modified: Some(0), ..Outside::default() };
    let verdict = verdict(&index, &life(&index, outside));
    (verdict.sentence, verdict.second)
}

const STEP_0: &str = r#"{"step_id": 0, "decision": {"mode": "act"}}"#;
const OPENS_0: &str = r#"{"step_id": 0, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
const OPENS_1: &str = r#"{"step_id": 1, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
const STOP: &str = r#"{"step_id": 0, "phase": "CHECK_STOP", "payload": {"stage": "stop", "stop_reason": "final"}}"#;
const TEARDOWN: &str = r#"{"step_id": 0, "phase": "toolset_teardown_start", "payload": {}}"#;
const FINAL: &str = r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;

#[test]
fn a_step_that_no_file_tells_of_is_not_made_up() {
    assert_eq!(sentence(&[], &[], Some(FINAL)).0, "Answered");
    assert_eq!(sentence(&[STEP_0], &[], Some(FINAL)).0, "Answered at step 0");
    assert_eq!(sentence(&[STEP_0], &[OPENS_0, OPENS_1], Some(FINAL)).0, "Answered at step 1");
}

#[test]
fn a_death_names_the_place_and_a_stop_that_was_decided() {
    let died = |steps: &[&str], events: &[&str]| sentence(steps, events, None).0;
    assert_eq!(died(&[], &[OPENS_0]), "Died in step 0: last event is DECIDE, nothing since");
    assert_eq!(died(&[STEP_0], &[OPENS_0]), "Died after step 0: last event is DECIDE, nothing since");
    assert_eq!(
        died(&[STEP_0], &[OPENS_0, STOP]),
        "Died after step 0: it stopped for \"final\", but no END event was written"
    );
    assert_eq!(died(&[STEP_0], &[OPENS_0, TEARDOWN]), "Crashed after step 0: torn down without an END event");
    assert_eq!(
        died(&[], &[OPENS_0, STOP, TEARDOWN]),
        "Crashed in step 0 after it stopped for \"final\": torn down without an END event"
    );
    assert_eq!(died(&[], &[TEARDOWN]), "Crashed in the set-up: torn down without an END event");
}

#[test]
fn a_run_that_starts_over_and_dies_is_not_the_run_before() {
    let init = r#"{"step_id": 0, "phase": "INIT", "payload": {}}"#;
    let end = r#"{"step_id": 1, "phase": "END", "payload": {"stop_reason": "final"}}"#;
    let (words, _) = sentence(&[STEP_0], &[init, OPENS_0, end, init, TEARDOWN], None);
    assert_eq!(words, "Crashed in the set-up: torn down without an END event");
}

#[test]
fn the_second_sentence_tells_the_last_error_and_never_scolds_a_run_that_did_not_start() {
    let error = r#"{"step_id": 0, "phase": "RECOVER", "ok": false, "error": "no space left", "payload": {}}"#;
    assert_eq!(sentence(&[], &[OPENS_0, error], None).1, "In step 0 there was an error: no space left.");
    let end = r#"{"step_id": 0, "phase": "END", "ok": false, "payload": {"stop_reason": "env_capability_mismatch",
        "issues": [{"code": "ENV_HEALTH_CHECK_FAILED", "message": "down"}]}}"#;
    let (words, second) = sentence(&[], &[end], None);
    assert_eq!(words, "Not started: the environment is not healthy (ENV_HEALTH_CHECK_FAILED: down)");
    assert_eq!(second, "");
}
