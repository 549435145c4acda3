//! Tests trajectories of mini-swe-agent.

use super::{damaged, read, sample};

fn trajectory(name: &str) -> std::path::PathBuf {
    sample(&format!("tools/mini-swe-agent/{name}.traj.json"))
}

#[test]
fn a_submitted_trajectory() {
    let run = read(&trajectory("submitted"));
    let row = &run.row;
    // Ten messages, and the information about the run.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues.0),
        (3, 2, 11, 1)
    );
    // 940, 1,230 and 1,425 tokens; 0, 800 and 1,100 of the input came from the cache.
    assert_eq!((row.tokens, row.cost_usd), (Some(3_595), Some(0.0125)));
    assert_eq!(
        run.index
            .manifest()
            .get()
            .and_then(|manifest| manifest.usage.cached),
        Some(1_900)
    );
    assert_eq!(
        (row.tools.as_slice(), row.model.as_deref()),
        (&["bash".to_owned()][..], Some("example/small-1"))
    );
    // One reply, which contained no command, isn't in the file.
    assert_eq!(
        (row.steps, row.model_calls, row.issues),
        (3, Some(4), (1, 0))
    );
    let issue = run.index.issues().listed().last().expect("an issue");
    assert_eq!(issue.reason, "the run counts 4 replies, but the file has 3");
    assert_eq!(row.verdict.sentence, "Submitted at step 2");
    assert_eq!(row.verdict.certainty.as_str(), "recorded");
    let step = run.step(0);
    assert_eq!(step["actions"][1]["args"]["command"], "sleep 60");
    assert_eq!(step["action_results"][0]["status"], "success");
    assert_eq!(
        step["action_results"][1]["error"],
        "timed out after 30 seconds"
    );
    assert_eq!(
        run.index.steps().get(1).and_then(|step| step.returncode),
        Some(1),
        "an exit code alone isn't an error"
    );
}

#[test]
fn what_the_run_is_said_to_cost_is_held_against_its_steps() {
    let text = std::fs::read_to_string(trajectory("submitted")).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("a.traj.json");
    let told = |cost: f64, calls: u64| {
        let mut whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        whole["info"]["model_stats"] =
            serde_json::json!({"instance_cost": cost, "api_calls": calls});
        std::fs::write(&path, whole.to_string()).expect("written");
        read(&path).row.verdict.contradictions
    };
    let says = |cost: &str| {
        vec![format!(
            "The records disagree on the cost: {cost} (the trace's own total), $0.0095 (the sum of the steps)"
        )]
    };
    assert_eq!(
        told(0.0125, 4),
        [""; 0],
        "a reply that isn't in the file has a cost"
    );
    assert_eq!(told(0.01, 3), [""; 0], "cents");
    assert_eq!(told(0.004, 4), says("$0.0040"), "more steps than that");
    assert_eq!(told(0.0195, 4), [""; 0]);
    assert_eq!(told(0.0195, 3), says("$0.0195"), "each reply exists");
}

#[test]
fn a_message_that_is_there_twice_counts_once() {
    let text = std::fs::read_to_string(trajectory("submitted")).expect("the sample");
    let mut whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("twice.traj.json");
    let list = whole["messages"].as_array_mut().expect("a list");
    let at = list
        .iter()
        .position(|message| message["extra"]["timestamp"].is_number())
        .expect("one with a time");
    list.insert(at, list[at].clone());
    std::fs::write(&path, whole.to_string()).expect("written");
    let messages = |path| {
        read(path)
            .index
            .manifest()
            .get()
            .and_then(|run| run.trial.as_ref()?.messages)
    };
    assert_eq!(messages(&path), messages(&trajectory("submitted")));
    assert_eq!(
        read(&path).row.issues.0,
        read(&trajectory("submitted")).row.issues.0 + 1
    );
}

#[test]
fn which_limit_was_exceeded_is_told_by_the_figures() {
    let run = read(&trajectory("cost_limit"));
    assert_eq!(
        run.row.verdict.sentence,
        "Cost limit reached after step 0: $0.0300, limit $0.0200"
    );
    let text = std::fs::read_to_string(trajectory("cost_limit")).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("steps.traj.json");
    let both = text.replace("\"step_limit\":50", "\"step_limit\":1");
    std::fs::write(&path, &both).expect("written");
    assert_eq!(
        read(&path).row.verdict.sentence,
        "Step and cost limit reached: 1 step (limit 1), $0.03 (limit $0.02)"
    );
    std::fs::write(
        &path,
        both.replace("\"cost_limit\":0.02", "\"cost_limit\":3.0"),
    )
    .expect("written");
    assert_eq!(
        read(&path).row.verdict.sentence,
        "Step limit reached after step 0: 1 of 1 step"
    );
}

#[test]
fn a_bare_list_of_messages_tells_of_its_end_by_the_last_command() {
    let run = read(&trajectory("first_version"));
    assert_eq!(
        (run.row.steps, run.row.cost_usd, run.row.tokens),
        (3, None, None)
    );
    assert_eq!(run.row.verdict.certainty.as_str(), "inferred");
    assert!(
        run.row.verdict.sentence.starts_with("Submitted at step 2"),
        "{}",
        run.row.verdict.sentence
    );
    assert_eq!(run.step(0)["actions"][0]["args"]["command"], "wc -l a.txt");
    assert_eq!(
        run.step(1)["decision"]["mode"],
        "thought",
        "a reply without a command isn't an answer"
    );
}

#[test]
fn a_damaged_trajectory_loses_only_what_is_damaged() {
    damaged(&trajectory("cost_limit"));
    damaged(&trajectory("first_version"));
}

#[test]
fn what_stands_behind_a_cut_is_said_to_be_missing() {
    let whole = std::fs::read_to_string(trajectory("submitted")).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("cut.traj.json");
    let of = |upto: usize| {
        std::fs::write(&path, &whole[..upto]).expect("written");
        read(&path).row.verdict
    };
    // The run's information comes first, so the end is known before the steps that lead to it.
    let second = whole
        .match_indices("\"assistant\"")
        .nth(1)
        .expect("a second reply")
        .0;
    let cut = of(second);
    let missing = "the trajectory is truncated after step 0";
    assert_eq!(
        (&*cut.sentence, cut.step),
        (&*format!("Submitted · {missing}"), None)
    );
    let untold = std::fs::read_to_string(trajectory("submitted"))
        .expect("the sample")
        .replace("\"Submitted\"", "\"\"");
    std::fs::write(&path, &untold[..second - 5]).expect("written");
    let untold = read(&path).row.verdict;
    assert_eq!(
        (&*untold.sentence, untold.mark.word()),
        ("The trajectory is truncated after step 0", "unknown")
    );
    assert_eq!(of(whole.len()).sentence, "Submitted at step 2");
}

#[test]
fn a_bare_list_was_submitted_only_where_the_word_was_printed() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("bare.traj.json");
    let ended = |command: &str, came_back: &str| {
        let messages = serde_json::json!([
            {"role": "system", "content": "One command at a time."},
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": format!("So.\n\n```bash\n{command}\n```")},
            {"role": "user", "content": came_back},
        ]);
        std::fs::write(&path, messages.to_string()).expect("written");
        read(&path)
            .index
            .manifest()
            .get()
            .is_some_and(|run| run.ended.is_some())
    };
    let word = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";
    let shown = |code: u8, output: &str| {
        format!("<returncode>{code}</returncode>\n<output>\n{output}\n</output>")
    };
    // The program strips the first line.
    assert!(ended(
        &format!("echo {word} && git diff --cached"),
        "diff --git a/a b/a"
    ));
    assert!(ended(&format!("cd /a && echo '{word}'"), ""));
    assert!(ended(&format!("echo {word}"), &shown(0, word)));
    assert!(!ended(&format!("echo {word}"), &shown(1, word)));
    assert!(!ended(
        &format!("cat a.txt; echo {word}"),
        &shown(0, &format!("text\n{word}"))
    ));
    assert!(!ended(&format!("grep {word} a.txt"), ""));
    assert!(!ended(
        &format!("sleep 60; echo {word}"),
        "The last command <command>sleep 60</command> timed out"
    ));
}

#[test]
fn the_limits_that_it_was_given_are_told() {
    let limits = |name: &str| {
        read(&trajectory(name))
            .index
            .manifest()
            .get()
            .map(|run| run.limits.clone())
    };
    let told: Vec<_> = limits("cost_limit")
        .unwrap_or_default()
        .iter()
        .map(|limit| (limit.name, limit.limit, limit.unit))
        .collect();
    assert_eq!(
        told,
        [("step_limit", 50.0, "steps"), ("cost_limit", 0.02, "usd")],
        "0 is no limit"
    );
    assert_eq!(limits("first_version"), Some(Vec::new()));
}
