//! What is said of each rule? Its name and limit in words, its cells, and how it stands against the record.

use crate::analysis::format;
use crate::analysis::whatif::{Answer, Answers, Found, Rule, RuleResult};
use crate::page::lens::Lens;
use crate::page::part::sign::{Phrase, Sign};
use crate::page::part::text::{Line, one_line};
use crate::page::whatif::{Cell, Cells, Lead, RuleRow, RulesAnswer, steps_per_column};
use crate::stop::{Amount, Counts, StopSpec};

/// A limit in words is cut to so many characters, a reason to more.
const LIMIT_CHARS: usize = 48;
const WHY_CHARS: usize = 240;

/// The headline, the rows and what to keep in mind.
pub(crate) fn answer(lens: &Lens<'_>, answers: &Answers) -> RulesAnswer {
    let shown = shown(answers);
    let mut rows: Vec<(_, RuleRow)> =
        shown.iter().map(|(place, own)| (order(&place.1.result), row(lens, answers, *place, own))).collect();
    rows.sort_by_key(|(order, _)| *order);
    let total = answers.steps.map_or(0, |(first, last)| last.saturating_sub(first) as usize + 1);
    let per_column = steps_per_column(total);
    let label = |step: u64| step_label(lens, step);
    let span = answers
        .steps
        .map_or_else(|| "steps".to_owned(), |(first, last)| format!("steps {} to {}", label(first), label(last)));
    let recorded = if answers.live { "recorded so far" } else { "recorded" };
    let about = format!("each asked by itself · {} {recorded}", format::counted(total, "step"));
    RulesAnswer {
        lead: Lead { headline: answers.headline.as_str().into(), live: answers.live },
        about: match per_column {
            1 => about.into(),
            _ => format!("{about} · one column stands for {per_column} steps").into(),
        },
        span: span.into(),
        has_unknown: shown.iter().any(|((_, answer), _)| answer.result.unknown_from.is_some()),
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        notes: notes(lens, answers),
    }
}

/// An asked rule that is also the run's own stands once, and says so.
fn shown(answers: &Answers) -> Vec<((usize, &Answer), &'static str)> {
    let of = |own: bool| answers.rules.iter().enumerate().filter(move |(_, answer)| answer.own == own);
    let words = |answer: &Answer| if answer.ended { "ended the run" } else { "as recorded" };
    let asked = of(false).map(|place| {
        let twin = of(true).find(|(_, own)| own.rule == place.1.rule);
        (place, twin.map_or("", |(_, own)| words(own)))
    });
    let own = of(true).filter(|(_, own)| !of(false).any(|(_, asked)| asked.rule == own.rule));
    asked.chain(own.map(|place| (place, words(place.1)))).collect()
}

/// Rules that fire come first, by step; those that are off last.
fn order(result: &RuleResult) -> (u8, Option<u64>, Option<crate::stop::Gate>) {
    let rank = match result.found {
        _ if result.off.is_some() => 3,
        Found::Earlier | Found::Same => 0,
        Found::NotReached => 1,
        Found::Unknown => 2,
    };
    (rank, result.step, result.gate)
}

fn step_label(lens: &Lens<'_>, step: u64) -> String {
    usize::try_from(step).map_or_else(|_| step.to_string(), |step| lens.label(step))
}

fn row(lens: &Lens<'_>, answers: &Answers, (place, answer): (usize, &Answer), own: &'static str) -> RuleRow {
    let result = &answer.result;
    let fires = matches!(result.found, Found::Earlier | Found::Same);
    let at = match result.step.and_then(|step| usize::try_from(step).ok()) {
        Some(step) => Phrase::new().link(format!("step {}", lens.label(step)), lens.at_step(step)),
        None if fires => Phrase::from("before the first"),
        None => Phrase::new().dim(format::MISSING),
    };
    // Where nothing is saved because nothing fires, there is no number; where one is missing, it is unknown.
    let number = |value: Option<u64>, show: &dyn Fn(u64) -> String| match value {
        Some(value) => Line::from(show(value)),
        None if fires => "unknown".into(),
        None => format::MISSING.into(),
    };
    let (name, limit) = words(&answer.rule);
    RuleRow {
        name: name.into(),
        limit: one_line(&limit, LIMIT_CHARS).0.into(),
        typed: one_line(&answer.rule.to_string(), WHY_CHARS).0.into(),
        own,
        hit: answers.first == Some(place),
        off: result.off.is_some(),
        cells: result.off.is_none().then(|| cells(answers.steps, result)).flatten(),
        at,
        against: against(result),
        steps: number(result.saved.steps, &format::count),
        tokens: number(result.saved.tokens, &format::tokens),
        time: number(result.saved.ms, &|ms| format::millis(ms as f64)),
        answer: answer_word(lens, result),
        why: match &result.off {
            Some(how) => format!("switched off by {how}").into(),
            None => one_line(&why(lens, result), WHY_CHARS).0.into(),
        },
    }
}

/// The rule's own sentence; where it cannot be told, with the steps between which it would fire.
fn why(lens: &Lens<'_>, result: &RuleResult) -> String {
    let label = |step: u64| step_label(lens, step);
    let latest = result.at_latest.map_or_else(String::new, |at| format!(", at the latest at step {}", label(at)));
    match (&result.needs, result.unknown_from) {
        (Some(needs), Some(from)) => format!("From step {} on{latest}: {needs}", label(from)),
        _ => result.detail.clone(),
    }
}

fn against(result: &RuleResult) -> Sign {
    match result.found {
        _ if result.off.is_some() => Sign::plain("mk", "off"),
        Found::Earlier => Sign::word("mk lim", "limit", result.found.words()),
        Found::Same => Sign::word("mk", "dot", result.found.words()),
        Found::NotReached => Sign::word("mk", "ring", result.found.words()),
        Found::Unknown => Sign::word("mk", "unknown", result.found.words()),
    }
}

fn answer_word(lens: &Lens<'_>, result: &RuleResult) -> Phrase {
    let answered = lens.summary.verdict.answered;
    match (result.found, result.answer_lost) {
        (Found::Earlier, true) => Phrase::new().strong("lost"),
        (Found::Earlier, false) if answered => Phrase::from("kept"),
        (Found::Earlier, false) => Phrase::new().dim("none"),
        _ => Phrase::new().dim(format::MISSING),
    }
}

/// Each step's cell; `None` where no step ran.
fn cells(steps: Option<(u64, u64)>, result: &RuleResult) -> Option<Cells> {
    let (first, last) = steps?;
    let fires = matches!(result.found, Found::Earlier | Found::Same);
    let cell = |step: u64| match (fires, result.step) {
        (true, Some(at)) if step == at => Cell::Fires,
        (true, Some(at)) if step < at => Cell::Asked,
        (true, _) => Cell::Beyond,
        (false, _) if result.unknown_from.is_some_and(|from| step >= from) => Cell::Unknown,
        (false, _) => Cell::Asked,
    };
    Some(Cells::new(&(first..=last).map(cell).collect::<Vec<_>>()))
}

/// What a rule is called, and its limit.
fn words(rule: &Rule) -> (String, String) {
    let (name, limit) = match rule {
        Rule::Spec(spec) => return of_spec(spec),
        Rule::Budget(row, limit) if row.rule.counts != Counts::Time => (row.label, format::count(*limit)),
        Rule::Budget(row, limit) if limit % 1000 == 0 => (row.label, format!("{} s", format::count(limit / 1000))),
        Rule::Budget(row, limit) => (row.label, format!("{} ms", format::count(*limit))),
        Rule::InCode(id) => ("Rule in code", id.clone()),
        Rule::Ending(code) => ("Recorded end", code.clone()),
    };
    (name.to_owned(), limit)
}

fn of_spec(spec: &StopSpec) -> (String, String) {
    let members = |of: &[StopSpec], join: &str| {
        let member = |spec: &StopSpec| {
            let (name, limit) = of_spec(spec);
            format!("{name} {limit}").trim_end().to_owned()
        };
        of.iter().map(member).collect::<Vec<_>>().join(join)
    };
    let limit = match spec.limit() {
        Amount::Count(number) => format::count(number),
        Amount::Seconds(seconds) => format!("{} s", format::count(seconds)),
        Amount::Text(text) => text.into_owned(),
        Amount::AnyOf(of) => members(of, " or "),
        Amount::AllOf(of) => members(of, " and "),
    };
    (spec.row().label.to_owned(), limit)
}

fn notes(lens: &Lens<'_>, answers: &Answers) -> Vec<Phrase> {
    let mut notes = Vec::new();
    let mut add = |applies: bool, words: String| notes.extend(applies.then(|| Phrase::from(words)));
    let any = |holds: fn(&Answer) -> bool| answers.rules.iter().any(holds);
    add(answers.live, "The run goes on: all this is about its record so far.".to_owned());
    add(
        !answers.live && !any(|answer| answer.ended),
        format!(
            "No rule is recorded to have ended the run: {}.",
            one_line(&lens.summary.verdict.sentence, WHY_CHARS).0
        ),
    );
    add(
        any(|answer| answer.result.found == Found::NotReached && answer.result.off.is_none()),
        "What the run would have done after its record ends is not known, so nothing is said about it.".to_owned(),
    );
    add(
        any(|answer| answer.result.saved.ms.is_some_and(|ms| ms > 0) || asks_time(&answer.rule)),
        "Times are those of the machine that recorded the run.".to_owned(),
    );
    add(answers.estimated, "Some tokens are estimates: the provider did not count them.".to_owned());
    add(!answers.inferred.is_empty(), format!("Worked out, not recorded: {}.", answers.inferred.join("; ")));
    let lost = format::counted(answers.lost, "step");
    let have = if answers.lost == 1 { "has" } else { "have" };
    add(answers.lost > 0, format!("{lost} ran and {have} no line in steps.jsonl; what they did is not known."));
    let unread = format::counted(answers.unread, "step");
    add(answers.unread > 0, format!("The facts of {unread} could not be read."));
    notes
}

fn asks_time(rule: &Rule) -> bool {
    match rule {
        Rule::Spec(spec) => spec.row().counts == Counts::Time,
        Rule::Budget(row, _) => row.rule.counts == Counts::Time,
        Rule::InCode(_) | Rule::Ending(_) => false,
    }
}
