//! Tests that the tools do what they promise and nothing more.

mod files;
mod reading;
mod shell;

use std::fs;
use std::path::Path;

use super::Workspace;
use crate::engine::{OffLimits, Tool, ToolCx, ToolError};

/// A workspace next to a file that tools must not reach.
struct Place {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret.txt"), "the secret\n").unwrap();
        let workspace = Workspace::open(&dir.path().join("work")).unwrap();
        Self { dir, workspace }
    }

    fn root(&self) -> &Path {
        self.workspace.root()
    }

    fn outside(&self) -> std::path::PathBuf {
        self.dir.path().join("outside")
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }
}

/// Calls a tool with JSON arguments, as a model writes them.
async fn call<T: Tool>(tool: &T, args: serde_json::Value) -> Result<T::Output, ToolError> {
    let off_limits = OffLimits::default();
    call_beside(tool, args, &off_limits).await
}

/// Calls a tool while a run is recorded in a directory.
async fn call_beside<T: Tool>(
    tool: &T,
    args: serde_json::Value,
    off_limits: &OffLimits,
) -> Result<T::Output, ToolError> {
    let mut cx = ToolCx::alone();
    cx.off_limits = off_limits;
    tool.call(serde_json::from_value(args).unwrap(), cx).await
}
