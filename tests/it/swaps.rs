//! Tests that replaced files can't mislead the board. A run's files and directories are swapped
//! with links, pipes and leased files while clients send requests: no response contains a byte from
//! outside the root, and no request hangs.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags, mknodat, renameat_with};

use crate::board::Board;
use crate::soak::times;
use crate::sse::Stream;
use crate::wait::until;
use crate::writer::Writer;

const SECRET: &str = "written outside of the root";

const ADDRESSES: [&str; 6] = [
    "/api/runs/a/raw",
    "/api/runs/a/steps/0",
    "/runs/a/steps/1/raw",
    "/runs/a/manifest/raw",
    "/runs/a/steps/0/assets/0",
    "/runs/a?tab=manifest",
];

/// Writes a run of two steps whose texts all contain `text`.
fn write_run(dir: &Path, text: &str) {
    let mut writer = Writer::start(dir);
    writer.step(text);
    writer.step(text);
    writer.finish(text);
    let steps = dir.join("steps.jsonl");
    let with_picture = r#""visual_assets":[{"path":"assets/picture.png"}],"step_id""#;
    let lines = fs::read_to_string(&steps).unwrap();
    fs::write(&steps, lines.replace(r#""step_id""#, with_picture)).unwrap();
    fs::create_dir(dir.join("assets")).unwrap();
    fs::write(dir.join("assets/picture.png"), text).unwrap();
}

fn exchange(a: &Path, b: &Path) {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

fn pipe(at: &Path) {
    mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn names_that_change_what_they_stand_for() {
    let dir = tempfile::tempdir().unwrap();
    let (root, aside, outside) = (
        dir.path().join("runs"),
        dir.path().join("aside"),
        dir.path().join("outside"),
    );
    let run = root.join("a");
    write_run(&run, "inside");
    write_run(&outside.join("hidden-name"), SECRET);
    let outside = outside.join("hidden-name");
    fs::create_dir(&aside).unwrap();
    // Pairs of paths to swap.
    let mut pairs = Vec::new();
    for name in ["steps.jsonl", "manifest.json", "assets/picture.png"] {
        let (link, fifo) = (
            aside.join(format!("link-{}", pairs.len())),
            aside.join(format!("pipe-{}", pairs.len())),
        );
        symlink(outside.join(name), &link).unwrap();
        pipe(&fifo);
        pairs.extend([(run.join(name), link), (run.join(name), fifo)]);
    }
    symlink(&outside, aside.join("run")).unwrap();
    symlink(outside.parent().unwrap(), aside.join("parent")).unwrap();
    pairs.extend([
        (run.clone(), aside.join("run")),
        (run.clone(), aside.join("parent")),
    ]);

    let board = Board::serve(&root);
    board.until_read();
    let (answers, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let asking = ADDRESSES.map(|path| {
            let (board, answers, done) = (&board, &answers, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let answer = board.get(path);
                    let text = String::from_utf8_lossy(&answer.body);
                    assert!(
                        !text.contains(SECRET) && !text.contains("hidden-name"),
                        "{path}: {text}"
                    );
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let mut swaps = 0;
        // At least this many swaps, until this many responses have arrived.
        let (enough, heard) = (times(1_000, 10_000), times(120, 600));
        while (swaps < enough || answers.load(Ordering::Relaxed) < heard)
            && !asking.iter().any(|it| it.is_finished())
        {
            for (name, other) in &pairs {
                exchange(name, other);
                exchange(name, other);
                swaps += 2;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    // The board followed all this and shows the final state. Its last scan may have hit a moment
    // without the run, so the run may be missing until the next scan.
    until("the run is shown as it is", || {
        let answer = board.get("/api/runs/a");
        if answer.status == 404 {
            return None;
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        let run = answer.json();
        let whole = run["steps"] == 2 && run["issues_list"].as_array().is_some_and(Vec::is_empty);
        whole.then_some(())
    });
    let listed = board.get("/api/runs").text().to_owned();
    assert!(
        !listed.contains("hidden-name") && !listed.contains(SECRET),
        "{listed}"
    );
}

/// A program with a lease on a file. Opening the file blocks until the lease is released.
struct Lease(Child);

impl Lease {
    fn take(path: &Path) -> Self {
        // On Linux, F_SETLEASE is 1024 and F_WRLCK is 1. A lease is refused while another process
        // has the file open.
        let program = r#"open(F, "+<", $ARGV[0]) or die $!; $SIG{IO} = "IGNORE"; $| = 1;
            until (fcntl(F, 1024, 1)) { select(undef, undef, undef, 0.01) } print "held\n"; <STDIN>;"#;
        let mut child = Command::new("perl")
            .args(["-e", program])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether opening `path` would block.
fn is_leased(path: &Path) -> bool {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_writer_that_holds_a_lease_on_its_file_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("runs");
    let mut leased = Writer::start(&root.join("leased"));
    leased.step("one");
    let mut other = Writer::start(&root.join("other"));
    let board = Board::serve(&root);
    board.until_read();
    let file = root.join("leased/steps.jsonl");
    leased.step("two");
    until("both steps are read", || {
        (board.json("/api/runs/leased")["steps"] == 2).then_some(())
    });
    let lease = Lease::take(&file);
    let news = Stream::open(board.address, "/runs/leased/events");
    news.next();
    // Both the request for the file and the scan that this event triggers hit the lease.
    crate::writer::append(&root.join("leased/events.jsonl"), "{}");
    fs::write(root.join("leased/steps.jsonl.touched"), "").unwrap();
    let _ = board.get("/runs/leased/steps/0/raw");
    other.step("heard");
    until("the other run is heard of", || {
        (board.json("/api/runs/other")["steps"] == 1).then_some(())
    });
    assert!(is_leased(&file), "the lease outlasted all of this");
    let run = board.json("/api/runs/leased");
    assert_eq!(run["steps"], 2, "the known facts stay: {run}");
    drop(lease);
    leased.step("three");
    until("the run is heard of again", || {
        (board.json("/api/runs/leased")["steps"] == 3).then_some(())
    });
    assert_eq!(board.get("/runs/leased/steps/0/raw").status, 200);
}

#[test]
fn what_was_read_before_a_file_was_exchanged_is_said_to_be_old() {
    let dir = tempfile::tempdir().unwrap();
    let (root, aside) = (dir.path().join("runs"), dir.path().join("aside"));
    write_run(&root.join("a"), "inside");
    fs::create_dir_all(aside.join("directory")).unwrap();
    pipe(&aside.join("pipe"));
    symlink(dir.path().join("outside.jsonl"), aside.join("link")).unwrap();
    fs::write(dir.path().join("outside.jsonl"), SECRET).unwrap();
    let board = Board::serve(&root);
    board.until_read();
    let steps = root.join("a/steps.jsonl");
    let issues = || board.get("/runs/a?tab=issues").text().to_owned();
    const OLD: &str = "showing what was read before that, which may be out of date";
    assert!(!issues().contains(OLD));
    for name in ["directory", "pipe", "link"] {
        exchange(&steps, &aside.join(name));
        until(name, || issues().contains(OLD).then_some(()));
        assert_eq!(board.json("/api/runs/a")["steps"], 2, "{name}");
        exchange(&steps, &aside.join(name));
        until(name, || (!issues().contains(OLD)).then_some(()));
    }
}
