//! Compares the settings of runs, from their manifests and from the task and critics that the
//! trace records.
//!
//! Manifest members that describe how the run went aren't settings, nor are ids and times. A
//! setting that is missing, `null` or `"unknown"` isn't recorded. Settings that no run records don't
//! differ.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::several::MAX_ALIGNED;
use crate::analysis::format;
use crate::analysis::summary::Summary;
use crate::model::json::{Json, members, same};

/// The settings of runs, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config<S = Setting> {
    /// The settings that differ, by likely effect: task, model, prompt, tools, critics, stop rules,
    /// seed, the rest.
    pub differs: Vec<S>,
    /// The number of further settings that differ, all of less effect.
    pub more: usize,
    /// The paths of the settings that are equal.
    pub equal: Vec<String>,
}

/// A setting that differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Setting {
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

/// A setting that differs between several runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct SettingOfSeveral {
    /// The path in the manifest, or the name in the trace.
    pub path: String,
    /// The value in each run, in the order of the runs; null if it isn't recorded.
    #[serde(serialize_with = "all_as_json")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<Option<String>>,
    /// The part of the run that the setting affects.
    pub affects: &'static str,
}

impl From<SettingOfSeveral> for Setting {
    fn from(setting: SettingOfSeveral) -> Self {
        let mut values = setting.values.into_iter();
        Self {
            path: setting.path,
            a: values.next().flatten(),
            b: values.next().flatten(),
            affects: setting.affects,
        }
    }
}

/// Serializes JSON text as the value it holds.
fn as_json<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    raw(text).serialize(serializer)
}

fn all_as_json<S: Serializer>(texts: &[Option<String>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(raw))
}

fn raw(text: &Option<String>) -> Option<&RawValue> {
    text.as_deref()
        .and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
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
pub(crate) const MAX_DIFFERS: usize = 5_000;
/// Values of more than [`MAX_ALIGNED`] runs are cut to this many bytes, since they're only shown
/// next to each other.
const MAX_OF_MANY: usize = 2_000;
/// Deeper values are compared as a whole.
const MAX_DEPTH: usize = 8;

/// Compares the settings of two runs. `a` and `b` hold their manifests, if readable.
pub(crate) fn config(a: (&Summary, Option<&Json<'_>>), b: (&Summary, Option<&Json<'_>>)) -> Config {
    let Config {
        differs,
        more,
        equal,
    } = config_of_several(&[a, b]);
    Config {
        differs: differs.into_iter().map(Setting::from).collect(),
        more,
        equal,
    }
}

/// Compares the settings of several runs, each with its manifest if that is readable.
pub(crate) fn config_of_several(
    runs: &[(&Summary, Option<&Json<'_>>)],
) -> Config<SettingOfSeveral> {
    let mut found = ConfigDiff::default();
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let of = |value: &dyn Fn(&Summary) -> Option<String>| -> Vec<Option<String>> {
        runs.iter().map(|(summary, _)| value(summary)).collect()
    };
    found.add("task", of(&|summary| summary.task.as_deref().map(text)));
    found.add(
        "critics",
        of(&|summary| {
            Some(text(&summary.critics.join(", "))).filter(|_| !summary.critics.is_empty())
        }),
    );
    if runs.iter().any(|(_, manifest)| manifest.is_none()) {
        // Readable manifests of all runs are the better source for the model.
        found.add("model", of(&|summary| summary.model.as_deref().map(text)));
    }
    let object = |json: &&Json<'_>| json.as_object().is_some();
    let manifests: Vec<Option<&Json<'_>>> = runs
        .iter()
        .map(|(_, manifest)| manifest.filter(object))
        .collect();
    found.values("", &manifests, 0);
    let mut config = found.config;
    config
        .differs
        .sort_by_key(|setting| EFFECTS.iter().position(|effect| *effect == setting.affects));
    config.more = config.differs.len().saturating_sub(MAX_DIFFERS);
    config.differs.truncate(MAX_DIFFERS);
    config
}

impl<S> Config<S> {
    /// Returns the number of settings that differ.
    pub(crate) fn count(&self) -> usize {
        self.differs.len() + self.more
    }

    /// Returns the number of settings that differ, in words: `2 differ`.
    pub(crate) fn differing(&self) -> String {
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
    config: Config<SettingOfSeveral>,
    /// A hash of the values in all runs and the effect of each setting that differs.
    known: HashSet<u64>,
}

impl<S> Default for Config<S> {
    fn default() -> Self {
        Self {
            differs: Vec::new(),
            more: 0,
            equal: Vec::new(),
        }
    }
}

impl ConfigDiff {
    fn values<'v>(&mut self, path: &str, values: &[Option<&'v Json<'v>>], depth: usize) {
        let at = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        let recorded: Vec<Option<&Json<'_>>> = values
            .iter()
            .map(|value| value.filter(|value| is_said(value)))
            .collect();
        let members: Option<Vec<Parts<'_>>> =
            recorded.iter().flatten().map(|json| parts(json)).collect();
        if depth < MAX_DEPTH
            && let Some(members) = members.filter(|members| members.len() > 1)
        {
            // Only the first of several settings with the same values is kept. Sorting makes that
            // choice independent of the order of the runs.
            let mut names: Vec<&str> = members
                .iter()
                .flatten()
                .map(|(name, _)| *name)
                .filter(|name| is_setting(path, name))
                .collect();
            names.sort_unstable();
            names.dedup();
            let mut members = members.into_iter();
            let by_name: Vec<HashMap<&str, &Json<'_>>> = recorded
                .iter()
                .map(|value| {
                    let own = value.and_then(|_| members.next());
                    own.into_iter().flatten().collect()
                })
                .collect();
            for name in names {
                let below: Vec<Option<&Json<'_>>> =
                    by_name.iter().map(|of| of.get(name).copied()).collect();
                self.values(&at(name), &below, depth + 1);
            }
            return;
        }
        let mut known = recorded.iter().flatten();
        let Some(first) = known.next() else {
            return;
        };
        let in_all = recorded.iter().all(Option::is_some);
        if in_all && known.clone().all(|other| same(first, other)) {
            self.config.equal.push(path.to_owned());
        // An empty value and a missing one are the same setting.
        } else if in_all || !first.is_empty() || known.any(|other| !other.is_empty()) {
            let text = |value: &Option<&Json<'_>>| value.map(ToString::to_string);
            self.add(path, recorded.iter().map(text).collect());
        }
    }

    fn add(&mut self, path: &str, mut values: Vec<Option<String>>) {
        let affects = affects(path);
        let mut pairs = values.iter().zip(values.iter().skip(1));
        if pairs.all(|(one, other)| one == other) {
            let is_recorded = values.iter().any(Option::is_some);
            self.config
                .equal
                .extend(is_recorded.then(|| path.to_owned()));
        // The same values under another name add nothing.
        } else if self.known.insert(hash(&(&values, affects))) {
            if values.len() > MAX_ALIGNED {
                for value in values.iter_mut().flatten() {
                    value.truncate(value.floor_char_boundary(MAX_OF_MANY));
                }
            }
            self.config.differs.push(SettingOfSeveral {
                path: path.to_owned(),
                values,
                affects,
            });
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
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
