//! Shows saved views: named queries above the run table, and the page that explains how to save one.
//!
//! Views are in the settings file, which board only reads. Without any, there are a few built-in
//! ones.

use std::iter;

use askama::Template;
use axum::extract::State;

use crate::analysis::format;
use crate::analysis::query::{Clock, Query};
use crate::analysis::summary::Summary;
use crate::page::answer::html;
use crate::page::app::AppState;
use crate::page::error::Answer;
use crate::page::params::Params;
use crate::page::part::{href, text};
use crate::page::runs::fill::list::{List, names};
use crate::page::runs::saved::{MAX_NAME, SavedViews, View};
use crate::page::shell::{NavItem, Shell};

/// A link to a view, with the number of its runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) query: String,
    /// Empty if it is unknown.
    pub(crate) count: String,
    pub(crate) href: String,
    /// Whether the page shows this view.
    pub(crate) active: bool,
}

impl List<'_> {
    /// Returns all runs and the saved views.
    pub(crate) fn views(&self) -> Vec<Shown> {
        let (ctx, clock) = (self.ctx, Clock::at(self.ctx.now, &self.ctx.zone));
        let all = View {
            name: "All".to_owned(),
            query: String::new(),
            columns: Vec::new(),
        };
        let views = iter::once(&all).chain(ctx.views.iter());
        let mut views: Vec<Counted<'_>> = views
            .map(|view| self.counted(view, Query::parse_at(&view.query, &clock)))
            .collect();
        // One pass for all views, because most of the work is fetching each run from memory.
        let mut open: Vec<_> = views.iter_mut().filter(|view| view.is_open).collect();
        let runs = if open.is_empty() { &[] } else { self.runs };
        for run in runs {
            for view in &mut open {
                view.see(&run.summary);
            }
        }
        views.iter().map(|view| self.shown_view(view)).collect()
    }

    /// Returns a view with its count, if that is known without looking at each run.
    fn counted<'v>(&self, view: &'v View, query: Query) -> Counted<'v> {
        let with_copies = query.asks_for_copies();
        let (count, is_open) = match () {
            () if query.is_empty() => {
                let own = self.survey.total.saturating_sub(self.ctx.duplicates);
                (Some(own), false)
            }
            () if query == self.query => (Some(self.survey.matched), false),
            // This list lacks the duplicates that the view shows.
            () if with_copies && !self.query.asks_for_copies() => (None, false),
            () => (Some(0), true),
        };
        Counted {
            view,
            query,
            with_copies,
            count,
            is_open,
        }
    }

    fn shown_view(
        &self,
        Counted {
            view, query, count, ..
        }: &Counted<'_>,
    ) -> Shown {
        let cols = names(&view.columns);
        Shown {
            name: format::visible_line(&view.name).into_owned(),
            query: format::visible_line(&view.query).into_owned(),
            count: count.map_or_else(String::new, |count| format::count(count as u64)),
            active: *query == self.query && cols == self.ctx.cols(),
            href: self.ctx.url_of_view(&view.query, cols),
        }
    }

    /// Returns the address of the page that explains how to save this filter, if it isn't saved.
    pub(crate) fn save(&self, views: &[Shown]) -> Option<String> {
        let is_new = !self.query.is_empty() || !self.ctx.chosen.is_empty();
        let pairs = [("q", self.ctx.query.trim()), ("cols", &self.ctx.cols())];
        (is_new && !views.iter().any(|view| view.active))
            .then(|| href::with_query("/views", &pairs))
    }
}

/// A view whose runs are being counted.
struct Counted<'v> {
    view: &'v View,
    query: Query,
    /// Whether the query asks for duplicates, which count only then.
    with_copies: bool,
    /// `None` if the count is unknown.
    count: Option<usize>,
    /// Whether the runs have yet to be counted.
    is_open: bool,
}

impl Counted<'_> {
    fn see(&mut self, run: &Summary) {
        let is_own = self.with_copies || run.counts();
        if is_own && self.query.matches(run) {
            self.count = self.count.map(|count| count + 1);
        }
    }
}

/// The page at `/views`.
#[derive(Debug, Template)]
#[template(path = "runs/views.html")]
struct ViewsPage {
    shell: Shell,
    /// The values of the form.
    name: String,
    query: String,
    cols: String,
    /// The lines to add, or what is wrong with the values.
    lines: Result<String, String>,
    saved: SavedViews,
}

impl ViewsPage {
    /// Returns the address of the runs that the view shows.
    fn back(&self) -> String {
        href::with_query("/", &[("q", &self.query), ("cols", &self.cols)])
    }
}

/// `GET /views?q=QUERY&cols=COLUMNS&name=NAME`
pub(crate) async fn explain(State(state): State<AppState>, params: Params) -> Answer {
    let (name, query, cols) = (params.text("name"), params.text("q"), params.text("cols"));
    let shell = Shell {
        title: "Save a view".to_owned(),
        ..state.shell(NavItem::Runs)
    };
    let name = if name.trim().is_empty() {
        suggested(query)
    } else {
        name.trim().to_owned()
    };
    let columns = cols
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let columns: Vec<String> = columns.map(str::to_owned).collect();
    let view = View::new(name.clone(), query.trim().to_owned(), &columns);
    html(&ViewsPage {
        shell,
        name,
        query: query.to_owned(),
        cols: cols.to_owned(),
        lines: view
            .map(|view| lines(&view))
            .map_err(|(field, why)| format!("{field}: {why}")),
        saved: state.views.clone(),
    })
}

/// Suggests a name: the start of the query.
fn suggested(query: &str) -> String {
    let name: String = query.trim().chars().take(MAX_NAME / 2).collect();
    if name.is_empty() {
        "My view".to_owned()
    } else {
        name
    }
}

/// Returns the lines of the settings file that define a view.
pub(crate) fn lines(view: &View) -> String {
    let mut text = format!(
        "[[views]]\nname = {}\nquery = {}\n",
        quoted(&view.name),
        quoted(&view.query)
    );
    if !view.columns.is_empty() {
        let names = view.columns.iter().map(|(column, _)| quoted(column.name));
        let columns: Vec<String> = names.collect();
        text.push_str(&format!("columns = [{}]\n", columns.join(", ")));
    }
    text
}

/// Writes a basic string of TOML. Characters that a page would hide are escaped.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            _ if format::visible_line(c.encode_utf8(&mut [0; 4]))
                == *c.encode_utf8(&mut [0; 4]) =>
            {
                out.push(c);
            }
            _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_must_be_understood() {
        let view = |name: &str, query: &str, column: &str| {
            View::new(name.into(), query.into(), &[column.into()])
        };
        assert!(view("Slow", "duration>1h updated>7d", "cost").is_ok());
        let fault = |name: &str, query: &str, column: &str| view(name, query, column).unwrap_err();
        assert_eq!(fault(" ", "", "cost").0, "name");
        assert_eq!(fault(&"x".repeat(61), "", "cost").0, "name");
        let (field, why) = fault("a", "statsu:error", "cost");
        assert_eq!(field, "query");
        assert!(why.contains("did you mean status?"), "{why}");
        let (field, why) = fault("a", "", "coast");
        assert_eq!(field, "columns");
        assert!(why.contains("did you mean cost?"), "{why}");
    }
}
