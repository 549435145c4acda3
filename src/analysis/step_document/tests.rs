use serde::Serialize;
use serde_json::{Value, json};

use super::{event, events_of, step, steps as step_heads, summary as step_head};
use crate::analysis::columns::RunRow;
use crate::analysis::life::ExternalFacts;
use crate::analysis::run_document::run;
use crate::analysis::scores::recorded_scores;
use crate::analysis::summary::summary;
use crate::model::json_line::Line;
use crate::model::{Delta, Index, ManifestState, Names, RunKey, Span, StepHead as Head};

const STEPS: [&str; 4] = [
    r#"{"step_id": 0, "decision": {"mode": "act", "actions": [{"name": "ls"}, {"name": "cat"}]}, "critic_outputs": [{"name": "V", "action": "retry", "score": 0.25, "reason": "again"}, 7, {"score": "high"}]}"#,
    r#"{"step_id": 1, "decision": {"mode": "act", "actions": [{"name": "ls"}]}, "x": 1.10, "critic_outputs": [{"name": "V", "action": "praise", "score": NaN}]}"#,
    r#"not a line"#,
    r#"{"step_id": 0, "decision": {"mode": "final", "final_answer": "done"}}"#,
];

const EVENTS: [&str; 7] = [
    r#"{"step_id": 0, "phase": "INIT", "ok": true, "payload": {}, "ts": "1970-01-01T00:00:00+00:00"}"#,
    r#"{"step_id": 0, "phase": "DECIDE", "ok": true, "payload": {"stage": "state_ready"}, "ts": "1970-01-01T00:00:01+00:00"}"#,
    r#"{"step_id": 0, "phase": "ACT_ERROR", "ok": false, "error": "TypeError: x", "payload": {}, "ts": "1970-01-01T00:00:03.5+00:00"}"#,
    r#"{"step_id": 1, "phase": "DECIDE", "ok": true, "payload": {"stage": "state_ready"}, "ts": "1970-01-01T00:00:04+00:00"}"#,
    r#"{"step_id": 1, "phase": "END", "ok": true, "payload": {"stop_reason": "budget_steps"}, "ts": "1970-01-01T00:00:05+00:00"}"#,
    r#"{"step_id": 0, "phase": "INIT", "ok": true, "payload": {}, "ts": "1970-01-01T00:00:06+00:00"}"#,
    r#"{"step_id": 0, "phase": "DECIDE", "ok": true, "payload": {"stage": "state_ready"}, "ts": "1970-01-01T00:00:07+00:00"}"#,
];

fn index() -> Index {
    let mut names = Names::default();
    let mut delta = Delta::default();
    let mut offset = 0;
    for (at, line) in STEPS.iter().enumerate() {
        let span = Span {
            offset,
            len: line.len() as u64,
        };
        let (head, _) = crate::format::step_head(line.as_bytes(), &mut names);
        delta.steps.push(Head {
            span,
            line: at as u64 + 1,
            ..head
        });
        offset += line.len() as u64 + 1;
    }
    for line in EVENTS {
        let (head, note, _) = crate::format::event_head(line.as_bytes(), &mut names);
        delta.events.push((head, note));
    }
    let (manifest, _) =
        crate::format::manifest(br#"{"summary": {"stop_reason": "final"}}"#).unwrap();
    delta.manifest = Some(ManifestState::Read(Box::new(manifest)));
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    index
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn the_names_of_the_contract_are_there() {
    let index = index();
    let key = RunKey::new("a/b");
    let summary = summary(
        &key,
        "runs/a/b".to_owned(),
        &index,
        ExternalFacts::default(),
    );
    let row = json(&RunRow(&summary));
    for name in "key path run_id status liveness outcome stop_reason verdict steps events max_steps tokens duration_ms \
                 last_score critics model task started_at updated_at issues format tool project turns parent children \
                 cost_usd cost_estimated tokens_in tokens_cached tokens_out tokens_reasoning model_calls tool_calls \
                 tool_errors files_changed"
        .split_whitespace()
    {
        assert!(row.get(name).is_some(), "{name}");
    }
    assert_eq!(row["tokens"], Value::Null);
    // Two runs wrote to these files. The row describes the newest.
    assert_eq!(
        (&row["started_at"], &row["segment_count"]),
        (&json!("1970-01-01T00:00:06.000000Z"), &json!(2))
    );
    let text =
        serde_json::to_string(&run(&summary, &index, Some(b"{\"b\": 1.10, \"a\": NaN}"))).unwrap();
    assert!(text.contains(
        r#""manifest":{"b": 1.10, "a": "NaN"},"manifest_repaired":true,"manifest_text":null"#
    ));
    let run = json(&run(&summary, &index, Some(b"{\"torn")));
    assert_eq!(
        (&run["key"], &run["manifest"], &run["manifest_text"]),
        (&json!("a/b"), &Value::Null, &json!("{\"torn"))
    );
    let segments = json!([
        {"first_step": 0, "first_event": 0, "steps": 2, "started_at": "1970-01-01T00:00:00.000000Z", "stop_reason": "budget_steps"},
        {"first_step": 3, "first_event": 5, "steps": 1, "started_at": "1970-01-01T00:00:06.000000Z", "stop_reason": "final"},
    ]);
    assert_eq!(run["segments"], segments);
}

#[test]
fn a_window_of_steps_says_where_the_next_begins() {
    let index = index();
    let ends = |after, limit| {
        let steps = step_heads(&index, after, limit);
        (
            steps.steps.iter().map(|step| step.n).collect::<Vec<_>>(),
            steps.next,
        )
    };
    assert_eq!(ends(None, 2), (vec![0, 1], Some(1)));
    assert_eq!(ends(Some(1), 2), (vec![2, 3], None));
    assert_eq!(ends(Some(3), 2), (vec![], None));
    assert_eq!(ends(Some(usize::MAX), 0), (vec![], None));
}

#[test]
fn a_head_joins_the_step_and_its_events() {
    let index = index();
    let head = step_head(&index, 0).unwrap();
    assert_eq!(
        (head.ok, head.retry, head.error.as_deref()),
        (false, true, Some("TypeError: x"))
    );
    assert_eq!(
        (head.duration_ms, head.segment, head.label.as_str()),
        (Some(2500.0), Some(0), "0")
    );
    assert_eq!(head.critics.len(), 2);
    let lost = step_head(&index, 2).unwrap();
    assert_eq!(
        (lost.label.as_str(), lost.fate, lost.mode, lost.ok),
        ("2", "unreadable", None, false)
    );
    assert_eq!((events_of(&index, 0), events_of(&index, 2)), (1..3, 0..0));
    assert_eq!(json(&event(&index, 6, b"{}"))["step"], 3);
}

#[test]
fn a_head_says_of_each_call_how_it_went_and_how_long_it_took() {
    let calls = |line: &str| {
        let mut names = Names::default();
        let (head, _) = crate::format::step_head(line.as_bytes(), &mut names);
        let mut index = Index::default();
        index.apply(Delta {
            names: names.since(0).to_vec(),
            steps: vec![head],
            ..Delta::default()
        });
        let head = json(&step_head(&index, 0).unwrap());
        (
            head["calls"].clone(),
            head["cost_usd"].clone(),
            index.steps().get(0).unwrap().failed_calls,
        )
    };
    let (totals, cost, failed) = calls(
        r#"{"step_id": 0, "decision": {"mode": "act"}, "cost_usd": 0.25,
            "actions": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {}, {"name": "e"}, {"name": "f"}],
            "action_results": [
                {"status": "success", "output": 1, "error": null, "metadata": {"latency_ms": 12.3}},
                {"status": "success", "output": {"exit_code": 2}},
                {"status": "cancelled", "output": null},
                {"status": "not recorded", "output": 1},
                {"status": "no answer", "output": null}]}"#,
    );
    let call = |name, ok, ms| json!({"name": name, "ok": ok, "stopped": false, "duration_ms": ms});
    let stopped = |name| json!({"name": name, "ok": null, "stopped": true, "duration_ms": null});
    let [yes, no, unknown] = [Some(true), Some(false), None];
    let expected = [
        call(Some("a"), yes, Some(12.3_f32)),
        call(Some("b"), no, None),
        stopped("c"),
        call(None, unknown, None),
        call(Some("e"), unknown, None),
        call(Some("f"), unknown, None),
    ];
    assert_eq!((totals, cost, failed), (json!(expected), json!(0.25), 1));
    let (totals, cost, failed) = calls(
        r#"{"step_id": 0, "decision": {"mode": "act"}, "actions": [{"name": "a"}, {"name": "b"}], "action_results": [],
            "tool_invocations": [{"status": "timed_out", "latency_ms": 7}, {"status": "skipped"}]}"#,
    );
    let expected = [call(Some("a"), no, Some(7.0)), stopped("b")];
    assert_eq!((totals, cost, failed), (json!(expected), Value::Null, 1));
}

#[test]
fn lines_stand_as_written_where_they_are_json() {
    let index = index();
    let events = [br#"{"n": 1}"#.to_vec(), b"{\"n\": NaN}".to_vec()];
    let text = |n: usize| {
        serde_json::to_string(&step(&index, n, STEPS[n].as_bytes(), &events).unwrap()).unwrap()
    };
    assert!(text(0).contains(STEPS[0]));
    assert!(text(0).contains(
        r#""events":[{"n": 1},{"n": "NaN"}],"repaired":true,"repaired_events":[1],"first_event":1"#
    ));
    assert!(text(1).contains(r#""x": 1.10"#) && text(1).contains(r#""score": "NaN""#));
    assert!(text(2).contains(r#""step":"not a line""#));
    for (line, expected) in [
        (
            &br#"{"a": "\ud83d\ude00 \\ud83d"}"#[..],
            r#"{"a": "\ud83d\ude00 \\ud83d"}"#,
        ),
        (br#"{"a": "\ud83d"}"#, r#"{"a": "\ufffd"}"#),
        (b"{\"a\": \"\xff\"}\r", "{\"a\": \"\u{fffd}\"}"),
        (b"\xff", "\"\u{fffd}\""),
        (b"", "\"\""),
    ] {
        assert_eq!(serde_json::to_string(&Line::of(line)).unwrap(), expected);
    }
}

#[test]
fn scores_keep_reasons_and_odd_values() {
    let scores = json(&recorded_scores(&index(), |n| {
        Some(STEPS[n].as_bytes().to_vec())
    }));
    let expected = json!({"critics": [
        {"name": "V", "points": [
            {"n": 0, "score": 0.25, "score_text": null, "action": "retry", "reason": "again"},
            {"n": 1, "score": null, "score_text": "NaN", "action": "praise", "reason": null},
        ]},
        {"name": "critic 3", "points": [
            {"n": 0, "score": null, "score_text": "high", "action": "continue", "reason": null},
        ]},
    ], "run": []});
    assert_eq!(scores, expected);
    let without_lines = json(&recorded_scores(&index(), |_| None));
    assert_eq!(without_lines["critics"][0]["points"][0]["score"], 0.25);
}

#[test]
fn a_program_reads_of_a_step_what_the_table_of_steps_says() {
    use crate::analysis::facts::tests::{Files, runs_below};
    use crate::analysis::facts::{Depth, record};
    use crate::analysis::life::ExternalFacts;
    use crate::analysis::summary::summary;
    use crate::analysis::table::{Cell, Run, RunSource, STEPS, steps};
    use crate::model::RunKey;
    let (mut errors, mut unsure, mut tokens) = (0, 0, 0);
    let open = |path: &std::path::PathBuf| Files::open(path);
    let folders = ["sample_runs", "sample_runs/qitos", "tests/corpus/q060"];
    for files in folders
        .into_iter()
        .flat_map(runs_below)
        .map(|path| open(&path))
    {
        let summary = summary(
            &RunKey::new("a"),
            String::new(),
            &files.index,
            ExternalFacts::default(),
        );
        let record = record(&files.index, &files, Depth::Heads);
        let first = files.index.newest_start();
        let run = std::sync::Arc::new(Run::new(
            summary,
            files.index.clone(),
            record,
            RunSource::default(),
        ));
        for (at, row) in steps(&run).enumerate() {
            let cell = |name: &str| {
                STEPS
                    .iter()
                    .find(|field| field.name == name)
                    .unwrap()
                    .cell(&row)
            };
            let Some(Cell::Whole(n)) = cell("step") else {
                panic!("each row has its step")
            };
            assert!(n as usize >= first + at);
            let head = step_head(&files.index, n as usize).unwrap();
            assert_eq!(
                cell("tokens"),
                head.tokens.map(|tokens| Cell::Whole(tokens as i64))
            );
            assert_eq!(
                cell("error"),
                head.error.clone().map(|error| Cell::Text(error.into()))
            );
            let is_sure = head
                .calls
                .iter()
                .all(|call| call.ok.is_some() || call.stopped)
                && head.fate != "unreadable"
                && head.fate != "foreign";
            assert_eq!(cell("tool_errors").is_some(), is_sure);
            errors += usize::from(head.error.is_some());
            unsure += usize::from(!is_sure);
            tokens += usize::from(head.tokens.is_some());
        }
    }
    assert!(
        errors > 10 && unsure > 1 && tokens > 100,
        "{errors} {unsure} {tokens}"
    );
}
