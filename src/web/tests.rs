use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;

use super::*;

async fn ask(path: &str) -> (StatusCode, String) {
    let root = tempfile::tempdir().unwrap();
    let library = Library::load(vec![root.path().to_owned()]);
    let (_stop, stopping) = watch::channel(false);
    let router = router(AppState::new(Arc::new(library), "localhost", stopping));
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    (response.status(), kind)
}

#[tokio::test]
async fn every_error_below_api_is_a_problem_document() {
    for path in ["/api", "/api/", "/api/x", "/api//runs", "/api/runs/", "/api/runs/%FF", "/api/runs/..%2F..%2Fetc"] {
        let (status, kind) = ask(path).await;
        assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "application/problem+json"), "{path}");
    }
    for path in ["/apix", "/runs/..%2F..%2Fetc", "/runs/%FF", "/static/0/../etc"] {
        let (status, kind) = ask(path).await;
        assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "text/html; charset=utf-8"), "{path}");
    }
}
