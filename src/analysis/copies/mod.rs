//! Finds runs whose records stand in several files, so that each record counts once.
//!
//! Three things look alike: a file that was copied (a session under two project folders, an archived one), the output of a
//! program captured beside the session that it keeps, and a session that begins with the lines of the one it continues. Each
//! run has a [`Fingerprint`] of a few words, and only runs that share one are compared step by step. Which copy counts depends
//! on what the files hold, never on the order in which they were found.

mod family;
mod says;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use family::Apart;
pub use says::CopySays;

use super::format::counted;
use super::kin::nearest;
use super::summary::Summary;
use crate::model::{Index, RunKey};
use family::Families;

/// At most this many copies of a run are named.
pub const MAX_NAMED: usize = 20;
/// At most this many sentences of copies that say something else are quoted in a row.
const MAX_TOLD: usize = 2;
/// At most this many of them are kept.
const MAX_SAID: usize = 100;

/// What a run shares with its copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The first step of a session, where its time is known: sessions that continue it share it.
    pub first: Option<u64>,
    /// The id of its session and when it began: only copies share both.
    pub run: Option<u64>,
    /// How many steps it has.
    pub steps: u32,
    /// A hash of all of them.
    pub chain: u64,
    /// Its records have no times: `run` is of the id of its session alone.
    pub is_untimed: bool,
}

impl Fingerprint {
    /// Returns that of the run in `index`.
    pub fn of(index: &Index) -> Self {
        let manifest = index.manifest().get();
        let id = manifest.and_then(|manifest| manifest.run_id.as_deref());
        let parent = manifest.and_then(|manifest| manifest.parent.as_deref());
        // Sub-agents that start together may ask for the same at the same moment.
        let agent = parent.and(id);
        let is_timed = index.format().is_one_file();
        // Only programs that people resume begin a file with the records of another one. Runs of an evaluation may begin
        // with the same call at the same recorded time.
        let is_session = is_timed && index.format().is_session;
        let first = index
            .identity_of(0)
            .filter(|_| is_session)
            .map(|first| hash(&(agent, first)));
        let is_untimed = index.format().is_untimed_stream();
        // The id of a directory is a name that its writer chose: it need not be the only one of that name.
        let timed = || {
            id.zip(index.first_ts())
                .filter(|_| is_timed)
                .map(|run| hash(&run))
        };
        Self {
            first,
            run: if is_untimed {
                id.map(|id| hash(&(index.format().name, id)))
            } else {
                timed()
            },
            steps: u32::try_from(index.steps().len()).unwrap_or(u32::MAX),
            chain: index.tally().chain,
            is_untimed,
        }
    }
}

/// A step as its copies have it: a hash, and its time.
pub type Mark = (u64, i64);

/// Returns the steps of a run as its copies have them, up to the first that can't be compared.
pub fn marks(index: &Index) -> Arc<[Mark]> {
    let mark = |n| Some((index.identity_of(n)?, index.time_of(n).unwrap_or_default()));
    (0..index.steps().len()).map_while(mark).collect()
}

/// How a run relates to others that hold the same records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Relation {
    /// The run that counts in its place.
    pub duplicate_of: Option<RunKey>,
    /// The run whose steps it begins with, and how many those are.
    pub copied: Option<(RunKey, usize)>,
    /// The keys of its copies, the first of them.
    pub also_at: Vec<String>,
    /// How many copies there are.
    pub copies: usize,
    /// What copies say that is something else, by their keys.
    pub says: Vec<CopySays>,
    /// The same in sentences without a full stop, the first of them.
    pub copies_say: Vec<String>,
    /// What it cost, where only the captured output of its program records that.
    pub cost_usd: Option<f64>,
    /// How many runs it started, by its own records and by theirs, where that is more or less than its own records say.
    pub children: Option<u64>,
    /// The id of the run that started it, where another run's records name one that is nearer than the one it names itself.
    pub parent: Option<String>,
    /// What of it counts in the rows of its children.
    pub apart: Option<Apart>,
}

/// A run that has nothing to do with others.
static ALONE: Relation = Relation {
    duplicate_of: None,
    copied: None,
    also_at: Vec::new(),
    copies: 0,
    says: Vec::new(),
    copies_say: Vec::new(),
    cost_usd: None,
    children: None,
    parent: None,
    apart: None,
};

/// How a run relates to others, in the room of a pointer: most have nothing to do with others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Related(Option<Box<Relation>>);

impl From<Relation> for Related {
    fn from(relation: Relation) -> Self {
        Self((relation != ALONE).then(|| Box::new(relation)))
    }
}

impl Deref for Related {
    type Target = Relation;

    fn deref(&self) -> &Relation {
        self.0.as_deref().unwrap_or(&ALONE)
    }
}

impl DerefMut for Related {
    fn deref_mut(&mut self) -> &mut Relation {
        self.0.get_or_insert_default()
    }
}

impl Relation {
    /// Keeps the [`MAX_NAMED`] copies with the first keys.
    fn keep_first(&mut self) {
        self.also_at.sort_unstable();
        self.also_at.truncate(MAX_NAMED);
        self.says.sort_by(|a, b| a.key.cmp(&b.key));
        self.says.truncate(MAX_NAMED);
    }

    /// The same of a run that is looked at alone: all of its steps are its own, and it counts.
    #[must_use]
    pub fn beside(self) -> Self {
        Self {
            duplicate_of: None,
            copied: None,
            apart: None,
            cost_usd: None,
            ..self
        }
    }

    /// What is said of it beside a verdict: where else the run is stored, and what that says of its end.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let duplicate = self
            .duplicate_of
            .as_ref()
            .map(|key| format!("duplicate of {key}, where it counts"));
        let copied = self.copied.as_ref().map(|(from, steps)| {
            format!("begins with {} copied from {from}", counted(*steps, "step"))
        });
        let also = match (&*self.also_at, self.copies) {
            ([], _) => None,
            ([one], _) => Some(format!("also at {one}")),
            ([first, ..], copies) => Some(format!("also at {first} and {} more", copies - 1)),
        };
        let apart = self.apart.as_ref().map(|apart| {
            let runs = counted(apart.ids.len(), "sub-agent");
            format!(
                "what {runs} took counts in {}",
                if apart.ids.len() == 1 {
                    "its own row"
                } else {
                    "their own rows"
                }
            )
        });
        let says = self.copies_say.iter().take(MAX_TOLD).cloned();
        [duplicate, copied, also, apart]
            .into_iter()
            .flatten()
            .chain(says.collect::<Vec<_>>())
    }
}

/// What the copied steps at the beginning of a run took. They count in the run that they were copied from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedPart {
    /// How many steps.
    pub steps: usize,
    /// Their tokens, where recorded.
    pub tokens: Option<u64>,
    /// The events up to the end of the last of them.
    pub events: usize,
}

/// What runs that may hold the same records share: how they begin, when they began, and the id of their session. A child
/// shares the id of its parent's session with its parent.
pub type Keys = [Option<u64>; 4];

/// Returns those of a run.
pub fn keys(run: &Summary) -> Keys {
    let session = |id: &String| hash(&("session", id));
    let (own, parent) = (
        run.run_id.as_ref().map(session),
        run.parent.as_ref().map(session),
    );
    [run.fingerprint.first, run.fingerprint.run, own, parent]
}

/// Returns the places of those runs that may hold the same records, a list for each group.
pub fn alike(runs: impl Iterator<Item = Keys>) -> Vec<Vec<usize>> {
    let mut keys: Vec<(u64, usize)> = Vec::new();
    for (at, run) in runs.enumerate() {
        keys.extend(run.into_iter().flatten().map(|key| (key, at)));
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
            // The smaller one leads, so that chains stay short and nothing depends on the order of the pairs.
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

/// Relates the runs of a group. `marks` gives the steps of one of them; it is asked only where fingerprints don't tell.
pub fn relate(runs: &[Arc<Summary>], marks: &mut dyn FnMut(usize) -> Arc<[Mark]>) -> Vec<Relation> {
    let mut sessions_of: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.is_session) {
        run.run_id
            .as_deref()
            .into_iter()
            .for_each(|id| sessions_of.entry(id).or_default().push(at));
    }
    let counts_as = (0..runs.len()).collect();
    let mut group = Group {
        runs,
        marks,
        known: HashMap::new(),
        sessions_of,
        counts_as,
    };
    let sessions: Vec<usize> = (0..runs.len()).filter(|at| !group.is_stream(*at)).collect();
    let kept = group.without_copies(&sessions);
    let copied = group.continued(kept);
    group.captured();
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
        relation.apart = families.apart(runs, at);
    }
    let mut below: HashMap<usize, Option<u64>> = HashMap::new();
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
                relation.says.extend(CopySays::of(copy, run, children));
                relation.also_at.push(key);
                if relation.also_at.len() > 2 * MAX_NAMED {
                    relation.keep_first();
                }
            }
        }
    }
    for (at, from, steps) in copied {
        if let Some(relation) = relations.get_mut(at) {
            relation.copied = key(from).map(|from| (from, steps));
        }
    }
    for (at, relation) in relations.iter_mut().enumerate() {
        relation.keep_first();
        relation.copies_say = relation
            .says
            .iter()
            .flat_map(CopySays::words)
            .take(MAX_SAID)
            .collect();
        relation.cost_usd = group.cost_of_output(at);
    }
    relations
}

struct Group<'a, 'm> {
    runs: &'a [Arc<Summary>],
    marks: &'m mut dyn FnMut(usize) -> Arc<[Mark]>,
    known: HashMap<usize, Arc<[Mark]>>,
    /// The session files by the ids of their sessions.
    sessions_of: HashMap<&'a str, Vec<usize>>,
    /// By run the one that counts for it; itself where it does.
    counts_as: Vec<usize>,
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

    fn id(&self, at: usize) -> Option<&'a str> {
        self.runs.get(at)?.run_id.as_deref()
    }

    /// Whether it is what a program printed whose session is in the group.
    fn is_stream(&self, at: usize) -> bool {
        // A trial that was judged tells more than its session.
        let run = self
            .run(at)
            .filter(|run| !run.is_session && run.last_score.is_none());
        run.and_then(|run| run.run_id.as_deref())
            .is_some_and(|id| self.sessions_of.contains_key(id))
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

    /// How many steps two runs have in common, from the first.
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

    /// Of runs with one id, leaves out those whose records all stand in another one.
    fn without_copies(&mut self, among: &[usize]) -> Vec<usize> {
        let mut sorted = among.to_vec();
        let size = |at: usize| self.run(at).map(|run| (self.steps(at), run.events));
        sorted.sort_by(|a, b| {
            size(*b)
                .cmp(&size(*a))
                .then_with(|| self.place(*a).cmp(&self.place(*b)))
        });
        let mut kept: Vec<usize> = Vec::new();
        // Only runs that begin alike are compared.
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
            let others = begins
                .iter()
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
                        .for_each(|begin| alike.entry((id, begin)).or_default().push(at));
                    kept.push(at);
                }
            }
        }
        kept
    }

    /// Whether the run at `at`, whose steps another one has too, may be a copy of it. Without times, runs of one thread that
    /// were given the same steps are told apart by what they took.
    fn may_be_copies(&self, other: usize, at: usize) -> bool {
        let (Some(other), Some(run)) = (self.run(other), self.run(at)) else {
            return false;
        };
        let is_alike = (run.tokens, run.usage) == (other.tokens, other.usage);
        let is_whole = run.steps == other.steps && run.events == other.events;
        match (run.fingerprint.is_untimed, run.fingerprint.steps) {
            (false, _) => true,
            (true, 0) => is_alike && is_whole,
            // One that was cut off says nothing of what it took as a whole.
            (true, _) => {
                is_alike || run.tokens.is_none() || run.total.is_none() && !run.tokens_of_thread
            }
        }
    }

    /// What decides between equal copies: an archived one is not the one that people look at.
    fn place(&self, at: usize) -> (bool, &str) {
        let key = self.run(at).map(|run| run.key.as_str()).unwrap_or_default();
        (key.split('/').any(|part| part.starts_with("archive")), key)
    }

    /// The runs that begin with steps of another one, that one, and how many. A run that is no more than the beginning of
    /// another one was there first; of two that diverge, the one that did so first.
    fn continued(&mut self, mut kept: Vec<usize>) -> Vec<(usize, usize, usize)> {
        kept.retain(|at| self.print(*at).first.is_some());
        // Only steps of one beginning can be in common.
        let mut by_first: HashMap<Option<u64>, Vec<usize>> = HashMap::new();
        for at in kept {
            by_first.entry(self.print(at).first).or_default().push(at);
        }
        let mut found = Vec::new();
        for mut members in by_first.into_values().filter(|members| members.len() > 1) {
            // As in a dictionary: what a run has in common with any before it has it in common with the one before.
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
            // By run the one before it, and how many steps they have in common.
            let mut from: HashMap<usize, (usize, usize)> = HashMap::new();
            for pair in sorted.windows(2) {
                let [before, at] = *pair else { continue };
                let steps = self.shared(before, at);
                from.insert(at, (before, steps));
                // The run before may have them from an earlier one.
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

    /// What a session cost by the output that was captured of it, where that holds all of it.
    fn cost_of_output(&self, at: usize) -> Option<f64> {
        let session = self.run(at).filter(|run| {
            run.is_session && run.cost_usd.is_none() && run.cost_by_run_usd.is_none()
        })?;
        let is_of =
            |other: &usize| *other != at && self.is_stream(*other) && self.counted(*other) == at;
        let mut outputs: Vec<&Summary> = (0..self.runs.len())
            .filter(is_of)
            .filter_map(|other| self.run(other))
            .collect();
        // Output that is stored twice was paid once.
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

    /// Relates captured output to the session that it is of.
    fn captured(&mut self) {
        let streams: Vec<usize> = (0..self.runs.len())
            .filter(|at| self.is_stream(*at))
            .collect();
        for at in streams {
            let sessions = self
                .id(at)
                .and_then(|id| self.sessions_of.get(id))
                .cloned()
                .unwrap_or_default();
            let sessions: Vec<usize> = sessions
                .into_iter()
                .map(|session| self.counted(session))
                .collect();
            let keys = sessions
                .iter()
                .filter_map(|session| Some(self.run(*session)?.key.as_str()));
            let own = self.run(at).map(|run| run.key.as_str()).unwrap_or_default();
            let session = nearest(own, keys)
                .and_then(|place| sessions.get(place))
                .copied();
            let Some(session) = session else { continue };
            // Some programs print a reply that their session lacks; a session that lacks more is an older copy, or cut.
            let printed = self
                .run(at)
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

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}
