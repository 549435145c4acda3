//! Turns runs into the rows of a table.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::copies;
use super::read::{self, Made};
use super::rows::{self, Format, Table};
use crate::analysis::copies::{Keys, Relation, keys};
use crate::analysis::facts::{Depth, record};
use crate::analysis::query::Query;
use crate::analysis::table::{Run, RunSource};
use crate::live::{FollowedTags, Listed};
use crate::model::price::Prices;
use crate::page::part::href;
use crate::recorded::RecordedRun;

/// Turns runs into rows.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) table: Table,
    pub(super) format: Format,
    pub(super) query: Query,
    pub(super) board: String,
    pub(super) prices: Arc<Prices>,
    pub(super) tags: Arc<FollowedTags>,
    pub(super) now: i64,
    /// The relations of runs to others with the same records, by key.
    pub(super) relations: OnceLock<HashMap<String, Relation>>,
}

impl Maker {
    /// Finds runs with the same records. `known` returns a run's keys from an earlier call, if
    /// they're still valid.
    pub(super) fn relate(&self, runs: &[Listed], known: &(dyn Fn(&Listed) -> Option<Keys> + Sync)) {
        self.relations
            .get_or_init(|| copies::relations(runs, known, &|run| copies::whole(run, self.now)));
    }

    /// Returns the relation of a run to others, or `None` if it has none.
    pub(super) fn relation(&self, run: &Listed) -> Option<&Relation> {
        self.relations.get()?.get(run.key.as_str())
    }

    /// Reads a run and sends its rows.
    pub(super) fn make(&self, run: &Listed, send: &mut dyn FnMut(Vec<u8>)) -> Made {
        let mut opened = RecordedRun::read(run.dir.clone(), &run.key, run.path.clone(), self.now)
            .priced(&self.prices);
        let size = read::size(&run.dir);
        let mut made = Made {
            size,
            stamps: opened.stamps,
            keys: keys(&opened.summary),
            ..Made::default()
        };
        if let Some(relation) = self.relation(run) {
            let index = &opened.index;
            opened.summary = opened.summary.related(relation.clone(), || index);
            // Its rows also depend on the other runs.
            made.stamps = None;
        }
        self.tags.apply(&mut opened.summary, &run.dir);
        if opened.summary.counts() && self.query.matches(&opened.summary) {
            let record = record(&opened.index, &opened, Depth::Heads);
            let record = record.priced(&opened.index, opened.summary.prices.as_deref());
            let address = format!(
                "{}{}",
                self.board.trim_end_matches('/'),
                href::run(run.key.as_str())
            );
            let place = RunSource {
                root: run.root.to_string_lossy().into_owned(),
                size,
                address,
            };
            let run = Run::new(opened.summary, opened.index, record, place);
            made.started = run.started();
            made.count = rows::write(self.table, self.format, &Arc::new(run), send);
        }
        made
    }
}
