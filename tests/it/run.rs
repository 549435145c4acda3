//! Tests that `board run` drives a real agent, with the real binary and a server that plays a
//! model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::board::BINARY;
use crate::disk::walk;
use crate::endpoint::{Endpoint, Play, calls, piece, says};
use crate::wait::until;

const KEY: &str = "sk-e2e-0123456789abcdef";

/// A directory with an agent file, a workspace and runs.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(endpoint: &Endpoint, rest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let model = format!(
            "[model]\nbase_url = \"{}\"\nmodel = \"tiny\"\napi_key_env = \"E2E_KEY\"\nretries = 1\n",
            endpoint.base_url
        );
        let workspace = "[workspace]\ndir = \"work\"\n\
                         tools = [\"read_file\", \"replace_lines\", \"list_dir\", \"search\", \"run_command\"]\n";
        fs::write(
            dir.path().join("agent.toml"),
            format!("{model}{workspace}{rest}"),
        )
        .unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .arg("run")
            .arg(self.path("agent.toml"))
            .args(args)
            .arg("--runs")
            .arg(self.path("runs"));
        command.env("NO_COLOR", "1").env("E2E_KEY", KEY);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Returns the only recorded run.
    fn recorded(&self) -> PathBuf {
        let runs: Vec<_> = fs::read_dir(self.path("runs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    fn manifest(&self) -> Value {
        serde_json::from_slice(&fs::read(self.recorded().join("manifest.json")).unwrap()).unwrap()
    }

    #[track_caller]
    fn is_sound(&self) {
        let check = Command::new(BINARY)
            .arg("check")
            .arg(self.recorded())
            .output()
            .unwrap();
        assert!(check.status.success(), "{}", text(&check.stdout));
    }

    #[track_caller]
    fn holds_no_key(&self) {
        for path in walk(self.dir.path())
            .into_iter()
            .filter(|path| path.is_file())
        {
            let bytes = fs::read(&path).unwrap();
            assert!(
                !String::from_utf8_lossy(&bytes).contains(KEY),
                "{} holds the key",
                path.display()
            );
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a script whose test fails until its bug is fixed.
fn buggy(place: &Place) {
    fs::write(place.path("work/sum.sh"), "a=$1\nb=$2\necho $((a - b))\n").unwrap();
    fs::write(
        place.path("work/test.sh"),
        "test \"$(sh sum.sh 2 3)\" = 5 && echo passed\n",
    )
    .unwrap();
}

fn fixing() -> Vec<Play> {
    let edit = json!({"path": "sum.sh", "start_line": 3, "end_line": 3, "text": "echo $((a + b))", "expect": "echo $((a - b))"});
    vec![
        calls("c1", "read_file", &json!({"path": "sum.sh"})),
        calls("c2", "replace_lines", &edit),
        calls("c3", "run_command", &json!({"command": "sh test.sh; env"})),
        says("It subtracted; now it adds."),
    ]
}

#[test]
fn an_agent_finds_and_fixes_a_bug() {
    let endpoint = Endpoint::playing(fixing());
    let critic = "[[critic]]\nkind = \"command\"\nname = \"tests\"\ncommand = \"sh test.sh\"\n";
    let place = Place::new(&endpoint, critic);
    buggy(&place);
    let done = place.run(&["fix the sum"]);
    let (stdout, stderr) = (text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(0), "{stderr}");
    assert!(
        stdout.starts_with("It subtracted; now it adds.\n\n"),
        "{stdout}"
    );
    assert_eq!(
        stdout.lines().count(),
        3,
        "the answer and the verdict: {stdout}"
    );
    assert_eq!(
        fs::read_to_string(place.path("work/sum.sh")).unwrap(),
        "a=$1\nb=$2\necho $((a + b))\n"
    );

    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!(
        lines[0],
        format!("board: recording {}", place.recorded().display())
    );
    assert_eq!(lines[1], "board: step 0: read_file sum.sh ok | 14 tokens");
    assert!(
        lines[3].starts_with("board: step 2: run_command sh test.sh; env ok"),
        "{stderr}"
    );
    assert_eq!(
        lines[4],
        "board: step 3: answers It subtracted; now it adds. | tests continue 1.00 | 14 tokens"
    );

    assert!(
        endpoint
            .seen()
            .iter()
            .all(|seen| seen.head.contains(&format!("Bearer {KEY}")))
    );
    let results = endpoint.seen()[3].body["messages"].to_string();
    assert!(
        results.contains("passed") && !results.contains("E2E_KEY"),
        "the shell has no access to the key: {results}"
    );
    place.is_sound();
    place.holds_no_key();
    let manifest = place.manifest();
    assert_eq!(
        (&manifest["status"], &manifest["stop"]["outcome"]),
        (&json!("completed"), &json!("completed"))
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_does_not_find_the_key() {
    let look = "tr '\\0' '\\n' < /proc/$PPID/environ; head -c 1 /proc/$PPID/mem 2>&1; for fd in /dev/fd/*; do \
                case $fd in */[012]) ;; *) timeout 5 cat $fd;; esac; done 2>&1; echo looked";
    let endpoint = Endpoint::playing([
        calls("c1", "run_command", &json!({"command": look})),
        says("no key"),
    ]);
    let place = Place::new(&endpoint, "");
    let done = place.run(&["look for the key"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(
        endpoint.seen()[0].head.contains(&format!("Bearer {KEY}")),
        "it could have been found"
    );
    let result = endpoint.seen()[1].body["messages"][3]["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        result.contains("looked") && result.contains("Permission denied"),
        "{result}"
    );
    // The key is redacted from output, but a command that finds it may print it in another form.
    assert!(
        !result.contains("[key]") && !result.contains("E2E_KEY"),
        "{result}"
    );
    assert!(
        !text(&done.stderr).contains("commands can read"),
        "{}",
        text(&done.stderr)
    );
    place.holds_no_key();
}

/// Lists the open files of the process that runs it, and tries to read the key. The listing itself
/// may be descriptor 3.
#[cfg(target_os = "linux")]
const OPEN: &str = "for fd in /proc/self/fd/*; do echo open ${fd##*/}; done; cat /dev/fd/3 2>&1; ls -l /proc/$PPID/fd 2>&1";

#[cfg(target_os = "linux")]
#[test]
fn commands_and_servers_inherit_no_file() {
    let call = || calls("c1", "run_command", &json!({"command": OPEN}));
    // A file that can be reread from its start, and a pipe, as `<(command)` opens it.
    for key in ["3< key", "3< <(cat key)"] {
        let endpoint = Endpoint::playing([call(), says("done")]);
        // The server prints what it inherits and exits. The run then doesn't start, so this is
        // tested last.
        let server = format!("[mcp.x]\ncommand = [\"sh\", \"-c\", '''({OPEN}) >&2; exit 4''']\n");
        let place = Place::new(&endpoint, "");
        let agent = fs::read_to_string(place.path("agent.toml")).unwrap();
        let agent = agent.replace("api_key_env = \"E2E_KEY\"", "api_key_file = \"/dev/fd/3\"");
        fs::write(place.path("agent.toml"), &agent).unwrap();
        fs::write(place.path("key"), KEY).unwrap();
        let run = || {
            let mut command = Command::new("bash");
            let script = format!("exec \"$@\" {key} 4> log 17< key 18<> /dev/null");
            command.args([
                "-c",
                &script,
                "bash",
                BINARY,
                "run",
                "agent.toml",
                "look",
                "--runs",
                "runs",
            ]);
            let command = command
                .current_dir(place.dir.path())
                .env("NO_COLOR", "1")
                .stdin(Stdio::null());
            command.output().unwrap()
        };
        let done = run();
        assert_eq!(done.status.code(), Some(0), "{key}: {}", text(&done.stderr));
        assert!(
            endpoint.seen()[0].head.contains(&format!("Bearer {KEY}")),
            "{key}: the key was read"
        );
        let result = endpoint.seen()[1].body["messages"][3]["content"]
            .as_str()
            .unwrap()
            .to_owned();
        let is_open = |said: &str, number: &str| said.contains(&format!("open {number}\\n"));
        assert!(
            ["0", "1", "2"]
                .iter()
                .all(|number| is_open(&result, number)),
            "{result}"
        );
        assert!(
            !["4", "17", "18"]
                .iter()
                .any(|number| is_open(&result, number)),
            "{key}: {result}"
        );
        assert!(
            !result.contains("[key]") && !result.contains(KEY),
            "{key}: {result}"
        );
        fs::write(place.path("agent.toml"), format!("{agent}{server}")).unwrap();
        let said = text(&run().stderr);
        assert!(said.contains("open 2"), "{key}: {said}");
        assert!(
            !["open 4", "open 17", "open 18"]
                .iter()
                .any(|open| said.contains(open)),
            "{key}: {said}"
        );
        assert!(
            !said.contains("[key]") && !said.contains(KEY),
            "{key}: {said}"
        );
    }
}

#[test]
fn an_agent_file_from_a_pipe_is_read_once() {
    let endpoint = Endpoint::playing([says("ok")]);
    let place = Place::new(&endpoint, "");
    // Paths in the file are relative to it, and a pipe has no directory.
    let agent = fs::read_to_string(place.path("agent.toml")).unwrap();
    let work = format!("dir = \"{}\"", place.path("work").display());
    fs::write(
        place.path("agent.toml"),
        agent.replace("dir = \"work\"", &work),
    )
    .unwrap();
    let script = "exec \"$@\" 5< <(cat agent.toml)";
    let done = Command::new("bash")
        .args([
            "-c",
            script,
            "bash",
            BINARY,
            "run",
            "/dev/fd/5",
            "x",
            "--runs",
        ])
        .arg(place.path("runs"))
        .current_dir(place.dir.path())
        .env("E2E_KEY", KEY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        endpoint.seen()[0].head.contains(&format!("Bearer {KEY}")),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn the_key_may_come_from_a_file() {
    let endpoint = Endpoint::playing([says("ok")]);
    let place = Place::new(&endpoint, "");
    let agent = fs::read_to_string(place.path("agent.toml")).unwrap();
    let with = |line: &str| {
        fs::write(
            place.path("agent.toml"),
            agent.replace("api_key_env = \"E2E_KEY\"", line),
        )
        .unwrap()
    };
    with("api_key_file = \"key\"");
    let missing = place.run(&["x"]);
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing.stderr));
    fs::write(place.path("key"), " \n").unwrap();
    let empty = place.run(&["x"]);
    assert!(
        text(&empty.stderr).contains("must contain the API key but is empty"),
        "{}",
        text(&empty.stderr)
    );
    assert!(!place.path("runs").exists());
    fs::write(place.path("key"), format!("{KEY}\n")).unwrap();
    let done = place
        .command(&["x"])
        .env_remove("E2E_KEY")
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(endpoint.seen()[0].head.contains(&format!("Bearer {KEY}")));
    with("api_key_env = \"E2E_KEY\"\napi_key_file = \"key\"");
    let both = place.run(&["x"]);
    assert!(
        text(&both.stderr)
            .contains("agent.toml:5: set either `api_key_env` or `api_key_file`, not both"),
        "{}",
        text(&both.stderr)
    );
}

#[test]
fn an_agent_does_not_write_its_own_record() {
    let forge = |id, run: &str| {
        calls(
            id,
            "write_file",
            &json!({"path": format!("{run}/steps.jsonl"), "text": "{}\n"}),
        )
    };
    let shell = json!({"command": "for run in runs/*; do cd $run; done; cp steps.jsonl x; rm steps.jsonl; mv x steps.jsonl"});
    let endpoint = Endpoint::playing([
        forge("c1", "runs/forged"),
        calls("c2", "run_command", &shell),
        says("done"),
    ]);
    let place = Place::new(&endpoint, "");
    let agent = fs::read_to_string(place.path("agent.toml")).unwrap();
    let agent = agent
        .replace("dir = \"work\"", "dir = \".\"")
        .replace("\"read_file\"", "\"write_file\"");
    fs::write(place.path("agent.toml"), agent).unwrap();
    let done = place.run(&["forge a run"]);
    let refused = endpoint.seen()[1].body["messages"].to_string();
    assert!(
        refused.contains("runs are recorded there, so tools can't write to it"),
        "{refused}"
    );
    assert!(!place.path("runs/forged").exists());
    // A command can do this, and the run reports it.
    let altered = "steps.jsonl isn't the file that was written";
    assert!(
        text(&done.stderr).contains(&format!("another program changed it: {altered}")),
        "{}",
        text(&done.stderr)
    );
    assert!(
        text(&done.stdout).contains(" · conflicting records"),
        "{}",
        text(&done.stdout)
    );
    assert_eq!(place.manifest()["altered"], json!([altered]));
    let why = Command::new(BINARY)
        .arg("why")
        .arg(place.recorded())
        .output()
        .unwrap();
    assert!(
        text(&why.stdout).contains(&format!(
            "another program had written to the trace: {altered}"
        )),
        "{}",
        text(&why.stdout)
    );
}

#[test]
fn a_gate_says_which_tools_may_be_called() {
    let run = || calls("c2", "run_command", &json!({"command": "touch made"}));
    let endpoint = Endpoint::playing([
        calls("c1", "search", &json!({"pattern": "x"})),
        run(),
        says("could not"),
    ]);
    let place = Place::new(
        &endpoint,
        "[gate]\nallow = [\"*\"]\ndeny = [\"sea*\"]\nask = [\"run_command\"]\n",
    );
    let done = place.run(&["try"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let told = endpoint.seen()[2].body["messages"].to_string();
    assert!(
        told.contains("not allowed: the agent file denies sea*"),
        "{told}"
    );
    assert!(
        told.contains("not allowed: approval is required, but there is no terminal to ask on"),
        "{told}"
    );
    assert!(!place.path("work/made").exists());
    let events = fs::read_to_string(place.recorded().join("events.jsonl")).unwrap();
    assert_eq!(
        events.matches("\"phase\":\"GATE\"").count(),
        3,
        "denied, asked, denied"
    );
    place.is_sound();

    fs::write(
        place.path("agent.toml"),
        "[model]\nbase_url = \"x\"\nmodel = \"x\"\n[gate]\ndeny = [\"run_comand\"]\n",
    )
    .unwrap();
    let wrong = text(&place.run(&["x"]).stderr);
    assert!(
        wrong.contains("agent.toml:5: no tool matches \"run_comand\""),
        "{wrong}"
    );
}

#[test]
fn the_time_of_the_run_bounds_its_requests() {
    let endpoint = Endpoint::playing([Play::Hang]);
    let place = Place::new(&endpoint, "[budget]\nseconds = 0.3\n");
    let done = place.run(&["wait"]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert_eq!(place.manifest()["stop"]["code"], "budget_time");
    assert_eq!(endpoint.seen().len(), 1);
    place.is_sound();
    // Exactly one row of the table is about the run's time, and it's the rule that fired.
    let why = told(&place, "why");
    let rules = why["rules"].as_array().unwrap().iter();
    let of_time: Vec<_> = rules.filter(|rule| rule["kind"] == "budget_time").collect();
    let row = |rule: &Value| json!([rule["id"], rule["result"], rule["limit"]]);
    assert_eq!(
        of_time.into_iter().map(row).collect::<Vec<_>>(),
        [json!(["budget.time", "fired", 300])]
    );
}

#[test]
fn a_server_that_fails_is_asked_as_often_as_the_file_says() {
    let busy = || Play::Whole(503, "retry-after: 0\r\n", "busy".to_owned());
    let endpoint = Endpoint::playing((0..12).map(|_| busy()));
    let place = Place::new(&endpoint, "");
    let done = place.run(&["try"]);
    assert_eq!(
        (done.status.code(), endpoint.seen().len()),
        (Some(1), 2),
        "once, and `retries = 1` more"
    );
    assert!(
        text(&done.stdout).contains("busy (2 attempts)"),
        "{}",
        text(&done.stdout)
    );
    place.is_sound();
}

#[test]
fn a_judge_that_fails_is_named() {
    let endpoint = Endpoint::playing([
        says("done"),
        Play::Whole(401, "", "no access for judges".to_owned()),
    ]);
    let place = Place::new(
        &endpoint,
        "[[critic]]\nkind = \"judge\"\ncriteria = \"good\"\n",
    );
    let done = place.run(&["try"]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(
        text(&done.stdout).contains("no access for judges"),
        "{}",
        text(&done.stdout)
    );
    assert_eq!(place.manifest()["stop"]["code"], "criterion_error");
    place.is_sound();
}

#[test]
fn runs_do_not_lie_in_the_workspace_itself() {
    let endpoint = Endpoint::playing([]);
    let place = Place::new(&endpoint, "");
    fs::create_dir(place.path("runs")).unwrap();
    let agent = fs::read_to_string(place.path("agent.toml")).unwrap();
    fs::write(
        place.path("agent.toml"),
        agent.replace("dir = \"work\"", "dir = \"runs\""),
    )
    .unwrap();
    let done = place.run(&["x"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        text(&done.stderr).contains("runs can't be written directly into the agent's workspace"),
        "{}",
        text(&done.stderr)
    );
    assert_eq!(fs::read_dir(place.path("runs")).unwrap().count(), 0);
}

#[test]
fn a_run_is_told_in_json() {
    let piece = |text: &str, end| piece(&json!({"content": text}), end);
    let endpoint = Endpoint::playing([Play::Events(vec![
        piece("It is ", None),
        piece("fine.", Some("stop")),
    ])]);
    let place = Place::new(&endpoint, "[task]\nobjective = \"look\"\n");
    let done = place.run(&["--json"]);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&report["outcome"], &report["answer"]),
        (&json!("completed"), &json!("It is fine."))
    );
    assert_eq!(
        (&report["steps"], &report["stop_reason"]),
        (&json!(1), &json!("final"))
    );
    assert_eq!(report["path"], place.recorded().display().to_string());
    assert_eq!(endpoint.seen()[0].body["messages"][1]["content"], "look");
    place.is_sound();
}

#[test]
fn a_run_that_does_not_complete_says_no() {
    let again = || calls("c", "list_dir", &json!({}));
    let endpoint = Endpoint::playing([again(), again(), again()]);
    let place = Place::new(&endpoint, "[budget]\nsteps = 2\n");
    let done = place.run(&["list for ever"]);
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(
        text(&done.stdout).lines().count(),
        1,
        "only the verdict: {}",
        text(&done.stdout)
    );
    assert_eq!(place.manifest()["stop"]["outcome"], "truncated");
    place.is_sound();
}

#[test]
fn a_server_that_echoes_the_key_gets_it_nowhere() {
    let complaint =
        json!({"error": {"message": format!("the key {KEY} is not known")}}).to_string();
    let endpoint = Endpoint::playing([Play::Whole(401, "", complaint)]);
    let place = Place::new(&endpoint, "");
    let done = place.run(&["try"]);
    assert_eq!(done.status.code(), Some(1));
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert!(
        said.contains("the key [key] is not known") && !said.contains(KEY),
        "{said}"
    );
    place.is_sound();
    place.holds_no_key();
}

#[test]
fn the_task_may_come_from_stdin() {
    let endpoint = Endpoint::playing([says("ok")]);
    let place = Place::new(&endpoint, "");
    fs::write(place.path("task.txt"), "do as the file says\n").unwrap();
    let stdin = fs::File::open(place.path("task.txt")).unwrap();
    let done = place.command(&["-"]).stdin(stdin).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let messages = &endpoint.seen()[0].body["messages"];
    assert_eq!(messages[1]["content"], "do as the file says");
}

#[test]
fn what_is_missing_is_said_before_anything_is_recorded() {
    let endpoint = Endpoint::playing([]);
    let place = Place::new(&endpoint, "");
    let no_task = place.run(&[]);
    assert_eq!(
        (no_task.status.code(), text(&no_task.stdout).as_str()),
        (Some(2), "")
    );
    assert!(
        text(&no_task.stderr)
            .starts_with("board: the task is missing\nhint: pass it after the file")
    );
    let no_key = place
        .command(&["x"])
        .env_remove("E2E_KEY")
        .output()
        .unwrap();
    assert_eq!(no_key.status.code(), Some(2));
    assert!(
        text(&no_key.stderr).starts_with(
            "board: the environment variable E2E_KEY isn't set; it must contain the API key"
        ),
        "{}",
        text(&no_key.stderr)
    );
    fs::write(place.path("agent.toml"), "[model]\nbase = 1\n").unwrap();
    let wrong = place.run(&["x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("agent.toml:2: unknown key `base`"),
        "{}",
        text(&wrong.stderr)
    );
    let missing = Command::new(BINARY)
        .args(["run", "no-such.toml", "x"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(3));
    assert!(!place.path("runs").exists());
}

/// Sends the same signal as Ctrl-C.
fn interrupt(child: &Child) {
    signal(child, "-INT");
}

fn signal(child: &Child, which: &str) {
    let sent = Command::new("kill")
        .args([which, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Returns a command's JSON output for the only recorded run.
fn told(place: &Place, command: &str) -> Value {
    let said = Command::new(BINARY)
        .arg(command)
        .arg(place.recorded())
        .arg("--json")
        .output()
        .unwrap();
    serde_json::from_slice(&said.stdout).unwrap()
}

fn wait_for(path: &Path) {
    until("the command runs", || path.exists().then_some(()));
}

#[test]
fn an_interrupted_tool_leaves_a_closed_manifest() {
    let endpoint = Endpoint::playing([calls(
        "c1",
        "run_command",
        &json!({"command": "touch started; sleep 600"}),
    )]);
    let place = Place::new(&endpoint, "");
    let child = place.command(&["wait"]).spawn().unwrap();
    wait_for(&place.path("work/started"));
    interrupt(&child);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(
        text(&done.stderr).contains("board: ending the run; a second signal ends the program"),
        "{}",
        text(&done.stderr)
    );
    assert_eq!(text(&done.stdout).lines().count(), 1);
    let manifest = place.manifest();
    assert_eq!(manifest["stop"]["code"], "cancelled_immediate");
    assert_eq!(manifest["stop"]["outcome"], "cancelled");
    assert_ne!(manifest["status"], "running");
    place.is_sound();
}

#[test]
fn an_interrupted_answer_is_not_waited_for() {
    let endpoint = Endpoint::playing([Play::Hang]);
    let place = Place::new(&endpoint, "");
    let child = place.command(&["wait"]).spawn().unwrap();
    until("the model is asked", || {
        (!endpoint.seen().is_empty()).then_some(())
    });
    interrupt(&child);
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert_eq!(place.manifest()["stop"]["code"], "cancelled_immediate");
    place.is_sound();
}

/// Closes the terminal of a run, started without and with `nohup`.
#[test]
fn a_closed_terminal_ends_a_run_unless_it_is_to_outlive_it() {
    let command = "touch started; until [ -e go ]; do sleep 0.05; done";
    let waits = || calls("c1", "run_command", &json!({"command": command}));
    // Tests that run under `nohup` inherit its setting.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .map(str::trim);
    if ignored.is_none_or(|mask| u64::from_str_radix(mask, 16).unwrap() & 1 == 0) {
        let endpoint = Endpoint::playing([waits()]);
        let place = Place::new(&endpoint, "");
        let child = place.command(&["wait"]).spawn().unwrap();
        wait_for(&place.path("work/started"));
        signal(&child, "-HUP");
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
        assert_eq!(place.manifest()["stop"]["code"], "cancelled_immediate");
        place.is_sound();
    }
    if !Path::new("/proc/self/status").exists() {
        return;
    }
    let endpoint = Endpoint::playing([waits(), says("done")]);
    let place = Place::new(&endpoint, "");
    let inner = place.command(&["wait"]);
    let mut outlives = Command::new("sh");
    outlives
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args());
    outlives
        .env("E2E_KEY", KEY)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = outlives.spawn().unwrap();
    wait_for(&place.path("work/started"));
    signal(&child, "-HUP");
    fs::write(place.path("work/go"), "").unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert_eq!(place.manifest()["stop"]["code"], "final");
}

#[test]
fn what_a_killed_run_spent_in_its_last_step_is_not_left_out_in_silence() {
    let list = calls("c1", "list_dir", &json!({}));
    let endpoint = Endpoint::playing([
        list,
        calls(
            "c2",
            "run_command",
            &json!({"command": "touch started; sleep 20"}),
        ),
    ]);
    let prices = "[prices.\"tiny-1\"]\ninput = 1.0\noutput = 1.0\n";
    let limits = "[stop]\npolicies = [\"max_cost=3\"]\n[budget]\ntokens = 1000\n";
    let place = Place::new(&endpoint, &format!("{limits}{prices}"));
    let mut child = place.command(&["wait"]).spawn().unwrap();
    wait_for(&place.path("work/started"));
    child.kill().unwrap();
    child.wait().unwrap();
    let show = told(&place, "show");
    assert_eq!(
        (&show["liveness"], &show["model_calls"]),
        (&json!("died"), &json!(2))
    );
    assert_eq!(
        (&show["tokens"], &show["steps_without_tokens"]),
        (&json!(28), &json!(1)),
        "{show}"
    );
    let shown = Command::new(BINARY)
        .arg("show")
        .arg(place.recorded())
        .output()
        .unwrap();
    assert!(
        text(&shown.stdout).contains("at least 28; 1 step doesn't record its tokens"),
        "{}",
        text(&shown.stdout)
    );
    let why = told(&place, "why");
    let rules = why["rules"].as_array().unwrap();
    let result = |id: &str| &rules.iter().find(|rule| rule["id"] == id).unwrap()["result"];
    assert_eq!(
        (result("budget.tokens"), result("stop[0]")),
        (&json!("unknown"), &json!("unknown")),
        "{why}"
    );
    // The recorded lines are enough to evaluate the step budget.
    assert_eq!(result("budget.steps"), "held");
}

#[test]
fn tokens_that_the_engine_estimated_are_told_as_an_estimate() {
    let untold = |message: &Value| {
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        Play::Whole(
            200,
            "",
            json!({"model": "tiny-1", "choices": [choice]}).to_string(),
        )
    };
    let endpoint = Endpoint::playing([untold(&json!({"role": "assistant", "content": "done"}))]);
    let place = Place::new(&endpoint, "");
    let done = place.run(&["try"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let show = told(&place, "show");
    assert_eq!(show["tokens_estimated"], true, "{show}");
    let shown = Command::new(BINARY)
        .arg("show")
        .arg(place.recorded())
        .output()
        .unwrap();
    let about = format!("≈{}", show["tokens"]);
    assert!(
        text(&shown.stdout).contains(&about),
        "{}",
        text(&shown.stdout)
    );

    let endpoint = Endpoint::playing([says("done")]);
    let place = Place::new(&endpoint, "");
    place.run(&["try"]);
    assert_eq!(told(&place, "show")["tokens_estimated"], false);
}
