//! Explains a filter by a status that doesn't exist.

use crate::analysis::query::{Query, Test};
use crate::analysis::run_result::ShownStatus;
use crate::analysis::run_status::RunStatus;

/// Explains a term on the status whose words are no status. Such a term matches a run only if a
/// manifest has one of them.
pub(crate) fn no_such_status(query: &Query) -> Option<String> {
    let shown = ShownStatus::ALL.map(|status| status.as_str().replace(' ', "_"));
    let is_status = |word: &str| {
        let spaced = ShownStatus::ALL.map(ShownStatus::as_str);
        let own = RunStatus::ALL.map(RunStatus::word);
        let names = shown.iter().map(String::as_str);
        // The last two are words of earlier versions.
        names
            .chain(spaced)
            .chain(own)
            .chain(["own rule", "own_rule"])
            .any(|name| name == word)
    };
    query
        .terms
        .iter()
        .filter(|term| !term.negated)
        .find_map(|term| {
            let Test::Word { field, any, .. } = &term.test else {
                return None;
            };
            let words: Vec<String> = any.iter().map(|word| word.text().to_lowercase()).collect();
            if field.name != "status" || words.iter().any(|word| is_status(word)) {
                return None;
            }
            Some(format!(
                "There is no status {}. Statuses: {}.",
                words.join(" or "),
                shown.join(", ")
            ))
        })
}
