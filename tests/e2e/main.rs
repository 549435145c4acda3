//! Browser tests: behavior that only a real browser can show.

#![cfg(test)] // Always so; clippy lets tests unwrap where it sees this.

#[path = "../support/board.rs"]
#[expect(
    dead_code,
    reason = "shared with the integration tests, which use more of it"
)]
mod board;
#[path = "../support/disk.rs"]
mod disk;
#[path = "../support/engine_runs.rs"]
mod engine_runs;
#[path = "../support/heavy.rs"]
mod heavy;
#[path = "../support/highest_score.rs"]
mod highest_score;
#[path = "../support/hostile.rs"]
#[expect(dead_code, reason = "only a comparison needs harmless texts")]
mod hostile;
#[path = "../support/http.rs"]
#[expect(
    dead_code,
    reason = "shared with the integration tests, which use more of it"
)]
mod http;
#[path = "../support/soak.rs"]
mod soak;
#[path = "../support/wait.rs"]
mod wait;
#[path = "../support/writer.rs"]
mod writer;

mod cdp;
mod compare;
mod driver;
mod export;
mod jobs;
mod keys;
mod list;
mod live;
mod looks;
mod overview;
mod page;
mod reading;
mod replay;
mod scores;
mod site;
mod steps;
mod sweep;
mod tell;
mod transcript;
mod way;
mod whatif;
