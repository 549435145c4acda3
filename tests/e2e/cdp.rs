//! Drives a browser with the DevTools protocol over a pipe. Messages are JSON texts terminated by
//! NUL.
//!
//! A pipe needs no port, no WebSocket and no cleanup: Chromium exits when the other end of its pipe
//! closes, so it can't outlive the test process, however that ends. Knowledge about pages belongs
//! in `page.rs`.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

use crate::wait::DEADLINE;

/// Names under which Chromium is installed. The headless shell has the same engine and no windows:
/// the tests take 100 s with it, and 190 s with the whole browser (two cores).
const NAMES: [&str; 7] = [
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Keeps Chromium quiet, and lets it run as root in a container.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--in-process-gpu",
    "--disable-features=SpareRendererForSitePerProcess",
    "--no-first-run",
    "--remote-debugging-pipe",
];

/// How long the first page may take. On a new machine, Chromium first reads some 300 MB from a cold
/// disk and builds its caches, while the other tests keep both cores busy. After that, calls return
/// within milliseconds.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// The pipe must use file descriptors 3 and 4, which only a shell can arrange without unsafe code.
/// The shell also removes the profile, because it outlives the test process.
const START: &str = r#"dir=$(mktemp -d) && "$0" "$@" --user-data-dir="$dir" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf "$dir""#;

/// Errors between a test and the browser.
#[derive(Debug)]
pub(crate) enum Error {
    /// No Chromium is installed, or it doesn't start.
    Start(String),
    /// The browser has exited.
    Gone,
    /// The browser didn't answer in time.
    Silent { method: String, waited: Duration },
    /// The browser rejected the call.
    Refused { method: String, answer: String },
    /// A script threw an exception.
    Script(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Start(why) => write!(f, "Chromium does not start: {why}"),
            Error::Gone => f.write_str("Chromium is gone"),
            Error::Silent { method, waited } => write!(f, "no answer to {method} in {waited:?}"),
            Error::Refused { method, answer } => write!(f, "{method} was refused: {answer}"),
            Error::Script(text) => write!(f, "the script threw {text}"),
        }
    }
}

impl std::error::Error for Error {}

type Answer = Result<Value, String>;
type Waiting = Arc<Mutex<HashMap<u64, mpsc::Sender<Answer>>>>;
type Events = Arc<Mutex<HashMap<String, Vec<Value>>>>;

/// A running browser.
#[derive(Debug)]
pub(crate) struct Browser {
    input: Mutex<ChildStdin>,
    waiting: Waiting,
    events: Events,
    next_id: AtomicU64,
    _child: Child,
}

impl Browser {
    /// Starts a headless Chromium with an empty profile.
    pub(crate) fn launch() -> Result<Self, Error> {
        let mut child = Command::new("sh")
            .args(["-c", START, &find()?])
            .args(FLAGS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::Start(error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Start("its pipes are closed".to_owned()));
        };
        let (waiting, events) = (Waiting::default(), Events::default());
        let reader = (Arc::clone(&waiting), Arc::clone(&events));
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                if let Ok(message) = serde_json::from_slice(&message) {
                    deliver(message, &reader.0, &reader.1);
                }
            }
            // Pending callers learn at once that no answer will come.
            lock(&reader.0).clear();
        });
        let browser = Self {
            input: Mutex::new(input),
            waiting,
            events,
            next_id: AtomicU64::new(1),
            _child: child,
        };
        browser.warm_up()?;
        Ok(browser)
    }

    /// Opens and closes a page, so that later callers find a responsive browser.
    fn warm_up(&self) -> Result<(), Error> {
        let ask =
            |method: &str, params: Value| self.call_within(START_DEADLINE, None, method, &params);
        let context = ask("Target.createBrowserContext", json!({}))?["browserContextId"].take();
        ask(
            "Target.createTarget",
            json!({"url": "about:blank", "browserContextId": context}),
        )?;
        ask(
            "Target.disposeBrowserContext",
            json!({"browserContextId": context}),
        )?;
        Ok(())
    }

    /// Calls `method`, in the page with `session` or in the browser itself, and waits for the
    /// answer.
    pub(crate) fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, Error> {
        self.call_within(DEADLINE, session, method, params)
    }

    fn call_within(
        &self,
        deadline: Duration,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = mpsc::channel();
        lock(&self.waiting).insert(id, sender);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        lock(&self.input)
            .write_all(format!("{message}\0").as_bytes())
            .map_err(|_| Error::Gone)?;
        match answer.recv_timeout(deadline) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(answer)) => Err(Error::Refused {
                method: method.to_owned(),
                answer,
            }),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(Error::Gone),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(Error::Silent {
                method: method.to_owned(),
                waited: deadline,
            }),
        }
    }

    /// Whether the page with `session` has reported such an event. Events are checked in place,
    /// because a long test has too many to copy them each time.
    pub(crate) fn has_reported(&self, session: &str, event: impl Fn(&Value) -> bool) -> bool {
        lock(&self.events)
            .get(session)
            .is_some_and(|events| events.iter().rev().any(event))
    }

    /// Collects what `part` extracts from each event of the page with `session`.
    pub(crate) fn of_events<T>(&self, session: &str, part: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let events = lock(&self.events);
        let events = events.get(session).map(Vec::as_slice).unwrap_or_default();
        events.iter().filter_map(part).collect()
    }
}

/// Passes an answer to its caller, and stores an event for later queries.
fn deliver(mut message: Value, waiting: &Waiting, events: &Events) {
    if let Some(id) = message["id"].as_u64() {
        let answer = match message.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(message["result"].take()),
        };
        if let Some(caller) = lock(waiting).remove(&id) {
            // A caller that has given up has dropped its receiver.
            let _ = caller.send(answer);
        }
    } else if let Some(session) = message["sessionId"].as_str().map(str::to_owned) {
        lock(events).entry(session).or_default().push(message);
    }
}

/// A test that panicked must not block the browser for the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find() -> Result<String, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = std::env::split_paths(&path).collect();
    let found = NAMES
        .iter()
        .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)))
        .find(|file| file.is_file());
    found
        .map(|file| file.display().to_string())
        .ok_or_else(|| Error::Start(format!("none of {NAMES:?} is on PATH")))
}
