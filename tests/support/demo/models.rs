//! Runs whose decisions come from a model. The model is a list of replies; everything else is real.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cast::{Actor, Device, Nothing, ask, calls, engine, says};
use super::stage::{Run, Stage};
use trace_board::engine::parse::ReAct;
use trace_board::engine::{
    ChatModel, Done, Keep, ModelError, Prompt, Reply, Request, Scripted, State, StepCx, Task,
    ToolCall,
};
use trace_board::error::Result;
use trace_board::tools::{ReadFile, ReplaceLines, Search};

/// A model with native calls, two of them in one reply.
pub(super) fn model_native(stage: &Stage) -> Result<Run> {
    let (oven, dough) = (
        stage.dice.between(18, 25) * 10,
        stage.dice.between(3, 8) * 100,
    );
    stage.file(
        "recipes/bread.txt",
        &format!("Bread\n\n{dough} g flour\nbake at {oven} degrees for 40 minutes\n"),
    );
    stage.file(
        "recipes/cake.txt",
        "Cake\n\n300 g flour\nbake at 180 degrees for 50 minutes\n",
    );
    let mut both = Reply::calls(["bread", "cake"].map(|name| {
        ToolCall::new(
            format!("call_{name}"),
            "read_file",
            json!({"path": format!("recipes/{name}.txt")}).to_string(),
        )
    }))
    .usage(655, 48);
    both.text = "Compare both recipes.".to_owned();
    both.finish_reason = Some("tool_calls".to_owned());
    let replies = [
        calls(
            "Which recipes need flour?",
            "call_1",
            "search",
            &json!({"pattern": "flour", "path": "recipes"}),
            (512, 31),
        ),
        both,
        says(
            &format!("You need {} g of flour in total.", dough + 300),
            (842, 19),
        ),
    ];
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "cook", (), ask).prompt(cook))
        .model(Scripted::new(replies))
        .tool(Search::new(workspace.clone()))
        .tool(ReadFile::new(workspace, 2 << 10))
        .max_steps(8);
    stage.play(
        engine,
        Task::new("How much flour do bread and cake need together?").id("flour"),
    )
}

fn cook(state: &State<()>, cx: &StepCx<'_>) -> Prompt {
    let user = (cx.step == 0).then(|| state.task.clone());
    Prompt {
        system: Some("You are a careful cook. Look things up instead of guessing.".to_owned()),
        user,
    }
}

/// A model that writes its calls as text.
pub(super) fn model_react(stage: &Stage) -> Result<Run> {
    let hour = stage.dice.between(6, 9);
    stage.file(
        "timetable.txt",
        &format!("Line 4\nfirst bus {hour}:15\nlast bus 23:40\n"),
    );
    let replies = [
        says(
            "Thought: The timetable should say when the first bus leaves.\nAction: search(pattern=\"first bus\", path=\".\")",
            (390, 34),
        ),
        says(
            "Thought: One line is enough, but is it the right bus line?\nAction: read_file(path=\"timetable.txt\", end_line=2)",
            (455, 36),
        ),
        says(
            &format!(
                "Thought: It is line 4.\nFinal Answer: The first bus of line 4 leaves at {hour}:15."
            ),
            (540, 27),
        ),
    ];
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "guide", (), ask))
        .model(Scripted::new(replies))
        .parser(ReAct)
        .tool(Search::new(workspace.clone()))
        .tool(ReadFile::new(workspace, 2 << 10))
        .max_steps(8);
    stage.play(
        engine,
        Task::new("When does the first bus of line 4 leave?").id("bus"),
    )
}

/// A model whose reply can't be parsed once. After the repair instruction it succeeds.
pub(super) fn recovered_error(stage: &Stage) -> Result<Run> {
    let name = stage.dice.pick(&["Ada", "Grace", "Edith"], "Ada");
    stage.file(
        "letter.txt",
        &format!("Dear {name},\nthank you for you letter.\n"),
    );
    let replies = [
        says(
            "Thought: First, the text.\nAction: read_file(path=\"letter.txt\")",
            (350, 22),
        ),
        says(
            "Thought: `you letter` should be `your letter`.\nAction: replace_lines(path=\"letter.txt\", start_line=2, end_line=2, text=\"thank you for",
            (470, 40),
        ),
        says(
            "Thought: Again, with the whole line this time.\nAction: replace_lines(path=\"letter.txt\", start_line=2, end_line=2, text=\"thank you for your letter.\")",
            (590, 48),
        ),
        says(
            "Thought: Done.\nFinal Answer: One word was wrong: `you` is now `your`.",
            (660, 20),
        ),
    ];
    let workspace = stage.workspace()?;
    let engine = engine(Actor::new(stage, "proofreader", (), ask))
        .model(Scripted::new(replies))
        .parser(ReAct)
        .tool(ReadFile::new(workspace.clone(), 2 << 10))
        .tool(ReplaceLines::new(workspace))
        .max_steps(8);
    stage.play(engine, Task::new("Correct the letter.").id("letter"))
}

/// A model with a small context window.
struct Narrow {
    script: Scripted,
    tokens: u64,
}

impl ChatModel for Narrow {
    fn name(&self) -> &str {
        "scripted-narrow"
    }

    async fn complete(
        &self,
        request: &Request,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> std::result::Result<Reply, ModelError> {
        self.script.complete(request, on_text).await
    }

    fn context_window(&self) -> Option<u64> {
        Some(self.tokens)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Protocol {
    words: u64,
}

/// A conversation that is compacted until it can't be compacted further.
pub(super) fn context_overflow(stage: &Stage) -> Result<Run> {
    let tower = stage.dice.between(2, 9);
    let listen = Device::new(
        stage,
        "listen",
        "Listens to the radio for a minute.",
        move |_: Nothing, cx| {
            let calls = (0..8 + 4 * cx.step)
                .map(|n| format!("tower {tower}, this is flight {}", 100 + 7 * n + cx.step));
            Ok(Value::from(calls.collect::<Vec<_>>().join("; ")))
        },
    );
    let replies = (1..9).map(|minute| {
        let text = format!("Minute {minute}: I keep listening.");
        calls(
            &text,
            &format!("call_{minute}"),
            "listen",
            &json!({}),
            (180 * minute, 18),
        )
    });
    let engine = engine(
        Actor::new(stage, "listener", Protocol::default(), ask)
            .prompt(protocol)
            .reduce(note_answer),
    )
    .model(Narrow {
        script: Scripted::new(replies),
        tokens: 620,
    })
    .history(Keep::All)
    .tool(listen)
    .max_steps(12);
    stage.play(
        engine,
        Task::new("Write down who calls the tower.").id("tower"),
    )
}

/// Passes the whole protocol on, which grows each minute.
fn protocol(state: &State<Protocol>, cx: &StepCx<'_>) -> Prompt {
    let task = || state.task.clone();
    let user = if cx.step == 0 {
        task()
    } else {
        format!(
            "{} The log so far: {}",
            task(),
            "tower called. ".repeat(usize::try_from(cx.step * 30).unwrap_or_default())
        )
    };
    Prompt {
        system: None,
        user: Some(user),
    }
}

fn note_answer(state: &mut State<Protocol>, step: &Done<'_>) {
    let words = step
        .results
        .iter()
        .filter_map(|result| result.output.as_str())
        .map(|text| text.split(' ').count());
    state.data.words += words.sum::<usize>() as u64;
}
