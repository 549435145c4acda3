//! `board scores`: how did the critics judge, step by step?

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::look::{Ink, Look};
use super::open::Opened;
use super::{Done, cut, write_json};
use crate::analysis::format::{MISSING, counted, score, visible_line};
use crate::analysis::scores::{Lane, Point, Scores, course};
use crate::error::Error;
use crate::model::{CriticAction, TraceFile};
use crate::page::scores::csv::{CsvRun, write_csv};
use crate::page::scores::json;
use crate::page::step::json::action_word;

/// A wider column would push the others off the screen.
const MAX_WIDTH: usize = 24;
/// More columns than this fit on no screen.
const MAX_CRITICS: usize = 24;

/// Print critic scores by step, one column per critic
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", required = true, help = super::RUN)]
    runs: Vec<PathBuf>,
    /// Print CSV, every number as it is recorded
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One path of several: its scores, or why there are none.
#[derive(Debug, Serialize)]
struct Entry {
    path: String,
    #[serde(flatten)]
    scores: Option<json::Scores>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Entries {
    runs: Vec<Entry>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let mut runs: Vec<(String, Result<Opened, Error>)> = Vec::new();
    for path in &args.runs {
        runs.push((path.to_string_lossy().into_owned(), Opened::open(path, look.now)));
    }
    let failed = runs.iter().filter(|(_, run)| run.is_err()).count();
    // One path that is no run must not hide what is said of the others.
    if args.runs.len() > 1 || failed == 0 {
        if args.json {
            write_documents(&runs, out)?;
        } else if args.csv {
            csv(&runs, out)?;
        } else {
            for (path, run) in &runs {
                text(path, run.as_ref(), look, out)?;
            }
        }
    }
    match runs.into_iter().find_map(|(_, run)| run.err()) {
        Some(error) if args.runs.len() == 1 => Err(error.into()),
        Some(error) => {
            let what = format!("{failed} of {} could not be read", counted(args.runs.len(), "path"));
            Err(Error::new(error.kind(), what).because(error).into())
        }
        None => Ok(0),
    }
}

fn line(run: &Opened, n: usize) -> Option<Vec<u8>> {
    run.line(TraceFile::Steps, run.index.steps().get(n)?.span).ok()
}

fn write_documents(runs: &[(String, Result<Opened, Error>)], out: &mut dyn Write) -> Result<(), super::Failure> {
    let of = |run: &Opened| json::scores(&run.index, |n| line(run, n));
    if let [(_, Ok(run))] = runs {
        return write_json(out, &of(run));
    }
    let entry = |(path, run): &(String, Result<Opened, Error>)| Entry {
        path: path.clone(),
        scores: run.as_ref().ok().map(of),
        error: run.as_ref().err().map(ToString::to_string),
    };
    write_json(out, &Entries { runs: runs.iter().map(entry).collect() })
}

fn csv(runs: &[(String, Result<Opened, Error>)], out: &mut dyn Write) -> io::Result<()> {
    let several = runs.len() > 1;
    let good: Vec<(&str, &Opened)> =
        runs.iter().filter_map(|(path, run)| Some((path.as_str(), run.as_ref().ok()?))).collect();
    let lines: Vec<_> = good.iter().map(|(_, run)| move |n: usize| line(run, n)).collect();
    let tables: Vec<CsvRun<'_>> = good
        .iter()
        .zip(&lines)
        .map(|((path, run), line)| CsvRun { name: several.then_some(path), index: &run.index, line })
        .collect();
    write_csv(out, &tables)
}

fn text(path: &str, run: Result<&Opened, &Error>, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let shown = look.paint(Ink::Heading, &visible_line(path.trim_end_matches('/')));
    let run = match run {
        Ok(run) => run,
        Err(error) => return writeln!(out, "{shown}: not read: {}", visible_line(&error.to_string())),
    };
    let scores = Scores::of(&run.index);
    let steps = run.index.newest_start()..scores.steps;
    if scores.is_empty() {
        let some = if run.summary.steps_untold { " that have a line" } else { "" };
        return writeln!(out, "{shown}: no critic spoke in {}{some}", counted(steps.len(), "step"));
    }
    // Who judged nothing but the run as a whole has a column without steps.
    let mut lanes = scores.lanes;
    for (name, _) in &scores.of_run {
        if !lanes.iter().any(|lane| lane.name == *name) {
            lanes.push(Lane { name: name.clone(), points: Vec::new() });
        }
    }
    let by_step = lanes.iter().any(|lane| !lane.points.is_empty());
    let of = counted(lanes.len(), "critic");
    let place =
        if by_step { format!("in {}", counted(steps.len(), "step")) } else { "of the run as a whole".to_owned() };
    writeln!(out, "{shown}: {of} {place}")?;
    let shown = lanes.get(..MAX_CRITICS).unwrap_or(&lanes);
    for lane in shown.iter().filter(|lane| !lane.points.is_empty()) {
        writeln!(out, "  {} {}", look.paint(Ink::Dim, &format!("{}:", visible_line(&lane.name))), course(lane))?;
    }
    let left_out = lanes.len() - shown.len();
    if left_out > 0 {
        let more = format!("{} left out; --csv and --json have all of them", counted(left_out, "more critic"));
        writeln!(out, "  {}", look.paint(Ink::Dim, &more))?;
    }
    let mut columns: Vec<Column<'_>> = shown.iter().map(Column::of).collect();
    let row = |step: &str, cells: &mut dyn Iterator<Item = (String, usize)>| {
        let cells = cells.map(|(text, width)| format!("  {text:>width$}"));
        format!("  {step:>6}{}", cells.collect::<String>())
    };
    let head = row("step", &mut columns.iter().map(|column| (column.name.clone(), column.width)));
    writeln!(out, "{}", look.paint(Ink::Dim, &head))?;
    for n in steps.filter(|_| by_step) {
        let mut cells = columns.iter_mut().map(|column| (column.cell(n), column.width));
        writeln!(out, "{}", row(&run.index.label(n), &mut cells))?;
    }
    if !scores.of_run.is_empty() {
        let given = |lane: &Lane| scores.of_run.iter().rfind(|(name, _)| *name == lane.name);
        let cell = |lane: &Lane| given(lane).map_or_else(|| MISSING.to_owned(), |(_, given)| score(*given));
        writeln!(
            out,
            "{}",
            row("run", &mut shown.iter().zip(&columns).map(|(lane, column)| (cell(lane), column.width)))
        )?;
    }
    Ok(())
}

/// A critic's column while it is written.
struct Column<'s> {
    name: String,
    width: usize,
    /// What it said at steps that are still to be written.
    rest: &'s [Point],
}

impl<'s> Column<'s> {
    fn of(lane: &'s Lane) -> Self {
        let name = cut(&visible_line(&lane.name), MAX_WIDTH);
        let cells = lane.points.chunk_by(|a, b| a.n == b.n).map(|points| cell(points).chars().count());
        // What the run as a whole was given is as wide as a score.
        let width = cells.max().unwrap_or_default().max(name.chars().count()).max(4);
        Self { name, width, rest: &lane.points }
    }

    /// The cell of step `n`; steps are asked for in order.
    fn cell(&mut self, n: usize) -> String {
        let here = self.rest.iter().take_while(|point| point.n <= n).count();
        let (points, rest) = self.rest.split_at(here);
        self.rest = rest;
        if points.is_empty() { MISSING.to_owned() } else { cell(points) }
    }
}

/// What a critic said at one step: what it asked for and the score.
fn cell(points: &[Point]) -> String {
    let text = |point: &Point| {
        let score = point.score.map_or_else(|| "no score".to_owned(), score);
        match point.action {
            CriticAction::Continue => score,
            action => format!("{} {score}", action_word(action)),
        }
    };
    points.iter().map(text).collect::<Vec<_>>().join(" / ")
}
