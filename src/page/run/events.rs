//! What stands in the table of events? Heads from the index, 200 at a time, by phase if asked.

use std::collections::HashMap;

use crate::analysis::format;
use crate::model::{EventHead, Symbol};
use crate::page::lens::{Lens, phase};
use crate::page::part::href;
use crate::page::part::sign::{Link, Phrase, Sign};
use crate::page::run::tabs::{EventRow, EventsTab, PhaseChoice};

/// So many events are shown at once.
pub(crate) const PER_PAGE: usize = 200;

/// At most so many phases can be chosen; an engine has some twenty.
const MAX_PHASES: usize = 100;

/// Which events are asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventsQuery {
    /// Only this phase; empty for all.
    pub phase: String,
    /// The place of the first one among those that match; `None` for the last ones.
    pub after: Option<usize>,
}

/// The table of events.
pub(crate) fn events_tab(lens: &Lens<'_>, query: &EventsQuery) -> EventsTab {
    let wanted = lens.index.names().find(&query.phase);
    let matches = |event: &EventHead| query.phase.is_empty() || Some(event.phase) == wanted;
    let all = lens.index.events();
    let total = all.iter().filter(|event| matches(event)).count();
    let first = query.after.unwrap_or(total.saturating_sub(PER_PAGE)).min(total);
    let rows: Vec<EventRow> = all
        .iter()
        .enumerate()
        .filter(|(_, event)| matches(event))
        .skip(first)
        .take(PER_PAGE)
        .map(|(n, event)| row(lens, n, event))
        .collect();
    let run = href::run(lens.key());
    let link = |label: String, after: usize| {
        let query = [("tab", "events"), ("phase", query.phase.as_str()), ("after", &after.to_string())];
        Link::new(label, href::with_query(&run, &query))
    };
    let end = first + rows.len();
    let summary = match rows.len() {
        0 => "no events".to_owned(),
        _ => format!(
            "{} to {} of {}",
            format::count(first as u64),
            format::count(end as u64 - 1),
            format::count(total as u64)
        ),
    };
    EventsTab {
        summary: summary.into(),
        action: run.clone(),
        phases: phases(lens, &query.phase),
        earlier: (first > 0).then(|| link(format!("earlier {}", PER_PAGE.min(first)), first.saturating_sub(PER_PAGE))),
        later: (end < total).then(|| link(format!("later {}", PER_PAGE.min(total - end)), end)),
        rows,
    }
}

fn phases(lens: &Lens<'_>, chosen: &str) -> Vec<PhaseChoice> {
    let mut order: Vec<Symbol> = Vec::new();
    let mut counts: HashMap<Symbol, usize> = HashMap::new();
    for event in lens.index.events() {
        let count = counts.entry(event.phase).or_default();
        if *count == 0 {
            order.push(event.phase);
        }
        *count += 1;
    }
    let all = PhaseChoice {
        value: "".into(),
        label: format!("all {}", format::count(lens.index.events().len() as u64)).into(),
        chosen: chosen.is_empty(),
    };
    let choice = |symbol: Symbol| {
        let name = lens.index.name(symbol);
        let count = counts.get(&symbol).copied().unwrap_or_default();
        PhaseChoice {
            value: name.into(),
            label: format!("{name} {}", format::count(count as u64)).into(),
            chosen: name == chosen,
        }
    };
    let named = order.into_iter().filter(|symbol| *symbol != Symbol::default()).enumerate();
    let named = named.filter(|(at, symbol)| *at < MAX_PHASES || lens.index.name(*symbol) == chosen);
    std::iter::once(all).chain(named.map(|(_, symbol)| choice(symbol))).collect()
}

fn row(lens: &Lens<'_>, n: usize, event: &EventHead) -> EventRow {
    let name = lens.index.name(event.phase);
    let (class, _) = phase(name);
    let group = lens.index.group_at(n);
    let step = match group.map(|at| (at, lens.index.step_of(at))) {
        Some((_, Some(ordinal))) => Phrase::new().link(lens.label(ordinal), lens.at_step(ordinal)),
        Some((at, None)) => {
            let id = lens.index.groups().get(at).and_then(|group| group.step_id);
            Phrase::new().text(id.map_or_else(String::new, |id| id.to_string())).dim(" no line")
        }
        None => Phrase::new().dim("run"),
    };
    let error = group
        .and_then(|at| lens.index.groups().get(at)?.error.as_ref())
        .filter(|(phase, _)| *phase == event.phase && !event.ok);
    let note = match (error, event.fate.is_readable()) {
        (_, false) => Phrase::from("not an event; see the raw line"),
        (Some((_, text)), _) => Phrase::from(&**text),
        (None, _) => Phrase::new(),
    };
    EventRow {
        n,
        class,
        phase: name.into(),
        stage: lens.index.name(event.stage).into(),
        step,
        at: lens.offset(event.ts),
        datetime: event.ts.map_or_else(String::new, |ts| lens.iso(ts)).into(),
        ok: if event.ok { Sign::plain("mk", "ok") } else { Sign::word("mk err", "error", "not ok") },
        size: format::bytes(event.span.len).into(),
        note,
        raw: format!("{}/events/{n}/raw", href::run(lens.key())),
    }
}
