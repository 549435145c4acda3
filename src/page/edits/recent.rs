//! Finds the newest edits over many runs.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::analysis::files::Followed;
use crate::analysis::format::{self, counted};
use crate::analysis::query::{Ignored, Needle, Query, Sort};
use crate::analysis::select::select;
use crate::analysis::summary::Summary;
use crate::analysis::timing::began;
use crate::live::{Library, Run};
use crate::model::RunKey;
use crate::model::names::clipped;
use crate::model::time::utc;
use crate::page::part::href;
use crate::page::runs::fill::row::line;
use crate::page::step::fill::LEFT;

/// The newest runs that are looked at, at most, together with the limits below.
pub(crate) const MAX_RUNS: usize = 200;
/// Maximum number of their steps. Each edit is in the line of a step, which must be read.
const MAX_STEPS: usize = 100_000;
/// The size of their files, at most; bytes.
const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// The newest edits of one run that are listed.
const MAX_OF_RUN: usize = 1_000;
/// Edits on a page.
pub(crate) const PAGE: usize = 100;
/// Longer paths are truncated; bytes.
const MAX_PATH: usize = 4_096;
/// The paths of one run, at most; bytes.
const MAX_PATHS: usize = 256 * 1024;
/// Longer titles are truncated; characters.
const MAX_TITLE: usize = 400;
/// What is kept for later requests, at most; bytes.
const MAX_SIZE: usize = 64 * 1024 * 1024;
/// The size of a step or an edit in a [`Followed`], at most; bytes.
const FOLLOWED: usize = 200;

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
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecentEdit {
    /// The key of the run.
    run: String,
    /// Its title.
    title: String,
    #[serde(flatten)]
    edit: Edit,
    /// The project of the run.
    #[serde(skip)]
    project: Option<String>,
}

/// An edit, without the values that all edits of its run share.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Edit {
    /// The path of the file as the call names it.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    file: Arc<str>,
    /// `changed`, `inserted`, `added`, `written`, `deleted` or `moved`.
    kind: &'static str,
    /// The new path of a moved file.
    #[serde(serialize_with = "as_text_or_null")]
    #[schemars(with = "Option<String>")]
    to: Option<Arc<str>>,
    /// The number of added lines. `null` if they can't be counted.
    added: Option<usize>,
    /// The number of removed lines.
    removed: Option<usize>,
    /// Whether the edit succeeded. `null` if that isn't recorded.
    ok: Option<bool>,
    /// Whether the edit was abandoned: the run went back to a point before it.
    left: bool,
    /// The step, counted from 0.
    step: usize,
    /// The recorded id of the step.
    step_id: Option<i64>,
    /// When the step began, in UTC. `null` if that isn't recorded.
    #[serde(rename = "at", serialize_with = "as_utc")]
    #[schemars(with = "Option<String>")]
    micros: Option<i64>,
}

fn as_text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn as_text_or_null<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(to)
}

fn as_utc<S: Serializer>(micros: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    micros.and_then(utc).serialize(to)
}

/// The edits of one run, with the values that they share.
#[derive(Debug, Default)]
struct OfRun {
    run: String,
    title: String,
    project: Option<String>,
    edits: Vec<Edit>,
    left_out: usize,
    steps_unread: usize,
}

impl OfRun {
    /// Returns an edit for the list.
    fn listed(&self, edit: &Edit) -> RecentEdit {
        RecentEdit {
            run: self.run.clone(),
            title: self.title.clone(),
            edit: edit.clone(),
            project: self.project.clone(),
        }
    }

    /// Returns the memory that the edits take, in bytes.
    fn size(&self) -> usize {
        // Edits of the same file share its path, so this is an upper bound.
        let len = |edit: &Edit| edit.file.len() + edit.to.as_deref().map_or(0, str::len);
        let paths: usize = self.edits.iter().map(len).sum();
        self.edits.len() * size_of::<Edit>() + paths
    }
}

/// The edits that were found, by run, the most recently requested last.
#[derive(Debug, Default)]
pub(crate) struct Found {
    kept: Mutex<Vec<(RunKey, Shared)>>,
}

/// A run that one request at a time reads.
type Shared = Arc<Mutex<Kept>>;

/// The edits found in a run.
#[derive(Debug, Default)]
struct Kept {
    /// The edits, and the revision of the run that they are from.
    edits: Option<(u64, Arc<OfRun>)>,
    /// The list as far as it was read, while the run may grow.
    followed: Followed,
}

impl Kept {
    /// Returns the edits of a run, or `None` if its files can't be read.
    fn of(&mut self, run: &Run) -> Option<Arc<OfRun>> {
        let revision = run.revision_now();
        if let Some((of, edits)) = &self.edits
            && *of == revision
        {
            return Some(Arc::clone(edits));
        }
        let summary = run.summary();
        if summary.partial {
            return None;
        }
        let _files = run.hold().ok()?;
        let edits = Arc::new(read(run, &summary, &mut self.followed));
        if summary.life.liveness.is_over() {
            self.followed = Followed::default();
        }
        self.edits = Some((revision, Arc::clone(&edits)));
        Some(edits)
    }

    fn size(&self) -> usize {
        let edits = self.edits.as_ref().map_or(0, |(_, edits)| edits.size());
        edits + self.followed.size() * FOLLOWED
    }
}

impl Found {
    /// Returns the edits of a run, or `None` if its files can't be read.
    fn of(&self, run: &Run) -> Option<Arc<OfRun>> {
        let shared = self.shared(run.key());
        let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
        kept.of(run)
    }

    fn shared(&self, key: &RunKey) -> Shared {
        let mut kept = self.kept();
        let at = kept.iter().position(|(known, _)| known == key);
        let found = at.map_or_else(|| (key.clone(), Shared::default()), |at| kept.remove(at));
        let shared = Arc::clone(&found.1);
        kept.push(found);
        let surplus = kept.len().saturating_sub(MAX_RUNS);
        kept.drain(..surplus);
        shared
    }

    /// Forgets the runs that weren't requested for longest until the total size fits.
    fn make_room(&self) {
        let mut kept = self.kept();
        let mut size = 0_usize;
        let fits = kept.iter().rev().take_while(|(_, run)| {
            // A locked run is being read. Until that is done, its size counts as 0.
            size += run.try_lock().map_or(0, |run| run.size());
            size <= MAX_SIZE
        });
        let surplus = kept.len() - fits.count();
        kept.drain(..surplus);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(RunKey, Shared)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the calls of a run: those that `followed` doesn't know.
fn read(run: &Run, summary: &Summary, followed: &mut Followed) -> OfRun {
    let index = run.index_once();
    let files = followed.files(&index, run);
    let mut edits: Vec<_> = files
        .files
        .iter()
        .enumerate()
        .flat_map(|(at, file)| file.edits.iter().map(move |edit| (at, edit)))
        .collect();
    edits.sort_by_key(|(_, edit)| Reverse(edit.step));
    let all = edits.len();
    let mut paths: HashMap<usize, Arc<str>> = HashMap::new();
    let mut left = MAX_PATHS;
    let edits: Vec<Edit> = edits
        .into_iter()
        .take(MAX_OF_RUN)
        .map_while(|(at, edit)| {
            let file = match paths.entry(at) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(new) => {
                    let path = path(&files.files.get(at)?.path);
                    left = left.checked_sub(path.len())?;
                    Arc::clone(new.insert(path))
                }
            };
            let to = edit.to.as_deref().map(path);
            left = left.checked_sub(to.as_deref().map_or(0, str::len))?;
            Some(Edit {
                file,
                kind: edit.kind,
                to,
                added: edit.added,
                removed: edit.removed,
                ok: edit.ok,
                left: edit.is_abandoned,
                step: edit.step,
                step_id: edit.step_id,
                micros: index
                    .round_of(edit.step)
                    .and_then(|group| began(&index, group)),
            })
        })
        .collect();
    OfRun {
        run: summary.key.to_string(),
        title: clipped(summary.title(), MAX_TITLE).into_owned(),
        project: summary.project.clone(),
        left_out: all - edits.len() + files.left_out,
        steps_unread: files.pending + files.unread,
        edits,
    }
}

/// Returns a path, truncated if it is too long.
fn path(path: &str) -> Arc<str> {
    if path.len() <= MAX_PATH {
        return path.into();
    }
    let start = path.get(..path.floor_char_boundary(MAX_PATH));
    format!("{}…", start.unwrap_or_default()).into()
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
        found.make_room();
        let mut all = Vec::new();
        for (updated, of_run) in &of_runs {
            answer.edits_left_out += of_run.left_out;
            answer.steps_unread += of_run.steps_unread;
            let wanted = of_run.edits.iter().filter(|edit| {
                let is_in = |path: &Arc<str>| needle.within(path);
                is_in(&edit.file) || edit.to.as_ref().is_some_and(is_in)
            });
            // An edit without a time is as new as the last change of its run.
            all.extend(wanted.map(|edit| (Reverse(edit.micros.or(*updated)), of_run, edit)));
        }
        all.sort_by_key(|(time, ..)| *time);
        answer.total = all.len();
        let shown = all.iter().skip(after).take(limit);
        answer.edits = shown.map(|(_, of_run, edit)| of_run.listed(edit)).collect();
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
            format!("Covers the newest {} of {of}.", number(looked))
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
                "Skipped: {edits}. At most {} of a run are listed, fewer if their paths are long.",
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
        self.relative(&self.edit.file)
    }

    fn relative(&self, path: &str) -> String {
        let inside = self.project.as_deref().and_then(|project| {
            let inside = path.strip_prefix(project.trim_end_matches('/'))?;
            inside.strip_prefix('/').filter(|inside| !inside.is_empty())
        });
        line(inside.unwrap_or(path))
    }

    /// Returns the added and removed lines: `+3 −1`.
    pub(crate) fn lines(&self) -> Option<(String, String)> {
        let count = |number: usize| format::count(number as u64);
        let (added, removed) = self.edit.added.zip(self.edit.removed)?;
        Some((format!("+{}", count(added)), format!("−{}", count(removed))))
    }

    pub(crate) fn title(&self) -> String {
        line(&self.title)
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }

    pub(super) fn file(&self) -> &str {
        &self.edit.file
    }

    pub(crate) fn step(&self) -> String {
        let ordinal = || format!("#{}", self.edit.step);
        self.edit.step_id.map_or_else(ordinal, |id| id.to_string())
    }

    pub(crate) fn micros(&self) -> Option<i64> {
        self.edit.micros
    }

    /// Returns what the edit did if it's more than a change, or that it failed or was abandoned.
    pub(crate) fn note(&self) -> Cow<'static, str> {
        match (self.edit.ok, self.edit.kind, &self.edit.to) {
            (Some(false), ..) => "failed".into(),
            _ if self.edit.left => LEFT.into(),
            (_, "changed" | "inserted", _) => "".into(),
            (_, kind, Some(to)) => format!("{kind} to {}", self.relative(to)).into(),
            (_, kind, None) => kind.into(),
        }
    }

    pub(super) fn diff(&self) -> String {
        href::run_at(&self.run, self.edit.step)
    }

    pub(super) fn files(&self) -> String {
        let query = [
            ("tab", "files"),
            ("file", &self.edit.file),
            ("step", &self.edit.step.to_string()),
        ];
        href::with_query(&href::run(&self.run), &query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_run(edits: usize, path: usize) -> OfRun {
        let edit = |step| Edit {
            file: "x".repeat(path).into(),
            kind: "changed",
            to: None,
            added: None,
            removed: None,
            ok: None,
            left: false,
            step,
            step_id: None,
            micros: None,
        };
        OfRun {
            edits: (0..edits).map(edit).collect(),
            ..OfRun::default()
        }
    }

    #[test]
    fn the_runs_that_were_not_asked_for_longest_go() {
        let found = Found::default();
        let key = |n: usize| RunKey::new(&format!("run{n}"));
        let first = found.shared(&key(0));
        (1..MAX_RUNS).for_each(|n| drop(found.shared(&key(n))));
        assert!(
            Arc::ptr_eq(&first, &found.shared(&key(0))),
            "now the newest"
        );
        drop(found.shared(&key(MAX_RUNS)));
        let keys = || -> Vec<RunKey> {
            let kept = found.kept();
            kept.iter().map(|(key, _)| key.clone()).collect()
        };
        assert_eq!(keys().len(), MAX_RUNS);
        assert!(!keys().contains(&key(1)));
        found.make_room();
        assert_eq!(keys().len(), MAX_RUNS, "nothing was read yet");
        let large = Arc::new(of_run(10, MAX_SIZE / 20));
        for n in [0, 2, MAX_RUNS] {
            let shared = found.shared(&key(n));
            shared.lock().unwrap().edits = Some((1, Arc::clone(&large)));
        }
        found.make_room();
        assert_eq!(keys(), [key(MAX_RUNS)]);
    }
}
