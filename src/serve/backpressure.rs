//! Limits how many responses are held while their readers take them, and how many bytes the large
//! ones hold.
//!
//! Streams and downloads hold little memory, so they don't count.

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

/// Limits the responses that are being built or waiting for a reader.
const MAX_HELD: usize = 128;
/// Responses larger than this also count by size, up to `MAX_LARGE_KIB` together.
const LARGE_BYTES: u64 = 1 << 20;
const MAX_LARGE_KIB: usize = 128 << 10;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// Smaller responses don't count, because the connection's own buffer can hold them.
const SMALL_BYTES: u64 = 64 << 10;

/// The capacity for held responses.
#[derive(Debug, Clone)]
pub(crate) struct ResponseLimits {
    places: Arc<Semaphore>,
    large_kib: Arc<Semaphore>,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_HELD)),
            large_kib: Arc::new(Semaphore::new(MAX_LARGE_KIB)),
        }
    }
}

fn busy() -> WebError {
    let detail = "Too many responses are waiting for slow clients.";
    WebError::new(StatusCode::SERVICE_UNAVAILABLE, "board is busy", detail)
}

/// Runs the handler once a place is free, and keeps the place until the reader has taken the
/// response. `/healthz` and static files need no place: health must always be reported, and the
/// files are in memory anyway.
pub(crate) async fn limit_buffered_responses(
    State(limits): State<ResponseLimits>,
    request: Request,
    next: Next,
) -> Answer {
    let path = request.uri().path();
    if path == "/healthz" || path.starts_with("/static/") {
        return Ok(next.run(request).await);
    }
    let turn = tokio::time::timeout(PATIENCE, limits.places.acquire_owned()).await;
    // The semaphore is never closed.
    let Ok(Ok(turn)) = turn else {
        return Err(busy());
    };
    let (mut parts, body) = next.run(request).await.into_parts();
    let Some(len) = body.size_hint().exact().filter(|len| *len > SMALL_BYTES) else {
        return Ok(Response::from_parts(parts, body));
    };
    let kib = u32::try_from(len >> 10).unwrap_or(u32::MAX);
    let large = (len > LARGE_BYTES).then(|| limits.large_kib.try_acquire_many_owned(kib));
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
        let limits = ResponseLimits {
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
            .layer(from_fn_with_state(limits, limit_buffered_responses));
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
                "small responses don't keep a place"
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
            "the reader left"
        );
        assert_eq!(
            ask("/huge").await.status(),
            StatusCode::SERVICE_UNAVAILABLE,
            "too large for the room"
        );
    }
}
