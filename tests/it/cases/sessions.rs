//! Cases of sessions of Claude Code, Codex, Gemini CLI and Qwen Code.
