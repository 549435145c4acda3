use crate::page::part::fold::ValueLinks;
use crate::page::step::*;
use crate::page::tests::Recorded;

const EVIL: &str = "<script>alert(1)</script></textarea>\"'\u{202e}\u{0}";

fn read(line: &str) -> StepView {
    let around = Around {
        previous_score: &|_| None,
        picture: &|path| {
            if path.starts_with("assets/") {
                Ok(format!("/asset/{path}"))
            } else {
                Err("outside".into())
            }
        },
        state: None,
    };
    let mut step_view = StepView {
        n: 4,
        title: "Step 4".into(),
        ..StepView::default()
    };
    let links = ValueLinks {
        value: "/v".into(),
        raw: "/r".into(),
    };
    step_view.read(
        &crate::format::step_in(line).unwrap(),
        &around,
        &mut Fold::new(links),
    );
    step_view
}

const LINE: &str = r#"{"step_id": 4, "agent_id": "react", "observation": {"state": {"a": 1, "b": 2}, "action_results": ["ok"]},
    "decision": {"mode": "act", "rationale": "Look.", "actions": [{"name": "ls", "args": {}}]}, "actions": [{"name": "ls", "args": {}}],
    "action_results": ["ok"], "tool_invocations": [{"tool_name": "ls", "status": "success"}],
    "critic_outputs": [{"critic_name": "C", "action": "stop", "score": 0.1}], "state_diff": {"a": {"before": 1, "after": 2}},
    "visual_assets": [{"kind": "screenshot", "path": "assets/1.png", "width": 640, "height": 400}, {"path": "/etc/passwd"}, {}]}"#;

fn headings(html: &str) -> Vec<&str> {
    html.split("<h3>")
        .skip(1)
        .filter_map(|rest| rest.split("</h3>").next())
        .collect()
}

#[test]
fn sections_come_in_their_order() {
    let mut step_view = read(LINE);
    step_view.raw = Some(RawLine {
        place: "steps.jsonl line 5".into(),
        size: "1 KB".into(),
        text: None,
        href: "/r".into(),
    });
    step_view.events.rows.push(StepEvent {
        class: "act",
        phase: "Act".into(),
        ..StepEvent::default()
    });
    let html = step_view.render().unwrap();
    let order = [
        "Thought",
        "Decision",
        "Actions and results",
        "State changes",
        "Critics",
        "Images",
        "Observation",
        "Events",
        "Raw",
    ];
    assert_eq!(headings(&html), order);
    assert!(
        html.contains("id=\"stepview\"") && html.contains("name=\"shown\" value=\"4\""),
        "{html}"
    );
}

#[test]
fn empty_sections_are_left_out_but_the_decision_stays() {
    let step_view = read(
        r#"{"step_id": 2, "decision": null, "observation": null, "actions": [], "state_diff": {}}"#,
    );
    let html = step_view.render().unwrap();
    assert_eq!(headings(&html), ["Decision"]);
    assert!(html.contains("None."));
    let unreadable = StepView {
        unreadable: Some("not JSON".into()),
        ..StepView::default()
    };
    assert_eq!(headings(&unreadable.render().unwrap()), ["Unreadable"]);
}

#[test]
fn observations_say_what_they_repeat() {
    let seen = read(LINE).observation.unwrap();
    assert_eq!(
        seen.description.as_str(),
        "Contains the results above, the state before this step (2 fields)."
    );
}

#[test]
fn pictures_are_shown_only_where_they_may_be() {
    let step_view = read(LINE);
    assert_eq!(
        step_view.assets[0].href.as_deref(),
        Some("/asset/assets/1.png")
    );
    assert!(step_view.assets[0].caption.as_str().contains("640 × 400"));
    assert_eq!(step_view.assets[1].note.as_str(), "Not shown: outside");
    assert_eq!(
        step_view.assets[2].note.as_str(),
        "Not shown: no path is recorded"
    );
    let html = step_view.render().unwrap();
    assert_eq!(html.matches("<img ").count(), 1);
}

#[test]
fn links_work_with_and_without_scripts() {
    let link = StepLink {
        href: "/runs/a?step=3".into(),
        fragment: "/runs/a/steps/3?part=1".into(),
        label: "3 ls".into(),
    };
    let plain = StepLink {
        fragment: String::new(),
        ..link.clone()
    };
    let html = StepView {
        previous: Some(link),
        next: Some(plain),
        ..StepView::default()
    }
    .render()
    .unwrap();
    assert_eq!(
        html.matches("hx-get=\"/runs/a/steps/3?part=1\"").count(),
        2,
        "{html}"
    );
    assert_eq!(html.matches("href=\"/runs/a?step=3\"").count(), 4, "{html}");
    assert_eq!(html.matches("rel=\"next\"").count(), 2);
}

#[test]
fn a_fragment_brings_its_title() {
    let html = StepFragment {
        title: "run: step 4".into(),
        step_view: read(LINE),
    }
    .render()
    .unwrap();
    assert!(
        html.starts_with("<title>run: step 4 · board</title><article"),
        "{html}"
    );
}

#[test]
fn pages_name_their_run_and_step() {
    let run = Recorded::steps([]);
    let html = StepPage {
        shell: Shell::default(),
        view: &run.view(),
        step_view: read(LINE),
    }
    .render()
    .unwrap();
    assert!(
        html.contains("<h1 class=\"t\">") && html.contains("<h2 id=\"step-title\">Step 4"),
        "{html}"
    );
    assert_eq!(html.matches("<h1").count(), 1);
}

#[test]
fn long_values_have_pages_of_their_own() {
    let links = ValueLinks {
        value: "/v".into(),
        raw: "/r".into(),
    };
    let text = "<b>\n".repeat(100_000);
    let value = Value::Text(Part::of(&text, 2, "/a", &links).unwrap());
    let page = ValuePage {
        shell: Shell::default(),
        key: "a/b",
        title: "stdout".into(),
        value,
        raw: "/r".into(),
    };
    let html = page.render().unwrap();
    assert!(
        html.contains("part 2 of 2") && html.contains("href=\"/v?at=%2Fa&#38;part=1\""),
        "the way back"
    );
    assert!(!html.contains("next part") && !html.contains("<b>"));
}

#[test]
fn hostile_steps_are_text_in_every_position() {
    let evil = serde_json::to_string(EVIL).unwrap();
    let line = LINE
        .replace("\"react\"", &evil)
        .replace("\"Look.\"", &evil)
        .replace("\"ok\"", &evil)
        .replace("\"C\"", &evil);
    let line = line
        .replace("\"screenshot\"", &evil)
        .replace("\"/etc/passwd\"", &evil)
        .replace("\"ls\"", &evil)
        .replace("\"b\"", &evil);
    let mut step_view = read(&line);
    step_view.title = EVIL.into();
    step_view.facts = EVIL.into();
    step_view.marks.push(Sign::plain("mk", EVIL));
    step_view.unreadable = Some(EVIL.into());
    step_view.next = Some(StepLink {
        href: "/n".into(),
        fragment: "/f".into(),
        label: EVIL.into(),
    });
    step_view.error = Some(StepError {
        category: EVIL.into(),
        message: Folded::whole(EVIL),
        place: EVIL.into(),
        outcome: EVIL.into(),
    });
    step_view.events.rows.push(StepEvent {
        class: "act",
        phase: EVIL.into(),
        stage: EVIL.into(),
        at: EVIL.into(),
        lasted: EVIL.into(),
        note: EVIL.into(),
    });
    let text = Some(Folded::whole(EVIL));
    step_view.raw = Some(RawLine {
        place: EVIL.into(),
        size: EVIL.into(),
        text,
        href: String::new(),
    });
    let html = step_view.render().unwrap();
    assert!(
        !html.contains("<script") && !html.contains("</textarea"),
        "{html}"
    );
    assert!(
        !html.contains('\u{202e}') && !html.contains('\u{0}'),
        "{html}"
    );
    assert!(html.matches("&#60;script&#62;").count() > 20);
    assert!(
        !html.contains("style=") && !html.contains(" onclick"),
        "the pages allow no inline style or script"
    );
}

#[test]
fn nothing_of_the_line_is_left_out() {
    let step_view = read(
        r#"{"step_id": 1.5, "decision": "odd", "action_results": 5, "context": {"tokens": 3}, "x": null}"#,
    );
    let keys: Vec<&str> = step_view.rest.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["step_id", "decision", "action_results", "context"]);
    let html = step_view.render().unwrap();
    assert!(
        html.contains("4 more fields") && html.contains("odd") && html.contains("tokens"),
        "{html}"
    );
    assert!(
        read(LINE)
            .rest
            .iter()
            .all(|(key, _)| key.as_str() != "decision")
    );
}
