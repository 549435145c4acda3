//! Writes scores as CSV for other programs. It has a row for each step of the newest run with
//! critics, and a column for each critic. Numbers are spelled as in the file. Scores of the whole
//! run are rows without a step.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use crate::analysis::newest::newest_run;
use crate::model::{CriticAction, Index, RunScore, Symbol};
use crate::page::part::csv;
use crate::page::scores::critic_texts::{CriticText, critic_texts};

/// A run to write.
pub(crate) struct CsvRun<'a> {
    /// The name of the run, for a separate column. `None` omits the column.
    pub name: Option<&'a str>,
    /// The index of the run.
    pub index: &'a Index,
    /// Reads the line of a step.
    pub line: &'a dyn Fn(usize) -> Option<Vec<u8>>,
}

/// Writes runs one after the other, with one column for each critic of any run.
///
/// # Errors
/// Returns the errors of `out`.
pub(crate) fn write_csv(out: &mut dyn Write, runs: &[CsvRun<'_>]) -> io::Result<()> {
    let mut critics: Vec<String> = Vec::new();
    let mut columns: HashMap<String, usize> = HashMap::new();
    for run in runs {
        let of_steps = newest_run(run.index)
            .flat_map(|(_, step)| &step.critics)
            .map(|mark| run.index.name(mark.name));
        for name in of_steps.chain(of_run(run.index).map(|given| &*given.name)) {
            if columns.contains_key(name) {
                continue;
            }
            columns.insert(name.to_owned(), columns.len());
            if critics.len() < MAX_COLUMNS {
                critics.push(name.to_owned());
            }
        }
    }
    let width = critics.len();
    if columns.len() > width {
        critics.push(format!("and {} more critics", columns.len() - width));
    }
    let named = runs.iter().any(|run| run.name.is_some());
    let lead = if named {
        &["run", "step", "step_id"][..]
    } else {
        &["step", "step_id"]
    };
    let head = lead
        .iter()
        .copied()
        .chain(critics.iter().map(String::as_str))
        .chain(["asked"]);
    csv::write_row(out, head)?;
    let others = (critics.len() > width).then_some("");
    for run in runs {
        let mut places: HashMap<Symbol, usize> = HashMap::new();
        for (n, step) in newest_run(run.index).filter(|(_, step)| !step.critics.is_empty()) {
            let line = (run.line)(n);
            let outputs = line.as_deref().map(critic_texts).unwrap_or_default();
            let mut row = Cells::default();
            for (place, mark) in step.critics.iter().enumerate() {
                let name = run.index.name(mark.name);
                let at = *places
                    .entry(mark.name)
                    .or_insert_with(|| columns.get(name).copied().unwrap_or_default());
                // If the line can't be read any more, the index still has the number.
                let score = outputs.get(place).map_or_else(
                    || number(mark.score),
                    |critic_texts| critic_texts.score.clone(),
                );
                row.scores.insert(at, score);
                row.requested.extend(
                    word(mark.action, outputs.get(place)).map(|word| format!("{name} {word}")),
                );
            }
            let (step_n, id) = (
                n.to_string(),
                step.step_id.map(|id| id.to_string()).unwrap_or_default(),
            );
            let lead = run.name.into_iter().chain([step_n.as_str(), &id]);
            let scores = (0..width).map(|at| row.scores.get(&at).map_or("", String::as_str));
            let requested = row.requested.join("; ");
            csv::write_row(
                out,
                lead.chain(scores).chain(others).chain([requested.as_str()]),
            )?;
        }
        let at = |name: &str| columns.get(name).copied().unwrap_or_default();
        let whole: BTreeMap<usize, String> = of_run(run.index)
            .map(|given| (at(&given.name), of_grade(given)))
            .collect();
        if !whole.is_empty() {
            let lead = run.name.into_iter().chain(["", ""]);
            let scores = (0..width).map(|at| whole.get(&at).map_or("", String::as_str));
            csv::write_row(out, lead.chain(scores).chain(others).chain([""]))?;
        }
    }
    Ok(())
}

/// Returns the scores of the whole run.
fn of_run(index: &Index) -> impl Iterator<Item = &RunScore> {
    index
        .manifest()
        .get()
        .into_iter()
        .flat_map(|manifest| &manifest.scores)
}

/// Maximum number of critics that get a column. Otherwise the table could become far too large.
const MAX_COLUMNS: usize = 1_000;

/// The row of a step.
#[derive(Default)]
struct Cells {
    /// The scores by column. A map, because most critics of a long run may have no score here.
    scores: BTreeMap<usize, String>,
    /// The requested actions, each with its critic.
    requested: Vec<String>,
}

/// Returns a score of the run, or its grade if it isn't a number.
fn of_grade(given: &RunScore) -> String {
    given.score.map_or_else(
        || given.grade.as_deref().unwrap_or_default().to_owned(),
        |score| number(Some(score)),
    )
}

fn number(score: Option<f64>) -> String {
    score.map(|score| score.to_string()).unwrap_or_default()
}

/// Returns the action that a critic requested, as recorded. Returns `None` for `continue`.
fn word(action: CriticAction, critic_texts: Option<&CriticText>) -> Option<String> {
    let own = critic_texts
        .map(|critic_texts| critic_texts.action.clone())
        .filter(|word| !word.is_empty());
    (action != CriticAction::Continue).then(|| own.unwrap_or_else(|| action.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::model::{Delta, Names};
    use crate::page::scores::csv::*;

    /// Returns the table of a run with these critic outputs, one list per step.
    fn table(name: Option<&str>, steps: &[String]) -> String {
        let mut names = Names::default();
        let line = |(n, outputs): (usize, &String)| {
            format!(r#"{{"step_id": {n}, "critic_outputs": [{outputs}]}}"#)
        };
        let lines: Vec<String> = steps.iter().enumerate().map(line).collect();
        let heads = lines
            .iter()
            .map(|line| crate::format::step_head(line.as_bytes(), &mut names).0)
            .collect();
        let mut index = Index::default();
        index.apply(Delta {
            steps: heads,
            names: names.since(0).to_vec(),
            ..Delta::default()
        });
        let line = |n: usize| lines.get(n).map(|line| line.as_bytes().to_vec());
        let mut out = Vec::new();
        write_csv(
            &mut out,
            &[CsvRun {
                name,
                index: &index,
                line: &line,
            }],
        )
        .unwrap();
        String::from_utf8(out).unwrap()
    }

    fn output(name: &str, score: &str) -> String {
        format!(r#"{{"critic_name": "{name}", "score": {score}}}"#)
    }

    #[test]
    fn words_are_no_formulas_and_numbers_stay_as_recorded() {
        let text = table(Some("@run"), &[output("=1+1", "-0.50")]);
        assert_eq!(text, "run,step,step_id,'=1+1,asked\r\n'@run,0,0,-0.50,\r\n");
        for number in ["-0.50", "+1", "-1e-3", "-Infinity", "1"] {
            assert_eq!(csv::harmless(number), number);
        }
        let words = [
            r#""=cmd|'/c calc'!A1""#,
            r#""+x""#,
            r#""-1+2""#,
            r#""@SUM(1)""#,
            r#""\t=1""#,
            r#""high""#,
        ];
        let steps: Vec<String> = words.iter().map(|score| output("a", score)).collect();
        let text = table(None, &steps);
        let cells: Vec<&str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split(',').nth(2))
            .collect();
        assert_eq!(
            cells,
            [
                "'=cmd|'/c calc'!A1",
                "'+x",
                "'-1+2",
                "'@SUM(1)",
                "'\t=1",
                "high"
            ]
        );
        let requested = table(
            None,
            &[r#"{"critic_name": "-x", "action": "retry"}"#.to_owned()],
        );
        assert_eq!(requested, "step,step_id,'-x,asked\r\n0,0,,'-x retry\r\n");
    }

    #[test]
    fn nothing_is_hidden_and_the_columns_have_an_end() {
        let text = table(None, &[output("\\u001b[31m\\u202e", "1")]);
        assert_eq!(text, "step,step_id,␛[31m⟨U+202E⟩,asked\r\n0,0,1,\r\n");
        let many: Vec<String> = (0..MAX_COLUMNS + 5)
            .map(|n| output(&format!("c{n}"), "1"))
            .collect();
        let steps: Vec<String> = many.chunks(50).map(|critics| critics.join(", ")).collect();
        let text = table(None, &steps);
        assert!(
            text.lines()
                .all(|line| line.split(',').count() == MAX_COLUMNS + 4)
        );
        assert!(
            text.contains(",c999,and 5 more critics,asked\r\n"),
            "{}",
            &text[..40]
        );
    }

    #[test]
    fn a_row_has_a_cell_for_every_critic_of_the_run() {
        let steps = [
            [output("a", "1"), output("b", "0.50")].join(", "),
            output("c", "1e-3"),
            output("a", "0"),
        ];
        let text = table(
            None,
            &[
                steps[0].clone(),
                steps[1].clone(),
                format!("{0}, {0}", steps[2]),
            ],
        );
        assert_eq!(
            text,
            "step,step_id,a,b,c,a 1,a 2,asked\r\n0,0,1,0.50,,,,\r\n1,1,,,1e-3,,,\r\n2,2,,,,0,0,\r\n"
        );
    }
}
