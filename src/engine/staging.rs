//! Copies a task's files into the workspace before the first step.
//!
//! Depends on tasks and files only, not on the run.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::task::{Resource, TaskIssue};

/// Copies each resource with a `mount_to` path. Returns an issue for the first one that can't be
/// copied.
///
/// Directories are copied recursively. A link inside a directory is refused, because it may lead
/// anywhere.
pub(super) fn stage(resources: &[Resource], workspace: Option<&Path>) -> Result<(), TaskIssue> {
    let Some(workspace) = workspace else {
        return Ok(());
    };
    for (place, resource) in resources.iter().enumerate() {
        let (Some(from), Some(to)) = (&resource.path, &resource.mount_to) else {
            continue;
        };
        match put(&workspace.join(from), workspace, Path::new(to)) {
            Ok(()) => {}
            // Optional resources may be missing. Required ones were already checked.
            Err(error) if error.kind() == ErrorKind::NotFound && !resource.required => {}
            Err(error) => {
                let message =
                    format!("{from:?} could not be copied to {to:?} in the workspace: {error}");
                return Err(TaskIssue::new(
                    "TASK_RESOURCE_NOT_STAGED",
                    format!("resources[{place}]"),
                    message,
                ));
            }
        }
    }
    Ok(())
}

fn put(from: &Path, workspace: &Path, to: &Path) -> io::Result<()> {
    let from = from.canonicalize()?;
    let root = workspace.canonicalize()?;
    let to = root.join(to);
    let Some(parent) = to.parent() else {
        return Err(ErrorKind::InvalidInput.into());
    };
    // A directory of the path may be a link. The first directory that exists must be inside the
    // workspace.
    let known = parent
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(&root);
    if !known.canonicalize()?.starts_with(&root) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "a link leads outside the workspace",
        ));
    }
    if to.starts_with(&from) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it would be copied into itself",
        ));
    }
    fs::create_dir_all(parent)?;
    copy(&from, &to)
}

/// Copies a file or directory to a path that doesn't exist yet.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?;
    if kind.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if !kind.is_file() {
        let wrong = format!("{} is neither a file nor a directory", from.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, wrong));
    }
    let mut made = fs::File::create_new(to)?;
    io::copy(&mut fs::File::open(from)?, &mut made)?;
    made.set_permissions(kind.permissions())
}

#[cfg(test)]
mod tests {
    use super::super::task::{ResourceKind, Task};
    use super::*;

    #[test]
    fn files_and_directories_are_copied_and_nothing_is_overwritten() {
        let (outside, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(outside.path().join("data/deep")).unwrap();
        fs::write(outside.path().join("data/deep/rows.csv"), "a,b").unwrap();
        let data = outside.path().join("data").display().to_string();
        let task = Task::new("Sum up.")
            .resource(Resource::at(ResourceKind::Dir, &*data).mount_to("in/data"))
            .resource(Resource::at(ResourceKind::File, "absent.txt").mount_to("in/absent.txt"));
        assert_eq!(task.issues(Some(workspace.path())), []);
        stage(&task.resources, Some(workspace.path())).unwrap();
        assert_eq!(
            fs::read_to_string(workspace.path().join("in/data/deep/rows.csv")).unwrap(),
            "a,b"
        );
        fs::write(workspace.path().join("in/data/deep/rows.csv"), "mine").unwrap();
        let issue = stage(&task.resources, Some(workspace.path())).unwrap_err();
        assert_eq!(
            (issue.code, &*issue.field),
            ("TASK_RESOURCE_NOT_STAGED", "resources[0]")
        );
        assert_eq!(
            fs::read_to_string(workspace.path().join("in/data/deep/rows.csv")).unwrap(),
            "mine"
        );
    }

    #[test]
    fn nothing_leaves_the_workspace() {
        let (outside, workspace) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(workspace.path().join("a.txt"), "a").unwrap();
        let wrong = |resource: Resource| {
            let task = Task::new("x").resource(resource);
            let known = task
                .issues(Some(workspace.path()))
                .first()
                .map(|issue| issue.code);
            known.or_else(|| {
                stage(&task.resources, Some(workspace.path()))
                    .err()
                    .map(|issue| issue.code)
            })
        };
        let file = || Resource::at(ResourceKind::File, "a.txt");
        for to in ["../b.txt", "/b.txt", "", "in/../../b.txt"] {
            assert_eq!(
                wrong(file().mount_to(to)),
                Some("TASK_RESOURCE_MOUNT_INVALID"),
                "{to}"
            );
        }
        assert_eq!(
            wrong(Resource::url("https://x.example").mount_to("b")),
            Some("TASK_RESOURCE_MOUNT_INVALID")
        );
        assert_eq!(
            wrong(Resource::at(ResourceKind::Dir, ".").mount_to("in")),
            Some("TASK_RESOURCE_NOT_STAGED")
        );
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outside.path(), workspace.path().join("out")).unwrap();
            assert_eq!(
                wrong(file().mount_to("out/b.txt")),
                Some("TASK_RESOURCE_NOT_STAGED")
            );
            assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        }
        assert_eq!(wrong(file().mount_to("in/b.txt")), None);
        let task = Task::new("x").resource(file().mount_to("b.txt"));
        assert_eq!(
            task.issues(None).first().map(|issue| issue.code),
            Some("TASK_RESOURCE_MOUNT_INVALID")
        );
    }
}
