//! Parses the query parameters of an address.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::page::error::WebError;

/// Limits the rows, steps or events in one response.
const MAX_LIMIT: usize = 10_000;

/// Limits a filter on a page with thousands of links that repeat it; bytes.
const MAX_FILTER: usize = 2_000;

/// The decoded query parameters. If one is repeated, the last value counts, except in
/// [`Params::all`].
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

#[cfg(test)]
impl Params {
    /// Parses `name=value&name=value` without escapes.
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }
}

impl Params {
    /// Returns the value of a parameter, or an empty string if it isn't given.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.pairs()
            .rfind(|(known, _)| *known == name)
            .map_or("", |(_, value)| value)
    }

    /// Whether a parameter is given, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs().any(|(known, _)| known == name)
    }

    /// Returns all parameters in their order, duplicates included.
    pub(crate) fn pairs(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> + Clone {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns all non-empty values of a repeatable parameter, or `None` if it isn't given.
    pub(crate) fn all(&self, name: &str) -> Option<Vec<String>> {
        let given = self
            .pairs()
            .filter(|(known, value)| *known == name && !value.is_empty());
        self.has(name)
            .then(|| given.map(|(_, value)| value.to_owned()).collect())
    }

    /// Returns a filter for a page whose links all repeat it.
    ///
    /// # Errors
    /// Fails if it's longer than [`MAX_FILTER`].
    pub(crate) fn filter(&self, name: &str) -> Result<&str, WebError> {
        let text = self.text(name);
        if text.len() > MAX_FILTER {
            let detail = format!("`{name}` may have at most {MAX_FILTER} bytes on this page.");
            return Err(WebError::bad_request("Filter too long", &detail));
        }
        Ok(text)
    }

    /// Returns the requested number of items, at most [`MAX_LIMIT`].
    ///
    /// # Errors
    /// Fails if the limit is 0 or not a whole number.
    pub(crate) fn limit(&self, default: usize) -> Result<usize, WebError> {
        match self.number("limit")?.unwrap_or(default) {
            0 => Err(
                WebError::bad_request("Invalid limit", "`limit` must be a whole number ≥ 1.")
                    .named("0"),
            ),
            limit => Ok(limit.min(MAX_LIMIT)),
        }
    }

    /// Returns a parameter as a whole number.
    ///
    /// # Errors
    /// Fails if the parameter is given but isn't a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, WebError> {
        let text = self.text(name);
        let wrong = |_| {
            let detail = format!("`{name}` must be a whole number.");
            WebError::bad_request("Invalid number", &detail).named(text)
        };
        if text.is_empty() {
            Ok(None)
        } else {
            text.parse().map(Some).map_err(wrong)
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            percent_encoding::percent_decode_str(&spaced)
                .decode_utf8_lossy()
                .into_owned()
        };
        let pairs = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Ok(Self(
            pairs
                .map(|(name, value)| (decode(name), decode(value)))
                .collect(),
        ))
    }
}
