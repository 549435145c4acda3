//! Shows an error with the same text as a page for people and as a problem document for programs.

use std::any::Any;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response as HttpResponse, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};

use crate::page::app::AppState;
use crate::page::error::{Refusal, WebError};
use crate::page::extract::is_api_path;
use crate::page::part::sign::Phrase;
use crate::page::part::{href, text};
use crate::page::shell::{Pulse, Shell};

#[derive(Debug, Template)]
#[template(path = "error/page.html")]
struct ErrorPage<'a> {
    shell: Shell,
    /// Loads the run once it appears, if `shell.stream` is set. Until then its address responds
    /// with 204, and afterwards with 200 and `HX-Refresh: true`, which reloads this page.
    pulse: Option<Pulse>,
    error: &'a Refusal,
}

impl ErrorPage<'_> {
    fn asks_token(&self) -> bool {
        self.error.status == StatusCode::UNAUTHORIZED
    }
}

/// Turns handler errors into problem documents for programs and pages for people.
pub(crate) async fn show(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let api = is_api_path(request.uri().path());
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<WebError>() {
        Some(error) => respond(&error, &state, api),
        None => response,
    }
}

/// Builds the response: a problem document for the API, or else a page.
pub(crate) fn respond(error: &WebError, state: &AppState, api: bool) -> Response {
    let mut response = if api {
        error.0.problem()
    } else {
        page(&error.0, state)
    };
    *response.status_mut() = error.0.status;
    let more = match error.0.status {
        StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD")),
        StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "2")),
        // A starting board recognizes another one by this realm.
        StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer realm=\"board\"")),
        _ => None,
    };
    if let Some((name, value)) = more {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn page(error: &Refusal, state: &AppState) -> Response {
    let revision = *state.library.revision().borrow();
    let pulse = error.awaited.as_ref().map(|key| Pulse {
        url: href::with_query(&format!("{}/live", href::run(key)), &[("awaited", "1")]),
        revision,
        ..Pulse::default()
    });
    let shell = Shell {
        title: format!("{} {}", error.status.as_u16(), error.named_title()),
        root: if error.outside {
            String::new()
        } else {
            state.shown_roots().to_owned()
        },
        stream: pulse.as_ref().map(|_| "/events".to_owned()),
        revision,
        boot: state.boot.to_string(),
        ..Shell::default()
    };
    match (ErrorPage {
        shell,
        pulse,
        error,
    })
    .render()
    {
        Ok(html) => Html(html).into_response(),
        Err(fault) => format!("{} {}: {fault}", error.status, error.title).into_response(),
    }
}

/// Responds to a panic in a handler. The panic is a bug of board, and the server continues.
#[expect(
    clippy::needless_pass_by_value,
    reason = "CatchPanicLayer requires this signature"
)]
pub(crate) fn panicked(cause: Box<dyn Any + Send>) -> HttpResponse<axum::body::Body> {
    let words = cause
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| cause.downcast_ref::<&str>().map(ToString::to_string));
    let error = WebError::fault(&words.unwrap_or_else(|| "panic without a message".to_owned()));
    let mut response = error.0.problem();
    *response.status_mut() = error.0.status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{HOSTILE, check_page};

    fn render(error: &WebError, shell: Shell, pulse: Option<Pulse>) -> String {
        ErrorPage {
            shell,
            pulse,
            error: &error.0,
        }
        .render()
        .unwrap()
    }

    #[test]
    fn an_error_page_leads_on() {
        let error = WebError::not_found("No run named", "")
            .named("retri")
            .link("Search", href::runs("retri"));
        let tags = check_page(&render(&error, Shell::default(), None));
        assert!(tags.iter().any(
            |tag| tag.get("class") == Some("btn main") && tag.get("href") == Some("/?q=retri")
        ));
        assert!(
            tags.iter()
                .any(|tag| tag.get("class") == Some("btn") && tag.get("href") == Some("/"))
        );
        assert!(
            tags.iter()
                .all(|tag| tag.get("data-live").is_none() && tag.get("data-stream").is_none())
        );
    }

    #[test]
    fn hostile_text_stays_text() {
        let text = || HOSTILE.to_owned();
        let error = WebError::new(StatusCode::UNAUTHORIZED, HOSTILE, HOSTILE)
            .named(HOSTILE)
            .hint(HOSTILE);
        let error = error.link(HOSTILE, href::runs(HOSTILE));
        let shell = Shell {
            title: text(),
            root: text(),
            stream: Some(text()),
            boot: text(),
            ..Shell::default()
        };
        let html = render(
            &error,
            shell,
            Some(Pulse {
                url: text(),
                say: Some(text()),
                ..Pulse::default()
            }),
        );
        assert!(
            check_page(&html)
                .iter()
                .any(|tag| tag.get("id") == Some("token"))
        );
        assert!(
            !html.contains("alert(1)</script>") && !html.contains("<hx-partial"),
            "{html}"
        );
    }
}
