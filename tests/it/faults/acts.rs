//! The changes that can happen to a board's directory.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::writers;
use crate::chance::Chance;
use crate::disk::{copy, walk};
use crate::writer::Writer;

/// A change to a random run and one of its files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    AppendLines,
    AppendInPieces,
    AppendWithoutEnd,
    CutAtALine,
    CutInALine,
    CutToNothing,
    TearALine,
    Reorder,
    /// Keeps the size, and changes only bytes far from both ends.
    ChangeInside,
    /// Does the same, and restores the modification time.
    ChangeInsideUnseen,
    ChangeInsideAndAppend,
    GrowInside,
    ReplaceByRename,
    DeleteFile,
    DeleteFileAndBringItBack,
    DeleteRun,
    DeleteRunAndBringItBack,
    RenameRun,
    SwapRuns,
    ReplaceRunByAnother,
    MoveRootAwayAndBack,
    ManifestInHalves,
    ManifestOfTheSameSize,
    TimesInTheFuture,
    TimesInThePast,
    WriteRun,
    WriteAgain,
    KillWriter,
    FillDisk,
}

const ALL: [Act; 29] = [
    Act::AppendLines,
    Act::AppendInPieces,
    Act::AppendWithoutEnd,
    Act::CutAtALine,
    Act::CutInALine,
    Act::CutToNothing,
    Act::TearALine,
    Act::Reorder,
    Act::ChangeInside,
    Act::ChangeInsideUnseen,
    Act::ChangeInsideAndAppend,
    Act::GrowInside,
    Act::ReplaceByRename,
    Act::DeleteFile,
    Act::DeleteFileAndBringItBack,
    Act::DeleteRun,
    Act::DeleteRunAndBringItBack,
    Act::RenameRun,
    Act::SwapRuns,
    Act::ReplaceRunByAnother,
    Act::MoveRootAwayAndBack,
    Act::ManifestInHalves,
    Act::ManifestOfTheSameSize,
    Act::TimesInTheFuture,
    Act::TimesInThePast,
    Act::WriteRun,
    Act::WriteAgain,
    Act::KillWriter,
    Act::FillDisk,
];

impl Act {
    /// Picks a random act.
    pub(super) fn any(chance: &mut Chance) -> Self {
        ALL[chance.place(ALL.len())]
    }

    /// Plays the act below `root`, with `aside` as a directory that the board doesn't watch.
    /// Returns the path that it changed, or `None` if the chosen run has no such file.
    pub(super) fn play(self, root: &Path, aside: &Path, chance: &mut Chance) -> Option<String> {
        fs::create_dir_all(aside).unwrap();
        let fresh = root.join(format!("run-{}", chance.below(100_000)));
        match self {
            Act::WriteRun => {
                write_some(&mut Writer::start(&fresh), chance);
                return told(&fresh);
            }
            Act::KillWriter => {
                writers::killed(&fresh, chance);
                return told(&fresh);
            }
            Act::FillDisk => {
                writers::out_of_space(&fresh, chance);
                return told(&fresh);
            }
            _ => {}
        }
        let runs = runs(root);
        let run = runs.get(chance.place(runs.len()))?;
        let other = &runs[chance.place(runs.len())];
        let file = run.join(if chance.once_in(2) {
            "steps.jsonl"
        } else {
            "events.jsonl"
        });
        match self {
            Act::DeleteRun => {
                fs::remove_dir_all(run).unwrap();
                told(run)
            }
            Act::DeleteRunAndBringItBack => {
                let kept = aside.join("kept");
                copy(run, &kept);
                fs::remove_dir_all(run).unwrap();
                fs::rename(&kept, run).unwrap();
                told(run)
            }
            Act::RenameRun => {
                fs::rename(run, &fresh).unwrap();
                told(run)
            }
            // Neither directory may contain the other.
            Act::SwapRuns | Act::ReplaceRunByAnother
                if run.starts_with(other) || other.starts_with(run) =>
            {
                None
            }
            Act::SwapRuns => {
                let kept = aside.join("kept");
                fs::rename(run, &kept).unwrap();
                fs::rename(other, run).unwrap();
                fs::rename(&kept, other).unwrap();
                told(run)
            }
            Act::ReplaceRunByAnother => {
                fs::remove_dir_all(run).unwrap();
                fs::rename(other, run).unwrap();
                told(run)
            }
            Act::MoveRootAwayAndBack => {
                let away = aside.join("root");
                fs::rename(root, &away).unwrap();
                let told = Act::ChangeInside.play(&away, aside, chance);
                fs::rename(&away, root).unwrap();
                told
            }
            Act::WriteAgain => {
                write_some(&mut Writer::start(run), chance);
                told(run)
            }
            Act::ManifestInHalves | Act::ManifestOfTheSameSize => {
                manifest(self, &run.join("manifest.json"), chance)
            }
            _ => lines(self, &file, aside, chance),
        }
    }
}

/// Plays an act on a file of lines.
fn lines(act: Act, path: &Path, aside: &Path, chance: &mut Chance) -> Option<String> {
    let text = fs::read(path).ok()?;
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &text)
        .map(|end| end + 1)
        .collect();
    let last = ends.len().checked_sub(1)?;
    let line = |at: usize| &text[at.checked_sub(1).map_or(0, |before| ends[before])..ends[at]];
    let append = || OpenOptions::new().append(true).open(path).unwrap();
    let cut = |len: usize| {
        OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(len as u64)
            .unwrap()
    };
    match act {
        Act::AppendLines => {
            (0..=chance.below(3)).for_each(|_| append().write_all(line(last)).unwrap())
        }
        Act::AppendInPieces => line(last)
            .chunks(1 + chance.place(400))
            .for_each(|piece| append().write_all(piece).unwrap()),
        Act::AppendWithoutEnd => append()
            .write_all(&line(last)[..line(last).len() - 1])
            .unwrap(),
        Act::CutAtALine => cut(ends[chance.place(ends.len())]),
        Act::CutInALine => cut(chance.place(text.len())),
        Act::CutToNothing => cut(0),
        Act::TearALine => {
            let line = line(chance.place(ends.len()));
            append()
                .write_all(&line[..chance.place(line.len())])
                .unwrap();
            append().write_all(b"\n").unwrap();
        }
        Act::Reorder => {
            let mut parts: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            let (a, b) = (chance.place(ends.len()), chance.place(ends.len()));
            parts.swap(a, b);
            fs::write(path, parts.concat()).unwrap();
        }
        Act::ChangeInside | Act::ChangeInsideUnseen | Act::ChangeInsideAndAppend => {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let time = file.metadata().unwrap().modified().unwrap();
            let at = change(&text, chance)?;
            if matches!(act, Act::ChangeInsideAndAppend) {
                append().write_all(line(last)).unwrap();
            }
            file.write_all_at(&[other_digit(text[at])], at as u64)
                .unwrap();
            if matches!(act, Act::ChangeInsideUnseen) {
                file.set_modified(time).unwrap();
            }
            return Some(format!("byte {at} of {} in {}", text.len(), path.display()));
        }
        Act::GrowInside => {
            let at = chance.place(ends.len());
            fs::write(
                path,
                [&text[..ends[at]], line(at), &text[ends[at]..]].concat(),
            )
            .unwrap();
        }
        Act::ReplaceByRename => {
            let beside = aside.join("beside");
            let mut text = text.clone();
            let at = change(&text, chance)?;
            text[at] = other_digit(text[at]);
            fs::write(&beside, &text).unwrap();
            File::options()
                .write(true)
                .open(&beside)
                .unwrap()
                .set_modified(fs::metadata(path).unwrap().modified().unwrap())
                .unwrap();
            fs::rename(&beside, path).unwrap();
        }
        Act::DeleteFile => fs::remove_file(path).unwrap(),
        Act::DeleteFileAndBringItBack => {
            fs::rename(path, aside.join("file")).unwrap();
            fs::rename(aside.join("file"), path).unwrap();
        }
        Act::TimesInTheFuture | Act::TimesInThePast => {
            let hour = Duration::from_secs(3600);
            let time = if matches!(act, Act::TimesInTheFuture) {
                SystemTime::now() + hour
            } else {
                SystemTime::UNIX_EPOCH + hour
            };
            let dir = path.parent()?;
            for place in walk(dir)
                .into_iter()
                .chain([dir.to_owned(), dir.parent()?.to_owned()])
            {
                File::open(place).unwrap().set_modified(time).unwrap();
            }
        }
        _ => unreachable!("not for lines"),
    }
    told(path)
}

/// Plays an act on a manifest, which is complete afterwards.
fn manifest(act: Act, path: &Path, chance: &mut Chance) -> Option<String> {
    let mut text = fs::read(path).ok()?;
    if matches!(act, Act::ManifestOfTheSameSize) {
        let time = fs::metadata(path).unwrap().modified().unwrap();
        let at = change(&text, chance)?;
        text[at] = other_digit(text[at]);
        fs::write(path, &text).unwrap();
        if chance.once_in(2) {
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_modified(time)
                .unwrap();
        }
        return told(path);
    }
    let (first, second) = text.split_at(chance.place(text.len()));
    fs::write(path, first).unwrap();
    OpenOptions::new()
        .append(true)
        .open(path)
        .unwrap()
        .write_all(second)
        .unwrap();
    told(path)
}

/// Finds a digit far from both ends that can be replaced by another.
fn change(text: &[u8], chance: &mut Chance) -> Option<usize> {
    let (from, to) = (text.len() / 4, text.len() * 3 / 4);
    let from = from + chance.place((to - from) / 2);
    // It follows another digit, so that the number stays valid.
    (from..to).find(|at| text[*at].is_ascii_digit() && text[at - 1].is_ascii_digit())
}

fn other_digit(digit: u8) -> u8 {
    if digit == b'1' { b'2' } else { b'1' }
}

fn write_some(writer: &mut Writer, chance: &mut Chance) {
    (0..chance.below(6)).for_each(|n| writer.step(&format!("written {n}")));
    if chance.once_in(2) {
        writer.finish("final");
    }
}

/// Lists the directories that contain a run, sorted.
fn runs(root: &Path) -> Vec<PathBuf> {
    let mut runs: Vec<PathBuf> = walk(root)
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|name| name == "jsonl" || name == "json")
        })
        .filter_map(|path| path.parent().map(Path::to_owned))
        .collect();
    runs.dedup();
    runs
}

fn told(path: &Path) -> Option<String> {
    Some(path.display().to_string())
}
