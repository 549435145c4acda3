//! How does it look? Typed pages and fragments over ready values; no axum, no files.
//!
//! Every page is one struct with a template of the same name in `templates/`. Every address is made by [`href`].

use askama::Template;
use askama::filters::HtmlSafe;

pub mod action;
pub mod assets;
pub mod critic;
pub mod decision;
pub mod fold;
pub mod href;
pub mod json;
pub mod prompt;
pub mod run;
pub mod sign;
pub mod state_diff;
pub mod step;
pub mod svg;
pub mod tabs;
pub mod text;

/// What every page has around its content.
#[derive(Debug, Clone)]
pub struct Shell {
    /// The words of `<title>`, without the product's name.
    pub title: String,
    /// The watched root as the person typed it.
    pub root: String,
    /// The address of the revision stream, on pages that live.
    pub stream: Option<String>,
    /// The revision this page shows.
    pub revision: u64,
    /// The place in the main navigation this page belongs to.
    pub place: Place,
}

/// A place in the main navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The run table itself.
    Runs,
    /// A page of one run, below the run table.
    Run,
    /// None of them, as on an error page.
    None,
}

/// The element that fetches what changed: a revision on the stream makes it ask `url`, and the answer holds the next
/// pulse and one `<hx-partial>` for each part that changed.
///
/// A page includes exactly one. An answer without news is a pulse alone, or status 204.
#[derive(Debug, Clone, Default, Template)]
#[template(path = "parts/pulse.html")]
pub struct Pulse {
    /// Where the next news is; holds the cursor.
    pub url: String,
    /// The revision the page shows with this pulse in it.
    pub revision: u64,
    /// How many things are new since the last pulse; 0 on the page itself.
    pub count: usize,
    /// What they are, in the singular: `step`, `run`.
    pub noun: &'static str,
    /// A sentence for the live region that is not a count: `Run ended: answered at step 5`.
    pub say: Option<String>,
}

impl HtmlSafe for Pulse {}
