//! What is said about all runs together: the title line, the summary, the line below the table, an empty root.

use crate::analysis::columns::{STATUS, STOP};
use crate::analysis::format;
use crate::analysis::query::{Needle, Query, Term, Test};
use crate::analysis::select::{DISAGREES, End};
use crate::analysis::verdict::Mark;
use crate::page::part::chart::{Share, stack};
use crate::page::part::href;
use crate::page::runs::fill::row::{duration, line, when};
use crate::page::runs::fill::{List, ListContext, Watch};
use crate::page::runs::{Chip, EmptyRoot, RunsFoot, RunsHead, Strip, Tray};
use crate::page::shell::{Skipped, Status};

/// The order of marks in the bar: from what went well to what broke.
const ENDS: [Mark; 8] =
    [Mark::Answered, Mark::OwnRule, Mark::Limit, Mark::Critic, Mark::Cancelled, Mark::Error, Mark::Died, Mark::Unknown];
/// At most this many reasons of one mark have a part of the bar each; the others share one.
const MAX_REASONS: usize = 12;
/// At most this many skipped directories are named.
const MAX_SKIPPED: usize = 100;

impl List<'_> {
    pub(crate) fn head(&self) -> RunsHead {
        let live = [Mark::Running, Mark::Quiet, Mark::Stalled].into_iter();
        let some = live.filter_map(|mark| Some((mark, *self.survey.marks.get(&mark)?)));
        RunsHead {
            count: format!("{} in", self.matched()),
            root: self.ctx.root(),
            counts: some.map(|(mark, count)| format!("{} {}", format::count(count as u64), mark.word())).collect(),
            changed: self.survey.newest.and_then(|micros| when(self.ctx, micros)),
            indexing: self.ctx.indexing.map(|(done, total)| {
                format!("indexing {} of {}", format::count(done as u64), format::count(total as u64))
            }),
        }
    }

    pub(crate) fn strip(&self) -> Strip {
        let strip = &self.survey.strip;
        let count = |number: usize| format::count(number as u64);
        let whole = |value: f64| format::count(value.round() as u64);
        let medians = strip.medians;
        let disagree = match strip.disagree {
            0 => None,
            1 => Some("1 of them disagrees with success".to_owned()),
            more => Some(format!("{} of them disagree with success", count(more))),
        };
        Strip {
            label: format!("Summary of {}", format::counted(self.survey.matched, "run")),
            answered: format::percent(strip.answered as u64, strip.ended as u64),
            of: format!("{} of {} ended", count(strip.answered), count(strip.ended)),
            note: disagree.map(|text| (text, self.disagreeing())),
            segments: stack(ENDS.into_iter().flat_map(|mark| self.shares(mark)).collect()),
            nothing: if self.survey.matched == 0 { "No run matches." } else { "No run has ended yet." },
            legend: ENDS.into_iter().filter_map(|mark| self.legend(mark)).collect(),
            medians: vec![
                ("median steps", format::or_missing(medians.steps, half)),
                ("duration", format::or_missing(medians.duration_ms.and_then(duration), |text| text)),
                ("tokens", format::or_missing(medians.tokens, whole)),
                ("last score", format::or_missing(medians.last_score, format::score)),
            ],
        }
    }

    /// The list of the answered runs whose manifest says that they failed.
    fn disagreeing(&self) -> String {
        let mut query: Query = self.query.clone();
        query.terms.push(Term { negated: false, test: Test::Text(Needle::new(DISAGREES)) });
        self.ctx.url(&query.to_string(), self.ctx.sort, "")
    }

    /// The parts of the bar with this mark.
    fn shares(&self, mark: Mark) -> Vec<Share> {
        let ends: Vec<&End> = self.survey.strip.ends.iter().filter(|end| end.mark == mark).collect();
        let (named, others) = ends.split_at(ends.len().min(MAX_REASONS));
        let share = |name: &str, count, href| Share { status: Status::Of(mark), name: line(name), count, href };
        let mut shares: Vec<Share> = named
            .iter()
            .map(|end| match &end.reason {
                Some(reason) => share(reason, end.count, self.toggled(STOP, reason)),
                None => share(mark.word(), end.count, self.toggled(STATUS, mark.word())),
            })
            .collect();
        if !others.is_empty() {
            let name = format!("{} others", format::count(others.len() as u64));
            let count = others.iter().map(|end| end.count).sum();
            shares.push(share(&name, count, self.toggled(STATUS, mark.word())));
        }
        shares
    }

    fn legend(&self, mark: Mark) -> Option<Chip> {
        let ends = self.survey.strip.ends.iter().filter(|end| end.mark == mark);
        let count: usize = ends.map(|end| end.count).sum();
        (count > 0).then(|| self.chip(STATUS, mark.word(), count, Some(Status::Of(mark))))
    }

    /// The line below a table of `rows` rows.
    pub(crate) fn foot(&self, rows: usize) -> RunsFoot {
        let ctx = self.ctx;
        let matched = self.survey.matched;
        let before = self.selection.before as u64;
        let of = format::count(matched as u64);
        let behind = matched.saturating_sub(self.selection.before + self.selection.rows.len());
        let more = behind.min(ctx.limit.max(1));
        let text = || format!("Show {} more", format::count(more as u64));
        let next = self.selection.next.as_deref();
        let skipped = skipped(ctx);
        RunsFoot {
            showing: match (before, rows as u64) {
                (0, rows) => format!("Showing {} of {of}", format::count(rows)),
                (_, 0) => format!("Showing none of {of}"),
                (before, rows) => format!("Showing {} of {of}", format::range(before + 1, before + rows)),
            },
            csv: href::with_query(
                "/runs.csv",
                &ctx.pairs(&ctx.query, ctx.sort, "").each_ref().map(|(name, value)| (*name, value.as_str())),
            ),
            first: (!self.is_first()).then(|| ctx.url(&ctx.query, ctx.sort, "")),
            more: next.map(|next| (text(), ctx.url(&ctx.query, ctx.sort, next))),
            watch: watch(ctx),
            looked: ctx.looked.and_then(|micros| when(ctx, micros)),
            skipped_label: directories(skipped.len(), "skipped"),
            skipped: named(skipped),
        }
    }

    /// The marked runs.
    pub(crate) fn tray(&self) -> Tray {
        let ctx = self.ctx;
        let shown = |key: &String| self.selection.rows.iter().any(|row| row.summary.key.as_str() == key);
        let unmarked = ListContext { marks: Vec::new(), ..ctx.clone() };
        Tray {
            none: ctx.marks.is_empty(),
            count: format!("{} marked", format::count(ctx.marks.len() as u64)),
            names: line(&ctx.marks.join(", ")),
            elsewhere: ctx.marks.iter().filter(|key| !shown(key)).cloned().collect(),
            clear: unmarked.url(&ctx.query, ctx.sort, ctx.after.as_deref().unwrap_or_default()),
            marks: ctx.marks.clone(),
        }
    }

    /// What stands in place of the table where no run is known.
    pub(crate) fn empty(&self) -> EmptyRoot {
        let ctx = self.ctx;
        let faults: Vec<_> = ctx.roots.iter().filter_map(|root| Some((root, root.fault.as_deref()?))).collect();
        let trouble = match faults.as_slice() {
            [(root, fault)] if ctx.roots.len() == 1 => {
                let root = line(&root.shown);
                Some(match fault.strip_prefix("it ") {
                    Some(said) => format!("{root} {}", line(said)),
                    None => format!("{root} cannot be read: {}", line(fault)),
                })
            }
            all if all.len() > 1 && all.len() == ctx.roots.len() => {
                Some(format!("None of the {} directories can be read", all.len()))
            }
            _ => None,
        };
        let found = match (ctx.looked, faults.is_empty(), skipped(ctx).len() - faults.len()) {
            (None, ..) => "the first look is under way".to_owned(),
            (_, true, 0) => "nothing in it".to_owned(),
            (_, false, 0) => "no run found".to_owned(),
            (_, _, number) => directories(number, "without a run"),
        };
        EmptyRoot {
            root: ctx.root(),
            trouble,
            looked: ctx.looked.and_then(|micros| when(ctx, micros)),
            found,
            watch: watch(ctx),
            // What is wrong with the only root is the page's title already.
            skipped: named(skipped(ctx).split_off(if ctx.roots.len() == 1 { faults.len() } else { 0 })),
        }
    }
}

fn watch(ctx: &ListContext) -> String {
    match &ctx.watch {
        Watch::Native => "watching with file notifications".to_owned(),
        Watch::Poll(reason) => format!("polling: {}", line(reason)),
    }
}

/// Roots that cannot be read, then directories that are not listed.
fn skipped(ctx: &ListContext) -> Vec<(String, &str)> {
    let faults = ctx.roots.iter().filter_map(|root| Some((root.shown.clone(), root.fault.as_deref()?)));
    let below = ctx.roots.iter().flat_map(|root| {
        root.skipped.iter().map(|skipped| match ctx.roots.len() {
            1 => (skipped.name.clone(), skipped.reason.as_str()),
            _ => (format!("{}/{}", root.shown.trim_end_matches('/'), skipped.name), skipped.reason.as_str()),
        })
    });
    faults.chain(below).collect()
}

fn named(skipped: Vec<(String, &str)>) -> Vec<Skipped> {
    let behind = skipped.len().saturating_sub(MAX_SKIPPED);
    let rest = (behind > 0)
        .then(|| Skipped { name: "…".to_owned(), reason: format!("{} more", format::count(behind as u64)) });
    let one = |(name, reason): (String, &str)| Skipped { name: line(&name), reason: line(reason) };
    skipped.into_iter().take(MAX_SKIPPED).map(one).chain(rest).collect()
}

/// `2 directories skipped`.
fn directories(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 directory {what}"),
        _ => format!("{} directories {what}", format::count(number as u64)),
    }
}

/// A median of whole numbers, which may lie between two of them.
fn half(value: f64) -> String {
    if value.fract() == 0.0 { format::count(value as u64) } else { format!("{value:.1}") }
}
