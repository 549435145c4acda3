//! How does it look? Typed pages and fragments over ready values; no axum, no files.
//!
//! Every page is one struct with a template of the same name in `templates/`. Every address is made by [`href`].

pub mod assets;
pub mod format;
pub mod href;

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
