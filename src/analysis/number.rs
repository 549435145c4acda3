//! Formats numbers in a sentence, with thousands separators and plurals.
//!
//! Must not know units. The caller adds them.

pub(crate) use crate::model::words::grouped;

/// Formats a count and its noun: `1 item`, `2 items`, `2 matches`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", grouped(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_500, "12,500"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(counted(0, "item"), "0 items");
        assert_eq!(counted(1, "item"), "1 item");
        assert_eq!(counted(1200, "item"), "1,200 items");
        assert_eq!(counted(2, "match"), "2 matches");
    }
}
