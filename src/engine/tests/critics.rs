//! Tests the critics' opinions and their effects.

use serde_json::json;

use super::*;
use crate::stop::{MaxSteps, Outcome, Stagnation, StopSpec};

/// Gives these opinions in order, then continues.
struct Says {
    name: &'static str,
    opinions: std::sync::Mutex<VecDeque<Opinion>>,
}

fn says(name: &'static str, opinions: impl IntoIterator<Item = Opinion>) -> Says {
    Says {
        name,
        opinions: std::sync::Mutex::new(opinions.into_iter().collect()),
    }
}

impl Critic<Notes> for Says {
    fn name(&self) -> &str {
        self.name
    }

    async fn judge(&self, _: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
        let next = self.opinions.lock().unwrap().pop_front();
        Ok(next.unwrap_or_else(|| Opinion::proceed("nothing to add")))
    }
}

#[tokio::test]
async fn case_16_a_stop_on_a_final_answer_wins() {
    let play = engine([Decision::final_answer("42")])
        .critic(says("strict", [Opinion::stop("wrong").score(0.1)]));
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("critic_stop", "critic[0]", Some(0))
    );
    assert_eq!(
        (result.verdict.outcome, result.answer()),
        (Outcome::Halted, None)
    );
    assert_eq!(result.last_text.as_deref(), Some("42"));
    let phases = disk.phases(0);
    assert_eq!(
        phases[4..],
        ["CRITIC/outputs", "CRITIC/stop", "CHECK_STOP/stop", "END"]
    );
}

#[tokio::test]
async fn case_16_a_retry_on_a_final_answer_vetoes_it_and_limits_are_still_checked() {
    let retry = || {
        says(
            "again",
            [Opinion::retry("no source").instruction("Name a source.")],
        )
    };
    let answers = || {
        [
            Decision::final_answer("42"),
            Decision::final_answer("42 [1]"),
        ]
    };
    let (result, _) = recorded(engine(answers()).critic(retry()), "?").await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
    assert_eq!(result.answer(), Some("42 [1]"));

    let (result, _) = recorded(
        engine(answers())
            .critic(retry())
            .stop(MaxSteps { steps: 1 }),
        "?",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("max_steps", "stop[0]", Some(0)));
    assert_eq!(result.answer(), None);
}

#[tokio::test]
async fn case_16_of_two_critics_the_first_that_objects_decides() {
    let stop = || says("stops", [Opinion::stop("enough")]);
    let retry = || says("retries", [Opinion::retry("again")]);
    let (result, _) = recorded(engine([echo("1")]).critic(stop()).critic(retry()), "?").await;
    assert_eq!(
        ending(&result.verdict),
        ("critic_stop", "critic[0]", Some(0))
    );
    let (result, disk) = recorded(
        engine([echo("1"), Decision::final_answer("42")])
            .critic(retry())
            .critic(stop()),
        "?",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("final", "decision", Some(1)));
    let actions: Vec<_> = disk.steps[0]["critic_outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["action"].clone())
        .collect();
    assert_eq!(actions, ["retry", "stop"]);
}

#[tokio::test]
async fn case_17_a_critic_that_changes_the_state_prevents_stagnation() {
    let same = || std::iter::repeat_n(Decision::wait("thinking"), 6);
    let rule = StopSpec::from(Stagnation { steps: 2 });
    let (result, _) = recorded(engine(same()).stop(rule.clone()), "?").await;
    assert_eq!(ending(&result.verdict), ("stagnation", "stop[0]", Some(2)));
    let patch =
        |at: u32| Opinion::retry("look elsewhere").set("seen", json!([format!("hint {at}")]));
    let (result, disk) = recorded(
        engine(same())
            .critic(says("hints", (0..4).map(patch)))
            .stop(rule),
        "?",
    )
    .await;
    assert_eq!(ending(&result.verdict), ("stagnation", "stop[0]", Some(5)));
    assert_eq!(
        disk.steps[1]["state_diff"]["seen"],
        json!({"before": ["hint 0"], "after": ["hint 1"]})
    );
}

#[tokio::test]
async fn a_patch_that_does_not_fit_fails_the_critic() {
    for (field, value, why) in [
        (
            "sene",
            json!([]),
            "the patch sets \"sene\", which the state does not have",
        ),
        (
            "current_step",
            json!(7),
            "the patch sets current_step, which the engine counts",
        ),
        (
            "seen",
            json!(7),
            "the patch doesn't fit the state: the agent's data: invalid type: integer `7`, expected a sequence",
        ),
    ] {
        let play = engine([echo("1")])
            .critic(says("patches", [Opinion::retry("again").set(field, value)]));
        let (result, disk) = recorded(play, "?").await;
        assert_eq!(
            ending(&result.verdict),
            ("criterion_error", "critic[0]", Some(0))
        );
        assert_eq!(disk.steps[0]["critic_outputs"][0]["reason"], why);
        assert_eq!(disk.steps[0]["critic_outputs"][0]["action"], "failed");
    }
}

#[tokio::test]
async fn a_non_numeric_score_is_kept_as_text() {
    let play = engine([echo("1")])
        .max_steps(1)
        .critic(says("odd", [Opinion::proceed("?").score(f64::NAN)]));
    let (result, disk) = recorded(play, "?").await;
    assert_eq!(disk.steps[0]["critic_outputs"][0]["score"], "NaN");
    assert_eq!(result.steps[0].facts.critics[0].score, None);
}

/// A walker: each step of the engine moves it by one.
struct Road {
    at: u64,
    seen: u64,
}

impl Env for Road {
    fn name(&self) -> &str {
        "road"
    }
    async fn reset(&mut self, _: &Task) -> Result<(), EnvError> {
        Ok(())
    }
    async fn observe(&mut self) -> Result<Value, EnvError> {
        self.seen += 1;
        Ok(json!({"at": self.at, "seen": self.seen}))
    }
    async fn step(&mut self, _: &Decision, _: &[ToolResult]) -> Result<EnvStep, EnvError> {
        self.at += 1;
        Ok(EnvStep::default())
    }
}

/// Answers with what it gets to see in its second step.
struct SaysWhatItSees;

impl Agent for SaysWhatItSees {
    type Data = Notes;
    fn name(&self) -> &str {
        "sees"
    }
    fn init_state(&mut self, task: &Task) -> Result<State<Notes>, AgentError> {
        Ok(State::new(&*task.objective, Notes::default()))
    }
    async fn decide(
        &mut self,
        _: &State<Notes>,
        cx: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        if cx.step == 0 {
            return Ok(Some(echo("one")));
        }
        let last: Vec<_> = cx.last.iter().map(ToolResult::text).collect();
        let seen = json!([cx.observation, last, cx.feedback]);
        Ok(Some(Decision::final_answer(seen.to_string())))
    }
}

/// The step after a retry sees what came of the judged step: its results, the critic's words, and
/// the environment as the step left it.
#[tokio::test]
async fn a_retried_step_sees_the_results_that_the_retry_is_about() {
    let sees = |critic| {
        Engine::builder(SaysWhatItSees)
            .tool(Echo)
            .env(Road { at: 0, seen: 0 })
            .critic(critic)
            .record_process(false)
    };
    let retry = Opinion::retry("no").instruction("Look again.");
    let (result, disk) = recorded(sees(says("retries", [retry])), "?").await;
    let seen: Value = serde_json::from_str(result.answer().unwrap()).unwrap();
    assert_eq!(
        seen,
        json!([{"at": 1, "seen": 2}, ["one"], ["Look again."]])
    );
    assert_eq!(disk.steps[1]["observation"], json!({"at": 1, "seen": 2}));
    // As after a step without a retry.
    let (result, _) = recorded(sees(says("agrees", [])), "?").await;
    let seen: Value = serde_json::from_str(result.answer().unwrap()).unwrap();
    assert_eq!(seen, json!([{"at": 1, "seen": 2}, ["one"], []]));
}
