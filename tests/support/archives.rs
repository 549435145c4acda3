//! Builds zip archives whose directory may contradict their members.

use std::io::Write as _;

/// One member of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(crate) name: String,
    pub(crate) method: u16,
    /// The bytes as stored in the archive, possibly compressed.
    pub(crate) bytes: Vec<u8>,
    /// The uncompressed size that the archive declares.
    pub(crate) size: u32,
    pub(crate) crc: u32,
    /// The offset that the directory declares, if it differs from the real one.
    pub(crate) at: Option<u32>,
}

impl Packed {
    pub(crate) fn deflated(name: &str, bytes: &[u8]) -> Self {
        let mut deflated =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        deflated.write_all(bytes).expect("memory");
        Self {
            method: 8,
            bytes: deflated.finish().expect("memory"),
            ..Self::stored(name, bytes)
        }
    }

    pub(crate) fn stored(name: &str, bytes: &[u8]) -> Self {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let size = u32::try_from(bytes.len()).expect("small");
        Self {
            name: name.to_owned(),
            method: 0,
            bytes: bytes.to_vec(),
            size,
            crc: crc.sum(),
            at: None,
        }
    }
}

/// Returns the bytes of an archive with these members.
pub(crate) fn archive(members: &[Packed]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let at = member.at.unwrap_or(out.len() as u32);
        let mut fixed = Vec::new();
        for part in [20, 0, member.method, 0, 0x21] {
            fixed.extend_from_slice(&part.to_le_bytes());
        }
        for part in [member.crc, member.bytes.len() as u32, member.size] {
            fixed.extend_from_slice(&part.to_le_bytes());
        }
        fixed.extend_from_slice(&(member.name.len() as u16).to_le_bytes());
        fixed.extend_from_slice(&[0, 0]);
        out.extend_from_slice(b"PK\x03\x04");
        out.extend_from_slice(&fixed);
        out.extend_from_slice(member.name.as_bytes());
        out.extend_from_slice(&member.bytes);
        directory.extend_from_slice(b"PK\x01\x02\x14\0");
        directory.extend_from_slice(&fixed);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(member.name.as_bytes());
    }
    let (at, count) = (out.len() as u64, members.len() as u64);
    out.extend_from_slice(&directory);
    let size = directory.len() as u64;
    if count > 0xfffe {
        let record = out.len() as u64;
        out.extend_from_slice(b"PK\x06\x06");
        out.extend_from_slice(&44_u64.to_le_bytes());
        out.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for part in [count, count, size, at] {
            out.extend_from_slice(&part.to_le_bytes());
        }
        out.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        out.extend_from_slice(&record.to_le_bytes());
        out.extend_from_slice(&1_u32.to_le_bytes());
        out.extend_from_slice(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
        out.extend_from_slice(&[0xff; 8]);
    } else {
        out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        out.extend_from_slice(&(count as u16).to_le_bytes());
        out.extend_from_slice(&(count as u16).to_le_bytes());
        out.extend_from_slice(&(size as u32).to_le_bytes());
        out.extend_from_slice(&(at as u32).to_le_bytes());
    }
    out.extend_from_slice(&[0, 0]);
    out
}
