//! Describes a sweep in sentences.

use crate::analysis::format;
use crate::analysis::headline::Headline;
use crate::analysis::sweep::{Choice, Effect, Measure, Sweep, SweepRule, reasons};
use crate::page::part::job::State;
use crate::page::sweep::task::Standing;

/// Returns the limit that saves the most without losing an answer: its rule as written, and its
/// effect.
pub(crate) fn best<'s>(standing: &Standing<'s>) -> Option<(String, &'s Effect)> {
    let sweep = standing.sweep?;
    let place = sweep.best()?;
    Some((
        standing.prepared.names().nth(place)?,
        sweep.limits().get(place)?,
    ))
}

/// Returns the answer.
pub(crate) fn answer(standing: &Standing<'_>) -> Headline {
    let runs = format::counted(standing.total, "run");
    let Some(sweep) = standing.sweep else {
        let headline = match standing.status.state {
            State::Failed => "The evaluation failed. The board's log has the details".to_owned(),
            State::Cancelled => format!("Cancelled after 0 of {runs}"),
            State::Running | State::Done => format!("Evaluating {} on {runs}", what(standing)),
        };
        return sentence(headline);
    };
    if standing.total == 0 {
        return sentence("No runs match".to_owned());
    }
    let answer = match (best(standing), standing.prepared.sweep_rule()) {
        (Some((name, effect)), _) => effect_of(&name, effect, sweep, sweep.measure()),
        (None, Some(sweep_rule)) => no_best(standing, sweep_rule, sweep),
        (None, None) => all_rules(standing, sweep),
    };
    match standing.status.state {
        State::Cancelled => {
            let done = format::count(standing.done as u64);
            answer.after(&format!("Cancelled after {done} of {runs}. So far: "))
        }
        _ => answer,
    }
}

fn sentence(words: String) -> Headline {
    Headline::from(words + ".")
}

/// Describes the question: `max_steps at 40 limits and 2 rules`.
fn what(standing: &Standing<'_>) -> String {
    let limits = standing.prepared.values().len();
    let rules = standing.prepared.names().count() - limits;
    let limits = standing.prepared.sweep_rule().map(|sweep_rule| {
        format!(
            "{} at {}",
            sweep_rule.name(),
            format::counted(limits, "limit")
        )
    });
    let rules = (rules > 0).then(|| format::counted(rules, "rule"));
    let both: Vec<String> = limits.into_iter().chain(rules).collect();
    both.join(" and ")
}

/// Returns the answer if no limit saves anything without losing an answer.
fn no_best(standing: &Standing<'_>, sweep_rule: &SweepRule, sweep: &Sweep) -> Headline {
    let (name, limits) = (sweep_rule.name(), sweep.limits());
    if limits.iter().all(|effect| effect.unknown == sweep.runs) {
        return sentence(format!("Not enough data to evaluate {name} on any run"));
    }
    if limits.iter().all(|effect| effect.cut == 0) {
        return sentence(format!("{name} stops no run early at the limits tried"));
    }
    let unit = if sweep.measure() == Measure::Tokens {
        "tokens"
    } else {
        "steps"
    };
    let named = |place: usize| standing.prepared.names().nth(place).zip(limits.get(place));
    let effect = |place: usize| {
        named(place).map(|(rule, effect)| effect_of(&rule, effect, sweep, sweep.measure()))
    };
    let measure = sweep.measure();
    let is_known = limits
        .iter()
        .all(|effect| effect.sum(measure).runs == sweep.runs - effect.unknown);
    match (sweep.choice(), limits.len()) {
        (Choice::Nothing, _) if !is_known => sentence(format!(
            "The savings from {name} are unknown because the runs it stops don't record them"
        )),
        (_, 1) => effect(0).unwrap_or_default(),
        (Choice::Nothing, _) => {
            let cutting = limits
                .iter()
                .position(|effect| effect.cut > 0)
                .and_then(effect);
            let cutting = cutting.unwrap_or_default();
            cutting.after(&format!("No limit of {name} saves {unit}. For example: "))
        }
        (Choice::NoAnswers, _) => sentence(format!(
            "No limit of {name} is better than another: none of these runs has an answer to lose"
        )),
        (Choice::Tie(place), _) if limits.get(place).is_some_and(|effect| effect.lost == 0) => {
            let one = effect(place).unwrap_or_default();
            one.and("Other limits do equally well.")
        }
        (Choice::Tie(place), _) => {
            least_costly(unit, effect(place)).and("Other limits lose equally few answers.")
        }
        (Choice::One(place), _) => least_costly(unit, effect(place)),
    }
}

/// Returns the answer if every limit that saves anything loses answers, with the limit that loses
/// the fewest.
fn least_costly(unit: &str, effect: Option<Headline>) -> Headline {
    let effect = effect.unwrap_or_default().to_string();
    sentence(format!("No limit saves {unit} without losing answers"))
        .and(&format!("Fewest lost: {effect}"))
}

fn all_rules(standing: &Standing<'_>, sweep: &Sweep) -> Headline {
    let Some(last) = sweep.rules().last() else {
        return Headline::default();
    };
    let names: Vec<String> = standing.prepared.names().collect();
    let name = match names.as_slice() {
        [one] => one.clone(),
        [_, _] => "Combining both rules".to_owned(),
        all => format!("Combining all {} rules", all.len()),
    };
    effect_of(&name, last, sweep, sweep.measure_of(last))
}

/// Describes a rule's effect: `max_steps=14 saves 74,902 tokens (12%) and loses no answers. It stops
/// 21 of 130 runs early.`
fn effect_of(name: &str, effect: &Effect, sweep: &Sweep, measure: Measure) -> Headline {
    // The sentence covers only the runs that could be evaluated.
    let runs = match effect.unknown {
        0 => format::counted(sweep.runs as usize, "run"),
        some => format::counted((sweep.runs - some) as usize, "evaluated run"),
    };
    if effect.cut == 0 {
        return sentence(format!("{name} stops none of {runs} early"));
    }
    let answers = sweep.answers.saturating_sub(effect.unknown_answers);
    let lost = match (effect.lost, answers) {
        (_, 0) => String::new(),
        (0, _) => " and loses no answers".to_owned(),
        (lost, _) => format!(
            " and loses {} of {}",
            format::count(lost),
            format::counted(answers as usize, "answer")
        ),
    };
    let sum = effect.sum(measure);
    let share = format::percent(sum.saved, sum.recorded());
    let over = match sum.runs {
        all if all == sweep.runs - effect.unknown => String::new(),
        some => format!(" of the total in {}", format::counted(some as usize, "run")),
    };
    let about = if measure == Measure::Tokens && sweep.estimated > 0 && sum.saved > 0 {
        "about "
    } else {
        ""
    };
    let saved = format!("{about}{}", amount(sum.saved, measure));
    let none = if answers == 0 {
        ", and none of them had an answer to lose"
    } else {
        ""
    };
    let answer = sentence(format!("{name} saves {saved} ({share}{over}){lost}"));
    let cut = format::count(effect.cut);
    answer.and(&format!("It stops {cut} of {runs} early{none}."))
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
pub(crate) fn unevaluated(standing: &Standing<'_>) -> Option<String> {
    let sweep = standing.sweep?;
    let place = match sweep.choice() {
        Choice::One(place) | Choice::Tie(place) => place,
        Choice::Nothing | Choice::NoAnswers => 0,
    };
    let limit = standing
        .prepared
        .sweep_rule()
        .and_then(|_| standing.prepared.names().nth(place));
    let chosen = limit.as_ref().and_then(|_| sweep.limits().get(place));
    let effect = chosen
        .or(sweep.rules().last())
        .filter(|effect| effect.unknown > 0)?;
    let runs = format::counted(effect.unknown as usize, "run");
    // Another limit may be known for more runs or fewer.
    let runs = match limit.filter(|_| sweep.limits().len() > 1) {
        Some(limit) => format!("At {limit}, {runs}"),
        None => runs,
    };
    Some(match effect.unknown_answers {
        0 => format!("{runs} couldn't be evaluated."),
        1 => format!("{runs} couldn't be evaluated (1 had an answer)."),
        answers => {
            format!(
                "{runs} couldn't be evaluated ({} had answers).",
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
            if sweep.limits().len() > 1 {
                format!("Not evaluated at some limit: {of}, because {needs}")
            } else {
                format!("Not evaluated: {of}, because {needs}")
            }
        })
        .collect();
    let lacks = sweep.limits().iter().any(|effect| effect.unknown > 0);
    notes.extend(lacks.then(|| {
        "Each limit's answers lost and kept count only the runs that it could be evaluated for"
            .to_owned()
    }));
    let steps_only = standing.prepared.sweep_rule().is_some() && sweep.measure() == Measure::Steps;
    notes.extend(steps_only.then(|| {
        "Most runs used no tokens or don't record them, so limits are compared by steps".to_owned()
    }));
    notes.extend(count(
        sweep.estimated,
        "has estimated token counts",
        "have estimated token counts",
    ));
    notes.extend(count(
        sweep.inferred,
        "doesn't record the values that rules check, so they are inferred from its events",
        "don't record the values that rules check, so they are inferred from their events",
    ));
    notes.extend(count(
        sweep.going,
        "hasn't ended. Only its record so far counts",
        "haven't ended. Only their records so far count",
    ));
    notes.extend(count(
        sweep.vanished,
        "disappeared before it could be evaluated",
        "disappeared before they could be evaluated",
    ));
    notes.extend(count(
        sweep.unread,
        "wasn't evaluated because it isn't fully read yet or was evicted from its store's cache",
        "weren't evaluated because they aren't fully read yet or were evicted from their store's cache",
    ));
    notes.push("What a run would have done after its recorded end is unknown. Rules that fire only then count as not reached".to_owned());
    notes.push(
        "Time saved is measured to the end of each run's last step, on the recording machine's clock"
            .to_owned(),
    );
    notes
}
