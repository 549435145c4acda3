use crate::page::run::tabs::{CountCheck, EventRow, IssueRow, PhaseChoice, RuleRow};
use crate::page::run::*;

const EVIL: &str = "<script>alert(1)</script></textarea>\"'\u{202e}\u{0}";

fn verdict(text: &str) -> Verdict {
    Verdict {
        status: Status::Limit,
        headline: text.into(),
        second: text.into(),
        certainty: text.into(),
        pace: text.into(),
        evidence: vec![Evidence { icon: "doc", class: "err", text: text.into(), link: Some(Link::new(text, "/e")) }],
        first_trouble: text.into(),
        contradictions: vec![text.into(), text.into()],
        liveness: text.into(),
        health: text.into(),
        rules: RulesTable {
            title: "Stop rules",
            tally: text.into(),
            rows: vec![RuleLine {
                class: "hit",
                name: text.into(),
                id: text.into(),
                measured: text.into(),
                limit: text.into(),
                bar: Some(RuleBar { class: "f-warn", width: "50.0".into() }),
                state: Sign::plain("mk", text),
                note: text.into(),
                by: text.into(),
            }],
        },
        says: TraceSays {
            facts: vec![Fact::new(text, text)],
            critics: vec![LastWord {
                name: text.into(),
                asked: Sign::plain("mk", text),
                axis: Axis::new(0.2, None),
                score: text.into(),
                reason: text.into(),
            }],
            critics_of: Some(Link::new(text, "/c")),
            failures: vec![Failure {
                step: Link::new(text, "/f"),
                phase: text.into(),
                category: text.into(),
                message: text.into(),
                outcome: text.into(),
            }],
            nothing: text.into(),
        },
    }
}

fn row(n: usize, text: &str) -> StepRow {
    StepRow {
        n,
        label: n.to_string().into(),
        href: format!("/runs/a?step={n}"),
        did: Did::Call { name: text.into(), args: text.into(), more: text.into() },
        title: text.into(),
        scores: text.into(),
        sign: Some(Sign::icon("mk err", "error", text)),
        asked: Some(Sign::icon("mk retry", "retry", text)),
        took: text.into(),
        tokens: text.into(),
        ..StepRow::default()
    }
}

fn end(text: &str) -> EndSlot {
    EndSlot { lines: vec![EndLine { status: Status::Limit, text: text.into(), href: "/end".into() }] }
}

fn pending(text: &str) -> PendingSlot {
    let phase = PendingPhase {
        class: "act",
        name: text.into(),
        state: PhaseState::Now,
        when: text.into(),
        says: vec![text.into()],
    };
    let status = Sign::word("st running", "running", text);
    let step = PendingStep { title: text.into(), status, note: text.into(), so_far: text.into(), phases: vec![phase] };
    PendingSlot { step: Some(step) }
}

fn head(text: &str) -> RunHead {
    RunHead {
        name: text.into(),
        task: text.into(),
        whole_task: Some(Folded::whole(text)),
        status: Status::Running,
        facts: vec![Fact::new(text, text)],
        acts: vec![Link::new(text, "/act")],
    }
}

fn tabs(text: &str) -> Tabs {
    let tab = |name, current| Tab { name, count: text.into(), href: "/t".into(), current };
    Tabs { tabs: vec![tab("Steps", true), tab("Events", false)] }
}

fn page(content: Content, text: &str) -> String {
    let page = RunPage {
        shell: Shell { title: text.into(), ..Shell::default() },
        crumb: vec![Link::new("Runs", "/")],
        pulse: Some(Pulse { url: "/pulse".into(), revision: 7, ..Pulse::default() }),
        head: head(text),
        verdict: verdict(text),
        tabs: tabs(text),
        content,
    };
    page.render().unwrap()
}

fn steps(text: &str, follow: Option<bool>) -> Content {
    let bad = StepRow { did: Did::Nil(text.into()), ..row(2, text) };
    let rows = vec![Row::Step(Box::new(row(0, text))), Row::Segment(text.into()), Row::Step(Box::new(bad))];
    Content::Steps(Box::new(StepsTab {
        critics: text.into(),
        earlier: Some(Link::new("earlier 60", "/earlier")),
        rows: StepRows { rows, ..StepRows::default() },
        end: end(text),
        pending: pending(text),
        selected: Some(StepView { n: 2, title: text.into(), ..StepView::default() }),
        follow,
        ..StepsTab::default()
    }))
}

fn assert_harmless(html: &str) {
    // The shell around the page has scripts of its own, each with an address.
    let own = html.matches("<script src=\"/static/").count() + html.matches("<script defer src=\"/static/").count();
    assert_eq!((html.matches("<script").count(), own), (2, 2), "{html}");
    assert!(!html.contains("</textarea") && !html.contains("style="), "{html}");
    let body = html.split_once("<main").map_or(html, |(_, body)| body);
    assert!(!body.contains('\u{202e}') && !body.contains('\u{0}'), "{html}");
}

#[test]
fn every_part_can_be_found_by_its_id() {
    let html = page(steps("words", Some(true)), "words");
    for id in [
        "pulse",
        "runhead",
        "verdict-panel",
        "verdict",
        "tabs",
        "steps",
        "steprows",
        "step-0",
        "step-2",
        "endslot",
        "pending",
        "stepview",
        "shown",
        "pill",
    ] {
        assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(html.contains("aria-pressed=\"true\""), "the follow switch shows its state");
    assert_eq!(html.matches("<h1").count(), 1);
    assert!(!page(steps("words", None), "words").contains("id=\"pill\""), "nothing to follow once the run has ended");
}

#[test]
fn rows_are_links() {
    let html = row(4, "x").render().unwrap();
    assert!(html.starts_with("<li id=\"step-4\"><a href=\"/runs/a?step=4\" title=\"x\"><b>4</b>"), "{html}");
    let plain = StepRow { sign: None, asked: None, ..row(4, "x") }.render().unwrap();
    assert!(plain.matches("</").count() <= 10, "a row has few elements: {plain}");
    let marked = StepRow { marked: true, current: true, pending: true, ..StepRow::default() }.render().unwrap();
    assert!(marked.contains("class=\"pending\" data-mark><a href=\"\" title=\"\" aria-current=\"true\""), "{marked}");
}

#[test]
fn a_pulse_brings_only_what_changed_and_no_blanks() {
    let quiet = RunPulse { pulse: Pulse { url: "/p".into(), revision: 8, ..Pulse::default() }, ..RunPulse::default() };
    assert!(!quiet.render().unwrap().contains("hx-partial"));
    let full = RunPulse {
        pulse: Pulse { url: "/p".into(), revision: 9, count: 1, noun: "step", say: None },
        title: Some("Running: a".into()),
        head: Some(head("x")),
        verdict: Some(verdict("x")),
        tabs: Some(tabs("x")),
        end: Some(end("x")),
        pending: Some(PendingSlot::default()),
        rows: Some(StepRows {
            rows: vec![Row::Segment("second run".into()), Row::Step(Box::new(row(3, "x")))],
            ..StepRows::default()
        }),
        selected: Some(StepView::default()),
        state: None,
        events: Some(EventsTab::default()),
        whatif: Some(RulesAnswer::default()),
    };
    let html = full.render().unwrap();
    assert!(html.starts_with("<div id=\"pulse\"") && html.contains("<title>Running: a · board</title>"), "{html}");
    for target in
        ["runhead", "verdict-panel", "tabs", "steprows", "endslot", "pending", "stepview", "events", "lead", "answer"]
    {
        let open = format!("<hx-partial hx-target=\"#{target}\" hx-swap=\"outerMorph\">");
        let part = html.split(&open).nth(1).unwrap_or_else(|| panic!("{target} in {html}"));
        let part = part.split("</hx-partial>").next().unwrap();
        assert!(part.starts_with('<') && part.ends_with('>'), "no blank around {target}: {part}");
        assert!(
            part.split('>').next().unwrap().contains(&format!("id=\"{target}\"")),
            "{target} replaces itself: {part}"
        );
    }
    assert!(html.contains("<li class=\"segment\">second run</li>"), "{html}");
    assert!(html.contains(&row(3, "x").render().unwrap()), "the page and the pulse use one template");
}

#[test]
fn what_is_not_known_is_left_out() {
    let mut lean = verdict("x");
    (lean.second, lean.certainty, lean.first_trouble, lean.liveness) = ("".into(), "".into(), "".into(), "".into());
    (lean.pace, lean.rules) = ("".into(), RulesTable::default());
    lean.contradictions.clear();
    lean.says = TraceSays { nothing: "Nothing is recorded about the end.".into(), ..TraceSays::default() };
    let html = lean.render().unwrap();
    for absent in
        ["First trouble", "Contradiction", "Liveness", "Failure report", "Last critic verdicts", "class=\"so", "<table"]
    {
        assert!(!html.contains(absent), "{absent} in {html}");
    }
    assert!(html.contains("Trace health") && html.contains("Nothing is recorded about the end."));
    assert_eq!(PendingSlot::default().render().unwrap(), "<div id=\"pending\"></div>");
    assert_eq!(EndSlot::default().render().unwrap(), "<div id=\"endslot\"></div>");
}

#[test]
fn the_tabs_show_their_contents() {
    let events = EventsTab {
        summary: "events 200 to 399 of 900".into(),
        action: "/runs/a/events".into(),
        phases: vec![PhaseChoice { value: "ACT".into(), label: "ACT (3)".into(), chosen: true }],
        later: Some(Link::new("later 200", "/later")),
        rows: vec![EventRow { n: 7, phase: "ACT".into(), raw: "/raw/7".into(), ..EventRow::default() }],
        ..EventsTab::default()
    };
    let html = events.render().unwrap();
    assert!(
        html.contains("<option value=\"ACT\" selected>ACT (3)</option>") && html.contains("id=\"event-7\""),
        "{html}"
    );
    assert!(html.contains("method=\"get\" action=\"/runs/a/events\"") && html.contains("href=\"/later\""), "{html}");
    let clean =
        IssuesTab { clean: "Clean: nothing is wrong with the files.".into(), ..IssuesTab::default() }.render().unwrap();
    assert!(clean.contains("Clean") && !clean.contains("<table"), "{clean}");
}

#[test]
fn manifests_are_shown_key_by_key() {
    let json =
        crate::model::json::Json::parse(r#"{"run_id": "<b>", "cost": 0.0, "summary": {"stop_reason": null}}"#).unwrap();
    let fold = &mut crate::page::part::fold::Fold::new(crate::page::part::fold::ValueLinks::default());
    let tab = ManifestTab { entries: ManifestTab::entries_of(&json, fold), ..ManifestTab::default() };
    let html = tab.render().unwrap();
    assert!(html.contains("<dt>run_id</dt><dd><q>&#60;b&#62;</q></dd>") && html.contains(">0.0<"), "{html}");
    let odd = ManifestTab::entries_of(&crate::model::json::Json::parse("[1]").unwrap(), fold);
    assert_eq!(odd.len(), 1);
}

#[test]
fn hostile_runs_are_text_in_every_position() {
    let check = CountCheck { what: EVIL.into(), manifest: EVIL.into(), file: EVIL.into(), verdict: EVIL.into() };
    let json = format!("{{{0}: {0}}}", serde_json::to_string(EVIL).unwrap());
    let json = crate::model::json::Json::parse(&json).unwrap();
    let fold = &mut crate::page::part::fold::Fold::new(crate::page::part::fold::ValueLinks::default());
    let contents = [
        steps(EVIL, Some(false)),
        Content::Manifest(ManifestTab {
            note: EVIL.into(),
            checks: vec![check],
            rules: vec![RuleRow { id: EVIL.into(), rule: EVIL.into(), from: EVIL.into(), verdict: EVIL.into() }],
            entries: ManifestTab::entries_of(&json, fold),
            raw: Some(Link::new(EVIL, "/m")),
        }),
        Content::Events(EventsTab {
            summary: EVIL.into(),
            phases: vec![PhaseChoice { value: EVIL.into(), label: EVIL.into(), chosen: false }],
            rows: vec![EventRow {
                phase: EVIL.into(),
                stage: EVIL.into(),
                step: EVIL.into(),
                at: EVIL.into(),
                datetime: EVIL.into(),
                ok: Sign::plain("mk", EVIL),
                size: EVIL.into(),
                note: EVIL.into(),
                ..EventRow::default()
            }],
            ..EventsTab::default()
        }),
        Content::Issues(IssuesTab {
            counts: vec![(Sign::plain("mk", EVIL), EVIL.into())],
            rows: vec![IssueRow {
                level: Sign::plain("mk", EVIL),
                file: EVIL.into(),
                line: EVIL.into(),
                offset: EVIL.into(),
                reason: EVIL.into(),
                link: Some(Link::new(EVIL, "/i")),
            }],
            ..IssuesTab::default()
        }),
    ];
    for content in contents {
        assert_harmless(&page(content, EVIL));
    }
}

#[test]
fn a_window_is_where_the_reader_is() {
    let window = |first, end| Window { first, end };
    assert_eq!(Window::new(1_000, None, None), window(940, 1_000));
    assert_eq!(Window::new(1_000, Some(0), None), window(0, 60));
    assert_eq!(Window::new(1_000, Some(500), None), window(470, 530));
    assert_eq!(Window::new(1_000, Some(999), None), window(940, 1_000));
    assert_eq!(Window::new(1_000, None, Some(100)), window(40, 100));
    assert_eq!(Window::new(7, Some(3), None), window(0, 7));
    assert_eq!(Window::around(10, 20_000), window(0, 120));
    assert_eq!(Window::around(20_000, 20_000), window(19_880, 20_000));
    assert_eq!(Window::parse("40-100"), Some(window(40, 100)));
    assert_eq!(Window::parse("0-9999999"), Some(window(0, 120)), "an address cannot ask for all rows");
    assert_eq!(Window::parse("x-1"), None);
}

#[test]
fn a_window_at_the_end_grows_with_the_run() {
    let window = |first, end| Window { first, end };
    assert_eq!(window(0, 30).grown(30, 31, false), window(0, 31));
    assert_eq!(window(0, 120).grown(120, 130, false), window(0, 120), "a page holds no more");
    assert_eq!(window(0, 120).grown(120, 130, true), window(10, 130), "who follows sees the end");
    assert_eq!(window(0, 30).grown(200, 201, false), window(0, 30), "who reads elsewhere stays");
    assert_eq!(window(0, 30).grown(30, 3, false), window(0, 3), "a file was cut");
}
