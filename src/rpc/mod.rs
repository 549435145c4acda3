//! How do two programs talk? In messages of JSON-RPC 2.0, one a line.
//!
//! Knows no transport: bytes go in and messages come out. Whoever talks the Model Context Protocol, as its server or as
//! its client, shares the words in [`mcp`].

mod lines;
pub(crate) mod mcp;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub(crate) use lines::{Lines, TooLong};

/// Bytes that are no JSON.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// JSON that is no message.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// A method that nobody here has.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// Arguments that the method does not take.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// A fault of whoever answers.
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// Asks for something; the answer carries the same id, a text or a number.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Tells something that nobody answers.
    Notice { method: String, params: Value },
    /// Answers a request.
    Reply {
        id: Value,
        result: Result<Value, Fault>,
    },
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn with(self, data: Value) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }
}

impl Message {
    /// The message that a JSON value is.
    ///
    /// # Errors
    /// It is none. With the id where there is one to answer to, else `null`.
    pub(crate) fn read(value: Value) -> Result<Self, (Value, Fault)> {
        let wrong = |id: &Value, what: &str| Err((id.clone(), Fault::new(INVALID_REQUEST, what)));
        let Value::Object(mut fields) = value else {
            return wrong(&Value::Null, "a message is an object");
        };
        let id = fields.remove("id");
        // Only an answer to what could not be read has no id; whoever asks with one that is null waits for an answer.
        if id.as_ref().is_some_and(Value::is_null) && fields.contains_key("method") {
            return wrong(
                &Value::Null,
                "an id is a text or a number, not null; a message without an id is a notice",
            );
        }
        let id = id.filter(|id| !id.is_null());
        if id
            .as_ref()
            .is_some_and(|id| !id.is_string() && !id.is_number())
        {
            return wrong(&Value::Null, "an id is a text or a number");
        }
        let told = id.clone().unwrap_or_default();
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return wrong(&told, "jsonrpc is not \"2.0\"");
        }
        let method = match fields.remove("method") {
            Some(Value::String(method)) => Some(method),
            Some(_) => return wrong(&told, "method is not a text"),
            None => None,
        };
        let params = fields.remove("params").unwrap_or_default();
        Ok(match (method, id) {
            (Some(method), Some(id)) => Self::Request { id, method, params },
            (Some(method), None) => Self::Notice { method, params },
            (None, id) => {
                let result = match (fields.remove("error"), fields.remove("result")) {
                    (Some(error), _) if !error.is_null() => Err(fault(&error)),
                    (_, Some(result)) => Ok(result),
                    _ => return wrong(&told, "neither method, nor result, nor error"),
                };
                // An answer to a message whose id could not be read has none either.
                Self::Reply {
                    id: id.unwrap_or_default(),
                    result,
                }
            }
        })
    }

    /// The message as it goes over the line, without its end.
    pub(crate) fn write(self) -> Value {
        let mut fields = Map::new();
        fields.insert("jsonrpc".to_owned(), "2.0".into());
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        match self {
            Self::Request { id, method, params } => {
                put("id", id);
                put("method", method.into());
                if !params.is_null() {
                    put("params", params);
                }
            }
            Self::Notice { method, params } => {
                put("method", method.into());
                if !params.is_null() {
                    put("params", params);
                }
            }
            Self::Reply {
                id,
                result: Ok(result),
            } => {
                put("id", id);
                put("result", result);
            }
            Self::Reply {
                id,
                result:
                    Err(Fault {
                        code,
                        message,
                        data,
                    }),
            } => {
                put("id", id);
                let mut error = json!({ "code": code, "message": message });
                if let (Some(data), Some(error)) = (data, error.as_object_mut()) {
                    error.insert("data".to_owned(), data);
                }
                put("error", error);
            }
        }
        Value::Object(fields)
    }
}

/// An error as it came; one without words says what it is.
fn fault(error: &Value) -> Fault {
    let code = error
        .get("code")
        .and_then(Value::as_i64)
        .unwrap_or(INTERNAL_ERROR);
    let message = error
        .get("message")
        .and_then(Value::as_str)
        .map_or_else(|| error.to_string(), str::to_owned);
    let data = error.get("data").cloned().filter(|data| !data.is_null());
    Fault {
        code,
        message,
        data,
    }
}
