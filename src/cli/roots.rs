//! The runs below several directories, for the commands that sum them up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command::tags_for;
use super::config::Settings;
use super::{serve, sessions, stores};
use crate::analysis::query::Query;
use crate::analysis::summary::Summary;
use crate::error::{Error, Kind, Result};
use crate::live::Library;

/// The directories to read.
#[derive(Debug, clap::Args)]
pub(super) struct Roots {
    /// Directories to search, up to 8 levels deep [default: the roots in the settings, else ./runs]
    #[arg(value_name = "ROOT")]
    roots: Vec<PathBuf>,
    /// Also read this user's coding-agent sessions
    #[arg(long)]
    sessions: bool,
}

impl Roots {
    /// Reads all runs, without duplicates, as [`Self::library`] does.
    pub(super) fn runs(
        &self,
        settings: &Settings,
        queries: &[&Query],
        hint: &str,
    ) -> Result<Vec<Arc<Summary>>> {
        let (runs, _) = self.library(settings, queries, hint)?.listed(false);
        Ok(runs.iter().map(|run| run.summary()).collect())
    }

    /// Reads all runs, and the user's tags for these queries. Fails if a directory can't be read;
    /// `hint` then says how to pass one.
    pub(super) fn library(
        &self,
        settings: &Settings,
        queries: &[&Query],
        hint: &str,
    ) -> Result<Library> {
        let tags = tags_for(queries)?;
        let config = settings.read()?;
        let (roots, _) = serve::roots(&self.roots, self.sessions, &config, sessions::places())?;
        for root in &roots {
            stores::refuse(root)?;
        }
        let library = Library::load_with(roots, config.prices, tags);
        for root in library.status().roots {
            if let Some(fault) = root.fault {
                return Err(no_runs(&root.path, &fault).hint(hint));
            }
        }
        Ok(library)
    }
}

/// Says that a directory has no runs, and why.
pub(super) fn no_runs(root: &Path, fault: &str) -> Error {
    Error::new(
        Kind::NotFound,
        format!("no runs in {}: {fault}", root.display()),
    )
}
