//! An open GGUF file: its metadata, the list of its tensors, and their bytes on demand.

use super::bad_gguf;
use super::bounded_reader::Cursor;
use super::metadata::{Meta, find_alignment};
use super::tensor_type::TensorType;
use crate::error::{Error, Result};
use crate::train::file_kinds::{open_regular, other_format};
use hashbrown::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Most axes of a tensor.
const MAX_AXES: u32 = 4;
/// Fewest bytes of an entry of metadata: two lengths, a type, a value.
const LEAST_ENTRY: u64 = 13;
/// Fewest bytes of an entry of the list of tensors.
const LEAST_TENSOR: u64 = 24;

/// A tensor of an open file.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufTensor {
    /// The name, unique in the file.
    pub name: String,
    /// The type.
    pub kind: TensorType,
    /// The shape, row-major: the last axis is that of adjacent elements. Files store it the other way round.
    pub dims: Vec<usize>,
    /// Size in bytes; for a type that ggml does not have, the bytes up to the next tensor.
    pub bytes: usize,
    /// First byte in the file.
    at: u64,
}

/// What a file says before the data of its tensors.
pub(super) struct Head {
    pub(super) version: u32,
    pub(super) metadata: Vec<(String, Meta)>,
    pub(super) tensors: Vec<GgufTensor>,
}

/// An open GGUF file; see the module's head. Its tensors are in the order of the file.
pub struct Gguf {
    path: PathBuf,
    /// The lock holds the position from seek to read.
    file: Mutex<File>,
    head: Head,
    /// Tensors by name.
    by_name: Vec<u32>,
}

impl Gguf {
    /// Opens a file of version 2 or 3.
    ///
    /// Errors, which name the file and the byte: it cannot be read, or is a pipe or a device; it is no GGUF file (a Git
    /// LFS pointer, a page of HTML, a pickle or a zip archive is named as such), or big-endian; a length, a count or a
    /// shape does not fit the file; a key or a name occurs twice; a type of metadata is not known; the alignment is no
    /// power of two; a tensor is not aligned or not in the file, or overlaps another.
    ///
    /// Tensors of types that have no reader here, and texts that are not UTF-8, are listed. Names and keys have
    /// escapes, such as `\xff`, for bytes that are not UTF-8.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
        let path = path.as_ref();
        Gguf::open_file(path).map_err(|e| e.context(path.display()))
    }

    fn open_file(path: &Path) -> Result<Gguf> {
        let (file, len) = open_regular(path)?;
        let mut from = BufReader::new(&file);
        let first = from.fill_buf()?;
        if let (false, Some(other)) = (first.starts_with(b"GGUF"), other_format(first)) {
            return Err(bad_gguf(format!("byte 0: no GGUF file but {other}")));
        }
        let head = read_head(from, len)?;
        let mut by_name: Vec<u32> = (0..head.tensors.len() as u32).collect();
        by_name.sort_by(|&a, &b| head.tensors[a as usize].name.cmp(&head.tensors[b as usize].name));
        Ok(Gguf { path: path.to_path_buf(), file: Mutex::new(file), head, by_name })
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.head.version
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The metadata, in the order of the file.
    pub fn metadata(&self) -> &[(String, Meta)] {
        &self.head.metadata
    }

    /// The metadata under `key`.
    pub fn meta(&self, key: &str) -> Option<&Meta> {
        self.head.metadata.iter().find(|m| m.0 == key).map(|m| &m.1)
    }

    /// All tensors, in the order of the file.
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.head.tensors
    }

    /// The tensor called `name`.
    pub fn find(&self, name: &str) -> Option<&GgufTensor> {
        let of = |i: u32| &self.head.tensors[i as usize];
        let i = self.by_name.binary_search_by(|&i| of(i).name.as_str().cmp(name)).ok()?;
        Some(of(self.by_name[i]))
    }

    /// Reads the bytes of `t` from byte `from` on, until `into` is full. Errors, which name file and tensor: it is not
    /// one of [`Gguf::tensors`]; it has fewer bytes; its type is not one of ggml; the file cannot be read or has become
    /// shorter.
    pub fn read(&self, t: &GgufTensor, from: usize, into: &mut [u8]) -> Result<()> {
        if self.find(&t.name) != Some(t) {
            return Err(bad_gguf(format!("{}: tensor {:?} is one of another file", self.path.display(), t.name)));
        }
        if t.kind.is_of_unknown_size() {
            let (path, name) = (self.path.display(), t.kind.name());
            return Err(bad_gguf(format!("{path}: tensor {:?} is of {name}, which is not known", t.name)));
        }
        if from.checked_add(into.len()).is_none_or(|end| end > t.bytes) {
            let text = format!("{} bytes from byte {from} of {:?}, which has {}", into.len(), t.name, t.bytes);
            return Err(bad_gguf(text));
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(t.at + from as u64)).and_then(|_| file.read_exact(into));
        read.map_err(|e| {
            let e = match e.kind() {
                ErrorKind::UnexpectedEof => bad_gguf("the file has become shorter"),
                _ => Error::from(e),
            };
            e.context(format!("{}: tensor {:?}", self.path.display(), t.name))
        })
    }

    /// All bytes of `t`. Errors: those of [`Gguf::read`].
    pub fn bytes(&self, t: &GgufTensor) -> Result<Vec<u8>> {
        let mut bytes = vec![0; t.bytes];
        self.read(t, 0, &mut bytes)?;
        Ok(bytes)
    }
}

/// A tensor of the list, before its place is known.
struct Listed {
    name: String,
    kind: TensorType,
    dims: Vec<usize>,
    /// `None` for a type of unknown size.
    bytes: Option<usize>,
    offset: u64,
}

/// Reads the head of a file of `len` bytes.
pub(super) fn read_head(from: impl Read, len: u64) -> Result<Head> {
    let mut c = Cursor::new(from, len);
    if c.left() < 4 || &c.array::<4>()? != b"GGUF" {
        return Err(bad_gguf("byte 0: no GGUF file: it does not begin with \"GGUF\""));
    }
    let version = c.u32()?;
    if !(2..=3).contains(&version) {
        let swapped = if (2..=3).contains(&version.swap_bytes()) { "; the file is big-endian" } else { "" };
        return Err(c.error(format!("version {version}; versions 2 and 3 can be read{swapped}")));
    }
    let (tensors, entries) = (c.u64()?, c.u64()?);
    let entries = c.fits(entries, LEAST_ENTRY, "entries of metadata")?;
    let metadata = read_metadata(&mut c, entries)?;
    let tensors = c.fits(tensors, LEAST_TENSOR, "tensors")?;
    let listed = read_tensor_list(&mut c, tensors)?;
    let alignment = u64::from(find_alignment(&metadata)?);
    let start = c.at().next_multiple_of(alignment);
    let tensors = place_gguf_tensors(listed, start, alignment, len)?;
    Ok(Head { version, metadata, tensors })
}

/// Gives the tensors of a list their places in a file of `len` bytes, whose data begins at `start`.
fn place_gguf_tensors(listed: Vec<Listed>, start: u64, alignment: u64, len: u64) -> Result<Vec<GgufTensor>> {
    let room = len.saturating_sub(start);
    let mut order: Vec<usize> = (0..listed.len()).collect();
    order.sort_by_key(|&i| listed[i].offset);
    let mut sizes: Vec<usize> = listed.iter().map(|t| t.bytes.unwrap_or(0)).collect();
    // From the last to the first: the place where the data behind a tensor begins, and its first tensor.
    let mut next: (u64, Option<usize>) = (room, None);
    for &i in order.iter().rev() {
        let Listed { name, offset, bytes, .. } = &listed[i];
        if !offset.is_multiple_of(alignment) {
            return Err(bad_gguf(format!("tensor {name:?} is at offset {offset}, no multiple of {alignment}")));
        }
        let free = next.0.saturating_sub(*offset);
        let size = bytes.map_or(free, |bytes| bytes as u64);
        if offset.checked_add(size).is_none_or(|end| end > room) {
            let text = format!("tensor {name:?} has {size} bytes at offset {offset}; the file has {room} of data");
            return Err(bad_gguf(text));
        }
        if let (true, Some(other)) = (size > free, next.1) {
            let other = &listed[other].name;
            return Err(bad_gguf(format!(
                "tensor {name:?} has {size} bytes at offset {offset} and overlaps {other:?}"
            )));
        }
        sizes[i] = size as usize;
        if size > 0 {
            next = (*offset, Some(i));
        }
    }
    let placed = listed.into_iter().zip(sizes).map(|(t, bytes)| GgufTensor {
        name: t.name,
        kind: t.kind,
        dims: t.dims,
        bytes,
        at: start + t.offset,
    });
    Ok(placed.collect())
}

fn read_metadata<R: Read>(c: &mut Cursor<R>, entries: usize) -> Result<Vec<(String, Meta)>> {
    let mut all: Vec<(String, Meta)> = Vec::new();
    let mut keys = HashSet::new();
    for _ in 0..entries {
        let key = c.name("bytes of a key")?;
        let id = c.u32()?;
        let value = Meta::read(id, c).map_err(|e| e.context(format!("key {key:?}")))?;
        if !keys.insert(key.clone()) {
            return Err(c.error(format!("key {key:?} occurs twice")));
        }
        all.push((key, value));
    }
    Ok(all)
}

fn read_tensor_list<R: Read>(c: &mut Cursor<R>, count: usize) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    let mut names = HashSet::new();
    for _ in 0..count {
        let name = c.name("bytes of a name")?;
        let t = read_tensor_entry(c, name.clone()).map_err(|e| e.context(format!("tensor {name:?}")))?;
        if !names.insert(name) {
            return Err(c.error(format!("tensor {:?} occurs twice", t.name)));
        }
        all.push(t);
    }
    Ok(all)
}

fn read_tensor_entry<R: Read>(c: &mut Cursor<R>, name: String) -> Result<Listed> {
    let axes = c.u32()?;
    if axes > MAX_AXES {
        return Err(c.error(format!("{axes} axes; at most {MAX_AXES} are possible")));
    }
    let mut dims = Vec::new();
    for _ in 0..axes {
        let d = c.u64()?;
        dims.push(usize::try_from(d).map_err(|_| c.error(format!("an axis of {d} elements")))?);
    }
    dims.reverse();
    let id = c.u32()?;
    let kind = TensorType::from_id(id);
    let text = || c.error(format!("shape {dims:?} of {} is too large, or its rows are no whole blocks", kind.name()));
    let bytes = match kind.is_of_unknown_size() {
        true => None,
        false => Some(kind.bytes_of(&dims).ok_or_else(text)?),
    };
    let offset = c.u64()?;
    Ok(Listed { name, kind, dims, bytes, offset })
}
