//! Extracts parts of a text: its start, and JSON blocks in an answer.

/// Returns the start of a text, at most `max_bytes` long and cut at a character boundary.
pub(super) fn clip(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes))
        .unwrap_or(text)
}

/// Returns the bodies of the fenced code blocks that may hold JSON: those marked `json` and those
/// without a mark.
pub(super) fn fenced(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Option<(usize, usize, bool)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mark = line.trim();
        let ticks = mark.bytes().take_while(|byte| *byte == b'`').count();
        let info = mark.get(ticks..).unwrap_or_default().trim();
        match open {
            None if ticks >= 3 => {
                let wanted = info.is_empty() || info.eq_ignore_ascii_case("json");
                open = Some((at + line.len(), ticks, wanted));
            }
            Some((start, opened, wanted)) if ticks >= opened && info.is_empty() => {
                found.extend(text.get(start..at).filter(|_| wanted));
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{clip, fenced};

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(clip("aé", 2), "a");
        assert_eq!(clip("aé", 3), "aé");
        assert_eq!(clip("", 5), "");
    }

    #[test]
    fn fences_are_found_with_and_without_a_mark() {
        let text = "see\n```json\n{\"a\": 1}\n```\nand\n```rust\nlet a;\n```\n````\n[\"```\"]\n````\n```json\nopen";
        assert_eq!(fenced(text), ["{\"a\": 1}\n", "[\"```\"]\n"]);
    }
}
