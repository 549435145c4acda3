//! How does output look? Colours where a person reads it, and the clock and zone that times are shown by.

use std::io::IsTerminal;

use clap::builder::styling::{AnsiColor, Style};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::analysis::verdict::{RunStatus, Verdict};

/// What output depends on besides its content.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whether to colour.
    pub colour: bool,
    /// The time now; microseconds since the epoch.
    pub now: i64,
    /// The zone of the reader.
    pub zone: TimeZone,
}

/// What a piece of output is, for those who see colours; its words say the same.
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
    /// The look of what goes to stdout now.
    pub fn of_stdout() -> Self {
        let (now, zone) = (Timestamp::now().as_microsecond(), TimeZone::system());
        Self {
            colour: colours(&std::io::stdout()),
            now,
            zone,
        }
    }

    /// `text` in `ink`. Pad before, because the terminal's codes count as characters.
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

/// The ink of a verdict's mark.
pub(super) fn ink_of(verdict: &Verdict) -> Ink {
    match verdict.mark {
        RunStatus::Answered if !verdict.contradictions.is_empty() => Ink::Warning,
        RunStatus::Answered => Ink::Good,
        RunStatus::Error | RunStatus::Died => Ink::Bad,
        RunStatus::Limit | RunStatus::Critic | RunStatus::Stalled => Ink::Warning,
        RunStatus::Running | RunStatus::Quiet => Ink::Live,
        RunStatus::OwnRule | RunStatus::Cancelled | RunStatus::Unknown => Ink::Dim,
    }
}

/// Whether to colour what goes to `stream`: a terminal that can, and no `NO_COLOR` (<https://no-color.org>).
pub fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    stream.is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
