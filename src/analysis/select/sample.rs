//! Runs for tests.

use crate::analysis::life::{Basis, Life, Liveness, Outside, Silent};
use crate::analysis::summary::{Summary, summary};
use crate::analysis::verdict::{LimitFrom, Mark, StepLimit};
use crate::model::{Index, Origin, Outcome, RunKey};

/// A run that ended with `reason`, six steps of forty, one minute before second 1,000,000.
pub(crate) fn run(key: &str, mark: Mark, reason: Option<&str>) -> Summary {
    let mut run = summary(&RunKey::new(key), format!("./runs/{key}"), &Index::default(), Outside::default());
    let liveness = match mark {
        Mark::Running => Liveness::Running,
        Mark::Quiet => Liveness::Quiet,
        Mark::Stalled => Liveness::Stalled,
        Mark::Died => Liveness::Died,
        _ => Liveness::Finished,
    };
    run.life = Life { liveness, basis: Basis::End, silence: None, sign: None, gap: 0, silent: Silent::Died };
    run.status = Some(if liveness == Liveness::Finished { "completed" } else { "running" }.to_owned());
    run.verdict.mark = mark;
    run.verdict.answered = mark == Mark::Answered;
    run.verdict.outcome = match mark {
        Mark::Running | Mark::Quiet | Mark::Stalled => Outcome::Running,
        Mark::Answered | Mark::OwnRule => Outcome::Completed,
        Mark::Limit => Outcome::Truncated,
        Mark::Error | Mark::Died => Outcome::Failed,
        _ => Outcome::Unknown,
    };
    run.verdict.stop_reason = reason.map(str::to_owned);
    run.verdict.sentence = format!("{} for {}", mark.word(), reason.unwrap_or("no reason"));
    run.verdict.second = String::new();
    run.verdict.limit = Some(StepLimit { steps: 40, from: LimitFrom::SetBy(Origin::Task) });
    (run.steps, run.steps_now, run.events) = (6, 6, 80);
    run.duration_ms = Some(90_500.0);
    run.updated = Some(1_000_000_000_000 - 60_000_000);
    run.issues = (0, 0);
    run
}

/// `number` runs of many kinds, no two with the same key.
pub(crate) fn many(number: usize) -> Vec<Summary> {
    let kinds = [
        (Mark::Answered, Some("final")),
        (Mark::Limit, Some("budget_steps")),
        (Mark::Running, None),
        (Mark::Error, Some("unrecoverable_error")),
        (Mark::Died, None),
        (Mark::Critic, Some("critic_stop")),
        (Mark::OwnRule, Some("env_terminal")),
    ];
    (0..number)
        .map(|n| {
            let (mark, reason) = kinds[n % kinds.len()];
            let mut run = run(&format!("sweep_{}/run_{n:05}", n % 9), mark, reason);
            run.updated = Some(1_000_000_000_000 - (n as i64 * 7_919 % 10_007) * 1_000_000);
            run.steps = n * 31 % 97;
            run.steps_now = run.steps;
            run.tokens = (n % 3 > 0).then_some(n as u64 * 17 % 50_000);
            run.last_score = (n % 4 > 0).then_some((n % 101) as f64 / 100.0);
            run.model = (n % 5 > 0).then(|| format!("model-{}", n % 11));
            run.task =
                Some(format!("Fix calc.py so that test_calc.py passes, attempt {n}, then say what you changed."));
            run
        })
        .collect()
}
