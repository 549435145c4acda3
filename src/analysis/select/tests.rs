use std::sync::Arc;

use super::sample::{many, run};
use thin_vec::thin_vec;

use super::*;
use crate::analysis::columns::{COLUMNS, MODEL, STATUS, STOP};
use crate::analysis::life::ExternalFacts;
use crate::analysis::run_result::ShownStatus;
use crate::analysis::summary::summary;
use crate::analysis::verdict::RunStatus;
use crate::model::index::FileState;
use crate::model::manifest::ManifestState;
use crate::model::stated::Source;
use crate::model::{
    Delta, EventHead, EventKind, EventNote, Fact, Index, Manifest, Names, RunKey, Statement,
};

fn shared(runs: Vec<Summary>) -> Vec<Arc<Summary>> {
    runs.into_iter().map(Arc::new).collect()
}

fn keys(rows: &[&Arc<Summary>]) -> Vec<String> {
    rows.iter().map(|run| run.key.to_string()).collect()
}

fn found(all: &[Summary], query: &str) -> Vec<String> {
    let query = Query::parse(query);
    assert_eq!(query.ignored, []);
    all.iter()
        .filter(|run| query.matches(*run))
        .map(|run| run.key.to_string())
        .collect()
}

fn five() -> Vec<Summary> {
    let mut runs = vec![
        run("a/answered", RunStatus::Answered, Some("final")),
        run("b/limit", RunStatus::Limit, Some("budget_steps")),
        run("c/rule", RunStatus::Stopped, Some("env_terminal")),
        run("d/died", RunStatus::Died, None),
        run("e/now", RunStatus::Running, None),
    ];
    runs[0].model = Some("Qwen/Qwen3-8B".into());
    runs[0].task = Some("Fix calc.py by plan".into());
    runs[0].answer = Some("two files changed".into());
    runs[0].last_score = Some(0.25);
    runs[1].tools = thin_vec!["read_file".into(), "run_python".into()];
    runs[1].critics = thin_vec!["SafetyCritic".into()];
    runs[1].changed = thin_vec!["plan".into()];
    runs[1].agents = thin_vec!["lead".into()];
    runs[2].errors = 1;
    runs[2].tokens = Some(12_500);
    runs[2].cost_usd = Some(0.0042);
    runs[2].issues = (3, 1);
    runs
}

#[test]
fn a_query_sees_a_run() {
    let all = five();
    for (query, keys) in [
        ("status:answered", "a"),
        ("status:limit,died", "b d"),
        ("status:\"own rule\"", "c"),
        ("status:stopped", "c"),
        // The word that earlier versions showed.
        ("status:own_rule", "c"),
        ("status:\"own rule\"", "c"),
        ("status:completed", "a b c"),
        ("stop:none", "d e"),
        ("stop:final", "a"),
        ("outcome:truncated", "b"),
        ("class:failed", "d"),
        ("liveness:finished", "a b c"),
        ("model:qwen", "a"),
        ("model=\"not recorded\"", "b c d e"),
        ("task:calc", "a"),
        ("tool:python", "b"),
        ("critic:safety", "b"),
        ("agent:lead", "b"),
        ("state.plan changed", "b"),
        ("err:true", "c d"),
        ("err:false", "a b e"),
        ("score<0.3", "a"),
        ("tokens>10k", "c"),
        ("cost>0.004", "c"),
        ("-cost>0", "a b d e"),
        ("duration:1m..2m", "a b c d e"),
        ("steps:6 events=80", "a b c d e"),
        ("issues>0", "c"),
        ("problems:1 run:rule", "c"),
        ("partial:true", ""),
        (
            "certainty:recorded,inferred,unknown updated:1970-01-12",
            "a b c d e",
        ),
        ("max_steps:40 -parent:x", "a b c d e"),
        ("\"files changed\"", "a"),
        ("no reason", "d e"),
        ("-died -now", "a b c"),
    ] {
        let first = found(&all, query)
            .iter()
            .map(|key| key[..1].to_owned())
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(first, keys, "{query}");
    }
}

#[test]
fn a_query_for_a_title_finds_the_one_that_lists_show() {
    let mut all = five();
    all[1].titles = thin_vec!["Mend the cart".to_owned()];
    assert_eq!(found(&all, "title:calc"), ["a/answered"]);
    assert_eq!(found(&all, "title:mend"), ["b/limit"]);
    assert_eq!(found(&all, "title=died"), ["d/died"]);
    assert_eq!(found(&all, "title:none"), Vec::<String>::new());
}

#[test]
fn a_manifest_that_says_running_proves_nothing() {
    let all = five();
    assert_eq!(all[3].status.as_deref(), Some("running"));
    assert_eq!(found(&all, "status:running"), ["e/now"]);
}

#[test]
fn a_run_that_is_still_read_has_no_verdict_yet() {
    let mut all = five();
    all[3].partial = true;
    assert_eq!(found(&all, "status:died"), [""; 0]);
    assert_eq!(found(&all, "status:indexing"), ["d/died"]);
    assert_eq!(found(&all, "err:true"), ["c/rule"]);
    assert_eq!(found(&all, "err:false"), ["a/answered", "b/limit", "e/now"]);
    let survey = survey(&shared(all), &Query::default());
    assert_eq!(survey.facets.marks.values().sum::<usize>(), 4);
    assert_eq!(survey.facets.indexing, 1);
    assert_eq!(survey.facets.marks.get(&ShownStatus::Died), None);
}

#[test]
fn windows_follow_each_other_in_every_order() {
    let all = shared(many(237));
    for by in COLUMNS.iter().filter(|column| column.is_sortable()) {
        for reversed in [false, true] {
            let sort = Sort { by, reversed };
            let whole = select(&all, &Query::default(), sort, usize::MAX, None);
            assert_eq!(
                (whole.matched, whole.rows.len(), whole.next),
                (237, 237, None)
            );
            let (mut pieces, mut after) = (Vec::new(), None);
            loop {
                let window = select(&all, &Query::default(), sort, 50, after.as_deref());
                assert_eq!(
                    (window.before, window.after_ignored),
                    (pieces.len(), false),
                    "{sort}"
                );
                pieces.extend(keys(&window.rows));
                after = window.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(pieces, keys(&whole.rows), "{sort}");
        }
    }
}

#[test]
fn a_window_goes_on_where_the_one_before_ended_whatever_happened_meanwhile() {
    let mut runs = many(100);
    let first = keys(
        &select(
            &shared(runs.clone()),
            &Query::default(),
            Sort::default(),
            40,
            None,
        )
        .rows,
    );
    let next = select(
        &shared(runs.clone()),
        &Query::default(),
        Sort::default(),
        40,
        None,
    )
    .next
    .unwrap();
    let rest = keys(
        &select(
            &shared(runs.clone()),
            &Query::default(),
            Sort::default(),
            99,
            Some(&next),
        )
        .rows,
    );
    // The last row shown is removed, the first grows, a new one is added.
    runs.retain(|run| run.key.as_str() != first[39]);
    runs.iter_mut()
        .find(|run| run.key.as_str() == first[20])
        .unwrap()
        .updated = Some(i64::MAX / 4);
    runs.push(Summary {
        updated: Some(i64::MAX / 4),
        ..run("new", RunStatus::Running, None)
    });
    let later = select(
        &shared(runs),
        &Query::default(),
        Sort::default(),
        99,
        Some(&next),
    )
    .rows
    .len();
    assert_eq!((rest.len(), later), (60, 60));
}

#[test]
fn cursors_carry_any_text_and_refuse_what_they_are_not() {
    for (model, key) in [
        ("llama3:8b", "a:b"),
        ("100%3A", "%"),
        ("", ""),
        ("ä:%25", "\u{202e}x"),
    ] {
        let mut first = run(key, RunStatus::Answered, None);
        first.model = Some(model.into());
        let mut second = run(&format!("{key}~"), RunStatus::Answered, None);
        second.model = Some(format!("{model}~").into());
        let all = shared(vec![first, second]);
        let sort = "model".parse().unwrap();
        let window = select(&all, &Query::default(), sort, 1, None);
        let next = select(&all, &Query::default(), sort, 1, window.next.as_deref());
        assert_eq!(
            (window.rows.len(), next.rows.len(), next.next),
            (1, 1, None)
        );
        assert_ne!(window.rows, next.rows, "{model}");
    }
    let all = shared(many(5));
    for junk in ["", "x", "x:y", "NaN:y"] {
        let window = select(&all, &Query::default(), Sort::default(), 3, Some(junk));
        assert!(
            window.after_ignored && window.before == 0 && window.rows.len() == 3,
            "{junk}"
        );
    }
    assert_eq!(
        select(&all, &Query::default(), Sort::default(), 0, None)
            .rows
            .len(),
        1,
        "a window is never empty"
    );
}

#[test]
fn unknown_values_come_last_and_ties_go_by_key() {
    let mut runs: Vec<_> = ["c", "a", "d", "b"]
        .map(|key| run(key, RunStatus::Answered, None))
        .into();
    runs[0].last_score = Some(0.5);
    runs[1].last_score = Some(0.5);
    runs[2].last_score = Some(f64::NAN);
    let all = shared(runs);
    for sort in ["score", "-score"] {
        let rows = select(&all, &Query::default(), sort.parse().unwrap(), 9, None).rows;
        assert_eq!(keys(&rows), ["a", "c", "b", "d"]);
    }
}

#[test]
fn a_filter_counts_what_it_would_show() {
    let mut all = many(700);
    for (n, run) in all.iter_mut().enumerate() {
        run.success = [None, Some(true), Some(false)][n % 3];
    }
    let all = shared(all);
    for text in [
        "",
        "status:answered",
        "status:died",
        "stop:final,none steps>20",
        "model=model-3 -status:limit calc",
        "nothing",
    ] {
        let query = Query::parse(text);
        let survey = survey(&all, &query);
        assert_eq!(
            survey.matched,
            select(&all, &query, Sort::default(), 1, None).matched
        );
        let marks = survey
            .facets
            .marks
            .iter()
            .map(|(status, count)| (STATUS, status.as_str().to_owned(), *count));
        let stops = survey
            .facets
            .stops
            .iter()
            .map(|(word, count)| (STOP, word.clone(), *count));
        let models = survey
            .facets
            .models
            .iter()
            .map(|(word, count)| (MODEL, word.clone(), *count));
        for (field, word, count) in marks.chain(stops).chain(models) {
            let shown = Query::parse(&query.without_field(field).toggled(field, &word));
            assert_eq!(
                select(&all, &shown, Sort::default(), 1, None).matched,
                count,
                "{text}: {word}"
            );
        }
    }
}

#[test]
fn spellings_that_a_query_takes_for_one_are_counted_as_one() {
    let mut runs = five();
    runs[1].model = Some("QWEN/qwen3-8b".into());
    runs[2].model = Some("Qwen/Qwen3-8B".into());
    let models = survey(&shared(runs), &Query::default()).facets.models;
    assert_eq!(
        models,
        [
            ("Qwen/Qwen3-8B".to_owned(), 3),
            ("not recorded".to_owned(), 2)
        ]
    );
}

#[test]
fn totals_leave_out_what_is_not_recorded() {
    let mut runs = five();
    runs.push(run("f", RunStatus::Answered, Some("final")));
    runs[5].verdict.contradictions = ["The status is failed".to_owned()].into();
    runs[1].verdict.sentence = "Stopped by a rule: but success is recorded as false".into();
    runs[0].duration_ms = None;
    (runs[0].cost_usd, runs[1].cost_usd) = (Some(0.25), Some(0.75));
    runs[2].cost_usd = None;
    runs[2].tokens_estimated = runs[2].tokens.is_some();
    let known: Vec<u64> = runs.iter().filter_map(|run| run.tokens).collect();
    let estimated = runs.iter().filter(|run| run.tokens_estimated).count();
    let survey = survey(&shared(runs), &Query::default());
    assert_eq!(survey.contradicted, 1);
    let (tokens, cost, duration) = (survey.tokens, survey.cost, survey.duration);
    assert_eq!(
        (tokens.sum.known, tokens.sum.amount, tokens.estimated),
        (known.len(), known.iter().sum::<u64>() as f64, estimated)
    );
    assert_eq!(
        (cost.sum.known, cost.sum.amount, cost.median, cost.estimated),
        (2, 1.0, Some(0.5), 0)
    );
    assert_eq!(
        (duration.sum.known, duration.median),
        (5, Some(90_500.0)),
        "a run without a duration took some time, not none"
    );
}

#[test]
fn a_median_between_two_is_their_mean() {
    let mut runs = five();
    runs.truncate(4);
    for (run, ms) in runs.iter_mut().zip([9.0, 1.0, 4.0, 3.0]) {
        run.duration_ms = Some(ms);
    }
    assert_eq!(
        survey(&shared(runs), &Query::default()).duration.median,
        Some(3.5)
    );
    assert_eq!(
        survey::<Arc<Summary>>(&[], &Query::default()),
        Survey::default()
    );
}

#[test]
fn a_contradiction_is_counted_that_the_verdict_lists() {
    let manifest = Manifest {
        status: Some("completed".into()),
        stop_reason: Some("final".into()),
        success: Some(false),
        statements: vec![Statement::text(
            Fact::End,
            "final",
            Source::manifest("/summary/stop_reason"),
        )],
        ..Manifest::default()
    };
    let mut index = Index::default();
    index.apply(Delta {
        manifest: Some(ManifestState::Read(Box::new(manifest))),
        ..Delta::default()
    });
    let run = summary(&RunKey::new("x"), "x", &index, ExternalFacts::default());
    assert_eq!(survey(&[Arc::new(run)], &Query::default()).contradicted, 1);
}

/// Builds an index of two steps with events: the first reads a file and is criticized, the second
/// fails.
fn index() -> Index {
    let mut names = Names::default();
    let mut delta = Delta::default();
    let lines: [&str; 2] = [
        r#"{"step_id": 0, "agent_id": "lead", "decision": {"mode": "act", "actions": [{"name": "read_file", "args": {"path": "a.py"}}, {"name": "run_tests", "args": {}}]},
        "critic_outputs": [{"action": "retry", "reason": "too vague", "score": 0.2, "critic_name": "Safety"}, {"score": 0.9}],
        "state_diff": {"plan": {"before": 1, "after": 2}}, "context": {"input_tokens_total": 10, "output_tokens": 2}}"#,
        r#"{"step_id": 1, "decision": {"mode": "final", "final_answer": "done"}, "action_results": [{"status": "error", "error": "no such file"}]}"#,
    ];
    for line in lines {
        delta
            .steps
            .push(crate::format::step_head(line.as_bytes(), &mut names).0);
    }
    for (step, second) in [(0, 0), (0, 3), (1, 4), (1, 100)] {
        let phase = names.intern("DECIDE");
        let head = EventHead {
            phase,
            kind: EventKind::Deciding,
            step_id: Some(step),
            ts: Some(second * 1_000_000),
            ok: true,
            ..EventHead::default()
        };
        delta.events.push((
            head,
            (second == 100).then(|| EventNote::Error("disk full".into())),
        ));
    }
    delta.names = names.since(0).to_vec();
    delta.steps_file = FileState {
        exists: true,
        ..FileState::default()
    };
    let mut index = Index::default();
    index.apply(delta);
    index
}

#[test]
fn a_query_sees_a_step() {
    let index = index();
    for (query, steps) in [
        ("", "0 1"),
        ("status:act", "0"),
        ("tool:tests", "0"),
        ("run_tests", "0"),
        ("a.py", "0"),
        ("vague", "0"),
        ("agent:lead", "0"),
        ("critic:safety", "0"),
        ("critic:retry", "0"),
        ("critic:stop", ""),
        ("score<0.3", "0"),
        ("score>0.8", "0"),
        ("tokens:12", "0"),
        ("duration<10", "0"),
        ("duration>1m", "1"),
        ("events:2", "0 1"),
        ("steps:1..", "1"),
        ("err:true", "1"),
        ("err:false", "0"),
        ("\"no such file\"", "1"),
        ("\"disk full\"", "1"),
        ("answer", "1"),
        ("state.plan changed", "0"),
        ("-state.plan changed", "1"),
        ("stop:final", ""),
    ] {
        let query = Query::parse(query);
        let found: Vec<_> = matching_steps(&index, &query)
            .map(|ordinal| ordinal.to_string())
            .collect();
        assert_eq!(found.join(" "), steps, "{query}");
    }
    assert!(StepSubject::new(&index, 2).is_none());
}
