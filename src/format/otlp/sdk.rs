//! Reads traces of programs that write spans to a file or the console in the shape of their
//! OpenTelemetry SDK, one JSON document per span: GitHub Copilot's file exporter, which has the shape of
//! the JavaScript SDK, and `ConsoleSpanExporter` of the Python SDK. Each span is converted to OTLP JSON.
//!
//! Source: files of Copilot CLI 1.0.102, and `ReadableSpan.to_json` of opentelemetry-sdk 1.43 for Python.

use super::{PREFIXES, TRACES, Trace, assembled};
use crate::format::part::{quoted, text};
use crate::format::value::{filled, is_text, micros};
use crate::format::{Apart, Belongs, Draft, Reader, Several, Shape, Source, Tool};
use crate::model::Format;
use crate::model::json::walk;

/// A file of such spans.
pub(in crate::format) static SPANS: Tool = Tool {
    format: Format {
        name: "OpenTelemetry SDK trace",
        assemble: Some(|n, records| {
            let records: Vec<String> = records.iter().map(|record| otlp_of(record)).collect();
            assembled(n, &records)
        }),
        ..TRACES.format
    },
    shape: Shape::Several(&Several {
        paths: &[&["*"]],
        apart: Some(&Apart {
            paths: &[&[]],
            begins: "{",
            of: belongs,
            is_other,
        }),
        ..Several::NONE
    }),
    is: |name, head| {
        let text = String::from_utf8_lossy(head);
        let has = |key: &str, starts: &[&str]| {
            text.match_indices(key).any(|(at, _)| {
                let value = text
                    .get(at + key.len()..)
                    .and_then(|rest| rest.trim_start().strip_prefix(':'))
                    .map(str::trim_start);
                value.is_some_and(|value| starts.iter().any(|start| value.starts_with(start)))
            })
        };
        let is_javascript = || has("\"traceId\"", &["\""]) && has("\"startTime\"", &["["]);
        let is_python =
            || has("\"trace_id\"", &["\"0x"]) && has("\"parent_id\"", &["null", "\"0x"]);
        (name.ends_with(".jsonl") || name.ends_with(".json"))
            && text.trim_start().starts_with('{')
            && PREFIXES.iter().any(|prefix| text.contains(prefix))
            && (is_javascript() || is_python())
    },
    reader: || Box::new(Spans::default()),
};

fields! {
    struct Record {
        trace = "traceId", id = "spanId", parent = "parentSpanId", parent_context = "parentSpanContext",
        context, parent_id, name, start = "startTime", end = "endTime", start_time, end_time, attributes,
        status, events, points = "dataPoints", metrics = "resource_metrics",
    }
    struct Context { trace_id, span_id, id = "spanId" }
    struct Status { code, status_code, message, description }
    struct Event { name, attributes }
}

/// Returns whether a document is a metric, which exporters write to the same file.
fn is_other(record: &str) -> bool {
    let record = Record::of(record);
    record.points.is_some() || record.metrics.is_some()
}

fn belongs(record: &str) -> Option<Belongs> {
    let record = Record::of(record);
    let (run, _) = record.ids()?;
    let attributes = record.attributes.unwrap_or_default();
    Some(Belongs {
        run,
        order: record.times().0.unwrap_or(u64::MAX),
        shown: PREFIXES.iter().any(|prefix| attributes.contains(prefix)),
    })
}

impl Record<'_> {
    /// Returns the ids of the trace and the span.
    fn ids(&self) -> Option<(String, String)> {
        let context = self.context.map(Context::of).unwrap_or_default();
        let trace = id(self.trace.or(context.trace_id))?;
        Some((trace, id(self.id.or(context.span_id))?))
    }

    fn parent(&self) -> Option<String> {
        let context = self.parent_context.map(Context::of).unwrap_or_default();
        id(self.parent)
            .or_else(|| id(context.id))
            .or_else(|| id(self.parent_id))
    }

    /// Returns the start and the end in nanoseconds since the epoch.
    fn times(&self) -> (Option<u64>, Option<u64>) {
        let of = |pair: Option<&str>, stamp: Option<&str>| {
            nanos(pair).or_else(|| u64::try_from(micros(stamp)?).ok()?.checked_mul(1_000))
        };
        (of(self.start, self.start_time), of(self.end, self.end_time))
    }
}

/// Returns an id without the prefix that the Python SDK writes.
fn id(value: Option<&str>) -> Option<String> {
    let id = filled(value)?;
    Some(id.strip_prefix("0x").map_or(id.clone(), str::to_owned))
}

/// Returns a time that is recorded as a list of seconds and nanoseconds.
fn nanos(pair: Option<&str>) -> Option<u64> {
    let mut parts = walk::items(pair?).map(|part| part.parse::<u64>().ok());
    let (seconds, nanos) = (parts.next()??, parts.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Converts a span to OTLP JSON.
fn otlp_of(record: &str) -> String {
    let record = Record::of(record);
    let mut out = String::from("{");
    let mut add = |key: &str, value: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&format!("\"{key}\":{value}"));
    };
    if let Some((trace, span)) = record.ids() {
        add("traceId", &quoted(&trace));
        add("spanId", &quoted(&span));
    }
    if let Some(parent) = record.parent() {
        add("parentSpanId", &quoted(&parent));
    }
    if let Some(name) = record.name.filter(|name| is_text(Some(*name))) {
        add("name", name);
    }
    let (start, end) = record.times();
    // A reader of OTLP takes a record without a start for a log record.
    add("startTimeUnixNano", &start.unwrap_or_default().to_string());
    if let Some(end) = end {
        add("endTimeUnixNano", &end.to_string());
    }
    add("attributes", &listed(record.attributes));
    let status = record.status.map(Status::of).unwrap_or_default();
    let code = match (status.code, text(status.status_code).as_deref()) {
        (Some("2"), _) | (_, Some("ERROR")) => "2",
        (Some("1"), _) | (_, Some("OK")) => "1",
        _ => "0",
    };
    let words = [status.message, status.description]
        .into_iter()
        .flatten()
        .find(|words| is_text(Some(*words)));
    let words = words
        .map(|words| format!(",\"message\":{words}"))
        .unwrap_or_default();
    add("status", &format!("{{\"code\":{code}{words}}}"));
    let events = record
        .events
        .into_iter()
        .flat_map(walk::items)
        .map(Event::of);
    let events: Vec<String> = events
        .map(|event| {
            let name = event
                .name
                .filter(|name| is_text(Some(*name)))
                .unwrap_or("\"\"");
            format!(
                "{{\"name\":{name},\"attributes\":{}}}",
                listed(event.attributes)
            )
        })
        .collect();
    add("events", &format!("[{}]", events.join(",")));
    out.push('}');
    out
}

/// Converts a map of attributes to OTLP's list of pairs.
fn listed(attributes: Option<&str>) -> String {
    let all = attributes.into_iter().flat_map(walk::members);
    let all = all.filter(|(_, value)| *value != "null");
    let pairs: Vec<String> = all
        .map(|(key, value)| format!("{{\"key\":{key},\"value\":{{\"value\":{value}}}}}"))
        .collect();
    format!("[{}]", pairs.join(","))
}

/// A trace whose spans are converted first.
#[derive(Debug, Default)]
struct Spans(Trace);

impl Reader for Spans {
    fn record(&mut self, record: Source<'_>, draft: &mut Draft<'_>) {
        let text = otlp_of(record.text);
        self.0.record(
            Source {
                text: &text,
                ..record
            },
            draft,
        );
    }

    fn look(&mut self, draft: &mut Draft<'_>) {
        self.0.look(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_both_sdks_become_the_same_span() {
        let javascript = r#"{"type":"span","traceId":"a","spanId":"b","parentSpanId":"c","name":"chat","startTime":[1777885200,5000],"endTime":[1777885201,0],"attributes":{"gen_ai.usage.input_tokens":7,"gen_ai.response.finish_reasons":["stop"],"none":null},"status":{"code":2,"message":"boom"},"events":[{"name":"exception","attributes":{"exception.type":"E"},"time":[1,0]}]}"#;
        let python = r#"{"name": "chat", "context": {"trace_id": "0xa", "span_id": "0xb", "trace_state": "[]"}, "kind": "SpanKind.CLIENT", "parent_id": "0xc", "start_time": "2026-05-04T09:00:00.000005Z", "end_time": "2026-05-04T09:00:01.000000Z", "status": {"status_code": "ERROR", "description": "boom"}, "attributes": {"gen_ai.usage.input_tokens": 7, "gen_ai.response.finish_reasons": ["stop"]}, "events": [{"name": "exception", "timestamp": "2026-05-04T09:00:01Z", "attributes": {"exception.type": "E"}}], "links": [], "resource": {"attributes": {}, "schema_url": ""}}"#;
        let otlp = r#"{"traceId":"a","spanId":"b","parentSpanId":"c","name":"chat","startTimeUnixNano":1777885200000005000,"endTimeUnixNano":1777885201000000000,"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"value":7}},{"key":"gen_ai.response.finish_reasons","value":{"value":["stop"]}}],"status":{"code":2,"message":"boom"},"events":[{"name":"exception","attributes":[{"key":"exception.type","value":{"value":"E"}}]}]}"#;
        assert_eq!(otlp_of(javascript), otlp);
        assert_eq!(otlp_of(python), otlp);
        assert!((SPANS.is)("spans.jsonl", javascript.as_bytes()));
        assert!((SPANS.is)("spans.json", python.as_bytes()));
        let text = format!("{{\"content\":{}}}", quoted(javascript));
        assert!(!(SPANS.is)("a.jsonl", text.as_bytes()), "a span in a text");
    }
}
