//! Tests OpenTelemetry traces in files of OTLP JSON: several runs in one file, with interleaved
//! spans.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trace_board::analysis::timing;
use trace_board::model::{Index, TraceFile};
use trace_board::trace::{RootScanner, RunDir, RunReader, read_index};

use super::{Read, foreign, read, sample};
use crate::soak::times;

fn traces() -> PathBuf {
    sample("tools/otlp/traces.jsonl")
}

fn trace(name: char) -> Read {
    read(&traces().join(name.to_string().repeat(32)))
}

/// First letters of the names of the runs in a directory's only file.
fn names(dir: &Path) -> Vec<String> {
    let found = RootScanner::new(dir.to_owned()).scan();
    found
        .runs
        .keys()
        .map(|key| key.as_str().rsplit('/').next().unwrap_or_default()[..1].to_owned())
        .collect()
}

#[test]
fn a_trace_is_a_run_with_its_replies_in_the_order_in_which_they_began() {
    assert_eq!(
        names(&sample("tools/otlp")),
        ["a", "b", "c"],
        "a trace without an agent isn't a run"
    );
    let run = trace('a');
    let row = &run.row;
    // 100 + 30, 50 + 5, 150 + 10.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 7, (0, 0))
    );
    assert_eq!((row.tokens, row.cost_usd), (Some(345), Some(0.0055)));
    assert_eq!(
        row.duration_ms,
        Some(8_500.0),
        "as long as the span that contains all others"
    );
    assert_eq!(
        (row.task.as_deref(), row.model.as_deref()),
        (Some("How many lines?"), Some("small-1"))
    );
    assert_eq!(
        (row.answer.as_deref(), &*row.agents),
        (
            Some("It holds 3 lines."),
            &["planner".into(), "counter".into()][..]
        )
    );
    assert_eq!(
        row.verdict.sentence,
        "Finished at step 2 (inferred from \"stop\")"
    );
    assert_eq!(
        row.verdict.certainty.as_str(),
        "inferred",
        "no span records why a trace ended well"
    );
    let first = run.step(0);
    assert_eq!(
        (
            &first["decision"]["rationale"],
            &first["model_response"]["text"]
        ),
        (&"Two parts.".into(), &"I ask for help.".into())
    );
    assert_eq!(
        (&first["context"]["cached_tokens"], &first["finish_reason"]),
        (&60.into(), &"tool_calls".into())
    );
    let results = first["action_results"].as_array().expect("results");
    assert_eq!(
        (&results[0]["status"], &results[0]["error"]),
        (&"error".into(), &"FileNotFoundError: a.txt".into())
    );
    assert_eq!(
        (
            &results[1]["output"]["count"],
            &results[1]["metadata"]["latency_ms"]
        ),
        (&3.into(), &3_000.into())
    );
}

#[test]
fn a_limit_is_told_in_the_words_of_its_exception() {
    let run = trace('b');
    let verdict = &run.row.verdict;
    let sentence = "Request limit reached after step 1 (2 requests)";
    assert_eq!(
        (&*verdict.sentence, verdict.certainty.as_str()),
        (sentence, "recorded")
    );
    assert_eq!(
        (run.row.steps, run.row.tokens),
        (2, Some(108)),
        "older attribute names"
    );
    assert_eq!(run.step(0)["actions"][0]["args"]["x"], 1);
}

#[test]
fn a_trace_goes_on_until_its_first_span_ended() {
    let run = trace('c');
    assert_eq!(
        (run.row.verdict.mark.word(), run.row.steps, run.row.tokens),
        ("unknown", 1, Some(77))
    );
    let step = run.step(0);
    assert_eq!(
        step["actions"][0]["name"], "search",
        "known only from the tool's span"
    );
    assert_eq!(
        step["model_response"],
        serde_json::json!({"text": null}),
        "its text is omitted"
    );
    assert_eq!(step["action_results"][0]["output"], Value::Null);
}

/// Two tools run in parallel for minutes, and the first contains an agent.
#[test]
fn a_step_is_over_where_the_last_of_its_tools_is() {
    let took =
        |run: &Read| -> Vec<Option<i64>> { run.index.groups().iter().map(timing::took).collect() };
    assert_eq!(
        took(&trace('a')),
        [Some(5_000_000), Some(1_000_000), Some(1_500_000)]
    );
    let span = |id: &str, parent: &str, name: &str, start: i64, end: i64| {
        let operation = if name == "chat" {
            "chat"
        } else {
            "execute_tool"
        };
        serde_json::json!({
            "traceId": "e".repeat(32), "spanId": id, "parentSpanId": parent, "name": name,
            "startTimeUnixNano": format!("{}000000000", 1_789_380_000 + start),
            "endTimeUnixNano": format!("{}000000000", 1_789_380_000 + end),
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": operation}}],
        })
    };
    let spans = [
        span("01", "00", "chat", 1, 2),
        span("02", "00", "slow", 2, 300),
        span("03", "00", "quick", 3, 10),
        span("04", "02", "chat", 20, 30),
    ];
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.json");
    let document = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    fs::write(&path, document.to_string()).expect("written");
    let run = read(&path.join("e".repeat(32)));
    assert_eq!(took(&run), [Some(299_000_000), Some(10_000_000)]);
    // Without a span that contains all others, the run lasts from the first start to the last end.
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.latency_s, Some(299.0));
}

#[test]
fn a_last_reply_that_was_cut_is_no_answer() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.jsonl");
    let text = fs::read_to_string(traces()).expect("read");
    let cut = text.replace(r#"finish_reason\": \"stop"#, r#"finish_reason\": \"length"#);
    assert_ne!(cut, text);
    fs::write(&path, cut).expect("written");
    let run = read(&path.join("a".repeat(32)));
    let verdict = &run.row.verdict;
    assert_eq!(
        verdict.sentence,
        "Reply token limit reached in step 2 (inferred from \"length\")"
    );
    assert_eq!(
        (verdict.certainty.as_str(), run.row.answer.as_deref()),
        ("inferred", None)
    );
}

#[test]
fn a_last_reply_that_was_refused_is_no_answer() {
    let text = fs::read_to_string(traces()).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("refused.jsonl");
    for word in ["content_filter", "SAFETY", "refusal"] {
        let refused = text.replace(
            r#"\"finish_reason\": \"stop\""#,
            &format!(r#"\"finish_reason\": \"{word}\""#),
        );
        assert_ne!(refused, text);
        fs::write(&path, refused).expect("written");
        let run = read(&path.join("a".repeat(32)));
        let verdict = &run.row.verdict;
        assert_eq!(
            verdict.sentence,
            format!("The model refused to continue after step 2 (inferred from \"{word}\")")
        );
        assert_eq!(
            (verdict.mark.word(), run.row.answer.as_deref()),
            ("error", None)
        );
    }
}

#[test]
fn whether_a_model_repeats_itself_is_not_known_where_its_words_were_left_out() {
    let asked = |path: &Path| {
        let args = [
            "whatif",
            path.to_str().unwrap(),
            "--json",
            "--rule",
            "loop_detection=2",
        ];
        let output = std::process::Command::new(crate::board::BINARY)
            .args(args)
            .output()
            .expect("it runs");
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        told["runs"][0]["rules"][0].clone()
    };
    let run = |name: char| traces().join(name.to_string().repeat(32));
    assert_eq!(asked(&run('a'))["result"], "not_reached");
    let untold = asked(&run('c'));
    assert_eq!(
        (&untold["result"], &untold["needs"]),
        (
            &"unknown".into(),
            &"the model's text in some steps isn't recorded".into()
        )
    );
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.jsonl");
    let text = fs::read_to_string(traces()).expect("read");
    // A sub-agent that repeats the model's words doesn't make the model repeat itself.
    for (said, result, step) in [
        ("It holds 3 lines.", "same", 2.into()),
        ("There are 3.", "not_reached", Value::Null),
    ] {
        let again = text.replace(said, "I ask for help.");
        assert_ne!(again, text);
        fs::write(&path, again).expect("written");
        let found = asked(&path.join("a".repeat(32)));
        assert_eq!((&found["result"], &found["step"]), (&result.into(), &step));
    }
}

#[test]
fn what_some_replies_cost_is_not_what_the_trace_cost_and_a_span_without_an_id_is_no_copy() {
    let span = |id: Value, cost: Option<f64>, start: u64| {
        let of = |key: &str, value: Value| serde_json::json!({"key": key, "value": value});
        let mut attributes = vec![of(
            "gen_ai.operation.name",
            serde_json::json!({"stringValue": "chat"}),
        )];
        attributes.extend(
            cost.map(|cost| of("operation.cost", serde_json::json!({"doubleValue": cost}))),
        );
        serde_json::json!({
            "traceId": "f".repeat(32), "spanId": id, "parentSpanId": "00", "name": "chat", "attributes": attributes,
            "startTimeUnixNano": format!("{start}000000000"), "endTimeUnixNano": format!("{}000000000", start + 1),
        })
    };
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.json");
    let of = |spans: &[Value]| {
        let document = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
        fs::write(&path, document.to_string()).expect("written");
        let row = read(&path.join("f".repeat(32))).row;
        (row.steps, row.cost_usd, row.issues.0)
    };
    let at = 1_789_380_000;
    for nobody in [Value::Null, "".into()] {
        let of_nobody = [
            span(nobody.clone(), Some(0.25), at),
            span(nobody, Some(0.5), at + 1),
        ];
        assert_eq!(
            of(&of_nobody),
            (2, Some(0.75), 1),
            "their parent is missing"
        );
    }
    assert_eq!(
        of(&[
            span("01".into(), Some(0.25), at),
            span("02".into(), None, at + 1)
        ]),
        (2, None, 1)
    );
}

#[test]
fn one_document_says_the_same() {
    let lines = fs::read_to_string(traces()).expect("read");
    let mut all = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        all.extend(line["resourceSpans"].as_array().expect("spans").clone());
    }
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.json");
    let document = serde_json::json!({"resourceSpans": all});
    fs::write(
        &path,
        serde_json::to_string_pretty(&document).expect("JSON"),
    )
    .expect("written");
    for name in ['a', 'b', 'c'] {
        let (one, other) = (trace(name), read(&path.join(name.to_string().repeat(32))));
        assert_eq!(
            (&one.row.verdict, one.row.tokens),
            (&other.row.verdict, other.row.tokens)
        );
        assert!((0..one.row.steps).all(|n| one.step(n) == other.step(n)));
    }
}

#[test]
fn spans_that_come_make_the_same_runs() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.jsonl");
    let text = fs::read_to_string(traces()).expect("read");
    let name = "a".repeat(32);
    let mut reader: Option<RunReader> = None;
    let mut index = Index::default();
    let mut seen = 0;
    for end in text.match_indices('\n').map(|(at, _)| at) {
        // With part of the next line.
        fs::write(&path, &text[..(end + 300).min(text.len())]).expect("written");
        let run = path.join(&name);
        let dir = RunDir::of_file(&run).expect("readable").expect("a trace");
        let reader = reader.get_or_insert_with(|| RunReader::new(dir.clone()));
        index.apply(reader.refresh(u64::MAX));
        let whole = read_index(&dir);
        let told = |index: &Index| {
            let steps = index
                .steps()
                .iter()
                .map(|step| (step.span, step.call.clone(), step.result_hash));
            (
                steps.collect::<Vec<_>>(),
                index.events().len(),
                index.manifest().get().cloned(),
            )
        };
        assert_eq!(told(&index), told(&whole));
        assert!(index.steps().len() >= seen);
        seen = index.steps().len();
    }
    assert_eq!(seen, 3);
}

#[test]
fn damage_costs_the_spans_that_it_hits() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.jsonl");
    let whole = fs::read(traces()).expect("read");
    let look = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("written");
        let mut steps = 0;
        for dir in RootScanner::new(temp.path().to_owned())
            .scan()
            .runs
            .values()
        {
            let index = read_index(dir);
            for step in index.steps() {
                dir.line(|| &index, TraceFile::Steps, step.span)
                    .expect("a listed step can be read");
            }
            steps += index.steps().len();
        }
        steps
    };
    let all = look(&whole);
    assert_eq!(all, 6);
    let mut seen = 0;
    for cut in (0..whole.len()).step_by(times(211, 29)) {
        let found = look(&whole[..cut]);
        assert!(
            found >= seen,
            "{found} steps of {cut} bytes, {seen} of fewer"
        );
        seen = found;
    }
    for (at, byte) in (700..whole.len())
        .step_by(times(293, 41))
        .zip(b"\"{}[],:0n\\\0\n\xff".iter().cycle())
    {
        let mut spoilt = whole.clone();
        spoilt[at] = *byte;
        // A line has at most two replies, and a line end damages one more.
        assert!(look(&spoilt) + 3 >= all, "byte {at} is {byte}");
    }
}

/// Counts replies, tools, failed tools and tokens in the spans of each trace, independently of the
/// reader.
fn counted(text: &str) -> BTreeMap<String, [u64; 4]> {
    let mut counts: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let scopes = list(&line["resourceSpans"])
            .into_iter()
            .flat_map(|resource| list(&resource["scopeSpans"]));
        for span in scopes.flat_map(|scope| list(&scope["spans"])) {
            let count = counts
                .entry(span["traceId"].as_str().expect("an id").to_owned())
                .or_default();
            let attribute = |name: &str| {
                let all = list(&span["attributes"]);
                all.into_iter()
                    .find(|attribute| attribute["key"] == name)
                    .map(|attribute| attribute["value"].clone())
            };
            let operation =
                attribute("gen_ai.operation.name").map(|value| value["stringValue"].clone());
            let is_tool = operation == Some("execute_tool".into());
            count[0] += u64::from(operation == Some("chat".into()));
            count[1] += u64::from(is_tool);
            count[2] += u64::from(is_tool && span["status"]["code"] == 2);
            for name in [
                "input_tokens",
                "output_tokens",
                "prompt_tokens",
                "completion_tokens",
            ] {
                let value = attribute(&format!("gen_ai.usage.{name}"));
                count[3] += value
                    .and_then(|value| value["intValue"].as_str()?.parse::<u64>().ok())
                    .unwrap_or_default();
            }
        }
    }
    counts
}

#[test]
fn what_is_read_of_traces_at_hand_is_what_stands_in_them() {
    let mut files = vec![traces()];
    files.extend(foreign("otlp").map(|dir| dir.join("pydantic-ai.jsonl")));
    for file in files {
        for (name, expected) in counted(&fs::read_to_string(&file).expect("read")) {
            // One trace has no agent, and one has other attributes.
            if expected[0] == 0 {
                continue;
            }
            let run = read(&file.join(&name));
            let steps: Vec<Value> = (0..run.row.steps).map(|n| run.step(n)).collect();
            let sum =
                |count: &dyn Fn(&Value) -> usize| steps.iter().map(count).sum::<usize>() as u64;
            let failed = |step: &Value| {
                let results = step["action_results"].as_array().into_iter().flatten();
                results.filter(|result| result["status"] == "error").count()
            };
            let calls = sum(&|step| step["actions"].as_array().map_or(0, Vec::len));
            // A call that was still open when the run ended has no span.
            let open = run
                .index
                .steps()
                .iter()
                .filter(|step| step.unanswered.is_some())
                .count() as u64;
            let found = [
                steps.len() as u64,
                calls - open,
                sum(&failed),
                run.row.tokens.unwrap_or_default(),
            ];
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn the_evidence_of_a_presumed_end_has_the_whole_error() {
    let error = "The upstream service refused the request because its quota is used up. Ask the owner to raise it.";
    let span = serde_json::json!({
        "traceId": "d".repeat(32), "spanId": "1".repeat(16), "parentSpanId": "2".repeat(16), "name": "chat m",
        "startTimeUnixNano": "1771751700000000000", "endTimeUnixNano": "1771751701000000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
        "status": {"code": 2, "message": error},
        "events": [{"name": "exception", "timeUnixNano": "1771751701000000000", "attributes": [
            {"key": "exception.type", "value": {"stringValue": "QuotaError"}},
            {"key": "exception.message", "value": {"stringValue": error}},
        ]}],
    });
    let document = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]});
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.jsonl");
    fs::write(&path, format!("{document}\n")).expect("written");
    let output = std::process::Command::new(crate::board::BINARY)
        .args(["why", "--json"])
        .arg(path.join("d".repeat(32)))
        .output()
        .expect("it runs");
    let why: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let headline = why["headline"].as_str().expect("a text");
    assert!(
        headline.contains("its quota is used up") && !headline.contains("Ask the owner"),
        "{why}"
    );
    let told = format!("The trace records \"QuotaError\" last, but not how the run ended: {error}");
    let evidence = why["evidence"].as_array().expect("a list");
    assert!(evidence.iter().any(|piece| piece["text"] == *told), "{why}");
}

#[test]
fn a_trace_without_its_root_took_as_long_as_what_is_there() {
    let text = std::fs::read_to_string(sample("tools/otlp/traces.jsonl")).expect("the sample");
    let (mut began, mut ended) = (u64::MAX, 0);
    let mut without = String::new();
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        for resource in line["resourceSpans"].as_array_mut().expect("a list") {
            for scope in resource["scopeSpans"].as_array_mut().expect("a list") {
                let spans = scope["spans"].as_array_mut().expect("a list");
                spans.retain(|span| {
                    span["parentSpanId"]
                        .as_str()
                        .is_some_and(|parent| !parent.is_empty())
                });
                for span in spans
                    .iter()
                    .filter(|span| span["traceId"].as_str().unwrap().starts_with('a'))
                {
                    let nanos = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
                    began = began.min(nanos("startTimeUnixNano"));
                    ended = ended.max(nanos("endTimeUnixNano"));
                }
            }
        }
        without.push_str(&format!("{line}\n"));
    }
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("traces.jsonl");
    std::fs::write(&path, without).expect("written");
    let whole = trace('a').row;
    let run = read(&path.join(whole.run_id.as_deref().expect("an id")));
    assert_eq!(
        run.row.life.liveness.word(),
        "unknown",
        "its end isn't recorded"
    );
    assert_eq!(run.row.duration_ms, Some((ended - began) as f64 / 1e6));
}

#[test]
fn a_run_began_and_changed_when_its_spans_did() {
    let row = read(&sample(
        "tools/otlp/traces.jsonl/cccccccccccccccccccccccccccccccc",
    ))
    .row;
    // From the start of the first span to the end of the last; no span encloses them.
    assert_eq!(
        (row.started, row.updated),
        (Some(1_789_380_021_000_000), Some(1_789_380_023_000_000))
    );
    assert_eq!(row.duration_ms, Some(2_000.0));
}

#[test]
fn spans_that_an_sdk_wrote_to_a_file_are_a_run() {
    let path = sample("tools/otel-sdk/copilot.jsonl").join("5a".repeat(16));
    let run = read(&path);
    let row = &run.row;
    assert_eq!(
        (row.steps, row.tool_calls, row.issues),
        (3, Some(2), (0, 0))
    );
    let tokens = (row.usage.input, row.usage.cached, row.usage.output);
    assert_eq!(tokens, (Some(3_500), Some(2_000), Some(80)));
    assert_eq!(row.usage.written, Some(600));
    assert_eq!(row.model.as_deref(), Some("claude-sonnet-4.5"));
    assert_eq!(row.duration_ms, Some(4_000.0));
    assert_eq!(
        row.verdict.sentence,
        "Finished at step 2 (inferred from \"stop\")"
    );
    assert_eq!(row.tool_errors, Some(1), "the command exited with 1");
    let first = run.step(0);
    assert_eq!(first["action_results"][0]["returncode"], 1);
}

#[test]
fn spans_that_an_sdk_printed_over_several_lines_are_a_run() {
    let path = sample("tools/otel-sdk/console.json").join("6b".repeat(16));
    let run = read(&path);
    let row = &run.row;
    assert_eq!(
        (row.steps, row.tool_errors, row.issues),
        (2, Some(1), (0, 0))
    );
    assert_eq!(row.task.as_deref(), Some("What is 33 + x?"));
    assert_eq!(row.answer.as_deref(), Some("x is no number."));
    assert_eq!(
        run.step(0)["action_results"][0]["error"],
        "TypeError: b is no number"
    );
    // The output of a program may be between its spans, and the last span may be incomplete.
    let text = fs::read_to_string(sample("tools/otel-sdk/console.json")).expect("the sample");
    let whole = text.find("\n}\n").expect("the first span") + 3;
    let temp = tempfile::tempdir().expect("a directory");
    let (first, rest) = text.split_at(whole);
    let mixed = format!("{first}33 is done\n{}", &rest[..rest.len() - 40]);
    fs::write(temp.path().join("out.json"), mixed).expect("written");
    let found = RootScanner::new(temp.path().to_owned()).scan();
    assert_eq!(found.runs.len(), 1);
    let run = read(&temp.path().join("out.json").join("6b".repeat(16)));
    assert_eq!(run.row.steps, 2);
    assert!(run.row.issues.0 > 0, "an incomplete span is listed");
}
