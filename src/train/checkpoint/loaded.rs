//! A file of tensors in memory.

use super::DTYPES;
use super::digest::{self, Digest};
use super::entry::{Entry, checked_entry};
use super::header::{HEADER_LIMIT, bad_checkpoint_header, repeated_header_key};
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

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
    pub fn open(path: impl AsRef<Path>) -> Result<Loaded> {
        Loaded::open_within(path, u64::MAX)
    }

    /// As [`Loaded::open`]; also fails if the file is longer than `limit` bytes.
    pub fn open_within(path: impl AsRef<Path>, limit: u64) -> Result<Loaded> {
        let path = path.as_ref();
        let named = |e: Error| e.context(path.display());
        let io = |e: std::io::Error| named(e.into());
        let mut file = File::open(path).map_err(io)?;
        let len = file.metadata().map_err(io)?.len();
        if len > limit {
            return Err(named(bad_checkpoint_header(format!("{len} bytes, where at most {limit} are expected"))));
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))
            .map_err(|e| named(bad_checkpoint_header(e.to_string())))?;
        // One byte more than the length: a file that grew meanwhile fails the layout check.
        Read::by_ref(&mut file).take(len.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
        Loaded::parse(bytes).map_err(named)
    }

    /// Parses the bytes of a file. Fails with [`Kind::Data`] if they are no safetensors file, if the header is too long
    /// or repeats a name, if the digest does not fit, or if an element is no value of its type.
    pub fn parse(bytes: Vec<u8>) -> Result<Loaded> {
        let (header, meta) = safetensors::SafeTensors::read_metadata(&bytes)
            .map_err(|e| bad_checkpoint_header(format!("not a safetensors file: {e}")))?;
        if header as u64 > HEADER_LIMIT {
            return Err(bad_checkpoint_header(format!(
                "a header of {header} bytes; at most {HEADER_LIMIT} are allowed"
            )));
        }
        let start = header + 8;
        if let Some(name) = repeated_header_key(&bytes[8..start]) {
            return Err(bad_checkpoint_header(format!("the header lists {name:?} twice")));
        }
        let digest = digest::check(&bytes, meta.metadata().iter().flatten())?;
        let mut index = Vec::new();
        for (name, info) in meta.tensors() {
            let dtype = DTYPES.iter().find(|d| d.1 == info.dtype).map(|d| d.0);
            let dtype =
                dtype.ok_or_else(|| bad_checkpoint_header(format!("{name:?} is {}: not supported", info.dtype)))?;
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
