//! Finds the next byte of interest in a JSON text, 16 bytes at a time.

/// Returns the position of the first quote, backslash or control character. Strict JSON allows none of
/// them in a string, except as part of an escape.
pub(super) fn special(bytes: &[u8]) -> Option<usize> {
    let (chunks, rest) = bytes.as_chunks();
    let of = |byte: u8| (byte ^ b'"').min(byte ^ b'\\').min(byte & 0xe0);
    for (n, chunk) in chunks.iter().enumerate() {
        if let Some(found) = first_zero(chunk, of) {
            return Some(n * CHUNK + found);
        }
    }
    let found = rest.iter().position(|byte| of(*byte) == 0)?;
    Some(chunks.len() * CHUNK + found)
}

/// As many bytes as any processor compares at once.
pub(super) const CHUNK: usize = 16;

/// Returns the position of the first byte of a chunk for which `of` is zero. The compiler computes it for
/// all of them at once, as long as `of` doesn't compare or branch. An iterator would hide that from it.
#[inline]
#[expect(clippy::indexing_slicing, reason = "`n` is below the length of both")]
pub(super) fn first_zero(chunk: &[u8; CHUNK], of: impl Fn(u8) -> u8) -> Option<usize> {
    let mut zeros = [0; CHUNK];
    let mut n = 0;
    while n < CHUNK {
        zeros[n] = 1_u8.saturating_sub(of(chunk[n]));
        n += 1;
    }
    match u128::from_le_bytes(zeros) {
        0 => None,
        zeros => Some(zeros.trailing_zeros() as usize / 8),
    }
}
