//! Converts one event of a sample into a part of its step.

use std::collections::HashSet;

use super::super::part::{self, text};
use super::super::value::{count, cut, filled, is_true, micros, number, unpacked};
use super::super::{Answer, CallDraft, Part, Tokens};
use crate::model::json::{Json, walk};
use crate::model::{RunScore, step};

/// How a reference to a text stored elsewhere begins. Its key follows.
pub(super) const PREFIXES: [&str; 2] = ["attachment://", "tc://"];

/// Scores kept per sample, at most.
pub(super) const MAX_SCORES: usize = 256;

/// Texts inserted into one step, at most. Further ones remain references.
pub(super) const MAX_TEXTS: usize = 1_000;

fields! {
    struct Event {
        event, model, output, error, completed, timestamp, id, result, pending, failed, changes, score, scorer,
        intermediate, name, kind = "type", working_time, cache,
    }
    struct Output { model, choices, usage, error }
    struct Choice { message, stop_reason }
    struct Message { content, reasoning, tool_calls }
    struct Content { text, reasoning, summary, kind = "type" }
    struct Call { id, function, arguments, parse_error }
    struct Usage {
        input_tokens, output_tokens, total_tokens, input_tokens_cache_read, input_tokens_cache_write, reasoning_tokens, total_cost,
    }
    struct Error { message, kind = "type" }
    struct Change { op, path, value, replaced, from }
    struct Given { value, answer, explanation }
}

/// Name, number and explanation of a score.
type Score = (String, Option<f64>, Option<String>);

/// Builds the line of a step from its own records and the texts that they refer to.
pub(super) fn assembled(n: usize, records: &[String]) -> String {
    let parts: Vec<Part> = records.iter().map(|record| part_of(record)).collect();
    // After the step's own records there is one record per text that they refer to, in order of
    // reference.
    let mut wanted: Vec<String> = Vec::new();
    let mut own = None;
    for (at, part) in parts.iter().enumerate() {
        for reference in references(part) {
            if !wanted.contains(&reference) && wanted.len() < MAX_TEXTS {
                wanted.push(reference);
            }
        }
        if at + 1 + wanted.len() == parts.len() {
            own = Some(at + 1);
            break;
        }
    }
    let Some(own) = own.filter(|own| *own < parts.len()) else {
        return part::line(n, parts);
    };
    let mut step = Part::default();
    parts.into_iter().take(own).for_each(|part| step.add(part));
    for (reference, record) in wanted.iter().zip(records.iter().skip(own)) {
        if let Some(words) = text(
            Some(record)
                .filter(|record| record.starts_with('"'))
                .map(String::as_str),
        ) {
            step.replace(reference, &words);
        }
    }
    step.line(n)
}

/// Returns the references in a part to texts stored elsewhere.
pub(super) fn references(part: &Part) -> Vec<String> {
    let mut found = Vec::new();
    let words = part.thought.iter().chain(&part.text).chain(&part.error);
    let words = words.chain(
        part.answers
            .iter()
            .filter_map(|answer| answer.error.as_ref()),
    );
    let words = words.chain(
        part.scores
            .iter()
            .filter_map(|(.., reason)| reason.as_ref()),
    );
    found.extend(words.filter(|words| is_reference(words)).cloned());
    let json = part
        .calls
        .iter()
        .map(|call| &call.args)
        .chain(part.answers.iter().map(|answer| &answer.output));
    let json = json.chain(
        part.changes
            .iter()
            .flat_map(|(_, before, after)| before.iter().chain(after)),
    );
    for json in json {
        found.extend(references_in(json).map(|(_, reference)| reference.to_owned()));
    }
    let mut seen = HashSet::new();
    found.retain(|reference| seen.insert(reference.clone()));
    found.truncate(MAX_TEXTS);
    found
}

/// Returns the references to stored texts that are whole strings of a JSON text, each with its
/// offset.
pub(in crate::format) fn references_in(json: &str) -> impl Iterator<Item = (usize, &str)> {
    PREFIXES.iter().flat_map(move |prefix| {
        json.match_indices(prefix).filter_map(move |(at, _)| {
            json.get(..at).filter(|before| before.ends_with('"'))?;
            let reference = json.get(at..)?.split('"').next()?;
            is_reference(reference).then_some((at, reference))
        })
    })
}

fn is_reference(words: &str) -> bool {
    let key = PREFIXES
        .iter()
        .find_map(|prefix| words.strip_prefix(prefix));
    key.is_some_and(is_key)
}

/// Returns whether a text is the key of a stored text.
pub(super) fn is_key(key: &str) -> bool {
    (1..=64).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the part of a step that an event holds.
pub(super) fn part_of(record: &str) -> Part {
    let event = Event::of(record);
    match text(event.event).as_deref() {
        Some("model") => reply(&event),
        Some("tool") => Part {
            answers: vec![answer(&event)],
            ..Part::default()
        },
        Some("state" | "store") => {
            let changes = event
                .changes
                .into_iter()
                .flat_map(walk::items)
                .filter_map(change)
                .collect();
            Part {
                changes,
                ..Part::default()
            }
        }
        // A score at the end applies to the sample, not to a step.
        Some("score") if is_true(event.intermediate) => Part {
            scores: scored(&event).into_iter().map(of_step).collect(),
            ..Part::default()
        },
        Some("span_begin") => Part {
            agent: filled(event.name),
            ..Part::default()
        },
        _ => Part::default(),
    }
}

fn scored(event: &Event<'_>) -> Vec<RunScore> {
    let name = filled(event.scorer).unwrap_or_else(|| "score".to_owned());
    event
        .score
        .map(|of| score(&name, of, None))
        .unwrap_or_default()
}

/// Converts a score of a step. A grade that isn't a number becomes part of the explanation.
fn of_step(given: RunScore) -> Score {
    let reason = match (given.grade, given.reason) {
        (Some(grade), Some(reason)) => Some(format!("{grade}: {reason}")),
        (grade, reason) => grade.or(reason).map(String::from),
    };
    (given.name.into(), given.score, reason)
}

/// Returns the scores of the whole sample that an event holds.
pub(super) fn score_at_end(record: &str) -> Vec<RunScore> {
    scored(&Event::of(record))
}

/// Returns the scores of a sample. `at` is the event that contains them.
pub(super) fn scores(scores: &str, at: Option<usize>) -> Vec<RunScore> {
    let each = walk::members(scores)
        .flat_map(|(name, of)| score(&text(Some(name)).unwrap_or_default(), of, at));
    each.take(MAX_SCORES).collect()
}

fn reply(event: &Event<'_>) -> Part {
    let output = event.output.map(Output::of).unwrap_or_default();
    let choice = output
        .choices
        .and_then(|choices| walk::items(choices).next())
        .map(Choice::of)
        .unwrap_or_default();
    let message = choice.message.map(Message::of).unwrap_or_default();
    let usage = output.usage.map(Usage::of).unwrap_or_default();
    let mut part = Part {
        model: filled(output.model).or_else(|| filled(event.model)),
        finish: filled(choice.stop_reason),
        tokens: output
            .usage
            .filter(|usage| usage.starts_with('{'))
            .map(|_| match event.cache {
                // A reply from the cache repeats the usage of the request that filled it. It used
                // no tokens itself.
                Some("\"read\"") => Tokens {
                    input: Some(0),
                    output: Some(0),
                    ..Tokens::default()
                },
                _ => tokens(&usage),
            }),
        cost: number(usage.total_cost),
        error: filled(event.error).or_else(|| filled(output.error)),
        ..Part::default()
    };
    part.thought.extend(filled(message.reasoning));
    match text(message.content) {
        Some(words) => part
            .text
            .extend(Some(words).filter(|words| !words.is_empty())),
        None => {
            for content in message
                .content
                .into_iter()
                .flat_map(walk::items)
                .map(Content::of)
            {
                match text(content.kind).as_deref() {
                    // The provider may hide the reasoning and give a summary instead.
                    Some("reasoning") => {
                        part.thought
                            .extend(filled(content.summary).or_else(|| filled(content.reasoning)));
                    }
                    _ => part.text.extend(filled(content.text)),
                }
            }
        }
    }
    let calls = message
        .tool_calls
        .into_iter()
        .flat_map(walk::items)
        .map(Call::of);
    part.calls.extend(calls.map(|call| CallDraft {
        id: text(call.id).unwrap_or_default(),
        name: text(call.function).unwrap_or_default(),
        args: call.arguments.map(unpacked).unwrap_or_default(),
    }));
    part
}

/// Returns the totals of a usage object: all tokens, the tokens by kind, and the cost.
pub(super) fn sums(usage: &str) -> (Option<u64>, step::Usage, Option<f64>) {
    let usage = Usage::of(usage);
    let tokens = tokens(&usage);
    let all = count(usage.total_tokens).or_else(|| tokens.sum());
    (all, tokens.into(), number(usage.total_cost))
}

/// Counts tokens. Providers differ in whether the input includes cached tokens. The total always
/// does.
fn tokens(usage: &Usage<'_>) -> Tokens {
    let (input, output, total) = (
        count(usage.input_tokens),
        count(usage.output_tokens),
        count(usage.total_tokens),
    );
    let rest = total
        .zip(output)
        .and_then(|(total, output)| total.checked_sub(output));
    Tokens {
        input: rest
            .filter(|rest| input.is_none_or(|input| *rest >= input))
            .or(input),
        cached: count(usage.input_tokens_cache_read),
        output,
        reasoning: count(usage.reasoning_tokens),
        written: count(usage.input_tokens_cache_write),
        written_1h: None,
    }
}

fn answer(event: &Event<'_>) -> Answer {
    let error = event
        .error
        .filter(|error| error.starts_with('{'))
        .map(Error::of);
    let kind = error.as_ref().and_then(|error| text(error.kind));
    let status = match (&error, is_true(event.failed)) {
        (Some(_), false) if kind.as_deref() == Some("cancelled") => Some("cancelled"),
        (Some(_), _) | (None, true) => Some("error"),
        (None, false) if is_true(event.pending) => None,
        (None, false) => Some("success"),
    };
    let words = error.map(|error| {
        let message = text(error.message).unwrap_or_default();
        // Not every kind of error names its kind in the message.
        match kind {
            Some(kind) if !kind.is_empty() && !is_reference(&message) => {
                format!("{kind}: {message}")
            }
            _ => message,
        }
    });
    let took = micros(event.timestamp)
        .zip(micros(event.completed))
        .map(|(from, to)| (to - from) as f64 / 1e3);
    Answer {
        call: text(event.id).unwrap_or_default(),
        status,
        output: unpacked(event.result.unwrap_or("null")),
        error: words,
        exit: None,
        ms: took.filter(|ms| *ms >= 0.0),
    }
}

/// Reads one JSON Patch operation on the state. Changes to the messages and the output are skipped,
/// because the steps already contain them.
fn change(change: &str) -> Option<(String, Option<String>, Option<String>)> {
    let change = Change::of(change);
    let path = text(change.path)?;
    let key = path
        .trim_start_matches('/')
        .replace("~1", "/")
        .replace("~0", "~");
    let top = key.split('/').next().unwrap_or_default();
    if matches!(top, "messages" | "output") || key.is_empty() {
        return None;
    }
    let json = |value: Option<&str>| value.filter(|value| Json::is_json(value)).map(unpacked);
    let null = || Some("null".to_owned());
    let (before, after) = match text(change.op).as_deref() {
        Some("add") => (null(), json(change.value)),
        Some("remove") => (json(change.replaced), null()),
        Some("replace") => (json(change.replaced), json(change.value)),
        Some("move" | "copy") => (None, None),
        _ => return None,
    };
    Some((key, before, after))
}

/// The explanation of a scorer with a longer name isn't looked up in the log; bytes. Each named value
/// keeps the pointer to it.
const MAX_SOURCE_NAME: usize = 256;

/// Reads a score: one value, or several named values.
fn score(name: &str, of: &str, at: Option<usize>) -> Vec<RunScore> {
    let of = Given::of(of);
    let (answer, explanation) = (filled(of.answer), filled(of.explanation));
    let pointer = || {
        let key = name.replace('~', "~0").replace('/', "~1");
        format!("/{key}/explanation").into_boxed_str()
    };
    let source = at
        .filter(|_| explanation.is_some() && name.len() <= MAX_SOURCE_NAME)
        .map(|at| (at, pointer()));
    let reason = explanation.or_else(|| answer.as_ref().map(|answer| format!("answer: {answer}")));
    let answer = answer.map(|answer| cut(answer.trim()));
    let reason = reason.map(|reason| cut(&reason));
    let given = |name: &str, value: &str| {
        let score = graded(value);
        // A grade that isn't a number is a word, or a list as JSON.
        let word = || text(Some(value)).unwrap_or_else(|| value.to_owned());
        let grade = (score.is_none() && value != "null").then(|| cut(&word()));
        RunScore {
            name: cut(name),
            score,
            grade,
            reason: reason.clone(),
            answer: answer.clone(),
            source: source.clone(),
        }
    };
    match of.value {
        Some(value) if value.starts_with('{') => {
            let each = walk::members(value).take(MAX_SCORES);
            each.map(|(key, value)| {
                given(
                    &format!("{name}.{}", text(Some(key)).unwrap_or_default()),
                    value,
                )
            })
            .collect()
        }
        Some(value) => vec![given(name, value)],
        None => Vec::new(),
    }
}

/// Returns the number that Inspect itself assigns to a grade.
pub(super) fn graded(value: &str) -> Option<f64> {
    match value {
        "true" | "\"C\"" => Some(1.0),
        "\"P\"" => Some(0.5),
        "false" | "\"I\"" | "\"N\"" => Some(0.0),
        _ => number(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_values_of_a_score_are_bounded_and_dont_repeat_a_long_name() {
        let values: Vec<String> = (0..3 * MAX_SCORES)
            .map(|n| format!("\"v{n}\": 1"))
            .collect();
        let of = |name: &str| {
            let values = values.join(",");
            let text = format!(r#"{{"{name}": {{"value": {{{values}}}, "explanation": "why"}}}}"#);
            scores(&text, Some(7))
        };
        let short = of("a/b");
        assert_eq!(short.len(), MAX_SCORES);
        let pointer = short[0]
            .source
            .as_ref()
            .map(|(at, pointer)| (*at, &**pointer));
        assert_eq!(pointer, Some((7, "/a~1b/explanation")));
        let long = of(&"x".repeat(MAX_SOURCE_NAME + 1));
        assert_eq!(long.len(), MAX_SCORES);
        assert!(long.iter().all(|given| given.source.is_none()));
        assert_eq!(long[0].reason.as_deref(), Some("why"));
    }
}
