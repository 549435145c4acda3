//! Tests agents from files: tools, critics and rules together, with a scripted model.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::KEY;
use super::endpoint::{Endpoint, Play, calls, message, says};
use crate::engine::{LastCalls, RunResult};
use crate::llm::{AgentContext, AgentFile, Secret};
use crate::stop::{CriticWish, Outcome};

/// A directory with an agent file and a workspace.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    fn file(&self, endpoint: &Endpoint, rest: &str) -> AgentFile {
        let model = format!(
            "[model]\nbase_url = \"{}\"\nmodel = \"tiny\"\nretries = 0\n",
            endpoint.base_url
        );
        let workspace = "[workspace]\ndir = \"work\"\ntools = [\"read_file\", \"write_file\", \"run_command\"]\n";
        AgentFile::parse(
            &format!("{model}{workspace}{rest}"),
            &self.dir.path().join("agent.toml"),
        )
        .unwrap()
    }

    async fn run(&self, endpoint: &Endpoint, rest: &str) -> RunResult<LastCalls> {
        let environment = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("OPENAI_API_KEY".into(), KEY.into()),
        ];
        let context = AgentContext {
            key: Secret::new(Some(KEY)),
            environment,
            seed: 1,
        };
        let engine = self
            .file(endpoint, rest)
            .engine(&context)
            .unwrap()
            .build()
            .unwrap();
        engine.run("say hello").await
    }
}

/// Returns the critics' opinions on a step: name, wish, score.
fn opinions(result: &RunResult<LastCalls>, step: usize) -> Vec<(String, CriticWish, Option<f64>)> {
    let critics = result.steps[step].critics.iter();
    critics
        .map(|c| {
            (
                c.critic_name.clone(),
                c.action,
                c.score.as_ref().and_then(serde_json::Value::as_f64),
            )
        })
        .collect()
}

#[tokio::test]
async fn an_agent_works_and_answers() {
    let place = Place::new();
    let endpoint = Endpoint::playing([
        calls(
            "c1",
            "write_file",
            &json!({"path": "hello.txt", "text": "hello"}),
        ),
        calls("c2", "read_file", &json!({"path": "hello.txt"})),
        says("It is written."),
    ]);
    let result = place.run(&endpoint, "[agent]\nsystem = \"Write.\"\n").await;
    assert_eq!(
        (result.verdict.outcome, result.answer()),
        (Outcome::Completed, Some("It is written."))
    );
    assert_eq!(
        fs::read_to_string(place.work("hello.txt")).unwrap(),
        "hello"
    );
    assert_eq!(result.stats.tokens.total(), 3 * 14);
    let state = result.state.unwrap();
    assert_eq!(state.data.last_calls, [r#"read_file {"path":"hello.txt"}"#]);
    assert_eq!(state.metrics["tool_calls"], 2);
    let seen = endpoint.seen();
    let roles = |n: usize| -> Vec<String> {
        let messages = seen[n].body["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|message| message["role"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(roles(0), ["system", "user"]);
    assert_eq!(
        roles(2),
        ["system", "user", "assistant", "tool", "assistant", "tool"]
    );
    let tools: Vec<_> = seen[0].body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["function"]["name"].clone())
        .collect();
    assert_eq!(tools, ["read_file", "run_command", "write_file"]);
}

#[tokio::test]
async fn a_key_that_a_command_finds_goes_no_further() {
    let place = Place::new();
    fs::write(place.work(".env"), format!("KEY={KEY}\n")).unwrap();
    let endpoint = Endpoint::playing([
        calls(
            "c1",
            "run_command",
            &json!({"command": "cat .env; env; cat missing"}),
        ),
        calls("c2", "read_file", &json!({"path": ".env"})),
        says("done"),
    ]);
    let result = place.run(&endpoint, "").await;
    let output = &result.steps[0].results[0].output;
    assert!(
        output["stdout"]
            .as_str()
            .unwrap()
            .starts_with("KEY=[key]\n"),
        "{output}"
    );
    assert_eq!(result.steps[1].results[0].output["text"], "KEY=[key]\n");
    assert!(!format!("{result:?}").contains(KEY));
    assert!(
        endpoint
            .seen()
            .iter()
            .all(|seen| !seen.body.to_string().contains(KEY))
    );
}

#[tokio::test]
async fn a_command_refuses_an_answer_until_it_ends_well() {
    let place = Place::new();
    let endpoint = Endpoint::playing([
        says("done"),
        calls("c1", "write_file", &json!({"path": "proof", "text": "x"})),
        says("now it is done"),
    ]);
    let critic =
        "[[critic]]\nkind = \"command\"\nname = \"proof\"\ncommand = \"echo looking; cat proof\"\n";
    let result = place.run(&endpoint, critic).await;
    assert_eq!(
        (result.verdict.outcome, result.answer()),
        (Outcome::Completed, Some("now it is done"))
    );
    assert_eq!(
        opinions(&result, 0),
        [("proof".to_owned(), CriticWish::Retry, Some(0.0))]
    );
    assert_eq!(
        opinions(&result, 1),
        [("proof".to_owned(), CriticWish::Continue, None)],
        "only answers are judged"
    );
    assert_eq!(
        opinions(&result, 2),
        [("proof".to_owned(), CriticWish::Continue, Some(1.0))]
    );
    let reason = &result.steps[0].critics[0].reason;
    assert!(
        reason.starts_with("`echo looking; cat proof` ended with status 1:\nlooking\ncat: "),
        "{reason}"
    );
    let told = endpoint.seen()[1].body["messages"].to_string();
    assert!(
        told.contains("It must end with status 0 before the task is done."),
        "{told}"
    );
}

#[tokio::test]
async fn a_pattern_stops_a_run_or_only_notes() {
    let place = Place::new();
    let endpoint = Endpoint::playing([says("I give up")]);
    let critics = "[[critic]]\nkind = \"regex\"\nname = \"noted\"\npattern = \"^Done\"\non_fail = \"continue\"\n\
                   [[critic]]\nkind = \"regex\"\nname = \"stopped\"\npattern = \"give up\"\nwant = false\non_fail = \"stop\"\n";
    let result = place.run(&endpoint, critics).await;
    let expected = [
        ("noted", CriticWish::Continue, Some(0.0)),
        ("stopped", CriticWish::Stop, Some(0.0)),
    ];
    assert_eq!(
        opinions(&result, 0),
        expected.map(|(name, wish, score)| (name.to_owned(), wish, score))
    );
    assert_eq!(
        (result.verdict.outcome, result.verdict.stop_reason.as_str()),
        (Outcome::Halted, "critic_stop")
    );
}

#[tokio::test]
async fn a_judge_is_asked_until_it_gives_a_score() {
    let place = Place::new();
    let endpoint = Endpoint::playing([
        says("hello"),
        says("I like it"),
        says(r#"{"score": 0.2, "reason": "too short"}"#),
        says("hello, world"),
        says("```json\n{\"score\": 0.9, \"reason\": \"better\"}\n```"),
    ]);
    let result = place
        .run(
            &endpoint,
            "[[critic]]\nkind = \"judge\"\ncriteria = \"Length.\"\nmodel = \"wise\"\n",
        )
        .await;
    assert_eq!(
        (result.verdict.outcome, result.answer()),
        (Outcome::Completed, Some("hello, world"))
    );
    assert_eq!(
        opinions(&result, 0),
        [("judge".to_owned(), CriticWish::Retry, Some(0.2))]
    );
    assert_eq!(
        opinions(&result, 1),
        [("judge".to_owned(), CriticWish::Continue, Some(0.9))]
    );
    assert_eq!(
        result.stats.tokens.total(),
        5 * 14,
        "the judge's tokens count"
    );
    let seen = endpoint.seen();
    let models: Vec<_> = seen
        .iter()
        .map(|seen| seen.body["model"].as_str().unwrap())
        .collect();
    assert_eq!(models, ["tiny", "wise", "wise", "tiny", "wise"]);
    assert!(
        seen[3].body["messages"]
            .to_string()
            .contains("A reviewer rejected this (score 0.2): too short")
    );
}

#[tokio::test]
async fn a_judge_that_gives_no_score_ends_the_run() {
    let place = Place::new();
    let endpoint = Endpoint::playing([says("hello"), says("nice"), says("very nice")]);
    let result = place
        .run(
            &endpoint,
            "[[critic]]\nkind = \"judge\"\ncriteria = \"Length.\"\n",
        )
        .await;
    assert_eq!(
        (
            result.verdict.outcome,
            result.verdict.code.to_string().as_str()
        ),
        (Outcome::Failed, "criterion_error")
    );
}

#[tokio::test]
async fn text_protocols_are_read_by_their_parsers() {
    let react = "Thought: look\nAction: read_file(path=\"a\")";
    for (protocol, act, answer) in [
        ("react", react, "Final Answer: seen"),
        (
            "json",
            r#"{"mode": "act", "actions": [{"name": "read_file", "args": {"path": "a"}}]}"#,
            r#"{"mode": "final", "final_answer": "seen"}"#,
        ),
        (
            "xml",
            "<decision mode=\"act\"><action name=\"read_file\"><arg name=\"path\">a</arg></action></decision>",
            "<decision mode=\"final\"><final_answer>seen</final_answer></decision>",
        ),
    ] {
        let place = Place::new();
        fs::write(place.work("a"), "text").unwrap();
        let endpoint = Endpoint::playing([says(act), says(answer)]);
        let result = place
            .run(&endpoint, &format!("[agent]\nprotocol = \"{protocol}\"\n"))
            .await;
        assert_eq!(
            result.answer(),
            Some("seen"),
            "{protocol}: {:?}",
            result.verdict
        );
        assert_eq!(result.steps[0].results[0].output["text"], "text");
        assert!(
            endpoint.seen()[0].body.get("tools").is_none(),
            "calls are written as text"
        );
    }
}

#[tokio::test]
async fn limits_and_rules_of_the_file_hold() {
    let place = Place::new();
    let again = || calls("c", "read_file", &json!({"path": "none"}));
    let endpoint = Endpoint::playing([again(), again(), again()]);
    let result = place.run(&endpoint, "[budget]\nsteps = 2\n").await;
    assert_eq!(
        (result.step_count, result.verdict.stop_reason.as_str()),
        (2, "budget_steps")
    );
    let endpoint = Endpoint::playing([again(), again(), again(), again()]);
    let result = place
        .run(&endpoint, "[stop]\npolicies = [\"stagnation=2\"]\n")
        .await;
    assert_eq!(
        result.verdict.code.to_string(),
        "stagnation",
        "{:?}",
        result.verdict
    );
}

#[tokio::test]
async fn a_model_that_refuses_ends_the_run() {
    let place = Place::new();
    let endpoint = Endpoint::playing([Play::Whole(
        401,
        "",
        "{\"error\": {\"message\": \"no such key\"}}".to_owned(),
    )]);
    let result = place.run(&endpoint, "").await;
    assert_eq!(
        (result.verdict.outcome, result.steps.len()),
        (Outcome::Failed, 1)
    );
    assert!(
        result
            .verdict
            .reading
            .detail
            .contains("HTTP 401 Unauthorized: no such key"),
        "{:?}",
        result.verdict
    );
}

#[test]
fn a_workspace_that_is_not_there_is_named() {
    let endpoint = Endpoint::playing([]);
    let text = format!(
        "[model]\nbase_url = \"{}\"\nmodel = \"x\"\n[workspace]\ndir = \"gone\"\n",
        endpoint.base_url
    );
    let file = AgentFile::parse(&text, Path::new("nowhere/agent.toml")).unwrap();
    let error = file.engine(&AgentContext::default()).unwrap_err();
    assert_eq!(error.to_string(), "can't use nowhere/gone as a workspace");
    assert_eq!(
        error.hints(),
        ["`dir` under [workspace] in nowhere/agent.toml sets it"]
    );
}

/// A service that requires earlier reasoning to be sent back, as reported by clients of real
/// services.
#[tokio::test]
async fn a_service_that_wants_its_thoughts_back_gets_them() {
    let place = Place::new();
    fs::write(place.work("a.txt"), "a").unwrap();
    let thinks = |id: &str| {
        let function = json!({"name": "read_file", "arguments": r#"{"path":"a.txt"}"#});
        let call = json!({"id": id, "type": "function", "function": function});
        message(
            &json!({"role": "assistant", "content": "", "reasoning_content": format!("thought {id}"), "tool_calls": [call]}),
        )
    };
    let endpoint = Endpoint::demanding(
        "reasoning_content",
        [thinks("c1"), thinks("c2"), says("fine")],
    );
    let result = place.run(&endpoint, "").await;
    assert_eq!(result.answer(), Some("fine"), "{:?}", result.verdict);
    let turn = result.steps[1].model.as_ref().unwrap();
    assert_eq!(turn.fields["reasoning_content"], "thought c2");
    let assistants = |body: &serde_json::Value| -> Vec<String> {
        let messages = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "assistant");
        messages
            .map(|message| {
                message["reasoning_content"]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(
        assistants(&endpoint.seen()[2].body),
        ["thought c1", "thought c2"]
    );

    // The same service, with an agent file that says not to send it.
    let endpoint = Endpoint::demanding("reasoning_content", [thinks("c1"), says("fine")]);
    let model = format!(
        "[model]\nbase_url = \"{}\"\nmodel = \"tiny\"\nretries = 0\nsend_reasoning = false\n",
        endpoint.base_url
    );
    let rest = "[workspace]\ndir = \"work\"\n";
    let file = AgentFile::parse(
        &format!("{model}{rest}"),
        &place.dir.path().join("agent.toml"),
    )
    .unwrap();
    let engine = file.engine(&AgentContext {
        key: Secret::new(Some(KEY)),
        ..AgentContext::default()
    });
    let result = engine.unwrap().build().unwrap().run("look").await;
    assert_eq!(result.verdict.code.as_str(), "step_failed");
    assert!(
        result.verdict.reading.detail.contains("reasoning_content"),
        "{}",
        result.verdict.reading.detail
    );
}

#[tokio::test]
async fn tokens_of_replies_without_an_answer_count_too() {
    let place = Place::new();
    let thinks = || {
        let message = json!({"role": "assistant", "content": "", "reasoning_content": "all my tokens went here"});
        let usage = json!({"prompt_tokens": 1000, "completion_tokens": 9000});
        let choice = json!({"message": message, "finish_reason": "stop"});
        Play::Whole(
            200,
            "",
            json!({"choices": [choice], "usage": usage}).to_string(),
        )
    };
    let endpoint = Endpoint::playing((0..8).map(|_| thinks()));
    let result = place.run(&endpoint, "[budget]\ntokens = 5000\n").await;
    assert_eq!(
        result.verdict.code.as_str(),
        "budget_tokens",
        "{:?}",
        result.verdict
    );
    // An empty reply is requested once more before the step fails.
    assert_eq!(
        (endpoint.seen().len(), result.stats.tokens.total()),
        (2, 20_000)
    );
    assert_eq!(result.steps[0].tokens_total, 20_000);
    assert!(
        result.steps[0]
            .facts
            .error
            .as_ref()
            .unwrap()
            .message
            .contains("only thought")
    );
}

#[tokio::test]
async fn tokens_of_a_judge_that_cannot_judge_count_too() {
    let place = Place::new();
    let endpoint = Endpoint::playing([says("It is done."), says("no idea"), says("none")]);
    let judge = "[[critic]]\nkind = \"judge\"\ncriteria = \"good\"\n";
    let result = place.run(&endpoint, judge).await;
    assert_eq!(result.verdict.code.as_str(), "criterion_error");
    assert_eq!(result.stats.tokens.total(), 3 * 14);
    assert_eq!(result.steps[0].facts.late_usage.total(), 2 * 14);
}

#[tokio::test]
async fn prices_of_the_file_count_the_judge_too() {
    let place = Place::new();
    let score = json!({"score": 0.1, "reason": "no"}).to_string();
    let endpoint = Endpoint::playing([
        says("one"),
        says(&score),
        says("two"),
        says(&score),
        says("three"),
        says(&score),
    ]);
    // Each reply has 11 input tokens and 3 output tokens.
    let rest = "[prices.\"tiny*\"]\ninput = 1000\noutput = 3000\n[stop]\npolicies = [\"max_cost=0.07\"]\n\
        [[critic]]\nkind = \"judge\"\ncriteria = \"good\"\n";
    let result = place.run(&endpoint, rest).await;
    assert_eq!(
        (result.verdict.code.as_str(), result.verdict.step),
        ("max_cost", Some(1)),
        "{:?}",
        result.verdict
    );
    assert_eq!(result.steps[0].facts.cost(), Some(0.04));
    assert_eq!(endpoint.seen().len(), 4);

    // A reported cost isn't an estimate. The judge's cost from the price table is one.
    let told = |cost: Option<f64>, text: &str| {
        let usage = json!({"prompt_tokens": 11, "completion_tokens": 3, "cost": cost});
        let choice =
            json!({"message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
        Play::Whole(
            200,
            "",
            json!({"choices": [choice], "usage": usage}).to_string(),
        )
    };
    let score = json!({"score": 0.9, "reason": "good"}).to_string();
    for (judged, is_estimated) in [(None, true), (Some(0.02), false)] {
        let endpoint = Endpoint::playing([told(Some(0.5), "one"), told(judged, &score)]);
        let result = place.run(&endpoint, rest).await;
        let facts = &result.steps[0].facts;
        assert_eq!(
            (facts.cost(), facts.cost_estimated),
            (Some(0.52), is_estimated),
            "{:?}",
            result.verdict
        );
        assert_eq!(result.task.metrics.cost_estimated, is_estimated);
    }
}
