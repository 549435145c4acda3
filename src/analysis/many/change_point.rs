//! Finds when a task began to pass less often, or more often.
//!
//! The runs of a task, in the order in which they started, are split into two parts where their pass
//! rates differ most. Shuffling the order of the runs many times shows how often chance alone splits
//! them as clearly.

use crate::analysis::random::Random;

/// Runs on each side of a split, at least.
const MIN_SIDE: usize = 4;
/// Shuffles, unless there are many tasks.
const SHUFFLES: usize = 10_000;
/// Maximum number of shuffles.
const MAX_SHUFFLES: usize = 200_000;
/// The newest runs of a task that are looked at.
const MAX_RUNS: usize = 1_000;
/// Maximum number of runs that are shuffled for one answer. It bounds the time.
const MAX_WORK: usize = 50_000_000;
/// Below this chance, after the correction for the number of tasks, a split is no accident.
const MAX_P: f64 = 0.01;
/// The tasks in which a change can be found, at most: with more, a split that no shuffle reaches may
/// still be an accident.
pub(super) const MAX_TASKS: usize = (MAX_SHUFFLES as f64 * MAX_P) as usize;

/// A split of a task's runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChangePoint {
    /// The position of the task.
    pub(super) task: usize,
    /// The first run after the change.
    pub(super) at: usize,
    /// The chance that shuffled runs split as clearly, times the number of tasks.
    pub(super) p: f64,
}

/// What was found among tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Found {
    /// The clearest change.
    pub(super) point: Option<ChangePoint>,
    /// The number of tasks that have enough runs but weren't searched, because there are too many.
    pub(super) not_searched: usize,
}

/// Finds the clearest change among `tasks`, which are the results of their runs from old to new.
pub(super) fn find(tasks: &[Vec<bool>]) -> Found {
    find_within(tasks, MAX_WORK)
}

/// Finds the clearest change, and shuffles at most `work` runs for it.
fn find_within(tasks: &[Vec<bool>], mut work: usize) -> Found {
    let splits: Vec<(usize, Split)> = tasks
        .iter()
        .enumerate()
        .filter(|(_, runs)| runs.len() >= 2 * MIN_SIDE)
        .map(|(task, runs)| (task, best(newest(runs))))
        .collect();
    let number = splits.len();
    if number > MAX_TASKS {
        return Found {
            point: None,
            not_searched: number,
        };
    }
    // With many tasks, more shuffles are needed to tell that a split is rare enough.
    let shuffles = (1_000 * number).clamp(SHUFFLES, MAX_SHUFFLES);
    let mut found: Option<(f64, ChangePoint)> = None;
    let mut not_searched = 0;
    // The clearest ones first, so that they are decided if the work is too much for all.
    let mut ordered = splits;
    ordered.sort_by(|a, b| b.1.z.total_cmp(&a.1.z));
    for (task, split) in ordered {
        let Some(runs) = tasks.get(task) else {
            continue;
        };
        let skipped = runs.len() - newest(runs).len();
        let p = match chance(newest(runs), split.z, shuffles, number, &mut work) {
            Chance::Rare(p) => p,
            Chance::Common => continue,
            Chance::Unknown => {
                not_searched += 1;
                continue;
            }
        };
        let point = ChangePoint {
            task,
            at: skipped + split.at,
            p,
        };
        let is_clearer = found.is_none_or(|(z, other)| (p, -split.z) < (other.p, -z));
        if is_clearer {
            found = Some((split.z, point));
        }
    }
    Found {
        point: found.map(|(_, point)| point),
        not_searched,
    }
}

fn newest(runs: &[bool]) -> &[bool] {
    runs.get(runs.len().saturating_sub(MAX_RUNS)..)
        .unwrap_or(runs)
}

/// The split at which the pass rates differ most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Split {
    at: usize,
    /// How clearly they differ: the difference in units of its standard error.
    z: f64,
}

fn best(runs: &[bool]) -> Split {
    let number = runs.len() as f64;
    let all = runs.iter().filter(|passed| **passed).count() as f64;
    let rate = all / number;
    let spread = rate * (1.0 - rate);
    let mut best = Split::default();
    if spread <= 0.0 {
        return best;
    }
    let mut passed = 0.0;
    for (at, run) in runs.iter().enumerate() {
        if at >= MIN_SIDE && at + MIN_SIDE <= runs.len() {
            let (before, after) = (at as f64, number - at as f64);
            let difference = (passed / before - (all - passed) / after).abs();
            let z = difference / (spread * (1.0 / before + 1.0 / after)).sqrt();
            // Equal splits of shuffled runs must not differ by rounding.
            if z > best.z + 1e-9 {
                best = Split { at, z };
            }
        }
        passed += f64::from(u8::from(*run));
    }
    best
}

/// How often shuffled runs split as clearly.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Chance {
    /// The chance times the number of tasks, below [`MAX_P`].
    Rare(f64),
    /// The chance isn't small enough.
    Common,
    /// There was too little time to tell.
    Unknown,
}

/// Returns the chance that shuffled runs split as clearly as `z`. Stops as soon as it can't be small
/// enough.
fn chance(runs: &[bool], z: f64, shuffles: usize, tasks: usize, work: &mut usize) -> Chance {
    let of = |hits: usize| (hits + 1) as f64 / (shuffles + 1) as f64 * tasks as f64;
    let mut runs = runs.to_vec();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut hits = 0;
    for _ in 0..shuffles {
        let Some(rest) = work.checked_sub(runs.len()) else {
            return Chance::Unknown;
        };
        *work = rest;
        random.shuffle(&mut runs);
        hits += usize::from(best(&runs).z >= z - 1e-9);
        if of(hits) >= MAX_P {
            return Chance::Common;
        }
    }
    if of(hits) < MAX_P {
        Chance::Rare(of(hits))
    } else {
        Chance::Common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(tasks: &[Vec<bool>]) -> Option<ChangePoint> {
        find(tasks).point
    }

    /// `.` passed, `x` didn't.
    fn runs(text: &str) -> Vec<bool> {
        text.chars().map(|c| c == '.').collect()
    }

    #[test]
    fn a_task_that_breaks_is_found_where_it_broke() {
        let broke = runs("......x........x.....xx.xxxx.xx");
        let steady = runs(".x..x...x..x....x..x...x..x.x..");
        let found = point(&[steady.clone(), broke.clone()]).unwrap();
        assert_eq!((found.task, found.at), (1, 21));
        assert!(found.p < 0.01, "{found:?}");
        assert_eq!(point(&[steady]), None);
        // Getting better is a change too.
        let mended: Vec<bool> = broke.iter().map(|passed| !passed).collect();
        assert_eq!(point(&[mended]).map(|found| found.at), Some(21));
    }

    #[test]
    fn few_runs_and_equal_ones_prove_nothing() {
        assert_eq!(point(&[]), None);
        assert_eq!(point(&[runs("...xxx")]), None);
        assert_eq!(point(&[runs("........................")]), None);
        assert_eq!(point(&[runs("xxxxxxxxxxxx")]), None);
        // 4 of 70 orders split eight runs like that.
        assert_eq!(point(&[runs("....xxxx")]), None);
        // A change needs four runs on each side.
        assert_eq!(best(&runs("....................xxx")).at, 19);
    }

    #[test]
    fn among_many_tasks_a_change_must_be_clearer() {
        let weak = runs("..........x...x.x.xx.x");
        let alone = point(std::slice::from_ref(&weak));
        let steady = runs(".x..x...x..x....x..x...x..x.x..");
        let mut many = vec![steady; 400];
        many.push(weak);
        assert_eq!(point(&many), None, "alone: {alone:?}");
        many.push(runs("....................xxxxxxxxxxxxxxx"));
        assert_eq!(point(&many).map(|found| found.task), Some(401));
    }

    #[test]
    fn chance_alone_rarely_finds_a_change() {
        let mut random = Random(7);
        let mut alarms = 0;
        for _ in 0..300 {
            let runs: Vec<bool> = (0..30).map(|_| random.below(10) < 8).collect();
            alarms += usize::from(point(&[runs]).is_some());
        }
        // 1% of 300 are 3; more than 9 would happen once in a thousand seeds.
        assert!(alarms <= 9, "{alarms}");
    }

    #[test]
    fn the_work_is_bounded() {
        let tasks: Vec<Vec<bool>> = (0..2_000)
            .map(|_| [vec![true; 600], vec![false; 600]].concat())
            .collect();
        // It ends, and says how much it left out.
        assert_eq!(find_within(&tasks, 1_000_000).not_searched, 2_000);
        assert_eq!(newest(&tasks[0]).len(), MAX_RUNS);
        let few = vec![runs("....................xxxxxxxxxxxxxxx"); 5];
        assert_eq!(find(&few).not_searched, 0);
    }

    #[test]
    fn among_too_many_tasks_nothing_is_found_and_their_number_is_told() {
        let mut tasks = vec![runs("....xxxx"); MAX_TASKS];
        assert_eq!(MAX_TASKS, 2_000);
        // Tasks with too few runs don't count.
        tasks.extend(vec![runs("...xxx"); 100]);
        assert_eq!(find(&tasks).not_searched, 0);
        tasks.push(runs(
            "........................................xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ));
        let found = find(&tasks);
        assert_eq!((found.point, found.not_searched), (None, 2_001));
    }
}
