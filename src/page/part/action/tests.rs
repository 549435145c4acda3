use crate::page::part::action::*;
use crate::page::part::fold::{More, ValueLinks};

fn read(step: &str) -> Actions {
    Actions::new(
        &crate::format::step_in(step).unwrap_or_default(),
        &mut Fold::new(ValueLinks {
            value: "/v".into(),
            raw: "/r".into(),
        }),
    )
}

fn texts(pair: &Pair) -> Vec<(&str, &str)> {
    pair.blocks
        .iter()
        .map(|block| (block.label.as_str(), block.text.shown.as_str()))
        .collect()
}

fn words(pair: &Pair) -> Vec<&str> {
    pair.marks.iter().map(|mark| mark.text.as_str()).collect()
}

#[test]
fn a_wrapped_result_joins_its_call() {
    let actions = read(
        r#"{"actions": [{"name": "run_python", "args": {"path": "test_calc.py"}, "max_retries": 2, "timeout_s": 30}],
        "tool_invocations": [{"tool_name": "run_python", "toolset_name": "filetools", "toolset_version": "1.2.0",
        "attempts": 1, "latency_ms": 26.02, "status": "success", "error_category": null, "error": null}],
        "action_results": [{"status": "success", "output": {"status": "partial", "returncode": 1, "stdout": "",
        "stderr": "Traceback\nAssertionError", "elapsed_ms": 25.82}, "error": null, "metadata": {}}]}"#,
    );
    let [pair] = actions.pairs.as_slice() else {
        panic!("one pair")
    };
    assert_eq!(words(pair), ["exit code 1"]);
    assert_eq!(
        pair.facts.as_str(),
        "26.0 ms · attempt 1 of 3 · toolset filetools 1.2.0 · timeout 30.0 s"
    );
    assert_eq!(texts(pair), [("stderr", "Traceback\nAssertionError")]);
    assert_eq!(
        pair.small.as_str(),
        "status partial · returncode 1 · stdout empty · elapsed_ms 25.82"
    );
    assert!(pair.note.is_empty() && pair.rest.is_empty());
    let html = actions.render().unwrap();
    assert!(
        html.contains("run_python(<i>path=</i>&#34;test_calc.py&#34;)"),
        "{html}"
    );
    assert!(
        html.contains("aria-label=\"stderr of run_python\""),
        "{html}"
    );
}

#[test]
fn older_results_are_raw_and_the_environment_stands_apart() {
    let actions = read(
        r#"{"actions": [{"name": "list_dir", "args": {}}], "tool_invocations": [{"tool_name": "list_dir", "status": "error",
        "error": "boom"}], "action_results": [{"error": "boom"}, {"env": {"done": true, "reward": -1.5, "error": null}}]}"#,
    );
    assert_eq!(actions.pairs.len(), 1);
    assert_eq!(texts(&actions.pairs[0]), [("error", "boom")]);
    assert!(actions.pairs[0].blocks[0].error);
    let marks: Vec<_> = actions.env[0]
        .marks
        .iter()
        .map(|mark| mark.text.as_str())
        .collect();
    assert_eq!(marks, ["done", "reward -1.5"]);
}

#[test]
fn a_failure_that_the_tool_itself_reports_is_marked_and_what_is_none_is_not() {
    let result = |result: &str| {
        read(&format!(
            r#"{{"actions": [{{"name": "t", "args": {{}}}}], "tool_invocations": [{{"tool_name": "t", "status": "success"}}],
            "action_results": [{result}]}}"#
        ))
    };
    assert_eq!(
        words(&result(r#"{"status": "failed", "message": "quota"}"#).pairs[0]),
        ["call success", "result failed"]
    );
    assert_eq!(
        words(&result(r#"{"error": "quota"}"#).pairs[0]),
        ["call success", "result error"]
    );
    let none = result(r#"{"status": "ok", "error": "none"}"#);
    assert_eq!(
        (words(&none.pairs[0]), none.pairs[0].blocks[0].error),
        (vec!["success"], false)
    );
}

#[test]
fn what_has_no_partner_says_so() {
    let blocked = read(
        r#"{"actions": [{"name": "a", "args": {}}, {"name": "b", "args": {}}], "tool_invocations": [],
        "action_results": [{"status": "error", "output": null, "error": "blocked", "metadata": {"tool_name": "b"}}]}"#,
    );
    assert_eq!(
        blocked.pairs[0].note.as_str(),
        "not called (no invocation and no result)"
    );
    assert_eq!(
        blocked.pairs[1].note.as_str(),
        "result without an invocation (no tool ran)"
    );
    let lost = read(
        r#"{"actions": [{"name": "a", "args": {}}], "tool_invocations": [{"tool_name": "a", "status": "success"}],
        "action_results": []}"#,
    );
    assert_eq!(lost.pairs[0].note.as_str(), "no result recorded");
    let alone = read(r#"{"actions": [], "tool_invocations": [], "action_results": ["text"]}"#);
    assert_eq!(
        alone.pairs[0].note.as_str(),
        "a result without a recorded call"
    );
    assert_eq!(texts(&alone.pairs[0]), [("output", "text")]);
    assert!(read("{}").is_empty() && read("[]").is_empty() && read(r#"{"actions": 7}"#).is_empty());
}

#[test]
fn order_joins_where_counts_agree_and_names_where_they_do_not() {
    let actions = read(
        r#"{"actions": [{"name": "a"}, {"name": "b"}, {"name": "a"}],
        "tool_invocations": [{"tool_name": "b", "status": "success"}, {"tool_name": "a", "status": "skipped"}],
        "action_results": [1, 2, 3]}"#,
    );
    assert_eq!(words(&actions.pairs[0]), ["skipped"]);
    assert_eq!(words(&actions.pairs[1]), ["success"]);
    assert!(words(&actions.pairs[2]).is_empty());
    assert_eq!(actions.pairs.len(), 3);
}

#[test]
fn a_status_that_differs_is_said_twice() {
    let actions = read(
        r#"{"actions": [{"name": "a"}], "tool_invocations": [{"tool_name": "a", "status": "success"}],
        "action_results": [{"status": "error", "output": null, "error": "denied", "metadata": {}}]}"#,
    );
    assert_eq!(words(&actions.pairs[0]), ["call success", "result error"]);
}

#[test]
fn long_arguments_stand_below() {
    let content = "line\n".repeat(3000);
    let step = format!(
        r#"{{"actions": [{{"name": "send", "args": {{"path": "x", "content": {content:?}}}}}]}}"#
    );
    let actions = read(&step);
    let call = actions.pairs[0].call.as_ref().unwrap();
    assert_eq!(call.args[1].value.as_str(), "… shown below, 18.0 KB");
    assert!(matches!(call.long[0].text.more, More::Here { .. }));
    let odd = read(r#"{"actions": ["text", {"name": "n", "args": [1]}]}"#);
    assert_eq!(
        odd.pairs[1].call.as_ref().unwrap().args[0].value.as_str(),
        "[1]"
    );
    assert_eq!(odd.pairs[0].call.as_ref().unwrap().name.as_str(), "no name");
}

#[test]
fn hostile_text_is_text_everywhere() {
    let e = serde_json::to_string("<script>alert(1)</script></textarea>\"'\u{202e}\u{0}").unwrap();
    let step = format!(
        r#"{{"actions": [{{"name": {e}, "args": {{{e}: {e}, "x": "{long}"}}}}, {e}],
        "tool_invocations": [{{"tool_name": {e}, "toolset_name": {e}, "toolset_version": {e}, "status": {e}, "error": {e},
        "error_category": {e}, "source": {e}, "cancel_source": {e}}}],
        "action_results": [{{"status": {e}, "output": {{{e}: {e}, "stdout": {e}, "o": {{{e}: [{e}]}}}}, "error": {e}, "metadata": {{}}}},
        {{"env": {{"error": {e}, {e}: {e}}}}}, {{{e}: {{{e}: {e}}}}}]}}"#,
        long = "<script>".repeat(40)
    );
    let html = read(&step).render().unwrap();
    assert!(
        !html.contains("<script") && !html.contains("</textarea"),
        "{html}"
    );
    assert!(
        !html.contains('\u{202e}') && !html.contains('\u{0}'),
        "{html}"
    );
    assert!(html.matches("&#60;script&#62;").count() > 15, "{html}");
}

#[test]
fn a_result_of_our_own_engine_leaves_out_what_is_not_there() {
    let actions = read(
        r#"{"actions": [{"name": "echo", "args": {}}, {"name": "echo", "args": {}}],
        "tool_invocations": [{"tool_name": "echo", "status": "success"}, {"tool_name": "echo", "status": "error"}],
        "action_results": [{"status": "success", "output": "one", "cut_from_bytes": 330000},
        {"status": "error", "output": null, "error": "no echo here"}]}"#,
    );
    let [first, second] = actions.pairs.as_slice() else {
        panic!("two pairs")
    };
    assert_eq!(texts(first), [("output", "one")]);
    assert_eq!(first.facts.as_str(), "truncated from 330.0 KB");
    assert_eq!(texts(second), [("error", "no echo here")]);
    let names: Vec<_> = actions
        .pairs
        .iter()
        .map(|pair| pair.blocks[0].text.name.as_str())
        .collect();
    assert_eq!(names, ["output of echo", "error of echo, call 2"]);
}

#[test]
fn an_edit_stands_for_its_arguments() {
    let actions = read(
        r#"{"actions": [{"name": "replace_text", "args": {"path": "a", "old": "x\ny", "new": "x\nz", "count": 1}}],
        "action_results": [{"status": "error", "error": "no such text", "output": null, "metadata": {}}]}"#,
    );
    let pair = &actions.pairs[0];
    let names: Vec<_> = pair
        .call
        .as_ref()
        .unwrap()
        .args
        .iter()
        .map(|arg| arg.name.as_str())
        .collect();
    assert_eq!(names, ["path=", "count="]);
    assert_eq!((pair.edits[0].added, pair.edits[0].removed), (1, 1));
    assert_eq!(
        pair.edits[0].note.as_str(),
        "requested, but the call failed"
    );
}

#[test]
fn a_task_is_kept_as_far_as_a_summary_has_it() {
    let asked = |task: &str| {
        let args = serde_json::json!({"prompt": task}).to_string();
        asked_by(&Json::parse(&args).unwrap())
    };
    let long = "x".repeat(1_000);
    assert_eq!(asked(&format!(" {long}a\n")), Some(format!("{long}a")));
    let cut = asked(&"x".repeat(5_000)).unwrap();
    assert_eq!(cut, format!("{}…", "x".repeat(MAX_ASKED)));
    assert_eq!(asked(" "), None);
}

/// Continue names the file in another way than most tools.
#[test]
fn a_file_is_recognized_by_each_name_of_its_argument() {
    for name in ["file_path", "filePath", "filepath", "target_file", "path"] {
        let actions = read(&format!(
            r#"{{"actions": [{{"name": "Read", "args": {{"{name}": "slug.py"}}}}], "action_results": [{{"status": "success", "output": "x"}}]}}"#
        ));
        let [pair] = actions.pairs.as_slice() else {
            panic!("one pair")
        };
        let object = pair.call.as_ref().map(|call| call.object.as_str());
        assert_eq!(object, Some("slug.py"), "{name}");
        assert_eq!(pair.reads.as_deref(), Some("slug.py"), "{name}");
    }
}
