//! Tests runs exported as OpenTelemetry traces: read back, and sent to a receiver.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::summary::{Summary, summary};
use trace_board::model::{Index, RunKey, StepHead};
use trace_board::trace::{RunDir, read_index};

use crate::board::BINARY;

use super::{Read, read, sample};

fn export(run: &Path, more: &[&str]) -> Output {
    Command::new(BINARY)
        .arg("export")
        .arg(run)
        .args(more)
        .output()
        .expect("it runs")
}

/// Returns all spans of a document, in order.
fn spans(json: &Value) -> Vec<Value> {
    let spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .expect("spans");
    spans.clone()
}

/// Returns an attribute's value of a span or an event.
fn says(span: &Value, key: &str) -> Option<Value> {
    let all = span["attributes"].as_array()?;
    let value = &all.iter().find(|attribute| attribute["key"] == key)?["value"];
    value.as_object()?.values().next().cloned()
}

/// Exports a run. Returns its spans, and what the board reads from them.
fn exported(run: &Path) -> (Vec<Value>, Read) {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("trace.json");
    let output = export(run, &["--otlp", file.to_str().expect("UTF-8")]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&file).expect("it exists");
    let spans = spans(&serde_json::from_str(&text).expect("it is JSON"));
    let back = read(&file.join(spans[0]["traceId"].as_str().expect("an id")));
    (spans, back)
}

/// Reads the original run as of a year later.
fn original(run: &Path) -> (Index, Summary) {
    let dir = RunDir::of_file(run)
        .expect("it can be read")
        .unwrap_or_else(|| RunDir::alone(run));
    let index = read_index(&dir);
    let now = index.last_ts().unwrap_or_default() + 365 * 86_400_000_000;
    let row = summary(
        &RunKey::new("run"),
        String::new(),
        &index,
        ExternalFacts {
            now,
            ..ExternalFacts::default()
        },
    );
    (index, row)
}

fn runs() -> Vec<PathBuf> {
    let ours = [
        "fix_bug",
        "budget_steps",
        "tool_retry",
        "critic_stop",
        "recovered_error",
        "unicode",
        "crash",
        "long",
    ];
    let tools = [
        "qitos/q060_critic_stop",
        "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl",
    ];
    ours.iter().chain(&tools).map(|name| sample(name)).collect()
}

#[test]
fn a_run_comes_back_with_its_steps_calls_failures_tokens_scores_and_end() {
    let (mut failed, mut judged, mut tokens) = (0, 0, 0);
    for run in runs() {
        let name = run.display();
        let (index, row) = original(&run);
        let (_, back) = exported(&run);
        let steps = index.steps().iter().skip(index.newest_start());
        assert_eq!(back.index.steps().len(), steps.len(), "{name}");
        for (n, (before, after)) in steps.zip(back.index.steps().iter()).enumerate() {
            let tools = |index: &Index, head: &StepHead| {
                head.tools()
                    .map(|tool| index.name(tool).to_owned())
                    .collect::<Vec<_>>()
            };
            let scores = |index: &Index, head: &StepHead| {
                let marks = head.critics.iter().filter(|mark| mark.score.is_some());
                marks
                    .map(|mark| (index.name(mark.name).to_owned(), mark.score))
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                tools(&back.index, after),
                tools(&index, before),
                "{name}, step {n}"
            );
            assert_eq!(after.failed_calls, before.failed_calls, "{name}, step {n}");
            assert_eq!(
                after.error.is_some(),
                before.error.is_some(),
                "{name}, step {n}: {:?}",
                before.error
            );
            assert_eq!(
                scores(&back.index, after),
                scores(&index, before),
                "{name}, step {n}"
            );
            failed += after.failed_calls;
            judged += after.critics.len();
        }
        assert_eq!(back.row.verdict.outcome, row.verdict.outcome, "{name}");
        assert_eq!(
            back.row.verdict.stop_reason, row.verdict.stop_reason,
            "{name}"
        );
        assert_eq!(back.row.verdict.certainty, row.verdict.certainty, "{name}");
        assert_eq!(
            (&back.row.task, &back.row.answer),
            (&row.task, &row.answer),
            "{name}"
        );
        assert_eq!(back.row.usage, row.usage, "{name}");
        assert_eq!(back.row.issues.1, 0, "{name}");
        tokens += back.row.usage.input.unwrap_or_default();
    }
    assert!(
        failed > 3 && judged > 3 && tokens > 0,
        "{failed} failed, {judged} judged, {tokens} tokens"
    );
}

#[test]
fn what_a_run_took_and_how_it_ended_comes_back() {
    let runs = [
        "final",
        "long",
        "crash",
        "env_capability_mismatch",
        "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl",
        "tools/gemini-stream/answered.jsonl",
        "tools/mini-swe-agent/submitted.traj.json",
        "tools/atif/helper.trajectory.json",
        "tools/openhands/events/events.jsonl",
        "tools/openhands-v0/iteration-limit.json",
        "tools/claude-code-stream/answered.jsonl",
        "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl",
        "tools/inspect/ledger.json/rent_epoch_1",
        "tools/inspect/before-any-sample.json",
        "tools/tau2/voice/simulations/sim-voice-0.json",
        "tools/harbor/nightly/ledger__solved",
        "tools/otlp/traces.jsonl/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ];
    let shown = |run: &Path| -> Value {
        let output = Command::new(BINARY)
            .args(["show", "--json"])
            .arg(run)
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{}: {}",
            run.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let same = [
        "steps",
        "tool_calls",
        "model_calls",
        "tokens",
        "tokens_in",
        "tokens_cached",
        "tokens_out",
        "tokens_reasoning",
        "cost_usd",
        "cost_estimated",
        "duration_ms",
        "verdict",
        "mark",
        "outcome",
        "certainty",
        "stop_reason",
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("trace.json");
    for name in runs {
        let run = sample(name);
        let said = export(&run, &["--otlp", file.to_str().expect("UTF-8")]);
        assert!(
            said.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        let (before, after) = (shown(&run), shown(&file));
        // Milliseconds are stored as seconds, which changes the last bit of some.
        let is_same = |key: &str| match (before[key].as_f64(), after[key].as_f64()) {
            (Some(before), Some(after)) => (before - after).abs() < 1e-6,
            _ => before[key] == after[key],
        };
        let differs = same.iter().filter(|key| !is_same(key));
        let differs: Vec<String> = differs
            .map(|key| format!("{key}: {} -> {}", before[*key], after[*key]))
            .collect();
        assert!(differs.is_empty(), "{name}: {differs:?}");
    }
}

#[test]
fn a_total_that_is_less_than_its_parts_is_named() {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("trace.json");
    let run = sample("tools/mini-swe-agent/submitted.traj.json");
    assert!(
        export(&run, &["--otlp", file.to_str().expect("UTF-8")])
            .status
            .success()
    );
    let text = std::fs::read_to_string(&file).expect("it exists");
    let mut json: Value = serde_json::from_str(&text).expect("it is JSON");
    let trace = spans(&json)[0]["traceId"]
        .as_str()
        .expect("an id")
        .to_owned();
    let mut told = |tokens: u64| {
        let root = &mut json["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        let all = root["attributes"].as_array_mut().expect("attributes");
        let total = all
            .iter_mut()
            .find(|attribute| attribute["key"] == "board.total_tokens")
            .expect("a total");
        total["value"]["intValue"] = tokens.to_string().into();
        std::fs::write(&file, json.to_string()).expect("written");
        let row = read(&file.join(&trace)).row;
        (row.tokens, row.verdict.contradictions.to_vec())
    };
    assert_eq!(told(3_595), (Some(3_595), vec![]));
    assert_eq!(
        told(3_600),
        (Some(3_600), vec![]),
        "a span that isn't a step may request a model too"
    );
    let says = "The records disagree on the tokens: 3,000 (the trace's own total), 3,595 (the sum of the steps)";
    assert_eq!(told(3_000), (None, vec![says.to_owned()]));
}

#[test]
fn spans_are_as_the_conventions_say() {
    for run in runs() {
        let name = run.display();
        let (spans, _) = exported(&run);
        let id = |span: &Value, key: &str| span[key].as_str().map(str::to_owned);
        let ids: BTreeSet<_> = spans
            .iter()
            .map(|span| id(span, "spanId").expect("an id"))
            .collect();
        assert_eq!(ids.len(), spans.len(), "{name}: each has a unique id");
        assert!(
            spans
                .iter()
                .all(|span| span["traceId"] == spans[0]["traceId"]),
            "{name}"
        );
        for span in &spans {
            let digits = |key: &str| {
                id(span, key).is_none_or(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))
            };
            assert!(
                digits("traceId") && digits("spanId") && digits("parentSpanId"),
                "{span}"
            );
            let nanos = |key: &str| {
                span[key]
                    .as_str()
                    .expect("a text")
                    .parse::<u64>()
                    .expect("a number")
            };
            let (began, ended) = (nanos("startTimeUnixNano"), nanos("endTimeUnixNano"));
            assert!(began > 0 && began <= ended, "{span}");
            let operation = says(span, "gen_ai.operation.name").expect("an operation");
            match operation.as_str().expect("a text") {
                "invoke_agent" => {
                    assert_eq!(
                        (span["spanId"].clone(), id(span, "parentSpanId")),
                        (spans[0]["spanId"].clone(), None)
                    )
                }
                "chat" | "execute_tool" => {
                    assert!(
                        id(span, "parentSpanId").is_some_and(|parent| ids.contains(&parent)),
                        "{span}"
                    );
                }
                other => panic!("{other}"),
            }
        }
    }
    let (spans, _) = exported(&sample("fix_bug"));
    assert_eq!(
        says(&spans[0], "board.verdict").expect("a verdict"),
        "Answered at step 10"
    );
    assert_eq!(
        says(&spans[0], "board.stop_reason").expect("a word"),
        "final"
    );
    let events: Vec<&Value> = spans
        .iter()
        .filter_map(|span| span["events"].as_array())
        .flatten()
        .collect();
    let first = events.first().expect("critics judged it");
    assert_eq!(first["name"], "gen_ai.evaluation.result");
    assert_eq!(
        says(first, "gen_ai.evaluation.name").expect("a name"),
        "tests"
    );
    let scores: Vec<Value> = events
        .iter()
        .filter_map(|event| says(event, "gen_ai.evaluation.score.value"))
        .collect();
    assert!(
        scores.contains(&0.5.into()) && scores.contains(&1.0.into()),
        "{scores:?}"
    );
    let (spans, _) = exported(&sample("recovered_error"));
    let failed: Vec<&Value> = spans
        .iter()
        .filter(|span| span["status"]["code"] == 2)
        .collect();
    assert_eq!(
        failed.len(),
        1,
        "an error after which the run continued, recorded only in an event"
    );
    assert_eq!(
        (
            says(failed[0], "board.step"),
            says(failed[0], "board.phase")
        ),
        (Some("1".into()), Some("decide".into()))
    );
    assert_eq!(
        failed[0]["status"]["message"],
        "The action's arguments are broken."
    );
    let (spans, again) = (
        exported(&sample("fix_bug")).0,
        exported(&sample("fix_bug")).0,
    );
    assert_eq!(
        again, spans,
        "the same run is the same trace, whenever it is exported"
    );
}

#[test]
fn times_that_no_record_tells_are_marked_and_a_run_without_any_is_refused() {
    let temp = tempfile::tempdir().expect("a directory");
    let run = temp.path().join("run");
    crate::disk::copy(&sample("fix_bug"), &run);
    std::fs::write(run.join("events.jsonl"), "").expect("written");
    let (spans, _) = exported(&run);
    let chats = spans
        .iter()
        .filter(|span| says(span, "gen_ai.operation.name").is_some_and(|of| of == "chat"));
    assert!(chats.clone().count() > 5);
    assert!(
        chats
            .clone()
            .all(|span| says(span, "board.time").is_some_and(|time| time == "inferred")),
        "{spans:?}"
    );
    let recorded = exported(&sample("fix_bug")).0;
    let chats = recorded
        .iter()
        .filter(|span| says(span, "gen_ai.operation.name").is_some_and(|of| of == "chat"));
    assert!(chats.clone().all(|span| says(span, "board.time").is_none()));

    let bare = temp.path().join("bare.traj");
    std::fs::copy(
        sample("tools/swe-agent").join(first_file(&sample("tools/swe-agent"), "traj")),
        &bare,
    )
    .expect("copied");
    let said = export(&bare, &["--otlp", "-"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(
        (said.status.code(), said.stdout.len()),
        (Some(3), 0),
        "{error}"
    );
    assert!(
        error.contains("records no times") && error.contains("--atif"),
        "{error}"
    );
}

/// Finds the first file below a directory with this extension.
fn first_file(dir: &Path, ending: &str) -> PathBuf {
    let mut files = crate::disk::walk(dir);
    files.sort();
    files
        .into_iter()
        .find(|path| path.extension().is_some_and(|known| known == ending))
        .expect("a file")
}

/// Accepts one request on `listener` and answers it. Returns the head and the body.
fn take(listener: &TcpListener, status: &str, body: &str) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().expect("a request");
    let request = request(&mut stream);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("answered");
    request
}

fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec())
                .expect("text")
                .to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .expect("a length");
            let length: usize = length.trim().parse().expect("a number");
            if bytes.len() >= end + 4 + length {
                return (head, bytes[end + 4..].to_vec());
            }
        }
        match stream.read(&mut piece).expect("it is read") {
            0 => panic!("cut off"),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}

/// Sends a run to a receiver with this response. Returns the request and the command's output.
fn sent(more: &[&str], status: &'static str, body: &'static str) -> (String, Vec<u8>, Output) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}{}",
        listener.local_addr().expect("an address"),
        more.first().copied().unwrap_or("")
    );
    let receiver = std::thread::spawn(move || take(&listener, status, body));
    let said = Command::new(BINARY)
        .args([
            "export",
            sample("fix_bug").to_str().expect("UTF-8"),
            "--otlp",
            &url,
        ])
        .args(more.iter().skip(1))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20secret")
        .output()
        .expect("it runs");
    let (head, got) = receiver.join().expect("it got a request");
    (head, got, said)
}

#[test]
fn a_receiver_gets_the_same_spans_and_its_headers() {
    let (head, body, said) = sent(&[], "200 OK", "{}");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert!(
        head.starts_with("post /v1/traces http/1.1")
            && head.contains("content-type: application/json"),
        "{head}"
    );
    assert!(head.contains("x-key: a secret"), "{head}");
    assert_eq!(
        spans(&serde_json::from_slice(&body).expect("JSON")),
        exported(&sample("fix_bug")).0
    );
    let (head, ..) = sent(&["/own/path"], "200 OK", "{}");
    assert!(head.starts_with("post /own/path http/1.1"), "{head}");
}

#[test]
fn what_a_receiver_does_not_take_is_said() {
    for (status, body, part) in [
        (
            "415 Unsupported Media Type",
            "protobuf please",
            "protobuf please",
        ),
        ("401 Unauthorized", "", "OTEL_EXPORTER_OTLP_HEADERS"),
        (
            "200 OK",
            r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#,
            "3 spans were rejected: too old",
        ),
    ] {
        let (_, _, said) = sent(&[], status, body);
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(3), "{error}");
        assert!(
            error.contains(part) && !error.contains("a secret"),
            "{error}"
        );
    }
    let said = export(&sample("fix_bug"), &["--otlp", "http://127.0.0.1:1/"]);
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(3), "{error}");
    assert!(
        error.contains("can't send the trace to 127.0.0.1:1: can't connect"),
        "{error}"
    );
}

#[test]
fn secrets_do_not_leave_in_a_trace() {
    let temp = tempfile::tempdir().expect("a directory");
    let run = temp.path().join("run");
    crate::disk::copy(&sample("fix_bug"), &run);
    let steps = std::fs::read_to_string(run.join("steps.jsonl")).expect("text");
    let steps = steps.replacen(
        "sh test_cart.sh",
        "API_KEY=sk-very-secret-1 sh test_cart.sh",
        2,
    );
    std::fs::write(run.join("steps.jsonl"), steps).expect("written");
    let plain = export(&run, &["--otlp", "-"]).stdout;
    let redacted = export(&run, &["--otlp", "-", "--redact"]).stdout;
    let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("sk-very-secret-1");
    assert!(has(&plain) && !has(&redacted) && !redacted.is_empty());
}

#[test]
fn an_observation_gets_no_call_and_a_result_without_a_status_no_success() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("trajectory.json");
    let step = |n: u64, calls: Value, results: Value| {
        serde_json::json!({"step_id": n, "source": "agent", "timestamp": format!("2026-05-04T09:00:0{n}Z"), "message": "On.",
            "tool_calls": calls, "observation": {"results": results}})
    };
    let call = serde_json::json!([{"tool_call_id": "a", "function_name": "ls", "arguments": {}}]);
    let document = serde_json::json!({
        "schema_version": "ATIF-v1.5", "session_id": "s", "agent": {"name": "a", "version": "1"},
        "steps": [
            step(1, Value::Null, serde_json::json!([{"content": "the screen"}])),
            step(2, call, serde_json::json!([{"source_call_id": "a", "content": "x"}, {"content": "a bell"}])),
        ],
    });
    std::fs::write(&path, document.to_string()).expect("written");
    let (_, row) = original(&path);
    assert_eq!(
        (row.tool_calls, row.tool_errors),
        (Some(1), None),
        "the call's outcome isn't recorded"
    );
    let file = temp.path().join("trace.json");
    assert!(
        export(&path, &["--otlp", file.to_str().expect("UTF-8")])
            .status
            .success()
    );
    let text = std::fs::read_to_string(&file).expect("it exists");
    let spans = spans(&serde_json::from_str(&text).expect("it is JSON"));
    let back = read(&file.join(spans[0]["traceId"].as_str().expect("an id")));
    let tools: Vec<&Value> = spans
        .iter()
        .filter(|span| says(span, "gen_ai.operation.name") == Some("execute_tool".into()))
        .collect();
    let ids: Vec<bool> = tools
        .iter()
        .map(|span| says(span, "gen_ai.tool.call.id").is_some())
        .collect();
    assert_eq!(ids, [false, true, false]);
    assert_eq!(
        (back.row.tool_calls, back.row.tool_errors, &back.row.tools),
        (row.tool_calls, None, &row.tools)
    );
    let outputs = |n: usize| -> Vec<Value> {
        let results = back.step(n)["action_results"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        results
            .iter()
            .map(|result| result["output"].clone())
            .collect()
    };
    assert_eq!(
        (outputs(0), outputs(1)),
        (vec!["the screen".into()], vec!["x".into(), "a bell".into()])
    );
}

#[test]
fn the_reply_of_a_sub_agent_is_none_of_the_run_when_it_comes_back() {
    let run = sample("tools/otlp/traces.jsonl/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    let (index, _) = original(&run);
    let (_, back) = exported(&run);
    let nested = |index: &Index| {
        index
            .steps()
            .iter()
            .map(|step| step.is_nested)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (nested(&back.index), nested(&index)),
        (vec![false, true, false], vec![false, true, false])
    );
    assert_eq!(back.row.steps_nested, 1);
}
