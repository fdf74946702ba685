//! A file of tensors in memory.

use super::digest::{self, Digest};
use super::entry::{Entry, check_bool_elements};
use super::header::{self, bad_checkpoint, declared_length};
use super::skipped_tensors::Unusable;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::train::file_kinds::open_regular;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A well-formed file in memory. If it holds a digest, the digest fits.
pub struct Loaded {
    bytes: Vec<u8>,
    digest: Digest,
    index: Vec<Held>,
    unusable: Vec<Unusable>,
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
        let (mut file, len) = open_regular(path).map_err(named)?;
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
        let start = 8 + declared_length(&bytes, bytes.len() as u64)? as usize;
        let header = header::parse_json(&bytes[8..start], (bytes.len() - start) as u64)?;
        let digest = digest::check(&bytes, &header.metadata)?;
        let (mut index, mut unusable) = (Vec::new(), Vec::new());
        for t in header.tensors {
            let Some(dtype) = t.dtype else {
                unusable.push(Unusable::of_no_type(t, PathBuf::new()));
                continue;
            };
            let at = start + t.at.start as usize..start + t.at.end as usize;
            check_bool_elements(Entry { name: &t.name, dtype, dims: &t.dims, bytes: &bytes[at.clone()] })?;
            index.push(Held { name: t.name, dtype, dims: t.dims, at });
        }
        index.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Loaded { bytes, digest, index, unusable })
    }

    /// Whether the file holds a digest. A file whose digest does not fit is never loaded.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The tensors that cannot be used, as there is no such type here.
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// All other tensors, sorted by name.
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

    /// The tensor called `name`. Fails with [`Kind::Name`] if there is none, with [`Kind::Data`] if it cannot be used,
    /// and with [`Kind::Shape`] unless it has this dtype and shape.
    pub fn expect(&self, name: &str, dtype: DType, dims: &[usize]) -> Result<Entry<'_>> {
        let unusable = || self.unusable.iter().find(|t| t.name == name).map(Unusable::error);
        let absent = || unusable().unwrap_or_else(|| Error::new(Kind::Name, format!("there is no tensor {name:?}")));
        let e = self.find(name).ok_or_else(absent)?;
        if e.dtype != dtype || e.dims != dims {
            let text = format!("{name:?} is {}{:?} in the file, not {dtype}{dims:?}", e.dtype, e.dims);
            return Err(Error::new(Kind::Shape, text));
        }
        Ok(e)
    }
}
