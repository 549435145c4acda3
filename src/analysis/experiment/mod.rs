//! Compares two sets of runs: did a change help?
//!
//! Runs of the same task are paired, and each task counts once, however many runs it has. The
//! success is the main measure. What the verdict claims follows from [`statistics`] alone: a
//! difference is stated as such only if it's clear at 5%.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::summary::Summary;
use super::task_text::TaskText;
use crate::model::names::{cut_at, first_chars};

mod condition;
mod document;
mod figures;
mod measure;
mod sets;
mod setting;
pub(crate) mod statistics;
mod success;
mod words;

pub(crate) use condition::Condition;
pub(crate) use document::{
    By, Certainty, Experiment, Finding, Question, ReasonRow, Side, TaskRow, TaskRun,
};
pub(crate) use figures::{change_words, tasks_digits, tasks_words};
pub(crate) use measure::{Measure, MeasureGroup, Spread, Unit};
pub(crate) use sets::Set;
pub(crate) use setting::{Setting, SettingValue};
pub(crate) use success::{Rule, RuleOption};

use measure::measures;
use sets::{Judged, Task, Two, rate_of};
use setting::settings;
use statistics::{MAX_TASKS, fisher, newcombe};

/// Maximum number of tasks that an answer lists.
const MAX_LISTED: usize = 500;
/// Maximum number of runs that a task lists for each side.
const MAX_RUNS: usize = 20;
/// Maximum number of stop reasons that an answer lists.
const MAX_REASONS: usize = 20;
/// Maximum number of bytes of a task's text that count for its name.
const MAX_NAME_BYTES: usize = 1_000;
/// Maximum number of characters of a task's name.
const MAX_NAME: usize = 60;
/// From this length on, a beginning or an end that all tasks share is left out of their names.
const MIN_SHARED: usize = 12;

/// Compares two sets of runs. A run in both belongs to neither.
pub(crate) fn experiment(a: &[&Summary], b: &[&Summary], question: &Question) -> Experiment {
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
        .map(|(name, task)| (name.0, task))
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
    let reasons = stop_reasons(&compared);
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
        stop_reasons_of: (compared.a.len(), compared.b.len()),
        stop_reasons_left_out: reasons.len().saturating_sub(MAX_REASONS),
        stop_reasons: reasons.into_iter().take(MAX_REASONS).collect(),
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

/// Returns what identifies the task of a run: its text. The overview uses the same.
fn task_of(run: &Summary) -> Option<TaskText<'_>> {
    let text = run.task.as_deref().filter(|task| !task.trim().is_empty());
    text.map(TaskText)
}

fn tasks<'a>(all: &Two<Vec<Judged<'a>>>) -> BTreeMap<TaskText<'a>, Task<'a>> {
    let mut tasks: BTreeMap<TaskText<'_>, Task<'a>> = BTreeMap::new();
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
    let mut seen: HashSet<TaskText<'_>> = HashSet::new();
    let known = runs.iter().filter(|judged| judged.solved.is_some());
    known
        .filter(|judged| task_of(judged.run).is_none_or(|task| seen.insert(task)))
        .copied()
        .collect()
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
    let solved = |runs: &[Judged<'_>]| {
        let known = runs.iter().filter_map(|judged| judged.solved);
        let solved = known.clone().filter(|solved| *solved).count();
        (solved, known.count())
    };
    TaskRow {
        name,
        a_rate,
        b_rate,
        only,
        a: task.a.iter().take(MAX_RUNS).map(shown).collect(),
        b: task.b.iter().take(MAX_RUNS).map(shown).collect(),
        runs_left_out: left_out(&task.a) + left_out(&task.b),
        a_solved: solved(&task.a),
        b_solved: solved(&task.b),
        failed_with: (failed_with(&task.a), failed_with(&task.b)),
        compare: (
            example(&task.a, a_rate, Set::A),
            example(&task.b, b_rate, Set::B),
        ),
        text: Some(text)
            .filter(|text| text.len() <= MAX_NAME_BYTES)
            .map(str::to_owned),
    }
}

/// Returns the most frequent stop reason of the runs that didn't succeed.
fn failed_with(runs: &[Judged<'_>]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let failed = runs.iter().filter(|judged| judged.solved == Some(false));
    for reason in failed.filter_map(|judged| judged.run.verdict.stop_reason.as_deref()) {
        *counts.entry(reason).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    let mut reasons = counts.into_iter().filter(|(_, count)| *count == most);
    reasons.next().map(|(reason, _)| reason.to_owned())
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
