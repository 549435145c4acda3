//! Writes a session as text for a terminal: prompts and replies in full, each tool call in one line.

use std::io::{self, Write};

use super::super::look::{Ink, Look};
use crate::analysis::format::visible;
use crate::model::Compaction;
use crate::page::part::fold::{Fold, Folded, More, ValueLinks};
use crate::page::part::tool::ToolLine;
use crate::page::run_view::RunView;
use crate::page::step::StepView;
use crate::page::step::fill::{LEFT, StepPlace, step_brief};
use crate::page::step::messages::{
    compaction_in_words, compactions_before, interruption_before, prompts_or_task,
};
use crate::recorded::RecordedRun;

/// Lines shown of a failed call's result. They are its last ones.
const ERROR_LINES: usize = 10;

/// Writes the prompts and steps of a session.
pub(super) fn write(out: &mut dyn Write, run: &RecordedRun, look: &Look) -> io::Result<()> {
    let view = run.view(look);
    let total = run.index.steps().len();
    let width = total.to_string().len().max(3);
    let page = Page {
        view,
        look,
        margin: " ".repeat(width + 2),
        width,
    };
    for n in 0..total {
        page.interruption(out, n)?;
        page.prompts(out, n)?;
        // Each step gets its own room, because a terminal isn't a page that must stay small.
        let fold = &mut Fold::brief(ValueLinks::default());
        if let Some(step_view) = step_brief(&page.view, n, StepPlace::Alone, fold) {
            page.step(out, n, step_view)?;
        }
    }
    page.interruption(out, total)?;
    page.prompts(out, total)
}

struct Page<'a> {
    view: RunView<'a>,
    look: &'a Look,
    /// The space in front of lines that don't begin a step.
    margin: String,
    /// The width of a step's label.
    width: usize,
}

impl Page<'_> {
    /// Writes that the agent was interrupted before step `n`.
    fn interruption(&self, out: &mut dyn Write, n: usize) -> io::Result<()> {
        let Some(words) = interruption_before(&self.view, n) else {
            return Ok(());
        };
        let words = visible(&format!("── {words} ──")).into_owned();
        writeln!(out, "{}\n", self.look.paint(Ink::Dim, &words))
    }

    /// Writes the prompts and compactions before step `n`, in their order.
    fn prompts(&self, out: &mut dyn Write, n: usize) -> io::Result<()> {
        let prompts = prompts_or_task(&self.view, n, usize::MAX);
        let mut compactions = compactions_before(&self.view, n).peekable();
        // Others consist of pictures.
        for prompt in prompts.iter().filter(|prompt| !prompt.words.is_empty()) {
            let is_earlier = |one: &&Compaction| Some(one.event) < prompt.event;
            while let Some(compaction) = compactions.next_if(is_earlier) {
                self.compaction(out, compaction)?;
            }
            writeln!(out)?;
            for line in visible(prompt.words.trim()).lines() {
                writeln!(
                    out,
                    "{}",
                    self.look.paint(Ink::Heading, &format!("> {line}"))
                )?;
            }
            writeln!(out)?;
        }
        compactions.try_for_each(|compaction| self.compaction(out, compaction))
    }

    fn compaction(&self, out: &mut dyn Write, compaction: &Compaction) -> io::Result<()> {
        let words = format!("── {} ──", compaction_in_words(self.view.index, compaction));
        writeln!(out, "{}\n", self.look.paint(Ink::Dim, &words))
    }

    fn step(&self, out: &mut dyn Write, n: usize, step_view: StepView) -> io::Result<()> {
        let label = self.view.label(n);
        let mut lines: Vec<String> = Vec::new();
        if step_view.unreadable.is_some() {
            lines.push("The line can't be read; `board check` shows why".to_owned());
        }
        if self
            .view
            .index
            .steps()
            .get(n)
            .is_some_and(|step| step.is_abandoned)
        {
            lines.push(self.look.paint(Ink::Dim, &format!("({LEFT})")));
        }
        if let Some(thought) = &step_view.thought {
            let words = format!("Thought: {}", thought.first_line());
            lines.push(self.look.paint(Ink::Dim, &words));
        }
        let answer = step_view.decision.and_then(|decision| decision.answer);
        for text in [step_view.reply, step_view.wrote, answer].iter().flatten() {
            lines.extend(text_lines(text));
        }
        let project = self.view.summary.project.as_deref().unwrap_or_default();
        let format = self.view.index.format();
        for pair in step_view.actions.pairs {
            self.tool(&ToolLine::new(pair, &label, project, format), &mut lines);
        }
        if let Some(error) = &step_view.error {
            let words = text_lines(&error.message).join(" ");
            lines.push(self.look.paint(Ink::Bad, &format!("Error: {words}")));
        }
        let label = self
            .look
            .paint(Ink::Dim, &format!("{label:>width$}", width = self.width));
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => writeln!(out, "{label}  {line}")?,
                _ if line.is_empty() => writeln!(out)?,
                _ => writeln!(out, "{}{line}", self.margin)?,
            }
        }
        Ok(())
    }

    fn tool(&self, tool: &ToolLine, lines: &mut Vec<String>) {
        let mut words = self.look.paint(Ink::Heading, tool.name.as_str());
        if !tool.object.is_empty() {
            words = format!("{words} {}", tool.object);
        }
        if let Some((added, removed)) = tool.lines {
            words = format!("{words} +{added} −{removed}");
        }
        if !tool.note.is_empty() {
            words = format!("{words} {}", self.look.paint(Ink::Dim, tool.note.as_str()));
        }
        if tool.is_failed {
            let marks: Vec<&str> = tool
                .pair
                .marks
                .iter()
                .filter(|mark| mark.class.contains("err"))
                .map(|mark| mark.text.as_str())
                .collect();
            words = format!(
                "{words} {}",
                self.look
                    .paint(Ink::Bad, &format!("✗ {}", marks.join(", ")))
            );
        } else if !tool.preview.is_empty() {
            let preview = format!("→ {}", tool.preview);
            words = format!("{words} {}", self.look.paint(Ink::Dim, &preview));
        }
        lines.push(words);
        for block in tool.pair.blocks.iter().filter(|_| tool.is_failed) {
            let all = text_lines(&block.text);
            let first = all.len().saturating_sub(ERROR_LINES);
            let shown = all.iter().skip(first);
            lines.extend(shown.map(|line| self.look.paint(Ink::Bad, &format!("  │ {line}"))));
        }
    }
}

/// Returns the lines of a text, with a note if it's cut.
fn text_lines(text: &Folded) -> Vec<String> {
    let mut lines: Vec<String> = text.shown.trim_end().lines().map(str::to_owned).collect();
    if text.more != More::Nothing {
        lines.push("(truncated; `board show RUN --step N` prints all of it)".to_owned());
    }
    lines
}
