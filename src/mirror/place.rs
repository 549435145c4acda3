//! Turns the key of an object into a path below the cache directory.
//!
//! Keys are arbitrary text. A key with a part that isn't a plain file name gets no path, so no path leads out of the
//! directory.

use std::path::{Path, PathBuf};

/// The longest name that file systems accept.
const MAX_NAME_BYTES: usize = 255;

/// Returns the path of an object relative to the cache directory.
pub(super) fn place(key: &str) -> Result<PathBuf, &'static str> {
    let mut path = PathBuf::new();
    for part in key.split('/') {
        path.push(name(part)?);
    }
    Ok(path)
}

fn name(part: &str) -> Result<&str, &'static str> {
    let wrong = match part {
        "" => "a part of its name is empty",
        "." | ".." => "its name would lead outside the cache",
        _ if part.chars().any(char::is_control) => "control characters in its name",
        _ if part.len() > MAX_NAME_BYTES => "a part of its name is longer than 255 bytes",
        _ if cfg!(windows) && !fits_windows(part) => "its name isn't valid on Windows",
        // Would be a different path, here or on another system.
        _ if Path::new(part).components().count() != 1 || part.contains('\\') => {
            "its name would lead outside the cache"
        }
        _ => return Ok(part),
    };
    Err(wrong)
}

fn fits_windows(part: &str) -> bool {
    let stem = part
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_ascii_uppercase();
    let numbered = |device: &str| {
        stem.strip_prefix(device)
            .is_some_and(|rest| rest.chars().count() == 1)
    };
    let is_device =
        matches!(&*stem, "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT");
    !is_device && !part.contains(['<', '>', ':', '"', '|', '?', '*']) && !part.ends_with(['.', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_keys_have_no_place() {
        for key in [
            "",
            "/",
            "/etc/passwd",
            "a//b",
            "a/",
            "..",
            "../x",
            "a/../../x",
            "a/./b",
            "a\0b",
            "a\nb",
            "a\u{7f}",
            "a\u{85}b",
            "a\\..\\..\\b",
        ] {
            assert!(place(key).is_err(), "{key:?}");
        }
        assert!(place(&"x".repeat(256)).is_err());
        assert!(place(&format!("{}/a", "x".repeat(255))).is_ok());
        assert_eq!(
            place("a b/ü…/.hidden.jsonl").unwrap(),
            Path::new("a b/ü…/.hidden.jsonl")
        );
        for name in ["con", "NUL.txt", "com1.jsonl", "a:b", "a.", "a "] {
            assert!(!fits_windows(name), "{name}");
        }
        assert!(fits_windows("console.jsonl") && fits_windows("a b"));
    }

    proptest! {
        #[test]
        fn a_place_is_below(key in "(\\.|/|\\\\|[a-c]|:|~|\u{0}|\n|ü){0,12}") {
            if let Ok(path) = place(&key) {
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(path.to_str(), Some(&*key));
            }
        }
    }
}
