//! How does an object come here? As a whole or only its rest, into a file beside, and checked before anything is shown.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use jiff::fmt::rfc2822::DateTimeParser;
use md5::{Digest as _, Md5};
use tempfile::NamedTempFile;

use super::http::Response;
use super::sign::hex;
use super::store::{Fault, Part, Store};
use super::xml::Object;

/// So many bytes that are here already are compared with those of the object before what follows is taken for its rest.
const OVERLAP: u64 = 64 << 10;

/// An object, or the rest of one, that came.
#[derive(Debug)]
pub(super) struct Got {
    /// It as it came, which may be newer than it was listed.
    pub(super) object: Object,
    pub(super) file: NamedTempFile,
    /// The file holds what follows after so many bytes; `None` where it holds all.
    pub(super) after: Option<u64>,
    /// Nothing proves that the rest belongs to what was here.
    pub(super) unproven: bool,
    /// The checksum of all bytes so far, to go on from.
    pub(super) sum: Option<Md5>,
}

/// What is here of an object that grew.
#[derive(Debug)]
pub(super) struct Here {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) sum: Option<Md5>,
}

/// Fetches a whole object.
pub(super) async fn whole(store: &Store, beside: &Path, listed: &Object) -> Result<Got, Fault> {
    let mut before: Option<[u8; 16]> = None;
    store
        .patiently(async || {
            let mut answer = store.get(&listed.key, Part::default()).await?;
            if let Some(how) = answer
                .header("content-encoding")
                .filter(|how| !is_plain(how))
            {
                return Err(Fault::Wrong(
                    format!("it is stored as {how}, which board does not unpack"),
                    None,
                ));
            }
            let object = as_answered(&answer, listed);
            if object.size > listed.size {
                // It was judged by its listed size whether there is room for it.
                return Err(Fault::Outdated);
            }
            let mut file = NamedTempFile::new_in(beside).map_err(|error| disk(&error))?;
            let mut sum = Md5::new();
            let size = copy(&mut answer, file.as_file_mut(), object.size, |bytes| {
                sum.update(bytes)
            })
            .await?;
            if size != object.size {
                let expected = object.size;
                return Err(Fault::Passing(
                    format!("the answer was cut off: {size} bytes of {expected}"),
                    None,
                ));
            }
            let found: [u8; 16] = sum.clone().finalize().into();
            if is_sum(store, &answer, &object.etag) && hex(&found) != object.etag {
                // Damage does not come twice the same way: in this store, tags are no checksums.
                if before.replace(found) != Some(found) {
                    return Err(Fault::Passing(
                        "the bytes that came do not have their checksum".to_owned(),
                        None,
                    ));
                }
                store.tags_are_sums.store(false, Ordering::Relaxed);
            }
            let object = Object { size, ..object };
            Ok(Got {
                object,
                file,
                after: None,
                unproven: false,
                sum: None,
            })
        })
        .await
}

/// Fetches what follows after what is here. `Ok(None)` where the object is another one, which is to be had as a whole.
pub(super) async fn rest(
    store: &Store,
    beside: &Path,
    listed: &Object,
    here: &Here,
) -> Result<Option<Got>, Fault> {
    store
        .patiently(async || {
            // With a checksum of the whole, the rest alone proves that it belongs to what is here.
            let by_sum =
                store.tags_are_sums.load(Ordering::Relaxed) && looks_like_sum(&listed.etag);
            let overlap = if by_sum { 0 } else { OVERLAP.min(here.size) };
            let from = here.size - overlap;
            if from > listed.size {
                return Ok(None);
            }
            let part = Part {
                from: Some(from),
                tag: Some(&listed.etag),
            };
            let mut answer = store.get(&listed.key, part).await?;
            let range = answer
                .header("content-range")
                .and_then(|range| range.strip_prefix("bytes "));
            let begins = range.and_then(|range| range.split('-').next()?.trim().parse().ok());
            if answer.status.as_u16() != 206 || begins != Some(from) {
                return Ok(None);
            }
            let mut file = NamedTempFile::new_in(beside).map_err(|error| disk(&error))?;
            let size = copy(&mut answer, file.as_file_mut(), listed.size - from, |_| {}).await?;
            if from + size != listed.size {
                let expected = listed.size - from;
                return Err(Fault::Passing(
                    format!("the answer was cut off: {size} bytes of {expected}"),
                    None,
                ));
            }
            let belongs =
                belongs(file.as_file_mut(), here, from, overlap).map_err(|error| disk(&error))?;
            let proven = match is_sum(store, &answer, &listed.etag) {
                true => belongs
                    .as_ref()
                    .filter(|sum| hex(&(*sum).clone().finalize()) == listed.etag)
                    .is_some(),
                false if by_sum => return Ok(None),
                false => false,
            };
            match belongs {
                Some(sum) if proven || !by_sum => Ok(Some(Got {
                    object: listed.clone(),
                    file,
                    after: Some(from + overlap),
                    unproven: !proven,
                    sum: proven.then_some(sum),
                })),
                _ => Ok(None),
            }
        })
        .await
}

/// The checksum of what is here and of what came; `None` where the `overlap` of both differs. Leaves `came` behind it.
fn belongs(came: &mut File, here: &Here, from: u64, overlap: u64) -> io::Result<Option<Md5>> {
    came.seek(SeekFrom::Start(0))?;
    if overlap > 0 {
        let mut ours = File::open(&here.path)?;
        ours.seek(SeekFrom::Start(from))?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        ours.take(overlap).read_to_end(&mut a)?;
        (&mut *came).take(overlap).read_to_end(&mut b)?;
        // There is no checksum to go on with.
        return Ok((a == b && a.len() as u64 == overlap).then(Md5::new));
    }
    let mut sum = match &here.sum {
        Some(sum) => sum.clone(),
        None => {
            let mut sum = Md5::new();
            read_all(&mut File::open(&here.path)?.take(here.size), &mut sum)?;
            sum
        }
    };
    read_all(came, &mut sum)?;
    came.seek(SeekFrom::Start(0))?;
    Ok(Some(sum))
}

fn read_all(file: &mut impl io::Read, sum: &mut Md5) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            read => sum.update(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// Writes the body to `file`; returns its length. Stops at the first byte beyond `most`: a body without an end would fill
/// the disk.
async fn copy(
    answer: &mut Response,
    file: &mut File,
    most: u64,
    mut each: impl FnMut(&[u8]),
) -> Result<u64, Fault> {
    let mut size = 0;
    while let Some(piece) = answer
        .piece()
        .await
        .map_err(|why| Fault::Passing(why, None))?
    {
        size += piece.len() as u64;
        if size > most {
            let what = format!("the store sent more than the {most} bytes that its listing says");
            return Err(Fault::Wrong(what, None));
        }
        each(&piece);
        file.write_all(&piece).map_err(|error| disk(&error))?;
    }
    Ok(size)
}

/// Returns the object whose bytes come, which may have been replaced since it was listed.
fn as_answered(answer: &Response, listed: &Object) -> Object {
    let etag = answer
        .header("etag")
        .map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
    let etag = etag.unwrap_or_else(|| listed.etag.clone());
    if etag == listed.etag {
        return listed.clone();
    }
    let written = answer
        .header("last-modified")
        .and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
    let modified = written.map_or(listed.modified, |time: jiff::Timestamp| {
        time.as_microsecond()
    });
    Object {
        etag,
        modified,
        size: length(answer).unwrap_or(listed.size),
        key: listed.key.clone(),
    }
}

fn length(answer: &Response) -> Option<u64> {
    answer.header("content-length")?.trim().parse().ok()
}

/// Whether the bytes are those of the object. `aws-chunked` is how some clients sent it, and says nothing of what is stored.
fn is_plain(encoding: &str) -> bool {
    encoding.split(',').all(|how| {
        ["", "identity", "aws-chunked"].contains(&how.trim().to_ascii_lowercase().as_str())
    })
}

fn looks_like_sum(tag: &str) -> bool {
    tag.len() == 32
        && tag
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a tag is the checksum of the object's bytes. Of one that was encrypted with a key of its own, it is not.
fn is_sum(store: &Store, answer: &Response, tag: &str) -> bool {
    let sealed = answer
        .header("x-amz-server-side-encryption")
        .is_some_and(|by| by.starts_with("aws:"));
    let sealed = sealed
        || answer
            .header("x-amz-server-side-encryption-customer-algorithm")
            .is_some();
    !sealed && store.tags_are_sums.load(Ordering::Relaxed) && looks_like_sum(tag)
}

/// What this machine's disk says is nothing that the store can mend.
fn disk(error: &io::Error) -> Fault {
    Fault::Wrong(format!("the cache directory: {error}"), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_packed_is_no_trace() {
        assert!(
            ["", "identity", "aws-chunked", "aws-chunked, Identity"]
                .iter()
                .all(|how| is_plain(how))
        );
        assert!(
            ["gzip", "aws-chunked,gzip", "br"]
                .iter()
                .all(|how| !is_plain(how))
        );
    }
}
