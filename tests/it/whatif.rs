//! Tests that other stop rules are evaluated for every run, on the page, in the API and on the
//! command line, and that invalid rules get a helpful error.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scraper::Html;
use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::html::{attribute, texts};
use crate::soak::times;

/// Three rules: on a count, a text and a score.
const RULES: &str = "rule=max_steps%3D2&rule=keyword%3Ddone&rule=critic_below%3Dtests%3A0.5";

fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs")
        .join(name)
}

/// A board over runs of our own engine and of QitOS.
fn board() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    for run in ["fix_bug", "budget_tokens", "task_validation_failed"] {
        copy(&ours(run), &dir.path().join(run));
    }
    copy(
        &corpus().join("q060/q060_sigkill"),
        &dir.path().join("a b/q060_sigkill"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    (dir, board)
}

#[test]
fn the_page_answers_the_rules_of_its_address() {
    let (_dir, board) = board();
    let response = board.get("/runs/fix_bug/whatif?rule=max_steps%3D4&rule=max_rounds%3D99");
    assert_eq!(response.status, 200);
    let page = Html::parse_document(response.text());
    let headline = "max_steps=4 would have stopped the run at step 3 instead of step 10, saving 7 steps. The answer would have been \
                    lost.";
    assert_eq!(texts(&page, "#lead[role=status]"), [headline]);
    assert_eq!(
        attribute(&page, "#rules input[name=max_steps]", "value"),
        "4"
    );
    assert_eq!(
        attribute(&page, "#rules input[name=token_budget]", "value"),
        ""
    );
    assert_eq!(
        attribute(&page, "#answer tr.hit td a", "href"),
        "/runs/fix_bug?step=3"
    );
    assert_eq!(texts(&page, "#tabs [aria-current=page]"), ["What-if"]);
    let steps = attribute(&page, "#tabs a", "href");
    assert_eq!(steps, "/runs/fix_bug", "the way back to the steps");
    let run = Html::parse_document(board.get(&steps).text());
    assert_eq!(
        attribute(&run, "#tabs a[href$=whatif]", "href"),
        "/runs/fix_bug/whatif"
    );
    let plain = Html::parse_document(board.get("/runs/fix_bug/whatif").text());
    assert_eq!(
        attribute(&plain, "#rules input[name=max_steps]", "value"),
        "8",
        "something near is suggested"
    );
    assert!(texts(&plain, "#answer tbody tr").len() > 5);
}

#[test]
fn a_sent_form_becomes_the_address_that_names_the_rules() {
    let (_dir, board) = board();
    let sent = "max_steps=4&token_budget=&below%3Atests=0.5&row%3Atests=2&other=final_result%0D%0A%0D%0Akeyword%3Dx+y";
    let response = board.get(&format!("/runs/fix_bug/whatif?{sent}"));
    assert_eq!(response.status, 303);
    let to = response.header("location").to_owned();
    assert_eq!(
        to,
        "/runs/fix_bug/whatif?rule=max_steps%3D4&rule=critic_below%3Dtests%3A0.5%3A2&rule=final_result&rule=keyword%3Dx%20y"
    );
    let page = Html::parse_document(board.get(&to).text());
    assert_eq!(
        attribute(&page, "#rules input[name='row:tests']", "value"),
        "2"
    );
    let empty = board.get("/runs/fix_bug/whatif?max_steps=&other=");
    assert_eq!(empty.header("location"), "/runs/fix_bug/whatif?rule=");
    let page = Html::parse_document(board.get("/runs/fix_bug/whatif?rule=").text());
    assert_eq!(
        attribute(&page, "#rules input[name=max_steps]", "value"),
        "",
        "without rules, nothing is suggested"
    );
    assert_eq!(
        texts(&page, "#answer tbody th").len(),
        2,
        "the recorded budget and the recorded end"
    );
}

#[test]
fn a_bad_rule_is_named_and_a_right_one_shown() {
    let (_dir, board) = board();
    for (rule, why, right) in [
        (
            "max_steps%3D-3",
            "max_steps must be a whole number",
            "max_steps=8",
        ),
        ("max_step%3D3", "unknown rule `max_step`", "max_steps=8"),
        (
            "content_match%3D%28",
            "doesn't compile",
            "content_match=(?i)done",
        ),
        (
            "structured_output%3D%2Fetc%2Fpasswd",
            "schemas can't be read from files here",
            "\"schema\"",
        ),
        (
            "%7B%22type%22%3A%22all_of%22%2C%22of%22%3A%5B%5D%7D",
            "all_of needs at least one",
            "all_of",
        ),
    ] {
        let query = format!("rule={rule}&rule=max_rounds%3D2");
        let page = board.get(&format!("/runs/fix_bug/whatif?{query}"));
        assert_eq!(page.status, 200, "{rule}");
        let page = Html::parse_document(page.text());
        let alerts = texts(&page, "#rules [role=alert]");
        assert_eq!(alerts.len(), 1, "{rule}: {alerts:?}");
        assert!(
            alerts[0].contains(why) && alerts[0].contains(right),
            "{rule}: {alerts:?}"
        );
        assert!(
            texts(&page, "#answer tr.hit")
                .concat()
                .contains("Round limit"),
            "{rule}: the other rule is evaluated"
        );

        let problem = board.get(&format!("/api/runs/fix_bug/whatif?{query}"));
        assert_eq!(
            (problem.status, problem.header("content-type")),
            (400, "application/problem+json"),
            "{rule}"
        );
        let problem = problem.json();
        assert!(
            problem["title"]
                .as_str()
                .unwrap()
                .starts_with("Invalid rule "),
            "{problem}"
        );
        assert!(
            problem["detail"].as_str().unwrap().contains(why),
            "{problem}"
        );
        assert!(
            problem["hints"][0].as_str().unwrap().contains(right),
            "{problem}"
        );
    }
}

#[test]
fn the_api_tells_the_same() {
    let (_dir, board) = board();
    let told =
        board.json("/api/runs/budget_tokens/whatif?rule=max_steps%3D3&rule=token_budget%3D9000&rule=max_rounds%3D0");
    assert_eq!(told["recorded"]["step"], 4);
    assert_eq!(told["recorded"]["stop_reason"], "budget_tokens");
    assert_eq!(told["first"], 0);
    let rules = &told["rules"];
    assert_eq!(
        [
            &rules[0]["rule"],
            &rules[0]["result"],
            &rules[0]["step"],
            &rules[0]["code"],
            &rules[0]["gate"]
        ],
        ["max_steps=3", "earlier", "2", "max_steps", "after_step"]
            .map(|text| {
                text.parse::<u64>()
                    .map_or_else(|_| Value::from(text), Value::from)
            })
            .each_ref()
    );
    assert_eq!(rules[0]["saved"]["tokens"], 3351);
    assert_eq!(
        (&rules[1]["result"], &rules[1]["step"]),
        (&Value::from("not_reached"), &Value::Null)
    );
    assert_eq!(rules[2]["off"], "0");
    let ended: Vec<_> = told["own_rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["ended"] == true)
        .collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(
        (&ended[0]["rule"], &ended[0]["result"]),
        (&"budget.tokens=4000".into(), &"same".into())
    );
    let none = board.json("/api/runs/task_validation_failed/whatif");
    assert_eq!(none["recorded"]["step"], Value::Null);
    assert_eq!(none["rules"][0]["result"], "not_reached");
    assert_eq!(board.get("/api/runs/nobody/whatif").status, 404);
    assert_eq!(board.get("/runs/a%20b%2Fq060_sigkill/whatif").status, 200);
}

/// Evaluates three rules on some runs below a root, or on all in soak tests, and expects a result
/// for each rule. Returns the number of runs.
pub(crate) fn every_run_answers(root: &Path) -> usize {
    let board = Board::serve(root);
    board.until_read();
    let runs = board.json("/api/runs?limit=1000")["runs"]
        .as_array()
        .unwrap()
        .clone();
    for run in runs.iter().step_by(times(4, 1)) {
        let key = crate::client::segment(run["key"].as_str().unwrap());
        for query in [RULES, ""] {
            let page = board.get(&format!("/runs/{key}/whatif?{query}"));
            assert_eq!(page.status, 200, "{key}");
            let page = Html::parse_document(page.text());
            assert_eq!(
                texts(&page, "#lead").concat().matches('.').count().min(1),
                1,
                "{key} has a headline"
            );
        }
        let told = board.json(&format!("/api/runs/{key}/whatif?{RULES}"));
        let rules = told["rules"].as_array().unwrap();
        assert_eq!(rules.len(), 3, "{key}");
        for rule in rules {
            let word = rule["result"].as_str().unwrap();
            let (earlier, fires) = (word == "earlier", matches!(word, "earlier" | "same"));
            assert!(
                fires || matches!(word, "not_reached" | "unknown"),
                "{key}: {rule}"
            );
            assert_eq!(
                word == "unknown",
                rule["needs"].is_string(),
                "{key}: {rule}"
            );
            assert_eq!(fires, rule["code"].is_string(), "{key}: {rule}");
            if earlier && told["begun"] == true {
                assert!(
                    rule["step"].as_u64() <= told["recorded"]["step"].as_u64(),
                    "{key}: {rule}"
                );
            } else if earlier && told["lost"] == 0 {
                assert!(
                    rule["step"].as_u64() < told["recorded"]["step"].as_u64(),
                    "{key}: {rule}"
                );
            }
        }
    }
    runs.len()
}

#[test]
fn runs_that_we_have_answer() {
    assert!(every_run_answers(&corpus()) >= 40);
    assert!(every_run_answers(&ours("")) >= 35);
}

/// The exit code and output of a command.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

fn command(args: &[&str]) -> Said {
    let mut command = Command::new(BINARY);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("whatif")
        .args(args)
        .env("NO_COLOR", "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn the_command_says_a_sentence_and_a_row_for_each_rule() {
    let said = command(&[
        "sample_runs/budget_tokens",
        "--rule",
        "max_steps=3",
        "--rule",
        "critic_below=nobody:0.5",
    ]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(said.stdout, @r"
    sample_runs/budget_tokens: max_steps=3 would have stopped the run at step 2 instead of step 4, saving 2 steps and 3,351 tokens. There was no answer to lose. A rule that couldn't be evaluated might have stopped it earlier.
      rule                     vs. recorded  step  steps saved  tokens saved  time saved  answer   why
      max_steps=3              earlier          2            2         3,351       1.9 s  none     3 steps, limit 3
      critic_below=nobody:0.5  unknown          –            –             –           –  unknown  unknown from step 0: a score from the critic nobody isn't recorded
      Step limit (20)          not reached      –            –             –           –  –
      Token limit (4,000)      same             4            0             0           0  –        5,698 tokens, limit 4,000 (ended the run)
    ");
    let json = command(&[
        "sample_runs/budget_tokens",
        "sample_runs/fix_bug",
        "--rule",
        "max_steps=3",
        "--json",
    ]);
    assert_eq!(json.code, 0, "{}", json.stderr);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let steps = |run: usize| &json["runs"][run]["rules"][0]["step"];
    assert_eq!((steps(0), steps(1)), (&2.into(), &2.into()));
    assert_eq!(json["runs"][1]["path"], "sample_runs/fix_bug");
}

#[test]
fn the_command_refuses_what_it_cannot_ask() {
    let none = command(&["sample_runs/fix_bug"]);
    assert_eq!((none.code, none.stdout.as_str()), (2, ""));
    assert!(
        none.stderr
            .contains("hint: pass at least one: board whatif RUN --rule max_steps=8"),
        "{}",
        none.stderr
    );
    for (rule, because, hint) in [
        (
            "max_steps=-3",
            "because: max_steps must be a whole number",
            "hint: for example: --rule 'max_steps=8'",
        ),
        (
            "stop=3",
            "because: unknown rule `stop`",
            "hint: for example: --rule '",
        ),
        (
            "content_match=(",
            "because: the pattern",
            "hint: for example: --rule 'content_match=",
        ),
        (
            "structured_output=none.json",
            "because: can't read the schema file none.json",
            "hint: for example: ",
        ),
        (
            "structured_output=README.md",
            "because: the schema file README.md isn't JSON",
            "hint: for example: ",
        ),
        (
            "structured_output=Cargo.toml/",
            "because: can't read the schema file Cargo.toml/",
            "hint: ",
        ),
    ] {
        let said = command(&[
            "sample_runs/fix_bug",
            "--rule",
            "max_steps=2",
            "--rule",
            rule,
        ]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{rule}");
        let lines: Vec<_> = said.stderr.lines().collect();
        assert_eq!(lines[0], format!("board: can't evaluate the rule {rule}"));
        assert!(
            lines.iter().any(|line| line.starts_with(because)),
            "{rule}: {lines:?}"
        );
        assert!(
            lines.iter().any(|line| line.starts_with(hint)),
            "{rule}: {lines:?}"
        );
    }
}

#[test]
fn a_schema_comes_from_a_file_of_bounded_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(path("good.json"), r#"{"type":"object"}"#).unwrap();
    std::fs::write(path("bad.json"), r#"{"type":7}"#).unwrap();
    std::fs::write(path("long.json"), " ".repeat((1 << 20) + 1)).unwrap();
    let ask = |name: &str| {
        command(&[
            "sample_runs/fix_bug",
            "--rule",
            &format!("structured_output={}", path(name)),
        ])
    };
    let good = ask("good.json");
    assert_eq!(good.code, 0, "{}", good.stderr);
    assert!(
        good.stdout.contains("the answer isn't JSON"),
        "{}",
        good.stdout
    );
    assert!(
        ask("bad.json")
            .stderr
            .contains("because: the schema of structured_output doesn't compile")
    );
    assert!(ask("long.json").stderr.contains("it is larger than 1 MiB"));
}

#[test]
fn one_path_that_is_no_run_does_not_hide_the_others() {
    let alone = command(&["nowhere", "--rule", "max_steps=3"]);
    assert_eq!((alone.code, alone.stdout.as_str()), (3, ""));
    let both = command(&["nowhere", "sample_runs/fix_bug", "--rule", "max_steps=3"]);
    assert_eq!(both.code, 3);
    assert!(
        both.stdout.starts_with("nowhere: not evaluated: "),
        "{}",
        both.stdout
    );
    assert!(
        both.stdout
            .contains("sample_runs/fix_bug: This rule would have stopped the run at step 2"),
        "{}",
        both.stdout
    );
    assert!(
        both.stderr
            .starts_with("board: 1 of 2 paths couldn't be evaluated\nbecause: "),
        "{}",
        both.stderr
    );
    let json = command(&[
        "nowhere",
        "sample_runs/fix_bug",
        "--rule",
        "max_steps=3",
        "--json",
    ]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(
        json["runs"][0]["error"]
            .as_str()
            .unwrap()
            .contains("nowhere"),
        "{json}"
    );
    assert_eq!(json["runs"][1]["rules"][0]["result"], "earlier");
}

/// Returns the rules' results for a run: the result, the step from which it's unknown, and the
/// missing data.
fn answers(run: &Path, rules: &[&str]) -> Vec<(String, Option<u64>, String)> {
    let run = run.display().to_string();
    let rules = rules.iter().flat_map(|rule| ["--rule", rule]);
    let said = command(
        &[run.as_str(), "--json"]
            .into_iter()
            .chain(rules)
            .collect::<Vec<_>>(),
    );
    assert_eq!(said.code, 0, "{}", said.stderr);
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rules = json["runs"][0]["rules"].as_array().unwrap();
    rules
        .iter()
        .map(|rule| {
            (
                text(&rule["result"]),
                rule["unknown_from"].as_u64(),
                text(&rule["needs"]),
            )
        })
        .collect()
}

#[test]
fn a_limit_between_the_last_step_and_the_end_of_the_run_is_not_said_to_be_missed() {
    let timeout = ours("tools/harbor/nightly/ledger__timeout");
    let told = answers(
        &timeout,
        &[
            "max_runtime=3",
            "max_runtime=20",
            "max_runtime=30",
            "timeout=30",
            "max_runtime=31",
        ],
    );
    let more = "the step that took the remaining 18.5 s isn't recorded".to_owned();
    let unknown = || ("unknown".to_owned(), Some(1), more.clone());
    assert_eq!(told[0].0, "earlier");
    assert_eq!(told[1..3], [unknown(), unknown()]);
    assert_eq!(
        told[3].0, "unknown",
        "when a decision was there isn't recorded either"
    );
    assert_eq!(told[4].0, "not_reached", "the run took 30.5 s");
    let answered = ours("tools/claude-code-stream/answered.jsonl");
    let told = answers(
        &answered,
        &["max_runtime=3", "max_runtime=4", "max_runtime=2"],
    );
    assert_eq!(
        told.iter()
            .map(|(found, ..)| found.as_str())
            .collect::<Vec<_>>(),
        ["unknown", "not_reached", "same"]
    );
}

#[test]
fn a_run_that_took_less_than_its_records_span_does_not_reach_a_limit_for_sure() {
    let dir = tempfile::tempdir().unwrap();
    let stream = std::fs::read_to_string(ours("tools/claude-code-stream/answered.jsonl")).unwrap();
    assert!(
        stream.contains("\"duration_ms\":3100"),
        "the sample records how long it took"
    );
    let path = dir.path().join("short.jsonl");
    std::fs::write(
        &path,
        stream.replace("\"duration_ms\":3100", "\"duration_ms\":800"),
    )
    .unwrap();
    let told = answers(
        &path,
        &["max_runtime=1", "max_runtime=0.7", "max_runtime=9"],
    );
    assert_eq!(
        (told[0].0.as_str(), told[2].0.as_str()),
        ("unknown", "not_reached"),
        "{told:?}"
    );
    assert!(
        told[0]
            .2
            .contains("which 1.2 s between the run's records don't count toward its duration"),
        "{told:?}"
    );
    assert_eq!(
        told[1].0, "same",
        "in the end it took as long as that: {told:?}"
    );
}

#[test]
fn when_the_last_step_of_a_trajectory_was_over_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trajectory.json");
    let step = |id: u64, second: u64, calls: Value| {
        serde_json::json!({"step_id": id, "source": if id == 1 { "user" } else { "agent" }, "message": "x",
            "timestamp": format!("2026-03-02T10:00:{second:02}Z"), "tool_calls": calls})
    };
    let call =
        serde_json::json!([{"tool_call_id": "c", "function_name": "sleep", "arguments": {}}]);
    let ends_with = |last: Value| {
        let steps = [
            step(1, 0, Value::Null),
            step(2, 4, call.clone()),
            step(3, 9, last),
        ];
        let agent = serde_json::json!({"name": "a", "version": "1"});
        let document =
            serde_json::json!({"schema_version": "ATIF-v1.6", "agent": agent, "steps": steps});
        std::fs::write(&path, document.to_string()).unwrap();
        answers(&path, &["max_runtime=9", "max_runtime=20"])
    };
    let told = ends_with(call.clone());
    assert_eq!(
        (told[0].0.as_str(), told[1].0.as_str()),
        ("same", "unknown"),
        "{told:?}"
    );
    assert_eq!(
        (told[1].1, told[1].2.as_str()),
        (Some(1), "the end time of the last step isn't recorded")
    );
    assert_eq!(
        ends_with(Value::Null)[1].0,
        "not_reached",
        "a reply without calls ends its step"
    );
}

#[test]
fn a_rule_that_stops_within_the_last_step_loses_the_answer_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(
        ours("tools/swe-agent/submitted.traj"),
        dir.path().join("submitted.traj"),
    )
    .unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    // The fifth step submits. The rule stops the run between that decision and its execution.
    let page = Html::parse_document(
        board
            .get("/runs/submitted.traj/whatif?rule=max_rounds%3D5")
            .text(),
    );
    let headline = "This rule would have stopped the run at step 4, where it ended, but before that step's actions ran. The \
                    answer would have been lost.";
    assert_eq!(texts(&page, "#lead[role=status]"), [headline]);
    assert_eq!(texts(&page, "#answer tr.hit strong"), ["lost"]);
    let one = &board.json("/api/runs/submitted.traj/whatif?rule=max_rounds%3D5")["rules"][0];
    assert_eq!(
        (&one["result"], &one["cuts"], &one["answer_lost"]),
        (&"same".into(), &true.into(), &true.into())
    );
    for question in ["rule=max_rounds%3D5", "sweep=max_rounds&values=5"] {
        let many = board.answered(&format!("/api/whatif?{question}"));
        assert_eq!(
            many["answer"],
            "max_rounds=5 saves 0 steps (0%) and loses 1 of 1 answer. It stops 1 of 1 run early",
            "{many}"
        );
        let row = if question.starts_with("rule") {
            &many["rules"][0]
        } else {
            &many["limits"][0]
        };
        assert_eq!(
            (&row["runs_cut"], &row["answers_lost"]),
            (&1.into(), &1.into()),
            "{many}"
        );
    }
    let several = board.answered("/api/whatif?sweep=max_rounds&values=5,6");
    let answer = several["answer"].as_str().unwrap();
    assert!(
        answer.starts_with("No limit of max_rounds saves steps. For example: max_rounds=5 saves"),
        "{answer}"
    );
}
