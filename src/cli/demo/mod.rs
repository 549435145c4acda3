//! `board demo`: writes demo runs of every kind, copied from recordings built into the program.

mod live;
mod recordings;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::task::Poll;

use serde::Serialize;

use self::recordings::{RECORDINGS, Recording};
use super::command::{Done, write_json};
use super::look::{Ink, Look, ink_of};
use super::open::open;
use crate::analysis::columns::RunRow;
use crate::analysis::format::{counted, visible_line};
use crate::error::{Error, Kind, Result};
use crate::model::TraceFile;
use crate::recorded::RecordedRun;

/// The default recording for `--live`, long enough to watch.
const LIVE: &str = "long";

/// Write demo runs: recorded agents that end in many different ways
#[derive(Debug, clap::Args)]
#[command(after_help = scenarios())]
pub(super) struct Args {
    /// Where to write the runs, one directory each
    #[arg(default_value = "./runs")]
    root: PathBuf,
    /// Write only this scenario; repeatable
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Replay one scenario in real time, to watch in the browser; Ctrl-C writes the rest at once
    #[arg(long)]
    live: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// No longer supported: the demo runs are recordings
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    seed: Option<String>,
}

/// Returns the list of scenarios for the help.
fn scenarios() -> String {
    let width = name_width();
    let mut text = "Scenarios:".to_owned();
    for recording in RECORDINGS {
        // Writing to a string can't fail.
        let _ = write!(text, "\n  {:width$}  {}", recording.name, recording.about);
    }
    text
}

/// Returns the width of the longest name.
fn name_width() -> usize {
    let widths = RECORDINGS.iter().map(|recording| recording.name.len());
    widths.max().unwrap_or_default()
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    root: String,
    runs: Vec<RunRow<'a>>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    if args.seed.is_some() {
        let message =
            "--seed is no longer supported: the demo runs are recordings and always the same";
        let error = Error::new(Kind::Usage, message);
        return Err(error.hint("remove --seed").into());
    }
    let mut chosen = args
        .scenario
        .iter()
        .map(|name| named(name))
        .collect::<Result<Vec<_>>>()?;
    if args.live {
        if chosen.len() > 1 {
            return Err(Error::new(Kind::Usage, "--live replays one scenario")
                .hint("pass --scenario once")
                .into());
        }
        let recording = chosen.pop().map_or_else(|| named(LIVE), Ok)?;
        let dir = replay(recording, &args.root, args.json, out)?;
        return finish(args, &[dir], look, out);
    }
    if chosen.is_empty() {
        chosen = RECORDINGS.iter().collect();
    }
    let dirs = free(&args.root, &chosen)?;
    copy(&args.root, &chosen, &dirs)?;
    finish(args, &dirs, look, out)?;
    if !args.json {
        let hint = format!(
            "{}; view with: board serve {}",
            counted(dirs.len(), "run"),
            args.root.display()
        );
        writeln!(out, "{}", look.paint(Ink::Dim, &hint))?;
    }
    Ok(0)
}

/// Returns the recording with this name.
fn named(name: &str) -> Result<&'static Recording> {
    let found = RECORDINGS.iter().find(|recording| recording.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = RECORDINGS.iter().map(|recording| recording.name).collect();
        Error::new(Kind::Usage, format!("unknown scenario `{name}`"))
            .hint(format!("the scenarios are {}", names.join(", ")))
    })
}

/// Returns the directory for each scenario's run. Checks all of them before any is created.
fn free(root: &Path, chosen: &[&Recording]) -> Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = Vec::with_capacity(chosen.len());
    for recording in chosen {
        let dir = root.join(recording.name);
        if dirs.contains(&dir) {
            let twice = format!("the scenario {} is given twice", recording.name);
            return Err(Error::new(Kind::Usage, twice));
        }
        dirs.push(dir);
    }
    let taken: Vec<_> = dirs
        .iter()
        .filter(|dir| dir.symlink_metadata().is_ok())
        .collect();
    let Some(first) = taken.first() else {
        return Ok(dirs);
    };
    let exist = match taken.len() - 1 {
        0 => "already exists".to_owned(),
        more => format!("and {} already exist", counted(more, "other run")),
    };
    let error = Error::new(
        Kind::Usage,
        format!("{} {exist}; nothing was written", first.display()),
    );
    Err(error.hint(match dirs.len() > 1 {
        true => "choose another ROOT, or remove the existing runs; --scenario NAME writes only that scenario",
        false => "choose another ROOT, or remove the existing runs",
    }))
}

/// Copies recordings into these directories below `root`. Each directory gets its name only once
/// it's complete.
fn copy(root: &Path, chosen: &[&Recording], dirs: &[PathBuf]) -> Result<()> {
    let cannot = |path: &Path, error| {
        let message = format!("can't write {}", path.display());
        Error::new(Kind::Unreadable, message).because(error)
    };
    let desk = fs::create_dir_all(root).and_then(|()| {
        // A board that watches `root` ignores hidden directories.
        tempfile::Builder::new().prefix(".demo-").tempdir_in(root)
    });
    let desk = desk.map_err(|error| cannot(root, error))?;
    for (recording, dir) in chosen.iter().zip(dirs) {
        let half = desk.path().join(recording.name);
        let write = || {
            fs::create_dir(&half)?;
            let files = [TraceFile::Manifest, TraceFile::Steps, TraceFile::Events];
            files
                .into_iter()
                .try_for_each(|file| fs::write(half.join(file.name()), recording.file(file)))
        };
        write().map_err(|error| cannot(dir, error))?;
    }
    for (recording, dir) in chosen.iter().zip(dirs) {
        fs::rename(desk.path().join(recording.name), dir).map_err(|error| cannot(dir, error))?;
    }
    Ok(())
}

/// Replays a recording below `root` and returns the run's directory.
fn replay(recording: &Recording, root: &Path, quiet: bool, out: &mut dyn Write) -> Result<PathBuf> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(Kind::Unreadable, "can't start the runtime").because(error))?;
    // Listens from here: Ctrl-C during the first writes would leave an unfinished run.
    let mut ctrl_c = Box::pin(async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    });
    let is_asked = runtime.block_on(std::future::poll_fn(|context| {
        Poll::Ready(ctrl_c.as_mut().poll(context).is_ready())
    }));
    let ctrl_c = async {
        if !is_asked {
            ctrl_c.await;
        }
    };
    let dir = live::own_dir(recording, root)?;
    if !quiet {
        let (dir, root) = (dir.display(), root.display());
        let written = writeln!(
            out,
            "writing {dir}\nwatch it with: board serve {root}\nCtrl-C writes the rest at once"
        );
        written.and_then(|()| out.flush()).map_err(|error| {
            Error::new(Kind::Unreadable, "can't write the output").because(error)
        })?;
    }
    runtime.block_on(live::replay(recording, &dir, ctrl_c))?;
    Ok(dir)
}

fn finish(args: &Args, dirs: &[PathBuf], look: &Look, out: &mut dyn Write) -> Done {
    let runs = dirs
        .iter()
        .map(|dir| open(dir, look.now))
        .collect::<Result<Vec<_>>>()?;
    if args.json {
        let runs = runs.iter().map(|run| RunRow(&run.summary)).collect();
        write_json(
            out,
            &Written {
                root: args.root.to_string_lossy().into_owned(),
                runs,
            },
        )?;
    } else {
        runs.iter().try_for_each(|run| write_line(out, run, look))?;
    }
    Ok(0)
}

fn write_line(out: &mut dyn Write, run: &RecordedRun, look: &Look) -> io::Result<()> {
    let width = name_width();
    let summary = &run.summary;
    let word = summary.shown_status().as_str();
    let word = look.paint(ink_of(summary), &format!("{word:11}"));
    let (name, steps) = (
        visible_line(summary.key.as_str()),
        counted(summary.steps, "step"),
    );
    writeln!(
        out,
        "{name:width$}  {word}  {steps:>9}  {}",
        visible_line(&summary.verdict.sentence)
    )?;
    out.flush()
}
