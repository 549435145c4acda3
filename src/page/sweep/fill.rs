//! How do sums become the page at `/whatif` and the answers to its poll?

use crate::analysis::format;
use crate::analysis::sweep::dials;
use crate::page::part::job::{Progress, Told};
use crate::page::shell::Shell;
use crate::page::sweep::curve::curve;
use crate::page::sweep::{Body, Context, Fields, Head, Standing, SweepPage, SweepPart, table, words};

/// The page at `/whatif`.
pub(crate) fn page(context: &Context, standing: Option<&Standing<'_>>) -> SweepPage {
    let name = standing.and_then(|standing| standing.inquiry.dial()).map(|dial| format!(": {}", dial.name()));
    SweepPage {
        shell: Shell { title: format!("What if{}", name.unwrap_or_default()), ..context.shell.clone() },
        poll: poll(context, standing),
        head: head(context, standing),
        fields: fields(context, standing),
        body: body(context, standing),
    }
}

/// The answer to the page's poll.
pub(crate) fn part(context: &Context, standing: Option<&Standing<'_>>) -> SweepPart {
    SweepPart { poll: poll(context, standing), head: head(context, standing), body: body(context, standing) }
}

fn poll(context: &Context, standing: Option<&Standing<'_>>) -> Option<String> {
    standing.filter(|standing| standing.state.is_running()).map(|_| context.form.url("/live/whatif", &[]))
}

fn head(context: &Context, standing: Option<&Standing<'_>>) -> Head {
    let Some(standing) = standing else {
        return Head {
            answer: "This cannot be asked; the reason stands below what was typed.".into(),
            ..Head::default()
        };
    };
    let again = ("Ask again", context.form.url("/whatif", &[("again", &standing.number.to_string())]));
    Head {
        answer: format!("{}.", words::answer(standing)).into(),
        second: standing.sweep.map(|sweep| second(standing, sweep)).unwrap_or_default().into(),
        told: Told::of(standing.state, standing.number, standing.changed, &context.zone, again),
    }
}

/// What belongs to the answer: whether it can be told of all runs.
fn second(standing: &Standing<'_>, sweep: &crate::analysis::sweep::Sweep) -> String {
    let chosen = standing.inquiry.dial().and_then(|dial| sweep.limits().get(sweep.mildest(dial).unwrap_or_default()));
    let effect = chosen.or(sweep.rules().last());
    let Some(effect) = effect.filter(|effect| effect.unknown > 0) else { return String::new() };
    let runs = format::count(effect.unknown);
    match effect.unknown_answers {
        0 => format!("For {runs} of these runs it cannot be told."),
        answers => {
            format!("For {runs} of these runs it cannot be told, {} of them with an answer.", format::count(answers))
        }
    }
}

fn fields(context: &Context, standing: Option<&Standing<'_>>) -> Fields {
    let chosen = standing.and_then(|standing| standing.inquiry.dial()).map_or(&*context.form.sweep, |dial| dial.name());
    let ignored = context.query.ignored.iter().map(|term| (term.text.clone(), term.why.clone()));
    Fields {
        form: context.form.clone(),
        ignored: ignored.collect(),
        dials: dials().map(|(name, counts)| (name, counts, name == chosen)).collect(),
        critics: context.critics.clone(),
        fault: context.fault.clone(),
        runs: table::selected(&context.form, standing.map_or(0, |standing| standing.total), context.known),
    }
}

fn body(context: &Context, standing: Option<&Standing<'_>>) -> Body {
    let Some(standing) = standing else { return Body::default() };
    let number = standing.number.to_string();
    let progress = standing.state.is_running().then(|| Progress {
        counts: "Runs asked",
        done: standing.done as u64,
        total: standing.total as u64,
        words: format!("{} of {}", format::count(standing.done as u64), format::counted(standing.total, "run")),
        cancel: context.form.url("/whatif", &[("cancel", &number)]),
        reload: context.form.url("/whatif", &[]),
    });
    let Some(sweep) = standing.sweep.filter(|sweep| sweep.runs > 0) else {
        return Body { progress, ..Body::default() };
    };
    let best = standing.inquiry.dial().and_then(|dial| sweep.best(dial));
    let drawn = standing.inquiry.dial().map(|_| curve(standing, sweep, best));
    let (curve, no_curve) = match drawn {
        Some(Ok(curve)) => (Some(curve), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    Body {
        progress,
        curve,
        no_curve,
        limits: table::limits(standing, sweep, best),
        rules: table::rules(standing, sweep),
        notes: words::notes(standing, sweep).into_iter().map(|note| format!("{note}.").into()).collect(),
    }
}
