//! Tests ATIF trajectories, alone and in directories of Harbor trials.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Read, damaged, read, sample};
use trace_board::analysis::scores::Scores;
use trace_board::model::{IssueKind, RunKey, RunScore};
use trace_board::trace::RootScanner;

fn trajectory(name: &str) -> Read {
    read(&sample(&format!("tools/atif/{name}.trajectory.json")))
}

fn trial(name: &str) -> Read {
    read(&sample(&format!("tools/harbor/nightly/{name}")))
}

#[test]
fn only_what_the_agent_did_itself_is_a_step() {
    let run = trajectory("helper");
    let row = &run.row;
    // Of six steps, one is the system's, one the user's and one copied, which is reported. The
    // remaining events are the agent, its helper and the totals.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 9, (1, 0))
    );
    assert_eq!((row.tokens, row.cost_usd), (Some(3_595), Some(0.0095)));
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        (manifest.children, manifest.usage.cached),
        (Some(1), Some(1_900))
    );
    assert_eq!(
        (manifest.run_id.as_deref(), manifest.tool.as_deref()),
        (Some("t-1"), Some("example-agent 0.3.1"))
    );
    assert!(
        row.task
            .as_deref()
            .is_some_and(|task| task.starts_with("shares(100, 3)"))
    );
    let step = run.step(0);
    assert_eq!(step["action_results"][0]["status"], "not recorded");
    assert_eq!(step["action_results"][1]["error"], "1 failed");
    assert_eq!(
        step["decision"]["rationale"],
        "The rest has to go somewhere."
    );
    assert_eq!(run.step(1)["context"]["reasoning_tokens"], 12);
    assert_eq!(
        run.step(1)["model_response"]["text"],
        "A helper shall look for other places."
    );
    let said = "No end recorded after step 2";
    assert_eq!(
        (
            row.verdict.sentence.as_str(),
            row.verdict.certainty.as_str()
        ),
        (said, "unknown")
    );
}

#[test]
fn trajectories_that_go_on_or_are_started_name_each_other() {
    let temp = tempfile::tempdir().expect("a directory");
    let named = |session: &str, extra: Value, goes_on: Option<&str>| {
        let path = temp.path().join("trajectory.json");
        let step = json!({"step_id": 1, "source": "agent", "message": "Done."});
        let totals = json!({
            "total_prompt_tokens": 100, "total_completion_tokens": 20, "total_cached_tokens": 60, "total_cost_usd": 0.5,
        });
        let document = json!({
            "schema_version": "ATIF-v1.5", "session_id": session, "agent": {"name": "a", "version": "1", "extra": extra},
            "steps": [step], "final_metrics": totals, "continued_trajectory_ref": goes_on,
        });
        fs::write(&path, document.to_string()).expect("written");
        let run = read(&path);
        let manifest = run.index.manifest().get().cloned().expect("a manifest");
        assert_eq!(
            (manifest.tokens, manifest.usage.cached, manifest.cost_usd),
            (Some(120), Some(60), Some(0.5))
        );
        (
            manifest.run_id.map(String::from),
            manifest.parent.map(String::from),
            manifest.children,
        )
    };
    let some = |text: &str| Some(text.to_owned());
    let (none, index) = (json!({}), |n: u64| json!({"continuation_index": n}));
    assert_eq!(
        named("s", none.clone(), Some("trajectory.cont-1.json")),
        (some("s"), None, Some(0)),
        "no child"
    );
    assert_eq!(
        named("s", index(1), None),
        (some("s-cont-1"), some("s"), Some(0)),
        "the session's id is shared"
    );
    assert_eq!(
        named("s-cont-2", index(2), None),
        (some("s-cont-2"), some("s-cont-1"), Some(0))
    );
    assert_eq!(
        named("s-summary", json!({"parent_session_id": "s"}), None),
        (some("s-summary"), some("s"), Some(0))
    );
}

#[test]
fn gaps_and_totals_that_differ_are_issues() {
    let run = trajectory("odd");
    let issues: Vec<(IssueKind, &str)> = run
        .index
        .issues()
        .listed()
        .iter()
        .map(|issue| (issue.kind, issue.reason.as_str()))
        .collect();
    let gap = (IssueKind::Gap, "step_id 5 follows 3");
    let count = (
        IssueKind::Count,
        "final_metrics records 999 prompt tokens, but the steps add up to 220",
    );
    assert_eq!(issues, [gap, count]);
    assert_eq!(
        run.step(0)["decision"]["mode"],
        "thought",
        "a reply with results isn't an answer"
    );
    assert_eq!(run.step(1)["decision"]["mode"], "final");
}

#[test]
fn a_trial_ends_as_its_result_says() {
    let solved = trial("ledger__solved");
    assert_eq!(
        solved.row.verdict.sentence,
        "The agent finished at step 1 · reward 1"
    );
    assert_eq!(
        (solved.row.steps, solved.row.tokens, solved.row.cost_usd),
        (2, Some(2_060), Some(0.007))
    );
    assert_eq!(
        (solved.row.run_id.as_deref(), solved.row.issues.0),
        (Some("ledger__solved"), 0)
    );
    assert_eq!(solved.step(0)["actions"][0]["name"], "read_file");
    let timeout = trial("ledger__timeout");
    assert_eq!(timeout.row.verdict.mark.word(), "limit");
    assert_eq!(
        timeout.row.verdict.sentence,
        "Agent time limit reached after step 1: 30.5 s, limit 30.0 s · reward 0"
    );
    let none = trial("ledger__no_sandbox");
    assert_eq!((none.row.steps, none.row.verdict.mark.word()), (0, "error"));
    assert!(
        none.row.verdict.sentence.starts_with("The sandbox failed"),
        "{}",
        none.row.verdict.sentence
    );
    assert!(
        trial("ledger__running")
            .index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.ended.is_none())
    );
}

#[test]
fn a_trial_is_one_run_by_the_name_of_its_directory() {
    let found = RootScanner::new(sample("tools/harbor")).scan();
    let keys: Vec<&str> = found.runs.keys().map(RunKey::as_str).collect();
    let names = ["no_sandbox", "running", "solved", "timeout"]
        .map(|name| format!("nightly/ledger__{name}"));
    assert_eq!(keys, names);
}

/// Copies the solved trial with a changed result.
fn with_result(dir: &Path, change: impl Fn(&mut Value)) -> PathBuf {
    let sample = sample("tools/harbor/nightly/ledger__solved");
    let to = dir.join("nightly/ledger__solved");
    fs::create_dir_all(to.join("agent")).expect("a directory");
    for name in ["config.json", "agent/trajectory.json"] {
        fs::copy(sample.join(name), to.join(name)).expect("copied");
    }
    let mut result =
        serde_json::from_slice(&fs::read(sample.join("result.json")).expect("read")).expect("JSON");
    change(&mut result);
    fs::write(to.join("result.json"), result.to_string()).expect("written");
    to
}

#[test]
fn rewards_are_scores_of_the_run() {
    let temp = tempfile::tempdir().expect("a directory");
    let run = read(&with_result(temp.path(), |result| {
        result["verifier_result"]["rewards"] = json!({"all": "none", "style": 0.75, "tests": 0.5});
    }));
    assert_eq!(
        (run.row.last_score, run.row.critics.as_slice()),
        (Some(0.5), &["style".to_owned(), "tests".to_owned()][..])
    );
    let scores = Scores::of(&run.index);
    assert_eq!(
        (scores.lanes.len(), scores.of_run),
        (
            0,
            vec![
                RunScore::number("style", 0.75),
                RunScore::number("tests", 0.5)
            ]
        )
    );
    let board = crate::board::Board::serve(temp.path());
    board.until_read();
    let page = board.get("/runs/nightly%2Fledger__solved/scores");
    assert!(page.text().contains("0.75") && page.text().contains("tests"));
    let csv = board.get("/runs/nightly%2Fledger__solved/scores.csv");
    assert!(csv.text().contains("0.75"), "{}", csv.text());
    // Older results have a single number.
    let old = read(&with_result(temp.path(), |result| {
        result["verifier_result"] = json!({"reward": 1})
    }));
    assert_eq!(
        (old.row.last_score, old.row.verdict.sentence.as_str()),
        (Some(1.0), "The agent finished at step 1 · reward 1")
    );
}

#[test]
fn a_trial_whose_times_contradict_each_other_ended_all_the_same() {
    let temp = tempfile::tempdir().expect("a directory");
    let run = read(&with_result(temp.path(), |result| {
        result["finished_at"] = json!("2026-11-20T09:00:00Z")
    }));
    assert_eq!(
        (run.row.life.liveness.word(), run.row.verdict.mark.word()),
        ("finished", "answered")
    );
    let reasons: Vec<_> = run
        .index
        .issues()
        .listed()
        .iter()
        .map(|issue| issue.reason.as_str())
        .collect();
    assert_eq!(reasons, ["the trial's recorded finish is before its start"]);
    // The container's clock is ahead.
    let run = read(&with_result(temp.path(), |result| {
        result["finished_at"] = json!("2026-11-20T10:00:01Z")
    }));
    assert_eq!(
        (run.row.life.liveness.word(), run.row.issues.0),
        ("finished", 0)
    );
}

#[test]
fn a_trial_of_several_steps_has_a_run_for_each() {
    let temp = tempfile::tempdir().expect("a directory");
    let trial = with_result(temp.path(), |result| {
        result["verifier_result"] = Value::Null;
        let step = |name: &str, reward: f64| json!({"step_name": name, "verifier_result": {"rewards": {"reward": reward}}});
        result["step_results"] = json!([step("plan", 1.0), step("build", 0.25)]);
    });
    for name in ["plan", "build"] {
        let dir = trial.join("steps").join(name);
        fs::create_dir_all(dir.join("agent/sessions")).expect("a directory");
        fs::create_dir_all(dir.join("artifacts")).expect("a directory");
        for place in ["agent", "agent/sessions", "artifacts"] {
            fs::copy(
                trial.join("agent/trajectory.json"),
                dir.join(place).join("trajectory.json"),
            )
            .expect("copied");
        }
    }
    let found = RootScanner::new(temp.path().to_owned()).scan();
    let keys: Vec<&str> = found.runs.keys().map(RunKey::as_str).collect();
    let steps = ["build", "plan"]
        .map(|name| format!("nightly/ledger__solved/steps/{name}/agent/trajectory.json"));
    assert_eq!(
        keys,
        ["nightly/ledger__solved", &steps[0], &steps[1]],
        "each once, and nothing else from the trial"
    );
    let run = read(&trial);
    assert_eq!(run.row.critics, ["plan: reward", "build: reward"]);
    assert_eq!(
        run.index
            .manifest()
            .get()
            .and_then(|manifest| manifest.children),
        Some(2)
    );
    let step = read(&trial.join("steps/plan/agent/trajectory.json"));
    assert_eq!(step.row.parent.as_deref(), Some("ledger__solved"));
}

#[test]
fn of_files_that_share_a_session_the_nearest_is_the_parent() {
    let temp = tempfile::tempdir().expect("a directory");
    let write = |name: &str, extra: Value, goes_on: Option<&str>, refs: &[&str]| {
        let refs: Vec<Value> = refs
            .iter()
            .map(|path| json!({"session_id": path, "trajectory_path": path}))
            .collect();
        let step = json!({
            "step_id": 1, "source": "agent", "message": "Done.",
            "observation": {"results": [{"content": "x", "subagent_trajectory_ref": refs}]},
        });
        let document = json!({
            "schema_version": "ATIF-v1.5", "session_id": if extra["parent_session_id"].is_string() { name } else { "one" },
            "agent": {"name": "a", "version": "1", "extra": extra}, "steps": [step], "continued_trajectory_ref": goes_on,
        });
        fs::write(temp.path().join(name), document.to_string()).expect("written");
    };
    write("a.json", json!({}), None, &["a.helper.json"]);
    write(
        "b.json",
        json!({}),
        Some("b.cont-1.json"),
        &["b.helper.json"],
    );
    write("b.cont-1.json", json!({"continuation_index": 1}), None, &[]);
    write(
        "b.helper.json",
        json!({"parent_session_id": "one"}),
        None,
        &[],
    );
    let board = crate::board::Board::serve(temp.path());
    board.until_read();
    let linked = |key: &str| {
        let page = board.get(&format!("/runs/{key}"));
        let others = ["a.json", "b.json", "b.cont-1.json", "b.helper.json"];
        others
            .into_iter()
            .filter(|other| {
                *other != key && page.text().contains(&format!("href=\"/runs/{other}\""))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(linked("b.json"), ["b.cont-1.json", "b.helper.json"]);
    assert_eq!(linked("b.cont-1.json"), ["b.json"]);
    assert_eq!(linked("b.helper.json"), ["b.json"]);
    assert_eq!(
        linked("a.json"),
        [""; 0],
        "the other run's child isn't its child"
    );
}

#[test]
fn a_damaged_trajectory_loses_only_what_is_damaged() {
    damaged(&sample("tools/atif/odd.trajectory.json"));
}

/// Reads a trajectory of these agent steps and totals.
fn of_steps(dir: &Path, steps: &[Value], totals: &Value) -> Read {
    let path = dir.join("trajectory.json");
    let document = json!({
        "schema_version": "ATIF-v1.5", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": steps,
        "final_metrics": totals,
    });
    fs::write(&path, document.to_string()).expect("written");
    read(&path)
}

fn agents(id: u64, metrics: &Value) -> Value {
    json!({"step_id": id, "source": "agent", "message": format!("{id}."), "metrics": metrics})
}

#[test]
fn a_step_asks_a_model_as_often_as_it_says() {
    let temp = tempfile::tempdir().expect("a directory");
    let mut steps = [1, 2, 3].map(|id| {
        agents(
            id,
            &json!({"prompt_tokens": 100, "completion_tokens": 5, "cost_usd": 0.25}),
        )
    });
    let calls = |steps: &[Value]| of_steps(temp.path(), steps, &json!({})).row.model_calls;
    assert_eq!(calls(&steps), Some(3));
    steps[0]["llm_call_count"] = 5.into();
    assert_eq!(calls(&steps), Some(7));
    steps[1] = json!({"step_id": 2, "source": "agent", "message": "2.", "llm_call_count": 0});
    let run = of_steps(temp.path(), &steps, &json!({}));
    assert_eq!(
        (run.row.model_calls, run.row.cost_usd),
        (Some(6), Some(0.5)),
        "without a model request there is no cost"
    );
}

#[test]
fn a_total_of_others_too_is_not_what_the_run_cost() {
    let temp = tempfile::tempdir().expect("a directory");
    let priced = json!({"prompt_tokens": 100, "completion_tokens": 5, "cost_usd": 0.25});
    let mut steps = [agents(1, &priced), agents(2, &Value::Null)];
    steps[0]["observation"] =
        json!({"results": [{"subagent_trajectory_ref": [{"trajectory_path": "b.json"}]}]});
    let run = of_steps(temp.path(), &steps, &json!({"total_cost_usd": 0.75}));
    assert_eq!((run.row.children, run.row.cost_usd), (Some(1), None));
    steps[1] = agents(
        2,
        &json!({"prompt_tokens": 1, "completion_tokens": 1, "cost_usd": -3.0}),
    );
    let run = of_steps(temp.path(), &steps[1..], &json!({"total_cost_usd": -3.0}));
    assert_eq!(
        (
            run.row.cost_usd,
            run.index.steps().get(0).and_then(|step| step.cost_usd)
        ),
        (None, None)
    );
    let odd = run
        .index
        .issues()
        .listed()
        .iter()
        .filter(|issue| issue.reason.starts_with("the cost is negative, so"));
    assert_eq!(
        odd.count(),
        1,
        "only the step's; unknown totals are no issue"
    );
}

#[test]
fn what_some_steps_cost_is_not_what_the_run_cost() {
    let temp = tempfile::tempdir().expect("a directory");
    let priced = json!({"prompt_tokens": 100, "completion_tokens": 5, "cost_usd": 0.25});
    let steps = [
        agents(1, &priced),
        agents(2, &json!({"prompt_tokens": 100, "completion_tokens": 5})),
    ];
    assert_eq!(of_steps(temp.path(), &steps, &json!({})).row.cost_usd, None);
    let run = of_steps(temp.path(), &steps, &json!({"total_cost_usd": 0.75}));
    assert_eq!((run.row.cost_usd, run.row.issues.0), (Some(0.75), 0));
    let all = [agents(1, &priced), agents(2, &priced)];
    assert_eq!(
        of_steps(temp.path(), &all, &json!({})).row.cost_usd,
        Some(0.5)
    );
    // A trial's result.json states a cost too. Here it contradicts the steps, so the cost is
    // unknown.
    let trial = with_result(temp.path(), |result| {
        result["agent_result"] =
            json!({"n_input_tokens": 5_000, "n_output_tokens": 70, "cost_usd": 0.875});
    });
    fs::copy(
        temp.path().join("trajectory.json"),
        trial.join("agent/trajectory.json"),
    )
    .expect("copied");
    assert_eq!(
        (read(&trial).row.tokens, read(&trial).row.cost_usd),
        (Some(210), None),
        "its steps record $0.50"
    );
    of_steps(
        temp.path(),
        &[agents(1, &priced), agents(2, &Value::Null)],
        &json!({}),
    );
    fs::copy(
        temp.path().join("trajectory.json"),
        trial.join("agent/trajectory.json"),
    )
    .expect("copied");
    let run = read(&trial);
    assert_eq!(
        (run.row.tokens, run.row.tokens_unknown, run.row.cost_usd),
        (Some(5_070), 0, Some(0.875))
    );
}

#[test]
fn a_step_that_is_there_twice_counts_once_and_one_of_nobody_is_an_issue() {
    let temp = tempfile::tempdir().expect("a directory");
    let step = agents(1, &json!({"prompt_tokens": 100, "completion_tokens": 5}));
    let odd = json!({"step_id": 2, "source": "robot", "message": "x"});
    let run = of_steps(temp.path(), &[step.clone(), step, odd], &json!({}));
    assert_eq!((run.row.steps, run.row.tokens), (1, Some(105)));
    let reasons: Vec<_> = run
        .index
        .issues()
        .listed()
        .iter()
        .map(|issue| issue.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "the record is repeated and counts only once",
            "unknown source \"robot\", so this isn't counted as a step of the agent"
        ]
    );
}

#[test]
fn a_trial_takes_as_long_as_its_agent() {
    assert_eq!(trial("ledger__timeout").row.duration_ms, Some(30_500.0));
}

#[test]
fn what_the_result_of_a_trial_says_is_not_said_by_the_trajectory() {
    let trial = sample("tools/harbor/nightly/ledger__solved");
    let output = std::process::Command::new(crate::board::BINARY)
        .args(["why", "--json"])
        .arg(&trial)
        .output();
    let why: Value = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    let told = why["evidence"][0]["text"].as_str().expect("a text");
    assert!(
        told.starts_with("result.json records \"finished\""),
        "{told}"
    );
}

#[test]
fn totals_that_no_step_accounts_for_are_named() {
    let temp = tempfile::tempdir().expect("a directory");
    let metrics = json!({"prompt_tokens": 100, "completion_tokens": 5, "cost_usd": 0.01});
    let mut copy = agents(1, &metrics);
    copy["is_copied_context"] = true.into();
    let totals = |times: u64| json!({"total_prompt_tokens": 100 * times, "total_completion_tokens": 5 * times, "total_cost_usd": 0.01 * times as f64});
    let said = |run: &Read| {
        let issues = run
            .index
            .issues()
            .listed()
            .iter()
            .filter(|issue| issue.kind == IssueKind::Count);
        issues.map(|issue| issue.reason.clone()).collect::<Vec<_>>()
    };
    // Some writers count copied steps in the totals, others don't.
    for (times, issues) in [(1, 0), (2, 0), (20, 3)] {
        let run = of_steps(
            temp.path(),
            &[copy.clone(), agents(2, &metrics)],
            &totals(times),
        );
        assert_eq!(said(&run).len(), issues, "{:?}", said(&run));
    }
    // Totals may also include contained trajectories. Totals below the agent's own steps, or above
    // everything they may include, are issues.
    let path = temp.path().join("trajectory.json");
    let text = fs::read_to_string(&path).expect("written");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let child = |id: &str, totals: Value| json!({"trajectory_id": id, "agent": {"name": "b", "version": "1"}, "final_metrics": totals});
    for (held, times, issues) in [
        (vec![child("b", totals(3))], 5, 0),
        (vec![child("b", totals(3))], 20, 3),
        (vec![child("b", Value::Null)], 20, 0),
    ] {
        document["subagent_trajectories"] = held.into();
        document["final_metrics"] = totals(times);
        fs::write(&path, document.to_string()).expect("written");
        assert_eq!(said(&read(&path)).len(), issues, "{:?}", said(&read(&path)));
    }
    let trial = with_result(temp.path(), |result| {
        result["agent_result"]["cost_usd"] = 0.07.into()
    });
    let run = read(&trial);
    assert_eq!(
        said(&run),
        ["result.json records 0.07 USD, but the steps add up to 0.007"]
    );
    assert_eq!(run.row.cost_usd, None, "neither record wins");
}
