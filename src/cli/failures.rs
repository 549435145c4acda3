//! `board failures`: prints recurring failures, how many runs they ended, and what happened
//! next.

use std::io::{self, Write};

use super::columns::Columns;
use super::command::{Done, cut, query, write_json};
use super::config::Settings;
use super::look::{Ink, Look};
use super::roots::Roots;
use crate::analysis::failures::{Failure, Failures, Wanted, failures};
use crate::analysis::format::{self, MISSING, age, count, visible_line};
use crate::analysis::summary::Summary;
use crate::error::{Error, Kind};

/// Maximum number of characters of a message in the table.
const MAX_MESSAGE: usize = 60;
/// Maximum number of characters of the name of a tool.
const MAX_PLACE: usize = 18;
/// The rows by default.
const DEFAULT_LIMIT: usize = 30;

/// List recurring failures by message and tool, with the runs that they ended
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Messages that differ only in numbers, paths, quoted text, addresses, ids or times count as one. Runs with a failure: board list ROOT failure:ID"
)]
pub(super) struct Args {
    #[command(flatten)]
    roots: Roots,
    /// Count only matching runs, as in `board list`
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    /// Print at most this many failures [default: 30; all with --json]
    #[arg(long, value_name = "N", value_parser = super::command::whole_number::<usize>)]
    limit: Option<usize>,
    /// Print one failure with its runs
    #[arg(long, value_name = "ID", conflicts_with = "limit")]
    show: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let query = query("failures", args.query.as_deref().unwrap_or_default(), look)?;
    let runs = args.roots.runs(
        &args.settings,
        &[&query],
        "pass a directory that contains runs, or --sessions: board failures DIR",
    )?;
    let chosen = runs.iter().map(AsRef::as_ref);
    let limit = args
        .limit
        .unwrap_or(if args.json { usize::MAX } else { DEFAULT_LIMIT });
    let shown = args.show.as_deref();
    let report = failures(
        chosen.filter(|run: &&Summary| query.matches(*run)),
        look.now,
        &look.zone,
        &Wanted {
            open: shown.unwrap_or_default(),
            ..Wanted::first(shown.map_or(limit, |_| 0))
        },
    );
    if let Some(id) = shown {
        let Some(one) = report.failures.iter().find(|failure| failure.id == id) else {
            let what = format!("no failure with the id {id}");
            return Err(Error::new(Kind::NotFound, what)
                .hint("`board failures` lists the ids")
                .into());
        };
        if args.json {
            write_json(out, one)?;
        } else {
            write_one(one, look, out)?;
        }
        return Ok(0);
    }
    if args.json {
        write_json(out, &report)?;
    } else if report.runs == 0 && args.query.is_some() {
        writeln!(out, "No runs match.")?;
    } else {
        write_table(&report, look, out)?;
    }
    Ok(0)
}

fn seen(at: Option<i64>, look: &Look) -> String {
    at.map_or(MISSING.to_owned(), |at| age(at, look.now, &look.zone))
}

fn write_table(report: &Failures, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    if report.failures.is_empty() && report.failures_left_out == 0 {
        writeln!(
            out,
            "No failures in {}.",
            format::counted(report.runs, "run")
        )?;
        return notes(report, look, out);
    }
    const HEADS: [&str; 9] = [
        "",
        "Failure",
        "Where",
        "Runs",
        "Times",
        "Runs ended",
        "Last seen",
        "First seen",
        "ID",
    ];
    let row = |failure: &Failure| {
        [
            tag(failure).to_owned(),
            cut(&visible_line(&failure.plain()), MAX_MESSAGE),
            cut(&visible_line(failure.place()), MAX_PLACE),
            count(failure.runs as u64),
            count(failure.times),
            count(failure.runs_ended as u64),
            seen(failure.last_at, look),
            seen(failure.first_at, look),
            failure.id.clone(),
        ]
    };
    let rows: Vec<[String; 9]> = report.failures.iter().map(row).collect();
    let heads = HEADS.map(str::to_owned);
    // Without marks, the first column is empty.
    let table = Columns::of(rows.iter().chain([&heads]), |at| (3..8).contains(&at));
    writeln!(out, "{}", look.paint(Ink::Dim, &table.line(&heads)))?;
    for row in &rows {
        writeln!(out, "{}", table.line(row))?;
    }
    writeln!(out, "{}", report.runs_words())?;
    let all = report.failures.len() + report.failures_left_out;
    let shown = match report.failures_left_out {
        0 => String::new(),
        _ => format!(
            "{} of {} failures. ",
            report.failures.len(),
            count(all as u64)
        ),
    };
    let hint = format!("{shown}To see one with its runs, add --show ID");
    writeln!(out, "{}", look.paint(Ink::Dim, &hint))?;
    notes(report, look, out)
}

fn tag(failure: &Failure) -> &'static str {
    if failure.is_new {
        "new"
    } else if failure.is_rising {
        "↑"
    } else {
        ""
    }
}

fn notes(report: &Failures, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    for note in report.left_out() {
        writeln!(out, "{}", look.paint(Ink::Dim, &note))?;
    }
    Ok(())
}

fn number(number: u64, noun: &str) -> String {
    format::counted(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

fn write_one(failure: &Failure, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{}",
        look.paint(Ink::Heading, &visible_line(&failure.plain()))
    )?;
    writeln!(
        out,
        "{}: {} in {} of {}, ended {}; first seen {}, last seen {}",
        visible_line(failure.place()),
        number(failure.times, "time"),
        match failure.steps {
            0 => "no step".to_owned(),
            steps => number(steps, "step"),
        },
        format::counted(failure.runs, "run"),
        format::counted(failure.runs_ended, "run"),
        seen(failure.first_at, look),
        seen(failure.last_at, look),
    )?;
    writeln!(out, "\n{}", look.paint(Ink::Dim, "what happened next"))?;
    for (words, number) in failure.next.rows(failure.source) {
        writeln!(out, "{:>6}  {words}", count(number))?;
    }
    let runs = match failure.runs > failure.examples.len() {
        true => format!("newest {} of {} runs", failure.examples.len(), failure.runs),
        false => "runs".to_owned(),
    };
    writeln!(out, "\n{}", look.paint(Ink::Dim, &runs))?;
    for example in &failure.examples {
        let step = example
            .step
            .map_or_else(String::new, |step| format!(" step {step}"));
        let ended = if example.ended { ", ended the run" } else { "" };
        writeln!(out, "{}{step}{ended}", visible_line(&example.run))?;
    }
    Ok(())
}
