//! `board demo`: runs of every kind, written by the embedded engine.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::look::{Ink, Look, ink_of};
use super::open::Opened;
use super::{Done, write_json};
use crate::analysis::format::{counted, visible_line};
use crate::demo::{CRASH, DEFAULT_SEED, Options, SCENARIOS, Scenario};
use crate::engine::Cancel;
use crate::error::{Error, Kind, Result};
use crate::page::runs::json;
use crate::trace::RESERVE_FILE;

/// The scenario of `--live`, unless another is named: long enough to watch.
const LIVE: &str = "long";
/// So long the scenario that is to be killed may take to come there; a loaded machine takes a second.
const TO_THE_BRINK: Duration = Duration::from_secs(60);

/// Write demo runs: agents that play, with real tools and without a model
#[derive(Debug, clap::Args)]
#[command(after_help = scenarios())]
pub(super) struct Args {
    /// The directory that gets a directory for each run
    #[arg(default_value = "./runs")]
    root: PathBuf,
    /// Only this scenario; may be given several times
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// What the data of the runs is drawn from
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// Play one scenario in real time, to be watched on the board; Ctrl-C ends it
    #[arg(long)]
    live: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Wait to be killed where the scenario says so
    #[arg(long, hide = true)]
    to_the_brink: bool,
}

/// The list of scenarios for the help.
fn scenarios() -> String {
    let width = SCENARIOS
        .iter()
        .map(|scenario| scenario.name.len())
        .max()
        .unwrap_or_default();
    let mut text = "Scenarios:".to_owned();
    for scenario in SCENARIOS {
        // Writing to a string does not fail.
        let _ = write!(text, "\n  {:width$}  {}", scenario.name, scenario.about);
    }
    text
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    root: String,
    runs: Vec<json::RunRow<'a>>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let mut chosen = args
        .scenario
        .iter()
        .map(|name| Scenario::named(name))
        .collect::<Result<Vec<_>>>()?;
    let options = Options {
        seed: args.seed,
        live: args.live,
        path: std::env::var_os("PATH"),
        ..Options::new(&*args.root)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| Error::new(Kind::Unreadable, "cannot start").because(error))?;
    if args.live {
        if chosen.len() > 1 {
            return Err(Error::new(Kind::Usage, "--live plays one scenario")
                .hint("name it by one --scenario")
                .into());
        }
        let scenario = chosen.pop().map_or_else(|| Scenario::named(LIVE), Ok)?;
        let dir = runtime.block_on(play_live(scenario, options, args.json, out))?;
        let runs = vec![dir];
        return finish(args, &runs, look, out);
    }
    if chosen.is_empty() {
        chosen = SCENARIOS.to_vec();
    }
    let dirs = free(&args.root, &chosen)?;
    for (scenario, dir) in chosen.iter().zip(&dirs) {
        let options = Options {
            cancel: Cancel::new(),
            before_crash: Arc::new(tell_parent),
            ..options.clone()
        };
        let played = match scenario.name {
            CRASH if !args.to_the_brink => runtime.block_on(kill(args, dir)),
            _ => runtime.block_on(scenario.play(&options)),
        };
        played?;
        if !args.json {
            write_line(out, &Opened::open(dir, look.now)?, look)?;
        }
    }
    if args.json {
        return finish(args, &dirs, look, out);
    }
    let hint = format!(
        "{}; look at them with: board serve {}",
        counted(dirs.len(), "run"),
        args.root.display()
    );
    writeln!(out, "{}", look.paint(Ink::Dim, &hint))?;
    Ok(0)
}

/// The directory of each scenario's run. All are looked at before the first is made.
fn free(root: &Path, chosen: &[Scenario]) -> Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = Vec::with_capacity(chosen.len());
    for scenario in chosen {
        let dir = root.join(scenario.name);
        if dirs.contains(&dir) {
            let twice = format!("the scenario {} is named twice", scenario.name);
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
    let more = if taken.len() > 1 {
        format!(", and {} more", taken.len() - 1)
    } else {
        String::new()
    };
    let error = Error::new(
        Kind::Usage,
        format!(
            "{} is there already{more}; nothing is written",
            first.display()
        ),
    );
    Err(error
        .hint("name another ROOT, or remove what is there; --scenario NAME writes only that one"))
}

async fn play_live(
    scenario: Scenario,
    options: Options,
    quiet: bool,
    out: &mut dyn Write,
) -> Result<PathBuf> {
    let root = options.root.clone();
    let names = (1_u32..).map(|n| {
        if n == 1 {
            format!("{}_live", scenario.name)
        } else {
            format!("{}_live_{n}", scenario.name)
        }
    });
    let run_id = names
        .into_iter()
        .find(|name| root.join(name).symlink_metadata().is_err());
    let dir = root.join(run_id.as_deref().unwrap_or(scenario.name));
    if !quiet {
        let (dir, root) = (dir.display(), root.display());
        let told = writeln!(
            out,
            "writing {dir}\nwatch it with: board serve {root}\nCtrl-C ends it after the step under way"
        );
        told.and_then(|()| out.flush()).map_err(|error| {
            Error::new(Kind::Unreadable, "the output could not be written").because(error)
        })?;
    }
    let options = Options { run_id, ..options };
    tokio::select! {
        played = scenario.play(&options) => played?,
        () = obey_ctrl_c(&options.cancel) => {}
    }
    Ok(dir)
}

/// The first Ctrl-C ends the run after its step, the second at once. Never ends by itself.
async fn obey_ctrl_c(cancel: &Cancel) {
    if tokio::signal::ctrl_c().await.is_ok() {
        cancel.after_step();
        if tokio::signal::ctrl_c().await.is_ok() {
            cancel.now();
        }
    }
    std::future::pending().await
}

fn tell_parent() {
    // Without a parent there is nobody to be killed by.
    let _ = writeln!(io::stdout(), "at the brink").and_then(|()| io::stdout().flush());
}

/// Has another process play the scenario and kills it in the middle.
async fn kill(args: &Args, dir: &Path) -> Result<()> {
    let lost = |error| {
        Error::new(
            Kind::Unreadable,
            "cannot run the process that is to be killed",
        )
        .because(error)
    };
    let board = std::env::current_exe().map_err(lost)?;
    let mut child = Command::new(board)
        .arg("demo")
        .arg(&args.root)
        .args([
            "--scenario",
            CRASH,
            "--to-the-brink",
            "--seed",
            &args.seed.to_string(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(lost)?;
    let said = match child.stdout.take() {
        Some(stdout) => timeout(TO_THE_BRINK, BufReader::new(stdout).lines().next_line()).await,
        None => Ok(Ok(None)),
    };
    child.kill().await.map_err(lost)?;
    if !matches!(said, Ok(Ok(Some(_)))) {
        return Err(Error::new(
            Kind::Bug,
            "the process that is to be killed never came there",
        ));
    }
    // A writer that is killed leaves what it held in reserve for a full disk; it says nothing.
    let _ = std::fs::remove_file(dir.join(RESERVE_FILE));
    Ok(())
}

fn finish(args: &Args, dirs: &[PathBuf], look: &Look, out: &mut dyn Write) -> Done {
    let runs = dirs
        .iter()
        .map(|dir| Opened::open(dir, look.now))
        .collect::<Result<Vec<_>>>()?;
    if args.json {
        let runs = runs.iter().map(|run| json::RunRow(&run.summary)).collect();
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

fn write_line(out: &mut dyn Write, run: &Opened, look: &Look) -> io::Result<()> {
    let width = SCENARIOS
        .iter()
        .map(|scenario| scenario.name.len())
        .max()
        .unwrap_or_default();
    let summary = &run.summary;
    let mark = summary.verdict.mark;
    let word = look.paint(ink_of(&summary.verdict), &format!("{:9}", mark.word()));
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
