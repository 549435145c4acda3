//! What does a manifest say? The few fields lists and verdicts need; the file itself shows the rest.

use serde_json::value::RawValue;

use super::IssueKind;
use super::end::{Budget, StopVerdict};
use super::loose::{Many, Maybe, Scalar, wire};
use super::names::capped;
use super::repair::{Remark, object, read_object};
use super::time::parse_ts;

/// A text field kept in the index is cut to this many bytes.
const MAX_TEXT_BYTES: usize = 2_000;

/// The manifest of a run, or why there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ManifestState {
    /// There is no such file.
    #[default]
    Missing,
    /// There is one, and it says nothing that can be used.
    Unreadable,
    /// It was read.
    Read(Box<Manifest>),
}

/// What the index keeps of a manifest. Words are the file's own; `None` is "not said".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// The recorded run id; not trusted as an identity.
    pub run_id: Option<Box<str>>,
    /// `running`, `completed`, `failed`, `stopped`, or any other word.
    pub status: Option<Box<str>>,
    /// Microseconds since the epoch: creation or the last refresh while running, the end afterwards.
    pub updated_at: Option<i64>,
    /// When the run began, where the writer records it; microseconds since the epoch.
    pub started_at: Option<i64>,
    /// The writer's process, where it is recorded.
    pub pid: Option<i64>,
    /// The machine the writer runs on, where it is recorded.
    pub host: Option<Box<str>>,
    /// Steps the writer counted.
    pub step_count: Option<i64>,
    /// Events the writer counted.
    pub event_count: Option<i64>,
    /// The stop reason, as written.
    pub stop_reason: Option<Box<str>>,
    /// The answer.
    pub final_result: Option<Box<str>>,
    /// Whether the task counts as done, in the writer's view.
    pub success: Option<bool>,
    /// Tokens of the whole run; `None` also where a scripted run says 0.
    pub tokens: Option<u64>,
    /// Run time in seconds on the writer's monotonic clock.
    pub latency_s: Option<f64>,
    /// The model's name; `None` where it says "unknown".
    pub model: Option<Box<str>>,
    /// The starting agent.
    pub agent: Option<Box<str>>,
    /// The run that started this one.
    pub parent: Option<Box<str>>,
    /// The step budget of the task.
    pub max_steps: Option<i64>,
    /// The budget that held, where it is recorded.
    pub budget: Option<Budget>,
    /// The verdict that ended the run, where it is recorded.
    pub stop: Option<Box<StopVerdict>>,
    /// After how many steps of an earlier run this one went on.
    pub resumed_after: Option<i64>,
    /// Failures that reached the recovery policy.
    pub failures: Vec<Failure>,
    /// The configured seed.
    pub seed: Option<i64>,
    /// Hash of the prompt.
    pub prompt_hash: Option<Box<str>>,
    /// Hash of the configuration.
    pub config_hash: Option<Box<str>>,
    /// Which of the known layouts it has.
    pub layout: Layout,
}

/// One entry of the failure report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Failure {
    /// The step's recorded id.
    pub step_id: Option<i64>,
    /// The phase that failed.
    pub phase: Box<str>,
    /// The sort of error.
    pub category: Box<str>,
    /// The error in words.
    pub message: Box<str>,
    /// What the engine did: `continue` or `stop`.
    pub decision: Box<str>,
}

/// The layouts that all call themselves `v1`, told apart by the keys they have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// QitOS up to 0.1
    #[default]
    A,
    /// QitOS 0.3: has `token_usage` at top level
    B,
    /// QitOS 0.6: has `parent_run_id`
    C,
    /// This crate's own writer: names itself under `writer`
    Board,
}

impl Layout {
    /// The layout in words.
    pub fn label(self) -> &'static str {
        match self {
            Layout::A => "QitOS up to 0.1",
            Layout::B => "QitOS 0.3",
            Layout::C => "QitOS 0.6",
            Layout::Board => "board",
        }
    }
}

impl Manifest {
    /// Reads a manifest's text. `Err` says why nothing of it can be used.
    ///
    /// # Errors
    /// A remark for the list of issues: torn, not JSON, or not an object.
    pub fn read(text: &[u8]) -> Result<(Self, Vec<Remark>), Remark> {
        if text.trim_ascii().is_empty() {
            return Err((IssueKind::Torn, format!("{} bytes: empty", text.len())));
        }
        let (read, _, mut remarks) =
            read_object(text, |text| object::<ManifestWire<'_>>(text).map(ManifestWire::into_manifest));
        match (read, remarks.pop()) {
            (Some(manifest), last) => {
                remarks.extend(last);
                Ok((manifest, remarks))
            }
            (None, Some((_, reason))) if reason.contains("EOF") => {
                Err((IssueKind::Torn, format!("ends in the middle: {reason}")))
            }
            (None, remark) => Err(remark.unwrap_or((IssueKind::NotJson, "not JSON".to_owned()))),
        }
    }

    /// Whether the status says that the run is over.
    pub fn is_final(&self) -> bool {
        self.status.as_deref().is_some_and(|status| status != "running")
    }
}

impl ManifestState {
    /// The manifest, if it could be read.
    pub fn get(&self) -> Option<&Manifest> {
        match self {
            ManifestState::Read(manifest) => Some(manifest),
            _ => None,
        }
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
        writer: Scalar<'a>,
        step_count: Scalar<'a>,
        event_count: Scalar<'a>,
        summary: Maybe<'a, SummaryWire<'a>>,
        model_id: Scalar<'a>,
        token_usage: Scalar<'a>,
        latency_seconds: Scalar<'a>,
        agent_name: Scalar<'a>,
        parent_run_id: Scalar<'a>,
        seed: Scalar<'a>,
        prompt_hash: Scalar<'a>,
        run_config_hash: Scalar<'a>,
        stop_rules: Option<&'a RawValue>,
        stop: Option<&'a RawValue>,
        resumed_from: Maybe<'a, ResumedWire<'a>>,
    }

    struct ResumedWire<'a> {
        steps: Scalar<'a>,
    }

    struct SummaryWire<'a> {
        stop_reason: Scalar<'a>,
        final_result: Scalar<'a>,
        token_usage: Scalar<'a>,
        failure_report: Maybe<'a, FailureReportWire<'a>>,
        task_result: Maybe<'a, TaskResultWire<'a>>,
        task_meta: Maybe<'a, TaskMetaWire<'a>>,
    }

    struct TaskMetaWire<'a> {
        budget: Maybe<'a, BudgetWire<'a>>,
    }

    struct BudgetWire<'a> {
        max_steps: Scalar<'a>,
    }

    struct TaskResultWire<'a> {
        success: Scalar<'a>,
        metrics: Maybe<'a, MetricsWire<'a>>,
    }

    struct MetricsWire<'a> {
        elapsed_seconds: Scalar<'a>,
    }

    struct FailureReportWire<'a> {
        failures: Many<'a, Maybe<'a, FailureWire<'a>>>,
    }

    struct FailureWire<'a> {
        step_id: Scalar<'a>,
        phase: Scalar<'a>,
        category: Scalar<'a>,
        message: Scalar<'a>,
        decision: Scalar<'a>,
    }
}

fn text(scalar: &Scalar<'_>) -> Option<Box<str>> {
    scalar.text().map(|text| capped(text, MAX_TEXT_BYTES))
}

fn known(scalar: &Scalar<'_>) -> Option<Box<str>> {
    text(scalar).filter(|text| &**text != "unknown")
}

/// At most this many failures are kept.
const MAX_FAILURES: usize = 32;

impl ManifestWire<'_> {
    fn into_manifest(self) -> Manifest {
        let no_summary = SummaryWire::default();
        let summary = self.summary.value().unwrap_or(&no_summary);
        let result = summary.task_result.value();
        let budget = summary.task_meta.value().and_then(|meta| meta.budget.value());
        let micros = |scalar: &Scalar<'_>| scalar.str().and_then(parse_ts).map(|stamp| stamp.micros);
        let tokens = [&self.token_usage, &summary.token_usage].into_iter().find_map(Scalar::int);
        let latency = self.latency_seconds.number();
        let elapsed = || result.and_then(|result| result.metrics.value()?.elapsed_seconds.number());
        let word = |scalar: &Scalar<'_>| scalar.text().map_or_else(Box::default, |text| capped(text, MAX_TEXT_BYTES));
        let failures = summary.failure_report.value().map_or(&[][..], |report| &report.failures.items);
        let failure = |failure: &FailureWire<'_>| Failure {
            step_id: failure.step_id.int(),
            phase: word(&failure.phase),
            category: word(&failure.category),
            message: word(&failure.message),
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
            event_count: self.event_count.int(),
            stop_reason: text(&summary.stop_reason),
            final_result: text(&summary.final_result),
            success: result.and_then(|result| result.success.bool()),
            tokens: tokens.and_then(|tokens| u64::try_from(tokens).ok()).filter(|tokens| *tokens > 0),
            latency_s: latency.or_else(elapsed),
            model: known(&self.model_id),
            agent: text(&self.agent_name),
            parent: text(&self.parent_run_id),
            max_steps: budget.and_then(|budget| budget.max_steps.int()),
            budget: Budget::read(self.stop_rules),
            stop: StopVerdict::read(self.stop),
            resumed_after: self.resumed_from.value().and_then(|resumed| resumed.steps.int()),
            failures: failures.iter().filter_map(Maybe::value).take(MAX_FAILURES).map(failure).collect(),
            seed: self.seed.int(),
            prompt_hash: known(&self.prompt_hash),
            config_hash: known(&self.run_config_hash),
            layout: match (&self.parent_run_id, &self.token_usage) {
                _ if self.writer.str().is_some_and(|writer| writer.starts_with("board")) => Layout::Board,
                (Scalar::Absent, Scalar::Absent) => Layout::A,
                (Scalar::Absent, _) => Layout::B,
                _ => Layout::C,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_named() {
        let kind = |text: &[u8]| Manifest::read(text).unwrap_err().0;
        assert_eq!(kind(b""), IssueKind::Torn);
        assert_eq!(kind(b"{\"run_id\": \"x"), IssueKind::Torn);
        assert_eq!(kind(b"[1]"), IssueKind::Foreign);
        assert_eq!(kind(b"hello"), IssueKind::NotJson);
    }

    #[test]
    fn summary_and_layout() {
        let text = br#"{"run_id": "r", "status": "completed", "token_usage": 0, "latency_seconds": NaN,
            "summary": {"stop_reason": "final", "task_result": {"success": true, "metrics": {"elapsed_seconds": 2}}}}"#;
        let (manifest, remarks) = Manifest::read(text).unwrap();
        assert_eq!(manifest.layout, Layout::B);
        assert_eq!((manifest.tokens, manifest.latency_s, manifest.success), (None, Some(2.0), Some(true)));
        assert_eq!(remarks.len(), 1);
        assert!(manifest.is_final());
    }

    #[test]
    fn the_layout_of_our_own_writer() {
        let layout = |text: &str| Manifest::read(text.as_bytes()).unwrap().0.layout;
        let rest = r#""parent_run_id": null, "token_usage": 0"#;
        assert_eq!(layout(&format!(r#"{{"writer": "board 0.1.0", {rest}}}"#)), Layout::Board);
        assert_eq!(layout(&format!(r#"{{"writer": "other 0.1.0", {rest}}}"#)), Layout::C);
        assert_eq!(layout(&format!(r#"{{"writer": 7, {rest}}}"#)), Layout::C);
    }
}
