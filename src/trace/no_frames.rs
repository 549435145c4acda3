//! Stands in for the reader of compressed files in a program that was built without the feature `archives`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use super::content::{Content, Patience};
use super::stamp::Stamp;

pub(super) fn plain(name: &OsStr) -> &OsStr {
    name
}

pub(super) fn head(_: File, _: u64) -> io::Result<Vec<u8>> {
    Err(unread())
}

pub(super) fn open(_: File, _: Stamp, _: Patience) -> io::Result<(Content, Stamp)> {
    Err(unread())
}

fn unread() -> io::Error {
    let what = "a compressed file, which this program was built to leave alone: without the feature `archives`";
    io::Error::new(io::ErrorKind::Unsupported, what)
}
