//! Tests the mapping between rules and fields, and the text for each rule.

use std::path::Path;

use askama::Template as _;
use jiff::tz::TimeZone;

use crate::analysis::facts::tests::Files;
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::{Summary, summary};
use crate::analysis::whatif::RuleEffect;
use crate::model::RunKey;
use crate::page::tests::{Tag, tags};
use crate::page::whatif::answer::{against, words};
use crate::page::whatif::form::Field;
use crate::page::whatif::*;
use crate::stop::{Input, RULES};

struct Run {
    files: Files,
    summary: Summary,
}

impl Run {
    fn of(path: &str) -> Self {
        let files = Files::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
        let summary = summary(
            &RunKey::new("a/b"),
            path.to_owned(),
            &files.index,
            ExternalFacts::default(),
        );
        Self { files, summary }
    }

    fn ask(&self, rules: Option<&[&str]>) -> WhatIfBody<'_> {
        const ZONE: &TimeZone = &TimeZone::UTC;
        let view = RunView {
            summary: &self.summary,
            index: &self.files.index,
            lines: &self.files,
            now: 0,
            stale: None,
            related_runs: &Vec::new,
            zone: ZONE,
            editor: None,
            files: &|| Some(0),
        };
        whatif(
            Box::leak(Box::new(view)),
            rules.map(|rules| rules.iter().map(|rule| (*rule).to_owned()).collect()),
            None,
        )
        .unwrap()
    }
}

fn fields<'a>(body: &'a WhatIfBody<'_>) -> Vec<&'a Field> {
    body.form
        .groups
        .iter()
        .flat_map(|group| &group.fields)
        .collect()
}

/// Returns the fields a browser would submit.
fn sent(html: &str) -> Vec<(String, String)> {
    let value = |tag: &Tag| match tag.get("type") {
        Some("checkbox") => tag.get("checked").map(|_| "on".to_owned()),
        _ => Some(tag.get("value").unwrap_or_default().to_owned()),
    };
    let inputs = tags(html).into_iter().filter(|tag| tag.name == "input");
    inputs
        .filter_map(|tag| Some((tag.get("name")?.to_owned(), value(&tag)?)))
        .collect()
}

fn rules_of(body: &WhatIfBody<'_>) -> Vec<String> {
    let mut pairs = sent(&body.form.render().unwrap());
    pairs.push(("other".to_owned(), body.form.other.clone()));
    from_form(
        &pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    )
    .expect("it is the form")
}

#[test]
fn every_rule_goes_through_the_form_and_comes_back() {
    let run = Run::of("sample_runs/fix_bug");
    let rules = [
        "max_steps=10",
        "max_rounds=9",
        "token_budget=4000",
        "max_runtime=30",
        "timeout=20",
        "stagnation=3",
        "loop_detection=2",
        "consecutive_errors=2",
        "final_result",
        "structured_output",
        "keyword=a\"<b>=c",
        "content_match=(?i)do ne",
        "stop_on_tool=write",
        "critic_below=tests:0.25:2",
        "critic_below=style:0.5",
        // These have no field.
        "max_steps=12",
        "critic_below=Nobody:0.5",
        "max_rounds=",
        r#"{"type":"structured_output","fenced":true}"#,
        r#"{"type":"any_of","of":[{"type":"max_steps","steps":3}]}"#,
        // Invalid rules are kept too.
        "max_step=4",
        "content_match=(",
    ];
    let body = run.ask(Some(&rules));
    assert_eq!(rules_of(&body), rules);
    assert_eq!(body.form.other.lines().count(), 7);
    assert_eq!(
        rules_of(&run.ask(Some(&[]))),
        [""; 0],
        "an empty form asks nothing"
    );
    assert_eq!(
        from_form(&[("rule", "max_steps=1"), ("x", "y")].into_iter()),
        None,
        "not a form"
    );
    let both = from_form(&[("rule", "max_steps=1"), ("max_rounds", " 2")].into_iter());
    assert_eq!(
        both,
        Some(vec!["max_steps=1".to_owned(), "max_rounds= 2".to_owned()])
    );
}

#[test]
fn a_rule_of_several_lines_is_kept_on_one() {
    let run = Run::of("sample_runs/fix_bug");
    let body = run.ask(Some(&[
        "{\"type\":\n\"max_steps\",\"steps\":8}",
        "keyword=a\nb",
        "max_steps=1\n2",
    ]));
    let json = r#"{"type":"max_steps","steps":8}"#;
    assert_eq!(
        body.form.other,
        format!("{json}\n{{\"type\":\"keyword\",\"keyword\":\"a\\nb\"}}\nmax_steps=1 2")
    );
}

#[test]
fn a_bad_rule_stands_beside_its_field_and_the_others_are_answered() {
    let run = Run::of("sample_runs/fix_bug");
    let rules = [
        "max_steps=-4",
        "critic_below=style:low",
        "max_rounds=5",
        "nonsense",
        "structured_output=s.json",
    ];
    let body = run.ask(Some(&rules));
    let wrong: Vec<_> = fields(&body)
        .into_iter()
        .filter_map(|field| Some((&*field.name, field.wrong.as_ref()?)))
        .collect();
    assert_eq!(
        wrong
            .iter()
            .map(|(name, wrong)| (*name, wrong.example))
            .collect::<Vec<_>>(),
        [
            ("max_steps", "max_steps=8"),
            ("below:style", "critic_below=tests:0.5:2"),
        ]
    );
    let other: Vec<_> = body
        .form
        .other_wrong
        .iter()
        .map(|wrong| (wrong.text.as_str(), wrong.why.as_str()))
        .collect();
    assert_eq!(other[0].0, "nonsense");
    assert!(
        other[1]
            .1
            .starts_with("schemas can't be read from files here"),
        "{other:?}"
    );
    let html = body.render().unwrap();
    let tags = tags(&html);
    assert_eq!(
        tags.iter()
            .filter(|tag| tag.get("role") == Some("alert"))
            .count(),
        3
    );
    assert_eq!(
        tags.iter()
            .filter(|tag| tag.get("aria-invalid") == Some("true"))
            .count(),
        3
    );
    let kept = tags
        .iter()
        .find(|tag| tag.get("name") == Some("max_steps"))
        .unwrap();
    assert_eq!(
        kept.get("value"),
        Some("-4"),
        "the field holds what was typed"
    );
    assert!(
        rows(&body.answer)
            .iter()
            .any(|row| row.starts_with("Round limit|5|step 4|earlier"))
    );
}

fn rows(answer: &RulesAnswer<'_>) -> Vec<String> {
    let text = |phrase: &crate::page::part::sign::Phrase| {
        let html = phrase.to_string();
        html.split(['<', '>']).step_by(2).collect::<String>()
    };
    let row = |(_, of, own): (bool, &RuleEffect, &str)| {
        let (result, (name, limit)) = (&of.result, words(&of.rule));
        let (steps, tokens, _) = answer.saved(result);
        let (at, against) = (text(&answer.at(result)), against(result).text);
        let (kept, why) = (text(&answer.answer(result)), answer.why(of));
        format!("{name}|{limit}|{at}|{against}|{steps}|{tokens}|{kept}|{own}|{why}")
    };
    answer.rows().into_iter().map(row).collect()
}

#[test]
fn rows_of_our_own_run_stand_by_step_with_the_recorded_ones() {
    let run = Run::of("sample_runs/budget_tokens");
    let body = run.ask(Some(&[
        "max_steps=3",
        "token_budget=9000",
        "max_rounds=0",
        "critic_below=nobody:0.5",
        "token_budget=1",
    ]));
    let shown_rows = rows(&body.answer);
    assert_eq!(
        shown_rows,
        [
            "Token limit|1|step 0|earlier|4|5,302|none||396 tokens, limit 1",
            "Step limit|3|step 2|earlier|2|3,351|none||3 steps, limit 3",
            "Token limit|4,000|step 4|same|0|0|–|ended the run|5,698 tokens, limit 4,000",
            "Token limit|9,000|–|not reached|–|–|–||",
            "Step limit|20|–|not reached|–|–|–|as recorded|",
            "Low score|nobody < 0.5|–|unknown|–|–|unknown||unknown from step 0: a score from the critic nobody isn't recorded",
            "Round limit|0|–|off|–|–|–||disabled (0)",
        ]
    );
    let hits: Vec<bool> = body
        .answer
        .rows()
        .iter()
        .map(|(is_hit, ..)| *is_hit)
        .collect();
    assert_eq!(hits, [true, false, false, false, false, false, false]);
    assert_eq!(
        body.answer.report.headline.to_string(),
        "token_budget=1 would have stopped the run at step 0 instead of step 4, saving 4 steps \
        and 5,302 tokens. There was no answer to lose."
    );
}

#[test]
fn an_asked_rule_that_is_the_runs_own_stands_once() {
    let run = Run::of("sample_runs/stagnation");
    let own = rows(&run.ask(Some(&[])).answer);
    let own = own
        .iter()
        .find(|row| row.contains("ended the run"))
        .expect("a rule ended it");
    assert!(own.starts_with("State unchanged|4|"), "{own}");
    let requested = rows(&run.ask(Some(&["stagnation=4"])).answer);
    assert_eq!(
        requested
            .iter()
            .filter(|row| row.starts_with("State unchanged|4|"))
            .collect::<Vec<_>>(),
        [own]
    );
}

#[test]
fn without_rules_a_few_near_the_record_are_asked() {
    let run = Run::of("sample_runs/fix_bug");
    let body = run.ask(None);
    assert!(!body.form.note.is_empty());
    let filled: Vec<_> = fields(&body)
        .iter()
        .map(|field| (field.name.as_str(), field.value.as_str()))
        .collect();
    assert!(
        filled.contains(&("max_steps", "8")),
        "three quarters of 11: {filled:?}"
    );
    assert!(filled.contains(&("max_rounds", "")), "{filled:?}");
    let rounds = fields(&body)
        .into_iter()
        .find(|field| field.name == "max_rounds")
        .unwrap();
    assert_eq!(rounds.placeholder.as_str(), "8");
    assert!(rows(&body.answer).iter().any(|row| {
        row.starts_with("Recorded end|–|step 10|same|0|0|–|ended the run|recorded as \"final\"")
    }));
}

#[test]
fn what_to_keep_in_mind_is_said() {
    let noted = |run: &str, rule| Run::of(run).ask(Some(&[rule])).answer.notes();
    let notes = |run: &str| noted(run, "max_steps=90");
    let past = "What the run would have done after its recorded end is unknown.";
    assert_eq!(notes("sample_runs/fix_bug"), [past]);
    let killed = notes("tests/corpus/q060/q060_sigkill");
    assert!(
        killed[0].starts_with("No recorded rule ended the run. Its verdict: Died in step 4"),
        "{killed:?}"
    );
    assert_eq!(killed[1], past);
    let inferred = |notes: &[String]| -> Vec<String> {
        let inferred = notes
            .iter()
            .filter_map(|note| note.strip_prefix("Inferred: "));
        inferred
            .map(|note| note.chars().take(11).collect())
            .collect()
    };
    // Only inferences on which a tried rule or the saved time depends are noted.
    assert_eq!(inferred(&killed), [""; 0]);
    for (rule, note) in [
        ("max_runtime=60", "times come "),
        ("stagnation=9", "the state c"),
        ("consecutive_errors=9", "a step coun"),
    ] {
        let killed = noted("tests/corpus/q060/q060_sigkill", rule);
        assert_eq!(inferred(&killed), [note], "{rule}");
    }
    // This rule saves 35 ms, as measured by the events' clock.
    let saved = noted("tests/corpus/q060/q060_handoff", "max_steps=1");
    assert_eq!(inferred(&saved), ["times come "]);
}

#[test]
fn a_run_whose_lines_are_missing_is_not_said_to_have_no_steps() {
    let run = Run::of("tests/corpus/emulated/emulated_q060_steps_missing");
    let body = run.ask(None);
    assert_eq!(
        body.answer.report.headline.to_string(),
        "6 steps have no line in steps.jsonl, so rules can't be evaluated."
    );
    assert!(
        rows(&body.answer)
            .iter()
            .all(|row| row.contains("|unknown|") || row.contains("|off|")),
        "{:#?}",
        rows(&body.answer)
    );
}

#[test]
fn every_rule_with_a_field_has_one() {
    let run = Run::of("sample_runs/fix_bug");
    let body = run.ask(None);
    let fields = fields(&body);
    for row in RULES {
        let Some(field) = row.field.filter(|field| field.input != Input::Score) else {
            continue;
        };
        let shown: Vec<_> = fields
            .iter()
            .filter(|shown| shown.name == row.name)
            .collect();
        let [shown] = *shown else {
            panic!("{}: {} fields", row.name, shown.len())
        };
        assert_eq!(
            (shown.label.as_str(), shown.kind, shown.unit),
            (row.label, field.input, field.unit)
        );
    }
    let critics = fields
        .iter()
        .filter(|field| field.kind == Input::Score || field.row.is_some());
    assert!(critics.count() > 0, "the critics of the run have fields");
}
