//! Tests the text and the curve of the page, using the runs in this repository.

use crate::page::sweep::table::limit;
use askama::Template as _;

use crate::analysis::facts::tests::{Files, runs_below};
use crate::analysis::life::ExternalFacts;
use crate::analysis::summary::summary;
use crate::analysis::sweep::{SweepSpec, Typed};
use crate::model::RunKey;
use crate::page::part::job::State;
use crate::page::sweep::*;

fn context(form: Form) -> Context {
    Context {
        query: Query::parse(&form.query),
        form,
        fault: None,
        critics: vec!["tests <b>".to_owned()],
        known: 40,
        selected: 40,
        zone: TimeZone::UTC,
    }
}

/// Renders the page over `sample_runs`. If `state` is running, the page has no results yet.
fn page_of(form: Form, state: State) -> String {
    let rules = form.rules.iter().map(String::as_str).collect();
    let typed = Typed {
        sweep: &form.sweep,
        values: &form.values,
        rules,
        ..Typed::default()
    };
    let prepared = SweepSpec::parse(&typed)
        .unwrap()
        .ready(std::iter::empty())
        .unwrap();
    let mut sweep = prepared.begin();
    let paths = runs_below("sample_runs");
    for path in &paths {
        let files = Files::open(path);
        let key = RunKey::new(&path.file_name().unwrap().to_string_lossy());
        let summary = summary(&key, String::new(), &files.index, ExternalFacts::default());
        sweep.add(&prepared.ask(&summary, &files.record(prepared.depth())));
    }
    let standing = Standing {
        status: Status {
            state,
            number: 1_700_000_000_000_000,
            changed: 2,
        },
        done: 7,
        total: paths.len(),
        prepared: &prepared,
        sweep: (state != State::Running).then_some(&sweep),
    };
    render(&context(form), Some(standing))
}

fn render(context: &Context, standing: Option<Standing<'_>>) -> String {
    SweepPage {
        shell: Shell::default(),
        view: View { context, standing },
    }
    .render()
    .unwrap()
}

fn swept(values: &str) -> Form {
    Form {
        sweep: "max_steps".to_owned(),
        values: values.to_owned(),
        query: "status:limit".to_owned(),
        ..Form::default()
    }
}

#[test]
fn the_answer_is_a_sentence_and_every_point_has_its_row() {
    let html = page_of(swept("1..9"), State::Done);
    let answer = html
        .split("role=\"status\">")
        .nth(1)
        .unwrap()
        .split("</p>")
        .next()
        .unwrap();
    assert!(
        answer.contains("max_steps=") && answer.contains(" of ") && answer.contains("saves"),
        "{answer}"
    );
    assert!(
        html.contains("As of <time datetime=\"2023-11-14T22:13:20.000000+00:00\""),
        "{html}"
    );
    assert!(html.contains("2 runs changed since") && html.contains("again=1700000000000000"));
    for link in html.split("<a href=\"#").skip(2) {
        let id = link.split('"').next().unwrap();
        assert!(
            html.contains(&format!("id=\"{id}\"")),
            "a point links to {id}"
        );
    }
    assert!(
        html.contains("id=\"limit-8\"")
            && html.contains("id=\"recorded\"")
            && !html.contains("id=\"poll\"")
    );
    assert!(!html.contains("style=") && html.contains("tests &#60;b&#62;"));
}

#[test]
fn while_it_is_under_way_the_page_says_how_far_and_asks_again_by_itself() {
    let html = page_of(swept("1..9"), State::Running);
    assert!(
        html.contains("Evaluating max_steps at 9 limits on "),
        "{html}"
    );
    assert!(html.contains("value=\"7\"") && html.contains("cancel=1700000000000000"));
    assert!(
        html.contains(
            "hx-get=\"/live/whatif?q=status%3Alimit&#38;sweep=max_steps&#38;values=1..9\""
        ),
        "{html}"
    );
    assert!(!html.contains("<svg class=\"swp-c\"") && html.contains("<noscript>"));
}

#[test]
fn rules_have_a_table_with_all_of_them_together() {
    let rules = vec!["max_steps=3".to_owned(), "token_budget=1500".to_owned()];
    let html = page_of(
        Form {
            rules,
            ..Form::default()
        },
        State::Done,
    );
    assert!(html.contains("Combining both rules saves"), "{html}");
    for row in ["rule-0", "rule-1", "rule-2"] {
        assert!(html.contains(&format!("id=\"{row}\"")), "{row}");
    }
    assert!(html.contains("all of them") && !html.contains("<svg class=\"swp-c\""));
    let part = page_of(swept("3"), State::Cancelled);
    assert!(part.contains("Cancelled after 7 of"), "{part}");
}

#[test]
fn a_fault_stands_beside_what_was_typed() {
    let mut context = context(Form {
        rules: vec!["max_step=<3>".to_owned()],
        ..Form::default()
    });
    let mut fault = InvalidSweep {
        name: Some("max_step=<3>".to_owned()),
        why: "unknown rule. See below".to_owned(),
        example: Some("max_steps=8"),
    };
    context.fault = Some(fault.clone());
    let html = render(&context, None);
    assert!(
        html.contains("value=\"max_step=&#60;3&#62;\"")
            && html.contains(
                "role=\"alert\">max_step=&#60;3&#62;: unknown rule. See below. <small>Example: max_steps=8.</small>"
            ),
        "{html}"
    );
    (fault.name, fault.example) = (None, None);
    context.fault = Some(fault);
    let html = render(&context, None);
    assert!(
        html.contains("role=\"alert\">Unknown rule. See below.</p>"),
        "{html}"
    );
}

#[test]
fn what_ended_before_its_turn_says_so() {
    let spec = SweepSpec::parse(&Typed {
        sweep: "max_steps",
        values: "3",
        ..Typed::default()
    })
    .unwrap();
    let prepared = spec.ready(std::iter::empty()).unwrap();
    let status = Status {
        state: State::Cancelled,
        number: 5,
        changed: 0,
    };
    let standing = Standing {
        status,
        done: 0,
        total: 12,
        prepared: &prepared,
        sweep: None,
    };
    assert_eq!(
        answer(&standing).to_string(),
        "Cancelled after 0 of 12 runs."
    );
}

#[test]
fn a_limit_reads_as_it_was_given() {
    let read = [0.6, 12_000.0, 0.0, -3.0, 1e300, -1e300, 1e-300].map(limit);
    assert_eq!(
        read,
        ["0.6", "12,000", "0", "-3", "1e300", "-1e300", "1e-300"]
    );
}
