//! Warnings of commands.

use std::io::{self, Write};

use super::terminal::TerminalFilter;

/// Prints a warning to stderr.
pub(super) fn warn(text: &str) {
    // If stderr is closed, there's no other place for it.
    let _ = writeln!(
        TerminalFilter::new(io::stderr(), &io::stderr()),
        "board: warning: {text}"
    );
}
