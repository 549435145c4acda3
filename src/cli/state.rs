//! `board state`: prints the state after a step, or the history of one value.

use std::io::{self, Write};
use std::path::PathBuf;

use super::columns::{padded, width};
use super::command::{Done, write_json};
use super::look::{Ink, Look};
use super::open::open;
use crate::analysis::format::lowered;
use crate::analysis::format::{counted, visible_line};
use crate::analysis::state::{
    Base, History, StateAt, document, history, its_keys, outside, state_at,
};
use crate::error::{Error, Kind};
use crate::model::Can;
use crate::model::names::first_chars;
use crate::recorded::RecordedRun;

/// Longer values, in characters, are truncated in a list. `--json` prints them in full.
const MAX_VALUE: usize = 300;

/// Show the state after a step, or the history of one value
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", help = super::command::RUN)]
    run: PathBuf,
    /// The step number, counted from 0 [default: the last step]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = super::command::whole_number::<usize>)]
    step: Option<usize>,
    /// Show the history of one value up to that step: a key, plan[0].status, or /plan/0/status
    #[arg(long, value_name = "PATH")]
    key: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let run = open(&args.run, look.now)?;
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
            let state = state_at(&run.index, &run, n).unwrap_or_default();
            let known = state
                .keys
                .iter()
                .find(|known| known.key == history.path.key);
            let whole = known.and_then(|known| known.value.as_deref());
            if history.value.is_none() && history.changes.is_empty() && whole.is_some() {
                return Err(no_such_path(n, path, &history.path.key, whole).into());
            }
            if args.json {
                write_json(out, &history)?;
            } else {
                write_history(out, &run, n, path, &history, whole.is_some(), look)?;
            }
        }
    }
    Ok(0)
}

/// Returns the error for a value below a known key that doesn't exist.
fn no_such_path(n: usize, path: &str, key: &str, whole: Option<&str>) -> Error {
    let value: Option<serde_json::Value> = whole.and_then(|whole| serde_json::from_str(whole).ok());
    let has = match &value {
        Some(serde_json::Value::Array(items)) => counted(items.len(), "item"),
        Some(serde_json::Value::Object(fields)) => counted(fields.len(), "field"),
        _ => "no parts".to_owned(),
    };
    let (path, key) = (visible_line(path), visible_line(key));
    let what = format!("the state after step {n} has no {path}: {key} has {has}");
    Error::new(Kind::NotFound, what)
}

fn no_such_key(n: usize, path: &str, keys: &[String]) -> Error {
    let what = match visible_line(path) {
        path if path.is_empty() => "the key is empty".to_owned(),
        path => format!("the state after step {n} has no key {path}"),
    };
    Error::new(Kind::NotFound, what).hint(visible_line(&its_keys(keys)).into_owned())
}

fn write_state(
    out: &mut dyn Write,
    run: &RecordedRun,
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
        Base::Nowhere => "the trace records only changes, so other keys may be missing".to_owned(),
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
            Can::No => format!(
                "state isn't recorded in this format ({})",
                run.index.format().name
            ),
            Can::Partly | Can::Yes => "neither a full state nor changes are recorded".to_owned(),
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
    let most = state
        .keys
        .iter()
        .map(|known| width(&visible_line(&known.key)))
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
            "{}  {by}  {value}{doubt}",
            padded(&visible_line(&known.key), most, false)
        )?;
    }
    let outside = outside(&run.index, run, n);
    if !outside.is_empty() {
        writeln!(
            out,
            "\n{}",
            look.paint(
                Ink::Heading,
                "changed between steps (not by a recorded step)"
            )
        )?;
    }
    outside.iter().try_for_each(|found| {
        let side =
            |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), cut);
        writeln!(
            out,
            "{}  {} → {}",
            padded(&visible_line(&found.key), most, false),
            side(&found.before),
            side(&found.after)
        )
    })
}

fn write_history(
    out: &mut dyn Write,
    run: &RecordedRun,
    n: usize,
    path: &str,
    History { changes, value, .. }: &History,
    is_known: bool,
    look: &Look,
) -> io::Result<()> {
    let title = format!(
        "{}: {}",
        visible_line(path),
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
    // Without a value, a known key has nothing at this path any more.
    let none = if is_known { "nothing" } else { "unknown" };
    let value = value.as_deref().map_or_else(|| none.to_owned(), cut);
    let after = format!("after step {}", run.index.label(n));
    writeln!(out, "{}  {value}", look.paint(Ink::Dim, &after))
}

fn cut(value: &str) -> String {
    let shown = match first_chars(value, MAX_VALUE) {
        Some(start) => format!("{start}… ({} more bytes)", value.len() - start.len()),
        None => value.to_owned(),
    };
    visible_line(&shown).into_owned()
}
