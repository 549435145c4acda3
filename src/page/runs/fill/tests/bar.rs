//! Tests the bar of stop reasons, and the lists that its parts open.

use super::{ctx, table};
use crate::analysis::life::Liveness;
use crate::analysis::select::sample::many;
use crate::analysis::verdict::RunStatus;
use crate::page::part::chart::Share;

#[test]
fn parts_of_the_bar_lead_to_their_runs() {
    let list = table(&ctx("fix"), many(70)).list;
    let segments = list.segments();
    let parts: Vec<_> = segments
        .iter()
        .map(|s| (s.share.name.as_str(), s.share.count, s.share.href.as_str()))
        .collect();
    assert_eq!(
        parts[0],
        (
            "finished: final",
            10,
            "/?q=fix%20status%3Afinished%20stop%3Afinal"
        )
    );
    assert_eq!(
        parts[1],
        (
            "env_terminal",
            10,
            "/?q=fix%20status%3A%22own%20rule%22%20stop%3Aenv_terminal"
        )
    );
    assert_eq!(
        parts[5],
        ("died", 10, "/?q=fix%20status%3Adied%20stop%3Anone")
    );
    assert_eq!(list.contradicted(), None);
    let mut runs = many(70);
    runs[0].verdict.contradictions = ["The status is failed".to_owned()].into();
    // Text of the run itself doesn't count as a contradiction.
    runs[1].verdict.sentence = "Answered at step 5 · but success is recorded as false".into();
    let (text, href) = table(&ctx(""), runs.clone()).list.contradicted().unwrap();
    assert_eq!(text, "1 run has conflicting records");
    let query = percent_encoding::percent_decode_str(href.strip_prefix("/?q=").unwrap())
        .decode_utf8()
        .unwrap();
    assert_eq!(table(&ctx(&query), runs).rows.len(), 1);
}

#[test]
fn a_share_of_few_known_ends_is_no_percentage() {
    let mut runs = many(70);
    let share = |runs| table(&ctx(""), runs).list.answered();
    let (some, of) = share(runs.clone());
    assert!(
        some.ends_with('%') && !of.contains("unknown"),
        "{some} {of}"
    );
    for run in runs
        .iter_mut()
        .filter(|run| run.verdict.mark != RunStatus::Answered)
    {
        run.verdict.mark = RunStatus::Unknown;
        run.life.liveness = Liveness::Unknown;
    }
    assert_eq!(
        share(runs),
        (
            "10".to_owned(),
            "10 runs with a known end · 60 unknown".to_owned()
        )
    );
}

#[test]
fn every_part_of_the_bar_opens_as_many_runs_as_it_counts() {
    let mut runs = many(400);
    for (n, run) in runs.iter_mut().enumerate() {
        // One reason with several statuses and in two spellings, more reasons than parts, and some
        // runs without a reason.
        run.verdict.stop_reason = match n % 4 {
            0 => Some("submitted".into()),
            1 => Some("Submitted".into()),
            2 => Some(format!("reason {}", n % 30).into()),
            _ => None,
        };
        run.success = [None, Some(true), Some(false)][n % 3];
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
    let unknown = runs
        .iter()
        .filter(|run| run.life.liveness == Liveness::Unknown)
        .count();
    assert!(
        unknown > 0
            && list
                .answered()
                .1
                .ends_with(&format!(" with a known end · {unknown} unknown"))
    );
    let segments = list.segments();
    assert_eq!(
        segments.iter().map(|part| part.share.count).sum::<usize>(),
        list.survey.strip.ended
    );
    assert!(
        segments
            .iter()
            .any(|part| part.share.name.contains(" other reason"))
    );
    for Share {
        name, count, href, ..
    } in segments.iter().map(|part| &part.share)
    {
        let text = |href: &str| {
            let query = href.strip_prefix("/?q=").unwrap_or_default();
            percent_encoding::percent_decode_str(query)
                .decode_utf8()
                .unwrap()
                .into_owned()
        };
        let query = text(href);
        let opened = table(&ctx(&query), runs.clone()).list;
        assert_eq!(
            (opened.survey.matched, opened.query.ignored.len()),
            (*count, 0),
            "{name}: {query}"
        );
        if !name.contains(" other reason") {
            let again: Vec<_> = opened
                .segments()
                .into_iter()
                .map(|part| (part.share.count, part.share.href))
                .collect();
            assert_eq!(
                again,
                [(*count, "/".to_owned())],
                "the same part leads back"
            );
        }
    }
}
