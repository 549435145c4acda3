//! What stands on a page? The parts that a selector names, in their order.

use scraper::{Html, Selector};

use crate::board::Board;

/// The page at this path, which must be there.
pub(crate) fn page(board: &Board, path: &str) -> Html {
    let response = board.get(path);
    assert_eq!(response.status, 200, "{path}");
    Html::parse_document(response.text())
}

/// The texts of all elements that match, without the space around each.
pub(crate) fn texts(page: &Html, what: &str) -> Vec<String> {
    page.select(&selector(what))
        .map(|element| element.text().collect::<String>().trim().to_owned())
        .collect()
}

/// What the elements that match and have the attribute say in it.
pub(crate) fn attributes(page: &Html, what: &str, name: &str) -> Vec<String> {
    page.select(&selector(what))
        .filter_map(|element| element.attr(name))
        .map(str::to_owned)
        .collect()
}

/// What the first element that matches says in an attribute, or nothing; the element must be there.
pub(crate) fn attribute(page: &Html, what: &str, name: &str) -> String {
    let found = page
        .select(&selector(what))
        .next()
        .unwrap_or_else(|| panic!("nothing matches {what}"));
    found.attr(name).unwrap_or_default().to_owned()
}

/// Where the links that match lead.
pub(crate) fn hrefs(page: &Html, what: &str) -> Vec<String> {
    attributes(page, what, "href")
}

/// A selector that must be one.
pub(crate) fn selector(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
