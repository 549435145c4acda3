//! Fills the what-if page of a run: the form as typed, and a row for each rule.

pub(crate) mod form;
#[cfg(test)]
mod tests;

use crate::analysis::whatif::{Typed, answers, near, rule_set, typed};
use crate::page::run_view::RunView;
use crate::page::whatif::WhatIfBody;
use crate::page::whatif::answer::RulesAnswer;

/// Builds the form and the answer to its rules. Without rules, uses ones near the recorded values.
/// The addresses keep `step`, the step selected in other tabs.
///
/// # Errors
/// Fails if valid rules can't be combined, which is a fault of the board.
pub(crate) fn whatif<'a>(
    view: &'a RunView<'a>,
    rules: Option<Vec<String>>,
    step: Option<usize>,
) -> Result<WhatIfBody<'a>, String> {
    let suggested = rules.is_none();
    let typed = typed_rules(view, rules);
    let rule_set = rule_set(&typed)
        .map_err(|error| error.to_string())?
        .suggested(suggested);
    let answers = answers(&rule_set, view.summary, view.index, view.lines);
    Ok(WhatIfBody {
        form: form::form(view, &typed, suggested, step),
        answer: RulesAnswer { view, answers },
    })
}

/// Parses rules received over HTTP, without reading any files. Without rules, returns ones near the
/// recorded values.
pub(crate) fn typed_rules(view: &RunView<'_>, rules: Option<Vec<String>>) -> Vec<Typed> {
    let near = || {
        near(view.summary, view.index)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    typed(rules.unwrap_or_else(near), |file| {
        Err(format!(
            "schemas can't be read from files here: put the content of {file:?} in the rule itself, as JSON"
        ))
    })
}
