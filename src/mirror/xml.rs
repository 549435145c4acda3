//! What does a store answer? The pages of a listing and the documents of its errors.

use std::borrow::Cow;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// An object as a listing has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: String,
    /// Without the quotes around it.
    pub(super) etag: String,
    pub(super) size: u64,
    /// When it was written; microseconds since the Unix epoch, 0 where that is not said.
    pub(super) modified: i64,
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) objects: Vec<Object>,
    /// Where the next page begins; `None` on the last one.
    pub(super) next: Option<String>,
    /// Entries whose key, tag or size can't be read or can't be one.
    pub(super) unreadable: usize,
}

/// What went wrong, in the store's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) region: String,
}

/// S3 allows keys of at most so many bytes; three times as many where they are percent-encoded.
const MAX_KEY_BYTES: usize = 3 << 10;
/// No store's tag is longer.
const MAX_TAG_BYTES: usize = 256;
/// The largest object that S3 allows. A larger size is a mistake, and a few of them overflow a sum.
const MAX_OBJECT_BYTES: u64 = 5 << 40;

fn is_sound(object: &Object) -> bool {
    let is_short = object.key.len() <= MAX_KEY_BYTES && object.etag.len() <= MAX_TAG_BYTES;
    !object.key.is_empty() && is_short && object.size <= MAX_OBJECT_BYTES
}

/// Reads a page of a listing.
///
/// # Errors
/// It is none, or is cut off: what is not there is not to be taken for deleted.
pub(super) fn page(text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let (mut object, mut size, mut is_garbled) = (Object::default(), None, false);
    let (mut encoded, mut truncated, mut whole, mut strange) = (false, None, false, false);
    walk(text, |path, seen| match (path, seen) {
        (["ListBucketResult"], Seen::End) => whole = true,
        (["ListBucketResult", "EncodingType"], Seen::Text(text)) => encoded = text.trim() == "url",
        (["ListBucketResult", "IsTruncated"], Seen::Text(text)) => {
            truncated = Some(text.trim() == "true")
        }
        (["ListBucketResult", "NextContinuationToken"], Seen::Text(text)) => {
            page.next = Some(text.trim().to_owned())
        }
        (
            [
                "ListBucketResult",
                "EncodingType" | "IsTruncated" | "NextContinuationToken",
            ],
            Seen::Strange,
        ) => {
            strange = true;
        }
        (["ListBucketResult", "Contents", "Key"], Seen::Text(text)) => object.key = text,
        (["ListBucketResult", "Contents", "ETag"], Seen::Text(text)) => {
            object.etag = text
                .trim()
                .trim_start_matches("W/")
                .trim_matches('"')
                .to_owned();
        }
        (["ListBucketResult", "Contents", "Size"], Seen::Text(text)) => {
            size = text.trim().parse().ok()
        }
        (["ListBucketResult", "Contents", "LastModified"], Seen::Text(text)) => {
            object.modified = text
                .trim()
                .parse::<Timestamp>()
                .map(Timestamp::as_microsecond)
                .unwrap_or_default();
        }
        (["ListBucketResult", "Contents", "Key" | "ETag" | "Size"], Seen::Strange) => {
            is_garbled = true
        }
        (["ListBucketResult", "Contents"], Seen::End) => {
            let done = std::mem::take(&mut object);
            let is_readable = !std::mem::take(&mut is_garbled);
            let done = size.take().map(|size| Object { size, ..done });
            match done.filter(|done| is_readable && is_sound(done)) {
                Some(done) => page.objects.push(done),
                None => page.unreadable += 1,
            }
        }
        _ => {}
    })?;
    if !whole {
        return Err("it is no listing of a bucket, or only a part of one".to_owned());
    }
    if strange {
        return Err("it uses an entity that XML doesn't define".to_owned());
    }
    if encoded {
        let before = page.objects.len();
        page.objects
            .retain_mut(|object| match decoded(&object.key) {
                Some(key) => {
                    object.key = key;
                    true
                }
                None => false,
            });
        page.unreadable += before - page.objects.len();
    }
    match (truncated, &page.next) {
        (Some(true), None) => Err("there is more of it, and it does not say where".to_owned()),
        (None, _) => Err("it does not say whether it is all".to_owned()),
        (Some(false), _) => Ok(Page { next: None, ..page }),
        (Some(true), Some(_)) => Ok(page),
    }
}

/// Reads the document of an error; of any other text, nothing.
pub(super) fn refusal(text: &str) -> Refusal {
    let mut refusal = Refusal::default();
    // What was read before something odd is still of use.
    let _ = walk(text, |path, seen| match (path, seen) {
        (["Error", "Code"], Seen::Text(text)) => refusal.code = text,
        (["Error", "Message"], Seen::Text(text)) => refusal.message = text,
        (["Error", "Region"], Seen::Text(text)) => refusal.region = text,
        _ => {}
    });
    refusal
}

/// Decodes a key as forms do: a blank may be a plus. Returns `None` where the bytes aren't UTF-8, since two such keys
/// could become one.
fn decoded(key: &str) -> Option<String> {
    let spaced = if key.contains('+') {
        Cow::Owned(key.replace('+', " "))
    } else {
        Cow::Borrowed(key)
    };
    Some(percent_decode_str(&spaced).decode_utf8().ok()?.into_owned())
}

/// Deeper elements hold nothing that is looked for.
const MAX_DEPTH: usize = 16;

/// What [`walk`] reports of an element.
enum Seen {
    /// It refers to an entity that XML doesn't define, so that its text isn't known.
    Strange,
    /// Its text.
    Text(String),
    /// It is over.
    End,
}

/// Reports the text and the end of each element, with the names on the way to it.
fn walk(text: &str, mut report: impl FnMut(&[&str], Seen)) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut inside = String::new();
    let mut report = |path: &[String], seen: Seen| {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        report(&names, seen);
    };
    loop {
        match reader
            .read_event()
            .map_err(|error| format!("it is no XML: {error}"))?
        {
            Event::Start(start) => {
                if path.len() >= MAX_DEPTH {
                    return Err("it is nested too deeply".to_owned());
                }
                path.push(start.local_name().as_ref().to_owned());
                inside.clear();
            }
            Event::Empty(empty) => {
                path.push(empty.local_name().as_ref().to_owned());
                report(&path, Seen::Text(String::new()));
                report(&path, Seen::End);
                path.pop();
            }
            Event::End(_) => {
                report(&path, Seen::Text(std::mem::take(&mut inside)));
                report(&path, Seen::End);
                path.pop();
            }
            Event::Text(text) => inside.push_str(&text.xml10_content()),
            Event::CData(text) => inside.push_str(&text.xml10_content()),
            Event::GeneralRef(named) => match named.resolve_char_ref() {
                Ok(Some(letter)) => inside.push(letter),
                Ok(None) => match resolve_predefined_entity(named.xml10_content().as_ref()) {
                    Some(text) => inside.push_str(text),
                    None => report(&path, Seen::Strange),
                },
                Err(error) => return Err(format!("it is no XML: {error}")),
            },
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err("it is cut off".to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";

    #[test]
    fn a_page_has_its_objects_and_where_it_goes_on() {
        let text = format!(
            "{HEAD}<Name>b</Name><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
             <NextContinuationToken>1/x==</NextContinuationToken>\
             <Contents><Key>a+b%2Fc%0A%2B.jsonl</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>\
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
        let page_of = |encoding: &str, entries: &[String]| {
            let entries = entries.concat();
            let end = "<IsTruncated>false</IsTruncated></ListBucketResult>";
            page(&format!(
                "{HEAD}<EncodingType>{encoding}</EncodingType>{entries}{end}"
            ))
            .unwrap()
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
        let found = page_of("", &sizes.map(|size| entry(size, size)));
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec![sizes[0].to_owned()], 4)
        );
        let strange = [
            entry("r/&b;&c;steps.jsonl", "1"),
            entry("a&lt;b", "1"),
            entry("c", "&one;"),
        ];
        let found = page_of("", &strange);
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec!["a<b".to_owned()], 2)
        );
        // Two keys that aren't UTF-8 could become one.
        let found = page_of(
            "url",
            &[entry("a%FF", "1"), entry("a%FE", "1"), entry("%C3%A4", "1")],
        );
        assert_eq!(
            (keys(&found), found.unreadable),
            (vec!["\u{e4}".to_owned()], 2)
        );
        let token =
            "<IsTruncated>true</IsTruncated><NextContinuationToken>1&x;</NextContinuationToken>";
        assert!(page(&format!("{HEAD}{token}</ListBucketResult>")).is_err());
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
    fn an_error_is_told_in_the_words_of_the_store() {
        let text = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
        assert_eq!(refusal(text).code, "AccessDenied");
        assert_eq!(refusal("<html><body>Bad Gateway"), Refusal::default());
    }
}
