//! `board experiment`: compares two sets of runs, and checks a condition on the difference.

use std::io::{self, Write};

use super::columns::Columns;
use super::command::{Done, cut, query_at, write_json};
use super::config::Settings;
use super::look::{Ink, Look};
use super::roots::Roots;
use crate::analysis::experiment::{
    By, Condition, Experiment, Finding, MeasureGroup, Question, Rule, Set, SettingValue, Unit,
    experiment, tasks_digits,
};
use crate::analysis::format::{capitalised, counted, visible_line};
use crate::analysis::query::{Clock, Query};
use crate::analysis::summary::Summary;
use crate::error::{Error, Kind};

/// The width of a line of names.
const WIDTH: usize = 78;
/// Maximum number of names of tasks that are listed for a side.
const MAX_NAMES: usize = 20;
/// Maximum number of characters of a measure's name.
const MAX_LABEL: usize = 32;
/// The number of values of a setting that a line names, and the width of each.
const MAX_VALUES: usize = 3;
const MAX_VALUE: usize = 60;
/// The exit code if the condition holds.
const HOLDS: u8 = 1;
/// The exit code if it can't be decided whether the condition holds.
const UNDECIDED: u8 = 3;

/// Compare two sets of runs: which solves more tasks, at what cost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Runs of the same task are paired. A difference is called clear if p < 0.05; all p-values except the one for success are corrected for the number of measures.
Conditions: MEASURE, MEASURE.low or MEASURE.high (the ends of the 95% interval), then <, <=, > or >=, then a number.
  'success.high < 0' (tasks; with % of tasks)  'tests.low < -0.05' (a critic's score)  'cost > 10%'
  Measures: success, pass_once, pass_always, the names of critics, steps, failed_steps, tokens, cost, time
Exit codes: 0 the condition doesn't hold or there is none, 1 it holds, 2 usage error, 3 it can't be decided or the runs can't be read"
)]
pub(super) struct Args {
    /// The first set: a query, as in `board list`
    #[arg(allow_hyphen_values = true)]
    a: String,
    /// The second set
    #[arg(allow_hyphen_values = true)]
    b: String,
    #[command(flatten)]
    roots: Roots,
    /// Whether runs of the same task are paired
    #[arg(long, value_name = "task|none", default_value = "task")]
    by: By,
    /// What counts as a success: recorded, finished, or a critic's last score such as 'tests>=1'
    #[arg(long, value_name = "RULE", default_value = "recorded")]
    success: Rule,
    /// Exit with 1 if this condition holds, such as 'success.high < 0' or 'cost > 10%'
    #[arg(long, value_name = "CONDITION", allow_hyphen_values = true)]
    fail_if: Option<Condition>,
    /// Print only the verdict and the condition
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
}

pub(super) fn run(args: &Args, look: &Look, out: &mut dyn Write) -> Done {
    let clock = Clock::at(look.now, &look.zone);
    let query = |text: &str| query_at("experiment", text, &clock);
    let (a, b) = (query(&args.a)?, query(&args.b)?);
    let runs = args.roots.runs(
        &args.settings,
        &[&a, &b],
        "pass the directory after both queries: board experiment A B DIR",
    )?;
    let matching = |query: &Query| -> Vec<&Summary> {
        let runs = runs.iter().map(AsRef::as_ref);
        runs.filter(|run: &&Summary| query.matches(*run)).collect()
    };
    let question = Question {
        a: args.a.clone(),
        b: args.b.clone(),
        by: args.by,
        success: args.success.clone(),
    };
    let mut answer = experiment(&matching(&a), &matching(&b), &question);
    if let Some(condition) = &args.fail_if {
        let decision = condition.decide(&answer).map_err(|why| {
            Error::new(Kind::Usage, format!("--fail-if: {why}"))
                .hint("`board experiment --help` explains conditions")
        })?;
        answer.condition = Some(decision);
    }
    if args.json {
        write_json(out, &answer)?;
    } else {
        write_text(&answer, args.quiet, look, out)?;
    }
    Ok(match answer.condition.map(|decision| decision.holds) {
        None | Some(Some(false)) => 0,
        Some(Some(true)) => HOLDS,
        Some(None) => UNDECIDED,
    })
}

fn write_text(
    answer: &Experiment,
    quiet: bool,
    look: &Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let verdict = visible_line(&answer.verdict);
    writeln!(out, "{}", look.paint(Ink::Heading, &verdict))?;
    if !quiet {
        if answer.finding != Finding::Empty {
            writeln!(out)?;
            write_measures(answer, look, out)?;
            write_flips(answer, out)?;
        }
        write_notes(answer, look, out)?;
    }
    if let Some(decision) = &answer.condition {
        let word = match decision.holds {
            Some(true) => "fail",
            Some(false) => "ok",
            None => "undecided",
        };
        writeln!(out, "{word}: {}", visible_line(&decision.why))?;
    }
    Ok(())
}

/// Prints the table of measures.
fn write_measures(answer: &Experiment, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let heads = ["", "A", "B", "B − A", "95% interval", "p", ""];
    let mut rows: Vec<[String; 7]> = Vec::new();
    for measure in &answer.measures {
        let tasks = measure.unit == Unit::Tasks;
        let amount = |value: Option<f64>| match value {
            Some(share) if tasks && measure.tasks > 0 => tasks_digits(share * measure.tasks as f64),
            value => measure.amount(value),
        };
        let label = match measure.group {
            MeasureGroup::Success if tasks && measure.name == "success" => {
                let word = capitalised(answer.solved_word());
                match measure.tasks {
                    0 => word,
                    tasks => format!("{word} tasks (of {tasks})"),
                }
            }
            MeasureGroup::Success if !answer.certainty.paired => {
                format!("{} (percentage points)", measure.label)
            }
            MeasureGroup::Success => {
                let label = measure.label.replace("at least once", "in any run");
                label.replace("every time", "in all runs")
            }
            MeasureGroup::Scores => measure.label.clone(),
            MeasureGroup::Spent => measure.label.replace(" per run", ""),
        };
        rows.push([
            cut(&visible_line(&label), MAX_LABEL),
            amount(measure.a),
            amount(measure.b),
            measure.difference_words(),
            measure.interval(),
            measure.p_words(),
            measure.reading(),
        ]);
    }
    let heads = heads.map(str::to_owned);
    let is_number = |at: usize| at > 0 && at + 1 < heads.len();
    let table = Columns::of(rows.iter().chain([&heads]), is_number);
    writeln!(out, "{}", look.paint(Ink::Dim, &table.line(&heads)))?;
    for row in &rows {
        writeln!(out, "{}", table.line(row))?;
    }
    Ok(())
}

/// Prints the tasks that only one side solved.
fn write_flips(answer: &Experiment, out: &mut dyn Write) -> io::Result<()> {
    let lists = [Set::B, Set::A].map(|set| {
        let names = answer
            .only(set)
            .map(|row| cut(&visible_line(&row.name), 40));
        (set, names.collect::<Vec<String>>())
    });
    if lists.iter().all(|(_, names)| names.is_empty()) {
        return Ok(());
    }
    writeln!(out)?;
    let word = answer.solved_word();
    let heads = lists.iter().map(|(set, _)| {
        let all = answer.only_count(*set);
        format!("Only {} {word} {all}:  ", set.letter())
    });
    let heads: Vec<String> = heads.collect();
    let indent = heads.iter().map(|head| head.chars().count()).max();
    let indent = indent.unwrap_or_default();
    for ((set, names), head) in lists.iter().zip(heads) {
        let mut line = format!("{head:<indent$}");
        if names.is_empty() {
            writeln!(out, "{}", line.replace(":  ", "").trim_end())?;
            continue;
        }
        let more = answer.only_count(*set).saturating_sub(MAX_NAMES);
        let shown = names.iter().take(MAX_NAMES).cloned();
        let words: Vec<String> = shown
            .chain((more > 0).then(|| format!("and {more} more")))
            .collect();
        let mut is_first = true;
        for (at, word) in words.iter().enumerate() {
            let comma = if at + 1 < words.len() { "," } else { "" };
            let length = line.chars().count() + word.chars().count() + comma.len();
            if !is_first && length > WIDTH {
                writeln!(out, "{}", line.trim_end())?;
                line = " ".repeat(indent);
            }
            line.push_str(word);
            line.push_str(comma);
            line.push(' ');
            is_first = false;
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Names the most frequent values of a setting, with numbers of runs if there are several.
fn first_values(values: &[SettingValue]) -> String {
    let of = |value: &SettingValue| cut(&visible_line(&value.value), MAX_VALUE);
    match values {
        [] => "not recorded".to_owned(),
        [one] => of(one),
        several => {
            let one =
                |value: &SettingValue| format!("{} ({})", of(value), counted(value.runs, "run"));
            let first: Vec<String> = several.iter().take(MAX_VALUES).map(one).collect();
            // A value may be a list.
            let is_list = several.iter().any(|value| value.value.contains(", "));
            let others = match several.len() > MAX_VALUES {
                true => " and others",
                false => "",
            };
            format!("{}{others}", first.join(if is_list { "; " } else { ", " }))
        }
    }
}

/// Prints how the sets were compared, what wasn't, and what differs.
fn write_notes(answer: &Experiment, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let mut notes = answer.details.clone();
    if answer.certainty.corrected > 0 {
        notes.push(format!(
            "The p-values of measures other than success are corrected (Holm, {} measures). The intervals aren't.",
            answer.certainty.corrected
        ));
    }
    for setting in answer.differing() {
        notes.push(format!(
            "Differs{}: {}. A: {}. B: {}.",
            answer.compared_words(),
            setting.name,
            first_values(setting.values(Set::A)),
            first_values(setting.values(Set::B))
        ));
    }
    let (_, same) = answer.settings_words();
    if !same.is_empty() {
        notes.push(format!("Same: {same}."));
    }
    if answer.finding == Finding::Unknown {
        for option in &answer.other_rules {
            notes.push(format!(
                "Try --success '{}' (known for {}).",
                option.rule,
                counted(option.known, "run")
            ));
        }
    }
    if !notes.is_empty() {
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "{}", look.paint(Ink::Dim, &visible_line(&note)))?;
    }
    Ok(())
}
