//! Lists where coding agents keep sessions in the user's home.

/// The tool, the variable for its directory, that directory in the home, and where it contains the
/// sessions. Without a directory in the home, only the variable names it.
pub(crate) const SESSION_HOMES: [(&str, &str, &str, &str); 19] = [
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
    ("Kimi CLI", "KIMI_SHARE_DIR", ".kimi", "sessions"),
    ("Mistral Vibe", "VIBE_HOME", ".vibe", "logs/session"),
    ("Cline", "CLINE_DIR", ".cline", "data/sessions"),
    ("Cline", "CLINE_DATA_DIR", "", "sessions"),
    ("Continue", "CONTINUE_GLOBAL_DIR", ".continue", "sessions"),
    ("gptme", "XDG_DATA_HOME", ".local/share", "gptme/logs"),
    ("gptme", "GPTME_LOGS_HOME", "", ""),
    ("Droid", "", ".factory", "sessions"),
    ("Amp", "XDG_DATA_HOME", ".local/share", "amp/threads"),
    // Sessions of versions before its database.
    (
        "OpenCode",
        "XDG_DATA_HOME",
        ".local/share",
        "opencode/storage",
    ),
];

/// Returns where agents keep sessions in a directory with this name, which begins with a dot and isn't
/// searched: paths that begin with the name.
pub(crate) fn hidden_sessions(name: &str) -> impl Iterator<Item = String> {
    let is_inside = move |home: &str| home.split('/').next() == Some(name);
    SESSION_HOMES
        .into_iter()
        .filter(move |(.., home, _)| is_inside(home))
        .map(|(.., home, sessions)| format!("{home}/{sessions}"))
}
