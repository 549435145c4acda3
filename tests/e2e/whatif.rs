//! Tests that a result appears as soon as a rule is typed, and that the reader's position is kept.

use crate::page::Page;
use crate::site::Site;

/// A page for one of our own runs with critics, with no rule entered yet.
fn open() -> (Site, Page) {
    let site = Site::with_ours(&[]);
    let page = site.open("/runs/final/whatif?rule=");
    page.wait("document.querySelector('#rules[data-htmx-powered]')");
    // A page load would remove this mark.
    page.eval("window.here = true");
    (site, page)
}

#[test]
fn typing_a_number_changes_the_answer_and_the_address_without_a_load() {
    let (site, page) = open();
    assert!(
        page.text("#lead")
            .starts_with("No rules were added to the run's own.")
    );
    page.eval("document.querySelector('[name=max_steps]').focus()");
    page.insert("1");
    page.wait("location.search === '?rule=max_steps%3D1'");
    page.wait("document.querySelector('#answer tr.hit')?.innerText.includes('Step limit')");
    assert!(
        page.text("#lead")
            .starts_with("This rule would have stopped the run at step 0"),
        "{}",
        page.text("#lead")
    );
    assert_eq!(
        page.eval("document.activeElement.name"),
        "max_steps",
        "the focus stays in the field"
    );
    page.insert("x");
    page.wait("document.querySelector('#rules [role=alert]')?.innerText.includes('max_steps=8')");
    assert_eq!(
        page.eval("document.activeElement.value"),
        "1x",
        "the typed text stays"
    );
    assert_eq!(
        page.eval("document.activeElement.getAttribute('aria-invalid')"),
        "true"
    );
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
    page.goto(&site.url(&page.location()));
    assert_eq!(
        page.eval("document.querySelector('[name=max_steps]').value"),
        "1x",
        "the address matches the form"
    );
    page.back();
    page.wait("location.search === '?rule=max_steps%3D1' && document.querySelector('[name=max_steps]').value === '1'");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn the_keyboard_alone_asks_and_reads() {
    let (_site, page) = open();
    let at = |name: &str| page.wait(&format!("document.activeElement?.name === '{name}'"));
    page.eval(
        "document.querySelector('#rules').closest('main').querySelector('#tabs input').focus()",
    );
    page.press("Tab");
    at("max_steps");
    page.press("Tab");
    at("max_rounds");
    page.insert("1");
    page.press("Enter");
    page.wait(
        "location.search === '?rule=max_rounds%3D1' && document.querySelector('#answer tr.hit')",
    );
    at("max_rounds");
    // In a field, keys type letters, and the space bar toggles a checkbox.
    page.eval("document.querySelector('[name=final_result]').focus()");
    page.press(" ");
    page.wait("location.search.includes('rule=final_result')");
    at("final_result");
    assert_eq!(page.eval("document.activeElement.checked"), true);
    assert_eq!(page.eval("window.here"), true, "the page wasn't reloaded");
    page.eval("document.querySelector('#answer tr.hit a').focus()");
    page.press("Enter");
    page.wait("location.pathname === '/runs/final' && location.search.startsWith('?step=')");
}

#[test]
fn without_scripts_the_button_asks() {
    let site = Site::with_ours(&[]);
    let page = Page::open();
    page.without_scripts();
    page.goto(&site.url("/runs/final/whatif?rule="));
    page.click("#rules [name=max_steps]");
    page.insert("1");
    page.click("#rules button[type=submit]");
    page.wait(
        "location.search === '?rule=max_steps%3D1' && document.querySelector('#answer tr.hit')",
    );
}

#[test]
fn a_run_that_goes_on_is_answered_anew() {
    let (site, mut writer, page) = Site::live(2);
    page.goto(&site.url("/runs/live/whatif?rule=max_steps%3D3"));
    assert!(
        page.text("#lead").contains("so far"),
        "{}",
        page.text("#lead")
    );
    page.wait("document.querySelector('[data-live]')?.dataset.live === 'live'");
    page.eval("window.here = true");
    page.eval("document.querySelector('[name=max_rounds]').focus()");
    writer.step("result 2");
    page.wait("document.querySelector('#answer tr.hit')?.innerText.includes('step 2')");
    assert_eq!(
        page.eval("document.activeElement.name"),
        "max_rounds",
        "the form keeps the reader's input"
    );
    assert_eq!(page.eval("window.here"), true);
    assert_eq!(page.complaints(), Vec::<String>::new());
}
