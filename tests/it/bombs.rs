//! Tests that no line, file or request takes the board down. Each bomb is served by the real
//! binary, which must answer, stay within its memory, show the valid lines around the bomb and
//! report the issue. Prints the time taken.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::board::{BINARY, Board};
use crate::memory;
use crate::soak::times;

/// No page may be larger.
const MAX_PAGE_BYTES: usize = 400 << 10;
/// A line of 8 MB is parsed several times per page, and a JSON value takes more memory than its
/// text.
const MAX_MEMORY_MIB: u64 = 400;
const LEVELS: usize = if SMALL { 10_000 } else { 100_000 };
/// Number of keys, names and items.
const MANY: usize = if SMALL { 5_000 } else { 100_000 };
/// Length of a line that is too long to be parsed.
const LONG: usize = if SMALL { 10_000_000 } else { 100_000_000 };
/// Length of a line that is parsed.
const BELOW: usize = if SMALL { 500_000 } else { 2_000_000 };
/// Debug builds are about ten times slower and use smaller bombs, which still reveal unbounded
/// work. To run the full sizes: `cargo test --release --test it -- bombs --nocapture`.
const SMALL: bool = cfg!(debug_assertions);

/// Number of lines without a record in each of a run's two files. Stored individually, a line takes
/// half a kilobyte, so five such runs would take 150 MB in a debug build, or 300 MB in a soak test.
fn records() -> usize {
    if SMALL {
        times(30_000, 60_000)
    } else {
        8_000_000
    }
}

/// Number of tiny records in another tool's file.
fn tiny() -> usize {
    if SMALL { times(3_000, 10_000) } else { 200_000 }
}

/// Memory limit in MiB for a board that serves such files and has opened all their pages. A debug
/// build takes 70 by itself.
fn max_records_mib() -> u64 {
    let mib = if SMALL { times(170, 220) } else { 300 };
    mib as u64
}

/// A run to build around a bomb.
struct Bomb {
    name: &'static str,
    steps: Vec<u8>,
    events: Vec<u8>,
    manifest: Vec<u8>,
}

impl Bomb {
    /// Starts with a valid step and a valid event. Everything else follows them.
    fn new(name: &'static str) -> Self {
        let manifest =
            json!({"run_id": name, "schema_version": "v1", "status": "completed"}).to_string();
        let mut bomb = Self {
            name,
            steps: Vec::new(),
            events: Vec::new(),
            manifest: manifest.into_bytes(),
        };
        bomb.steps(&step(0).to_string());
        bomb.events(&event(0).to_string());
        bomb
    }

    fn steps(&mut self, line: &str) -> &mut Self {
        self.steps.extend_from_slice(line.as_bytes());
        self.steps.push(b'\n');
        self
    }

    fn events(&mut self, line: &str) -> &mut Self {
        self.events.extend_from_slice(line.as_bytes());
        self.events.push(b'\n');
        self
    }

    /// Adds a step with `raw` as the value of `key`.
    fn step_with(&mut self, key: &str, raw: &str) -> &mut Self {
        let line = with(step(1), key, raw);
        self.steps(&line)
    }

    /// Adds an event with `raw` as its payload.
    fn event_with(&mut self, raw: &str) -> &mut Self {
        let line = with(event(1), "payload", raw);
        self.events(&line)
    }

    fn write(&self, root: &Path) {
        let dir = root.join(self.name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("steps.jsonl"), &self.steps).unwrap();
        fs::write(dir.join("events.jsonl"), &self.events).unwrap();
        fs::write(dir.join("manifest.json"), &self.manifest).unwrap();
    }
}

fn step(n: u64) -> Value {
    json!({
        "step_id": n,
        "decision": {"mode": "act", "actions": [], "rationale": "The good line."},
        "actions": [{"name": "count", "args": {"n": n}}],
        "action_results": [{"status": "success", "output": "ok"}],
        "critic_outputs": [{"critic_name": "tests", "action": "continue", "score": 0.5}],
        "state_diff": {"c": {"before": n, "after": n + 1}},
    })
}

fn event(n: u64) -> Value {
    json!({"step_id": n, "phase": "DECIDE", "ok": true, "payload": {}, "ts": "2026-11-21T20:25:58.295052+00:00"})
}

fn with(mut line: Value, key: &str, raw: &str) -> String {
    line[key] = json!("@@");
    line.to_string().replace("\"@@\"", raw)
}

/// Wraps `inside` in [`LEVELS`] repetitions of `open` and `close`.
fn nested(open: &str, inside: &str, close: &str) -> String {
    [&open.repeat(LEVELS), inside, &close.repeat(LEVELS)].concat()
}

/// Builds an object with `count` members.
fn members(count: usize, member: impl Fn(usize) -> String) -> String {
    let mut out = "{".to_owned();
    for n in 0..count {
        // Writing to a string can't fail.
        let _ = write!(out, "{}{}", if n == 0 { "" } else { "," }, member(n));
    }
    out + "}"
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    let items: Vec<String> = (0..count).map(item).collect();
    format!("[{}]", items.join(","))
}

/// Serves each bomb on a separate board and requests everything that shows its steps.
fn survive(bombs: &[Bomb], max_mib: u64) {
    for bomb in bombs {
        survive_together(std::slice::from_ref(bomb), max_mib);
    }
}

struct Served {
    board: Board,
    /// Keeps the files while they're served.
    _dir: tempfile::TempDir,
}

/// Serves the bombs on one board and requests everything that shows their steps.
fn survive_together(bombs: &[Bomb], max_mib: u64) -> Served {
    let dir = tempfile::tempdir().unwrap();
    for bomb in bombs {
        bomb.write(dir.path());
    }
    let start = Instant::now();
    let board = Board::serve(dir.path());
    board.until_read();
    println!("read in {} ms", start.elapsed().as_millis());
    for bomb in bombs {
        ask_for_everything(&board, bomb);
    }
    let (first, last) = (bombs[0].name, bombs[bombs.len() - 1].name);
    for path in [
        "/",
        &format!("/compare?a={first}&b={last}"),
        "/whatif?sweep=max_steps&values=1..3",
    ] {
        let response = board.get(path);
        assert!(
            response.status == 200 && response.body.len() <= MAX_PAGE_BYTES,
            "{first} {path}"
        );
    }
    let memory = memory::most_kib(board.pid()).expect("Linux tells the peak") >> 10;
    println!("{first}: {memory} MiB");
    assert!(memory <= max_mib, "{first}: {memory} MiB");
    Served { board, _dir: dir }
}

fn ask_for_everything(board: &Board, bomb: &Bomb) {
    let run = format!("/runs/{}", bomb.name);
    assert_eq!(
        board.get(&format!("/api{run}")).status,
        200,
        "{}",
        bomb.name
    );
    let good = board.get(&format!("{run}/steps/0"));
    assert!(
        good.status == 200 && good.text().contains("The good line."),
        "{}",
        bomb.name
    );
    let mut slowest = (0, String::new());
    for rest in [
        "",
        "?step=1",
        "?tab=issues",
        "?tab=events",
        "?tab=manifest",
        "?tab=state&step=1",
        "?tab=state&step=1&key=c",
        "/steps/1",
        "/replay?step=1",
        "/scores",
        "/whatif?rule=max_steps%3D1",
    ] {
        let start = Instant::now();
        let response = board.get(&format!("{run}{rest}"));
        slowest = slowest.max((start.elapsed().as_millis(), rest.to_owned()));
        assert!(
            [200, 404].contains(&response.status),
            "{}{rest}: {}",
            bomb.name,
            response.status
        );
        assert!(
            response.body.len() <= MAX_PAGE_BYTES,
            "{}{rest}: {} bytes",
            bomb.name,
            response.body.len()
        );
    }
    println!("{}: slowest page {slowest:?} ms", bomb.name);
}

/// Returns the issues that `board check` reports for a bomb.
fn issues(bomb: &Bomb) -> String {
    let dir = tempfile::tempdir().unwrap();
    bomb.write(dir.path());
    let run = dir.path().join(bomb.name);
    let said = Command::new(BINARY)
        .arg("check")
        .arg(run)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap()
}

#[test]
fn nesting_has_an_end() {
    let (deep, keys) = (nested("[", "", "]"), nested("{\"a\":", "1", "}"));
    let mut all = Vec::new();
    let mut bomb = Bomb::new("deep_values");
    bomb.step_with("action_results", &deep)
        .step_with("observation", &keys)
        .event_with(&keys);
    all.push(bomb);
    let mut bomb = Bomb::new("deep_lines");
    bomb.steps(&deep)
        .steps(&"[".repeat(LEVELS))
        .steps(&keys)
        .events(&keys)
        .events(&"{\"a\":".repeat(LEVELS));
    assert!(
        issues(&bomb).contains("expected an object, found an array"),
        "{}",
        issues(&bomb)
    );
    all.push(bomb);
    let mut bomb = Bomb::new("deep_state");
    let change = format!("{{\"c\":{{\"before\":{keys},\"after\":{keys}}}}}");
    bomb.step_with("state_diff", &change)
        .event_with(&format!("{{\"observation\":{{\"state\":{keys}}}}}"));
    all.push(bomb);
    let mut bomb = Bomb::new("deep_manifest");
    bomb.manifest = with(
        json!({"run_id": "deep", "status": "completed"}),
        "summary",
        &deep,
    )
    .into_bytes();
    all.push(bomb);
    survive(&all, MAX_MEMORY_MIB);
}

#[test]
fn long_lines_are_placed_and_not_read() {
    let mut bomb = Bomb::new("line_that_is_too_long");
    bomb.step_with("x", &format!("\"{}\"", "x".repeat(LONG)));
    assert!(
        issues(&bomb).contains(" bytes wasn't parsed (the limit is 8388608)"),
        "{}",
        issues(&bomb)
    );
    let mut below = Bomb::new("lines_below_the_limit");
    for _ in 0..3 {
        below.step_with("x", &format!("\"{}\"", "x y ".repeat(BELOW)));
    }
    below.event_with(&format!("\"{}\"", "\\u0000".repeat(BELOW / 2)));
    let mut manifest = Bomb::new("manifest_that_is_too_long");
    manifest.manifest = with(
        json!({"run_id": "m"}),
        "x",
        &format!("\"{}\"", "x".repeat(LONG)),
    )
    .into_bytes();
    survive(&[bomb, below, manifest], MAX_MEMORY_MIB);
}

#[test]
fn many_keys_names_and_items_have_an_end_on_a_page() {
    let mut all = Vec::new();
    let mut bomb = Bomb::new("keys");
    let fields = members(2 * MANY, |n| format!("\"k{n}\":{n}"));
    bomb.steps(&format!("{{\"step_id\":1,{}", &fields[1..]))
        .step_with("observation", &fields)
        .event_with(&fields);
    all.push(bomb);
    let mut bomb = Bomb::new("one_key");
    bomb.step_with(
        "state_diff",
        &members(MANY, |_| "\"k\":{\"before\":1,\"after\":2}".to_owned()),
    );
    bomb.steps(&format!(
        "{{\"step_id\":2,{}",
        &members(MANY, |_| "\"decision\":{}".to_owned())[1..]
    ));
    all.push(bomb);
    let mut bomb = Bomb::new("actions");
    bomb.step_with(
        "actions",
        &list(MANY, |n| {
            format!("{{\"name\":\"t{n}\",\"args\":{{\"n\":{n}}}}}")
        }),
    );
    bomb.step_with(
        "action_results",
        &list(MANY / 2, |n| {
            format!("{{\"status\":\"error\",\"error\":\"e{n}\"}}")
        }),
    );
    all.push(bomb);
    let mut bomb = Bomb::new("critics");
    bomb.step_with(
        "critic_outputs",
        &list(MANY, |n| {
            format!("{{\"critic_name\":\"c{n}\",\"score\":0.1}}")
        }),
    );
    all.push(bomb);
    let mut bomb = Bomb::new("state");
    bomb.step_with(
        "state_diff",
        &members(MANY + MANY / 2, |n| {
            format!("\"k{n}\":{{\"before\":{n},\"after\":0}}")
        }),
    );
    all.push(bomb);
    survive(&all, MAX_MEMORY_MIB);
}

#[test]
fn lines_without_meaning_cost_little() {
    let mut empty = Bomb::new("empty_lines");
    empty.steps.extend(vec![b'\n'; 10 * MANY]);
    empty.steps(&step(1).to_string());
    let mut nul = Bomb::new("nul");
    nul.steps.extend(vec![0; BELOW]);
    nul.events_of_nothing(MANY / 2);
    let mut ids = Bomb::new("ids_that_fall");
    for n in 0..MANY / 5 {
        ids.steps(&format!("{{\"step_id\":{}}}", MANY - n))
            .events(&format!(
                "{{\"step_id\":{},\"phase\":\"DECIDE\"}}",
                n * 7919 % MANY
            ));
    }
    survive(&[empty, nul, ids], MAX_MEMORY_MIB);
}

impl Bomb {
    fn events_of_nothing(&mut self, count: usize) {
        for _ in 0..count {
            self.events("[]").steps("x");
        }
    }
}

#[test]
fn lines_without_a_record_are_counted_and_not_kept() {
    let tiny = [
        ("ones", "1\n"),
        ("objects", "{}\n"),
        ("garbage", "x\n"),
        ("lists", "[]\n"),
        ("unknown", "{\"a\":1}\n"),
    ];
    let bombs = tiny.map(|(name, line)| {
        let mut bomb = Bomb::new(name);
        bomb.steps.extend(line.as_bytes().repeat(records()));
        bomb.events.extend(line.as_bytes().repeat(records()));
        bomb.steps(&step(1).to_string())
            .events(&event(1).to_string());
        bomb
    });
    let served = survive_together(&bombs, max_records_mib());
    let last = format!("lines 18 to {} hold no records", thousands(records() + 1));
    for bomb in &bombs {
        let run = served.board.json(&format!("/api/runs/{}", bomb.name));
        let issues = run["issues_list"].to_string();
        assert!(issues.contains(&last), "{}: {issues}", bomb.name);
    }
    for row in served.board.json("/api/runs")["runs"].as_array().unwrap() {
        assert_eq!(row["mark"], "unknown", "{row}");
    }
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    groups.join(",")
}

/// Runs of other tools that consist of tiny records only, by file name.
fn tiny_records(count: usize) -> Vec<(&'static str, Vec<u8>)> {
    let many =
        |line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>().into_bytes();
    let after = |first: &str, rest: Vec<u8>| [first.as_bytes(), &rest].concat();
    let within = |before: &str, item: &dyn Fn(usize) -> String, after: &str| {
        format!(
            "{before}{}{after}",
            (0..count).map(item).collect::<Vec<_>>().join(",")
        )
        .into_bytes()
    };
    let claude = concat!(
        r#"{"type":"user","sessionId":"s1","uuid":"u","timestamp":"2026-11-21T20:25:58.295Z","#,
        r#""message":{"role":"user","content":"The good line."}}"#,
        "\n"
    );
    let codex = concat!(
        r#"{"timestamp":"2026-11-21T20:25:58.295Z","type":"session_meta","#,
        r#""payload":{"id":"c1","cwd":"/x","originator":"codex"}}"#,
        "\n"
    );
    let reply = |id: &dyn Fn(usize) -> String, n: usize| {
        format!(
            r#"{{"type":"assistant","sessionId":"s1","uuid":"u{n}","message":{{"id":"{}","role":"assistant","content":[{{"type":"tool_use","id":"t{n}","name":"x","input":{{}}}}]}}}}"#,
            id(n)
        ) + "\n"
    };
    let of_span = |n: usize| {
        format!(
            r#"{{"traceId":"{:032x}","spanId":"{n:016x}","name":"chat","startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001000000000","attributes":[{{"key":"gen_ai.operation.name","value":{{"stringValue":"chat"}}}}]}}"#,
            1
        )
    };
    vec![
        ("empty.jsonl", after(claude, many(&|_| "{}\n".to_owned()))),
        (
            "kinds.jsonl",
            after(claude, many(&|_| "{\"type\":\"x\"}\n".to_owned())),
        ),
        (
            "replies.jsonl",
            after(
                claude,
                (0..count / 8)
                    .map(|n| reply(&|n| n.to_string(), n))
                    .collect::<String>()
                    .into(),
            ),
        ),
        (
            "one_step.jsonl",
            after(
                claude,
                (0..count / 8)
                    .map(|n| reply(&|_| "m".to_owned(), n))
                    .collect::<String>()
                    .into(),
            ),
        ),
        (
            "rollout-1.jsonl",
            after(codex, many(&|_| "{\"type\":\"x\"}\n".to_owned())),
        ),
        (
            "a.traj",
            within("{\"trajectory\":[", &|_| "{}".to_owned(), "],\"info\":{}}"),
        ),
        (
            "trajectory.json",
            within(
                r#"{"schema_version":"ATIF-v1.5","session_id":"s","agent":{"name":"a","version":"1"},"steps":["#,
                &|n| format!(r#"{{"step_id":{n},"source":"agent","message":"x"}}"#),
                "]}",
            ),
        ),
        (
            "spans.json",
            within(
                r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#,
                &of_span,
                "]}]}]}",
            ),
        ),
    ]
}

#[test]
fn tiny_records_of_other_tools_stay_within_a_budget() {
    for (name, bytes) in tiny_records(tiny()) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), &bytes).unwrap();
        let start = Instant::now();
        let board = Board::serve(dir.path());
        board.until_read();
        let runs = board.json("/api/runs");
        let key = runs["runs"][0]["key"]
            .as_str()
            .unwrap_or_else(|| panic!("{name}: {runs}"));
        for rest in [
            "",
            "?step=1",
            "?tab=issues",
            "?tab=events",
            "?tab=timeline",
            "?tab=transcript",
            "?tab=files",
            "/steps/0",
            "/scores",
        ] {
            let response = board.get(&format!("/runs/{key}{rest}"));
            assert!(
                [200, 404].contains(&response.status),
                "{name}{rest}: {}",
                response.status
            );
            assert!(
                response.body.len() <= MAX_PAGE_BYTES,
                "{name}{rest}: {} bytes",
                response.body.len()
            );
        }
        let memory = memory::most_kib(board.pid()).expect("Linux tells the peak") >> 10;
        println!("{name}: {} ms, {memory} MiB", start.elapsed().as_millis());
        assert!(memory <= max_records_mib(), "{name}: {memory} MiB");
    }
}

#[test]
fn rules_schemas_and_queries_have_an_end() {
    let dir = tempfile::tempdir().unwrap();
    Bomb::new("good").write(dir.path());
    let board = Board::serve(dir.path());
    board.until_read();
    let encode = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    let ask = |rule: &str| {
        let start = Instant::now();
        let answer = board.get(&format!("/api/runs/good/whatif?rule={}", encode(rule)));
        println!(
            "{} ms, {} for {}",
            start.elapsed().as_millis(),
            answer.status,
            rule.chars().take(60).collect::<String>()
        );
        (answer.status, answer.text().to_owned())
    };
    for pattern in [
        "((((((a{100}){100}){100}){100}){100}){100}",
        "(?:\\pL{1000}){1000}",
        "(((.*)*)*)*\u{1f600}{5000}{5000}",
    ] {
        let (status, said) = ask(&format!("content_match={pattern}"));
        assert!(
            status == 400 && said.contains("doesn't compile"),
            "{status} {said}"
        );
    }
    let deep = |open: &str, close: &str, inside: &str| {
        [&open.repeat(200), inside, &close.repeat(200)].concat()
    };
    for rule in [
        deep(
            "{\"type\":\"any_of\",\"of\":[",
            "]}",
            "{\"type\":\"max_steps\",\"steps\":1}",
        ),
        format!(
            "{{\"type\":\"structured_output\",\"schema\":{}}}",
            deep("{\"not\":", "}", "{}")
        ),
        "{\"type\":\"structured_output\",\"schema\":{\"$ref\":\"http://127.0.0.1:1/x.json\"}}"
            .to_owned(),
        "{\"type\":\"structured_output\",\"schema\":{\"$ref\":\"file:///etc/passwd\"}}".to_owned(),
        "structured_output=/etc/passwd".to_owned(),
        "{\"type\":\"structured_output\",\"schema\":{\"pattern\":\"((a{500}){500}){500}\"}}"
            .to_owned(),
    ] {
        let (status, said) = ask(&rule);
        assert!(status == 400 && !said.contains("root:"), "{status} {said}");
    }
    for rule in [
        "{\"type\":\"structured_output\",\"schema\":{\"$ref\":\"#\"}}".to_owned(),
        "{\"type\":\"structured_output\",\"schema\":{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}]}},\"$ref\":\"#/$defs/a\"}}".to_owned(),
        format!("{{\"type\":\"structured_output\",\"schema\":{{\"enum\":{}}}}}", list(1_500, |n| n.to_string())),
    ] {
        let (status, said) = ask(&rule);
        assert!([200, 400].contains(&status), "{status} {said}");
    }
    for path in [
        format!("/?q={}", "a:b%20".repeat(6_000)),
        format!("/api/runs?q={}", "-x,".repeat(10_000)),
        format!("/runs/good/whatif?{}", "rule=max_steps%3D1&".repeat(1_000)),
        format!("/scores?{}", "run=good&".repeat(1_000)),
        format!("/compare?{}", "run=good&".repeat(1_000)),
        format!("/runs/good/replay?step=0&{}", "break=x&".repeat(1_000)),
    ] {
        let start = Instant::now();
        let response = board.get(&path);
        println!(
            "{} ms, {}, {} bytes for {}",
            start.elapsed().as_millis(),
            response.status,
            response.body.len(),
            &path[..30]
        );
        assert!(
            [200, 303, 400, 414, 431].contains(&response.status),
            "{}: {}",
            &path[..30],
            response.status
        );
        assert!(
            response.body.len() <= MAX_PAGE_BYTES,
            "{}: {} bytes",
            &path[..30],
            response.body.len()
        );
    }
    let memory = memory::most_kib(board.pid()).expect("Linux tells the peak") >> 10;
    println!("{memory} MiB");
    assert!(
        board.get("/healthz").status == 200 && memory <= MAX_MEMORY_MIB,
        "{memory} MiB"
    );
}
