//! Tests that the recorded rules over the recorded facts give the recorded verdict, for random
//! runs.

use proptest::prelude::*;

use super::*;
use crate::analysis::facts::{Depth, tests::Files};
use crate::analysis::life::ExternalFacts;
use crate::analysis::rule_replay::{replay, replay_from};
use crate::analysis::summary::summary;
use crate::analysis::whatif::{RuleSet, StopTiming};
use crate::analysis::why::{Standing, why};
use crate::model::RunKey;
use crate::soak::times;
use crate::stop::{
    Code, ConsecutiveErrors, CriticBelow, EntryRule, FinalResult, Keyword, MaxRounds, MaxRuntime,
    MaxSteps, Origin, Source, Stagnation, StepFacts, StopOnTool, StopRules, StopSet, StopSpec,
    StopVerdict, StructuredOutput,
};

/// One step of a random run.
#[derive(Debug, Clone)]
enum Beat {
    Echo(u8),
    Wrong,
    Wait,
    Answer(u8),
    Fail,
    Fatal,
    /// Sets a stop reason in the state, with or without an answer.
    Sets(&'static str, bool),
}

fn beat() -> impl Strategy<Value = Beat> {
    prop_oneof![
        4 => (0..3_u8).prop_map(Beat::Echo),
        1 => Just(Beat::Wrong),
        2 => Just(Beat::Wait),
        1 => (0..3_u8).prop_map(Beat::Answer),
        1 => Just(Beat::Fail),
        1 => prop_oneof![
            2 => (reason(), any::<bool>()).prop_map(|(reason, answers)| Beat::Sets(reason, answers)),
            1 => Just(Beat::Fatal),
        ],
    ]
}

fn reason() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "final",
        "success",
        "agent_condition",
        "env_terminal",
        "critic_stop",
    ])
}

/// Plays random steps.
struct Random {
    sets: Option<(&'static str, bool)>,
    beats: VecDeque<Beat>,
    stops_at: Option<usize>,
}

impl Agent for Random {
    type Data = Notes;

    fn name(&self) -> &str {
        "random"
    }

    async fn decide(
        &mut self,
        _: &State<Notes>,
        _: &StepCx<'_>,
    ) -> Result<Option<Decision>, AgentError> {
        match self.beats.pop_front().unwrap_or(Beat::Wait) {
            Beat::Echo(n) => Ok(Some(echo(&n.to_string()))),
            Beat::Wrong => Ok(Some(Decision::act([Action::new("missing")]))),
            Beat::Wait => Ok(Some(Decision::wait("a breath"))),
            Beat::Answer(n) => Ok(Some(Decision::final_answer(format!("answer {n}")))),
            Beat::Fail => Err(AgentError::new("failed on purpose")),
            Beat::Fatal => Err(AgentError::fatal("failed for good")),
            Beat::Sets(reason, answers) => {
                self.sets = Some((reason, answers));
                Ok(Some(Decision::wait("the state says it")))
            }
        }
    }

    fn reduce(&mut self, state: &mut State<Notes>, step: &Done<'_>) -> Result<(), AgentError> {
        // Equal calls leave an equal state, so that the stagnation rule can stop the run.
        state.data.seen = step.results.iter().map(ToolResult::text).collect();
        if let Some((reason, answers)) = self.sets.take() {
            let answer = answers.then(|| "answer 1".to_owned());
            return state
                .set_stop(reason, answer)
                .map_err(|wrong| AgentError::new(wrong.to_string()));
        }
        Ok(())
    }

    fn should_stop(&self, state: &State<Notes>) -> bool {
        self.stops_at == usize::try_from(state.current_step).ok()
    }
}

/// Gives a score and a wish for every step.
struct Temper(Vec<(f64, u8)>);

impl Critic<Notes> for Temper {
    fn name(&self) -> &str {
        "temper"
    }

    async fn judge(&self, step: CriticCx<'_, Notes>) -> Result<Opinion, CriticError> {
        let (score, wish) = self.0[step.step as usize % self.0.len()];
        let opinion = match wish {
            0 => Opinion::stop("no"),
            1 | 2 => Opinion::retry("again").set("seen", serde_json::json!([score.to_string()])),
            3 => return Err(CriticError::new("out of temper".to_owned())),
            _ => Opinion::proceed(""),
        };
        Ok(opinion.score(score))
    }
}

fn spec() -> impl Strategy<Value = StopSpec> {
    prop_oneof![
        (0..6_u64).prop_map(|rounds| StopSpec::from(MaxRounds { rounds })),
        (0..6_u64).prop_map(|steps| StopSpec::from(MaxSteps { steps })),
        (0..2_u64).prop_map(|seconds| StopSpec::from(MaxRuntime {
            seconds: seconds as f64
        })),
        (0..4_u64).prop_map(|max| StopSpec::from(ConsecutiveErrors { max })),
        (0..4_u64).prop_map(|steps| StopSpec::from(Stagnation { steps })),
        Just(StopSpec::from(StopOnTool {
            tool_name: "missing".to_owned()
        })),
        (0..3_u64, 0.0..1.0).prop_map(|(steps, score)| StopSpec::from(CriticBelow {
            critic: "temper".to_owned(),
            score,
            steps
        })),
        (0..4_u8).prop_map(|n| StopSpec::from(Keyword {
            keyword: n.to_string()
        })),
        Just(StopSpec::from(FinalResult {})),
        Just(StopSpec::from(StructuredOutput {
            schema: None,
            fenced: false
        })),
    ]
}

/// Reads a run's rules, facts and verdict from its trace.
fn from_disk(disk: &Disk) -> (StopRules, Vec<StepFacts>, StopVerdict) {
    let rules = serde_json::from_value(disk.manifest["stop_rules"].clone()).unwrap();
    let lines = disk.step_lines.iter().enumerate();
    let mut facts: Vec<_> = lines
        .map(|(step, line)| facts_of(step as u64, line.as_bytes()))
        .collect();
    if let Some(last) = disk.end()["payload"].get("facts") {
        facts.push(serde_json::from_value(last.clone()).unwrap());
    }
    (
        rules,
        facts,
        serde_json::from_value(disk.manifest["stop"].clone()).unwrap(),
    )
}

/// Reads the facts of a step from its line.
fn facts_of(step: u64, line: &[u8]) -> StepFacts {
    let record = crate::model::Record::of(line);
    StepFacts::from_step(step, &crate::format::step(&record).unwrap()).unwrap()
}

#[tokio::test]
async fn a_reason_that_the_agent_sets_counts_before_the_stop_of_a_critic() {
    let agent = Random {
        sets: None,
        beats: [Beat::Sets("env_terminal", false)].into(),
        stops_at: None,
    };
    let play = Engine::builder(agent).critic(Temper(vec![(0.0, 0)]));
    let (result, disk) = recorded(play.record_process(false), "Play.").await;
    assert_eq!(result.verdict.source, Source::Agent);
    let files = Files::open(&disk.dir.as_ref().unwrap().path().join("r"));
    let key = RunKey::new("r");
    let told = summary(&key, "r".to_owned(), &files.index, ExternalFacts::default());
    assert_eq!(
        told.verdict.sentence,
        "The agent ended the run as env_terminal after step 0"
    );
    assert!(told.verdict.contradictions.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(times(40, 300) as u32))]

    #[test]
    fn case_24_recorded_rules_over_recorded_facts_give_the_recorded_verdict(
        beats in prop::collection::vec(beat(), 0..12),
        stops_at in prop::option::of(1..12_usize),
        temper in prop::collection::vec((0.0..1.0, 0..12_u8), 1..8),
        specs in prop::collection::vec(spec(), 0..5),
        (steps, tokens, ms) in (0..9_u64, prop::option::of(0..3_u64), prop::option::of(0..60_u64)),
        cancels in prop::option::of((0..9_u64, any::<bool>())),
        opaque in prop::option::of(0..9_u64),
    ) {
        struct Pulls(Cancel, u64, bool);
        impl Hook<Notes> for Pulls {
            fn name(&self) -> &str {
                "pulls"
            }
            fn on(&mut self, moment: &Moment<'_, Notes>) -> Result<(), String> {
                match moment {
                    Moment::BeforeStep { step, .. } if *step == self.1 && self.2 => self.0.now(),
                    Moment::BeforeStep { step, .. } if *step == self.1 => self.0.after_step(),
                    _ => {}
                }
                Ok(())
            }
        }
        let cancel = Cancel::new();
        let mut builder = Engine::builder(Random { sets: None, beats: beats.into(), stops_at })
            .tool(Echo)
            .critic(Temper(temper))
            .max_steps(steps)
            .limits_from(Origin::Cli)
            .cancel(cancel.clone())
            .clock(Stepping::new(0, Duration::from_millis(3)))
            .record_process(false);
        if let Some(ms) = ms {
            builder = builder.max_runtime(Duration::from_millis(ms));
        }
        for spec in specs {
            builder = builder.stop(spec);
        }
        if let Some(at) = opaque {
            let gate = crate::stop::Gate::AfterDecide;
            builder = builder.rules(|rules| rules.policy_when("closure", gate, move |cx| cx.state.current_step == at));
        }
        if let Some((step, now)) = cancels {
            builder = builder.hook(Pulls(cancel, step, now));
        }
        let mut task = Task::new("Play.");
        task.budget.max_tokens = tokens;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (result, disk) = runtime.block_on(recorded(builder, task));
        let (rules, facts, recorded) = from_disk(&disk);
        prop_assert_eq!(&recorded, &result.verdict);
        let set: StopSet = StopSet::builder().rules(rules).build_fail_closed().unwrap();
        let again = replay(&set, &facts);
        prop_assert_eq!(again.verdict.as_ref(), Some(&recorded));
        prop_assert_eq!(again.stats.steps, result.stats.steps);
        // Board's own way: its index, and a line only if necessary. Answers are judged by their
        // texts.
        let files = Files::open(&disk.dir.as_ref().unwrap().path().join("r"));
        let read = files.record(Depth::Texts);
        prop_assert_eq!(replay_from(&set, read.resumed, &read.facts).verdict, Some(recorded.clone()));
        let heads = files.record(Depth::Heads);
        let judged = recorded.source == Source::Completion || heads.rules.as_ref().is_some_and(|rules| !rules.completion.is_empty());
        let from_heads = replay_from(&set, heads.resumed, &heads.facts).verdict.map(|verdict| (verdict.criterion, verdict.step));
        prop_assert!(judged || from_heads == Some((recorded.criterion.clone(), recorded.step)), "{:?}", from_heads);
        // The explanation names the rule of the verdict, and each recorded rule evaluated
        // independently would have done what it did.
        let summary = summary(&RunKey::new("r"), "r".to_owned(), &files.index, ExternalFacts::default());
        let told = why(&summary, &files.index, &files);
        let fired: Vec<_> = told.rules.iter().filter(|rule| rule.result == Standing::Fired).collect();
        prop_assert_eq!(fired.len(), 1);
        let named = if recorded.criterion.starts_with("critic[") { "critics" } else { &recorded.criterion };
        prop_assert_eq!(&*fired[0].id, named);
        prop_assert_eq!(summary.verdict.outcome.as_str(), recorded.outcome.as_str());
        let read = files.record(Depth::Texts);
        let entries = read.rules.iter().flat_map(|rules| rules.completion.iter().chain(&rules.policies));
        for entry in entries {
            let EntryRule::Spec(spec) = &entry.rule else { continue };
            let asked = RuleSet::new(vec![spec.clone()]).unwrap().ask(&read, false).remove(0);
            let id = entry.id.clone().unwrap_or_default();
            if id == recorded.criterion || recorded.also.contains(&id) {
                prop_assert_eq!((asked.found, asked.step), (StopTiming::Same, recorded.step), "{}", spec);
            } else {
                prop_assert!(matches!(asked.found, StopTiming::NotReached | StopTiming::Unknown), "{}: {:?}", spec, asked);
            }
        }
        for record in &result.steps {
            let line = disk.step_lines[record.step as usize].as_bytes();
            prop_assert_eq!(&facts_of(record.step, line), &record.facts);
        }
    }
}

#[tokio::test]
async fn a_hook_that_fails_after_the_last_step_is_told_by_the_next_gate() {
    struct Late;
    impl Hook<Notes> for Late {
        fn name(&self) -> &str {
            "late"
        }
        fn on(&mut self, moment: &Moment<'_, Notes>) -> Result<(), String> {
            if matches!(moment, Moment::AfterStep { .. }) {
                Err("no".to_owned())
            } else {
                Ok(())
            }
        }
    }
    let (result, disk) = recorded(engine([echo("1"), echo("2")]).hook(Late), "?").await;
    assert_eq!(
        (&result.verdict.code, result.verdict.source),
        (&Code::HookFailed, Source::Error)
    );
    let (rules, facts, recorded) = from_disk(&disk);
    assert_eq!(facts.len(), 2, "the second step reached its first gate");
    let set: StopSet = StopSet::builder().rules(rules).build().unwrap();
    assert_eq!(replay(&set, &facts).verdict, Some(recorded));
}
