//! What does a page look like that cannot show what was asked for? It names the thing and leads on.
//!
//! Knows no HTTP beyond the number it prints.

use askama::Template;

use crate::page::shell::{Pulse, Shell};

/// The page for a missing run, a wrong address, an unreadable file, a fault of ours.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "error/page.html")]
pub(crate) struct ErrorPage {
    /// What is around it.
    pub shell: Shell,
    /// Fetches the run once it appears, where `shell.stream` is given: the address answers 204 until then, and
    /// afterwards 200 with the header `HX-Refresh: true`, which loads this address anew.
    pub pulse: Option<Pulse>,
    /// The status of the answer: 404.
    pub status: u16,
    /// What happened, up to the name of the thing: `There is no run called`.
    pub title: String,
    /// The thing itself, as asked for: `q060_critic_retri`.
    pub thing: Option<String>,
    /// One or two sentences more.
    pub detail: String,
    /// Advice, one sentence each.
    pub hints: Vec<String>,
    /// Whether it asks for the board's token.
    pub asks_token: bool,
    /// Things that are there and have a similar name.
    pub close: Vec<CloseName>,
    /// Ways on; the first is the main one. Never empty.
    pub links: Vec<Link>,
    /// The id under which the log has more, for faults of ours.
    pub incident: Option<String>,
}

/// A thing with a similar name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloseName {
    /// Its name.
    pub name: String,
    /// Its page.
    pub href: String,
    /// What it is: `answered, 6 steps, 5 min ago`.
    pub note: String,
}

/// A place to go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The words on it.
    pub text: String,
    /// The address.
    pub href: String,
}
