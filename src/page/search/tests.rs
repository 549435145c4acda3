use std::sync::Arc;
use std::time::Duration;

use crate::analysis::search::{InLine, InRun, LeftOut, Place as At};
use crate::page::search::*;

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m\u{202e}";

fn found(hits: usize) -> Found {
    let hit = Hit {
        path: HOSTILE.to_owned(),
        in_key: false,
        before: HOSTILE.to_owned(),
        text: "needle".to_owned(),
        after: HOSTILE.to_owned(),
    };
    let place = At { offset: 7, event: None, step: Some(3) };
    Found { file: TraceFile::Steps, place, line: InLine { hits: vec![hit; hits], found: hits, as_text: false } }
}

fn standing(state: State, found_in: Vec<InRun>, hits: usize, all: usize) -> Standing {
    let tally = Tally {
        runs: 110,
        runs_done: 40,
        runs_with: found_in.len(),
        bytes: 3_000_000,
        bytes_done: 1_000_000,
        took: Duration::from_millis(1_240),
        found: all,
        kept: hits,
        found_in,
        left_out: vec![LeftOut { key: HOSTILE.to_owned(), file: TraceFile::Events, why: "gone".to_owned() }],
        left_out_count: 3,
    };
    Standing { state, number: 5, changed: 0, tally }
}

fn context(limit: usize) -> Context {
    Context {
        text: "needle".to_owned(),
        typed: "<script>alert(1)</script>".to_owned(),
        ignored: Vec::new(),
        limit,
        fault: None,
        known: 110,
        shell: Shell::default(),
        zone: TimeZone::UTC,
    }
}

fn in_runs(runs: usize, hits: usize) -> Vec<InRun> {
    vec![InRun { key: "a/b".into(), lines: Arc::new(vec![found(hits)]) }; runs]
}

#[test]
fn the_answer_says_how_much_of_how_much() {
    let answer = |state, kept, all, limit| {
        body(&context(limit), Some(&standing(state, in_runs(2, kept / 2), kept, all))).answer.as_str().to_owned()
    };
    assert_eq!(answer(State::Running, 0, 0, 200), "0 of at least 0 hits, after 40 of 110 runs.");
    assert_eq!(answer(State::Running, 6, 6, 200), "6 of at least 6 hits, after 40 of 110 runs.");
    assert_eq!(answer(State::Running, 6, 5_000, 4), "4 of at least 5,000 hits, after 40 of 110 runs.");
    assert_eq!(answer(State::Done, 6, 6, 200), "6 hits in 2 of 110 runs.");
    assert_eq!(answer(State::Done, 6, 5_000, 200), "6 of 5,000 hits in 2 of 110 runs.");
    assert_eq!(answer(State::Done, 0, 0, 200), "No hit in 110 runs.");
    assert_eq!(answer(State::Cancelled, 6, 6, 200), "Stopped: at least 6 hits, after 40 of 110 runs.");
}

#[test]
fn hits_are_shown_up_to_the_limit_and_lead_to_their_steps() {
    let standing = standing(State::Running, in_runs(3, 4), 12, 12);
    let body = body(&context(6), Some(&standing));
    assert_eq!(body.runs.iter().map(|run| run.hits.len()).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(body.runs[0].hits[0].href, "/runs/a%2Fb?step=3");
    let (text, href) = body.more.as_ref().unwrap();
    assert_eq!(text, "Show 12");
    assert!(href.starts_with("/search?q=needle&in=") && href.ends_with("&limit=1000"), "{href}");
    let progress = body.progress.as_ref().unwrap();
    assert_eq!((progress.done, progress.total), (1_000_000, 3_000_000));
    assert!(progress.cancel.ends_with("&cancel=5"), "{}", progress.cancel);
    assert_eq!(body.left_out.len(), 2, "one is named, two are counted");
}

#[test]
fn hostile_text_stays_text() {
    let standing = standing(State::Running, in_runs(1, 1), 1, 1);
    let (page, part) = (page(&context(200), Some(&standing)), part(&context(200), Some(&standing)));
    for html in [page.render().unwrap(), part.render().unwrap()] {
        assert!(html.contains("<mark>needle</mark>") && html.contains("/live/search?q=needle"), "{html}");
        assert!(!html.contains("<script>alert") && !html.contains('\u{1b}') && !html.contains('\u{202e}'), "{html}");
    }
}
