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
    "fix_bug": "a coding agent runs tests, finds two faults and repairs them; two critics score",
    "research": "evidence with citations in nested state; the answer has to be JSON",
    "plan": "a plan whose items have states; the agent stops when all are done",
    "final": "a command, then an answer: final",
    "success": "an answer with the word that was asked for: success",
    "budget_steps": "a task's six steps are not enough",
    "budget_time": "a slow tool uses up the time",
    "budget_tokens": "a model uses up the tokens",
    "agent_condition": "the agent sets its own stop reason",
    "critic_stop": "a critic's scores fall until it says stop",
    "stagnation": "the state does not change any more",
    "env_terminal": "a walker finds out of a maze, with observations and rewards",
    "task_validation_failed": "required files are not there",
    "env_capability_mismatch": "the environment offers less than is needed",
    "unrecoverable_error": "the agent fails four times in a row",
    "context_overflow": "a conversation is made shorter twice and still does not fit",
    "cancelled_immediate": "someone ends the run while a tool is at work",
    "cancelled_after_step": "someone ends the run and lets its step finish",
    "critic_retry": "an editor refuses two answers, with instructions and changes of state",
    "critic_conflict": "one critic says retry, the other stop; the first one heard decides",
    "judge": "a critic's own model uses up the tokens",
    "loop": "a model says the same three times",
    "tool_loop": "a stop rule in code sees the same search three times",
    "stop_on_tool": "a tool is asked for that ends the run before it is used",
    "max_rounds": "the last round's answer is not accepted, and its text is kept",
    "refused_answer": "an answer in prose is refused, the next one is JSON",
    "wait": "an agent waits for a job in between",
    "branch": "three candidates at each step, the highest score wins",
    "recovered_error": "a model's text cannot be read; told how to write, it does better",
    "tool_retry": "a tool fails, another works at its third try",
    "model_native": "a model with native calls, two at a time",
    "model_react": "a model that writes its calls as text",
    "unicode": "hostile and odd text, NaN in the state, a very long line",
    "long": "300 steps, two critics whose scores wander",
    "crash": "the process is killed inside a tool",
};
