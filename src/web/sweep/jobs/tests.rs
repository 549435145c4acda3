//! Who gets which job, and how a job ends before it is done.

use super::*;
use crate::analysis::sweep::{Asking, Typed};

/// A library without runs, so that a job has nothing to do but to end.
fn question(rule: &str) -> (String, Begin) {
    let asking = Asking::parse(&Typed { rules: vec![rule], ..Typed::default() }).unwrap();
    let inquiry = asking.ready(std::iter::empty()).unwrap();
    (asking.to_string(), Begin { inquiry, runs: Vec::new(), query: Query::default(), revision: 0, now: 5 })
}

fn jobs(patience: Duration) -> Arc<Jobs> {
    let (_, stopping) = watch::channel(false);
    Arc::new(Jobs { queue: Mutex::default(), patience, stopping })
}

/// Keeps the thread from taking jobs, so that they stay open.
fn held(jobs: &Jobs) {
    jobs.lock().busy = true;
}

fn sample_runs() -> Vec<Arc<Run>> {
    Library::load(vec![concat!(env!("CARGO_MANIFEST_DIR"), "/sample_runs").into()]).runs()
}

#[tokio::test]
async fn the_same_question_is_one_job_until_it_is_asked_again() {
    let jobs = jobs(PATIENCE);
    let (id, begin) = question("max_steps=3");
    let first = jobs.begin(id.clone(), i64::MIN, begin).unwrap();
    first.ended(PATIENCE).await;
    assert_eq!(first.progress().state, State::Done);
    let again = jobs.begin(id.clone(), i64::MIN, question("max_steps=3").1).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    let anew = jobs.begin(id.clone(), first.number, question("max_steps=3").1).unwrap();
    assert!(anew.number > first.number, "though the clock says the same");
    let twice = jobs.begin(id.clone(), first.number, question("max_steps=3").1).unwrap();
    assert!(Arc::ptr_eq(&anew, &twice), "the link that asks again asks once");
    assert_eq!(jobs.lock().jobs.len(), 1, "the one before is dropped");
}

#[test]
fn only_a_few_are_open_and_a_few_are_kept() {
    let jobs = jobs(PATIENCE);
    held(&jobs);
    let ask = |n: usize| {
        let (id, begin) = question(&format!("max_steps={n}"));
        jobs.begin(id, i64::MIN, begin)
    };
    let open: Vec<Arc<Job>> = (1..=MAX_OPEN).filter_map(ask).collect();
    assert_eq!(open.len(), MAX_OPEN);
    assert!(ask(99).is_none(), "one more is refused");
    open.iter().for_each(|job| job.end(State::Done, 0, None));
    for n in 100..120 {
        ask(n).expect("nothing is open").end(State::Done, 0, None);
    }
    assert_eq!(jobs.lock().jobs.len(), MAX_KEPT);
}

#[test]
fn a_job_ends_when_it_is_cancelled_or_nobody_looks() {
    let stopping = watch::channel(false).1;
    let jobs = jobs(PATIENCE);
    held(&jobs);
    let runs = sample_runs();
    let begin = |rule: &str| {
        let (id, begin) = question(rule);
        jobs.begin(id, i64::MIN, Begin { runs: runs.clone(), ..begin }).unwrap()
    };
    let job = begin("max_steps=3");
    job.cancel();
    job.work(PATIENCE, &stopping);
    let progress = job.progress();
    assert_eq!((progress.state, progress.done, progress.sweep.map(|sweep| sweep.runs)), (State::Cancelled, 0, Some(0)));

    let job = begin("max_steps=4");
    job.work(Duration::ZERO, &stopping);
    assert_eq!(job.progress().state, State::Left);
    assert!(jobs.find(&job.id, i64::MIN).is_none(), "whoever looks again begins it again");

    let job = begin("max_steps=5");
    job.work(PATIENCE, &stopping);
    let progress = job.progress();
    assert_eq!((progress.state, progress.done), (State::Done, runs.len()));
    assert_eq!(progress.sweep.map(|sweep| sweep.runs), Some(runs.len() as u64));
}
