//! Writes tables as text, in columns as wide as their widest cell on a terminal. Must not know what
//! the cells mean.

use std::iter;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// The width of each column, and whether its cells are aligned right.
    columns: Vec<(usize, bool)>,
}

impl Columns {
    /// Makes columns with these widths.
    pub(super) fn new(widths: Vec<usize>, is_right: impl Fn(usize) -> bool) -> Self {
        let columns = widths.into_iter().enumerate();
        Self {
            columns: columns.map(|(at, width)| (width, is_right(at))).collect(),
        }
    }

    /// Returns columns wide enough for `lines`, which may include the headings.
    pub(super) fn of<L>(
        lines: impl IntoIterator<Item = L>,
        is_right: impl Fn(usize) -> bool,
    ) -> Self
    where
        L: IntoIterator<Item: AsRef<str>>,
    {
        Self::new(widths(lines), is_right)
    }

    /// Pads the cells of a line. The last column isn't padded on its right.
    pub(super) fn cells<S: AsRef<str>>(&self, cells: impl IntoIterator<Item = S>) -> Vec<String> {
        let pad = |(at, (cell, (width, is_right))): (usize, (S, &(usize, bool)))| match !is_right
            && at + 1 == self.columns.len()
        {
            true => cell.as_ref().to_owned(),
            false => padded(cell.as_ref(), *width, *is_right),
        };
        let cells = cells.into_iter().zip(&self.columns).enumerate();
        cells.map(pad).collect()
    }

    /// Returns a line of the table. Columns without any text are left out.
    pub(super) fn line<S: AsRef<str>>(&self, cells: impl IntoIterator<Item = S>) -> String {
        let cells = self.cells(cells).into_iter().zip(&self.columns);
        let cells = cells.filter(|(_, (width, _))| *width > 0);
        let cells: Vec<String> = cells.map(|(cell, _)| cell).collect();
        cells.join("  ").trim_end().to_owned()
    }
}

/// Returns the width of each column that `lines` need.
pub(super) fn widths<L>(lines: impl IntoIterator<Item = L>) -> Vec<usize>
where
    L: IntoIterator<Item: AsRef<str>>,
{
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        for (at, cell) in line.into_iter().enumerate() {
            let own = width(cell.as_ref());
            match widths.get_mut(at) {
                Some(width) => *width = own.max(*width),
                None => widths.push(own),
            }
        }
    }
    widths
}

/// Returns how many columns of a terminal a text takes. East Asian characters and emoji take two.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Adds spaces to a text until it's `to` columns wide.
pub(super) fn padded(text: &str, to: usize, is_right: bool) -> String {
    let spaces = " ".repeat(to.saturating_sub(width(text)));
    if is_right {
        format!("{spaces}{text}")
    } else {
        format!("{text}{spaces}")
    }
}

/// Shortens a text that is wider than `max` columns at its end, with an ellipsis.
pub(super) fn cut_end(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let len = fitting(pieces(text), max.saturating_sub(1));
    format!("{}…", text.get(..len).unwrap_or_default())
}

/// Shortens a text that is wider than `max` columns at its start, with an ellipsis.
pub(super) fn cut_start(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let pieces: Vec<&str> = pieces(text).collect();
    let len = fitting(pieces.into_iter().rev(), max.saturating_sub(1));
    format!("…{}", text.get(text.len() - len..).unwrap_or_default())
}

/// Returns how many bytes the first pieces have that fit `room` columns together.
fn fitting<'t>(pieces: impl Iterator<Item = &'t str>, mut room: usize) -> usize {
    let mut fits = |piece: &&str| match room.checked_sub(width(piece)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    pieces.take_while(|piece| fits(piece)).map(str::len).sum()
}

/// Splits a text into characters. Accents and other characters without a width stay with the one
/// before them.
fn pieces(mut rest: &str) -> impl Iterator<Item = &str> {
    iter::from_fn(move || {
        let mut next = rest.char_indices().skip(1);
        let end = next
            .find(|(_, c)| c.width() != Some(0))
            .map_or(rest.len(), |(at, _)| at);
        let (piece, left) = rest.split_at_checked(end)?;
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [
            ["Name", "", "Runs", "Note"],
            ["日本語", "", "7", "a"],
            ["é👍", "", "1,000", ""],
        ];
        let columns = Columns::of(lines, |at| at == 2);
        assert_eq!(
            lines.map(|line| columns.line(line)),
            ["Name     Runs  Note", "日本語      7  a", "é👍     1,000",]
        );
        let cells = columns.cells(["x", "", "1", "last"]);
        assert_eq!(cells, ["x     ", "", "    1", "last"]);
        assert_eq!(
            Columns::new(vec![1, 3], |_| true).line(["wide", "1"]),
            "wide    1"
        );
    }

    #[test]
    fn a_text_is_cut_to_the_columns_that_it_takes() {
        for (text, max, end, start) in [
            ("abcdef", 6, "abcdef", "abcdef"),
            ("abcdef", 4, "abc…", "…def"),
            ("abcdef", 1, "…", "…"),
            ("日本語", 6, "日本語", "日本語"),
            ("日本語", 5, "日本…", "…本語"),
            // Half of a character has no room.
            ("日本語", 4, "日…", "…語"),
            // An accent stays with its letter.
            (
                "e\u{301}e\u{301}e\u{301}",
                3,
                "e\u{301}e\u{301}e\u{301}",
                "e\u{301}e\u{301}e\u{301}",
            ),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…", "…e\u{301}"),
            ("❤\u{fe0f}❤\u{fe0f}", 3, "❤\u{fe0f}…", "…❤\u{fe0f}"),
            ("", 0, "", ""),
        ] {
            assert_eq!(cut_end(text, max), end, "{text} {max}");
            assert_eq!(cut_start(text, max), start, "{text} {max}");
            assert!(width(&cut_end(text, max)) <= max && width(&cut_start(text, max)) <= max);
        }
    }
}
