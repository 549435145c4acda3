//! Tests stepping through a run event by event: by keys, by playing, while it grows, and back
//! again.

use crate::page::Page;
use crate::site::Site;
use crate::soak::times;
use crate::wait::until;
use crate::writer::Writer;

const RUNS: &[&str] = &["q060/q060_handoff", "q060/q060_recovered_errors"];

/// Opens a replay and waits until its keys work.
fn goto(site: &Site, page: &Page, path: &str) {
    page.goto(&site.url(path));
    page.wait(
        "document.readyState === 'complete' && window.htmx && document.querySelector('#pos')",
    );
    // A page load would remove this mark.
    page.eval("void (window.here = true)");
}

fn open(path: &str) -> (Site, Page) {
    let (site, page) = (Site::with(RUNS), Page::open());
    goto(&site, &page, path);
    (site, page)
}

/// Waits until the page and its address are at a step and an event.
fn at(page: &Page, step: &str, event: u32) {
    page.wait(&format!(
        "location.search.startsWith('?step={step}&event={event}')"
    ));
    page.wait(
        "document.querySelector('#replay').dataset.url === location.pathname + location.search",
    );
}

/// Waits until the page is at a position in the whole run.
fn position(page: &Page, at: &str) {
    page.wait(&format!("(box => String({at}) === box.at && box.url === location.pathname + location.search)(document.querySelector('#replay').dataset)"));
}

/// Returns everything that a reader sees at a position: texts, marks, and the selection.
fn picture(page: &Page) -> String {
    let script =
        "document.querySelector('#replay').outerHTML.replace(/ data-htmx-powered=\"[^\"]*\"/g, '')
        + document.querySelector('#pos').value + document.title";
    page.eval(script).as_str().unwrap_or_default().to_owned()
}

/// Presses a key `count` times, as fast as a script can.
fn burst(page: &Page, key: char, count: usize) {
    page.eval(&format!(
        "for (let i = 0; i < {count}; i++)
            document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true, cancelable: true}}))"
    ));
}

#[test]
fn every_key_does_what_it_says() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=1&event=1&break=tool:run_python");
    for (key, step, event) in [
        ("n", "1", 2),
        ("p", "1", 1),
        ("p", "0", 10),
        ("j", "1", 1),
        ("j", "2", 1),
        ("k", "1", 1),
        ("b", "3", 6),
    ] {
        page.press(key);
        at(&page, step, event);
    }
    assert_eq!(page.text(".pane.mid .end"), "at breakpoint tool:run_python");
    page.press("G");
    position(&page, "box.last");
    page.press("B");
    at(&page, "3", 6);
    page.press("g");
    page.press("g");
    at(&page, "start", 1);
    page.press(".");
    page.wait("location.search.includes('speed=2')");
    page.press(",");
    page.wait("!location.search.includes('speed')");
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_next_mark_and_the_changes_of_a_key_are_a_key_away() {
    let (_site, page) = open("/runs/q060_recovered_errors/replay?step=0");
    page.press("e");
    at(&page, "1", 1);
    page.click("#state .tree a.k[href*='key=tool_calls']");
    page.wait("document.querySelector('#state-key')?.innerText === 'tool_calls'");
    at(&page, "1", 1);
    let moved = |key: &str, from: &str| {
        page.press(key);
        page.wait(&format!("location.pathname + location.search !== '{from}'"));
        page.wait(
            "document.querySelector('#replay').dataset.url === location.pathname + location.search",
        );
        page.location()
    };
    let next = moved("]", &page.location());
    assert!(
        page.text(".pane:first-child header").contains("after step"),
        "the change has been made there"
    );
    moved("]", &next);
    let after = page.location();
    assert_eq!(moved("[", &after), next, "and back");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn many_on_and_as_many_back_is_the_same_picture() {
    let site = Site::with(&[]);
    let mut writer = Writer::start(&site.path("run"));
    // A step has about eight events.
    let (steps, many, few) = (times(40, 140), times(200, 1000), times(8, 40) as u64);
    (0..steps).for_each(|n| writer.step(&format!("result {n}")));
    writer.finish("final");
    until("all of it is known", || {
        (site.board.json("/api/runs")["runs"][0]["liveness"] == "finished").then_some(())
    });
    let page = Page::open();
    goto(
        &site,
        &page,
        "/runs/run/replay?step=2&event=3&key=count&break=err:true",
    );
    // A swap leaves the page as a load would, except for htmx's marks on its elements.
    page.press("n");
    at(&page, "2", 4);
    page.press("p");
    at(&page, "2", 3);
    let before = picture(&page);
    let start = page
        .eval("Number(document.querySelector('#replay').dataset.at)")
        .as_u64()
        .unwrap();
    burst(&page, 'n', many);
    position(&page, &(start + many as u64).to_string());
    burst(&page, 'p', many);
    position(&page, &start.to_string());
    assert_eq!(picture(&page), before);
    // Each position is drawn before the next key.
    for on in 1..=few {
        page.press("n");
        position(&page, &(start + on).to_string());
    }
    for back in (0..few).rev() {
        page.press("p");
        position(&page, &(start + back).to_string());
    }
    assert_eq!(picture(&page), before);
    burst(&page, 'j', many);
    position(&page, "box.last");
    burst(&page, 'k', many);
    position(&page, "0");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn playing_stops_at_a_breakpoint_and_says_so_and_then_goes_on_to_the_end() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=start&speed=5&break=tool:run_python");
    page.press(" ");
    page.wait("document.querySelector('[data-play]').ariaPressed === 'true'");
    at(&page, "3", 6);
    page.wait("document.querySelector('[data-play]').ariaPressed === 'false'");
    assert_eq!(
        page.text(".pane.mid .end[role=status]"),
        "at breakpoint tool:run_python"
    );
    page.press(" ");
    position(&page, "box.last");
    page.wait("document.querySelector('[data-play]').ariaPressed === 'false'");
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
}

#[test]
fn space_opens_what_the_keyboard_is_on_and_plays_otherwise() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=1&event=1");
    let menu = "document.querySelector('details.menu')";
    let plays = "document.querySelector('[data-play]').ariaPressed === 'true'";
    page.press("n");
    at(&page, "1", 2);
    page.eval(&format!("{menu}.querySelector('summary').focus()"));
    page.press(" ");
    page.wait(&format!("{menu}.open"));
    assert_eq!(page.eval(plays), false, "the key clicked the summary");
    page.press(" ");
    page.wait(&format!("!{menu}.open"));
    assert_eq!(page.eval(plays), false);
    // Elsewhere, the key plays.
    page.eval("document.activeElement.blur()");
    page.press(" ");
    page.wait(plays);
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn playing_pauses_and_the_clocks_are_kept_in_the_address() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=0&speed=0.5");
    page.click("[data-play]");
    page.wait("Number(document.querySelector('#replay').dataset.at) > 3");
    page.click("[data-play]");
    page.wait("document.querySelector('[data-play]').ariaPressed === 'false'");
    let paused = page.location();
    page.click(".transport .seg a[href*='clock=time']");
    page.wait("location.search.includes('clock=time')");
    assert_eq!(
        page.location(),
        format!("{paused}&clock=time"),
        "it stays at the paused position"
    );
    page.reload();
    page.wait(
        "document.readyState === 'complete' && !window.here && document.querySelector('#pos')",
    );
    assert_eq!(page.location(), format!("{paused}&clock=time"));
    assert_eq!(page.text(".transport .seg [aria-current='true']"), "0.5×");
}

#[test]
fn back_leads_to_where_one_jumped_from() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=1&event=2");
    page.press("n");
    at(&page, "1", 3);
    page.press("G");
    position(&page, "box.last");
    page.back();
    at(&page, "1", 3);
    page.wait("document.querySelector('.pos').innerText === 'step 1 · event 16 of 64'");
}

#[test]
fn the_slider_and_the_picture_are_ways_to_any_place_and_keep_the_focus() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=start");
    page.eval("document.querySelector('#pos').focus()");
    page.eval("(slider => { slider.value = 12; slider.dispatchEvent(new Event('input', {bubbles: true})) })(document.querySelector('#pos'))");
    at(&page, "0", 10);
    assert_eq!(page.eval("document.activeElement.id"), "pos");
    assert_eq!(
        page.eval("document.activeElement.ariaValueText ?? document.activeElement.getAttribute('aria-valuetext')"),
        "step 0, event 10 of 10 in this step"
    );
    page.press("n");
    at(&page, "1", 1);
    page.click("[data-seek]");
    page.wait("Math.abs(document.querySelector('#replay').dataset.at - document.querySelector('#replay').dataset.last / 2) <= 1");
    page.eval("document.querySelector('[data-key=j]').focus()");
    page.press("Enter");
    page.wait("document.activeElement.dataset.key === 'j'");
}

#[test]
fn breakpoints_are_chosen_on_the_page() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=start");
    page.click("#stops input[value='tool:run_python'], #stops input[type=checkbox]");
    page.wait("location.search.includes('break=') && document.querySelector('.opts header .end').innerText === '1 active'");
    page.eval("document.querySelector('#newstop').focus()");
    page.insert("tool:replace_text");
    page.press("Enter");
    page.wait("document.querySelector('.opts header .end').innerText === '2 active'");
    // The field is empty, and keys control the replay again.
    assert_eq!(
        page.eval(
            "[document.activeElement.tagName, document.querySelector('#newstop').value].join()"
        ),
        "BODY,"
    );
    let chosen = "[...document.querySelectorAll('#stops :checked')].map(stop => stop.value).length";
    assert_eq!(page.eval(chosen), 2);
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
}

#[test]
fn a_live_run_is_followed_from_its_end_and_from_nowhere_else() {
    let (site, mut writer, page) = Site::live(2);
    goto(&site, &page, "/runs/live/replay");
    at(&page, "1", 8);
    writer.begin_step();
    at(&page, "2", 4);
    writer.end_step("done");
    at(&page, "2", 8);
    page.press("k");
    at(&page, "1", 1);
    let last = page
        .eval("document.querySelector('#pos').max")
        .as_str()
        .unwrap()
        .to_owned();
    writer.step("unseen");
    // All eight events of the step: those that came after the press of G wouldn't be followed.
    page.wait(&format!(
        "Number(document.querySelector('#pos').max) === {last} + 8"
    ));
    assert!(
        page.location().contains("step=1&event=1"),
        "{}",
        page.location()
    );
    // At the end, playing waits for new events.
    page.press("G");
    position(&page, "box.last");
    page.press(" ");
    page.wait("document.querySelector('[data-play]').ariaPressed === 'true'");
    writer.step("played");
    at(&page, "4", 8);
    writer.finish("final");
    page.wait("document.querySelector('[data-play]').ariaPressed === 'false'");
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_run_page_leads_to_the_replay_of_the_step_that_is_read() {
    let (_site, page) = {
        let site = Site::with(RUNS);
        let page = site.open("/runs/q060_handoff?step=2");
        (site, page)
    };
    page.wait("document.readyState === 'complete' && window.htmx");
    page.press("j");
    page.wait("/step 3\\b/i.test(document.querySelector('#stepview h2')?.innerText)");
    page.press("r");
    page.wait("location.pathname === '/runs/q060_handoff/replay' && location.search === '?step=3'");
    page.wait("document.querySelector('.pos')?.innerText.startsWith('step 3 ')");
}

#[test]
fn without_scripts_links_walk_and_the_form_sets_breakpoints() {
    let (site, page) = (Site::with(RUNS), Page::open());
    page.without_scripts();
    page.goto(&site.url("/runs/q060_handoff/replay?step=0"));
    page.click(".transport [data-key=j]");
    page.wait("location.search === '?step=1&event=1' && document.readyState === 'complete'");
    assert_eq!(
        page.eval("document.querySelector('.mid h2').innerText"),
        "Step 1"
    );
    page.click(".transport [data-key=n]");
    page.wait("location.search === '?step=1&event=2' && document.readyState === 'complete'");
    assert_eq!(
        page.eval("getComputedStyle(document.querySelector('[data-play]')).display"),
        "none"
    );
    page.click("#stops button");
    page.wait("document.querySelector('.pos')?.innerText === 'step 1 · event 15 of 64'");
}

#[test]
fn the_space_bar_plays_from_a_check_box_and_enter_changes_it() {
    let (_site, page) = open("/runs/q060_handoff/replay?step=start");
    page.eval("document.querySelector('#stops input[type=checkbox]').focus()");
    page.press(" ");
    page.wait("document.querySelector('[data-play]').getAttribute('aria-pressed') === 'true'");
    assert_eq!(page.count("#stops :checked"), 0);
    page.press(" ");
    page.wait("document.querySelector('[data-play]').getAttribute('aria-pressed') === 'false'");
    page.eval("document.querySelector('#stops input[type=checkbox]').focus()");
    page.press("Enter");
    page.wait("document.querySelectorAll('#stops :checked').length === 1");
}
