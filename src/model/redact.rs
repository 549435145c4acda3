//! What of a trace is a secret, and how is it blanked? By the names of keys, and wherever a value found so occurs again.
//!
//! Lines come and go as text; knows no files.

use super::MAX_LINE_BYTES;
use super::json::Json;
use super::repair::repair;

/// What stands in place of a blanked value; QitOS writes the same.
pub const BLANK: &str = "__redacted__";
/// A shorter value is blanked where it stands, and not looked for elsewhere: it may be any word.
const MIN_SOUGHT_BYTES: usize = 8;
/// At most this many values are looked for elsewhere.
const MAX_SOUGHT: usize = 1_000;
/// Words that make a key's value a secret.
const WORDS: [&str; 12] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secrets",
    "authorization",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "apikey",
];
/// The words before `key` or `keys` that make it one.
const KEYS: [&str; 6] = ["api", "access", "private", "secret", "signing", "encryption"];

/// The secrets found in a trace.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    sought: Vec<String>,
    found: usize,
}

impl Secrets {
    /// Looks for secrets in a line or a manifest.
    pub fn collect(&mut self, line: &[u8]) {
        if line.len() as u64 > MAX_LINE_BYTES {
            return;
        }
        if let Some(json) = Json::parse(&repair(line).0) {
            self.walk(&json, false);
        }
    }

    /// How many values stand under keys that name a secret.
    pub fn found(&self) -> usize {
        self.found
    }

    /// The line with every secret blanked. A line that is not JSON, or longer than the board parses, is blanked as a
    /// whole: nobody can tell its keys.
    pub fn blank(&self, line: &[u8]) -> String {
        let text = if line.len() as u64 > MAX_LINE_BYTES { String::new() } else { repair(line).0 };
        let mut out = String::with_capacity(text.len());
        match Json::parse(&text) {
            Some(json) => self.write(&json, &mut out),
            None => quote(BLANK, &mut out),
        }
        out
    }

    fn walk(&mut self, json: &Json<'_>, secret: bool) {
        match json {
            Json::String(text) if secret => {
                self.found += 1;
                let new = text.len() >= MIN_SOUGHT_BYTES && text != BLANK && !self.sought.iter().any(|old| old == text);
                if new && self.sought.len() < MAX_SOUGHT {
                    self.sought.push(text.to_string());
                }
            }
            Json::String(text) => {
                if let Some(inner) = json_inside(text) {
                    self.walk(&inner, false);
                }
            }
            Json::Array(items) => items.iter().for_each(|item| self.walk(item, secret)),
            Json::Object(members) => {
                members.iter().for_each(|(key, value)| self.walk(value, secret || is_secret(key)));
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Deep(_) => {}
        }
    }

    fn write(&self, json: &Json<'_>, out: &mut String) {
        match json {
            Json::String(text) => match json_inside(text) {
                Some(inner) => {
                    let mut blanked = String::new();
                    self.write(&inner, &mut blanked);
                    // The text itself is kept where nothing in it was a secret, with its blanks.
                    quote(if blanked == inner.to_string() { text } else { &blanked }, out);
                }
                None => quote(&self.without(text), out),
            },
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    self.write(item, out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    quote(&self.without(key), out);
                    out.push_str(": ");
                    if is_secret(key) && may_hold(value) { quote(BLANK, out) } else { self.write(value, out) }
                }
                out.push('}');
            }
            // What is nested too deep to read may hold anything.
            Json::Deep(_) => quote(BLANK, out),
            Json::Null | Json::Bool(_) | Json::Number(_) => out.push_str(&json.to_string()),
        }
    }

    fn without(&self, text: &str) -> String {
        self.sought.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), BLANK) } else { text }
        })
    }
}

/// Whether a value can be a secret: numbers and truth values are counts and switches.
fn may_hold(value: &Json<'_>) -> bool {
    !matches!(value, Json::Null | Json::Bool(_) | Json::Number(_))
}

/// JSON written into a text, such as the arguments of a call.
fn json_inside(text: &str) -> Option<Json<'_>> {
    let start = text.trim_start().as_bytes().first();
    let json = matches!(start, Some(b'{' | b'[')).then(|| Json::parse(text))??;
    matches!(json, Json::Array(_) | Json::Object(_)).then_some(json)
}

/// Whether a key names a secret: `password`, `API_KEY`, `accessToken`; not `tokens`, `token_budget`, `key`.
fn is_secret(key: &str) -> bool {
    let words = words(key);
    let pair = |pair: &[String]| match pair {
        [first, second] => KEYS.contains(&first.as_str()) && matches!(second.as_str(), "key" | "keys"),
        _ => false,
    };
    words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words.last().is_some_and(|word| word == "token")
        || words.windows(2).any(pair)
}

/// The words of a name, in small letters: `accessToken` and `access_token` are the same two.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for letter in key.chars() {
        let breaks = !letter.is_alphanumeric() || (letter.is_uppercase() && small);
        if breaks {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        small = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Json::String(text.into()).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_secrets() {
        for key in [
            "password",
            "DB_PASSWORD",
            "api_key",
            "apiKey",
            "API-KEY",
            "accessToken",
            "token",
            "Authorization",
            "client_secret",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["tokens", "token_budget", "input_tokens", "key", "keys", "state_key", "author", "max_tokens", ""] {
            assert!(!is_secret(key), "{key}");
        }
    }

    #[test]
    fn a_secret_is_blanked_where_it_stands_and_wherever_it_is_said_again() {
        let line = br#"{"args": {"api_key": "sk-12345678", "tokens": 5, "note": "use sk-12345678 twice"}, "raw": "{\"password\": \"x\"}", "token": 7}"#;
        let mut secrets = Secrets::default();
        secrets.collect(line);
        assert_eq!(secrets.found(), 2);
        assert_eq!(
            secrets.blank(line),
            r#"{"args": {"api_key": "__redacted__", "tokens": 5, "note": "use __redacted__ twice"}, "raw": "{\"password\": \"__redacted__\"}", "token": 7}"#
        );
        assert_eq!(secrets.blank(b"login with sk-12345678"), "\"__redacted__\"");
    }

    #[test]
    fn what_holds_no_secret_keeps_its_text() {
        let line = r#"{"a": [1, 2.50, null], "s": "{ \"b\":1 }"}"#;
        assert_eq!(Secrets::default().blank(line.as_bytes()), line);
    }

    #[test]
    fn whole_objects_and_a_changed_secret_are_blanked() {
        let line = br#"{"state_diff": {"token": {"before": "aaaaaaaa", "after": "bbbbbbbb"}}, "said": "bbbbbbbb!"}"#;
        let mut secrets = Secrets::default();
        secrets.collect(line);
        assert_eq!(secrets.blank(line), r#"{"state_diff": {"token": "__redacted__"}, "said": "__redacted__!"}"#);
    }
}
