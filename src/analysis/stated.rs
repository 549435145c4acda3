//! Computes what a run took according to all records, and words disagreements between records.
//!
//! The index collects what records state ([`Index::end`], [`Index::limit`], [`Index::answer`]).
//! This module adds the sums over steps and events.

use super::format::{self, capitalised, count, counted};
use super::lost::{is_counted, lost};
use super::newest::{after_the_end, newest_run};
use super::verdict::criterion::{Own, criterion};
use crate::model::index::{AnswerSort, is_same_reason, is_same_total};
use crate::model::stated::{Source, by_value};
use crate::model::{
    Agreement, Can, EventHead, EventKind, Index, Outcome, Stated, StepHead, StopVerdict, ToolLimit,
};

/// Sources of computed totals.
const STEPS: Source = place("the steps", "the sum of the steps");
const EVENTS: Source = place(
    "the events",
    "the time between the first and the last event",
);
const LINES: Source = place("steps.jsonl", "lines of steps.jsonl");
const TRACE: Source = place("the trace", "the trace's own total");

const fn place(who: &'static str, field: &'static str) -> Source {
    Source {
        who,
        file: "",
        line: None,
        field: std::borrow::Cow::Borrowed(field),
    }
}

/// Returns what the newest run took in this unit: `tokens`, `ms`, `usd` or `steps`.
pub(crate) fn total(index: &Index, unit: &'static str) -> Agreement<f64> {
    let stated = match unit {
        "ms" => stated_time(index),
        "steps" => stated_steps(index),
        _ => index.stated_totals(unit),
    };
    let is_odd =
        |stated: &Stated<f64>| stated.value < 0.0 || (unit == "tokens" && stated.value == 0.0);
    let (odd, mut stated): (Vec<_>, Vec<_>) = stated.into_iter().partition(is_odd);
    stated.extend(of_criterion(index, unit));
    if went_on(index) {
        // The measured value of a limit includes usage from before the run was resumed.
        stated.retain(|stated| !stated.source.field.ends_with("/measured"));
    }
    let manifest = index
        .manifest()
        .get()
        .filter(|_| index.format().is_one_file());
    let of_trace = manifest.and_then(|manifest| match unit {
        "tokens" => manifest.tokens.map(|tokens| tokens as f64),
        "usd" => manifest.cost_usd,
        "ms" => manifest.latency_s.map(|seconds| seconds * 1e3),
        _ => None,
    });
    let of_trace = of_trace.map(|value| Stated {
        value,
        source: TRACE,
    });
    let mut stated: Vec<Stated<f64>> = of_trace.into_iter().chain(stated).collect();
    stated.extend(summed(index, unit, &stated));
    if !stated.is_empty() {
        // A scripted run counts 0 tokens. If a model replied, 0 contradicts a positive total. A
        // negative number always does.
        let replied = index
            .newest_segments()
            .iter()
            .any(|segment| segment.outputs > 0);
        let is_final = index
            .manifest()
            .get()
            .is_some_and(|manifest| manifest.is_final());
        stated.extend(
            odd.into_iter()
                .filter(|odd| odd.value < 0.0 || (replied && is_final)),
        );
    }
    Agreement::of(stated, |a, b| is_same_total(unit, *a, *b))
}

/// Returns the total from the wording of the criterion that ended a QitOS run. A criterion's clock
/// may have started before the run, so its time isn't a total.
fn of_criterion(index: &Index, unit: &str) -> Option<Stated<f64>> {
    let end = index.end();
    let (at, criterion) = criterion(index, end.agreed()?)?;
    if index.segments().len() > 1 {
        return None;
    }
    let value = match (unit, criterion.own?) {
        // The criterion receives the step's id, which counts from 0.
        ("steps", Own::Steps) => criterion.reading()?.measured()? + 1.0,
        ("tokens", Own::Tokens) => criterion.reading()?.measured()?,
        _ => return None,
    };
    let line = index.events().get(at).map(|event| event.line);
    let (who, file) = ("the stop check", "events.jsonl");
    Some(Stated {
        value,
        source: Source {
            who,
            file,
            line,
            field: "/payload/stop_detail".into(),
        },
    })
}

/// Returns a sentence about the first step where the running total of tokens falls, or grows by
/// less than the step took.
pub(super) fn running_total(index: &Index) -> Option<String> {
    let mut before: Option<(usize, i64, u64)> = None;
    for (n, step) in newest_run(index) {
        let (Some(id), Some(total)) = (step.step_id, step.tokens_total.filter(|total| *total > 0))
        else {
            continue;
        };
        if let Some((earlier, earlier_id, least)) = before {
            // Steps out of order are reported elsewhere.
            if id <= earlier_id {
                return None;
            }
            let (at, after) = (index.label(n), index.label(earlier));
            let (now, then) = (count(total), count(least));
            if total < least {
                return Some(format!(
                    "The running total of tokens falls from {then} in step {after} to {now} in step {at}"
                ));
            }
            if let Some(own) = step.tokens.filter(|own| total - least < *own) {
                let (own, more) = (count(own), count(total - least));
                return Some(format!(
                    "Step {at} used {own} tokens, but the running total grows by only {more}"
                ));
            }
        }
        before = Some((n, id, total));
    }
    None
}

/// Returns the times that a finished manifest states. If the directory contains several runs, they
/// cover only the writer's own run.
fn stated_time(index: &Index) -> Vec<Stated<f64>> {
    if index.format().is_one_file() {
        return index.stated_totals("ms");
    }
    let segments = index.newest_segments();
    let is_ended = index.segments().len() <= 1
        || segments
            .first()
            .is_some_and(|segment| segment.end.is_some());
    let is_final = index
        .manifest()
        .get()
        .is_some_and(|manifest| manifest.is_final());
    let is_whole = segments.len() <= 1 && is_ended && is_final && !went_on(index);
    if is_whole {
        index.stated_totals("ms")
    } else {
        Vec::new()
    }
}

/// Returns the step counts that a finished manifest states. A resumed run counts differently in
/// each place, so its counts aren't compared. Our own engine excludes an incomplete last step from
/// its metrics.
fn stated_steps(index: &Index) -> Vec<Stated<f64>> {
    let manifest = index
        .manifest_of_end()
        .filter(|manifest| manifest.is_final() && index.segments().len() <= 1);
    if manifest.is_none() || went_on(index) {
        return Vec::new();
    }
    let is_own = index.format().can.facts == Can::Yes;
    let counts = |stated: &Stated<f64>| !is_own || !stated.source.field.contains("metrics");
    index
        .stated_totals("steps")
        .into_iter()
        .filter(counts)
        .collect()
}

/// Returns the sum over steps or events, if it's complete and comparable with the stated totals.
fn summed(index: &Index, unit: &str, stated: &[Stated<f64>]) -> Option<Stated<f64>> {
    let is_one_file = index.format().is_one_file();
    let of = |value: f64, source: Source| Stated { value, source };
    match unit {
        "ms" if stated.is_empty() || !is_one_file => {
            Some(of(index.elapsed()? as f64 / 1e3, EVENTS))
        }
        "steps" if !index.is_partial() && !stated.is_empty() && !is_one_file => {
            // A step without a line is reported as an issue. A writer may count a line twice if it
            // wrote it twice.
            let is_counted =
                |steps: usize| stated.iter().any(|stated| stated.value == steps as f64);
            let lines = Some(index.newest_lines())
                .filter(|lines| is_counted(*lines))
                .unwrap_or(index.newest_len());
            let is_open = index.stop().is_some_and(StopVerdict::is_of_open_step);
            let ran = match rounds(index) {
                // The step within which the run was dropped isn't in the totals.
                rounds if is_open && rounds > lines => rounds - 1,
                rounds => lines.max(rounds),
            };
            // A lost or damaged file may have contained more.
            let is_whole = newest_run(index).all(|(_, step)| step.fate.is_readable()) && ran > 0;
            is_whole.then(|| of(ran as f64, LINES))
        }
        "tokens" => {
            let counted = index
                .tally()
                .run
                .tokens
                .filter(|_| !is_untold_at_end(index) && !index.has_disordered_steps());
            if stated.is_empty() {
                return Some(of(counted? as f64, STEPS));
            }
            if is_one_file {
                return parts(index, index.manifest().get()?.tokens_of_steps, unit, stated);
            }
            // If steps are missing, the others still can't have more tokens than all.
            let is_whole = lost(index).is_none() && !index.is_partial();
            let is_more = |counted: &u64| stated.iter().any(|kept| kept.value < *counted as f64);
            let counted = counted.filter(|counted| is_whole || is_more(counted))? as f64;
            // Our own engine also counts the tokens of models that critics call. Totals of steps
            // don't include those.
            let more = index.format().can.facts == Can::Yes
                && stated.iter().all(|kept| kept.value > counted);
            (!more).then(|| of(counted, STEPS))
        }
        "usd" if !stated.is_empty() => parts(index, false, unit, stated),
        _ => None,
    }
}

/// Returns whether a model was called in the last steps of the newest run and none of those steps
/// records a running total. Earlier steps may lack one because a later total includes them.
fn is_untold_at_end(index: &Index) -> bool {
    if index.format().is_one_file() || index.tally().run.tokens.is_none() {
        return false;
    }
    let is_silent =
        |(_, step): &(usize, &StepHead)| step.tokens_total.is_none_or(|total| total == 0);
    let is_output = |event: &EventHead| event.kind == EventKind::Output;
    let asked = |n: usize| {
        let round = index.round_of(n);
        round.is_some_and(|round| index.events().range(round.first..round.end).any(is_output))
    };
    newest_run(index)
        .rev()
        .take_while(is_silent)
        .any(|(n, _)| asked(n))
}

/// Returns whether the run continues another one, so that its totals may include that run's.
fn went_on(index: &Index) -> bool {
    let manifest = index.manifest().get();
    manifest.is_some_and(|manifest| {
        manifest.resumed_after.is_some() || manifest.branched_after.is_some()
    })
}

/// Counts the loop rounds in the events of the newest run. Returns 0 if the events are out of
/// order.
fn rounds(index: &Index) -> usize {
    let first = index
        .newest_segments()
        .first()
        .filter(|_| !index.is_disordered())
        .map(|segment| segment.first_group);
    first.map_or(0, |first| index.groups().len().saturating_sub(first))
}

/// Returns the sum of the steps if it contradicts the stated totals. A run may have used more than
/// its steps show, but never less. If every model call is a step with a recorded cost, the two must
/// be equal.
fn parts(index: &Index, is_sum: bool, unit: &str, stated: &[Stated<f64>]) -> Option<Stated<f64>> {
    let manifest = index
        .manifest()
        .get()
        .filter(|_| !index.is_partial() && !is_sum)?;
    // No format records whether the totals include the run that this one continues.
    if manifest.copied.is_some()
        || manifest.branched_after.is_some()
        || manifest.resumed_after.is_some()
    {
        return None;
    }
    let run = &index.tally().run;
    let (sum, is_all) = if unit == "usd" {
        if manifest.cost_estimated {
            return None;
        }
        let costs = || {
            newest_run(index)
                .filter(|(_, step)| !step.repeats)
                .map(|(_, step)| step.cost_usd)
        };
        let is_all =
            manifest.model_calls == Some(run.readable as u64) && costs().all(|cost| cost.is_some());
        (costs().flatten().sum(), is_all)
    } else {
        (
            run.usage
                .input?
                .saturating_add(run.usage.output.unwrap_or_default()) as f64,
            false,
        )
    };
    let is_less = |kept: &Stated<f64>| kept.value < sum && !is_same_total(unit, kept.value, sum);
    (is_all || stated.iter().any(is_less)).then_some(Stated {
        value: sum,
        source: STEPS,
    })
}

/// Returns the tokens of the run, or `None` if records disagree.
pub(crate) fn tokens(index: &Index) -> Option<u64> {
    match total(index, "tokens") {
        Agreement::Agreed(stated) => stated.first().map(|first| first.value as u64),
        Agreement::Unknown => asked_no_model(index).then_some(0),
        Agreement::Disputed(_) => None,
    }
}

/// Returns whether every step records that it called no model. Only board's engine records that.
fn asked_no_model(index: &Index) -> bool {
    let (tally, run) = (index.tally(), &index.tally().run);
    let all_tell = run.readable > 0 && tally.without_facts.count == 0 && lost(index).is_none();
    index.format().can.facts == Can::Yes && all_tell && run.without_count == run.readable
}

/// Returns the cost of the run in US dollars, or `None` if records disagree.
pub(crate) fn cost_usd(index: &Index) -> Option<f64> {
    total(index, "usd").agreed().copied()
}

/// Formats a number of this unit.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ms" => format::millis(value),
        "usd" => format::usd(value),
        _ if value >= 0.0 && value.fract() == 0.0 && value < 9e15 => count(value as u64),
        _ => value.to_string(),
    }
}

/// Formats "6 of 60 steps", "31 s, limit 30 s" or "12 steps, limit 9". A number beyond its limit
/// isn't a part of it.
pub(crate) fn used_of(used: f64, limit: f64, unit: &str) -> String {
    match unit {
        "ms" | "usd" => compared(used, limit, unit),
        _ if used > limit => compared(used, limit, unit),
        _ => format!("{} of {}", amount(used, unit), format::amount(limit, unit)),
    }
}

/// Formats "6 steps, limit 6" or "31 s, limit 30 s".
pub(crate) fn compared(used: f64, limit: f64, unit: &str) -> String {
    let (used, limit) = (format::amount(used, unit), limit_beside(limit, unit));
    format!("{used}, limit {limit}")
}

/// Formats a limit that follows the number used, so that its unit is known: "6" or "30 s".
pub(crate) fn limit_beside(limit: f64, unit: &str) -> String {
    match unit {
        "ms" | "usd" => format::amount(limit, unit),
        _ => format::number(limit),
    }
}

/// Returns the subject of a disagreement: the files of a directory, or the records of a single
/// file.
pub(crate) fn holders(index: &Index) -> &'static str {
    if index.format().is_one_file() {
        "the records"
    } else {
        "the files"
    }
}

/// Formats the values that differ, in order of appearance: "60 and 6".
pub(crate) fn values(stated: &[Stated<f64>], unit: &str) -> String {
    let values = by_value(stated, |a, b| a == b)
        .into_iter()
        .map(|(value, _)| amount(*value, unit));
    listed(values.collect())
}

/// Formats "a, b and c".
pub(super) fn listed(mut parts: Vec<String>) -> String {
    let Some(last) = parts.pop() else {
        return String::new();
    };
    if parts.is_empty() {
        last
    } else {
        format!("{} and {last}", parts.join(", "))
    }
}

/// Formats the first name and the number of others: "/stop/code and 2 more".
fn first_and_more(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first, more @ ..] => format!("{first} and {} more", more.len()),
    }
}

/// Formats a disagreement: "The files disagree on the step limit: 60 (manifest.json /stop/limit), 6
/// (events.jsonl:38 /payload/stop/limit)".
fn disagreement<T>(
    index: &Index,
    about: &str,
    stated: &[Stated<T>],
    is_same: impl Fn(&T, &T) -> bool,
    show: impl Fn(&T) -> String,
) -> String {
    let said = by_value(stated, is_same)
        .into_iter()
        .map(|(value, sources)| {
            let places: Vec<String> = sources.into_iter().map(ToString::to_string).collect();
            format!("{} ({})", show(value), places.join(", "))
        });
    let said: Vec<String> = said.collect();
    format!(
        "{} disagree on {about}: {}",
        capitalised(holders(index)),
        said.join(", ")
    )
}

/// Describes a disagreement of records on the run's end.
pub(crate) fn end_in_words(index: &Index) -> Option<String> {
    let end = index.end();
    Some(disagreement(
        index,
        "how the run ended",
        end.disputed()?,
        |a, b| is_same_reason(a, b),
        |word| (*word).to_owned(),
    ))
}

/// Describes a disagreement on the run's end for a headline: "the manifest records final, but the END
/// event records critic_stop".
pub(crate) fn end_by_who(index: &Index) -> Option<String> {
    let end = index.end();
    let by_value = by_value(end.disputed()?, |a, b| is_same_reason(a, b));
    let says_all = |who: &str| {
        by_value
            .iter()
            .filter(|(_, all)| all.iter().any(|source| source.who == who))
            .count()
    };
    let says = by_value.iter().map(|(word, sources)| {
        let mut whos: Vec<String> = Vec::new();
        for source in sources {
            // One manifest may state several ends, and so may two events of one kind.
            let who = match (says_all(source.who), source.line) {
                (0 | 1, _) => source.who.to_owned(),
                (_, Some(line)) => format!("{} in line {line}", source.who),
                (_, None) => {
                    let is_beside =
                        |other: &&&Source| other.who == source.who && other.line.is_none();
                    let fields: Vec<&str> = sources
                        .iter()
                        .filter(is_beside)
                        .map(|other| &*other.field)
                        .collect();
                    format!("{} ({})", source.who, first_and_more(&fields))
                }
            };
            if !whos.contains(&who) {
                whos.push(who);
            }
        }
        let verb = if whos.len() == 1 { "records" } else { "record" };
        format!("{} {verb} {word}", listed(whos))
    });
    let says: Vec<String> = says.collect();
    Some(match &*says {
        [one, other] => format!("{one}, but {other}"),
        _ => says.join("; "),
    })
}

/// Describes a disagreement of records on a limit or a total.
pub(crate) fn number_in_words(
    index: &Index,
    about: &str,
    unit: &str,
    stated: &[Stated<f64>],
) -> String {
    disagreement(
        index,
        &format!("the {about}"),
        stated,
        |a, b| a == b,
        |value| amount(*value, unit),
    )
}

/// Describes a disagreement of records on the answer.
pub(crate) fn answer_in_words(index: &Index) -> Option<String> {
    let answer = index.answer();
    let show = |answer: &crate::model::index::Answer<'_>| match (answer.text, answer.step) {
        _ if answer.sort == AnswerSort::Null => "none".to_owned(),
        ("", _) if answer.sort == AnswerSort::Other => "a value that isn't text".to_owned(),
        (value, _) if answer.sort == AnswerSort::Other => format!("{value} (not text)"),
        (_, Some(_)) if answer.hash == crate::model::head::answer_hash("") => {
            "an empty one".to_owned()
        }
        (_, Some(n)) => match index
            .steps()
            .get(n)
            .and_then(|step| step.call.strip_prefix("answer: "))
        {
            Some(start) => quoted(start),
            None => "a different one".to_owned(),
        },
        ("", None) => "an empty one".to_owned(),
        (text, None) => quoted(text),
    };
    Some(disagreement(
        index,
        "the answer",
        answer.disputed()?,
        |a, b| a.hash == b.hash,
        show,
    ))
}

/// Limits the characters quoted from an answer.
const QUOTED_CHARS: usize = 60;

fn quoted(text: &str) -> String {
    let line = text.replace(['\n', '\r', '\t'], " ");
    format!("\"{}\"", crate::model::names::clipped(&line, QUOTED_CHARS))
}

/// Returns a sentence for each total that records disagree on.
pub(super) fn disputed_totals(index: &Index) -> Vec<String> {
    let totals = [
        ("number of steps", "steps"),
        ("tokens", "tokens"),
        ("input tokens", "tokens_in"),
        ("output tokens", "tokens_out"),
        ("cached tokens", "tokens_cached"),
        ("time", "ms"),
        ("cost", "usd"),
    ];
    let disputed = totals.into_iter().filter_map(|(about, unit)| {
        let total = total(index, unit);
        Some(number_in_words(index, about, unit, total.disputed()?))
    });
    disputed.collect()
}

/// Describes a total that records disagree on: "unknown: the files disagree (2 h 47 min and 55.5
/// ms)".
pub(crate) fn disputed_in_words(index: &Index, unit: &'static str) -> Option<String> {
    let total = total(index, unit);
    Some(format!(
        "unknown: {} disagree ({})",
        holders(index),
        values(total.disputed()?, unit)
    ))
}

/// Describes the limits that had been reached when the run ended, except the one recorded as ending
/// it: "the cost limit was reached: $0.03 of $0.02".
pub(super) fn also_reached(index: &Index) -> Vec<String> {
    let Some(manifest) = index.manifest().get() else {
        return Vec::new();
    };
    let Some(ended) = manifest
        .ended
        .as_deref()
        .filter(|ended| ended.outcome == Outcome::Truncated)
    else {
        return Vec::new();
    };
    // A headline that names all limits needs no second sentence.
    let reached = manifest
        .limits
        .iter()
        .filter(|limit| limit.unit != ended.unit && ended.also.is_empty());
    let reached = reached.filter_map(|limit| {
        let used = used(index, limit)
            .filter(|used| limit.is_reached_by(*used, limit.bound) == Some(true))?;
        let name = limit
            .name
            .strip_suffix("_limit")
            .unwrap_or(limit.name)
            .replace('_', " ");
        let name = if name.ends_with("limit") {
            name
        } else {
            format!("{name} limit")
        };
        Some(format!(
            "the {name} was reached: {} of {}",
            amount(used, limit.unit),
            format::amount(limit.limit, limit.unit)
        ))
    });
    reached.collect()
}

/// Returns how much of a limit was used, as the trace states it or as its records add up.
pub(super) fn used(index: &Index, limit: &ToolLimit) -> Option<f64> {
    limit.used.or_else(|| match limit.unit {
        "tokens" => tokens(index).map(|tokens| tokens as f64),
        "usd" => cost_usd(index),
        "ms" => total(index, "ms").agreed().copied(),
        _ => None,
    })
}

/// Returns the ordinal of the step that gave the newest run's answer: the first step whose answer
/// or state contains it, with no different answer after it. Replies in a session may repeat an
/// earlier one, so there the last such step counts.
pub(crate) fn answered_at(index: &Index) -> Option<usize> {
    let hash = index.answer().agreed()?.hash;
    let gave = newest_run(index)
        .rev()
        .filter(|(_, step)| !step.is_abandoned && step.answer.is_some());
    let mut same = gave
        .take_while(|(_, step)| step.answer == Some(hash))
        .map(|(n, _)| n);
    if index.format().is_one_file() {
        same.next()
    } else {
        same.last()
    }
}

/// Returns a sentence for each recorded stop that the run ignored.
pub(super) fn ignored_stops(index: &Index) -> Vec<String> {
    use crate::model::index::Stopping;
    let mut found: Vec<String> = Vec::new();
    let mut by_critics: Vec<Option<i64>> = Vec::new();
    // Steps after the last END are reported separately.
    let last_end = index
        .segment()
        .and_then(|segment| segment.end.as_ref())
        .map(|(at, ..)| *at);
    let is_named = |event: usize| last_end == Some(event) && after_the_end(index) > 0;
    for ignored in index
        .ignored_stops()
        .into_iter()
        .filter(|ignored| !is_named(ignored.event))
    {
        let word =
            |reason: Option<&str>| reason.map_or_else(String::new, |word| format!(" with {word}"));
        let what = match ignored.stopping {
            Stopping::End(end) => {
                format!("An END event ended the run{}", word(end.reason.as_deref()))
            }
            Stopping::Check(stop) => {
                let answer = stop
                    .answer
                    .as_deref()
                    .filter(|text| !text.is_empty())
                    .map(quoted);
                let answer =
                    answer.map_or_else(String::new, |answer| format!(" and the answer {answer}"));
                format!(
                    "A stop check ended the run{}{answer}",
                    word(stop.reason.as_deref())
                )
            }
            Stopping::Critic(reason) => {
                by_critics.push(ignored.step);
                let reason = if reason.is_empty() {
                    String::new()
                } else {
                    format!(" ({reason})")
                };
                format!("A critic stopped the run{reason}")
            }
        };
        let step = ignored
            .step
            .map_or_else(String::new, |id| format!(" at step {id}"));
        let line = index
            .events()
            .get(ignored.event)
            .map_or(0, |event| event.line);
        found.push(format!(
            "{what}{step} (events.jsonl:{line}), but the run continued"
        ));
    }
    // If a step's events are missing, the step's own record is used.
    let last = newest_run(index).next_back().map(|(n, _)| n);
    let stops = newest_run(index)
        .filter(|(n, step)| Some(*n) != last && step.requested(crate::model::CriticAction::Stop));
    for (_, step) in stops
        .filter(|(_, step)| !by_critics.contains(&step.step_id))
        .take(MAX_IGNORED)
    {
        let id = step
            .step_id
            .map_or_else(String::new, |id| format!(" at step {id}"));
        found.push(format!(
            "A critic stopped the run{id} (steps.jsonl:{}), but the run continued",
            step.line
        ));
    }
    let more = found.len().saturating_sub(MAX_IGNORED);
    found.truncate(MAX_IGNORED);
    if more > 0 {
        found.push(format!("The run ignored {}", counted(more, "more stop")));
    }
    found
}

/// Limits the ignored stops that are listed.
const MAX_IGNORED: usize = 4;

/// Returns whether the number of steps of the newest run is known and all records agree on it.
pub(crate) fn steps_agree(index: &Index) -> bool {
    is_counted(index) && total(index, "steps").disputed().is_none()
}
