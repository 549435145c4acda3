//! Tests which sessions wait for their user: samples, unchanged or with lines removed, at several
//! times after their last line.

use std::fs;
use std::path::Path;

use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::summary::{Summary, summary};
use trace_board::model::RunKey;

use super::{read, sample};

const CLAUDE: &str = "tools/claude-code/-home-me-ledger/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
const CODEX: &str = "tools/codex/sessions/2026/05/04/rollout-2026-05-04T09-00-00-019df000-0000-7000-8000-0000000000a1.jsonl";
const GEMINI: &str = "tools/gemini/chats/session-2026-05-04T09-00-3b0c1d2e.jsonl";
const QWEN: &str = "tools/qwen/chats/7a1b2c3d-0000-4000-8000-0000000000d1.jsonl";

/// Returns the row of the changed sample, `minutes` after its last line.
fn row(name: &str, minutes: i64, change: impl Fn(String) -> String) -> Summary {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp
        .path()
        .join(Path::new(name).file_name().expect("a name"));
    let text = fs::read_to_string(sample(name)).expect("the sample");
    fs::write(&path, change(text)).expect("written");
    let run = read(&path);
    let now = run.index.last_ts().expect("a time") + minutes * 60_000_000;
    summary(
        &RunKey::new("run"),
        String::new(),
        &run.index,
        ExternalFacts {
            now,
            ..ExternalFacts::default()
        },
    )
}

fn liveness(name: &str, minutes: i64, change: impl Fn(String) -> String) -> &'static str {
    row(name, minutes, change).life.liveness.word()
}

/// Removes the lines that contain these words.
fn without(words: &'static str) -> impl Fn(String) -> String {
    move |text| {
        text.lines()
            .filter(|line| !line.contains(words))
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

#[test]
fn an_answered_session_waits_until_that_is_long_ago() {
    let open = without("cost-state");
    assert_eq!(
        [0, 59, 61].map(|minutes| liveness(CLAUDE, minutes, &open)),
        ["waiting", "waiting", "unknown"]
    );
    let waiting = row(CLAUDE, 5, &open);
    assert_eq!(
        (
            waiting.verdict.mark.word(),
            waiting.verdict.certainty.as_str()
        ),
        ("answered", "inferred")
    );
    assert!(!waiting.life.liveness.may_grow() && !waiting.life.liveness.is_over());
    assert_eq!(
        [5, 61].map(|minutes| liveness(QWEN, minutes, |text| text)),
        ["waiting", "unknown"]
    );
}

#[test]
fn a_session_whose_program_is_gone_or_that_nobody_types_into_does_not_wait() {
    assert_eq!(
        liveness(CLAUDE, 5, |text| text),
        "finished",
        "the program recorded its costs when it ended"
    );
    let driven = |text: String| {
        without("cost-state")(text).replace(
            "{\"parentUuid\"",
            "{\"entrypoint\":\"sdk-cli\",\"parentUuid\"",
        )
    };
    assert_eq!(liveness(CLAUDE, 5, driven), "finished");
    let typed = |text: String| {
        without("cost-state")(text)
            .replace("{\"parentUuid\"", "{\"entrypoint\":\"cli\",\"parentUuid\"")
    };
    assert_eq!(liveness(CLAUDE, 5, typed), "waiting");
    assert_eq!(liveness(CODEX, 5, |text| text), "finished");
    let typed = |text: String| text.replace("\"source\":\"exec\"", "\"source\":\"cli\"");
    assert_eq!(
        [5, 61].map(|minutes| liveness(CODEX, minutes, typed)),
        ["waiting", "unknown"]
    );
    let child =
        "tools/qwen/subagents/7a1b2c3d-0000-4000-8000-0000000000d1/agent-general-purpose-c3.jsonl";
    assert_eq!(liveness(child, 5, |text| text), "finished");
}

#[test]
fn a_session_in_the_middle_of_a_turn_does_not_wait() {
    let cut = |text: String| {
        let kept: Vec<&str> = text.lines().collect();
        kept[..kept.len() - 2]
            .iter()
            .map(|line| format!("{line}\n"))
            .collect()
    };
    assert_eq!(
        [0, 100].map(|minutes| liveness(CLAUDE, minutes, cut)),
        ["running", "unknown"]
    );
}

#[test]
fn of_a_file_that_tells_no_end_nobody_says_that_its_run_died() {
    let row = |minutes| row(GEMINI, minutes, |text| text);
    assert_eq!(
        [0, 5, 61].map(|minutes| row(minutes).life.liveness.word()),
        ["waiting", "waiting", "unknown"]
    );
    assert_eq!(
        row(5).verdict.sentence,
        "May be waiting for the user after step 2; no end of turn is recorded"
    );
    assert!(
        row(61)
            .verdict
            .sentence
            .starts_with("No end recorded after step 2")
    );
    assert_eq!(
        [5, 61].map(|minutes| row(minutes).verdict.outcome.as_str()),
        ["unknown", "unknown"]
    );
    let mid_turn = |text: String| without("\"id\":\"g3\"")(text);
    assert_eq!(
        [0, 61].map(|minutes| liveness(GEMINI, minutes, mid_turn)),
        ["running", "unknown"]
    );
    assert_eq!(
        read(&sample("tools/atif/odd.trajectory.json"))
            .row
            .life
            .liveness
            .word(),
        "unknown"
    );
}

#[test]
fn lists_and_queries_say_that_a_session_waits() {
    let temp = tempfile::tempdir().expect("a directory");
    let now = jiff::Timestamp::now().to_string();
    let text = without("cost-state")(fs::read_to_string(sample(CLAUDE)).expect("the sample"));
    let old = fs::read_to_string(sample(CLAUDE)).expect("the sample");
    let stamp = |line: &str| {
        let at = line.find("\"timestamp\":\"").map(|at| at + 13);
        at.map_or_else(
            || line.to_owned(),
            |at| {
                format!(
                    "{}{now}{}",
                    &line[..at],
                    &line[at + line[at..].find('"').unwrap()..]
                )
            },
        )
    };
    fs::write(
        temp.path().join("now.jsonl"),
        text.lines()
            .map(|line| stamp(line) + "\n")
            .collect::<String>(),
    )
    .unwrap();
    fs::write(temp.path().join("then.jsonl"), old).unwrap();
    let said = |query: &str| {
        let board = env!("CARGO_BIN_EXE_board");
        let root = temp.path().to_str().unwrap();
        let output = std::process::Command::new(board)
            .args(["list", "--json", root, query])
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let waiting = said("liveness:waiting");
    assert_eq!(
        (&waiting["matched"], &waiting["runs"][0]["key"]),
        (&1.into(), &"now.jsonl".into())
    );
    assert_eq!(waiting["runs"][0]["liveness"], "waiting");
    assert_eq!(said("liveness:finished")["runs"][0]["key"], "then.jsonl");
}

/// Keeps the lines up to the first that contains these words, and replaces the words.
fn up_to(words: &'static str, instead: &'static str) -> impl Fn(String) -> String {
    move |text| {
        let end = text.find(words).expect("the words");
        let end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        text[..end].replace(words, instead)
    }
}

#[test]
fn a_session_that_asks_its_user_waits_and_did_not_die() {
    let question = "Waiting for the user in step 1: AskUserQuestion has no answer";
    let asks = [
        (
            CLAUDE,
            "\"name\":\"Bash\"",
            "\"name\":\"AskUserQuestion\"",
            question,
        ),
        (
            CLAUDE,
            "\"name\":\"Bash\"",
            "\"name\":\"ExitPlanMode\"",
            "Waiting for the user in step 1: ExitPlanMode has no answer",
        ),
        (
            CODEX,
            "\"name\":\"exec\"",
            "\"name\":\"request_user_input\"",
            "Waiting for the user in step 2: request_user_input has no answer",
        ),
    ];
    for (name, words, instead, sentence) in asks {
        let change = |text: String| {
            up_to(words, instead)(text).replace("\"source\":\"exec\"", "\"source\":\"cli\"")
        };
        let runs = [0, 59, 61, 10_000].map(|minutes| row(name, minutes, change));
        assert_eq!(
            runs.each_ref().map(|run| run.life.liveness.word()),
            ["waiting", "waiting", "unknown", "unknown"]
        );
        for run in &runs {
            let verdict = &run.verdict;
            assert_eq!(
                (
                    verdict.outcome.as_str(),
                    verdict.mark.word(),
                    verdict.certainty.as_str(),
                    verdict.answered
                ),
                ("unknown", "unknown", "inferred", false)
            );
        }
        assert_eq!(runs[1].verdict.sentence, sentence);
        let later = sentence
            .replace("Waiting for the user", "Ends")
            .replace(':', " with a question to the user:");
        assert_eq!(runs[2].verdict.sentence, later);
    }
}

#[test]
fn a_call_that_waits_for_leave_waits_for_the_user_until_it_is_given() {
    let request = "{\"timestamp\":\"2026-05-04T09:00:03.500Z\",\"ordinal\":90,\"type\":\"event_msg\",\"payload\":\
                   {\"type\":\"exec_approval_request\",\"call_id\":\"call_c\",\"command\":[\"rm\"]}}\n";
    let asked = |text: String| {
        up_to("\"call_id\":\"call_c\"", "\"call_id\":\"call_c\"")(text)
            .replace("\"source\":\"exec\"", "\"source\":\"cli\"")
            + request
    };
    let waiting = row(CODEX, 5, asked);
    assert_eq!(waiting.life.liveness.word(), "waiting");
    assert_eq!(
        waiting.verdict.sentence,
        "Waiting for the user in step 1: update_plan has no answer"
    );
    let begun = request
        .replace("exec_approval_request", "exec_command_begin")
        .replace("90", "91");
    assert_eq!(
        liveness(CODEX, 100, |text| asked(text) + &begun),
        "unknown",
        "it got approval and continued"
    );
}

#[test]
fn the_time_until_a_person_approves_a_call_is_known() {
    let codex = sample(CODEX);
    let event_of = |call: &str, seconds: u32, word: &str| {
        format!(
            "{{\"timestamp\":\"2026-05-04T10:00:{seconds:02}.000Z\",\"ordinal\":{seconds},\"type\":\"event_msg\",\
             \"payload\":{{\"type\":\"{word}\",\"call_id\":\"{call}\"}}}}\n"
        )
    };
    let event = |seconds: u32, word: &str| event_of("c", seconds, word);
    let status = |seconds: u32, status: &str| {
        format!(
            "{{\"id\":\"s{seconds}\",\"timestamp\":\"2026-05-04T10:00:{seconds:02}.000000\",\"source\":\"environment\",\
             \"kind\":\"ConversationStateUpdateEvent\",\"key\":\"execution_status\",\"value\":\"{status}\"}}\n"
        )
    };
    let waits = |path: &Path, more: String| {
        let temp = tempfile::tempdir().expect("a directory");
        let file = temp.path().join(path.file_name().expect("a name"));
        let text = fs::read_to_string(path).expect("read");
        fs::write(&file, text + &more).expect("written");
        let index = read(&file).index;
        let waits = index.approvals().iter();
        waits
            .map(|(from, to)| (to - from) / 1_000_000)
            .collect::<Vec<_>>()
    };
    let asks = "exec_approval_request";
    for (more, expected) in [
        (event(10, asks) + &event(25, "exec_command_begin"), vec![15]),
        // A result comes after the command.
        (event(10, asks) + &event(25, "exec_command_end"), vec![]),
        (event(10, asks), vec![]),
        // Calls of one reply: the first is approved last, and the second ends between.
        (
            event(10, asks)
                + &event_of("d", 12, asks)
                + &event_of("d", 20, "exec_command_begin")
                + &event_of("d", 21, "exec_command_end")
                + &event(25, "exec_command_begin"),
            vec![8, 15],
        ),
        // A call that nobody asked for has no wait.
        (
            event(10, asks)
                + &event_of("d", 12, "exec_command_begin")
                + &event(25, "exec_command_begin"),
            vec![15],
        ),
    ] {
        assert_eq!(waits(&codex, more), expected);
    }
    let openhands = sample("tools/openhands/events/events.jsonl");
    let asks = "waiting_for_confirmation";
    let more = status(10, asks) + &status(12, asks) + &status(40, "running") + &status(50, "idle");
    assert_eq!(waits(&openhands, more), [30]);
}

#[test]
fn a_question_that_nobody_is_there_to_answer_is_no_end_and_no_death() {
    let asks = |text: String| {
        let cost = text.lines().last().expect("the costs").to_owned();
        up_to("\"name\":\"Bash\"", "\"name\":\"AskUserQuestion\"")(text) + &cost + "\n"
    };
    let gone = row(CLAUDE, 30, asks);
    assert_eq!(
        (gone.life.liveness.word(), gone.verdict.outcome.as_str()),
        ("unknown", "unknown"),
        "it recorded its costs"
    );
    let runs_on = |text: String| up_to("\"id\":\"toolu_01c\"", "\"id\":\"toolu_01c\"")(text);
    assert_eq!(
        liveness(CLAUDE, 100, runs_on),
        "unknown",
        "a command doesn't wait for anyone"
    );
}

#[test]
fn that_no_end_is_recorded_is_said_once() {
    let certainty = |text: &str| {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("session.jsonl");
        fs::write(&path, text).expect("written");
        let output = std::process::Command::new(crate::board::BINARY)
            .arg("why")
            .arg(&path)
            .env("NO_COLOR", "1")
            .output()
            .expect("it runs");
        let out = String::from_utf8(output.stdout).expect("UTF-8");
        let line = out.lines().find(|line| line.starts_with("certainty"));
        line.unwrap_or_else(|| panic!("{out}")).to_owned()
    };
    let whole = fs::read_to_string(sample(GEMINI)).expect("the sample");
    assert_eq!(certainty(&whole), "certainty  unknown");
    // The sentence is about the truncated line.
    assert_eq!(
        certainty(&(whole + "{\"id\": \"u9\", \"type\": \"us")),
        "certainty  unknown; the trace doesn't record why it ended"
    );
}

#[test]
fn a_line_that_is_cut_may_be_what_the_user_said_next() {
    let open = without("cost-state");
    let next = "{\"parentUuid\":\"x\",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"Now do";
    for end in ["", "\n"] {
        let change = |text: String| open(text) + next + end;
        let runs = [0, 5, 59, 10_000].map(|minutes| row(CLAUDE, minutes, change));
        let words = runs.each_ref().map(|run| run.life.liveness.word());
        assert_eq!((words[0], words[3]), ("running", "unknown"), "{words:?}");
        for run in &runs {
            assert_ne!(
                (run.verdict.mark.word(), run.verdict.outcome.as_str()),
                ("answered", "completed")
            );
            assert!(
                run.life.liveness.word() != "waiting"
                    && run.life.liveness.word() != "died"
                    && !run.verdict.answered
            );
            assert_eq!(
                run.verdict.sentence,
                "Replied at step 4; a truncated line follows, so the session may have continued"
            );
        }
        let verdict = &runs[3].verdict;
        assert_eq!(
            (verdict.outcome.as_str(), verdict.certainty.as_str()),
            ("unknown", "unknown")
        );
    }
    // If only the line end is missing, the record is complete.
    let whole = |text: String| open(text).trim_end().to_owned();
    assert_eq!(row(CLAUDE, 5, whole).verdict.mark.word(), "answered");
    let typed = |text: String| {
        text.replace("\"source\":\"exec\"", "\"source\":\"cli\"") + "{\"timestamp\":\"2026-"
    };
    assert_eq!(
        (liveness(CODEX, 0, typed), liveness(CODEX, 10_000, typed)),
        ("running", "unknown")
    );
}
