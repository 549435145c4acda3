//! What does a request name? Typed parts of the address whose absence is an error page, not a parser's words.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::response::Response;

use crate::live::Run;
use crate::page::app::AppState;
use crate::page::blocking::blocking;
use crate::page::error::WebError;
use crate::page::part::href;
use crate::page::runs::handler as pages;

/// The run an address names. Looked up in the library; the key never becomes a path.
#[derive(Debug)]
pub(crate) struct RunParam(pub(crate) Arc<Run>);

/// A part of the path by its name in the route.
async fn part(parts: &mut Parts, state: &AppState, name: &str) -> String {
    match RawPathParams::from_request_parts(parts, state).await {
        Ok(params) => {
            params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).unwrap_or_default()
        }
        // The path is not UTF-8 after decoding: no run has such a key.
        Err(_) => "\u{fffd}".to_owned(),
    }
}

/// Whether the request is for a program rather than a person.
fn is_api(parts: &Parts) -> bool {
    // Nested routers see their own part of the path; the original is kept beside it.
    let original = parts.extensions.get::<axum::extract::OriginalUri>();
    is_api_path(original.map_or(parts.uri.path(), |uri| uri.path()))
}

/// Whether an address is for programs rather than for people.
pub(crate) fn is_api_path(path: &str) -> bool {
    path.strip_prefix("/api").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl FromRequestParts<AppState> for RunParam {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let key = part(parts, state, "key").await;
        match state.library.run(&key) {
            Some(run) => {
                if run.is_parked() {
                    let run = Arc::clone(&run);
                    // A large file takes its time, and handlers ask for the index where nobody may wait.
                    let _ = blocking(move || run.index()).await;
                }
                Ok(Self(run))
            }
            None => Err(pages::no_such_run(state, &key).respond(state, is_api(parts))),
        }
    }
}

/// The ordinal of a step that the run has.
#[derive(Debug)]
pub(crate) struct StepParam(pub(crate) Arc<Run>, pub(crate) usize);

impl FromRequestParts<AppState> for StepParam {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let RunParam(run) = RunParam::from_request_parts(parts, state).await?;
        let text = part(parts, state, "n").await;
        let total = run.index().steps().len();
        let page = href::run(run.key().as_str());
        let api = is_api(parts);
        let error = match text.parse::<usize>() {
            Ok(n) if n < total => return Ok(Self(run, n)),
            Ok(_) => WebError::not_found("This run has no step", &has_steps(total)).named(&text),
            Err(_) => WebError::bad_request("A step is named by its place, counted from 0, not by", &has_steps(total))
                .named(&text),
        };
        Err(error.link("The run", page).respond(state, api))
    }
}

pub(crate) fn has_steps(total: usize) -> String {
    match total {
        0 => "It has no steps.".to_owned(),
        1 => "It has one step, 0.".to_owned(),
        _ => format!("It has {total} steps, 0 to {}.", total - 1),
    }
}

/// The place of an event that the run has.
#[derive(Debug)]
pub(crate) struct EventParam(pub(crate) Arc<Run>, pub(crate) usize);

impl FromRequestParts<AppState> for EventParam {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Response> {
        let RunParam(run) = RunParam::from_request_parts(parts, state).await?;
        let text = part(parts, state, "n").await;
        let total = run.index().events().len();
        match text.parse::<usize>() {
            Ok(n) if n < total => Ok(Self(run, n)),
            _ => {
                let error =
                    WebError::not_found("This run has no event", &format!("It has {total} events, counted from 0."));
                Err(error.named(&text).link("The run", href::run(run.key().as_str())).respond(state, is_api(parts)))
            }
        }
    }
}

/// Any other part of the path, by position in the route: the last one.
#[derive(Debug)]
pub(crate) struct LastPart(pub(crate) String);

impl FromRequestParts<AppState> for LastPart {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Self::Rejection> {
        let last = match RawPathParams::from_request_parts(parts, state).await {
            Ok(params) => params.iter().last().map(|(_, value)| value.to_owned()),
            Err(_) => None,
        };
        Ok(Self(last.unwrap_or_default()))
    }
}

/// The query's parameters, decoded; of a repeated one the last counts, unless all are asked for.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// The value of a parameter, empty where it is not given.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.pairs().rfind(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Whether a parameter is given, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs().any(|(known, _)| known == name)
    }

    /// All parameters as they came.
    pub(crate) fn pairs(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> + Clone {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// All values of a parameter that may be repeated, without empty ones; `None` where it is not given at all.
    pub(crate) fn all(&self, name: &str) -> Option<Vec<String>> {
        let given = self.pairs().filter(|(known, value)| *known == name && !value.is_empty());
        self.has(name).then(|| given.map(|(_, value)| value.to_owned()).collect())
    }

    /// A whole number.
    ///
    /// # Errors
    /// The parameter is given and is no number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, WebError> {
        match self.text(name) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => {
                    let detail = format!("The parameter {name} takes a whole number from 0 on.");
                    Err(WebError::bad_request("Not a number:", &detail).named(text))
                }
            },
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        let pairs = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let mut params = Self::default();
        for (name, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
            params.0.push((decode(name), decode(value)));
        }
        Ok(params)
    }
}
