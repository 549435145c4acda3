//! Tests evaluating other rules on many runs: the page, the JSON, refused requests, and how an
//! evaluation ends early.

use std::fs;
use std::path::Path;

use scraper::Html;
use serde_json::Value;

use crate::board::Board;
use crate::disk::copy;
use crate::heavy::many_long;
use crate::html::{hrefs, texts};
use crate::soak::times;
use crate::wait::until;

/// A board over this repository's sample runs, completely read.
fn sample_runs() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs"),
        &dir.path().join("runs"),
    );
    let board = Board::serve(&dir.path().join("runs"));
    board.until_read();
    (dir, board)
}

#[test]
fn the_page_and_the_json_say_the_same() {
    let (_dir, board) = sample_runs();
    let query = "sweep=max_steps&values=1..12&q=";
    let json = board.answered(&format!("/api/whatif?{query}"));
    assert_eq!(json["state"], "done", "{json}");
    assert_eq!(
        (&json["done"], &json["runs"]["asked"]),
        (&json["total"], &json["total"])
    );
    let limits = json["limits"].as_array().unwrap();
    assert_eq!(
        (limits.len(), limits[3]["rule"].as_str()),
        (12, Some("max_steps=4"))
    );

    let page = Html::parse_document(board.get(&format!("/whatif?{query}")).text());
    let answer = texts(&page, "#answer [role=status]");
    assert_eq!(answer, [format!("{}.", json["answer"].as_str().unwrap())]);
    let row = |n: usize| texts(&page, &format!("#limit-{n} td:nth-of-type(1)"));
    for (n, limit) in limits.iter().enumerate() {
        assert_eq!(row(n), [limit["runs_cut"].to_string()], "{limit}");
        let lost = texts(&page, &format!("#limit-{n} td:nth-of-type(2)"));
        assert_eq!(lost, [limit["answers_lost"].to_string()], "{limit}");
    }
    // Every listed run links to the step at which the rule would end it.
    let links = hrefs(&page, "#limit-1 .run a");
    assert!(
        !links.is_empty() && links.iter().all(|link| link.ends_with("?step=1")),
        "{links:?}"
    );
    assert_eq!(board.get(&links[0]).status, 200);
    assert!(hrefs(&page, ".swp-c a").contains(&"#recorded".to_owned()));
    assert_eq!(texts(&page, "nav [aria-current=page]"), ["What-if"]);
}

#[test]
fn rules_are_asked_each_and_together_and_a_query_selects_the_runs() {
    let (_dir, board) = sample_runs();
    let path = "/api/whatif?q=stop:final+steps%3Cmany&rule=max_steps%3D2&rule=token_budget%3D500";
    let json = board.answered(path);
    let rules: Vec<_> = json["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].clone())
        .collect();
    assert_eq!(rules, ["max_steps=2", "token_budget=500"]);
    assert_eq!(json["ignored"][0]["term"], "steps<many", "{json}");
    let matching = board.json("/api/runs?q=stop:final")["matched"].clone();
    assert_eq!(json["total"], matching, "the valid term still selects");
    let (each, all) = (&json["rules"], &json["together"]);
    let cut = |rule: &Value| rule["runs_cut"].as_u64().unwrap();
    assert!(cut(all) >= cut(&each[0]).max(cut(&each[1])), "{json}");
    let page = until("the question is answered", || {
        let page = Html::parse_document(
            board
                .get("/whatif?q=steps%3Cmany&rule=max_steps%3D2")
                .text(),
        );
        (!texts(&page, "#rule-0 th").is_empty()).then_some(page)
    });
    assert_eq!(texts(&page, "#ignored code"), ["steps<many"]);
    assert_eq!(texts(&page, "#rule-0 th"), ["max_steps=2"]);
    assert!(
        texts(&page, "#rule-1 th").is_empty(),
        "a rule isn't combined with itself"
    );
}

#[test]
fn where_no_run_matches_nothing_is_asked() {
    let (_dir, board) = sample_runs();
    let json = board.answered("/api/whatif?q=nothing-is-called-so");
    assert_eq!(
        (&json["state"], &json["total"], &json["best"]),
        (&"done".into(), &0.into(), &Value::Null)
    );
    let page = Html::parse_document(board.get("/whatif?q=nothing-is-called-so").text());
    assert_eq!(texts(&page, "#answer [role=status]"), ["No runs match."]);
    assert!(texts(&page, "table").is_empty());
}

#[test]
fn what_cannot_be_asked_is_named_with_a_right_one() {
    let (_dir, board) = sample_runs();
    for (query, words) in [
        ("rule=max_step%3D3", "unknown rule `max_step`"),
        ("rule=max_steps%3D-3", "Example: max_steps=8"),
        ("rule=content_match%3D(", "Example: content_match=(?i)done"),
        (
            "rule=structured_output%3D%2Fetc%2Fpasswd",
            "can't be read here",
        ),
        ("sweep=keyword", "Choose one of max_steps"),
        ("sweep=max_steps&values=0", "Example: 2,5,10..40"),
        ("sweep=critic_below", "choose a critic to vary its score"),
        ("sweep=critic_below", "Example: critic=tests"),
    ] {
        let problem = board.get(&format!("/api/whatif?{query}"));
        assert_eq!(
            (problem.status, problem.header("content-type")),
            (400, "application/problem+json"),
            "{query}"
        );
        let json = problem.json();
        let texts_of = [&json["title"], &json["detail"], &json["hints"][0]];
        assert!(
            texts_of
                .into_iter()
                .filter_map(Value::as_str)
                .any(|text| text.contains(words)),
            "{query}: {json}"
        );
        let page = board.get(&format!("/whatif?{query}"));
        assert_eq!(page.status, 400, "{query}");
        let page = Html::parse_document(page.text());
        let alert = &texts(&page, "[role=alert]")[0];
        assert!(alert.contains(words), "{query}: {alert}");
        assert_eq!(
            texts(&page, "main form button"),
            ["Evaluate"],
            "the form is still there"
        );
    }
}

#[test]
fn what_changes_afterwards_is_counted_and_asking_again_asks_anew() {
    let (dir, board) = sample_runs();
    let path = "/api/whatif?sweep=max_steps&values=3";
    let first = board.answered(path);
    assert_eq!(first["changed"], 0, "{first}");
    for gone in ["final", "success"] {
        fs::remove_dir_all(dir.path().join("runs").join(gone)).unwrap();
    }
    copy(
        &dir.path().join("runs/long"),
        &dir.path().join("runs/longer"),
    );
    let stale = until("all three are noticed", || {
        Some(board.json(path)).filter(|answer| answer["changed"] == 3)
    });
    assert_eq!(
        (&stale["number"], &stale["limits"]),
        (&first["number"], &first["limits"]),
        "the answer is kept"
    );
    let page = Html::parse_document(board.get("/whatif?sweep=max_steps&values=3").text());
    assert!(texts(&page, "#answer")[0].contains("3 runs changed since"));

    let again = board.answered(&format!("{path}&again={}", first["number"]));
    assert_ne!(again["number"], first["number"]);
    assert_eq!(
        again["total"].as_u64(),
        first["total"].as_u64().map(|total| total - 1)
    );
    assert_eq!(
        board.answered(&format!("{path}&again={}", first["number"]))["number"],
        again["number"]
    );
}

#[test]
fn a_question_under_way_says_how_far_it_is_and_can_be_ended() {
    let dir = tempfile::tempdir().unwrap();
    many_long(dir.path(), 60, times(200, 400));
    let board = Board::serve(dir.path());
    board.until_read();
    let query = "sweep=max_steps&values=1..400/50";
    let mut path = format!("/api/whatif?{query}");
    // On a busy machine, the answer may be there before the next request. It's then asked for again.
    let ended = until("a question is cancelled", || {
        let asked = board.json(&path);
        if asked["state"] == "running" {
            assert_eq!(asked["total"], 60, "{asked}");
            assert_eq!(
                (&asked["limits"], &asked["runs"]),
                (&Value::Null, &Value::Null)
            );
        }
        path = format!("/api/whatif?{query}&again={}", asked["number"]);
        let page = Html::parse_document(board.get(&format!("/whatif?{query}")).text());
        let cancel = hrefs(&page, "#cancel").pop()?;
        assert_eq!(
            texts(&page, "#answer [role=status]"),
            ["Evaluating max_steps at 50 limits on 60 runs."]
        );
        // Pages don't have to wait.
        assert_eq!(board.get("/").status, 200);
        board.get(&cancel);
        let ended = until("it has ended", || {
            let answer = board.json(&format!("/api/whatif?{query}"));
            (answer["state"] != "running").then_some(answer)
        });
        (ended["state"] == "cancelled").then_some(ended)
    });
    assert_eq!(
        ended["runs"]["asked"], ended["done"],
        "its sums cover the requested runs"
    );
    assert!(ended["done"].as_u64() < Some(60));
}

#[test]
fn a_rule_that_cannot_be_asked_changes_nothing_of_how_many_runs_the_query_selects() {
    let (_dir, board) = sample_runs();
    let label = |rule: &str| {
        let answer = board.get(&format!("/whatif?q=stop:final&rule={rule}"));
        (
            answer.status,
            texts(&Html::parse_document(answer.text()), ".swp-f label.wide")[0].clone(),
        )
    };
    let (asked, right) = label("max_steps=3");
    let (refused, wrong) = label("nonsense");
    assert_eq!((asked, refused), (200, 400));
    assert!(
        right == wrong && !wrong.starts_with("Runs, 0 of"),
        "{right} and {wrong}"
    );
}
