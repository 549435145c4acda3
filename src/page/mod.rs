//! What is asked for, and what is shown? One folder a page: its values, its template struct, its handler, its JSON.
//!
//! Asks `live` what there is and `analysis` what it means; opens no file and accepts no connection. Every page and every
//! fragment is one struct with a template in `templates/`; templates loop, branch and print. Every address is made by
//! [`part::href`]. All text is escaped by the template engine; only structs of this room count as markup.

pub(crate) mod app;
pub(crate) mod assets;
mod blocking;
pub(crate) mod compare;
pub(crate) mod download;
pub(crate) mod error;
pub(crate) mod export;
pub(crate) mod extract;
pub(crate) mod jobs;
pub(crate) mod json;
pub(crate) mod jump;
pub(crate) mod keys;
pub(crate) mod lens;
pub(crate) mod part;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod scores;
pub(crate) mod search;
pub(crate) mod shell;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod sweep;
pub(crate) mod turns;
pub(crate) mod whatif;

#[cfg(test)]
mod tests;
