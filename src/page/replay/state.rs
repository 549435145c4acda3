//! Shows the state at the cursor. A step changes the state when its reduce phase ends, so until
//! then the previous state is shown.

use crate::analysis::replay::{Part, Scene};
use crate::page::replay::{Replay, step};
use crate::page::state::StatePanel;
use crate::page::state::fill::{Moment, state_panel};

impl Replay<'_> {
    /// Returns the moment whose state is shown, or `None` if no step has a line.
    fn moment(&self) -> Option<Moment> {
        let (part, event) = self.part.as_ref()?;
        let last = self.view.index.steps().len().checked_sub(1)?;
        Some(match part.scene {
            Scene::Start => Moment::Before(0),
            Scene::Step(n) if n <= last && *event >= self.reduced(part) => Moment::After(n),
            Scene::Step(n) if n <= last => Moment::Before(n),
            Scene::Step(_) | Scene::End => Moment::Since(last),
        })
    }

    /// Describes the moment of the state.
    pub(super) fn state_when(&self) -> String {
        let at_start = self
            .part
            .is_some_and(|(part, _)| part.scene == Scene::Start);
        match self.moment() {
            None => format!("{}, so the state is unknown.", self.view.no_step()),
            Some(_) if at_start => "at the start".to_owned(),
            Some(Moment::Before(n)) => format!("before step {}", self.view.label(n)),
            Some(Moment::After(n) | Moment::Since(n)) => {
                format!("after step {}", self.view.label(n))
            }
        }
    }

    pub(super) fn state(&self) -> StatePanel {
        let Some(moment) = self.moment() else {
            return StatePanel::default();
        };
        let (Moment::Before(shown) | Moment::After(shown) | Moment::Since(shown)) = moment;
        let current = self.part.and_then(|(part, _)| step(part.scene));
        // A link to another step shows the state after that step. A link to this step only selects
        // the key.
        let at = |n: usize, key: &str| {
            let other = self
                .track
                .find(Scene::Step(n))
                .filter(|_| current != Some(n) && n != shown);
            self.to_key(
                other.map_or(self.at, |other| other.at + self.reduced(other)),
                key,
            )
        };
        state_panel(self.view, moment, &self.query.key, &at).unwrap_or_default()
    }

    /// Returns the event of a part at which its step has changed the state: the last event of its
    /// reduce phase, or else its last event.
    fn reduced(&self, part: &Part) -> usize {
        let index = self.view.index;
        let reduce = index.names().find("REDUCE");
        let events = index.events().range(part.range());
        let last = events
            .clone()
            .rposition(|event| Some(event.phase) == reduce);
        last.unwrap_or_else(|| part.positions() - 1)
    }
}
