use std::fs;
use std::io;
use std::path::Path;

use clap::Parser as _;
use insta::assert_snapshot;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::*;

const MANIFEST: &str = r#"{"run_id": "r", "schema_version": "v1", "status": "completed", "updated_at": "1970-01-01T00:00:05+00:00",
    "step_count": 2, "event_count": 7, "summary": {"stop_reason": "final", "final_result": "all\ngood\u001b[31m"}}"#;

const STEPS: &str = r#"{"step_id": 0, "agent_id": "fixer", "decision": {"mode": "act", "actions": [{"name": "run", "args": {"path": "a.py"}}], "rationale": "Try it.\nThen look."}, "actions": [{"name": "run", "args": {"path": "a.py"}}], "action_results": [{"status": "error", "error": "no \u001b[31mfile"}], "critic_outputs": [{"name": "Judge", "action": "retry", "score": 0.25, "reason": "again"}], "state_diff": {"n": {"before": 1, "after": 3}}, "wide": NaN, "nothing": []}
{"step_id": 7, "decision": {"mode": "final", "final_answer": "all\ngood\u001b[31m"}}
"#;

const EVENTS: &str = r#"{"step_id": 0, "phase": "INIT", "ok": true, "payload": {"task": "Fix a.py"}, "error": null, "ts": "1970-01-01T00:00:01+00:00"}
{"step_id": 0, "phase": "DECIDE", "ok": true, "payload": {"stage": "state_ready"}, "error": null, "ts": "1970-01-01T00:00:02+00:00"}
{"step_id": 0, "phase": "ACT", "ok": false, "payload": {"stage": "env_step_error"}, "error": "lost", "ts": "1970-01-01T00:00:02.5+00:00"}
{"step_id": 7, "phase": "DECIDE", "ok": true, "payload": {"stage": "state_ready"}, "error": null, "ts": "1970-01-01T00:00:03+00:00"}

{"step_id": 7, "phase": "CHECK_STOP", "ok": true, "payload": {"stage": "stop", "stop_reason": "final"}, "error": null, "ts": "1970-01-01T00:00:04+00:00"}
torn
{"step_id": 7, "phase": "END", "ok": true, "payload": {"stop_reason": "final"}, "error": null, "ts": "1970-01-01T00:00:05+00:00"}
"#;

fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for run in ["one", "two"] {
        let dir = root.path().join(run);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("manifest.json"), MANIFEST).unwrap();
        fs::write(dir.join("steps.jsonl"), STEPS).unwrap();
        fs::write(dir.join("events.jsonl"), EVENTS).unwrap();
    }
    fs::remove_file(root.path().join("two/events.jsonl")).unwrap();
    fs::create_dir(root.path().join("empty")).unwrap();
    root
}

/// Runs a command and returns its exit code and output, with errors as the program prints them.
/// `ROOT` is replaced by the directory in the arguments and vice versa in the output. `~` stands
/// for a space inside an argument.
fn board(root: &Path, line: &str) -> (u8, String) {
    board_at(root, line, None)
}

/// Runs a command on a terminal of this width.
fn board_at(root: &Path, line: &str, width: Option<usize>) -> (u8, String) {
    let shown = root.to_string_lossy();
    let words = line
        .split_whitespace()
        .map(|word| word.replace("ROOT", &shown).replace('~', " "));
    let args = match Args::try_parse_from(["board".to_owned()].into_iter().chain(words)) {
        Ok(args) => args,
        Err(error) => return (u8::try_from(error.exit_code()).unwrap(), error.to_string()),
    };
    let look = Look {
        colour: false,
        now: 65_000_000,
        zone: TimeZone::UTC,
        width,
    };
    let mut out = Vec::new();
    let code = run(args, &look, &mut out).unwrap_or_else(|error| {
        out.extend_from_slice(format!("board: {error}\n").as_bytes());
        error
            .hints()
            .iter()
            .for_each(|hint| out.extend_from_slice(format!("hint: {hint}\n").as_bytes()));
        error.exit_code()
    });
    (
        code,
        String::from_utf8(out).unwrap().replace(&*shown, "ROOT"),
    )
}

fn json(root: &Path, line: &str) -> Value {
    serde_json::from_str(&board(root, line).1).unwrap()
}

#[test]
fn the_arguments_are_well_formed() {
    use clap::CommandFactory as _;
    Args::command().debug_assert();
}

#[test]
fn a_report_of_usage_takes_relative_dates_from_its_own_clock() {
    let root = root();
    fs::write(root.path().join("none.toml"), "").unwrap();
    for (query, runs) in [("updated:today", 2), ("updated:yesterday", 0)] {
        let line = format!("usage daily ROOT --config ROOT/none.toml --json --query {query}");
        let report = json(root.path(), &line);
        assert_eq!(report["runs_without_usage"], runs, "{query}: {report}");
    }
}

#[test]
fn list_runs() {
    let root = root();
    assert_snapshot!(board(root.path(), "list ROOT --sort run").1, @r#"
    status    run  title     steps  score    updated  verdict
    finished  one  Fix a.py      2   0.25  1 min ago  Answered at step 7 · 3 problems
    finished  two  –             2   0.25  1 min ago  Answered at step 7 · 3 problems
    2 runs
    skipped: empty: contains no trace files
    "#);
    assert_snapshot!(board(root.path(), "list ROOT events>0~-stop:success~nonsense:x").1, @r#"
    board: can't use the term nonsense:x: no field is called `nonsense`. Put the term in quotes to search for its text
    hint: `board list --help` lists all fields
    "#);
    let runs = json(root.path(), "list ROOT two --json");
    assert_eq!(
        (&runs["total"], &runs["matched"], &runs["runs"][0]["key"]),
        (&2.into(), &1.into(), &"two".into())
    );
    assert_eq!(runs["skipped"][0]["path"], "empty");
    assert!(
        board(root.path(), "list ROOT -stop:final")
            .1
            .starts_with("0 of 2 runs\n")
    );
}

#[test]
fn a_list_fits_the_terminal_and_shows_titles() {
    let root = root();
    let deep = root.path().join("projects/-home-me-a-long-name/sessions");
    fs::create_dir_all(&deep).unwrap();
    fs::rename(
        root.path().join("one"),
        deep.join("one-run-with-a-long-name"),
    )
    .unwrap();
    let list = |width| board_at(root.path(), "list ROOT --sort run", Some(width)).1;
    for width in [80, 120, 200] {
        let text = list(width);
        let rows: Vec<&str> = text.lines().take(3).collect();
        assert_eq!(rows.len(), 3);
        for row in &rows {
            assert!(columns::width(row) <= width, "{width}: {row}");
        }
        // All columns begin or end at the same place.
        let head: Vec<char> = rows[0].chars().collect();
        let title = rows[0].find("title").unwrap();
        for row in &rows[1..] {
            let cells: Vec<char> = row.chars().collect();
            assert_eq!(cells[title - 1], ' ', "{width}: {text}");
            assert_ne!(cells[title], ' ', "{width}: {text}");
            // The other run has no events, which record the task.
            assert_eq!(
                row.contains("Fix a.py"),
                row.contains("one-run"),
                "{width}: {text}"
            );
        }
        // The verdict is last, and dropped where the names need the room.
        assert_eq!(
            head.ends_with(&['v', 'e', 'r', 'd', 'i', 'c', 't']),
            width > 80
        );
    }
    assert!(list(200).contains("projects/-home-me-a-long-name/sessions/one-run-with-a-long-name"));
    assert!(list(80).contains("…"));
    assert!(list(80).contains("long-name "), "a key keeps its end");
}

#[test]
fn a_verdict_stays_beside_short_names() {
    let root = root();
    let list = |width| board_at(root.path(), "list ROOT --sort run", Some(width)).1;
    assert_snapshot!(list(64), @r#"
    status    run  title     steps  score    updated  verdict
    finished  one  Fix a.py      2   0.25  1 min ago  Answered at s…
    finished  two  –             2   0.25  1 min ago  Answered at s…
    2 runs
    skipped: empty: contains no trace files
    "#);
    // Further columns would leave nothing of it.
    assert!(!list(63).contains("verdict"));
    assert_eq!(list(200), board(root.path(), "list ROOT --sort run").1);
}

#[test]
fn characters_of_two_columns_are_counted_as_two() {
    let root = root();
    for (run, task) in [("one", "直す: かごの合計"), ("two", "Café 👍")] {
        let path = root.path().join(run).join("events.jsonl");
        fs::write(path, EVENTS.replace("Fix a.py", task)).unwrap();
    }
    fs::rename(root.path().join("two"), root.path().join("二つ目")).unwrap();
    assert_snapshot!(board(root.path(), "list ROOT --sort run").1, @r#"
    status    run     title             steps  score    updated  verdict
    finished  one     直す: かごの合計      2   0.25  1 min ago  Answered at step 7 · 3 problems
    finished  二つ目  Café 👍               2   0.25  1 min ago  Answered at step 7 · 3 problems
    2 runs
    skipped: empty: contains no trace files
    "#);
    for width in 60..=90 {
        let text = board_at(root.path(), "list ROOT --sort run", Some(width)).1;
        for row in text.lines().take(3) {
            assert!(columns::width(row) <= width, "{width}: {row}");
        }
    }
}

#[test]
fn an_option_isnt_taken_for_a_query() {
    let root = root();
    for (line, command) in [
        ("list ROOT --jsno", "list"),
        ("list ROOT --jsno --since 2026-01-01", "list"),
        // The query is the first error, as it is for the other commands.
        ("list ROOT/none --jsno", "list"),
        ("edits ROOT --jsno", "edits"),
        ("experiment --jsno x ROOT", "experiment"),
        ("experiment x --jsno ROOT", "experiment"),
        ("usage daily ROOT --query --jsno", "usage"),
        ("failures ROOT --query --jsno", "failures"),
        ("overview ROOT --query --jsno", "overview"),
        ("search ROOT x --in --jsno", "search"),
        ("table steps ROOT --in --jsno", "table"),
    ] {
        let (code, text) = board(root.path(), line);
        let expected = format!(
            "board: unknown option --jsno\nhint: `board {command} --help` shows the options\n"
        );
        assert_eq!((code, text), (2, expected), "{line}");
    }
    assert_eq!(board(root.path(), "list ROOT -stop:final").0, 0);
    let explained = |line: &str| {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let usage = Args::try_parse_from(&args).unwrap_err();
        super::unknown_option(&usage, &args).map(|error| error.to_string())
    };
    for (line, option) in [
        ("board list x --limit 3", Some("--limit")),
        ("board search x --limit 3", Some("--limit")),
        ("board list x --json 3 4", None),
        ("board list x y z", None),
    ] {
        let expected = option.map(|option| format!("unknown option {option}"));
        assert_eq!(explained(line), expected, "{line}");
    }
}

#[test]
fn the_first_day_is_not_after_the_last() {
    let root = root();
    for line in ["list ROOT", "usage daily ROOT", "overview ROOT"] {
        let line = format!("{line} --since 2026-06-01 --until 2026-05-01");
        let (code, text) = board(root.path(), &line);
        let expected = "board: --since 2026-06-01 is after --until 2026-05-01\n";
        assert_eq!((code, &*text), (2, expected), "{line}");
    }
    let both = board(root.path(), "show ROOT/one --json --format md");
    assert_eq!(both.0, 2, "{}", both.1);
}

#[test]
fn show_a_run() {
    let root = root();
    assert_snapshot!(board(root.path(), "show ROOT/one").1, @r#"
    one  finished
    Answered at step 7.

    run id    r
    task      Fix a.py
    agents    fixer
    status    finished
    liveness  finished
    recorded  manifest status completed, stop reason final
    steps     2, 1 failed
    events    6
    duration  4.0 s
    started   1 Jan 1970, 00:00:01.000 UTC, 1 min ago
    updated   1 Jan 1970, 00:00:05.000 UTC, 1 min ago
    critics   Judge
    issues    3 problems, 2 notes; see board check ROOT/one

    answer
      all
      good␛[31m

    n      id         took  score  what
    0       0       500 ms   0.25  run(path="a.py")
                                   error: no file
                                   Judge requested a retry: again
    1       7        1.0 s      –  answer: all good␛[31m
    "#);
}

#[test]
fn a_directory_above_runs_is_none_and_names_them() {
    let root = root();
    assert_snapshot!(board(root.path(), "why ROOT").1, @r#"
    board: ROOT isn't a run, but contains runs
    hint: try ROOT/one
    hint: try ROOT/two
    "#);
    fs::create_dir(root.path().join("more")).unwrap();
    fs::rename(root.path().join("two"), root.path().join("more/two")).unwrap();
    assert_snapshot!(board(root.path(), "show ROOT/more").1, @r#"
    board: ROOT/more isn't a run, but contains one
    hint: try ROOT/more/two
    "#);
    let empty = board(root.path(), "show ROOT/empty").1;
    assert!(
        empty.starts_with("board: ROOT/empty contains no runs: no manifest.json"),
        "{empty}"
    );
    // Not finding a run among the first files doesn't mean that there is none.
    let wide = root.path().join("wide");
    fs::create_dir_all(wide.join("deep")).unwrap();
    for n in 0..1_000 {
        fs::write(wide.join(format!("{n:03}.jsonl")), "{}").unwrap();
    }
    fs::rename(root.path().join("one"), wide.join("deep/one")).unwrap();
    assert_snapshot!(board(root.path(), "show ROOT/wide").1, @"
    board: ROOT/wide isn't a run, and the first 1,000 files and directories below it contain none
    hint: `board list ROOT/wide` searches all of them
    ");
    let (code, listed) = board(root.path(), "list ROOT/wide");
    assert!(code == 0 && listed.contains("deep/one"), "{listed}");
}

const SESSION: &str = r#"{"type":"system","subtype":"init","cwd":"/app","session_id":"s1","model":"m","tools":["Bash"]}
{"type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"Done."}]},"session_id":"s1"}
{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done.","session_id":"s1"}
"#;

#[test]
fn a_run_that_is_a_file_is_called_by_the_path_that_was_given() {
    let root = root();
    fs::create_dir(root.path().join("logs")).unwrap();
    fs::write(root.path().join("logs/stream.jsonl"), SESSION).unwrap();
    let first = |line: &str| {
        board(root.path(), line)
            .1
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        first("why ROOT/logs/stream.jsonl"),
        "ROOT/logs/stream.jsonl  finished"
    );
    assert_eq!(
        first("show ROOT/logs/stream.jsonl"),
        "ROOT/logs/stream.jsonl  finished"
    );
    assert_eq!(
        first("show ROOT/logs/stream.jsonl --step 0"),
        "step 0 of ROOT/logs/stream.jsonl"
    );
    assert_eq!(first("why ROOT/one"), "one  finished");
    assert_snapshot!(board(root.path(), "state ROOT/logs/stream.jsonl").1, @r#"
    state after step 0 of ROOT/logs/stream.jsonl
    neither a full state nor changes are recorded
    "#);
}

#[test]
fn a_word_that_no_run_has_is_named() {
    let root = root();
    assert_snapshot!(board(root.path(), "list ROOT stop:critic").1, @r#"
    No run has stop:critic. Values: final
    0 of 2 runs
    skipped: empty: contains no trace files
    "#);
    for query in [
        "stop:final",
        "stop:FINAL,critic",
        "status:completed",
        "outcome:answered",
    ] {
        let listed = board(root.path(), &format!("list ROOT {query}")).1;
        assert!(!listed.contains("No run has"), "{listed}");
    }
    let listed = board(root.path(), "list ROOT status:foo").1;
    assert!(
        listed.starts_with(
            "There is no status foo. Statuses: running, quiet, stalled, succeeded, finished, unsolved, \
             limit, stopped, critic_stop, cancelled, error, died, unknown.\n"
        ),
        "{listed}"
    );
    // The value of a run without one has a word too.
    fs::remove_dir_all(root.path().join("one")).unwrap();
    fs::write(
        root.path().join("two/manifest.json"),
        r#"{"schema_version": "v1", "status": "running"}"#,
    )
    .unwrap();
    for query in ["stop:none", "stop:not_recorded"] {
        let listed = board(root.path(), &format!("list ROOT {query}")).1;
        assert!(!listed.contains("No run has"), "{listed}");
    }
    let listed = board(root.path(), "list ROOT stop:critic").1;
    assert!(
        listed.starts_with("No run has stop:critic. Values: not_recorded\n"),
        "{listed}"
    );
}

#[test]
fn show_a_step() {
    let root = root();
    assert_snapshot!(board(root.path(), "show ROOT/one --step 0").1, @r#"
    step 0 of one
    run(path="a.py")
    error: no file
    Judge requested a retry: again

    agent     fixer
    took      500 ms
    started   1 Jan 1970, 00:00:02.000 UTC, +1.000 s
    line      1 of steps.jsonl, byte 0, 451 bytes
    repaired: NaN or Infinity isn't valid JSON; shown as text

    decision
      mode: "act"
      actions: [{"name": "run", "args": {"path": "a.py"}}]
      rationale: |
        Try it.
        Then look.

    action_results
      [0]:
        status: "error"
        error: |
          no ␛[31mfile

    critic_outputs
      [0]: {"name": "Judge", "action": "retry", "score": 0.25, "reason": "again"}

    state_diff
      n  number, +2
        - 1
        + 3

    other fields
      wide: "NaN"

    empty: nothing
    "#);
    assert_snapshot!(board(root.path(), "show ROOT/two --step 2").1, @r#"
    board: there is no step 2: ROOT/two has 2 steps, numbered from 0 to 1
    "#);
}

#[test]
fn show_events() {
    let root = root();
    assert_snapshot!(board(root.path(), "show ROOT/one --events").1, @r#"
    one  finished
    Answered at step 7.

    run id    r
    task      Fix a.py
    agents    fixer
    status    finished
    liveness  finished
    recorded  manifest status completed, stop reason final
    steps     2, 1 failed
    events    6
    duration  4.0 s
    started   1 Jan 1970, 00:00:01.000 UTC, 1 min ago
    updated   1 Jan 1970, 00:00:05.000 UTC, 1 min ago
    critics   Judge
    issues    3 problems, 2 notes; see board check ROOT/one

    answer
      all
      good␛[31m

    n      time  step  what
    0  +0.000 s        INIT
    1  +1.000 s     0  DECIDE state_ready
    2  +1.500 s     0  ACT env_step_error  error: lost
    3  +2.000 s     1  DECIDE state_ready
    4  +3.000 s     1  CHECK_STOP stop  final
    5         –        unreadable line
    6  +4.000 s        END  final
    "#);
}

#[test]
fn show_as_json() {
    let root = root();
    let run = json(root.path(), "show ROOT/one --json");
    assert_eq!(
        (&run["manifest"]["run_id"], &run["steps_list"][1]["label"]),
        (&"r".into(), &"7".into())
    );
    assert_eq!(json(root.path(), "show ROOT/one --format json"), run);
    let step = json(root.path(), "show ROOT/one --step 0 --json");
    assert_eq!(
        (
            &step["step"]["wide"],
            &step["repaired"],
            &step["events"][1]["error"]
        ),
        (&"NaN".into(), &true.into(), &"lost".into())
    );
    let events = json(root.path(), "show ROOT/one --events --json");
    assert_eq!(
        (&events["total"], &events["events"][5]["event"]),
        (&7.into(), &"torn".into())
    );
    assert_eq!(
        json(root.path(), "show ROOT/two --events --json")["events"],
        Value::Array(Vec::new())
    );
}

#[test]
fn check_names_every_place() {
    let root = root();
    let (code, text) = board(root.path(), "check ROOT/one ROOT/two ROOT/empty");
    assert_eq!(code, 3);
    assert_snapshot!(text, @r#"
    ROOT/one/manifest.json: note: names run r, but the directory is named one
    ROOT/one/steps.jsonl:1: byte 0: problem: NaN or Infinity isn't valid JSON; shown as text
    ROOT/one/steps.jsonl:2: byte 452: problem: step ids jump from 0 to 7
    ROOT/one/events.jsonl:5: byte 531: note: blank line
    ROOT/one/events.jsonl:7: byte 686: problem: not JSON: unexpected text at byte 2 of the line
    ROOT/one: 3 problems, 2 notes
    ROOT/two/manifest.json: note: names run r, but the directory is named two
    ROOT/two/steps.jsonl:1: byte 0: problem: NaN or Infinity isn't valid JSON; shown as text
    ROOT/two/steps.jsonl:2: byte 452: problem: step ids jump from 0 to 7
    ROOT/two/events.jsonl: problem: file not found
    ROOT/two: 3 problems, 1 note
    ROOT/empty: not checked: contains no runs: no manifest.json, no steps.jsonl, no events.jsonl, and no trace of a supported tool
    board: 1 of 3 paths couldn't be checked
    "#);
    assert_eq!(board(root.path(), "check ROOT/one").0, 1);
    let checks = json(root.path(), "check ROOT/one --json");
    assert_eq!(checks["runs"][0]["issues_list"][3]["offset"], 531);
    fs::write(root.path().join("two/steps.jsonl"), "{\"step_id\": 0}\n").unwrap();
    fs::write(root.path().join("two/events.jsonl"), "").unwrap();
    fs::write(root.path().join("two/manifest.json"), "{}").unwrap();
    assert_eq!(
        board(root.path(), "check ROOT/two"),
        (0, "ROOT/two: no issues\n".to_owned())
    );
}

#[test]
fn what_is_not_there_leads_on() {
    let root = root();
    let path = root.path();
    for (line, expected) in [
        (
            "show ROOT/none",
            "board: there is no run at ROOT/none\nhint: `board list ROOT` lists the existing runs\n",
        ),
        (
            "show ROOT/empty",
            "board: ROOT/empty contains no runs: no manifest.json, no steps.jsonl, no events.jsonl, and no trace of a supported tool\n",
        ),
        (
            "check ROOT/one/steps.jsonl",
            "board: ROOT/one/steps.jsonl isn't a trace of a supported tool\n\
             hint: the run is its directory: ROOT/one\n",
        ),
        (
            "list ROOT/none",
            "board: no runs in ROOT/none: it doesn't exist\n\
             hint: pass a directory that contains runs: board list DIR\nhint: `board demo ./runs` writes demo runs\n",
        ),
    ] {
        assert_eq!(board(path, line), (3, expected.to_owned()), "{line}");
    }
    let (code, text) = board(path, "list ROOT --jsno");
    assert_eq!(
        (code, text.lines().next()),
        (2, Some("board: unknown option --jsno"))
    );
    for line in [
        "show",
        "check",
        "show ROOT/one --step x",
        "serve --poll 0",
        "nothing",
    ] {
        assert_eq!(board(path, line).0, 2, "{line}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let root = root();
    let run = root.path().join("one").to_string_lossy().into_owned();
    let look = Look {
        colour: true,
        now: 0,
        zone: TimeZone::UTC,
        width: None,
    };
    for args in [
        &["board", "show", &run][..],
        &["board", "show", &run, "--json"],
        &["board", "check", &run],
    ] {
        assert_eq!(
            super::run(Args::try_parse_from(args).unwrap(), &look, &mut Closed).unwrap(),
            0
        );
    }
}
