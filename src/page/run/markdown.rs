//! Writes a run as Markdown for pasting into messages: the task, why it stopped, and what was said
//! and done in each step.

use std::io::{self, Write};
use std::ops::Range;

use crate::analysis::format::{count, counted, visible};
use crate::analysis::why::why;
use crate::page::export::index::IndexRow;
use crate::page::part::action::{Block, Pair};
use crate::page::part::critic::Critic;
use crate::page::part::fold::{Folded, More};
use crate::page::run_view::RunView;
use crate::page::step::StepView;
use crate::page::step::fill::{StepPlace, step_view};
use crate::page::step::messages::{Prompted, prompts_before, prompts_or_task};

/// Writes the whole run, or only the steps `only`.
pub(crate) fn write(
    out: &mut dyn Write,
    view: &RunView<'_>,
    only: Option<Range<usize>>,
) -> io::Result<()> {
    let total = view.index.steps().len();
    let is_whole = only.is_none();
    if is_whole {
        write_head(out, view)?;
    }
    for n in only.unwrap_or(0..total) {
        // The head of a whole run has the task.
        let asked = match is_whole {
            true => prompts_before(view, n),
            false => prompts_or_task(view, n, usize::MAX),
        };
        write_asked(out, &asked)?;
        if let Some(step_view) = step_view(view, n, StepPlace::Alone) {
            write_step(out, view, &step_view)?;
        }
    }
    let after = if is_whole {
        prompts_before(view, total)
    } else {
        Vec::new()
    };
    write_asked(out, &after)
}

/// Writes what a file contains and leaves out, as `notes`, and the list of its steps with their local
/// times.
pub(crate) fn write_about(
    out: &mut dyn Write,
    steps: &[IndexRow],
    notes: &[String],
) -> io::Result<()> {
    for note in notes {
        writeln!(out, "> {}", escape(note))?;
    }
    writeln!(out)?;
    for row in steps {
        let time = match row.time.as_str() {
            "" => String::new(),
            time => format!(" · {time}"),
        };
        writeln!(
            out,
            "- Step {}{time} · {}",
            escape(row.label.as_str()),
            escape(row.call.as_str())
        )?;
    }
    writeln!(out)
}

/// Writes prompts of the user, without those that consist of pictures.
fn write_asked(out: &mut dyn Write, prompts: &[Prompted]) -> io::Result<()> {
    let mut written = prompts.iter().filter(|prompt| !prompt.words.is_empty());
    written.try_for_each(|prompt| {
        writeln!(out, "**User:**\n")?;
        fence(out, &visible(&prompt.words))
    })
}

fn write_head(out: &mut dyn Write, view: &RunView<'_>) -> io::Result<()> {
    let summary = view.summary;
    writeln!(
        out,
        "# {}: {}\n",
        escape(summary.key.as_str()),
        escape(&summary.verdict.sentence)
    )?;
    if let Some(task) = &summary.task {
        writeln!(out, "**Task:** {}\n", escape(task))?;
    }
    let mut facts = vec![summary.steps_known().map_or_else(
        || "steps unknown".to_owned(),
        |steps| counted(steps, "step"),
    )];
    facts.extend(summary.model.as_ref().map(|model| escape(model)));
    facts.extend(summary.took_words());
    facts.extend(
        summary
            .tokens
            .map(|tokens| format!("{}{} tokens", summary.tokens_bound(), count(tokens))),
    );
    writeln!(out, "{}\n", facts.join(" · "))?;
    let explanation = why(summary, view.index, view.lines);
    if !summary.verdict.second.is_empty() {
        writeln!(out, "{}\n", escape(&summary.verdict.second))?;
    }
    for piece in &explanation.evidence {
        writeln!(out, "- {}", escape(&piece.text))?;
    }
    for contradiction in &explanation.contradictions {
        writeln!(out, "- Contradiction: {}", escape(contradiction))?;
    }
    if let Some(answer) = &summary.answer {
        writeln!(out, "\n**Answer:**\n")?;
        fence(out, &visible(answer))?;
    }
    writeln!(out)
}

fn write_step(out: &mut dyn Write, view: &RunView<'_>, step_view: &StepView) -> io::Result<()> {
    let marks: Vec<&str> = step_view
        .marks
        .iter()
        .map(|mark| mark.meaning.as_str())
        .filter(|mark| !mark.is_empty())
        .collect();
    let marks = if marks.is_empty() {
        String::new()
    } else {
        format!(" ({})", marks.join(", "))
    };
    writeln!(
        out,
        "## {}{}\n",
        escape(step_view.title.as_str()),
        escape(&marks)
    )?;
    if step_view.unreadable.is_some() {
        return writeln!(
            out,
            "This step's line can't be read; `board check` shows why.\n"
        );
    }
    if let Some(error) = &step_view.error {
        writeln!(
            out,
            "**Error** {} {}\n",
            escape(error.category.as_str()),
            escape(error.place.as_str())
        )?;
        folded(out, &error.message)?;
    }
    if let Some(thought) = &step_view.thought {
        for line in thought.shown.lines() {
            writeln!(out, "> {}", escape(line))?;
        }
        rest(out, &thought.more)?;
        writeln!(out)?;
    }
    if let Some(reply) = step_view.reply.as_ref().or(step_view.wrote.as_ref()) {
        for line in reply.shown.lines() {
            writeln!(out, "{}", escape(line))?;
        }
        writeln!(out)?;
        rest(out, &reply.more)?;
    }
    if let Some(answer) = step_view
        .decision
        .as_ref()
        .and_then(|decision| decision.answer.as_ref())
    {
        writeln!(out, "**Answer:**\n")?;
        folded(out, answer)?;
    }
    step_view
        .actions
        .pairs
        .iter()
        .try_for_each(|pair| write_pair(out, pair))?;
    if let Some(diff) = &step_view.diff {
        for row in &diff.rows {
            writeln!(
                out,
                "- state {}: {}",
                code(row.key.as_str()),
                escape(row.change.as_str())
            )?;
        }
        writeln!(out)?;
    }
    step_view
        .critics
        .iter()
        .try_for_each(|critic| write_critic(out, critic))?;
    if !step_view.critics.is_empty() {
        writeln!(out)?;
    }
    // An empty step would look like an error in the transcript.
    let nothing = step_view.thought.is_none()
        && step_view.reply.is_none()
        && step_view.actions.is_empty()
        && step_view.diff.is_none()
        && step_view.critics.is_empty();
    let call = view
        .index
        .steps()
        .get(step_view.n)
        .filter(|_| nothing)
        .map(|head| escape(&visible(&head.call)));
    call.filter(|call| !call.is_empty())
        .map_or(Ok(()), |call| writeln!(out, "{call}\n"))
}

fn write_pair(out: &mut dyn Write, pair: &Pair) -> io::Result<()> {
    if let Some(call) = &pair.call {
        let args: Vec<String> = call
            .args
            .iter()
            .map(|arg| format!("{}{}", arg.name.as_str(), arg.value.as_str()))
            .collect();
        let marks: Vec<&str> = pair
            .marks
            .iter()
            .map(|mark| mark.text.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let marks = if marks.is_empty() {
            String::new()
        } else {
            format!(" → {}", marks.join(", "))
        };
        writeln!(
            out,
            "{}{}\n",
            code(&format!("{}({})", call.name.as_str(), args.join(", "))),
            escape(&marks)
        )?;
        call.long
            .iter()
            .try_for_each(|block| write_block(out, block))?;
    }
    if !pair.note.is_empty() {
        writeln!(out, "{}\n", escape(pair.note.as_str()))?;
    }
    if !pair.small.is_empty() {
        writeln!(out, "{}\n", escape(pair.small.as_str()))?;
    }
    pair.blocks
        .iter()
        .try_for_each(|block| write_block(out, block))
}

fn write_block(out: &mut dyn Write, block: &Block) -> io::Result<()> {
    if !block.label.is_empty() {
        writeln!(out, "{}:\n", escape(block.label.as_str()))?;
    }
    folded(out, &block.text)
}

fn write_critic(out: &mut dyn Write, critic: &Critic) -> io::Result<()> {
    let score = if critic.score.is_empty() {
        String::new()
    } else {
        format!(" {},", critic.score.as_str())
    };
    let asked = critic.mark.text.as_str();
    let reason = if critic.reason.is_empty() {
        String::new()
    } else {
        format!(": {}", critic.reason.as_str())
    };
    writeln!(
        out,
        "- critic {}:{} {asked}{}",
        code(critic.name.as_str()),
        escape(&score),
        escape(&reason)
    )?;
    critic
        .long_reason
        .as_ref()
        .map_or(Ok(()), |reason| folded(out, reason))
}

/// Writes text in a code fence, truncated where the pages fold it.
fn folded(out: &mut dyn Write, text: &Folded) -> io::Result<()> {
    fence(out, &text.shown)?;
    rest(out, &text.more)
}

fn rest(out: &mut dyn Write, more: &More) -> io::Result<()> {
    match more {
        More::Nothing => Ok(()),
        More::Here { rest, .. } => writeln!(out, "(truncated; {} more bytes)\n", rest.len()),
        More::Elsewhere { .. } => {
            writeln!(out, "(truncated; `board show --step` prints all of it)\n")
        }
    }
}

/// Writes literal text in a code fence that is longer than any fence inside.
fn fence(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let longest = text
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(
        out,
        "{fence}\n{}\n{fence}\n",
        text.strip_suffix('\n').unwrap_or(text)
    )
}

/// Formats text on one line as code.
fn code(text: &str) -> String {
    let longest = text
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let ticks = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Escapes text from a trace so that none of it is markup or a link.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = visible(text);
    let mut letters = text.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        let inside =
            before.is_alphanumeric() && letters.peek().is_some_and(|next| next.is_alphanumeric());
        before = letter;
        match letter {
            // Has no meaning inside a word, and is common in names.
            '_' if inside => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' => {
                out.extend(['\\', letter])
            }
            '\n' => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_trace_are_never_markup() {
        assert_eq!(
            escape("a_b *c* [x](http://e) <img>\n# h"),
            r"a_b \*c\* \[x\](http://e) \<img\> \# h"
        );
        assert_eq!(code("say `hi`"), "`` say `hi` ``");
        let mut out = Vec::new();
        fence(&mut out, "```\nrm\n```").unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "````\n```\nrm\n```\n````\n\n"
        );
    }
}
