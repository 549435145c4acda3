//! Reads the result of a call. Texts and data stay as they are. Images and audio become a description, because models here
//! don't get them.

use serde_json::{Value, json};

use crate::engine::ToolError;

/// Returns the result of a call, or its error.
pub(super) fn outcome(result: &Value) -> Result<Value, ToolError> {
    if let Some(kind) = result
        .get("resultType")
        .and_then(Value::as_str)
        .filter(|kind| *kind != "complete")
    {
        return Err(ToolError::new(format!(
            "the server asks for something board doesn't provide: {kind}"
        )));
    }
    let Some(content) = result.get("content").and_then(Value::as_array) else {
        return Err(ToolError::new("the server returned no result"));
    };
    let parts: Vec<Value> = content.iter().map(part).collect();
    let texts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
    let text = texts.map(|texts| texts.join("\n"));
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        let words = text.unwrap_or_else(|| Value::from(parts).to_string());
        return Err(ToolError::new(if words.is_empty() {
            "the call failed without a message".to_owned()
        } else {
            words
        }));
    }
    let structured = result
        .get("structuredContent")
        .filter(|data| !data.is_null());
    Ok(match (text, structured) {
        // Servers repeat data as text, for clients that don't read data.
        (Some(text), Some(data))
            if text.is_empty() || serde_json::from_str(&text).ok().as_ref() == Some(data) =>
        {
            data.clone()
        }
        (Some(text), None) => Value::String(text),
        (Some(text), Some(data)) => json!({ "text": text, "data": data }),
        (None, None) => Value::Array(parts),
        (None, Some(data)) => json!({ "content": parts, "data": data }),
    })
}

/// Returns the text of a content block, or a description.
fn part(block: &Value) -> Value {
    let text = |name: &str| block.get(name).and_then(Value::as_str);
    match text("type") {
        Some("text") => text("text").unwrap_or_default().into(),
        Some(kind @ ("image" | "audio")) => json!({
            "type": kind,
            "mimeType": text("mimeType"),
            "left_out_bytes": text("data").map(decoded),
        }),
        Some("resource") => {
            let resource = block.get("resource").cloned().unwrap_or_default();
            let blob = resource.get("blob").and_then(Value::as_str).map(decoded);
            match (resource, blob) {
                (Value::Object(mut fields), Some(bytes)) => {
                    fields.remove("blob");
                    fields.insert("left_out_bytes".to_owned(), bytes.into());
                    json!({ "type": "resource", "resource": fields })
                }
                (resource, _) => json!({ "type": "resource", "resource": resource }),
            }
        }
        _ => block.clone(),
    }
}

/// Returns the length of base64-encoded data after decoding, in bytes.
fn decoded(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}
