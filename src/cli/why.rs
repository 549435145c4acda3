//! `board why`: explains why a run stopped, with evidence and the state of every rule.

use std::io::{self, Write};
use std::path::PathBuf;

use super::command::{Done, write_json};
use super::config::Settings;
use super::look::{Ink, Look, ink_of};
use super::open::open;
use crate::analysis::format::{MISSING, visible_line};
use crate::analysis::health;
use crate::analysis::verdict::LimitFrom;
use crate::analysis::why::{RuleStatus, Standing, Why, rules, why};
use crate::model::{Bound, Index, Op, Origin};
use crate::recorded::RecordedRun;

/// Limits the differences listed for copies.
const MAX_TOLD: usize = 20;
/// The maximum width of a rule's name. Longer names run into the next column.
const MAX_NAME: usize = 40;

/// Explain why a run stopped, with evidence and the state of every rule
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "RUN", help = super::command::RUN)]
    run: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let run = open(&args.run, look.now)?
        .with_near(&args.run, look.now)
        .priced(&args.settings.read()?.prices);
    if args.json {
        write_json(out, &why(&run.summary, &run.index, &run))?;
    } else {
        write_text(out, &run, look)?;
    }
    Ok(run.exit_code())
}

fn write_text(out: &mut dyn Write, run: &RecordedRun, look: &Look) -> io::Result<()> {
    let (summary, index) = (&run.summary, &run.index);
    let verdict = &summary.verdict;
    let explanation = why(summary, index, run);
    let mark = look.paint(ink_of(summary), summary.shown_status().as_str());
    writeln!(
        out,
        "{}  {mark}",
        look.paint(Ink::Heading, &visible_line(run.name()))
    )?;
    writeln!(out, "{}.", visible_line(&verdict.sentence))?;
    if !verdict.second.is_empty() {
        writeln!(out, "{}", visible_line(&verdict.second))?;
    }
    let certainty = [explanation.certainty.as_str(), explanation.doubt];
    let certainty = certainty.into_iter().filter(|words| !words.is_empty());
    writeln!(
        out,
        "{}  {}",
        look.paint(Ink::Dim, "certainty"),
        certainty.collect::<Vec<_>>().join("; ")
    )?;
    if let Some(pace) = &explanation.pace {
        writeln!(
            out,
            "{}       {}",
            look.paint(Ink::Dim, "pace"),
            visible_line(pace)
        )?;
    }
    write_evidence(out, index, &explanation, look)?;
    write_rules(
        out,
        &explanation.rules,
        !summary.life.liveness.may_grow(),
        look,
    )?;
    writeln!(out)?;
    if let Some(trouble) = &explanation.first_trouble {
        let place = trouble
            .place(index)
            .map_or_else(String::new, |place| format!("{place}: "));
        writeln!(
            out,
            "{}  {place}{}",
            look.paint(Ink::Heading, "first sign of trouble"),
            visible_line(&trouble.text)
        )?;
    }
    if let Some(failed) = explanation.failed_commands {
        writeln!(
            out,
            "{}  {}",
            look.paint(Ink::Heading, "commands"),
            failed.words()
        )?;
    }
    for contradiction in &explanation.contradictions {
        writeln!(
            out,
            "{}  {}",
            look.paint(Ink::Warning, "contradiction"),
            visible_line(contradiction)
        )?;
    }
    for words in summary.relation.copies_say.iter().take(MAX_TOLD) {
        writeln!(
            out,
            "{}  {}",
            look.paint(Ink::Heading, "a duplicate differs"),
            visible_line(words)
        )?;
    }
    writeln!(
        out,
        "{}  {}",
        look.paint(Ink::Heading, "trace health"),
        health::in_words(summary.issues)
    )
}

fn write_evidence(
    out: &mut dyn Write,
    index: &Index,
    explanation: &Why,
    look: &Look,
) -> io::Result<()> {
    if explanation.evidence.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", look.paint(Ink::Heading, "evidence"))?;
    for piece in &explanation.evidence {
        let place = piece
            .place(index)
            .map_or_else(String::new, |place| format!("  [{place}]"));
        writeln!(
            out,
            "  {}{}",
            visible_line(&piece.text),
            look.paint(Ink::Dim, &place)
        )?;
    }
    Ok(())
}

/// Describes who set a rule or its limit.
fn set_by(from: LimitFrom, has_limit: bool) -> String {
    match from {
        _ if !has_limit => from.words().to_owned(),
        LimitFrom::SetBy(Origin::Default) => format!("{} limit", from.words()),
        _ => format!("limit {}", from.words()),
    }
}

/// Writes one rule per line, in columns.
fn write_rules(
    out: &mut dyn Write,
    rows: &[RuleStatus],
    ended: bool,
    look: &Look,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{}  {}",
        look.paint(Ink::Heading, "stop rules"),
        rules::tally(rows)
    )?;
    let name = |rule: &RuleStatus| {
        let id = if rule.is_listed() {
            format!(" {}", rule.id)
        } else {
            String::new()
        };
        visible_line(&format!("{}{id}", rule.name())).into_owned()
    };
    let width = rows
        .iter()
        .map(|rule| name(rule).chars().count())
        .max()
        .unwrap_or_default()
        .min(MAX_NAME);
    let state_width = rows
        .iter()
        .map(|rule| rule.state(ended).chars().count())
        .max()
        .unwrap_or_default();
    let head = format!("  {:<width$} {:<22} state", "rule", "measured, limit");
    writeln!(out, "{}", look.paint(Ink::Dim, &head))?;
    for rule in rows {
        let name = format!("{:<width$}", name(rule));
        let amount = |value: Option<f64>| {
            value.map_or_else(|| MISSING.to_owned(), |value| rule.amount(value))
        };
        let compared = match (rule.reading.measured(), rule.reading.limit()) {
            (None, None) => String::new(),
            (Some(_), None) => rule.used().unwrap_or_default(),
            (None, limit) => format!("limit {}", amount(limit)),
            (Some(_), Some(limit)) => {
                let is_used_up = rule.reading.op != Some(Op::Below) && rule.bound == Bound::Exact;
                let word = if is_used_up { " of" } else { ", limit" };
                let used = rule.used().unwrap_or_default();
                format!("{used}{word} {}", amount(Some(limit)))
            }
        };
        let state = rule.state(ended);
        let ink = if rule.result == Standing::Fired || rule.is_inferred {
            Ink::Heading
        } else {
            Ink::Dim
        };
        let by = match rule.limit_from {
            Some(from) => format!("  {}", set_by(from, rule.reading.limit().is_some())),
            None => String::new(),
        };
        let note = if rule.note.is_empty() {
            String::new()
        } else {
            format!("  ({})", visible_line(&rule.note))
        };
        let pad = match by.is_empty() && note.is_empty() {
            true => 0,
            false => state_width.saturating_sub(state.chars().count()),
        };
        let line = format!(
            "  {name} {compared:<22} {}{}{by}{note}",
            look.paint(ink, &state),
            " ".repeat(pad)
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}
