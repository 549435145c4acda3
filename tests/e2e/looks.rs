//! Tests that every page is clean: no console messages, no axe violations, no horizontal scrolling
//! on a phone, and readable without scripts.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::json;

use crate::page::{LAPTOP, PHONE, Page};
use crate::site::Site;
use crate::soak::{soak, times};
use crate::wait::until;

const AXE: &str = include_str!("vendor/axe.min.js");

/// Runs that together cover all features.
const RUNS: &[&str] = &[
    "q060/q060_critic_odd_outputs",
    "q060/q060_handoff",
    "q060/q060_html_injection",
    "q060/q060_recovered_errors",
    "q060/q060_sigkill",
    "q060/q060_visual_desktop",
    "emulated/emulated_q060_garbage_lines",
    "emulated/emulated_q060_manifest_missing",
    "model_driven/qitos_coding_20260222_044138_940343",
];

/// One page of each kind, tested in every run of the tests.
const KINDS: &[&str] = &[
    "/",
    "/?group=task&mark=q060_handoff",
    "/runs/q060_handoff",
    "/runs/q060_visual_desktop?step=1",
    "/runs/q060_handoff/steps/2",
    "/runs/emulated_q060_garbage_lines?tab=issues",
    "/runs/q060_handoff?tab=manifest",
    "/runs/q060_handoff?tab=events",
    "/runs/q060_handoff?tab=files&file=calc.py",
    "/runs/q060_handoff?tab=state&step=2",
    "/runs/q060_handoff?tab=timeline&step=2",
    "/runs/q060_handoff?tab=timeline&table=1&waits=whole&from=0&to=1",
    "/runs/q060_handoff/share?step=2",
    "/runs/q060_handoff?tab=transcript&step=1",
    "/runs/model?tab=prompt",
    "/runs/q060_handoff/steps/2/value?at=",
    "/runs/critic_failed/scores?threshold=0.5",
    "/scores?run=q060_html_injection&run=final&run=critic_failed&run=nobody&threshold=0.5",
    "/runs/critic_failed/whatif",
    "/runs/q060_handoff/replay?step=2&event=8&key=tool_calls&break=tool%3Arun_python&break=bogus%3C",
    "/compare?a=q060_handoff&b=q060_critic_odd_outputs",
    "/compare/replay?a=q060_html_injection&b=q060_handoff&at=0",
    "/whatif?sweep=max_steps&values=1..9",
    "/search?q=script&in=steps%3Cmany",
    "/edits",
    "/overview?period=all",
    "/experiments?a=status%3Aanswered&b=-status%3Aanswered&by=nothing&success=finished",
    "/views?q=status%3Aerror&cols=cost",
];

/// The same kinds of pages for other runs, for other queries, and for empty results.
const MORE: &[&str] = &[
    "/?q=stop:final",
    "/?q=nothing-is-called-so",
    "/?q=steps%3Cmany",
    "/?group=project&sort=tokens",
    "/?group=parent",
    "/runs/q060_critic_odd_outputs",
    "/runs/q060_html_injection?step=1",
    "/runs/q060_recovered_errors?step=1",
    "/runs/q060_sigkill",
    "/runs/emulated_q060_garbage_lines?step=3",
    "/runs/emulated_q060_manifest_missing?tab=manifest",
    "/runs/q060_handoff?tab=files",
    "/runs/q060_handoff?err=1",
    "/runs/q060_html_injection?tab=manifest",
    "/runs/qitos_coding_20260222_044138_940343",
    "/runs/final?step=0",
    "/runs/model?step=0",
    "/runs/model/steps/1",
    "/runs/died",
    "/runs/critic_failed",
    "/runs/refused?tab=manifest",
    "/runs/q060_critic_odd_outputs/scores",
    "/runs/q060_handoff/scores",
    "/runs/q060_html_injection/scores?threshold=x",
    "/scores",
    "/runs/q060_critic_odd_outputs/whatif?rule=max_steps%3Dx&rule=nonsense&rule=max_rounds%3D0&rule=critic_below%3Dno%3A1",
    "/runs/q060_critic_odd_outputs/replay?step=2",
    "/runs/q060_sigkill/replay?step=end",
    "/runs/emulated_q060_garbage_lines/replay?step=3",
    "/runs/critic_failed/replay",
    "/compare",
    "/compare?a=q060_handoff",
    "/compare?a=q060_html_injection&b=q060_html_injection",
    "/compare?run=q060_handoff&run=critic_failed&run=q060_critic_odd_outputs",
    "/?mark=q060_handoff&mark=q060_sigkill",
    "/whatif?sweep=critic_below&critic=ProgressCritic&streak=2",
    "/whatif?q=steps%3Cmany&rule=max_steps%3D2&rule=stop_on_tool%3Drun_python",
    "/whatif?q=nothing-is-called-so",
    "/search",
    "/search?q=nothing-says-so",
    "/edits?q=steps%3Cmany&file=nothing-is-called-so",
    "/experiments",
    "/experiments?a=steps%3Cmany&b=stop%3Afinal",
    "/experiments?a=nothing-is-called-so&b=stop%3Afinal",
    "/views?q=steps%3Cmany",
];

/// The pages to test: one of each kind, or all of them in soak tests.
fn pages() -> impl Iterator<Item = &'static str> {
    let more = if soak() { MORE } else { &[] };
    KINDS.iter().chain(more).copied()
}

/// A board over all sorts of runs, including a coding agent's sessions. Concurrent tests share one,
/// since they only read.
fn with_sessions() -> Arc<Site> {
    static SHARED: Mutex<Weak<Site>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let site = Arc::new(make_with_sessions());
        *shared = Arc::downgrade(&site);
        site
    })
}

fn make_with_sessions() -> Site {
    let site = Site::with_ours(RUNS);
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools/claude-code");
    crate::disk::copy(&sessions, &site.path("sessions"));
    until("the sessions are known", || {
        (site.board.json("/api/runs?q=format:claude")["matched"] == 4).then_some(())
    });
    site.board.until_read();
    site
}

/// A page that doesn't exist. The browser itself reports the status to the console.
const ERROR_PAGE: &str = "/runs/no-such-run";

/// Returns axe's violations, one per line.
pub(crate) fn violations(page: &Page) -> Vec<String> {
    page.eval(&format!("{AXE}; void 0"));
    let script = "axe.run(document, {resultTypes: ['violations']}).then(result => result.violations.flatMap(
        rule => rule.nodes.map(node => `${rule.id}: ${node.target} ${node.failureSummary} ${node.html.slice(0, 200)}`)))";
    let found = page.eval(script);
    found
        .as_array()
        .map(|found| found.iter().map(ToString::to_string).collect())
        .unwrap_or_default()
}

#[test]
fn axe_itself_finds_what_is_wrong() {
    let page = Page::open();
    page.goto(
        "data:text/html,<html lang=en><title>one</title><main><h1>one</h1><img src=x></main>",
    );
    let found = violations(&page);
    assert!(
        found.iter().any(|found| found.contains("image-alt")),
        "{found:?}"
    );
}

/// Axe takes about a second per page. Each kind of page is tested at both widths and in both
/// themes, but with only one theme per width; soak tests cover all four combinations.
fn axe_is_content(width: u32, theme: &str) {
    let site = with_sessions();
    let page = Page::open();
    page.look(width, theme);
    let mut wrong = Vec::new();
    let first = usize::from((width == PHONE) != (theme == "dark"));
    let tried = pages().chain([ERROR_PAGE]);
    for path in tried.skip(times(first, 0)).step_by(times(2, 1)) {
        page.goto(&site.url(path));
        wrong.extend(
            violations(&page)
                .into_iter()
                .map(|found| format!("{path}\n    {found}")),
        );
    }
    assert!(
        wrong.is_empty(),
        "{width} px, {theme}:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn axe_is_content_on_a_laptop_in_light() {
    axe_is_content(LAPTOP, "light");
}

#[test]
fn axe_is_content_on_a_laptop_in_dark() {
    axe_is_content(LAPTOP, "dark");
}

#[test]
fn axe_is_content_on_a_phone_in_light() {
    axe_is_content(PHONE, "light");
}

#[test]
fn axe_is_content_on_a_phone_in_dark() {
    axe_is_content(PHONE, "dark");
}

#[test]
fn the_console_is_silent() {
    let site = with_sessions();
    let page = Page::open();
    for path in pages() {
        page.goto(&site.url(path));
        page.wait("document.readyState === 'complete'");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn nothing_in_the_sessions_of_any_tool_runs_or_hides() {
    use crate::hostile::{GLOBAL, write_sessions};
    let site = Site::with(&[]);
    let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools");
    write_sessions(&tools, &site.path("tools"));
    let firsts = until("a run of each tool is known", || {
        let mut firsts = std::collections::BTreeMap::new();
        for run in site.board.json("/api/runs?limit=500")["runs"].as_array()? {
            let key = run["key"].as_str()?;
            let tool = key.split('/').find(|part| tools.join(part).is_dir())?;
            firsts
                .entry(tool.to_owned())
                .or_insert_with(|| key.to_owned());
        }
        // Sessions that are there twice count once.
        (firsts.len() > 25 && site.board.json("/healthz")["indexing"] == 0).then_some(firsts)
    });
    let page = Page::open();
    for (tool, key) in firsts {
        let key: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        page.goto(&site.url(&format!("/runs/{key}?tab=transcript")));
        page.wait("document.readyState === 'complete' && !document.querySelector('#poll[hx-get]')");
        let global = page.eval(&format!("typeof window.{GLOBAL}"));
        assert_eq!(global, json!("undefined"), "{tool}");
        assert_eq!(page.unseen(), json!([]), "{tool}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{tool}");
    }
}

#[test]
fn nothing_in_a_hostile_run_runs_or_hides() {
    use crate::hostile::{DIRECTORY, GLOBAL, Manner, write};
    let site = Site::with(&[]);
    for (number, (run, manner)) in [
        ("q060/q060_handoff", Manner::Beside),
        ("q060/q060_critic_odd_outputs", Manner::Instead),
    ]
    .into_iter()
    .enumerate()
    {
        write(
            &crate::disk::corpus().join(run),
            &site.path(&format!("{number}{DIRECTORY}")),
            manner,
        );
    }
    let runs = until("both runs are known", || {
        let runs = site.board.json("/api/runs")["runs"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        (runs.len() == 2 && site.board.json("/healthz")["indexing"] == 0).then_some(runs)
    });
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    let keys: Vec<String> = runs
        .iter()
        .map(|run| encoded(run["key"].as_str().unwrap_or_default()))
        .collect();
    let mut pages: Vec<String> = [
        "/",
        "/?q=%3Cscript%3E",
        "/?group=task",
        "/scores",
        "/search?q=pwned",
        "/failures",
        "/failures?q=%3Cscript%3E&where=%22%3E",
    ]
    .map(str::to_owned)
    .to_vec();
    let failures = site.board.json("/api/failures")["failures"].clone();
    for failure in failures.as_array().into_iter().flatten().take(times(2, 50)) {
        let id = failure["id"].as_str().unwrap_or_default();
        pages.push(format!("/failures?open={id}"));
    }
    for way in [
        "/scores?run={0}&run={1}",
        "/compare?a={0}",
        "/compare?a={0}&b={1}",
        "/compare/replay?a={0}&b={1}&at=0",
    ] {
        pages.push(way.replace("{0}", &keys[0]).replace("{1}", &keys[1]));
    }
    for (nth, key) in keys.iter().enumerate() {
        let parts = [
            "",
            "?step=0",
            "?tab=events",
            "?tab=manifest",
            "?tab=issues",
            "?tab=events&open=0",
            "?tab=files",
            "?tab=timeline",
            "?tab=transcript",
            "?tab=prompt",
            "/steps/0/value?at=",
            "?tab=state&step=0",
            "/steps/0",
            "/scores",
            "/whatif",
            "/replay?step=0",
        ];
        // Each part for one of the two runs, or for both in soak tests.
        for rest in parts.iter().skip(times(nth, 0)).step_by(times(2, 1)) {
            pages.push(format!("/runs/{key}{rest}"));
        }
        let saved = site.board.get(&format!("/runs/{key}/export.html"));
        let file = site.path("saved.html");
        std::fs::write(&file, &saved.body).expect("the export can be kept");
        let page = Page::open();
        page.goto(&format!("file://{}", file.display()));
        page.wait("document.readyState === 'complete'");
        assert_eq!(
            (
                page.eval(&format!("typeof window.{GLOBAL}")),
                page.complaints()
            ),
            (json!("undefined"), vec![]),
            "export"
        );
        assert_eq!(page.unseen(), json!([]), "export");
    }
    let page = Page::open();
    for path in pages {
        page.goto(&site.url(&path));
        page.wait("document.readyState === 'complete' && !document.querySelector('#poll[hx-get]')");
        assert_eq!(
            page.eval(&format!("typeof window.{GLOBAL}")),
            json!("undefined"),
            "{path}"
        );
        assert_eq!(page.unseen(), json!([]), "{path}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{path}");
    }
    page.goto(&site.url(&format!("/runs/{}", keys[0])));
    page.wait("document.readyState === 'complete'");
    page.click("[data-jump]");
    page.insert("onerror"); // as the names of both runs say
    page.wait("document.querySelectorAll('.jump li.run').length === 2");
    assert_eq!(page.count(".jump li > span > *"), 0, "a name is text");
    assert_eq!(page.unseen(), json!([]), "the jump box");
    assert_eq!(page.complaints(), Vec::<String>::new(), "the jump box");
}

#[test]
fn nothing_scrolls_sideways() {
    let site = with_sessions();
    let page = Page::open();
    let mut wrong = Vec::new();
    for (at, width) in [320, PHONE, 820, 1_100].into_iter().enumerate() {
        page.look(width, "light");
        // Each page is tested at two widths; soak tests cover all four.
        let tried = pages().chain([ERROR_PAGE]);
        for path in tried.skip(times(at % 2, 0)).step_by(times(2, 1)) {
            page.goto(&site.url(path));
            let needed = page.eval("document.documentElement.scrollWidth");
            if needed
                .as_u64()
                .is_none_or(|needed| needed > u64::from(width))
            {
                // Elements that stick out and aren't inside a scrollable element.
                let widest = format!(
                    "[...document.querySelectorAll('body *')].filter(e => {{
                        for (let p = e.parentElement; p; p = p.parentElement)
                            if (p !== document.body && getComputedStyle(p).overflowX !== 'visible') return false;
                        return e.getBoundingClientRect().right > {width};
                    }}).map(e => e.tagName + '.' + e.className + '#' + e.id).slice(0, 8).join(' ')"
                );
                wrong.push(format!(
                    "{path} needs {needed} of {width} pixels: {}",
                    page.eval(&widest)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn everything_is_readable_without_scripts() {
    let site = Site::with(RUNS);
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url("/"));
    assert_eq!(page.count("#rows tr"), RUNS.len() as u64);
    let link = "document.querySelector('#rows #run-q060__handoff a').pathname";
    assert_eq!(page.eval(link), "/runs/q060_handoff");
    page.click("#rows #run-q060__handoff a");
    // The browser drops clicks that come before the new page's first paint.
    page.wait(
        "location.pathname === '/runs/q060_handoff' && document.querySelector('#verdict') &&
         performance.getEntriesByName('first-paint').length > 0",
    );
    assert_eq!(page.count("#steps li[id^=step-]"), 7);
    page.click("#step-2 a");
    page.wait(
        "location.search.includes('step=2') && /step 2\\b/i.test(document.querySelector('#stepview h2').innerText)",
    );
    page.goto(&site.url("/runs/q060_handoff/steps/2"));
    assert!(
        page.text("#stepview h2").to_lowercase().contains("step 2"),
        "{}",
        page.text("#stepview h2")
    );
}

#[test]
fn hostile_text_does_nothing() {
    let site = Site::with(RUNS);
    let page = Page::open();
    for n in 0..5 {
        page.goto(&site.url(&format!("/runs/q060_html_injection?step={n}")));
        let own = json!(site.url("/"));
        let foreign = format!(
            "[...document.querySelectorAll('main script, main iframe, main form:not(#tabs > form, #pick, #sheet)')].length +
            [...document.querySelectorAll('[src]')].filter(e => !e.src.startsWith({own})).length"
        );
        assert_eq!(page.eval(&foreign), 0, "step {n}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "step {n}");
    }
}
