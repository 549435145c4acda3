//! Groups the hits of a run by step, and shows a text found in several places once. A step's text
//! is usually repeated in its events, and often in the manifest.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::search::{Hit, LineMatch};
use crate::analysis::summary::Summary;
use crate::model::TraceFile;
use crate::page::runs::fill::row::line;
use crate::page::shell::Status;

/// How many other locations of a text are listed.
const ALSO: usize = 4;

/// A line and a hit in it.
type HitPlace<'a> = (&'a LineMatch, &'a Hit);

/// The hits of one run.
pub(super) struct RunHits<'a> {
    pub(super) key: &'a str,
    /// The run's title, or its key if the run is gone or has no title.
    pub(super) title: String,
    /// The run's status and verdict, or `None` if the run is gone.
    pub(super) ended: Option<(Status, &'a str)>,
    /// The groups in step order. Hits outside of steps come last.
    pub(super) groups: Vec<Group<'a>>,
}

/// The hits of one step, or those outside of steps.
pub(super) struct Group<'a> {
    pub(super) texts: Vec<Text<'a>>,
}

/// A text that was found, and all its locations.
pub(super) struct Text<'a> {
    pub(super) found: &'a LineMatch,
    pub(super) hit: &'a Hit,
    pub(super) also: Vec<HitPlace<'a>>,
}

impl<'a> RunHits<'a> {
    pub(super) fn new(
        key: &'a str,
        run: Option<&'a Summary>,
        mut hits: Vec<(&'a LineMatch, &'a Hit)>,
    ) -> Self {
        // A text primarily belongs to a step's line. Events repeat it, and the manifest summarizes.
        let rank = |found: &LineMatch| match found.file {
            TraceFile::Steps => 0,
            TraceFile::Events => 1,
            TraceFile::Manifest => 2,
        };
        hits.sort_by_key(|(found, _)| rank(found));
        let mut texts: Vec<Text<'a>> = Vec::new();
        let mut known: HashMap<(bool, &str, &str, &str), usize> = HashMap::new();
        for (found, hit) in hits {
            let words = (
                hit.in_key,
                hit.before.as_str(),
                hit.text.as_str(),
                hit.after.as_str(),
            );
            match known.get(&words).and_then(|at| texts.get_mut(*at)) {
                Some(text) => text.also.push((found, hit)),
                None => {
                    known.insert(words, texts.len());
                    texts.push(Text {
                        found,
                        hit,
                        also: Vec::new(),
                    });
                }
            }
        }
        let mut groups: BTreeMap<(bool, Option<usize>), Vec<Text<'a>>> = BTreeMap::new();
        for text in texts {
            let step = text.found.place.step;
            groups.entry((step.is_none(), step)).or_default().push(text);
        }
        let groups = groups.into_values().map(|texts| Group { texts }).collect();
        let ended = run.map(|run| (Status::of(run), run.verdict.sentence.as_str()));
        let title = line(run.map_or(key, Summary::title));
        Self {
            key,
            title,
            ended,
            groups,
        }
    }
}

impl<'a> Group<'a> {
    /// Returns a hit that identifies the group's step.
    pub(super) fn first(&self) -> Option<&'a LineMatch> {
        self.texts.first().map(|text| text.found)
    }

    /// Returns `Step 3`, or the label for hits outside of steps.
    pub(super) fn name(&self) -> String {
        match self.first().and_then(|found| found.place.step) {
            Some(step) => format!("Step {step}"),
            None => "Outside steps".to_owned(),
        }
    }
}

impl<'a> Text<'a> {
    /// Splits the other locations into those listed and those folded into a count.
    pub(super) fn named(&self) -> (&[HitPlace<'a>], &[HitPlace<'a>]) {
        self.also
            .split_at_checked(ALSO)
            .unwrap_or((&self.also, &[]))
    }
}
