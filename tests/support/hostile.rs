//! Creates hostile copies of runs: each text, key and name tries to attack its consumer.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// The global variable that a payload sets if it executes.
pub(crate) const GLOBAL: &str = "pwned";

/// Texts with special meaning to a browser, a terminal, a spreadsheet, a path or a header.
const TEXTS: &[&str] = &[
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror=window.pwned=1>",
    "' onmouseover='window.pwned=1' x='",
    "javascript:window.pwned=1//",
    "</style></textarea></title></script><svg onload=window.pwned=1>",
    "<!--",
    "]]><b>",
    "&#60;script&#62;&amp;&lt;",
    "{{ 7*7 }}{% raw %}",
    "%2F..%2F..%2fetc%00",
    "../../../../etc/passwd",
    "\u{1b}]0;title\u{7}",
    "\u{1b}[31mred\u{1b}[2J",
    "\u{9b}31m\u{90}\u{7f}",
    "one\r\nSet-Cookie: a=b\r\n\r\n",
    "two\nlines",
    "\u{202e}gnp.exe\u{2066}\u{200f}",
    "\u{2028}\u{2029}\u{feff}",
    "a\u{0}b",
    "@@half of a pair@@",
    "=cmd|'/c calc'!A1",
    "+1+1",
    "-2+3",
    "@SUM(1)",
    "`~|\\ $(id) ;",
];

/// Keys whose values determine a line's kind. Runs keep their shape while these values stay.
const SHAPES: &[&str] = &[
    "phase",
    "stage",
    "mode",
    "action",
    "status",
    "kind",
    "schema_version",
    "ts",
    "updated_at",
];

/// How to modify the texts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Adds harmless words to each text and one more key to each object.
    Harmless,
    /// Adds hostile text in the same positions.
    Beside,
    /// Replaces every text, including those that determine a line's kind, and adds hostile keys.
    Instead,
}

/// A directory name that is hostile in a path, on a page and in a terminal.
pub(crate) const DIRECTORY: &str =
    "-=<img src=x onerror=pwned=1>\"'&%2F..%00\u{1b}[31m\u{202e}\n\r;{{7}}";

/// Writes a hostile copy of the run in `from` to `to`.
pub(crate) fn write(from: &Path, to: &Path, manner: Manner) {
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    let mut maker = Maker { manner, next: 0 };
    for name in ["steps.jsonl", "events.jsonl"] {
        let Ok(text) = fs::read(from.join(name)) else {
            continue;
        };
        let lines: String = String::from_utf8_lossy(&text)
            .split('\n')
            .map(|line| maker.line(line))
            .collect();
        fs::write(to.join(name), lines).expect("a line file can be written");
    }
    if let Ok(text) = fs::read(from.join("manifest.json")) {
        let line = maker.line(&String::from_utf8_lossy(&text));
        fs::write(to.join("manifest.json"), line).expect("a manifest can be written");
    }
}

struct Maker {
    manner: Manner,
    next: usize,
}

impl Maker {
    /// Transforms a line and ends it with LF. A line that isn't JSON keeps its text.
    fn line(&mut self, line: &str) -> String {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => {
                format!("{}\n", self.value("", value)).replace("@@half of a pair@@", "\\ud83d")
            }
            Err(_) if line.is_empty() => String::new(),
            Err(_) => format!("{line}\n"),
        }
    }

    fn payload(&mut self) -> String {
        self.next += 1;
        match self.manner {
            Manner::Harmless => "plain word".to_owned(),
            _ if self.next.is_multiple_of(97) => "long".repeat(2_500),
            _ => TEXTS[self.next % TEXTS.len()].to_owned(),
        }
    }

    fn value(&mut self, key: &str, value: Value) -> Value {
        let keeps = self.manner != Manner::Instead && SHAPES.contains(&key);
        match value {
            Value::String(text) if keeps => text.into(),
            // Every second payload comes before the text, because formulas and options act only at
            // the start.
            Value::String(text) => match self.manner {
                Manner::Instead => self.payload().into(),
                _ if self.next.is_multiple_of(2) => format!("{}{text}", self.payload()).into(),
                _ => format!("{text} {}", self.payload()).into(),
            },
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.value(key, item))
                .collect(),
            Value::Object(members) => {
                let mut out = Map::new();
                for (key, value) in members {
                    if self.manner == Manner::Instead && self.next.is_multiple_of(5) {
                        out.insert(format!("{key}{}", self.payload()), value.clone());
                    }
                    let value = self.value(&key, value);
                    out.insert(key, value);
                }
                let (key, value) = (self.payload(), self.payload());
                out.insert(key, json!([value]));
                out.into()
            }
            other => other,
        }
    }
}

/// Keys of sessions whose values are shown and have any text.
const SHOWN: &[&str] = &[
    "branch",
    "cwd",
    "directory",
    "gitBranch",
    "git_branch",
    "model",
    "modelID",
    "modelId",
    "title",
];

/// Texts of a program by which a reader recognizes a record.
const KEPT: &[&str] = &[
    "The following tool was executed by the user",
    "Don't re-send them.  ",
];

/// Writes a copy of the sessions below `from` to `to`, with hostile text after each text that people or models wrote. Names
/// of kinds of records don't contain spaces, and stay.
pub(crate) fn write_sessions(from: &Path, to: &Path) {
    crate::disk::copy(from, to);
    let mut maker = Maker {
        manner: Manner::Beside,
        next: 0,
    };
    for path in crate::disk::walk(to) {
        let Ok(bytes) = fs::read(&path) else {
            continue; // A directory.
        };
        if bytes.starts_with(b"SQLite format 3") {
            maker.database(&path);
        } else if let Ok(text) = String::from_utf8(bytes) {
            fs::write(&path, maker.session(&text)).expect("a session can be written");
        }
    }
}

impl Maker {
    /// Transforms a JSON document, lines of JSON, or other text.
    fn session(&mut self, text: &str) -> String {
        if let Ok(value) = serde_json::from_str(text) {
            return self.record(value);
        }
        let lines = text
            .split('\n')
            .map(|line| match serde_json::from_str(line) {
                Ok(value) => self.record(value),
                Err(_) if KEPT.contains(&line) => line.to_owned(),
                // A line of Aider's history. Two spaces end the lines of a prompt, and other signs are Aider's.
                Err(_) if line.starts_with("#### ") || line.starts_with(char::is_alphabetic) => {
                    let payload = self.payload().replace(['\n', '\r'], " ");
                    let words = line.trim_end();
                    format!("{words} {payload}{}", &line[words.len()..])
                }
                Err(_) => line.to_owned(),
            });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn record(&mut self, value: Value) -> String {
        let record = self.words("", value).to_string();
        record.replace("@@half of a pair@@", "\\ud83d")
    }

    fn words(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::String(text) if key == "id" || KEPT.contains(&text.as_str()) => text.into(),
            // Arguments and databases contain JSON as text.
            Value::String(text) if text.starts_with(['{', '[']) => {
                match serde_json::from_str(&text) {
                    Ok(inner) => self.words(key, inner).to_string().into(),
                    Err(_) => format!("{text} {}", self.payload()).into(),
                }
            }
            Value::String(text) if SHOWN.contains(&key) || text.contains([' ', '\n']) => {
                format!("{text} {}", self.payload()).into()
            }
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.words(key, item))
                .collect(),
            Value::Object(members) => {
                let members = members
                    .into_iter()
                    .map(|(key, value)| (key.clone(), self.words(&key, value)));
                members.collect::<Map<_, _>>().into()
            }
            other => other,
        }
    }

    /// Transforms each text of a database.
    fn database(&mut self, path: &Path) {
        let db = rusqlite::Connection::open(path).expect("a database");
        let names = |query: &str| -> Vec<String> {
            let mut rows = db.prepare(query).expect("a query");
            let rows = rows.query_map([], |row| row.get(0)).expect("names");
            rows.map(|name| name.expect("a name")).collect()
        };
        for table in names("SELECT name FROM sqlite_schema WHERE type = 'table'") {
            for column in names(&format!("SELECT name FROM pragma_table_info('{table}')")) {
                let query = format!(
                    "SELECT rowid, \"{column}\" FROM \"{table}\" WHERE typeof(\"{column}\") = 'text'"
                );
                let mut rows = db.prepare(&query).expect("a query");
                let texts: Vec<(i64, String)> = rows
                    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
                    .expect("texts")
                    .map(|row| row.expect("a text"))
                    .collect();
                for (id, text) in texts {
                    let Value::String(text) = self.words(&column, Value::String(text)) else {
                        continue;
                    };
                    let update = format!("UPDATE \"{table}\" SET \"{column}\" = ? WHERE rowid = ?");
                    db.execute(&update, (text, id)).expect("an update");
                }
            }
        }
    }
}
