//! Tests that the board exits when told to, whatever it's doing, and reports when no more updates
//! can arrive.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::board::{BINARY, Board};
use crate::http;
use crate::sse::Stream;
use crate::wait::until;
use crate::writer::Writer;

/// Runs a program, and on SIGUSR1 stops its `board-scan` thread for good, as an unresponsive disk
/// would. Only a debugger may stop a single thread of another process, and by default only if it's
/// the parent. PTRACE_SEIZE is 0x4206 and PTRACE_INTERRUPT 0x4207. The program exits with its
/// parent: PR_SET_PDEATHSIG is 1.
const STOPS_THE_SCAN: &str = r#"
    my ($ptrace, $prctl) = `uname -m` =~ /aarch64/ ? (117, 167) : (101, 157);
    my $pid = fork;
    if (!$pid) { syscall($prctl, 1, 9, 0, 0, 0); exec @ARGV; die "$ARGV[0]: $!" }
    $SIG{TERM} = sub { kill "TERM", $pid };
    $SIG{USR1} = sub {
        for my $task (glob "/proc/$pid/task/*") {
            open my $file, "<", "$task/comm" or next;
            next unless <$file> eq "board-scan\n";
            my ($thread) = $task =~ /(\d+)$/;
            for my $request (0x4206, 0x4207) {
                syscall($ptrace, $request, $thread + 0, 0, 0) == 0 or die "ptrace: $!";
            }
        }
    };
    while ((my $ended = waitpid(-1, 0x40000000)) > 0) {
        if ($ended == $pid) { exit($? & 0x7f ? 128 + ($? & 0x7f) : $? >> 8) }
        print STDERR "thread $ended is stopped\n";
    }"#;

#[test]
fn a_board_whose_scan_thread_hangs_says_so_and_ends_when_it_is_told_to() {
    let root = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(&root.path().join("run"));
    writer.step("one");
    let mut command = Command::new("perl");
    command
        .args(["-e", STOPS_THE_SCAN, BINARY, "serve"])
        .arg(root.path())
        .args(["--no-cache", "--port", "0"]);
    let mut board = Board::spawn(command, root.path());
    board.until_read();
    let stream = Stream::open(board.address, "/runs/run/events");
    let first = stream.next();
    let stop = Command::new("kill")
        .args(["-USR1", &board.pid().to_string()])
        .status()
        .unwrap();
    assert!(stop.success());
    until("the thread is stopped", || {
        board.said().contains("is stopped").then_some(())
    });
    writer.step("unheard");
    until("the fault is reported", || {
        (board.get("/healthz").status == 503).then_some(())
    });
    assert!(stream.next() > first, "viewers of the run are notified");
    for page in ["/", "/runs/run"] {
        assert!(board.get(page).text().contains("not up to date"), "{page}");
    }
    assert_eq!(board.json("/api/runs/run")["steps"], 1, "it still hangs");
    assert_eq!(board.terminate("-TERM").code(), Some(0));
}

/// Writes a run that ended an hour ago, with `steps` steps of a megabyte each.
fn write_large(dir: &Path, steps: usize) {
    Writer::start(dir).finish("final");
    let text = "x".repeat(1_000_000);
    let mut file = fs::File::create(dir.join("steps.jsonl")).unwrap();
    for id in 0..steps {
        writeln!(file, "{{\"step_id\": {id}, \"text\": \"{text}\"}}").unwrap();
    }
    for file in ["manifest.json", "events.jsonl", "steps.jsonl"] {
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        fs::File::options()
            .append(true)
            .open(dir.join(file))
            .unwrap()
            .set_modified(hour_ago)
            .unwrap();
    }
}

#[test]
fn a_board_that_reads_large_runs_for_many_ends_when_it_is_told_to() {
    let (root, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_large(&root.path().join("known"), 100);
    let mut board = Board::serve_with_cache(root.path(), cache.path());
    board.until_read();
    assert_eq!(board.terminate("-TERM").code(), Some(0));
    write_large(&root.path().join("new"), 500);
    // One run is read for the first time, the other because it's requested.
    let mut board = Board::serve_with_cache(root.path(), cache.path());
    let address = board.address;
    let asking: Vec<_> = (0..20)
        .map(|_| {
            std::thread::spawn(move || {
                let _answer = http::try_request(address, "GET", "/runs/known", &[]);
            })
        })
        .collect();
    until("it reads", || {
        (board.json("/healthz")["indexing"] != 0).then_some(())
    });
    assert_eq!(board.terminate("-TERM").code(), Some(0));
    asking.into_iter().for_each(|asking| asking.join().unwrap());
}
