//! Tests the help that the run table gives: completions of the filter, stars, and long menus with a
//! field.

use std::fs;

use serde_json::json;

use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

const RUNS: &[&str] = &[
    "q060/q060_handoff",
    "q060/q060_minimal",
    "q060/q060_recovered_errors",
];
const VALUE: &str = "document.getElementById('q').value";

/// Opens the run table and waits until its scripts work.
fn open(site: &Site) -> Page {
    let page = site.open("/");
    page.wait("document.readyState === 'complete' && window.htmx");
    page
}

#[test]
fn a_filter_is_written_with_completions_alone() {
    let site = Site::with(RUNS);
    let page = open(&site);
    page.press("/");
    page.insert("tas");
    let chosen = "document.querySelector('#complete [aria-selected=true] code')?.innerText";
    page.wait(&format!("{chosen} === 'task:'"));
    let own = page.eval("document.activeElement.getAttribute('aria-activedescendant')");
    assert_eq!(own, "complete-0", "a screen reader hears the completion");
    page.press("Tab");
    page.wait("document.querySelector('#complete')?.ariaLabel === 'Task'");
    // The values have counts, and the arrows choose one.
    let rows = "[...document.querySelectorAll('#complete li')]";
    page.wait(&format!(
        "{rows}.length > 1 && {rows}.every(row => /\\d/.test(row.lastChild.innerText))"
    ));
    page.press("ArrowDown");
    page.wait("document.querySelector('#complete li:nth-child(2)').ariaSelected === 'true'");
    page.press("ArrowUp");
    page.press("Tab");
    page.wait(&format!("/^task:\\S.* $/.test({VALUE})"));
    page.press("Escape");
    page.wait("document.querySelector('#complete') === null");
    page.press("Enter");
    page.wait(
        "location.search.includes('q=task') && document.querySelectorAll('#rows tr').length < 3",
    );
    // The mouse inserts too, and the focus stays.
    page.goto(&site.url("/"));
    page.wait("document.readyState === 'complete' && window.htmx");
    page.press("/");
    page.insert("mode");
    page.wait(&format!("{chosen} === 'model:'"));
    page.click("#complete li");
    page.wait(&format!(
        "{VALUE}.startsWith('model:') && document.activeElement.id === 'q'"
    ));
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_star_is_kept_and_leads_to_its_run() {
    let site = Site::with(RUNS);
    let page = open(&site);
    assert_eq!(page.count("[data-starred]:not([hidden])"), 0);
    page.eval("document.querySelector('#rows tr:nth-child(2) th a').focus()");
    page.press("s");
    page.wait("document.querySelectorAll('#rows tr.starred').length === 1");
    page.wait("document.querySelector('[data-starred]:not([hidden]) b')?.innerText === '1'");
    let run = page.eval("document.querySelector('#rows tr.starred').id");
    page.goto(&site.url("/"));
    page.wait("document.querySelectorAll('#rows tr.starred').length === 1");
    page.click("[data-starred]");
    page.wait(
        "location.search.includes('run') && document.querySelectorAll('#rows tr').length === 1",
    );
    assert_eq!(page.eval("document.querySelector('#rows tr').id"), run);
    page.wait("document.querySelector('#rows tr.starred') && window.htmx");
    page.eval("document.querySelector('#rows tr th a').focus()");
    page.press("s");
    page.wait("document.querySelector('#rows tr.starred') === null");
    page.wait("document.querySelector('[data-starred]').hidden");
    // Another browser has stars of its own.
    assert_eq!(open(&site).count("#rows tr.starred"), 0);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_long_menu_is_filtered_by_typing() {
    let site = Site::with(&[]);
    for n in 10..24 {
        let message = json!({"role": "assistant", "id": format!("m{n}"), "model": format!("model-{n}"), "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Done."}]});
        let record = json!({"type": "assistant", "uuid": format!("u{n}"), "sessionId": format!("s{n}"), "version": "2.1.0",
            "cwd": "/home/me/ledger", "timestamp": format!("2026-03-01T00:{n}:00.000Z"), "message": message});
        let text = format!("{record}\n");
        fs::write(site.path(&format!("s{n}.jsonl")), text).expect("a session can be written");
    }
    until("all are known", || {
        (site.board.json("/api/runs")["matched"] == 14).then_some(())
    });
    let page = open(&site);
    let menu = "[...document.querySelectorAll('#facets details')].find(menu => menu.innerText.startsWith('Model'))";
    page.eval(&format!("({menu}).querySelector('summary').focus()"));
    page.press("Enter");
    // The field has the focus.
    page.wait("document.activeElement.matches('.panel > input')");
    let shown =
        "[...document.querySelectorAll('#facets .panel .chip')].filter(chip => !chip.hidden)";
    page.wait(&format!("{shown}.length >= 14"));
    page.insert("MODEL-17");
    page.wait(&format!(
        "{shown}.length === 1 && {shown}[0].innerText.includes('model-17')"
    ));
    page.insert("x");
    page.wait("document.querySelector('.panel [role=status]').innerText === 'No match'");
    page.eval("document.activeElement.select()");
    page.insert("17");
    page.wait(&format!("{shown}.length === 1"));
    page.press("Tab");
    page.wait("document.activeElement.matches('.panel .chip')");
    page.press("Enter");
    page.wait("decodeURIComponent(location.search).includes('model=model-17') && document.querySelectorAll('#rows tr').length === 1");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn durations_and_dates_are_never_cut() {
    let site = Site::with(&["q060/q060_handoff"]);
    site.board.until_read();
    for width in [1_440, 1_024] {
        let page = Page::open();
        page.look(width, "light");
        page.goto(&site.url("/"));
        page.wait("document.readyState === 'complete'");
        let cut =
            "[['.c-dur', '≥100 h 46 min'], ['.c-upd', '28 Nov 2026']].filter(([cell, words]) => {
            const box = document.querySelector(`#rows ${cell}`);
            box.textContent = words;
            return box.scrollWidth > box.clientWidth;
        }).join()";
        assert_eq!(page.eval(cut), "", "at {width} px");
    }
}
