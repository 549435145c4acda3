//! Critics that score, request retries with better instructions, disagree, stop the run, and cost
//! tokens.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cast::{Actor, Decided, act, answer, engine, input, reviewer};
use super::stage::{Run, Stage};
use trace_board::engine::{Action, CriticCx, Decision, Opinion, State, StepCx, Task};
use trace_board::error::Result;
use trace_board::stop::Usage;
use trace_board::tools::{ReadFile, WriteFile};

/// Requirements for a text. Critics set them through the state.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Wishes {
    audience: String,
    max_words: Option<u64>,
    mentions: Vec<String>,
}

/// An editor that rejects two answers, each time with an instruction and a state change.
pub(super) fn critic_retry(stage: &Stage) -> Result<Run> {
    let (version, bugs) = (stage.dice.between(2, 9), stage.dice.between(11, 40));
    stage.file(
        "changes.txt",
        &format!("version {version}\nbugs fixed: {bugs}\nnew: search by date\n"),
    );
    let data = Wishes {
        audience: "developers".to_owned(),
        ..Wishes::default()
    };
    let engine = engine(Actor::new(stage, "writer", data, write_news))
        .tool(ReadFile::new(stage.workspace()?, 1 << 10))
        .critic(reviewer("editor", edit))
        .max_steps(8);
    stage.play(
        engine,
        Task::new("Announce the new version.")
            .id("news")
            .input("version", version)
            .input("bugs", bugs),
    )
}

fn write_news(state: &State<Wishes>, cx: &StepCx<'_>) -> Decided {
    if cx.step == 0 {
        return act(
            "What's new?",
            Action::new("read_file").arg("path", "changes.txt"),
        );
    }
    let (version, bugs) = (input(cx, "version"), input(cx, "bugs"));
    let Wishes {
        audience,
        max_words,
        mentions,
    } = &state.data;
    let text = match (audience.as_str(), mentions.is_empty()) {
        ("developers", _) => format!(
            "Version {version} refactors the query layer, closes {bugs} tickets of varying severity, and adds predicates \
             over temporal columns to the search interface."
        ),
        (_, true) => format!("Version {version} is out. Many bugs are fixed."),
        (_, false) => {
            format!("Version {version} is out: you can search by date, and {bugs} bugs are fixed.")
        }
    };
    let why = match cx.feedback.last() {
        None => "Mention everything in the list.".to_owned(),
        Some(wish) => format!(
            "{wish} At most {} words, for {audience}.",
            max_words.unwrap_or_default()
        ),
    };
    answer(why, text)
}

fn edit(step: &CriticCx<'_, Wishes>) -> Opinion {
    let Some(text) = &step.decision.final_answer else {
        return Opinion::proceed("no text yet");
    };
    let words = text.split_whitespace().count();
    let opinion = if text.contains("predicates") {
        Opinion::retry("only its authors would understand it")
            .score(0.3)
            .instruction("Write for the users.")
            .set("audience", "users")
            .set("max_words", 16)
    } else if !text.contains("by date") {
        Opinion::retry("it doesn't say what's new")
            .score(0.6)
            .instruction("Say what's new.")
            .set("mentions", vec![Value::from("search by date")])
    } else {
        Opinion::proceed("short, plain and complete").score(0.9)
    };
    opinion.detail("words", words)
}

/// Two critics with conflicting demands; the first one decides.
pub(super) fn critic_conflict(stage: &Stage) -> Result<Run> {
    let engine = engine(Actor::new(stage, "gardener", (), prune))
        .tool(WriteFile::new(stage.workspace()?))
        .critic(reviewer("neighbor", neighbor))
        .critic(reviewer("botanist", botanist))
        .max_steps(8);
    stage.play(
        engine,
        Task::new("Prune the hedge and note each cut.")
            .id("hedge")
            .input("metres", stage.dice.between(8, 30)),
    )
}

fn prune(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let (cut, metres) = (cx.step + 1, input(cx, "metres"));
    let action = Action::new("write_file")
        .arg("path", format!("cut_{cut}.txt"))
        .arg("text", format!("cut {cut} of {metres} m\n"));
    let why = cx.feedback.last().map_or_else(
        || "It's growing over the fence.".to_owned(),
        |wish| format!("{wish} Will do."),
    );
    act(why, action)
}

fn neighbor(step: &CriticCx<'_, ()>) -> Opinion {
    match step.step {
        0 => Opinion::proceed("a good start").score(0.7),
        1 => Opinion::retry("the hedge isn't straight")
            .score(0.4)
            .instruction("Hold the shears level."),
        2 => Opinion::proceed("better").score(0.8),
        _ => Opinion::stop("it is low enough").score(0.9),
    }
}

fn botanist(step: &CriticCx<'_, ()>) -> Opinion {
    match step.step {
        0 => Opinion::proceed("the wood is healthy").score(0.8),
        1 => Opinion::stop("birds are nesting in it").score(0.2),
        2 => Opinion::proceed("the nest is spared").score(0.6),
        _ => Opinion::retry("the cut is torn")
            .score(0.5)
            .instruction("Sharpen the shears."),
    }
}

/// A critic that stops the run.
pub(super) fn critic_stop(stage: &Stage) -> Result<Run> {
    let engine = engine(Actor::new(stage, "negotiator", (), offer))
        .tool(WriteFile::new(stage.workspace()?))
        .critic(reviewer("treasurer", treasurer))
        .max_steps(10);
    stage.play(
        engine,
        Task::new("Buy the old mill for as little as possible.")
            .id("mill")
            .input("first", stage.dice.between(20, 60)),
    )
}

fn offer(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let crowns = input(cx, "first").as_u64().unwrap_or_default() * 1_000 * (cx.step + 1);
    let action = Action::new("write_file")
        .arg("path", "offer.txt")
        .arg("text", format!("{crowns} crowns\n"));
    act(
        if cx.step == 0 {
            "Start low."
        } else {
            "No answer. Offer more."
        },
        action,
    )
}

fn treasurer(step: &CriticCx<'_, ()>) -> Opinion {
    let score = [0.8, 0.55, 0.3]
        .into_iter()
        .nth(usize::try_from(step.step).unwrap_or_default())
        .unwrap_or(0.1);
    let opinion = if score > 0.2 {
        Opinion::proceed("we can afford it")
    } else {
        Opinion::stop("we can't afford it")
    };
    opinion.score(score).detail("offers", step.step + 1)
}

/// A critic that calls its own model. Its tokens count toward the run.
pub(super) fn judge(stage: &Stage) -> Result<Run> {
    let words = ["moss", "iron", "lantern"];
    let engine = engine(Actor::new(stage, "poet", (), rhyme))
        .critic(reviewer("judge", judged))
        .max_tokens(2_000)
        .max_steps(12);
    stage.play(
        engine,
        Task::new("Write a line that the judge likes.")
            .id("line")
            .input("word", stage.dice.pick(&words, "moss")),
    )
}

fn rhyme(_: &State<()>, cx: &StepCx<'_>) -> Decided {
    let word = input(cx, "word").as_str().unwrap_or_default();
    let line = match cx.step % 3 {
        0 => format!("The {word} was green, the {word} was old"),
        1 => format!("A {word} is all the night can hold"),
        _ => format!("{word}, {word}, the bell is tolled"),
    };
    Ok(Some(Decision::final_answer(line).because(
        cx.feedback.last().map_or("A first draft.", String::as_str),
    )))
}

fn judged(step: &CriticCx<'_, ()>) -> Opinion {
    let line = step.decision.final_answer.as_deref().unwrap_or_default();
    let input = 380 + line.len() as u64;
    let usage = Usage::reported(input, 60);
    let score = [0.35, 0.5, 0.2]
        .into_iter()
        .nth(usize::try_from(step.step % 3).unwrap_or_default())
        .unwrap_or(0.2);
    Opinion::retry("it doesn't sing")
        .score(score)
        .instruction("Make it sing.")
        .usage(usage)
        .detail("model", "scripted-judge")
}
