//! What do the keys do? The page at `/keys`, and the dialog that `?` opens on any page.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::page::app::AppState;
use crate::page::run::handler::{answer, html};
use crate::page::runs::handler::shell;
use crate::page::shell::{Place, Shell};

#[derive(Debug, Template)]
#[template(path = "keys/page.html")]
struct KeysPage {
    shell: Shell,
}

#[derive(Debug, Template)]
#[template(path = "keys/dialog.html")]
struct KeysDialog;

/// `GET /keys`
pub(crate) async fn page(State(state): State<AppState>) -> Response {
    let shell = Shell { title: "Keyboard".to_owned(), ..shell(&state, Place::None) };
    answer(&state, html(&KeysPage { shell }))
}

/// `GET /keys/part`
pub(crate) async fn part(State(state): State<AppState>) -> Response {
    answer(&state, html(&KeysDialog))
}
