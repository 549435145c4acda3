//! Tests the files left behind when the engine's process is killed: every line that it reported as
//! written, and a readable manifest. `BOARD_KILLS=COUNT` kills COUNT writers, each at a different
//! moment.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trace_board::engine::{
    Action, Agent, AgentError, Decision, Done, Engine, Hook, Moment, State, StepCx, Tool, ToolCx,
    ToolError, ToolResult,
};
use trace_board::trace::RunWriter;

use crate::board::BINARY;
use crate::chance::Chance;
use crate::engine_runs::Echo;
use crate::soak::times;

const STEPS: u64 = 120;
/// Every this many steps, a line is so long that the system writes it in several pieces.
const LONG_EVERY: u64 = 8;

/// Environment variable with the directory of the writer that will be killed.
const PLACE: &str = "BOARD_KILLED_RUNS";

/// Environment variable that lets the writer run without hooks. The engine then writes events
/// together if nothing waits between them.
const WITHOUT_HOOKS: &str = "BOARD_KILLED_WITHOUT_HOOKS";

/// The events of a step that calls a tool: `DECIDE` twice, `ACT` twice, `REDUCE` and `CHECK_STOP`.
const EVENTS_A_STEP: u64 = 6;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Heard {
    bytes: usize,
}

fn report(steps: u64, events: u64) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "written: {steps} {events}")
}

/// An agent that keeps writing text, sometimes a long one.
struct Speaker {
    /// Whether it reports what must be written when it's asked: all completed steps, their events,
    /// `INIT`, and the first event of its own step.
    reports: bool,
}

impl Agent for Speaker {
    type Data = Heard;

    fn name(&self) -> &str {
        "speaker"
    }

    async fn decide(
        &mut self,
        _: &State<Heard>,
        cx: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        if self.reports {
            report(cx.step, cx.step * EVENTS_A_STEP + 2)?;
        }
        let times = if cx.step.is_multiple_of(LONG_EVERY) {
            60_000
        } else {
            10
        };
        let tool = if self.reports { "reports" } else { "echo" };
        Ok(Some(Decision::act([Action::new(tool)
            .arg("text", "again ")
            .arg("times", times)])))
    }

    fn reduce(&mut self, state: &mut State<Heard>, step: &Done<'_>) -> Result<(), AgentError> {
        state.data.bytes += step
            .results
            .iter()
            .map(|result| ToolResult::text(result).len())
            .sum::<usize>();
        Ok(())
    }
}

/// Prints the number of lines written whenever the engine reports a write.
#[derive(Default)]
struct Says {
    events: u64,
    steps: u64,
}

impl Hook<Heard> for Says {
    fn name(&self) -> &str {
        "says"
    }

    fn on(&mut self, moment: &Moment<'_, Heard>) -> Result<(), String> {
        match moment {
            Moment::Phase { .. } => self.events += 1,
            Moment::AfterStep { .. } => self.steps += 1,
            _ => {}
        }
        report(self.steps, self.events).map_err(|error| error.to_string())
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReportsArgs {
    text: String,
    times: usize,
}

/// Like `echo`. Also reports what must be written when it's called: what was when the agent was
/// asked, the decision, and that the call begins.
struct Reports;

impl Tool for Reports {
    type Args = ReportsArgs;
    type Output = String;

    fn name(&self) -> &str {
        "reports"
    }

    fn description(&self) -> &str {
        "Says it again, and reports what is written."
    }

    async fn call(&self, args: ReportsArgs, cx: ToolCx<'_>) -> Result<String, ToolError> {
        report(cx.step, cx.step * EVENTS_A_STEP + 4)?;
        Ok(args.text.repeat(args.times))
    }
}

/// The writer: another process runs only this test and is killed. Otherwise, it runs to the end.
#[test]
fn the_writer() {
    let scratch = tempfile::tempdir().unwrap();
    let root = std::env::var_os(PLACE).map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let writer = RunWriter::create(&root, "run").unwrap();
    let reports = std::env::var_os(WITHOUT_HOOKS).is_some();
    let mut engine = Engine::builder(Speaker { reports })
        .tool(Echo)
        .tool(Reports)
        .max_steps(STEPS)
        .record(writer);
    if !reports {
        engine = engine.hook(Says::default());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let result = runtime.block_on(engine.build().unwrap().run("Say it."));
    assert_eq!(
        (result.steps.len() as u64, result.trace_error),
        (STEPS, None)
    );
    assert_eq!(lines(&root.join("run/steps.jsonl")).0.len() as u64, STEPS);
}

/// Returns the complete lines of a file, and the text after them.
fn lines(path: &Path) -> (Vec<Value>, Vec<u8>) {
    let text = fs::read(path).unwrap_or_default();
    let mut lines: VecDeque<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let rest = lines.pop_back().unwrap_or_default().to_vec();
    let read = |line: &[u8]| {
        serde_json::from_slice(line).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    (lines.into_iter().map(read).collect(), rest)
}

/// Kills a writer some time after it has reported `after` writes. Returns whether it was still
/// running, and whether it left a torn line.
fn killed(with_hooks: bool, after: u64, and_then: Duration) -> (bool, bool) {
    let root = tempfile::tempdir().unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap());
    if !with_hooks {
        writer.env(WITHOUT_HOOKS, "1");
    }
    let mut child = writer
        .args(["--exact", "killed::the_writer", "--nocapture"])
        .env(PLACE, root.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let count = |line: String| line.strip_prefix("written: ").map(str::to_owned);
    let mut last = said.by_ref().filter_map(count).take(after as usize).last();
    let heard = Instant::now();
    while heard.elapsed() < and_then {
        // A spin loop can hit any moment in a step, which is shorter than the shortest sleep.
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Everything reported before the kill counts, even if it's read later.
    last = said.filter_map(count).last().or(last);
    let last = last.expect("it printed something");
    let (steps, events) = last.split_once(' ').unwrap();

    let run = root.path().join("run");
    let manifest: Value =
        serde_json::from_slice(&fs::read(run.join("manifest.json")).unwrap()).unwrap();
    for (file, said, counted) in [
        ("steps.jsonl", steps, "step_count"),
        ("events.jsonl", events, "event_count"),
    ] {
        let (whole, rest) = lines(&run.join(file));
        let said: usize = said.parse().unwrap();
        assert!(
            whole.len() >= said,
            "{file}: {said} lines announced, {} found",
            whole.len()
        );
        assert!(
            whole.len() as u64 >= manifest[counted].as_u64().unwrap(),
            "{file}: fewer lines than announced"
        );
        if file == "steps.jsonl" {
            assert!(
                whole
                    .iter()
                    .enumerate()
                    .all(|(at, line)| line["step_id"] == at),
                "the steps are in order"
            );
        }
        // A line and its end are one write, so a torn line was still being written.
        assert!(
            serde_json::from_slice::<Value>(&rest).is_err(),
            "{file}: a whole line without its end"
        );
    }
    let check = Command::new(BINARY)
        .arg("check")
        .arg("--json")
        .arg(&run)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&check.stdout).unwrap();
    let issues = found["runs"][0]["issues_list"].as_array().unwrap();
    let met = manifest["status"] == "running";
    assert!(
        issues.len() <= usize::from(met),
        "a torn last line at most: {issues:?}"
    );
    assert!(
        issues.iter().all(|issue| issue["kind"] == "torn"),
        "{issues:?}"
    );
    (met, !issues.is_empty())
}

#[test]
fn written_data_is_never_lost() {
    let count: u64 = std::env::var("BOARD_KILLS").map_or(times(6, 12) as u64, |count| {
        count.parse().expect("BOARD_KILLS is a number")
    });
    let (mut met, mut torn) = (0, 0);
    for seed in 0..count {
        let mut chance = Chance::new(seed);
        let with_hooks = seed % 2 == 0;
        // Without hooks, the agent and the tool report once a step each.
        let messages = if with_hooks { EVENTS_A_STEP } else { 2 };
        let (after, micros) = (1 + chance.below(STEPS * messages), chance.below(1500));
        eprintln!("seed {seed}: hooks: {with_hooks}, killed {micros} us after {after} messages");
        let (before_its_end, tore) = killed(with_hooks, after, Duration::from_micros(micros));
        (met, torn) = (met + u64::from(before_its_end), torn + u64::from(tore));
    }
    eprintln!(
        "{met} of {count} were killed before their end, {torn} left a torn last line, no data was lost"
    );
    assert!(
        met * 2 > count,
        "only {met} of {count} were killed before their end"
    );
}
