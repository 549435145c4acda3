//! Tests every API response against `/api/openapi.json`.

use std::path::Path;

use serde_json::{Value, json};

use crate::board::Board;
use crate::client::segment;

/// Checks the responses at a path against its schema.
struct Shape(jsonschema::Validator);

impl Shape {
    fn of(document: &Value, path: &str, status: &str) -> Self {
        let content = &document["paths"][path]["get"]["responses"][status]["content"];
        let (_, shape) = content
            .as_object()
            .and_then(|kinds| kinds.iter().next())
            .unwrap_or_else(|| panic!("{path}"));
        let mut schema = shape["schema"].clone();
        schema["components"] = document["components"].clone();
        Self(jsonschema::validator_for(&schema).unwrap())
    }

    fn holds(&self, address: &str, body: &str) {
        let value: Value =
            serde_json::from_str(body).unwrap_or_else(|error| panic!("{address}: {error}"));
        let wrong: Vec<_> = self
            .0
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(
            wrong.is_empty(),
            "{address}: {:?}",
            wrong.iter().take(5).collect::<Vec<_>>()
        );
    }
}

#[test]
fn every_answer_has_the_shape_that_is_described() {
    let board = Board::serve(Path::new("sample_runs"));
    let text = board.get("/api/openapi.json");
    let document: Value = serde_json::from_str(text.text()).unwrap();
    assert_eq!(document["openapi"], json!("3.1.0"));
    board.until_read();
    let list = board.json("/api/runs?limit=1000");
    let keys: Vec<_> = list["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["key"].as_str().unwrap())
        .collect();
    assert!(keys.len() > 40, "{}", keys.len());
    let of_run = [
        "",
        "/steps",
        "/steps/{n}",
        "/scores",
        "/state/{n}",
        "/state/{n}/history",
        "/why",
        "/files",
        "/whatif",
        "/raw",
    ];
    for path in of_run.map(|rest| format!("/api/runs/{{key}}{rest}")) {
        let shape = Shape::of(&document, &path, "200");
        for key in &keys {
            let query = match path.rsplit('/').next() {
                Some("whatif") => "?rule=max_steps%3D2&rule=loop_detection%3D3",
                Some("history") => "?key=current_step",
                _ => "",
            };
            let address = path.replace("{key}", &segment(key)).replace("{n}", "0") + query;
            let answer = board.get(&address);
            // A run without steps has no step 0.
            if answer.status == 200 || !path.contains("{n}") {
                shape.holds(&address, answer.text());
            }
        }
    }
    let pair = format!("/api/compare?a={}&b={}", segment(keys[0]), segment(keys[1]));
    for address in [
        "/api/runs",
        "/api/runs?group=project",
        "/api/runs?group=week",
        "/api/overview",
        "/api/overview?since=2026-01-01&until=2026-12-31",
        "/api/runs?q=nonsense%3A1",
        "/api/whatif",
        "/api/whatif?sweep=max_steps&values=1..4",
        "/api/failures",
        "/api/failures?q=model%3Aqwen&limit=1",
        "/api/search?q=the",
        "/api/search",
        "/api/jump?q=why",
        "/api/edits?q=calc&limit=3",
        "/api/complete?q=model%3A",
        "/api/experiments?a=status%3Aanswered&b=-status%3Aanswered",
        "/api/experiments?a=none&b=none",
        "/healthz",
        "/api/openapi.json",
        &pair,
    ] {
        let (path, _) = address.split_once('?').unwrap_or((address, ""));
        Shape::of(&document, path, "200").holds(address, board.get(address).text());
    }
    let problem = Shape::of(&document, "/api/runs", "default");
    for address in [
        "/api/runs?limit=no",
        "/api/runs/none",
        "/api/compare",
        "/api/nothing",
        "/api/whatif?rule=x",
        "/api/experiments?a=x",
    ] {
        let answer = board.get(address);
        assert!(
            (400..500).contains(&answer.status),
            "{address}: {}",
            answer.status
        );
        problem.holds(address, answer.text());
    }
}
