use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::analysis::columns::COLUMNS;
use crate::analysis::copies::CopiedPart;
use crate::analysis::select::sample::{many, run};
use crate::analysis::select::select;
use crate::analysis::verdict::RunStatus;

fn column(name: &str) -> &'static Column {
    Column::find(name).unwrap()
}

fn put<'a>(
    all: &'a [Arc<Summary>],
    query: &str,
    by: &str,
    sort: &str,
    window: Window<'_>,
) -> Groups<'a, Arc<Summary>> {
    groups(
        all,
        &Query::parse(query),
        Grouping::find(by).unwrap(),
        sort.parse().unwrap(),
        window,
        &Clock::at(0, &jiff::tz::TimeZone::UTC),
    )
}

const WHOLE: Window<'static> = Window {
    limit: usize::MAX,
    after: None,
    rows: usize::MAX,
};

/// Formats `key depth` for each row.
fn rows(group: &Group<'_, Arc<Summary>>) -> String {
    let row = |member: &Member<'_, Arc<Summary>>| format!("{} {}", member.run.key, member.depth);
    group.rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

fn shared(runs: Vec<Summary>) -> Vec<Arc<Summary>> {
    runs.into_iter().map(Arc::new).collect()
}

/// Runs of nine projects, and some without a project.
fn projects(number: usize) -> Vec<Arc<Summary>> {
    let mut runs = many(number);
    for (n, run) in runs.iter_mut().enumerate() {
        run.project = (n % 10 > 0).then(|| format!("/home/me/p{}", n % 10));
    }
    shared(runs)
}

#[test]
fn tasks_that_differ_only_in_letter_case_are_one_group() {
    let tasks = ["fix É", "Fix é", "fix e", "FIX é"];
    let mut runs = many(tasks.len());
    for (run, task) in runs.iter_mut().zip(tasks) {
        run.task = Some(task.into());
    }
    for turn in 0..tasks.len() {
        runs.rotate_left(turn);
        let all = shared(runs.clone());
        let groups = put(&all, "", "task", "run", WHOLE);
        let mut counts: Vec<(&str, usize)> = groups
            .groups
            .iter()
            .map(|group| (&*group.name, group.runs))
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [("FIX é", 3), ("fix e", 1)], "{turn}");
        assert_eq!(groups.count, 2);
        let terms = Grouping::find("task").unwrap().terms("FIX é").unwrap();
        let found = put(&all, &terms, "task", "run", WHOLE);
        assert_eq!((found.count, found.matched), (1, 3));
        // Other names are those of different things.
        let projects: Vec<Summary> = runs
            .iter()
            .cloned()
            .map(|mut run| {
                run.project = run.task.take().map(|task| task.to_string());
                run
            })
            .collect();
        assert_eq!(put(&shared(projects), "", "project", "run", WHOLE).count, 4);
    }
}

#[test]
fn a_group_holds_all_runs_that_match_and_adds_them_up() {
    let all = projects(1_000);
    for query in ["", "status:died", "steps>40 -model:model-3", "nothing"] {
        let groups = put(&all, query, "project", "updated", WHOLE);
        let parsed = Query::parse(query);
        let matching: Vec<_> = all.iter().filter(|run| parsed.matches(&***run)).collect();
        assert_eq!((groups.total, groups.matched), (1_000, matching.len()));
        assert_eq!(
            groups.groups.iter().map(|group| group.runs).sum::<usize>(),
            matching.len()
        );
        for group in &groups.groups {
            let own: Vec<_> = matching
                .iter()
                .filter(|run| run.project.as_deref().unwrap_or_default() == group.name)
                .collect();
            assert_eq!(
                (group.runs, group.rows.len()),
                (own.len(), own.len()),
                "{query}: {}",
                group.name
            );
            let tokens: Vec<u64> = own.iter().filter_map(|run| run.tokens).collect();
            let sum = group.sum(column("tokens")).unwrap();
            assert_eq!(
                (sum.amount as u64, sum.known),
                (tokens.iter().sum(), tokens.len())
            );
            let failed = own
                .iter()
                .filter(|run| run.verdict.outcome == Outcome::Failed)
                .count();
            assert_eq!(group.failed, failed);
            assert_eq!(group.newest, own.iter().filter_map(|run| run.updated).max());
        }
    }
}

#[test]
fn windows_of_groups_follow_each_other_in_every_order() {
    let all = projects(40);
    let clock = Clock::at(0, &jiff::tz::TimeZone::UTC);
    for by in &GROUPINGS {
        for sort in COLUMNS
            .iter()
            .filter(|column| column.is_sortable())
            .flat_map(|column| {
                [false, true].map(|reversed| Sort {
                    by: column,
                    reversed,
                })
            })
        {
            let whole = groups(&all, &Query::default(), by, sort, WHOLE, &clock);
            let (mut names, mut after) = (Vec::new(), None::<String>);
            loop {
                let window = Window {
                    limit: 3,
                    after: after.as_deref(),
                    rows: 2,
                };
                let part = groups(&all, &Query::default(), by, sort, window, &clock);
                assert_eq!(
                    (part.before, part.count, part.after_ignored),
                    (names.len(), whole.count, false)
                );
                assert!(
                    part.groups
                        .iter()
                        .all(|group| group.rows.len() == group.runs.min(2))
                );
                names.extend(part.groups.iter().map(|group| group.name.clone()));
                after = part.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(
                names,
                whole
                    .groups
                    .iter()
                    .map(|group| group.name.clone())
                    .collect::<Vec<_>>(),
                "{} {sort}",
                by.name
            );
            if !sort.by.sums && !by.is_parent() && !by.is_period() {
                // The first rows of the groups are in list order.
                let list = select(&all, &Query::default(), sort, usize::MAX, None).rows;
                let at: HashMap<_, _> = list
                    .iter()
                    .enumerate()
                    .map(|(at, run)| (&run.key, at))
                    .collect();
                for group in &whole.groups {
                    assert!(
                        group.rows.is_sorted_by_key(|member| at[&member.run.key]),
                        "{} {sort}",
                        by.name
                    );
                }
            }
        }
    }
}

#[test]
fn groups_are_in_the_order_of_what_they_add_up_to() {
    let mut runs: Vec<_> = ["a", "b", "c", "d"]
        .map(|key| run(key, RunStatus::Answered, None))
        .into();
    for (run, (project, tokens)) in runs
        .iter_mut()
        .zip([("x", 50), ("y", 30), ("y", 40), ("z", 0)])
    {
        (run.project, run.tokens) = (
            Some(project.into()),
            Some(tokens).filter(|tokens| *tokens > 0),
        );
    }
    let all = shared(runs);
    let names = |sort: &str| {
        let groups = put(&all, "", "project", sort, WHOLE);
        groups
            .groups
            .iter()
            .map(|group| group.name.clone())
            .collect::<String>()
    };
    assert_eq!(
        (names("tokens"), names("-tokens")),
        ("yxz".into(), "xyz".into()),
        "unknown values come last"
    );
    let unknown = put(&all, "", "project", "tokens", WHOLE)
        .groups
        .pop()
        .unwrap();
    assert_eq!(
        unknown
            .sum(column("tokens"))
            .unwrap()
            .value(column("tokens")),
        None
    );
}

#[test]
fn children_stand_below_their_parents() {
    let named = |key: &str, id: &str, parent: Option<&str>| {
        let mut run = run(key, RunStatus::Answered, None);
        (run.run_id, run.parent) = (Some(id.into()), parent.map(Box::from));
        run
    };
    let all = shared(vec![
        named("s/1", "one", None),
        named("s/1/a", "A", Some("one")),
        named("s/1/b", "B", Some("one")),
        named("s/1/a/x", "X", Some("A")),
        named("s/2", "two", None),
        named("s/3/lost", "L", Some("gone")),
        named("s/3/other", "M", Some("gone")),
        named("round", "r1", Some("r2")),
        named("and", "r2", Some("r1")),
        named("self", "me", Some("me")),
    ]);
    let whole = put(&all, "", "parent", "run", WHOLE);
    let told: Vec<_> = whole
        .groups
        .iter()
        .map(|group| (&*group.name, group.head.is_some(), rows(group)))
        .collect();
    assert_eq!(
        told.iter()
            .map(|(.., rows)| rows.split(", ").count())
            .sum::<usize>(),
        10,
        "each once: {told:?}"
    );
    let of = |name: &str| {
        told.iter()
            .find(|(of, ..)| *of == name)
            .map(|(_, head, rows)| (*head, rows.as_str()))
    };
    assert_eq!(
        of("s/1"),
        Some((true, "s/1 0, s/1/a 1, s/1/a/x 2, s/1/b 1"))
    );
    assert_eq!(of("s/2"), Some((false, "s/2 0")));
    assert_eq!(of("gone"), Some((false, "s/3/lost 0, s/3/other 0")));
    assert_eq!(of("self"), Some((true, "self 0")));
    // If only a child matches, it's shown in its parent's group.
    let part = put(&all, "run:s/1/a/x", "parent", "run", WHOLE);
    assert_eq!(
        (
            part.count,
            &*part.groups[0].name,
            rows(&part.groups[0]).as_str()
        ),
        (1, "s/1", "s/1/a/x 0")
    );
    assert_eq!(
        part.groups[0].head.map(|head| head.key.as_str()),
        Some("s/1")
    );
    let few = put(&all, "", "parent", "run", Window { rows: 2, ..WHOLE });
    assert_eq!(
        few.groups
            .iter()
            .find(|group| group.name == "s/1")
            .map(rows)
            .as_deref(),
        Some("s/1 0, s/1/a 1")
    );
}

#[test]
fn a_junk_cursor_is_told() {
    let all = projects(20);
    for junk in ["", "x", "NaN:y"] {
        let groups = put(
            &all,
            "",
            "project",
            "updated",
            Window {
                after: Some(junk),
                ..WHOLE
            },
        );
        assert!(
            groups.after_ignored && groups.before == 0 && groups.groups.len() == 10,
            "{junk}"
        );
    }
}

#[test]
fn a_group_says_what_its_sums_leave_out() {
    let made = |key: &str, steps: usize, copies: usize| {
        let mut run = run(key, RunStatus::Answered, None);
        run.project = Some("/p".to_owned());
        run.copied = Some(CopiedPart {
            steps,
            ..CopiedPart::default()
        });
        run.relation.copies = copies;
        run
    };
    let of = |runs: &[(usize, usize)]| {
        let runs = runs
            .iter()
            .enumerate()
            .map(|(at, (steps, copies))| made(&format!("r{at}"), *steps, *copies));
        let all = shared(runs.collect());
        let group = put(&all, "", "project", "tokens", WHOLE).groups.remove(0);
        (
            group.branches,
            group.branches_in_words(),
            group.copies,
            group.copies_in_words(),
        )
    };
    let (branches, _, copies, _) = of(&[(0, 0)]);
    assert_eq!(
        (branches, copies),
        (0, 0),
        "a branch at the first step copies nothing"
    );
    let one = (
        "1 run begins with steps counted in another run",
        "+1 duplicate",
    );
    assert_eq!(
        of(&[(0, 0), (2, 1)]),
        (1, one.0.to_owned(), 1, one.1.to_owned())
    );
    let two = (
        "2 runs begin with steps counted in other runs",
        "+3 duplicates",
    );
    assert_eq!(
        of(&[(1, 1), (2, 2)]),
        (2, two.0.to_owned(), 3, two.1.to_owned())
    );
}
