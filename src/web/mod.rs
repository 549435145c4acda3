//! How is it asked for? The only room that knows axum.
