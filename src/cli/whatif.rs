//! `board whatif`: shows where other rules would have stopped runs.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::columns::{Columns, widths};
use super::command::{Done, write_json};
use super::config::Settings;
use super::look::{Ink, Look};
use super::open::open;
use crate::analysis::copies::Fingerprint;
use crate::analysis::format::{MISSING, bound, count, counted, millis, visible_line};
use crate::analysis::whatif::{
    EndCause, RuleEffect, RuleSet, StopTiming, WhatIfReport, Wrong, label, report, rule_set, typed,
};
use crate::error::{Error, Kind, Result};
use crate::recorded::RecordedRun;
use crate::stop::{RULES, Row, SpecError};

/// The maximum size of a schema.
const MAX_SCHEMA_BYTES: u64 = 1 << 20;

/// Show where other stop rules would have stopped recorded runs
#[derive(Debug, clap::Args)]
#[command(after_help = rules_help())]
pub(super) struct Args {
    #[arg(value_name = "RUN", required = true, help = super::command::RUN)]
    runs: Vec<PathBuf>,
    /// A rule to evaluate; repeatable
    #[arg(long = "rule", value_name = "RULE", allow_hyphen_values = true)]
    rules: Vec<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

/// Returns the help on rules: the syntax of each, and when it's true.
fn rules_help() -> String {
    let line = |row: &&Row| format!("\n  {:<33}  {}", row.usage, row.when);
    format!(
        "A rule is name=value or JSON:{}
Example of a group:
  {}",
        RULES.iter().map(line).collect::<String>(),
        r#"{"type":"any_of","of":[{"type":"max_steps","steps":8},{"type":"keyword","keyword":"DONE"}]}"#
    )
}

/// One path: the result, or the error.
#[derive(Debug, Serialize)]
struct Entry {
    path: String,
    #[serde(flatten)]
    whatif: Option<WhatIfReport>,
    error: Option<String>,
    /// The earlier path with the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<String>,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let rule_set = ask(&args.rules)?;
    let prices = args.settings.read()?.prices;
    let mut entries = Vec::new();
    let mut first_error = None;
    let mut failed = 0;
    let mut seen: HashMap<(Fingerprint, Option<u64>), String> = HashMap::new();
    for path in &args.runs {
        let shown = path.to_string_lossy().into_owned();
        match open(path, look.now) {
            Ok(run) => {
                let run = run.priced(&prices);
                let print = run.summary.fingerprint;
                // Without times, runs of one thread with the same steps are distinguished by their
                // tokens.
                let known = (print, run.summary.tokens.filter(|_| print.is_untimed));
                let duplicate_of = seen.get(&known).cloned();
                // Without an id or a time, different runs may look the same.
                if print.run.is_some() || print.first.is_some() {
                    seen.entry(known).or_insert_with(|| shown.clone());
                }
                let report = report(&rule_set, &run.summary, &run.index, &run);
                if args.json {
                    entries.push(Entry {
                        path: shown,
                        whatif: Some(report),
                        error: None,
                        duplicate_of,
                    });
                } else {
                    if let Some(other) = duplicate_of {
                        let (path, other) = (visible_line(&shown), visible_line(&other));
                        writeln!(out, "{path}: duplicate of {other}; count it once")?;
                    }
                    write_text(out, &run, &report, look)?;
                }
            }
            Err(error) if args.runs.len() == 1 => return Err(error.into()),
            // One invalid path must not hide the other runs.
            Err(error) => {
                failed += 1;
                if args.json {
                    entries.push(Entry {
                        path: shown,
                        whatif: None,
                        error: Some(error.to_string()),
                        duplicate_of: None,
                    });
                } else {
                    let path = look.paint(Ink::Heading, &visible_line(&shown));
                    writeln!(
                        out,
                        "{path}: not evaluated: {}",
                        visible_line(&error.to_string())
                    )?;
                }
                first_error.get_or_insert(error);
            }
        }
    }
    if args.json {
        write_json(out, &BTreeMap::from([("runs", entries)]))?;
    }
    match first_error {
        Some(error) => {
            let what = format!(
                "{} of {} couldn't be evaluated",
                count(failed),
                counted(args.runs.len(), "path")
            );
            Err(Error::new(error.kind(), what).because(error).into())
        }
        None => Ok(0),
    }
}

/// Parses the rules.
fn ask(rules: &[String]) -> Result<RuleSet> {
    if rules.is_empty() {
        let error = Error::new(Kind::Usage, "no rules given");
        return Err(error.hint(
            "pass at least one: board whatif RUN --rule max_steps=8 --rule token_budget=10000",
        ));
    }
    let typed = typed(rules.iter().cloned(), schema);
    if let Some((text, wrong)) = typed
        .iter()
        .find_map(|rule| Some((&rule.text, rule.read.as_ref().err()?)))
    {
        let rule = match wrong.names(text) {
            true => "a rule".to_owned(),
            false => format!("the rule {text}"),
        };
        let Wrong { why, example } = wrong;
        let error =
            Error::new(Kind::Usage, format!("can't evaluate {rule}")).because(SpecError::new(why));
        return Err(error.hint(format!("for example: --rule '{example}'")));
    }
    rule_set(&typed)
        .map_err(|error| Error::new(Kind::Usage, "can't evaluate these rules").because(error))
}

/// Reads a schema.
fn schema(file: &str) -> Result<Value, String> {
    let unreadable =
        |error: &dyn std::fmt::Display| format!("can't read the schema file {file}: {error}");
    let mut text = Vec::new();
    let opened = File::open(file).map_err(|error| unreadable(&error))?;
    opened
        .take(MAX_SCHEMA_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| unreadable(&error))?;
    if text.len() as u64 > MAX_SCHEMA_BYTES {
        return Err(unreadable(&"it is larger than 1 MiB"));
    }
    serde_json::from_slice(&text)
        .map_err(|error| format!("the schema file {file} isn't JSON: {error}"))
}

/// The header of each column, and whether its cells are right-aligned. The reason is appended last
/// because it may be long.
const COLUMNS: [(&str, bool); 7] = [
    ("rule", false),
    ("vs. recorded", false),
    ("step", true),
    ("steps saved", true),
    ("tokens saved", true),
    ("time saved", true),
    ("answer", false),
];

fn write_text(
    out: &mut dyn Write,
    run: &RecordedRun,
    report: &WhatIfReport,
    look: &Look,
) -> io::Result<()> {
    let path = visible_line(run.summary.path.trim_end_matches('/')).into_owned();
    writeln!(
        out,
        "{}: {}",
        look.paint(Ink::Heading, &path),
        visible_line(&report.headline.to_string())
    )?;
    let rows: Vec<[String; 7]> = report
        .all_rules()
        .map(|answer| cells(run, answer, report.estimated))
        .collect();
    let heads = COLUMNS.map(|(head, _)| head.to_owned());
    let is_number = |at: usize| COLUMNS.get(at).is_some_and(|(_, right)| *right);
    // The reason follows as one more column, so that the last one is padded too.
    let mut widths = widths(rows.iter().chain([&heads]));
    widths.push(0);
    let table = Columns::new(widths, is_number);
    let line = |cells: &[String; 7]| table.cells(cells).join("  ");
    writeln!(
        out,
        "  {}",
        look.paint(Ink::Dim, &format!("{}  why", line(&heads)))
    )?;
    let own = std::iter::repeat_n(false, report.rules.len()).chain(std::iter::repeat(true));
    for ((row, answer), is_own) in rows.iter().zip(report.all_rules()).zip(own) {
        let text = line(row);
        let ink = match answer.result.found {
            StopTiming::Earlier => Ink::Warning,
            StopTiming::Same => Ink::Heading,
            StopTiming::NotReached | StopTiming::Unknown => Ink::Dim,
        };
        let why = if is_own {
            answer.own_reason(&run.index)
        } else {
            answer.result.reason(&run.index)
        };
        // Another column may have said it.
        if row.contains(&why) {
            writeln!(out, "  {}", look.paint(ink, text.trim_end()))?;
        } else {
            writeln!(out, "  {}  {}", look.paint(ink, &text), visible_line(&why))?;
        }
    }
    report
        .gaps()
        .iter()
        .try_for_each(|gap| writeln!(out, "  {}", look.paint(Ink::Dim, &visible_line(gap))))
}

fn cells(run: &RecordedRun, answer: &RuleEffect, estimated: bool) -> [String; 7] {
    let result = &answer.result;
    let fires = result.fires();
    let step = match result.step {
        Some(step) => label(&run.index, step),
        None if fires => "none runs".to_owned(),
        None => MISSING.to_owned(),
    };
    let number = |value: Option<u64>, show: &dyn Fn(u64) -> String| match value {
        Some(value) => show(value),
        None if fires => "unknown".to_owned(),
        None => MISSING.to_owned(),
    };
    let tokens = |tokens| format!("{}{}", bound(false, estimated && tokens > 0), count(tokens));
    let against = if result.off.is_some() {
        "off"
    } else {
        result.found.words()
    };
    let answered = run.summary.verdict.answered;
    [
        match &answer.rule {
            EndCause::Ending(word) => format!("recorded end ({})", visible_line(word)),
            // A limit of the run's budget can't be passed to `--rule`.
            EndCause::Budget(row, limit) => {
                format!("{} ({})", row.label, EndCause::limit_words(row, *limit))
            }
            rule => visible_line(&rule.to_string()).into_owned(),
        },
        against.to_owned(),
        step,
        number(result.saved.steps, &count),
        number(result.saved.tokens, &tokens),
        number(result.saved.ms, &|ms| match ms {
            0 => "0".to_owned(),
            ms => millis(ms as f64),
        }),
        result.answer(answered).unwrap_or(MISSING).to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_rule() {
        let help = rules_help();
        assert!(
            RULES
                .iter()
                .all(|row| help.contains(row.usage) && help.contains(row.when)),
            "{help}"
        );
    }
}
