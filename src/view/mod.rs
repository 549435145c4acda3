//! How does it look? Typed pages and fragments; no axum, no files.
