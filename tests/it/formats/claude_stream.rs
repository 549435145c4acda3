//! Tests the output stream of Claude Code.

use super::truth::{FIELDS, compare};
use super::{damaged, read, sample};

#[test]
fn replies_of_sub_agents_are_steps_and_the_result_has_the_totals() {
    let run = read(&sample("tools/claude-code-stream/answered.jsonl"));
    let row = &run.row;
    assert_eq!(
        (row.steps, row.errors, row.events, row.issues),
        (3, 1, 12, (0, 0))
    );
    // 1,630 + 280 + 1,600 + 490, including the sub-agent.
    assert_eq!((row.tokens, row.cost_usd), (Some(4_000), Some(0.0213)));
    assert_eq!(
        row.model_calls, None,
        "the last reply of a sub-agent is not printed"
    );
    assert_eq!(
        read(&sample("tools/claude-code-stream/turn-limit.jsonl"))
            .row
            .model_calls,
        Some(1)
    );
    assert_eq!(row.tools, ["Edit", "Task", "Bash"]);
    assert_eq!(row.changed, ["files./home/me/ledger/split.py"]);
    assert_eq!(
        (&*row.verdict.sentence, row.verdict.certainty.as_str()),
        ("Answered at step 2", "recorded")
    );
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(
        (manifest.turns, manifest.children, manifest.latency_s),
        (Some(1), Some(1), Some(3.1))
    );
    let step = run.step(0);
    assert_eq!(
        step["decision"]["rationale"],
        "The rest has to go somewhere."
    );
    assert_eq!(step["context"]["input_tokens"], 1_610);
    assert_eq!(
        step["context"].get("output_tokens"),
        None,
        "3 is the count from the start of the reply"
    );
    assert_eq!(step["action_results"][1]["output"], "Nobody does.");
    assert_eq!(run.step(1)["agent_id"], "a1");
    assert_eq!(run.index.steps().get(1).and_then(|step| step.tokens), None);
}

#[test]
fn what_a_session_took_before_it_went_on_is_not_what_the_run_took() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text =
        std::fs::read_to_string(sample("tools/claude-code-stream/turn-limit.jsonl")).unwrap();
    let whole = "\"claude-sonnet-4-5-20250929\":{\"inputTokens\":900,\"outputTokens\":40,";
    let told = |more: &str| {
        std::fs::write(&path, text.replace(whole, more)).unwrap();
        let row = read(&path).row;
        (row.tokens, row.cost_usd, row.issues)
    };
    assert_eq!(told(whole), (Some(940), Some(0.004), (0, 0)));
    let before = whole.replace("900", "5900").replace("40,", "240,");
    assert_eq!(
        told(&before),
        (Some(940), None, (1, 0)),
        "a continued session counts its earlier usage"
    );
    let helper = format!("\"claude-haiku-4-5\":{{\"inputTokens\":50,\"outputTokens\":5}},{whole}");
    assert_eq!(
        told(&helper),
        (Some(995), Some(0.004), (0, 0)),
        "a helper model belongs to the run"
    );
}

#[test]
fn a_result_that_tells_what_came_since_the_last_one_tells_what_the_run_took() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text = std::fs::read_to_string(sample("tools/claude-code-stream/answered.jsonl")).unwrap();
    let usage = |input: u64, cost: f64| serde_json::json!({"inputTokens": input, "outputTokens": 50, "costUSD": cost});
    let since = serde_json::json!({"big-1": usage(1_000, 0.003_906_25), "small-1": usage(400, 0.001_953_125)});
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            if line["type"] == "result" {
                line["model_usage_since_last_result"] = since.clone();
            }
            line.to_string() + "\n"
        })
        .collect();
    let priced = lines.concat();
    std::fs::write(
        &path,
        priced
            .replace(",\"costUSD\":0.001953125", "")
            .replace("\"costUSD\":0.001953125,", ""),
    )
    .unwrap();
    let row = read(&path).row;
    assert_eq!(
        (row.tokens, row.cost_usd),
        (Some(1_500), None),
        "the cost of one of the two models isn't recorded"
    );
    let result = lines.last().unwrap();
    std::fs::write(&path, lines.concat()).unwrap();
    let row = read(&path).row;
    // Includes its sub-agents, but not the session's earlier usage.
    assert_eq!(
        (row.tokens, row.cost_usd, row.children, row.issues),
        (Some(1_500), Some(0.005_859_375), Some(1), (1, 0))
    );
    std::fs::write(&path, lines.concat() + result).unwrap();
    let row = read(&path).row;
    assert_eq!(
        (row.duration_ms, row.tokens, row.issues),
        (Some(3_100.0), Some(1_500), (2, 0)),
        "the same line repeated"
    );
    let second = result.replace("\"duration_ms\":3100", "\"duration_ms\":3000");
    assert_ne!(second, *result);
    std::fs::write(&path, lines.concat() + &second).unwrap();
    let row = read(&path).row;
    assert_eq!(
        row.duration_ms,
        Some(6_100.0),
        "each result covers its own turn"
    );
    assert_eq!(
        (row.tokens, row.cost_usd),
        (Some(3_000), Some(0.011_718_75)),
        "a second result covers what came after the first"
    );
}

#[test]
fn two_turns_that_took_as_long_as_each_other_took_twice_as_long() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text = std::fs::read_to_string(sample("tools/claude-code-stream/answered.jsonl")).unwrap();
    std::fs::write(&path, text.repeat(2)).unwrap();
    assert_eq!(
        read(&path).row.duration_ms,
        Some(6_200.0),
        "the session was continued between them"
    );
}

#[test]
fn a_duration_below_zero_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    for name in ["claude-code-stream", "qwen-stream"] {
        let text =
            std::fs::read_to_string(sample(&format!("tools/{name}/answered.jsonl"))).unwrap();
        let spoilt: String = text
            .lines()
            .map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                if line["type"] == "result" {
                    line["duration_ms"] = (-5).into();
                }
                line.to_string() + "\n"
            })
            .collect();
        std::fs::write(&path, spoilt).unwrap();
        let run = read(&path);
        let manifest = run.index.manifest().get().unwrap();
        assert_eq!((manifest.latency_s, run.row.issues.0), (None, 1), "{name}");
        let issue = run
            .index
            .issues()
            .listed()
            .first()
            .map(|issue| issue.reason.as_str());
        assert_eq!(
            issue,
            Some("the result's duration is negative, so it is ignored")
        );
    }
}

#[test]
fn totals_of_which_one_half_is_missing_are_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text =
        std::fs::read_to_string(sample("tools/claude-code-stream/turn-limit.jsonl")).unwrap();
    let told = |text: String| {
        std::fs::write(&path, text).unwrap();
        let manifest = read(&path).index.manifest().get().unwrap().clone();
        (manifest.tokens, manifest.usage.input, manifest.usage.output)
    };
    assert_eq!(told(text.clone()), (Some(940), Some(900), Some(40)));
    assert_eq!(
        told(text.replace("\"inputTokens\":900,", "")),
        (None, None, Some(40))
    );
    assert_eq!(
        told(text.replace("\"outputTokens\":40,", "")),
        (None, Some(900), None)
    );
    // If the input is missing for one of two models, the totals of both are unknown.
    let helper = "\"modelUsage\":{\"claude-haiku-4-5\":{\"outputTokens\":5},";
    assert_eq!(
        told(text.replace("\"modelUsage\":{", helper)),
        (None, None, Some(45))
    );
}

#[test]
fn what_two_sessions_of_one_stream_took_is_added_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text =
        std::fs::read_to_string(sample("tools/claude-code-stream/turn-limit.jsonl")).unwrap();
    let other = text
        .replace("5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1b01", "other")
        .replace("toolu_1", "toolu_2");
    let other = other.replace("\"id\":\"msg_", "\"id\":\"other_");
    std::fs::write(&path, format!("{}\n{other}", text.trim_end())).unwrap();
    let row = read(&path).row;
    assert_eq!(
        (row.tokens, row.cost_usd, row.duration_ms),
        (Some(1_880), Some(0.008), Some(1_600.0))
    );
    assert_eq!(row.issues, (1, 0));
}

#[test]
fn a_limit_is_told_with_its_number() {
    let run = read(&sample("tools/claude-code-stream/turn-limit.jsonl"));
    let verdict = &run.row.verdict;
    assert!(
        verdict
            .sentence
            .starts_with("Turn limit reached after step 0: 1 of 1 turn"),
        "{}",
        verdict.sentence
    );
    assert_eq!(
        (verdict.certainty.as_str(), verdict.stop_reason.as_deref()),
        ("recorded", Some("error_max_turns"))
    );
    let cut = read(&sample("tools/claude-code-stream/cut.jsonl"));
    assert_eq!(
        (cut.row.verdict.mark.word(), cut.row.steps, cut.row.tokens),
        ("unknown", 1, None)
    );
}

#[test]
fn a_damaged_stream_loses_only_what_is_damaged() {
    damaged(&sample("tools/claude-code-stream/cut.jsonl"));
}

#[test]
fn real_streams_agree_with_what_is_known_of_them() {
    let fields = FIELDS
        .into_iter()
        .filter(|field| *field != "output")
        .collect::<Vec<_>>();
    let last = "the last reply of a sub-agent is not printed";
    let known = &[
        (
            "sigkill-in-tool",
            "tokens of the run",
            0,
            "no result, so the output is unknown",
        ),
        (
            "stream-cut-recovers",
            "tokens of the run",
            2_959,
            "the tool counts a truncated reply",
        ),
        ("two-subagents", "replies", 7, last),
        (
            "two-subagents",
            "replies of the run",
            0,
            "so their number is unknown",
        ),
        ("two-subagents", "input", 33_746, last),
        ("two-subagents", "cached", 19_500, last),
        (
            "two-subagents",
            "input of the run",
            40_186,
            "the result counts it",
        ),
        (
            "two-subagents",
            "cached of the run",
            25_690,
            "the result counts it",
        ),
        (
            "max-budget",
            "failed calls of the run",
            0,
            "a call has no result, so the number of failures is unknown",
        ),
        ("sigkill-in-tool", "input of the run", 0, "no result"),
        ("sigkill-in-tool", "output of the run", 0, "no result"),
        (
            "stream-cut-recovers",
            "input of the run",
            2_830,
            "the tool counts a truncated reply",
        ),
        (
            "stream-cut-recovers",
            "cached of the run",
            1_650,
            "the tool counts a truncated reply",
        ),
        (
            "stream-cut-recovers",
            "output of the run",
            129,
            "the tool counts a truncated reply",
        ),
    ];
    compare(
        "claude-code",
        |file| file.starts_with("stream"),
        &fields,
        known,
    );
}

#[test]
fn a_result_records_the_context_window() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream.jsonl");
    let text =
        std::fs::read_to_string(sample("tools/claude-code-stream/turn-limit.jsonl")).unwrap();
    let window = |text: &str| {
        std::fs::write(&path, text).unwrap();
        read(&path).index.manifest().get()?.context_window
    };
    assert_eq!(window(&text), None);
    let of_model = |name: &str, window: u64| {
        let recorded = format!("{name}\":{{\"contextWindow\":{window},\"inputTokens\"");
        text.replace("claude-sonnet-4-5-20250929\":{\"inputTokens\"", &recorded)
    };
    let name = "claude-sonnet-4-5-20250929";
    assert_eq!(window(&of_model(name, 200_000)), Some(200_000));
    // Replies don't have the suffix that requests the larger window.
    assert_eq!(
        window(&of_model(&format!("{name}[1m]"), 1_000_000)),
        Some(1_000_000)
    );
    assert_eq!(
        window(&of_model("claude-haiku-4-5", 200_000)),
        None,
        "it wrote no reply"
    );
}
