//! Checks the files in a table's directory, and determines which belong to the table. Other files
//! are never overwritten or removed, and links are never followed, since other programs may use the
//! directory too.
//!
//! Knows neither rows nor which files will be written.

use std::collections::BTreeSet;
use std::fs::{self, FileType};
use std::io;
use std::path::Path;

use super::known::{Look, TableNote};
use crate::error::{Error, Kind, Result};

/// Checks that `path` is a directory or doesn't exist.
///
/// # Errors
/// It's something else.
pub(super) fn directory(path: &Path) -> Result<()> {
    match kind(path)? {
        Some(kind) if kind.is_symlink() => Err(foreign(path, "it is a symbolic link")),
        Some(kind) if !kind.is_dir() => Err(foreign(path, "it isn't a directory")),
        _ => Ok(()),
    }
}

/// Checks that `path` is a file or doesn't exist.
///
/// # Errors
/// It's something else.
pub(super) fn file(path: &Path) -> Result<()> {
    match kind(path)? {
        Some(kind) if kind.is_symlink() => Err(foreign(path, "it is a symbolic link")),
        Some(kind) if !kind.is_file() => Err(foreign(path, "it isn't a file")),
        _ => Ok(()),
    }
}

/// Checks that the table's file `name` is unchanged or doesn't exist.
///
/// # Errors
/// Another program created or changed it.
pub(super) fn part(table: &Path, name: &str, known: &TableNote) -> Result<()> {
    let path = table.join(name);
    directory(path.parent().unwrap_or(table))?;
    file(&path)?;
    let look = Look::of(&path);
    if look.is_none() || known.valid_states(name).any(|known| Some(known) == look) {
        return Ok(());
    }
    let why = match known.valid_states(name).next() {
        Some(_) => "it has changed since it was written",
        None => "the table's index doesn't list it",
    };
    Err(foreign(&path, why))
}

/// Returns the existing names below the table that have the form of its files.
///
/// # Errors
/// A day is a link, or the directory can't be read.
pub(super) fn parts(table: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let unread = |error| {
        Error::new(Kind::Unreadable, format!("can't read {}", table.display())).because(error)
    };
    for day in fs::read_dir(table).map_err(unread)? {
        let day = day.map_err(unread)?;
        let name = day.file_name().to_string_lossy().into_owned();
        if !name.starts_with("day=") {
            continue;
        }
        directory(&day.path())?;
        for file in fs::read_dir(day.path()).map_err(unread)? {
            let own = file
                .map_err(unread)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if is_part(&own) {
                found.insert(format!("{name}/{own}"));
            }
        }
    }
    Ok(found)
}

/// Returns whether a file name has this program's form: the hour and the format.
fn is_part(name: &str) -> bool {
    let hour = name
        .split_once('.')
        .filter(|(_, extension)| ["jsonl", "csv", "parquet"].contains(extension));
    hour.is_some_and(|(hour, _)| hour.len() == 2 && hour.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the type of a file without following links.
fn kind(path: &Path) -> Result<Option<FileType>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let is_file = |path: &&Path| fs::metadata(path).is_ok_and(|what| !what.is_dir());
            let file = path.ancestors().skip(1).find(is_file).unwrap_or(path);
            let what = format!(
                "--out must be a directory, but {} is a file",
                file.display()
            );
            Err(Error::new(Kind::Usage, what))
        }
        Err(error) => Err(
            Error::new(Kind::Unreadable, format!("can't access {}", path.display())).because(error),
        ),
    }
}

fn foreign(path: &Path, why: &str) -> Error {
    let what = format!(
        "{} doesn't belong to the table, so it is neither overwritten nor removed",
        path.display()
    );
    Error::new(Kind::Usage, what)
        .because(io::Error::other(why))
        .hint("move it, or choose another --out")
}
