use std::sync::Arc;

use tokio::sync::watch;

use crate::live::Library;
use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::serve::*;

/// The status, the content type and the body.
async fn ask(root: &Path, path: &str) -> (StatusCode, String, String) {
    let library = Library::load(vec![root.to_owned()]);
    let (_stop, stopping) = watch::channel(false);
    let router = router(AppState::new(Arc::new(library), "localhost", stopping), None);
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, kind, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn every_error_below_api_is_a_problem_document() {
    let root = tempfile::tempdir().unwrap();
    for path in ["/api", "/api/", "/api/x", "/api//runs", "/api/runs/", "/api/runs/%FF", "/api/runs/..%2F..%2Fetc"] {
        let (status, kind, _) = ask(root.path(), path).await;
        assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "application/problem+json"), "{path}");
    }
    for path in ["/apix", "/runs/..%2F..%2Fetc", "/runs/%FF", "/static/0/../etc"] {
        let (status, kind, _) = ask(root.path(), path).await;
        assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "text/html; charset=utf-8"), "{path}");
    }
}

#[tokio::test]
async fn a_line_that_is_not_parsed_costs_no_page() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("a")).unwrap();
    let line = format!("{{\"step_id\": 0, \"x\": \"{}\"}}\n", "y".repeat(9 << 20));
    std::fs::write(root.path().join("a/steps.jsonl"), line).unwrap();
    for path in ["/runs/a", "/runs/a/steps/0", "/runs/a/steps/0/value?at=%2Fx"] {
        let (_, _, body) = ask(root.path(), path).await;
        assert!(body.len() < 100_000 && body.contains("more"), "{path}");
        assert!(body.contains("/runs/a/steps/0/raw"), "{path}");
    }
}
