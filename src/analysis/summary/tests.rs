//! Checks clocks that go back, and directories that several runs wrote to.

use thin_vec::thin_vec;

use super::*;
use crate::analysis::columns::COLUMNS;
use crate::analysis::compare::measures;
use crate::analysis::facts::{Depth, record, tests::Files};
use crate::analysis::scores::Scores;
use crate::analysis::timing::{began, stretches, took};
use crate::analysis::why::tests::Gone;
use crate::model::index::FileState;
use crate::model::{Delta, ManifestState, Names, StepHead, Symbol};

/// Returns an event of step `id` at time `at` of one day.
fn event(id: i64, phase: &str, stage: &str, at: &str) -> String {
    format!(
        r#"{{"step_id": {id}, "phase": "{phase}", "ts": "2026-03-01T{at}+00:00", "payload": {{"stage": "{stage}", "stop_reason": "final"}}}}"#
    )
}

fn index(steps: &[String], events: &[String], manifest: &str) -> Index {
    let mut names = Names::default();
    let exists = FileState {
        exists: true,
        ..FileState::default()
    };
    let mut delta = Delta {
        steps_file: exists,
        events_file: exists,
        ..Delta::default()
    };
    delta.steps = steps
        .iter()
        .map(|line| crate::format::step_head(line.as_bytes(), &mut names).0)
        .collect();
    for line in events {
        let (head, note, _) = crate::format::event_head(line.as_bytes(), &mut names);
        delta.events.push((head, note));
    }
    if let Ok((manifest, _)) = crate::format::manifest(manifest.as_bytes()) {
        delta.manifest = Some(ManifestState::Read(Box::new(manifest)));
    }
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    index
}

fn told(index: &Index) -> Summary {
    summary(
        &RunKey::new("r"),
        String::new(),
        index,
        ExternalFacts::default(),
    )
}

#[test]
fn the_steps_of_a_run_are_described_in_one_way() {
    let has = |steps: usize| {
        let steps: Vec<_> = (0..steps)
            .map(|n| format!(r#"{{"step_id": {n}, "decision": {{}}}}"#))
            .collect();
        let index = index(&steps, &[], "{}");
        told(&index).has_steps("It", &index, steps.len())
    };
    assert_eq!(has(0), told(&Index::default()).no_step(&Index::default()));
    assert_eq!(has(1), "It has 1 step, step 0");
    assert_eq!(has(3), "It has 3 steps, numbered from 0 to 2");
}

#[test]
fn a_run_is_called_by_its_title_else_by_its_task_else_by_its_name() {
    let mut run = told(&Index::default());
    assert_eq!(run.title(), run.key.name());
    run.task = Some("\n Mend the cart\nbefore noon".into());
    assert_eq!(run.title(), "Mend the cart");
    run.task_line = Some("Cart is broken".into());
    assert_eq!(run.title(), "Cart is broken");
    run.titles = vec!["Cart".to_owned()].into();
    assert_eq!(run.title(), "Cart");
}

/// Three steps; in the second, the clock goes back by an hour.
fn put_back() -> Index {
    let steps: Vec<String> = (0..3)
        .map(|id| format!(r#"{{"step_id": {id}, "decision": {{"mode": "wait"}}}}"#))
        .collect();
    let events = [
        event(0, "INIT", "", "10:00:00"),
        event(0, "DECIDE", "state_ready", "10:00:01"),
        event(0, "ACT", "start", "10:00:02"),
        event(1, "DECIDE", "state_ready", "10:00:03"),
        event(1, "ACT", "start", "09:00:04"),
        event(1, "REDUCE", "start", "09:00:06"),
        event(2, "DECIDE", "state_ready", "09:00:07"),
        event(2, "ACT", "start", "09:00:09"),
        event(2, "END", "", "09:00:10"),
    ];
    index(&steps, &events, "")
}

#[test]
fn a_run_was_updated_when_its_newest_event_was() {
    let run = told(&put_back());
    let time = |at: &str| {
        crate::model::time::parse_ts(&format!("2026-03-01T{at}+00:00")).map(|stamp| stamp.micros)
    };
    assert_eq!(
        (run.started, run.updated),
        (time("10:00:00"), time("10:00:03"))
    );
}

#[test]
fn where_no_step_says_its_tokens_none_of_them_does() {
    let steps: Vec<String> = (0..3)
        .map(|id| format!(r#"{{"step_id": {id}, "decision": {{"mode": "wait"}}}}"#))
        .collect();
    let run = told(&index(
        &steps,
        &[],
        r#"{"run_id": "r", "status": "completed"}"#,
    ));
    assert_eq!((run.tokens, run.tokens_unknown), (None, 3));
    let whole = told(&index(
        &steps,
        &[],
        r#"{"run_id": "r", "status": "completed", "token_usage": 12}"#,
    ));
    assert_eq!(
        (whole.tokens, whole.tokens_unknown),
        (Some(12), 0),
        "the run records the total"
    );
    assert_eq!(
        (run.steps_without_tokens, whole.steps_without_tokens),
        (3, 3)
    );
    let facts = r#"{"step_id": 0, "facts": {"t_start_ms": 0, "t_decided_ms": 1, "t_end_ms": 2}}"#;
    let ours = told(&index(&[facts.to_owned()], &[], ""));
    assert_eq!(
        ours.steps_without_tokens, 0,
        "a step of board's engine without a model call uses no tokens"
    );
}

#[test]
fn where_the_clock_goes_back_a_duration_is_unknown_and_an_issue_says_so() {
    let index = put_back();
    let of = |n: usize| index.round_of(n).unwrap();
    let times: Vec<_> = (0..3)
        .map(|n| (took(of(n)), began(&index, of(n)).is_some()))
        .collect();
    assert_eq!(
        times,
        [
            (Some(1_000_000), true),
            (None, true),
            (Some(2_000_000), false)
        ]
    );
    let phases: Vec<_> = stretches(&index, of(1))
        .iter()
        .map(|stretch| stretch.micros)
        .collect();
    assert_eq!(
        phases,
        [None, Some(2_000_000), Some(0)],
        "the phases after it are on one clock again"
    );
    let summary = told(&index);
    assert_eq!(
        (summary.duration_ms, index.back_steps(), index.slowest_gap()),
        (None, 1, 1_000_000)
    );
    assert_eq!(
        summary.took_words().as_deref(),
        Some("at least 6.0 s"),
        "the time since the clock was set back"
    );
    assert_eq!(
        summary.started,
        index.events().get(0).unwrap().ts,
        "a run begins with its first event"
    );
    let issues = health::issues(&index);
    assert!(
        issues
            .iter()
            .any(|issue| issue.reason == "a record is older than the one before it"),
        "{issues:?}"
    );
    // After that, the run's age is unknown.
    let facts = record(&index, &Gone, Depth::Heads).facts;
    let known: Vec<_> = facts
        .iter()
        .map(|facts| (facts.t_start_ms, facts.t_end_ms))
        .collect();
    assert_eq!(
        known,
        [(Some(1000), Some(2000)), (Some(3000), None), (None, None)]
    );
}

#[test]
fn where_one_time_goes_back_the_span_from_first_to_last_is_a_lower_bound() {
    let events = [
        ("10:00:00", "INIT"),
        ("10:00:10", "DECIDE"),
        ("09:59:50", "ACT"),
        ("10:09:37", "END"),
    ];
    let events = events.map(|(at, phase)| event(0, phase, "", at));
    let run = told(&index(
        &[r#"{"step_id": 0, "decision": {"mode": "wait"}}"#.to_owned()],
        &events,
        "",
    ));
    assert_eq!(
        (run.duration_ms, run.duration_at_least_ms),
        (None, Some(577_000.0))
    );
    let column = crate::analysis::columns::Column::find("duration").unwrap();
    let words = column
        .shown(&run)
        .and_then(|value| value.words(0, &jiff::tz::TimeZone::UTC))
        .unwrap();
    assert_eq!(column.bound(&run, &words), "≥9 min 37 s");
    assert!(column.value(&run).is_none(), "as JSON it is unknown");
    let in_order = [
        ("10:00:00", "INIT"),
        ("10:00:10", "DECIDE"),
        ("10:09:37", "END"),
    ];
    let run = told(&index(
        &[],
        &in_order.map(|(at, phase)| event(0, phase, "", at)),
        "",
    ));
    assert_eq!(
        (run.duration_ms, run.duration_at_least_ms),
        (Some(577_000.0), None)
    );
}

/// Two runs of two steps in one directory, the second a minute after the first.
fn used_twice(manifest: &str) -> Index {
    let run = |minute: u32, tool: &str, score: f64| -> (Vec<String>, Vec<String>) {
        let step = |id: u32| {
            format!(
                r#"{{"step_id": {id}, "decision": {{"mode": "act", "actions": [{{"name": "{tool}", "args": {{}}}}]}},
                "critic_outputs": [{{"critic_name": "C", "score": {score}}}], "context": {{"tokens_total": {}}}}}"#,
                (id + 1) * 100 * (minute + 1)
            )
        };
        let at = |second: u32| format!("10:{minute:02}:{second:02}");
        let events = vec![
            event(0, "INIT", "", &at(0)),
            event(0, "DECIDE", "state_ready", &at(1)),
            event(1, "DECIDE", "state_ready", &at(2)),
            event(1, "END", "", &at(3)),
        ];
        (vec![step(0), step(1)], events)
    };
    let (first, second) = (run(0, "old", 0.25), run(1, "new", 0.75));
    index(
        &[first.0, second.0].concat(),
        &[first.1, second.1].concat(),
        manifest,
    )
}

#[test]
fn the_numbers_of_a_directory_used_twice_are_the_newest_runs() {
    let index = used_twice("");
    let summary = told(&index);
    assert_eq!(
        (
            summary.segments,
            summary.steps,
            summary.steps_now,
            summary.events
        ),
        (2, 2, 2, 4)
    );
    assert_eq!(
        (summary.duration_ms, summary.tokens),
        (Some(3000.0), Some(400)),
        "no pause, no older tokens"
    );
    assert_eq!(
        (summary.spark.clone(), summary.tools.clone()),
        (thin_vec![0.75, 0.75], thin_vec!["new".to_owned()])
    );
    assert_eq!(summary.started, index.events().get(4).unwrap().ts);
    let sums = Scores::of(&index).lanes[0].sums();
    assert_eq!((sums.scored, sums.mean), (2, Some(0.75)));
    let measure = |id: &str| {
        measures(&summary, &index)
            .into_iter()
            .find(|measure| measure.id == id)
            .unwrap()
            .value
    };
    assert_eq!(
        (
            measure("steps"),
            measure("tool_calls"),
            measure("mean_score")
        ),
        (Some(2.0), Some(2.0), Some(0.75))
    );
    let column = |name: &str| {
        COLUMNS
            .iter()
            .find(|column| column.name == name)
            .unwrap()
            .value(&summary)
    };
    assert_eq!(
        format!("{:?} {:?}", column("steps"), column("segments")),
        "Some(Count(2)) Some(Count(2))"
    );
    // The writer's own figure counts if it belongs to the run that ended last.
    let latency =
        r#"{"status": "completed", "summary": {"latency_seconds": 2.5}, "latency_seconds": 2.5}"#;
    assert_eq!(told(&used_twice(latency)).duration_ms, Some(2500.0));
}

#[test]
fn a_recorded_directory_used_twice_has_the_numbers_of_its_manifest() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus/q060/q060_rerun_same_id");
    let files = Files::open(&path);
    let summary = told(&files.index);
    let manifest = files.index.manifest().get().unwrap();
    assert_eq!(
        (Some(summary.steps as i64), Some(summary.events as i64)),
        (manifest.step_count, manifest.event_count)
    );
    assert_eq!(
        summary.duration_ms,
        manifest.latency_s.map(|seconds| seconds * 1e3)
    );
}

#[test]
fn a_run_that_goes_on_under_rising_ids_is_one() {
    let step = |id: u32| format!(r#"{{"step_id": {id}, "decision": {{"mode": "wait"}}}}"#);
    let events = [
        event(0, "INIT", "", "10:00:00"),
        event(0, "DECIDE", "state_ready", "10:00:01"),
        event(1, "INIT", "", "11:00:00"),
        event(1, "DECIDE", "state_ready", "11:00:02"),
    ];
    let index = index(&[step(0), step(1)], &events, "");
    let summary = told(&index);
    assert_eq!((summary.segments, summary.steps, summary.events), (2, 2, 4));
    assert_eq!(
        summary.duration_ms,
        Some(3000.0),
        "the pause between sessions doesn't count"
    );
}

#[test]
fn how_long_a_run_took_is_one_number() {
    // The manifest covers only the last session.
    let manifest = r#"{"status": "completed", "latency_seconds": 2.0, "summary": {"stop_reason": "budget_time"}, "token_usage": 0}"#;
    let step = |id: u32| format!(r#"{{"step_id": {id}, "decision": {{"mode": "wait"}}}}"#);
    let end = |at: &str| {
        format!(
            r#"{{"step_id": 2, "phase": "END", "ok": false, "ts": "2026-03-01T{at}+00:00", "payload": {{"stop_reason": "budget_time"}}}}"#
        )
    };
    let events = [
        event(0, "INIT", "", "10:00:00"),
        event(0, "DECIDE", "state_ready", "10:00:01"),
        event(1, "INIT", "", "11:00:00"),
        event(1, "DECIDE", "state_ready", "11:00:01"),
        end("11:00:02"),
    ];
    let summary = told(&index(&[step(0), step(1)], &events, manifest));
    assert_eq!(summary.duration_ms, Some(3000.0));
    assert_eq!(summary.verdict.sentence, "Time limit reached after 3.0 s");
}

#[test]
fn lines_that_are_no_json_are_no_steps() {
    let heads: Vec<StepHead> = ["{}", "garbage", "7"]
        .map(|line| crate::format::step_head(line.as_bytes(), &mut Names::default()).0)
        .to_vec();
    let mut index = Index::default();
    index.apply(Delta {
        steps: heads,
        ..Delta::default()
    });
    assert_eq!((told(&index).steps, told(&index).steps_now), (2, 3));
}

fn step(id: i64, fields: &str) -> String {
    format!(r#"{{"step_id": {id}, "decision": {{"mode": "wait"}}{fields}}}"#)
}

fn prices(table: &[(&str, f64)]) -> Arc<Prices> {
    let price = |input: f64| crate::model::price::Price {
        input,
        cached: Some(input / 10.0),
        output: input * 2.0,
        ..Default::default()
    };
    let table = table
        .iter()
        .map(|(name, input)| ((*name).to_owned(), price(*input)))
        .collect();
    Arc::new(Prices::new(table, "prices.toml".to_owned()).unwrap())
}

#[test]
fn a_cost_that_is_not_recorded_is_estimated_by_the_tokens_of_each_model() {
    let tokens =
        r#", "context": {"input_tokens_total": 1000, "cached_tokens": 500, "output_tokens": 100}"#;
    let named = format!(r#"{tokens}, "model": "small""#);
    let manifest = r#"{"status": "completed", "model_id": "large"}"#;
    let told = |steps: &[String], manifest: &str| told(&index(steps, &[], manifest));
    let run = told(
        &[step(0, tokens), step(1, &named), step(2, &named)],
        manifest,
    );
    assert_eq!(run.model.as_deref(), Some("large"));
    // 500 in, 500 from the cache and 100 out cost 750 times the input price.
    let estimate = |run: &Summary, table: &[(&str, f64)]| run.clone().priced(&prices(table)).cost();
    let both = [("small", 1.0), ("lar*", 10.0)];
    assert_eq!(estimate(&run, &both), Some(Cost::Estimated(0.009)));
    let priced = run.clone().priced(&prices(&both));
    assert_eq!(
        (priced.cost_usd, priced.cost_words().as_deref()),
        (None, Some("≈$0.0090, estimated from prices.toml"))
    );
    assert_eq!((run.cost(), estimate(&run, &[])), (None, None));
    assert_eq!(
        estimate(&run, &[("large", 10.0)]),
        None,
        "one model has no price"
    );
    let partly = run.clone().priced(&prices(&[("large", 10.0)]));
    assert_eq!(partly.cost_at_least_usd(), Some(0.0075));
    assert_eq!(priced.cost_at_least_usd(), None, "the cost is known");

    let mut unnamed = index(&[step(0, tokens)], &[], manifest);
    let mut other = unnamed.manifest().get().cloned().unwrap();
    other.model_changed = true;
    unnamed.apply(Delta {
        manifest: Some(ManifestState::Read(Box::new(other))),
        ..Delta::default()
    });
    assert_eq!(
        estimate(&super::tests::told(&unnamed), &both),
        None,
        "the step may have called the model before"
    );
    let untold = told(&[step(0, tokens), step(1, "")], manifest);
    assert_eq!(
        estimate(&untold, &both),
        None,
        "a step doesn't record its usage"
    );
    let more = format!(
        r#"{}, "tokens_total": 5000}}"#,
        tokens.trim_end_matches('}')
    );
    let more = told(&[step(0, &more)], manifest);
    assert_eq!(
        (more.tokens, estimate(&more, &both)),
        (Some(5000), None),
        "the total includes more requests"
    );
    let paid = told(
        &[
            step(0, &format!(r#"{tokens}, "cost_usd": 0.5"#)),
            step(1, &named),
        ],
        manifest,
    );
    assert_eq!(
        estimate(&paid, &[("small", 1.0)]),
        Some(Cost::Estimated(0.50075))
    );
    let recorded = told(
        &[step(0, tokens)],
        r#"{"status": "completed", "model_id": "large", "cost": 0.25}"#,
    );
    assert_eq!(estimate(&recorded, &both), Some(Cost::Recorded(0.25)));
    assert_eq!(recorded.priced(&prices(&both)).cost_estimated_usd(), None);
}

#[test]
fn a_cost_limit_over_an_estimate_says_so() {
    use crate::analysis::whatif::{RuleSet, StopTiming, report};

    let tokens = r#", "context": {"input_tokens_total": 100000, "output_tokens": 0}"#;
    let steps: Vec<_> = (0..4).map(|n| step(n, tokens)).collect();
    let index = index(&steps, &[], r#"{"status": "completed", "model_id": "m"}"#);
    let ask = |summary: &Summary| {
        let rule_set = RuleSet::new(vec!["max_cost=0.15".parse().unwrap()]).unwrap();
        let report = report(&rule_set, summary, &index, &Gone);
        let first = report.rules[0].result.clone();
        (
            first.found,
            first.step,
            first.detail,
            report.inferred.iter().any(|fact| fact.contains("prices")),
        )
    };
    assert_eq!(ask(&told(&index)).0, StopTiming::Unknown);
    let (found, step, detail, said) = ask(&told(&index).priced(&prices(&[("m", 1.0)])));
    assert_eq!((found, step, said), (StopTiming::Earlier, Some(1), true));
    assert_eq!(detail, "$0.2 (estimated), limit $0.15");
}

#[test]
fn what_the_reply_of_the_last_step_took_counts_in_a_run_that_was_killed_in_it() {
    let reply = |usage: &str| {
        event(1, "DECIDE", "model_output", "10:00:03")
            .replace(r#""stage""#, &format!(r#"{usage}, "stage""#))
    };
    let context = r#"{"input_tokens_total": 100, "output_tokens": 20, "tokens_total": 120}"#;
    let step = format!(r#"{{"step_id": 0, "context": {context}, "decision": {{"mode": "wait"}}}}"#);
    let killed = |usage: &str| {
        let began = |id: i64, at: &str| event(id, "DECIDE", "state_ready", at);
        let events = [began(0, "10:00:00"), began(1, "10:00:02"), reply(usage)];
        told(&index(std::slice::from_ref(&step), &events, ""))
    };
    let own = killed(r#""usage": {"input": 500, "output": 43, "estimated": true}"#);
    assert_eq!(
        (own.tokens, own.tokens_estimated, own.tokens_bound()),
        (Some(663), true, "at least ≈")
    );
    assert_eq!((own.usage.input, own.usage.output), (Some(600), Some(63)));
    let of_qitos = killed(r#""context": {"input_tokens_total": 500, "output_tokens": 43}"#);
    assert_eq!(
        (of_qitos.tokens, of_qitos.tokens_bound()),
        (Some(663), "at least ")
    );
    let unsaid = killed(r#""raw_output": "x""#);
    assert_eq!(
        (unsaid.tokens, unsaid.tokens_bound()),
        (Some(120), "at least "),
        "a reply that records nothing"
    );
}

/// A run of six steps that each call a model.
fn six_steps() -> (Vec<String>, Vec<String>) {
    let step = |id: i64| {
        let context = format!(
            r#"{{"input_tokens_total": 9, "output_tokens": 1, "tokens_total": {}}}"#,
            10 * (id + 1)
        );
        format!(
            r#"{{"step_id": {id}, "decision": {{"mode": "act", "actions": [{{"name": "a"}}]}}, "context": {context}}}"#
        )
    };
    let at = |id: i64, second: i64| format!("10:0{id}:0{second}");
    let round = |id: i64| {
        ["state_ready", "model_output"].map(|stage| {
            event(
                id,
                "DECIDE",
                stage,
                &at(id, i64::from(stage == "model_output")),
            )
        })
    };
    let rounds = (0..6).flat_map(round);
    let events = [event(0, "INIT", "", "09:00:00")]
        .into_iter()
        .chain(rounds)
        .chain([event(5, "END", "", "10:09:00")]);
    ((0..6).map(step).collect(), events.collect())
}

#[test]
fn a_step_line_that_cannot_be_read_makes_what_is_counted_unknown() {
    let (mut steps, events) = six_steps();
    let whole = told(&index(&steps, &events, "{}"));
    assert_eq!(
        (whole.steps_known(), whole.tool_calls, whole.errors_known()),
        (Some(6), Some(6), Some(0))
    );
    assert_eq!(whole.tokens, Some(60));
    for torn in [r#"{"step_id": 2, "decis"#, "null", "garbage"] {
        steps[2] = torn.to_owned();
        let index = index(&steps, &events, "{}");
        let run = told(&index);
        // The events record six rounds.
        assert_eq!(
            (run.steps_known(), run.tool_calls, run.errors_known()),
            (Some(6), None, None),
            "{torn}"
        );
        let alone = self::index(&steps, &[], "{}");
        assert_eq!(
            (told(&alone).steps_known(), told(&alone).tool_calls),
            (None, None),
            "{torn}"
        );
        let lost = record(&alone, &Gone, Depth::Heads).lost;
        assert_eq!(
            lost.map(|lost| (lost.count, lost.from)),
            Some((1, 2)),
            "{torn}"
        );
    }
}

#[test]
fn errors_and_events_are_unknown_where_what_tells_of_them_is_missing() {
    let (steps, mut events) = six_steps();
    let mut without = index(&steps, &[], "{}");
    without.apply(Delta {
        steps_file: FileState {
            exists: true,
            ..FileState::default()
        },
        ..Delta::default()
    });
    let run = told(&without);
    assert_eq!(
        (run.events_known(), run.errors_known(), run.segments_known()),
        (None, None, None)
    );
    events[4] = "garbage".to_owned();
    let run = told(&index(&steps, &events, "{}"));
    let readable = Some(events.len() - 1);
    assert_eq!(
        (run.events_known(), run.errors_known(), run.segments_known()),
        (readable, None, Some(1))
    );
    // An error in the round in which the run died counts, although its step has no line.
    let failed = r#"{"step_id": 5, "phase": "ACT_ERROR", "ok": false, "error": "no", "ts": "2026-03-01T10:05:02+00:00", "payload": {}}"#;
    let (steps, mut events) = six_steps();
    events.pop();
    events.push(failed.to_owned());
    events.push(event(0, "toolset_teardown_start", "", "10:05:03"));
    assert_eq!(
        told(&index(&steps[..5], &events, "{}")).errors_known(),
        Some(1)
    );
}

#[test]
fn a_sum_that_lacks_the_last_step_is_no_total() {
    let (mut steps, events) = six_steps();
    steps[5] =
        r#"{"step_id": 5, "decision": {"mode": "final", "final_answer": "x"}, "context": {}}"#
            .to_owned();
    let killed = told(&index(&steps, &events[..events.len() - 1], "{}"));
    assert_eq!((killed.tokens, killed.usage.input), (None, None));
    let manifest =
        r#"{"status": "completed", "token_usage": 70, "summary": {"stop_reason": "final"}}"#;
    let whole = told(&index(&steps, &events, manifest));
    assert_eq!(whole.tokens, Some(70));
    assert!(
        whole
            .verdict
            .contradictions
            .iter()
            .all(|said| !said.contains("tokens")),
        "{:?}",
        whole.verdict
    );
}

#[test]
fn what_depends_on_the_order_of_steps_is_unknown_where_they_are_out_of_order() {
    let (mut steps, events) = six_steps();
    steps.reverse();
    let manifest =
        r#"{"status": "completed", "summary": {"stop_reason": "final", "final_result": "x"}}"#;
    let index = index(&steps, &events, manifest);
    let run = told(&index);
    assert_eq!(
        run.verdict.certainty,
        crate::model::Certainty::Inferred,
        "{:?}",
        run.verdict
    );
    assert_eq!(
        (run.verdict.step, run.steps_known()),
        (Some(0), Some(6)),
        "the step with the last id"
    );
    assert!(
        run.verdict.sentence.contains("step 5"),
        "{}",
        run.verdict.sentence
    );
    assert!(record(&index, &Gone, Depth::Heads).disordered);
    // A repeated id begins no second run if events record one run.
    let (mut steps, events) = six_steps();
    steps.insert(4, steps[3].replace("\"a\"", "\"b\""));
    let twice = told(&self::index(&steps, &events, "{}"));
    assert_eq!((twice.steps_known(), twice.verdict.step), (None, None));
    assert!(
        twice
            .verdict
            .contradictions
            .iter()
            .any(|said| said.contains("Step 3 occurs twice"))
    );
}

#[test]
fn a_run_that_ended_without_an_answer_says_that_its_context_was_nearly_full() {
    let manifest = r#"{"status": "completed", "model_id": "claude-sonnet-4-5-20250929"}"#;
    let evidence = |inputs: &[u64]| {
        let steps: Vec<String> = (0..)
            .zip(inputs)
            .map(|(id, input)| {
                let usage = r#", "context": {"output_tokens": 5, "input_tokens_total": "#;
                step(id, &format!("{usage}{input}}}"))
            })
            .collect();
        let index = index(&steps, &[], manifest);
        let summary = told(&index).priced(&Arc::new(Prices::default().with_list()));
        let all = crate::analysis::why::why(&summary, &index, &Gone).evidence;
        all.into_iter()
            .find(|one| one.text.starts_with("Context"))
            .map(|one| (one.text, one.step))
    };
    assert_eq!(
        evidence(&[1_000, 184_000, 3_000]),
        Some((
            "Context 92% full at step 1: 184k of 200k tokens, window from the price list"
                .to_owned(),
            Some(1)
        ))
    );
    assert_eq!(evidence(&[1_000, 120_000]), None, "not nearly full");
    assert_eq!(evidence(&[184_000, 1, 1, 1]), None, "long before the end");
}

#[test]
fn failed_steps_are_kept_by_message_with_what_happened_next() {
    let step = |id: usize, tool: &str, error: &str| {
        let result = match error {
            "" => r#"{"status": "success", "output": "fine"}"#.to_owned(),
            error => format!(r#"{{"status": "error", "error": "{error}"}}"#),
        };
        format!(
            r#"{{"step_id": {id}, "decision": {{"mode": "act"}}, "actions": [{{"name": "{tool}", "args": {{"path": "{tool}"}}}}], "action_results": [{result}]}}"#
        )
    };
    let steps = [
        step(0, "look", "no file '/a/b.txt'"),
        step(1, "look", "no file '/c.txt'"),
        step(2, "look", ""),
        step(3, "run", "exit code 3"),
        step(4, "look", "exit code 4"),
    ];
    let run = told(&index(
        &steps,
        &[],
        r#"{"run_id": "r", "status": "completed"}"#,
    ));
    let rows: Vec<_> = run
        .failures
        .iter()
        .map(|one| {
            (
                &*one.tool,
                &*one.message,
                one.steps,
                one.first_step(),
                one.last_step(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("look", "no file ‹path›", 2, Some(0), Some(1)),
            ("run", "exit code 3", 1, Some(3), Some(3)),
            ("look", "exit code 4", 1, Some(4), Some(4)),
        ]
    );
    // Same call again: failed once, worked once. Then another tool, then nothing.
    let next: Vec<_> = run.failures.iter().map(|one| one.next).collect();
    assert_eq!(
        next,
        [[1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1]]
    );
    assert_eq!((run.errors, run.failures_left_out), (4, 0));
}

#[test]
fn a_run_keeps_its_first_messages_and_counts_the_other_steps() {
    let steps: Vec<String> = (0..100)
        .map(|id| {
            let name: String = format!("{id:03}").bytes().map(|byte| char::from(byte + 49)).collect();
            format!(
                r#"{{"step_id": {id}, "decision": {{"mode": "act"}}, "actions": [{{"name": "run", "args": {{}}}}], "action_results": [{{"status": "error", "error": "cause {name}"}}]}}"#
            )
        })
        .collect();
    let run = told(&index(
        &steps,
        &[],
        r#"{"run_id": "r", "status": "completed"}"#,
    ));
    assert_eq!(
        (run.errors, run.failures.len(), run.failures_left_out),
        (100, 16, 84)
    );
}

#[test]
fn the_failure_that_ended_a_run_is_marked() {
    let steps = [r#"{"step_id": 0, "decision": {"mode": "act"}}"#.to_owned()];
    let events = [
        event(0, "DECIDE", "state_ready", "10:00:01"),
        event(1, "DECIDE", "state_ready", "10:00:02"),
        r#"{"step_id": 1, "phase": "DECIDE_ERROR", "ok": false, "ts": "2026-03-01T10:00:03+00:00", "error": "planner is empty after 3 s"}"#.to_owned(),
        r#"{"step_id": 1, "phase": "END", "ok": false, "ts": "2026-03-01T10:00:04+00:00", "payload": {"stop_reason": "unrecoverable_error"}}"#.to_owned(),
    ];
    let run = told(&index(
        &steps,
        &events,
        r#"{"run_id": "r", "status": "completed", "summary": {"stop_reason": "unrecoverable_error"}}"#,
    ));
    let rows: Vec<_> = run
        .failures
        .iter()
        .map(|one| (one.source.as_str(), &*one.message, one.steps, one.ended))
        .collect();
    assert_eq!(
        rows,
        [("model", "planner is empty after ‹time›", 1, true)],
        "{:?}",
        run.verdict
    );
}

/// The tool failed early with the message with which the run ended later.
#[test]
fn an_early_failure_with_the_message_of_the_end_did_not_end_the_run() {
    let step = |id: usize, result: &str| {
        format!(
            r#"{{"step_id": {id}, "decision": {{"mode": "act"}}, "actions": [{{"name": "run", "args": {{}}}}], "action_results": [{result}]}}"#
        )
    };
    let failed = r#"{"status": "error", "error": "no space left"}"#;
    let worked = r#"{"status": "success", "output": "fine"}"#;
    let manifest = r#"{"run_id": "r", "status": "failed", "summary": {"stop_reason": "unrecoverable_error", "failure_report": {"failures": [{"category": "system_error", "message": "no space left"}]}}}"#;
    let rows = |steps: &[String]| -> Vec<_> {
        let run = told(&index(steps, &[], manifest));
        let row = |one: &RunFailure| (one.source.as_str(), one.steps, one.ended);
        run.failures.iter().map(row).collect()
    };
    assert_eq!(
        rows(&[step(0, failed), step(1, worked)]),
        [("tool", 1, false), ("run", 0, true)]
    );
    assert_eq!(
        rows(&[step(0, worked), step(1, failed)]),
        [("tool", 1, true)]
    );
}

#[test]
fn a_copied_step_of_a_child_run_is_left_out_once() {
    let mut names = Names::default();
    let agent = names.intern("child");
    let steps = (0..3).map(|id| StepHead {
        step_id: Some(id),
        error: Some("no".into()),
        is_nested: id < 2,
        agent: if id < 2 { agent } else { Symbol::default() },
        ..StepHead::default()
    });
    let mut index = Index::default();
    index.apply(Delta {
        steps: steps.collect(),
        names: names.since(0).to_vec(),
        ..Delta::default()
    });
    let numbers = |run: &Summary| {
        let failed: u32 = run.failures.iter().map(|one| one.steps).sum();
        (run.steps, run.errors, failed)
    };
    let run = told(&index);
    assert_eq!(numbers(&run), (3, 3, 3));
    let run = run.without_copied(&index, 1, &[]);
    assert_eq!(numbers(&run), (2, 2, 2));
    let children = SeparateChildren {
        ids: vec!["child".to_owned()],
        ..SeparateChildren::default()
    };
    let run = run.without_children(&index, &children);
    assert_eq!(numbers(&run), (1, 1, 1));
}

#[test]
fn call_times_are_recorded_or_those_of_a_steps_only_call_and_copied_steps_have_none() {
    let call = |id: i64, invocations: &str| {
        format!(
            r#"{{"step_id": {id}, "decision": {{"mode": "act", "actions": [{{"name": "a"}}, {{"name": "b"}}]}}, "tool_invocations": [{invocations}]}}"#
        )
    };
    let recorded = |a: f64, b: f64| {
        format!(
            r#"{{"tool_name": "a", "latency_ms": {a}, "status": "success"}}, {{"tool_name": "b", "latency_ms": {b}, "status": "success"}}"#
        )
    };
    let steps = [
        call(0, &recorded(5.0, 70.0)),
        call(1, &recorded(5.0, 700.0)),
        call(
            2,
            r#"{"tool_name": "a"}, {"tool_name": "b", "status": "error"}"#,
        ),
    ];
    let times = |manifest: &str| {
        let run = told(&index(&steps, &[], manifest));
        assert!(run.life.liveness.is_over());
        let sums: Vec<_> = run
            .tool_sums
            .iter()
            .map(|sum| (sum.calls, sum.judged, sum.failed, sum.ms))
            .collect();
        (sums, serde_json::to_value(&run.call_times).unwrap())
    };
    let calls = |times: &serde_json::Value| {
        let calls = times.as_array().unwrap().iter();
        calls
            .map(|entry| (entry[0].as_u64().unwrap(), entry[2].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    let ended = r#"{"status": "completed", "summary": {"stop_reason": "final"}}"#;
    let (sums, classes) = times(ended);
    assert_eq!(calls(&classes), [(0, 2), (1, 1), (1, 1)]);
    // The third step has no times, and one of its calls failed.
    assert_eq!(sums, [(3, 3, 0, 10.0), (3, 3, 1, 770.0)]);
    let branch = r#"{"status": "completed", "summary": {"stop_reason": "final"}, "branched_from": {"steps": 1}}"#;
    let (sums, classes) = times(branch);
    assert_eq!(calls(&classes), [(0, 1), (1, 1)]);
    assert_eq!(sums, [(2, 2, 0, 5.0), (2, 2, 1, 700.0)]);
}

#[test]
fn each_failed_call_of_a_step_counts_with_its_own_message() {
    let failed = |error: &str| format!(r#"{{"status": "error", "error": "{error}"}}"#);
    let fine = r#"{"status": "success", "output": "fine"}"#;
    let step = |id: usize, tools: &[&str], results: &[String]| {
        let calls: Vec<String> = tools
            .iter()
            .map(|tool| format!(r#"{{"name": "{tool}", "args": {{"path": "{tool}"}}}}"#))
            .collect();
        format!(
            r#"{{"step_id": {id}, "decision": {{"mode": "act"}}, "actions": [{}], "action_results": [{}]}}"#,
            calls.join(", "),
            results.join(", ")
        )
    };
    let steps = [
        step(
            0,
            &["look", "run", "look", "look"],
            &[
                failed("no file '/a'"),
                failed("exit code 3"),
                fine.to_owned(),
                failed("no file '/b'"),
            ],
        ),
        step(
            1,
            &["run", "run"],
            &[failed("exit code 3"), failed("denied")],
        ),
        step(2, &["look"], &[fine.to_owned()]),
    ];
    let index = index(&steps, &[], r#"{"run_id": "r", "status": "completed"}"#);
    let run = told(&index);
    let rows: Vec<_> = run
        .failures
        .iter()
        .map(|one| (&*one.message, one.times, one.steps, one.steps_first))
        .collect();
    assert_eq!(
        rows,
        [
            ("no file ‹path›", 2, 1, 1),
            ("exit code 3", 2, 2, 1),
            ("denied", 1, 1, 0),
        ]
    );
    assert_eq!(run.tool_errors, Some(5));
    assert_eq!((run.errors, run.failures_left_out), (2, 0));
    // After each of these steps, the agent called the other tool or the same one.
    let next: Vec<u32> = run
        .failures
        .iter()
        .map(|one| one.next.iter().sum())
        .collect();
    assert_eq!(next, [1, 2, 1]);
}

/// A call may start runs in the background, which begin after its result. The next step's calls are
/// in a reply that came later.
#[test]
fn a_run_that_begins_before_a_reply_was_started_by_an_earlier_call() {
    let step = |id: usize, tool: &str| {
        format!(
            r#"{{"step_id": {id}, "decision": {{"mode": "act", "actions": [{{"name": "{tool}", "args": {{}}}}]}}}}"#
        )
    };
    let at = |first: &str, second: &str, time: &str| {
        let events = [
            event(0, "DECIDE", "decision_ready", "10:00:01"),
            event(0, "ACT", "start", "10:00:02"),
            event(1, "DECIDE", "state_ready", "10:00:03"),
            event(1, "DECIDE", "decision_ready", "10:00:05"),
            event(1, "ACT", "start", "10:00:06"),
            event(1, "END", "", "10:00:09"),
        ];
        let index = index(&[step(0, first), step(1, second)], &events, "");
        let time = crate::model::time::parse_ts(&format!("2026-03-01T{time}+00:00")).unwrap();
        crate::analysis::timing::Begins::of(&index).calling_at(&index, time.micros)
    };
    assert_eq!(at("delegate_task", "patch", "10:00:04"), Some(0));
    assert_eq!(
        at("delegate_task", "patch", "10:00:07"),
        Some(1),
        "after the reply"
    );
    assert_eq!(
        at("delegate_task", "task", "10:00:04"),
        Some(1),
        "it starts runs, too"
    );
    assert_eq!(at("read_file", "patch", "10:00:04"), Some(1));
    assert_eq!(
        at("delegate_task", "patch", "10:00:10"),
        None,
        "after the run"
    );
}
