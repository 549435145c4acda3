//! Extracts parts of pages by CSS selector, in document order.

use scraper::{Html, Selector};

use crate::board::Board;

/// Fetches and parses the page at `path`, which must answer 200.
pub(crate) fn page(board: &Board, path: &str) -> Html {
    let response = board.get(path);
    assert_eq!(response.status, 200, "{path}");
    Html::parse_document(response.text())
}

/// Returns the trimmed text of each matching element.
pub(crate) fn texts(page: &Html, what: &str) -> Vec<String> {
    page.select(&selector(what))
        .map(|element| element.text().collect::<String>().trim().to_owned())
        .collect()
}

/// Returns the attribute's value for each matching element that has it.
pub(crate) fn attributes(page: &Html, what: &str, name: &str) -> Vec<String> {
    page.select(&selector(what))
        .filter_map(|element| element.attr(name))
        .map(str::to_owned)
        .collect()
}

/// Returns an attribute of the first matching element, or an empty string. An element must match.
pub(crate) fn attribute(page: &Html, what: &str, name: &str) -> String {
    let found = page
        .select(&selector(what))
        .next()
        .unwrap_or_else(|| panic!("nothing matches {what}"));
    found.attr(name).unwrap_or_default().to_owned()
}

/// Returns the targets of matching links.
pub(crate) fn hrefs(page: &Html, what: &str) -> Vec<String> {
    attributes(page, what, "href")
}

/// Parses a selector, which must be valid.
pub(crate) fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
