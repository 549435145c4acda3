//! Makes the document of a run whose messages and parts have their own files.
//!
//! The document is made as a whole whenever one of the files changes. Only the newest messages are
//! still being written, so the files of older parts aren't checked one by one: new ones show in the
//! times of their directory. Must not know what the files mean.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::beneath::{Dir, Kind, refused};
use super::patience::{Patience, is_lasting};
use super::stamp::Stamp;
use super::unpacked::Unpacked;
use crate::format::Composed;
use crate::model::MAX_LINE_BYTES;
use crate::model::json::{Json, walk};

/// Larger files aren't read.
const MAX_FILE_BYTES: usize = MAX_LINE_BYTES as usize;
/// A record of a document has at most about this many bytes. Parts beyond them are left out.
const MAX_RECORD_BYTES: usize = (MAX_LINE_BYTES as usize) / 4 * 3;
/// A message or a session of more bytes keeps only its values of at most the second number of bytes.
const MAX_INFO_BYTES: usize = 1 << 20;
const MAX_KEPT_BYTES: usize = 64 << 10;
/// Maximum number of messages of a run, and parts of a message.
const MAX_MESSAGES: usize = 200_000;
const MAX_PARTS: usize = 5_000;
/// The end of a document if the directories of the messages or parts aren't there.
const MISSING: &str = "],\n\"missing\":true}\n";
/// The parts of this many of the newest messages are checked one by one.
const NEWEST: usize = 32;

/// The place of a run's files.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) how: &'static Composed,
    pub(super) root: &'a Path,
    /// The path from the root to the directory of the run's own file, and that file's name.
    pub(super) below: &'a Path,
    pub(super) name: &'a OsStr,
}

impl Place<'_> {
    /// Returns the path from the root to the directory with those of the messages and parts. Returns
    /// `None` if it's outside of the root.
    fn base(&self) -> Option<&Path> {
        self.below.ancestors().nth(self.how.levels)
    }

    /// Returns the path from the root to the directory of the run's messages.
    fn messages(&self) -> Option<PathBuf> {
        let name = Path::new(self.name).file_stem()?;
        Some(self.base()?.join(self.how.messages.0).join(name))
    }

    /// Returns whether `dir` is the directory of the run's messages. Asked for each run below a root, so
    /// most are ruled out by their name.
    pub(super) fn has_messages_in(&self, dir: &Path) -> bool {
        dir.file_name() == Path::new(self.name).file_stem()
            && self
                .messages()
                .is_some_and(|messages| self.root.join(messages) == dir)
    }

    /// Returns the path from the root to the directory of all parts.
    fn parts(&self) -> Option<PathBuf> {
        Some(self.base()?.join(self.how.parts.0))
    }

    /// Returns the stamp of all files together.
    ///
    /// # Errors
    /// Fails if the run's own file doesn't exist, or a directory can't be read.
    pub(super) fn stamp(&self) -> io::Result<Stamp> {
        let own = Dir::open(self.root, self.below)?.look(self.name)?;
        let (Kind::File, mut stamp) = own else {
            return Err(refused("not a regular file"));
        };
        let Some(messages) = self.messages() else {
            return Ok(stamp);
        };
        let Some(dir) = existing(Dir::open(self.root, &messages))? else {
            return Ok(stamp);
        };
        let add = |stamp: &mut Stamp, dir: &Dir, name: &OsStr| -> io::Result<()> {
            // A file that just disappeared shows in the time of its directory.
            let found = existing(dir.look(name))?;
            *stamp = found.map_or(*stamp, |(_, found)| stamp.and(found));
            Ok(())
        };
        add(&mut stamp, &dir, OsStr::new("."))?;
        let (names, _) = files(&dir, MAX_MESSAGES)?;
        for name in &names {
            add(&mut stamp, &dir, name)?;
        }
        let Some(path) = self.parts() else {
            return Ok(stamp);
        };
        let Some(all) = existing(Dir::open(self.root, &path))? else {
            return Ok(stamp);
        };
        let older = names.len().saturating_sub(NEWEST);
        for (at, name) in names.iter().enumerate() {
            let Some(message) = Path::new(name).file_stem() else {
                continue;
            };
            add(&mut stamp, &all, message)?;
            if at < older {
                continue;
            }
            let Some(dir) = existing(Dir::open(self.root, &path.join(message)))? else {
                continue;
            };
            for part in files(&dir, MAX_PARTS)?.0 {
                add(&mut stamp, &dir, &part)?;
            }
        }
        Ok(stamp)
    }

    /// Returns the document, and the stamp of the files from which it was made.
    ///
    /// # Errors
    /// Fails like [`Self::stamp`], or if there is no space for the document. Returns a would-block
    /// error while it's being made, unless the caller waits.
    pub(super) fn document(&self, patience: Patience) -> io::Result<(Arc<Unpacked>, Stamp)> {
        let stamp = self.stamp()?;
        let hash = |value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            value(&mut hasher);
            hasher.finish()
        };
        let place = hash(&|hasher| (self.root, self.below, self.name).hash(hasher));
        // A document that was made within a tick of the clock may lack what was written later in it.
        let version = hash(&|hasher| (stamp, stamp.is_settled()).hash(hasher));
        let input = || -> io::Result<Box<dyn Read + Send>> { Ok(Box::new(Document::new(self)?)) };
        let rows = Stamp::of_rows(place, version);
        Ok((Unpacked::of_rows(place, rows, patience, input)?, stamp))
    }
}

/// Returns `None` if something doesn't exist, or is a link or something else that isn't opened.
pub(super) fn existing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_lasting(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the names of the JSON files in a directory, in order, at most `most`. Also returns whether
/// there are more.
fn files(dir: &Dir, most: usize) -> io::Result<(Vec<OsString>, bool)> {
    let names = dir.names()?.into_iter();
    // No name without its ending may lead to another directory.
    let is_plain = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".json") && !name.starts_with(b".")
    };
    let mut names: Vec<OsString> = names
        .filter(|(name, kind)| *kind != Kind::Dir && is_plain(name))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    let is_cut = names.len() > most;
    names.truncate(most);
    Ok((names, is_cut))
}

/// Returns the text of a JSON object of at most `most` bytes in a file. If it can't be used, returns an
/// object with the reason in `unreadable`, or with its name in `left_out` if it's too large. Returns `None` if the
/// file is gone.
///
/// # Errors
/// Fails if the file can't be read now.
fn object(dir: &Dir, name: &OsStr, most: usize) -> io::Result<Option<String>> {
    let shown = name.to_string_lossy();
    let instead = |key: &str, value: String| Ok(Some(format!("{{\"{key}\":{value}}}")));
    let (file, stamp) = match dir.file(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if is_lasting(&error) => {
            return instead(
                "unreadable",
                quoted(&format!("{shown} isn't a regular file")),
            );
        }
        // A socket. Permissions that change show in the file's stamp.
        Err(error) if is_refused(&error) => {
            return instead(
                "unreadable",
                quoted(&format!("{shown} can't be opened: {error}")),
            );
        }
        opened => opened?,
    };
    if stamp.size > most as u64 {
        return instead("left_out", format!("[{}]", quoted(&shown)));
    }
    // One byte more than it has shows its end without another allocation.
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.size).unwrap_or(most) + 1);
    file.take(most as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if !text.starts_with('{') || !Json::is_json(text) {
        return instead(
            "unreadable",
            quoted(&format!("{shown} isn't a JSON object")),
        );
    }
    Ok(Some(text.to_owned()))
}

/// Returns whether a file can't be opened, for a reason that doesn't concern other files.
fn is_refused(error: &io::Error) -> bool {
    #[cfg(unix)]
    let is_socket = error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
    #[cfg(not(unix))]
    let is_socket = false;
    is_socket || error.kind() == io::ErrorKind::PermissionDenied
}

/// Returns the object in the file of a run or of a message. Their largest values repeat what other
/// files have, so they may be left out.
///
/// # Errors
/// Fails like [`object`].
fn info(dir: &Dir, name: &OsStr) -> io::Result<Option<String>> {
    let object = object(dir, name, MAX_FILE_BYTES)?;
    Ok(object.map(|object| match object.len() > MAX_INFO_BYTES {
        true => without_large(&object),
        false => object,
    }))
}

/// Returns an object without its large values.
fn without_large(object: &str) -> String {
    let mut out = String::from("{");
    let mut left_out: Vec<&str> = Vec::new();
    for (key, value) in walk::members(object) {
        match value.len() <= MAX_KEPT_BYTES && out.len() < MAX_INFO_BYTES {
            true => out.extend([key, ":", value, ","]),
            false if left_out.len() < MAX_PARTS => left_out.push(key),
            false => {}
        }
    }
    let left_out = left_out.join(",");
    out.extend(["\"left_out\":[", &left_out, "]}"]);
    out
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A document while it's being made.
struct Document {
    root: PathBuf,
    /// The directory of the messages, if there is one, and the path from the root to that of the
    /// parts.
    messages: Option<(Dir, PathBuf)>,
    names: VecDeque<OsString>,
    is_first: bool,
    /// The members after the messages.
    end: &'static str,
    is_over: bool,
    /// What was made, and how much of it was read.
    ready: Vec<u8>,
    taken: usize,
}

impl Document {
    fn new(place: &Place<'_>) -> io::Result<Self> {
        let own = Dir::open(place.root, place.below)?;
        let info =
            info(&own, place.name)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut document = Self {
            root: place.root.to_owned(),
            messages: None,
            names: VecDeque::new(),
            is_first: true,
            end: "]}\n",
            is_over: false,
            ready: format!("{{\"info\":{info},\n\"messages\":[").into_bytes(),
            taken: 0,
        };
        let is_there = |name: &str| -> io::Result<bool> {
            let Some(base) = place.base() else {
                return Ok(false);
            };
            Ok(existing(Dir::open(place.root, &base.join(name)))?.is_some())
        };
        if !is_there(place.how.messages.0)? {
            document.end = MISSING;
            return Ok(document);
        }
        let (Some(messages), Some(parts)) = (place.messages(), place.parts()) else {
            return Ok(document);
        };
        let messages = Dir::open(place.root, &messages);
        if let Err(error) = &messages
            && error.kind() != io::ErrorKind::NotFound
        {
            document.end = MISSING;
        }
        if let Some(dir) = existing(messages)? {
            let (names, is_cut) = files(&dir, MAX_MESSAGES)?;
            if !names.is_empty() && !is_there(place.how.parts.0)? {
                document.end = MISSING;
            } else if is_cut {
                document.end = "],\n\"left_out\":true}\n";
            }
            document.names = names.into();
            document.messages = Some((dir, parts));
        }
        Ok(document)
    }

    /// Makes the next part of the document.
    fn step(&mut self) -> io::Result<()> {
        self.taken = 0;
        self.ready.clear();
        let (Some((messages, parts)), Some(name)) = (&self.messages, self.names.pop_front()) else {
            self.ready.extend_from_slice(self.end.as_bytes());
            self.is_over = true;
            return Ok(());
        };
        let Some(info) = info(messages, &name)? else {
            return Ok(());
        };
        let out = &mut self.ready;
        let comma = if self.is_first { "" } else { "," };
        self.is_first = false;
        out.extend_from_slice(format!("{comma}\n{{\"info\":{info},\"parts\":[").as_bytes());
        let stem = Path::new(&name).file_stem().unwrap_or(&name);
        let parts = Dir::open(&self.root, &parts.join(stem));
        if let Err(error) = &parts
            && error.kind() != io::ErrorKind::NotFound
            && is_lasting(error)
        {
            let why = quoted(&format!("{} isn't a directory", stem.to_string_lossy()));
            out.extend_from_slice(format!("{{\"unreadable\":{why}}}").as_bytes());
        }
        if let Some(dir) = existing(parts)? {
            let (names, is_cut) = files(&dir, MAX_PARTS)?;
            let begun = out.len();
            for name in names {
                let rest = MAX_RECORD_BYTES.saturating_sub(out.len());
                let Some(part) = object(&dir, &name, rest)? else {
                    continue;
                };
                if out.len() > begun {
                    out.push(b',');
                }
                out.extend_from_slice(part.as_bytes());
            }
            if is_cut {
                out.extend_from_slice(b",{\"left_out\":[\"further parts\"]}");
            }
        }
        out.extend_from_slice(b"]}");
        Ok(())
    }
}

impl Read for Document {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken >= self.ready.len() && !self.is_over {
            self.step()?;
        }
        let mut rest = self.ready.get(self.taken..).unwrap_or_default();
        let read = rest.read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}
