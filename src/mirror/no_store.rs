//! What is there instead of a store in a board that was built without them: an error that says so.

use std::path::{Path, PathBuf};

use super::{Address, Options, Status};
use crate::error::{Error, Kind, Result};

/// There is none.
#[derive(Debug)]
pub enum Mirror {}

/// There are none.
#[derive(Debug)]
pub enum Settings {}

impl Settings {
    /// # Errors
    /// Always.
    pub fn read() -> Result<Self> {
        let error = Error::new(Kind::Usage, "this board was built without object stores");
        Err(error.hint("build it with the feature cloud: cargo install --features cloud"))
    }
}

impl Mirror {
    /// # Errors
    /// Never, since nobody has settings.
    pub fn follow(_: &Address, settings: Settings, _: Options) -> Result<Self> {
        match settings {}
    }

    /// Where the objects lie as files.
    pub fn dir(&self) -> &Path {
        match *self {}
    }

    /// The address that the person named.
    pub fn address(&self) -> &str {
        match *self {}
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        match *self {}
    }

    /// None was.
    pub fn has_evicted(&self) -> bool {
        match *self {}
    }

    /// None is.
    pub fn is_evicted(&self, _: &[PathBuf]) -> bool {
        match *self {}
    }

    /// They stay.
    pub fn hold(&self, _: &[PathBuf]) -> Option<()> {
        match *self {}
    }

    /// Nobody does.
    pub fn ask(&self, _: &Path) {
        match *self {}
    }

    /// There are none.
    pub fn news(&self) -> tokio::sync::watch::Receiver<()> {
        match *self {}
    }

    /// There is none.
    pub fn failure(&self, _: &Path) -> Option<String> {
        match *self {}
    }

    /// Nothing changes.
    pub fn listen(&self, _: impl Fn() + Send + 'static) {
        match *self {}
    }
}
