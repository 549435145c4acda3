//! `board list`: lists the runs below a directory.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::columns::{Columns, cut_end, cut_start, widths};
use super::command::{Between, Done, cut, query, tags_for, write_json};
use super::config::Settings;
use super::look::{Ink, Look, ink_of};
use super::roots::no_runs;
use crate::analysis::columns::{self, COLUMNS, Column, RUN, RunRow, STATUS, TITLE, VERDICT, Width};
use crate::analysis::format::{MISSING, bound, count, counted, visible_line};
use crate::analysis::query::{CalendarField, Clock, Needle, Query, Sort, Test};
use crate::analysis::select::{Group, Grouping, Window, groups, no_such_status, select};
use crate::analysis::summary::Summary;
use crate::live::{Library, SkippedKind};
use crate::page::runs::api::Runs;
use crate::page::runs::csv;

/// From this many skipped directories or files, they're counted rather than listed.
const MAX_SKIPPED: usize = 5;
/// If a field has more distinct words than this, none are suggested.
const MAX_WORDS: usize = 40;
/// The maximum length of a title, in characters.
const MAX_TITLE: usize = 60;
/// The maximum length of a group's name, in characters.
const MAX_NAME: usize = 100;

/// List the runs in a directory, one per line
#[derive(Debug, clap::Args)]
#[command(after_help = query_help())]
pub(super) struct Args {
    /// A directory to search, up to 8 levels deep, or a file that contains runs
    #[arg(default_value = "./runs")]
    root: PathBuf,
    /// Show only matching runs; quote the query: 'steps>5 -stop:final'
    #[arg(allow_hyphen_values = true)]
    query: Option<String>,
    #[command(flatten)]
    between: Between,
    /// Sort by one of the fields below; a leading `-` reverses the order
    #[arg(
        long,
        value_name = "FIELD",
        default_value = "updated",
        allow_hyphen_values = true
    )]
    sort: Sort,
    /// Group runs, with totals: by day, week, model, status, stop, writer, project, task, log,
    /// agent or parent
    #[arg(long, value_name = "BY", value_parser = grouping, conflicts_with = "csv")]
    group: Option<&'static Grouping>,
    /// Print CSV with all fields of the JSON, in the order of the list
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// Returns the help on queries and their fields.
fn query_help() -> String {
    let lines = |names: Vec<&str>| {
        names
            .chunks(10)
            .map(|line| line.join(" "))
            .collect::<Vec<_>>()
            .join("\n  ")
    };
    let fields: String = COLUMNS
        .iter()
        .map(|column| (column.name, about(column)))
        .chain(
            CalendarField::ALL
                .map(|field| (field.name(), format!("{} (not in JSON)", field.about()))),
        )
        .chain([(
            "state.KEY changed",
            "Whether a step changed the key of the state".to_owned(),
        )])
        .map(|(name, about)| format!("\n  {name:<20}  {about}"))
        .collect();
    let unsorted = COLUMNS
        .iter()
        .filter(|column| !column.is_sortable())
        .map(|column| column.name);
    format!(
        "A query consists of words and terms. All must match:
  stop:final,success  outcome:failed  liveness:running  tool:run_tests  model:qwen  critic:retry
  steps>5  score<0.5  duration>2m  tokens:1k..20k  err:true  -term  \"two words\"
  started:2026-02-22  started:2026-02-01..2026-02-28  updated:7d (in the last 7 days)
  weekday:mon..fri  hour:9..17
  cost:none (not recorded)  -model:none (recorded)
Fields:{fields}
Fields that don't work with --sort:
  {}",
        lines(
            unsorted
                .chain(CalendarField::ALL.map(CalendarField::name))
                .chain(["state.KEY"])
                .collect()
        )
    )
}

/// Describes a field, with its name in JSON if that differs.
fn about(column: &Column) -> String {
    match column.key {
        Some(key) if key == column.name => column.about.to_owned(),
        Some(key) => format!("{} (JSON: {key})", column.about),
        None => format!("{} (not in JSON)", column.about),
    }
}

pub(super) fn run(args: Args, look: &Look, out: &mut dyn Write) -> Done {
    args.between.check()?;
    let is_without_query = args.query.is_none();
    let terms = [args.query, args.between.term()];
    let terms: Vec<String> = terms.into_iter().flatten().collect();
    let query = query("list", &terms.join(" "), look)?;
    super::stores::refuse(&args.root)?;
    let prices = args.settings.read()?.prices;
    let tags = tags_for(&[&query])?;
    let library = Library::load_with(vec![args.root], prices, tags);
    let root = library.status().roots.into_iter().next();
    if let Some((root, fault)) = root
        .as_ref()
        .and_then(|root| Some((root, root.fault.as_ref()?)))
    {
        let error = no_runs(&root.path, fault);
        // The query may have been taken for the directory.
        let is_query = is_without_query && has_field(&root.path.to_string_lossy());
        return Err(match is_query {
            true => error.hint(
                "pass the directory or file first, then the query: board list ./runs 'steps>5'",
            ),
            false => error
                .hint("pass a directory that contains runs: board list DIR")
                .hint("`board demo ./runs` writes demo runs"),
        }
        .into());
    }
    let (skipped, skipped_total) = root
        .map(|root| (root.skipped, root.skipped_total))
        .unwrap_or_default();
    let clock = Clock::at(look.now, &look.zone);
    let with_copies = query.asks_for_copies();
    let (runs, copies) = library.listed(with_copies);
    let all: Vec<_> = runs.iter().map(|run| run.summary()).collect();
    let whole = Window {
        limit: usize::MAX,
        after: None,
        rows: usize::MAX,
    };
    let groups = args
        .group
        .map(|by| groups(&all, &query, by, args.sort, whole, &clock));
    let found = match &groups {
        Some(groups) => groups.selection(),
        None => select(&all, &query, args.sort, all.len(), None),
    };
    if args.csv {
        csv::write_csv(
            out,
            &csv::fields(),
            found.rows.into_iter().map(AsRef::as_ref),
        )?;
        return Ok(0);
    }
    let list = Runs {
        revision: *library.revision().borrow(),
        total: found.total,
        matched: found.matched,
        runs: Vec::new(),
        next: None,
        groups: None,
        groups_total: groups.as_ref().map(|groups| groups.count),
        copies,
        ignored: Vec::new(),
        skipped: skipped.to_vec(),
        skipped_total: skipped_total.all(),
        skipped_files: skipped_total.files,
    };
    if args.json {
        let rows = found.rows.into_iter().filter(|_| groups.is_none());
        let runs = rows.map(|run| RunRow(run)).collect();
        let groups = groups.map(|groups| groups.groups);
        write_json(
            out,
            &Runs {
                runs,
                groups,
                ..list
            },
        )?;
    } else {
        let heads = groups.iter().flat_map(|groups| &groups.groups);
        let heads: Vec<_> = heads
            .map(|group| ((!group.is_alone).then(|| head(group, look)), depths(group)))
            .collect();
        let uncounted = if with_copies { 0 } else { copies };
        // Without runs, what may be misspelt comes first.
        let unmatched = unmatched_terms(&query, &all);
        let (before, after) = match found.rows.is_empty() {
            true => (unmatched, Vec::new()),
            false => (Vec::new(), unmatched),
        };
        for line in before {
            writeln!(out, "{}", visible_line(&line))?;
        }
        write_text(out, &found.rows, &heads, &list, uncounted, look)?;
        for line in after {
            writeln!(out, "{}", visible_line(&line))?;
        }
    }
    Ok(0)
}

/// Returns whether a text contains a query's term on a field.
fn has_field(text: &str) -> bool {
    let terms = Query::parse(text).terms;
    terms.iter().any(|term| !matches!(term.test, Test::Text(_)))
}

/// Describes terms on fields with few words that match no run's word, since they may be misspelt.
fn unmatched_terms(query: &Query, runs: &[Arc<Summary>]) -> Vec<String> {
    let no_status = no_such_status(query).filter(|_| !runs.iter().any(|run| query.matches(&**run)));
    let mut lines: Vec<String> = no_status.into_iter().collect();
    for term in query.terms.iter().filter(|term| !term.negated) {
        let Test::Word { field, any, .. } = &term.test else {
            continue;
        };
        if !matches!(field.kind, columns::Kind::Word(_)) {
            continue;
        }
        // Other words for the same value match too, but aren't listed.
        if runs.iter().any(|run| term.matches(&**run)) {
            continue;
        }
        if *field == STATUS && !lines.is_empty() {
            continue;
        }
        let words = runs.iter().map(|run| match *field == STATUS {
            true => run.shown_status().as_str(),
            false => field.word(run),
        });
        let words: BTreeSet<&str> = words.filter(|word| !word.is_empty()).collect();
        if words.is_empty() || words.len() > MAX_WORDS {
            continue;
        }
        let missing: Vec<&str> = any.iter().map(Needle::text).collect();
        let (name, missing) = (field.name, missing.join(","));
        let values: Vec<_> = words.iter().map(|word| word.replace(' ', "_")).collect();
        lines.push(format!(
            "No run has {name}:{missing}. Values: {}",
            values.join(", ")
        ));
    }
    lines
}

/// Parses what to group runs by.
fn grouping(name: &str) -> Result<&'static Grouping, String> {
    Grouping::find(name).ok_or_else(|| format!("must be one of: {}", Grouping::names()))
}

/// Formats the line above a group: its name, the number of runs, and their sums.
fn head(group: &Group<'_, Arc<Summary>>, look: &Look) -> String {
    let name = if group.name.is_empty() {
        "(not recorded)"
    } else {
        &group.name
    };
    let mut words = vec![counted(group.runs, "run")];
    // Not the result `failed`, which excludes errors.
    let failed = || format!("{} with outcome failed", count(group.failed as u64));
    words.extend((group.failed > 0).then(failed));
    let alive = || format!("{} may still be running", count(group.alive as u64));
    words.extend((group.alive > 0).then(alive));
    for name in ["tokens", "cost"] {
        let sum = Column::find(name).and_then(|column| Some((column, group.sum(column)?)));
        let Some((column, sum)) = sum.filter(|(_, sum)| sum.known > 0) else {
            continue;
        };
        let value = sum
            .value(column)
            .and_then(|value| value.words(look.now, &look.zone))
            .unwrap_or_default();
        let unit = if name == "tokens" { " tokens" } else { "" };
        // The words of an estimated cost have its mark.
        let is_estimate = sum.is_estimate && name == "tokens";
        let mark = bound(sum.counted() < group.runs, is_estimate);
        words.push(format!("{mark}{value}{unit}"));
    }
    words.extend((group.copies > 0).then(|| group.copies_in_words()));
    words.extend((group.branches > 0).then(|| group.branches_in_words()));
    let name = look.paint(Ink::Heading, &cut(&visible_line(name), MAX_NAME));
    format!("{name}  {}", look.paint(Ink::Dim, &words.join(" · ")))
}

/// Returns the indentation of each run in a group.
fn depths(group: &Group<'_, Arc<Summary>>) -> Vec<usize> {
    group.rows.iter().map(|row| row.depth + 1).collect()
}

/// Formats a cell. The step limit follows the steps, and the files' problems follow the verdict.
fn cell(run: &Summary, column: &Column, look: &Look) -> String {
    let words = column
        .shown(run)
        .and_then(|value| value.words(look.now, &look.zone));
    let words = words.map(|words| column.bound(run, &words));
    let words = words.unwrap_or_else(|| MISSING.to_owned());
    match column.name {
        "title" => match title(run) {
            Some(title) => cut(&visible_line(title), MAX_TITLE),
            None => MISSING.to_owned(),
        },
        "status" if !run.partial => run.shown_status().as_str().to_owned(),
        "steps" if run.steps_unknown => words,
        "steps" => {
            let limit = run.verdict.budget();
            let limit = limit.map_or_else(String::new, |limit| format!("/{}", limit.steps));
            format!("{}{limit}", count(run.steps as u64))
        }
        _ => words,
    }
}

/// Returns what follows the verdict: the problems of the files, and what is known about duplicates.
fn notes(run: &Summary) -> String {
    let problems = (run.issues.1 > 0).then(|| counted(run.issues.1, "problem"));
    let notes = problems.into_iter().chain(
        run.relation
            .notes()
            .map(|note| visible_line(&note).into_owned()),
    );
    notes.map(|note| format!(" · {note}")).collect()
}

/// Returns the title of a run, unless that's the name of its file or directory.
fn title(run: &Summary) -> Option<&str> {
    Some(run.title()).filter(|title| *title != run.key.name())
}

/// Returns the columns for a list of `runs`. The column that may be long comes last and isn't
/// padded.
fn columns(runs: &[&Arc<Summary>]) -> Vec<&'static Column> {
    let (rest, others): (Vec<_>, Vec<_>) = columns::of_list(runs)
        .into_iter()
        .partition(|(_, cell)| cell.width == Width::Outcome);
    let has_titles = runs.iter().any(|run| title(run).is_some());
    others
        .into_iter()
        .chain(rest)
        .flat_map(|(column, _)| {
            let title = (*column == *RUN && has_titles).then_some(TITLE);
            [Some(column), title]
        })
        .flatten()
        .collect()
}

/// The characters that a name, a title or a verdict needs to say anything.
const MIN_WIDTH: usize = 14;

/// Divides the width of a terminal among the columns. A verdict without room is dropped.
fn fitted(columns: &mut Vec<&'static Column>, widths: &mut Vec<usize>, width: usize) {
    let is_long = |column: &Column| [RUN, TITLE, VERDICT].contains(&column);
    let gaps = 2 * columns.len().saturating_sub(1);
    let of = |long: bool, columns: &[&'static Column], widths: &[usize]| -> usize {
        let pairs = columns.iter().zip(widths);
        let own = pairs.filter(|(column, _)| is_long(column) == long);
        own.map(|(_, width)| *width).sum()
    };
    let mut room = width.saturating_sub(of(false, columns, widths) + gaps);
    if of(true, columns, widths) <= room {
        return;
    }
    let number = columns.iter().filter(|column| is_long(column)).count();
    let verdict = columns.iter().position(|column| **column == *VERDICT);
    let has_no_room = |at: &usize| {
        let own = widths.get(*at).copied().unwrap_or_default();
        let names = of(true, columns, widths) - own;
        // Short names need less than others.
        room < (number * MIN_WIDTH).min(names + own.min(MIN_WIDTH))
    };
    if let Some(at) = verdict.filter(has_no_room) {
        columns.remove(at);
        widths.remove(at);
        room += 2;
    }
    // The narrowest first, so that what they don't need is left for the others.
    let mut long: Vec<usize> = (0..columns.len())
        .filter(|at| columns.get(*at).is_some_and(|column| is_long(column)))
        .collect();
    long.sort_by_key(|at| widths.get(*at).copied());
    let mut left = long.len();
    for at in long {
        if let Some(width) = widths.get_mut(at) {
            *width = (*width).min((room / left.max(1)).max(MIN_WIDTH));
            room = room.saturating_sub(*width);
        }
        left -= 1;
    }
}

/// Cuts the text of a cell. The end of a key says more than its beginning.
fn cut_to(text: &str, column: &Column, width: usize) -> String {
    match *column == *RUN {
        true => cut_start(text, width),
        false => cut_end(text, width),
    }
}

/// Writes the list as text. `groups` contains the heading of each group, if it has one, and the
/// indentation of its runs. It's empty if the runs aren't grouped. `uncounted` is the number of
/// duplicates that aren't in the list.
fn write_text(
    out: &mut dyn Write,
    runs: &[&Arc<Summary>],
    groups: &[(Option<String>, Vec<usize>)],
    list: &Runs<'_, Arc<Summary>>,
    uncounted: usize,
    look: &Look,
) -> io::Result<()> {
    let mut columns = columns(runs);
    let plain: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let cells = columns.iter().map(|column| match **column == *VERDICT {
                true => format!("{}{}", cell(run, column, look), notes(run)),
                false => cell(run, column, look),
            });
            cells.collect()
        })
        .collect();
    let names = columns.iter().map(|column| column.name.to_owned());
    let names: Vec<String> = names.collect();
    let mut widths = widths(plain.iter().chain([&names]));
    let all = columns.clone();
    if let Some(width) = look.width {
        let depths = groups.iter().flat_map(|(_, depths)| depths);
        let indent = 2 * depths.max().copied().unwrap_or_default();
        fitted(&mut columns, &mut widths, width.saturating_sub(indent));
    }
    let shown = |column: &&'static Column| columns.iter().position(|shown| shown == column);
    let rows: Vec<Vec<String>> = runs
        .iter()
        .zip(&plain)
        .map(|(run, row)| {
            let cells = all.iter().zip(row).filter_map(|(column, text)| {
                let width = widths.get(shown(column)?).copied()?;
                let text = cut_to(text, column, width);
                // The notes are dim, unless they are cut.
                let notes = notes(run);
                let verdict = text.strip_suffix(&notes);
                Some(match verdict.filter(|_| **column == *VERDICT) {
                    Some(verdict) => format!("{verdict}{}", look.paint(Ink::Dim, &notes)),
                    None => text,
                })
            });
            cells.collect()
        })
        .collect();
    let is_number = |at: usize| columns.get(at).is_some_and(|column| !column.is_text());
    let table = Columns::new(widths, is_number);
    if !rows.is_empty() {
        let names = columns.iter().map(|column| column.name);
        let head = table.cells(names).join("  ");
        let indent = if groups.is_empty() { "" } else { "  " };
        writeln!(out, "{indent}{}", look.paint(Ink::Dim, &head))?;
    }
    let mut places = groups.iter().flat_map(|(head, depths)| {
        depths
            .iter()
            .enumerate()
            .map(move |(at, depth)| (head.as_ref().filter(|_| at == 0), *depth))
    });
    for (run, row) in runs.iter().zip(&rows) {
        let (head, depth) = places.next().unwrap_or_default();
        if let Some(head) = head {
            writeln!(out, "{head}")?;
        }
        let mut cells = table.cells(row);
        let status = columns
            .iter()
            .position(|column| *column == STATUS)
            .and_then(|at| cells.get_mut(at));
        if let Some(status) = status {
            *status = look.paint(ink_of(run), status);
        }
        writeln!(out, "{}{}", "  ".repeat(depth), cells.join("  "))?;
    }
    let all = runs;
    if uncounted > 0 && list.matched > 0 {
        let words = if uncounted == 1 {
            "1 duplicate not counted"
        } else {
            &format!("{} duplicates not counted", count(uncounted as u64))
        };
        writeln!(out, "{}", look.paint(Ink::Dim, words))?;
    }
    let runs = counted(list.total, "run");
    let foot = if list.matched == list.total {
        runs
    } else {
        format!("{} of {runs}", count(list.matched as u64))
    };
    writeln!(out, "{}", look.paint(Ink::Dim, &foot))?;
    let estimated = all.iter().filter(|run| run.cost_estimated_usd().is_some());
    let from: BTreeSet<String> = estimated.filter_map(|run| run.estimate_source()).collect();
    if !from.is_empty() {
        let from: Vec<String> = from.into_iter().collect();
        writeln!(out, "≈ estimated {}", from.join(", or "))?;
    }
    let files: usize = list.skipped_files.values().sum();
    let directories = list.skipped_total - files;
    let mut name = |kind| {
        list.skipped
            .iter()
            .filter(|skipped| skipped.kind == kind)
            .try_for_each(|skipped| {
                writeln!(
                    out,
                    "skipped: {}: {}",
                    visible_line(&skipped.path),
                    visible_line(&skipped.reason)
                )
            })
    };
    if files < MAX_SKIPPED {
        name(SkippedKind::File)?;
    }
    if directories < MAX_SKIPPED {
        name(SkippedKind::Directory)?;
    }
    if files >= MAX_SKIPPED {
        let mut reasons: Vec<_> = list.skipped_files.iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        for (reason, files) in reasons {
            writeln!(
                out,
                "skipped: {}: {}",
                counted(*files, "file"),
                visible_line(reason)
            )?;
        }
    }
    if directories >= MAX_SKIPPED {
        writeln!(
            out,
            "skipped: {} directories without runs",
            count(directories as u64)
        )?;
    }
    Ok(())
}
