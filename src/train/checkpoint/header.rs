//! The header of a file: its length, its tensors, repeated names, and the constructor of errors about checkpoints.
//!
//! Invariants: a length is compared with the file's before memory is taken for it; no key of an object stands twice;
//! the tensors fill the data without gaps, in an order of their own. A tensor of a type that is not known here is
//! listed as the others are.

use super::DTYPES;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::train::file_kinds::other_format;
use safetensors::tensor::Dtype;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest header of a file, in bytes: the limit of the format's own library.
pub const HEADER_LIMIT: u64 = 100_000_000;

/// An error of kind [`Kind::Data`].
pub(super) fn bad_checkpoint(message: impl Into<String>) -> Error {
    Error::new(Kind::Data, message)
}

/// What a header tells.
pub(super) struct Header {
    pub metadata: BTreeMap<String, String>,
    /// In the order of their bytes.
    pub tensors: Vec<HeaderTensor>,
}

/// A tensor of a header.
pub(super) struct HeaderTensor {
    pub name: String,
    /// The name of its type.
    pub kind: String,
    /// Its type, if there is one here.
    pub dtype: Option<DType>,
    pub dims: Vec<usize>,
    /// Its bytes, counted from the end of the header.
    pub at: Range<u64>,
}

/// The length of the header of a file of `len` bytes, which begins with `first`.
pub(super) fn declared_length(first: &[u8], len: u64) -> Result<u64> {
    let refused = |why: String| match other_format(first) {
        Some(other) => bad_checkpoint(format!("not a safetensors file but {other}")),
        None => bad_checkpoint(format!("not a safetensors file: {why}")),
    };
    let header = match first.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => return Err(refused(format!("{len} bytes"))),
    };
    if header > HEADER_LIMIT {
        return Err(refused(format!("a header of {header} bytes; at most {HEADER_LIMIT} are allowed")));
    }
    if header > len.saturating_sub(8) {
        return Err(refused(format!("a header of {header} bytes in a file of {len}")));
    }
    Ok(header)
}

/// Parses the header `json` of a file with `data` bytes of tensors.
pub(super) fn parse_json(json: &[u8], data: u64) -> Result<Header> {
    let mut header = Header { metadata: BTreeMap::new(), tensors: Vec::new() };
    for (name, value) in unique_members(json, "the header").map_err(|e| e.context("not a safetensors file"))? {
        if name == "__metadata__" {
            header.metadata = serde_json::from_str(value.get())
                .map_err(|e| bad_checkpoint(format!("not a safetensors file: \"__metadata__\": {e}")))?;
            continue;
        }
        header.tensors.push(parse_tensor(name, value).map_err(|e| e.context("not a safetensors file"))?);
    }
    header.tensors.sort_by_key(|t| (t.at.start, t.at.end));
    let mut end = 0;
    for t in &header.tensors {
        if t.at.start != end || t.at.end < t.at.start {
            let text = format!("tensor {:?} has the bytes {:?} of the data, but must begin at {end}", t.name, t.at);
            return Err(bad_checkpoint(format!("not a safetensors file: {text}")));
        }
        end = t.at.end;
    }
    if end != data {
        return Err(bad_checkpoint(format!(
            "not a safetensors file: the header tells of {end} bytes of tensors; the file has {data}"
        )));
    }
    Ok(header)
}

fn parse_tensor(name: String, value: &RawValue) -> Result<HeaderTensor> {
    let what = format!("tensor {name:?}");
    let parts = unique_members(value.get().as_bytes(), &what)?;
    let part = |key: &str| match parts.get(key) {
        Some(part) => Ok(part.get()),
        None => Err(bad_checkpoint(format!("{what} has no {key:?}"))),
    };
    let bad = |e: serde_json::Error| bad_checkpoint(format!("{what}: {e}"));
    let kind: String = serde_json::from_str(part("dtype")?).map_err(bad)?;
    let dims: Vec<usize> = serde_json::from_str(part("shape")?).map_err(bad)?;
    let (start, end): (u64, u64) = serde_json::from_str(part("data_offsets")?).map_err(bad)?;
    // A type that the format's library does not know has elements of unknown size.
    let known: Option<Dtype> = serde_json::from_str(part("dtype")?).ok();
    let bits = known.map(|d| dims.iter().try_fold(d.bitsize() as u64, |n, &d| n.checked_mul(d as u64)));
    if bits.is_some_and(|bits| end.checked_sub(start).and_then(|bytes| bytes.checked_mul(8)) != bits) {
        let text = format!("{what} is {kind}{dims:?}, which does not fit its bytes {start}..{end}");
        return Err(bad_checkpoint(text));
    }
    let dtype = DTYPES.iter().find(|d| Some(d.1) == known).map(|d| d.0);
    Ok(HeaderTensor { name, kind, dtype, dims, at: start..end })
}

/// The members of the JSON object `text`, which errors call `what`. A key that stands twice is an error: the parser
/// keeps the last of equal keys and drops the others without notice.
pub(super) fn unique_members<'t>(text: &'t [u8], what: &str) -> Result<BTreeMap<String, &'t RawValue>> {
    let members = serde_json::from_slice(text).map_err(|e| bad_checkpoint(format!("{what}: {e}")))?;
    match repeated_key(text) {
        Some(name) => Err(bad_checkpoint(format!("{what} lists {name:?} twice"))),
        None => Ok(members),
    }
}

/// A key that the valid JSON object `header` repeats, if any. Escapes are resolved before keys are compared: a name
/// may be spelled in several ways.
pub(super) fn repeated_key(header: &[u8]) -> Option<String> {
    let (mut depth, mut at, mut keys) = (0, 0, Vec::new());
    // With its quotes.
    let mut last: Range<usize> = 0..0;
    while let Some(&c) = header.get(at) {
        match c {
            b'"' => {
                let start = at;
                at += 1;
                while header.get(at).is_some_and(|&c| c != b'"') {
                    at += 1 + usize::from(header[at] == b'\\');
                }
                last = start..(at + 1).min(header.len());
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b':' if depth == 1 => keys.push(unescape_key(&header[last.clone()])),
            _ => {}
        }
        at += 1;
    }
    keys.sort_unstable();
    let twice = keys.windows(2).find(|w| w[0] == w[1])?;
    Some(String::from_utf8_lossy(&twice[0]).trim_matches('"').to_string())
}

/// A JSON string without its escapes, in quotes.
fn unescape_key(raw: &[u8]) -> Cow<'_, [u8]> {
    match raw.contains(&b'\\').then(|| serde_json::from_slice::<String>(raw)) {
        Some(Ok(name)) => Cow::Owned(format!("\"{name}\"").into_bytes()),
        _ => Cow::Borrowed(raw),
    }
}
