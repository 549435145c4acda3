//! Decides whether a run is still active, from its files and the clock. A manifest that says
//! `running` proves nothing, and a copy has new file times.

use serde::{Deserialize, Serialize};

use super::newest::has_unreadable_tail;
use crate::model::{Ended, Index, Manifest};

/// The liveness of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// The run wrote something recently.
    Running,
    /// The last turn ended recently, and the user may continue.
    Waiting,
    /// The run has been silent for longer than its usual gap between events.
    Quiet,
    /// The run has been silent for so long that something may be wrong.
    Stalled,
    /// The run ended without recording an end.
    Died,
    /// The run recorded an end.
    Finished,
    /// The run is silent, and its files would be the same whether it ended or not.
    Unknown,
}

impl Liveness {
    /// Returns the word used on pages and in JSON.
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

    /// Returns whether the run may still write without user input.
    pub fn may_grow(self) -> bool {
        matches!(
            self,
            Liveness::Running | Liveness::Quiet | Liveness::Stalled
        )
    }
}

impl Liveness {
    /// Returns whether no more records are expected.
    pub fn is_over(self) -> bool {
        !self.may_grow() && self != Liveness::Waiting
    }
}

/// Facts about a run that its files don't contain. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExternalFacts {
    /// The current time.
    pub now: i64,
    /// The modification times of the files: the oldest and the newest.
    pub written: Option<(i64, i64)>,
    /// Whether the recorded process exists; `None` if no process is recorded or it can't be looked
    /// up. Another process may have got its id since. A run without an END event then counts as
    /// alive until that process ends too.
    pub process: Option<bool>,
}

/// The liveness of a run, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The liveness.
    pub liveness: Liveness,
    /// The basis of the liveness.
    pub basis: Basis,
    /// The time since the latest sign of life, in microseconds; `None` if there is no sign.
    pub silence: Option<i64>,
    /// The time of that sign; microseconds since the Unix epoch.
    pub sign: Option<i64>,
    /// The run's longest gap between two events; microseconds.
    pub gap: i64,
    /// What silence means for this run.
    pub silent: Silent,
}

/// What it means if a run writes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Silent {
    /// After a long time, it died: a run that ends normally records it.
    Died,
    /// After a long time, the state is unknown: the file is the same whether the run ended or not.
    #[serde(rename = "Untold")]
    Inconclusive,
    /// It waits for its user. After a long time, the state is unknown.
    Waits,
}

/// The basis of a liveness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Basis {
    /// An END event.
    End,
    /// A manifest with a final status.
    Manifest,
    /// Tool sets were torn down without an END event: an exception left the engine's loop.
    Teardown,
    /// The recorded process no longer exists.
    Process,
    /// The time of the latest event.
    Event,
    /// The time in the manifest.
    ManifestTime,
    /// The modification time of the latest file.
    FileTime,
    /// The file is final: it's in an archive, is written only after the run, or states that the run
    /// is over.
    Closed,
    /// The records have no times, and the time of the file doesn't show whether the run continues.
    Untimed,
    /// No record or file has a usable time.
    Nothing,
    /// A file of the run is temporarily unreadable.
    Away,
}

const SECOND: i64 = 1_000_000;
/// The silence after which a run is quiet. If twice the run's longest gap is more, that counts
/// instead.
const QUIET_AFTER: i64 = 10 * SECOND;
/// The silence after which a run is stalled. If five times the run's longest gap is more, that
/// counts instead.
const STALLED_AFTER: i64 = 60 * SECOND;
/// A stalled run counts as died after this many times the silence that made it stalled.
const DIED_FACTOR: i64 = 10;
/// A session whose last turn ended longer ago than this may be closed.
const WAITS_FOR: i64 = 3_600 * SECOND;
/// Files are a copy if all were written within this time, long after the latest event.
const COPIED_WITHIN: i64 = 2 * SECOND;
/// The largest difference between a local time and UTC, and its unit.
const MAX_OFFSET: i64 = 14 * 3_600 * SECOND;
const OFFSET_UNIT: i64 = 900 * SECOND;
/// Times further in the future than this come from a different clock or time zone and are ignored.
const MAX_SKEW: i64 = 60 * SECOND;

/// Determines the liveness of a run.
pub fn life(index: &Index, outside: ExternalFacts) -> Life {
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
    // The end of another tool's run is read from all its records, regardless of the clocks of its
    // machines.
    let has_end =
        |manifest: &Manifest| manifest.ended.is_some() || !index.is_from_earlier_run(manifest);
    if silent != Silent::Waits
        && !has_unreadable_tail(index)
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
    if manifest.is_some_and(|manifest| manifest.is_untimed) {
        return sure(Liveness::Unknown, Basis::Untimed);
    }
    if segment.is_some_and(|segment| segment.teardown.is_some()) {
        return sure(Liveness::Died, Basis::Teardown);
    }
    if outside.process == Some(false) {
        return sure(Liveness::Died, Basis::Process);
    }
    let believable = |time: &i64| *time <= outside.now.saturating_add(MAX_SKEW);
    // A record can't be newer than its file, so its time is a local one, east of UTC.
    let newest = outside.written.filter(|_| index.lacks_offset());
    let possible =
        |time: &i64| newest.is_none_or(|(_, newest)| *time <= newest.saturating_add(MAX_SKEW));
    let event = index.last_ts().filter(believable).filter(possible);
    let manifest_time = manifest
        .and_then(|manifest| manifest.started_at.max(manifest.updated_at))
        .filter(believable)
        .filter(possible);
    let written = outside
        .written
        .filter(|written| !is_copy(index, event, *written))
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

/// Returns what silence means for this run.
fn silent(index: &Index, manifest: Option<&Manifest>) -> Silent {
    match manifest {
        // The user or the program wrote something after the last turn, and it's unknown what.
        _ if has_unreadable_tail(index) => Silent::Inconclusive,
        Some(manifest) if manifest.awaits_user => Silent::Waits,
        // The question has no answer, and what happened to the program isn't recorded.
        Some(manifest) if manifest.asks_user.is_some() => Silent::Inconclusive,
        // The missing part of a truncated document may hold its end.
        Some(manifest) if manifest.is_cut => Silent::Inconclusive,
        // Other tools leave the same file whether they were killed or wait for input.
        _ if index.format().is_one_file() => Silent::Inconclusive,
        _ => Silent::Died,
    }
}

impl Silent {
    /// Returns the liveness after a long silence.
    fn at_last(self) -> Liveness {
        match self {
            Silent::Died => Liveness::Died,
            Silent::Inconclusive | Silent::Waits => Liveness::Unknown,
        }
    }
}

impl Life {
    /// Returns the liveness at another time, if the files haven't changed.
    pub fn at(self, now: i64, process: Option<bool>) -> Self {
        let Some(sign) = self.sign else { return self };
        let silence = now.saturating_sub(sign).max(0);
        let stalled = stalled_after(self.gap);
        let quiet = QUIET_AFTER.max(self.gap.saturating_mul(2)).min(stalled);
        let liveness = match silence {
            _ if self.silent == Silent::Waits && silence < WAITS_FOR => Liveness::Waiting,
            _ if self.silent == Silent::Waits => Liveness::Unknown,
            // A process that still exists may be waiting for something slow, so the run may still
            // continue.
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

/// Returns whether all files were written at once, well after the latest event. These are the new
/// times of a copy and not a sign of life. `event` is the latest recorded time.
fn is_copy(index: &Index, event: Option<i64>, (oldest, newest): (i64, i64)) -> bool {
    let Some(event) = event else { return false };
    // Some files have only the time of their start.
    let is_untimed = index.events().last().is_some_and(|last| last.ts.is_none());
    if is_untimed && index.first_ts() == index.last_ts() {
        return false;
    }
    let mut lag = oldest.saturating_sub(event);
    if index.lacks_offset() && lag <= MAX_OFFSET {
        lag %= OFFSET_UNIT;
    }
    lag > MAX_SKEW && newest.saturating_sub(oldest) <= COPIED_WITHIN
}

/// Returns the silence after which a run whose longest gap is `gap` counts as stalled. Both are in
/// microseconds.
pub fn stalled_after(gap: i64) -> i64 {
    STALLED_AFTER.max(gap.saturating_mul(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, EventHead, IssueKind, Manifest, ManifestState, Names};

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
            ExternalFacts {
                now: second * SECOND,
                ..ExternalFacts::default()
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
    fn a_final_file_and_an_untimed_one_have_no_liveness() {
        let of = |is_closed, is_untimed| {
            let manifest = Manifest {
                is_closed,
                is_untimed,
                ..Manifest::default()
            };
            let mut index = Index::default();
            index.apply(Delta {
                manifest: Some(ManifestState::Read(Box::new(manifest))),
                ..Delta::default()
            });
            at(&index, 2)
        };
        assert_eq!(of(true, false), (Liveness::Unknown, Basis::Closed));
        assert_eq!(of(false, true), (Liveness::Unknown, Basis::Untimed));
        assert_eq!(of(true, true).1, Basis::Closed, "a member of an archive");
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
    fn the_recorded_process_decides_if_it_can_be_looked_up() {
        let unfinished = run(&[("INIT", 0), ("DECIDE", 1)], Some(("running", 0)));
        let judge = |index: &Index, second: i64, process| {
            let life = life(
                index,
                ExternalFacts {
                    now: second * SECOND,
                    process,
                    ..ExternalFacts::default()
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
        // The process id may belong to another process by now.
        let ended = run(&[("INIT", 0), ("END", 1)], Some(("completed", 1)));
        assert_eq!(
            judge(&ended, 2, Some(true)),
            (Liveness::Finished, Basis::End)
        );
    }

    #[test]
    fn file_times_count_unless_they_come_from_a_copy_or_the_future() {
        let index = run(&[("INIT", 0), ("DECIDE", 1)], None);
        let judge = |oldest: i64, newest: i64| {
            let written = Some((oldest * SECOND, newest * SECOND));
            let life = life(
                &index,
                ExternalFacts {
                    now: 5_000 * SECOND,
                    written,
                    ..ExternalFacts::default()
                },
            );
            (life.liveness, life.basis)
        };
        assert_eq!(judge(0, 4_999), (Liveness::Running, Basis::FileTime));
        assert_eq!(
            judge(4_990, 4_999),
            (Liveness::Running, Basis::FileTime),
            "a writer with a slow clock"
        );
        assert_eq!(
            judge(4_999, 4_999),
            (Liveness::Died, Basis::Event),
            "copied a moment ago"
        );
        assert_eq!(
            judge(0, 99_999),
            (Liveness::Died, Basis::Event),
            "a time in the future"
        );
        let future = run(&[("INIT", 999_999)], Some(("running", 0)));
        assert_eq!(at(&future, 100_000).0, Liveness::Died);
    }

    #[test]
    fn file_times_count_if_the_recorded_times_have_no_zone_or_only_the_first_record_has_one() {
        let judge = |index: &Index, second: i64| {
            let written = Some((second * SECOND, second * SECOND));
            let now = (second + 3) * SECOND;
            let facts = ExternalFacts {
                now,
                written,
                ..ExternalFacts::default()
            };
            let life = life(index, facts);
            (life.liveness, life.basis)
        };
        let file = (Liveness::Running, Basis::FileTime);
        let event = (Liveness::Died, Basis::Event);
        let mut index = run(&[("INIT", 0), ("DECIDE", 30)], None);
        let four_hours_west = 4 * 3_600 + 31;
        assert_eq!(judge(&index, four_hours_west), event, "a copy");
        index.apply(Delta {
            issues: vec![crate::model::Issue {
                kind: IssueKind::Offset,
                file: crate::model::TraceFile::Events,
                line: Some(1),
                offset: Some(0),
                reason: String::new(),
            }],
            ..Delta::default()
        });
        assert_eq!(judge(&index, four_hours_west), file);
        let later = |silence: i64| {
            let written = 30 - 2 * 3_600;
            let facts = ExternalFacts {
                now: (written + silence) * SECOND,
                written: Some((written * SECOND, written * SECOND)),
                ..ExternalFacts::default()
            };
            let life = life(&index, facts);
            (life.liveness, life.basis)
        };
        let two_hours_east = [
            (3, Liveness::Running),
            (90, Liveness::Quiet),
            (300, Liveness::Stalled),
            // The recorded time, as if it were UTC, has just passed.
            (2 * 3_600 + 3, Liveness::Died),
        ];
        for (silence, liveness) in two_hours_east {
            let judged = later(silence);
            assert_eq!(judged, (liveness, Basis::FileTime), "{silence} s");
        }
        assert_eq!(judge(&index, four_hours_west + 300), event, "no zone");
        assert_eq!(judge(&index, 24 * 3_600 + 31), event, "no zone");

        let untimed = |mut index: Index| {
            index.apply(Delta {
                events: vec![(EventHead::default(), None)],
                ..Delta::default()
            });
            judge(&index, 700)
        };
        assert_eq!(judge(&run(&[("INIT", 0)], None), 700), event, "a copy");
        assert_eq!(untimed(run(&[("INIT", 0)], None)), file);
        let timed = run(&[("INIT", 0), ("DECIDE", 1)], None);
        assert_eq!(untimed(timed), event, "a damaged record at the end");
    }

    #[test]
    fn liveness_depends_only_on_the_files_and_the_time() {
        let index = run(
            &[("INIT", 0), ("DECIDE", 1), ("ACT", 31)],
            Some(("running", 0)),
        );
        let fresh = |second: i64| {
            life(
                &index,
                ExternalFacts {
                    now: second * SECOND,
                    ..ExternalFacts::default()
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
