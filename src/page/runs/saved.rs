//! Defines saved views: named queries from the settings. [`super::views`] shows them.

use std::sync::Arc;

use crate::analysis::closest::did_you_mean;
use crate::analysis::columns::{COLUMNS, Shown, chosen};
use crate::analysis::query::Query;

/// Maximum number of views. Each is counted over all runs for every page.
pub(crate) const MAX_VIEWS: usize = 24;
/// The length of a name, at most; characters.
pub(super) const MAX_NAME: usize = 60;

/// A named query with the columns to show. No columns means the default ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) query: String,
    pub(crate) columns: Vec<Shown>,
}

/// The field of a view that is wrong, and why.
pub(crate) type Fault = (&'static str, String);

impl View {
    /// Creates a view.
    ///
    /// # Errors
    /// The name is empty or too long, a term of the query isn't understood, or a column doesn't
    /// exist.
    pub(crate) fn new(name: String, query: String, columns: &[String]) -> Result<Self, Fault> {
        if name.trim().is_empty() {
            return Err(("name", "a view needs a name".to_owned()));
        }
        if name.chars().count() > MAX_NAME {
            let why = format!("a name has at most {MAX_NAME} characters");
            return Err(("name", why));
        }
        if let Some(term) = Query::parse(&query).ignored.first() {
            return Err(("query", format!("`{}`: {}", term.text, term.why)));
        }
        let columns = chosen(columns.iter().map(String::as_str)).map_err(|name| {
            let close = did_you_mean(name, COLUMNS.iter().map(|column| column.name));
            ("columns", format!("no column is called {name}{close}"))
        })?;
        Ok(Self {
            name,
            query,
            columns,
        })
    }

    /// Returns whether the view has this name, ignoring letter case.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name.trim().to_lowercase() == name.trim().to_lowercase()
    }
}

/// The views, and the file that they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedViews {
    pub(crate) views: Arc<[View]>,
    /// The settings file, whether or not it exists.
    pub(crate) file: Arc<str>,
}

impl SavedViews {
    /// Returns the views of `file`, or the built-in ones if it has none.
    pub(crate) fn new(views: Vec<View>, file: &str) -> Self {
        let file = file.into();
        if views.is_empty() {
            return Self {
                file,
                ..Self::default()
            };
        }
        Self {
            views: views.into(),
            file,
        }
    }
}

impl Default for SavedViews {
    fn default() -> Self {
        let view = |name: &str, query: &str| View {
            name: name.to_owned(),
            query: query.to_owned(),
            columns: Vec::new(),
        };
        Self {
            views: Arc::new([
                view("Today", "updated:today"),
                view(
                    "Errors and unsolved, last 7 days",
                    "status:error,died,unsolved updated:7d",
                ),
            ]),
            file: "~/.config/board/config.toml".into(),
        }
    }
}
