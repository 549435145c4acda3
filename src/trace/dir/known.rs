//! What does a board keep of a run beside its index: where it lies, written down so that its row can be shown before its
//! files are here, and its records, unpacked.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Holder, Member, RunDir, Shape};
use crate::format::{number_of, numbered};

/// A run below a root. Only the build that wrote it understands it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLocation {
    /// The way from the root to its directory.
    below: PathBuf,
    /// The number of its tool and the name of its file, where it is one.
    single: Option<(usize, PathBuf)>,
    /// Of a run that shares its file, its name there; none stands for the file itself. Alone, the two would both be null.
    member: Option<(Option<String>,)>,
}

impl RunDir {
    /// Whether another of the same path is read in the same way: their files are the traces of one tool.
    pub fn is_read_as(&self, other: &Self) -> bool {
        self.tool().map(std::ptr::from_ref) == other.tool().map(std::ptr::from_ref)
    }

    /// Unpacks the records, where they lie in an archive, so that reading them and then parts of them unpacks them once.
    pub fn unpack(&self) {
        self.member.iter().for_each(Member::unpack);
    }

    /// What tells where it lies, without its root.
    pub fn known(&self) -> Option<RunLocation> {
        let single = match &self.single {
            Some((tool, name)) => Some((number_of(tool)?, PathBuf::from(&**name))),
            None => None,
        };
        let member = self
            .member
            .as_ref()
            .map(|member| (member.name().map(str::to_owned),));
        Some(RunLocation {
            below: self.below.to_path_buf(),
            single,
            member,
        })
    }

    /// The run that was written down so, below `root`. Nothing is looked at.
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
            members > 1 && found.values().any(|dir| dir.single.is_none()),
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
