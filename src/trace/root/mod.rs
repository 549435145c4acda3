//! Finds the runs below a root, cheaply when little has changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::beneath::{self, Dir, Kind};
use super::dir::RunDir;
use super::frames;
use super::lister::Lister;
use super::patience::{is_lasting, is_pending};
use super::recognise::{holds_parts, is_packed_trace_file, is_trace_file, origin};
use super::several::{Holder, Member};
use super::stamp::{FileId, Stamp};
use crate::format::{self, Origin, Shape, Tool};
use crate::model::{RunKey, TraceFile};

/// Run directories are searched for at most this many levels below a root.
pub const MAX_DEPTH: usize = 8;

/// The result of scanning a root.
#[derive(Debug, Clone, Default)]
pub struct RootScan {
    /// The runs and their directories.
    pub runs: BTreeMap<RunKey, RunDir>,
    /// Files that look like traces but aren't read, then directories without a run, each sorted by
    /// path. At most [`MAX_SKIPPED`] of each are listed.
    pub skipped: Vec<Skipped>,
    /// How many files and directories are skipped, listed or not.
    pub skipped_total: SkippedTotal,
    /// Why the root itself can't be read, if it can't.
    pub fault: Option<String>,
}

/// Maximum number of skipped files of a root that are listed, and of skipped directories.
pub const MAX_SKIPPED: usize = 1_000;
/// Maximum number of distinct reasons for skipped files. Further reasons are combined into one.
const MAX_REASONS: usize = 50;

/// A file, a directory, or an object of a store that isn't shown as a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Skipped {
    /// The path below its root, or the key below its prefix.
    pub path: String,
    // In a few words.
    #[allow(missing_docs, reason = "the API has no text for it")]
    pub reason: String,
    /// `file`, `directory` or `object`.
    #[schemars(with = "String")]
    pub kind: SkippedKind,
}

/// What is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkippedKind {
    /// A file that looks like a trace.
    File,
    /// A directory.
    Directory,
    /// An object of a store that may belong to a trace but isn't fetched.
    Object,
}

/// How many files and directories of a root aren't shown as runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedTotal {
    /// The number of directories that contain no run or can't be read.
    pub directories: usize,
    /// The number of files that look like traces but aren't read, by reason.
    pub files: BTreeMap<String, usize>,
}

impl SkippedTotal {
    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.files.values().sum()
    }

    /// Returns the number of files and directories.
    pub fn all(&self) -> usize {
        self.files() + self.directories
    }

    /// Adds the numbers of another root.
    pub fn add(&mut self, other: &Self) {
        self.directories += other.directories;
        other
            .files
            .iter()
            .for_each(|(reason, files)| self.count(reason, *files));
    }

    fn count(&mut self, reason: &str, files: usize) {
        let is_full = self.files.len() >= MAX_REASONS && !self.files.contains_key(reason);
        let reason = if is_full { "other reasons" } else { reason };
        *self.files.entry(reason.to_owned()).or_default() += files;
    }
}

impl RootScan {
    /// Counts a skipped file or directory, and lists it if there's room.
    fn skip(&mut self, skipped: Skipped) {
        match skipped.kind {
            SkippedKind::Directory => self.skipped_total.directories += 1,
            _ => self.skipped_total.count(cause(&skipped.reason), 1),
        }
        self.skipped.push(skipped);
        // The list must not depend on the order of the walk.
        if self.skipped.len() >= 4 * MAX_SKIPPED {
            self.keep_listed();
        }
    }

    fn keep_listed(&mut self) {
        self.skipped
            .sort_by(|a, b| (a.kind, &a.path).cmp(&(b.kind, &b.path)));
        let files = self
            .skipped
            .partition_point(|skipped| skipped.kind == SkippedKind::File);
        let directories = self.skipped.split_off(files);
        self.skipped.truncate(MAX_SKIPPED);
        self.skipped
            .extend(directories.into_iter().take(MAX_SKIPPED));
    }
}

/// Returns the part of a reason that's common to several files. The rest is specific to one file.
fn cause(reason: &str) -> &str {
    let shared = reason
        .split_once(": ")
        .filter(|(start, _)| *start == DAMAGED);
    shared.map_or(reason, |(start, _)| start)
}

const DAMAGED: &str = "the compressed file is damaged";

/// Scans one root for runs repeatedly.
#[derive(Debug)]
pub struct RootScanner {
    /// A directory, or a single file. For a file, its directory is searched for that file alone.
    root: PathBuf,
    /// Whether the root was a file at the last scan.
    is_file: bool,
    cache: HashMap<PathBuf, Listing>,
    /// Lists large files in the background, if scans must not wait.
    lister: Option<Arc<Lister>>,
}

/// The identity of a root's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDir {
    /// The path with links resolved.
    pub path: PathBuf,
    id: FileId,
}

/// The content of a directory when it was last listed.
#[derive(Debug, Clone, Default)]
struct Listing {
    /// The directory's stamp, and whether any later change shows in it.
    seen: Option<Stamp>,
    settled: bool,
    is_run: bool,
    subdirs: Vec<OsString>,
    /// Whether it also has subdirectories that only hold parts of runs.
    has_parts: bool,
    links: Vec<String>,
    /// Where coding agents keep sessions below it, in directories that aren't searched because their
    /// names begin with a dot.
    hidden: Vec<String>,
    /// Files that may be traces of other tools.
    files: Vec<Candidate>,
    /// Files named like one of a run's three files, which other programs use too. Empty once one of
    /// them shows that the directory is a run.
    named: Vec<Candidate>,
}

/// A file that may be a trace.
#[derive(Debug, Clone)]
struct Candidate {
    name: OsString,
    /// The file's stamp when it was last examined, and whether any later change shows in it.
    seen: Option<(Stamp, bool)>,
    origin: Origin,
    /// The runs in the file, if it may contain several.
    holder: Option<Arc<Holder>>,
}

impl Candidate {
    fn new(name: OsString) -> Self {
        Self {
            name,
            seen: None,
            origin: Origin::Other,
            holder: None,
        }
    }

    /// Creates a candidate named like one of a run's three files. Its origin is unclear until it's
    /// read.
    fn named(name: OsString) -> Self {
        Self {
            origin: Origin::Unclear,
            ..Self::new(name)
        }
    }

    fn tool(&self) -> Option<&'static Tool> {
        match self.origin {
            Origin::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Returns whether the file was just created and is still empty, so that its first content will
    /// show its origin.
    fn is_about_to_begin(&self) -> bool {
        matches!(self.origin, Origin::Unclear)
            && self
                .seen
                .is_some_and(|(stamp, settled)| stamp.size == 0 && !settled)
    }

    /// Examines the file if it changed, even if it only grew. Only its beginning shows whether it
    /// was replaced by a different file.
    fn look(&mut self, dir: &Dir, root: &Path, below: &Path) {
        let Ok((kind, stamp)) = dir.look(&self.name) else {
            return self.forget();
        };
        if kind != Kind::File {
            return self.forget();
        }
        let seen = (stamp, stamp.is_settled());
        if self
            .seen
            .is_some_and(|(seen, settled)| seen == stamp && (settled || !stamp.is_settled()))
        {
            return;
        }
        let found = match origin(dir, &self.name) {
            // A file that can't be read right now may be readable later. Until then, keep what is
            // known.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                self.seen = None;
                if !is_lasting(&error) && matches!(self.origin, Origin::Other) {
                    self.origin =
                        Origin::Skipped(format!("can't be read right now: {error}").into());
                }
                return;
            }
            Err(error) => Origin::Skipped(error.to_string().into()),
            Ok(found) => found,
        };
        self.seen = Some(seen);
        // The holder itself detects changes of the runs in the file.
        if let (Origin::Tool(before), Origin::Tool(now)) = (&self.origin, &found)
            && std::ptr::eq(*before, *now)
        {
            return;
        }
        self.origin = found;
        self.holder = match self.tool().map(|tool| tool.shape) {
            Some(Shape::Several(several)) => Some(Arc::new(Holder::new(
                root.to_owned(),
                below.to_owned(),
                self.name.clone(),
                several,
            ))),
            _ => None,
        };
    }

    /// Keeps the runs that are known from the last read, if the file is still of the same tool.
    fn keep_holder(&mut self, known: &Self) {
        let is_same = |(known, now): (&Tool, &Tool)| std::ptr::eq(known, now);
        if known.tool().zip(self.tool()).is_some_and(is_same) {
            self.holder.clone_from(&known.holder);
        }
    }

    /// Forgets the file, because it's gone or has become something else.
    fn forget(&mut self) {
        (self.seen, self.holder) = (None, None);
        if !matches!(self.origin, Origin::Unclear) {
            self.origin = Origin::Other;
        }
    }
}

/// What the files named like a run's three files show about their directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The directory is a run.
    Run,
    /// The directory isn't a run, as far as the files show so far.
    NoRun,
}

/// Decides whether a directory with these files is a run. A single file of a run is enough. If the
/// files are damaged or empty, the directory is a run, unless one of them belongs to another
/// program or the only one was just created.
fn judge(named: &[Candidate]) -> Verdict {
    let is = |wanted: fn(&Origin) -> bool| named.iter().any(|file| wanted(&file.origin));
    if is(|origin| matches!(origin, Origin::Run)) {
        return Verdict::Run;
    }
    let is_anothers = is(|origin| matches!(origin, Origin::Tool(_) | Origin::Skipped(_)));
    match named {
        [file] if file.is_about_to_begin() => Verdict::NoRun,
        _ if is_anothers || !is(|origin| matches!(origin, Origin::Unclear)) => Verdict::NoRun,
        _ => Verdict::Run,
    }
}

impl Listing {
    /// Returns the tool if the whole directory is a run, with the file that identifies it.
    fn whole(&self) -> Option<(&OsString, &'static Tool)> {
        let is_dir = |below: &str| self.subdirs.iter().any(|name| name == below);
        self.known().find(|(_, tool)| tool.shape.is_whole(is_dir))
    }

    /// Returns the newest segment of a run whose segments are in this directory. `dir` is its name.
    fn newest_segment(&self, dir: &OsStr) -> Option<&OsString> {
        let segments = self
            .known()
            .filter(|(name, tool)| tool.is_segment(dir, name));
        segments
            .map(|(name, _)| name)
            .max_by(|a, b| frames::by_number(a, b))
    }

    /// Returns the files that are traces of other tools.
    fn tools(&self) -> impl Iterator<Item = (&OsString, &'static Tool)> {
        self.known().filter(|(_, tool)| !tool.shape.is_directory())
    }

    /// Drops the files of an identified run, so that they aren't examined again.
    fn settle(&mut self) {
        if self
            .named
            .iter()
            .any(|file| matches!(file.origin, Origin::Run))
        {
            self.named.clear();
        }
    }

    /// Returns the files that other tools wrote.
    fn known(&self) -> impl Iterator<Item = (&OsString, &'static Tool)> {
        self.candidates()
            .filter_map(|file| Some((&file.name, file.tool()?)))
    }

    /// Returns all candidates. Compressed files come last: if a file is there compressed too, both
    /// have the same key, and the first one gets it.
    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        let packed = |file: &&Candidate| frames::is_packed(&file.name);
        let plain = self.files.iter().filter(move |file| !packed(file));
        plain
            .chain(&self.named)
            .chain(self.files.iter().filter(packed))
    }

    /// Returns whether the subdirectory `name` belongs to the run that this directory is.
    fn owns(&self, name: &OsStr) -> bool {
        match self.whole().map(|(_, tool)| tool.shape) {
            // Child runs have their own directories next to the record files.
            Some(Shape::Files { below, .. }) => name == below,
            whole => self.is_run || whole.is_some(),
        }
    }

    /// Returns the files that may contain several runs.
    fn holders(&self) -> impl Iterator<Item = (&OsString, &'static Tool, &Arc<Holder>)> {
        self.candidates()
            .filter_map(|file| Some((&file.name, file.tool()?, file.holder.as_ref()?)))
    }
}

impl RootScanner {
    /// Creates a scanner for `root`, which need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            is_file: false,
            cache: HashMap::new(),
            lister: None,
        }
    }

    /// Lists the runs of large files on the threads of `lister`, so that scans don't
    /// wait for it. Until a file has been listed, its runs aren't found, and the file counts as
    /// skipped.
    pub fn look_aside_with(&mut self, lister: &Arc<Lister>) {
        self.lister = Some(Arc::clone(lister));
    }

    fn look_aside(&self, listing: &Listing) {
        if let Some(lister) = &self.lister {
            listing
                .holders()
                .for_each(|(.., holder)| holder.look_aside(lister));
        }
    }

    /// Returns the identity of the root's directory, or `None` if it doesn't exist.
    pub fn place(&self) -> Option<RootDir> {
        let path = self.target().ok()?.0;
        let (_, stamp) = Dir::open(&path, Path::new(""))
            .ok()?
            .look(OsStr::new("."))
            .ok()?;
        Some(RootDir { path, id: stamp.id })
    }

    /// Returns the directory to search, and the name of the file if the root is a single file.
    fn target(&self) -> io::Result<(PathBuf, Option<OsString>)> {
        let path = fs::canonicalize(&self.root)?;
        match path.parent().zip(path.file_name()) {
            Some((parent, name)) if path.is_file() => {
                Ok((parent.to_owned(), Some(name.to_owned())))
            }
            _ => Ok((path, None)),
        }
    }

    /// Returns whether the root was a single file at the last scan.
    pub fn is_file(&self) -> bool {
        self.is_file
    }

    /// Finds the runs in `dir` and below it. `dir` is a directory below the root that appeared or
    /// changed. Unlike a full scan, this doesn't detect name conflicts with other runs and doesn't
    /// report skipped files.
    pub fn scan_below(&mut self, dir: &Path) -> BTreeMap<RunKey, RunDir> {
        let mut found = RootScan::default();
        let root = match self.target() {
            Ok((root, None)) => root,
            Ok((root, Some(_))) if dir == root => return self.scan().runs,
            _ => return found.runs,
        };
        let parts: Vec<&OsStr> = dir
            .strip_prefix(&root)
            .map(|below| below.iter().collect())
            .unwrap_or_default();
        let hidden = parts.iter().any(|part| is_hidden(part));
        let holds_parts = parts
            .windows(2)
            .any(|pair| matches!(pair, [folder, name] if format::holds_parts(folder, name)));
        // A directory reached through a symlink isn't below the root.
        let linked = fs::canonicalize(dir).ok().as_deref() != Some(dir);
        if parts.is_empty() || parts.len() > MAX_DEPTH || hidden || linked || holds_parts {
            return found.runs;
        }
        let start = Visit::top(&root);
        let visit = parts.iter().fold(start, |visit, part| {
            visit.below(&(*part).to_owned(), &Listing::default())
        });
        let before = std::mem::take(&mut self.cache);
        // The next full scan reports directories that can't be listed.
        let _ = self.walk(visit, &root, &before, &mut found, &mut Reach::default());
        let fresh = std::mem::replace(&mut self.cache, before);
        self.cache.extend(fresh);
        found.runs
    }

    /// Scans the root. This costs one `stat` for each unchanged directory.
    pub fn scan(&mut self) -> RootScan {
        self.scan_within(&mut Reach::default())
    }

    /// Scans the root like [`Self::scan`], and calls `before_each` before each directory and each file
    /// that may be a trace. A large root takes seconds, or minutes on a slow disk.
    pub fn scan_with(&mut self, before_each: &dyn Fn()) -> RootScan {
        self.scan_within(&mut Reach {
            before_each,
            ..Reach::default()
        })
    }

    /// Scans the root like [`Self::scan`], but examines at most `most` directories and files.
    /// Also returns whether that was everything.
    pub fn scan_some(&mut self, most: usize) -> (RootScan, bool) {
        let mut reach = Reach {
            left: most,
            ..Reach::default()
        };
        let found = self.scan_within(&mut reach);
        (found, !reach.cut)
    }

    fn scan_within(&mut self, reach: &mut Reach<'_>) -> RootScan {
        let mut found = RootScan::default();
        let target = self.target();
        self.is_file = target.as_ref().is_ok_and(|(_, file)| file.is_some());
        let root = match target {
            Ok((root, None)) if root.is_dir() => root,
            Ok((root, Some(name))) => return self.scan_file(&root, name),
            Ok(_) => {
                return RootScan {
                    fault: Some("it isn't a directory".to_owned()),
                    ..found
                };
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return RootScan {
                    fault: Some("it doesn't exist".to_owned()),
                    ..found
                };
            }
            Err(error) => {
                return RootScan {
                    fault: Some(error.to_string()),
                    ..found
                };
            }
        };
        let before = std::mem::take(&mut self.cache);
        let visit = Visit::top(&root);
        if let Err(error) = self.walk(visit, &root, &before, &mut found, reach) {
            found.fault = Some(error.to_string());
        }
        found.keep_listed();
        found
    }

    /// Scans a root that is a single file.
    fn scan_file(&mut self, root: &Path, name: OsString) -> RootScan {
        let mut found = RootScan::default();
        let visit = Visit::top(root);
        let dir = match Dir::open(root, Path::new("")) {
            Ok(dir) => dir,
            Err(error) => {
                return RootScan {
                    fault: Some(error.to_string()),
                    ..found
                };
            }
        };
        let known = self
            .cache
            .remove(root)
            .and_then(|known| known.files.into_iter().next());
        let mut file = known
            .filter(|known| known.name == name)
            .unwrap_or_else(|| Candidate::new(name));
        file.look(&dir, root, Path::new(""));
        found.fault = match &file.origin {
            Origin::Tool(tool) if !tool.shape.is_directory() => None,
            Origin::Skipped(reason) => Some(format!("it can't be read as a trace: {reason}")),
            Origin::Tool(_) | Origin::Run | Origin::Unclear => {
                Some("it is one file of a run. Name the directory that contains it".to_owned())
            }
            Origin::Other => Some("it is a file, but not a trace of a supported tool".to_owned()),
        };
        let listing = Listing {
            files: vec![file],
            ..Listing::default()
        };
        if found.fault.is_none() {
            self.look_aside(&listing);
            visit.judge(&listing, root, &mut found);
        }
        self.cache.insert(root.to_owned(), listing);
        found
    }

    /// Visits a directory and everything below it.
    ///
    /// # Errors
    /// Fails if the first directory can't be listed.
    fn walk(
        &mut self,
        start: Visit,
        root: &Path,
        before: &HashMap<PathBuf, Listing>,
        found: &mut RootScan,
        reach: &mut Reach<'_>,
    ) -> io::Result<()> {
        let top = start.depth;
        let mut work = vec![start];
        while let Some(visit) = work.pop() {
            let Some(left) = reach.left.checked_sub(1) else {
                reach.cut = true;
                break;
            };
            reach.left = left;
            (reach.before_each)();
            let listing = match list(root, &visit, before.get(&visit.dir), reach) {
                Ok(listing) => listing,
                Err(error) => {
                    // If a directory can't be read right now, its last listing stays.
                    let known = before.get(&visit.dir).filter(|_| !is_lasting(&error));
                    if visit.depth == top && known.is_none() {
                        return Err(error);
                    }
                    let reason = if is_lasting(&error) {
                        error.to_string()
                    } else {
                        format!("can't be read right now: {error}")
                    };
                    if visit.depth == 0 {
                        found.fault = Some(reason);
                    } else if error.kind() != io::ErrorKind::NotFound {
                        found.skip(Skipped {
                            path: visit.key.clone(),
                            reason,
                            kind: SkippedKind::Directory,
                        });
                    }
                    match known {
                        Some(known) => Listing {
                            seen: None,
                            ..known.clone()
                        },
                        None => continue,
                    }
                }
            };
            self.look_aside(&listing);
            visit.judge(&listing, root, found);
            work.extend(
                listing
                    .subdirs
                    .iter()
                    .filter(|_| visit.depth < MAX_DEPTH)
                    .map(|name| visit.below(name, &listing)),
            );
            self.cache.insert(visit.dir, listing);
        }
        Ok(())
    }
}

/// The limits of a scan.
struct Reach<'a> {
    /// The number of directories and files left.
    left: usize,
    /// Whether the limit was reached.
    cut: bool,
    before_each: &'a dyn Fn(),
}

impl Default for Reach<'_> {
    fn default() -> Self {
        Self {
            left: usize::MAX,
            cut: false,
            before_each: &|| {},
        }
    }
}

/// A directory to visit.
struct Visit {
    dir: PathBuf,
    /// The path from the root.
    below: PathBuf,
    key: String,
    depth: usize,
    inside_run: bool,
    /// The names of the directories that lead to further runs inside the run that this directory is
    /// or belongs to. `*` matches any name.
    way: Option<&'static [&'static str]>,
}

impl Visit {
    fn top(root: &Path) -> Self {
        Self {
            dir: root.to_owned(),
            below: PathBuf::new(),
            key: String::new(),
            depth: 0,
            inside_run: false,
            way: None,
        }
    }

    /// Returns the visit of the subdirectory `name`. `listing` is the content of this directory.
    fn below(&self, name: &OsString, listing: &Listing) -> Self {
        // A session is the same run after its file is compressed.
        let shown = frames::plain(name).to_string_lossy();
        let key = if self.key.is_empty() {
            shown.into_owned()
        } else {
            format!("{}/{shown}", self.key)
        };
        let whole = listing.whole();
        let inside_run = self.inside_run || listing.owns(name) || self.way == Some(&[]);
        let way = self
            .way
            .or(whole.and_then(|(_, tool)| tool.runs_inside()))
            .and_then(<[_]>::split_first);
        let way = way
            .filter(|(next, _)| **next == "*" || name == **next)
            .map(|(_, rest)| rest);
        Self {
            dir: self.dir.join(name),
            below: self.below.join(name),
            key,
            depth: self.depth + 1,
            inside_run: inside_run && way != Some(&[]),
            way,
        }
    }

    /// Returns the name of the directory.
    fn name(&self) -> &OsStr {
        self.dir.file_name().unwrap_or_default()
    }

    /// Returns the path of a file below the root. Unlike the key of its run, it names a compressed
    /// file as it is on disk.
    fn path(&self, name: &OsStr) -> String {
        match self.key.is_empty() {
            true => name.to_string_lossy().into_owned(),
            false => format!("{}/{}", self.key, name.to_string_lossy()),
        }
    }

    fn judge(&self, listing: &Listing, root: &Path, found: &mut RootScan) {
        let skip = |found: &mut RootScan, path: &str, reason: &str, kind| {
            found.skip(Skipped {
                path: path.to_owned(),
                reason: reason.to_owned(),
                kind,
            });
        };
        let at = |name: &str| match self.key.as_str() {
            "" => name.to_owned(),
            key => format!("{key}/{name}"),
        };
        // The directory doesn't change when an agent creates its first session.
        let hidden = listing.hidden.iter();
        for place in hidden.filter(|place| self.dir.join(place).is_dir()) {
            skip(
                found,
                &at(place),
                "hidden directory with sessions (to see them, name it as a root)",
                SkippedKind::Directory,
            );
        }
        for link in &listing.links {
            skip(
                found,
                &at(link),
                "a link to a directory (not followed)",
                SkippedKind::Directory,
            );
        }
        if self.depth == 0 && (listing.has_parts || holds_parts(root)) {
            let name = self.name().to_string_lossy();
            skip(found, &name, ONLY_PARTS, SkippedKind::Directory);
        }
        // A root that is itself a run is named after its directory.
        let own_name = || {
            root.file_name()
                .map_or_else(|| "run".into(), |name| name.to_string_lossy())
        };
        let named = |key: &str| match key {
            "" => RunKey::new(&own_name()),
            key => RunKey::new(key),
        };
        // The key of a session must not change when its next segment begins, so it's the directory
        // that holds the session.
        let segment_key = || match self.key.rsplit_once('/') {
            Some((session, _)) => RunKey::new(session),
            None if self.depth > 0 => named(""),
            None => named(&self.key),
        };
        let newest_segment = listing.newest_segment(self.name());
        let whole = listing.whole();
        for (name, tool) in whole
            .into_iter()
            .chain(listing.tools().filter(|_| whole.is_none()))
        {
            if self.inside_run || listing.is_run {
                break;
            }
            if matches!(tool.shape, Shape::Several(_)) {
                continue;
            }
            let is_segment = tool.is_segment(self.name(), name);
            if is_segment && let Some(newest) = newest_segment.filter(|newest| *newest != name) {
                let is_copy = frames::plain(name) == frames::plain(newest);
                let reason = if is_copy { SAME_NAME } else { OLDER };
                skip(found, &self.path(name), reason, SkippedKind::File);
                continue;
            }
            let key = match whole {
                Some(_) => named(&self.key),
                None if is_segment => segment_key(),
                None => RunKey::new(&self.below(name, listing).key),
            };
            if found.runs.contains_key(&key) {
                match whole {
                    Some(_) => skip(found, key.as_str(), SAME_NAME, SkippedKind::Directory),
                    None => skip(found, &self.path(name), SAME_NAME, SkippedKind::File),
                }
                continue;
            }
            let tool = tool.for_directory(|file| self.dir.join(file).is_file());
            let (root, below) = (root.to_owned(), self.below.clone());
            found
                .runs
                .insert(key, RunDir::of_tool(root, below, name.clone(), tool));
        }
        let mut has_skipped = false;
        let is_open = |file: &&Candidate| !listing.is_run || is_packed_trace_file(&file.name);
        for file in listing
            .candidates()
            .filter(|_| whole.is_none() && !self.inside_run)
            .filter(is_open)
        {
            let reason: &str = match (&file.origin, file.seen) {
                (Origin::Skipped(reason), _) => reason,
                (Origin::Unclear, Some((stamp, _))) if stamp.size == 0 => format::EMPTY,
                (Origin::Unclear, Some(_)) => format::UNKNOWN,
                _ => continue,
            };
            has_skipped = true;
            skip(found, &self.path(&file.name), reason, SkippedKind::File);
        }
        let holders = listing
            .holders()
            .filter(|_| whole.is_none() && !self.inside_run && !listing.is_run);
        // The files whose first listing isn't complete. Which of their runs are also in a compressed
        // copy isn't known yet.
        let mut unlisted = HashSet::new();
        for (name, tool, holder) in holders {
            let (file_key, path) = (self.below(name, listing).key, self.path(name));
            if unlisted.contains(&file_key) {
                skip(found, &path, WAITS_FOR_PLAIN, SkippedKind::File);
                continue;
            }
            let held = match holder.listing() {
                Ok(held) => held,
                Err(error) => {
                    skip(found, &path, &error.to_string(), SkippedKind::File);
                    if is_pending(&error) && !frames::is_packed(name) {
                        unlisted.insert(file_key.clone());
                    }
                    // If a file can't be read right now, its last listing stays.
                    match holder.last_listing().filter(|_| !is_lasting(&error)) {
                        Some(held) => held,
                        None => continue,
                    }
                }
            };
            if let Some(fault) = &held.fault {
                skip(found, &path, fault, SkippedKind::File);
            }
            let run = RunDir::of_tool(root.to_owned(), self.below.clone(), name.clone(), tool);
            for member in held.members() {
                let within = |file: &str| match &member {
                    Some(member) => format!("{file}/{member}"),
                    None => file.to_owned(),
                };
                let key = RunKey::new(&within(&file_key));
                if found.runs.contains_key(&key) {
                    skip(found, &within(&path), SAME_NAME, SkippedKind::File);
                    continue;
                }
                let member = Member::new(Arc::clone(holder), member);
                found
                    .runs
                    .insert(key, RunDir::of_member(member, run.clone()));
            }
        }
        if listing.is_run {
            let key = named(&self.key);
            if found.runs.contains_key(&key) {
                return skip(found, &self.key, SAME_NAME, SkippedKind::Directory);
            }
            found
                .runs
                .insert(key, RunDir::new(root.to_owned(), self.below.clone()));
        } else if self.depth > 0
            && !self.inside_run
            && whole.is_none()
            && !has_skipped
            && !listing.has_parts
            && listing.tools().next().is_none()
        {
            match (listing.subdirs.is_empty(), self.depth == MAX_DEPTH) {
                (true, _) => skip(
                    found,
                    &self.key,
                    "contains no trace files",
                    SkippedKind::Directory,
                ),
                (false, true) => skip(
                    found,
                    &self.key,
                    "nested deeper than board searches",
                    SkippedKind::Directory,
                ),
                (false, false) => {}
            }
        }
    }
}

const ONLY_PARTS: &str = "only has messages of sessions, or parts of them (to see the sessions, name a directory above as a root)";
const SAME_NAME: &str = "its name looks the same as another run's";
/// The reason for a segment of a run that isn't the newest.
const OLDER: &str = "an older journal of the same session (the newest is shown)";
const WAITS_FOR_PLAIN: &str = "the runs of the uncompressed file are still being listed";

/// Returns whether a file or directory is passed over because its name begins with a dot.
fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
        && !name.to_str().is_some_and(format::is_hidden_folder)
}

/// Lists a directory. Reuses the last listing if the directory hasn't changed.
fn list(
    root: &Path,
    visit: &Visit,
    before: Option<&Listing>,
    reach: &mut Reach<'_>,
) -> io::Result<Listing> {
    let stamp = beneath::stamp(&visit.dir)?;
    if let Some(before) = before.filter(|before| before.seen == Some(stamp) && before.settled) {
        let mut listing = before.clone();
        if !listing.files.is_empty() || !listing.named.is_empty() {
            let dir = Dir::open(root, &visit.below)?;
            listing
                .files
                .iter_mut()
                .chain(&mut listing.named)
                .for_each(|file| {
                    (reach.before_each)();
                    file.look(&dir, root, &visit.below);
                });
        }
        if listing.named.is_empty() || (judge(&listing.named) == Verdict::Run) == listing.is_run {
            listing.settle();
            return Ok(listing);
        }
    }
    let mut listing = Listing {
        seen: Some(stamp),
        settled: stamp.is_settled(),
        ..Listing::default()
    };
    let dir = Dir::open(root, &visit.below)?;
    for (name, kind) in dir.names()? {
        let text = name.to_str();
        if is_trace_file(Path::new(&name)) {
            listing.named.push(Candidate::named(name));
        } else if kind == Kind::File && text.is_some_and(format::is_hidden_trace) {
            listing.files.push(Candidate::new(name));
        } else if is_hidden(&name) {
            // Tool directories such as `.git` contain no runs and can be large.
            let places = text.into_iter().flat_map(format::hidden_sessions);
            listing.hidden.extend(places);
        } else if kind == Kind::Dir && format::holds_parts(visit.name(), &name) {
            listing.has_parts = true;
        } else if kind == Kind::Dir {
            listing.subdirs.push(name);
        } else if kind == Kind::Link
            && fs::metadata(visit.dir.join(&name)).is_ok_and(|target| target.is_dir())
        {
            listing.links.push(name.to_string_lossy().into_owned());
        } else if kind == Kind::File && text.is_some_and(format::may_be_trace) {
            listing.files.push(Candidate::new(name));
        }
    }
    // The manifest comes first, and one file that identifies the run suffices.
    listing
        .named
        .sort_by_key(|file| !Path::new(&file.name).ends_with(TraceFile::Manifest.name()));
    let known = before.into_iter().flat_map(Listing::candidates);
    let known: HashMap<&OsStr, &Candidate> =
        known.map(|known| (known.name.as_os_str(), known)).collect();
    for file in &mut listing.named {
        file.look(&dir, root, &visit.below);
        if let Some(known) = known.get(file.name.as_os_str()) {
            file.keep_holder(known);
        }
        if matches!(file.origin, Origin::Run) {
            break;
        }
    }
    listing.is_run = !listing.named.is_empty() && judge(&listing.named) == Verdict::Run;
    listing.settle();
    // A compressed file of the run isn't read, and that must be reported.
    let is_of_run = |file: &Candidate| listing.is_run && is_packed_trace_file(&file.name);
    listing
        .files
        .retain(|file| !visit.inside_run && (!listing.is_run || is_of_run(file)));
    // Compressed files are the first to be beyond the limit.
    listing
        .files
        .sort_by_cached_key(|file| (frames::is_packed(&file.name), file.name.clone()));
    reach.cut |= listing.files.len() > reach.left;
    listing.files.truncate(reach.left);
    reach.left -= listing.files.len();
    for file in &mut listing.files {
        if let Some(known) = known.get(file.name.as_os_str()) {
            file.clone_from(known);
        }
        (reach.before_each)();
        file.look(&dir, root, &visit.below);
    }
    listing.subdirs.sort();
    Ok(listing)
}

#[cfg(test)]
mod tests;
