use askama::Template;

use crate::page::params::Params;
use crate::page::run::steps::Window;
use crate::page::run::*;
use crate::page::run_view::RunView;
use crate::page::shell::{Pulse, Shell};
use crate::page::step::fill::{StepPlace, step_view};
use crate::page::tests::{Recorded, check_page, tags};

fn page(view: &RunView<'_>, content: Content<'_>) -> String {
    let page = RunPage {
        shell: Shell::default(),
        pulse: Pulse {
            url: "/pulse".into(),
            ..Pulse::default()
        },
        head: RunHead::new(view),
        verdict: Verdict::below_line(view, true),
        strip: None,
        tabs: Tabs {
            view,
            current: "",
            step: None,
        },
        content,
    };
    page.render().unwrap()
}

fn steps<'a>(view: &'a RunView<'a>, n: Option<usize>, follow: Option<bool>) -> Content<'a> {
    let window = Window::new(view.index.steps().len(), None, None);
    Content::Steps(Box::new(StepsTab::new(view, window, n, follow)))
}

#[test]
fn every_part_can_be_found_by_its_id() {
    let run = Recorded::run("tests/corpus/q060/q060_handoff");
    let view = run.view();
    let html = page(&view, steps(&view, Some(0), Some(true)));
    let tags = check_page(&html);
    for id in [
        "pulse",
        "runhead",
        "verdict-panel",
        "verdict",
        "tabs",
        "steps",
        "steprows",
        "step-0",
        "endslot",
        "pending",
        "stepview",
        "shown",
        "pill",
    ] {
        assert_eq!(
            tags.iter().filter(|tag| tag.get("id") == Some(id)).count(),
            1,
            "{id}"
        );
    }
    let follow = tags
        .iter()
        .find(|tag| tag.get("data-follow").is_some())
        .unwrap();
    assert_eq!(
        follow.get("aria-pressed"),
        Some("true"),
        "the follow switch shows its state"
    );
    let ended = check_page(&page(&view, steps(&view, Some(0), None)));
    assert!(
        ended.iter().all(|tag| tag.get("id") != Some("pill")),
        "nothing to follow once the run has ended"
    );
}

#[test]
fn rows_are_links() {
    let run = Recorded::steps([r#"{"step_id": 4, "decision": {"mode": "wait"}}"#.to_owned()]);
    let view = run.view();
    let rows = |current| {
        StepRows::new(&view, Window { first: 0, end: 1 }, current)
            .render()
            .unwrap()
    };
    let plain = rows(None);
    let row = plain
        .split("<ol>")
        .nth(1)
        .and_then(|rest| rest.split("</ol>").next())
        .unwrap();
    assert!(
        row.starts_with("<li id=\"step-0\"><a href=\"/runs/a%2Fb?step=0\" title="),
        "{row}"
    );
    assert!(
        row.contains("<b>4</b>"),
        "the recorded id is what people read: {row}"
    );
    assert!(
        row.matches("</").count() <= 10,
        "a row has few elements: {row}"
    );
    assert!(rows(Some(0)).contains(" aria-current=\"true\""));
    let errors = Recorded::run("tests/corpus/q060/q060_recovered_errors");
    let view = errors.view();
    let html = StepRows::new(&view, Window { first: 0, end: 9 }, None)
        .render()
        .unwrap();
    assert!(
        tags(&html)
            .iter()
            .any(|tag| tag.name == "li" && tag.get("data-mark").is_some()),
        "{html}"
    );
    assert!(
        html.contains("title=\"no decision · ") && !html.contains("title=\"\""),
        "a cut row is whole in its title: {html}"
    );
}

#[test]
fn a_pulse_brings_what_changed_and_no_blanks() {
    let run = Recorded::run("tests/corpus/q060/q060_handoff");
    let view = run.view();
    let pulse = |tab_update, verdict: bool| {
        let pulse = RunPulse {
            pulse: Pulse {
                url: "/p".into(),
                revision: 9,
                ..Pulse::default()
            },
            title: "Running: a".into(),
            head: RunHead::new(&view),
            verdict: verdict.then(|| Verdict::below_line(&view, false)),
            strip: None,
            tabs: Tabs {
                view: &view,
                current: "",
                step: None,
            },
            tab_update,
        };
        pulse.render().unwrap()
    };
    let tab_update = TabUpdate::Steps {
        facts: None,
        rows: Some(StepRows::new(&view, Window { first: 0, end: 2 }, None)),
        end: EndSlot { view: &view },
        pending: PendingSlot { view: &view },
        selected: step_view(&view, 0, StepPlace::List).map(Box::new),
    };
    let cases = [
        (
            pulse(Some(tab_update), true),
            &[
                "steprows",
                "runhead",
                "verdict-box",
                "tabs",
                "endslot",
                "pending",
                "stepview",
            ][..],
        ),
        (
            pulse(
                Some(TabUpdate::Events(EventsTab::new(
                    &view,
                    String::new(),
                    None,
                    Some(1),
                ))),
                true,
            ),
            &["runhead", "tabs", "events"],
        ),
        (pulse(None, false), &["runhead", "tabs"]),
    ];
    for (html, targets) in cases {
        assert!(
            html.starts_with("<div id=\"pulse\"")
                && html.contains("<title>Running: a · board</title>"),
            "{html}"
        );
        assert!(
            !html.contains("</hx-partial> ") && !html.contains("</hx-partial>\n<"),
            "no blank between parts: {html}"
        );
        for target in targets {
            let open = format!("<hx-partial hx-target=\"#{target}\" hx-swap=\"outerMorph\">");
            let part = html
                .split(&open)
                .nth(1)
                .unwrap_or_else(|| panic!("{target} in {html}"));
            let part = part.split("</hx-partial>").next().unwrap();
            assert!(
                part.starts_with('<') && part.ends_with('>'),
                "no blank around {target}: {part}"
            );
            let first = part.split('>').next().unwrap();
            assert!(
                first.contains(&format!("id=\"{target}\"")),
                "{target} replaces itself: {part}"
            );
        }
        assert_eq!(html.contains("#verdict-box"), targets.len() > 2, "{html}");
    }
}

#[test]
fn what_is_not_known_is_left_out() {
    let run = Recorded::steps([]);
    let view = run.view();
    let html = Verdict::new(&view).render().unwrap();
    for absent in [
        "First sign of trouble",
        "Contradiction",
        "Failure report",
        "Last critic verdicts",
    ] {
        assert!(!html.contains(absent), "{absent} in {html}");
    }
    assert!(
        html.contains("Trace health")
            && html.contains("No readable manifest, stop check or END event."),
        "{html}"
    );
    assert_eq!(
        PendingSlot { view: &view }.render().unwrap(),
        "<div id=\"pending\"></div>"
    );
    assert_eq!(
        EndSlot { view: &view }.render().unwrap(),
        "<div id=\"endslot\"></div>"
    );
}

#[test]
fn steps_of_which_nothing_can_be_drawn_have_no_strip() {
    let wait = r#"{"step_id": 0, "decision": {"mode": "wait"}}"#.to_owned();
    let run = Recorded::steps([wait.clone(), wait.replace("0", "1")]);
    let html = Strip::new(&run.view(), "", Some(1)).render().unwrap();
    assert_eq!(html.trim(), "<div id=\"strip\" hidden></div>");
    let scored = r#"{"step_id": 0, "critic_outputs": [{"critic_name": "c", "action": "continue", "score": 0.5}]}"#;
    let run = Recorded::steps([scored.to_owned(), wait]);
    assert!(
        Strip::new(&run.view(), "", Some(1))
            .render()
            .unwrap()
            .contains("class=\"here\"")
    );
}

#[test]
fn a_long_text_of_trouble_leaves_the_panel_to_the_rest() {
    let error = "ab".repeat(250);
    let step = format!(
        r#"{{"step_id": 0, "actions": [{{"name": "t"}}], "tool_invocations": [{{"tool_name": "t", "status": "error", "error": "{error}"}}]}}"#
    );
    let run = Recorded::steps([step]);
    let html = Verdict::new(&run.view()).render().unwrap();
    let line = html
        .split("First sign of trouble</dt><dd class=\"first\">")
        .nth(1)
        .and_then(|rest| rest.split("</dd>").next())
        .unwrap();
    assert!(
        line.contains("Step 0") && line.ends_with("b…") && line.len() < 300,
        "{line}"
    );
}

#[test]
fn a_step_without_a_line_is_told_by_its_events() {
    let run = Recorded::run("tests/corpus/q010/q010_sigkill");
    let view = run.view();
    let html = PendingSlot { view: &view }.render().unwrap();
    assert!(
        html.contains("never finished")
            && html.contains("never written to steps.jsonl")
            && html.contains("not reached"),
        "{html}"
    );
}

#[test]
fn the_tabs_show_their_contents() {
    let run = Recorded::run("tests/corpus/q060/q060_handoff");
    let view = run.view();
    let html = EventsTab::new(&view, "ACT".into(), None, None)
        .render()
        .unwrap();
    assert!(
        html.contains("<option value=\"ACT\" selected>ACT ")
            && html.contains("action=\"/runs/a%2Fb\""),
        "{html}"
    );
    let acts = view
        .index
        .events()
        .iter()
        .filter(|event| view.index.name(event.phase) == "ACT")
        .count();
    assert_eq!(html.matches("<tr id=\"event-").count(), acts);
    let clean = IssuesTab::new(&view, 0).render().unwrap();
    assert!(
        clean.contains("No issues") && !clean.contains("<table"),
        "{clean}"
    );
    let torn = Recorded::run("tests/corpus/emulated/emulated_q060_garbage_lines");
    let view = torn.view();
    let issues = IssuesTab::new(&view, 0).render().unwrap();
    assert!(
        issues.contains("problem: ") && !issues.contains("Clean"),
        "{issues}"
    );
    let beyond = IssuesTab::new(&view, 5_000).render().unwrap();
    assert!(
        !beyond.contains("Clean") && beyond.contains("200 earlier"),
        "{beyond}"
    );
    let manifest = ManifestTab::new(&run.view()).render().unwrap();
    assert!(
        manifest.contains(
            "<dt>run_id</dt><dd><q data-value=\"/runs/a%2Fb/manifest/value?at=%2Frun_id\">"
        ) && manifest.contains("<th scope=\"row\">steps</th>"),
        "{manifest}"
    );
    let odd = Recorded::run("tests/corpus/emulated/emulated_q060_manifest_is_array");
    let odd = ManifestTab::new(&odd.view()).render().unwrap();
    assert!(
        odd.contains("not an object") && odd.matches("<dt>").count() == 1,
        "{odd}"
    );
}

#[test]
fn a_window_is_where_the_reader_is() {
    let window = |first, end| Window { first, end };
    assert_eq!(Window::new(1_000, None, None), window(950, 1_000));
    assert_eq!(Window::new(1_000, Some(0), None), window(0, 50));
    assert_eq!(Window::new(1_000, Some(500), None), window(475, 525));
    assert_eq!(Window::new(1_000, Some(999), None), window(950, 1_000));
    assert_eq!(Window::new(1_000, None, Some(100)), window(50, 100));
    assert_eq!(Window::new(7, Some(3), None), window(0, 7));
    assert_eq!(Window::around(10, 20_000, 60), window(0, 60));
    assert_eq!(Window::around(500, 20_000, 0), window(475, 525));
    assert_eq!(
        Window::around(20_000, 20_000, 9_999),
        window(19_880, 20_000)
    );
    assert_eq!(Window::parse("40-100"), Some(window(40, 100)));
    assert_eq!(
        Window::parse("0-9999999"),
        Some(window(0, 120)),
        "an address cannot ask for all rows"
    );
    assert_eq!(Window::parse("x-1"), None);
}

#[test]
fn a_window_at_the_end_grows_with_the_run() {
    let window = |first, end| Window { first, end };
    assert_eq!(window(0, 30).grown(30, 31, false), window(0, 31));
    assert_eq!(
        window(0, 120).grown(120, 130, false),
        window(0, 120),
        "a page holds no more"
    );
    assert_eq!(
        window(0, 120).grown(120, 130, true),
        window(10, 130),
        "who follows sees the end"
    );
    assert_eq!(
        window(0, 30).grown(200, 201, false),
        window(0, 30),
        "who reads elsewhere stays"
    );
    assert_eq!(
        window(0, 30).grown(30, 3, false),
        window(0, 3),
        "a file was cut"
    );
}

#[test]
fn a_step_that_an_exception_ended_has_a_panel() {
    let run = Recorded::run("tests/corpus/q060/q060_handoff_loop");
    let view = run.view();
    let html = page(&view, steps(&view, None, None));
    let at = html.find("id=\"pending\"").unwrap();
    let panel = &html[at..at + 600];
    assert!(
        panel.contains("never finished") && panel.contains("tab=events"),
        "{panel}"
    );
    assert_eq!(
        html.matches("href=\"/runs/a%2Fb#pending\"").count(),
        2,
        "the verdict leads there, and the end of the list"
    );
    let ended = Recorded::run("tests/corpus/q060/q060_handoff");
    assert!(!page(&ended.view(), steps(&ended.view(), None, None)).contains("#pending"));
}

#[test]
fn all_steps_stand_in_one_small_picture() {
    let score = |n: usize| {
        format!(
            r#""critic_outputs": [{{"critic_name": "V", "score": 0.{}}}]"#,
            n * 7919 % 1000
        )
    };
    let run = Recorded::steps((0..3_000).map(|n| {
        format!(
            r#"{{"step_id": {n}, "decision": {{"mode": "act"}}, {}}}"#,
            score(n)
        )
    }));
    let html = Strip::new(&run.view(), "", Some(2_999)).render().unwrap();
    let tags = tags(&html);
    assert!(
        tags.len() < 80 && html.len() < 30_000,
        "{} elements, {} bytes",
        tags.len(),
        html.len()
    );
    let links: Vec<_> = tags.iter().filter_map(|tag| tag.get("href")).collect();
    assert!(
        links
            .iter()
            .all(|href| href.starts_with("/runs/a%2Fb?step=")),
        "{links:?}"
    );
    assert!(html.contains("lowest score 0.0"), "{html}");
    let one = Recorded::steps([r#"{"step_id": 0}"#.to_owned()]);
    assert_eq!(
        Strip::new(&one.view(), "", None).render().unwrap().trim(),
        "<div id=\"strip\" hidden></div>"
    );
}

#[test]
fn a_timeline_draws_what_is_timed_and_says_what_is_not() {
    let run = Recorded::run("tests/corpus/q060/q060_handoff_loop");
    let view = run.view();
    let html = page(&view, timeline(&view, "table=1", None));
    let tags = check_page(&html);
    let rows = view.index.steps().len() + 1;
    let table = html.split_once("Timeline as a table").unwrap().1;
    assert_eq!(
        table.matches("<tr><th scope=\"row\"><a").count(),
        rows,
        "the step that never finished is one, too"
    );
    assert!(table.contains("never finished"), "{table}");
    assert!(tags.iter().any(|tag| tag.get("id") == Some("timeline")));
    for class in ["t-m", "t-t", "t-e"] {
        assert!(html.contains(&format!("<rect class=\"{class}")), "{class}");
    }
    let stops = tags
        .iter()
        .filter(|tag| tag.get("data-panel").is_some() && tag.get("tabindex") == Some("0"));
    assert_eq!(stops.count(), 1, "one tab stop");
    let untimed = Recorded::steps((0..90).map(|n| format!(r#"{{"step_id": {n}}}"#)));
    let view = untimed.view();
    let html = page(&view, timeline(&view, "table=1", Some(50)));
    assert!(
        html.contains("No durations are recorded for these steps, so there is no chart."),
        "{html}"
    );
    assert!(
        !html.contains("id=\"lanes\"") && html.contains("Steps 40–59 · 90 steps"),
        "{html}"
    );
}

fn timeline<'a>(view: &'a RunView<'a>, query: &str, step: Option<usize>) -> Content<'a> {
    let shown = timeline::Shown::of(&Params::parse(query), step);
    Content::Timeline(Box::new(Timeline::new(view, shown)))
}

#[test]
fn a_timeline_of_many_steps_has_few_elements() {
    let event = |n: u64, phase: &str, ms: u64| {
        let (s, ms) = (ms / 1_000, ms % 1_000);
        format!(
            r#"{{"step_id": {n}, "phase": "{phase}", "ts": "2026-11-20T{:02}:{:02}:{:02}.{ms:03}+00:00", "payload": {{}}}}"#,
            s / 3_600,
            s / 60 % 60,
            s % 60
        )
    };
    let steps: Vec<String> = (0..3_000)
        .map(|n| format!(r#"{{"step_id": {n}, "decision": {{"mode": "wait"}}}}"#))
        .collect();
    let events: Vec<String> = (0..3_000)
        .flat_map(|n| {
            let at = n * 1_000;
            [event(n, "DECIDE", at), event(n, "ACT", at + 600)]
        })
        .collect();
    let run = Recorded::files([
        ("steps.jsonl", &*steps.join("\n")),
        ("events.jsonl", &*events.join("\n")),
    ]);
    let view = run.view();
    let count = |query: &str| {
        let html = page(&view, timeline(&view, query, None));
        assert!(tags(&html).len() < 800, "{query}: {}", tags(&html).len());
        html.matches("data-panel").count()
    };
    let whole = count("");
    assert!((60..=170).contains(&whole), "{whole}");
    // Ten seconds are ten steps, with those at the edges.
    assert!((18..=24).contains(&count("from=100&to=110")));
    assert!(count("from=nan&to=-1e300") > 0);
    assert!(count("from=1e300&to=-1e300") > 0);
}

#[test]
fn a_run_that_branched_took_no_time_for_the_steps_that_it_copied() {
    let event = |id: u64, phase: &str, at: &str, payload: &str| {
        format!(
            r#"{{"step_id": {id}, "phase": "{phase}", "ts": "2026-11-{at}+00:00", "payload": {{{payload}}}}}"#
        )
    };
    let events = [
        event(0, "INIT", "20T10:00:00", ""),
        event(0, "DECIDE", "20T10:00:01", ""),
        event(0, "ACT", "20T10:05:00", ""),
        event(0, "CHECK_STOP", "20T10:10:00", ""),
        event(1, "INIT", "21T12:00:00", r#""resumed": {"steps": 1}"#),
        event(1, "DECIDE", "21T12:00:01", ""),
        event(1, "END", "21T12:00:07", r#""stop_reason": "final""#),
    ];
    let manifest = r#"{"run_id": "b", "status": "completed", "parent_run_id": "a", "branched_from": {"run_id": "a", "steps": 1},
        "latency_s": 607}"#;
    let step = |id| format!(r#"{{"step_id": {id}, "decision": {{"mode": "wait"}}}}"#);
    let run = Recorded::files([
        ("events.jsonl", &events.map(|event| event + "\n").concat()),
        ("steps.jsonl", &format!("{}\n{}\n", step(0), step(1))),
        ("manifest.json", manifest),
    ]);
    assert_eq!(run.summary.duration_ms, Some(7_000.0));
    let view = run.view();
    let facts = RunHead::new(&view).render().unwrap();
    assert!(
        facts.contains(&crate::page::run_view::micros(7_000_000)),
        "{facts}"
    );
    assert!(
        facts.contains("1 step at the start (counted only in the original run)"),
        "{facts}"
    );
    let shown = timeline::Shown::of(&Params::parse("table=1"), None);
    let timeline = Timeline::new(&view, shown).render().unwrap();
    let copied = "The first step was copied from another run. Times before 0 belong to that run.";
    assert!(timeline.contains(copied), "{timeline}");
    assert_eq!(
        timeline.matches("copied: ").count(),
        1,
        "in the table: {timeline}"
    );
    assert!(
        timeline.contains("\u{2212}25 h 59 min 59.000 s"),
        "it began before this run did: {timeline}"
    );
    assert!(timeline.contains("+1.000 s"), "{timeline}");
}

#[test]
fn the_heading_is_the_title_and_the_path_can_be_copied() {
    let run = Recorded::run("tests/corpus/q060/q060_handoff");
    let title = run.summary.title();
    assert_ne!(title, run.summary.key.name(), "the run has a task");
    let html = RunHead::new(&run.view()).render().unwrap();
    assert!(html.contains(&format!(">{title}</h1>")), "{html}");
    assert!(
        run.view()
            .title("Events")
            .starts_with(&format!("{}: Events", title.trim_end_matches('.')))
    );
    let copies = |html: &str| {
        let is_copy =
            |tag: &crate::page::tests::Tag| tag.get("aria-label") == Some("Copy the path");
        tags(html).iter().filter(|tag| is_copy(tag)).count()
    };
    assert_eq!(copies(&html), 1);
    let view = run.view();
    let saved = RunHead {
        acts: false,
        ..RunHead::new(&view)
    };
    assert_eq!(
        copies(&saved.render().unwrap()),
        0,
        "a file has no scripts for it"
    );
}

#[test]
fn tabs_without_content_are_hidden() {
    let names = |view: &RunView<'_>, current: &str| {
        let step = None;
        let tabs = Tabs {
            view,
            current,
            step,
        }
        .tabs();
        tabs.into_iter().map(|(name, ..)| name).collect::<Vec<_>>()
    };
    let run = Recorded::steps([r#"{"step_id": 0, "decision": {"mode": "wait"}}"#.to_owned()]);
    let view = RunView {
        files: &|| None,
        ..run.view()
    };
    let known = names(&view, "");
    for hidden in ["timeline", "scores", "events", "files"] {
        assert!(!known.contains(&hidden), "{hidden}: {known:?}");
    }
    assert!(
        names(&view, "files").contains(&"files"),
        "the open tab stays"
    );
    let none = Recorded::steps([]);
    let view = none.view();
    for hidden in ["whatif", "state"] {
        assert!(!names(&view, "").contains(&hidden), "{hidden}");
    }
    let whole = Recorded::run("tests/corpus/q060/q060_handoff");
    for shown in ["timeline", "whatif", "state", "events", "files", "manifest"] {
        assert!(names(&whole.view(), "").contains(&shown), "{shown}");
    }
    // The manifest of a run that has none is only shown if it's asked for.
    let alone = Recorded::steps([r#"{"step_id": 0, "decision": {"mode": "wait"}}"#.to_owned()]);
    assert!(!names(&alone.view(), "").contains(&"manifest"));
    assert!(names(&alone.view(), "manifest").contains(&"manifest"));
}

/// A page of events of a long run is about as large as that of a short one, and the other events are
/// behind links.
#[test]
fn a_page_of_events_is_small() {
    let event = |n: usize| {
        format!(
            r#"{{"run_id": "b", "step_id": 0, "phase": "PHASE_{}", "ok": {}, "error": "it failed", "ts": "2026-02-20T10:00:01Z", "payload": {{"stage": "s"}}}}"#,
            n % 20,
            !n.is_multiple_of(3)
        )
    };
    let events: String = (0..1_000).map(|n| event(n) + "\n").collect();
    let run = Recorded::files([("events.jsonl", &events)]);
    let view = run.view();
    let html = EventsTab::new(&view, String::new(), Some(100), None)
        .render()
        .unwrap();
    let elements = tags(&html).len();
    assert!(elements <= 850, "{elements} elements");
    assert!(
        html.contains(">50 earlier<") && html.contains(">50 later<"),
        "{html}"
    );
}
