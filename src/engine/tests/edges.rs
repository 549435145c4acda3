//! Tests simultaneous events, and values that are larger, later or more unusual than normal.

use serde_json::json;

use super::*;
use crate::stop::{Keyword, Outcome, StopSpec};

#[tokio::test]
async fn the_task_reaches_the_model_even_in_a_late_request() {
    struct LetsTheModelFinish;
    impl Agent for LetsTheModelFinish {
        type Data = ();
        fn name(&self) -> &str {
            "half"
        }
        async fn decide(
            &mut self,
            _: &State<()>,
            cx: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            Ok((cx.step == 0).then(|| echo("first")))
        }
    }
    let model = Scripted::with_failures([
        Err(ModelError::new(ModelErrorKind::Transient, "overloaded")),
        Ok(Reply::text("done")),
    ]);
    let builder = Engine::builder(LetsTheModelFinish)
        .tool(Echo)
        .model(model)
        .record_process(false);
    let (result, disk) = recorded(builder, "Say it.").await;
    assert_eq!(result.answer(), Some("done"));
    let inputs: Vec<_> = disk
        .events
        .iter()
        .filter(|event| event["payload"]["stage"] == "model_input")
        .collect();
    let told: Vec<_> = inputs[1]["payload"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["content"].clone())
        .collect();
    assert_eq!(
        told,
        [
            "Say it.\n\nThe last step failed: overloaded",
            "echo gave: first"
        ]
    );
}

#[tokio::test]
async fn a_native_call_is_answered_under_its_id_also_beside_a_text_parser() {
    struct Listens(std::sync::Mutex<Vec<Request>>);
    impl ChatModel for std::sync::Arc<Listens> {
        fn name(&self) -> &str {
            "listens"
        }
        async fn complete(
            &self,
            request: &Request,
            _: &(dyn Fn(&str) + Send + Sync),
        ) -> Result<Reply, ModelError> {
            let mut heard = self.0.lock().unwrap();
            heard.push(request.clone());
            let call = ToolCall::new("", "echo", r#"{"text": "a"}"#);
            let missing = ToolCall {
                name: "echo".into(),
                arguments: "{".into(),
                ..ToolCall::default()
            };
            Ok(match heard.len() {
                1 => Reply::calls([call]),
                2 => Reply::calls([missing]),
                _ => Reply::text("Final Answer: heard"),
            })
        }
    }
    struct Quiet;
    impl Agent for Quiet {
        type Data = ();
        fn name(&self) -> &str {
            "quiet"
        }
    }
    let listens = std::sync::Arc::new(Listens(std::sync::Mutex::default()));
    let builder = Engine::builder(Quiet)
        .tool(Echo)
        .model(listens.clone())
        .parser(ReAct)
        .record_process(false);
    let (result, _) = recorded(builder, "?").await;
    assert_eq!(result.answer(), Some("heard"));
    let requests = listens.0.lock().unwrap();
    let last = &requests[2].messages;
    for (at, message) in last
        .iter()
        .enumerate()
        .filter(|(_, message)| !message.tool_calls.is_empty())
    {
        let answer = &last[at + 1];
        assert_eq!(
            (answer.role, answer.tool_call_id.as_deref()),
            (Role::Tool, Some(&*message.tool_calls[0].id))
        );
    }
    let answers: Vec<_> = last
        .iter()
        .filter(|message| message.role == Role::Tool)
        .map(|m| m.content.as_str())
        .collect();
    assert_eq!(answers, ["a", "error: the call was not carried out"]);
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_caught_too() {
    struct Hasty;
    impl Critic<Notes> for Hasty {
        fn name(&self) -> &str {
            "hasty"
        }
        fn judge(
            &self,
            _: CriticCx<'_, Notes>,
        ) -> impl Future<Output = Result<Opinion, CriticError>> + Send {
            assert!(self.name().is_empty(), "too hasty");
            async { Ok(Opinion::proceed("")) }
        }
    }
    let (result, disk) = recorded(engine([echo("1")]).critic(Hasty), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("criterion_error", "critic[0]", Some(0))
    );
    assert_eq!(disk.manifest["status"], "failed");

    struct Grumpy;
    impl Parser for Grumpy {
        fn name(&self) -> &'static str {
            "grumpy"
        }
        fn contract(&self) -> &'static str {
            "none"
        }
        fn parse(&self, _: &str) -> Parsed {
            panic!("not in the mood")
        }
        fn instructions(&self, _: &[ToolSpec]) -> String {
            String::new()
        }
    }
    struct Quiet;
    impl Agent for Quiet {
        type Data = ();
        fn name(&self) -> &str {
            "quiet"
        }
    }
    let builder = Engine::builder(Quiet)
        .model(Scripted::new([Reply::text("hello")]))
        .parser(Grumpy)
        .record_process(false);
    let (result, _) = recorded(builder, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("step_failed", "recovery", Some(0))
    );
    assert!(
        result
            .verdict
            .reading
            .detail
            .ends_with("panicked: not in the mood")
    );
}

#[tokio::test]
async fn a_run_whose_future_is_dropped_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(dir.path(), "r").unwrap();
    let waits = Decision::act([Action::new("waits")]);
    // The tool cancels its own handle, not the run's, so it never ends.
    let run = engine([echo("1"), waits])
        .tool(Waits {
            cancel: Cancel::new(),
        })
        .record(writer)
        .build()
        .unwrap()
        .run("?");
    let mut run = Box::pin(run);
    let polled =
        std::future::poll_fn(|cx| std::task::Poll::Ready(run.as_mut().poll(cx).is_pending())).await;
    assert!(polled, "the tool never answers");
    drop(run);
    let disk = Disk::read(&dir.path().join("r"));
    assert_eq!(
        (&disk.manifest["status"], disk.steps.len()),
        (&json!("stopped"), 1)
    );
    assert_eq!(
        disk.end()["payload"]["stop"]["detail"],
        "the run was dropped before it ended"
    );
}

#[tokio::test]
async fn a_dropped_run_records_the_open_step_with_its_tokens_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(dir.path(), "r").unwrap();
    // The second request never ends.
    struct Silent;
    impl ChatModel for Silent {
        fn name(&self) -> &str {
            "silent"
        }
        async fn complete(
            &self,
            request: &Request,
            on_text: &(dyn Fn(&str) + Send + Sync),
        ) -> Result<Reply, ModelError> {
            if request.messages.len() == 1 {
                let call = ToolCall::new("a", "echo", r#"{"text": "one"}"#);
                return Ok(Reply::calls([call]).usage(10, 5));
            }
            on_text("Half an answer, and then");
            std::future::pending().await
        }
    }
    let run = Engine::builder(Asks)
        .model(Silent)
        .tool(Echo)
        .clock(Stepping::new(0, Duration::from_millis(7)))
        .record_process(false)
        .record(writer)
        .build()
        .unwrap()
        .run("?");
    let mut run = Box::pin(run);
    let is_pending =
        std::future::poll_fn(|cx| std::task::Poll::Ready(run.as_mut().poll(cx).is_pending())).await;
    assert!(is_pending);
    drop(run);
    let disk = Disk::read(&dir.path().join("r"));
    assert_eq!(disk.steps.len(), 1);
    let end = disk.end();
    assert_eq!(
        (&end["step_id"], &end["payload"]["stop"]["step"]),
        (&json!(1), &json!(1))
    );
    let summary = &disk.manifest["summary"];
    let of_first_step = disk.steps[0]["context"]["tokens_total"].as_u64().unwrap();
    assert_eq!(of_first_step, 15);
    // The second request and the received text are estimated.
    assert!(summary["token_usage"].as_u64() > Some(15 + 6), "{summary}");
    let ended = disk.steps[0]["facts"]["t_end_ms"].as_f64().unwrap();
    let took = summary["latency_seconds"].as_f64().unwrap();
    assert!(took * 1e3 > ended, "{took} s, and {ended} ms");
}

#[test]
fn data_that_refuses_to_be_serialized_is_named() {
    struct Refuses;
    impl Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("the lock is poisoned"))
        }
    }
    let wrong = super::super::state::Snapshot::of(&State::new("t", Refuses)).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the state can't be written as JSON: the agent's data can't be written as JSON: the lock is poisoned"
    );
}

#[tokio::test]
async fn a_state_that_panics_while_it_is_first_serialized_ends_as_a_failure() {
    struct Trap;
    impl AgentData for Trap {}
    impl Serialize for Trap {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("not today")
        }
    }
    impl<'de> Deserialize<'de> for Trap {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Self)
        }
    }
    struct Traps;
    impl Agent for Traps {
        type Data = Trap;
        fn name(&self) -> &str {
            "traps"
        }
        fn init_state(&mut self, task: &Task) -> Result<State<Trap>, AgentError> {
            Ok(State::new(&*task.objective, Trap))
        }
    }
    let (result, disk) = recorded(Engine::builder(Traps).record_process(false), "?").await;
    assert_eq!(result.verdict.code, crate::stop::Code::AgentFailed);
    assert_eq!(result.verdict.reading.detail, "panicked: not today");
    assert_eq!(disk.manifest["status"], "failed");
}

/// Sets its final result in the state, or stops, depending on its fields.
struct Sets {
    result: Option<&'static str>,
    reason: Option<&'static str>,
    stops: bool,
    decision: Decision,
}

impl Agent for Sets {
    type Data = ();

    fn name(&self) -> &str {
        "sets"
    }

    async fn decide(
        &mut self,
        _: &State<()>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(self.decision.clone()))
    }

    fn reduce(&mut self, state: &mut State<()>, _: &Done<'_>) -> Result<(), AgentError> {
        state.final_result = self
            .result
            .take()
            .map(str::to_owned)
            .or(state.final_result.take());
        if let Some(reason) = self.reason {
            state
                .set_stop(reason, None)
                .map_err(|wrong| AgentError::fatal(wrong.to_string()))?;
        }
        Ok(())
    }

    fn should_stop(&self, _: &State<()>) -> bool {
        self.stops
    }
}

#[tokio::test]
async fn an_answer_that_was_refused_is_no_answer() {
    let keyword = || {
        StopSpec::from(Keyword {
            keyword: "DONE".into(),
        })
    };
    let refused = Sets {
        result: None,
        reason: None,
        stops: true,
        decision: Decision::final_answer("nearly"),
    };
    let (result, disk) = recorded(
        Engine::builder(refused)
            .stop(keyword())
            .record_process(false),
        "?",
    )
    .await;
    assert_eq!(
        ending(&result.verdict),
        ("agent_condition", "agent", Some(0))
    );
    assert_eq!(
        (result.answer(), result.last_text.as_deref()),
        (None, Some("nearly"))
    );
    assert_eq!(disk.manifest["summary"]["final_result"], json!(null));
    assert_eq!(
        (result.verdict.outcome, result.task.success),
        (Outcome::Halted, false)
    );

    let set = Sets {
        result: Some("nearly"),
        reason: None,
        stops: false,
        decision: Decision::wait(""),
    };
    let (result, _) = recorded(
        Engine::builder(set)
            .stop(keyword())
            .max_steps(2)
            .record_process(false),
        "?",
    )
    .await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_steps", "budget.steps", Some(1))
    );
    assert_eq!(
        (result.answer(), result.last_text.as_deref()),
        (None, Some("nearly"))
    );
}

#[tokio::test]
async fn a_reason_that_an_agent_sets_is_the_reason() {
    let sets = |reason| Sets {
        result: None,
        reason: Some(reason),
        stops: false,
        decision: Decision::wait(""),
    };
    for (reason, code, outcome) in [
        ("unrecoverable_error", "agent_failed", Outcome::Failed),
        ("stagnation", "stagnation", Outcome::Halted),
        ("agent_condition", "agent_condition", Outcome::Halted),
        ("env_terminal", "env_terminal", Outcome::Halted),
    ] {
        let (result, disk) =
            recorded(Engine::builder(sets(reason)).record_process(false), "?").await;
        assert_eq!(
            (result.verdict.code.as_str(), result.verdict.outcome),
            (code, outcome),
            "{reason}"
        );
        assert_eq!(disk.manifest["summary"]["stop_reason"], reason);
    }
    let (result, _) = recorded(Engine::builder(sets("tired")).record_process(false), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("step_failed", "recovery", Some(0))
    );
}

#[tokio::test]
async fn what_is_too_large_for_a_line_is_cut_and_said_so() {
    const SIZE: usize = 350_000;
    struct Huge;
    impl Tool for Huge {
        type Args = EchoArgs;
        type Output = String;
        fn name(&self) -> &str {
            "huge"
        }
        fn description(&self) -> &str {
            "Gives or fails with a third of a megabyte."
        }
        async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
            let text = "x".repeat(SIZE);
            if args.text == "fail" {
                Err(ToolError::new(text))
            } else {
                Ok(text)
            }
        }
    }
    let call = |text: &str| Action::new("huge").arg("text", text);
    let many = Decision::act(std::iter::repeat_n(call("give"), 40));
    let (result, disk) = recorded(
        engine([Decision::act([call("fail")]), many])
            .tool(Huge)
            .max_steps(2),
        "?",
    )
    .await;
    assert_eq!(result.verdict.code.as_str(), "budget_steps");
    let error = disk.steps[0]["action_results"][0]["error"]
        .as_str()
        .unwrap();
    assert!(
        error.len() < 17 << 10 && error.ends_with("[... truncated from 350000 bytes]"),
        "{}",
        error.len()
    );
    let outputs = disk.steps[1]["action_results"].as_array().unwrap();
    assert!(
        outputs
            .iter()
            .all(|output| output["cut_from_bytes"] == SIZE)
    );
    assert!(
        outputs[0]["output"]
            .as_str()
            .unwrap()
            .contains("of 350000 bytes omitted")
    );
    let all: usize = outputs
        .iter()
        .map(|output| output["output"].as_str().unwrap().len())
        .sum();
    assert!(all < 3 << 20, "{all}");

    // The diff of a state of several megabytes doesn't fit on a line. The step is recorded without
    // it.
    let grow = || Decision::act(std::iter::repeat_n(call("give"), 8));
    let (result, disk) = recorded(
        engine(std::iter::repeat_with(grow).take(3))
            .tool(Huge)
            .max_steps(3),
        "?",
    )
    .await;
    assert_eq!(result.verdict.code.as_str(), "budget_steps");
    let last = &disk.steps[2];
    assert_eq!(
        (&last["state_diff"], &last["changed"]),
        (&json!({}), &json!(["current_step", "seen"]))
    );
    assert!(last["cut_from_bytes"].as_u64().unwrap() > crate::model::MAX_LINE_BYTES);
}

#[tokio::test]
async fn a_critic_that_is_cut_short_accepts_nothing() {
    struct Ponders(Cancel);
    impl Critic<Notes> for Ponders {
        fn name(&self) -> &str {
            "ponders"
        }
        async fn judge(&self, _: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
            self.0.now();
            std::future::pending().await
        }
    }
    let cancel = Cancel::new();
    let play = engine([Decision::final_answer("42")])
        .critic(Ponders(cancel.clone()))
        .cancel(cancel);
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("cancelled_immediate", "cancelled_immediate", Some(0))
    );
    assert_eq!(
        (result.answer(), result.last_text.as_deref()),
        (None, Some("42"))
    );
    assert!(!disk.phases(0).contains(&"CRITIC/pass".to_owned()));
}

#[tokio::test]
async fn numbers_that_json_does_not_have_are_text_where_they_are_data() {
    struct Odd;
    impl Tool for Odd {
        type Args = ();
        type Output = f64;
        fn name(&self) -> &str {
            "odd"
        }
        fn description(&self) -> &str {
            "Gives no number."
        }
        async fn call(&self, (): (), _: ToolCx<'_>) -> Result<f64, ToolError> {
            Ok(f64::NEG_INFINITY)
        }
    }
    let (_, disk) = recorded(
        engine([Decision::act([Action::new("odd")])])
            .tool(Odd)
            .max_steps(1),
        "?",
    )
    .await;
    assert_eq!(
        disk.steps[0]["action_results"][0],
        json!({"status": "success", "output": "-Infinity"})
    );
    assert_eq!(
        disk.steps[0]["state_diff"]["seen"]["after"],
        json!(["-Infinity"])
    );
}
