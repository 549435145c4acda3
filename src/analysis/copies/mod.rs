//! Finds runs whose records are in several files, so that each record counts once.
//!
//! Three things look alike: a file that was copied (a session under two project folders, an
//! archived one), the captured output of a program that also keeps a session, and a session that
//! begins with the lines of the one it continues. Each run has a [`Fingerprint`] of a few words,
//! and only runs that share one are compared step by step. Which copy counts depends on what the
//! files hold, never on the order in which they were found.

mod differences;
mod family;
mod relation;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use relation::{
    CopiedPart, CopyDifferences, Fingerprint, MAX_NAMED, Related, Relation, SeparateChildren,
    ThreadBefore,
};

use super::related::nearest;
use super::summary::{Cost, Summary};
use crate::model::Index;
use family::Families;
use relation::{CapturedEnd, hash};

/// The maximum number of conflicting statements of copies that are kept.
const MAX_KEPT: usize = 100;

/// A step as its copies record it: a hash and a time.
pub type Mark = (u64, i64);

/// Returns the marks of a run's steps, up to the first step that can't be compared.
pub fn marks(index: &Index) -> Arc<[Mark]> {
    let mark = |n| Some((index.identity_of(n)?, index.time_of(n).unwrap_or_default()));
    (0..index.steps().len()).map_while(mark).collect()
}

/// Hashes that runs with the same records may share: of the first step, of the session id and start
/// time, of the session id, of the parent's session id, of the session that records are copied from,
/// of the one whose tokens the run's include, and of other ids that files of one session share. The
/// third and the fourth relate a child to its parent, and the fifth a fork to its original.
pub type Keys = Vec<u64>;

/// Returns the keys of a run.
pub fn keys(run: &Summary) -> Keys {
    let session = |id: &str| hash(&("session", id));
    let (own, parent) = (
        run.run_id.as_deref().map(session),
        run.parent.as_deref().map(session),
    );
    let shared = run.shared_ids.iter().map(|id| session(id));
    let original = original(run).map(session);
    let before = run.continues.as_deref().filter(|_| run.tokens_of_thread);
    [
        run.fingerprint.first,
        run.fingerprint.run,
        own,
        parent,
        original,
        before.map(session),
    ]
    .into_iter()
    .flatten()
    .chain(shared)
    .collect()
}

/// Returns the session that the run's first records are copied from, if they aren't steps of it.
fn original(run: &Summary) -> Option<&str> {
    run.copied_records.as_ref()?.from.as_deref()
}

/// Groups the runs that may hold the same records. Returns the positions of the runs in each group.
pub fn alike(runs: impl Iterator<Item = Keys>) -> Vec<Vec<usize>> {
    let mut keys: Vec<(u64, usize)> = Vec::new();
    for (at, run) in runs.enumerate() {
        keys.extend(run.into_iter().map(|key| (key, at)));
    }
    keys.sort_unstable();
    let mut parent: HashMap<usize, usize> = HashMap::new();
    let root = |parent: &HashMap<usize, usize>, mut at: usize| {
        while let Some(up) = parent.get(&at).copied() {
            at = up;
        }
        at
    };
    let mut member = Vec::new();
    for pair in keys.windows(2) {
        let [(a, left), (b, right)] = *pair else {
            continue;
        };
        if a != b || left == right {
            continue;
        }
        member.extend([left, right]);
        let (left, right) = (root(&parent, left), root(&parent, right));
        if left != right {
            // The smaller position becomes the root. This keeps chains short and makes the result
            // independent of the order of the pairs.
            parent.insert(left.max(right), left.min(right));
        }
    }
    member.sort_unstable();
    member.dedup();
    let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in member {
        found.entry(root(&parent, at)).or_default().push(at);
    }
    let mut found: Vec<_> = found.into_values().collect();
    found.sort_unstable();
    found
}

/// Relates the runs of a group. `marks` returns the steps of one run and is called only if
/// fingerprints can't decide.
pub fn relate(runs: &[Arc<Summary>], marks: &mut dyn FnMut(usize) -> Arc<[Mark]>) -> Vec<Relation> {
    let mut sessions_of: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.is_session) {
        ids_of(run).for_each(|id| sessions_of.entry(id).or_default().push(at));
    }
    let counts_as = (0..runs.len()).collect();
    let mut group = Group {
        runs,
        marks,
        known: HashMap::new(),
        sessions_of,
        counts_as,
        outputs: HashMap::new(),
    };
    let sessions: Vec<usize> = (0..runs.len()).filter(|at| !group.is_stream(*at)).collect();
    let kept = group.without_copies(&sessions);
    let copied = group.continued(kept);
    group.captured();
    for at in 0..runs.len() {
        let counted = group.counted(at);
        if counted != at && group.is_stream(at) {
            group.outputs.entry(counted).or_default().push(at);
        }
    }
    let mut relations = vec![Relation::default(); runs.len()];
    let key = |at: usize| runs.get(at).map(|run| run.key.clone());
    let families = Families::of(runs, &|at| group.counted(at) == at);
    for (at, relation) in relations
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| group.counted(*at) == *at)
    {
        let children = families.count(runs, at);
        relation.children =
            children.filter(|_| runs.get(at).is_some_and(|run| run.children != children));
        relation.parent = families.parent(at);
        relation.separate_children = families.separate_children(runs, at);
    }
    let covers = |at: &usize| {
        let run = runs.get(*at).filter(|run| run.cost_with_children);
        run.is_some_and(|run| run.cost_usd.is_some())
    };
    let output_covers =
        |at: usize| group.cost_of_output(at).is_some() && group.outputs(at).iter().all(covers);
    for (child, payer) in families.paid(&|at| covers(&at) || output_covers(at)) {
        // A child that records its own cost isn't part of its parent's, unless the parent names it.
        let has_cost = runs.get(child).is_none_or(|run| {
            run.cost()
                .is_some_and(|cost| matches!(cost, Cost::Recorded(_)))
                && !runs.get(payer).is_some_and(|payer| payer.pays(run))
        });
        if let Some(relation) = relations.get_mut(child).filter(|_| !has_cost) {
            relation.paid_by = key(payer);
        }
    }
    let mut below: HashMap<usize, Option<u64>> = HashMap::new();
    let mut ends: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in 0..runs.len() {
        let counted = group.counted(at);
        if counted != at {
            let (Some(copy), Some(run)) = (runs.get(at), runs.get(counted)) else {
                continue;
            };
            if let Some(relation) = relations.get_mut(at) {
                relation.duplicate_of = key(counted);
            }
            let key = copy.key.as_str().to_owned();
            if let Some(relation) = relations.get_mut(counted) {
                relation.copies += 1;
                let children = *below
                    .entry(counted)
                    .or_insert_with(|| families.tokens_below(runs, counted));
                let differences = CopyDifferences::of(copy, run, children);
                let is_end = group.is_stream(at)
                    && differences.as_ref().is_some_and(|copy| copy.is_end(run));
                if is_end {
                    ends.entry(counted).or_default().push(at);
                }
                relation.differences.extend(differences);
                relation.also_at.push(key);
                if relation.also_at.len() > 2 * MAX_NAMED {
                    relation.keep_first();
                }
            }
        }
    }
    for (at, outputs) in ends {
        let outputs = outputs.iter().filter_map(|output| runs.get(*output));
        let (Some(relation), Some(run)) = (relations.get_mut(at), runs.get(at)) else {
            continue;
        };
        relation.end =
            only_end(outputs.map(|run| &**run)).map(|output| Box::new(captured_end(output, run)));
    }
    for (at, from, steps) in copied {
        if let Some(relation) = relations.get_mut(at) {
            relation.copied = key(from).map(|from| (from, steps));
        }
    }
    let threads = Threads::of(runs, &|at| group.counted(at) == at);
    for (at, relation) in relations.iter_mut().enumerate() {
        if group.counted(at) == at && relation.copied.is_none() {
            relation.thread_before = threads.before(runs, at);
            relation.records_from = group.original(at).and_then(key);
        }
        relation.keep_first();
        relation.copies_say = relation
            .differences
            .iter()
            .flat_map(CopyDifferences::words)
            .take(MAX_KEPT)
            .collect();
        relation.cost_usd = group.cost_of_output(at);
    }
    relations
}

/// The counted runs of each session id, sorted by tokens. Later runs of a thread have more.
struct Threads<'a>(HashMap<&'a str, Vec<(u64, usize)>>);

impl<'a> Threads<'a> {
    fn of(runs: &'a [Arc<Summary>], counts: &dyn Fn(usize) -> bool) -> Self {
        let mut found: HashMap<&str, Vec<(u64, usize)>> = HashMap::new();
        if runs.iter().any(|run| run.tokens_of_thread) {
            for (at, run) in runs.iter().enumerate().filter(|(at, _)| counts(*at)) {
                if let (Some(id), Some(tokens)) = (run.run_id.as_deref(), run.tokens) {
                    found.entry(id).or_default().push((tokens, at));
                }
            }
        }
        found.values_mut().for_each(|runs| runs.sort_unstable());
        Self(found)
    }

    /// Returns the newest earlier run whose tokens those of the run at `at` include: a run of the same
    /// session, or of the one that it continues.
    fn before(&self, runs: &[Arc<Summary>], at: usize) -> Option<ThreadBefore> {
        let run = runs.get(at).filter(|run| run.tokens_of_thread)?;
        let own = run.tokens?;
        let last = |id: &str| {
            let all = self.0.get(id)?;
            let end = all.partition_point(|(tokens, _)| *tokens < own);
            all.get(end.checked_sub(1)?).copied()
        };
        let ids = [run.run_id.as_deref(), run.continues.as_deref()];
        let (tokens, before) = ids.into_iter().flatten().filter_map(last).max()?;
        let before = runs.get(before)?;
        Some(ThreadBefore {
            key: before.key.clone(),
            tokens,
            usage: *before.usage,
        })
    }
}

/// Returns the end of a run that its output records.
fn captured_end(output: &Summary, run: &Summary) -> CapturedEnd {
    let mut verdict = output.verdict.clone().recorded_in(output.key.as_str());
    // With another number of steps, the steps have other ordinals.
    verdict.step = verdict.step.filter(|_| output.steps == run.steps);
    CapturedEnd {
        output: output.key.as_str().to_owned(),
        verdict,
        life: output.life.clone(),
        answer: output.answer.clone(),
    }
}

/// Returns the first output if all outputs record the same end.
fn only_end<'a>(outputs: impl Iterator<Item = &'a Summary>) -> Option<&'a Summary> {
    let mut outputs: Vec<_> = outputs.collect();
    outputs.sort_by_key(|run| run.key.as_str());
    let first = *outputs.first()?;
    let is_same = |run: &&Summary| {
        let (own, others) = (&first.verdict, &run.verdict);
        own.outcome == others.outcome && own.stop_reason == others.stop_reason
    };
    outputs.iter().all(is_same).then_some(first)
}

/// Returns the ids by which files with records of the run's session find each other.
fn ids_of(run: &Summary) -> impl Iterator<Item = &str> {
    let shared = run.shared_ids.iter().map(|id| &**id);
    run.run_id.as_deref().into_iter().chain(shared)
}

struct Group<'a, 'm> {
    runs: &'a [Arc<Summary>],
    marks: &'m mut dyn FnMut(usize) -> Arc<[Mark]>,
    known: HashMap<usize, Arc<[Mark]>>,
    /// The session files by session id, and by other ids that files of a session share.
    sessions_of: HashMap<&'a str, Vec<usize>>,
    /// The run that counts in place of each run; itself if it counts.
    counts_as: Vec<usize>,
    /// The captured outputs of each session, once they are known.
    outputs: HashMap<usize, Vec<usize>>,
}

impl<'a> Group<'a, '_> {
    fn run(&self, at: usize) -> Option<&Summary> {
        self.runs.get(at).map(|run| &**run)
    }

    fn print(&self, at: usize) -> Fingerprint {
        self.run(at).map(|run| run.fingerprint).unwrap_or_default()
    }

    fn steps(&self, at: usize) -> usize {
        self.print(at).steps as usize
    }

    /// Returns the sessions whose records a run may hold too, by its id or by another one.
    fn sessions(&self, at: usize) -> &[usize] {
        let Some(run) = self.runs.get(at) else {
            return &[];
        };
        let mut found = ids_of(run).filter_map(|id| self.sessions_of.get(id));
        found.next().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the session file that the run's first records are copied from.
    fn original(&self, at: usize) -> Option<usize> {
        let run = self.runs.get(at)?;
        let files = self.sessions_of.get(original(run)?)?;
        let mut files: Vec<usize> = files.iter().map(|file| self.counted(*file)).collect();
        files.retain(|file| *file != at);
        let key = |file: &usize| self.runs.get(*file).map(|run| run.key.as_str());
        let nearest = nearest(run.key.as_str(), files.iter().filter_map(key))?;
        files.get(nearest).copied()
    }

    /// Returns whether the run is captured output of a program whose session is in the group.
    fn is_stream(&self, at: usize) -> bool {
        // A scored trial records more than its session, so it isn't treated as captured output.
        let run = self
            .run(at)
            .filter(|run| !run.is_session && run.last_score.is_none());
        run.is_some() && !self.sessions(at).is_empty()
    }

    fn counted(&self, mut at: usize) -> usize {
        while let Some(other) = self.counts_as.get(at).copied().filter(|other| *other != at) {
            at = other;
        }
        at
    }

    fn marks_of(&mut self, at: usize) -> Arc<[Mark]> {
        if let Some(known) = self.known.get(&at) {
            return Arc::clone(known);
        }
        let marks = (self.marks)(at);
        self.known.insert(at, Arc::clone(&marks));
        marks
    }

    /// Returns the number of equal steps at the start of two runs.
    fn shared(&mut self, a: usize, b: usize) -> usize {
        let (left, right) = (self.print(a), self.print(b));
        if (left.steps, left.chain) == (right.steps, right.chain) {
            return self.steps(a);
        }
        let (a, b) = (self.marks_of(a), self.marks_of(b));
        a.iter()
            .zip(b.iter())
            .take_while(|(a, b)| a.0 == b.0)
            .count()
    }

    /// Returns the given runs without copies. A copy is a run whose records are all in another run
    /// with the same id.
    fn without_copies(&mut self, among: &[usize]) -> Vec<usize> {
        let mut sorted = among.to_vec();
        let size = |at: usize| self.run(at).map(|run| (self.steps(at), run.events));
        sorted.sort_by(|a, b| {
            size(*b)
                .cmp(&size(*a))
                .then_with(|| self.place(*a).cmp(&self.place(*b)))
        });
        let mut kept: Vec<usize> = Vec::new();
        // Only runs with the same start are compared.
        let mut alike: HashMap<(Option<&str>, u64), Vec<usize>> = HashMap::new();
        for at in sorted {
            let Some(run) = self.runs.get(at) else {
                continue;
            };
            let (id, print) = (run.run_id.as_deref(), run.fingerprint);
            let begins: Vec<u64> = [print.run, print.first]
                .into_iter()
                .flatten()
                .filter(|_| id.is_some())
                .collect();
            // A program that resumes a session may leave a file with only the session's id.
            let session = hash(&("session", run.format.as_str()));
            let session = Some(session).filter(|_| run.is_session && id.is_some());
            let empty = session.filter(|_| run.is_empty_session());
            let others = begins
                .iter()
                .chain(&empty)
                .filter_map(|begin| alike.get(&(id, *begin)))
                .flatten()
                .copied();
            let others: Vec<usize> = others.collect();
            let other = others.into_iter().find(|other| {
                self.shared(*other, at) == self.steps(at) && self.may_be_copies(*other, at)
            });
            match (other, self.counts_as.get_mut(at)) {
                (Some(other), Some(counts_as)) => *counts_as = other,
                _ => {
                    begins
                        .into_iter()
                        .chain(session)
                        .for_each(|begin| alike.entry((id, begin)).or_default().push(at));
                    kept.push(at);
                }
            }
        }
        kept
    }

    /// Returns whether the run at `at` may be a copy of `other`, which has all its steps. Runs of
    /// one thread without times may have been given the same steps, so their recorded tokens must
    /// agree too.
    fn may_be_copies(&self, other: usize, at: usize) -> bool {
        let (Some(other), Some(run)) = (self.run(other), self.run(at)) else {
            return false;
        };
        let is_alike = (run.tokens, &run.usage) == (other.tokens, &other.usage);
        let is_whole = run.steps == other.steps && run.events == other.events;
        match (run.fingerprint.is_untimed, run.fingerprint.steps) {
            (false, _) => true,
            (true, 0) => is_alike && is_whole,
            // An interrupted run doesn't record a total.
            (true, _) => {
                is_alike || run.tokens.is_none() || run.total.is_none() && !run.tokens_of_thread
            }
        }
    }

    /// Returns the sort key that decides between equal copies. Archived copies come last, because
    /// people look at the other copy. A database comes before files, because a program that moved its
    /// sessions to a database continues them there.
    fn place(&self, at: usize) -> (bool, bool, &str) {
        let key = self.run(at).map(|run| run.key.as_str()).unwrap_or_default();
        let is_archived = key.split('/').any(|part| part.starts_with("archive"));
        let holder = key.rsplit('/').nth(1).unwrap_or_default();
        (is_archived, !holder.ends_with(".db"), key)
    }

    /// Returns each run that begins with steps of an earlier one, with that run and the number of
    /// shared steps. A run that is a prefix of another is the earlier one. Of two runs that
    /// diverge, the earlier one is the run whose next step is older.
    fn continued(&mut self, mut kept: Vec<usize>) -> Vec<(usize, usize, usize)> {
        kept.retain(|at| self.print(*at).first.is_some());
        // Only runs with the same first step can share steps.
        let mut by_first: HashMap<Option<u64>, Vec<usize>> = HashMap::new();
        for at in kept {
            by_first.entry(self.print(at).first).or_default().push(at);
        }
        let mut found = Vec::new();
        for mut members in by_first.into_values().filter(|members| members.len() > 1) {
            // The order is lexicographic. So the steps that a run shares with any earlier run are
            // also shared with the one directly before it.
            let mut sorted: Vec<usize> = Vec::with_capacity(members.len());
            members.sort_by(|a, b| self.place(*a).cmp(&self.place(*b)));
            for at in members {
                let (mut low, mut high) = (0, sorted.len());
                while low < high {
                    let middle = low.midpoint(high);
                    let other = sorted.get(middle).copied().unwrap_or(at);
                    match self.order(other, at) {
                        Ordering::Less => low = middle + 1,
                        Ordering::Equal | Ordering::Greater => high = middle,
                    }
                }
                sorted.insert(low, at);
            }
            // For each run, the run before it and the number of shared steps.
            let mut from: HashMap<usize, (usize, usize)> = HashMap::new();
            for pair in sorted.windows(2) {
                let [before, at] = *pair else { continue };
                let steps = self.shared(before, at);
                from.insert(at, (before, steps));
                // The run before may itself have copied these steps from an earlier one.
                let mut origin = before;
                while let Some((earlier, common)) = from.get(&origin).copied()
                    && common >= steps
                {
                    origin = earlier;
                }
                let events = |at: usize| self.run(at).map(|run| run.events);
                let is_all = steps == self.steps(at)
                    && steps == self.steps(before)
                    && events(at) == events(before);
                match self.counts_as.get_mut(at) {
                    Some(counts_as) if is_all => *counts_as = before,
                    _ if steps > 0 => found.push((at, origin, steps)),
                    _ => {}
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn order(&mut self, a: usize, b: usize) -> Ordering {
        let shared = self.shared(a, b);
        match (self.steps(a) == shared, self.steps(b) == shared) {
            (true, true) => {
                let events = |at: usize| self.run(at).map(|run| run.events);
                events(a)
                    .cmp(&events(b))
                    .then_with(|| self.place(a).cmp(&self.place(b)))
            }
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => {
                let next =
                    |marks: Arc<[Mark]>| marks.get(shared).map(|(hash, time)| (*time, *hash));
                let (left, right) = (next(self.marks_of(a)), next(self.marks_of(b)));
                left.cmp(&right)
                    .then_with(|| self.place(a).cmp(&self.place(b)))
            }
        }
    }

    /// Returns the captured outputs of a session.
    fn outputs(&self, at: usize) -> &[usize] {
        self.outputs.get(&at).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the cost of a session by its captured output, if that covers the whole session.
    fn cost_of_output(&self, at: usize) -> Option<f64> {
        let session = self.run(at).filter(|run| {
            run.is_session && run.cost_usd.is_none() && run.cost_by_run_usd.is_none()
        })?;
        let outputs = self.outputs(at).iter();
        let mut outputs: Vec<&Summary> = outputs.filter_map(|other| self.run(*other)).collect();
        // Output that is stored twice was paid for once.
        let print = |run: &Summary| {
            (
                run.fingerprint.run,
                run.fingerprint.steps,
                run.fingerprint.chain,
            )
        };
        outputs.sort_by_key(|run| print(run));
        outputs.dedup_by_key(|run| print(run));
        let steps: usize = outputs
            .iter()
            .map(|run| run.steps.saturating_sub(run.steps_nested))
            .sum();
        let cost = outputs.iter().map(|run| run.cost_usd).sum::<Option<f64>>();
        cost.filter(|_| !outputs.is_empty() && steps >= session.steps)
    }

    /// Relates captured output to its session.
    fn captured(&mut self) {
        let streams: Vec<usize> = (0..self.runs.len())
            .filter(|at| self.is_stream(*at))
            .collect();
        for at in streams {
            let sessions: Vec<usize> = self
                .sessions(at)
                .iter()
                .map(|session| self.counted(*session))
                .collect();
            let keys = sessions
                .iter()
                .filter_map(|session| Some(self.run(*session)?.key.as_str()));
            let own = self.run(at).map(|run| run.key.as_str()).unwrap_or_default();
            let session = nearest(own, keys)
                .and_then(|place| sessions.get(place))
                .copied();
            let Some(session) = session else { continue };
            // Some programs print a reply that their session lacks. A session that lacks more is an
            // older copy or truncated. Others print several steps for one reply.
            let printed = self
                .run(at)
                .filter(|run| run.steps_are_replies)
                .map_or(0, |run| run.steps.saturating_sub(run.steps_nested));
            let is_more = self
                .run(session)
                .is_some_and(|run| run.is_session && printed > run.steps + 1);
            let (copy, counted) = if is_more {
                (session, at)
            } else {
                (at, session)
            };
            if let Some(counts_as) = self.counts_as.get_mut(copy) {
                *counts_as = counted;
            }
        }
    }
}
