//! Fetches an object, or only its appended bytes, into a temporary file, and checks them before the file is used.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use http::HeaderMap;
use md5::{Digest as _, Md5};
use object_store::{Attribute, GetResult, ObjectMeta};
use tempfile::NamedTempFile;
use tokio_stream::StreamExt as _;

use super::fault::Fault;
use super::http::within;
use super::listing::{self, Object};
use super::store::Store;

/// Without a checksum, this many bytes of the cached file are fetched again and compared before the rest is appended.
const OVERLAP: u64 = 64 << 10;

/// A fetched object, or its appended bytes.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The object, which may be newer than the listed one.
    pub(super) object: Object,
    pub(super) file: NamedTempFile,
    /// The file continues the cached one after this many bytes; `None` if it holds the whole object.
    pub(super) after: Option<u64>,
    /// Nothing proves that the appended bytes belong to the cached file.
    pub(super) unproven: bool,
    /// The state of the checksum after all bytes, to continue with the next ones.
    pub(super) sum: Option<Md5>,
}

/// The cached file of an object that grew.
#[derive(Debug)]
pub(super) struct CachedFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) sum: Option<Md5>,
}

/// Fetches a whole object into the directory `dir`.
pub(super) async fn whole(store: &Store, dir: &Path, listed: &Object) -> Result<Fetched, Fault> {
    let mut before: Option<[u8; 16]> = None;
    store
        .patiently(async || {
            let answer = store.get(listed, None).await?;
            let encoding = answer.attributes.get(&Attribute::ContentEncoding);
            if let Some(how) = encoding.filter(|how| !is_plain(how)) {
                let what = format!(
                    "its content encoding is {}, which board can't decode",
                    &**how
                );
                return Err(Fault::Wrong(what, None));
            }
            let object = as_answered(&answer.meta, listed);
            let is_sum = is_sum(store, &answer, &object.etag);
            if object.size > listed.size {
                // The cache has room for the listed size.
                return Err(Fault::Outdated);
            }
            let mut file = NamedTempFile::new_in(dir).map_err(|error| disk(&error))?;
            let mut sum = Md5::new();
            let add = |bytes: &[u8]| sum.update(bytes);
            copy(store, answer, file.as_file_mut(), object.size, add).await?;
            let found: [u8; 16] = sum.finalize().into();
            // Another fetch may have found out meanwhile that they aren't.
            let is_sum = is_sum && store.tags_are_sums.load(Ordering::Relaxed);
            if is_sum && hex(&found) != object.etag {
                // Damage is not the same twice. If the bytes are, the tags of this store aren't checksums.
                if before.replace(found) != Some(found) {
                    let what = "the received bytes don't match their checksum".to_owned();
                    return Err(Fault::Passing(what, None));
                }
                store.tags_are_sums.store(false, Ordering::Relaxed);
            }
            Ok(Fetched {
                object,
                file,
                after: None,
                unproven: false,
                sum: None,
            })
        })
        .await
}

/// Fetches the bytes appended to an object. Returns `Ok(None)` if the object was replaced, so that all of it is needed.
pub(super) async fn rest(
    store: &Store,
    dir: &Path,
    listed: &Object,
    cached: &CachedFile,
) -> Result<Option<Fetched>, Fault> {
    store
        .patiently(async || {
            // With a checksum of the whole, the rest alone proves that it belongs to the cached file.
            let by_sum =
                store.tags_are_sums.load(Ordering::Relaxed) && looks_like_sum(&listed.etag);
            let overlap = if by_sum { 0 } else { OVERLAP.min(cached.size) };
            let from = cached.size - overlap;
            if from > listed.size {
                return Ok(None);
            }
            let answer = match store.get(listed, Some(from)).await {
                // The store sent another range, or the whole object.
                Err(Fault::Client(..)) => return Ok(None),
                answer => answer?,
            };
            let mut file = NamedTempFile::new_in(dir).map_err(|error| disk(&error))?;
            let size = listed.size - from;
            let is_sum = is_sum(store, &answer, &listed.etag);
            copy(store, answer, file.as_file_mut(), size, |_| {}).await?;
            let belongs =
                belongs(file.as_file_mut(), cached, from, overlap).map_err(|error| disk(&error))?;
            let proven = match is_sum {
                true => belongs
                    .as_ref()
                    .is_some_and(|sum| hex(&sum.clone().finalize()) == listed.etag),
                false if by_sum => return Ok(None),
                false => false,
            };
            match belongs {
                Some(sum) if proven || !by_sum => Ok(Some(Fetched {
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

/// Returns the checksum of the cached file and of what follows in `came`, or `None` if the `overlap` of both differs.
/// Leaves `came` after the overlap.
fn belongs(
    came: &mut File,
    cached: &CachedFile,
    from: u64,
    overlap: u64,
) -> io::Result<Option<Md5>> {
    came.seek(SeekFrom::Start(0))?;
    if overlap > 0 {
        let mut ours = File::open(&cached.path)?;
        ours.seek(SeekFrom::Start(from))?;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        ours.take(overlap).read_to_end(&mut a)?;
        (&mut *came).take(overlap).read_to_end(&mut b)?;
        // There is no checksum to continue.
        return Ok((a == b && a.len() as u64 == overlap).then(Md5::new));
    }
    let mut sum = match &cached.sum {
        Some(sum) => sum.clone(),
        None => {
            let mut sum = Md5::new();
            add(&mut sum, &mut File::open(&cached.path)?.take(cached.size))?;
            sum
        }
    };
    add(&mut sum, came)?;
    came.seek(SeekFrom::Start(0))?;
    Ok(Some(sum))
}

/// Adds the rest of a file to a checksum.
fn add(sum: &mut Md5, file: &mut impl io::Read) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            read => sum.update(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// Writes the body to `file`, which must get exactly `size` bytes. Stops at the first byte beyond: a body without an end
/// would fill the disk.
async fn copy(
    store: &Store,
    answer: GetResult,
    file: &mut File,
    size: u64,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Fault> {
    let (mut copied, mut body) = (0, answer.into_stream());
    let passing = |why| Fault::Passing(why, None);
    while let Some(piece) = within(store.patience.piece, body.next())
        .await
        .map_err(passing)?
    {
        let piece = piece.map_err(|error| Fault::of(&error))?;
        copied += piece.len() as u64;
        if copied > size {
            let what =
                format!("the store sent more than the {size} bytes that its listing promises");
            return Err(Fault::Wrong(what, None));
        }
        each(&piece);
        file.write_all(&piece).map_err(|error| disk(&error))?;
    }
    if copied < size {
        let what = format!("the response was truncated: {copied} of {size} bytes");
        return Err(Fault::Passing(what, None));
    }
    Ok(())
}

/// Returns the object that the store sends, which may have replaced the listed one.
fn as_answered(meta: &ObjectMeta, listed: &Object) -> Object {
    let etag = meta.e_tag.as_deref().map(listing::tag);
    let Some(etag) = etag.filter(|etag| *etag != listed.etag) else {
        return listed.clone();
    };
    // `readable` in `http.rs` sends 1970 for a time that is missing or can't be read.
    let modified = Some(meta.last_modified.timestamp_micros()).filter(|time| *time != 0);
    Object {
        key: listed.key.clone(),
        etag: etag.to_owned(),
        size: meta.size,
        modified: modified.unwrap_or(listed.modified),
    }
}

/// Returns whether the body has the bytes of the object. `aws-chunked` describes an upload, not what is stored.
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

/// Returns whether a tag is the checksum of the object's bytes. It isn't for objects with a separate encryption key.
fn is_sum(store: &Store, answer: &GetResult, tag: &str) -> bool {
    let headers = answer.extensions.get::<HeaderMap>();
    let has = |name: &str, start: &[u8]| {
        let value = headers.and_then(|headers| headers.get(name));
        value.is_some_and(|value| value.as_bytes().starts_with(start))
    };
    !has("x-amz-server-side-encryption", b"aws:")
        && !has("x-amz-server-side-encryption-customer-algorithm", b"")
        && store.tags_are_sums.load(Ordering::Relaxed)
        && looks_like_sum(tag)
}

/// Formats bytes as lowercase hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error of this machine's disk, which no retry mends.
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
