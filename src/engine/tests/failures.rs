//! Tests user code that fails or panics: the run ends or continues as configured, and the manifest
//! is closed.

use serde_json::{Value, json};

use super::*;
use crate::stop::{ConsecutiveErrors, StopSpec};

/// Fails or panics in the part with this name.
struct Breaks {
    part: &'static str,
    panics: bool,
}

impl Breaks {
    fn at(&self, part: &str) -> Result<(), String> {
        match self.part == part {
            true if self.panics => panic!("broken on purpose"),
            true => Err("broken on purpose".to_owned()),
            false => Ok(()),
        }
    }
}

impl Agent for Breaks {
    type Data = Notes;

    fn name(&self) -> &str {
        "breaks"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Notes>, AgentError> {
        self.at("init_state").map_err(AgentError::new)?;
        Ok(State::new(&*task.objective, Notes::default()))
    }

    async fn decide(
        &mut self,
        _: &State<Notes>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        self.at("decide").map_err(AgentError::fatal)?;
        Ok(Some(Decision::act([
            Action::new("breaks"),
            Action::new("echo").arg("text", "still here"),
        ])))
    }

    fn reduce(&mut self, state: &mut State<Notes>, _: &Done<'_>) -> Result<(), AgentError> {
        state.data.seen.push("half done".to_owned());
        self.at("reduce").map_err(AgentError::fatal)
    }

    fn should_stop(&self, _: &State<Notes>) -> bool {
        self.at("should_stop").is_err()
    }
}

impl Critic<Notes> for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }

    async fn judge(&self, _: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
        self.at("critic").map_err(CriticError::new)?;
        Ok(Opinion::proceed("fine"))
    }
}

impl Tool for Breaks {
    type Args = NoArgs;
    type Output = String;

    fn name(&self) -> &str {
        "breaks"
    }

    fn description(&self) -> &str {
        "Breaks."
    }

    async fn call(&self, _: NoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        self.at("tool").map_err(ToolError::new)?;
        Ok("whole".to_owned())
    }
}

impl Hook<Notes> for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }

    fn on(&mut self, moment: &Moment<'_, Notes>) -> Result<(), String> {
        match moment {
            Moment::BeforeStep { .. } => self.at("hook"),
            Moment::AfterStep { .. } => self.at("late hook"),
            _ => Ok(()),
        }
    }
}

impl Env for Breaks {
    fn name(&self) -> &str {
        "breaks"
    }

    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        self.at("reset").map_err(EnvError::new)
    }

    async fn observe(&mut self) -> Result<Value, EnvError> {
        self.at("observe").map_err(EnvError::new)?;
        Ok(json!("all is well"))
    }

    async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
        self.at("env step").map_err(EnvError::new)?;
        Ok(EnvStep::default())
    }
}

async fn broken(part: &'static str, panics: bool) -> (RunResult<Notes>, Disk) {
    let breaks = || Breaks { part, panics };
    let builder = Engine::builder(breaks())
        .tool(breaks())
        .tool(Echo)
        .critic(breaks())
        .hook(breaks())
        .env(breaks());
    let builder = builder.rules(|rules| {
        rules.policy_when("mine", crate::stop::Gate::AfterStep, move |_| {
            match (part, panics) {
                ("rule", true) => panic!("broken on purpose"),
                _ => false,
            }
        })
    });
    recorded(builder.max_steps(2).record_process(false), "Break.").await
}

#[tokio::test]
async fn each_ends_as_a_verdict_in_a_closed_manifest() {
    let expected = [
        ("init_state", "agent_failed", None),
        ("decide", "step_failed", Some(0)),
        ("reduce", "step_failed", Some(0)),
        ("critic", "criterion_error", Some(0)),
        ("hook", "hook_failed", Some(0)),
        ("late hook", "hook_failed", Some(0)),
        ("reset", "env_failed", None),
        ("observe", "env_failed", Some(0)),
        ("env step", "env_failed", Some(0)),
    ];
    for (part, code, step) in expected {
        for panics in [false, true] {
            let (result, disk) = broken(part, panics).await;
            let case = format!("{part}, panics: {panics}: {:?}", result.verdict);
            assert_eq!(
                (result.verdict.code.as_str(), result.verdict.step),
                (code, step),
                "{case}"
            );
            assert!(
                result.verdict.reading.detail.contains("broken on purpose"),
                "{case}"
            );
            assert_eq!(result.verdict.stop_reason, "unrecoverable_error", "{case}");
            assert_eq!(
                (&disk.manifest["status"], disk.end()["ok"].as_bool()),
                (&json!("failed"), Some(false)),
                "{case}"
            );
            assert_eq!(
                disk.manifest["stop"],
                serde_json::to_value(&result.verdict).unwrap(),
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn a_tool_that_fails_or_panics_is_a_result() {
    for (panics, category) in [(false, "runtime_error"), (true, "panic")] {
        let (result, disk) = broken("tool", panics).await;
        assert_eq!(result.verdict.code.as_str(), "budget_steps");
        assert_eq!(
            disk.steps[0]["tool_invocations"][0]["error_category"],
            category
        );
        assert_eq!(
            disk.steps[0]["action_results"][1],
            json!({"status": "success", "output": "still here"})
        );
        assert!(
            result.steps[0].facts.error.is_none(),
            "one of two calls succeeded"
        );
    }
}

#[tokio::test]
async fn should_stop_and_rules_that_panic_end_the_run() {
    let (result, _) = broken("should_stop", true).await;
    assert_eq!(
        ending(&result.verdict),
        ("agent_failed", "agent_failed", Some(0))
    );
    let (result, _) = broken("should_stop", false).await;
    assert_eq!(
        ending(&result.verdict),
        ("agent_condition", "agent", Some(0))
    );
    let (result, _) = broken("rule", true).await;
    assert_eq!(
        ending(&result.verdict),
        ("criterion_error", "mine", Some(0))
    );
}

#[tokio::test]
async fn a_state_that_was_half_changed_is_put_back() {
    let (result, disk) = broken("reduce", false).await;
    assert_eq!(result.state.unwrap().data.seen, [""; 0]);
    assert_eq!(disk.steps[0]["state_diff"].get("seen"), None);
    assert_eq!(disk.steps[0]["error"]["phase"], "reduce");
}

#[tokio::test]
async fn case_15_failed_steps_in_a_row_and_in_all() {
    struct Fails(u64);
    impl Agent for Fails {
        type Data = ();
        fn name(&self) -> &str {
            "fails"
        }
        async fn decide(
            &mut self,
            _: &State<()>,
            cx: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            // Three failures, then a good step, repeatedly.
            match cx.step % 4 {
                3 => Ok(Some(Decision::wait("a breath"))),
                _ if cx.step < self.0 => Err(AgentError::new(format!("failure {}", cx.step))),
                _ => Ok(Some(Decision::final_answer("through"))),
            }
        }
    }
    let fails = |until| {
        Engine::builder(Fails(until))
            .max_steps(20)
            .record_process(false)
    };
    let (result, disk) = recorded(fails(9), "?").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(9)));
    assert_eq!(
        disk.manifest["summary"]["failure_report"]["failure_count"],
        7
    );
    assert_eq!(
        disk.phases(0),
        [
            "INIT",
            "DECIDE/start",
            "DECIDE_ERROR",
            "RECOVER",
            "CHECK_STOP/continue"
        ]
    );

    let rule = StopSpec::from(ConsecutiveErrors { max: 2 });
    let (result, _) = recorded(fails(9).stop(rule), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("consecutive_errors", "stop[0]", Some(1))
    );

    let (result, _) = recorded(
        fails(9).recovery(RecoverySteps {
            consecutive: 9,
            total: 4,
        }),
        "?",
    )
    .await;
    assert_eq!(
        ending(&result.verdict),
        ("recovery_exhausted", "recovery", Some(5))
    );
}

/// A run whose first failure ends it hasn't exhausted anything.
/// The report lists the first failures and counts all. The next prompt gets the newest ones.
#[tokio::test]
async fn many_failures_are_counted_but_neither_listed_nor_fed_back_without_bound() {
    struct Fails;
    impl Agent for Fails {
        type Data = ();
        fn name(&self) -> &str {
            "fails"
        }
        async fn decide(
            &mut self,
            _: &State<()>,
            cx: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            Err(AgentError::new(format!("failure {}", cx.step)))
        }
    }
    let engine = Engine::builder(Fails).max_steps(120);
    let engine = engine.recovery(RecoverySteps {
        consecutive: 1_000,
        total: 1_000,
    });
    let (result, disk) = recorded(engine, "?").await;
    assert_eq!(result.step_count, 120);
    let report = &disk.manifest["summary"]["failure_report"];
    let listed = report["failures"].as_array().map(Vec::len);
    assert_eq!((&report["failure_count"], listed), (&120.into(), Some(100)));
    let fed_back = |event: &serde_json::Value| {
        let feedback = event["payload"]["feedback"].as_array()?;
        Some((feedback.len(), feedback.last()?.clone()))
    };
    let last = disk.events.iter().rev().find_map(fed_back);
    assert_eq!(last, Some((8, "The last step failed: failure 119".into())));
}

#[tokio::test]
async fn recovery_is_exhausted_only_if_something_was_recovered() {
    /// Fails in every step, for good from step `fatal`.
    struct Fails {
        fatal: u64,
    }
    impl Agent for Fails {
        type Data = ();
        fn name(&self) -> &str {
            "fails"
        }
        fn init_state(&mut self, task: &Task) -> Result<State<()>, AgentError> {
            Ok(State::new(&*task.objective, ()))
        }
        async fn decide(
            &mut self,
            _: &State<()>,
            cx: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            Err(if cx.step < self.fatal {
                AgentError::new("no luck")
            } else {
                AgentError::fatal("no way")
            })
        }
    }
    let ends = async |fatal, recovers: fn(&Failure<'_>) -> bool| {
        let builder = Engine::builder(Fails { fatal })
            .recovery(recovers)
            .record_process(false);
        let (result, disk) = recorded(builder, "?").await;
        assert_eq!(disk.manifest["stop"]["stop_reason"], "unrecoverable_error");
        let (verdict, last) = (&result.verdict, result.steps.last().unwrap());
        assert_eq!(
            last.facts.untried,
            verdict.code == crate::stop::Code::StepFailed
        );
        let no_answer = result.require_answer().unwrap_err().to_string();
        assert!(no_answer.contains("failed (decide): no "), "{no_answer}");
        let (code, _, step) = ending(verdict);
        (code.to_owned(), step, verdict.reading.detail.to_string())
    };
    let told = |code: &str, step, detail: &str| (code.to_owned(), Some(step), detail.to_owned());
    assert_eq!(
        ends(0, |failure| failure.recoverable).await,
        told("step_failed", 0, "decide failed: no way"),
        "it can't be recovered from"
    );
    assert_eq!(
        ends(9, |_| false).await,
        told("step_failed", 0, "decide failed: no luck"),
        "the policy refuses the first failure"
    );
    assert_eq!(
        ends(9, |failure| failure.total < 3).await,
        told(
            "recovery_exhausted",
            2,
            "decide failed and wasn't recovered: no luck"
        )
    );
    assert_eq!(
        ends(1, |failure| failure.recoverable).await,
        told("step_failed", 1, "decide failed: no way")
    );
}

#[tokio::test]
async fn a_step_counts_as_failed_if_all_its_calls_failed() {
    let wrong = Decision::act([Action::new("echo").arg("txt", "a")]);
    let unknown = Decision::act([Action::new("ecko").arg("text", "a")]);
    let play = engine([wrong, unknown, echo("never")]).stop(ConsecutiveErrors { max: 2 });
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("consecutive_errors", "stop[0]", Some(1))
    );
    let message = |step: usize| disk.steps[step]["action_results"][0]["error"].clone();
    assert_eq!(
        message(0),
        "wrong arguments: unknown field `txt`, expected `text`"
    );
    assert_eq!(message(1), "unknown tool \"ecko\"; known tools: echo");
}

#[cfg(feature = "board")]
#[tokio::test]
async fn case_10_a_schema_asks_for_another_answer_and_a_bad_one_is_a_build_error() {
    let wants = |schema: Value| {
        StopSpec::from(crate::stop::StructuredOutput {
            schema: Some(schema),
            fenced: false,
        })
    };
    let answers = || ["42", "{\"a\": 1}"].map(Decision::final_answer);
    let schema = json!({"type": "object", "required": ["a"]});
    let (result, disk) = recorded(engine(answers()).stop(wants(schema.clone())), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("structured_output", "accept[0]", Some(1))
    );
    assert_eq!(result.require_answer(), Ok("{\"a\": 1}"));
    assert_eq!(
        disk.manifest["stop_rules"]["completion"][0]["rule"]["schema"],
        schema
    );

    let refused = engine(answers())
        .stop(wants(json!({"$ref": "file:///etc/hostname"})))
        .build();
    let refused = refused.expect_err("a schema is self-contained");
    let why: Vec<_> = crate::error::causes(&refused).collect();
    assert!(
        why[0].contains("neither to the network nor to a file"),
        "{why:?}"
    );
}
