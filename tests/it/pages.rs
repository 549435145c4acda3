//! Tests every address of the board: status, headers, landmarks and links over HTTP, and refused
//! requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use scraper::Html;

use crate::board::Board;
use crate::disk::{copy, corpus};
use crate::html::selector;
use crate::http::{Response, request};
use crate::soak::times;

const POLICY: &str = "default-src 'none'";

/// A board over a few very different runs, completely read.
fn some_runs() -> (tempfile::TempDir, Board) {
    let dir = tempfile::tempdir().unwrap();
    for run in [
        "q060/q060_handoff",
        "q060/q060_html_injection",
        "q060/q060_visual_desktop",
        "q060/q060_env_unhealthy",
        "q060/q060_sigkill",
        "emulated/emulated_q060_garbage_lines",
        "emulated/emulated_q060_manifest_missing",
    ] {
        let name = Path::new(run).file_name().unwrap();
        copy(&corpus().join(run), &dir.path().join(name));
    }
    copy(
        &corpus().join("q030/q030_sigkill"),
        &dir.path().join("a b/c&d/e%2F\"<é>"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    (dir, board)
}

/// Checks the headers of every response.
fn check_headers(path: &str, response: &Response) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("content-security-policy", POLICY),
    ] {
        assert!(
            response.header(name).contains(value),
            "{path}: {name} is {:?}",
            response.header(name)
        );
    }
    let policy = response.header("content-security-policy");
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    assert!(
        policy.contains("frame-ancestors 'none'"),
        "{path}: {policy}"
    );
}

/// Checks the parts that every page has.
pub(crate) fn check_page(path: &str, response: &Response) -> Html {
    check_headers(path, response);
    assert_eq!(
        response.header("content-type"),
        "text/html; charset=utf-8",
        "{path}"
    );
    let page = Html::parse_document(response.text());
    let count = |what: &str| page.select(&selector(what)).count();
    for landmark in [
        "html[lang]",
        "main#main",
        "h1",
        "nav[aria-label=Main]",
        "head > title",
        "a.skip[href='#main']",
    ] {
        assert_eq!(count(landmark), 1, "{path}: {landmark}");
    }
    for inline in [
        "[style]",
        "style",
        "script:not([src])",
        "base",
        "iframe",
        "object",
        "embed",
    ] {
        assert_eq!(count(inline), 0, "{path}: {inline}");
    }
    let mut ids = BTreeSet::new();
    for element in page.select(&selector("*")) {
        let element = element.value();
        assert!(
            element.id().is_none_or(|id| ids.insert(id.to_owned())),
            "{path}: two elements are #{:?}",
            element.id()
        );
        assert!(
            element.attrs().all(|(name, _)| !name.starts_with("on")),
            "{path}: {element:?}"
        );
    }
    let levels: Vec<u8> = page
        .select(&selector("h1,h2,h3,h4,h5,h6"))
        .map(|heading| heading.value().name().as_bytes()[1])
        .collect();
    assert!(
        levels.windows(2).all(|pair| pair[1] <= pair[0] + 1),
        "{path}: headings skip a level: {levels:?}"
    );
    page
}

/// Lists the board's addresses linked from a page, without fragments.
pub(crate) fn links(page: &Html) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (what, attribute) in [
        ("[href]", "href"),
        ("[src]", "src"),
        ("form[action]", "action"),
        ("[hx-get]", "hx-get"),
    ] {
        for element in page.select(&selector(what)) {
            let target = element.value().attr(attribute).unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            if target.starts_with('/') && !target.starts_with("//") {
                found.insert(target.to_owned());
            }
        }
    }
    found
}

/// Removes the values from an address's query, so that one shape covers all of them.
fn shape(path: &str) -> String {
    path.split(['?', '&'])
        .map(|part| part.split('=').next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("?")
}

#[test]
fn no_link_is_dead() {
    let (_dir, board) = some_runs();
    let mut open = VecDeque::from(["/".to_owned()]);
    let mut known = BTreeSet::from(["/".to_owned()]);
    let mut shapes: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut pages = 0;
    while let Some(path) = open.pop_front() {
        let response = board.get(&path);
        if response.status == 303 && known.insert(response.header("location").to_owned()) {
            open.push_back(response.header("location").to_owned());
        }
        if response.status != 200 && response.status != 303 {
            wrong.push(format!("{} {path}", response.status));
            continue;
        }
        if !response.header("content-type").starts_with("text/html") {
            continue;
        }
        // A run saved as a file isn't a page of the board, and its links aren't followed.
        if response
            .header("content-disposition")
            .starts_with("attachment")
        {
            continue;
        }
        let is_page = response.text().starts_with("<!doctype html>");
        let document = if is_page {
            pages += 1;
            check_page(&path, &response)
        } else {
            Html::parse_document(response.text())
        };
        for link in links(&document) {
            // The number of queries is unlimited, so only a few of each shape are visited.
            let few = times(1, 6) as u32;
            let seen = shapes.entry(shape(&link)).or_default();
            *seen += 1;
            if (*seen <= few || !link.contains('?')) && known.insert(link.clone()) {
                open.push_back(link);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pages > 40, "only {pages} pages were found");
}

#[test]
fn hostile_text_stays_text() {
    let (_dir, board) = some_runs();
    let run = "/runs/q060_html_injection";
    for path in [
        "/".to_owned(),
        run.to_owned(),
        format!("{run}?tab=issues"),
        format!("{run}?tab=manifest"),
        format!("{run}?tab=events"),
    ]
    .into_iter()
    .chain((0..5).map(|n| format!("{run}/steps/{n}")))
    {
        let page = check_page(&path, &board.get(&path));
        for script in page.select(&selector("script")) {
            let source = script.value().attr("src").unwrap_or_default();
            assert!(source.starts_with("/static/"), "{path}: {source}");
        }
        for image in page.select(&selector("img")) {
            assert!(
                image
                    .value()
                    .attr("src")
                    .unwrap_or_default()
                    .starts_with("/runs/"),
                "{path}: {image:?}"
            );
        }
        for link in page.select(&selector("a[href], use[href]")) {
            let target = link.value().attr("href").unwrap_or_default();
            assert!(
                target.is_empty()
                    || target.starts_with(['/', '#', '?'])
                    || target.starts_with("http"),
                "{path}: {target}"
            );
        }
    }
}

#[test]
fn every_route_has_its_type_and_headers() {
    let (_dir, board) = some_runs();
    let run = "q060_handoff";
    for (path, kind) in [
        ("/".to_owned(), "text/html; charset=utf-8"),
        ("/api/runs".to_owned(), "application/json"),
        (format!("/runs/{run}"), "text/html; charset=utf-8"),
        (format!("/runs/{run}?step=2"), "text/html; charset=utf-8"),
        (format!("/runs/{run}/steps/0"), "text/html; charset=utf-8"),
        (format!("/api/runs/{run}"), "application/json"),
        (format!("/api/runs/{run}/steps"), "application/json"),
        (format!("/api/runs/{run}/steps/0"), "application/json"),
        (format!("/api/runs/{run}/why"), "application/json"),
        ("/whatif?q=".to_owned(), "text/html; charset=utf-8"),
        (
            "/api/whatif?sweep=token_budget".to_owned(),
            "application/json",
        ),
        (format!("/api/runs/{run}/raw"), "application/json"),
        ("/healthz".to_owned(), "application/json"),
    ] {
        let response = board.get(&path);
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, kind),
            "{path}"
        );
        check_headers(&path, &response);
        let head = request(board.address, "HEAD", &path, &[]);
        assert_eq!((head.status, head.body.len()), (200, 0), "HEAD {path}");
    }
}

#[test]
fn health_tells_what_the_board_does() {
    let (_dir, board) = some_runs();
    let health = board.json("/healthz");
    assert_eq!(health["status"], "ok");
    assert_eq!(health["runs"], 8);
    assert!(
        ["native", "poll"].contains(&health["watch"].as_str().unwrap()),
        "{health}"
    );
    assert!(
        health["scan_age_ms"].is_u64() && health["indexing"].is_u64(),
        "{health}"
    );
}

#[test]
fn what_is_unknown_is_404_and_leads_on() {
    let (_dir, board) = some_runs();
    for path in [
        "/no/such/page",
        "/runs/no-such-run",
        "/runs/q060_handoff/steps/7",
        "/runs/..%2F..%2Fetc%2Fpasswd",
        "/runs/%2e%2e",
        "/static/0/../../Cargo.toml",
        "/static/x/board.css.map",
    ] {
        let response = board.get(path);
        assert_eq!(response.status, 404, "{path}: {}", response.text());
        if path.starts_with("/runs") {
            let page = check_page(path, &response);
            assert!(
                page.select(&selector("main a[href]")).next().is_some(),
                "{path} is a broken link"
            );
        }
    }
}

#[test]
fn api_errors_are_problem_documents() {
    let (_dir, board) = some_runs();
    for (path, status) in [
        ("/api/runs/no-such-run", 404),
        ("/api/runs/q060_handoff/steps/99", 404),
        ("/api/runs/q060_handoff/steps/x", 400),
        ("/api/no-such-thing", 404),
        ("/api/runs?limit=many", 400),
    ] {
        let response = board.get(path);
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert_eq!(
            response.header("content-type"),
            "application/problem+json",
            "{path}"
        );
        let problem = response.json();
        assert_eq!(problem["status"], status, "{path}");
        for member in ["type", "title", "detail"] {
            assert!(problem[member].is_string(), "{path}: {problem}");
        }
        check_headers(path, &response);
    }
}

#[test]
fn only_reading_is_allowed() {
    let (_dir, board) = some_runs();
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/", "/api/runs", "/runs/q060_handoff", "/healthz"] {
            let response = request(board.address, method, path, &[("Content-Length", "0")]);
            assert_eq!(response.status, 405, "{method} {path}");
            assert!(response.header("allow").contains("GET"), "{method} {path}");
        }
    }
}

#[test]
fn other_sites_are_refused() {
    let (_dir, board) = some_runs();
    let port = board.address.port();
    let own = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
    ];
    for host in &own {
        assert_eq!(
            request(board.address, "GET", "/", &[("Host", host)]).status,
            200,
            "{host}"
        );
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8765",
        "",
        "127.0.0.1@evil.example",
    ] {
        let status = request(board.address, "GET", "/api/runs", &[("Host", host)]).status;
        assert!(
            [400, 403, 421].contains(&status),
            "Host {host:?} got {status}"
        );
    }
    for origin in [
        "http://evil.example",
        "null",
        "https://localhost.evil.example",
    ] {
        let status = request(board.address, "GET", "/api/runs", &[("Origin", origin)]).status;
        assert_eq!(status, 403, "Origin {origin:?}");
    }
}

#[test]
fn pictures_are_served_from_inside_the_run_only() {
    let (dir, board) = some_runs();
    fs::write(dir.path().join("secret.png"), b"\x89PNG secret").unwrap();
    let page = board.get("/runs/q060_visual_desktop/steps/0");
    let page = Html::parse_document(page.text());
    let pictures: Vec<_> = page
        .select(&selector("img[src]"))
        .filter_map(|img| img.value().attr("src").map(str::to_owned))
        .collect();
    assert!(!pictures.is_empty(), "the screenshots of the run are shown");
    let own = pictures
        .iter()
        .find(|src| src.starts_with("/runs/q060_visual_desktop/"))
        .expect("a picture of the run");
    let response = board.get(own);
    assert_eq!(
        (response.status, response.header("content-type")),
        (200, "image/png"),
        "{own}"
    );
    let folder = own.rsplit_once('/').map_or("", |(folder, _)| folder);
    for outside in [
        "..%2F..%2Fsecret.png",
        "../../secret.png",
        "%2Fetc%2Fpasswd",
        "..%2Fmanifest.json",
    ] {
        let path = format!("{folder}/{outside}");
        assert!(board.get(&path).status >= 400, "{path}");
    }
}

#[test]
fn static_files_may_be_kept_for_ever() {
    let (_dir, board) = some_runs();
    let page = Html::parse_document(board.get("/").text());
    let files: Vec<String> = links(&page)
        .into_iter()
        .filter(|link| link.starts_with("/static/"))
        .collect();
    assert!(
        files.iter().any(|file| file.ends_with(".css"))
            && files.iter().any(|file| file.ends_with(".js"))
    );
    for file in files {
        let response = board.get(&file);
        assert_eq!(response.status, 200, "{file}");
        assert!(
            response.header("cache-control").contains("immutable"),
            "{file}"
        );
        check_headers(&file, &response);
    }
}

#[test]
fn every_page_is_in_the_docs_and_every_document_in_the_description_of_the_api() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let router = fs::read_to_string(home.join("src/serve/routes.rs")).unwrap();
    let using = fs::read_to_string(home.join("docs/using.md")).unwrap();
    let routes = |part: &str| -> Vec<String> {
        let routes = part
            .split(".route(")
            .skip(1)
            .filter_map(|rest| rest.split('"').nth(1));
        routes.map(str::to_owned).collect()
    };
    let (pages, rest) = router.split_once("let api = Router::new()").unwrap();
    let (api, rest) = rest.split_once(".fallback(").unwrap();
    let api = routes(api).into_iter().map(|route| format!("/api{route}"));
    let openapi = fs::read_to_string(home.join("src/serve/openapi.rs")).unwrap();
    let lacking: Vec<_> = api
        .filter(|route| !openapi.contains(&format!("path: \"{route}\"")))
        .collect();
    assert_eq!(lacking, Vec::<String>::new());
    // Addresses that only pages and browsers request needn't be listed.
    let by_hand = |route: &String| {
        !route.split('/').any(|part| {
            [
                "live",
                "part",
                "found",
                "value",
                "raw",
                "assets",
                "static",
                "favicon.ico",
            ]
            .contains(&part)
        }) && (route == "/" || !route.ends_with('/'))
    };
    let mut addresses: Vec<_> = routes(pages)
        .into_iter()
        .chain(routes(rest))
        .filter(by_hand)
        .collect();
    assert!(
        ["/runs/{key}/scores", "/healthz", "/compare"]
            .iter()
            .all(|known| addresses.iter().any(|a| a == known))
    );
    addresses.retain(|route| {
        !using.contains(&format!("`{route}`")) && !using.contains(&format!("`{route}?"))
    });
    assert_eq!(addresses, Vec::<String>::new());
}

/// Parses a CSV file into records according to RFC 4180.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) =
        (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            _ => field.push(letter),
        }
    }
    assert!(
        !quoted && field.is_empty() && record.is_empty(),
        "the last record ends with a newline"
    );
    records
}

#[test]
fn the_csv_of_the_run_table_holds_what_the_json_does() {
    let (_dir, board) = some_runs();
    let list = board.get("/api/runs?q=steps%3E0&sort=-steps");
    let list: serde_json::Value = serde_json::from_str(list.text()).unwrap();
    let csv = board.get("/runs.csv?q=steps%3E0&sort=-steps");
    assert_eq!(
        (csv.status, csv.header("content-type")),
        (200, "text/csv; charset=utf-8")
    );
    assert_eq!(
        csv.header("content-disposition"),
        "attachment; filename=\"runs.csv\""
    );
    let records = records(csv.text());
    let (head, rows) = records.split_first().unwrap();
    let runs = list["runs"].as_array().unwrap();
    assert!(rows.len() > 4 && rows.len() == runs.len());
    for (row, run) in rows.iter().zip(runs) {
        let run = run.as_object().unwrap();
        assert_eq!(row.len(), run.len());
        for (name, field) in head.iter().zip(row) {
            let text = match &run[name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(texts) => texts
                    .iter()
                    .filter_map(|text| text.as_str())
                    .collect::<Vec<_>>()
                    .join("; "),
                other => other.to_string(),
            };
            assert_eq!(*field, text, "{name}");
        }
    }
    assert_eq!(board.get("/runs.csv?sort=task").status, 400);
}

#[test]
fn a_step_that_counts_as_failed_is_marked_and_listed_so() {
    let dir = tempfile::tempdir().unwrap();
    for run in ["context_overflow", "cancelled_immediate"] {
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("sample_runs")
                .join(run),
            &dir.path().join(run),
        );
    }
    let board = Board::serve(dir.path());
    board.until_read();
    for run in ["context_overflow", "cancelled_immediate"] {
        let row = board.json(&format!("/api/runs?q=run:{run}"))["runs"][0].clone();
        assert_eq!(
            (&row["errors"], &row["tool_errors"]),
            (&1.into(), &0.into()),
            "{row}"
        );
        let page = board.get(&format!("/runs/{run}?err=1"));
        let steps = row["steps"].as_u64().unwrap();
        assert!(
            page.text().contains(&format!("1 of {steps} steps")),
            "{run}: {}",
            page.text()
        );
    }
    let undecided = board.get("/runs/context_overflow?step=3");
    assert!(
        undecided.text().contains("no decision recorded"),
        "{}",
        undecided.text()
    );
    let cancelled = board.get("/runs/cancelled_immediate?step=2");
    assert!(
        cancelled.text().contains("call cancelled") && !cancelled.text().contains("tool error")
    );
}

#[test]
fn the_step_that_is_read_counts_the_same_steps_as_its_page() {
    let dir = tempfile::tempdir().unwrap();
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/long"),
        &dir.path().join("long"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    // A page loaded when the run had ten steps, showing the second of them.
    let pulse = board
        .get("/runs/long/live?steps=10&shown=1&rows=0-10")
        .text()
        .to_owned();
    assert!(pulse.contains(r##"hx-target="#stepfacts""##), "{pulse}");
    assert!(
        pulse.contains("<small id=\"stepfacts\">· 300 steps · +1.656 s · took 1.4 s · "),
        "{pulse}"
    );
    assert!(
        !pulse.contains(r##"hx-target="#stepview""##),
        "the step itself doesn't change"
    );
    let known = board
        .get("/runs/long/live?steps=300&shown=1&rows=0-300")
        .text()
        .to_owned();
    assert!(!known.contains("stepfacts"), "unchanged parts aren't sent");
}

#[test]
fn past_the_last_mark_the_first_one_is_shown_and_a_note_says_so() {
    let dir = tempfile::tempdir().unwrap();
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/judge"),
        &dir.path().join("judge"),
    );
    let board = Board::serve(dir.path());
    board.until_read();
    let note = |query: &str| {
        let part = Html::parse_fragment(board.get(&format!("/runs/judge/steps/{query}")).text());
        part.select(&selector(".way-note"))
            .map(|note| note.text().collect::<String>())
            .collect::<String>()
    };
    assert_eq!(
        note("4/part?to=mark"),
        "No more marks; wrapped to the first."
    );
    assert_eq!(
        note("0/part?to=mark-back"),
        "No earlier marks; wrapped to the last."
    );
    assert_eq!(note("0/part?to=mark"), "");
}

#[test]
fn a_prompt_is_a_fact_of_a_run_that_records_one() {
    let dir = tempfile::tempdir().unwrap();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
    for tool in ["claude-code", "codex", "gemini"] {
        copy(&tools.join(tool), &dir.path().join(tool));
    }
    let board = Board::serve(dir.path());
    board.until_read();
    let runs = board.json("/api/runs?limit=200")["runs"]
        .as_array()
        .unwrap()
        .clone();
    let (mut with, mut without) = (0, 0);
    for run in runs {
        let address = format!("/runs/{}", run["key"].as_str().unwrap().replace('/', "%2F"));
        let page = Html::parse_document(board.get(&address).text());
        let has = page
            .select(&selector("#runhead a[href*='tab=prompt']"))
            .count()
            > 0;
        let tab = board
            .get(&format!("{address}?tab=prompt"))
            .text()
            .to_owned();
        let records = tab.matches("<p>Not recorded.</p>").count() < 2;
        assert_eq!(has, records, "{address}");
        if has { with += 1 } else { without += 1 }
    }
    assert!(with > 0 && without > 0, "{with} and {without}");
}

#[test]
fn the_file_and_the_name_in_it_are_shown_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/inspect");
    let inside = dir.path().join("old.json");
    fs::create_dir(&inside).unwrap();
    fs::copy(sample.join("ledger.eval"), inside.join("log.eval")).unwrap();
    let line = r#"{"instance_id": "samples/x.json", "history": []}"#;
    fs::write(dir.path().join("a.jsonl"), format!("{line}\n")).unwrap();
    let board = Board::serve(dir.path());
    board.until_read();
    for (key, shown) in [
        (
            "old.json%2Flog.eval%2Frent_epoch_1",
            "/old.json/log.eval, rent_epoch_1",
        ),
        ("a.jsonl%2Fsamples%2Fx.json", "/a.jsonl, samples/x.json"),
    ] {
        let page = board.get(&format!("/runs/{key}"));
        let page = Html::parse_document(page.text());
        let path = page.select(&selector("#runhead .path")).next().unwrap();
        let whole = path.value().attr("title").unwrap();
        assert!(whole.ends_with(shown), "{key}: {whole}");
    }
}
