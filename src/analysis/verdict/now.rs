//! Describes in one sentence the activity of a run, based on its newest event.

use super::facts::Facts;
use super::stop_word;
use crate::analysis::format::capitalised;
use crate::analysis::newest::label;
use crate::model::index::Group;
use crate::model::{EventHead, EventKind};

/// The activity of a step, now or when its records end.
#[derive(Clone, Copy)]
pub(super) enum Doing<'a> {
    /// Running a tool, if known which.
    Tool(Option<&'a str>),
    /// Something that the agent itself does, as a participle.
    Agent(&'static str),
    /// Anything else, as a participle.
    Other(&'static str),
}

/// What a run does that has a prompt and no step.
const FIRST_REPLY: &str = "Waiting for the model's first reply";

impl Doing<'_> {
    /// Describes the activity when the records end: "running bash".
    pub(super) fn in_the_past(self) -> String {
        match self {
            Doing::Tool(tool) => format!("running {}", tool.unwrap_or("a tool")),
            Doing::Agent(words) | Doing::Other(words) => words.to_owned(),
        }
    }
}

impl Facts<'_> {
    pub(super) fn now(&self) -> String {
        let limit = self.limit().filter(|limit| limit.from.is_budget());
        let of = limit.map_or_else(String::new, |limit| format!(" of {}", limit.steps));
        let Some(group) = self.group else {
            return match (self.step(), self.index.events().is_empty()) {
                (Some(step), _) => format!("Running: {step}{of} is done; nothing recorded since"),
                (None, true) => stop_word::nothing_yet(self.index).to_owned(),
                (None, false) if self.is_asked() => FIRST_REPLY.to_owned(),
                (None, false) => "Setting up".to_owned(),
            };
        };
        if self.index.format().is_one_file() {
            return match (self.waits_for(), self.last) {
                (Some((step, tool)), _) => format!("Waiting for {tool} in {}", label(step)),
                (None, Some(last)) => format!("Waiting for the model after {}", label(last)),
                (None, None) => FIRST_REPLY.to_owned(),
            };
        }
        let step = group
            .step_id
            .map_or_else(|| "the next step".to_owned(), |id| format!("step {id}"));
        format!("{}{of}: {}", capitalised(&step), self.doing_now(group))
    }

    /// Returns the activity of a step at its newest event, or `None` for a phase that this version
    /// doesn't know.
    pub(super) fn doing<'a>(&self, group: &'a Group) -> Option<Doing<'a>> {
        let (phase, stage, kind) = self.newest(group).map_or_else(Default::default, |event| {
            (
                self.index.name(event.phase),
                self.index.name(event.stage),
                event.kind,
            )
        });
        Some(match phase {
            "GATE" => match stage {
                "allow" | "change" => self.allowed(group),
                "deny" => Doing::Other("continuing without a call that was denied"),
                "stop" => Doing::Other("ending the run"),
                _ => Doing::Other("asking for approval"),
            },
            _ if matches!(kind, EventKind::Decided | EventKind::Acting) => {
                match group.decision() {
                    // A decision without a call is stored as its mode.
                    Some("final") => Doing::Other("giving its answer"),
                    Some("wait") => Doing::Other("waiting"),
                    Some("handoff") => Doing::Other("handing off to another agent"),
                    call => Doing::Tool(call.map(tool_of)),
                }
            }
            _ if kind == EventKind::Stopped => Doing::Other("ending the run"),
            "HANDOFF_START" | "HANDOFF_END" => Doing::Other("handing off to another agent"),
            "DECIDE" | "OBSERVE" => Doing::Agent("deciding"),
            "ACT" | "REDUCE" => Doing::Agent("updating its state"),
            "CRITIC" => Doing::Other("asking critics"),
            "CHECK_STOP" => Doing::Other("checking rules"),
            "COMPACT" => Doing::Other("compacting the conversation"),
            "RECOVER" | "DECIDE_ERROR" | "ACT_ERROR" | "REDUCE_ERROR" => {
                Doing::Other("recovering from an error")
            }
            _ => return None,
        })
    }

    fn newest(&self, group: &Group) -> Option<&EventHead> {
        self.index.events().get(group.end.checked_sub(1)?)
    }

    /// Describes what a step does now: "waiting for bash".
    fn doing_now(&self, group: &Group) -> String {
        match self.doing(group) {
            Some(Doing::Tool(tool)) => format!("waiting for {}", tool.unwrap_or("a tool")),
            Some(Doing::Agent(words) | Doing::Other(words)) => words.to_owned(),
            None => format!("the last event is {}", self.phase(self.newest(group))),
        }
    }

    /// Returns the phase of an event as recorded.
    pub(super) fn phase(&self, event: Option<&EventHead>) -> &str {
        match event.map(|event| self.index.name(event.phase)) {
            None | Some("") => "an event without a phase",
            Some(phase) => phase,
        }
    }

    /// Returns the call that a guard allowed, so it's running. The index keeps only the first call
    /// of a step, and a later guard event doesn't record which call it's about.
    fn allowed<'a>(&self, group: &'a Group) -> Doing<'a> {
        let mut before = self
            .index
            .events()
            .range(group.first..group.end.saturating_sub(1));
        let is_later = before.any(|event| {
            self.index.name(event.phase) == "GATE"
                && matches!(self.index.name(event.stage), "allow" | "deny")
        });
        let call = group.decision().filter(|_| !is_later);
        Doing::Tool(call.map(tool_of))
    }
}

/// Returns the tool's name in a call.
fn tool_of(call: &str) -> &str {
    call.split('(').next().unwrap_or(call)
}
