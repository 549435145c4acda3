//! Edge cases 11 to 14: rules on the model's text and its tool calls.

use super::*;

#[test]
fn case_11_an_invalid_pattern_is_refused_or_fails_closed() {
    let broken = StopSpec::from(ContentMatch {
        pattern: "(".into(),
    });
    assert_eq!(broken.lint().len(), 1);
    let refused = StopSet::<()>::builder()
        .rule(broken.clone())
        .build()
        .expect_err("the builder refuses");
    assert!(refused.to_string().contains("doesn't compile"), "{refused}");

    let group = |of| StopSpec::from(AllOf { of });
    for spec in [
        broken.clone(),
        group(vec![StopSpec::from(MaxSteps { steps: 9 }), broken]),
    ] {
        let set = StopSet::<()>::builder()
            .rule(spec)
            .build_fail_closed()
            .expect("a loaded file is used");
        let run = live(&set, &(), Stats::default(), &steps(3));
        assert_eq!(
            (run.code(), run.place()),
            (
                "content_match_invalid_regex",
                (None, Some(Gate::BeforeStep))
            )
        );
        assert_eq!(
            (run.verdict().outcome, run.stats.steps),
            (Outcome::Failed, 0)
        );
    }
    let greedy = StopSpec::from(ContentMatch {
        pattern: "(a{1000}){1000}".into(),
    });
    assert_eq!(
        greedy.lint().len(),
        1,
        "a pattern whose compiled size is too large is refused"
    );
}

#[test]
fn case_12_no_text_matches_nothing_and_spans_are_bytes() {
    for pattern in ["^$", ".*", ""] {
        assert_eq!(
            run(&[&format!("content_match={pattern}")], &steps(2)).code(),
            "none",
            "{pattern:?}"
        );
    }
    let text = "schön: größer";
    let run = run(&["content_match=gr..er"], &[said(0, text)]);
    let Evidence::Text {
        step: 0,
        start,
        end,
    } = run.verdict().reading.evidence[0]
    else {
        panic!("a span")
    };
    assert_eq!(&text[start as usize..end as usize], "größer");
    assert_eq!(
        super::run(&["content_match=(?i)GRÖSS|GRÖẞER"], &[said(0, text)]).code(),
        "content_match"
    );
}

#[test]
fn case_13_equal_texts_in_a_row() {
    let texts = |list: &[&str]| {
        list.iter()
            .zip(0..)
            .map(|(text, n)| said(n, text))
            .collect::<Vec<_>>()
    };
    let skipped = run(
        &["loop_detection=3"],
        &texts(&["same", "", "same", "", "same"]),
    );
    assert_eq!(
        (skipped.code(), skipped.place().0),
        ("loop_detection", Some(4))
    );
    assert_eq!(
        skipped.verdict().reading.evidence,
        [Evidence::Steps {
            from_step: 0,
            to_step: 4
        }]
    );
    assert_eq!(
        run(
            &["loop_detection=3"],
            &texts(&["same", "same ", "same", "same"])
        )
        .code(),
        "none"
    );
    let again = run(
        &["loop_detection=3"],
        &texts(&["a", "a", "b", "a", "a", "a"]),
    );
    assert_eq!(
        again.place().0,
        Some(5),
        "the streak restarts after a break"
    );
    let long: Vec<_> = (0..100).map(|n| said(n, "same")).collect();
    assert_eq!(
        run(&["loop_detection=80"], &long).place().0,
        Some(79),
        "long windows work"
    );
}

#[test]
fn case_13_texts_are_compared_where_there_are_texts() {
    let calls = |n, hash| StepFacts {
        calls: Some(hash),
        ..step(n)
    };
    let between = [said(0, "same"), calls(1, 7), said(2, "same")];
    let found = run(&["loop_detection=2"], &between);
    assert_eq!((found.code(), found.place().0), ("loop_detection", Some(2)));
    assert_eq!(
        found.verdict().reading.detail,
        "the same text 2 times in a row (limit 2)"
    );
    let broken = [calls(0, 7), said(1, "x"), calls(2, 7), said(3, "y")];
    assert_eq!(run(&["loop_detection=2"], &broken).code(), "none");
    let without = [said(0, "x"), calls(1, 7), step(2), calls(3, 7)];
    let found = run(&["loop_detection=2"], &without);
    assert_eq!(found.place().0, Some(3));
    assert_eq!(
        found.verdict().reading.detail,
        "the same calls 2 times in a row (limit 2)"
    );
}

#[test]
fn case_13_redacted_texts_are_compared_and_unknown_ones_are_not_guessed() {
    let redacted = |n, hash| StepFacts {
        text: Text::Redacted { len: 4, hash },
        ..step(n)
    };
    let run_redacted = run(
        &["loop_detection=2"],
        &[redacted(0, 1), redacted(1, 2), redacted(2, 2)],
    );
    assert_eq!(run_redacted.place().0, Some(2));
    let mixed = [said(0, "same"), redacted(1, text_hash("same"))];
    assert_eq!(run(&["loop_detection=2"], &mixed).code(), "loop_detection");
    assert_eq!(
        run(&["content_match=x"], &[redacted(0, 1)]).unknown[0].needs,
        "the model's text"
    );

    let hole = StepFacts {
        text: Text::Unknown,
        ..step(1)
    };
    let unsure = run(
        &["loop_detection=2"],
        &[said(0, "a"), hole, said(2, "a"), said(3, "b"), said(4, "c")],
    );
    let at: Vec<_> = unsure.unknown.iter().map(|unknown| unknown.step).collect();
    assert_eq!(
        at,
        [1, 2],
        "after a different text, the streak is known again"
    );
}

#[test]
fn case_14_the_second_of_two_calls_stops_before_it_runs() {
    let two = StepFacts {
        actions: Some(vec!["read".into(), "deploy".into()]),
        ..step(0)
    };
    let run_two = run(&["stop_on_tool=deploy"], std::slice::from_ref(&two));
    assert_eq!(run_two.place(), (Some(0), Some(Gate::AfterDecide)));
    assert_eq!(
        run_two.verdict().reading.evidence,
        [Evidence::Action { step: 0, action: 1 }]
    );
    assert_eq!(run_two.recorded.len(), 1, "the step is still recorded");
    assert_eq!(run_two.verdict().stop_reason, "agent_condition");
    assert_eq!(run_two.verdict().outcome, Outcome::Halted);
    assert_eq!(
        run(&["stop_on_tool=Deploy"], &[two]).code(),
        "none",
        "case counts"
    );
    let unknown = StepFacts {
        actions: None,
        ..step(0)
    };
    assert_eq!(run(&["stop_on_tool=deploy"], &[unknown]).unknown.len(), 1);
}
