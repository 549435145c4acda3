//! Finds the sessions of common coding agents: directories in the user's home, some of which a
//! variable can move. Only checks whether they exist, and opens no files in them.

use std::ffi::OsString;
use std::path::PathBuf;

use super::config::home;
use crate::live::Elsewhere;

/// The tool, the variable for its directory, that directory in the home, and where it contains the
/// sessions. Without a directory in the home, only the variable names it.
const TOOLS: [(&str, &str, &str, &str); 13] = [
    ("Claude Code", "CLAUDE_CONFIG_DIR", ".claude", "projects"),
    ("Codex", "CODEX_HOME", ".codex", "sessions"),
    // Sessions archived by the user.
    ("Codex", "CODEX_HOME", ".codex", "archived_sessions"),
    ("Gemini CLI", "", ".gemini", "tmp"),
    ("Qwen Code", "", ".qwen", "projects"),
    ("Pi", "PI_CODING_AGENT_DIR", ".pi/agent", "sessions"),
    ("Pi", "PI_CODING_AGENT_SESSION_DIR", "", ""),
    (
        "GitHub Copilot CLI",
        "COPILOT_HOME",
        ".copilot",
        "session-state",
    ),
    ("Kimi Code", "KIMI_CODE_HOME", ".kimi-code", "sessions"),
    ("Mistral Vibe", "VIBE_HOME", ".vibe", "logs/session/unified"),
    ("Cline", "CLINE_DIR", ".cline", "data/sessions"),
    ("Cline", "CLINE_DATA_DIR", "", "sessions"),
    ("Continue", "CONTINUE_GLOBAL_DIR", ".continue", "sessions"),
];

/// Returns the directories that exist.
pub(super) fn places() -> Vec<Elsewhere> {
    among(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn among(var: impl Fn(&str) -> Option<OsString>) -> Vec<Elsewhere> {
    let home = home(&var);
    let place = |(tool, name, below, sessions): (&'static str, &str, &str, &str)| {
        let moved = if name.is_empty() {
            None
        } else {
            var(name).map(PathBuf::from)
        };
        let home = home.as_ref().filter(|_| !below.is_empty());
        let mut dir = moved.or_else(|| Some(home?.join(below)))?;
        if !sessions.is_empty() {
            dir.push(sessions);
        }
        dir.is_dir().then_some(Elsewhere { tool, dir })
    };
    TOOLS.into_iter().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_named_and_a_variable_moves_it() {
        let home = tempfile::tempdir().unwrap();
        let moved = tempfile::tempdir().unwrap();
        let archived = moved.path().join("archived_sessions");
        let dirs = [
            home.path().join(".claude/projects"),
            home.path().join(".codex"),
            home.path().join(".pi/agent/sessions"),
            moved.path().join("sessions"),
        ];
        for dir in dirs.iter().chain([&archived]) {
            std::fs::create_dir_all(dir).unwrap();
        }
        let places = among(|name| match name {
            "HOME" | "USERPROFILE" => Some(home.path().into()),
            "CODEX_HOME" | "PI_CODING_AGENT_SESSION_DIR" => Some(moved.path().into()),
            _ => None,
        });
        let named: Vec<_> = places
            .iter()
            .map(|place| (place.tool, place.dir.clone()))
            .collect();
        let expected = [
            ("Claude Code", home.path().join(".claude/projects")),
            ("Codex", moved.path().join("sessions")),
            ("Codex", archived),
            ("Pi", home.path().join(".pi/agent/sessions")),
            ("Pi", moved.path().to_owned()),
        ];
        assert_eq!(named, expected);
        assert_eq!(among(|_| None), []);
    }
}
