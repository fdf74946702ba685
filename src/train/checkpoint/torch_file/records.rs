//! The records of an archive of `torch.save`: a zip of stored files, in a folder of any name.
//!
//! Invariants: a length is compared with the file's before memory is taken for it; every record lies in the file, none
//! is compressed or encrypted, no two overlap, and no name occurs twice.

use super::super::header::{HEADER_LIMIT, bad_checkpoint};
use crate::error::Result;
use hashbrown::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Bytes of the record that ends a zip, of the one before it, and of the one that this one points to.
const END: usize = 22;
const LOCATOR: usize = 20;
const LONG_END: usize = 56;
/// Bytes of an entry of the directory, and of the header before a record, without names.
const ENTRY: usize = 46;
const LOCAL: usize = 30;

/// A record.
#[derive(Debug)]
pub(super) struct Record {
    /// First byte in the file.
    pub at: u64,
    pub bytes: u64,
    pub crc: u32,
}

/// An entry of the directory.
struct Listed {
    name: String,
    /// Where the header before its record is.
    header: u64,
    bytes: u64,
    crc: u32,
    /// Why it is not read; empty if it is.
    why: &'static str,
}

fn u16_at(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 2).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b).into())
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b).into())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
}

/// Bytes `at..at + len` of the file, which has them.
fn read_at(file: &mut File, at: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The records of a file of `len` bytes, by their names in the folder of the archive.
pub(super) fn list(file: &mut File, len: u64) -> Result<HashMap<String, Record>> {
    let (start, bytes, count) = find_directory(file, len)?;
    let all = parse_directory(&read_at(file, start, bytes)?, start, count)?;
    let folder = archive_folder(&all)?;
    let mut places = Vec::new();
    let mut records = HashMap::new();
    for entry in all {
        if !entry.why.is_empty() {
            return Err(bad_checkpoint(format!("record {:?} {}", entry.name, entry.why)));
        }
        let record = locate(file, &entry, start)?;
        places.push((entry.header, record.at + record.bytes, entry.name.clone()));
        let name = entry.name.strip_prefix(&folder).unwrap_or(&entry.name).to_string();
        if records.insert(name, record).is_some() {
            return Err(bad_checkpoint(format!("record {:?} occurs twice", entry.name)));
        }
    }
    places.sort_unstable();
    match places.windows(2).find(|w| w[0].1 > w[1].0) {
        Some(w) => Err(bad_checkpoint(format!("records {:?} and {:?} overlap", w[0].2, w[1].2))),
        None => Ok(records),
    }
}

/// Where the directory begins, its bytes, and the number of its entries.
fn find_directory(file: &mut File, len: u64) -> Result<(u64, usize, u64)> {
    let tail = len.min((END + usize::from(u16::MAX) + LOCATOR) as u64) as usize;
    let (first, tail) = (len - tail as u64, read_at(file, len - tail as u64, tail)?);
    let ends = |at: &usize| tail[*at..].starts_with(b"PK\x05\x06") && at + END + u16_at(&tail, at + 20) == tail.len();
    let at = (0..(tail.len() + 1).saturating_sub(END)).rev().find(ends);
    let at = at.ok_or_else(|| bad_checkpoint("a zip archive without its end: the file was cut"))?;
    let end = &tail[at..];
    let mut limit = first + at as u64;
    let (mut disks, mut count) = (u16_at(end, 4) + u16_at(end, 6), u16_at(end, 10) as u64);
    let (mut bytes, mut start) = (u32_at(end, 12), u32_at(end, 16));
    let locator = at.checked_sub(LOCATOR).map(|l| &tail[l..at]).filter(|l| l.starts_with(b"PK\x06\x07"));
    if let Some(locator) = locator {
        let place = u64_at(locator, 8);
        limit -= LOCATOR as u64;
        if place.checked_add(LONG_END as u64).is_none_or(|end| end > limit) {
            return Err(bad_checkpoint(format!("byte {limit}: the end of the archive is not at byte {place}")));
        }
        let long = read_at(file, place, LONG_END)?;
        if !long.starts_with(b"PK\x06\x06") {
            return Err(bad_checkpoint(format!("byte {place}: this is not the end of the archive")));
        }
        limit = place;
        disks = (u32_at(&long, 16) + u32_at(&long, 20)) as usize;
        (count, bytes, start) = (u64_at(&long, 32), u64_at(&long, 40), u64_at(&long, 48));
    }
    if disks != 0 {
        return Err(bad_checkpoint("a zip archive in several parts"));
    }
    if bytes > HEADER_LIMIT || start.checked_add(bytes).is_none_or(|end| end > limit) {
        let text = format!("byte {limit}: a directory of {bytes} bytes at byte {start} does not lie before this byte");
        return Err(bad_checkpoint(text));
    }
    Ok((start, bytes as usize, count))
}

/// The entries of the directory, which begins at byte `start` of the file.
fn parse_directory(directory: &[u8], start: u64, count: u64) -> Result<Vec<Listed>> {
    let (mut at, mut all) = (0, Vec::new());
    let bad = |at: usize, what: &str| Err(bad_checkpoint(format!("byte {}: {what}", start + at as u64)));
    for _ in 0..count {
        let entry = &directory[at..];
        if entry.len() < ENTRY || !entry.starts_with(b"PK\x01\x02") {
            return bad(at, "there is no entry of the directory");
        }
        let (name, extra, comment) = (u16_at(entry, 28), u16_at(entry, 30), u16_at(entry, 32));
        let Some(rest) = entry.get(ENTRY..ENTRY + name + extra + comment) else {
            return bad(at, "an entry of the directory is cut");
        };
        let Ok(text) = str::from_utf8(&rest[..name]) else { return bad(at, "the name of a record is not UTF-8") };
        let (packed, bytes, header) = (u32_at(entry, 20), u32_at(entry, 24), u32_at(entry, 42));
        let Some([bytes, packed, header]) = long_fields(&rest[name..name + extra], [bytes, packed, header]) else {
            return bad(at, "an entry of the directory lacks its long lengths");
        };
        let why = match (u16_at(entry, 8) & 1, u16_at(entry, 10)) {
            (1, _) => "is encrypted",
            (_, 0) if packed == bytes => "",
            (_, 0) => "has two lengths",
            _ => "is compressed; torch.save does not compress",
        };
        all.push(Listed { name: text.to_string(), header, bytes, crc: u32_at(entry, 16) as u32, why });
        at += ENTRY + name + extra + comment;
    }
    Ok(all)
}

/// The fields with the 64-bit values that `extra` holds for those that are full; `None` if it lacks one.
fn long_fields(mut extra: &[u8], mut fields: [u64; 3]) -> Option<[u64; 3]> {
    let full = |field: &&mut u64| **field == u64::from(u32::MAX);
    let mut wanted: Vec<&mut u64> = fields.iter_mut().filter(full).collect();
    while !wanted.is_empty() {
        let (id, size) = (u16_at(extra, 0), u16_at(extra, 2));
        let body = extra.get(4..4 + size)?;
        if id == 1 {
            for (i, field) in wanted.iter_mut().enumerate() {
                **field = body.get(8 * i..8 * i + 8).map(|b| u64_at(b, 0))?;
            }
            break;
        }
        extra = &extra[4 + size..];
    }
    Some(fields)
}

/// The folder in which an archive of torch has its records, with a slash; an error for other zip files.
fn archive_folder(all: &[Listed]) -> Result<String> {
    let folders = all.iter().filter_map(|r| r.name.strip_suffix("/data.pkl"));
    let mut folders = folders.filter(|folder| !folder.contains('/'));
    let refused = |what: &str| Err(bad_checkpoint(what));
    let Some(folder) = folders.next() else {
        return match all.iter().any(|r| r.name.ends_with(".npy")) {
            true => refused("a zip archive of numpy.savez: load it in Python and save its arrays with safetensors"),
            false => refused("a zip archive that torch.save did not write: it has no record \"data.pkl\""),
        };
    };
    if folders.next().is_some() {
        return refused("a zip archive with several records \"data.pkl\"");
    }
    let folder = format!("{folder}/");
    let has = |part: &str| all.iter().any(|r| r.name.strip_prefix(&folder).is_some_and(|n| n.starts_with(part)));
    if has("code/") || has("constants.pkl") {
        let save = "torch.save(torch.jit.load(path).state_dict(), \"weights.pt\")";
        return refused(&format!("a TorchScript archive, which holds a program; {save} writes its weights"));
    }
    Ok(folder)
}

/// The record of `entry`, which must end before byte `limit`.
fn locate(file: &mut File, entry: &Listed, limit: u64) -> Result<Record> {
    let outside = || bad_checkpoint(format!("record {:?} of {} bytes is not in the file", entry.name, entry.bytes));
    let head = entry.header.checked_add(LOCAL as u64).filter(|end| *end <= limit).ok_or_else(outside)?;
    let local = read_at(file, entry.header, LOCAL)?;
    let (name, extra) = (u16_at(&local, 26), u16_at(&local, 28));
    if !local.starts_with(b"PK\x03\x04") || name != entry.name.len() || u16_at(&local, 8) != 0 {
        let text = format!("byte {}: the header of record {:?} is not here", entry.header, entry.name);
        return Err(bad_checkpoint(text));
    }
    let at = head + (name + extra) as u64;
    match at.checked_add(entry.bytes).is_some_and(|end| end <= limit) {
        true => Ok(Record { at, bytes: entry.bytes, crc: entry.crc }),
        false => Err(outside()),
    }
}

impl Record {
    /// All its bytes, at most `limit`, which have its CRC-32 if `checked`.
    pub fn read(&self, file: &mut File, name: &str, limit: u64, checked: bool) -> Result<Vec<u8>> {
        if self.bytes > limit {
            return Err(bad_checkpoint(format!("record {name:?} has {} bytes; at most {limit} are read", self.bytes)));
        }
        let bytes = read_at(file, self.at, self.bytes as usize)?;
        match checked && crc32fast::hash(&bytes) != self.crc {
            true => Err(damaged(name)),
            false => Ok(bytes),
        }
    }

    /// Compares its bytes with its CRC-32, in pieces.
    pub fn check(&self, file: &mut File, name: &str) -> Result<()> {
        let (mut piece, mut left, mut crc) = (vec![0; 1 << 16], self.bytes, crc32fast::Hasher::new());
        file.seek(SeekFrom::Start(self.at))?;
        while left > 0 {
            let part = left.min(piece.len() as u64) as usize;
            file.read_exact(&mut piece[..part])?;
            crc.update(&piece[..part]);
            left -= part as u64;
        }
        match crc.finalize() == self.crc {
            true => Ok(()),
            false => Err(damaged(name)),
        }
    }
}

fn damaged(name: &str) -> crate::error::Error {
    bad_checkpoint(format!("record {name:?} does not have its CRC-32: the file was damaged"))
}
