//! Tests what a page tells about ends of runs: notifications, the title of a hidden tab, and the marks of what is new
//! since the last visit.

use serde_json::json;

use crate::page::Page;
use crate::site::Site;
use crate::wait::until;
use crate::writer::Writer;

/// Replaces the browser's notifications with ones that can be counted. `answer` is the person's answer.
fn stub(page: &Page, answer: &str) {
    let script = format!(
        "window.asked = 0; window.notes = [];
         window.Notification = class {{
           static permission = localStorage.answered ?? 'default';
           static async requestPermission() {{
             window.asked += 1;
             localStorage.answered = '{answer}';
             return Notification.permission = '{answer}';
           }}
           constructor(title, options) {{ this.title = title; Object.assign(this, options); window.notes.push(this) }}
           close() {{ this.closed = true }}
         }};"
    );
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        &json!({"source": script}),
    );
}

/// Opens `path` in a browser whose person answers so.
fn open(site: &Site, path: &str, answer: &str) -> Page {
    let page = Page::open();
    stub(&page, answer);
    page.goto(&site.url(path));
    page.wait("document.querySelector('.tell button')");
    page
}

/// Makes the page think that its tab is hidden, or visible again.
fn hide(page: &Page, hidden: bool) {
    page.eval(&format!(
        "Object.defineProperty(document, 'hidden', {{ configurable: true, value: {hidden} }});
         void document.dispatchEvent(new Event('visibilitychange'))"
    ));
}

const PRESSED: &str =
    "document.querySelector('.tell button').getAttribute('aria-pressed') === 'true'";

fn press(page: &Page) {
    page.eval("document.querySelector('.tell button').focus()");
    page.press("Enter");
    page.wait(PRESSED);
    // It stays connected while it is hidden.
    page.wait("'tells' in document.body.dataset");
}

#[test]
fn a_hidden_page_tells_when_its_run_ends() {
    let (site, mut writer, _page) = Site::live(2);
    let page = open(&site, "/runs/live", "granted");
    assert_eq!(page.eval("window.asked"), 0, "asked without a press");
    press(&page);
    assert_eq!(page.eval("window.asked"), 1);
    page.goto(&site.url("/runs/live"));
    page.wait(&format!("document.querySelector('.tell') && {PRESSED}"));
    page.wait("'tells' in document.body.dataset");
    assert_eq!(page.eval("window.asked"), 0, "the answer is kept");
    hide(&page, true);
    writer.step("one more");
    page.wait("document.querySelector('#step-2')");
    assert_eq!(page.eval("window.notes.length"), 0);
    writer.finish("final");
    page.wait("window.notes.length === 1 && document.title.startsWith('● Ended · ')");
    assert_eq!(page.eval("notes[0].title"), page.text("h1"));
    // The rest of its words is about files that are still being written.
    assert_eq!(page.eval("notes[0].body.startsWith('Finished')"), true);
    // It leads to the page that is already open.
    page.eval("void notes[0].onclick()");
    assert_eq!(page.eval("notes[0].closed"), true);
    hide(&page, false);
    page.wait("!document.title.startsWith('●')");
    // A run that has ended has nothing to tell.
    page.wait("!document.querySelector('.tell')");
    assert_eq!(page.eval("localStorage.getItem('board-tell')"), "[]");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_hidden_page_that_nobody_asked_disconnects() {
    let (site, mut writer, _page) = Site::live(1);
    let page = open(&site, "/runs/live", "granted");
    hide(&page, true);
    writer.finish("final");
    until("the run has ended", || {
        (site.board.json("/api/runs/live")["liveness"] == "finished").then_some(())
    });
    hide(&page, false);
    page.wait("/inactive/i.test(document.querySelector('[data-live-word]').innerText)");
    page.wait("/answered/i.test(document.querySelector('#verdict').innerText)");
    assert_eq!(
        page.eval("[window.asked, window.notes.length]"),
        json!([0, 0])
    );
}

#[test]
fn the_list_tells_of_each_run_that_ends_and_counts_several() {
    let site = Site::with(&["q060/q060_minimal"]);
    let mut writers = ["one", "two", "three"].map(|name| Writer::start(&site.path(name)));
    let page = open(&site, "/", "granted");
    page.wait("document.querySelectorAll('#rows tr[data-growing]').length === 3");
    press(&page);
    hide(&page, true);
    writers[0].finish("final");
    page.wait("window.notes.length === 1");
    assert_eq!(page.eval("notes[0].body.startsWith('Finished')"), true);
    page.wait("document.title.startsWith('● 1 ended · ')");
    // Both end before the page asks again.
    page.eval("document.querySelector('[data-pause]').click()");
    for writer in &mut writers[1..] {
        writer.finish("final");
    }
    until("all have ended", || {
        let runs = site.board.json("/api/runs?q=liveness:finished");
        (runs["matched"] == 4).then_some(())
    });
    page.eval("document.querySelector('[data-pause]').click()");
    page.wait("window.notes.length === 2 && document.title.startsWith('● 3 ended · ')");
    assert_eq!(page.eval("notes[1].title"), "2 runs ended");
    hide(&page, false);
    page.wait("!document.title.includes('●')");
    page.eval("void notes[0].onclick()");
    page.wait("location.pathname === '/runs/one'");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_list_tells_of_a_run_that_its_filter_no_longer_matches() {
    let site = Site::with(&["q060/q060_minimal"]);
    let mut writer = Writer::start(&site.path("one"));
    let page = open(&site, "/?q=status:running", "granted");
    page.wait("document.querySelectorAll('#rows tr[data-growing]').length === 1");
    press(&page);
    writer.finish("final");
    page.wait("window.notes.length === 1");
    assert_eq!(page.eval("notes[0].tag"), "/runs/one");
    assert_eq!(page.count("#rows tr"), 0);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_page_says_why_it_cannot_tell() {
    let (site, mut writer, _page) = Site::live(1);
    let page = open(&site, "/runs/live", "denied");
    page.click(".tell button");
    page.wait("document.querySelector('.told').innerText.includes('blocked')");
    assert_eq!(page.eval(PRESSED), false);
    page.click("h1");
    page.wait("document.querySelector('.told').innerText === ''");
    page.eval("delete window.Notification; window.Notification = undefined");
    page.click(".tell button");
    page.wait("document.querySelector('.told').innerText.includes('support notifications')");
    page.eval("void Object.defineProperty(window, 'isSecureContext', { value: false })");
    page.click(".tell button");
    page.wait("document.querySelector('.told').innerText.includes('https://')");
    writer.finish("final");
    page.wait("/inactive/i.test(document.querySelector('[data-live-word]').innerText)");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_run_that_has_ended_offers_nothing() {
    let site = Site::with(&["q060/q060_minimal"]);
    let page = site.open("/runs/q060_minimal");
    page.wait("document.body.dataset.state === 'ended'");
    assert_eq!(page.count(".tell"), 0);
}

#[test]
fn runs_that_are_new_since_the_last_visit_are_marked() {
    let site = Site::with(&["q060/q060_minimal"]);
    let mut writers = ["ends", "grows"].map(|name| Writer::start(&site.path(name)));
    let page = site.open("/");
    page.wait("document.querySelectorAll('#rows tr[data-growing]').length === 2");
    assert_eq!(page.count("[data-since]:not([hidden])"), 0);
    assert_eq!(page.count("#rows .fresh"), 0, "marked on the first visit");
    // The last visit was a minute before these runs began. A visit ends with its tab.
    let visit = |time: &str| {
        page.eval(&format!(
            "sessionStorage.clear(); void localStorage.setItem('board-seen', {time})"
        ));
        // Leaving a page writes the time, so it is set on the way to the next one.
        let keep = format!(
            "if (window === top) {{ sessionStorage.clear(); localStorage.setItem('board-seen', {time}) }}"
        );
        let added = page.call(
            "Page.addScriptToEvaluateOnNewDocument",
            &json!({"source": keep}),
        );
        page.goto(&site.url("/"));
        page.call("Page.removeScriptToEvaluateOnNewDocument", &added);
        page.wait("document.querySelectorAll('#rows tr').length === 3");
    };
    let minutes =
        |n: i64| format!("new Date(Date.now() + {n} * 60000).toISOString().slice(0, 19) + 'Z'");
    visit(&minutes(-1));
    page.wait(
        "document.querySelector('[data-since]')?.textContent.match(/^2 new since \\d\\d:\\d\\d$/)",
    );
    assert_eq!(page.count("#rows .fresh"), 2);
    assert_eq!(page.count("#run-q060_minimal .fresh"), 0);
    assert_eq!(page.text("#run-ends .fresh"), "new");
    writers[0].finish("final");
    page.wait("!('growing' in document.querySelector('#run-ends').dataset)");
    page.wait("document.querySelectorAll('#rows .fresh').length === 2");
    page.click("[data-since]");
    page.wait(
        "location.search.includes('updated') && document.querySelectorAll('#rows tr').length === 2",
    );
    assert_eq!(page.count(".ignored"), 0);
    // Nothing has started or ended after this.
    visit(&minutes(1));
    page.wait("document.querySelectorAll('#rows tr').length === 3 && document.querySelector('[data-since]')");
    assert_eq!(page.count("#rows .fresh"), 0);
    assert_eq!(page.count("[data-since]:not([hidden])"), 0);
    assert_eq!(page.complaints(), Vec::<String>::new());
}
