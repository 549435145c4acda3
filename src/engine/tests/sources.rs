//! Tests features from the systems on which this engine is based: answers in the state, stop
//! reasons, criteria, specs, costs, and parallel calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, json};
use tokio::sync::Barrier;

use super::*;
use crate::model::price::{Price, Prices};
use crate::stop::{
    Check, Code, CriterionError, MaxRuntime, Outcome, Reading, StopCriterion, StopCx, StopSpec,
    Usage,
};

/// Changes its state with a closure in its first step.
struct Sets<F>(F);

impl<F: FnMut(&mut State<()>) + Send> Agent for Sets<F> {
    type Data = ();

    fn name(&self) -> &str {
        "sets"
    }

    async fn decide(
        &mut self,
        _: &State<()>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Ok(Some(Decision::wait("the state says it")))
    }

    fn reduce(&mut self, state: &mut State<()>, _: &Done<'_>) -> Result<(), AgentError> {
        (self.0)(state);
        Ok(())
    }
}

async fn ends(set: impl FnMut(&mut State<()>) + Send) -> (String, Outcome, Option<String>) {
    let result = Engine::builder(Sets(set))
        .record_process(false)
        .build()
        .unwrap()
        .run("t")
        .await;
    let answer = result.answer().map(str::to_owned);
    assert_eq!(result.task.final_result, answer);
    (
        result.verdict.code.as_str().to_owned(),
        result.verdict.outcome,
        answer,
    )
}

#[tokio::test]
async fn an_answer_in_the_state_ends_the_run_and_stays() {
    let answer = || Some("42".to_owned());
    let done = |code: &str, outcome| (code.to_owned(), outcome, answer());
    assert_eq!(
        ends(|state| state.final_result = answer()).await,
        done("final", Outcome::Completed)
    );
    let stop = |reason: &'static str| {
        ends(move |state: &mut State<()>| state.set_stop(reason, answer()).unwrap())
    };
    assert_eq!(stop("final").await, done("final", Outcome::Completed));
    assert_eq!(stop("success").await, done("success", Outcome::Completed));
    let by_code = ends(|state| state.set_stop(Code::Success, answer()).unwrap()).await;
    assert_eq!(by_code, done("success", Outcome::Completed));
    assert_eq!(
        stop("agent_condition").await,
        done("agent_condition", Outcome::Completed)
    );
    assert_eq!(
        stop("env_terminal").await,
        done("env_terminal", Outcome::Completed)
    );
    assert_eq!(
        stop("budget_steps").await,
        done("budget_steps", Outcome::Truncated)
    );
    assert_eq!(
        stop("critic_stop").await,
        done("critic_stop", Outcome::Halted)
    );
    assert_eq!(
        stop("MAX_STEPS_REACHED").await,
        done("budget_steps", Outcome::Truncated)
    );
    assert_eq!(stop("FINAL").await, done("final", Outcome::Completed));
    let by_code = ends(|state| state.set_stop(Code::MaxRounds, answer()).unwrap()).await;
    assert_eq!(by_code, done("budget_steps", Outcome::Truncated));
}

#[tokio::test]
async fn the_engine_sets_the_task_of_the_state() {
    struct Forgets;
    impl Agent for Forgets {
        type Data = ();
        fn name(&self) -> &str {
            "forgets"
        }
        fn init_state(&mut self, _: &Task) -> Result<State<()>, AgentError> {
            Ok(State::new("another task", ()))
        }
        async fn decide(
            &mut self,
            state: &State<()>,
            _: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            Ok(Some(Decision::final_answer(&*state.task)))
        }
    }
    let (result, disk) = recorded(Engine::builder(Forgets).record_process(false), "the task").await;
    assert_eq!(result.answer(), Some("the task"));
    assert_eq!(disk.events[0]["payload"]["state"]["task"], "the task");
}

#[tokio::test]
async fn an_agent_or_an_environment_completes_nothing_without_an_answer() {
    for reason in ["agent_condition", "env_terminal"] {
        let (result, disk) = recorded(
            Engine::builder(Sets(move |state: &mut State<()>| {
                state.set_stop(reason, None).unwrap();
            }))
            .record_process(false),
            "t",
        )
        .await;
        assert_eq!(
            (result.verdict.outcome, result.task.success),
            (Outcome::Halted, false)
        );
        let summary = &disk.manifest["summary"];
        assert_eq!(disk.manifest["stop"]["outcome"], "halted");
        assert_eq!(
            (&summary["stop_reason"], &summary["task_result"]["success"]),
            (&json!(reason), &json!(false))
        );
        assert_eq!(disk.manifest["status"], "completed", "QitOS's word stays");
    }
}

#[tokio::test]
async fn a_policy_needs_an_answer_to_complete_a_run() {
    struct Done;
    impl StopCriterion<State<()>> for Done {
        fn id(&self) -> &str {
            "done"
        }
        fn check(&self, _: &StopCx<'_, State<()>>) -> Result<Check, CriterionError> {
            Ok(Check::stop(Code::Final, Reading::text("it is done")))
        }
    }
    let engine =
        Engine::builder(Sets(|_: &mut State<()>| {})).rules(|rules| rules.policy_with(Done));
    let result = engine.record_process(false).build().unwrap().run("t").await;
    assert_eq!(
        (&result.verdict.code, result.verdict.outcome),
        (&Code::Final, Outcome::Halted)
    );
    assert_eq!(
        (result.task.success, &*result.verdict.stop_reason),
        (false, "agent_condition")
    );
}

#[tokio::test]
async fn success_is_the_recorded_reason_if_the_agent_reports_it() {
    let set = |state: &mut State<()>| state.set_stop("success", Some("42".to_owned())).unwrap();
    let (result, disk) = recorded(Engine::builder(Sets(set)).record_process(false), "t").await;
    let state = result.state.unwrap();
    assert_eq!(state.stop_reason.as_deref(), Some("success"));
    assert_eq!(disk.manifest["summary"]["stop_reason"], "success");
    assert_eq!(disk.manifest["stop"]["code"], "success");
}

#[test]
fn an_unknown_reason_is_refused() {
    let mut state = State::new("t", ());
    assert!(state.set_stop("tired", None).is_err());
    assert!(
        state.set_stop(Code::Final, None).is_err(),
        "there is no answer"
    );
    assert_eq!(state.stop_reason, None);
}

#[tokio::test]
async fn criteria_get_results_that_the_trace_holds() {
    struct Checks;
    impl Critic<()> for Checks {
        fn name(&self) -> &str {
            "checks"
        }

        async fn judge(&self, _: CriticCx<'_, ()>) -> Result<Opinion, CriticError> {
            Ok(Opinion::proceed("").criterion("the tests pass", false, "2 of 9 fail"))
        }
    }
    let runs = tempfile::tempdir().unwrap();
    let set = |state: &mut State<()>| {
        state.set_criterion("the file is there", true, "a.txt");
        state.final_result = Some("done".to_owned());
    };
    let writer = RunWriter::create(runs.path(), "run").unwrap();
    let engine = Engine::builder(Sets(set))
        .critic(Checks)
        .record(writer)
        .record_process(false)
        .build()
        .unwrap();
    let task = ["the file is there", "the tests pass", "nobody looked"]
        .into_iter()
        .fold(Task::new("t"), Task::success);
    let task = task.constraint("network", false).env("host", Map::new());
    let task = Task {
        env_spec: None,
        ..task
    };
    engine.run(task).await;
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(runs.path().join("run/manifest.json")).unwrap())
            .unwrap();
    let summary = &manifest["summary"];
    let expected = json!([
        {"criterion": "the file is there", "passed": true, "evidence": "a.txt"},
        {"criterion": "the tests pass", "passed": false, "evidence": "2 of 9 fail"},
        {"criterion": "nobody looked", "passed": null},
    ]);
    assert_eq!(summary["task_result"]["criteria"], expected);
    assert_eq!(
        summary["task_meta"]["constraints"],
        json!({"network": false})
    );
}

#[test]
fn an_environment_is_requested_by_type_and_config() {
    let config = json!({"workspace_root": "playground"})
        .as_object()
        .unwrap()
        .clone();
    let task = Task::new("t").env("host", config);
    let spec = serde_json::to_value(task.env_spec).unwrap();
    assert_eq!(
        spec,
        json!({"type": "host", "config": {"workspace_root": "playground"}, "capabilities": []})
    );
}

#[test]
fn max_runtime_takes_fractions() {
    let half: StopSpec = "max_runtime=0.5".parse().unwrap();
    assert_eq!(
        serde_json::to_value(&half).unwrap(),
        json!({"type": "max_runtime", "seconds": 0.5})
    );
    let whole: StopSpec =
        serde_json::from_value(json!({"type": "max_runtime", "seconds": 60})).unwrap();
    assert_eq!(
        serde_json::to_string(&whole).unwrap(),
        r#"{"type":"max_runtime","seconds":60}"#
    );
    assert!(
        Engine::builder(Play::new([]))
            .stop(MaxRuntime { seconds: f64::NAN })
            .build()
            .is_err()
    );
}

/// Waits until all calls have started. Fails if its argument is `bad`, and panics if it is `worse`.
struct Meets {
    all: Arc<Barrier>,
    begun: Arc<AtomicUsize>,
}

impl Tool for Meets {
    type Args = EchoArgs;
    type Output = String;

    fn name(&self) -> &str {
        "meets"
    }

    fn description(&self) -> &str {
        "Meets the others."
    }

    fn is_parallel(&self) -> bool {
        true
    }

    async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.all.wait().await;
        match args.text.as_str() {
            "bad" => Err(ToolError::new("this one fails")),
            "worse" => panic!("this one panics"),
            _ => Ok(args.text),
        }
    }
}

#[tokio::test]
async fn calls_that_may_are_made_at_the_same_time_and_keep_their_order() {
    let (all, begun) = (Arc::new(Barrier::new(4)), Arc::new(AtomicUsize::new(0)));
    let call = |tool: &str, text: &str| Action::new(tool).arg("text", text);
    let calls = Decision::act([
        call("echo", "first"),
        call("meets", "a"),
        call("meets", "bad"),
        call("meets", "worse"),
        call("meets", "b"),
        call("echo", "last"),
    ]);
    let engine = engine([calls, Decision::final_answer("done")]).tool(Meets {
        all,
        begun: begun.clone(),
    });
    let result = engine.build().unwrap().run("t").await;
    let texts: Vec<_> = result.steps[0]
        .results
        .iter()
        .map(ToolResult::text)
        .collect();
    assert_eq!(texts[..3], ["first", "a", "error: this one fails"]);
    assert!(texts[3].contains("this one panics"), "{}", texts[3]);
    assert_eq!(
        (&texts[4..], begun.load(Ordering::Relaxed)),
        (&["b".to_owned(), "last".to_owned()][..], 4)
    );
    assert_eq!(result.answer(), Some("done"));
}

/// Denies one call, changes another and allows the rest.
struct Picky;

impl Guard<Notes> for Picky {
    fn name(&self) -> &str {
        "picky"
    }

    async fn judge(&self, call: GuardCx<'_, Notes>) -> Result<Pass, String> {
        // Other calls may be judged in the meantime, but none is executed.
        tokio::task::yield_now().await;
        Ok(match call.args["text"].as_str() {
            Some("no") => Pass::Deny("not this one".to_owned()),
            Some("b") => Pass::Change {
                args: Map::from_iter([("text".to_owned(), json!("bee"))]),
                reason: String::new(),
            },
            _ => Pass::Allow,
        })
    }
}

#[tokio::test]
async fn calls_of_a_part_are_judged_before_any_is_made_and_each_keeps_its_place() {
    let (all, begun) = (Arc::new(Barrier::new(3)), Arc::new(AtomicUsize::new(0)));
    let call = |text: &str| Action::new("meets").arg("text", text);
    let calls = Decision::act([call("a"), call("no"), call("b"), call("bad")]);
    let play = engine([calls, Decision::final_answer("done")]).tool(Meets {
        all,
        begun: begun.clone(),
    });
    let (result, disk) = recorded(play.guard(Picky), "t").await;
    let texts: Vec<_> = result.steps[0]
        .results
        .iter()
        .map(ToolResult::text)
        .collect();
    assert_eq!(
        texts,
        [
            "a",
            "error: not allowed: not this one",
            "bee",
            "error: this one fails"
        ]
    );
    assert_eq!(
        (begun.load(Ordering::Relaxed), result.answer()),
        (3, Some("done"))
    );
    let said = disk
        .events
        .iter()
        .filter(|event| event["phase"] == "GATE")
        .map(|event| {
            (
                event["payload"]["stage"].as_str().unwrap().to_owned(),
                event["payload"]["action"].as_u64().unwrap(),
            )
        });
    let said: Vec<_> = said.collect();
    let said: Vec<_> = said
        .iter()
        .map(|(stage, place)| (&**stage, *place))
        .collect();
    assert_eq!(
        said,
        [
            ("allow", 0),
            ("deny", 1),
            ("change", 2),
            ("allow", 2),
            ("allow", 3)
        ]
    );
}

#[tokio::test]
async fn what_replies_cost_is_told_or_estimated_and_ends_a_run() {
    let calls = |id: &str| Reply::calls([ToolCall::new(id, "echo", r#"{"text": "x"}"#)]);
    let mut told = calls("a").cost(0.25);
    told.usage = Some(Usage::reported(1_000_000, 0));
    let mut cached = calls("b");
    cached.usage = Some(Usage {
        cached: Some(500_000),
        ..Usage::reported(1_000_000, 100_000)
    });
    let price = Price {
        input: 1.0,
        cached: Some(0.1),
        output: 2.0,
        ..Price::default()
    };
    let prices = Prices::new([("scripted".to_owned(), price)].into(), "prices".to_owned()).unwrap();
    let runs = tempfile::tempdir().unwrap();
    let writer = RunWriter::create(runs.path(), "run").unwrap();
    let engine = Engine::builder(Asks)
        .tool(Echo)
        .record_process(false)
        .prices(prices)
        .record(writer);
    let engine = engine.model(Scripted::new([told, cached, calls("c")]));
    let engine = engine.stop("max_cost=1".parse::<StopSpec>().unwrap());
    let result = engine.build().unwrap().run("t").await;
    assert_eq!(
        (result.verdict.code.as_str(), result.verdict.step),
        ("max_cost", Some(1))
    );
    let steps = std::fs::read_to_string(runs.path().join("run/steps.jsonl")).unwrap();
    let steps: Vec<Value> = steps
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // 0.5 for input, 0.05 for cached input, 0.2 for output.
    assert_eq!(
        (&steps[0]["cost_usd"], &steps[1]["cost_usd"]),
        (&json!(0.25), &json!(0.75))
    );
    assert_eq!(steps[1]["facts"]["cost_estimated"], true);
    assert_eq!(steps[1]["context"]["cached_tokens"], 500_000);
    assert_eq!(result.task.metrics.cost_usd, Some(1.0));
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(runs.path().join("run/manifest.json")).unwrap())
            .unwrap();
    assert_eq!(manifest["summary"]["cost"], 1.0);
}

#[test]
fn a_required_network_address_needs_a_scheme_and_a_host() {
    let issues = |uri: &str| {
        let task = Task::new("t").resource(Resource::url(uri).required());
        let told = |issue: TaskIssue| format!("{}: {}", issue.code, issue.message);
        task.issues(None).into_iter().map(told).collect::<Vec<_>>()
    };
    for uri in [
        "https://example.com",
        "https://example.com:8443/a%20b?c=d#e",
        "s3://bucket/key",
        "http://[::1]/",
        "https://müller.example/straße",
    ] {
        assert_eq!(issues(uri), [""; 0], "{uri}");
    }
    let needs = |uri: &str| {
        format!(
            "TASK_RESOURCE_URI_INVALID: the required address {uri:?} needs a scheme and a host, as in https://example.com"
        )
    };
    for uri in [
        "mailto:a@example.com",
        "https://",
        "file:///tmp/x",
        "https:///x",
    ] {
        assert_eq!(issues(uri), [needs(uri)]);
    }
    for uri in [
        "not a url at all",
        "example.com/a",
        "//example.com",
        "https://a b",
    ] {
        let found = issues(uri);
        assert!(
            found.len() == 1 && found[0].starts_with(&format!("{}: ", needs(uri))),
            "{found:?}"
        );
    }
    let optional = Task::new("t").resource(Resource::url("not a url at all"));
    assert!(optional.issues(None).is_empty());
}

#[tokio::test]
async fn metadata_of_the_run_and_of_the_task_is_in_the_manifest() {
    let play = engine([Decision::final_answer("done")]).metadata("team", "red");
    let task = Task::new("t").metadata("ticket", 7);
    let (_, disk) = recorded(play.metadata("tries", json!([1, 2])), task).await;
    let summary = &disk.manifest["summary"];
    assert_eq!(
        summary["run_meta"]["metadata"],
        json!({"team": "red", "tries": [1, 2]})
    );
    assert_eq!(summary["task_meta"]["metadata"], json!({"ticket": 7}));
    let (_, disk) = recorded(engine([Decision::final_answer("done")]), "t").await;
    let run_meta = disk.manifest["summary"]["run_meta"].as_object().unwrap();
    assert!(!run_meta.contains_key("metadata"));
}

#[tokio::test]
async fn events_have_times_and_errors_and_their_payloads_are_read_from_the_trace() {
    let long = "x".repeat(5_000);
    let wrong = Decision::final_answer("");
    let fails = Decision::act([Action::new(long.clone())]);
    let play = engine([echo("one"), wrong, fails, Decision::final_answer("done")]);
    let (result, disk) = recorded(play, "t").await;
    let read: Vec<Value> = result
        .recorded_events()
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(read, disk.events);
    assert_eq!(read[0]["payload"]["state"]["task"], "t");
    for (event, line) in result.events.iter().zip(&read) {
        let ts = crate::model::time::parse_ts(line["ts"].as_str().unwrap()).unwrap();
        assert_eq!(
            (event.step, event.phase, event.ts, event.error.as_deref()),
            (
                line["step_id"].as_u64().unwrap(),
                line["phase"].as_str().unwrap(),
                ts.micros,
                line["error"].as_str()
            )
        );
    }
    let errors: Vec<_> = result.events.iter().filter(|event| !event.ok).collect();
    assert_eq!(
        errors
            .iter()
            .map(|event| (event.step, event.phase, event.error.as_deref()))
            .collect::<Vec<_>>(),
        [
            (1, "DECIDE_ERROR", Some("a final decision has no answer")),
            (1, "RECOVER", Some("a final decision has no answer")),
        ]
    );

    // What can't be read isn't made up, and hides nothing.
    let path = result.trace.as_ref().unwrap().join("events.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}nonsense\n{text}")).unwrap();
    let mut read: Vec<_> = result.recorded_events().unwrap().collect();
    let nonsense = read.remove(disk.events.len());
    let error = nonsense.unwrap_err().to_string();
    let place = format!("can't read line {} of ", disk.events.len() + 1);
    assert!(error.starts_with(&place), "{error}");
    let read: Vec<_> = read.into_iter().map(crate::Result::unwrap).collect();
    assert_eq!(read, [&disk.events[..], &disk.events[..]].concat());
    let unrecorded = engine([Decision::final_answer("done")]).build().unwrap();
    let result = unrecorded.run("t").await;
    let error = result.recorded_events().unwrap_err();
    assert_eq!(error.to_string(), "the run has no trace");
}

/// Takes a second to get ready.
struct Slow(Arc<Stepping>);

impl Env for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        self.0.sleep(Duration::from_secs(1)).await;
        Ok(())
    }
    async fn observe(&mut self) -> Result<Value, EnvError> {
        Ok(Value::Null)
    }
    async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
        Ok(EnvStep::default())
    }
}

/// As in QitOS, the time of a run begins before its environment is reset.
#[tokio::test]
async fn the_reset_of_the_environment_is_part_of_the_run_time() {
    let play = || {
        let clock = Arc::new(Stepping::new(0, Duration::from_millis(1)));
        engine([Decision::final_answer("done")])
            .env(Slow(clock.clone()))
            .clock(clock)
    };
    let (result, _) = recorded(play(), "t").await;
    let begun = result.steps[0].facts.t_start_ms.unwrap();
    assert!((1_000..1_100).contains(&begun), "{begun}");
    let limit = Duration::from_millis(900);
    let (result, _) = recorded(play().max_runtime(limit), "t").await;
    assert_eq!(
        ending(&result.verdict),
        ("budget_time", "budget.time", None)
    );
}

/// Constructors don't fail. The engine checks each decision before it's recorded.
#[tokio::test]
async fn an_incomplete_decision_fails_its_step_with_feedback() {
    let incomplete = [
        (Decision::act([]), "a decision to act has no actions"),
        (Decision::act([Action::new(" ")]), "an action has no name"),
        (
            Decision::final_answer(" "),
            "a final decision has no answer",
        ),
        (Decision::branch([]), "a branch has no candidates"),
    ];
    for (decision, why) in incomplete {
        assert_eq!(decision.validate(), Err(why.to_owned()));
        let play = engine([decision, Decision::final_answer("done")]);
        let (result, disk) = recorded(play, "t").await;
        assert_eq!((result.answer(), result.step_count), (Some("done"), 2));
        assert!(result.steps[0].decision.is_none());
        let feedback = &disk
            .events
            .iter()
            .rev()
            .find(|event| event["step_id"] == 0 && event["phase"] == "CHECK_STOP");
        let feedback = &feedback.unwrap()["payload"]["feedback"];
        assert_eq!(feedback, &json!([format!("The last step failed: {why}")]));
    }
}

/// Unlike in QitOS, where the default compares `final_result` and `phase`.
#[tokio::test]
async fn a_change_of_the_agents_own_data_prevents_stagnation() {
    let steps = || (0..6).map(|n| echo(&n.to_string()));
    let rule = || StopSpec::from(crate::stop::Stagnation { steps: 2 });
    let result = engine(steps()).stop(rule()).max_steps(6);
    let result = result.build().unwrap().run("t").await;
    assert_eq!(ending(&result.verdict).0, "budget_steps");
    // QitOS's signature, for an agent that wants it.
    let result = engine(steps())
        .stop(rule())
        .signature(|state| u64::from(state.final_result.is_some()))
        .max_steps(6);
    let result = result.build().unwrap().run("t").await;
    assert_eq!(ending(&result.verdict), ("stagnation", "stop[0]", Some(2)));
}
