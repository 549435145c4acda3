//! Assembles the line of a step from its records, up to a bound.

use super::super::{Issue, IssueKind, MAX_LINE_BYTES, Record, Span, StepHead, TraceFile};
use super::Index;

/// Maximum number of records that the line of a step is assembled from. A step of a normal run has a few.
const MAX_RECORDS: usize = 4_096;
/// Maximum number of bytes that these records may have: the same as one line.
const MAX_BYTES: u64 = MAX_LINE_BYTES;

/// How much of a step its line leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unassembled {
    /// How many records the line is assembled from.
    pub read: usize,
    /// How many records the step has.
    pub all: usize,
}

impl Index {
    /// Assembles the line of the step whose first record is at `span`. `read` returns the bytes of
    /// the records at the given spans, in order. Returns `None` if the format writes a line for
    /// each step.
    ///
    /// If the step has more records than the bound, only the first ones are read.
    /// [`Self::unassembled`] counts the others.
    ///
    /// # Errors
    /// Returns the error of `read`, or an error if no step begins at `span` or its records aren't
    /// in the index.
    pub fn assemble(
        &self,
        span: Span,
        read: impl FnOnce(&[Span]) -> Result<Vec<Vec<u8>>, String>,
    ) -> Option<Result<Vec<u8>, String>> {
        let assemble = self.format().assemble?;
        let n = self
            .steps
            .partition_point(|step| step.span.offset < span.offset);
        if self
            .steps
            .get(n)
            .is_none_or(|step| step.span.offset != span.offset)
        {
            return Some(Err("no step starts at this offset anymore".to_owned()));
        }
        if self.step_skips.get(n).is_some()
            || self.parts_of(n).take(MAX_RECORDS).any(|at| at.is_none())
        {
            return Some(Err(
                "its records were skipped because the run has more than board keeps".to_owned(),
            ));
        }
        let places: Vec<Option<Span>> = self.places(n).collect();
        let wanted: Vec<Span> = places.iter().flatten().copied().collect();
        Some(read(&wanted).map(|records| {
            let mut records = records.into_iter();
            // A format may recognize a record by its position, so an empty text replaces a record
            // that is left out.
            let text = |place: &Option<Span>| {
                let bytes = place.and_then(|_| records.next());
                bytes.map_or_else(String::new, |bytes| Record::read(bytes).text.into_owned())
            };
            let texts: Vec<String> = places.iter().map(text).collect();
            assemble(n, &texts).into_bytes()
        }))
    }

    /// Returns how many records of step `ordinal` are left out of its line, if any are.
    pub fn unassembled(&self, ordinal: usize) -> Option<Unassembled> {
        let all = self.steps.get(ordinal)?.parts.len();
        let read = self.places(ordinal).flatten().count();
        (read < all).then_some(Unassembled { read, all })
    }

    /// Returns how many bytes are read for the line of step `ordinal`.
    pub fn line_bytes(&self, ordinal: usize) -> u64 {
        match self.steps.get(ordinal) {
            Some(step) if step.parts.is_empty() => step.span.len,
            _ => self.places(ordinal).flatten().map(|span| span.len).sum(),
        }
    }

    /// Returns the spans of a step's first records, with `None` for each record that is skipped.
    fn places(&self, ordinal: usize) -> impl Iterator<Item = Option<Span>> {
        let mut left = MAX_BYTES;
        self.parts_of(ordinal).take(MAX_RECORDS).map(move |at| {
            let span = self.events.get(at?)?.span;
            // A record that can't be read takes no room from the next ones.
            if span.len > MAX_LINE_BYTES {
                return None;
            }
            let rest = left.checked_sub(span.len);
            // A text may continue in the next record, so nothing after a gap is read.
            left = rest.unwrap_or_default();
            rest.map(|_| span)
        })
    }

    /// Adds an issue when `step` grows from `before` records to more than its line is assembled
    /// from.
    pub(super) fn note_long_step(&mut self, before: usize, step: &StepHead) {
        if before > MAX_RECORDS || step.parts.len() <= MAX_RECORDS {
            return;
        }
        let reason = format!(
            "the step has more than {MAX_RECORDS} records, so only the first {MAX_RECORDS} are read"
        );
        let (line, offset) = (Some(step.line), Some(step.span.offset));
        self.issues.push(Issue {
            kind: IssueKind::TooLong,
            file: TraceFile::Events,
            line,
            offset,
            reason,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, EventHead, Format, Manifest, ManifestState};

    /// A format whose step lines are its records' texts, joined.
    static JOINS: Format = Format {
        name: "joins",
        assemble: Some(|_, records| records.join("|")),
        ..Format::UNKNOWN
    };

    /// An index of one step whose records have these lengths.
    fn index(lens: &[u64]) -> Index {
        let mut offset = 0;
        let place = |len: &u64| {
            let span = Span { offset, len: *len };
            offset += len + 1;
            (
                EventHead {
                    span,
                    ok: true,
                    ts: Some(0),
                    ..EventHead::default()
                },
                None,
            )
        };
        let events: Vec<_> = lens.iter().map(place).collect();
        let parts = (0..lens.len() as u32).collect();
        let step = StepHead {
            parts,
            span: events[0].0.span,
            ..StepHead::default()
        };
        let manifest = ManifestState::Read(Box::new(Manifest {
            format: &JOINS,
            ..Manifest::default()
        }));
        let mut index = Index::default();
        index.apply(Delta {
            steps: vec![step],
            events,
            manifest: Some(manifest),
            ..Delta::default()
        });
        index
    }

    fn places_read(index: &Index) -> Vec<Span> {
        let mut asked = Vec::new();
        let line = index.assemble(index.steps().get(0).unwrap().span, |spans| {
            asked = spans.to_vec();
            Ok(spans.iter().map(|_| b"{}".to_vec()).collect())
        });
        let line = String::from_utf8(line.unwrap().unwrap()).unwrap();
        assert_eq!(line.matches("{}").count(), asked.len());
        asked
    }

    #[test]
    fn a_step_of_very_many_records_is_read_up_to_a_bound_and_says_so() {
        let few = index(&[10; MAX_RECORDS]);
        assert_eq!(
            (places_read(&few).len(), few.unassembled(0)),
            (MAX_RECORDS, None)
        );
        assert_eq!(
            (few.issues().count(IssueKind::TooLong), few.line_bytes(0)),
            (0, 10 * MAX_RECORDS as u64)
        );
        let many = index(&vec![10; 100_000]);
        assert_eq!(places_read(&many).len(), MAX_RECORDS);
        assert_eq!(
            many.unassembled(0),
            Some(Unassembled {
                read: MAX_RECORDS,
                all: 100_000
            })
        );
        assert_eq!(many.issues().count(IssueKind::TooLong), 1);
    }

    #[test]
    fn records_of_more_bytes_than_a_line_are_left_out_and_those_before_them_are_read() {
        let long = index(&[10, MAX_BYTES + 1, 20, MAX_BYTES - 20, 30, 1]);
        assert_eq!(
            places_read(&long)
                .iter()
                .map(|span| span.len)
                .collect::<Vec<_>>(),
            [10, 20]
        );
        assert_eq!(long.unassembled(0), Some(Unassembled { read: 2, all: 6 }));
    }

    #[test]
    fn a_step_that_grows_beyond_the_bound_is_noted_once() {
        let mut index = index(&[10; 10]);
        for records in [MAX_RECORDS, MAX_RECORDS + 1, MAX_RECORDS + 2] {
            let step = StepHead {
                parts: vec![0; records].into(),
                ..index.steps().get(0).unwrap().clone()
            };
            index.apply(Delta {
                touched: vec![(0, step)],
                ..Delta::default()
            });
        }
        assert_eq!(index.issues().count(IssueKind::TooLong), 1);
    }
}
