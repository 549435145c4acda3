//! Tests what other engines guarantee and no other test covers. docs/other_engines.md names the test
//! of each guarantee.

use std::sync::{Arc, Mutex};

use serde_json::{Map, json};

use super::*;
use crate::stop::{
    Check, Code, CriterionError, MaxSteps, Origin, Outcome, Reading, Stagnation, StopCriterion,
    StopCx,
};

type Heard = Arc<Mutex<Vec<String>>>;

fn hear(heard: &Heard, text: impl Into<String>) {
    heard.lock().unwrap().push(text.into());
}

#[tokio::test]
async fn a_critic_gets_the_state_after_reduce_and_its_words_are_recorded() {
    let play = engine([echo("one"), Decision::final_answer("done")]).critic_fn("reads", |step| {
        let results: Vec<_> = step.results.iter().map(ToolResult::text).collect();
        assert_eq!(step.state.data.seen, ["one"], "`reduce` has run");
        Ok(
            Opinion::proceed(format!("{} {results:?}", step.decision.mode.as_str()))
                .score(0.5)
                .detail("step", step.step),
        )
    });
    let (result, disk) = recorded(play, "t").await;
    assert_eq!(result.answer(), Some("done"));
    assert_eq!(
        disk.steps[0]["critic_outputs"],
        json!([{
            "critic_name": "reads",
            "action": "continue",
            "reason": "act [\"one\"]",
            "score": 0.5,
            "details": {"step": 0},
        }])
    );
    assert_eq!(disk.steps[1]["critic_outputs"][0]["reason"], "final []");
}

#[tokio::test]
async fn the_state_has_the_stop_reason_of_every_end() {
    let cancelled = Cancel::new();
    cancelled.now();
    let answers = || engine([Decision::final_answer("42")]);
    let waits = || engine([Decision::wait("not yet")]);
    let ends = [
        (answers(), Task::new("t"), "final"),
        (waits().max_steps(1), Task::new("t"), "budget_steps"),
        (waits(), Task::new("t").max_steps(0), "budget_steps"),
        (
            waits().stop(Stagnation { steps: 1 }),
            Task::new("t"),
            "stagnation",
        ),
        (
            answers().critic_fn("strict", |_| Ok(Opinion::stop("no"))),
            Task::new("t"),
            "critic_stop",
        ),
        (
            answers().hook_fn("full", |_| Err("no room".to_owned())),
            Task::new("t"),
            "unrecoverable_error",
        ),
        (answers(), Task::new(" "), "task_validation_failed"),
        (
            answers(),
            Task::new("t").needs("browser"),
            "env_capability_mismatch",
        ),
        (
            answers().cancel(cancelled),
            Task::new("t"),
            "cancelled_immediate",
        ),
    ];
    for (play, task, reason) in ends {
        let (result, disk) = recorded(play, task).await;
        let state = result.state.unwrap();
        assert_eq!(state.stop_reason.as_deref(), Some(reason));
        assert_eq!(result.verdict.stop_reason, reason);
        assert_eq!(disk.manifest["summary"]["stop_reason"], reason);
    }
}

/// Keeps what a rule gets to see after each step, and ends the run after the third.
struct Sees(Heard);

impl StopCriterion<State<Notes>> for Sees {
    fn id(&self) -> &str {
        "sees"
    }

    fn check(&self, cx: &StopCx<'_, State<Notes>>) -> Result<Check, CriterionError> {
        let (stats, facts) = (cx.stats, cx.facts);
        hear(
            &self.0,
            format!(
                "steps {}, tokens {}+{}, errors {}, calls {:?}, seen {:?}, texts {:?}",
                stats.steps,
                stats.tokens.input,
                stats.tokens.output,
                stats.consecutive_errors,
                facts.actions.as_deref().unwrap_or_default(),
                cx.state.data.seen,
                cx.texts,
            ),
        );
        assert_eq!(stats.elapsed_ms, facts.t_end_ms);
        let reading = Reading::text("the third step is over");
        Ok(match stats.steps {
            3 => Check::stop("seen enough", reading),
            _ => Check::pass(),
        })
    }
}

#[tokio::test]
async fn a_rule_in_code_gets_the_counters_the_calls_and_the_texts() {
    struct Keeps;
    impl Agent for Keeps {
        type Data = Notes;
        fn name(&self) -> &str {
            "keeps"
        }
        fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
            let texts = step.results.iter().map(ToolResult::text);
            state.data.seen.extend(texts);
            Ok(())
        }
    }
    let heard = Heard::default();
    let reply = |text: &str, call: &str, args: &str| {
        Reply {
            text: text.to_owned(),
            ..Reply::calls([ToolCall::new("", call, args)])
        }
        .usage(10, 5)
    };
    let replies = [
        reply("first", "echo", r#"{"text": "a"}"#),
        reply("", "nothing", "{}"),
        reply("third", "echo", r#"{"text": "b"}"#),
    ];
    let play = Engine::builder(Keeps)
        .model(Scripted::new(replies))
        .tool(Echo)
        .clock(Stepping::new(0, Duration::from_millis(1)))
        .record_process(false)
        .rules(|rules| rules.policy_with(Sees(heard.clone())));
    let (result, _) = recorded(play, "t").await;
    let unknown = "error: unknown tool \\\"nothing\\\"; known tools: echo";
    assert_eq!(
        *heard.lock().unwrap(),
        [
            r#"steps 1, tokens 10+5, errors 0, calls ["echo"], seen ["a"], texts ["first"]"#
                .to_owned(),
            format!(
                r#"steps 2, tokens 20+10, errors 1, calls ["nothing"], seen ["a", "{unknown}"], texts ["first"]"#
            ),
            format!(
                r#"steps 3, tokens 30+15, errors 0, calls ["echo"], seen ["a", "{unknown}", "b"], texts ["first", "third"]"#
            ),
        ]
    );
    assert_eq!(ending(&result.verdict), ("seen enough", "sees", Some(2)));
    assert_eq!(result.verdict.reading.detail, "the third step is over");
    assert_eq!(result.verdict.outcome, Outcome::Halted);
}

#[tokio::test]
async fn a_rule_may_stop_under_any_code() {
    struct Under(&'static str);
    impl StopCriterion<State<Notes>> for Under {
        fn id(&self) -> &str {
            "under"
        }
        fn check(&self, _: &StopCx<'_, State<Notes>>) -> Result<Check, CriterionError> {
            Ok(Check::stop(self.0, Reading::text("enough")))
        }
    }
    for (code, reason, outcome) in [
        ("success", "agent_condition", Outcome::Halted),
        ("final", "agent_condition", Outcome::Halted),
        ("stagnation", "stagnation", Outcome::Halted),
        ("budget_time", "budget_time", Outcome::Truncated),
        ("my own", "agent_condition", Outcome::Halted),
    ] {
        let play = engine([echo("1")]).rules(|rules| rules.policy_with(Under(code)));
        let (result, _) = recorded(play, "t").await;
        let verdict = &result.verdict;
        assert_eq!(ending(verdict), (code, "under", Some(0)));
        assert_eq!((&*verdict.stop_reason, verdict.outcome), (reason, outcome));
        assert_eq!(result.answer(), None);
    }
}

#[tokio::test]
async fn a_rule_leaves_the_default_completion() {
    let play = engine([echo("1"), Decision::final_answer("42")]).stop(MaxSteps { steps: 5 });
    let (result, _) = recorded(play, "t").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
}

#[tokio::test]
async fn each_limit_of_a_task_ends_the_run_under_its_name() {
    let replies = || {
        let reply = |n: u32| {
            let args = format!(r#"{{"text": "{n}"}}"#);
            Reply::calls([ToolCall::new("", "echo", args)]).usage(10, 5)
        };
        (0..9).map(reply)
    };
    let task = || Task::new("t");
    for (task, reason, steps) in [
        (task().max_steps(3), "budget_steps", 3),
        (task().max_tokens(30), "budget_tokens", 2),
        (
            task().max_runtime(Duration::from_millis(1)),
            "budget_time",
            1,
        ),
    ] {
        let play = Engine::builder(Asks)
            .model(Scripted::new(replies()))
            .tool(Echo)
            .clock(Stepping::new(0, Duration::from_millis(1)))
            .record_process(false)
            .max_steps(9)
            .max_tokens(1_000)
            .max_runtime(Duration::from_secs(60));
        let (result, _) = recorded(play, task).await;
        assert_eq!(result.verdict.code.as_str(), reason);
        assert_eq!(result.verdict.limit_from, Some(Origin::Task), "{reason}");
        assert_eq!(result.step_count, steps, "{reason}");
    }
}

/// Records the calls of the engine. Ends its episode after two steps.
struct Episode {
    heard: Heard,
    fails: bool,
}

impl Env for Episode {
    fn name(&self) -> &str {
        "episode"
    }
    fn capabilities(&self) -> Vec<String> {
        vec!["files".to_owned()]
    }
    async fn reset(&mut self, task: &Task) -> Result<(), EnvError> {
        hear(&self.heard, format!("reset for {}", task.objective));
        Ok(())
    }
    async fn observe(&mut self) -> Result<Value, EnvError> {
        hear(&self.heard, "observe");
        Ok(json!("all quiet"))
    }
    async fn step(&mut self, _: &Decision, results: &[ToolResult]) -> Result<EnvStep, EnvError> {
        hear(&self.heard, format!("step after {}", results[0].text()));
        if self.fails {
            return Err(EnvError::new("the door is stuck"));
        }
        Ok(EnvStep::default())
    }
    fn is_terminal(&self, _: &EnvStep) -> bool {
        hear(&self.heard, "is_terminal");
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|call| call.starts_with("step")).count() == 2
    }
    async fn close(&mut self) -> Result<(), EnvError> {
        hear(&self.heard, "close");
        Ok(())
    }
}

#[tokio::test]
async fn the_engine_resets_observes_steps_and_closes_the_environment() {
    let run = async |fails| {
        let heard = Heard::default();
        let env = Episode {
            heard: heard.clone(),
            fails,
        };
        let play = engine([echo("1"), echo("2"), echo("3")]).env(env);
        let (result, disk) = recorded(play, Task::new("the task").needs("files")).await;
        let heard = heard.lock().unwrap().clone();
        (heard, result.verdict.code.as_str().to_owned(), disk)
    };
    let (heard, code, disk) = run(false).await;
    assert_eq!(
        heard,
        [
            "reset for the task",
            "observe",
            "step after 1",
            "is_terminal",
            "observe",
            "step after 2",
            "is_terminal",
            "close"
        ]
    );
    assert_eq!(code, "env_terminal");
    assert_eq!(disk.steps[0]["observation"], "all quiet");
    let (heard, code, _) = run(true).await;
    assert_eq!(heard[2..], ["step after 1", "close"]);
    assert_eq!(code, "env_failed");
}

#[tokio::test]
async fn hooks_observe_every_moment_also_of_a_failed_step() {
    let heard = Heard::default();
    let notes = heard.clone();
    let play = engine([echo("1"), Decision::act([]), Decision::final_answer("42")]).hook_fn(
        "notes",
        move |moment| {
            let text = match moment {
                Moment::RunStart { task, .. } => format!("start {}", task.objective),
                Moment::BeforeStep { step, .. } => format!("before {step}"),
                Moment::Call { step, action } => format!("{step} calls {}", action.name),
                Moment::Result { result, .. } => result.text(),
                Moment::AfterStep { record, .. } => format!("after {}", record.step),
                Moment::RunEnd { verdict } => verdict.stop_reason.clone(),
                _ => return Ok(()),
            };
            hear(&notes, text);
            Ok(())
        },
    );
    let (result, _) = recorded(play, "t").await;
    assert!(result.steps[1].facts.error.is_some());
    assert_eq!(
        *heard.lock().unwrap(),
        [
            "start t",
            "before 0",
            "0 calls echo",
            "1",
            "after 0",
            "before 1",
            "after 1",
            "before 2",
            "after 2",
            "final"
        ]
    );
}

#[tokio::test]
async fn every_piece_of_a_reply_can_be_printed() {
    let printed = Heard::default();
    let out = printed.clone();
    let play = Engine::builder(Asks)
        .model(Scripted::new([Reply::text("Four.")]))
        .on_text(move |text| hear(&out, text))
        .record_process(false);
    let (result, _) = recorded(play, "2 + 2?").await;
    assert_eq!(result.answer(), Some("Four."));
    assert_eq!(*printed.lock().unwrap(), ["Four."]);
}

/// Takes its state from the task, and asks with a prompt of its own.
struct Reads;

impl Agent for Reads {
    type Data = Map<String, Value>;

    fn name(&self) -> &str {
        "reads"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Self::Data>, AgentError> {
        Ok(State::new(&*task.objective, task.inputs.clone()))
    }

    fn prepare(
        &mut self,
        state: &State<Self::Data>,
        cx: &StepCx<'_>,
    ) -> Result<Prompt, AgentError> {
        let network = &cx.task.constraints["network"];
        let mut prompt = Prompt::new(state, cx).system(format!("network: {network}"));
        prompt.user = Some(format!("Look at {}.", state.data["file"]));
        Ok(prompt)
    }
}

#[tokio::test]
async fn the_task_reaches_the_state_the_agent_and_the_prompt() {
    let play = Engine::builder(Reads)
        .model(Scripted::new([Reply::text("Seen.")]))
        .record_process(false);
    let task = Task::new("Look.")
        .input("file", "a.txt")
        .constraint("network", false);
    let (result, disk) = recorded(play, task).await;
    assert_eq!(result.state.unwrap().data["file"], "a.txt");
    let input = disk
        .events
        .iter()
        .find(|event| event["payload"]["stage"] == "model_input")
        .unwrap();
    let messages = input["payload"]["messages"].as_array().unwrap();
    let told: Vec<_> = messages
        .iter()
        .map(|message| (&message["role"], &message["content"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("system"), &json!("network: false")),
            (&json!("user"), &json!("Look at \"a.txt\"."))
        ]
    );
}

#[tokio::test]
async fn every_field_of_a_task_is_in_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "a").unwrap();
    struct Host;
    impl Env for Host {
        fn name(&self) -> &str {
            "host"
        }
        async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
            Ok(())
        }
        async fn observe(&mut self) -> Result<Value, EnvError> {
            Ok(Value::Null)
        }
        async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
            Ok(EnvStep::default())
        }
    }
    let task = Task::new("t")
        .id("task-7")
        .resource(Resource::at(ResourceKind::File, "a.txt").required())
        .env("host", Map::new())
        .constraint("network", false)
        .success("the tests pass")
        .max_steps(3)
        .input("file", "a.txt")
        .metadata("ticket", 7);
    let play = engine([Decision::final_answer("done")])
        .env(Host)
        .workspace(dir.path());
    let (result, disk) = recorded(play, task).await;
    assert_eq!(result.verdict.code, Code::Final);
    assert_eq!(result.task.task_id, "task-7");
    assert_eq!(
        disk.manifest["summary"]["task_meta"],
        json!({
            "task_id": "task-7",
            "resources": [{"kind": "file", "path": "a.txt", "required": true}],
            "env_spec": {"type": "host", "capabilities": []},
            "constraints": {"network": false},
            "success_criteria": ["the tests pass"],
            "budget": {"max_steps": 3, "max_runtime_seconds": null, "max_tokens": null},
            "inputs": {"file": "a.txt"},
            "metadata": {"ticket": 7},
        })
    );
}

#[test]
fn a_required_path_of_any_kind_must_exist() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    let issues = |kind, path: &str| {
        let resource = Resource::at(kind, path);
        let optional = Task::new("t").resource(resource.clone());
        assert!(optional.issues(Some(dir.path())).is_empty());
        let required = Task::new("t").resource(resource.required());
        let issues = required.issues(Some(dir.path())).into_iter();
        issues.map(|issue| issue.code).collect::<Vec<_>>()
    };
    use ResourceKind::{Artifact, Dir, File};
    for (kind, path) in [
        (File, "file"),
        (Dir, "dir"),
        (Artifact, "file"),
        (Artifact, "dir"),
    ] {
        assert!(issues(kind, path).is_empty(), "{kind:?} {path}");
    }
    for (kind, path) in [(File, "dir"), (Dir, "file"), (File, "no"), (Artifact, "no")] {
        assert_eq!(
            issues(kind, path),
            ["TASK_RESOURCE_MISSING"],
            "{kind:?} {path}"
        );
    }
}

#[tokio::test]
async fn every_field_of_the_state_is_recorded_as_it_changes() {
    struct Sets;
    impl Agent for Sets {
        type Data = Notes;
        fn name(&self) -> &str {
            "sets"
        }
        async fn decide(
            &mut self,
            _: &State<Notes>,
            _: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            Ok(Some(Decision::wait("a moment")))
        }
        fn reduce(&mut self, state: &mut State<Notes>, _: &Done<'_>) -> Result<(), AgentError> {
            state.metadata.insert("phase".to_owned(), json!("plan"));
            state.metrics.insert("score".to_owned(), json!(0.5));
            state.data.seen.push("one".to_owned());
            state.final_result = Some("42".to_owned());
            Ok(())
        }
    }
    let (_, disk) = recorded(Engine::builder(Sets).record_process(false), "t").await;
    let diff = &disk.steps[0]["state_diff"];
    for (field, before, after) in [
        ("metadata", json!({}), json!({"phase": "plan"})),
        ("metrics", json!({}), json!({"score": 0.5})),
        ("seen", json!([]), json!(["one"])),
        ("final_result", json!(null), json!("42")),
        ("current_step", json!(0), json!(1)),
    ] {
        assert_eq!(diff[field], json!({"before": before, "after": after}));
    }
    let init = &disk.events[0]["payload"]["state"];
    assert_eq!(init["schema_version"], 1);
}

#[tokio::test]
async fn each_kind_of_decision_is_recorded_with_its_reason() {
    let branch = Decision::branch([
        echo("left"),
        Decision::act([Action::new("echo").arg("text", "right")]),
    ]);
    let play = engine([
        echo("one").because("to begin"),
        Decision::wait("a moment"),
        branch.because("two ways"),
        Decision::final_answer("42").because("it is known"),
    ]);
    let (result, disk) = recorded(play, "t").await;
    assert_eq!(result.answer(), Some("42"));
    let recorded: Vec<_> = disk
        .steps
        .iter()
        .map(|step| (&step["decision"]["mode"], &step["decision"]["rationale"]))
        .collect();
    assert_eq!(recorded[0], (&json!("act"), &json!("to begin")));
    assert_eq!(recorded[1], (&json!("wait"), &json!("a moment")));
    assert_eq!(recorded[3], (&json!("final"), &json!("it is known")));
    assert_eq!(
        disk.steps[0]["actions"],
        json!([{"name": "echo", "args": {"text": "one"}}])
    );
    // The chosen candidate is carried out.
    assert_eq!(disk.steps[2]["decision"]["mode"], "act");
    assert_eq!(disk.steps[2]["action_results"][0]["output"], "left");
}
