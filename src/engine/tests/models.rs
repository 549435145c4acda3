//! A model decides: natively, as text, with overflows, empty replies and replies that cannot be read.

use serde_json::json;

use super::*;
use crate::stop::Usage;

/// Leaves everything to the model.
struct Asks;

impl Agent for Asks {
    type Data = ();

    fn name(&self) -> &str {
        "asks"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<()>, AgentError> {
        Ok(State::new(&*task.objective, ()))
    }
}

fn asks(replies: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Builder<Asks> {
    Engine::builder(Asks)
        .model(Scripted::with_failures(replies))
        .tool(Echo)
        .clock(Stepping::new(0, Duration::from_millis(1)))
        .process(None)
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "echo".to_owned(), arguments: arguments.to_owned() }
}

#[tokio::test]
async fn native_calls_run_and_are_answered_under_their_ids() {
    let replies = [
        Ok(Reply::calls([call("a", r#"{"text": "one"}"#), call("b", r#"{"text": "two"}"#)]).usage(10, 5)),
        Ok(Reply::text("<think>hm</think>Both said.").usage(30, 4)),
    ];
    let (result, disk) = recorded(asks(replies), "Say both.").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
    assert_eq!(result.answer(), Some("Both said."));
    assert_eq!(result.stats.tokens, Usage { input: 40, output: 9, estimated: false });
    let inputs: Vec<_> = disk.events.iter().filter(|event| event["payload"]["stage"] == "model_input").collect();
    assert_eq!(inputs[0]["payload"]["messages"], json!([{"role": "user", "content": "Say both."}]));
    // The results of the calls are told once, by the step that has them; what is new in the second request is nothing.
    assert_eq!(inputs[1]["payload"]["messages"], json!([]));
    assert_eq!(inputs[1]["payload"]["history_message_count"], 4);
    assert_eq!(disk.steps[1]["context"]["tokens_total"], 49);
    assert_eq!(disk.steps[0]["facts"]["usage"], json!({"input": 10, "output": 5, "estimated": false}));
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_fails_the_step_and_says_how_to_write_it() {
    let replies = [
        Ok(Reply::text("I would rather not say.")),
        Ok(Reply::text("Thought: as told\nAction: echo(text=\"one\")")),
        Ok(Reply::text("Final Answer: said")),
    ];
    let (result, disk) = recorded(asks(replies).parser(ReAct), "Say it.").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(2)));
    assert_eq!(disk.steps[0]["error"]["phase"], "decide");
    assert_eq!(disk.steps[0]["decision"], json!(null));
    assert_eq!(disk.steps[0]["parser_diagnostics"]["code"], "missing_action_or_final");
    let told_again = &disk.events.iter().filter(|event| event["payload"]["stage"] == "model_input").nth(1).unwrap();
    let repair = disk.steps[0]["parser_diagnostics"]["repair_instruction"].as_str().unwrap();
    assert_eq!(told_again["payload"]["messages"][0]["content"], repair);
    assert_eq!(disk.steps[0]["context"]["counting_mode"], "engine_estimate");
}

#[tokio::test]
async fn case_6_every_call_of_a_step_counts() {
    let empty = Reply { usage: Some(Usage { input: 7, output: 0, estimated: false }), ..Reply::text("") };
    let (result, disk) = recorded(asks([Ok(empty), Ok(Reply::text("42").usage(7, 1))]), "?").await;
    assert_eq!(result.answer(), Some("42"));
    assert_eq!(result.steps[0].facts.usage, Some(Usage { input: 14, output: 1, estimated: false }));
    assert_eq!(disk.steps[0]["context"]["input_tokens_total"], 14);
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_made_shorter_and_then_ends_the_run() {
    let overflow = || Err(ModelError::new(ModelErrorKind::Overflow, "too long by 7 tokens"));
    let talk = |n: usize| Ok(Reply::calls([call(&format!("c{n}"), r#"{"text": "x"}"#)]));
    let replies = [talk(0), talk(1), talk(2), overflow(), Ok(Reply::text("short enough"))];
    let (result, disk) = recorded(asks(replies), "?").await;
    assert_eq!(result.answer(), Some("short enough"));
    assert!(disk.phases(3).contains(&"COMPACT/reactive_compact".to_owned()));

    let (result, disk) = recorded(asks([talk(0), overflow(), overflow()]), "?").await;
    assert_eq!(ending(&result.verdict), ("context_overflow", "context_overflow", Some(1)));
    assert_eq!(result.verdict.reading.detail, "too long by 7 tokens");
    assert_eq!(disk.manifest["summary"]["stop_reason"], "context_overflow");
}

#[tokio::test]
async fn a_model_that_fails_for_good_ends_the_run_and_one_that_may_recover_does_not() {
    let transient = || Err(ModelError::new(ModelErrorKind::Transient, "overloaded"));
    let (result, _) = recorded(asks([transient(), transient(), Ok(Reply::text("42"))]), "?").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(2)));
    let (result, _) = recorded(asks([Err(ModelError::new(ModelErrorKind::Fatal, "no such model"))]), "?").await;
    assert_eq!(ending(&result.verdict), ("recovery_exhausted", "recovery", Some(0)));
    assert_eq!(result.verdict.reading.detail, "decide failed and was not recovered: no such model");
}
