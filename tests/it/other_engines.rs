//! Makes docs/other_engines.md from the table in `other_engines.toml`, and checks that its names and
//! its tests exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use trace_board::stop::{Code, StopSpec};

use crate::disk::walk;

const DOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/other_engines.md");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    files: BTreeMap<String, String>,
    section: Vec<Section>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    title: String,
    /// The heading in SOURCES.md that explains the differences.
    details: String,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    there: String,
    here: Vec<String>,
    tests: Vec<String>,
    differs: Option<String>,
}

impl Table {
    fn read() -> Self {
        toml::from_str(include_str!("other_engines.toml")).expect("the table is TOML")
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.section.iter().flat_map(|section| &section.rows)
    }

    /// Returns the file and the name of a test.
    fn test<'a>(&'a self, test: &'a str) -> (&'a str, &'a str) {
        let (file, name) = test.split_once("::").expect("FILE::NAME");
        let path = self.files.get(file);
        (path.unwrap_or_else(|| panic!("no file {file}")), name)
    }

    fn document(&self) -> String {
        let mut out = String::from(
            "# Features of other engines\n\n\
             These tables list each feature, field, default, error and guarantee in the documentation of three other engines, \
             what it is\nhere, and the tests that prove it. [SOURCES.md](../src/engine/SOURCES.md) explains the differences. The \
             tables are made from\n`tests/it/other_engines.toml`, whose test checks that every name and every test exists.\n\n\
             | engine and subject | rows | the same | different |\n|---|---|---|---|\n",
        );
        for section in &self.section {
            let all = section.rows.len();
            let different = section.rows.iter().filter(|row| row.differs.is_some());
            let different = different.count();
            let title = &section.title;
            let same = all - different;
            let _ = writeln!(out, "| {title} | {all} | {same} | {different} |");
        }
        for section in &self.section {
            let _ = write!(
                out,
                "\n## {}\n\n| there | here | tests | difference, and why |\n|---|---|---|---|\n",
                section.title
            );
            for row in &section.rows {
                let here: Vec<_> = row.here.iter().map(|name| format!("`{name}`")).collect();
                let tests = row.tests.iter().map(|test| {
                    let (path, name) = self.test(test);
                    format!("[{name}](../{path})")
                });
                let tests: Vec<_> = tests.collect();
                let differs = row.differs.as_deref().map_or_else(String::new, |differs| {
                    let details = &section.details;
                    format!("{differs} ([details](../src/engine/SOURCES.md#{details}))")
                });
                let (here, tests) = (here.join(", "), tests.join("<br>"));
                let _ = writeln!(out, "| {} | {here} | {tests} | {differs} |", row.there);
            }
        }
        out
    }
}

/// The source of the modules that agents use, as rustfmt lays it out.
struct Sources(Vec<String>);

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut texts = Vec::new();
        for module in ["engine", "stop", "trace", "model"] {
            let dir = root.join(module);
            let files = walk(&dir).into_iter().filter(|path| {
                let inside = path.strip_prefix(&dir).unwrap_or(path);
                path.extension().is_some_and(|ending| ending == "rs")
                    && !inside.to_string_lossy().contains("tests")
            });
            texts.extend(files.map(|path| fs::read_to_string(path).unwrap()));
        }
        Self(texts)
    }

    /// Returns the lines of the items at the top of a file that begin with one of these words and
    /// contain this name.
    fn items<'a>(
        &'a self,
        words: &'a [&str],
        name: &'a str,
    ) -> impl Iterator<Item = Vec<&'a str>> + 'a {
        self.0.iter().flat_map(move |text| {
            let lines: Vec<_> = text.lines().collect();
            let starts = (0..lines.len()).filter({
                let lines = lines.clone();
                move |at| {
                    words.iter().any(|word| lines[*at].starts_with(word))
                        && has_word(lines[*at], name)
                }
            });
            let items: Vec<_> = starts
                .map(|at| {
                    let ends = lines[at].ends_with(';') || lines[at].ends_with('}');
                    let rest = lines[at + 1..]
                        .iter()
                        .take_while(|line| !ends && (line.is_empty() || !line.starts_with('}')));
                    std::iter::once(lines[at]).chain(rest.copied()).collect()
                })
                .collect();
            items
        })
    }

    fn has_type(&self, name: &str) -> bool {
        let words = ["pub struct ", "pub enum ", "pub trait ", "pub const "];
        self.items(&words, name).next().is_some()
            // Declared by a macro.
            || self.0.iter().any(|text| {
                text.lines().any(|line| {
                    line.trim_start().starts_with("pub enum ") && has_word(line, name)
                })
            })
    }

    fn has_member(&self, name: &str, member: &str) -> bool {
        let words = ["pub struct ", "pub enum ", "pub trait ", "impl"];
        self.items(&words, name).any(|lines| {
            lines.iter().skip(1).any(|line| {
                let inside = line.trim_start();
                let code = inside.strip_prefix("pub ").unwrap_or(inside);
                let code = code.strip_prefix("async ").unwrap_or(code);
                let code = code.strip_prefix("fn ").unwrap_or(code);
                // Members are indented once.
                line.len() - inside.len() == 4
                    && code.strip_prefix(member).is_some_and(|rest| {
                        rest.starts_with(['(', '<', ':', ',', ' ']) && !rest.starts_with("::")
                    })
            })
        })
    }

    /// Returns whether a field of the trace has this key.
    fn has_key(&self, key: &str) -> bool {
        let (field, quoted) = (format!("    {key}: "), format!("\"{key}\""));
        let is_key = |line: &str| line.starts_with(&field) || line.contains(&quoted);
        self.0.iter().any(|text| text.lines().any(is_key))
    }

    fn has(&self, name: &str) -> bool {
        if name.starts_with(|letter: char| letter.is_ascii_uppercase()) {
            return match name.split_once("::") {
                Some((owner, member)) => self.has_type(owner) && self.has_member(owner, member),
                None => self.has_type(name),
            };
        }
        let is_rule = name.parse::<StopSpec>().is_ok() || ["any_of", "all_of"].contains(&name);
        is_rule || !matches!(Code::from(name), Code::Custom(_)) || self.has_key(name)
    }
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .any(|there| there == word)
}

/// Returns the names of a file's test functions.
fn tests_in(path: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let (mut names, mut is_test) = (BTreeSet::new(), false);
    for line in text.lines().map(str::trim) {
        let code = line.strip_prefix("async ").unwrap_or(line);
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(name) = code.strip_prefix("fn ").filter(|_| is_test) {
            names.extend(name.split('(').next().map(str::to_owned));
            is_test = false;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            is_test = false;
        }
    }
    names
}

#[test]
fn the_document_is_made_from_the_table() {
    let made = Table::read().document();
    if std::env::var_os("BOARD_RECORD").is_some() {
        fs::write(DOC, &made).unwrap();
    }
    let there = fs::read_to_string(DOC).unwrap_or_default();
    let (there, made): (Vec<_>, Vec<_>) = (there.lines().collect(), made.lines().collect());
    let missing: Vec<_> = made.iter().filter(|line| !there.contains(line)).collect();
    let wrong: Vec<_> = there.iter().filter(|line| !made.contains(line)).collect();
    assert!(
        there == made,
        "docs/other_engines.md lacks {missing:#?} and shouldn't have {wrong:#?}; \
         if this is intended: BOARD_RECORD=1 cargo test --test it other_engines::"
    );
}

#[test]
fn every_test_of_the_table_exists() {
    let table = Table::read();
    let tests: BTreeMap<_, _> = table
        .files
        .values()
        .map(|path| (&**path, tests_in(path)))
        .collect();
    let mut used = BTreeSet::new();
    for row in table.rows() {
        assert!(!row.tests.is_empty(), "{} has no test", row.there);
        for test in &row.tests {
            let (path, name) = table.test(test);
            assert!(tests[path].contains(name), "{path} has no test {name}");
            used.insert(path);
        }
    }
    let files: BTreeSet<_> = table.files.values().map(String::as_str).collect();
    assert_eq!(used, files, "every file is used");
}

#[test]
fn every_name_of_the_table_exists() {
    let (table, sources) = (Table::read(), Sources::read());
    let missing: Vec<_> = table
        .rows()
        .flat_map(|row| &row.here)
        .filter(|name| !sources.has(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(table.rows().all(|row| !row.here.is_empty()));
    for wrong in [
        "Critics",
        "Opinion::proceeds",
        "Builder::steps",
        "Task::Artifact",
        "max_steps=x",
        "no_such_key",
    ] {
        assert!(!sources.has(wrong), "{wrong}");
    }
}

#[test]
fn the_details_are_headings() {
    let details = include_str!("../../src/engine/SOURCES.md");
    for section in Table::read().section {
        let heading = |line: &str| line.strip_prefix("## ").map(str::to_lowercase);
        assert!(
            details
                .lines()
                .any(|line| heading(line).as_ref() == Some(&section.details)),
            "{}",
            section.details
        );
    }
}
