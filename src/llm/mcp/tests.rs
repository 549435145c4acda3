use std::fs;
use std::path::Path;
use std::pin::pin;

use rmcp::model::{ClientJsonRpcMessage, ClientResult, ErrorData, RequestId};
use rmcp::transport::Transport as _;
use serde_json::{Map, Value, json};

use super::super::tests::endpoint::{Endpoint, Play};
use super::result::outcome;
use super::*;
use crate::engine::{Tool as _, ToolCx, ToolError};

const MODEL: &str =
    "[model]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"tiny\"\napi_key_env = \"\"\n";
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn parse(dir: &Path, text: &str) -> Result<AgentFile> {
    AgentFile::parse(&format!("{MODEL}{text}"), &dir.join("agent.toml"))
}

/// The agent file's section for a server with this script, which answers the handshake first.
fn script(rest: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
    format!(
        "[mcp.sh]\ncommand = [\"sh\", \"-c\", '''\nread hello; echo '{hello}'\nread notice; {rest}\n''']\n"
    )
}

/// Answers `tools/list`, which is the second request, with these names.
fn tools(names: &[&str]) -> String {
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .collect();
    format!(
        "read list; echo '{}'\n",
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } })
    )
}

fn answer(id: u32, result: &Value) -> String {
    format!(
        "read call; echo '{}'\n",
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    )
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

async fn start(text: &str) -> Result<McpServers> {
    let dir = tempfile::tempdir().unwrap();
    let environment = ["PATH", "OPENAI_API_KEY"].map(|name| {
        let value = std::env::var_os(name)
            .filter(|_| name == "PATH")
            .unwrap_or_else(|| "sk-0123456789".into());
        (name.into(), value)
    });
    let key = Secret::new(Some("sk-0123456789"));
    let context = AgentContext {
        key,
        environment: environment.into(),
        seed: 1,
    };
    parse(dir.path(), text)?.mcp_servers(&context).await
}

async fn call(servers: &McpServers, name: &str) -> std::result::Result<Value, ToolError> {
    let tool = servers
        .tools
        .iter()
        .find(|tool| tool.name() == name)
        .unwrap();
    let cx = ToolCx::alone();
    tool.call(Map::new(), cx).await
}

#[tokio::test]
async fn a_server_tells_its_tools_window_by_window_and_is_called() {
    let first = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "tools": [{ "name": "add.up", "description": "Adds.", "inputSchema": { "type": "object", "required": ["a"] } }],
        "nextCursor": "more",
    } });
    let second = json!({ "jsonrpc": "2.0", "id": 2, "result": { "tools": [{ "name": "echo" }, { "name": "rm" }] } });
    let rest = format!(
        "read list; echo 'a line that is no message'; echo '{first}'; read list; echo '{second}'\n{}{}",
        answer(3, &text("hello")),
        answer(
            4,
            &json!({ "content": [{ "type": "text", "text": "no such thing" }], "isError": true })
        )
    );
    let servers = start(&format!("{}tools = [\"add*\", \"echo\"]\n", script(&rest)))
        .await
        .unwrap();
    let names: Vec<_> = servers.tools.iter().map(|tool| tool.name()).collect();
    assert_eq!(
        names,
        ["sh__add_up", "sh__echo"],
        "what the file does not want is not there"
    );
    assert_eq!(
        (
            servers.tools[0].description(),
            &servers.tools[0].schema()["required"]
        ),
        ("Adds.", &json!(["a"]))
    );
    assert_eq!(call(&servers, "sh__echo").await, Ok(json!("hello")));
    assert_eq!(
        call(&servers, "sh__add_up").await.unwrap_err().message,
        "no such thing"
    );
    servers.end().await;
}

#[tokio::test]
async fn a_server_that_ends_or_says_too_much_is_a_failed_call() {
    let flood = "read call; head -c 17000000 /dev/zero | tr '\\0' x; echo\n";
    let rest = format!(
        "{}{flood}{}read call; echo gone >&2; exit 3\n",
        tools(&["do"]),
        answer(3, &text("fine"))
    );
    let servers = start(&script(&rest)).await.unwrap();
    let failed = call(&servers, "sh__do").await.unwrap_err();
    assert_eq!(failed.category, "server_failed");
    assert!(failed.message.contains("more than 16 MiB"), "{failed}");
    assert_eq!(
        call(&servers, "sh__do").await,
        Ok(json!("fine")),
        "it goes on after that"
    );
    for _ in 0..2 {
        let failed = call(&servers, "sh__do").await.unwrap_err();
        assert!(
            failed.message.contains("the server ended (exit status: 3)"),
            "{failed}"
        );
    }
}

#[tokio::test]
async fn what_does_not_begin_as_a_server_is_told() {
    let told = async |text: &str| {
        let error = start(text).await.unwrap_err();
        format!("{error}\n{}", error.hints().join("\n"))
    };
    let silent = "[mcp.x]\ncommand = [\"sleep\", \"1000\"]\nstart_timeout = 0.05\n";
    assert!(told(silent).await.contains("no response within 0.05 s"));
    let dead =
        told("[mcp.x]\ncommand = [\"sh\", \"-c\", \"echo sk-0123456789 is wrong >&2; exit 4\"]\n")
            .await;
    assert!(
        dead.contains("the server ended (exit status: 4)") && dead.contains("[key] is wrong"),
        "{dead}"
    );
    assert!(
        told("[mcp.x]\ncommand = [\"/no/such/program\"]\n")
            .await
            .contains("can't start the MCP server x")
    );
    let old =
        r#"read x; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"1999"}}'; read x"#;
    let older = old.replace(
        r#""1999""#,
        r#""1998","capabilities":{},"serverInfo":{"name":"x","version":"1"}"#,
    );
    assert!(
        told(&format!(
            "[mcp.x]\ncommand = [\"sh\", \"-c\", '''{older}''']\n"
        ))
        .await
        .contains("it uses protocol version \"1998\"")
    );
    assert!(
        told(&format!(
            "[mcp.x]\ncommand = [\"sh\", \"-c\", '''{old}''']\n"
        ))
        .await
        .contains("it uses protocol version \"1999\"")
    );
    let none = script(&format!("{}read x\n", tools(&["do"])));
    assert!(
        told(&format!("{none}tools = [\"undo\"]\n"))
            .await
            .contains("has no tool \"undo\"\nit has do")
    );
    assert!(
        told(&format!("{none}[gate]\ndeny = [\"sh__undo\"]\n"))
            .await
            .contains("the tools of the servers are sh__do")
    );
    assert!(
        start(&format!("{none}[gate]\ndeny = [\"sh__*\"]\n"))
            .await
            .is_ok()
    );
    let twice = script(&format!("{}read x\n", tools(&["a.b", "a/b"])));
    assert!(
        told(&twice)
            .await
            .contains("a.b of sh and a/b of sh would have the same name")
    );
    assert!(
        told("[mcp.x]\nurl = \"http://127.0.0.1:1/mcp\"\n")
            .await
            .contains("can't connect")
    );
}

#[tokio::test]
async fn a_server_gets_no_key_and_what_it_started_ends_with_it() {
    let rest = format!(
        "{}read call; sleep 1000 & printf '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"%s %s\"}}]}}}}\\n' \"$OPENAI_API_KEY$MINE\" $!\nwait",
        tools(&["do"])
    );
    let servers = start(&format!("{}env = {{ MINE = \"mine\" }}\n", script(&rest)))
        .await
        .unwrap();
    let said = call(&servers, "sh__do").await.unwrap();
    let (env, pid) = said.as_str().unwrap().split_once(' ').unwrap();
    assert_eq!(env, "mine");
    let lives =
        || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(lives() || !Path::new("/proc/self/stat").exists());
    drop(servers);
    while lives() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tool_that_was_taken_back_is_told() {
    let none = json!({ "jsonrpc": "2.0", "id": 3, "result": { "tools": [] } });
    let rest = format!(
        "{}read call; echo '{CHANGED}'; echo '{}'\nread list; echo '{none}'\nread x",
        tools(&["do"]),
        json!({ "jsonrpc": "2.0", "id": 2, "result": text("done") })
    );
    let servers = start(&script(&rest)).await.unwrap();
    assert_eq!(call(&servers, "sh__do").await, Ok(json!("done")));
    let failed = call(&servers, "sh__do").await.unwrap_err();
    assert!(failed.message.contains("no longer offers do"), "{failed}");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_told_to_the_server() {
    let rest = format!(
        "{}read call; read given_up; echo \"$given_up\" >&2; read call; echo '{}'\nread x",
        tools(&["do"]),
        json!({ "jsonrpc": "2.0", "id": 3, "result": text("on") })
    );
    let servers = start(&script(&rest)).await.unwrap();
    {
        let mut given_up = Some(Box::pin(call(&servers, "sh__do")));
        std::future::poll_fn(|cx| {
            assert!(given_up.as_mut().unwrap().as_mut().poll(cx).is_pending());
            while pin!(tokio::task::consume_budget()).poll(cx).is_ready() {}
            // A task without budget gives it up.
            given_up = None;
            std::task::Poll::Ready(())
        })
        .await;
    }
    assert_eq!(call(&servers, "sh__do").await, Ok(json!("on")));
    let status = &servers.servers[0].status;
    while !status.last_words().contains("notifications/cancelled") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handshake_needs_only_a_version() {
    let version = "2025-06-18";
    let info = json!({ "name": "x", "version": "1" });
    for result in [
        json!({ "protocolVersion": version }),
        json!({ "protocolVersion": version, "capabilities": { "tools": {} } }),
        json!({ "protocolVersion": version, "serverInfo": info }),
        json!({ "protocolVersion": version, "capabilities": { "logging": true }, "serverInfo": info }),
        json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": { "name": "x" } }),
        json!({ "protocolVersion": version, "capabilities": [], "serverInfo": "x", "instructions": 1 }),
        json!({ "protocolVersion": version, "content": [] }),
    ] {
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "error": null, "result": result });
        let script = format!(
            "read hello; echo '{hello}'\nread notice; {}read x",
            tools(&["do"])
        );
        let command = format!("[mcp.sh]\ncommand = [\"sh\", \"-c\", '''\n{script}\n''']\n");
        let servers = start(&command).await.unwrap();
        assert_eq!(servers.tools.len(), 1, "{result}");
    }
    let wrong = Status::default()
        .read(br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":7}}"#)
        .unwrap();
    let (result, _) = wrong.into_response().unwrap();
    assert!(matches!(result, rmcp::model::ServerResult::CustomResult(_)));
}

#[tokio::test]
async fn a_request_of_a_server_is_answered_whatever_its_parameters_are() {
    let request = |id: u32, method: &str| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": [1] });
    let rest = format!(
        "{}read call; echo '{}'; read answer; echo \"$answer\" >&2; echo '{}'; read answer; echo \"$answer\" >&2; echo '{}'\nread x",
        tools(&["do"]),
        request(7, "sampling/createMessage"),
        request(8, "ping"),
        json!({ "jsonrpc": "2.0", "id": 2, "result": text("done") })
    );
    let servers = start(&script(&rest)).await.unwrap();
    assert_eq!(call(&servers, "sh__do").await, Ok(json!("done")));
    let status = Arc::clone(&servers.servers[0].status);
    servers.end().await;
    let words = status.last_words();
    let mut answers = words
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let refused = answers.next().unwrap();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(7), &json!(-32601))
    );
    let pong = answers.next().unwrap();
    assert_eq!((&pong["id"], &pong["result"]), (&json!(8), &json!({})));
}

#[tokio::test]
async fn a_request_of_a_server_with_a_long_id_is_not_answered() {
    let command = ["sleep".to_owned(), "1000".to_owned()];
    let mut pipe = Pipe::open(&command, Path::new("."), Vec::new(), Arc::default()).unwrap();
    let mut answers = async |len: usize| {
        let id = || RequestId::String("x".repeat(len).into());
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "x", None);
        let pong = ClientJsonRpcMessage::response(ClientResult::empty(()), id());
        let refused = ClientJsonRpcMessage::error(error, Some(id()));
        let answered = [pipe.send(pong).await, pipe.send(refused).await];
        answered.map(|sent| sent.is_ok())
    };
    assert_eq!(answers(60 << 10).await, [true, true]);
    assert_eq!(answers(64 << 10).await, [false, false]);
}

#[tokio::test]
async fn a_server_may_change_its_tools_with_each_call() {
    let numbered = |result: &str| {
        format!(r#"echo '{{"jsonrpc":"2.0","id":'$id',"result":{result}}}'; id=$((id + 1))"#)
    };
    let rest = format!(
        "{}id=2; while read call; do echo '{CHANGED}'; {}; read list; {}; done",
        tools(&["do"]),
        numbered(r#"{"content":[]}"#),
        numbered(r#"{"tools":[{"name":"do"}]}"#)
    );
    let servers = start(&script(&rest)).await.unwrap();
    for _ in 0..100 {
        assert_eq!(call(&servers, "sh__do").await, Ok(json!("")));
    }
}

#[tokio::test]
async fn the_pages_of_a_list_are_limited_together() {
    let page = |id: u32, next: &str| {
        format!(
            r#"read list; printf '{{"jsonrpc":"2.0","id":{id},"result":{{{next}"tools":[{{"name":"do","description":"'; head -c 9000000 /dev/zero | tr '\0' x; echo '"}}]}}}}'
"#
        )
    };
    let next = r#""nextCursor":"more","#;
    let pages = page(1, next) + &page(2, "");
    let error = start(&script(&pages)).await.unwrap_err().to_string();
    assert!(
        error.contains("it lists more than 16 MiB of tools"),
        "{error}"
    );
    // Each list counts by itself.
    let done = |id: u32| {
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": text("done") });
        format!("read call; echo '{CHANGED}'; echo '{done}'\n")
    };
    let lists = [page(1, ""), done(2), page(3, ""), done(4), page(5, next)];
    let rest = lists.concat() + &page(6, "") + "read x";
    let servers = start(&script(&rest)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(call(&servers, "sh__do").await, Ok(json!("done")));
    }
    let failed = call(&servers, "sh__do").await.unwrap_err();
    assert!(failed.message.contains("more than 16 MiB"), "{failed}");
}

#[tokio::test]
async fn the_lists_of_a_server_at_an_address_are_limited_together() {
    let done = |id: u32| {
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": text("done") });
        Play::Events(vec![CHANGED.to_owned(), done.to_string()])
    };
    let list = |id: u32| {
        let long = "x".repeat(9_000_000);
        document(
            id,
            &json!({ "tools": [{ "name": "do", "description": long }] }),
        )
    };
    let plays = [done(2), list(3), done(4), list(5)];
    let (part, endpoint) = at_address(plays);
    let servers = start(&part).await.unwrap();
    let mut said = Vec::new();
    for _ in 0..5 {
        said.push(match call(&servers, "web__do").await {
            Ok(_) => "done".to_owned(),
            Err(error) => error.message,
        });
    }
    let too_long = "the MCP server web: it lists more than 16 MiB of tools";
    assert_eq!(said, ["done", "done", too_long, too_long, too_long]);
    assert_eq!(endpoint.seen().len(), 7, "the last list isn't requested");
}

#[tokio::test]
async fn a_result_is_passed_on_as_it_is() {
    let link = json!({
        "type": "resource_link", "uri": "file:///a", "name": "a", "new": [1],
        "annotations": { "priority": 0.8, "new": true },
    });
    let result = json!({ "content": [link], "isError": false });
    let rest = format!("{}{}read x", tools(&["do"]), answer(2, &result));
    let servers = start(&script(&rest)).await.unwrap();
    assert_eq!(call(&servers, "sh__do").await, Ok(json!([link])));
}

#[test]
fn only_open_requests_are_failed() {
    let status = Status::default();
    (0..6).for_each(|id| status.opens(&RequestId::Number(id)));
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"2","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#,
    ] {
        assert!(status.read(line.as_bytes()).is_some(), "{line}");
    }
    let failed = status.fail_all("gone");
    let mut ids: Vec<_> = failed
        .into_iter()
        .filter_map(|failed| failed.into_error().unwrap().1)
        .map(|id| id.to_string())
        .collect();
    ids.sort();
    assert_eq!(ids, ["0", "5"], "a request of the server answers nothing");
    assert!(status.fail_all("gone").is_empty());
}

#[tokio::test]
async fn requests_that_were_answered_given_up_or_not_sent_are_not_open() {
    let rest = format!("{}read call; read given_up; sleep 1000", tools(&["do"]));
    let servers = start(&script(&rest)).await.unwrap();
    let server = &servers.servers[0];
    assert_eq!(server.status.open(), 0);
    let mut given_up = Box::pin(call(&servers, "sh__do"));
    while server.status.open() == 0 {
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(given_up.as_mut().poll(cx)));
        assert!(polled.await.is_pending());
        tokio::task::yield_now().await;
    }
    drop(given_up);
    while server.status.open() > 0 {
        tokio::task::yield_now().await;
    }
    if let Link::Pipe(pipe) = &server.link {
        pipe.end(Duration::ZERO).await;
    }
    assert!(call(&servers, "sh__do").await.is_err());
    assert_eq!(server.status.open(), 0);
}

#[tokio::test]
async fn a_line_without_end_is_a_failed_call_and_is_not_kept() {
    let rest = format!("{}read call; cat /dev/zero", tools(&["do"]));
    let servers = start(&script(&rest)).await.unwrap();
    let failed = call(&servers, "sh__do").await.unwrap_err();
    assert!(failed.message.contains("more than 16 MiB"), "{failed}");
}

#[tokio::test]
async fn a_server_that_reads_nothing_more_is_a_failed_call() {
    let servers = start(&script(&format!("{}sleep 1000", tools(&["do"]))))
        .await
        .unwrap();
    // Two fill the pipe, and further ones the queue.
    let mut calls: Vec<_> = (0..100)
        .map(|_| {
            let args = Map::from_iter([("text".to_owned(), "x".repeat(64 << 10).into())]);
            Box::pin(servers.tools[0].call(args, ToolCx::alone()))
        })
        .collect();
    let first = std::future::poll_fn(|cx| {
        let mut polled = calls.iter_mut().map(|call| call.as_mut().poll(cx));
        polled
            .find(std::task::Poll::is_ready)
            .unwrap_or(std::task::Poll::Pending)
    });
    let failed = first.await.unwrap_err();
    assert!(failed.message.contains("doesn't read"), "{failed}");
}

#[tokio::test]
async fn at_the_end_a_server_may_end_by_itself_and_is_killed_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let (ended, pid) = (file("ended"), file("pid"));
    let by_itself = format!("{}read x; echo > {}", tools(&["do"]), ended.display());
    start(&script(&by_itself)).await.unwrap().end().await;
    assert!(ended.exists());
    let stays = format!(
        "echo $$ > {}; {}exec sleep 1000",
        pid.display(),
        tools(&["do"])
    );
    start(&script(&stays)).await.unwrap().end().await;
    let pid = fs::read_to_string(pid).unwrap();
    let lives = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    };
    while lives() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answers_that_deviate_from_the_protocol_are_understood_or_told() {
    let line = |line: &Value| format!("read call; echo '{line}'\n");
    let odd =
        json!({ "jsonrpc": "2.0", "id": 5, "result": { "content": [{ "type": "new", "x": 1 }] } });
    let rest = [
        tools(&["do"]),
        line(&json!({ "jsonrpc": "2.0", "id": 2, "error": "no" })),
        line(&json!({ "jsonrpc": "2.0", "id": 3, "error": { "code": 5, "message": "not now" } })),
        line(&json!({ "jsonrpc": "2.0", "id": 4, "error": null, "result": text("yes") })),
        line(&odd),
        line(&json!({ "jsonrpc": "2.0", "id": 6, "result": {} })),
        "read x".to_owned(),
    ];
    let servers = start(&script(&rest.concat())).await.unwrap();
    let mut said = Vec::new();
    for _ in 0..5 {
        said.push(match call(&servers, "sh__do").await {
            Ok(value) => value.to_string(),
            Err(error) => error.message,
        });
    }
    assert_eq!(
        said,
        [
            "\"no\" (error -32603)",
            "not now (error 5)",
            "\"yes\"",
            r#"[{"type":"new","x":1}]"#,
            "the server returned no result"
        ]
    );
}

#[tokio::test]
async fn a_server_without_a_handshake_is_asked_which_version_it_supports() {
    let refused = json!({ "jsonrpc": "2.0", "id": 0, "error": {
        "code": -32022, "message": "Unsupported protocol version", "data": { "supported": ["2026-07-28"] },
    } });
    let discovered = json!({ "jsonrpc": "2.0", "id": 0, "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
    } });
    let listed = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "resultType": "complete", "tools": [{ "name": "do", "inputSchema": { "type": "object" } }],
    } });
    let answered = json!({ "jsonrpc": "2.0", "id": 2, "result": {
        "resultType": "complete", "content": [{ "type": "text", "text": "done" }],
    } });
    let script = format!(
        "read x; echo '{refused}'\nread x; echo '{discovered}'\nread x; echo '{listed}'\nread call; echo \"$call\" >&2; echo '{answered}'\nread x"
    );
    let servers = start(&format!(
        "[mcp.sh]\ncommand = [\"sh\", \"-c\", '''\n{script}\n''']\n"
    ))
    .await
    .unwrap();
    assert_eq!(call(&servers, "sh__do").await, Ok(json!("done")));
    let status = &servers.servers[0].status;
    while !status
        .last_words()
        .contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#)
    {
        tokio::task::yield_now().await;
    }
}

/// The part of a file about a server that answers the handshake and `tools/list`, then as `plays` say.
fn at_address(plays: impl IntoIterator<Item = Play>) -> (String, Endpoint) {
    let list = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [{ "name": "do" }] } });
    let other = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let begin = [
        hello(0),
        accepted(),
        Play::Events(vec!["nonsense".into(), other.into(), list.to_string()]),
    ];
    let endpoint = Endpoint::playing(begin.into_iter().chain(plays));
    let part = format!("[mcp.web]\nurl = \"{}\"\n", endpoint.base_url);
    (part, endpoint)
}

fn hello(id: u32) -> Play {
    let result = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "x", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    Play::Whole(200, "mcp-session-id: s1\r\n", hello.to_string())
}

fn accepted() -> Play {
    Play::Whole(202, "", String::new())
}

fn document(id: u32, result: &Value) -> Play {
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    Play::Whole(200, "", answer.to_string())
}

#[tokio::test]
async fn a_server_at_an_address_is_called_in_its_session() {
    let answer = json!({ "jsonrpc": "2.0", "id": 3, "result": text("streamed") });
    let (part, endpoint) = at_address([
        document(2, &text("whole")),
        Play::Events(vec![CHANGED.to_owned(), answer.to_string()]),
        document(4, &json!({ "tools": [] })),
    ]);
    let servers = start(&format!("{part}headers = {{ x-own = \"mine\" }}\n"))
        .await
        .unwrap();
    assert_eq!(call(&servers, "web__do").await, Ok(json!("whole")));
    assert_eq!(call(&servers, "web__do").await, Ok(json!("streamed")));
    let failed = call(&servers, "web__do").await.unwrap_err();
    assert!(failed.message.contains("no longer offers do"));
    let seen = endpoint.seen();
    let methods: Vec<_> = seen
        .iter()
        .map(|seen| seen.body["method"].as_str().unwrap_or_default())
        .collect();
    let expected = [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "tools/call",
        "tools/list",
    ];
    assert_eq!(methods, expected);
    let has = |head: &str, header: &str| head.to_lowercase().contains(header);
    assert!(seen.iter().all(|seen| has(&seen.head, "x-own: mine\r\n")));
    assert!(seen[1..].iter().all(|seen| {
        has(&seen.head, "mcp-session-id: s1\r\n")
            && has(&seen.head, "mcp-protocol-version: 2025-06-18\r\n")
    }));
}

#[tokio::test]
async fn a_session_that_the_server_ended_begins_again() {
    let (part, endpoint) = at_address([
        Play::Whole(404, "", "no such session".into()),
        hello(0),
        accepted(),
        document(2, &text("again")),
    ]);
    let servers = start(&part).await.unwrap();
    assert_eq!(call(&servers, "web__do").await, Ok(json!("again")));
    assert_eq!(endpoint.seen().len(), 7);
}

#[tokio::test]
async fn what_a_server_at_an_address_does_wrong_is_a_failed_call() {
    let flood = "x".repeat(17 << 20);
    let refused = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": "not understood" } });
    let (part, _endpoint) = at_address([
        Play::Whole(500, "", "out of order".into()),
        Play::Whole(200, "", "{}".into()),
        Play::Whole(400, "", refused.to_string()),
        Play::Events(vec!["nonsense".into()]),
        Play::Events(vec![flood.clone()]),
        Play::Whole(200, "", flood),
        Play::Short(10, "{".into()),
        document(99, &text("of another request")),
        Play::Close,
        document(11, &text("fine")),
    ]);
    let servers = start(&part).await.unwrap();
    for wrong in [
        "it answered 500 Internal Server Error: out of order",
        "its response doesn't match the request: {}",
        "not understood (error -32600)",
        "its response doesn't match the request: ",
        "is longer than 16 MiB",
        "is longer than 16 MiB",
        "the MCP server web: ",
        "its response doesn't match the request: {\"id\":99",
        "the MCP server web: ",
    ] {
        let failed = call(&servers, "web__do").await.unwrap_err();
        assert!(failed.message.contains(wrong), "{wrong}: {failed}");
    }
    assert_eq!(call(&servers, "web__do").await, Ok(json!("fine")));
}

#[test]
fn results_say_what_came_and_what_is_not_shown() {
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "AAAA" });
    let given = |value: Value| outcome(&value).unwrap();
    assert_eq!(given(json!({ "content": [] })), "");
    assert_eq!(
        given(
            json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] })
        ),
        "a\nb"
    );
    let data = json!({ "sum": 3 });
    assert_eq!(
        given(
            json!({ "content": [{ "type": "text", "text": "{\"sum\":3}" }], "structuredContent": data })
        ),
        data
    );
    let both = given(
        json!({ "content": [{ "type": "text", "text": "three" }], "structuredContent": data }),
    );
    assert_eq!(both, json!({ "text": "three", "data": data }));
    let shown = given(json!({ "content": [{ "type": "text", "text": "see" }, image] }));
    assert_eq!(
        shown,
        json!(["see", { "type": "image", "mimeType": "image/png", "left_out_bytes": 3 }])
    );
    assert!(outcome(&json!({})).is_err() && outcome(&json!(7)).is_err());
    assert!(
        outcome(&json!({ "resultType": "input_required" }))
            .unwrap_err()
            .message
            .contains("input_required")
    );
    assert_eq!(
        outcome(&json!({ "content": [], "isError": true }))
            .unwrap_err()
            .message,
        "the call failed without a message"
    );
}

#[test]
fn mistakes_in_a_file_are_told_with_their_line() {
    let wrong = |text: &str| parse(Path::new("dir"), text).unwrap_err().to_string();
    for (text, told) in [
        (
            "[mcp.x]\n",
            "agent.toml:5: [mcp.x]: it needs `command` or `url`",
        ),
        (
            "[mcp.x]\ncommand = [\"a\"]\nurl = \"b\"\n",
            "set either `command` or `url`, not both",
        ),
        ("[mcp.x]\ncommand = []\n", "`command` needs a program"),
        (
            "[mcp.x]\nurl = \"b\"\ncwd = \".\"\n",
            "`env` and `cwd` belong to `command`",
        ),
        (
            "[mcp.a__b]\nurl = \"b\"\n",
            "can't be a prefix of tool names",
        ),
        ("[mcp.x]\nurl = \"b\"\ntimout = 3\n", "unknown key `timout`"),
        ("[mcp.x]\nurl = \"b\"\ntimeout = 0\n", "above 0"),
    ] {
        assert!(wrong(text).contains(told), "{text}: {}", wrong(text));
    }
}
