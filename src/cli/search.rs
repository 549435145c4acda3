//! `board search`: finds a text in runs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::command::{Done, query, tags_for, write_json};
use super::look::{Ink, Look};
use super::roots::no_runs;
use crate::analysis::format::lowered;
use crate::analysis::format::{bytes, counted, visible_line};
use crate::analysis::search::{LeftOut, LineMatch, Needle, Tally};
use crate::error::{Error, Kind, Result};
use crate::in_order::{Results, cores, in_order};
use crate::live::{HitSink, Library, search};
use crate::model::{Index, RunKey, TraceFile};
use crate::page::part::job::State;
use crate::page::search::{found, path, place};
use crate::trace::{RootScanner, RunDir, read_index};

/// Search the text of all runs
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "board search [OPTIONS] [ROOT] <TEXT>",
    after_help = "Searches all text, keys and numbers in manifest.json, steps.jsonl and events.jsonl, or in the files of other programs,
with escapes resolved. Case-insensitive for ASCII only. Exits with 1 if nothing is found. Anything that isn't searched is
listed: lines and records over 8 MiB, and content outside the records of documents over 16 MiB."
)]
pub(super) struct Args {
    /// The directory to search, up to 8 levels deep [default: ./runs]
    // A single argument is the text. If the text came first, the parser would take a preceding `--`
    // for another argument.
    #[arg(allow_hyphen_values = true)]
    root: Option<PathBuf>,
    /// The text to find; may begin with a dash
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Only runs that match a query, as in `board list`: 'steps>5 -stop:final'
    #[arg(long = "in", value_name = "QUERY", allow_hyphen_values = true)]
    query: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let (root, text) = match (&args.root, &args.text) {
        (root, Some(text)) => (root.as_deref(), text.as_str()),
        (Some(text), None) => match text.to_str() {
            Some(text) => (None, text),
            None => return Err(Error::new(Kind::Usage, "the search text isn't valid UTF-8").into()),
        },
        (None, None) => {
            let error = Error::new(Kind::Usage, "the text to find is missing");
            return Err(error.hint("board search [ROOT] TEXT").into());
        }
    };
    let root = root.unwrap_or(Path::new("./runs"));
    // The reason is a sentence, as a page shows it.
    let needle = Needle::new(text)
        .map_err(|why| Error::new(Kind::Usage, lowered(why.trim_end_matches('.'))))?;
    super::stores::refuse(root)?;
    let (runs, duplicates) = runs(root, args.query.as_deref(), look)?;
    let tally = Tally {
        runs: runs.len(),
        duplicates_left_out: duplicates,
        ..Tally::default()
    };
    let mut printer = HitPrinter {
        look,
        out,
        key: String::new(),
        json: args.json,
        failed: None,
        tally,
    };
    let began = Instant::now();
    let runs: Vec<_> = runs.into_iter().collect();
    let bytes = AtomicU64::new(0);
    let work = |at: usize, results: &Results<News>| {
        let Some((_, dir)) = runs.get(at) else {
            return;
        };
        // Reading what the lines are is worthwhile only if something is found.
        let mut index = None;
        let mut index =
            || Arc::clone(index.get_or_insert_with(|| Arc::<Index>::new(read_index(dir))));
        let bytes = &bytes;
        search(dir, &needle, &mut index, &mut Reporter { results, bytes });
    };
    let mut before = 0;
    in_order(0..runs.len(), cores(), work, |&at, news| {
        if let Some((key, _)) = runs
            .get(at)
            .filter(|(key, _)| *printer.key != *key.as_str())
        {
            printer.key = key.to_string();
        }
        match news {
            Some(News::Found(found)) => printer.found(found),
            Some(News::LeftOut(file, why)) => printer.left_out(file, why),
            None => {
                let tally = &mut printer.tally;
                tally.runs_done += 1;
                tally.runs_with += usize::from(tally.found > before);
                before = tally.found;
            }
        }
        printer.failed.is_none()
    });
    if let Some(error) = printer.failed {
        return Err(error.into());
    }
    let mut tally = printer.tally;
    let bytes = bytes.into_inner();
    (tally.bytes, tally.bytes_done, tally.took) = (bytes, bytes, began.elapsed());
    if args.json {
        let query = args.query.as_deref().unwrap_or_default();
        write_json(
            out,
            &found(text, query, Some(State::Done), Some(&tally), usize::MAX),
        )?;
    } else {
        foot(out, look, &tally, args.query.is_none())?;
    }
    Ok(u8::from(tally.found == 0))
}

/// Returns the runs to search, and the number of duplicates among those that match the query.
fn runs(
    root: &Path,
    query: Option<&str>,
    look: &Look,
) -> Result<(BTreeMap<RunKey, RunDir>, usize)> {
    let none = |fault: String| {
        no_runs(root, &fault)
            .hint("check the path; the directory comes first: board search ROOT TEXT")
    };
    // A duplicate may contain records that the other file lacks, so all files are searched.
    let Some(query) = query else {
        let found = RootScanner::new(root.to_owned()).scan();
        return match found.fault {
            Some(fault) => Err(none(fault)),
            None => Ok((found.runs, 0)),
        };
    };
    let query = self::query("search", query, look)?;
    let tags = tags_for(&[&query])?;
    let library = Library::load_with(vec![root.to_owned()], Arc::default(), tags);
    let roots = library.status().roots;
    if let Some(fault) = roots.into_iter().find_map(|root| root.fault) {
        return Err(none(fault));
    }
    let mut runs = library.runs();
    runs.retain(|run| query.matches(&*run.summary()));
    let matching = runs.len();
    if !query.asks_for_copies() {
        runs.retain(|run| run.summary().counts());
    }
    let duplicates = matching - runs.len();
    let runs = runs
        .iter()
        .map(|run| (run.key().clone(), run.dir().clone()))
        .collect();
    Ok((runs, duplicates))
}

/// Prints hits as they're found, or collects them for the JSON document.
struct HitPrinter<'a> {
    look: &'a Look,
    out: &'a mut dyn Write,
    key: String,
    json: bool,
    failed: Option<std::io::Error>,
    tally: Tally,
}

impl HitPrinter<'_> {
    fn print(&mut self, found: &LineMatch) -> std::io::Result<()> {
        let place = place(found);
        for hit in &found.line.hits {
            let whole = [&*hit.before, &*hit.text, &*hit.after].concat();
            let names_itself = whole.starts_with(&format!("{}: ", hit.path));
            let path = path(found, hit);
            let field = if path.is_empty() || names_itself {
                String::new()
            } else {
                format!("  {}", visible_line(path))
            };
            let around = |text: &str| visible_line(text).into_owned();
            writeln!(
                self.out,
                "{}  {place}{field}: {}{}{}",
                self.look.paint(Ink::Heading, &around(&self.key)),
                around(&hit.before),
                self.look.paint(Ink::Bad, &around(&hit.text)),
                around(&hit.after),
            )?;
        }
        let more = found.line.found - found.line.hits.len();
        if more > 0 {
            let more = format!(
                "{}  {place}: {}",
                visible_line(&self.key),
                counted(more, "more field")
            );
            writeln!(self.out, "{}", self.look.paint(Ink::Dim, &more))?;
        }
        Ok(())
    }
}

impl HitPrinter<'_> {
    fn found(&mut self, found: LineMatch) {
        if self.json {
            self.tally.keep(usize::MAX, &self.key, found);
            return;
        }
        self.tally.found += found.line.found;
        self.failed = self.print(&found).err();
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        let key = self.key.clone();
        self.tally.leave_out(usize::MAX, LeftOut { key, file, why });
    }
}

/// What a thread reports about the run that it searches.
enum News {
    Found(LineMatch),
    LeftOut(TraceFile, String),
}

/// Reports the matches in one run.
struct Reporter<'a> {
    results: &'a Results<News>,
    bytes: &'a AtomicU64,
}

impl HitSink for Reporter<'_> {
    fn read(&mut self, bytes: u64) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        true
    }

    fn found(&mut self, found: LineMatch) -> bool {
        self.results.send(News::Found(found))
    }

    fn left_out(&mut self, file: TraceFile, why: String) {
        self.results.send(News::LeftOut(file, why));
    }
}

/// Prints the totals. If `is_all`, no query chose the runs, and duplicates were searched too.
fn foot(out: &mut dyn Write, look: &Look, tally: &Tally, is_all: bool) -> std::io::Result<()> {
    let hits = match tally.found {
        0 => "no matches in".to_owned(),
        found => format!("{} in {} of", counted(found, "match"), tally.runs_with),
    };
    let runs = counted(tally.runs, "run");
    let took = match tally.took.as_secs_f64() {
        seconds if seconds < 0.1 => "less than 0.1 s".to_owned(),
        seconds => format!("{seconds:.1} s"),
    };
    let skipped = match tally.duplicates_left_out {
        0 if is_all => " (including duplicates)".to_owned(),
        0 => String::new(),
        duplicates => format!(" ({} not searched)", counted(duplicates, "duplicate")),
    };
    let speed = format!(
        "{hits} {runs}{skipped}; searched {} in {took}",
        bytes(tally.bytes_done)
    );
    writeln!(out, "{}", look.paint(Ink::Dim, &speed))?;
    for left in &tally.left_out {
        let (word, key, why) = (
            look.paint(Ink::Warning, "not searched"),
            visible_line(&left.key),
            visible_line(&left.why),
        );
        writeln!(out, "{word}: {key}, {}: {why}", left.file.name())?;
    }
    Ok(())
}
