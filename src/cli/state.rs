//! `board state`: prints the state after a step, or the history of one value.

use std::io::{self, Write};
use std::path::PathBuf;

use super::look::{Ink, Look};
use super::open::Opened;
use super::{Done, write_json};
use crate::analysis::format::{counted, visible_line};
use crate::analysis::state::{
    Base, History, StateAt, document, history, its_keys, outside, state_at,
};
use crate::analysis::verdict::lowered;
use crate::error::{Error, Kind};
use crate::model::Can;
use crate::model::names::first_chars;

/// Longer values, in characters, are truncated in a list. `--json` prints them in full.
const MAX_VALUE: usize = 300;

/// Show the state after a step, or the history of one value
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", help = super::RUN)]
    run: PathBuf,
    /// The step, by its ordinal (from 0) [default: the last step]
    #[arg(long, value_name = "N", value_parser = super::whole_number::<usize>)]
    step: Option<usize>,
    /// Show the history of one value up to that step: a key, plan[0].status, or /plan/0/status
    #[arg(long, value_name = "PATH")]
    key: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let run = Opened::open(&args.run, look.now)?;
    let last = run.index.steps().len().checked_sub(1);
    let Some(n) = args.step.or(last) else {
        let none = lowered(run.summary.no_step(&run.index));
        return Err(Error::new(Kind::NotFound, format!("{}: {none}", run.summary.path)).into());
    };
    super::show::check_step(&run, n)?;
    match &args.key {
        None if args.json => write_json(out, &document(&run.index, &run, n))?,
        None => write_state(
            out,
            &run,
            n,
            &state_at(&run.index, &run, n).unwrap_or_default(),
            look,
        )?,
        Some(path) => {
            let history =
                history(&run.index, &run, n, path).map_err(|keys| no_such_key(n, path, &keys))?;
            if args.json {
                write_json(out, &history)?;
            } else {
                write_history(out, &run, n, &history, look)?;
            }
        }
    }
    Ok(0)
}

fn no_such_key(n: usize, path: &str, keys: &[String]) -> Error {
    let what = format!("the state after step {n} has no key {}", visible_line(path));
    Error::new(Kind::NotFound, what).hint(visible_line(&its_keys(keys)).into_owned())
}

fn write_state(
    out: &mut dyn Write,
    run: &Opened,
    n: usize,
    state: &StateAt,
    look: &Look,
) -> io::Result<()> {
    let title = format!(
        "state after step {} of {}",
        run.index.label(n),
        visible_line(run.name())
    );
    writeln!(out, "{}", look.paint(Ink::Heading, &title))?;
    let from = match state.base {
        Base::Nowhere => "only changes are recorded, no full state".to_owned(),
        Base::Init(event) => format!("built from event {event} and the changes after it"),
        Base::Observed(step) => format!(
            "built from the state that step {} observed and the changes after it",
            run.index.label(step)
        ),
        Base::Found { step, event } => {
            format!(
                "taken from event {event}, before step {} changed it",
                run.index.label(step)
            )
        }
    };
    if state.keys.is_empty() && state.base == Base::Nowhere {
        let records = match run.index.format().can.state {
            Can::No => "this tool doesn't record state",
            Can::Partly | Can::Yes => "neither a full state nor changes are recorded",
        };
        writeln!(out, "{records}")?;
    } else {
        let has_marks = state
            .keys
            .iter()
            .any(|known| known.outside.is_none() && known.written == Some(n));
        let marks = if has_marks {
            "; * marks what this step changed"
        } else {
            ""
        };
        writeln!(out, "{}\n", look.paint(Ink::Dim, &format!("{from}{marks}")))?;
    }
    let width = state
        .keys
        .iter()
        .map(|known| known.key.chars().count())
        .max()
        .unwrap_or_default()
        .min(32);
    for known in &state.keys {
        let by = match (known.outside, known.written) {
            (Some(step), _) => format!("between steps, seen at {}", run.index.label(step)),
            (_, Some(step)) if step == n => format!("step {} *", run.index.label(step)),
            (_, Some(step)) => format!("step {}", run.index.label(step)),
            (_, None) => "initial".to_owned(),
        };
        let value = known
            .value
            .as_deref()
            .map_or_else(|| "unknown".to_owned(), cut);
        let doubt = if known.doubt.is_empty() {
            String::new()
        } else {
            format!("  ({})", known.doubt)
        };
        let by = look.paint(Ink::Dim, &format!("{by:<10}"));
        writeln!(
            out,
            "{:<width$}  {by}  {value}{doubt}",
            visible_line(&known.key)
        )?;
    }
    let outside = outside(&run.index, run, n);
    if !outside.is_empty() {
        writeln!(
            out,
            "\n{}",
            look.paint(Ink::Heading, "changed between steps (not by a recorded step)")
        )?;
    }
    outside.iter().try_for_each(|found| {
        let side =
            |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), cut);
        writeln!(
            out,
            "{:<width$}  {} → {}",
            visible_line(&found.key),
            side(&found.before),
            side(&found.after)
        )
    })
}

fn write_history(
    out: &mut dyn Write,
    run: &Opened,
    n: usize,
    History {
        path,
        changes,
        value,
    }: &History,
    look: &Look,
) -> io::Result<()> {
    let name = std::iter::once(&path.key)
        .chain(&path.below)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(".");
    let title = format!(
        "{}: {}",
        visible_line(&name),
        counted(changes.len(), "change")
    );
    writeln!(
        out,
        "{} up to step {}",
        look.paint(Ink::Heading, &title),
        run.index.label(n)
    )?;
    let side = |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), cut);
    for change in changes {
        let step = look.paint(
            Ink::Dim,
            &format!("step {:<5}", run.index.label(change.step)),
        );
        writeln!(
            out,
            "{step} {} → {}",
            side(&change.before),
            side(&change.after)
        )?;
    }
    let value = value.as_deref().map_or_else(|| "unknown".to_owned(), cut);
    writeln!(out, "{} {value}", look.paint(Ink::Dim, "result    "))
}

fn cut(value: &str) -> String {
    let shown = match first_chars(value, MAX_VALUE) {
        Some(start) => format!("{start}… ({} more bytes)", value.len() - start.len()),
        None => value.to_owned(),
    };
    visible_line(&shown).into_owned()
}
