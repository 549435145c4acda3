//! How does one talk to a program? Over its standard streams, a message a line; it is killed with all that it started when
//! nobody needs it any more.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Lost;
use crate::rpc::mcp::{CANCELLED, LIST_CHANGED, PING};
use crate::rpc::{Fault, Lines, METHOD_NOT_FOUND, Message, TooLong};
use crate::tools::group::Group;

/// A longer message is given up, and with it all that is waited for: nobody knows whose answer it was.
const MAX_MESSAGE: usize = 16 << 20;
/// So much of what it complained about last is kept.
const WORDS: usize = 2_000;
/// A program that closed its output has so long to end by itself, and its complaints to come.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// So many messages may wait until the program reads them.
const MAX_UNREAD: usize = 64;

/// A program that is talked to.
#[derive(Debug)]
pub(super) struct Pipe {
    shared: Arc<Shared>,
    /// `None` once there is no more to say.
    outgoing: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    next: AtomicU64,
    /// Reads, writes and waits for the end; dropped, they end the program.
    work: tokio::sync::Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waits: Mutex<Waits>,
    words: Mutex<VecDeque<u8>>,
    changed: AtomicBool,
}

/// Who waits for an answer, and why none comes any more.
#[derive(Debug, Default)]
struct Waits {
    open: HashMap<u64, oneshot::Sender<Result<Value, Lost>>>,
    ended: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipe {
    /// Starts a program.
    pub(super) fn open(
        command: &[String],
        cwd: &Path,
        environment: Vec<(OsString, OsString)>,
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
        let shared = Arc::new(Shared::default());
        let (sender, outgoing) = mpsc::channel(MAX_UNREAD);
        let mut work = JoinSet::new();
        if let Some(stdin) = child.stdin.take() {
            work.spawn(write(stdin, outgoing));
        }
        let answers = sender.downgrade();
        work.spawn(follow(child, group, Arc::clone(&shared), answers));
        Ok(Self {
            shared,
            outgoing: Mutex::new(Some(sender)),
            next: AtomicU64::new(1),
            work: work.into(),
        })
    }

    pub(super) async fn request(&self, method: &str, params: Value) -> Result<Value, Lost> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut waits = lock(&self.shared.waits);
            if let Some(why) = &waits.ended {
                return Err(Lost::Gone(why.clone()));
            }
            waits.open.insert(id, sender);
        }
        let mut given_up = GivenUp {
            pipe: self,
            id,
            is_answered: false,
        };
        self.say(Message::Request {
            id: id.into(),
            method: method.to_owned(),
            params,
        })?;
        let answer = answer
            .await
            .unwrap_or_else(|_| Err(Lost::Gone("the answer was given up".to_owned())));
        given_up.is_answered = true;
        answer
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        // Whoever does not read it has no use for it.
        let _ = self.say(Message::Notice {
            method: method.to_owned(),
            params,
        });
    }

    pub(super) fn has_changed(&self) -> bool {
        self.shared.changed.swap(false, Ordering::Relaxed)
    }

    pub(super) fn last_words(&self) -> String {
        String::from_utf8_lossy(lock(&self.shared.words).make_contiguous()).into_owned()
    }

    /// Says no more and lets it end by itself for a moment; then it is killed.
    pub(super) async fn end(&self, grace: Duration) {
        lock(&self.outgoing).take();
        let mut work = self.work.lock().await;
        let all = async { while work.join_next().await.is_some() {} };
        if timeout(grace, all).await.is_err() {
            work.shutdown().await;
        }
    }

    fn say(&self, message: Message) -> Result<(), Lost> {
        let line = line(message);
        let sent = lock(&self.outgoing)
            .as_ref()
            .map(|outgoing| outgoing.try_send(line));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(mpsc::error::TrySendError::Full(_))) => {
                Err(Lost::Gone("it does not read what it is asked".into()))
            }
            _ => Err(Lost::Gone(
                lock(&self.shared.waits)
                    .ended
                    .clone()
                    .unwrap_or_else(|| "it has ended".into()),
            )),
        }
    }
}

/// Tells the program where nobody waits for its answer any more.
struct GivenUp<'a> {
    pipe: &'a Pipe,
    id: u64,
    is_answered: bool,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let waited = lock(&self.pipe.shared.waits)
            .open
            .remove(&self.id)
            .is_some();
        if waited && !self.is_answered {
            self.pipe.notify(
                CANCELLED,
                json!({ "requestId": self.id, "reason": "its time is over" }),
            );
        }
    }
}

impl Shared {
    /// Gives no more answers, and says why.
    fn end(&self, why: &str) {
        let mut waits = lock(&self.waits);
        waits.ended = Some(why.to_owned());
        waits
            .open
            .drain()
            .for_each(|(_, waiting)| drop(waiting.send(Err(Lost::Gone(why.to_owned())))));
    }

    /// Takes a line; what is returned is to be said to it.
    fn take(&self, line: Result<Vec<u8>, TooLong>) -> Option<Message> {
        let Ok(line) = line else {
            let why = format!(
                "the server sent a message of more than {} MiB",
                MAX_MESSAGE >> 20
            );
            let mut waits = lock(&self.waits);
            waits
                .open
                .drain()
                .for_each(|(_, waiting)| drop(waiting.send(Err(Lost::Gone(why.clone())))));
            return None;
        };
        // Some programs write other things there; what is no message says nothing to us.
        let message = serde_json::from_slice(&line)
            .ok()
            .and_then(|value| Message::read(value).ok());
        match message? {
            Message::Reply { id, result } => {
                let waiting = lock(&self.waits).open.remove(&id.as_u64()?)?;
                let _ = waiting.send(result.map_err(Lost::Refused));
                None
            }
            Message::Notice { method, .. } => {
                if method == LIST_CHANGED {
                    self.changed.store(true, Ordering::Relaxed);
                }
                None
            }
            Message::Request { id, method, .. } => {
                let result = match &*method {
                    PING => Ok(json!({})),
                    other => Err(Fault::new(
                        METHOD_NOT_FOUND,
                        format!("this client does not do {other}"),
                    )),
                };
                Some(Message::Reply { id, result })
            }
        }
    }
}

fn line(message: Message) -> Vec<u8> {
    let mut line = message.write().to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Hears what the program says until it ends, and says then why no more answers come.
async fn follow(
    mut child: Child,
    group: Group,
    shared: Arc<Shared>,
    answers: mpsc::WeakSender<Vec<u8>>,
) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reading = async {
        if let Some(stdout) = stdout {
            read(stdout, &shared, &answers).await;
        }
    };
    let keeping = async {
        if let Some(stderr) = stderr {
            keep(stderr, &shared).await;
        }
    };
    let (mut reading, mut keeping, mut is_kept) = (pin!(reading), pin!(keeping), false);
    loop {
        tokio::select! {
            () = &mut reading => break,
            () = &mut keeping, if !is_kept => is_kept = true,
        }
    }
    let last_words = async {
        if !is_kept {
            // Only a process that left the group keeps it open.
            let _ = timeout(LAST_WORDS, keeping).await;
        }
    };
    let (why, ()) = tokio::join!(ended(child, group), last_words);
    shared.end(&why);
}

async fn write(mut stdin: ChildStdin, mut outgoing: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = outgoing.recv().await {
        // One that cannot be told anything more is about to end, which is seen elsewhere.
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            break;
        }
    }
}

async fn read(
    mut stdout: impl AsyncRead + Unpin,
    shared: &Shared,
    answers: &mpsc::WeakSender<Vec<u8>>,
) {
    let (mut lines, mut piece) = (Lines::new(MAX_MESSAGE), vec![0; 64 << 10]);
    while let Ok(len @ 1..) = stdout.read(&mut piece).await {
        let mut answer = None;
        lines.push(piece.get(..len).unwrap_or_default(), |line| {
            answer = shared.take(line).or(answer.take())
        });
        if let (Some(answer), Some(outgoing)) = (answer, answers.upgrade()) {
            let _ = outgoing.try_send(line(answer));
        }
    }
    if let Some(line) = lines.end() {
        shared.take(line);
    }
}

async fn keep(mut stderr: impl AsyncRead + Unpin, shared: &Shared) {
    let mut piece = vec![0; 8 << 10];
    while let Ok(len @ 1..) = stderr.read(&mut piece).await {
        let mut words = lock(&shared.words);
        words.extend(piece.get(..len).unwrap_or_default());
        let over = words.len().saturating_sub(WORDS);
        words.drain(..over);
    }
}

/// How the program ended; what is left of it is killed.
async fn ended(mut child: Child, mut group: Group) -> String {
    let status = timeout(LAST_WORDS, child.wait()).await;
    group.kill();
    match status {
        Ok(Ok(status)) => format!("the server ended ({status})"),
        Ok(Err(error)) => format!("the server ended: {error}"),
        Err(_) => "the server closed its output".to_owned(),
    }
}
