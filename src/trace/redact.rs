//! Copies a run to a temporary directory with its secrets blanked.
//!
//! The copy is deleted with the value. The run directory itself is only read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};

use super::content::Content;
use super::patience::Patience;
use super::{MAX_MANIFEST_BYTES, RunDir, read_index};
use crate::format::clock_times;
use crate::model::redact::{Blanked, Sample, Search, Secrets, without_private};
use crate::model::{InFile, Index, Lines, MAX_LINE_BYTES, Span, TraceFile};

/// The bytes kept of a line: one more than the longest that is parsed, so that longer ones are
/// recognized.
const KEPT_BYTES: usize = MAX_LINE_BYTES as usize + 1;

/// Longer documents aren't copied, because a document is held in memory while it's searched for
/// secrets.
const MAX_DOCUMENT_BYTES: u64 = 256 << 20;

/// A copy of a run with its secrets blanked.
#[derive(Debug)]
pub struct RedactedRun {
    index: Index,
    dir: RunDir,
    blanked: Blanked,
    samples: Vec<Sample>,
    in_file: Option<InFile>,
    _temp: tempfile::TempDir,
}

impl RedactedRun {
    /// Copies the run in `dir` without its secrets, and reads the copy.
    ///
    /// # Errors
    /// Fails if the files can't be read, or the copy can't be written.
    pub fn of(dir: &RunDir) -> io::Result<Self> {
        Self::with(dir, &mut SharedSecrets::default())
    }

    /// Copies the run in `dir` without its secrets and without those of the runs that it's saved
    /// with. [`Self::blanked`] then counts the blanked values of all added runs.
    ///
    /// # Errors
    /// Fails if the files can't be read, or the copy can't be written.
    pub fn with(dir: &RunDir, shared: &mut SharedSecrets) -> io::Result<Self> {
        let sources = Sources::open(dir)?;
        let documents = sources.read_documents(dir)?;
        // The run may have grown since its secrets were counted.
        sources.search(dir, &documents, &mut shared.search)?;
        let blanked = *shared.blanked.get_or_insert(shared.search.blanked());
        let secrets = shared.search.clone().end();
        Self::copied(dir, &sources, &documents, &secrets, blanked)
    }

    fn copied(
        dir: &RunDir,
        sources: &Sources,
        documents: &[(TraceFile, Vec<u8>)],
        secrets: &Secrets,
        blanked: Blanked,
    ) -> io::Result<Self> {
        let temp = tempfile::tempdir()?;
        // A copy of a directory keeps its name, which the manifest is compared with.
        let name = dir.path().file_name().filter(|_| dir.tool().is_none());
        let below = name.map(|name| temp.path().join(&*without_private(&name.to_string_lossy())));
        let below = below.as_deref().unwrap_or(temp.path());
        std::fs::create_dir_all(below)?;
        let copy = dir.at(below);
        if let Some(clock) = &sources.clock {
            std::fs::write(copy.file(TraceFile::Manifest), clock)?;
        }
        let manifest = sources.manifest.iter();
        let manifest = manifest.map(|text| (TraceFile::Manifest, text));
        let documents = documents.iter().map(|(file, text)| (*file, text));
        for (file, text) in manifest.chain(documents) {
            let path = copy.file(file);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            std::fs::write(path, secrets.blank(text))?;
        }
        for (name, text) in dir.each_record(&sources.records) {
            let below = copy.file(TraceFile::Events);
            std::fs::create_dir_all(&below)?;
            std::fs::write(below.join(name), secrets.blank(&text?))?;
        }
        for (file, (opened, len)) in &sources.files {
            let path = copy.file(*file);
            path.parent().map(std::fs::create_dir_all).transpose()?;
            let mut out = BufWriter::new(File::create(path)?);
            let mut input = BufReader::new(opened.reader().take(*len));
            each_line(&mut input, &mut |line, ended| {
                write_line(secrets, line, ended, &mut out)
            })?;
            out.flush()?;
        }
        Ok(Self {
            index: read_index(&copy),
            dir: copy,
            blanked,
            samples: secrets.samples().to_vec(),
            in_file: dir.in_file(),
            _temp: temp,
        })
    }

    /// Returns the index of the copy.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns how much of it is blanked.
    pub fn blanked(&self) -> Blanked {
        self.blanked
    }

    /// Returns a few of the blanked values of each kind.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// The secrets of runs that are saved in the same file. What is a secret in one of them is blanked
/// in all.
#[derive(Debug, Default)]
pub struct SharedSecrets {
    search: Search,
    /// How many were counted, once a run was added or copied.
    blanked: Option<Blanked>,
}

impl SharedSecrets {
    /// Finds and counts the secrets of the run in `dir`.
    ///
    /// # Errors
    /// Fails if the files can't be read. Secrets that were found before that are blanked as well.
    pub fn add(&mut self, dir: &RunDir) -> io::Result<()> {
        let sources = Sources::open(dir)?;
        let documents = sources.read_documents(dir)?;
        sources.search(dir, &documents, &mut self.search)?;
        self.blanked = Some(self.search.blanked());
        Ok(())
    }
}

/// The values that copies of runs would blank.
#[derive(Debug)]
pub struct RedactionPreview {
    /// How many there are.
    pub blanked: Blanked,
    /// A few of each kind.
    pub samples: Vec<Sample>,
    /// Whether all of it was searched, except for [`Self::too_long`].
    pub is_whole: bool,
    /// The number of documents that are longer than [`MAX_LINE_BYTES`]. Nothing of them is saved.
    pub too_long: usize,
    /// The number of runs that were searched.
    pub runs: usize,
}

impl RedactionPreview {
    /// Searches the run in `dir` and then others that may be saved with it, at most about `max`
    /// bytes of them. Others that can't be read are skipped. Copies nothing.
    ///
    /// # Errors
    /// Fails if the files of the first run can't be read.
    pub fn of(dir: &RunDir, others: &[&RunDir], max: u64) -> io::Result<Self> {
        let mut search = Search::default();
        let (mut left, mut runs) = (max, 1);
        let sources = Sources::open(dir)?;
        let (mut is_whole, mut too_long) = sources.search_some(dir, &mut left, &mut search)?;
        for other in others {
            if !is_whole {
                break;
            }
            let read = Sources::open(other)
                .and_then(|sources| sources.search_some(other, &mut left, &mut search));
            if let Ok((is_all, longer)) = read {
                is_whole = is_all;
                too_long += longer;
                runs += 1;
            }
        }
        Ok(Self {
            blanked: search.blanked(),
            samples: search.samples().to_vec(),
            is_whole,
            too_long,
            runs,
        })
    }
}

/// The opened files of a run. For a copy, they are read twice: for their secrets, and to blank these.
struct Sources {
    manifest: Option<Vec<u8>>,
    /// The times in the file that repeats the records, and nothing else of it.
    clock: Option<String>,
    /// The documents, which aren't opened yet.
    documents: Vec<TraceFile>,
    records: Vec<OsString>,
    files: Vec<(TraceFile, (Content, u64))>,
}

impl Sources {
    fn open(dir: &RunDir) -> io::Result<Self> {
        // The manifest is read once and before the files, so that everything it says about them is
        // already written.
        let manifest = dir.read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES).ok();
        let clock = dir.clock().ok().map(|lines| clock_times(&lines));
        // A document is blanked as a whole, whatever its lines are.
        let is_document = dir.is_document();
        let there = || {
            dir.line_files()
                .iter()
                .copied()
                .filter(|file| dir.stat(*file).is_ok())
        };
        let documents = there().filter(|_| is_document && !dir.is_files());
        // Opened once for both passes. The run may continue, and neither pass reads beyond these
        // lengths.
        let files: Vec<(TraceFile, (Content, u64))> = there()
            .filter(|_| !is_document)
            .map(|file| {
                dir.open(file, Patience::Wait)
                    .map(|(opened, stamp)| (file, (opened, stamp.size)))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self {
            manifest,
            clock,
            documents: documents.collect(),
            records: dir.record_files()?,
            files,
        })
    }

    /// Reads the documents.
    fn read_documents(&self, dir: &RunDir) -> io::Result<Vec<(TraceFile, Vec<u8>)>> {
        let read = |file: &TraceFile| Ok((*file, dir.read_all(*file, MAX_DOCUMENT_BYTES)?));
        self.documents.iter().map(read).collect()
    }

    /// Finds the secrets of a run, whose documents are read already.
    fn search(
        &self,
        dir: &RunDir,
        documents: &[(TraceFile, Vec<u8>)],
        search: &mut Search,
    ) -> io::Result<()> {
        documents.iter().for_each(|(_, text)| search.read(text));
        self.each(dir, &mut { u64::MAX }, &mut |text| search.read(text))?;
        Ok(())
    }

    /// Finds the secrets in about the first `left` bytes, and takes those that were read off `left`.
    /// Returns whether that was all, and the number of documents that are too long for a search.
    fn search_some(
        &self,
        dir: &RunDir,
        left: &mut u64,
        search: &mut Search,
    ) -> io::Result<(bool, usize)> {
        let (mut is_whole, mut too_long) = (true, 0);
        for file in &self.documents {
            let max = (*left).min(MAX_LINE_BYTES);
            match dir.read_all(*file, max) {
                Ok(text) => {
                    *left = left.saturating_sub(text.len() as u64);
                    search.read(&text);
                }
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    let is_too_long = max == MAX_LINE_BYTES;
                    too_long += usize::from(is_too_long);
                    is_whole &= is_too_long;
                }
                Err(error) => return Err(error),
            }
        }
        is_whole &= self.each(dir, left, &mut |text| search.read(text))?;
        Ok((is_whole, too_long))
    }

    /// Passes on the manifest, records and lines of a run, but not its documents. Takes their
    /// lengths off `left`, and stops when nothing is left. Returns whether that was all.
    fn each(
        &self,
        dir: &RunDir,
        left: &mut u64,
        on_text: &mut dyn FnMut(&[u8]),
    ) -> io::Result<bool> {
        let mut take = |text: &[u8]| {
            let is_read = *left > 0;
            *left = left.saturating_sub(text.len() as u64);
            if is_read {
                on_text(text);
            }
            is_read
        };
        let mut is_whole = true;
        if let Some(text) = &self.manifest {
            is_whole &= take(text);
        }
        for (_, text) in dir.each_record(&self.records) {
            is_whole &= take(&text?);
            if !is_whole {
                return Ok(false);
            }
        }
        for (_, (opened, len)) in &self.files {
            let mut input = BufReader::new(opened.reader().take(*len));
            let mut is_enough = false;
            let read = each_line(&mut input, &mut |line, _| {
                is_enough = !take(line);
                match is_enough {
                    true => Err(io::Error::other("enough")),
                    false => Ok(()),
                }
            });
            if is_enough {
                return Ok(false);
            }
            read?;
        }
        Ok(is_whole)
    }
}

impl Lines for RedactedRun {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.dir.line(|| &self.index, file, span)
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir
            .read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES)
            .map_err(|error| error.to_string())
    }

    fn has_asset(&self, _: &str) -> Result<(), String> {
        Err("omitted because it wasn't checked for secrets".to_owned())
    }

    fn in_file(&self) -> Option<InFile> {
        self.in_file.clone()
    }
}

/// Passes on each line without its LF, and whether it had one. Longer lines are truncated to
/// [`KEPT_BYTES`].
fn each_line(
    input: &mut dyn BufRead,
    on_line: &mut dyn FnMut(&[u8], bool) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut begun = false;
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return if begun { on_line(&line, false) } else { Ok(()) };
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        line.extend(part.iter().take(KEPT_BYTES - line.len()));
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        begun = end.is_none();
        if !begun {
            on_line(&line, true)?;
            line.clear();
        }
    }
}

/// Writes the line so that the copy has as many steps and events. An unfinished line stays one, or
/// becomes a last record.
fn write_line(secrets: &Secrets, line: &[u8], ended: bool, out: &mut dyn Write) -> io::Result<()> {
    if !ended {
        return write!(
            out,
            "{}",
            secrets.blank_json(line).as_deref().unwrap_or("{")
        );
    }
    let blank = line.iter().all(u8::is_ascii_whitespace);
    writeln!(
        out,
        "{}",
        if blank {
            String::new()
        } else {
            secrets.blank(line)
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(dir: &RunDir) -> (RedactedRun, String) {
        let run = RedactedRun::of(dir).unwrap();
        let text = std::fs::read_to_string(run.dir.file(TraceFile::Steps)).unwrap();
        (run, text)
    }

    #[test]
    fn a_preview_finds_what_a_copy_blanks_and_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::alone(temp.path());
        let line = "{\"step_id\": 0, \"password\": \"swordfish\"}\n";
        std::fs::write(dir.file(TraceFile::Steps), line.repeat(3)).unwrap();
        let found = |max| {
            let preview = RedactionPreview::of(&dir, &[], max).unwrap();
            (preview.blanked.found(), preview.is_whole)
        };
        let copy = RedactedRun::of(&dir).unwrap();
        assert_eq!(found(u64::MAX), (copy.blanked().found(), true));
        assert_eq!(found(u64::MAX), (3, true));
        assert_eq!(found(10), (1, false));
        assert_eq!(found(0), (0, false));

        let gone = RunDir::alone(&temp.path().join("gone.jsonl"));
        let others = RedactionPreview::of(&dir, &[&dir, &gone, &dir], 160).unwrap();
        assert_eq!((others.blanked.found(), others.is_whole), (5, false));
    }

    #[test]
    fn secrets_of_one_run_are_blanked_in_the_runs_that_are_saved_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, line: &str| {
            let path = temp.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let dir = RunDir::alone(&path);
            std::fs::write(dir.file(TraceFile::Steps), format!("{line}\n")).unwrap();
            dir
        };
        let parent = write("a", "{\"step_id\": 0, \"password\": \"swordfish\"}");
        let child = write(
            "b",
            "{\"step_id\": 0, \"task\": \"log in with swordfish\", \"token\": \"abcdefghij\"}",
        );
        assert!(copied(&child).1.contains("swordfish"), "alone, it's a word");
        let mut shared = SharedSecrets::default();
        shared.add(&parent).unwrap();
        shared.add(&child).unwrap();
        for (dir, words) in [(&parent, "password"), (&child, "log in with __redacted__")] {
            let copy = RedactedRun::with(dir, &mut shared).unwrap();
            let text = std::fs::read_to_string(copy.dir.file(TraceFile::Steps)).unwrap();
            assert!(text.contains(words), "{text}");
            assert!(!text.contains("swordfish"), "{text}");
            assert_eq!(copy.blanked().found(), 2, "of both runs, counted once");
        }
    }

    #[test]
    fn a_preview_doesnt_read_a_document_that_is_too_long() {
        let temp = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(temp.path()).unwrap();
        let whole = r#"{"trajectory": [{"action": "ls", "observation": "password=swordfish"}]}"#;
        let tool = crate::format::tool("a.traj", whole.as_bytes()).unwrap();
        let name = OsString::from("a.traj");
        let dir = RunDir::of_tool(root.clone(), std::path::PathBuf::new(), name, tool);
        let found = |max| {
            let preview = RedactionPreview::of(&dir, &[], max).unwrap();
            (preview.blanked.found(), preview.is_whole, preview.too_long)
        };
        std::fs::write(root.join("a.traj"), whole).unwrap();
        assert!(dir.is_document());
        let size = whole.len() as u64;
        assert_eq!(found(u64::MAX), (1, true, 0));
        assert_eq!(
            (found(size), found(size - 1)),
            ((1, true, 0), (0, false, 0))
        );
        // Takes no space on disk. Memory for it would be asked for at once.
        let file = File::options().write(true).open(root.join("a.traj"));
        file.unwrap().set_len(1 << 40).unwrap();
        assert_eq!(found(u64::MAX), (0, true, 1));
        assert!(RedactedRun::of(&dir).is_err());
    }

    #[test]
    fn lines_are_bounded_and_a_last_piece_stays_one() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RunDir::alone(temp.path());
        let long = format!(
            "{{\"step_id\": 0, \"text\": \"{}\"}}",
            "x".repeat(KEPT_BYTES)
        );
        for (last, copy) in [
            ("", ""),
            (
                "{\"step_id\": 3, \"password\": \"swordfish\"}",
                "{\"step_id\": 3, \"password\": \"__redacted__\"}",
            ),
            ("{\"step_id\": 3, \"password\": \"swordfi", "{"),
            ("  ", "{"),
        ] {
            let text = format!("{{\"step_id\": 1}}\n\n{long}\nno JSON\n{last}");
            std::fs::write(dir.file(TraceFile::Steps), &text).unwrap();
            let (run, written) = copied(&dir);
            assert_eq!(
                written,
                format!("{{\"step_id\": 1}}\n\n\"__redacted__\"\n\"__redacted__\"\n{copy}")
            );
            assert_eq!(
                run.index().steps().len(),
                read_index(&dir).steps().len(),
                "{last}"
            );
        }
    }

    #[test]
    fn each_line_keeps_the_start_of_a_long_one_across_chunks() {
        let long = "y".repeat(2 * KEPT_BYTES);
        let text = format!("a\n{long}\nb\n\nc");
        let mut lines = Vec::new();
        let mut input = BufReader::with_capacity(1 << 16, text.as_bytes());
        each_line(&mut input, &mut |line, ended| {
            lines.push((line.len(), line.first().copied(), ended));
            Ok(())
        })
        .unwrap();
        let (a, b, c, y) = (Some(b'a'), Some(b'b'), Some(b'c'), Some(b'y'));
        assert_eq!(
            lines,
            [
                (1, a, true),
                (KEPT_BYTES, y, true),
                (1, b, true),
                (0, None, true),
                (1, c, false)
            ]
        );
    }
}
