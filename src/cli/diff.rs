//! `board diff`: shows where two runs diverge and how they differ.

use std::io::{self, Write};
use std::path::PathBuf;

use super::columns::{cut_end, padded};
use super::command::{Done, cut, write_json};
use super::config::Settings;
use super::look::{Ink, Look, ink_of};
use super::open::open;
use crate::analysis::compare::{
    Comparison, Config, Row, Side, compare, compared, measures_of_two, settings,
};
use crate::analysis::format::{MISSING, count, counted, visible_line};
use crate::recorded::RecordedRun;

/// The number of rows printed before and after the point of divergence.
const AROUND: usize = 3;
/// The maximum length of a setting's value, in characters.
const MAX_VALUE: usize = 60;
/// The maximum length of a tool call, in characters.
const MAX_CALL: usize = 56;

/// Show where two runs diverge and how they differ; exits with 1 if they do
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_name = "A", help = super::command::RUN)]
    a: PathBuf,
    /// The other run
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let prices = args.settings.read()?.prices;
    let open = |path| open(path, look.now).map(|run| run.priced(&prices));
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let [one, other] = &[&a, &b].map(|run| Side::new(&run.summary, &run.index, run));
    if args.json {
        let compared = compared(one, other);
        write_json(out, &compared)?;
        return Ok(u8::from(compared.differs));
    }
    let comparison = compare(&a.index, &b.index);
    let config = settings(one, other);
    let name = |run: &RecordedRun| look.paint(Ink::Heading, &visible_line(run.name()));
    for (letter, run) in [("A", &a), ("B", &b)] {
        let mark = look.paint(ink_of(&run.summary), run.summary.shown_status().as_str());
        writeln!(out, "{letter}  {}  {mark}", name(run))?;
        writeln!(out, "   {}.", visible_line(&run.summary.verdict.sentence))?;
    }
    writeln!(
        out,
        "\n{}",
        visible_line(&comparison.whole_sentence(one, other, &config))
    )?;
    write_rows(out, &comparison, &a, &b, look)?;
    write_metrics(out, one, other, look)?;
    write_config(out, &config, look)?;
    Ok(u8::from(
        comparison.first.is_some() || !config.differs.is_empty(),
    ))
}

/// Writes the rows around the point of divergence.
fn write_rows(
    out: &mut dyn Write,
    comparison: &Comparison,
    a: &RecordedRun,
    b: &RecordedRun,
    look: &Look,
) -> io::Result<()> {
    let Some(first) = comparison.first else {
        return Ok(());
    };
    let from = first.saturating_sub(AROUND);
    writeln!(out)?;
    if from > 0 {
        writeln!(
            out,
            "  {}",
            look.paint(Ink::Dim, &format!("… {}", counted(from, "earlier step")))
        )?;
    }
    let rows = comparison
        .rows
        .iter()
        .enumerate()
        .skip(from)
        .take(first - from + 1 + AROUND);
    let rows: Vec<(usize, &Row)> = rows.collect();
    for (at, row) in &rows {
        let mark = if *at == first { ">" } else { " " };
        let cells = [cell(a, row.pair.a), cell(b, row.pair.b)];
        let [left, right] = &cells;
        let line = format!("{mark} {}  {right}  ", padded(left, MAX_CALL, false));
        writeln!(out, "{line}{}", look.paint(Ink::Dim, row.relation.label()))?;
    }
    let after = comparison.rows.len() - (from + rows.len());
    if after > 0 {
        writeln!(
            out,
            "  {}",
            look.paint(Ink::Dim, &format!("… {}", counted(after, "more step")))
        )?;
    }
    Ok(())
}

/// Formats a step on one line: its label and its tool call.
fn cell(run: &RecordedRun, n: Option<usize>) -> String {
    let step = n.and_then(|n| Some((n, run.index.steps().get(n)?)));
    let Some((n, step)) = step else {
        return MISSING.to_owned();
    };
    let text = format!("{} {}", run.index.label(n), visible_line(&step.call));
    cut_end(&text, MAX_CALL)
}

fn write_metrics(out: &mut dyn Write, a: &Side<'_>, b: &Side<'_>, look: &Look) -> io::Result<()> {
    let title = format!("{:<33} {:>14} {:>14} {:>18}", "metrics", "A", "B", "B − A");
    writeln!(out, "\n{}", look.paint(Ink::Heading, &title))?;
    for (one, other) in measures_of_two((a.summary, a.index), (b.summary, b.index)) {
        let (left, right) = (one.words(), other.words());
        writeln!(
            out,
            "{:<33} {left:>14} {right:>14} {:>18}",
            one.name,
            one.unit.delta(one.value, other.value)
        )?;
    }
    Ok(())
}

fn write_config(out: &mut dyn Write, config: &Config, look: &Look) -> io::Result<()> {
    let differ = config.differing();
    let equal = count(config.equal.len() as u64);
    let counts = match config.count() + config.equal.len() {
        0 => "not recorded".to_owned(),
        _ => format!("{differ}, {equal} equal"),
    };
    writeln!(out, "\n{}  {counts}", look.paint(Ink::Heading, "settings"))?;
    for setting in &config.differs {
        let value = |value: &Option<String>| {
            value.as_deref().map_or_else(
                || "not recorded".to_owned(),
                |text| cut(&visible_line(text), MAX_VALUE),
            )
        };
        // The whole manifest, if one of the runs has none.
        let path = match visible_line(&setting.path) {
            path if path.is_empty() => "manifest".into(),
            path => path,
        };
        writeln!(
            out,
            "  {path}  {} → {}",
            value(&setting.a),
            value(&setting.b)
        )?;
    }
    if config.more > 0 {
        writeln!(
            out,
            "  {}",
            look.paint(
                Ink::Dim,
                &format!("and {}", counted(config.more, "more setting"))
            )
        )?;
    }
    Ok(())
}
