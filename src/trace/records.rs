//! Splits lines into records, and reports lines that contain none.

use super::tail::Line;
use crate::format;
use crate::model::issue::Remark;
use crate::model::split::split;
use crate::model::{Issue, IssueKind, MAX_LINE_BYTES, Record, Span, TraceFile};

/// Returns whether a line without its line terminator contains a complete record. An object inside
/// a list or after a colon is part of a record that is still being written.
pub(super) fn is_record(bytes: &[u8]) -> bool {
    Record::whole(bytes).fate.is_readable() || !split(bytes, |_| false).is_empty()
}

fn at(file: TraceFile, line: &Line<'_>, (kind, reason): Remark) -> Issue {
    Issue {
        kind,
        file,
        line: Some(line.number),
        offset: Some(line.span.offset),
        reason,
    }
}

/// Passes a line to `read`. If `read` can't read it, passes each complete record on the line
/// instead.
///
/// `read` returns its remarks. It returns them as an error if it took nothing because the line may
/// contain records. Blank lines are skipped.
pub(super) fn each_record<'a>(
    file: TraceFile,
    line: Line<'a>,
    issues: &mut Vec<Issue>,
    mut read: impl FnMut(&Line<'a>) -> Result<Vec<Remark>, Vec<Remark>>,
) {
    let mut tell = |line: &Line<'_>, remarks: Vec<Remark>| {
        issues.extend(remarks.into_iter().map(|remark| at(file, line, remark)));
    };
    let Some(bytes) = line.bytes else {
        let reason = format!(
            "a line of {} bytes wasn't parsed (the limit is {MAX_LINE_BYTES})",
            line.span.len
        );
        tell(&line, vec![(IssueKind::TooLong, reason)]);
        return take(read(&line), |remarks| tell(&line, remarks));
    };
    // CR before LF comes from editors and foreign writers. It's white space in JSON.
    if bytes.trim_ascii().is_empty() {
        return tell(&line, vec![(IssueKind::Blank, "blank line".to_owned())]);
    }
    if let Ok(remarks) = read(&Line {
        may_hold_records: true,
        ..line
    }) {
        return tell(&line, remarks);
    }
    // A line without its line terminator may still grow around an object that looks like a record.
    let pieces = split(bytes, |text| !line.provisional && format::is_record(text));
    if pieces.is_empty() {
        return take(read(&line), |remarks| tell(&line, remarks));
    }
    let last = pieces.len() - 1;
    for (n, piece) in pieces.into_iter().enumerate() {
        let span = Span {
            offset: line.span.offset + piece.from as u64,
            len: (piece.to - piece.from) as u64,
        };
        // Anything before another record is complete.
        let provisional = line.provisional && n == last;
        let own = Line {
            span,
            bytes: bytes.get(piece.from..piece.to),
            provisional,
            ..line
        };
        tell(&own, piece.remarks);
        take(read(&own), |remarks| tell(&own, remarks));
    }
}

fn take(read: Result<Vec<Remark>, Vec<Remark>>, tell: impl FnOnce(Vec<Remark>)) {
    match read {
        Ok(remarks) | Err(remarks) => tell(remarks),
    }
}
