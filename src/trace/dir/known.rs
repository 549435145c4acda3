//! Stores the location of a run, so that its row can be shown before its files are available, and
//! decompresses its records.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Holder, Member, RunDir, Shape};
use crate::format::{number_of, numbered};

/// The location of a run below a root. Only the build that wrote it can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLocation {
    /// The path from the root to the run's directory.
    below: PathBuf,
    /// The number of the tool and the file's name, if the run is a single file.
    single: Option<(usize, PathBuf)>,
    /// The run's name inside its file, if several runs share the file. The inner `None` means
    /// the file itself. The tuple keeps both `None`s distinct in JSON.
    member: Option<(Option<String>,)>,
}

impl RunDir {
    /// Returns whether another run at the same path is read the same way, because both are traces
    /// of the same tool.
    pub fn is_read_as(&self, other: &Self) -> bool {
        self.tool().map(std::ptr::from_ref) == other.tool().map(std::ptr::from_ref)
    }

    /// Decompresses the records if they are in an archive, so that reading them and then parts of
    /// them decompresses them once.
    pub fn unpack(&self) {
        self.member.iter().for_each(Member::unpack);
    }

    /// Returns the run's location without its root.
    pub fn known(&self) -> Option<RunLocation> {
        let single = match &self.base.single {
            Some((tool, name)) => Some((number_of(tool)?, PathBuf::from(&**name))),
            None => None,
        };
        let member = self
            .member
            .as_ref()
            .map(|member| (member.name().map(str::to_owned),));
        Some(RunLocation {
            below: self.base.below.to_path_buf(),
            single,
            member,
        })
    }

    /// Returns the run at a stored location below `root`, without accessing any files.
    pub fn of_known(root: PathBuf, known: RunLocation) -> Option<Self> {
        let Some((tool, name)) = known.single else {
            return Some(Self::new(root, known.below));
        };
        let tool = numbered(tool)?;
        let run = Self::of_tool(root.clone(), known.below.clone(), name.clone().into(), tool);
        match (tool.shape, known.member) {
            (Shape::Several(how), Some((member,))) => {
                let holder = Holder::new(root, known.below, name.into(), how);
                Some(Self::of_member(
                    Member::new(Arc::new(holder), member.map(Arc::from)),
                    run,
                ))
            }
            (_, member) => Some(run).filter(|_| member.is_none()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::RootScanner;

    #[test]
    fn runs_of_every_format_are_written_down_and_found_again() {
        let root =
            std::fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/sample_runs")).unwrap();
        let found = RootScanner::new(root.clone()).scan().runs;
        let members = found.values().filter(|dir| dir.member.is_some()).count();
        assert!(
            members > 1 && found.values().any(|dir| dir.base.single.is_none()),
            "{members}"
        );
        for dir in found.into_values() {
            let text = serde_json::to_string(&dir.known().unwrap()).unwrap();
            let again =
                RunDir::of_known(root.clone(), serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(
                (again.path(), again.below(), again.has_files()),
                (dir.path(), dir.below(), dir.has_files())
            );
            assert_eq!(again.bytes(), dir.bytes(), "{}", dir.path().display());
        }
    }
}
