//! The recordings built into the program: one run for every way to end, made with the engine of
//! this library.
//!
//! The programs in `tests/support/demo` made them. A test makes them again and compares.

use crate::model::TraceFile;

/// A run, as stored in `sample_runs`.
#[derive(Debug)]
pub(super) struct Recording {
    /// The name of the recording and of its run.
    pub(super) name: &'static str,
    /// A one-line description.
    pub(super) about: &'static str,
    pub(super) manifest: &'static str,
    pub(super) steps: &'static str,
    pub(super) events: &'static str,
}

impl Recording {
    /// Returns the text of one of its files.
    pub(super) fn file(&self, file: TraceFile) -> &'static str {
        match file {
            TraceFile::Manifest => self.manifest,
            TraceFile::Steps => self.steps,
            TraceFile::Events => self.events,
        }
    }
}

macro_rules! recordings {
    ($($name:literal: $about:literal,)*) => {
        &[$(Recording {
            name: $name,
            about: $about,
            manifest: recordings!($name / "manifest.json"),
            steps: recordings!($name / "steps.jsonl"),
            events: recordings!($name / "events.jsonl"),
        }),*]
    };
    ($name:literal / $file:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/sample_runs/",
            $name,
            "/",
            $file
        ))
    };
}

/// All recordings, in chronological order.
pub(super) static RECORDINGS: &[Recording] = recordings! {
    "fix_bug": "a coding agent runs tests, finds two bugs and fixes them; two critics score it",
    "research": "evidence with citations in nested state; the answer must be JSON",
    "plan": "a plan whose items have a status; the agent stops when all are done",
    "final": "a command, then an answer; ends as `final`",
    "success": "an answer with the required word; ends as `success`",
    "budget_steps": "the task's six steps aren't enough",
    "budget_time": "a slow tool uses up the time budget",
    "budget_tokens": "a model uses up the token budget",
    "agent_condition": "the agent sets its own stop reason",
    "critic_stop": "a critic's scores fall until it requests a stop",
    "stagnation": "the state stops changing",
    "env_terminal": "a walker finds its way out of a maze, with observations and rewards",
    "task_validation_failed": "required files are missing",
    "env_capability_mismatch": "the environment lacks a required capability",
    "unrecoverable_error": "the agent fails four times in a row",
    "context_overflow": "a conversation is compacted twice and still doesn't fit",
    "cancelled_immediate": "someone cancels the run while a tool is running",
    "cancelled_after_step": "someone cancels the run but lets its step finish",
    "critic_retry": "an editor rejects two answers, with instructions and state changes",
    "critic_conflict": "one critic says retry, the other stop; the first one decides",
    "judge": "a critic's own model uses up the token budget",
    "loop": "a model says the same thing three times",
    "tool_loop": "a custom rule sees the same search three times",
    "stop_on_tool": "the model requests a tool, which ends the run before the tool is called",
    "max_rounds": "the last round's answer isn't accepted, but its text is kept",
    "refused_answer": "an answer in prose is rejected, the next one is JSON",
    "wait": "an agent waits for a job",
    "branch": "three candidates at each step, the highest score wins",
    "recovered_error": "a model's text can't be parsed; after instructions, it can",
    "tool_retry": "a tool fails, another works on the third try",
    "model_native": "a model with native calls, two at a time",
    "model_react": "a model that writes its calls as text",
    "unicode": "hostile and unusual text, NaN in the state, a very long line",
    "long": "300 steps, two critics whose scores wander",
    "crash": "the process is killed while a tool is running",
};
