use super::*;
use crate::analysis::window::WindowSource;
use crate::model::{Delta, Names};

/// Returns a run whose steps have these fields.
fn run(steps: &[String]) -> Index {
    let mut names = Names::default();
    let step = |(n, fields): (usize, &String)| {
        crate::format::step_head(
            format!(r#"{{"step_id": {n}, "decision": {{"mode": "act"}}{fields}}}"#).as_bytes(),
            &mut names,
        )
        .0
    };
    let steps = steps.iter().enumerate().map(step).collect();
    let mut index = Index::default();
    index.apply(Delta {
        steps,
        names: names.since(0).to_vec(),
        ..Delta::default()
    });
    index
}

fn critic(action: &str, score: f64) -> String {
    format!(
        r#", "critic_outputs": [{{"critic_name": "V", "action": "{action}", "score": {score}}}]"#
    )
}

#[test]
fn a_step_whose_command_failed_has_one_mark() {
    let failed = |status: &str| {
        format!(
            r#", "actions": [{{"name": "bash"}}], "action_results": [{{"status": "{status}", "error": null, "returncode": 9}}]"#
        )
    };
    let marks = |status: &str| {
        Overview::new(&run(&[failed(status)]), None, 1, |n| (n, n))
            .whole
            .marks
    };
    assert_eq!(marks("error"), [Some((0, 1)), None, None, None]);
    assert_eq!(marks("success"), [None, None, None, Some((0, 1))]);
}

#[test]
fn a_column_keeps_the_worst_of_each_kind() {
    const STEPS: usize = 10_000;
    let mut steps = vec![critic("continue", 0.9); STEPS];
    steps[3_501] = critic("retry", 0.4);
    steps[3_502] = critic("continue", 0.1);
    steps[3_503] = r#", "action_results": [{"status": "error", "error": "no"}]"#.to_owned();
    steps[9_999] = critic("stop", 7.0);
    steps[6_172] = critic("continue", -5.0);
    let overview = Overview::new(&run(&steps), None, 1_000, |n| {
        (n * 1_000 / STEPS, n * 1_000 / STEPS)
    });
    let column = overview.columns[350];
    assert_eq!((column.steps, overview.whole.steps), (10, STEPS));
    assert_eq!(
        column.marks,
        [Some((3_503, 1)), None, Some((3_501, 1)), None]
    );
    assert_eq!(column.lowest, Some((0.1, 3_502)), "nothing is averaged");
    assert_eq!(column.first(), Some(3_503), "errors come before retries");
    assert_eq!(overview.columns[349].marks, [None; 4]);
    assert_eq!(
        overview.columns[999].marks,
        [None, Some((9_999, 1)), None, None]
    );
    assert_eq!(
        overview.columns[999].lowest,
        Some((0.9, 9_990)),
        "7 isn't the lowest"
    );
    assert_eq!(
        overview.whole.marks,
        [Some((3_503, 1)), Some((9_999, 1)), Some((3_501, 1)), None]
    );
    assert_eq!(
        overview.whole.lowest,
        Some((-5.0, 6_172)),
        "scores outside 0 to 1 count too"
    );
    assert_eq!(overview.whole.longest, None, "unknown durations aren't 0");
}

#[test]
fn columns_add_up() {
    let steps: Vec<String> = (0..90)
        .map(|n| critic(["continue", "retry"][n % 2], n as f64 / 100.0))
        .collect();
    let overview = Overview::new(&run(&steps), None, 30, |n| (n / 3, n / 3));
    assert_eq!(Extremes::of(&overview.columns), overview.whole);
    assert_eq!(overview.whole.marks[2], Some((1, 45)));
    assert_eq!(Extremes::of(&[]).first(), None);
}

#[test]
fn a_context_window_is_recorded_or_listed_and_a_listed_one_fits_the_requests() {
    let reply = |input: u64, model: &str| {
        format!(
            r#", "model": "{model}", "context": {{"input_tokens_total": {input}, "output_tokens": 1}}"#
        )
    };
    let prices = Prices::default().with_list();
    let window = |steps: &[String], prices: Option<&Prices>| {
        Overview::new(&run(steps), prices, 10, |n| (n, n)).window
    };
    let sonnet = "claude-sonnet-4-5-20250929";
    let listed = window(&[reply(10, sonnet), reply(150_000, sonnet)], Some(&prices)).unwrap();
    assert_eq!(
        (listed.tokens, listed.source),
        (200_000, WindowSource::Listed)
    );
    assert_eq!(window(&[reply(200_001, sonnet)], Some(&prices)), None);
    assert_eq!(window(&[reply(10, "no such model")], Some(&prices)), None);
    assert_eq!(window(&[reply(10, sonnet)], None), None);
}

/// The list has 1M tokens for Claude Sonnet 4. A window above 200k must be turned on.
#[test]
fn a_window_that_must_be_turned_on_counts_only_if_a_request_shows_it() {
    let reply = |input: u64, model: &str| {
        format!(
            r#", "model": "{model}", "context": {{"input_tokens_total": {input}, "output_tokens": 1}}"#
        )
    };
    let prices = Prices::default().with_list();
    let window = |input: u64, model: &str| {
        Overview::new(&run(&[reply(input, model)]), Some(&prices), 10, |n| (n, n))
            .window
            .map(|window| (window.tokens, window.source))
    };
    let (long, listed) = (1_000_000, WindowSource::Listed);
    for (input, model, expected) in [
        (
            150_000,
            "claude-sonnet-4-20250514",
            Some((200_000, WindowSource::Default)),
        ),
        (200_001, "claude-sonnet-4-20250514", Some((long, listed))),
        (
            150_000,
            "claude-sonnet-4-20250514[1m]",
            Some((long, WindowSource::Named)),
        ),
        (
            150_000,
            "claude-sonnet-4-5-20250929[1m]",
            Some((long, WindowSource::Named)),
        ),
        (150_000, "claude-opus-4-6", None),
        (200_001, "claude-opus-4-6", Some((long, listed))),
        (150_000, "claude-opus-5-5", Some((long, listed))),
        (150_000, "gemini-2.5-pro", Some((1_048_576, listed))),
    ] {
        assert_eq!(window(input, model), expected, "{model} {input}");
    }
}
