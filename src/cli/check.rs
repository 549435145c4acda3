//! `board check`: reports issues in the files of runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::command::{Done, write_json};
use super::look::{Ink, Look};
use super::open::open;
use crate::analysis::format::{count, counted, visible_line};
use crate::analysis::health::{self, FileIssue};
use crate::error::Error;
use crate::recorded::RecordedRun;

/// Check the files of runs for issues and contradictions; exits with 1 if it finds any
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", required = true, help = super::command::RUN)]
    runs: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Checks {
    runs: Vec<Check>,
}

#[derive(Debug, Default, Serialize)]
struct Check {
    key: Option<String>,
    path: String,
    /// The location of its records, if they're part of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// The file with the records, if the run's format has only one.
    #[serde(skip)]
    file: Option<String>,
    /// Whether its records are lines.
    #[serde(skip)]
    has_lines: bool,
    issues: usize,
    problems: usize,
    issues_list: Vec<FileIssue>,
    /// The contradictions between records, one sentence each.
    contradictions: Vec<String>,
    /// The reason why the path couldn't be checked.
    error: Option<String>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let mut checks = Checks::default();
    let mut first_error = None;
    let (mut failed, mut found) = (0, false);
    for path in &args.runs {
        let check = match open(path, look.now) {
            Ok(run) => of_run(&run),
            Err(error) if args.runs.len() == 1 => return Err(error.into()),
            // One invalid path must not hide the issues of the other runs.
            Err(error) => {
                failed += 1;
                let (path, text) = (path.to_string_lossy().into_owned(), error.to_string());
                first_error.get_or_insert(error);
                Check {
                    path,
                    error: Some(text),
                    ..Check::default()
                }
            }
        };
        found |= check.issues > 0 || !check.contradictions.is_empty();
        if args.json {
            checks.runs.push(check);
        } else {
            write_text(out, &check, look)?;
        }
    }
    if args.json {
        write_json(out, &checks)?;
    }
    match first_error {
        Some(error) => {
            let paths = counted(args.runs.len(), "path");
            let what = format!("{} of {paths} couldn't be checked", count(failed));
            Err(Error::new(error.kind(), what).into())
        }
        None => Ok(u8::from(found)),
    }
}

/// Returns the path from the working directory, if it's below that.
fn short(path: &str) -> String {
    let below = std::env::current_dir().and_then(|dir| dir.canonicalize());
    let below = below.ok().and_then(|dir| {
        let path = Path::new(path).strip_prefix(dir).ok()?;
        Some(path.to_string_lossy().into_owned())
    });
    visible_line(&below.unwrap_or_else(|| path.to_owned())).into_owned()
}

fn of_run(run: &RecordedRun) -> Check {
    Check {
        key: Some(run.summary.key.to_string()),
        path: run.summary.path.to_string(),
        place: run.shared_place(),
        file: run.only_file(),
        has_lines: run.has_lines(),
        issues: run.summary.issues.0,
        problems: run.summary.issues.1,
        issues_list: health::issues(&run.index),
        contradictions: run.summary.verdict.contradictions.to_vec(),
        error: None,
    }
}

/// Writes a line for each issue, with its location where editors and terminals expect it, and a
/// line for the run.
fn write_text(out: &mut dyn Write, check: &Check, look: &Look) -> io::Result<()> {
    let path = visible_line(check.path.trim_end_matches('/'));
    let shared = check.place.as_deref().map(short);
    let file = shared.clone().or_else(|| check.file.as_deref().map(short));
    for issue in &check.issues_list {
        // A record of a JSON document has a number, but no line.
        let line = issue.line.filter(|_| check.has_lines);
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        let byte = issue
            .offset
            .map_or_else(String::new, |offset| format!("byte {offset}: "));
        let (ink, word) = if issue.problem {
            (Ink::Bad, "problem")
        } else {
            (Ink::Warning, "note")
        };
        let word = look.paint(ink, word);
        let place = file
            .clone()
            .unwrap_or_else(|| format!("{path}/{}", issue.name));
        writeln!(
            out,
            "{place}{line}: {byte}{word}: {}",
            visible_line(&issue.reason)
        )?;
    }
    // An issue may be a contradiction too.
    let is_listed = |words: &&String| {
        check
            .issues_list
            .iter()
            .any(|issue| issue.reason == **words)
    };
    let others: Vec<&String> = check
        .contradictions
        .iter()
        .filter(|words| !is_listed(words))
        .collect();
    let contradictions = others.len();
    for contradiction in others {
        let place = shared.as_deref().unwrap_or(&path);
        writeln!(
            out,
            "{place}: {}: {}",
            look.paint(Ink::Bad, "contradiction"),
            visible_line(contradiction)
        )?;
    }
    let verdict = match (check.issues, check.problems) {
        _ if check.error.is_some() => {
            let error = check.error.as_deref().unwrap_or_default();
            let own = error.strip_prefix(&*check.path);
            let error = own.map_or(error, str::trim_start);
            format!("not checked: {}", visible_line(error))
        }
        (0, _) if contradictions == 0 => "no issues".to_owned(),
        (0, _) => String::new(),
        counts => health::in_words(counts),
    };
    let unlisted = check.issues.saturating_sub(check.issues_list.len());
    let unlisted = if unlisted > 0 {
        format!("; {} more not listed", count(unlisted as u64))
    } else {
        String::new()
    };
    let contradictions = match contradictions {
        0 => String::new(),
        many if verdict.is_empty() => counted(many, "contradiction"),
        many => format!(", {}", counted(many, "contradiction")),
    };
    writeln!(
        out,
        "{}: {verdict}{contradictions}{unlisted}",
        look.paint(Ink::Heading, &path)
    )
}
