//! Guards: what they let pass, refuse, change and end, and what is recorded of it.

use std::sync::Mutex;

use serde_json::{Map, json};

use super::*;

/// Says what a closure says.
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

/// Consents to what it is asked first, and to nothing else.
struct Once(Mutex<Vec<String>>);

impl Person for std::sync::Arc<Once> {
    async fn ask(&self, question: Question<'_>) -> Result<Consent, String> {
        let mut heard = self.0.lock().unwrap();
        heard.push(format!("{} {}: {}", question.tool, question.args["text"], question.reason));
        match heard.len() {
            1 => Ok(Consent::Yes),
            2 => Ok(Consent::No("not twice".to_owned())),
            _ => Err("gone home".to_owned()),
        }
    }
}

fn gated(disk: &Disk) -> Vec<(String, Value)> {
    let events = disk.events.iter().filter(|event| event["phase"] == "GATE");
    events.map(|event| (event["payload"]["stage"].as_str().unwrap().to_owned(), event["payload"].clone())).collect()
}

fn stages(disk: &Disk) -> Vec<String> {
    gated(disk).into_iter().map(|(stage, _)| stage).collect()
}

#[tokio::test]
async fn a_call_that_is_refused_is_a_result_that_the_agent_sees() {
    let strict =
        Says("strict", |text: &str| Ok(if text == "bad" { Pass::Deny("it is bad".to_owned()) } else { Pass::Allow }));
    let both = Decision::act([Action::new("echo").arg("text", "bad"), Action::new("echo").arg("text", "good")]);
    let (result, disk) = recorded(engine([both, Decision::final_answer("done")]).guard(strict), "?").await;
    assert_eq!(result.answer(), Some("done"));
    assert_eq!(result.state.unwrap().data.seen, ["error: not allowed: it is bad", "good"]);
    assert_eq!(stages(&disk), ["deny", "allow"]);
    assert_eq!(disk.manifest["summary"]["run_meta"]["guards"], json!(["strict"]));
    let denied = &gated(&disk)[0].1;
    assert_eq!(
        *denied,
        json!({"stage": "deny", "tool": "echo", "action": 0, "guard": "strict", "reason": "it is bad"})
    );
    let calls = &disk.steps[0]["tool_invocations"];
    assert_eq!((&calls[0]["error_category"], &calls[0]["attempts"]), (&json!("denied"), &json!(0)));
}

#[tokio::test]
async fn a_changed_call_is_carried_out_as_changed_and_judged_so_by_the_next() {
    let milder = Says("milder", |_: &str| {
        let args = Map::from_iter([("text".to_owned(), json!("please"))]);
        Ok(Pass::Change { args, reason: "more polite".to_owned() })
    });
    let polite = Says("polite", |text: &str| if text == "please" { Ok(Pass::Allow) } else { Err(text.to_owned()) });
    let play = engine([echo("now"), Decision::final_answer("done")]).guard(milder).guard(polite);
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(result.state.unwrap().data.seen, ["please"]);
    assert_eq!(disk.steps[0]["actions"][0]["args"], json!({"text": "now"}), "what was decided stays as it was");
    assert_eq!(gated(&disk)[0].1["args"], json!({"text": "please"}));
    assert_eq!(stages(&disk), ["change", "allow"]);
}

#[tokio::test]
async fn a_person_is_asked_and_without_one_the_answer_is_no() {
    let asks = || Says("asks", |_: &str| Ok(Pass::Ask("it is loud".to_owned())));
    let person = std::sync::Arc::new(Once(Mutex::default()));
    let plays = || [echo("a"), echo("b"), echo("c"), Decision::final_answer("done")];
    let (result, disk) = recorded(engine(plays()).guard(asks()).person(person.clone()), "?").await;
    let seen = [
        "a",
        "error: not allowed: not twice",
        "error: not allowed: somebody is to be asked, and could not be: gone home",
    ];
    assert_eq!(result.state.unwrap().data.seen, seen);
    assert_eq!(stages(&disk), ["ask", "allow", "ask", "deny", "ask", "deny"]);
    let consents: Vec<_> = gated(&disk).into_iter().filter_map(|(_, said)| said.get("consent")?.as_bool()).collect();
    assert_eq!(consents, [true, false, false]);
    assert_eq!(person.0.lock().unwrap()[1], "echo \"b\": it is loud");
    let (result, _) = recorded(engine(plays()).guard(asks()), "?").await;
    assert_eq!(result.state.unwrap().data.seen[0], "error: not allowed: somebody is to be asked, and nobody is there");
}

#[tokio::test]
async fn a_guard_may_end_the_run() {
    let ends =
        Says("ends", |text: &str| Ok(if text == "boom" { Pass::Stop("enough".to_owned()) } else { Pass::Allow }));
    let two = Decision::act([Action::new("echo").arg("text", "boom"), Action::new("echo").arg("text", "after")]);
    let (result, disk) = recorded(engine([echo("a"), two, Decision::final_answer("never")]).guard(ends), "?").await;
    assert_eq!(ending(&result.verdict).0, "guard_stop");
    assert_eq!(result.verdict.outcome, crate::stop::Outcome::Halted);
    assert_eq!(result.verdict.reading.detail, "the guard ends ended the run at echo: enough");
    assert_eq!(disk.steps[1]["tool_invocations"][1]["status"], "cancelled");
    assert_eq!(disk.manifest["status"], "completed");
}

#[tokio::test]
async fn a_guard_that_fails_refuses() {
    let fails = Says("fails", |text: &str| if text == "a" { Err("no idea".to_owned()) } else { panic!("lost") });
    let (result, _) = recorded(engine([echo("a"), echo("b"), Decision::final_answer("done")]).guard(fails), "?").await;
    let seen = ["no idea", "panicked: lost"].map(|why| format!("error: not allowed: the guard fails failed: {why}"));
    assert_eq!(result.state.unwrap().data.seen, seen);
}
