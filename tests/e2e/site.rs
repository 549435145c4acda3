//! The board that browser tests use, over a directory that they may change.

use std::path::{Path, PathBuf};

use crate::board::Board;
use crate::disk::{copy, corpus};
use crate::page::Page;
use crate::wait::until;
use crate::writer::Writer;

/// A served directory.
#[derive(Debug)]
pub(crate) struct Site {
    // Dropped before the directory.
    pub(crate) board: Board,
    dir: tempfile::TempDir,
}

impl Site {
    /// A board over copies of `runs` from the corpus.
    pub(crate) fn with(runs: &[&str]) -> Self {
        Self::over(tempfile::tempdir().expect("a temporary directory"), runs)
    }

    /// A board over copies of `runs`, and one run of each kind that our own engine writes.
    pub(crate) fn with_ours(runs: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        crate::engine_runs::make(dir.path(), u32::MAX);
        Self::over(dir, runs)
    }

    fn over(dir: tempfile::TempDir, runs: &[&str]) -> Self {
        for run in runs {
            let name = Path::new(run).file_name().expect("a run has a name");
            copy(&corpus().join(run), &dir.path().join(name));
        }
        let board = Board::serve(dir.path());
        board.until_read();
        Self { board, dir }
    }

    /// A board that follows a run called `live` with `steps` steps, and a page that shows it.
    pub(crate) fn live(steps: usize) -> (Self, Writer, Page) {
        let site = Self::with(&[]);
        let mut writer = Writer::start(&site.path("live"));
        for n in 0..steps {
            writer.step(&format!("result {n}"));
        }
        until("the run is known", || {
            (site.board.get("/api/runs/live").status == 200).then_some(())
        });
        until("its steps are", || {
            (site.board.json("/api/runs/live")["steps"] == steps).then_some(())
        });
        let page = site.open("/runs/live");
        if let Some(last) = steps.checked_sub(1) {
            page.wait(&format!("document.querySelector('#step-{last}')"));
        }
        (site, writer, page)
    }

    /// Returns a path below the served directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the full address of `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.board.address)
    }

    /// Opens a new tab at `path`.
    pub(crate) fn open(&self, path: &str) -> Page {
        let page = Page::open();
        page.goto(&self.url(path));
        page
    }

    /// Kills the board and restarts it on the same port, calling `meanwhile` in between.
    pub(crate) fn restart(&mut self, meanwhile: impl FnOnce()) {
        self.board.terminate("-KILL");
        meanwhile();
        self.board = Board::serve_on(self.dir.path(), self.board.address.port());
    }
}
