use super::*;
use crate::analysis::run_status::RunStatus;
use crate::analysis::select::sample::run;
use crate::analysis::summary::CriticScore;
use crate::analysis::verdict::{LimitFrom, StepLimit};
use crate::model::Origin;

/// A finished run of a task. `None` means that no success is recorded.
fn of(set: &str, task: usize, repeat: usize, solved: Option<bool>) -> Summary {
    let key = format!("{set}/{task:02}-{repeat}");
    let mut one = run(&key, RunStatus::Answered, Some("final"));
    one.success = solved;
    one.task = Some(format!("Solve task {task:02} of the set.").into());
    one.started = Some(1_000_000 * repeat as i64);
    one
}

/// One run a task, by whether it's solved: `1`, `0`, or `?`.
fn set(name: &str, results: &str) -> Vec<Summary> {
    let solved = |result: char| match result {
        '1' => Some(true),
        '0' => Some(false),
        _ => None,
    };
    let runs = results.chars().enumerate();
    runs.map(|(task, result)| of(name, task, 0, solved(result)))
        .collect()
}

fn question(success: &str) -> Question {
    Question {
        a: "run:a/".to_owned(),
        b: "run:b/".to_owned(),
        by: By::Task,
        success: success.parse().unwrap(),
    }
}

fn compared(a: &[Summary], b: &[Summary]) -> Experiment {
    compared_by(a, b, &question("recorded"))
}

fn compared_by(a: &[Summary], b: &[Summary], question: &Question) -> Experiment {
    let all = |runs: &'_ [Summary]| -> Vec<Summary> { runs.to_vec() };
    let (a, b) = (all(a), all(b));
    let (a, b): (Vec<&Summary>, Vec<&Summary>) = (a.iter().collect(), b.iter().collect());
    experiment(&a, &b, question)
}

#[test]
fn a_clear_difference_is_stated_with_its_interval() {
    // B solves 7 tasks that A doesn't, A solves 1, and 4 come out the same.
    let answer = compared(&set("a", "000000010011"), &set("b", "111111100011"));
    assert_eq!(answer.finding, Finding::Better);
    // The interval ends at 0, which is rejected.
    assert_eq!(
        answer.verdict,
        "B solves 6 more of 12 tasks, 95% interval >0 to +12."
    );
    assert_eq!((answer.better, answer.worse, answer.same), (7, 1, 4));
    let success = answer.success().unwrap();
    assert_eq!(success.difference, Some(6.0));
    assert!((success.p.unwrap() - 10.0 / 256.0).abs() < 1e-9);
    assert!(success.low.unwrap() > 0.0 && success.high.unwrap() <= 12.0);
    assert_eq!(success.better, Some(Set::B));
    assert_eq!((answer.a.solved, answer.b.solved), (3, 9));
    let certainty = &answer.certainty;
    assert_eq!((certainty.flips, certainty.exact), (Some(4096), true));
    // The other way round, it's worse.
    let swapped = compared(&set("a", "111111100011"), &set("b", "000000010011"));
    assert_eq!(swapped.finding, Finding::Worse);
    assert!(swapped.verdict.starts_with("B solves 6 fewer of 12 tasks"));
    assert_eq!(swapped.success().unwrap().better, Some(Set::A));
}

#[test]
fn an_interval_has_a_width_even_if_all_tasks_agree() {
    let answer = compared(&set("a", "00000"), &set("b", "11111"));
    let success = answer.success().unwrap();
    let (low, high) = (success.low.unwrap(), success.high.unwrap());
    assert!(0.0 < low && low < 5.0 && high <= 5.0, "{low} {high}");
    assert_eq!(answer.finding, Finding::Better);
    let tens = compared(&set("a", "00000000000"), &set("b", "11111111110"));
    let high = tens.success().unwrap().high.unwrap();
    assert!(high <= 11.0, "{high}");
}

#[test]
fn a_task_with_many_runs_is_counted_whole() {
    let runs = |name: &str| -> Vec<Summary> {
        let one = |n: usize| of(name, 0, n, Some(n < 20));
        (0..30).map(one).collect()
    };
    let answer = compared(&runs("a"), &runs("b"));
    let row = &answer.task_rows[0];
    assert_eq!(
        (row.a.len(), row.a_solved, row.runs_left_out),
        (20, (20, 30), 20)
    );
    assert_eq!(answer.stop_reasons_of, (30, 30));
}

#[test]
fn settings_without_a_shared_value_differ() {
    let prompts = |name: &str| -> Vec<Summary> {
        let mut runs = set(name, "11111111111111111111");
        for (n, run) in runs.iter_mut().enumerate() {
            run.prompt_hash = Some(format!("{name}{n}").into());
        }
        runs
    };
    let answer = compared(&prompts("a"), &prompts("b"));
    let prompt = answer.settings.iter().find(|one| one.name == "prompt");
    assert!(prompt.unwrap().differs);
}

#[test]
fn a_difference_that_may_be_chance_isnt_claimed() {
    let answer = compared(&set("a", "0100110"), &set("b", "1000111"));
    assert_eq!(answer.finding, Finding::NotClear);
    let start = "No clear difference: B solves 1 more of 7 tasks, 95% interval −";
    assert!(answer.verdict.starts_with(start), "{}", answer.verdict);
    let same = compared(&set("a", "01001101"), &set("b", "01001101"));
    assert!(
        same.verdict
            .starts_with("No clear difference: A and B both solve 4 of 8 tasks"),
        "{}",
        same.verdict
    );
    // That no task differed doesn't show that none can: 8 (1 − 0.05^(1/8)) is 2.5 tasks.
    assert_eq!(same.success().unwrap().interval(), "−2.5 to +2.5");
    assert_eq!(same.success().unwrap().p, Some(1.0));
}

#[test]
fn too_few_tasks_show_what_happened_and_claim_nothing() {
    let answer = compared(&set("a", "0000"), &set("b", "1111"));
    assert_eq!(answer.finding, Finding::TooFew);
    assert_eq!(
        answer.verdict,
        "Too few tasks: A and B share 4, and 5 are needed."
    );
    let success = answer.success().unwrap();
    assert_eq!((success.low, success.is_clear), (None, false));
    assert_eq!(success.reading(), "not enough data");
    assert_eq!(answer.task_rows.len(), 4);
    assert_eq!(answer.only(Set::B).count(), 4);
}

#[test]
fn runs_in_both_sets_and_unfinished_ones_belong_to_neither() {
    let (mut a, b) = (set("a", "00000"), set("b", "11111"));
    a.extend(b.iter().take(2).cloned());
    let mut running = of("a", 1, 1, None);
    running.verdict.mark = RunStatus::Running;
    a.push(running);
    let answer = compared(&a, &b);
    assert_eq!((answer.in_both, answer.a.runs, answer.b.runs), (2, 5, 3));
    assert_eq!((answer.a.matched, answer.a.unfinished), (8, 1));
    assert_eq!(answer.finding, Finding::TooFew);
    let details = answer.details.join(" ");
    assert!(
        details.contains("2 runs match both A and B. They are in neither set."),
        "{details}"
    );
    assert!(
        details.contains("Not counted (unfinished): 1 run of A."),
        "{details}"
    );
    assert!(details.contains("2 tasks only in A."), "{details}");
    let same = compared(&b, &b);
    assert_eq!(same.finding, Finding::Empty);
    assert_eq!(
        same.verdict,
        "A and B have no runs of their own: 5 runs match both."
    );
    assert_eq!(compared(&b, &[]).verdict, "B matches no runs.");
    assert_eq!(
        compared(&[], &[]).verdict,
        "Neither A nor B matches any runs."
    );
}

#[test]
fn an_unknown_success_is_said_and_other_rules_are_offered() {
    let (a, b) = (set("a", "??????????1"), set("b", "???????????"));
    let answer = compared(&a, &b);
    assert_eq!(answer.finding, Finding::Unknown);
    assert_eq!(
        answer.verdict,
        "Success is unknown: 10 of 11 runs of A and all runs of B record no result."
    );
    assert_eq!(answer.unknown_range, Some((-11.0, 10.0)));
    let finished = answer.other_rules.first().unwrap();
    assert_eq!((&*finished.rule, finished.known), ("finished", 22));
    let finished = compared_by(&a, &b, &question("finished"));
    assert!(
        finished
            .verdict
            .starts_with("No clear difference: A and B both finish 11 of 11 tasks")
    );
}

#[test]
fn a_few_unknown_results_are_left_out_and_bounded() {
    let answer = compared(&set("a", "000000010011?"), &set("b", "1111111000111"));
    assert_eq!((answer.tasks, answer.shared_tasks), (12, 13));
    assert_eq!(answer.finding, Finding::Better);
    assert_eq!(answer.unknown_range, Some((6.0, 7.0)));
    let details = answer.details.join(" ");
    assert!(
        details.contains("Not counted (no result recorded): 1 run of A. Depending on how those runs ended, the difference is anywhere from +6 to +7 tasks."),
        "{details}"
    );
}

#[test]
fn without_shared_tasks_one_run_of_each_task_is_compared() {
    let a: Vec<Summary> = (0..20).map(|n| of("a", n, 0, Some(n < 5))).collect();
    let mut b: Vec<Summary> = (30..50).map(|n| of("b", n, 0, Some(n < 45))).collect();
    // Three more runs of one task don't count.
    b.extend((1..4).map(|repeat| of("b", 30, repeat, Some(false))));
    let answer = compared(&a, &b);
    assert!(!answer.certainty.paired);
    assert_eq!((answer.b.runs, answer.b.judged), (23, 20));
    assert_eq!(answer.finding, Finding::Better);
    // Fisher's exact test of 5/20 and 15/20: 0.0038. Newcombe's interval: 0.190 to 0.695.
    let success = answer.success().unwrap();
    assert!((success.p.unwrap() - 0.003_848).abs() < 1e-5);
    assert_eq!(
        answer.verdict,
        "B solves 75% and A 25%, +50 points, 95% interval +19 to +70."
    );
    let nothing = Question {
        by: By::Nothing,
        ..question("recorded")
    };
    let unpaired = compared_by(&set("a", "0000000"), &set("b", "1111111"), &nothing);
    assert!(!unpaired.certainty.paired);
    assert_eq!(unpaired.finding, Finding::Better);
}

#[test]
fn different_limits_qualify_the_verdict() {
    let (a, mut b) = (set("a", "000000010011"), set("b", "111111100011"));
    for run in &mut b {
        run.verdict.limit = Some(StepLimit {
            steps: 60,
            from: LimitFrom::SetBy(Origin::Task),
        });
        run.model = Some("m".into());
    }
    let answer = compared(&a, &b);
    assert!(
        answer
            .verdict
            .contains(", but the step limit differs (A 40, B 60)"),
        "{}",
        answer.verdict
    );
    let (differs, same) = answer.settings_words();
    // A doesn't record its model, so nobody knows whether that differs.
    assert_eq!(differs, "step limit");
    assert!(!same.contains("model"), "{same}");
}

#[test]
fn a_setting_is_the_same_only_if_most_runs_record_it() {
    let (mut a, mut b) = (set("a", "000000010011"), set("b", "111111100011"));
    let run = |run: &mut Summary, steps: i64, day: i64| {
        run.verdict.limit = Some(StepLimit {
            steps,
            from: LimitFrom::SetBy(Origin::Task),
        });
        run.started = Some(day * 86_400_000_000);
    };
    // One run of B records another limit than those of A, and the others none.
    a.iter_mut()
        .enumerate()
        .for_each(|(n, one)| run(one, 8, n as i64));
    run(&mut b[0], 50, 3);
    for one in b.iter_mut().skip(1) {
        one.verdict.limit = None;
    }
    let (_, same) = compared(&a, &b).settings_words();
    assert_eq!(same, "", "B began on days of A, but not on all of them");
    b.iter_mut()
        .enumerate()
        .for_each(|(n, one)| run(one, 8, n as i64));
    let (_, same) = compared(&a, &b).settings_words();
    assert_eq!(same, "step limit, date");
}

#[test]
fn a_task_counts_once_however_many_runs_it_has() {
    let runs = |set: &str, passed: usize| -> Vec<Summary> {
        (0..8)
            .flat_map(|task| (0..3).map(move |repeat| (task, repeat)))
            .map(|(task, repeat)| of(set, task, repeat, Some(repeat < passed || task == 7)))
            .collect()
    };
    let answer = compared(&runs("a", 1), &runs("b", 2));
    let success = answer.success().unwrap();
    assert_eq!(success.label, "Solved, mean of 3 runs");
    assert!((success.difference.unwrap() - 7.0 / 3.0).abs() < 1e-9);
    assert_eq!(answer.a.runs_per_task, Some((3, 3)));
    let once = answer.measure("pass_once").unwrap();
    let always = answer.measure("pass_always").unwrap();
    assert_eq!((once.a, once.b), (Some(1.0), Some(1.0)));
    assert_eq!((always.a, always.b), (Some(0.125), Some(0.125)));
    assert_eq!(answer.only(Set::B).count(), 7);
    // A run that failed and one that succeeded.
    let row = answer.only(Set::B).next().unwrap();
    assert_eq!(row.name, "Solve task 00");
    assert_eq!(row.compare, ("a/00-1".to_owned(), "b/00-0".to_owned()));
    assert!(answer.certainty.finds_with_twice_the_runs.is_some());
}

#[test]
fn what_runs_used_is_compared_by_ratio_and_corrected() {
    let (mut a, mut b) = (set("a", "01010101"), set("b", "01010101"));
    for (n, run) in a.iter_mut().enumerate() {
        run.rare.cost_usd = Some(1.0 + n as f64);
        run.tokens = Some(1_000);
    }
    for (n, run) in b.iter_mut().enumerate() {
        run.rare.cost_usd = Some(1.5 * (1.0 + n as f64));
        run.tokens = Some(1_000);
        run.critic_scores = [CriticScore {
            name: "tests".to_owned(),
            score: 0.5,
        }]
        .into();
    }
    let answer = compared(&a, &b);
    let cost = answer.measure("cost").unwrap();
    assert!((cost.difference.unwrap() - 0.5).abs() < 1e-9);
    // 2 of 256 flips are as extreme, half of which count. Steps, tokens, cost and time are four.
    assert_eq!(answer.certainty.corrected, 4);
    assert!((cost.p.unwrap() - 1.0 / 256.0).abs() < 1e-9);
    assert!((cost.p_corrected.unwrap() - 4.0 / 256.0).abs() < 1e-9);
    assert_eq!(cost.better, Some(Set::A));
    assert!(answer.verdict.ends_with("; costs 50% more."));
    // Scores that one side lacks aren't compared.
    assert!(answer.measure("tests").is_none());
    let tokens = answer.measure("tokens").unwrap();
    assert_eq!((tokens.p, tokens.difference), (Some(1.0), Some(0.0)));
}

#[test]
fn duplicates_count_once() {
    let (mut a, b) = (set("a", "01010"), set("b", "01010"));
    let mut copy = a[0].clone();
    copy.key = crate::model::RunKey::new("copy/00-0");
    copy.relation.duplicate_of = Some(a[0].key.clone());
    a[0].relation.copies = 1;
    a.push(copy);
    let answer = compared(&a, &b);
    assert_eq!((answer.a.runs, answer.a.duplicates), (5, 1));
    let details = answer.details.join(" ");
    assert!(details.contains("1 duplicate of these runs isn't counted."));
}

#[test]
fn tasks_are_named_by_the_words_that_differ() {
    let named = |texts: &[&str]| names(texts.iter().copied());
    assert_eq!(
        named(&[
            "Make the tests of\n  a-b pass. Change no test.",
            "Make the tests of c-d pass. Change no test."
        ]),
        ["a-b", "c-d"]
    );
    // Short beginnings stay.
    assert_eq!(named(&["Fix a", "Fix b"]), ["Fix a", "Fix b"]);
    assert_eq!(named(&["Only one task"]), ["Only one task"]);
    assert_eq!(
        named(&["é ü ö ä ß é ü ö 1", "é ü ö ä ß é ü ö 2"]),
        ["1", "2"]
    );
    let long = "x".repeat(70);
    assert_eq!(named(&[&long])[0].chars().count(), MAX_NAME + 1);
    assert!(named(&[]).is_empty());
}

#[test]
fn many_tasks_are_counted_and_a_few_listed() {
    let many = |set: &str| -> Vec<Summary> {
        (0..MAX_LISTED + 20)
            .map(|n| of(set, n, 0, Some(n % 2 == 0)))
            .collect()
    };
    let answer = compared(&many("a"), &many("b"));
    assert_eq!((answer.tasks, answer.task_rows.len()), (520, 500));
    assert_eq!(answer.task_rows_left_out, 20);
}

#[test]
fn conditions_are_decided_or_not() {
    let clear = compared(&set("a", "000000010011"), &set("b", "111111100011"));
    let decide = |answer: &Experiment, text: &str| {
        let condition: Condition = text.parse().unwrap();
        condition.decide(answer).map(|decision| decision.holds)
    };
    for (condition, holds) in [
        ("success < 6", Some(false)),
        ("success <= 6", Some(true)),
        ("success.low > 0", Some(true)),
        ("success.high < 0", Some(false)),
        ("success >= 50%", Some(true)),
        ("success > −1", Some(true)),
        ("time > 0", Some(false)),
        ("time > 5%", Some(false)),
        ("cost > 5%", None),
        ("pass_once > 5%", None),
    ] {
        assert_eq!(decide(&clear, condition), Ok(holds), "{condition}");
    }
    for condition in ["tests < 1", "time > 5", "succes < 0"] {
        assert!(decide(&clear, condition).is_err(), "{condition}");
    }
    let few = compared(&set("a", "0000"), &set("b", "1111"));
    let unknown = compared(&set("a", "?????"), &set("b", "?????"));
    assert_eq!(decide(&few, "success < 0"), Ok(None));
    assert_eq!(decide(&few, "time > 5%"), Ok(None));
    assert_eq!(decide(&unknown, "success < 0"), Ok(None));
    assert_eq!(decide(&unknown, "time > 5%"), Ok(Some(false)));
    assert_eq!(decide(&compared(&[], &[]), "success < 0"), Ok(None));
    for text in ["success", "success < x", "< 1", ".low < 1", "a = 1"] {
        assert!(text.parse::<Condition>().is_err(), "{text}");
    }
}

#[test]
fn tasks_that_differ_only_in_case_are_paired() {
    let (a, mut b) = (set("a", "010101"), set("b", "111111"));
    for run in &mut b {
        run.task = run.task.as_deref().map(|task| task.to_uppercase().into());
    }
    let answer = compared(&a, &b);
    assert_eq!((answer.shared_tasks, answer.better, answer.same), (6, 3, 3));
    // The link of a row shows the runs of both sets.
    let row = answer.task_rows.first().unwrap();
    assert_eq!((row.a.len(), row.b.len()), (1, 1));
}
