//! Tests running commands, and what remains of them afterwards.

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::json;

use super::super::{RunCommand, passed_on};
use super::{Place, call};

/// Returns a tool with a minimal environment.
fn shell(place: &Place) -> RunCommand {
    RunCommand::new(place.workspace.clone()).environment(passed_on(std::env::vars_os()))
}

/// Returns whether a process has ended. A zombie counts as ended.
fn is_gone(pid: &str) -> bool {
    let pid: i32 = pid.trim().parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        let alive = rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if !alive
            || stat
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('Z'))
        {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_without_input() {
    let place = Place::new();
    place.write("here", "");
    let ran = call(
        &shell(&place),
        json!({"command": "ls; cat; echo oops >&2; exit 3"}),
    )
    .await
    .unwrap();
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("here\n", "oops\n")
    );
    assert_eq!(
        (ran.exit_code, ran.signal, ran.timed_out, ran.success()),
        (Some(3), None, false, false)
    );
    let killed = call(&shell(&place), json!({"command": "kill -TERM $$"}))
        .await
        .unwrap();
    assert_eq!((killed.exit_code, killed.signal), (None, Some(15)));
    let empty = call(&shell(&place), json!({"command": " "}))
        .await
        .unwrap_err();
    assert_eq!(empty.category, "invalid_arguments");
    let no_time = call(&shell(&place), json!({"command": "true", "timeout_s": 0}))
        .await
        .unwrap_err();
    assert!(
        no_time
            .message
            .starts_with("a timeout_s of 0 allows nothing to run"),
        "{}",
        no_time.message
    );
}

#[tokio::test]
async fn a_result_has_these_fields() {
    let place = Place::new();
    let ran = call(&shell(&place), json!({"command": "echo hi"}))
        .await
        .unwrap();
    let written = serde_json::to_value(&ran).unwrap();
    let expected = json!({"exit_code": 0, "timed_out": false, "stdout": "hi\n", "stderr": "", "truncated_bytes": 0});
    assert_eq!(written, expected);
}

#[tokio::test]
async fn a_key_of_ours_does_not_reach_a_command() {
    let environment = [
        ("PATH", "/usr/bin:/bin"),
        ("OPENAI_API_KEY", "sk-1"),
        ("LC_ALL", "C"),
        ("GITHUB_TOKEN", "t"),
    ];
    let environment =
        environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let place = Place::new();
    let shell = RunCommand::new(place.workspace.clone()).environment(passed_on(environment));
    let ran = call(&shell, json!({"command": "env"})).await.unwrap();
    assert!(
        ran.stdout.contains("PATH=/usr/bin:/bin\n") && ran.stdout.contains("LC_ALL=C\n"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains("sk-1") && !ran.stdout.contains("TOKEN"),
        "{}",
        ran.stdout
    );
    // The first two are passed on, and a shell sets the others itself. A command inherits nothing
    // else.
    let is_expected =
        |name: &str| ["PATH", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
    let names = ran
        .stdout
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0));
    let inherited: Vec<&str> = names.filter(|name| !is_expected(name)).collect();
    assert!(inherited.is_empty(), "{inherited:?}");
    let own = std::env::vars_os().any(|(name, _)| !name.to_str().is_some_and(is_expected));
    assert!(
        own,
        "the test's own environment holds a variable that a command could inherit"
    );
}

#[tokio::test]
async fn long_output_keeps_its_head_and_its_tail() {
    let place = Place::new();
    let shell = shell(&place).max_output_bytes(100);
    let ran = call(&shell, json!({"command": "seq 1 5000; seq 1 3 >&2"}))
        .await
        .unwrap();
    assert_eq!(ran.truncated_bytes, 23_893 - 100);
    let (head, tail) = ran
        .stdout
        .split_once("\n[... 23793 bytes omitted ...]\n")
        .unwrap();
    assert!(
        head.starts_with("1\n2\n") && tail.ends_with("4999\n5000\n"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        (head.len(), tail.len(), ran.stderr.as_str()),
        (50, 50, "1\n2\n3\n")
    );
}

#[tokio::test]
async fn the_cut_goes_around_characters() {
    let place = Place::new();
    let shell = shell(&place).max_output_bytes(20);
    let ran = call(
        &shell,
        json!({"command": "for i in 1 2 3 4 5 6 7 8 9 0; do printf '\\342\\202\\254'; done"}),
    )
    .await
    .unwrap();
    assert_eq!(ran.stdout, "€€€\n[... 12 bytes omitted ...]\n€€€");
    assert_eq!(ran.truncated_bytes, 12);
}

#[tokio::test]
async fn time_over_kills_the_children_too_and_keeps_what_was_written() {
    let place = Place::new();
    let shell = shell(&place).timeout(Duration::from_millis(300));
    let command = "sh -c 'sleep 600; echo never' & echo $!; echo more >&2; wait";
    let ran = call(&shell, json!({"command": command, "timeout_s": 900}))
        .await
        .unwrap();
    assert_eq!(
        (ran.timed_out, ran.exit_code, ran.signal),
        (true, None, Some(9))
    );
    assert_eq!(ran.stderr, "more\n");
    assert!(is_gone(&ran.stdout), "the grandchild {} lives", ran.stdout);
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let place = Place::new();
    let ran = call(&shell(&place), json!({"command": "sleep 600 & echo $!"}))
        .await
        .unwrap();
    assert_eq!((ran.exit_code, ran.timed_out), (Some(0), false));
    assert!(is_gone(&ran.stdout), "the child {} lives", ran.stdout);
}

#[tokio::test]
async fn a_call_that_is_dropped_kills_the_children_too() {
    let place = Place::new();
    let shell = shell(&place);
    let running = tokio::spawn(async move {
        call(
            &shell,
            json!({"command": "sleep 600 & echo $! > pid.new; mv pid.new pid; wait"}),
        )
        .await
    });
    let pid = place.root().join("pid");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !pid.exists() && Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert!(is_gone(&fs::read_to_string(pid).unwrap()));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_left_the_group_keeps_nobody_waiting() {
    let place = Place::new();
    let ran = call(
        &shell(&place),
        json!({"command": "setsid sleep 600 & echo $!"}),
    )
    .await
    .unwrap();
    assert_eq!((ran.exit_code, ran.timed_out), (Some(0), false));
    let escaped = Pid::from_raw(ran.stdout.trim().parse().unwrap()).unwrap();
    let _ = rustix::process::kill_process(escaped, rustix::process::Signal::KILL);
}
