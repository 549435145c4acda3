//! Compares two sets of runs: did a change help?
//!
//! Runs of the same task are paired, and each task counts once, however many runs it has. The
//! success is the main measure. What the verdict claims follows from [`statistics`] alone: a
//! difference is stated as such only if it's clear at 5%.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::Summary;
use crate::model::names::{cut_at, first_chars};
use crate::model::words::words;

mod condition;
mod measure;
mod setting;
pub mod statistics;
mod success;
mod words;

pub use condition::{Condition, Decision};
pub use measure::{Measure, MeasureGroup, Quantity, Spread, Unit};
pub use setting::{Setting, SettingValue};
pub use success::{Rule, RuleOption};
pub use words::{
    change_words, interval_words, p_words, percent_words, points_words, tasks_digits, tasks_words,
};

use measure::measures;
use setting::settings;
use statistics::{MAX_TASKS, MIN_TASKS, fisher, newcombe, rate};

/// The most tasks that an answer lists.
const MAX_LISTED: usize = 500;
/// The most runs that a task lists for each side.
const MAX_RUNS: usize = 20;
/// The most stop reasons that an answer lists.
const MAX_REASONS: usize = 20;
/// The most bytes of a task's text that count for its name.
const MAX_NAME_BYTES: usize = 1_000;
/// The most characters of a task's name.
const MAX_NAME: usize = 60;
/// From this length on, a beginning or an end that all tasks share is left out of their names.
const MIN_SHARED: usize = 12;

words! {
    /// Which runs of the two sets belong together.
    pub enum By {
        /// Those of the same task.
        Task = "task",
        /// None: the sets are compared as a whole.
        Nothing = "nothing",
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        By::ALL
            .into_iter()
            .find(|by| by.as_str() == text)
            .ok_or_else(|| format!("`{text}` isn't one of task, nothing"))
    }
}

words! {
    /// What an experiment shows about the success.
    pub enum Finding {
        /// B succeeds more often, clearly.
        Better = "better",
        /// B succeeds less often, clearly.
        Worse = "worse",
        /// The difference isn't clear.
        NotClear = "not_clear",
        /// There are too few tasks for any result to be clear.
        TooFew = "too_few",
        /// Too many runs record no result.
        Unknown = "unknown",
        /// A set has no run.
        Empty = "empty",
    }
}

words! {
    /// A set of runs.
    pub enum Set {
        /// The first set.
        A = "a",
        /// The second set.
        B = "b",
    }
}

impl Set {
    /// Returns the name of the set on pages.
    pub fn letter(self) -> &'static str {
        match self {
            Set::A => "A",
            Set::B => "B",
        }
    }
}

/// What to compare, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The query that selects the runs of A.
    pub a: String,
    /// The query that selects the runs of B.
    pub b: String,
    /// Which runs belong together.
    pub by: By,
    /// What counts as a success.
    pub success: Rule,
}

/// One of the two sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// The query that selects the runs.
    pub query: String,
    /// The number of matching runs.
    pub matched: usize,
    /// The number of runs that were compared: finished ones that don't match both queries.
    pub runs: usize,
    /// The number of runs that haven't finished. They aren't compared.
    pub unfinished: usize,
    /// The number of other files with the same records as some run. They aren't compared.
    pub duplicates: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of runs that don't record a task. They can't be paired.
    pub without_task: usize,
    /// The number of runs whose success is known.
    pub known: usize,
    /// The runs whose success is compared, and is known.
    pub judged: usize,
    /// How many of these succeeded.
    pub solved: usize,
    /// The mean success rate of the tasks, 0 to 1.
    pub rate: Option<f64>,
    /// The lower end of its 95% interval.
    pub rate_low: Option<f64>,
    /// The upper end.
    pub rate_high: Option<f64>,
    /// The fewest and the most runs of a compared task.
    pub runs_per_task: Option<(usize, usize)>,
}

/// A run of a task.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TaskRun {
    /// The key of the run.
    pub run: String,
    /// Whether it succeeded, if known.
    pub solved: Option<bool>,
    /// Its stop reason, if recorded.
    pub stop_reason: Option<String>,
}

/// A task that both sets have.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TaskRow {
    /// The beginning of the task's text, without what all tasks begin with.
    pub name: String,
    /// The success rate in A, 0 to 1, if known.
    pub a_rate: Option<f64>,
    /// The success rate in B.
    pub b_rate: Option<f64>,
    /// The side that solved the task, if most of its runs succeeded and at most half of the other's.
    pub only: Option<Set>,
    /// The runs of A, in the order of time.
    pub a: Vec<TaskRun>,
    /// The runs of B.
    pub b: Vec<TaskRun>,
    /// The number of further runs, which are left out.
    pub runs_left_out: usize,
    /// A run of each set that shows the difference, if there is one.
    pub compare: (String, String),
    /// The whole text of the task, if it's short.
    #[serde(skip)]
    pub text: Option<String>,
}

/// How many runs stopped for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonRow {
    /// The recorded stop reason; null if none is recorded.
    pub reason: Option<String>,
    /// The number of runs in A.
    pub a: usize,
    /// The number of runs in B.
    pub b: usize,
}

/// How sure the answer is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Certainty {
    /// Whether runs of the same task were paired.
    pub paired: bool,
    /// How often the signs of the differences were flipped. Null without pairs.
    pub flips: Option<usize>,
    /// Whether that is every combination of signs.
    pub exact: bool,
    /// The smallest difference in tasks that the test finds in 4 of 5 such experiments.
    pub finds: Option<f64>,
    /// The same with twice as many runs of each task, if tasks have several runs.
    pub finds_with_twice_the_runs: Option<f64>,
    /// The number of tasks with which the test finds half that difference.
    pub tasks_for_half: Option<usize>,
    /// The number of measures for which p-values are corrected.
    pub corrected: usize,
}

/// The comparison of two sets of runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Experiment {
    /// The answer in a sentence.
    pub verdict: String,
    /// The answer about the success, as a word.
    pub finding: Finding,
    /// Further sentences: the test, and what wasn't compared.
    pub details: Vec<String>,
    /// Which runs belong together.
    pub by: By,
    /// What counts as a success: `recorded`, `finished`, or a score such as `tests>=1`.
    pub success: String,
    /// The first set.
    pub a: Side,
    /// The second set.
    pub b: Side,
    /// The number of runs that match both queries. They belong to neither set.
    pub in_both: usize,
    /// The number of compared tasks: those that both sets have and whose success is known.
    pub tasks: usize,
    /// The number of tasks that both sets have.
    pub shared_tasks: usize,
    /// How many tasks came out better in B.
    pub better: usize,
    /// How many came out worse in B.
    pub worse: usize,
    /// How many came out the same.
    pub same: usize,
    /// How many only A solved: most of its runs succeeded, and at most half of B's.
    pub only_a: usize,
    /// How many only B solved.
    pub only_b: usize,
    /// The number of more tasks that B would solve at least and at most, if all runs without a known
    /// success had failed or succeeded. Null if the success of all runs is known.
    pub unknown_range: Option<(f64, f64)>,
    /// The measures, the success first.
    pub measures: Vec<Measure>,
    /// What the runs of the two sets were made with.
    pub settings: Vec<Setting>,
    /// The tasks that both sets have: first those that only one side solved.
    pub task_rows: Vec<TaskRow>,
    /// The number of further tasks, which are left out.
    pub task_rows_left_out: usize,
    /// The stop reasons, the most frequent first.
    pub stop_reasons: Vec<ReasonRow>,
    /// What else could count as a success, with the number of runs for which it's known.
    pub other_rules: Vec<RuleOption>,
    /// How sure the answer is.
    pub certainty: Certainty,
    /// The names of the tasks that both sets have, in the order of their positions.
    #[serde(skip)]
    pub task_names: Vec<String>,
    /// The condition that was checked, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Decision>,
}

/// A run with its success.
#[derive(Debug, Clone, Copy)]
struct Judged<'a> {
    run: &'a Summary,
    solved: Option<bool>,
}

/// Two values, of A and of B.
#[derive(Debug, Clone, Copy, Default)]
struct Two<T> {
    a: T,
    b: T,
}

impl<T> Two<T> {
    fn of(&self, set: Set) -> &T {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    fn map<U>(&self, f: impl Fn(&T) -> U) -> Two<U> {
        Two {
            a: f(&self.a),
            b: f(&self.b),
        }
    }
}

/// The runs of each set for a task.
type Task<'a> = Two<Vec<Judged<'a>>>;

/// Compares two sets of runs. A run in both belongs to neither.
pub fn experiment(a: &[&Summary], b: &[&Summary], question: &Question) -> Experiment {
    let keys = |runs: &[&Summary]| -> HashSet<String> {
        runs.iter().map(|run| run.key.as_str().to_owned()).collect()
    };
    let (of_a, of_b) = (keys(a), keys(b));
    let in_both = of_a.intersection(&of_b).count();
    let (mut side_a, runs_a) = side(&question.a, a, &of_b, &question.success);
    let (mut side_b, runs_b) = side(&question.b, b, &of_a, &question.success);
    let all = Two {
        a: runs_a,
        b: runs_b,
    };
    let tasks = tasks(&all);
    side_a.tasks = tasks.values().filter(|task| !task.a.is_empty()).count();
    side_b.tasks = tasks.values().filter(|task| !task.b.is_empty()).count();
    let is_shared = |task: &&Task<'_>| !task.a.is_empty() && !task.b.is_empty();
    let shared_tasks = tasks.values().filter(is_shared).count();
    let paired = question.by == By::Task && shared_tasks > 0;
    let shared: Vec<(&str, &Task<'_>)> = tasks
        .iter()
        .filter(|(_, task)| paired && is_shared(task))
        .map(|(name, task)| (*name, task))
        .take(MAX_TASKS)
        .collect();
    let units = if paired {
        Two::default()
    } else {
        all.map(|runs| units(runs))
    };
    // The success is compared only in tasks that both sides know.
    let rates: Vec<(f64, f64)> = shared
        .iter()
        .filter_map(|(_, task)| Some((rate_of(&task.a)?, rate_of(&task.b)?)))
        .collect();
    let judged = if paired {
        let known = shared
            .iter()
            .filter(|(_, task)| rate_of(&task.a).is_some() && rate_of(&task.b).is_some());
        let known: Vec<&Task<'_>> = known.map(|(_, task)| *task).collect();
        let of = |set| {
            let tasks: Vec<&[Judged<'_>]> = known.iter().map(|task| &**task.of(set)).collect();
            tasks
        };
        Two {
            a: of(Set::A),
            b: of(Set::B),
        }
    } else {
        Two {
            a: units.a.iter().map(std::slice::from_ref).collect(),
            b: units.b.iter().map(std::slice::from_ref).collect(),
        }
    };
    side_a.rated(&judged.a);
    side_b.rated(&judged.b);
    let compared = if paired {
        let of = |set| {
            let tasks = shared.iter().flat_map(|(_, task)| task.of(set));
            tasks.copied().collect::<Vec<_>>()
        };
        Two {
            a: of(Set::A),
            b: of(Set::B),
        }
    } else {
        all.clone()
    };
    let mut measures = measures(&shared, &compared, paired, &question.success);
    if let Some(success) = measures.first_mut().filter(|_| !paired) {
        success.unpaired(&side_a, &side_b);
    }
    let (better, worse) = (
        rates.iter().filter(|(a, b)| b > a).count(),
        rates.iter().filter(|(a, b)| b < a).count(),
    );
    let task_names = names(shared.iter().map(|(text, _)| *text));
    let mut task_rows: Vec<TaskRow> = shared
        .iter()
        .zip(&task_names)
        .map(|((text, task), name)| task_row(text, name.clone(), task))
        .collect();
    task_rows.sort_by(|a, b| {
        let by_size = b.size().total_cmp(&a.size());
        let by_flip = b.only.is_some().cmp(&a.only.is_some());
        by_flip.then(by_size).then_with(|| a.name.cmp(&b.name))
    });
    let only = |set| task_rows.iter().filter(|row| row.only == Some(set)).count();
    let (only_a, only_b) = (only(Set::A), only(Set::B));
    let task_rows_left_out = task_rows.len().saturating_sub(MAX_LISTED);
    task_rows.truncate(MAX_LISTED);
    let mut answer = Experiment {
        verdict: String::new(),
        finding: Finding::NotClear,
        details: Vec::new(),
        by: question.by,
        success: question.success.to_string(),
        in_both,
        tasks: if paired { rates.len() } else { 0 },
        shared_tasks,
        better,
        worse,
        same: rates.len() - better - worse,
        only_a,
        only_b,
        unknown_range: unknown_range(&shared),
        certainty: certainty(paired, &shared, measures.as_slice(), rates.len()),
        measures,
        settings: settings(&compared),
        task_rows,
        task_rows_left_out,
        stop_reasons: stop_reasons(&compared),
        other_rules: question.success.others(&all.a, &all.b),
        a: side_a,
        b: side_b,
        task_names,
        condition: None,
    };
    answer.finding = answer.found();
    answer.verdict = answer.verdict_words();
    answer.details = answer.details_words();
    answer
}

/// Selects the runs of a set that can be compared.
fn side<'a>(
    query: &str,
    runs: &[&'a Summary],
    others: &HashSet<String>,
    rule: &Rule,
) -> (Side, Vec<Judged<'a>>) {
    let mut side = Side {
        query: query.to_owned(),
        ..Side::default()
    };
    let mut kept = Vec::new();
    for run in runs.iter().copied().filter(|run| run.counts()) {
        side.matched += 1;
        side.duplicates += run.relation.copies;
        if others.contains(run.key.as_str()) {
            continue;
        }
        if run.result().is_none() {
            side.unfinished += 1;
            continue;
        }
        side.without_task += usize::from(task_of(run).is_none());
        let solved = rule.holds(run);
        side.known += usize::from(solved.is_some());
        kept.push(Judged { run, solved });
    }
    kept.sort_by(|a, b| (a.run.started, &a.run.key).cmp(&(b.run.started, &b.run.key)));
    side.runs = kept.len();
    (side, kept)
}

/// Returns what identifies the task of a run: its text. Groups of runs by task use the same.
fn task_of(run: &Summary) -> Option<&str> {
    run.task.as_deref().filter(|task| !task.trim().is_empty())
}

fn tasks<'a>(all: &Two<Vec<Judged<'a>>>) -> BTreeMap<&'a str, Task<'a>> {
    let mut tasks: BTreeMap<&str, Task<'a>> = BTreeMap::new();
    for judged in &all.a {
        if let Some(task) = task_of(judged.run) {
            tasks.entry(task).or_default().a.push(*judged);
        }
    }
    for judged in &all.b {
        if let Some(task) = task_of(judged.run) {
            tasks.entry(task).or_default().b.push(*judged);
        }
    }
    tasks
}

/// Selects independent runs: the first of each task whose success is known. Runs of one task are
/// alike, so only one of them counts.
fn units<'a>(runs: &[Judged<'a>]) -> Vec<Judged<'a>> {
    let mut seen: HashSet<&str> = HashSet::new();
    let known = runs.iter().filter(|judged| judged.solved.is_some());
    known
        .filter(|judged| task_of(judged.run).is_none_or(|task| seen.insert(task)))
        .copied()
        .collect()
}

/// Returns the share of successful runs among those whose success is known.
fn rate_of(runs: &[Judged<'_>]) -> Option<f64> {
    let known = runs.iter().filter_map(|judged| judged.solved);
    let (all, yes) = known.fold((0_usize, 0_usize), |(all, yes), solved| {
        (all + 1, yes + usize::from(solved))
    });
    (all > 0).then(|| yes as f64 / all as f64)
}

impl Side {
    /// Adds the success rate over tasks, each with its runs.
    fn rated(&mut self, tasks: &[&[Judged<'_>]]) {
        let known = || {
            let runs = tasks.iter().flat_map(|runs| runs.iter());
            runs.filter_map(|judged| judged.solved)
        };
        self.judged = known().count();
        self.solved = known().filter(|solved| *solved).count();
        let rates: Vec<f64> = tasks.iter().filter_map(|runs| rate_of(runs)).collect();
        if let Some((share, (low, high))) = rate(&rates, self.judged) {
            (self.rate, self.rate_low, self.rate_high) = (Some(share), Some(low), Some(high));
        }
        let runs = || {
            let known =
                |runs: &&[Judged<'_>]| runs.iter().filter(|judged| judged.solved.is_some()).count();
            tasks.iter().map(known)
        };
        self.runs_per_task = runs().min().zip(runs().max());
    }

    /// Returns the numbers of independent successes and runs.
    fn counts(&self) -> (usize, usize) {
        (self.solved, self.judged)
    }
}

/// Bounds the difference in tasks by assuming the worst and the best about unknown successes.
fn unknown_range(shared: &[(&str, &Task<'_>)]) -> Option<(f64, f64)> {
    let bound = |runs: &[Judged<'_>], otherwise: bool| {
        let yes = runs
            .iter()
            .filter(|judged| judged.solved.unwrap_or(otherwise));
        yes.count() as f64 / runs.len().max(1) as f64
    };
    let is_unknown = |judged: &Judged<'_>| judged.solved.is_none();
    let is_any = shared
        .iter()
        .any(|(_, task)| task.a.iter().chain(&task.b).any(is_unknown));
    is_any.then(|| {
        let sum = |a: bool, b: bool| {
            let one = |(_, task): &(&str, &Task<'_>)| bound(&task.b, b) - bound(&task.a, a);
            shared.iter().map(one).sum::<f64>()
        };
        (sum(true, false), sum(false, true))
    })
}

impl TaskRow {
    /// Returns how different the sides are.
    fn size(&self) -> f64 {
        let difference = self.b_rate.zip(self.a_rate).map(|(b, a)| (b - a).abs());
        difference.unwrap_or(-1.0)
    }

    /// Returns the runs of a set.
    pub fn runs(&self, set: Set) -> &[TaskRun] {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    /// Returns the most frequent stop reason of the runs of a set that didn't succeed.
    pub fn failed_with(&self, set: Set) -> Option<&str> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let failed = self
            .runs(set)
            .iter()
            .filter(|run| run.solved == Some(false));
        for reason in failed.filter_map(|run| run.stop_reason.as_deref()) {
            *counts.entry(reason).or_default() += 1;
        }
        let most = counts.values().max().copied()?;
        let mut reasons = counts.into_iter().filter(|(_, count)| *count == most);
        reasons.next().map(|(reason, _)| reason)
    }
}

fn task_row(text: &str, name: String, task: &Task<'_>) -> TaskRow {
    let (a_rate, b_rate) = (rate_of(&task.a), rate_of(&task.b));
    let only = match (a_rate, b_rate) {
        (Some(a), Some(b)) if b > 0.5 && a <= 0.5 => Some(Set::B),
        (Some(a), Some(b)) if a > 0.5 && b <= 0.5 => Some(Set::A),
        _ => None,
    };
    let shown = |judged: &Judged<'_>| TaskRun {
        run: judged.run.key.as_str().to_owned(),
        solved: judged.solved,
        stop_reason: judged.run.verdict.stop_reason.as_deref().map(str::to_owned),
    };
    // A run of each side that shows what the side mostly does.
    let example = |runs: &[Judged<'_>], rate: Option<f64>, set: Set| {
        let wanted = match only {
            Some(only) => only == set,
            None => rate.is_some_and(|rate| rate > 0.5),
        };
        let typical = runs.iter().find(|judged| judged.solved == Some(wanted));
        let run = typical.or(runs.first());
        run.map(|judged| judged.run.key.as_str().to_owned())
            .unwrap_or_default()
    };
    let left_out = |runs: &[Judged<'_>]| runs.len().saturating_sub(MAX_RUNS);
    TaskRow {
        name,
        a_rate,
        b_rate,
        only,
        a: task.a.iter().take(MAX_RUNS).map(shown).collect(),
        b: task.b.iter().take(MAX_RUNS).map(shown).collect(),
        runs_left_out: left_out(&task.a) + left_out(&task.b),
        compare: (
            example(&task.a, a_rate, Set::A),
            example(&task.b, b_rate, Set::B),
        ),
        text: Some(text)
            .filter(|text| text.len() <= 200 && !text.contains(['\n', '"', '\\']))
            .map(str::to_owned),
    }
}

/// Names tasks by the beginning of their text, without the words that all of them begin or end with.
fn names<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lines: Vec<String> = texts
        .map(|text| {
            let words = cut_at(text, MAX_NAME_BYTES).split_whitespace();
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let backwards = |line: &String| line.chars().rev().collect::<String>();
    let reversed: Vec<String> = lines.iter().map(backwards).collect();
    let long = |length: usize| if length >= MIN_SHARED { length } else { 0 };
    let (start, end) = (long(shared(&lines)), long(shared(&reversed)));
    lines
        .iter()
        .map(|line| {
            let own = line.get(start..line.len().saturating_sub(end));
            let own = own.filter(|own| !own.is_empty()).unwrap_or(line);
            match first_chars(own, MAX_NAME) {
                Some(first) => format!("{first}…"),
                None => own.to_owned(),
            }
        })
        .collect()
}

/// Returns the length of the whole words that all lines begin with, in bytes.
fn shared(lines: &[String]) -> usize {
    let Some((first, rest)) = lines.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return 0;
    };
    let equal = |line: &String| {
        let pairs = first.chars().zip(line.chars());
        let equal = pairs.take_while(|(a, b)| a == b);
        equal.map(|(c, _)| c.len_utf8()).sum::<usize>()
    };
    let common = rest.iter().map(equal).min().unwrap_or_default();
    let space = first.get(..common).and_then(|common| common.rfind(' '));
    space.map_or(0, |space| space + 1).min(common)
}

fn stop_reasons(compared: &Two<Vec<Judged<'_>>>) -> Vec<ReasonRow> {
    let mut counts: HashMap<Option<&str>, (usize, usize)> = HashMap::new();
    for judged in &compared.a {
        let reason = judged.run.verdict.stop_reason.as_deref();
        counts.entry(reason).or_default().0 += 1;
    }
    for judged in &compared.b {
        let reason = judged.run.verdict.stop_reason.as_deref();
        counts.entry(reason).or_default().1 += 1;
    }
    let mut rows: Vec<ReasonRow> = counts
        .into_iter()
        .map(|(reason, (a, b))| ReasonRow {
            reason: reason.map(str::to_owned),
            a,
            b,
        })
        .collect();
    rows.sort_by(|x, y| (y.a + y.b).cmp(&(x.a + x.b)).then(x.reason.cmp(&y.reason)));
    rows.truncate(MAX_REASONS);
    rows
}

fn certainty(
    paired: bool,
    shared: &[(&str, &Task<'_>)],
    measures: &[Measure],
    tasks: usize,
) -> Certainty {
    let corrected = measures
        .iter()
        .skip(1)
        .filter(|measure| measure.p.is_some())
        .count();
    let success = measures.first().and_then(|measure| measure.effect);
    let n = tasks as f64;
    // Without any known success, the other measures are still tested.
    let tested = if tasks > 0 { tasks } else { shared.len() };
    let finds = success
        .filter(|effect| paired && effect.p < 1.0)
        .and_then(|effect| effect.smallest_found())
        .map(|share| share * n);
    let finds_with_twice_the_runs = finds
        .zip(success.and_then(|effect| effect.standard_error()))
        .zip(within(shared))
        .map(|((_, error), within)| {
            let twice = (error * error - within / 2.0).max(0.0);
            statistics::smallest_found(twice.sqrt()) * n
        });
    Certainty {
        paired,
        flips: paired.then(|| {
            if statistics::is_exact(tested) {
                1 << tested
            } else {
                statistics::flips(tested)
            }
        }),
        exact: paired && statistics::is_exact(tested),
        finds,
        finds_with_twice_the_runs,
        tasks_for_half: finds.map(|_| tasks.saturating_mul(4)),
        corrected,
    }
}

/// Returns the part of the variance of the mean difference that comes from differences between runs
/// of the same task. More runs of each task make it smaller. `None` if a task has a single run.
fn within(shared: &[(&str, &Task<'_>)]) -> Option<f64> {
    let one = |runs: &[Judged<'_>]| {
        let n = runs.iter().filter(|judged| judged.solved.is_some()).count();
        let rate = rate_of(runs)?;
        (n > 1).then(|| rate * (1.0 - rate) / (n - 1) as f64)
    };
    let known: Vec<_> = shared
        .iter()
        .filter(|(_, task)| rate_of(&task.a).is_some() && rate_of(&task.b).is_some())
        .collect();
    let sum: Option<f64> = known
        .iter()
        .map(|(_, task)| Some(one(&task.a)? + one(&task.b)?))
        .sum();
    let n = known.len() as f64;
    Some(sum? / (n * n)).filter(|variance| variance.is_finite())
}

impl Experiment {
    /// Decides what the experiment shows about the success.
    fn found(&self) -> Finding {
        let is_unknown = |side: &Side| side.known * 2 < side.runs;
        if self.a.runs == 0 || self.b.runs == 0 {
            return Finding::Empty;
        }
        let is_paired = self.certainty.paired;
        let units = if is_paired {
            self.shared_tasks
        } else {
            self.a.judged.min(self.b.judged)
        };
        if is_paired && units < MIN_TASKS {
            return Finding::TooFew;
        }
        if is_unknown(&self.a) || is_unknown(&self.b) {
            return Finding::Unknown;
        }
        if units < MIN_TASKS || (is_paired && self.tasks < MIN_TASKS) {
            return Finding::TooFew;
        }
        match self.success() {
            Some(success) if success.is_clear && success.difference > Some(0.0) => Finding::Better,
            Some(success) if success.is_clear => Finding::Worse,
            _ => Finding::NotClear,
        }
    }

    /// Returns the measure of the success.
    pub fn success(&self) -> Option<&Measure> {
        self.measures.first()
    }

    /// Returns the measure with this name.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }

    /// Returns the side of a set.
    pub fn side(&self, set: Set) -> &Side {
        match set {
            Set::A => &self.a,
            Set::B => &self.b,
        }
    }

    /// Returns how many tasks only this side solved.
    pub fn only_count(&self, set: Set) -> usize {
        match set {
            Set::A => self.only_a,
            Set::B => self.only_b,
        }
    }

    /// Returns the listed tasks that only this side solved.
    pub fn only(&self, set: Set) -> impl Iterator<Item = &TaskRow> {
        let rows = self.task_rows.iter();
        rows.filter(move |row| row.only == Some(set))
    }

    /// Returns the settings that differ between the sets.
    pub fn differing(&self) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(|setting| setting.differs)
    }
}

impl Measure {
    /// Compares the success of independent runs, one for each task.
    fn unpaired(&mut self, a: &Side, b: &Side) {
        let (of_a, of_b) = (a.counts(), b.counts());
        if of_a.1 == 0 || of_b.1 == 0 {
            return;
        }
        let (low, high) = newcombe(of_a, of_b);
        let share = |(yes, all): (usize, usize)| yes as f64 / all as f64;
        let p = fisher(of_a, of_b);
        (self.a, self.b) = (Some(share(of_a)), Some(share(of_b)));
        self.difference = Some(share(of_b) - share(of_a));
        (self.low, self.high) = (Some(low), Some(high));
        (self.p, self.p_corrected) = (Some(p), Some(p));
        self.tasks = of_a.1 + of_b.1;
        self.decide();
    }
}

#[cfg(test)]
mod tests;
