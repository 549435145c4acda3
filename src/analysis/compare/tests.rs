use super::align::tests::run;
use super::*;
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::summary;
use crate::model::RunKey;
use crate::model::json::Json;
use crate::soak::times;

const CALL: &str =
    r#""decision": {"mode": "act", "actions": [{"name": "read", "args": {"path": "a"}}]}"#;

fn act(name: &str, argument: &str, more: &str) -> String {
    format!(
        r#""decision": {{"mode": "act", "actions": [{{"name": "{name}", "args": {{"path": "{argument}"}}}}]}}{more}"#
    )
}

fn end(text: &str, critic: &str) -> String {
    let outputs = format!(
        r#""critic_outputs": [{{"critic_name": "V", "action": "{critic}", "score": 0.5}}]"#
    );
    format!(r#""decision": {{"mode": "final", "final_answer": "{text}"}}, {outputs}"#)
}

/// Returns the relation where the runs diverge, its steps, and the sentence.
fn parted(a: &[String], b: &[String]) -> (&'static str, Option<Pair>, String) {
    let (a, b) = (run(a), run(b));
    let comparison = compare(&a, &b);
    let row = comparison.first.and_then(|at| comparison.rows.get(at));
    let word = |row: &Row| {
        serde_json::to_value(row.relation)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
            .leak() as &str
    };
    (
        row.map_or("none", word),
        row.map(|row| row.pair),
        comparison.sentence(&a, &b),
    )
}

#[test]
fn runs_diverge_where_they_do_something_different() {
    let step = CALL.to_owned();
    let (what, pair, sentence) = parted(
        &[step.clone(), act("run", "t", "")],
        &[step.clone(), act("run", "u", "")],
    );
    assert_eq!(
        (what, pair),
        (
            "arguments",
            Some(Pair {
                a: Some(1),
                b: Some(1),
                asks_same: false
            })
        )
    );
    // The lines of these runs all have id 0.
    assert_eq!(
        sentence,
        "The runs diverge at step 0: both call run, with different arguments. Same actions in the first step."
    );
    let (what, _, sentence) = parted(std::slice::from_ref(&step), &[act("write", "a", "")]);
    assert_eq!(
        (what, &*sentence),
        (
            "action",
            "The runs diverge at step 0: A calls read, B calls write."
        )
    );
    let (what, _, sentence) = parted(&[step.clone(), step.clone()], std::slice::from_ref(&step));
    assert_eq!(what, "only_in_a");
    assert_eq!(
        sentence,
        "The runs diverge at step 0: A calls read, but B has no more steps. Same actions in the first step."
    );
}

#[test]
fn two_answers_are_judged() {
    let (what, _, sentence) = parted(&[end("yes", "continue")], &[end("no", "retry")]);
    assert_eq!(what, "answer");
    assert!(
        sentence.ends_with("The runs diverge at step 0: both answer, but A is accepted and B is sent back by its critic."),
        "{sentence}"
    );
    let (_, _, sentence) = parted(&[end("yes", "continue")], &[end("no", "continue")]);
    assert!(
        sentence.ends_with("both answer, with different texts."),
        "{sentence}"
    );
    let alone = r#""decision": {"mode": "final", "final_answer": "no"}"#.to_owned();
    for unjudged in [alone, end("no", "failed"), end("no", "ponder")] {
        let (_, _, sentence) = parted(&[unjudged], &[end("yes", "stop")]);
        assert!(
            sentence.ends_with("A is not judged and B is stopped by its critic."),
            "{sentence}"
        );
    }
}

#[test]
fn several_calls_of_a_step_are_counted_by_tool() {
    let calls = |tools: &[&str]| {
        let calls: Vec<String> = tools
            .iter()
            .map(|tool| format!(r#"{{"name": "{tool}"}}"#))
            .collect();
        format!(
            r#""decision": {{"mode": "act", "actions": [{}]}}"#,
            calls.join(", ")
        )
    };
    let one = calls(&["other"]);
    for (tools, expected) in [
        (&["read", "read"][..], "B calls read twice."),
        (&["read", "read", "read"], "B calls read 3 times."),
        (&["read", "write", "read"], "B calls read and 1 more tool."),
    ] {
        let (_, _, sentence) = parted(std::slice::from_ref(&one), &[calls(tools)]);
        assert!(sentence.ends_with(expected), "{sentence}");
    }
}

#[test]
fn equal_actions_may_have_different_outcomes() {
    let result = |text: &str| {
        act(
            "run",
            "t",
            &format!(r#", "action_results": [{{"output": "{text}"}}]"#),
        )
    };
    let (what, _, sentence) = parted(&[result("1")], &[result("2")]);
    assert_eq!(
        (what, &*sentence),
        (
            "result",
            "Same actions in the only step. Results first differ at step 0."
        )
    );
    let failed = act(
        "run",
        "t",
        r#", "action_results": [{"status": "error", "error": "no"}]"#,
    );
    assert_eq!(parted(&[result("1")], &[failed]).0, "error");
    assert_eq!(
        parted(&[end("y", "continue")], &[end("y", "stop")]).0,
        "critic"
    );
    let failed = end("y", "failed");
    assert_eq!(parted(&[end("y", "continue")], &[failed]).0, "critic");
    let same =
        "the same in both runs: actions, results, critics with their scores, and state changes.";
    assert_eq!(
        parted(&[result("1")], &[result("1")]),
        ("none", None, format!("The only step is {same}"))
    );
    let two = [result("1"), result("2")];
    assert_eq!(parted(&two, &two).2, format!("The 2 steps are {same}"));
    assert_eq!(parted(&[], &[]).2, "Neither run has any steps.");
}

#[test]
fn tool_outputs_are_compared_without_their_wrapping() {
    let result = |result: &str| {
        [act(
            "run",
            "t",
            &format!(r#", "action_results": [{result}]"#),
        )]
    };
    let wrapped = |output: &str, error: &str| {
        let status = if error == "null" { "success" } else { "error" };
        result(&format!(
            r#"{{"status": "{status}", "output": {output}, "error": {error}, "metadata": {{"latency_ms": 1.5}}}}"#
        ))
    };
    let pairs = [
        (
            r#"{"status": "success", "path": ".", "entries": []}"#,
            "null",
        ),
        (
            r#"{"returncode": 0, "stdout": "ok", "elapsed_ms": 17.4}"#,
            "null",
        ),
        (r#""text""#, "null"),
        ("7", "null"),
        ("null", "null"),
    ];
    for (output, error) in pairs {
        assert_eq!(
            parted(&result(output), &wrapped(output, error)).0,
            "none",
            "{output}"
        );
        assert_eq!(
            parted(&result(output), &wrapped("8", error)).0,
            "result",
            "{output}"
        );
    }
    assert_eq!(
        parted(
            &result(r#"{"error": "gone"}"#),
            &wrapped("null", r#""gone""#)
        )
        .0,
        "none"
    );
    assert_eq!(
        parted(
            &result(r#"{"error": "gone"}"#),
            &wrapped("null", r#""lost""#)
        )
        .0,
        "error"
    );
    let took = |ms: u32| format!(r#"{{"returncode": 0, "elapsed_ms": {ms}}}"#);
    assert_eq!(
        parted(&result(&took(1)), &result(&took(2))).0,
        "none",
        "durations aren't part of a result"
    );
}

#[test]
fn results_are_compared_as_values() {
    let result = |result: &str| {
        [act(
            "run",
            "t",
            &format!(r#", "action_results": [{result}]"#),
        )]
    };
    let is = |a: &str, b: &str| parted(&result(a), &result(b)).0;
    assert_eq!(
        is(
            r#"{"a": [1, {"b": "é"}], "c": 2}"#,
            r#"{"c":2.0,"a":[1,{"b":"\u00e9"}]}"#
        ),
        "none"
    );
    assert_eq!(is(r#"[1, [2, 3]]"#, r#"[1,[2,3]]"#), "none");
    for (a, b) in [
        (r#"{"a": 1}"#, r#"{"a": "1"}"#),
        ("[[1], 2]", "[[1, 2]]"),
        (r#"{"a": 1, "b": 2}"#, r#"{"a": 2, "b": 1}"#),
        (r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1}, "c": null}"#),
        (r#"{"a": {"elapsed_ms": 1}}"#, r#"{"a": {"elapsed_ms": 2}}"#),
        ("null", "{}"),
    ] {
        assert_eq!(is(a, b), "result", "{a} and {b}");
    }
    let deep = |last: u32| format!("{}{last}{}", "[".repeat(300), "]".repeat(300));
    assert_eq!(
        (is(&deep(1), &deep(1)), is(&deep(1), &deep(2))),
        ("none", "result")
    );
}

#[test]
fn a_truncated_result_does_not_count_as_different() {
    let result = |result: &str| {
        [act(
            "run",
            "t",
            &format!(r#", "action_results": [{result}]"#),
        )]
    };
    let wrapped = |output: &str| {
        result(&format!(
            r#"{{"status": "success", "output": {output}, "error": null, "metadata": {{}}}}"#
        ))
    };
    let (start, end) = ("s".repeat(35_000), "e".repeat(15_000));
    let whole = result(&format!(r#"{{"text": "{start}middle{end}"}}"#));
    let cut = wrapped(&format!(
        r#""{{\"text\": \"{start}\n... [truncated, 50016 chars total] ...\n{end}\"}}""#
    ));
    let (_, first, sentence) = parted(&whole, &cut);
    assert_eq!(first, None, "no known difference");
    assert_eq!(
        sentence,
        "No known differences: actions, critics, scores and state changes are the same in the only step. Results match \
         as far as recorded. At step 0, one was truncated by its writer."
    );
    let relation = |a: &[String], b: &[String]| compare(&run(a), &run(b)).rows[0].relation;
    assert_eq!(relation(&whole, &cut), Relation::Cut);
    assert_eq!(
        relation(&cut, &cut),
        Relation::Cut,
        "two truncated results aren't known to be equal"
    );
    // Board's own engine records the truncation beside the output.
    let ours = result(r#"{"status": "success", "output": "s", "cut_from_bytes": 900}"#);
    assert_eq!(relation(&ours, &whole), Relation::Cut);
    let talk = wrapped(r#""the marker is ... [truncated, N chars total] ...""#);
    assert_eq!(
        relation(&talk, &wrapped("8")),
        Relation::Result,
        "a text about the marker isn't truncated"
    );
}

#[test]
fn critics_are_compared_by_name_if_both_record_one() {
    let judged = |name: &str, action: &str| {
        let critic = format!(r#"{{{name}"action": "{action}", "score": 0.5}}"#);
        [act(
            "run",
            "t",
            &format!(r#", "critic_outputs": [{critic}]"#),
        )]
    };
    let (v, w) = (r#""critic_name": "V", "#, r#""critic_name": "W", "#);
    assert_eq!(
        parted(&judged("", "continue"), &judged(v, "continue")).0,
        "none"
    );
    assert_eq!(
        parted(&judged(w, "continue"), &judged(v, "continue")).0,
        "critic"
    );
    assert_eq!(
        parted(&judged("", "retry"), &judged(v, "continue")).0,
        "critic"
    );
}

#[test]
fn a_row_is_the_same_only_if_nothing_differs() {
    let result = |text: &str| {
        act(
            "run",
            "t",
            &format!(r#", "action_results": [{{"output": "{text}"}}]"#),
        )
    };
    let (a, b) = (
        run(&[result("1"), result("1")]),
        run(&[result("1"), result("2")]),
    );
    let rows = serde_json::to_value(compare(&a, &b).rows).unwrap();
    let row = |n: u32, same: bool, what: &str| serde_json::json!({"a": n, "b": n, "same": same, "what": what});
    assert_eq!(
        rows,
        serde_json::json!([row(0, true, "none"), row(1, false, "result")])
    );
}

#[test]
fn states_differ_by_keys_and_by_values() {
    let changed = |diff: &str| vec![act("run", "t", &format!(r#", "state_diff": {{{diff}}}"#))];
    let (a, b) = (
        r#""k": {"before": 1, "after": 2}"#,
        r#""l": {"before": "x", "after": "y"}"#,
    );
    let both = changed(&format!("{a}, {b}"));
    for other in [
        a,
        r#""k": {"before": 1, "after": 3}"#,
        r#""k": {"before": 0, "after": 2}"#,
    ] {
        let (what, _, sentence) = parted(
            &both,
            &changed(&format!("{other}, {}", b.replace('y', "z"))),
        );
        assert_eq!(what, "state", "{other}");
        assert_eq!(
            sentence,
            "Same actions in the only step. State changes first differ at step 0."
        );
    }
    assert_eq!(parted(&both, &changed(a)).0, "state");
    assert_eq!(
        parted(
            &both,
            &changed(&format!(r#"{b}, "k":{{"after":2.0,"before":1}}"#))
        )
        .0,
        "none"
    );
}

#[test]
fn earlier_differences_are_mentioned() {
    let result = |text: &str| {
        act(
            "run",
            "t",
            &format!(r#", "action_results": [{{"output": "{text}"}}]"#),
        )
    };
    let (what, _, sentence) = parted(
        &[result("1"), act("a", "", "")],
        &[result("2"), act("b", "", "")],
    );
    assert_eq!(what, "action");
    assert!(
        sentence.ends_with("Results already differ at step 0."),
        "{sentence}"
    );
}

fn settings(a: &str, b: &str) -> Config {
    let index = run(&[]);
    let summary = summary(
        &RunKey::new("r"),
        String::new(),
        &index,
        ExternalFacts::default(),
    );
    config(
        (&summary, Json::parse(a).as_ref()),
        (&summary, Json::parse(b).as_ref()),
    )
}

#[test]
fn settings_are_sorted_by_effect() {
    let config = settings(
        r#"{"seed": 1, "git_sha": "a", "prompt_hash": "p", "model_id": "unknown", "run_id": "x", "latency_seconds": 1,
            "stop_rules": {"budget": {"steps": {"limit": 8}}}, "summary": {"steps": 4, "run_meta": {"tools": [{"name": "read", "d": 1}, {"name": "run", "d": 1}]}}}"#,
        r#"{"seed": 2, "git_sha": "b", "prompt_hash": "q", "model_id": "m", "run_id": "y", "latency_seconds": 2,
            "stop_rules": {"budget": {"steps": {"limit": 9}}}, "summary": {"steps": 5, "run_meta": {"tools": [{"name": "run", "d": 1}, {"name": "read", "d": 2}]}}}"#,
    );
    let paths: Vec<&str> = config
        .differs
        .iter()
        .map(|setting| setting.path.as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "model_id",
            "prompt_hash",
            "summary.run_meta.tools.read.d",
            "stop_rules.budget.steps.limit",
            "seed",
            "git_sha"
        ]
    );
    assert_eq!(config.differs[0].a, None);
    assert_eq!(config.differs[2].b.as_deref(), Some("2"));
    assert!(
        config
            .equal
            .iter()
            .any(|path| path == "summary.run_meta.tools.run.d"),
        "{:?}",
        config.equal
    );
}

#[test]
fn a_setting_has_the_same_name_whichever_run_comes_first() {
    let (a, b) = (r#"{"zeal": 1}"#, r#"{"zeal": 2, "ardour": 1}"#);
    let same_pair = (
        r#"{"zeal": 1, "ardour": 1}"#,
        r#"{"zeal": 2, "fire": 3, "ardour": 2}"#,
    );
    for (a, b) in [(a, b), same_pair] {
        let names = |config: Config| {
            config
                .differs
                .into_iter()
                .map(|setting| setting.path)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(settings(a, b)), names(settings(b, a)));
    }
    let (left, right) = (
        r#"{"m": {"b": "x"}, "a": "y"}"#,
        r#"{"m": {"b": "z", "a": 1}, "a": "y", "c": 1}"#,
    );
    let names = |config: Config| {
        config
            .differs
            .into_iter()
            .map(|setting| setting.path)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(settings(left, right)), names(settings(right, left)));
}

#[test]
fn what_is_not_recorded_does_not_differ() {
    let config = settings(
        r#"{"model_id": "unknown", "seed": null}"#,
        r#"{"official_run": false}"#,
    );
    assert_eq!(config.differs.len(), 1);
    assert_eq!(
        (
            config.differs[0].path.as_str(),
            config.differs[0].b.as_deref()
        ),
        ("official_run", Some("false"))
    );
    assert_eq!(settings("{}", "[]").differs, []);
}

#[test]
fn differences_beyond_the_limit_are_only_counted() {
    let many = times(10_000, 100_000) as u32;
    let manifest = |side: u32, from: u32| {
        let members: Vec<String> = (from..from + many)
            .map(|n| format!(r#""k{n}": "{side} {n}""#))
            .collect();
        format!(r#"{{"seed": {side}, "z": 1, {}}}"#, members.join(", "))
    };
    let config = settings(&manifest(1, 0), &manifest(2, many / 2));
    assert_eq!(
        (config.differs.len(), config.count()),
        (MAX_DIFFERS, many as usize / 2 * 3 + 1)
    );
    assert_eq!(
        config.differs[0].path, "seed",
        "the settings with the most effect are kept"
    );
    assert_eq!(config.equal, ["z"]);
    assert_eq!(settings(r#"{"a": 1}"#, r#"{"a": 2}"#).more, 0);
}

#[test]
fn items_that_share_a_name_are_compared_as_a_list() {
    let list = |last: u32| {
        format!(r#"{{"tools": [{{"name": "t", "d": 1}}, {{"name": "t", "d": {last}}}]}}"#)
    };
    let config = settings(&list(1), &list(2));
    assert_eq!(
        config
            .differs
            .iter()
            .map(|setting| setting.path.as_str())
            .collect::<Vec<_>>(),
        ["tools"]
    );
}

#[test]
fn numbers_that_are_not_recorded_stay_unknown() {
    let index = run(&[end("yes", "retry")]);
    let summary = summary(
        &RunKey::new("r"),
        String::new(),
        &index,
        ExternalFacts::default(),
    );
    let of = |id: &str| {
        measures(&summary, &index)
            .into_iter()
            .find(|measure| measure.id == id)
            .unwrap()
            .value
    };
    assert_eq!(
        (of("lowest_score"), of("tokens"), of("events")),
        (Some(0.5), None, None)
    );
}

#[test]
fn differences_of_numbers_in_words() {
    let delta = |unit: Unit, a: f64, b: f64| unit.delta(Some(a), Some(b));
    assert_eq!(delta(Unit::Count, 6.0, 8.0), "+2");
    assert_eq!(delta(Unit::Count, 8.0, 6.0), "−2");
    assert_eq!(delta(Unit::Count, 8.0, 8.0), "same");
    assert_eq!(delta(Unit::Score, 0.8, 0.7), "−0.10");
    assert_eq!(delta(Unit::Score, 0.7, 0.1 + 0.6), "same");
    assert_eq!(delta(Unit::Millis, 81.0, 171.0), "+90.0 ms · 2.1×");
    assert_eq!(Unit::Count.delta(None, Some(1.0)), "–");
    assert_eq!(Unit::Count.words(None), "not recorded");
}

#[test]
fn an_unreadable_line_is_not_a_difference() {
    let scored = |score: f64| {
        format!(
            r#"{CALL}, "critic_outputs": [{{"critic_name": "V", "action": "retry", "score": {score}}}]"#
        )
    };
    let steps = [scored(0.9), scored(0.1), scored(0.5)];
    let with = |unread: Option<usize>| {
        let whole = run(&steps);
        let head = |(n, step): (usize, &StepHead)| match unread == Some(n) {
            true => StepHead {
                fate: crate::model::Fate::Unreadable,
                ..StepHead::default()
            },
            false => step.clone(),
        };
        let heads = whole.steps().iter().enumerate().map(|(n, step)| {
            let head = head((n, step));
            StepHead {
                step_id: head.step_id.map(|_| n as i64),
                ..head
            }
        });
        let mut index = Index::default();
        let names = whole.names().since(0).to_vec();
        index.apply(crate::model::Delta {
            steps: heads.collect(),
            names,
            steps_file: crate::model::index::FileState {
                exists: true,
                ..Default::default()
            },
            ..Default::default()
        });
        index
    };
    let (whole, torn) = (with(None), with(Some(1)));
    for (a, b) in [(&whole, &torn), (&torn, &whole), (&torn, &torn)] {
        let comparison = compare(a, b);
        let relations: Vec<Relation> = comparison.rows.iter().map(|row| row.relation).collect();
        assert_eq!(
            relations,
            [Relation::Same, Relation::Unreadable, Relation::Same]
        );
        assert_eq!((comparison.first, comparison.common), (None, 1));
        let sentence = comparison.sentence(a, b);
        assert!(
            sentence.starts_with("No known differences in 3 steps. At step"),
            "{sentence}"
        );
        assert!(sentence.ends_with("a line is unreadable."), "{sentence}");
    }
    let measure = |index: &Index, id: &str| {
        let summary = summary(
            &RunKey::new("a"),
            String::new(),
            index,
            ExternalFacts::default(),
        );
        let measures = measures(&summary, index);
        let found = measures.iter().find(|measure| measure.id == id).unwrap();
        (found.value, found.words())
    };
    for (id, value) in [
        ("critic_retries", 3.0),
        ("lowest_score", 0.1),
        ("tool_calls", 3.0),
        ("steps", 3.0),
    ] {
        assert_eq!(measure(&whole, id).0, Some(value), "{id}");
        assert_eq!(measure(&torn, id), (None, "unknown".to_owned()), "{id}");
    }
}

/// Draws the rows of several runs: the step of each by ordinal, `-` for none.
fn drawn(runs: &[&crate::model::Index]) -> Vec<String> {
    let cell = |n: &Option<usize>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    compare_several(runs)
        .rows
        .iter()
        .map(|row| row.steps.iter().map(cell).collect())
        .collect()
}

fn letters(letters: &str) -> crate::model::Index {
    let steps: Vec<String> = letters
        .chars()
        .map(|letter| act("do", &letter.to_string(), ""))
        .collect();
    run(&steps)
}

#[test]
fn equal_steps_of_several_runs_share_a_row() {
    let of = |texts: [&str; 3]| {
        let runs = texts.map(letters);
        drawn(&[&runs[0], &runs[1], &runs[2]])
    };
    assert_eq!(of(["abc", "abc", "abc"]), ["000", "111", "222"]);
    // A step that the later two share is a row, whatever the first does there.
    assert_eq!(of(["axc", "ayc", "ayc"]), ["000", "111", "222"]);
    assert_eq!(of(["ac", "abc", "abc"]), ["000", "-11", "122"]);
    assert_eq!(of(["abc", "ac", "ab"]), ["000", "1-1", "21-"]);
    assert_eq!(of(["", "a", ""]), ["-0-"]);
    assert_eq!(of(["", "", ""]), Vec::<String>::new());
}

#[test]
fn several_runs_diverge_where_any_of_them_does_something_else() {
    let runs = ["abc", "abd", "ab"].map(letters);
    let runs = [&runs[0], &runs[1], &runs[2]];
    let comparison = compare_several(&runs);
    assert_eq!((comparison.first, comparison.common), (Some(2), 2));
    let row = &comparison.rows[2];
    assert_eq!(
        (row.same, row.relation, row.label().as_str()),
        (false, Relation::Arguments, "not in C, arguments differ")
    );
    assert_eq!(
        comparison.sentence(&runs),
        "The runs diverge at step 0 of A and B: A calls do, B calls do with different arguments, \
         C has no more steps. Same actions in the first 2 steps."
            .replace("step 0 of A and B", "step 0")
    );
    let same = ["ab", "ab", "ab"].map(letters);
    let same = [&same[0], &same[1], &same[2]];
    assert_eq!(
        compare_several(&same).sentence(&same),
        "Same actions in the 2 steps of all runs."
    );
}

#[test]
fn an_unreadable_step_hides_no_difference_between_the_others() {
    let line = |tool: &str| {
        format!(r#"{{"decision": {{"mode": "act", "actions": [{{"name": "{tool}"}}]}}}}"#)
    };
    let index = |step: String| {
        let mut names = crate::model::Names::default();
        let (head, _) = crate::format::step_head(step.as_bytes(), &mut names);
        let mut index = Index::default();
        index.apply(crate::model::Delta {
            steps: vec![head],
            names: names.since(0).to_vec(),
            ..crate::model::Delta::default()
        });
        index
    };
    let (a, b, c) = (index("{".to_owned()), index(line("x")), index(line("y")));
    for runs in [[&a, &b, &c], [&b, &a, &c], [&c, &b, &a]] {
        let comparison = compare_several(&runs);
        assert_eq!(comparison.first, Some(0));
        assert!(
            comparison
                .sentence(&runs)
                .starts_with("The runs diverge at ")
        );
    }
}
