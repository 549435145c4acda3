//! Writes runs as QitOS does: a manifest with status `running` first, then one appended line per
//! event and step, opening the file each time, and a manifest rewritten in place at the end.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A line longer than the writer's buffer reaches the file in two system calls: the body, then the
/// newline.
const BUFFER: usize = 8192;

/// A run in progress.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) dir: PathBuf,
    run_id: String,
    pub(crate) steps: u64,
    events: u64,
}

impl Writer {
    /// Creates the directory `dir` with a manifest and the first event.
    pub(crate) fn start(dir: &Path) -> Self {
        fs::create_dir_all(dir).expect("the run directory can be made");
        let run_id = dir
            .file_name()
            .and_then(|name| name.to_str())
            .expect("the run has a name")
            .to_owned();
        let mut writer = Self {
            dir: dir.to_owned(),
            run_id,
            steps: 0,
            events: 0,
        };
        writer.manifest("running", None);
        writer.event(
            "toolset_setup_start",
            &json!({"state": "State()", "task": "Count the lines."}),
        );
        writer.event(
            "INIT",
            &json!({"task": "Count the lines.", "task_id": null}),
        );
        writer
    }

    /// Writes a whole step: its events, then its line. `output` is the result of its one action.
    pub(crate) fn step(&mut self, output: &str) {
        self.begin_step();
        self.end_step(output);
    }

    /// Writes the events of a step up to the running tool call.
    pub(crate) fn begin_step(&mut self) {
        self.event(
            "DECIDE",
            &json!({"stage": "state_ready", "observation": {}}),
        );
        self.event("DECIDE", &json!({"stage": "start"}));
        self.event(
            "DECIDE",
            &json!({"stage": "decision_ready", "mode": "act", "rationale": "Count once more.", "actions": self.actions()}),
        );
        self.event("ACT", &json!({"stage": "start"}));
    }

    /// Writes the rest of a step started with [`Writer::begin_step`].
    pub(crate) fn end_step(&mut self, output: &str) {
        let results = results(output);
        self.event(
            "ACT",
            &json!({"stage": "action_results", "tool_invocations": invocations(), "action_results": results}),
        );
        self.event("REDUCE", &json!({"stage": "state_reduced"}));
        self.event("CRITIC", &json!({"stage": "pass", "reason": "fine"}));
        self.event("CHECK_STOP", &json!({"stage": "continue"}));
        self.append_step(output);
    }

    /// Writes only a step's line.
    pub(crate) fn append_step(&mut self, output: &str) {
        let line = json!({
            "step_id": self.steps,
            "agent_id": "writer",
            "observation": {"task": "Count the lines."},
            "decision": {"mode": "act", "actions": self.actions(), "final_answer": null, "rationale": "Count once more."},
            "actions": self.actions(),
            "action_results": results(output),
            "tool_invocations": invocations(),
            "critic_outputs": [{"action": "continue", "reason": "fine", "score": 0.75, "critic_name": "ProgressCritic"}],
            "state_diff": {"count": {"before": self.steps, "after": self.steps + 1}},
        });
        append(&self.dir.join("steps.jsonl"), &line.to_string());
        self.steps += 1;
    }

    /// Ends the run properly.
    pub(crate) fn finish(&mut self, reason: &str) {
        self.event("END", &json!({"stop_reason": reason}));
        self.event("toolset_teardown_start", &json!({}));
        self.event("toolset_teardown_end", &json!({}));
        self.manifest("completed", Some(reason));
    }

    fn actions(&self) -> Value {
        json!([{"name": "count_lines", "args": {"path": format!("part-{}.txt", self.steps)}, "kind": "tool"}])
    }

    fn event(&mut self, phase: &str, payload: &Value) {
        let line = json!({"run_id": self.run_id, "step_id": self.steps, "phase": phase, "ok": true, "payload": payload,
            "error": null, "ts": now()});
        append(&self.dir.join("events.jsonl"), &line.to_string());
        self.events += 1;
    }

    fn manifest(&self, status: &str, stop_reason: Option<&str>) {
        let done = stop_reason.is_some();
        let manifest = json!({
            "run_id": self.run_id,
            "schema_version": "v1",
            "status": status,
            "updated_at": now(),
            "event_count": if done { self.events } else { 0 },
            "step_count": if done { self.steps } else { 0 },
            "summary": {"stop_reason": stop_reason, "final_result": stop_reason.map(|_| "counted"),
                "steps": if done { self.steps } else { 0 }, "failure_report": {}},
            "model_id": "scripted",
        });
        fs::write(self.dir.join("manifest.json"), format!("{manifest:#}"))
            .expect("the manifest can be written");
    }
}

/// Appends `line` to the file at `path` as QitOS does.
pub(crate) fn append(path: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let written = if line.len() > BUFFER {
        file.write_all(line.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
    } else {
        file.write_all(format!("{line}\n").as_bytes())
    };
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn invocations() -> Value {
    json!([{"tool_name": "count_lines", "attempts": 1, "latency_ms": 1.5, "status": "success"}])
}

fn results(output: &str) -> Value {
    json!([{"status": "success", "output": output, "error": null,
        "metadata": {"tool_name": "count_lines", "latency_ms": 1.5, "attempts": 1}}])
}

fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00")
        .to_string()
}
