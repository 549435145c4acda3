//! Tests decisions of models: native calls, text, overflows, empty replies and unreadable replies.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::stop::{Gate, MaxRounds, Outcome, StopSpec, Usage};

fn asks(replies: impl IntoIterator<Item = Result<Reply, ModelError>>) -> Builder<Asks> {
    Engine::builder(Asks)
        .model(Scripted::with_failures(replies))
        .tool(Echo)
        .clock(Stepping::new(0, Duration::from_millis(1)))
        .record_process(false)
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, "echo", arguments)
}

#[tokio::test]
async fn native_calls_run_and_are_answered_under_their_ids() {
    let replies = [
        Ok(Reply::calls([
            call("a", r#"{"text": "one"}"#),
            call("b", r#"{"text": "two"}"#),
        ])
        .usage(10, 5)),
        Ok(Reply::text("<think>hm</think>Both said.").usage(30, 4)),
    ];
    let (result, disk) = recorded(asks(replies), "Say both.").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
    assert_eq!(result.answer(), Some("Both said."));
    assert_eq!(result.stats.tokens, Usage::reported(40, 9));
    let inputs: Vec<_> = disk
        .events
        .iter()
        .filter(|event| event["payload"]["stage"] == "model_input")
        .collect();
    assert_eq!(
        inputs[0]["payload"]["messages"],
        json!([{"role": "user", "content": "Say both."}])
    );
    // The results of the calls are only recorded by their step, so the second request has no new
    // messages.
    assert_eq!(inputs[1]["payload"]["messages"], json!([]));
    assert_eq!(inputs[1]["payload"]["history_message_count"], 4);
    assert_eq!(disk.steps[1]["context"]["tokens_total"], 49);
    assert_eq!(
        disk.steps[0]["facts"]["usage"],
        json!({"input": 10, "output": 5, "estimated": false})
    );
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
    assert_eq!(
        disk.steps[0]["parser_diagnostics"]["code"],
        "missing_action_or_final"
    );
    let told_again = &disk
        .events
        .iter()
        .filter(|event| event["payload"]["stage"] == "model_input")
        .nth(1)
        .unwrap();
    let repair = disk.steps[0]["parser_diagnostics"]["repair_instruction"]
        .as_str()
        .unwrap();
    assert_eq!(told_again["payload"]["messages"][0]["content"], repair);
    assert_eq!(disk.steps[0]["context"]["counting_mode"], "engine_estimate");
}

#[tokio::test]
async fn case_6_every_call_of_a_step_counts() {
    let empty = Reply {
        usage: Some(Usage::reported(7, 0)),
        ..Reply::text("")
    };
    let (result, disk) = recorded(asks([Ok(empty), Ok(Reply::text("42").usage(7, 1))]), "?").await;
    assert_eq!(result.answer(), Some("42"));
    assert_eq!(result.steps[0].facts.usage, Some(Usage::reported(14, 1)));
    assert_eq!(disk.steps[0]["context"]["input_tokens_total"], 14);
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_made_shorter_and_then_ends_the_run() {
    let overflow = || {
        Err(ModelError::new(
            ModelErrorKind::Overflow,
            "too long by 7 tokens",
        ))
    };
    let talk = |n: usize| Ok(Reply::calls([call(&format!("c{n}"), r#"{"text": "x"}"#)]));
    let replies = [
        talk(0),
        talk(1),
        talk(2),
        overflow(),
        Ok(Reply::text("short enough")),
    ];
    let (result, disk) = recorded(asks(replies), "?").await;
    assert_eq!(result.answer(), Some("short enough"));
    assert!(
        disk.phases(3)
            .contains(&"COMPACT/reactive_compact".to_owned())
    );

    let (result, disk) = recorded(asks([talk(0), overflow(), overflow()]), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("context_overflow", "context_overflow", Some(1))
    );
    assert_eq!(result.verdict.reading.detail, "too long by 7 tokens");
    assert_eq!(disk.manifest["summary"]["stop_reason"], "context_overflow");
}

#[tokio::test]
async fn a_model_that_fails_for_good_ends_the_run_and_one_that_may_recover_does_not() {
    let transient = || Err(ModelError::new(ModelErrorKind::Transient, "overloaded"));
    let (result, _) = recorded(asks([transient(), transient(), Ok(Reply::text("42"))]), "?").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(2)));
    let (result, _) = recorded(
        asks([Err(ModelError::new(ModelErrorKind::Fatal, "no such model"))]),
        "?",
    )
    .await;
    assert_eq!(
        ending(&result.verdict),
        ("step_failed", "recovery", Some(0))
    );
    assert_eq!(
        result.verdict.reading.detail,
        "decide failed: no such model"
    );
}

#[tokio::test]
async fn a_model_that_was_asked_often_enough_is_not_asked_again() {
    let (result, _) = recorded(
        asks([
            Err(ModelError::new(ModelErrorKind::GivenUp, "busy")),
            Ok(Reply::text("42")),
        ]),
        "?",
    )
    .await;
    assert_eq!(
        ending(&result.verdict),
        ("step_failed", "recovery", Some(0))
    );
}

#[tokio::test]
async fn what_a_filter_left_is_no_answer() {
    let filtered = || Ok(Reply::text("I will").finished("content_filter"));
    let (result, _) = recorded(asks([filtered(), Ok(Reply::text("42"))]), "?").await;
    assert_eq!((result.answer(), result.step_count), (Some("42"), 2));
    let (result, _) = recorded(asks((0..4).map(|_| filtered())), "?").await;
    assert_eq!(ending(&result.verdict).0, "recovery_exhausted");
    assert!(
        result
            .verdict
            .reading
            .detail
            .ends_with("withheld all or part of the reply: content_filter"),
        "{:?}",
        result.verdict
    );
}

#[tokio::test]
async fn the_same_call_again_and_again_is_a_loop() {
    let same = || Ok(Reply::calls([call("c", r#"{"text": "x"}"#)]));
    let other = || Ok(Reply::calls([call("c", r#"{"text": "y"}"#)]));
    let rule = crate::stop::LoopDetection { window: 3 };
    let replies = [
        same(),
        same(),
        other(),
        same(),
        same(),
        same(),
        Ok(Reply::text("never")),
    ];
    let (result, _) = recorded(asks(replies).stop(rule).max_steps(9), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("loop_detection", "stop[0]", Some(5))
    );
    assert!(
        result
            .verdict
            .reading
            .detail
            .starts_with("the same calls 3 times in a row"),
        "{:?}",
        result.verdict
    );
}

#[tokio::test]
async fn a_reply_that_is_larger_than_any_is_not_taken() {
    let huge = || Ok(Reply::text("x".repeat(20 << 20)));
    let (result, disk) = recorded(asks([huge(), Ok(Reply::text("42"))]), "?").await;
    assert_eq!(result.answer(), Some("42"));
    assert_eq!(
        result.steps[0].facts.usage.unwrap().output,
        5 << 20,
        "a quarter of its bytes"
    );
    assert_eq!(
        disk.steps[0]["error"]["message"],
        "the reply has 20971520 bytes, more than the limit of 1048576"
    );
    assert!(
        disk.steps[0]["model_response"]["text"]
            .as_str()
            .unwrap()
            .ends_with("[... truncated from 20971520 bytes]")
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_ends_with_the_time_of_the_run() {
    struct Hangs;
    impl ChatModel for Hangs {
        fn name(&self) -> &str {
            "hangs"
        }
        async fn complete(
            &self,
            request: &Request,
            hear: &(dyn Fn(&str) + Send + Sync),
        ) -> Result<Reply, ModelError> {
            assert!(
                request
                    .time_left
                    .is_some_and(|left| left <= Duration::from_secs(3600))
            );
            hear("sixteen letters.");
            std::future::pending().await
        }
    }
    let builder = asks([])
        .model(Hangs)
        .max_runtime(Duration::from_secs(3600))
        .clock(SystemClock::start());
    let (result, disk) = recorded(builder, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_time", "budget_time", Some(0))
    );
    let told = "the run's time limit of 3600000 ms passed before the work was done";
    assert_eq!(result.verdict.reading.detail, told);
    assert_eq!(disk.manifest["status"], "completed");
    // The usage is unknown, which isn't the same as zero.
    let used = result.steps[0].facts.usage.unwrap();
    assert!(
        used.estimated && used.input > 0 && used.output == 4,
        "{used:?}"
    );
    assert_eq!(result.stats.tokens, used);

    let cancel = Cancel::new();
    cancel.now();
    let (result, _) = recorded(asks([]).model(Hangs).cancel(cancel), "?").await;
    assert_eq!(
        result.stats.tokens,
        Usage::default(),
        "a request that was never sent uses no tokens"
    );
}

/// A policy that keeps only the task, and records what it was given.
struct Forgets(Arc<Mutex<Vec<usize>>>);

impl HistoryPolicy for Forgets {
    fn select(&self, turns: &[&[Message]]) -> Vec<Message> {
        self.0.lock().unwrap().push(turns.len());
        turns
            .iter()
            .take(1)
            .flat_map(|turn| turn.iter().take(1).cloned())
            .collect()
    }
}

#[tokio::test]
async fn a_custom_policy_decides_what_the_model_remembers() {
    let talk = |n: usize| Ok(Reply::calls([call(&format!("c{n}"), r#"{"text": "x"}"#)]));
    let shown = Arc::default();
    let builder =
        asks([talk(0), talk(1), Ok(Reply::text("done"))]).history(Forgets(Arc::clone(&shown)));
    let (result, disk) = recorded(builder, "Say x.").await;
    assert_eq!(result.answer(), Some("done"));
    assert_eq!(*shown.lock().unwrap(), [0, 1, 2]);
    let inputs = disk
        .events
        .iter()
        .filter(|event| event["payload"]["stage"] == "model_input");
    let counts: Vec<_> = inputs
        .map(|event| event["payload"]["history_message_count"].clone())
        .collect();
    assert_eq!(counts, [json!(0), json!(1), json!(1)]);
}

#[tokio::test]
async fn a_policy_that_panics_ends_the_run_and_says_so() {
    struct Breaks;
    impl HistoryPolicy for Breaks {
        fn select(&self, _: &[&[Message]]) -> Vec<Message> {
            panic!("no memory at all")
        }
    }
    let (result, disk) = recorded(asks([Ok(Reply::text("never"))]).history(Breaks), "?").await;
    assert_eq!(result.verdict.outcome, Outcome::Failed);
    assert!(
        disk.manifest.to_string().contains("no memory at all"),
        "{}",
        disk.manifest
    );
}

#[tokio::test]
async fn a_custom_rule_sees_every_text() {
    let says = |n: usize, text: &str| {
        Ok(Reply {
            text: text.to_owned(),
            ..Reply::calls([call(&format!("c{n}"), r#"{"text": "x"}"#)])
        })
    };
    let replies = [
        says(0, "first half"),
        says(1, ""),
        says(2, "second half"),
        Ok(Reply::text("never asked")),
    ];
    let builder = asks(replies).rules(|rules| {
        rules.policy_when("both_halves", Gate::AfterStep, |cx| {
            cx.texts == ["first half", "second half"]
        })
    });
    let (result, _) = recorded(builder, "?").await;
    assert_eq!(
        (result.verdict.code.as_str(), result.verdict.step),
        ("both_halves", Some(2))
    );
}

#[tokio::test]
async fn what_a_step_cost_that_ended_at_its_decision_counts() {
    let says = |id: &str, cost: Option<f64>| {
        Ok(Reply {
            cost_usd: cost,
            ..Reply::calls([call(id, r#"{"text": "x"}"#)]).usage(10, 5)
        })
    };
    let rounds = |rounds: u64| StopSpec::from(MaxRounds { rounds });
    let (first, disk) = recorded(
        asks([says("a", Some(0.25)), says("b", Some(0.25))]).stop(rounds(2)),
        "?",
    )
    .await;
    assert_eq!(
        (ending(&first.verdict).0, first.verdict.gate),
        ("max_rounds", Some(Gate::AfterDecide))
    );
    assert_eq!(
        (
            first.task.metrics.cost_usd,
            &disk.manifest["summary"]["cost"]
        ),
        (Some(0.5), &json!(0.5))
    );
    // The cost rule counts completed steps only.
    assert_eq!(first.stats.cost(), Some(0.25));

    let unknown = asks([says("a", Some(0.25)), says("b", None)]).stop(rounds(2));
    let (result, disk) = recorded(unknown, "?").await;
    assert_eq!(
        (
            result.task.metrics.cost_usd,
            &disk.manifest["summary"]["cost"]
        ),
        (None, &json!(null))
    );
}

#[tokio::test]
async fn a_model_agent_asks_its_task_until_the_model_replies() {
    let failures = (0..4).map(|_| Err(ModelError::new(ModelErrorKind::Empty, "nothing")));
    let replies = failures.chain([
        Ok(Reply::calls([call("a", r#"{"text": "one"}"#)])),
        Ok(Reply::text("Said.")),
    ]);
    let builder = Engine::builder(ModelAgent::new("clerk", "Be brief."))
        .model(Scripted::with_failures(replies))
        .tool(Echo)
        .clock(Stepping::new(0, Duration::from_millis(1)))
        .record_process(false);
    let (result, disk) = recorded(builder, "Say it.").await;
    assert_eq!(ending(&result.verdict).0, "final");
    let failed = disk.steps.iter().filter(|step| !step["error"].is_null());
    let failed = failed.count();
    assert!(failed > 0, "the first request had no reply");
    let asked = disk.events.iter().filter(|event| {
        let texts = event["payload"]["messages"]
            .as_array()
            .into_iter()
            .flatten();
        event["payload"]["stage"] == "model_input"
            && texts
                .into_iter()
                .any(|message| message["content"].as_str().unwrap().starts_with("Say it."))
    });
    let steps: Vec<_> = asked
        .map(|event| event["step_id"].as_u64().unwrap())
        .collect();
    assert_eq!(steps.last(), Some(&(failed as u64)), "{steps:?}");
    let data = result.state.unwrap().data;
    assert_eq!(data.last_calls, [r#"echo {"text":"one"}"#]);
    assert_eq!(data.last_results, ["one"]);
}
