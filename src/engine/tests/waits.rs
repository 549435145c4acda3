//! Tests that whoever looks at the trace while something takes its time sees that it has begun.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;

/// Looks at the trace whenever the engine waits for one of its parts.
#[derive(Clone)]
struct Looks {
    run: PathBuf,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Looks {
    fn look(&self, who: &str) {
        let read = |file| std::fs::read_to_string(self.run.join(file)).unwrap();
        let (events, steps) = (read("events.jsonl"), read("steps.jsonl"));
        let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
        let (phase, stage) = (&last["phase"], &last["payload"]["stage"]);
        let lines = (steps.lines().count(), events.lines().count());
        self.seen.lock().unwrap().push(format!(
            "{who}: {} steps, {} events, {}/{}",
            lines.0,
            lines.1,
            phase.as_str().unwrap(),
            stage.as_str().unwrap_or_default(),
        ));
    }
}

impl Agent for Looks {
    type Data = ();
    fn name(&self) -> &str {
        "looks"
    }
    async fn decide(
        &mut self,
        _: &State<()>,
        cx: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        self.look("agent");
        Ok((cx.step > 0).then(|| Decision::final_answer("done")))
    }
}

impl ChatModel for Looks {
    fn name(&self) -> &str {
        "looks"
    }
    async fn complete(
        &self,
        _: &Request,
        _: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Reply, ModelError> {
        self.look("model");
        Ok(Reply::calls([ToolCall::new("", "looks", "{}")]))
    }
}

impl Guard<()> for Looks {
    fn name(&self) -> &str {
        "looks"
    }
    async fn judge(&self, _: GuardCx<'_, ()>) -> Result<Pass, String> {
        self.look("guard");
        Ok(Pass::Ask("may it look?".to_owned()))
    }
}

impl Person for Looks {
    async fn ask(&self, _: Question<'_>) -> Result<Consent, String> {
        self.look("person");
        Ok(Consent::Yes)
    }
}

impl Tool for Looks {
    type Args = NoArgs;
    type Output = ();
    fn name(&self) -> &str {
        "looks"
    }
    fn description(&self) -> &str {
        "Looks."
    }
    async fn call(&self, _: NoArgs, _: ToolCx<'_>) -> Result<(), ToolError> {
        self.look("tool");
        Ok(())
    }
}

impl Env for Looks {
    fn name(&self) -> &str {
        "looks"
    }
    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        self.look("reset");
        Ok(())
    }
    async fn observe(&mut self) -> Result<Value, EnvError> {
        self.look("observe");
        Ok(json!(null))
    }
    async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
        self.look("env");
        Ok(EnvStep::default())
    }
    async fn close(&mut self) -> Result<(), EnvError> {
        self.look("close");
        Ok(())
    }
}

impl Critic<()> for Looks {
    fn name(&self) -> &str {
        "looks"
    }
    async fn judge(&self, _: CriticCx<'_, ()>) -> Result<Opinion, CriticError> {
        self.look("critic");
        Ok(Opinion::proceed("seen"))
    }
}

#[tokio::test]
async fn what_begins_is_in_the_trace_before_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let looks = Looks {
        run: dir.path().join("r"),
        seen: Arc::default(),
    };
    let builder = Engine::builder(looks.clone())
        .model(looks.clone())
        .guard(looks.clone())
        .person(looks.clone())
        .tool(looks.clone())
        .env(looks.clone())
        .critic(looks.clone())
        .record_process(false)
        .record(RunWriter::create(dir.path(), "r").unwrap());
    let result = builder.build().unwrap().run("Look.").await;
    assert_eq!(result.answer(), Some("done"));
    assert_eq!(result.trace_error, None);
    assert_eq!(
        *looks.seen.lock().unwrap(),
        [
            "reset: 0 steps, 1 events, INIT/",
            "observe: 0 steps, 2 events, DECIDE/start",
            "agent: 0 steps, 2 events, DECIDE/start",
            "model: 0 steps, 3 events, DECIDE/model_input",
            "guard: 0 steps, 7 events, ACT/start",
            "person: 0 steps, 7 events, ACT/start",
            "tool: 0 steps, 9 events, GATE/allow",
            "env: 0 steps, 10 events, ACT/action_results",
            "critic: 0 steps, 12 events, REDUCE/state_reduced",
            "observe: 1 steps, 16 events, DECIDE/start",
            "agent: 1 steps, 16 events, DECIDE/start",
            "env: 1 steps, 17 events, DECIDE/decision_ready",
            "critic: 1 steps, 19 events, REDUCE/state_reduced",
            "close: 2 steps, 23 events, END/",
        ]
    );
}

/// A step that fails before it waits for anything else is complete before the next one begins.
#[tokio::test]
async fn a_step_is_complete_before_the_next_one_begins() {
    struct Counts(PathBuf);
    impl Agent for Counts {
        type Data = ();
        fn name(&self) -> &str {
            "counts"
        }
        async fn decide(
            &mut self,
            _: &State<()>,
            cx: &StepCx<'_>,
        ) -> Result<Option<Decision>, AgentError> {
            let disk = |file| std::fs::read_to_string(self.0.join(file)).unwrap();
            assert_eq!(disk("steps.jsonl").lines().count() as u64, cx.step);
            let events = disk("events.jsonl");
            let ends = events.lines().filter(|line| line.contains("CHECK_STOP"));
            assert_eq!(ends.count() as u64, cx.step);
            match cx.step {
                0 => Err(AgentError::new("not yet")),
                1 => Ok(Some(Decision::wait("a moment"))),
                _ => Ok(Some(Decision::final_answer("done"))),
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let builder = Engine::builder(Counts(dir.path().join("r")))
        .record_process(false)
        .record(RunWriter::create(dir.path(), "r").unwrap());
    let result = builder.build().unwrap().run("Count.").await;
    assert_eq!((result.answer(), result.step_count), (Some("done"), 3));
}
