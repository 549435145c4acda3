//! What stands on the page that asks other rules about a run? The form as typed, and a row for each rule.

pub(crate) mod form;
#[cfg(test)]
mod tests;

use crate::analysis::whatif::{Typed, answers, near, question, typed};
use crate::page::lens::Lens;
use crate::page::whatif::WhatIfBody;
use crate::page::whatif::answer::RulesAnswer;

/// The form and the answer to its rules; without rules, to those near the record. The step that is read in other tabs
/// stays in the addresses.
///
/// # Errors
/// Sound rules could not be asked together, which is a fault of ours.
pub(crate) fn whatif<'a>(
    lens: &'a Lens<'a>,
    rules: Option<Vec<String>>,
    step: Option<usize>,
) -> Result<WhatIfBody<'a>, String> {
    let suggested = rules.is_none();
    let typed = typed_rules(lens, rules);
    let question = question(&typed)
        .map_err(|error| error.to_string())?
        .suggested(suggested);
    let answers = answers(&question, lens.summary, lens.index, lens.lines);
    Ok(WhatIfBody {
        form: form::form(lens, &typed, suggested, step),
        answer: RulesAnswer { lens, answers },
    })
}

/// Reads rules as they come over HTTP, where no file is read; without any, those near the record.
pub(crate) fn typed_rules(lens: &Lens<'_>, rules: Option<Vec<String>>) -> Vec<Typed> {
    let near = || {
        near(lens.summary, lens.index)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    typed(rules.unwrap_or_else(near), |file| {
        Err(format!(
            "a schema is not read from a file here, so {file:?} has to stand in the rule itself, as JSON"
        ))
    })
}
