//! Reads lines of bounded length from a stream. Doesn't interpret them.

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

const BUFFER: usize = 64 << 10;

/// A line was longer than the limit. Its bytes are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Splits a stream at line feeds.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    /// `None` after the end or an error, so that reading stops there.
    input: Option<BufReader<R>>,
    max: usize,
    line: Vec<u8>,
    /// The current line was too long; the rest of it is dropped.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Accepts lines of at most `max` bytes.
    pub(crate) fn new(input: R, max: usize) -> Self {
        Self {
            input: Some(BufReader::with_capacity(BUFFER, input)),
            max,
            line: Vec::new(),
            skipping: false,
        }
    }

    /// Returns the next line that isn't blank, or `None` at the end of the stream. The last line needs no line feed.
    /// After the end or an error, it reads no more and always returns `None`. Reports a line that is too long as soon as it
    /// passes the limit.
    ///
    /// Cancel safe: a call that is dropped loses no bytes.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        loop {
            let input = self.input.as_mut()?;
            let bytes = match input.fill_buf().await {
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!("can't read the next line: {error}");
                    self.input = None;
                    return None;
                }
            };
            let is_end = bytes.is_empty();
            let feed = memchr::memchr(b'\n', bytes);
            let part = bytes.get(..feed.unwrap_or(bytes.len())).unwrap_or_default();
            let used = part.len() + usize::from(feed.is_some());
            let was_skipping = self.skipping;
            let fits = !was_skipping && self.line.len() + part.len() <= self.max;
            if fits {
                self.line.extend_from_slice(part);
            } else {
                self.line = Vec::new();
                self.skipping = feed.is_none();
            }
            input.consume(used);
            if is_end {
                self.input = None;
            }
            if !fits && !was_skipping {
                return Some(Err(TooLong));
            }
            if feed.is_some() || is_end {
                let line = std::mem::take(&mut self.line);
                if !line.trim_ascii().is_empty() {
                    return Some(Ok(line));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    use super::*;

    /// Text that arrives in pieces of at most `size` bytes.
    struct Pieces<'a> {
        text: &'a [u8],
        size: usize,
    }

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let len = self.size.min(self.text.len()).min(buffer.remaining());
            let (piece, rest) = self.text.split_at(len);
            buffer.put_slice(piece);
            self.text = rest;
            Poll::Ready(Ok(()))
        }
    }

    fn lines(text: &[u8], size: usize, max: usize) -> Vec<Result<Vec<u8>, TooLong>> {
        let mut lines = Lines::new(Pieces { text, size }, max);
        let mut found = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            while let Some(line) = lines.next().await {
                found.push(line);
            }
        });
        found
    }

    #[test]
    fn lines_end_at_line_feeds_and_long_ones_are_dropped() {
        let found = lines(b"{}\r\n\n  \n0123456789\nabc\nlast", 3, 8);
        assert_eq!(
            found,
            [
                Ok(b"{}\r".to_vec()),
                Err(TooLong),
                Ok(b"abc".to_vec()),
                Ok(b"last".to_vec())
            ]
        );
        assert_eq!(lines(b"0123456789", 4, 8), [Err(TooLong)]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_reported_at_once_and_not_kept() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 1 << 20);
        assert_eq!(lines.next().await, Some(Err(TooLong)));
        assert_eq!(lines.line.capacity(), 0);
    }

    /// The results of reading. An empty text is the end, `None` an error.
    struct Parts(Vec<Option<&'static str>>);

    impl AsyncRead for Parts {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            assert!(!self.0.is_empty(), "read after the end");
            let part = self.0.remove(0);
            Poll::Ready(match part {
                Some(part) => {
                    buffer.put_slice(part.as_bytes());
                    Ok(())
                }
                None => Err(io::Error::other("broken")),
            })
        }
    }

    #[tokio::test]
    async fn nothing_is_read_after_the_end_or_an_error() {
        for parts in [
            vec![Some("a\n"), Some("")],
            vec![Some("a"), Some("")],
            vec![Some("a\nb"), None],
        ] {
            let mut lines = Lines::new(Parts(parts), 8);
            assert_eq!(lines.next().await, Some(Ok(b"a".to_vec())));
            assert_eq!(lines.next().await, None);
            assert_eq!(lines.next().await, None);
        }
    }

    proptest! {
        #[test]
        fn lines_are_the_same_in_pieces_of_any_size(text in "[a-c\n\r ]{0,60}", size in 1_usize..20, max in 1_usize..12) {
            prop_assert_eq!(lines(text.as_bytes(), size, max), lines(text.as_bytes(), usize::MAX, max));
        }
    }
}
