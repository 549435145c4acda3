//! Takes an index apart and puts it together again. The pieces can be stored and read on several
//! threads.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{EventHead, Group, Index, List, StepHead};

/// A piece of an index.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Piece<'a> {
    /// Everything but the three lists.
    Rest(Box<Cow<'a, Index>>),
    /// Consecutive steps.
    Steps(Cow<'a, [StepHead]>),
    /// Consecutive events.
    Events(Cow<'a, [EventHead]>),
    /// Consecutive groups of events.
    Groups(Cow<'a, [Group]>),
}

impl Index {
    /// Returns the pieces that the index consists of.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        fn of<T: Clone>(list: &List<T>) -> impl Iterator<Item = Cow<'_, [T]>> {
            list.chunks().map(Cow::Borrowed)
        }
        std::iter::once(Piece::Rest(Box::new(Cow::Borrowed(self))))
            .chain(of(&self.steps).map(Piece::Steps))
            .chain(of(&self.events).map(Piece::Events))
            .chain(of(&self.groups).map(Piece::Groups))
    }

    /// Returns the index that consists of these pieces. `None` if they can't be the pieces of an index
    /// in order. A missing last piece of a list isn't noticed.
    pub(crate) fn from_pieces(pieces: impl IntoIterator<Item = Piece<'static>>) -> Option<Self> {
        let mut pieces = pieces.into_iter();
        let Some(Piece::Rest(index)) = pieces.next() else {
            return None;
        };
        let mut index = index.into_owned();
        for piece in pieces {
            match piece {
                Piece::Rest(_) => return None,
                Piece::Steps(steps) => index.steps.push_chunk(steps.into_owned())?,
                Piece::Events(events) => index.events.push_chunk(events.into_owned())?,
                Piece::Groups(groups) => index.groups.push_chunk(groups.into_owned())?,
            }
        }
        Some(index)
    }
}
