//! Is the run still going? Decided from what the files and the board's own observation show, because a manifest that
//! says `running` proves nothing and file times are new after every copy.

use serde::{Deserialize, Serialize};

use super::newest::goes_on_unread;
use crate::model::{Ended, Index, Manifest};

/// How alive a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// It wrote something lately.
    Running,
    /// Its last turn is over, lately, and its user may go on with it.
    Waiting,
    /// It is silent for longer than it usually is between two events.
    Quiet,
    /// It is silent for so long that something may be wrong.
    Stalled,
    /// It ended without saying so.
    Died,
    /// It says that it ended.
    Finished,
    /// It is silent, and what it wrote is the same whether it ended or not.
    Unknown,
}

impl Liveness {
    /// The word used on pages and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Liveness::Running => "running",
            Liveness::Waiting => "waiting",
            Liveness::Quiet => "quiet",
            Liveness::Stalled => "stalled",
            Liveness::Died => "died",
            Liveness::Finished => "finished",
            Liveness::Unknown => "unknown",
        }
    }

    /// Whether the run may still write by itself.
    pub fn may_grow(self) -> bool {
        matches!(
            self,
            Liveness::Running | Liveness::Quiet | Liveness::Stalled
        )
    }
}

impl Liveness {
    /// Whether nothing more is expected of the run.
    pub fn is_over(self) -> bool {
        !self.may_grow() && self != Liveness::Waiting
    }
}

/// What is known about a run from outside its files. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outside {
    /// The time now.
    pub now: i64,
    /// When the files were last written by their own word: the one that waits longest, and the newest.
    pub written: Option<(i64, i64)>,
    /// Whether the recorded process exists, where a process is recorded and can be looked up. Its number may have gone
    /// to another process since; a run that wrote no END is then taken for alive, until that one ends too.
    pub process: Option<bool>,
}

/// How alive a run is, and why the board thinks so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The judgement.
    pub liveness: Liveness,
    /// What it rests on.
    pub basis: Basis,
    /// Microseconds since the newest sign of life, where there is one.
    pub silence: Option<i64>,
    /// When that sign was; microseconds since the Unix epoch.
    pub sign: Option<i64>,
    /// The run's own slowest gap between two events.
    pub gap: i64,
    /// What silence says of it.
    pub silent: Silent,
}

/// What it says of a run that it writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Silent {
    /// After long, that it died: one that ends well says so.
    Died,
    /// After long, nothing: its file ends alike whatever became of it.
    Untold,
    /// That it waits for its user, and after long nothing.
    Waits,
}

/// What a judgement on liveness rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// An END event.
    End,
    /// A manifest with a final status.
    Manifest,
    /// Tool sets torn down and no END event: an exception left the engine's loop.
    Teardown,
    /// The recorded process does not exist any more.
    Process,
    /// The time of the newest event.
    Event,
    /// The manifest's time, for want of events.
    ManifestTime,
    /// The time of the newest file.
    FileTime,
    /// Nothing can be added to its file, and that says nothing of an end.
    Closed,
    /// Nothing carries a time.
    Nothing,
    /// A file of the run cannot be read right now.
    Away,
}

const SECOND: i64 = 1_000_000;
/// A run is quiet after this long without a byte, or after twice its own slowest gap.
const QUIET_AFTER: i64 = 10 * SECOND;
/// A run is stalled after this long without a byte, or after five times its own slowest gap.
const STALLED_AFTER: i64 = 60 * SECOND;
/// A stalled run counts as died after ten times the silence that made it stalled.
const DIED_FACTOR: i64 = 10;
/// A session whose last turn was over longer ago than this need not be open any more.
const WAITS_FOR: i64 = 3_600 * SECOND;
/// Files that were all written within this, long after the newest event, are a copy.
const COPIED_WITHIN: i64 = 2 * SECOND;
/// Times further in the future than this come from another clock or zone and say nothing.
const MAX_SKEW: i64 = 60 * SECOND;

/// Judges how alive a run is.
pub fn life(index: &Index, outside: Outside) -> Life {
    let segment = index.segment();
    let manifest = index.manifest().get();
    let silent = silent(index, manifest);
    let sure = |liveness, basis| Life {
        liveness,
        basis,
        silence: None,
        sign: None,
        gap: 0,
        silent,
    };
    if index.away().is_some() {
        return sure(Liveness::Unknown, Basis::Away);
    }
    if segment.is_some_and(|segment| segment.end.is_some()) {
        return sure(Liveness::Finished, Basis::End);
    }
    // The end of another tool's run is read from all that it wrote, whatever the clocks of its machines say.
    let has_end = |manifest: &Manifest| manifest.ended.is_some() || !index.is_outlived(manifest);
    if silent != Silent::Waits
        && !goes_on_unread(index)
        && manifest.is_some_and(|manifest| manifest.is_final() && has_end(manifest))
    {
        let died = manifest
            .and_then(|manifest| manifest.ended.as_deref())
            .is_some_and(Ended::is_death);
        return sure(
            if died {
                Liveness::Died
            } else {
                Liveness::Finished
            },
            Basis::Manifest,
        );
    }
    if manifest.is_some_and(|manifest| manifest.is_closed) {
        return sure(Liveness::Unknown, Basis::Closed);
    }
    if segment.is_some_and(|segment| segment.teardown.is_some()) {
        return sure(Liveness::Died, Basis::Teardown);
    }
    if outside.process == Some(false) {
        return sure(Liveness::Died, Basis::Process);
    }
    let believable = |time: &i64| *time <= outside.now.saturating_add(MAX_SKEW);
    let event = index.last_ts().filter(believable);
    let manifest_time = manifest
        .and_then(|manifest| manifest.started_at.max(manifest.updated_at))
        .filter(believable);
    let written = outside
        .written
        .filter(|written| !is_copy(event, *written))
        .map(|(_, newest)| newest);
    // An event is written a moment after its time.
    let is_later = |time: &i64| event.is_none_or(|event| *time > event.saturating_add(SECOND));
    let written = written.filter(believable).filter(is_later);
    let signs = [
        (event, Basis::Event),
        (written, Basis::FileTime),
        (manifest_time, Basis::ManifestTime),
    ];
    let newest = signs
        .into_iter()
        .filter_map(|(time, basis)| Some((time?, basis)))
        .max_by_key(|(time, _)| *time);
    let Some((sign, basis)) = newest else {
        return sure(silent.at_last(), Basis::Nothing);
    };
    let (liveness, gap) = (Liveness::Running, index.slowest_gap());
    Life {
        liveness,
        basis,
        silence: None,
        sign: Some(sign),
        gap,
        silent,
    }
    .at(outside.now, outside.process)
}

/// What silence says of this run.
fn silent(index: &Index, manifest: Option<&Manifest>) -> Silent {
    match manifest {
        // Whoever wrote after the last turn, its user or the program, nobody knows what.
        _ if goes_on_unread(index) => Silent::Untold,
        Some(manifest) if manifest.awaits_user => Silent::Waits,
        // Nobody answered, and what became of the program is not told.
        Some(manifest) if manifest.asks_user.is_some() => Silent::Untold,
        // What is missing of a document that was cut may be its end.
        Some(manifest) if manifest.is_cut => Silent::Untold,
        // Other tools leave the same file whether they were killed or wait for somebody.
        _ if index.format().is_one_file() => Silent::Untold,
        _ => Silent::Died,
    }
}

impl Silent {
    /// What a run is that is silent for long.
    fn at_last(self) -> Liveness {
        match self {
            Silent::Died => Liveness::Died,
            Silent::Untold | Silent::Waits => Liveness::Unknown,
        }
    }
}

impl Life {
    /// The judgement at another time, of files that did not change.
    pub fn at(self, now: i64, process: Option<bool>) -> Self {
        let Some(sign) = self.sign else { return self };
        let silence = now.saturating_sub(sign).max(0);
        let stalled = stalled_after(self.gap);
        let quiet = QUIET_AFTER.max(self.gap.saturating_mul(2)).min(stalled);
        let liveness = match silence {
            _ if self.silent == Silent::Waits && silence < WAITS_FOR => Liveness::Waiting,
            _ if self.silent == Silent::Waits => Liveness::Unknown,
            // A process that is still there may wait for something slow; nobody can tell that it will never go on.
            _ if silence >= stalled.saturating_mul(DIED_FACTOR) && process != Some(true) => {
                self.silent.at_last()
            }
            _ if silence >= stalled => Liveness::Stalled,
            _ if silence >= quiet => Liveness::Quiet,
            _ => Liveness::Running,
        };
        Self {
            liveness,
            silence: Some(silence),
            ..self
        }
    }
}

/// Whether all files were written at once, well after the newest event: a copy has new times, and is no sign of life.
fn is_copy(event: Option<i64>, (oldest, newest): (i64, i64)) -> bool {
    let late = event.is_some_and(|event| oldest > event.saturating_add(MAX_SKEW));
    late && newest.saturating_sub(oldest) <= COPIED_WITHIN
}

/// After how many microseconds of silence a run whose slowest gap is `gap` counts as stalled.
pub fn stalled_after(gap: i64) -> i64 {
    STALLED_AFTER.max(gap.saturating_mul(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, EventHead, Manifest, ManifestState, Names};

    fn run(events: &[(&str, i64)], status: Option<(&str, i64)>) -> Index {
        let mut names = Names::default();
        let mut delta = Delta::default();
        for (phase, second) in events {
            let head = EventHead {
                kind: crate::format::event_kind(phase, ""),
                phase: names.intern(phase),
                ts: Some(second * SECOND),
                step_id: Some(0),
                ..EventHead::default()
            };
            let end = crate::model::EventNote::End(Box::default());
            delta.events.push((head, (*phase == "END").then_some(end)));
        }
        delta.manifest = status.map(|(status, second)| {
            let manifest = Manifest {
                status: Some(status.into()),
                updated_at: Some(second * SECOND),
                ..Manifest::default()
            };
            ManifestState::Read(Box::new(manifest))
        });
        delta.names = names.since(0).to_vec();
        let mut index = Index::default();
        index.apply(delta);
        index
    }

    fn at(index: &Index, second: i64) -> (Liveness, Basis) {
        let life = life(
            index,
            Outside {
                now: second * SECOND,
                ..Outside::default()
            },
        );
        (life.liveness, life.basis)
    }

    #[test]
    fn silence_is_measured_by_the_runs_own_pace() {
        let fast = run(
            &[("INIT", 0), ("DECIDE", 1), ("ACT", 2)],
            Some(("running", 0)),
        );
        let slow = run(
            &[("INIT", 0), ("DECIDE", 1), ("ACT", 101)],
            Some(("running", 0)),
        );
        let words = |index: &Index, seconds: &[i64]| {
            seconds
                .iter()
                .map(|s| at(index, *s).0.word())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words(&fast, &[3, 13, 63, 602]),
            ["running", "quiet", "stalled", "died"]
        );
        assert_eq!(
            words(&slow, &[150, 302, 602, 5102]),
            ["running", "quiet", "stalled", "died"]
        );
    }

    #[test]
    fn the_end_counts_whatever_the_manifest_claims() {
        assert_eq!(
            at(&run(&[("INIT", 0), ("END", 1)], Some(("running", 0))), 2),
            (Liveness::Finished, Basis::End)
        );
        assert_eq!(
            at(&run(&[("INIT", 0)], Some(("completed", 1))), 9),
            (Liveness::Finished, Basis::Manifest)
        );
        assert_eq!(
            at(&run(&[("INIT", 9)], Some(("completed", 1))), 10),
            (Liveness::Running, Basis::Event)
        );
        assert_eq!(
            at(&run(&[("INIT", 0), ("toolset_teardown_start", 1)], None), 2).1,
            Basis::Teardown
        );
        assert_eq!(at(&run(&[], None), 2), (Liveness::Died, Basis::Nothing));
    }

    #[test]
    fn the_recorded_process_decides_where_it_can_be_asked() {
        let unfinished = run(&[("INIT", 0), ("DECIDE", 1)], Some(("running", 0)));
        let judge = |index: &Index, second: i64, process| {
            let life = life(
                index,
                Outside {
                    now: second * SECOND,
                    process,
                    ..Outside::default()
                },
            );
            (life.liveness, life.basis)
        };
        assert_eq!(
            judge(&unfinished, 2, Some(false)),
            (Liveness::Died, Basis::Process)
        );
        assert_eq!(
            judge(&unfinished, 9_999, Some(true)),
            (Liveness::Stalled, Basis::Event)
        );
        assert_eq!(
            judge(&unfinished, 9_999, None),
            (Liveness::Died, Basis::Event)
        );
        // The number may belong to another process by now.
        let ended = run(&[("INIT", 0), ("END", 1)], Some(("completed", 1)));
        assert_eq!(
            judge(&ended, 2, Some(true)),
            (Liveness::Finished, Basis::End)
        );
    }

    #[test]
    fn files_that_are_written_live_unless_they_are_a_copy_and_a_clock_in_the_future_says_nothing() {
        let index = run(&[("INIT", 0), ("DECIDE", 1)], None);
        let judge = |oldest: i64, newest: i64| {
            let written = Some((oldest * SECOND, newest * SECOND));
            let life = life(
                &index,
                Outside {
                    now: 5_000 * SECOND,
                    written,
                    ..Outside::default()
                },
            );
            (life.liveness, life.basis)
        };
        assert_eq!(judge(0, 4_999), (Liveness::Running, Basis::FileTime));
        assert_eq!(
            judge(4_990, 4_999),
            (Liveness::Running, Basis::FileTime),
            "a writer whose clock is late"
        );
        assert_eq!(
            judge(4_999, 4_999),
            (Liveness::Died, Basis::Event),
            "copied a moment ago"
        );
        assert_eq!(
            judge(0, 99_999),
            (Liveness::Died, Basis::Event),
            "a time that has not come yet"
        );
        let future = run(&[("INIT", 999_999)], Some(("running", 0)));
        assert_eq!(at(&future, 100_000).0, Liveness::Died);
    }

    #[test]
    fn the_same_files_are_judged_the_same_whatever_was_said_of_them_before() {
        let index = run(
            &[("INIT", 0), ("DECIDE", 1), ("ACT", 31)],
            Some(("running", 0)),
        );
        let fresh = |second: i64| {
            life(
                &index,
                Outside {
                    now: second * SECOND,
                    ..Outside::default()
                },
            )
        };
        for (before, after) in [
            (32, 9_999),
            (9_999, 32),
            (9_999, 100),
            (100, 200),
            (9_999, 0),
        ] {
            assert_eq!(
                fresh(before).at(after * SECOND, None),
                fresh(after),
                "{before} {after}"
            );
        }
    }
}
