//! Makes addresses that open a file of a run in the person's editor, such as
//! `vscode://file/home/me/p/a.rs:10`.
//!
//! A path in a trace is what its author wrote, so it's checked before it's linked: it must lie
//! within the run's working directory, and be a file on this machine now. Must not know pages.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The longest pattern, and the longest path that is linked; bytes.
const MAX_LEN: usize = 1_000;
/// Maximum number of words of a message that are looked up as names of files.
const MAX_WORDS: usize = 8;
/// The editors that are known by name, with their patterns.
const EDITORS: [(&str, &str); 4] = [
    ("vscode", "vscode://file{path}:{line}"),
    ("cursor", "cursor://file{path}:{line}"),
    ("zed", "zed://file{path}:{line}"),
    ("idea", "idea://open?file={path}&line={line}"),
];
/// Schemes that run or show something in the browser.
const NO_EDITORS: [&str; 9] = [
    "javascript",
    "data",
    "vbscript",
    "blob",
    "about",
    "file",
    "filesystem",
    "view-source",
    "ws",
];

/// The person's editor, as the pattern of its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Editor {
    pattern: Box<str>,
}

/// A file of a run that was on this machine when it was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditorFile<'a> {
    pattern: &'a str,
    /// Its path with percent encoding.
    encoded: String,
}

impl EditorFile<'_> {
    /// Returns the address that opens the file at a line counted from 1.
    pub(crate) fn at(&self, line: Option<usize>) -> String {
        let line = line.unwrap_or(1).max(1).to_string();
        // The path has no braces any more.
        self.pattern
            .replace("{path}", &self.encoded)
            .replace("{line}", &line)
    }
}

/// A name of a file and a line in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePlace {
    /// As the message has it: `src/a.rs:10`.
    pub words: String,
    /// The address that opens it.
    pub address: String,
}

impl Editor {
    /// Reads a setting: the name of an editor, or a pattern with `{path}` and maybe `{line}`.
    ///
    /// # Errors
    /// Says what is wrong with the setting.
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        let known = EDITORS.iter().find(|(name, _)| *name == written);
        let pattern = known.map_or(written, |(_, pattern)| *pattern);
        let Some((scheme, _)) = pattern
            .split_once(':')
            .filter(|_| known.is_some() || pattern.contains("{path}"))
        else {
            let names = EDITORS.map(|(name, _)| name).join(", ");
            return Err(format!(
                "must be {names}, or a pattern such as \"vscode://file{{path}}:{{line}}\", not \"{written}\""
            ));
        };
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if !is_scheme || NO_EDITORS.contains(&scheme.to_ascii_lowercase().as_str()) {
            return Err(format!("`{scheme}:` can't open an editor"));
        }
        let is_plain = |c: char| c.is_ascii_graphic() && !"\"'<>`\\".contains(c);
        if pattern.len() > MAX_LEN || !pattern.chars().all(is_plain) {
            return Err("a pattern has at most 1,000 letters, and no spaces or quotes".to_owned());
        }
        Ok(Self {
            pattern: pattern.into(),
        })
    }

    /// Returns the address that opens a file of a run, at a line counted from 1. `None` if the file
    /// isn't within `project`, the run's working directory, or doesn't exist on this machine now.
    pub(crate) fn address(&self, path: &str, project: &str, line: Option<usize>) -> Option<String> {
        Some(self.file(path, project)?.at(line))
    }

    /// Looks for a file of a run as [`Self::address`] does, for the addresses of several lines.
    pub(crate) fn file(&self, path: &str, project: &str) -> Option<EditorFile<'_>> {
        let file = file_within(path, project)?;
        let mut encoded = String::new();
        for byte in file.to_str()?.bytes() {
            match byte {
                b'/' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
                _ => {
                    let _ = write!(encoded, "%{byte:02X}");
                }
            }
        }
        Some(EditorFile {
            pattern: &self.pattern,
            encoded,
        })
    }

    /// Finds the first name of a file with a line in a message: `a.py:3: error`, or Python's
    /// `File "a.py", line 3`.
    pub(crate) fn place_in(&self, message: &str, project: &str) -> Option<FilePlace> {
        let mut places = places(message).take(MAX_WORDS);
        places.find_map(|(path, line)| {
            Some(FilePlace {
                words: format!("{path}:{line}"),
                address: self.address(path, project, Some(line))?,
            })
        })
    }
}

/// Returns the names with lines in a message.
fn places(message: &str) -> impl Iterator<Item = (&str, usize)> {
    let python = message.split("File \"").skip(1).filter_map(|rest| {
        let (path, rest) = rest.split_once("\", line ")?;
        Some((path, leading(rest)?))
    });
    let is_edge = |c: char| c.is_whitespace() || "\"'`()[]<>,;|=".contains(c);
    let plain = message.split(is_edge).filter_map(|word| {
        // The number follows the first colon after the name: `src/a.rs:3:5:`.
        let start = if word.get(1..3) == Some(":\\") { 3 } else { 0 };
        let colon = start + word.get(start..)?.find(':')?;
        let (path, rest) = (word.get(..colon)?, word.get(colon + 1..)?);
        let is_name = path.contains(['.', '/']) && !rest.starts_with('/');
        Some((path, leading(rest)?)).filter(|_| is_name)
    });
    python.chain(plain)
}

/// Returns the number that a text begins with.
fn leading(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok().filter(|line| *line > 0)
}

/// Returns the real path of a file within a project. Links that lead elsewhere aren't followed.
fn file_within(path: &str, project: &str) -> Option<PathBuf> {
    let is_odd =
        |text: &str| text.is_empty() || text.len() > MAX_LEN || text.chars().any(char::is_control);
    if is_odd(path) || is_odd(project) {
        return None;
    }
    let (project, path) = (Path::new(project), Path::new(path));
    let climbs = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    // The root of the disk contains every file.
    if !project.is_absolute() || project.parent().is_none() || climbs(project) || climbs(path) {
        return None;
    }
    let path = project.join(path);
    if !path.starts_with(project) {
        return None;
    }
    let (real, within) = (
        fs::canonicalize(&path).ok()?,
        fs::canonicalize(project).ok()?,
    );
    let is_file = fs::metadata(&real).is_ok_and(|found| found.is_file());
    let is_own = within.parent().is_some() && real.starts_with(&within);
    (is_own && is_file).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vscode() -> Editor {
        Editor::parse("vscode").unwrap()
    }

    #[test]
    fn an_editor_is_a_name_or_a_pattern() {
        for name in [
            "vscode",
            "cursor",
            "zed",
            "idea",
            "emacs://open?url=file://{path}&line={line}",
            "x:{path}",
        ] {
            assert!(Editor::parse(name).is_ok(), "{name}");
        }
        for (odd, why) in [
            ("vim", "must be vscode, cursor, zed, idea, or a pattern"),
            ("", "must be"),
            ("vscode://file", "must be"),
            ("javascript:alert('{path}')", "`javascript:` can't open"),
            ("JavaScript:{path}", "can't open an editor"),
            ("data:text/html,{path}", "`data:` can't"),
            ("{path}:x", "`{path}:` can't"),
            ("x:{path} {line}", "no spaces or quotes"),
            ("x:\"{path}", "no spaces or quotes"),
        ] {
            let error = Editor::parse(odd).unwrap_err();
            assert!(error.contains(why), "{odd}: {error}");
        }
    }

    #[test]
    fn only_files_within_the_project_are_linked() {
        let dir = tempfile::tempdir().unwrap();
        let project = fs::canonicalize(dir.path()).unwrap().join("p");
        fs::create_dir_all(project.join("src")).unwrap();
        fs::write(project.join("src/a b#?.rs"), "x").unwrap();
        fs::write(project.join("a.py"), "x").unwrap();
        fs::write(dir.path().join("secret"), "x").unwrap();
        let root = project.to_str().unwrap();
        let at = |path: &str| vscode().address(path, root, Some(10));
        let expected = format!("vscode://file{root}/a.py:10");
        assert_eq!(at("a.py"), Some(expected.clone()));
        assert_eq!(at(&format!("{root}/a.py")), Some(expected));
        let odd = at("src/a b#?.rs").unwrap();
        assert!(odd.ends_with("/src/a%20b%23%3F.rs:10"), "{odd}");
        assert_eq!(
            vscode().address("a.py", root, None),
            Some(format!("vscode://file{root}/a.py:1"))
        );
        let editor = vscode();
        let file = editor.file("a.py", root).unwrap();
        let lines = [None, Some(0), Some(7)].map(|line| file.at(line));
        let expected = [1, 1, 7].map(|line| format!("vscode://file{root}/a.py:{line}"));
        assert_eq!(lines, expected);
        for path in [
            "none.py",
            "src",
            "",
            ".",
            "../secret",
            "src/../../secret",
            "src/../a.py",
            "/etc/passwd",
            "a.py\0",
            "a.py\n",
        ] {
            assert_eq!(at(path), None, "{path}");
        }
        for project in ["", "/", "p", "/etc/..", "//"] {
            assert_eq!(
                vscode().address("etc/passwd", project, None),
                None,
                "{project}"
            );
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(dir.path().join("secret"), project.join("out")).unwrap();
            assert_eq!(at("out"), None, "a link that leads out of the project");
        }
    }

    #[test]
    fn messages_name_files_with_lines() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(root.join("src")).unwrap();
        fs::write(root.join("src/a.rs"), "x").unwrap();
        let root = root.to_str().unwrap();
        let found = |message: &str| {
            let place = vscode().place_in(message, root)?;
            assert!(place.address.ends_with(&place.words), "{place:?}");
            Some(place.words)
        };
        let known = Some("src/a.rs:3".to_owned());
        for message in [
            "src/a.rs:3:5: error: expected `;`",
            "  --> src/a.rs:3:5",
            "12:30:00 error at (src/a.rs:3)",
            "File \"src/a.rs\", line 3, in <module>",
            "none.rs:1 src/a.rs:3",
        ] {
            assert_eq!(found(message), known, "{message}");
        }
        for message in [
            "src/a.rs",
            "src/a.rs:x",
            "http://src/a.rs:3",
            "a.rs:3",
            "src/a.rs:0",
            "",
        ] {
            assert_eq!(found(message), None, "{message}");
        }
    }
}
