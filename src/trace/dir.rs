//! How is a file of a run directory opened? Only regular files, and never through a link that leads out of the root.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::model::{Span, TraceFile};

/// No more is read of a file that a trace refers to.
const MAX_ASSET_BYTES: u64 = 32 << 20;

/// A run's directory, and the root that links inside it may not leave.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
    root: PathBuf,
}

/// The identity of a file on disk: another one under the same name is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileId(u64, u64);

/// What the system says of a file without opening it. Equal stamps mean equal bytes, once the file was quiet for
/// longer than its file system's clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) id: FileId,
    pub(super) size: u64,
    pub(super) modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change of anything about the file. Nobody can set it back, unlike
    /// `modified`; (0, 0) where the system has none.
    changed: (i64, i64),
}

/// The three files of a run, as they were when it was read. Files that are not there have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps(pub(super) [Option<Stamp>; 3]);

/// A file changed more recently than this may change again within one tick of its file system's clock.
pub(super) const TICK: Duration = Duration::from_secs(2);

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            id: file_id(metadata),
            size: metadata.len(),
            modified: metadata.modified().ok(),
            changed: changed(metadata),
        }
    }

    /// For how long the file has been as it is, by its own word; a time in the future says nothing.
    pub(super) fn age(&self) -> Option<Duration> {
        self.modified?.elapsed().ok()
    }
}

impl Stamps {
    /// What the files look like now; `None` where one of them cannot be asked.
    pub fn of(dir: &RunDir) -> Option<Self> {
        let stamp = |file| match dir.stat(file) {
            Ok(metadata) => Some(Some(Stamp::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
            Err(_) => None,
        };
        Some(Self([stamp(TraceFile::Manifest)?, stamp(TraceFile::Steps)?, stamp(TraceFile::Events)?]))
    }

    /// How long the three files are.
    pub fn sizes(&self) -> [Option<u64>; 3] {
        self.0.map(|stamp| Some(stamp?.size))
    }

    /// Whether any change from now on shows in the stamps.
    pub fn are_settled(&self) -> bool {
        self.0.iter().flatten().all(|stamp| stamp.age().is_some_and(|age| age > TICK))
    }
}

impl RunDir {
    /// A run directory below `root`; `root` is canonical, or links are refused altogether.
    pub fn new(path: PathBuf, root: PathBuf) -> Self {
        Self { path, root }
    }

    /// A run directory that is its own root.
    pub fn alone(path: &Path) -> Self {
        let root = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { path: path.to_owned(), root }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The root that links inside it may not leave.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether one of the three files is there.
    pub fn has_files(&self) -> bool {
        TraceFile::ALL.iter().any(|file| fs::symlink_metadata(self.file(*file)).is_ok())
    }

    /// When one of the three files last changed, by its own word; microseconds since the Unix epoch.
    pub fn modified(&self) -> Option<i64> {
        let changed = |file| {
            let modified = fs::metadata(self.file(file)).ok()?.modified().ok()?;
            i64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
        };
        TraceFile::ALL.into_iter().filter_map(changed).max()
    }

    /// Whether the root itself is the run.
    pub fn is_root(&self) -> bool {
        self.path == self.root
    }

    /// The path of one of the three files.
    pub fn file(&self, file: TraceFile) -> PathBuf {
        self.path.join(file.name())
    }

    /// The metadata of one of the three files, if it may be read.
    ///
    /// # Errors
    /// Not found; a link that leads out of the root; not a regular file; what the system says.
    pub(super) fn stat(&self, file: TraceFile) -> io::Result<Metadata> {
        self.checked(&self.file(file)).map(|(_, metadata)| metadata)
    }

    /// Opens one of the three files for reading.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root.
    pub(super) fn open(&self, file: TraceFile) -> io::Result<File> {
        let (path, _) = self.checked(&self.file(file))?;
        File::open(path)
    }

    /// Reads a line by its place.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root; unexpected end where the file became shorter.
    pub fn read_span(&self, file: TraceFile, span: Span) -> io::Result<Vec<u8>> {
        let opened = self.open(file)?;
        // Checked before memory is taken: the file may be another one by now.
        if opened.metadata()?.len() < span.offset.saturating_add(span.len) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter since it was indexed"));
        }
        let len = usize::try_from(span.len).map_err(io::Error::other)?;
        let mut bytes = vec![0; len];
        read_exact_at(&opened, &mut bytes, span.offset)?;
        Ok(bytes)
    }

    /// All lines of a file in order, an unfinished last one and blank ones too, without their LF.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root.
    pub fn read_lines(&self, file: TraceFile) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>> + use<>> {
        Ok(io::BufRead::split(io::BufReader::new(self.open(file)?), b'\n'))
    }

    /// Reads a whole file of at most `max` bytes.
    ///
    /// # Errors
    /// Not there, or not a regular file inside the root; too large.
    pub fn read_all(&self, file: TraceFile, max: u64) -> io::Result<Vec<u8>> {
        let size = self.stat(file)?.len();
        if size > max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{size} bytes, more than {max}")));
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(self.open(file)?, max), &mut bytes)?;
        Ok(bytes)
    }

    /// Opens a file that a trace refers to, if it lies inside the run directory.
    ///
    /// The recorded path is tried below the directory, then its last part in `assets/`, because runs are moved.
    ///
    /// # Errors
    /// Not found inside the directory; not a regular file.
    pub fn open_asset(&self, recorded: &str) -> io::Result<(PathBuf, File)> {
        let inside = fs::canonicalize(&self.path)?;
        let recorded = Path::new(recorded);
        let base_name = recorded.file_name().map(|name| self.path.join("assets").join(name));
        let tried = [Some(self.path.join(recorded)), base_name];
        for path in tried.into_iter().flatten() {
            let Ok(path) = fs::canonicalize(path) else { continue };
            if path.starts_with(&inside) && fs::metadata(&path)?.is_file() {
                return Ok((path.clone(), File::open(path)?));
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, "not inside the run directory"))
    }

    /// Reads a file that a trace refers to, and says where it lies.
    ///
    /// # Errors
    /// As for [`Self::open_asset`]; larger than 32 MiB; what the system says.
    pub fn read_asset(&self, recorded: &str) -> io::Result<(PathBuf, Vec<u8>)> {
        let (path, file) = self.open_asset(recorded)?;
        if file.metadata()?.len() > MAX_ASSET_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 32 MiB"));
        }
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, MAX_ASSET_BYTES), &mut bytes)?;
        Ok((path, bytes))
    }

    fn checked(&self, path: &Path) -> io::Result<(PathBuf, Metadata)> {
        let metadata = fs::symlink_metadata(path)?;
        if metadata.is_file() {
            return Ok((path.to_owned(), metadata));
        }
        let refused = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
        if !metadata.is_symlink() {
            return refused("not a regular file");
        }
        let target = fs::canonicalize(path)?;
        if !target.starts_with(&self.root) {
            return refused("a symbolic link that leads out of the root; not followed");
        }
        // A pipe or a device would block the reader for ever.
        let metadata = fs::metadata(&target)?;
        if metadata.is_file() {
            Ok((target, metadata))
        } else {
            refused("a link to something that is not a regular file")
        }
    }
}

#[cfg(unix)]
pub(super) fn file_id(metadata: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    FileId(metadata.dev(), metadata.ino())
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> (i64, i64) {
    (0, 0)
}

#[cfg(not(unix))]
pub(super) fn file_id(_: &Metadata) -> FileId {
    FileId(0, 0)
}

/// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = file;
    file.seek(SeekFrom::Start(offset))?;
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    if read_at(file, buffer, offset)? == buffer.len() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"))
}
