//! Provides values with templates that several pages share: verdict marks, calls, critics, folds,
//! charts, addresses.

pub(crate) mod action;
pub(crate) mod attachment;
pub(crate) mod branch;
pub(crate) mod chart;
pub(crate) mod critic;
pub(crate) mod csv;
pub(crate) mod decision;
pub(crate) mod edit;
pub(crate) mod fold;
pub(crate) mod highlight;
pub(crate) mod href;
pub(crate) mod job;
pub(crate) mod json_tree;
pub(crate) mod markdown;
pub(crate) mod prompt;
pub(crate) mod share_form;
pub(crate) mod sign;
pub(crate) mod state_diff;
pub(crate) mod strip;
pub(crate) mod svg;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod tool;
