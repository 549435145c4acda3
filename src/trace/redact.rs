//! How is a run read without its secrets? From a copy in a directory of its own, in which they are blanked.
//!
//! The copy goes away with the value. The run directory itself is only read.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use super::{RunDir, RunReader};
use crate::model::redact::Secrets;
use crate::model::{Index, Lines, Span, TraceFile};

/// A larger manifest is left out of the copy.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;
const LINES: [TraceFile; 2] = [TraceFile::Steps, TraceFile::Events];

/// A run whose secrets are blanked.
#[derive(Debug)]
pub struct RedactedRun {
    index: Index,
    dir: RunDir,
    blanked: usize,
    _temp: tempfile::TempDir,
}

impl RedactedRun {
    /// Copies the run in `dir` without its secrets, and reads the copy.
    ///
    /// # Errors
    /// The files cannot be read, or the copy cannot be written.
    pub fn of(dir: &RunDir) -> io::Result<Self> {
        let manifest = dir.read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES).ok();
        let mut secrets = Secrets::default();
        manifest.iter().for_each(|text| secrets.collect(text));
        for file in LINES.into_iter().filter(|file| dir.stat(*file).is_ok()) {
            for line in dir.read_lines(file)? {
                secrets.collect(&line?);
            }
        }
        let temp = tempfile::tempdir()?;
        if let Some(manifest) = manifest {
            std::fs::write(temp.path().join(TraceFile::Manifest.name()), secrets.blank(&manifest))?;
        }
        for file in LINES.into_iter().filter(|file| dir.stat(*file).is_ok()) {
            let mut out = BufWriter::new(File::create(temp.path().join(file.name()))?);
            for line in dir.read_lines(file)? {
                let line = line?;
                let blank = line.iter().all(u8::is_ascii_whitespace);
                writeln!(out, "{}", if blank { String::new() } else { secrets.blank(&line) })?;
            }
            out.flush()?;
        }
        let copy = RunDir::alone(temp.path());
        let mut reader = RunReader::settling(copy.clone(), Duration::ZERO);
        let mut index = Index::default();
        loop {
            index.apply(reader.refresh(u64::MAX));
            if !index.is_partial() {
                break;
            }
        }
        Ok(Self { index, dir: copy, blanked: secrets.found(), _temp: temp })
    }

    /// What is known of the copy without reading a line.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// How many values stand under keys that name a secret.
    pub fn blanked(&self) -> usize {
        self.blanked
    }
}

impl Lines for RedactedRun {
    fn line(&self, file: TraceFile, span: Span) -> Result<Vec<u8>, String> {
        self.dir.read_span(file, span).map_err(|error| error.to_string())
    }

    fn manifest(&self) -> Result<Vec<u8>, String> {
        self.dir.read_all(TraceFile::Manifest, MAX_MANIFEST_BYTES).map_err(|error| error.to_string())
    }

    fn has_asset(&self, _: &str) -> Result<(), String> {
        Err("left out: nobody has looked for secrets in it".to_owned())
    }
}
