//! Checks that a step is assembled from its parts.

use super::*;
use crate::model::{Names, Record};

#[test]
fn a_step_is_put_together_from_its_parts() {
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
