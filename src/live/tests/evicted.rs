//! Tests runs whose files were evicted from the cache of their store.

use super::*;
use crate::mirror::fake::{Fake, settled, until};

/// Uploads a run that ended, with a modification time `hours` later.
fn put_run(store: &Fake, key: &str, hours: u32) {
    let dir = tempfile::tempdir().unwrap();
    let run = write_old_run(dir.path(), key, "count");
    for file in ["manifest.json", "events.jsonl", "steps.jsonl"] {
        store.put_at(
            &format!("runs/{key}/{file}"),
            &fs::read(run.join(file)).unwrap(),
            hours,
        );
    }
}

/// Follows the store with room for a single run.
fn follow(store: &Fake, cache: &Path) -> Arc<Mirror> {
    let mirror = Arc::new(store.follow(Some(cache), 300));
    settled(&mirror);
    mirror
}

/// Returns a scanner that has scanned everything, and its shared state.
fn looked(mirror: &Arc<Mirror>, cache: &Path) -> (scan::Scanner, Arc<Shared>) {
    let roots = vec![mirror.dir().to_owned()];
    let mirrors = vec![Arc::clone(mirror)];
    let shared = Arc::new(Shared::new(&roots, &mirrors));
    let options = Options {
        poll: Some(Duration::MAX),
        cache: Some(cache.to_owned()),
        mirrors,
        ..Options::default()
    };
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), roots, options);
    scanner.look_at_roots();
    while scanner.read_piece() {}
    (scanner, shared)
}

fn run(shared: &Shared, key: &str) -> Option<Arc<Run>> {
    shared.runs.read().unwrap().get(&RunKey::new(key)).cloned()
}

#[test]
fn the_row_of_an_evicted_run_stays_through_the_next_start_and_its_files_come_again_when_it_is_opened()
 {
    let (store, cache, notes) = (
        Fake::new(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    put_run(&store, "a", 1);
    let mirror = follow(&store, cache.path());
    let (mut scanner, shared) = looked(&mirror, notes.path());
    let before = run(&shared, "a").unwrap();
    assert_eq!(
        (
            before.summary().steps,
            before.is_parked(),
            before.is_evicted()
        ),
        (1, true, false)
    );

    put_run(&store, "b", 2);
    settled(&mirror);
    scanner.look_at_roots();
    while scanner.read_piece() {}
    let known = run(&shared, "a").unwrap();
    assert!(Arc::ptr_eq(&known, &before) && known.is_evicted() && !known.dir().has_files());
    // No scan, hint or refresh loses anything that was read.
    known.refresh(1 << 20);
    scanner.act_on(&hints::Inbox {
        paths: [known.dir().path().to_owned()].into_iter().collect(),
        rescan: true,
        ..hints::Inbox::default()
    });
    assert_eq!((known.summary().steps, known.is_gone()), (1, false));
    assert_eq!(known.summary().verdict, before.summary().verdict);
    // A run that hadn't ended when it was evicted is judged by its last sign of life.
    let dir = tempfile::tempdir().unwrap();
    let steps = write_run(dir.path(), "c", "{}").join("steps.jsonl");
    fs::write(&steps, "{\"step_id\": 0}\n").unwrap();
    let going = Run::new(
        &RunKey::new("c"),
        "c".to_owned(),
        RunDir::alone(steps.parent().unwrap()),
        Duration::ZERO,
    );
    going.refresh(1 << 20);
    assert!(!going.grows_older(), "no time passed");
    let long_ago = going.summary().life.sign.unwrap() - 100 * 86_400_000_000;
    going.set_sign(long_ago);
    assert!(going.grows_older() && !going.grows_older());
    assert_eq!(
        (going.summary().life.liveness.word(), going.summary().steps),
        ("died", 1)
    );

    let unread = known.index_once();
    assert!(
        unread.passing_issues()[0].reason.contains("evicted"),
        "missing files aren't reported as an empty run"
    );
    scanner.read_once();
    drop((known, before, shared, mirror));

    // The store is unavailable when the next board starts.
    store.bucket().down = Some((503, "SlowDown"));
    let mirror = Arc::new(store.follow(Some(cache.path()), 300));
    let (_scanner, shared) = looked(&mirror, notes.path());
    let known = run(&shared, "a").unwrap();
    assert_eq!(
        (
            known.summary().steps,
            known.is_evicted(),
            run(&shared, "b").unwrap().is_evicted()
        ),
        (1, true, false)
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let fetch = || runtime.block_on(known.fetch(tokio::time::Instant::now() + FETCH_PATIENCE));
    assert!(fetch().is_err_and(|why| why.contains("503 SlowDown")));
    until(&mirror, "no downloads are in progress", |status| {
        status.waiting == 0
    });
    store.bucket().down = None;
    assert_eq!(fetch(), Ok(()));
    assert_eq!(
        (known.index().steps().len(), known.is_evicted()),
        (1, false)
    );
}
