//! Defines what identifies a run among its copies, and how a run relates to others with the same
//! records.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::{Deref, DerefMut};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::format::counted;
use crate::analysis::life::Life;
use crate::analysis::newest::newest_run;
use crate::analysis::verdict::Verdict;
use crate::model::step::Usage;
use crate::model::{Certainty, Index, Outcome, RunKey};

/// The maximum number of copies of a run that are named.
pub const MAX_NAMED: usize = 20;
/// The maximum number of conflicting statements of copies that one row shows.
const MAX_SHOWN: usize = 2;

/// The values that a run shares with its copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The first step of a session, if its time is known. Sessions that continue this one share it.
    pub first: Option<u64>,
    /// The session id and the start time. Only copies share both.
    pub run: Option<u64>,
    /// The number of steps.
    pub steps: u32,
    /// A hash of all steps.
    pub chain: u64,
    /// Whether the records have no times. Then `run` is a hash of the format and the session id
    /// alone.
    pub is_untimed: bool,
}

impl Fingerprint {
    /// Returns the fingerprint of the run in `index`.
    pub fn of(index: &Index) -> Self {
        let manifest = index.manifest().get();
        let id = manifest.and_then(|manifest| manifest.run_id.as_deref());
        let parent = manifest.and_then(|manifest| manifest.parent.as_deref());
        // Sub-agents that start together may make the same request at the same moment.
        let agent = parent.and(id);
        let is_timed = index.format().is_one_file();
        // Only programs whose sessions people resume begin a file with the records of an earlier
        // one. Evaluation runs may begin with the same call at the same recorded time.
        let is_linked =
            !index.format().names_copied || manifest.is_some_and(|manifest| manifest.names_others);
        let is_session = is_timed && index.format().is_session && is_linked;
        let first = index
            .identity_of(0)
            .filter(|_| is_session)
            .map(|first| hash(&(agent, first)));
        let is_untimed = index.format().is_untimed_stream();
        // The id of a directory is a name that its writer chose, and it need not be unique.
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

pub(super) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The relation of a run to others that hold the same records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Relation {
    /// The run that counts in place of this one.
    pub duplicate_of: Option<RunKey>,
    /// The run whose steps this one begins with, and the number of those steps.
    pub copied: Option<(RunKey, usize)>,
    /// The run that records at the start of this one are copied from, if they aren't steps of this
    /// run.
    pub records_from: Option<RunKey>,
    /// The keys of the first [`MAX_NAMED`] copies.
    pub also_at: Vec<String>,
    /// The number of copies.
    pub copies: usize,
    /// The statements of copies that differ from this run's.
    pub differences: Vec<CopyDifferences>,
    /// The same statements as sentences without a full stop; only the first ones.
    pub copies_say: Vec<String>,
    /// The end, if only the captured output of the program records it.
    pub end: Option<Box<CapturedEnd>>,
    /// The cost in US dollars, if only the captured output of the program records it.
    pub cost_usd: Option<f64>,
    /// The number of child runs by this run's and the children's records, if it differs from the
    /// number in this run's own records.
    pub children: Option<u64>,
    /// The id of the parent run, if other records show a nearer parent than this run's own.
    pub parent: Option<String>,
    /// The part of the run that counts in the rows of its children.
    pub separate_children: Option<SeparateChildren>,
    /// The run whose recorded cost includes this one's.
    pub paid_by: Option<RunKey>,
    /// The earlier run of the same thread, if the tokens of this one include those of that one.
    pub thread_before: Option<ThreadBefore>,
}

/// The tokens of a thread before a run, which count in the run that records them.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadBefore {
    /// The key of that run.
    pub key: RunKey,
    /// Its tokens.
    pub tokens: u64,
    /// The same tokens by kind.
    pub usage: Usage,
}

/// The relation of a run that shares no records with others.
static ALONE: Relation = Relation {
    duplicate_of: None,
    copied: None,
    records_from: None,
    also_at: Vec::new(),
    copies: 0,
    differences: Vec::new(),
    copies_say: Vec::new(),
    end: None,
    cost_usd: None,
    children: None,
    parent: None,
    separate_children: None,
    paid_by: None,
    thread_before: None,
};

/// The relation of a run to others, in the size of a pointer. Most runs share no records with
/// others.
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
    pub(super) fn keep_first(&mut self) {
        self.also_at.sort_unstable();
        self.also_at.truncate(MAX_NAMED);
        self.differences.sort_by(|a, b| a.key.cmp(&b.key));
        self.differences.truncate(MAX_NAMED);
    }

    /// Returns the relation for viewing the run by itself: all its steps are its own, and it
    /// counts.
    #[must_use]
    pub fn beside(self) -> Self {
        Self {
            duplicate_of: None,
            copied: None,
            separate_children: None,
            cost_usd: None,
            thread_before: None,
            ..self
        }
    }

    /// Returns whether the run's end is the one that this copy records.
    pub(crate) fn is_end_of(&self, copy: &CopyDifferences) -> bool {
        let end = self.end.as_ref();
        copy.is_other_end && end.is_some_and(|end| end.output == copy.key.as_str())
    }

    /// Returns the statements of copies that differ from this run's, except for the end that its verdict
    /// already names.
    pub(crate) fn beside_verdict(&self) -> impl Iterator<Item = String> {
        let words = |copy| CopyDifferences::words(copy).skip(usize::from(self.is_end_of(copy)));
        self.differences.iter().flat_map(words)
    }

    /// Returns the notes shown with a verdict: where else the run is stored, and what the copies
    /// record about its end.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let duplicate = self
            .duplicate_of
            .as_ref()
            .map(|key| format!("duplicate of {key} (counted there)"));
        let copied = self.copied.as_ref().map(|(from, steps)| {
            format!("starts with {} copied from {from}", counted(*steps, "step"))
        });
        let records = self
            .records_from
            .as_ref()
            .map(|from| format!("starts with records copied from {from}"));
        let also = match (&*self.also_at, self.copies) {
            ([], _) => None,
            ([one], _) => Some(format!("also in {one}")),
            ([first, ..], copies) => Some(format!("also in {first} and {} more", copies - 1)),
        };
        let separate_children = self.separate_children.as_ref().map(|separate_children| {
            let runs = counted(separate_children.ids.len(), "sub-agent");
            format!(
                "the usage of {runs} is counted in {}",
                if separate_children.ids.len() == 1 {
                    "its own row"
                } else {
                    "their own rows"
                }
            )
        });
        let paid_by = self
            .paid_by
            .as_ref()
            .map(|key| format!("the cost is included in the recorded cost of {key}"));
        let before = self.thread_before.as_ref().map(|before| {
            let key = &before.key;
            format!("continues {key} (its tokens are counted there)")
        });
        let differences = self.beside_verdict().take(MAX_SHOWN);
        let all = [
            duplicate,
            copied,
            records,
            also,
            separate_children,
            paid_by,
            before,
        ];
        all.into_iter()
            .flatten()
            .chain(differences.collect::<Vec<_>>())
    }
}

/// The end of a run as its captured output records it.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedEnd {
    /// The key of the output.
    pub output: String,
    /// The verdict, which names the output.
    pub verdict: Verdict,
    /// The liveness.
    pub life: Life,
    /// The answer.
    pub answer: Option<Box<str>>,
}

/// The part of a run that its copied first steps account for. It counts in the run that they were
/// copied from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedPart {
    /// The number of copied steps.
    pub steps: usize,
    /// Their tokens, if recorded.
    pub tokens: Option<u64>,
    /// The number of events up to the end of the last copied step.
    pub events: usize,
}

/// The child runs that have separate rows, with their tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SeparateChildren {
    /// The run ids of the children.
    pub ids: Vec<String>,
    /// The sum of their tokens; `None` if the tokens of any of them are unknown.
    pub tokens: Option<u64>,
    /// The same tokens by kind.
    pub usage: Usage,
}

impl SeparateChildren {
    /// Returns the steps in the parent's file that belong to these children, by ordinal.
    pub fn steps(&self, index: &Index) -> BTreeSet<usize> {
        let nested = || newest_run(index).filter(|(_, step)| step.is_nested);
        let agents: BTreeSet<&str> = nested().map(|(_, step)| index.name(step.agent)).collect();
        let is_of =
            |agent: &str| !agent.is_empty() && self.ids.iter().any(|id| id.ends_with(agent));
        // The steps may name their agents differently than the agents name themselves. Then, if
        // there are at least as many children as agents, all nested steps belong to children.
        let is_any = agents.iter().any(|agent| is_of(agent)) || self.ids.len() < agents.len();
        nested()
            .filter(|(_, step)| !is_any || is_of(index.name(step.agent)))
            .map(|(n, _)| n)
            .collect()
    }
}

/// A duplicate of a run whose records differ from those of the run that counts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "DuplicateDifferences")]
pub struct CopyDifferences {
    /// The key of the duplicate.
    pub key: String,
    /// The duplicate's answer to why the run stopped, without a full stop.
    pub verdict: String,
    #[schemars(with = "String")]
    pub(crate) outcome: Outcome,
    /// The stop reason that the duplicate records.
    pub stop_reason: Option<String>,
    /// `recorded`, `inferred` from the last records, or `unknown`.
    #[schemars(with = "String")]
    pub certainty: Certainty,
    /// Whether the duplicate ended differently.
    #[serde(rename = "other_end")]
    pub is_other_end: bool,
    /// Whether the copy holds the run up to its end, judged by the number of steps.
    #[serde(skip)]
    pub is_whole: bool,
    /// Other differences, such as tokens, cost or a score.
    pub differs: Vec<String>,
    /// The differences that contradict the run, as sentences without a full stop.
    #[serde(skip)]
    pub contradictions: Vec<String>,
}

impl CopyDifferences {
    /// Returns all differences as sentences without a full stop.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let key = &self.key;
        // How long a file hasn't grown isn't in the file.
        let end = self
            .is_other_end
            .then(|| match (self.certainty, self.outcome) {
                (Certainty::Recorded, _) => format!("{key} records: {}", self.verdict),
                (_, Outcome::Running | Outcome::Unknown) => format!("{key} records no end"),
                _ => format!("{key} suggests: {}", self.verdict),
            });
        let differs = self.differs.iter();
        end.into_iter()
            .chain(differs.map(move |words| format!("{key} records: {words}")))
    }
}
