//! Starts a run with a task, or with the steps of a recorded run.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::Args;
use crate::analysis::format::counted;
use crate::cli::look::Look;
use crate::engine::Earlier;
use crate::error::{Error, Kind, Result};
use crate::llm::AgentFile;
use crate::trace::RunWriter;

/// The start of a run.
#[derive(Debug)]
pub(super) enum Start {
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

impl Start {
    /// Returns the messages to show about it.
    pub(super) fn messages(&self) -> Vec<String> {
        let Start::Resumed(earlier) = self else {
            return Vec::new();
        };
        let steps = counted(
            usize::try_from(earlier.steps()).unwrap_or(usize::MAX),
            "step",
        );
        let mut messages = vec![match earlier.parent() {
            Some(parent) => {
                format!(
                    "branching from {parent} after {steps}; the agent's files are used as they are"
                )
            }
            None => format!("resuming after {steps}; the agent's files are used as they are"),
        }];
        if let Some(unfinished) = earlier.unfinished() {
            let step = unfinished.step;
            messages.push(format!(
                "step {step} started but didn't finish: it runs again, and its earlier usage is unknown"
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
}

/// Returns the start of the run, and its directory.
pub(super) fn start(
    args: &Args,
    task: String,
    file: &AgentFile,
    look: &Look,
) -> Result<(Start, PathBuf)> {
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
        (Some(run), _) if !run.exists() => {
            let what = format!("there is no run at {}", run.display());
            return Err(Error::new(Kind::NotFound, what));
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
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) {
            letter
        } else {
            '-'
        }
    };
    let agent: String = agent
        .trim_start_matches('.')
        .chars()
        .take(60)
        .map(plain)
        .collect();
    let now = Timestamp::from_microsecond(look.now)
        .unwrap_or_default()
        .to_zoned(look.zone.clone());
    let name = format!(
        "{}-{}",
        if agent.is_empty() { "run" } else { &agent },
        now.strftime("%Y%m%d-%H%M%S")
    );
    // Several runs of one agent may begin in the same second.
    RunWriter::create_first(
        root,
        std::iter::once(name.clone()).chain((2..100).map(|n| format!("{name}-{n}"))),
    )
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
