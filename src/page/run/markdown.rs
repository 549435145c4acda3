//! Writes a run as Markdown for pasting into messages: the task, why it stopped, and what was said
//! and done in each step.

use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

use crate::analysis::format::{count, counted, visible, visible_line};
use crate::analysis::patch::Sign;
use crate::analysis::why::{Evidence, Kind, why};
use crate::page::export::index::IndexRow;
use crate::page::part::action::{Block, Pair};
use crate::page::part::critic::Critic;
use crate::page::part::edit::{EditRow, FileEdit};
use crate::page::part::fold::{Folded, More};
use crate::page::part::highlight;
use crate::page::part::text::one_line;
use crate::page::run_view::RunView;
use crate::page::step::StepView;
use crate::page::step::fill::{StepPlace, step_view};
use crate::page::step::messages::{Prompted, prompts_before, prompts_or_task};

/// Longer titles are truncated; characters.
const TITLE_CHARS: usize = 200;
/// The largest indentation of an item in a list; spaces.
const MAX_INDENT: usize = 12;

/// Writes the whole run, or only the steps `only`.
pub(crate) fn write(
    out: &mut dyn Write,
    view: &RunView<'_>,
    only: Option<Range<usize>>,
) -> io::Result<()> {
    if only.is_none() {
        write_title(out, view)?;
    }
    write_untitled(out, view, only)
}

/// Writes the title of the run as the heading of the document.
pub(crate) fn write_title(out: &mut dyn Write, view: &RunView<'_>) -> io::Result<()> {
    let (title, _) = one_line(view.summary.title(), TITLE_CHARS);
    writeln!(out, "# {}\n", escape(&title))
}

/// Writes the same without the title.
pub(crate) fn write_untitled(
    out: &mut dyn Write,
    view: &RunView<'_>,
    only: Option<Range<usize>>,
) -> io::Result<()> {
    // Markdown has no colors.
    let write = || write_parts(out, view, only);
    highlight::limited(Duration::ZERO, write).0
}

fn write_parts(
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
        quote(out, &prompt.words)
    })
}

fn write_head(out: &mut dyn Write, view: &RunView<'_>) -> io::Result<()> {
    let summary = view.summary;
    writeln!(out, "**{}**\n", escape(&summary.verdict.sentence))?;
    // A prompt before the first step is the task.
    if let Some(task) = summary.task.as_deref().filter(|task| {
        let prompts = prompts_before(view, 0);
        let is_asked = |prompt: &Prompted| prompt.words.starts_with(task.trim_end_matches('…'));
        *task != summary.title() && !prompts.iter().any(is_asked)
    }) {
        writeln!(out, "**Task:**\n")?;
        quote(out, task)?;
    }
    let steps = summary.steps_known().map_or_else(
        || "steps unknown".to_owned(),
        |steps| counted(steps, "step"),
    );
    let mut facts = vec![code(&visible_line(summary.key.as_str())), steps];
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
    // The answer follows.
    let is_answer = |piece: &&Evidence| piece.kind == Kind::Answer && summary.answer.is_some();
    for piece in explanation
        .evidence
        .iter()
        .filter(|piece| !is_answer(piece))
    {
        writeln!(out, "- {}", escape(&piece.text))?;
    }
    for contradiction in &explanation.contradictions {
        writeln!(out, "- Contradiction: {}", escape(contradiction))?;
    }
    if let Some(answer) = &summary.answer {
        writeln!(out, "\n**Answer:**\n")?;
        quote(out, answer)?;
    }
    writeln!(out)
}

fn write_step(out: &mut dyn Write, view: &RunView<'_>, step_view: &StepView) -> io::Result<()> {
    let marks: Vec<&str> = step_view
        .marks
        .iter()
        .map(|mark| match mark.class {
            "mk cut" => mark.text.as_str(),
            _ => mark.meaning.as_str(),
        })
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
        quote(out, &thought.shown)?;
        rest(out, &thought.more)?;
    }
    if let Some(reply) = step_view.reply.as_ref().or(step_view.wrote.as_ref()) {
        writeln!(out, "**Reply:**\n")?;
        quote(out, &reply.shown)?;
        rest(out, &reply.more)?;
    }
    let answer = step_view
        .decision
        .as_ref()
        .and_then(|decision| decision.answer.as_ref());
    let has_answer = answer.is_some();
    if let Some(answer) = answer {
        writeln!(out, "**Answer:**\n")?;
        quote(out, &answer.shown)?;
        rest(out, &answer.more)?;
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
        && step_view.wrote.is_none()
        && !has_answer
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
    pair.edits
        .iter()
        .try_for_each(|edit| write_edit(out, edit))?;
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

/// Writes the lines of an edit as a diff.
fn write_edit(out: &mut dyn Write, edit: &FileEdit) -> io::Result<()> {
    let note = match edit.note.as_str() {
        "" => String::new(),
        note => format!(" · {}", escape(note)),
    };
    let path = code(&visible_line(edit.path.as_str()));
    let (added, removed) = (count(edit.added as u64), count(edit.removed as u64));
    writeln!(out, "{path} +{added} −{removed}{note}\n")?;
    let mut lines = String::new();
    for row in &edit.rows {
        match row {
            EditRow::Between(words) => lines.push_str(&format!("@@ {} @@", words.as_str())),
            EditRow::Line(sign, parts) => {
                lines.push(match sign {
                    Sign::Same => ' ',
                    Sign::Del => '-',
                    Sign::Ins => '+',
                });
                lines.extend(parts.iter().map(|part| part.text.trim_end_matches('\n')));
            }
        }
        lines.push('\n');
    }
    if !lines.is_empty() {
        fence_as(out, "diff", &lines)?;
    }
    match edit.more.as_str() {
        "" => Ok(()),
        more => writeln!(out, "{}\n", escape(more)),
    }
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

/// Writes Markdown of a trace as a quote. Its code, lists and emphasis stay; nothing in it becomes a
/// heading, a link or HTML, and none of it leaves the quote.
fn quote(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let text = visible(text.trim_end());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (item, line) = item_before_fence(line);
        if !item.is_empty() {
            // Below a text, a dash would make a heading of it.
            writeln!(out, ">\n> {item}")?;
        }
        let Some((mark, ticks)) = fence_of(line) else {
            // Line breaks are kept, as on the pages.
            let has_next = lines
                .peek()
                .is_some_and(|next| !next.trim().is_empty() && fence_of(next).is_none());
            let end = if has_next { "  " } else { "" };
            match prose(line) {
                words if words.trim().is_empty() => writeln!(out, ">")?,
                words => writeln!(out, "> {words}{end}")?,
            }
            continue;
        };
        let language = line.trim_start().trim_start_matches(mark);
        let is_word = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
        let language = language.trim().split(|c| !is_word(c)).next();
        let closes = |line: &&str| {
            let line = line.trim();
            line.len() >= ticks && line.chars().all(|letter| letter == mark)
        };
        let mut code = Vec::new();
        for line in lines.by_ref() {
            if closes(&line) {
                break;
            }
            code.push(line);
        }
        let longest = code.iter().map(|line| longest_run(line)).max();
        let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
        writeln!(out, "> {fence}{}", language.unwrap_or_default())?;
        for line in code {
            writeln!(out, "> {line}")?;
        }
        writeln!(out, "> {fence}")?;
    }
    writeln!(out)
}

/// Splits a line into the mark of an item and the fence that begins the item. Without both, the mark is
/// empty.
fn item_before_fence(line: &str) -> (&str, &str) {
    let text = line.trim_start();
    let marks = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let rest = match marks.len() < text.len() {
        true => marks.strip_prefix(". ").or(marks.strip_prefix(") ")),
        false => text
            .strip_prefix(['-', '*', '+'])
            .and_then(|rest| rest.strip_prefix(' ')),
    };
    let rest = rest.filter(|rest| fence_of(rest).is_some());
    let split = rest.and_then(|rest| text.split_at_checked(text.len() - rest.len()));
    split.map_or(("", line), |(mark, rest)| (mark.trim_end(), rest))
}

/// Returns the letter and the length of the fence that a line begins, if it begins a block of code.
fn fence_of(line: &str) -> Option<(char, usize)> {
    let line = line.trim_start();
    let mark = line
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let ticks = line.len() - rest.len();
    (ticks >= 3 && !rest.contains('`')).then_some((mark, ticks))
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    let runs = text.split(|letter| letter != '`').map(str::len);
    runs.max().unwrap_or_default()
}

/// Formats a line of Markdown outside of blocks of code: code and emphasis stay, all else is escaped.
fn prose(line: &str) -> String {
    let text = line.trim_start();
    // A line of these signs would make a heading of the line before it.
    let underlines = text
        .chars()
        .all(|letter| "-=".contains(letter) || letter == ' ');
    if underlines && !text.is_empty() {
        return format!("\\{text}");
    }
    let item = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_item = ["- ", "* ", "+ ", ". ", ") "]
        .iter()
        .any(|mark| item.starts_with(mark));
    // Text with a larger indentation would be code.
    let indent = line.len() - text.len();
    let mut out = " ".repeat(if is_item {
        indent.min(MAX_INDENT)
    } else {
        indent.min(3)
    });
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        let inside = from.trim_start_matches('`');
        let ticks = from.len() - inside.len();
        out.push_str(&escape_prose(before));
        match code_in(inside, ticks) {
            Some((text, after)) => {
                out.push_str(&code(text));
                rest = after;
            }
            None => {
                out.push_str(&"\\`".repeat(ticks));
                rest = inside;
            }
        }
    }
    out.push_str(&escape_prose(rest));
    out
}

/// Splits a text after as many backticks as opened the code that it begins with.
fn code_in(text: &str, ticks: usize) -> Option<(&str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find('`')?;
        let rest = text.get(start..)?.trim_start_matches('`');
        let end = text.len() - rest.len();
        let code = text.get(..start)?;
        if end - start == ticks {
            return (!code.trim().is_empty()).then_some((code, rest));
        }
        from = end;
    }
}

/// Escapes a text so that none of it is markup or a link, except emphasis.
fn escape_prose(text: &str) -> String {
    escape(text).replace("\\*", "*")
}

/// Writes literal text in a code fence that is longer than any fence inside.
fn fence(out: &mut dyn Write, text: &str) -> io::Result<()> {
    fence_as(out, "", text)
}

/// Does the same and names the language of the text.
fn fence_as(out: &mut dyn Write, language: &str, text: &str) -> io::Result<()> {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    writeln!(
        out,
        "{fence}{language}\n{}\n{fence}\n",
        text.strip_suffix('\n').unwrap_or(text)
    )
}

/// Formats text on one line as code.
fn code(text: &str) -> String {
    let longest = longest_run(text);
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

    fn quoted(text: &str) -> String {
        let mut out = Vec::new();
        quote(&mut out, text).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn markdown_of_a_trace_is_a_quote_with_its_code_and_lists() {
        assert_eq!(
            quoted("Run `act` **now**:\n- one\n  - two\n\n```rust,ignore\nfn a() {}\n```\nDone."),
            "> Run `act` **now**:  \n> - one  \n>   - two\n>\n> ```rust\n> fn a() {}\n> ```\n> Done.\n\n"
        );
        // A fence that is never closed ends with the quote, and can't close another one.
        assert_eq!(quoted("~~~\n```\n<b>"), "> ````\n> ```\n> <b>\n> ````\n\n");
        assert_eq!(quoted("``a`b`` and `c"), "> `` a`b `` and \\`c\n\n");
        // One may begin an item.
        assert_eq!(
            quoted("Run:\n1. ```js\n   x\n   ```\n\nThen **bold**."),
            "> Run:  \n>\n> 1.\n> ```js\n>    x\n> ```\n>\n> Then **bold**.\n\n"
        );
    }

    /// Two parsers might disagree about what is code, so no sign outside of it may have a meaning.
    #[test]
    fn a_hostile_text_makes_no_heading_link_or_html() {
        use pulldown_cmark::{Event, Options, Parser, Tag};
        for text in [
            "# Heading",
            "  ## Heading",
            "- # Heading",
            "> # Heading",
            "1. > # Heading",
            "Heading\n===",
            "Heading\n---",
            "Heading\n  ---  ",
            "- Heading\n  ---",
            "<img src=x onerror=alert(1)>",
            "<script>alert(1)</script>",
            "<!-- a",
            "`<b>` <b> ` <i>",
            "``` <b>",
            "`` <b> `\n`<i> ``",
            "a `b\n<i>` c",
            "![a](http://e/x.png) [b](http://e) <http://e>",
            "[a]: http://e\n[a]",
            "*a [b](c)*",
            "    <b>indented",
            "\t<b>tab",
            "```\n</code></pre><b>",
            "```\n~~~\n# Heading",
            "Heading\n- ```\n<b>\n```\n# Heading",
            "Heading\n1. ~~~\n<b>",
            "- - ```\n<b>",
            "~~~~\n~~~\n<b>\n~~~~\n# Heading\n<b>",
            "\\`<b>\\`",
            "\\\\<b>",
            "&lt;b&gt; &#60;b>",
            "a | b\n--- | ---\n<b> | c",
            "a\r# Heading\r\n# Heading",
            "```\na\r# Heading\n```",
            "a\u{2028}# Heading\u{85}<b>",
        ] {
            let document = format!("# Title\n\n{}## Step 0\n", quoted(text));
            let mut inside = 0;
            for event in Parser::new_ext(&document, Options::all()) {
                match event {
                    Event::Start(Tag::BlockQuote(_)) => inside += 1,
                    Event::End(pulldown_cmark::TagEnd::BlockQuote(_)) => inside -= 1,
                    Event::Start(Tag::Heading { .. }) => {
                        assert_eq!(inside, 0, "{text:?}: {document}");
                    }
                    Event::Html(_)
                    | Event::InlineHtml(_)
                    | Event::FootnoteReference(_)
                    | Event::Start(
                        Tag::HtmlBlock
                        | Tag::Link { .. }
                        | Tag::Image { .. }
                        | Tag::FootnoteDefinition(_)
                        | Tag::Table(_),
                    ) => panic!("{text:?}: {event:?} in {document}"),
                    Event::Text(words) => assert!(
                        inside > 0 || ["Title", "Step 0"].contains(&&*words),
                        "{text:?}: {words} is outside of the quote: {document}"
                    ),
                    _ => {}
                }
            }
            let headings = Parser::new_ext(&document, Options::all())
                .filter(|event| matches!(event, Event::Start(Tag::Heading { .. })));
            assert_eq!(headings.count(), 2, "{text:?}: {document}");
        }
    }
}
