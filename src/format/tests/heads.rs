//! Recognizes a session whose first prompt is longer than the beginning of a file that is examined.

use std::fs;
use std::path::{Path, PathBuf};

use crate::format::{HEAD_BYTES, Tool, tool};

/// The keys of the text of a prompt.
const TEXTS: [&str; 4] = ["\"text\"", "\"content\"", "\"prompt\"", "\"message\""];

/// Returns the samples that are files of lines.
fn samples() -> Vec<PathBuf> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_runs/tools")];
    let mut found = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "jsonl") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the first offsets in a line at which the text of a prompt begins.
fn prompts(line: &str) -> Vec<usize> {
    let of = |key: &str| {
        let at = line.find(key)? + key.len();
        let rest = line.get(at..)?;
        let value = rest.trim_start_matches([' ', ':']);
        value
            .starts_with('"')
            .then(|| at + rest.len() - value.len() + 1)
    };
    TEXTS.iter().filter_map(|key| of(key)).collect()
}

#[test]
fn a_prompt_of_any_length_leaves_the_format_of_a_sample_as_it_is() {
    let mut wrong = Vec::new();
    let mut padded = 0;
    for path in samples() {
        let text = fs::read_to_string(&path).unwrap();
        let name = |tool: Option<&'static Tool>| tool.map(|tool| tool.format.name);
        let file = path.file_name().and_then(|name| name.to_str()).unwrap();
        let known = name(tool(file, text.as_bytes()));
        let mut line_at = 0;
        for line in text.split_inclusive('\n').take(8) {
            for at in prompts(line) {
                let mut long = text.clone();
                long.insert_str(line_at + at, &"0123456789abcde ".repeat(HEAD_BYTES / 8));
                let found = name(tool(file, &long.as_bytes()[..HEAD_BYTES]));
                padded += 1;
                if found != known {
                    let shown = path.strip_prefix(env!("CARGO_MANIFEST_DIR"));
                    wrong.push(format!("{shown:?} {line_at}+{at}: {known:?} is {found:?}"));
                }
            }
            line_at += line.len();
        }
    }
    assert!(padded > 100, "{padded}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
