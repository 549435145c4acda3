//! Tells whose trace a file is, by its name and its beginning.

use std::ffi::OsStr;
use std::io;

use super::beneath::Dir;
use super::frames;
use crate::format::{self, Origin, Tool};

/// Returns whose a file is, by its name and beginning.
///
/// # Errors
/// It cannot be opened or read; not found where it is not there.
pub(super) fn origin(dir: &Dir, name: &OsStr) -> io::Result<Origin> {
    let Some(text) = name
        .to_str()
        .filter(|name| format::may_be_trace(name) || format::may_be_skipped(name))
    else {
        return Ok(Origin::Other);
    };
    let (file, _) = dir.file(name)?;
    if is_packed(name) {
        let head = frames::head(file, format::HEAD_BYTES as u64)?;
        return Ok(frames::plain(name)
            .to_str()
            .map_or(Origin::Other, |name| format::origin(name, &head)));
    }
    let mut head = Vec::new();
    io::Read::read_to_end(
        &mut io::Read::take(file, format::HEAD_BYTES as u64),
        &mut head,
    )?;
    Ok(format::origin(text, &head))
}

/// Returns the tool that wrote a file, if the board reads its traces.
///
/// # Errors
/// As [`origin`].
pub(super) fn recognise(dir: &Dir, name: &OsStr) -> io::Result<Option<&'static Tool>> {
    match origin(dir, name)? {
        Origin::Tool(tool) => Ok(Some(tool)),
        _ => Ok(None),
    }
}

/// Whether a file of this name is compressed as a whole, and taken for its text.
pub(super) fn is_packed(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".jsonl.zst")
}
