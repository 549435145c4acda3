//! `board scores`: prints critic scores step by step.

use std::io::{self, Write};
use std::iter::Peekable;
use std::path::PathBuf;
use std::vec::IntoIter;

use serde::Serialize;

use super::columns::{padded, width};
use super::command::{Done, cut, write_json};
use super::look::{Ink, Look};
use super::open::open;
use crate::analysis::format::{MISSING, counted, score, visible_line};
use crate::analysis::scores::{Lane, Point, RecordedScores, Scores, course, recorded_scores};
use crate::error::Error;
use crate::model::{CriticAction, RunScore, TraceFile};
use crate::page::scores::csv::{CsvRun, write_csv};
use crate::recorded::RecordedRun;

/// The maximum width of a column, so that it doesn't push the others off the screen.
const MAX_WIDTH: usize = 24;
/// The maximum number of columns, since no screen fits more.
const MAX_CRITICS: usize = 24;

/// Print critic scores by step, one column per critic
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", required = true, help = super::command::RUN)]
    runs: Vec<PathBuf>,
    /// Print CSV with numbers as recorded
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// One of several paths: its scores, or the error.
#[derive(Debug, Serialize)]
struct Entry {
    path: String,
    #[serde(flatten)]
    scores: Option<RecordedScores>,
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Entries {
    runs: Vec<Entry>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let mut runs: Vec<(String, Result<RecordedRun, Error>)> = Vec::new();
    for path in &args.runs {
        runs.push((path.to_string_lossy().into_owned(), open(path, look.now)));
    }
    let failed = runs.iter().filter(|(_, run)| run.is_err()).count();
    // One invalid path must not hide the other runs.
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
            let what = format!(
                "{failed} of {} couldn't be read",
                counted(args.runs.len(), "path")
            );
            Err(Error::new(error.kind(), what).because(error).into())
        }
        None => Ok(0),
    }
}

fn line(run: &RecordedRun, n: usize) -> Option<Vec<u8>> {
    run.line(TraceFile::Steps, run.index.steps().get(n)?.span)
        .ok()
}

fn write_documents(
    runs: &[(String, Result<RecordedRun, Error>)],
    out: &mut dyn Write,
) -> Result<(), super::command::Failure> {
    let of = |run: &RecordedRun| recorded_scores(&run.index, |n| line(run, n));
    if let [(_, Ok(run))] = runs {
        return write_json(out, &of(run));
    }
    let entry = |(path, run): &(String, Result<RecordedRun, Error>)| Entry {
        path: path.clone(),
        scores: run.as_ref().ok().map(of),
        error: run.as_ref().err().map(ToString::to_string),
    };
    write_json(
        out,
        &Entries {
            runs: runs.iter().map(entry).collect(),
        },
    )
}

fn csv(runs: &[(String, Result<RecordedRun, Error>)], out: &mut dyn Write) -> io::Result<()> {
    let several = runs.len() > 1;
    let good: Vec<(&str, &RecordedRun)> = runs
        .iter()
        .filter_map(|(path, run)| Some((path.as_str(), run.as_ref().ok()?)))
        .collect();
    let lines: Vec<_> = good
        .iter()
        .map(|(_, run)| move |n: usize| line(run, n))
        .collect();
    let tables: Vec<CsvRun<'_>> = good
        .iter()
        .zip(&lines)
        .map(|((path, run), line)| CsvRun {
            name: several.then_some(path),
            index: &run.index,
            line,
        })
        .collect();
    write_csv(out, &tables)
}

fn text(
    path: &str,
    run: Result<&RecordedRun, &Error>,
    look: &Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = look.paint(Ink::Heading, &visible_line(path.trim_end_matches('/')));
    let run = match run {
        Ok(run) => run,
        Err(error) => {
            return writeln!(
                out,
                "{shown}: not read: {}",
                visible_line(&error.to_string())
            );
        }
    };
    let scores = Scores::of(&run.index);
    let steps = run.index.newest_start()..scores.steps;
    if scores.is_empty() {
        if run.summary.steps_unknown {
            return writeln!(out, "{shown}: no critic output");
        }
        let steps = counted(steps.len(), "step");
        return writeln!(out, "{shown}: no critic output in {steps}");
    }
    // A critic that scored only the whole run gets a column without steps.
    let mut lanes = scores.lanes;
    for given in &scores.of_run {
        if !lanes.iter().any(|lane| *lane.name == *given.name) {
            lanes.push(Lane {
                name: given.name.to_string(),
                points: Vec::new(),
            });
        }
    }
    let by_step = lanes.iter().any(|lane| !lane.points.is_empty());
    let of = counted(lanes.len(), "critic");
    let place = if by_step {
        format!("in {}", counted(steps.len(), "step"))
    } else {
        "for the whole run".to_owned()
    };
    writeln!(out, "{shown}: {of} {place}")?;
    let shown = lanes.get(..MAX_CRITICS).unwrap_or(&lanes);
    for lane in shown.iter().filter(|lane| !lane.points.is_empty()) {
        writeln!(
            out,
            "  {} {}",
            look.paint(Ink::Dim, &format!("{}:", visible_line(&lane.name))),
            course(lane)
        )?;
    }
    let left_out = lanes.len() - shown.len();
    if left_out > 0 {
        let more = format!(
            "{} not shown; use --csv or --json",
            counted(left_out, "more critic")
        );
        writeln!(out, "  {}", look.paint(Ink::Dim, &more))?;
    }
    let odd = odd_scores(run, shown);
    let of = |(place, lane)| Column::of(lane, odd.get(place).map_or(&[], Vec::as_slice));
    let mut columns: Vec<Column> = shown.iter().enumerate().map(of).collect();
    let row = |step: &str, cells: &mut dyn Iterator<Item = (String, usize)>| {
        let cells = cells.map(|(text, width)| format!("  {}", padded(&text, width, true)));
        format!("  {step:>6}{}", cells.collect::<String>())
    };
    let head = row(
        "step",
        &mut columns
            .iter()
            .map(|column| (column.name.clone(), column.width)),
    );
    writeln!(out, "{}", look.paint(Ink::Dim, &head))?;
    for n in steps.filter(|_| by_step) {
        let mut cells = columns
            .iter_mut()
            .map(|column| (column.cell(n), column.width));
        writeln!(out, "{}", row(&run.index.label(n), &mut cells))?;
    }
    if !scores.of_run.is_empty() {
        let given = |lane: &Lane| {
            scores
                .of_run
                .iter()
                .rfind(|given| *given.name == *lane.name)
        };
        let cell = |lane: &Lane| given(lane).map_or_else(|| MISSING.to_owned(), in_words);
        writeln!(
            out,
            "{}",
            row(
                "run",
                &mut shown
                    .iter()
                    .zip(&columns)
                    .map(|(lane, column)| (cell(lane), column.width))
            )
        )?;
        for given in &scores.of_run {
            if let Some(reason) = &given.reason {
                let who = look.paint(Ink::Dim, &format!("{}:", visible_line(&given.name)));
                writeln!(out, "  {who} {}", visible_line(reason))?;
            }
        }
    }
    Ok(())
}

/// Formats a score of the run: the number, or else the grade as recorded.
fn in_words(given: &RunScore) -> String {
    let grade = || {
        given.grade.as_deref().map_or_else(
            || MISSING.to_owned(),
            |grade| cut(&visible_line(grade), MAX_WIDTH),
        )
    };
    given.score.map_or_else(grade, score)
}

/// A critic's column while it's being written.
struct Column {
    name: String,
    width: usize,
    /// The remaining steps with output, and the text for each.
    rest: Peekable<IntoIter<(usize, String)>>,
}

impl Column {
    /// Prepares a column. `odd` contains what is recorded instead of a number, for each point of
    /// the lane.
    fn of(lane: &Lane, odd: &[Option<String>]) -> Self {
        let name = cut(&visible_line(&lane.name), MAX_WIDTH);
        let mut cells: Vec<(usize, String)> = Vec::new();
        for (place, point) in lane.points.iter().enumerate() {
            let said = said(point, odd.get(place).and_then(Option::as_deref));
            match cells.last_mut() {
                Some((n, cell)) if *n == point.n => *cell = format!("{cell} / {said}"),
                _ => cells.push((point.n, said)),
            }
        }
        let widest = cells.iter().map(|(_, cell)| width(cell)).max();
        // Scores of the whole run are as wide as other scores.
        Self {
            width: widest.unwrap_or_default().max(width(&name)).max(4),
            name,
            rest: cells.into_iter().peekable(),
        }
    }

    /// Returns the cell of step `n`. Must be called with ascending steps.
    fn cell(&mut self, n: usize) -> String {
        let mut cell = None;
        while let Some((_, text)) = self.rest.next_if(|(at, _)| *at <= n) {
            cell = Some(text);
        }
        cell.unwrap_or_else(|| MISSING.to_owned())
    }
}

/// Formats a critic's output: the requested action and the score, even if it isn't a number.
fn said(point: &Point, odd: Option<&str>) -> String {
    let odd = || {
        odd.map_or_else(
            || "no score".to_owned(),
            |word| cut(&visible_line(word), MAX_WIDTH),
        )
    };
    let score = point.score.map_or_else(odd, score);
    match point.action {
        CriticAction::Continue => score,
        action => format!("{} {score}", action.as_str()),
    }
}

/// Returns what is recorded instead of a number for each point of each lane. Reads lines only if
/// there are such points.
fn odd_scores(run: &RecordedRun, lanes: &[Lane]) -> Vec<Vec<Option<String>>> {
    let is_number = |lane: &Lane| lane.points.iter().all(|point| point.score.is_some());
    if lanes.iter().all(is_number) {
        return Vec::new();
    }
    let recorded = recorded_scores(&run.index, |n| line(run, n));
    let of_lane = |lane: &Lane| {
        let critic = recorded
            .critics
            .iter()
            .find(|critic| critic.name == lane.name);
        // The document contains every step, a lane only those of the newest run. Both are in order.
        let mut points = critic.into_iter().flat_map(|critic| &critic.points);
        let odd = |point: &Point| {
            points
                .find(|recorded| recorded.n == point.n)?
                .score_text
                .clone()
        };
        lane.points.iter().map(odd).collect()
    };
    lanes.iter().map(of_lane).collect()
}
