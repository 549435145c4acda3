//! Determines which lines at the beginning of a Codex session were copied from another session.
//!
//! A forked session begins with copies of all lines of the original session. They have the time of
//! the fork, so their own times are unknown. But the id of a turn contains the time at which the
//! turn began, and so does the id of the session. The first turn that isn't older than the session
//! is the session's own. A sub-agent's file records the number of its first own line, or contains
//! lines of its parent with their original times.

use super::item::{Line, Payload};
use crate::format::part::text;
use crate::format::value::{count, cut, micros};

/// Copies are all written at once. Lines that are later than this belong to the session itself;
/// microseconds.
const BURST_MICROS: i64 = 2_000_000;
/// A sub-agent's own line may be older than its session by up to this much; microseconds.
const SLACK_MICROS: i64 = 200_000;

/// The state of the search for copied lines in a file.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The session that the lines come from.
    from: Box<str>,
    is_fork: bool,
    is_child: bool,
    /// Lines with a lower number are copies.
    to: u64,
    /// The start of the session, in microseconds since the epoch.
    began: Option<i64>,
    /// Whether a turn of the other session was read.
    has_turns: bool,
    is_over: bool,
}

impl Copies {
    /// Creates the state from the session's first line.
    pub(super) fn of(payload: &Payload<'_>, parent: Option<&str>, timestamp: Option<&str>) -> Self {
        let forked = text(payload.forked).filter(|from| !from.is_empty());
        let began = text(payload.id)
            .and_then(|id| time_of(&id))
            .or_else(|| micros(timestamp));
        Self {
            is_fork: forked.is_some(),
            is_child: parent.is_some(),
            from: cut(forked.as_deref().or(parent).unwrap_or_default()),
            to: count(payload.history).unwrap_or_default(),
            began,
            ..Self::default()
        }
    }

    /// Returns whether the file may begin with lines of another session.
    pub(super) fn is_any(&self) -> bool {
        self.is_fork || self.to > 0
    }

    /// Returns the session that the line was copied from, or `None` for a line of this session.
    pub(super) fn copied(&mut self, line: &Line<'_>, payload: &Payload<'_>) -> Option<&str> {
        let began = self.began.filter(|_| self.is_fork || self.is_child)?;
        let ts = micros(line.timestamp);
        let is_copy = if self.to > 0 {
            count(line.ordinal).is_some_and(|at| at < self.to)
        } else if self.is_over {
            false
        } else if self.is_fork {
            match text(payload.turn).and_then(|turn| time_of(&turn)) {
                Some(turn) if turn < began => {
                    self.has_turns = true;
                    true
                }
                Some(_) => false,
                None => {
                    self.has_turns || ts.is_none_or(|ts| ts < began.saturating_add(BURST_MICROS))
                }
            }
        } else {
            ts.is_some_and(|ts| ts < began.saturating_sub(SLACK_MICROS))
        };
        self.is_over |= self.is_fork && !is_copy;
        is_copy.then_some(&*self.from)
    }
}

/// Returns the time in a UUID of version 7, in microseconds since the epoch.
fn time_of(id: &str) -> Option<i64> {
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let is_timed = digits.len() == 32 && digits.get(12..13) == Some("7");
    let millis = digits
        .get(..12)
        .filter(|_| is_timed)
        .and_then(|millis| i64::from_str_radix(millis, 16).ok());
    millis?.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_version_7_has_its_time_in_it() {
        // 2026-11-22T15:35:42.767Z
        assert_eq!(
            time_of("01a203e6-1faf-7593-925a-52ce4af41bae"),
            Some(0x01a2_03e6_1faf * 1_000)
        );
        assert_eq!(time_of("01a203e6-1faf-4593-925a-52ce4af41bae"), None);
        assert_eq!(
            time_of("turn-1")
                .or(time_of(""))
                .or(time_of("ü1a203e6-1faf-7593-925a-52ce4af41ba")),
            None
        );
    }
}
