use std::io::Cursor;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use rmcp::RoleServer;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::Transport as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::transport::{MAX_MESSAGE, MAX_OPEN};
use super::*;
use crate::live::Library;
use crate::model::json::Json;

const HANDSHAKE_VERSION: &str = "2025-11-25";
const MODERN_VERSION: &str = "2026-07-28";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A run that ended after three steps, and one that was stopped.
const RUNS: [&str; 2] = ["fix_bug", "critic_stop"];

fn samples() -> Library {
    let root = Path::new("sample_runs");
    // Loading two runs is quick; all of them take a while in debug builds.
    Library::load(RUNS.iter().map(|run| root.join(run)).collect())
}

/// Returns the responses to these lines.
fn ask_lines(text: &str) -> Vec<Value> {
    let mut out = Vec::new();
    talk(samples(), Cursor::new(text.to_owned()), &mut out).unwrap();
    let lines = String::from_utf8(out).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ask(requests: &[(&str, Value)]) -> Vec<Value> {
    let lines = requests.iter().enumerate().map(|(id, (method, params))| {
        format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
        )
    });
    let mut answers = ask_lines(&lines.collect::<String>());
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert!(
        answers
            .iter()
            .enumerate()
            .all(|(id, answer)| answer["id"] == id && answer["jsonrpc"] == "2.0")
    );
    answers
}

/// Returns the tools' results: the document, or the error text.
fn call(calls: &[(&str, Value)]) -> Vec<Result<Value, String>> {
    let call = |(name, arguments): &(&str, Value)| {
        (
            "tools/call",
            json!({ "name": name, "arguments": arguments }),
        )
    };
    let answers = ask(&calls.iter().map(call).collect::<Vec<_>>());
    let answer = |answer: Value| {
        let result = &answer["result"];
        let text = result["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        match result["isError"] == true {
            true => Err(text.to_owned()),
            false => Ok(serde_json::from_str(text).unwrap()),
        }
    };
    answers.into_iter().map(answer).collect()
}

#[test]
fn a_handshake_takes_the_version_that_is_asked_for_or_offers_the_newest() {
    let hello = |version: &str| {
        (
            "initialize",
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } }),
        )
    };
    let answers = ask(&[
        hello("2024-11-05"),
        hello("2025-06-18"),
        hello("1999-01-01"),
        hello(MODERN_VERSION),
    ]);
    let versions: Vec<_> = answers
        .iter()
        .map(|answer| answer["result"]["protocolVersion"].as_str().unwrap())
        .collect();
    assert_eq!(
        versions,
        [
            "2024-11-05",
            "2025-06-18",
            HANDSHAKE_VERSION,
            HANDSHAKE_VERSION
        ]
    );
    let result = &answers[0]["result"];
    assert_eq!(result["serverInfo"]["name"], "board");
    assert!(
        result["capabilities"]["tools"].is_object()
            && result["instructions"].as_str().unwrap().contains("why")
    );
}

#[test]
fn a_request_may_name_its_version_itself() {
    let meta =
        |version: Value| json!({ "_meta": { META_VERSION: version, META_CAPABILITIES: {} } });
    let answers = ask(&[
        ("server/discover", meta(MODERN_VERSION.into())),
        ("tools/list", meta(MODERN_VERSION.into())),
        ("tools/list", meta("2031-01-01".into())),
        ("tools/list", meta(3.into())),
        ("tools/list", json!({})),
    ]);
    assert_eq!(
        answers[0]["result"]["supportedVersions"],
        json!([MODERN_VERSION])
    );
    assert_eq!(
        (
            &answers[1]["result"]["resultType"],
            &answers[1]["result"]["ttlMs"]
        ),
        (&json!("complete"), &json!(0))
    );
    for answer in &answers[2..4] {
        assert_eq!(
            (
                &answer["error"]["code"],
                &answer["error"]["data"]["supported"][0]
            ),
            (&json!(-32022), &json!(MODERN_VERSION))
        );
    }
    // Clients older than this field get only fields that they know.
    let fields: Vec<_> = answers[4]["result"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["tools"]);
}

#[test]
fn every_tool_has_a_schema_and_says_that_it_only_reads() {
    let tools = ask(&[("tools/list", json!({}))]).remove(0);
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "list_runs",
            "why",
            "step",
            "state",
            "search",
            "usage",
            "overview",
            "failures",
            "experiment",
            "diff",
            "whatif"
        ]
    );
    for tool in &tools {
        let schema = &tool["inputSchema"];
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&json!("object"), &json!(false)),
            "{tool}"
        );
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
        for (name, field) in schema["properties"].as_object().unwrap() {
            assert!(
                field["type"].is_string() && field["description"].is_string(),
                "{name}: {field}"
            );
        }
    }
    assert_eq!(tools[4]["inputSchema"]["required"], json!(["text"]));
}

#[test]
fn tools_answer_with_the_documents_of_the_api() {
    let path = std::path::absolute("sample_runs/critic_stop").unwrap();
    let answers = call(&[
        (
            "list_runs",
            json!({ "query": "outcome:halted", "after": null }),
        ),
        ("why", json!({ "run": "critic_stop" })),
        ("why", json!({ "run": path })),
        ("step", json!({ "run": "fix_bug", "limit": 2 })),
        ("step", json!({ "run": "fix_bug", "n": 2 })),
        ("step", json!({ "run": "fix_bug", "n": 2, "events": true })),
        ("state", json!({ "run": "fix_bug", "n": 2 })),
        ("state", json!({ "run": "fix_bug", "key": "tests.passed" })),
        ("search", json!({ "text": "treasurer", "limit": 1 })),
        ("diff", json!({ "a": "fix_bug", "b": "critic_stop" })),
        ("diff", json!({ "a": "fix_bug", "b": "fix_bug" })),
        (
            "whatif",
            json!({ "run": "fix_bug", "rules": ["max_steps=3", "token_budget=10"] }),
        ),
    ]);
    let answers: Vec<Value> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        (&answers[0]["matched"], &answers[0]["runs"][0]["key"]),
        (&json!(1), &json!("critic_stop/critic_stop"))
    );
    assert_eq!(
        (&answers[1]["stop_reason"], &answers[1]["step"]),
        (&json!("critic_stop"), &json!(3))
    );
    assert_eq!(answers[1], answers[2], "a path names a run as well");
    assert_eq!(
        (
            &answers[3]["steps"].as_array().unwrap().len(),
            &answers[3]["next"]
        ),
        (&2, &json!(1))
    );
    assert_eq!(answers[4]["head"]["n"], 2);
    assert_eq!(
        answers[4]["events"],
        answers[5]["events"].as_array().unwrap().len()
    );
    assert_eq!(
        (&answers[6]["run"], &answers[6]["n"]),
        (&json!("fix_bug/fix_bug"), &json!(2)),
        "an id names a run as well"
    );
    assert!(
        answers[7]["changes"].as_array().unwrap().len() > 1,
        "{}",
        answers[7]
    );
    assert_eq!(
        (
            &answers[8]["state"],
            answers[8]["hits"].as_array().unwrap().len()
        ),
        (&json!("done"), 1)
    );
    assert_eq!(
        (&answers[9]["differs"], &answers[9]["aligned"]["from"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(answers[10]["differs"], false);
    assert_eq!(answers[11]["rules"].as_array().unwrap().len(), 2);
}

#[test]
fn the_state_without_a_step_is_that_after_the_last_one_also_where_steps_are_skipped() {
    let root = tempfile::tempdir().unwrap();
    let last = r#"{"step_id": 7, "actions": [{"name": "ls"}], "state_diff": {"a": {"before": 1, "after": 2}}}"#;
    std::fs::write(
        root.path().join("steps.jsonl"),
        format!("{}{last}\n", "{}\n".repeat(100)),
    )
    .unwrap();
    let line = |id, arguments| {
        let params = json!({ "name": "state", "arguments": arguments });
        format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        )
    };
    let (mut out, path) = (Vec::new(), root.path().to_owned());
    let text = line(1, json!({ "run": path })) + &line(2, json!({ "run": path, "n": 50 }));
    talk(
        Library::load(vec![path.clone()]),
        Cursor::new(text),
        &mut out,
    )
    .unwrap();
    let answers: Vec<Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let text_of = |id: u64| {
        let answer = answers
            .iter()
            .find(|answer| answer["id"] == id)
            .unwrap_or_else(|| panic!("{answers:?}"));
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let state: Value = serde_json::from_str(&text_of(1)).unwrap();
    assert_eq!(state["n"], 17, "{state}");
    let steps = "It has 101 steps (board keeps 18, numbered 0 to 17).";
    assert!(text_of(2).contains(steps), "{}", text_of(2));
}

#[test]
fn what_cannot_be_answered_says_what_why_and_what_to_do() {
    let answers = call(&[
        ("why", json!({ "run": "critic_stp" })),
        ("why", json!({ "rn": "critic_stop" })),
        ("why", json!({})),
        ("why", json!({ "run": "critic_stop", "max_bytes": "all" })),
        ("step", json!({ "run": "fix_bug", "n": 400 })),
        ("step", json!({ "run": "fix_bug", "n": -1 })),
        ("step", json!({ "run": "fix_bug", "limit": 1.5 })),
        ("search", json!({ "text": "x", "limit": "ten" })),
        ("step", json!({ "run": "fix_bug", "step": 400 })),
        ("state", json!({ "run": "fix_bug", "step": 400 })),
        ("state", json!({ "run": "fix_bug", "key": "tset" })),
        ("search", json!({ "text": "" })),
        ("whatif", json!({ "run": "fix_bug", "rules": [] })),
        (
            "whatif",
            json!({ "run": "fix_bug", "rules": ["max_stps=3"] }),
        ),
        ("list_runs", json!({ "sort": "height" })),
    ]);
    let words = [
        "hint: did you mean critic_stop/critic_stop?",
        "unknown key `rn`",
        "`run` is missing",
        "max_bytes must be a whole number, not \"all\"",
        "400",
        "must be a whole number ≥ 0, not -1",
        "must be a whole number ≥ 0, not 1.5",
        "must be a whole number ≥ 0, not \"ten\"",
        "400",
        "400",
        "Its keys are",
        "error: ",
        "hint: rules must be a list",
        "max_steps",
        "height",
    ];
    for (answer, words) in answers.into_iter().zip(words) {
        let told = answer.unwrap_err();
        assert!(
            told.starts_with("error: ") && told.contains(words),
            "{words}: {told}"
        );
        assert!(
            told.lines()
                .skip(1)
                .all(|line| line.starts_with("because: ") || line.starts_with("hint: ")),
            "{told}"
        );
    }
    let answers = ask(&[
        ("tools/call", json!({ "name": "delete_runs" })),
        ("tools/call", json!([])),
        ("resources/list", json!({})),
        ("ping", json!({})),
    ]);
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| answer["error"]["code"].as_i64())
        .collect();
    assert_eq!(codes, [Some(-32602), Some(-32602), Some(-32601), None]);
    assert_eq!(answers[3]["result"], json!({}));
}

#[test]
fn garbage_is_answered_and_the_talk_goes_on() {
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}",
        "x".repeat(MAX_MESSAGE)
    );
    let ping = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let batch = json!([ping(4), notice, ping(5), 3]);
    let text = format!(
        "garbage\n{long}\n\n[]\n{notice}\n{batch}\n[{notice}]\n{}",
        ping(6)
    );
    let mut answers = ask_lines(&text);
    let list = answers
        .iter()
        .position(Value::is_array)
        .map(|at| answers.remove(at))
        .unwrap();
    let codes = |answers: &[Value]| {
        answers
            .iter()
            .map(|answer| answer["error"]["code"].as_i64())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        codes(&answers),
        [Some(-32700), Some(-32700), Some(-32600), None]
    );
    assert!(
        answers[1]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("4194304"),
        "{}",
        answers[1]
    );
    assert_eq!(answers[3]["id"], 6, "a last line needs no end");
    assert_eq!(codes(list.as_array().unwrap()), [None, None, Some(-32600)]);
}

/// Sends each line to a test.
struct Told(mpsc::Sender<Value>, Vec<u8>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.1);
        if !line.is_empty() {
            self.0.send(serde_json::from_slice(&line).unwrap()).unwrap();
        }
        Ok(())
    }
}

#[test]
fn a_run_that_goes_on_has_new_answers() {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("live");
    std::fs::create_dir(&run).unwrap();
    let step = |n: usize| {
        format!(
            "{}\n",
            json!({ "step_id": n, "decision": { "mode": "act" }, "actions": [] })
        )
    };
    std::fs::write(run.join("steps.jsonl"), step(0)).unwrap();
    let (mut requests, piped) = tokio::io::duplex(1 << 10);
    let (told, answers) = mpsc::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let library = Library::open(
        vec![root.path().to_owned()],
        crate::live::Options::default(),
    );
    let talk = std::thread::spawn(move || talk(library, piped, &mut Told(told, Vec::new())));
    let mut steps = || {
        let params = json!({ "name": "step", "arguments": { "run": "live" } });
        let request =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let line = format!("{request}\n");
        runtime
            .block_on(requests.write_all(line.as_bytes()))
            .unwrap();
        let answer: Value = answers.recv().unwrap();
        let document: Value =
            serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        document["total"].as_u64().unwrap()
    };
    assert_eq!(
        steps(),
        1,
        "the first question waits for the runs to be known"
    );
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(run.join("steps.jsonl"))
        .unwrap();
    file.write_all(step(1).as_bytes()).unwrap();
    while steps() < 2 {
        std::thread::yield_now();
    }
    drop(requests);
    talk.join().unwrap().unwrap();
}

/// Returns the responses to these messages. All that are there are read before any of them is answered.
fn ask_at_once(messages: &[Value]) -> Vec<Value> {
    let state = AppState::new(Arc::new(samples()), "localhost", watch::channel(false).1);
    let session = Session::new(state, Duration::ZERO);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let lines: Vec<_> = messages.iter().map(|line| format!("{line}\n")).collect();
    let mut out = Vec::new();
    let input = Cursor::new(lines.concat());
    runtime.block_on(answer(session, input, &mut out)).unwrap();
    let answers = String::from_utf8(out).unwrap();
    let lines = answers.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn list_runs(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "list_runs" } })
}

fn cancel(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

#[test]
fn a_request_that_was_cancelled_is_not_answered() {
    let answers = ask_at_once(&[list_runs("a"), list_runs("b"), cancel("a")]);
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, ["b"]);
}

#[test]
fn the_id_of_a_cancelled_request_can_be_used_again() {
    let answers = ask_at_once(&[
        list_runs("a"),
        cancel("a"),
        list_runs("a"),
        cancel("a"),
        list_runs("a"),
    ]);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers[0]["id"], "a");
    assert!(answers[0]["result"].is_object(), "{}", answers[0]);
}

/// Returns the next message if it is there.
fn received<R: AsyncRead + Unpin + Send>(
    transport: &mut Transport<R>,
) -> Poll<Option<ClientJsonRpcMessage>> {
    let mut next = pin!(transport.receive());
    next.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn no_more_requests_are_read_than_may_be_open() {
    let lines: Vec<_> = (0..=MAX_OPEN)
        .map(|id| {
            format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
            )
        })
        .collect();
    let (mut transport, mut replies) = Transport::new(Cursor::new(lines.concat()));
    let first = transport.receive().await.unwrap().into_request().unwrap().1;
    for _ in 1..MAX_OPEN {
        assert!(transport.receive().await.is_some());
    }
    let is_ready = |transport: &mut Transport<_>| received(transport).is_ready();
    assert!(!is_ready(&mut transport));
    let empty = rmcp::model::ServerResult::empty(());
    let answer = rmcp::model::ServerJsonRpcMessage::response(empty, first);
    rmcp::transport::Transport::<RoleServer>::send(&mut transport, answer)
        .await
        .unwrap();
    assert!(
        !is_ready(&mut transport),
        "an answer that isn't written yet keeps its place"
    );
    assert_eq!(
        replies.recv().await.unwrap().text,
        r#"{"id":0,"jsonrpc":"2.0","result":{}}"#
    );
    assert!(is_ready(&mut transport));
}

#[tokio::test]
async fn a_request_can_be_cancelled_while_as_many_are_open_as_may_be() {
    let ping = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } });
    let lines = (0..MAX_OPEN).map(ping).chain([cancel, ping(MAX_OPEN)]);
    let lines: Vec<_> = lines.map(|line| format!("{line}\n")).collect();
    let (mut transport, _replies) = Transport::new(Cursor::new(lines.concat()));
    for _ in 0..MAX_OPEN {
        assert!(received(&mut transport).is_ready());
    }
    let cancelled = received(&mut transport);
    assert!(
        matches!(
            cancelled,
            Poll::Ready(Some(ClientJsonRpcMessage::Notification(_)))
        ),
        "{cancelled:?}"
    );
    let next = received(&mut transport);
    assert!(
        matches!(next, Poll::Ready(Some(ClientJsonRpcMessage::Request(_)))),
        "the cancelled request made room: {next:?}"
    );
}

/// Ends, and has more after that, like a terminal.
struct Resumed(Vec<String>);

impl AsyncRead for Resumed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(self.0.remove(0).as_bytes());
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn input_after_the_end_is_not_read() {
    let ping = |id: u32| {
        format!(
            "{}\n",
            json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
        )
    };
    let (mut transport, _replies) = Transport::new(Resumed(vec![ping(1), String::new(), ping(2)]));
    assert!(received(&mut transport).is_ready());
    // The SDK drops this future and asks again whenever it has something else to do.
    for _ in 0..2 {
        assert!(
            received(&mut transport).is_pending(),
            "the first request isn't answered"
        );
    }
}

#[tokio::test]
async fn an_id_that_is_in_use_is_refused() {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let (mut transport, mut replies) = Transport::new(Cursor::new(format!("{ping}\n{ping}\n")));
    assert!(transport.receive().await.is_some());
    let refused = tokio::select! {
        _ = transport.receive() => unreachable!("the first request isn't answered"),
        reply = replies.recv() => reply.unwrap().text,
    };
    let refused: Value = serde_json::from_str(&refused).unwrap();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(1), &json!(-32600))
    );
}

#[test]
fn bad_messages_are_refused_with_their_id() {
    for (text, id) in [
        ("1", Value::Null),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, Value::Null),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Value::Null,
        ),
        (r#"{"id":7,"method":"x"}"#, 7.into()),
        (r#"{"jsonrpc":"1.0","id":7,"method":"x"}"#, 7.into()),
        (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, 7.into()),
        (r#"{"jsonrpc":"2.0","id":"q"}"#, "q".into()),
    ] {
        let answers = ask_lines(text);
        assert_eq!(answers.len(), 1, "{text}");
        assert_eq!(answers[0]["error"]["code"], -32600, "{text}");
        assert_eq!(answers[0].get("id"), Some(&id), "{text}");
    }
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not understood"}}"#;
    assert!(ask_lines(error).is_empty(), "an error isn't answered");
}

#[test]
fn a_notification_is_never_answered() {
    let odd = json!({ "jsonrpc": "2.0", "method": "notifications/initialized", "params": [1] });
    assert!(ask_lines(&format!("{odd}\n[{odd}]\n")).is_empty());
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let answers = ask_lines(&format!("[{odd},{ping}]"));
    let pong = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    assert_eq!(answers, [json!([pong])]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,300}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 200, 40, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
            proptest::collection::btree_map("[a-z\u{1}é]{1,12}", inner, 0..40)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A notification. Its parameters may be invalid.
fn notice() -> impl Strategy<Value = Value> {
    let fields = ("[a-z]{1,8}(/[a-z]{1,8})?", any_json());
    fields.prop_map(
        |(method, params)| json!({ "jsonrpc": "2.0", "method": method, "params": params }),
    )
}

fn is_notice(value: &Value) -> bool {
    value["jsonrpc"] == "2.0" && value["method"].is_string() && value.get("id").is_none()
}

/// The id that a refusal of this value has.
fn id_of(value: &Value) -> Value {
    let id = value.get("id").filter(|id| id.is_string() || id.is_i64());
    id.cloned().unwrap_or_default()
}

/// Any JSON, including notifications and batches with some of them.
fn any_line() -> impl Strategy<Value = Value> {
    let batch = proptest::collection::vec(prop_oneof![any_json(), notice()], 0..40);
    prop_oneof![any_json(), notice(), batch.prop_map(Value::from)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_json_is_answered_or_ignored(value in any_line()) {
        let line = serde_json::to_vec(&value).unwrap();
        let (mut transport, mut replies) = Transport::new(Cursor::new(line));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reading = async move { while transport.receive().await.is_some() {} };
        let collecting = async {
            let mut all = Vec::<Value>::new();
            while let Some(reply) = replies.recv().await {
                all.push(serde_json::from_str(&reply.text).unwrap());
            }
            all
        };
        let ((), answers) = runtime.block_on(async { tokio::join!(reading, collecting) });
        // One refusal for each value that is no message. A batch has a list of them.
        let (values, is_batch) = match &value {
            Value::Array(list) if (1..=MAX_OPEN).contains(&list.len()) => (&list[..], true),
            single => (std::slice::from_ref(single), false),
        };
        let refused: Vec<_> = values.iter().filter(|value| !is_notice(value)).map(id_of).collect();
        let expected = if refused.is_empty() { vec![] } else { vec![is_batch] };
        prop_assert_eq!(answers.iter().map(Value::is_array).collect::<Vec<_>>(), expected);
        let single = |answer| match answer {
            Value::Array(list) => list,
            single => vec![single],
        };
        let refusals: Vec<_> = answers.into_iter().flat_map(single).collect();
        prop_assert!(
            refusals.iter().all(|refusal| refusal["jsonrpc"] == "2.0" && refusal["error"]["code"] == -32600),
            "{refusals:?}"
        );
        let ids: Vec<_> = refusals.iter().map(|refusal| refusal["id"].clone()).collect();
        prop_assert_eq!(ids, refused);
    }

    #[test]
    fn an_answer_is_as_short_as_it_is_wanted_and_says_where_it_was_cut(document in any_json(), max in 200_usize..4_000) {
        let text = document.to_string();
        let whole = Json::parse(&text).unwrap();
        let short = bound::bounded(&whole, max);
        prop_assert!(short.len() <= max.max(200), "{} bytes of {max}", short.len());
        let read: Value = serde_json::from_str(&short).unwrap();
        if whole.to_string().len() <= max {
            prop_assert_eq!(read, document);
        } else {
            prop_assert!(read["truncated"].as_array().is_some_and(|cuts| !cuts.is_empty()), "{}", short);
        }
    }
}

#[test]
fn a_cut_is_named_by_its_place() {
    let document = json!({ "steps": [{ "observation": "é".repeat(30_000) }], "rows": (0..3_000).collect::<Vec<_>>() });
    let text = document.to_string();
    let short: Value =
        serde_json::from_str(&bound::bounded(&Json::parse(&text).unwrap(), 32_000)).unwrap();
    let cuts: Vec<_> = short["truncated"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cut| cut.as_str().unwrap())
        .collect();
    assert_eq!(cuts[0], "/rows: the first 2000 of 3000 entries");
    assert_eq!(
        cuts[1],
        "/steps/0/observation: the first 20000 of 60000 bytes"
    );
    assert!(cuts[2].starts_with("the full document has "), "{cuts:?}");
    assert!(
        short["steps"][0]["observation"]
            .as_str()
            .unwrap()
            .ends_with("… (40000 more bytes)")
    );
    assert_eq!(short["rows"].as_array().unwrap().len(), 2_000);
}
