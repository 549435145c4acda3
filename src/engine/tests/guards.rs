//! Tests guards: calls that they allow, deny, change and end, and the records of that.

use std::sync::Mutex;

use serde_json::{Map, json};

use super::*;
use crate::stop::{AnyOf, MaxRuntime, MaxSteps, Timeout};

/// Decides with a closure.
struct Says<F>(&'static str, F);

impl<F: Fn(&str) -> Result<Pass, String> + Send + Sync> Guard<Notes> for Says<F> {
    fn name(&self) -> &str {
        self.0
    }

    async fn judge(&self, call: GuardCx<'_, Notes>) -> Result<Pass, String> {
        assert_eq!((call.tool, call.state.task.as_str()), ("echo", "?"));
        (self.1)(call.args["text"].as_str().unwrap())
    }
}

/// Consents to the first question only.
struct Once(Mutex<Vec<String>>);

impl Person for std::sync::Arc<Once> {
    async fn ask(&self, question: Question<'_>) -> Result<Consent, String> {
        let mut heard = self.0.lock().unwrap();
        heard.push(format!(
            "{} {}: {}",
            question.tool, question.args["text"], question.reason
        ));
        match heard.len() {
            1 => Ok(Consent::Yes),
            2 => Ok(Consent::No("not twice".to_owned())),
            _ => Err("gone home".to_owned()),
        }
    }
}

fn gated(disk: &Disk) -> Vec<(String, Value)> {
    let events = disk.events.iter().filter(|event| event["phase"] == "GATE");
    events
        .map(|event| {
            (
                event["payload"]["stage"].as_str().unwrap().to_owned(),
                event["payload"].clone(),
            )
        })
        .collect()
}

fn stages(disk: &Disk) -> Vec<String> {
    gated(disk).into_iter().map(|(stage, _)| stage).collect()
}

#[tokio::test]
async fn a_call_that_is_refused_is_a_result_that_the_agent_sees() {
    let strict = Says("strict", |text: &str| {
        Ok(if text == "bad" {
            Pass::Deny("it is bad".to_owned())
        } else {
            Pass::Allow
        })
    });
    let both = Decision::act([
        Action::new("echo").arg("text", "bad"),
        Action::new("echo").arg("text", "good"),
    ]);
    let (result, disk) = recorded(
        engine([both, Decision::final_answer("done")]).guard(strict),
        "?",
    )
    .await;
    assert_eq!(result.answer(), Some("done"));
    assert_eq!(
        result.state.unwrap().data.seen,
        ["error: not allowed: it is bad", "good"]
    );
    assert_eq!(stages(&disk), ["deny", "allow"]);
    assert_eq!(
        disk.manifest["summary"]["run_meta"]["guards"],
        json!(["strict"])
    );
    let denied = &gated(&disk)[0].1;
    assert_eq!(
        *denied,
        json!({"stage": "deny", "tool": "echo", "action": 0, "guard": "strict", "reason": "it is bad"})
    );
    let calls = &disk.steps[0]["tool_invocations"];
    assert_eq!(
        (&calls[0]["error_category"], &calls[0]["attempts"]),
        (&json!("denied"), &json!(0))
    );
}

#[tokio::test]
async fn a_changed_call_is_carried_out_as_changed_and_judged_so_by_the_next() {
    let milder = Says("milder", |_: &str| {
        let args = Map::from_iter([("text".to_owned(), json!("please"))]);
        Ok(Pass::Change {
            args,
            reason: "more polite".to_owned(),
        })
    });
    let polite = Says("polite", |text: &str| {
        if text == "please" {
            Ok(Pass::Allow)
        } else {
            Err(text.to_owned())
        }
    });
    let play = engine([echo("now"), Decision::final_answer("done")])
        .guard(milder)
        .guard(polite);
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(result.state.unwrap().data.seen, ["please"]);
    assert_eq!(
        disk.steps[0]["actions"][0]["args"],
        json!({"text": "now"}),
        "the recorded decision is unchanged"
    );
    assert_eq!(gated(&disk)[0].1["args"], json!({"text": "please"}));
    assert_eq!(stages(&disk), ["change", "allow"]);
}

#[tokio::test]
async fn a_person_is_asked_and_without_one_the_answer_is_no() {
    let asks = || Says("asks", |_: &str| Ok(Pass::Ask("it is loud".to_owned())));
    let person = std::sync::Arc::new(Once(Mutex::default()));
    let plays = || {
        [
            echo("a"),
            echo("b"),
            echo("c"),
            Decision::final_answer("done"),
        ]
    };
    let (result, disk) = recorded(engine(plays()).guard(asks()).person(person.clone()), "?").await;
    let seen = [
        "a",
        "error: not allowed: not twice",
        "error: not allowed: approval is required, but asking failed: gone home",
    ];
    assert_eq!(result.state.unwrap().data.seen, seen);
    assert_eq!(
        stages(&disk),
        ["ask", "allow", "ask", "deny", "ask", "deny"]
    );
    let consents: Vec<_> = gated(&disk)
        .into_iter()
        .filter_map(|(_, said)| said.get("consent")?.as_bool())
        .collect();
    assert_eq!(consents, [true, false, false]);
    assert_eq!(person.0.lock().unwrap()[1], "echo \"b\": it is loud");
    let (result, _) = recorded(engine(plays()).guard(asks()), "?").await;
    assert_eq!(
        result.state.unwrap().data.seen[0],
        "error: not allowed: approval is required, but there is no approver"
    );
}

#[tokio::test]
async fn a_guard_may_end_the_run() {
    let ends = Says("ends", |text: &str| {
        Ok(if text == "boom" {
            Pass::Stop("enough".to_owned())
        } else {
            Pass::Allow
        })
    });
    let two = Decision::act([
        Action::new("echo").arg("text", "boom"),
        Action::new("echo").arg("text", "after"),
    ]);
    let (result, disk) = recorded(
        engine([echo("a"), two, Decision::final_answer("never")]).guard(ends),
        "?",
    )
    .await;
    assert_eq!(ending(&result.verdict).0, "guard_stop");
    assert_eq!(result.verdict.outcome, crate::stop::Outcome::Halted);
    assert_eq!(
        result.verdict.reading.detail,
        "the guard ends ended the run at echo: enough"
    );
    assert_eq!(disk.steps[1]["tool_invocations"][1]["status"], "cancelled");
    assert_eq!(disk.manifest["status"], "completed");
}

#[tokio::test]
async fn a_guard_that_fails_refuses() {
    let fails = Says("fails", |text: &str| {
        if text == "a" {
            Err("no idea".to_owned())
        } else {
            panic!("lost")
        }
    });
    let (result, _) = recorded(
        engine([echo("a"), echo("b"), Decision::final_answer("done")]).guard(fails),
        "?",
    )
    .await;
    let seen = ["no idea", "panicked: lost"]
        .map(|why| format!("error: not allowed: the guard fails failed: {why}"));
    assert_eq!(result.state.unwrap().data.seen, seen);
}

/// A system clock that follows tokio's test clock.
struct Turned(tokio::time::Instant);

impl Clock for Turned {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn now_us(&self) -> i64 {
        i64::try_from(self.elapsed().as_micros()).unwrap()
    }

    fn sleep(&self, time: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(time))
    }

    fn is_real(&self) -> bool {
        true
    }
}

/// Answers yes after this many seconds, or never.
struct Slow(Option<u64>);

impl Person for Slow {
    async fn ask(&self, _: Question<'_>) -> Result<Consent, String> {
        match self.0 {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
        Ok(Consent::Yes)
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_ends_with_the_time_of_the_run() {
    type Limit = fn(Builder<Play>) -> Builder<Play>;
    const CUT: &str = "the run's time limit of 60000 ms passed before the work was done; 60000 ms were spent \
        waiting for a person";
    let minute = Duration::from_secs(60);
    let limits: [(Limit, _, _, _, _); 6] = [
        (
            |play| play.stop(Timeout { seconds: 60 }),
            ("timeout", "stop[0]", Some(1)),
            "60001 ms, limit 60000 ms; 60001 ms were spent waiting for a person",
            Some(false),
            60_001,
        ),
        (
            |play| play.stop(MaxRuntime { seconds: 60.0 }),
            ("max_runtime", "stop[0]", Some(0)),
            "60000 ms, limit 60000 ms; 60000 ms were spent waiting for a person",
            Some(false),
            60_000,
        ),
        (
            |play| {
                play.stop(AnyOf {
                    of: vec![
                        MaxSteps { steps: 9 }.into(),
                        MaxRuntime { seconds: 60.0 }.into(),
                    ],
                })
            },
            ("max_runtime", "stop[0]", Some(0)),
            "60000 ms, limit 60000 ms; 60000 ms were spent waiting for a person",
            Some(false),
            60_000,
        ),
        (
            |play| play.max_runtime(Duration::from_secs(60)),
            ("budget_time", "budget_time", Some(0)),
            CUT,
            None,
            60_000,
        ),
        (
            |play| play.hard_timeout(Duration::from_secs(60)),
            ("budget_time", "budget_time", Some(0)),
            CUT,
            None,
            60_000,
        ),
        (
            // A rule that is off has no effect. The other one is checked at its own gate.
            |play| {
                play.stop(Timeout { seconds: 0 })
                    .stop(MaxRuntime { seconds: 60.0 })
            },
            ("max_runtime", "stop[1]", Some(0)),
            "60000 ms, limit 60000 ms; 60000 ms were spent waiting for a person",
            Some(false),
            60_000,
        ),
    ];
    for (limit, end, detail, consent, waited) in limits {
        let asks = Says("asks", |_: &str| Ok(Pass::Ask("it is loud".to_owned())));
        let play = engine([echo("a"), echo("b")])
            .guard(asks)
            .person(Slow(None));
        let play = limit(play.clock(Turned(tokio::time::Instant::now())));
        let (result, disk) = tokio::time::timeout(10 * minute, recorded(play, "?"))
            .await
            .expect("it does not hang");
        assert_eq!(
            (ending(&result.verdict), &*result.verdict.reading.detail),
            (end, detail)
        );
        disk.end();
        let asked = &gated(&disk)[0].1;
        assert_eq!(
            (asked["stage"].as_str(), asked["waited_ms"].as_u64()),
            (Some("ask"), Some(waited)),
            "{detail}"
        );
        assert_eq!(
            asked.get("consent").and_then(Value::as_bool),
            consent,
            "{detail}"
        );
        assert_eq!(disk.steps[0]["facts"]["waited_ms"], waited);
        let denied = "error: not allowed: the approver did not answer before the run's time was up";
        let told = if consent.is_some() {
            denied
        } else {
            "error: the run was cancelled"
        };
        assert_eq!(result.steps[0].results[0].text(), told);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_is_an_answer_and_its_time_is_told() {
    let asks = Says("asks", |_: &str| Ok(Pass::Ask("it is loud".to_owned())));
    let play = engine([echo("a"), echo("b")])
        .guard(asks)
        .person(Slow(Some(20)))
        .stop(MaxRuntime { seconds: 40.0 });
    let (result, disk) = recorded(play.clock(Turned(tokio::time::Instant::now())), "?").await;
    assert_eq!(disk.steps[0]["tool_invocations"][0]["status"], "success");
    assert_eq!(gated(&disk)[0].1["waited_ms"], 20_000);
    assert_eq!(ending(&result.verdict), ("max_runtime", "stop[0]", Some(1)));
    let detail = "40000 ms, limit 40000 ms; 40000 ms were spent waiting for a person";
    assert_eq!(result.verdict.reading.detail, detail);
}

/// A call that finishes only when two of them have started.
struct Together(tokio::sync::Barrier);

impl Tool for Together {
    type Args = EchoArgs;
    type Output = String;

    fn name(&self) -> &str {
        "together"
    }

    fn description(&self) -> &str {
        "Waits for another."
    }

    fn is_parallel(&self) -> bool {
        true
    }

    async fn call(&self, args: EchoArgs, _: ToolCx<'_>) -> Result<String, ToolError> {
        if args.text == "breaks" {
            panic!("it broke");
        }
        self.0.wait().await;
        Ok(args.text)
    }
}

/// Decides differently on each of several calls.
struct Sorts;

impl Guard<Notes> for Sorts {
    fn name(&self) -> &str {
        "sorts"
    }

    async fn judge(&self, call: GuardCx<'_, Notes>) -> Result<Pass, String> {
        let args = Map::from_iter([("text".to_owned(), json!("quiet"))]);
        Ok(match call.args["text"].as_str().unwrap() {
            "bad" => Pass::Deny("it is bad".to_owned()),
            "loud" => Pass::Change {
                args,
                reason: "it is loud".to_owned(),
            },
            "dear" | "dearer" => Pass::Ask("it is dear".to_owned()),
            _ => Pass::Allow,
        })
    }
}

// If the two remaining calls didn't run in parallel, each would wait until its tool's timeout of
// one minute.
#[tokio::test(start_paused = true)]
async fn of_calls_at_the_same_time_one_is_refused_one_changed_one_asked_for_and_one_fails() {
    let call = |text: &str| Action::new("together").arg("text", text);
    let all = Decision::act(["bad", "loud", "dear", "breaks", "dearer"].map(call));
    let play =
        engine([all, Decision::final_answer("done")]).tool(Together(tokio::sync::Barrier::new(2)));
    let person = std::sync::Arc::new(Once(Mutex::default()));
    let (result, disk) = recorded(play.guard(Sorts).person(person), "?").await;
    let seen = [
        "error: not allowed: it is bad",
        "quiet",
        "dear",
        "error: panicked: it broke",
        "error: not allowed: not twice",
    ];
    assert_eq!(result.answer(), Some("done"));
    assert_eq!(
        result.state.unwrap().data.seen,
        seen,
        "results are in the order of the calls"
    );
    assert_eq!(
        stages(&disk),
        [
            "deny", "change", "allow", "ask", "allow", "allow", "ask", "deny"
        ]
    );
    let of: Vec<_> = gated(&disk)
        .into_iter()
        .map(|(_, said)| said["action"].as_u64().unwrap())
        .collect();
    assert_eq!(of, [0, 1, 1, 2, 2, 3, 4, 4]);
    let invoked = disk.steps[0]["tool_invocations"].as_array().unwrap();
    let known = |key: &str| {
        invoked
            .iter()
            .map(|call| call[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        known("status"),
        ["error", "success", "success", "error", "error"]
    );
    assert_eq!(
        known("error_category"),
        [
            json!("denied"),
            json!(null),
            json!(null),
            json!("panic"),
            json!("denied")
        ]
    );
    assert_eq!(known("attempts"), [0, 1, 1, 1, 0]);
}
