use super::*;

const BUILD: &str = "a build";
const ROOM: u64 = 1 << 30;

fn open(dir: &Path) -> TextIndex {
    TextIndex::open(dir, "runs", BUILD, ROOM).unwrap()
}

fn text(number: u64, text: &str) -> Text<'_> {
    Text {
        number,
        step: usize::try_from(number).ok(),
        offset: number * 10,
        label: "reply",
        text,
    }
}

/// A text that was read, and its other fields.
#[derive(Debug, PartialEq)]
struct Read {
    number: u64,
    text: String,
    others: (Option<usize>, u64, String),
}

impl From<Text<'_>> for Read {
    fn from(text: Text<'_>) -> Self {
        Self {
            number: text.number,
            text: text.text.to_owned(),
            others: (text.step, text.offset, text.label.to_owned()),
        }
    }
}

fn put(index: &TextIndex, owner: &str, version: u64, texts: &[&str]) -> bool {
    let put = index.put(owner.as_bytes(), version, |add| {
        texts.iter().zip(0..).all(|(words, n)| add(text(n, words)))
    });
    put.unwrap() == Put::Stored
}

/// Returns the texts of `owner` that the index names for `wanted`.
fn named(index: &TextIndex, owner: &str, wanted: &str) -> Vec<Read> {
    let candidates = index.candidates(wanted).unwrap();
    let mut found = Vec::new();
    let mut each = |text: Text<'_>| {
        found.push(Read::from(text));
        true
    };
    let read = index.texts(owner.as_bytes(), candidates.as_ref(), &mut each);
    read.unwrap();
    found
}

/// Returns those that contain it.
fn found(index: &TextIndex, owner: &str, wanted: &str) -> Vec<Read> {
    let mut texts = named(index, owner, wanted);
    let wanted = wanted.to_ascii_lowercase();
    texts.retain(|text| text.text.to_ascii_lowercase().contains(&wanted));
    texts
}

#[test]
fn a_text_is_found_in_any_case_and_at_any_place() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    let words = [
        "Permission DENIED: \"a/b\"",
        "größer als 漢字かな",
        "a\0b\0cd",
        "xy",
    ];
    assert!(put(&index, "a", 1, &words));
    assert!(put(&index, "b", 1, &["nothing of that"]));
    for wanted in [
        "permission denied",
        "\"A/B\"",
        "ßer ALS",
        "漢字か",
        "b\0c",
        "xy",
        "x",
    ] {
        assert_eq!(found(&index, "a", wanted).len(), 1, "{wanted:?}");
        assert!(found(&index, "b", wanted).is_empty(), "{wanted:?}");
    }
    assert_eq!(
        found(&index, "a", "denied"),
        [text(0, words[0]).into()],
        "all fields are kept"
    );
    // Without candidates, no chunk is read.
    assert!(named(&index, "b", "permission").is_empty() && named(&index, "c", "x").is_empty());
}

#[test]
fn a_long_text_is_found_across_the_borders_of_its_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    let words: String = (0..40_000).map(|n| format!("{n:05}é")).collect();
    assert!(put(&index, "a", 1, &["first", &words, "last"]));
    for n in (0..39_990).step_by(97) {
        let wanted: String = (n..n + 10).map(|n| format!("{n:05}é")).collect();
        let found = found(&index, "a", &wanted);
        assert!(
            !found.is_empty() && found.iter().all(|text| text.number == 1),
            "{n}"
        );
    }
    let long = "x".repeat(500) + "end";
    let longer = "y".repeat(PIECE_BYTES - 300) + &long;
    assert!(put(&index, "b", 1, &[&longer]));
    assert_eq!(found(&index, "b", &long).len(), 1, "many trigrams");
}

#[test]
fn texts_are_those_of_the_newest_version() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    assert!(put(&index, "a", 1, &["the first words"]) && put(&index, "b", 1, &["others"]));
    let before = index.candidates("words").unwrap();
    assert!(put(&index, "a", 2, &["other words", "more"]));
    assert!(index.has(b"a", 2) && !index.has(b"a", 1) && index.has(b"b", 1));
    assert!(found(&index, "a", "first").is_empty());
    assert_eq!(found(&index, "a", "words").len(), 1);
    // A search that began before the change sees all of the new texts.
    let mut seen = 0;
    let mut each = |_: Text<'_>| {
        seen += 1;
        true
    };
    index.texts(b"a", before.as_ref(), &mut each).unwrap();
    assert_eq!(seen, 2);
    // Texts that aren't complete change nothing.
    let put = index.put(b"a", 3, |add| {
        add(text(0, "half"));
        false
    });
    assert_eq!(put.unwrap(), Put::Incomplete);
    assert!(index.has(b"a", 2) && found(&index, "a", "half").is_empty());
    assert_eq!(index.retain(|name| name == b"a").unwrap(), 1);
    assert!(!index.has(b"b", 1) && found(&index, "b", "others").is_empty());
    index.compact().unwrap();
    assert_eq!(found(&index, "a", "words").len(), 1);
}

#[test]
fn it_is_known_without_reading_whether_an_owner_may_have_a_text() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    for owner in ["a", "b", "c", "d"] {
        assert!(put(&index, owner, 1, &[&format!("words of {owner}")]));
    }
    let holds = |version, owner: &str, candidates: &Option<Candidates>| {
        index.holds(owner.as_bytes(), version, candidates.as_ref())
    };
    let all = |version, candidates: &Option<Candidates>| {
        ["a", "b", "c", "d", "e"].map(|owner| holds(version, owner, candidates))
    };
    let one = index.candidates("words of b").unwrap();
    assert_eq!(
        all(1, &one),
        [
            Holds::None,
            Holds::Some,
            Holds::None,
            Holds::None,
            Holds::Nothing
        ]
    );
    assert_eq!(all(2, &one), [Holds::Nothing; 5]);
    // A text that is too short may be anywhere.
    let short = index.candidates("xy").unwrap();
    assert_eq!(all(1, &short)[..4], [Holds::Some; 4]);
    // The search doesn't know what was added after it began.
    assert!(put(&index, "a", 2, &["other words"]) && put(&index, "e", 1, &["more"]));
    assert_eq!(holds(2, "a", &one), Holds::Some);
    assert_eq!(holds(1, "e", &one), Holds::Some);
    assert_eq!(holds(1, "d", &one), Holds::None);
}

#[test]
fn the_next_start_knows_the_texts_unless_the_build_differs() {
    let dir = tempfile::tempdir().unwrap();
    assert!(put(&open(dir.path()), "a", 7, &["words"]));
    let index = open(dir.path());
    assert!(index.has(b"a", 7) && found(&index, "a", "words").len() == 1);
    drop(index);
    let other = TextIndex::open(dir.path(), "runs", "another build", ROOM).unwrap();
    assert!(!other.has(b"a", 7) && found(&other, "a", "words").is_empty());
}

#[test]
fn two_boards_never_share_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    let error = TextIndex::open(dir.path(), "runs", BUILD, ROOM).unwrap_err();
    assert_eq!(error.to_string(), "another board uses it");
    assert!(TextIndex::open(dir.path(), "others", BUILD, ROOM).is_ok());
    drop(index);
    open(dir.path());
}

#[test]
fn a_damaged_database_is_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    for n in 0..50 {
        assert!(put(
            &index,
            &format!("run {n}"),
            1,
            &[&format!("words {n} ").repeat(500)]
        ));
    }
    let path = index.path.clone();
    drop(index);
    let whole = fs::read(&path).unwrap();
    // Every page damaged in turn: what isn't found as damage at the start is found by a search or by
    // an update, and never ends in a panic or in texts of others.
    for page in (0..whole.len()).step_by(4096 * 3) {
        let mut spoilt = whole.clone();
        spoilt
            .iter_mut()
            .skip(page + 100)
            .take(3_000)
            .for_each(|byte| *byte ^= 0x5a);
        fs::write(&path, &spoilt).unwrap();
        let Ok(index) = TextIndex::open(dir.path(), "runs", BUILD, ROOM) else {
            panic!("page {page}: it can't be opened");
        };
        for n in 0..50 {
            let owner = format!("run {n}");
            let candidates = index
                .candidates(&owner.replace("run", "words"))
                .unwrap_or_default();
            let _ = index.texts(owner.as_bytes(), candidates.as_ref(), &mut |text| {
                assert!(
                    text.text.contains("words") || text.text.contains("new"),
                    "{text:?}"
                );
                true
            });
        }
        // It can be used again.
        let again = (0..3).any(|_| {
            index
                .put(b"new", 2, |add| add(text(0, "new words")))
                .is_ok_and(|put| put == Put::Stored)
        });
        assert!(again, "page {page}");
    }
    fs::write(&path, "no database at all").unwrap();
    let index = open(dir.path());
    assert!(put(&index, "a", 1, &["words"]) && found(&index, "a", "words").len() == 1);
}

#[test]
fn a_full_database_takes_no_more_until_something_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let index = TextIndex::open(dir.path(), "runs", BUILD, 300_000).unwrap();
    let texts: Vec<String> = (0..40)
        .map(|n| {
            (0..4_000)
                .map(|k| format!("{:x} ", (k * 7919 + n * 104_729) % 65_521))
                .collect()
        })
        .collect();
    let count = (0..40)
        .take_while(|n| put(&index, &n.to_string(), 1, &[&texts[*n]]))
        .count();
    assert!((2..40).contains(&count), "{count} fit");
    assert!(fs::metadata(&index.path).unwrap().len() < 1_000_000);
    index.retain(|name| name == b"0").unwrap();
    index.compact().unwrap();
    assert!(put(&index, "new", 1, &["words"]));
    assert!(found(&index, "new", "words").len() == 1);
}

#[test]
#[cfg(unix)]
fn only_its_owner_may_read_the_database() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let index = open(dir.path());
    assert!(put(&index, "a", 1, &["words"]));
    for file in fs::read_dir(dir.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(
            file.metadata().unwrap().permissions().mode() & 0o077,
            0,
            "{:?}",
            file.path()
        );
    }
    drop(index);
    let path = dir.path().join("texts-link.db");
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    let error = TextIndex::open(dir.path(), "link", BUILD, ROOM).unwrap_err();
    assert_eq!(error.to_string(), "not a regular file");
}

#[test]
fn databases_that_no_board_opened_for_long_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let old = |name: &str| {
        let path = dir.path().join(name);
        let file = File::create(&path).unwrap();
        file.set_modified(SystemTime::now() - UNUSED * 2).unwrap();
        path
    };
    let (unused, other) = (old("texts-old.db"), old("mine.db"));
    let used = TextIndex::open(dir.path(), "used", BUILD, ROOM).unwrap();
    File::options()
        .write(true)
        .open(&used.path)
        .unwrap()
        .set_modified(SystemTime::now() - UNUSED * 2)
        .unwrap();
    open(dir.path());
    assert!(!unused.exists() && other.exists() && used.path.exists());
}

#[test]
fn a_single_owner_takes_no_more_than_there_is_room_for() {
    let dir = tempfile::tempdir().unwrap();
    let index = TextIndex::open(dir.path(), "runs", BUILD, 300_000).unwrap();
    assert!(put(&index, "small", 1, &["words"]));
    let mut taken = 0;
    let large = index.put(b"large", 1, |add| {
        (0..100_000).all(|n| {
            taken += 1;
            let words: String = (0..2_000)
                .map(|k| format!("{:x} ", (k * 7919 + n * 104_729) % 65_521))
                .collect();
            add(text(n, &words))
        })
    });
    assert_eq!(large.unwrap(), Put::NoRoom);
    assert!(taken < 1_000, "{taken} texts were written");
    assert!(!index.has(b"large", 1) && found(&index, "small", "words").len() == 1);
    assert!(put(&index, "other", 1, &["words"]));
}
