//! Tests which requests share a job, and how jobs end early.

use std::sync::atomic::AtomicUsize;

use crate::page::jobs::*;

/// A task that counts to five.
#[derive(Debug, Default)]
struct Count(AtomicUsize);

impl Task for Count {
    const THREAD: &'static str = "test-count";

    fn work(&self, turn: &mut Turn<'_>) -> State {
        for _ in 0..5 {
            if let Some(ended) = turn.ended() {
                return ended;
            }
            turn.rest();
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        State::Done
    }
}

/// Panics.
struct Fails;

impl Task for Fails {
    const THREAD: &'static str = "test-fails";

    fn work(&self, _: &mut Turn<'_>) -> State {
        panic!("a fault of ours");
    }
}

fn jobs<T: Task>(patience: Duration) -> Arc<Jobs<T>> {
    let (_, stopping) = watch::channel(false);
    Arc::new(Jobs {
        patience,
        ..Jobs::new(stopping)
    })
}

/// Prevents the thread from starting, so that jobs stay open.
fn held(jobs: &Jobs<Count>) {
    jobs.lock().busy = true;
}

fn question(text: &str) -> Question {
    Question {
        text: text.to_owned(),
        times: Vec::new(),
    }
}

fn begin(jobs: &Arc<Jobs<Count>>, id: &str, than: i64) -> Result<Arc<Job<Count>>, WebError> {
    jobs.begin(question(id), than, 5, Count::default())
}

async fn ended<T: Task>(job: &Job<T>) {
    job.wait(PATIENCE, |state| !state.is_open()).await;
}

#[tokio::test]
async fn the_same_question_is_one_job_until_it_is_asked_again() {
    let jobs = jobs(PATIENCE);
    let first = begin(&jobs, "a", i64::MIN).unwrap();
    ended(&first).await;
    assert_eq!(
        (first.state(), first.task.0.load(Ordering::Relaxed)),
        (State::Done, 5)
    );
    let again = begin(&jobs, "a", i64::MIN).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    let anew = begin(&jobs, "a", first.number).unwrap();
    assert!(anew.number > first.number, "even at the same clock time");
    let twice = begin(&jobs, "a", first.number).unwrap();
    assert!(
        Arc::ptr_eq(&anew, &twice),
        "following the link twice starts one job"
    );
    assert_eq!(jobs.lock().jobs.len(), 1, "the previous job is dropped");
}

#[test]
fn only_a_few_are_open_and_a_few_are_kept() {
    let jobs = jobs(PATIENCE);
    held(&jobs);
    let ask = |n: usize| begin(&jobs, &n.to_string(), i64::MIN);
    let open: Vec<Arc<Job<Count>>> = (1..=MAX_OPEN).flat_map(ask).collect();
    assert_eq!(open.len(), MAX_OPEN);
    assert!(ask(99).is_err(), "one more is refused");
    open.iter().for_each(|job| job.life.end(State::Done));
    for n in 100..120 {
        ask(n).expect("no job is in progress").life.end(State::Done);
    }
    assert_eq!(jobs.lock().jobs.len(), MAX_KEPT);
}

#[test]
fn a_job_ends_when_it_is_cancelled_or_nobody_looks() {
    let stopping = watch::channel(false).1;
    let jobs = jobs(PATIENCE);
    held(&jobs);
    let job = begin(&jobs, "a", i64::MIN).unwrap();
    job.cancel();
    assert_eq!(
        job.state(),
        State::Cancelled,
        "cancelled without waiting for its turn"
    );
    job.work(PATIENCE, &stopping);
    assert_eq!(
        (job.state(), job.task.0.load(Ordering::Relaxed)),
        (State::Cancelled, 0)
    );

    let job = begin(&jobs, "under way", i64::MIN).unwrap();
    assert!(job.life.pass(State::Waiting, State::Running));
    job.cancel();
    let turn = Turn {
        life: &job.life,
        patience: PATIENCE,
        stopping: &stopping,
        slice: Instant::now(),
    };
    assert_eq!(
        (job.state(), turn.ended()),
        (State::Running, Some(State::Cancelled)),
        "the task decides when to end"
    );
    turn.mark_partial();
    assert_eq!(job.state(), State::Partial);

    let job = begin(&jobs, "b", i64::MIN).unwrap();
    job.work(Duration::ZERO, &stopping);
    assert_eq!(job.state(), State::Abandoned);
    assert!(
        jobs.find(&question("b"), i64::MIN).is_none(),
        "the next request starts it again"
    );

    let job = begin(&jobs, "c", i64::MIN).unwrap();
    job.work(PATIENCE, &watch::channel(true).1);
    assert_eq!(job.state(), State::Abandoned, "the server stops");
}

/// The clock only advances when everything waits for it.
#[tokio::test(start_paused = true)]
async fn a_person_waits_for_a_full_page_and_a_program_for_the_end() {
    let jobs = jobs(PATIENCE);
    held(&jobs);
    let job = begin(&jobs, "a", i64::MIN).unwrap();
    assert!(job.life.pass(State::Waiting, State::Running));
    let stopping = watch::channel(false).1;
    let turn = Turn {
        life: &job.life,
        patience: PATIENCE,
        stopping: &stopping,
        slice: Instant::now(),
    };
    let waited = async |is_program: bool, enough: usize| {
        let (began, params) = (tokio::time::Instant::now(), Params::default());
        let make = || Ok::<_, WebError>(Count::default());
        let is_enough = |count: &Count| count.0.load(Ordering::Relaxed) >= enough;
        let asked = if is_program {
            jobs.ask_for_program(&params, question("a"), make).await
        } else {
            jobs.ask(&params, question("a"), make, is_enough).await
        };
        assert!(asked.is_ok_and(|asked| Arc::ptr_eq(&asked, &job)));
        began.elapsed().as_millis()
    };
    let (all, most) = (WAIT.as_millis(), (WAIT + WAIT_MORE).as_millis());
    assert_eq!(waited(false, 0).await, most);
    turn.mark_partial();
    assert_eq!(waited(false, 1).await, all);
    job.task.0.store(1, Ordering::Relaxed);
    assert_eq!(waited(false, 1).await, WAIT_WITH_ENOUGH.as_millis());
    assert_eq!(waited(false, 2).await, all);
    assert_eq!(waited(true, 0).await, all + WAIT_FOR_PROGRAM.as_millis());
    // More results end the waiting.
    let more = async {
        tokio::time::sleep(WAIT / 2).await;
        job.task.0.store(2, Ordering::Relaxed);
        turn.mark_partial();
    };
    let (waited_for_more, ()) = tokio::join!(waited(false, 2), more);
    assert_eq!(waited_for_more, (WAIT / 2).as_millis());
    job.life.end(State::Done);
    assert_eq!(waited(true, 9).await, 0);
}

#[tokio::test]
async fn a_fault_ends_its_own_job_and_not_the_thread() {
    let jobs = jobs(PATIENCE);
    for id in ["a", "b"] {
        let job = jobs.begin(question(id), i64::MIN, 5, Fails).unwrap();
        ended(&job).await;
        assert_eq!(job.state(), State::Failed);
    }
}

#[test]
fn a_question_about_another_time_is_another_job_once_nobody_follows_the_old_one() {
    let at = |minute: i64| Question {
        times: vec![minute],
        ..question("a")
    };
    let follow = |patience| {
        let jobs = jobs(patience);
        held(&jobs);
        let job = jobs.begin(at(1), i64::MIN, 5, Count::default()).unwrap();
        job.life.end(State::Done);
        let found = |minute| jobs.find(&at(minute), i64::MIN).is_some();
        (found(1), found(2))
    };
    assert_eq!(follow(PATIENCE), (true, true));
    assert_eq!(follow(Duration::ZERO), (true, false));
}
