//! How much may answers hold that wait for their readers? So many are held at a time, and so many bytes of large ones;
//! streams and downloads, which hold little, are not counted.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt as _;

use crate::page::error::{Answer, WebError};

/// So many answers are made, or wait for a reader, at a time.
const MAX_HELD: usize = 128;
/// Larger ones are counted by their size too, and may have so many KiB together.
const LARGE_BYTES: u64 = 1 << 20;
const MAX_LARGE_KIB: usize = 128 << 10;
/// A request waits so long for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// A smaller answer fits into what a connection may hold anyway.
const SMALL_BYTES: u64 = 64 << 10;

/// The room that answers have.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    places: Arc<Semaphore>,
    large_kib: Arc<Semaphore>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_HELD)),
            large_kib: Arc::new(Semaphore::new(MAX_LARGE_KIB)),
        }
    }
}

fn busy() -> WebError {
    let detail = "Too many answers wait for readers that do not take them.";
    WebError::new(StatusCode::SERVICE_UNAVAILABLE, "The board is busy", detail)
}

/// Has the answer made once it is its turn, which lasts until its reader has taken it. How the board stands is answered at any
/// time, and what is compiled in is held anyway.
pub(crate) async fn hold(State(room): State<Room>, request: Request, next: Next) -> Answer {
    let path = request.uri().path();
    if path == "/healthz" || path.starts_with("/static/") {
        return Ok(next.run(request).await);
    }
    let turn = tokio::time::timeout(PATIENCE, room.places.acquire_owned()).await;
    // The semaphore is never closed.
    let Ok(Ok(turn)) = turn else {
        return Err(busy());
    };
    let (mut parts, body) = next.run(request).await.into_parts();
    let Some(len) = body.size_hint().exact().filter(|len| *len > SMALL_BYTES) else {
        return Ok(Response::from_parts(parts, body));
    };
    let kib = u32::try_from(len >> 10).unwrap_or(u32::MAX);
    let large = (len > LARGE_BYTES).then(|| room.large_kib.try_acquire_many_owned(kib));
    let large = large.transpose().map_err(|_| busy())?;
    parts
        .headers
        .entry(CONTENT_LENGTH)
        .or_insert(HeaderValue::from(len));
    let pieces = body.into_data_stream().map(move |piece| {
        let _until_the_last = (&turn, &large);
        piece
    });
    Ok(Response::from_parts(parts, Body::from_stream(pieces)))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_held_until_it_is_taken_and_others_wait_their_turn() {
        let room = Room {
            places: Arc::new(Semaphore::new(1)),
            large_kib: Arc::new(Semaphore::new(1 << 10)),
        };
        let large = vec![b'x'; SMALL_BYTES as usize + 1];
        let expected = large.clone();
        let app = Router::new()
            .route("/", get(async move || large))
            .route("/small", get(async || "small"))
            .route("/healthz", get(async || "ok"))
            .route("/huge", get(async || vec![b'x'; 2 << 20]))
            .layer(from_fn_with_state(room, hold));
        let ask = async |path: &str| {
            app.clone()
                .oneshot(Request::get(path).body(Body::empty()).unwrap())
                .await
                .unwrap()
        };
        for _ in 0..3 {
            assert_eq!(
                ask("/small").await.status(),
                StatusCode::OK,
                "held by nobody"
            );
        }
        let held = ask("/").await;
        assert_eq!(held.headers()[CONTENT_LENGTH], expected.len().to_string());
        assert_eq!(
            ask("/small").await.status(),
            StatusCode::SERVICE_UNAVAILABLE
        );
        assert_eq!(ask("/healthz").await.status(), StatusCode::OK);
        let (other, taken) = tokio::join!(ask("/small"), held.into_body().collect());
        assert_eq!(
            (other.status(), taken.unwrap().to_bytes() == expected),
            (StatusCode::OK, true)
        );
        drop(ask("/").await);
        assert_eq!(
            ask("/small").await.status(),
            StatusCode::OK,
            "a reader that left"
        );
        assert_eq!(
            ask("/huge").await.status(),
            StatusCode::SERVICE_UNAVAILABLE,
            "more than there is room for"
        );
    }
}
