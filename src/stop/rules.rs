//! When is each built-in rule true? Pure functions over the fold and one step's facts.

use std::borrow::Cow;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Number, Value};

use super::check::Check;
use super::custom::SchemaCheck;
use super::facts::{GateSet, StepFacts, Text};
use super::stats::Stats;
use super::text::fenced;
use crate::model::{Code, Evidence, Gate, Op, Reading};

/// A rule ready to be asked: patterns and schemas compiled, units converted.
#[derive(Clone)]
pub(super) enum Rule {
    MaxRounds(u64),
    MaxSteps(u64),
    Timeout { limit_ms: u64 },
    MaxRuntime { limit_ms: u64 },
    TokenBudget(u64),
    ConsecutiveErrors(u64),
    StopOnTool(String),
    ContentMatch { pattern: String, regex: Option<Regex> },
    InvalidRegex { pattern: String, error: String },
    LoopDetection(u64),
    Stagnation(u64),
    CriticBelow { critic: String, score: f64, steps: u64, key: String },
    FinalResult,
    Keyword(String),
    StructuredOutput { schema: Option<Arc<dyn SchemaCheck>>, fenced: bool },
    AnyOf(Vec<Rule>),
    AllOf(Vec<Rule>),
}

impl Rule {
    /// Where the rule is asked.
    pub(super) fn gates(&self) -> GateSet {
        match self {
            Rule::MaxRounds(_)
            | Rule::Timeout { .. }
            | Rule::TokenBudget(_)
            | Rule::StopOnTool(_)
            | Rule::ContentMatch { .. }
            | Rule::LoopDetection(_) => GateSet::only(Gate::AfterDecide),
            Rule::MaxSteps(_)
            | Rule::MaxRuntime { .. }
            | Rule::ConsecutiveErrors(_)
            | Rule::Stagnation(_)
            | Rule::CriticBelow { .. }
            | Rule::FinalResult
            | Rule::Keyword(_)
            | Rule::StructuredOutput { .. } => GateSet::only(Gate::AfterStep),
            // A rule that cannot do its work must not let a single step through.
            Rule::InvalidRegex { .. } => GateSet::ALL,
            Rule::AnyOf(rules) => rules.iter().fold(GateSet::NONE, |set, rule| set.and(rule.gates())),
            // Only at the last of its gates can every member be true.
            Rule::AllOf(rules) => {
                let last = rules.iter().filter_map(|rule| rule.gates().iter().last()).max();
                last.map_or(GateSet::NONE, GateSet::only)
            }
        }
    }

    /// Takes in what the general fold cannot know: it depends on the rule's own numbers.
    pub(super) fn fold(&self, stats: &mut Stats, facts: &StepFacts) {
        match self {
            Rule::AnyOf(rules) | Rule::AllOf(rules) => rules.iter().for_each(|rule| rule.fold(stats, facts)),
            Rule::CriticBelow { critic, score: mark, key, .. } => {
                let Some(score) = score_of(facts, critic) else { return };
                let steps = stats.steps;
                if !stats.below.contains_key(key) {
                    stats.below.insert(key.clone(), super::stats::Below::default());
                }
                let Some(row) = stats.below.get_mut(key).filter(|row| row.counted < steps) else { return };
                row.counted = steps;
                if score < *mark {
                    row.from = if row.len == 0 { facts.step } else { row.from };
                    row.len = row.len.saturating_add(1);
                } else {
                    row.len = 0;
                }
            }
            _ => {}
        }
    }

    /// Whether what the rule says now settles that it was not true at earlier steps at which it could not be told.
    pub(super) fn settles(&self, said: &Check) -> bool {
        match self {
            // A step without a score cannot end a row of low ones.
            Rule::CriticBelow { .. } => matches!(said, Check::Pass(_) | Check::Stop { .. }),
            // Time only grows.
            Rule::Timeout { .. } | Rule::MaxRuntime { .. } => matches!(said, Check::Pass(_)),
            Rule::AnyOf(rules) | Rule::AllOf(rules) => rules.iter().all(|rule| rule.settles(said)),
            _ => false,
        }
    }

    /// Asks the rule; of a group, those members whose gate is `due`.
    pub(super) fn check(&self, due: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
        match self {
            Rule::MaxRounds(0)
            | Rule::MaxSteps(0)
            | Rule::Timeout { limit_ms: 0 }
            | Rule::MaxRuntime { limit_ms: 0 }
            | Rule::TokenBudget(0)
            | Rule::ConsecutiveErrors(0)
            | Rule::Stagnation(0)
            | Rule::CriticBelow { steps: 0, .. } => Check::Off("0".into()),
            Rule::LoopDetection(0 | 1) => Check::Off("window < 2".into()),
            Rule::MaxRounds(limit) => {
                let reading = Reading::compare(stats.decisions, Op::AtLeast, *limit, "rounds");
                Check::of(Code::MaxRounds, reading, stats.decisions >= *limit, || {
                    format!("{} rounds >= {limit}", stats.decisions)
                })
            }
            Rule::MaxSteps(limit) => {
                let reading = Reading::compare(stats.steps, Op::AtLeast, *limit, "steps");
                Check::of(Code::MaxSteps, reading, stats.steps >= *limit, || {
                    format!("{} steps >= {limit}", stats.steps)
                })
            }
            Rule::Timeout { limit_ms } => time(Code::Timeout, stats, Op::Above, *limit_ms),
            Rule::MaxRuntime { limit_ms } => time(Code::MaxRuntime, stats, Op::AtLeast, *limit_ms),
            Rule::TokenBudget(limit) => tokens(Code::TokenBudget, stats, Op::Above, *limit),
            Rule::ConsecutiveErrors(limit) => consecutive_errors(stats, *limit),
            Rule::StopOnTool(name) => stop_on_tool(facts, name),
            Rule::ContentMatch { pattern, regex } => content_match(facts, pattern, regex.as_ref()),
            Rule::InvalidRegex { pattern, error } => Check::Stop {
                code: Code::InvalidRegex,
                reading: Reading::said(format!("the pattern {pattern:?} does not compile: {error}")),
            },
            Rule::LoopDetection(window) => loop_detection(stats, facts, *window),
            Rule::Stagnation(limit) => stagnation(stats, facts, *limit),
            Rule::CriticBelow { critic, score, steps, key } => critic_below(stats, facts, critic, *score, *steps, key),
            Rule::FinalResult => final_result(facts),
            Rule::Keyword(word) => keyword(facts, word),
            Rule::StructuredOutput { schema, fenced } => structured_output(facts, schema.as_deref(), *fenced),
            Rule::AnyOf(rules) => any_of(rules, due, stats, facts),
            Rule::AllOf(rules) => all_of(rules, stats, facts),
        }
    }
}

/// A limit on elapsed time; the slowest step is the place to look.
pub(super) fn time(code: Code, stats: &Stats, op: Op, limit_ms: u64) -> Check {
    let Some(elapsed) = stats.elapsed_ms else { return Check::Unknown("the time of this step".into()) };
    let reading = Reading::compare(elapsed, op, limit_ms, "ms");
    if !op.holds(elapsed, limit_ms) {
        return Check::Pass(reading);
    }
    let slowest = stats.slowest.map(|(step, took_ms)| Evidence::Slow { step, took_ms });
    let detail = format!("{elapsed} ms {} {limit_ms}", op.as_str());
    Check::Stop { code, reading: reading.detail(detail).evidence(slowest) }
}

/// A limit on tokens. What is known may be enough to stop; what is missing leaves a pass uncertain.
pub(super) fn tokens(code: Code, stats: &Stats, op: Op, limit: u64) -> Check {
    let total = stats.tokens.total();
    let reading = Reading::compare(total, op, limit, "tokens");
    if op.holds(total, limit) {
        let last = stats.last_usage;
        let last = last.map(|(step, usage)| Evidence::Usage { step, input: usage.input, output: usage.output });
        let kind = if stats.tokens.estimated { "tokens (partly estimated)" } else { "tokens" };
        let detail = format!("{total} {kind} {} {limit}", op.as_str());
        return Check::Stop { code, reading: reading.detail(detail).evidence(last) };
    }
    if stats.usage_missing > 0 { Check::Unknown("the token usage of every step".into()) } else { Check::Pass(reading) }
}

fn consecutive_errors(stats: &Stats, limit: u64) -> Check {
    let count = stats.consecutive_errors;
    let reading = Reading::compare(count, Op::AtLeast, limit, "failed steps");
    if count < limit {
        return Check::Pass(reading);
    }
    let detail = format!("{count} failed steps in a row >= {limit}");
    let reading = reading.detail(detail).evidence(stats.failures.iter().cloned());
    Check::Stop { code: Code::ConsecutiveErrors, reading }
}

fn stop_on_tool(facts: &StepFacts, name: &str) -> Check {
    if name.is_empty() {
        return Check::Off("empty name".into());
    }
    let Some(actions) = &facts.actions else { return Check::Unknown("the requested actions".into()) };
    match actions.iter().position(|action| action == name) {
        Some(at) => Check::Stop {
            code: Code::StopOnTool,
            reading: Reading::said(format!("the tool {name} was asked for"))
                .evidence([Evidence::Action { step: facts.step, action: at as u64 }]),
        },
        None => Check::pass(),
    }
}

/// A step without text matches nothing, not even a pattern that matches the empty text.
fn content_match(facts: &StepFacts, pattern: &str, regex: Option<&Regex>) -> Check {
    let Some(regex) = regex else { return Check::Off("empty pattern".into()) };
    let text = match &facts.text {
        Text::Known(text) if text.is_empty() => return Check::pass(),
        Text::Known(text) => text,
        Text::Redacted { len: 0, .. } => return Check::pass(),
        _ => return Check::Unknown("the model's text".into()),
    };
    match regex.find(text) {
        Some(found) => Check::Stop {
            code: Code::ContentMatch,
            reading: Reading::said(format!("the text matches {pattern:?}")).evidence([span(
                facts,
                found.start(),
                found.end(),
            )]),
        },
        None => Check::pass(),
    }
}

fn loop_detection(stats: &Stats, facts: &StepFacts, window: u64) -> Check {
    let row = &stats.text;
    let reading = Reading::compare(row.len, Op::AtLeast, window, "equal texts");
    if row.len >= window {
        let evidence = [Evidence::Steps { from_step: row.from, to_step: facts.step }];
        let detail = format!("the same text {} times in a row >= {window}", row.len);
        return Check::Stop { code: Code::LoopDetection, reading: reading.detail(detail).evidence(evidence) };
    }
    if row.gap { Check::Unknown("the model's text of every step".into()) } else { Check::Pass(reading) }
}

/// Counts the steps that changed nothing, as QitOS does: with a limit of 3 the fourth equal state stops.
fn stagnation(stats: &Stats, facts: &StepFacts, limit: u64) -> Check {
    let row = &stats.signature;
    let idle = row.len.saturating_sub(1);
    let reading = Reading::compare(idle, Op::AtLeast, limit, "steps without change");
    if idle >= limit {
        let evidence = [Evidence::Steps { from_step: row.from, to_step: facts.step }];
        let detail = format!("the state did not change in {idle} steps >= {limit}");
        return Check::Stop { code: Code::Stagnation, reading: reading.detail(detail).evidence(evidence) };
    }
    if row.gap { Check::Unknown("the state's signature of every step".into()) } else { Check::Pass(reading) }
}

fn score_of(facts: &StepFacts, critic: &str) -> Option<f64> {
    facts.critics.iter().find(|fact| fact.name == critic)?.score.filter(|score| score.is_finite())
}

fn critic_below(stats: &Stats, facts: &StepFacts, critic: &str, mark: f64, steps: u64, key: &str) -> Check {
    let Some(score) = score_of(facts, critic) else {
        // A step without a score neither ends nor lengthens a row. A critic that never gave one may have another name.
        return match stats.below.contains_key(key) {
            true => Check::Pass(Reading::said(format!("{critic} gave no score"))),
            false => Check::Unknown(Cow::Owned(format!("a score of the critic {critic}"))),
        };
    };
    let reading = Reading {
        measured: Number::from_f64(score),
        limit: Number::from_f64(mark),
        op: Some(Op::Below),
        unit: "score".into(),
        ..Reading::default()
    };
    let row = stats.below.get(key).filter(|row| row.len >= steps);
    let Some(row) = row else { return Check::Pass(reading) };
    let at = facts.critics.iter().position(|fact| fact.name == critic).unwrap_or_default() as u64;
    let reason = facts.critics.iter().find(|fact| fact.name == critic).and_then(|fact| fact.reason.clone());
    let detail = match row.len {
        1 => format!("{critic} gave {score} < {mark}"),
        len => format!("{critic} gave {score} < {mark}, {len} scores in a row"),
    };
    let evidence = [
        Evidence::Steps { from_step: row.from, to_step: facts.step },
        Evidence::Critic { step: facts.step, critic: at, reason, score: Some(score) },
    ];
    Check::Stop { code: Code::CriticBelow, reading: reading.detail(detail).evidence(evidence) }
}

fn final_result(facts: &StepFacts) -> Check {
    match facts.final_answer.as_deref() {
        Some(answer) if !answer.trim().is_empty() => Check::Stop {
            code: Code::FinalResult,
            reading: Reading::said("there is a final result").evidence([span(facts, 0, answer.len())]),
        },
        Some(_) => Check::Pass(Reading { detail: "the final result is empty".into(), ..Reading::default() }),
        None => Check::Pass(Reading { detail: "there is no final result".into(), ..Reading::default() }),
    }
}

fn keyword(facts: &StepFacts, word: &str) -> Check {
    if word.is_empty() {
        return Check::Off("empty keyword".into());
    }
    let Some(answer) = facts.answer() else { return Check::Unknown("the answer's text".into()) };
    match answer.find(word) {
        Some(at) => Check::Stop {
            code: Code::Keyword,
            reading: Reading::said(format!("the answer holds {word:?}")).evidence([span(facts, at, at + word.len())]),
        },
        None => Check::Pass(Reading::said(format!("the answer does not hold {word:?}"))),
    }
}

/// JSON as the whole answer or, where `in_fences`, as a fenced block of it. Equal keys are accepted, the last counts.
fn structured_output(facts: &StepFacts, schema: Option<&dyn SchemaCheck>, in_fences: bool) -> Check {
    let Some(answer) = facts.answer() else { return Check::Unknown("the answer's text".into()) };
    let mut miss = None;
    let blocks = if in_fences { fenced(answer) } else { Vec::new() };
    for part in std::iter::once(answer).chain(blocks) {
        let value: Value = match serde_json::from_str(part) {
            Ok(value) => value,
            Err(error) => {
                miss.get_or_insert_with(|| Reading::said(format!("the answer is not JSON: {error}")));
                continue;
            }
        };
        if let Some(Err(wrong)) = schema.map(|schema| schema.check(&value)) {
            let path = wrong.instance_path;
            let detail = format!("the answer does not fit its schema at {path:?}: {}", wrong.message);
            let evidence = Evidence::Schema { step: facts.step, instance_path: path };
            // Of several reasons, a schema's is the more useful one to send back to the model.
            miss = Some(Reading::said(detail).evidence([evidence]));
            continue;
        }
        let start = (part.as_ptr() as usize).saturating_sub(answer.as_ptr() as usize);
        let reading = Reading::said("the answer is the JSON that was asked for");
        return Check::Stop {
            code: Code::StructuredOutput,
            reading: reading.evidence([span(facts, start, start + part.len())]),
        };
    }
    Check::Pass(miss.unwrap_or_default())
}

fn any_of(rules: &[Rule], due: GateSet, stats: &Stats, facts: &StepFacts) -> Check {
    let mut unknown = None;
    let mut misses: Vec<Cow<'static, str>> = Vec::new();
    let mut on = false;
    for rule in rules {
        if !rule.gates().meets(due) {
            on = true;
            continue;
        }
        match rule.check(due, stats, facts) {
            stop @ Check::Stop { .. } => return stop,
            Check::Off(_) => continue,
            Check::Unknown(needs) => unknown = unknown.or(Some(needs)),
            Check::Pass(reading) if !reading.detail.is_empty() => misses.push(reading.detail),
            Check::Pass(_) => {}
        }
        on = true;
    }
    match unknown {
        _ if !on => Check::Off("every member is off".into()),
        Some(needs) => Check::Unknown(needs),
        None => Check::Pass(Reading { detail: misses.join("; ").into(), ..Reading::default() }),
    }
}

/// True under the first member's code, with the evidence of all. A member that is off is left out.
fn all_of(rules: &[Rule], stats: &Stats, facts: &StepFacts) -> Check {
    let mut first: Option<(Code, Reading)> = None;
    let mut unknown = None;
    let mut pass = None;
    for rule in rules {
        match rule.check(GateSet::ALL, stats, facts) {
            Check::Off(_) => {}
            Check::Unknown(needs) => unknown = unknown.or(Some(needs)),
            Check::Pass(reading) => pass = pass.or(Some(reading)),
            Check::Stop { code, reading } => match &mut first {
                None => first = Some((code, reading)),
                Some((_, all)) => {
                    all.detail = format!("{}, and {}", all.detail, reading.detail).into();
                    all.evidence.extend(reading.evidence);
                }
            },
        }
    }
    match (pass, unknown, first) {
        (Some(reading), _, _) => Check::Pass(reading),
        (None, Some(needs), _) => Check::Unknown(needs),
        (None, None, Some((code, reading))) => Check::Stop { code, reading },
        (None, None, None) => Check::Off("every member is off".into()),
    }
}

fn span(facts: &StepFacts, start: usize, end: usize) -> Evidence {
    Evidence::Text { step: facts.step, start: start as u64, end: end as u64 }
}
