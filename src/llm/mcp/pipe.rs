//! Runs a server that is a program: one message per line on its standard streams.
//!
//! The SDK's own transport drops long lines silently and doesn't report why a program ended. This one fails the requests
//! that a long line may have answered, keeps the exit status and the last words, and kills the whole process group.

use std::ffi::OsString;
use std::future::ready;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::link::{Status, lock};
use crate::group::Group;
use crate::lines::{Lines, TooLong};

/// Maximum length of a message, in bytes. A longer one fails all open requests, since it may answer any of them.
pub(super) const MAX_MESSAGE: usize = 16 << 20;
/// How long to wait for a program to end, and for the rest of its stderr, after it closed its output.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum number of messages that wait until the program reads them.
const MAX_UNREAD: usize = 64;
/// Maximum length of an answer to a request of the program, in bytes. It repeats the request's id or method, which the program
/// chooses.
const MAX_ANSWER: usize = 64 << 10;

/// A running program. It is killed when all clones are dropped.
#[derive(Debug, Clone)]
pub(super) struct Pipe(Arc<Process>);

#[derive(Debug)]
struct Process {
    /// `None` once the program's input is closed.
    outgoing: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    incoming: tokio::sync::Mutex<mpsc::Receiver<ServerJsonRpcMessage>>,
    status: Arc<Status>,
    /// The tasks that read, write and wait for the end. Dropping them kills the program.
    work: tokio::sync::Mutex<JoinSet<()>>,
}

impl Pipe {
    /// Starts a program.
    pub(super) fn open(
        command: &[String],
        cwd: &Path,
        environment: Vec<(OsString, OsString)>,
        status: Arc<Status>,
    ) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut started = Command::new(program);
        started
            .args(arguments)
            .current_dir(cwd)
            .env_clear()
            .envs(environment);
        started
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        started.process_group(0);
        let mut child = started.spawn()?;
        let group = Group::led_by(&child);
        let (outgoing, lines) = mpsc::channel(MAX_UNREAD);
        // Room for one, since each may be as long as the limit.
        let (messages, incoming) = mpsc::channel(1);
        let mut work = JoinSet::new();
        if let Some(stdin) = child.stdin.take() {
            work.spawn(write(stdin, lines));
        }
        work.spawn(follow(child, group, Arc::clone(&status), messages));
        Ok(Self(Arc::new(Process {
            outgoing: Mutex::new(Some(outgoing)),
            incoming: incoming.into(),
            status,
            work: work.into(),
        })))
    }

    /// Closes the program's input, and kills the program if it doesn't end within `grace`.
    pub(super) async fn end(&self, grace: Duration) {
        lock(&self.0.outgoing).take();
        let mut work = self.0.work.lock().await;
        let all = async { while work.join_next().await.is_some() {} };
        if timeout(grace, all).await.is_err() {
            work.shutdown().await;
        }
    }

    fn say(&self, message: &ClientJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let status = &self.0.status;
        match message {
            ClientJsonRpcMessage::Request(request) => status.opens(&request.id),
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                {
                    let id = cancelled.params.request_id.iter();
                    id.for_each(|id| status.closes(id));
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {
                if line.len() > MAX_ANSWER {
                    let why = "the answer to the server's request is too long";
                    return Err(io::Error::other(why));
                }
            }
        }
        let sent = lock(&self.0.outgoing)
            .as_ref()
            .map(|outgoing| outgoing.try_send(line));
        let why = match sent {
            Some(Ok(())) => return Ok(()),
            Some(Err(mpsc::error::TrySendError::Full(_))) => "the server doesn't read its requests",
            _ => "the server's input is closed",
        };
        if let ClientJsonRpcMessage::Request(request) = message {
            status.closes(&request.id);
        }
        Err(io::Error::other(why))
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        ready(self.say(&message))
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.0.incoming.lock().await.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        // The program stopped reading, so it is about to end. The reader reports that.
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            break;
        }
    }
}

/// Passes messages on until the program ends, then records why it did.
async fn follow(
    mut child: Child,
    group: Group,
    status: Arc<Status>,
    messages: mpsc::Sender<ServerJsonRpcMessage>,
) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut reading = pin!(read(stdout, &status, &messages));
    let mut keeping = pin!(keep(stderr, &status));
    let mut is_kept = false;
    loop {
        tokio::select! {
            () = &mut reading => break,
            () = &mut keeping, if !is_kept => is_kept = true,
        }
    }
    let last_words = async {
        if !is_kept {
            // Only a process that left the group keeps stderr open.
            let _ = timeout(LAST_WORDS, keeping).await;
        }
    };
    let (why, ()) = tokio::join!(ended(child, group), last_words);
    status.end(why);
}

async fn read(
    stdout: Option<ChildStdout>,
    status: &Status,
    messages: &mpsc::Sender<ServerJsonRpcMessage>,
) {
    let Some(stdout) = stdout else { return };
    let mut lines = Lines::new(stdout, MAX_MESSAGE);
    while let Some(line) = lines.next().await {
        let received = match line {
            Ok(line) => status.read(&line).into_iter().collect(),
            Err(TooLong) => {
                let limit = MAX_MESSAGE >> 20;
                status.fail_all(&format!(
                    "the server sent a message of more than {limit} MiB"
                ))
            }
        };
        for message in received {
            if messages.send(message).await.is_err() {
                return;
            }
        }
    }
}

/// Keeps the end of stderr.
async fn keep(stderr: Option<ChildStderr>, status: &Status) {
    let Some(mut stderr) = stderr else { return };
    let mut piece = vec![0; 8 << 10];
    while let Ok(len @ 1..) = stderr.read(&mut piece).await {
        status.keep_words(piece.get(..len).unwrap_or_default());
    }
}

/// Waits for the program to end, kills the rest of its group, and returns how it ended.
async fn ended(mut child: Child, mut group: Group) -> String {
    let status = timeout(LAST_WORDS, child.wait()).await;
    group.kill();
    match status {
        Ok(Ok(status)) => format!("the server ended ({status})"),
        Ok(Err(error)) => format!("the server ended: {error}"),
        Err(_) => "the server closed its output".to_owned(),
    }
}
