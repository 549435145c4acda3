//! Edge case 10 with the built-in JSON Schema validator.

use serde_json::{Map, Value, json};

use super::*;
use crate::analysis::rule_replay::replay;

fn spec(schema: Value) -> StopSpec {
    StopSpec::from(StructuredOutput {
        schema: Some(schema),
        fenced: false,
    })
}

fn judge_in(schema: Value, fenced: bool, text: &str) -> Run {
    let set = StopSet::builder()
        .rule(StructuredOutput {
            schema: Some(schema),
            fenced,
        })
        .build();
    live(
        &set.expect("the schema is valid"),
        &(),
        Stats::default(),
        &[answer(0, text)],
    )
}

fn accepts(schema: Value, text: &str) -> bool {
    judge_in(schema, false, text).code() == "structured_output"
}

/// Returns the message of the mismatch, and its evidence.
fn miss(schema: Value, text: &str) -> (String, Vec<Evidence>) {
    let run = judge_in(schema, false, text);
    assert_eq!(run.code(), "none");
    let reading = &run.refused[0].reading;
    (reading.detail.to_string(), reading.evidence.clone())
}

fn refusal(schema: Value) -> String {
    StopSet::<()>::builder()
        .rule(spec(schema))
        .build()
        .expect_err("the schema cannot be used")
        .to_string()
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name"],
        "additionalProperties": false,
    })
}

#[test]
fn case_10_an_answer_that_fits_its_schema_is_accepted_and_an_error_gives_the_position() {
    assert!(accepts(person(), r#"{"name": "Ada", "age": 36}"#));
    let (detail, evidence) = miss(person(), r#"{"name": "Ada", "age": "a lot"}"#);
    assert_eq!(
        detail,
        "the answer doesn't match its schema at \"/age\": value is not of type \"integer\""
    );
    assert_eq!(
        evidence,
        [Evidence::Schema {
            step: 0,
            instance_path: "/age".into()
        }]
    );
    assert_eq!(
        miss(person(), "{}").0,
        "the answer doesn't match its schema at \"\": \"name\" is a required property"
    );
    assert!(
        miss(person(), "not JSON")
            .0
            .starts_with("the answer isn't JSON")
    );
}

#[test]
fn case_10_fenced_off_and_on_with_a_schema() {
    let block = "First:\n```json\n{\"age\": 1}\n```\nbetter:\n```json\n{\"name\": \"Ada\"}\n```\n";
    assert_eq!(judge_in(person(), false, block).code(), "none");
    let run = judge_in(person(), true, block);
    assert_eq!(run.code(), "structured_output");
    let Evidence::Text { start, end, .. } = run.verdict().reading.evidence[0] else {
        panic!("a span is the evidence")
    };
    assert_eq!(
        &block[start as usize..end as usize],
        "{\"name\": \"Ada\"}\n",
        "the block that fits, not the first"
    );
}

#[test]
fn case_10_padding_trailing_prose_bare_scalar_and_duplicate_keys_with_a_schema() {
    assert!(accepts(person(), " \n\t{\"name\": \"Ada\"}\r\n "));
    assert!(!accepts(person(), "{\"name\": \"Ada\"} as asked"));
    assert!(
        accepts(json!({"type": "integer"}), "42") && !accepts(json!({"type": "integer"}), "\"42\"")
    );
    assert!(
        accepts(person(), r#"{"name": 1, "name": "Ada"}"#),
        "the last of repeated keys counts"
    );
    assert!(!accepts(person(), r#"{"name": "Ada", "name": 1}"#));
}

#[test]
fn case_10_schema_true_false_and_format() {
    assert!(accepts(json!(true), "{}"));
    assert_eq!(
        miss(json!(false), "{}").0,
        "the answer doesn't match its schema at \"\": False schema does not allow value"
    );
    for draft in [
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        assert!(
            accepts(
                json!({"$schema": draft, "format": "email"}),
                "\"no address\""
            ),
            "format is not asserted: {draft}"
        );
    }
}

#[test]
fn case_10_an_invalid_schema_is_a_build_error() {
    for bad in [
        json!(3),
        json!({"type": "text"}),
        json!({"minLength": -1}),
        json!({"required": 3}),
        json!({"properties": {"a": {"pattern": "("}}}),
        json!({"$schema": "https://example.org/own"}),
    ] {
        let wrong = refusal(bad.clone());
        assert!(
            wrong.starts_with("accept[0]: the schema of structured_output doesn't compile: "),
            "{bad}: {wrong}"
        );
    }
    let wrong = refusal(json!({"properties": {"a": {"minLength": -1}}}));
    assert!(wrong.ends_with("at \"/properties/a/minLength\""), "{wrong}");
}

#[test]
fn case_10_a_dangling_reference_is_a_build_error_even_where_nothing_leads_to_it() {
    for bad in [
        json!({"$ref": "#/gone"}),
        json!({"$ref": "#gone"}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}}}),
        json!({"properties": {"a": {"items": {"$dynamicRef": "#gone"}}}}),
    ] {
        let wrong = refusal(bad.clone());
        assert!(
            wrong.contains("doesn't compile") && wrong.contains("$"),
            "{bad}: {wrong}"
        );
    }
}

#[test]
fn case_10_a_remote_reference_is_a_build_error_and_nobody_is_asked() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener
        .set_nonblocking(true)
        .expect("a listener that does not wait");
    let address = listener.local_addr().expect("its address");
    // The file is a valid schema, so the build would succeed if it were read.
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("schema.json");
    std::fs::write(&file, "true").expect("a file");
    let file = format!("file://{}", file.display());
    let web = format!("http://{address}/schema.json");
    for bad in [
        json!({"$ref": web}),
        json!({"$ref": file}),
        json!({"$schema": web}),
        json!({"$schema": file}),
        json!({"$id": file, "$ref": "schema2.json"}),
        json!({"$id": web, "$ref": "other.json"}),
        json!({"$defs": {"unused": {"$ref": file}}}),
        json!({"$ref": "schema.json"}),
    ] {
        let wrong = refusal(bad.clone());
        assert!(
            wrong.starts_with("accept[0]: the schema of structured_output doesn't compile: "),
            "{bad}: {wrong}"
        );
    }
    let wrong = refusal(json!({"$ref": file}));
    assert!(
        wrong.contains("neither to the network nor to a file"),
        "{wrong}"
    );
    let asked = listener.accept().expect_err("nobody connects");
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn case_10_references_inside_the_schema_are_followed() {
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}, "of": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["of"],
        }},
    });
    assert!(accepts(
        tree.clone(),
        r#"{"of": [{"of": []}], "next": {"of": []}}"#
    ));
    assert_eq!(
        miss(tree, r#"{"of": [{"of": []}, {}]}"#).1,
        [Evidence::Schema {
            step: 0,
            instance_path: "/of/1".into()
        }]
    );
    let named = json!({"$id": "https://example.org/root", "items": {"$ref": "item#word"}, "$defs": {
        "item": {"$id": "item", "$defs": {"word": {"$anchor": "word", "type": "string"}}},
    }});
    assert!(accepts(named.clone(), r#"["a"]"#) && !accepts(named, "[1]"));
    let meta = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
    assert!(
        accepts(meta.clone(), r#"{"type": "string"}"#) && !accepts(meta, r#"{"type": "text"}"#)
    );
}

/// Returns a schema in which `d0` refers twice to `d1`, `d1` twice to `d2`, and so on, down to
/// `bottom`.
fn doubling(times: usize, keyword: &str, bottom: &Value) -> Value {
    let target = |at: usize| json!({"$ref": format!("#/$defs/d{at}")});
    let twice = |at: usize| {
        (
            format!("d{at}"),
            json!({keyword: [target(at + 1), target(at + 1)]}),
        )
    };
    let mut defs: Map<_, _> = (0..times).map(twice).collect();
    defs.insert(format!("d{times}"), bottom.clone());
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn case_10_a_bomb_of_references_is_refused_when_built() {
    for keyword in ["allOf", "anyOf", "prefixItems"] {
        let wrong = refusal(doubling(30, keyword, &json!({"type": "integer"})));
        assert!(
            wrong.contains("expand to more than 1000000 subschemas"),
            "{wrong}"
        );
        assert!(
            StopSet::<()>::builder()
                .rule(spec(doubling(10, keyword, &json!(true))))
                .build()
                .is_ok()
        );
    }
    let deep = (0..200).fold(json!(true), |inner, _| json!({"not": inner}));
    assert!(refusal(deep).contains("nested deeper than 128"));
    let chain = |target: fn(usize) -> usize| {
        let link = |at| {
            (
                format!("d{at}"),
                json!({"$ref": format!("#/$defs/d{}", target(at))}),
            )
        };
        json!({"$ref": "#/$defs/d0", "$defs": (0..500).map(link).collect::<Map<_, _>>()})
    };
    assert!(
        refusal(chain(|at| (at + 1) % 500)).contains("nested deeper than 128"),
        "a ring"
    );
    assert!(
        refusal(chain(|at| at.max(1) - 1)).contains("nested deeper than 128"),
        "a chain, followed from its end"
    );
}

#[test]
fn case_10_a_schema_that_refers_to_itself_ends() {
    for round in [
        json!({"$ref": "#"}),
        json!({"$ref": ""}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ] {
        assert!(accepts(round.clone(), "1"), "it requires nothing: {round}");
    }
    // Each level can be reached in two ways, so checking every path would take 2^120 steps.
    let twice = json!({"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
    assert!(accepts(twice, &nested(120)));
    let never = json!({"anyOf": [
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "string"},
    ]});
    let (detail, evidence) = miss(never.clone(), &nested(120));
    assert!(
        detail.ends_with("too deep in a schema that refers to itself to say where"),
        "{detail}"
    );
    assert_eq!(
        evidence,
        [Evidence::Schema {
            step: 0,
            instance_path: String::new()
        }]
    );
    assert!(!miss(never, "[1]").0.contains("too deep"));
}

#[test]
fn case_10_a_deep_schema_on_a_deep_answer_has_room() {
    let link = |at: usize| {
        (
            format!("d{at}"),
            json!({"allOf": [{"$ref": format!("#/$defs/d{}", at + 1)}]}),
        )
    };
    let mut defs: Map<_, _> = (0..60).map(link).collect();
    defs.insert(
        "d60".into(),
        json!({"type": ["array", "integer"], "items": {"$ref": "#"}}),
    );
    let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
    assert!(accepts(schema.clone(), &nested(120)));
    assert!(!accepts(schema, &nested(120).replace('1', "\"x\"")));
}

#[test]
fn case_10_huge_patterns_are_refused_and_hard_ones_match_in_linear_time() {
    for pattern in [
        "((a{0,1000}){0,1000}){0,1000}",
        "(\\p{L}{0,100}){0,100}x",
        "^(?!x)(a+)+$",
    ] {
        assert!(
            refusal(json!({"pattern": pattern})).contains("is not a \"regex\""),
            "{pattern}"
        );
    }
    let backtracks = json!({"pattern": "^(a+)+$"});
    assert!(!accepts(
        backtracks.clone(),
        &format!("\"{}!\"", "a".repeat(100_000))
    ));
    assert!(accepts(backtracks, "\"aaa\""));
}

#[test]
fn case_10_rules_of_a_record_have_their_schemas_compiled_too() {
    let rules = |schema: Value| -> StopRules {
        let rule = json!({"rule": {"type": "any_of", "of": [{"type": "structured_output", "schema": schema}]}});
        serde_json::from_value(json!({"completion": [rule]})).expect("a record")
    };
    let set = StopSet::<()>::builder()
        .rules(rules(person()))
        .build_fail_closed()
        .expect("a valid schema");
    let facts = [answer(0, "{}"), answer(1, r#"{"name": "Ada"}"#)];
    let run = live(&set, &(), Stats::default(), &facts);
    assert_eq!((run.code(), run.place().0), ("structured_output", Some(1)));
    let again = serde_json::to_value(set.record())
        .and_then(serde_json::from_value)
        .expect("rules can be written");
    let again = StopSet::<()>::builder()
        .rules(again)
        .build()
        .expect("and used again");
    assert_eq!(replay(&again, &run.recorded).verdict, run.verdict);
    assert!(
        StopSet::<()>::builder()
            .rules(rules(json!({"$ref": "#/gone"})))
            .build_fail_closed()
            .is_err()
    );
}

#[test]
fn case_10_a_validator_that_is_handed_in_takes_its_place() {
    let own = StopSet::<()>::builder()
        .rule(spec(json!(true)))
        .schemas(|_| Err("no, says mine".into()))
        .build();
    assert!(
        own.expect_err("my validator refuses it")
            .to_string()
            .ends_with("no, says mine")
    );
}
