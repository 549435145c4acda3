//! Tests resuming from a trace of a run that was killed, reached a limit or was cancelled, and
//! branching.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::stop::{Outcome, Usage};

/// A model that records its requests.
struct Told {
    replies: Scripted,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Told {
    fn new(replies: impl IntoIterator<Item = Reply>) -> (Self, Arc<Mutex<Vec<Request>>>) {
        let asked = Arc::<Mutex<Vec<Request>>>::default();
        (
            Self {
                replies: Scripted::new(replies),
                asked: asked.clone(),
            },
            asked,
        )
    }
}

impl ChatModel for Told {
    fn name(&self) -> &str {
        "told"
    }

    async fn complete(
        &self,
        request: &Request,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Reply, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        ChatModel::complete(&self.replies, request, on_text).await
    }
}

/// Counts its calls, and leaves every decision to the model.
struct Counts;

impl Agent for Counts {
    type Data = Notes;

    fn name(&self) -> &str {
        "counts"
    }

    fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
        state
            .data
            .seen
            .extend(step.results.iter().map(ToolResult::text));
        Ok(())
    }
}

fn call(n: u64) -> Reply {
    let arguments = json!({"text": format!("said {n}")}).to_string();
    Reply::calls([ToolCall::new(format!("c{n}"), "echo", arguments)]).usage(100, 10)
}

fn asking(replies: impl IntoIterator<Item = Reply>) -> (Builder<Counts>, Arc<Mutex<Vec<Request>>>) {
    let (model, asked) = Told::new(replies);
    let builder = Engine::builder(Counts)
        .model(model)
        .tool(Echo)
        .record_process(false);
    (
        builder.clock(Stepping::new(
            1_700_000_000_000_000,
            Duration::from_millis(1),
        )),
        asked,
    )
}

async fn record(builder: Builder<Counts>, root: &Path) -> RunResult<Notes> {
    builder
        .record(RunWriter::create(root, "r").unwrap())
        .build()
        .unwrap()
        .run("Say it.")
        .await
}

/// Leaves what a killed process would: the first lines, an incomplete line, and a manifest with the
/// status running.
fn kill(dir: &Path, steps: usize, events: usize) {
    let cut = |name: &str, lines: usize, torn: &str| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        let kept: String = text.split_inclusive('\n').take(lines).collect();
        std::fs::write(dir.join(name), kept + torn).unwrap();
    };
    cut("steps.jsonl", steps, "{\"step_id\":");
    cut("events.jsonl", events, "");
    let mut manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("manifest.json")).unwrap()).unwrap();
    manifest["status"] = json!("running");
    manifest["stop"] = Value::Null;
    std::fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
}

#[tokio::test]
async fn a_killed_run_goes_on_as_if_it_had_not_been() {
    let root = tempfile::tempdir().unwrap();
    let (builder, whole) = asking([
        call(0),
        call(1),
        call(2),
        Reply::text("done").usage(100, 10),
    ]);
    let straight = record(builder, root.path()).await;
    let dir = root.path().join("r");
    let disk = Disk::read(&dir);
    // Killed in step 2, after the model's reply.
    let of_two =
        |event: &Value| event["step_id"] == 2 && event["payload"]["stage"] == "decision_ready";
    let events = disk.events.iter().position(of_two).unwrap() + 1;
    std::fs::write(dir.join(".reserve"), "x").unwrap();
    kill(&dir, 2, events);

    let earlier = Earlier::open(&dir).unwrap();
    assert_eq!((earlier.steps(), earlier.torn_bytes()), (2, 11));
    assert_eq!(
        earlier.unfinished(),
        Some(super::super::earlier::Unfinished {
            step: 2,
            events: 5,
            tokens: 110
        })
    );
    let (builder, asked) = asking([call(2), Reply::text("done").usage(100, 10)]);
    let result = builder.build().unwrap().resume(earlier).await.unwrap();
    assert_eq!(result.require_answer(), Ok("done"));
    assert_eq!(
        result.state.unwrap().data.seen,
        ["said 0", "said 1", "said 2"]
    );
    // The conversation is the same as before.
    let (asked, whole) = (asked.lock().unwrap(), whole.lock().unwrap());
    assert_eq!(
        asked.iter().map(|r| &r.messages).collect::<Vec<_>>(),
        whole[2..].iter().map(|r| &r.messages).collect::<Vec<_>>()
    );
    // The model was called twice in step 2, and both calls count.
    assert_eq!(
        (result.step_count, result.stats.tokens.total()),
        (4, straight.stats.tokens.total() + 110)
    );
    assert_eq!(result.steps[0].facts.usage, Some(Usage::reported(200, 20)));

    let disk = Disk::read(&dir);
    assert_eq!(
        disk.steps
            .iter()
            .map(|step| step["step_id"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    let inits: Vec<_> = disk
        .events
        .iter()
        .filter(|event| event["phase"] == "INIT")
        .collect();
    assert_eq!((inits.len(), inits[1]["step_id"].as_u64()), (2, Some(2)));
    assert_eq!(
        inits[1]["payload"]["resumed"]["unfinished"],
        json!({"step": 2, "events": 5, "tokens": 110})
    );
    assert_eq!(inits[1]["payload"]["resumed"]["torn_bytes"], 11);
    assert_eq!(disk.manifest["step_count"], 4);
    assert_eq!(disk.manifest["event_count"], disk.events.len());
    assert_eq!(
        (
            &disk.manifest["token_usage"],
            &disk.manifest["resumed_from"]
        ),
        (&json!(550), &Value::Null)
    );
    let resumed: Vec<_> = disk
        .steps
        .iter()
        .map(|step| step["facts"]["resumed"] == true)
        .collect();
    assert_eq!(resumed, [false, false, true, false]);
    assert!(!dir.join(".reserve").exists());
    // Times continue, although the clock restarted.
    let at = |n: usize| disk.steps[n]["facts"]["t_start_ms"].as_u64().unwrap();
    assert!(at(2) >= disk.steps[1]["facts"]["t_end_ms"].as_u64().unwrap() && at(3) > at(2));
}

#[tokio::test]
async fn a_limit_counts_every_part_and_what_ended_before_is_no_end() {
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking((0..9).map(call));
    let first = record(builder.max_steps(2), root.path()).await;
    assert_eq!(ending(&first.verdict).0, "budget_steps");
    let dir = root.path().join("r");
    let resume = async |steps: u64| {
        let (builder, _) = asking((2..9).map(call));
        let engine = builder.max_steps(steps).build().unwrap();
        engine.resume(Earlier::open(&dir).unwrap()).await.unwrap()
    };
    let again = resume(3).await;
    assert_eq!(
        (ending(&again.verdict), again.step_count),
        (("budget_steps", "budget.steps", Some(2)), 3)
    );
    // The state has nothing left from the earlier end.
    let disk = Disk::read(&dir);
    assert_eq!(
        disk.steps[2]["state_diff"]["seen"]["after"],
        json!(["said 0", "said 1", "said 2"])
    );
    // With a limit that is already reached, the run ends immediately.
    let over = resume(2).await;
    assert_eq!(
        (ending(&over.verdict), over.step_count),
        (("budget_steps", "budget.steps", Some(2)), 3)
    );
    let last = resume(5).await;
    assert_eq!((last.step_count, last.verdict.step), (5, Some(4)));
    assert_eq!(last.stats.tokens.total(), 550);
}

#[tokio::test]
async fn what_critics_asked_for_is_still_asked() {
    struct Wants;
    impl Critic<Notes> for Wants {
        fn name(&self) -> &str {
            "wants"
        }
        async fn judge(&self, step: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
            Ok(match step.step {
                0 => Opinion::retry("no").instruction("Say it louder."),
                _ => Opinion::proceed(""),
            })
        }
    }
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking([call(0)]);
    record(builder.critic(Wants).max_steps(1), root.path()).await;
    let (builder, asked) = asking([Reply::text("LOUD")]);
    let earlier = Earlier::open(&root.path().join("r")).unwrap();
    let result = builder
        .critic(Wants)
        .build()
        .unwrap()
        .resume(earlier)
        .await
        .unwrap();
    assert_eq!(
        (result.answer(), result.verdict.outcome),
        (Some("LOUD"), Outcome::Completed)
    );
    let asked = asked.lock().unwrap();
    let users: Vec<_> = asked[0]
        .messages
        .iter()
        .map(|message| (message.role, &*message.content))
        .collect();
    assert_eq!(
        users[2..],
        [(Role::Tool, "said 0"), (Role::User, "Say it louder.")]
    );
}

/// Earlier versions recorded `completed` for an end without an answer.
#[tokio::test]
async fn a_run_without_an_answer_can_be_resumed_whatever_its_outcome() {
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking([call(0)]);
    record(builder.max_steps(1), root.path()).await;
    let dir = root.path().join("r");
    let path = dir.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    manifest["stop"]["code"] = "env_terminal".into();
    manifest["stop"]["outcome"] = "completed".into();
    std::fs::write(&path, manifest.to_string()).unwrap();
    assert_eq!(Earlier::open(&dir).unwrap().steps(), 1);
}

#[tokio::test]
async fn an_unknown_start_stays_unknown() {
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking([call(0)]);
    record(builder.max_steps(1), root.path()).await;
    let dir = root.path().join("r");
    let path = dir.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(manifest["started_at"].is_string());
    manifest["started_at"] = Value::Null;
    std::fs::write(&path, manifest.to_string()).unwrap();
    let (builder, _) = asking([Reply::text("done")]);
    let earlier = Earlier::open(&dir).unwrap();
    builder.build().unwrap().resume(earlier).await.unwrap();
    let disk = Disk::read(&dir);
    assert_eq!(disk.manifest["status"], "completed");
    assert_eq!(disk.manifest["started_at"], Value::Null);
    assert!(disk.manifest["updated_at"].is_string());
}

#[tokio::test]
async fn a_branch_is_a_run_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let (builder, whole) = asking([call(0), call(1), Reply::text("done").usage(100, 10)]);
    record(builder.max_steps(5), root.path()).await;
    let dir = root.path().join("r");
    let before = std::fs::read(dir.join("events.jsonl")).unwrap();
    let error = Earlier::open(&dir).unwrap_err();
    assert!(
        format!("{error:?}").contains("it already has an answer"),
        "{error:?}"
    );
    let into = || RunWriter::create(root.path(), "b").unwrap();
    assert!(Earlier::branch(&dir, 4, into()).is_err());
    let earlier = Earlier::branch(&dir, 1, into()).unwrap();
    assert_eq!((earlier.steps(), earlier.parent()), (1, Some("r")));
    let (builder, asked) = asking([Reply::text("otherwise").usage(100, 10)]);
    let result = builder.build().unwrap().resume(earlier).await.unwrap();
    assert_eq!(
        (result.answer(), result.stats.tokens.total()),
        (Some("otherwise"), 220)
    );
    assert_eq!(
        asked.lock().unwrap()[0].messages,
        whole.lock().unwrap()[1].messages
    );
    let branch = Disk::read(&root.path().join("b"));
    assert_eq!(branch.steps.len(), 2);
    assert_eq!(branch.manifest["parent_run_id"], "r");
    assert_eq!(
        branch.manifest["branched_from"],
        json!({"run_id": "r", "steps": 1})
    );
    assert_eq!(branch.step_lines[0], Disk::read(&dir).step_lines[0]);
    assert_eq!(std::fs::read(dir.join("events.jsonl")).unwrap(), before);
}

#[tokio::test]
async fn a_run_that_is_written_or_not_ours_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking((0..9).map(call));
    record(builder.max_steps(1), root.path()).await;
    let dir = root.path().join("r");
    let held = Earlier::open(&dir).unwrap();
    let refused = Earlier::open(&dir).unwrap_err();
    assert!(
        format!("{refused:?}").contains("another process is writing it"),
        "{refused:?}"
    );
    drop(held);
    // Opening the run without resuming it leaves no files.
    assert!(!dir.join(".reserve").exists());
    drop(Earlier::open(&dir).unwrap());
    let manifest = std::fs::read_to_string(dir.join("manifest.json")).unwrap();
    std::fs::write(
        dir.join("manifest.json"),
        manifest.replace("\"board 0.", "\"qitos 0."),
    )
    .unwrap();
    let refused = Earlier::open(&dir).unwrap_err();
    assert!(format!("{refused:?}").contains("qitos 0."), "{refused:?}");
}

#[tokio::test]
async fn a_state_of_another_agent_is_refused_and_nothing_is_written() {
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking((0..9).map(call));
    record(builder.max_steps(1), root.path()).await;
    let dir = root.path().join("r");
    let before = Disk::read(&dir);
    struct Other;
    #[derive(Debug, Serialize, Deserialize)]
    struct Wants {
        other: u32,
    }
    impl AgentData for Wants {}
    impl Agent for Other {
        type Data = Wants;
        fn name(&self) -> &str {
            "counts"
        }
        fn init_state(&mut self, _: &Task) -> Result<State<Wants>, AgentError> {
            Err(AgentError::new("not asked"))
        }
    }
    let refused = Engine::builder(Other)
        .build()
        .unwrap()
        .resume(Earlier::open(&dir).unwrap())
        .await
        .unwrap_err();
    assert!(
        format!("{refused:?}")
            .contains("its state doesn't fit the agent \"counts\": missing field `other`"),
        "{refused:?}"
    );
    let after = Disk::read(&dir);
    assert_eq!(
        (before.manifest, before.events),
        (after.manifest, after.events)
    );
}

#[tokio::test]
async fn a_run_goes_on_with_the_agent_that_made_it_and_in_its_own_directory() {
    let root = tempfile::tempdir().unwrap();
    let (builder, _) = asking((0..9).map(call));
    record(builder.max_steps(1), root.path()).await;
    let dir = root.path().join("r");
    let before = Disk::read(&dir);
    let open = || Earlier::open(&dir).unwrap();
    let play = || engine([Decision::final_answer("done")]).build().unwrap();
    let refused = play().resume(open()).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with(r#"is a run of the agent "counts", not "play""#),
        "{refused:?}"
    );
    assert!(refused.hints()[1].contains("--from STEP"), "{refused:?}");

    let (builder, _) = asking([Reply::text("done")]);
    let writes = builder
        .record(RunWriter::create(root.path(), "w").unwrap())
        .build()
        .unwrap();
    let refused = writes.resume(open()).await.unwrap_err();
    assert!(
        refused.to_string().contains("but the engine records in"),
        "{refused:?}"
    );
    assert!(
        refused.hints()[0].contains("Builder::record"),
        "{refused:?}"
    );
    let after = Disk::read(&dir);
    assert_eq!(
        (before.manifest, before.events),
        (after.manifest, after.events)
    );

    // A branch is a separate run, and may use another agent.
    let branch = Earlier::branch(&dir, 1, RunWriter::create(root.path(), "b").unwrap()).unwrap();
    assert_eq!(
        play().resume(branch).await.unwrap().require_answer(),
        Ok("done")
    );
}
