//! The frame of an exported program: a header, a table of sections, and the sections.
//!
//! Invariant: every byte in front of the last section is a field, a section with a CRC-32, or zero, and is checked. The
//! last section, the values, begins at a multiple of [`PAGE`] and ends the file; it has a CRC-32, too, but is read only
//! by those who ask for it.

use std::ops::Range;

/// The first bytes of a file. A transfer that changes ends of lines, or cuts the eighth bit, changes them.
pub const MAGIC: [u8; 8] = *b"\x89AGP\r\n\x1a\n";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Where the values begin is a multiple of this.
pub const PAGE: usize = 4096;
/// Bytes of the header, and of an entry of the table.
const HEADER: usize = 40;
const ENTRY: usize = 32;
/// Most sections: six of each of 65,536 methods.
const MOST: u32 = 1 << 19;
/// Read back by a machine of the other byte order, it is another number.
const ORDER: u32 = 0x0102_0304;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Section {
    /// Which engine wrote the file.
    Engine = 1,
    /// The graph of a method as its user gave it, in the text form.
    Text = 2,
    /// The graph of a method as it runs.
    Graph = 3,
    /// What was chosen for a method.
    Plan = 4,
    /// The names of params and states.
    Names = 5,
    /// The bytes of params and states. The last section.
    Values = 6,
}

impl Section {
    const ALL: [Section; 6] =
        [Section::Engine, Section::Text, Section::Graph, Section::Plan, Section::Names, Section::Values];

    /// The name in errors.
    pub fn name(self) -> &'static str {
        ["engine", "text", "graph", "plan", "names", "values"][self as usize - 1]
    }
}

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    pub section: Section,
    /// The number of the method that it is of; 0 for those of the whole program.
    pub method: u32,
    pub offset: u64,
    pub bytes: u64,
    pub crc: u32,
}

impl SectionEntry {
    /// How errors call it.
    pub fn name(&self) -> String {
        match self.section {
            Section::Text | Section::Graph | Section::Plan => {
                format!("section {} of method {}", self.section.name(), self.method)
            }
            _ => format!("section {}", self.section.name()),
        }
    }

    /// Its bytes in a file that is in memory.
    pub fn range(&self) -> Range<usize> {
        self.offset as usize..(self.offset + self.bytes) as usize
    }
}

/// A file up to its values: `sections`, then a last one for `values` bytes whose CRC-32 is `crc`.
pub fn write_head(sections: &[(Section, u32, Vec<u8>)], values: usize, crc: u32) -> Vec<u8> {
    let table = HEADER + ENTRY * (sections.len() + 1);
    let mut out = vec![0; table];
    let mut entries = Vec::new();
    for (section, method, bytes) in sections {
        let crc = crc32fast::hash(bytes);
        let entry = SectionEntry {
            section: *section,
            method: *method,
            offset: out.len() as u64,
            bytes: bytes.len() as u64,
            crc,
        };
        entries.push(entry);
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    out.resize(out.len().next_multiple_of(PAGE), 0);
    let (offset, section) = (out.len() as u64, Section::Values);
    entries.push(SectionEntry { section, method: 0, offset, bytes: values as u64, crc });
    for (e, to) in entries.iter().zip(out[HEADER..table].chunks_exact_mut(ENTRY)) {
        to[..4].copy_from_slice(&(e.section as u32).to_le_bytes());
        to[4..8].copy_from_slice(&e.method.to_le_bytes());
        to[8..16].copy_from_slice(&e.offset.to_le_bytes());
        to[16..24].copy_from_slice(&e.bytes.to_le_bytes());
        to[24..28].copy_from_slice(&e.crc.to_le_bytes());
    }
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&ORDER.to_ne_bytes());
    out[16..20].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    out[24..32].copy_from_slice(&(offset + values as u64).to_le_bytes());
    let crc = header_crc(&out[..table]);
    out[32..36].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The CRC-32 of header and table, without its own bytes.
fn header_crc(table: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&table[..32]);
    sum.update(&table[36..]);
    sum.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Bytes of header and table, from the first [`FIRST`] bytes of a file of `len` bytes.
pub fn table_bytes(first: &[u8], len: u64) -> Result<usize, String> {
    let Some(header) = first.get(..HEADER) else {
        return Err(format!("the file has {} bytes, fewer than a header", first.len()));
    };
    if header[..8] != MAGIC {
        return Err("the file is no exported program: it begins with other bytes".into());
    }
    match (word(header, 8), word(header, 12).to_le_bytes() == ORDER.to_ne_bytes()) {
        (VERSION, true) => {}
        (VERSION, false) => return Err("the file is of a machine with another byte order".into()),
        (version, _) => {
            return Err(format!("the file has version {version} of the format; this engine reads {VERSION}"));
        }
    }
    if long(header, 24) != len {
        return Err(format!("the file has {len} bytes, and its header says {}", long(header, 24)));
    }
    match word(header, 16) {
        n @ 1..=MOST if HEADER as u64 + ENTRY as u64 * u64::from(n) <= len => Ok(HEADER + ENTRY * n as usize),
        n => Err(format!("the header says {n} sections, which the file has no space for")),
    }
}

/// Bytes that [`table_bytes`] takes.
pub const FIRST: usize = HEADER;

/// The table of a file of `len` bytes that begins with `table`, which has the bytes that [`table_bytes`] tells.
pub fn read_table(table: &[u8], len: u64) -> Result<Vec<SectionEntry>, String> {
    if header_crc(table) != word(table, 32) || word(table, 20) != 0 || word(table, 36) != 0 {
        return Err("the header is damaged: its CRC-32 is another".into());
    }
    let mut entries = Vec::new();
    let mut at = table.len() as u64;
    let all = table[HEADER..].chunks_exact(ENTRY);
    let last = all.len() - 1;
    for (i, e) in all.enumerate() {
        let known = Section::ALL.into_iter().find(|s| *s as u32 == word(e, 0));
        let section = known.filter(|s| (*s == Section::Values) == (i == last) && word(e, 28) == 0);
        let section = section.ok_or_else(|| format!("section {i} is of no kind that this engine knows"))?;
        let entry =
            SectionEntry { section, method: word(e, 4), offset: long(e, 8), bytes: long(e, 16), crc: word(e, 24) };
        // One stands behind the other, so that no byte is in none.
        let step = if i == last { PAGE as u64 } else { 8 };
        let end = entry.offset.checked_add(entry.bytes).filter(|&end| end <= len);
        match (at.checked_next_multiple_of(step), end) {
            (Some(start), Some(end)) if start == entry.offset && (i < last || end == len) => at = end,
            _ => return Err(format!("{} does not lie where the one before it ends", entry.name())),
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Checks the bytes of a file between its table and its values: the CRC-32 of each section, and zeros between them.
pub fn check_head(head: &[u8], entries: &[SectionEntry]) -> Result<(), String> {
    let mut at = HEADER + ENTRY * entries.len();
    for e in entries {
        let gap = head.get(at..e.offset as usize).ok_or_else(|| format!("{} is not in the file", e.name()))?;
        if gap.iter().any(|&b| b != 0) {
            return Err(format!("bytes in front of {} are not zero", e.name()));
        }
        if e.section == Section::Values {
            return Ok(());
        }
        let bytes = head.get(e.range()).ok_or_else(|| format!("{} is not in the file", e.name()))?;
        check_crc(e, crc32fast::hash(bytes))?;
        at = e.range().end;
    }
    Ok(())
}

/// An error unless `crc` is the CRC-32 that the table has for `e`.
pub fn check_crc(e: &SectionEntry, crc: u32) -> Result<(), String> {
    match crc == e.crc {
        true => Ok(()),
        false => Err(format!("{} is damaged: its CRC-32 is {crc:08x}, and the table says {:08x}", e.name(), e.crc)),
    }
}

/// Gives a file the length and the CRC-32s that its bytes have, where its table can be followed: for tests of what else
/// a file may say.
pub fn seal(file: &mut [u8]) {
    let entries = word(file, 16).min(MOST) as usize;
    let table = HEADER + ENTRY * entries;
    if file.len() < table {
        return;
    }
    for e in (0..entries).map(|i| HEADER + ENTRY * i) {
        let end = long(file, e + 8).checked_add(long(file, e + 16)).and_then(|end| usize::try_from(end).ok());
        if let Some(bytes) = end.and_then(|end| file.get(long(file, e + 8) as usize..end)) {
            let crc = crc32fast::hash(bytes);
            file[e + 24..e + 28].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let len = file.len() as u64;
    file[24..32].copy_from_slice(&len.to_le_bytes());
    let crc = header_crc(&file[..table]);
    file[32..36].copy_from_slice(&crc.to_le_bytes());
}
