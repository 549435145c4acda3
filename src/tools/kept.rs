//! Keeps the start and the end of output of any length, and counts the bytes between them.

use std::collections::VecDeque;

/// The first and the last bytes of a stream.
#[derive(Debug)]
pub(super) struct KeptOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    seen: u64,
}

impl KeptOutput {
    /// Keeps at most `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Self {
        let head_room = max_bytes / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room,
            tail_room: max_bytes - head_room,
            seen: 0,
        }
    }

    /// Adds the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(head);
        let last = rest
            .get(rest.len().saturating_sub(self.tail_room)..)
            .unwrap_or_default();
        let over = (self.tail.len() + last.len()).saturating_sub(self.tail_room);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    /// Returns the text and the number of bytes removed. If any were, the text says how many. A
    /// character split by the cut is removed, too.
    pub(super) fn text(mut self) -> (String, u64) {
        let tail = self.tail.make_contiguous();
        if self.seen == (self.head.len() + tail.len()) as u64 {
            self.head.extend_from_slice(tail);
            return (String::from_utf8_lossy(&self.head).into_owned(), 0);
        }
        let head = whole_head(&self.head);
        let tail = whole_tail(tail);
        let gone = self.seen - (head.len() + tail.len()) as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        (
            format!("{head}\n[... {gone} bytes omitted ...]\n{tail}"),
            gone,
        )
    }
}

/// Removes an incomplete character from the end.
fn whole_head(bytes: &[u8]) -> &[u8] {
    match bytes.utf8_chunks().last() {
        Some(chunk) => {
            let open = std::str::from_utf8(chunk.invalid())
                .is_err_and(|error| error.error_len().is_none());
            let cut = if open { chunk.invalid().len() } else { 0 };
            bytes.get(..bytes.len() - cut).unwrap_or(bytes)
        }
        None => bytes,
    }
}

/// Removes an incomplete character from the start.
fn whole_tail(bytes: &[u8]) -> &[u8] {
    let cut = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000)
        .count();
    bytes.get(cut..).unwrap_or(bytes)
}
