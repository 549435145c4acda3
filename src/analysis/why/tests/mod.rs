use super::*;
use crate::analysis::chain::{PatternKind, patterns_before_stop};
use crate::analysis::life::{ExternalFacts, life};
use crate::analysis::summary::summary;
use crate::analysis::verdict::RunStatus;
use crate::model::{Delta, ManifestState, Names, RunKey, Span, StepHead, TraceFile};

mod causes;
mod table;

/// A run of these lines, judged long after it was written.
#[derive(Default)]
struct Run {
    steps: Vec<String>,
    events: Vec<String>,
    manifest: String,
}

/// Files that can no longer be read.
pub(in crate::analysis) struct Gone;

impl Lines for Gone {
    fn line(&self, _: TraceFile, _: Span) -> Result<Vec<u8>, String> {
        Err("gone".to_owned())
    }
    fn manifest(&self) -> Result<Vec<u8>, String> {
        Err("gone".to_owned())
    }
    fn has_asset(&self, _: &str) -> Result<(), String> {
        Err("gone".to_owned())
    }
}

impl Run {
    fn step(mut self, fields: &str) -> Self {
        let id = self.steps.len();
        self.steps.push(format!(r#"{{"step_id": {id}, {fields}}}"#));
        let opens = format!(
            r#"{{"step_id": {id}, "phase": "DECIDE", "payload": {{"stage": "state_ready"}}}}"#
        );
        self.events.push(opens);
        self
    }

    /// Adds a step that calls `tool` and changes `key`.
    fn call(self, tool: &str, key: &str) -> Self {
        let diff = if key.is_empty() {
            String::new()
        } else {
            format!(r#""{key}": {{"before": 1}}"#)
        };
        self.step(&format!(
            r#""decision": {{"mode": "act", "actions": [{{"name": "{tool}", "args": {{}}}}]}}, "state_diff": {{{diff}}}"#
        ))
    }

    fn scored(self, tool: &str, score: f64) -> Self {
        self.step(&format!(
            r#""decision": {{"mode": "act", "actions": [{{"name": "{tool}"}}]}},
            "critic_outputs": [{{"critic_name": "C", "action": "continue", "score": {score}}}]"#
        ))
    }

    fn event(mut self, line: &str) -> Self {
        self.events.push(line.to_owned());
        self
    }

    /// Ends the run for `reason`. For a budget, the END event names the step that never began.
    fn ended(self, reason: &str) -> Self {
        let (budget, steps) = (reason.starts_with("budget_"), self.steps.len());
        let step = if budget {
            steps
        } else {
            steps.saturating_sub(1)
        };
        let line = format!(
            r#"{{"step_id": {step}, "phase": "END", "ok": {}, "payload": {{"stop_reason": "{reason}"}}}}"#,
            !budget
        );
        let manifest = format!(
            r#"{{"status": "completed", "token_usage": 0, "summary": {{"stop_reason": "{reason}"}}}}"#
        );
        Self {
            manifest,
            ..self.event(&line)
        }
    }

    fn index(&self) -> Index {
        let mut names = Names::default();
        let heads = |(at, line): (usize, &String)| {
            let head = crate::format::step_head(line.as_bytes(), &mut names).0;
            StepHead {
                line: at as u64 + 1,
                ..head
            }
        };
        let mut delta = Delta {
            steps: self.steps.iter().enumerate().map(heads).collect(),
            ..Delta::default()
        };
        for line in &self.events {
            let (head, note, _) = crate::format::event_head(line.as_bytes(), &mut names);
            delta.events.push((head, note));
        }
        if !self.manifest.is_empty() {
            let manifest = crate::format::manifest(self.manifest.as_bytes()).unwrap().0;
            delta.manifest = Some(ManifestState::Read(Box::new(manifest)));
        }
        delta.names = names.since(0).to_vec();
        let mut index = Index::default();
        index.apply(delta);
        index
    }

    fn explained(&self) -> (Summary, Why) {
        let index = self.index();
        let outside = ExternalFacts {
            now: 1_000_000_000_000,
            written: Some((0, 0)),
            ..ExternalFacts::default()
        };
        let summary = summary(&RunKey::new("r"), String::new(), &index, outside);
        assert_eq!(life(&index, outside), summary.life);
        let why = why(&summary, &index, &Gone);
        (summary, why)
    }

    fn chain(&self, mark: RunStatus, reason: &str) -> Vec<(PatternKind, usize, usize, String)> {
        let found = patterns_before_stop(&self.index(), mark, Some(reason));
        found
            .into_iter()
            .map(|pattern| (pattern.kind, pattern.first, pattern.last, pattern.text))
            .collect()
    }
}

fn calls(tools: &str) -> Run {
    tools.chars().fold(Run::default(), |run, tool| {
        run.call(&tool.to_string(), "plan")
    })
}

#[test]
fn repeated_calls_are_found_with_their_first_step() {
    let limit = |tools: &str| calls(tools).chain(RunStatus::Limit, "budget_steps");
    let one = |tools: &str| {
        limit(tools)
            .pop()
            .map(|(_, first, last, text)| (first, last, text))
    };
    let said = |first, last, text: &str| Some((first, last, text.to_owned()));
    assert_eq!(
        one("xaaa"),
        said(
            1,
            3,
            "Starting at step 1, the same call was made 3 times in a row: a()"
        )
    );
    assert_eq!(one("aa"), None);
    assert_eq!(
        one("xabab"),
        said(
            1,
            4,
            "Starting at step 1, two calls alternated for 4 steps: a(), b()"
        )
    );
    // The first call comes first, whichever one the run ends with.
    assert_eq!(
        one("xababa"),
        said(
            1,
            5,
            "Starting at step 1, two calls alternated for 5 steps: a(), b()"
        )
    );
    assert_eq!(one("aba"), None);
    assert_eq!(
        one("abcabca"),
        said(
            0,
            6,
            "Starting at step 0, three calls alternated for 7 steps: a(), b(), c()"
        )
    );
    assert_eq!(one("abcab"), None);
    assert_eq!(one("aaab"), None, "the loop was left before the end");
}

#[test]
fn what_the_index_cut_is_like_nothing_else() {
    let nested =
        r#""decision": {"mode": "act", "actions": [{"name": "w", "args": {"rows": [1]}}]}"#;
    let several = r#""decision": {"mode": "act", "actions": [{"name": "w"}, {"name": "v"}]}"#;
    for step in [nested, several] {
        let run = (0..5).fold(Run::default(), |run, _| {
            run.step(&format!(r#"{step}, "state_diff": {{"a": 1}}"#))
        });
        assert_eq!(run.chain(RunStatus::Limit, "budget_steps"), [], "{step}");
    }
}

#[test]
fn waits_answers_and_texts_that_are_not_understood_have_their_own_words() {
    let words = |step: &str| {
        let run = (0..5).fold(Run::default(), |run, _| run.step(step));
        run.chain(RunStatus::Limit, "budget_steps")
            .into_iter()
            .map(|(.., text)| text)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(r#""decision": {"mode": "wait", "rationale": "not yet"}"#),
        ["Starting at step 0, the agent did nothing but wait for 5 steps"]
    );
    assert_eq!(
        words(r#""decision": {"mode": "wait", "meta": {"parser_error": {"code": "x"}}}"#),
        ["Starting at step 0, 5 model replies in a row couldn't be parsed"]
    );
    assert_eq!(
        words(r#""decision": {"mode": "final", "final_answer": "42"}"#),
        ["Starting at step 0, the same answer was given 5 times in a row"]
    );
}

#[test]
fn a_chain_explains_some_ends_and_no_others() {
    let looped = calls("aaaa");
    assert_eq!(looped.chain(RunStatus::Answered, "final"), []);
    assert_eq!(looped.chain(RunStatus::Stopped, "agent_condition"), []);
    assert_eq!(looped.chain(RunStatus::Running, ""), []);
    assert_eq!(looped.chain(RunStatus::Died, "").len(), 1);
    let idle = (0..3).fold(Run::default(), |run, n| run.call(&n.to_string(), ""));
    assert_eq!(
        idle.chain(RunStatus::Limit, "stagnation")[0].0,
        PatternKind::Idle
    );
    assert_eq!(idle.chain(RunStatus::Died, ""), []);
    // The loop is the better description.
    let both = (0..3).fold(Run::default(), |run, _| run.call("a", ""));
    assert_eq!(
        both.chain(RunStatus::Limit, "stagnation")
            .iter()
            .map(|found| found.0)
            .collect::<Vec<_>>(),
        [PatternKind::Same]
    );
}

#[test]
fn scores_that_fall_explain_a_critic_and_requests_that_grow_a_token_budget() {
    let falls = |scores: &[f64]| {
        let run = scores
            .iter()
            .enumerate()
            .fold(Run::default(), |run, (n, score)| {
                run.scored(&n.to_string(), *score)
            });
        run.chain(RunStatus::Critic, "critic_stop")
            .into_iter()
            .find(|found| found.0 == PatternKind::Fall)
            .map(|found| found.3)
    };
    assert_eq!(
        falls(&[0.2, 0.9, 0.7, 0.5]).as_deref(),
        Some("Starting at step 1, C's scores fell from 0.90 to 0.50")
    );
    assert_eq!(falls(&[0.9, 0.8, 0.7]), None, "by no more than 0.3");
    assert_eq!(falls(&[0.9, 0.1]), None, "one drop isn't a trend");
    assert_eq!(falls(&[0.9, 0.5, 0.5]), None);
    let grows = |tokens: &[u64], reason: &str| {
        let step = |run: Run, (n, input): (usize, &u64)| {
            run.step(&format!(
                r#""decision": {{"mode": "act", "actions": [{{"name": "{n}"}}]}}, "state_diff": {{"a": 1}},
                "context": {{"input_tokens_total": {input}}}"#
            ))
        };
        let run = tokens.iter().enumerate().fold(Run::default(), step);
        run.chain(RunStatus::Limit, reason)
            .pop()
            .map(|found| found.3)
    };
    let said = "Starting at step 0, requests grew from 100 to 250 tokens";
    assert_eq!(
        grows(&[100, 150, 250], "budget_tokens").as_deref(),
        Some(said)
    );
    assert_eq!(
        grows(&[100, 150, 250], "context_overflow").as_deref(),
        Some(said)
    );
    assert_eq!(grows(&[100, 150, 250], "budget_steps"), None);
    assert_eq!(grows(&[100, 150, 190], "budget_tokens"), None);
}

#[test]
fn only_the_newest_run_of_a_directory_counts() {
    let mut run = calls("aa");
    let again = calls("ab");
    let init = r#"{"step_id": 0, "phase": "INIT", "payload": {}}"#.to_owned();
    run.steps.extend(again.steps);
    run.events.insert(0, init.clone());
    run.events.push(init);
    run.events.extend(again.events);
    assert_eq!(run.chain(RunStatus::Limit, "budget_steps"), []);
}

#[test]
fn the_first_trouble_is_the_earliest_sign() {
    let trouble = |run: Run| {
        run.explained()
            .1
            .first_trouble
            .map(|trouble| (trouble.step, trouble.text))
    };
    let said = |step, text: &str| Some((Some(step), text.to_owned()));
    // Steps that don't change the state.
    let calls = |tools: &str| {
        let idle = |run: Run, tool: char| run.call(&tool.to_string(), "");
        tools.chars().fold(Run::default(), idle)
    };
    assert_eq!(trouble(calls("abc")), None);
    assert_eq!(
        trouble(calls("xaaa")),
        said(1, "the same call repeats: a()")
    );
    let failed = r#""decision": {"mode": "act"}, "action_results": [{"status": "error", "error": "no file"}]"#;
    assert_eq!(
        trouble(calls("ab").step(failed)),
        said(2, "a tool failed: no file")
    );
    let code = r#""decision": {"mode": "act"}, "action_results": [{"status": "success", "returncode": 2}]"#;
    assert_eq!(
        trouble(calls("a").step(code).step(failed)),
        said(1, "a command exited with code 2")
    );
    assert_eq!(
        trouble(Run::default().scored("a", 0.9).scored("b", 0.5)),
        said(1, "C 0.90 → 0.50")
    );
    assert_eq!(
        trouble(Run::default().scored("a", 0.9).scored("b", 0.6)),
        None
    );
    // A different scale isn't compared with ours.
    assert_eq!(
        trouble(Run::default().scored("a", 9.0).scored("b", 0.6)),
        None
    );
    let retry =
        r#""decision": {"mode": "act"}, "critic_outputs": [{"action": "retry", "reason": "thin"}]"#;
    assert_eq!(
        trouble(calls("a").step(retry)),
        said(1, "critic 1 requested a retry: thin")
    );
    let two = r#""decision": {"mode": "act"}, "critic_outputs": [
        {"critic_name": "neighbour", "action": "retry", "reason": "not straight", "score": 0.4},
        {"critic_name": "botanist", "action": "stop", "reason": "birds nest in it", "score": 0.2}]"#;
    assert_eq!(
        trouble(calls("a").step(two)),
        said(
            1,
            "neighbour requested a retry: not straight; botanist requested a stop"
        )
    );
    // It shows later than the error, but began earlier.
    let looped = calls("aa").step(
        r#""decision": {"mode": "act", "actions": [{"name": "a", "args": {}}]},
        "action_results": [{"status": "error", "error": "no file"}]"#,
    );
    assert_eq!(trouble(looped), said(0, "the same call repeats: a()"));
    let waited = (0..9).fold(Run::default(), |run, _| {
        run.step(r#""decision": {"mode": "wait"}"#)
    });
    assert_eq!(trouble(waited), None, "waiting isn't trouble");
    // Three equal calls that each change the state, such as moves, and three that only count.
    let thrice = |key| (0..3).fold(Run::default(), |run, _| run.call("a", key));
    assert_eq!(trouble(thrice("place")), None);
    for key in ["current_step", "scratchpad"] {
        assert_eq!(
            trouble(thrice(key)),
            said(0, "the same call repeats: a()"),
            "{key}"
        );
    }
}

#[test]
fn an_error_in_a_step_without_a_line_is_trouble_too() {
    let opens = r#"{"step_id": 1, "phase": "DECIDE", "payload": {"stage": "state_ready"}}"#;
    let error =
        r#"{"step_id": 1, "phase": "DECIDE_ERROR", "ok": false, "error": "lost", "payload": {}}"#;
    let (_, why) = calls("a").event(opens).event(error).explained();
    assert_eq!(
        why.first_trouble,
        Some(Trouble {
            step: None,
            event: Some(2),
            text: "lost".to_owned(),
            command: None,
            repeats: false
        })
    );
}

/// A step that runs `command` in a shell. Its output is an error if `code` isn't 0.
fn shell(run: Run, command: &str, code: i64, printed: &str) -> Run {
    run.step(&format!(
        r#""decision": {{"mode": "act", "actions": [{{"name": "bash", "args": {{"command": "{command}"}}}}]}},
        "action_results": [{{"status": "success", "output": {{"returncode": {code}, "stdout": "{printed}"}}}}]"#
    ))
}

#[test]
fn trouble_names_the_command_and_quotes_the_line_that_tells_most() {
    let trouble = |run: Run| run.explained().1.first_trouble.unwrap();
    let printed = r"collecting\nFAILED a.py::test_b - assert 1 == 2\n== 1 failed in 0.1s ==\nbye";
    let run = shell(Run::default(), r"make\n  test", 2, printed);
    let first = trouble(run);
    assert_eq!(
        first.text,
        "`make test` exited with code 2: FAILED a.py::test_b - assert 1 == 2"
    );
    assert_eq!(
        first.parts(),
        (
            Some("make test"),
            " exited with code 2: FAILED a.py::test_b - assert 1 == 2"
        )
    );
    // A number says nothing that the code doesn't.
    let run = shell(Run::default(), "false", 1, "1");
    assert_eq!(trouble(run).text, "`false` exited with code 1");
    let failed = |error: &str| {
        trouble(Run::default().step(&format!(
            r#""decision": {{"mode": "act", "actions": [{{"name": "edit", "args": {{"command": "str_replace"}}}}]}},
            "action_results": [{{"status": "error", "error": "{error}"}}]"#
        )))
    };
    let edit = failed(r"String not found.\nString: error: x");
    assert_eq!(edit.text, "edit failed: String not found.");
    let edit = failed(r"String not found.\nIt occurs nowhere.");
    assert_eq!(
        (edit.text.as_str(), edit.command),
        ("edit failed: String not found.", None)
    );
    assert_eq!(failed("edit: no file").text, "edit: no file");
}

#[test]
fn a_failed_command_passed_later_only_if_the_same_command_succeeded() {
    let words = |commands: &[(&str, i64)]| {
        let run = commands
            .iter()
            .fold(Run::default(), |run, (command, code)| {
                shell(run, command, *code, "x")
            });
        run.explained().1.failed_commands.map(FailedCommands::words)
    };
    let told = |commands: &[(&str, i64)]| words(commands).unwrap_or_default();
    assert_eq!(words(&[("a", 0), ("b", 0)]), None);
    assert_eq!(
        told(&[("a", 1), ("a -v", 0)]),
        "1 command failed and never passed"
    );
    assert_eq!(
        told(&[("make  x", 1), ("make x ", 0)]),
        "1 command failed once, then passed"
    );
    // It passed before it failed.
    assert_eq!(
        told(&[("a", 1), ("a", 0), ("a", 1)]),
        "1 command failed and never passed"
    );
    let two = [("a", 1), ("b", 1), ("c", 1), ("a", 1)];
    assert_eq!(told(&two), "3 different commands failed, none passed later");
    let two = [("a", 1), ("b", 1), ("c", 1), ("a", 0), ("b", 0)];
    assert_eq!(told(&two), "3 different commands failed, 2 passed later");
    let each = [("a", 1), ("b", 1), ("b", 0), ("a", 0)];
    assert_eq!(
        told(&each),
        "2 different commands failed, each passed later"
    );
}

#[test]
fn a_run_that_answers_after_mostly_failed_steps_says_so() {
    let run = |failed: usize, passed: usize| {
        let run = (0..failed).fold(Run::default(), |run, n| {
            shell(run, &format!("a {n}"), 1, "no")
        });
        let run = (0..passed).fold(run, |run, n| shell(run, &format!("b {n}"), 0, "yes"));
        run.step(r#""decision": {"mode": "final", "final_answer": "I give up."}"#)
            .ended("final")
    };
    let second = |run: Run| run.explained().1.second;
    assert_eq!(second(run(8, 0)), "8 of 9 steps failed.");
    assert_eq!(second(run(3, 1)), "3 of 5 steps failed.");
    assert_eq!(second(run(3, 2)), "", "half of the steps");
    assert_eq!(second(run(2, 0)), "", "two steps are no series");
    let success = Run {
        manifest: r#"{"status": "completed", "summary": {"stop_reason": "final", "task_result": {"success": true}}}"#.to_owned(),
        ..run(8, 0)
    };
    assert_eq!(success.explained().0.success, Some(true));
    assert_eq!(second(success), "", "success is recorded");
}

/// Returns `run` with a different manifest.
fn with(run: &Run, manifest: &str) -> Run {
    Run {
        manifest: manifest.to_owned(),
        ..Run::of(run)
    }
}

#[test]
fn each_contradiction_says_what_says_what() {
    let told = |run: &Run, manifest: &str| with(run, manifest).explained().1.contradictions;
    let ended = calls("a").ended("final");
    assert_eq!(
        told(
            &ended,
            r#"{"status": "completed", "summary": {"stop_reason": "final", "task_result": {"success": false}}}"#
        ),
        [
            "The stop reason final implies an answer, but success is recorded as false",
            "The stop reason final implies an answer, but no file has one",
        ]
    );
    assert_eq!(
        told(
            &ended,
            r#"{"status": "completed", "summary": {"stop_reason": "budget_steps", "final_result": "x"}}"#
        ),
        [
            "The files disagree on how the run ended: budget_steps (manifest.json /summary/stop_reason), \
          final (events.jsonl:0 /payload/stop_reason)"
        ]
    );
    let stopped = calls("a").ended("critic_stop");
    assert_eq!(
        told(
            &stopped,
            r#"{"status": "completed", "summary": {"stop_reason": "critic_stop", "final_result": "x"}}"#
        ),
        [
            "The stop reason critic_stop implies that a critic stopped the run, but none requested a stop",
            "A critic stopped the run, but the manifest has a final result"
        ]
    );
    assert_eq!(
        told(
            &ended,
            r#"{"status": "running", "summary": {"final_result": "x"}}"#
        ),
        [
            "The manifest still records status running, but the END event records that the run ended with final"
        ]
    );
    let board = |stop: &str| {
        let manifest = r#"{"writer": "board 0.1.0", "status": "completed", "summary": {"final_result": "x"}, "stop": STOP}"#;
        told(&ended, &manifest.replace("STOP", stop))
    };
    assert_eq!(
        board(
            r#"{"code": "final", "criterion": "decision", "source": "decision", "step": 7, "stop_reason": "final"}"#
        ),
        ["The verdict names step 7 as the last one, but no file records it"]
    );
    let by_steps = r#"{"writer": "board 0.1.0", "status": "completed", "stop": {"code": "max_steps",
        "criterion": "stop[0]", "source": "policy", "step": 0, "measured": 1, "limit": 8, "op": ">=", "unit": "steps"}}"#;
    assert_eq!(
        told(&calls("a").ended("budget_steps"), by_steps),
        [
            "The verdict of stop[0] implies that a limit was reached, but the trace records 1 of 8 steps"
        ]
    );
    let checked = calls("a").event(CHECKED).ended("final");
    assert_eq!(
        told(
            &checked,
            r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#
        ),
        [
            "The files disagree on how the run ended: final (manifest.json /summary/stop_reason, events.jsonl:0 /payload/stop_reason), \
          stagnation (events.jsonl:0 /payload/stop_reason)"
        ]
    );
}

const CHECKED: &str = r#"{"step_id": 0, "phase": "CHECK_STOP", "payload": {"stage": "stop", "stop_reason": "stagnation"}}"#;

#[test]
fn a_status_contradicts_an_end_that_its_writer_gives_another() {
    let told = |status: &str, reason: &str| {
        let manifest = format!(
            r#"{{"status": "{status}", "summary": {{"stop_reason": "{reason}", "final_result": "x"}}}}"#
        );
        with(&calls("a").ended(reason), &manifest)
            .explained()
            .1
            .contradictions
    };
    for (status, reason) in [
        ("completed", "final"),
        ("completed", "budget_steps"),
        ("completed", "stagnation"),
        ("completed", "context_overflow"),
        ("failed", "unrecoverable_error"),
        ("stopped", "cancelled_immediate"),
        ("completed", "a_new_word"),
        ("a new status", "final"),
    ] {
        assert_eq!(told(status, reason), [""; 0], "{status} and {reason}");
    }
    for (status, reason, says) in [
        ("failed", "final", "it ended well"),
        ("failed", "budget_tokens", "a limit ended it"),
        ("stopped", "stagnation", "it was stopped"),
        ("completed", "unrecoverable_error", "an error ended it"),
    ] {
        let words =
            format!("The status is {status}, but the stop reason {reason} implies that {says}");
        assert_eq!(told(status, reason), [words]);
    }
}

#[test]
fn tokens_of_the_manifest_are_held_against_the_steps() {
    let step = |mode: &str, tokens: u64| {
        format!(r#""decision": {{"mode": "{mode}"}}, "context": {{"tokens_total": {tokens}}}"#)
    };
    let run = Run::default()
        .step(&step("act", 2534))
        .step(&step("final", 0))
        .ended("final");
    let told = |layout: &str, tokens: u64| {
        let manifest = format!(
            r#"{{{layout} "status": "completed", "token_usage": {tokens}, "summary": {{"stop_reason": "final", "final_result": "x"}}}}"#
        );
        with(&run, &manifest).explained().1.contradictions
    };
    assert_eq!(told("", 2534), [""; 0]);
    assert_eq!(
        told("", 7602),
        [
            "The files disagree on the tokens: 7,602 (manifest.json /token_usage), 2,534 (the sum of the steps)"
        ]
    );
    assert_eq!(
        told(r#""writer": "board 1","#, 2600),
        [""; 0],
        "critics of board's engine call models too"
    );
}

/// Returns how the evidence words a verdict of board's engine about a run of one step.
fn rule_evidence(stop: &str) -> Vec<String> {
    let end = format!(
        r#"{{"step_id": 0, "phase": "END", "ok": false, "error": "e", "payload": {{"stop": {stop}}}}}"#
    );
    let manifest = format!(r#"{{"writer": "board 0.1.0", "status": "completed", "stop": {stop}}}"#);
    let (_, why) = with(&calls("a").event(&end), &manifest).explained();
    let of_rules = why
        .evidence
        .into_iter()
        .filter(|piece| piece.kind == Kind::Rule);
    of_rules.map(|piece| piece.text).collect()
}

#[test]
fn a_completion_rule_that_fails_accepts_nothing() {
    let by = |rest: &str| {
        rule_evidence(&format!(
            r#"{{"criterion": "short", "source": "completion", "gate": "after_step", "step": 0, {rest}}}"#
        ))
    };
    assert_eq!(
        by(r#""code": "short", "outcome": "completed", "detail": "its condition is true""#),
        ["Accepted by the rule short: its condition is true"]
    );
    assert_eq!(
        by(r#""code": "criterion_error", "outcome": "failed", "detail": "panicked: x""#),
        ["Stopped by the rule short (criterion_error): panicked: x"]
    );
}

#[test]
fn a_code_is_not_worded_as_the_stop_reason() {
    let by = |code: &str, reason: &str| {
        rule_evidence(&format!(
            r#"{{"criterion": "{code}", "source": "error", "step": 0, "code": "{code}", "stop_reason": "{reason}", "detail": "why"}}"#
        ))
    };
    assert_eq!(
        by("recovery_exhausted", "unrecoverable_error"),
        ["Stop reason unrecoverable_error (recovery_exhausted): why"]
    );
    assert_eq!(by("final", "final"), ["Stop reason final: why"]);
}

impl Run {
    fn of(run: &Run) -> Self {
        Self {
            steps: run.steps.clone(),
            events: run.events.clone(),
            manifest: run.manifest.clone(),
        }
    }
}
