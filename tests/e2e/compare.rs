//! Tests comparing two runs side by side: marking and browsing them, by keyboard only and without
//! scripts.

use std::path::Path;

use crate::disk::copy;
use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

/// Two runs of the board's engine that diverge at step 1, and a few others.
fn site() -> Site {
    let site = Site::with(&["q060/q060_handoff", "q060/q060_minimal"]);
    for run in ["fix_bug", "loop"] {
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("sample_runs")
                .join(run),
            &site.path(run),
        );
    }
    until("all runs are known", || {
        (site.board.json("/api/runs")["total"] == 4).then_some(())
    });
    site.board.until_read();
    site
}

fn focus(page: &Page, run: &str) {
    page.eval(&format!(
        "document.querySelector('#run-{run} th a').focus()"
    ));
}

#[test]
fn two_runs_are_marked_and_compared_with_keys() {
    let site = site();
    let page = site.open("/");
    page.wait("document.readyState === 'complete'");
    focus(&page, "fix__bug");
    page.press("x");
    page.wait("document.querySelector('#tray [data-count]').textContent === '1 marked'");
    assert_eq!(
        page.eval("document.querySelector('[data-compare]').disabled"),
        true
    );
    focus(&page, "loop");
    page.press("x");
    page.wait("location.search === '?mark=fix_bug&mark=loop'");
    page.press("c");
    page.wait("location.pathname + location.search === '/compare?a=fix_bug&b=loop'");
    page.wait("document.querySelector('.diverge')");
    assert!(
        page.text(".pagehead .says")
            .contains("The runs diverge at step 1: A calls run_command, B calls read_file.")
    );
    assert_eq!(page.text(".diverge section:first-child h3 a"), "Step 1");
}

#[test]
fn marks_survive_filters_and_orders() {
    let site = site();
    let page = site.open("/?mark=loop");
    page.wait("document.querySelector('#run-loop.marked')");
    // A click on the edge of a row marks it.
    page.click_edge("#run-fix__bug", 24);
    page.wait("location.search === '?mark=loop&mark=fix_bug'");
    page.press("/");
    page.insert("handoff");
    page.press("Enter");
    page.wait(
        "document.querySelectorAll('#rows tr').length === 1 && document.readyState === 'complete'",
    );
    // The marked runs are named by title, though the page shows the row of neither.
    let names = page.text("#tray [data-names]");
    assert_eq!(
        names,
        "Do what is on the list., The tests for cart.sh fail. Find out why and fix it."
    );
    page.click("#tray [data-compare]");
    page.wait("location.pathname + location.search === '/compare?a=loop&b=fix_bug'");
}

#[test]
fn lockstep_walks_both_runs() {
    let site = site();
    let page = site.open("/compare?a=fix_bug&b=loop");
    page.click(".pagehead .end a:last-child");
    let row = |n: u32| {
        page.wait(&format!(
            "document.querySelector('h1').innerText === 'Aligned step {n} (0 to 10)' && document.readyState === 'complete'"
        ))
    };
    row(1);
    page.press("j");
    row(2);
    page.press("k");
    row(1);
    page.press("k");
    row(0);
    assert_eq!(page.text(".diverge section:last-child h3 a"), "Step 0");
}

#[test]
fn marks_work_without_scripts() {
    let site = site();
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url("/"));
    assert_eq!(page.count("#rows input"), 0);
    page.click("#foot a[href*='marking=1']");
    page.wait("document.querySelector('#run-loop input')");
    page.click("#run-loop input");
    page.click("#run-fix__bug input");
    page.click("#tray [data-compare]");
    page.wait("location.pathname === '/compare' && document.querySelector('.diverge')");
}

#[test]
fn a_comparison_follows_a_run_that_goes_on() {
    let (site, mut writer, page) = Site::live(2);
    page.goto(&site.url("/compare?a=live&b=live"));
    let steps = "document.querySelector('.metrics tbody td').textContent";
    page.wait(&format!("{steps} === '2'"));
    assert!(
        page.text("#compare").contains("A hasn't ended"),
        "{}",
        page.text("#compare")
    );
    writer.step("more");
    page.wait(&format!("{steps} === '3'"));
}
