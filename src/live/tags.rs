//! Keeps the tags that the user gave to runs, in one file in the directory of the settings. A tag
//! names a set of runs.
//!
//! A run is known by its path without symlinks, so its tags are the same whichever root it's found
//! below, and no run directory is written to. The tags also keep when the run started, so that a
//! later run at the same path doesn't inherit them. Writers take turns with a lock and replace the file
//! as a whole, so that readers need no lock. Knows neither queries nor the tags that runs record.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thin_vec::ThinVec;

use crate::analysis::summary::Summary;
use crate::cache_file::{self, Access};
use crate::error::{Error, Kind, Result};
use crate::model::tags::{MAX_TAG_CHARS, MAX_TAGS};
use crate::trace::RunDir;

/// The name of the file.
const FILE: &str = "tags.json";
/// The name of the file that writers lock. It isn't the other one, because that's replaced.
const LOCK: &str = "tags.lock";
/// The name under which a new file is written before it replaces the old one.
const NEW: &str = "tags.json.new";
/// The version of the file's format.
const VERSION: u32 = 2;
/// The version without the starts of the runs. It's still read.
const VERSION_1: u32 = 1;
/// Longer files are neither read nor written. A tagged run takes about 200 bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// What a name must not contain, apart from white space and control characters, so that a query
/// for it needs no quotes.
const REFUSED: [char; 4] = [',', '"', '\'', '`'];
/// The start of a directory's name that tags the runs below it.
const DIR_PREFIX: &str = "tag=";

/// Checks the name of a tag.
///
/// # Errors
/// Returns what is wrong with the name.
pub(crate) fn check_tag(name: &str) -> std::result::Result<(), String> {
    let is_refused = |c: char| c.is_whitespace() || c.is_control() || REFUSED.contains(&c);
    if name.is_empty() || name.chars().nth(MAX_TAG_CHARS).is_some() {
        return Err(format!("a tag has 1 to {MAX_TAG_CHARS} characters"));
    }
    if name.contains(is_refused) {
        return Err(
            "a tag can't contain spaces, commas, quotes, slashes or control characters; use `-` or `_`"
                .to_owned(),
        );
    }
    // These are names of directories, given before the tag.
    if name.contains(['/', '\\']) || matches!(name, "." | "..") {
        return Err(
            "a tag isn't a path: give the query and the tag before the directory".to_owned(),
        );
    }
    if name.starts_with('.') {
        return Err("a tag can't begin with a dot".to_owned());
    }
    if name.eq_ignore_ascii_case("none") {
        return Err("`tag:none` finds runs without a tag; choose another name".to_owned());
    }
    Ok(())
}

/// Returns whether queries take two tags for the same.
fn is_same_tag(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// The tags of runs, by the path of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tags(BTreeMap<String, Tagged>);

/// The tags of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tagged {
    tags: BTreeSet<String>,
    #[serde(flatten)]
    run: Identity,
}

/// What tells a run from another one at the same path. The first version of the file has nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// When the run started, in microseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<i64>,
    /// The recorded id, if it's short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

impl Identity {
    /// Maximum number of bytes of an id.
    const MAX_ID: usize = 128;
    /// A run may record its start twice, such as in its manifest and its first event. Those are never
    /// further apart, in microseconds.
    const START: u64 = 60_000_000;

    fn of(run: &Summary) -> Self {
        let id = run.run_id.as_deref();
        Self {
            started: run.started,
            id: id.filter(|id| id.len() <= Self::MAX_ID).map(str::to_owned),
        }
    }

    /// Returns whether this is certainly another run. A resumed run may have another id.
    fn is_other(&self, run: &Summary) -> bool {
        match (self.started, run.started) {
            (Some(own), Some(other)) => own.abs_diff(other) > Self::START,
            _ => (self.id.as_deref().zip(run.run_id.as_deref())).is_some_and(|(own, id)| own != id),
        }
    }
}

/// The file as written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<T> {
    version: u32,
    runs: T,
}

/// What came of adding a tag to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    /// The run has the tag now.
    New,
    /// The run already had the tag.
    Known,
    /// The run has as many tags as a run can have.
    Full,
    /// The path of the run isn't Unicode, so the file can't contain it.
    NoPath,
}

impl Tags {
    /// Adds a tag to the run in this directory. Drops the tags of an earlier run there.
    pub(crate) fn add(&mut self, dir: &RunDir, run: &Summary, name: &str) -> Added {
        let Some(path) = dir.path().to_str() else {
            return Added::NoPath;
        };
        let known = self.0.get(path).filter(|known| !known.run.is_other(run));
        let known = known.map(|known| &known.tags);
        if known.is_some_and(|tags| tags.iter().any(|tag| is_same_tag(tag, name))) {
            return Added::Known;
        }
        if known.is_some_and(|tags| tags.len() >= MAX_TAGS) {
            return Added::Full;
        }
        let mut tags = known.cloned().unwrap_or_default();
        tags.insert(name.to_owned());
        let run = Identity::of(run);
        self.0.insert(path.to_owned(), Tagged { tags, run });
        Added::New
    }

    /// Removes a tag from the run in this directory, and from an earlier run there. Returns whether
    /// the run had it.
    pub(crate) fn remove(&mut self, dir: &RunDir, run: &Summary, name: &str) -> bool {
        let Some((path, known)) =
            (dir.path().to_str()).and_then(|path| Some((path, self.0.get_mut(path)?)))
        else {
            return false;
        };
        let had = known.remove(name) && !known.run.is_other(run);
        if known.tags.is_empty() {
            self.0.remove(path);
        }
        had
    }

    /// Removes a tag from all runs whose path `is_gone`. Returns their number.
    pub(crate) fn forget(&mut self, name: &str, is_gone: impl Fn(&Path) -> bool) -> usize {
        let mut removed = 0;
        self.0.retain(|path, known| {
            if known.has(name) && is_gone(Path::new(path)) {
                known.remove(name);
                removed += 1;
            }
            !known.tags.is_empty()
        });
        removed
    }

    /// Returns whether a run has this tag.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.values().any(|known| known.has(name))
    }

    /// Returns the number of runs with this tag whose path `is_gone`.
    pub(crate) fn gone(&self, name: &str, is_gone: impl Fn(&Path) -> bool) -> usize {
        let with_tag = self.0.iter().filter(|(_, known)| known.has(name));
        with_tag
            .filter(|(path, _)| is_gone(Path::new(path)))
            .count()
    }

    /// Returns the tags, in one of its spellings each, and the number of runs that have it.
    pub(crate) fn counts(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<String, (&str, usize)> = BTreeMap::new();
        for name in self.0.values().flat_map(|known| &known.tags) {
            let (_, count) = counts.entry(name.to_lowercase()).or_insert((name, 0));
            *count += 1;
        }
        counts.into_values().collect()
    }

    fn of(&self, path: &Path, run: &Summary) -> impl Iterator<Item = &str> {
        let known = path.to_str().and_then(|path| self.0.get(path));
        let known = known.filter(|known| !known.run.is_other(run));
        known
            .into_iter()
            .flat_map(|known| &known.tags)
            .map(String::as_str)
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        // Another version may have other fields.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        fn runs<T: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<T, String> {
            let written: std::result::Result<Written<T>, _> = serde_json::from_slice(bytes);
            written
                .map(|written| written.runs)
                .map_err(|error| error.to_string())
        }
        let head: std::result::Result<Head, _> = serde_json::from_slice(bytes);
        let Head { version } = head.map_err(|error| error.to_string())?;
        let runs: BTreeMap<String, Tagged> = match version {
            VERSION => runs(bytes)?,
            VERSION_1 => {
                let runs: BTreeMap<String, BTreeSet<String>> = runs(bytes)?;
                let run = Identity::default;
                let tagged = |tags| Tagged { tags, run: run() };
                runs.into_iter()
                    .map(|(path, tags)| (path, tagged(tags)))
                    .collect()
            }
            version => return Err(unknown_version(version)),
        };
        for (run, Tagged { tags, .. }) in &runs {
            if tags.len() > MAX_TAGS {
                return Err(format!("{run} has more than {MAX_TAGS} tags"));
            }
            if let Some((name, why)) = tags
                .iter()
                .find_map(|name| Some((name, check_tag(name).err()?)))
            {
                return Err(format!("{name:?} isn't a tag: {why}"));
            }
        }
        Ok(Self(runs))
    }
}

impl Tagged {
    fn has(&self, name: &str) -> bool {
        self.tags.iter().any(|tag| is_same_tag(tag, name))
    }

    /// Removes a tag. Returns whether it was there.
    fn remove(&mut self, name: &str) -> bool {
        let before = self.tags.len();
        self.tags.retain(|tag| !is_same_tag(tag, name));
        self.tags.len() < before
    }
}

fn unknown_version(version: u32) -> String {
    format!("its version is {version}, but board supports versions {VERSION_1} and {VERSION}")
}

/// The file with the tags that the user gave to runs.
#[derive(Debug, Clone)]
pub(crate) struct TagFile {
    dir: PathBuf,
}

impl TagFile {
    /// Returns the file in the directory of the settings. It may not exist yet.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE)
    }

    /// Reads the file. No file means no tags.
    ///
    /// # Errors
    /// The file can't be read, is too large, or is damaged.
    pub(crate) fn read(&self) -> Result<Tags> {
        match self.bytes()? {
            Some(bytes) => self.parse(&bytes),
            None => Ok(Tags::default()),
        }
    }

    /// Returns the bytes of the file, at most one more than it may have. `None` without a file.
    fn bytes(&self) -> Result<Option<Vec<u8>>> {
        match read_bounded(&self.path()) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let error = self.unusable("read").because(error);
                Err(error.hint("it must be a regular file that this user owns and can read"))
            }
        }
    }

    fn parse(&self, bytes: &[u8]) -> Result<Tags> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let error = self.unusable("use").because(io::Error::other(TOO_LARGE));
            return Err(error.hint("move the file away; tags that are still needed can be added again with `board tag`"));
        }
        Tags::parse(bytes).map_err(|why| {
            let error = self.unusable("use").because(io::Error::other(why));
            error.hint("repair the file or move it; board doesn't overwrite a damaged file")
        })
    }

    fn unusable(&self, verb: &str) -> Error {
        let path = self.path();
        Error::new(
            Kind::Unreadable,
            format!("can't {verb} the tags in {}", path.display()),
        )
    }

    fn unwritable(&self, error: io::Error) -> Error {
        self.unusable("write").because(error).hint(
            "check that the directory is writable and the disk isn't full; the tags are unchanged",
        )
    }

    /// Changes the tags, one program at a time. Writes nothing if `change` changes nothing.
    ///
    /// # Errors
    /// The file can't be read, is damaged, or can't be written. It's unchanged then.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Tags) -> T) -> Result<T> {
        fs::create_dir_all(&self.dir).map_err(|error| self.unwritable(error))?;
        let lock = cache_file::open(&self.dir.join(LOCK), Access::Lock);
        // Released when the file is closed.
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(|error| self.unwritable(error))?;
        let before = self.read()?;
        let mut tags = before.clone();
        let done = change(&mut tags);
        if tags != before {
            self.replace(&tags)?;
        }
        Ok(done)
    }

    fn replace(&self, tags: &Tags) -> Result<()> {
        let written = Written {
            version: VERSION,
            runs: &tags.0,
        };
        let mut bytes = serde_json::to_vec_pretty(&written)
            .map_err(|error| self.unwritable(io::Error::other(error)))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let error = self.unusable("write").because(io::Error::other(TOO_LARGE));
            return Err(error.hint(
                "remove tags that aren't needed: board tag QUERY NAME --remove; the tags are unchanged",
            ));
        }
        self.replace_with(&bytes)
            .map_err(|error| self.unwritable(error))
    }

    fn replace_with(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.dir.join(NEW);
        // A writer that was killed may have left one.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&new, self.path())?;
        #[cfg(unix)]
        // Not every file system can sync a directory, and the tags are written.
        File::open(&self.dir).and_then(|dir| dir.sync_all()).ok();
        Ok(())
    }

    fn stamp(&self) -> Option<Stamp> {
        let found = fs::symlink_metadata(self.path()).ok()?;
        Some(Stamp {
            size: found.len(),
            modified: found.modified().ok(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&found),
        })
    }
}

/// Why a file isn't used.
const TOO_LARGE: &str = "it would be larger than 16 MiB";

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file: File = cache_file::open(path, Access::Read)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What shows that the file was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: u64,
}

/// The last reading of the file.
#[derive(Debug, Default)]
struct Seen {
    /// The stamp of the file. `None` if it doesn't exist or couldn't be read.
    stamp: Option<Stamp>,
    /// Why it couldn't be used.
    fault: Option<String>,
}

/// The tags that the user gave to runs, as they are in the file now.
#[derive(Debug, Default)]
pub(crate) struct FollowedTags {
    file: Option<TagFile>,
    tags: RwLock<Arc<Tags>>,
    seen: Mutex<Seen>,
}

impl FollowedTags {
    /// Reads the file.
    ///
    /// # Errors
    /// The file can't be read, is too large, or is damaged.
    pub(crate) fn read(file: Option<TagFile>) -> Result<Self> {
        let (followed, fault) = Self::follow(file);
        fault.map_or(Ok(followed), Err)
    }

    /// Reads the file, without tags if that fails. Also returns why it failed.
    pub(crate) fn follow(file: Option<TagFile>) -> (Self, Option<Error>) {
        let followed = Self {
            file,
            ..Self::default()
        };
        let fault = followed.reload().err();
        (followed, fault)
    }

    /// Reads the file again if it changed. Returns whether the tags changed. If the file can't be
    /// used, they stay as they were.
    ///
    /// # Errors
    /// Returns why the file can't be used, once for each reason.
    pub(super) fn reload(&self) -> Result<bool> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // If the file is replaced after this, its next stamp differs.
        let stamp = file.stamp();
        // A fault may be over although there is still no stamp: the file may be gone now.
        if stamp == seen.stamp && (stamp.is_some() || seen.fault.is_none()) {
            return Ok(false);
        }
        let read = file.bytes();
        // A file that couldn't be read may be readable the next time, without a change.
        seen.stamp = stamp.filter(|_| read.is_ok());
        let fresh = read.and_then(|bytes| {
            let tags = bytes.map(|bytes| file.parse(&bytes));
            tags.unwrap_or_else(|| Ok(Tags::default()))
        });
        let fault = fresh.as_ref().err().map(|error| format!("{error:#}"));
        let is_known = fault.is_some() && seen.fault == fault;
        seen.fault = fault;
        let fresh = match fresh {
            Err(_) if is_known => return Ok(false),
            fresh => fresh?,
        };
        let mut tags = self.tags.write().unwrap_or_else(PoisonError::into_inner);
        let differ = **tags != fresh;
        *tags = Arc::new(fresh);
        Ok(differ)
    }

    /// Returns the tags that the user gave to runs, as they are now.
    pub(crate) fn now(&self) -> Arc<Tags> {
        Arc::clone(&self.tags.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the tags of a run if they aren't those in its row: those that it records, those of
    /// the directories above it, and those that the user gave it.
    pub(super) fn changed(&self, run: &Summary, dir: &RunDir) -> Option<ThinVec<String>> {
        let tags = self.now();
        let own = tags.of(dir.path(), run);
        run.tags_if_changed(of_directories(dir.root(), dir.path()).chain(own))
    }

    /// Sets the tags of a run that isn't followed.
    pub(crate) fn apply(&self, run: &mut Summary, dir: &RunDir) {
        if let Some(tags) = self.changed(run, dir) {
            run.tags = tags;
        }
    }
}

/// Returns whether a run has a tag from its own records or a directory.
pub(crate) fn has_own_tag(run: &Summary, dir: &RunDir, name: &str) -> bool {
    let recorded = run.recorded_tags.iter().map(String::as_str);
    let mut own = recorded.chain(of_directories(dir.root(), dir.path()));
    own.any(|tag| is_same_tag(tag, name))
}

/// Returns the tags in the names of the directories between the root and the run.
fn of_directories<'a>(root: &Path, run: &'a Path) -> impl Iterator<Item = &'a str> + use<'a> {
    let above = run.strip_prefix(root).ok().and_then(Path::parent);
    let names = above.into_iter().flat_map(Path::components);
    let tags = names.filter_map(|part| match part {
        Component::Normal(name) => name.to_str()?.strip_prefix(DIR_PREFIX),
        _ => None,
    });
    tags.filter(|name| check_tag(name).is_ok()).take(MAX_TAGS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::select::sample;
    use crate::analysis::verdict::RunStatus;

    /// A run that started at this time.
    fn started(at: Option<i64>) -> Summary {
        let mut run = sample::run("a", RunStatus::Answered, None);
        run.started = at;
        run.run_id = None;
        run
    }

    fn file() -> (tempfile::TempDir, TagFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = TagFile::new(dir.path().join("settings"));
        (dir, file)
    }

    #[test]
    fn a_run_has_each_tag_once_and_at_most_32() {
        let row = started(None);
        let run = RunDir::alone(Path::new("/runs/a"));
        let mut tags = Tags::default();
        assert_eq!(tags.add(&run, &row, "x"), Added::New);
        assert_eq!(tags.add(&run, &row, "x"), Added::Known);
        for n in 1..MAX_TAGS {
            assert_eq!(tags.add(&run, &row, &n.to_string()), Added::New);
        }
        assert_eq!(tags.add(&run, &row, "y"), Added::Full);
        assert_eq!(tags.add(&run, &row, "x"), Added::Known);
        assert_eq!(tags.add(&run, &row, "X"), Added::Known);
        let other = RunDir::alone(Path::new("/runs/b"));
        assert_eq!(tags.add(&other, &row, "X"), Added::New);
        assert!(tags.counts().contains(&("x", 2)) || tags.counts().contains(&("X", 2)));
        assert!(tags.remove(&other, &row, "x"));
        assert!(tags.remove(&run, &row, "x") && !tags.remove(&run, &row, "x"));
        assert_eq!(tags.add(&run, &row, "y"), Added::New);
        assert_eq!(tags.counts().len(), MAX_TAGS);
        tags.0.values_mut().for_each(|known| known.tags.clear());
        assert!(tags.counts().is_empty());
    }

    #[test]
    fn a_later_run_at_the_same_path_does_not_inherit_tags() {
        let of = |tags: &Tags, dir: &RunDir, run: &Summary| -> Vec<String> {
            tags.of(dir.path(), run).map(str::to_owned).collect()
        };
        let dir = RunDir::alone(Path::new("/runs/a"));
        let first = started(Some(1_000_000_000));
        let mut tags = Tags::default();
        tags.add(&dir, &first, "x");
        // A manifest and an event may record the start differently.
        let same = started(Some(1_001_500_000));
        assert_eq!(of(&tags, &dir, &same), ["x"]);
        // Nothing was read yet.
        assert_eq!(of(&tags, &dir, &started(None)), ["x"]);
        let later = started(Some(2_000_000_000));
        assert!(of(&tags, &dir, &later).is_empty());
        let mut kept = tags.clone();
        assert!(!kept.remove(&dir, &later, "x") && kept.counts().is_empty());
        assert_eq!(tags.add(&dir, &later, "y"), Added::New);
        assert_eq!(of(&tags, &dir, &later), ["y"]);
        // Without times, ids tell runs apart.
        let named = |id: &str| Summary {
            run_id: Some(id.into()),
            ..started(None)
        };
        let other = RunDir::alone(Path::new("/runs/b"));
        tags.add(&other, &named("one"), "x");
        assert_eq!(of(&tags, &other, &named("one")), ["x"]);
        assert!(of(&tags, &other, &named("two")).is_empty());
    }

    #[test]
    fn the_first_version_of_the_file_is_read_and_runs_that_are_gone_lose_a_tag() {
        let (_dir, file) = file();
        fs::create_dir_all(&file.dir).unwrap();
        let text = r#"{"version": 1, "runs": {"/runs/a": ["x", "y"], "/runs/b": ["X"]}}"#;
        fs::write(file.path(), text).unwrap();
        let run = RunDir::alone(Path::new("/runs/a"));
        let later = started(Some(2_000_000_000));
        let known = file.read().unwrap();
        assert_eq!(known.of(run.path(), &later).collect::<Vec<_>>(), ["x", "y"]);
        let is_gone = |path: &Path| path.ends_with("b");
        assert_eq!(known.gone("x", is_gone), 1);
        let forgotten = file.change(|tags| tags.forget("x", is_gone)).unwrap();
        assert_eq!(forgotten, 1);
        assert_eq!(file.read().unwrap().counts(), [("x", 1), ("y", 1)]);
        file.change(|tags| tags.add(&run, &later, "z")).unwrap();
        let written = fs::read_to_string(file.path()).unwrap();
        assert!(written.contains("\"started\": 2000000000"), "{written}");
        assert_eq!(file.read().unwrap().counts().len(), 3);
    }

    #[test]
    fn names_need_no_quotes_in_a_query() {
        for name in ["v1", "-", "prompt=2", "é:x", &"x".repeat(MAX_TAG_CHARS)] {
            assert_eq!(check_tag(name), Ok(()), "{name}");
        }
        let long = "é".repeat(MAX_TAG_CHARS + 1);
        for name in [
            "", "a b", "a\u{a0}b", "a,b", "\"", "'", "`", "\u{1b}", "None", &*long,
        ] {
            assert!(check_tag(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_file_that_would_be_too_large_is_not_written() {
        let (_dir, file) = file();
        assert_eq!(file.read().unwrap(), Tags::default());
        let (run, row) = (RunDir::alone(Path::new("/runs/a")), started(None));
        file.change(|tags| tags.add(&run, &row, "x")).unwrap();
        // A writer that was killed may leave its file.
        fs::write(file.dir.join(NEW), "{").unwrap();
        file.change(|tags| tags.add(&run, &row, "y")).unwrap();
        let known = file.read().unwrap();
        assert_eq!(known.counts(), [("x", 1), ("y", 1)]);
        let failed = file.change(|tags| {
            let long = "x".repeat(16 << 20);
            let tagged = Tagged {
                tags: ["x".to_owned()].into(),
                ..Tagged::default()
            };
            tags.0.insert(long, tagged);
        });
        let why = format!("{:#}", failed.unwrap_err());
        assert!(why.contains("larger than 16 MiB"), "{why}");
        assert_eq!(file.read().unwrap(), known);
        assert!(!file.dir.join(NEW).exists());
    }

    #[test]
    fn a_change_is_noticed_once_and_a_damaged_file_changes_nothing() {
        let (_dir, file) = file();
        let (followed, fault) = FollowedTags::follow(Some(file.clone()));
        assert!(fault.is_none() && !followed.reload().unwrap());
        let (run, row) = (RunDir::alone(Path::new("/runs/a")), started(None));
        file.change(|tags| tags.add(&run, &row, "x")).unwrap();
        assert!(followed.reload().unwrap() && !followed.reload().unwrap());
        let good = fs::read(file.path()).unwrap();
        fs::write(file.path(), "{").unwrap();
        assert!(followed.reload().is_err());
        assert!(!followed.reload().unwrap(), "reported once");
        assert_eq!(followed.now().counts(), [("x", 1)]);
        fs::write(file.path(), good).unwrap();
        assert!(!followed.reload().unwrap(), "the same tags");
        fs::remove_file(file.path()).unwrap();
        assert!(followed.reload().unwrap());
        assert!(followed.now().counts().is_empty());
    }

    #[test]
    fn directories_between_the_root_and_the_run_have_tags() {
        let of = |run| of_directories(Path::new("/tag=r"), Path::new(run)).collect::<Vec<_>>();
        assert_eq!(of("/tag=r/tag=a/b/tag=c/run"), ["a", "c"]);
        assert_eq!(of("/tag=r/tag=run"), [""; 0]);
        assert_eq!(of("/tag=r/tag=a b/tag-c/tag=/tag=none/run"), [""; 0]);
        assert_eq!(of("/tag=r"), [""; 0]);
        assert_eq!(of("/elsewhere/tag=a/run"), [""; 0]);
    }
}
