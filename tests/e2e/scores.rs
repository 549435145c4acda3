//! Tests that a score chart works by pointer and by keyboard, links to its steps, and grows.

use crate::page::Page;
use crate::site::Site;

/// Opens a page for a run's scores, over runs with several critics or many steps.
fn open(path: &str) -> (Site, Page) {
    let site = Site::with(&["q060/q060_critic_odd_outputs", "q060/q060_visual_desktop"]);
    let page = site.open(path);
    page.wait("document.readyState === 'complete'");
    (site, page)
}

const CHART: &str = "/runs/q060_visual_desktop/scores";

#[test]
fn the_pointer_and_the_arrows_name_the_score_and_enter_opens_its_step() {
    let (_site, page) = open(CHART);
    let readout = "document.querySelector('#lane-0 [data-readout]').textContent";
    page.hover("#lane-0 svg a:nth-of-type(2) circle");
    page.wait(&format!(
        "{readout} === document.querySelector('#lane-0 svg a:nth-of-type(2) title').textContent"
    ));
    assert_eq!(page.count("#lane-0 svg a[data-at]"), 1);
    page.hover("h1");
    page.wait(&format!("{readout} === ''"));
    // A single tab stop, then the arrow keys.
    page.eval("document.querySelector('#lane-0 [data-points]').focus()");
    page.press("ArrowRight");
    page.wait("document.activeElement === document.querySelector('#lane-0 svg a')");
    page.press("ArrowRight");
    page.wait("document.activeElement === document.querySelectorAll('#lane-0 svg a')[1]");
    page.press("ArrowLeft");
    page.press("End");
    page.wait("document.activeElement === [...document.querySelectorAll('#lane-0 svg a')].at(-1)");
    let said = page.eval(readout);
    let label = said.as_str().unwrap_or_default();
    assert!(
        label.starts_with("step ") && label.contains(" · GroundingCritic "),
        "{label}"
    );
    let target = page.eval("document.activeElement.href.baseVal");
    page.press("Enter");
    page.wait(&format!(
        "location.pathname + location.search === {target} && document.querySelector('#stepview h2')"
    ));
    let step = label
        .trim_start_matches("step ")
        .split(' ')
        .next()
        .unwrap_or_default();
    assert!(
        page.text("#stepview h2")
            .to_lowercase()
            .contains(&format!("step {step}")),
        "{}",
        page.text("#stepview h2")
    );
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_click_opens_the_step_of_the_nearest_point() {
    let (_site, page) = open(CHART);
    let target = page.eval("document.querySelector('#lane-0 svg a:nth-of-type(3)').href.baseVal");
    page.click("#lane-0 svg a:nth-of-type(3) circle");
    page.wait(&format!("location.pathname + location.search === {target}"));
    page.back();
    page.wait("location.pathname.endsWith('/scores') && document.readyState === 'complete'");
    page.click("#lane-0 svg.chart");
    page.wait("/step=\\d/.test(location.search)");
}

#[test]
fn a_threshold_becomes_a_stop_rule() {
    let (_site, page) = open(CHART);
    page.eval("document.querySelector('[name=threshold]').focus()");
    page.insert("0.75");
    page.press("Enter");
    page.wait(
        "location.search.includes('threshold=0.75') && document.querySelector('#lane-0 .below')",
    );
    page.click("#chartform .end a");
    page.wait(
        "location.pathname.endsWith('/whatif') && location.search === '?rule=critic_below%3DGroundingCritic%3A0.75'",
    );
    page.wait("document.querySelector('#lead')?.innerText.length > 10");
}

#[test]
fn dragging_shows_a_part_and_moves_a_threshold_and_opens_no_step() {
    let (_site, page) = open(CHART);
    let edge = |share: f64| {
        let place =
            "(s => { const r = document.querySelector('#lane-0 svg.chart').getBoundingClientRect();
            return [r.left + s * r.width, r.top + 50] })";
        let at = page.eval(&format!("{place}({share})"));
        (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
    };
    page.drag(edge(0.3), edge(0.7));
    page.wait("/from=\\d+&to=\\d+/.test(location.search) && document.readyState === 'complete'");
    assert!(page.location().contains("/scores?"), "{}", page.location());
    let hand = page.eval(
        "(r => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelector('#lane-0 .hand path').getBoundingClientRect())",
    );
    let (x, y) = (hand[0].as_f64().unwrap(), hand[1].as_f64().unwrap());
    page.drag((x, y), (x, y - 40.0));
    page.wait(
        "location.search.includes('threshold=0.5') && document.querySelector('#lane-0 .below')",
    );
    page.eval("document.querySelector('#lane-0 .hand').focus()");
    page.press("ArrowUp");
    page.wait("document.querySelector('[name=threshold]').value === '0.51'");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_new_score_appears_and_the_focus_stays() {
    let (site, mut writer, _page) = Site::live(3);
    let page = site.open("/runs/live/scores");
    page.wait("document.querySelectorAll('#lane-0 svg a').length === 3");
    page.eval("void (window.unreloaded = true)");
    page.eval("document.querySelectorAll('#lane-0 svg a')[1].focus()");
    writer.step("another");
    page.wait("document.querySelectorAll('#lane-0 svg a').length === 4");
    page.wait("document.querySelector('#numbers thead th:last-child').innerText === '3'");
    assert_eq!(
        page.eval("window.unreloaded ?? false"),
        true,
        "the page was reloaded"
    );
    assert_eq!(page.eval("document.activeElement.id"), "p0-1");
    let said = page.eval("document.querySelector('#lane-0 [data-readout]').textContent");
    assert_eq!(said, "step 1 · ProgressCritic 0.75");
    writer.finish("final");
    page.wait("/inactive/i.test(document.querySelector('[data-live-word]').innerText)");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn runs_are_chosen_and_lie_over_each_other() {
    let (_site, page) = open("/scores");
    page.eval("document.querySelectorAll('.choose input').forEach(box => box.click())");
    page.click("#choose .btn.main");
    page.wait(
        "location.search.includes('run=q060_visual_desktop') && document.querySelectorAll('svg .strong').length === 2",
    );
    page.hover(".overlay svg a circle");
    page.wait("document.querySelector('.overlay [data-readout]').textContent.includes('· step ')");
    page.press("g");
    page.press("r");
    page.wait("location.pathname === '/' && document.readyState === 'complete'");
    page.press("g");
    page.press("s");
    page.wait("location.pathname === '/scores'");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn without_scripts_every_point_is_still_a_link_with_its_numbers() {
    let site = Site::with(&["q060/q060_visual_desktop"]);
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url(CHART));
    assert_eq!(
        page.count("#lane-0 svg a title"),
        page.count("#lane-0 svg a")
    );
    assert_eq!(page.count("#lane-0 [data-readout]"), 1);
    page.click("#lane-0 svg a circle");
    page.wait("location.search === '?step=0'");
}
