//! Edge cases 7 to 10: which texts count as an answer, and how limits affect them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

#[test]
fn case_7_an_answer_on_the_step_of_a_limit_is_kept() {
    for rule in [
        "max_rounds=1",
        "max_steps=1",
        "token_budget=1",
        "content_match=4",
        "loop_detection=2",
    ] {
        let last = StepFacts {
            text: Text::Known("42".into()),
            ..answer(1, "42")
        };
        let start = if rule == "loop_detection=2" {
            vec![said(0, "42")]
        } else {
            Vec::new()
        };
        let all: Vec<_> = start.into_iter().chain([last]).collect();
        let run = run(&[rule], &all);
        assert_eq!(
            (run.code(), run.verdict().outcome),
            ("final", Outcome::Completed),
            "{rule}"
        );
        assert_eq!(run.verdict().also, ["stop[0]"], "{rule}");
    }
    let spent = budget(Budget::default().steps(1, Origin::Task), &[answer(0, "42")]);
    assert_eq!(
        (spent.code(), &spent.verdict().also[..]),
        ("final", &["budget.steps".to_owned()][..])
    );
}

#[test]
fn case_8_a_budget_reached_with_text_but_no_answer_truncates() {
    let spent = budget(
        Budget::default().steps(2, Origin::Task),
        &[said(0, "hm"), said(1, "almost"), step(2)],
    );
    assert_eq!(
        (spent.code(), spent.verdict().outcome),
        ("budget_steps", Outcome::Truncated)
    );
    assert_eq!(
        spent.recorded[1].text,
        Text::Known("almost".into()),
        "the last text is among the facts"
    );
    let reply = StepFacts {
        candidate: true,
        ..said(0, "a reply without actions")
    };
    assert_eq!(
        run(&[], &[reply]).code(),
        "none",
        "a reply is only a candidate; a final decision is accepted"
    );
}

#[test]
fn case_9_the_completion_list_decides_in_its_order() {
    let rules = ["keyword=DONE", "structured_output"];
    let neither = run(&rules, &[answer(0, "no")]);
    assert_eq!(neither.code(), "none");
    let misses: Vec<_> = neither
        .refused
        .iter()
        .map(|miss| (&*miss.id, &*miss.reading.detail))
        .collect();
    assert_eq!(
        misses[0],
        ("accept[0]", "the answer doesn't contain \"DONE\"")
    );
    assert!(misses[1].0 == "accept[1]" && misses[1].1.starts_with("the answer isn't JSON"));
    assert_eq!(run(&rules, &[answer(0, "[1]")]).code(), "structured_output");
    let both = run(&rules, &[answer(0, "\"DONE\"")]);
    assert_eq!(
        (both.code(), &both.verdict().also[..]),
        ("keyword", &["accept[1]".to_owned()][..])
    );
    assert_eq!(both.verdict().stop_reason, "success");

    let second = run(&rules, &[answer(0, "no"), step(1), answer(2, "DONE")]);
    assert_eq!((second.code(), second.place().0), ("keyword", Some(2)));
    let accepted = run(&["final_result"], &[answer(0, "42")]);
    let verdict = accepted.verdict();
    assert_eq!(
        (accepted.code(), &*verdict.stop_reason, &*verdict.criterion),
        ("final", "final", "accept[0]"),
        "as in QitOS"
    );
    assert_eq!(
        run(&["final_result"], &[answer(0, " \n")]).code(),
        "none",
        "an empty answer isn't a result"
    );
    assert_eq!(
        run(&[], &[answer(0, "")]).code(),
        "final",
        "without rules, the decision is enough"
    );
    assert_eq!(
        run(&["keyword="], &[answer(0, "x")]).code(),
        "final",
        "a list whose rules are all off doesn't count"
    );
}

#[test]
fn case_9_a_result_in_the_state_counts_without_a_final_decision() {
    let set_by_agent = StepFacts {
        candidate: false,
        ..answer(0, "42")
    };
    let run_without = run(&[], std::slice::from_ref(&set_by_agent));
    assert_eq!(
        (
            run_without.code(),
            run_without.verdict().stop_reason.as_str()
        ),
        ("final", "final")
    );
    assert_eq!(run(&["keyword=4"], &[set_by_agent]).code(), "keyword");
}

#[test]
fn case_10_json_plain_fenced_padded_and_with_prose() {
    let fenced = r#"{"type":"structured_output","fenced":true}"#;
    let block = "Here it is:\n```json\n{\"a\": 1}\n```\nBye.";
    for (rule, text, accepted) in [
        ("structured_output", "  {\"a\": 1}\n", true),
        ("structured_output", "{\"a\": 1} as asked", false),
        ("structured_output", "42", true),
        ("structured_output", "{\"a\": 1, \"a\": 2}", true),
        ("structured_output", block, false),
        ("structured_output", "", false),
        (fenced, block, true),
        (fenced, "```\n[1]\n```", true),
        (fenced, "{\"a\": 1}", true),
        (fenced, "```json\n{oops}\n```\n```json\n[1]\n```", true),
        (fenced, "```rust\n[1]\n```", false),
        (fenced, "```json\n[1]", false),
    ] {
        let code = if accepted {
            "structured_output"
        } else {
            "none"
        };
        assert_eq!(
            run(&[rule], &[answer(0, text)]).code(),
            code,
            "{rule} of {text:?}"
        );
    }
    let run = run(&[fenced], &[answer(0, block)]);
    let Evidence::Text { start, end, .. } = run.verdict().reading.evidence[0] else {
        panic!("a span is the evidence")
    };
    assert_eq!(&block[start as usize..end as usize], "{\"a\": 1}\n");
}

/// A validator that only supports `{"required": [..]}`, `true` and `false`, enough to test the
/// interface.
struct Required(Option<Vec<String>>);

impl SchemaCheck for Required {
    fn check(&self, value: &Value) -> Result<(), SchemaMiss> {
        let miss = |path: &str, message: &str| SchemaMiss {
            instance_path: path.into(),
            message: message.into(),
        };
        let Some(keys) = &self.0 else {
            return Err(miss("", "nothing fits"));
        };
        let absent = keys.iter().find(|key| value.get(key.as_str()).is_none());
        absent.map_or(Ok(()), |key| Err(miss("/", &format!("{key} is missing"))))
    }
}

fn compile(schema: &Value) -> Result<Arc<dyn SchemaCheck>, String> {
    match schema {
        Value::Bool(false) => Ok(Arc::new(Required(None))),
        Value::Object(keys) if keys.contains_key("$ref") => {
            Err("references are not followed".into())
        }
        Value::Object(keys) => {
            let names = keys["required"]
                .as_array()
                .ok_or("required is not a list")?;
            Ok(Arc::new(Required(Some(
                names
                    .iter()
                    .filter_map(|name| name.as_str().map(str::to_owned))
                    .collect(),
            ))))
        }
        _ => Err("not a schema".into()),
    }
}

#[test]
fn case_10_a_schema_is_compiled_once_and_a_bad_one_is_a_build_error() {
    let spec = |schema| {
        StopSpec::from(StructuredOutput {
            schema: Some(schema),
            fenced: false,
        })
    };
    let build = |schema| {
        StopSet::<()>::builder()
            .rule(spec(schema))
            .schemas(compile)
            .build()
    };
    for bad in [
        json!(3),
        json!({"required": 3}),
        json!({"$ref": "http://example.org/x"}),
        json!({"$ref": "#/gone"}),
    ] {
        let wrong = build(bad).expect_err("the schema is bad").to_string();
        assert!(
            wrong.starts_with("accept[0]: the schema of structured_output doesn't compile"),
            "{wrong}"
        );
    }
    #[cfg(not(feature = "board"))]
    {
        let missing = StopSet::<()>::builder()
            .rule(spec(json!(true)))
            .build_fail_closed();
        assert!(
            missing
                .expect_err("no validator")
                .to_string()
                .contains("needs the feature `board`")
        );
    }

    let go = |schema, text| {
        live(
            &build(schema).expect("sound"),
            &(),
            Stats::default(),
            &[answer(0, text)],
        )
    };
    assert_eq!(
        go(json!({"required": ["a"]}), "{\"a\": 1}").code(),
        "structured_output"
    );
    assert_eq!(
        go(json!(false), "{}").code(),
        "none",
        "nothing matches the schema false"
    );
    let miss = &go(json!({"required": ["a"]}), "{}").refused[0].reading;
    assert_eq!(
        miss.detail,
        "the answer doesn't match its schema at \"/\": a is missing"
    );
    assert_eq!(
        miss.evidence,
        [Evidence::Schema {
            step: 0,
            instance_path: "/".into()
        }]
    );
}

#[test]
fn an_answer_that_is_not_recorded_is_unknown_and_not_accepted() {
    let redacted = StepFacts {
        candidate: true,
        text: Text::Redacted { len: 9, hash: 1 },
        ..step(0)
    };
    let blind = run(&["keyword=DONE", "structured_output"], &[redacted]);
    assert_eq!(
        (blind.code(), blind.refused.len(), blind.unknown.len()),
        ("none", 0, 2)
    );
}
