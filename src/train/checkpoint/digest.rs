//! The digest of a safetensors file: a CRC-32 of all its bytes except the digest's own digits, in the header's
//! metadata.
//!
//! Invariant: every flipped bit is found. A flip in the digits makes them differ from the CRC of the rest. A flip in
//! the entry's key is found because the value still marks the entry as a digest. A flip elsewhere changes the CRC.
//!
//! A digest without a secret key shows damage, not forgery, so a CRC is enough. CRC-32 finds every damage that lies
//! within 32 consecutive bits, and misses one in 2³² of all others. It runs at the speed of memory, so it adds nothing
//! to the time of a save. SHA-256 without special instructions would take longer than writing the file.

use super::header::{HEADER_LIMIT, bad_checkpoint};
use crate::error::Result;
use std::io::{ErrorKind, Read};
use std::ops::Range;

/// Whether a file holds a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Digest {
    /// The file holds a digest, and its bytes fit it.
    Fits,
    /// The file holds no digest: another program wrote it, or an older version of this one.
    Absent,
}

/// The first bytes of a header that [`super::encode`] writes, behind its length.
const OPENING: &[u8] = br#"{"__metadata__":{"format":"pt""#;
/// Bytes of the header's length field.
const LENGTH: usize = 8;
const KEY: &str = "arenagrad.digest";
const VALUE: &str = "arenagrad-crc32:";
const DIGITS: usize = 8;

/// The entry in the metadata. Its length is a multiple of 8, so the data behind the header stays aligned.
fn metadata_entry(sum: u32) -> String {
    format!(", \"{KEY}\": \"{VALUE}{sum:08x}\"")
}

/// First byte of the entry.
const AT: usize = LENGTH + OPENING.len();
/// Bytes of the entry.
const SIZE: usize = 8 + KEY.len() + VALUE.len() + DIGITS;
const _: () = assert!(SIZE.is_multiple_of(8));

/// The bytes of the digits.
const OWN: Range<usize> = AT + SIZE - 1 - DIGITS..AT + SIZE - 1;

/// The CRC-32 of all bytes except the digits.
fn file_crc(file: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&file[..OWN.start]);
    crc.update(&file[OWN.end..]);
    crc.finalize()
}

/// Inserts a digest into a file whose only metadata is its format.
pub fn seal(file: &mut Vec<u8>) -> Result<()> {
    let opens = file.get(LENGTH..AT) == Some(OPENING) && file.get(AT) == Some(&b'}');
    let (Some(length), true) = (file.first_chunk::<LENGTH>(), opens) else {
        return Err(bad_checkpoint("the header does not begin with its metadata"));
    };
    let length = u64::from_le_bytes(*length) + SIZE as u64;
    if length > HEADER_LIMIT {
        return Err(bad_checkpoint(format!("a header of {length} bytes; at most {HEADER_LIMIT} are allowed")));
    }
    file[..LENGTH].copy_from_slice(&length.to_le_bytes());
    file.splice(AT..AT, metadata_entry(0).into_bytes());
    let own = metadata_entry(file_crc(file));
    file[AT..AT + SIZE].copy_from_slice(own.as_bytes());
    Ok(())
}

/// As [`check`], for a file whose length field and header are `head`, and whose other bytes `data` reads, in pieces.
pub fn check_in_pieces<'m>(
    head: &[u8],
    data: &mut dyn Read,
    metadata: impl IntoIterator<Item = (&'m String, &'m String)>,
) -> Result<Digest> {
    if !metadata.into_iter().any(is_checksum_entry) {
        return Ok(Digest::Absent);
    }
    if head.len() < AT + SIZE {
        return Err(bad_checkpoint(format!("the file ends within its digest: {WHY}")));
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..OWN.start]);
    crc.update(&head[OWN.end..]);
    let mut piece = vec![0; 1 << 16];
    loop {
        match data.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => crc.update(&piece[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    let sum = crc.finalize();
    match head[AT..AT + SIZE] == *metadata_entry(sum).as_bytes() {
        true => Ok(Digest::Fits),
        false => Err(bad_checkpoint(format!("the digest does not fit the file, whose CRC-32 is {sum:08x}: {WHY}"))),
    }
}

/// True for the digest's entry in the metadata.
fn is_checksum_entry((key, value): (&String, &String)) -> bool {
    key == KEY || value.starts_with(VALUE)
}

/// What a digest that does not fit means.
const WHY: &str = "it was damaged, or another program changed it and kept the digest";

/// Compares a well-formed file with the digest in its metadata. Fails if the digest does not fit.
pub fn check<'m>(file: &[u8], metadata: impl IntoIterator<Item = (&'m String, &'m String)>) -> Result<Digest> {
    let (head, mut data) = file.split_at(file.len().min(AT + SIZE));
    check_in_pieces(head, &mut data, metadata)
}
