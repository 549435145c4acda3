//! Tests that the page, the CSV, the API and the command line show the scores in the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{copy, corpus};
use crate::format::serve_all;
use crate::html::{attributes, page, texts};
use crate::traces::traces;

fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("sample_runs")
        .join(name)
}

/// A board over runs of our own engine and of QitOS.
fn board() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    for run in [
        "fix_bug",
        "judge",
        "critic_conflict",
        "budget_tokens",
        "long",
    ] {
        copy(&ours(run), &dir.path().join(run));
    }
    for run in ["q060_critic_odd_outputs", "q060_nan_infinity"] {
        copy(&corpus().join("q060").join(run), &dir.path().join(run));
    }
    let board = Board::serve(dir.path());
    board.until_read();
    (dir, board)
}

/// Returns the exit code and both output streams of `board` with these arguments.
fn command(args: &[&str]) -> (Option<i32>, String, String) {
    let home = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(BINARY)
        .args(args)
        .current_dir(home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Splits a CSV line into fields. Fields with line breaks aren't supported.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let (mut quoted, mut letters) = (false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().unwrap().push(other),
        }
    }
    fields
}

#[test]
fn the_page_has_a_lane_for_each_critic_and_every_point_leads_to_its_step() {
    let (_dir, board) = board();
    let page = page(&board, "/runs/fix_bug/scores");
    assert_eq!(texts(&page, ".lane h3"), ["tests", "style"]);
    assert_eq!(texts(&page, "#tabs [aria-current=page]"), ["Scores"]);
    let steps = attributes(&page, "#lane-0 svg a", "href");
    assert_eq!(
        steps.first().map(String::as_str),
        Some("/runs/fix_bug?step=0")
    );
    assert_eq!(steps.len(), texts(&page, "#lane-0 svg a title").len());
    assert!(
        texts(&page, "#lane-0 svg a title")
            .iter()
            .all(|title| title.contains("· tests "))
    );
    assert_eq!(
        attributes(&page, "#lane-0 rect.below", "y").len(),
        0,
        "no threshold, no band"
    );
    assert_eq!(texts(&page, "#numbers tbody th")[..2], ["tests", "style"]);
    let none = self::page(&board, "/runs/budget_tokens/scores");
    assert!(
        texts(&none, "#scores p")
            .concat()
            .starts_with("No critic output in the "),
        "{:?}",
        texts(&none, "#scores")
    );
    assert_eq!(board.get("/runs/nobody/scores").status, 404);
}

#[test]
fn a_threshold_is_drawn_counted_and_offered_as_a_rule() {
    let (_dir, board) = board();
    let page = page(&board, "/runs/fix_bug/scores?threshold=0.5&critic=tests");
    assert_eq!(attributes(&page, "#lane-0 rect.below", "y"), ["50.0"]);
    assert_eq!(
        attributes(&page, "#lane-1 rect.below", "y").len(),
        0,
        "it is for a single critic"
    );
    let course = texts(&page, "#lane-0 > div > p").concat();
    let low = texts(&page, "#numbers td.low").len();
    assert!(
        low > 0 && course.contains(&format!("{low} of ")) && course.contains("below 0.50"),
        "{low}: {course}"
    );
    let rule = attributes(&page, "#chartform a", "href");
    assert_eq!(
        rule[0],
        "/runs/fix_bug/whatif?rule=critic_below%3Dtests%3A0.5"
    );
    assert_eq!(board.get(&rule[0]).status, 200);
    let wrong = self::page(&board, "/runs/fix_bug/scores?threshold=low");
    assert_eq!(
        texts(&wrong, "#chartform [role=alert]"),
        ["The threshold must be a number, such as 0.3."]
    );
    let unknown = self::page(&board, "/runs/fix_bug/scores?threshold=1&critic=x");
    assert!(
        texts(&unknown, "#scores")
            .concat()
            .contains("This run has no critic named x.")
    );
}

#[test]
fn retries_and_patches_stand_between_two_scores() {
    let (_dir, board) = board();
    let page = page(&board, "/runs/critic_conflict/scores");
    let rows = texts(&page, "#asked tbody tr");
    assert!(!rows.is_empty());
    let told = board.json("/api/runs/critic_conflict/scores");
    let asked = told["critics"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|critic| critic["points"].as_array().unwrap());
    let asked = asked
        .filter(|point| point["action"] == "retry" || point["action"] == "stop")
        .count();
    assert_eq!(rows.len(), asked, "{rows:?}");
    let marks =
        texts(&page, ".lane svg .mkt").len() + attributes(&page, ".lane svg .f-stop", "d").len();
    assert_eq!(marks, asked);
}

#[test]
fn what_is_no_number_is_a_gap_and_stands_as_recorded() {
    let (_dir, board) = board();
    let page = page(&board, "/runs/q060_nan_infinity/scores");
    let cells = texts(&page, "#numbers tbody tr:first-child td");
    assert!(
        cells.iter().any(|cell| cell.contains("NaN"))
            && cells.iter().any(|cell| cell.contains("Infinity")),
        "{cells:?}"
    );
    let drawn = attributes(&page, "#lane-0 svg a", "href").len();
    assert!(
        drawn > 0 && drawn < cells.len(),
        "{drawn} of {}",
        cells.len()
    );
    assert!(
        texts(&page, "#lane-0 .caption")
            .concat()
            .contains("scores outside 0 to 1, axis from ")
    );
    let odd = self::page(&board, "/runs/q060_critic_odd_outputs/scores");
    assert!(!texts(&odd, ".lane").is_empty());
}

#[test]
fn a_long_run_has_windows_that_begin_at_its_end() {
    let (_dir, board) = board();
    let last = page(&board, "/runs/long/scores");
    let head = texts(&last, "#numbers thead th");
    assert_eq!(
        (head.len(), head.last().map(String::as_str)),
        (25, Some("299"))
    );
    let links = attributes(&last, "#numbers nav a", "href");
    assert_eq!(
        links,
        [
            "/runs/long/scores?before=24#numbers",
            "/runs/long/scores?before=276#numbers"
        ]
    );
    let before = page(&board, "/runs/long/scores?before=276");
    assert_eq!(
        texts(&before, "#numbers thead th")
            .last()
            .map(String::as_str),
        Some("275")
    );
    assert_eq!(
        texts(&before, "#numbers nav a"),
        ["First", "← Earlier", "Later →"]
    );
    assert_eq!(board.get("/runs/long/scores?before=x").status, 400);
    assert_eq!(
        texts(
            &page(&board, "/runs/long/scores?before=9999"),
            "#numbers thead th"
        )
        .len(),
        25
    );
}

#[test]
fn the_csv_spells_every_number_as_the_file_does() {
    let (dir, board) = board();
    let response = board.get("/runs/fix_bug/scores.csv");
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, "text/csv; charset=utf-8; header=present")
    );
    let mut lines = response.text().split("\r\n");
    assert_eq!(lines.next(), Some("step,step_id,tests,style,asked"));
    let steps = fs::read_to_string(dir.path().join("fix_bug/steps.jsonl")).unwrap();
    let mut rows = 0;
    for (line, step) in lines
        .zip(steps.lines())
        .filter(|(line, _)| !line.is_empty())
    {
        let fields = fields(line);
        for score in fields[2..4].iter().filter(|score| !score.is_empty()) {
            assert!(
                step.contains(&format!("\"score\":{score}"))
                    || step.contains(&format!("\"score\": {score}")),
                "{line}"
            );
            rows += 1;
        }
    }
    assert!(rows > 10, "{rows}");
    let (code, several, _) = command(&[
        "scores",
        "sample_runs/fix_bug",
        "sample_runs/judge",
        "--csv",
    ]);
    assert_eq!(code, Some(0));
    assert!(
        several.starts_with("run,step,step_id,tests,style,judge,asked\r\nsample_runs/fix_bug,0,0,"),
        "{several}"
    );
}

#[test]
fn several_runs_lie_over_each_other_and_a_wrong_key_is_named() {
    let (_dir, board) = board();
    let page = page(
        &board,
        "/scores?run=fix_bug&run=nobody&run=judge&threshold=0.5",
    );
    assert_eq!(texts(&page, "[role=alert]"), ["No run named nobody."]);
    assert_eq!(texts(&page, "svg .strong"), ["A", "B"]);
    assert_eq!(texts(&page, ".over tbody th a"), ["fix_bug", "judge"]);
    assert!(texts(&page, ".over thead th").contains(&"First below 0.50".to_owned()));
    let share = self::page(
        &board,
        "/scores?run=fix_bug&run=judge&x=progress&critic=tests",
    );
    assert!(texts(&share, ".over svg text").contains(&"50%".to_owned()));
    assert!(
        texts(&share, ".caveats")
            .concat()
            .contains("1 run has no score from tests.")
    );
    let aligned = self::page(&board, "/scores?run=fix_bug&run=long&x=aligned");
    assert!(
        texts(&aligned, ".over svg text")
            .iter()
            .any(|text| text.starts_with("step of A"))
    );
    assert_eq!(
        attributes(&aligned, "#chartform [checked]", "value"),
        ["aligned"]
    );
    let nobody = board.get("/scores?run=nobody");
    assert_eq!(nobody.status, 404);
    let empty = self::page(&board, "/scores");
    assert_eq!(
        attributes(&empty, ".appbar [aria-current=page]", "href"),
        ["/scores"]
    );
    assert_eq!(
        texts(&empty, ".choose li label").len(),
        6,
        "the runs that have scores"
    );
    assert_eq!(texts(&empty, "svg.chart").len(), 0);
}

#[test]
fn more_than_six_runs_are_a_band() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..8 {
        copy(&ours("fix_bug"), &dir.path().join(format!("r{n}")));
    }
    let board = Board::serve(dir.path());
    board.until_read();
    let runs: Vec<String> = (0..8).map(|n| format!("run=r{n}")).collect();
    for axis in ["step", "progress"] {
        let page = page(&board, &format!("/scores?{}&x={axis}", runs.join("&")));
        assert_eq!(attributes(&page, "svg .quart", "d").len(), 1);
        assert_eq!(attributes(&page, "svg .median", "d").len(), 1);
        assert_eq!(
            texts(&page, "svg .strong"),
            ["A"],
            "only the first has a line"
        );
        assert_eq!(texts(&page, ".over tbody tr").len(), 8);
    }
}

#[test]
fn the_command_prints_one_column_for_each_critic() {
    let (code, text, _) = command(&["scores", "sample_runs/fix_bug"]);
    assert_eq!(code, Some(0));
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("sample_runs/fix_bug: 2 critics in 11 steps")
    );
    assert!(
        lines.any(|line| line.split_whitespace().eq(["step", "tests", "style"])),
        "{text}"
    );
    assert_eq!(lines.count(), 11);
    let (_, none, _) = command(&["scores", "sample_runs/budget_tokens"]);
    assert!(
        none.starts_with("sample_runs/budget_tokens: no critic output in "),
        "{none}"
    );
    let (code, out, error) = command(&["scores", "nowhere", "sample_runs/judge", "--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, json["runs"][1]["critics"][0]["name"].as_str()),
        (Some(3), Some("judge"))
    );
    assert!(
        json["runs"][0]["error"]
            .as_str()
            .unwrap()
            .contains("nowhere")
            && error.contains("1 of 2 paths"),
        "{json}"
    );
    let (_, one, _) = command(&["scores", "sample_runs/judge", "--json"]);
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["critics"][0]["name"], "judge");
    assert_eq!(command(&["scores", "nowhere"]).0, Some(3));
    assert_eq!(
        command(&["scores", "sample_runs/judge", "--json", "--csv"]).0,
        Some(2)
    );
}

#[test]
fn the_command_prints_as_many_critics_as_fit_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("many");
    copy(&ours("judge"), &run);
    let steps: Vec<String> = (0..3)
        .map(|n| {
            let said = |c: usize| {
                format!(r#"{{"critic_name": "c{c}", "action": "continue", "score": 0.{n}}}"#)
            };
            // One of the critics has output only at the last step.
            let outputs = (0..30).filter(|c| n == 2 || *c != 1).map(said);
            format!(
                "{{\"step_id\": {n}, \"critic_outputs\": [{}]}}\n",
                outputs.collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    fs::write(run.join("steps.jsonl"), steps.concat()).unwrap();
    let run = run.to_str().unwrap();
    let (code, text, _) = command(&["scores", run]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(code, Some(0));
    assert!(lines[0].ends_with(": 30 critics in 3 steps"), "{text}");
    assert_eq!(
        lines[25].trim(),
        "6 more critics not shown; use --csv or --json"
    );
    let words = |at: usize| lines[at].split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        (words(26).len(), words(26)[..3].to_vec()),
        (25, vec!["step", "c0", "c2"])
    );
    assert_eq!(words(27)[..3], ["0", "0.00", "0.00"]);
    assert_eq!(words(29)[..3], ["2", "0.20", "0.20"]);
    assert_eq!(lines.len(), 30);
    let (_, csv, _) = command(&["scores", run, "--csv"]);
    let rows: Vec<Vec<String>> = csv.lines().map(fields).collect();
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [33; 4]);
    assert_eq!(
        (
            rows[0][31].as_str(),
            rows[1][31].as_str(),
            rows[3][31].as_str()
        ),
        ("c1", "", "0.2")
    );
}

/// Compares the page, CSV and API of every run below `root`. Returns the number of scores.
fn all_agree(root: &Path) -> usize {
    let (board, runs) = serve_all(root);
    let mut scores = 0;
    for run in runs.values() {
        let key = crate::client::segment(run["key"].as_str().expect("a key"));
        let told = board.json(&format!("/api/runs/{key}/scores"));
        let critics = told["critics"].as_array().unwrap();
        let points: usize = critics
            .iter()
            .map(|critic| critic["points"].as_array().unwrap().len())
            .sum();
        scores += points;
        let page = page(&board, &format!("/runs/{key}/scores"));
        assert_eq!(texts(&page, ".lane h3").len(), critics.len(), "{key}");
        let csv = board.get(&format!("/runs/{key}/scores.csv"));
        let mut given: BTreeMap<String, usize> = BTreeMap::new();
        let mut lines = csv.text().split("\r\n").filter(|line| !line.is_empty());
        let head = fields(lines.next().expect("a head"));
        for line in lines {
            for (name, field) in head
                .iter()
                .zip(fields(line))
                .skip(2)
                .filter(|(_, field)| !field.is_empty())
            {
                *given.entry(name.clone()).or_default() +=
                    usize::from(name != "asked" && !field.is_empty());
            }
        }
        for critic in critics {
            let own = critic["points"].as_array().unwrap();
            let own = own
                .iter()
                .filter(|point| !point["score"].is_null() || !point["score_text"].is_null())
                .count();
            let name = critic["name"].as_str().unwrap();
            assert_eq!(
                given.get(name).copied().unwrap_or_default(),
                own,
                "{key}: {name}"
            );
        }
    }
    scores
}

#[test]
fn page_csv_and_api_hold_the_same_scores() {
    assert!(all_agree(&corpus()) > 20);
    let Some(traces) = traces() else { return };
    assert!(all_agree(&traces) > 500);
}

#[test]
fn a_range_that_holds_no_two_steps_is_named_and_one_that_does_is_not_taken_for_all() {
    let (_dir, board) = board();
    let said = |query: &str| {
        texts(
            &page(&board, &format!("/runs/long/scores?{query}")),
            "#chartform [role=alert]",
        )
    };
    let two = "Choose at least two steps. Showing all steps.";
    for (wrong, why) in [
        ("from=5&to=5", two),
        ("from=0&to=0", two),
        (
            "from=190&to=10",
            "The first step must come before the last. Showing all steps.",
        ),
        (
            "from=500&to=600",
            "The run's last step is 299. Showing all steps.",
        ),
    ] {
        assert_eq!(said(wrong), [why], "{wrong}");
    }
    for right in [
        "",
        "from=5&to=60",
        "to=60",
        "from=5",
        "from=0&to=299",
        "from=0&to=900",
    ] {
        assert!(said(right).is_empty(), "{right}");
    }
    let described = |query: &str| {
        texts(
            &page(&board, &format!("/runs/long/scores?{query}")),
            ".lane desc",
        )
    };
    let of_all = described("");
    assert!(
        of_all.len() == 2 && of_all[0].contains(" scores. Last: "),
        "{of_all:?}"
    );
    let of_part: Vec<String> = of_all
        .iter()
        .map(|said| format!("Of all steps: {said}"))
        .collect();
    assert_eq!(described("from=5&to=60"), of_part);
    // Only the page of a single run has a table.
    let over = page(&board, "/scores?run=fix_bug&run=judge");
    assert_eq!(
        texts(&over, ".overlay desc"),
        ["Each point links to its step."]
    );
}

#[test]
fn the_command_prints_a_score_that_is_no_number_as_it_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    let scores = ["NaN", "-Infinity", "\"high\"", "[1]", "0.25", "null"];
    let line = |(n, score): (usize, &&str)| {
        let critic = format!(r#"{{"critic_name": "odd", "action": "continue", "score": {score}}}"#);
        format!("{{\"step_id\": {n}, \"critic_outputs\": [{critic}]}}\n")
    };
    fs::write(
        run.join("steps.jsonl"),
        scores.iter().enumerate().map(line).collect::<String>(),
    )
    .unwrap();
    fs::write(
        run.join("manifest.json"),
        r#"{"run_id": "odd", "status": "completed"}"#,
    )
    .unwrap();
    fs::write(run.join("events.jsonl"), "").unwrap();
    let (code, text, _) = command(&["scores", run.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    let rows = text.lines().rev().take(scores.len());
    let rows: Vec<String> = rows
        .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        rows,
        [
            "5 no score",
            "4 0.25",
            "3 [1]",
            "2 high",
            "1 -Infinity",
            "0 NaN"
        ],
        "{text}"
    );
}

#[test]
fn an_empty_range_of_several_runs_is_empty_and_not_all_of_them() {
    let (_dir, board) = board();
    let over = |query: &str| page(&board, &format!("/scores?run=fix_bug&run=long&{query}"));
    for (query, axis) in [
        (
            "x=step&from=500&to=600",
            "The range is empty: step 500 to 600. The axis goes from 0 to 299.",
        ),
        (
            "x=step&from=9&to=4",
            "The range is empty: step 9 to 4. The axis goes from 0 to 299.",
        ),
        (
            "x=progress&from=60&to=40",
            "The range is empty: share of the run 60% to 40%. The axis goes from 0% to 100%.",
        ),
        ("x=aligned&from=5000", "The range is empty: step 5000 to"),
    ] {
        let page = over(query);
        assert!(texts(&page, "svg.chart").is_empty(), "{query}");
        let notes = texts(&page, ".caveats").concat();
        assert!(notes.contains(axis), "{query}: {notes}");
    }
    assert_eq!(texts(&over("x=step&from=2&to=40"), "svg.chart").len(), 1);
}
