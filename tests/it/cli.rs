//! Do the commands say what a person or a script expects? Streams and exit codes of the real binary.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::soak::times;

/// What a command left behind.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn board(args: &[&str]) -> Said {
    let output = Command::new(BINARY)
        .args(args)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn in_corpus(name: &str) -> String {
    corpus().join(name).display().to_string()
}

/// An error: nothing on stdout, `code`, and lines of the one agreed shape on stderr.
#[track_caller]
fn fails(said: &Said, code: i32) {
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (code, ""),
        "{}",
        said.stderr
    );
    let mut lines = said.stderr.lines();
    assert!(
        lines.next().is_some_and(|line| line.starts_with("board: ")),
        "{}",
        said.stderr
    );
    assert!(
        lines.all(|line| line.starts_with("because: ") || line.starts_with("hint: ")),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
}

#[test]
fn every_command_stands_in_the_docs() {
    let help = board(&["--help"]).stdout;
    let commands = help
        .split_once("Commands:\n")
        .and_then(|(_, rest)| rest.split_once("\n\n"))
        .unwrap()
        .0;
    let names: Vec<_> = commands
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"serve") && names.len() > 10, "{help}");
    let using =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/using.md")).unwrap();
    let missing = |name: &&str| *name != "help" && !using.contains(&format!("| `board {name} "));
    assert_eq!(
        names.into_iter().filter(missing).collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
}

#[test]
fn every_command_is_completed_and_has_a_manual_page() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = board(&["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (0, ""));
        assert!(
            ["whatif", "sessions", "completions"]
                .iter()
                .all(|word| script.stdout.contains(word)),
            "{shell}"
        );
    }
    let page = board(&["man"]).stdout;
    assert!(
        page.contains(".TH board 1") && page.contains("board\\-why(1)"),
        "{page}"
    );
    let page = board(&["man", "why"]).stdout;
    assert!(
        page.contains(&format!(
            ".TH board-why 1 \" \" \"board {}\" board\n",
            env!("CARGO_PKG_VERSION")
        )),
        "{page}"
    );
    assert!(
        page.contains(".TH board-why 1") && page.contains("\\-\\-prices"),
        "{page}"
    );
    fails(&board(&["man", "nothing"]), 2);
}

#[test]
fn an_object_store_is_no_directory() {
    for args in [
        &["list", "s3://x/y"][..],
        &["search", "s3://x/y", "text"],
        &["table", "runs", "s3://x/y"],
        &["why", "s3://x/y/run"],
        &["diff", "s3://x/y/run", "s3://x/y/run"],
    ] {
        let said = board(args);
        fails(&said, 2);
        assert!(
            said.stderr
                .contains("only `board serve` and `board mcp` read"),
            "{args:?}: {}",
            said.stderr
        );
        assert!(
            said.stderr
                .contains("hint: show its runs on pages: board serve s3://x/y"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn help_of_every_command() {
    let help = |args: &[&str]| {
        let said = board(args);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""));
        said.stdout
    };
    insta::assert_snapshot!(help(&["--help"]), @r#"
    A local, read-only inspection board for the traces of agent runs

    Usage: board <COMMAND>

    Commands:
      serve        Serve the web board until Ctrl-C
      list         List the runs below a directory, one line each
      search       Search the text of all runs
      show         Show a run, one of its steps, or its events
      state        Show the state after a step, or how one value of it came to be
      why          Say why a run stopped, what shows it, and how every rule stood
      whatif       Say where other stop rules would have ended runs, from what is recorded
      scores       Print critic scores by step, one column per critic
      diff         Say where two runs part, and what differs in settings and numbers; exit code 1 where anything does
      check        Say what is wrong with the files of runs; exit code 1 where anything is
      export       Write a run as one HTML page that needs nothing else, as an ATIF trajectory, or as a trace of OpenTelemetry
      table        Print all runs or all steps as rows for DuckDB, ClickHouse, Spark and others, or keep them in a directory
      demo         Write demo runs: recordings of agents, one for every way a run can end
      mcp          Answer a coding agent's questions about runs, as a Model Context Protocol server on stdin and stdout
      run          Run an agent that a file describes, and record it; exit code 1 where it did not complete
      completions  Print a script that completes commands and options in a shell
      man          Print the manual page of board, or of one of its commands, for man
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Exit codes: 0 done; 1 the answer is no; 2 wrong usage; 3 not found or unreadable; 70 a bug.
    "#);
    insta::assert_snapshot!(help(&["serve", "--help"]), @r#"
    Serve the web board until Ctrl-C

    Usage: board serve [OPTIONS] [ROOT]...

    Arguments:
      [ROOT]...  Directories with runs in them, at any depth up to 8; one that is not there yet is waited for. s3://BUCKET/PREFIX, gs://BUCKET/PREFIX and az://CONTAINER/PREFIX are in object stores, with the credentials that the tools of their cloud use. Without any, those of the settings, else ./runs

    Options:
          --sessions              Show the sessions that Claude Code, Codex, Gemini CLI and Qwen Code keep in this user's home too
          --host <HOST>           The address to listen on [default: 127.0.0.1]
          --port <PORT>           The port to listen on; 0 takes a free one [default: 8765]
          --token <TOKEN>         Ask for this token, 16 characters or more; BOARD_TOKEN keeps it out of the list of processes. Made and printed where others can reach the address
          --open                  Open the board in the browser
          --poll <SECONDS>        Look at every file this often instead of waiting for the system to tell of changes
          --no-cache              Keep no notes between starts; every run is read at the start
          --s3-every <SECONDS>    List roots in object stores (s3://, gs://, az://) this often, or as often as --s3-requests allows [default: 10]
          --s3-requests <NUMBER>  Send at most this many requests a minute to list such a root; each lists 1,000 objects [default: 60]
          --s3-cache <SIZE>       Keep at most this much of each such root on this machine: 500MB, 20GB [default: 10GB]
          --config <FILE>         Settings, in TOML; without it those in ~/.config/board/config.toml
          --prices <FILE>         Prices of models for a million tokens, in TOML or JSON, to estimate costs that are not recorded
      -h, --help                  Print help
    "#);
    insta::assert_snapshot!(help(&["list", "--help"]), @r#"
    List the runs below a directory, one line each

    Usage: board list [OPTIONS] [ROOT] [QUERY]

    Arguments:
      [ROOT]   The directory to look in, at any depth up to 8; or one file that holds runs [default: ./runs]
      [QUERY]  Only runs that match, in quotes: 'steps>5 -stop:final'

    Options:
          --sort <FIELD>   The order, by a field below that can be sorted by; with `-` before it, reversed [default: updated]
          --group <FIELD>  Put runs together by project, parent or task, each group with what its runs add up to
          --csv            Print CSV: all fields of the JSON, in the order of the list
          --json           Print one JSON document
          --config <FILE>  Settings, in TOML; without it those in ~/.config/board/config.toml
          --prices <FILE>  Prices of models for a million tokens, in TOML or JSON, to estimate costs that are not recorded
      -h, --help           Print help

    A query is words and terms, all of which must match:
      stop:final,success  outcome:failed  liveness:running  tool:run_tests  model:qwen  critic:retry
      steps>5  score<0.5  duration>2m  tokens:1k..20k  started:2026-02-22  err:true  -term  "two words"
    Its fields:
      run path run_id manifest_status liveness outcome status stop verdict verdict_second
      contradictions certainty steps events segments errors max_steps max_steps_from tokens input
      cached output reasoning untold tokens_estimated model_calls calls tool_errors cost cost_recorded
      cost_estimated duration duration_at_least score critic model models title task parent
      continues format writer project turns children files started updated issues
      problems partial duplicate_of also_at copies_say copied_from copied agent tool err
      state.KEY changed
    Of these, not to be sorted by:
      path verdict verdict_second tokens_estimated critic models title task partial also_at
      copies_say agent tool err state.KEY
    "#);
    insta::assert_snapshot!(help(&["search", "--help"]), @r#"
    Search the text of all runs

    Usage: board search [OPTIONS] [ROOT] <TEXT>

    Arguments:
      [ROOT]  The directory to look in, at any depth up to 8 [default: ./runs]
      [TEXT]  The text, which may begin with a dash

    Options:
          --in <QUERY>  Only runs that match, as for `board list`: 'steps>5 -stop:final'
          --json        Print one JSON document
      -h, --help        Print help

    Looks into every text, key and number of manifest.json, steps.jsonl and events.jsonl, or of the file of another
    tool, escapes resolved. Letters from a to z match in either case. Exit code 1 where nothing is found. What is not searched
    is named: lines and records of more than 8 MB, and what a document of more than 16 MB says beside its records.
    "#);
    insta::assert_snapshot!(help(&["show", "--help"]), @r#"
    Show a run, one of its steps, or its events

    Usage: board show [OPTIONS] <RUN>

    Arguments:
      <RUN>  A run: its directory, its file, or its part of a file (LOG.eval/ID_epoch_N), as `board list` prints it

    Options:
          --step <N>         One step in full, by its ordinal, from 0
          --events           The events, of the run or of the step
          --format <FORMAT>  How to print; md is a transcript for pasting [default: text] [possible values: text, md, json]
          --json             Print one JSON document; the same as `--format json`
          --config <FILE>    Settings, in TOML; without it those in ~/.config/board/config.toml
          --prices <FILE>    Prices of models for a million tokens, in TOML or JSON, to estimate costs that are not recorded
      -h, --help             Print help
    "#);
    insta::assert_snapshot!(help(&["why", "--help"]), @r#"
    Say why a run stopped, what shows it, and how every rule stood

    Usage: board why [OPTIONS] <RUN>

    Arguments:
      <RUN>  A run: its directory, its file, or its part of a file (LOG.eval/ID_epoch_N), as `board list` prints it

    Options:
          --json           Print one JSON document
          --config <FILE>  Settings, in TOML; without it those in ~/.config/board/config.toml
          --prices <FILE>  Prices of models for a million tokens, in TOML or JSON, to estimate costs that are not recorded
      -h, --help           Print help
    "#);
    insta::assert_snapshot!(help(&["scores", "--help"]), @r#"
    Print critic scores by step, one column per critic

    Usage: board scores [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  A run: its directory, its file, or its part of a file (LOG.eval/ID_epoch_N), as `board list` prints it

    Options:
          --csv   Print CSV, every number as it is recorded
          --json  Print one JSON document
      -h, --help  Print help
    "#);
    insta::assert_snapshot!(help(&["check", "--help"]), @r#"
    Say what is wrong with the files of runs; exit code 1 where anything is

    Usage: board check [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  A run: its directory, its file, or its part of a file (LOG.eval/ID_epoch_N), as `board list` prints it

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    "#);
    insta::assert_snapshot!(help(&["diff", "--help"]), @r#"
    Say where two runs part, and what differs in settings and numbers; exit code 1 where anything does

    Usage: board diff [OPTIONS] <RUN> <RUN>

    Arguments:
      <RUN>  A run: its directory, its file, or its part of a file (LOG.eval/ID_epoch_N), as `board list` prints it
      <RUN>  The other run

    Options:
          --json           Print one JSON document
          --config <FILE>  Settings, in TOML; without it those in ~/.config/board/config.toml
          --prices <FILE>  Prices of models for a million tokens, in TOML or JSON, to estimate costs that are not recorded
      -h, --help           Print help
    "#);
    insta::assert_snapshot!(help(&["whatif", "--help"]), @r#"
    Say where other stop rules would have ended runs, from what is recorded

    Usage: board whatif [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  A run: its directory, its file, or its part of a file (LOG.eval/ID_epoch_N), as `board list` prints it

    Options:
          --rule <RULE>    A rule to ask; repeatable
          --json           Print one JSON document
          --config <FILE>  Settings, in TOML; without it those in ~/.config/board/config.toml
          --prices <FILE>  Prices of models for a million tokens, in TOML or JSON, to estimate costs that are not recorded
      -h, --help           Print help

    A rule is name=value or JSON:
      max_steps=N                        completed steps >= steps
      max_rounds=N                       decisions >= rounds
      token_budget=N                     tokens sent and received > max_total
      max_cost=USD                       dollars that completed steps cost >= usd
      max_runtime=SECONDS                time at the step's end >= seconds
      timeout=SECONDS                    time at the decision > seconds
      stagnation=N                       steps in a row that left the state as the step before them did >= steps
      loop_detection=N                   equal texts in a row >= window
      consecutive_errors=N               failed steps in a row >= max
      critic_below=NAME:SCORE[:STEPS]    scores in a row < score, steps of them
      final_result                       the final result is not empty
      structured_output[=SCHEMA.json]    the answer, or a fenced block of it, is JSON and fits the schema
      keyword=TEXT                       the answer holds the keyword
      content_match=REGEX                the model's text, not empty, matches
      stop_on_tool=NAME                  an action has exactly this name
      {"type":"any_of","of":[RULE, ..]}  one member is true
      {"type":"all_of","of":[RULE, ..]}  every member that is not off is true
    "#);
    let demo = help(&["demo", "--help"]);
    let (usage, scenarios) = demo
        .split_once("Scenarios:\n")
        .expect("the help lists the scenarios");
    assert_eq!(scenarios.lines().count(), crate::programs::SCENARIOS.len());
    insta::assert_snapshot!(usage, @r#"
    Write demo runs: recordings of agents, one for every way a run can end

    Usage: board demo [OPTIONS] [ROOT]

    Arguments:
      [ROOT]  The directory that gets a directory for each run [default: ./runs]

    Options:
          --scenario <NAME>  Only this scenario; may be given several times
          --live             Replay one scenario in real time, to be watched on the board; Ctrl-C writes the rest at once
          --json             Print one JSON document
      -h, --help             Print help
    "#);
    insta::assert_snapshot!(help(&["run", "-h"]), @r#"
    Run an agent that a file describes, and record it; exit code 1 where it did not complete

    Usage: board run [OPTIONS] <AGENT.toml> [TASK]

    Arguments:
      <AGENT.toml>  The file that describes the agent
      [TASK]        What the agent is to do; `-` reads it from stdin, and without it the file's [task] counts

    Options:
          --runs <ROOT>   The directory to write the run's directory into [default: ./runs; of a branch, where its run lies]
          --resume <RUN>  Go on with a recorded run in its own directory; files are as they are found
          --from <STEP>   Instead, begin a new run with the steps before STEP
          --json          Print one JSON document
      -h, --help          Print help (see more with '--help')
    "#);
}

#[test]
fn what_is_not_there_is_named() {
    for command in ["list", "show", "check"] {
        let said = board(&[command, "no/such/place"]);
        fails(&said, 3);
        assert!(said.stderr.contains("no/such/place"), "{}", said.stderr);
    }
}

#[test]
fn wrong_usage_is_2() {
    for args in [
        &["no-such-command"][..],
        &["show"],
        &["list", "--no-such-option"],
        &["serve", "--port", "many"],
    ] {
        let said = board(args);
        assert_eq!(
            (said.code, said.stdout.as_str()),
            (2, ""),
            "{args:?}: {}",
            said.stderr
        );
        assert!(!said.stderr.is_empty());
    }
}

#[test]
fn a_root_that_is_a_file_is_refused() {
    let file = in_corpus("README.md");
    for command in ["list", "serve"] {
        let said = board(&[command, &file]);
        fails(&said, 3);
        assert!(said.stderr.contains("README.md"), "{}", said.stderr);
    }
}

#[test]
fn a_port_in_use_is_refused_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = board(&["serve", &in_corpus("q060"), "--port", &port]);
    fails(&said, 3);
    assert!(
        said.stderr.contains(&port) && said.stderr.contains("hint: "),
        "{}",
        said.stderr
    );
}

#[test]
fn two_boards_on_one_port_do_not_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = Board::serve(dir.path());
    let said = board(&[
        "serve",
        &dir.path().display().to_string(),
        "--port",
        &first.address.port().to_string(),
    ]);
    fails(&said, 3);
}

#[test]
fn list_names_every_run() {
    let said = board(&["list", &in_corpus("q030")]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    for name in [
        "q030_sigkill",
        "q030_task_validation_failed",
        "q030_unrecoverable_decide",
    ] {
        assert_eq!(
            said.stdout
                .lines()
                .filter(|line| line.contains(name))
                .count(),
            1,
            "{}",
            said.stdout
        );
    }
    assert!(said.stdout.ends_with("3 runs\n"), "{}", said.stdout);
}

#[test]
fn list_takes_a_query() {
    let said = board(&["list", &in_corpus("q060"), "stop:cancelled_immediate"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        said.stdout.contains("q060_cancel_immediate"),
        "{}",
        said.stdout
    );
    assert!(!said.stdout.contains("q060_sigkill"), "{}", said.stdout);
}

#[test]
fn json_is_one_document_and_nothing_else() {
    let runs = ["list", &in_corpus("q060"), "--json"].map(str::to_owned);
    let run = ["show", &in_corpus("q060/q060_handoff"), "--json"].map(str::to_owned);
    let issues = ["check", &in_corpus("q060/q060_handoff"), "--json"].map(str::to_owned);
    for args in [runs, run, issues] {
        let said = board(&args.each_ref().map(String::as_str));
        assert!(said.code <= 1, "{args:?}: {}", said.stderr);
        serde_json::from_str::<Value>(&said.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}"));
    }
}

#[test]
fn show_tells_a_step_in_full() {
    let run = in_corpus("q060/q060_handoff");
    let said = board(&["show", &run, "--step", "0"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let beyond = board(&["show", &run, "--step", "7"]);
    fails(&beyond, 3);
    assert!(beyond.stderr.contains('7'), "{}", beyond.stderr);
}

#[test]
fn check_answers_no_where_there_is_damage() {
    let clean = board(&["check", &in_corpus("q060/q060_minimal")]);
    assert_eq!(clean.code, 0, "{}{}", clean.stdout, clean.stderr);
    let torn = board(&["check", &in_corpus("q060/q060_partial_line_events")]);
    assert_eq!(torn.code, 1, "{}{}", torn.stdout, torn.stderr);
    assert!(torn.stdout.contains("events.jsonl"), "{}", torn.stdout);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let many = tempfile::tempdir().unwrap();
    for n in 0..times(800, 2_000) {
        let dir = many.path().join(format!(
            "run-{n:04}-with-a-name-long-enough-to-fill-the-pipe-soon"
        ));
        fs::create_dir(&dir).unwrap();
        fs::copy(
            corpus().join("q060/q060_minimal/manifest.json"),
            dir.join("manifest.json"),
        )
        .unwrap();
    }
    let mut child = Command::new(BINARY)
        .arg("list")
        .arg(many.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap().as_str()
        ),
        (Some(0), "")
    );
}

#[cfg(unix)]
#[test]
fn what_may_not_be_read_is_said() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    copy(
        &corpus().join("q060/q060_minimal"),
        &dir.path().join("good"),
    );
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&locked).is_ok();
    let said = board(&["list", &dir.path().display().to_string()]);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("good"), "{}", said.stdout);
    // Nothing is locked to the superuser.
    assert!(is_root || said.stderr.contains("locked"), "{}", said.stderr);
}

#[test]
fn plain_text_has_no_colour_where_it_is_not_wanted() {
    let said = board(&["list", &in_corpus("q060")]);
    assert!(!said.stdout.contains('\u{1b}'));
    assert!(Path::new(BINARY).is_file());
}
