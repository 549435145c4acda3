use proptest::prelude::*;

use super::*;
use crate::model::{Delta, Names};

/// Returns a run whose steps have these decisions.
pub(in crate::analysis::compare) fn run(decisions: &[String]) -> Index {
    let mut names = Names::default();
    let step = |decision: &String| {
        crate::format::step_head(
            format!(r#"{{"step_id": 0, {decision}}}"#).as_bytes(),
            &mut names,
        )
        .0
    };
    let steps: Vec<StepHead> = decisions.iter().map(step).collect();
    let mut index = Index::default();
    index.apply(Delta {
        steps,
        names: names.since(0).to_vec(),
        ..Delta::default()
    });
    index
}

fn call(argument: &str) -> String {
    format!(
        r#""decision": {{"mode": "act", "actions": [{{"name": "do", "args": {{"on": "{argument}"}}}}]}}"#
    )
}

fn answer(text: &str) -> String {
    format!(r#""decision": {{"mode": "final", "actions": [], "final_answer": "{text}"}}"#)
}

/// Returns a run with one call per letter.
fn letters(letters: &str) -> Index {
    run(&letters
        .chars()
        .map(|letter| call(&letter.to_string()))
        .collect::<Vec<_>>())
}

/// Draws an alignment: `=` for equal steps, `!` for different steps in one row, `<` and `>` for
/// steps that only A or only B has.
fn drawn(a: &Index, b: &Index) -> String {
    let sign = |pair: &Pair| match (pair.a, pair.b) {
        (Some(_), Some(_)) if pair.asks_same => '=',
        (Some(_), Some(_)) => '!',
        (Some(_), None) => '<',
        _ => '>',
    };
    align(a, b).iter().map(sign).collect()
}

#[test]
fn equal_ends_stay_aligned() {
    assert_eq!(drawn(&letters("abc"), &letters("abc")), "===");
    assert_eq!(drawn(&letters("abc"), &letters("axbc")), "=>==");
    assert_eq!(drawn(&letters("axc"), &letters("abc")), "=!=");
    assert_eq!(drawn(&letters("abcd"), &letters("ad")), "=<<=");
    assert_eq!(
        drawn(&letters("abcdefgh"), &letters("xbcdyzfgh")),
        "!===!>==="
    );
}

#[test]
fn an_extra_repetition_is_one_more_row() {
    assert_eq!(drawn(&letters("aab"), &letters("aaaab")), "==>>=");
    assert_eq!(drawn(&letters("aaaa"), &letters("aa")), "==<<");
}

#[test]
fn runs_without_steps() {
    assert_eq!(drawn(&letters(""), &letters("")), "");
    assert_eq!(drawn(&letters(""), &letters("ab")), ">>");
    assert_eq!(drawn(&letters("a"), &letters("")), "<");
}

#[test]
fn answers_share_a_row_even_if_they_differ() {
    let ends = |text: &str| run(&[call("a"), answer(text)]);
    assert_eq!(drawn(&ends("yes"), &ends("yes")), "==");
    assert_eq!(drawn(&ends("yes"), &ends("no")), "=!");
    assert_eq!(
        drawn(
            &run(&[answer("yes"), call("a")]),
            &run(&[answer("no"), call("a")])
        ),
        "!="
    );
}

#[test]
fn calls_that_look_alike_in_a_list_still_differ() {
    let long = "x".repeat(1_000);
    let (a, b) = (
        run(&[call(&format!("{long}a"))]),
        run(&[call(&format!("{long}b"))]),
    );
    assert_eq!(
        a.steps().get(0).unwrap().call,
        b.steps().get(0).unwrap().call
    );
    assert_eq!(drawn(&a, &b), "!");
}

#[test]
fn long_runs_are_aligned_again_after_a_drift() {
    let calls =
        |range: std::ops::Range<usize>| range.map(|n| call(&n.to_string())).collect::<Vec<_>>();
    let a = calls(0..9_000);
    // Every hundredth step has an extra call before it, and the ends differ.
    let mut b: Vec<String> = a
        .iter()
        .enumerate()
        .flat_map(|(n, step)| match n % 100 {
            0 => vec![call(&format!("extra {n}")), step.clone()],
            _ => vec![step.clone()],
        })
        .collect();
    b.push(call("more"));
    let drawn = drawn(&run(&a), &run(&b));
    assert_eq!(drawn.matches('=').count(), 9_000);
    assert_eq!(drawn.matches('>').count(), 91);
}

#[test]
fn runs_with_nothing_in_common_are_still_paired() {
    let calls = |word: &str| {
        run(&(0..6_000)
            .map(|n| call(&format!("{word}{n}")))
            .collect::<Vec<_>>())
    };
    assert_eq!(drawn(&calls("a"), &calls("b")), "!".repeat(6_000));
}

proptest! {
    #[test]
    fn every_step_appears_once_and_in_order(a in "[a-d]{0,60}", b in "[a-d]{0,60}") {
        let (left, right) = (letters(&a), letters(&b));
        let pairs = align(&left, &right);
        prop_assert!(pairs.iter().filter_map(|pair| pair.a).eq(0..a.len()));
        prop_assert!(pairs.iter().filter_map(|pair| pair.b).eq(0..b.len()));
        for pair in pairs {
            let letter = |text: &str, n: Option<usize>| n.and_then(|n| text.chars().nth(n));
            let (one, other) = (letter(&a, pair.a), letter(&b, pair.b));
            prop_assert_eq!(pair.asks_same, one.is_some() && one == other);
        }
        let alike = align(&left, &left);
        prop_assert!(alike.len() == a.len() && alike.iter().all(|pair| pair.asks_same));
    }
}
