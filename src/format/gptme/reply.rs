//! Reads the text of a reply: its thoughts, in tags, and its calls.
//!
//! Depending on an option, a call is a line `@TOOL(ID): {…}`, a code block that begins with the name of
//! a tool, or an element of `<tool-use>`. Other code blocks look the same as calls, so a block becomes a
//! call with its result. Must not know the records of a session.

use std::collections::HashMap;

use crate::format::part::{MAX_PIECES, quoted};
use crate::format::value::unpacked;
use crate::format::{CallDraft, Part};

/// How the ids of calls begin that are code blocks. Their number follows.
const BLOCK: &str = "block ";
/// At most this many code blocks of a reply become calls. The program usually runs one.
const MAX_BLOCKS: usize = 64;

/// The tools that code blocks call, by the first word after the fence, each with the argument that
/// follows it and the one that is the block. An argument without a name is left out.
const TOOLS: [(&str, &str, &str); 14] = [
    ("shell", "", "command"),
    ("ipython", "", "code"),
    ("py", "", "code"),
    ("save", "path", "content"),
    ("append", "path", "content"),
    ("patch", "path", "patch"),
    ("morph", "path", "edit"),
    ("read", "path", ""),
    ("tmux", "", "command"),
    ("gh", "command", "body"),
    ("mcp", "", "command"),
    ("todo", "operation", "text"),
    ("choice", "question", "options"),
    ("complete", "", ""),
];

/// How thoughts begin and end. The model may use either tag.
const THOUGHT: &str = "<think";
const THOUGHT_ENDS: &str = "</think";
/// A signature of a thought, for the provider.
const SIGNATURE: (&str, &str) = ("<!-- think-sig:", "-->");

/// Returns the text of a reply, its thoughts and the calls with ids.
pub(super) fn read(content: &str) -> Part {
    let mut part = Part::default();
    let said = without_thoughts(content, &mut part.thought);
    let said = without_calls(&said, &mut part);
    let said = said.trim();
    if !said.is_empty() {
        part.text.push(said.to_owned());
    }
    part
}

/// Returns the text outside of thoughts, and adds the thoughts to `thoughts`.
fn without_thoughts(content: &str, thoughts: &mut Vec<String>) -> String {
    let (mut said, mut rest) = (String::new(), content);
    while let Some(at) = rest.find(THOUGHT) {
        let (before, tag) = rest.split_at(at);
        let after = tag.get(THOUGHT.len()..).unwrap_or_default();
        let inside = after.strip_prefix('>').or(after.strip_prefix("ing>"));
        // A tag inside a line is part of a sentence.
        let is_line = before.is_empty() && said.is_empty() || before.ends_with('\n');
        let Some(inside) = inside.filter(|_| is_line) else {
            said.push_str(before);
            said.push_str(THOUGHT);
            rest = after;
            continue;
        };
        said.push_str(before);
        let (thought, next) = match inside.split_once(THOUGHT_ENDS) {
            Some((thought, next)) => (thought, next.split_once('>').map_or("", |(_, next)| next)),
            None => (inside, ""),
        };
        let thought = without_signatures(thought);
        let thought = thought.trim();
        if !thought.is_empty() {
            thoughts.push(thought.to_owned());
        }
        rest = next;
    }
    said.push_str(rest);
    without_signatures(&said)
}

fn without_signatures(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, signature)) = rest.split_once(SIGNATURE.0) {
        out.push_str(before);
        rest = signature
            .split_once(SIGNATURE.1)
            .map_or("", |(_, next)| next);
    }
    out.push_str(rest);
    out
}

/// Returns the text outside of calls with ids, and adds the calls to `part`.
fn without_calls(content: &str, part: &mut Part) -> String {
    let fenced = blocks(content);
    let mut fenced = fenced.iter().peekable();
    let (mut said, mut from, mut at) = (String::new(), 0, 0);
    while let Some(line) = content.get(at..).filter(|rest| !rest.is_empty()) {
        let next = line.find('\n').map_or(content.len(), |end| at + end + 1);
        // A call in a code block is an example.
        while fenced.next_if(|block| block.end <= at).is_some() {}
        if let Some(block) = fenced.peek().filter(|block| block.start <= at) {
            at = block.end.max(next);
            continue;
        }
        let Some((id, name, args)) = call_at(line) else {
            at = next;
            continue;
        };
        // An incomplete call isn't run, and neither is one after it.
        let Some(len) = object_end(args) else { break };
        let (args, rest) = args.split_at(len);
        said.push_str(content.get(from..at).unwrap_or_default());
        (from, at) = (content.len() - rest.len(), content.len() - rest.len());
        if part.calls.len() >= MAX_PIECES {
            part.beyond += 1;
            continue;
        }
        part.calls.push(CallDraft {
            id: id.to_owned(),
            name: name.to_owned(),
            args: unpacked(args),
        });
    }
    said.push_str(content.get(from..).unwrap_or_default());
    said
}

/// Returns the id and the tool of a call that begins here, and the text from its arguments on:
/// `@TOOL(ID): {…`.
fn call_at(line: &str) -> Option<(&str, &str, &str)> {
    let rest = line.strip_prefix('@')?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.')))?;
    let (name, rest) = rest.split_at(end);
    let rest = rest.strip_prefix('(')?;
    let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.')))?;
    let (id, rest) = rest.split_at(end);
    let args = rest.strip_prefix("):")?.trim_start();
    (!name.is_empty() && !id.is_empty() && args.starts_with('{')).then_some((id, name, args))
}

/// Returns where the object at the start of a text ends. Its strings may be broken.
fn object_end(text: &str) -> Option<usize> {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' if !is_string => depth += 1,
            b'}' if !is_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// A code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block<'a> {
    start: usize,
    end: usize,
    /// What follows the fence.
    head: &'a str,
    body: &'a str,
}

/// Returns the code blocks of a text. A fence that is never closed begins none.
fn blocks(text: &str) -> Vec<Block<'_>> {
    // The line, the number of backticks, and what follows them.
    let mut fences: Vec<(usize, usize, usize, &str)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let ticks = line.len() - line.trim_start_matches('`').len();
        if ticks >= 3 {
            let head = line.get(ticks..).unwrap_or_default().trim();
            fences.push((at, at + line.len(), ticks, head));
        }
        at += line.len();
    }
    let mut closing: HashMap<usize, Vec<usize>> = HashMap::new();
    for (n, (.., ticks, head)) in fences.iter().enumerate() {
        if head.is_empty() {
            closing.entry(*ticks).or_default().push(n);
        }
    }
    let (mut found, mut next) = (Vec::new(), 0);
    for (n, (start, from, ticks, head)) in fences.iter().enumerate() {
        let closers = closing.get(ticks).map(Vec::as_slice).unwrap_or_default();
        let closer = closers.get(closers.partition_point(|closer| *closer <= n));
        let Some((closer, (to, end, ..))) = closer
            .filter(|_| n >= next)
            .and_then(|closer| Some((*closer, fences.get(*closer)?)))
        else {
            continue;
        };
        next = closer + 1;
        found.push(Block {
            start: *start,
            end: *end,
            head,
            body: text.get(*from..*to).unwrap_or_default(),
        });
    }
    found
}

/// Returns the call in the first code block of a reply that isn't a call yet.
pub(super) fn next_block(step: &Part) -> Option<CallDraft> {
    let taken = step
        .calls
        .iter()
        .filter(|call| call.id.starts_with(BLOCK))
        .count();
    let words = step.text.first().filter(|_| taken < MAX_BLOCKS)?;
    let (name, args) = match words.contains("<tool-use>") {
        true => element(words, taken),
        false => blocks(words)
            .iter()
            .filter_map(|block| called(block.head, block.body))
            .nth(taken),
    }?;
    Some(CallDraft {
        id: format!("{BLOCK}{}", taken + 1),
        name,
        args,
    })
}

/// Returns the tool and the arguments in the `n`th element `<tool-use>`.
fn element(words: &str, n: usize) -> Option<(String, String)> {
    let inside = words.split("<tool-use>").skip(1);
    let inside = inside.filter_map(|rest| Some(rest.split_once("</tool-use>")?.0.trim()));
    let mut calls = inside.filter_map(|call| {
        let (tag, rest) = call.strip_prefix('<')?.split_once('>')?;
        let (name, given) = tag.split_once(" args=").unwrap_or((tag, ""));
        let body = rest.rsplit_once("</")?.0;
        let body = body.strip_prefix('\n').unwrap_or(body);
        let given = given.trim_matches(['"', '\'']);
        called(&format!("{name} {given}"), &unescaped(body))
    });
    calls.nth(n)
}

fn unescaped(body: &str) -> String {
    let body = body.replace("&lt;", "<").replace("&gt;", ">");
    body.replace("&amp;", "&")
}

/// Returns the tool that a code block calls, and the arguments as JSON.
fn called(head: &str, body: &str) -> Option<(String, String)> {
    let (name, given) = head.split_once(' ').unwrap_or((head, ""));
    let (_, first, rest) = TOOLS.iter().find(|(tool, ..)| *tool == name)?;
    let body = body.strip_suffix('\n').unwrap_or(body);
    let members = [(*first, given.trim()), (*rest, body)]
        .into_iter()
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)));
    let members: Vec<String> = members.collect();
    Some((name.to_owned(), format!("{{{}}}", members.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text, the thoughts and the calls, each with its arguments.
    fn parts(content: &str) -> (String, Vec<String>, Vec<String>) {
        let part = read(content);
        let call = |call: &CallDraft| format!("{}({}) {}", call.name, call.id, call.args);
        let calls = part.calls.iter().map(call).collect();
        (part.text.join("|"), part.thought, calls)
    }

    #[test]
    fn thoughts_are_in_tags_at_the_start_of_a_line() {
        for (content, text, thoughts) in [
            ("<think>\na\n</think>\n\nb", "b", &["a"][..]),
            ("<thinking>a</thinking>b\n<think>c", "b", &["a", "c"]),
            ("Use <think> here", "Use <think> here", &[]),
            (
                "<think>\n<!-- think-sig: x\ny -->\na</think><!-- think-sig: z -->b",
                "b",
                &["a"],
            ),
            ("<think></think>", "", &[]),
            ("<thinker>", "<thinker>", &[]),
        ] {
            let (said, thought, _) = parts(content);
            assert_eq!(said, text, "{content}");
            assert_eq!(thought, thoughts, "{content}");
        }
    }

    #[test]
    fn calls_are_lines_outside_of_code_blocks() {
        for (content, text, calls) in [
            (
                "a\n@x(1): {\"b\": \"}\"}\nc",
                "a\n\nc",
                &["x(1) {\"b\": \"}\"}"][..],
            ),
            (
                "@x(1): {}\n@y.z(c:2-d.e): {}",
                "",
                &["x(1) {}", "y.z(c:2-d.e) {}"],
            ),
            (
                "```\n@x(1): {}\n```\n@y(2): {}",
                "```\n@x(1): {}\n```",
                &["y(2) {}"],
            ),
            // A fence that is never closed begins no block.
            ("```\n@x(1): {}", "```", &["x(1) {}"]),
            (
                "@x(1): {\"a\": 1\n@y(2): {}",
                "@x(1): {\"a\": 1\n@y(2): {}",
                &[],
            ),
            ("@x(1): {'a': 1}", "", &["x(1) \"{'a': 1}\""]),
            ("a @x(1): {}", "a @x(1): {}", &[]),
            ("@x(): {}", "@x(): {}", &[]),
        ] {
            let (said, _, found) = parts(content);
            assert_eq!(said, text, "{content}");
            assert_eq!(found, calls, "{content}");
        }
    }

    #[test]
    fn a_block_ends_at_a_fence_of_the_same_length() {
        let heads = |text| {
            let found = blocks(text).into_iter();
            found
                .map(|block| (block.head, block.body))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            heads("````a\n```\nb\n```\n````\n"),
            [("a", "```\nb\n```\n")]
        );
        assert_eq!(
            heads("```a\nb\n```\nc\n```d e\n```"),
            [("a", "b\n"), ("d e", "")]
        );
        assert_eq!(heads("```a\nb"), []);
    }
}
