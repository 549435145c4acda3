//! Tests groups of runs, and the names of sessions.

use super::*;
use crate::analysis::select::Grouping;
use crate::analysis::summary::Spent;
use crate::model::price::{Price, Prices};

fn session(key: &str, project: &str, task: &str) -> Summary {
    let mut run = run(key, RunStatus::Answered, None);
    (run.project, run.task, run.is_session) = (Some(project.into()), Some(task.into()), true);
    run
}

fn grouped(by: &str, query: &str) -> ListContext {
    ListContext {
        group: Grouping::find(by),
        ..ctx(query)
    }
}

#[test]
fn a_run_is_called_by_its_title() {
    let key = "-home-me-shop/5f0c7a52-6d0e-4a53-9b0c-0f6f2b3f1a02.jsonl";
    let mut shop = session(key, "/home/me/shop/", "\n Mend the <cart>\nbefore noon");
    shop.tool = Some("Claude Code 2.1.330".into());
    let html = row_of(shop).render().unwrap();
    let address = crate::page::part::href::run(key);
    assert!(html.contains(&format!("href=\"{address}\"")), "{html}");
    assert!(
        html.contains(
            ">Mend the &#60;cart&#62;</a><i class=\"bd place\">shop · Claude Code</i><td"
        ),
        "{html}"
    );
    let called = |run: &Summary| {
        let row = row_of(run.clone());
        (row.title(), row.place())
    };
    let called_so = |title: &str, place: Option<&str>| (title.to_owned(), place.map(str::to_owned));
    let mut other = session("sweep/a", "C:\\work\\shop", "x");
    assert_eq!(called(&other), called_so("x", Some("shop")));
    other.is_session = false;
    assert_eq!(
        called(&other),
        called_so("x", Some("sweep/a")),
        "a name that a person gave stays in sight, since runs of a sweep have one task"
    );
    (other.is_session, other.task) = (true, None);
    assert_eq!(called(&other), called_so("a", Some("shop")));
    other.titles = vec!["Cart".to_owned()].into();
    assert_eq!(called(&other), called_so("Cart", Some("shop")));
    let mut plain = run("fix_bug", RunStatus::Answered, None);
    plain.task = None;
    assert_eq!(called(&plain), called_so("fix_bug", None));
    // The tool is known by its format, if the trace doesn't name it.
    for (format, tool) in [
        ("QitOS up to 0.1", "QitOS"),
        ("Gemini CLI session", "Gemini CLI"),
        ("", ""),
    ] {
        plain.format = format.into();
        let tool = Some(tool.to_owned()).filter(|tool| !tool.is_empty());
        assert_eq!(row_of(plain.clone()).tool(), tool);
    }
}

#[test]
fn groups_are_rows_with_counts_and_sums() {
    let mut runs: Vec<_> = (0..12)
        .map(|n| session(&format!("s/{n:02}"), "/home/me/shop", "x"))
        .collect();
    runs.push(session("t/0", "/home/me/bank", "y"));
    runs.push(run("u/0", RunStatus::Died, None));
    for (n, run) in runs.iter_mut().enumerate() {
        run.tokens = (n > 0).then_some(1_000);
    }
    runs[3].verdict.outcome = crate::model::Outcome::Failed;
    let body = table(&grouped("project", ""), runs.clone());
    assert_eq!((body.rows.len(), body.groups.len()), (0, 3));
    let html = body.render().unwrap();
    let rows: Vec<_> = tags(&html)
        .into_iter()
        .filter(|tag| tag.get("role") == Some("row"))
        .collect();
    // The table head, three groups, and five, one and one of their runs.
    assert_eq!(rows.len(), 1 + 3 + 5 + 1 + 1, "{html}");
    assert!(
        html.contains(">12 runs<") && html.contains("1 with outcome failed · showing the first 5"),
        "{html}"
    );
    assert!(
        html.contains("≥11k") && html.contains("complete for 11 of 12 runs"),
        "{html}"
    );
    assert!(html.contains("title=\"/home/me/shop\""), "{html}");
    assert_eq!(body.list.showing(&7), "Showing 3 of 3 groups, 7 of 14 runs");
    assert!(body.list.caption().ends_with(", grouped by project"));
    // A group's link leads to its runs, without grouping.
    let links = tags(&html)
        .into_iter()
        .filter_map(|tag| tag.get("href").map(str::to_owned))
        .collect::<Vec<_>>();
    for (query, count) in [
        ("project=/home/me/shop", 12),
        ("project=\"not recorded\"", 1),
    ] {
        let link = links
            .iter()
            .find(|link| **link == ctx("").url(query, Sort::default(), ""))
            .expect(query);
        assert!(!link.contains("group="), "{link}");
        assert_eq!(table(&ctx(query), runs.clone()).rows.len(), count);
    }
    let facets = body.list.facets().into_iter();
    let on: Vec<_> = facets
        .filter(|facet| facet.name == "Group by")
        .flat_map(|facet| facet.sections)
        .flat_map(|section| section.chips)
        .collect();
    let on: Vec<_> = on
        .iter()
        .map(|chip| (chip.label.as_str(), chip.active))
        .collect();
    assert_eq!(
        on,
        [
            ("none", false),
            ("status", false),
            ("project", true),
            ("task", false)
        ]
    );
}

#[test]
fn children_are_indented_below_the_run_that_started_them() {
    let mut parent = session("p", "/x", "Do all");
    parent.run_id = Some("id".into());
    parent.titles = vec!["The whole".to_owned()].into();
    let mut child = session("p/child", "/x", "Do a part");
    child.parent = Some("id".into());
    let alone = session("q", "/x", "Else");
    let body = table(&grouped("parent", ""), vec![parent, child, alone]);
    assert_eq!(body.list.ctx.group, Grouping::find("parent"));
    let html = body.render().unwrap();
    let cells: Vec<_> = tags(&html)
        .into_iter()
        .filter(|tag| tag.get("role") == Some("rowheader"))
        .collect();
    let classes: Vec<_> = cells.iter().filter_map(|tag| tag.get("class")).collect();
    assert_eq!(
        classes.iter().filter(|class| class.contains("in1")).count(),
        1,
        "{classes:?}"
    );
    // A single run needs no row for its group.
    assert_eq!(
        (classes.len(), html.matches("class=\"grp\"").count()),
        (4, 1)
    );
    assert!(html.contains("parent%3Did"), "{html}");
    // The group has the name that the run's own row has.
    assert_eq!(
        (
            html.matches(">The whole<").count(),
            html.matches(">Do all<").count()
        ),
        (2, 0),
        "{html}"
    );
}

#[test]
fn windows_of_groups_hold_all_and_keep_the_grouping() {
    let runs: Vec<_> = (0..23)
        .map(|n| session(&format!("s/{n:02}"), &format!("/p/{n}"), "x"))
        .collect();
    let mut context = ListContext {
        limit: 50,
        ..grouped("project", "")
    };
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..3 {
        let body = table(&context, runs.clone());
        let keys = body
            .groups
            .iter()
            .flat_map(|group| &group.rows)
            .map(|row| row.run.key.to_string());
        let keys: Vec<String> = keys.collect();
        assert!(
            keys.starts_with(&seen),
            "what was shown stays above what comes"
        );
        seen = keys;
        let Some(more) = body.list.more() else { break };
        assert!(more.href.contains("group=project"), "{more:?}");
        let limit = more
            .href
            .split(['?', '&'])
            .find_map(|pair| pair.strip_prefix("limit="));
        context.limit = limit.map_or(WINDOW, |limit| limit.parse().unwrap());
    }
    seen.sort();
    assert_eq!(
        seen,
        runs.iter()
            .map(|run| run.key.to_string())
            .collect::<Vec<_>>()
    );
}

#[test]
fn news_of_groups_is_the_whole_list() {
    let runs = listed(vec![session("a", "/p", "x"), session("b", "/p", "x")]);
    let context = grouped("project", "");
    let opened = page(&context, &runs).pulse;
    assert!(
        opened.url.contains("group=project") && !opened.url.contains("rows="),
        "{}",
        opened.url
    );
    let later = ListContext {
        revision: 18,
        since: Some(17),
        ..context
    };
    let mut update = runs;
    update[0].revision = 18;
    let answer = pulse(&later, &update);
    assert!(
        matches!(answer.update, RunsUpdate::Whole(_)) && answer.pulse.url.contains("group=project")
    );
    let html = answer.render().unwrap();
    assert!(
        html.contains("class=\"grp\"") && html.contains("isnew"),
        "{html}"
    );
}

#[test]
fn hostile_groups_stay_text() {
    let runs: Vec<_> = ["", HOSTILE, "\u{202e}x", "..", "a\nb\"c\\", "*"]
        .iter()
        .enumerate()
        .map(|(n, name)| session(&format!("{n}{HOSTILE}"), name, &format!("{name}{n}")))
        .collect();
    for by in ["project", "task", "parent"] {
        let runs = listed(runs.clone());
        for query in [HOSTILE, ""] {
            check_page(&page(&grouped(by, query), &runs).render().unwrap());
        }
    }
}

#[test]
fn an_estimate_says_where_its_prices_stand() {
    let price = Price {
        input: 1.0,
        output: 1.0,
        ..Price::default()
    };
    let prices = Arc::new(
        Prices::new(
            [("m".to_owned(), price)].into(),
            "my prices.toml".to_owned(),
        )
        .unwrap(),
    );
    let mut run = session("a", "/p", "x");
    run.spent = thin_vec::thin_vec![Spent {
        model: "m".into(),
        input: 100_000,
        output: 20_000,
        ..Spent::default()
    }];
    let html = table(&ctx(""), vec![run.clone().priced(&prices)])
        .render()
        .unwrap();
    assert!(
        html.contains("title=\"estimated from my prices.toml\">≈$0.1200<"),
        "{html}"
    );
    let mut paid = session("b", "/p", "x");
    paid.cost_usd = Some(1.0);
    let both = table(&grouped("project", ""), vec![run.priced(&prices), paid])
        .render()
        .unwrap();
    assert!(
        both.contains(">≈$1.12<"),
        "a sum with an estimate in it is one: {both}"
    );
}
