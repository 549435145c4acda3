//! Whose trace is a file? Looks at its name and its beginning.

use std::ffi::OsStr;
use std::io;

use super::beneath::Dir;
use super::frames;
use crate::format::{self, Tool};

/// The tool that wrote a file, by its name and beginning; `None` too for a file that is not there.
///
/// # Errors
/// It cannot be opened or read.
pub(super) fn recognise(dir: &Dir, name: &OsStr) -> io::Result<Option<&'static Tool>> {
    let Some(name_text) = name.to_str().filter(|name| format::may_be_trace(name)) else { return Ok(None) };
    let (file, _) = dir.file(name)?;
    if is_packed(name) {
        let head = frames::head(file, format::HEAD_BYTES as u64)?;
        return Ok(frames::plain(name).to_str().and_then(|name| format::tool(name, &head)));
    }
    let mut head = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, format::HEAD_BYTES as u64), &mut head)?;
    Ok(format::tool(name_text, &head))
}

/// Whether a file of this name is compressed as a whole, and taken for its text.
pub(super) fn is_packed(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".jsonl.zst")
}
