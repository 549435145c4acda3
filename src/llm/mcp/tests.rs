use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::result::outcome;
use super::*;
use crate::engine::{Tool as _, ToolCx, ToolError};

const MODEL: &str =
    "[model]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"tiny\"\napi_key_env = \"\"\n";

fn parse(dir: &Path, text: &str) -> Result<AgentFile> {
    AgentFile::parse(&format!("{MODEL}{text}"), &dir.join("agent.toml"))
}

/// The agent file's section for a server with this script, which answers the handshake first.
fn script(rest: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
    format!(
        "[mcp.sh]\ncommand = [\"sh\", \"-c\", '''\nread hello; echo '{hello}'\nread notice; {rest}\n''']\n"
    )
}

/// Answers the request for tools, the second request, with these names.
fn tools(names: &[&str]) -> String {
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }))
        .collect();
    format!(
        "read list; echo '{}'\n",
        json!({ "jsonrpc": "2.0", "id": 2, "result": { "tools": tools } })
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
    let around = Surroundings {
        key,
        environment: environment.into(),
        seed: 1,
    };
    parse(dir.path(), text)?.mcp_servers(&around).await
}

async fn call(servers: &McpServers, name: &str) -> std::result::Result<Value, ToolError> {
    let tool = servers
        .tools
        .iter()
        .find(|tool| tool.name() == name)
        .unwrap();
    let nowhere = crate::engine::OffLimits::default();
    let cx = ToolCx::alone(&nowhere);
    tool.call(Map::new(), cx).await
}

#[tokio::test]
async fn a_server_tells_its_tools_window_by_window_and_is_called() {
    let first = json!({ "jsonrpc": "2.0", "id": 2, "result": {
        "tools": [{ "name": "add.up", "description": "Adds.", "inputSchema": { "type": "object", "required": ["a"] } }],
        "nextCursor": "more",
    } });
    let second = json!({ "jsonrpc": "2.0", "id": 3, "result": { "tools": [{ "name": "echo" }, { "name": "rm" }] } });
    let rest = format!(
        "read list; echo 'a line that is no message'; echo '{first}'; read list; echo '{second}'\n{}{}",
        answer(4, &text("hello")),
        answer(
            5,
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
        answer(4, &text("fine"))
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
    assert!(told(silent).await.contains("no answer within 0.05 s"));
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
            .contains("cannot be started")
    );
    let old =
        r#"read x; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999"}}'; read x"#;
    assert!(
        told(&format!(
            "[mcp.x]\ncommand = [\"sh\", \"-c\", '''{old}''']\n"
        ))
        .await
        .contains("\"1999\"")
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
            .contains("a.b of sh and a/b of sh would have one name")
    );
    assert!(
        told("[mcp.x]\nurl = \"http://127.0.0.1:1/mcp\"\n")
            .await
            .contains("cannot connect")
    );
}

#[tokio::test]
async fn a_server_gets_no_key_and_what_it_started_ends_with_it() {
    let rest = format!(
        "{}read call; sleep 1000 & printf '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"%s %s\"}}]}}}}\\n' \"$OPENAI_API_KEY$MINE\" $!\nwait",
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
    let changed = r#"echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#;
    let none = json!({ "jsonrpc": "2.0", "id": 4, "result": { "tools": [] } });
    let rest = format!(
        "{}read call; {changed}; echo '{}'\nread list; echo '{none}'\nread x",
        tools(&["do"]),
        json!({ "jsonrpc": "2.0", "id": 3, "result": text("done") })
    );
    let servers = start(&script(&rest)).await.unwrap();
    assert_eq!(call(&servers, "sh__do").await, Ok(json!("done")));
    let failed = call(&servers, "sh__do").await.unwrap_err();
    assert!(
        failed.message.contains("does not offer do any more"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_call_that_is_given_up_is_told_to_the_server() {
    let rest = format!(
        "{}read call; read given_up; echo \"$given_up\" >&2; read call; echo '{}'\nread x",
        tools(&["do"]),
        json!({ "jsonrpc": "2.0", "id": 4, "result": text("on") })
    );
    let servers = start(&script(&rest)).await.unwrap();
    {
        let mut given_up = Box::pin(call(&servers, "sh__do"));
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(
                given_up.as_mut().poll(cx).is_pending()
            ))
            .await
        );
    }
    assert_eq!(call(&servers, "sh__do").await, Ok(json!("on")));
    let Link::Pipe(pipe) = &servers.servers[0].link else {
        unreachable!()
    };
    while !pipe.last_words().contains("notifications/cancelled") {
        tokio::task::yield_now().await;
    }
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
        "it failed, and says nothing more"
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
            "keep one of the two",
        ),
        ("[mcp.x]\ncommand = []\n", "`command` needs a program"),
        (
            "[mcp.x]\nurl = \"b\"\ncwd = \".\"\n",
            "`env` and `cwd` belong to `command`",
        ),
        (
            "[mcp.a__b]\nurl = \"b\"\n",
            "cannot begin the names of tools",
        ),
        (
            "[mcp.x]\nurl = \"b\"\ntimout = 3\n",
            "unknown field `timout`",
        ),
        ("[mcp.x]\nurl = \"b\"\ntimeout = 0\n", "above 0"),
    ] {
        assert!(wrong(text).contains(told), "{text}: {}", wrong(text));
    }
}
