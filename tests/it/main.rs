//! The one integration binary: the real `board`, driven from outside.

#![cfg(test)] // Always so; clippy lets tests unwrap where it sees this.

#[path = "../support/board.rs"]
mod board;
#[path = "../support/disk.rs"]
mod disk;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/sse.rs"]
mod sse;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/writer.rs"]
mod writer;

mod architecture;
mod cli;
mod demo;
mod format;
mod live;
mod pages;
mod props;
mod tables;
mod traces;
