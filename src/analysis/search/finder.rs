//! Where does a text stand in many bytes? Fast where it is rare, whatever its letters' case.
//!
//! Knows no lines and no JSON. The scarcest byte of the text is looked for with the processor's wide registers, and
//! only where it stands is the rest compared.

/// A text to look for; ASCII letters match in either case, every other byte as it is.
#[derive(Debug, Clone)]
pub(super) struct Finder {
    /// In lower case.
    text: Box<[u8]>,
    /// The scarcest byte and its other case, and where in the text it stands.
    rare: (u8, u8, usize),
}

impl Finder {
    /// `None` for an empty text.
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

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Where the text next stands in `bytes`, from `from` on.
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

/// One of the things that a line is sifted by.
#[derive(Debug, Clone)]
pub(super) enum Sift {
    /// A text.
    Text(Finder),
    /// A character of ASCII that is spelled by its number.
    EscapedAscii(Box<Spelled>),
}

/// Looks for `\u00`.
type Spelled = memchr::memmem::Finder<'static>;

impl Sift {
    pub(super) fn escaped_ascii() -> Self {
        Self::EscapedAscii(Box::new(Spelled::new("\\u00")))
    }

    /// Where it next stands in `bytes`, from `from` on.
    pub(super) fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::Text(finder) => finder.find(bytes, from),
            Self::EscapedAscii(spelled) => {
                let mut at = from;
                loop {
                    at += spelled.find(bytes.get(at..)?)?;
                    // Blank to tilde; control characters and letters with accents are spelled so everywhere.
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

/// How common a byte is in traces, roughly: JSON's own signs and blanks, then English letters by their frequency.
fn commonness(byte: u8) -> usize {
    const COMMON: &[u8] = b"zqxjkvwybgfpmuhdclrsniotae_-.,:0123456789\\\" ";
    // The continuation bytes of one script share their first byte, so what follows is scarcer; both beat any letter.
    match byte {
        0xe0.. => 1,
        0x80.. => 0,
        _ => COMMON
            .iter()
            .position(|common| *common == byte)
            .map_or(2, |place| place + 3),
    }
}
