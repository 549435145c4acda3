//! Turns requests into pages and JSON. Each page has a file or a folder with its values, its template
//! struct, its handler and its JSON.
//!
//! Gets runs from `live` and their meaning from `analysis`. It opens no files and accepts no
//! connections. Every page and fragment is a struct with a template in `templates/`, and templates
//! only loop, branch and print. [`part::href`] builds every address. The template engine escapes
//! all text; only structs of this module count as markup.

pub(crate) mod answer;
pub(crate) mod app;
pub(crate) mod assets;
mod blocking;
pub(crate) mod compare;
pub(crate) mod download;
pub(crate) mod edits;
pub(crate) mod error;
pub(crate) mod error_page;
pub(crate) mod experiment;
pub(crate) mod export;
pub(crate) mod extract;
pub(crate) mod failures;
pub(crate) mod jobs;
pub(crate) mod jump;
pub(crate) mod keys;
pub(crate) mod overview;
pub(crate) mod params;
pub(crate) mod part;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod run_view;
pub(crate) mod runs;
pub(crate) mod scores;
pub(crate) mod search;
pub(crate) mod shell;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod sweep;
pub(crate) mod turns;
pub(crate) mod usage;
pub(crate) mod whatif;

#[cfg(test)]
mod tests;
