//! The tools of the server: what each takes, and which document of the API it returns.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use rmcp::model::ToolAnnotations;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::bound::bounded;
use super::calls;
use super::session::{Document, Session, Trouble};
use crate::error::in_plain_words;
use crate::model::json::Json;

/// The default length of an answer, about 10,000 tokens.
const DEFAULT_BYTES: usize = 32_000;
const LEAST_BYTES: usize = 1_000;
const MOST_BYTES: usize = 1 << 20;
/// The argument that all tools take.
const MAX_BYTES: &str = "max_bytes";

type Asked<'a> = Pin<Box<dyn Future<Output = Document> + Send + 'a>>;

/// A tool that a client may call.
pub(super) struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    schema: fn() -> Map<String, Value>,
    ask: for<'a> fn(&'a Session, Value) -> Asked<'a>,
}

const TOOLS: [Tool; 11] = [
    Tool {
        name: "list_runs",
        title: "List runs",
        description: "Lists runs, newest first, each with its key, its verdict in a sentence, and its numbers. To get the \
            next page, pass `next` from the result as `after`. `ignored` lists terms of the query that weren't understood; they \
            don't filter.",
        schema: schema::<calls::ListRuns>,
        ask: |session, arguments| {
            Box::pin(async move { calls::list(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "why",
        title: "Explain why a run stopped",
        description: "Explains why a run stopped: the verdict and whether it was recorded or inferred, the evidence with step \
            numbers, how close each stop rule was to ending the run, contradictions in the trace, and the first sign of trouble.",
        schema: schema::<calls::Why>,
        ask: |session, arguments| {
            Box::pin(async move { calls::why(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "step",
        title: "Show steps",
        description: "Shows one step of a run as recorded: thought, calls, results, errors. Without `n`, lists summaries of \
            the steps, one page at a time.",
        schema: schema::<calls::Step>,
        ask: |session, arguments| {
            Box::pin(async move { calls::step(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "state",
        title: "Show the state",
        description: "Shows the state after a step, and which step last wrote each key. With `key`, shows the history of one value.",
        schema: schema::<calls::State>,
        ask: |session, arguments| {
            Box::pin(async move { calls::state(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "search",
        title: "Search all runs",
        description: "Finds text in everything that runs recorded. Returns the run, step, field and surrounding text of each \
            hit. `state` in the result is `done`, or `running` if the search timed out before it was complete.",
        schema: schema::<calls::Search>,
        ask: |session, arguments| {
            Box::pin(async move { calls::search(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "usage",
        title: "Add up tokens and cost",
        description: "Adds up the tokens and the cost of runs by day, week, month, run, model or project. `cost_is_estimated` marks costs that include estimates from prices; `tokens_without_cost` counts tokens that have no known cost.",
        schema: schema::<calls::UsageOf>,
        ask: |session, arguments| {
            Box::pin(async move { calls::usage(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "overview",
        title: "Sum up many runs",
        description: "Summarizes many runs. `answer` is the finding: a repeated task that runs now solve less or more often, \
            otherwise a new failure that ended several runs, otherwise a large change in cost, otherwise the totals. Includes \
            totals against the period before, runs by day and result, the newest failures, and sums by model, task, hour, stop reason, tool and project.",
        schema: schema::<calls::OverviewOf>,
        ask: |session, arguments| {
            Box::pin(async move { calls::overview(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "failures",
        title: "List recurring failures",
        description: "Counts the failed steps of runs by tool and message, with numbers, paths and quoted text replaced. For \
            each: the runs and steps that have it, the runs that it ended, and what the agent did next. Runs that have one: \
            list_runs with the query failure:ID.",
        schema: schema::<calls::FailuresOf>,
        ask: |session, arguments| {
            Box::pin(async move { calls::failures(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "experiment",
        title: "Compare two sets of runs",
        description: "Shows whether one set of runs solves more tasks than another, and at what cost. Runs of the same task are \
            paired. `verdict` is the answer in a sentence; `measures` has each difference with its 95% interval and corrected \
            p-value; `task_rows` starts with the tasks that only one side solved.",
        schema: schema::<calls::ExperimentOf>,
        ask: |session, arguments| {
            Box::pin(async move { calls::experiment(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "diff",
        title: "Compare two runs",
        description: "Shows where two runs diverge, and how their settings and numbers differ. Includes the aligned steps \
            around the point of divergence.",
        schema: schema::<calls::Diff>,
        ask: |session, arguments| {
            Box::pin(async move { calls::diff(session, read(arguments)?).await })
        },
    },
    Tool {
        name: "whatif",
        title: "Try other stop rules",
        description: "Shows where other stop rules would have ended a run, how much that would have saved, and whether the \
            answer would have been lost. Rules are re-evaluated on the recorded steps. Nothing is executed.",
        schema: schema::<calls::WhatIf>,
        ask: |session, arguments| {
            Box::pin(async move { calls::whatif(session, read(arguments)?).await })
        },
    },
];

/// The tools as clients see them.
pub(super) fn list() -> Vec<rmcp::model::Tool> {
    let hints = ToolAnnotations::new()
        .read_only(true)
        .idempotent(true)
        .open_world(false);
    let tool = |tool: &Tool| {
        rmcp::model::Tool::new(tool.name, tool.description, (tool.schema)())
            .with_title(tool.title)
            .with_annotations(hints.clone())
    };
    TOOLS.iter().map(tool).collect()
}

pub(super) fn names() -> Vec<&'static str> {
    TOOLS.iter().map(|tool| tool.name).collect()
}

pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Answers in at most as many bytes as the caller asks for.
    pub(super) async fn call(
        &self,
        session: &Session,
        mut arguments: Map<String, Value>,
    ) -> Document {
        let max = match arguments.remove(MAX_BYTES) {
            None | Some(Value::Null) => DEFAULT_BYTES,
            Some(value) => {
                let number = value
                    .as_u64()
                    .and_then(|number| usize::try_from(number).ok());
                let number = number.ok_or_else(|| {
                    Trouble::new(format!("{UNREAD} {}", self.name))
                        .because(format!("{MAX_BYTES} must be a whole number, not {value}"))
                })?;
                number.clamp(LEAST_BYTES, MOST_BYTES)
            }
        };
        // Some models send null for an argument they don't use.
        arguments.retain(|_, value| !value.is_null());
        let unknown = session.settle().await;
        let answer = (self.ask)(session, Value::Object(arguments))
            .await
            .map_err(|trouble| match &*trouble.what {
                UNREAD => Trouble {
                    what: format!("{UNREAD} {}", self.name),
                    ..trouble
                }
                .hint(self.usage()),
                _ => trouble,
            })?;
        let still = format!(
            "Runs not read yet: {unknown}. Results may be incomplete, so call again later."
        );
        let document = Json::parse(&answer).unwrap_or(Json::Deep(&answer));
        let document = match document {
            Json::Object(mut fields) if unknown > 0 => {
                fields.insert(0, ("indexing".into(), Json::String(Cow::Owned(still))));
                Json::Object(fields)
            }
            other => other,
        };
        Ok(bounded(&document, max))
    }

    /// Describes the arguments: "why requires run; max_bytes is optional".
    fn usage(&self) -> String {
        let schema = (self.schema)();
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let fields = schema.get("properties").and_then(Value::as_object);
        let optional: Vec<&str> = fields
            .into_iter()
            .flat_map(|fields| fields.keys().map(String::as_str))
            .filter(|name| !required.contains(name))
            .collect();
        let are = if optional.len() == 1 { "is" } else { "are" };
        let optional = format!("{} {are} optional", optional.join(", "));
        if required.is_empty() {
            return format!("{}: {optional}", self.name);
        }
        format!(
            "{} requires {}; {optional}",
            self.name,
            required.join(" and ")
        )
    }
}

/// How the trouble with arguments begins, before the name of the tool.
const UNREAD: &str = "invalid arguments for";

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Trouble> {
    serde_json::from_value(arguments)
        .map_err(|error| Trouble::new(UNREAD).because(in_plain_words(&error.to_string())))
}

/// The JSON schema of a tool's arguments.
fn schema<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.remove("title");
    let mut schema = match Value::from(schema) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields
            .values_mut()
            .filter_map(Value::as_object_mut)
            .for_each(plain);
        let max = json!({
            "type": "integer",
            "minimum": LEAST_BYTES,
            "maximum": MOST_BYTES,
            "default": DEFAULT_BYTES,
            "description": "Longer results are truncated. `truncated` lists the truncated parts.",
        });
        fields.insert(MAX_BYTES.to_owned(), max);
    }
    schema
}

/// Drops what an optional field needn't repeat: that it may be null, and its default.
fn plain(field: &mut Map<String, Value>) {
    field.remove("default");
    field.remove("format");
    if let Some(Value::Array(types)) = field.get("type")
        && let Some(one) = types.iter().find(|one| *one != "null").cloned()
    {
        field.insert("type".to_owned(), one);
    }
    if let Some(Value::String(text)) = field.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
