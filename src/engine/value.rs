//! Converts values to JSON without losing numbers that JSON doesn't support.

use serde::Serialize;
use serde_json::Value;

use crate::model::strict::{NonFinite, write_json};

/// Converts a value to JSON. NaN and the infinities become text. A value that can't be converted
/// becomes a text with the error.
pub(super) fn to_value_lossy<T: Serialize + ?Sized>(value: &T) -> Value {
    let mut text = Vec::new();
    let written =
        write_json(value, NonFinite::AsText, &mut text).map_err(|wrong| wrong.to_string());
    let read =
        written.and_then(|()| serde_json::from_slice(&text).map_err(|wrong| wrong.to_string()));
    read.unwrap_or_else(|wrong| Value::String(format!("[not JSON: {wrong}]")))
}

/// Formats an error with its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some error messages already include their cause.
        if !message.contains(&said) {
            message = format!("{message}: {said}");
        }
        cause = error.source();
    }
    message
}
