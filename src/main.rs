//! The `board` command.

fn main() {}
