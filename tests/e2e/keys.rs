//! Tests operating the board by keyboard and with the browser's buttons.

use crate::page::{PHONE, Page};
use crate::site::Site;

const RUNS: &[&str] = &[
    "q060/q060_handoff",
    "q060/q060_minimal",
    "q060/q060_sigkill",
];

fn steps_shown(page: &Page) -> String {
    page.text("#stepview h2").to_lowercase()
}

#[test]
fn a_walk_through_the_list() {
    let site = Site::with(RUNS);
    let page = site.open("/");
    page.press("j");
    page.wait("document.activeElement.closest('#rows tr:nth-child(1)')");
    page.press("j");
    page.wait("document.activeElement.closest('#rows tr:nth-child(2)')");
    page.press("k");
    page.wait("document.activeElement.closest('#rows tr:nth-child(1)')");
    page.press("Enter");
    page.wait("location.pathname.startsWith('/runs/')");
}

#[test]
fn search_is_a_key_away_and_a_query_is_an_address() {
    let site = Site::with(RUNS);
    let page = site.open("/");
    page.press("/");
    page.wait("document.activeElement.name === 'q'");
    // In a field, keys type letters.
    page.insert("sigkill");
    page.press("j");
    assert_eq!(page.eval("document.activeElement.value"), "sigkillj");
    page.eval("document.activeElement.value = 'sigkill'");
    page.press("Enter");
    page.wait("location.search.includes('q=sigkill')");
    page.wait("document.querySelectorAll('#rows tr').length === 1");
}

#[test]
fn the_filter_is_completed_only_for_the_text_in_the_field() {
    let site = Site::with(RUNS);
    let page = site.open("/");
    let value = "document.getElementById('q').value";
    page.press("/");
    page.wait("document.activeElement.name === 'q'");
    page.insert("statu");
    page.wait(
        "document.querySelector('#complete [aria-selected=true] code')?.innerText === 'status:'",
    );
    page.press("Tab");
    page.wait(&format!("{value} === 'status:'"));
    page.wait("document.querySelector('#complete mark') === null && document.querySelector('#complete')?.ariaLabel === 'Status'");
    // These offers are for another text: the first key asks again.
    page.eval("document.getElementById('q').value = 'stop:x y'");
    page.eval("document.getElementById('q').setSelectionRange(2, 2)");
    page.press("Tab");
    page.wait("document.querySelector('#complete')?.ariaLabel === 'Fields'");
    assert_eq!(page.eval(value), "stop:x y");
    page.press("Tab");
    page.wait(&format!("/^[a-z_]+[:>] y$/.test({value})"));
}

#[test]
fn the_jump_box_leads_anywhere_and_gives_the_focus_back() {
    let site = Site::with(RUNS);
    let page = site.open("/runs/q060_handoff?step=2");
    let offered = |words: &str| {
        page.wait(&format!(
            "document.querySelector('.jump [aria-selected=true]')?.innerText.includes({words:?})"
        ))
    };
    page.eval("document.querySelector('nav.tabs a').focus()");
    page.click("[data-jump]");
    page.wait("document.activeElement.role === 'combobox'");
    page.insert("4");
    offered("Step 4");
    // Letters in the box aren't shortcuts, and suggestions are escaped as text.
    page.eval("document.activeElement.value = ''");
    page.insert("<b>j</b>");
    offered("<b>j</b>");
    assert_eq!(page.count(".jump b"), 0);
    page.press("Escape");
    page.wait("!document.querySelector('.jump').open && document.activeElement.matches('nav.tabs a, [data-jump]')");
    page.click("[data-jump]");
    page.insert("minimal");
    offered("q060_minimal");
    page.press("Enter");
    page.wait("location.pathname === '/runs/q060_minimal' && document.readyState === 'complete'");
    page.click("[data-jump]");
    page.insert("theme");
    offered("theme");
    page.press("Enter");
    page.wait("document.documentElement.dataset.theme === 'light'");
}

#[test]
fn a_walk_through_a_run() {
    let site = Site::with(RUNS);
    let page = site.open("/runs/q060_handoff?step=2");
    assert!(steps_shown(&page).contains("step 2"));
    // A link pressed before htmx has processed it loads the whole page, whose keys work once it's
    // complete.
    let at = |step: u32| {
        let shown =
            format!("/step {step}\\b/i.test(document.querySelector('#stepview h2')?.innerText)");
        // Until the step is in its place, the focus may still move to its row.
        let settled = "!document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')";
        page.wait(&format!(
            "{shown} && {settled} && document.readyState === 'complete'"
        ));
    };
    page.press("j");
    at(3);
    page.press("k");
    at(2);
    page.press("k");
    at(1);
    assert!(page.location().contains("step=1"), "{}", page.location());
    page.press("v");
    page.wait("document.querySelector('#verdict-line').open && document.activeElement.matches('#verdict-line > summary')");
    for (key, tab) in [("2", 1), ("3", 2), ("1", 0)] {
        let target = page.eval(&format!(
            "document.querySelectorAll('nav.tabs a')[{tab}].href"
        ));
        page.press(key);
        page.wait(&format!(
            "location.href === {target} && document.readyState === 'complete'"
        ));
    }
}

#[test]
fn tabs_leave_the_room_to_what_they_show_and_a_key_leads_back_to_the_verdict() {
    let site = Site::with(RUNS);
    let page = Page::open();
    for tab in [
        "timeline", "state", "events", "files", "prompt", "manifest", "issues",
    ] {
        page.goto(&site.url(&format!("/runs/q060_handoff?tab={tab}&step=2")));
        page.wait("document.readyState === 'complete'");
        let kept = "[...document.querySelectorAll('nav.tabs a, .acts a[data-at-step]')].every(a => a.search.includes('step=2'))";
        assert_eq!(page.eval(kept), true, "{tab} keeps the step");
        assert_eq!(
            page.text("#verdict-line > summary b"),
            "Answered at step 6",
            "{tab}"
        );
        let top = page.eval("document.querySelector('#tabs').getBoundingClientRect().bottom");
        assert!(
            top.as_f64().is_some_and(|top| top < 300.0),
            "{tab} begins at {top}"
        );
        page.press("v");
        page.wait("document.querySelector('#verdict-line').open && document.querySelector('#verdict').checkVisibility()");
    }
}

#[test]
fn the_tab_that_is_shown_is_in_sight_on_a_phone() {
    let site = Site::with(RUNS);
    let page = Page::open();
    page.look(PHONE, "light");
    for tab in ["timeline", "events", "issues"] {
        page.goto(&site.url(&format!("/runs/q060_handoff?tab={tab}")));
        page.wait("(r => r.left >= 0 && r.right <= innerWidth)(document.querySelector('#tabs [aria-current]').getBoundingClientRect())");
        assert_eq!(page.eval("scrollY"), 0, "{tab}: the page stays at its top");
    }
}

#[test]
fn a_mark_is_a_key_away() {
    let site = Site::with(&["q060/q060_recovered_errors"]);
    let page = site.open("/runs/q060_recovered_errors?step=0");
    page.press("e");
    page.wait("!/step 0\\b/i.test(document.querySelector('#stepview h2').innerText)");
    // The list marks the step once its view has arrived.
    page.wait("document.querySelectorAll('#steps a[aria-current] .mk').length === 1");
}

#[test]
fn help_and_theme() {
    let site = Site::with(RUNS);
    let page = site.open("/");
    page.press("?");
    page.wait("document.querySelector('#keys').matches(':popover-open')");
    page.press("Escape");
    page.wait("!document.querySelector('#keys').matches(':popover-open')");
    page.press("t");
    page.wait("document.documentElement.dataset.theme === 'light'");
    page.press("t");
    page.wait("document.documentElement.dataset.theme === 'dark'");
    page.goto(&site.url("/runs/q060_handoff"));
    page.wait("document.documentElement.dataset.theme === 'dark'");
    page.press("t");
    page.wait("!document.documentElement.dataset.theme || document.documentElement.dataset.theme === 'system'");
}

#[test]
fn back_leads_to_where_one_was() {
    let site = Site::with(RUNS);
    let page = site.open("/?q=handoff");
    page.click("#rows tr a");
    page.wait("location.pathname === '/runs/q060_handoff' && document.querySelector('#step-4 a')");
    let first = steps_shown(&page);
    let at = |step: u32| {
        let shown =
            format!("/step {step}\\b/i.test(document.querySelector('#stepview h2').innerText)");
        page.wait(&format!("location.search === '?step={step}' && {shown}"));
    };
    page.click("#step-4 a");
    at(4);
    // The rows move up when the verdict closes.
    page.wait("!document.querySelector('#verdict-line').open");
    page.click("#step-2 a");
    at(2);
    page.back();
    at(4);
    page.back();
    page.wait(&format!(
        "document.querySelector('#stepview h2')?.innerText.toLowerCase() === {first:?}"
    ));
    page.back();
    page.wait("location.search.includes('q=handoff') && document.querySelectorAll('#rows tr').length === 1");
}
