//! Pages rendered from sample values, asserted by element and attribute, never by layout.

use std::collections::HashSet;

use askama::Template;

use crate::page::error::view::{CloseName, ErrorPage, Link};
use crate::page::part::chart::{Share, Spark, filled, stack};
use crate::page::part::href;
use crate::page::runs::*;
use crate::page::shell::{Place, Pulse, Shell, Skipped, Status, When};

/// A text that ends an attribute, an element and a comment, and that htmx would take for one of its own tags.
pub(crate) const HOSTILE: &str = r#"a"'><script>alert(1)</script><hx-partial hx-target="body">--></title><head>"#;

/// One start tag with its attributes, unescaped.
pub(crate) struct Tag {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// All start tags of `html`. Enough of a parser for what our templates write: attributes are bare or double-quoted
/// (one is single-quoted, the configuration of htmx).
pub(crate) fn tags(html: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        if name.is_empty() {
            continue;
        }
        rest = &rest[name.len()..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start();
            if rest.starts_with('>') || rest.is_empty() {
                break;
            }
            let end = rest.find(['=', '>', ' ', '\n']).unwrap();
            let key = rest[..end].to_owned();
            rest = &rest[end..];
            let mut value = String::new();
            if let Some(quoted) = rest.strip_prefix('=') {
                let quote = quoted.chars().next().unwrap();
                assert!(matches!(quote, '"' | '\''), "an attribute without quotes: {key}");
                let (inside, after) = quoted[1..].split_once(quote).unwrap();
                value = unescape(inside);
                rest = after;
            }
            attributes.push((key, value));
        }
        tags.push(Tag { name, attributes });
    }
    tags
}

fn unescape(text: &str) -> String {
    text.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"").replace("&#39;", "'").replace("&#38;", "&")
}

fn by_id<'a>(tags: &'a [Tag], id: &str) -> &'a Tag {
    tags.iter().find(|tag| tag.get("id") == Some(id)).unwrap_or_else(|| panic!("no element #{id}"))
}

/// What holds for every page: ids once, nothing inline, references that resolve, one heading, one main.
pub(crate) fn check_page(html: &str) -> Vec<Tag> {
    let tags = tags(html);
    let mut ids = HashSet::new();
    for id in tags.iter().filter_map(|tag| tag.get("id")) {
        assert!(ids.insert(id), "the id {id} occurs twice");
    }
    for tag in &tags {
        assert!(tag.name != "style" && tag.get("style").is_none(), "inline style on {}", tag.name);
        assert!(!tag.attributes.iter().any(|(key, _)| key.starts_with("on") || key.starts_with("hx-on")));
        assert!(tag.name != "script" || tag.get("src").is_some(), "an inline script");
        if tag.name == "use" {
            assert!(ids.contains(&tag.get("href").unwrap()[1..]), "no symbol {:?}", tag.get("href"));
        }
        for key in ["aria-labelledby", "aria-describedby", "for", "popovertarget"] {
            assert!(tag.get(key).is_none_or(|id| ids.contains(id)), "{key} points nowhere: {:?}", tag.get(key));
        }
    }
    for name in ["h1", "main"] {
        assert_eq!(tags.iter().filter(|tag| tag.name == name).count(), 1, "one {name} in a page");
    }
    tags
}

fn shell(place: Place) -> Shell {
    Shell {
        title: "Runs (130)".into(),
        root: "./runs".into(),
        stream: Some("/events".into()),
        revision: 17,
        boot: "b1".into(),
        ended: false,
        place,
    }
}

fn pulse() -> Pulse {
    Pulse { url: "/runs-pulse?at=17".into(), revision: 17, ..Pulse::default() }
}

fn when(words: &str) -> When {
    When { iso: "2026-11-21T20:31:36+00:00".into(), words: words.into(), title: "21 Nov 2026, 20:31:36 UTC".into() }
}

fn chip(label: &str, count: usize, status: Option<Status>, active: bool) -> Chip {
    Chip { label: label.into(), count: count.to_string(), href: href::runs(label), active, status }
}

fn row(key: &str, status: Status, verdict: &str) -> RunRow {
    RunRow {
        id: href::run_id(key),
        href: href::run(key),
        mark: key.into(),
        marked: false,
        key: key.into(),
        name: key.into(),
        task: Some("Fix calc.py so that test_calc.py passes, then say what you changed.".into()),
        status,
        verdict: verdict.into(),
        note: None,
        issues: None,
        steps: StepsCell {
            done: "9".into(),
            limit: Some(StepsLimit { limit: "14".into(), filled: filled(9, 14), ended: status == Status::Limit }),
        },
        score: None,
        duration: Some("38.6 s".into()),
        tokens: Some("12.9 k".into()),
        model: Some("Qwen3-8B".into()),
        updated: Some(when("4 s ago")),
        is_new: false,
    }
}

/// About thirty rows, with every element once.
fn table() -> RunsTable {
    let all = [
        (Status::Running, "Step 9 of 14: waiting for run_python · 4 s"),
        (Status::Answered, "Answered at step 5"),
        (Status::Limit, "Step budget used up: 14 of 14 steps"),
        (Status::OwnRule, "The environment ended the episode at step 6"),
        (Status::CriticStop, "Stopped by EvidenceCritic at 0.0: result is not supported by evidence"),
        (Status::Error, "system_error in step 3: CUDA out of memory"),
        (Status::Cancelled, "Interrupted from outside in step 4, during Act"),
        (Status::Quiet, "Step 3 of 40: thinking · 31 s"),
        (Status::Stalled, "Quiet for 4 min in step 2 · slowest step so far took 3.4 s"),
        (Status::Died, "Crashed in step 1: torn down without an END event"),
        (Status::Unknown, "Stopped with \"mystery\", a reason the board does not know"),
        (Status::Indexing, "indexing, 41 % of 400 MB read"),
    ];
    let mut rows: Vec<RunRow> = (0..30)
        .map(|n| {
            let (status, verdict) = all[n % all.len()];
            row(&format!("q060_sample/run_{n:02}"), status, verdict)
        })
        .collect();
    rows[0].is_new = true;
    rows[0].score = Some(ScoreCell { last: "0.20".into(), spark: Spark::new(&[0.1, 0.4, 0.2, 0.3].map(Some)) });
    rows[1].note = Some("2 critic retries".into());
    rows[2].score = Some(ScoreCell { last: "7.00".into(), spark: None });
    rows[4].issues = Some(("3 issues".into(), href::tab("q060_sample/run_04", "issues")));
    rows[9].steps = StepsCell { done: "none".into(), limit: None };
    rows[9].model = None;
    rows[9].tokens = None;
    let share = |status, name: &str, count| Share { status, name: name.into(), count, href: href::runs(name) };
    RunsTable {
        head: RunsHead {
            count: "130 in".into(),
            root: "./runs".into(),
            counts: vec!["1 running".into(), "1 stalled".into()],
            changed: Some(when("4 s ago")),
            indexing: Some("indexing 120 of 2,000".into()),
        },
        strip: Strip {
            label: "Summary of 130 runs".into(),
            answered: "60 %".into(),
            of: "78 of 128 ended".into(),
            note: Some(("3 of them disagree with success".into(), href::runs("x"))),
            segments: stack(vec![
                share(Status::Answered, "final", 77),
                share(Status::OwnRule, "env_terminal", 4),
                share(Status::Limit, "budget_steps", 12),
                share(Status::CriticStop, "critic_stop", 3),
                share(Status::Cancelled, "cancelled_immediate", 1),
                share(Status::Error, "unrecoverable_error", 12),
                share(Status::Died, "died", 19),
            ]),
            nothing: "No run has ended yet.",
            legend: vec![
                chip("answered", 78, Some(Status::Answered), false),
                chip("limits", 12, Some(Status::Limit), false),
                chip("died", 19, Some(Status::Died), false),
            ],
            medians: vec![
                ("median steps", "4".into()),
                ("duration", "40 ms".into()),
                ("tokens", "2,606".into()),
                ("last score", "0.80".into()),
            ],
        },
        search: Search {
            query: "steps>1 nope:1".into(),
            sort: Some("steps".into()),
            clear: Some("/".into()),
            ignored: vec![("nope:1".into(), "is not a field; text is searched without a colon".into())],
        },
        facets: Facets {
            groups: vec![
                Facet {
                    name: "Status",
                    chips: vec![
                        chip("all", 130, None, true),
                        chip("running", 1, Some(Status::Running), false),
                        chip("answered", 78, Some(Status::Answered), false),
                        chip("limit", 12, Some(Status::Limit), false),
                    ],
                    more: vec![],
                },
                Facet {
                    name: "Stop reason",
                    chips: vec![chip("final", 77, None, false), chip("budget_steps", 5, None, false)],
                    more: vec![chip("env_terminal", 2, None, false), chip("stagnation", 2, None, false)],
                },
                Facet { name: "Model", chips: vec![chip("not recorded", 104, None, false)], more: vec![] },
            ],
        },
        caption: "Runs, newest change first".into(),
        columns: columns(Some(("updated", Direction::Descending)), |field| {
            (field != "verdict").then(|| href::with_query("/", &[("sort", field)]))
        }),
        rows,
        no_match: None,
        tray: Tray::default(),
        foot: RunsFoot {
            showing: "Showing 30 of 130".into(),
            first: None,
            more: Some(("Show 100 more".into(), href::with_query("/", &[("after", "x")]))),
            watch: "watching with file notifications".into(),
            looked: Some(when("2 s ago")),
            skipped_label: "2 directories skipped".into(),
            skipped: vec![Skipped { name: "old/tmp".into(), reason: "no manifest, no steps, no events".into() }],
        },
    }
}

fn page(body: RunsBody) -> RunsPage {
    RunsPage { shell: shell(Place::Runs), pulse: pulse(), body }
}

fn empty() -> EmptyRoot {
    EmptyRoot {
        root: "./runs".into(),
        looked: Some(when("1 s ago")),
        found: "0 directories, 0 files".into(),
        watch: "file notifications, and a full look every 5 s".into(),
        ..EmptyRoot::default()
    }
}

fn not_found() -> ErrorPage {
    ErrorPage {
        shell: shell(Place::None),
        pulse: Some(pulse()),
        status: 404,
        title: "There is no run called".into(),
        thing: Some("q060_critic_retri".into()),
        detail: "The board looked in ./runs 1 s ago and knows 130 runs. This page turns into the run when it appears."
            .into(),
        close: vec![CloseName {
            name: "q060_critic_retry".into(),
            href: href::run("q060_critic_retry"),
            note: "answered, 6 steps, 5 min ago".into(),
        }],
        links: vec![
            Link { text: "All runs".into(), href: href::runs("") },
            Link { text: "Search for “critic_retri”".into(), href: href::runs("critic_retri") },
        ],
        ..ErrorPage::default()
    }
}

#[test]
fn the_run_table_says_what_it_shows() {
    let html = page(RunsBody::Table(Box::new(table()))).render().unwrap();
    let tags = check_page(&html);
    let body = tags.iter().find(|tag| tag.name == "body").unwrap();
    assert_eq!((body.get("data-stream"), body.get("data-rev")), (Some("/events"), Some("17")));
    assert_eq!((body.get("data-boot"), body.get("data-ended")), (Some("b1"), None));

    let rows: Vec<_> = tags.iter().filter(|tag| tag.get("id").is_some_and(|id| id.starts_with("run-"))).collect();
    assert_eq!(rows.len(), 30);
    assert_eq!(rows[0].get("class"), Some("isnew"));
    assert!(tags.iter().any(|tag| tag.get("href") == Some("/runs/q060_sample%2Frun_07")));
    let sorted: Vec<_> = tags.iter().filter_map(|tag| tag.get("aria-sort")).collect();
    assert_eq!(sorted, ["descending"]);
    assert_eq!(by_id(&tags, "q").get("value"), Some("steps>1 nope:1"));
    assert_eq!(by_id(&tags, "q").get("aria-describedby"), Some("ignored"));
    assert!(tags.iter().any(|tag| tag.get("name") == Some("sort") && tag.get("value") == Some("steps")));
    assert_eq!(
        tags.iter().filter(|tag| tag.get("class") == Some("f-warn") && tag.get("height") == Some("6")).count(),
        3
    );
    let here: Vec<_> = tags.iter().filter_map(|tag| tag.get("aria-current")).collect();
    assert_eq!(here, ["page", "true"], "the place, and the chip that is on");
    assert!(html.contains("indexing 120 of 2,000") && html.contains("2 directories skipped"));
}

#[test]
fn a_filter_without_a_match_leads_on() {
    let mut table = table();
    let drop = Without { term: "steps>99".into(), count: "12 runs".into(), href: href::runs("nope") };
    table.no_match = Some(NoMatch { query: "steps>99 nope".into(), drops: vec![drop], all: "/".into() });
    table.strip.segments.clear();
    let html = page(RunsBody::Table(Box::new(table))).render().unwrap();
    let tags = check_page(&html);
    assert!(!tags.iter().any(|tag| tag.name == "table"));
    assert!(html.contains("No run matches") && html.contains("12 runs"));
    assert!(tags.iter().any(|tag| tag.get("href") == Some("/?q=nope")));
}

#[test]
fn an_empty_root_says_where_and_how_it_looks() {
    let html = page(RunsBody::Empty(Box::new(empty()))).render().unwrap();
    check_page(&html);
    assert!(html.contains("No runs here yet") && html.contains("board serve DIR"));
    let missing = EmptyRoot { trouble: Some("./runs does not exist yet".into()), ..empty() };
    assert!(page(RunsBody::Empty(Box::new(missing))).render().unwrap().contains("<h1>./runs does not exist yet</h1>"));
}

#[test]
fn an_error_page_leads_on() {
    let html = not_found().render().unwrap();
    let tags = check_page(&html);
    assert!(tags.iter().any(|tag| tag.get("href") == Some("/runs/q060_critic_retry")));
    assert!(tags.iter().any(|tag| tag.get("class") == Some("btn main") && tag.get("href") == Some("/")));
    let dead = ErrorPage { shell: Shell::default(), pulse: None, ..not_found() }.render().unwrap();
    let tags = check_page(&dead);
    assert!(tags.iter().all(|tag| tag.get("data-live").is_none() && tag.get("data-stream").is_none()));
}

#[test]
fn a_pulse_touches_only_what_changed() {
    let parts = RunsParts {
        changed: vec![row("b/b", Status::Running, "Step 2")],
        fresh: vec![row("new", Status::Running, "Step 0"), row("new2", Status::Running, "Step 0")],
        gone: vec![href::run_id("old")],
        ..RunsParts::default()
    };
    let pulse = Pulse { count: 2, noun: "run", say: Some("a run ended".into()), ..pulse() };
    let html =
        RunsPulse { pulse, title: "Runs (131)".into(), news: RunsNews::Parts(Box::new(parts)) }.render().unwrap();
    let tags = tags(&html);
    let targets: Vec<_> = tags
        .iter()
        .filter(|tag| tag.name == "hx-partial")
        .map(|tag| (tag.get("hx-target").unwrap(), tag.get("hx-swap").unwrap()))
        .collect();
    assert_eq!(
        targets,
        [
            ("#run-b_2fb", "outerMorph"),
            ("#run-old", "delete"),
            ("#rows", "afterbegin"),
            ("#head", "outerMorph"),
            ("#strip", "outerMorph"),
            ("#facets", "outerMorph"),
            ("#foot", "outerMorph"),
        ]
    );
    assert!(html.starts_with("<div id=\"pulse\""), "htmx finds the next pulse first");
    assert_eq!(
        (by_id(&tags, "pulse").get("data-count"), by_id(&tags, "pulse").get("data-noun")),
        (Some("2"), Some("run"))
    );
    for (before, after) in [("outerMorph\"", "<"), ("afterbegin\"", "<")] {
        assert!(
            html.split(before).skip(1).all(|part| part.starts_with(&format!(">{after}"))),
            "a blank would be added"
        );
    }
    assert!(html.split("</hx-partial>").all(|part| !part.ends_with('\n')), "a blank would be added");

    let quiet = RunsPulse { pulse: self::pulse(), title: "Runs".into(), news: RunsNews::Nothing }.render().unwrap();
    assert!(!quiet.contains("hx-partial"));
}

/// Puts `HOSTILE` wherever a text can be.
fn hostile() -> RunsTable {
    let text = || HOSTILE.to_owned();
    let mut table = table();
    table.head = RunsHead { count: text(), root: text(), counts: vec![text()], changed: None, indexing: Some(text()) };
    table.search =
        Search { query: text(), sort: Some(text()), clear: Some(href::runs(HOSTILE)), ignored: vec![(text(), text())] };
    table.facets.groups[0].chips = vec![chip(HOSTILE, 1, None, true)];
    table.strip.label = text();
    table.strip.note = Some((text(), href::runs(HOSTILE)));
    table.strip.segments = stack(vec![Share { status: Status::Limit, name: text(), count: 3, href: text() }]);
    table.foot.skipped = vec![Skipped { name: text(), reason: text() }];
    table.rows = vec![row(HOSTILE, Status::Error, HOSTILE)];
    table.rows[0].task = Some(text());
    table.rows[0].note = Some(text());
    table.rows[0].issues = Some((text(), href::tab(HOSTILE, "issues")));
    table.rows[0].model = Some(text());
    table.rows[0].tokens = Some(text());
    table.rows[0].updated = Some(When { iso: text(), words: text(), title: text() });
    table
}

#[test]
fn hostile_text_stays_text() {
    let text = || HOSTILE.to_owned();
    let shell = || Shell { title: text(), root: text(), stream: Some(text()), boot: text(), ..shell(Place::Run) };
    let pulse = || Pulse { url: text(), say: Some(text()), ..pulse() };
    let drop = Without { term: text(), count: text(), href: text() };
    let none = NoMatch { query: text(), drops: vec![drop], all: text() };
    let no_match = RunsTable { no_match: Some(none), ..hostile() };
    let empty = EmptyRoot { root: text(), trouble: Some(text()), found: text(), watch: text(), ..hostile_empty() };
    let pages =
        [RunsBody::Table(Box::new(hostile())), RunsBody::Table(Box::new(no_match)), RunsBody::Empty(Box::new(empty))]
            .map(|body| RunsPage { shell: shell(), pulse: pulse(), body }.render().unwrap());
    let error = ErrorPage {
        shell: shell(),
        pulse: Some(pulse()),
        asks_token: true,
        title: text(),
        thing: Some(text()),
        detail: text(),
        hints: vec![text()],
        close: vec![CloseName { name: text(), href: href::run(HOSTILE), note: text() }],
        links: vec![Link { text: text(), href: href::runs(HOSTILE) }],
        incident: Some(text()),
        ..ErrorPage::default()
    };
    for html in pages.into_iter().chain([error.render().unwrap()]) {
        let tags = check_page(&html);
        assert!(
            !html.contains("alert(1)</script>") && !html.contains("<hx-partial") && html.matches("<head>").count() == 1
        );
        assert!(
            tags.iter().filter(|tag| tag.name == "script").all(|tag| tag.get("src").unwrap().starts_with("/static/"))
        );
    }
    let parts = RunsParts { changed: hostile().rows, ..RunsParts::default() };
    let news = RunsPulse { pulse: pulse(), title: text(), news: RunsNews::Parts(Box::new(parts)) }.render().unwrap();
    assert_eq!(tags(&news).iter().filter(|tag| tag.name == "hx-partial").count(), 5);
    assert!(!news.contains("<script") && !news.contains("<head>"));
}

fn hostile_empty() -> EmptyRoot {
    EmptyRoot { skipped: vec![Skipped { name: HOSTILE.into(), reason: HOSTILE.into() }], ..EmptyRoot::default() }
}

#[test]
fn every_status_has_a_shape_and_a_word() {
    let all = [
        Status::Answered,
        Status::Limit,
        Status::OwnRule,
        Status::CriticStop,
        Status::Error,
        Status::Cancelled,
        Status::Running,
        Status::Quiet,
        Status::Stalled,
        Status::Died,
        Status::Unknown,
        Status::Indexing,
    ];
    let sprite = include_str!("../../templates/part/sprite.html");
    let mut seen = HashSet::new();
    for status in all {
        assert!(sprite.contains(&format!("id=\"{}\"", status.icon())));
        assert!(seen.insert(status.word()) && seen.insert(status.icon()), "{status:?} looks like another one");
        assert!(status.render().unwrap().contains(status.word()));
        assert!(!status.mark().render().unwrap().contains(&format!("{}</span>", status.word())));
    }
}

#[test]
fn scripts_are_small_and_make_no_markup() {
    // The script of a saved run is one file, because the export is one.
    let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/static")).unwrap().flatten();
    let paths = sources.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "js"));
    let joined = crate::page::assets::find("head.js").unwrap().text.to_owned()
        + crate::page::assets::find("board.js").unwrap().text;
    for path in paths.filter(|path| !path.ends_with("export.js")) {
        let (name, text) = (path.display(), std::fs::read_to_string(&path).unwrap());
        assert!(joined.contains(&text), "{name} is not served");
        assert!(text.lines().count() < 100, "{name} is too long");
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", ".style"] {
            assert!(!text.contains(forbidden), "{name} uses {forbidden}");
        }
    }
}
