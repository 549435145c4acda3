//! Computes the state after each step in turn. Each line is read only once, while
//! [`state_at`](super::state_at) would start over for every step.

use std::collections::HashMap;

use super::read::{afters, keys_of};
use super::{KeyAt, Keys, before_reduce, doubt_of, whole};
use crate::model::{Index, Lines, StateRecord};

/// Calls `each` with the state after every step, in order, until it returns `false`. The states
/// match [`state_at`](super::state_at), with keys in order of first appearance.
pub fn walk(index: &Index, lines: &dyn Lines, each: &mut dyn FnMut(usize, &[KeyAt]) -> bool) {
    let initial = index.format().state == StateRecord::Initial;
    let mut state = State::default();
    for (n, head) in index.steps().iter().enumerate() {
        if n == 0 || index.lap_starts().contains(&n) {
            state = State::default();
            if initial {
                state.begin_with(whole(index, lines, n, n).1);
            }
        }
        for key in &head.outside {
            state.outside.insert(index.name(*key).to_owned(), n);
        }
        if !initial && let Some((_, before)) = before_reduce(index, lines, n) {
            state.begin_with(before);
            state.base = Some(n);
        }
        if !head.fate.is_readable() {
            state.broken = Some(n);
        }
        let mut afters = afters(lines, head.span);
        for key in keys_of(index, lines, n) {
            let changes = state
                .writers
                .get(key.as_ref())
                .map_or(0, |(_, changes)| *changes);
            state.writers.insert(key.to_string(), (n, changes + 1));
            state.outside.remove(key.as_ref());
            let value = afters.remove(key.as_ref());
            state.set(key.into_owned(), value, true);
        }
        let (broken, older) = (state.broken, state.base.is_some_and(|base| base < n));
        for known in &mut state.keys.list {
            known.doubt = doubt_of(known, broken, older);
        }
        if !each(n, &state.keys.list) {
            return;
        }
    }
}

#[derive(Default)]
struct State {
    keys: Keys,
    /// For each key, the last step that wrote it and the number of writes.
    writers: HashMap<String, (usize, usize)>,
    /// For each key, the last step that found it changed since the previous step, if no step has
    /// written it since.
    outside: HashMap<String, usize>,
    /// The newest unreadable step since the whole state.
    broken: Option<usize>,
    /// The step whose reduce followed the whole state; `None` at the start of the run.
    base: Option<usize>,
}

impl State {
    /// Resets to a whole state, but keeps its list of the steps that wrote each key.
    fn begin_with(&mut self, whole: Vec<(String, String)>) {
        self.keys = Keys::default();
        self.broken = None;
        for (key, value) in whole {
            self.set(key, Some(value), false);
        }
    }

    fn set(&mut self, key: String, value: Option<String>, in_change: bool) {
        let (written, changes) = self
            .writers
            .get(&key)
            .map_or((None, 0), |(step, count)| (Some(*step), *count));
        let outside = self.outside.get(&key).copied();
        self.keys.set(KeyAt {
            key,
            value,
            written,
            in_change,
            changes,
            outside,
            doubt: "",
        });
    }
}
