//! Which files has a run, and how are they read? Only regular files below the root, whatever their names become.

#[cfg(feature = "board")]
pub(super) mod known;

use std::borrow::Borrow;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::beneath::{Dir, Kind, refused};
use super::content::{Content, Patience, is_lasting};
use super::document;
use super::frames;
use super::numbered::{self, Names};
use super::recognise::{is_packed, origin, recognise};
use super::root::is_trace_file;
use super::several::{self, Holder, Member, Opened};
use super::stamp::{Stamp, Stamps};
use crate::format::{Origin, Shape, Tool};
use crate::model::{Index, MAX_LINE_BYTES, Span, TraceFile};

/// A run's directory, and the root that links inside it may not leave.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: Arc<Path>,
    /// Shared, as `below` and the name are: a file may hold a hundred thousand runs.
    root: Arc<Path>,
    /// The way from the root to the directory.
    below: Arc<Path>,
    /// Whose trace it is and the name of its file, where a run is one file. Its events are the file's records, and its
    /// steps are put together from them.
    single: Option<(&'static Tool, Arc<OsStr>)>,
    /// The file that it shares with other runs.
    member: Option<Member>,
    /// The files of its records, where each has one.
    numbered: Names,
}

impl RunDir {
    /// A run directory below `root`, which is canonical: neither it nor what lies `below` is opened through a link.
    pub fn new(root: PathBuf, below: PathBuf) -> Self {
        Self {
            path: root.join(&below).into(),
            root: root.into(),
            below: below.into(),
            single: None,
            member: None,
            numbered: Names::default(),
        }
    }

    /// A run that is the file `name`, written by `tool`, in the directory `below` the canonical `root`.
    pub fn of_tool(root: PathBuf, below: PathBuf, name: OsString, tool: &'static Tool) -> Self {
        let dir = root.join(&below);
        let several = tool.shape.is_directory() || matches!(tool.shape, Shape::Several(_));
        let path = if several { dir } else { dir.join(&name) };
        Self {
            path: path.into(),
            root: root.into(),
            below: below.into(),
            single: Some((tool, name.into())),
            member: None,
            numbered: Names::of(tool.shape),
        }
    }

    /// A run that shares a file with others, as `member` says.
    pub(super) fn of_member(member: Member, run: Self) -> Self {
        Self {
            path: member.path().into(),
            member: Some(member),
            ..run
        }
    }

    /// The run that a file is, or a directory that another tool wrote, if it is one. Of a file that holds several runs, the
    /// one whose name follows its path; the path alone will do where there is one run.
    ///
    /// # Errors
    /// What the system says; the names of the runs where none is chosen.
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
            let is_file = |(name, kind): &(OsString, Kind)| {
                *kind == Kind::File && is_trace_file(Path::new(name))
            };
            return match &*names.into_iter().filter(is_file).collect::<Vec<_>>() {
                [(name, _)] => Ok(recognise(&dir, name)?
                    .map(|tool| Self::of_tool(path, PathBuf::new(), name.clone(), tool))),
                _ => Ok(None),
            };
        }
        let Some((root, name)) = path.parent().zip(path.file_name()) else {
            return Ok(None);
        };
        let tool = recognise(&Dir::open(root, Path::new(""))?, name)?;
        // What a directory is known by is not the run.
        let Some(tool) = tool.filter(|tool| !tool.shape.is_directory()) else {
            return Ok(None);
        };
        let one = Self::of_tool(root.to_owned(), PathBuf::new(), name.to_owned(), tool);
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

    /// The same run in another directory, which is its own root.
    #[cfg(feature = "board")]
    pub(super) fn at(&self, dir: &Path) -> Self {
        let root = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        match &self.single {
            // What is written there is not compressed.
            Some((tool, name)) => {
                Self::of_tool(root, PathBuf::new(), frames::plain(name).into(), tool)
            }
            None => Self::new(root, PathBuf::new()),
        }
    }

    /// The files of lines that a run has. One that is a single file has that.
    pub fn line_files(&self) -> &'static [TraceFile] {
        if self.single.is_some() {
            &[TraceFile::Events]
        } else {
            &[TraceFile::Steps, TraceFile::Events]
        }
    }

    /// Whose trace it is, where a run is one file.
    pub fn tool(&self) -> Option<&'static Tool> {
        self.single.as_ref().map(|(tool, _)| *tool)
    }

    /// Whether the run's records are the values of one document, and lie on no lines of their own.
    pub fn is_document(&self) -> bool {
        self.tool()
            .is_some_and(|tool| !matches!(tool.shape, Shape::Lines | Shape::LinesBelow { .. }))
    }

    /// A run directory that is its own root.
    pub fn alone(path: &Path) -> Self {
        let root = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self {
            path: path.into(),
            ..Self::new(root, PathBuf::new())
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same, for whoever keeps it.
    #[cfg(feature = "board")]
    pub fn shared_path(&self) -> Arc<Path> {
        Arc::clone(&self.path)
    }

    /// The root that links inside it may not leave.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The way from the root to the directory.
    pub(super) fn below(&self) -> &Path {
        &self.below
    }

    /// Whether one of the three files is there; also where nobody can say right now.
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

    /// When the three files were last written by their own word: the one that waits longest and the newest, in
    /// microseconds since the Unix epoch.
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

    /// Whether the root itself is the run.
    pub fn is_root(&self) -> bool {
        self.below.as_os_str().is_empty() && self.single.is_none()
    }

    /// The name of one of the three files in the directory.
    ///
    /// # Errors
    /// Not found: a run that is one file has no manifest.
    fn name(&self, file: TraceFile) -> io::Result<&OsStr> {
        if let Some((records, _, beside)) = self.documents() {
            return Ok(OsStr::new(if file == TraceFile::Manifest {
                beside
            } else {
                records
            }));
        }
        match (&self.single, file) {
            (None, file) => Ok(OsStr::new(file.name())),
            (Some((_, name)), TraceFile::Steps | TraceFile::Events) => Ok(name),
            (Some(_), TraceFile::Manifest) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "runs of this sort have no manifest",
            )),
        }
    }

    /// Of a directory of another tool: the name of the document with the records, that of its directory, and the name of
    /// the document beside.
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
            // A copy of a run that shares its file has files of its own.
            Shape::Several(_) => Some(("sample.json", "", "header.json")),
            // Its records are a directory.
            Shape::Files { below, beside, .. } => Some((below, "", beside)),
            Shape::Lines | Shape::Document(_) => None,
        }
    }

    /// The directory below this one in which a file lies, where it is another.
    fn deeper(&self, file: TraceFile) -> Option<PathBuf> {
        let (_, below, _) = self.documents().filter(|_| file != TraceFile::Manifest)?;
        Some(self.below.join(below))
    }

    /// The names of the files of its records.
    pub(super) fn numbered(&self) -> &Names {
        &self.numbered
    }

    /// The path of one of the three files.
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
        match &self.single {
            None => self.path.join(file.name()),
            Some(_) => self.path.to_path_buf(),
        }
    }

    /// What one of the three files looks like from outside, if it may be read.
    ///
    /// # Errors
    /// Not found; a link that leads out of the root; not a regular file; what the system says.
    pub(super) fn stat(&self, file: TraceFile) -> io::Result<Stamp> {
        if let Some(member) = &self.member {
            return member.stat(file);
        }
        self.look(&self.handle()?, file)
    }

    /// Opens one of the three files for reading, and says what it looked like then; of a compressed one, with the size of its
    /// text.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root; would block where a writer holds a lease on it, or where it is being
    /// unpacked and `patience` is none.
    pub(super) fn open(&self, file: TraceFile, patience: Patience) -> io::Result<(Content, Stamp)> {
        let handle = match self.deeper(file) {
            Some(dir) => Dir::open(&self.root, &dir)?,
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
            frames::open(opened, stamp, patience)
        } else {
            Ok((Content::File(opened), stamp))
        }
    }

    /// Whether its records are unpacked before they are read: then they may be far more than the file.
    pub(super) fn is_unpacked(&self) -> bool {
        self.is_packed()
            || self
                .member
                .as_ref()
                .is_some_and(|member| member.packed().is_some())
    }

    /// Whether its file is compressed as a whole.
    pub(super) fn is_packed(&self) -> bool {
        self.single
            .as_ref()
            .is_some_and(|(_, name)| is_packed(name))
    }

    /// Opens one of the documents of a run at its start.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn document(&self, file: TraceFile, patience: Patience) -> io::Result<Opened> {
        if let Some(member) = &self.member {
            return member.open(file, patience);
        }
        let (opened, stamp) = self.open(file, patience)?;
        Ok(Opened {
            input: Box::new(opened.from(0)),
            stamp,
            start: (0, 0),
            is_closed: false,
        })
    }

    /// Whether the run rightly has no records: it is what a file tells of that holds no other.
    pub fn has_no_records(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_file)
    }

    /// Whether it is in the large file `file`, which changed and whose runs are being looked up again.
    #[cfg(feature = "board")]
    pub fn is_being_listed(&self, file: &Path) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| member.is_being_listed(file))
    }

    /// Where the records are of a run that shares its file with others: a member of an archive as if that were a directory.
    pub fn shared_place(&self) -> Option<PathBuf> {
        Some(self.member.as_ref()?.place(TraceFile::Events))
    }

    /// The path that people are shown: of a member of an archive its place there, since lines and bytes count in it.
    pub fn shown(&self) -> PathBuf {
        let packed = self.member.as_ref().and_then(Member::packed);
        packed.unwrap_or_else(|| self.path.to_path_buf())
    }

    /// What is wrong with the file that the run shares with others.
    pub(super) fn fault(&self) -> Option<String> {
        self.member.as_ref()?.fault()
    }

    pub(super) fn handle(&self) -> io::Result<Dir> {
        Dir::open(&self.root, &self.below)
    }

    pub(super) fn look(&self, handle: &Dir, file: TraceFile) -> io::Result<Stamp> {
        if let Some(member) = &self.member {
            return member.stat(file);
        }
        let deeper = self
            .deeper(file)
            .map(|dir| Dir::open(&self.root, &dir))
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
                    _ => Err(refused("a link to something that is not a regular file")),
                }
            }
            _ => Err(refused("not a regular file")),
        }
    }

    /// The directory and the name inside the root that a link leads to. Where it leads is only a hint: nothing on the way
    /// there may be a link by the time it is opened.
    fn target(&self, file: TraceFile) -> io::Result<(Dir, OsString)> {
        let target = fs::canonicalize(self.file(file))?;
        let inside = target.strip_prefix(&self.root).ok();
        let Some((parent, name)) =
            inside.and_then(|inside| Some((inside.parent()?, inside.file_name()?)))
        else {
            return Err(refused(
                "a symbolic link that leads out of the root; not followed",
            ));
        };
        Ok((Dir::open(&self.root, parent)?, name.to_owned()))
    }

    /// A line by its place, as pages take it: of a step that has none of its own it is put together from the records that
    /// the index names.
    ///
    /// # Errors
    /// As [`Self::read_span`], in words.
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
        if self.single.is_none()
            || file == TraceFile::Manifest
            || (file == TraceFile::Events && !self.is_document())
        {
            return read(span);
        }
        let index = index();
        let index: &Index = index.borrow();
        // A document is written anew as a whole: the places in it are those of the one that was read.
        let is_one = self.is_document() && !self.is_files();
        if is_one && let Some(why) = document::unread(index, || Some(self.stat(file).ok()?.size)) {
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

    /// Reads several records of one file, in order. Those that lie close together are read at once: opening the file takes
    /// longer than reading a few more bytes.
    ///
    /// # Errors
    /// As [`Self::read_span`].
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

    /// Reads a line by its place.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root; unexpected end where the file became shorter; longer than any
    /// line that is parsed.
    pub fn read_span(&self, file: TraceFile, span: Span) -> io::Result<Vec<u8>> {
        if span.len > MAX_LINE_BYTES {
            let what = format!("{} bytes in one line, more than {MAX_LINE_BYTES}", span.len);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        // Before memory is taken: the file may be another one by now.
        let (mut opened, len) = self.open_span(file, Some(span))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        opened.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// A line of any length by its place, or the whole file, to be read piece by piece; and how many bytes it has.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root; unexpected end where the file became shorter.
    pub fn open_span(
        &self,
        file: TraceFile,
        span: Option<Span>,
    ) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.open_within(file, span, (u64::MAX, Patience::Wait))
    }

    /// The same of at most `max` bytes.
    fn open_within(
        &self,
        file: TraceFile,
        span: Option<Span>,
        (max, patience): (u64, Patience),
    ) -> io::Result<(Box<dyn Read + Send>, u64)> {
        if let Some(member) = &self.member {
            return member.span(file, span, (max, patience));
        }
        let numbering = self.numbering().filter(|_| file != TraceFile::Manifest);
        let (opened, stamp, span) = match (numbering, span) {
            (Some(numbering), Some(span)) => {
                let (opened, stamp) =
                    self.numbered
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
                "the file became shorter since it was indexed",
            ));
        }
        Ok((Box::new(opened.from(span.offset).take(span.len)), span.len))
    }

    /// All lines of a file in order, an unfinished last one and blank ones too, without their LF. Of one that is longer
    /// than [`MAX_LINE_BYTES`], how long it is.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root.
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
    /// Not there, or not a regular file inside the root; too large.
    pub fn read_all(&self, file: TraceFile, max: u64) -> io::Result<Vec<u8>> {
        self.read_all_as(file, max, Patience::Wait)
    }

    /// The same; would block while it is being unpacked, unless the caller waits.
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
                format!("{size} bytes, more than {max}"),
            ));
        }
        let mut bytes = Vec::new();
        opened.take(max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Records that lie this close together are read at once.
const MAX_GAP_BYTES: u64 = 64 << 10;
/// The most that one read takes, unless a single record is longer.
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

/// The next line, or the length of one that is too long to be held; `None` at the end.
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
