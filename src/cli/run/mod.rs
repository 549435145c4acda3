//! `board run`: runs an agent described by a file on a real model, and records it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use self::ask::Terminal;
use self::hangup::hung_up;
use self::progress::Progress;
use super::command::{Done, Failure, write_json};
use super::look::{Look, colours};
use super::open::open;
use crate::analysis::format::{counted, visible};
use crate::engine::{Builder, Cancel, Earlier, LastCalls, ModelAgent, RunResult};
use crate::error::{Error, Kind, Result};
use crate::llm::{AgentContext, AgentFile, EXAMPLE, Inherited, Secret, close_process};
use crate::recorded::{RecordedRun, not_there};
use crate::serve::asked_to_stop;
use crate::stop::{Outcome, StopVerdict};
use crate::trace::RunWriter;

mod ask;
mod hangup;
mod progress;

/// The variable with the file descriptor of the pipe that contains the key, set when the program
/// re-executes itself.
const KEY_FD: &str = "BOARD_KEY_FD";
/// The maximum size of a key.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// Run an agent described by a file and record it; exits with 1 if it doesn't complete
///
/// The file specifies a model behind an OpenAI-compatible endpoint, the tools, the agent's working directory, and the
/// stop rules. Ctrl-C ends the run at once, with a verdict; a second Ctrl-C ends the program. SIGTERM and closing the
/// terminal also end it. Under nohup, closing the terminal doesn't.
#[derive(Debug, clap::Args)]
#[command(after_long_help = help())]
pub(super) struct Args {
    /// The file that describes the agent
    #[arg(value_name = "AGENT.toml")]
    file: PathBuf,
    /// What the agent should do; `-` reads it from stdin [default: the file's [task]]
    #[arg(value_name = "TASK", conflicts_with = "resume")]
    task: Option<String>,
    /// Where to create the run's directory [default: ./runs; for a branch, next to the original run]
    #[arg(long, value_name = "ROOT")]
    runs: Option<PathBuf>,
    /// Resume a recorded run in its own directory; files in the workspace aren't restored
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
    /// Instead of resuming, branch from the run: start a new one with the steps before STEP
    #[arg(long, value_name = "STEP", value_parser = super::command::whole_number::<u64>, requires = "resume")]
    from: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn help() -> String {
    format!("A complete agent file; only base_url and model are required:\n\n{EXAMPLE}")
}

/// The result of a run.
#[derive(Debug, Serialize)]
struct Report<'a> {
    run: &'a str,
    path: String,
    outcome: &'static str,
    stop_reason: &'a str,
    code: String,
    verdict: &'a str,
    answer: Option<&'a str>,
    last_text: Option<&'a str>,
    /// Completed steps, as counted by limits.
    steps: u64,
    /// Started steps, as listed by board. `None` if the trace can't be read.
    steps_begun: Option<usize>,
    tokens: u64,
    /// Whether some of these tokens are estimates.
    tokens_estimated: bool,
    trace_error: Option<&'a str>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    // Clap doesn't require --resume if there is a task, since the two exclude each other.
    if args.from.is_some() && args.resume.is_none() {
        let error = Error::new(
            Kind::Usage,
            "--from branches from a recorded run, but none is given",
        );
        return Err(error
            .hint("add --resume RUN, and remove the task: a branch keeps its run's task")
            .into());
    }
    if let Some(run) = &args.resume {
        check_exists(run)?;
    }
    // Before any file is opened, since the files open now were inherited by this process.
    let given = Inherited::find();
    let file = AgentFile::load(&args.file)?;
    // Before stdin is read and anything else is started, so that everything inherits this.
    let is_known = args.task.is_some() || args.resume.is_some() || file.objective().is_some();
    let key = if is_known {
        key(args, &file)?
    } else {
        Secret::default()
    };
    let closed = close_process();
    let given = given.map(Inherited::close);
    let task = if args.resume.is_some() {
        String::new()
    } else {
        task(args, &file)?
    };
    let context = AgentContext {
        key,
        environment: std::env::vars_os().collect(),
        // Clients that failed together retry at different times.
        seed: u64::from(std::process::id()) ^ u64::try_from(look.now).unwrap_or_default(),
    };
    let engine = file.engine(&context)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| Error::new(Kind::Bug, "can't start the runtime").because(error))?;
    let servers = runtime.block_on(file.mcp_servers(&context))?;
    let engine = servers.join(engine);
    let (start, dir) = start(args, task, &file, look)?;
    let run = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let progress = Arc::new(Progress::new(io::stderr(), colours(&io::stderr())));
    let in_environment = file
        .key_variable()
        .is_some_and(|name| std::env::var_os(name).is_some());
    let closed = closed.and_then(|()| match in_environment && context.key.is_some() {
        true => Err(io::Error::other("it stays in the environment")),
        false => Ok(()),
    });
    if let (Err(error), true) = (closed, context.key.is_some() && file.runs_commands()) {
        progress.say(&format!(
            "commands can read the key from this process: {error}"
        ));
    }
    if let (Err(error), true) = (given, file.runs_commands()) {
        progress.say(&format!(
            "commands inherit the open files of this process: {error}"
        ));
    }
    let result = drive(&runtime, engine, start, &progress).inspect_err(|_| {
        // Without records, an empty directory would look like a run. A directory that contains
        // files isn't removed.
        let _ = std::fs::remove_dir(&dir);
    })?;
    runtime.block_on(servers.end());
    // Doesn't wait for a tool that blocks, such as a search.
    runtime.shutdown_background();
    let trace = open(&dir, Timestamp::now().as_microsecond()).ok();
    let steps_begun = trace.as_ref().and_then(|run| run.summary.steps_known());
    let sentence = sentence(trace, &result);
    let completed = result.verdict.outcome == Outcome::Completed;
    if args.json {
        let report = Report {
            run: &run,
            path: dir.display().to_string(),
            outcome: result.verdict.outcome.as_str(),
            stop_reason: &result.verdict.stop_reason,
            code: result.verdict.code.to_string(),
            verdict: &sentence,
            answer: result.answer(),
            last_text: result.last_text.as_deref(),
            steps: result.step_count,
            steps_begun,
            tokens: result.stats.tokens.total(),
            tokens_estimated: result.stats.tokens.estimated,
            trace_error: result.trace_error.as_deref(),
        };
        write_json(out, &report)?;
    } else {
        if let Some(answer) = result.answer().filter(|_| completed) {
            writeln!(out, "{}\n", visible(answer.trim_end()))?;
        }
        writeln!(out, "{}", visible(&sentence))?;
    }
    if let Some(error) = &result.trace_error {
        progress.say(&format!("the trace is incomplete: {error}"));
    }
    Ok(u8::from(!completed))
}

/// The start of a run.
#[derive(Debug)]
enum Start {
    /// A new run with a task.
    New {
        /// The text of the task.
        task: String,
        /// The writer that records the run.
        writer: Box<RunWriter>,
    },
    /// A recorded run to continue.
    Resumed(Box<Earlier>),
}

/// Returns the messages to show about a run that continues.
fn messages(earlier: &Earlier) -> Vec<String> {
    let steps = counted(
        usize::try_from(earlier.steps()).unwrap_or(usize::MAX),
        "step",
    );
    let what = match earlier.parent() {
        Some(parent) => format!("branching from {parent} after {steps}"),
        None => format!("resuming after {steps}"),
    };
    let mut messages = vec![format!("{what}; files in the workspace aren't restored")];
    if let Some(unfinished) = earlier.unfinished() {
        let (step, tokens) = (unfinished.step, unfinished.tokens);
        let counts = match tokens {
            0 => String::new(),
            tokens => format!(" The {tokens} tokens of its completed requests count."),
        };
        messages.push(format!(
            "step {step} started but didn't finish, so it runs again.{counts} \
             A request that was interrupted isn't counted"
        ));
    }
    if earlier.torn_bytes() > 0 {
        messages.push(format!(
            "removed an incomplete record of {} bytes",
            earlier.torn_bytes()
        ));
    }
    messages
}

/// Checks that something is at the path of a run that is to be resumed.
fn check_exists(run: &Path) -> Result<()> {
    match run.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(not_there(run)),
        Err(error) => {
            let what = format!("can't access {}", run.display());
            Err(Error::new(Kind::Unreadable, what).because(error))
        }
    }
}

/// Returns the start of the run, and its directory.
fn start(args: &Args, task: String, file: &AgentFile, look: &Look) -> Result<(Start, PathBuf)> {
    let beside = |run: &Path| {
        run.canonicalize()
            .ok()
            .and_then(|run| Some(run.parent()?.to_owned()))
    };
    let runs = args
        .runs
        .clone()
        .or_else(|| beside(args.resume.as_deref()?))
        .unwrap_or_else(|| "./runs".into());
    check_outside_workspace(&runs, file)?;
    let new = || create(&runs, file.name(), look);
    let earlier = match (&args.resume, args.from) {
        (None, _) => {
            let writer = Box::new(new()?);
            let dir = writer.dir().to_owned();
            return Ok((Start::New { task, writer }, dir));
        }
        (Some(_), None) if args.runs.is_some() => {
            let error = Error::new(
                Kind::Usage,
                "a run can only be resumed in its own directory",
            );
            return Err(error.hint("remove --runs, or branch from the run with --from STEP"));
        }
        (Some(run), None) => {
            Earlier::open(run).map_err(|error| match error.hints().is_empty() {
                true => error.hint(
                    "--from STEP branches from the run: it starts a new one with the steps before STEP",
                ),
                false => error,
            })?
        }
        (Some(run), Some(step)) => {
            let writer = new()?;
            let dir = writer.dir().to_owned();
            Earlier::branch(run, step, writer).inspect_err(|_| {
                // An empty directory without records would look like a run.
                let _ = std::fs::remove_dir(&dir);
            })?
        }
    };
    let dir = earlier.dir().to_owned();
    Ok((Start::Resumed(Box::new(earlier)), dir))
}

/// Rejects the agent's own workspace as the directory for runs, since the agent's tools could write
/// fake runs there.
fn check_outside_workspace(runs: &Path, file: &AgentFile) -> Result<()> {
    match (runs.canonicalize(), file.workspace().canonicalize()) {
        (Ok(runs), Ok(workspace)) if runs == workspace => {
            let error = Error::new(
                Kind::Usage,
                format!(
                    "runs can't be written directly into the agent's workspace, {}",
                    runs.display()
                ),
            );
            Err(error.hint(
                "pass --runs with another directory, such as ./runs, or set `dir` under [workspace]",
            ))
        }
        _ => Ok(()),
    }
}

/// Creates a directory for the run, named after the agent and the time.
fn create(root: &Path, agent: &str, look: &Look) -> Result<RunWriter> {
    let now = Timestamp::from_microsecond(look.now)
        .unwrap_or_default()
        .to_zoned(look.zone.clone());
    RunWriter::create_dated(root, agent, &now)
}

/// Returns the agent's task.
fn task(args: &Args, file: &AgentFile) -> std::result::Result<String, Failure> {
    let task = match args.task.as_deref() {
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| {
                Error::new(Kind::Unreadable, "can't read the task from stdin").because(error)
            })?;
            Some(text)
        }
        Some(task) => Some(task.to_owned()),
        None => file.objective().map(str::to_owned),
    };
    let task = task
        .map(|task| task.trim().to_owned())
        .filter(|task| !task.is_empty());
    let missing = || {
        Error::new(Kind::Usage, "the task is missing")
            .hint("pass it after the file, pipe it in with -, or set `objective` under [task] in the file")
    };
    Ok(task.ok_or_else(missing)?)
}

/// Returns the key that the file requires, from another file or the environment.
fn key(args: &Args, file: &AgentFile) -> Result<Secret> {
    let handed = std::env::var(KEY_FD)
        .ok()
        .map(|fd| Path::new("/dev/fd").join(fd));
    if let Some(path) = handed.or_else(|| file.key_file()) {
        let mut text = String::new();
        let read = std::fs::File::open(&path)
            .and_then(|file| file.take(MAX_KEY_BYTES).read_to_string(&mut text));
        let cannot = || format!("can't read the key from {}", path.display());
        read.map_err(|error| Error::new(Kind::Unreadable, cannot()).because(error))?;
        let key = Secret::new(Some(&text));
        let empty = || {
            Error::new(
                Kind::Usage,
                format!("{} must contain the API key but is empty", path.display()),
            )
        };
        return if key.is_some() { Ok(key) } else { Err(empty()) };
    }
    let Some(name) = file.key_variable() else {
        return Ok(Secret::default());
    };
    let key = Secret::new(std::env::var(name).ok().as_deref());
    if !key.is_some() && file.needs_key() {
        let error = Error::new(
            Kind::Usage,
            format!("the environment variable {name} isn't set; it must contain the API key"),
        );
        return Err(
            error.hint("set `api_key_env = \"\"` under [model] if the endpoint needs no key")
        );
    }
    // A pipe as agent file can be read only once.
    if key.is_some() && std::fs::metadata(&args.file).is_ok_and(|agent| agent.is_file()) {
        reexec_without_key(name, &key);
    }
    Ok(key)
}

/// Re-executes the program without the key in its environment, which commands could read and which
/// can't be wiped. The key is passed through a pipe. If that isn't possible, returns and the run
/// continues.
#[cfg(unix)]
fn reexec_without_key(name: &str, key: &Secret) {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;

    let (Ok(program), Ok(pipe)) = (std::env::current_exe(), key.pipe()) else {
        return;
    };
    let fd = pipe.as_raw_fd().to_string();
    if !Path::new("/dev/fd").join(&fd).exists() {
        return;
    }
    let mut command = std::process::Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env_remove(name)
        .env(KEY_FD, fd);
    let error = command.exec();
    tracing::debug!("the key stays in the environment: {error}");
}

#[cfg(not(unix))]
fn reexec_without_key(_: &str, _: &Secret) {}

/// Runs the engine until it finishes or the user stops it.
fn drive(
    runtime: &tokio::runtime::Runtime,
    engine: Builder<ModelAgent>,
    start: Start,
    progress: &Arc<Progress>,
) -> Result<RunResult<LastCalls>> {
    let cancel = Cancel::new();
    let person = Terminal {
        progress: progress.clone(),
    };
    let mut engine = engine
        .cancel(cancel.clone())
        .hook(progress.clone())
        .person(person);
    if progress.is_terminal() {
        let output = progress.clone();
        engine = engine.on_text(move |text| output.show_text(text));
    }
    let (engine, dir, start) = match start {
        Start::New { task, writer } => {
            let dir = writer.dir().to_owned();
            (engine.record(*writer), dir, Ok(task))
        }
        Start::Resumed(earlier) => (engine, earlier.dir().to_owned(), Err(earlier)),
    };
    let engine = engine.build()?;
    if let Err(earlier) = &start {
        engine.check(earlier)?;
        for line in messages(earlier) {
            progress.say(&line);
        }
    }
    progress.say(&format!("recording {}", dir.display()));
    let notices = progress.clone();
    runtime.block_on(async move {
        tokio::spawn(async move {
            tokio::select! {
                () = asked_to_stop() => {}
                // A shell may send the signal twice. The second must not kill the program before
                // the run is closed.
                () = hung_up() => {}
            }
            notices.say("ending the run; a second signal ends the program");
            cancel.now();
            asked_to_stop().await;
            // The exit code that Unix shells report for a program ended by Ctrl-C.
            std::process::exit(130);
        });
        match start {
            Ok(task) => Ok(engine.run(task).await),
            Err(earlier) => engine.resume(*earlier).await,
        }
    })
}

/// Returns why the run stopped, as `board list` will show it. If the trace doesn't contain the end,
/// returns the engine's own words.
fn sentence(trace: Option<RecordedRun>, result: &RunResult<LastCalls>) -> String {
    let verdict = &result.verdict;
    let tells = |stop: &StopVerdict| (&stop.code, stop.step) == (&verdict.code, verdict.step);
    match trace {
        Some(run) if result.trace_error.is_none() || run.index.stop().is_some_and(tells) => {
            run.summary.verdict.sentence.to_string()
        }
        _ => format!("{}: {}", verdict.code, verdict.reading.detail),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn runs_that_begin_in_the_same_second_have_directories_of_their_own() {
        const STARTS: usize = 8;
        for _ in 0..20 {
            let root = tempfile::tempdir().unwrap();
            let (look, together) = (
                Look {
                    colour: false,
                    now: 0,
                    zone: TimeZone::UTC,
                    width: None,
                },
                Barrier::new(STARTS),
            );
            let start = || {
                together.wait();
                create(root.path(), "agent", &look).unwrap()
            };
            // Kept until all have begun, since dropping a writer releases its directory.
            let writers: Vec<RunWriter> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..STARTS).map(|_| scope.spawn(start)).collect();
                starts
                    .into_iter()
                    .map(|start| start.join().unwrap())
                    .collect()
            });
            let dirs: BTreeSet<_> = writers
                .iter()
                .map(|writer| writer.dir().to_owned())
                .collect();
            assert_eq!(dirs.len(), STARTS, "{dirs:?}");
        }
    }
}
