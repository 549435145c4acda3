//! Sample runs for tests.

use crate::analysis::compact::Shared;
use crate::analysis::life::{Basis, ExternalFacts, Life, Liveness, Silent};
use crate::analysis::summary::{Summary, summary};
use crate::analysis::verdict::{LimitFrom, RunStatus, StepLimit};
use crate::model::{Index, Origin, Outcome, RunKey};

/// Returns a run that ended with `reason` after six of forty steps, one minute before second
/// 1,000,000.
pub(crate) fn run(key: &str, mark: RunStatus, reason: Option<&str>) -> Summary {
    let mut run = summary(
        &RunKey::new(key),
        format!("./runs/{key}"),
        &Index::default(),
        ExternalFacts::default(),
    );
    let liveness = match mark {
        RunStatus::Running => Liveness::Running,
        RunStatus::Quiet => Liveness::Quiet,
        RunStatus::Stalled => Liveness::Stalled,
        RunStatus::Died => Liveness::Died,
        _ => Liveness::Finished,
    };
    run.life = Life {
        liveness,
        basis: Basis::End,
        silence: None,
        sign: None,
        gap: 0,
        silent: Silent::Died,
    };
    run.status = Some(
        if liveness == Liveness::Finished {
            "completed"
        } else {
            "running"
        }
        .to_owned(),
    );
    run.verdict.mark = mark;
    run.verdict.answered = mark == RunStatus::Answered;
    run.verdict.outcome = match mark {
        RunStatus::Running | RunStatus::Quiet | RunStatus::Stalled => Outcome::Running,
        RunStatus::Answered | RunStatus::Stopped => Outcome::Completed,
        RunStatus::Limit => Outcome::Truncated,
        RunStatus::Error | RunStatus::Died => Outcome::Failed,
        _ => Outcome::Unknown,
    };
    run.verdict.stop_reason = reason.map(Shared::from);
    run.verdict.sentence = format!("{} for {}", mark.word(), reason.unwrap_or("no reason")).into();
    run.verdict.second = Shared::default();
    run.verdict.limit = Some(StepLimit {
        steps: 40,
        from: LimitFrom::SetBy(Origin::Task),
    });
    (run.steps, run.steps_now, run.events) = (6, 6, 80);
    (run.errors_unknown, run.events_unknown) = (false, false);
    run.duration_ms = Some(90_500.0);
    run.updated = Some(1_000_000_000_000 - 60_000_000);
    run.issues = (0, 0);
    run
}

/// Returns `number` runs of many kinds with unique keys.
pub(crate) fn many(number: usize) -> Vec<Summary> {
    let kinds = [
        (RunStatus::Answered, Some("final")),
        (RunStatus::Limit, Some("budget_steps")),
        (RunStatus::Running, None),
        (RunStatus::Error, Some("unrecoverable_error")),
        (RunStatus::Died, None),
        (RunStatus::Critic, Some("critic_stop")),
        (RunStatus::Stopped, Some("env_terminal")),
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
            run.model = (n % 5 > 0).then(|| format!("model-{}", n % 11).into());
            let task = format!(
                "Fix calc.py so that test_calc.py passes, attempt {n}, then say what you changed."
            );
            run.task = Some(task.into());
            run
        })
        .collect()
}
