//! Inserts the texts that a trace stores once into a record that refers to them.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::format::{STORED, stored_texts_in};
use crate::model::{Record, Symbol, TraceFile};
use crate::page::run_view::RunView;

/// References that are followed in one record, at most. Further ones stay as they are.
const MAX_REFERENCES: usize = 1_000;
/// Bytes that are inserted into one record, at most.
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
    let phase = view
        .index
        .names()
        .find(STORED)
        .filter(|_| !references.is_empty())?;
    let events = view.index.events().iter();
    let stored = events.filter(|event| event.phase == phase && event.stage != Symbol::default());
    let spans: HashMap<Symbol, _> = stored.map(|event| (event.stage, event.span)).collect();
    references.sort_unstable();
    let mut left = MAX_BYTES;
    let (mut out, mut done) = (String::new(), 0);
    for (at, reference) in references {
        let key = reference.rsplit('/').next().unwrap_or_default();
        let span = view.index.names().find(key).and_then(|key| spans.get(&key));
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
