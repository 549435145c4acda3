//! Tests the positions of scores in pictures, and which scores may be omitted.

use askama::Template as _;

use crate::analysis::scores::{Series, series};
use crate::page::scores::overlay::{Axis, Overlay, Source, letter};
use crate::page::scores::plot::{Frame, Spot, VisibleRange, extremes, ticks, with_requests};
use crate::page::scores::*;
use crate::page::tests::{HOSTILE, Recorded, tags};
use crate::soak::soak;

const FRAME: Frame = Frame {
    left: 0.0,
    right: 100.0,
    top: 0.0,
    bottom: 10.0,
    range: (0.0, 1.0),
};

fn spot(n: usize, of: usize, score: f64) -> Spot {
    Spot {
        n,
        x: n as f64 / (of - 1) as f64,
        score,
        request: Request::None,
    }
}

/// Records a run with one critic, `x`. Each item has the other fields of its output, or is empty
/// for a step without a critic.
fn run<'o>(outputs: impl IntoIterator<Item = &'o str>) -> Recorded {
    let output = |output: &str| format!(r#"[{{"critic_name": "x", {output}}}]"#);
    let outputs = outputs.into_iter().map(|critic_texts| {
        if critic_texts.is_empty() {
            "[]".to_owned()
        } else {
            output(critic_texts)
        }
    });
    Recorded::steps(outputs.enumerate().map(|(n, critic_texts)| {
        format!(r#"{{"step_id": {n}, "critic_outputs": {critic_texts}}}"#)
    }))
}

/// Calls `look` with a run's only lane.
fn only_lane<T>(run: &Recorded, query: Query, look: impl FnOnce(&LaneView<'_>) -> T) -> T {
    let view = run.view();
    let body = ScoresBody::new(&view, query);
    let lane = body.lanes().next().unwrap();
    look(&lane)
}

fn titles(lane: &LaneView<'_>) -> Vec<String> {
    lane.dots.iter().map(|dot| dot.title.clone()).collect()
}

#[test]
fn a_line_breaks_at_a_gap_and_a_lone_score_is_seen() {
    let spots = [spot(0, 5, 0.0), spot(1, 5, 1.0), spot(3, 5, 0.5)];
    assert_eq!(FRAME.line(&spots, 100).0, "M0.0 10.0h0L25.0 0.0M75.0 5.0h0");
}

#[test]
fn thinning_keeps_the_extremes_and_the_requests() {
    let mut spots: Vec<Spot> = (0..20_000).map(|n| spot(n, 20_000, 0.5)).collect();
    spots[7_001].score = 0.01;
    spots[7_002].score = 0.99;
    spots[12_345].request = Request::Retry;
    spots[12_346].request = Request::Stop;
    let kept = extremes(&spots, 100);
    assert!(
        kept.len() <= 202 && kept.contains(&7_001) && kept.contains(&7_002),
        "{}",
        kept.len()
    );
    assert!(kept.is_sorted());
    let marked = with_requests(&spots, 100);
    assert!(
        marked.contains(&12_345) && marked.contains(&12_346) && marked.len() <= 206,
        "{}",
        marked.len()
    );
    assert_eq!(
        extremes(&spots[..200], 100).len(),
        200,
        "what fits is not thinned"
    );
    let (path, drawn) = FRAME.line(&spots, 100);
    assert!(
        drawn == kept.len() && path.contains(" 9.9") && path.contains(" 0.1"),
        "{drawn}"
    );
    assert_eq!(path.matches('M').count(), 1, "thinning makes no gaps");
    spots.remove(15_000);
    assert_eq!(
        FRAME.line(&spots, 100).0.matches('M').count(),
        2,
        "and loses none"
    );
}

#[test]
fn labels_stand_at_round_steps() {
    let first = |steps| ticks(steps, 20).take(3).collect::<Vec<_>>();
    assert_eq!(first(0), Vec::<usize>::new());
    assert_eq!(ticks(18, 20).count(), 18);
    assert_eq!(first(21), [0, 2, 4]);
    assert_eq!(first(300), [0, 20, 40]);
    assert_eq!(first(20_000), [0, 1000, 2000]);
}

#[test]
fn levels_are_short_and_a_threshold_outside_is_none() {
    let words = |range| {
        Frame { range, ..FRAME }
            .levels()
            .into_iter()
            .map(|level| level.1)
            .collect::<Vec<_>>()
    };
    assert_eq!(words((0.0, 1.0)), ["0", "0.5", "1"]);
    assert_eq!(words((-20.0, 100.0)), ["−20", "40", "100"]);
    assert_eq!(words((-2e307, 1e308)), ["−2e307", "4e307", "1e308"]);
    assert_eq!(FRAME.level(Some(0.3)).unwrap().text, "0.30");
    assert_eq!(FRAME.level(Some(1.5)), None);
}

#[test]
fn a_long_lane_stays_small_and_says_what_it_leaves_out() {
    let (count, critic_texts) = if soak() {
        (20_000, "20,000")
    } else {
        (4_000, "4,000")
    };
    let scores: Vec<String> = (0..count)
        .map(|n| format!(r#""score": {}"#, f64::from(n % 97) / 97.0))
        .collect();
    let run = run(scores.iter().map(String::as_str));
    only_lane(&run, Query::default(), |lane| {
        assert!(
            lane.dots.len() <= 202 && lane.dots.iter().all(|dot| dot.is_quiet),
            "{}",
            lane.dots.len()
        );
        assert!(
            lane.line.is_band && lane.line.path.len() < 32_000,
            "{}",
            lane.line.path.len()
        );
        let caption = lane.caption();
        assert!(
            caption.starts_with(&format!("{critic_texts} points, drawn as a band"))
                && caption.ends_with(" clickable"),
            "{caption}"
        );
    });
    let html = ScoresBody::new(&run.view(), Query::default())
        .render()
        .unwrap();
    let dots: Vec<_> = tags(&html)
        .into_iter()
        .filter(|tag| tag.get("id") == Some("p0-0"))
        .collect();
    assert_eq!(dots[0].get("href"), Some("/runs/a%2Fb?step=0"));
}

#[test]
fn a_lane_counts_below_its_threshold_and_has_a_range_where_it_must() {
    let query = Query {
        threshold: "0.3".to_owned(),
        ..Query::default()
    };
    only_lane(
        &run([r#""score": 0.5"#, "", r#""score": 0.1"#]),
        query,
        |lane| {
            assert_eq!(lane.course(), "falls once; 1 of 2 below 0.30");
            assert_eq!(titles(lane), ["step 0 · x 0.50", "step 2 · x 0.10"]);
            assert!(lane.level().is_some() && lane.caption().is_empty());
        },
    );
    let query = Query {
        threshold: "900".to_owned(),
        critic: "x".to_owned(),
        ..Query::default()
    };
    let far = run([r#""score": 70"#, r#""score": 95.5"#]);
    let caption =
        "scores outside 0 to 1, axis from 0 to 100 · the threshold 900 is outside this axis";
    only_lane(&far, query.clone(), |lane| {
        assert_eq!(lane.caption(), caption)
    });
    let other = Query {
        critic: "y".to_owned(),
        ..query
    };
    only_lane(&far, other, |lane| assert!(lane.threshold.is_none()));
}

#[test]
fn what_is_asked_without_a_score_is_marked_at_the_edge() {
    let run = run([r#""score": 0.5"#, r#""action": "stop", "reason": "no""#]);
    only_lane(&run, Query::default(), |lane| {
        assert_eq!(titles(lane)[1], "step 1 · x no score · stop · no")
    });
    let html = ScoresBody::new(&run.view(), Query::default())
        .render()
        .unwrap();
    assert!(
        html.contains("<svg x=\"100.00%\" y=\"90.0\"><path class=\"f-stop\""),
        "{html}"
    );
}

#[test]
fn runs_over_each_other_have_a_letter_a_dash_and_words() {
    let (one, silent) = (
        run([r#""score": 0.1"#, r#""score": 0.2, "action": "retry""#]),
        run([]),
    );
    let (a, b) = (one.view(), silent.view());
    let source = |view| Source::new(view, &series(view.index, None), |n| n as f64);
    let axis = Axis {
        name: "step",
        ticks: vec![(0.0, "0".to_owned())],
        ends: None,
    };
    let overlay = Overlay::lines(
        HOSTILE.to_owned(),
        axis,
        &[source(&a), source(&b)],
        Some(0.15),
    );
    assert_eq!(
        overlay.lines[0].dots[1].title,
        "A a/b · step 1 · 0.20 · retry"
    );
    let html = overlay.render().unwrap();
    assert!(
        html.contains("class=\"thr\"") && html.contains("↻") && html.contains("class=\"s2\""),
        "{html}"
    );
    assert!(
        !html.contains("style=") && !html.contains("<script"),
        "{html}"
    );
    assert_eq!([letter(0), letter(25), letter(26)], ["A", "Z", "27"]);
}

#[test]
fn a_band_has_gaps_where_no_run_has_a_score() {
    let series = |points: &[(usize, f64)]| Series {
        steps: 3,
        points: points.to_vec(),
        ..Series::default()
    };
    let runs = [series(&[(0, 0.2), (2, 0.5)]), series(&[(0, 0.4)])];
    let overlay = Overlay::band(
        "t".to_owned(),
        Axis::default(),
        None,
        &runs,
        false,
        (VisibleRange::WHOLE, None),
    );
    assert_eq!(
        (
            overlay.band.0.matches('z').count(),
            overlay.band.1.matches('M').count()
        ),
        (2, 2)
    );
    assert!(overlay.render().unwrap().contains("class=\"quart\""));
}

#[test]
fn the_median_stands_where_the_lines_do() {
    let steps = |n: usize| (0..n).map(|n| (n, n as f64 / 10.0)).collect::<Vec<_>>();
    let runs = [10, 10, 10].map(|n| Series {
        steps: n,
        points: steps(n),
        ..Series::default()
    });
    let overlay = Overlay::band(
        "t".to_owned(),
        Axis::default(),
        None,
        &runs,
        false,
        (VisibleRange::WHOLE, None),
    );
    // Ten steps, the first at the left edge and the last at the right, as in a line.
    assert!(
        overlay.band.1.starts_with("M0.0 236.0h0L111.1 ")
            && overlay.band.1.ends_with("L1000.0 34.4"),
        "{}",
        overlay.band.1
    );
    let part = VisibleRange::new(Some(3), Some(6), 9.0).unwrap();
    let overlay = Overlay::band(
        "t".to_owned(),
        Axis::default(),
        None,
        &runs,
        false,
        (part, None),
    );
    assert!(
        overlay.band.1.starts_with("M0.0 168.8h0") && overlay.band.1.ends_with("1000.0 101.6"),
        "{}",
        overlay.band.1
    );
}

#[test]
fn a_part_of_a_lane_has_its_own_points_and_labels() {
    let scores: Vec<String> = (0..300)
        .map(|n| format!(r#""score": {}"#, f64::from(n) / 300.0))
        .collect();
    let run = run(scores.iter().map(String::as_str));
    let query = Query {
        from: Some(100),
        to: Some(110),
        ..Query::default()
    };
    assert_eq!(query.address("/x", &[]), "/x?from=100&to=110");
    only_lane(&run, query, |lane| {
        assert_eq!(
            (lane.ends(), lane.dots.len(), lane.dots[0].is_quiet),
            ((100, 110), 11, false)
        );
        assert_eq!((lane.dots[0].x, lane.dots[10].x), (0.0, 1000.0));
        let ticks: Vec<_> = lane.ticks().collect();
        assert_eq!(
            (ticks.len(), ticks[10].0.to_string(), &*ticks[10].1),
            (11, "100.00%".to_owned(), "110")
        );
        assert!(
            lane.caption().starts_with("steps 100 to 110 of 300"),
            "{}",
            lane.caption()
        );
    });
    // An empty range shows the whole axis.
    assert!(
        Query {
            from: Some(9),
            to: Some(3),
            ..Query::default()
        }
        .visible(299.0)
        .is_whole()
    );
}

#[test]
fn a_threshold_is_a_number_or_a_fault() {
    let typed = |text: &str| Query {
        threshold: text.to_owned(),
        critic: "a".to_owned(),
        ..Query::default()
    };
    assert_eq!(
        (typed(" 0.3 ").threshold(), typed("").is_wrong()),
        (Some(0.3), false)
    );
    assert!(typed("low").is_wrong() && typed("inf").is_wrong());
    assert_eq!(
        (typed("1").threshold_of("a"), typed("1").threshold_of("b")),
        (Some(1.0), None)
    );
}
