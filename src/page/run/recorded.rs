//! Lists the recorded facts about a run's end, verbatim, next to board's explanation.

use crate::analysis::stated::end_by_who;
use crate::analysis::verdict::{LimitFrom, reading};
use crate::analysis::why::RuleStatus;
use crate::model::manifest::Failure;
use crate::model::{Code, CriticMark, Gate, StepHead, StopVerdict};
use crate::page::part::href;
use crate::page::part::sign::{Fact, Link, Phrase};
use crate::page::part::text::{Line, one_line};
use crate::page::run::verdict::Verdict;

impl<'a> Verdict<'a> {
    /// Lists the recorded stop reason, stop detail, final result and error.
    pub(crate) fn recorded(&self) -> Vec<Fact> {
        let (view, index) = (self.view, self.view.index);
        let manifest = index.manifest().get();
        let segment = index.segment();
        let mut facts = Vec::new();
        let mut add = |term: &str, description: Option<Phrase>| {
            facts.extend(description.map(|description| Fact::new(term, description)))
        };
        let code = |text: &str| Phrase::new().code(text);
        add(
            "Status",
            manifest
                .and_then(|manifest| manifest.status.as_deref())
                .map(code),
        );
        let end = index.end();
        add(
            "Stop reason",
            end.agreed()
                .copied()
                .map(code)
                .or(end_by_who(index).map(Phrase::from)),
        );
        add("Rule", index.stop().map(rule));
        let stop = segment.and_then(|segment| segment.stop.as_ref()?.1.detail.as_deref());
        let is_news = |detail: &&str| {
            index
                .stop()
                .is_none_or(|stop| *stop.reading.detail != **detail)
        };
        add("Stop detail", stop.filter(is_news).map(code));
        let success = manifest.and_then(|manifest| manifest.success);
        add(
            "Success",
            success.map(|success| code(if success { "true" } else { "false" })),
        );
        let limit = view.summary.verdict.limit;
        add(
            "Step limit",
            limit.map(|limit| {
                let steps = Phrase::new().text(limit.steps.to_string());
                // A trace of another tool doesn't record who set it.
                if limit.from.is_budget() && index.format().is_one_file() {
                    steps
                } else {
                    steps.dim(from(limit.from))
                }
            }),
        );
        let (answer, _) = one_line(view.summary.answer.as_deref().unwrap_or_default(), 300);
        add("Answer", (!answer.is_empty()).then(|| Phrase::from(answer)));
        let error = segment
            .and_then(|segment| segment.error.as_ref())
            .map(|(event, text)| {
                Phrase::new()
                    .text(&**text)
                    .text(" ")
                    .link(format!("event {event}"), view.at_event(*event))
            });
        add("Last error", error);
        facts
    }

    /// Explains why the trace records nothing about the end.
    pub(crate) fn nothing_recorded(&self) -> &'static str {
        if self.view.index.format().is_one_file() {
            "This format records no stop checks and no END event."
        } else {
            "No readable manifest, stop check or END event."
        }
    }

    /// Returns the last step with critic output.
    pub(crate) fn last_critics(&self) -> Option<(Link, &'a StepHead)> {
        let steps = self.view.index.steps();
        let n = steps.iter().rposition(|step| !step.critics.is_empty())?;
        Some((
            Link::new(format!("step {}", self.view.label(n)), self.view.at_step(n)),
            steps.get(n)?,
        ))
    }

    /// Returns a critic's reason, if its action decided the step.
    pub(crate) fn reason(&self, step: &StepHead, critic: &CriticMark) -> Line {
        let reason = step
            .critic_reason
            .as_deref()
            .filter(|_| step.requested(critic.action));
        reason.unwrap_or_default().into()
    }

    /// Returns the rows of the failure report.
    pub(crate) fn failures(&self) -> &'a [Failure] {
        self.view
            .index
            .manifest()
            .get()
            .map_or(&[], |manifest| &manifest.failures)
    }

    /// Links the step of a failure.
    pub(crate) fn failed(&self, failure: &Failure) -> Link {
        let steps = self.view.index.steps();
        let n = steps
            .iter()
            .rposition(|step| step.step_id.is_some() && step.step_id == failure.step_id);
        let label = failure
            .step_id
            .map_or_else(|| "–".to_owned(), |id| id.to_string());
        Link::new(
            label,
            n.map_or_else(|| href::run(self.view.key()), |n| self.view.at_step(n)),
        )
    }
}

/// Explains how a step limit is known.
fn from(limit: LimitFrom) -> String {
    let more = match limit {
        LimitFrom::SetBy(_) | LimitFrom::Criteria => "",
        LimitFrom::Inferred => " from where the limit ended the run",
        LimitFrom::State => " (the engine's limit isn't recorded)",
    };
    format!(" {}{more}", limit.words())
}

/// Describes the rule that ended the run: its id, the comparison, and when it was checked.
fn rule(stop: &StopVerdict) -> Phrase {
    let named = RuleStatus {
        id: stop.criterion.clone(),
        kind: match &stop.code {
            Code::Custom(_) => "opaque".to_owned(),
            code => code.as_str().to_owned(),
        },
        ..RuleStatus::default()
    };
    let description = Phrase::new().text(named.name());
    let description = if named.is_listed() {
        description.text(" ").code(&*stop.criterion)
    } else {
        description
    };
    let description = match reading(stop) {
        Some(compared) => description.text(format!(": {compared}")),
        None if stop.reading.detail.is_empty() => description,
        None => description.text(format!(": {}", one_line(&stop.reading.detail, 200).0)),
    };
    match stop.gate {
        Some(Gate::BeforeStep) => description.dim(" · checked before the step"),
        Some(Gate::AfterDecide) => description.dim(" · checked after the decision"),
        Some(Gate::AfterStep) => description.dim(" · checked after the step"),
        None if stop.step.is_none() => description.dim(" · before the first step"),
        None => description,
    }
}
