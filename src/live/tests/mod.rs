use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use super::run::Run;
use super::*;
use crate::analysis::summary::Summary;
use crate::trace::RunDir;

#[cfg(all(unix, feature = "cloud"))]
mod evicted;
mod indexes;
mod listed;
mod noted;
mod packed;
mod replaced;
mod stored;
mod unpacked;
mod unseen;

fn write_run(root: &std::path::Path, key: &str, manifest: &str) -> PathBuf {
    let dir = root.join(key);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("manifest.json"), manifest).unwrap();
    dir
}

const RUNNING: &str =
    r#"{"run_id": "a", "schema_version": "v1", "status": "running", "summary": {}}"#;

#[test]
fn where_roots_overlap_a_run_is_listed_once() {
    let root = tempfile::tempdir().unwrap();
    write_run(root.path(), "a", "{}");
    write_run(root.path(), "sub/b", "{}");
    let library = Library::load(vec![
        root.path().to_owned(),
        root.path().join("sub"),
        root.path().to_owned(),
    ]);
    let mut dirs: Vec<PathBuf> = library
        .runs()
        .iter()
        .map(|run| run.dir().path().to_owned())
        .collect();
    dirs.dedup();
    assert_eq!((library.runs().len(), dirs.len()), (2, 2));
}

#[test]
fn a_path_is_shown_below_the_root_as_it_was_typed() {
    let root = tempfile::tempdir().unwrap();
    let run = write_run(root.path(), "same/same", "{}");
    let shown = |root: PathBuf| {
        Library::load(vec![root]).runs()[0]
            .summary()
            .path
            .to_string()
    };
    assert_eq!(shown(run.clone()), run.to_string_lossy());
    assert_eq!(shown(root.path().join("same")), run.to_string_lossy());
    let typed = run.join("../same/.");
    assert_eq!(shown(typed.clone()), typed.to_string_lossy());
}

#[test]
fn damage_that_stays_is_told_once() {
    let root = tempfile::tempdir().unwrap();
    for manifest in ["", "{\"run_id\": ", "[1]"] {
        let dir = write_run(root.path(), "a", manifest);
        let run = Run::new(
            &RunKey::new("a"),
            "a".to_owned(),
            RunDir::alone(&dir),
            Duration::ZERO,
        );
        assert!(run.refresh(1 << 20).changed);
        assert!(!run.refresh(1 << 20).changed, "{manifest}");
    }
}

#[cfg(unix)]
#[test]
fn a_root_that_leads_elsewhere_keeps_a_run_of_the_same_name() {
    let (old, new, base) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    write_run(old.path(), "a", "{}");
    let moved = write_run(new.path(), "a", "{}");
    let link = base.path().join("runs");
    std::os::unix::fs::symlink(old.path(), &link).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&link), &[]));
    let mut scanner =
        scan::Scanner::new(Arc::clone(&shared), vec![link.clone()], Options::default());
    scanner.look_at_roots();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(new.path(), &link).unwrap();
    scanner.look_at_roots();
    let runs = shared.runs.read().unwrap();
    let dirs: Vec<PathBuf> = runs
        .values()
        .map(|run| run.dir().path().to_owned())
        .collect();
    assert_eq!(dirs, [fs::canonicalize(moved).unwrap()]);
}

#[test]
fn a_run_that_comes_is_at_once_among_those_to_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
    let mut scanner =
        scan::Scanner::new(Arc::clone(&shared), vec![root.clone()], Options::default());
    scanner.look_at_roots();
    let run = write_run(&root, "a", "{}");
    scanner.look_below(&run, std::time::Instant::now());
    assert_eq!(
        (
            shared.runs.read().unwrap().len(),
            shared.status.read().unwrap().indexing
        ),
        (1, 1)
    );
}

/// Writes a run with `task` that ended an hour ago.
fn write_old_run(root: &std::path::Path, key: &str, task: &str) -> PathBuf {
    let manifest = format!(
        r#"{{"run_id": "{key}", "schema_version": "v1", "status": "completed", "summary": {{"stop_reason": "final"}}}}"#
    );
    let dir = write_run(root, key, &manifest);
    let events = format!(
        "{{\"phase\": \"INIT\", \"payload\": {{\"task\": \"{task}\"}}}}\n{{\"phase\": \"END\"}}\n"
    );
    fs::write(dir.join("events.jsonl"), events).unwrap();
    fs::write(dir.join("steps.jsonl"), "{\"step_id\": 0}\n").unwrap();
    for file in ["manifest.json", "events.jsonl", "steps.jsonl"] {
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        fs::File::options()
            .append(true)
            .open(dir.join(file))
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    }
    dir
}

/// Starts a board with the index cache in `cache`, and returns the key and the task of each run and
/// the number of runs that it had to read.
fn start(root: &std::path::Path, cache: &std::path::Path) -> Vec<(String, Option<String>, usize)> {
    let roots = [root.to_owned()];
    let shared = Arc::new(Shared::new(&roots, &[]));
    let options = Options {
        poll: Some(Duration::MAX),
        cache: Some(cache.to_owned()),
        ..Options::default()
    };
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), roots.to_vec(), options);
    scanner.look_at_roots();
    let read = scanner.backlog();
    scanner.read_once();
    let runs = shared.runs.read().unwrap();
    runs.values()
        .map(|run| {
            (
                run.key().to_string(),
                run.summary().task.as_deref().map(str::to_owned),
                read,
            )
        })
        .collect()
}

fn set_written(dir: &Path, time: std::time::SystemTime) {
    for file in fs::read_dir(dir).unwrap() {
        let file = fs::File::options().append(true).open(file.unwrap().path());
        file.unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn the_newest_runs_are_read_first_however_long_it_takes_to_know_them() {
    let root = tempfile::tempdir().unwrap();
    let hours = [("a", 5), ("b", 3), ("c", 1), ("d", 2), ("e", 4)];
    let dirs = hours.map(|(key, _)| write_old_run(root.path(), key, "count"));
    for time in [Duration::ZERO, Duration::MAX] {
        let roots = vec![root.path().to_owned()];
        let shared = Arc::new(Shared::new(&roots, &[]));
        let options = Options {
            poll: Some(Duration::MAX),
            threads: NonZero::new(1),
            ..Options::default()
        };
        let mut scanner = scan::Scanner::new(Arc::clone(&shared), roots, options);
        let same_time = std::time::SystemTime::now() - Duration::from_secs(24 * 3_600);
        dirs.iter().for_each(|dir| set_written(dir, same_time));
        scanner.look_at_roots();
        for (dir, (_, hours)) in dirs.iter().zip(hours) {
            let before = Duration::from_secs(hours * 3_600);
            set_written(dir, std::time::SystemTime::now() - before);
        }
        scanner.sort_backlog(time);
        scanner.wait_for_order();
        let mut order = Vec::new();
        while scanner.backlog() > 0 {
            scanner.read_piece();
            let runs = shared.runs.read().unwrap();
            let read = runs.values().filter(|run| run.is_known());
            let fresh = read.map(|run| run.key().to_string());
            let fresh: Vec<_> = fresh.filter(|key| !order.contains(key)).collect();
            order.extend(fresh);
        }
        assert_eq!(order, ["c", "d", "b", "e", "a"], "{time:?}");
    }
}

fn cache_file(cache: &std::path::Path) -> PathBuf {
    let files = fs::read_dir(cache).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    paths.find(|path| path.is_file()).unwrap()
}

#[test]
fn a_second_start_reads_only_what_changed() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_old_run(root.path(), "a", "count");
    let b = write_old_run(root.path(), "b", "add");
    let known = |a: &str, b: &str, read| {
        vec![
            ("a".to_owned(), Some(a.to_owned()), read),
            ("b".to_owned(), Some(b.to_owned()), read),
        ]
    };
    assert_eq!(start(root.path(), cache.path()), known("count", "add", 2));
    assert_eq!(start(root.path(), cache.path()), known("count", "add", 0));
    // The same size and modification time, as after a copy that preserves times.
    write_old_run(root.path(), "b", "ADD");
    assert_eq!(start(root.path(), cache.path()), known("count", "ADD", 1));
    fs::remove_dir_all(b).unwrap();
    assert_eq!(start(root.path(), cache.path()), known("count", "", 0)[..1]);
}

#[test]
fn a_second_start_does_not_read_what_died_long_ago_and_knows_for_how_long_it_is_silent() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = write_old_run(root.path(), "a", "count");
    fs::remove_file(dir.join("manifest.json")).unwrap();
    fs::write(
        dir.join("events.jsonl"),
        "{\"phase\": \"INIT\", \"ts\": \"2020-01-01T00:00:00+00:00\"}\n",
    )
    .unwrap();
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options()
        .append(true)
        .open(dir.join("events.jsonl"))
        .unwrap()
        .set_modified(hour_ago)
        .unwrap();
    assert_eq!(
        start(root.path(), cache.path()),
        [("a".to_owned(), None, 1)]
    );
    assert_eq!(
        start(root.path(), cache.path()),
        [("a".to_owned(), None, 0)]
    );
    let root = fs::canonicalize(root.path()).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
    let options = Options {
        cache: Some(cache.path().to_owned()),
        ..Options::default()
    };
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), vec![root], options);
    scanner.look_at_roots();
    let life = shared.runs.read().unwrap()[&RunKey::new("a")]
        .summary()
        .life
        .clone();
    let silence = run::now() - life.sign.unwrap();
    assert_eq!(life.liveness.word(), "died");
    assert!(
        life.silence
            .is_some_and(|told| told <= silence && silence - told < 600_000_000),
        "{life:?}"
    );
}

#[test]
fn a_cache_that_is_odd_is_as_good_as_none() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_old_run(root.path(), "a", "count");
    let told = |read| vec![("a".to_owned(), Some("count".to_owned()), read)];
    assert_eq!(start(root.path(), cache.path()), told(1));
    let good = fs::read_to_string(cache_file(cache.path())).unwrap();
    fs::write(cache_file(cache.path()), good.replace("count", "other")).unwrap();
    assert_eq!(
        start(root.path(), cache.path()),
        told(1),
        "the checksum doesn't match"
    );
    let half = &good[..good.len() / 2];
    let (head, rest) = good.split_once('\n').unwrap();
    let size = std::env::current_exe()
        .unwrap()
        .metadata()
        .unwrap()
        .len()
        .to_string();
    let another_build = format!("{}\n{rest}", head.replace(&size, "1"));
    for odd in [
        "",
        "\n",
        "{}",
        half,
        &another_build,
        &good.replace("\"dir\"", "\"directory\""),
    ] {
        fs::write(cache_file(cache.path()), odd).unwrap();
        assert_eq!(start(root.path(), cache.path()), told(1), "{odd}");
    }
    fs::write(cache_file(cache.path()), [0xff, 0xfe, b'\n']).unwrap();
    assert_eq!(start(root.path(), cache.path()), told(1));
}

#[test]
fn a_run_that_ended_is_parked_and_read_again_when_somebody_asks_or_it_changes() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        RunDir::alone(&dir),
        Duration::ZERO,
    );
    assert!(run.refresh(1 << 20).changed);
    assert!(run.park(false) && run.is_parked());
    assert!(!run.refresh(1 << 20).changed, "nothing happened");
    assert!(run.is_parked());
    assert_eq!(run.index_once().steps().len(), 1);
    assert!(run.is_parked(), "a single query doesn't keep it open");
    write_second_step(&dir);
    assert!(run.refresh(1 << 20).changed);
    assert_eq!(
        (
            run.is_parked(),
            run.summary().steps,
            run.index().steps().len()
        ),
        (false, 2, 2)
    );
    assert!(!run.park(false), "it just changed and has a viewer");
}

#[test]
fn what_a_parked_run_became_is_told_even_if_a_page_saw_it_first() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        RunDir::alone(&dir),
        Duration::ZERO,
    );
    run.refresh(1 << 20);
    assert!(run.park(false));
    write_second_step(&dir);
    assert_eq!((run.index().steps().len(), run.summary().steps), (2, 2));
    assert!(run.refresh(1 << 20).changed);
    assert_eq!(run.summary().steps, 2);
}

#[test]
fn a_run_with_a_file_that_cannot_be_read_stays_open_and_is_told_of_once() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    fs::remove_file(dir.join("events.jsonl")).unwrap();
    fs::create_dir(dir.join("events.jsonl")).unwrap();
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        RunDir::alone(&dir),
        Duration::ZERO,
    );
    assert!(run.refresh(1 << 20).changed);
    assert!(
        !run.park(false),
        "a reader that starts later may find it readable"
    );
    for _ in 0..3 {
        assert!(!run.refresh(1 << 20).changed);
    }
    fs::remove_dir(dir.join("events.jsonl")).unwrap();
    fs::write(dir.join("events.jsonl"), "{\"phase\": \"END\"}\n").unwrap();
    assert!(run.refresh(1 << 20).changed);
    assert_eq!(run.summary().events, 1);
}

#[cfg(unix)]
#[test]
fn other_rights_on_its_files_do_not_revive_a_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    fs::write(dir.join("manifest.json"), RUNNING).unwrap();
    let started = "{\"phase\": \"INIT\", \"ts\": \"2020-01-01T00:00:00+00:00\"}\n";
    fs::write(dir.join("events.jsonl"), started).unwrap();
    for file in ["manifest.json", "events.jsonl"] {
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        fs::File::options()
            .append(true)
            .open(dir.join(file))
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    }
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        RunDir::alone(&dir),
        Duration::ZERO,
    );
    run.refresh(1 << 20);
    assert_eq!(
        (run.summary().life.liveness.word(), run.park(false)),
        ("died", true)
    );
    fs::set_permissions(dir.join("steps.jsonl"), fs::Permissions::from_mode(0o600)).unwrap();
    run.refresh(1 << 20);
    assert!(!run.is_parked(), "the change was noticed");
    run.refresh(1 << 20);
    assert_eq!(run.summary().life.liveness.word(), "died");
}

#[test]
fn a_run_that_may_go_on_is_parked_while_memory_is_short_and_read_again_when_it_does() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    fs::write(dir.join("manifest.json"), RUNNING).unwrap();
    fs::write(dir.join("events.jsonl"), "{\"phase\": \"INIT\"}\n").unwrap();
    for file in ["manifest.json", "events.jsonl"] {
        let before = std::time::SystemTime::now() - Duration::from_secs(20);
        fs::File::options()
            .append(true)
            .open(dir.join(file))
            .unwrap()
            .set_modified(before)
            .unwrap();
    }
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        RunDir::alone(&dir),
        Duration::ZERO,
    );
    run.refresh(1 << 20);
    assert!(run.summary().life.liveness.may_grow());
    assert!(!run.park(false) && run.park(true) && run.is_parked());
    assert_eq!(run.summary().steps, 1);
    write_second_step(&dir);
    run.refresh(1 << 20);
    assert_eq!((run.is_parked(), run.summary().steps), (false, 2));
}

/// Returns a scanner that has scanned `root`, and its run `a`.
fn scanned(root: &std::path::Path) -> (Arc<Shared>, scan::Scanner, Arc<Run>) {
    let root = fs::canonicalize(root).unwrap();
    let shared = Arc::new(Shared::new(std::slice::from_ref(&root), &[]));
    let mut scanner = scan::Scanner::new(Arc::clone(&shared), vec![root], Options::default());
    scanner.look_at_roots();
    let run = Arc::clone(&shared.runs.read().unwrap()[&RunKey::new("a")]);
    scanner.refresh(&run);
    (shared, scanner, run)
}

fn write_second_step(dir: &Path) {
    fs::write(
        dir.join("steps.jsonl"),
        "{\"step_id\": 0}\n{\"step_id\": 1}\n",
    )
    .unwrap();
}

#[test]
fn after_lost_events_every_run_is_looked_at_at_once() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    let (_shared, mut scanner, run) = scanned(root.path());
    write_second_step(&dir);
    scanner.act_on(&hints::Inbox::default());
    scanner.check_urgent();
    assert_eq!(run.summary().steps, 1, "no event reported it");
    scanner.act_on(&hints::Inbox {
        lost: true,
        ..hints::Inbox::default()
    });
    scanner.check_urgent();
    assert_eq!(run.summary().steps, 2);
}

/// Writes steps of 100 KB each into a run, and makes its files look old.
fn write_many_steps(dir: &Path, steps: usize) {
    let text = "x".repeat(100_000);
    let lines: String = (0..steps)
        .map(|id| format!("{{\"step_id\": {id}, \"text\": \"{text}\"}}\n"))
        .collect();
    fs::write(dir.join("steps.jsonl"), lines).unwrap();
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options()
        .append(true)
        .open(dir.join("steps.jsonl"))
        .unwrap()
        .set_modified(hour_ago)
        .unwrap();
}

fn append(path: &Path, line: &str) {
    use std::io::Write as _;
    fs::File::options()
        .append(true)
        .open(path)
        .unwrap()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

#[test]
fn a_large_run_that_changed_keeps_no_other_waiting() {
    const STEPS: usize = 300;
    let root = tempfile::tempdir().unwrap();
    let large = write_old_run(root.path(), "a", "count");
    write_many_steps(&large, STEPS);
    let small = write_old_run(root.path(), "b", "count");
    let (shared, mut scanner, run) = scanned(root.path());
    while scanner.read_piece() {}
    assert!(run.is_parked());
    let other = Arc::clone(&shared.runs.read().unwrap()[&RunKey::new("b")]);
    let hear = |scanner: &mut scan::Scanner, dir: &Path| {
        let paths = [fs::canonicalize(dir).unwrap().join("steps.jsonl")]
            .into_iter()
            .collect();
        scanner.act_on(&hints::Inbox {
            paths,
            ..hints::Inbox::default()
        });
    };
    append(&large.join("steps.jsonl"), "{}");
    hear(&mut scanner, &large);
    let told = run.revision_now();
    for round in 1..=4 {
        append(&small.join("steps.jsonl"), "{}");
        hear(&mut scanner, &small);
        assert_eq!(other.summary().steps, 1 + round);
        assert!(other.revision_now() > told, "followers are notified");
        // The old summary of the large run stays until it's completely read.
        assert_eq!(
            (run.summary().steps, run.summary().partial, run.is_parked()),
            (STEPS, true, true)
        );
        assert_eq!(run.revision_now(), told, "its followers aren't notified");
        assert!(scanner.read_piece());
    }
    while scanner.read_piece() {}
    assert_eq!(
        (run.summary().steps, run.summary().partial, run.is_parked()),
        (STEPS + 1, false, false)
    );
    assert!(run.revision_now() > told);
}

#[test]
fn a_page_goes_on_where_the_slices_of_a_large_run_came_to() {
    const STEPS: usize = 200;
    let root = tempfile::tempdir().unwrap();
    let large = write_old_run(root.path(), "a", "count");
    write_many_steps(&large, STEPS);
    let (_shared, mut scanner, run) = scanned(root.path());
    while scanner.read_piece() {}
    append(&large.join("steps.jsonl"), "{}");
    scanner.refresh(&run);
    assert!(run.is_parked());
    assert_eq!(
        (run.index().steps().len(), run.index().is_partial()),
        (STEPS + 1, false)
    );
    assert!(!run.is_parked());
    while scanner.read_piece() {}
    assert_eq!(
        (run.summary().steps, run.summary().partial),
        (STEPS + 1, false)
    );
}

#[test]
fn while_a_large_run_is_read_for_the_first_time_news_of_it_is_seldom() {
    let root = tempfile::tempdir().unwrap();
    let large = write_old_run(root.path(), "a", "count");
    write_many_steps(&large, 500);
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        RunDir::alone(&large),
        Duration::ZERO,
    );
    let start = Instant::now();
    let (mut told, mut looks) = (0, 0);
    loop {
        let news = run.refresh(1);
        told += usize::from(news.changed);
        looks += 1;
        if !news.more {
            break;
        }
    }
    // The first, the last, and two per second in between.
    let most = 2 + start.elapsed().as_millis() / run::SUM_EVERY.as_millis();
    assert!(
        looks > 40 && (2..=most).contains(&(told as u128)),
        "{told} of {looks}, at most {most}"
    );
    assert_eq!((run.summary().steps, run.summary().partial), (500, false));
}

#[test]
fn what_is_written_before_the_system_tells_of_changes_is_seen() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    let (shared, mut scanner, run) = scanned(root.path());
    write_second_step(&dir);
    scanner.lose_events("the limit on watches");
    scanner.look_at_roots();
    assert_eq!(
        shared.status.read().unwrap().mode,
        Mode::Poll("the limit on watches".to_owned())
    );
    scanner.ask_again();
    assert_eq!(
        shared.status.read().unwrap().mode,
        Mode::Native,
        "the obstacle is gone"
    );
    scanner.check_urgent();
    assert_eq!(run.summary().steps, 2);
}

#[test]
fn what_a_wrong_clock_made_of_a_run_is_mended_when_the_clock_is() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    fs::write(dir.join("manifest.json"), RUNNING).unwrap();
    fs::write(dir.join("events.jsonl"), "{\"phase\": \"INIT\"}\n").unwrap();
    let (_shared, mut scanner, run) = scanned(root.path());
    assert_eq!(run.summary().life.liveness.word(), "running");
    let stamps = crate::trace::Stamps::of(run.dir()).unwrap();
    let summary = crate::analysis::summary::Summary::clone(&run.summary());
    let life = summary.life.clone().at(run::now() + 3_600_000_000, None);
    assert_eq!(life.liveness.word(), "died");
    let wrong = Run::parked(
        run.dir().clone(),
        Duration::ZERO,
        stamps.into(),
        Summary { life, ..summary },
    );
    assert!(wrong.refresh(1 << 20).changed);
    assert_eq!(wrong.summary().life.liveness.word(), "running");
    scanner.set_clock(i64::MAX);
    scanner.look_at_runs();
    assert!(scanner.owes(), "every run is re-evaluated");
}

#[test]
fn a_run_that_cannot_be_read_for_a_fault_of_the_board_harms_no_other() {
    let root = tempfile::tempdir().unwrap();
    let dir = write_old_run(root.path(), "a", "count");
    let (_shared, mut scanner, run) = scanned(root.path());
    run.set_fault(|| panic!("played"));
    scanner.refresh(&run);
    let told = |run: &Run| {
        run.index()
            .passing_issues()
            .iter()
            .any(|issue| issue.reason.contains("bug in board"))
    };
    assert!(told(&run));
    scanner.refresh(&run);
    assert!(told(&run), "its files didn't change");
    write_second_step(&dir);
    scanner.refresh(&run);
    assert_eq!((told(&run), run.summary().steps), (false, 2));
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain: {what}"
        );
        std::thread::yield_now();
    }
}

/// Returns a library on `root` whose scan thread quickly counts as stalled.
fn impatient(root: &std::path::Path) -> Library {
    let roots = vec![root.to_owned()];
    let shared = Shared {
        patience: Duration::from_millis(1500),
        ..Shared::new(&roots, &[])
    };
    Library::follow(shared, roots, Options::default())
}

#[test]
fn a_scan_thread_that_fails_is_started_again_and_that_is_told() {
    let root = tempfile::tempdir().unwrap();
    write_run(root.path(), "a", "{}");
    let library = impatient(root.path());
    until("the run is found", || library.run("a").is_some());
    let before = library.run("a").unwrap();
    *library.shared.fault.lock().unwrap() = Some(|| panic!("played"));
    until("the failure is reported", || {
        library
            .status()
            .stalled
            .is_some_and(|why| why.contains("failed"))
    });
    until("the run is found again", || {
        library
            .run("a")
            .is_some_and(|run| !Arc::ptr_eq(&run, &before))
    });
    assert!(before.is_gone(), "followers look it up again");
    until("the status recovers", || library.status().stalled.is_none());
    assert_eq!(library.status().restarts, 1);
}

#[test]
fn a_scan_thread_that_hangs_is_told_and_keeps_nobody_from_closing() {
    static GATE: Mutex<()> = Mutex::new(());
    let hang: fn() = || drop(GATE.lock());
    let root = tempfile::tempdir().unwrap();
    let library = impatient(root.path());
    let closed = GATE.lock().unwrap();
    *library.shared.fault.lock().unwrap() = Some(hang);
    until("the failure is reported", || {
        library
            .status()
            .stalled
            .is_some_and(|why| why.contains("scanning the roots"))
    });
    drop(closed);
    until("the status recovers", || library.status().stalled.is_none());
    let closed = GATE.lock().unwrap();
    *library.shared.fault.lock().unwrap() = Some(hang);
    until("the stall is reported again", || {
        library.status().stalled.is_some()
    });
    library.close();
    drop(closed);
}
