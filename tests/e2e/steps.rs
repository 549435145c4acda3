//! Tests that every step of a long run can be reached from a page that holds only a few of them.

use crate::page::Page;
use crate::site::Site;
use crate::wait::until;
use crate::writer::Writer;

/// A board over one finished run called `long`.
fn long(steps: usize) -> Site {
    let site = Site::with(&[]);
    let mut writer = Writer::start(&site.path("long"));
    (0..steps).for_each(|n| writer.step(&format!("result {n}")));
    writer.finish("final");
    until("the run is read", || {
        (site.board.get("/api/runs/long").status == 200).then_some(())
    });
    until("its steps are", || {
        (site.board.json("/api/runs/long")["steps"] == steps).then_some(())
    });
    site
}

/// Waits until the step view shows `step`, and its row is marked and visible.
fn wait_for(page: &Page, step: usize) {
    page.wait(&format!(
        "document.querySelector('#stepview').dataset.n === '{step}'"
    ));
    page.wait(&format!(
        "(row => {{ const list = document.querySelector('#steps').getBoundingClientRect(), at = row?.getBoundingClientRect();
          return row?.ariaCurrent === 'true' && at.top >= list.top && at.bottom <= list.bottom + 1 }})
         (document.querySelector('#step-{step} > a'))"
    ));
    assert_eq!(page.count("#steps a[aria-current]"), 1);
}

/// Scrolls the list until line `n` is the first visible one, as dragging its scroll bar would.
fn scroll_to(page: &Page, n: usize) {
    page.eval(&format!(
        "document.querySelector('#steps').scrollTop = 28 * {n}"
    ));
}

#[test]
fn a_page_of_a_thousand_steps_is_small() {
    let site = long(1_000);
    let page = site.open("/runs/long");
    page.wait("document.readyState === 'complete'");
    assert_eq!(page.count("#steprows li"), 50);
    assert!(page.count("*") <= 1_200, "{} elements", page.count("*"));
    let html = site.board.get("/runs/long").body.len();
    assert!(html <= 100_000, "{html} bytes of HTML");
    // The document, its style sheet and two scripts. The event stream of a finished run may follow.
    let (requests, _) = page.requests();
    assert!(
        requests <= 6,
        "{}",
        page.eval("performance.getEntriesByType('resource').map(entry => entry.name)")
    );
    let (height, end) = (
        page.eval("document.querySelector('#steprows').scrollHeight"),
        28 * 1_000,
    );
    assert_eq!(height, end, "the scroll bar covers all steps");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_scroll_bar_reaches_every_step() {
    let site = long(1_000);
    let page = site.open("/runs/long");
    for n in [0, 500, 470, 440, 900, 985] {
        scroll_to(&page, n);
        page.wait(&format!(
            "document.querySelector('#step-{n}') && document.querySelector('#step-{}')",
            n + 14
        ));
        let top = page.eval(&format!(
            "Math.round(document.querySelector('#step-{n}').getBoundingClientRect().top
                - document.querySelector('.stepcols').getBoundingClientRect().bottom)"
        ));
        if n < 985 {
            assert_eq!(top, 0, "step {n} is at the scroll position");
        }
        assert!(page.count("#steprows li") <= 120);
    }
    // The list extends to the bottom of the window wherever the page is scrolled to, and its rows
    // move when it grows. At the end of the page, a border is below it.
    page.wait(
        "(document.querySelector('#step-990').scrollIntoView({block: 'center'}), (list => Math.abs(
            parseFloat(list.style.getPropertyValue('--list-top')) - list.getBoundingClientRect().top) < 3
        )(document.querySelector('#steps')))",
    );
    page.click("#step-990 a");
    wait_for(&page, 990);
    assert!(
        page.location().ends_with("?step=990"),
        "{}",
        page.location()
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn keys_walk_on_where_the_rows_of_the_page_end() {
    let site = long(300);
    let page = site.open("/runs/long?step=250");
    wait_for(&page, 250);
    for step in (215..250).rev() {
        page.press("k");
        wait_for(&page, step);
    }
    scroll_to(&page, 0);
    page.wait("document.querySelector('#step-0') && !document.querySelector('#step-215')");
    page.press("j");
    wait_for(&page, 216);
    page.back();
    wait_for(&page, 215);
}

#[test]
fn a_link_leads_to_any_step() {
    let site = long(300);
    let page = Page::open();
    for step in [0, 1, 137, 299] {
        page.goto(&site.url(&format!("/runs/long?step={step}")));
        wait_for(&page, step);
    }
}

#[test]
fn a_mark_far_away_is_a_key_away() {
    let site = Site::with(&[]);
    let mut writer = Writer::start(&site.path("long"));
    (0..200).for_each(|n| writer.step(&format!("result {n}")));
    let failed = serde_json::json!({"step_id": 200, "actions": [{"name": "count_lines", "args": {}}],
        "action_results": [{"status": "error", "error": "no such file"}]});
    crate::writer::append(&writer.dir.join("steps.jsonl"), &failed.to_string());
    until("the run is read", || {
        (site.board.get("/api/runs/long").status == 200).then_some(())
    });
    until("its steps are", || {
        (site.board.json("/api/runs/long")["steps"] == 201).then_some(())
    });
    let page = site.open("/runs/long?step=3");
    wait_for(&page, 3);
    page.press("e");
    wait_for(&page, 200);
    assert!(
        page.location().ends_with("?step=200"),
        "{}",
        page.location()
    );
}

#[test]
fn rows_come_while_the_reader_is_elsewhere_in_a_long_run() {
    let (_site, mut writer, page) = Site::live(150);
    scroll_to(&page, 0);
    page.wait("document.querySelector('#step-0')");
    page.click("#step-5 a");
    wait_for(&page, 5);
    writer.step("one more");
    page.wait("document.querySelector('#pill').innerText.includes('1 new step')");
    assert_eq!(page.count("#step-150"), 0, "the visible rows stay");
    page.click("#pill");
    page.wait("document.querySelector('#step-150') && document.querySelector('#pill').hidden");
    writer.step("and one more");
    wait_for(&page, 151);
}

#[test]
fn without_scripts_links_lead_to_the_other_rows() {
    let site = long(150);
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url("/runs/long"));
    assert_eq!(page.count("#steprows li"), 50);
    assert_eq!(
        page.eval("document.querySelector('#steps').scrollHeight < 28 * 70"),
        true,
        "no room for absent rows"
    );
    page.click("#steps a.window");
    page.wait("document.querySelector('#step-99') && document.querySelector('#step-50') && !document.querySelector('#step-100')");
    page.click("#step-51 a");
    page.wait("document.querySelector('#stepview')?.dataset.n === '51'");
    page.click("a[data-keys]");
    page.wait("location.pathname === '/keys' && document.querySelector('dl.keys')");
}
