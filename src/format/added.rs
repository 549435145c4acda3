//! Separates the words of the user from the texts that programs add to the user's messages: reminders
//! for the model, and what is open or selected in an editor.

use crate::model::Format;

/// The tags around such texts. Claude Code and Droid write reminders, and Claude Code's extensions
/// for editors write the others.
const TAGS: [[&str; 2]; 3] = [
    ["<system-reminder>", "</system-reminder>"],
    ["<ide_opened_file>", "</ide_opened_file>"],
    ["<ide_selection>", "</ide_selection>"],
];

/// Returns the user's words in a text of the user's.
pub(crate) type OwnWords = fn(&str) -> &str;

/// Returns how to find the user's words in runs of a format: [`own_words`] if its program adds texts.
pub(crate) fn own_words_of(format: &Format) -> OwnWords {
    match format.adds_to_prompts {
        true => own_words,
        false => |words| words,
    }
}

/// Returns a text without what a program added at its beginning and its end. The result is empty if
/// a program wrote all of it. Tags within the user's words stay.
pub(crate) fn own_words(text: &str) -> &str {
    let mut words = text;
    while let Some(rest) = TAGS.iter().find_map(|[open, close]| {
        let inside = words.trim_start().strip_prefix(open)?;
        Some(inside.split_once(close)?.1.trim_start())
    }) {
        words = rest;
    }
    while let Some(rest) = TAGS.iter().find_map(|[open, close]| {
        let inside = words.trim_end().strip_suffix(close)?;
        Some(inside.rsplit_once(open)?.0.trim_end())
    }) {
        words = rest;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_around_the_words_of_the_user_are_removed() {
        let reminder = "<system-reminder>\nToday is Friday.\n</system-reminder>";
        let file = "<ide_opened_file>a.rs is open.</ide_opened_file>";
        assert_eq!(own_words(reminder), "");
        assert_eq!(own_words(&format!("\n{reminder}\n{file} {reminder}\n")), "");
        assert_eq!(own_words(&format!("{file}\n\nFix it.")), "Fix it.");
        assert_eq!(own_words(&format!("Fix it.\n{reminder}\n")), "Fix it.");
        let both = format!("{reminder}\nWhy {reminder} here?\n{reminder}{file}");
        assert_eq!(own_words(&both), format!("Why {reminder} here?"));
        for kept in [
            " Fix it. ",
            "<system-reminder>what does that mean?",
            "what is </system-reminder>",
            "<div>Fix it.</div>",
            "",
        ] {
            assert_eq!(own_words(kept), kept);
        }
    }
}
