//! Compares the board's figures with those of an independent reader.
//!
//! The reader in this file follows the description of what QitOS writes, not the board's code, and
//! uses only the board's addresses. It covers lines, fields, critics, scores, the state after a
//! step, where a step limit would have ended a run, and the alignment of two runs. It checks every
//! recorded run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::board::Board;
use crate::disk::corpus;
use crate::format::serve_all;

type Object = Map<String, Value>;

/// A run's contents according to its files.
struct Recorded {
    key: String,
    manifest: Option<Object>,
    /// A line that isn't an object is `None`.
    steps: Vec<Option<Object>>,
    /// The last step's line is truncated: the step ran, but its record is lost.
    is_cut: bool,
    events: Vec<Option<Object>>,
}

/// The differences, and the number of compared figures.
#[derive(Default)]
struct Tally {
    compared: BTreeMap<&'static str, u32>,
    wrong: Vec<String>,
}

impl Tally {
    fn same(&mut self, what: &'static str, place: &str, got: &Value, wanted: &Value) {
        *self.compared.entry(what).or_default() += 1;
        if !alike(got, wanted) {
            self.wrong
                .push(format!("{place}: {what} is {got}, the files say {wanted}"));
        }
    }

    fn holds(&mut self, what: &'static str, place: &str, holds: bool) {
        self.same(what, place, &holds.into(), &true.into());
    }
}

/// Compares values, so that 5 equals 5.0.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        _ => a == b,
    }
}

/// Quotes the bare words that Python writes for numbers that JSON doesn't have.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    let mut in_text = false;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|word| !in_text && rest.starts_with(word));
        let taken = match word {
            Some(word) => {
                out.push_str(&format!("\"{word}\""));
                word.len()
            }
            None if in_text && letter == '\\' => {
                let escape: String = rest.chars().take(2).collect();
                out.push_str(&escape);
                escape.len()
            }
            None => {
                in_text ^= letter == '"';
                out.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

fn object(bytes: &[u8]) -> Option<Object> {
    let text = String::from_utf8_lossy(bytes);
    serde_json::from_str(&text)
        .or_else(|_| serde_json::from_str(&quoted(&text)))
        .ok()
}

/// Reads the complete lines. Text after the last line end counts if it's an object.
fn lines(path: &Path) -> Vec<Option<Object>> {
    let bytes = fs::read(path).unwrap_or_default();
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let mut read: Vec<_> = lines
        .into_iter()
        .filter(|line| !line.trim_ascii().is_empty())
        .map(object)
        .collect();
    read.extend(object(last).map(Some));
    read
}

impl Recorded {
    fn read(dir: &Path, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            manifest: fs::read(dir.join("manifest.json"))
                .ok()
                .and_then(|bytes| object(&bytes)),
            steps: lines(&dir.join("steps.jsonl")),
            is_cut: fs::read(dir.join("steps.jsonl")).is_ok_and(|bytes| {
                let last = bytes
                    .rsplit(|byte| *byte == b'\n')
                    .next()
                    .unwrap_or_default();
                !last.is_empty() && object(last).is_none()
            }),
            events: lines(&dir.join("events.jsonl")),
        }
    }

    fn address(&self) -> String {
        self.key
            .replace('%', "%25")
            .replace('/', "%2F")
            .replace(' ', "%20")
            .replace('"', "%22")
            .replace('<', "%3C")
    }

    /// Number of steps of the newest run, or null if a writer that finished counted a different
    /// number than there are lines.
    fn counted(&self) -> Value {
        let lines = self.steps.len() - self.newest();
        let ended = self.manifest.as_ref().filter(|manifest| {
            self.segments() <= 1
                && manifest
                    .get("status")
                    .is_some_and(|status| status != "running")
        });
        let counts = |manifest: &Object| {
            let counts = [
                manifest.get("step_count").cloned(),
                Some(manifest["summary"]["steps"].clone()),
            ];
            counts.iter().flatten().filter_map(Value::as_u64).max()
        };
        match ended.and_then(counts) {
            Some(count) if count != lines as u64 => Value::Null,
            _ if self.is_cut => Value::Null,
            _ => lines.into(),
        }
    }

    fn stop_reason(&self) -> Value {
        let manifest = self
            .manifest
            .as_ref()
            .map(|manifest| manifest["summary"]["stop_reason"].clone());
        let mut ends = self
            .events
            .iter()
            .flatten()
            .filter(|event| event.get("phase") == Some(&"END".into()));
        let end = ends
            .next_back()
            .map(|event| event["payload"]["stop_reason"].clone());
        manifest
            .filter(|reason| !reason.is_null())
            .or(end)
            .unwrap_or_default()
    }

    /// The ordinal at which the newest run starts: where the step ids last start over.
    fn newest(&self) -> usize {
        let ids: Vec<_> = self
            .steps
            .iter()
            .map(|step| {
                step.as_ref()
                    .and_then(|step| field(step, "step_id").as_i64())
            })
            .collect();
        let starts = ids
            .windows(2)
            .rposition(|pair| matches!(pair, [Some(a), Some(b)] if b <= a));
        starts
            .filter(|_| self.segments() > 1)
            .map_or(0, |at| at + 1)
    }

    /// The events of the newest run, starting at the set-up before its INIT.
    fn newest_events(&self) -> &[Option<Object>] {
        let phase = |event: &Option<Object>| {
            event
                .as_ref()
                .map_or("", |event| {
                    field(event, "phase").as_str().unwrap_or_default()
                })
                .to_owned()
        };
        let init = self
            .events
            .iter()
            .rposition(|event| phase(event) == "INIT")
            .filter(|_| self.segments() > 1);
        let before = self.events.get(..init.unwrap_or(0)).unwrap_or_default();
        let setup = before
            .iter()
            .rev()
            .take_while(|event| phase(event).starts_with("toolset_setup"))
            .count();
        self.events.get(before.len() - setup..).unwrap_or_default()
    }

    /// How many runs used the directory. Each starts with an INIT.
    fn segments(&self) -> usize {
        self.events
            .iter()
            .flatten()
            .filter(|event| event.get("phase") == Some(&"INIT".into()))
            .count()
    }
}

fn field<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

fn list<'a>(object: &'a Object, name: &str) -> &'a [Value] {
    field(object, name)
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn keys(object: &Value) -> Value {
    let mut keys: Vec<_> = object.as_object().into_iter().flat_map(Map::keys).collect();
    keys.sort_unstable();
    json!(keys)
}

fn sorted(names: &Value) -> Value {
    let mut names: Vec<_> = names
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    names.sort_unstable();
    json!(names)
}

fn actions(step: &Object) -> Vec<Value> {
    let own = list(step, "actions");
    let decided = step
        .get("decision")
        .and_then(|decision| decision["actions"].as_array());
    if own.is_empty() {
        decided.cloned().unwrap_or_default()
    } else {
        own.to_vec()
    }
}

/// Maps critic actions that the engine doesn't know to a single value.
fn known(action: &Value) -> Value {
    match action.as_str() {
        Some("continue" | "stop" | "retry") | None => action.clone(),
        Some(_) => "other".into(),
    }
}

/// Returns each critic's action and score, in order.
fn verdicts(step: &Object) -> Vec<Value> {
    let score = |score: &Value| {
        if score.is_number() {
            score.clone()
        } else {
            Value::Null
        }
    };
    list(step, "critic_outputs")
        .iter()
        .map(|one| json!([known(&one["action"]), score(&one["score"])]))
        .collect()
}

/// Returns the state observed before the step's reduce, with reduce's changes.
fn state_after(step: &Object) -> Option<Object> {
    let mut state = step.get("observation")?.get("state")?.as_object()?.clone();
    for (key, change) in step
        .get("state_diff")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(after) = change.get("after") {
            state.insert(key.clone(), after.clone());
        }
    }
    Some(state)
}

fn compare_run(board: &Board, row: &Value, run: &Recorded, tally: &mut Tally) {
    let key = &*run.key;
    let api = format!("/api/runs/{}", run.address());
    tally.same("steps", key, &row["steps"], &run.counted());
    let good = run.newest_events().iter().flatten().count() as u64;
    let events = row["events"].as_u64().unwrap_or_default();
    tally.holds(
        "events between good and all lines",
        key,
        good <= events && events <= run.newest_events().len() as u64,
    );
    tally.same("stop_reason", key, &row["stop_reason"], &run.stop_reason());
    if let Some(manifest) = &run.manifest {
        tally.same("status", key, &row["status"], field(manifest, "status"));
        tally.same("run_id", key, &row["run_id"], field(manifest, "run_id"));
        let took = [
            field(manifest, "latency_seconds"),
            &manifest["summary"]["task_result"]["metrics"]["elapsed_seconds"],
        ];
        let took = took
            .into_iter()
            .find_map(Value::as_f64)
            .filter(|_| manifest["status"] != "running");
        if let Some(took) = took {
            let shown = row["duration_ms"].as_f64().unwrap_or(f64::NAN);
            tally.holds("duration", key, (shown - took * 1e3).abs() < 0.01);
        }
    }
    let heads = board.json(&format!("{api}/steps?limit=1000"));
    let heads = heads["steps"].as_array().expect("heads");
    tally.same("heads", key, &heads.len().into(), &run.steps.len().into());
    let mut points: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for critic in board.json(&format!("{api}/scores"))["critics"]
        .as_array()
        .into_iter()
        .flatten()
    {
        for point in critic["points"].as_array().into_iter().flatten() {
            let n = point["n"].as_u64().expect("a step");
            points
                .entry(n)
                .or_default()
                .push(json!([known(&point["action"]), point["score"]]));
        }
    }
    for ((n, step), head) in run.steps.iter().enumerate().zip(heads) {
        let Some(step) = step else { continue };
        let place = format!("{key} step {n}");
        let diff = field(step, "state_diff");
        let decision = field(step, "decision");
        tally.same("n", &place, &head["n"], &n.into());
        let id = Some(field(step, "step_id")).filter(|id| id.is_i64());
        tally.same(
            "step_id",
            &place,
            &head["step_id"],
            id.unwrap_or(&Value::Null),
        );
        tally.same(
            "agent_id",
            &place,
            &head["agent_id"],
            field(step, "agent_id"),
        );
        tally.same("mode", &place, &head["mode"], &decision["mode"]);
        let names: Vec<_> = actions(step)
            .iter()
            .map(|action| action["name"].clone())
            .collect();
        tally.same(
            "action_count",
            &place,
            &head["action_count"],
            &names.len().into(),
        );
        let shown = head["actions"].as_array().expect("names").len();
        tally.same(
            "actions",
            &place,
            &head["actions"],
            &names.into_iter().take(shown).collect(),
        );
        tally.same("changed", &place, &sorted(&head["changed"]), &keys(diff));
        let verdicts = verdicts(step);
        let critics = head["critics"].as_array().expect("critics").iter();
        let shown: Vec<_> = critics
            .map(|critic| json!([critic["action"], critic["score"]]))
            .collect();
        tally.same("critics", &place, &json!(shown), &json!(verdicts));
        let deciding = verdicts
            .iter()
            .find(|one| one[0] == "stop" || one[0] == "retry");
        tally.same(
            "retry",
            &place,
            &head["retry"],
            &deciding.is_some_and(|one| one[0] == "retry").into(),
        );
        let texts = |points: &[Value]| {
            let mut texts: Vec<_> = points
                .iter()
                .map(|one| format!("{} {:?}", one[0], one[1].as_f64()))
                .collect();
            texts.sort_unstable();
            json!(texts)
        };
        let scored = points
            .get(&(n as u64))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let own = if n < run.newest() { &[] } else { &verdicts[..] };
        tally.same("scores", &place, &texts(scored), &texts(own));
        compare_state(
            &board.json(&format!("{api}/state/{n}")),
            step,
            &place,
            tally,
        );
    }
    if run.segments() == 1 && run.steps.iter().all(Option::is_some) {
        let last = run.steps.len();
        for limit in 1..last {
            let answer = board.json(&format!("{api}/whatif?rule=max_steps={limit}"));
            let answer = &answer["rules"][0];
            let place = format!("{key} max_steps={limit}");
            tally.same(
                "what-if",
                &place,
                &json!([answer["result"], answer["step"]]),
                &json!(["earlier", limit - 1]),
            );
        }
        compare_tools(board, &api, run, tally);
        let answer = board.json(&format!("{api}/whatif?rule=max_steps={}", last + 1));
        tally.holds(
            "what-if beyond the end",
            key,
            answer["rules"][0]["result"] != "earlier",
        );
    }
}

fn compare_state(said: &Value, step: &Object, place: &str, tally: &mut Tally) {
    tally.same(
        "state changed",
        place,
        &sorted(&said["changed"]),
        &keys(field(step, "state_diff")),
    );
    let Some(state) = state_after(step) else {
        return;
    };
    let unknown = said["unknown"].as_array().cloned().unwrap_or_default();
    for (name, value) in &state {
        if !unknown.contains(&name.as_str().into()) {
            tally.same(
                "state value",
                &format!("{place} {name}"),
                &said["state"][name],
                value,
            );
        }
    }
    tally.same(
        "state keys",
        place,
        &keys(&said["state"]),
        &keys(&Value::Object(state)),
    );
}

/// Returns a tool's result without its wrapper from QitOS 0.6, and without its duration.
fn given(result: &Value) -> Value {
    let wraps = result.as_object().is_some_and(|object| {
        object.len() == 4
            && ["status", "output", "error", "metadata"]
                .iter()
                .all(|key| object.contains_key(*key))
    });
    let given = match (wraps, &result["output"]) {
        (true, Value::Null) => json!({"error": result["error"]}),
        (true, output) => output.clone(),
        (false, _) => result.clone(),
    };
    match given {
        Value::Object(mut object) => {
            object.retain(|key, _| {
                !key.contains("elapsed") && !key.contains("latency") && !key.contains("duration")
            });
            Value::Object(object)
        }
        other => other,
    }
}

/// Compares where a rule would have ended the run: at the first step that calls the tool.
fn compare_tools(board: &Board, api: &str, run: &Recorded, tally: &mut Tally) {
    let names = |step: &Object| -> Vec<String> {
        actions(step)
            .iter()
            .filter_map(|action| action["name"].as_str().map(str::to_owned))
            .collect()
    };
    let steps: Vec<&Object> = run.steps.iter().flatten().collect();
    let mut tools: Vec<String> = steps.iter().flat_map(|step| names(step)).collect();
    tools.sort_unstable();
    tools.dedup();
    let plain = |tool: &&String| {
        tool.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    for tool in tools.iter().filter(plain).take(4) {
        let first = steps.iter().position(|step| names(step).contains(tool));
        let answer = board.json(&format!("{api}/whatif?rule=stop_on_tool={tool}"));
        let place = format!("{} stop_on_tool={tool}", run.key);
        tally.same(
            "what-if of a tool",
            &place,
            &answer["rules"][0]["step"],
            &first.into(),
        );
    }
}

/// Compares two runs: the alignment contains every step of both once, and pairs reported as equal
/// are equal.
fn compare_pair(board: &Board, a: &Recorded, b: &Recorded, tally: &mut Tally) {
    let said = board.json(&format!("/api/compare?a={}&b={}", a.address(), b.address()));
    let place = format!("{} beside {}", a.key, b.key);
    for (side, run) in [("a", a), ("b", b)] {
        let metric = said["metrics"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|metric| metric["name"] == "steps");
        let counted = metric
            .map(|metric| metric[side].clone())
            .unwrap_or_default();
        let ordinals: Vec<u64> = said["aligned"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|pair| pair[side].as_u64())
            .collect();
        if run.segments() == 1 && !run.steps.is_empty() {
            // With a line that isn't an object, the number of steps is unknown.
            let is_open = counted.is_null() && run.steps.iter().any(Option::is_none);
            let wanted = if is_open { Value::Null } else { run.counted() };
            tally.same("steps compared", &place, &counted, &wanted);
            tally.same(
                "steps aligned",
                &place,
                &json!(ordinals),
                &json!((0..run.steps.len()).collect::<Vec<_>>()),
            );
        }
    }
    for pair in said["aligned"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|pair| pair["same"] == true)
    {
        let step = |run: &Recorded, side: &str| {
            let n = pair[side].as_u64().and_then(|n| usize::try_from(n).ok())?;
            run.steps.get(n)?.clone()
        };
        let (Some(left), Some(right)) = (step(a, "a"), step(b, "b")) else {
            continue;
        };
        let does = |step: &Object| {
            let calls = actions(step)
                .into_iter()
                .map(|action| json!([action["name"], action["args"]]));
            json!([field(step, "decision")["mode"], calls.collect::<Vec<_>>()])
        };
        tally.same(
            "pair that does the same",
            &place,
            &does(&left),
            &does(&right),
        );
    }
    for pair in said["aligned"].as_array().into_iter().flatten() {
        let results = |run: &Recorded, side: &str| {
            let n = pair[side].as_u64().and_then(|n| usize::try_from(n).ok())?;
            Some(
                list(run.steps.get(n)?.as_ref()?, "action_results")
                    .iter()
                    .map(given)
                    .collect::<Vec<_>>(),
            )
        };
        let (Some(left), Some(right)) = (results(a, "a"), results(b, "b")) else {
            continue;
        };
        let alike = alike(&json!(left), &json!(right));
        match pair["what"].as_str() {
            Some("result") => tally.holds("other results", &place, !alike),
            Some("none" | "critic" | "score" | "state") => {
                tally.holds("the same results", &place, alike)
            }
            _ => {}
        }
    }
}

/// Reads every run below `root` and compares it with the board.
fn agrees(root: &Path) -> Tally {
    let (board, rows) = serve_all(root);
    let mut tally = Tally::default();
    let mut read: Vec<Recorded> = Vec::new();
    for row in rows.values() {
        let key = row["key"].as_str().expect("a key");
        let run = Recorded::read(&root.join(key), key);
        compare_run(&board, row, &run, &mut tally);
        read.push(run);
    }
    for run in &read {
        compare_pair(&board, run, run, &mut tally);
    }
    for pair in read.windows(2) {
        if let [a, b] = pair {
            compare_pair(&board, a, b, &mut tally);
        }
    }
    tally
}

#[test]
fn another_reader_finds_the_same() {
    for root in [Some(corpus()), crate::traces::traces()]
        .into_iter()
        .flatten()
    {
        let tally = agrees(&root);
        assert!(
            tally.wrong.is_empty(),
            "{} differences:\n{}",
            tally.wrong.len(),
            tally.wrong.join("\n")
        );
        let compared: u32 = tally.compared.values().sum();
        assert!(
            tally.compared.len() >= 20 && compared > 1_000,
            "hardly anything was compared: {:?}",
            tally.compared
        );
    }
}

#[test]
fn the_reader_reads_what_python_writes() {
    let read = object(br#"{"a": NaN, "b": "NaN \" -Infinity", "c": [-Infinity, Infinity]}"#)
        .expect("an object");
    assert_eq!(
        Value::Object(read),
        json!({"a": "NaN", "b": "NaN \" -Infinity", "c": ["-Infinity", "Infinity"]})
    );
    assert_eq!(object(b"[1]"), None);
}
