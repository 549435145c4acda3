//! `board table`: prints all runs or all steps as rows for other engines.

pub(super) mod copies;
mod known;
mod out;
#[cfg(feature = "parquet")]
mod parquet;
mod place;
mod read;
mod rows;
mod temporary;

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::config::Settings;
use super::look::Look;
use super::open::Opened;
use super::{Done, write_json};
use crate::analysis::copies::{Keys, Relation, keys};
use crate::analysis::facts::{Depth, record};
use crate::analysis::format::{bytes, count, counted, visible_line};
use crate::analysis::query::Query;
use crate::analysis::table::{Run, RunSource};
use crate::error::{Error, Kind, Result};
use crate::live::{Listed, list};
use crate::model::price::Prices;
use crate::page::part::href;
use read::{Made, Piece};
use rows::{Format, Sheet};

/// Print runs or steps as rows for DuckDB, ClickHouse, Spark and others, or keep them as files in a directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --out, rows are written to DIR/runs/day=YYYY-MM-DD/HH.jsonl (.csv, .parquet), by the hour (UTC) in which each run began.
Calling it again with the same DIR rewrites only the files whose rows changed, and removes the rows of deleted runs. Other
programs can read the files meanwhile: each is replaced atomically. See docs/fleet.md for the columns and example queries."
)]
pub(super) struct Args {
    /// One row per run, or one row per step
    #[arg(value_name = "TABLE")]
    table: Table,
    /// Directories to search, up to 8 levels deep
    #[arg(value_name = "ROOT", default_value = "./runs")]
    roots: Vec<PathBuf>,
    /// Only runs that match a query, as in `board list`: 'steps>5 -stop:final'
    #[arg(long = "in", value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: Format,
    /// Write the table to this directory, or update it there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The address of a board that serves the same directories, for links in source_uri
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    board: String,
    /// With --out, print a report as one JSON document
    #[arg(long, requires = "out")]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// The kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Table {
    Runs,
    Steps,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Runs => "runs",
            Table::Steps => "steps",
        }
    }
}

/// The JSON report of what was done.
#[derive(Debug, serde::Serialize)]
struct TableReportJson<'a> {
    table: &'static str,
    out: &'a str,
    #[serde(flatten)]
    done: out::TableReport,
}

/// Turns runs into rows.
#[derive(Debug)]
struct Maker {
    table: Table,
    format: Format,
    query: Query,
    board: String,
    prices: Arc<Prices>,
    now: i64,
    /// The relations of runs to others with the same records, by key.
    relations: OnceLock<HashMap<String, Relation>>,
}

impl Maker {
    /// Finds runs with the same records. `known` returns a run's keys from an earlier call, if
    /// they're still valid.
    fn relate(&self, runs: &[Listed], known: &(dyn Fn(&Listed) -> Option<Keys> + Sync)) {
        self.relations
            .get_or_init(|| copies::relations(runs, known, &|run| copies::whole(run, self.now)));
    }

    /// Returns the relation of a run to others, or `None` if it has none.
    fn relation(&self, run: &Listed) -> Option<&Relation> {
        self.relations.get()?.get(run.key.as_str())
    }

    /// Reads a run and sends its rows.
    fn make(&self, run: &Listed, send: &mut dyn FnMut(Vec<u8>)) -> Made {
        let mut opened = Opened::read(run.dir.clone(), &run.key, run.path.clone(), self.now)
            .priced(&self.prices);
        let size = read::size(&run.dir);
        let mut made = Made {
            size,
            stamps: opened.stamps,
            keys: keys(&opened.summary),
            ..Made::default()
        };
        if let Some(relation) = self.relation(run) {
            let index = &opened.index;
            opened.summary = opened.summary.related(relation.clone(), || index);
            // Its rows also depend on the other runs.
            made.stamps = None;
        }
        if opened.summary.counts() && self.query.matches(&opened.summary) {
            let record = record(&opened.index, &opened, Depth::Heads);
            let record = record.priced(&opened.index, opened.summary.prices.as_deref());
            let address = format!(
                "{}{}",
                self.board.trim_end_matches('/'),
                href::run(run.key.as_str())
            );
            let place = RunSource {
                root: run.root.to_string_lossy().into_owned(),
                size,
                address,
            };
            let run = Run::new(opened.summary, opened.index, record, place);
            made.started = run.started();
            made.count = rows::write(self.table, self.format, &Arc::new(run), send);
        }
        made
    }
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    if args.format == Format::Parquet && !cfg!(feature = "parquet") {
        return Err(no_parquet(args.table).into());
    }
    args.roots
        .iter()
        .try_for_each(|root| super::stores::refuse(root))?;
    let query = args.query.as_deref().unwrap_or_default();
    let maker = Maker {
        table: args.table,
        format: args.format,
        query: parsed(query)?,
        board: args.board.clone(),
        prices: args.settings.read()?.prices,
        now: look.now,
        relations: OnceLock::new(),
    };
    let (runs, faults) = list(args.roots.clone());
    if let Some((root, fault)) = faults.into_iter().next() {
        let error = Error::new(
            Kind::NotFound,
            format!("no runs in {}: {fault}", root.display()),
        );
        return Err(error
            .hint("pass the directories that `board serve` shows: board table runs DIR...")
            .into());
    }
    let Some(dir) = &args.out else {
        maker.relate(&runs, &|_| None);
        let mut sheet = Sheet::begin(args.table, args.format, out)?;
        let runs: Vec<&Listed> = runs.iter().collect();
        read::each(
            &runs,
            |run, send| maker.make(run, send),
            |_, piece| match piece {
                Piece::Rows(rows) => Ok(sheet.push(&mut rows.as_slice(), out)?),
                Piece::Done(_) => Ok(()),
            },
        )?;
        sheet.end(out)?;
        return Ok(0);
    };
    let done = out::keep(dir, &args.roots, query, &runs, &maker)?;
    if args.json {
        let done = TableReportJson {
            table: args.table.name(),
            out: &dir.to_string_lossy(),
            done,
        };
        write_json(out, &done)?;
        return Ok(0);
    }
    let changed = match (done.files_written, done.files_removed) {
        (0, 0) => "nothing changed".to_owned(),
        (written, 0) => format!("{} written", count(written as u64)),
        (written, removed) => format!(
            "{} written, {} removed",
            count(written as u64),
            count(removed as u64)
        ),
    };
    writeln!(
        out,
        "{}: {} in {}, {changed}; {} read, {}",
        visible_line(&dir.join(args.table.name()).to_string_lossy()),
        counted(done.runs, "run"),
        counted(done.files, "file"),
        counted(done.runs_read, "trace"),
        bytes(done.bytes_read),
    )?;
    Ok(0)
}

/// Returns the error for a board without Parquet support, with alternatives.
fn no_parquet(table: Table) -> Error {
    let name = table.name();
    let hint = format!(
        "install it with that feature: cargo install --path . --features parquet; or keep the table with --out table, and let \
         DuckDB convert it: COPY (FROM read_json('table/{name}/*/*.jsonl')) TO '{name}.parquet'"
    );
    Error::new(
        Kind::Usage,
        "this board was built without the feature parquet and can't write Parquet",
    )
    .hint(hint)
}

/// Parses the query. Ignored terms are an error.
fn parsed(text: &str) -> Result<Query> {
    let query = Query::parse(text);
    match query.ignored.first() {
        Some(term) => Err(Error::new(
            Kind::Usage,
            format!("--in can't use the term {}: {}", term.text, term.why),
        )),
        None => Ok(query),
    }
}
