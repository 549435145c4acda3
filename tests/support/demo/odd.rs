//! Non-ASCII text, and text that breaks careless pages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cast::{Actor, Decided, Device, Nothing, act, answer, engine, field, reviewer};
use super::stage::{Run, Stage};
use trace_board::engine::{Action, CriticCx, Done, Opinion, State, StepCx, Task};
use trace_board::error::Result;
use trace_board::tools::{ReadFile, WriteFile};

/// Values that are difficult for JSON or for a page.
#[derive(Debug, Serialize, Deserialize)]
struct Oddities {
    not_a_number: String,
    infinite: String,
    tiny: f64,
    large: u64,
    empty: BTreeMap<String, u64>,
    /// One entry per text.
    texts: BTreeMap<String, String>,
}

const TEXTS: &[(&str, &str)] = &[
    (
        "</script><script>alert(1)</script>",
        "<img src=x onerror=\"alert('x')\"> & &amp; <!-- ]]>",
    ),
    (
        "right to left",
        "\u{202e}txt.exe\u{202c} שלום עולם مرحبا \u{200f}(42)\u{200f}",
    ),
    (
        "line separators",
        "one\u{2028}two\u{2029}three\u{85}four\u{b}five\u{c}six",
    ),
    (
        "controls",
        "bell \u{7} escape \u{1b}[31mred\u{1b}[0m nul \u{0} delete \u{7f}",
    ),
    ("joined", "👩‍👩‍👧‍👦 🏳️‍🌈 e\u{301} n\u{303} ﷽ ௸"),
    (
        "z\u{351}\u{30e}\u{34b}a\u{363}\u{36c}\u{342}l\u{357}\u{346}g\u{365}\u{364}o",
        "stacked marks",
    ),
    ("invisible", "a\u{200b}b\u{feff}c\u{ad}d\u{2060}e"),
    ("quotes \"'`", "back\\slash \\u0041 ${x} {{ x }} {% x %} %s"),
    (
        "paths",
        "../../etc/passwd C:\\Windows\\ //example.org/%2e%2e",
    ),
    ("", "an empty key"),
];

/// An agent that collects unusual texts.
pub(super) fn unicode(stage: &Stage) -> Result<Run> {
    let line = "äöü-".repeat(usize::try_from(stage.dice.between(900, 1_200)).unwrap_or(1_000));
    stage.file("très long 文.txt", &format!("{line}\n"));
    let collect = Device::new(
        stage,
        "collect",
        "Returns one odd text. </script>",
        |_: Nothing, cx| {
            let at = usize::try_from(cx.step).unwrap_or_default() % TEXTS.len();
            let (key, text) = TEXTS.get(at).copied().unwrap_or_default();
            Ok(json!({"key": key, "text": text}))
        },
    );
    let data = Oddities {
        not_a_number: f64::NAN.to_string(),
        infinite: f64::INFINITY.to_string(),
        tiny: 5e-324,
        large: u64::MAX,
        empty: BTreeMap::new(),
        texts: BTreeMap::new(),
    };
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "collector «ß» </title>", data, odd).reduce(keep))
        .tool(collect)
        .tool(ReadFile::new(workspace.clone(), 16 << 10))
        .tool(WriteFile::new(workspace))
        .critic(reviewer(
            "critic <b>&</b> \u{202e}",
            |step: &CriticCx<'_, Oddities>| {
                let score = if step.step.is_multiple_of(2) {
                    f64::INFINITY
                } else {
                    0.5
                };
                Opinion::proceed("\u{202e}fine\u{202c} </td> 🙂")
                    .score(score)
                    .detail("", "empty key")
                    .detail("a\u{2028}b", "c\u{2029}d")
            },
        ))
        .max_steps(20);
    stage.play(
        engine,
        Task::new("Collect \"odd\" texts: <b>bold</b>, \u{202e}sdrawkcab\u{202c}, 文字, emoji 🧪,\nand a line break.")
            .id("odd </task>"),
    )
}

fn odd(_: &State<Oddities>, cx: &StepCx<'_>) -> Decided {
    let many = TEXTS.len() as u64;
    match cx.step {
        step if step < many => act(
            "Thought: </script> \u{202e}another one\u{202c} 🧪",
            Action::new("collect"),
        ),
        step if step == many => act(
            "A line of a few thousand bytes.",
            Action::new("read_file").arg("path", "très long 文.txt"),
        ),
        step if step == many + 1 => {
            let action = Action::new("write_file")
                .arg("path", "🧪/\u{202e}fdp.exe")
                .arg("text", "x</textarea>\r\n\tdone");
            act("A name that reads backwards.", action)
        }
        _ => answer(
            "all\u{2028}done",
            "Collected: </script>, \u{202e}sdrawkcab\u{202c}, NaN, 👩‍👩‍👧‍👦.\n\n\tIndented, and a last line without end…",
        ),
    }
}

fn keep(state: &mut State<Oddities>, step: &Done<'_>) {
    let Some(output) = step.results.first().map(|result| &result.output) else {
        return;
    };
    let text = |key: &str| field(output, key).as_str().unwrap_or_default().to_owned();
    if output.get("key").is_some() {
        state.data.texts.insert(text("key"), text("text"));
    }
    state.data.tiny /= 2.0;
}
