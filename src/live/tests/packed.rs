use std::sync::LazyLock;

use super::*;

/// Returns the lines of a growing run's files, from its `n`th step on.
type Lines = fn(usize) -> Vec<(&'static str, String)>;

/// Returns a time of the `n`th step, in a run that began a few seconds ago.
fn time(n: usize, part: usize) -> String {
    static START: LazyLock<jiff::Timestamp> = LazyLock::new(jiff::Timestamp::now);
    let after = Duration::from_millis((2 * n + part) as u64);
    (*START - Duration::from_secs(4) + after).to_string()
}

fn qitos(n: usize) -> Vec<(&'static str, String)> {
    let event = |phase: &str, second: usize| {
        let ts = time(n, second);
        format!("{{\"step_id\": {n}, \"phase\": \"{phase}\", \"ok\": true, \"ts\": \"{ts}\"}}\n")
    };
    let events = event("DECIDE", 1) + &event("ACT", 2);
    let action = format!(
        r#"{{"name": "read", "args": {{"path": "file{}.rs"}}}}"#,
        n % 7
    );
    let step = format!(
        "{{\"step_id\": {n}, \"decision\": {{\"mode\": \"act\"}}, \"actions\": [{action}], \
         \"action_results\": [{{\"status\": \"success\", \"output\": \"text {n}\"}}]}}\n"
    );
    vec![("events.jsonl", events), ("steps.jsonl", step)]
}

fn claude_code(n: usize) -> Vec<(&'static str, String)> {
    let line = |id: String, parent: String, second: usize, rest: String| {
        let ts = time(n, second);
        format!(
            "{{\"parentUuid\": \"{parent}\", \"sessionId\": \"a1\", \"version\": \"2.1.0\", \
             \"uuid\": \"{id}\", \"timestamp\": \"{ts}\", {rest}}}\n"
        )
    };
    let usage = r#"{"input_tokens": 10, "output_tokens": 5}"#;
    let call = format!(
        r#""type": "assistant", "message": {{"id": "m{n}", "role": "assistant", "model": "m", "usage": {usage},
        "stop_reason": "tool_use", "content": [{{"type": "tool_use", "id": "t{n}", "name": "Read", "input": {{"file_path": "f{n}"}}}}]}}"#
    );
    let result = format!(
        r#""type": "user", "message": {{"role": "user", "content": [{{"type": "tool_result", "tool_use_id": "t{n}", "content": "text {n}"}}]}}"#
    );
    let flat = |text: String| text.replace('\n', " ");
    let asked = line(
        format!("a{n}"),
        format!("b{}", n.wrapping_sub(1)),
        1,
        flat(call),
    );
    let given = line(format!("b{n}"), format!("a{n}"), 2, flat(result));
    vec![("a1.jsonl", asked + &given)]
}

fn append(dir: &Path, lines: Lines, steps: std::ops::Range<usize>) {
    for n in steps {
        for (file, text) in lines(n) {
            let file = fs::File::options()
                .create(true)
                .append(true)
                .open(dir.join(file));
            std::io::Write::write_all(&mut file.unwrap(), text.as_bytes()).unwrap();
        }
    }
}

#[test]
fn a_run_that_grows_unseen_is_packed_and_stays_so() {
    const STEPS: usize = 1_000;
    for lines in [qitos as Lines, claude_code] {
        let root = tempfile::tempdir().unwrap();
        let dir = write_run(root.path(), "a", RUNNING);
        append(&dir, lines, 0..STEPS);
        let named = lines(0).pop().unwrap().0;
        let place = match named {
            "steps.jsonl" => RunDir::alone(&dir),
            file => RunDir::of_file(&dir.join(file)).unwrap().unwrap(),
        };
        let run = Run::new(&RunKey::new("a"), "a".to_owned(), place, Duration::ZERO);
        while run.refresh(1 << 20).more {}
        assert_eq!(run.summary().steps, STEPS, "{named}");
        let whole = run.open_bytes();
        assert!(!run.park(false), "it grew a moment ago");
        let packed = run.open_bytes();
        assert!(packed < whole / 3, "{named}: {packed} of {whole} bytes");
        append(&dir, lines, STEPS..STEPS + 1);
        assert!(run.refresh(1 << 20).changed);
        assert_eq!(run.summary().steps, STEPS + 1);
        let grown = run.open_bytes();
        assert!(
            grown < packed + whole / 20,
            "{named}: {packed} and {grown} of {whole} bytes"
        );
        // Its pages show the same as if it had never been packed.
        let index = run.index();
        let fresh = Run::new(
            &RunKey::new("a"),
            "a".to_owned(),
            run.dir().clone(),
            Duration::ZERO,
        );
        while fresh.refresh(1 << 20).more {}
        assert_eq!(*index, *fresh.index());
        assert!(
            !run.park(false) && run.open_bytes() > whole,
            "a page uses it"
        );
    }
}
