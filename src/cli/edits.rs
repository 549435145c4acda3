//! `board edits`: lists the newest file edits in all runs.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::command::{Done, query, tags_for, write_json};
use super::look::{Ink, Look};
use super::roots::no_runs;
use crate::analysis::format::{age, counted, visible_line};
use crate::live::Library;
use crate::page::edits::recent::{Found, PAGE, RecentEdits};

/// List the newest file edits in all runs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads the newest 200 matching runs, up to 100,000 steps and 512 MiB in total. Prints a note if there are more.
Changes made by shell commands aren't tracked."
)]
pub(super) struct Args {
    /// A directory to search, up to 8 levels deep, or a file that contains runs
    #[arg(default_value = "./runs")]
    root: PathBuf,
    /// Only runs that match a query, as in `board list`: 'project:shop updated:7d'
    #[arg(allow_hyphen_values = true)]
    query: Option<String>,
    /// Only files whose path contains this text
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    file: String,
    /// Print at most this many edits
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = super::command::whole_number::<usize>)]
    limit: usize,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args, look: &Look, out: &mut dyn Write) -> Done {
    super::stores::refuse(&args.root)?;
    let query = query("edits", args.query.as_deref().unwrap_or_default(), look)?;
    let tags = tags_for(&[&query])?;
    let library = Library::load_with(vec![args.root], Arc::default(), tags);
    for root in library.status().roots {
        if let Some(fault) = root.fault {
            return Err(no_runs(&root.path, &fault)
                .hint("pass a directory that contains runs: board edits DIR")
                .into());
        }
    }
    let window = (0, args.limit);
    let found = RecentEdits::of(&library, &Found::default(), query, &args.file, window);
    if args.json {
        write_json(out, &found)?;
        return Ok(0);
    }
    for edit in found.edits() {
        let when = edit
            .micros()
            .map(|micros| age(micros, look.now, &look.zone));
        let (added, removed) = edit.lines().unwrap_or_else(|| ("–".into(), String::new()));
        let note = match &*edit.note() {
            "" => String::new(),
            note => format!(" ({note})"),
        };
        let lines = format!(
            "{} {}",
            look.paint(Ink::Good, &format!("{added:>6}")),
            look.paint(Ink::Bad, &format!("{removed:<6}"))
        );
        writeln!(
            out,
            "{:>12}  {lines}  {}{note}  {}",
            when.as_deref().unwrap_or("–"),
            edit.path(),
            look.paint(
                Ink::Dim,
                &format!(
                    "step {} · {} · {}",
                    edit.step(),
                    edit.title(),
                    visible_line(edit.run())
                )
            )
        )?;
    }
    let shown = found.edits().len();
    let of = match shown < found.total() {
        true => format!("{} of {}", shown, counted(found.total(), "edit")),
        false if shown == 0 => "No file edits found".to_owned(),
        false => counted(shown, "edit"),
    };
    writeln!(out, "{of}")?;
    for limit in found.limits() {
        writeln!(out, "{}", look.paint(Ink::Warning, &limit))?;
    }
    Ok(0)
}
