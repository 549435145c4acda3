//! Reads the fields of `manifest.json` that lists and verdicts need, in all layouts of QitOS and of
//! board's engine.

use serde_json::value::RawValue;

use super::layout;
use crate::model::end::{Budget, StopVerdict};
use crate::model::issue::Remark;
use crate::model::loose::{Many, Maybe, Scalar, wire};
use crate::model::manifest::Failure;
use crate::model::names::{MAX_ANSWER_BYTES, capped};
use crate::model::repair::{Object, object, read_object};
use crate::model::stated::{Fact, Said, Source, Statement};
use crate::model::tags::RecordedTags;
use crate::model::time::parse_ts;
use crate::model::{Format, IssueKind, Manifest, Trial};

/// Text fields in the index are truncated to this many bytes.
const MAX_TEXT_BYTES: usize = MAX_ANSWER_BYTES;

/// Reads a manifest.
///
/// # Errors
/// Returns an issue if no part of the manifest can be used: it is torn, not JSON, or not an object.
pub fn read(text: &[u8]) -> Result<(Manifest, Vec<Remark>), Remark> {
    if text.trim_ascii().is_empty() {
        let bytes = if text.len() == 1 { "byte" } else { "bytes" };
        return Err((IssueKind::Torn, format!("empty ({} {bytes})", text.len())));
    }
    let Object {
        read,
        mut remarks,
        is_truncated,
        ..
    } = read_object(text, |text| {
        let wire = object::<ManifestWire<'_>>(text)?;
        let odd = wire.odd();
        Some((
            Manifest {
                format: layout::of_manifest(text),
                ..wire.into_manifest()
            },
            odd,
        ))
    });
    match (read, remarks.pop()) {
        (Some((manifest, odd)), last) => {
            remarks.extend(last);
            remarks.extend(odd);
            Ok((manifest, remarks))
        }
        (None, Some((_, reason))) if is_truncated => {
            Err((IssueKind::Torn, format!("truncated: {reason}")))
        }
        (None, remark) => Err(remark.unwrap_or((IssueKind::NotJson, "not JSON".to_owned()))),
    }
}

wire! {
    struct ManifestWire<'a> {
        run_id: Scalar<'a>,
        status: Scalar<'a>,
        updated_at: Scalar<'a>,
        started_at: Scalar<'a>,
        pid: Scalar<'a>,
        host: Scalar<'a>,
        step_count: Scalar<'a>,
        event_count: Scalar<'a>,
        summary: Maybe<'a, SummaryWire<'a>>,
        benchmark_name: Scalar<'a>,
        model_id: Scalar<'a>,
        token_usage: Scalar<'a>,
        latency_seconds: Scalar<'a>,
        cost: Scalar<'a>,
        cost_estimated: Scalar<'a>,
        agent_name: Scalar<'a>,
        parent_run_id: Scalar<'a>,
        seed: Scalar<'a>,
        prompt_hash: Scalar<'a>,
        run_config_hash: Scalar<'a>,
        stop_rules: Option<&'a RawValue>,
        stop: Option<&'a RawValue>,
        resumed_from: Option<&'a RawValue>,
        branched_from: Maybe<'a, ResumedWire<'a>>,
        run_spec: Maybe<'a, RunSpecWire<'a>>,
        altered: Many<'a, Scalar<'a>>,
        tag: Many<'a, Scalar<'a>>,
        tags: Many<'a, Scalar<'a>>,
    }

    struct RunSpecWire<'a> {
        stop_criteria: Many<'a, Scalar<'a>>,
    }

    struct ResumedWire<'a> {
        steps: Scalar<'a>,
    }

    struct SummaryWire<'a> {
        steps: Scalar<'a>,
        stop_reason: Scalar<'a>,
        final_result: Scalar<'a>,
        token_usage: Scalar<'a>,
        latency_seconds: Scalar<'a>,
        cost: Scalar<'a>,
        failure_report: Maybe<'a, FailureReportWire<'a>>,
        task_result: Maybe<'a, TaskResultWire<'a>>,
        task_meta: Maybe<'a, TaskMetaWire<'a>>,
        context: Maybe<'a, ContextWire<'a>>,
    }

    struct ContextWire<'a> {
        tokens_total: Scalar<'a>,
    }

    struct MetadataWire<'a> {
        task_meta: Maybe<'a, TaskMetaWire<'a>>,
    }

    struct TaskMetaWire<'a> {
        task_id: Scalar<'a>,
        budget: Maybe<'a, BudgetWire<'a>>,
    }

    struct BudgetWire<'a> {
        max_steps: Scalar<'a>,
        max_tokens: Scalar<'a>,
        max_runtime_seconds: Scalar<'a>,
    }

    struct TaskResultWire<'a> {
        success: Scalar<'a>,
        stop_reason: Scalar<'a>,
        final_result: Scalar<'a>,
        metrics: Maybe<'a, MetricsWire<'a>>,
        metadata: Maybe<'a, MetadataWire<'a>>,
    }

    struct MetricsWire<'a> {
        steps: Scalar<'a>,
        elapsed_seconds: Scalar<'a>,
        token_usage: Scalar<'a>,
    }

    struct FailureReportWire<'a> {
        stop_reason: Scalar<'a>,
        failure_count: Scalar<'a>,
        failures: Many<'a, Maybe<'a, FailureWire<'a>>>,
    }

    struct FailureWire<'a> {
        step_id: Scalar<'a>,
        phase: Scalar<'a>,
        category: Scalar<'a>,
        message: Scalar<'a>,
        recoverable: Scalar<'a>,
        decision: Scalar<'a>,
    }
}

fn text(scalar: &Scalar<'_>) -> Option<Box<str>> {
    scalar.text().map(|text| capped(text, MAX_TEXT_BYTES))
}

fn known(scalar: &Scalar<'_>) -> Option<Box<str>> {
    text(scalar).filter(|text| &**text != "unknown")
}

/// Longer stop rules and counters aren't kept in the index.
const MAX_RULES_BYTES: usize = 64 << 10;
/// The fields in which a task's result repeats the limits of its budget.
const COPIED_STEPS: &str = "/summary/task_result/metadata/task_meta/budget/max_steps";
const COPIED_TOKENS: &str = "/summary/task_result/metadata/task_meta/budget/max_tokens";
const COPIED_TIME: &str = "/summary/task_result/metadata/task_meta/budget/max_runtime_seconds";
/// At most this many criteria are named.
const MAX_CRITERIA: usize = 32;
/// A run has two files of lines.
const MAX_ALTERED: usize = 2;
/// At most this many failures are kept, the newest ones.
const MAX_FAILURES: usize = 32;

impl ManifestWire<'_> {
    /// Reports invalid counts, times and costs with their fields. Everything derived from such a
    /// run treats them as missing.
    fn odd(&self) -> Vec<Remark> {
        let summary = self.summary.value();
        let task = summary.and_then(|summary| summary.task_result.value());
        let metrics = task.and_then(|task| task.metrics.value());
        let resumed = self.resumed();
        let counts = [
            ("/step_count", Some(&self.step_count)),
            ("/event_count", Some(&self.event_count)),
            ("/token_usage", Some(&self.token_usage)),
            ("/summary/steps", summary.map(|summary| &summary.steps)),
            (
                "/summary/token_usage",
                summary.map(|summary| &summary.token_usage),
            ),
            (
                "/summary/task_result/metrics/steps",
                metrics.map(|metrics| &metrics.steps),
            ),
            (
                "/resumed_from/steps",
                resumed.as_ref().map(|before| &before.steps),
            ),
            (
                "/branched_from/steps",
                self.branched_from.value().map(|before| &before.steps),
            ),
        ];
        let odd = counts.into_iter().filter_map(|(place, count)| {
            let is = match count? {
                Scalar::Absent | Scalar::Null => return None,
                count if count.int().is_some_and(|count| count >= 0) => return None,
                Scalar::Int(number) => number.to_string(),
                Scalar::Float(number) => format!("{number:?}"),
                other => other.type_name().to_owned(),
            };
            Some((IssueKind::Field, format!("{place} is {is}, not a count")))
        });
        let sizes = [
            ("/latency_seconds", Some(&self.latency_seconds), "a time"),
            (
                "/summary/latency_seconds",
                summary.map(|summary| &summary.latency_seconds),
                "a time",
            ),
            (
                "/summary/task_result/metrics/elapsed_seconds",
                metrics.map(|metrics| &metrics.elapsed_seconds),
                "a time",
            ),
            ("/cost", Some(&self.cost), "a cost"),
            (
                "/summary/cost",
                summary.map(|summary| &summary.cost),
                "a cost",
            ),
        ];
        let below = sizes.into_iter().filter_map(|(place, size, what)| {
            let number = size?.number().filter(|number| *number < 0.0)?;
            Some((IssueKind::Field, format!("{place} is {number}, not {what}")))
        });
        // A run that is its own parent would be its own ancestor.
        let is_own = self
            .run_id
            .text()
            .is_some_and(|id| self.parent_run_id.text() == Some(id));
        let circle = is_own.then(|| {
            (
                IssueKind::Field,
                "/parent_run_id names the run itself".to_owned(),
            )
        });
        let skipped = self.tags().left_out_words();
        let skipped = skipped.map(|words| (IssueKind::Skipped, words));
        odd.chain(below).chain(circle).chain(skipped).collect()
    }

    /// Returns the tags. Each of the two fields is a text or a list of texts.
    fn tags(&self) -> RecordedTags {
        let fields = [&self.tag, &self.tags].into_iter();
        let texts = fields.flat_map(|field| field.instead.iter().chain(&field.items));
        RecordedTags::of(texts.filter_map(Scalar::str))
    }

    fn resumed(&self) -> Option<ResumedWire<'_>> {
        object(self.resumed_from?.get())
    }

    /// Returns the stop rules, and the counters that the run resumed with, as one JSON object.
    fn rules(&self) -> Option<Box<str>> {
        let rules = self
            .stop_rules
            .map(RawValue::get)
            .filter(|rules| rules.starts_with('{'))?;
        let resumed = self.resumed_from.map_or("null", RawValue::get);
        let is_short = rules.len() + resumed.len() <= MAX_RULES_BYTES;
        is_short.then(|| format!(r#"{{"stop_rules": {rules}, "resumed_from": {resumed}}}"#).into())
    }

    /// Returns all fields that state an end, an answer, a limit or a total.
    fn statements(&self) -> Vec<Statement> {
        let summary = self.summary.value();
        let result = summary.and_then(|summary| summary.task_result.value());
        let metrics = result.and_then(|result| result.metrics.value());
        let budget = summary.and_then(|summary| summary.task_meta.value()?.budget.value());
        let copy =
            result.and_then(|result| result.metadata.value()?.task_meta.value()?.budget.value());
        let report = summary.and_then(|summary| summary.failure_report.value());
        let context = summary.and_then(|summary| summary.context.value());
        let texts = [
            (
                Fact::End,
                "/summary/stop_reason",
                summary.map(|it| &it.stop_reason),
            ),
            (
                Fact::End,
                "/summary/task_result/stop_reason",
                result.map(|it| &it.stop_reason),
            ),
            (
                Fact::End,
                "/summary/failure_report/stop_reason",
                report.map(|it| &it.stop_reason),
            ),
            (
                Fact::Answer,
                "/summary/final_result",
                summary.map(|it| &it.final_result),
            ),
            (
                Fact::Answer,
                "/summary/task_result/final_result",
                result.map(|it| &it.final_result),
            ),
        ];
        let text = |(fact, field, scalar): (Fact, &'static str, Option<&Scalar<'_>>)| {
            let (scalar, is_answer) = (scalar?, fact == Fact::Answer);
            if let Some(said) = scalar.odd().filter(|_| is_answer) {
                return Some(Statement {
                    fact,
                    said,
                    source: Source::manifest(field),
                });
            }
            let text = scalar.str().filter(|text| is_answer || !text.is_empty())?;
            Some(Statement::text(
                fact,
                capped(text, MAX_ANSWER_BYTES),
                Source::manifest(field),
            ))
        };
        // QitOS doesn't compute costs, and doesn't count the lines of a run that another writer
        // took over. Their 0 isn't a total.
        let counted = [
            (Fact::Total("usd"), "/cost", Some(&self.cost), 1.0),
            (
                Fact::Total("usd"),
                "/summary/cost",
                summary.map(|it| &it.cost),
                1.0,
            ),
            (
                Fact::Total("steps"),
                "/step_count",
                Some(&self.step_count),
                1.0,
            ),
        ];
        let numbers = [
            (
                Fact::Total("tokens"),
                "/token_usage",
                Some(&self.token_usage),
                1.0,
            ),
            (
                Fact::Total("tokens"),
                "/summary/token_usage",
                summary.map(|it| &it.token_usage),
                1.0,
            ),
            (
                Fact::Total("tokens"),
                "/summary/task_result/metrics/token_usage",
                metrics.map(|it| &it.token_usage),
                1.0,
            ),
            (
                Fact::Total("tokens"),
                "/summary/context/tokens_total",
                context.map(|it| &it.tokens_total),
                1.0,
            ),
            (
                Fact::Total("steps"),
                "/summary/steps",
                summary.map(|it| &it.steps),
                1.0,
            ),
            (
                Fact::Total("steps"),
                "/summary/task_result/metrics/steps",
                metrics.map(|it| &it.steps),
                1.0,
            ),
            (
                Fact::Total("ms"),
                "/latency_seconds",
                Some(&self.latency_seconds),
                1e3,
            ),
            (
                Fact::Total("ms"),
                "/summary/latency_seconds",
                summary.map(|it| &it.latency_seconds),
                1e3,
            ),
            (
                Fact::Total("ms"),
                "/summary/task_result/metrics/elapsed_seconds",
                metrics.map(|it| &it.elapsed_seconds),
                1e3,
            ),
            (
                Fact::Limit("steps"),
                "/summary/task_meta/budget/max_steps",
                budget.map(|it| &it.max_steps),
                1.0,
            ),
            (
                Fact::Limit("tokens"),
                "/summary/task_meta/budget/max_tokens",
                budget.map(|it| &it.max_tokens),
                1.0,
            ),
            (
                Fact::Limit("ms"),
                "/summary/task_meta/budget/max_runtime_seconds",
                budget.map(|it| &it.max_runtime_seconds),
                1e3,
            ),
            (
                Fact::Limit("steps"),
                COPIED_STEPS,
                copy.map(|it| &it.max_steps),
                1.0,
            ),
            (
                Fact::Limit("tokens"),
                COPIED_TOKENS,
                copy.map(|it| &it.max_tokens),
                1.0,
            ),
            (
                Fact::Limit("ms"),
                COPIED_TIME,
                copy.map(|it| &it.max_runtime_seconds),
                1e3,
            ),
        ];
        let number =
            |(fact, field, scalar, scale): (Fact, &'static str, Option<&Scalar<'_>>, f64)| {
                let number = scalar?
                    .number()
                    .map(|number| number * scale)
                    .filter(|number| number.is_finite())?;
                Some(Statement::number(fact, number, Source::manifest(field)))
            };
        let is_counted = |statement: &Statement| statement.said != Said::Number(0.0);
        let counted = counted.into_iter().filter_map(number).filter(is_counted);
        texts
            .into_iter()
            .filter_map(text)
            .chain(counted)
            .chain(numbers.into_iter().filter_map(number))
            .collect()
    }

    fn into_manifest(self) -> Manifest {
        let no_summary = SummaryWire::default();
        let summary = self.summary.value().unwrap_or(&no_summary);
        let result = summary.task_result.value();
        let task = summary.task_meta.value();
        let trial = Trial {
            task_set: text(&self.benchmark_name),
            task_id: task.and_then(|meta| text(&meta.task_id)),
            ..Trial::default()
        };
        let micros =
            |scalar: &Scalar<'_>| scalar.str().and_then(parse_ts).map(|stamp| stamp.micros);
        let tokens = [&self.token_usage, &summary.token_usage]
            .into_iter()
            .find_map(Scalar::int);
        let latency = self.latency_seconds.number();
        // QitOS computes no cost and writes 0.0 into every manifest, even for paid models.
        let cost = [&self.cost, &summary.cost]
            .into_iter()
            .filter_map(Scalar::number)
            .find(|cost| *cost > 0.0);
        let elapsed = || result.and_then(|result| result.metrics.value()?.elapsed_seconds.number());
        let word = |scalar: &Scalar<'_>| {
            scalar
                .text()
                .map_or_else(Box::default, |text| capped(text, MAX_TEXT_BYTES))
        };
        let failures = summary
            .failure_report
            .value()
            .map_or(&[][..], |report| &report.failures.items);
        let failure = |failure: &FailureWire<'_>| Failure {
            step_id: failure.step_id.int(),
            phase: word(&failure.phase),
            category: word(&failure.category),
            message: word(&failure.message),
            recoverable: failure.recoverable.bool(),
            decision: word(&failure.decision),
        };
        Manifest {
            run_id: text(&self.run_id),
            status: text(&self.status),
            updated_at: micros(&self.updated_at),
            started_at: micros(&self.started_at),
            pid: self.pid.int(),
            host: text(&self.host),
            step_count: self.step_count.int(),
            steps_summed: [
                Some(&summary.steps),
                result
                    .and_then(|result| result.metrics.value())
                    .map(|it| &it.steps),
            ]
            .into_iter()
            .flatten()
            .filter_map(Scalar::int)
            .max(),
            event_count: self.event_count.int(),
            stop_reason: text(&summary.stop_reason),
            final_result: text(&summary.final_result),
            success: result.and_then(|result| result.success.bool()),
            tokens: tokens
                .and_then(|tokens| u64::try_from(tokens).ok())
                .filter(|tokens| *tokens > 0),
            latency_s: latency.or_else(elapsed).filter(|seconds| *seconds >= 0.0),
            cost_usd: cost.filter(|cost| cost.is_finite()),
            cost_estimated: self.cost_estimated.bool() == Some(true),
            model: known(&self.model_id),
            agent: text(&self.agent_name),
            parent: text(&self.parent_run_id),
            tags: self.tags().kept,
            statements: self.statements(),
            budget: Budget::read(self.stop_rules),
            stop: StopVerdict::read(self.stop),
            rules: self.rules(),
            resumed_after: self.resumed().and_then(|resumed| resumed.steps.int()),
            branched_after: (self.branched_from.value())
                .and_then(|branched| branched.steps.int())
                .and_then(|steps| u64::try_from(steps).ok()),
            criteria: self.run_spec.value().map(|spec| {
                let named = spec.stop_criteria.items.iter().take(MAX_CRITERIA);
                named
                    .filter_map(Scalar::str)
                    .map(|name| capped(name, MAX_TEXT_BYTES))
                    .collect()
            }),
            failure_count: summary
                .failure_report
                .value()
                .and_then(|report| report.failure_count.int()),
            failures_listed: failures.len(),
            failures: (failures
                .iter()
                .skip(failures.len().saturating_sub(MAX_FAILURES)))
            .filter_map(Maybe::value)
            .map(failure)
            .collect(),
            altered: (self
                .altered
                .items
                .iter()
                .take(MAX_ALTERED)
                .filter_map(Scalar::str))
            .map(|what| capped(what, MAX_TEXT_BYTES))
            .collect(),
            seed: self.seed.int(),
            prompt_hash: known(&self.prompt_hash),
            config_hash: known(&self.run_config_hash),
            format: &Format::UNKNOWN,
            trial: (trial != Trial::default()).then(|| Box::new(trial)),
            ..Manifest::default()
        }
    }
}
