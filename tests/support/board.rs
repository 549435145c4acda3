//! Drives the real `board` binary. A [`Board`] serves a directory on a free port, ends with the
//! test, and prints its command, files and output if the test fails.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::Value;

use crate::http::{self, Response};
use crate::wait::{DEADLINE, until};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_board");

/// A running `board serve`.
#[derive(Debug)]
pub(crate) struct Board {
    child: Child,
    command: String,
    root: PathBuf,
    output: Arc<Mutex<String>>,
    pub(crate) address: SocketAddr,
}

impl Board {
    /// Serves `root` on a free port.
    pub(crate) fn serve(root: &Path) -> Self {
        Self::serve_on(root, 0)
    }

    /// Serves `root` on `port`.
    pub(crate) fn serve_on(root: &Path, port: u16) -> Self {
        Self::serve_with(root, port, &[])
    }

    /// Serves `root` on `port` with more arguments.
    pub(crate) fn serve_with(root: &Path, port: u16, args: &[&str]) -> Self {
        let mut command = Self::command(root);
        command
            .args(["--no-cache", "--port", &port.to_string()])
            .args(args);
        Self::spawn(command, root)
    }

    /// Serves `root` on a free port with its index cache in `cache`.
    pub(crate) fn serve_with_cache(root: &Path, cache: &Path) -> Self {
        let mut command = Self::command(root);
        command.env("XDG_CACHE_HOME", cache).args(["--port", "0"]);
        Self::spawn(command, root)
    }

    fn command(root: &Path) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg(root);
        command
    }

    /// Runs `command`, which must serve `root`.
    pub(crate) fn spawn(mut command: Command, root: &Path) -> Self {
        let shown = format!("{command:?}");
        let mut child = command
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{shown}: {error}"));
        let output = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().expect("stderr is piped");
        follow("stderr", stderr, Arc::clone(&output), None);
        let (sender, first) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        follow("stdout", stdout, Arc::clone(&output), Some(sender));
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut board = Self {
            child,
            command: shown,
            root: root.to_owned(),
            output,
            address: unknown,
        };
        let line = first
            .recv_timeout(DEADLINE)
            .expect("the first line on stdout");
        let address = line
            .strip_prefix("board: listening on http://")
            .and_then(|rest| rest.strip_suffix('/'));
        board.address = address
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("first line is {line:?}"));
        board
    }

    /// Returns the response to `GET path`.
    pub(crate) fn get(&self, path: &str) -> Response {
        http::request(self.address, "GET", path, &[])
    }

    /// Returns the JSON at `path`, which must answer 200.
    pub(crate) fn json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.json()
    }

    /// Returns the output so far. Each line is prefixed with the name of its stream.
    pub(crate) fn said(&self) -> String {
        self.output
            .lock()
            .map(|text| text.clone())
            .unwrap_or_default()
    }

    /// Waits until the board has read all runs.
    pub(crate) fn until_read(&self) {
        until("everything is read", || {
            let health = self.json("/healthz");
            (health["indexing"] == 0 && health["uncompared"] == false).then_some(())
        });
    }

    /// Returns the JSON at `path` once its background job is done.
    pub(crate) fn answered(&self, path: &str) -> Value {
        until(&format!("{path} is answered"), || {
            Some(self.json(path)).filter(|answer| answer["state"] != "running")
        })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `signal`, as a service manager or Ctrl-C would, and waits for the process to exit.
    pub(crate) fn terminate(&mut self, signal: &str) -> std::process::ExitStatus {
        let sent = Command::new("kill")
            .args([signal, &self.pid().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        until("the board ends", || {
            self.child.try_wait().expect("its status can be read")
        })
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let output = self
                .output
                .lock()
                .map(|text| text.clone())
                .unwrap_or_default();
            eprintln!(
                "--- {}\n{}--- output\n{output}---",
                self.command,
                listing(&self.root)
            );
        }
    }
}

/// Collects the lines of `stream`. The first line also goes to `first`.
fn follow(
    name: &'static str,
    stream: impl Read + Send + 'static,
    output: Arc<Mutex<String>>,
    first: Option<mpsc::Sender<String>>,
) {
    std::thread::spawn(move || {
        let mut first = first;
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(first) = first.take() {
                // The receiver is gone once the test has given up.
                let _ = first.send(line.clone());
            }
            if let Ok(mut output) = output.lock() {
                let _ = writeln!(output, "{name}: {line}");
            }
        }
    });
}

/// Lists paths below `root` with their sizes, for failure reports.
fn listing(root: &Path) -> String {
    let mut text = String::new();
    let paths = crate::disk::walk(root);
    let _ = writeln!(text, "{} paths, the first of them:", paths.len());
    for path in paths.into_iter().take(100) {
        let size = path.symlink_metadata().map_or(0, |meta| meta.len());
        let _ = writeln!(text, "{size:>9} {}", path.display());
    }
    text
}
