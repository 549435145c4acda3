//! Compares the counts of real sessions with what their drivers recorded. Walks the directory in
//! `BOARD_AGENTS`, which has a directory per tool. Each contains one directory per session, with a
//! `truth.json` next to the tool's own files. Skipped without it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trace_board::trace::RootScanner;

use super::read;
use crate::disk::walk;

/// The compared figures.
pub(crate) const FIELDS: [&str; 18] = [
    "replies",
    "calls",
    "failed calls",
    "stopped calls",
    "calls without an answer",
    "input",
    "cached",
    "output",
    "thought",
    "children",
    "tokens of the run",
    // As in the run table: stored sums, and the tool's own totals.
    "replies of the run",
    "calls of the run",
    "failed calls of the run",
    "input of the run",
    "cached of the run",
    "output of the run",
    "thought of the run",
];

type Counts = [u64; FIELDS.len()];

/// A figure that the files lack or record differently: session, field, value read, reason.
pub(crate) type Difference<'a> = (&'a str, &'a str, u64, &'a str);

pub(crate) fn sessions(tool: &str) -> Vec<PathBuf> {
    let dir = std::env::var_os("BOARD_AGENTS")
        .map(|dir| PathBuf::from(dir).join(tool))
        .filter(|dir| dir.is_dir());
    let Some(dir) = dir else {
        eprintln!("skipped: BOARD_AGENTS names no directory of sessions");
        return Vec::new();
    };
    let mut sessions: Vec<PathBuf> = fs::read_dir(dir)
        .expect("readable")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    sessions.retain(|session| session.join("truth.json").is_file());
    sessions.sort();
    assert!(!sessions.is_empty(), "no session of {tool}");
    sessions
}

/// Lists a session's files whose relative paths `wanted` accepts.
pub(crate) fn files(session: &Path, wanted: fn(&str) -> bool) -> Vec<PathBuf> {
    let mut files = walk(session);
    files.retain(|file| {
        file.is_file() && wanted(&file.strip_prefix(session).expect("below").to_string_lossy())
    });
    files.sort();
    files
}

/// Sums up the wanted files of each of a tool's sessions and compares the given fields with the
/// truth.
pub(crate) fn compare(
    tool: &str,
    wanted: fn(&str) -> bool,
    fields: &[&str],
    known: &[Difference<'_>],
) {
    let mut wrong = Vec::new();
    for session in sessions(tool) {
        let name = session
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let truth: Value =
            serde_json::from_slice(&fs::read(session.join("truth.json")).expect("read"))
                .expect("JSON");
        let files = files(&session, wanted);
        let found = files
            .iter()
            .flat_map(|file| runs_in(file))
            .map(|run| counts(&run))
            .fold(Counts::default(), |mut sum, counts| {
                sum.iter_mut()
                    .zip(counts)
                    .for_each(|(sum, count)| *sum += count);
                sum
            });
        for ((field, expected), found) in FIELDS.iter().zip(expected(&truth)).zip(found) {
            let steps_say = |of: &str| field.strip_suffix(" of the run") == Some(of);
            let of_session = || known.iter().filter(|(session, ..)| *session == name);
            let difference = of_session().find(|(_, of, ..)| of == field);
            let difference = difference.or_else(|| of_session().find(|(_, of, ..)| steps_say(of)));
            let expected = difference.map_or(expected, |(_, _, count, _)| *count);
            if fields.contains(field) && found != expected && !files.is_empty() {
                wrong.push(format!("{name}: {found} {field}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn expected(truth: &Value) -> Counts {
    let of = |key: &str| truth[key].as_u64().unwrap_or_default();
    let tokens = |key: &str| {
        ["main", "children"].map(|who| truth["tokens"][who][key].as_u64().unwrap_or_default())
    };
    let tokens = |key: &str| tokens(key).iter().sum::<u64>();
    let cached = tokens("cache_read");
    let input = tokens("input") + cached + tokens("cache_write");
    // This service doesn't count reasoning tokens as output.
    let apart = truth["cli"] == "gemini-cli";
    let output = tokens("output") + if apart { tokens("reasoning") } else { 0 };
    [
        of("model_calls"),
        of("tool_calls"),
        of("tool_errors"),
        of("tool_calls_interrupted"),
        of("tool_calls_unanswered"),
        input,
        cached,
        output,
        tokens("reasoning"),
        of("children"),
        input + output,
        of("model_calls"),
        of("tool_calls"),
        of("tool_errors"),
        input,
        cached,
        output,
        tokens("reasoning"),
    ]
}

/// Returns the paths of a file's runs.
fn runs_in(file: &Path) -> Vec<PathBuf> {
    let found = RootScanner::new(file.parent().expect("a directory").to_owned()).scan();
    let runs = found.runs.values().map(|run| run.path().to_owned());
    runs.filter(|run| run.starts_with(file)).collect()
}

/// Counts the figures of a run from its steps, as a page gets them.
fn counts(run: &Path) -> Counts {
    let run = read(run);
    let mut counts = Counts::default();
    counts[10] = run.row.tokens.unwrap_or_default();
    counts[9] = run
        .index
        .manifest()
        .get()
        .and_then(|manifest| manifest.children)
        .unwrap_or_default();
    let usage = *run.row.usage;
    let kept = [run.row.model_calls, run.row.tool_calls, run.row.tool_errors];
    let kept = kept
        .into_iter()
        .chain([usage.input, usage.cached, usage.output, usage.reasoning]);
    counts
        .iter_mut()
        .skip(11)
        .zip(kept)
        .for_each(|(count, kept)| *count = kept.unwrap_or_default());
    for n in 0..run.index.steps().len() {
        let step = run.step(n);
        let results: Vec<&str> = step["action_results"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|result| result["status"].as_str())
            .collect();
        let calls = step["actions"].as_array().map_or(0, Vec::len);
        let with = |word: &str| results.iter().filter(|status| **status == word).count() as u64;
        let tokens = |key: &str| step["context"][key].as_u64().unwrap_or_default();
        let open = calls.saturating_sub(results.len()) as u64 + with("no answer");
        // The remaining fields aren't per step.
        let more = [
            1,
            calls as u64,
            with("error"),
            with("cancelled"),
            open,
            tokens("input_tokens_total") + tokens("input_tokens"),
            tokens("cached_tokens"),
            tokens("output_tokens"),
            tokens("reasoning_tokens"),
        ];
        counts
            .iter_mut()
            .zip(more)
            .for_each(|(sum, more)| *sum += more);
    }
    counts
}
