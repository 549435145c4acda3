//! Shows the progress of a run: a line for each step on stderr, and on a terminal the model's text
//! before it.

use std::io::{IsTerminal, Stderr, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clap::builder::styling::Style;
use serde_json::Value;

use crate::analysis::format::{count, counted, score, tokens, visible, visible_line};
use crate::engine::{
    Action, CriticOutput, Hook, LastCalls, Mode, Moment, Status, StepRecord, ToolResult,
};
use crate::model::names::first_chars;
use crate::stop::CriticWish;

/// The maximum characters shown of a call's arguments or an answer.
const MAX_SHOWN_CHARS: usize = 60;

/// Reports progress to the user. Output that can't be written is lost, but the trace contains
/// everything.
#[derive(Debug)]
pub(super) struct Progress {
    stream: Stderr,
    colour: bool,
    /// Whether the last output was text without a line break.
    inside_line: Mutex<bool>,
}

impl Progress {
    pub(super) fn new(stream: Stderr, colour: bool) -> Self {
        Self {
            stream,
            colour,
            inside_line: Mutex::new(false),
        }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.stream.is_terminal()
    }

    /// Shows a line.
    pub(super) fn say(&self, line: &str) {
        let mut inside_line = self
            .inside_line
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = if *inside_line { "\n" } else { "" };
        *inside_line = false;
        let _ = writeln!(&self.stream, "{before}board: {}", visible_line(line));
    }

    /// Shows a piece of the model's text.
    pub(super) fn show_text(&self, text: &str) {
        let mut inside_line = self
            .inside_line
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *inside_line = !text.ends_with('\n');
        let style = if self.colour {
            Style::new().dimmed()
        } else {
            Style::new()
        };
        let mut stream = &self.stream;
        let _ = write!(stream, "{style}{}{style:#}", visible(text)).and_then(|()| stream.flush());
    }
}

impl Hook<LastCalls> for Arc<Progress> {
    fn name(&self) -> &str {
        "progress"
    }

    fn on(&mut self, moment: &Moment<'_, LastCalls>) -> Result<(), String> {
        if let Moment::AfterStep { record, .. } = moment {
            self.say(&line(record));
        }
        Ok(())
    }
}

/// Formats a step on one line: the decision, how it went, the critics' output, and its tokens.
fn line(record: &StepRecord) -> String {
    let mut parts = vec![format!("step {}: {}", count(record.step), decided(record))];
    parts.extend(record.critics.iter().filter_map(opinion));
    if let Some(usage) = record.facts.usage {
        let about = if usage.estimated { "≈" } else { "" };
        parts.push(format!("{about}{} tokens", tokens(usage.total())));
    }
    parts.join(" | ")
}

/// Formats a critic's output. `None` if it neither scored nor requested anything.
fn opinion(critic: &CriticOutput) -> Option<String> {
    let points = critic.score.as_ref().and_then(Value::as_f64).map(score);
    let wish = match critic.action {
        CriticWish::Continue if points.is_none() => return None,
        CriticWish::Continue => "continue",
        CriticWish::Stop => "stop",
        CriticWish::Retry => "retry",
        CriticWish::Failed => "failed",
    };
    Some(
        format!(
            "{} {wish} {}",
            critic.critic_name,
            points.unwrap_or_default()
        )
        .trim_end()
        .to_owned(),
    )
}

fn decided(record: &StepRecord) -> String {
    let Some(decision) = &record.decision else {
        let error = record
            .facts
            .error
            .as_ref()
            .map_or("no decision", |error| error.message.as_str());
        return short(error);
    };
    match decision.mode {
        Mode::Final => format!(
            "answers {}",
            short(decision.final_answer.as_deref().unwrap_or_default())
        ),
        Mode::Act if record.results.is_empty() => counted(decision.actions.len(), "call"),
        Mode::Act => {
            let calls = decision.actions.iter().zip(&record.results);
            calls
                .map(|(action, result)| call(action, result))
                .collect::<Vec<_>>()
                .join(", ")
        }
        mode => mode.as_str().to_owned(),
    }
}

/// Formats a call with its most informative argument and its result.
fn call(action: &Action, result: &ToolResult) -> String {
    let telling = ["command", "pattern", "path"]
        .iter()
        .find_map(|name| action.args.get(*name)?.as_str());
    let went = match result.status {
        Status::Success => match result.output.get("exit_code").and_then(Value::as_i64) {
            Some(code) if code != 0 => format!("exit {code}"),
            _ => "ok".to_owned(),
        },
        Status::Error => "failed".to_owned(),
        Status::TimedOut => "timed out".to_owned(),
        Status::Cancelled => "cancelled".to_owned(),
    };
    [
        action.name.as_str(),
        &short(telling.unwrap_or_default()),
        &went,
    ]
    .into_iter()
    .filter(|part| !part.is_empty())
    .collect::<Vec<_>>()
    .join(" ")
}

/// Returns the beginning of a text, on one line.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match first_chars(&line, MAX_SHOWN_CHARS) {
        Some(start) => format!("{start}…"),
        None => line,
    }
}
