//! Describes the API as an OpenAPI 3.1 document, served at `/api/openapi.json`.
//!
//! Schemas are generated from the response types, and their descriptions from the comments on those
//! types.

use std::sync::{Arc, OnceLock};

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::analysis::columns::COLUMNS;
use crate::analysis::compare::ComparedRuns;
use crate::analysis::experiment::Experiment;
use crate::analysis::failures::Failures;
use crate::analysis::files::ChangedFiles;
use crate::analysis::many::Overview;
use crate::analysis::run_document::Run;
use crate::analysis::scores::RecordedScores;
use crate::analysis::state::{History, State};
use crate::analysis::step_document::{Step, Steps};
use crate::analysis::summary::Summary;
use crate::analysis::usage::Usage;
use crate::analysis::whatif::WhatIfReport;
use crate::analysis::why::Why;
use crate::page::extract::is_api_path;
use crate::page::{edits, error, jump, run, runs, search, sweep};
use crate::serve::health::Health;

/// The document, built on first request.
static DOCUMENT: OnceLock<String> = OnceLock::new();

/// `GET /api/openapi.json`
pub(crate) async fn document() -> impl IntoResponse {
    (
        [(CONTENT_TYPE, "application/json")],
        DOCUMENT.get_or_init(|| made().to_string()).as_str(),
    )
}

/// An address of the API.
struct Address {
    path: &'static str,
    about: &'static str,
    query: &'static [Param],
    gives: Gives,
}

/// The response at an address.
enum Gives {
    /// A JSON document with this schema.
    Json(fn(&mut SchemaGenerator) -> Value),
    /// Another format, by media type.
    Other(&'static str),
}

/// A query parameter: its name, the values it takes, and its description.
struct Param(&'static str, Takes, &'static str);

enum Takes {
    Text,
    /// A required text.
    Needed,
    Texts,
    /// A whole number with this minimum.
    Number(u64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A sort column. Without it, the newest runs come first.
    Column,
}

use Takes::{Needed, Number, Text, Texts, Words};

const QUERY: Param = Param(
    "q",
    Text,
    "Selects runs: words, `field:value`, `field>number`, `-term`.",
);
const LIMIT: Param = Param(
    "limit",
    Number(1),
    "Maximum number of items. At most 10,000.",
);
const AFTER: Param = Param(
    "after",
    Number(0),
    "The value of `next` in the previous response.",
);
const RULES: Param = Param(
    "rule",
    Texts,
    "A stop rule in short form, such as `max_steps=8`, or as JSON. Repeatable.",
);
const AGAIN: Param = Param(
    "again",
    Text,
    "Starts over instead of returning the result with this `number`.",
);
const CANCEL: Param = Param(
    "cancel",
    Text,
    "Cancels the work on the result with this `number`.",
);
const SORT: Param = Param(
    "sort",
    Takes::Column,
    "The field to sort by. A leading `-` reverses the order.",
);

/// Returns the schema of `T`, for [`Gives::Json`].
fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

const ADDRESSES: &[Address] = &[
    Address {
        path: "/api/runs",
        about: "List runs",
        query: &[
            QUERY,
            SORT,
            LIMIT,
            Param(
                "after",
                Text,
                "The value of `next` in the previous response.",
            ),
            Param(
                "group",
                Words(&[
                    "day", "week", "model", "status", "stop", "writer", "project", "task", "log",
                    "agent", "parent",
                ]),
                "Groups runs.",
            ),
        ],
        gives: Gives::Json(of::<runs::api::Runs<'static, Arc<Summary>>>),
    },
    Address {
        path: "/runs.csv",
        about: "List all runs as CSV",
        query: &[QUERY, SORT],
        gives: Gives::Other("text/csv"),
    },
    Address {
        path: "/api/runs/{key}",
        about: "Get a run",
        query: &[],
        gives: Gives::Json(of::<Run<'static>>),
    },
    Address {
        path: "/api/runs/{key}/steps",
        about: "List the steps of a run",
        query: &[AFTER, LIMIT],
        gives: Gives::Json(of::<Steps>),
    },
    Address {
        path: "/api/runs/{key}/steps/{n}",
        about: "Get a step with its line and events as recorded",
        query: &[],
        gives: Gives::Json(of::<Step<'static>>),
    },
    Address {
        path: "/api/runs/{key}/scores",
        about: "Get critic scores by step",
        query: &[],
        gives: Gives::Json(of::<RecordedScores>),
    },
    Address {
        path: "/runs/{key}/scores.csv",
        about: "Get critic scores by step as CSV",
        query: &[],
        gives: Gives::Other("text/csv"),
    },
    Address {
        path: "/api/runs/{key}/state/{n}",
        about: "Get the state after a step",
        query: &[],
        gives: Gives::Json(of::<State>),
    },
    Address {
        path: "/api/runs/{key}/state/{n}/history",
        about: "Get the history of one state value, up to a step",
        query: &[Param(
            "key",
            Needed,
            "The value: a key, `plan[0].status` or `/plan/0/status`.",
        )],
        gives: Gives::Json(of::<History>),
    },
    Address {
        path: "/api/runs/{key}/why",
        about: "Explain why a run stopped, with evidence",
        query: &[],
        gives: Gives::Json(of::<Why>),
    },
    Address {
        path: "/api/runs/{key}/files",
        about: "List the files that tool calls edited",
        query: &[AFTER, LIMIT],
        gives: Gives::Json(of::<ChangedFiles<'static>>),
    },
    Address {
        path: "/api/runs/{key}/whatif",
        about: "Evaluate other stop rules on a run",
        query: &[RULES],
        gives: Gives::Json(of::<WhatIfReport>),
    },
    Address {
        path: "/api/runs/{key}/raw",
        about: "Get the files of a run as one document, with lines unchanged",
        query: &[],
        gives: Gives::Json(of::<run::json_raw::Raw>),
    },
    Address {
        path: "/runs/{key}/export.html",
        about: "Export a run as a self-contained HTML page",
        query: &[
            Param("step", Number(0), "The step at which the page opens."),
            Param(
                "redact",
                Words(&["", "0", "1"]),
                "With 1, secrets are redacted.",
            ),
        ],
        gives: Gives::Other("text/html"),
    },
    Address {
        path: "/api/compare",
        about: "Compare two to six runs",
        query: &[
            Param("a", Needed, "The key of a run."),
            Param("b", Needed, "The key of the other run."),
            Param("c", Text, "The key of a third run."),
            Param("d", Text, "The key of a fourth run."),
            Param("e", Text, "The key of a fifth run."),
            Param("f", Text, "The key of a sixth run."),
        ],
        gives: Gives::Json(of::<ComparedRuns<'static>>),
    },
    Address {
        path: "/api/whatif",
        about: "Evaluate stop rules on many runs. Without a rule, varies max_steps",
        query: &[
            QUERY,
            Param("sweep", Text, "The rule whose limit is varied."),
            Param("values", Text, "The limits to try: `1..40`, `1,2,5`."),
            Param("critic", Text, "The critic, if the varied rule needs one."),
            Param(
                "streak",
                Text,
                "The number of consecutive low scores, if the varied rule needs a critic.",
            ),
            RULES,
            AGAIN,
            CANCEL,
        ],
        gives: Gives::Json(of::<sweep::SweepDocument<'static>>),
    },
    Address {
        path: "/api/usage",
        about: "Get the tokens and the cost of runs by day, week, month, run, model or project",
        query: &[
            QUERY,
            Param(
                "by",
                Words(&[
                    "daily", "weekly", "monthly", "run", "session", "model", "project",
                ]),
                "How runs are grouped. `run` is `session` in the response.",
            ),
            Param("since", Text, "The first day, `YYYY-MM-DD`."),
            Param("until", Text, "The last day, `YYYY-MM-DD`."),
            LIMIT,
        ],
        gives: Gives::Json(of::<Usage>),
    },
    Address {
        path: "/api/overview",
        about: "Get an overview of runs: the finding, totals, and runs by day, model, task, hour, stop reason, tool and project",
        query: &[
            QUERY,
            Param("since", Text, "The first day, `YYYY-MM-DD`."),
            Param("until", Text, "The last day, `YYYY-MM-DD`."),
        ],
        gives: Gives::Json(of::<Overview>),
    },
    Address {
        path: "/api/failures",
        about: "List recurring failures by message, with the number of runs and steps, the runs that each ended, and what happened next",
        query: &[QUERY, LIMIT],
        gives: Gives::Json(of::<Failures>),
    },
    Address {
        path: "/api/experiments",
        about: "Compare two sets of runs: success, scores, tokens, cost and time, task by task",
        query: &[
            Param("a", Needed, "Selects the runs of the first set."),
            Param("b", Needed, "Selects the runs of the second set."),
            Param(
                "by",
                Words(&["task", "none", "nothing"]),
                "How runs are paired.",
            ),
            Param(
                "success",
                Text,
                "What counts as a success: `recorded` (the default), `finished`, or a critic's last score, such as `tests>=1`.",
            ),
        ],
        gives: Gives::Json(of::<Experiment>),
    },
    Address {
        path: "/api/search",
        about: "Search the text of runs",
        query: &[
            Param("q", Text, "The text to search for."),
            Param("in", Text, "Selects the runs to search."),
            Param("limit", Number(0), "Maximum number of hits."),
            Param(
                "scope",
                Words(&["", "files", "messages", "said"]),
                "Search everything in the files, or only messages and tool calls.",
            ),
            Param(
                "wait",
                Words(&["", "all", "hits"]),
                "`all` (the default) answers when the search ends, or after a second. `hits` also answers as soon as there are `limit` hits. While `state` is `running`, the counts are lower bounds.",
            ),
            AGAIN,
            CANCEL,
        ],
        gives: Gives::Json(of::<search::SearchDocument<'static>>),
    },
    Address {
        path: "/api/jump",
        about: "Suggest runs, steps, tabs, pages and commands for a search text",
        query: &[
            Param("q", Text, "The search text."),
            Param("at", Text, "The address of the current page."),
        ],
        gives: Gives::Json(of::<jump::Offers>),
    },
    Address {
        path: "/api/edits",
        about: "List the newest file edits in the newest 200 matching runs",
        query: &[
            Param("q", Text, "Selects the runs."),
            Param("file", Text, "Only files whose path contains this text."),
            Param(
                "after",
                Number(0),
                "The value of `next` in the previous response.",
            ),
            Param("limit", Number(1), "Maximum number of edits."),
        ],
        gives: Gives::Json(of::<edits::recent::RecentEdits>),
    },
    Address {
        path: "/api/complete",
        about: "Complete a filter: fields, or values of a field with their counts",
        query: &[
            Param("q", Text, "The filter up to the caret."),
            Param("rest", Text, "The filter after the caret."),
        ],
        gives: Gives::Json(of::<runs::complete::Completions>),
    },
    Address {
        path: "/api/openapi.json",
        about: "Get this document",
        query: &[],
        gives: Gives::Json(of::<Map<String, Value>>),
    },
    Address {
        path: "/events",
        about: "Stream the revisions of all runs",
        query: &[],
        gives: Gives::Other(STREAM),
    },
    Address {
        path: "/runs/{key}/events",
        about: "Stream the revisions of one run",
        query: &[],
        gives: Gives::Other(STREAM),
    },
    Address {
        path: "/healthz",
        about: "Get the health and progress of board",
        query: &[],
        gives: Gives::Json(of::<Health>),
    },
];

/// An event stream. Each `rev` event has a JSON object with the revision number as data, which
/// tells the client to fetch again.
const STREAM: &str = "text/event-stream";

fn made() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
    let mut generator = settings.into_generator();
    let problem = of::<error::Problem<'static>>(&mut generator);
    let paths: Map<_, _> = ADDRESSES
        .iter()
        .map(|address| {
            (
                address.path.to_owned(),
                json!({ "get": operation(address, &problem, &mut generator) }),
            )
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "board",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A local, read-only viewer for the traces of AI agents. Unknown values are null, never 0. \
                            Any version may add fields. Before 1.0, a minor version may rename or remove some; \
                            the changelog lists them.",
            "license": { "name": env!("CARGO_PKG_LICENSE") },
        },
        "paths": paths,
        "components": { "schemas": generator.take_definitions(true) },
    })
}

fn operation(address: &Address, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let named = address.path.split(['{', '}']).skip(1).step_by(2).map(|name| match name {
        "n" => json!({ "name": "n", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 0 },
                       "description": "The step, counted from 0 in file order." }),
        name => json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" },
                        "description": "The run's key (its path relative to the root), as one path segment; write / as %2F." }),
    });
    let parameters: Vec<_> = named.chain(address.query.iter().map(parameter)).collect();
    let content = match address.gives {
        Gives::Json(shape) => json!({ "application/json": { "schema": shape(generator) } }),
        Gives::Other(kind) => json!({ kind: { "schema": { "type": "string" } } }),
    };
    let wrong = match (is_api_path(address.path), &address.gives) {
        (true, _) => json!({ "application/problem+json": { "schema": problem } }),
        // A stalled board responds with the same schema.
        (false, Gives::Json(_)) => content.clone(),
        (false, Gives::Other(_)) => json!({ "text/html": { "schema": { "type": "string" } } }),
    };
    let id = address
        .path
        .trim_start_matches("/api")
        .trim_start_matches('/')
        .replace(['/', '.'], "_");
    json!({
        "operationId": id.replace(['{', '}'], ""),
        "summary": address.about,
        "parameters": parameters,
        "responses": {
            "200": { "description": result(address), "content": content },
            "default": { "description": "An error: what went wrong, why, and how to fix it, if possible.", "content": wrong },
        },
    })
}

/// Describes the result: the summary without its verb.
fn result(address: &Address) -> String {
    let what = address
        .about
        .split_once(' ')
        .map_or(address.about, |(_, what)| what);
    match address.about.starts_with("Get ") || address.about.starts_with("List ") {
        true => format!("The result: {what}."),
        false => format!("The result of: {}.", address.about),
    }
}

fn parameter(Param(name, takes, about): &Param) -> Value {
    let schema = match takes {
        Text | Needed => json!({ "type": "string" }),
        Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Number(least) => json!({ "type": "integer", "minimum": least }),
        Words(words) => json!({ "enum": words }),
        Takes::Column => json!({ "enum": sorts() }),
    };
    json!({ "name": name, "in": "query", "required": matches!(takes, Needed), "schema": schema, "description": about })
}

/// Returns the valid sort orders. The empty one means newest first.
fn sorts() -> Vec<String> {
    let names = COLUMNS
        .iter()
        .filter(|column| column.is_sortable())
        .map(|column| column.name);
    let both = names.flat_map(|name| [name.to_owned(), format!("-{name}")]);
    both.chain([String::new()]).collect()
}
