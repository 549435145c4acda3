//! Inserts the texts that a trace stores once into a record that refers to them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::format::{STORED, stored_texts_in};
use crate::model::{Record, Span, Symbol, TraceFile};
use crate::page::run_view::RunView;

/// Maximum number of references that are followed in one record. Further ones stay as they are.
const MAX_REFERENCES: usize = 1_000;
/// Maximum number of bytes that are inserted into one record.
const MAX_BYTES: usize = 4 << 20;

/// Returns a record with the texts that it refers to.
pub(crate) fn with_texts<'a>(view: &RunView<'_>, record: Record<'a>) -> Record<'a> {
    let references: Vec<(usize, &str)> =
        stored_texts_in(&record.text).take(MAX_REFERENCES).collect();
    let Some(text) = inserted(view, &record.text, references) else {
        return record;
    };
    Record {
        text: Cow::Owned(text),
        ..record
    }
}

fn inserted(view: &RunView<'_>, text: &str, mut references: Vec<(usize, &str)>) -> Option<String> {
    let names = view.index.names();
    let phase = names.find(STORED)?;
    let key_of = |reference: &str| names.find(reference.rsplit('/').next()?);
    let mut wanted: HashSet<Symbol> = references
        .iter()
        .filter_map(|(_, reference)| key_of(reference))
        .collect();
    let mut spans: HashMap<Symbol, Span> = HashMap::new();
    let mut events = view.index.events().iter();
    while !wanted.is_empty()
        && let Some(event) = events.next()
    {
        if event.phase == phase && wanted.remove(&event.stage) {
            spans.insert(event.stage, event.span);
        }
    }
    if spans.is_empty() {
        return None;
    }
    references.sort_unstable();
    let mut left = MAX_BYTES;
    let (mut out, mut done) = (String::new(), 0);
    for (at, reference) in references {
        let span = key_of(reference).and_then(|key| spans.get(&key));
        let span = span.filter(|span| usize::try_from(span.len).is_ok_and(|len| len <= left));
        let Some(span) = span else { continue };
        let Ok(record) = view.lines.record(TraceFile::Events, *span) else {
            continue;
        };
        let inner = record.text.strip_prefix('"');
        let Some(inner) = inner.and_then(|inner| inner.strip_suffix('"')) else {
            continue;
        };
        left = left.saturating_sub(inner.len());
        out.push_str(text.get(done..at)?);
        out.push_str(inner);
        done = at + reference.len();
    }
    out.push_str(text.get(done..)?);
    Some(out)
}
