//! Tests runs that are exported as ATIF trajectories and read back.

use std::path::Path;
use std::process::Command;

use crate::board::BINARY;

use super::{read, sample};

/// Exports a run. Returns the trajectory, and what the board reads from it.
fn exported(run: &Path) -> (serde_json::Value, super::Read) {
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("trajectory.json");
    let output = Command::new(BINARY)
        .arg("export")
        .arg(run)
        .arg("--atif")
        .arg(&file)
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&file).expect("it exists");
    (
        serde_json::from_str(&text).expect("it is JSON"),
        read(&file),
    )
}

#[test]
fn a_run_comes_back_with_its_steps_calls_results_and_end() {
    for name in [
        "fix_bug",
        "budget_steps",
        "tool_retry",
        "qitos/q060_critic_stop",
        "unicode",
    ] {
        let run = sample(name);
        let index = trace_board::trace::read_index(&trace_board::trace::RunDir::alone(&run));
        let (json, back) = exported(&run);
        let row = |key: &str| {
            let output = Command::new(BINARY)
                .args(["show", "--json"])
                .arg(&run)
                .output()
                .expect("it runs");
            let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            shown[key].clone()
        };
        assert_eq!(back.index.steps().len(), index.steps().len(), "{name}");
        for (n, (before, after)) in index
            .steps()
            .iter()
            .zip(back.index.steps().iter())
            .enumerate()
        {
            let names = |index: &trace_board::model::Index, head: &trace_board::model::StepHead| {
                head.tools()
                    .map(|tool| index.name(tool).to_owned())
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                names(&back.index, after),
                names(&index, before),
                "{name}, step {n}"
            );
            assert_eq!(
                after.error.is_some(),
                before.error.is_some(),
                "{name}, step {n}: {:?}",
                before.error
            );
            assert_eq!(after.returncode, before.returncode, "{name}, step {n}");
        }
        assert_eq!(
            back.row.verdict.outcome.as_str(),
            row("outcome").as_str().unwrap_or_default(),
            "{name}"
        );
        assert_eq!(
            back.row.verdict.stop_reason.as_deref(),
            row("stop_reason").as_str(),
            "{name}"
        );
        assert_eq!(json["extra"]["board"]["verdict"], row("verdict"), "{name}");
        assert_eq!(back.row.issues.1, 0, "{name}");
    }
}

#[test]
fn a_session_of_another_tool_can_be_exported_too() {
    let session =
        sample("tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl");
    let (json, back) = exported(&session);
    assert_eq!(
        (back.row.steps, back.row.tokens, back.row.usage.cached),
        (5, Some(29_174), Some(22_230))
    );
    let steps = json["steps"].as_array().expect("steps");
    assert_eq!(steps[1]["tool_calls"][1]["tool_call_id"], "toolu_01b");
    assert_eq!(
        steps[1]["observation"]["results"][1]["extra"]["is_error"],
        true
    );
    assert_eq!(steps[1]["message"], "I read the code and its tests first.");
}

#[test]
fn what_a_run_took_how_it_ended_and_how_it_was_scored_comes_back() {
    let runs = [
        "long",
        "final",
        "crash",
        "unrecoverable_error",
        "qitos/q060_critic_stop",
        "tools/swe-agent/submitted.traj",
        "tools/mini-swe-agent/submitted.traj.json",
        "tools/claude-code-stream/answered.jsonl",
        "tools/gemini-stream/turn-limit.jsonl",
        "tools/inspect/ledger.json/rent_epoch_1",
        "tools/harbor/nightly/ledger__solved",
        "tools/tau2/voice/simulations/sim-voice-0.json",
    ];
    let shown = |run: &Path| -> serde_json::Value {
        let output = Command::new(BINARY)
            .args(["show", "--json"])
            .arg(run)
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{}: {}",
            run.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let same = [
        "steps",
        "tokens",
        "tokens_in",
        "tokens_cached",
        "tokens_out",
        "cost_usd",
        "last_score",
        "verdict",
        "outcome",
        "certainty",
        "stop_reason",
    ];
    let mut known = std::collections::BTreeMap::new();
    let temp = tempfile::tempdir().expect("a directory");
    let file = temp.path().join("trajectory.json");
    // A run without an end may continue while its file is recent, as in a fresh checkout.
    let old = temp.path().join("cut.jsonl");
    std::fs::copy(sample("tools/claude-code-stream/cut.jsonl"), &old).expect("copied");
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    std::fs::File::options()
        .append(true)
        .open(&old)
        .and_then(|file| file.set_modified(hour_ago))
        .expect("its time");
    for run in runs.into_iter().map(sample).chain([old]) {
        let name = run.display();
        let output = Command::new(BINARY)
            .arg("export")
            .arg(&run)
            .arg("--atif")
            .arg(&file)
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let (before, after) = (shown(&run), shown(&file));
        for key in same {
            assert_eq!(after[key], before[key], "{name}: {key}");
            *known.entry(key).or_insert(0) += usize::from(!before[key].is_null());
        }
    }
    assert!(same.iter().all(|key| known[key] > 1), "{known:?}");
}

#[test]
fn when_each_step_was_and_every_score_come_back() {
    use trace_board::analysis::timing::{began, took};
    use trace_board::model::{Index, StepHead};
    let runs = [
        "tools/mini-swe-agent/submitted.traj.json",
        "tools/otlp/traces.jsonl/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl",
        "tools/inspect/ledger.json/rent_epoch_1",
        "fix_bug",
        "critic_stop",
    ];
    let (mut timed, mut judged) = (0, 0);
    for name in runs {
        let run = sample(name);
        let dir = trace_board::trace::RunDir::of_file(&run).expect("it can be read");
        let index = trace_board::trace::read_index(
            &dir.unwrap_or_else(|| trace_board::trace::RunDir::alone(&run)),
        );
        let (_, back) = exported(&run);
        let times = |index: &Index, n: usize| {
            let round = index.round_of(n);
            (
                round.and_then(|round| began(index, round)),
                round.and_then(took),
            )
        };
        let scores = |index: &Index, head: &StepHead| {
            let marks = head.critics.iter().filter(|mark| mark.score.is_some());
            marks
                .map(|mark| (index.name(mark.name).to_owned(), mark.score))
                .collect::<Vec<_>>()
        };
        for (n, (before, after)) in index
            .steps()
            .iter()
            .zip(back.index.steps().iter())
            .enumerate()
        {
            assert_eq!(times(&back.index, n), times(&index, n), "{name}, step {n}");
            assert_eq!(
                scores(&back.index, after),
                scores(&index, before),
                "{name}, step {n}"
            );
            timed += usize::from(times(&index, n).1.is_some());
            judged += scores(&index, before).len();
        }
        let ms = trace_board::analysis::timing::own_ms(&index);
        let is_same = back
            .row
            .duration_ms
            .zip(ms)
            .is_some_and(|(after, before)| (after - before).abs() < 1e-6);
        assert!(is_same, "{name}: {:?}, not {ms:?}", back.row.duration_ms);
    }
    assert!(
        timed > 10 && judged > 5,
        "{timed} with a time, {judged} scores"
    );
}
