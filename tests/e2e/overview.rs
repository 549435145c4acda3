//! Tests of the overview in a browser: charts of hostile runs, links, and live totals.

use serde_json::json;

use crate::hostile::{GLOBAL, Manner, write};
use crate::page::Page;
use crate::site::Site;
use crate::wait::until;

/// A board over enough hostile runs for charts.
fn hostile() -> Site {
    let site = Site::with(&[]);
    for n in 0..24 {
        let (run, manner) = match n % 3 {
            0 => ("q060/q060_handoff", Manner::Beside),
            1 => ("q060/q060_critic_odd_outputs", Manner::Beside),
            _ => ("q060/q060_html_injection", Manner::Beside),
        };
        // Runs with the same records would be duplicates, so each lacks another last line.
        let dir = site.path(&format!("{n:02}<img src=x onerror=window.pwned=1>"));
        write(&crate::disk::corpus().join(run), &dir, manner);
        let manifest = std::fs::read_to_string(dir.join("manifest.json")).unwrap_or_default();
        let manifest = manifest.replacen('{', &format!("{{\"own_number\": {n}, "), 1);
        std::fs::write(dir.join("manifest.json"), manifest).expect("a manifest can be written");
        let events = std::fs::read_to_string(dir.join("events.jsonl")).unwrap_or_default();
        let id = format!("\"run_id\":\"r{n}-");
        let events = events
            .replace("\"run_id\": \"", &id)
            .replace("\"run_id\":\"", &id);
        std::fs::write(dir.join("events.jsonl"), events).expect("events can be written");
    }
    until("the runs are known", || {
        (site.board.json("/healthz")["indexing"] == 0
            && site.board.json("/api/runs")["total"].as_u64() >= Some(3))
        .then_some(())
    });
    site
}

#[test]
fn hostile_text_stays_text_in_charts_and_tables() {
    let site = hostile();
    let page = Page::open();
    for path in [
        "/overview?period=all",
        "/overview?period=all&q=%3Cscript%3E",
    ] {
        page.goto(&site.url(path));
        page.wait("document.readyState === 'complete'");
        page.eval("document.querySelectorAll('details').forEach(d => { d.open = true; })");
        assert_eq!(
            page.eval(&format!("typeof window.{GLOBAL}")),
            json!("undefined"),
            "{path}"
        );
        assert_eq!(page.unseen(), json!([]), "{path}");
        assert_eq!(page.complaints(), Vec::<String>::new(), "{path}");
        assert_eq!(
            page.eval("document.querySelectorAll('main script, main img, main iframe').length"),
            0,
            "{path}"
        );
        // Marks aren't tab stops; the tables have their links.
        assert_eq!(
            page.eval("document.querySelectorAll('main svg a:not([tabindex=\"-1\"])').length"),
            0,
            "{path}"
        );
    }
}
