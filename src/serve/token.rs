//! Holds the secret that protects a board when other machines can reach it.
//!
//! This module must not know about requests. It compares the secret in constant time, and reveals
//! it only through [`Token::reveal`].

use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{Error, Kind, Result};

/// Minimum length. Shorter secrets can be guessed by trying.
const MIN_CHARS: usize = 16;
/// Bytes of randomness in a generated secret.
const MADE_BYTES: usize = 16;

/// The secret that protects a board.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Accepts a secret chosen by a person.
    ///
    /// # Errors
    /// Fails if the secret is short enough to be guessed, or if it contains characters that a URL
    /// would escape. The error doesn't repeat the secret.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let wrong = |why: String| Err(Error::new(Kind::Usage, why));
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-._~".contains(letter);
        match text.chars().count() {
            chars if chars < MIN_CHARS => {
                wrong(format!("the token needs at least {MIN_CHARS} characters, not {chars}: shorter ones can be guessed"))
            }
            _ if !text.chars().all(plain) => {
                wrong("the token may contain only letters, digits and - . _ ~ because URLs and cookies contain it".to_owned())
            }
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// Generates a secret of 128 random bits.
    ///
    /// # Errors
    /// Fails if the system provides no random numbers.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; MADE_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::new(
                Kind::Unreadable,
                format!("the system provides no random numbers: {error}"),
            )
        })?;
        Ok(Self(hex(&bytes)))
    }

    /// Derives another secret, which reveals nothing about this one.
    pub(crate) fn derive(&self, purpose: &str) -> Self {
        let digest = Sha256::new()
            .chain_update(purpose)
            .chain_update([0])
            .chain_update(&self.0)
            .finalize();
        Self(hex(&digest))
    }

    /// Whether `given` is the secret. Takes equally long for all values of the same length.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// Returns the secret itself, to hand to its owner.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Never prints the secret, because debug output ends up in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use crate::serve::token::*;

    #[test]
    fn a_made_token_is_long_new_and_only_itself() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.reveal().len(), 32);
        assert!(
            one.is(one.reveal()) && !one.is(other.reveal()),
            "{} {}",
            one.reveal(),
            other.reveal()
        );
        for wrong in [
            "",
            &one.reveal()[..31],
            &format!("{}0", one.reveal()),
            &one.reveal().to_uppercase().replace('0', "g"),
        ] {
            assert!(!one.is(wrong), "{wrong}");
        }
        assert!(Token::new(one.reveal()).is_ok());
        assert_eq!(format!("{one:?}"), "Token(..)");
    }

    #[test]
    fn a_chosen_token_is_long_and_plain_and_not_repeated_in_the_error() {
        for wrong in [
            "",
            "short-secret",
            "fifteen-letters",
            "sixteen letters!",
            "secret;Path=/evil",
            "geheimnis-geheimnis-ä",
        ] {
            let error = Token::new(wrong).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(
                wrong.is_empty() || !error.to_string().contains(wrong),
                "{error}"
            );
        }
        assert!(Token::new("sixteen.letters~").is_ok());
    }
}
