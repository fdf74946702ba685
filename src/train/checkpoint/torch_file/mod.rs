//! Files of `torch.save`: their tensors by name, without running what the pickle in them names.
//!
//! A file is a zip of [`records`]: one is a [`pickle`] of dictionaries and lists, whose leaves are tensors; the others
//! are the bytes that tensors refer to. A tensor's name is the keys that lead to it, with dots between them.
//!
//! Invariants: every element of a tensor lies in its record; no name occurs twice; what is neither a tensor nor plain
//! data is an error, which names it and its keys. Each record has the CRC-32 of the archive, unless all of them are 0,
//! as `torch.serialization.set_crc32_options(False)` leaves them.

mod pickle;
mod records;
mod tensors;

use super::digest::Digest;
use super::header::{HEADER_LIMIT, bad_checkpoint};
use super::skipped_tensors::Unusable;
use super::stored::Stored;
use crate::error::{Error, Result};
use hashbrown::{HashMap, HashSet};
use pickle::{Id, Pickle, Value};
use records::Record;
use std::fs::File;
use std::path::Path;

/// Most keys and indices in a name.
const MAX_DEPTH: usize = 64;
/// Most bytes of a name.
const MAX_NAME: usize = 1024;
/// Bytes of names and tensors that a byte of the pickle may lead to.
const MEMORY_PER_BYTE: usize = 16;
/// Bytes that any pickle may lead to.
const LEAST_MEMORY: usize = 1 << 20;
/// The first bytes of a file of records.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// What a file holds.
pub(super) struct Contents {
    pub digest: Digest,
    pub tensors: Vec<Stored>,
    pub unusable: Vec<Unusable>,
}

/// Reads which tensors are in the file `path` of `len` bytes, the one with the number `number` of the weights. What
/// stands under other keys than those of `prefix` is not visited.
pub(super) fn read(file: &mut File, len: u64, path: &Path, number: usize, prefix: &str) -> Result<Contents> {
    let records = records::list(file, len)?;
    let checked = records.values().any(|r| r.crc != 0);
    let bytes_of = |file: &mut File, name: &str, limit| match records.get(name) {
        Some(record) => record.read(file, name, limit, checked).map(Some),
        None => Ok(None),
    };
    let order = bytes_of(file, "byteorder", 16)?;
    if order.as_deref().is_some_and(|order| order != b"little") {
        return Err(bad_checkpoint("record \"byteorder\": only files of little-endian machines can be read"));
    }
    let version = bytes_of(file, "version", 16)?.unwrap_or_default();
    let version = str::from_utf8(&version).ok().and_then(|text| text.trim().parse::<u32>().ok());
    if !version.is_some_and(|n| (1..=10).contains(&n)) {
        return Err(bad_checkpoint("record \"version\": versions 1 to 10 of the format can be read"));
    }
    let pickle = bytes_of(file, "data.pkl", HEADER_LIMIT)?.unwrap_or_default();
    let pickle = Pickle::parse(pickle)?;
    let found = Contents { digest: Digest::Absent, tensors: Vec::new(), unusable: Vec::new() };
    let memory = MEMORY_PER_BYTE * pickle.len() + LEAST_MEMORY;
    let mut walk =
        Walk { pickle: &pickle, records: &records, path, number, prefix, memory, names: HashSet::new(), found };
    walk.visit(pickle.root, &mut String::new(), 0)?;
    let mut found = walk.found;
    if checked {
        let mut names: Vec<_> = records.iter().collect();
        names.sort_unstable_by_key(|(_, record)| record.at);
        names.into_iter().try_for_each(|(name, record)| record.check(file, name))?;
        found.digest = Digest::Fits;
    }
    Ok(found)
}

/// A walk over the values of a pickle.
struct Walk<'p> {
    pickle: &'p Pickle,
    records: &'p HashMap<String, Record>,
    path: &'p Path,
    number: usize,
    prefix: &'p str,
    /// Bytes that names and tensors may still take. A value that others share is visited once for each of its names.
    memory: usize,
    names: HashSet<String>,
    found: Contents,
}

impl Walk<'_> {
    /// Whether a name may be, or lead to, one with the prefix.
    fn concerns(&self, name: &str) -> bool {
        let (short, long) = if name.len() < self.prefix.len() { (name, self.prefix) } else { (self.prefix, name) };
        short.is_empty() || long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn visit(&mut self, id: Id, name: &mut String, depth: usize) -> Result<()> {
        if !self.concerns(name) {
            return Ok(());
        }
        let at = |e: Error| e.context(format!("{name:?}"));
        if depth > MAX_DEPTH || name.len() > MAX_NAME {
            let short: String = name.chars().take(80).collect();
            return Err(bad_checkpoint(format!(
                "{short:?} …: more than {MAX_DEPTH} keys or {MAX_NAME} bytes in a name"
            )));
        }
        self.takes(1)?;
        let pickle = self.pickle;
        match pickle.get(id) {
            Value::Dict(items) => items.iter().try_for_each(|&(key, item)| match pickle.get(key) {
                Value::Int(key) => self.visit_part(&key.to_string(), item, name, depth),
                _ => match pickle.text_of(key) {
                    Some(key) => self.visit_part(key, item, name, depth),
                    None => self.visit_nameless(item, name, depth),
                },
            }),
            Value::List(items) | Value::Tuple(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(i, &item)| self.visit_part(&i.to_string(), item, name, depth))
            }
            Value::Call(function, args) => match (pickle.global(*function), pickle.tuple(*args)) {
                (Some(("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state")), Some([data, ..])) => {
                    self.visit(*data, name, depth + 1)
                }
                // A tensor with attributes, or of a class of its own, is what such a call makes of it.
                (Some(("torch._tensor", "_rebuild_from_type_v2")), Some([made, kind, parts, ..])) => {
                    match (pickle.global(*made), pickle.global(*kind), pickle.tuple(*parts)) {
                        (Some(("torch._utils", "_rebuild_tensor_v2")), Some(("torch", "Tensor")), Some(parts)) => {
                            self.tensor(parts, false, name).map_err(at)
                        }
                        (_, Some(kind), _) => Err(foreign(kind, name)),
                        _ => Err(at(bad_checkpoint("a call of what is no name"))),
                    }
                }
                (Some(("torch._utils", "_rebuild_tensor_v2")), Some(args)) => {
                    self.tensor(args, false, name).map_err(at)
                }
                (Some(("torch._utils", "_rebuild_tensor_v3")), Some(args)) => self.tensor(args, true, name).map_err(at),
                (Some(("torch", "Size" | "device") | ("_codecs", "encode")), _) => Ok(()),
                (Some(("builtins" | "__builtin__", "set" | "frozenset")), Some(items)) => {
                    items.iter().try_for_each(|&items| self.visit(items, name, depth + 1))
                }
                (Some(function), _) => Err(foreign(function, name)),
                (None, _) => Err(at(bad_checkpoint("a call of what is no name"))),
            },
            // A type of elements, as a value.
            Value::Global(..) => match pickle.global(id) {
                Some(("torch", kind)) if tensors::is_type(kind) => Ok(()),
                Some(global) => Err(foreign(global, name)),
                None => Err(at(bad_checkpoint("a name that is not UTF-8"))),
            },
            Value::Persistent(_) => Err(at(bad_checkpoint("bytes without a tensor"))),
            Value::Plain | Value::Bool(_) | Value::Int(_) | Value::Text(_) => Ok(()),
        }
    }

    /// Counts `bytes` of what is found. It is in proportion to the pickle, unless values are shared many times.
    fn takes(&mut self, bytes: usize) -> Result<()> {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.ok_or_else(|| bad_checkpoint("the same values under too many names"))?;
        Ok(())
    }

    /// Visits what stands under `key` in the value called `name`.
    fn visit_part(&mut self, key: &str, item: Id, name: &mut String, depth: usize) -> Result<()> {
        let len = name.len();
        if depth > 0 {
            name.push('.');
        }
        name.push_str(key);
        self.visit(item, name, depth + 1)?;
        name.truncate(len);
        Ok(())
    }

    /// Visits what stands under a key that is neither a text nor an integer, so that a tensor there has no name.
    fn visit_nameless(&mut self, item: Id, name: &mut String, depth: usize) -> Result<()> {
        let before = self.names.len();
        self.visit_part("?", item, name, depth)?;
        match self.names.len() == before {
            true => Ok(()),
            false => Err(bad_checkpoint(format!("{name:?} has a tensor under a key that is no text and no integer"))),
        }
    }

    /// Adds the tensor of these arguments.
    fn tensor(&mut self, args: &[Id], has_type: bool, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(bad_checkpoint("one tensor without a name: torch.save({\"name\": tensor}, path) gives it one"));
        }
        if !self.names.insert(name.to_string()) {
            return Err(bad_checkpoint("the name occurs twice"));
        }
        let tensor = tensors::of_args(self.pickle, args, has_type)?;
        // The name stands in a set and in the tensor, which has a dimension and a stride for each axis.
        self.takes(size_of::<Stored>() + 2 * name.len() + 16 * tensor.dims.len())?;
        let record = self.records.get(&format!("data/{}", tensor.key));
        let record = record.ok_or_else(|| bad_checkpoint(format!("there is no record {}", tensor.record())))?;
        let held = tensor.place(record.bytes)?;
        let (name, dims) = (name.to_string(), tensor.dims);
        match held {
            Ok(held) => {
                let (dtype, bytes, at) = (held.dtype, held.bytes, record.at + held.first);
                let (file, strides) = (self.number, held.strides);
                self.found.tensors.push(Stored { name, dtype, dims, bytes, file, at, strides });
            }
            Err(why) => {
                let (kind, bytes, path) =
                    (tensor.kind.escape_debug().to_string(), record.bytes, self.path.to_path_buf());
                self.found.unusable.push(Unusable { name, kind, dims, bytes, why, path });
            }
        }
        Ok(())
    }
}

/// The error of a value that is made by something else than torch's functions for tensors.
fn foreign((module, function): (&str, &str), name: &str) -> Error {
    let what: String = format!("{module}.{function}").chars().take(80).collect();
    let text = match name {
        "" => format!(
            "the file holds a {what:?}, and no tensors by name: torch.save(module.state_dict(), path) writes them"
        ),
        _ => format!("{name:?} is a {what:?}, which is not read; a prefix chooses another part of the file"),
    };
    bad_checkpoint(text)
}
