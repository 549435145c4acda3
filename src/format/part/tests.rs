//! Checks that a step is assembled from its parts.

use super::*;
use crate::model::{Names, Record};

#[test]
fn a_step_is_assembled_from_its_parts() {
    let call = |id: &str| CallDraft {
        id: id.into(),
        name: "Read".into(),
        args: r#"{"path":"a.py"}"#.into(),
    };
    let answer = |call: &str| Answer {
        call: call.into(),
        status: Some("error"),
        error: Some("no such file".into()),
        exit: Some(2),
        ..Answer::default()
    };
    let parts = [
        Part {
            thought: vec!["Look \"first\".".into()],
            ..Part::default()
        },
        Part {
            calls: vec![call("a"), call("b")],
            ..Part::default()
        },
        Part {
            answers: vec![answer("b"), answer("of another step")],
            ..Part::default()
        },
    ];
    let line = line(7, parts);
    let record = Record::of(line.as_bytes());
    let step = crate::format::step(&record).unwrap();
    assert_eq!(
        (step.id, step.calls.len(), step.results.len()),
        (Some(7), 2, 2)
    );
    assert_eq!(
        step.results
            .iter()
            .map(|result| result.has_failed())
            .collect::<Vec<_>>(),
        [false, true]
    );
    let (head, remarks) = crate::format::step_head(line.as_bytes(), &mut Names::default());
    assert_eq!(
        (remarks.len(), &*head.call, head.returncode),
        (0, "Read(path=\"a.py\") +1 more", Some(2))
    );
    assert_eq!(head.error.as_deref(), Some("no such file"));
}

#[test]
fn a_reply_without_calls_is_an_answer_unless_it_was_cut() {
    let call = |finish: Option<&str>| {
        let (text, finish) = (
            vec!["Done.".into(), "All green.".into()],
            finish.map(str::to_owned),
        );
        let line = line(
            0,
            [Part {
                text,
                finish,
                ..Part::default()
            }],
        );
        crate::format::step_head(line.as_bytes(), &mut Names::default())
            .0
            .call
    };
    for finish in [None, Some("stop"), Some("end_turn"), Some("STOP")] {
        assert_eq!(&*call(finish), "answer: Done.  All green.");
    }
    for finish in ["length", "max_tokens", "MAX_TOKENS", "model_length"] {
        assert_eq!(&*call(Some(finish)), "thought: Done.  All green.");
    }
}

/// The head of a step is built from its part directly. It must equal the head that its line gives.
#[test]
fn a_head_is_that_of_the_line() {
    let call = |id: &str, args: &str| CallDraft {
        id: id.into(),
        name: if id == "b" {
            String::new()
        } else {
            "Read".into()
        },
        args: args.into(),
    };
    let calls = [
        vec![],
        vec![call("a", r#"{"path":"a.py"}"#)],
        vec![call("a", ""), call("b", "[1,2]"), call("", "\"x\"")],
        vec![call("a", r#"{"path":"half \ud83d"}"#)],
    ];
    let answer = |call: &str, status, output: &str, error: Option<&str>, exit| Answer {
        call: call.into(),
        status,
        output: output.into(),
        error: error.map(Into::into),
        exit,
        ms: Some(12.5),
    };
    let answers = [
        vec![],
        vec![answer("a", Some("success"), "\"fine\"", None, Some(0))],
        vec![answer(
            "b",
            Some("error"),
            r#"{"error":"no such file","exit_code":"4"}"#,
            None,
            None,
        )],
        vec![answer(
            "a",
            Some("error"),
            r#"{"error":"half \ud83d"}"#,
            None,
            None,
        )],
        vec![
            answer("a", Some("error"), "\"the words\"", Some(FAILED), Some(3)),
            answer("", Some("cancelled"), "", Some("stopped"), None),
            answer("", None, "null", Some("none"), None),
        ],
    ];
    let texts = [
        vec![],
        vec![String::new()],
        vec!["One \"two\".".into(), "Three.".into()],
        vec!["é\n\"".repeat(3_000)],
    ];
    let finishes = [None, Some(""), Some("length"), Some("stop")];
    let mut count = 0;
    for calls in &calls {
        for answers in &answers {
            for text in &texts {
                for (at, finish) in finishes.iter().enumerate() {
                    let part = Part {
                        agent: (at > 0).then(|| "helper".into()),
                        model: (at > 1).then(|| "m".into()),
                        finish: finish.map(Into::into),
                        thought: if at > 1 { text.clone() } else { vec![] },
                        text: text.clone(),
                        is_text_unknown: at == 0,
                        calls: calls.clone(),
                        answers: answers.clone(),
                        beside: if at == 2 { answers.clone() } else { vec![] },
                        changes: if at == 3 {
                            vec![
                                ("k".into(), Some("1".into()), None),
                                ("final_result".into(), None, Some("\"x\"".into())),
                            ]
                        } else {
                            vec![]
                        },
                        diffs: vec![(0, "@@ -1 +1 @@".into())],
                        scores: vec![
                            ("c".into(), Some(0.5), None),
                            ("c".into(), None, Some("why".into())),
                        ],
                        tokens: (at != 1).then_some(Tokens {
                            input: Some(10),
                            cached: Some(1),
                            output: (at != 2).then_some(5),
                            reasoning: None,
                            written: Some(4),
                            written_1h: Some(3),
                        }),
                        tokens_estimated: at == 3,
                        others: vec![(
                            "n".into(),
                            Tokens {
                                input: Some(3),
                                output: Some(4),
                                ..Tokens::default()
                            },
                        )],
                        cost: [None, Some(-1.0), Some(0.25), Some(f64::NAN)][at],
                        error: (at == 1).then(|| "refused".into()),
                        ..Part::default()
                    };
                    let mut names = Names::default();
                    let (of_line, _) =
                        crate::format::step_head(part.line(7).as_bytes(), &mut names);
                    assert_eq!(part.head(7, &mut names).0, of_line, "{part:?}");
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 4 * 5 * 4 * 4);
}
