//! Extracts the address that a page polls.

/// Returns the address that the pulse element of `page` requests.
pub(crate) fn pulse_of(page: &str) -> String {
    let pulse = page
        .split("id=\"pulse\"")
        .nth(1)
        .expect("the page has a pulse");
    let url = pulse
        .split("hx-get=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("the pulse has an address");
    url.replace("&#38;", "&").replace("&amp;", "&")
}
