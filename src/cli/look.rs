//! Controls how output looks: colors on a terminal, and the clock and time zone for displayed
//! times.

use std::io::IsTerminal;

use clap::builder::styling::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::analysis::run_result::ShownStatus;
use crate::analysis::summary::Summary;

/// The context that output depends on, apart from its content.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whether to use colors.
    pub colour: bool,
    /// The current time, in microseconds since the epoch.
    pub now: i64,
    /// The reader's time zone.
    pub zone: TimeZone,
    /// The width of the terminal in characters. `None` if the output isn't a terminal, so that no line
    /// is cut.
    pub width: Option<usize>,
}

/// The role of a piece of output, shown as a color. The text conveys the same without colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Heading,
    Dim,
    Good,
    Bad,
    Warning,
    Live,
}

impl Look {
    /// Returns the look for current output to stdout.
    pub fn of_stdout() -> Self {
        let (now, zone) = (Timestamp::now().as_microsecond(), TimeZone::system());
        Self {
            colour: colours(&std::io::stdout()),
            now,
            zone,
            width: rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()
                .map(|size| usize::from(size.ws_col))
                .filter(|width| *width > 0),
        }
    }

    /// Colors `text`. Pad before calling this, since the escape codes count as characters.
    pub(super) fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let style = match ink {
            Ink::Heading => Style::new().bold(),
            Ink::Dim => Style::new().dimmed(),
            Ink::Good => AnsiColor::Green.on_default(),
            Ink::Bad => AnsiColor::Red.on_default(),
            Ink::Warning => AnsiColor::Yellow.on_default(),
            Ink::Live => AnsiColor::Cyan.on_default(),
        };
        format!("{style}{text}{style:#}")
    }
}

/// Returns the ink for a run's status. Green and red are for what is recorded.
pub(super) fn ink_of(run: &Summary) -> Ink {
    use ShownStatus as S;
    match run.shown_status() {
        S::Finished if !run.verdict.contradictions.is_empty() => Ink::Warning,
        S::Succeeded => Ink::Good,
        S::Error | S::Died | S::Unsolved => Ink::Bad,
        S::Limit | S::Critic | S::Stalled => Ink::Warning,
        S::Running | S::Quiet => Ink::Live,
        S::Finished | S::Stopped | S::Cancelled | S::Unknown => Ink::Dim,
    }
}

/// Returns whether to color output to `stream`: it's a capable terminal and `NO_COLOR` isn't set
/// (<https://no-color.org>).
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    stream.is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
