//! What do the keys do? The page at `/keys`, and the dialog that `?` opens on any page.

use askama::Template;
use axum::extract::State;

use crate::page::app::AppState;
use crate::page::error::Answer;
use crate::page::run::handler::html;
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
pub(crate) async fn page(State(state): State<AppState>) -> Answer {
    let shell = Shell { title: "Keyboard".to_owned(), ..shell(&state, Place::None) };
    html(&KeysPage { shell })
}

/// `GET /keys/part`
pub(crate) async fn part() -> Answer {
    html(&KeysDialog)
}
