//! The arguments of each tool, and how it is answered from documents of the API.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;

use super::session::{Document, Session, Trouble};
use crate::model::RunKey;
use crate::model::json::Json;
use crate::page::part::href;
use crate::page::runs::named::named;

/// How many runs a list has by default.
const RUNS: usize = 30;
/// How many steps a list has by default.
const STEPS: usize = 50;
/// How many rows are shown before and after the point where two runs diverge.
const AROUND: usize = 5;
/// How many hits an answer has by default.
const HITS: usize = 40;
/// The time limit of a search. After it the answer has the hits so far.
const SEARCH_TIME: Duration = Duration::from_secs(30);
/// The pause between polls of a search. Each poll waits for a while too.
const SEARCH_AGAIN: Duration = Duration::from_millis(50);
/// The columns of a list of runs. The other tools have the rest.
const FIELDS: [&str; 34] = [
    "key",
    "verdict",
    "outcome",
    "result",
    "liveness",
    "certainty",
    "stop_reason",
    "steps",
    "errors",
    "max_steps",
    "tokens",
    "tokens_estimated",
    "cost_usd",
    "cost_estimated",
    "duration_ms",
    "duration_at_least_ms",
    "last_score",
    "tool_errors",
    "turns",
    "children",
    "parent",
    "format",
    "model",
    "task",
    "project",
    "started_at",
    "updated_at",
    "issues",
    "contradictions",
    "partial",
    "also_at",
    "copies_say",
    "copied_from",
    "copied_steps",
];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRuns {
    /// Selects runs by words and by terms such as outcome:failed result:success status:limit stop:final steps>10 tool:NAME err:true model:NAME
    /// task:WORD score<0.5 started:2026-02-22. `-term` negates. All terms must match
    #[serde(default)]
    query: String,
    /// The field to sort by, such as updated, steps, tokens, cost, duration, score. A leading `-` reverses the order
    #[serde(default)]
    sort: String,
    /// Maximum number of runs. Default: 30
    #[serde(default, deserialize_with = "whole_number")]
    limit: Option<usize>,
    /// Continues a list: `next` from the previous result
    #[serde(default)]
    after: String,
    /// Includes all fields of each run
    #[serde(default)]
    whole: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    /// The run: its key from list_runs, its path, or its id
    run: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The run: its key from list_runs, its path, or its id
    run: String,
    /// The number of the step to show, counted from 0. Without it, the steps are listed
    // Responses and the command line call it `step`.
    #[serde(default, alias = "step", deserialize_with = "whole_number")]
    n: Option<usize>,
    /// With n: includes the events of the step, which mostly repeat its content
    #[serde(default)]
    events: bool,
    /// Without n: lists the steps after this one
    #[serde(default, deserialize_with = "whole_number")]
    after: Option<usize>,
    /// Without n: maximum number of steps. Default: 50
    #[serde(default, deserialize_with = "whole_number")]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// The run: its key from list_runs, its path, or its id
    run: String,
    /// The step number, counted from 0. Default: the last step
    #[serde(default, alias = "step", deserialize_with = "whole_number")]
    n: Option<usize>,
    /// Shows the history of one value up to that step: a key, plan[0].status, or /plan/0/status
    #[serde(default)]
    key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageOf {
    /// How runs are grouped: daily, weekly, monthly, run, model or project. Default: daily
    #[serde(default)]
    by: String,
    /// Counts only the runs that match this query. Same syntax as in list_runs
    #[serde(default)]
    query: String,
    /// The first day, YYYY-MM-DD
    #[serde(default)]
    since: String,
    /// The last day, YYYY-MM-DD
    #[serde(default)]
    until: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OverviewOf {
    /// Counts only the runs that match this query. Same syntax as in list_runs
    #[serde(default)]
    query: String,
    /// The first day, YYYY-MM-DD. With it, totals are compared with as many days before
    #[serde(default)]
    since: String,
    /// The last day, YYYY-MM-DD
    #[serde(default)]
    until: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FailuresOf {
    /// Counts only the runs that match this query. Same syntax as in list_runs
    #[serde(default)]
    query: String,
    /// Maximum number of failures, those that ended most runs first. Default: 20
    #[serde(default, deserialize_with = "whole_number")]
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentOf {
    /// The query that selects the first set. Same syntax as in list_runs
    a: String,
    /// The query that selects the second set
    b: String,
    /// Which runs are paired: those of the same task, or none. Default: task
    #[serde(default)]
    by: String,
    /// What counts as a success: recorded, finished, or a critic's last score, such as tests>=1. Default: recorded
    #[serde(default)]
    success: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    /// A run: its key from list_runs, its path, or its id
    a: String,
    /// The other run
    b: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhatIf {
    /// The run: its key from list_runs, its path, or its id
    run: String,
    /// The rules to try: max_steps=8, token_budget=10000, timeout=60, max_cost=0.5, loop_detection=3, stagnation=4,
    /// critic_below=NAME:SCORE:STEPS, stop_on_tool=NAME, keyword=TEXT, ..., or JSON such as
    /// {"type":"any_of","of":[{"type":"max_steps","steps":8},{"type":"stagnation","steps":3}]}
    #[schemars(length(min = 1))]
    rules: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// The literal text to find. Case-insensitive for ASCII only
    text: String,
    /// Searches only the runs that match this query. Same syntax as in list_runs
    #[serde(default)]
    query: String,
    /// Maximum number of hits. Default: 40
    #[serde(default, deserialize_with = "whole_number")]
    limit: Option<usize>,
    /// `messages` searches only messages and tool calls, which has fewer hits in ids and numbers. `files` searches
    /// everything in the files. Default: files
    #[serde(default)]
    scope: String,
}

pub(super) async fn list(session: &Session, args: ListRuns) -> Document {
    let limit = args.limit.unwrap_or(RUNS).to_string();
    let query = [
        ("q", &*args.query),
        ("sort", &args.sort),
        ("limit", &limit),
        ("after", &args.after),
    ];
    let runs = session.get("/api/runs", &query).await?;
    if args.whole {
        return Ok(runs);
    }
    Ok(picked(&runs, |name, value| match (name, value) {
        ("runs", Json::Array(rows)) => {
            let row = |row: Json<'_>| match row {
                Json::Object(mut fields) => {
                    fields.retain(|(name, _)| FIELDS.contains(&&**name));
                    Json::Object(fields).to_string()
                }
                other => other.to_string(),
            };
            Some(format!(
                "[{}]",
                rows.into_iter().map(row).collect::<Vec<_>>().join(",")
            ))
        }
        (_, value) => Some(value.to_string()),
    }))
}

pub(super) async fn why(session: &Session, args: Why) -> Document {
    let key = run(session, &args.run)?;
    with_key(session.get(&below(&key, "why"), &[]).await?, &key)
}

pub(super) async fn step(session: &Session, args: Step) -> Document {
    let key = run(session, &args.run)?;
    let Some(n) = args.n else {
        let number =
            |number: Option<usize>| number.map(|number| number.to_string()).unwrap_or_default();
        let (after, limit) = (number(args.after), number(args.limit.or(Some(STEPS))));
        return with_key(
            session
                .get(
                    &below(&key, "steps"),
                    &[("after", &after), ("limit", &limit)],
                )
                .await?,
            &key,
        );
    };
    let step = session
        .get(&below(&key, &format!("steps/{n}")), &[])
        .await?;
    if args.events {
        return with_key(step, &key);
    }
    let step = picked(&step, |name, value| match (name, value) {
        // Only their number.
        ("events", Json::Array(events)) => Some(events.len().to_string()),
        ("first_event" | "repaired_events", _) => None,
        (_, value) => Some(value.to_string()),
    });
    with_key(step, &key)
}

pub(super) async fn state(session: &Session, args: State) -> Document {
    let key = run(session, &args.run)?;
    let n = match args.n {
        Some(n) => n,
        None => last_step(session, &key).await?,
    };
    let part = format!("state/{n}");
    let asked = match args.key.as_str() {
        "" => session.get(&below(&key, &part), &[]).await?,
        value => {
            session
                .get(&below(&key, &format!("{part}/history")), &[("key", value)])
                .await?
        }
    };
    with_key(asked, &key)
}

/// The ordinal of the last step. It can't be counted: a run with skipped steps has more steps than ordinals.
async fn last_step(session: &Session, key: &RunKey) -> Result<usize, Trouble> {
    let steps = session.get(&below(key, "steps"), &[("limit", "1")]).await?;
    let total = Json::parse(&steps).and_then(|steps| steps.get("total").and_then(Json::as_f64));
    let last = total.and_then(|total| (total as usize).checked_sub(1));
    last.ok_or_else(|| Trouble::new(format!("{key} has no recorded steps")))
}

pub(super) async fn usage(session: &Session, args: UsageOf) -> Document {
    let query = [
        ("by", &*args.by),
        ("q", &args.query),
        ("since", &args.since),
        ("until", &args.until),
    ];
    session.get("/api/usage", &query).await
}

pub(super) async fn overview(session: &Session, args: OverviewOf) -> Document {
    let query = [
        ("q", &*args.query),
        ("since", &args.since),
        ("until", &args.until),
    ];
    session.get("/api/overview", &query).await
}

pub(super) async fn failures(session: &Session, args: FailuresOf) -> Document {
    let limit = args.limit.unwrap_or(20).to_string();
    let query = [("q", &*args.query), ("limit", &limit)];
    session.get("/api/failures", &query).await
}

pub(super) async fn experiment(session: &Session, args: ExperimentOf) -> Document {
    let query = [
        ("a", &*args.a),
        ("b", &args.b),
        ("by", &args.by),
        ("success", &args.success),
    ];
    session.get("/api/experiments", &query).await
}

pub(super) async fn diff(session: &Session, args: Diff) -> Document {
    let (a, b) = (run(session, &args.a)?, run(session, &args.b)?);
    let compared = session
        .get("/api/compare", &[("a", a.as_str()), ("b", b.as_str())])
        .await?;
    let whole = Json::parse(&compared).unwrap_or(Json::Null);
    let number = |name: &str| {
        whole
            .get(name)
            .and_then(Json::as_f64)
            .map(|number| number as usize)
    };
    let parts = whole
        .get("first_divergence")
        .is_some_and(|first| *first != Json::Null);
    // The runs are equal up to there. Runs that are equal throughout show their last rows.
    let rows = whole
        .get("aligned")
        .and_then(Json::as_array)
        .map_or(0, <[_]>::len);
    let at = if parts {
        number("common_prefix").unwrap_or_default()
    } else {
        rows
    };
    let from = at.saturating_sub(AROUND);
    let compared = picked(&compared, |name, value| match (name, value) {
        ("aligned", Json::Array(rows)) => {
            let shown: Vec<_> = rows
                .iter()
                .skip(from)
                .take(2 * AROUND + 1)
                .map(ToString::to_string)
                .collect();
            Some(format!(
                "{{\"from\":{from},\"of\":{},\"rows\":[{}]}}",
                rows.len(),
                shown.join(",")
            ))
        }
        (_, value) => Some(value.to_string()),
    });
    Ok(compared)
}

pub(super) async fn whatif(session: &Session, args: WhatIf) -> Document {
    let key = run(session, &args.run)?;
    if args.rules.is_empty() {
        return Err(
            Trouble::new("no rules given").hint("rules must be a list such as [\"max_steps=8\"]")
        );
    }
    let rules: Vec<_> = args
        .rules
        .iter()
        .map(|rule| ("rule", rule.as_str()))
        .collect();
    session.get(&below(&key, "whatif"), &rules).await
}

/// Full-text search. Polls until the search is done or its time is up.
pub(super) async fn search(session: &Session, args: Search) -> Document {
    if args.text.is_empty() {
        return Err(
            Trouble::new("text is empty").hint("use list_runs to find runs by their properties")
        );
    }
    let limit = args.limit.unwrap_or(HITS).to_string();
    let ask = async |cancel: &str| {
        let query = [
            ("q", args.text.as_str()),
            ("in", &args.query),
            ("limit", &limit),
            ("scope", &args.scope),
            ("cancel", cancel),
        ];
        session.get("/api/search", &query).await
    };
    let end = Instant::now() + SEARCH_TIME;
    loop {
        let found = ask("").await?;
        let (is_open, number) = {
            let found = Json::parse(&found).unwrap_or(Json::Null);
            let is_open = found.get("state").and_then(Json::as_str) == Some("running");
            (
                is_open,
                found
                    .get("number")
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            )
        };
        if !is_open {
            return Ok(found);
        }
        if Instant::now() >= end {
            let _ = ask(&number).await;
            return Ok(found);
        }
        tokio::time::sleep(SEARCH_AGAIN).await;
    }
}

/// Finds the run that a client names.
fn run(session: &Session, text: &str) -> Result<RunKey, Trouble> {
    named(&session.state.library, text).map_err(|close| {
        let trouble = Trouble::new(format!("no run named {text}"));
        let trouble = close.iter().fold(trouble, |trouble, key| {
            trouble.hint(format!("did you mean {key}?"))
        });
        trouble.hint("use list_runs to list the runs")
    })
}

fn below(key: &RunKey, part: &str) -> String {
    format!("/api{}/{part}", href::run(key.as_str()))
}

/// Puts the key of the run first, since the client may have named the run by its path or id.
fn with_key(document: String, key: &RunKey) -> Document {
    let Some(Json::Object(mut fields)) = Json::parse(&document) else {
        return Ok(document);
    };
    if !fields.iter().any(|(name, _)| name == "run") {
        fields.insert(0, ("run".into(), Json::String(Cow::Borrowed(key.as_str()))));
    }
    Ok(Json::Object(fields).to_string())
}

/// Replaces values of the document by JSON text, and drops those without a replacement.
fn picked(document: &str, other: impl Fn(&str, Json<'_>) -> Option<String>) -> String {
    let Some(Json::Object(fields)) = Json::parse(document) else {
        return document.to_owned();
    };
    let fields = fields.into_iter().filter_map(|(name, value)| {
        let value = other(&name, value)?;
        Some(format!("{}:{value}", Json::String(name)))
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// Reads a number of an argument. Serde's own error names the type in the code.
fn whole_number<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    value.deserialize_u64(WholeNumber).map(Some)
}

struct WholeNumber;

impl Visitor<'_> for WholeNumber {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number ≥ 0")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<usize, E> {
        let invalid = |_| E::invalid_value(Unexpected::Unsigned(number), &self);
        usize::try_from(number).map_err(invalid)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<usize, E> {
        let invalid = |_| E::invalid_value(Unexpected::Signed(number), &self);
        usize::try_from(number).map_err(invalid)
    }
}
