//! Defines the files of a run and reads them. Only regular files below the root are opened, even if
//! their names change concurrently.

pub(super) mod known;

use std::borrow::Borrow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::before;
use super::beneath::{Dir, Kind, refused};
use super::composed;
use super::content::Content;
use super::frames::{self, is_packed};
use super::numbered::{self, Names};
use super::patience::{Patience, is_lasting};
use super::recognise::{is_trace_file, origin, recognise};
use super::several::{self, Holder, Member, Opened};
use super::stamp::{Stamp, Stamps};
#[cfg(feature = "board")]
use crate::format::directory_format;
use crate::format::{Numbering, Origin, SEGMENTS, Shape, Tool};
#[cfg(feature = "board")]
use crate::model::Format;
use crate::model::InFile;
use crate::model::{Index, IssueKind, MAX_LINE_BYTES, Span, TraceFile};

/// A run's directory, and the root that links inside it must not leave.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: Arc<Path>,
    /// Shared by the runs of a file, because there may be a hundred thousand.
    base: Arc<Base>,
    /// The run's part of a file that several runs share.
    member: Option<Member>,
}

/// Where the files of a run are.
#[derive(Debug, Clone)]
struct Base {
    root: Arc<Path>,
    /// The path from the root to the directory.
    below: Arc<Path>,
    /// The tool and the file's name, if the run is a single file. Its events are then the file's
    /// records, and its steps are assembled from them.
    single: Option<(&'static Tool, Arc<OsStr>)>,
    /// The names of its record files, if each record has one.
    numbered: Names,
    /// The directory, below the root, and the name of a file with further facts about the run that
    /// a single file contains.
    companion: Option<(PathBuf, OsString)>,
    /// Whether that file repeats the records.
    is_clock: bool,
}

/// The reason why the manifest of a run that is a single file can't be read.
const NO_MANIFEST: &str = "runs in this format have no manifest";

/// The newest bytes of a file that repeats the records. One line is enough to compare the times.
const MAX_CLOCK_BYTES: u64 = 1 << 20;

/// The directory of the records in a copy of a run whose companion is in the directory above.
const RECORDS: &str = "records";

impl RunDir {
    /// Creates a run directory below `root`, which must be canonical. Neither `root` nor anything
    /// `below` it is opened through a link.
    pub fn new(root: PathBuf, below: PathBuf) -> Self {
        Self {
            path: root.join(&below).into(),
            base: Arc::new(Base {
                root: root.into(),
                below: below.into(),
                single: None,
                numbered: Names::default(),
                companion: None,
                is_clock: false,
            }),
            member: None,
        }
    }

    /// Creates a run that is the file `name`, written by `tool`, in the directory `below` the
    /// canonical `root`.
    pub fn of_tool(root: PathBuf, below: PathBuf, name: OsString, tool: &'static Tool) -> Self {
        let dir = root.join(&below);
        let several = tool.shape.is_directory() || matches!(tool.shape, Shape::Several(_));
        let path = if several { dir } else { dir.join(&name) };
        let found = tool.companion(&name);
        let is_clock = found.as_ref().is_some_and(|found| found.is_clock);
        let companion = found.and_then(|companion| {
            let dir = if companion.is_above {
                below.parent()?
            } else {
                &below
            };
            Some((dir.to_owned(), companion.name.into()))
        });
        Self {
            path: path.into(),
            base: Arc::new(Base {
                root: root.into(),
                below: below.into(),
                single: Some((tool, name.into())),
                numbered: Names::of(tool.shape),
                companion,
                is_clock,
            }),
            member: None,
        }
    }

    /// Creates a run that shares a file with others.
    pub(super) fn of_member(member: Member, run: Self) -> Self {
        Self {
            path: member.path().into(),
            member: Some(member),
            ..run
        }
    }

    /// Returns the run at `path`, which may be a file or a directory that another tool wrote. If a
    /// file contains several runs, the run's name must follow the file's path. If it contains one,
    /// the path suffices.
    ///
    /// # Errors
    /// Returns the I/O error. If a file contains several runs and none is chosen, the error lists
    /// their names.
    pub fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let (file, run) = match several::split(path) {
            Some((file, run)) => (file, Some(run)),
            None => (path.to_owned(), None),
        };
        let path = fs::canonicalize(file)?;
        if path.is_dir() {
            let dir = Dir::open(&path, Path::new(""))?;
            let names = dir.names()?;
            let is_dir = |below: &str| {
                names
                    .iter()
                    .any(|(name, kind)| *kind == Kind::Dir && name == below)
            };
            for (name, _) in names.iter().filter(|(_, kind)| *kind == Kind::File) {
                let tool = recognise(&dir, name).ok().flatten();
                if let Some(tool) = tool.filter(|tool| tool.shape.is_whole(is_dir)) {
                    let tool = tool.for_directory(|file| path.join(file).is_file());
                    return Ok(Some(Self::of_tool(
                        path,
                        PathBuf::new(),
                        name.clone(),
                        tool,
                    )));
                }
            }
            if let Some(segment) = newest_segment(&path)? {
                return Self::of_file(&segment);
            }
            let is_file = |(name, kind): &(OsString, Kind)| {
                *kind == Kind::File && is_trace_file(Path::new(name))
            };
            let traces: Vec<_> = names.iter().filter(|file| is_file(file)).collect();
            let [(name, _)] = &*traces else {
                return Ok(None);
            };
            let is_session = |name: &&OsString| {
                let tool = recognise(&dir, name).ok().flatten();
                tool.is_some_and(|tool| matches!(tool.shape, Shape::Lines))
            };
            // Next to a session, its tool may have a file of this name that holds no run.
            let name = match origin(&dir, name)? {
                Origin::Other => names.iter().map(|(name, _)| name).find(is_session),
                _ => Some(name),
            };
            let Some(name) = name else { return Ok(None) };
            return Ok(recognise(&dir, name)?
                .map(|tool| Self::of_tool(path, PathBuf::new(), name.clone(), tool)));
        }
        let Some((root, name)) = path.parent().zip(path.file_name()) else {
            return Ok(None);
        };
        let tool = recognise(&Dir::open(root, Path::new(""))?, name)?;
        // A file that identifies a directory isn't the run itself.
        let Some(tool) = tool.filter(|tool| !tool.shape.is_directory()) else {
            return Ok(None);
        };
        let levels = match tool.shape {
            Shape::Composed(composed) => composed.levels,
            _ => usize::from(tool.companion(name).is_some_and(|it| it.is_above)),
        };
        let above = root.ancestors().nth(levels).unwrap_or(root);
        let below = root.strip_prefix(above).unwrap_or(Path::new(""));
        let one = Self::of_tool(above.to_owned(), below.to_owned(), name.to_owned(), tool);
        let Shape::Several(how) = tool.shape else {
            return Ok(Some(one).filter(|_| run.is_none()));
        };
        let holder = Holder::new(root.to_owned(), PathBuf::new(), name.to_owned(), how);
        Ok(Some(Self::of_member(
            Member::chosen(holder, run.as_deref())?,
            one,
        )))
    }

    /// Returns why the file at `path`, which looks like a trace, isn't read as one.
    pub fn why_skipped(path: &Path) -> Option<String> {
        let path = fs::canonicalize(path).ok()?;
        let dir = Dir::open(path.parent()?, Path::new("")).ok()?;
        match origin(&dir, path.file_name()?).ok()? {
            Origin::Skipped(reason) => Some(reason.into_owned()),
            _ => None,
        }
    }

    /// Returns the same run in another directory, which is its own root.
    pub(super) fn at(&self, dir: &Path) -> Self {
        let root = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        match &self.base.single {
            // The files written there aren't compressed.
            Some((tool, name)) => {
                let is_above = tool.companion(name).is_some_and(|it| it.is_above);
                let below = if is_above { RECORDS } else { "" };
                let tool = tool.of_copy();
                Self::of_tool(root, below.into(), frames::plain(name).into(), tool)
            }
            None => Self::new(root, PathBuf::new()),
        }
    }

    /// Returns the run's files that consist of lines. A run that is a single file has only that.
    pub fn line_files(&self) -> &'static [TraceFile] {
        if self.base.single.is_some() {
            &[TraceFile::Events]
        } else {
            &[TraceFile::Steps, TraceFile::Events]
        }
    }

    /// Returns the tool that wrote the trace, if the run is a single file.
    pub fn tool(&self) -> Option<&'static Tool> {
        self.base.single.as_ref().map(|(tool, _)| *tool)
    }

    /// Returns the format of this name that the run can have, or [`Format::UNKNOWN`].
    #[cfg(feature = "board")]
    pub(crate) fn format_named(&self, name: &str) -> &'static Format {
        match self.tool() {
            Some(tool) if tool.format.name == name => &tool.format,
            Some(_) => &Format::UNKNOWN,
            None => directory_format(name),
        }
    }

    /// Returns whether the run's records are values inside a document rather than separate lines.
    pub fn is_document(&self) -> bool {
        self.tool()
            .is_some_and(|tool| !matches!(tool.shape, Shape::Lines | Shape::LinesBelow { .. }))
    }

    /// Creates a run directory that is its own root.
    pub fn alone(path: &Path) -> Self {
        let root = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self {
            path: path.into(),
            ..Self::new(root, PathBuf::new())
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for shared ownership.
    pub fn shared_path(&self) -> Arc<Path> {
        Arc::clone(&self.path)
    }

    /// Returns the root that links inside the directory must not leave.
    pub fn root(&self) -> &Path {
        &self.base.root
    }

    /// Returns the path from the root to the directory.
    pub(super) fn below(&self) -> &Path {
        &self.base.below
    }

    /// Returns whether one of the three files exists. Also returns true if that can't be determined
    /// right now.
    pub fn has_files(&self) -> bool {
        if let Some(member) = &self.member {
            return member.is_there();
        }
        let handle = match self.handle() {
            Ok(handle) => handle,
            Err(error) => return !is_lasting(&error),
        };
        let is_there = |name| {
            handle
                .look(name)
                .map_or_else(|error| !is_lasting(&error), |_| true)
        };
        TraceFile::ALL
            .iter()
            .any(|file| self.name(*file).is_ok_and(is_there))
    }

    /// Returns the oldest and the newest modification time of the three files, in microseconds
    /// since the Unix epoch.
    pub fn written(&self) -> Option<(i64, i64)> {
        let micros = |time: Option<SystemTime>| {
            i64::try_from(time?.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
        };
        if let Some(member) = &self.member {
            return micros(member.modified()).map(|time| (time, time));
        }
        let times = Stamps::of(self)?
            .0
            .into_iter()
            .flatten()
            .filter_map(|stamp| micros(stamp.modified));
        times.fold(None, |written, time| match written {
            None => Some((time, time)),
            Some((oldest, newest)) => Some((time.min(oldest), time.max(newest))),
        })
    }

    /// Returns whether the root itself is the run.
    pub fn is_root(&self) -> bool {
        self.base.below.as_os_str().is_empty() && self.base.single.is_none()
    }

    /// Returns the name of one of the three files in the directory.
    ///
    /// # Errors
    /// Returns a not-found error for the manifest of a run that is a single file, since it has
    /// none.
    fn name(&self, file: TraceFile) -> io::Result<&OsStr> {
        if let Some((records, _, beside)) = self.documents() {
            return Ok(OsStr::new(if file == TraceFile::Manifest {
                beside
            } else {
                records
            }));
        }
        if let (TraceFile::Manifest, Some((_, name))) = (file, &self.base.companion) {
            return Ok(name);
        }
        match (&self.base.single, file) {
            (None, file) => Ok(OsStr::new(file.name())),
            (Some((_, name)), TraceFile::Steps | TraceFile::Events) => Ok(name),
            (Some(_), TraceFile::Manifest) => {
                Err(io::Error::new(io::ErrorKind::NotFound, NO_MANIFEST))
            }
        }
    }

    /// For a directory of another tool, returns the name of the document with the records, the name
    /// of that document's directory, and the name of the document next to it.
    fn documents(&self) -> Option<(&'static str, &'static str, &'static str)> {
        match self.tool()?.shape {
            Shape::Directory {
                records,
                below,
                beside,
                ..
            }
            | Shape::LinesBelow {
                records,
                below,
                beside,
            } => Some((records, below, beside)),
            // A redacted copy of a run that shares its file has its own files.
            Shape::Several(_) => Some(("sample.json", "", "header.json")),
            // The records are a directory.
            Shape::Files { below, beside, .. } => Some((below, "", beside)),
            Shape::Lines | Shape::Document(_) | Shape::Composed(_) => None,
        }
    }

    /// Returns the other directory that contains a file, if it's not in this directory itself.
    fn deeper(&self, file: TraceFile) -> Option<PathBuf> {
        if let (TraceFile::Manifest, Some((dir, _))) = (file, &self.base.companion) {
            return Some(dir.clone());
        }
        let (_, below, _) = self.documents().filter(|_| file != TraceFile::Manifest)?;
        Some(self.base.below.join(below))
    }

    /// Returns the place of the files from which the document with the records in `file` is made, if
    /// that's several.
    fn composed(&self, file: TraceFile) -> Option<composed::Place<'_>> {
        let records = self.base.single.as_ref();
        let (tool, name) = records.filter(|_| file != TraceFile::Manifest)?;
        let Shape::Composed(how) = tool.shape else {
            return None;
        };
        Some(composed::Place {
            how,
            root: &self.base.root,
            below: &self.base.below,
            name,
        })
    }

    /// Returns whether the run's messages are files in this directory, away from its own file.
    pub(crate) fn has_messages_in(&self, dir: &Path) -> bool {
        let place = self.composed(TraceFile::Events);
        place.is_some_and(|place| place.has_messages_in(dir))
    }

    /// Returns the names of the record files.
    pub(super) fn numbered(&self) -> &Names {
        &self.base.numbered
    }

    /// Returns the path of one of the three files.
    pub fn file(&self, file: TraceFile) -> PathBuf {
        if let Some(member) = &self.member {
            return member.place(file);
        }
        if let Some((records, below, beside)) = self.documents() {
            return if file == TraceFile::Manifest {
                self.path.join(beside)
            } else {
                self.path.join(below).join(records)
            };
        }
        if let (TraceFile::Manifest, Some((dir, name))) = (file, &self.base.companion) {
            return self.base.root.join(dir).join(name);
        }
        match &self.base.single {
            None => self.path.join(file.name()),
            Some(_) => self.path.to_path_buf(),
        }
    }

    /// Returns whether a file next to the run's single file may have further facts about it.
    pub(super) fn has_companion(&self) -> bool {
        self.base.companion.is_some()
    }

    /// Returns whether that file repeats the records, so that it isn't a document about the run.
    pub(super) fn has_clock(&self) -> bool {
        self.base.is_clock
    }

    /// Returns the newest lines of that file, without an incomplete one.
    ///
    /// # Errors
    /// Fails like [`Self::open`].
    pub(super) fn clock(&self) -> io::Result<String> {
        if !self.has_clock() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (opened, stamp) = self.open(TraceFile::Manifest, Patience::Wait)?;
        let from = stamp.size.saturating_sub(MAX_CLOCK_BYTES);
        let mut bytes = Vec::new();
        opened
            .from(from)
            .take(MAX_CLOCK_BYTES)
            .read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let start = match from {
            0 => 0,
            _ => text.find('\n').map_or(text.len(), |end| end + 1),
        };
        let end = text.rfind('\n').map_or(start, |end| end + 1).max(start);
        Ok(text.get(start..end).unwrap_or_default().to_owned())
    }

    /// Returns the stamp of one of the three files, if it may be read.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, is a link that leads out of the root, or isn't a regular
    /// file. Also returns other I/O errors.
    pub(super) fn stat(&self, file: TraceFile) -> io::Result<Stamp> {
        if let Some(member) = &self.member {
            return member.stat(file);
        }
        self.look(&self.handle()?, file)
    }

    /// Opens one of the three files for reading, and returns its stamp at that moment. For a
    /// compressed file, the stamp contains the size of its text.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, or isn't a regular file inside the root. Returns a
    /// would-block error if a writer holds a lease on it, or if it's being decompressed and
    /// `patience` is `Now`.
    pub(super) fn open(&self, file: TraceFile, patience: Patience) -> io::Result<(Content, Stamp)> {
        let handle = match self.deeper(file) {
            Some(dir) => Dir::open(&self.base.root, &dir)?,
            None => self.handle()?,
        };
        let name = self.name(file)?;
        let (opened, stamp) = match handle.look(name)? {
            (Kind::Link, _) => {
                let (dir, name) = self.target(file)?;
                dir.file(&name)
            }
            (Kind::File, _) => handle.file(name),
            _ => Err(refused("not a regular file")),
        }?;
        if self.is_packed() {
            return frames::open(opened, stamp, patience);
        }
        let before = match (file, self.place_before()) {
            (TraceFile::Steps | TraceFile::Events, Some(place)) => place.text(patience)?,
            _ => None,
        };
        Ok(match before {
            Some(before) => {
                let size = stamp.size.saturating_add(before.len());
                (Content::Continued(before, opened), stamp.with_size(size))
            }
            None => (Content::File(opened), stamp),
        })
    }

    /// Returns whether records that were made from other files may precede those in the file.
    pub(crate) fn may_be_continued(&self) -> bool {
        self.place_before().is_some()
    }

    /// Returns the place of the files from which those records are made.
    fn place_before(&self) -> Option<before::Place<'_>> {
        let (tool, name) = self.base.single.as_ref()?;
        let (dir, _) = self.base.companion.as_ref()?;
        Some(before::Place {
            how: tool.before(name)?,
            root: &self.base.root,
            below: dir,
            name: name.to_str()?,
        })
    }

    /// Returns whether the records are decompressed before they are read, and may then be much
    /// larger than the file.
    pub(super) fn is_unpacked(&self) -> bool {
        self.is_packed()
            || self
                .member
                .as_ref()
                .is_some_and(|member| member.packed().is_some())
    }

    /// Returns how the record files are named, if each record has one.
    pub(super) fn numbering(&self) -> Option<Numbering> {
        match self.tool()?.shape {
            Shape::Files { numbering, .. } => Some(numbering),
            _ => None,
        }
    }

    /// Returns the directory of the record files.
    ///
    /// # Errors
    /// Fails if the directory doesn't exist, or isn't below the root.
    pub(super) fn records(&self) -> io::Result<Dir> {
        let Some(Shape::Files { below, .. }) = self.tool().map(|tool| tool.shape) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        Dir::open(self.root(), &self.below().join(below))
    }

    /// Returns whether each record has its own file.
    pub fn is_files(&self) -> bool {
        self.numbering().is_some()
    }

    /// Returns the names of the record files in order, or nothing if records don't have their own
    /// files.
    ///
    /// # Errors
    /// Returns the I/O error.
    pub(super) fn record_files(&self) -> io::Result<Vec<OsString>> {
        let Some(numbering) = self.numbering() else {
            return Ok(Vec::new());
        };
        Ok(numbered::list(&self.records()?, numbering)?
            .into_values()
            .collect())
    }

    /// Iterates over the names and contents of these record files. The content is empty if a file
    /// is longer than any record that is parsed.
    pub(super) fn each_record<'a>(
        &self,
        names: &'a [OsString],
    ) -> impl Iterator<Item = (&'a OsStr, io::Result<Vec<u8>>)> {
        names.iter().map(|name| {
            let read = self.records().and_then(|dir| numbered::content(&dir, name));
            (
                name.as_os_str(),
                read.map(|(bytes, _)| bytes.unwrap_or_default()),
            )
        })
    }

    /// Returns whether the file is compressed as a whole.
    pub(crate) fn is_packed(&self) -> bool {
        self.base
            .single
            .as_ref()
            .is_some_and(|(_, name)| is_packed(name))
    }

    /// Opens one of the documents of a run at its start.
    ///
    /// # Errors
    /// Fails like [`Self::open`].
    pub(super) fn document(&self, file: TraceFile, patience: Patience) -> io::Result<Opened> {
        if let Some(member) = &self.member {
            return member.open(file, patience);
        }
        if let Some(place) = self.composed(file) {
            let (text, stamp) = place.document(patience)?;
            let end = text.len();
            let whole = Span {
                offset: 0,
                len: end,
            };
            return Ok(Opened {
                input: text.part(whole),
                stamp,
                start: (0, 0),
                end,
                is_closed: false,
            });
        }
        let (opened, stamp) = self.open(file, patience)?;
        Ok(Opened {
            input: Box::new(opened.from(0)),
            stamp,
            start: (0, 0),
            end: stamp.size,
            is_closed: false,
        })
    }

    /// Returns whether the run has no records by design, because it only represents a file that
    /// contains no other run.
    pub fn has_no_records(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_file)
    }

    /// Returns whether the run is in the large file `file`, which changed and whose runs are being
    /// listed again.
    pub(crate) fn is_being_listed(&self, file: &Path) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| member.is_being_listed(file))
    }

    /// Returns the location of the records, if the run shares its file with others. For a member of
    /// an archive, the archive is treated as a directory.
    pub fn shared_place(&self) -> Option<PathBuf> {
        Some(self.member.as_ref()?.place(TraceFile::Events))
    }

    /// Returns the place of the run in its file, if it shares that with others.
    pub(crate) fn in_file(&self) -> Option<InFile> {
        self.member.as_ref()?.in_file()
    }

    /// Returns the path shown to users. For a member of an archive, this is its path in the
    /// archive, because lines and offsets count from there.
    pub fn shown(&self) -> PathBuf {
        let packed = self.member.as_ref().and_then(Member::packed);
        packed.unwrap_or_else(|| self.path.to_path_buf())
    }

    /// Returns what is wrong with the file that the run shares with others.
    pub(super) fn fault(&self) -> Option<String> {
        self.member.as_ref()?.fault()
    }

    pub(super) fn handle(&self) -> io::Result<Dir> {
        Dir::open(&self.base.root, &self.base.below)
    }

    pub(super) fn look(&self, handle: &Dir, file: TraceFile) -> io::Result<Stamp> {
        if let Some(member) = &self.member {
            return member.stat(file);
        }
        if let Some(place) = self.composed(file) {
            return place.stamp();
        }
        let deeper = self
            .deeper(file)
            .map(|dir| Dir::open(&self.base.root, &dir))
            .transpose()?;
        let handle = deeper.as_ref().unwrap_or(handle);
        match handle.look(self.name(file)?)? {
            (Kind::File, stamp) => Ok(stamp),
            (Kind::Dir, stamp) if file != TraceFile::Manifest => match self.numbering() {
                Some(numbering) => numbered::stamp(&self.records()?, numbering, stamp),
                None => Err(refused("not a regular file")),
            },
            (Kind::Link, _) => {
                let (dir, name) = self.target(file)?;
                match dir.look(&name)? {
                    (Kind::File, stamp) => Ok(stamp),
                    _ => Err(refused("a link to something other than a regular file")),
                }
            }
            _ => Err(refused("not a regular file")),
        }
    }

    /// Returns the directory and the name inside the root that a link points to. The target is only
    /// a hint: opening it follows no further links.
    fn target(&self, file: TraceFile) -> io::Result<(Dir, OsString)> {
        let target = fs::canonicalize(self.file(file))?;
        let inside = target.strip_prefix(&self.base.root).ok();
        let Some((parent, name)) =
            inside.and_then(|inside| Some((inside.parent()?, inside.file_name()?)))
        else {
            return Err(refused(
                "a symbolic link that leads outside the root (not followed)",
            ));
        };
        Ok((Dir::open(&self.base.root, parent)?, name.to_owned()))
    }

    /// Returns the line at a position. If a step has no separate line, it's assembled from the
    /// records in the index.
    ///
    /// # Errors
    /// Fails like [`Self::read_span`], as a sentence.
    pub fn line<I: Borrow<Index>>(
        &self,
        index: impl FnOnce() -> I,
        file: TraceFile,
        span: Span,
    ) -> Result<Vec<u8>, String> {
        let read = |span| {
            self.read_span(file, span)
                .map_err(|error| error.to_string())
        };
        if self.base.single.is_none()
            || file == TraceFile::Manifest
            || (file == TraceFile::Events && !self.is_document())
        {
            return read(span);
        }
        let index = index();
        let index: &Index = index.borrow();
        // A document is rewritten as a whole, so positions are only valid in the version that was
        // read.
        let is_one = self.is_document() && !self.is_files();
        if is_one && let Some(why) = why_outdated(index, || self.size_now(file)) {
            return Err(why);
        }
        match file {
            TraceFile::Steps => {
                let read_all = |spans: &[Span]| {
                    self.read_spans(file, spans)
                        .map_err(|error| error.to_string())
                };
                index.assemble(span, read_all).unwrap_or_else(|| read(span))
            }
            _ => read(span),
        }
    }

    /// Returns the current size of one of the files.
    fn size_now(&self, file: TraceFile) -> Option<u64> {
        match (&self.member, self.composed(file)) {
            (Some(member), _) => member.size(),
            (None, Some(place)) => Some(place.document(Patience::Wait).ok()?.0.len()),
            (None, None) => Some(self.stat(file).ok()?.size),
        }
    }

    /// Reads several records of one file, in order. Records that are close together are read at
    /// once, because opening the file takes longer than reading a few more bytes.
    ///
    /// # Errors
    /// Fails like [`Self::read_span`].
    fn read_spans(&self, file: TraceFile, spans: &[Span]) -> io::Result<Vec<Vec<u8>>> {
        if self.is_files() {
            return spans
                .iter()
                .map(|span| self.read_span(file, *span))
                .collect();
        }
        let (mut records, mut rest) = (Vec::with_capacity(spans.len()), spans);
        while let Some(first) = rest.first() {
            let (count, len) = neighbours(rest);
            let bytes = self.read_span(
                file,
                Span {
                    offset: first.offset,
                    len,
                },
            )?;
            let (together, later) = rest.split_at(count);
            for span in together {
                let from = usize::try_from(span.offset - first.offset).unwrap_or(usize::MAX);
                let to = from.saturating_add(usize::try_from(span.len).unwrap_or(usize::MAX));
                records.push(bytes.get(from..to).unwrap_or_default().to_vec());
            }
            rest = later;
        }
        Ok(records)
    }

    /// Reads the line at a position.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, isn't a regular file inside the root, or became shorter
    /// (unexpected end), or the line is longer than any that is parsed.
    pub fn read_span(&self, file: TraceFile, span: Span) -> io::Result<Vec<u8>> {
        if span.len > MAX_LINE_BYTES {
            let what = format!(
                "the line has {} bytes, more than the limit of {MAX_LINE_BYTES}",
                span.len
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        // Opens the file before allocating memory, because the file may have been replaced.
        let (mut opened, len) = self.open_span(file, Some(span))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        opened.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns a reader for a line of any length, or for the whole file, and the number of bytes.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, isn't a regular file inside the root, or became shorter
    /// (unexpected end).
    pub fn open_span(
        &self,
        file: TraceFile,
        span: Option<Span>,
    ) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.open_within(file, span, (u64::MAX, Patience::Wait))
    }

    /// Opens a line or a whole file like [`Self::open_span`], with at most `max` bytes.
    fn open_within(
        &self,
        file: TraceFile,
        span: Option<Span>,
        (max, patience): (u64, Patience),
    ) -> io::Result<(Box<dyn Read + Send>, u64)> {
        if self.has_clock() && file == TraceFile::Manifest {
            return Err(io::Error::new(io::ErrorKind::NotFound, NO_MANIFEST));
        }
        if let Some(member) = &self.member {
            return member.span(file, span, (max, patience));
        }
        if let Some(place) = self.composed(file) {
            let (text, _) = place.document(patience)?;
            let whole = Span {
                offset: 0,
                len: text.len(),
            };
            let span = span.unwrap_or(whole);
            several::check_within(span, whole, max)?;
            return Ok((text.part(span), span.len));
        }
        let numbering = self.numbering().filter(|_| file != TraceFile::Manifest);
        let (opened, stamp, span) = match (numbering, span) {
            (Some(numbering), Some(span)) => {
                let (opened, stamp) =
                    self.base
                        .numbered
                        .open(&self.records()?, numbering, span.offset)?;
                (
                    Content::File(opened),
                    stamp,
                    Some(Span { offset: 0, ..span }),
                )
            }
            _ => {
                let (opened, stamp) = self.open(file, patience)?;
                (opened, stamp, span)
            }
        };
        let span = span.unwrap_or(Span {
            offset: 0,
            len: stamp.size,
        });
        if stamp.size < span.offset.saturating_add(span.len) {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file was truncated since it was indexed",
            ));
        }
        Ok((Box::new(opened.from(span.offset).take(span.len)), span.len))
    }

    /// Iterates over all lines of a file in order, including blank ones and an unfinished last one,
    /// without their LF. For a line longer than [`MAX_LINE_BYTES`], returns its length instead.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, or isn't a regular file inside the root.
    pub fn read_lines(
        &self,
        file: TraceFile,
    ) -> io::Result<impl Iterator<Item = io::Result<Result<Vec<u8>, u64>>> + use<>> {
        let numbering = self.numbering().filter(|_| file != TraceFile::Manifest);
        let records = numbering
            .map(|numbering| numbered::contents(self.records()?, numbering))
            .transpose()?;
        let input = if records.is_none() {
            Some(io::BufReader::new(
                self.open(file, Patience::Wait)?.0.from(0),
            ))
        } else {
            None
        };
        let lines =
            input.map(|mut input| std::iter::from_fn(move || next_line(&mut input).transpose()));
        Ok(lines
            .into_iter()
            .flatten()
            .chain(records.into_iter().flatten()))
    }

    /// Reads a whole file of at most `max` bytes.
    ///
    /// # Errors
    /// Fails if the file doesn't exist, isn't a regular file inside the root, or is too large.
    pub fn read_all(&self, file: TraceFile, max: u64) -> io::Result<Vec<u8>> {
        self.read_all_as(file, max, Patience::Wait)
    }

    /// Reads a whole file like [`Self::read_all`]. Returns a would-block error while it's being
    /// decompressed, unless the caller waits.
    pub(super) fn read_all_as(
        &self,
        file: TraceFile,
        max: u64,
        patience: Patience,
    ) -> io::Result<Vec<u8>> {
        let (opened, size) = self.open_within(file, None, (max, patience))?;
        if size > max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the file has {size} bytes, more than the limit of {max}"),
            ));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        opened.take(max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Records with gaps of at most this many bytes are read at once.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// Maximum number of bytes read at once, unless a single record is longer.
const MAX_AT_ONCE_BYTES: u64 = 1 << 20;

/// Returns how many of the first records are read at once, and how many bytes that takes.
fn neighbours(spans: &[Span]) -> (usize, u64) {
    let Some(first) = spans.first() else {
        return (0, 0);
    };
    let (mut count, mut len) = (1, first.len);
    for span in spans.iter().skip(1) {
        let end = first.offset.saturating_add(len);
        let (gap, more) = (
            span.offset.checked_sub(end),
            span.offset
                .saturating_add(span.len)
                .checked_sub(first.offset),
        );
        match gap.zip(more) {
            Some((gap, more)) if gap <= MAX_GAP_BYTES && more <= MAX_AT_ONCE_BYTES => {
                (count, len) = (count + 1, more)
            }
            _ => break,
        }
    }
    (count, len)
}

/// Returns the next line, or the length of one that is too long, or `None` at the end.
fn next_line(input: &mut impl io::BufRead) -> io::Result<Option<Result<Vec<u8>, u64>>> {
    let (mut line, mut len) = (Vec::new(), 0);
    loop {
        let chunk = input.fill_buf()?;
        let end = memchr::memchr(b'\n', chunk);
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        let at_end = chunk.is_empty();
        len += part.len() as u64;
        if len <= MAX_LINE_BYTES {
            line.extend_from_slice(part);
        } else {
            line = Vec::new();
        }
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if at_end && len == 0 {
            return Ok(None);
        }
        if at_end || end.is_some() {
            return Ok(Some(if len > MAX_LINE_BYTES {
                Err(len)
            } else {
                Ok(line)
            }));
        }
    }
}

impl Stamps {
    /// Returns the current stamps of the files, or `None` if one of them can't be determined.
    pub fn of(dir: &RunDir) -> Option<Self> {
        let handle = dir.handle();
        let stamp = |file| match handle.as_ref().map(|handle| dir.look(handle, file)) {
            Ok(Ok(stamp)) => Some(Some(stamp)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Some(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
            Ok(Err(_)) | Err(_) => None,
        };
        Some(Self([
            stamp(TraceFile::Manifest)?,
            stamp(TraceFile::Steps)?,
            stamp(TraceFile::Events)?,
        ]))
    }
}

/// Explains why the offsets in `index` don't match the current document, if they don't. `size`
/// returns the document's size in bytes.
fn why_outdated(index: &Index, size: impl FnOnce() -> Option<u64>) -> Option<String> {
    let torn = || {
        index
            .passing_issues()
            .iter()
            .filter(|issue| issue.kind == IssueKind::Torn)
    };
    // Issues of a file that holds several runs have no offset.
    if let Some((reason, at)) = torn().find_map(|issue| Some((&issue.reason, issue.offset?))) {
        return Some(format!(
            "the file was rewritten and can't be read from byte {at} onward: {reason}"
        ));
    }
    let differs = size().is_some_and(|size| size != index.events_file().size);
    let why = || {
        torn().next().map_or(
            "board is still reading it; try again in a moment",
            |issue| issue.reason.as_str(),
        )
    };
    differs.then(|| format!("the file was rewritten: {}", why()))
}

/// Returns the newest segment of a run whose segments are in this directory, or in its subdirectory for
/// them.
///
/// # Errors
/// Returns the error of listing the directory.
fn newest_segment(path: &Path) -> io::Result<Option<PathBuf>> {
    let is_for_them = |path: &PathBuf| path.ends_with(SEGMENTS) && path.is_dir();
    let dirs = [path.to_owned(), path.join(SEGMENTS)].into_iter();
    for path in dirs.filter(is_for_them) {
        let dir = Dir::open(&path, Path::new(""))?;
        let is_segment = |name: &OsString| {
            let tool = recognise(&dir, name).ok().flatten();
            tool.is_some_and(|tool| tool.is_segment(OsStr::new(SEGMENTS), name))
        };
        let files = dir.names()?.into_iter();
        let files = files.filter(|(_, kind)| *kind == Kind::File);
        let segments = files.map(|(name, _)| name).filter(is_segment);
        let newest = segments.max_by(|a, b| frames::by_number(a, b));
        if let Some(name) = newest {
            return Ok(Some(path.join(name)));
        }
    }
    Ok(None)
}
