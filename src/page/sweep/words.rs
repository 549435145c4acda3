//! Describes a sweep in sentences.

use crate::analysis::format;
use crate::analysis::sweep::{Choice, Dial, Effect, Measure, Sweep, reasons};
use crate::page::part::job::State;
use crate::page::sweep::Standing;

/// Returns the limit that saves the most without losing an answer: its rule as written, and its
/// effect.
pub(crate) fn best<'s>(standing: &Standing<'s>) -> Option<(String, &'s Effect)> {
    let sweep = standing.sweep?;
    let place = sweep.best()?;
    Some((
        standing.inquiry.names().nth(place)?,
        sweep.limits().get(place)?,
    ))
}

/// Returns the answer, without a trailing period.
pub(crate) fn answer(standing: &Standing<'_>) -> String {
    let runs = format::counted(standing.total, "run");
    let Some(sweep) = standing.sweep else {
        return match standing.status.state {
            State::Failed => "This could not be answered; the log of the board has more".to_owned(),
            State::Cancelled => format!("Stopped before any of {runs} was asked"),
            State::Running | State::Done => format!("Asking {runs} {}", what(standing)),
        };
    };
    if standing.total == 0 {
        return "No run matches, so there is nothing to ask".to_owned();
    }
    let text = match (best(standing), standing.inquiry.dial()) {
        (Some((name, effect)), _) => effect_of(&name, effect, sweep, sweep.measure()),
        (None, Some(dial)) => no_best(standing, dial, sweep),
        (None, None) => all_rules(standing, sweep),
    };
    match standing.status.state {
        State::Cancelled => {
            format!(
                "Stopped after {} of {runs}. Of these: {text}",
                format::count(standing.done as u64)
            )
        }
        _ => text,
    }
}

/// Describes the question: `about max_steps at 40 limits and 2 rules`.
fn what(standing: &Standing<'_>) -> String {
    let limits = standing.inquiry.values().len();
    let rules = standing.inquiry.names().count() - limits;
    let limits = standing
        .inquiry
        .dial()
        .map(|dial| format!("{} at {}", dial.name(), format::counted(limits, "limit")));
    let rules = (rules > 0).then(|| format::counted(rules, "rule"));
    let both: Vec<String> = limits.into_iter().chain(rules).collect();
    format!("about {}", both.join(" and "))
}

/// Returns the answer if no limit saves anything without losing an answer.
fn no_best(standing: &Standing<'_>, dial: &Dial, sweep: &Sweep) -> String {
    let (name, limits) = (dial.name(), sweep.limits());
    if limits.iter().all(|effect| effect.unknown == sweep.runs) {
        return format!("Of no run can it be told where {name} would have stopped it");
    }
    if limits.iter().all(|effect| effect.cut == 0) {
        return format!("{name} would have cut no run at any limit tried");
    }
    let unit = if sweep.measure() == Measure::Tokens {
        "tokens"
    } else {
        "steps"
    };
    let named = |place: usize| standing.inquiry.names().nth(place).zip(limits.get(place));
    let effect = |place: usize| {
        named(place).map(|(rule, effect)| effect_of(&rule, effect, sweep, sweep.measure()))
    };
    let measure = sweep.measure();
    let is_known = limits
        .iter()
        .all(|effect| effect.sum(measure).runs == sweep.runs - effect.unknown);
    match (sweep.choice(), limits.len()) {
        (Choice::Nothing, _) if !is_known => {
            format!(
                "What {name} would have saved is not recorded of the runs that it would have cut"
            )
        }
        (_, 1) => effect(0).unwrap_or_default(),
        (Choice::Nothing, _) => {
            let cutting = limits
                .iter()
                .position(|effect| effect.cut > 0)
                .and_then(effect);
            format!(
                "No limit of {name} saves {unit}. One that cuts: {}",
                cutting.unwrap_or_default()
            )
        }
        (Choice::NoAnswers, _) => {
            format!(
                "None of these runs has an answer to lose, so that no limit of {name} is better than another"
            )
        }
        (Choice::Tie(place), _) => {
            let one = effect(place).unwrap_or_default();
            format!(
                "No limit of {name} stands out, since several lose equally many answers. One of them: {one}"
            )
        }
        (Choice::One(place), _) => {
            format!(
                "Each limit that saves {unit} loses answers. Fewest: {}",
                effect(place).unwrap_or_default()
            )
        }
    }
}

fn all_rules(standing: &Standing<'_>, sweep: &Sweep) -> String {
    let Some(last) = sweep.rules().last() else {
        return String::new();
    };
    let names: Vec<String> = standing.inquiry.names().collect();
    let name = match names.as_slice() {
        [one] => one.clone(),
        all => format!("All {} rules together", all.len()),
    };
    effect_of(&name, last, sweep, sweep.measure_of(last))
}

/// Describes a rule's effect: `max_steps=14 would have cut 21 of 130 runs, lost no answer and saved
/// 74,902 tokens (12 %)`.
pub(crate) fn effect_of(name: &str, effect: &Effect, sweep: &Sweep, measure: Measure) -> String {
    // The sentence covers only the runs that could be evaluated.
    let runs = match effect.unknown {
        0 => format::counted(sweep.runs as usize, "run"),
        some => format!(
            "the {} of which it can be told",
            format::counted((sweep.runs - some) as usize, "run")
        ),
    };
    if effect.cut == 0 {
        return format!("{name} would have cut none of {runs}");
    }
    let answers = sweep.answers.saturating_sub(effect.unknown_answers);
    let lost = match (effect.lost, answers) {
        (_, 0) => "which had no answers to lose,".to_owned(),
        (0, _) => "lost no answer".to_owned(),
        (lost, _) => format!(
            "lost {} of {}",
            format::count(lost),
            format::counted(answers as usize, "answer")
        ),
    };
    let sum = effect.sum(measure);
    let share = format::percent(sum.saved, sum.recorded());
    let over = match sum.runs {
        all if all == sweep.runs - effect.unknown => String::new(),
        some => format!(" of what {} record", format::counted(some as usize, "run")),
    };
    let about = if measure == Measure::Tokens && sweep.estimated > 0 && sum.saved > 0 {
        "about "
    } else {
        ""
    };
    let saved = format!("{about}{}", amount(sum.saved, measure));
    format!(
        "{name} would have cut {} of {runs}, {lost} and saved {saved} ({share}{over})",
        format::count(effect.cut)
    )
}

/// Formats a sum with its unit.
pub(crate) fn amount(number: u64, measure: Measure) -> String {
    match measure {
        Measure::Steps => format::counted(number as usize, "step"),
        Measure::Tokens => format::counted(number as usize, "token"),
        Measure::Ms => format::millis(number as f64),
    }
}

/// Returns a sentence with the number of runs that couldn't be evaluated, if any.
pub(crate) fn untold(standing: &Standing<'_>) -> Option<String> {
    let sweep = standing.sweep?;
    let place = if let Choice::One(place) = sweep.choice() {
        place
    } else {
        0
    };
    let chosen = standing
        .inquiry
        .dial()
        .and_then(|_| sweep.limits().get(place));
    let effect = chosen
        .or(sweep.rules().last())
        .filter(|effect| effect.unknown > 0)?;
    let runs = format::count(effect.unknown);
    Some(match effect.unknown_answers {
        0 => format!("For {runs} of these runs it cannot be told."),
        answers => {
            format!(
                "For {runs} of these runs it cannot be told, {} of them with an answer.",
                format::count(answers)
            )
        }
    })
}

/// Lists the limitations of the numbers, one sentence each.
pub(crate) fn notes(standing: &Standing<'_>, sweep: &Sweep) -> Vec<String> {
    let count = |number: u64, one: &str, more: &str| match number {
        0 => None,
        1 => Some(format!("One run {one}")),
        _ => Some(format!("{} runs {more}", format::count(number))),
    };
    let mut notes: Vec<String> = reasons(sweep)
        .into_iter()
        .map(|(needs, runs)| {
            let of = format::counted(runs as usize, "run");
            format!("Unknown for {of}: {needs}")
        })
        .collect();
    let steps_only = standing.inquiry.dial().is_some() && sweep.measure() == Measure::Steps;
    notes.extend(steps_only.then(|| {
        "Most runs spent no tokens or do not record them, so limits are compared by steps"
            .to_owned()
    }));
    notes.extend(count(
        sweep.estimated,
        "has tokens that are an estimate",
        "have tokens that are an estimate",
    ));
    notes.extend(count(
        sweep.inferred,
        "does not record what rules look at; it is worked out from its events",
        "do not record what rules look at; it is worked out from their events",
    ));
    notes.extend(count(
        sweep.going,
        "is still going and counts as far as it is written",
        "are still going and count as far as they are written",
    ));
    notes.extend(count(
        sweep.vanished,
        "vanished before it was asked",
        "vanished before they were asked",
    ));
    notes.extend(count(
        sweep.unread,
        "is not read to its end yet, or evicted from its store's cache, and was not asked",
        "are not read to their end yet, or evicted from their store's cache, and were not asked",
    ));
    notes.push("What a run would have done after its recorded end is unknown: a rule that is true only there counts as not reached".to_owned());
    notes.push(
        "Time saved counts up to the end of the last step of each run, on the clock of the machine that recorded it"
            .to_owned(),
    );
    notes
}
