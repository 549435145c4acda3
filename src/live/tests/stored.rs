//! Tests runs whose records are in several files, as these appear, grow and disappear.

use super::*;

const CASE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/cases/01-cc-resumed-copies"
);
const SHORT: &str = "dca31315-aa17-41ed-8e4b-3cd969215b95.jsonl";
const LONG: &str = "833d90bb-ac8b-416f-8273-4cef0f666e1b.jsonl";

/// Returns a board over `root` that is scanned by hand.
fn board(root: &Path) -> (Arc<Shared>, scan::Scanner) {
    let shared = Arc::new(Shared::new(&[root.to_owned()], &[]));
    let options = Options {
        poll: Some(Duration::MAX),
        ..Options::default()
    };
    (
        Arc::clone(&shared),
        scan::Scanner::new(shared, vec![root.to_owned()], options),
    )
}

/// Scans, and returns each run with its tokens, the run that counts in its place, and the number of
/// copied steps.
fn look(
    shared: &Shared,
    scanner: &mut scan::Scanner,
) -> Vec<(String, Option<u64>, Option<String>, usize)> {
    scanner.look_at_roots();
    scanner.look_at_runs();
    while scanner.read_piece() {}
    scanner.compare_now();
    let runs = shared.runs.read().unwrap();
    let row = |run: &Arc<Run>| {
        let row = run.summary();
        let duplicate = row.relation.duplicate_of.as_ref().map(ToString::to_string);
        (
            row.key.to_string(),
            row.tokens,
            duplicate,
            row.copied_steps(),
        )
    };
    runs.values().map(row).collect()
}

#[test]
fn opening_a_run_that_shares_records_keeps_what_the_others_say_about_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
    for name in [SHORT, LONG] {
        fs::copy(Path::new(CASE).join(name), root.join(name)).unwrap();
        fs::File::options()
            .write(true)
            .open(root.join(name))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    let library = Library::load(vec![root]);
    let copied: usize = library
        .runs()
        .iter()
        .map(|run| run.summary().copied_steps())
        .sum();
    assert_eq!(copied, 2);
    for run in library.runs() {
        let before = run.summary();
        assert!(run.is_parked() || run.park(true), "{}", run.key());
        drop(run.index());
        assert!(run.summary().is_same_but_for_time(&before), "{}", run.key());
        assert_eq!(
            (run.summary().relation.clone(), run.corrections()),
            (before.relation.clone(), 0),
            "{}",
            run.key()
        );
    }
}

#[test]
fn a_copy_that_comes_grows_and_goes_changes_what_counts() {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap();
    let text = |name: &str| fs::read_to_string(Path::new(CASE).join(name)).unwrap();
    let (short, long) = (text(SHORT), text(LONG));
    let (shared, mut scanner) = board(&root);
    fs::write(root.join("long.jsonl"), &long).unwrap();
    let row = |key: &str, tokens, duplicate: Option<&str>, copied| {
        (
            key.to_owned(),
            Some(tokens),
            duplicate.map(str::to_owned),
            copied,
        )
    };
    assert_eq!(
        look(&shared, &mut scanner),
        [row("long.jsonl", 3_533, None, 0)]
    );
    // The session that it continues appears.
    fs::write(root.join("short.jsonl"), &short).unwrap();
    let both = [
        row("long.jsonl", 1_222, None, 2),
        row("short.jsonl", 2_311, None, 0),
    ];
    assert_eq!(look(&shared, &mut scanner), both);
    let revision = shared
        .runs
        .read()
        .unwrap()
        .values()
        .map(|run| run.revision_now())
        .max();
    assert_eq!(
        (look(&shared, &mut scanner), revision),
        (
            both.to_vec(),
            shared
                .runs
                .read()
                .unwrap()
                .values()
                .map(|run| run.revision_now())
                .max()
        ),
        "no news means no change"
    );
    // A copy of it appears in another project folder.
    fs::create_dir(root.join("other")).unwrap();
    fs::write(root.join("other/long.jsonl"), &long).unwrap();
    let three = look(&shared, &mut scanner);
    let counted: u64 = three
        .iter()
        .filter(|row| row.2.is_none())
        .filter_map(|row| row.1)
        .sum();
    assert_eq!(
        (three.len(), counted, three[1].2.as_deref()),
        (3, 3_533, Some("long.jsonl"))
    );
    // The first one disappears, and then the session that both continue.
    fs::remove_file(root.join("long.jsonl")).unwrap();
    assert_eq!(
        look(&shared, &mut scanner),
        [
            row("other/long.jsonl", 1_222, None, 2),
            row("short.jsonl", 2_311, None, 0)
        ]
    );
    fs::remove_file(root.join("short.jsonl")).unwrap();
    assert_eq!(
        look(&shared, &mut scanner),
        [row("other/long.jsonl", 3_533, None, 0)]
    );
}
