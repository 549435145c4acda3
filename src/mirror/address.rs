//! The address of a place in an object store: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.

use std::fmt;

use crate::error::{Error, Kind, Result};

/// The API of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloud {
    /// Amazon S3, and the many stores with the same API.
    Aws,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

const CLOUDS: [Cloud; 3] = [Cloud::Aws, Cloud::Google, Cloud::Azure];

impl Cloud {
    /// The scheme of its addresses.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Aws => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }

    /// Splits an address at `://`, if its scheme is that of a store.
    fn split(text: &str) -> Option<(Self, &str)> {
        CLOUDS.into_iter().find_map(|cloud| {
            let rest = text.strip_prefix(cloud.scheme())?;
            Some((cloud, rest.strip_prefix("://")?))
        })
    }
}

/// A place in an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(super) cloud: Cloud,
    /// The bucket, or the container in Azure.
    pub(super) bucket: String,
    /// The common start of all keys: empty, or ends with `/`.
    pub(super) prefix: String,
}

impl Address {
    /// Returns whether a root is meant as an address of a store and not a directory: whether it
    /// begins with `SCHEME://`. Only [`Self::parse`] knows which schemes exist. A single letter is
    /// a drive of Windows.
    pub(crate) fn is_meant(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.len() >= 2 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }

    /// Reads an address.
    ///
    /// # Errors
    /// The scheme is unknown, the bucket is missing or has an impossible name, or the prefix has an empty part.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let what = format!("{text} isn't a valid object store address: {why}");
            Error::new(Kind::Usage, what).hint(
                "use s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; for an S3-compatible \
                 store outside AWS, set AWS_ENDPOINT_URL",
            )
        };
        let unknown = || wrong("unknown scheme").hint("a local directory is a path without ://");
        let (cloud, rest) = Cloud::split(text).ok_or_else(unknown)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        if bucket.is_empty() {
            return Err(wrong("the bucket name is missing"));
        }
        if !bucket.chars().all(is_plain) || bucket.starts_with('.') {
            return Err(wrong(
                "bucket names consist of letters, digits, dots and hyphens",
            ));
        }
        let prefix = prefix.trim_end_matches('/');
        if !prefix.is_empty()
            && prefix
                .split('/')
                .any(|part| ["", ".", ".."].contains(&part))
        {
            return Err(wrong("the prefix has a part that is empty, `.` or `..`"));
        }
        let end = if prefix.is_empty() { "" } else { "/" };
        Ok(Self {
            cloud,
            bucket: bucket.to_owned(),
            prefix: format!("{prefix}{end}"),
        })
    }

    /// Returns the last part, which names the cache directory.
    #[cfg(feature = "cloud")]
    pub(super) fn name(&self) -> &str {
        self.prefix
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or(&self.bucket)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = format!("{}://{}/{}", self.cloud.scheme(), self.bucket, self.prefix);
        f.write_str(whole.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_scheme_is_meant_as_an_address() {
        for text in ["s3://x", "s3://", "s4://x", "https://x/y", "S3://x"] {
            assert!(Address::is_meant(text), "{text}");
        }
        for text in [
            "",
            "runs",
            "./s3://x",
            "C://runs",
            "://x",
            "a b://x",
            "s3:/x",
            "tool:s3://x",
        ] {
            assert!(!Address::is_meant(text), "{text}");
        }
        let error = Address::parse("s4://x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "s4://x isn't a valid object store address: unknown scheme"
        );
    }

    #[test]
    fn addresses_have_a_bucket_and_a_prefix() {
        for (text, bucket, prefix, shown, name) in [
            ("s3://runs", "runs", "", "s3://runs", "runs"),
            ("s3://runs/", "runs", "", "s3://runs", "runs"),
            (
                "s3://runs/a/b c",
                "runs",
                "a/b c/",
                "s3://runs/a/b c",
                "b c",
            ),
            ("s3://runs/a/b//", "runs", "a/b/", "s3://runs/a/b", "b"),
            ("gs://runs/a", "runs", "a/", "gs://runs/a", "a"),
            ("az://box/a", "box", "a/", "az://box/a", "a"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!(
                (&*address.bucket, &*address.prefix),
                (bucket, prefix),
                "{text}"
            );
            assert_eq!(
                (address.to_string(), address.name()),
                (shown.to_owned(), name),
                "{text}"
            );
        }
        for wrong in [
            "s3://",
            "s3:///runs",
            "s3://a b/c",
            "s3://../x",
            "s3://a\n",
            "./runs",
            "gs://",
            "s3://runs/a//b",
            "az://runs/../b",
            "abfs://runs/a",
        ] {
            assert_eq!(
                Address::parse(wrong).unwrap_err().kind(),
                Kind::Usage,
                "{wrong}"
            );
        }
    }
}
