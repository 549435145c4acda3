//! What do the files of a run themselves say about its end? Words as recorded, beside the board's explanation.

use crate::analysis::format;
use crate::analysis::verdict::{LimitFrom, reading};
use crate::model::{CriticAction, Gate, Manifest, Origin, StopVerdict};
use crate::page::lens::Lens;
use crate::page::part::href;
use crate::page::part::sign::{Fact, Link, Phrase, Sign};
use crate::page::part::svg::Axis;
use crate::page::run::{Failure, LastWord, TraceSays};

/// What the trace itself says.
pub(crate) fn says(lens: &Lens<'_>) -> TraceSays {
    let index = lens.index;
    let manifest = index.manifest().get();
    let segment = index.segment();
    let mut facts = Vec::new();
    let mut add = |term: &str, says: Option<Phrase>| facts.extend(says.map(|says| Fact::new(term, says)));
    let code = |text: &str| Phrase::new().code(text);
    let step_limit = lens.summary.verdict.limit.map(|limit| {
        let from = match limit.from {
            LimitFrom::SetBy(Origin::Task) => "set by the task's budget",
            LimitFrom::SetBy(Origin::Engine) => "set by the engine's budget",
            LimitFrom::SetBy(Origin::Cli) => "set on the command line",
            LimitFrom::SetBy(Origin::Default) => "the engine's default; nobody set one",
            LimitFrom::Criteria | LimitFrom::Inferred => "inferred from where the budget ended the run",
            LimitFrom::State => "from the agent's state; the engine's own budget is not recorded",
        };
        Phrase::new().text(limit.steps.to_string()).dim(format!(" {from}"))
    });
    add("Status", manifest.and_then(|manifest| manifest.status.as_deref()).map(code));
    let end = segment.and_then(|segment| segment.end.as_ref());
    let from_end = end.and_then(|(_, end, _)| end.reason.as_deref());
    add("Stop reason", manifest.and_then(|manifest| manifest.stop_reason.as_deref()).or(from_end).map(code));
    add("Rule", index.stop().map(rule));
    let stop = segment.and_then(|segment| segment.stop.as_ref());
    let told = |detail: &&str| index.stop().is_none_or(|stop| *stop.reading.detail != **detail);
    add("Stop detail", stop.and_then(|(_, stop)| stop.detail.as_deref()).filter(told).map(code));
    add(
        "Success",
        manifest.and_then(|manifest| manifest.success).map(|success| code(if success { "true" } else { "false" })),
    );
    add("Step limit", step_limit);
    let (answer, _) = crate::page::part::text::one_line(lens.summary.answer.as_deref().unwrap_or_default(), 300);
    add("Answer", (!answer.is_empty()).then(|| Phrase::from(answer)));
    let error = segment.and_then(|segment| segment.error.as_ref());
    add(
        "Last error",
        error.map(|(event, text)| {
            Phrase::new().text(&**text).text(" ").link(format!("event {event}"), lens.at_event(*event))
        }),
    );
    let (critics, critics_of) = last_words(lens);
    let failures: Vec<Failure> = manifest.map_or_else(Vec::new, |manifest| failures(lens, manifest));
    let nothing = if facts.is_empty() && critics.is_empty() && failures.is_empty() {
        "No manifest, no stop check and no END event can be read."
    } else {
        ""
    };
    TraceSays { facts, critics, critics_of, failures, nothing: nothing.into() }
}

/// The rule that ended the run: its id, what was compared, and where it was asked.
fn rule(stop: &StopVerdict) -> Phrase {
    let says = Phrase::new().code(&*stop.criterion);
    let says = match reading(stop) {
        Some(compared) => says.text(format!(": {compared}")),
        None if stop.reading.detail.is_empty() => says,
        None => says.text(format!(": {}", crate::page::part::text::one_line(&stop.reading.detail, 200).0)),
    };
    match stop.gate {
        Some(Gate::BeforeStep) => says.dim(" · asked before the step"),
        Some(Gate::AfterDecide) => says.dim(" · asked after the decision"),
        Some(Gate::AfterStep) => says.dim(" · asked after the step"),
        None if stop.step.is_none() => says.dim(" · before the first step"),
        None => says,
    }
}

fn last_words(lens: &Lens<'_>) -> (Vec<LastWord>, Option<Link>) {
    let last = lens.index.steps().iter().enumerate().rev().find(|(_, step)| !step.critics.is_empty());
    let Some((n, step)) = last else { return (Vec::new(), None) };
    let words = step.critics.iter().map(|mark| LastWord {
        name: lens.index.name(mark.name).into(),
        asked: match mark.action {
            CriticAction::Continue => Sign::plain("mk", "continue"),
            CriticAction::Retry => Sign::word("mk retry", "retry", "retry"),
            CriticAction::Stop => Sign::word("mk stop", "critic", "stop"),
            CriticAction::Failed => Sign::word("mk err", "error", "failed"),
            CriticAction::Other => Sign::plain("mk", "another word"),
        },
        axis: mark.score.and_then(|score| Axis::new(score, None)),
        score: mark.score.map_or_else(|| "no number".to_owned(), format::score).into(),
        reason: if step.asked(mark.action) {
            step.critic_reason.as_deref().unwrap_or_default().into()
        } else {
            "".into()
        },
    });
    (words.collect(), Some(Link::new(format!("step {}", lens.label(n)), lens.at_step(n))))
}

fn failures(lens: &Lens<'_>, manifest: &Manifest) -> Vec<Failure> {
    let at = |id: Option<i64>| lens.index.steps().iter().rposition(|step| step.step_id.is_some() && step.step_id == id);
    let link = |id: Option<i64>| {
        let label = id.map_or_else(|| "–".to_owned(), |id| id.to_string());
        at(id).map_or_else(
            || Link::new(label.clone(), href::run(lens.key())),
            |n| Link::new(label.clone(), lens.at_step(n)),
        )
    };
    let failure = |failure: &crate::model::manifest::Failure| Failure {
        step: link(failure.step_id),
        phase: (&*failure.phase).into(),
        category: (&*failure.category).into(),
        message: crate::page::part::text::one_line(&failure.message, 200).0.into(),
        outcome: (&*failure.decision).into(),
    };
    manifest.failures.iter().map(failure).collect()
}
