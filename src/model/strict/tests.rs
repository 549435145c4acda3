use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, NotJson> {
    let mut out = b"before ".to_vec();
    let done = write_json(value, NonFinite::Refuse, &mut out);
    let out = String::from_utf8(out).unwrap();
    let rest = out.strip_prefix("before ").unwrap().to_owned();
    assert!(
        done.is_ok() || rest.is_empty(),
        "nothing is written after an error"
    );
    done.map(|()| rest)
}

fn fault<T: Serialize + ?Sized>(value: &T) -> String {
    text(value).unwrap_err().to_string()
}

#[derive(Serialize)]
struct Critic {
    name: &'static str,
    score: Option<f64>,
}

#[derive(Serialize)]
struct Step {
    step_id: u64,
    critic_outputs: Vec<Critic>,
}

#[derive(Serialize)]
enum Shape {
    Unit,
    New(f64),
    Pair(u8, f32),
    Named { x: f64 },
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Tagged {
    Inside { x: f64 },
}

#[derive(Serialize)]
struct Flat<T> {
    first: u8,
    #[serde(flatten)]
    rest: T,
    last: u8,
}

#[test]
fn the_place_of_a_bad_number_is_named() {
    let critic = |score| Critic {
        name: "a \"quoted\", [odd] {name}: \\",
        score: Some(score),
    };
    let step = |score| Step {
        step_id: 3,
        critic_outputs: vec![critic(1.0), critic(score)],
    };
    assert_eq!(fault(&step(f64::NAN)), "critic_outputs[1].score is NaN");
    assert_eq!(
        fault(&step(f64::INFINITY)),
        "critic_outputs[1].score is Infinity"
    );
    assert_eq!(
        fault(&step(f64::NEG_INFINITY)),
        "critic_outputs[1].score is -Infinity"
    );
    assert_eq!(fault(&f32::NAN), "the value is NaN");
    assert_eq!(fault(&[1.0, f64::NAN]), "[1] is NaN");
    assert_eq!(fault(&[[0.0, 0.0], [f64::NAN, 0.0]]), "[1][0] is NaN");
    assert_eq!(
        fault(&BTreeMap::from([("a", 1.0), ("b c", f64::NAN)])),
        r#"["b c"] is NaN"#
    );
    assert_eq!(
        fault(&json_like("deep", BTreeMap::from([("", f64::NAN)]))),
        r#"deep[""] is NaN"#
    );
    assert_eq!(fault(&Shape::New(f64::NAN)), "New is NaN");
    assert_eq!(fault(&Shape::Pair(1, f32::NAN)), "Pair[1] is NaN");
    assert_eq!(fault(&Shape::Named { x: f64::NAN }), "Named.x is NaN");
    assert_eq!(fault(&Tagged::Inside { x: f64::NAN }), "x is NaN");
    assert_eq!(
        fault(&Flat {
            first: 1,
            rest: HashMap::from([("k", f64::NAN)]),
            last: 2
        }),
        "k is NaN"
    );
}

fn json_like<T>(key: &'static str, value: T) -> BTreeMap<&'static str, T> {
    BTreeMap::from([(key, value)])
}

#[test]
fn a_complete_member_is_not_the_place() {
    struct Refuses;
    impl Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }
    #[derive(Serialize)]
    struct After<T> {
        before: T,
        #[serde(flatten)]
        rest: Refuses,
    }
    let of = |before: serde_json::Value| {
        fault(&After {
            before,
            rest: Refuses,
        })
    };
    for before in [
        json!({}),
        json!([1, {"a": 2}]),
        json!("text"),
        json!(1.5),
        json!(null),
    ] {
        assert_eq!(of(before), "the value can't be written as JSON: no");
    }
    assert_eq!(
        fault(&json_like("outer", json_like("inner", Refuses))),
        "outer.inner can't be written as JSON: no"
    );
}

#[test]
fn an_outer_field_comes_before_the_place() {
    let inside = |value: &[f64]| text(value).unwrap_err().inside("payload").to_string();
    assert_eq!(inside(&[f64::NAN]), "payload[0] is NaN");
    assert_eq!(
        text(&f64::NAN).unwrap_err().inside("payload").to_string(),
        "payload is NaN"
    );
    let named = text(&json_like("x", f64::NAN))
        .unwrap_err()
        .inside("payload");
    assert_eq!(named.to_string(), "payload.x is NaN");
}

#[test]
fn a_key_that_is_not_text_is_an_error_with_the_path_of_its_map() {
    let maps = json_like("state", BTreeMap::from([(vec![1], 1)]));
    assert_eq!(
        fault(&maps),
        "state can't be written as JSON: key must be a string"
    );
    assert_eq!(
        text(&BTreeMap::from([(-3, 1), (7, 2)])).unwrap(),
        r#"{"-3":1,"7":2}"#
    );
}

#[test]
fn errors_of_the_value_itself_are_returned() {
    struct Failing;
    impl Serialize for Failing {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("the lock is poisoned"))
        }
    }
    assert_eq!(
        fault(&json_like("guard", Failing)),
        "guard can't be written as JSON: the lock is poisoned"
    );
}

#[test]
fn data_of_users_keeps_its_odd_numbers_as_words() {
    let mut out = Vec::new();
    let value = json_like("x", [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5]);
    write_json(&value, NonFinite::AsText, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"x":["NaN","Infinity","-Infinity",0.5]}"#
    );
}

#[test]
fn every_shape_is_written_as_serde_json_writes_it() {
    fn same<T: Serialize + ?Sized>(value: &T) {
        assert_eq!(text(value).unwrap(), serde_json::to_string(value).unwrap());
    }
    let raw =
        RawValue::from_string("{\"kept\" :  1.10, \"big\": 12345678901234567890123}".to_owned())
            .unwrap();
    same(&(
        u128::MAX,
        i128::MIN,
        u64::MAX,
        i8::MIN,
        'x',
        true,
        "text\n\u{2028}\u{7f}",
        b"bytes",
    ));
    same(&(
        0.1_f32,
        0.1_f64,
        1e300,
        -0.0,
        f64::MIN_POSITIVE,
        Some(1.5),
        None::<f64>,
        (),
    ));
    same(&[
        Shape::Unit,
        Shape::New(1.0),
        Shape::Pair(1, 2.0),
        Shape::Named { x: 3.0 },
    ]);
    same(&(
        Tagged::Inside { x: 1.0 },
        Ok::<_, ()>(1),
        std::num::Wrapping(3),
        std::net::Ipv4Addr::LOCALHOST,
    ));
    same(&Flat {
        first: 1,
        rest: json_like("raw", &raw),
        last: 2,
    });
    same(&Flat {
        first: 1,
        rest: Step {
            step_id: 1,
            critic_outputs: vec![],
        },
        last: 2,
    });
    same(&vec![Some(raw.clone()), None]);
    same(&raw);
    same(&BTreeMap::from(
        [(Some(true), 1), (None, 2)].map(|(key, value)| (key.is_some(), value)),
    ));
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_finite_value_is_written_byte_for_byte(value in value()) {
        prop_assert_eq!(text(&value).unwrap(), serde_json::to_string(&value).unwrap());
        let pretty = indented(value.to_string().as_bytes());
        prop_assert_eq!(String::from_utf8(pretty).unwrap(), serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn no_text_that_breaks_off_upsets_the_search_for_its_place(text in "[\\[\\]{}:,\"\\\\a ]{0,40}") {
        place(text.as_bytes());
    }
}

#[test]
fn a_text_that_holds_blanks_and_escapes_is_indented_alike() {
    let text = br#"{ "a\"]" : [ ] , "b":{"c":[1, "x: {,\\"]} }"#;
    let whole: Value = serde_json::from_slice(text).unwrap();
    assert_eq!(
        String::from_utf8(indented(text)).unwrap(),
        serde_json::to_string_pretty(&whole).unwrap()
    );
    assert_eq!(
        indented(b"{\"a\": \"torn"),
        b"{\n  \"a\": \"torn",
        "a truncated text is not an error"
    );
}
