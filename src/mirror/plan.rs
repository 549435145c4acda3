//! Compares a listing with the cache and plans what to fetch and what to remove. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::evicted::is_within;
use super::listing::Object;
use super::place::place;
use crate::trace::{Skipped, SkippedKind, is_trace_file, may_be_trace};

/// Pictures up to this size are fetched for the runs that may show them.
const MAX_PICTURE_BYTES: u64 = 8 << 20;

/// An object in the cache, as the log has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CachedObject {
    #[serde(rename = "tag")]
    pub(super) etag: String,
    pub(super) size: u64,
    pub(super) modified: i64,
    /// Bytes were appended without a proof that they belong to those before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unproven: bool,
    /// The file was removed to make room. It is fetched again when somebody opens it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) evicted: bool,
}

/// How much of an object to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// All of it.
    Whole,
    /// What follows after the cached bytes.
    Rest,
}

/// What to fetch and what to remove.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Keys of objects that the store no longer has, or that have no file name.
    pub(super) gone: Vec<String>,
    /// Keys of objects whose files are removed to make room.
    pub(super) evict: Vec<String>,
    /// Objects to fetch, the newest runs first.
    pub(super) wanted: Vec<(Object, How)>,
    /// Objects that can't be cached.
    pub(super) odd: Vec<Skipped>,
    /// The number of objects that may belong to traces, and their bytes.
    pub(super) objects: usize,
    pub(super) bytes: u64,
    /// The number of all other objects.
    pub(super) others: usize,
}

/// The limits of the cache.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits<'a> {
    /// The size of the cache.
    pub(super) bytes: u64,
    /// The file system ignores case in names.
    pub(super) folds: bool,
    /// What somebody opened, most recent first: objects, or directories of objects. These stay longer than newer ones.
    pub(super) asked: &'a [String],
}

/// Compares a complete listing with the cache.
pub(super) fn plan(
    listed: Vec<Object>,
    kept: &BTreeMap<String, CachedObject>,
    limits: Limits<'_>,
) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<String, Object> = BTreeMap::new();
    for mut object in listed {
        match is_wanted(&object) {
            // Moves the key: there may be a million.
            true => drop(wanted.insert(std::mem::take(&mut object.key), object)),
            // Some programs create such an object for a directory.
            false if object.key.is_empty() || (object.key.ends_with('/') && object.size == 0) => {}
            false => plan.others += 1,
        }
    }
    plan.objects = wanted.len();
    let sizes = wanted.values().map(|object| object.size);
    plan.bytes = sizes.fold(0, u64::saturating_add);
    let mut spelled: HashMap<String, String> = HashMap::new();
    let mut odd: BTreeSet<String> = BTreeSet::new();
    for (key, object) in &wanted {
        let reason = match place(key) {
            Err(reason) => reason.to_owned(),
            Ok(_) if is_directory(key, &wanted) => {
                "its key is also the directory of other objects".to_owned()
            }
            Ok(_) if object.size > limits.bytes => format!(
                "not cached: its {} bytes exceed the cache limit; raise --s3-cache",
                object.size
            ),
            Ok(_) if limits.folds && !is_spelled_alike(key, &mut spelled) => {
                "its name differs from another one only in case".to_owned()
            }
            Ok(_) => continue,
        };
        plan.odd.push(Skipped {
            kind: SkippedKind::Object,
            path: key.clone(),
            reason,
        });
        odd.insert(key.clone());
    }
    wanted.retain(|key, _| !odd.contains(key));
    let mut all: Vec<Object> = wanted
        .into_iter()
        .map(|(key, object)| Object { key, ..object })
        .collect();
    newest_first(&mut all, limits.asked);
    let older = all.split_off(fitting(&all, limits));
    let (known, unknown): (Vec<_>, Vec<_>) = older
        .into_iter()
        .partition(|object| kept.contains_key(&object.key));
    plan.odd.extend(unknown.into_iter().map(|object| Skipped {
        kind: SkippedKind::Object,
        reason: format!(
            "not cached: it has {} bytes, and newer objects fill the cache; raise --s3-cache",
            object.size
        ),
        path: object.key,
    }));
    let stay = all.iter().chain(&known).map(|object| &*object.key);
    let stay: HashSet<&str> = stay.collect();
    let is_gone = |key: &&String| !stay.contains(&***key);
    plan.gone = kept.keys().filter(is_gone).cloned().collect();
    // Board keeps what it read from them.
    let is_here = |object: &Object| kept.get(&object.key).is_some_and(|kept| !kept.evicted);
    let here = known.into_iter().filter(is_here);
    plan.evict = here.map(|object| object.key).collect();
    let changed = all
        .into_iter()
        .filter_map(|object| Some((how(&object, kept.get(&object.key))?, object)));
    plan.wanted = changed.map(|(how, object)| (object, how)).collect();
    plan
}

/// Returns whether an object may belong to a trace, judged by its name.
fn is_wanted(object: &Object) -> bool {
    let is_hidden = |part: &str| part.starts_with('.') && part != "." && part != "..";
    let hidden = object.key.split('/').any(is_hidden);
    let path = Path::new(&object.key);
    let ending = object.key.rsplit_once('.');
    let ending = ending.map(|(_, ending)| ending.to_ascii_lowercase());
    let is_picture = matches!(
        ending.as_deref(),
        Some("png" | "jpg" | "jpeg" | "gif" | "webp" | "svg")
    );
    !hidden
        && (is_trace_file(path)
            || may_be_trace(path)
            || (is_picture && object.size <= MAX_PICTURE_BYTES))
}

/// Returns whether other keys start with this one and a `/`.
fn is_directory(key: &str, all: &BTreeMap<String, Object>) -> bool {
    let below = format!("{key}/");
    let next = all.range(below.clone()..).next();
    next.is_some_and(|(next, _)| next.starts_with(&below))
}

/// Returns whether every other key spells this one, and the directories above it, with the same case.
fn is_spelled_alike(key: &str, spelled: &mut HashMap<String, String>) -> bool {
    let ends = key.match_indices('/').map(|(at, _)| at).chain([key.len()]);
    let mut parts = ends.filter_map(|end| key.get(..end));
    parts.all(|part| {
        spelled
            .entry(part.to_lowercase())
            .or_insert_with(|| part.to_owned())
            == part
    })
}

fn how(object: &Object, kept: Option<&CachedObject>) -> Option<How> {
    match kept.filter(|kept| !kept.evicted) {
        Some(kept) if kept.etag == object.etag && kept.size == object.size => {
            // Once the object stops growing, a whole copy replaces unproven appends.
            kept.unproven.then_some(How::Whole)
        }
        Some(kept) if kept.size > 0 && object.size > kept.size => Some(How::Rest),
        _ => Some(How::Whole),
    }
}

/// Returns the directory of an object.
fn parent(object: &Object) -> &str {
    object.key.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Returns the position in `asked` of the entry that covers an object.
fn rank(object: &Object, asked: &[String]) -> usize {
    asked
        .iter()
        .position(|place| is_within(&object.key, place))
        .unwrap_or(asked.len())
}

/// Sorts what somebody opened first, then directories by their newest object. Objects of a directory stay together.
fn newest_first(all: &mut [Object], asked: &[String]) {
    let mut newest: HashMap<String, i64> = HashMap::new();
    for object in all.iter() {
        let newest = newest.entry(parent(object).to_owned()).or_insert(i64::MIN);
        *newest = object.modified.max(*newest);
    }
    all.sort_by_cached_key(|object| {
        let newest = Reverse(newest.get(parent(object)).copied());
        (
            rank(object, asked),
            newest,
            parent(object).to_owned(),
            object.key.clone(),
        )
    });
}

/// Returns how many of the first objects fit. Splits a directory only if it's the first.
fn fitting(all: &[Object], limits: Limits<'_>) -> usize {
    let (mut sum, mut whole) = (0_u64, 0);
    for (at, object) in all.iter().enumerate() {
        let group = |object| (rank(object, limits.asked), parent(object));
        let before = at.checked_sub(1).and_then(|before| all.get(before));
        if before.is_some_and(|before| group(before) != group(object)) {
            whole = at;
        }
        sum = sum.saturating_add(object.size);
        if sum > limits.bytes {
            return if whole == 0 { at } else { whole };
        }
    }
    all.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, etag: &str, size: u64, modified: i64) -> Object {
        Object {
            key: key.to_owned(),
            etag: etag.to_owned(),
            size,
            modified,
        }
    }

    fn kept(key: &str, etag: &str, size: u64) -> (String, CachedObject) {
        (
            key.to_owned(),
            CachedObject {
                etag: etag.to_owned(),
                size,
                ..CachedObject::default()
            },
        )
    }

    const LIMITS: Limits<'_> = Limits {
        bytes: 1_000,
        folds: false,
        asked: &[],
    };

    fn keys(plan: &Plan) -> Vec<(&str, How)> {
        plan.wanted
            .iter()
            .map(|(object, how)| (&*object.key, *how))
            .collect()
    }

    #[test]
    fn only_what_changed_is_had_and_what_grew_from_where_it_ends() {
        let listed = vec![
            object("same.jsonl", "1", 5, 0),
            object("grown.jsonl", "2", 9, 3),
            object("shrunk.jsonl", "2", 4, 2),
            object("replaced.jsonl", "2", 5, 1),
            object("new/steps.jsonl", "1", 5, 4),
            object("new/manifest.json", "1", 5, 7),
            object("notes.txt", "1", 5, 7),
            object("a directory/", "1", 0, 7),
            object("big.parquet", "1", 5_000, 7),
        ];
        let before: BTreeMap<_, _> = ["same", "grown", "shrunk", "replaced", "went"]
            .map(|name| kept(&format!("{name}.jsonl"), "1", 5))
            .into();
        let plan = plan(listed, &before, LIMITS);
        let whole = [
            ("new/manifest.json", How::Whole),
            ("new/steps.jsonl", How::Whole),
        ];
        let rest = [
            ("grown.jsonl", How::Rest),
            ("replaced.jsonl", How::Whole),
            ("shrunk.jsonl", How::Whole),
        ];
        assert_eq!(keys(&plan), [whole.as_slice(), rest.as_slice()].concat());
        assert_eq!(
            (plan.gone.as_slice(), plan.objects, plan.others),
            (&["went.jsonl".to_owned()][..], 6, 2)
        );
        assert_eq!(plan.odd, []);
    }

    #[test]
    fn sizes_that_no_number_can_sum_are_the_largest_number() {
        let listed = vec![
            object("a.jsonl", "1", u64::MAX, 0),
            object("b.jsonl", "1", u64::MAX, 0),
        ];
        assert_eq!(plan(listed, &BTreeMap::new(), LIMITS).bytes, u64::MAX);
    }

    #[test]
    fn pieces_are_proven_by_a_whole_copy_once_the_object_is_quiet() {
        let pieces = |etag: &str| CachedObject {
            etag: etag.to_owned(),
            size: 5,
            unproven: true,
            ..CachedObject::default()
        };
        let before = BTreeMap::from([
            ("a.jsonl".to_owned(), pieces("1")),
            ("b.jsonl".to_owned(), pieces("1")),
        ]);
        let plan = plan(
            vec![object("a.jsonl", "1", 5, 0), object("b.jsonl", "2", 9, 0)],
            &before,
            LIMITS,
        );
        assert_eq!(
            keys(&plan),
            [("a.jsonl", How::Whole), ("b.jsonl", How::Rest)]
        );
    }

    #[test]
    fn odd_keys_are_told_and_what_was_kept_of_them_goes() {
        let listed = [
            "../x.jsonl",
            "a",
            "a.jsonl",
            "a.jsonl/b.jsonl",
            "big.jsonl",
            "x//y.jsonl",
            "Run/s.jsonl",
            "run/t.jsonl",
        ];
        let listed = listed
            .map(|key| object(key, "1", if key == "big.jsonl" { 1_001 } else { 1 }, 0))
            .to_vec();
        let before = BTreeMap::from([kept("a.jsonl", "1", 1)]);
        let plan_of = |folds| plan(listed.clone(), &before, Limits { folds, ..LIMITS });
        let odd = |plan: &Plan| {
            plan.odd
                .iter()
                .map(|odd| odd.path.clone())
                .collect::<Vec<_>>()
        };
        let plan = plan_of(false);
        assert_eq!(
            odd(&plan),
            ["../x.jsonl", "a.jsonl", "big.jsonl", "x//y.jsonl"]
        );
        assert_eq!(
            (plan.gone.as_slice(), plan.wanted.len()),
            (&["a.jsonl".to_owned()][..], 3)
        );
        let folded = plan_of(true);
        assert_eq!(
            odd(&folded),
            [
                "../x.jsonl",
                "a.jsonl",
                "big.jsonl",
                "run/t.jsonl",
                "x//y.jsonl"
            ]
        );
    }

    #[test]
    fn the_oldest_directories_give_way_where_not_all_fit() {
        let listed = vec![
            object("old/steps.jsonl", "1", 300, 1),
            object("old/manifest.json", "1", 10, 9),
            object("older/a.jsonl", "1", 300, 2),
            object("new/a.jsonl", "1", 500, 20),
        ];
        let before = BTreeMap::from([
            kept("older/a.jsonl", "1", 300),
            kept("new/a.jsonl", "1", 500),
        ]);
        let first = plan(listed.clone(), &before, LIMITS);
        assert_eq!(
            (&*first.evict, &*first.gone, &*first.odd),
            (&["older/a.jsonl".to_owned()][..], &[][..], &[][..])
        );
        assert_eq!(
            keys(&first),
            [
                ("old/manifest.json", How::Whole),
                ("old/steps.jsonl", How::Whole)
            ]
        );

        // Once it is evicted it stays so, and has to be had again where somebody asks for it; another one makes room.
        let mut kept_all = before;
        kept_all.extend([
            kept("old/steps.jsonl", "1", 300),
            kept("old/manifest.json", "1", 10),
        ]);
        kept_all.get_mut("older/a.jsonl").unwrap().evicted = true;
        assert_eq!(
            plan(listed.clone(), &kept_all, LIMITS),
            Plan {
                objects: 4,
                bytes: 1_110,
                ..Plan::default()
            }
        );
        let asked = ["older".to_owned()];
        let again = plan(
            listed.clone(),
            &kept_all,
            Limits {
                asked: &asked,
                ..LIMITS
            },
        );
        assert_eq!(keys(&again), [("older/a.jsonl", How::Whole)]);
        assert_eq!(
            (again.evict.as_slice(), again.odd.len()),
            (
                &["old/manifest.json".to_owned(), "old/steps.jsonl".to_owned()][..],
                0
            )
        );

        // What was never had is left out, and what the store no longer has is gone.
        let none = plan(listed, &BTreeMap::new(), LIMITS);
        assert_eq!(
            none.odd.iter().map(|odd| &*odd.path).collect::<Vec<_>>(),
            ["older/a.jsonl"]
        );
        assert_eq!(plan(Vec::new(), &kept_all, LIMITS).gone.len(), 4);
        let one = [
            object("a.jsonl", "1", 600, 2),
            object("b.jsonl", "1", 600, 1),
        ];
        assert_eq!(fitting(&one, LIMITS), 1, "the only directory is torn apart");
    }
}
