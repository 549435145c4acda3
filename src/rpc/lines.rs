//! Where does a message end? At the line feed; a line that is too long is let go of, and said.

/// A line that is too long was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts bytes into lines as they come.
#[derive(Debug)]
pub(crate) struct Lines {
    begun: Vec<u8>,
    max: usize,
    /// What is read belongs to a line that is too long.
    skips: bool,
}

impl Lines {
    /// Takes lines of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            begun: Vec::new(),
            max,
            skips: false,
        }
    }

    /// Hands each line that `bytes` bring to an end to `take`; empty ones are none.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(Result<Vec<u8>, TooLong>),
    ) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(at);
            self.keep(line);
            bytes = rest.get(1..).unwrap_or_default();
            if let Some(line) = self.end() {
                take(line);
            }
        }
        self.keep(bytes);
    }

    /// The last line, where no line feed ended it.
    pub(crate) fn end(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        let mut line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.skips) {
            return Some(Err(TooLong));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        (!line.trim_ascii().is_empty()).then_some(Ok(line))
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.skips {
            return;
        }
        if self.begun.len() + bytes.len() > self.max {
            self.skips = true;
            self.begun = Vec::new();
            return;
        }
        self.begun.extend_from_slice(bytes);
    }
}
