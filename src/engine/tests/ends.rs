//! Tests every way in which a run ends. Each gives a verdict in a closed manifest.

use serde_json::json;

use super::*;
use crate::stop::{
    Budget, Gate, Keyword, MaxRounds, MaxSteps, Origin, Outcome, StopOnTool, StopRules, StopSpec,
};

#[tokio::test]
async fn a_budget_of_nothing_runs_nothing() {
    let (result, disk) = recorded(engine([echo("one")]).max_steps(0), "Say it.").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_steps", "budget.steps", None)
    );
    assert_eq!((result.step_count, result.steps.len()), (0, 0));
    assert_eq!(disk.manifest["stop"]["step"], json!(null));
    // The facts at the gate are recorded, although no step ran.
    assert_eq!(disk.end()["payload"]["facts"]["reached"], "before_step");
}

#[tokio::test]
async fn case_4_max_steps_runs_n_steps_and_max_rounds_does_not_run_the_last_tools() {
    let steps = StopSpec::from(MaxSteps { steps: 2 });
    let (result, _) = recorded(
        engine([echo("1"), echo("2"), echo("3")]).stop(steps),
        "Say it.",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("max_steps", "stop[0]", Some(1)));
    assert_eq!(result.state.unwrap().data.seen, ["1", "2"]);

    let rounds = StopSpec::from(MaxRounds { rounds: 2 });
    let (result, disk) = recorded(
        engine([echo("1"), echo("2"), echo("3")]).stop(rounds),
        "Say it.",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("max_rounds", "stop[0]", Some(1)));
    assert_eq!(result.verdict.gate, Some(Gate::AfterDecide));
    assert_eq!(result.state.unwrap().data.seen, ["1"]);
    assert_eq!(disk.steps[1]["actions"][0]["args"], json!({"text": "2"}));
    assert_eq!(disk.steps[1]["action_results"], json!([]));
}

#[tokio::test]
async fn case_7_and_8_an_answer_on_the_last_step_is_kept_and_a_text_is_not_an_answer() {
    let (result, _) = recorded(
        engine([echo("1"), Decision::final_answer("42")]).max_steps(2),
        "?",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
    assert_eq!(result.verdict.also, ["budget.steps"]);
    assert_eq!(result.require_answer(), Ok("42"));

    let keyword = StopSpec::from(Keyword {
        keyword: "DONE".into(),
    });
    let play = engine([Decision::final_answer("nearly"), echo("1")])
        .stop(keyword)
        .max_steps(2);
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(result.verdict.outcome, Outcome::Truncated);
    let none = result.require_answer().unwrap_err();
    assert_eq!(
        none.to_string(),
        "the run ended without an answer (budget_steps): 2 steps, limit 2"
    );
    assert_eq!(none.last_text.as_deref(), Some("nearly"));
    let error = crate::Error::from(none.clone());
    assert_eq!(
        (error.kind(), error.to_string()),
        (crate::Kind::NotFound, none.to_string())
    );
    assert_eq!(disk.manifest["summary"]["final_result"], json!(null));
}

/// Like a tool, a critic can't keep a run without limits from ending.
#[tokio::test(start_paused = true)]
async fn a_critic_that_hangs_fails_after_half_an_hour() {
    struct Hangs;
    impl<D: Sync> Critic<D> for Hangs {
        fn name(&self) -> &str {
            "hangs"
        }
        async fn judge(&self, _: CriticCx<'_, D>) -> Result<Opinion, CriticError> {
            std::future::pending().await
        }
    }
    let begun = tokio::time::Instant::now();
    let play = engine([Decision::final_answer("done")]).critic(Hangs);
    let (result, disk) = recorded(play, "t").await;
    assert_eq!(begun.elapsed().as_secs(), 30 * 60);
    assert_eq!(result.verdict.code.as_str(), "criterion_error");
    assert!(
        result
            .verdict
            .reading
            .detail
            .contains("no opinion within 30 minutes"),
        "{}",
        result.verdict.reading.detail
    );
    assert_eq!(disk.manifest["status"], "failed");
}

#[tokio::test]
async fn case_9_a_refused_answer_comes_back_as_feedback() {
    struct Learns(Vec<String>);
    impl Agent for Learns {
        type Data = ();
        fn name(&self) -> &str {
            "learns"
        }
        async fn decide(
            &mut self,
            _: &State<()>,
            cx: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            self.0.extend(cx.feedback.iter().cloned());
            Ok(Some(Decision::final_answer(if cx.feedback.is_empty() {
                "yes"
            } else {
                "yes DONE"
            })))
        }
        fn should_stop(&self, _: &State<()>) -> bool {
            assert!(self.0.len() < 3);
            false
        }
    }
    let keyword = StopSpec::from(Keyword {
        keyword: "DONE".into(),
    });
    let result = Engine::builder(Learns(Vec::new()))
        .stop(keyword)
        .build()
        .unwrap()
        .run("?")
        .await;
    assert_eq!(ending(&result.verdict), ("keyword", "accept[0]", Some(1)));
    assert_eq!(result.verdict.stop_reason, "success");
    assert_eq!(result.answer(), Some("yes DONE"));
}

#[tokio::test]
async fn case_14_a_forbidden_tool_does_not_run_and_its_step_is_recorded() {
    let two = Decision::act([Action::new("echo").arg("text", "a"), Action::new("Echo")]);
    let rule = StopSpec::from(StopOnTool {
        tool_name: "Echo".into(),
    });
    let (result, disk) = recorded(engine([echo("0"), two]).stop(rule), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("stop_on_tool", "stop[0]", Some(1))
    );
    // The step was recorded, though it wasn't completed.
    assert_eq!(
        (
            result.step_count,
            result.task.metrics.steps,
            result.stats.steps
        ),
        (2, 2, 1)
    );
    assert_eq!(result.state.unwrap().data.seen, ["0"]);
    assert_eq!(disk.steps.len(), 2);
    assert_eq!(
        disk.manifest["stop"]["evidence"],
        json!([{"step": 1, "action": 1}])
    );
}

#[tokio::test]
async fn case_21_each_gate_names_the_last_step_that_ran() {
    let (result, disk) = recorded(engine([echo("1"), echo("2")]).max_steps(1), "?").await;
    assert_eq!(
        (result.verdict.gate, result.verdict.step),
        (Some(Gate::BeforeStep), Some(0))
    );
    assert_eq!(disk.end()["step_id"], 0);
    assert_eq!(disk.steps.len(), 1);
}

#[tokio::test]
async fn the_default_step_limit_yields_to_that_of_recorded_rules() {
    let asked = || {
        let recorded = StopRules {
            budget: Budget::default().steps(2, Origin::Task),
            ..StopRules::default()
        };
        engine((0..12).map(|n| echo(&n.to_string()))).rules(|rules| rules.rules(recorded))
    };
    let (result, _) = recorded(asked(), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_steps", "budget.steps", Some(1))
    );
    assert_eq!(result.verdict.limit_from, Some(Origin::Task));
    let (result, _) = recorded(asked().max_steps(3), "?").await;
    assert_eq!(
        (result.verdict.step, result.verdict.limit_from),
        (Some(2), Some(Origin::Engine))
    );
}

#[tokio::test]
async fn case_23_cancelled_before_a_step_in_a_tool_and_after_the_answer() {
    let cancel = Cancel::new();
    cancel.now();
    let (result, disk) = recorded(engine([echo("1")]).cancel(cancel), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("cancelled_immediate", "cancelled_immediate", None)
    );
    assert_eq!(
        (result.verdict.outcome, &disk.manifest["status"]),
        (Outcome::Cancelled, &json!("stopped"))
    );
    assert_eq!(
        result.verdict.reading.detail,
        "cancelled before the first step"
    );

    struct Between(Cancel);
    impl Hook<Notes> for Between {
        fn name(&self) -> &str {
            "between"
        }
        fn on(&mut self, moment: &Moment<'_, Notes>) -> Result<(), String> {
            if matches!(moment, Moment::AfterStep { .. }) {
                self.0.now();
            }
            Ok(())
        }
    }
    let cancel = Cancel::new();
    let play = engine([echo("1"), echo("2")])
        .hook(Between(cancel.clone()))
        .cancel(cancel);
    let (result, _) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("cancelled_immediate", "cancelled_immediate", Some(0))
    );
    assert_eq!(
        (result.verdict.gate, &*result.verdict.reading.detail),
        (Some(Gate::BeforeStep), "cancelled before the next step")
    );

    let cancel = Cancel::new();
    let waits = Waits {
        cancel: cancel.clone(),
    };
    let two = Decision::act([
        Action::new("waits"),
        Action::new("echo").arg("text", "never"),
    ]);
    let (result, disk) = recorded(engine([echo("0"), two]).tool(waits).cancel(cancel), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("cancelled_immediate", "cancelled_immediate", Some(1))
    );
    let states: Vec<_> = disk.steps[1]["tool_invocations"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert!(
        states.iter().all(|call| call["status"] == "cancelled"),
        "{states:?}"
    );
    assert_eq!(result.state.unwrap().data.seen, ["0"]);

    struct Late(Cancel);
    impl Critic<Notes> for Late {
        fn name(&self) -> &str {
            "late"
        }
        async fn judge(&self, _: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
            self.0.after_step();
            Ok(Opinion::proceed("fine"))
        }
    }
    let cancel = Cancel::new();
    let play = engine([Decision::final_answer("42")])
        .critic(Late(cancel.clone()))
        .cancel(cancel);
    let (result, _) = recorded(play, "?").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(0)));
    assert_eq!(result.verdict.also, ["cancelled_after_step"]);

    let cancel = Cancel::new();
    let play = engine([echo("1"), echo("2")])
        .critic(Late(cancel.clone()))
        .cancel(cancel);
    let (result, _) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("cancelled_after_step", "cancelled_after_step", Some(0))
    );
}

#[tokio::test]
async fn case_27_a_hook_cannot_change_a_limit() {
    struct Nosy(u64);
    impl Hook<Notes> for Nosy {
        fn name(&self) -> &str {
            "nosy"
        }
        fn on(&mut self, moment: &Moment<'_, Notes>) -> Result<(), String> {
            self.0 += u64::from(matches!(moment, Moment::AfterStep { .. }));
            Ok(())
        }
    }
    let play = engine(std::iter::repeat_n(echo("1"), 30)).hook(Nosy(0));
    let (result, _) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_steps", "budget.steps", Some(DEFAULT_STEPS - 1))
    );
    assert_eq!(result.verdict.limit_from, Some(Origin::Default));
}

#[tokio::test]
async fn a_task_overrides_the_engine_field_by_field() {
    let play = engine(std::iter::repeat_n(echo("1"), 9))
        .max_steps(9)
        .max_tokens(5);
    let (result, disk) = recorded(play, Task::new("?").max_steps(2)).await;
    assert_eq!(result.verdict.limit_from, Some(Origin::Task));
    assert_eq!(result.step_count, 2);
    let rules = &disk.manifest["stop_rules"]["budget"];
    assert_eq!(rules["steps"], json!({"limit": 2, "from": "task"}));
    assert_eq!(rules["tokens"], json!({"limit": 5, "from": "engine"}));
}

#[tokio::test]
async fn an_error_before_the_first_step_is_a_verdict_too() {
    let task = Task::new(" ").resource(Resource::at(ResourceKind::File, "no/such/file").required());
    let (result, disk) = recorded(engine([echo("1")]), task).await;
    assert_eq!(
        ending(&result.verdict),
        ("task_validation_failed", "task_validation_failed", None)
    );
    assert_eq!(
        result.verdict.reading.detail,
        "the task does not say what to do (1 more problem)"
    );
    let issues = disk.end()["payload"]["issues"].clone();
    assert_eq!(issues[1]["code"], "TASK_RESOURCE_MISSING");
    assert_eq!(
        issues[1]["message"],
        "the required file \"no/such/file\" does not exist"
    );
    assert_eq!(
        (&disk.manifest["status"], disk.steps.len()),
        (&json!("failed"), 0)
    );

    let (result, _) = recorded(engine([echo("1")]), Task::new("?").needs("browser")).await;
    assert_eq!(ending(&result.verdict).0, "env_capability_mismatch");
    assert_eq!(
        result.verdict.reading.detail,
        "the task needs \"browser\"; there is no environment"
    );
}

/// Waits in each step, with a step limit of its own.
struct Own {
    max_steps: u64,
    current_step: u64,
}

impl Agent for Own {
    type Data = ();
    fn name(&self) -> &str {
        "own"
    }
    fn init_state(&mut self, task: &Task) -> Result<State<()>, AgentError> {
        let mut state = State::new(&*task.objective, ());
        state.max_steps = Some(self.max_steps);
        state.current_step = self.current_step;
        Ok(state)
    }
    async fn decide(
        &mut self,
        _: &State<()>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(Decision::wait("it has time")))
    }
}

#[tokio::test]
async fn the_lower_of_the_states_step_limit_and_the_budget_counts() {
    let own = |max_steps| {
        Engine::builder(Own {
            max_steps,
            current_step: 0,
        })
        .record_process(false)
    };
    let ends = async |builder: Builder<Own>, task: Task| {
        let (result, disk) = recorded(builder, task).await;
        let limit = json!({"limit": result.step_count, "from": result.verdict.limit_from.unwrap()});
        assert_eq!(disk.manifest["stop_rules"]["budget"]["steps"], limit);
        assert_eq!(ending(&result.verdict).0, "budget_steps");
        (result.step_count, result.verdict.limit_from)
    };
    let task = || Task::new("t");
    let by_state = |steps| (steps, Some(Origin::State));
    assert_eq!(ends(own(2), task()).await, by_state(2), "below the default");
    assert_eq!(ends(own(2).max_steps(3), task()).await, by_state(2));
    assert_eq!(ends(own(2).no_step_limit(), task()).await, by_state(2));
    assert_eq!(ends(own(2), task().max_steps(5)).await, by_state(2));
    assert_eq!(
        ends(own(5).max_steps(3), task()).await,
        (3, Some(Origin::Engine))
    );
    assert_eq!(
        ends(own(3), task().max_steps(3)).await,
        (3, Some(Origin::Task))
    );
    assert_eq!(
        ends(own(99), task()).await,
        (DEFAULT_STEPS, Some(Origin::Default))
    );
}

#[tokio::test]
async fn a_refused_state_is_in_the_result_with_its_stop_reason() {
    let refused = [
        (0, 0, "state.max_steps is 0; omit it to use the budget"),
        (2, 3, "state.current_step 3 is above state.max_steps 2"),
    ];
    for (max_steps, current_step, why) in refused {
        let agent = Own {
            max_steps,
            current_step,
        };
        let (result, disk) = recorded(Engine::builder(agent).record_process(false), "t").await;
        assert_eq!(
            (ending(&result.verdict), &*result.verdict.reading.detail),
            (
                ("task_validation_failed", "task_validation_failed", None),
                why
            )
        );
        let state = result.state.unwrap();
        assert_eq!(state.stop_reason.as_deref(), Some("task_validation_failed"));
        assert_eq!(disk.events[0]["payload"].get("state"), Some(&json!(null)));
    }
    // Also if the task or the environment is refused.
    for task in [Task::new(" "), Task::new("t").needs("browser")] {
        let (result, _) = recorded(engine([echo("1")]), task).await;
        let reason = result.state.unwrap().stop_reason;
        assert_eq!(reason.as_deref(), Some(&*result.verdict.stop_reason));
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_ends_a_critic_that_hangs() {
    struct Hangs;
    impl Critic<Notes> for Hangs {
        fn name(&self) -> &str {
            "hangs"
        }
        async fn judge(&self, _: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
            std::future::pending().await
        }
    }
    let limit = Duration::from_millis(400);
    let hard = engine([echo("1")]).critic(Hangs).hard_timeout(limit);
    let hard_with_answer = engine([Decision::final_answer("42")])
        .critic(Hangs)
        .hard_timeout(limit);
    let budget = engine([echo("1")])
        .critic(Hangs)
        .clock(SystemClock::start())
        .max_runtime(limit);
    for play in [hard, hard_with_answer, budget] {
        let (result, disk) = recorded(play, "?").await;
        assert_eq!(
            ending(&result.verdict),
            ("budget_time", "budget_time", Some(0))
        );
        assert_eq!(result.verdict.source, crate::stop::Source::Budget);
        assert_eq!((result.answer(), disk.steps.len()), (None, 1));
        assert!(
            disk.events
                .iter()
                .all(|event| event["payload"]["stage"] != "pass")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hard_timeout_drops_what_hangs() {
    struct Hangs;
    impl Tool for Hangs {
        type Args = NoArgs;
        type Output = ();
        fn name(&self) -> &str {
            "hangs"
        }
        fn description(&self) -> &str {
            "Hangs."
        }
        async fn call(&self, _: NoArgs, _: ToolCx<'_>) -> Result<(), ToolError> {
            std::future::pending().await
        }
    }
    // Less than a tool's default timeout.
    let limit = Duration::from_secs(30);
    let play = engine([Decision::act([Action::new("hangs")])])
        .tool(Hangs)
        .hard_timeout(limit);
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_time", "budget_time", Some(0))
    );
    assert_eq!(result.verdict.source, crate::stop::Source::Budget);
    assert_eq!(disk.steps[0]["tool_invocations"][0]["status"], "cancelled");
}

/// Blocks its thread for two minutes of the paused clock.
struct Blocks(ToolLimits);

impl Tool for Blocks {
    type Args = EchoArgs;
    type Output = String;
    fn name(&self) -> &str {
        "blocks"
    }
    fn description(&self) -> &str {
        "Takes its time, in one go."
    }
    fn limits(&self) -> ToolLimits {
        self.0
    }
    fn is_parallel(&self) -> bool {
        true
    }
    async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        if args.text == "quick" {
            tokio::task::yield_now().await;
            return Ok(args.text);
        }
        // Its first poll moves the clock.
        let mut later = std::pin::pin!(tokio::time::advance(Duration::from_secs(120)));
        let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = later.as_mut().poll(&mut waker);
        match &*args.text {
            "fail" => Err(ToolError::new("no luck").retryable()),
            _ => Ok(args.text),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_blocks_past_its_time_limit_is_no_success() {
    let blocks = |text: &str| Decision::act([Action::new("blocks").arg("text", text)]);
    let limits = ToolLimits::default();
    let play = engine([blocks("late"), blocks("fail")])
        .tool(Blocks(limits))
        .max_steps(2);
    let (result, disk) = recorded(play, "?").await;
    let call = &result.steps[0].results[0];
    assert_eq!(
        (call.status, call.attempts, call.text()),
        (
            Status::TimedOut,
            1,
            "error: finished after 120000 ms, over its limit of 60000 ms".to_owned()
        )
    );
    let line = &disk.steps[0];
    assert_eq!(line["action_results"][0]["output"], "late");
    let invocation = &line["tool_invocations"][0];
    assert_eq!(
        (&invocation["status"], &invocation["error_category"]),
        (&json!("timed_out"), &json!("timeout"))
    );
    assert_eq!(
        result.steps[1].results[0].text(),
        "error: finished after 120000 ms, over its limit of 60000 ms: no luck"
    );

    // The time of the run is limited, and not that of the call.
    let limits = ToolLimits {
        timeout: None,
        ..limits
    };
    let play = engine([blocks("late")])
        .tool(Blocks(limits))
        .hard_timeout(Duration::from_secs(60));
    let (result, _) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_time", "budget_time", Some(0))
    );
    let call = &result.steps[0].results[0];
    assert_eq!(
        (call.status, &call.output, call.text()),
        (
            Status::TimedOut,
            &json!("late"),
            "error: finished after 120000 ms, when the run's time was over".to_owned()
        )
    );

    // A call isn't late because another one blocked the thread.
    let call = |text: &str| Action::new("blocks").arg("text", text);
    let both = Decision::act([call("quick"), call("late")]);
    let play = engine([both]).tool(Blocks(ToolLimits::default()));
    let (result, _) = recorded(play.max_steps(1), "?").await;
    let statuses: Vec<_> = result.steps[0]
        .results
        .iter()
        .map(|call| call.status)
        .collect();
    assert_eq!(statuses, [Status::Success, Status::TimedOut]);

    // In time.
    let play = engine([blocks("late"), Decision::final_answer("done")]).tool(Blocks(limits));
    let (result, _) = recorded(play, "?").await;
    assert!(result.steps[0].results[0].is_ok());
}

#[tokio::test]
async fn a_clock_that_no_time_can_express_leaves_a_complete_manifest() {
    for clock in [i64::MIN, i64::MAX] {
        let play = engine([echo("one"), Decision::final_answer("done")])
            .clock(Stepping::new(clock, Duration::from_millis(1)));
        let (result, disk) = recorded(play, "?").await;
        assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
        assert_eq!(disk.manifest["status"], "completed");
        assert_eq!(disk.manifest["started_at"], json!(null));
        assert_eq!(disk.manifest["updated_at"], json!(null));
        assert!(disk.events.iter().all(|event| event.get("ts").is_none()));
        // How long it took is known.
        assert!(disk.manifest["latency_seconds"].as_f64().unwrap() > 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_judged_for_at_most_the_run_time_again() {
    struct Hangs;
    impl<D: Sync> Critic<D> for Hangs {
        fn name(&self) -> &str {
            "hangs"
        }
        async fn judge(&self, _: CriticCx<'_, D>) -> Result<Opinion, CriticError> {
            std::future::pending().await
        }
    }
    let begun = tokio::time::Instant::now();
    let play = engine([Decision::final_answer("42")])
        .critic(Hangs)
        .clock(SystemClock::start())
        .max_runtime(Duration::from_secs(30));
    let (result, _) = recorded(play, "?").await;
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(
        ending(&result.verdict),
        ("budget_time", "budget_time", Some(0))
    );
    assert_eq!(result.answer(), None);
}

#[tokio::test]
async fn a_cost_limit_ends_the_run_and_names_who_set_it() {
    let reply = |id: &str| {
        let call = ToolCall::new(id, "echo", r#"{"text": "1"}"#);
        Reply::calls([call]).usage(10, 5)
    };
    let asks = || Engine::builder(ModelAgent::new("clerk", "")).tool(Echo);
    let replies = ["a", "b", "c"].map(|id| reply(id).cost(0.25));
    let (result, disk) = recorded(
        asks()
            .model(Scripted::new(replies))
            .max_cost(9.0)
            .max_cost(0.5)
            .limits_from(Origin::Cli),
        "?",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("max_cost", "stop[0]", Some(1)));
    assert_eq!(result.verdict.outcome, Outcome::Truncated);
    assert_eq!(result.verdict.limit_from, Some(Origin::Cli));
    assert_eq!(disk.manifest["stop"]["limit_from"], "cli");
    // Without a cost or a price, no one knows when the limit is reached.
    let replies = ["a", "b", "c"].map(reply);
    let model = Scripted::new(replies);
    let (result, _) = recorded(asks().model(model).max_cost(0.5).max_steps(3), "?").await;
    assert_eq!(result.verdict.code.as_str(), "budget_steps");
    for usd in [0.0, -1.0, f64::NAN] {
        let error = asks().max_cost(usd).build().unwrap_err();
        let expected = format!(
            "max_cost must be more than 0 dollars, not {usd} (hint: omit it to allow any cost)"
        );
        assert_eq!(format!("{error:#}"), expected);
    }
}

#[tokio::test]
async fn who_set_the_limits_may_be_said_before_or_after_them() {
    for play in [
        engine([echo("1"), echo("2")])
            .max_steps(1)
            .limits_from(Origin::Cli),
        engine([echo("1"), echo("2")])
            .limits_from(Origin::Cli)
            .max_steps(1),
    ] {
        let (result, _) = recorded(play, "?").await;
        assert_eq!(result.verdict.limit_from, Some(Origin::Cli));
    }
}
