//! Tests navigating a run: by the strip of all steps, by picking steps, and along the timeline,
//! also by keyboard and without scripts.

use std::path::Path;

use crate::disk::copy;
use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

/// A board over runs recorded by our engine: `fix_bug` with 11 steps and failed commands in steps 1
/// and 5, and `long` with 300 steps.
fn site() -> Site {
    let site = Site::with(&[]);
    for name in ["fix_bug", "long"] {
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("sample_runs")
                .join(name),
            &site.path(name),
        );
    }
    until("the runs are known", || {
        (site.board.json("/api/runs")["matched"] == 2).then_some(())
    });
    site.board.until_read();
    site
}

/// Waits until the page shows step `n`.
fn at(page: &Page, n: usize) {
    page.wait(&format!(
        "document.querySelector('#stepview')?.dataset.n === '{n}' && document.readyState === 'complete'"
    ));
}

/// Where the mark of the strip is, in thousandths of its width.
const MARKED: &str =
    "(line => Math.round(line.getBBox().x / line.ownerSVGElement.viewBox.baseVal.width * 1000))
        (document.querySelector('#strip .here'))";

/// Returns the strip's mark for the current step, in thousandths of its width.
fn marked(page: &Page) -> u64 {
    page.eval(MARKED).as_u64().unwrap_or_default()
}

#[test]
fn how_a_long_run_ended_is_in_sight_when_it_is_opened() {
    let site = site();
    for path in ["/runs/long", "/runs/long?step=299"] {
        let page = site.open(path);
        at(&page, 299);
        page.wait("(end => end.bottom <= innerHeight && end.top > 0)(document.querySelector('#endslot > *').getBoundingClientRect())");
        page.wait(
            "document.querySelector('#step-299 > a').getBoundingClientRect().bottom <= innerHeight",
        );
    }
}

#[test]
fn a_step_is_gone_to_by_its_number() {
    let site = site();
    let page = site.open("/runs/long?step=0");
    for (keys, step) in [([":", "4", "2"], 42), (["g", "2", "8"], 28)] {
        page.wait("document.readyState === 'complete'");
        for key in keys {
            page.press(key);
        }
        page.wait(&format!(
            "document.activeElement.name === 'step' && document.activeElement.value === '{step}'"
        ));
        page.press("Enter");
        at(&page, step);
    }
}

#[test]
fn a_press_on_the_strip_shows_the_step_below_it() {
    let site = site();
    let page = site.open("/runs/long?step=0");
    at(&page, 0);
    assert_eq!(marked(&page), 2, "half of one of 300 columns");
    page.click("#strip .strip-links"); // in its middle
    page.wait("['149', '150'].includes(document.querySelector('#stepview').dataset.n)");
    page.wait("location.search === `?step=${document.querySelector('#stepview').dataset.n}`");
    page.wait(&format!("[498, 502].includes({MARKED})"));
    // The highlights are also links with text, which the keyboard reaches.
    page.eval("document.querySelector('#strip .took a').focus()");
    page.press("Enter");
    at(&page, 112);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_strip_of_a_replay_is_as_wide_as_its_slider() {
    let site = site();
    let page = site.open("/runs/fix_bug/replay?step=0");
    page.wait(
        "document.readyState === 'complete' && window.htmx && document.querySelector('#pos')",
    );
    page.click("#strip .strip-links");
    page.wait(
        "document.querySelector('#replay').dataset.at === String(Math.round(document.querySelector('#pos').max / 2))",
    );
    let thumb = "(slider => { const r = slider.getBoundingClientRect(); return r.x + 8 + (r.width - 16) * slider.value / slider.max })
        (document.querySelector('#pos'))";
    let line =
        "(r => r.x + r.width / 2)(document.querySelector('#strip .here').getBoundingClientRect())";
    page.wait(&format!("Math.abs({thumb} - {line}) < 3"));
    page.click("#strip .code a");
    page.wait("location.search.startsWith('?step=1')");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn picked_steps_are_shown_in_place_and_keys_keep_to_them() {
    let site = site();
    let page = site.open("/runs/fix_bug?step=4");
    at(&page, 4);
    page.click("#pick [name=err]");
    page.wait("location.search.includes('err=1') && document.querySelectorAll('#steprows li').length === 2");
    page.click("#step-1 > a");
    at(&page, 1);
    page.press("j");
    at(&page, 5);
    page.eval("(select => { select.value = 'time'; select.dispatchEvent(new Event('change', {bubbles: true})) })(document.querySelector('#pick [name=sort]'))");
    page.wait("location.search.includes('sort=time') && location.search.includes('err=1')");
    page.eval("(box => box.focus())(document.querySelector('#pick [name=err]'))");
    page.press(" ");
    page.wait("!location.search.includes('err=1') && document.querySelectorAll('#steprows li').length === 11");
    page.wait("document.querySelector('#steprows li').id === 'step-4'"); // the longest
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_timeline_leads_to_its_steps() {
    let site = site();
    let page = site.open("/runs/fix_bug?tab=timeline&step=3");
    let focused = "document.activeElement.dataset.n";
    let panel = "document.querySelector('#tltip').innerText";
    let stops = "document.querySelectorAll('#lanes a[tabindex=\"0\"]').length";
    assert_eq!(page.eval(stops), 1);
    page.eval("document.querySelector('#lanes a[tabindex=\"0\"]').focus()");
    assert_eq!(page.eval(focused), "3", "the current step is the tab stop");
    let text = page.eval(panel);
    assert!(text.as_str().unwrap().contains("Took"), "{text}");
    page.press("End");
    page.press("ArrowLeft");
    page.press("Home");
    assert_eq!(page.eval(focused), "0");
    page.press("ArrowDown");
    let lane = "document.activeElement.dataset.lane";
    assert_eq!(page.eval(lane), "1", "the next lane");
    assert_eq!(page.eval(stops), 1);
    page.press("Escape");
    assert_eq!(page.eval("document.querySelector('#tltip').hidden"), true);
    let n = page.eval(focused).as_str().unwrap().to_owned();
    page.press("Enter");
    at(&page, n.parse().unwrap());
    page.goto(&site.url("/runs/fix_bug?tab=timeline"));
    page.click(".tl-all a");
    page.wait("document.querySelector('.tl-table tbody tr')");
    page.click(".tl-table tbody tr:nth-child(3) a");
    at(&page, 2);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_timeline_zooms_by_keys_wheel_and_brush() {
    let site = site();
    let page = site.open("/runs/fix_bug?tab=timeline");
    let width = "Number(lanes.dataset.right) - Number(lanes.dataset.left)";
    assert_eq!(page.eval(width), 1);
    page.eval("document.querySelector('#lanes a[tabindex=\"0\"]').focus()");
    page.press("+");
    page.wait("location.search.includes('from=') && Math.abs(Number(lanes.dataset.right) - Number(lanes.dataset.left) - 0.5) < 0.01");
    page.wait("document.activeElement.closest('#lanes a')");
    page.press("-");
    page.wait("!location.search.includes('from=') && lanes.dataset.right === '1.000000'");
    let drag = "(svg => { const { left, width, top } = svg.getBoundingClientRect(); const at = (type, share) => svg.dispatchEvent(new PointerEvent(type, { bubbles: true, button: 0, buttons: 1, clientX: left + share * width, clientY: top + 5 })); at('pointerdown', 0.25); at('pointermove', 0.5); at('pointerup', 0.75); })(document.querySelector('#lanes svg'))";
    page.eval(drag);
    page.wait("Math.abs(Number(lanes.dataset.left) - 0.25) < 0.01 && Math.abs(Number(lanes.dataset.right) - 0.75) < 0.01");
    page.press("0");
    page.wait("lanes.dataset.right === '1.000000'");
    let wheel = "(svg => { const { left, width, top } = svg.getBoundingClientRect(); svg.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, deltaY: -100, clientX: left + 0.5 * width, clientY: top + 5 })); })(document.querySelector('#lanes svg'))";
    page.eval(wheel);
    page.wait("Math.abs(Number(lanes.dataset.right) - 0.9) < 0.02");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn all_of_it_works_without_scripts() {
    let site = site();
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url("/runs/long?step=0"));
    page.click("#strip .strip-links a:nth-child(19)");
    page.wait("/[?&]step=15\\d/.test(location.search) && document.querySelector('#stepview')");
    page.goto(&site.url("/runs/fix_bug"));
    page.click("#pick [name=err]");
    page.click("#pick button");
    page.wait("location.search.includes('err=1') && document.querySelectorAll('#steprows li').length === 2");
    page.goto(&site.url("/runs/fix_bug?tab=timeline"));
    page.click("#timeline [data-key='+']");
    page.wait("location.search.includes('from=')");
    page.goto(&site.url("/runs/fix_bug?tab=timeline"));
    page.click("#timeline .slow tbody tr:first-child a");
    page.wait("document.querySelector('#stepview')");
    page.goto(&site.url("/runs/fix_bug/replay?step=0"));
    page.click("#strip .code a");
    page.wait("location.search.startsWith('?step=1')");
}

#[test]
fn the_share_form_asks_again_after_a_failure() {
    let site = site();
    let page = site.open("/runs/fix_bug?step=3");
    at(&page, 3);
    page.eval("(window.real = window.fetch, window.fetch = () => (window.failed = true, Promise.reject(new TypeError('no answer'))), 0)");
    page.click("#share > summary");
    page.wait("window.failed && !sheet.dataset.asked");
    page.eval("(window.fetch = window.real, 0)");
    page.click("#share > summary");
    page.wait("!document.querySelector('#share[open]')");
    page.click("#share > summary");
    page.wait("document.querySelector('#share[open] #sheet table')");
}

#[test]
fn share_says_what_will_be_redacted() {
    let site = site();
    let page = site.open("/runs/fix_bug?step=3");
    at(&page, 3);
    page.click("#share > summary");
    page.wait("document.querySelector('#share[open] #sheet table')");
    assert_eq!(page.eval("sheet.elements.step.value"), "3");
    assert_eq!(page.eval("sheet.elements.redact.value"), "1");
    let said = page.text("#sheet");
    assert!(said.contains("Redaction can miss secrets."), "{said}");
    page.eval("document.querySelector('#sheet input').focus()");
    page.press("Escape");
    assert_eq!(page.count("#share[open]"), 0);
    assert_eq!(page.complaints(), Vec::<String>::new());
}
