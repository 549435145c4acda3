//! Tests that a question over many runs is answered while the reader watches.

use crate::heavy::many_long;
use crate::page::Page;
use crate::site::Site;
use crate::soak::times;
use crate::wait::until;

#[test]
fn progress_becomes_the_answer_without_a_reload() {
    let site = Site::with(&["q060/q060_handoff"]);
    // A debug build takes many times longer for these than a response waits.
    many_long(&site.path(""), 75, times(800, 1000));
    until("all runs are read", || {
        let health = site.board.json("/healthz");
        (health["runs"] == 76 && health["indexing"] == 0).then_some(())
    });
    let page = Page::open();
    page.goto(&site.url("/whatif?sweep=max_steps&values=1..1000/50"));
    page.wait("document.querySelector('.swp-c') && !document.querySelector('#poll[hx-get]')");
    // A page polls only if it came without the answer, and a reloaded page wouldn't show that it
    // had.
    let asked = "performance.getEntriesByType('resource').some(entry => entry.name.includes('/live/whatif'))";
    assert_eq!(
        page.eval(asked),
        true,
        "the answer was present from the start"
    );
    assert!(
        page.text("#answer [role=status]").contains("of 76 runs"),
        "{}",
        page.text("#answer")
    );
    assert_eq!(page.count("#sweep tbody tr"), 51);
    // A point links to its row.
    page.click(".swp-c a[href='#limit-0'] circle");
    page.wait("location.hash === '#limit-0'");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_run_list_leads_here_with_its_query() {
    let site = Site::with(&["q060/q060_handoff", "q060/q060_sigkill"]);
    let page = site.open("/?q=stop:final");
    page.click("#foot a[href^='/whatif']");
    page.wait("location.pathname === '/whatif' && document.querySelector('#answer')");
    assert_eq!(
        page.eval("document.querySelector('main input[name=q]').value"),
        "stop:final"
    );
    page.eval("document.activeElement.blur()");
    page.press("g");
    page.press("r");
    page.wait("location.pathname === '/' && document.readyState === 'complete'");
    page.press("g");
    page.press("w");
    page.wait("location.pathname === '/whatif'");
}
