//! Tests the output streams and exit codes of the real binary's commands.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::soak::times;

/// The exit code and output of a command.
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

/// Asserts an error: nothing on stdout, exit code `code`, and correctly formatted lines on stderr.
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
fn every_command_is_in_the_docs() {
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
                .contains("hint: serve it instead: board serve s3://x/y"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn an_unknown_scheme_is_no_directory() {
    for args in [
        &["list", "s4://x"][..],
        &["list", "s4://x", "steps>5"],
        &["search", "s4://x", "text"],
        &["search", "s4://x", "text", "--in", "steps>5"],
        &["table", "runs", "s4://x"],
        &["show", "s4://x"],
        &["why", "s4://x"],
        &["state", "s4://x"],
        &["check", "s4://x"],
        &["scores", "s4://x"],
        &["diff", "s4://x", "s4://x"],
        &["whatif", "s4://x", "--rule", "max_steps=8"],
        &["export", "s4://x", "--html", "-"],
        &["serve", "s4://x"],
        &["mcp", "s4://x"],
    ] {
        let said = board(args);
        fails(&said, 2);
        assert!(
            said.stderr
                .contains("s4://x isn't a valid object store address: unknown scheme")
                && said.stderr.contains("hint: use s3://BUCKET/PREFIX"),
            "{args:?}: {}",
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
    A local, read-only viewer for the traces of AI agents

    Usage: board <COMMAND>

    Commands:
      serve        Serve the web interface until Ctrl-C
      list         List the runs in a directory, one per line
      search       Search the text of all runs
      edits        List the newest file edits in all runs
      show         Show a run, one of its steps, or its events
      state        Show the state after a step, or the history of one value
      why          Explain why a run stopped, with evidence and the state of every rule
      whatif       Show where other stop rules would have stopped recorded runs
      scores       Print critic scores by step, one column per critic
      diff         Show where two runs diverge and how they differ; exits with 1 if they do
      check        Check the files of runs for issues and contradictions; exits with 1 if it finds any
      export       Export a run as a self-contained HTML page, an ATIF trajectory, or an OpenTelemetry trace
      table        Print runs or steps as rows for DuckDB, ClickHouse, Spark and others, or keep them as files in a directory
      tag          Tag the runs that match a query, so that `tag:NAME` finds them later
      usage        Print the tokens and the cost of runs, by day, week, month, run, model or project
      overview     Print what changed, and totals by model, task, stop reason, tool and project
      failures     List recurring failures by message and tool, with the runs that they ended
      experiment   Compare two sets of runs: which solves more tasks, at what cost
      demo         Write demo runs: recorded agents that end in many different ways
      mcp          Serve runs to coding agents over the Model Context Protocol on stdin and stdout
      run          Run an agent described by a file and record it; exits with 1 if it doesn't complete
      completions  Print a shell completion script
      man          Print the manual page of board or one of its commands
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Exit codes: 0 success, 1 nothing found (`search`, `tag`), runs differ, issues found, run not completed or condition holds, 2 usage error, 3 not found or unreadable, 70 internal error
    "#);
    insta::assert_snapshot!(help(&["serve", "--help"]), @r#"
    Serve the web interface until Ctrl-C

    Usage: board serve [OPTIONS] [ROOT]...

    Arguments:
      [ROOT]...  Directories with runs, searched up to 8 levels deep; missing ones are picked up once they exist. s3://BUCKET/PREFIX, gs://BUCKET/PREFIX and az://CONTAINER/PREFIX read object stores, with the same credentials as the cloud's own tools [default: the roots in the settings, else ./runs]

    Options:
          --sessions              Also show this user's coding-agent sessions
          --host <HOST>           The address to listen on [default: 127.0.0.1]
          --port <PORT>           The port to listen on; 0 picks a free one [default: 8765]
          --token <TOKEN>         Require this token (at least 16 characters); set BOARD_TOKEN instead to keep it out of the process list. Without a token, one is generated and printed if other machines can reach the address
          --open                  Open board in the browser
          --poll <SECONDS>        Check every file this often instead of watching for changes
          --no-cache              Disable the index cache
          --no-search-index       Don't index messages and tool calls; searches then read all files
          --search-cache <SIZE>   Keep the search index below this size, such as 500MB; removes the oldest runs first [default: 4GB]
          --threads <N>           Read and search runs on at most this many threads [default: one for each core]
          --s3-every <SECONDS>    List each root in an object store this often, or less often if needed to stay within --s3-requests [default: 10]
          --s3-requests <NUMBER>  Send at most this many list requests a minute for each of these roots; each lists 1,000 objects [default: 60]
          --s3-cache <SIZE>       Cache at most this much of each of these roots on this machine, such as 500MB or 20GB [default: 10GB]
          --config <FILE>         Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>         Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices             Don't estimate unrecorded costs
      -h, --help                  Print help
    "#);
    insta::assert_snapshot!(help(&["list", "--help"]), @r#"
    List the runs in a directory, one per line

    Usage: board list [OPTIONS] [ROOT] [QUERY]

    Arguments:
      [ROOT]   A directory to search, up to 8 levels deep, or a file that contains runs [default: ./runs]
      [QUERY]  Show only matching runs; quote the query: 'steps>5 -stop:final'

    Options:
          --since <YYYY-MM-DD>  Only runs that started on this day or later
          --until <YYYY-MM-DD>  Only runs that started on this day or earlier
          --sort <FIELD>        Sort by one of the fields below; a leading `-` reverses the order [default: updated]
          --group <BY>          Group runs, with totals: by day, week, model, status, stop, writer, project, task, log, agent or parent
          --csv                 Print CSV with all fields of the JSON, in the order of the list
          --json                Print one JSON document
          --config <FILE>       Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>       Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices           Don't estimate unrecorded costs
      -h, --help                Print help

    A query consists of words and terms. All must match:
      stop:final,success  outcome:failed  liveness:running  tool:run_tests  model:qwen  critic:retry
      steps>5  score<0.5  duration>2m  tokens:1k..20k  err:true  -term  "two words"
      started:2026-02-22  started:2026-02-01..2026-02-28  updated:7d (in the last 7 days)
      weekday:mon..fri  hour:9..17
      cost:none (not recorded)  -model:none (recorded)
    Fields:
      run                   The run's key: its path relative to the root (JSON: key)
      path                  The path of the run's files
      run_id                The id that the trace records
      manifest_status       The status recorded in manifest.json (JSON: status)
      liveness              Whether the run may still be running: finished, running, stalled, died, …
      outcome               How it ended, in the same terms for all formats: completed, truncated, halted, failed, cancelled, …
      result                How the run turned out, regardless of what stopped it: success, finished, failed, limit, error, cancelled, unknown
      status                The word in lists: succeeded, finished, unsolved (together: answered), limit, error, died, … (JSON: mark)
      stop                  The recorded stop reason (JSON: stop_reason)
      verdict               Why the run stopped, in a sentence
      verdict_second        A second fact about the end, or another problem
      contradictions        The number of contradictions between the run's records
      certainty             Whether the verdict is recorded, inferred or unknown
      steps                 The number of steps
      events                The number of events
      segments              The number of runs recorded in the run's directory, one after another (JSON: segment_count)
      errors                The number of steps with an error
      max_steps             The step limit
      max_steps_from        What set the step limit
      tokens                The tokens used
      input                 The input tokens (JSON: tokens_in)
      cached                The input tokens read from a cache (JSON: tokens_cached)
      output                The output tokens (JSON: tokens_out)
      reasoning             The reasoning tokens (JSON: tokens_reasoning)
      steps_without_tokens  The number of steps that don't record their tokens
      tokens_estimated      Whether the tokens are estimates
      model_calls           The number of model replies
      calls                 The number of tool calls (JSON: tool_calls)
      tool_errors           The number of failed tool calls
      cost                  The cost in US dollars, recorded or estimated (not in JSON)
      cost_recorded         The recorded cost in US dollars (JSON: cost_usd)
      cost_estimated        The cost estimated from tokens and prices
      cost_at_least         A lower bound on the cost: the estimate for the steps whose cost is known
      duration              How long the run took (JSON: duration_ms)
      duration_at_least     The shortest time that the run may have taken, if the exact time is unknown (JSON: duration_at_least_ms)
      score                 The last score of a critic (JSON: last_score)
      critic                The names of the run's critics (JSON: critics)
      model                 The model
      models                The models, if there are several
      title                 The title: the recorded one, else the first line of the task, else the file's name
      task                  The task
      target                The answer that the task expects
      log                   The evaluation log that contains the run
      parent                The parent run, which started this one
      continues             The run that this one continues
      format                The format of the trace
      writer                The program that wrote the trace (JSON: tool)
      project               The project directory
      turns                 The number of turns
      children              The number of child runs
      files                 The number of files that the run changed (JSON: files_changed)
      started               When the run started (JSON: started_at)
      updated               When the run was last active: the last recorded time, or else the time of the files (JSON: updated_at)
      issues                The number of issues in the run's files: problems and notes
      problems              The number of problems: issues that may affect what board shows
      partial               Whether the run is still being indexed
      duplicate_of          The run that has the same records and is counted instead
      cost_in               The run whose recorded cost includes this one's
      also_at               Where the run's duplicates are
      copies_say            How the run's duplicates differ
      copied_from           The run from which the first records are copied
      copied                The number of steps copied from another run (JSON: copied_steps)
      tag                   The tags that the trace records, or that `board tag` added (JSON: tags)
      agent                 The names of the run's agents (not in JSON)
      tool                  The names of the tools that the run called (not in JSON)
      file                  The paths of files that the run edited, as far as the trace records them (not in JSON)
      failure               What failed in the run, without numbers, paths and quoted text (not in JSON)
      err                   Whether a step has an error (not in JSON)
      weekday               The day of the week on which the run started, in your time zone: mon..fri, sat (not in JSON)
      hour                  The hour at which the run started, in your time zone: 0 to 23, 9..17, 22..4 (not in JSON)
      state.KEY changed     Whether a step changed the key of the state
    Fields that don't work with --sort:
      path verdict verdict_second tokens_estimated critic models task target partial also_at
      copies_say tag agent tool file failure err weekday hour state.KEY
    "#);
    insta::assert_snapshot!(help(&["tag", "--help"]), @r#"
    Tag the runs that match a query, so that `tag:NAME` finds them later

    Usage: board tag [OPTIONS] [QUERY] [NAME] [ROOT]...

    Arguments:
      [QUERY]    The runs to tag: a query, as in `board list`
      [NAME]     The tag: 1 to 64 characters, without spaces, commas, quotes, slashes or control characters. Not `none`, and no leading dot
      [ROOT]...  Directories to search, up to 8 levels deep [default: the roots in the settings, else ./runs]

    Options:
          --sessions       Also read this user's coding-agent sessions
          --remove         Remove the tag from these runs, and from their duplicates that match
          --forget <TAG>   Remove this tag from runs whose files no longer exist
          --list           List the tags
          --json           Print one JSON document
          --config <FILE>  Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>  Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices      Don't estimate unrecorded costs
      -h, --help           Print help

    Without QUERY, or with --list, prints the tags and how many runs have each.
    Tags are kept in tags.json in the directory of the settings, by the path and the start of the run. A run that is moved loses them.
    Other tags come with the runs: from manifests, Inspect logs, and directories called tag=NAME.
    "#);
    insta::assert_snapshot!(help(&["search", "--help"]), @r#"
    Search the text of all runs

    Usage: board search [OPTIONS] [ROOT] <TEXT>

    Arguments:
      [ROOT]  The directory to search, up to 8 levels deep [default: ./runs]
      [TEXT]  The text to find; may begin with a dash

    Options:
          --in <QUERY>  Only runs that match a query, as in `board list`: 'steps>5 -stop:final'
          --json        Print one JSON document
      -h, --help        Print help

    Searches all text, keys and numbers in manifest.json, steps.jsonl and events.jsonl, or in the files of other programs,
    with escapes resolved. Case-insensitive for ASCII only. Exits with 1 if nothing is found. Anything that isn't searched is
    listed: lines and records over 8 MiB, and content outside the records of documents over 16 MiB.
    "#);
    insta::assert_snapshot!(help(&["show", "--help"]), @r#"
    Show a run, one of its steps, or its events

    Usage: board show [OPTIONS] <RUN>

    Arguments:
      <RUN>  The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)

    Options:
          --step <N>         Show one step in full; steps are counted from 0
          --steps            List the steps of a session, one per line, instead of its transcript
          --events           Show the events of the run or step
          --format <FORMAT>  The output format; md is a transcript for pasting [default: text] [possible values: text, md, json]
          --json             Print one JSON document; same as `--format json`
          --config <FILE>    Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>    Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices        Don't estimate unrecorded costs
      -h, --help             Print help
    "#);
    insta::assert_snapshot!(help(&["why", "--help"]), @r#"
    Explain why a run stopped, with evidence and the state of every rule

    Usage: board why [OPTIONS] <RUN>

    Arguments:
      <RUN>  The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)

    Options:
          --json           Print one JSON document
          --config <FILE>  Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>  Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices      Don't estimate unrecorded costs
      -h, --help           Print help
    "#);
    insta::assert_snapshot!(help(&["scores", "--help"]), @r#"
    Print critic scores by step, one column per critic

    Usage: board scores [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)

    Options:
          --csv   Print CSV with numbers as recorded
          --json  Print one JSON document
      -h, --help  Print help
    "#);
    insta::assert_snapshot!(help(&["check", "--help"]), @r#"
    Check the files of runs for issues and contradictions; exits with 1 if it finds any

    Usage: board check [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    "#);
    insta::assert_snapshot!(help(&["diff", "--help"]), @r#"
    Show where two runs diverge and how they differ; exits with 1 if they do

    Usage: board diff [OPTIONS] <A> <B>

    Arguments:
      <A>  The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)
      <B>  The other run

    Options:
          --json           Print one JSON document
          --config <FILE>  Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>  Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices      Don't estimate unrecorded costs
      -h, --help           Print help
    "#);
    insta::assert_snapshot!(help(&["whatif", "--help"]), @r#"
    Show where other stop rules would have stopped recorded runs

    Usage: board whatif [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  The path of a run: its directory, its file, or part of a file (LOG.eval/ID_epoch_N)

    Options:
          --rule <RULE>    A rule to evaluate; repeatable
          --json           Print one JSON document
          --config <FILE>  Settings file, in TOML [default: ~/.config/board/config.toml]
          --prices <FILE>  Model prices per million tokens, in TOML or JSON, to estimate unrecorded costs. They override the built-in list prices
          --no-prices      Don't estimate unrecorded costs
      -h, --help           Print help

    A rule is name=value or JSON:
      max_steps=N                        completed steps >= N
      max_rounds=N                       decisions >= N
      token_budget=N                     input and output tokens > N
      max_cost=USD                       cost of completed steps >= USD
      max_runtime=SECONDS                run time at the end of a step >= SECONDS
      timeout=SECONDS                    run time at a decision > SECONDS
      stagnation=N                       steps in a row without a state change >= N
      loop_detection=N                   identical replies or calls in a row >= N
      consecutive_errors=N               failed steps in a row >= N
      critic_below=NAME:SCORE[:STEPS]    scores in a row below SCORE >= STEPS
      final_result                       the final result isn't empty
      structured_output[=SCHEMA.json]    the answer (with `fenced`, also a fenced block in it) is JSON, and matches the schema if there is one
      keyword=TEXT                       the answer contains the keyword
      content_match=REGEX                the model's text isn't empty and matches the pattern
      stop_on_tool=NAME                  an action has exactly this name
      {"type":"any_of","of":[RULE, ..]}  any rule in the list is true; its members are JSON
      {"type":"all_of","of":[RULE, ..]}  all rules in the list are true, except those switched off
    Example of a group:
      {"type":"any_of","of":[{"type":"max_steps","steps":8},{"type":"keyword","keyword":"DONE"}]}
    "#);
    let demo = help(&["demo", "--help"]);
    let (usage, scenarios) = demo
        .split_once("Scenarios:\n")
        .expect("the help lists the scenarios");
    assert_eq!(scenarios.lines().count(), crate::programs::SCENARIOS.len());
    insta::assert_snapshot!(usage, @r#"
    Write demo runs: recorded agents that end in many different ways

    Usage: board demo [OPTIONS] [ROOT]

    Arguments:
      [ROOT]  Where to write the runs, one directory each [default: ./runs]

    Options:
          --scenario <NAME>  Write only this scenario; repeatable
          --live             Replay one scenario in real time, to watch in the browser; Ctrl-C writes the rest at once
          --json             Print one JSON document
      -h, --help             Print help
    "#);
    insta::assert_snapshot!(help(&["run", "-h"]), @r#"
    Run an agent described by a file and record it; exits with 1 if it doesn't complete

    Usage: board run [OPTIONS] <AGENT.toml> [TASK]

    Arguments:
      <AGENT.toml>  The file that describes the agent
      [TASK]        What the agent should do; `-` reads it from stdin [default: the file's [task]]

    Options:
          --runs <ROOT>   Where to create the run's directory [default: ./runs; for a branch, next to the original run]
          --resume <RUN>  Resume a recorded run in its own directory; files in the workspace aren't restored
          --from <STEP>   Instead of resuming, branch from the run: start a new one with the steps before STEP
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
fn a_wrong_number_or_address_is_explained() {
    let run = in_corpus("q060/q060_minimal");
    let run = run.as_str();
    for (args, words) in [
        (
            &["show", run, "--step", "x"][..],
            "must be a whole number ≥ 0",
        ),
        (
            &["serve", "--port", "70000"][..],
            "must be a port number from 0 to 65535",
        ),
        (
            &["serve", "--s3-requests", "0"][..],
            "must be a whole number ≥ 1",
        ),
        (
            &["export", run, "--otlp", "ftp://x/y"][..],
            "can't send to ftp://x/y: ftp isn't supported",
        ),
        (&["search", run, ""][..], "board: the search text is empty"),
    ] {
        let said = board(args);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{args:?}");
        assert!(said.stderr.contains(words), "{args:?}: {}", said.stderr);
    }
}

#[test]
fn a_branch_without_its_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agent.toml");
    let text = "[model]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\napi_key_env = \"\"\n";
    fs::write(&agent, text).unwrap();
    let (agent, runs) = (
        agent.display().to_string(),
        dir.path().join("runs").display().to_string(),
    );
    let said = board(&["run", &agent, "do it", "--from", "3", "--runs", &runs]);
    fails(&said, 2);
    assert!(said.stderr.contains("add --resume RUN"), "{}", said.stderr);
    assert!(!Path::new(&runs).exists(), "nothing was started");
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
fn failures_count_each_failed_step_of_the_list_once() {
    // Of runs that lack records, the list doesn't tell the number of failed steps.
    let known = "errors>=0";
    let runs = in_corpus("q060");
    let list = board(&["list", &runs, known, "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let failed: u64 = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| run["duplicate_of"].is_null())
        .map(|run| run["errors"].as_u64().unwrap())
        .sum();
    let said = board(&["failures", &runs, "--query", known, "--json"]);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    let failures = report["failures"].as_array().unwrap();
    let sum = |key: &str| -> u64 { failures.iter().map(|one| one[key].as_u64().unwrap()).sum() };
    let left_out = report["steps_left_out"].as_u64().unwrap();
    assert!(failed > 10, "{failed}");
    assert_eq!(sum("steps") + left_out, failed);
    assert_eq!(report["steps"], failed);
    assert!(sum("runs_ended") > 0);

    // Each row leads to its runs.
    for one in failures.iter().step_by(times(5, 1)) {
        let term = format!("{known} failure:{}", one["id"].as_str().unwrap());
        let said = board(&["list", &runs, &term, "--json"]);
        let list: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(
            list["runs"].as_array().unwrap().len() as u64,
            one["runs"].as_u64().unwrap(),
            "{term}"
        );
        let next = one["next"].as_object().unwrap();
        let next: u64 = next.values().map(|number| number.as_u64().unwrap()).sum();
        assert!(next >= one["steps"].as_u64().unwrap(), "{one}");
    }
    let id = failures[0]["id"].as_str().unwrap();
    let shown = board(&["failures", &runs, "--show", id]);
    assert!(
        shown.stdout.contains("what happened next"),
        "{}",
        shown.stdout
    );
}

#[test]
fn failures_refuse_unknown_terms_and_ids() {
    let runs = in_corpus("q060");
    fails(&board(&["failures", &runs, "--query", "nonsense:x"]), 2);
    fails(&board(&["failures", &runs, "--show", "000000000000"]), 3);
    fails(&board(&["failures", "/nowhere/at/all"]), 3);
    let none = board(&["failures", &runs, "--query", "run:no-such-run"]);
    assert_eq!(
        (none.code, none.stdout.as_str()),
        (0, "No runs match.\n"),
        "{}",
        none.stderr
    );
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
fn a_damaged_line_at_the_end_is_not_the_last_step() {
    let temp = tempfile::tempdir().unwrap();
    let run = temp.path().join("fix_bug");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/fix_bug");
    copy(&sample, &run);
    let steps = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    fs::write(run.join("steps.jsonl"), steps + "garbage\n").unwrap();
    let said = board(&["check", run.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.stdout.contains("not JSON"), "{}", said.stdout);
    assert!(!said.stdout.contains("ran last"), "{}", said.stdout);
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
    // Root can open locked files.
    assert!(is_root || said.stderr.contains("locked"), "{}", said.stderr);
}

#[test]
fn plain_text_has_no_colour_where_it_is_not_wanted() {
    let said = board(&["list", &in_corpus("q060")]);
    assert!(!said.stdout.contains('\u{1b}'));
    assert!(Path::new(BINARY).is_file());
}
