//! Describes each column in a sentence, for `board list --help` and the OpenAPI document.

use super::Column;

impl Column {
    /// Returns what the column contains, without a full stop.
    pub fn about(&self) -> &'static str {
        match self.name {
            "run" => "The run's key: its path below the root",
            "path" => "Where its files are",
            "run_id" => "The id that the trace records",
            "manifest_status" => "The status recorded in manifest.json",
            "liveness" => "Whether it may still write: finished, running, stalled, died, …",
            "outcome" => "How it ended: completed, truncated, halted, failed, cancelled, unknown",
            "status" => "The word in the status column: answered, limit, error, died, …",
            "stop" => "The recorded stop reason",
            "verdict" => "Why it stopped, in a sentence",
            "verdict_second" => "Another fact about the end",
            "contradictions" => "The number of contradictions between its records",
            "certainty" => "Whether the verdict is recorded, inferred or unknown",
            "steps" => "The number of steps",
            "events" => "The number of events",
            "segments" => "The number of runs in the same directory",
            "errors" => "The number of steps with an error",
            "max_steps" => "The step limit",
            "max_steps_from" => "Who set the step limit",
            "tokens" => "The tokens used",
            "input" => "The input tokens",
            "cached" => "The input tokens read from a cache",
            "output" => "The output tokens",
            "reasoning" => "The reasoning tokens",
            "untold" => "The number of steps that don't record their tokens",
            "tokens_estimated" => "Whether the tokens are estimates",
            "model_calls" => "The number of model replies",
            "calls" => "The number of tool calls",
            "tool_errors" => "The number of failed tool calls",
            "cost" => "The cost in US dollars, recorded or estimated",
            "cost_recorded" => "The recorded cost in US dollars",
            "cost_estimated" => "The cost estimated from tokens and prices",
            "duration" => "How long it took",
            "duration_at_least" => {
                "The shortest time it may have taken, if the exact time is unknown"
            }
            "score" => "The last score of a critic",
            "critic" => "The names of its critics",
            "model" => "The model",
            "models" => "The models, if there are several",
            "title" => "The title that the trace records",
            "task" => "The task",
            "parent" => "The run that started it",
            "continues" => "The run that it continues",
            "format" => "The format of its trace",
            "writer" => "The tool that wrote the trace",
            "project" => "The project directory",
            "turns" => "The number of turns",
            "children" => "The number of runs that it started",
            "files" => "The number of files that it changed",
            "started" => "When it started",
            "updated" => "When its files last changed",
            "issues" => "The number of issues in its files: problems and notes",
            "problems" => "The number of issues that lose data",
            "partial" => "Whether it's still being indexed",
            "duplicate_of" => "The run that has the same records and is counted instead",
            "also_at" => "Where its duplicates are",
            "copies_say" => "How its duplicates differ",
            "copied_from" => "The run from which its first steps are copied",
            "copied" => "The number of steps copied from another run",
            "agent" => "The names of its agents",
            "tool" => "The names of the tools that it called",
            "err" => "Whether a step has an error",
            _ => self.label,
        }
    }
}
