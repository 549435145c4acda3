//! Tests the bar of outcomes with its legend, the lists that its parts open, and the totals.

use super::{ctx, table};
use crate::analysis::life::Liveness;
use crate::analysis::select::sample::many;
use crate::analysis::verdict::RunStatus;
use crate::page::runs::fill::filters::Chip;

fn query_of(href: &str) -> String {
    let query = href.strip_prefix("/?q=").unwrap_or_default();
    percent_encoding::percent_decode_str(query)
        .decode_utf8()
        .unwrap()
        .into_owned()
}

#[test]
fn parts_of_the_bar_lead_to_their_runs() {
    let list = table(&ctx("fix"), many(70)).list;
    let segments = list.segments();
    let parts: Vec<_> = segments
        .iter()
        .map(|(part, is_out)| {
            let share = &part.share;
            (&*share.name, share.count, &*share.href, *is_out)
        })
        .collect();
    assert_eq!(
        parts[0],
        ("finished", 10, "/?q=fix%20status%3Afinished", false)
    );
    assert_eq!(
        parts[2],
        ("stopped", 10, "/?q=fix%20status%3Astopped", false)
    );
    assert_eq!(parts[5], ("died", 10, "/?q=fix%20status%3Adied", false));
    assert_eq!(list.contradicted(), None);
    let mut runs = many(70);
    runs[0].verdict.contradictions = ["The status is failed".to_owned()].into();
    // Text of the run itself doesn't count as a contradiction.
    runs[1].verdict.sentence = "Answered at step 5 · but success is recorded as false".into();
    let (text, href) = table(&ctx(""), runs.clone()).list.contradicted().unwrap();
    assert_eq!(text, "1 run has conflicting records");
    assert_eq!(table(&ctx(&query_of(&href)), runs).rows.len(), 1);
}

#[test]
fn every_part_of_the_bar_opens_as_many_runs_as_it_counts() {
    let mut runs = many(400);
    for (n, run) in runs.iter_mut().enumerate() {
        run.success = [None, Some(true), Some(false)][n % 3];
        run.partial = n % 50 == 0;
        if n % 5 == 0 {
            run.verdict.mark = RunStatus::Unknown;
            run.life.liveness = if n % 2 == 0 {
                Liveness::Unknown
            } else {
                Liveness::Finished
            };
        }
    }
    let list = table(&ctx(""), runs.clone()).list;
    let chips: Vec<Chip> = list.ends().into_iter().chain(list.live()).collect();
    let counted: usize = chips.iter().filter_map(|chip| chip.count).sum();
    assert_eq!(counted, runs.len(), "every run is in the legend once");
    let (bar, legend) = (list.segments(), list.ends());
    assert_eq!(
        bar.iter()
            .map(|(part, _)| (&*part.share.name, part.share.count, &*part.share.href))
            .collect::<Vec<_>>(),
        legend
            .iter()
            .map(|chip| (&*chip.label, chip.count.unwrap(), &*chip.href))
            .collect::<Vec<_>>()
    );
    for chip in &chips {
        let query = query_of(&chip.href);
        let opened = table(&ctx(&query), runs.clone()).list;
        assert_eq!(
            (Some(opened.survey.matched), opened.query.ignored.len()),
            (chip.count, 0),
            "{}: {query}",
            chip.label
        );
        // The others stay in sight with their counts, and the same part leads back.
        let again: Vec<Chip> = opened.ends().into_iter().chain(opened.live()).collect();
        for (before, now) in chips.iter().zip(&again) {
            assert_eq!((&before.label, before.count), (&now.label, now.count));
            assert_eq!(now.active, now.label == chip.label);
        }
        let own = again.iter().find(|other| other.active).unwrap();
        assert_eq!(own.href, "/");
        let all = opened.every_status().unwrap();
        assert_eq!((all.count, &*all.href), (Some(runs.len()), "/"));
        for (part, is_out) in opened.segments() {
            assert_eq!(is_out, part.share.name != chip.label);
        }
    }
}

#[test]
fn totals_say_how_many_runs_they_cover() {
    let mut runs = many(4);
    for run in &mut runs {
        (run.tokens, run.duration_ms) = (None, Some(60_000.0));
    }
    runs[0].tokens = Some(1_200);
    runs[1].tokens = Some(800);
    (runs[2].cost_usd, runs[3].cost_usd) = (Some(0.5), Some(0.25));
    let totals = |query: &str| -> Vec<String> {
        let totals = table(&ctx(query), runs.clone()).list.totals();
        totals
            .iter()
            .map(|total| format!("{} {} {}", total.name, total.sum, total.more))
            .collect()
    };
    assert_eq!(
        totals(""),
        [
            "Runs 4 ",
            "Tokens ≥2,000 median 1,000 · 2 runs",
            "Cost ≥$0.7500 median $0.3750 · 2 runs",
            "Duration 4 min median 1 min"
        ]
    );
    // No run of this list records tokens, so it has no sum of them, not even 0.
    assert_eq!(
        totals("cost>0.3"),
        [
            "Runs 1 of 4",
            "Cost $0.5000 median $0.5000",
            "Duration 1 min median 1 min"
        ]
    );
}
