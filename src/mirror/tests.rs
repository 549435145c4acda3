//! A store on the loopback that answers as a test tells it to.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};

use super::http::Patience;
use super::settings::Credentials;
use super::sign::hex;
use super::{Address, Mirror, Options, Settings, Status};

const MODIFIED: &str = "2026-01-02T03:04:05.000Z";
/// Objects on a page of a listing.
const PAGE: usize = 3;

/// What is answered instead of the truth.
#[derive(Debug, Clone)]
enum Odd {
    /// To whatever is asked next.
    Status(u16, &'static str),
    /// To the next request for an object: so many bytes are missing, or the first one is another.
    Cut(usize),
    Damaged,
}

#[derive(Debug, Default)]
struct Bucket {
    objects: BTreeMap<String, (Vec<u8>, String)>,
    odd: VecDeque<Odd>,
    /// Answered to everything, as long as it is there.
    down: Option<(u16, &'static str)>,
    /// Objects are listed and not handed out.
    locked: bool,
    /// Methods, addresses and ranges.
    asked: Vec<String>,
}

/// A store; it serves until the test ends.
struct Fake {
    bucket: Arc<Mutex<Bucket>>,
    address: SocketAddr,
}

impl Fake {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bucket = Arc::<Mutex<Bucket>>::default();
        let of_server = Arc::clone(&bucket);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bucket = Arc::clone(&of_server);
                std::thread::spawn(move || serve(&stream, &bucket));
            }
        });
        Self { bucket, address }
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap()
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        self.put_tagged(key, bytes, &hex(&Md5::digest(bytes)));
    }

    fn put_tagged(&self, key: &str, bytes: &[u8], tag: &str) {
        self.bucket().objects.insert(key.to_owned(), (bytes.to_vec(), tag.to_owned()));
    }

    fn settings(&self) -> Settings {
        Settings {
            credentials: Some(Credentials { id: "ID".to_owned(), secret: "secret".to_owned(), session: None }),
            why_none: None,
            region: "us-east-1".to_owned(),
            endpoint: Some(format!("http://{}", self.address)),
            path_style: None,
            reread: false,
        }
    }

    fn follow(&self, cache: Option<&Path>, limit: u64) -> Mirror {
        let (every, long) = (Duration::from_millis(10), Duration::from_secs(30));
        let options = Options { cache: cache.map(Path::to_owned), limit, every, budget: u32::MAX };
        let patience = Patience { connect: long, head: long, piece: long };
        let address = Address::parse("s3://bucket/runs").unwrap();
        Mirror::follow_with(&address, self.settings(), options, patience, Duration::from_millis(1)).unwrap()
    }

    /// Requests for objects, and forgets them.
    fn gets(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.bucket().asked);
        asked.into_iter().filter(|asked| !asked.contains("list-type")).collect()
    }
}

fn serve(stream: &TcpStream, bucket: &Mutex<Bucket>) {
    let mut reader = BufReader::new(stream);
    while let Some((path, headers)) = request(&mut reader) {
        let (head, body, sent) = answer(&mut bucket.lock().unwrap(), &path, &headers);
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        let mut out = stream;
        let whole = sent == body.len();
        if out.write_all(head.as_bytes()).and_then(|()| out.write_all(&body[..sent])).is_err() || !whole {
            return;
        }
    }
}

fn request(reader: &mut impl std::io::BufRead) -> Option<(String, BTreeMap<String, String>)> {
    let mut lines = reader.lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Some((path, headers))
}

/// The head, the body, and how much of it is sent.
fn answer(bucket: &mut Bucket, path: &str, headers: &BTreeMap<String, String>) -> (String, Vec<u8>, usize) {
    let range = headers.get("range").cloned().unwrap_or_default();
    bucket.asked.push(format!("{path} {range}").trim_end().to_owned());
    let plain = |status: u16, more: &str, body: Vec<u8>| {
        let sent = body.len();
        (format!("HTTP/1.1 {status} x\r\n{more}"), body, sent)
    };
    let refusal = |status: u16, code: &str| {
        let text = format!("<Error><Code>{code}</Code><Message>told so</Message></Error>");
        plain(status, "Retry-After: 0\r\n", text.into_bytes())
    };
    if let Some((status, code)) = bucket.down {
        return refusal(status, code);
    }
    let is_list = path.contains("list-type=2");
    if let Some(Odd::Status(status, code)) = bucket.odd.front().cloned() {
        bucket.odd.pop_front();
        return refusal(status, code);
    }
    if !headers.get("authorization").is_some_and(|auth| auth.contains("Credential=ID/")) {
        return refusal(403, "AccessDenied");
    }
    if is_list {
        return plain(200, "", list(bucket, path).into_bytes());
    }
    if bucket.locked {
        return refusal(403, "AccessDenied");
    }
    let key = percent_encoding::percent_decode_str(path.strip_prefix("/bucket/").unwrap()).decode_utf8_lossy();
    let Some((bytes, tag)) = bucket.objects.get(&*key) else { return refusal(404, "NoSuchKey") };
    if headers.get("if-match").is_some_and(|asked| asked.trim_matches('"') != tag) {
        return refusal(412, "PreconditionFailed");
    }
    let from: usize = range.strip_prefix("bytes=").map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    let mut body = bytes[from..].to_vec();
    let more = format!("ETag: \"{tag}\"\r\nContent-Range: bytes {from}-{}/{}\r\n", bytes.len() - 1, bytes.len());
    let mut sent = body.len();
    match bucket.odd.pop_front() {
        Some(Odd::Cut(by)) => sent -= by,
        Some(Odd::Damaged) => body[0] ^= 1,
        _ => {}
    }
    (format!("HTTP/1.1 {} x\r\n{more}", if range.is_empty() { 200 } else { 206 }), body, sent)
}

fn list(bucket: &Bucket, path: &str) -> String {
    let after = path.split("continuation-token=").nth(1).and_then(|rest| rest.split('&').next());
    let after = after.map(|after| percent_encoding::percent_decode_str(after).decode_utf8_lossy().into_owned());
    let is_behind = |key: &str| key.starts_with("runs/") && after.as_deref().is_none_or(|after| key > after);
    let page: Vec<_> = bucket.objects.iter().filter(|(key, _)| is_behind(key)).collect();
    let entry = |(key, (bytes, tag)): (&String, &(Vec<u8>, String))| {
        let (key, size) = (percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC), bytes.len());
        format!(
            "<Contents><Key>{key}</Key><ETag>&quot;{tag}&quot;</ETag><Size>{size}</Size><LastModified>{MODIFIED}</LastModified></Contents>"
        )
    };
    let more = page.len() > PAGE;
    let last = page.get(PAGE - 1).filter(|_| more).map(|(key, _)| key.as_str());
    let next = last.map_or_else(String::new, |key| {
        let token = key.replace('&', "&amp;");
        format!("<NextContinuationToken>{token}</NextContinuationToken>")
    });
    let contents: String = page.into_iter().take(PAGE).map(entry).collect();
    format!(
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{more}</IsTruncated>{next}{contents}</ListBucketResult>"
    )
}

#[track_caller]
fn until(mirror: &Mirror, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    let start = Instant::now();
    loop {
        let status = mirror.status();
        if is_so(&status) {
            return status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}: {status:?}");
        std::thread::yield_now();
    }
}

/// Waits until all that the store holds from now on is here.
#[track_caller]
fn settled(mirror: &Mirror) -> Status {
    let asked = Instant::now();
    until(mirror, "all is here", |status| status.as_of.is_some_and(|moment| moment > asked))
}

fn files(mirror: &Mirror) -> BTreeMap<String, String> {
    fn walk(dir: &Path, root: &Path, files: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => walk(&path, root, files),
                path => {
                    let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                    drop(files.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()));
                }
            }
        }
    }
    let mut files = BTreeMap::new();
    walk(mirror.dir(), mirror.dir(), &mut files);
    files
}

fn held(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn objects_come_grow_are_replaced_and_go() {
    let store = Fake::new();
    for n in 0..7 {
        store.put(&format!("runs/a/{n}.jsonl"), b"one\n");
    }
    store.put("runs/notes.txt", b"x");
    store.put("other/b.jsonl", b"x");
    let mirror = store.follow(None, 1 << 20);
    let status = settled(&mirror);
    assert_eq!((status.objects, status.others, status.bytes, status.odd_total), (7, 1, 28, 0));
    assert_eq!(files(&mirror).len(), 7);
    let written = fs::metadata(mirror.dir().join("a/0.jsonl")).unwrap().modified().unwrap();
    assert_eq!(jiff::Timestamp::try_from(written).unwrap(), MODIFIED.parse::<jiff::Timestamp>().unwrap());

    store.gets();
    store.put("runs/a/0.jsonl", b"one\ntwo\n");
    store.put("runs/a/1.jsonl", b"ONE\nTWO\n");
    store.put("runs/a/2.jsonl", b"o\n");
    store.bucket().objects.retain(|key, _| !key.ends_with("3.jsonl") && !key.ends_with("4.jsonl"));
    settled(&mirror);
    let one = |n: u32, text: &'static str| (format!("a/{n}.jsonl"), text.to_owned());
    let all = [one(0, "one\ntwo\n"), one(1, "ONE\nTWO\n"), one(2, "o\n"), one(5, "one\n"), one(6, "one\n")];
    assert_eq!(files(&mirror), BTreeMap::from(all));
    let mut gets = store.gets();
    gets.sort();
    // What was replaced by something longer is found out by its checksum.
    let path = "/bucket/runs/a/";
    assert_eq!(
        gets,
        [
            format!("{path}0.jsonl bytes=4-"),
            format!("{path}1.jsonl"),
            format!("{path}1.jsonl bytes=4-"),
            format!("{path}2.jsonl"),
        ]
    );
    store.put("runs/a/0.jsonl", b"one\ntwo\nthree\n");
    settled(&mirror);
    assert_eq!(store.gets(), [format!("{path}0.jsonl bytes=8-")]);
    store.bucket().objects.clear();
    settled(&mirror);
    assert_eq!(fs::read_dir(mirror.dir()).unwrap().count(), 0, "empty directories go too");
}

#[test]
fn a_store_that_is_away_or_refuses_takes_nothing_and_is_told() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one\n");
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    for (status, code, said, hint) in [
        (503, "SlowDown", "answered 503 SlowDown: told so", false),
        (403, "AccessDenied", "answered 403 AccessDenied: told so", true),
        (404, "NoSuchBucket", "answered 404 NoSuchBucket: told so", true),
        (418, "", "answered 418", false),
    ] {
        store.bucket().down = Some((status, code));
        let told = until(&mirror, said, |status| status.trouble.is_some()).trouble.unwrap();
        assert_eq!((told.what.contains(said), told.hint.is_some()), (true, hint), "{told:?}");
        assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n")]));
        store.bucket().down = None;
        until(&mirror, "it is back", |status| status.trouble.is_none());
    }
    // A while is waited for, and no more is seen of it.
    store.bucket().odd.extend([Odd::Status(503, "SlowDown"), Odd::Status(429, ""), Odd::Status(500, "InternalError")]);
    store.put("runs/b.jsonl", b"two\n");
    assert_eq!(settled(&mirror).trouble, None);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n"), ("b.jsonl", "two\n")]));
}

#[test]
fn a_store_that_lists_objects_and_does_not_hand_them_out_is_not_all_well() {
    let store = Fake::new();
    for n in 0..40 {
        store.put(&format!("runs/{n}.jsonl"), b"one\n");
    }
    store.bucket().locked = true;
    let mirror = store.follow(None, 1 << 20);
    let status = until(&mirror, "it is told", |status| status.trouble.is_some() && status.odd_total > 0);
    assert_eq!((status.as_of, files(&mirror).len()), (None, 0), "nothing is said to be here");
    assert!(status.trouble.is_some_and(|trouble| trouble.what.contains("403 AccessDenied")));
    store.bucket().locked = false;
    let status = settled(&mirror);
    assert_eq!((status.trouble, files(&mirror).len()), (None, 40));
}

#[test]
fn bodies_that_are_cut_or_damaged_are_never_shown() {
    let store = Fake::new();
    store.put("runs/a.jsonl", b"one two three\n");
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    store.bucket().odd.extend([Odd::Cut(5), Odd::Damaged]);
    store.put("runs/a.jsonl", b"ONE TWO THREE\n");
    settled(&mirror);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "ONE TWO THREE\n")]));
    store.gets();
    store.bucket().odd.extend([Odd::Cut(2), Odd::Damaged]);
    store.put("runs/a.jsonl", b"ONE TWO THREE\nFOUR\n");
    settled(&mirror);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "ONE TWO THREE\nFOUR\n")]));
    // A damaged rest looks like that of another object.
    let path = "/bucket/runs/a.jsonl";
    assert_eq!(store.gets(), [format!("{path} bytes=14-"), format!("{path} bytes=14-"), path.to_owned()]);
}

#[test]
fn without_checksums_pieces_are_compared_and_proven_once_the_object_is_quiet() {
    let store = Fake::new();
    store.put_tagged("runs/a.jsonl", b"one\n", "x-1");
    // Looks like a checksum and is none.
    store.put_tagged("runs/b.jsonl", b"one\n", &"0".repeat(32));
    let mirror = store.follow(None, 1 << 20);
    settled(&mirror);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n"), ("b.jsonl", "one\n")]));
    store.gets();
    store.put_tagged("runs/a.jsonl", b"one\ntwo\n", "x-2");
    settled(&mirror);
    settled(&mirror);
    let gets = store.gets();
    let path = "/bucket/runs/a.jsonl";
    assert_eq!(gets, [format!("{path} bytes=0-"), path.to_owned()], "what is here is compared, then proven");
    store.put_tagged("runs/a.jsonl", b"ONE\ntwo\nthree\n", "x-3");
    store.put_tagged("runs/b.jsonl", b"ONE\ntwo\n", &"1".repeat(32));
    settled(&mirror);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "ONE\ntwo\nthree\n"), ("b.jsonl", "ONE\ntwo\n")]));
}

#[test]
fn keys_that_lead_elsewhere_are_counted_and_write_nothing() {
    let store = Fake::new();
    let hostile = ["runs/../../x.jsonl", "runs//etc/x.jsonl", "runs/a/../x.jsonl", "runs/a\n.jsonl", "runs/./b.jsonl"];
    for key in hostile {
        store.put(key, b"evil\n");
    }
    store.put("runs/good.jsonl", b"good\n");
    store.put("runs/both.jsonl", b"both\n");
    store.put("runs/both.jsonl/under.jsonl", b"under\n");
    let cache = tempfile::tempdir().unwrap();
    let mirror = store.follow(Some(&cache.path().join("deep/er")), 1 << 20);
    let status = settled(&mirror);
    assert_eq!(files(&mirror), held(&[("both.jsonl/under.jsonl", "under\n"), ("good.jsonl", "good\n")]));
    assert_eq!((status.odd_total, status.odd.len()), (6, 6), "{:?}", status.odd);
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1);
    assert!(store.gets().iter().all(|get| get.contains("good") || get.contains("under")));
}

#[test]
fn the_next_start_fetches_only_what_changed() {
    let (store, cache) = (Fake::new(), tempfile::tempdir().unwrap());
    for name in ["a", "b", "c"] {
        store.put(&format!("runs/{name}.jsonl"), b"one\n");
    }
    let mirror = store.follow(Some(cache.path()), 1 << 20);
    settled(&mirror);
    let dir = mirror.dir().to_owned();
    let beside = store.follow(Some(cache.path()), 1 << 20);
    assert_ne!(beside.dir(), dir, "two boards do not write one directory");
    drop((mirror, beside));
    // As after a board that was killed: a torn note, a file that is not as noted, one that nobody noted.
    let notes = dir.ancestors().nth(2).unwrap().join("notes.jsonl");
    let torn = fs::read_to_string(&notes).unwrap() + "{\"key\":\"a.js";
    fs::write(&notes, torn).unwrap();
    fs::write(dir.join("b.jsonl"), "torn").unwrap();
    fs::write(dir.join("stray.jsonl"), "x\n").unwrap();
    fs::write(dir.join("b.jsonl"), "on").unwrap();
    store.gets();
    let mirror = store.follow(Some(cache.path()), 1 << 20);
    assert_eq!(mirror.dir(), dir);
    settled(&mirror);
    assert_eq!(store.gets(), ["/bucket/runs/b.jsonl"]);
    assert_eq!(files(&mirror), held(&[("a.jsonl", "one\n"), ("b.jsonl", "one\n"), ("c.jsonl", "one\n")]));
}

#[test]
fn the_cache_keeps_within_its_limit_and_says_what_is_left_out() {
    let store = Fake::new();
    for name in ["a", "b", "c"] {
        store.put(&format!("runs/{name}/x.jsonl"), &[b'x'; 400]);
    }
    let mirror = store.follow(None, 1_000);
    let status = settled(&mirror);
    assert_eq!((files(&mirror).len(), status.kept_bytes, status.odd_total), (2, 800, 1));
    assert!(status.odd[0].reason.contains("newer"), "{:?}", status.odd);
}
