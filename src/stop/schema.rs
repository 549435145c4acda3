//! Validates values against a JSON Schema, for `structured_output`. The schema is compiled once,
//! before the run.
//!
//! Uses no network and no files: a schema that refers to anything except itself and the published
//! meta-schemas is refused. `format` is an annotation, as in draft 2020-12. Patterns match in
//! linear time, so they don't support lookaround.
//!
//! The work is bounded for every schema and answer. A schema of thirty lines can expand to a
//! billion subschemas (`a` refers twice to `b`, `b` twice to `c`, and so on), and a stack overflow
//! kills the process. For this reason, the size of the expanded schema is computed first, without
//! expanding it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use jsonschema::Validator;
use referencing::{Draft, Registry, Resolver, Retrieve, Uri, uri};
use regex::RegexBuilder;
use serde_json::Value;

use super::args::MAX_REGEX_BYTES;
use super::custom::{SchemaCheck, SchemaMiss};
use super::text::clip;

/// Base URI for the references of a schema without an `$id`.
const BASE: &str = "json-schema:///";
/// Maximum nesting depth of subschemas, including followed references. At depth 400, the
/// validator's recursion needs 2 MiB.
const MAX_DEPTH: u32 = 128;
/// Maximum number of subschemas after expanding references. Checking all of them takes about 50 ms.
const MAX_PLACES: u64 = 1_000_000;
/// Levels of recursion for which every thread has enough stack.
const SAFE_LEVELS: u32 = 256;
/// Stack size for [`MAX_DEPTH`] levels at each of the 128 levels that parsed JSON can have.
/// Untouched pages cost nothing.
const DEEP_STACK: usize = 64 << 20;

/// Compiles a schema. An error describes what is wrong with it.
pub(super) fn compile(schema: &Value) -> Result<Arc<dyn SchemaCheck>, String> {
    with_room(|| ready(schema))?.map(|ready| Arc::new(ready) as _)
}

fn ready(schema: &Value) -> Result<Compiled, String> {
    let mut schema = schema.clone();
    without_formats(&mut schema);
    let size = unfold(&schema)?;
    // Avoids `jsonschema::options()`, which is generic: it would compile the whole validator again
    // as part of this crate.
    let validator =
        Validator::new(&schema).map_err(|wrong| match wrong.instance_path().to_string() {
            root if root.is_empty() => wrong.to_string(),
            place => format!("{wrong}, at {place:?}"),
        })?;
    patterns(&schema)?;
    Ok(Compiled { validator, size })
}

/// Keywords whose value maps names to schemas.
const NAMED: [&str; 6] = [
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
];
/// Keywords whose value is data, not a schema.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// Removes `format` from a schema, because older drafts assert it.
fn without_formats(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(without_formats),
        Value::Object(keywords) => {
            if keywords.get("format").is_some_and(Value::is_string) {
                keywords.remove("format");
            }
            for (keyword, inner) in keywords {
                match inner {
                    Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                        named.values_mut().for_each(without_formats);
                    }
                    _ if DATA.contains(&keyword.as_str()) => {}
                    inner => without_formats(inner),
                }
            }
        }
        _ => {}
    }
}

/// Refuses patterns that are too large or can't be matched in linear time.
fn patterns(schema: &Value) -> Result<(), String> {
    let check = |pattern: &str| {
        let wrong = || format!("{} is not a \"regex\"", Value::from(pattern));
        let pattern = jsonschema_regex::to_rust_regex(pattern).map_err(|()| wrong())?;
        let built = RegexBuilder::new(&pattern)
            .size_limit(MAX_REGEX_BYTES)
            .build();
        built.map(drop).map_err(|_| wrong())
    };
    match schema {
        Value::Array(schemas) => schemas.iter().try_for_each(patterns),
        Value::Object(keywords) => keywords
            .iter()
            .try_for_each(|(keyword, inner)| match inner {
                Value::String(pattern) if keyword == "pattern" => check(pattern),
                Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                    if keyword == "patternProperties" {
                        named.keys().try_for_each(|pattern| check(pattern))?;
                    }
                    named.values().try_for_each(patterns)
                }
                _ if DATA.contains(&keyword.as_str()) => Ok(()),
                inner => patterns(inner),
            }),
        _ => Ok(()),
    }
}

/// Runs deeply recursive work on a thread with a large stack.
fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, work);
        let thread =
            thread.map_err(|error| format!("can't start a thread to check it: {error}"))?;
        thread
            .join()
            .map_err(|_| "its validator panicked".to_owned())
    })
}

struct Compiled {
    validator: Validator,
    size: Size,
}

impl SchemaCheck for Compiled {
    fn check(&self, value: &Value) -> Result<(), SchemaMiss> {
        let depth = depth(value);
        let levels = if self.size.returns == 0 {
            self.size.depth
        } else {
            self.size.depth.saturating_mul(depth)
        };
        if levels <= SAFE_LEVELS {
            return self.judge(value, depth);
        }
        let nowhere = |message| SchemaMiss {
            instance_path: String::new(),
            message,
        };
        with_room(|| self.judge(value, depth)).map_err(nowhere)?
    }
}

impl Compiled {
    fn judge(&self, value: &Value, depth: u32) -> Result<(), SchemaMiss> {
        // `is_valid` remembers what it has checked. `validate` doesn't, and may check every path
        // again.
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let work = self
            .size
            .returns
            .saturating_pow(depth)
            .saturating_mul(self.size.places);
        let miss = (work <= MAX_PLACES)
            .then(|| self.validator.validate(value).err())
            .flatten();
        Err(match miss {
            Some(wrong) => SchemaMiss {
                instance_path: wrong.instance_path().to_string(),
                // Omits the value itself: the trace refers to texts and doesn't repeat them.
                message: clip(&wrong.masked().to_string(), 240).to_owned(),
            },
            None => SchemaMiss {
                instance_path: String::new(),
                message: "too deep in a schema that refers to itself to say where".into(),
            },
        })
    }
}

fn depth(value: &Value) -> u32 {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    deepest.unwrap_or_default().saturating_add(1)
}

/// The size of a schema with every reference replaced by its target.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// Number of subschemas.
    places: u64,
    /// Number of references back into a subschema that contains them.
    returns: u64,
    /// Nesting depth of subschemas.
    depth: u32,
}

fn unfold(schema: &Value) -> Result<Size, String> {
    let registry = Registry::new()
        .retriever(Alone)
        .add(BASE, schema)
        .and_then(|registry| registry.prepare());
    let registry = registry.map_err(|wrong| wrong.to_string())?;
    let base = uri::from_str(BASE).map_err(|wrong| wrong.to_string())?;
    let mut known = HashMap::new();
    let size = measure(
        schema,
        Draft::default().detect(schema),
        &registry.resolver(base),
        &mut known,
        1,
    )?;
    match size.places {
        places if places > MAX_PLACES => Err(format!(
            "its references expand to more than {MAX_PLACES} subschemas; let fewer of them share a target"
        )),
        _ => Ok(size),
    }
}

/// Measures each subschema once. Meeting a subschema that is still being measured means that the
/// references form a cycle.
fn measure<'r>(
    schema: &'r Value,
    draft: Draft,
    resolver: &Resolver<'r>,
    known: &mut HashMap<*const Value, Option<Size>>,
    depth: u32,
) -> Result<Size, String> {
    match known.entry(std::ptr::from_ref(schema)) {
        Entry::Occupied(met) => {
            return Ok(met.get().unwrap_or(Size {
                places: 1,
                returns: 1,
                depth: 1,
            }));
        }
        Entry::Vacant(new) => new.insert(None),
    };
    let too_deep =
        || format!("it is nested deeper than {MAX_DEPTH} subschemas, including references");
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let here = resolver
        .in_subresource(draft.create_resource_ref(schema))
        .map_err(|wrong| wrong.to_string())?;
    let mut whole = Size {
        places: 1,
        returns: 0,
        depth: 0,
    };
    let mut add = |part: Size| {
        whole.places = whole.places.saturating_add(part.places);
        whole.returns = whole.returns.saturating_add(part.returns);
        whole.depth = whole.depth.max(part.depth);
    };
    for inner in draft.subresources_of(schema) {
        add(measure(
            inner,
            draft.detect(inner),
            &here,
            known,
            depth + 1,
        )?);
    }
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        let Some(reference) = schema.get(keyword).and_then(Value::as_str) else {
            continue;
        };
        let target = here
            .lookup(reference)
            .map_err(|wrong| format!("{keyword} {reference:?}: {wrong}"))?;
        let (target, resolver, draft) = target.into_inner();
        add(measure(target, draft, &resolver, known, depth + 1)?);
    }
    whole.depth += 1;
    // The path that led here first may not be the longest.
    if whole.depth > MAX_DEPTH {
        return Err(too_deep());
    }
    known.insert(std::ptr::from_ref(schema), Some(whole));
    Ok(whole)
}

/// Refuses to retrieve external resources.
struct Alone;

impl Retrieve for Alone {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema can only refer to itself, neither to the network nor to a file".into())
    }
}
