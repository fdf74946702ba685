//! Writing GGUF files.

use super::bad_gguf;
use super::bounded_reader::HEADER_LIMIT;
use super::metadata::{Meta, append_string, find_alignment};
use super::tensor_type::TensorType;
use crate::error::Result;
use crate::train::write_atomically;
use hashbrown::HashSet;
use std::path::Path;

/// The version that is written.
const VERSION: u32 = 3;
/// Most axes of a tensor.
const MAX_AXES: usize = 4;

/// A named tensor for a file, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GgufEntry<'a> {
    /// The name, unique in the file.
    pub name: &'a str,
    /// The type.
    pub kind: TensorType,
    /// The shape, row-major.
    pub dims: &'a [usize],
    /// Elements or blocks, little-endian and row-major.
    pub bytes: &'a [u8],
}

impl<'a> GgufEntry<'a> {
    /// A tensor. `bytes` are its elements or blocks.
    pub fn new(name: &'a str, kind: TensorType, dims: &'a [usize], bytes: &'a [u8]) -> GgufEntry<'a> {
        GgufEntry { name, kind, dims, bytes }
    }
}

/// The bytes of a file with this metadata and these tensors, in this order. Data is aligned to the `u32` under
/// `general.alignment`, or to 32.
///
/// Errors, of kind [`Kind::Data`](crate::error::Kind::Data): a key or a name occurs twice; a tensor has more than four
/// axes, a type that files do not have, rows that are no whole blocks, or another number of bytes than its shape; what
/// comes before the data is too long to be read.
pub fn encode_file(metadata: &[(String, Meta)], tensors: &[GgufEntry<'_>]) -> Result<Vec<u8>> {
    let alignment = find_alignment(metadata)? as usize;
    check_unique_names("key", metadata.iter().map(|m| m.0.as_str()))?;
    check_unique_names("tensor", tensors.iter().map(|t| t.name))?;
    let mut file = b"GGUF".to_vec();
    file.extend(VERSION.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        append_string(key, &mut file);
        file.extend(value.type_id().to_le_bytes());
        value.write(&mut file);
    }
    let mut offset = 0usize;
    for t in tensors {
        let id = check_gguf_entry(t).map_err(|e| e.context(format!("tensor {:?}", t.name)))?;
        append_string(t.name, &mut file);
        file.extend((t.dims.len() as u32).to_le_bytes());
        t.dims.iter().rev().for_each(|&d| file.extend((d as u64).to_le_bytes()));
        file.extend(id.to_le_bytes());
        file.extend((offset as u64).to_le_bytes());
        offset = (offset + t.bytes.len()).next_multiple_of(alignment);
    }
    check_gguf_head(file.len() as u64)?;
    file.resize(file.len().next_multiple_of(alignment), 0);
    let start = file.len();
    for t in tensors {
        file.extend(t.bytes);
        file.resize(start + (file.len() - start).next_multiple_of(alignment), 0);
    }
    Ok(file)
}

/// Writes such a file to `path`, as a whole or not at all.
pub fn save(path: impl AsRef<Path>, metadata: &[(String, Meta)], tensors: &[GgufEntry<'_>]) -> Result<()> {
    write_atomically(path.as_ref(), &encode_file(metadata, tensors)?)
}

fn check_unique_names<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(bad_gguf(format!("{what} {name:?} occurs twice")));
        }
    }
    Ok(())
}

/// Refuses a head that would be too long to be read.
fn check_gguf_head(len: u64) -> Result<()> {
    if len > HEADER_LIMIT {
        let text = format!("metadata and the list of tensors have {len} bytes; at most {HEADER_LIMIT} are read");
        return Err(bad_gguf(text));
    }
    Ok(())
}

/// Requires that a tensor can be in a file. Returns the number of its type.
fn check_gguf_entry(t: &GgufEntry<'_>) -> Result<u32> {
    if t.dims.len() > MAX_AXES {
        return Err(bad_gguf(format!("{} axes; at most {MAX_AXES} are possible", t.dims.len())));
    }
    let name = t.kind.name();
    let id = t.kind.id().ok_or_else(|| bad_gguf(format!("GGUF files have no type for {name}")))?;
    if t.kind.is_of_unknown_size() {
        return Err(bad_gguf(format!("{name} is not known, nor how many bytes {:?} has", t.dims)));
    }
    let bytes = t.kind.bytes_of(t.dims);
    let bytes = bytes.ok_or_else(|| bad_gguf(format!("rows of {:?} are no whole {name} blocks", t.dims)))?;
    if bytes != t.bytes.len() {
        let text = format!("{name}{:?} has {bytes} bytes; {} are given", t.dims, t.bytes.len());
        return Err(bad_gguf(text));
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::gguf::bounded_reader::Cursor;

    #[test]
    fn the_longest_head_that_is_written_is_the_longest_that_is_read() {
        let reader = Cursor::new(&b""[..], u64::MAX);
        for (len, fits) in [(HEADER_LIMIT, true), (HEADER_LIMIT + 1, false)] {
            assert_eq!((check_gguf_head(len).is_ok(), reader.fits(len, 1, "bytes").is_ok()), (fits, fits), "{len}");
        }
    }
}
