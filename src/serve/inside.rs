//! Lets other parts of this process query board as an HTTP client would, without a network.

use std::fmt;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::page::app::AppState;
use crate::serve::routes::answers;

/// Limits the bytes of a response. Longer ones are an error.
const MAX_ANSWER: usize = 16 << 20;

/// Board's router, for calls from inside the process.
#[derive(Clone)]
pub(super) struct Inside(TowerToHyperService<Router>);

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inside")
    }
}

impl Inside {
    pub(super) fn new(state: AppState) -> Self {
        Self(TowerToHyperService::new(answers(state)))
    }

    /// Requests `address`. Returns the body and whether the status was a success.
    ///
    /// # Errors
    /// Fails if the address is invalid, or if the body is too long or breaks off.
    pub(super) async fn get(&self, address: &str) -> Result<(bool, String), String> {
        let request = Request::get(address)
            .body(Body::empty())
            .map_err(|error| error.to_string())?;
        let Ok(response): Result<Response<Body>, _> = self.0.call(request).await;
        let is_good = response.status().is_success();
        let body = to_bytes(response.into_body(), MAX_ANSWER).await;
        let body = body.map_err(|error| {
            format!(
                "the response exceeds {} MiB or was interrupted: {error}",
                MAX_ANSWER >> 20
            )
        })?;
        Ok((is_good, String::from_utf8_lossy(&body).into_owned()))
    }
}
