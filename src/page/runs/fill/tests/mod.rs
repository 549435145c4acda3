use std::collections::BTreeMap;

use askama::Template;
use jiff::tz::TimeZone;

use crate::analysis::columns::{Column, UPDATED};
use crate::analysis::run_result::ShownStatus;
use crate::analysis::select::sample::{many, run};
use crate::analysis::summary::Summary;
use crate::analysis::verdict::{LimitFrom, Note, NoteKind, RunStatus, StepLimit};
use crate::live::{Skipped, SkippedKind, SkippedTotal};
use crate::model::{Origin, RunKey};
use crate::page::runs::fill::list::*;
use crate::page::runs::fill::row::Row;
use crate::page::runs::fill::*;
use crate::page::runs::saved::{SavedViews, View};
use crate::page::shell::Status;
use crate::page::tests::{HOSTILE, by_id, check_page, tags};

mod bar;
mod follow;
mod grouped;
mod stores;
mod windows;

fn ctx(query: &str) -> ListContext {
    ListContext {
        roots: vec![Root {
            shown: "./runs".into(),
            ..Root::default()
        }],
        stores: Vec::new(),
        elsewhere: Vec::new(),
        watch: Watch::Native,
        duplicates: 0,
        looked: Some(999_998_000_000),
        indexing: None,
        now: 1_000_000_000_000,
        zone: TimeZone::UTC,
        query: query.into(),
        sort: Sort::default(),
        group: None,
        limit: WINDOW,
        after: None,
        revision: 17,
        boot: "b1".into(),
        since: None,
        marks: Vec::new(),
        rows: None,
        columns: String::new(),
        chosen: Vec::new(),
        views: SavedViews::default().views,
        marking: false,
    }
}

fn listed(runs: Vec<Summary>) -> Vec<Listed> {
    let one = |(at, run)| Listed {
        summary: Arc::new(run),
        revision: at as u64 + 1,
        born: at as u64 + 1,
    };
    runs.into_iter().enumerate().map(one).collect()
}

/// Returns the body of the page. Leaks its inputs, so that they last for the rest of the test.
fn table(ctx: &ListContext, runs: Vec<Summary>) -> RunsBody<'static> {
    page(Box::leak(Box::new(ctx.clone())), listed(runs).leak()).body
}

fn row_of(run: Summary) -> Row<'static> {
    table(&ctx(""), vec![run]).rows.remove(0)
}

fn words(row: &Row<'_>, name: &str) -> Option<String> {
    row.words(Column::find(name).unwrap())
}

/// Returns the context of the next request from a page with this pulse.
fn ask(ctx: &ListContext, pulse: &Pulse) -> ListContext {
    let (path, query) = pulse.url.split_once('?').unwrap();
    assert_eq!(path, PULSE);
    let decode = |text: &str| {
        percent_encoding::percent_decode_str(text)
            .decode_utf8()
            .unwrap()
            .into_owned()
    };
    let pairs: BTreeMap<&str, String> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name, decode(value)))
        .collect();
    let get = |name| pairs.get(name).cloned();
    assert_eq!(get("q").unwrap_or_default(), ctx.query);
    ListContext {
        since: Some(get("since").unwrap().parse().unwrap()),
        rows: get("rows"),
        after: get("after"),
        columns: get("columns").unwrap_or_default(),
        ..ctx.clone()
    }
}

#[test]
fn a_row_says_what_is_known() {
    let mut run = run("sweep/a", RunStatus::Answered, Some("final"));
    run.verdict.sentence = "Answered at step 5 · 2 critic retries · after 1 recovered error".into();
    run.verdict.notes = [
        Note::new(NoteKind::Other, "2 critic retries"),
        Note::new(NoteKind::Recovered, "after 1 recovered error"),
    ]
    .into();
    run.task = Some("Fix\n  calc.py.".into());
    run.spark = thin_vec::thin_vec![0.2, 0.9];
    run.last_score = Some(0.9);
    run.tokens = Some(12_900);
    run.model = Some("Qwen3-8B".into());
    run.issues = (5, 2);
    let row = row_of(run);
    assert_eq!(
        (row.id().as_str(), row.short_name().as_str()),
        ("run-sweep_2fa", "sweep/a")
    );
    let note = "2 critic retries · after 1 recovered error".to_owned();
    assert_eq!(
        (row.status(), row.verdict()),
        (
            Status::Of(ShownStatus::Finished),
            ("Answered at step 5".to_owned(), Some(note))
        )
    );
    assert_eq!(row.title(), "Fix");
    assert_eq!(row.end(), "Finished, 2 critic retries");
    let html = row.render().unwrap();
    let tags = tags(&html);
    assert!(
        html.contains("<td role=\"cell\" class=\"c-steps r\">6<td"),
        "{html}"
    );
    let links: Vec<_> = tags
        .iter()
        .filter_map(|tag| tag.get("href"))
        .filter(|href| href.starts_with('/'))
        .collect();
    assert_eq!(links, ["/runs/sweep%2Fa", "/runs/sweep%2Fa?tab=issues"]);
    assert!(!row.is_ended_by(&row.limit().unwrap()) && row.spark().is_some());
    assert_eq!(words(&row, "score").as_deref(), Some("0.90"));
    assert_eq!(
        (
            words(&row, "duration").as_deref(),
            words(&row, "tokens").as_deref()
        ),
        (Some("1 min 31 s"), Some("12.9k"))
    );
    assert_eq!(row.issues().as_deref(), Some("2 problems, 3 notes"));
    let updated = row.when(UPDATED).unwrap();
    assert_eq!(
        (updated.words.as_str(), updated.iso.as_str()),
        ("1 min ago", "1970-01-12T13:45:40.000000+00:00")
    );
}

#[test]
fn what_is_not_known_is_left_out() {
    let mut run = run("x", RunStatus::Died, None);
    (run.steps, run.steps_now) = (0, 0);
    (run.duration_ms, run.updated, run.model) = (Some(-1.0), None, Some("".into()));
    run.issues = (3, 0);
    let row = row_of(run);
    assert_eq!((row.steps().as_str(), row.limit()), ("0", None));
    for name in ["duration", "tokens", "model", "score", "updated"] {
        assert_eq!(words(&row, name), None, "{name}");
    }
    assert!(row.issues().is_none() && row.verdict().1.is_none());
    assert_eq!((row.title().as_str(), row.place()), ("x", None));
    assert_eq!(
        row.render().unwrap().matches(">–<").count(),
        1,
        "columns without any value are not there, and a duration can't be negative"
    );
}

#[test]
fn the_bar_is_amber_only_if_this_limit_ended_the_run() {
    let ended = |mark, reason, done, from| {
        let mut run = run("x", mark, Some(reason));
        run.steps_now = done;
        run.verdict.limit = Some(StepLimit { steps: 40, from });
        let row = row_of(run);
        row.limit().is_some_and(|limit| row.is_ended_by(&limit))
    };
    assert!(ended(
        RunStatus::Limit,
        "budget_steps",
        40,
        LimitFrom::SetBy(Origin::Task)
    ));
    assert!(ended(
        RunStatus::Limit,
        "budget_steps",
        40,
        LimitFrom::Inferred
    ));
    assert!(ended(
        RunStatus::Limit,
        "max_steps",
        41,
        LimitFrom::SetBy(Origin::Task)
    ));
    assert!(!ended(
        RunStatus::Limit,
        "max_steps",
        5,
        LimitFrom::SetBy(Origin::Task)
    ));
    assert!(
        !ended(RunStatus::Limit, "max_steps", 40, LimitFrom::State),
        "the state's is no limit that is shown"
    );
    assert!(!ended(
        RunStatus::Limit,
        "budget_time",
        40,
        LimitFrom::SetBy(Origin::Task)
    ));
    assert!(!ended(
        RunStatus::Running,
        "budget_steps",
        40,
        LimitFrom::SetBy(Origin::Task)
    ));
}

#[test]
fn a_run_that_is_still_read_says_so() {
    let mut run = run("x", RunStatus::Died, None);
    run.partial = true;
    let row = row_of(run);
    assert_eq!(
        (row.status(), row.verdict().0.as_str()),
        (Status::Indexing, "Indexing, 6 steps so far")
    );
}

#[test]
fn long_names_keep_their_end() {
    let name = |key: &str| row_of(run(key, RunStatus::Answered, None)).short_name();
    let long = format!("{}_tail_of_name", "ä".repeat(90));
    let shown = name(&long);
    assert_eq!(shown.chars().count(), 28);
    assert!(
        shown.ends_with("_tail_of_name") && shown.starts_with("ää") && shown.contains('…'),
        "{shown}"
    );
    assert_eq!(name(&"x".repeat(28)), "x".repeat(28));
    assert_eq!(name(&format!("{}/attempt 7", "x".repeat(28))), "attempt 7");
    let mut run = run("x", RunStatus::Error, None);
    run.verdict.sentence = "e ".repeat(2_000).into();
    assert_eq!(row_of(run).verdict().0.chars().count(), 240);
}

#[test]
fn the_page_counts_what_it_shows() {
    let runs = || many(700);
    let (unfiltered, filter, listed) = (ctx(""), ctx("status:running,died foo:1"), listed(runs()));
    let all = page(&unfiltered, &listed);
    assert_eq!(
        (all.shell.title.as_str(), all.shell.stream.as_deref()),
        ("Runs (700)", Some("/events"))
    );
    assert_eq!((all.pulse.count, all.pulse.revision), (0, 17));
    let list = &all.body.list;
    let live: Vec<_> = list
        .live()
        .into_iter()
        .map(|chip| (chip.label, chip.count))
        .collect();
    assert_eq!(
        (list.matched().as_str(), live),
        ("700", vec![("running".to_owned(), Some(100))])
    );
    assert_eq!(all.body.rows.len(), 200);
    assert_eq!(list.showing(&200), "Showing 200 of 700");
    let more = list.more().unwrap();
    assert_eq!((&*more.text, &*more.href), ("Show 200 more", "/?limit=400"));
    assert_eq!(list.first(), None);

    let filtered = page(&filter, &listed);
    assert_eq!(filtered.shell.title, "Runs (200 of 700)");
    let list = &filtered.body.list;
    assert_eq!(
        (list.matched().as_str(), list.cleared().as_str()),
        ("200 of 700", "/")
    );
    assert_eq!(list.query.ignored.len(), 1);
    let chips: Vec<_> = list
        .every_status()
        .into_iter()
        .chain(list.live())
        .chain(list.ends())
        .collect();
    let chip = |label: &str| chips.iter().find(|chip| chip.label == label).unwrap();
    assert!(
        chip("running").active
            && chip("died").active
            && !chip("all").active
            && !chip("finished").active
    );
    assert_eq!(
        (chip("all").count, chip("finished").count),
        (Some(700), Some(100))
    );
    assert_eq!(chip("running").href, "/?q=status%3Adied%20foo%3A1");
    assert_eq!(chip("all").href, "/?q=foo%3A1");
    assert!(list.more().is_none());
}

#[test]
fn many_words_do_not_fill_the_page() {
    let mut runs = many(700);
    for (n, run) in runs.iter_mut().enumerate() {
        run.model = Some(format!("model {n}").into());
        run.verdict.mark = RunStatus::Unknown;
        run.verdict.stop_reason = Some(format!("reason {n}").into());
    }
    let list = table(&ctx("model=\"model 699\""), runs).list;
    let models = &list.facets()[1].sections[0].chips;
    assert_eq!(models.len(), 62);
    assert!(
        models
            .iter()
            .any(|chip| chip.label == "model 699" && chip.active),
        "what is on is in sight"
    );
    let last = models.last().unwrap();
    assert_eq!(
        (last.label.as_str(), last.count),
        ("639 more: list sorted by model", Some(639))
    );
    assert!(last.href.ends_with("&sort=model"));
    let stops = &list.facets()[0].sections;
    assert!(stops.iter().map(|kind| kind.chips.len()).sum::<usize>() <= 61);
}

#[test]
fn a_stop_reason_has_a_place_for_each_way_in_which_its_runs_ended() {
    let mut runs = many(4);
    let marks = [
        RunStatus::Limit,
        RunStatus::Error,
        RunStatus::Limit,
        RunStatus::Limit,
    ];
    for (run, mark) in runs.iter_mut().zip(marks) {
        run.verdict.mark = mark;
        run.verdict.stop_reason = Some("message".into());
    }
    runs[3].verdict.stop_reason = Some("max_steps".into());
    let list = table(&ctx(""), runs).list;
    let facets = list.facets();
    let section = |at: usize| {
        let section = &facets[0].sections[at];
        let chips = section.chips.iter();
        let chips = chips.map(|chip| format!("{} {:?}", chip.label, chip.count));
        (section.name, chips.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(
        section(0),
        ("Limits", "message Some(3), max_steps Some(1)".to_owned())
    );
    assert_eq!(section(1), ("Errors", "message Some(3)".to_owned()));
    assert_eq!(facets[0].sections.len(), 2);
}

#[test]
fn head_cells_sort_and_reverse() {
    let ctx = ListContext {
        sort: "steps".parse().unwrap(),
        limit: 50,
        ..ctx("x")
    };
    let list = table(&ctx, many(3)).list;
    let column = |label: &str| {
        let mut columns = list.columns.iter();
        columns.find(|(_, cell)| cell.head == label).unwrap()
    };
    let steps = column("steps");
    assert_eq!(list.descending(steps), Some(true));
    assert_eq!(
        list.sorted(steps).as_deref(),
        Some("/?q=x&sort=-steps&limit=50")
    );
    assert_eq!(
        list.sorted(column("updated")).as_deref(),
        Some("/?q=x&limit=50")
    );
    // A title stands for the name, and a verdict begins with the status.
    assert_eq!(
        list.sorted(column("title")).as_deref(),
        Some("/?q=x&sort=title&limit=50")
    );
    assert_eq!(
        list.sorted(column("verdict")).as_deref(),
        Some("/?q=x&sort=status&limit=50")
    );
    assert_eq!(list.descending(column("updated")), None);
    assert_eq!(list.caption(), "Runs by steps, most first");
    assert_eq!(list.sort().as_deref(), Some("steps"));
}

#[test]
fn no_match_leads_on() {
    let none = table(&ctx("steps>99 status:died nonsense"), many(70));
    assert!(none.render().unwrap().contains("No runs match"));
    let drops = none.list.drops();
    let drops: Vec<_> = drops
        .iter()
        .map(|(term, count, _)| (term.as_str(), count.as_str()))
        .collect();
    assert_eq!(
        drops,
        [
            ("steps>99", "0 runs"),
            ("status:died", "0 runs"),
            ("nonsense", "0 runs")
        ]
    );
    let drops = table(&ctx("steps>90 status:died -fix"), many(70))
        .list
        .drops();
    assert_eq!(drops[2].2, "/?q=steps%3E90%20status%3Adied");
    assert_ne!(drops[2].1, "0 runs");
}

#[test]
fn an_empty_root_says_what_is_wrong() {
    let empty = |ctx: &ListContext| table(ctx, Vec::new()).list;
    let plain = empty(&ctx(""));
    assert_eq!(
        (
            plain.ctx.root().as_str(),
            plain.trouble(),
            plain.found().as_str()
        ),
        ("./runs", None, "empty")
    );
    assert_eq!(
        plain.looked().unwrap().words,
        "33 min ago".replace("33 min", "2 s")
    );
    let root = |fault: Option<&str>, skipped: &[&str]| Root {
        shown: "./runs".into(),
        fault: fault.map(str::to_owned),
        skipped_total: SkippedTotal {
            directories: skipped.len(),
            ..SkippedTotal::default()
        },
        skipped: skipped
            .iter()
            .map(|name| Skipped {
                path: (*name).into(),
                reason: "contains no trace files".into(),
                kind: SkippedKind::Directory,
            })
            .collect(),
    };
    let with = |roots| ListContext { roots, ..ctx("") };
    let missing = empty(&with(vec![root(Some("it does not exist yet"), &[])]));
    assert_eq!(
        missing.trouble().as_deref(),
        Some("./runs does not exist yet")
    );
    assert_eq!(missing.skipped_below(), []);
    let denied = empty(&with(vec![root(
        Some("Permission denied (os error 13)"),
        &[],
    )]));
    assert_eq!(
        denied.trouble().as_deref(),
        Some("Can't read ./runs: Permission denied (os error 13)")
    );
    let three = empty(&with(vec![root(None, &["a", "b", "c"])]));
    assert_eq!(
        (three.found().as_str(), three.skipped_below().len()),
        ("3 directories without a run", 3)
    );
    let two = empty(&with(vec![
        root(None, &["a"]),
        root(Some("it does not exist yet"), &[]),
    ]));
    assert_eq!(
        (two.ctx.root().as_str(), two.trouble(), two.found().as_str()),
        ("./runs, ./runs", None, "1 directory without a run")
    );
    assert_eq!(
        two.skipped_below()
            .iter()
            .map(|s| s.name.clone())
            .collect::<Vec<_>>(),
        ["./runs", "./runs/a"]
    );
    let other = ListContext {
        elsewhere: vec![("Codex", "/home/me/.codex/sessions".into())],
        ..ctx("")
    };
    let html = page(&other, &[]).render().unwrap();
    assert!(
        html.contains("/home/me/.codex/sessions") && html.contains("board serve --sessions"),
        "{html}"
    );
    assert!(
        !page(&ctx(""), &[])
            .render()
            .unwrap()
            .contains("board serve --sessions")
    );
    let early = empty(&ListContext {
        looked: None,
        watch: Watch::Poll("asked for".into()),
        ..ctx("")
    });
    assert_eq!(
        (early.found().as_str(), early.watch().as_str()),
        ("the first scan is in progress", "polling: asked for")
    );

    let many: Vec<String> = (0..500).map(|n| format!("d{n}")).collect();
    let names: Vec<&str> = many.iter().map(String::as_str).collect();
    let (skipped, words) = table(&with(vec![root(None, &names)]), self::many(1))
        .list
        .skipped();
    assert_eq!(
        (words.as_str(), skipped.len()),
        ("500 directories without runs", 101)
    );
    assert_eq!(skipped[100].reason, "400 more");
}

#[test]
fn hostile_names_stay_text() {
    let text = || HOSTILE.to_owned();
    let names = [
        HOSTILE,
        "\u{202e}gnp.exe",
        "..",
        "a\u{1b}[31mb",
        "",
        "%2F",
        "#x",
        "\" onmouseover=1 \"",
    ];
    let runs: Vec<Summary> = names
        .iter()
        .flat_map(|name| {
            [RunStatus::Error, RunStatus::Answered]
                .map(|mark| run(&format!("{name}{}", mark.word()), mark, Some(name)))
        })
        .map(|mut run| {
            (run.task, run.model, run.status) = (
                Some(text().into()),
                Some(format!("{}{}", run.key, HOSTILE).into()),
                Some(text()),
            );
            run.verdict.sentence = format!("{HOSTILE} · {HOSTILE}\u{202e}").into();
            run.issues = (1, 1);
            run
        })
        .collect();
    let skipped = [Skipped {
        path: text(),
        reason: text(),
        kind: SkippedKind::File,
    }]
    .into();
    let skipped_total = SkippedTotal {
        directories: 1,
        files: [(text(), 1)].into(),
    };
    let roots = vec![Root {
        shown: text(),
        fault: Some(text()),
        skipped,
        skipped_total,
    }];
    for query in ["", HOSTILE, "stop:\"<b>\" \"", "-nothing x:<script>"] {
        let elsewhere = vec![("Codex", text())];
        let ctx = ListContext {
            roots: roots.clone(),
            elsewhere,
            watch: Watch::Poll(text()),
            boot: text(),
            ..ctx(query)
        };
        let runs = listed(runs.clone());
        for html in [
            page(&ctx, &runs).render().unwrap(),
            page(&ctx, &[]).render().unwrap(),
        ] {
            let tags = check_page(&html);
            assert!(
                tags.iter()
                    .filter(|tag| tag.name == "script")
                    .all(|tag| tag.get("src").is_some())
            );
            // The checkboxes send keys unchanged. They are invisible.
            let mut boxes = html.split("name=\"run\" value=\"");
            let mut shown = boxes.next().unwrap_or_default().to_owned();
            shown.extend(boxes.filter_map(|rest| Some(rest.split_once("\" form=")?.1)));
            assert!(
                !html.contains("<hx-partial")
                    && !html.contains("<b>\"")
                    && !shown.contains('\u{202e}')
            );
            assert!(
                !shown.contains('\u{1b}')
                    && !tags.iter().any(|tag| tag.get("onmouseover").is_some())
            );
            for href in tags
                .iter()
                .filter(|tag| tag.get("rel") != Some("icon"))
                .filter_map(|tag| tag.get("href"))
            {
                // An empty address is the page itself.
                assert!(href.is_empty() || href.starts_with(['/', '#']), "{href}");
            }
        }
        let ctx = ListContext {
            since: Some(0),
            rows: Some("16.1-16".into()),
            ..ctx
        };
        let html = pulse(&ctx, &runs).render().unwrap();
        assert!(
            !tags(&html)
                .iter()
                .any(|tag| tag.name == "script" || tag.name == "head"),
            "{html}"
        );
    }
}

#[test]
fn nothing_new_is_a_pulse_alone() {
    let runs = listed(many(30));
    let query = ctx("calc");
    let opened = page(&query, &runs);
    let requested = ask(&query, &opened.pulse);
    assert_eq!(requested.rows.as_deref(), Some("30.1-30"));
    let answer = pulse(&requested, &runs);
    assert!(matches!(answer.update, RunsUpdate::Nothing));
    assert_eq!(answer.pulse.url, opened.pulse.url);
}

#[test]
fn the_first_run_makes_the_table_and_the_last_one_takes_it_away() {
    let none = ctx("");
    let opened = page(&none, &[]);
    let mut runs = listed(vec![run("a", RunStatus::Running, None)]);
    runs[0].revision = 18;
    runs[0].born = 18;
    let ctx = ListContext {
        revision: 18,
        ..ctx("")
    };
    let requested = ask(&ctx, &opened.pulse);
    let answer = pulse(&requested, &runs);
    assert_eq!(
        (answer.pulse.count, answer.list.title().as_str()),
        (1, "Runs (1)")
    );
    let RunsUpdate::Whole(body) = answer.update else {
        panic!("not the whole body")
    };
    assert!(body.rows[0].is_new);
    let ctx = ListContext {
        revision: 19,
        ..ctx
    };
    let requested = ask(&ctx, &answer.pulse);
    let answer = pulse(&requested, &[]);
    assert!(matches!(answer.update, RunsUpdate::Whole(RunsBody { rows, .. }) if rows.is_empty()));
}

#[test]
fn an_address_without_rows_brings_everything() {
    let runs = listed(many(300));
    for rows in [
        None,
        Some(""),
        Some("x"),
        Some("5.9-3"),
        Some("2.5.4"),
        Some("1.-2"),
    ] {
        let ctx = ListContext {
            since: Some(17),
            rows: rows.map(str::to_owned),
            ..ctx("")
        };
        let RunsUpdate::Whole(body) = pulse(&ctx, &runs).update else {
            panic!("{rows:?} was taken")
        };
        assert_eq!(body.rows.len(), 200);
    }
}

#[test]
fn a_page_in_another_order_gets_its_rows_in_place() {
    let mut runs = listed(many(50));
    let ctx = ListContext {
        sort: "steps".parse().unwrap(),
        revision: 50,
        ..ctx("")
    };
    let opened = page(&ctx, &runs).pulse;
    runs[3].revision = 51;
    let requested = ask(
        &ListContext {
            revision: 51,
            ..ctx.clone()
        },
        &opened,
    );
    let answer = pulse(&requested, &runs);
    let RunsUpdate::Parts(parts) = answer.update else {
        panic!("one row changed")
    };
    assert_eq!((parts.changed.len(), parts.fresh.len()), (1, 0));
    let requested = ask(
        &ListContext {
            revision: 52,
            ..ctx.clone()
        },
        &answer.pulse,
    );
    runs.push(Listed {
        summary: Arc::new(run("new", RunStatus::Running, None)),
        revision: 52,
        born: 52,
    });
    assert!(matches!(
        pulse(&requested, &runs).update,
        RunsUpdate::Whole(_)
    ));
}

/// A browser builds and draws every element of a page, and every byte is sent again when the page
/// is loaded. Menus are built when they are opened.
#[test]
fn a_table_of_two_hundred_sessions_stays_small() {
    let mut runs = many(1_000);
    for (n, run) in runs.iter_mut().enumerate() {
        let key = format!(
            "agents/copilot/errors-then-recovers/session-state/{n:08x}-4702-9702-59391da1ef63/events.jsonl"
        );
        run.key = crate::model::RunKey::new(&key);
        run.is_session = true;
        run.tool = Some("Claude Code 2.1.330".into());
        run.project = Some("/home/dev/project".to_owned());
        run.titles = vec![format!("Session {n}: {}", "mend the cart ".repeat(4))].into();
        run.tokens = Some(28_200);
        run.cost_usd = Some(0.05);
        // Few runs have a target, and some are stored twice.
        run.target = n.is_multiple_of(40).then(|| "42".into());
        if n.is_multiple_of(16) {
            run.relation.duplicate_of = Some(RunKey::new("agents/otel.jsonl/aee5b8834f4b"));
        }
        run.verdict.certainty = crate::model::Certainty::Inferred;
        run.verdict.stop_reason = Some(format!("reason {}", n % 80).into());
    }
    let html = page(&ctx(""), &listed(runs)).render().unwrap();
    let mut parts = html.split("<noscript>");
    let mut built = parts.next().unwrap().to_owned();
    built.extend(parts.map(|part| part.split_once("</noscript>").unwrap().1));
    let rows = tags(&built)
        .iter()
        .filter(|tag| tag.get("role") == Some("row"))
        .count();
    let elements = tags(&built).len();
    assert_eq!(rows, 201);
    assert!(
        elements <= 2_500 && html.len() <= 200_000,
        "{elements} elements, {} bytes",
        html.len()
    );
}

#[test]
fn a_window_on_ten_thousand_runs_stays_small() {
    let (query, runs) = (ctx("calc -status:died"), listed(many(10_000)));
    let opened = page(&query, &runs);
    let (bytes, url) = (opened.render().unwrap().len(), opened.pulse.url.len());
    assert!(
        bytes < 800_000 && url < 4_500,
        "{bytes} bytes, an address of {url}"
    );
}

#[test]
fn the_page_says_what_it_shows() {
    let mut runs = listed(many(30));
    let context = ListContext {
        revision: 30,
        sort: "steps".parse().unwrap(),
        marks: vec!["sweep_3/run_00003".into()],
        ..ctx("steps>1 nope:1")
    };
    let html = page(&context, &runs).render().unwrap();
    let tags = check_page(&html);
    let body = tags.iter().find(|tag| tag.name == "body").unwrap();
    assert_eq!(
        (body.get("data-stream"), body.get("data-rev")),
        (Some("/events"), Some("30"))
    );
    assert_eq!(
        (body.get("data-boot"), body.get("data-ended")),
        (Some("b1"), None)
    );
    assert!(
        tags.iter()
            .any(|tag| tag.get("href") == Some("/runs/sweep_7%2Frun_00007"))
    );
    let sorted: Vec<_> = tags.iter().filter_map(|tag| tag.get("aria-sort")).collect();
    assert_eq!(sorted, ["descending"]);
    assert_eq!(by_id(&tags, "q").get("value"), Some("steps>1 nope:1"));
    assert_eq!(by_id(&tags, "q").get("aria-describedby"), Some("ignored"));
    assert!(
        tags.iter()
            .any(|tag| tag.get("name") == Some("sort") && tag.get("value") == Some("steps"))
    );
    assert!(
        tags.iter()
            .any(|tag| tag.get("href") == Some("/runs.csv?q=steps%3E1%20nope%3A1&sort=steps"))
    );
    let heads = tags
        .iter()
        .filter(|tag| tag.get("scope") == Some("col"))
        .count();
    let row = html
        .split("<tr role=\"row\" id=")
        .nth(1)
        .unwrap()
        .split("</tr>")
        .next()
        .unwrap();
    assert_eq!(
        heads,
        row.matches("role=\"cell\"").count() + row.matches("role=\"rowheader\"").count()
    );

    runs[3].revision = 31;
    let requested = ask(
        &ListContext {
            revision: 31,
            ..context.clone()
        },
        &page(&context, &runs).pulse,
    );
    let html = pulse(
        &ListContext {
            sort: context.sort,
            ..requested
        },
        &runs,
    )
    .render()
    .unwrap();
    assert!(
        html.starts_with("<div id=\"pulse\""),
        "htmx finds the next pulse first"
    );
    let tags = self::tags(&html);
    let targets: Vec<_> = tags
        .iter()
        .filter(|tag| tag.name == "hx-partial")
        .filter_map(|tag| tag.get("hx-target"))
        .collect();
    assert_eq!(
        targets,
        [
            "#run-sweep__3_2frun__00003",
            "#head",
            "#strip",
            "#facets",
            "#foot"
        ]
    );
    assert!(
        html.split("</hx-partial>")
            .all(|part| !part.ends_with('\n')),
        "a blank would be added"
    );
}

#[test]
fn the_first_cost_brings_its_column() {
    let mut runs = listed(many(3));
    let context = ListContext {
        revision: 3,
        ..ctx("")
    };
    let (html, next) = (
        page(&context, &runs).render().unwrap(),
        page(&context, &runs).pulse,
    );
    assert!(!html.contains(">Cost</a>") && !next.url.contains("cost"));
    Arc::make_mut(&mut runs[1].summary).cost_usd = Some(0.5);
    runs[1].revision = 4;
    let context = ListContext {
        revision: 4,
        ..context
    };
    let requested = ask(&context, &next);
    let answer = pulse(&requested, &runs);
    let html = answer.render().unwrap();
    assert!(
        matches!(answer.update, RunsUpdate::Whole(_))
            && html.contains(">Cost</a>")
            && html.contains(">$0.5000<")
    );
    let next = answer.pulse;
    assert!(next.url.contains("%2Ccost"), "{}", next.url);
    runs[0].revision = 5;
    let requested = ask(
        &ListContext {
            revision: 5,
            ..context
        },
        &next,
    );
    assert!(matches!(
        pulse(&requested, &runs).update,
        RunsUpdate::Parts(_)
    ));
}

#[test]
fn a_filter_that_matches_nothing_leads_to_a_search_of_all_texts() {
    let html = |query: &str| table(&ctx(query), many(3)).render().unwrap();
    let none = html("zzz &amp status:error");
    assert!(none.contains("href=\"/search?q=zzz%20%26amp\""), "{none}");
    assert!(
        !html("status:stalled").contains("/search"),
        "no words to search for"
    );
}

#[test]
fn views_count_their_runs_and_know_whether_they_are_shown() {
    let view = |query: &str, columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        View::new(
            HOSTILE.chars().take(40).collect(),
            query.to_owned(),
            &columns,
        )
        .unwrap()
    };
    let of = |query: &str| ListContext {
        views: [view("zzz", &["cost"]), view("-zzz", &[])].into(),
        ..ctx(query)
    };
    let body = table(&of("-zzz"), many(3));
    let views = body.list.views();
    let shown: Vec<_> = views
        .iter()
        .map(|view| (&*view.count, view.active))
        .collect();
    assert_eq!(shown, [("3", false), ("0", false), ("3", true)]);
    assert_eq!(views[1].href, "/?q=zzz&cols=run%2Ccost");
    assert_eq!(body.list.save(&views), None);
    let other = table(&of("zzz"), many(3));
    assert_eq!(
        other.list.save(&other.list.views()).as_deref(),
        Some("/views?q=zzz")
    );
    let html = body.render().unwrap();
    assert!(!html.contains("<script>"), "{html}");
}

#[test]
fn a_view_on_duplicates_counts_what_it_opens_or_nothing() {
    let view = |name: &str, query: &str| View::new(name.to_owned(), query.to_owned(), &[]).unwrap();
    let of = |query: &str, duplicates: usize| ListContext {
        views: [
            view("copies", "duplicate_of:0"),
            view("long", "steps>3"),
            view("short", "steps<3"),
        ]
        .into(),
        duplicates,
        ..ctx(query)
    };
    let counts = |body: &RunsBody<'_>| -> Vec<String> {
        let views = body.list.views().into_iter();
        views.map(|view| view.count).collect()
    };
    let mut runs: Vec<Summary> = (0..4)
        .map(|n| run(&n.to_string(), RunStatus::Answered, None))
        .collect();
    let copy = runs.pop().unwrap();
    let without = table(&of("", 0), runs.clone());
    assert_eq!(counts(&without), ["3", "", "3", "0"]);
    runs.push(copy);
    runs[3].relation.duplicate_of = Some(RunKey::new("0"));
    let all = of("duplicate_of:0 steps>1", 1);
    assert_eq!(counts(&table(&all, runs.clone())), ["3", "1", "3", "0"]);
    let shown = of("duplicate_of:0", 1);
    assert_eq!(counts(&table(&shown, runs)), ["3", "1", "3", "0"]);
}
