//! Counts the clicks and keys that common jobs take, from the page on which a person begins. Typed
//! words don't count.

use std::path::Path;

use serde_json::Value;

use crate::disk::copy;
use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

/// A session in which a test fails at first, and one with three prompts.
const FIX: &str = "/runs/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a01.jsonl";
const PROMPTS: &str = "/runs/73552791-8b74-47b9-8576-f6b911452161.jsonl";

/// A person's hand on a page.
struct Hand {
    page: Page,
    used: usize,
}

impl Hand {
    /// Opens a page and waits until its scripts work.
    fn on(site: &Site, path: &str) -> Self {
        let page = site.open(path);
        page.wait("document.readyState === 'complete' && window.htmx");
        Self { page, used: 0 }
    }

    fn click(&mut self, selector: &str) {
        self.used += 1;
        self.page.click(selector);
    }

    fn press(&mut self, key: &str) {
        self.used += 1;
        self.page.press(key);
    }

    /// Checks the number of clicks and keys, and that the browser reported nothing.
    fn took(self, most: usize) {
        assert!(self.used <= most, "{} clicks and keys", self.used);
        assert_eq!(self.page.complaints(), Vec::<String>::new());
    }
}

fn site() -> Site {
    let site = Site::with(&["q060/q060_minimal", "q060/q060_handoff"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy(
        &root.join("sample_runs/tools/claude-code/-home-me-ledger"),
        &site.path(""),
    );
    copy(&root.join("tests/cases/12-cc-rewind"), &site.path(""));
    until("the sessions are known", || {
        let is_there = |path: &str| {
            let key = path.trim_start_matches("/runs/");
            let answer = site.board.get(&format!("/api/runs/{key}"));
            answer.status == 200
                && site.board.json(&format!("/api/runs/{key}"))["steps"].as_u64() > Some(0)
        };
        (is_there(FIX) && is_there(PROMPTS)).then_some(())
    });
    site
}

#[test]
fn common_jobs_take_few_clicks_and_keys() {
    let site = site();

    // Find the session about a subject, and open it.
    let mut hand = Hand::on(&site, "/");
    hand.click("[data-jump]");
    hand.page.wait("document.activeElement.role === 'combobox'");
    hand.page.insert("loses a cent");
    hand.page.wait(
        "document.querySelector('.jump [aria-selected=true]')?.innerText.includes('loses a cent')",
    );
    hand.press("Enter");
    hand.page.wait(&format!("location.pathname === '{FIX}'"));
    hand.took(2);

    // Read the third prompt, and what came of it.
    let mut hand = Hand::on(&site, PROMPTS);
    hand.click("#outline li:nth-child(3) a");
    hand.page
        .wait("document.querySelector('#outline li:nth-child(3) a[aria-current]')");
    let turn = hand.page.text("#t3");
    assert!(
        turn.contains("Take B") && turn.contains("B works"),
        "{turn}"
    );
    hand.took(2);

    // See the net change of a file.
    let mut hand = Hand::on(&site, FIX);
    hand.click(".tabs a[href*='tab=files']");
    hand.page.wait("document.querySelector('.fv .net ins')");
    let change = hand.page.text(".fv");
    assert!(change.contains("split.py"), "{change}");
    hand.took(2);

    // See the first real error. It's on the page.
    let hand = Hand::on(&site, FIX);
    let error = "AssertionError: 99 != 100";
    hand.page.wait(&format!(
        "[...document.querySelectorAll('#verdict-line, #transcript, #steps')].some(part => part.innerText.includes('{error}'))"
    ));
    hand.took(0);

    // Share it redacted.
    let mut hand = Hand::on(&site, FIX);
    hand.page.eval("document.addEventListener('submit', event => { event.preventDefault(); window.sent = String(new URLSearchParams(new FormData(event.target))) })");
    hand.click("#share > summary");
    hand.page
        .wait("document.querySelector('#share[open] #sheet table')");
    hand.click("#sheet button[type=submit]");
    hand.page.wait("window.sent");
    let sent: Value = hand.page.eval("window.sent");
    let file = site
        .board
        .get(&format!("{FIX}/export?{}", sent.as_str().expect("a query")));
    let text = String::from_utf8_lossy(&file.body);
    assert!(file.status == 200 && text.contains(error), "{sent}");
    assert!(!text.contains("/home/me"), "home directories are redacted");
    hand.took(3);
}
