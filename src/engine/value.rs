//! How does a user's value become JSON? Without losing a number that JSON does not have.

use serde::Serialize;
use serde_json::Value;

use crate::model::strict::{NonFinite, write_json};

/// The value as JSON, where NaN and the infinities become text; a value that cannot be JSON becomes a text that says so.
pub(super) fn to_value_lossy<T: Serialize + ?Sized>(value: &T) -> Value {
    let mut text = Vec::new();
    let written =
        write_json(value, NonFinite::AsText, &mut text).map_err(|wrong| wrong.to_string());
    let read =
        written.and_then(|()| serde_json::from_slice(&text).map_err(|wrong| wrong.to_string()));
    read.unwrap_or_else(|wrong| Value::String(format!("[not JSON: {wrong}]")))
}

/// An error in words, with what caused it.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors say in their own words what their cause says.
        if !message.contains(&said) {
            message = format!("{message}: {said}");
        }
        cause = error.source();
    }
    message
}
