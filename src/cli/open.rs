//! What commands add to a run that they read: the view of the pages and the exit code.

use std::path::Path;

use super::look::Look;
use crate::error::{Error, Kind, Result};
use crate::model::Index;
use crate::page::run_view::RunView;
use crate::recorded::RecordedRun;

/// Reads the run at `path`.
///
/// # Errors
/// It's in an object store, or fails like [`RecordedRun::open`].
pub(super) fn open(path: &Path, now: i64) -> Result<RecordedRun> {
    super::stores::refuse(path)?;
    RecordedRun::open_at(path, now)
}

impl RecordedRun {
    /// Returns the exit code of a command that explained the end of the run. A run that can't be
    /// read right now has no known end.
    pub(super) fn exit_code(&self) -> u8 {
        exit_code(&self.index)
    }

    /// Returns the view of the run that pages use.
    pub(super) fn view<'a>(&'a self, look: &'a Look) -> RunView<'a> {
        RunView {
            summary: &self.summary,
            index: &self.index,
            lines: self,
            now: look.now,
            stale: None,
            related_runs: &Vec::new,
            zone: &look.zone,
            editor: None,
            files: &|| Some(0),
        }
    }
}

fn exit_code(index: &Index) -> u8 {
    let error = index
        .away()
        .map(|away| Error::new(Kind::Unreadable, &*away.reason));
    error.map_or(0, |error| error.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Delta, Issue, IssueKind, TraceFile};

    #[test]
    fn a_run_that_cannot_be_read_right_now_exits_as_an_unreadable_one() {
        let with = |kind| {
            let reason = "can't be read right now: there is no space to decompress it".to_owned();
            let passing = vec![Issue {
                kind,
                file: TraceFile::Events,
                line: None,
                offset: None,
                reason,
            }];
            let mut index = Index::default();
            index.apply(Delta {
                passing,
                ..Delta::default()
            });
            exit_code(&index)
        };
        assert_eq!((with(IssueKind::Away), with(IssueKind::Torn)), (3, 0));
    }
}
