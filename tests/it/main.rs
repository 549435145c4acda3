//! The integration tests, in one binary: the real `board`, driven from outside.

#![cfg(test)] // Always so; clippy lets tests unwrap where it sees this.

#[path = "../support/archives.rs"]
mod archives;
#[path = "../support/board.rs"]
mod board;
#[path = "../support/chance.rs"]
mod chance;
#[path = "../support/client.rs"]
mod client;
#[path = "../support/disk.rs"]
mod disk;
#[expect(
    dead_code,
    reason = "some faults are played in the library's own tests only"
)]
#[path = "../support/endpoint.rs"]
mod endpoint;
#[path = "../support/engine_runs.rs"]
mod engine_runs;
#[path = "../support/heavy.rs"]
mod heavy;
#[path = "../support/highest_score.rs"]
mod highest_score;
#[path = "../support/hostile.rs"]
#[expect(dead_code, reason = "the name that only a browser can look for")]
mod hostile;
#[path = "../support/html.rs"]
mod html;
#[path = "../support/http.rs"]
mod http;
#[cfg(target_os = "linux")]
#[path = "../support/memory.rs"]
mod memory;
#[path = "../support/demo/mod.rs"]
mod programs;
#[expect(unreachable_pub, reason = "the fuzz targets call them from outside")]
#[path = "../../fuzz/src/lib.rs"]
mod properties;
#[path = "../support/pulse.rs"]
mod pulse;
#[path = "../support/soak.rs"]
mod soak;
#[path = "../support/sse.rs"]
mod sse;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/writer.rs"]
mod writer;

#[cfg(unix)]
mod action;
mod architecture;
mod away;
#[cfg(target_os = "linux")]
mod bombs;
mod cases;
mod changed;
mod circles;
mod cli;
mod compare;
mod delegates;
mod demo;
mod edits;
#[cfg(target_os = "linux")]
mod ends;
mod engine;
#[expect(unreachable_pub, reason = "each example is a separate program")]
mod examples;
mod experiment;
#[cfg(unix)]
mod failures;
mod faults;
mod format;
mod formats;
mod fuzzed;
mod hostile_texts;
mod killed;
mod laps;
mod list;
mod live;
mod mcp;
mod openapi;
mod other_engines;
mod overview;
mod pages;
mod props;
mod reader;
mod replay;
mod requests;
mod resumed;
mod run;
mod scores;
mod search;
mod settings;
mod share;
mod state;
mod step_rows;
#[cfg(target_os = "linux")]
mod swaps;
mod sweep;
mod table;
mod tables;
mod tag;
mod tallies;
mod traces;
mod transcript;
mod unknown;
mod whatif;
mod why;
mod written;
