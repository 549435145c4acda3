//! Finds the runs of a table whose records are in several files. Reads the beginning of each run,
//! and fully reads only those that begin alike.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::analysis::copies::{Keys, Mark, Relation, alike, keys, marks, relate};
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::{Summary, summary};
use crate::live::Listed;
use crate::model::Index;
use crate::recorded::RecordedRun;
use crate::trace::RunReader;

/// The number of bytes read of each file to see how a run begins. A document is read in full.
const BEGINNING_BYTES: u64 = 1 << 20;

/// The data of a run that is compared.
pub(in crate::cli) type Whole = (Arc<Summary>, Arc<[Mark]>);

/// Relates runs to those with the same records. `known` returns the keys that an earlier call found
/// for a run, if they're still valid. `whole` reads a run.
pub(in crate::cli) fn relations(
    runs: &[Listed],
    known: &(dyn Fn(&Listed) -> Option<Keys> + Sync),
    whole: &dyn Fn(&Listed) -> Whole,
) -> HashMap<String, Relation> {
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(super::read::MAX_THREADS);
    let size = runs.len().div_ceil(threads).max(1);
    let keys: Vec<Keys> = thread::scope(|scope| {
        let begins = |part: &[Listed]| {
            part.iter()
                .map(|run| known(run).unwrap_or_else(|| begin(run)))
                .collect::<Vec<_>>()
        };
        let parts: Vec<_> = runs
            .chunks(size)
            .map(|part| (part.len(), scope.spawn(move || begins(part))))
            .collect();
        // Runs that couldn't be read match nothing.
        let joined = parts
            .into_iter()
            .map(|(len, part)| part.join().unwrap_or_else(|_| vec![Keys::default(); len]));
        joined.flatten().collect()
    });
    let mut found = HashMap::new();
    for group in alike(keys.into_iter()) {
        let members = group.iter().filter_map(|at| runs.get(*at));
        let (summaries, steps): (Vec<Arc<Summary>>, Vec<Arc<[Mark]>>) = members.map(whole).unzip();
        let mut marks = |member: usize| steps.get(member).map_or_else(|| Arc::from([]), Arc::clone);
        let relations = relate(&summaries, &mut marks);
        let related = summaries
            .iter()
            .zip(relations)
            .filter(|(_, relation)| *relation != Relation::default());
        found.extend(related.map(|(run, relation)| (run.key.as_str().to_owned(), relation)));
    }
    found
}

fn begin(run: &Listed) -> Keys {
    let mut index = Index::default();
    index.apply(RunReader::settling(run.dir.clone(), Duration::ZERO).refresh(BEGINNING_BYTES));
    keys(&summary(
        &run.key,
        String::new(),
        &index,
        ExternalFacts::default(),
    ))
}

pub(in crate::cli) fn whole(run: &Listed, now: i64) -> Whole {
    let opened = RecordedRun::read(run.dir.clone(), &run.key, run.path.clone(), now);
    let steps = marks(&opened.index);
    (Arc::new(opened.summary), steps)
}
