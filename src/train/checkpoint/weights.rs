//! Weights on disk: a safetensors file or one of `torch.save`, the shards that a `model.safetensors.index.json` lists,
//! or a folder with one of these.
//!
//! Opening reads the headers, and the data only where a file holds a digest, in pieces. A tensor's bytes are read when
//! they are asked for, from their place in the file into the place where they are wanted; those that are not row-major
//! in the file, through memory for the whole tensor. Invariants: every tensor lies in its file as a whole; no name
//! occurs twice; a shard is a file in the index's folder. Errors name file and tensor.

use super::digest::{self, Digest};
use super::entry::{Entry, check_bool_elements};
use super::header::{self, bad_checkpoint, declared_length, unique_members};
use super::skipped_tensors::Unusable;
use super::stored::Stored;
use super::{folder, strided, torch_file};
use crate::error::{Error, Kind, Result};
use crate::names::{list_names, nearest_name};
use crate::session::Elem;
use crate::train::file_kinds::{FIRST_BYTES, open_regular, other_format};
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The suffix of files that list shards.
const INDEX: &str = ".index.json";
/// Largest list of shards, in bytes.
const INDEX_LIMIT: u64 = 64 << 20;

/// Weights on disk, opened: one file, or several shards. A tensor's bytes are read when they are asked for.
pub struct Weights {
    /// The lock holds the position from seek to read.
    files: Vec<(PathBuf, Mutex<File>)>,
    digest: Digest,
    /// `safetensors` or `torch`; of shards, that of the last one.
    format: &'static str,
    notes: Vec<String>,
    /// The row-major bytes of the tensor that is being read in pieces.
    gathered: Mutex<Option<(Stored, Vec<u8>)>>,
    /// Sorted by name.
    tensors: Vec<Stored>,
    /// Sorted by name.
    unusable: Vec<Unusable>,
}

impl Weights {
    /// Opens the file `path`: a safetensors file, or what `torch.save` wrote of a state dict or of a checkpoint that
    /// holds some. If its name ends with `.index.json`, opens the shards that it lists. Of a folder, opens the first of
    /// `model.safetensors`, `model.safetensors.index.json`, `pytorch_model.bin` and `pytorch_model.bin.index.json`.
    ///
    /// In a file of `torch.save`, the keys that lead to a tensor are its name, with dots between them:
    /// `{"model": {"fc.weight": w}, "epoch": 3}` has the tensor `model.fc.weight`. Numbers and texts are left out.
    /// Nothing that its pickle names is run.
    ///
    /// Errors, which name the file: it cannot be read, or is a pipe or a device; it is of another format (a Git LFS
    /// pointer, a page of HTML, a TorchScript archive or a file of torch before 1.6 is named as such), is truncated or
    /// too long, or its header has more than 100 MB; its digest does not fit; a name occurs twice; a shard is missing,
    /// lacks a tensor that it should hold, or is named by more than a file name; in a file of `torch.save` stands an
    /// object that is neither a tensor nor plain data, which is named with its keys. A tensor that cannot be used is
    /// listed by [`Weights::unusable`].
    pub fn open(path: impl AsRef<Path>) -> Result<Weights> {
        Weights::open_part(path, "")
    }

    /// As [`Weights::open`], but only the tensors whose names begin with `prefix` and a dot, under the rest of their
    /// names: `model` for the state dict of `{"model": state_dict, "args": …}`. In a file of `torch.save`, unless it is
    /// one of several shards, an object under another key is no error. It is an error if no tensor has the prefix.
    pub fn open_part(path: impl AsRef<Path>, prefix: &str) -> Result<Weights> {
        let path = path.as_ref();
        let (digest, gathered) = (Digest::Absent, Mutex::default());
        let (files, notes, tensors, unusable) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut w = Weights { files, digest, format: "", notes, gathered, tensors, unusable };
        let chosen = match path.is_dir() {
            true => folder::choose(path)?,
            false => (path.to_path_buf(), None),
        };
        w.notes.extend(chosen.1);
        let file = chosen.0;
        match file.file_name().is_some_and(|n| n.to_string_lossy().ends_with(INDEX)) {
            true => w.add_shards(&file)?,
            false => w.digest = w.add_file(&file, prefix)?,
        }
        if !prefix.is_empty() {
            w.keep_part(prefix).map_err(|e| e.context(file.display()))?;
        }
        // A list gives a name one shard, and what a shard holds besides is unusable: names are unique.
        w.tensors.sort_by(|a, b| a.name.cmp(&b.name));
        w.unusable.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(w)
    }

    /// Leaves out all tensors but those with the prefix, which loses it.
    fn keep_part(&mut self, prefix: &str) -> Result<()> {
        let mut begins = Vec::new();
        let mut keep = |name: &mut String| match name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) {
            Some(rest) => {
                *name = rest.to_string();
                true
            }
            None => {
                begins.push(name.split('.').next().unwrap_or_default().to_string());
                false
            }
        };
        self.tensors.retain_mut(|t| keep(&mut t.name));
        self.unusable.retain_mut(|t| keep(&mut t.name));
        begins.sort_unstable();
        begins.dedup();
        match self.tensors.is_empty() && self.unusable.is_empty() {
            true => {
                let names = list_names(begins.iter().map(String::as_str));
                let text = format!("no name of a tensor begins with \"{prefix}.\"; they begin with {names}");
                Err(Error::new(Kind::Name, text))
            }
            false => Ok(()),
        }
    }

    /// What the files are: `safetensors` or `torch`.
    pub fn format(&self) -> &'static str {
        self.format
    }

    /// What was chosen while opening, a sentence each: which of several files of a folder is read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the file holds a digest; [`Digest::Absent`] for shards. The digest of a file of `torch.save` is the
    /// CRC-32 of each of its records.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Tensors of types that are not known here, and tensors of shards that the list does not name, sorted by name.
    /// Using one is an error; the others can be used.
    pub fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// All other tensors, sorted by name.
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
        if self.find(&t.name) != Some(t) {
            return Err(bad_checkpoint(format!("tensor {:?} is one of another file", t.name)));
        }
        if from.checked_add(into.len()).is_none_or(|end| end > t.bytes) {
            let text = format!("{} bytes from byte {from} of {:?}, which has {}", into.len(), t.name, t.bytes);
            return Err(bad_checkpoint(text));
        }
        self.read_stored(t, from, into)
    }

    /// As [`Weights::read`], for a tensor of this file whose axes may be exchanged.
    pub(super) fn read_stored(&self, t: &Stored, from: usize, into: &mut [u8]) -> Result<()> {
        let Some(strides) = &t.strides else { return self.read_file(t, from as u64, into) };
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match gathered.take() {
            Some((last, bytes)) if last == *t => bytes,
            _ => strided::gather(t, strides, |span| self.read_file(t, 0, span))?,
        };
        let end = from + into.len();
        into.copy_from_slice(&bytes[from..end]);
        *gathered = (end < bytes.len()).then(|| (t.clone(), bytes));
        Ok(())
    }

    /// Reads the bytes of the file from byte `from` behind the first of `t` on.
    fn read_file(&self, t: &Stored, from: u64, into: &mut [u8]) -> Result<()> {
        let Some((path, file)) = self.files.get(t.file) else { return Err(bad_checkpoint("a tensor without a file")) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let read = file.seek(SeekFrom::Start(t.at + from)).and_then(|_| file.read_exact(into));
        read.map_err(|e| {
            let e = match e.kind() {
                ErrorKind::UnexpectedEof => bad_checkpoint("the file has become shorter"),
                _ => Error::from(e),
            };
            e.context(format!("{}: tensor {:?}", path.display(), t.name))
        })
    }

    /// All elements of the tensor called `name`. Errors, which name the file: there is no such tensor; `T` does not
    /// hold its elements; a bool is neither 0 nor 1; the file cannot be read, or there is no memory for it.
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
            if let Some(t) = self.unusable.iter().find(|t| t.name == name) {
                return Err(t.error().context(t.path.display()));
            }
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
        values.try_reserve_exact(n).map_err(|e| at(bad_checkpoint(format!("{name:?}: {e}"))))?;
        values.resize(n, T::zeroed());
        self.read(t, 0, bytemuck::cast_slice_mut(&mut values))?;
        check_bool_elements(Entry { name, dtype: t.dtype, dims: &t.dims, bytes: bytemuck::cast_slice(&values) })
            .map_err(at)?;
        Ok(values)
    }

    /// Adds the tensors of the file `path`, of which only those with the prefix `prefix` are wanted.
    fn add_file(&mut self, path: &Path, prefix: &str) -> Result<Digest> {
        self.file(path, prefix).map_err(|e| e.context(path.display()))
    }

    fn file(&mut self, path: &Path, prefix: &str) -> Result<Digest> {
        let (mut file, len) = open_regular(path)?;
        let mut head = Vec::new();
        Read::by_ref(&mut file).take(FIRST_BYTES).read_to_end(&mut head)?;
        if head.starts_with(torch_file::MAGIC) {
            let found = torch_file::read(&mut file, len, path, self.files.len(), prefix)?;
            self.format = "torch";
            self.tensors.extend(found.tensors);
            self.unusable.extend(found.unusable);
            self.files.push((path.to_path_buf(), Mutex::new(file)));
            return Ok(found.digest);
        }
        self.format = "safetensors";
        let header = declared_length(&head, len)?;
        file.seek(SeekFrom::Start(8))?;
        head.resize(8 + header as usize, 0);
        file.read_exact(&mut head[8..])?;
        let header = header::parse_json(&head[8..], len - head.len() as u64)?;
        let digest = digest::check_in_pieces(&head, &mut file, &header.metadata)?;
        for t in header.tensors {
            let Some(dtype) = t.dtype else {
                self.unusable.push(Unusable::of_no_type(t, path.to_path_buf()));
                continue;
            };
            let (at, bytes) = (head.len() as u64 + t.at.start, (t.at.end - t.at.start) as usize);
            self.tensors.push(Stored {
                name: t.name,
                dtype,
                dims: t.dims,
                bytes,
                file: self.files.len(),
                at,
                strides: None,
            });
        }
        self.files.push((path.to_path_buf(), Mutex::new(file)));
        Ok(digest)
    }

    /// Adds the tensors of all shards that the file `path` lists.
    fn add_shards(&mut self, path: &Path) -> Result<()> {
        let map = read_shard_list(path).map_err(|e| e.context(path.display()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut names: Vec<&str> = map.iter().map(|(_, shard)| shard.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for shard in names {
            let first = (self.tensors.len(), self.unusable.len());
            self.add_file(&folder.join(shard), "").map_err(|e| e.context(path.display()))?;
            let mut listed: Vec<&str> = map.iter().filter(|m| m.1 == shard).map(|m| m.0.as_str()).collect();
            listed.sort_unstable();
            let held = self.tensors[first.0..].iter().map(|t| t.name.as_str());
            let mut held: Vec<&str> = held.chain(self.unusable[first.1..].iter().map(|t| t.name.as_str())).collect();
            held.sort_unstable();
            if let Some(name) = listed.iter().find(|name| held.binary_search(name).is_err()) {
                let text = format!("{}: shard {shard:?} does not hold tensor {name:?}", path.display());
                return Err(bad_checkpoint(text));
            }
            let unlisted = self.tensors.extract_if(first.0.., |t| listed.binary_search(&t.name.as_str()).is_err());
            self.unusable.extend(unlisted.map(|t| Unusable {
                kind: t.dtype.name().into(),
                name: t.name,
                dims: t.dims,
                bytes: t.bytes as u64,
                why: "the list of shards does not name it",
                path: folder.join(shard),
            }));
        }
        Ok(())
    }
}

/// The tensors that the list `path` names, each with its shard.
fn read_shard_list(path: &Path) -> Result<Vec<(String, String)>> {
    let mut text = Vec::new();
    open_regular(path)?.0.take(INDEX_LIMIT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > INDEX_LIMIT {
        return Err(bad_checkpoint(format!("a list of shards of more than {INDEX_LIMIT} bytes")));
    }
    if let Some(other) = other_format(&text) {
        return Err(bad_checkpoint(format!("not a list of shards but {other}")));
    }
    let list = unique_members(&text, "the list of shards")?;
    let map = list.get("weight_map");
    let map = map.ok_or_else(|| bad_checkpoint("no object \"weight_map\": not a list of shards"))?;
    let shard = |(name, shard): (String, &RawValue)| {
        let file = serde_json::from_str::<String>(shard.get()).ok().filter(|s| is_plain_file_name(s));
        let text = || format!("tensor {name:?} is in shard {shard}, which is no plain file name");
        Ok((name.clone(), file.ok_or_else(|| bad_checkpoint(text()))?))
    };
    unique_members(map.get().as_bytes(), "\"weight_map\"")?.into_iter().map(shard).collect()
}

/// True if `name` is the name of a file in the same folder, on any system.
fn is_plain_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    one && !name.contains(['/', '\\', ':', '\0'])
}
