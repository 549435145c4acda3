//! Cases of runs of QitOS and of board: ends, limits and totals on which records disagree.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{assert_says, board, board_json, cases};
use crate::board::BINARY;

/// The contradictions that `board why` names.
#[track_caller]
fn contradictions(run: &str) -> Vec<String> {
    let why = board_json(&["why", run]);
    let said = why["contradictions"].as_array().unwrap().iter();
    said.map(|said| said.as_str().unwrap().to_owned()).collect()
}

/// Asserts that one contradiction of `run` contains all of `parts`, that no fact in it is called
/// recorded, and that `board check` and the table report it too.
#[track_caller]
fn assert_contradicts(run: &str, parts: &[&str]) {
    let said = contradictions(run);
    let has_all = |said: &String| parts.iter().all(|part| said.contains(part));
    assert!(
        said.iter().any(has_all),
        "{parts:?} is missing in {said:#?}"
    );
    let why = board_json(&["why", run]);
    assert_ne!(why["certainty"], "recorded", "{run}");
    let (code, check) = checked(run);
    assert_eq!(
        (
            code,
            check["runs"][0]["contradictions"].as_array().map(Vec::len)
        ),
        (1, Some(said.len()))
    );
    let row = &board_json(&["list", run])["runs"][0];
    assert_eq!(row["contradictions"], said.len(), "{row}");
}

/// What `board check --json` prints, and its exit code.
fn checked(run: &str) -> (i32, Value) {
    let output = Command::new(BINARY)
        .current_dir(cases())
        .args(["check", run, "--json"])
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        serde_json::from_slice(&output.stdout).unwrap(),
    )
}

#[test]
fn a_manifest_verdict_that_all_other_records_deny_is_not_the_end() {
    let run = "v_o03_manifest_stop_vs_end";
    let why = board_json(&["why", run]);
    assert_eq!(
        why["headline"],
        "The files disagree on how the run ended: the manifest (/summary/stop_reason and 2 more), the END event \
         and the stop check record final, but the manifest (/stop/code) records budget_steps"
    );
    assert_eq!(
        (&why["outcome"], &why["certainty"]),
        (&"unknown".into(), &"unknown".into())
    );
    assert_contradicts(
        run,
        &[
            "disagree on how the run ended",
            "budget_steps (manifest.json /stop/code)",
            "events.jsonl:12",
        ],
    );
    assert!(board_json(&["list", run])["runs"][0]["stop_reason"].is_null());
}

#[test]
fn a_limit_of_60_and_one_of_6_are_both_named() {
    let run = "o_manifest_limit_60";
    let text = board(&["why", run]);
    assert_says(&text, &["The files disagree on the limit (60 and 6)"]);
    assert!(
        !text.contains("6 of 60") && !text.contains("6 >= 60"),
        "{text}"
    );
    assert_contradicts(
        run,
        &[
            "step limit: 60 (manifest.json /stop/limit)",
            "6 (",
            "events.jsonl:38 /payload/stop/limit",
        ],
    );
}

#[test]
fn a_step_limit_of_9_in_init_and_90_in_the_manifest_are_both_named() {
    let run = "q_limit_manifest_90";
    assert_says(
        &board(&["why", run]),
        &[
            "The files disagree on the limit (90 and 9)",
            "9 of 9 steps according to the INIT event",
        ],
    );
    assert_contradicts(
        run,
        &[
            "step limit",
            "90 (manifest.json /summary/task_meta/budget/max_steps)",
            "events.jsonl:3",
        ],
    );
}

#[test]
fn a_token_limit_of_300_in_init_and_9000_in_the_manifest_are_both_named() {
    let run = "q_token_limit_above";
    assert_says(
        &board(&["why", run]),
        &[
            "(9,000 and 300)",
            "591 tokens, limit 300 according to the INIT event",
        ],
    );
    assert_contradicts(
        run,
        &[
            "token limit",
            "9,000 (manifest.json",
            ", 300 (",
            "events.jsonl:3",
        ],
    );
}

#[test]
fn tokens_that_facts_and_requests_count_differently_are_settled_by_the_total() {
    let run = "v_o05_tokens_facts_disagree";
    let whatif = board_json(&["whatif", run, "--rule", "max_steps=3"]);
    assert_eq!(
        whatif["runs"][0]["rules"][0]["saved"]["tokens"], 3_351,
        "{whatif}"
    );
    assert!(!board(&["whatif", run, "--rule", "max_steps=3"]).contains("6,698"));
    assert_eq!(board_json(&["list", run])["runs"][0]["tokens"], 5_698);
    assert_contradicts(
        run,
        &["The facts of step 4 count 2,842 tokens, but its request counts 1,842"],
    );
}

#[test]
fn a_stagnation_that_counts_more_checks_than_the_run_has_steps_is_of_an_earlier_run() {
    let said =
        "for 4 checks in a row, including an earlier run of the same engine (this run has 1 step)";
    assert_says(&board(&["why", "q_stagnation_one_step"]), &[said]);
}

#[test]
fn the_newest_run_of_a_directory_is_compared_as_the_verdict_is_about_it() {
    let runs = ["v_e08_crash_then_rerun", "v_e10_final_not_success"];
    let output = Command::new(BINARY)
        .current_dir(cases())
        .arg("diff")
        .args(runs)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_says(
        &said,
        &[
            "All 6 steps are the same in both runs: actions, results, critics with their scores, and state changes.",
        ],
    );
}

#[test]
fn two_end_events_disagree_in_either_order() {
    let run = "v_e04b_two_ends_rev";
    let why = board_json(&["why", run]);
    assert!(
        why["headline"]
            .as_str()
            .unwrap()
            .starts_with("The files disagree on how the run ended"),
        "{why}"
    );
    assert_eq!(
        (&why["outcome"], &why["certainty"]),
        (&"unknown".into(), &"unknown".into())
    );
    assert_contradicts(
        run,
        &[
            "disagree on how the run ended",
            "budget_steps (events.jsonl:64",
            "final (manifest.json",
        ],
    );
    let turned = Copy::of(run);
    turned.edit_lines("events.jsonl", |lines| lines.swap(63, 64));
    let why = turned.json(&["why"]);
    assert!(
        why["headline"]
            .as_str()
            .unwrap()
            .starts_with("The files disagree on how the run ended"),
        "{why}"
    );
}

#[test]
fn whether_an_answer_is_lost_is_unknown_where_the_end_is() {
    let whatif = board_json(&["whatif", "v_e04b_two_ends_rev", "--rule", "max_steps=3"]);
    assert!(
        whatif["runs"][0]["rules"][0]["answer_lost"].is_null(),
        "{whatif}"
    );
    assert_says(
        whatif["runs"][0]["headline"].as_str().unwrap(),
        &["Whether an answer would have been lost is unknown"],
    );
}

#[test]
fn a_stop_check_that_the_run_ignored_is_named() {
    let parts = [
        "A stop check ended the run with final",
        "\"early answer\"",
        "step 2",
        "events.jsonl:33",
        "the run continued",
    ];
    assert_contradicts("q_checkstop_early", &parts);
}

#[test]
fn a_time_of_hours_beside_events_of_milliseconds_is_named() {
    let run = "v_e44_latency_disagree";
    let parts = [
        "disagree on the time",
        "2 h 47 min (manifest.json /latency_seconds",
        "elapsed_seconds",
    ];
    assert_contradicts(run, &parts);
    assert_says(
        &board(&["show", run]),
        &["unknown: the files disagree (2 h 47 min"],
    );
    assert!(board_json(&["list", run])["runs"][0]["duration_ms"].is_null());
}

#[test]
fn disputed_tokens_count_nowhere() {
    let temp = tempfile::tempdir().expect("a directory");
    let run = temp.path().join("recovered_error");
    crate::disk::copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/recovered_error"),
        &run,
    );
    let json = |command: &[&str]| {
        let output = Command::new(BINARY)
            .args(command)
            .arg(temp.path())
            .arg("--json")
            .output()
            .expect("it runs");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let tokens = || {
        (
            json(&["list"])["runs"][0]["tokens"].clone(),
            json(&["usage", "model"])["total"]["tokens"].clone(),
        )
    };
    assert_eq!(tokens(), (2200.into(), 2200.into()));
    // Half of the steps have more tokens than the manifest says all have.
    let lines = fs::read_to_string(run.join("steps.jsonl")).expect("steps");
    let more = lines.replace("\"tokens_total\":", "\"tokens_total\":9");
    let half: String = more
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    for steps in [more, half] {
        fs::write(run.join("steps.jsonl"), steps).expect("written");
        assert_eq!(tokens(), (Value::Null, 0.into()));
    }
}

#[test]
fn an_answer_is_of_the_step_that_gave_it() {
    let run = "v_l_stop_and_final_state";
    assert_says(&board(&["why", run]), &["Answer: from state  [step 1]"]);
}

#[test]
fn an_answer_that_only_the_stop_check_has_is_disputed() {
    let run = "v_e24_empty_answer";
    let parts = [
        "disagree on the answer",
        "an empty one (manifest.json /summary/final_result",
        "steps.jsonl:6",
        "events.jsonl:63",
    ];
    assert_contradicts(run, &parts);
    assert!(!board(&["why", run]).contains("Answer:"));
}

#[test]
fn events_out_of_order_cost_no_step() {
    let run = "v_e19_events_reversed";
    let whatif = board_json(&["whatif", run, "--rule", "max_steps=3"]);
    let rule = &whatif["runs"][0]["rules"][0];
    assert_eq!(
        (&rule["result"], &rule["step"], &rule["saved"]["steps"]),
        (&"earlier".into(), &2.into(), &3.into())
    );
    assert_eq!(board_json(&["list", run])["runs"][0]["steps"], 6);
    assert_says(&board(&["why", run]), &["Answered at step 5"]);
    // Whatever the order, all steps are there.
    let shuffled = Copy::of("v_e10_final_not_success");
    for stride in [5, 7, 29, 43] {
        shuffled.edit_lines("events.jsonl", |lines| {
            *lines = (0..lines.len())
                .map(|n| lines[n * stride % lines.len()].clone())
                .collect();
        });
        let whatif = shuffled.json(&["whatif", "--rule", "max_steps=3"]);
        assert_eq!(
            whatif["runs"][0]["rules"][0]["saved"]["steps"], 3,
            "{stride}: {whatif}"
        );
    }
}

#[test]
fn what_a_rule_does_to_the_answer_is_unknown_where_its_result_is() {
    let whatif = board_json(&["whatif", "v_e20_step_line_missing", "--rule", "max_steps=3"]);
    let rule = &whatif["runs"][0]["rules"][0];
    assert_eq!(
        (&rule["result"], &rule["answer_lost"]),
        (&"unknown".into(), &Value::Null)
    );
}

/// A copy of a run that a test changes.
pub(super) struct Copy(tempfile::TempDir);

impl Copy {
    fn of(run: &str) -> Self {
        Self::of_dir(&cases().join(run))
    }

    pub(super) fn of_dir(from: &Path) -> Self {
        let copy = tempfile::tempdir().unwrap();
        for name in ["manifest.json", "events.jsonl", "steps.jsonl"] {
            fs::copy(from.join(name), copy.path().join(name)).unwrap();
        }
        Self(copy)
    }

    pub(super) fn edit_lines(&self, name: &str, edit: impl FnOnce(&mut Vec<String>)) {
        let path = self.0.path().join(name);
        let mut lines: Vec<String> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        edit(&mut lines);
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    /// Edits the manifest.
    pub(super) fn edit_manifest(&self, edit: impl FnOnce(&mut Value)) {
        let path = self.0.path().join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        edit(&mut manifest);
        fs::write(path, manifest.to_string()).unwrap();
    }

    /// Edits each record of a file of lines.
    pub(super) fn edit_records(&self, name: &str, mut edit: impl FnMut(&mut Value)) {
        self.edit_lines(name, |lines| {
            for line in lines {
                let mut record: Value = serde_json::from_str(line).unwrap();
                edit(&mut record);
                *line = record.to_string();
            }
        });
    }

    /// Replaces a text in all three files.
    pub(super) fn replace_all(&self, from: &str, to: &str) {
        for name in ["manifest.json", "events.jsonl", "steps.jsonl"] {
            let path = self.0.path().join(name);
            let text = fs::read_to_string(&path).unwrap().replace(from, to);
            fs::write(path, text).unwrap();
        }
    }

    /// Sets the value at `pointer` in the manifest.
    pub(super) fn set(&self, pointer: &str, value: impl Into<Value>) {
        let path = self.0.path().join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        *manifest
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("no {pointer}")) = value.into();
        fs::write(path, manifest.to_string()).unwrap();
    }

    /// Sets the value at `pointer` in a line of a file.
    pub(super) fn set_in(&self, name: &str, line: usize, pointer: &str, value: impl Into<Value>) {
        self.edit_lines(name, |lines| {
            let mut record: Value = serde_json::from_str(&lines[line - 1]).unwrap();
            *record
                .pointer_mut(pointer)
                .unwrap_or_else(|| panic!("no {pointer}")) = value.into();
            lines[line - 1] = record.to_string();
        });
    }

    pub(super) fn json(&self, args: &[&str]) -> Value {
        let (command, rest) = args.split_first().unwrap();
        let run = self.0.path().to_str().unwrap();
        board_json(&[&[command, run], rest].concat())
    }

    /// The sentence, the certainty and the contradictions.
    pub(super) fn why(&self) -> (String, String, String) {
        let why = self.json(&["why"]);
        let text = |key: &str| why[key].as_str().unwrap().to_owned();
        let said = why["contradictions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|said| said.as_str().unwrap());
        (
            text("headline"),
            text("certainty"),
            said.collect::<Vec<_>>().join("\n"),
        )
    }
}

/// A recorded run of our own engine without contradictions.
pub(super) fn sample(name: &str) -> Copy {
    Copy::of_dir(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("sample_runs")
            .join(name),
    )
}

#[test]
fn each_field_that_states_an_end_is_asked() {
    for (pointer, value) in [
        ("/stop/code", "stagnation"),
        ("/stop/stop_reason", "stagnation"),
        ("/stop/outcome", "failed"),
        ("/summary/stop_reason", "stagnation"),
        ("/summary/task_result/stop_reason", "stagnation"),
    ] {
        let run = sample("budget_steps");
        assert_eq!(
            (run.why().1, run.why().2),
            ("recorded".to_owned(), String::new()),
            "as recorded"
        );
        run.set(pointer, value);
        let (sentence, certainty, said) = run.why();
        assert!(
            certainty != "recorded" && said.contains(value),
            "{pointer}: {sentence} {certainty}\n{said}"
        );
    }
}

#[test]
fn each_kind_of_limit_is_compared_with_all_that_state_it() {
    for (run, pointer, limit) in [
        ("budget_steps", "/summary/task_meta/budget/max_steps", 77),
        ("budget_steps", "/stop_rules/budget/steps/limit", 77),
        ("budget_steps", "/stop/limit", 77),
        (
            "budget_tokens",
            "/summary/task_meta/budget/max_tokens",
            77_000,
        ),
        ("budget_tokens", "/stop/limit", 77_000),
        ("budget_time", "/stop_rules/budget/time_ms/limit", 77_000),
        ("budget_time", "/stop/limit", 77_000),
    ] {
        let copy = sample(run);
        assert_eq!(copy.why().1, "recorded", "{run}");
        copy.set(pointer, limit);
        let (sentence, certainty, said) = copy.why();
        assert!(
            sentence.starts_with("The files disagree on the limit"),
            "{run} {pointer}: {sentence}\n{said}"
        );
        assert!(
            certainty != "recorded" && said.contains(pointer.trim_end_matches("/limit")),
            "{run} {pointer}: {said}"
        );
    }
}

#[test]
fn each_total_is_compared_with_all_that_state_it() {
    for (pointer, value, about) in [
        ("/token_usage", 9_999.0, "tokens"),
        ("/summary/token_usage", 9_999.0, "tokens"),
        (
            "/summary/task_result/metrics/token_usage",
            9_999.0,
            "tokens",
        ),
        ("/latency_seconds", 9_999.0, "time"),
        (
            "/summary/task_result/metrics/elapsed_seconds",
            9_999.0,
            "time",
        ),
        ("/summary/steps", 77.0, "number of steps"),
        ("/step_count", 77.0, "number of steps"),
    ] {
        let copy = Copy::of("q_token_limit_above");
        copy.set("/summary/task_meta/budget/max_tokens", 300);
        assert_eq!(
            (copy.why().1, copy.why().2),
            ("recorded".to_owned(), String::new()),
            "as recorded"
        );
        copy.set(pointer, value);
        let (_, certainty, said) = copy.why();
        assert!(certainty != "recorded", "{pointer}: {said}");
        assert!(
            said.contains(&format!("disagree on the {about}")) && said.contains(pointer),
            "{pointer}: {said}"
        );
    }
}

#[test]
fn an_end_without_a_manifest_is_enough_and_a_stop_check_may_deny_it() {
    let copy = Copy::of("q_token_limit_above");
    fs::remove_file(copy.0.path().join("manifest.json")).unwrap();
    let why = copy.why();
    assert_says(&why.0, &["Token limit reached"]);
    assert_eq!((why.1.as_str(), why.2.as_str()), ("recorded", ""));
    let copy = Copy::of("v_e44_latency_disagree");
    fs::remove_file(copy.0.path().join("manifest.json")).unwrap();
    copy.set_in("events.jsonl", 64, "/payload/stop_reason", "max_steps");
    assert!(
        copy.why()
            .0
            .starts_with("The files disagree on how the run ended"),
        "{:?}",
        copy.why()
    );
}

#[test]
fn answers_of_manifest_stop_check_and_step_are_compared() {
    for (file, line, pointer) in [
        ("", 0, "/summary/final_result"),
        ("", 0, "/summary/task_result/final_result"),
        ("events.jsonl", 63, "/payload/final_result"),
        ("steps.jsonl", 6, "/decision/final_answer"),
    ] {
        let copy = Copy::of("v_e10_final_not_success");
        copy.set("/summary/task_result/success", true);
        assert_eq!(
            (copy.why().1, copy.why().2),
            ("recorded".to_owned(), String::new())
        );
        if file.is_empty() {
            copy.set(pointer, "Something else.")
        } else {
            copy.set_in(file, line, pointer, "Something else.")
        }
        let (_, certainty, said) = copy.why();
        assert!(
            certainty != "recorded" && said.contains("disagree on the answer"),
            "{pointer}: {said}"
        );
        assert!(
            said.contains("\"Something else.\"")
                && said.contains("\"Fixed add() in calc.py; all tests pass.\""),
            "{said}"
        );
    }
}

#[test]
fn a_criterion_whose_numbers_are_below_its_limit_did_not_fire() {
    let copy = Copy::of("q_stagnation_one_step");
    copy.set_in(
        "events.jsonl",
        13,
        "/payload/stop_detail",
        "total_tokens=280 >= max_tokens=900",
    );
    let fields = [
        "/summary/stop_reason",
        "/summary/task_result/stop_reason",
        "/summary/failure_report/stop_reason",
    ];
    for pointer in fields {
        copy.set(pointer, "budget_tokens");
    }
    copy.set_in("events.jsonl", 13, "/payload/stop_reason", "budget_tokens");
    copy.set_in("events.jsonl", 14, "/payload/stop_reason", "budget_tokens");
    let (_, certainty, said) = copy.why();
    assert!(
        certainty != "recorded" && said.contains("280 of 900 tokens"),
        "{said}"
    );
    assert!(
        copy.json(&["why"])["rules"]
            .as_array()
            .unwrap()
            .iter()
            .all(|rule| rule["result"] != "fired")
    );
}
