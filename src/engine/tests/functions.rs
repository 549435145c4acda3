//! Tests tools, critics, guards and hooks that are made from functions, and agents without an
//! `init_state`.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::stop::Outcome;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// The numbers to add up.
    numbers: Vec<i64>,
}

async fn add(sum: Sum) -> Result<i64, ToolError> {
    Ok(sum.numbers.iter().sum())
}

fn act(tool: &str, numbers: Value) -> Decision {
    Decision::act([Action::new(tool).arg("numbers", numbers)])
}

#[tokio::test]
async fn a_function_is_a_tool_with_its_arguments_schema() {
    let builder = engine([act("add", json!([19, 23])), Decision::final_answer("done")]);
    let result = builder.tool_fn("add", "Adds numbers.", add);
    let result = result.build().unwrap().run("Add.").await;
    assert_eq!(result.steps[0].results[0].output, json!(42));
    let schema = Tool::schema(&FnTool::new("add", "Adds numbers.", add));
    assert_eq!(
        schema["properties"]["numbers"]["description"],
        "The numbers to add up."
    );
    assert_eq!(schema["required"], json!(["numbers"]));
}

#[tokio::test]
async fn a_functions_error_is_the_calls_result() {
    let decisions = [
        act("read", json!([1])),
        act("add", json!("many")),
        act("blocks", json!([1])),
        act("blocks", json!([2])),
        act("blocks", json!([3])),
        Decision::final_answer("done"),
    ];
    let blocks = FnTool::blocking("blocks", "Does all of it.", |sum: Sum| {
        match sum.numbers.first() {
            Some(1) => Ok(std::thread::current().name() == Some("main")),
            Some(2) => Err(ToolError::new("no twos").category("refused")),
            _ => panic!("three"),
        }
    });
    let builder = engine(decisions)
        .tool_fn("add", "Adds numbers.", add)
        .tool_fn("read", "Reads a file.", async |_: Sum| {
            Ok(std::fs::read_to_string("there/is/no/such/file")?)
        })
        .tool(blocks);
    let (result, _) = recorded(builder, "Fail.").await;
    let of = |step: usize| {
        let call = &result.steps[step].results[0];
        let error = call
            .error
            .as_ref()
            .map(|error| (error.category, &*error.message));
        (call.status, error)
    };
    let (status, error) = of(0);
    assert_eq!(status, Status::Error);
    assert!(error.unwrap().1.starts_with("No such file"), "{error:?}");
    let (status, error) = of(1);
    assert_eq!(
        (status, error.unwrap().0),
        (Status::Error, "invalid_arguments")
    );
    assert_eq!(of(2), (Status::Success, None));
    assert_eq!(of(3), (Status::Error, Some(("refused", "no twos"))));
    assert_eq!(of(4), (Status::Error, Some(("panic", "panicked: three"))));
    assert_eq!(result.verdict.outcome, Outcome::Completed);
}

#[tokio::test]
async fn a_function_may_take_no_arguments_and_use_values_from_outside() {
    let shelf = Arc::new(vec!["a", "b"]);
    let count = move |()| {
        let shelf = Arc::clone(&shelf);
        async move { Ok(shelf.len()) }
    };
    let builder = engine([
        Decision::act([Action::new("count")]),
        Decision::final_answer("done"),
    ]);
    let result = builder
        .tool_fn("count", "Counts.", count)
        .build()
        .unwrap()
        .run("Count.")
        .await;
    assert_eq!(result.steps[0].results[0].output, json!(2));
}

#[tokio::test]
async fn limits_and_parallel_calls_of_a_function_are_those_that_were_set() {
    let limits = ToolLimits {
        timeout: Some(Duration::from_millis(1)),
        ..ToolLimits::default()
    };
    let slow = FnTool::new("slow", "Never ends.", async |(): ()| {
        std::future::pending::<()>().await;
        Ok(())
    });
    assert!(!Tool::is_parallel(&slow));
    let slow = slow.limits(limits).parallel();
    assert!(Tool::is_parallel(&slow));
    let builder = engine([
        Decision::act([Action::new("slow")]),
        Decision::final_answer("done"),
    ]);
    let result = builder.tool(slow).build().unwrap().run("Wait.").await;
    assert_eq!(result.steps[0].results[0].status, Status::TimedOut);
}

#[tokio::test]
async fn closures_judge_guard_and_observe() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&heard);
    let builder = engine([
        echo("secret"),
        Decision::final_answer("maybe"),
        Decision::final_answer("42"),
    ])
    .guard_fn("discreet", |call| {
        let is_secret = call.args.values().any(|arg| arg == "secret");
        Ok(match is_secret {
            true => Pass::Deny("it is a secret".to_owned()),
            false => Pass::Allow,
        })
    })
    .critic_fn("numbers", |step| {
        Ok(match step.answer() {
            Some(answer) if !answer.contains(char::is_numeric) => Opinion::retry("no number"),
            _ => Opinion::proceed("").score(step.state.data.seen.len() as f64),
        })
    })
    .hook_fn("notes", move |moment| {
        if let Moment::Result { result, .. } = moment {
            notes.lock().unwrap().push(result.text());
        }
        Ok(())
    });
    let (result, disk) = recorded(builder, "Answer.").await;
    assert_eq!(result.answer(), Some("42"));
    assert_eq!(
        *heard.lock().unwrap(),
        ["error: not allowed: it is a secret"]
    );
    let critics = |step: usize| &disk.steps[step]["critic_outputs"][0];
    assert_eq!(critics(0)["score"], 1.0, "{}", critics(0));
    assert_eq!(
        (&critics(1)["critic_name"], &critics(1)["action"]),
        (&json!("numbers"), &json!("retry"))
    );
}

#[tokio::test]
async fn a_failing_closure_ends_the_run_like_any_other_part() {
    let failing = || {
        engine([Decision::final_answer("42")])
            .critic_fn("strict", |_| Err(CriticError::new("no scale")))
            .build()
            .unwrap()
    };
    let result = failing().run("Answer.").await;
    assert_eq!(result.verdict.code.as_str(), "criterion_error");
    let hooked = engine([Decision::final_answer("42")])
        .hook_fn("full", |_| Err("no room".to_owned()))
        .build()
        .unwrap()
        .run("Answer.")
        .await;
    assert_eq!(hooked.verdict.code.as_str(), "hook_failed");
    assert_eq!(
        hooked.verdict.reading.detail,
        "the hook full failed: no room"
    );
}

/// Has no default.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Direction {
    North { steps: u32 },
}
impl AgentData for Direction {}

struct Walker {
    starts: bool,
}

impl Agent for Walker {
    type Data = Direction;

    fn name(&self) -> &str {
        "walker"
    }

    fn init_state(&mut self, task: &Task) -> Result<State<Direction>, AgentError> {
        match self.starts {
            true => Ok(State::new(&*task.objective, Direction::North { steps: 3 })),
            false => Lost.init_state(task),
        }
    }
}

struct Lost;

impl Agent for Lost {
    type Data = Direction;

    fn name(&self) -> &str {
        "lost"
    }
}

#[tokio::test]
async fn data_without_a_default_needs_an_initial_state() {
    let model = || Scripted::new([Reply::text("There.")]);
    let run = async |starts| {
        let builder = Engine::builder(Walker { starts }).model(model());
        builder.build().unwrap().run("Walk.").await
    };
    let there = run(true).await;
    assert_eq!(there.state.unwrap().data, Direction::North { steps: 3 });
    let lost = run(false).await;
    assert_eq!(lost.verdict.code.as_str(), "agent_failed");
    let detail = &lost.verdict.reading.detail;
    assert!(
        detail.ends_with("Direction has no default, so the agent must implement init_state"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_rule_may_be_text_and_a_wrong_one_fails_the_build() {
    let play = || engine([echo("1"), echo("1"), echo("1")]);
    let result = play().stop("stop_on_tool=echo").build().unwrap();
    let result = result.run("?").await;
    assert_eq!(result.verdict.code.as_str(), "stop_on_tool");
    let wrong = play().stop("max_steps=many").stop("no_such_rule=1").build();
    let wrong = format!("{:#}", wrong.unwrap_err());
    assert!(wrong.starts_with("invalid stop rule: "), "{wrong}");
    assert!(wrong.contains("many"), "the first one is named: {wrong}");
}

#[tokio::test]
async fn runs_of_one_agent_get_separate_directories() {
    let root = tempfile::tempdir().unwrap();
    let run = async || {
        let play = engine([Decision::final_answer("42")]).record_in(root.path().join("runs"));
        play.build().unwrap().run("?").await.trace.unwrap()
    };
    let (one, two) = (run().await, run().await);
    assert_ne!(one, two);
    for dir in [one, two] {
        assert!(dir.join("manifest.json").exists(), "{}", dir.display());
        let name = dir.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("play-"), "{name}");
    }
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = engine([]).record_in(&file).build().unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("can't create the run directory"),
        "{refused}"
    );
}
