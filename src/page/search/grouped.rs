//! How are the hits of a run put together? By step, and a text that stands in several places is shown once: what a step
//! says stands in its events too, and often in the manifest.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::search::{Hit, LineMatch};
use crate::analysis::summary::Summary;
use crate::model::TraceFile;
use crate::page::shell::Status;

/// So many other places of a text are named.
const ALSO: usize = 4;

/// A line, and what was found in it.
type HitPlace<'a> = (&'a LineMatch, &'a Hit);

/// The hits of one run.
pub(crate) struct RunHits<'a> {
    pub(crate) key: &'a str,
    /// How it stands and its verdict; `None` where it is gone.
    pub(crate) ended: Option<(Status, &'a str)>,
    /// By step; those of no step come last.
    pub(crate) groups: Vec<Group<'a>>,
}

/// The hits of one step, or those of no step.
pub(crate) struct Group<'a> {
    pub(crate) texts: Vec<Text<'a>>,
}

/// A text that was found, and all places where it stands.
pub(crate) struct Text<'a> {
    pub(crate) found: &'a LineMatch,
    pub(crate) hit: &'a Hit,
    pub(crate) also: Vec<HitPlace<'a>>,
}

impl<'a> RunHits<'a> {
    pub(crate) fn new(
        key: &'a str,
        run: Option<&'a Summary>,
        mut hits: Vec<(&'a LineMatch, &'a Hit)>,
    ) -> Self {
        // A step's line is where a text belongs; an event repeats it, and the manifest sums up.
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
        Self { key, ended, groups }
    }
}

impl<'a> Group<'a> {
    /// A hit that says which step it is.
    pub(crate) fn first(&self) -> Option<&'a LineMatch> {
        self.texts.first().map(|text| text.found)
    }

    /// `Step 3`, or what has no step.
    pub(crate) fn name(&self) -> String {
        match self.first().and_then(|found| found.place.step) {
            Some(step) => format!("Step {step}"),
            None => "Outside of steps".to_owned(),
        }
    }
}

impl<'a> Text<'a> {
    /// The other places that are named, and those that are folded behind their number.
    pub(crate) fn named(&self) -> (&[HitPlace<'a>], &[HitPlace<'a>]) {
        self.also
            .split_at_checked(ALSO)
            .unwrap_or((&self.also, &[]))
    }
}
