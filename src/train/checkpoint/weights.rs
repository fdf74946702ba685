//! Weights on disk: one safetensors file, or the shards that a `model.safetensors.index.json` lists.
//!
//! Opening reads the headers, and the data only where a file holds a digest, in pieces. A tensor's bytes are read when
//! they are asked for, from their place in the file into the place where they are wanted. Invariants: every tensor lies
//! in its file as a whole; no name occurs twice; a shard is a file in the index's folder. Errors name file and tensor.

use super::DTYPES;
use super::digest::{self, Digest};
use super::entry::{Entry, checked_entry};
use super::header::{HEADER_LIMIT, bad_checkpoint_header, repeated_header_key};
use crate::error::{Error, Kind, Result};
use crate::names::nearest_name;
use crate::nodes::DType;
use crate::session::Elem;
use safetensors::tensor::Metadata;
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The suffix of files that list shards.
const INDEX: &str = ".index.json";
/// Largest list of shards, in bytes.
const INDEX_LIMIT: u64 = 64 << 20;

/// Weights on disk, opened: a safetensors file, or several shards. A tensor's bytes are read when they are asked for.
pub struct Weights {
    /// The lock holds the position from seek to read.
    files: Vec<(PathBuf, Mutex<File>)>,
    digest: Digest,
    /// Sorted by name.
    tensors: Vec<Stored>,
}

/// A tensor of opened weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The name, unique in the weights.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// The shape.
    pub dims: Vec<usize>,
    /// Size in bytes.
    pub bytes: usize,
    file: usize,
    /// First byte in the file.
    at: u64,
}

impl Weights {
    /// Opens the safetensors file `path`; or the shards that `path` lists, if its name ends with `.index.json`.
    ///
    /// Errors, which name the file: it cannot be read; it is no safetensors file, is truncated or too long; its digest
    /// does not fit; a tensor has a dtype that is not supported; a name occurs twice; a shard is missing, lacks a
    /// tensor that it should hold, holds one that it should not, or is named by more than a file name.
    pub fn open(path: impl AsRef<Path>) -> Result<Weights> {
        let path = path.as_ref();
        let mut w = Weights { files: Vec::new(), digest: Digest::Absent, tensors: Vec::new() };
        match path.file_name().is_some_and(|n| n.to_string_lossy().ends_with(INDEX)) {
            true => w.add_shards(path)?,
            false => w.digest = w.add_file(path)?,
        }
        // A list gives a name one shard, and a shard holds no other names: they are unique.
        w.tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(w)
    }

    /// Whether the file holds a digest; [`Digest::Absent`] for shards.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// All tensors, sorted by name.
    pub fn tensors(&self) -> &[Stored] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn find(&self, name: &str) -> Option<&Stored> {
        let i = self.tensors.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        self.tensors.get(i)
    }

    /// The file that holds `t`.
    pub fn path(&self, t: &Stored) -> &Path {
        self.files.get(t.file).map_or(Path::new(""), |f| &f.0)
    }

    /// Reads the bytes of `t` from byte `from` on, until `into` is full. Errors, which name file and tensor: it is not
    /// one of [`Weights::tensors`]; the file cannot be read or has become shorter.
    pub fn read(&self, t: &Stored, from: usize, into: &mut [u8]) -> Result<()> {
        let Some((path, file)) = self.files.get(t.file).filter(|_| self.find(&t.name) == Some(t)) else {
            return Err(bad_checkpoint_header(format!("tensor {:?} is one of another file", t.name)));
        };
        if from.checked_add(into.len()).is_none_or(|end| end > t.bytes) {
            let text = format!("{} bytes from byte {from} of {:?}, which has {}", into.len(), t.name, t.bytes);
            return Err(bad_checkpoint_header(text));
        }
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(t.at + from as u64)).and_then(|_| file.read_exact(into));
        read.map_err(|e| {
            let e = match e.kind() {
                ErrorKind::UnexpectedEof => bad_checkpoint_header("the file has become shorter"),
                _ => Error::from(e),
            };
            e.context(format!("{}: tensor {:?}", path.display(), t.name))
        })
    }

    /// All elements of the tensor called `name`. Errors, which name the file: there is no such tensor; `T` does not hold
    /// its elements; a bool is neither 0 nor 1; the file cannot be read, or there is no memory for it.
    ///
    /// ```
    /// # use arenagrad::prelude::*;
    /// # use arenagrad::train::{Tensor, Weights, checkpoint};
    /// # fn main() -> Result<()> {
    /// # let path = std::env::temp_dir().join(format!("values-{}.safetensors", std::process::id()));
    /// checkpoint::save(&path, &[Tensor::new("w", DType::F32, &[2], &[0.5f32, 2.0])?.entry()])?;
    /// assert_eq!(Weights::open(&path)?.values::<f32>("w")?, [0.5, 2.0]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn values<T: Elem>(&self, name: &str) -> Result<Vec<T>> {
        let at = |e: Error| self.files.first().map_or(e.clone(), |f| e.context(f.0.display()));
        let Some(t) = self.find(name) else {
            let near = nearest_name(name, self.tensors.iter().map(|t| t.name.as_str()));
            return Err(at(Error::new(Kind::Name, format!("there is no tensor {name:?}{near}"))));
        };
        let at = |e: Error| e.context(self.path(t).display());
        if !T::holds(t.dtype) {
            let text = format!("{name:?} is {}{:?}, not {}", t.dtype, t.dims, T::NAME);
            return Err(at(Error::new(Kind::Shape, text)));
        }
        let mut values = Vec::new();
        let n = t.bytes / t.dtype.size();
        values.try_reserve_exact(n).map_err(|e| at(bad_checkpoint_header(format!("{name:?}: {e}"))))?;
        values.resize(n, T::zeroed());
        self.read(t, 0, bytemuck::cast_slice_mut(&mut values))?;
        checked_entry(Entry { name, dtype: t.dtype, dims: &t.dims, bytes: bytemuck::cast_slice(&values) }).map_err(at)?;
        Ok(values)
    }

    /// Adds the tensors of the file `path`.
    fn add_file(&mut self, path: &Path) -> Result<Digest> {
        self.file(path).map_err(|e| e.context(path.display()))
    }

    fn file(&mut self, path: &Path) -> Result<Digest> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut head = vec![0; 8];
        if len < 8 {
            return Err(bad_checkpoint_header(format!("not a safetensors file: {len} bytes")));
        }
        file.read_exact(&mut head)?;
        let header = u64::from_le_bytes(head.first_chunk().copied().unwrap_or_default());
        if header > HEADER_LIMIT {
            return Err(bad_checkpoint_header(format!(
                "a header of {header} bytes; at most {HEADER_LIMIT} are allowed"
            )));
        }
        if header > len - 8 {
            return Err(bad_checkpoint_header(format!(
                "not a safetensors file: a header of {header} bytes in a file of {len}"
            )));
        }
        head.resize(8 + header as usize, 0);
        file.read_exact(&mut head[8..])?;
        let meta: Metadata = serde_json::from_slice(&head[8..])
            .map_err(|e| bad_checkpoint_header(format!("not a safetensors file: {e}")))?;
        if let Some(name) = repeated_header_key(&head[8..]) {
            return Err(bad_checkpoint_header(format!("the header lists {name:?} twice")));
        }
        let (data, rest) = (meta.data_len() as u64, len - 8 - header);
        if data != rest {
            return Err(bad_checkpoint_header(format!(
                "the header tells of {data} bytes of tensors; the file has {rest}"
            )));
        }
        let digest = digest::check_file_digest(&head, &mut file, meta.metadata().iter().flatten())?;
        for (name, info) in meta.tensors() {
            let dtype = DTYPES.iter().find(|d| d.1 == info.dtype).map(|d| d.0);
            let dtype = dtype
                .ok_or_else(|| bad_checkpoint_header(format!("tensor {name:?} is {}: not supported", info.dtype)))?;
            let (at, end) = info.data_offsets;
            let (dims, at, bytes) = (info.shape.clone(), head.len() as u64 + at as u64, end - at);
            self.tensors.push(Stored { name, dtype, dims, bytes, file: self.files.len(), at });
        }
        self.files.push((path.to_path_buf(), Mutex::new(file)));
        Ok(digest)
    }

    /// Adds the tensors of all shards that the file `path` lists.
    fn add_shards(&mut self, path: &Path) -> Result<()> {
        let map = read_weights_shard_list(path).map_err(|e| e.context(path.display()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut names: Vec<&str> = map.iter().map(|(_, shard)| shard.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for shard in names {
            let first = self.tensors.len();
            self.add_file(&folder.join(shard)).map_err(|e| e.context(path.display()))?;
            let mut listed: Vec<&str> = map.iter().filter(|m| m.1 == shard).map(|m| m.0.as_str()).collect();
            let mut held: Vec<&str> = self.tensors[first..].iter().map(|t| t.name.as_str()).collect();
            listed.sort_unstable();
            held.sort_unstable();
            let lacks = listed.iter().find(|name| held.binary_search(name).is_err());
            let extra = held.iter().find(|name| listed.binary_search(name).is_err());
            let at = |what: &str, name: &str| {
                Err(bad_checkpoint_header(format!("{}: shard {shard:?} {what} tensor {name:?}", path.display())))
            };
            match (lacks, extra) {
                (Some(name), _) => return at("does not hold", name),
                (_, Some(name)) => return at("holds an unlisted", name),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The tensors that the list `path` names, each with its shard.
fn read_weights_shard_list(path: &Path) -> Result<Vec<(String, String)>> {
    let mut text = Vec::new();
    File::open(path)?.take(INDEX_LIMIT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > INDEX_LIMIT {
        return Err(bad_checkpoint_header(format!("a list of shards of more than {INDEX_LIMIT} bytes")));
    }
    let json: Value = serde_json::from_slice(&text).map_err(|e| Error::new(Kind::Syntax, e.to_string()))?;
    let map = json.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| bad_checkpoint_header("no object \"weight_map\": not a list of shards"))?;
    let shard = |(name, shard): (&String, &Value)| match shard.as_str().filter(|s| is_weights_file_name(s)) {
        Some(shard) => Ok((name.clone(), shard.to_string())),
        None => Err(bad_checkpoint_header(format!("tensor {name:?} is in shard {shard}, which is no plain file name"))),
    };
    map.iter().map(shard).collect()
}

/// True if `name` is the name of a file in the same folder, on any system.
fn is_weights_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    one && !name.contains(['/', '\\', ':', '\0'])
}
