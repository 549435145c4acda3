//! Replays a recording as a growing run, appending its lines at the recorded pace.
//!
//! All times are shifted by the same amount, so that the run happens now and its records agree on
//! how long it took. The manifest names this process, so board shows the run as running, and as
//! died if this process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::recordings::Recording;
use crate::engine::{Clock, SystemClock};
use crate::error::{Error, Kind, Result};
use crate::model::TraceFile;
use crate::model::time::{parse_ts, rfc3339};
use crate::trace::host_name;

/// The maximum length of a replay. The beginning of a longer recording is written at once, as if
/// the run had started earlier. If the user skips ahead, the times are still no further in the
/// future than readers accept (`MAX_SKEW` in `analysis::life`).
const LONGEST_US: i64 = 60_000_000;
/// The name that writers of runs use. Readers know that it isn't a run's file.
const MANIFEST_TEMP: &str = ".manifest.json.tmp";

/// A line and when it was written, in microseconds since the run began.
#[derive(Debug)]
struct Timed {
    at: i64,
    file: TraceFile,
    line: &'static str,
}

#[derive(Deserialize)]
struct EventHead {
    step_id: u64,
    phase: String,
    ts: String,
}

#[derive(Deserialize)]
struct StepHead {
    step_id: u64,
}

#[derive(Deserialize)]
struct ManifestHead {
    started_at: String,
}

/// Creates a new directory below `root`: the name with `_live` appended, plus a number if it's
/// taken.
pub(super) fn own_dir(recording: &Recording, root: &Path) -> Result<PathBuf> {
    let cannot = |dir: &Path, error| {
        let message = format!("can't create the run directory {}", dir.display());
        Error::new(Kind::Unreadable, message).because(error)
    };
    fs::create_dir_all(root).map_err(|error| cannot(root, error))?;
    let mut n = 1_u32;
    loop {
        let dir = root.join(match n {
            1 => format!("{}_live", recording.name),
            n => format!("{}_live_{n}", recording.name),
        });
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n += 1,
            Err(error) => return Err(cannot(&dir, error)),
            Ok(()) => return Ok(dir),
        }
    }
}

/// Writes the run into `dir`, line by line. Once `hurry` completes, writes the rest at once.
pub(super) async fn replay(
    recording: &Recording,
    dir: &Path,
    hurry: impl Future<Output = ()>,
) -> Result<()> {
    let wrong = || {
        let message = format!("the recording {} is invalid", recording.name);
        Error::new(Kind::Bug, message)
    };
    let lines = timed(recording).ok_or_else(wrong)?;
    let ahead = lines.last().map_or(0, |last| last.at - LONGEST_US).max(0);
    let cannot = |error| {
        let message = format!("the run {} is incomplete", dir.display());
        Error::new(Kind::Unreadable, message).because(error)
    };
    let (there, coming) = lines.split_at(lines.partition_point(|timed| timed.at < ahead));
    let mut live = Live::begin(recording, dir, ahead, there).map_err(cannot)?;
    let begun = tokio::time::Instant::now();
    let mut hurry = std::pin::pin!(hurry);
    let mut hurries = false;
    for timed in coming {
        let due = u64::try_from(timed.at - ahead).map_or(Duration::ZERO, Duration::from_micros);
        if !hurries {
            tokio::select! {
                biased;
                () = &mut hurry => hurries = true,
                () = tokio::time::sleep_until(begun + due) => {}
            }
        }
        live.append(std::slice::from_ref(timed)).map_err(cannot)?;
        if timed.file == TraceFile::Steps {
            live.write_manifest(false).map_err(cannot)?;
        }
    }
    live.write_manifest(true).map_err(cannot)
}

/// Returns the lines of a recording in the order in which they were written, or `None` if it's
/// invalid.
fn timed(recording: &Recording) -> Option<Vec<Timed>> {
    let began = began(recording)?;
    let mut steps = recording.steps.lines().peekable();
    let mut lines = Vec::new();
    let mut at = 0;
    for line in recording.events.lines() {
        let event: EventHead = serde_json::from_str(line).ok()?;
        // A step is written after its last event, and before the END event.
        while let Some(step) = steps.peek() {
            let step: StepHead = serde_json::from_str(step).ok()?;
            if step.step_id >= event.step_id && event.phase != "END" {
                break;
            }
            lines.extend(steps.next().map(|line| Timed {
                at,
                file: TraceFile::Steps,
                line,
            }));
        }
        at = parse_ts(&event.ts)?.micros - began;
        lines.push(Timed {
            at,
            file: TraceFile::Events,
            line,
        });
    }
    lines.extend(steps.map(|line| Timed {
        at,
        file: TraceFile::Steps,
        line,
    }));
    Some(lines)
}

/// Returns when the recorded run began, in microseconds since the epoch.
fn began(recording: &Recording) -> Option<i64> {
    let manifest: ManifestHead = serde_json::from_str(recording.manifest).ok()?;
    Some(parse_ts(&manifest.started_at)?.micros)
}

/// A run being written.
struct Live<'a> {
    dir: &'a Path,
    /// When the run began, in microseconds since the epoch.
    began: i64,
    /// When the last line was written, in microseconds since the run began.
    at: i64,
    /// The manifest as recorded.
    manifest: Map<String, Value>,
    steps: LineFile,
    events: LineFile,
}

struct LineFile {
    file: File,
    lines: usize,
}

impl LineFile {
    fn create(dir: &Path, file: TraceFile) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(dir.join(file.name()))?;
        Ok(Self { file, lines: 0 })
    }

    /// Appends in a single write, so that killing the process leaves whole lines.
    fn append(&mut self, lines: &[String]) -> io::Result<()> {
        self.file.write_all(lines.concat().as_bytes())?;
        self.lines += lines.len();
        Ok(())
    }
}

impl<'a> Live<'a> {
    /// Begins a run that has been running for `ahead` microseconds and has already written these
    /// lines.
    fn begin(
        recording: &Recording,
        dir: &'a Path,
        ahead: i64,
        there: &[Timed],
    ) -> io::Result<Self> {
        let mut live = Self {
            dir,
            began: SystemClock::start().now_us() - ahead,
            at: 0,
            manifest: serde_json::from_str(recording.manifest)?,
            steps: LineFile::create(dir, TraceFile::Steps)?,
            events: LineFile::create(dir, TraceFile::Events)?,
        };
        live.append(there)?;
        live.write_manifest(false)?;
        Ok(live)
    }

    fn append(&mut self, lines: &[Timed]) -> io::Result<()> {
        let of = |file| lines.iter().filter(move |timed| timed.file == file);
        // The time is the last field of an event's line.
        let event = |timed: &Timed| match timed.line.rsplit_once("\"ts\":\"") {
            Some((before, _)) => format!("{before}\"ts\":\"{}\"}}\n", self.moment(timed.at)),
            None => format!("{}\n", timed.line),
        };
        let events: Vec<_> = of(TraceFile::Events).map(event).collect();
        let steps: Vec<_> = of(TraceFile::Steps)
            .map(|timed| format!("{}\n", timed.line))
            .collect();
        self.at = lines.last().map_or(self.at, |last| last.at);
        self.events.append(&events)?;
        self.steps.append(&steps)
    }

    fn moment(&self, at: i64) -> String {
        rfc3339(self.began + at).unwrap_or_default()
    }

    /// Replaces the manifest atomically: as that of a running run, or as recorded once the run is
    /// over.
    fn write_manifest(&self, is_over: bool) -> io::Result<()> {
        let mut manifest = self.manifest.clone();
        let name = self.dir.file_name().unwrap_or_default();
        set(
            &mut manifest,
            json!({
                "run_id": name.to_string_lossy(),
                "started_at": self.moment(0),
                "updated_at": self.moment(self.at),
                "pid": std::process::id(),
                "host": host_name(),
            }),
        );
        if !is_over {
            let unknown_yet = json!({"token_usage": null, "latency_seconds": null, "cost": null});
            if let Some(Value::Object(summary)) = manifest.get_mut("summary") {
                set(summary, unknown_yet.clone());
                set(
                    summary,
                    json!({
                        "stop_reason": null,
                        "final_result": null,
                        "steps": self.steps.lines,
                        "failure_report": {},
                        "task_result": null,
                    }),
                );
            }
            set(&mut manifest, unknown_yet);
            set(
                &mut manifest,
                json!({
                    "status": "running",
                    "event_count": self.events.lines,
                    "step_count": self.steps.lines,
                    "stop": null,
                }),
            );
        }
        let temp = self.dir.join(MANIFEST_TEMP);
        fs::write(&temp, serde_json::to_string_pretty(&manifest)?)?;
        fs::rename(&temp, self.dir.join(TraceFile::Manifest.name()))
    }
}

fn set(map: &mut Map<String, Value>, entries: Value) {
    if let Value::Object(entries) = entries {
        map.extend(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::super::recordings::RECORDINGS;
    use super::*;

    #[test]
    fn every_recording_has_its_lines_in_order() {
        for recording in RECORDINGS {
            let lines = timed(recording).expect(recording.name);
            let of = |file| {
                let lines = lines.iter().filter(move |timed| timed.file == file);
                lines.map(|timed| timed.line).collect::<Vec<_>>()
            };
            let whole = |text: &'static str| text.lines().collect::<Vec<_>>();
            assert_eq!(of(TraceFile::Steps), whole(recording.steps));
            assert_eq!(of(TraceFile::Events), whole(recording.events));
            assert!(
                lines.is_sorted_by_key(|timed| timed.at),
                "{}",
                recording.name
            );
            assert_eq!(lines[0].at, 0, "{}", recording.name);
            // The END event comes last. Only a killed run has none.
            let ends = lines.last().unwrap().line.contains("\"phase\":\"END\"");
            assert_eq!(ends, recording.name != "crash", "{}", recording.name);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replayed_run_says_what_was_recorded_at_todays_times() {
        let root = tempfile::tempdir().unwrap();
        for recording in RECORDINGS {
            let dir = own_dir(recording, root.path()).unwrap();
            let begun = tokio::time::Instant::now();
            replay(recording, &dir, std::future::pending())
                .await
                .unwrap();
            let took = i64::try_from(begun.elapsed().as_micros()).unwrap();
            assert!(took <= LONGEST_US + 1_000, "{}: {took}", recording.name);

            let read = |file: TraceFile| fs::read_to_string(dir.join(file.name())).unwrap();
            assert_eq!(read(TraceFile::Steps), recording.steps);
            let mut manifest: Map<String, Value> =
                serde_json::from_str(&read(TraceFile::Manifest)).unwrap();
            let mut recorded: Map<String, Value> =
                serde_json::from_str(recording.manifest).unwrap();
            let time = |value: &Value| parse_ts(value.as_str().unwrap()).unwrap().micros;
            let moved = time(&manifest["started_at"]) - began(recording).unwrap();
            assert!(moved > 0, "{}", recording.name);
            let events = |text: &str, moved: i64| -> Vec<Value> {
                let line = |line| {
                    let mut line: Value = serde_json::from_str(line).unwrap();
                    line["ts"] = (time(&line["ts"]) + moved).into();
                    line
                };
                text.lines().map(line).collect()
            };
            assert_eq!(
                events(&read(TraceFile::Events), 0),
                events(recording.events, moved)
            );
            for name in ["run_id", "started_at", "updated_at", "pid"] {
                assert_ne!(manifest.remove(name), recorded.remove(name), "{name}");
            }
            // Not every system provides it.
            manifest.remove("host");
            recorded.remove("host");
            assert_eq!(manifest, recorded);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_hurries_gets_the_rest_at_once() {
        let root = tempfile::tempdir().unwrap();
        let long = RECORDINGS.iter().find(|run| run.name == "long").unwrap();
        let dir = own_dir(long, root.path()).unwrap();
        let begun = tokio::time::Instant::now();
        let half = Duration::from_secs(5);
        replay(long, &dir, tokio::time::sleep(half)).await.unwrap();
        assert!(begun.elapsed() < half + Duration::from_millis(10));
        let steps = fs::read_to_string(dir.join("steps.jsonl")).unwrap();
        assert_eq!(steps, long.steps);
        assert!(own_dir(long, root.path()).unwrap().ends_with("long_live_2"));
    }
}
