//! Tests what tools can access of their run, what hooks observe, and sub-agents.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::*;

/// Reads all it can of the surrounding run.
struct Looks;

impl Tool for Looks {
    type Args = NoArgs;
    type Output = (u64, Vec<String>, i32, bool, String);

    fn name(&self) -> &str {
        "looks"
    }

    fn description(&self) -> &str {
        "Looks around."
    }

    async fn call(&self, _: NoArgs, cx: ToolCx<'_>) -> Result<Self::Output, ToolError> {
        let world = cx.env::<i32>().ok_or_else(|| ToolError::new("no world"))?;
        let missing = cx.state::<u64>("nothing").unwrap_err();
        Ok((
            cx.state("current_step")?,
            cx.state("seen")?,
            *world,
            cx.cancel().is_now(),
            missing.message,
        ))
    }
}

struct World;

impl Env for World {
    fn name(&self) -> &str {
        "world"
    }
    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        Ok(())
    }
    fn shared(&self) -> Option<std::sync::Arc<dyn std::any::Any + Send + Sync>> {
        Some(Arc::new(42_i32))
    }
    async fn observe(&mut self) -> Result<Value, EnvError> {
        Ok(Value::Null)
    }
    async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
        Ok(EnvStep::default())
    }
}

/// Records what it observes of calls.
struct Hears(Arc<Mutex<Vec<String>>>);

impl Hook<Notes> for Hears {
    fn name(&self) -> &str {
        "hears"
    }
    fn on(&mut self, moment: &Moment<'_, Notes>) -> Result<(), String> {
        let heard = match moment {
            Moment::Call { step, action } => format!("{step} calls {}", action.name),
            Moment::Result {
                step,
                place,
                result,
            } => format!("{step}.{place} gave {}", result.text()),
            _ => return Ok(()),
        };
        self.0.lock().unwrap().push(heard);
        Ok(())
    }
}

#[tokio::test]
async fn tools_reach_the_state_the_environment_and_the_end_and_hooks_hear_calls() {
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let looks = Decision::act([Action::new("looks")]);
    let play = engine([echo("0"), looks, Decision::final_answer("done")])
        .tool(Looks)
        .env(World)
        .hook(Hears(heard.clone()));
    let result = play.build().unwrap().run("?").await;
    let looked = r#"[1,["0"],42,false,"the state has no field \"nothing\""]"#;
    assert_eq!(result.steps[1].results[0].text(), looked);
    let all = [
        "0 calls echo",
        "0.0 gave 0",
        "1 calls looks",
        &format!("1.0 gave {looked}"),
    ];
    assert_eq!(*heard.lock().unwrap(), all);
}

/// Fails at the start.
struct Cannot;

impl Agent for Cannot {
    type Data = ();

    fn name(&self) -> &str {
        "cannot"
    }

    async fn decide(
        &mut self,
        _: &State<()>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        Err(AgentError::fatal("I cannot"))
    }
}

#[tokio::test]
async fn a_part_of_the_work_is_a_run_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let part = || engine([echo("deep"), Decision::final_answer("found it")]);
    let lost = || engine([Decision::wait("")]).max_steps(1);
    let fails = || Engine::builder(Cannot).record_process(false);
    let ask = |who: &str| Action::new(who).arg("task", "look for it");
    let play = engine([
        Decision::act([ask("scout"), ask("scout"), ask("lost"), ask("fails")]),
        Decision::final_answer("done"),
    ]);
    let play = play
        .tool(SubAgent::new("scout", "Looks for it.", part))
        .tool(SubAgent::new("lost", "Never.", lost));
    let play = play.tool(SubAgent::new("fails", "Cannot.", fails));
    let play = play.record(RunWriter::create(root.path(), "whole").unwrap());
    let result = play.build().unwrap().run("?").await;
    let results = &result.steps[0].results;
    assert_eq!(results[0].output["answer"], "found it");
    let ids: Vec<_> = results[..2]
        .iter()
        .map(|result| result.output["run_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["whole.scout-0-0", "whole.scout-0-1"]);
    for id in ids {
        let child = Disk::read(&root.path().join(id));
        assert_eq!(
            (&child.manifest["parent_run_id"], &child.manifest["status"]),
            (&"whole".into(), &"completed".into())
        );
        assert_eq!(child.events[0]["payload"]["task"], "look for it");
    }
    let failed = results[2].text();
    assert!(
        failed.contains("max_steps") || failed.contains("budget_steps"),
        "{failed}"
    );
    assert!(failed.ends_with("; its run is whole.lost-0-0"), "{failed}");
    let told = "the run ended without an answer: step 0 failed (decide): I cannot; its run is whole.fails-0-0";
    assert!(results[3].text().contains(told), "{}", results[3].text());
    assert_eq!(
        Disk::read(&root.path().join("whole")).manifest["parent_run_id"],
        Value::Null
    );
}

#[tokio::test]
async fn many_tasks_run_at_once_and_stay_in_order() {
    let make = |task: &Task| match &*task.objective {
        "7" => Ok(engine([]).tool(Echo)),
        words => Ok(engine([Decision::final_answer(format!("did {words}"))])),
    };
    let results = run_all((0..20).map(|n| Task::new(n.to_string())), 4, make).await;
    for (n, result) in results.iter().enumerate() {
        match result {
            Err(error) => assert!(n == 7 && error.to_string().contains("two tools"), "{error}"),
            Ok(result) => assert_eq!(
                (result.answer(), result.step_count),
                (Some(&*format!("did {n}")), 1)
            ),
        }
    }
}

/// A tool that hands its work to a background task, cancels the run, and never returns.
struct MovesOut(Arc<Notify>);

impl Tool for MovesOut {
    type Args = NoArgs;
    type Output = ();

    fn name(&self) -> &str {
        "moves_out"
    }

    fn description(&self) -> &str {
        "Works elsewhere."
    }

    async fn call(&self, _: NoArgs, cx: ToolCx<'_>) -> Result<(), ToolError> {
        let (cancel, ended) = (cx.cancel(), self.0.clone());
        tokio::spawn(async move {
            cancel.cancelled().await;
            assert!(cancel.is_now());
            ended.notify_one();
        });
        cx.cancel().now();
        std::future::pending().await
    }
}

#[tokio::test]
async fn the_end_of_a_run_reaches_work_elsewhere_and_the_runs_below_it() {
    let root = tempfile::tempdir().unwrap();
    let ended = Arc::new(Notify::new());
    let deep = ended.clone();
    let part =
        move || engine([Decision::act([Action::new("moves_out")])]).tool(MovesOut(deep.clone()));
    let play = engine([Decision::act([Action::new("scout").arg("task", "go")])])
        .tool(SubAgent::new("scout", "", part));
    let play = play.record(RunWriter::create(root.path(), "whole").unwrap());
    let result = play.build().unwrap().run("?").await;
    ended.notified().await;
    assert_eq!(result.verdict.code.as_str(), "cancelled_immediate");
    let child = Disk::read(&root.path().join("whole.scout-0-0")).manifest;
    let known = [&child["stop"]["code"], &child["parent_run_id"]];
    assert_eq!(known, ["cancelled_immediate", "whole"]);
}
