//! Cases of evaluation logs and telemetry: Inspect, tau2, OpenHands, SWE-agent, mini-SWE-agent, Harbor, OpenTelemetry.

use std::fs;
use std::path::Path;
use std::process::Command;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{assert_says, board, board_json};
use crate::board::BINARY;

/// Writes files below a new directory.
pub(super) fn written(files: &[(&str, &str)]) -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = temp.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    temp
}

/// Runs `board ARGS --json` in a directory and parses its stdout.
pub(super) fn json_in(dir: &Path, args: &[&str]) -> Value {
    let output = Command::new(BINARY)
        .current_dir(dir)
        .args(args)
        .arg("--json")
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "board {args:?}: {error}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    })
}

/// The rows of the runs below a directory, by their keys.
fn rows(dir: &Path) -> Vec<Value> {
    let mut rows = json_in(dir, &["list", "."])["runs"]
        .as_array()
        .unwrap()
        .clone();
    rows.sort_by_key(|row| row["key"].as_str().unwrap().to_owned());
    rows
}

/// The only run below a directory.
#[track_caller]
pub(super) fn row(dir: &Path) -> Value {
    let rows = rows(dir);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

/// The row of the only run of a case.
#[track_caller]
fn case(name: &str) -> Value {
    let list = board_json(&["list", name]);
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(1), "{list}");
    list["runs"][0].clone()
}

/// A case's file, changed.
pub(super) fn changed(name: &str, change: impl FnOnce(&mut Value)) -> TempDir {
    let path = super::cases().join(name);
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut value);
    written(&[(
        path.file_name().unwrap().to_str().unwrap(),
        &value.to_string(),
    )])
}

mod inspect {
    use super::*;

    #[test]
    fn the_usage_of_a_sample_is_compared_with_its_replies() {
        let run = "in_usage_disagree/log.json/rent_epoch_1";
        let words = "model_usage records 99,999 tokens";
        assert_says(&board(&["show", run]), &["issue"]);
        assert_says(&board(&["why", run]), &["contradiction  ", words]);
        let output = Command::new(BINARY)
            .current_dir(crate::cases::cases())
            .args(["check", run])
            .output()
            .unwrap();
        assert_says(
            &String::from_utf8_lossy(&output.stdout),
            &[words, &format!("{run}: 1 problem, 1 contradiction\n")],
        );
        // What a scorer took is in the usage too.
        let same = changed("in_usage_disagree/log.json", |log| {
            log["samples"][0]["model_usage"] =
                json!({"m": {"input_tokens": 900, "output_tokens": 8, "total_tokens": 908}});
        });
        assert_eq!(row(same.path())["contradictions"], 0);
    }

    #[test]
    fn both_limits_are_named_where_two_records_differ() {
        let run = "in_limit_one_place/log.json/rent_epoch_2";
        let sentence = board_json(&["why", run])["headline"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_says(
            &sentence,
            &["Token limit reached", "280 tokens", "900", "250"],
        );
        assert!(!sentence.contains("limit 900 tokens:"), "{sentence}");
        assert_eq!(case("in_limit_one_place")["contradictions"], 1);
    }

    #[test]
    fn an_invalidated_sample_says_by_whom_and_why() {
        let row = case("in_invalidated");
        assert_says(
            row["verdict"].as_str().unwrap(),
            &[
                "Finished at step 3",
                " · invalidated by me: grader was wrong",
            ],
        );
    }

    #[test]
    fn attempts_that_failed_before_are_counted() {
        let run = changed("in_invalidated/log.json", |log| {
            log["samples"][0]["error_retries"] =
                json!([{"message": "TimeoutError()"}, {"message": "RateLimitError(429)"}]);
        });
        let second = row(run.path())["verdict_second"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_says(
            &second,
            &["retried 2 times", "The last one was: RateLimitError(429)."],
        );
    }

    #[test]
    fn grades_that_are_not_numbers_are_shown_with_their_explanations() {
        let log = "75-inspect-scores/2026-03-10T09-00-00+00-00_t_abc.json";
        let scores = |run: &str| board_json(&["scores", &format!("{log}/{run}")])["run"].clone();
        let grade = json!([
            {"name": "grade", "score": null, "score_text": "D", "reason": "bad", "answer": "x"},
        ]);
        assert_eq!(scores("a/b c_epoch_1"), grade);
        assert_eq!(scores("list_epoch_1")[0]["score_text"], "[true, false]");
        let each = scores("dict_epoch_1");
        assert_eq!(
            (&each[0]["score"], &each[1]["score"]),
            (&json!(0.5), &json!(1.0))
        );
        assert_says(
            &board(&["scores", &format!("{log}/a/b c_epoch_1")]),
            &["grade", "D", "grade: bad"],
        );
    }
}

mod tau2 {
    use super::*;

    #[test]
    fn a_cost_of_the_agent_that_its_messages_do_not_add_up_to_is_a_contradiction() {
        let row = case("t2_cost");
        assert_eq!(
            (&row["cost_usd"], &row["contradictions"]),
            (&Value::Null, &json!(1))
        );
        let why = board(&["why", "t2_cost/results.json/restart_trial_0"]);
        assert_says(
            &why,
            &[
                "The records disagree on the cost: $55.00 (the trace's own total), $0.0030 (the sum of the steps)",
            ],
        );
    }

    #[test]
    fn failed_checks_behind_a_full_reward_are_shown() {
        let list = board_json(&["list", "73-tau2"]);
        let full = list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == "results.json/6_trial_0")
            .unwrap();
        let second = full["verdict_second"].as_str().unwrap();
        assert_eq!(
            second,
            "The reward is 1, but 1 of 1 action check failed (get_reservation_details)."
        );
    }

    #[test]
    fn a_simulation_without_an_end_is_over_all_the_same() {
        let run = changed("t2_cost/results.json", |results| {
            let simulation = results["simulations"][0].as_object_mut().unwrap();
            simulation.remove("termination_reason");
        });
        let row = row(run.path());
        assert_eq!(
            (&row["liveness"], &row["outcome"]),
            (&json!("unknown"), &json!("unknown"))
        );
        let negative = changed("t2_cost/results.json", |results| {
            results["simulations"][0]["duration"] = json!(-5.0)
        });
        assert!(
            self::row(negative.path())["duration_ms"]
                .as_f64()
                .is_none_or(|ms| ms >= 0.0)
        );
    }
}

mod swe_agent {
    use super::*;

    #[test]
    fn a_time_limit_of_commands_is_told_without_a_measure_that_is_not_the_tools() {
        let row = case("sw_exit_exit_total_execution_time");
        let verdict = row["verdict"].as_str().unwrap();
        assert!(
            verdict.starts_with("Time limit for commands reached") && !verdict.contains("750 ms"),
            "{verdict}"
        );
        assert!(!verdict.contains("30 min"), "{verdict}");
    }

    #[test]
    fn a_new_file_without_an_end_is_not_a_run_that_continues() {
        let run = changed("sw_exit_exit_total_execution_time/run.traj", |run| {
            run["info"]["exit_status"] = Value::Null
        });
        let row = row(run.path());
        assert_eq!(
            (&row["liveness"], &row["outcome"]),
            (&json!("unknown"), &json!("unknown"))
        );
        assert_says(
            row["verdict"].as_str().unwrap(),
            &["No end recorded after step 2"],
        );
    }

    #[test]
    fn a_history_before_the_trajectory_adds_no_steps() {
        let whole = case("sw_exit_exit_total_execution_time");
        // The keys of the copy are sorted.
        let run = changed("sw_exit_exit_total_execution_time/run.traj", |_| {});
        let text = fs::read_to_string(run.path().join("run.traj")).unwrap();
        assert!(
            text.find("\"history\"") < text.find("\"trajectory\""),
            "{text}"
        );
        let row = row(run.path());
        for field in [
            "steps",
            "tool_calls",
            "model_calls",
            "tokens",
            "verdict",
            "verdict_second",
            "task",
            "project",
        ] {
            assert_eq!(row[field], whole[field], "{field}");
        }
    }
}

#[test]
fn two_limits_that_were_reached_at_once_are_both_named() {
    let row = case("ms_both_limits");
    assert_eq!(
        row["verdict"],
        "Step and cost limit reached: 1 step (limit 1), $0.03 (limit $0.02)"
    );
    let why = board_json(&["why", "ms_both_limits/run.traj.json"]);
    let cost = why["rules"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["id"] == "cost_limit")
        .unwrap();
    assert_eq!(
        (&cost["also"], &cost["result"]),
        (&json!(true), &json!("held")),
        "{cost}"
    );
}

mod openhands {
    use super::*;

    #[test]
    fn a_state_beside_another_error_is_a_contradiction() {
        let why = board_json(&["why", "oh_stuck"]);
        let words =
            "base_state.json records stuck, but the last event records MaxIterationsReached";
        assert_eq!(why["contradictions"], json!([words]));
        assert_says(
            why["headline"].as_str().unwrap(),
            &["The files disagree on how the run ended", words],
        );
        assert_eq!(
            (&why["outcome"], &why["certainty"]),
            (&json!("unknown"), &json!("unknown"))
        );
        let text = board(&["why", "oh_stuck"]);
        assert_says(&text, &["certainty  unknown; the records conflict\n"]);
        // 3 of 3 steps.
        assert_says(&text, &["at its limit"]);
    }

    #[test]
    fn each_line_of_an_evaluation_is_a_run() {
        let list = board_json(&["list", "72-openhands-output-jsonl"]);
        let runs = list["runs"].as_array().unwrap();
        let of = |row: &Value| {
            (
                row["run_id"].clone(),
                row["steps"].clone(),
                row["cost_usd"].clone(),
                row["tokens"].clone(),
            )
        };
        let expected =
            ["proj__0", "proj__1"].map(|id| (json!(id), json!(2), json!(0.5), json!(110)));
        assert_eq!(runs.iter().map(of).collect::<Vec<_>>(), expected);
        let run = "72-openhands-output-jsonl/output.jsonl/proj__1";
        let shown = board(&["show", run, "--steps"]);
        assert_says(
            &shown,
            &["Fix the bug", "execute_bash(command=\"ls\")", "finish("],
        );
        // The place of a step behind the first line is found again.
        let step = board(&[
            "show",
            "72-openhands-output-jsonl/output.jsonl/proj__1",
            "--step",
            "0",
        ]);
        assert_says(
            &step,
            &[
                "step 0 of 72-openhands-output-jsonl/output.jsonl/proj__1",
                "execute_bash(command=\"ls\")",
            ],
        );
    }

    /// An instance with this history.
    fn instance(id: &str, history: &Value, error: &Value) -> String {
        let metadata = json!({"agent_class": "CodeActAgent", "llm_config": {"model": "m"}, "max_iterations": 30});
        let result = json!({"git_patch": "", "report": {"resolved": false}});
        let line = json!({
            "instance_id": id, "test_result": result, "instruction": "Fix it", "metadata": metadata, "history": history,
            "metrics": {"accumulated_cost": 0.25}, "error": error,
        });
        format!("{line}\n")
    }

    #[test]
    fn instances_of_all_generations_are_read_and_what_is_torn_costs_its_line() {
        let action = json!({"id": 1, "timestamp": "2026-03-10T09:00:05", "source": "agent", "action": "run", "args": {"command": "ls"}});
        let seen = json!({"id": 2, "timestamp": "2026-03-10T09:00:06", "source": "agent", "observation": "run", "content": "a", "cause": 1});
        let event = json!({
            "id": "e1", "timestamp": "2026-03-10T09:00:05", "source": "agent", "kind": "ActionEvent", "thought": [],
            "tool_name": "terminal", "tool_call_id": "c1", "llm_response_id": "r1", "action": {"command": "ls"},
            "tool_call": {"id": "c1", "name": "terminal", "arguments": "{\"command\": \"ls\"}"},
        });
        let lines = [
            instance("flat", &json!([action, seen]), &Value::Null),
            instance(
                "pairs",
                &json!([[action, seen]]),
                &json!(
                    "RuntimeError: Agent reached maximum iteration. Current iteration: 30, max iteration: 30"
                ),
            ),
            "{\"not\": \"an instance\"}\n".to_owned(),
            instance("sdk", &json!([event]), &json!("RateLimitError: 429")),
        ];
        let torn = instance("torn", &json!([action]), &Value::Null);
        let text = lines.concat() + &torn[..torn.len() / 2];
        let temp = written(&[("output.jsonl", &text)]);
        let rows = rows(temp.path());
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row["run_id"].as_str().unwrap(),
                    row["steps"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(told, [("flat", 1), ("pairs", 1), ("sdk", 1)]);
        assert_eq!(
            (&rows[0]["outcome"], &rows[0]["tool_calls"]),
            (&json!("unknown"), &json!(1))
        );
        assert_says(
            rows[1]["verdict"].as_str().unwrap(),
            &["Step limit reached", "30 iterations"],
        );
        assert_eq!(
            (&rows[1]["tool_calls"], &rows[1]["outcome"]),
            (&json!(1), &json!("truncated"))
        );
        assert_eq!(
            (&rows[2]["outcome"], &rows[2]["model"]),
            (&json!("failed"), &json!("m"))
        );
        let shown = json_in(temp.path(), &["show", "output.jsonl/pairs", "--step", "0"]);
        assert!(shown.to_string().contains("\"ls\""), "{shown}");
    }
}

mod harbor {
    use super::*;

    #[test]
    fn what_the_agent_printed_holds_the_steps_where_no_trajectory_is_there() {
        let row = case("90-harbor-claude-txt");
        assert_eq!(
            (&row["steps"], &row["format"]),
            (&json!(2), &json!("Harbor trial"))
        );
        assert_eq!(
            (&row["verdict"], &row["last_score"]),
            (
                &json!("The agent finished at step 1 · reward 1"),
                &json!(1.0)
            )
        );
        assert_says(
            &board(&["show", "90-harbor-claude-txt/job/cit__abc", "--steps"]),
            &["Bash(command=\"ls\")", "answer: done"],
        );
    }

    #[test]
    fn an_issue_of_its_stream_has_a_line() {
        let case = super::super::cases().join("90-harbor-claude-txt/job/cit__abc");
        let read = |name: &str| fs::read_to_string(case.join(name)).unwrap();
        let stream = read("agent/claude-code.txt").replacen('\n', "\n{\"type\": \n", 1);
        let temp = written(&[
            ("t/config.json", &read("config.json")),
            ("t/result.json", &read("result.json")),
            ("t/agent/claude-code.txt", &stream),
        ]);
        let packed = compress_to_vec(stream.as_bytes(), CompressionLevel::Fastest);
        let rollout = temp.path().join("stream.jsonl.zst");
        fs::write(&rollout, packed).unwrap();
        for (run, file) in [
            (temp.path().join("t"), "/t/agent/claude-code.txt:2: byte "),
            (rollout, "/stream.jsonl.zst:2: byte "),
        ] {
            let output = Command::new(BINARY).arg("check").arg(run).output().unwrap();
            assert_says(&String::from_utf8_lossy(&output.stdout), &[file]);
        }
    }

    #[test]
    fn a_limit_that_the_stream_records_is_the_end_of_its_trial() {
        let case = super::super::cases().join("90-harbor-claude-txt/job/cit__abc");
        let read = |name: &str| fs::read_to_string(case.join(name)).unwrap();
        let stream = read("agent/claude-code.txt").replace(
            "\"subtype\": \"success\", \"is_error\": false",
            "\"subtype\": \"error_max_turns\", \"is_error\": true",
        );
        let temp = written(&[
            ("t/config.json", &read("config.json")),
            ("t/result.json", &read("result.json")),
            ("t/agent/claude-code.txt", &stream),
        ]);
        assert_says(
            row(temp.path())["verdict"].as_str().unwrap(),
            &["Turn limit reached"],
        );
        let codex = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n{\"type\":\"turn.started\"}\n\
            {\"type\":\"item.completed\",\"item\":{\"id\":\"i0\",\"type\":\"agent_message\",\"text\":\"done\"}}\n\
            {\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":10,\"cached_input_tokens\":0,\"output_tokens\":2}}\n";
        let temp = written(&[
            ("t/config.json", &read("config.json")),
            ("t/result.json", &read("result.json")),
            ("t/agent/codex.txt", codex),
        ]);
        let row = row(temp.path());
        assert_eq!(
            (&row["steps"], &row["last_score"]),
            (&json!(1), &json!(1.0))
        );
    }
}

mod otlp {
    use super::*;

    /// A span; attributes are texts and whole numbers.
    fn span(
        id: &str,
        parent: &str,
        operation: &str,
        seconds: (u64, u64),
        more: &[(&str, Value)],
    ) -> Value {
        let nanos = |second: u64| format!("{}", (1_777_629_600 + second) * 1_000_000_000);
        let mut all = vec![attribute("gen_ai.operation.name", &json!(operation))];
        all.extend(more.iter().map(|(key, value)| attribute(key, value)));
        json!({
            "traceId": "44f683a84163b3523afe57c2e008bc8c", "spanId": id, "parentSpanId": parent, "name": operation,
            "startTimeUnixNano": nanos(seconds.0), "endTimeUnixNano": nanos(seconds.1), "attributes": all,
            "events": [], "status": {},
        })
    }

    fn attribute(key: &str, value: &Value) -> Value {
        let value = value.as_str().map_or_else(
            || json!({"intValue": value.to_string()}),
            |text| json!({"stringValue": text}),
        );
        json!({"key": key, "value": value})
    }

    fn trace(spans: &[Value]) -> String {
        json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string() + "\n"
    }

    #[test]
    fn a_reply_that_two_nested_spans_record_is_one_step() {
        let row = case("62-otel-nested-llm");
        let counted =
            ["steps", "tokens", "errors", "tool_errors", "model_calls"].map(|key| row[key].clone());
        assert_eq!(counted, [2, 1_330, 0, 0, 2].map(|n| json!(n)));
    }

    #[test]
    fn the_inner_span_of_a_reply_adds_what_the_outer_one_lacks() {
        let said = json!([{"role": "assistant", "parts": [{"type": "text", "content": "Hello."}], "finish_reason": "stop"}]);
        let spans = [
            span(
                "a",
                "",
                "chat",
                (1, 9),
                &[("gen_ai.request.model", json!("m"))],
            ),
            span("b", "a", "http", (2, 8), &[]),
            span(
                "c",
                "b",
                "chat",
                (3, 7),
                &[
                    ("gen_ai.usage.input_tokens", json!(50)),
                    ("gen_ai.usage.output_tokens", json!(5)),
                    ("gen_ai.output.messages", json!(said.to_string())),
                ],
            ),
        ];
        let temp = written(&[("traces.jsonl", &trace(&spans))]);
        let row = row(temp.path());
        assert_eq!(
            (&row["steps"], &row["tokens"], &row["outcome"]),
            (&json!(1), &json!(55), &json!("completed"))
        );
        let shown = json_in(
            temp.path(),
            &["show", row["key"].as_str().unwrap(), "--step", "0"],
        );
        assert!(shown.to_string().matches("Hello.").count() > 0, "{shown}");
    }

    #[test]
    fn the_last_error_explains_the_end_of_a_trace_without_a_root() {
        let row = case("64-otel-orphans");
        assert_says(
            row["verdict"].as_str().unwrap(),
            &["429 slow down", "RateLimitError"],
        );
        assert_eq!(
            (&row["outcome"], &row["certainty"]),
            (&json!("failed"), &json!("inferred"))
        );
        let why = board_json(&["why", "64-otel-orphans/traces.json"]);
        assert_says(
            why["first_trouble"]["text"].as_str().unwrap(),
            &["RateLimitError: 429 slow down"],
        );
    }

    #[test]
    fn text_that_was_not_recorded_is_not_an_error() {
        let row = case("66-otel-content-off");
        assert_eq!(
            (&row["errors"], &row["tool_errors"], &row["issues"]),
            (&json!(0), &json!(0), &json!(0))
        );
        assert_eq!(
            row["verdict"],
            "Finished at step 1 (inferred from \"stop\")"
        );
        assert_eq!(case("62-otel-nested-llm")["errors"], 0);
    }

    #[test]
    fn text_in_span_events_is_read() {
        let row = case("67-otel-span-events");
        assert_eq!(
            (&row["errors"], &row["task"]),
            (&json!(0), &json!("Where is the vole?"))
        );
        assert_says(
            &board(&["show", "67-otel-span-events/traces.json"]),
            &["answer: Under the log."],
        );
        assert_says(
            &board(&["show", "67-otel-span-events/traces.json", "--step", "0"]),
            &["Under the log."],
        );
    }

    #[test]
    fn text_in_log_records_is_read() {
        let body = json!({"kvlistValue": {"values": [
            {"key": "index", "value": {"intValue": "0"}},
            {"key": "finish_reason", "value": {"stringValue": "stop"}},
            {"key": "message", "value": {"kvlistValue": {"values": [
                {"key": "role", "value": {"stringValue": "assistant"}},
                {"key": "content", "value": {"stringValue": "Under the log."}},
            ]}}},
        ]}});
        let asked = json!({"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "Where?"}}]}});
        let record = |name: &str, body: &Value, second: u64| {
            json!({
                "traceId": "44f683a84163b3523afe57c2e008bc8c", "spanId": "a", "eventName": name, "body": body,
                "timeUnixNano": format!("{}", (1_777_629_600 + second) * 1_000_000_000),
                "attributes": [attribute("gen_ai.system", &json!("x"))],
            })
        };
        let records = [
            record("gen_ai.user.message", &asked, 2),
            record("gen_ai.choice", &body, 3),
        ];
        let logs =
            json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string() + "\n";
        let temp = written(&[(
            "traces.jsonl",
            &(logs + &trace(&[span("a", "", "chat", (1, 4), &[])])),
        )]);
        let row = row(temp.path());
        assert_eq!(
            (&row["steps"], &row["task"], &row["errors"]),
            (&json!(1), &json!("Where?"), &json!(0))
        );
        assert_eq!(
            row["verdict"],
            "Finished at step 0 (inferred from \"stop\")"
        );
        let shown = json_in(
            temp.path(),
            &["show", row["key"].as_str().unwrap(), "--step", "0"],
        );
        assert!(shown.to_string().contains("Under the log."), "{shown}");
    }

    #[test]
    fn the_span_of_a_tool_that_names_no_call_answers_the_open_call_of_the_same_tool() {
        let asks = |id: &str, second: u64, query: u64| {
            let call = "llm.output_messages.0.message.tool_calls.0.tool_call";
            span(
                id,
                "r",
                "chat",
                (second, second + 1),
                &[
                    (&format!("{call}.id"), json!(format!("c{query}"))),
                    (&format!("{call}.function.name"), json!("look")),
                    (
                        &format!("{call}.function.arguments"),
                        json!(format!("{{\"q\": {query}}}")),
                    ),
                ],
            )
        };
        let tool = |id: &str, second: u64, query: u64| {
            let more = [
                ("tool.name", json!("look")),
                ("input.value", json!(format!("{{\"q\":{query}}}"))),
            ];
            span(id, "r", "execute_tool", (second, second + 1), &more)
        };
        let root = span("r", "", "invoke_agent", (0, 9), &[]);
        let spans = [
            root,
            asks("a", 1, 0),
            tool("b", 3, 0),
            asks("c", 5, 1),
            tool("d", 7, 1),
        ];
        let temp = written(&[("traces.jsonl", &trace(&spans))]);
        let row = row(temp.path());
        let counted = ["steps", "tool_calls", "tool_errors"].map(|key| row[key].clone());
        assert_eq!(counted, [2, 2, 0].map(|n| json!(n)), "{row}");
        let shown = json_in(
            temp.path(),
            &["show", row["key"].as_str().unwrap(), "--step", "0"],
        )
        .to_string();
        assert!(!shown.contains("no answer"), "{shown}");
    }

    #[test]
    fn a_span_whose_parent_is_in_another_file_says_so() {
        let temp = written(&[(
            "traces.jsonl",
            &trace(&[span("a", "gone", "chat", (1, 2), &[])]),
        )]);
        assert!(row(temp.path())["issues"].as_u64().unwrap() > 0);
    }

    #[test]
    fn the_usage_of_a_root_without_replies_is_the_runs_and_its_steps_are_unknown() {
        let used = [
            ("gen_ai.usage.input_tokens", json!(300)),
            ("gen_ai.usage.output_tokens", json!(30)),
        ];
        let temp = written(&[(
            "traces.jsonl",
            &trace(&[span("r", "", "invoke_agent", (0, 9), &used)]),
        )]);
        let row = row(temp.path());
        assert_eq!((&row["tokens"], &row["steps"]), (&json!(330), &Value::Null));
    }

    #[test]
    fn usage_on_the_root_alone_is_the_runs() {
        let used = |input: u64| {
            [
                ("gen_ai.usage.input_tokens", json!(input)),
                ("gen_ai.usage.output_tokens", json!(10)),
            ]
        };
        let alone = [
            span("r", "", "invoke_agent", (0, 9), &used(300)),
            span("a", "r", "chat", (1, 2), &[]),
        ];
        let temp = written(&[("traces.jsonl", &trace(&alone))]);
        assert_eq!(row(temp.path())["tokens"], 310);
        let both = [
            span("r", "", "invoke_agent", (0, 9), &used(300)),
            span("a", "r", "chat", (1, 2), &used(500)),
        ];
        let temp = written(&[("traces.jsonl", &trace(&both))]);
        let row = row(temp.path());
        assert_eq!(
            (&row["problems"], &row["contradictions"]),
            (&json!(1), &json!(1)),
            "{row}"
        );
    }
}

/// The same end has the same outcome, whoever wrote the trace.
#[test]
fn a_rate_limit_is_a_failure_in_every_format() {
    let harbor = |kind: &str| {
        let result = json!({
            "trial_name": "t", "task_name": "x", "finished_at": "2026-03-10T09:10:00", "started_at": "2026-03-10T09:00:00",
            "exception_info": {"exception_type": kind, "exception_message": "429"},
        });
        let steps = json!({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"},
            "steps": [{"step_id": 1, "source": "user", "message": "x"}, {"step_id": 2, "source": "agent", "message": "y"}]});
        written(&[
            (
                "t/config.json",
                "{\"task\": {\"path\": \"x\"}, \"trial_name\": \"t\"}",
            ),
            ("t/result.json", &result.to_string()),
            ("t/agent/trajectory.json", &steps.to_string()),
        ])
    };
    let mini = changed("ms_both_limits/run.traj.json", |run| {
        run["info"]["exit_status"] = json!("RateLimitError");
        run["messages"]
            .as_array_mut()
            .unwrap()
            .retain(|message| message["role"] != "exit");
    });
    let history = json!([
        {"id": 0, "timestamp": "2026-03-10T09:00:00", "source": "user", "action": "message", "args": {"content": "x"}},
        {"id": 1, "timestamp": "2026-03-10T09:00:01", "source": "agent", "action": "message", "args": {"content": "y"}},
        {"id": 2, "timestamp": "2026-03-10T09:00:02", "source": "environment", "observation": "agent_state_changed",
            "content": "", "extras": {"agent_state": "rate_limited", "reason": "429"}},
    ]);
    let openhands = written(&[("trajectory.json", &history.to_string())]);
    let runs = [
        harbor("ApiRateLimitError"),
        harbor("RateLimitError"),
        harbor("ApiUsageLimitError"),
        mini,
        openhands,
    ];
    for run in &runs {
        let row = row(run.path());
        assert_eq!(row["outcome"], "failed", "{row}");
    }
}

#[test]
fn a_document_that_is_written_once_never_waits_for_the_model() {
    let now = rfc3339(std::time::SystemTime::now());
    let steps = json!({"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "x", "timestamp": now},
        {"step_id": 2, "source": "agent", "message": "y", "timestamp": now,
            "tool_calls": [{"tool_call_id": "c", "function_name": "ls", "arguments": {}}]},
    ]});
    let temp = written(&[("trajectory.json", &steps.to_string())]);
    let row = row(temp.path());
    assert_eq!(
        (&row["liveness"], &row["outcome"]),
        (&json!("unknown"), &json!("unknown")),
        "{row}"
    );
    assert_says(
        row["verdict"].as_str().unwrap(),
        &["No end recorded after step 0"],
    );
}

/// The time as RFC 3339.
fn rfc3339(time: std::time::SystemTime) -> String {
    let micros = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_micros();
    trace_board::model::time::rfc3339(i64::try_from(micros).unwrap()).unwrap()
}
