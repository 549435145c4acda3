//! Measures many runs: the time until the first page and until all are read, the list, its page,
//! memory, idle CPU, the delay of changes, and a second start.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Options;
use crate::board::Board;
use crate::disk::corpus;
use crate::http;
use crate::report::{self, Samples};
use crate::wait::until;
use crate::writer::{Writer, append};

/// A recorded run of 50 KB, and a smaller one for roots that wouldn't fit on the disk.
const TEMPLATES: [&str; 2] = ["q060_redaction", "q060_minimal"];
/// Above this number, the smaller template is used.
const MANY: u64 = 20_000;
/// A board that hasn't read all runs by then hangs.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long an idle board is observed.
const IDLE: Duration = Duration::from_secs(20);

pub(crate) fn run(options: &Options) {
    let count = options.number("--runs", 2000);
    let scratch = options.scratch();
    let root = scratch.path().join("runs");
    let size = generate(&root, count);
    report::bytes(&format!("{count} runs on disk"), size, "");

    println!("  the first start");
    let cache = scratch.path().join("cache");
    let mut board = start(&root, &cache, count);
    requests(&board);
    report::memory(board.pid(), if count == 10_000 { "150 MiB" } else { "" });
    idle(&board);
    fresh(&board, &root, count);
    let stop = Instant::now();
    board.terminate("-TERM");
    report::duration("end", stop.elapsed(), "");
    println!("  a second start");
    report::memory(start(&root, &cache, count + 1).pid(), "");
    qitos(&root);
}

/// Starts a board and waits until it has read all runs.
fn start(root: &Path, cache: &Path, count: u64) -> Board {
    let start = Instant::now();
    let board = Board::serve_with_cache(root, cache);
    assert_eq!(board.get("/").status, 200);
    report::duration("start to the first page", start.elapsed(), "300 ms");
    loop {
        let health = board.json("/healthz");
        if health["runs"] == count && health["indexing"] == 0 {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{health}");
        std::thread::sleep(Duration::from_millis(5));
    }
    report::duration(
        "start to all runs known",
        start.elapsed(),
        if count == 10_000 { "5000 ms" } else { "" },
    );
    board
}

/// Measures an idle board's CPU usage and its number of watches.
fn idle(board: &Board) {
    let before = report::cpu(board.pid());
    std::thread::sleep(IDLE);
    let used = report::cpu(board.pid()) - before;
    report::number(
        "idle: percent of one core",
        used.as_secs_f64() / IDLE.as_secs_f64() * 100.0,
        "1",
    );
    let fds = fs::read_dir(format!("/proc/{}/fdinfo", board.pid()))
        .into_iter()
        .flatten()
        .flatten();
    let watches = |fd: fs::DirEntry| {
        let text = fs::read_to_string(fd.path()).unwrap_or_default();
        text.lines()
            .filter(|line| line.starts_with("inotify "))
            .count()
    };
    report::number(
        "directories that the system watches",
        fds.map(watches).sum::<usize>() as f64,
        "",
    );
}

/// Measures how soon a new run is listed, and a change to a finished one.
fn fresh(board: &Board, root: &Path, count: u64) {
    let start = Instant::now();
    Writer::start(&root.join("new")).step("one");
    until("the new run is known", || {
        (board.get("/api/runs/new").status == 200).then_some(())
    });
    report::duration("a new run to its page", start.elapsed(), "");
    let old = format!("run_{:06}", count / 2);
    let events = |board: &Board| {
        board.json(&format!("/api/runs?limit=1&q={old}"))["runs"][0]["events"].clone()
    };
    let before = events(board);
    let start = Instant::now();
    append(
        &root.join(&old).join("events.jsonl"),
        "{\"phase\": \"MORE\"}",
    );
    until("the old run is read again", || {
        (events(board) != before).then_some(())
    });
    report::duration("a line in an old run to the list", start.elapsed(), "");
}

fn requests(board: &Board) {
    for (what, path, goal) in [
        ("list of 100 runs", "/api/runs?limit=100", "p50 10 ms"),
        (
            "list with a query",
            "/api/runs?limit=100&q=stop:final+steps%3E1",
            "",
        ),
        ("run table", "/", "p50 20 ms"),
    ] {
        let mut took = Samples::default();
        let mut size = 0;
        for _ in 0..100 {
            let start = Instant::now();
            size = board.get(path).body.len();
            took.push(start.elapsed());
        }
        took.print(&format!("{what} ({} KiB)", size / 1024), goal);
    }
}

/// Starts QitOS's own viewer over `root`, if `BOARD_QITOS` names a Python interpreter that has its
/// package.
pub(crate) fn viewer(root: &Path) -> Option<(Child, SocketAddr)> {
    let Some(qita) =
        std::env::var_os("BOARD_QITOS").map(|python| Path::new(&python).with_file_name("qita"))
    else {
        println!(
            "  qitos: not measured; BOARD_QITOS=/path/to/python with qitos==0.3.0 installed would"
        );
        return None;
    };
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a free port")
        .port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut command = Command::new(&qita);
    command
        .args(["board", "--port", &port.to_string(), "--logdir"])
        .arg(root);
    let viewer = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(viewer) => viewer,
        Err(error) => {
            println!("  qitos: {}: {error}", qita.display());
            return None;
        }
    };
    let start = Instant::now();
    until("its viewer listens", || {
        std::net::TcpStream::connect(address).ok()
    });
    report::duration("qitos: start to listening", start.elapsed(), "");
    Some((viewer, address))
}

/// Measures QitOS's viewer on the same directory.
fn qitos(root: &Path) {
    let Some((mut viewer, address)) = viewer(root) else {
        return;
    };
    for path in ["/", "/api/runs"] {
        let start = Instant::now();
        // The viewer reads every run for each response, so it gets more time.
        let size = http::open(address, "GET", path, &[]).and_then(|(_, mut reader)| {
            reader.get_ref().set_read_timeout(Some(PATIENCE))?;
            std::io::copy(&mut reader, &mut std::io::sink())
        });
        match size {
            Ok(size) => report::duration(
                &format!("qitos: {path} ({} KiB)", size / 1024),
                start.elapsed(),
                "",
            ),
            Err(error) => println!(
                "  qitos: {path}: no answer after {:.0?}: {error}",
                start.elapsed()
            ),
        }
    }
    report::memory(viewer.id(), "");
    viewer
        .kill()
        .and_then(|()| viewer.wait())
        .expect("its viewer ends");
}

/// Writes `count` copies of a recorded run with unique ids. Returns their size in bytes.
fn generate(root: &Path, count: u64) -> u64 {
    let name = TEMPLATES[usize::from(count > MANY)];
    let template = corpus().join("q060").join(name);
    fs::create_dir(root).expect("the root can be made");
    let files = ["manifest.json", "steps.jsonl", "events.jsonl"];
    let texts = files.map(|file| {
        (
            file,
            fs::read_to_string(template.join(file)).expect("the template is readable"),
        )
    });
    let mut size = 0;
    for n in 0..count {
        let id = format!("run_{n:06}");
        let dir = root.join(&id);
        fs::create_dir(&dir).expect("the run directory can be made");
        for (file, text) in &texts {
            let text = text.replace(name, &id);
            size += text.len() as u64;
            fs::write(dir.join(file), text).expect("the run can be written");
        }
    }
    size
}
