//! Shows the events of a run in a table: a page of heads from the index, optionally of one phase.

use std::collections::HashMap;

use askama::Template;
use askama::filters::HtmlSafe;

use crate::analysis::digest::digest;
use crate::analysis::format::{self, count};
use crate::model::json::Json;
use crate::model::{EventHead, Symbol, TraceFile};
use crate::page::part::fold::{Fold, ValueLinks};
use crate::page::part::json_tree::JsonView;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::part::{href, text};
use crate::page::run_view::{EVENTS_PER_PAGE as PER_PAGE, RunView};

/// Maximum number of phases that can be chosen. An engine has about twenty.
const MAX_PHASES: usize = 100;
/// Elements of one event's row.
const ROW_ELEMENTS: usize = 12;
/// Elements of all rows and the open record. A page should have at most 1,500, and the rest of it
/// takes up to 500.
const OPEN_ELEMENTS: usize = 1_000;
/// Longer records get no digest, since a page has many of them; bytes.
const MAX_DIGESTED: u64 = 64 << 10;

/// The events of a run in file order (`#events`).
#[derive(Template)]
#[template(path = "run/events_table.html")]
pub(crate) struct EventsTab<'a> {
    pub view: &'a RunView<'a>,
    /// The selected phase. Empty for all phases.
    phase: String,
    /// The index of the first event shown among the matching ones. `total` is the number of
    /// matching events.
    first: usize,
    total: usize,
    /// The ordinals and heads of the events shown.
    rows: Vec<(usize, &'a EventHead)>,
    /// The expanded event.
    open: Option<usize>,
}

impl HtmlSafe for EventsTab<'_> {}

impl<'a> EventsTab<'a> {
    /// Shows the events from index `after`. Without it, shows the page of the event `open`, or else
    /// the last page.
    pub(crate) fn new(
        view: &'a RunView<'a>,
        phase: String,
        after: Option<usize>,
        open: Option<usize>,
    ) -> Self {
        let wanted = view.index.names().find(&phase);
        let all = view.index.events().iter().enumerate();
        let matching = all.filter(|(_, event)| phase.is_empty() || Some(event.phase) == wanted);
        let total = matching.clone().count();
        let place = || {
            matching
                .clone()
                .position(|(n, _)| Some(n) == open)
                .map(|place| place / PER_PAGE * PER_PAGE)
        };
        let first = after
            .filter(|after| *after < total)
            .or_else(place)
            .unwrap_or(total.saturating_sub(PER_PAGE));
        let rows = matching.skip(first).take(PER_PAGE).collect();
        Self {
            view,
            phase,
            first,
            total,
            rows,
            open,
        }
    }

    fn all(&self) -> String {
        count(self.view.index.event_count() as u64)
    }

    fn end(&self) -> usize {
        self.first + self.rows.len()
    }

    fn summary(&self) -> String {
        let [first, end, total] =
            [self.first, self.end().saturating_sub(1), self.total].map(|n| count(n as u64));
        if self.rows.is_empty() {
            return "no events".to_owned();
        }
        let index = self.view.index;
        match index.event_count() - index.events_read() {
            unread if unread > 0 && self.phase.is_empty() => {
                format!(
                    "{first}–{end} of {total} lines, {} not JSON",
                    count(unread as u64)
                )
            }
            _ => format!("{first}–{end} of {total}"),
        }
    }

    fn earlier(&self) -> Option<Link> {
        let label = format!("{} earlier", PER_PAGE.min(self.first));
        (self.first > 0).then(|| self.link(label, self.first.saturating_sub(PER_PAGE)))
    }

    fn later(&self) -> Option<Link> {
        let left = self.total - self.end();
        (left > 0).then(|| self.link(format!("{} later", PER_PAGE.min(left)), self.end()))
    }

    fn link(&self, label: String, after: usize) -> Link {
        let query = [
            ("tab", "events"),
            ("phase", self.phase.as_str()),
            ("after", &after.to_string()),
        ];
        Link::new(label, href::with_query(&href::run(self.view.key()), &query))
    }

    /// Lists the phases in the order of their first event, with the number of events.
    fn phases(&self) -> Vec<(&'a str, String)> {
        let index = self.view.index;
        let mut order: Vec<Symbol> = Vec::new();
        let mut counts: HashMap<Symbol, u64> = HashMap::new();
        for event in index.events() {
            let count = counts.entry(event.phase).or_default();
            if *count == 0 {
                order.push(event.phase);
            }
            *count += 1;
        }
        let named = order
            .into_iter()
            .filter(|symbol| *symbol != Symbol::default())
            .enumerate();
        let shown =
            named.filter(|(at, symbol)| *at < MAX_PHASES || index.name(*symbol) == self.phase);
        shown
            .map(|(_, symbol)| {
                (
                    index.name(symbol),
                    counts.get(&symbol).map_or_else(String::new, |n| count(*n)),
                )
            })
            .collect()
    }

    /// Links the step of an event, or states why it has none.
    fn step(&self, n: usize, event: &EventHead) -> Phrase {
        let (view, index) = (self.view, self.view.index);
        if !event.fate.is_readable() {
            return Phrase::new().dim(format::MISSING);
        }
        let Some(at) = index.group_at(n) else {
            return Phrase::new().dim("run");
        };
        match index.step_of(at) {
            Some(step) => Phrase::new().link(view.label(step), view.at_step(step)),
            None => {
                let id = index.groups().get(at).and_then(|group| group.step_id);
                Phrase::new()
                    .text(id.map_or_else(String::new, |id| id.to_string()))
                    .dim(" never written")
            }
        }
    }

    /// Returns the record of the expanded event as a tree.
    fn opened(&self, n: usize, event: &EventHead) -> Option<JsonView> {
        if self.open != Some(n) {
            return None;
        }
        let record = self.view.lines.record(TraceFile::Events, event.span).ok()?;
        let json = Json::parse(&record.text)?;
        let links = ValueLinks::below(&href::event(self.view.key(), n));
        let elements = OPEN_ELEMENTS.saturating_sub(self.rows.len() * ROW_ELEMENTS);
        Some(Fold::new(links).json_within(&json, "", elements))
    }

    /// Summarizes the record in one line. Skips long records.
    fn digest(&self, event: &EventHead) -> String {
        if event.span.len > MAX_DIGESTED || !event.fate.is_readable() {
            return String::new();
        }
        let record = self.view.lines.record(TraceFile::Events, event.span).ok();
        let json = record.as_ref().and_then(|record| Json::parse(&record.text));
        json.as_ref().map(digest).unwrap_or_default()
    }

    /// Returns the event's error, or that the event is unreadable.
    fn note(&self, n: usize, event: &EventHead) -> &'a str {
        let index = self.view.index;
        let error = || index.groups().get(index.group_at(n)?)?.error.as_ref();
        match error().filter(|(phase, _)| *phase == event.phase && !event.ok) {
            _ if !event.fate.is_readable() => "not an event (see the raw line)",
            Some((_, text)) => text,
            None => "",
        }
    }

    /// Returns the sign of an event that failed or can't be read.
    fn fault(&self, event: &EventHead) -> Option<Sign> {
        match (event.fate.is_readable(), event.ok) {
            (false, _) => Some(Sign::word("mk", "unknown", "unknown")),
            (true, true) => None,
            (true, false) => Some(Sign::word("mk err", "error", "failed")),
        }
    }

    fn datetime(&self, event: &EventHead) -> String {
        event.ts.map_or_else(String::new, |ts| self.view.iso(ts))
    }
}
