//! Tests the statistics and descriptions of lanes, how they correlate, and that they match the
//! files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;
use crate::analysis::facts::tests::Files;
use crate::model::{Delta, Names};

/// Builds an index of steps with these `critic_outputs`. `-` is a step without any.
fn index(outputs: &[&str]) -> Index {
    let mut names = Names::default();
    let mut delta = Delta::default();
    for (n, outputs) in outputs.iter().enumerate() {
        let outputs = if *outputs == "-" { "[]" } else { outputs };
        let line = format!(r#"{{"step_id": {n}, "critic_outputs": {outputs}}}"#);
        delta
            .steps
            .push(crate::format::step_head(line.as_bytes(), &mut names).0);
    }
    delta.names = names.since(0).to_vec();
    let mut index = Index::default();
    index.apply(delta);
    index
}

fn lane(scores: &[Option<f64>]) -> Lane {
    let point = |(n, score): (usize, &Option<f64>)| Point {
        n,
        place: 0,
        score: *score,
        action: CriticAction::Continue,
        patches: false,
    };
    Lane {
        name: "a".to_owned(),
        points: scores.iter().enumerate().map(point).collect(),
    }
}

fn all(scores: &[f64]) -> Lane {
    lane(&scores.iter().copied().map(Some).collect::<Vec<_>>())
}

#[test]
fn a_lane_keeps_its_gaps_and_what_was_asked() {
    let scores = Scores::of(&index(&[
        r#"[{"critic_name": "a", "score": 0.5}, {"critic_name": "b", "score": 0.75}]"#,
        "-",
        r#"[7, {"critic_name": "b", "action": "retry", "score": "high", "instruction_patch": "Read it."}]"#,
        r#"[{"critic_name": "a", "action": "stop", "score": 0.25}]"#,
        r#"[{"critic_name": "b", "score": 0.25}, {"critic_name": "a", "score": 1}]"#,
    ]));
    let [a, b] = &scores.lanes[..] else {
        panic!("{scores:?}")
    };
    assert_eq!(
        (scores.steps, a.name.as_str(), b.name.as_str()),
        (5, "a", "b")
    );
    assert_eq!(
        a.scores().collect::<Vec<_>>(),
        [(0, 0.5), (3, 0.25), (4, 1.0)]
    );
    assert_eq!(
        (b.points.len(), b.points[1].place, b.points[1].score),
        (3, 0, None)
    );
    let sums = a.sums();
    assert_eq!(
        (sums.scored, sums.last, sums.lowest),
        (3, Some((4, 1.0)), Some((3, 0.25)))
    );
    assert_eq!(
        (sums.highest, sums.stops, sums.retries),
        (Some((4, 1.0)), vec![3], vec![])
    );
    assert!((sums.mean.unwrap() - 1.75 / 3.0).abs() < 1e-12);
    assert_eq!(b.sums().retries, [2]);
    assert_eq!(scores.spread(), [Some(0.25), None, None, None, Some(0.75)]);
    let wide = Scores::of(&index(&[
        r#"[{"name": "a", "score": 0.5}, {"name": "b", "score": 70}, {"name": "c", "score": 1}]"#,
    ]));
    assert_eq!(
        wide.spread(),
        [Some(0.5)],
        "scores on different scales can't be compared"
    );
    let asked: Vec<_> = scores
        .interventions()
        .iter()
        .map(|asked| (asked.lane, asked.point.n, asked.next))
        .collect();
    assert_eq!(asked, [(1, 2, Some((4, 0.25))), (0, 3, Some((4, 1.0)))]);
    assert!(scores.interventions()[0].point.patches);
}

#[test]
fn critics_of_one_name_have_a_lane_each() {
    let both = |one: f64, other: f64| {
        format!(
            r#"[{{"critic_name": "F", "score": {one}}}, {{"critic_name": "F", "action": "stop", "score": {other}}}]"#
        )
    };
    let alone = r#"[{"critic_name": "F", "score": 0.5}]"#.to_owned();
    let lines = [both(1.0, 0.8), both(0.9, 0.7), alone];
    let scores = Scores::of(&index(&lines.each_ref().map(String::as_str)));
    let lanes: Vec<(&str, Vec<f64>)> = scores
        .lanes
        .iter()
        .map(|lane| {
            (
                lane.name.as_str(),
                lane.scores().map(|(_, score)| score).collect(),
            )
        })
        .collect();
    // There's no way to know which of the two critics gave the single output.
    assert_eq!(
        lanes,
        [
            ("F 1", vec![1.0, 0.9]),
            ("F 2", vec![0.8, 0.7]),
            ("F", vec![0.5])
        ]
    );
    let next: Vec<_> = scores
        .interventions()
        .iter()
        .map(|asked| (asked.lane, asked.point.n, asked.next))
        .collect();
    assert_eq!(next, [(1, 0, Some((1, 0.7))), (1, 1, None)]);
}

#[test]
fn a_run_without_critics_has_no_lanes() {
    let scores = Scores::of(&index(&["-", "-"]));
    assert_eq!(
        (
            scores.lanes.len(),
            scores.spread(),
            scores.interventions().len()
        ),
        (0, vec![None, None], 0)
    );
    let silent = lane(&[None, None]);
    assert_eq!(
        (silent.sums(), course(&silent)),
        (Sums::default(), "gave no score".to_owned())
    );
}

#[test]
fn the_course_is_told_in_a_sentence() {
    let of = |scores: &[f64]| course(&all(scores));
    assert_eq!(of(&[0.1]), "1 score");
    assert_eq!(of(&[0.1, 0.2]), "rises once");
    assert_eq!(of(&[0.3, 0.2, 0.1]), "falls at every step");
    assert_eq!(of(&[0.1, 0.2, 0.3, 0.4]), "rises at every step");
    assert_eq!(of(&[0.7; 9]), "steady at 0.70");
    assert_eq!(of(&[0.7, 0.7001, 0.6999]), "steady at 0.70");
    assert_eq!(of(&[0.1, 0.1, 0.4]), "rises once in 3 scores, never falls");
    assert_eq!(
        of(&[0.4, 0.4, 0.1, 0.0]),
        "falls 2 times in 4 scores, never rises"
    );
    assert_eq!(of(&[0.5, 0.92, 0.08]), "swings between 0.08 and 0.92");
    assert_eq!(of(&[2.5, -5.0, 1e308]), "swings between −5 and 1.00e308");
    assert_eq!(course(&lane(&[Some(0.1), None, Some(0.2)])), "rises once");
}

#[test]
fn a_score_at_the_threshold_is_not_below_it() {
    let lane = all(&[0.5, 0.3, 0.29, 0.1]);
    assert_eq!(lane.below(0.3), (2, Some(2)));
    assert_eq!(lane.below(0.0), (0, None));
}

#[test]
fn only_scores_that_do_not_fit_have_a_range_of_their_own() {
    let range = |scores: &[f64]| range(scores.iter().copied());
    assert_eq!(range(&[]), (0.0, 1.0));
    assert_eq!(range(&[0.4, 0.5]), (0.0, 1.0));
    assert_eq!(range(&[70.0, 95.0]), (0.0, 100.0));
    assert_eq!(range(&[-1.0, 1.0]), (-1.0, 1.0));
    assert_eq!(range(&[0.5, 2.5]), (0.0, 2.5));
    assert_eq!(range(&[-5.0, 1e308]).1, 1e308);
    let wide = range(&[-1e308, 1e308]);
    assert_eq!(wide, (-1e308, 1e308));
    assert_eq!(
        (
            share(wide, 0.0),
            share(wide, 1e308),
            share((0.0, 10.0), 2.5)
        ),
        (0.5, 1.0, 0.25)
    );
    assert!((all(&[1e308, 1e308, -1e308]).sums().mean.unwrap() - 1e308 / 3.0).abs() < 1e300);
}

#[test]
fn agreement_says_how_scores_go_together_and_where_it_cannot_tell() {
    let rank = |a: &Lane, b: &Lane| agreement(&[a.clone(), b.clone()])[0];
    let rising = all(&[0.1, 0.2, 0.3, 0.4]);
    assert_eq!(
        rank(&rising, &all(&[0.0, 0.01, 0.5, 9.0])).rank,
        Rank::Of(1.0),
        "only the order counts"
    );
    assert_eq!(
        rank(&rising, &all(&[0.9, 0.8, 0.7, 0.1])).rank,
        Rank::Of(-1.0)
    );
    assert_eq!(rank(&rising, &all(&[0.5; 4])).rank, Rank::Flat);
    let gaps = lane(&[Some(0.3), None, Some(0.2)]);
    assert_eq!(
        rank(&rising, &gaps),
        Pair {
            a: 0,
            b: 1,
            steps: 2,
            rank: Rank::TooFew
        }
    );
    // Computed by hand: ranks 0 1 2 3 against 0.5 0.5 2 3.
    let Rank::Of(tied) = rank(&rising, &all(&[0.1, 0.1, 0.5, 0.6])).rank else {
        panic!()
    };
    assert!(
        (tied - 4.5 / (5.0_f64 * 4.5).sqrt()).abs() < 1e-12,
        "{tied}"
    );
    assert_eq!(
        agreement(&vec![rising; 20]).len(),
        MAX_CRITICS * (MAX_CRITICS - 1) / 2
    );
}

#[test]
fn a_series_is_the_lowest_score_or_one_critics() {
    let index = index(&[
        r#"[{"critic_name": "a", "score": 0.5}, {"critic_name": "b", "score": 0.75, "action": "retry"}]"#,
        r#"[{"critic_name": "b", "score": 0.25}]"#,
    ]);
    let lowest = series(&index, None);
    assert_eq!(
        (lowest.points.clone(), lowest.retries),
        (vec![(0, 0.5), (1, 0.25)], vec![0])
    );
    let a = series(&index, Some("a"));
    assert_eq!(
        (a.points.clone(), a.retries.len(), a.steps),
        (vec![(0, 0.5)], 0, 2)
    );
    assert_eq!(
        (a.first_below(0.5), a.first_below(0.6), a.mean()),
        (None, Some(0), Some(0.5))
    );
    assert_eq!(series(&index, Some("nobody")).points, []);
}

#[test]
fn of_all_critics_together_the_deciding_one_asks() {
    let step = r#"[{"critic_name": "a", "score": 0.5, "action": "stop"}, {"critic_name": "b", "action": "retry"}]"#;
    let index = index(&[step]);
    let asked = |critic| {
        let series = series(&index, critic);
        (series.retries, series.stops)
    };
    let decided = index.steps().get(0).unwrap();
    assert!(decided.requested(CriticAction::Retry) ^ decided.requested(CriticAction::Stop));
    let one = if decided.requested(CriticAction::Retry) {
        (vec![0], vec![])
    } else {
        (vec![], vec![0])
    };
    assert_eq!(asked(None), one, "same as on the run page");
    assert_eq!(
        (asked(Some("a")), asked(Some("b"))),
        ((vec![], vec![0]), (vec![0], vec![]))
    );
}

#[test]
fn bands_hold_what_half_of_the_runs_have() {
    let run = |score: f64| Series {
        steps: 2,
        points: vec![(0, score), (1, score / 2.0)],
        ..Series::default()
    };
    let runs: Vec<Series> = [0.0, 0.2, 0.4, 0.6, 0.8].map(run).to_vec();
    let place = |run: &Series, n: usize| {
        (
            n as f64 / run.steps as f64,
            (n + 1) as f64 / run.steps as f64,
        )
    };
    let bands = bands(&runs, 4, place);
    assert_eq!(
        bands[0],
        Some(Band {
            runs: 5,
            low: 0.2,
            median: 0.4,
            high: 0.6
        })
    );
    assert_eq!(bands[1], bands[0], "a step is as wide as its share");
    assert_eq!(
        bands[3],
        Some(Band {
            runs: 5,
            low: 0.1,
            median: 0.2,
            high: 0.3
        })
    );
    assert_eq!(quartiles(vec![]), None);
    assert_eq!(
        quartiles(vec![1.0, 0.0]).map(|band| (band.low, band.median)),
        Some((0.25, 0.5))
    );
}

/// Python writes NaN and infinities as bare words. Outside strings, which are every second part,
/// they become null.
fn without_bare_words(line: &str) -> String {
    let unescaped = line.replace(r"\\", "").replace(r#"\""#, "");
    let parts = unescaped
        .split('"')
        .enumerate()
        .map(|(at, part)| match at % 2 {
            0 => part
                .replace("-Infinity", "null")
                .replace("Infinity", "null")
                .replace("NaN", "null"),
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("\"")
}

#[test]
fn steps_that_ask_for_the_same_lie_over_each_other() {
    let run = |calls: &[&str]| {
        let mut names = Names::default();
        let line = |call: &&str| {
            format!(
                r#"{{"step_id": 0, "decision": {{"mode": "act", "actions": [{{"name": "{call}"}}]}}}}"#
            )
        };
        let steps = calls
            .iter()
            .map(|call| crate::format::step_head(line(call).as_bytes(), &mut names).0)
            .collect();
        let mut index = Index::default();
        index.apply(Delta {
            steps,
            names: names.since(0).to_vec(),
            ..Delta::default()
        });
        index
    };
    let a = run(&["x", "y", "z"]);
    assert_eq!(aligned(&a, &a), [0.0, 1.0, 2.0]);
    assert_eq!(
        aligned(&a, &run(&["x", "n", "y", "z", "m", "o"])),
        [0.0, 0.5, 1.0, 2.0, 3.0, 4.0]
    );
    assert_eq!(aligned(&a, &run(&["x", "z"])), [0.0, 2.0]);
    assert_eq!(aligned(&run(&[]), &run(&["x", "y"])), [0.0, 1.0]);
}

/// A step and its score, as written in a file.
type Read = (usize, Option<f64>);

/// Reads the scores from the steps file without board: (step, score) pairs by name.
fn read_plainly(dir: &Path) -> Vec<(String, Vec<Read>)> {
    let mut lanes: Vec<(String, Vec<Read>)> = Vec::new();
    let bytes = fs::read(dir.join("steps.jsonl")).unwrap_or_default();
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    for (n, line) in lines.enumerate() {
        let text = String::from_utf8_lossy(line);
        // A line that isn't JSON counts as a step without critics.
        let step: Value = serde_json::from_str(&text)
            .or_else(|_| serde_json::from_str(&without_bare_words(&text)))
            .unwrap_or_default();
        let outputs: Vec<&Value> = step["critic_outputs"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let name_of = |output: &Value| {
            let names = ["critic_name", "name", "critic"]
                .iter()
                .filter_map(|key| output.get(*key)?.as_str());
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .next()
        };
        for (at, output) in outputs.iter().enumerate() {
            let Some(fields) = output.as_object() else {
                continue;
            };
            let like = |others: &[&Value]| {
                others
                    .iter()
                    .filter(|other| name_of(other) == name_of(output))
                    .count()
            };
            let name = match name_of(output) {
                None => format!("critic {}", at + 1),
                Some(name) if like(&outputs) == 1 => name,
                Some(name) => format!("{name} {}", like(&outputs[..=at])),
            };
            let output = fields;
            let point = (n, output.get("score").and_then(Value::as_f64));
            match lanes.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(point),
                None => lanes.push((name, vec![point])),
            }
        }
    }
    lanes
}

/// Collects every directory below `root` that has steps.
fn runs(root: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("steps.jsonl").is_file() {
            out.push(path);
        } else if path.is_dir() {
            runs(&path, out);
        }
    }
}

#[test]
fn scores_are_the_files_own() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dirs = Vec::new();
    runs(&home.join("tests/corpus"), &mut dirs);
    runs(&home.join("sample_runs"), &mut dirs);
    if let Some(traces) = std::env::var_os("BOARD_TRACES") {
        runs(Path::new(&traces), &mut dirs);
    }
    let mut compared = 0;
    for dir in dirs {
        let scores = Scores::of(&Files::open(&dir).index);
        let points = |lane: &Lane| {
            lane.points
                .iter()
                .map(|point| (point.n, point.score))
                .collect()
        };
        let ours: Vec<(String, Vec<_>)> = scores
            .lanes
            .iter()
            .map(|lane| (lane.name.clone(), points(lane)))
            .collect();
        let plain = read_plainly(&dir);
        compared += plain.iter().map(|(_, points)| points.len()).sum::<usize>();
        assert_eq!(ours, plain, "{}", dir.display());
    }
    assert!(compared > 600, "only {compared} scores were found");
}
