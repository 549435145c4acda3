//! Composes the document of a run from values that are scattered in a file among those of other
//! runs. The document is a list of the values in the order of the run. No bytes are copied, and
//! positions in the document map back to the file.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::sync::Arc;

use super::read_at::ReadAt;
use super::stamp::Stamp;
use crate::format::{Apart, Values};
use crate::model::{Span, StepHead};

/// The bytes read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// The text before, between and after the values.
const OPENING: &[u8] = b"[";
const BETWEEN: &[u8] = b",\n";
const CLOSING: &[u8] = b"]";

/// The values of one run, with the offset of each in the document and its span in the file, and a
/// hash of the spans and contents.
#[derive(Debug, Clone)]
pub(super) struct Pieces(Arc<[(u64, Span)]>, u64);

impl Pieces {
    fn of(values: impl Iterator<Item = (Span, u64)>) -> Self {
        let mut start = OPENING.len() as u64;
        let mut hasher = DefaultHasher::new();
        let placed = values.map(|(span, print)| {
            (span.offset, span.len, print).hash(&mut hasher);
            let at = start;
            start += span.len + BETWEEN.len() as u64;
            (at, span)
        });
        let placed = placed.collect();
        Self(placed, hasher.finish())
    }

    /// Returns the length of the document in bytes.
    pub(super) fn len(&self) -> u64 {
        let end = self
            .0
            .last()
            .map_or(OPENING.len() as u64, |(start, span)| start + span.len);
        end + CLOSING.len() as u64
    }

    /// Returns the stamp of the document. It doesn't change when the file grows by other runs, and
    /// changes when the file is replaced by one with different values at the same positions.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp::of_bytes(self.1 as u32, self.0.len() as u64, self.len())
    }

    /// Reads a range of the document.
    pub(super) fn read<C: ReadAt + Send>(&self, file: C, span: Span) -> impl Read + Send + use<C> {
        Composed {
            pieces: self.clone(),
            file,
            at: span.offset,
        }
        .take(span.len)
    }
}

struct Composed<C> {
    pieces: Pieces,
    file: C,
    at: u64,
}

impl<C: ReadAt> Read for Composed<C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let behind = self
            .pieces
            .0
            .partition_point(|(start, _)| *start <= self.at);
        let placed = behind
            .checked_sub(1)
            .and_then(|last| self.pieces.0.get(last));
        let inside = placed.map(|(start, span)| (self.at - start, *span));
        let read = match inside {
            Some((from, span)) if from < span.len => {
                let wanted = usize::try_from(span.len - from)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                let read = self.file.read_at(
                    buffer.get_mut(..wanted).unwrap_or_default(),
                    span.offset + from,
                )?;
                if read == 0 && wanted > 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file was truncated",
                    ));
                }
                read
            }
            _ => {
                let (text, from) = match inside {
                    None if self.at < OPENING.len() as u64 => (OPENING, self.at),
                    None => (CLOSING, self.at - OPENING.len() as u64),
                    Some((from, span)) if behind == self.pieces.0.len() => {
                        (CLOSING, from - span.len)
                    }
                    Some((from, span)) => (BETWEEN, from - span.len),
                };
                usize::try_from(from)
                    .ok()
                    .and_then(|from| text.get(from..))
                    .unwrap_or_default()
                    .read(buffer)?
            }
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// The runs of a file by name, and what is wrong with the file.
type Listed = (BTreeMap<Arc<str>, Pieces>, Option<String>);

/// A value of a run: its order among the others, its span, and a hash of its content.
type Found = (u64, Span, u64);

/// Scans the file for runs.
pub(super) fn list(file: &impl ReadAt, apart: &Apart, most: usize) -> io::Result<Listed> {
    let mut runs: BTreeMap<String, (Vec<Found>, bool)> = BTreeMap::new();
    let (mut torn, mut left_out, mut beyond) = (0, 0, 0);
    let mut values = Values::new(apart.paths);
    // The offset of the current line, and whether its document began.
    let (mut at, mut begun) = (0, false);
    let mut piece = vec![0; PIECE_BYTES];
    let mut line_start = true;
    loop {
        let read = file.read_at(&mut piece, at)?;
        let bytes = piece.get(..read).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_over = values.is_whole() || values.is_broken();
            if line_start && (is_over || (begun && line.starts_with(apart.begins.as_bytes()))) {
                torn += usize::from(begun && !values.is_whole());
                (values, begun) = (Values::new(apart.paths).from(at, 0), false);
            }
            begun |= line.iter().any(|byte| !byte.is_ascii_whitespace());
            values.push(line, |found| {
                let text = found
                    .bytes
                    .and_then(|bytes| std::str::from_utf8(bytes).ok());
                match text
                    .and_then(|text| Some(((apart.of)(text)?, StepHead::print_of(text.as_bytes()))))
                {
                    Some((part, _)) if runs.len() >= most && !runs.contains_key(&part.run) => {
                        beyond += 1
                    }
                    Some((part, print)) => {
                        let (values, shown) = runs.entry(part.run).or_default();
                        values.push((part.order, found.span, print));
                        *shown |= part.shown;
                    }
                    None => left_out += usize::from(!text.is_some_and(apart.is_other)),
                }
            });
            at += line.len() as u64;
            line_start = line.ends_with(b"\n");
        }
    }
    torn += usize::from(begun && !values.is_whole());
    let faults = [
        (torn, format!("incomplete documents in the file: {torn}")),
        (
            left_out,
            format!("values that belong to no run: {left_out}"),
        ),
        (
            beyond,
            format!(
                "the file contains more than {most} runs (skipped values of other runs: {beyond})"
            ),
        ),
    ];
    let faults = faults.into_iter().filter(|(count, _)| *count > 0);
    let faults: Vec<String> = faults.map(|(_, fault)| fault).collect();
    let fault = (!faults.is_empty()).then(|| faults.join("; "));
    let runs = runs
        .into_iter()
        .filter(|(_, (_, shown))| *shown)
        .map(|(run, (mut values, _))| {
            values.sort_by_key(|(order, span, _)| (*order, span.offset));
            (
                run.into(),
                Pieces::of(values.into_iter().map(|(_, span, print)| (span, print))),
            )
        });
    Ok((runs.collect(), fault))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::format::Belongs;

    const APART: Apart = Apart {
        paths: &[&["all", "*"]],
        begins: "{\"all\"",
        of: |text| {
            let (run, order) = text.trim_matches('"').split_once(' ')?;
            Some(Belongs {
                run: run.to_owned(),
                order: order.parse().ok()?,
                shown: run != "hidden",
            })
        },
        is_other: |_| false,
    };

    fn listed(text: &str) -> (Vec<(String, String)>, Option<String>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let (runs, fault) = list(&file, &APART, 100).unwrap();
        let told = runs.iter().map(|(name, pieces)| {
            let mut all = String::new();
            let whole = Span {
                offset: 0,
                len: pieces.len(),
            };
            pieces
                .read(file.try_clone().unwrap(), whole)
                .read_to_string(&mut all)
                .unwrap();
            for from in 0..all.len() {
                let mut rest = String::new();
                let span = Span {
                    offset: from as u64,
                    len: pieces.len() - from as u64,
                };
                pieces
                    .read(file.try_clone().unwrap(), span)
                    .read_to_string(&mut rest)
                    .unwrap();
                assert_eq!(rest, all[from..]);
            }
            (name.to_string(), all)
        });
        (told.collect(), fault)
    }

    #[test]
    fn values_of_a_run_are_one_list_in_their_order() {
        let text = "{\"all\": [\"a 2\", \"b 1\"]}\n\n{\"all\": [\"hidden 1\", \"a 1\"]}\n";
        let both = vec![
            ("a".to_owned(), "[\"a 1\",\n\"a 2\"]".to_owned()),
            ("b".to_owned(), "[\"b 1\"]".to_owned()),
        ];
        assert_eq!(listed(text), (both.clone(), None));
        let one = "{\n  \"all\": [\n    \"a 2\",\n    \"b 1\",\n    \"a 1\"\n  ]\n}";
        assert_eq!(listed(one), (both, None), "one document over many lines");
    }

    #[test]
    fn the_stamp_of_a_run_depends_only_on_its_values() {
        let stamp = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            list(&file, &APART, 100).unwrap().0["a"].stamp()
        };
        let first = stamp("{\"all\": [\"a 1\"]}\n");
        assert_eq!(
            first,
            stamp("{\"all\": [\"a 1\"]}\n{\"all\": [\"b 1\"]}\n"),
            "another run was added"
        );
        assert_ne!(
            first,
            stamp("{\"all\": [\"a 2\"]}\n"),
            "a different value at the same position"
        );
    }

    #[test]
    fn a_torn_document_loses_only_its_line() {
        let a = vec![("a".to_owned(), "[\"a 1\"]".to_owned())];
        for torn in [
            "{\"all\": [\"b",
            "{\"all\": [",
            "no JSON",
            "{\"all\": [\"odd\"",
            "{",
        ] {
            let (runs, fault) = listed(&format!("{torn}\n{{\"all\": [\"a 1\"]}}\n"));
            assert!(runs == a && fault.is_some(), "{torn}: {runs:?}");
            let (runs, fault) = listed(&format!("{{\"all\": [\"a 1\"]}}\n{torn}"));
            assert!(runs == a && fault.is_some(), "{torn}: {runs:?}");
        }
        assert_eq!(listed(""), (vec![], None));
    }
}
