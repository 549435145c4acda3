//! Finds a text in bytes, ignoring the case of ASCII letters. Fast if the text is rare.
//!
//! Knows neither lines nor JSON. It searches for the rarest byte of the text with SIMD and
//! compares the rest only at its occurrences.

/// A text to find. ASCII letters match in either case, all other bytes exactly.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    /// The text in lower case.
    text: Box<[u8]>,
    /// The rarest byte, its upper-case form, and its offset in the text.
    rare: (u8, u8, usize),
}

impl Finder {
    /// Returns `None` for an empty text.
    pub(super) fn new(text: &[u8]) -> Option<Self> {
        let text: Box<[u8]> = text.to_ascii_lowercase().into();
        let (at, byte) = text
            .iter()
            .copied()
            .enumerate()
            .min_by_key(|(_, byte)| commonness(*byte))?;
        Some(Self {
            rare: (byte, byte.to_ascii_uppercase(), at),
            text,
        })
    }

    /// Returns the length in bytes.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the offset of the next occurrence in `bytes` at or after `from`.
    pub(super) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let (lower, upper, at) = self.rare;
        let mut rare = from.checked_add(at)?;
        loop {
            rare += memchr::memchr2(lower, upper, bytes.get(rare..)?)?;
            let start = rare - at;
            if bytes
                .get(start..start + self.text.len())?
                .eq_ignore_ascii_case(&self.text)
            {
                return Some(start);
            }
            rare += 1;
        }
    }
}

/// A pattern that preselects lines.
#[derive(Debug, Clone)]
pub(super) enum Sift {
    /// A text.
    Text(Finder),
    /// An ASCII character written as a numeric escape.
    EscapedAscii(Box<Spelled>),
}

/// Searches for `\u00`.
type Spelled = memchr::memmem::Finder<'static>;

impl Sift {
    pub(super) fn escaped_ascii() -> Self {
        Self::EscapedAscii(Box::new(Spelled::new("\\u00")))
    }

    /// Returns the offset of the next occurrence in `bytes` at or after `from`.
    pub(super) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::Text(finder) => finder.find(bytes, from),
            Self::EscapedAscii(spelled) => {
                let mut at = from;
                loop {
                    at += spelled.find(bytes.get(at..)?)?;
                    // Only space to tilde counts. Escapes of control characters and accented
                    // letters are too common.
                    if bytes
                        .get(at + 4)
                        .is_some_and(|digit| matches!(digit, b'2'..=b'7'))
                    {
                        return Some(at);
                    }
                    at += 4;
                }
            }
        }
    }
}

/// Ranks bytes by how common they are in traces, roughly: English letters by frequency, then JSON's
/// own characters and the space as the most common.
fn commonness(byte: u8) -> usize {
    const COMMON: &[u8] = b"zqxjkvwybgfpmuhdclrsniotae_-.,:0123456789\\\" ";
    // Characters of one script share their first byte, so the bytes after it are rarer. Both are
    // rarer than any letter.
    match byte {
        0xe0.. => 1,
        0x80.. => 0,
        _ => COMMON
            .iter()
            .position(|common| *common == byte)
            .map_or(2, |place| place + 3),
    }
}
