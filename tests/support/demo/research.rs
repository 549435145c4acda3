//! A research agent collects evidence from sources and answers in a required format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cast::{Actor, Decided, act, answer, engine, field};
use super::stage::{Run, Stage};
use trace_board::engine::{Action, Done, State, StepCx, Task};
use trace_board::error::Result;
use trace_board::stop::{Keyword, StructuredOutput};
use trace_board::tools::{ListDir, ReadFile, Search};

#[derive(Debug, Default, Serialize, Deserialize)]
struct PreparedSweep {
    sources: Sources,
    evidence: Vec<Evidence>,
    /// Claims by source, for quoting in the answer.
    citations: BTreeMap<String, Citation>,
    contradictions: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Sources {
    unread: Vec<String>,
    read: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Evidence {
    bridge: String,
    finished: u64,
    source: String,
    line: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Citation {
    line: u64,
    quote: String,
}

/// A researcher whose answer must be JSON.
pub(super) fn research(stage: &Stage) -> Result<Run> {
    let bridges = ["North Bridge", "Mill Bridge", "Rope Bridge"];
    for bridge in bridges {
        let (built, cost) = (stage.dice.between(1880, 1930), stage.dice.between(90, 800));
        let took = stage.dice.between(1, 4);
        let text = format!(
            "{bridge}\n\nBegun in {built} by the town's own workshop.\n{bridge} was finished in {} at a cost of {cost} crowns.\n\
             The records of the workshop burnt in 1944.\n",
            built + took
        );
        stage.file(
            &format!("archive/{}.txt", bridge.to_lowercase().replace(' ', "_")),
            &text,
        );
    }
    let doubted = stage.dice.pick(&bridges, "North Bridge");
    let year = stage.dice.between(1931, 1939);
    stage.file(
        "archive/gazette.txt",
        &format!("From the Gazette\n\nThe mayor recalls that {doubted} was finished in {year}.\n"),
    );
    let workspace = stage.workspace()?;
    let engine =
        engine(Actor::new(stage, "researcher", PreparedSweep::default(), inquire).reduce(note))
            .tool(ListDir::new(workspace.clone()))
            .tool(Search::new(workspace.clone()))
            .tool(ReadFile::new(workspace, 2 << 10))
            .stop(StructuredOutput {
                schema: None,
                fenced: false,
            })
            .max_steps(12);
    let task =
        Task::new("Which of the town's bridges was finished first? Answer as JSON with bridge, year and citations.")
            .id("bridges")
            .input("archive", "archive")
            .success("every claim has a citation");
    stage.play(engine, task)
}

fn inquire(state: &State<PreparedSweep>, cx: &StepCx<'_>) -> Decided {
    let PreparedSweep {
        sources,
        evidence,
        contradictions,
        ..
    } = &state.data;
    match (cx.step, sources.unread.first()) {
        (0, _) => act(
            "First, see what's in the archive.",
            Action::new("list_dir").arg("path", "archive"),
        ),
        (1, _) => {
            let action = Action::new("search")
                .arg("pattern", r"was finished in \d{4}")
                .arg("path", "archive");
            act("Find every source that names a year.", action)
        }
        (_, Some(next)) => {
            let why = format!("{next} makes a claim. Read it in context before believing it.");
            act(why, Action::new("read_file").arg("path", &**next))
        }
        (_, None) => {
            let first = evidence
                .iter()
                .min_by_key(|claim| (claim.finished, &claim.bridge));
            let Some(first) = first else {
                return answer("Nothing was found.", "{}");
            };
            let found = json!({
                "bridge": first.bridge,
                "year": first.finished,
                "citations": [{"source": first.source, "line": first.line}],
                "doubts": contradictions,
            });
            answer(
                "All sources are read, and the earliest year is in a contemporary source.",
                found.to_string(),
            )
        }
    }
}

fn note(state: &mut State<PreparedSweep>, step: &Done<'_>) {
    let inquiry = &mut state.data;
    let Some(result) = step.results.first() else {
        return;
    };
    match result.tool.as_str() {
        "search" => {
            let hits = field(&result.output, "hits")
                .as_array()
                .into_iter()
                .flatten();
            for hit in hits {
                let (source, line) = (
                    text(hit, "path"),
                    field(hit, "line").as_u64().unwrap_or_default(),
                );
                inquiry.citations.insert(
                    source.clone(),
                    Citation {
                        line,
                        quote: text(hit, "text"),
                    },
                );
                inquiry.sources.unread.push(source);
            }
        }
        "read_file" => {
            let source = text(&result.output, "path");
            inquiry.sources.unread.retain(|unread| *unread != source);
            if let Some(claim) = inquiry
                .citations
                .get(&source)
                .and_then(|cited| claim(cited, &source))
            {
                weigh(inquiry, claim);
            }
            inquiry.sources.read.push(source);
        }
        _ => {}
    }
}

/// Adds a claim to the evidence. If two sources disagree, the claim that isn't hearsay counts.
fn weigh(inquiry: &mut PreparedSweep, claim: Evidence) {
    let is_hearsay = |claim: &Evidence| claim.source.ends_with("gazette.txt");
    match inquiry
        .evidence
        .iter_mut()
        .find(|known| known.bridge == claim.bridge)
    {
        Some(known) if known.finished != claim.finished => {
            let (here, there) = (&known.source, &claim.source);
            let told = format!(
                "{}: {} says {}, {there} says {}",
                claim.bridge, here, known.finished, claim.finished
            );
            inquiry.contradictions.push(told);
            if is_hearsay(known) {
                *known = claim;
            }
        }
        Some(_) => {}
        None => inquiry.evidence.push(claim),
    }
}

/// Parses a claim from a quoted line: `... BRIDGE was finished in YEAR ...`.
fn claim(cited: &Citation, source: &str) -> Option<Evidence> {
    let (before, after) = cited.quote.split_once(" was finished in ")?;
    let bridge = before.rsplit(" that ").next()?.trim().to_owned();
    let finished = after.get(..4)?.parse().ok()?;
    Some(Evidence {
        bridge,
        finished,
        source: source.to_owned(),
        line: cited.line,
    })
}

fn text(value: &Value, key: &str) -> String {
    field(value, key).as_str().unwrap_or_default().to_owned()
}

/// An agent whose first answer is prose although JSON is required.
pub(super) fn refused_answer(stage: &Stage) -> Result<Run> {
    let (coins, notes) = (stage.dice.between(11, 60), stage.dice.between(2, 9));
    stage.file("till.txt", &format!("coins {coins}\nnotes {notes}\n"));
    let engine = engine(Actor::new(stage, "cashier", Till::default(), count_till).reduce(counted))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10))
        .stop(StructuredOutput {
            schema: None,
            fenced: false,
        })
        .max_steps(6);
    stage.play(
        engine,
        Task::new("What's in the till? Answer as JSON.").id("till"),
    )
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Till {
    content: BTreeMap<String, u64>,
}

fn count_till(state: &State<Till>, cx: &StepCx<'_>) -> Decided {
    let content = &state.data.content;
    match cx.feedback.first() {
        _ if content.is_empty() => act(
            "The till's contents are in a file.",
            Action::new("read_file").arg("path", "till.txt"),
        ),
        None => {
            let said: Vec<_> = content
                .iter()
                .map(|(what, many)| format!("{many} {what}"))
                .collect();
            answer("That's easy.", format!("There are {}.", said.join(" and ")))
        }
        Some(refusal) => answer(
            format!("\"{refusal}\" So it must be an object."),
            json!(content).to_string(),
        ),
    }
}

fn counted(state: &mut State<Till>, step: &Done<'_>) {
    let lines = step
        .results
        .first()
        .and_then(|result| field(&result.output, "text").as_str())
        .unwrap_or_default()
        .lines();
    let counts = lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(what, many)| Some((what.to_owned(), many.parse().ok()?)));
    state.data.content.extend(counts);
}

/// An agent that must say a keyword.
pub(super) fn success(stage: &Stage) -> Result<Run> {
    let blocks = stage.dice.between(6, 18) * 8;
    stage.file(
        "disk.img",
        &"0123456789abcde\n".repeat(usize::try_from(blocks).unwrap_or(64)),
    );
    let engine = engine(Actor::new(stage, "checker", (), check_disk))
        .tool(stage.shell()?)
        .stop(Keyword {
            keyword: "VERIFIED".to_owned(),
        })
        .max_steps(6);
    stage.play(
        engine,
        Task::new("Check disk.img. Say VERIFIED once its size and checksum match.").id("disk"),
    )
}

fn check_disk(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let stdout = || {
        cx.last
            .first()
            .map(|result| text(&result.output, "stdout").trim().to_owned())
            .unwrap_or_default()
    };
    let run =
        |why: &str, command: &str| act(why, Action::new("run_command").arg("command", command));
    match cx.step {
        0 => run(
            "First its size, in blocks of 16 bytes.",
            "echo $(($(wc -c < disk.img) / 16)) blocks",
        ),
        1 => run(
            &format!("{}. Now its checksum.", stdout()),
            "cksum < disk.img | cut -d ' ' -f 1",
        ),
        _ => answer(
            "Both are as expected.",
            format!("Size and checksum ({}) match: VERIFIED", stdout()),
        ),
    }
}
