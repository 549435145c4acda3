//! Tests that the sample runs are what their programs record, and that `board demo` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::board::BINARY;
use crate::disk::walk;
use crate::programs::SCENARIOS;
use crate::wait::until;

/// How each scenario ends: status, stop reason, outcome, code and number of steps. `-` means that a
/// killed run doesn't record it.
const ENDS: &[(&str, [&str; 4], usize)] = &[
    ("fix_bug", ["completed", "final", "completed", "final"], 11),
    (
        "research",
        ["completed", "success", "completed", "structured_output"],
        7,
    ),
    (
        "plan",
        ["completed", "agent_condition", "halted", "agent_condition"],
        7,
    ),
    ("final", ["completed", "final", "completed", "final"], 2),
    (
        "success",
        ["completed", "success", "completed", "keyword"],
        3,
    ),
    (
        "budget_steps",
        ["completed", "budget_steps", "truncated", "budget_steps"],
        6,
    ),
    (
        "budget_time",
        ["completed", "budget_time", "truncated", "budget_time"],
        5,
    ),
    (
        "budget_tokens",
        ["completed", "budget_tokens", "truncated", "budget_tokens"],
        5,
    ),
    (
        "agent_condition",
        ["completed", "agent_condition", "halted", "agent_condition"],
        3,
    ),
    (
        "critic_stop",
        ["completed", "critic_stop", "halted", "critic_stop"],
        4,
    ),
    (
        "stagnation",
        ["completed", "stagnation", "halted", "stagnation"],
        5,
    ),
    (
        "env_terminal",
        ["completed", "env_terminal", "halted", "env_terminal"],
        12,
    ),
    (
        "task_validation_failed",
        [
            "failed",
            "task_validation_failed",
            "failed",
            "task_validation_failed",
        ],
        0,
    ),
    (
        "env_capability_mismatch",
        [
            "failed",
            "env_capability_mismatch",
            "failed",
            "env_capability_mismatch",
        ],
        0,
    ),
    (
        "unrecoverable_error",
        [
            "failed",
            "unrecoverable_error",
            "failed",
            "recovery_exhausted",
        ],
        6,
    ),
    (
        "context_overflow",
        ["failed", "context_overflow", "failed", "context_overflow"],
        4,
    ),
    (
        "cancelled_immediate",
        [
            "stopped",
            "cancelled_immediate",
            "cancelled",
            "cancelled_immediate",
        ],
        3,
    ),
    (
        "cancelled_after_step",
        [
            "stopped",
            "cancelled_after_step",
            "cancelled",
            "cancelled_after_step",
        ],
        4,
    ),
    (
        "critic_retry",
        ["completed", "final", "completed", "final"],
        4,
    ),
    (
        "critic_conflict",
        ["completed", "critic_stop", "halted", "critic_stop"],
        4,
    ),
    (
        "judge",
        ["completed", "budget_tokens", "truncated", "budget_tokens"],
        5,
    ),
    (
        "loop",
        ["completed", "stagnation", "halted", "loop_detection"],
        4,
    ),
    (
        "tool_loop",
        [
            "completed",
            "agent_condition",
            "halted",
            "asked_three_times",
        ],
        5,
    ),
    (
        "stop_on_tool",
        ["completed", "agent_condition", "halted", "stop_on_tool"],
        2,
    ),
    (
        "max_rounds",
        ["completed", "budget_steps", "truncated", "max_rounds"],
        3,
    ),
    (
        "refused_answer",
        ["completed", "success", "completed", "structured_output"],
        3,
    ),
    ("wait", ["completed", "final", "completed", "final"], 8),
    ("branch", ["completed", "final", "completed", "final"], 5),
    (
        "recovered_error",
        ["completed", "final", "completed", "final"],
        4,
    ),
    (
        "tool_retry",
        ["completed", "final", "completed", "final"],
        3,
    ),
    (
        "model_native",
        ["completed", "final", "completed", "final"],
        3,
    ),
    (
        "model_react",
        ["completed", "final", "completed", "final"],
        3,
    ),
    ("unicode", ["completed", "final", "completed", "final"], 13),
    (
        "long",
        ["completed", "budget_steps", "truncated", "budget_steps"],
        300,
    ),
    ("crash", ["running", "-", "-", "-"], 4),
];

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs")
}

fn demo(root: &Path, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(BINARY)
        .arg("demo")
        .arg(root)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Lists the files of the scenarios' runs below `root`.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let below = walk(root).into_iter().filter(|path| path.is_file());
    let below = below.map(|path| path.strip_prefix(root).unwrap().to_owned());
    below
        .filter(|path| {
            !path.starts_with("qitos")
                && !path.starts_with("tools")
                && path != Path::new("README.md")
        })
        .collect()
}

/// Describes the first difference between two files.
fn first_difference(left: &Path, right: &Path) -> Option<String> {
    let (left, right) = (fs::read(left).unwrap(), fs::read(right).unwrap());
    let at = (0..left.len().max(right.len())).find(|at| left.get(*at) != right.get(*at))?;
    let line = left[..at.min(left.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1;
    let around = |bytes: &[u8]| {
        let end = bytes.len().min(at + 80);
        String::from_utf8_lossy(&bytes[at.saturating_sub(80).min(end)..end]).into_owned()
    };
    Some(format!(
        "line {line}, byte {at}\n  there: {}\n  now:   {}",
        around(&left),
        around(&right)
    ))
}

/// Fails unless the runs below `root` equal those in `sample_runs`, byte for byte.
fn are_the_samples(root: &Path, hint: &str) {
    assert_eq!(files(&samples()), files(root), "{hint}");
    for file in files(root) {
        if let Some(difference) = first_difference(&samples().join(&file), &root.join(&file)) {
            panic!("{} differs, {difference}\n{hint}", file.display());
        }
    }
}

#[test]
fn the_sample_runs_are_what_the_programs_record() {
    let root = tempfile::tempdir().unwrap();
    for scenario in SCENARIOS {
        scenario.record(root.path());
    }
    if std::env::var_os("BOARD_RECORD").is_some() {
        for file in files(&samples()) {
            fs::remove_file(samples().join(file)).unwrap();
        }
        for file in files(root.path()) {
            let to = samples().join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root.path().join(&file), to).unwrap();
        }
    }
    are_the_samples(
        root.path(),
        "if this is intended, record them again: BOARD_RECORD=1 cargo test --test it demo::",
    );
}

#[test]
fn the_command_writes_the_sample_runs() {
    let root = tempfile::tempdir().unwrap();
    let (code, out, err) = demo(root.path(), &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    are_the_samples(root.path(), "the program holds other recordings");
    let lines: Vec<_> = SCENARIOS
        .iter()
        .zip(out.lines())
        .filter(|(scenario, line)| !line.starts_with(scenario.name))
        .map(|(_, line)| line)
        .collect();
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(out.lines().count(), SCENARIOS.len() + 1, "{out}");
    // No other file remains, hidden or not.
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), SCENARIOS.len());
    // They give the same explanation as the recorded samples, including the killed run.
    let why = |root: &Path, name: &str| {
        let run = root.join(name);
        let output = Command::new(BINARY).arg("why").arg(run).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for name in ["crash", "final"] {
        assert_eq!(why(root.path(), name), why(&samples(), name));
    }
}

#[test]
fn each_scenario_ends_as_it_is_meant_to() {
    let told: Vec<_> = ENDS.iter().map(|end| end.0).collect();
    assert_eq!(
        SCENARIOS
            .iter()
            .map(|scenario| scenario.name)
            .collect::<Vec<_>>(),
        told
    );
    for (name, words, steps) in ENDS {
        let dir = samples().join(name);
        let manifest: Value =
            serde_json::from_slice(&fs::read(dir.join("manifest.json")).unwrap()).unwrap();
        let (status, reason) = (&manifest["status"], &manifest["summary"]["stop_reason"]);
        let said = [
            status,
            reason,
            &manifest["stop"]["outcome"],
            &manifest["stop"]["code"],
        ];
        assert_eq!(
            said.map(|value| value.as_str().unwrap_or("-")),
            *words,
            "{name}"
        );
        // The killed run's manifest is one step behind.
        let lines = fs::read_to_string(dir.join("steps.jsonl"))
            .unwrap()
            .lines()
            .count();
        assert_eq!(lines, *steps, "{name}");
    }
}

#[test]
fn the_runs_have_no_fault() {
    let mut check = Command::new(BINARY);
    check.arg("check").args(
        SCENARIOS
            .iter()
            .map(|scenario| samples().join(scenario.name)),
    );
    let output = check.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text.lines()
            .filter(|line| !line.ends_with(": no issues"))
            .collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_samples_are_small_and_listed() {
    let files = |root: &Path| {
        walk(root)
            .into_iter()
            .filter_map(|path| path.metadata().ok())
            .filter(|meta| meta.is_file())
    };
    let size = |root: &Path| files(root).map(|meta| meta.len()).sum::<u64>();
    assert!(size(&samples()) < 1_500_000, "{} bytes", size(&samples()));
    let readme = fs::read_to_string(samples().join("README.md")).unwrap();
    let help = Command::new(BINARY)
        .args(["demo", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, listed) = help.split_once("Scenarios:\n").unwrap();
    for (scenario, line) in SCENARIOS.iter().zip(listed.lines()) {
        let (name, about) = line.trim().split_once("  ").unwrap();
        assert_eq!(name, scenario.name);
        let row = format!("| `{name}` | {} |\n", about.trim());
        assert!(readme.contains(&row), "sample_runs/README.md lacks {row}");
    }
}

#[test]
fn nothing_is_written_over_or_by_halves() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("wait")).unwrap();
    let (code, out, err) = demo(root.path(), &["--scenario", "final", "--scenario", "wait"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("wait already exists; nothing was written") && err.contains("hint: "),
        "{err}"
    );
    let (code, _, err) = demo(root.path(), &["--scenario", "final", "--scenario", "fianl"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("unknown scenario `fianl`") && err.contains("critic_conflict"),
        "{err}"
    );
    assert_eq!(walk(root.path()), [root.path().join("wait")]);
}

/// A process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_flag_that_is_gone_says_so() {
    let root = tempfile::tempdir().unwrap();
    for args in [&["--seed", "8"][..], &["--seed=8", "--live"], &["--seed"]] {
        let (code, out, err) = demo(root.path(), args);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(
            err.contains("recordings and always the same") && err.contains("hint: remove --seed"),
            "{err}"
        );
    }
    assert!(walk(root.path()).is_empty());
}

#[test]
fn a_live_run_grows_and_is_whole_when_it_is_interrupted() {
    let root = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command
        .arg("demo")
        .arg(root.path())
        .arg("--live")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Killed(command.spawn().unwrap());
    let run = root.path().join("long_live");
    let steps = run.join("steps.jsonl");
    let listed = || {
        let mut board = Command::new(BINARY);
        let output = board.arg("list").arg(root.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    until("the board shows it", || {
        listed().contains("running").then_some(())
    });
    assert!(fs::read_to_string(&steps).unwrap().lines().count() < 300);
    let pid = child.0.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let manifest: Value =
        serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["stop"]["code"], "budget_steps");
    assert_eq!(manifest["pid"].to_string(), pid);
    assert_eq!(
        first_difference(&steps, &samples().join("long/steps.jsonl")),
        None
    );
    let check = Command::new(BINARY)
        .arg("check")
        .arg(&run)
        .output()
        .unwrap();
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(text.ends_with(": no issues\n"), "{text}");
}

#[test]
fn a_live_run_ends_by_itself_and_a_crashed_one_is_left_open() {
    let root = tempfile::tempdir().unwrap();
    for name in ["final", "crash"] {
        let (code, out, err) = demo(root.path(), &["--live", "--scenario", name]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(
            out.lines()
                .last()
                .unwrap()
                .starts_with(&format!("{name}_live ")),
            "{out}"
        );
    }
    // The process that wrote them has exited.
    for (name, mark) in [("final", "answered"), ("crash", "died")] {
        let run = root.path().join(format!("{name}_live"));
        let output = Command::new(BINARY).arg("why").arg(run).output().unwrap();
        let why = String::from_utf8(output.stdout).unwrap().to_lowercase();
        assert!(why.contains(mark), "{why}");
    }
}
