//! Describes the course of a lane in one sentence.

use super::Lane;
use crate::analysis::format;

/// Scores that differ by less than this are displayed as the same number, so the sentence treats
/// them as equal.
const SAME: f64 = 0.005;

/// Describes the course of a lane: `rises every time`, `steady at 0.70`, `swings between
/// 0.08 and 0.92`.
///
/// Skips steps without a score.
pub fn course(lane: &Lane) -> String {
    let scores: Vec<f64> = lane.by_step().into_iter().map(|(_, score)| score).collect();
    let low = scores.iter().copied().min_by(f64::total_cmp);
    let high = scores.iter().copied().max_by(f64::total_cmp);
    let (Some(low), Some(high)) = (low, high) else {
        return "gave no score".to_owned();
    };
    if scores.len() == 1 {
        return "1 score".to_owned();
    }
    let ways = scores.len() - 1;
    let pairs = || scores.iter().zip(scores.iter().skip(1));
    let up = pairs().filter(|(before, after)| after > before).count();
    let down = pairs().filter(|(before, after)| after < before).count();
    let all = |way: &str| {
        let times = if ways == 1 { "once" } else { "at every step" };
        format!("{way} {times}")
    };
    let some = |never: &str, way: &str, count: usize| {
        let times = match count {
            1 => "once".to_owned(),
            _ => format!("{} times", format::count(count as u64)),
        };
        let scores = format::count(scores.len() as u64);
        format!("{way} {times} in {scores} scores, {never}")
    };
    match (up, down) {
        _ if high - low < SAME => format!("steady at {}", in_words(low)),
        (up, 0) if up == ways => all("rises"),
        (0, down) if down == ways => all("falls"),
        (up, 0) => some("never falls", "rises", up),
        (0, down) => some("never rises", "falls", down),
        _ => format!("swings between {} and {}", in_words(low), in_words(high)),
    }
}

/// Formats a score: two decimals between 0 and 1, otherwise the shortest exact form.
pub fn in_words(score: f64) -> String {
    if (0.0..=1.0).contains(&score) || score.fract() != 0.0 || score.abs() >= 1e6 {
        return format::score(score);
    }
    let sign = if score < 0.0 {
        String::from(format::MINUS)
    } else {
        String::new()
    };
    format!("{sign}{}", format::count(score.abs() as u64))
}
