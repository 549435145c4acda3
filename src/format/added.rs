//! Separates the words of the user from the texts that programs add to the user's messages: reminders
//! for the model, and what is open or selected in an editor.

use super::part::text;
use super::value::{listed, member, spoken};

/// The tags around such texts. Claude Code and Droid write reminders, and Claude Code's extensions
/// for editors write the others.
const TAGS: [[&str; 2]; 3] = [
    ["<system-reminder>", "</system-reminder>"],
    ["<ide_opened_file>", "</ide_opened_file>"],
    ["<ide_selection>", "</ide_selection>"],
];

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

/// Returns the words of the user in a message, whose content is a text or a list of blocks, some of
/// which have a `text`. Joins them by newlines. The result is empty if programs wrote all of them.
pub(super) fn own_words_in(content: Option<&str>) -> String {
    if let Some(words) = text(content) {
        return own_words(&words).to_owned();
    }
    let texts = listed(content).filter_map(|block| text(member(block, "text")));
    let own = texts.filter_map(|text| {
        let words = own_words(&text);
        (!words.is_empty() || text.is_empty()).then(|| words.to_owned())
    });
    own.collect::<Vec<_>>().join("\n")
}

/// Returns whether programs wrote all texts of a message, and nothing else is in it.
pub(super) fn is_added(content: Option<&str>) -> bool {
    let is_text = |block: &str| text(member(block, "type")).is_some_and(|kind| kind == "text");
    !spoken(content).trim().is_empty()
        && own_words_in(content).is_empty()
        && listed(content).all(is_text)
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

    #[test]
    fn a_block_of_a_program_is_not_the_users() {
        let content = r#"[{"type":"text","text":"<system-reminder>a</system-reminder>\n"},
            {"type":"text","text":"Fix it."},{"type":"image"},7,
            {"type":"text","text":"<ide_selection>b</ide_selection>"},{"type":"text","text":"Now."}]"#;
        assert_eq!(own_words_in(Some(content)), "Fix it.\nNow.");
        assert_eq!(own_words_in(Some(r#""Fix it.""#)), "Fix it.");
        assert_eq!(own_words_in(Some("{}")), "");
        assert_eq!(own_words_in(None), "");
        let reminder = r#"{"type":"text","text":"<system-reminder>a</system-reminder>"}"#;
        assert!(is_added(Some(&format!("[{reminder}]"))));
        assert!(!is_added(Some(&format!(
            r#"[{reminder},{{"type":"image"}}]"#
        ))));
        assert!(!is_added(Some(content)));
        assert!(!is_added(Some(r#""""#)));
    }
}
