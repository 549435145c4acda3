//! Identifies the tool that wrote a file, by the file's name and beginning.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::beneath::Dir;
use super::frames;
use crate::format::{self, Origin, Tool};
use crate::model::TraceFile;

/// Returns the origin of a file, by its name and beginning.
///
/// # Errors
/// Fails if the file can't be opened or read. Returns a not-found error if it doesn't exist.
pub(super) fn origin(dir: &Dir, name: &OsStr) -> io::Result<Origin> {
    let Some(text) = name.to_str().filter(|name| format::may_be_trace(name)) else {
        return Ok(Origin::Other);
    };
    let (file, _) = dir.file(name)?;
    let head = frames::head(file, name, format::HEAD_BYTES as u64)?;
    if !frames::is_packed(name) {
        return Ok(format::origin(text, &head));
    }
    let plain = frames::plain(name).to_str().unwrap_or(text);
    Ok(match format::origin(plain, &head) {
        Origin::Run | Origin::Unclear => Origin::Skipped(PACKED.into()),
        found => found,
    })
}

/// The reason for a compressed file that is one of a run's three files.
const PACKED: &str = "steps.jsonl and events.jsonl of a run are only read uncompressed";

/// Returns whether a file is a compressed one of a run's three files.
pub(super) fn is_packed_trace_file(name: &OsStr) -> bool {
    frames::is_packed(name) && is_trace_file(Path::new(frames::plain(name)))
}

/// Returns the beginning of a file's text. For a compressed file, that's what it contains.
///
/// # Errors
/// Fails if the file can't be opened or decompressed, or isn't a regular file.
pub(crate) fn beginning(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let path = fs::canonicalize(path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let (file, _) = Dir::open(parent, Path::new(""))?.file(name)?;
    frames::head(file, name, bytes)
}

/// Returns the tool that wrote a file, if board reads its traces.
///
/// # Errors
/// Fails like [`origin`].
pub(super) fn recognise(dir: &Dir, name: &OsStr) -> io::Result<Option<&'static Tool>> {
    match origin(dir, name)? {
        Origin::Tool(tool) => Ok(Some(tool)),
        _ => Ok(None),
    }
}

/// Returns whether a path may be that of a file that is a run.
pub fn may_be_trace(path: &Path) -> bool {
    path.file_name()
        .and_then(OsStr::to_str)
        .is_some_and(format::may_be_trace)
}

/// Returns the path of the database whose newest rows a file has, or the file's own path.
pub(crate) fn store_of(path: PathBuf) -> PathBuf {
    let store = path
        .file_name()
        .and_then(OsStr::to_str)
        .and_then(format::store_of_log);
    match store {
        Some(store) => path.with_file_name(store),
        None => path,
    }
}

/// Returns whether a directory only holds messages or parts of runs whose own files are elsewhere.
pub(crate) fn holds_parts(dir: &Path) -> bool {
    let folder = dir.parent().and_then(Path::file_name);
    folder
        .zip(dir.file_name())
        .is_some_and(|(folder, name)| format::holds_parts(folder, name))
}

/// Returns whether a path is that of a compressed file of lines.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.file_name().is_some_and(frames::is_packed)
}

/// Returns whether a path may be that of a file of lines, compressed or not.
pub(crate) fn may_be_lines(path: &Path) -> bool {
    let name = path.file_name().map(frames::plain).and_then(OsStr::to_str);
    name.is_some_and(format::is_lines)
}

/// Returns whether a path ends in the name of one of the three files.
pub fn is_trace_file(path: &Path) -> bool {
    TraceFile::ALL
        .iter()
        .any(|file| path.ends_with(file.name()))
}
