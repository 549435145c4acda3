//! A store on the loopback interface that answers as a test wants, with the API of each cloud.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};

use super::address::Cloud;
use super::fetch::hex;
use super::http::Patience;
use super::settings::{Credentials, Login};
use super::store::Store;
use super::{Address, ListingBounds, Mirror, Options, Settings, Status};

pub(super) const MODIFIED: &str = "2026-01-02T03:04:05.000Z";
/// [`MODIFIED`] as a header.
const LAST_MODIFIED: &str = "Fri, 02 Jan 2026 03:04:05 GMT";
/// The number of objects on a page of a listing.
const PAGE: usize = 3;
/// The wait before the first retry.
const FIRST_WAIT: Duration = Duration::from_millis(1);

/// A wrong answer.
#[derive(Debug, Clone)]
pub(super) enum Odd {
    /// To the next request.
    Status(u16, &'static str),
    /// To the next request for an object: without the last bytes, or with a wrong first byte.
    Cut(usize),
    Damaged,
    /// To the next request for an object: a body in chunks without an end.
    Endless,
}

#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(super) objects: BTreeMap<String, (Vec<u8>, String)>,
    /// When objects were written, if not at [`MODIFIED`].
    times: BTreeMap<String, String>,
    pub(super) odd: VecDeque<Odd>,
    /// The answer to all requests, while it is set.
    pub(crate) down: Option<(u16, &'static str)>,
    /// The region of the bucket. Requests signed for another one are redirected.
    pub(super) region: Option<&'static str>,
    /// Answers nothing, while it is set.
    pub(super) hangs: bool,
    /// Additional headers of objects. They replace others of the same name.
    pub(super) headers: BTreeMap<&'static str, &'static str>,
    /// Lists objects and refuses to send them.
    pub(super) locked: bool,
    /// Each page of a listing has this many objects and the token of another page.
    pub(super) endless_listing: Option<usize>,
    /// How the tokens of these pages begin.
    pub(super) token: String,
    pages: usize,
    /// The number of bytes sent in bodies without an end.
    pub(super) endless_bytes: usize,
    /// The role that the metadata service of the machine hands out.
    pub(super) has_role: bool,
    /// The path and range of each request.
    asked: Vec<String>,
}

/// A store that serves until the test ends.
pub(crate) struct Fake {
    cloud: Cloud,
    bucket: Arc<Mutex<Bucket>>,
    host: SocketAddr,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self::of(Cloud::Aws)
    }

    pub(super) fn of(cloud: Cloud) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap();
        let bucket = Arc::<Mutex<Bucket>>::default();
        let of_server = Arc::clone(&bucket);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bucket = Arc::clone(&of_server);
                std::thread::spawn(move || serve(&stream, cloud, &bucket));
            }
        });
        Self {
            cloud,
            bucket,
            host,
        }
    }

    pub(crate) fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap()
    }

    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        self.put_tagged(key, bytes, &hex(&Md5::digest(bytes)));
    }

    /// Puts an object that was written some hours later than others.
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
        let keys = Credentials {
            id: "ID".to_owned(),
            secret: "secret".to_owned(),
            session: None,
        };
        let (login, option) = match self.cloud {
            Cloud::Aws => (Login::Keys(keys), None),
            Cloud::Google => (Login::Options, Some(("google_bearer_token", "ID"))),
            Cloud::Azure => (
                Login::Options,
                Some(("azure_storage_account_key", "c2VjcmV0")),
            ),
        };
        let option = option.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Settings {
            login,
            why_none: None,
            region: "us-east-1".to_owned(),
            endpoint: Some(format!("http://{}", self.host)),
            path_style: None,
            account: Some("ID".to_owned()),
            options: option.into_iter().collect(),
            reread: false,
        }
    }

    /// Follows the store without credentials, on a machine that may have a role.
    pub(super) fn follow_anonymously(&self) -> Mirror {
        let metadata = format!("http://{}", self.host);
        let settings = Settings {
            login: Login::Anonymous {
                then_instance: true,
            },
            options: vec![("aws_metadata_endpoint".to_owned(), metadata)],
            ..self.settings()
        };
        self.follow_as(
            settings,
            None,
            1 << 20,
            Duration::from_secs(30),
            |options| options,
        )
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
        self.follow_as(self.settings(), cache, limit, long, change)
    }

    fn follow_as(
        &self,
        settings: Settings,
        cache: Option<&Path>,
        limit: u64,
        long: Duration,
        change: impl FnOnce(Options) -> Options,
    ) -> Mirror {
        let options = change(options(cache, limit));
        let (address, patience) = (self.address(), patience(long));
        Mirror::follow_with(&address, settings, options, patience, FIRST_WAIT).unwrap()
    }

    /// Returns a client that follows nothing.
    pub(super) fn store(&self, settings: Settings) -> Store {
        let patience = patience(Duration::from_secs(30));
        Store::new(self.address(), settings, patience, FIRST_WAIT).unwrap()
    }

    fn address(&self) -> Address {
        Address::parse(&format!("{}://bucket/runs", self.cloud.scheme())).unwrap()
    }

    /// The number of requests for pages of listings.
    pub(super) fn listings(&self) -> usize {
        self.bucket()
            .asked
            .iter()
            .filter(|asked| is_list(asked))
            .count()
    }

    /// Returns the requests for objects since the last call.
    pub(crate) fn gets(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.bucket().asked);
        asked.into_iter().filter(|asked| !is_list(asked)).collect()
    }
}

pub(super) fn options(cache: Option<&Path>, limit: u64) -> Options {
    Options {
        cache: cache.map(Path::to_owned),
        limit,
        every: Duration::from_millis(10),
        budget: u32::MAX,
        listing: ListingBounds::default(),
    }
}

fn patience(long: Duration) -> Patience {
    Patience {
        connect: long,
        head: long,
        piece: long,
    }
}

fn serve(stream: &TcpStream, cloud: Cloud, bucket: &Mutex<Bucket>) {
    let mut reader = BufReader::new(stream);
    while let Some((path, headers)) = request(&mut reader) {
        if bucket.lock().unwrap().hangs {
            // Until the client leaves.
            let _ = request(&mut reader);
            return;
        }
        let is_endless = {
            let mut bucket = bucket.lock().unwrap();
            let is_due = !is_list(&path) && matches!(bucket.odd.front(), Some(Odd::Endless));
            is_due && bucket.odd.pop_front().is_some()
        };
        if is_endless {
            let mut out = stream;
            let head = "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
            let _ = out.write_all(head.as_bytes());
            // Until the client leaves.
            while out.write_all(chunk.as_bytes()).is_ok() {
                bucket.lock().unwrap().endless_bytes += 0x1_0000;
            }
            return;
        }
        let (head, body, sent) = answer(&mut bucket.lock().unwrap(), cloud, &path, &headers);
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

fn is_list(path: &str) -> bool {
    path.contains("list-type=2") || path.contains("comp=list")
}

/// Returns the head, the body, and how many bytes of it are sent.
fn answer(
    bucket: &mut Bucket,
    cloud: Cloud,
    path: &str,
    headers: &BTreeMap<String, String>,
) -> (String, Vec<u8>, usize) {
    if let Some(path) = path.strip_prefix("/latest/") {
        return metadata(bucket.has_role, path);
    }
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
    let is_list = is_list(path);
    if let Some(Odd::Status(status, code)) = bucket.odd.front().cloned() {
        bucket.odd.pop_front();
        return refusal(status, code);
    }
    let signed = match cloud {
        Cloud::Aws => "Credential=ID/",
        Cloud::Google => "Bearer ID",
        Cloud::Azure => "SharedKey ID:",
    };
    if !headers
        .get("authorization")
        .is_some_and(|auth| auth.contains(signed))
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
            "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}{page}</NextContinuationToken>\
             {contents}</ListBucketResult>",
            token = bucket.token
        );
        return plain(200, "", text.into_bytes());
    }
    if is_list {
        return plain(200, "", list(bucket, cloud, path).into_bytes());
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
    let (tag, last, length) = (format!("\"{tag}\""), bytes.len() - 1, bytes.len());
    let range_sent = format!("bytes {from}-{last}/{length}");
    let mut headers = BTreeMap::from([
        ("ETag", &*tag),
        ("Last-Modified", LAST_MODIFIED),
        ("Content-Range", &*range_sent),
    ]);
    headers.extend(bucket.headers.clone());
    let headers = headers.into_iter();
    let more: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
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

/// Answers as the metadata service of a machine in AWS.
fn metadata(has_role: bool, path: &str) -> (String, Vec<u8>, usize) {
    let (status, text) = match path {
        _ if !has_role => (404, ""),
        "api/token" => (200, "a token"),
        "meta-data/iam/security-credentials/" => (200, "role"),
        _ => (
            200,
            r#"{"AccessKeyId": "ID", "SecretAccessKey": "secret", "Token": "t", "Expiration": "2999-01-01T00:00:00Z"}"#,
        ),
    };
    (format!("HTTP/1.1 {status} x\r\n"), text.into(), text.len())
}

fn list(bucket: &Bucket, cloud: Cloud, path: &str) -> String {
    let after = path
        .split("continuation-token=")
        .nth(1)
        .or_else(|| path.split("marker=").nth(1))
        .and_then(|rest| rest.split('&').next());
    let after = after.map(|after| {
        percent_encoding::percent_decode_str(&after.replace('+', " "))
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
        let (key, size) = (escaped(key), bytes.len());
        if cloud == Cloud::Azure {
            return format!(
                "<Blob><Name>{key}</Name><Properties><Etag>{tag}</Etag><Content-Length>{size}</Content-Length>\
                 <Last-Modified>{LAST_MODIFIED}</Last-Modified></Properties></Blob>"
            );
        }
        format!(
            "<Contents><Key>{key}</Key><ETag>&quot;{tag}&quot;</ETag><Size>{size}</Size><LastModified>{modified}</LastModified></Contents>"
        )
    };
    let more = page.len() > PAGE;
    let last = page
        .get(PAGE - 1)
        .filter(|_| more)
        .map(|(key, _)| key.as_str());
    let next = last.map_or_else(String::new, escaped);
    let contents: String = page.into_iter().take(PAGE).map(entry).collect();
    if cloud == Cloud::Azure {
        return format!(
            "<EnumerationResults><Blobs>{contents}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
        );
    }
    let token = format!("<NextContinuationToken>{next}</NextContinuationToken>");
    let token = if more { &*token } else { "" };
    format!(
        "<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}{contents}</ListBucketResult>"
    )
}

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        '&' | '<' | '>' => format!("&#{};", letter as u32),
        letter if letter.is_control() => format!("&#x{:x};", letter as u32),
        letter => letter.to_string(),
    };
    text.chars().map(escape).collect()
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

/// Waits until the cache is as the store was when this was called, or newer.
#[track_caller]
pub(crate) fn settled(mirror: &Mirror) -> Status {
    let asked = Instant::now();
    until(mirror, "all is here", |status| {
        status.as_of.is_some_and(|moment| moment > asked)
    })
}
