//! Finds the newest edits over many runs.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::files::Followed;
use crate::analysis::format::{self, counted};
use crate::analysis::query::{Ignored, Needle, Query, Sort};
use crate::analysis::select::select;
use crate::analysis::summary::Summary;
use crate::analysis::timing::began;
use crate::live::{Library, Run};
use crate::model::RunKey;
use crate::model::time::utc;
use crate::page::part::href;
use crate::page::runs::fill::row::line;
use crate::page::step::fill::LEFT;

/// The newest runs that are looked at, at most, together with the limits below.
pub(crate) const MAX_RUNS: usize = 200;
/// Their steps, at most. Each edit is in the line of a step, which must be read.
const MAX_STEPS: usize = 100_000;
/// The size of their files, at most; bytes.
const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// The newest edits of one run that are listed.
const MAX_OF_RUN: usize = 1_000;
/// Edits on a page.
pub(crate) const PAGE: usize = 100;
/// Longer paths are truncated; bytes.
const MAX_PATH: usize = 4_096;

/// A page of the newest edits.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct RecentEdits {
    /// The number of runs that the query matches.
    pub(super) runs_matched: usize,
    /// How many of them were looked at: the newest ones.
    pub(super) runs_looked_at: usize,
    /// Runs among them whose files can't be read at the moment.
    pub(super) runs_unread: usize,
    /// Edits that were found.
    pub(super) total: usize,
    /// Edits of the runs looked at that aren't listed, because one run has too many.
    pub(super) edits_left_out: usize,
    /// Steps of the runs looked at that weren't read, because the run is too long or their lines are
    /// unreadable.
    pub(super) steps_unread: usize,
    /// Newest first.
    pub(super) edits: Vec<RecentEdit>,
    /// The value of `after` for the next page.
    pub(super) next: Option<usize>,
    /// Terms of the query that weren't understood. They don't filter.
    pub(super) ignored: Vec<Ignored>,
}

/// An edit of a file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RecentEdit {
    /// The key of the run.
    pub(super) run: String,
    /// Its title.
    pub(super) title: String,
    /// The path of the file as the call names it.
    pub(super) file: String,
    /// `changed`, `inserted`, `added`, `written`, `deleted` or `moved`.
    pub(super) kind: &'static str,
    /// The number of added lines. `null` if they can't be counted.
    pub(super) added: Option<usize>,
    /// The number of removed lines.
    pub(super) removed: Option<usize>,
    /// Whether the edit succeeded. `null` if that isn't recorded.
    pub(super) ok: Option<bool>,
    /// Whether the run was later rewound to before this step, which abandoned the edit.
    pub(super) left: bool,
    /// The ordinal of the step.
    pub(super) step: usize,
    /// The recorded number of the step.
    pub(super) step_id: Option<i64>,
    /// When the step began, in UTC. `null` if that isn't recorded.
    pub(super) at: Option<String>,
    /// The time in microseconds since the epoch.
    #[serde(skip)]
    pub(super) micros: Option<i64>,
    /// The project of the run.
    #[serde(skip)]
    pub(super) project: Option<String>,
}

/// The edits of one run.
#[derive(Debug, Default)]
struct OfRun {
    edits: Vec<RecentEdit>,
    left_out: usize,
    steps_unread: usize,
}

/// The edits that were found, by run, with the revision of the run that they are from.
#[derive(Debug, Default)]
pub(crate) struct Found {
    kept: Mutex<HashMap<RunKey, (u64, Arc<OfRun>)>>,
}

impl Found {
    /// Returns the edits of a run, or `None` if its files can't be read.
    fn of(&self, run: &Run) -> Option<Arc<OfRun>> {
        let revision = run.revision_now();
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, edits)) = kept().get(run.key())
            && *of == revision
        {
            return Some(Arc::clone(edits));
        }
        if run.summary().partial {
            return None;
        }
        let _files = run.hold().ok()?;
        let edits = Arc::new(read(run));
        kept().insert(run.key().clone(), (revision, Arc::clone(&edits)));
        Some(edits)
    }

    /// Forgets all runs but these, if there are too many.
    fn keep(&self, runs: &[Arc<Run>]) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() > MAX_RUNS {
            let runs: HashSet<&RunKey> = runs.iter().map(|run| run.key()).collect();
            kept.retain(|key, _| runs.contains(key));
        }
    }
}

/// Reads the calls of a run.
fn read(run: &Run) -> OfRun {
    let (summary, index) = (run.summary(), run.index_once());
    let files = Followed::default().files(&index, run);
    let (title, project) = (summary.title(), summary.project.as_deref());
    let path = |path: &str| match path.len() > MAX_PATH {
        true => format!(
            "{}…",
            path.get(..path.floor_char_boundary(MAX_PATH))
                .unwrap_or_default()
        ),
        false => path.to_owned(),
    };
    let mut edits: Vec<_> = files
        .files
        .iter()
        .flat_map(|file| file.edits.iter().map(move |edit| (file, edit)))
        .collect();
    edits.sort_by_key(|(_, edit)| Reverse(edit.step));
    let left_out = edits.len().saturating_sub(MAX_OF_RUN) + files.left_out;
    let edits = edits.into_iter().take(MAX_OF_RUN).map(|(file, edit)| {
        let micros = index
            .round_of(edit.step)
            .and_then(|group| began(&index, group));
        RecentEdit {
            run: summary.key.to_string(),
            title: title.to_owned(),
            file: path(&file.path),
            kind: edit.kind,
            added: edit.added,
            removed: edit.removed,
            ok: edit.ok,
            left: edit.is_abandoned,
            step: edit.step,
            step_id: edit.step_id,
            at: micros.and_then(utc),
            micros,
            project: project.map(str::to_owned),
        }
    });
    OfRun {
        edits: edits.collect(),
        left_out,
        steps_unread: files.pending + files.unread,
    }
}

/// A run with its summary of one moment.
struct Listed {
    run: Arc<Run>,
    summary: Arc<Summary>,
}

impl AsRef<Summary> for Listed {
    fn as_ref(&self) -> &Summary {
        &self.summary
    }
}

/// Returns the newest runs that are looked at, and the number of those that match.
fn newest(library: &Library, query: &Query) -> (Vec<Arc<Run>>, usize) {
    let (runs, _) = library.listed(query.asks_for_copies());
    let listed = |run: Arc<Run>| Listed {
        summary: run.summary(),
        run,
    };
    let runs: Vec<Listed> = runs.into_iter().map(listed).collect();
    let found = select(&runs, query, Sort::default(), MAX_RUNS, None);
    let (mut steps, mut bytes) = (0_usize, 0_u64);
    let fits = |listed: &&&Listed| {
        let is_first = steps == 0;
        steps = steps.saturating_add(listed.summary.steps_now.max(1));
        bytes = bytes.saturating_add(listed.run.dir().bytes());
        is_first || (steps <= MAX_STEPS && bytes <= MAX_BYTES)
    };
    let runs = found.rows.iter().take_while(fits);
    let runs = runs.map(|listed| Arc::clone(&listed.run)).collect();
    (runs, found.matched)
}

impl RecentEdits {
    /// Returns the edits of the newest runs that match, from number `after` on: those of files whose
    /// path contains `file`.
    pub(crate) fn of(
        library: &Library,
        found: &Found,
        query: Query,
        file: &str,
        (after, limit): (usize, usize),
    ) -> Self {
        let (runs, runs_matched) = newest(library, &query);
        let needle = Needle::new(file);
        let mut answer = Self {
            runs_matched,
            runs_looked_at: runs.len(),
            ignored: query.ignored,
            ..Self::default()
        };
        let of_runs: Vec<_> = runs
            .iter()
            .filter_map(|run| {
                let edits = found.of(run);
                answer.runs_unread += usize::from(edits.is_none());
                Some((run.summary().updated, edits?))
            })
            .collect();
        found.keep(&runs);
        let mut all = Vec::new();
        for (updated, of_run) in &of_runs {
            answer.edits_left_out += of_run.left_out;
            answer.steps_unread += of_run.steps_unread;
            let wanted = of_run.edits.iter().filter(|edit| needle.within(&edit.file));
            // An edit without a time is as new as the last change of its run.
            all.extend(wanted.map(|edit| (Reverse(edit.micros.or(*updated)), edit)));
        }
        all.sort_by_key(|(time, _)| *time);
        answer.total = all.len();
        let shown = all.iter().skip(after).take(limit);
        answer.edits = shown.map(|(_, edit)| (*edit).clone()).collect();
        let end = after.saturating_add(answer.edits.len());
        answer.next = Some(end).filter(|end| *end < all.len());
        answer
    }

    /// Says what the list doesn't cover, one sentence each.
    pub(crate) fn limits(&self) -> Vec<String> {
        let number = |number: usize| format::count(number as u64);
        let (looked, matched) = (self.runs_looked_at, self.runs_matched);
        let runs = (looked < matched).then(|| {
            let of = counted(matched, "matching run");
            format!("Only the newest {} of {of} were looked at.", number(looked))
        });
        let unread = (self.runs_unread > 0).then(|| {
            format!(
                "{} can't be read at the moment.",
                counted(self.runs_unread, "run")
            )
        });
        let steps = (self.steps_unread > 0)
            .then(|| format!("Not read: {}.", counted(self.steps_unread, "step")));
        let edits = (self.edits_left_out > 0).then(|| {
            let edits = counted(self.edits_left_out, "older edit");
            format!(
                "{edits} of runs with more than {} left out.",
                number(MAX_OF_RUN)
            )
        });
        [runs, unread, steps, edits].into_iter().flatten().collect()
    }

    pub(crate) fn edits(&self) -> &[RecentEdit] {
        &self.edits
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }
}

impl RecentEdit {
    /// Returns the path relative to the project.
    pub(crate) fn path(&self) -> String {
        let inside = self.project.as_deref().and_then(|project| {
            let inside = self.file.strip_prefix(project.trim_end_matches('/'))?;
            inside.strip_prefix('/').filter(|inside| !inside.is_empty())
        });
        line(inside.unwrap_or(&self.file))
    }

    /// Returns the added and removed lines: `+3 −1`.
    pub(crate) fn lines(&self) -> Option<(String, String)> {
        let count = |number: usize| format::count(number as u64);
        let (added, removed) = self.added.zip(self.removed)?;
        Some((format!("+{}", count(added)), format!("−{}", count(removed))))
    }

    pub(crate) fn title(&self) -> String {
        line(&self.title)
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    pub(crate) fn step(&self) -> String {
        let ordinal = || format!("#{}", self.step);
        self.step_id.map_or_else(ordinal, |id| id.to_string())
    }

    pub(crate) fn micros(&self) -> Option<i64> {
        self.micros
    }

    /// Returns what the edit did if it's more than a change, or that it failed or was abandoned.
    pub(crate) fn note(&self) -> &'static str {
        match (self.ok, self.kind) {
            (Some(false), _) => "failed",
            _ if self.left => LEFT,
            (_, "changed" | "inserted") => "",
            (_, kind) => kind,
        }
    }

    pub(super) fn diff(&self) -> String {
        href::run_at(&self.run, self.step)
    }

    pub(super) fn files(&self) -> String {
        let query = [
            ("tab", "files"),
            ("file", self.file.as_str()),
            ("step", &self.step.to_string()),
        ];
        href::with_query(&href::run(&self.run), &query)
    }
}
