//! Tests reading, listing and searching.

use serde_json::json;

use super::super::{ListDir, ReadFile, Search, SearchResult, Workspace};
use super::{Place, call};
use crate::error::Kind;

#[test]
fn a_workspace_is_a_directory() {
    let place = Place::new();
    let missing = Workspace::open(&place.root().join("nowhere")).unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
    place.write("file", "");
    assert_eq!(
        Workspace::open(&place.root().join("file"))
            .unwrap_err()
            .kind(),
        Kind::Unreadable
    );
}

#[tokio::test]
async fn lines_are_given_by_number() {
    let place = Place::new();
    place.write("src/a.txt", "one\ntwo\r\nthree\nfour");
    let read = ReadFile::new(place.workspace.clone(), 1000);
    let whole = call(&read, json!({"path": "src/a.txt"})).await.unwrap();
    assert_eq!(
        (whole.text.as_str(), whole.total_lines, whole.note),
        ("one\ntwo\r\nthree\nfour", 4, None)
    );
    let some = call(
        &read,
        json!({"path": "./src/a.txt", "start_line": 2, "end_line": 3}),
    )
    .await
    .unwrap();
    assert_eq!(
        (some.text.as_str(), some.start_line, some.end_line),
        ("two\r\nthree\n", 2, 3)
    );
    let last = call(
        &read,
        json!({"path": "src/a.txt", "start_line": 4, "end_line": 99}),
    )
    .await
    .unwrap();
    assert_eq!(
        (last.text.as_str(), last.end_line, last.truncated_bytes),
        ("four", 4, 0)
    );
    let beyond = call(&read, json!({"path": "src/a.txt", "start_line": 5}))
        .await
        .unwrap_err();
    assert_eq!(
        beyond.message,
        "src/a.txt: has 4 lines, so there is no line 5"
    );
    for wrong in [
        json!({"path": "src/a.txt", "start_line": 0}),
        json!({"path": "a", "start_line": 3, "end_line": 2}),
    ] {
        assert_eq!(
            call(&read, wrong).await.unwrap_err().category,
            "invalid_arguments"
        );
    }
}

#[tokio::test]
async fn an_empty_file_has_no_lines() {
    let place = Place::new();
    place.write("empty", "");
    let read = ReadFile::new(place.workspace.clone(), 1000);
    let empty = call(&read, json!({"path": "empty", "start_line": 1}))
        .await
        .unwrap();
    assert_eq!(
        (
            empty.text.as_str(),
            empty.start_line,
            empty.end_line,
            empty.total_lines
        ),
        ("", 0, 0, 0)
    );
}

#[tokio::test]
async fn a_long_answer_is_cut_between_lines_and_says_how_to_go_on() {
    let place = Place::new();
    place.write(
        "long.txt",
        (1..=100)
            .map(|n| format!("line {n:03}\n"))
            .collect::<String>(),
    );
    let read = ReadFile::new(place.workspace.clone(), 95);
    let first = call(&read, json!({"path": "long.txt"})).await.unwrap();
    assert_eq!(
        (first.end_line, first.total_lines, first.truncated_bytes),
        (10, 100, 810)
    );
    assert_eq!(
        first.note.unwrap(),
        "lines 11 to 100 are omitted (810 bytes); continue with start_line 11"
    );
    let next = call(
        &read,
        json!({"path": "long.txt", "start_line": 11, "end_line": 25}),
    )
    .await
    .unwrap();
    assert!(
        next.text.starts_with("line 011\n") && next.text.ends_with("line 020\n"),
        "{}",
        next.text
    );
    assert_eq!(
        next.note.unwrap(),
        "lines 21 to 25 are omitted (45 bytes); continue with start_line 21"
    );
}

#[tokio::test]
async fn a_line_beyond_the_limit_is_named() {
    let place = Place::new();
    place.write("min.js", "x".repeat(500) + "\nshort\n");
    let read = ReadFile::new(place.workspace.clone(), 100);
    let cut = call(&read, json!({"path": "min.js"})).await.unwrap();
    assert_eq!((cut.text.as_str(), cut.truncated_bytes), ("", 507));
    assert_eq!(
        cut.note.unwrap(),
        "line 1 alone is longer than the limit of 100 bytes; read parts of it with a command"
    );
}

#[tokio::test]
async fn what_is_no_text_is_said_to_be_none() {
    let place = Place::new();
    place.write("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    place.write("latin1.txt", b"caf\xe9\n");
    let read = ReadFile::new(place.workspace.clone(), 1000);
    let binary = call(&read, json!({"path": "logo.png"})).await.unwrap_err();
    assert_eq!(
        binary.message,
        "logo.png: a binary file of 16 bytes, not text"
    );
    assert_eq!(
        call(&read, json!({"path": "latin1.txt"}))
            .await
            .unwrap()
            .text,
        "caf\u{fffd}\n"
    );
    let dir = call(&read, json!({"path": "."})).await.unwrap_err();
    assert_eq!(dir.message, ".: a directory, not a file");
    let missing = call(&read, json!({"path": "no/such"})).await.unwrap_err();
    assert_eq!(
        missing.message,
        "no/such: there is no such file or directory"
    );
    let empty = call(&read, json!({"path": ""})).await.unwrap_err();
    assert_eq!(empty.category, "invalid_arguments");
}

#[tokio::test]
async fn a_pipe_is_refused_and_not_waited_for() {
    let place = Place::new();
    let made = std::process::Command::new("mkfifo")
        .arg(place.root().join("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let read = ReadFile::new(place.workspace.clone(), 1000);
    let pipe = call(&read, json!({"path": "pipe"})).await.unwrap_err();
    assert_eq!(pipe.message, "pipe: neither a file nor a directory");
}

#[tokio::test]
async fn a_directory_is_listed_by_name_with_kinds_and_sizes() {
    let place = Place::new();
    place.write("b.txt", "12345");
    place.write("a/inner", "");
    let list = ListDir::new(place.workspace.clone());
    let listing = call(&list, json!({})).await.unwrap();
    let shown: Vec<_> = listing
        .entries
        .iter()
        .map(|e| (e.name.as_str(), e.kind, e.size_bytes))
        .collect();
    assert_eq!(shown, [("a", "dir", None), ("b.txt", "file", Some(5))]);
    assert_eq!((listing.total, listing.truncated), (2, false));
    let file = call(&list, json!({"path": "b.txt"})).await.unwrap_err();
    assert_eq!(file.message, "b.txt: a part of the path is not a directory");
}

#[tokio::test]
async fn a_full_directory_is_cut() {
    let place = Place::new();
    (0..510).for_each(|n| place.write(&format!("many/{n:03}"), ""));
    let listing = call(
        &ListDir::new(place.workspace.clone()),
        json!({"path": "many"}),
    )
    .await
    .unwrap();
    assert_eq!(
        (listing.entries.len(), listing.total, listing.truncated),
        (500, 510, true)
    );
    assert_eq!(listing.entries.last().unwrap().name, "499");
}

fn places(found: &SearchResult) -> Vec<String> {
    found
        .hits
        .iter()
        .map(|hit| format!("{}:{}: {}", hit.path, hit.line, hit.text))
        .collect()
}

#[tokio::test]
async fn a_search_gives_lines_by_path_and_number() {
    let place = Place::new();
    place.write("src/b.rs", "fn two() {}\r\n// Fn none\n");
    place.write("src/a.rs", "x\nfn one() {}\n");
    place.write("notes.md", "fn in prose\n");
    place.write("bin", b"fn \0");
    place.write(".git/config", "fn hidden\n");
    let search = Search::new(place.workspace.clone());
    let found = call(&search, json!({"pattern": "^fn "})).await.unwrap();
    assert_eq!(
        places(&found),
        [
            "notes.md:1: fn in prose",
            "src/a.rs:2: fn one() {}",
            "src/b.rs:1: fn two() {}"
        ]
    );
    assert_eq!(
        (found.files_searched, found.files_skipped, found.truncated),
        (3, 1, false)
    );
    let args = json!({"pattern": "FN N", "path": "src", "files": r"\.rs$", "ignore_case": true});
    assert_eq!(
        places(&call(&search, args).await.unwrap()),
        ["src/b.rs:2: // Fn none"]
    );
    let one = call(&search, json!({"pattern": "one", "path": "./src/a.rs"}))
        .await
        .unwrap();
    assert_eq!(places(&one), ["src/a.rs:2: fn one() {}"]);
    let empty_lines = call(&search, json!({"pattern": "^$"})).await.unwrap();
    assert_eq!(empty_lines.hits, []);
}

#[tokio::test]
async fn a_search_that_finds_too_much_says_so() {
    let place = Place::new();
    place.write("a", "x\n".repeat(250));
    place.write("b", "y".repeat(400));
    let search = Search::new(place.workspace.clone());
    let found = call(&search, json!({"pattern": "x"})).await.unwrap();
    assert_eq!((found.hits.len(), found.truncated), (200, true));
    assert!(
        found
            .note
            .unwrap()
            .starts_with("only the first 200 matches")
    );
    let long = call(&search, json!({"pattern": "y"})).await.unwrap();
    assert!(
        long.hits[0].text.ends_with("yy [100 more bytes]"),
        "{:?}",
        long.hits
    );
}

#[tokio::test]
async fn a_pattern_that_does_not_compile_or_grows_too_large_is_refused() {
    let place = Place::new();
    let search = Search::new(place.workspace.clone());
    for pattern in ["(", r"\w{500}{500}"] {
        let wrong = call(&search, json!({"pattern": pattern}))
            .await
            .unwrap_err();
        assert_eq!(wrong.category, "invalid_arguments");
    }
    let missing = call(&search, json!({"pattern": "x", "path": "nowhere"}))
        .await
        .unwrap_err();
    assert_eq!(
        missing.message,
        "nowhere: there is no such file or directory"
    );
}
