//! Finds the end of the complete lines in a file of a run that is continued. After each line, it
//! knows how much of the file would be kept if the run continued there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::de::IgnoredAny;

use crate::format;
use crate::model::{MAX_LINE_BYTES, Record, Step};

/// Returns the step on a complete line, as every reader parses it.
pub fn step_of<'a>(record: &'a Record<'_>) -> Option<Step<'a>> {
    format::step(record)
}

/// The beginning of a file of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The number of lines.
    pub lines: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Whether the last line lacks its line terminator, although it's a complete JSON object.
    pub is_open: bool,
}

/// The lines of a file from its start, up to a torn one.
#[derive(Debug)]
pub struct WholeLines {
    input: BufReader<File>,
    line: Vec<u8>,
    so_far: Beginning,
    torn: u64,
}

impl WholeLines {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns the I/O error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let input = BufReader::with_capacity(256 << 10, File::open(path)?);
        Ok(Self {
            input,
            line: Vec::new(),
            so_far: Beginning::default(),
            torn: 0,
        })
    }

    /// Returns the next complete line, without its line terminator. Returns `None` at the end, or
    /// if only a torn line is left.
    ///
    /// # Errors
    /// Returns the I/O error, or an error if a line is too long.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let read = self
            .input
            .by_ref()
            .take(MAX_LINE_BYTES + 2)
            .read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|last| *last == b'\n').is_none() {
            if read as u64 > MAX_LINE_BYTES {
                return Err(io::Error::other(format!(
                    "line {} is longer than {MAX_LINE_BYTES} bytes",
                    self.so_far.lines + 1
                )));
            }
            let is_whole =
                serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&self.line).is_ok();
            if !is_whole {
                self.torn = read as u64;
                return Ok(None);
            }
            self.so_far.is_open = true;
        }
        self.so_far.lines += 1;
        self.so_far.bytes += read as u64;
        Ok(Some(&self.line))
    }

    /// Returns the size of what was read so far.
    pub fn so_far(&self) -> Beginning {
        self.so_far
    }

    /// Returns the length of the torn line at the end in bytes, once it was reached.
    pub fn torn(&self) -> u64 {
        self.torn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Beginning, u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps.jsonl");
        std::fs::write(&path, text).unwrap();
        let mut lines = WholeLines::open(&path).unwrap();
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
        (found, lines.so_far(), lines.torn())
    }

    #[test]
    fn a_torn_line_is_left_out_and_a_whole_one_only_lacks_its_end() {
        let beginning = |lines, bytes, is_open| Beginning {
            lines,
            bytes,
            is_open,
        };
        assert_eq!(read("{\"a\":1}\n{\"b\"").1, beginning(1, 8, false));
        assert_eq!(read("{\"a\":1}\n{\"b\"").2, 4);
        let (lines, so_far, torn) = read("{\"a\":1}\n{\"b\":2}");
        assert_eq!((lines.len(), so_far, torn), (2, beginning(2, 15, true), 0));
        assert_eq!(read("").1, Beginning::default());
        // A number isn't a record, even if it's complete.
        assert_eq!(read("{}\n12").2, 2);
    }
}
