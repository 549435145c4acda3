//! Lists the slowest parts of a run, and what its tools took.

use std::collections::BTreeMap;

use crate::analysis::format;
use crate::analysis::lanes::{Block, Lane, Lanes};
use crate::model::path::relative;
use crate::model::{CallEnd, StepHead, Symbol};
use crate::page::part::href;
use crate::page::part::text::{Line, one_line};
use crate::page::run_view::{RunView, micros, phase};

/// Blocks listed, at most.
const SLOWEST: usize = 9;
/// Maximum number of tools listed.
const TOOLS: usize = 10;
/// Longer calls are truncated; characters.
const CALL_CHARS: usize = 120;

/// A slow part of the run.
#[derive(Debug)]
pub(super) struct Slow {
    pub href: String,
    /// The step's recorded id.
    pub step: Line,
    /// The tool, or the phase.
    pub name: Line,
    /// The main argument. May be empty.
    pub object: Line,
    /// The exit code, or that it failed. May be empty.
    pub failed: Line,
    pub took: Line,
    /// The class and width of its bar, of 100.
    pub class: &'static str,
    pub width: String,
}

/// A tool with the times of its calls.
#[derive(Debug)]
pub(super) struct ToolRow {
    pub name: Line,
    /// The addresses of its steps, and of those that failed.
    pub href: String,
    pub failed_href: String,
    pub calls: Line,
    /// `None` if no call records its outcome.
    pub failed: Option<usize>,
    pub median: Line,
    pub max: Line,
    pub total: Line,
    /// The number of calls whose time isn't known.
    pub untimed: usize,
}

/// Lists the blocks that took longest.
pub(super) fn slowest(view: &RunView<'_>, lanes: &Lanes) -> Vec<Slow> {
    let is_work = |block: &&Block| {
        let is_own = !block.is_wait() && block.lane != Lane::Nested && !block.is_copied;
        is_own && block.took().is_some_and(|took| took > 0)
    };
    let mut blocks: Vec<&Block> = lanes.blocks.iter().filter(is_work).collect();
    blocks.sort_by_key(|block| (std::cmp::Reverse(block.took()), block.from));
    blocks.truncate(SLOWEST);
    let longest = blocks.first().and_then(|block| block.took());
    let row = |block: &Block| {
        let step = block.step.and_then(|n| view.index.steps().get(n));
        let phase_name = view.index.name(block.phase);
        let (name, object) = match (block.lane, step) {
            (Lane::Tools | Lane::Steps, Some(step)) => split_words(view, step),
            (Lane::Model, Some(_)) if is_scripted(view) => ("Decide".to_owned(), String::new()),
            (Lane::Model, Some(_)) => ("Model reply".to_owned(), String::new()),
            _ => (phase(phase_name).1, String::new()),
        };
        let is_failed = block.is_failed;
        let took = block.took().unwrap_or_default();
        Slow {
            href: block
                .step
                .map_or_else(|| view.at_pending(), |n| view.at_step(n)),
            step: block
                .step
                .map_or_else(|| "–".to_owned(), |n| view.label(n))
                .into(),
            name: name.into(),
            object: object.into(),
            failed: match step.and_then(|step| step.returncode) {
                _ if !is_failed => Line::default(),
                Some(code) => format!("✗{}", format::exit_code(code)).into(),
                None => "✗".into(),
            },
            took: micros(took).into(),
            class: match block.lane {
                _ if is_failed => "t-f",
                Lane::Model => "t-m",
                Lane::Tools => "t-t",
                Lane::Engine => "t-e",
                _ => "t-s",
            },
            width: format!(
                "{:.1}",
                100.0 * took as f64 / longest.unwrap_or_default().max(1) as f64
            ),
        }
    };
    blocks.into_iter().map(row).collect()
}

/// Returns the name of the lane of decisions.
pub(super) fn model_lane(view: &RunView<'_>) -> &'static str {
    if is_scripted(view) { "Decide" } else { "Model" }
}

/// Returns whether the agent decides without a model.
pub(super) fn is_scripted(view: &RunView<'_>) -> bool {
    let summary = view.summary;
    !view.index.format().is_one_file()
        && summary.model.is_none()
        && summary.model_calls.unwrap_or_default() == 0
}

#[derive(Default)]
struct Sum {
    calls: usize,
    failed: Option<usize>,
    micros: Vec<i64>,
}

/// Lists the tools by the time that their calls took.
pub(super) fn tools(view: &RunView<'_>, lanes: &Lanes) -> Vec<ToolRow> {
    let index = view.index;
    let mut sums: BTreeMap<Symbol, Sum> = BTreeMap::new();
    let copied = view.summary.copied_steps();
    let took = lanes.calls_took();
    for (n, step) in index.steps().iter().enumerate().skip(copied) {
        for call in &step.calls {
            let sum = sums.entry(call.name).or_default();
            sum.calls += 1;
            // A cancelled call isn't a failure.
            if call.is_ok().is_some() {
                *sum.failed.get_or_insert_default() += usize::from(call.end == CallEnd::Failed);
            }
            let recorded = call.ms().map(|ms| (f64::from(ms) * 1e3) as i64);
            // If several calls are timed together, the time of each is unknown.
            let only = || took.get(&n).copied().filter(|_| step.actions == 1);
            sum.micros.extend(recorded.or_else(only));
        }
    }
    let total = |sum: &Sum| {
        let times = sum.micros.iter().copied();
        times.fold(0_i64, i64::saturating_add)
    };
    let mut rows: Vec<(&str, &Symbol, &mut Sum)> = sums
        .iter_mut()
        .map(|(name, sum)| (index.name(*name), name, sum))
        .collect();
    rows.sort_by_key(|(name, _, sum)| {
        (
            std::cmp::Reverse((total(sum), sum.calls)),
            (*name).to_owned(),
        )
    });
    rows.into_iter()
        .take(TOOLS)
        .map(|(name, _, sum)| {
            sum.micros.sort_unstable();
            let shown = |time: Option<i64>| Line::from(format::or_missing(time, micros));
            let address = |err| {
                let query = [("tool", name), ("err", err)];
                href::with_query(&href::run(view.key()), &query)
            };
            ToolRow {
                name: if name.is_empty() {
                    "(no name)".into()
                } else {
                    name.into()
                },
                href: address(""),
                failed_href: address("1"),
                calls: format::count(sum.calls as u64).into(),
                failed: sum.failed,
                median: shown(median(&sum.micros)),
                max: shown(sum.micros.last().copied()),
                total: shown((!sum.micros.is_empty()).then(|| total(sum))),
                untimed: sum.calls - sum.micros.len(),
            }
        })
        .collect()
}

/// Returns the middle of sorted times.
fn median(sorted: &[i64]) -> Option<i64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    Some(i64::midpoint(lower, upper))
}

/// Returns what a step called, as one line: `Bash uv run pyright`.
pub(super) fn call_words(view: &RunView<'_>, step: &StepHead) -> String {
    let (name, object) = split_words(view, step);
    if object.is_empty() {
        name
    } else {
        format!("{name} {object}")
    }
}

/// Returns the tool that a step called, and the main argument.
fn split_words(view: &RunView<'_>, step: &StepHead) -> (String, String) {
    let short = |text: &str| one_line(text, CALL_CHARS).0;
    let Some((name, args)) = step.call.split_once('(').filter(|_| step.actions > 0) else {
        return match step.call.strip_prefix("answer: ") {
            Some(answer) => ("answer".to_owned(), short(answer)),
            None => (short(&step.call), String::new()),
        };
    };
    let project = view.summary.project.as_deref().unwrap_or_default();
    let more = match step.actions {
        0 | 1 => String::new(),
        actions => format!(" +{}", actions - 1),
    };
    (
        short(name),
        format!("{}{more}", short(&main_argument(args, project))),
    )
}

/// Returns the first text among the arguments of a call in a list: `command="ls", timeout=3)`. Paths
/// are relative to the project.
fn main_argument(args: &str, project: &str) -> String {
    let Some((_, text)) = args.split_once("=\"") else {
        return String::new();
    };
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('n' | 't' | 'r') => out.push(' '),
                Some(other) => out.push(other),
                None => {}
            },
            letter => out.push(letter),
        }
    }
    relative(&out, project).to_owned()
}

/// Returns how a step failed, and its first error.
pub(super) fn ended(view: &RunView<'_>, step: Option<usize>) -> (Option<String>, Option<String>) {
    let Some((n, head)) = step.and_then(|n| Some((n, view.index.steps().get(n)?))) else {
        return (Some("failed".to_owned()), None);
    };
    let printed = head
        .failed_call
        .as_ref()
        .and_then(|call| call.printed.as_deref());
    let error = view.index.failure_of(n).or(printed);
    let end = match head.returncode {
        Some(code) => format!("✗ exit code {}", format::exit_code(code)),
        None if head.is_cancelled() => "cancelled".to_owned(),
        None => "✗ failed".to_owned(),
    };
    (Some(end), error.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3]), Some(3));
        assert_eq!(median(&[1, 3]), Some(2));
        assert_eq!(median(&[1, 3, 100]), Some(3));
    }

    #[test]
    fn a_call_is_shown_by_its_first_text() {
        let shown = |args| main_argument(args, "/home/a/p");
        assert_eq!(
            shown(r#"command="uv run \"x\"", timeout=3)"#),
            "uv run \"x\""
        );
        assert_eq!(
            shown(r#"offset=3, file_path="/home/a/p/src/lib.rs")"#),
            "src/lib.rs"
        );
        assert_eq!(shown("todos=[…])"), "");
        assert_eq!(shown(r#"command="cut in the mid…"#), "cut in the mid…");
    }
}
