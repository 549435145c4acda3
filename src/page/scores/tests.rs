//! Where scores stand in a picture, what is left out of it and what never is.

use askama::Template as _;

use crate::analysis::scores::{Lane, Point, Series, quartiles};
use crate::model::CriticAction;
use crate::page::scores::lane::Place;
use crate::page::scores::overlay::{Axis, Overlay, Source, letter};
use crate::page::scores::plot::{Frame, Spot, extremes, ticks, with_marks};
use crate::page::scores::*;

const FRAME: Frame = Frame { left: 0.0, right: 100.0, top: 0.0, bottom: 10.0, range: (0.0, 1.0) };

fn spot(n: usize, of: usize, score: f64) -> Spot {
    Spot { n, x: n as f64 / (of - 1) as f64, score, mark: Mark::None, after_gap: false }
}

fn place(steps: usize) -> Place<'static> {
    Place { key: "a/b", steps, label: &|n| n.to_string(), reason: &|_, _| None, starts: &[], lanes: 1 }
}

fn lane(scores: impl Iterator<Item = Option<f64>>) -> Lane {
    let point = |(n, score)| Point { n, place: 0, score, action: CriticAction::Continue, patches: false };
    Lane { name: "x".to_owned(), points: scores.enumerate().map(point).collect() }
}

#[test]
fn a_line_breaks_at_a_gap_and_a_lone_score_is_seen() {
    let mut spots = vec![spot(0, 5, 0.0), spot(1, 5, 1.0), spot(3, 5, 0.5)];
    spots[2].after_gap = true;
    assert_eq!(FRAME.line(&spots, 100).0, "M0.0 10.0h0L25.0 0.0M75.0 5.0h0");
}

#[test]
fn thinning_keeps_the_extremes_and_the_marks() {
    let mut spots: Vec<Spot> = (0..20_000).map(|n| spot(n, 20_000, 0.5)).collect();
    spots[7_001].score = 0.01;
    spots[7_002].score = 0.99;
    spots[12_345].mark = Mark::Retry;
    spots[12_346].mark = Mark::Stop;
    let kept = extremes(&spots, 100);
    assert!(kept.len() <= 202 && kept.contains(&7_001) && kept.contains(&7_002), "{}", kept.len());
    assert!(kept.is_sorted());
    let marked = with_marks(&spots, 100);
    assert!(marked.contains(&12_345) && marked.contains(&12_346) && marked.len() <= 206, "{}", marked.len());
    assert_eq!(extremes(&spots[..200], 100).len(), 200, "what fits is not thinned");
    let (path, drawn) = FRAME.line(&spots, 100);
    assert!(drawn == kept.len() && path.contains(" 9.9") && path.contains(" 0.1"), "{drawn}");
    assert_eq!(path.matches('M').count(), 1, "thinning makes no gaps");
    spots[15_000].after_gap = true;
    assert_eq!(FRAME.line(&spots, 100).0.matches('M').count(), 2, "and loses none");
}

#[test]
fn labels_stand_at_round_steps() {
    assert_eq!(ticks(0, 20), Vec::<usize>::new());
    assert_eq!(ticks(18, 20).len(), 18);
    assert_eq!(ticks(21, 20)[..3], [0, 2, 4]);
    assert_eq!(ticks(300, 20)[..3], [0, 20, 40]);
    assert_eq!(ticks(20_000, 20)[..3], [0, 1000, 2000]);
}

#[test]
fn levels_are_short_and_a_threshold_outside_is_none() {
    let words = |range| Frame { range, ..FRAME }.levels().into_iter().map(|tick| tick.text).collect::<Vec<_>>();
    assert_eq!(words((0.0, 1.0)), ["0", "0.5", "1"]);
    assert_eq!(words((-20.0, 100.0)), ["−20", "40", "100"]);
    assert_eq!(words((-2e307, 1e308)), ["−2e307", "4e307", "1e308"]);
    assert_eq!(FRAME.level(0.3).map(|level| (level.y, level.height, level.text)).unwrap().2, "0.30");
    assert_eq!(FRAME.level(1.5), None);
}

#[test]
fn a_long_lane_stays_small_and_says_what_it_leaves_out() {
    let scores = (0..20_000).map(|n| Some(f64::from(n % 97) / 97.0));
    let view = LaneView::new(0, &lane(scores), &Query::default(), &place(20_000));
    assert!(view.dots.len() <= 202, "{}", view.dots.len());
    assert!(view.line.len() < 32_000, "{}", view.line.len());
    let caption = view.caption.as_str();
    assert!(caption.contains(" of 20,000 points drawn") && caption.contains("lead to their step"), "{caption}");
    assert!(view.thinned);
    assert_eq!(view.dots[0].href, "/runs/a%2Fb?step=0");
}

#[test]
fn a_lane_counts_below_its_threshold_and_has_a_range_where_it_must() {
    let query = Query { threshold: "0.3".to_owned(), ..Query::default() };
    let view = LaneView::new(0, &lane([Some(0.5), None, Some(0.1)].into_iter()), &query, &place(3));
    assert_eq!(view.course.as_str(), "falls on its one step; 1 of 2 below 0.30");
    assert_eq!(
        view.dots.iter().map(|dot| dot.title.as_str()).collect::<Vec<_>>(),
        ["step 0 · x 0.50", "step 2 · x 0.10"]
    );
    assert!(view.threshold.is_some() && view.caption.is_empty());
    let query = Query { threshold: "900".to_owned(), critic: "x".to_owned(), ..Query::default() };
    let view = LaneView::new(0, &lane([Some(70.0), Some(95.5)].into_iter()), &query, &place(2));
    assert_eq!(
        view.caption.as_str(),
        "scores do not fit 0 to 1; this axis is from 0 to 100; the threshold 900 lies outside this axis"
    );
    assert!(
        LaneView::new(0, &lane([Some(0.5)].into_iter()), &Query { critic: "y".to_owned(), ..query }, &place(1))
            .threshold
            .is_none()
    );
}

#[test]
fn what_is_asked_without_a_score_is_marked_at_the_edge() {
    let mut lane = lane([Some(0.5), None].into_iter());
    lane.points[1].action = CriticAction::Stop;
    let view = LaneView::new(0, &lane, &Query::default(), &place(2));
    assert_eq!(view.dots[1].title.as_str(), "step 1 · x no score · stop");
    assert!(view.dots[1].octagon.starts_with("M1033.0 83.0h6"), "{}", view.dots[1].octagon);
}

fn source(key: &str, scores: &[f64]) -> Source {
    let points: Vec<(usize, f64)> = scores.iter().copied().enumerate().collect();
    let last = scores.len().max(2) - 1;
    Source {
        key: key.to_owned(),
        labels: points.iter().map(|(n, _)| n.to_string()).collect(),
        places: points.iter().map(|(n, _)| *n as f64 / last as f64).collect(),
        series: Series { steps: scores.len(), points, retries: vec![1], stops: Vec::new() },
    }
}

#[test]
fn runs_over_each_other_have_a_letter_a_dash_and_words() {
    let axis = Axis { name: "step", ticks: vec![(0.0, "0".to_owned())] };
    let overlay = Overlay::lines("t".to_owned(), &axis, &[source("a<b>", &[0.1, 0.2]), source("c", &[])], Some(0.15));
    assert_eq!((overlay.lines[0].letter.as_str(), overlay.lines[1].series), ("A", 2));
    assert_eq!(overlay.lines[0].dots[1].title.as_str(), "A a<b> · step 1 · 0.20 · retry");
    let html = overlay.render().unwrap();
    assert!(
        html.contains("class=\"thr\"") && html.contains("↻") && !html.contains("style=") && !html.contains("<b>"),
        "{html}"
    );
    assert_eq!([letter(0), letter(25), letter(26)], ["A", "Z", "27"]);
}

#[test]
fn a_band_has_gaps_where_no_run_has_a_score() {
    let band = |scores: &[f64]| quartiles(scores.to_vec());
    let bands = [band(&[0.2, 0.4]), None, band(&[0.5])];
    let overlay = Overlay::band("t".to_owned(), &Axis::default(), None, &bands, None);
    assert_eq!((overlay.band.matches('z').count(), overlay.median.matches('M').count()), (2, 2));
    assert!(overlay.render().unwrap().contains("class=\"quart\""));
}

#[test]
fn a_threshold_is_a_number_or_a_fault() {
    let typed = |text: &str| Query { threshold: text.to_owned(), critic: "a".to_owned(), before: None };
    assert_eq!((typed(" 0.3 ").threshold(), typed("").is_wrong()), (Some(0.3), false));
    assert!(typed("low").is_wrong() && typed("inf").is_wrong());
    assert_eq!((typed("1").threshold_of("a"), typed("1").threshold_of("b")), (Some(1.0), None));
}
