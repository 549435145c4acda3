//! Replaces the mirror in builds without the feature `cloud`: an error instead of settings, so there are no mirrors.

use std::path::{Path, PathBuf};

use tokio::sync::watch::Receiver;

use super::{Address, Options, Status};
use crate::error::{Error, Kind, Result};

/// Settings that don't exist.
#[derive(Debug)]
pub(crate) enum Settings {}

impl Settings {
    /// # Errors
    /// Always.
    pub(crate) fn read(_: &Address) -> Result<Self> {
        let error = Error::new(Kind::Usage, "this build of board lacks object stores");
        Err(error.hint("build it with the feature cloud: cargo install --features cloud"))
    }
}

/// A mirror that doesn't exist.
#[derive(Debug)]
pub(crate) enum Mirror {}

/// Defines the methods of the mirror for callers. No one can call them.
macro_rules! methods {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        #[allow(missing_docs)]
        impl Mirror {
            pub(crate) fn follow(_: &Address, settings: Settings, _: Options) -> Result<Self> {
                match settings {}
            }
            $(pub(crate) fn $name(&self, $(_: $argument),*) -> $result {
                match *self {}
            })*
        }
    };
}

methods! {
    dir() -> &Path;
    address() -> &str;
    status() -> Status;
    has_evicted() -> bool;
    is_evicted(&[PathBuf]) -> bool;
    hold(&[PathBuf]) -> Option<()>;
    ask(&Path) -> ();
    news() -> Receiver<()>;
    failure(&Path) -> Option<String>;
    listen(impl Fn() + Send + 'static) -> ();
}
