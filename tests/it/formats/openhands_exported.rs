//! Tests conversations that OpenHands exported before its SDK.

use serde_json::Value;

use super::{damaged, foreign, read, sample};
use crate::disk::walk;

#[test]
fn the_calls_of_a_reply_are_one_step() {
    let run = read(&sample("tools/openhands-v0/finished.json"));
    let row = &run.row;
    // Thirteen events, four replies. The errors are a missing file and a command with exit status
    // 3.
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (4, 2, 13, (1, 0))
    );
    // 960, 1,140, 1,220 and 1,315 tokens; 896, 1,024 and 1,152 of the input came from the cache.
    assert_eq!((row.tokens, row.cost_usd), (Some(4_635), None));
    assert_eq!(
        run.index
            .manifest()
            .get()
            .and_then(|manifest| manifest.usage.cached),
        Some(3_072)
    );
    assert_eq!(row.tools, ["execute_bash", "str_replace_editor", "finish"]);
    assert_eq!(
        (row.task.as_deref(), row.model.as_deref()),
        (Some("Make a.py print 2."), Some("example/small-1"))
    );
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        (
            "The agent finished at step 3 (inferred from \"finish\")",
            "inferred"
        )
    );
    assert_eq!(
        (row.answer.as_deref(), &*row.changed),
        (
            Some("a.py prints 2."),
            &["files./workspace/a.py".into()][..]
        )
    );
    let first = run.step(0);
    assert_eq!(
        first["model_response"]["text"], "I look at both files.",
        "once, although both calls contain it"
    );
    assert_eq!(
        first["actions"][0]["args"],
        serde_json::json!({"command": "cat a.py"})
    );
    assert_eq!(
        first["action_results"][1]["error"],
        "The path /workspace/none.py does not exist."
    );
    assert_eq!(
        run.step(1)["state_diff"]["files./workspace/a.py"]["before"],
        "print(1)\n"
    );
    assert_eq!(run.step(2)["action_results"][0]["returncode"], 3);
}

#[test]
fn a_limit_is_told_by_the_state_of_the_agent() {
    let run = read(&sample("tools/openhands-v0/iteration-limit.json"));
    assert_eq!(
        (run.row.steps, run.row.events, run.row.issues),
        (2, 6, (1, 0))
    );
    assert_eq!(
        (run.row.tokens, run.row.cost_usd),
        (Some(1_145), Some(0.0085)),
        "the newest record of its usage so far"
    );
    let verdict = &run.row.verdict;
    assert_eq!(
        (&*verdict.sentence, verdict.certainty.as_str()),
        (
            "Step limit reached after step 1: 2 of 2 iterations",
            "recorded"
        )
    );
    let step = run.step(1);
    assert_eq!(
        (&step["actions"][0]["name"], &step["actions"][0]["args"]),
        (&"run".into(), &serde_json::json!({"command": "ls -a"}))
    );
    assert_eq!(step["model_response"]["text"], "And the hidden ones.");
}

#[test]
fn a_reply_that_does_not_say_what_it_took_makes_the_sum_a_least() {
    let text =
        std::fs::read_to_string(sample("tools/openhands-v0/finished.json")).expect("the sample");
    let mut events: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        read(&sample("tools/openhands-v0/finished.json"))
            .row
            .tokens_unknown,
        0
    );
    for event in events.as_array_mut().expect("a list") {
        let metadata = &mut event["tool_call_metadata"];
        if metadata["model_response"]["usage"]["prompt_tokens"] != 900 && metadata.is_object() {
            metadata["model_response"]
                .as_object_mut()
                .expect("a reply")
                .remove("usage");
        }
    }
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("one.json");
    std::fs::write(&path, events.to_string()).expect("written");
    let row = read(&path).row;
    assert_eq!((row.tokens, row.tokens_unknown), (Some(960), 3));
    assert_eq!(
        row.tokens_words().as_deref(),
        Some("at least 960; 3 steps don't record their tokens")
    );
}

#[test]
fn states_are_told_in_words() {
    let text = std::fs::read_to_string(sample("tools/openhands-v0/iteration-limit.json"))
        .expect("the sample");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("one.json");
    for (state, reason, word, sentence) in [
        ("finished", "", "answered", "The agent finished at step 1"),
        (
            "stopped",
            "",
            "cancelled",
            "Stopped from outside after step 1",
        ),
        (
            "error",
            "maximum budget in headless mode. Current budget: 1.5, max budget: 1.25",
            "limit",
            "Cost limit reached after step 1: $1.50, limit $1.25",
        ),
        (
            "error",
            "AgentStuckInLoopError: Agent got stuck in a loop",
            "stopped",
            "Stopped by loop detection after step 1",
        ),
        ("running", "", "unknown", "No end recorded after step 1"),
    ] {
        document["trajectory"][5]["extras"] =
            serde_json::json!({"agent_state": state, "reason": reason});
        std::fs::write(&path, document.to_string()).expect("written");
        let verdict = read(&path).row.verdict;
        assert!(
            verdict.sentence.starts_with(sentence),
            "{}",
            verdict.sentence
        );
        assert_eq!(verdict.mark.word(), word);
    }
}

#[test]
fn a_damaged_trajectory_loses_only_what_is_damaged() {
    damaged(&sample("tools/openhands-v0/iteration-limit.json"));
}

#[test]
fn each_exported_conversation_at_hand_is_a_run() {
    let Some(dir) = foreign("openhands-v0") else {
        return;
    };
    for path in walk(&dir) {
        let events: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("read")).expect("JSON");
        let run = read(&path);
        let replies = events
            .iter()
            .filter(|event| event["source"] == "agent" && event["action"].is_string())
            .count();
        let calls = events
            .iter()
            .filter(|event| event["action"].is_string() && event["tool_call_metadata"].is_object());
        assert_eq!(
            (run.row.steps, run.row.events),
            (replies, events.len()),
            "{}",
            path.display()
        );
        let found: usize = (0..replies)
            .map(|n| run.step(n)["actions"].as_array().map_or(0, Vec::len))
            .sum();
        assert_eq!(
            (found, run.row.errors, run.row.issues.1),
            (calls.count(), 0, 0),
            "{}",
            path.display()
        );
        assert_eq!(run.row.verdict.certainty.as_str(), "inferred");
    }
}
