//! Compares the settings of two runs, from their manifests and from the task and critics that the
//! trace records.
//!
//! Manifest members that describe how the run went aren't settings, nor are ids and times. A
//! setting that is missing, `null` or `"unknown"` isn't recorded. Two settings that are not
//! recorded don't differ.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::model::json::{Json, members, same};

/// The settings of two runs, compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The settings that differ, by likely effect: task, model, prompt, tools, critics, stop rules,
    /// seed, the rest.
    pub differs: Vec<Setting>,
    /// The number of further settings that differ, all of less effect.
    pub more: usize,
    /// The paths of the settings that are equal.
    pub equal: Vec<String>,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Setting {
    /// The path in the manifest, or the name in the trace.
    pub path: String,
    /// The value in run A as JSON text; null if it isn't recorded.
    #[serde(serialize_with = "as_json")]
    #[schemars(with = "serde_json::Value")]
    pub a: Option<String>,
    /// The value in run B as JSON text; null if it isn't recorded.
    #[serde(serialize_with = "as_json")]
    #[schemars(with = "serde_json::Value")]
    pub b: Option<String>,
    /// The part of the run that the setting affects.
    pub affects: &'static str,
}

/// Serializes JSON text as the value it holds.
fn as_json<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref()
        .and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
        .serialize(serializer)
}

/// Members of a manifest that describe how the run went, or which run it was.
const NO_SETTINGS: [&str; 18] = [
    "run_id",
    "parent_run_id",
    "status",
    "updated_at",
    "started_at",
    "created_at",
    "event_count",
    "step_count",
    "token_usage",
    "latency_seconds",
    "cost",
    "handoff_count",
    "replay_mode",
    "replay_note",
    "pid",
    "host",
    "stop",
    "resumed_from",
];
/// The members of `summary` that hold settings.
const OF_SUMMARY: [&str; 2] = ["task_meta", "run_meta"];
/// Members of `summary.run_meta` that the manifest repeats at its top level.
const REPEATED: [&str; 2] = ["run_spec", "experiment_spec"];
/// What settings affect, most effect first.
const EFFECTS: [&str; 9] = [
    "the task",
    "the model",
    "the prompt",
    "the tools",
    "the critics",
    "when the run stops",
    "randomness",
    "the environment",
    "other",
];
/// The maximum number of differing settings that are listed. Longer lists aren't useful to a
/// reader.
pub const MAX_DIFFERS: usize = 5_000;
/// Deeper values are compared as a whole.
const MAX_DEPTH: usize = 8;

/// Compares the settings of two runs. `a` and `b` hold their manifests, if readable.
pub fn config(a: (&Summary, Option<&Json<'_>>), b: (&Summary, Option<&Json<'_>>)) -> Config {
    let mut found = ConfigDiff::default();
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let task = |summary: &Summary| summary.task.as_deref().map(text);
    found.add("task", task(a.0), task(b.0));
    let critics = |summary: &Summary| {
        Some(text(&summary.critics.join(", "))).filter(|_| !summary.critics.is_empty())
    };
    found.add("critics", critics(a.0), critics(b.0));
    if a.1.is_none() || b.1.is_none() {
        // Two readable manifests are the better source for the model.
        let model = |summary: &Summary| summary.model.as_deref().map(text);
        found.add("model", model(a.0), model(b.0));
    }
    let object = |json: &&Json<'_>| json.as_object().is_some();
    found.values("", a.1.filter(object), b.1.filter(object), 0);
    let mut config = found.config;
    config
        .differs
        .sort_by_key(|setting| EFFECTS.iter().position(|effect| *effect == setting.affects));
    config.more = config.differs.len().saturating_sub(MAX_DIFFERS);
    config.differs.truncate(MAX_DIFFERS);
    config
}

impl Config {
    /// Returns the number of settings that differ.
    pub fn count(&self) -> usize {
        self.differs.len() + self.more
    }

    /// Returns the number of settings that differ, in words: `2 differ`.
    pub fn differing(&self) -> String {
        match self.count() {
            0 => "none differ".to_owned(),
            1 => "1 differs".to_owned(),
            count => format!("{} differ", format::count(count as u64)),
        }
    }
}

/// The differences found so far.
#[derive(Default)]
struct ConfigDiff {
    config: Config,
    /// The values in both runs and the effect of each setting that differs.
    known: HashSet<(Option<String>, Option<String>, &'static str)>,
}

impl ConfigDiff {
    fn values<'v>(
        &mut self,
        path: &str,
        a: Option<&'v Json<'v>>,
        b: Option<&'v Json<'v>>,
        depth: usize,
    ) {
        let at = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        if depth < MAX_DEPTH
            && let (Some(one), Some(other)) = (a.and_then(parts), b.and_then(parts))
        {
            let of_a: HashMap<&str, &Json<'_>> = one.iter().copied().collect();
            let of_b: HashMap<&str, &Json<'_>> = other.iter().copied().collect();
            let mut names: Vec<&str> = one
                .iter()
                .chain(&other)
                .map(|(name, _)| *name)
                .filter(|name| is_setting(path, name))
                .collect();
            // Only the first of several settings with the same pair of values is kept. Sorting
            // makes that choice independent of the order of the runs.
            names.sort_unstable();
            names.dedup();
            for name in names {
                self.values(
                    &at(name),
                    of_a.get(name).copied(),
                    of_b.get(name).copied(),
                    depth + 1,
                );
            }
            return;
        }
        let (a, b) = (
            a.filter(|value| is_said(value)),
            b.filter(|value| is_said(value)),
        );
        match (a, b) {
            (None, None) => {}
            // An empty value and a missing one are the same setting.
            (Some(value), None) | (None, Some(value)) if value.is_empty() => {}
            (Some(one), Some(other)) if same(one, other) => self.config.equal.push(path.to_owned()),
            _ => self.add(path, a.map(ToString::to_string), b.map(ToString::to_string)),
        }
    }

    fn add(&mut self, path: &str, a: Option<String>, b: Option<String>) {
        let affects = affects(path);
        if a == b {
            self.config
                .equal
                .extend(a.is_some().then(|| path.to_owned()));
        // The same pair of values under another name adds nothing.
        } else if self.known.insert((a.clone(), b.clone(), affects)) {
            self.config.differs.push(Setting {
                path: path.to_owned(),
                a,
                b,
                affects,
            });
        }
    }
}

type Parts<'v> = Vec<(&'v str, &'v Json<'v>)>;

/// Returns the parts of a value by name: the members of an object, or the items of a list if each
/// has a unique name.
fn parts<'v>(value: &'v Json<'v>) -> Option<Parts<'v>> {
    match value {
        Json::Object(_) => Some(members(value)),
        Json::Array(items) if !items.is_empty() => {
            let mut names = HashSet::new();
            let named = |item: &'v Json<'v>| {
                let name = item.get("name")?.as_str()?;
                names.insert(name).then_some((name, item))
            };
            items.iter().map(named).collect()
        }
        _ => None,
    }
}

fn is_setting(path: &str, name: &str) -> bool {
    match path {
        "" => !NO_SETTINGS.contains(&name),
        "summary" => OF_SUMMARY.contains(&name),
        "summary.run_meta" => !REPEATED.contains(&name),
        _ => true,
    }
}

fn is_said(value: &Json<'_>) -> bool {
    !matches!(value, Json::Null) && value.as_str() != Some("unknown")
}

/// Returns what a setting affects, judged by its path.
fn affects(path: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| path.contains(word));
    let at = match path {
        _ if has(&["budget", "stop", "criteria", "max_", "run_defaults"]) => 5,
        _ if has(&["tool"]) => 3,
        _ if has(&["model"]) => 1,
        _ if has(&["prompt", "protocol", "parser"]) => 2,
        _ if has(&["critic", "judge"]) => 4,
        _ if has(&["seed"]) => 6,
        _ if has(&["env", "context"]) => 7,
        _ if has(&["task", "benchmark", "input"]) => 0,
        _ => 8,
    };
    EFFECTS.get(at).copied().unwrap_or_default()
}
