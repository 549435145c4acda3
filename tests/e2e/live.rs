//! Tests that a page follows a growing run without disturbing the reader.

use crate::page::Page;
use crate::site::Site;
use crate::writer::Writer;

/// Marks the document, so that a reload is noticeable.
fn mark(page: &Page) {
    page.eval("void (window.unreloaded = true)");
}

fn assert_marked(page: &Page) {
    assert_eq!(
        page.eval("window.unreloaded ?? false"),
        true,
        "the page was reloaded"
    );
}

#[test]
fn a_new_step_appears() {
    let (_site, mut writer, page) = Site::live(2);
    mark(&page);
    writer.step("the third");
    page.wait("document.querySelector('#step-2')");
    assert_marked(&page);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_new_run_appears_in_the_list() {
    let site = Site::with(&["q060/q060_minimal"]);
    let page = site.open("/");
    page.wait("document.querySelectorAll('#rows tr').length === 1");
    mark(&page);
    let mut writer = Writer::start(&site.path("fresh"));
    page.wait("document.querySelector('#rows #run-fresh')");
    writer.step("one");
    page.wait("document.querySelector('#rows #run-fresh .c-steps').textContent.includes('1')");
    assert_marked(&page);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn an_open_menu_is_left_alone_when_a_run_appears() {
    let site = Site::with(&["q060/q060_minimal"]);
    let page = site.open("/");
    page.wait(
        "document.readyState === 'complete' && document.querySelectorAll('#rows tr').length === 1",
    );
    assert_eq!(page.count(".panel"), 0, "a menu is built when it is opened");
    page.click("#cols summary");
    page.wait("document.querySelector('#cols > .panel input')");
    page.eval(
        "(box => { box.click(); box.focus() })(document.querySelector('#cols input[value=model]'))",
    );
    let _writer = Writer::start(&site.path("fresh"));
    page.wait("document.querySelector('#rows #run-fresh')");
    page.wait("document.activeElement.value === 'model' && document.activeElement.checked");
    page.press("Escape");
    page.wait(
        "!document.querySelector('#cols').open && document.activeElement.matches('#cols summary')",
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn groups_of_runs_keep_up() {
    let site = Site::with(&["q060/q060_minimal"]);
    let page = site.open("/?group=task");
    page.wait("document.querySelectorAll('#rows .grp').length === 1");
    mark(&page);
    let mut writer = Writer::start(&site.path("fresh"));
    page.wait("document.querySelector('#rows #run-fresh')");
    writer.step("one");
    // The row of the run's group shows it too.
    page.wait(
        "[...document.querySelectorAll('#rows .grp')].some(row => row.textContent.includes('Count the lines.') &&
             row.querySelector('.c-steps').textContent === '1')",
    );
    assert_eq!(page.count("#rows .grp"), 2);
    assert_marked(&page);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_run_that_ends_says_so_on_the_open_page() {
    let (_site, mut writer, page) = Site::live(1);
    mark(&page);
    writer.finish("final");
    page.wait("/answered/i.test(document.querySelector('#verdict').innerText)");
    page.wait("/inactive/i.test(document.querySelector('[data-live-word]').innerText)");
    assert_marked(&page);
}

#[test]
fn what_the_reader_does_survives_an_update() {
    let (site, mut writer, page) = Site::live(30);
    page.goto(&site.url("/runs/live?step=3"));
    page.wait("document.querySelector('#stepview details')");
    page.eval(
        "for (const details of document.querySelectorAll('#stepview details')) details.open = true",
    );
    page.eval("window.node = document.querySelector('#step-3')");
    page.eval("document.querySelector('#step-3 a').focus({preventScroll: true})");
    page.eval("getSelection().selectAllChildren(document.querySelector('#stepview h2'))");
    page.eval("scrollTo(0, 120)");
    let state = "JSON.stringify([getSelection().toString(), scrollY, document.activeElement.closest('li')?.id,
        [...document.querySelectorAll('#stepview details')].map(details => details.open)])";
    let before = page.eval(state);
    assert!(
        before
            .as_str()
            .is_some_and(|state| state.contains("step-3")),
        "{before}"
    );
    writer.step("thirty-first");
    page.wait("document.querySelector('#step-30')");
    writer.begin_step();
    page.wait("document.querySelector('#pending .pend')");
    // The heading counts the steps that the page shows.
    page.wait("document.querySelector('#stepview h2').innerText.includes('31 steps')");
    let expected = before.as_str().unwrap().replace(" 30 steps ", " 31 steps ");
    assert_eq!(page.eval(state), expected);
    assert_eq!(
        page.eval("window.node.isConnected"),
        true,
        "the row was replaced"
    );
}

#[test]
fn an_open_share_form_keeps_its_findings_while_the_run_grows() {
    let (site, mut writer, page) = Site::live(3);
    writer.step("ask ann@ledger.dev");
    page.goto(&site.url("/runs/live?step=1"));
    page.wait(
        "document.readyState === 'complete' && document.querySelector('#step-3') && window.htmx",
    );
    page.click("#share > summary");
    page.wait("document.querySelector('#share[open] #sheet table')");
    let found = "document.querySelector('#share[open] #sheet .shc')?.innerText";
    let before = page.eval(found);
    assert!(
        before
            .as_str()
            .is_some_and(|found| found.contains("ann@ledger.dev")),
        "{before}"
    );
    page.click("#sheet input[name=as][value=markdown]");
    for n in 4..7 {
        writer.step(&format!("result {n}"));
        page.wait(&format!("document.querySelector('#step-{n}')"));
    }
    assert_eq!(page.eval(found), before);
    assert_eq!(page.eval("sheet.elements.as.value"), "markdown");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn follow_mode_shows_the_newest_step_until_the_reader_stays() {
    let (_site, mut writer, page) = Site::live(2);
    writer.step("followed");
    page.wait("/step 2\\b/i.test(document.querySelector('#stepview h2').innerText)");
    page.press("k");
    page.wait("/step 1\\b/i.test(document.querySelector('#stepview h2').innerText)");
    for _ in 0..3 {
        writer.step("unseen");
    }
    page.wait("document.querySelector('#pill').innerText.includes('3 new steps')");
    assert!(
        page.text("#stepview h2").to_lowercase().contains("step 1"),
        "the step being read stays"
    );
    page.click("#pill");
    page.wait(
        "document.activeElement.closest('#step-3') && document.querySelector('#pill').hidden",
    );
    writer.step("followed again");
    page.wait("/step 6\\b/i.test(document.querySelector('#stepview h2').innerText)");
}

#[test]
fn a_link_to_a_step_is_not_followed_away_from() {
    let (site, mut writer, page) = Site::live(3);
    page.goto(&site.url("/runs/live?step=1"));
    page.wait("document.querySelector('#step-2')");
    writer.step("more");
    page.wait("document.querySelector('#step-3')");
    assert!(page.text("#stepview h2").to_lowercase().contains("step 1"));
    page.press("f");
    page.wait("document.querySelector('[data-follow]').ariaPressed === 'true'");
    writer.step("and more");
    page.wait("/step 4\\b/i.test(document.querySelector('#stepview h2').innerText)");
}

#[test]
fn a_step_shows_before_its_line_is_written() {
    let (_site, mut writer, page) = Site::live(1);
    writer.begin_step();
    page.wait("document.querySelector('#pending .pend')?.innerText.includes('count_lines')");
    assert_eq!(page.count("#step-1:not(.pending)"), 0);
    writer.end_step("done");
    page.wait("document.querySelector('#step-1:not(.pending)') && !document.querySelector('#pending .pend')");
}

#[test]
fn a_page_survives_a_restart_of_the_board() {
    let (mut site, mut writer, page) = Site::live(1);
    page.wait("/live/i.test(document.querySelector('[data-live-word]').innerText)");
    site.restart(|| {
        page.wait("/reconnecting/i.test(document.querySelector('[data-live-word]').innerText)");
        writer.step("while the board was away");
    });
    page.wait("document.querySelector('#step-1')");
    page.wait("/live/i.test(document.querySelector('[data-live-word]').innerText)");
    writer.step("after it came back");
    page.wait("document.querySelector('#step-2')");
    writer.finish("final");
    page.wait("/answered/i.test(document.querySelector('#verdict').innerText)");
    let fresh = site.open("/runs/live");
    let (start, seen) = (std::time::Instant::now(), || {
        (page.eval(PICTURE), fresh.eval(PICTURE))
    });
    while seen().0 != seen().1 && start.elapsed() < crate::wait::DEADLINE {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(seen().0, seen().1, "the updated page | a fresh one");
    assert_eq!(fresh.count("#steps li[id^=step-]"), 3);
    assert!(
        seen()
            .1
            .as_str()
            .is_some_and(|picture| picture.contains("after it came back")),
        "{}",
        seen().1
    );
}

/// What a reader sees of a run, without elapsed times.
const PICTURE: &str =
    "['#runhead', '#verdict-panel', '#tabs', '#steps', '#pending', '#stepview'].map(part => {
    const copy = document.querySelector(part).cloneNode(true);
    for (const age of copy.querySelectorAll('[data-age], [data-since], .js')) age.remove();
    return copy.textContent.replace(/\\s+/g, ' ').trim();
}).join(' | ')";

#[test]
fn a_page_goes_on_when_its_run_was_deleted_and_is_back() {
    let (site, mut writer, page) = Site::live(2);
    let (dir, kept) = (site.path("live"), site.path(".kept"));
    std::fs::rename(&dir, &kept).unwrap();
    // The stream ends, or a refresh before that finds that the run is gone.
    page.wait(
        "/reconnecting/i.test(document.querySelector('[data-live-word]').innerText) || /^No run named/.test(document.querySelector('h1')?.innerText)",
    );
    std::fs::rename(&kept, &dir).unwrap();
    page.wait("/live/i.test(document.querySelector('[data-live-word]').innerText)");
    writer.step("after it came back");
    page.wait("document.querySelector('#step-2')");
}
