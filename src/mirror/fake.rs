//! A store on the loopback that answers as a test tells it to; for tests of the mirror and of what reads it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};

use super::http::Patience;
use super::settings::Credentials;
use super::sign::hex;
use super::{Address, ListingBounds, Mirror, Options, Settings, Status};

pub(super) const MODIFIED: &str = "2026-01-02T03:04:05.000Z";
/// Objects on a page of a listing.
const PAGE: usize = 3;

/// What is answered instead of the truth.
#[derive(Debug, Clone)]
pub(super) enum Odd {
    /// To whatever is asked next.
    Status(u16, &'static str),
    /// To the next request for an object: so many bytes are missing, or the first one is another.
    Cut(usize),
    Damaged,
    /// To the next request for an object: a body in chunks that has no end.
    Endless,
}

#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(super) objects: BTreeMap<String, (Vec<u8>, String)>,
    /// When objects were written, where that is not [`MODIFIED`].
    times: BTreeMap<String, String>,
    pub(super) odd: VecDeque<Odd>,
    /// Answered to everything, as long as it is there.
    pub(crate) down: Option<(u16, &'static str)>,
    /// Where the bucket lies: whoever signs for another region is sent there.
    pub(super) region: Option<&'static str>,
    /// Nothing is answered, as long as it is so.
    pub(super) hangs: bool,
    /// Objects are listed and not handed out.
    pub(super) locked: bool,
    /// Each page of a listing names another one, and so many objects of its own.
    pub(super) endless_listing: Option<usize>,
    pages: usize,
    /// Bytes of bodies without an end that were sent.
    pub(super) endless_bytes: usize,
    /// Methods, addresses and ranges.
    asked: Vec<String>,
}

/// A store; it serves until the test ends.
pub(crate) struct Fake {
    bucket: Arc<Mutex<Bucket>>,
    address: SocketAddr,
}

impl Fake {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap()
    }

    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        self.put_tagged(key, bytes, &hex(&Md5::digest(bytes)));
    }

    /// The same, written so many hours later than others are.
    pub(crate) fn put_at(&self, key: &str, bytes: &[u8], hours: u32) {
        self.bucket()
            .times
            .insert(key.to_owned(), format!("2026-01-03T{hours:02}:00:00.000Z"));
        self.put(key, bytes);
    }

    pub(super) fn put_tagged(&self, key: &str, bytes: &[u8], tag: &str) {
        self.bucket()
            .objects
            .insert(key.to_owned(), (bytes.to_vec(), tag.to_owned()));
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            credentials: Some(Credentials {
                id: "ID".to_owned(),
                secret: "secret".to_owned(),
                session: None,
            }),
            why_none: None,
            region: "us-east-1".to_owned(),
            endpoint: Some(format!("http://{}", self.address)),
            path_style: None,
            reread: false,
        }
    }

    pub(crate) fn follow(&self, cache: Option<&Path>, limit: u64) -> Mirror {
        self.follow_patiently(cache, limit, Duration::from_secs(30))
    }

    pub(super) fn follow_patiently(
        &self,
        cache: Option<&Path>,
        limit: u64,
        long: Duration,
    ) -> Mirror {
        self.follow_with(cache, limit, long, |options| options)
    }

    pub(super) fn follow_with(
        &self,
        cache: Option<&Path>,
        limit: u64,
        long: Duration,
        change: impl FnOnce(Options) -> Options,
    ) -> Mirror {
        let every = Duration::from_millis(10);
        let (cache, listing) = (cache.map(Path::to_owned), ListingBounds::default());
        let options = change(Options {
            cache,
            limit,
            every,
            budget: u32::MAX,
            listing,
        });
        let patience = Patience {
            connect: long,
            head: long,
            piece: long,
        };
        let address = Address::parse("s3://bucket/runs").unwrap();
        Mirror::follow_with(
            &address,
            self.settings(),
            options,
            patience,
            Duration::from_millis(1),
        )
        .unwrap()
    }

    /// How many pages of listings were asked for.
    pub(super) fn listings(&self) -> usize {
        self.bucket()
            .asked
            .iter()
            .filter(|asked| asked.contains("list-type"))
            .count()
    }

    /// Requests for objects, and forgets them.
    pub(crate) fn gets(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.bucket().asked);
        asked
            .into_iter()
            .filter(|asked| !asked.contains("list-type"))
            .collect()
    }
}

fn serve(stream: &TcpStream, bucket: &Mutex<Bucket>) {
    let mut reader = BufReader::new(stream);
    while let Some((path, headers)) = request(&mut reader) {
        if bucket.lock().unwrap().hangs {
            // Until whoever asked leaves.
            let _ = request(&mut reader);
            return;
        }
        let is_endless = {
            let mut bucket = bucket.lock().unwrap();
            let is_due =
                !path.contains("list-type=2") && matches!(bucket.odd.front(), Some(Odd::Endless));
            is_due && bucket.odd.pop_front().is_some()
        };
        if is_endless {
            let mut out = stream;
            let head = "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
            let _ = out.write_all(head.as_bytes());
            // Until whoever asked leaves.
            while out.write_all(chunk.as_bytes()).is_ok() {
                bucket.lock().unwrap().endless_bytes += 0x1_0000;
            }
            return;
        }
        let (head, body, sent) = answer(&mut bucket.lock().unwrap(), &path, &headers);
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        let mut out = stream;
        let whole = sent == body.len();
        if out
            .write_all(head.as_bytes())
            .and_then(|()| out.write_all(&body[..sent]))
            .is_err()
            || !whole
        {
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
fn answer(
    bucket: &mut Bucket,
    path: &str,
    headers: &BTreeMap<String, String>,
) -> (String, Vec<u8>, usize) {
    let range = headers.get("range").cloned().unwrap_or_default();
    bucket
        .asked
        .push(format!("{path} {range}").trim_end().to_owned());
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
    let signed_for = |region: &str| {
        headers
            .get("authorization")
            .is_some_and(|auth| auth.contains(&format!("/{region}/s3/")))
    };
    if let Some(region) = bucket.region.filter(|region| !signed_for(region)) {
        return plain(
            301,
            &format!("x-amz-bucket-region: {region}\r\n"),
            Vec::new(),
        );
    }
    let is_list = path.contains("list-type=2");
    if let Some(Odd::Status(status, code)) = bucket.odd.front().cloned() {
        bucket.odd.pop_front();
        return refusal(status, code);
    }
    if !headers
        .get("authorization")
        .is_some_and(|auth| auth.contains("Credential=ID/"))
    {
        return refusal(403, "AccessDenied");
    }
    if let Some(objects) = bucket.endless_listing.filter(|_| is_list) {
        bucket.pages += 1;
        let page = bucket.pages;
        let object = |n| {
            format!(
                "<Contents><Key>runs/{page}-{n}.jsonl</Key><ETag>x</ETag><Size>1</Size></Contents>"
            )
        };
        let contents: String = (0..objects).map(object).collect();
        let text = format!(
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{page}</NextContinuationToken>\
             {contents}</ListBucketResult>"
        );
        return plain(200, "", text.into_bytes());
    }
    if is_list {
        return plain(200, "", list(bucket, path).into_bytes());
    }
    if bucket.locked {
        return refusal(403, "AccessDenied");
    }
    let key = percent_encoding::percent_decode_str(path.strip_prefix("/bucket/").unwrap())
        .decode_utf8_lossy();
    let Some((bytes, tag)) = bucket.objects.get(&*key) else {
        return refusal(404, "NoSuchKey");
    };
    if headers
        .get("if-match")
        .is_some_and(|asked| asked.trim_matches('"') != tag)
    {
        return refusal(412, "PreconditionFailed");
    }
    let from: usize = range
        .strip_prefix("bytes=")
        .map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
    let mut body = bytes[from..].to_vec();
    let more = format!(
        "ETag: \"{tag}\"\r\nContent-Range: bytes {from}-{}/{}\r\n",
        bytes.len() - 1,
        bytes.len()
    );
    let mut sent = body.len();
    match bucket.odd.pop_front() {
        Some(Odd::Cut(by)) => sent -= by,
        Some(Odd::Damaged) => body[0] ^= 1,
        _ => {}
    }
    (
        format!(
            "HTTP/1.1 {} x\r\n{more}",
            if range.is_empty() { 200 } else { 206 }
        ),
        body,
        sent,
    )
}

fn list(bucket: &Bucket, path: &str) -> String {
    let after = path
        .split("continuation-token=")
        .nth(1)
        .and_then(|rest| rest.split('&').next());
    let after = after.map(|after| {
        percent_encoding::percent_decode_str(after)
            .decode_utf8_lossy()
            .into_owned()
    });
    let is_behind =
        |key: &str| key.starts_with("runs/") && after.as_deref().is_none_or(|after| key > after);
    let page: Vec<_> = bucket
        .objects
        .iter()
        .filter(|(key, _)| is_behind(key))
        .collect();
    let entry = |(key, (bytes, tag)): (&String, &(Vec<u8>, String))| {
        let modified = bucket.times.get(key).map_or(MODIFIED, String::as_str);
        let (key, size) = (
            percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC),
            bytes.len(),
        );
        format!(
            "<Contents><Key>{key}</Key><ETag>&quot;{tag}&quot;</ETag><Size>{size}</Size><LastModified>{modified}</LastModified></Contents>"
        )
    };
    let more = page.len() > PAGE;
    let last = page
        .get(PAGE - 1)
        .filter(|_| more)
        .map(|(key, _)| key.as_str());
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
pub(crate) fn until(mirror: &Mirror, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    let start = Instant::now();
    loop {
        let status = mirror.status();
        if is_so(&status) {
            return status;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain: {what}: {status:?}"
        );
        std::thread::yield_now();
    }
}

/// Waits until all that the store holds from now on is here.
#[track_caller]
pub(crate) fn settled(mirror: &Mirror) -> Status {
    let asked = Instant::now();
    until(mirror, "all is here", |status| {
        status.as_of.is_some_and(|moment| moment > asked)
    })
}
