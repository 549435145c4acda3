//! What has to be done, so that the mirror is as the listing? Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::evicted::is_within;
use super::place::place;
use super::status::Odd;
use super::xml::Object;
use crate::trace::{is_trace_file, may_be_trace};

/// Pictures up to this size are fetched with the runs that may show them.
const MAX_PICTURE_BYTES: u64 = 8 << 20;

/// An object as it is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CachedObject {
    pub(super) etag: String,
    pub(super) size: u64,
    pub(super) modified: i64,
    /// It was put together of pieces that nothing proves to belong to one another.
    pub(super) unproven: bool,
    /// Its file was removed so that newer ones have room; it is fetched again where somebody asks.
    pub(super) evicted: bool,
}

/// How an object is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// As a whole.
    Whole,
    /// What follows after as many bytes as are here.
    Rest,
}

/// What has to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Keys of objects that went.
    pub(super) gone: Vec<String>,
    /// Keys of objects whose files make room for others.
    pub(super) evict: Vec<String>,
    /// Objects to be had, the newest runs first.
    pub(super) wanted: Vec<(Object, How)>,
    /// Objects that have no place.
    pub(super) odd: Vec<Odd>,
    /// How many may belong to traces, and their bytes.
    pub(super) objects: usize,
    pub(super) bytes: u64,
    /// How many belong to none.
    pub(super) others: usize,
}

/// What is known besides the listing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Limits<'a> {
    /// So many bytes may be kept.
    pub(super) bytes: u64,
    /// The file system takes `a` and `A` for one name.
    pub(super) folds: bool,
    /// What somebody opened stays before what is newer, the last one first: an object, or all below it.
    pub(super) asked: &'a [String],
}

/// Compares a complete listing, with keys below the prefix, with what is kept.
pub(super) fn plan(
    listed: Vec<Object>,
    kept: &BTreeMap<String, CachedObject>,
    limits: Limits<'_>,
) -> Plan {
    let mut plan = Plan::default();
    let mut wanted: BTreeMap<String, Object> = BTreeMap::new();
    for mut object in listed {
        match is_wanted(&object) {
            // Keys may be many: each is held once.
            true => drop(wanted.insert(std::mem::take(&mut object.key), object)),
            // What some programs make for a directory.
            false if object.key.is_empty() || (object.key.ends_with('/') && object.size == 0) => {}
            false => plan.others += 1,
        }
    }
    plan.objects = wanted.len();
    plan.bytes = wanted
        .values()
        .fold(0, |sum, object| sum.saturating_add(object.size));
    let mut spelled: HashMap<String, String> = HashMap::new();
    let mut odd: BTreeSet<String> = BTreeSet::new();
    for (key, object) in &wanted {
        let reason = match place(key) {
            Err(reason) => reason.to_owned(),
            Ok(_) if is_directory(key, &wanted) => "other objects lie below it".to_owned(),
            Ok(_) if object.size > limits.bytes => format!(
                "not on this machine: its {} bytes are more than the cache holds; --s3-cache lets it hold more",
                object.size
            ),
            Ok(_) if limits.folds && !is_spelled_alike(key, &mut spelled) => {
                "its name differs from another one by capital letters only".to_owned()
            }
            Ok(_) => continue,
        };
        plan.odd.push(Odd {
            key: key.clone(),
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
    let reason = |size: u64| {
        format!(
            "not on this machine: it has {size} bytes, and the cache holds newer ones; --s3-cache lets it hold more"
        )
    };
    plan.odd.extend(unknown.into_iter().map(|object| Odd {
        reason: reason(object.size),
        key: object.key,
    }));
    let stay: HashSet<&str> = all
        .iter()
        .chain(&known)
        .map(|object| &*object.key)
        .collect();
    plan.gone = kept
        .keys()
        .filter(|key| !stay.contains(&***key))
        .cloned()
        .collect();
    // What was read of them is still known.
    let is_here = |object: &Object| kept.get(&object.key).is_some_and(|kept| !kept.evicted);
    plan.evict = known
        .into_iter()
        .filter(is_here)
        .map(|object| object.key)
        .collect();
    let changed = all
        .into_iter()
        .filter_map(|object| Some((how(&object, kept.get(&object.key))?, object)));
    plan.wanted = changed.map(|(how, object)| (object, how)).collect();
    plan
}

/// Whether an object may belong to a trace, by its name.
fn is_wanted(object: &Object) -> bool {
    let hidden = object
        .key
        .split('/')
        .any(|part| part.starts_with('.') && part != "." && part != "..");
    let path = Path::new(&object.key);
    let ending = object
        .key
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    let is_picture = matches!(
        ending.as_deref(),
        Some("png" | "jpg" | "jpeg" | "gif" | "webp" | "svg")
    );
    !hidden
        && (is_trace_file(path)
            || may_be_trace(path)
            || (is_picture && object.size <= MAX_PICTURE_BYTES))
}

/// Whether other keys go on after this one and a `/`.
fn is_directory(key: &str, all: &BTreeMap<String, Object>) -> bool {
    let below = format!("{key}/");
    all.range(below.clone()..)
        .next()
        .is_some_and(|(next, _)| next.starts_with(&below))
}

/// Whether no other key spells this one, or a directory on its way, in other letters.
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
            // A whole copy proves what pieces did not, once the object is quiet.
            kept.unproven.then_some(How::Whole)
        }
        Some(kept) if kept.size > 0 && object.size > kept.size => Some(How::Rest),
        _ => Some(How::Whole),
    }
}

/// The directory of an object.
fn parent(object: &Object) -> &str {
    object.key.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The place in `asked` that an object belongs to.
fn rank(object: &Object, asked: &[String]) -> usize {
    asked
        .iter()
        .position(|place| is_within(&object.key, place))
        .unwrap_or(asked.len())
}

/// What was asked for comes first. What lies in one directory comes together; directories with the newest objects come
/// first.
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

/// How many of the first ones fit into so many bytes. A directory is not torn apart, as long as it is not the only one.
fn fitting(all: &[Object], limits: Limits<'_>) -> usize {
    let (mut sum, mut whole) = (0_u64, 0);
    for (at, object) in all.iter().enumerate() {
        let group = |object| (rank(object, limits.asked), parent(object));
        if at
            .checked_sub(1)
            .and_then(|before| all.get(before))
            .is_some_and(|before| group(before) != group(object))
        {
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
                .map(|odd| odd.key.clone())
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
            none.odd.iter().map(|odd| &*odd.key).collect::<Vec<_>>(),
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
