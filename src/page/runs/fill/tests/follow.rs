//! Compares a page that is updated by pulses with one that is opened afresh.

use crate::page::runs::fill::tests::*;

/// Simulates an open page: the element ids in order, and the verdict of each row.
struct Page {
    rows: Vec<(String, String)>,
    pulse: Pulse,
    wholes: usize,
}

impl Page {
    fn open(ctx: &ListContext, runs: &[Listed]) -> Self {
        let page = page(ctx, runs);
        Self {
            rows: Self::rows(&page.body),
            pulse: page.pulse,
            wholes: 0,
        }
    }

    fn rows(body: &RunsBody<'_>) -> Vec<(String, String)> {
        body.rows
            .iter()
            .map(|row| (row.id(), row.verdict().0))
            .collect()
    }

    fn refresh(&mut self, ctx: &ListContext, runs: &[Listed]) {
        let requested = ask(ctx, &self.pulse);
        let answer = pulse(&requested, runs);
        self.pulse = answer.pulse;
        match answer.update {
            RunsUpdate::Nothing => {}
            RunsUpdate::Whole(body) => {
                let rows = Self::rows(&body);
                // The first and the last run always change the whole body.
                self.wholes += usize::from(!self.rows.is_empty() && !rows.is_empty());
                self.rows = rows;
            }
            RunsUpdate::Parts(parts) => {
                for row in parts.changed {
                    let shown = self.rows.iter_mut().find(|(id, _)| *id == row.id());
                    shown.expect("a row is replaced where it is").1 = row.verdict().0;
                }
                for id in parts.gone {
                    let at = self.rows.iter().position(|(shown, _)| *shown == id);
                    self.rows.remove(at.expect("a row that goes was there"));
                }
                let fresh: Vec<_> = parts
                    .fresh
                    .iter()
                    .map(|row| (row.id(), row.verdict().0))
                    .collect();
                assert!(
                    fresh
                        .iter()
                        .all(|(id, _)| self.rows.iter().all(|(shown, _)| shown != id)),
                    "shown twice"
                );
                self.rows.splice(0..0, fresh);
            }
        }
    }
}

/// Adds, changes and removes runs at random. A page updated by pulses must equal one that is opened
/// afresh.
#[test]
fn pulses_lead_to_the_page_as_it_would_be_opened_now() {
    let mut random: u64 = 7;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let marks = [
        RunStatus::Running,
        RunStatus::Stalled,
        RunStatus::Answered,
        RunStatus::Died,
    ];
    for query in [
        "",
        "status:running,stalled",
        "-status:answered steps>3",
        "state",
    ] {
        let (mut revision, mut runs): (u64, Vec<Listed>) = (0, Vec::new());
        let context = |revision| ListContext {
            revision,
            ..ctx(query)
        };
        let mut follower = Page::open(&context(0), &runs);
        for round in 0..300 {
            for _ in 0..=next(3) {
                revision += 1;
                let at = next(runs.len().max(1) as u64) as usize;
                match next(if round % 10 == 0 { 10 } else { 9 }) {
                    0..2 => {
                        let mut new = run(&format!("r/{revision}"), RunStatus::Died, None);
                        new.partial = true;
                        runs.push(Listed {
                            summary: Arc::new(new),
                            revision,
                            born: revision,
                        });
                    }
                    9 if !runs.is_empty() => drop(runs.remove(at)),
                    _ if !runs.is_empty() => {
                        let mut changed = Summary::clone(&runs[at].summary);
                        changed.partial = false;
                        changed.verdict.mark = marks[next(4) as usize];
                        changed.steps = next(9) as usize;
                        changed.verdict.sentence =
                            format!("{} at revision {revision}", changed.verdict.mark.word())
                                .into();
                        changed.updated = Some(revision as i64);
                        runs[at] = Listed {
                            summary: Arc::new(changed),
                            revision,
                            ..runs[at].clone()
                        };
                    }
                    _ => {}
                }
            }
            let ctx = context(revision);
            follower.refresh(&ctx, &runs);
            let sorted = |mut rows: Vec<(String, String)>| {
                rows.sort();
                rows
            };
            let fits = runs.len() <= ctx.limit;
            let opened = Page::open(&ctx, &runs);
            assert!(
                fits && sorted(follower.rows.clone()) == sorted(opened.rows),
                "{query}, round {round}"
            );
        }
        assert!(
            follower.wholes < 60,
            "the whole body was sent {} times for {query}",
            follower.wholes
        );
    }
}

#[test]
fn a_page_that_grows_for_long_is_cut_back_to_its_window() {
    let mut runs = Vec::new();
    let context = |revision| ListContext {
        revision,
        limit: 10,
        ..ctx("")
    };
    let mut follower = Page::open(&context(0), &runs);
    for revision in 1..200 {
        let mut new = run(&format!("r/{revision}"), RunStatus::Running, None);
        new.updated = Some(revision as i64);
        runs.push(Listed {
            summary: Arc::new(new),
            revision,
            born: revision,
        });
        follower.refresh(&context(revision), &runs);
        assert!(
            (1..=20).contains(&follower.rows.len()),
            "{} rows",
            follower.rows.len()
        );
        assert_eq!(follower.rows[0].0, href::run_id(&format!("r/{revision}")));
    }
}

#[test]
fn a_run_that_only_time_brings_in_appears() {
    let hour = 3_600_000_000;
    let of = |key: &str, updated, revision| {
        let mut new = run(key, RunStatus::Answered, None);
        new.updated = Some(updated);
        Listed {
            summary: Arc::new(new),
            revision,
            born: revision,
        }
    };
    let context = |revision, now| ListContext {
        revision,
        now,
        ..ctx("updated<2h")
    };
    let now = 100 * hour;
    let mut runs = vec![of("old", now - 3 * hour, 1), of("young", now - hour, 2)];
    let mut follower = Page::open(&context(2, now), &runs);
    assert_eq!(follower.rows.len(), 1);
    runs.push(of("new", now + 2 * hour, 3));
    follower.refresh(&context(3, now + 2 * hour), &runs);
    let ids: Vec<&str> = follower.rows.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, [href::run_id("young"), href::run_id("old")]);
}
