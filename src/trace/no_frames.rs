//! What does a file hold that was compressed as a whole? A program built without the feature `archives` does not know.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};

use super::stamp::Stamp;
use crate::model::Span;

pub(super) fn plain(name: &OsStr) -> &OsStr {
    name
}

pub(super) fn head(_: File, _: u64) -> io::Result<Vec<u8>> {
    Err(unread())
}

pub(super) fn stat(_: Stamp, _: impl FnOnce() -> io::Result<File>) -> io::Result<Stamp> {
    Err(unread())
}

pub(super) fn fault(_: Stamp) -> Option<String> {
    None
}

pub(super) fn open(_: File, _: Stamp) -> io::Result<(File, Stamp)> {
    Err(unread())
}

pub(super) fn part(_: File, _: Stamp, _: Span) -> io::Result<Box<dyn Read + Send>> {
    Err(unread())
}

fn unread() -> io::Error {
    let what = "a compressed file, which this program was built to leave alone: without the feature `archives`";
    io::Error::new(io::ErrorKind::Unsupported, what)
}
