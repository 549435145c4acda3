//! Full-text search. Polls until the search is done or its time is up.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::super::session::Session;
use super::{Document, Trouble, get, whole_number};
use crate::model::json::Json;

/// How many hits an answer has by default.
const HITS: usize = 40;
/// The time limit. After it the answer has the hits so far.
const TIME: Duration = Duration::from_secs(30);
/// The pause between polls. Each poll waits for a while too.
const AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// The exact text to find. Case-insensitive for ASCII only
    text: String,
    /// Searches only the runs that match this query. Same syntax as in list_runs
    #[serde(default)]
    query: String,
    /// Maximum number of hits. Default: 40
    #[serde(default, deserialize_with = "whole_number")]
    limit: Option<usize>,
}

pub(super) async fn search(session: &Session, args: Search) -> Document {
    if args.text.is_empty() {
        return Err(
            Trouble::new("text is empty").hint("use list_runs to find runs by their properties")
        );
    }
    let limit = args.limit.unwrap_or(HITS).to_string();
    let ask = async |cancel: &str| {
        let query = [
            ("q", args.text.as_str()),
            ("in", &args.query),
            ("limit", &limit),
            ("cancel", cancel),
        ];
        get(session, "/api/search", &query).await
    };
    let end = Instant::now() + TIME;
    loop {
        let found = ask("").await?;
        let (is_open, number) = {
            let found = Json::parse(&found).unwrap_or(Json::Null);
            let is_open = found.get("state").and_then(Json::as_str) == Some("running");
            (
                is_open,
                found
                    .get("number")
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            )
        };
        if !is_open {
            return Ok(found);
        }
        if Instant::now() >= end {
            let _ = ask(&number).await;
            return Ok(found);
        }
        tokio::time::sleep(AGAIN).await;
    }
}
