//! Summarizes all runs together: the title line, the totals, the line below the table, and an
//! empty root.

use crate::analysis::columns::{COST, Column, DURATION, Kind, TOKENS};
use crate::analysis::format::{self, count, counted};
use crate::analysis::query::Query;
use crate::analysis::select::Total;
use crate::analysis::summary::Summary;
use crate::live::SkippedTotal;
use crate::page::part::href;
use crate::page::runs::fill::list::{List, ListContext, MAX_ROWS, ROWS, WINDOW, Watch};
use crate::page::runs::fill::row::{duration, line, row_title};
use crate::page::shell::When;

/// The query for runs whose files contradict each other.
const CONTRADICTED: &str = "contradictions>0";
/// Maximum number of skipped files and directories that are listed.
const MAX_SKIPPED: usize = 100;

/// One line of a list of skipped items, as text for a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkippedRow {
    /// The path below the root, or a root, or an object.
    pub(crate) name: String,
    /// The reason why it isn't read.
    pub(crate) reason: String,
}

impl SkippedRow {
    pub(crate) fn new(name: &str, reason: &str) -> Self {
        Self {
            name: line(name),
            reason: line(reason),
        }
    }

    /// The last line, which counts those that aren't listed, if any.
    pub(crate) fn rest(behind: usize) -> Option<Self> {
        (behind > 0).then(|| Self::new("…", &format!("{} more", count(behind as u64))))
    }
}

/// The sum of one column over the matching runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sums {
    /// What is summed up: `Tokens`.
    pub(crate) name: &'static str,
    /// The sum: `5.63M`.
    pub(crate) sum: String,
    /// The median, and how many runs the sum covers if not all.
    pub(crate) more: String,
    /// The number of runs that record the value.
    pub(crate) title: Option<String>,
}

/// A link to more rows.
#[derive(Debug)]
pub(crate) struct More {
    /// The label: `Show 200 more`.
    pub(crate) text: String,
    /// The address of the page with the additional rows.
    pub(crate) href: String,
    /// The address from which an open page can load the additional rows below its own.
    pub(crate) part: Option<String>,
}

impl List<'_> {
    /// Counts the matching runs: `130`, or with a filter `12 of 130`.
    pub(crate) fn matched(&self) -> String {
        let total = count(self.survey.total as u64);
        if self.query.is_empty() {
            total
        } else {
            let matched = count(self.survey.matched as u64);
            match self.ctx.duplicates {
                0 => format!("{matched} of {total}"),
                copies => format!(
                    "{matched} of {total}, including {}",
                    counted(copies, "duplicate")
                ),
            }
        }
    }

    pub(crate) fn newest(&self) -> Option<When> {
        When::of(self.survey.newest?, self.ctx.now, &self.ctx.zone)
    }

    pub(crate) fn looked(&self) -> Option<When> {
        When::of(self.ctx.looked?, self.ctx.now, &self.ctx.zone)
    }

    pub(crate) fn indexing(&self) -> Option<String> {
        let (done, total) = self.ctx.indexing?;
        Some(format!(
            "indexing {} of {}",
            count(done as u64),
            count(total as u64)
        ))
    }

    /// Counts the runs whose files contradict each other about the end, and links to their list.
    pub(crate) fn contradicted(&self) -> Option<(String, String)> {
        let contradicted = self.survey.contradicted;
        if contradicted == 0 {
            return None;
        }
        let mut query: Query = self.query.clone();
        query.terms.extend(Query::parse(CONTRADICTED).terms);
        let words = format!(
            "{} {} conflicting records",
            counted(contradicted, "run"),
            if contradicted == 1 { "has" } else { "have" }
        );
        Some((words, self.ctx.url(&query.to_string(), self.ctx.sort, "")))
    }

    /// Returns the totals of the matching runs. A sum covers the runs that record the value.
    pub(crate) fn totals(&self) -> Vec<Sums> {
        let survey = &self.survey;
        let others = [
            ("Tokens", TOKENS, &survey.tokens),
            ("Cost", COST, &survey.cost),
            ("Duration", DURATION, &survey.duration),
        ];
        let others = others.into_iter();
        [self.number_of_runs()]
            .into_iter()
            .chain(others.filter_map(|(name, column, total)| self.total(name, column, total)))
            .collect()
    }

    fn number_of_runs(&self) -> Sums {
        let survey = &self.survey;
        let copies = match survey.copies {
            _ if survey.matched == 0 => None,
            0 => None,
            1 => Some("1 duplicate not counted".to_owned()),
            copies => Some(format!("{} duplicates not counted", count(copies as u64))),
        };
        let of_all = (!self.query.is_empty()).then(|| format!("of {}", count(survey.total as u64)));
        Sums {
            name: "Runs",
            sum: count(survey.matched as u64),
            more: joined([of_all, copies]),
            title: None,
        }
    }

    /// Returns the total of a column, or `None` if no run records it.
    fn total(&self, name: &'static str, column: &'static Column, total: &Total) -> Option<Sums> {
        let (sum, matched) = (&total.sum, self.survey.matched);
        let is_cost = matches!(column.kind, Kind::Usd(_));
        // An estimated cost has its own mark.
        let mark = format::bound(sum.is_lower_bound(matched), sum.is_estimate && !is_cost);
        let value = sum.value(column)?;
        let shown = value.words(self.ctx.now, &self.ctx.zone)?;
        let median = total.median.and_then(|median| match column.kind {
            Kind::Usd(_) => Some(format::usd(median)),
            Kind::Millis(_) => duration(median),
            _ => Some(format::tokens(median.round() as u64)),
        });
        let median = median.map(|median| format!("median {median}"));
        let recorded = count((sum.known - total.estimated) as u64);
        let estimated = (total.estimated > 0).then(|| count(total.estimated as u64));
        let known = match &estimated {
            Some(estimated) if is_cost => {
                Some(format!("{recorded} recorded, {estimated} estimated"))
            }
            _ => (sum.known < matched).then(|| counted(sum.known, "run")),
        };
        let estimated = estimated.map(|estimated| format!("estimated for {estimated}"));
        let title = format!("recorded by {recorded} of {}", counted(matched, "run"));
        Some(Sums {
            name,
            sum: format!("{mark}{shown}"),
            more: joined([median, known]),
            title: Some(joined([Some(title), estimated])),
        })
    }

    /// States which rows a page of `rows` rows shows: `Showing 200 of 2,000`.
    pub(crate) fn showing(&self, rows: &usize) -> String {
        let of = count(self.survey.matched as u64);
        if let Some(groups) = &self.groups {
            let (before, shown) = (groups.before as u64, groups.groups.len() as u64);
            let which = if before == 0 {
                count(shown)
            } else {
                format::range(before + 1, before + shown)
            };
            return format!(
                "Showing {which} of {}, {} of {of} runs",
                counted(groups.count, "group"),
                count(*rows as u64)
            );
        }
        match (self.selection.before as u64, *rows as u64) {
            (0, 0) if self.survey.matched == 0 => String::new(),
            (0, rows) => format!("Showing {} of {of}", count(rows)),
            (_, 0) => format!("Showing none of {of}"),
            (before, rows) => format!(
                "Showing {} of {of}",
                format::range(before + 1, before + rows)
            ),
        }
    }

    /// Returns the address of all matching runs as CSV.
    pub(crate) fn csv(&self) -> String {
        let pairs = self
            .ctx
            .pairs(self.ctx.cols(), &self.ctx.query, self.ctx.sort, "");
        href::with_query(
            "/runs.csv",
            &pairs
                .each_ref()
                .map(|(name, value)| (*name, value.as_str())),
        )
    }

    /// Returns the address of the first window, if the page shows other or more rows.
    pub(crate) fn first(&self) -> Option<String> {
        if self.is_first() && self.ctx.limit <= WINDOW {
            return None;
        }
        let usual = ListContext {
            limit: self.ctx.limit.min(WINDOW),
            ..self.ctx.clone()
        };
        Some(usual.url(&self.ctx.query, self.ctx.sort, ""))
    }

    /// Links to the same page with more rows. If the page already shows as many as it may, links to
    /// the next page.
    pub(crate) fn more(&self) -> Option<More> {
        let (ctx, next) = (self.ctx, self.selection.next.as_deref()?);
        let (all, shown) = match &self.groups {
            Some(groups) => (groups.count, groups.groups.len()),
            None => (self.survey.matched, self.selection.rows.len()),
        };
        let behind = all.saturating_sub(self.selection.before + shown);
        if ctx.limit >= MAX_ROWS {
            let text = format!("Next {}", count(behind.min(shown.max(1)) as u64));
            let usual = ListContext {
                limit: WINDOW,
                ..ctx.clone()
            };
            return Some(More {
                text,
                href: usual.url(&ctx.query, ctx.sort, next),
                part: None,
            });
        }
        let window = WINDOW.min(ctx.limit);
        let limit = (ctx.limit + window).min(MAX_ROWS);
        let rows = if self.groups.is_some() {
            (limit - ctx.limit) / ROWS
        } else {
            limit - ctx.limit
        };
        let longer = ListContext {
            limit,
            ..ctx.clone()
        };
        let after = ctx.after.as_deref().unwrap_or_default();
        Some(More {
            text: format!("Show {} more", count(behind.min(rows.max(1)) as u64)),
            href: longer.url(&ctx.query, ctx.sort, after),
            part: Some(longer.pulse_url("", "")),
        })
    }

    /// Returns the marked runs that have no checkbox in this table.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = &String> {
        let shown = |key: &String| {
            let mut rows = self.selection.rows.iter();
            self.ctx.marking && rows.any(|row| row.summary.key.as_str() == key)
        };
        self.ctx.marks.iter().filter(move |key| !shown(key))
    }

    /// Returns the keys of the marked runs with their titles, or the keys again for runs that aren't
    /// listed.
    pub(crate) fn marked(&self) -> Vec<(String, String)> {
        let title = |key: &String| {
            let run = self.runs.iter();
            let run = run
                .map(AsRef::as_ref)
                .find(|run: &&Summary| run.key.as_str() == key);
            (line(key), run.map_or_else(|| line(key), row_title))
        };
        self.ctx.marks.iter().map(title).collect()
    }

    /// Returns the address of the list without marks.
    pub(crate) fn unmarked(&self) -> String {
        let ctx = ListContext {
            marks: Vec::new(),
            ..self.ctx.clone()
        };
        ctx.url(
            &ctx.query,
            ctx.sort,
            ctx.after.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the address of the same rows with checkboxes, or without them.
    pub(crate) fn marking(&self) -> String {
        let ctx = ListContext {
            marking: !self.ctx.marking,
            ..self.ctx.clone()
        };
        ctx.url(
            &ctx.query,
            ctx.sort,
            ctx.after.as_deref().unwrap_or_default(),
        )
    }

    /// Describes how board notices changes.
    pub(crate) fn watch(&self) -> String {
        match &self.ctx.watch {
            Watch::Native => "watching for file changes".to_owned(),
            Watch::Poll(reason) => format!("polling: {}", line(reason)),
            Watch::Stalled(reason) => format!("not up to date: {}", line(reason)),
        }
    }

    /// Lists the skipped files and directories, and counts them.
    pub(crate) fn skipped(&self) -> (Vec<SkippedRow>, String) {
        let (total, faults) = (total(self.ctx), faults(self.ctx).len());
        let directories = total.directories + faults;
        let words = [
            (total.files() > 0).then(|| not_read(total.files())),
            (directories > 0).then(|| self::directories(directories, "without runs")),
        ];
        (
            skipped(self.ctx, 0, total.all() + faults),
            words.into_iter().flatten().collect::<Vec<_>>().join(" · "),
        )
    }

    /// Counts the skipped files by reason, the most frequent first: `11 files: unsupported format
    /// (looks like a Copilot CLI session)`.
    pub(crate) fn skipped_reasons(&self) -> Vec<String> {
        let mut reasons: Vec<_> = total(self.ctx).files.into_iter().collect();
        reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        reasons
            .into_iter()
            .map(|(reason, files)| format!("{}: {}", counted(files, "file"), line(&reason)))
            .collect()
    }

    /// Explains why a root has no runs, if it isn't just empty: `./runs does not exist yet`.
    pub(crate) fn trouble(&self) -> Option<String> {
        let roots = &self.ctx.roots;
        match faults(self.ctx).as_slice() {
            [(root, fault)] if roots.len() == 1 => {
                let root = line(root);
                Some(match fault.strip_prefix("it ") {
                    Some(session_name) => format!("{root} {}", line(session_name)),
                    None => format!("Can't read {root}: {}", line(fault)),
                })
            }
            all if all.len() > 1 && all.len() == roots.len() => {
                Some(format!("None of the {} directories can be read", all.len()))
            }
            _ => None,
        }
    }

    /// States what the last scan found instead of runs: `3 directories without a run`.
    pub(crate) fn found(&self) -> String {
        let faults = faults(self.ctx).len();
        let total = total(self.ctx);
        let directories =
            (total.directories > 0).then(|| directories(total.directories, "without a run"));
        match (self.ctx.looked, faults, total.files(), directories) {
            (None, ..) => "the first scan is in progress".to_owned(),
            (_, 0, 0, None) => "empty".to_owned(),
            (_, _, 0, None) => "no runs found".to_owned(),
            (_, _, 0, Some(directories)) => directories,
            (_, _, files, directories) => [Some(not_read(files)), directories]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// Lists the skipped directories when there are no runs. The fault of a single root is already
    /// the title.
    pub(crate) fn skipped_below(&self) -> Vec<SkippedRow> {
        let title = if self.ctx.roots.len() == 1 {
            faults(self.ctx).len()
        } else {
            0
        };
        let all = total(self.ctx).all() + faults(self.ctx).len();
        skipped(self.ctx, title, all)
    }
}

/// Joins the known parts of a line.
fn joined(parts: [Option<String>; 2]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Returns the unreadable roots, with the reason.
fn faults(ctx: &ListContext) -> Vec<(String, &str)> {
    ctx.roots
        .iter()
        .filter_map(|root| Some((root.shown.clone(), root.fault.as_deref()?)))
        .collect()
}

/// Lists the unreadable roots, then the skipped files and directories, and counts the rest of `all`.
/// The first `from` aren't listed.
fn skipped(ctx: &ListContext, from: usize, all: usize) -> Vec<SkippedRow> {
    let below = ctx.roots.iter().flat_map(|root| {
        root.skipped.iter().map(|skipped| match ctx.roots.len() {
            1 => (skipped.path.clone(), skipped.reason.as_str()),
            _ => (
                format!("{}/{}", root.shown.trim_end_matches('/'), skipped.path),
                skipped.reason.as_str(),
            ),
        })
    });
    let mut rows: Vec<_> = faults(ctx)
        .into_iter()
        .chain(below)
        .skip(from)
        .take(MAX_SKIPPED)
        .map(|(name, reason)| SkippedRow::new(&name, reason))
        .collect();
    rows.extend(SkippedRow::rest(all.saturating_sub(from + rows.len())));
    rows
}

/// Counts the skipped files and directories of all roots.
fn total(ctx: &ListContext) -> SkippedTotal {
    let mut total = SkippedTotal::default();
    ctx.roots
        .iter()
        .for_each(|root| total.add(&root.skipped_total));
    total
}

/// Formats a number of files: `45 files skipped`.
fn not_read(files: usize) -> String {
    format!("{} skipped", counted(files, "file"))
}

/// Formats a number of directories: `2 directories without runs`.
fn directories(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 directory {what}"),
        _ => format!("{} directories {what}", count(number as u64)),
    }
}
