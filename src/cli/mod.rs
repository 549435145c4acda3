//! How is it typed? The only room that knows clap.
