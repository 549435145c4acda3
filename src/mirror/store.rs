//! What does the store say? Listings and objects, with what went wrong sorted by what is to be done about it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;

use super::address::Address;
use super::http::{Http, Patience, Response};
use super::settings::Settings;
use super::sign::{self, StoreRequest};
use super::xml::{self, Page, Refusal};
use crate::error::{Error, Kind, Result};

/// A longer page of a listing is none: of 1,000 objects with the longest keys, encoded, it takes some 4 MiB.
const MAX_PAGE_BYTES: usize = 16 << 20;
/// Of an error, more says nothing more.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// No longer wait is granted to a store that asks for one; the next listing tries again anyway.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// A request is sent at most so often before it is given up.
const TRIES: u32 = 4;

/// Why a request brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The store is away or busy, or the answer was cut off: the same request may succeed, after a wait that the store
    /// may have named.
    Passing(String, Option<Duration>),
    /// Not with these keys.
    Refused(String, Option<String>),
    /// There is no such object any more, or another one than was listed.
    Outdated,
    /// The store takes requests for this bucket elsewhere.
    Elsewhere(String),
    /// Anything else.
    Wrong(String, Option<String>),
}

impl Fault {
    /// What is wrong, in words.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Passing(what, _) | Self::Refused(what, _) | Self::Wrong(what, _) => what.clone(),
            Self::Outdated => "it changed while it was fetched".to_owned(),
            Self::Elsewhere(region) => format!("the bucket lies in the region {region}"),
        }
    }

    /// What to do about it.
    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(_, hint) | Self::Wrong(_, hint) => hint.as_deref(),
            Self::Passing(..) | Self::Outdated | Self::Elsewhere(_) => None,
        }
    }
}

/// A bucket.
#[derive(Debug)]
pub(super) struct Store {
    http: Http,
    address: Address,
    settings: Mutex<Settings>,
    first_wait: Duration,
    /// How many requests were sent, and how many of them for listings. The status reads them while a listing runs, which
    /// may take hours.
    pub(super) requests: Arc<AtomicU64>,
    pub(super) listings: Arc<AtomicU64>,
    /// Whether tags that look like a checksum are one, as far as is known.
    pub(super) tags_are_sums: AtomicBool,
}

/// What is asked of an object.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Part<'a> {
    /// From this byte on.
    pub(super) from: Option<u64>,
    /// Only if it is still this one.
    pub(super) tag: Option<&'a str>,
}

/// Where requests go.
struct Target {
    /// Scheme and host.
    origin: String,
    host: String,
    /// What stands before a key.
    path: String,
}

impl Store {
    /// Prepares to ask; nothing is sent.
    ///
    /// # Errors
    /// The endpoint is no address, or the system has no certificates.
    pub(super) fn new(
        address: Address,
        settings: Settings,
        patience: Patience,
        first_wait: Duration,
    ) -> Result<Self> {
        let target = target(&address, &settings);
        let is_tls = match target.origin.split_once("://") {
            Some(("https", _)) => true,
            Some(("http", _)) => false,
            _ => {
                let error = Error::new(
                    Kind::Usage,
                    format!("the endpoint {} is no address", target.origin),
                );
                return Err(error.hint(
                    "AWS_ENDPOINT_URL looks like https://s3.example.com or http://127.0.0.1:9000",
                ));
            }
        };
        // A name and a password there would be shown with every error.
        let is_host = |host: &str| !host.is_empty() && !host.contains(['@', ' ', '/', '?', '#']);
        if !is_host(&target.host) || format!("{}/", target.origin).parse::<http::Uri>().is_err() {
            let error = Error::new(
                Kind::Usage,
                "the endpoint of the store names no host, or more than that",
            );
            return Err(error.hint(
                "AWS_ENDPOINT_URL looks like https://s3.example.com or http://127.0.0.1:9000",
            ));
        }
        Ok(Self {
            http: Http::new(is_tls, patience)?,
            address,
            settings: Mutex::new(settings),
            first_wait,
            requests: Arc::default(),
            listings: Arc::default(),
            tags_are_sums: AtomicBool::new(true),
        })
    }

    /// The host that is asked.
    pub(super) fn host(&self) -> String {
        target(&self.address, &self.settings()).host
    }

    /// Reads again who asks: keys that end are replaced in the files of AWS.
    pub(super) fn reread(&self) {
        let fresh = if self.settings().reread {
            Settings::read().ok()
        } else {
            None
        };
        if let Some(fresh) = fresh.filter(|fresh| fresh.credentials.is_some()) {
            self.settings
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .credentials = fresh.credentials;
        }
    }

    fn settings(&self) -> Settings {
        self.settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// One page of the listing; keys are those below the prefix.
    pub(super) async fn list(&self, after: Option<&str>) -> Result<Page, Fault> {
        let prefix = &*self.address.prefix;
        let mut query = vec![
            ("encoding-type", "url"),
            ("list-type", "2"),
            ("max-keys", "1000"),
            ("prefix", prefix),
        ];
        query.extend(after.map(|after| ("continuation-token", after)));
        query.sort_unstable();
        self.patiently(async || {
            self.listings.fetch_add(1, Ordering::Relaxed);
            let mut answer = self.ask("", &query, &[]).await?;
            let bytes = answer
                .bytes(MAX_PAGE_BYTES)
                .await
                .map_err(|why| Fault::Passing(why, None))?;
            let text = String::from_utf8_lossy(&bytes);
            let odd = |why| Fault::Passing(format!("the listing cannot be read: {why}"), None);
            let mut page = xml::page(&text).map_err(odd)?;
            let before = page.objects.len();
            page.objects
                .retain_mut(|object| match object.key.strip_prefix(prefix) {
                    Some(below) => {
                        object.key = below.to_owned();
                        true
                    }
                    None => false,
                });
            page.unreadable += before - page.objects.len();
            Ok(page)
        })
        .await
    }

    /// The head of an object or a part of it, whose body is still to come. Asked once.
    pub(super) async fn get(&self, key: &str, part: Part<'_>) -> Result<Response, Fault> {
        let mut headers = Vec::new();
        headers.extend(part.tag.map(|tag| ("if-match", format!("\"{tag}\""))));
        headers.extend(part.from.map(|from| ("range", format!("bytes={from}-"))));
        self.ask(&format!("{}{key}", self.address.prefix), &[], &headers)
            .await
    }

    /// Does `attempt` until it brings something, or something that will not pass.
    pub(super) async fn patiently<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut tries = 1;
        loop {
            match attempt().await {
                Err(Fault::Passing(_, wait))
                    if tries < TRIES && wait.is_none_or(|wait| wait <= MAX_WAIT) =>
                {
                    let ours = jittered(self.first_wait * 2_u32.pow(tries - 1));
                    tokio::time::sleep(wait.map_or(ours, |wait| wait.max(ours))).await;
                }
                // Told once; told again, it leads in a circle.
                Err(Fault::Elsewhere(region)) if tries == 1 => {
                    self.settings
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .region = region;
                }
                done => return done,
            }
            tries += 1;
        }
    }

    async fn ask(
        &self,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&'static str, String)],
    ) -> Result<Response, Fault> {
        let settings = self.settings();
        let Target { origin, host, path } = target(&self.address, &settings);
        let path = format!("{path}{}", sign::path(key));
        let mut sent = vec![("host", host.clone())];
        sent.extend(headers.iter().cloned());
        if let Some(who) = &settings.credentials {
            let asked = StoreRequest {
                host: &host,
                path: &path,
                query,
                headers,
            };
            let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
            sent.extend(sign::sign(&asked, who, &settings.region, now));
        }
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{origin}{path}{mark}{}", sign::query(query));
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut answer = self
            .http
            .get(&url, &sent)
            .await
            .map_err(|why| unreached(&host, &why))?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let body = answer.bytes(MAX_ERROR_BYTES).await.unwrap_or_default();
        let refusal = xml::refusal(&String::from_utf8_lossy(&body));
        Err(sorted(&answer, refusal, &settings, &host))
    }
}

/// What is to be done where no answer came.
fn unreached(host: &str, why: &str) -> Fault {
    let what = format!("{host}: {why}");
    // No other try makes a certificate better.
    if why.contains("invalid peer certificate") {
        let hint = "SSL_CERT_FILE names a file with the certificate of the authority that it is checked against, where \
                    that is not one of the system's; AWS_CA_BUNDLE is not read";
        return Fault::Wrong(what, Some(hint.to_owned()));
    }
    Fault::Passing(what, None)
}

/// What is to be done about an answer that is none.
fn sorted(answer: &Response, refusal: Refusal, settings: &Settings, host: &str) -> Fault {
    let status = answer.status.as_u16();
    let Refusal {
        code,
        message,
        region,
    } = refusal;
    let said = [&*code, &*message]
        .into_iter()
        .filter(|said| !said.is_empty())
        .collect::<Vec<_>>()
        .join(": ");
    let what = format!(
        "{host} answered {status}{}{}",
        if said.is_empty() { "" } else { " " },
        first_line(&said)
    );
    let region = answer
        .header("x-amz-bucket-region")
        .map(str::to_owned)
        .or(Some(region).filter(|it| !it.is_empty()));
    let elsewhere = region.filter(|region| *region != settings.region && is_region(region));
    match (status, &*code) {
        (301 | 307 | 400, _) if elsewhere.is_some() => {
            Fault::Elsewhere(elsewhere.unwrap_or_default())
        }
        (412, _) | (404, "NoSuchKey") | (416, _) => Fault::Outdated,
        (_, "RequestTimeTooSkewed") => Fault::Wrong(
            what,
            Some("the clock of this machine is wrong by more than 15 minutes".to_owned()),
        ),
        (_, "ExpiredToken" | "TokenRefreshRequired") => Fault::Refused(
            what,
            Some(
                "the session of these keys ended; new ones in the files of AWS are taken up"
                    .to_owned(),
            ),
        ),
        (401 | 403, _) => Fault::Refused(what, Some(who_may(settings))),
        (404, "NoSuchBucket") => Fault::Wrong(what, Some(bucket_hint(settings))),
        (429 | 500..=599, _) | (_, "SlowDown" | "RequestTimeout") => {
            Fault::Passing(what, retry_after(answer))
        }
        _ => Fault::Wrong(what, None),
    }
}

fn who_may(settings: &Settings) -> String {
    match (&settings.credentials, &settings.why_none) {
        (Some(who), _) => format!(
            "the key {} needs the rights s3:ListBucket and s3:GetObject there",
            who.id
        ),
        (None, Some(why)) => format!("it was asked without a key: {why}"),
        (None, None) => {
            "it was asked without a key, which only public buckets answer; AWS_ACCESS_KEY_ID and \
                         AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, say who asks"
                .to_owned()
        }
    }
}

fn bucket_hint(settings: &Settings) -> String {
    match &settings.endpoint {
        Some(_) => "AWS_ENDPOINT_URL says which store is asked".to_owned(),
        None => "for a store that is not AWS, set AWS_ENDPOINT_URL".to_owned(),
    }
}

/// Text of a store is shown to people; a page of HTML is not.
fn first_line(said: &str) -> String {
    said.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

fn is_region(text: &str) -> bool {
    text.len() <= 40
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

fn retry_after(answer: &Response) -> Option<Duration> {
    let seconds: f64 = answer.header("retry-after")?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Boards that failed together come back apart.
fn jittered(wait: Duration) -> Duration {
    let part = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    wait.mul_f64(0.5 + part / 2.0)
}

fn target(address: &Address, settings: &Settings) -> Target {
    let bucket = &address.bucket;
    // Certificates of AWS hold for one name below the host, and older buckets have names that no host can have.
    let fits_host = bucket
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-');
    let in_path = settings.path_style.unwrap_or(settings.endpoint.is_some()) || !fits_host;
    let endpoint = settings.endpoint.clone().unwrap_or_else(|| {
        let china = if settings.region.starts_with("cn-") {
            ".cn"
        } else {
            ""
        };
        format!("https://s3.{}.amazonaws.com{china}", settings.region)
    });
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", &endpoint));
    let (host, below) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(host, below)| {
            (host, format!("/{below}"))
        });
    let host = if in_path {
        host.to_owned()
    } else {
        format!("{bucket}.{host}")
    };
    let path = if in_path {
        format!("{below}/{bucket}")
    } else {
        below
    };
    Target {
        origin: format!("{scheme}://{host}"),
        host,
        path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(region: &str, endpoint: Option<&str>, path_style: Option<bool>) -> Settings {
        let (region, endpoint) = (region.to_owned(), endpoint.map(str::to_owned));
        Settings {
            credentials: None,
            why_none: None,
            region,
            endpoint,
            path_style,
            reread: false,
        }
    }

    #[test]
    fn the_bucket_stands_in_the_host_of_aws_and_in_the_path_of_others() {
        let whole = |bucket: &str, settings: &Settings| {
            let target = target(
                &Address::parse(&format!("s3://{bucket}")).unwrap(),
                settings,
            );
            format!("{}{}", target.origin, target.path)
        };
        let aws = settings("eu-west-1", None, None);
        assert_eq!(
            whole("runs", &aws),
            "https://runs.s3.eu-west-1.amazonaws.com"
        );
        assert_eq!(whole("a.b", &aws), "https://s3.eu-west-1.amazonaws.com/a.b");
        assert_eq!(
            whole("Old_Runs", &aws),
            "https://s3.eu-west-1.amazonaws.com/Old_Runs"
        );
        assert_eq!(
            whole("runs", &settings("cn-north-1", None, None)),
            "https://runs.s3.cn-north-1.amazonaws.com.cn"
        );
        let minio = |style| settings("us-east-1", Some("http://127.0.0.1:9000"), style);
        assert_eq!(whole("runs", &minio(None)), "http://127.0.0.1:9000/runs");
        assert_eq!(
            whole("runs", &minio(Some(false))),
            "http://runs.127.0.0.1:9000"
        );
        assert_eq!(
            whole("runs", &settings("a", Some("https://x/s3"), None)),
            "https://x/s3/runs"
        );
    }

    #[test]
    fn a_certificate_of_an_unknown_authority_is_not_asked_for_again_and_what_to_do_is_said() {
        let why = "cannot connect: invalid peer certificate: UnknownIssuer";
        let fault = unreached("store.example", why);
        assert!(
            fault
                .what()
                .contains("store.example: cannot connect: invalid peer certificate")
        );
        assert!(
            matches!(&fault, Fault::Wrong(..))
                && fault
                    .hint()
                    .is_some_and(|hint| hint.contains("SSL_CERT_FILE"))
        );
        assert!(matches!(
            unreached("a", "cannot connect: Connection refused (os error 111)"),
            Fault::Passing(_, None)
        ));
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_without_its_secrets() {
        for wrong in [
            "127.0.0.1:9000",
            "ftp://x",
            "http://",
            "http://me:secret@x",
            "http://a b",
        ] {
            let patience = Patience {
                connect: MAX_WAIT,
                head: MAX_WAIT,
                piece: MAX_WAIT,
            };
            let address = Address::parse("s3://runs").unwrap();
            let store = Store::new(
                address,
                settings("a", Some(wrong), None),
                patience,
                MAX_WAIT,
            );
            let error = store.unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{wrong}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
