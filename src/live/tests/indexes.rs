//! Tests the stored indexes of large runs. In tests, those of small runs are stored, too.

use super::*;
use crate::live::stored_indexes::StoredIndexes;
use crate::model::{Format, Index};
use crate::trace::{Stamps, StampsHash};

fn open_store(cache: &Path) -> Arc<StoredIndexes> {
    let threads = NonZero::new(2).unwrap();
    Arc::new(StoredIndexes::open(cache, threads).unwrap())
}

fn stamps_of(run: &Run) -> StampsHash {
    Stamps::of(run.dir()).unwrap().into()
}

/// Returns a run that was read and parked, and whose index is in `store`.
fn parked(dir: &Path, store: &Arc<StoredIndexes>) -> Arc<Run> {
    let dir = RunDir::alone(dir);
    let run = Run::new(&RunKey::new("a"), "a".to_owned(), dir, Duration::ZERO);
    let run = Arc::new(run.stored_in(Some(Arc::clone(store))));
    assert!(run.refresh(1 << 20).changed);
    assert!(run.park(true));
    store.wait();
    run
}

/// Reads the run as the scan thread does, until nothing is left.
fn read_to_the_end(run: &Run) -> bool {
    let mut changed = false;
    loop {
        let news = run.refresh(1 << 20);
        changed |= news.changed;
        if !news.more {
            return changed;
        }
    }
}

#[test]
fn indexes_of_all_samples_are_read_back_as_they_were_stored() {
    let cache = tempfile::tempdir().unwrap();
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut roots = vec![home.join("sample_runs"), home.join("tests/cases")];
    roots.extend(std::env::var_os("BOARD_AGENTS").map(PathBuf::from));
    let library = Library::load(roots);
    let store = open_store(cache.path());
    let (mut formats, mut missing) = (std::collections::BTreeSet::new(), Vec::new());
    for run in library.runs() {
        let (index, stamps) = (run.index_once(), stamps_of(&run));
        if run.dir().is_document() {
            continue;
        }
        store.store(run.dir(), stamps, Arc::clone(&index));
        store.wait();
        // Another store doesn't know the index in memory.
        match open_store(cache.path()).load(run.dir(), stamps) {
            Some(found) => {
                assert!(found == index, "{}", run.key());
                assert!(found.format() == index.format());
                formats.insert(index.format().name);
            }
            None => missing.push(run.key().to_string()),
        }
    }
    assert!(formats.len() > 15, "{formats:?}");
    assert!(formats.contains("board") && formats.contains("Claude Code session"));
    assert_eq!(missing, [""; 0]);
}

#[test]
fn an_index_that_is_in_memory_is_found() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A file in the directory's place: the index never gets there.
    fs::write(cache.path().join("indexes"), "").unwrap();
    let store = open_store(cache.path());
    let dir = RunDir::alone(&write_old_run(root.path(), "a", "count"));
    let run = Run::new(
        &RunKey::new("a"),
        "a".to_owned(),
        dir.clone(),
        Duration::ZERO,
    );
    assert!(run.refresh(1 << 20).changed);
    let (index, stamps) = (run.index(), stamps_of(&run));
    assert!(store.load(&dir, stamps).is_none());
    store.store(&dir, stamps, Arc::clone(&index));
    let found = store.load(&dir, stamps).unwrap();
    assert!(Arc::ptr_eq(&found, &index));
    store.wait();
    drop((run, found, index));
    assert!(store.load(&dir, stamps).is_none());
}

#[test]
fn a_stored_index_is_shown_without_reading_until_the_files_change() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = write_old_run(root.path(), "a", "count");
    let store = open_store(cache.path());
    let run = parked(&dir, &store);
    assert_eq!(run.index_once().steps().len(), 1);
    assert!(run.is_parked(), "a single query doesn't keep it");
    assert_eq!(run.index().steps().len(), 1);
    assert!(run.has_stored_index());
    assert_eq!(run.stamps(), Some(stamps_of(&run)), "its row is valid");
    assert!(!read_to_the_end(&run), "nothing happened");
    assert!(run.has_stored_index());
    assert!(!run.park(false), "it was just used");
    assert!(run.park(true) && run.is_parked());

    assert_eq!(run.index().steps().len(), 1);
    write_second_step(&dir);
    assert!(read_to_the_end(&run));
    assert!(!run.has_stored_index());
    assert_eq!(run.index().steps().len(), 2);
    assert_eq!((run.corrections(), run.summary().partial), (0, false));
}

#[test]
fn the_life_of_a_run_goes_on_while_its_stored_index_is_shown() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = write_old_run(root.path(), "a", "count");
    fs::remove_file(dir.join("manifest.json")).unwrap();
    let begins = "{\"phase\": \"INIT\", \"ts\": \"2020-01-01T00:00:00+00:00\"}\n";
    fs::write(dir.join("events.jsonl"), begins).unwrap();
    set_written(
        &dir,
        std::time::SystemTime::now() - Duration::from_secs(3_600),
    );
    let store = open_store(cache.path());
    let run = parked(&dir, &store);
    drop(run.index());
    assert!(run.has_stored_index());
    let sign = run.summary().life.sign.unwrap();
    run.set_sign(sign - 600_000_000);
    assert!(run.refresh(1 << 20).changed);
    assert_eq!(run.summary().life.sign, Some(sign));
    assert!(run.has_stored_index(), "nothing was read");
}

#[test]
fn a_stored_index_that_disagrees_with_the_row_is_not_used() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = write_old_run(root.path(), "a", "count");
    let store = open_store(cache.path());
    let run = parked(&dir, &store);
    let honest = run.summary();
    let other = parked(&write_old_run(root.path(), "b", "something else"), &store);
    let of_other = other.index_once();
    for lie in [Arc::new(Index::default()), of_other] {
        store.remove_all();
        store.store(run.dir(), stamps_of(&run), lie);
        store.wait();
        assert!(store.load(run.dir(), stamps_of(&run)).is_some());
        assert_eq!(run.index().steps().len(), 1);
        assert!(!run.has_stored_index());
        assert_eq!(run.summary().task, honest.task);
        assert!(run.park(true));
        store.wait();
    }
}

#[test]
fn a_run_that_changed_since_is_read_again() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = write_old_run(root.path(), "a", "count");
    let store = open_store(cache.path());
    let run = parked(&dir, &store);
    write_second_step(&dir);
    assert_eq!(run.index_once().steps().len(), 2);
    assert_eq!(run.index().steps().len(), 2);
    assert_eq!(run.corrections(), 0);
}

#[test]
fn an_odd_stored_index_is_as_good_as_none() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = write_old_run(root.path(), "a", "count");
    let store = open_store(cache.path());
    let run = parked(&dir, &store);
    let (place, stamps) = (store.places().remove(0), stamps_of(&run));
    let good = fs::read(&place).unwrap();
    let load = |bytes: &[u8]| {
        fs::write(&place, bytes).unwrap();
        store.load(run.dir(), stamps)
    };
    for at in 0..good.len() {
        assert!(load(&good[..at]).is_none(), "cut at {at}");
        let mut odd = good.clone();
        odd[at] ^= 1 << (at % 8);
        assert!(load(&odd).is_none(), "byte {at} differs");
    }
    assert!(load(&[&good[..], b"\n"].concat()).is_none());
    assert!(load(b"").is_none() && load(b"\n").is_none());
    assert!(load(&good).is_some());
    // A run that isn't readable this way is read.
    fs::write(&place, b"{}\n").unwrap();
    assert_eq!(run.index().steps().len(), 1);
}

#[test]
fn the_oldest_stored_indexes_make_room() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut store = Arc::into_inner(open_store(cache.path())).unwrap();
    store.max_bytes = 0;
    let none = Arc::new(store);
    parked(&write_old_run(root.path(), "a", "count"), &none);
    assert!(none.places().is_empty());

    let all = open_store(cache.path());
    parked(&write_old_run(root.path(), "a", "count"), &all);
    let first = all.places().remove(0);
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    let file = fs::File::options().append(true).open(&first).unwrap();
    file.set_modified(old).unwrap();
    let mut store = Arc::into_inner(open_store(cache.path())).unwrap();
    store.max_bytes = fs::metadata(&first).unwrap().len() * 3 / 2;
    let one = Arc::new(store);
    parked(&write_old_run(root.path(), "b", "count"), &one);
    let left = one.places();
    assert!(left.len() == 1 && left[0] != first, "{left:?}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_or_write_a_stored_index() {
    use std::os::unix::fs::PermissionsExt as _;
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open_store(cache.path());
    let run = parked(&write_old_run(root.path(), "a", "count"), &store);
    let (place, stamps) = (store.places().remove(0), stamps_of(&run));
    let found = fs::metadata(&place).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(store.load(run.dir(), stamps).is_some());
    for mode in [0o620, 0o602, 0o666] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        assert!(store.load(run.dir(), stamps).is_none(), "{mode:o}");
    }
}

#[test]
fn formats_are_found_by_their_names() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = RunDir::alone(&home.join("sample_runs/final"));
    assert_eq!(dir.format_named("QitOS 0.6").name, "QitOS 0.6");
    assert_eq!(*dir.format_named("none"), Format::UNKNOWN);
}
