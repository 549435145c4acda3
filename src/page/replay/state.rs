//! What is the state at the cursor? A step changes it when its reduce is done, so until then it is the one before.

use crate::analysis::replay::{Part, Scene};
use crate::page::replay::{Replay, step};
use crate::page::state::StatePanel;
use crate::page::state::fill::{Moment, state_panel};

impl Replay<'_> {
    /// The moment whose state is shown; `None` where no step has a line.
    fn moment(&self) -> Option<Moment> {
        let (part, event) = self.part.as_ref()?;
        let last = self.lens.index.steps().len().checked_sub(1)?;
        Some(match part.scene {
            Scene::Start => Moment::Before(0),
            Scene::Step(n) if n <= last && *event >= self.reduced(part) => Moment::After(n),
            Scene::Step(n) if n <= last => Moment::Before(n),
            Scene::Step(_) | Scene::End => Moment::Since(last),
        })
    }

    /// Of which moment the state is, in words.
    pub(super) fn state_when(&self) -> String {
        let at_start = self
            .part
            .is_some_and(|(part, _)| part.scene == Scene::Start);
        match self.moment() {
            None => format!("{}, so no state is known.", self.lens.no_step()),
            Some(_) if at_start => "at the start".to_owned(),
            Some(Moment::Before(n)) => format!("before step {} changes it", self.lens.label(n)),
            Some(Moment::After(n) | Moment::Since(n)) => {
                format!("after step {}", self.lens.label(n))
            }
        }
    }

    pub(super) fn state(&self) -> StatePanel {
        let Some(moment) = self.moment() else {
            return StatePanel::default();
        };
        let (Moment::Before(shown) | Moment::After(shown) | Moment::Since(shown)) = moment;
        let current = self.part.and_then(|(part, _)| step(part.scene));
        // A link to another step shows what that step made of the state; one to this step only selects the key.
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
        state_panel(self.lens, moment, &self.query.key, &at).unwrap_or_default()
    }

    /// The event of a part with which its step has changed the state: the last of its reduce, or the last of all.
    fn reduced(&self, part: &Part) -> usize {
        let index = self.lens.index;
        let reduce = index.names().find("REDUCE");
        let events = index.events().range(part.range());
        let last = events
            .clone()
            .rposition(|event| Some(event.phase) == reduce);
        last.unwrap_or_else(|| part.positions() - 1)
    }
}
