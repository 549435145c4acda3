//! Tests that the numbers of failures lead to the runs that they count.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::board::Board;

/// Writes a run with one failed call that began at this time.
fn write(root: &Path, name: &str, error: &str, at: &str) {
    let dir = root.join(name);
    fs::create_dir_all(&dir).unwrap();
    let manifest =
        json!({"run_id": name, "status": "completed", "started_at": at, "updated_at": at});
    fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    let step = json!({
        "step_id": 0, "decision": {"mode": "act"}, "actions": [{"name": "look", "args": {}}],
        "action_results": [{"status": "error", "error": error}],
    });
    fs::write(dir.join("steps.jsonl"), step.to_string() + "\n").unwrap();
    let event =
        json!({"ts": at, "run_id": name, "step_id": 0, "phase": "ACT", "ok": true, "payload": {}});
    fs::write(dir.join("events.jsonl"), event.to_string() + "\n").unwrap();
}

#[test]
fn each_bar_of_a_failure_leads_to_as_many_runs_as_it_says() {
    let root = tempfile::tempdir().unwrap();
    for (n, (error, at)) in [
        ("no such file", "2026-11-02T10:00:00Z"),
        ("no such file", "2026-11-02T11:00:00Z"),
        ("no such file", "2026-11-09T11:00:00Z"),
        ("denied", "2026-11-02T11:00:00Z"),
        // With more than 30 days, a bar stands for several.
        ("denied", "2026-09-10T11:00:00Z"),
    ]
    .into_iter()
    .enumerate()
    {
        write(root.path(), &format!("run-{n}"), error, at);
    }
    let served = Board::serve(root.path());
    served.until_read();
    let mut all = 0;
    for query in ["", "started%3A2026-11-01.."] {
        let page = served.get(&format!("/failures?q={query}"));
        let text = page.text();
        let bars = text.split("<a href=\"").filter_map(|rest| {
            let (href, rest) = rest.split_once("\" tabindex=\"-1\"><title>")?;
            let (title, _) = rest.split_once("</title>")?;
            Some((href.to_owned(), title.to_owned()))
        });
        for (href, title) in bars {
            let query = href.split_once("q=").unwrap().1;
            let (_, runs) = title.rsplit_once(": ").unwrap();
            let runs: u64 = runs.split(' ').next().unwrap().parse().unwrap();
            let matched = &served.json(&format!("/api/runs?q={query}"))["matched"];
            assert_eq!(*matched, runs, "{title}: {href}");
            all += runs;
        }
    }
    assert_eq!(all, 5 + 4);
}
