use std::sync::Arc;

use super::*;
use crate::analysis::call_times::{CallTimes, ToolSum};
use crate::analysis::copies::Relation;
use crate::analysis::failures::RunFailure;
use crate::analysis::query::{Clock, Needle, Query, Sort};
use crate::analysis::select::sample::run;
use crate::analysis::select::{GROUPINGS, Sum, Window, groups, survey};
use crate::analysis::summary::Spent;
use crate::analysis::usage::{By, usage};
use crate::analysis::verdict::RunStatus;
use crate::model::RunKey;
use crate::model::failure::{FailureSource, id_of};
use crate::model::price::{Price, Prices, RequestSize};

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn micros(time: &str) -> i64 {
    time.parse::<Timestamp>().unwrap().as_microsecond()
}

fn started(key: &str, at: &str) -> Summary {
    let mut run = run(key, RunStatus::Answered, Some("final"));
    run.started = Some(micros(at));
    run
}

fn days(since: &str, until: &str) -> Days {
    Days {
        since: since.parse().ok(),
        until: until.parse().ok(),
    }
}

fn of(runs: &[Summary], days: Days, now: &str, zone: &TimeZone) -> Overview {
    let asked = Asked {
        days,
        now: micros(now),
        zone,
        limit: 100,
        is_part: false,
    };
    overview(runs, &asked)
}

/// Runs with a task that passed or didn't, one a day from 1 October 2026.
fn nightly(task: &str, results: &str) -> Vec<Summary> {
    let first: Date = "2026-10-01".parse().unwrap();
    let results = results.chars().enumerate();
    results
        .map(|(n, result)| {
            let day = first.checked_add(jiff::Span::new().days(n as i64)).unwrap();
            let mut run = started(&format!("{task}/{n:03}"), &format!("{day}T02:00:00Z"));
            run.task = Some(task.into());
            run.success = Some(result == '.');
            run
        })
        .collect()
}

#[test]
fn a_day_is_that_of_the_reader_when_clocks_change() {
    let berlin = zone("Europe/Berlin");
    // 25 October 2026 has 25 hours in Berlin: 22:00Z the day before to 23:00Z.
    let runs = [
        started("a", "2026-10-24T21:59:59Z"),
        started("b", "2026-10-24T22:00:00Z"),
        started("c", "2026-10-25T22:59:59Z"),
        started("d", "2026-10-25T23:00:00Z"),
    ];
    let report = of(
        &runs,
        days("2026-10-24", "2026-10-26"),
        "2026-10-26T12:00:00Z",
        &berlin,
    );
    let counts: Vec<(&str, usize)> = report
        .bars
        .iter()
        .map(|bar| (bar.since.as_str(), bar.runs))
        .collect();
    assert_eq!(
        counts,
        [("2026-10-24", 1), ("2026-10-25", 2), ("2026-10-26", 1)]
    );
    // 01:30 of the second reading of the hour is still in hour 2 of the clock.
    let twice = [
        started("e", "2026-10-25T00:30:00Z"),
        started("f", "2026-10-25T01:30:00Z"),
    ];
    let report = of(&twice, Days::default(), "2026-10-26T12:00:00Z", &berlin);
    assert_eq!(report.hours[6][2], 2);
    assert_eq!(report.busiest(), Some((6, 2, 2)));
}

#[test]
fn the_period_before_ends_at_the_same_time_of_day() {
    let berlin = zone("Europe/Berlin");
    // 12:00 in Berlin. Clocks changed the day before, so two days ago 12:00 was 49 hours ago.
    let now = "2026-10-26T11:00:00Z";
    let mut runs = vec![started("old", "2026-10-20T10:00:00Z")];
    let of_day = |name: &str, hour: &str, number: usize| -> Vec<Summary> {
        (0..number)
            .map(|n| started(&format!("{name}/{n}"), hour))
            .collect()
    };
    // 12:00 in Berlin is 10:00Z before the change.
    runs.extend(of_day("before", "2026-10-24T09:59:00Z", 12));
    runs.extend(of_day("too late", "2026-10-24T10:01:00Z", 5));
    runs.extend(of_day("now", "2026-10-26T08:00:00Z", 24));
    let report = of(&runs, days("2026-10-25", "2026-10-26"), now, &berlin);
    assert_eq!(report.before.as_ref().map(|before| before.runs), Some(12));
    assert_eq!(report.facts()[0].change, "+100%");
    // A period that is over is compared with whole days.
    let report = of(
        &runs,
        days("2026-10-25", "2026-10-26"),
        "2026-11-09T11:00:00Z",
        &berlin,
    );
    assert_eq!(report.before.as_ref().map(|before| before.runs), Some(17));
}

#[test]
fn changes_are_worded_by_their_size() {
    assert_eq!(counts(9, 0).as_deref(), Some("new"));
    assert_eq!(counts(0, 0), None);
    assert_eq!(counts(20, 7).as_deref(), Some("was 7"));
    assert_eq!(counts(20, 10).as_deref(), Some("+100%"));
    assert_eq!(counts(42, 10).as_deref(), Some("×4.2"));
    assert_eq!(counts(30, 10).as_deref(), Some("×3.0"));
    assert_eq!(counts(5, 10).as_deref(), Some("\u{2212}50%"));
    assert_eq!(counts(1_001, 1_000).as_deref(), Some("±0%"));
    let words = |amount: f64| format!("${amount}");
    assert_eq!(amounts(3.0, 0.5, 9, words).as_deref(), Some("was $0.5"));
    assert_eq!(amounts(3.0, 0.5, 10, words).as_deref(), Some("×6.0"));
    assert_eq!(amounts(3.0, 0.0, 10, words).as_deref(), Some("new"));
    assert_eq!(amounts(0.0, 0.0, 10, words), None);
    assert_eq!(relative(f64::INFINITY, 1.0), None);
}

#[test]
fn nothing_is_compared_with_a_period_that_is_not_complete() {
    let runs: Vec<Summary> = (1..=40)
        .map(|n| {
            started(
                &format!("r/{n}"),
                &format!("2026-11-{:02}T10:00:00Z", n % 20 + 1),
            )
        })
        .collect();
    let utc = TimeZone::UTC;
    // The first run is of 1 November, so the ten days before 11 November are complete.
    let now = "2026-11-20T23:00:00Z";
    let report = of(&runs, days("2026-11-11", "2026-11-20"), now, &utc);
    assert_eq!(report.before.as_ref().map(|before| before.runs), Some(20));
    // Days after today don't count: from 12 November on there are nine, as many as before.
    let report = of(&runs, days("2026-11-12", "2026-11-22"), now, &utc);
    assert_eq!(report.before.as_ref().map(|before| before.runs), Some(18));
    let report = of(&runs, days("2026-11-11", "2026-11-22"), now, &utc);
    assert_eq!(report.before.as_ref().map(|before| before.runs), Some(20));
    let report = of(&runs, days("2026-11-10", "2026-11-20"), now, &utc);
    assert_eq!(report.before, None);
    assert!(
        report
            .facts()
            .iter()
            .all(|fact| fact.change.is_empty() || fact.change.contains("recorded"))
    );
    // Without a first day there is no period before.
    assert_eq!(of(&runs, Days::default(), now, &utc).before, None);
}

#[test]
fn a_task_that_broke_is_the_finding() {
    let mut runs = nightly("migrate-schema", ".....................xxx.xx.x.x");
    runs.extend(nightly("fix-lint", "..............................."));
    let utc = TimeZone::UTC;
    let report = of(&runs, Days::default(), "2026-10-31T12:00:00Z", &utc);
    assert_eq!(
        report.answer,
        "migrate-schema was solved in 3 of 10 runs since 22 Oct; before that, in 21 of 21."
    );
    let Finding::ChangePoint { query, p, .. } = &report.finding else {
        panic!("{:?}", report.finding);
    };
    assert_eq!(query.as_deref(), Some("task=migrate-schema"));
    assert!(*p < 0.01, "{p}");
    let tasks: Vec<(&str, usize, usize)> = report
        .tasks
        .rows
        .iter()
        .map(|task| (task.name.as_str(), task.passed, task.runs))
        .collect();
    assert_eq!(tasks, [("migrate-schema", 24, 31), ("fix-lint", 31, 31)]);
    assert_eq!((report.totals.passed, report.totals.judged), (55, 62));
    // In another year, the day has one.
    let later = of(&runs, Days::default(), "2027-01-05T12:00:00Z", &utc);
    assert!(
        later.answer.contains("since 22 Oct 2026;"),
        "{}",
        later.answer
    );
}

#[test]
fn pass_rates_are_compared_on_the_tasks_of_both_periods() {
    let mut runs = nightly("a", ".x.x.x.x.x.x.x.x.x.x");
    let all = nightly("b", "....................");
    // Task b was run only in the second half, and it's easier.
    runs.extend(all.into_iter().skip(10));
    let report = of(
        &runs,
        days("2026-10-11", "2026-10-20"),
        "2026-10-20T23:00:00Z",
        &TimeZone::UTC,
    );
    let shared = report.shared_tasks.unwrap();
    assert_eq!(shared.tasks, 1);
    assert!((shared.rate_before - 0.5).abs() < 1e-9);
    assert!((shared.rate - 0.5).abs() < 1e-9);
    let passed = &report.facts()[1];
    assert_eq!(passed.sum, "75%");
    assert_eq!(passed.more, "1 task in both periods: 50% → 50%");
}

#[test]
fn few_runs_unknown_ends_and_missing_times_are_said() {
    let utc = TimeZone::UTC;
    let now = "2026-10-31T12:00:00Z";
    let mut runs = vec![
        started("a", "2026-10-31T08:00:00Z"),
        started("b", "2026-10-31T09:00:00Z"),
    ];
    let mut limited = run("c", RunStatus::Limit, Some("max_steps"));
    limited.started = Some(micros("2026-10-31T09:30:00Z"));
    runs.push(limited);
    let today = days("2026-10-31", "2026-10-31");
    let report = of(&runs, today, now, &utc);
    assert_eq!(report.answer, "3 runs today: 2 finished, 1 hit a limit.");
    assert!(!report.has_charts());
    let newest: Vec<&str> = report
        .newest_runs
        .iter()
        .map(|run| run.key.as_str())
        .collect();
    assert_eq!(newest, ["c", "b", "a"]);
    let failures: Vec<&str> = report
        .newest_failures
        .iter()
        .map(|run| run.key.as_str())
        .collect();
    assert_eq!(failures, ["c"]);
    // Most of these may be anything.
    let unknown: Vec<Summary> = (0..30)
        .map(|n| run(&format!("u/{n}"), RunStatus::Unknown, None))
        .collect();
    let report = of(&unknown, Days::default(), now, &utc);
    assert_eq!(report.answer, "30 runs. How most of them ended is unknown.");
    assert!(report.bars.is_empty() && report.newest_runs.is_empty());
    assert!(report.details()[0].contains("don't record when they started"));
    // Runs without a time can't be in a period.
    let report = of(&unknown, today, now, &utc);
    assert_eq!((report.totals.runs, report.runs_without_time), (0, 30));
    assert_eq!(report.answer, "No runs today.");
    assert_eq!(report.runs_on_any_day, 30);
}

#[test]
fn a_large_change_of_the_cost_is_the_finding_if_no_task_changed() {
    let paid = |key: &str, at: &str, project: &str, usd: f64| {
        let mut run = started(key, at);
        run.project = Some(project.to_owned());
        run.cost_usd = Some(usd);
        run
    };
    let mut runs = Vec::new();
    for n in 0..12 {
        runs.push(paid(
            &format!("a/{n}"),
            "2026-10-01T10:00:00Z",
            "/p/web",
            1.0,
        ));
        runs.push(paid(
            &format!("b/{n}"),
            "2026-10-08T10:00:00Z",
            "/p/web",
            1.0,
        ));
        runs.push(paid(
            &format!("c/{n}"),
            "2026-10-09T10:00:00Z",
            "/p/api",
            2.0,
        ));
    }
    let week = days("2026-10-08", "2026-10-14");
    let report = of(&runs, week, "2026-10-14T23:00:00Z", &TimeZone::UTC);
    assert_eq!(
        report.answer,
        "Cost is 3.0 times what it was, at $36.00; api added $24.00."
    );
    let cost = &report.facts()[3];
    assert_eq!(
        (cost.sum.as_str(), cost.change.as_str()),
        ("$36.00", "×3.0")
    );
}

/// Runs of many kinds: estimated and recorded costs, missing numbers, several models and agents.
fn mixed() -> Vec<Summary> {
    let price = Price {
        input: 1_000.0,
        ..Price::default()
    };
    let prices = Prices::new([("m".to_owned(), price)].into(), "p".to_owned()).unwrap();
    let prices = Arc::new(prices);
    let kinds = [
        RunStatus::Answered,
        RunStatus::Limit,
        RunStatus::Error,
        RunStatus::Cancelled,
        RunStatus::Unknown,
        RunStatus::Critic,
        RunStatus::Running,
    ];
    (0..210_i64)
        .map(|n| {
            let kind = kinds[n as usize % kinds.len()];
            let reason = ["final", "max_steps", "api_error"]
                .get(n as usize % 5)
                .copied();
            let mut run = run(&format!("mixed/{n:03}"), kind, reason);
            let at = micros("2026-10-01T00:00:00Z") + n * 7_200_000_000;
            run.started = (n % 11 > 0).then_some(at);
            run.success = [Some(true), Some(false), None, None][n as usize % 4];
            run.project = (n % 3 > 0).then(|| format!("/home/me/p{}", n % 3));
            run.task = (n % 4 > 0).then(|| format!("task {}", n % 9).into());
            run.tool = (n % 6 > 0).then(|| "Claude Code 2.0".into());
            run.agents = match n % 3 {
                0 => Vec::new().into(),
                1 => vec!["lead".to_owned()].into(),
                _ => vec!["lead".to_owned(), "helper".to_owned()].into(),
            };
            run.parent = (n % 10 == 9).then(|| format!("mixed/{:03}", n - 1).into());
            run.model = (n % 5 > 0).then(|| if n % 2 == 0 { "m" } else { "n" }.into());
            run.duration_ms = (n % 7 > 0).then_some(1_000.0 * n as f64);
            if n % 8 > 0 {
                let spent = |model: &str, input| Spent {
                    model: model.into(),
                    quarter: run.started.and_then(crate::analysis::calendar::quarter),
                    size: RequestSize::default(),
                    input,
                    output: 5,
                    ..Spent::default()
                };
                let spent = vec![spent("m", 100 + n as u64), spent("n", 7)];
                run.tokens = Some(spent.iter().map(Spent::tokens).sum());
                run.spent = spent.into();
            }
            if n % 9 == 0 {
                run.cost_usd = Some(0.25);
            }
            // Some are still being read, and a recorded cost may include that of another run.
            run.partial = n % 17 == 3;
            if n % 30 == 28 {
                run.cost_usd = Some(1.5);
            }
            if n % 30 == 29 {
                let relation = Relation {
                    paid_by: Some(RunKey::new(&format!("mixed/{:03}", n - 1))),
                    ..Relation::default()
                };
                run.relation = relation.into();
            }
            run.priced(&prices)
        })
        .collect()
}

#[test]
fn the_totals_of_all_views_are_the_same() {
    let runs: Vec<Arc<Summary>> = mixed().into_iter().map(Arc::new).collect();
    let zone = zone("America/New_York");
    let now = micros("2026-10-31T12:00:00Z");
    let clock = Clock::at(now, &zone);
    for text in ["", "model:m", "result:limit,error", "-task:none cost>0"] {
        let query = Query::parse_at(text, &clock);
        assert_eq!(query.ignored, []);
        let matching = || {
            runs.iter()
                .map(AsRef::as_ref)
                .filter(|run: &&Summary| query.matches(*run))
        };
        let strip = survey(&runs, &query);
        let asked = Asked {
            days: Days::default(),
            now,
            zone: &zone,
            limit: 1_000,
            is_part: false,
        };
        let report = overview(matching(), &asked);
        let used = usage(matching(), By::Day, Days::default(), &zone).total;
        let close = |a: f64, b: f64, what: &str| {
            assert!((a - b).abs() < 1e-6, "{text}: {what}: {a} is not {b}");
        };
        assert!(strip.matched > 10, "{text}");
        assert_eq!(report.totals.runs, strip.matched);
        for (measure, total) in [
            (report.totals.tokens, strip.tokens),
            (report.totals.cost, strip.cost),
            (report.totals.duration_ms, strip.duration),
        ] {
            close(measure.sum.unwrap(), total.sum.amount, "overview");
            assert_eq!(
                (measure.runs, measure.median),
                (total.sum.known, total.median)
            );
        }
        close(used.tokens as f64, strip.tokens.sum.amount, "usage: tokens");
        close(used.cost.unwrap(), strip.cost.sum.amount, "usage: cost");
        if text.is_empty() {
            // The model n has no price.
            let bars = &report.all_models.bars;
            assert!(bars.iter().any(|bar| bar.cost_is_lower_bound));
            assert!(bars.iter().any(|bar| bar.cost_is_estimated));
        }
        let models = &report.models.rows;
        close(
            models.iter().map(|row| row.used.tokens as f64).sum(),
            strip.tokens.sum.amount,
            "models: tokens",
        );
        close(
            models.iter().filter_map(|row| row.used.cost).sum(),
            strip.cost.sum.amount,
            "models: cost",
        );
        let projects = &report.projects.rows;
        close(
            projects.iter().filter_map(|row| row.cost).sum(),
            strip.cost.sum.amount,
            "projects: cost",
        );
        for model in report.models.rows.iter().filter(|row| !row.name.is_empty()) {
            // The link of a model leads to all runs that used it.
            let terms = Query::parse_at(&format!("models={}", Needle::new(&*model.name)), &clock);
            let linked = matching().filter(|run| !run.partial && terms.matches(*run));
            assert_eq!(linked.count(), model.used.runs, "{}", model.name);
        }
        let dated = matching().filter(|run| run.started.is_some()).count();
        assert_eq!(report.bars.iter().map(|bar| bar.runs).sum::<usize>(), dated);
        assert_eq!(report.hours.iter().flatten().sum::<usize>(), dated);
        let reasons = report.stop_reasons.rows.iter();
        assert_eq!(reasons.map(|row| row.runs).sum::<usize>(), strip.matched);
        for by in &GROUPINGS {
            let whole = Window {
                limit: usize::MAX,
                after: None,
                rows: 1,
            };
            let found = groups(&runs, &query, by, Sort::default(), whole, &clock);
            let sum = |name: &str| {
                let column = super::super::columns::Column::find(name).unwrap();
                let sums = found.groups.iter().filter_map(|group| group.sum(column));
                sums.map(|sum: &Sum| sum.amount).sum::<f64>()
            };
            assert_eq!(
                found.groups.iter().map(|group| group.runs).sum::<usize>(),
                strip.matched,
                "{}",
                by.name
            );
            close(sum("tokens"), strip.tokens.sum.amount, by.name);
            close(sum("cost"), strip.cost.sum.amount, by.name);
            close(sum("duration"), strip.duration.sum.amount, by.name);
            let mut results = BTreeMap::new();
            for (result, number) in found.groups.iter().flat_map(|group| &group.results) {
                *results.entry(*result).or_insert(0) += number;
            }
            assert_eq!(results, report.totals.results, "{}", by.name);
            // The link of a group leads to its runs.
            for group in found.groups.iter().filter(|_| !by.is_parent()) {
                let Some(terms) = by.terms(&group.name) else {
                    assert!(group.name.contains(", "), "{}: {}", by.name, group.name);
                    continue;
                };
                let terms = Query::parse_at(&terms, &clock);
                let linked = matching().filter(|run| terms.matches(*run));
                // A run with several agents or models also matches a query for one of them.
                let linked = linked.filter(|run| by.name != "agent" || run.agents.len() < 2);
                assert_eq!(linked.count(), group.runs, "{}: {}", by.name, group.name);
            }
        }
    }
}

#[test]
fn names_are_bounded_and_lists_say_what_they_leave_out() {
    let mut runs = mixed();
    for (n, run) in runs.iter_mut().enumerate() {
        run.task = Some(format!("\n\n  {}{}", "long ".repeat(500), n / 2).into());
        run.tools = vec![format!("tool {n}")].into();
        run.tool_sums = vec![ToolSum::default()].into();
    }
    let asked = Asked {
        days: Days::default(),
        now: micros("2026-10-31T12:00:00Z"),
        zone: &TimeZone::UTC,
        limit: 5,
        is_part: false,
    };
    let report = overview(&runs, &asked);
    assert_eq!((report.tools.rows.len(), report.tools.left_out), (5, 205));
    let task = &report.tasks.rows[0];
    assert_eq!(
        (task.name.chars().count(), task.query.as_deref()),
        (201, None)
    );
    assert!(task.name.ends_with('…'));
}

#[test]
fn a_project_without_runs_now_may_be_what_the_cost_is_about() {
    let zone = zone("UTC");
    let paid = |key: &str, day: u32, project: &str, usd: f64| {
        let mut run = started(key, &format!("2026-10-{day:02}T10:00:00Z"));
        run.project = Some(project.into());
        run.cost_usd = Some(usd);
        run
    };
    let mut runs = vec![started("first", "2026-09-01T00:00:00Z")];
    for n in 0..12 {
        runs.push(paid(&format!("w{n}"), 1 + n % 7, "/web", 10.0));
        runs.push(paid(&format!("a{n}"), 1 + n % 7, "/api", 1.0));
        runs.push(paid(&format!("b{n}"), 8 + n % 7, "/api", 1.0));
    }
    let report = of(
        &runs,
        days("2026-10-08", "2026-10-14"),
        "2026-10-20T00:00:00Z",
        &zone,
    );
    let Finding::Cost {
        project, change, ..
    } = &report.finding
    else {
        panic!("{:?}", report.finding);
    };
    assert_eq!((project.as_deref(), *change), (Some("/web"), -120.0));
    let names: Vec<_> = report.projects.rows.iter().map(|row| &row.name).collect();
    assert_eq!(names, [&Some("/api".to_owned())]);
}

#[test]
fn a_run_of_the_future_does_not_empty_the_chart() {
    let zone = zone("UTC");
    let mut runs: Vec<Summary> = (1..=9)
        .map(|day| started(&format!("r{day}"), &format!("2026-10-0{day}T10:00:00Z")))
        .collect();
    runs.push(started("late", "2099-01-01T00:00:00Z"));
    let report = of(&runs, Days::default(), "2026-10-20T00:00:00Z", &zone);
    let charted: usize = report.bars.iter().map(|bar| bar.runs).sum();
    assert_eq!((charted, report.runs_without_bar), (9, 1));
    let notes = report.notes().join(" ");
    assert!(notes.contains("1 run outside the chart"), "{notes}");
}

#[test]
fn a_tool_has_percentiles_of_its_calls_over_all_runs_from_20_calls_on() {
    let mut runs: Vec<Summary> = (0..5)
        .map(|n| started(&format!("r{n}"), "2026-10-31T10:00:00Z"))
        .collect();
    for (n, run) in runs.iter_mut().enumerate() {
        // The tools of the runs are in different orders.
        run.tools = match n {
            0 => vec!["Read".to_owned(), "Bash".to_owned()].into(),
            _ => vec!["Bash".to_owned()].into(),
        };
        run.tool_sums = vec![ToolSum::default(); run.tools.len()].into();
        run.call_times = CallTimes::of_one_tool(match n {
            0 => vec![3.0; 4],
            4 => vec![90_000.0; 5],
            _ => vec![1_000.0; 6],
        });
    }
    let tools = |runs: &[Summary]| {
        let report = of(
            runs,
            Days::default(),
            "2026-10-31T12:00:00Z",
            &TimeZone::UTC,
        );
        report.tools.rows
    };
    let rows = tools(&runs);
    let [bash, read] = &rows[..] else {
        panic!("{rows:?}");
    };
    assert_eq!((bash.name.as_str(), bash.calls_timed), ("Bash", 23));
    let near = |found: Option<f64>, exact: f64| (found.unwrap() / exact - 1.0).abs() < 0.045;
    assert!(
        near(bash.p50_ms, 1_000.0) && near(bash.p95_ms, 90_000.0),
        "{bash:?}"
    );
    assert_eq!(
        (read.calls_timed, read.p50_ms, read.p95_ms),
        (4, None, None)
    );
    // Duplicates don't count.
    runs[4].relation = Relation {
        duplicate_of: Some(RunKey::new("r0")),
        ..Relation::default()
    }
    .into();
    assert!(tools(&runs)[0].p50_ms.is_none());
}

#[test]
fn tools_have_their_calls_failures_and_total_time_those_that_took_longest_first() {
    let sum = |calls, judged, failed, ms| ToolSum {
        calls,
        judged,
        failed,
        ms,
    };
    let mut runs: Vec<Summary> = (0..3)
        .map(|n| started(&format!("r{n}"), "2026-10-31T10:00:00Z"))
        .collect();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    runs[0].tools = names(&["Read", "Bash"]);
    runs[0].tool_sums = vec![sum(9, 9, 0, 300.0), sum(4, 3, 2, 2_000.0)].into();
    runs[1].tools = names(&["Bash", "Ask"]);
    runs[1].tool_sums = vec![sum(2, 1, 0, 700.0), sum(5, 0, 0, 0.0)].into();
    runs[2].tools = names(&["Bash"]);
    runs[2].tool_sums = vec![sum(50, 50, 50, 9_000.0)].into();
    runs[2].relation = Relation {
        duplicate_of: Some(RunKey::new("r0")),
        ..Relation::default()
    }
    .into();
    let report = of(
        &runs,
        Days::default(),
        "2026-10-31T12:00:00Z",
        &TimeZone::UTC,
    );
    let rows: Vec<_> = report.tools.rows.iter().collect();
    let numbers: Vec<_> = rows
        .iter()
        .map(|row| {
            let calls = (row.calls, row.calls_judged, row.calls_failed);
            (&*row.name, row.runs, calls, row.total_ms)
        })
        .collect();
    assert_eq!(
        numbers,
        [
            ("Bash", 2, (6, 4, 2), Some(2_700.0)),
            ("Read", 1, (9, 9, 0), Some(300.0)),
            ("Ask", 1, (5, 0, 0), None),
        ]
    );
    assert_eq!(report.tool_ms, Some(3_000.0));
    let shares: Vec<_> = rows.iter().map(|row| report.tool_share(row)).collect();
    assert_eq!(shares, ["90%", "10%", "–"]);
}

#[test]
fn what_was_not_searched_for_changes_is_told() {
    let notes = |tasks_not_searched| {
        let report = Overview {
            tasks_not_searched,
            ..Overview::default()
        };
        report.notes()
    };
    assert!(notes(0).is_empty());
    assert_eq!(
        notes(2_001),
        ["Not checked for changes: 2,001 tasks. Among more than 2,000, some change by chance."]
    );
    assert_eq!(
        notes(7),
        ["Not checked for changes: 7 tasks. That would take too long."]
    );
    // Each of these tasks has enough runs.
    let runs: Vec<Summary> = (0..2_001)
        .flat_map(|task| nightly(&format!("task {task}"), "....xxxx"))
        .collect();
    let report = of(
        &runs,
        Days::default(),
        "2026-10-31T12:00:00Z",
        &TimeZone::UTC,
    );
    assert_eq!(report.tasks_not_searched, 2_001);
    assert_eq!(report.finding, Finding::Totals);
}

#[test]
fn a_new_failure_that_ended_several_runs_is_the_finding() {
    let failure = |message: &str, ended| RunFailure {
        id: id_of(FailureSource::Model, "", message),
        tool: "".into(),
        message: message.into(),
        source: FailureSource::Model,
        ended,
        steps: 1,
        steps_first: 1,
        times: 1,
        first: None,
        last: None,
        first_at: None,
        last_at: None,
        next: Default::default(),
    };
    let mut runs: Vec<Summary> = (1..=30)
        .map(|day| {
            let mut run = started(
                &format!("r{day:02}"),
                &format!("2026-10-{day:02}T10:00:00Z"),
            );
            run.failures = vec![failure("busy", false)].into();
            run
        })
        .collect();
    let ends = |runs: &mut [Summary], number: usize| {
        for run in runs.iter_mut().rev().take(number) {
            run.failures = vec![failure("quota of ‹n› exceeded", true)].into();
        }
        of(
            runs,
            days("2026-10-11", "2026-10-31"),
            "2026-10-31T12:00:00Z",
            &TimeZone::UTC,
        )
    };
    // Two runs may be an accident. The second line has them.
    let two = ends(&mut runs, 2);
    assert_eq!(two.finding, Finding::Totals);
    let (before, largest, after) = two.new_failures().unwrap();
    assert_eq!(
        format!("{before}{}{after}", largest.plain()),
        "1 failure is new: quota of ‹n› exceeded, hit 2 runs and ended 2."
    );
    let three = ends(&mut runs, 3);
    assert_eq!(
        three.answer,
        "3 runs ended with “quota of ‹n› exceeded” since 28 Oct, none before."
    );
    assert_eq!(three.new_failures(), None);
    let listed: Vec<_> = three
        .failures
        .newest
        .iter()
        .map(|one| &*one.message)
        .collect();
    assert_eq!(listed, ["quota of ‹n› exceeded", "busy"]);
    // What an earlier run had isn't new.
    runs[0].failures = vec![failure("quota of ‹n› exceeded", false)].into();
    assert_eq!(ends(&mut runs, 3).finding, Finding::Totals);
}
