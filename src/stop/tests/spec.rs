//! Edge case 26: the syntax of rules, and the meaning of their codes for other tools.

use serde_json::json;

use crate::analysis::rule_replay::survey;
use crate::model::StopReason;

use super::*;

#[test]
fn case_26_the_forms_of_awaken_parse_unchanged_and_come_back() {
    for form in [
        json!({"type": "max_rounds", "rounds": 3}),
        json!({"type": "timeout", "seconds": 60}),
        json!({"type": "token_budget", "max_total": 1000}),
        json!({"type": "consecutive_errors", "max": 4_294_967_296_u64}),
        json!({"type": "stop_on_tool", "tool_name": "finish"}),
        json!({"type": "content_match", "pattern": "(?i)done"}),
        json!({"type": "loop_detection", "window": 3}),
    ] {
        let spec: StopSpec = serde_json::from_value(form.clone()).expect("it parses");
        assert_eq!(serde_json::to_value(spec).expect("it can be written"), form);
    }
    let potato: StopSpec = r#"{"type":"max_iterations","max":5}"#.parse().expect("an alias");
    assert_eq!(potato, StopSpec::from(MaxSteps { steps: 5 }));
}

#[test]
fn case_26_what_is_not_a_rule_is_refused() {
    for form in [
        r#"{"type":"max_rounds","rounds":3,"extra":1}"#,
        r#"{"type":"max_rounds","rounds":-1}"#,
        r#"{"type":"max_rounds"}"#,
        r#"{"type":"MaxRounds","rounds":3}"#,
        r#"{"rounds":3}"#,
        r#"{"type":"sunset","at":3}"#,
        r#"{"type":"timeout","seconds":1.5}"#,
        r#"{"type":"final_result","extra":1}"#,
        r#"{"type":"critic_below","critic":"a"}"#,
    ] {
        assert!(form.parse::<StopSpec>().is_err(), "{form}");
    }
    let wrong = serde_json::from_str::<StopRules>(r#"{"policies":[{"type":"sunset"}]}"#)
        .expect_err("unknown");
    assert!(
        wrong.to_string().contains("unknown rule `sunset`"),
        "the rule is named: {wrong}"
    );
}

#[test]
fn the_short_forms_parse() {
    for row in RULES {
        row.example
            .parse::<StopSpec>()
            .unwrap_or_else(|wrong| panic!("{}: {wrong}", row.example));
    }
    for (text, critic, score, steps) in [
        ("a:0.5", "a", 0.5, 1),
        ("a:0.5:3", "a", 0.5, 3),
        ("a:b:0.5", "a:b", 0.5, 1),
        ("a:-1:2", "a", -1.0, 2),
    ] {
        let spec: StopSpec = format!("critic_below={text}").parse().expect("it parses");
        assert_eq!(
            spec,
            StopSpec::from(CriticBelow {
                critic: critic.into(),
                score,
                steps
            })
        );
    }
    assert_eq!(
        "keyword=a=b".parse(),
        Ok(StopSpec::from(Keyword {
            keyword: "a=b".into()
        }))
    );
    let loaded = StopSpec::parse_with("structured_output=s.json", |file| {
        Ok(json!({ "file": file }))
    });
    assert_eq!(
        loaded,
        Ok(StopSpec::from(StructuredOutput {
            schema: Some(json!({"file": "s.json"})),
            fenced: false
        }))
    );
    for wrong in [
        "max_steps",
        "max_steps=-1",
        "max_steps=x",
        "keyword",
        "final_result=1",
        "critic_below=a",
        "critic_below=a:nan",
        r#"{"type":"critic_below","critic":"a","score":null}"#,
        r#"{"type":"critic_below","critic":"a","score":1e999}"#,
        "x=1",
        "structured_output=s.json",
    ] {
        assert!(wrong.parse::<StopSpec>().is_err(), "{wrong}");
    }
    for wrong in [
        "tests:NaN:2",
        "tests:inf:2",
        "tests:-inf",
        "a:b:nan:1",
        "tests:1e999:2",
    ] {
        let said = format!("critic_below={wrong}")
            .parse::<StopSpec>()
            .expect_err(wrong)
            .to_string();
        assert!(said.contains("needs a finite score"), "{wrong}: {said}");
    }
    let large: StopSpec = "critic_below=a:1e308".parse().expect("it parses");
    assert_eq!(large.to_string(), "critic_below=a:1e308");
    let unknown = "max_step=1"
        .parse::<StopSpec>()
        .expect_err("no such rule")
        .to_string();
    assert!(
        unknown.contains("max_steps"),
        "the names are listed: {unknown}"
    );
}

#[test]
fn a_file_of_rules_reads_short_and_writes_whole() {
    let file = r#"{"budget": {"steps": 8, "time_ms": {"limit": 500, "from": "task"}},
        "completion": [{"type": "final_result"}],
        "policies": [{"id": "enough", "rule": {"type": "max_steps", "steps": 3}, "from": "cli"}, {"type": "stagnation", "steps": 2}]}"#;
    let rules: StopRules = serde_json::from_str(file).expect("it reads");
    let set = StopSet::<()>::builder()
        .rules(rules)
        .build()
        .expect("sound");
    let whole = set.record();
    let ids: Vec<_> = whole
        .completion
        .iter()
        .chain(&whole.policies)
        .filter_map(|entry| entry.id.as_deref())
        .collect();
    assert_eq!(ids, ["accept[0]", "enough", "stop[1]"]);
    let text = serde_json::to_string(&whole).expect("it writes");
    assert_eq!(
        serde_json::from_str::<StopRules>(&text).expect("and reads again"),
        whole
    );
    let run = live(&set, &(), Stats::default(), &steps(5));
    assert_eq!(
        (run.verdict().criterion.as_str(), run.verdict().limit_from),
        ("enough", Some(Origin::Cli))
    );
    for wrong in [
        r#"{"budget":{"stepz":1}}"#,
        r#"{"budget":{"steps":-1}}"#,
        r#"{"rules":[]}"#,
    ] {
        assert!(serde_json::from_str::<StopRules>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn case_26_every_code_maps_to_a_reason_that_is_known() {
    for code in Code::KNOWN {
        assert_eq!(Code::from(code.as_str()), *code);
        assert_ne!(
            code.known_reason(&Source::Policy),
            StopReason::Other,
            "{code}"
        );
        assert_ne!(
            code.known_reason(&Source::Policy),
            StopReason::MaxSteps,
            "QitOS writes budget_steps"
        );
    }
    let custom = Code::from("my rule");
    assert_eq!(
        (
            custom.stop_reason(&Source::Completion),
            custom.outcome(&Source::Completion)
        ),
        ("success", Outcome::Completed)
    );
    assert_eq!(
        (
            custom.stop_reason(&Source::Policy),
            custom.outcome(&Source::Policy)
        ),
        ("agent_condition", Outcome::Halted)
    );
}

#[test]
fn a_verdict_is_written_as_designed_and_read_tolerantly() {
    let run = run(&["max_steps=1", "max_rounds=9", "max_steps=1"], &steps(1));
    insta::assert_snapshot!(serde_json::to_string_pretty(run.verdict()).expect("it can be written"), @r#"
{
  "criterion": "stop[0]",
  "source": "policy",
  "gate": "after_step",
  "step": 0,
  "code": "max_steps",
  "stop_reason": "budget_steps",
  "outcome": "truncated",
  "measured": 1,
  "limit": 1,
  "op": ">=",
  "unit": "steps",
  "detail": "1 step, limit 1",
  "limit_from": "engine",
  "also": [
    "stop[2]"
  ]
}
"#);
    let text = serde_json::to_string(run.verdict()).expect("it can be written");
    assert_eq!(
        serde_json::from_str::<StopVerdict>(&text).expect("and read"),
        *run.verdict()
    );
    let foreign =
        r#"{"source":"policy","code":"sunset","outcome":"halted","moon":"full","measured":1.5}"#;
    let read: StopVerdict =
        serde_json::from_str(foreign).expect("unknown codes and keys are accepted");
    assert_eq!(read.code, Code::Custom("sunset".into()));
}

#[test]
fn the_table_of_rules_is_made_from_the_code() {
    let wrong = r#"{"type":"?"}"#.parse::<StopSpec>().expect_err("no such rule").to_string();
    for row in RULES {
        assert!(wrong.contains(row.name), "{} is a rule", row.name);
    }
    // RULES.md is part of the documentation and must match the rules.
    let (file, code) = (
        include_str!("../RULES.md"),
        super::super::table::rules_table(),
    );
    let lacks = |text: &str, of: &str| -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        let missing = of.lines().filter(|line| !lines.contains(line));
        missing.map(str::to_owned).collect()
    };
    let (missing, wrong) = (lacks(file, &code), lacks(&code, file));
    assert!(
        file == code,
        "RULES.md differs.\nAdd, in the order of the rules:\n{}\nRemove:\n{}",
        missing.join("\n"),
        wrong.join("\n")
    );
}

#[test]
fn a_rule_is_shown_as_it_can_be_typed() {
    let typed = RULES.iter().map(|row| row.example);
    let more = [
        "keyword=a=b",
        "critic_below=a:b:0.5",
        "critic_below=a:0.5:3",
        "critic_below=a:1e-7",
        "content_match=",
    ];
    for text in typed.chain(more) {
        let spec: StopSpec = text.parse().expect("the rule parses");
        assert_eq!(spec.to_string().parse(), Ok(spec.clone()), "{text}");
        assert!(
            serde_json::to_string(&spec)
                .expect("JSON")
                .contains(spec.name()),
            "{text}"
        );
    }
}

#[test]
fn every_row_is_whole() {
    for row in RULES {
        let name = row.name;
        let spec: StopSpec = row.example.parse().expect("the example is a rule");
        assert_eq!(spec.name(), name);
        assert_eq!(
            spec.to_string().parse(),
            Ok(spec.clone()),
            "{name} parses as displayed"
        );
        let json = serde_json::to_string(&spec).expect("it can be written");
        assert_eq!(json.parse(), Ok(spec.clone()), "{name} has a JSON form");
        assert!(
            !row.label.is_empty() && !row.when.is_empty() && row.usage.contains(name),
            "{name}"
        );
        assert_eq!(
            super::super::row(name).map(|row| row.label),
            Some(row.label),
            "the name {name} is unique"
        );
        assert!(
            row.correction
                .is_none_or(|rule| rule.parse::<StopSpec>().is_ok()),
            "{name}"
        );
        assert!(spec.validate(None).is_ok(), "{name}");
        assert_eq!(row.accepts, spec.is_completion(), "{name}");
        if let Some(off) = row.off {
            let off: StopSpec = off.parse().expect("it is a rule");
            let set = StopSet::<()>::builder().rule(off).build().expect("sound");
            let check = &survey(&set, &Stats::default(), &StepFacts::unknown(0))[0].check;
            assert!(matches!(check, Check::Off(_)), "{name}: {check:?}");
        }
        if let Some(scale) = &row.scale {
            assert!(
                !row.unit.is_empty() && row.field.is_some(),
                "a number that a sweep can vary has a unit: {name}"
            );
            let critic = Critic {
                name: "tests".into(),
                steps: 1,
            };
            let (from, to, points) = scale.usual;
            assert!(
                from < to && points > 1 && scale.least.is_none_or(|least| from >= least),
                "{name}"
            );
            let (first, last) = ((scale.at)(from, &critic), (scale.at)(to, &critic));
            assert!(
                first.name() == name && first != last && first.validate(None).is_ok(),
                "{name}"
            );
        }
    }
}
