//! `board table`: prints all runs or all steps as rows for other engines.

pub(super) mod copies;
mod known;
mod maker;
mod out;
#[cfg(feature = "parquet")]
mod parquet;
mod place;
mod read;
mod rows;
mod temporary;

use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::command::{Done, query, tags_for, write_json};
use super::config::Settings;
use super::look::Look;
use crate::analysis::format::{bytes, count, counted, visible_line};
use crate::error::{Error, Kind};
use crate::live::{Listed, list};
use maker::Maker;
use read::Piece;
use rows::{Format, Sheet, Table};

/// Print runs or steps as rows for DuckDB, ClickHouse, Spark and others, or keep them as files in a directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --out, rows are written to DIR/runs/day=YYYY-MM-DD/HH.jsonl (.csv, .parquet), by the hour (UTC) in which each run began.
Running it again with the same DIR rewrites only the files whose rows changed, and removes the rows of deleted runs. Other
programs can read the files meanwhile: each is replaced atomically. docs/fleet.md in board's repository has the columns
and example queries."
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
    /// The address at which `board serve` shows the same directories, for links in source_uri
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

/// The JSON report of what was done.
#[derive(Debug, serde::Serialize)]
struct TableReportJson<'a> {
    table: &'static str,
    out: &'a str,
    #[serde(flatten)]
    done: out::TableReport,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    if args.format == Format::Parquet && !cfg!(feature = "parquet") {
        return Err(no_parquet(args.table).into());
    }
    args.roots
        .iter()
        .try_for_each(|root| super::stores::refuse(root))?;
    let text = args.query.as_deref().unwrap_or_default();
    let query = self::query("table", text, look)?;
    let tags = tags_for(&[&query])?;
    let maker = Maker {
        table: args.table,
        format: args.format,
        query,
        board: args.board.clone(),
        prices: args.settings.read()?.prices,
        tags,
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
    let done = out::keep(dir, &args.roots, text, &runs, &maker)?;
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
        "{}: {} in {}, {changed}; {}, {}",
        visible_line(&dir.join(args.table.name()).to_string_lossy()),
        counted(done.runs, "run"),
        counted(done.files, "file"),
        match done.runs_read {
            read if read > done.runs =>
                format!("{} read, including duplicates", counted(read, "run")),
            read => format!("{} read", counted(read, "run")),
        },
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
        "this build can't write Parquet: it lacks the `parquet` feature",
    )
    .hint(hint)
}
