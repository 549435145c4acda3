//! Shows the run table: the page at `/`, its parts, and the response to its pulse.
//!
//! The templates call methods of the list. A row holds the facts of its run and the columns of the
//! table.

pub(crate) mod api;
pub(crate) mod complete;
pub(crate) mod csv;
pub(crate) mod fill;
pub(crate) mod handler;
pub(crate) mod named;
pub(crate) mod saved;
pub(crate) mod views;
