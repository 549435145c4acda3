//! Runs a real writer that is killed at a random moment, or runs out of space.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::chance::Chance;
use crate::programs::{player, with_player};
use crate::wait::until;

/// Writes a run below `dir` and kills its writer after a number of bytes.
pub(super) fn killed(dir: &Path, chance: &mut Chance) {
    let bytes = chance.below(13_000);
    let mut child = play(&mut Command::new(player()), "plan", dir);
    until("the writer wrote so much", || {
        let size = std::fs::metadata(dir.join("plan/steps.jsonl")).map_or(0, |file| file.len());
        (size >= bytes || child.try_wait().unwrap().is_some()).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Writes a run with a file size limit of some KiB, which looks like a full disk.
pub(super) fn out_of_space(dir: &Path, chance: &mut Chance) {
    // The signal would end the process before it could write a verdict.
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec \"$@\"",
        66 + chance.below(70)
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script, "bash"]).arg(player());
    play(&mut shell, "long", dir).wait().unwrap();
}

fn play(command: &mut Command, scenario: &str, dir: &Path) -> Child {
    with_player(command, scenario, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
