//! Places recorded paths inside the project of a run. Only compares texts, because the paths may be
//! those of another machine.

/// Returns the part of a path below the project's directory. `None` if the path is elsewhere, or if the
/// project is unknown or the root of the disk, which would contain every path.
pub fn below_project<'a>(path: &'a str, project: &str) -> Option<&'a str> {
    let project = project.trim_end_matches('/');
    if project.len() < 2 {
        return None;
    }
    let inside = path.strip_prefix(project)?.strip_prefix('/')?;
    (!inside.is_empty()).then_some(inside)
}

/// Returns a path relative to the project, or the path itself if it's elsewhere.
pub fn relative<'a>(path: &'a str, project: &str) -> &'a str {
    below_project(path, project).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_the_project_are_relative() {
        for (path, project, shown) in [
            ("/p/a/b.rs", "/p", "a/b.rs"),
            ("/p/a/b.rs", "/p/", "a/b.rs"),
            ("/p", "/p", "/p"),
            ("/p/", "/p", "/p/"),
            ("/pq/a", "/p", "/pq/a"),
            ("/etc/passwd", "/", "/etc/passwd"),
            ("/etc/passwd", "", "/etc/passwd"),
            ("a/b.rs", "/p", "a/b.rs"),
        ] {
            assert_eq!(relative(path, project), shown, "{path} in {project}");
        }
    }
}
