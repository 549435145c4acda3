//! Tests the driver itself, on a page that needs no board.

use crate::page::Page;

const PAGE: &str = "data:text/html,<title>one</title><button onclick=\"document.title='pressed'\">Press</button>\
    <input id=field><script>addEventListener('keydown', e => document.body.dataset.key = e.key)</script>";

#[test]
fn a_page_is_clicked_typed_into_and_read() {
    let page = Page::open();
    page.goto(PAGE);
    assert_eq!(page.text("button"), "Press");
    page.click("button");
    page.wait("document.title === 'pressed'");
    page.press("j");
    page.wait("document.body.dataset.key === 'j'");
    page.click("#field");
    page.insert("words");
    assert_eq!(page.eval("document.querySelector('#field').value"), "words");
    assert_eq!(page.count("button"), 1);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn what_goes_wrong_on_a_page_is_heard() {
    let page = Page::open();
    page.goto("data:text/html,<script>console.error('spilt milk')</script>");
    assert!(
        page.complaints()
            .iter()
            .any(|text| text.contains("spilt milk"))
    );
}

#[test]
fn a_character_that_nobody_sees_is_found() {
    let page = Page::open();
    page.goto("data:text/html;charset=utf-8,<title>one</title><p>plain &mdash; \u{65e5}</p>");
    assert_eq!(page.unseen(), serde_json::json!([]));
    page.goto("data:text/html;charset=utf-8,<p title='a%E2%80%AEb'>c%E2%80%8Bd</p>");
    assert_eq!(
        page.unseen(),
        serde_json::json!(["\"c\u{200b}d\"", "\"a\u{202e}b\""])
    );
}

#[test]
fn scripts_can_be_off() {
    let page = Page::open();
    page.without_scripts();
    page.goto("data:text/html,<p>plain</p><script>document.querySelector('p').textContent = 'changed'</script>");
    assert_eq!(page.text("p"), "plain");
}
