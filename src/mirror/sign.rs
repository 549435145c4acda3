//! How does a store know who asks? By a signature of the request, AWS Signature Version 4, for requests without a body.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::settings::Credentials;

/// What is encoded in a value of a query: all but the unreserved characters of RFC 3986.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// The same in a path, whose parts stay apart.
const PATH: &AsciiSet = &VALUE.remove(b'/');

/// A request for an object or a listing.
#[derive(Debug)]
pub(super) struct StoreRequest<'a> {
    pub(super) host: &'a str,
    /// The path as it is sent: encoded once.
    pub(super) path: &'a str,
    /// Names and values as they are meant, in the order of their names.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Further headers, by names in small letters.
    pub(super) headers: &'a [(&'static str, String)],
}

/// A key as the path of an address.
pub(super) fn path(key: &str) -> String {
    format!("/{}", utf8_percent_encode(key, PATH))
}

/// A query as it is sent and signed.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| {
        format!(
            "{}={}",
            utf8_percent_encode(name, VALUE),
            utf8_percent_encode(value, VALUE)
        )
    };
    pairs.iter().map(one).collect::<Vec<_>>().join("&")
}

/// The headers that sign a request.
pub(super) fn sign(
    asked: &StoreRequest<'_>,
    who: &Credentials,
    region: &str,
    at: Timestamp,
) -> Vec<(&'static str, String)> {
    let time = at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let day = time.get(..8).unwrap_or_default();
    let nothing = hex(&Sha256::digest(b""));
    let mut added = vec![
        ("x-amz-content-sha256", nothing.clone()),
        ("x-amz-date", time.clone()),
    ];
    added.extend(
        who.session
            .iter()
            .map(|session| ("x-amz-security-token", session.clone())),
    );

    let mut headers: Vec<(&str, &str)> = vec![("host", asked.host)];
    headers.extend(
        asked
            .headers
            .iter()
            .chain(&added)
            .map(|(name, value)| (*name, value.trim())),
    );
    headers.sort_unstable();
    let names = headers
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(";");
    let mut request = format!("GET\n{}\n{}\n", asked.path, query(asked.query));
    for (name, value) in &headers {
        // Writing to a string cannot fail.
        let _ = writeln!(request, "{name}:{value}");
    }
    let _ = write!(request, "\n{names}\n{nothing}");

    let scope = format!("{day}/{region}/s3/aws4_request");
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        hex(&Sha256::digest(request.as_bytes()))
    );
    let secret = format!("AWS4{}", who.secret);
    let key = [day, region, "s3", "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&key, &to_sign));
    let id = &who.id;
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}"
    );
    added.push(("authorization", authorization));
    added
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // Keys of any length are taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Bytes as hexadecimal digits in small letters.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(path: &str, query: &[(&str, &str)], headers: &[(&'static str, String)]) -> String {
        let who = Credentials {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session: None,
        };
        let asked = StoreRequest {
            host: "examplebucket.s3.amazonaws.com",
            path,
            query,
            headers,
        };
        let signed = sign(
            &asked,
            &who,
            "us-east-1",
            "2013-05-24T00:00:00Z".parse().unwrap(),
        );
        let (_, authorization) = signed
            .iter()
            .find(|(name, _)| *name == "authorization")
            .unwrap();
        authorization
            .rsplit_once("Signature=")
            .unwrap()
            .1
            .to_owned()
    }

    #[test]
    fn the_examples_of_the_documentation_are_signed_as_it_says() {
        // Amazon S3 API Reference, "Authenticating Requests: Using the Authorization Header".
        let range = [("range", "bytes=0-9".to_owned())];
        for (path, query, headers, signed) in [
            (
                "/test.txt",
                &[][..],
                &range[..],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "/",
                &[("lifecycle", "")],
                &[],
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "/",
                &[("max-keys", "2"), ("prefix", "J")],
                &[],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            assert_eq!(signature(path, query, headers), signed, "{path} {query:?}");
        }
    }

    #[test]
    fn odd_keys_are_encoded_once_and_keep_their_parts() {
        assert_eq!(path("a b/ü+%/~_-."), "/a%20b/%C3%BC%2B%25/~_-.");
        assert_eq!(
            query(&[("prefix", "a b/"), ("x", "")]),
            "prefix=a%20b%2F&x="
        );
    }
}
