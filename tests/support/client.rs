//! A client that re-requests data only when its event streams announce a change, as a page does.
//! Its view leaves out everything that depends on when the client connected.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::http::{self, Response};
use crate::sse::{Heard, Stream};
use crate::wait::until;

/// How many steps at each end of a long run are requested individually.
const STEPS_ASKED: u64 = 4;

/// The responses, split into lines, by path.
type Shown = BTreeMap<String, Vec<String>>;

/// Runs two clients until they see the same and `fresh` has read everything. Returns the
/// differences left when `patience` runs out.
pub(crate) fn differences_after(
    patience: Duration,
    client: &mut Client,
    fresh: &mut Client,
) -> Vec<String> {
    let start = Instant::now();
    loop {
        client.catch_up();
        fresh.catch_up();
        let mut differences = client.differences(fresh);
        if !fresh.has_read() {
            differences.push("not everything could be requested".to_owned());
        }
        if differences.is_empty() || start.elapsed() > patience {
            return differences;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client with one stream for the list and one for each run.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    list: Part,
    keys: Vec<String>,
    runs: BTreeMap<String, Part>,
    pages: bool,
}

#[derive(Debug, Default)]
struct Part {
    stream: Option<Stream>,
    /// A change was announced, but no request has succeeded since.
    stale: bool,
    shown: Shown,
}

impl Client {
    /// Creates a client of the board at `address` that hasn't received anything yet. `pages` says
    /// whether it reads HTML pages too.
    pub(crate) fn new(address: SocketAddr, pages: bool) -> Self {
        Self {
            address,
            list: Part::default(),
            keys: Vec::new(),
            runs: BTreeMap::new(),
            pages,
        }
    }

    /// Creates a client and waits until it has read everything that the board at `address` shows.
    pub(crate) fn that_has_read(address: SocketAddr) -> Self {
        let mut client = Self::new(address, true);
        until("the client has read everything", || {
            client.catch_up();
            client.has_read().then_some(())
        });
        client
    }

    /// Requests everything that the streams have announced since the last call.
    pub(crate) fn catch_up(&mut self) {
        self.list.listen(self.address, "/events");
        if self.list.stale
            && let Some((keys, shown)) = list(self.address, self.pages)
        {
            (self.keys, self.list.shown, self.list.stale) = (keys, shown, false);
        }
        self.runs.retain(|key, _| self.keys.contains(key));
        for key in &self.keys {
            let part = self.runs.entry(key.clone()).or_default();
            part.listen(self.address, &format!("/runs/{}/events", segment(key)));
            if part.stale
                && let Some(shown) = run(self.address, key, self.pages)
            {
                (part.shown, part.stale) = (shown, false);
            }
        }
    }

    /// Lists the differences from `other`, one per line, with this client's version first.
    fn differences(&self, other: &Self) -> Vec<String> {
        let mut told = differences(&self.list.shown, &other.list.shown);
        let nothing = Shown::new();
        for key in self
            .keys
            .iter()
            .chain(&other.keys)
            .collect::<std::collections::BTreeSet<_>>()
        {
            let shown = |of: &'_ Self| {
                of.runs
                    .get(key)
                    .map_or_else(|| nothing.clone(), |part| part.shown.clone())
            };
            told.extend(differences(&shown(self), &shown(other)));
        }
        told
    }

    /// Whether the list and every listed run have been read.
    fn has_read(&self) -> bool {
        !self.list.shown.is_empty()
            && self
                .runs
                .values()
                .all(|part| !part.shown.is_empty() && !part.stale)
    }
}

impl Part {
    /// Checks for announcements. A stream that ended is reopened, and its first event counts as a
    /// change.
    fn listen(&mut self, address: SocketAddr, path: &str) {
        if self.stream.is_none() {
            self.stream = Stream::try_open(address, path);
        }
        while let Some(stream) = &self.stream {
            match stream.heard() {
                Heard::News => self.stale = true,
                Heard::Nothing => break,
                Heard::End => self.stream = None,
            }
        }
    }
}

fn differences(mine: &Shown, others: &Shown) -> Vec<String> {
    let mut told = Vec::new();
    let nothing = Vec::new();
    for path in mine
        .keys()
        .chain(others.keys())
        .collect::<std::collections::BTreeSet<_>>()
    {
        let (mine, others) = (
            mine.get(path).unwrap_or(&nothing),
            others.get(path).unwrap_or(&nothing),
        );
        if mine != others {
            let at = mine
                .iter()
                .zip(others)
                .take_while(|(mine, other)| mine == other)
                .count();
            let line = |lines: &[String]| {
                lines
                    .get(at)
                    .map_or_else(|| "nothing".to_owned(), |line| cut(line))
            };
            told.push(format!(
                "{path} line {at}: {} | {}",
                line(mine),
                line(others)
            ));
        }
    }
    told
}

fn cut(line: &str) -> String {
    line.chars().take(200).collect()
}

/// Escapes a run's key as one path segment.
pub(crate) fn segment(key: &str) -> String {
    key.replace('%', "%25")
        .replace(' ', "%20")
        .replace('/', "%2F")
}

fn get(address: SocketAddr, path: &str) -> Option<Response> {
    http::try_request(address, "GET", path, &[]).ok()
}

fn list(address: SocketAddr, pages: bool) -> Option<(Vec<String>, Shown)> {
    let path = "/api/runs?limit=1000&sort=run";
    let mut answer = get(address, path)
        .filter(|answer| answer.status == 200)?
        .json();
    let rows = answer["runs"].as_array_mut()?;
    rows.sort_by_key(|row| row["key"].to_string());
    let keys = rows
        .iter()
        .map(|row| row["key"].as_str().unwrap_or_default().to_owned())
        .collect();
    let mut shown = Shown::from([(path.to_owned(), lines(answer))]);
    if pages {
        let page = get(address, "/").filter(|page| page.status == 200)?;
        shown.insert("/".to_owned(), tags(page.text()));
    }
    Some((keys, shown))
}

fn run(address: SocketAddr, key: &str, pages: bool) -> Option<Shown> {
    let key = segment(key);
    let api = format!("/api/runs/{key}");
    let answer = get(address, &api)?;
    if answer.status == 404 {
        return Some(Shown::from([(api, vec!["not there".to_owned()])]));
    }
    let answer = Some(answer).filter(|answer| answer.status == 200)?.json();
    let steps = answer["steps"].as_u64().unwrap_or(0);
    let mut shown = Shown::from([(api.clone(), lines(answer))]);
    let mut paths = vec![
        format!("{api}/steps?limit=10000"),
        format!("{api}/scores"),
        format!("{api}/raw"),
    ];
    let ends = (0..steps).filter(|n| *n < STEPS_ASKED || n + STEPS_ASKED >= steps);
    paths.extend(ends.map(|n| format!("{api}/steps/{n}")));
    paths.extend(
        steps
            .checked_sub(1)
            .map(|last| format!("{api}/state/{last}")),
    );
    paths.push(format!("{api}/why"));
    for path in paths {
        let answer = get(address, &path)?;
        let shown_lines = match answer.header("content-type") {
            "application/json" if answer.status == 200 => lines(answer.json()),
            // Error texts contain the board's own numbers, which aren't part of the view.
            _ if answer.status != 200 => vec![answer.status.to_string()],
            _ => answer.text().lines().map(str::to_owned).collect(),
        };
        shown.insert(path, shown_lines);
    }
    if pages {
        let run = format!("/runs/{key}");
        let last = steps.saturating_sub(1);
        let tabs = [
            "",
            "?tab=events",
            &format!("?tab=state&step={last}"),
            "/scores",
        ];
        for path in tabs.iter().map(|tab| format!("{run}{tab}")) {
            let page = get(address, &path).filter(|page| page.status == 200)?;
            shown.insert(path, tags(page.text()));
        }
    }
    Some(shown)
}

fn lines(mut answer: Value) -> Vec<String> {
    strip_revision(&mut answer);
    format!("{answer:#}").lines().map(str::to_owned).collect()
}

fn strip_revision(answer: &mut Value) {
    if let Some(members) = answer.as_object_mut() {
        members.remove("revision");
    }
}

/// Splits the main part of a page into one line per tag, without ages and revisions.
fn tags(page: &str) -> Vec<String> {
    let main = page
        .split_once("<main")
        .and_then(|(_, rest)| rest.split_once("</main>"))
        .map_or(page, |(main, _)| main);
    let text = main.replace('<', "\n<");
    let passing = ["id=\"pulse\"", "data-age", "data-since"];
    let tags = text
        .lines()
        .filter(|tag| !tag.trim().is_empty() && !passing.iter().any(|part| tag.contains(part)));
    tags.map(str::to_owned).collect()
}
