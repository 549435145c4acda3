//! Serves the list of keyboard shortcuts: the page at `/keys`, and the dialog that `?` opens on any
//! page.
//!
//! The page also describes this board: where its files are, and that they are sent nowhere.

pub(crate) mod table;

use askama::Template;
use axum::extract::State;

use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::error::Answer;
use crate::page::part::text::Line;
use crate::page::shell::{NavItem, Shell};

#[derive(Debug, Template)]
#[template(path = "keys/page.html")]
struct KeysPage {
    shell: Shell,
    /// The roots as the user typed them.
    roots: Vec<Line>,
}

#[derive(Debug, Template)]
#[template(path = "keys/dialog.html")]
struct KeysDialog;

/// `GET /keys`
pub(crate) async fn page(State(state): State<AppState>) -> Answer {
    let shell = Shell {
        title: "Keyboard shortcuts".to_owned(),
        ..state.shell(NavItem::None)
    };
    let roots = state.library.status().roots;
    let roots = roots
        .iter()
        .map(|root| root.path.to_string_lossy().as_ref().into())
        .collect();
    html(&KeysPage { shell, roots })
}

/// `GET /keys/part`
pub(crate) async fn part() -> Answer {
    html(&KeysDialog)
}
