//! Tests that a client ends up with the correct view, whatever happens to the files, the watcher,
//! the server and the writers.
//!
//! Faults are chosen by a seed and played on the directory of a real board while a client listens.
//! The client requests data only when its streams announce changes. After every few faults, it must
//! see the same as a client of a fresh board on the same directory. `BOARD_FAULTS=SEED:COUNT` plays
//! COUNT seeds starting at SEED. A failure reports its seed and what was played.

mod acts;
mod writers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::chance::Chance;
use crate::client::{Client, differences_after};
use crate::disk::{copy, corpus};
use crate::soak::times;
use crate::writer::Writer;
use acts::Act;

/// While the system reports changes, the board checks unreported changes once a minute. It checks
/// its roots less often the longer a scan takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// How the board detects changes.
#[derive(Debug, Clone, Copy)]
enum Watch {
    Native,
    Poll,
}

/// A directory, a board that watches it and a client that listens.
struct Play {
    dir: tempfile::TempDir,
    watch: Watch,
    board: Board,
    client: Client,
    chance: Chance,
    played: Vec<String>,
}

impl Play {
    fn start(watch: Watch, seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("runs");
        copy(&corpus().join("q060/q060_redaction"), &root.join("copied"));
        for (name, steps) in [("short", 3), ("deep/er", 12), ("long", 150)] {
            let mut writer = Writer::start(&root.join(name));
            (0..steps)
                .for_each(|n| writer.step(&format!("result {n} {}", "of many ".repeat(n % 40))));
            writer.finish("final");
        }
        Writer::start(&root.join("growing")).step("one");
        let board = serve(&root, 0, watch);
        let client = Client::new(board.address, true);
        Self {
            dir,
            watch,
            board,
            client,
            chance: Chance::new(seed),
            played: Vec::new(),
        }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("runs")
    }

    /// Plays a few acts, or as many as requested. In between, the board sometimes gets time to see
    /// each of them separately.
    fn play(&mut self, acts: Option<u64>) {
        let acts = acts.unwrap_or_else(|| self.chance.below(3) + 1);
        for _ in 0..acts {
            if self.chance.once_in(12) {
                self.played
                    .push("the board is killed and started again".to_owned());
                self.restart();
            }
            let act = Act::any(&mut self.chance);
            self.played.push(format!("{act:?}"));
            if let Some(told) = act.play(
                &self.root(),
                &self.dir.path().join("aside"),
                &mut self.chance,
            ) {
                self.played.push(format!("    {told}"));
            }
            if self.chance.once_in(2) {
                self.client.catch_up();
            }
        }
    }

    fn restart(&mut self) {
        self.board.terminate("-KILL");
        self.board = serve(&self.root(), self.board.address.port(), self.watch);
    }

    /// Waits until the client sees the same as a client of a fresh board. Returns the remaining
    /// differences.
    fn compare(&mut self) -> Vec<String> {
        let fresh = serve(&self.root(), 0, self.watch);
        fresh.until_read();
        differences_after(
            PATIENCE,
            &mut self.client,
            &mut Client::new(fresh.address, true),
        )
    }
}

fn serve(root: &std::path::Path, port: u16, watch: Watch) -> Board {
    let args: &[&str] = match watch {
        Watch::Native => &[],
        Watch::Poll => &["--poll", "0.3"],
    };
    Board::serve_with(root, port, args)
}

/// Plays the seeds named by the environment, with the number of acts that it sets, or a few by
/// default.
fn play(watch: Watch, seed: u64) {
    let named = std::env::var("BOARD_FAULTS").ok().map(|named| {
        let number = |part: &str| {
            part.parse()
                .expect("BOARD_FAULTS is SEED:COUNT or SEED:COUNT:ACTS")
        };
        named.split(':').map(number).collect::<Vec<u64>>()
    });
    let (first, count, acts) = match named.as_deref() {
        None => (seed, times(1, 2) as u64, None),
        Some([first, count]) => (*first, *count, None),
        Some([first, count, acts]) => (*first, *count, Some(*acts)),
        Some(other) => panic!("BOARD_FAULTS is SEED:COUNT or SEED:COUNT:ACTS, not {other:?}"),
    };
    // Number of comparisons with a fresh board per seed.
    let rounds = if named.is_some() { 6 } else { times(2, 6) };
    for seed in first..first + count {
        let mut play = Play::start(watch, seed);
        for round in 0..rounds {
            let start = Instant::now();
            play.play(acts);
            let differences = play.compare();
            assert!(
                differences.is_empty(),
                "seed {seed}, round {round}, {watch:?}; the listening client | a fresh one:\n{}\nplayed:\n{}",
                differences.join("\n"),
                play.played.join("\n")
            );
            if named.is_some() {
                eprintln!("{watch:?} seed {seed} round {round}: {:?}", start.elapsed());
            }
            play.played
                .push("--- the pictures were the same".to_owned());
        }
    }
}

#[test]
fn with_events_of_the_system() {
    play(Watch::Native, 1);
}

#[test]
fn by_looking_again_and_again() {
    play(Watch::Poll, 1001);
}
