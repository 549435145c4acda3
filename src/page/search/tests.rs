use std::sync::Arc;
use std::time::Duration;

use crate::analysis::search::{InLine, InRun, LeftOut, LinePlace as At};
use crate::page::part::job::State;
use crate::page::search::*;

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m\u{202e}";

fn found(hits: usize) -> LineMatch {
    let hit = |n: usize| Hit {
        path: HOSTILE.to_owned(),
        in_key: false,
        before: format!("{n}{HOSTILE}"),
        text: "needle".to_owned(),
        after: HOSTILE.to_owned(),
    };
    let place = At {
        offset: 7,
        step: Some(3),
        ..At::default()
    };
    LineMatch {
        file: TraceFile::Steps,
        place,
        line: InLine {
            hits: (0..hits).map(hit).collect(),
            found: hits,
            as_text: false,
        },
    }
}

fn standing(state: State, found_in: Vec<InRun>, hits: usize, all: usize) -> Standing {
    let tally = Tally {
        runs: 110,
        duplicates_left_out: 0,
        runs_done: 40,
        runs_from_index: 0,
        runs_with: found_in.len(),
        bytes: 3_000_000,
        bytes_done: 1_000_000,
        took: Duration::from_millis(1_240),
        found: all,
        kept: hits,
        found_in,
        left_out: vec![LeftOut {
            key: HOSTILE.to_owned(),
            file: TraceFile::Events,
            why: "gone".to_owned(),
        }],
        left_out_count: 3,
    };
    Standing {
        status: Status {
            state,
            number: 5,
            changed: 0,
        },
        tally,
    }
}

fn context(limit: usize) -> Context {
    Context {
        text: "needle".to_owned(),
        typed: "<script>alert(1)</script>".to_owned(),
        scope: Scope::Files,
        ignored: Vec::new(),
        limit,
        fault: None,
        known: 110,
        zone: TimeZone::UTC,
    }
}

fn in_runs(runs: usize, hits: usize) -> Vec<InRun> {
    let run = |n| InRun {
        key: format!("a/{n}").into(),
        lines: Arc::new(vec![found(hits)]),
    };
    (0..runs).map(run).collect()
}

#[test]
fn the_answer_says_how_much_of_how_much() {
    let answer = |state, kept, all, limit| {
        let standing = standing(state, in_runs(2, kept / 2), kept, all);
        Body {
            context: &context(limit),
            standing: Some(&standing),
            known: &HashMap::new(),
        }
        .answer()
    };
    assert_eq!(
        answer(State::Running, 0, 0, 200),
        "No matches yet (40 of 110 runs searched)."
    );
    assert_eq!(
        answer(State::Running, 6, 6, 200),
        "6 matches so far (40 of 110 runs searched)."
    );
    assert_eq!(
        answer(State::Running, 6, 5_000, 4),
        "5,000 matches so far (40 of 110 runs searched)."
    );
    assert_eq!(
        answer(State::Done, 6, 6, 200),
        "6 matches in 2 of 110 runs."
    );
    assert_eq!(
        answer(State::Done, 6, 5_000, 200),
        "5,000 matches in 2 of 110 runs. Showing 6."
    );
    assert_eq!(answer(State::Done, 0, 0, 200), "No matches in 110 runs.");
    assert_eq!(
        answer(State::Cancelled, 6, 6, 200),
        "Cancelled: 6 matches so far (40 of 110 runs searched)."
    );
}

#[test]
fn a_search_of_runs_whose_bytes_nobody_added_up_counts_runs() {
    let Standing { status, tally } = standing(State::Running, in_runs(1, 1), 1, 1);
    let standing = Standing {
        status,
        tally: Tally { bytes: 0, ..tally },
    };
    let html = Body {
        context: &context(6),
        standing: Some(&standing),
        known: &HashMap::new(),
    }
    .render()
    .unwrap();
    assert!(
        html.contains("value=\"40\" max=\"110\"") && html.contains("40 of 110 runs"),
        "{html}"
    );
}

#[test]
fn hits_are_shown_up_to_the_limit_and_lead_to_their_steps() {
    let standing = standing(State::Running, in_runs(3, 4), 12, 12);
    let html = Body {
        context: &context(6),
        standing: Some(&standing),
        known: &HashMap::new(),
    }
    .render()
    .unwrap();
    assert_eq!(html.matches("<h2><a href=").count(), 2, "two runs: {html}");
    assert_eq!(
        html.matches("<a href=\"/runs/a%2F0?step=3\">").count(),
        5,
        "its four texts and their step: {html}"
    );
    assert_eq!(
        html.matches("<a href=\"/runs/a%2F1?step=3\">").count(),
        3,
        "{html}"
    );
    assert!(
        html.contains(">Show 12</a>") && html.contains("href=\"/search?q=needle&#38;in="),
        "{html}"
    );
    assert!(
        html.contains("&#38;limit=1000\"") && html.contains("&#38;cancel=5\""),
        "{html}"
    );
    assert!(html.contains("value=\"1000000\" max=\"3000000\""), "{html}");
    assert!(
        html.contains("events.jsonl: gone</li><li>and 2 files</li>"),
        "one is named, two are counted: {html}"
    );
}

#[test]
fn a_text_that_stands_in_several_files_is_shown_once_below_its_step() {
    let hit = |path: &str, text: &str| Hit {
        path: path.to_owned(),
        in_key: false,
        before: "a ".to_owned(),
        text: text.to_owned(),
        after: String::new(),
    };
    let found = |file, step, event, hits: Vec<Hit>| {
        let place = At {
            event,
            step,
            ..At::default()
        };
        LineMatch {
            file,
            place,
            line: InLine {
                found: hits.len(),
                hits,
                as_text: false,
            },
        }
    };
    let lines = [
        found(
            TraceFile::Manifest,
            None,
            None,
            vec![hit("summary", "same"), hit("task", "other")],
        ),
        found(
            TraceFile::Events,
            Some(3),
            Some(12),
            vec![hit("payload", "same")],
        ),
        found(
            TraceFile::Steps,
            Some(3),
            None,
            vec![hit("thought", "same")],
        ),
    ];
    let hits = lines
        .iter()
        .flat_map(|found| found.line.hits.iter().map(move |hit| (found, hit)))
        .collect();
    let run = grouped::RunHits::new("r", None, hits);
    let groups: Vec<_> = run
        .groups
        .iter()
        .map(|group| (group.name(), group.texts.len()))
        .collect();
    assert_eq!(
        groups,
        [("Step 3".to_owned(), 1), ("Outside steps".to_owned(), 1)]
    );
    let text = &run.groups[0].texts[0];
    assert_eq!((text.hit.path.as_str(), text.also.len()), ("thought", 2));
}

#[test]
fn hostile_text_stays_text() {
    let (context, standing) = (context(200), standing(State::Running, in_runs(1, 1), 1, 1));
    let known = HashMap::new();
    let body = Body {
        context: &context,
        standing: Some(&standing),
        known: &known,
    };
    let page = SearchPage {
        shell: Shell::default(),
        body,
    }
    .render()
    .unwrap();
    for html in [page, SearchPart { body }.render().unwrap()] {
        assert!(
            html.contains("<mark>needle</mark>") && html.contains("/live/search?q=needle"),
            "{html}"
        );
        assert!(
            !html.contains("<script>alert")
                && !html.contains('\u{1b}')
                && !html.contains('\u{202e}'),
            "{html}"
        );
    }
}

#[test]
fn a_program_is_told_how_many_hits_it_does_not_get() {
    let standing = standing(State::Done, in_runs(3, 4), 12, 40);
    let page_of = |limit| serde_json::to_value(document(&context(limit), Some(&standing))).unwrap();
    for (limit, hits) in [(5, 5), (100, 12)] {
        let page_of = page_of(limit);
        assert_eq!(page_of["hits"].as_array().map(Vec::len), Some(hits));
        assert_eq!(
            (&page_of["found"], &page_of["hits_left_out"]),
            (&40.into(), &(40 - hits).into())
        );
    }
    let nothing = serde_json::to_value(document(&context(5), None)).unwrap();
    assert_eq!(nothing["hits_left_out"], 0);
}
