//! `board overview`: prints what changed, and totals over many runs.

use std::io::{self, Write};

use super::columns::Columns;
use super::command::{Between, Done, cut, query, write_json};
use super::config::Settings;
use super::look::{Ink, Look};
use super::roots::Roots;
use crate::analysis::failures::FirstSeen;
use crate::analysis::format::{self, MISSING, count, date, last_part, visible_line};
use crate::analysis::many::{Asked, Overview, amounts, counts, overview, percentile_words};
use crate::analysis::run_result::RunResult;
use crate::analysis::summary::Summary;
use crate::analysis::usage::Days;

/// Rows of a list.
const ROWS: usize = 10;
/// Rows of a list of the JSON.
const JSON_ROWS: usize = 100;
/// Maximum number of characters of a message in a sentence.
const MAX_MESSAGE: usize = 100;
/// Limits the characters of a tool, a failure and its location, so that their rows fit into 80 columns.
const MAX_TOOL: usize = 18;
const MAX_FAILURE: usize = 32;
const MAX_PLACE: usize = 12;
/// Maximum number of characters of a name.
const MAX_NAME: usize = 40;

/// Print what changed, and totals by model, task, stop reason, tool and project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The first line is the clearest change in a repeated task that chance is unlikely to explain;\notherwise a new failure that ended several runs; otherwise a large change in cost; otherwise the totals.\nChanges are relative to the preceding period of the same length, up to the same time of day."
)]
pub(super) struct Args {
    #[command(flatten)]
    roots: Roots,
    /// Count only matching runs, as in `board list`
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    #[command(flatten)]
    between: Between,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    args.between.check()?;
    let query = query("overview", args.query.as_deref().unwrap_or_default(), look)?;
    let runs = args.roots.runs(
        &args.settings,
        &[&query],
        "pass a directory that contains runs, or --sessions: board overview DIR",
    )?;
    let chosen = runs
        .iter()
        .map(AsRef::as_ref)
        .filter(|run: &&Summary| query.matches(*run));
    let asked = Asked {
        days: Days {
            since: args.between.since,
            until: args.between.until,
        },
        now: look.now,
        zone: &look.zone,
        limit: if args.json { JSON_ROWS } else { ROWS },
        is_part: false,
    };
    let overview = overview(chosen, &asked);
    if args.json {
        write_json(out, &overview)?;
    } else if overview.totals.runs == 0 && args.query.is_some() {
        writeln!(out, "No runs match.")?;
    } else {
        write_text(&overview, look, out)?;
    }
    Ok(0)
}

fn write_text(overview: &Overview, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let answer = visible_line(&overview.answer);
    writeln!(out, "{}", look.paint(Ink::Heading, &answer))?;
    if let Some((before, failure, after)) = overview.new_failures() {
        let message = failure.plain();
        let message = visible_line(&message);
        writeln!(out, "{before}“{}”{after}", cut(&message, MAX_MESSAGE))?;
    }
    for sentence in overview.details() {
        writeln!(out, "{}", visible_line(&sentence))?;
    }
    if overview.totals.runs == 0 {
        return Ok(());
    }
    let facts = overview.facts().into_iter();
    let facts = facts.map(|fact| vec![fact.name.to_owned(), fact.sum, fact.change, fact.more]);
    table("", &[], &facts.collect::<Vec<_>>(), &[1], look, out)?;
    let results = RunResult::ALL.into_iter().filter_map(|result| {
        let runs = overview.totals.results.get(&result)?;
        Some(vec![
            result.label().to_owned(),
            count(*runs as u64),
            share(*runs, overview),
        ])
    });
    let open = Some(overview.totals.unfinished()).filter(|open| *open > 0);
    let open = open.map(|open| {
        vec![
            "may still be running".to_owned(),
            count(open as u64),
            share(open, overview),
        ]
    });
    table(
        "Result",
        &["Runs", "Share"],
        &results.chain(open).collect::<Vec<_>>(),
        &[1, 2],
        look,
        out,
    )?;
    let models = overview.models.rows.iter().map(|model| {
        let change = model.before.as_ref().and_then(|before| {
            let was = before.cost.unwrap_or(0.0);
            amounts(model.used.cost?, was, before.runs, format::usd)
        });
        let share = model.used.cached_percent();
        vec![
            name(&model.name),
            count(model.used.runs as u64),
            format::tokens(model.used.tokens),
            share.map_or(MISSING.to_owned(), |share| format!("{share}%")),
            model.used.cost_words(),
            change.unwrap_or_default(),
        ]
    });
    table(
        "Model",
        &["Runs", "Tokens", "From cache", "Cost", "Change"],
        &models.collect::<Vec<_>>(),
        &[1, 2, 3, 4, 5],
        look,
        out,
    )?;
    let percent = |rate: f64| format::percent((rate * 1e6).round() as u64, 1_000_000);
    let tasks = overview.tasks.rows.iter().map(|task| {
        let known = |rate: Option<f64>| rate.map_or(MISSING.to_owned(), percent);
        vec![
            name(&task.name),
            format!("{}/{}", task.passed, task.runs),
            percent(task.pass_at_1),
            format!("{}–{}", percent(task.low), percent(task.high)),
            known(task.pass_at_3),
            known(task.all_of_3),
        ]
    });
    table(
        "Repeated task",
        &["Solved", "pass@1", "95%", "pass@3", "All of 3"],
        &tasks.collect::<Vec<_>>(),
        &[1, 2, 3, 4, 5],
        look,
        out,
    )?;
    let reasons = overview.stop_reasons.rows.iter().map(|reason| {
        let result = reason
            .result
            .map_or("may still be running", RunResult::label);
        let change = reason.before.and_then(|before| counts(reason.runs, before));
        vec![
            name(reason.name.as_deref().unwrap_or_default()),
            result.to_owned(),
            count(reason.runs as u64),
            share(reason.runs, overview),
            change.unwrap_or_default(),
        ]
    });
    table(
        "Stop reason",
        &["Result", "Runs", "Share", "Change"],
        &reasons.collect::<Vec<_>>(),
        &[2, 3, 4],
        look,
        out,
    )?;
    let tools = overview.tools.rows.iter().map(|tool| {
        vec![
            cut(&visible_line(&tool.name), MAX_TOOL),
            count(tool.runs as u64),
            count(tool.calls),
            match tool.calls_judged {
                0 => MISSING.to_owned(),
                _ => count(tool.calls_failed),
            },
            format::percent(tool.calls_failed, tool.calls_judged),
            percentile_words(tool.p50_ms),
            percentile_words(tool.p95_ms),
            tool.total_ms.map_or(MISSING.to_owned(), format::millis),
        ]
    });
    table(
        "Tool",
        &["Runs", "Calls", "Failed", "Rate", "p50", "p95", "Total"],
        &tools.collect::<Vec<_>>(),
        &[1, 2, 3, 4, 5, 6, 7],
        look,
        out,
    )?;
    let projects = overview.projects.rows.iter().map(|project| {
        let tokens = project.tokens.map_or(MISSING.to_owned(), format::tokens);
        vec![
            name(project.name.as_deref().map_or("", last_part)),
            count(project.runs as u64),
            tokens,
            format::cost(project.cost, project.cost_is_estimated, false),
        ]
    });
    table(
        "Project",
        &["Runs", "Tokens", "Cost"],
        &projects.collect::<Vec<_>>(),
        &[1, 2, 3],
        look,
        out,
    )?;
    let day = |failure: &FirstSeen| {
        let first = failure.first_at?;
        Some(date(first, look.now, &look.zone))
    };
    let failures = overview.failures.newest.iter().map(|failure| {
        vec![
            cut(&visible_line(&failure.plain()), MAX_FAILURE),
            cut(&visible_line(failure.place()), MAX_PLACE),
            count(failure.runs as u64),
            count(failure.runs_ended as u64),
            day(failure).unwrap_or(MISSING.to_owned()),
            if failure.is_new { "new" } else { "" }.to_owned(),
        ]
    });
    table(
        "Newest failure",
        &["Where", "Runs", "Runs ended", "First seen", ""],
        &failures.collect::<Vec<_>>(),
        &[2, 3, 4],
        look,
        out,
    )?;
    if !overview.newest_failures.is_empty() {
        writeln!(
            out,
            "\n{}",
            look.paint(Ink::Dim, "Newest failures, errors and limits")
        )?;
    }
    for run in &overview.newest_failures {
        let result = run.result.map_or("", RunResult::label);
        writeln!(out, "{result:<8}  {}", visible_line(&run.key))?;
        let verdict = visible_line(&run.verdict).into_owned();
        writeln!(out, "          {}", look.paint(Ink::Dim, &verdict))?;
    }
    let notes = overview.notes();
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "{}", look.paint(Ink::Dim, &note))?;
    }
    Ok(())
}

fn name(text: &str) -> String {
    match text {
        "" => "not recorded".to_owned(),
        text => cut(&visible_line(text), MAX_NAME),
    }
}

fn share(runs: usize, overview: &Overview) -> String {
    format::percent(runs as u64, overview.totals.runs as u64)
}

/// Writes a table after an empty line: a head, if there is one, and the rows. The columns at `right`
/// are aligned right. Without rows, writes nothing.
fn table(
    first: &str,
    heads: &[&str],
    rows: &[Vec<String>],
    right: &[usize],
    look: &Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let head: Vec<String> = [first]
        .iter()
        .chain(heads)
        .map(|head| (*head).to_owned())
        .collect();
    let table = Columns::of(rows.iter().chain([&head]), |at| right.contains(&at));
    writeln!(out)?;
    if !first.is_empty() {
        writeln!(out, "{}", look.paint(Ink::Dim, &table.line(&head)))?;
    }
    for row in rows {
        writeln!(out, "{}", table.line(row))?;
    }
    Ok(())
}
