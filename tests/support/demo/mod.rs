//! The programs that wrote `sample_runs`: scripted agents with real tools and no model.
//!
//! Each uses a stepping clock and a fixed seed, so its run is byte-for-byte reproducible. They use
//! the library as a user would.

mod cast;
mod coding;
mod critics;
mod endings;
mod limits;
mod long;
mod models;
mod odd;
mod planning;
mod research;
mod stage;
mod worlds;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trace_board::Result;

use self::stage::{Run, Stage};

/// Environment variables that tell a child process of these tests where to play a scenario, and
/// which.
const ROOT: &str = "BOARD_TEST_DEMO_ROOT";
const SCENARIO: &str = "BOARD_TEST_DEMO_SCENARIO";

/// The line that the scenario [`CRASH`] prints to stderr before it waits to be killed.
const AT_THE_BRINK: &str = "at the brink";

/// The scenario that is killed from outside.
const CRASH: &str = "crash";

/// A program that records a run.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// The name of the scenario and of its run.
    pub(crate) name: &'static str,
    set: fn(&Stage) -> Result<Run>,
}

/// All scenarios, in order of their start times.
pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario("fix_bug", coding::fix_bug),
    scenario("research", research::research),
    scenario("plan", planning::plan),
    scenario("final", endings::final_answer),
    scenario("success", research::success),
    scenario("budget_steps", limits::budget_steps),
    scenario("budget_time", limits::budget_time),
    scenario("budget_tokens", limits::budget_tokens),
    scenario("agent_condition", planning::agent_condition),
    scenario("critic_stop", critics::critic_stop),
    scenario("stagnation", limits::stagnation),
    scenario("env_terminal", worlds::env_terminal),
    scenario("task_validation_failed", endings::task_validation_failed),
    scenario("env_capability_mismatch", worlds::env_capability_mismatch),
    scenario("unrecoverable_error", endings::unrecoverable_error),
    scenario("context_overflow", models::context_overflow),
    scenario("cancelled_immediate", endings::cancelled_immediate),
    scenario("cancelled_after_step", endings::cancelled_after_step),
    scenario("critic_retry", critics::critic_retry),
    scenario("critic_conflict", critics::critic_conflict),
    scenario("judge", critics::judge),
    scenario("loop", limits::model_loop),
    scenario("tool_loop", limits::tool_loop),
    scenario("stop_on_tool", limits::stop_on_tool),
    scenario("max_rounds", limits::max_rounds),
    scenario("refused_answer", research::refused_answer),
    scenario("wait", planning::wait),
    scenario("branch", planning::branch),
    scenario("recovered_error", models::recovered_error),
    scenario("tool_retry", endings::tool_retry),
    scenario("model_native", models::model_native),
    scenario("model_react", models::model_react),
    scenario("unicode", odd::unicode),
    scenario("long", long::long),
    scenario(CRASH, endings::crash),
];

const fn scenario(name: &'static str, set: fn(&Stage) -> Result<Run>) -> Scenario {
    Scenario { name, set }
}

impl Scenario {
    /// Records the run below `root`. The scenario to be killed runs in another process.
    pub(crate) fn record(&self, root: &Path) {
        if self.name == CRASH {
            kill_at_the_brink(root);
        } else {
            self.play(root);
        }
    }

    fn play(&self, root: &Path) {
        let place = SCENARIOS
            .iter()
            .position(|scenario| scenario.name == self.name)
            .unwrap();
        let stage = Stage::new(self.name, place, root);
        let run = (self.set)(&stage).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(run), None, "{} is not whole", self.name);
    }
}

fn kill_at_the_brink(root: &Path) {
    let mut child = with_player(&mut Command::new(player()), CRASH, root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let came_there = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(std::io::Result::ok)
        .any(|line| line == AT_THE_BRINK);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(came_there, "the process ended before it was killed");
    // A killed writer leaves its reserve file for full disks behind; the file holds no information.
    std::fs::remove_file(root.join(CRASH).join(trace_board::trace::RESERVE_FILE)).unwrap();
}

/// The program that plays a scenario when its arguments are those of [`with_player`].
pub(crate) fn player() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Makes `command`, which must end up running [`player`], play one scenario below `root`.
pub(crate) fn with_player<'a>(
    command: &'a mut Command,
    scenario: &str,
    root: &Path,
) -> &'a mut Command {
    command
        .args(["--exact", "programs::the_player", "--nocapture"])
        .env(ROOT, root)
        .env(SCENARIO, scenario)
}

/// Not a test: the process that [`with_player`] starts.
#[test]
fn the_player() {
    let (Some(root), Ok(name)) = (std::env::var_os(ROOT), std::env::var(SCENARIO)) else {
        return;
    };
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    scenario.unwrap().play(Path::new(&root));
}

/// Notifies the waiting parent process.
fn tell_parent() {
    writeln!(std::io::stderr(), "{AT_THE_BRINK}").unwrap();
}
