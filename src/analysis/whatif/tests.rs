//! Tests what other rules would have done to runs in this repository.

use std::path::Path;

use super::*;
use crate::analysis::facts::tests::{Files, runs_below};
use crate::stop::{Stats, StepFacts, Usage};

fn rule_set(rules: &[&str]) -> RuleSet {
    RuleSet::new(
        rules
            .iter()
            .map(|rule| rule.parse().expect("a well written rule"))
            .collect(),
    )
    .expect("sound rules")
}

/// Ten steps of one second and 10 tokens each, with an answer in the last.
fn answered_run() -> Record {
    let step = |n: u64| StepFacts {
        t_start_ms: Some(n * 1000),
        t_decided_ms: Some(n * 1000 + 600),
        t_end_ms: Some(n * 1000 + 1000),
        usage: Some(Usage::reported(8, 2)),
        candidate: n == 9,
        final_answer: (n == 9).then(|| "forty two".to_owned()),
        ..StepFacts::begin(n, n * 1000)
    };
    let step = |n| StepFacts {
        reached: Gate::AfterStep,
        ..step(n)
    };
    Record {
        facts: (0..10).map(step).collect(),
        ..Record::default()
    }
}

#[test]
fn each_of_the_four_answers_and_what_it_spares() {
    let rules = [
        "max_steps=4",
        "max_rounds=4",
        "max_steps=10",
        "max_steps=11",
        "stagnation=2",
        "keyword=two",
        "keyword=no",
    ];
    let told = rule_set(&rules).ask(&answered_run(), true);
    let words: Vec<_> = told
        .iter()
        .map(|result| {
            (
                result.found.words(),
                result.step,
                result.answer_lost == Some(true),
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            ("earlier", Some(3), true),
            ("earlier", Some(3), true),
            ("same", Some(9), false),
            ("not reached", None, false),
            ("unknown", None, false),
            ("same", Some(9), false),
            ("not reached", None, false),
        ]
    );
    let saved = |at: usize| {
        (
            told[at].saved.steps,
            told[at].saved.tokens,
            told[at].saved.ms,
        )
    };
    assert_eq!(saved(0), (Some(6), Some(60), Some(6000)), "after the step");
    assert_eq!(
        saved(1),
        (Some(6), Some(60), Some(6400)),
        "before its actions, which took 400 ms"
    );
    assert_eq!(saved(2), (Some(0), Some(0), Some(0)));
    assert_eq!(told[3].detail, "not reached");
    assert_eq!(
        told[4].needs.as_deref(),
        Some("whether some steps changed the state isn't recorded")
    );
    assert_eq!(
        told[6].detail,
        "rejects the recorded answer: the answer doesn't contain \"no\""
    );
    assert_eq!(told[6].refused, Some(9));
    let cuts: Vec<_> = told.iter().map(|result| result.cuts).collect();
    assert_eq!(
        cuts,
        [true, true, false, false, false, false, false],
        "a rule that accepts the answer cuts nothing"
    );
    let (first, open) = together(&told);
    assert_eq!(
        (first.map(|(place, _)| place), open),
        (Some(1), true),
        "a round ends before its step does"
    );
}

#[test]
fn what_the_last_steps_actions_brought_is_lost_where_they_would_not_have_run() {
    let mut run = answered_run();
    // The answer is what the last step's reduce wrote to the state.
    run.facts[9].candidate = false;
    let told = rule_set(&["max_rounds=10", "max_steps=10"]).ask(&run, true);
    assert_eq!(
        (
            told[0].found,
            told[0].answer_lost.unwrap(),
            told[0].saved.ms
        ),
        (StopTiming::Same, true, Some(400))
    );
    assert_eq!(
        (
            told[1].found,
            told[1].answer_lost.unwrap(),
            told[1].saved.ms
        ),
        (StopTiming::Same, false, Some(0))
    );
    assert_eq!((told[0].cuts, told[1].cuts), (true, false));
}

#[test]
fn past_a_refused_answer_nothing_is_told() {
    let mut run = answered_run();
    run.facts[4].candidate = true;
    run.facts[4].final_answer = Some("forty".to_owned());
    let told = rule_set(&["keyword=two"]).ask(&run, true);
    let needs = "what the run would have done after its answer was rejected is unknown";
    assert_eq!(
        (told[0].found, told[0].needs.as_deref()),
        (StopTiming::Unknown, Some(needs))
    );
    assert_eq!(
        (told[0].refused, told[0].unknown_from, told[0].at_latest),
        (Some(4), Some(5), None)
    );
    let never = rule_set(&["keyword=never"]).ask(&run, true);
    assert_eq!(
        (never[0].found, never[0].refused),
        (StopTiming::Unknown, Some(4)),
        "its next answer is unknown"
    );
    // The run's own rule rejected the answer with the same keyword.
    let own = rule_set(&["keyword=two"]).set.record();
    run.rules = Some(own);
    assert_eq!(
        rule_set(&["keyword=two"]).ask(&run, true)[0].found,
        StopTiming::Same
    );
}

#[test]
fn a_missing_fact_is_named_and_from_which_step_on() {
    let mut run = answered_run();
    run.facts[6].usage = None;
    let told =
        rule_set(&["token_budget=40", "token_budget=80", "token_budget=900"]).ask(&run, true);
    assert_eq!(
        (told[0].found, told[0].step),
        (StopTiming::Earlier, Some(4)),
        "before the gap it is exact"
    );
    assert_eq!(told[0].saved.tokens, None, "the total is unknown");
    assert_eq!(
        (told[1].found, told[1].unknown_from, told[1].at_latest),
        (StopTiming::Unknown, Some(6), Some(9))
    );
    assert_eq!(
        told[1].detail,
        "not enough data: the token usage of some steps isn't recorded"
    );
    assert_eq!(
        (told[2].found, told[2].unknown_from),
        (StopTiming::Unknown, Some(6))
    );
}

#[test]
fn a_rule_that_cannot_be_used_is_named_and_a_right_one_shown() {
    for (rule, words) in [
        (
            "content_match=(",
            "the rule content_match can't be used: the pattern \"(\" doesn't compile",
        ),
        (
            r#"{"type":"any_of","of":[]}"#,
            "the rule any_of can't be used: any_of needs at least one member",
        ),
        (
            r#"{"type":"structured_output","schema":{"type":7}}"#,
            "the rule structured_output can't be used: the schema",
        ),
    ] {
        let error = RuleSet::new(vec![rule.parse().unwrap()])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(words) && error.contains(". Example: "),
            "{error}"
        );
    }
    for (rule, words) in [
        (
            "max_step=3",
            "unknown rule `max_step`; use one of max_steps, max_rounds",
        ),
        (
            "max_steps=-3",
            "max_steps must be a whole number ≥ 0, not `-3`",
        ),
        (
            "critic_below=tests",
            "critic_below needs NAME:SCORE or NAME:SCORE:STEPS, not \"tests\"",
        ),
    ] {
        let error = rule.parse::<StopSpec>().unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
}

#[test]
fn the_recorded_rules_give_the_recorded_stop() {
    let mut fired = 0;
    for path in runs_below("sample_runs") {
        let files = Files::open(&path);
        let (record, deep) = (files.record(Depth::Heads), files.record(Depth::Texts));
        let rules = record
            .rules
            .clone()
            .expect("board's engine records its rules");
        let stop = files
            .index
            .manifest()
            .get()
            .and_then(|manifest| manifest.stop.clone());
        for entry in rules.completion.iter().chain(&rules.policies) {
            let EntryRule::Spec(spec) = &entry.rule else {
                continue;
            };
            let rule_set = RuleSet::new(vec![spec.clone()]).unwrap();
            // The depth that the question asks for is enough to answer it.
            let record = if rule_set.depth() == Depth::Texts {
                &deep
            } else {
                &record
            };
            let told = rule_set.ask(record, true).remove(0);
            let ended = stop
                .as_ref()
                .is_some_and(|stop| entry.id.as_deref() == Some(&*stop.criterion));
            let also = stop.as_ref().is_some_and(|stop| {
                stop.also
                    .iter()
                    .any(|id| entry.id.as_deref() == Some(&**id))
            });
            let expected = if ended || also {
                StopTiming::Same
            } else {
                StopTiming::NotReached
            };
            assert_eq!(told.found, expected, "{}: {spec}: {told:?}", path.display());
            if ended {
                fired += 1;
                let step = stop.as_ref().and_then(|stop| stop.step);
                assert_eq!(
                    (told.step, told.code.map(|code| code.to_string())),
                    (step, stop.as_ref().map(|stop| stop.code.to_string()))
                );
            }
        }
    }
    assert_eq!(fired, 7, "the number of scenarios that a written rule ends");
}

#[test]
fn a_record_without_steps_stops_nowhere() {
    let told = rule_set(&["max_steps=1"]).ask(
        &Record {
            resumed: Stats::default(),
            ..Record::default()
        },
        false,
    );
    assert_eq!(
        (told[0].found, &*told[0].detail),
        (StopTiming::NotReached, "no steps ran")
    );
}

#[test]
fn up_to_a_step_without_a_line_all_is_told_and_nothing_after_it() {
    let ask = |run: &str, rules: &[&str]| {
        let files = Files::open(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/corpus")
                .join(run),
        );
        rule_set(rules).ask(&files.record(Depth::Heads), true)
    };
    for run in [
        "emulated/emulated_q060_steps_missing",
        "emulated/emulated_q060_jsonl_empty",
    ] {
        let told = ask(run, &["max_steps=1"]).remove(0);
        assert_eq!(
            (told.found, told.unknown_from),
            (StopTiming::Unknown, Some(0)),
            "{run}"
        );
        assert_eq!(
            told.needs.as_deref(),
            Some("6 steps have no line in steps.jsonl"),
            "{run}"
        );
    }
    // The line of step 3 is truncated, but its events exist.
    let cut = ask(
        "emulated/emulated_q060_steps_last_line_cut",
        &["max_steps=3", "max_steps=4"],
    );
    assert_eq!(
        (cut[0].found, cut[0].step, cut[0].saved.steps),
        (StopTiming::Earlier, Some(2), Some(1))
    );
    assert_eq!(
        (cut[1].found, cut[1].unknown_from),
        (StopTiming::Unknown, Some(3))
    );
    assert_eq!(
        cut[1].needs.as_deref(),
        Some("1 step has no line in steps.jsonl")
    );
    // Step 4 was running when the process was killed, and would not have begun.
    let killed = ask("q060/q060_sigkill", &["max_steps=4", "max_steps=5"]);
    assert_eq!(
        (killed[0].found, killed[0].step, killed[0].saved.steps),
        (StopTiming::Earlier, Some(3), Some(1))
    );
    assert_eq!(
        (killed[0].saved.ms, killed[1].found),
        (None, StopTiming::NotReached)
    );
}
