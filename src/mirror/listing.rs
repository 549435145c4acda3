//! Reads what stores answer: a page of a listing, and the document of an error. Both are XML in all three clouds.
//!
//! object_store has a reader for pages too. It rejects a whole page for one key such as `a//b`, accepts any XML document
//! as an empty page, and ignores whether a page says that more follow. A mirror must neither stop at a strange key nor
//! take missing objects for deleted ones.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use quick_xml::de::{self, EntityResolver};
use quick_xml::events::BytesText;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// An object in a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: String,
    /// Without quotes.
    pub(super) etag: String,
    pub(super) size: u64,
    /// Microseconds since the Unix epoch; 0 if unknown.
    pub(super) modified: i64,
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) objects: Vec<Object>,
    /// The token of the next page; `None` on the last page.
    pub(super) next: Option<String>,
    /// The number of entries with an impossible key, tag or size.
    pub(super) unreadable: usize,
}

/// The reason for an error, in the store's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) region: String,
    /// Azure explains here why it rejected a signature.
    pub(super) authentication_error_detail: String,
}

/// The longest key; S3, Google and Azure allow 1,024 characters.
const MAX_KEY_BYTES: usize = 3 << 10;
const MAX_TAG_BYTES: usize = 256;
/// The longest token of a next page. Azure puts a key into it in base64, so the longest key takes more than 4 KiB.
const MAX_TOKEN_BYTES: usize = 8 << 10;
/// The largest object in S3 and Google. A larger size is a mistake, and a few of them overflow a sum.
const MAX_OBJECT_BYTES: u64 = 5 << 40;
/// Limits what may stand between two entries: the number of tags and texts, which are held in memory. Stores put at most
/// a few elements there.
const MAX_BETWEEN: usize = 1_000;
/// Replaces text that can't be read. Two keys that contain it could be the same, so it makes an entry unreadable.
const UNREADABLE: &str = "\u{fffd}";

/// The documents of a listing and of an error. The variants are the names of root elements.
#[derive(Deserialize)]
enum Document {
    ListBucketResult(BucketPage),
    EnumerationResults(ContainerPage),
    Error(Refusal),
}

/// A page of S3 or Google. Values are text, so that a wrong one spoils its entry and not the page.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BucketPage {
    is_truncated: String,
    next_continuation_token: Option<String>,
    #[serde(default, deserialize_with = "contents")]
    contents: Entries,
}

/// A page of Azure.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerPage {
    next_marker: String,
    blobs: Blobs,
}

#[derive(Deserialize)]
struct Blobs {
    #[serde(rename = "Blob", default, deserialize_with = "blobs")]
    all: Entries,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: String,
    properties: Entry,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Entry {
    key: String,
    #[serde(alias = "Content-Length")]
    size: String,
    #[serde(alias = "ETag")]
    etag: String,
    #[serde(alias = "Last-Modified")]
    last_modified: String,
    /// `directory` for the entries that Azure adds with a hierarchical namespace.
    resource_type: String,
}

/// The entries of a page. Each is checked as soon as it is read, since a page may have many invalid ones.
#[derive(Default)]
struct Entries {
    objects: Vec<Object>,
    unreadable: usize,
}

fn contents<'de, D: Deserializer<'de>>(list: D) -> Result<Entries, D::Error> {
    list.deserialize_seq(Judge(|entry: Entry| Some(entry)))
}

fn blobs<'de, D: Deserializer<'de>>(list: D) -> Result<Entries, D::Error> {
    list.deserialize_seq(Judge(|blob: Blob| {
        let is_file = blob.properties.resource_type != "directory";
        is_file.then_some(Entry {
            key: blob.name,
            ..blob.properties
        })
    }))
}

/// Reads elements of a list and turns them into entries, except for those that aren't files.
struct Judge<T>(fn(T) -> Option<Entry>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Judge<T> {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::default();
        while let Some(element) = list.next_element()? {
            match (self.0)(element).map(Entry::object) {
                Some(Some(object)) => entries.objects.push(object),
                Some(None) => entries.unreadable += 1,
                None => {}
            }
        }
        Ok(entries)
    }
}

impl Entry {
    fn object(self) -> Option<Object> {
        let object = Object {
            size: self.size.trim().parse().ok()?,
            etag: tag(&self.etag).to_owned(),
            modified: time(self.last_modified.trim()).map_or(0, Timestamp::as_microsecond),
            key: self.key,
        };
        let is_sound = (1..=MAX_KEY_BYTES).contains(&object.key.len())
            && object.etag.len() <= MAX_TAG_BYTES
            // A request can't name such a tag.
            && !object.etag.contains(char::is_control)
            && object.size <= MAX_OBJECT_BYTES
            && ![&object.key, &object.etag]
                .iter()
                .any(|text| text.contains(UNREADABLE));
        is_sound.then_some(object)
    }
}

/// Reads a page of a listing.
pub(super) fn page(text: &str) -> Result<Page, String> {
    let (entries, next) = match document(text)? {
        Document::ListBucketResult(page) => {
            let next = match (page.is_truncated.trim(), page.next_continuation_token) {
                ("false", _) => None,
                ("true", Some(token)) => Some(token),
                _ => return Err("it doesn't say where the next page begins".to_owned()),
            };
            (page.contents, next)
        }
        Document::EnumerationResults(page) => {
            let next = Some(page.next_marker).filter(|next| !next.trim().is_empty());
            (page.blobs.all, next)
        }
        Document::Error(_) => return Err("it is an error document".to_owned()),
    };
    if let Some(next) = &next {
        if next.contains(UNREADABLE) {
            return Err("the token of the next page can't be read".to_owned());
        }
        if next.len() > MAX_TOKEN_BYTES {
            return Err(format!(
                "the token of the next page has more than {MAX_TOKEN_BYTES} bytes"
            ));
        }
    }
    Ok(Page {
        next: next.map(|next| next.trim().to_owned()),
        unreadable: entries.unreadable,
        objects: entries.objects,
    })
}

/// Reads the document of an error. Returns an empty one for any other text.
pub(super) fn refusal(text: &str) -> Refusal {
    match document(text) {
        Ok(Document::Error(refusal)) => refusal,
        _ => Refusal::default(),
    }
}

/// Removes the quotes around a tag.
pub(super) fn tag(text: &str) -> &str {
    text.trim().trim_start_matches("W/").trim_matches('"')
}

pub(super) fn time(text: &str) -> Option<Timestamp> {
    let rfc2822 = || DateTimeParser::new().parse_timestamp(text).ok();
    text.parse().ok().or_else(rfc2822)
}

fn document(text: &str) -> Result<Document, String> {
    // XML has no way to write a NUL, but keys in S3 may contain one.
    let mut text = Cow::Borrowed(text);
    for nul in ["&#x0;", "&#0;"] {
        if text.contains(nul) {
            text = text.replace(nul, UNREADABLE).into();
        }
    }
    let mut reader = de::Deserializer::from_str_with_resolver(&text, Undefined);
    reader.event_buffer_size(NonZeroUsize::new(MAX_BETWEEN));
    Document::deserialize(&mut reader).map_err(|error| error.to_string())
}

/// Replaces entities that XML doesn't define.
struct Undefined;

impl EntityResolver for Undefined {
    type Error = std::convert::Infallible;

    fn capture(&mut self, _: BytesText) -> Result<(), Self::Error> {
        Ok(())
    }

    fn resolve(&self, entity: &str) -> Option<&str> {
        quick_xml::escape::resolve_predefined_entity(entity).or(Some(UNREADABLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";

    #[test]
    fn a_page_has_its_objects_and_where_it_goes_on() {
        let text = format!(
            "{HEAD}<Name>b</Name><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>1/x==</NextContinuationToken>\
             <Contents><Key>a b/c&#xA;+.jsonl</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>\
             <ETag>&quot;abc&quot;</ETag><Size>12</Size><Owner><ID>x</ID></Owner></Contents>\
             <Contents><Key>odd</Key><Size>-1</Size></Contents></ListBucketResult>"
        );
        let page = page(&text).unwrap();
        let modified = "2026-01-02T03:04:05Z"
            .parse::<Timestamp>()
            .unwrap()
            .as_microsecond();
        let object = Object {
            key: "a b/c\n+.jsonl".to_owned(),
            etag: "abc".to_owned(),
            size: 12,
            modified,
        };
        assert_eq!(
            page,
            Page {
                objects: vec![object],
                next: Some("1/x==".to_owned()),
                unreadable: 1
            }
        );
    }

    #[test]
    fn keys_that_are_not_encoded_stay_as_they_are() {
        let text = format!(
            "{HEAD}<IsTruncated>false</IsTruncated><Contents><Key>a+%41&amp;&#65;</Key><Size>0</Size></Contents></ListBucketResult>"
        );
        assert_eq!(page(&text).unwrap().objects[0].key, "a+%41&A");
    }

    #[test]
    fn an_entry_with_an_impossible_size_or_a_strange_key_is_unreadable_and_the_others_stay() {
        let entry = |key: &str, size: &str| {
            format!("<Contents><Key>{key}</Key><Size>{size}</Size></Contents>")
        };
        let page_of = |entries: &[String]| {
            let entries = entries.concat();
            let end = "<IsTruncated>false</IsTruncated></ListBucketResult>";
            page(&format!("{HEAD}{entries}{end}")).unwrap()
        };
        let keys = |page: &Page| {
            page.objects
                .iter()
                .map(|object| object.key.clone())
                .collect::<Vec<_>>()
        };
        let sizes = [
            "5497558138880",
            "5497558138881",
            "9223372036854775808",
            "10000000000000000000",
            "99e9",
        ];
        let found = page_of(&sizes.map(|size| entry(size, size)));
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec![sizes[0].to_owned()], 4)
        );
        let strange = [
            entry("r/&b;&c;steps.jsonl", "1"),
            entry("a&lt;b", "1"),
            entry("c", "&one;"),
        ];
        let found = page_of(&strange);
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec!["a<b".to_owned()], 2)
        );
        // Two keys that aren't UTF-8 could become one.
        // Two keys that aren't UTF-8, or have a NUL, could be the same one.
        let found = page_of(&[
            entry("a\u{fffd}", "1"),
            entry("a&#0;", "1"),
            entry("\u{e4}", "1"),
        ]);
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec!["\u{e4}".to_owned()], 2)
        );
        let tagged = |key: &str, tag: &str| {
            format!("<Contents><Key>{key}</Key><ETag>{tag}</ETag><Size>1</Size></Contents>")
        };
        let found = page_of(&[
            tagged("a", "v&#10;2"),
            tagged("b", "v&#x7f;"),
            tagged("c", "\u{e4}"),
        ]);
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec!["c".to_owned()], 2),
            "no header can have a control character"
        );
        let token =
            "<IsTruncated>true</IsTruncated><NextContinuationToken>1&x;</NextContinuationToken>";
        assert!(page(&format!("{HEAD}{token}</ListBucketResult>")).is_err());
    }

    #[test]
    fn between_two_entries_may_be_a_few_other_elements() {
        let between = |others: usize| {
            let entry = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
            let (one, two, others) = (entry("1"), entry("2"), "<Other/>".repeat(others));
            page(&format!(
                "{HEAD}<IsTruncated>false</IsTruncated>{one}{others}{two}</ListBucketResult>"
            ))
        };
        assert_eq!(between(100).unwrap().objects.len(), 2);
        assert!(between(1_000).is_err());
    }

    #[test]
    fn empty_entries_are_counted_without_being_kept() {
        let text = format!(
            "{HEAD}<IsTruncated>false</IsTruncated>{}</ListBucketResult>",
            "<Contents/>".repeat(10_000)
        );
        let unreadable = 10_000;
        let page = page(&text).unwrap();
        assert_eq!((page.unreadable, page.objects.capacity()), (unreadable, 0));
    }

    #[test]
    fn a_token_has_a_limited_length() {
        let page_with = |token: &str| {
            page(&format!(
                "{HEAD}<IsTruncated>true</IsTruncated><NextContinuationToken>{token}\
                 </NextContinuationToken></ListBucketResult>"
            ))
        };
        let longest = "t".repeat(8 << 10);
        assert_eq!(page_with(&longest).unwrap().next.as_ref(), Some(&longest));
        assert!(page_with(&format!("{longest}t")).is_err());
        let azure = |marker: &str| {
            let marker = format!("<NextMarker>{marker}</NextMarker>");
            page(&format!(
                "<EnumerationResults><Blobs/>{marker}</EnumerationResults>"
            ))
        };
        assert!(azure(&format!("{longest}t")).is_err());
        // The token for a key of 3 KiB: a version, a length, and the key with its framing in base64.
        let marker = format!("2!4156!{}", "M".repeat(4_156));
        assert_eq!(azure(&marker).unwrap().next, Some(marker));
    }

    #[test]
    fn a_page_of_azure_has_blobs_and_a_marker_but_no_directories() {
        let blob = |name: &str, more: &str| {
            format!(
                "<Blob><Name>{name}</Name><Properties><Creation-Time>x</Creation-Time>\
                 <Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0x8D1</Etag>\
                 <Content-Length>12</Content-Length><Content-Type>x</Content-Type>{more}</Properties><OrMetadata/></Blob>"
            )
        };
        let directory = blob("a", "<ResourceType>directory</ResourceType>");
        let text = format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://x/\" \
             ContainerName=\"c\"><Prefix>a</Prefix><Blobs>{directory}{}</Blobs><NextMarker>2!92!</NextMarker>\
             </EnumerationResults>",
            blob("a/b.jsonl", "<ResourceType>file</ResourceType>")
        );
        let found = page(&text).unwrap();
        let modified = "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap();
        let object = Object {
            key: "a/b.jsonl".to_owned(),
            etag: "0x8D1".to_owned(),
            size: 12,
            modified: modified.as_microsecond(),
        };
        assert_eq!(
            (&*found.objects, found.next.as_deref()),
            (&[object][..], Some("2!92!"))
        );
        let last = text.replace("<NextMarker>2!92!</NextMarker>", "<NextMarker />");
        assert_eq!(page(&last).unwrap().next, None);
        assert!(page(&text.replace("<NextMarker>2!92!</NextMarker>", "")).is_err());
        let empty = "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(page(empty), Ok(Page::default()));
    }

    #[test]
    fn what_may_be_cut_off_is_no_listing() {
        let whole = format!(
            "{HEAD}<Contents><Key>a</Key><Size>1</Size></Contents><IsTruncated>false</IsTruncated></ListBucketResult>"
        );
        assert_eq!(page(&whole).unwrap().objects.len(), 1);
        for end in 0..whole.len() {
            assert!(page(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
        let more = whole.replace("false", "true");
        for text in [
            &*more,
            "<html><p>hello</p></html>",
            "",
            "<Error><Code>x</Code></Error>",
            &"<a>".repeat(100_000),
        ] {
            assert!(page(text).is_err(), "{}", &text[..text.len().min(80)]);
        }
    }

    #[test]
    fn errors_have_the_words_of_the_store() {
        let text = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
        assert_eq!(refusal(text).code, "AccessDenied");
        assert_eq!(refusal("<html><body>Bad Gateway"), Refusal::default());
    }
}
