//! Why a request failed, and what to do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::response::Parts;
use object_store::client::{HttpError, HttpErrorKind};

use super::address::Cloud;
use super::listing;
use super::settings::{Login, Settings};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The store is away or busy, or the answer was truncated. The same request may succeed, after the wait that the
    /// store asks for, if any.
    Passing(String, Option<Duration>),
    /// The credentials don't allow it. The second text is the hint.
    Refused(String, Option<String>),
    /// object_store has no credentials to sign with, or can't use the head of the answer. The second text is the hint.
    Client(String, Option<String>),
    /// The object is gone or isn't the listed one any more.
    Outdated,
    /// The bucket is in this region.
    Elsewhere(String),
    /// Anything else. The second text is the hint.
    Wrong(String, Option<String>),
}

impl Fault {
    /// Says what is wrong.
    pub(super) fn what(&self) -> String {
        match self {
            Self::Passing(what, _)
            | Self::Refused(what, _)
            | Self::Client(what, _)
            | Self::Wrong(what, _) => what.clone(),
            Self::Outdated => "it changed while it was fetched".to_owned(),
            Self::Elsewhere(region) => format!("the bucket is in the region {region}"),
        }
    }

    /// Says what to do about it.
    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(_, hint) | Self::Client(_, hint) | Self::Wrong(_, hint) => {
                hint.as_deref()
            }
            _ => None,
        }
    }

    /// Finds the fault that our client reported to object_store. Otherwise, the innermost cause says the most.
    pub(super) fn of(error: &object_store::Error) -> Self {
        let mut cause: &(dyn Error + 'static) = error;
        while let Some(next) = cause.source() {
            if let Some(fault) = next.downcast_ref::<Self>() {
                return fault.clone();
            }
            cause = next;
        }
        Self::Client(first_line(&cause.to_string()), None)
    }

    /// A service that issues credentials fails, or doesn't answer.
    pub(super) fn no_login(what: &str, cloud: Cloud) -> Self {
        let hint = match cloud {
            Cloud::Aws => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            Cloud::Google => {
                "set GOOGLE_APPLICATION_CREDENTIALS, run `gcloud auth application-default login`, or for a public bucket \
                 set GOOGLE_SKIP_SIGNATURE=true"
            }
            Cloud::Azure => {
                "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, run `az login` and set \
                 AZURE_USE_AZURE_CLI=true, or for a public container set AZURE_SKIP_SIGNATURE=true"
            }
        };
        let what = format!("can't get credentials: {what}");
        Self::Client(what, Some(hint.to_owned()))
    }

    /// The store doesn't answer.
    pub(super) fn no_answer(host: &str, why: &str) -> Self {
        let what = format!("{host}: {why}");
        // A retry doesn't make a certificate valid.
        if why.contains("invalid peer certificate") {
            let hint = "if your own CA signed the certificate, set SSL_CERT_FILE to a file with the CA's certificate; \
                        AWS_CA_BUNDLE isn't used";
            return Self::Wrong(what, Some(hint.to_owned()));
        }
        Self::Passing(what, None)
    }

    /// The store answers with an error. Sorts it by what to do about it.
    pub(super) fn of_answer(
        host: &str,
        head: &Parts,
        body: &str,
        cloud: Cloud,
        settings: &Settings,
    ) -> Self {
        let header = |name: &str| head.headers.get(name)?.to_str().ok();
        let (status, refusal) = (head.status.as_u16(), listing::refusal(body));
        let words = [&*refusal.code, &*refusal.message].into_iter();
        let words: Vec<&str> = words.filter(|text| !text.is_empty()).collect();
        let words = first_line(&words.join(": "));
        let space = if words.is_empty() { "" } else { " " };
        let what = format!("{host} answered {status}{space}{words}");
        let region = header("x-amz-bucket-region").unwrap_or(&refusal.region);
        let is_elsewhere = is_region(region) && region != settings.region;
        // Azure reports a wrong clock as a wrong signature.
        let detail = &refusal.authentication_error_detail;
        let is_skewed = detail.contains("date header too old");
        let wrong = |what, hint: &str| Self::Wrong(what, Some(hint.to_owned()));
        let clock = "this machine's clock is off by more than 15 minutes";
        let session =
            "the session of these keys has expired; board rereads the AWS files to find new ones";
        match (status, &*refusal.code) {
            (301 | 307 | 400, _) if is_elsewhere => Self::Elsewhere(region.to_owned()),
            (412 | 416, _) | (404, "NoSuchKey" | "BlobNotFound") => Self::Outdated,
            (_, "RequestTimeTooSkewed") => wrong(what, clock),
            _ if is_skewed => wrong(what, clock),
            (_, "ExpiredToken" | "TokenRefreshRequired") => {
                Self::Refused(what, Some(session.to_owned()))
            }
            (401 | 403, _) | (409, "PublicAccessNotPermitted") => {
                Self::Refused(what, Some(rights(cloud, settings)))
            }
            (404, "NoSuchBucket" | "ContainerNotFound") => wrong(what, no_bucket(cloud, settings)),
            (429 | 500..=599, _) | (_, "SlowDown" | "RequestTimeout") => {
                let seconds = header("retry-after").and_then(|text| text.trim().parse().ok());
                let wait = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
                Self::Passing(what, wait)
            }
            _ => Self::Wrong(what, None),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())
    }
}

impl Error for Fault {}

impl From<Fault> for HttpError {
    fn from(fault: Fault) -> Self {
        // object_store doesn't retry errors of this kind.
        Self::new(HttpErrorKind::Unknown, fault)
    }
}

/// Says which rights or credentials are missing.
fn rights(cloud: Cloud, settings: &Settings) -> String {
    let text = match (cloud, &settings.login, &settings.why_none) {
        (Cloud::Google, ..) => {
            "the credentials need the role Storage Object Viewer there; for a public bucket, set GOOGLE_SKIP_SIGNATURE=true"
        }
        (Cloud::Azure, ..) => {
            "the credentials need the role Storage Blob Data Reader there; for a public container, set \
             AZURE_SKIP_SIGNATURE=true"
        }
        (_, Login::Keys(keys), _) => {
            let id = &keys.id;
            return format!(
                "the key {id} needs the permissions s3:ListBucket and s3:GetObject there"
            );
        }
        (_, Login::Options | Login::Instance, _) => {
            "the role needs the permissions s3:ListBucket and s3:GetObject there"
        }
        (_, _, Some(why)) => return format!("no credentials were sent: {why}"),
        (..) => {
            "no credentials were sent, and only public buckets allow that; set AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        }
    };
    text.to_owned()
}

fn no_bucket(cloud: Cloud, settings: &Settings) -> &'static str {
    match (cloud, &settings.endpoint) {
        (Cloud::Aws, None) => "for a store outside AWS, set AWS_ENDPOINT_URL",
        (Cloud::Aws, Some(_)) => "AWS_ENDPOINT_URL selects the store",
        (Cloud::Google, _) => "check the name in the address",
        (Cloud::Azure, _) => "AZURE_STORAGE_ACCOUNT_NAME selects the account",
    }
}

/// Shortens a store's text for people; it may be a page of HTML.
pub(super) fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

fn is_region(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_an_unknown_authority_is_not_asked_for_again_and_what_to_do_is_said() {
        let why = "can't connect: invalid peer certificate: UnknownIssuer";
        let fault = Fault::no_answer("store.example", why);
        assert!(
            fault
                .what()
                .contains("store.example: can't connect: invalid peer certificate")
        );
        assert!(
            matches!(&fault, Fault::Wrong(..))
                && fault
                    .hint()
                    .is_some_and(|hint| hint.contains("SSL_CERT_FILE"))
        );
        assert!(matches!(
            Fault::no_answer("a", "can't connect: Connection refused (os error 111)"),
            Fault::Passing(_, None)
        ));
    }
}
