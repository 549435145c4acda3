//! Tests traces in which one figure is missing or impossible: the other figures stay, and no
//! partial sum is reported as the total.

use std::fs;

use trace_board::model::IssueKind;
use trace_board::model::step::Usage;
use trace_board::trace::RootScanner;

use super::{Read, read, sample};

/// Reads the sample with every `from` replaced by `to`.
fn changed(name: &str, from: &str, to: &str) -> Read {
    let path = sample("tools").join(name);
    let text = fs::read_to_string(&path).expect("the sample");
    let spoilt = text.replace(from, to);
    assert_ne!(spoilt, text, "{from} is in {name}");
    let temp = tempfile::tempdir().expect("a directory");
    let copy = temp.path().join(path.file_name().expect("a name"));
    fs::write(&copy, spoilt).expect("written");
    read(&copy)
}

fn usage(run: &Read) -> (Option<u64>, Usage) {
    run.index
        .manifest()
        .get()
        .map(|manifest| (manifest.tokens, manifest.usage))
        .expect("a manifest")
}

#[test]
fn half_of_what_a_run_took_is_not_what_it_took() {
    let exec = changed("codex-exec/answered.jsonl", "\"input_tokens\":28150,", "");
    let (tokens, told) = usage(&exec);
    assert_eq!((tokens, told.input, told.output), (None, None, Some(493)));
    assert_eq!(exec.row.tokens, None);
    let exec = changed("codex-exec/answered.jsonl", "\"output_tokens\":493,", "");
    assert_eq!(
        (exec.row.tokens, usage(&exec).1.input),
        (None, Some(28_150))
    );
    let text = fs::read_to_string(sample("tools/swe-agent/submitted.traj")).expect("the sample");
    let sent = text
        .lines()
        .find(|line| line.contains("\"tokens_sent\""))
        .expect("what was sent");
    let swe = changed("swe-agent/submitted.traj", sent, "");
    let (tokens, told) = usage(&swe);
    assert_eq!(
        (tokens, told.input, told.output.is_some()),
        (None, None, true)
    );
    assert_eq!(swe.row.tokens, None);
    let events = |more: &str| {
        let each = "\"usage_to_metrics\":{";
        let run = changed(
            "openhands/events/events.jsonl",
            each,
            &format!("{each}\"condenser\":{more},"),
        );
        let (tokens, told) = usage(&run);
        (tokens, told.input, told.output)
    };
    let whole = read(&sample("tools/openhands/events/events.jsonl"));
    let (tokens, told) = usage(&whole);
    assert!(tokens.is_some());
    let unasked = r#"{"model_name":"m","accumulated_cost":0,"accumulated_token_usage":null}"#;
    assert_eq!(events(unasked), (tokens, told.input, told.output));
    let half = r#"{"model_name":"m","accumulated_token_usage":{"completion_tokens":5}}"#;
    assert_eq!(
        events(half),
        (None, None, told.output.map(|output| output + 5))
    );
}

#[test]
fn half_of_what_a_reply_took_is_not_what_it_took() {
    let session = "claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a03.jsonl";
    let whole = read(&sample("tools").join(session));
    assert_eq!(
        (whole.row.tokens, whole.row.tokens_unknown),
        (Some(4_651), 0)
    );
    let half = changed(session, "\"input_tokens\":700,", "");
    assert_eq!((half.row.tokens, half.row.tokens_unknown), (None, 1));
    let step = half.index.steps().get(0).expect("a step");
    assert_eq!(
        (step.tokens, step.usage.get().output),
        (None, Some(51)),
        "the output tokens are known"
    );
    // Tokens written to the cache may be omitted if there were none.
    let plain = changed(session, "\"cache_creation_input_tokens\":0,", "");
    assert_eq!(plain.row.tokens, Some(4_651));
}

#[test]
fn what_caches_held_is_told_where_each_step_tells_it() {
    let session = "codex/sessions/2026/05/04/rollout-2026-05-04T10-00-00-019df000-0000-7000-8000-0000000000a3.jsonl";
    let whole = read(&sample("tools").join(session));
    assert_eq!(
        (whole.row.usage.cached, whole.row.usage.reasoning),
        (Some(39_000), Some(40))
    );
    let untold = changed(session, "\"cached_input_tokens\":39000,", "");
    assert_eq!(
        (untold.row.usage.cached, untold.row.tokens),
        (None, whole.row.tokens)
    );
    let untold = changed(session, "\"reasoning_output_tokens\":0,", "");
    assert_eq!(
        (untold.row.usage.reasoning, untold.row.usage.cached),
        (None, Some(39_000))
    );
}

#[test]
fn more_from_a_cache_than_was_read_is_odd() {
    let reasons = |run: &Read| -> Vec<(IssueKind, Option<u64>)> {
        let odd = "more cached tokens than input tokens are recorded";
        let issues = run.index.issues();
        issues
            .listed()
            .iter()
            .filter(|issue| issue.reason == odd)
            .map(|issue| (issue.kind, issue.line))
            .collect()
    };
    let session = "codex/sessions/2026/05/04/rollout-2026-05-04T10-00-00-019df000-0000-7000-8000-0000000000a3.jsonl";
    assert_eq!(reasons(&read(&sample("tools").join(session))), []);
    let more = changed(
        session,
        "\"cached_input_tokens\":39000,",
        "\"cached_input_tokens\":90001,",
    );
    assert_eq!(
        reasons(&more),
        [(IssueKind::Field, Some(15))],
        "of the step that records it"
    );
    let exec = changed(
        "codex-exec/answered.jsonl",
        "\"cached_input_tokens\":21900",
        "\"cached_input_tokens\":28151",
    );
    assert_eq!(
        reasons(&exec),
        [(IssueKind::Field, None)],
        "of the run as a whole"
    );
}

#[test]
fn what_a_conversation_took_up_to_one_step_is_not_what_it_took() {
    let name = "openhands-v0/iteration-limit.json";
    let text = fs::read_to_string(sample("tools").join(name)).expect("the sample");
    let last = text.rfind(",\"llm_metrics\":").expect("the usage");
    let end = last + text[last..].find("}}").expect("its end") + 2;
    let run = changed(name, &text[last..end], "");
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        (manifest.tokens, manifest.usage, manifest.cost_usd),
        (None, Usage::default(), None)
    );
    assert_eq!(
        (run.row.steps, run.row.tokens, run.row.cost_usd),
        (2, None, None)
    );
}

#[test]
fn a_format_is_known_without_a_field_that_others_make_up_for() {
    let simulations = |from: &str, to: &str| {
        let text = fs::read_to_string(sample("tools/tau2/results.json")).expect("the sample");
        let spoilt = text.replace(from, to);
        assert_ne!(spoilt, text);
        let temp = tempfile::tempdir().expect("a directory");
        fs::write(temp.path().join("results.json"), spoilt).expect("written");
        RootScanner::new(temp.path().to_owned()).scan().runs.len()
    };
    assert_eq!(simulations("\"max_errors\"", "\"max_failures\""), 2);
    assert_eq!(
        simulations("\"agent_info\"", "\"another_info\""),
        0,
        "nothing else has both"
    );
    for name in ["finished", "iteration-limit"] {
        let name = format!("openhands-v0/{name}.json");
        let whole = read(&sample("tools").join(&name));
        let text = fs::read_to_string(sample("tools").join(&name)).expect("the sample");
        let first = text.find("\"timestamp\":").expect("a time");
        let end = first + text[first..].find(',').expect("its end") + 1;
        let run = changed(&name, &text[first..end], "");
        assert_eq!(
            (run.row.steps, run.row.events),
            (whole.row.steps, whole.row.events),
            "{name}"
        );
    }
}

#[test]
fn zeros_that_a_program_writes_without_any_usage_are_no_counts() {
    let reply = |usage: &str| {
        format!(
            r#"{{"type":"message","id":"a2","parentId":"a1","timestamp":"2026-05-04T09:00:02.000Z","message":{{"role":"assistant","content":[{{"type":"text","text":"Yes."}}],"model":"m","usage":{usage},"stopReason":"stop","timestamp":1777885202000}}}}"#
        )
    };
    let pi = |usage: &str| {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("2026-05-04T09-00-00-000Z_x.jsonl");
        let begin = r#"{"type":"session","version":3,"id":"x","timestamp":"2026-05-04T09:00:00.000Z","cwd":"/p"}"#;
        fs::write(&path, format!("{begin}\n{}\n", reply(usage))).expect("written");
        let row = read(&path).row;
        (row.tokens, row.usage.cached)
    };
    let unknown = pi(r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}"#);
    assert_eq!(unknown, (None, None));
    let known = pi(r#"{"input":9,"output":1,"cacheRead":0,"cacheWrite":0}"#);
    assert_eq!(known, (Some(10), Some(0)));
}
