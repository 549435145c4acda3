//! Tests that requests are as servers expect, and that replies and faults are understood.

#[path = "../../../tests/support/endpoint.rs"]
pub(super) mod endpoint;

mod answers;
mod faults;
mod files;
#[cfg(unix)]
mod runs;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Client, Endpoint as Address, Retry, Secret, Timeouts};
use crate::engine::{ChatModel, Message, ModelError, Reply, Request};
use endpoint::Endpoint;

const KEY: &str = "sk-test-0123456789";

/// A client, and the delays that it skipped.
struct Asked {
    client: Client,
    waits: Arc<Mutex<Vec<Duration>>>,
}

fn address(endpoint: &Endpoint) -> Address {
    Address {
        base_url: endpoint.base_url.clone(),
        model: "tiny".to_owned(),
        key: Secret::new(Some(KEY)),
        stream: false,
        settings: serde_json::Map::new(),
        context_window: None,
        send_fields: None,
        retry: Retry {
            retries: 2,
            seed: 1,
            ..Retry::default()
        },
        timeouts: Timeouts::default(),
    }
}

fn client(address: Address) -> Asked {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let noted = waits.clone();
    let sleep = move |wait| {
        noted.lock().unwrap().push(wait);
        Box::pin(async {}) as _
    };
    Asked {
        client: Client::sleeping(address, Box::new(sleep)).unwrap(),
        waits,
    }
}

impl Asked {
    async fn ask(&self) -> Result<Reply, ModelError> {
        self.client
            .complete(&Request::new(vec![Message::user("hello")]), &|_| ())
            .await
    }

    /// Sends a request and keeps the pieces of streamed text.
    async fn listen(&self) -> (Result<Reply, ModelError>, Vec<String>) {
        let heard = Mutex::new(Vec::new());
        let request = Request::new(vec![Message::user("hello")]);
        let reply = self
            .client
            .complete(&request, &|text| {
                heard.lock().unwrap().push(text.to_owned())
            })
            .await;
        (reply, heard.into_inner().unwrap())
    }

    fn waits(&self) -> Vec<Duration> {
        self.waits.lock().unwrap().clone()
    }
}
