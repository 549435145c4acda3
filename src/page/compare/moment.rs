//! Shows steps side by side: thought, decision, result, critics, state and what followed, in the same
//! order for all. Differences between texts are marked: of two runs in both, of several in those
//! after the first.

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::diff::{Change, Kind, TextChange, diff};
use crate::analysis::format;
use crate::model::json::Json;
use crate::model::step::{Call, Changes, Outcome, Value};
use crate::model::strict::indented;
use crate::model::{CriticAction, Step, TraceFile};
use crate::page::part::critic::Critic;
use crate::page::part::fold::{Fold, Folded, ValueLinks};
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::state_diff::StateDiff;
use crate::page::part::text::{Block, Line, one_line};
use crate::page::run_view::RunView;
use crate::page::scores::overlay::letter;

/// Limits the bytes of a text. The step's own page has the full text.
const MAX_TEXT: usize = 4_000;
/// Limits the pieces in which the texts of all sides are marked. Texts with more have little in
/// common.
const MAX_MARKS: usize = 60;
/// How many unchanged characters to keep around a difference.
const AROUND: usize = 160;
/// Texts with more lines are folded after the first ones.
const MAX_LINES: usize = 12;
const SHOWN_LINES: usize = 8;
/// Lists and objects among the arguments of a call that are longer have a line for each value; bytes.
const LIST: usize = 60;
/// Limits the changed keys listed.
const MAX_KEYS: usize = 8;
/// Limits the characters of a critic's reason.
const MAX_REASON: usize = 400;

/// Steps side by side with their full content.
#[derive(Template)]
#[template(path = "compare/diverge.html")]
pub(crate) struct Opened {
    sides: Vec<Moment>,
}

impl HtmlSafe for Opened {}

struct Moment {
    letter: String,
    class: &'static str,
    /// `Step 5` and its link. The address is empty if this run has no such step.
    title: Link,
    mode: Line,
    parts: Vec<(&'static str, Part)>,
}

/// A part of a step's content.
enum Part {
    Words(Phrase),
    /// Text with differences marked, and what is folded of a long one.
    Text(Vec<Mark>, Option<Rest>),
    Prose(Box<Prose>),
    /// The reason that there is nothing to show.
    Missing(&'static str),
}

impl Part {
    /// Whether the content is code: calls and their results.
    fn is_code(&self, term: &str) -> bool {
        matches!(self, Self::Text(..)) && matches!(term, "Action" | "Result")
    }
}

/// Prose without marks, as Markdown.
struct Prose {
    text: Folded,
    /// What is folded: the number of lines and the text.
    rest: Option<(usize, Folded)>,
}

/// A piece of a text.
enum Mark {
    Same(Block),
    Del(Block),
    Ins(Block),
}

/// The lines of a long text after the first ones.
struct Rest {
    /// The number of lines.
    lines: usize,
    marks: Vec<Mark>,
    /// Whether they have differences, so that they're shown at first.
    is_open: bool,
}

/// A text of a step, or the reason it is missing.
type Text = Result<String, &'static str>;

/// The content of a step's line.
struct Content {
    /// The texts compared word by word, with their names: the thought, the action or answer, the
    /// result.
    texts: [(&'static str, Text); 3],
    critics: Result<Phrase, &'static str>,
    state: Result<Phrase, &'static str>,
}

impl Opened {
    /// Opens the steps of a row. `next` returns the next step of a run that has none in this row.
    pub(crate) fn new(
        views: &[&RunView<'_>],
        steps: &[Option<usize>],
        next: &dyn Fn(usize) -> Option<usize>,
    ) -> Self {
        let own = views.iter().zip(steps);
        let contents: Vec<Option<(usize, Content)>> = own
            .map(|(view, n)| n.map(|n| (n, content(view, n))))
            .collect();
        let side = |(at, view): (usize, &&RunView<'_>)| {
            let (letter, class) = (letter(at), side_class(at));
            let Some((n, own)) = contents.get(at).and_then(Option::as_ref) else {
                return Moment {
                    letter,
                    class,
                    title: Link::new(missing(view, next(at)), ""),
                    mode: Line::default(),
                    parts: Vec::new(),
                };
            };
            let mode = view
                .index
                .steps()
                .get(*n)
                .map(|step| view.index.name(step.mode))
                .unwrap_or_default();
            let beside = match (at, views.len()) {
                (0, 2) => contents.get(1),
                (0, _) => None,
                _ => contents.first(),
            };
            let beside = beside.and_then(Option::as_ref).map(|(_, content)| content);
            Moment {
                letter,
                class,
                title: Link::new(format!("Step {}", view.label(*n)), view.at_step(*n)),
                mode: mode.into(),
                parts: parts(
                    view,
                    *n,
                    own,
                    beside,
                    Side {
                        is_a: at == 0,
                        most: MAX_MARKS / views.len(),
                    },
                ),
            }
        };
        let mut sides: Vec<Moment> = views.iter().enumerate().map(side).collect();
        drop_missing(&mut sides);
        Self { sides }
    }

    fn is_several(&self) -> bool {
        self.sides.len() > 2
    }
}

/// Removes the parts that no side has. The action is always shown.
fn drop_missing(sides: &mut [Moment]) {
    let is_shown = |part: &(&'static str, Part)| !matches!(part.1, Part::Missing(_));
    let parts = sides.iter().flat_map(|side| &side.parts);
    let kept: Vec<&'static str> = parts
        .filter(|part| is_shown(part) || part.0 == "Decision")
        .map(|(term, _)| *term)
        .collect();
    for side in sides {
        side.parts.retain(|(term, _)| kept.contains(term));
    }
}

/// Returns the title for a run that has no step in this row.
fn missing(view: &RunView<'_>, next: Option<usize>) -> String {
    match next {
        Some(n) => format!("No matching step. Continues with step {}", view.label(n)),
        None if view.summary.steps_unknown => "No more recorded steps".to_owned(),
        None if view.index.steps().is_empty() => "No steps".to_owned(),
        None => "No more steps".to_owned(),
    }
}

/// How the texts of a side are marked.
#[derive(Clone, Copy)]
struct Side {
    /// Whether differences are marked as deleted.
    is_a: bool,
    /// Maximum number of pieces of a text.
    most: usize,
}

fn parts(
    view: &RunView<'_>,
    n: usize,
    own: &Content,
    beside: Option<&Content>,
    side: Side,
) -> Vec<(&'static str, Part)> {
    let [_, asks, _] = &own.texts;
    // Results of different calls differ entirely, so marking the differences wouldn't help.
    let same_call = beside.is_some_and(|beside| beside.texts.contains(asks));
    let part = |(at, (term, text)): (usize, &(&'static str, Text))| {
        let other = beside
            .and_then(|beside| beside.texts.get(at))
            .filter(|(known, _)| known == term);
        let other = other
            .filter(|_| *term != "Result" || same_call)
            .and_then(|(_, text)| text.as_deref().ok());
        match text {
            Ok(text) => {
                let marked = marked(text, other, side);
                let is_prose = matches!(*term, "Thought" | "Answer") && !is_alike(&marked);
                let part = is_prose.then(|| prose(text)).flatten();
                (*term, part.unwrap_or_else(|| folded(&marked)))
            }
            Err(why) => (*term, Part::Missing(why)),
        }
    };
    let words = [
        ("Critics", own.critics.clone()),
        ("State", own.state.clone()),
        ("Then", Ok(then(view, n))),
    ];
    let words = words
        .into_iter()
        .map(|(term, words)| (term, words.map_or_else(Part::Missing, Part::Words)));
    own.texts
        .iter()
        .enumerate()
        .map(part)
        .chain(words)
        .collect()
}

/// Marks the parts of a text that the other side lacks: as deleted in A, as inserted in B.
fn marked(text: &str, other: Option<&str>, Side { is_a, most }: Side) -> Vec<(Kind, String)> {
    let plain = || vec![(Kind::Same, text.to_owned())];
    let Some(other) = other.filter(|other| *other != text) else {
        return plain();
    };
    let (before, after) = if is_a { (text, other) } else { (other, text) };
    let (before, after) = (Json::String(before.into()), Json::String(after.into()));
    let Change::Text(TextChange::Edited(parts)) = diff(&before, &after) else {
        return plain();
    };
    if parts.len() > most {
        return plain();
    }
    let own = if is_a { Kind::Del } else { Kind::Ins };
    let last = parts.len().saturating_sub(1);
    let piece = |(at, (kind, text)): (usize, &(Kind, &str))| match kind {
        Kind::Same => Some((Kind::Same, around(text, at == 0, at == last))),
        kind if *kind == own => Some((own, (*text).to_owned())),
        _ => None,
    };
    parts.iter().enumerate().filter_map(piece).collect()
}

/// Returns whether a text has marks and at least half of it has none, so that they say what differs.
fn is_alike(pieces: &[(Kind, String)]) -> bool {
    let len = |is_same: bool| {
        let pieces = pieces.iter();
        let pieces = pieces.filter(|(kind, _)| (*kind == Kind::Same) == is_same);
        pieces.map(|(_, text)| text.len()).sum::<usize>()
    };
    len(false) > 0 && len(true) >= len(false)
}

/// Folds a long text at the end of a paragraph. Returns `None` if it contains no Markdown.
fn prose(text: &str) -> Option<Part> {
    let whole = Folded::prose_of(text);
    if !whole.is_markdown() {
        return None;
    }
    let lines = text.lines().count();
    let (mut at, mut end, mut is_fence) = (0, None, false);
    for (n, line) in text.split_inclusive('\n').enumerate() {
        is_fence ^= line.trim_start().starts_with("```");
        let is_end = !is_fence && line.trim().is_empty() && n > 0;
        if is_end && (n <= SHOWN_LINES || end.is_none()) {
            end = Some((n, at));
        }
        at += line.len();
    }
    let end = end.filter(|(n, _)| lines > MAX_LINES && lines - n > 1);
    let Some((n, (head, rest))) = end.map(|(n, at)| (n, text.split_at(at))) else {
        let (text, rest) = (whole, None);
        return Some(Part::Prose(Box::new(Prose { text, rest })));
    };
    let rest = Folded::prose_of(rest.trim_start_matches('\n'));
    Some(Part::Prose(Box::new(Prose {
        text: Folded::prose_of(head),
        rest: Some((lines - n - 1, rest)),
    })))
}

/// Folds the lines of a long text after the first [`SHOWN_LINES`].
fn folded(pieces: &[(Kind, String)]) -> Part {
    let lines = |text: &str| text.matches('\n').count();
    let total: usize = pieces.iter().map(|(_, text)| lines(text)).sum::<usize>() + 1;
    let mark = |(kind, text): &(Kind, &str)| match kind {
        Kind::Same => Mark::Same(Block::new(text)),
        Kind::Del => Mark::Del(Block::new(text)),
        Kind::Ins => Mark::Ins(Block::new(text)),
    };
    let all: Vec<(Kind, &str)> = pieces
        .iter()
        .map(|(kind, text)| (*kind, text.as_str()))
        .collect();
    if total <= MAX_LINES {
        return Part::Text(all.iter().map(mark).collect(), None);
    }
    let (mut head, mut rest, mut left) = (Vec::new(), Vec::new(), SHOWN_LINES);
    for (kind, text) in all {
        // The line break at the end of the shown lines is in neither part.
        let end = left.checked_sub(1);
        match end.and_then(|end| text.match_indices('\n').nth(end)) {
            Some((at, _)) => {
                let (shown, folded) = text.split_at(at);
                head.push((kind, shown));
                rest.push((kind, folded.strip_prefix('\n').unwrap_or(folded)));
                left = 0;
            }
            None if left == 0 => rest.push((kind, text)),
            None => {
                head.push((kind, text));
                left -= lines(text);
            }
        }
    }
    let rest = Rest {
        lines: total - SHOWN_LINES,
        is_open: rest.iter().any(|(kind, _)| *kind != Kind::Same),
        marks: rest.iter().map(mark).collect(),
    };
    Part::Text(head.iter().map(mark).collect(), Some(rest))
}

/// Shortens long unchanged text to the characters near the differences, dropping the middle. At the
/// start or end of the whole text, keeps only the side next to a difference.
fn around(text: &str, starts: bool, ends: bool) -> String {
    let length = text.chars().count();
    if length <= 2 * AROUND + 20 {
        return text.to_owned();
    }
    let head: String = text.chars().take(if starts { 0 } else { AROUND }).collect();
    let tail: String = text
        .chars()
        .skip(length - if ends { 0 } else { AROUND })
        .collect();
    format!("{head} … {tail}")
}

const UNREAD: &str = "the line can't be read";

fn content(view: &RunView<'_>, n: usize) -> Content {
    let span = view.index.steps().get(n).map(|step| step.span);
    let record = span.and_then(|span| view.lines.record(TraceFile::Steps, span).ok());
    record.as_ref().and_then(crate::format::step).map_or_else(
        || Content {
            texts: ["Thought", "Decision", "Result"].map(|term| (term, Err(UNREAD))),
            critics: Err(UNREAD),
            state: Err(UNREAD),
        },
        |step| read(&step),
    )
}

fn read(step: &Step<'_>) -> Content {
    let decision = step
        .decision
        .as_ref()
        .filter(|decision| !decision.value.is_empty());
    let thought = decision
        .and_then(|decision| decision.rationale?.string())
        .filter(|text| !text.trim().is_empty());
    let results: Vec<String> = step.results.iter().map(result).collect();
    let asks = match (decision.and_then(|decision| decision.answer), decision) {
        _ if !step.calls.is_empty() => {
            let calls: Vec<String> = step.calls.iter().map(call).collect();
            ("Action", Ok(cut(&calls.join("\n"))))
        }
        (Some(answer), _) => ("Answer", Ok(cut(&answer.plain()))),
        (None, Some(_)) => ("Decision", Err("no action or answer")),
        (None, None) => ("Decision", Err("not recorded")),
    };
    let thought = thought.as_deref().map(cut).ok_or("not recorded");
    let result = if results.is_empty() {
        Err("not recorded")
    } else {
        Ok(cut(&results.join("\n")))
    };
    Content {
        texts: [("Thought", thought), asks, ("Result", result)],
        critics: critics(step),
        state: state(step),
    }
}

fn cut(text: &str) -> String {
    let head = crate::model::names::cut_at(text, MAX_TEXT);
    if head.len() < text.len() {
        format!(
            "{head}… (truncated, {} in total)",
            format::bytes(text.len() as u64)
        )
    } else {
        text.to_owned()
    }
}

/// Formats a call. Long lists and arguments of several lines follow it, each below its name.
fn call(call: &Call<'_>) -> String {
    let Some(name) = call.name.as_deref() else {
        return call.value.json().to_string();
    };
    let mut long = String::new();
    let args = match call.args.map(Value::json) {
        Some(Json::Object(args)) => args
            .iter()
            .filter_map(|(key, value)| match value {
                Json::String(text) if text.trim_end().contains('\n') => {
                    long.push_str(&format!("\n{key}:\n{}", text.trim_end()));
                    None
                }
                value => {
                    let text = value.to_string();
                    if matches!(value, Json::Array(_) | Json::Object(_)) && text.len() > LIST {
                        let lines = indented(text.as_bytes());
                        let lines = String::from_utf8_lossy(&lines);
                        long.push_str(&format!("\n{key}:\n{lines}"));
                        return None;
                    }
                    Some(format!("{key}={text}"))
                }
            })
            .collect::<Vec<_>>()
            .join(", "),
        Some(args) if !args.is_empty() => args.to_string(),
        _ => String::new(),
    };
    format!("{name}({args}){long}")
}

/// Formats a tool result, with the error first. The duration is shown elsewhere.
fn result(result: &Outcome<'_>) -> String {
    let error = result
        .error
        .map(|error| format!("error: {}", error.plain()));
    // The whole result would repeat its error.
    let repeats = |output: &Value<'_>| error.is_some() && output.at == result.value.at;
    let output = result
        .output
        .filter(|output| !output.is_empty() && !repeats(output));
    let parts: Vec<String> = [error, output.map(|output| output.plain().into_owned())]
        .into_iter()
        .flatten()
        .collect();
    let text = parts.join("\n");
    match text.trim_end() {
        "" => "empty".to_owned(),
        text => text.to_owned(),
    }
}

fn critics(step: &Step<'_>) -> Result<Phrase, &'static str> {
    if step.critics.is_empty() {
        return Err("no critic output");
    }
    let mut fold = Fold::new(ValueLinks::default());
    let mut phrase = Phrase::new();
    for (at, critic) in Critic::read_all(&step.critics, |_| None, &mut fold)
        .into_iter()
        .enumerate()
    {
        let long = critic
            .long_reason
            .map(|reason| reason.shown)
            .unwrap_or_default();
        let reason = if critic.reason.is_empty() {
            long
        } else {
            critic.reason.as_str().to_owned()
        };
        let name = format!("{}{} ", if at > 0 { "; " } else { "" }, critic.name);
        phrase = phrase
            .text(name)
            .strong(critic.score)
            .text(" ")
            .sign(&critic.mark);
        if !reason.is_empty() {
            phrase = phrase.text(format!(", “{}”", one_line(&reason, MAX_REASON).0));
        }
    }
    Ok(phrase)
}

fn state(step: &Step<'_>) -> Result<Phrase, &'static str> {
    let Some(Changes(changes)) = step.changes else {
        return Err("not recorded");
    };
    let diff = StateDiff::new(
        &changes.json(),
        None,
        &mut Fold::new(ValueLinks::default()),
        "",
    );
    let Some(diff) = diff else {
        return Ok(Phrase::from("no changes"));
    };
    let mut phrase = Phrase::new();
    for (at, row) in diff.rows.iter().take(MAX_KEYS).enumerate() {
        phrase = phrase
            .text(if at > 0 { "; " } else { "" })
            .code(row.key.clone())
            .text(after_key(row.change.as_str()));
    }
    Ok(match diff.rows.len().saturating_sub(MAX_KEYS) {
        0 => phrase,
        more => phrase.dim(format!(" and {}", format::counted(more, "more key"))),
    })
}

/// Words a change after its key: ` +1`, ` changed`, `: list, +1 item → 1`.
fn after_key(change: &str) -> String {
    match change.strip_prefix("number, ") {
        Some(delta) => format!(" {delta}"),
        None if matches!(change, "number" | "text") => " changed".to_owned(),
        None => format!(": {change}"),
    }
}

/// Describes what followed the step.
fn then(view: &RunView<'_>, n: usize) -> Phrase {
    let next = n + 1;
    if next < view.index.steps().len() {
        let retry = view
            .index
            .steps()
            .get(n)
            .is_some_and(|step| step.requested(CriticAction::Retry));
        let phrase = if retry {
            Phrase::new()
                .sign(&Sign::word("mk retry", "retry", "retry"))
                .text(", ")
        } else {
            Phrase::new()
        };
        return phrase
            .text("continues with ")
            .link(format!("step {}", view.label(next)), view.at_step(next));
    }
    let (word, sentence) = (view.status().word(), &view.summary.verdict.sentence);
    if view.is_alive() {
        Phrase::new()
            .text("the newest step: ")
            .text(sentence.as_str())
    } else {
        let is_twice = sentence.to_lowercase().starts_with(&format!("{word}: "));
        Phrase::from(match is_twice {
            true => sentence.to_string(),
            false => format!("{word}: {sentence}"),
        })
    }
}

/// Returns the class for the letter of the run at `place`.
pub(super) fn side_class(place: usize) -> &'static str {
    match place {
        0 => "side-a",
        1 => "side-b",
        _ => "side-c",
    }
}
