use super::super::lister;
use super::*;

fn keys(found: &RootScan) -> Vec<&str> {
    found.runs.keys().map(RunKey::as_str).collect()
}

#[test]
fn runs_at_any_depth_up_to_eight() {
    let root = tempfile::tempdir().unwrap();
    for path in ["a", "b/c/d/e/f/g/h/i", "b/c/d/e/f/g/h/i/j", "a/sub"] {
        let dir = root.path().join(path);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("manifest.json"), "{}").unwrap();
    }
    fs::create_dir_all(root.path().join("empty")).unwrap();
    fs::create_dir_all(root.path().join("a/assets")).unwrap();
    let mut scanner = RootScanner::new(root.path().to_owned());
    let found = scanner.scan();
    assert_eq!(keys(&found), ["a", "a/sub", "b/c/d/e/f/g/h/i"]);
    let reason = "contains no trace files".to_owned();
    assert_eq!(
        found.skipped,
        [Skipped {
            path: "empty".to_owned(),
            reason,
            kind: SkippedKind::Directory
        }]
    );
    fs::remove_dir_all(root.path().join("a/sub")).unwrap();
    assert_eq!(keys(&scanner.scan()), ["a", "b/c/d/e/f/g/h/i"]);
}

#[test]
fn a_root_that_is_missing_or_a_file_or_a_run() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("runs");
    assert_eq!(
        RootScanner::new(inside.clone()).scan().fault.as_deref(),
        Some("it doesn't exist")
    );
    fs::write(&inside, "x").unwrap();
    let fault = RootScanner::new(inside.clone()).scan().fault.unwrap();
    assert_eq!(fault, "it is a file, but not a trace of a supported tool");
    fs::remove_file(&inside).unwrap();
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("events.jsonl"), "{\"phase\": \"INIT\"}\n").unwrap();
    assert_eq!(keys(&RootScanner::new(inside).scan()), ["runs"]);
}

#[test]
fn a_look_says_that_it_goes_on_before_each_directory_and_file() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..40 {
        fs::create_dir(root.path().join(format!("{n:02}"))).unwrap();
        fs::write(root.path().join(format!("{n:02}.jsonl")), "{}").unwrap();
    }
    let mut scanner = RootScanner::new(root.path().to_owned());
    for _ in ["first", "unchanged"] {
        let calls = std::cell::Cell::new(0);
        scanner.scan_with(&|| calls.set(calls.get() + 1));
        assert_eq!(calls.get(), 81);
    }
}

#[test]
fn a_look_at_a_part_of_a_root_goes_no_further() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..40 {
        let dir = root.path().join(format!("{n:02}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("manifest.json"), "{}").unwrap();
        fs::write(root.path().join(format!("{n:02}.jsonl")), "{}").unwrap();
    }
    let mut scanner = RootScanner::new(root.path().to_owned());
    let looked_into = |scanner: &RootScanner| {
        scanner.cache.len()
            + scanner
                .cache
                .values()
                .map(|listing| listing.files.len())
                .sum::<usize>()
    };
    let (found, is_all) = scanner.scan_some(50);
    assert_eq!(
        (found.runs.len(), is_all, looked_into(&scanner)),
        (9, false, 50)
    );
    let (found, is_all) = RootScanner::new(root.path().to_owned()).scan_some(5);
    assert_eq!((found.runs.len(), is_all), (0, false), "files only");
    let (found, is_all) = RootScanner::new(root.path().to_owned()).scan_some(81);
    assert_eq!((found.runs.len(), is_all), (40, true));
}

#[test]
fn hidden_directories_of_agents_are_named_once_they_have_sessions() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("home/.git/projects")).unwrap();
    fs::create_dir_all(root.path().join("home/.claude/skills")).unwrap();
    let mut scanner = RootScanner::new(root.path().to_owned());
    let reason = "contains no trace files";
    assert_eq!(skipped(&scanner.scan()), [("home", reason)]);
    let project = root.path().join("home/.claude/projects/p");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("manifest.json"), "{}").unwrap();
    let why = "hidden directory with sessions (to see them, name it as a root)";
    let expected = [("home", reason), ("home/.claude/projects", why)];
    let found = scanner.scan();
    let mut seen = skipped(&found);
    seen.sort_unstable();
    assert_eq!((keys(&found), &*seen), (vec![], &expected[..]));
    let inside = root.path().join("home/.claude/projects");
    assert_eq!(keys(&RootScanner::new(inside).scan()), ["p"]);
}

#[cfg(unix)]
#[test]
fn links_to_directories_are_named_and_not_followed() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("manifest.json"), "{}").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.path().join("link")).unwrap();
    let found = RootScanner::new(root.path().to_owned()).scan();
    assert!(found.runs.is_empty());
    assert!(found.skipped[0].reason.contains("link"));
}

#[cfg(unix)]
#[test]
fn a_run_that_came_is_seen_although_the_time_of_its_directory_was_put_back() {
    let root = tempfile::tempdir().unwrap();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let add = |name: &str| {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("manifest.json"), "{}").unwrap();
        fs::File::open(root.path())
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    };
    add("a");
    let mut scanner = RootScanner::new(root.path().to_owned());
    assert_eq!(keys(&scanner.scan()), ["a"]);
    add("b");
    assert_eq!(keys(&scanner.scan()), ["a", "b"]);
}

const SESSION: &str =
    "{\"sessionId\":\"s\",\"uuid\":\"u\",\"type\":\"user\",\"message\":{\"content\":\"Go\"}}\n";
const KILO: &str = "{\"type\": \"text\", \"timestamp\": 1, \"sessionID\": \"a\", \"part\": {}}\n";
const OURS: &str = "{\"step_id\": 0, \"phase\": \"INIT\"}\n";

fn skipped(found: &RootScan) -> Vec<(&str, &str)> {
    found
        .skipped
        .iter()
        .map(|skipped| (&*skipped.path, &*skipped.reason))
        .collect()
}

#[test]
fn a_root_may_be_one_file_that_holds_runs() {
    let root = tempfile::tempdir().unwrap();
    let (one, other) = (
        root.path().join("one.jsonl"),
        root.path().join("other.jsonl"),
    );
    fs::write(&one, SESSION).unwrap();
    fs::write(&other, SESSION).unwrap();
    let mut scanner = RootScanner::new(one.clone());
    assert_eq!(
        (keys(&scanner.scan()), keys(&scanner.scan())),
        (vec!["one.jsonl"], vec!["one.jsonl"])
    );
    fs::write(&one, KILO).unwrap();
    let fault = scanner.scan().fault.unwrap();
    assert_eq!(
        fault,
        "it can't be read as a trace: unsupported format (looks like an OpenCode or Kilo stream)"
    );
    fs::remove_file(&one).unwrap();
    assert_eq!(scanner.scan().fault.as_deref(), Some("it doesn't exist"));
}

#[test]
fn a_directory_of_another_tool_is_no_run_whatever_its_files_are_called() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("kilo/events.jsonl", KILO);
    write(
        "extension/manifest.json",
        "{\"name\": \"x\", \"version\": \"1.0\"}",
    );
    write("both/manifest.json", "{\"name\": \"x\"}");
    write("both/events.jsonl", KILO);
    write("named_as_ours/events.jsonl", SESSION);
    // Runs, even if little in them is valid.
    write("begun/manifest.json", "");
    write("damaged/events.jsonl", "\0\0\0\n");
    write("log/events.jsonl", "gar\0bage\n");
    write("mixed/manifest.json", "");
    write(
        "mixed/steps.jsonl",
        "{\"step_id\": 0, \"decision\": {\"mode\": \"wait\"}}\n",
    );
    write("mixed/events.jsonl", KILO);
    fs::File::open(root.path().join("begun/manifest.json"))
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    let mut scanner = RootScanner::new(root.path().to_owned());
    for look in ["first", "second"] {
        let found = scanner.scan();
        assert_eq!(
            keys(&found),
            ["begun", "damaged", "mixed", "named_as_ours/events.jsonl"],
            "{look}"
        );
        let kilo = "unsupported format (looks like an OpenCode or Kilo stream)";
        let expected = [
            ("both/events.jsonl", kilo),
            ("both/manifest.json", "unknown format"),
            ("extension/manifest.json", "unknown format"),
            ("kilo/events.jsonl", kilo),
            ("log/events.jsonl", "unknown format"),
        ];
        assert_eq!(skipped(&found), expected, "{look}");
        assert_eq!(found.skipped_total.files(), 5);
    }
}

#[test]
fn a_directory_becomes_a_run_with_its_first_record_and_not_before() {
    let root = tempfile::tempdir().unwrap();
    let (run, other) = (root.path().join("run"), root.path().join("other"));
    for dir in [&run, &other] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("events.jsonl"), "").unwrap();
    }
    let mut scanner = RootScanner::new(root.path().to_owned());
    let found = scanner.scan();
    assert_eq!((keys(&found), skipped(&found).len()), (vec![], 2));
    fs::write(run.join("events.jsonl"), OURS).unwrap();
    fs::write(other.join("events.jsonl"), KILO).unwrap();
    assert_eq!(keys(&scanner.scan()), ["run"]);
    // A file that is no longer being written is a run that never got anywhere.
    fs::write(other.join("events.jsonl"), "").unwrap();
    let file = fs::File::open(other.join("events.jsonl")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(keys(&scanner.scan()), ["other", "run"]);
}

#[test]
fn what_is_skipped_is_counted_and_its_list_is_bounded() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..MAX_SKIPPED + 20 {
        fs::write(root.path().join(format!("{n:05}.jsonl")), "{\"a\": 1}\n").unwrap();
        fs::create_dir(root.path().join(format!("d{n:05}"))).unwrap();
    }
    fs::write(root.path().join("99999.jsonl"), "").unwrap();
    let found = RootScanner::new(root.path().to_owned()).scan();
    assert_eq!(found.skipped.len(), 2 * MAX_SKIPPED);
    assert_eq!(
        (&*found.skipped[0].path, &*found.skipped[MAX_SKIPPED].path),
        ("00000.jsonl", "d00000")
    );
    let total = &found.skipped_total;
    assert_eq!(
        (total.directories, total.files(), total.files["empty file"]),
        (1_020, 1_021, 1)
    );
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, text).unwrap();
    packed.finish().unwrap()
}

#[test]
fn compressed_files_of_a_run_are_reported() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &[u8]| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("alone/events.jsonl.gz", &gzip(OURS.as_bytes()));
    write("run/manifest.json", b"{}");
    write("run/events.jsonl.gz", &gzip(OURS.as_bytes()));
    write("run/other.jsonl", SESSION.as_bytes());
    let mut scanner = RootScanner::new(root.path().to_owned());
    let reason = "steps.jsonl and events.jsonl of a run are only read uncompressed";
    for look in ["first", "again"] {
        let found = scanner.scan();
        let expected = [
            ("alone/events.jsonl.gz", reason),
            ("run/events.jsonl.gz", reason),
        ];
        assert_eq!(
            (keys(&found), skipped(&found)),
            (vec!["run"], expected.into()),
            "{look}"
        );
    }
    let why = RunDir::why_skipped(&root.path().join("alone/events.jsonl.gz"));
    assert_eq!(why.as_deref(), Some(reason));
}

#[test]
fn a_file_takes_precedence_over_its_compressed_copies() {
    let instance = "{\"instance_id\": \"i\", \"history\": []}\n";
    for (text, key, copies) in [
        (SESSION, "a.jsonl", ["a.jsonl.gz", "a.jsonl.zst"]),
        (instance, "a.jsonl/i", ["a.jsonl.gz/i", "a.jsonl.zst/i"]),
    ] {
        let zstandard = ruzstd::encoding::compress_to_vec(
            text.as_bytes(),
            ruzstd::encoding::CompressionLevel::Fastest,
        );
        let files = [
            ("a.jsonl.zst", zstandard),
            ("a.jsonl", text.as_bytes().to_vec()),
            ("a.jsonl.gz", gzip(text.as_bytes())),
        ];
        // The order of a directory depends on the file system.
        for first in 0..files.len() {
            let root = tempfile::tempdir().unwrap();
            for (name, bytes) in files.iter().cycle().skip(first).take(files.len()) {
                fs::write(root.path().join(name), bytes).unwrap();
            }
            let mut scanner = RootScanner::new(root.path().to_owned());
            let found = scanner.scan();
            assert_eq!(keys(&found), [key]);
            assert!(
                found.runs[&RunKey::new(key)].path().ends_with(key),
                "{found:?}"
            );
            assert_eq!(skipped(&found), copies.map(|copy| (copy, SAME_NAME)));
            // Compressed alone, it's the same run.
            fs::remove_file(root.path().join("a.jsonl")).unwrap();
            let found = scanner.scan();
            assert_eq!(
                (keys(&found), skipped(&found)),
                (vec![key], vec![(copies[1], SAME_NAME)])
            );
        }
    }
}

/// A file whose scan ends when the channel's other end is dropped.
struct Endless(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl lister::LargeFile for Endless {
    fn path(&self) -> PathBuf {
        PathBuf::new()
    }

    fn look_through(&self) {
        self.0.lock().unwrap().recv().unwrap_err();
    }

    fn rests_until(&self) -> Option<std::time::Instant> {
        None
    }

    fn rest(&self, _: Option<std::time::Instant>) {}
}

#[test]
fn a_file_that_is_being_listed_takes_precedence_over_its_compressed_copies() {
    let text = "{\"instance_id\": \"i\", \"history\": []}\n";
    let large = format!("{text}{}\n", " ".repeat(1 << 20));
    for (plain, key, copy) in [
        ("a.jsonl", "a.jsonl/i", "a.jsonl.gz"),
        ("events.jsonl", "events.jsonl/i", "events.jsonl.gz"),
    ] {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(copy), gzip(large.as_bytes())).unwrap();
        fs::write(root.path().join(plain), &large).unwrap();
        let (woken, wakes) = std::sync::mpsc::channel();
        let lister = Lister::new(move || woken.send(()).unwrap());
        let ends = [(); 2].map(|()| {
            let (end, other) = std::sync::mpsc::channel();
            lister.ask(Arc::new(Endless(other.into())));
            end
        });
        let mut scanner = RootScanner::new(root.path().to_owned());
        scanner.look_aside_with(&lister);
        let found = scanner.scan();
        let expected = [
            (plain, "its runs are still being listed"),
            (copy, WAITS_FOR_PLAIN),
        ];
        assert_eq!((keys(&found), skipped(&found)), (vec![], expected.into()));
        drop(ends);
        wakes.iter().take(3).for_each(drop);
        let found = scanner.scan();
        assert_eq!(keys(&found), [key]);
        assert!(found.runs[&RunKey::new(key)].path().ends_with(key));
        assert_eq!(skipped(&found), [(&*format!("{copy}/i"), SAME_NAME)]);
    }
}

#[test]
fn the_newest_journal_of_a_session_is_shown_and_the_others_are_listed() {
    let root = tempfile::tempdir().unwrap();
    let journals = root.path().join("unified/s1/journal");
    fs::create_dir_all(&journals).unwrap();
    let record = |n: usize| {
        format!(
            r#"{{"payload":{{}},"recovery_journal_record_version":1,"sequence":{n},"type":"core_input"}}"#
        ) + "\n"
    };
    let mut scanner = RootScanner::new(root.path().to_owned());
    for n in [1, 12] {
        fs::write(journals.join(format!("{n:016}.jsonl")), record(n)).unwrap();
    }
    let codex = r#"{"type":"session_meta","payload":{"id":"a"}}"#;
    fs::write(journals.join("rollout.jsonl"), codex.to_owned() + "\n").unwrap();
    let found = scanner.scan();
    assert_eq!(
        keys(&found),
        ["unified/s1", "unified/s1/journal/rollout.jsonl"]
    );
    let older = Skipped {
        path: "unified/s1/journal/0000000000000001.jsonl".to_owned(),
        reason: OLDER.to_owned(),
        kind: SkippedKind::File,
    };
    assert_eq!(found.skipped, [older]);
    fs::remove_file(journals.join("0000000000000001.jsonl")).unwrap();
    let found = scanner.scan();
    assert!(found.skipped.is_empty(), "{:?}", found.skipped);
    assert_eq!(keys(&found)[0], "unified/s1");
}
