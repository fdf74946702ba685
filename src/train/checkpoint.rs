//! Checkpoints: named tensors in one safetensors file.
//!
//! Invariants. Saving: the target is replaced as a whole or not at all ([`super::atomic`]); equal tensors give equal
//! bytes. Loading: the file is hostile until proven good (size first, then header, then its [`digest`], then each
//! tensor against what is expected), and a failed load changes nothing. NaN and infinities are data like any other; a
//! bool is 0 or 1. Weights files hold torch's names and `format=pt`, so `safetensors.torch.load_file` reads them.

pub mod digest;

use super::atomic::write_atomically;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
pub use digest::Digest;
use safetensors::tensor::{Dtype, TensorView};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// Bytes that a header may take beside the data.
pub const HEADER_LIMIT: u64 = 16 << 20;

/// A named tensor, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// Name.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: &'a [usize],
    /// Elements, little-endian and row-major.
    pub bytes: &'a [u8],
}

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

fn bad(message: impl Into<String>) -> Error {
    Error::new(Kind::Data, message)
}

/// Refuses bytes that stand for no value of their type: a bool other than 0 and 1.
fn proven<'a>(e: Entry<'a>) -> Result<Entry<'a>> {
    match e.dtype.misfit(e.bytes) {
        Some(at) => {
            let text = format!("element {at} of {:?} is {}; a bool is 0 or 1", e.name, e.bytes[at]);
            Err(bad(text))
        }
        None => Ok(e),
    }
}

/// The entries as one safetensors file, with a [`digest`]. An error says which name stands twice, or which bool is
/// neither 0 nor 1.
pub fn encode(entries: &[Entry<'_>]) -> Result<Vec<u8>> {
    let mut names: Vec<&str> = entries.iter().map(|e| e.name).collect();
    names.sort_unstable();
    if let Some(w) = names.windows(2).find(|w| w[0] == w[1]) {
        return Err(bad(format!("two tensors are called {:?}", w[0])));
    }
    let views = entries.iter().map(|e| {
        let e = proven(*e)?;
        let dtype = DTYPES.iter().find(|d| d.0 == e.dtype).map(|d| d.1);
        let dtype = dtype.ok_or_else(|| bad(format!("{:?}: no file type for {}", e.name, e.dtype)))?;
        let view = TensorView::new(dtype, e.dims.to_vec(), e.bytes);
        Ok((e.name, view.map_err(|err| bad(format!("{:?}: {err}", e.name)))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    // One key only: a map of several has no fixed order, and equal weights must give equal bytes.
    let meta = [("format".to_string(), "pt".to_string())].into();
    let mut file = safetensors::serialize(views, Some(meta)).map_err(|e| bad(e.to_string()))?;
    digest::seal(&mut file)?;
    Ok(file)
}

/// Writes the entries to `path`.
pub fn save(path: &Path, entries: &[Entry<'_>]) -> Result<()> {
    write_atomically(path, &encode(entries)?)
}

/// A file that was read and found to be well formed, and as it was written if it holds a digest.
pub struct Loaded {
    bytes: Vec<u8>,
    digest: Digest,
    index: Vec<Tensor>,
}

struct Tensor {
    name: String,
    dtype: DType,
    dims: Vec<usize>,
    at: Range<usize>,
}

impl Loaded {
    /// Reads `path`, which may be `limit` bytes long at most.
    pub fn open(path: &Path, limit: u64) -> Result<Loaded> {
        let named = |e: Error| e.context(path.display());
        let io = |e: std::io::Error| named(e.into());
        let mut file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        if len > limit {
            return Err(named(bad(format!("{len} bytes, where at most {limit} are expected"))));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len as usize).map_err(|e| named(bad(e.to_string())))?;
        // One byte beyond the length: a file that grew meanwhile is noticed, not trusted.
        Read::by_ref(&mut file).take(len + 1).read_to_end(&mut bytes).map_err(io)?;
        Loaded::parse(bytes).map_err(named)
    }

    /// Reads a file's bytes.
    pub fn parse(bytes: Vec<u8>) -> Result<Loaded> {
        let (header, meta) =
            safetensors::SafeTensors::read_metadata(&bytes).map_err(|e| bad(format!("not a safetensors file: {e}")))?;
        if header as u64 > HEADER_LIMIT {
            return Err(bad(format!("a header of {header} bytes; at most {HEADER_LIMIT} are allowed")));
        }
        let start = header + 8;
        if let Some(name) = repeated_key(&bytes[8..start]) {
            return Err(bad(format!("the header lists {name:?} twice")));
        }
        let digest = digest::check(&bytes, meta.metadata().as_ref())?;
        let mut index = Vec::new();
        for (name, info) in meta.tensors() {
            let dtype = DTYPES.iter().find(|d| d.1 == info.dtype).map(|d| d.0);
            let dtype = dtype.ok_or_else(|| bad(format!("{name:?} is {}: not supported", info.dtype)))?;
            let at = start + info.data_offsets.0..start + info.data_offsets.1;
            proven(Entry { name: &name, dtype, dims: &info.shape, bytes: &bytes[at.clone()] })?;
            index.push(Tensor { name, dtype, dims: info.shape.clone(), at });
        }
        index.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Loaded { bytes, digest, index })
    }

    /// Whether the file holds a digest. One that does not fit was refused.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// All tensors, by name.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.index.iter().map(|t| self.entry(t))
    }

    fn entry<'l>(&'l self, t: &'l Tensor) -> Entry<'l> {
        Entry { name: &t.name, dtype: t.dtype, dims: &t.dims, bytes: &self.bytes[t.at.clone()] }
    }

    /// The tensor called `name`.
    pub fn find(&self, name: &str) -> Option<Entry<'_>> {
        let i = self.index.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        self.index.get(i).map(|t| self.entry(t))
    }

    /// The tensor called `name`, which must have this type and shape.
    pub fn expect(&self, name: &str, dtype: DType, dims: &[usize]) -> Result<Entry<'_>> {
        let e = self.find(name).ok_or_else(|| Error::new(Kind::Name, format!("there is no tensor {name:?}")))?;
        if e.dtype != dtype || e.dims != dims {
            let text = format!("{name:?} is {}{:?} in the file, not {dtype}{dims:?}", e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        Ok(e)
    }
}

/// The first key that the JSON object `header`, which is valid, repeats. The parser keeps the last of equal keys, and
/// what it drops would go unseen. Keys are compared as they are spelled: an escaped spelling of a name that stands
/// there plainly too cannot cover bytes of its own, which the layout check refuses.
fn repeated_key(header: &[u8]) -> Option<String> {
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
