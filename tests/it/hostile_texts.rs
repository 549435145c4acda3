//! Tests that hostile text stays text, in every position of a trace, on every page, in every
//! response and on every terminal.
//!
//! The crawl visits only a few of the pages that differ just in their run, numbers and values.
//! `BOARD_PAGES_EACH=40` makes it visit forty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scraper::Html;
use serde_json::Value;

use crate::board::{BINARY, Board};
use crate::disk::{corpus, walk};
use crate::hostile::{DIRECTORY, Manner, write, write_sessions};
use crate::http::Response;
use crate::pages::{check_page, links};
use crate::soak::times;

/// Runs of every layout that together cover all features. The first ones are tested every time.
const RUNS: &[&str] = &[
    "tests/corpus/q060/q060_handoff",
    "tests/corpus/q060/q060_visual_desktop",
    "tests/corpus/emulated/emulated_q060_garbage_lines",
    "sample_runs/critic_retry",
    "tests/corpus/q060/q060_critic_odd_outputs",
    "tests/corpus/q060/q060_recovered_errors",
    "tests/corpus/q010/q010_critic_stop",
    "sample_runs/branch",
    "sample_runs/model_react",
    "sample_runs/plan",
];

/// The crawl stops at this number of pages.
const MAX_PAGES: usize = 2_000;

fn runs() -> Vec<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tried = RUNS.iter().take(times(3, RUNS.len()));
    let mut runs: Vec<PathBuf> = tried.map(|run| project.join(run)).collect();
    // A few of the other recorded runs are enough, since their layouts are the same.
    let more = std::env::var_os("BOARD_TRACES")
        .map(|root| walk(Path::new(&root)))
        .unwrap_or_default();
    let more = more
        .into_iter()
        .filter(|path| path.join("steps.jsonl").is_file());
    runs.extend(more.step_by(12));
    runs
}

fn make(root: &Path, manner: Manner) {
    for (number, run) in runs().iter().enumerate() {
        let name = if manner == Manner::Harmless {
            "plain".to_owned()
        } else {
            DIRECTORY.to_owned()
        };
        write(run, &root.join(format!("{number}{name}")), manner);
    }
}

/// Whether a page or a terminal interprets the character instead of showing it.
fn is_obeyed(letter: char) -> bool {
    (letter.is_control() && !matches!(letter, '\n' | '\t'))
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[track_caller]
fn nothing_is_obeyed(what: &str, text: &str) {
    let at = text.find(is_obeyed);
    let around = at.map(|at| {
        (
            text[at..].chars().next(),
            text[text.floor_char_boundary(at.saturating_sub(80))..at].to_owned(),
        )
    });
    assert_eq!(around, None, "{what}");
}

/// Lists the texts and attributes of a page with such characters. Form values are exempt: they keep
/// the exact name, and are shown only inside their fields.
fn obeyed_on(page: &Html) -> Vec<String> {
    let mut found = Vec::new();
    for node in page.tree.nodes() {
        match node.value() {
            scraper::Node::Text(text) if text.contains(is_obeyed) => {
                // These are exempt too: a textarea holds its text, and `noscript` is parsed as text
                // where scripts run.
                let parent = node
                    .parent()
                    .and_then(|node| node.value().as_element().map(|element| element.name()));
                if matches!(parent, Some("textarea" | "noscript")) {
                    continue;
                }
                found.push(format!(
                    "text in {:?}",
                    node.parent().map(|node| node.value())
                ));
            }
            scraper::Node::Element(element) => {
                let sent = matches!(element.name(), "input" | "option" | "button");
                let attributes = element.attrs().filter(|(name, value)| {
                    value.contains(is_obeyed) && !(sent && *name == "value")
                });
                found.extend(attributes.map(|(name, _)| format!("{} {name}", element.name())));
            }
            _ => {}
        }
    }
    found
}

/// The kinds of elements on a page: each tag with its attributes' names.
fn elements(page: &Html) -> BTreeSet<String> {
    let all = page.root_element().descendent_elements();
    let sort = |element: scraper::ElementRef<'_>| {
        let mut names: Vec<&str> = element.value().attrs().map(|(name, _)| name).collect();
        names.sort_unstable();
        format!("{} {}", element.value().name(), names.join(" "))
    };
    all.map(sort).collect()
}

/// Attributes whose value is a URL.
const ADDRESSES: &[&str] = &[
    "href",
    "src",
    "action",
    "formaction",
    "hx-get",
    "hx-push-url",
    "poster",
    "data",
    "srcset",
];

fn check_addresses(path: &str, page: &Html) {
    for element in page.root_element().descendent_elements() {
        for (name, value) in element.value().attrs() {
            assert!(!name.starts_with("on"), "{path}: {name}={value}");
            // The icon is part of the template, the same on every page.
            if element.value().attr("rel") == Some("icon")
                && value.starts_with("data:image/svg+xml,")
            {
                assert!(
                    !value.contains("script") && value.len() < 400,
                    "{path}: {name}={value}"
                );
                continue;
            }
            if ADDRESSES.contains(&name) {
                let own = value.is_empty()
                    || (name == "hx-push-url" && value == "true")
                    || value.starts_with(['#', '?']);
                let own = own || (value.starts_with('/') && !value.starts_with("//"));
                assert!(own, "{path}: {name}={value}");
                assert!(
                    value.chars().all(|letter| letter.is_ascii_graphic()),
                    "{path}: {name}={value}"
                );
            }
        }
    }
}

fn check_head(path: &str, response: &Response) {
    for (name, value) in &response.headers {
        assert!(
            value
                .chars()
                .all(|letter| letter == ' ' || letter.is_ascii_graphic()),
            "{path}: {name}: {value}"
        );
        assert!(name != "set-cookie", "{path}: {value}");
    }
    let saved = response.header("content-disposition");
    if let Some((_, name)) = saved.split_once("filename=") {
        let name = name.trim_matches('"');
        let plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        assert!(
            !name.starts_with(['.', '-']) && name.chars().all(plain) && !name.contains(".."),
            "{path}: {saved}"
        );
    }
}

/// Splits a CSV file into fields as a spreadsheet does.
fn fields(text: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' | '\n' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("there is one").push(letter),
        }
    }
    fields
}

fn check_csv(what: &str, text: &str) {
    let text = text.replace("\r\n", "\n");
    nothing_is_obeyed(what, &text);
    for field in fields(&text) {
        let runs = field.starts_with(['=', '+', '-', '@', '\t', '\r'])
            && field.trim().parse::<f64>().is_err();
        assert!(!runs, "{what}: {field:?} is a formula");
    }
}

/// Strips a path of numbers, values and the run's name, so that pages of one kind have the same
/// shape.
fn shape(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let (mut parts, mut before) = (Vec::new(), "");
    for part in path.split('/') {
        if before != "runs" && part.parse::<u64>().is_err() {
            parts.push(part);
        }
        before = part;
    }
    parts.extend(
        query
            .split('&')
            .map(|pair| pair.split('=').next().unwrap_or_default()),
    );
    parts.join("/")
}

/// Visits all reachable pages. Returns the kinds of elements found and the number of responses.
fn crawl(board: &Board) -> (BTreeSet<String>, usize) {
    let each = std::env::var("BOARD_PAGES_EACH").map_or(times(1, 2), |each| {
        each.parse().expect("BOARD_PAGES_EACH is a number")
    });
    let mut open = VecDeque::from([
        "/".to_owned(),
        "/api/runs".to_owned(),
        "/healthz".to_owned(),
    ]);
    let runs = board.json("/api/runs?limit=500");
    for run in runs["runs"].as_array().expect("a list of runs") {
        let address = run["url"]
            .as_str()
            .or(run["href"].as_str())
            .map(str::to_owned);
        let key = run["key"].as_str().expect("a run has a key");
        let page = address.unwrap_or_else(|| format!("/runs/{}", encoded(key)));
        for rest in [
            "",
            "/scores",
            "/scores.csv",
            "/whatif",
            "/replay",
            "/export.html",
            "/export.html?redact=1",
        ] {
            open.push_back(format!("{page}{rest}"));
        }
        for rest in [
            "",
            "/steps",
            "/steps/0",
            "/scores",
            "/state/0",
            "/why",
            "/whatif?rule=max_steps%3D1",
            "/raw",
        ] {
            open.push_back(format!("/api{page}{rest}"));
        }
        open.extend(key_that_changes(board, &page));
    }
    let mut known: BTreeSet<String> = open.iter().cloned().collect();
    let mut shapes: BTreeMap<String, usize> = BTreeMap::new();
    let mut sorts = BTreeSet::new();
    let mut visited = 0;
    let mut wrong = BTreeSet::new();
    while let Some(path) = open.pop_front().filter(|_| visited < MAX_PAGES) {
        visited += 1;
        for link in check(board, &path, &mut sorts, &mut wrong) {
            let seen = shapes.entry(shape(&link)).or_default();
            *seen += 1;
            if *seen <= each && known.insert(link.clone()) {
                open.push_back(link);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    (sorts, visited)
}

/// Checks a response. Adds the kinds of elements on a page to `sorts`, and places with characters that aren't only shown to
/// `wrong`. Returns its links.
fn check(
    board: &Board,
    path: &str,
    sorts: &mut BTreeSet<String>,
    wrong: &mut BTreeSet<String>,
) -> Vec<String> {
    let response = board.get(path);
    check_head(path, &response);
    assert!(response.status < 500, "{path}: {}", response.status);
    let kind = response.header("content-type");
    if kind.starts_with("text/csv") {
        check_csv(path, response.text());
    } else if kind.starts_with("application/json") || kind.starts_with("application/problem+json") {
        assert!(response.json().is_object(), "{path}");
    }
    if !kind.starts_with("text/html") {
        return Vec::new();
    }
    let saved = response
        .header("content-disposition")
        .starts_with("attachment");
    let page = match response.text().starts_with("<!doctype html>") && !saved {
        true => check_page(path, &response),
        false => Html::parse_document(response.text()),
    };
    // Menus are in <noscript> until a script builds them.
    let menus = Html::parse_document(&response.text().replace("<noscript>", ""));
    for page in [&page, &menus] {
        let places = obeyed_on(page).into_iter();
        wrong.extend(places.map(|place| format!("{}: {place}", shape(path))));
        if !saved {
            check_addresses(path, page);
        }
        sorts.extend(elements(page));
    }
    links(&page).into_iter().chain(links(&menus)).collect()
}

/// The State tab of a key that changed more than once, which links its changes. Few runs have one,
/// and only some crawls reach it by links alone.
fn key_that_changes(board: &Board, page: &str) -> Option<String> {
    let steps = board.json(&format!("/api{page}"))["steps"].as_u64()?;
    let last = steps.checked_sub(1)?;
    let state = board.get(&format!("/api{page}/state/{last}"));
    let state = (state.status == 200).then(|| state.json())?;
    let changes = state["changes"].as_object()?;
    let (key, _) = changes
        .iter()
        .find(|(_, times)| times.as_u64().is_some_and(|times| times > 1))?;
    Some(format!("{page}?tab=state&step={last}&key={}", encoded(key)))
}

fn encoded(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Crawls all pages of runs modified in this manner, and returns the kinds of elements found.
fn pages_of(manner: Manner) -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), manner);
    let board = Board::serve(dir.path());
    board.until_read();
    let health = board.json("/healthz");
    let all = ["runs", "duplicates"].map(|key| health[key].as_u64().unwrap());
    assert_eq!(all.iter().sum::<u64>(), runs().len() as u64);
    let (sorts, visited) = crawl(&board);
    println!(
        "{manner:?}: {visited} answers, {} kinds of elements",
        sorts.len()
    );
    assert!(visited > times(100, 200), "only {visited} answers");
    sorts
}

#[test]
fn hostile_texts_make_no_element_that_harmless_ones_do_not() {
    let harmless = pages_of(Manner::Harmless);
    let hostile = pages_of(Manner::Beside);
    // The board's own elements: long texts and line breaks are folded, text that looks like
    // Markdown is rendered, an invalid score has no bar, and a chart without an axis has no range
    // selection.
    let folded = [
        "a download href",
        "br ",
        "details id",
        "div aria-label class data-points role tabindex",
        "path class d fill-opacity",
        // The message of a failure, if it says more than its name.
        "pre ",
        "section aria-labelledby",
        "summary class",
        // A long task.
        "summary class title",
        "svg class height role",
        "svg class role viewBox",
    ];
    let new: Vec<&String> = hostile
        .difference(&harmless)
        .filter(|sort| !folded.contains(&sort.as_str()))
        .collect();
    assert_eq!(new, [] as [&String; 0]);
}

#[test]
fn what_is_no_trace_any_more_is_text_too() {
    nothing_is_injected(&pages_of(Manner::Instead));
}

#[track_caller]
fn nothing_is_injected(sorts: &BTreeSet<String>) {
    for tag in [
        "svg onload",
        "img onerror src",
        "img src ",
        "iframe",
        "object",
        "embed",
        "base ",
    ] {
        assert!(
            !sorts.iter().any(|sort| sort.starts_with(tag)),
            "{tag}: {sorts:?}"
        );
    }
}

#[test]
fn texts_in_the_sessions_of_every_tool_stay_texts() {
    let dir = tempfile::tempdir().unwrap();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
    write_sessions(&tools, dir.path());
    let steps = |board: &Board| -> BTreeMap<String, Value> {
        board.until_read();
        let runs = board.json("/api/runs?limit=500")["runs"].take();
        let runs = runs.as_array().expect("a list of runs").iter();
        runs.map(|run| {
            (
                run["key"].as_str().unwrap().to_owned(),
                run["steps"].clone(),
            )
        })
        .collect()
    };
    let board = Board::serve(dir.path());
    let known = steps(&board);
    let plain = steps(&Board::serve(&tools));
    // Two copies of a log count once. Those in the archive keep their texts, so both count here.
    let both = plain.iter().filter(|(key, _)| known.contains_key(*key));
    for (key, steps) in both {
        assert_eq!(
            &known[key], steps,
            "{key}: the texts don't decide what is a step"
        );
    }
    assert!(known.len() >= plain.len());
    assert!(known.len() > 60, "{}", known.len());
    let (mut sorts, mut wrong) = Default::default();
    for key in known.keys() {
        let page = format!("/runs/{}", encoded(key));
        for rest in ["", "?tab=transcript", "?tab=issues", "/export.html"] {
            check(&board, &format!("{page}{rest}"), &mut sorts, &mut wrong);
        }
        check(&board, &format!("/api{page}/steps"), &mut sorts, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    nothing_is_injected(&sorts);
}

#[test]
fn a_terminal_is_told_nothing() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), Manner::Beside);
    let other = dir.path().join("other");
    make(&other, Manner::Instead);
    let mut places: Vec<PathBuf> = walk(dir.path())
        .into_iter()
        .filter(|path| path.join("manifest.json").is_file())
        .collect();
    places.sort();
    let said = |args: &[&str]| {
        let output = Command::new(BINARY)
            .args(args)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let code = output.status.code();
        assert!(
            matches!(code, Some(0..=3)),
            "{args:?}: {code:?} {}",
            String::from_utf8_lossy(&text)
        );
        String::from_utf8(text).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    };
    nothing_is_obeyed("list", &said(&["list", "."]));
    nothing_is_obeyed("overview", &said(&["overview", "."]));
    for (nth, place) in places.iter().enumerate() {
        let run = place.to_str().expect("a path that is UTF-8");
        let all = [
            &["show", run][..],
            &["show", run, "--step", "0"],
            &["show", run, "--events"],
            &["show", run, "--format", "md"],
            &["why", run],
            &["check", run],
            &["scores", run],
            &["state", run],
            &[
                "whatif",
                run,
                "--rule",
                "max_steps=1",
                "--rule",
                "keyword=\u{1b}[31m",
            ],
        ];
        // Every other command for every other run; in soak tests, all of them.
        for args in all.into_iter().skip(times(nth % 2, 0)).step_by(times(2, 1)) {
            nothing_is_obeyed(&format!("{args:?}"), &said(args));
        }
        check_csv(run, &said(&["scores", run, "--csv"]));
    }
    for pair in places.chunks(2).filter(|pair| pair.len() == 2).take(6) {
        let [a, b] = [&pair[0], &pair[1]].map(|path| path.to_str().expect("a path that is UTF-8"));
        nothing_is_obeyed("diff", &said(&["diff", a, b]));
    }
    for args in [
        &["show", "no\u{1b}[31m\u{202e}such"][..],
        &["why", "\u{9b}x\r\n"],
        &["list", ".", "steps<\u{1b}]0;x\u{7}"],
    ] {
        nothing_is_obeyed(&format!("{args:?}"), &said(args));
    }
}

#[test]
fn the_generator_is_as_hostile_as_it_says() {
    let dir = tempfile::tempdir().unwrap();
    write(
        &corpus().join("q060/q060_handoff"),
        dir.path(),
        Manner::Beside,
    );
    let steps = fs::read_to_string(dir.path().join("steps.jsonl")).unwrap();
    for part in [
        "<script>window.pwned",
        "\\u001b[31m",
        "\\ud83d",
        "=cmd|",
        "\u{202e}",
        "\\u0000",
        "longlong",
    ] {
        assert!(steps.contains(part), "{part}");
    }
}

/// Returns what a command writes to a terminal.
#[cfg(target_os = "linux")]
fn on_a_terminal(args: &str) -> String {
    let mut script = Command::new("script");
    script
        .args(["-qc", &format!("{BINARY} {args}"), "/dev/null"])
        .stdin(Stdio::null())
        .env("TERM", "xterm");
    let run = script.output().expect("script runs");
    String::from_utf8(run.stdout)
        .expect("a terminal gets text")
        .replace("\r\n", "\n")
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_is_given_nothing_to_obey_by_any_command() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    crate::disk::copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/q060/q060_minimal"),
        &run,
    );
    let hostile = "\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{7f}\u{202e}";
    let events = run.join("events.jsonl");
    let text = fs::read_to_string(&events).unwrap();
    let stop = serde_json::to_string(hostile).unwrap();
    fs::write(
        &events,
        format!(
            "{text}{{\"step_id\":0,\"phase\":\"END\",\"payload\":{{\"stop_reason\":{stop}}}}}\n"
        ),
    )
    .unwrap();
    let shown = run.display().to_string();
    let page = dir.path().join("page.html").display().to_string();
    let root = dir.path().display().to_string();
    let mut all = vec![
        format!("export {shown} --html {page}"),
        format!("export {shown} --atif -"),
        format!("diff {shown} {shown}/../run"),
        format!("show {shown} --events --json"),
        format!("show {shown} --format md"),
        format!("scores {shown} --csv"),
        format!("search aGk {root}"),
        format!("search aGk {root} --json"),
        format!("list {root}"),
        format!("list {root} --json"),
        // A shell may pass file names as arguments.
        format!("list '--{hostile}'"),
        format!("show 'no{hostile}'"),
        format!("help '{hostile}'"),
        format!("completions '{hostile}'"),
    ];
    for command in ["show", "why", "check", "state", "scores", "whatif"] {
        let rule = if command == "whatif" {
            " --rule max_steps=1"
        } else {
            ""
        };
        all.extend(["", " --json"].map(|json| format!("{command} {shown}{rule}{json}")));
    }
    for table in ["runs", "steps"] {
        all.extend(
            ["csv", "jsonl"].map(|format| format!("table {table} {root} --format {format}")),
        );
    }
    for args in all {
        let mut text = on_a_terminal(&args);
        for style in ["0", "1", "2", "4", "31", "32", "33", "36"] {
            text = text.replace(&format!("\u{1b}[{style}m"), "");
        }
        assert!(!text.is_empty());
        nothing_is_obeyed(&args, &text);
    }
}
