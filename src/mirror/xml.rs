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
    /// Entries without a key or a size, or with a key longer than any.
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

fn is_sound(object: &Object) -> bool {
    !object.key.is_empty() && object.key.len() <= MAX_KEY_BYTES && object.etag.len() <= MAX_TAG_BYTES
}

/// Reads a page of a listing.
///
/// # Errors
/// It is none, or is cut off: what is not there is not to be taken for deleted.
pub(super) fn page(text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let (mut object, mut size) = (Object::default(), None);
    let (mut encoded, mut truncated, mut whole) = (false, None, false);
    walk(text, |path, text| match (path, text) {
        (["ListBucketResult"], None) => whole = true,
        (["ListBucketResult", "EncodingType"], Some(text)) => encoded = text.trim() == "url",
        (["ListBucketResult", "IsTruncated"], Some(text)) => truncated = Some(text.trim() == "true"),
        (["ListBucketResult", "NextContinuationToken"], Some(text)) => page.next = Some(text.trim().to_owned()),
        (["ListBucketResult", "Contents", "Key"], Some(text)) => object.key = text,
        (["ListBucketResult", "Contents", "ETag"], Some(text)) => {
            object.etag = text.trim().trim_start_matches("W/").trim_matches('"').to_owned();
        }
        (["ListBucketResult", "Contents", "Size"], Some(text)) => size = text.trim().parse().ok(),
        (["ListBucketResult", "Contents", "LastModified"], Some(text)) => {
            object.modified = text.trim().parse::<Timestamp>().map(Timestamp::as_microsecond).unwrap_or_default();
        }
        (["ListBucketResult", "Contents"], None) => {
            let done = std::mem::take(&mut object);
            match size.take() {
                Some(size) if is_sound(&done) => page.objects.push(Object { size, ..done }),
                _ => page.unreadable += 1,
            }
        }
        _ => {}
    })?;
    if !whole {
        return Err("it is no listing of a bucket, or only a part of one".to_owned());
    }
    if encoded {
        page.objects.iter_mut().for_each(|object| object.key = decoded(&object.key));
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
    let _ = walk(text, |path, text| match (path, text) {
        (["Error", "Code"], Some(text)) => refusal.code = text,
        (["Error", "Message"], Some(text)) => refusal.message = text,
        (["Error", "Region"], Some(text)) => refusal.region = text,
        _ => {}
    });
    refusal
}

/// `url` as the encoding of keys is that of forms: a blank may be a plus.
fn decoded(key: &str) -> String {
    let spaced = if key.contains('+') { Cow::Owned(key.replace('+', " ")) } else { Cow::Borrowed(key) };
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// Deeper elements hold nothing that is looked for.
const MAX_DEPTH: usize = 16;

/// Tells of the end of each element: the names on the way to it, then its text, then once more without.
fn walk(text: &str, mut ended: impl FnMut(&[&str], Option<String>)) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    let mut path: Vec<String> = Vec::new();
    let mut inside = String::new();
    let mut end = |path: &[String], inside: &mut String| {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        ended(&names, Some(std::mem::take(inside)));
        ended(&names, None);
    };
    loop {
        match reader.read_event().map_err(|error| format!("it is no XML: {error}"))? {
            Event::Start(start) => {
                if path.len() >= MAX_DEPTH {
                    return Err("it is nested too deeply".to_owned());
                }
                path.push(start.local_name().as_ref().to_owned());
                inside.clear();
            }
            Event::Empty(empty) => {
                path.push(empty.local_name().as_ref().to_owned());
                end(&path, &mut String::new());
                path.pop();
            }
            Event::End(_) => {
                end(&path, &mut inside);
                path.pop();
            }
            Event::Text(text) => inside.push_str(&text.xml10_content()),
            Event::CData(text) => inside.push_str(&text.xml10_content()),
            Event::GeneralRef(named) => match named.resolve_char_ref() {
                Ok(Some(letter)) => inside.push(letter),
                Ok(None) => {
                    inside.push_str(resolve_predefined_entity(named.xml10_content().as_ref()).unwrap_or_default())
                }
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
        let modified = "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap().as_microsecond();
        let object = Object { key: "a b/c\n+.jsonl".to_owned(), etag: "abc".to_owned(), size: 12, modified };
        assert_eq!(page, Page { objects: vec![object], next: Some("1/x==".to_owned()), unreadable: 1 });
    }

    #[test]
    fn keys_that_are_not_encoded_stay_as_they_are() {
        let text = format!(
            "{HEAD}<IsTruncated>false</IsTruncated><Contents><Key>a+%41&amp;&#65;</Key><Size>0</Size></Contents></ListBucketResult>"
        );
        assert_eq!(page(&text).unwrap().objects[0].key, "a+%41&A");
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
        for text in [&*more, "<html><p>hello</p></html>", "", "<Error><Code>x</Code></Error>", &"<a>".repeat(100_000)] {
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
