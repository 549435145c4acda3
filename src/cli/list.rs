//! `board list`: which runs are there?

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::look::{Ink, Look, ink_of};
use super::{Done, write_json};
use crate::analysis::format::{age, count, counted, or_missing, score, visible_line};
use crate::analysis::query::{Query, Sort};

use crate::analysis::select::select;
use crate::analysis::summary::Summary;
use crate::error::{Error, Kind};
use crate::live::Library;
use crate::page::json;

/// More directories that are not shown are counted, not listed.
const MAX_SKIPPED: usize = 5;

/// List the runs below a directory, one line each
#[derive(Debug, clap::Args)]
#[command(after_help = "A query is words and terms, all of which must match:
  stop:final,success  outcome:failed  liveness:running  tool:run_tests  model:qwen  critic:retry
  steps>5  score<0.5  duration>2m  tokens:1k..20k  issues>0  err:true  -term  \"two words\"")]
pub(super) struct Args {
    /// The directory to look in, at any depth up to 4
    #[arg(default_value = "./runs")]
    root: PathBuf,
    /// Only runs that match, in quotes: 'steps>5 -stop:final'
    #[arg(allow_hyphen_values = true)]
    query: Option<String>,
    /// The order: updated, started, run, status, steps, events, tokens, score, duration, model or issues; with `-` before
    /// it, reversed
    #[arg(long, default_value = "updated", allow_hyphen_values = true)]
    sort: Sort,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args, look: &Look, out: &mut dyn Write) -> Done {
    // A query may begin with a hyphen, which excludes a term; therefore clap does not refuse unknown options here.
    if let Some(option) = args.query.as_deref().filter(|query| query.starts_with("--")) {
        let error = Error::new(Kind::Usage, format!("there is no option {option}"));
        return Err(error.hint("`board list --help` shows the options").into());
    }
    let library = Library::load(vec![args.root]);
    let root = library.status().roots.into_iter().next();
    if let Some((root, fault)) = root.as_ref().and_then(|root| Some((root, root.fault.as_ref()?))) {
        let error = Error::new(Kind::NotFound, format!("no runs in {}: {fault}", root.path.display()));
        return Err(error
            .hint("the first argument is a directory, a query comes after it: board list ./runs 'steps>5'")
            .into());
    }
    let skipped = root.map(|root| root.skipped).unwrap_or_default();
    let query = Query::parse(args.query.as_deref().unwrap_or_default());
    let all: Vec<_> = library.runs().iter().map(|run| run.summary()).collect();
    let found = select(&all, &query, args.sort, all.len(), None);
    let list = json::Runs {
        revision: *library.revision().borrow(),
        total: found.total,
        matched: found.matched,
        runs: Vec::new(),
        next: None,
        ignored: query.ignored.iter().map(Into::into).collect(),
        skipped: skipped
            .into_iter()
            .map(|skipped| json::Skipped { path: skipped.path, reason: skipped.reason })
            .collect(),
    };
    if args.json {
        let runs = found.rows.into_iter().map(|run| json::run_row(run)).collect();
        write_json(out, &json::Runs { runs, ..list })?;
    } else {
        write_text(out, &found.rows, &list, look)?;
    }
    Ok(0)
}

/// The cells of a line, and its verdict, which comes last because it may be long.
struct Line<'a> {
    run: &'a Summary,
    cells: [String; 5],
    verdict: String,
}

/// The head of each column, and whether its cells stand on the right.
const COLUMNS: [(&str, bool); 5] =
    [("status", false), ("run", false), ("steps", true), ("score", true), ("updated", true)];

impl<'a> Line<'a> {
    fn of(run: &'a Summary, look: &Look) -> Self {
        let limit = run.verdict.limit.filter(|limit| limit.from.is_budget());
        let limit = limit.map_or_else(String::new, |limit| format!("/{}", limit.steps));
        let problems = match run.issues.1 {
            0 => String::new(),
            problems => format!(" · {}", counted(problems, "problem")),
        };
        Self {
            run,
            cells: [
                run.verdict.mark.word().to_owned(),
                visible_line(run.key.as_str()).into_owned(),
                format!("{}{limit}", count(run.steps as u64)),
                or_missing(run.last_score, score),
                or_missing(run.updated, |updated| age(updated, look.now, &look.zone)),
            ],
            verdict: format!("{}{}", visible_line(&run.verdict.sentence), look.paint(Ink::Dim, &problems)),
        }
    }
}

fn write_text(out: &mut dyn Write, runs: &[&Arc<Summary>], list: &json::Runs, look: &Look) -> std::io::Result<()> {
    let lines: Vec<Line<'_>> = runs.iter().map(|run| Line::of(run, look)).collect();
    let heads = COLUMNS.map(|(head, _)| head);
    let width = |column: usize, head: &str| {
        let cells = lines.iter().filter_map(|line| line.cells.get(column)).map(|cell| cell.chars().count());
        cells.chain([head.chars().count()]).max().unwrap_or_default()
    };
    let mut widths = [0; COLUMNS.len()];
    widths.iter_mut().zip(heads).enumerate().for_each(|(column, (slot, head))| *slot = width(column, head));
    let padded = |cells: [&str; COLUMNS.len()]| {
        let cells = cells.into_iter().zip(widths).zip(COLUMNS);
        let cell =
            |((text, width), (_, right))| if right { format!("{text:>width$}") } else { format!("{text:<width$}") };
        cells.map(cell).collect::<Vec<_>>()
    };
    if !lines.is_empty() {
        let head = format!("{}  verdict", padded(heads).join("  "));
        writeln!(out, "{}", look.paint(Ink::Dim, &head))?;
    }
    for line in &lines {
        let mut cells = padded(line.cells.each_ref().map(String::as_str));
        if let Some(mark) = cells.first_mut() {
            *mark = look.paint(ink_of(line.run.verdict.mark), mark);
        }
        writeln!(out, "{}  {}", cells.join("  "), line.verdict)?;
    }
    let runs = counted(list.total, "run");
    let foot = if list.matched == list.total { runs } else { format!("{} of {runs}", count(list.matched as u64)) };
    writeln!(out, "{}", look.paint(Ink::Dim, &foot))?;
    for ignored in &list.ignored {
        let word = look.paint(Ink::Warning, "ignored");
        writeln!(out, "{word}: {}: {}", visible_line(&ignored.term), visible_line(&ignored.why))?;
    }
    match list.skipped.len() {
        0 => {}
        many @ MAX_SKIPPED.. => writeln!(out, "skipped: {} directories that hold no run", count(many as u64))?,
        _ => list.skipped.iter().try_for_each(|skipped| {
            writeln!(out, "skipped: {}: {}", visible_line(&skipped.path), visible_line(&skipped.reason))
        })?,
    }
    Ok(())
}
