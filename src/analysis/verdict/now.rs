//! Describes in one sentence what a run is doing now, based on its newest event.

use super::facts::Facts;
use super::stop_word;
use crate::analysis::format::capitalised;
use crate::analysis::newest::label;
use crate::model::EventKind;
use crate::model::index::Group;

impl Facts<'_> {
    pub(super) fn now(&self) -> String {
        let limit = self.limit().filter(|limit| limit.from.is_budget());
        let of = limit.map_or_else(String::new, |limit| format!(" of {}", limit.steps));
        let Some(group) = self.group else {
            return match (self.step(), self.index.events().is_empty()) {
                (Some(step), _) => format!("Running: {step}{of} is done; nothing recorded since"),
                (None, true) => stop_word::nothing_yet(self.index).to_owned(),
                (None, false) => "Setting up".to_owned(),
            };
        };
        if self.index.format().is_one_file() {
            return match (self.waits_for(), self.last) {
                (Some((step, tool)), _) => format!("Waiting for {tool} in {}", label(step)),
                (None, Some(last)) => format!("Waiting for the model after {}", label(last)),
                (None, None) => "Waiting for the model's first reply".to_owned(),
            };
        }
        let step = group
            .step_id
            .map_or_else(|| "the next step".to_owned(), |id| format!("step {id}"));
        format!("{}{of}: {}", capitalised(&step), self.doing(group))
    }

    pub(super) fn doing(&self, group: &Group) -> String {
        let newest = group
            .end
            .checked_sub(1)
            .and_then(|at| self.index.events().get(at));
        let (phase, stage, kind) = newest.map_or_else(Default::default, |event| {
            (
                self.index.name(event.phase),
                self.index.name(event.stage),
                event.kind,
            )
        });
        match phase {
            "GATE" => match stage {
                "allow" | "change" => self.allowed(group),
                "deny" => "continuing without a call that was denied".to_owned(),
                "stop" => "ending the run".to_owned(),
                _ => "asking for approval".to_owned(),
            },
            _ if matches!(kind, EventKind::Decided | EventKind::Acting) => {
                match group.decision.as_deref() {
                    // A decision without a call is stored as its mode.
                    Some("final") => "giving its answer".to_owned(),
                    Some("wait") => "waiting".to_owned(),
                    Some("handoff") => "handing over to another agent".to_owned(),
                    Some(call) => format!("waiting for {}", call.split('(').next().unwrap_or(call)),
                    None => "waiting for a tool".to_owned(),
                }
            }
            _ if kind == EventKind::Stopped => "ending the run".to_owned(),
            "HANDOFF_START" | "HANDOFF_END" => "handing over to another agent".to_owned(),
            "DECIDE" | "OBSERVE" => "thinking".to_owned(),
            "ACT" | "REDUCE" => "updating state".to_owned(),
            "CRITIC" => "asking critics".to_owned(),
            "CHECK_STOP" => "checking rules".to_owned(),
            "COMPACT" => "compacting the conversation".to_owned(),
            "RECOVER" | "DECIDE_ERROR" | "ACT_ERROR" | "REDUCE_ERROR" => {
                "recovering from an error".to_owned()
            }
            phase => phase.to_lowercase().replace('_', " "),
        }
    }

    /// Describes a call that a guard allowed, so it's running. The index keeps only the first call
    /// of a step, and a later guard event doesn't record which call it's about.
    fn allowed(&self, group: &Group) -> String {
        let mut before = self
            .index
            .events()
            .range(group.first..group.end.saturating_sub(1));
        let is_later = before.any(|event| {
            self.index.name(event.phase) == "GATE"
                && matches!(self.index.name(event.stage), "allow" | "deny")
        });
        let tool = group
            .decision
            .as_deref()
            .and_then(|call| call.split('(').next());
        match tool.filter(|_| !is_later) {
            Some(tool) => format!("waiting for {tool}"),
            None => "waiting for a tool".to_owned(),
        }
    }
}
