//! Checkpoints: named tensors in one safetensors file.
//!
//! Invariants of saving: the target is replaced as a whole or not at all ([`super::atomic`]), and equal tensors give
//! equal bytes. Invariants of loading: the file is hostile until proven good (size, then header, then [`digest`], then
//! each tensor against what is expected), and a failed load changes nothing. NaN and infinities are valid elements; a
//! bool is 0 or 1. [`Weights`] reads large files tensor by tensor; [`Loaded`] holds a whole file. Files have
//! `format=pt` and weights have torch's names, so `safetensors.torch.load_file` reads them.

pub mod digest;
mod header;
pub mod load;
pub mod lora;
pub mod tensor;
pub mod weights;

use super::atomic::write_atomically;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
pub use digest::Digest;
pub use header::HEADER_LIMIT;
use header::bad_checkpoint;
pub use load::{Load, LoadReport};
pub use lora::{merge, peft_name};
use safetensors::tensor::{Dtype, TensorView};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
pub use tensor::Tensor;
pub use weights::{Stored, Weights};

/// A named tensor, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The name, unique in a file.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// The shape.
    pub dims: &'a [usize],
    /// Elements, little-endian and row-major.
    pub bytes: &'a [u8],
}

/// The dtypes and their names in files.
const DTYPES: [(DType, Dtype); 11] = [
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U32, Dtype::U32),
    (DType::Bool, Dtype::BOOL),
    (DType::C64, Dtype::C64),
];

/// Returns the entry, or an error if an element is no value of its type: a bool other than 0 and 1.
fn checked_entry<'a>(e: Entry<'a>) -> Result<Entry<'a>> {
    match e.dtype.misfit(e.bytes) {
        Some(at) => {
            let text = format!("element {at} of {:?} is {}; a bool is 0 or 1", e.name, e.bytes[at]);
            Err(bad_checkpoint(text))
        }
        None => Ok(e),
    }
}

/// The bytes of a safetensors file with these entries and a [`digest`]. Fails with [`Kind::Data`] if a name occurs
/// twice or a bool is neither 0 nor 1.
pub fn encode(entries: &[Entry<'_>]) -> Result<Vec<u8>> {
    let mut names: Vec<&str> = entries.iter().map(|e| e.name).collect();
    names.sort_unstable();
    if let Some(w) = names.windows(2).find(|w| w[0] == w[1]) {
        return Err(bad_checkpoint(format!("two tensors are called {:?}", w[0])));
    }
    let views = entries.iter().map(|e| {
        let e = checked_entry(*e)?;
        let dtype = DTYPES.iter().find(|d| d.0 == e.dtype).map(|d| d.1);
        let dtype = dtype
            .ok_or_else(|| bad_checkpoint(format!("{:?}: safetensors files have no type for {}", e.name, e.dtype)))?;
        let view = TensorView::new(dtype, e.dims.to_vec(), e.bytes);
        Ok((e.name, view.map_err(|err| bad_checkpoint(format!("{:?}: {err}", e.name)))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    // One key only: a map of several keys has no fixed order, and equal tensors must give equal bytes.
    let meta = [("format".to_string(), "pt".to_string())].into();
    let mut file = safetensors::serialize(views, Some(meta)).map_err(|e| bad_checkpoint(e.to_string()))?;
    digest::seal(&mut file)?;
    Ok(file)
}

/// Writes the entries to `path`, as a whole or not at all.
pub fn save(path: &Path, entries: &[Entry<'_>]) -> Result<()> {
    write_atomically(path, &encode(entries)?)
}

/// A well-formed file in memory. If it holds a digest, the digest fits.
pub struct Loaded {
    bytes: Vec<u8>,
    digest: Digest,
    index: Vec<Held>,
}

/// A tensor of a file in memory.
struct Held {
    name: String,
    dtype: DType,
    dims: Vec<usize>,
    /// The tensor's bytes in the file.
    at: Range<usize>,
}

impl Loaded {
    /// Reads the file `path`. Fails as [`Loaded::parse`] does, or if there is no memory for it.
    pub fn open(path: &Path) -> Result<Loaded> {
        Loaded::open_within(path, u64::MAX)
    }

    /// As [`Loaded::open`]; also fails if the file is longer than `limit` bytes.
    pub fn open_within(path: &Path, limit: u64) -> Result<Loaded> {
        let named = |e: Error| e.context(path.display());
        let io = |e: std::io::Error| named(e.into());
        let mut file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        if len > limit {
            return Err(named(bad_checkpoint(format!("{len} bytes, where at most {limit} are expected"))));
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))
            .map_err(|e| named(bad_checkpoint(e.to_string())))?;
        // One byte more than the length: a file that grew meanwhile fails the layout check.
        Read::by_ref(&mut file).take(len.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
        Loaded::parse(bytes).map_err(named)
    }

    /// Parses the bytes of a file. Fails with [`Kind::Data`] if they are no safetensors file, if the header is too long
    /// or repeats a name, if the digest does not fit, or if an element is no value of its type.
    pub fn parse(bytes: Vec<u8>) -> Result<Loaded> {
        let (header, meta) = safetensors::SafeTensors::read_metadata(&bytes)
            .map_err(|e| bad_checkpoint(format!("not a safetensors file: {e}")))?;
        if header as u64 > HEADER_LIMIT {
            return Err(bad_checkpoint(format!("a header of {header} bytes; at most {HEADER_LIMIT} are allowed")));
        }
        let start = header + 8;
        if let Some(name) = repeated_checkpoint_key(&bytes[8..start]) {
            return Err(bad_checkpoint(format!("the header lists {name:?} twice")));
        }
        let digest = digest::check(&bytes, meta.metadata().iter().flatten())?;
        let mut index = Vec::new();
        for (name, info) in meta.tensors() {
            let dtype = DTYPES.iter().find(|d| d.1 == info.dtype).map(|d| d.0);
            let dtype = dtype.ok_or_else(|| bad_checkpoint(format!("{name:?} is {}: not supported", info.dtype)))?;
            let at = start + info.data_offsets.0..start + info.data_offsets.1;
            checked_entry(Entry { name: &name, dtype, dims: &info.shape, bytes: &bytes[at.clone()] })?;
            index.push(Held { name, dtype, dims: info.shape.clone(), at });
        }
        index.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Loaded { bytes, digest, index })
    }

    /// Whether the file holds a digest. A file whose digest does not fit is never loaded.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// All tensors, sorted by name.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.index.iter().map(|t| self.entry(t))
    }

    fn entry<'l>(&'l self, t: &'l Held) -> Entry<'l> {
        Entry { name: &t.name, dtype: t.dtype, dims: &t.dims, bytes: &self.bytes[t.at.clone()] }
    }

    /// The tensor called `name`.
    pub fn find(&self, name: &str) -> Option<Entry<'_>> {
        let i = self.index.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        self.index.get(i).map(|t| self.entry(t))
    }

    /// The tensor called `name`. Fails with [`Kind::Name`] if there is none, and with [`Kind::Shape`] unless it has
    /// this dtype and shape.
    pub fn expect(&self, name: &str, dtype: DType, dims: &[usize]) -> Result<Entry<'_>> {
        let e = self.find(name).ok_or_else(|| Error::new(Kind::Name, format!("there is no tensor {name:?}")))?;
        if e.dtype != dtype || e.dims != dims {
            let text = format!("{name:?} is {}{:?} in the file, not {dtype}{dims:?}", e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        Ok(e)
    }
}

/// A key that the valid JSON object `header` repeats, if any. The parser keeps the last of equal keys and drops the
/// others without notice. Keys are compared as they are spelled. That suffices: of two spellings of one name the
/// parser drops one, and the layout check refuses a file whose remaining tensors leave bytes uncovered.
fn repeated_checkpoint_key(header: &[u8]) -> Option<String> {
    let (mut depth, mut at, mut keys) = (0, 0, Vec::new());
    let mut last: Range<usize> = 0..0;
    while let Some(&c) = header.get(at) {
        match c {
            b'"' => {
                let start = at + 1;
                at = start;
                while header.get(at).is_some_and(|&c| c != b'"') {
                    at += 1 + usize::from(header[at] == b'\\');
                }
                last = start..at.min(header.len());
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1 => keys.push(&header[last.clone()]),
            _ => {}
        }
        at += 1;
    }
    keys.sort_unstable();
    let twice = keys.windows(2).find(|w| w[0] == w[1])?;
    Some(String::from_utf8_lossy(twice[0]).into_owned())
}

#[cfg(test)]
mod tests;
