//! What did the person name? `s3://BUCKET/PREFIX`.

use std::fmt;

use crate::error::{Error, Kind, Result};

/// What every such address begins with.
const SCHEME: &str = "s3://";

/// A place in an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) bucket: String,
    /// What the keys of all its objects begin with: empty, or with a `/` at its end.
    pub(super) prefix: String,
}

impl Address {
    /// Whether a root is meant to be one.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads an address.
    ///
    /// # Errors
    /// It names no bucket, or one that no store can have.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let error = Error::new(
                Kind::Usage,
                format!("{text} is no address of a bucket: {why}"),
            );
            error
                .hint("it looks like s3://BUCKET or s3://BUCKET/PREFIX; AWS_ENDPOINT_URL names a store that is not AWS")
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong("it does not begin with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        if bucket.is_empty() {
            return Err(wrong("it names no bucket"));
        }
        if !bucket.chars().all(is_plain) || bucket.starts_with('.') {
            return Err(wrong(
                "the name of a bucket holds letters, digits, dots and hyphens",
            ));
        }
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}/")
        };
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix,
        })
    }

    /// Its last part, for the name of a directory.
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
        let whole = format!("{SCHEME}{}/{}", self.bucket, self.prefix);
        f.write_str(whole.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_and_a_prefix_are_told_apart() {
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
        ] {
            assert_eq!(
                Address::parse(wrong).unwrap_err().kind(),
                Kind::Usage,
                "{wrong}"
            );
        }
    }
}
