//! Tests that a killed run resumes, and that a run branches at one of its steps, with the real
//! binary on the command line and on the board.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::board::{BINARY, Board};
use crate::endpoint::{Endpoint, Play, calls, says};
use crate::html::{hrefs, page, texts};
use crate::wait::until;
use crate::written::keep;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with an agent file and a workspace.
fn place(endpoint: &Endpoint) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("work")).unwrap();
    fs::write(dir.path().join("work/a.txt"), "one\n").unwrap();
    let file = format!(
        "[model]\nbase_url = \"{}\"\nmodel = \"tiny\"\napi_key_env = \"\"\n[workspace]\ndir = \"work\"\n[budget]\nsteps = 4\n",
        endpoint.base_url
    );
    fs::write(dir.path().join("agent.toml"), file).unwrap();
    dir
}

fn command(place: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .arg("run")
        .arg(place.join("agent.toml"))
        .args(args)
        .current_dir(place);
    command
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn board(args: &[&str], run: &Path) -> Output {
    Command::new(BINARY)
        .args(args)
        .arg(run)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn runs(place: &Path) -> Vec<PathBuf> {
    let mut runs: Vec<_> = fs::read_dir(place.join("runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    runs.sort();
    runs
}

#[test]
fn a_branch_from_another_agents_run_is_refused_before_it_is_announced() {
    let endpoint = Endpoint::playing([]);
    let place = place(&endpoint);
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/fix_bug");
    let args = ["--from", "2", "--runs", "runs", "--resume"];
    let refused = command(place.path(), &args).arg(&run).output().unwrap();
    let said = text(&refused.stderr);
    let first = format!("board: can't branch from {}\n", run.display());
    assert!(
        refused.status.code() == Some(2)
            && said.starts_with(&first)
            && said.contains("because: its state doesn't fit the agent \"agent\": missing field `"),
        "{said}"
    );
    assert_eq!(runs(place.path()), Vec::<PathBuf>::new());

    let file = place.path().join("agent.toml");
    let refused = command(place.path(), &["--resume"])
        .arg(&file)
        .output()
        .unwrap();
    let said = text(&refused.stderr);
    assert!(
        said.contains("because: it isn't a run of board's engine\n"),
        "{said}"
    );
}

#[test]
fn a_killed_run_goes_on_and_a_branch_goes_another_way() {
    let read = |id: &str| calls(id, "read_file", &json!({"path": "a.txt"}));
    let plays = [
        read("c1"),
        read("c2"),
        Play::Hang,
        read("c3"),
        says("It says one."),
        says("I do not know."),
    ];
    let endpoint = Endpoint::playing(plays);
    let place = place(&endpoint);
    let mut child = command(place.path(), &["what is in a.txt?"])
        .spawn()
        .unwrap();
    until("the third request hangs", || {
        (endpoint.seen().len() == 3).then_some(())
    });
    let run = runs(place.path()).remove(0);
    let run = run.as_path();

    // A live run belongs to the process that writes it.
    let refused = command(place.path(), &["--resume", run.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        text(&refused.stderr).contains("because: another process is writing it"),
        "{}",
        text(&refused.stderr)
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let lines = fs::read_to_string(run.join("steps.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    fs::write(run.join("steps.jsonl"), lines + "{\"step_id\":2,\"agent").unwrap();

    // Nothing is announced before it's certain.
    let agent = fs::read_to_string(place.path().join("agent.toml")).unwrap();
    fs::write(place.path().join("other.toml"), agent).unwrap();
    let refused = Command::new(BINARY)
        .args(["run", "other.toml", "--resume"])
        .arg(run)
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = text(&refused.stderr);
    assert!(
        said.contains("is a run of the agent \"agent\", not \"other\"")
            && !said.contains("resuming")
            && !said.contains("recording"),
        "{said}"
    );

    let done = command(place.path(), &["--resume", run.to_str().unwrap()])
        .output()
        .unwrap();
    let said = text(&done.stderr);
    assert_eq!(
        (done.status.code(), text(&done.stdout).lines().next()),
        (Some(0), Some("It says one.")),
        "{said}"
    );
    assert!(said.contains("board: resuming after 2 steps"), "{said}");
    assert!(
        said.contains(
            "board: step 2 started but didn't finish, so it runs again. A request that was interrupted isn't counted\n"
        ),
        "{said}"
    );
    assert!(
        said.contains("board: removed an incomplete record of 19 bytes"),
        "{said}"
    );
    // The model gets the same request as when the run was killed.
    let seen = endpoint.seen();
    assert_eq!(seen[3].body["messages"], seen[2].body["messages"]);
    let checked = text(&board(&["check"], run).stdout);
    assert!(
        checked.contains("redone when the run was resumed") && checked.ends_with(": 1 note\n"),
        "{checked}"
    );
    let shown = text(&board(&["show"], run).stdout);
    let last = shown.lines().last().unwrap();
    assert!(
        last.ends_with(": the step was interrupted and redone when the run was resumed"),
        "{shown}"
    );
    assert!(!shown.contains("no line in steps.jsonl"), "{shown}");
    let why: Value = serde_json::from_slice(&board(&["why", "--json"], run).stdout).unwrap();
    assert_eq!(
        (&why["outcome"], &why["step"], &why["contradictions"]),
        (&json!("completed"), &json!(3), &json!([]))
    );
    let steps = why["rules"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["id"] == "budget.steps")
        .unwrap();
    assert_eq!(
        (&steps["measured"], &steps["limit"]),
        (&json!(4), &json!(4)),
        "every part counts"
    );
    let again = command(place.path(), &["--resume", run.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        text(&again.stderr).contains("because: it already has an answer"),
        "{}",
        text(&again.stderr)
    );

    let key = run.file_name().unwrap().to_str().unwrap();
    let done = command(
        place.path(),
        &["--resume", &format!("runs/{key}"), "--from", "1"],
    )
    .output()
    .unwrap();
    assert_eq!(
        (done.status.code(), text(&done.stdout).lines().next()),
        (Some(0), Some("I do not know.")),
        "{}",
        text(&done.stderr)
    );
    let all = runs(place.path());
    assert_eq!(all.len(), 2);
    let branch = all.iter().find(|one| *one != run).unwrap();
    let name = branch.file_name().unwrap().to_str().unwrap();
    assert!(board(&["check"], branch).status.success());
    let parts = |run: &Path| {
        let shown = text(&board(&["show"], run).stdout);
        shown
            .lines()
            .filter(|line| line.starts_with("-- "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(parts(run), ["-- resumed here"]);
    assert_eq!(
        parts(branch),
        ["-- the steps above are copied from its parent"]
    );
    all.iter().for_each(|one| keep(one));

    let board = Board::serve(&place.path().join("runs"));
    board.until_read();
    let row = |key: &str| board.json(&format!("/api/runs/{key}"));
    let (whole, other) = (row(key), row(name));
    assert_eq!(
        (
            &whole["steps"],
            &whole["outcome"],
            &whole["segments"][1]["steps"]
        ),
        (&json!(4), &json!("completed"), &json!(2))
    );
    assert_eq!(
        (&other["steps"], &other["parent"]),
        (&json!(1), &json!(key))
    );
    assert_eq!(
        (&other["copied_from"], &other["copied_steps"]),
        (&json!(key), &json!(1)),
        "the copied step counts in the parent run"
    );
    assert_eq!(
        whole["tokens"].as_u64().unwrap(),
        4 * other["tokens"].as_u64().unwrap(),
        "each request uses the same amount"
    );
    let state = board.json(&format!("/api/runs/{key}/state/3"));
    assert_eq!(state["state"]["current_step"], 4);
    assert_eq!(
        board.json(&format!("/api/runs/{key}/state/0"))["state"]["current_step"],
        1
    );

    let compare = format!("/compare?a={key}&b={name}");
    let page = |path: &str| page(&board, path);
    for (path, other) in [(key, name), (name, key)] {
        let page = page(&format!("/runs/{path}"));
        let links = hrefs(&page, "main a");
        assert!(
            links.contains(&compare) && links.contains(&format!("/runs/{other}")),
            "{links:?}"
        );
    }
    let parts = texts(&page(&format!("/runs/{key}")), "main dd").join("|");
    assert!(
        parts.contains("in 2 parts (totals cover all of them)"),
        "{parts}"
    );
    assert_eq!(hrefs(&page("/compare"), ".likely a")[0], compare);
    assert_eq!(
        hrefs(&page(&format!("/compare?a={name}")), ".likely a")[0],
        compare
    );
    let parted = board.json(&format!("/api/compare?a={key}&b={name}"));
    assert_eq!(
        (
            &parted["first_divergence"]["a"],
            &parted["aligned"][0]["same"]
        ),
        (&json!(1), &json!(true))
    );
}

#[test]
fn what_cannot_be_gone_on_with_is_named() {
    let endpoint = Endpoint::playing([]);
    let place = place(&endpoint);
    let refused = |args: &[&str]| {
        let done = command(place.path(), args).output().unwrap();
        (done.status.code(), text(&done.stderr))
    };
    let corpus = crate::disk::corpus().join("q060/q060_sigkill");
    let (code, said) = refused(&["--resume", corpus.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("because: another program wrote it"), "{said}");
    assert!(
        said.contains(
            "hint: only run directories written by board's engine can be resumed or branched"
        ),
        "{said}"
    );
    let (code, said) = refused(&["--resume", "nowhere"]);
    assert!(
        code == Some(3) && said.contains("there is no run at nowhere"),
        "{said}"
    );
    assert_eq!(refused(&["--from", "1"]).0, Some(2));
    assert!(!place.path().join("runs").exists());
}
