//! Where are the runs? Finds run directories below a root, cheaply when little changed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::beneath::{self, Dir, Kind};
use super::dir::RunDir;
use super::frames;
use super::recognise::recognise;
use super::several::{Holder, Member};
use super::stamp::{FileId, Stamp};
use crate::format::{self, Shape, Tool};
use crate::model::{RunKey, TraceFile};

/// Run directories are looked for this many levels below a root.
pub const MAX_DEPTH: usize = 8;

/// What a look at a root found.
#[derive(Debug, Clone, Default)]
pub struct RootScan {
    /// The runs and their directories.
    pub runs: BTreeMap<RunKey, RunDir>,
    /// Directories that are no runs and hold none, and others that could not be looked into.
    pub skipped: Vec<Skipped>,
    /// Why the root itself cannot be read, if it cannot.
    pub fault: Option<String>,
}

/// A directory that is not shown as a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The path relative to the root.
    pub path: String,
    /// Why, in a few words.
    pub reason: String,
}

/// Looks for runs below one root, again and again.
#[derive(Debug)]
pub struct RootScanner {
    root: PathBuf,
    cache: HashMap<PathBuf, Listing>,
}

/// Which directory a root is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootDir {
    /// Its path, links resolved.
    pub path: PathBuf,
    id: FileId,
}

/// What a directory held when it was last listed.
#[derive(Debug, Clone, Default)]
struct Listing {
    /// What the directory looked like, and whether any change since shows in that.
    seen: Option<Stamp>,
    settled: bool,
    is_run: bool,
    subdirs: Vec<OsString>,
    links: Vec<String>,
    /// Files that may be traces of other tools.
    files: Vec<Candidate>,
    /// The only one of the three files of a run, which need not be one by its name: others have files of that name too.
    lone: Option<Candidate>,
}

/// A file that may be a trace of another tool.
#[derive(Debug, Clone)]
struct Candidate {
    name: OsString,
    /// What it looked like when it was looked into, and whether any change since shows in that.
    seen: Option<(Stamp, bool)>,
    tool: Option<&'static Tool>,
    /// What it holds, where that are several runs.
    holder: Option<Arc<Holder>>,
    /// Why nobody can say what it is.
    fault: Option<String>,
}

impl Candidate {
    fn new(name: OsString) -> Self {
        Self { name, seen: None, tool: None, holder: None, fault: None }
    }

    /// Looks into the file where it is not what it was. One that grew is looked into too: whether it is another under the
    /// same name shows in its beginning alone.
    fn look(&mut self, dir: &Dir, root: &Path, below: &Path) {
        let Ok((Kind::File, stamp)) = dir.look(&self.name) else {
            *self = Self::new(std::mem::take(&mut self.name));
            return;
        };
        if self.seen.is_some_and(|(seen, settled)| seen == stamp && (settled || !stamp.is_settled())) {
            return;
        }
        let read = match recognise(dir, &self.name) {
            // What cannot be read now may be later; until then, it is what it was.
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                self.seen = None;
                return;
            }
            read => read,
        };
        self.seen = Some((stamp, stamp.is_settled()));
        self.fault = read.as_ref().err().map(ToString::to_string);
        let tool = read.ok().flatten();
        let is_same = |known: &'static Tool| tool.is_some_and(|tool| std::ptr::eq(known, tool));
        // What is known of the runs in it is looked up anew by the holder itself.
        if self.tool.is_some_and(is_same) {
            return;
        }
        self.tool = tool;
        self.holder = match tool.map(|tool| tool.shape) {
            Some(Shape::Several(several)) => {
                Some(Arc::new(Holder::new(root.to_owned(), below.to_owned(), self.name.clone(), several)))
            }
            _ => None,
        };
    }
}

impl Listing {
    /// Whose run the directory is as a whole, and the file that it is known by.
    fn whole(&self) -> Option<(&OsString, &'static Tool)> {
        let is_dir = |below: &str| self.subdirs.iter().any(|name| name == below);
        self.known().find(|(_, tool)| tool.shape.is_whole(is_dir))
    }

    /// The files that are traces of other tools.
    fn tools(&self) -> impl Iterator<Item = (&OsString, &'static Tool)> {
        self.known().filter(|(_, tool)| !tool.shape.is_directory())
    }

    /// The files that other tools wrote.
    fn known(&self) -> impl Iterator<Item = (&OsString, &'static Tool)> {
        self.files.iter().chain(&self.lone).filter_map(|file| Some((&file.name, file.tool?)))
    }

    /// Whether what lies in a directory in this one belongs to the run that this one is.
    fn owns(&self, name: &OsStr) -> bool {
        match self.whole().map(|(_, tool)| tool.shape) {
            // Those that it started have directories of their own beside its records.
            Some(Shape::Files { below, .. }) => name == below,
            whole => self.is_run || whole.is_some(),
        }
    }

    /// Those that hold several runs.
    fn holders(&self) -> impl Iterator<Item = (&OsString, &'static Tool, &Arc<Holder>)> {
        self.files.iter().filter_map(|file| Some((&file.name, file.tool?, file.holder.as_ref()?)))
    }
}

impl RootScanner {
    /// A scanner for `root`, which need not exist yet.
    pub fn new(root: PathBuf) -> Self {
        Self { root, cache: HashMap::new() }
    }

    /// Which directory the root is now; `None` where it is not there.
    pub fn place(&self) -> Option<RootDir> {
        let path = fs::canonicalize(&self.root).ok()?;
        let (_, stamp) = Dir::open(&path, Path::new("")).ok()?.look(OsStr::new(".")).ok()?;
        Some(RootDir { path, id: stamp.id })
    }

    /// Finds the runs in `dir`, a directory below the root that came or changed, and below it. Says less than a whole
    /// look: names that are taken already, and what is skipped, are known of all runs only.
    pub fn scan_below(&mut self, dir: &Path) -> BTreeMap<RunKey, RunDir> {
        let mut found = RootScan::default();
        let Ok(root) = fs::canonicalize(&self.root) else { return found.runs };
        let parts: Vec<&OsStr> = dir.strip_prefix(&root).map(|below| below.iter().collect()).unwrap_or_default();
        let hidden = parts.iter().any(|part| part.as_encoded_bytes().starts_with(b"."));
        // Through a link, it is not below the root.
        let linked = fs::canonicalize(dir).ok().as_deref() != Some(dir);
        if parts.is_empty() || parts.len() > MAX_DEPTH || hidden || linked {
            return found.runs;
        }
        let start = Visit::top(&root);
        let visit = parts.iter().fold(start, |visit, part| visit.below(&(*part).to_owned(), &Listing::default()));
        let before = std::mem::take(&mut self.cache);
        // What cannot be listed now is named by the next whole look.
        let _ = self.walk(visit, &root, &before, &mut found, &mut Reach::default());
        let fresh = std::mem::replace(&mut self.cache, before);
        self.cache.extend(fresh);
        found.runs
    }

    /// Looks now. Costs one `stat` for each directory that did not change.
    pub fn scan(&mut self) -> RootScan {
        self.scan_within(&mut Reach::default())
    }

    /// The same, and calls `before_each` before it looks into a directory: a large root takes seconds.
    pub fn scan_with(&mut self, before_each: &dyn Fn()) -> RootScan {
        self.scan_within(&mut Reach { before_each, ..Reach::default() })
    }

    /// The same, but looks into no more than `most` directories and files; says whether that was all there is.
    pub fn scan_some(&mut self, most: usize) -> (RootScan, bool) {
        let mut reach = Reach { left: most, ..Reach::default() };
        let found = self.scan_within(&mut reach);
        (found, !reach.cut)
    }

    fn scan_within(&mut self, reach: &mut Reach<'_>) -> RootScan {
        let mut found = RootScan::default();
        let root = match fs::canonicalize(&self.root) {
            Ok(root) if root.is_dir() => root,
            Ok(_) => return RootScan { fault: Some("it is not a directory".to_owned()), ..found },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return RootScan { fault: Some("it does not exist yet".to_owned()), ..found };
            }
            Err(error) => return RootScan { fault: Some(error.to_string()), ..found },
        };
        let before = std::mem::take(&mut self.cache);
        let visit = Visit::top(&root);
        if let Err(error) = self.walk(visit, &root, &before, &mut found, reach) {
            found.fault = Some(error.to_string());
        }
        found.skipped.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// Visits a directory and those below it.
    ///
    /// # Errors
    /// The first one cannot be listed.
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
                Err(error) if visit.depth == top => return Err(error),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    found.skipped.push(Skipped { path: visit.key, reason: error.to_string() });
                    continue;
                }
            };
            visit.judge(&listing, root, found);
            work.extend(
                listing.subdirs.iter().filter(|_| visit.depth < MAX_DEPTH).map(|name| visit.below(name, &listing)),
            );
            self.cache.insert(visit.dir, listing);
        }
        Ok(())
    }
}

/// How much more is looked into.
struct Reach<'a> {
    /// So many directories and files.
    left: usize,
    /// There was more.
    cut: bool,
    before_each: &'a dyn Fn(),
}

impl Default for Reach<'_> {
    fn default() -> Self {
        Self { left: usize::MAX, cut: false, before_each: &|| {} }
    }
}

/// A directory on the way down.
struct Visit {
    dir: PathBuf,
    /// The way to it from the root.
    below: PathBuf,
    key: String,
    depth: usize,
    inside_run: bool,
    /// Where there are further runs inside of the run that it is, or is in: the directories on the way, `*` for any.
    way: Option<&'static [&'static str]>,
}

impl Visit {
    fn top(root: &Path) -> Self {
        Self { dir: root.to_owned(), below: PathBuf::new(), key: String::new(), depth: 0, inside_run: false, way: None }
    }

    /// The directory `name` in this one, which holds what `listing` says.
    fn below(&self, name: &OsString, listing: &Listing) -> Self {
        // A session is the same run when its file is compressed.
        let shown = frames::plain(name).to_string_lossy();
        let key = if self.key.is_empty() { shown.into_owned() } else { format!("{}/{shown}", self.key) };
        let whole = listing.whole();
        let inside_run = self.inside_run || listing.owns(name) || self.way == Some(&[]);
        let way = self.way.or(whole.and_then(|(_, tool)| tool.runs_inside())).and_then(<[_]>::split_first);
        let way = way.filter(|(next, _)| **next == "*" || name == **next).map(|(_, rest)| rest);
        Self {
            dir: self.dir.join(name),
            below: self.below.join(name),
            key,
            depth: self.depth + 1,
            inside_run: inside_run && way != Some(&[]),
            way,
        }
    }

    fn judge(&self, listing: &Listing, root: &Path, found: &mut RootScan) {
        let mut skip = |path: &str, reason: &str| {
            found.skipped.push(Skipped { path: path.to_owned(), reason: reason.to_owned() });
        };
        for link in &listing.links {
            skip(&format!("{}/{link}", self.key), "a link to a directory; not followed");
        }
        // A root that is a run itself goes by its own name.
        let own_name = || root.file_name().map_or_else(|| "run".into(), |name| name.to_string_lossy());
        let own_key = || if self.key.is_empty() { RunKey::new(&own_name()) } else { RunKey::new(&self.key) };
        let whole = listing.whole();
        for (name, tool) in whole.into_iter().chain(listing.tools().filter(|_| whole.is_none())) {
            if self.inside_run || listing.is_run {
                break;
            }
            if matches!(tool.shape, Shape::Several(_)) {
                continue;
            }
            let key = if whole.is_some() { own_key() } else { RunKey::new(&self.below(name, listing).key) };
            if found.runs.contains_key(&key) {
                skip(key.as_str(), "its name reads like that of another run");
                continue;
            }
            let tool = tool.for_directory(|file| self.dir.join(file).is_file());
            let (root, below) = (root.to_owned(), self.below.clone());
            found.runs.insert(key, RunDir::of_tool(root, below, name.clone(), tool));
        }
        for file in listing.files.iter().filter(|_| whole.is_none()) {
            if let Some(fault) = &file.fault {
                skip(&self.below(&file.name, listing).key, fault);
            }
        }
        let holders = listing.holders().filter(|_| whole.is_none() && !self.inside_run && !listing.is_run);
        for (name, tool, holder) in holders {
            let file_key = self.below(name, listing).key;
            let held = match holder.listing() {
                Ok(held) => held,
                Err(error) => {
                    skip(&file_key, &error.to_string());
                    continue;
                }
            };
            if let Some(fault) = &held.fault {
                skip(&file_key, fault);
            }
            let run = RunDir::of_tool(root.to_owned(), self.below.clone(), name.clone(), tool);
            for member in held.members() {
                let key = member.as_ref().map_or_else(|| file_key.clone(), |member| format!("{file_key}/{member}"));
                let key = RunKey::new(&key);
                if found.runs.contains_key(&key) {
                    skip(key.as_str(), "its name reads like that of another run");
                    continue;
                }
                let member = Member::new(Arc::clone(holder), member);
                found.runs.insert(key, RunDir::of_member(member, run.clone()));
            }
        }
        if listing.is_run {
            let key = own_key();
            if found.runs.contains_key(&key) {
                return skip(&self.key, "its name reads like that of another run");
            }
            found.runs.insert(key, RunDir::new(root.to_owned(), self.below.clone()));
        } else if self.depth > 0 && !self.inside_run && whole.is_none() && listing.tools().next().is_none() {
            match (listing.subdirs.is_empty(), self.depth == MAX_DEPTH) {
                (true, _) => skip(&self.key, "no trace file in it"),
                (false, true) => skip(&self.key, "deeper than the board looks"),
                (false, false) => {}
            }
        }
    }
}

/// Lists a directory, or trusts the last listing where the directory did not change since.
fn list(root: &Path, visit: &Visit, before: Option<&Listing>, reach: &mut Reach<'_>) -> io::Result<Listing> {
    let stamp = beneath::stamp(&visit.dir)?;
    if let Some(before) = before.filter(|before| before.seen == Some(stamp) && before.settled) {
        let mut listing = before.clone();
        if !listing.files.is_empty() || listing.lone.is_some() {
            let dir = Dir::open(root, &visit.below)?;
            listing.files.iter_mut().chain(&mut listing.lone).for_each(|file| file.look(&dir, root, &visit.below));
        }
        let is_tools = |listing: &Listing| listing.lone.as_ref().is_some_and(|lone| lone.tool.is_some());
        if is_tools(&listing) == is_tools(before) {
            return Ok(listing);
        }
    }
    let mut listing = Listing { seen: Some(stamp), settled: stamp.is_settled(), ..Listing::default() };
    let dir = Dir::open(root, &visit.below)?;
    let mut ours = Vec::new();
    for (name, kind) in dir.names()? {
        if is_trace_file(Path::new(&name)) {
            ours.push((name, kind));
        } else if name.as_encoded_bytes().starts_with(b".") {
            // Tool directories such as `.git` hold no runs and can be large.
        } else if kind == Kind::Dir {
            listing.subdirs.push(name);
        } else if kind == Kind::Link && fs::metadata(visit.dir.join(&name)).is_ok_and(|target| target.is_dir()) {
            listing.links.push(name.to_string_lossy().into_owned());
        } else if kind == Kind::File && name.to_str().is_some_and(format::may_be_trace) {
            listing.files.push(Candidate::new(name));
        }
    }
    if let ([(_, Kind::File)], false) = (&*ours, visit.inside_run) {
        listing.lone = ours.pop().map(|(name, _)| Candidate::new(name));
        listing.lone.iter_mut().for_each(|lone| lone.look(&dir, root, &visit.below));
    }
    listing.is_run = !ours.is_empty() || listing.lone.as_ref().is_some_and(|lone| lone.tool.is_none());
    if listing.is_run || visit.inside_run {
        listing.files.clear();
    }
    reach.cut |= listing.files.len() > reach.left;
    listing.files.truncate(reach.left);
    reach.left -= listing.files.len();
    let known = before.map_or(&[][..], |before| &before.files).iter();
    let known: HashMap<&OsStr, &Candidate> = known.map(|known| (known.name.as_os_str(), known)).collect();
    for file in &mut listing.files {
        if let Some(known) = known.get(file.name.as_os_str()) {
            file.clone_from(known);
        }
        file.look(&dir, root, &visit.below);
    }
    listing.subdirs.sort();
    Ok(listing)
}

/// Whether a path may be that of a file that is a run.
pub fn may_be_trace(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(format::may_be_trace)
}

/// Whether a path ends in the name of one of the three files.
pub fn is_trace_file(path: &Path) -> bool {
    TraceFile::ALL.iter().any(|file| path.ends_with(file.name()))
}

#[cfg(test)]
mod tests;
