//! Tests histories of Aider.

use std::fs;
use std::path::{Path, PathBuf};

use trace_board::analysis::life::ExternalFacts;
use trace_board::analysis::summary::summary;
use trace_board::model::RunKey;
use trace_board::trace::{RootScanner, RunDir};

use super::truth::sessions;
use super::{read, sample};

fn history() -> PathBuf {
    sample("tools/aider/.aider.chat.history.md")
}

fn session(time: &str) -> super::Read {
    read(&history().join(format!("2026-05-04_{time}")))
}

/// Returns the names of the sessions in the history in this directory.
fn listed(dir: &Path) -> Vec<String> {
    let found = RootScanner::new(dir.to_owned()).scan();
    let mut keys: Vec<String> = found
        .runs
        .keys()
        .map(|key| {
            key.as_str()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    keys.sort();
    keys
}

#[test]
fn a_history_has_the_sessions_with_a_prompt() {
    assert_eq!(
        listed(&sample("tools/aider")),
        ["09-00-00", "09-30-00", "09-40-00", "09-50-00"].map(|time| format!("2026-05-04_{time}"))
    );
}

#[test]
fn edits_are_calls_with_what_became_of_them() {
    let run = session("09-00-00");
    let row = &run.row;
    assert_eq!((row.steps, row.turns), (3, Some(2)));
    assert_eq!((row.tool_calls, row.tool_errors), (Some(3), Some(1)));
    // 1,290, 1,560, 1,608.
    assert_eq!(row.tokens, Some(4_458));
    assert_eq!(row.changed, ["files.NOTES.md", "files.split.py"]);
    let manifest = run.index.manifest().get().expect("a manifest");
    assert_eq!(manifest.model.as_deref(), Some("openai/glm-5"));
    assert_eq!(manifest.run_id.as_deref(), Some("2026-05-04T09:00:00"));
    let cost = manifest.cost_usd.expect("a cost");
    assert!((cost - 0.004).abs() < 1e-9, "{cost}");
    assert_eq!(run.step(0)["context"]["cached_tokens"], 200);
    let results = &run.step(0)["action_results"];
    assert_eq!(
        (&results[0]["status"], &results[1]["status"]),
        (&"error".into(), &"success".into())
    );
    assert!(
        results[0]["error"]
            .as_str()
            .expect("a reason")
            .starts_with("SearchReplaceNoExactMatch: "),
        "{results}"
    );
    let call = run.step(1)["actions"][0].to_string();
    assert!(
        call.contains(r#""path":"split.py""#) && call.contains("divmod"),
        "{call}"
    );
    let said = &run.step(0)["model_response"]["text"];
    assert_eq!(*said, "The rest has to be spread, and the notes say so:");
    // What looks like a message of the program or the user is inside the block.
    let call = run.step(0)["actions"][1].to_string();
    assert!(
        call.contains("> No cent gets lost.") && call.contains("#### Title"),
        "{call}"
    );
}

#[test]
fn how_a_session_ended_is_what_the_program_said_last() {
    let verdict = |time: &str| {
        let verdict = session(time).row.verdict.clone();
        (
            verdict.outcome.as_str(),
            verdict.certainty.as_str(),
            verdict.sentence,
        )
    };
    // An interruption after the answer stopped nothing.
    let (outcome, certainty, said) = verdict("09-00-00");
    assert_eq!((outcome, certainty), ("completed", "inferred"), "{said}");
    let (outcome, certainty, said) = verdict("09-30-00");
    assert_eq!((outcome, certainty), ("truncated", "recorded"));
    assert!(said.starts_with("Token limit reached"), "{said}");
    let (outcome, certainty, said) = verdict("09-40-00");
    assert_eq!((outcome, certainty), ("failed", "recorded"));
    assert!(said.starts_with("API error"), "{said}");
    assert_eq!(session("09-40-00").row.steps, 0);
    let (outcome, _, said) = verdict("09-50-00");
    assert_eq!(outcome, "cancelled", "{said}");
}

#[test]
fn only_the_last_session_grows() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(".aider.chat.history.md");
    let text = fs::read_to_string(history()).expect("the sample");
    let mut seen = 0;
    for end in text
        .match_indices('\n')
        .map(|(at, _)| at + 1)
        .chain([text.len()])
    {
        fs::write(&path, &text[..end]).expect("written");
        let names = listed(temp.path());
        assert!(names.len() >= seen, "{end}");
        seen = names.len();
        let first = names.first().filter(|_| seen > 1);
        if let Some(first) = first {
            assert_eq!(read(&path.join(first)).row.tokens, Some(4_458), "{end}");
        }
    }
    assert_eq!(seen, 4);
}

#[test]
fn a_message_whose_lines_all_have_a_mark_is_one() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(".aider.chat.history.md");
    let text = fs::read_to_string(history()).expect("the sample");
    let (before, rest) = text.split_once("> # 1 ").expect("a message");
    let (message, after) = rest.split_once("re-send them.").expect("its end");
    let marked: Vec<String> = format!("# 1 {message}re-send them.")
        .lines()
        .map(|line| format!("> {}  ", line.trim()))
        .collect();
    fs::write(&path, format!("{before}{}{after}", marked.join("\n"))).expect("written");
    let row = read(&path.join("2026-05-04_09-00-00")).row;
    assert_eq!((row.steps, row.tool_errors), (3, Some(1)));
    assert_eq!(row.changed, ["files.NOTES.md", "files.split.py"]);
}

#[test]
fn a_damaged_history_is_read_as_far_as_it_goes() {
    let whole = fs::read(history()).expect("the sample");
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(".aider.chat.history.md");
    for (at, byte) in (0..whole.len())
        .step_by(17)
        .zip([0, b'>', b'\n', 0xff].iter().cycle())
    {
        let mut spoilt = whole.clone();
        spoilt[at] = *byte;
        fs::write(&path, spoilt).expect("written");
        for name in listed(temp.path()) {
            let run = read(&path.join(name));
            (0..run.index.steps().len()).for_each(|n| assert!(run.step(n).is_object()));
        }
    }
}

#[test]
fn another_markdown_file_is_no_history() {
    let temp = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("README.md", "# aider chat started at 2026-05-04 09:00:00\n"),
        (
            ".aider.chat.history.md",
            "# aider chat started at some time\n",
        ),
        (".aider.chat.history.md", "# Title\n"),
    ] {
        let path = temp.path().join(name);
        fs::write(&path, text).expect("written");
        assert!(
            RunDir::of_file(&path).expect("readable").is_none(),
            "{text}"
        );
    }
}

#[test]
fn real_sessions_agree_with_what_is_known_of_them() {
    for session in sessions("aider") {
        let text = fs::read(session.join("truth.json")).expect("read");
        let truth: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let project = session.join("project");
        let names = listed(&project);
        assert_eq!(names.len(), 1, "{names:?}");
        let row = read(&project.join(".aider.chat.history.md").join(&names[0])).row;
        let files: Vec<String> = truth["files_changed"]
            .as_array()
            .expect("files")
            .iter()
            .map(|file| format!("files.{}", file.as_str().expect("a path")))
            .collect();
        // The request for the message of each commit isn't in the history.
        let replies = truth["model_calls"].as_u64().expect("a count") - files.len() as u64;
        let failed = truth["edit_blocks_failed"].as_u64().unwrap_or_default();
        let outcome = match truth["stop"].as_str().expect("a reason") {
            "finished" => "completed",
            stop if stop.starts_with("output limit") => "truncated",
            _ => "failed",
        };
        assert_eq!(
            (
                row.steps as u64,
                row.tool_errors,
                &*row.changed,
                row.verdict.outcome.as_str()
            ),
            (replies, Some(failed), &*files, outcome),
            "{}",
            session.display()
        );
    }
}

/// Reads a session of these lines after its head.
fn written(lines: &str) -> (tempfile::TempDir, super::Read) {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(".aider.chat.history.md");
    let head = "# aider chat started at 2026-05-04 09:00:00\n\n#### Fix it.  \n\n";
    fs::write(&path, format!("{head}{lines}")).expect("written");
    let run = read(&path.join("2026-05-04_09-00-00"));
    (temp, run)
}

#[test]
fn an_empty_reply_is_a_step_with_its_tokens() {
    let (_temp, run) = written(
        "> Empty response received from LLM. Check your provider account?  \n> Tokens: 2.4k sent, 0 received.  \n",
    );
    let row = &run.row;
    assert_eq!((row.steps, row.tokens), (1, Some(2_400)));
    assert_eq!(
        &*row.verdict.sentence,
        "The model's reply was empty after step 0"
    );
}

#[test]
fn an_interrupted_reply_has_its_text_so_far() {
    let (_temp, run) = written("> ^C again to exit  \n\nA long story begins here. A\n\n");
    assert_eq!(run.row.steps, 1);
    assert_eq!(run.row.verdict.outcome.as_str(), "cancelled");
    // The next prompt is answered.
    let (_temp, run) = written(
        "> ^C again to exit  \n\nA long story\n\n#### Go on.  \n\nDone.\n\n> Tokens: 10 sent, 4 received.  \n",
    );
    assert_eq!(run.row.verdict.outcome.as_str(), "completed");
}

#[test]
fn a_correction_can_be_interrupted_too() {
    let (_temp, run) = written(
        "Done.\n\n> Tokens: 10 sent, 4 received.  \n> # 1 SEARCH/REPLACE block failed to match!  \n\n> ^C again to exit  \n\nOnce mo\n\n",
    );
    assert_eq!(run.row.verdict.outcome.as_str(), "cancelled");
}

#[test]
fn a_question_can_be_asked_again() {
    let asked = "Done.\n\n> Tokens: 10 sent, 4 received.  \n\n";
    let (_temp, run) = written(&format!(
        "{asked}#### /ask What is this?  \n\n{asked}#### What is this?  \n\n{asked}"
    ));
    assert_eq!((run.row.turns, run.row.steps), (Some(3), 3));
}

#[test]
fn a_question_that_the_program_repeats_is_one_prompt() {
    let (_temp, run) = written(
        "Done.\n\n> Tokens: 10 sent, 4 received.  \n\n#### /ask What is this?  \n\n#### What is this?  \n\nA file.\n\n> Tokens: 137 sent, 4 received.  \n",
    );
    assert_eq!((run.row.turns, run.row.steps), (Some(2), 2));
}

#[test]
fn a_reply_that_the_editors_model_gets_is_no_prompt() {
    let (_temp, run) = written(
        "Put one\n\ninto notes.\n\n> Tokens: 10 sent, 4 received.  \n\n#### Put one  \n####   \n#### into notes.  \n\nDone.\n\n> Tokens: 137 sent, 4 received.  \n",
    );
    assert_eq!((run.row.turns, run.row.steps), (Some(1), 2));
}

#[test]
fn a_session_with_only_a_command_has_it_as_its_title() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join(".aider.chat.history.md");
    let head = "# aider chat started at 2026-05-04 09:00:00\n\n#### /undo  \n> The last commit was not made by aider.  \n";
    fs::write(&path, head).expect("written");
    let row = read(&path.join("2026-05-04_09-00-00")).row;
    assert_eq!(
        (&*row.titles, row.turns),
        (&["/undo".to_owned()][..], Some(0))
    );
}

#[test]
fn a_path_may_have_spaces() {
    let block = |above: &str| {
        format!(
            "Many.\n\n{above}\n```\n<<<<<<< SEARCH\n=======\na\n>>>>>>> REPLACE\n```\n\n> Tokens: 10 sent, 4 received.  \n"
        )
    };
    let patch = r"<<<<<<< SEARCH\n=======\na\n>>>>>>> REPLACE";
    let said = |above: &str, path: &str| {
        let (_temp, run) = written(&format!("{}> Applied edit to {path}  \n", block(above)));
        let text = run.step(0)["model_response"]["text"].clone();
        (calls(&run, 0), run.row.changed.to_vec(), text)
    };
    let edit = |path: &str| {
        (
            vec![format!(
                r#""edit" {{"patch":"{patch}","path":"{path}"}} "success""#
            )],
            vec![format!("files.{path}")],
            serde_json::Value::from("Many."),
        )
    };
    assert_eq!(
        said("neu/файл 1.md", "neu/файл 1.md"),
        edit("neu/файл 1.md")
    );
    // The program takes the path from the words.
    assert_eq!(said("Update split.py", "split.py"), edit("split.py"));
}

/// Returns the calls of a step, each with the status of its result.
fn calls(run: &super::Read, n: usize) -> Vec<String> {
    let step = run.step(n);
    let (calls, results) = (&step["actions"], &step["action_results"]);
    let calls = calls.as_array().expect("calls").iter().enumerate();
    calls
        .map(|(n, call)| format!("{} {} {}", call["name"], call["args"], results[n]["status"]))
        .collect()
}

#[test]
fn edits_in_other_formats_are_calls_with_the_messages_about_their_files() {
    let whole = "The whole file:\n\nsplit.py\n```python\nx = 1\n```\n\n> Tokens: 1.2k sent, 90 received.  \n> Applied edit to split.py  \n";
    let (_temp, run) = written(whole);
    assert_eq!(run.row.changed, ["files.split.py"]);
    assert_eq!(
        calls(&run, 0),
        [r#""write" {"content":"x = 1\n","path":"split.py"} "success""#]
    );
    // An example isn't an edit.
    let (_temp, run) =
        written("Run this:\n\n```sh\nmake\n```\n\n> Tokens: 1.2k sent, 90 received.  \n");
    assert_eq!((run.row.tool_calls, run.row.steps), (Some(0), 1));

    let patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch\n\n";
    let (_temp, run) = written(&format!(
        "{patch}> Updating a.py  \n> Adding b.py  \n> Applied edit to a.py  \n> Applied edit to b.py  \n"
    ));
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(2), Some(0))
    );
    assert_eq!(run.row.changed, ["files.a.py", "files.b.py"]);
    assert!(calls(&run, 0)[1].contains("*** Add File: b.py\\n+z"));
    let failed = "> The LLM did not conform to the edit format.  \n> Error applying action 'Update' to a.py: Could not find it  \n";
    let (_temp, run) = written(&format!("{patch}{failed}"));
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(1), Some(1))
    );
    assert!(run.row.changed.is_empty());
    let refused = "> Error parsing patch content: Unknown line  \n";
    let (_temp, run) = written(&format!("{patch}{refused}"));
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(2), Some(2))
    );
}

#[test]
fn an_edit_that_the_user_declines_is_cancelled() {
    let block = "New file.\n\nother.py\n```python\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n```\n\n";
    let asked = "> Tokens: 2.4k sent, 23 received.  \n> other.py  \n> Create new file? (Y)es/(N)o [Yes]: n  \n";
    let whole = "New file.\n\nother.py\n```python\nx = 1\n```\n\n";
    for (reply, message) in [
        (block, "Skipping edits to other.py"),
        (whole, "Skipping edits to other.py"),
        (
            block,
            "Skipping edits to other.py that matches gitignore spec.",
        ),
        (block, "Did not apply edit to other.py (--dry-run)"),
    ] {
        let (_temp, run) = written(&format!("{reply}{asked}> {message}  \n\n"));
        let row = &run.row;
        assert_eq!(
            (row.tool_calls, row.tool_errors),
            (Some(1), Some(0)),
            "{message}"
        );
        assert!(row.changed.is_empty(), "{message}");
        let result = &run.step(0)["action_results"][0];
        assert_eq!(
            (&result["status"], &result["error"]),
            (&"cancelled".into(), &"declined".into())
        );
    }
}

#[test]
fn a_session_is_over_once_the_user_ends_the_program() {
    let waits = |lines: &str| {
        let (_temp, run) = written(lines);
        let manifest = run.index.manifest().get().expect("a manifest");
        (manifest.awaits_user, run.row.verdict.outcome.as_str())
    };
    let reply = "Fixed.\n\n> Tokens: 2.4k sent, 23 received.  \n\n";
    assert_eq!(waits(reply), (true, "completed"));
    for exit in ["/exit", "/quit"] {
        assert_eq!(
            waits(&format!("{reply}#### {exit}  \n")),
            (false, "completed")
        );
        assert_eq!(waits(&format!("#### {exit}  \n")), (false, "unknown"));
    }
    let killed = "> ^C again to exit  \n> ^C KeyboardInterrupt  \n";
    assert_eq!(waits(killed), (false, "cancelled"));
}

#[test]
fn a_session_that_retries_its_first_request_waits_for_the_model() {
    let failed =
        "> litellm.InternalServerError: stub is broken  \n> Retrying in 0.2 seconds...  \n";
    let (_temp, run) = written(failed);
    let now = run.index.last_ts().expect("a time") + 1_000_000;
    let outside = ExternalFacts {
        now,
        ..ExternalFacts::default()
    };
    let row = summary(&RunKey::new("run"), String::new(), &run.index, outside);
    assert_eq!(
        &*row.verdict.sentence,
        "Waiting for the model's first reply"
    );
}

#[test]
fn the_format_of_the_edits_decides_what_a_block_is() {
    let reply = "I fix it.\n\ncalc.py\n```python\n<<<<<<< SEARCH\na - b\n=======\na + b\n>>>>>>> REPLACE\n```\n\nNOTES.md\n```\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n```\n\n> Tokens: 629 sent, 61 received.  \n> Applied edit to NOTES.md  \n> Applied edit to calc.py  \n";
    let names = |run: &super::Read| -> Vec<String> {
        let step = run.step(0);
        let calls = step["actions"].as_array().expect("calls");
        calls
            .iter()
            .map(|call| format!("{} {}", call["name"], call["args"]["path"]))
            .collect()
    };
    for head in [
        "> Model: openai/glm-5 with whole edit format  \n\n",
        "> Model: openai/glm-5 with whole edit format, prompt cache  \n\n",
        "> Model: openai/glm-5 with architect edit format  \n> Editor model: openai/glm-5 with editor-whole edit format  \n\n",
    ] {
        let (_temp, run) = written(&format!("{head}{reply}"));
        assert_eq!(
            names(&run),
            [r#""write" "NOTES.md""#, r#""write" "calc.py""#]
        );
        let content = &run.step(0)["actions"][1]["args"]["content"];
        assert_eq!(
            content,
            "<<<<<<< SEARCH\na - b\n=======\na + b\n>>>>>>> REPLACE\n"
        );
        assert_eq!(run.row.tool_errors, Some(0));
    }
    let head = "> Main model: openai/glm-5 with diff edit format, infinite output  \n> Weak model: openai/glm-5  \n\n";
    for head in [head, ""] {
        let (_temp, run) = written(&format!("{head}{reply}"));
        assert_eq!(names(&run), [r#""edit" "calc.py""#, r#""edit" "NOTES.md""#]);
    }
}

#[test]
fn a_unified_diff_whose_hunks_do_not_match_is_a_failed_call() {
    let reply = "```diff\n--- a.py\n+++ a.py\n@@ @@\n-x\n+y\n--- b.py\n+++ b.py\n@@ @@\n+z\n```\n\n> Tokens: 1.2k sent, 90 received.  \n";
    let (_temp, run) = written(&format!(
        "{reply}> Applied edit to a.py  \n> Applied edit to b.py  \n"
    ));
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(2), Some(0))
    );
    assert_eq!(run.row.changed, ["files.a.py", "files.b.py"]);
    let failed = "> The LLM did not conform to the edit format.  \n> https://aider.chat/docs/troubleshooting/edit-errors.html  \n> UnifiedDiffNoMatch: hunk failed to apply!\n\na.py does not contain lines that match the diff you provided!\nTry again.\n\na.py does not contain these 1 exact lines in a row:\n```\nx\n```  \n";
    let (_temp, run) = written(&format!("{reply}{failed}\nOnce more.\n"));
    assert_eq!((run.row.steps, run.row.turns), (2, Some(1)));
    assert_eq!(
        (run.row.tool_calls, run.row.tool_errors),
        (Some(2), Some(1))
    );
    assert_eq!(run.row.changed, ["files.b.py"]);
    let error = &run.step(0)["action_results"][0]["error"];
    assert_eq!(error, "UnifiedDiffNoMatch: hunk failed to apply!");
}
