//! Checks a mirror against all kinds of store responses.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Mirror;
use super::address::Cloud;
use super::fake::{self, Fake, MODIFIED, Odd, settled, until};

fn files(mirror: &Mirror) -> BTreeMap<String, String> {
    fn walk(dir: &Path, root: &Path, files: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => walk(&path, root, files),
                path => {
                    let name = path
                        .strip_prefix(root)
                        .unwrap()
                        .to_string_lossy()
                        .into_owned();
                    drop(files.insert(
                        name,
                        String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
                    ));
                }
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(mirror.dir(), mirror.dir(), &mut files);
    files
}

fn held(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
        .collect()
}

#[test]
fn objects_come_grow_are_replaced_and_go() {
    let store = Fake::new();
    for n in 0..7 {
        store.put(&format!("runs/a/{n}.jsonl"), b"one\n");
    }
    store.put("runs/notes.txt", b"x");
    store.put("other/b.jsonl", b"x");
    let mirror = store.follow(None, 1 << 20);
    let status = settled(&mirror);
    assert_eq!(
        (
            status.objects,
            status.others,
            status.bytes,
            status.odd_total
        ),
        (7, 1, 28, 0)
    );
    assert_eq!(files(&mirror).len(), 7);
    let written = fs::metadata(mirror.dir().join("a/0.jsonl"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(
        jiff::Timestamp::try_from(written).unwrap(),
        MODIFIED.parse::<jiff::Timestamp>().unwrap()
    );

    store.gets();
    store.put("runs/a/0.jsonl", b"one\ntwo\n");
    store.put("runs/a/1.jsonl", b"ONE\nTWO\n");
    store.put("runs/a/2.jsonl", b"o\n");
    store
        .bucket()
        .objects
        .retain(|key, _| !key.ends_with("3.jsonl") && !key.ends_with("4.jsonl"));
    settled(&mirror);
    let one = |n: u32, text: &'static str| (format!("a/{n}.jsonl"), text.to_owned());
    let all = [
        one(0, "one\ntwo\n"),
        one(1, "ONE\nTWO\n"),
        one(2, "o\n"),
        one(5, "one\n"),
        one(6, "one\n"),
    ];
    assert_eq!(files(&mirror), BTreeMap::from(all));
    let mut gets = store.gets();
    gets.sort();
    // A checksum reveals that an object was replaced by a longer one.
    let path = "/bucket/runs/a/";
    assert_eq!(
        gets,
        [
            format!("{path}0.jsonl bytes=4-"),
            format!("{path}1.jsonl"),
            format!("{path}1.jsonl bytes=4-"),
            format!("{path}2.jsonl"),
        ]
    );
    store.put("runs/a/0.jsonl", b"one\ntwo\nthree\n");
    settled(&mirror);
    assert_eq!(store.gets(), [format!("{path}0.jsonl bytes=8-")]);
    store.bucket().objects.clear();
    settled(&mirror);
    assert_eq!(
        fs::read_dir(mirror.dir()).unwrap().count(),
        0,
        "empty directories go too"
    );
}

#[test]
fn a_store_that_is_away_or_refuses_takes_nothing_and_is_told() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    for (status, code, said, hint) in [
        (503, "SlowDown", "answered 503 SlowDown: told so", false),
        (
            403,
            "AccessDenied",
            "answered 403 AccessDenied: told so",
            true,
        ),
        (
            404,
            "NoSuchBucket",
            "answered 404 NoSuchBucket: told so",
            true,
        ),
        (418, "", "answered 418", false),
    ] {
        store.bucket().down = Some((status, code));
        let told = until(&mirror, said, |status| status.trouble.is_some())
            .trouble
            .unwrap();
        assert_eq!(
            (told.what.contains(said), told.hint.is_some()),
            (true, hint),
            "{told:?}"
        );
        assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n")]));
        store.bucket().down = None;
        until(&mirror, "it is back", |status| status.trouble.is_none());
    }
    // The mirror waits a little and recovers.
    store.bucket().odd.extend([
        Odd::Status(503, "SlowDown"),
        Odd::Status(429, ""),
        Odd::Status(500, "InternalError"),
    ]);
    store.put("runs/b.jsonl", b"two\n");
    assert_eq!(settled(&mirror).trouble, None);
    assert_eq!(
        files(&mirror),
        held(&[("a.jsonl", "one\n"), ("b.jsonl", "two\n")])
    );
}

#[test]
fn a_store_that_lists_objects_and_does_not_hand_them_out_is_not_all_well() {
    let store = Fake::new();
    for n in 0..40 {
        store.put(&format!("runs/{n}.jsonl"), b"one\n");
    }
    store.bucket().locked = true;
    let mirror = store.follow(None, 1 << 20);
    let status = until(&mirror, "it is told", |status| {
        status.trouble.is_some() && status.odd_total > 0
    });
    assert_eq!(
        (status.as_of, files(&mirror).len()),
        (None, 0),
        "nothing is said to be here"
    );
    assert!(
        status
            .trouble
            .is_some_and(|trouble| trouble.what.contains("403 AccessDenied"))
    );
    store.bucket().locked = false;
    let status = settled(&mirror);
    assert_eq!((status.trouble, files(&mirror).len()), (None, 40));
}

#[test]
fn bodies_that_are_cut_or_damaged_are_never_shown() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one two three\n");
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    store.bucket().odd.extend([Odd::Cut(5), Odd::Damaged]);
    store.put("runs/a.jsonl", b"ONE TWO THREE\n");
    settled(&mirror);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "ONE TWO THREE\n")]));
    store.gets();
    store.bucket().odd.extend([Odd::Cut(2), Odd::Damaged]);
    store.put("runs/a.jsonl", b"ONE TWO THREE\nFOUR\n");
    settled(&mirror);
    assert_eq!(
        files(&mirror),
        held(&[("a.jsonl", "ONE TWO THREE\nFOUR\n")])
    );
    // A damaged tail looks like that of another object.
    let path = "/bucket/runs/a.jsonl";
    assert_eq!(
        store.gets(),
        [
            format!("{path} bytes=14-"),
            format!("{path} bytes=14-"),
            path.to_owned()
        ]
    );
}

#[test]
fn headers_that_the_mirror_does_not_need_spoil_no_object() {
    for (name, value) in [
        ("x-amz-meta-who", "r\u{e9}sum\u{e9}"),
        (
            "Content-Disposition",
            "attachment; filename=\"\u{e9}.jsonl\"",
        ),
        ("Last-Modified", "2026-01-02 03:04:05"),
        ("Last-Modified", "2026-01-02T03:04:05Z"),
    ] {
        let store = Fake::new();
        store.bucket().headers.insert(name, value);
        store.put_tagged("runs/a.jsonl", b"one\n", "x-1");
        let mirror = store.follow(None, 1 << 20);
        let status = settled(&mirror);
        assert_eq!((status.trouble, status.odd), (None, [].into()), "{name}");
        store.put_tagged("runs/a.jsonl", b"one\ntwo\n", "x-2");
        settled(&mirror);
        assert_eq!(files(&mirror), held(&[("a.jsonl", "one\ntwo\n")]));
        assert!(
            store
                .gets()
                .contains(&"/bucket/runs/a.jsonl bytes=0-".to_owned()),
            "{name}"
        );
    }
}

#[test]
fn an_object_that_replaced_the_listed_one_has_the_time_of_the_listing_if_it_has_none() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    // The tag of a newer object than the listed one.
    store
        .bucket()
        .headers
        .extend([("ETag", "y"), ("Last-Modified", "yesterday")]);
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    let file = fs::metadata(mirror.dir().join("a.jsonl")).unwrap();
    let written = jiff::Timestamp::try_from(file.modified().unwrap()).unwrap();
    assert_eq!(written, MODIFIED.parse::<jiff::Timestamp>().unwrap());
}

#[test]
fn without_checksums_pieces_are_compared_and_proven_once_the_object_is_quiet() {
    let store = Fake::new();
    store.put_tagged("runs/a.jsonl", b"one\n", "x-1");
    // Looks like a checksum but isn't one.
    store.put_tagged("runs/b.jsonl", b"one\n", &"0".repeat(32));
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    assert_eq!(
        files(&mirror),
        held(&[("a.jsonl", "one\n"), ("b.jsonl", "one\n")])
    );
    store.gets();
    store.put_tagged("runs/a.jsonl", b"one\ntwo\n", "x-2");
    settled(&mirror);
    settled(&mirror);
    let gets = store.gets();
    let path = "/bucket/runs/a.jsonl";
    assert_eq!(
        gets,
        [format!("{path} bytes=0-"), path.to_owned()],
        "what is here is compared, then proven"
    );
    store.put_tagged("runs/a.jsonl", b"ONE\ntwo\nthree\n", "x-3");
    store.put_tagged("runs/b.jsonl", b"ONE\ntwo\n", &"1".repeat(32));
    settled(&mirror);
    assert_eq!(
        files(&mirror),
        held(&[("a.jsonl", "ONE\ntwo\nthree\n"), ("b.jsonl", "ONE\ntwo\n")])
    );
}

#[test]
fn keys_that_lead_elsewhere_are_counted_and_write_nothing() {
    let store = Fake::new();
    let hostile = [
        "runs/../../x.jsonl",
        "runs//etc/x.jsonl",
        "runs/a/../x.jsonl",
        "runs/a\n.jsonl",
        "runs/./b.jsonl",
    ];
    for key in hostile {
        store.put(key, b"evil\n");
    }
    store.put("runs/good.jsonl", b"good\n");
    store.put("runs/both.jsonl", b"both\n");
    store.put("runs/both.jsonl/under.jsonl", b"under\n");
    let cache = tempfile::tempdir().unwrap();
    let mirror = store.follow(Some(&cache.path().join("deep/er")), 1 << 20);
    let status = settled(&mirror);
    assert_eq!(
        files(&mirror),
        held(&[
            ("both.jsonl/under.jsonl", "under\n"),
            ("good.jsonl", "good\n")
        ])
    );
    assert_eq!(
        (status.odd_total, status.odd.len()),
        (6, 6),
        "{:?}",
        status.odd
    );
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    assert!(
        store
            .gets()
            .iter()
            .all(|get| get.contains("good") || get.contains("under"))
    );
}

#[test]
fn the_next_start_fetches_only_what_changed() {
    let (store, cache) = (Fake::new(), tempfile::tempdir().unwrap());
    for name in ["a", "b", "c"] {
        store.put(&format!("runs/{name}.jsonl"), b"one\n");
    }
    let mirror = store.follow(Some(cache.path()), 1 << 20);
    settled(&mirror);
    let dir = mirror.dir().to_owned();
    let beside = store.follow(Some(cache.path()), 1 << 20);
    assert_ne!(beside.dir(), dir, "two boards do not write one directory");
    // Its requests would be counted as those of the next start.
    settled(&beside);
    drop((mirror, beside));
    // As after a board was killed: a torn note, a file that differs from its note, and a file
    // without a note.
    let notes = dir.ancestors().nth(2).unwrap().join("notes.jsonl");
    let torn = fs::read_to_string(&notes).unwrap() + "{\"key\":\"a.js";
    fs::write(&notes, torn).unwrap();
    fs::write(dir.join("b.jsonl"), "torn").unwrap();
    fs::write(dir.join("stray.jsonl"), "x\n").unwrap();
    fs::write(dir.join("b.jsonl"), "on").unwrap();
    store.gets();
    let mirror = store.follow(Some(cache.path()), 1 << 20);
    assert_eq!(mirror.dir(), dir);
    settled(&mirror);
    assert_eq!(store.gets(), ["/bucket/runs/b.jsonl"]);
    assert_eq!(
        files(&mirror),
        held(&[
            ("a.jsonl", "one\n"),
            ("b.jsonl", "one\n"),
            ("c.jsonl", "one\n")
        ])
    );
}

#[test]
fn the_cache_keeps_within_its_limit_and_says_what_is_left_out() {
    let store = Fake::new();
    for name in ["a", "b", "c"] {
        store.put(&format!("runs/{name}/x.jsonl"), &[b'x'; 400]);
    }
    let mirror = store.follow(None, 1_000);
    let status = settled(&mirror);
    assert_eq!(
        (
            files(&mirror).len(),
            status.kept_bytes,
            status.odd_total,
            status.evicted
        ),
        (2, 800, 1, 0)
    );
    let reason = &status.odd[0].reason;
    assert!(
        reason.contains("not cached: it has 400 bytes") && reason.contains("newer"),
        "{reason}"
    );
}

/// Requests a file and waits until it arrives or fails.
fn asked(mirror: &Mirror, path: &Path) -> Option<String> {
    mirror.ask(path);
    until(mirror, "it came or failed", |_| {
        !mirror.is_evicted(&[path.to_owned()]) || mirror.failure(path).is_some()
    });
    mirror.failure(path)
}

#[test]
fn what_was_evicted_comes_again_where_somebody_asks_and_the_cache_keeps_within_its_limit() {
    let (store, cache) = (Fake::new(), tempfile::tempdir().unwrap());
    let names = ["a", "b", "c"];
    for (hour, name) in names.iter().enumerate() {
        store.put_at(&format!("runs/{name}/x.jsonl"), &[b'x'; 400], hour as u32);
    }
    let mirror = store.follow(Some(cache.path()), 1_300);
    settled(&mirror);
    let dir = fs::canonicalize(mirror.dir()).unwrap();
    let file = |name: &str| dir.join(name).join("x.jsonl");
    store.put_at("runs/d/x.jsonl", &[b'd'; 400], 9);
    let status = settled(&mirror);
    assert_eq!(
        (status.kept_bytes, status.evicted, status.odd_total),
        (1_200, 1, 0)
    );
    assert!(
        mirror.is_evicted(&[file("a")])
            && !file("a").exists()
            && mirror.hold(&[file("a")]).is_none()
    );

    // The oldest other file is evicted. The opened file stays, however old it is.
    store.gets();
    assert_eq!(asked(&mirror, &file("a")), None);
    assert_eq!(fs::read(file("a")).unwrap(), [b'x'; 400]);
    assert_eq!(store.gets(), ["/bucket/runs/a/x.jsonl"]);
    for _ in 0..2 {
        let status = settled(&mirror);
        assert_eq!((status.kept_bytes, status.evicted), (1_200, 1));
        assert!(file("a").exists() && mirror.is_evicted(&[file("b")]));
    }

    // Files opened longer ago are evicted for a file opened now.
    for name in ["b", "c", "d", "b"] {
        assert_eq!(asked(&mirror, &file(name)), None);
        assert!(file(name).exists() && mirror.status().kept_bytes <= 1_300);
    }
    let names = ["a", "b", "c", "d"];
    let evicted = names.iter().find(|name| !file(name).exists()).unwrap();

    // An unavailable store is reported, and the file can be requested again.
    store.bucket().locked = true;
    assert!(asked(&mirror, &file(evicted)).is_some_and(|why| why.contains("403 AccessDenied")));
    assert_eq!(
        names.iter().filter(|name| file(name).exists()).count(),
        3,
        "nothing made room for what did not come"
    );
    store.bucket().locked = false;
    assert_eq!(asked(&mirror, &file(evicted)), None);

    // The next start knows that the file was evicted.
    drop(mirror);
    let mirror = store.follow(Some(cache.path()), 1_300);
    assert_ne!(mirror.status().evicted, 0);
    settled(&mirror);
    let gone = names.iter().find(|name| !file(name).exists()).unwrap();
    assert_eq!(
        *gone, "a",
        "it is the oldest, and nobody opened it in this start"
    );
    store
        .bucket()
        .objects
        .remove(&format!("runs/{gone}/x.jsonl"));
    assert_eq!(settled(&mirror).evicted, 0);
}

#[test]
fn keys_of_any_letters_come_as_files_of_the_same_names_page_by_page() {
    let store = Fake::new();
    let odd = [
        "a b/100% x.jsonl",
        "a+b/%41%2F.jsonl",
        "a&b;c/ü…日本.jsonl",
        "q?x=1#y/~'()*!.jsonl",
        "ä/e\u{301}.jsonl",
    ];
    for key in odd {
        store.put(&format!("runs/{key}"), key.as_bytes());
    }
    let mirror = store.follow(None, 1 << 20);
    assert_eq!(settled(&mirror).odd_total, 0);
    assert_eq!(files(&mirror), held(&odd.map(|key| (key, key))));
}

#[test]
fn a_bucket_in_another_region_is_asked_there() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    store.bucket().region = Some("eu-west-2");
    let mirror = store.follow(None, 1 << 20);
    let status = settled(&mirror);
    assert_eq!((status.trouble, files(&mirror).len()), (None, 1));
    assert_eq!(store.gets(), ["/bucket/runs/a.jsonl"], "it was told once");
}

#[test]
fn a_store_that_does_not_answer_is_told_and_asked_again() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    let mirror = store.follow_patiently(None, 1 << 20, Duration::from_secs(1));
    settled(&mirror);
    store.bucket().hangs = true;
    let told = until(&mirror, "it is told", |status| status.trouble.is_some())
        .trouble
        .unwrap();
    assert!(told.what.contains("no answer within 1 s"), "{told:?}");
    assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n")]));
    store.bucket().hangs = false;
    until(&mirror, "it answers again", |status| {
        status.trouble.is_none()
    });
}

#[test]
fn a_body_without_an_end_is_cut_off_at_the_listed_size() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    store.bucket().odd.extend(vec![Odd::Endless; 3]);
    let mirror = store.follow(None, 1 << 30);
    let status = until(&mirror, "it is named", |status| status.odd_total == 1);
    assert_eq!(status.odd[0].path, "a.jsonl");
    let said = "the store sent more than the 4 bytes that its listing promises";
    assert_eq!(status.odd[0].reason, said);
    until(&mirror, "it is tried again", |status| status.odd_total == 0);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n")]));
    // Includes what was in flight in the sockets.
    assert!(
        store.bucket().endless_bytes < 64 << 20,
        "{}",
        store.bucket().endless_bytes
    );
}

#[test]
fn the_rest_of_an_object_ends_at_the_listed_size_too() {
    let store = Fake::new();
    store.put_tagged("runs/a.jsonl", b"one\n", "x-1");
    let mirror = store.follow(None, 1 << 30);
    settled(&mirror);
    store.bucket().odd.push_back(Odd::Endless);
    store.put_tagged("runs/a.jsonl", b"one\ntwo\n", "x-2");
    settled(&mirror);
    settled(&mirror);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "one\ntwo\n")]));
    assert!(
        store.bucket().endless_bytes < 64 << 20,
        "{}",
        store.bucket().endless_bytes
    );
}

#[test]
fn a_listing_without_an_end_is_given_up_and_what_was_here_stays() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    let bounds = super::ListingBounds {
        objects: 50,
        pages: 30,
        empty_pages: 10,
        bytes: 2_000,
        ..super::ListingBounds::default()
    };
    let long = Duration::from_secs(30);
    let mirror = store.follow_with(None, 1 << 20, long, |options| super::Options {
        listing: bounds,
        ..options
    });
    settled(&mirror);
    for (objects, token, why) in [
        (2, "", "more than 50 objects"),
        (1, "", "more than 30 pages"),
        (0, "", "10 pages in a row have no"),
        (1, &*"t".repeat(100), "more than 2,000 bytes"),
    ] {
        store.bucket().endless_listing = Some(objects);
        store.bucket().token = token.to_owned();
        let told = until(&mirror, why, |status| {
            status
                .trouble
                .as_ref()
                .is_some_and(|told| told.what.contains(why))
        });
        assert!(
            told.trouble
                .unwrap()
                .hint
                .unwrap()
                .contains("lists fewer objects")
        );
        assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n")]));
        store.bucket().endless_listing = None;
        until(&mirror, "it is back", |status| status.trouble.is_none());
    }
}

#[test]
fn a_long_listing_keeps_to_the_budget_while_it_runs() {
    let store = Fake::new();
    store.bucket().endless_listing = Some(1);
    let mirror = store.follow_with(None, 1 << 20, Duration::from_secs(30), |options| {
        super::Options {
            budget: 7,
            ..options
        }
    });
    // The requests within the limit are sent at once, and no more for the rest of the minute.
    let waiting = until(&mirror, "it waits", |status| {
        status.listing == Some(7) && status.paused_until.is_some()
    });
    assert_eq!(
        (store.listings(), waiting.listings, waiting.requests),
        (7, 7, 7),
        "they count while the listing runs"
    );
}

#[test]
fn retries_of_a_listing_keep_to_the_budget() {
    let store = Fake::new();
    store.bucket().down = Some((503, "SlowDown"));
    let long = Duration::from_secs(30);
    let mirror = store.follow_with(None, 1 << 20, long, |options| super::Options {
        budget: 1,
        ..options
    });
    // The second attempt waits for its turn.
    let status = until(&mirror, "it waits", |status| status.paused_until.is_some());
    assert_eq!(
        (store.listings(), status.trouble, status.listing),
        (1, None, Some(0))
    );
}

#[test]
fn a_blocked_thread_does_not_keep_the_board_from_ending() {
    let store = Fake::new();
    let mirror = store.follow(None, 1 << 20);
    let dir = mirror.dir().to_owned();
    assert!(dir.exists());
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let (entered, is_blocked) = std::sync::mpsc::channel();
    mirror.listen(move || {
        let _ = (entered.send(()), wait.recv());
    });
    // News for the listener.
    store.bucket().down = Some((503, "SlowDown"));
    is_blocked.recv().unwrap();
    let start = Instant::now();
    drop(mirror);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert!(!dir.exists(), "a temporary cache is removed anyway");
    drop(go_on);
}

#[cfg(unix)]
#[test]
fn notes_and_locks_that_are_pipes_or_devices_stop_nothing() {
    let (store, cache) = (Fake::new(), tempfile::tempdir().unwrap());
    store.put("runs/a.jsonl", b"one\n");
    let mirror = store.follow(Some(cache.path()), 1 << 20);
    settled(&mirror);
    let home = mirror.dir().ancestors().nth(2).unwrap().to_owned();
    drop(mirror);
    let notes = home.join("notes.jsonl");
    for device in [None, Some("/dev/zero")] {
        fs::remove_file(&notes).unwrap();
        match device {
            Some(device) => std::os::unix::fs::symlink(device, &notes).unwrap(),
            None => assert!(
                std::process::Command::new("mkfifo")
                    .arg(&notes)
                    .status()
                    .unwrap()
                    .success()
            ),
        }
        let mirror = store.follow(Some(cache.path()), 1 << 20);
        settled(&mirror);
        assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n")]));
    }
    fs::remove_file(home.join("lock")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(home.join("lock"))
            .status()
            .unwrap()
            .success()
    );
    let address = super::Address::parse("s3://bucket/runs").unwrap();
    let options = super::Options {
        cache: Some(cache.path().to_owned()),
        limit: 1,
        every: Duration::from_secs(1),
        budget: 1,
        listing: super::ListingBounds::default(),
    };
    let error = Mirror::follow(&address, store.settings(), options).unwrap_err();
    assert!(
        format!("{error:?}").contains("not a regular file"),
        "{error:?}"
    );
}

#[test]
fn buckets_of_google_are_listed_and_only_what_was_appended_is_fetched() {
    let store = Fake::of(Cloud::Google);
    for n in 0..5 {
        store.put(&format!("runs/a b/{n}.jsonl"), b"one\n");
    }
    store.put("runs//odd.jsonl", b"x");
    let mirror = store.follow(None, 1 << 20);
    let status = settled(&mirror);
    assert_eq!((status.objects, files(&mirror).len()), (6, 5));
    assert_eq!(status.odd[0].path, "/odd.jsonl");
    store.gets();
    store.put("runs/a b/0.jsonl", b"one\ntwo\n");
    settled(&mirror);
    assert_eq!(files(&mirror)["a b/0.jsonl"], "one\ntwo\n");
    assert_eq!(store.gets(), ["/bucket/runs%2Fa%20b%2F0%2Ejsonl bytes=4-"]);
    is_refused(&store, &mirror, "AccessDenied", "Storage Object Viewer");
}

#[test]
fn containers_of_azure_are_listed_and_what_was_appended_is_compared() {
    let store = Fake::of(Cloud::Azure);
    for n in 0..5 {
        store.put_tagged(&format!("runs/a b/{n}.jsonl"), b"one\n", "0x8D1");
    }
    store.put_tagged("runs//odd.jsonl", b"x", "0x8D1");
    let mirror = store.follow(None, 1 << 20);
    let status = settled(&mirror);
    assert_eq!((status.objects, files(&mirror).len()), (6, 5));
    assert_eq!(status.odd[0].path, "/odd.jsonl");
    store.gets();
    store.put_tagged("runs/a b/0.jsonl", b"one\ntwo\n", "0x8D2");
    settled(&mirror);
    settled(&mirror);
    assert_eq!(files(&mirror)["a b/0.jsonl"], "one\ntwo\n");
    let path = "/bucket/runs/a%20b/0.jsonl";
    assert_eq!(store.gets(), [format!("{path} bytes=0-"), path.to_owned()]);
    let code = "AuthorizationPermissionMismatch";
    is_refused(&store, &mirror, code, "Storage Blob Data Reader");
}

#[test]
fn two_accounts_behind_one_host_have_separate_caches() {
    let (store, cache) = (Fake::of(Cloud::Azure), tempfile::tempdir().unwrap());
    let address = super::Address::parse("az://bucket/runs").unwrap();
    let dir = |account: &str| {
        let mut settings = store.settings();
        settings.endpoint = settings.endpoint.map(|it| format!("{it}/{account}"));
        let options = fake::options(Some(cache.path()), 1 << 20);
        let mirror = Mirror::follow(&address, settings, options).unwrap();
        mirror.dir().to_owned()
    };
    let first = dir("one");
    assert_ne!(dir("two"), first);
    assert_eq!(dir("one"), first);
}

/// Checks that a refusal is shown with the missing role, and that the files stay.
fn is_refused(store: &Fake, mirror: &Mirror, code: &'static str, role: &str) {
    let before = files(mirror);
    store.bucket().down = Some((403, code));
    let status = until(mirror, "a refusal", |status| status.trouble.is_some());
    let trouble = status.trouble.unwrap();
    let what = format!("answered 403 {code}: told so");
    assert!(trouble.what.contains(&what), "{trouble:?}");
    assert!(trouble.hint.unwrap().contains(role));
    assert_eq!(files(mirror), before);
    store.bucket().down = None;
    until(mirror, "the end of it", |status| status.trouble.is_none());
}

#[test]
fn a_store_that_refuses_anonymous_requests_gets_those_of_the_machine() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    store.bucket().has_role = true;
    let mirror = store.follow_anonymously();
    let status = settled(&mirror);
    assert_eq!((status.trouble, files(&mirror).len()), (None, 1));
}

#[test]
fn without_a_role_the_refusal_of_an_anonymous_request_is_shown() {
    let store = Fake::new();
    let mirror = store.follow_anonymously();
    let status = until(&mirror, "a refusal", |status| status.trouble.is_some());
    let trouble = status.trouble.unwrap();
    assert!(trouble.what.contains("answered 403 AccessDenied"));
    let hint = trouble.hint.unwrap();
    assert!(
        hint.contains("no credentials were sent") && hint.contains("AWS_PROFILE"),
        "{hint}"
    );
}
