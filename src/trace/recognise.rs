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
    if frames::is_packed(name) {
        let head = frames::head(file, format::HEAD_BYTES as u64)?;
        return Ok(format::tool(name_text.trim_end_matches(".zst"), &head));
    }
    let mut head = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, format::HEAD_BYTES as u64), &mut head)?;
    Ok(format::tool(name_text, &head))
}
