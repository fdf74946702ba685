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
mod loaded;
pub mod lora;
pub mod tensor;
pub mod weights;

use super::atomic::write_atomically;
use crate::error::Result;
use crate::nodes::DType;
pub use digest::Digest;
pub use header::HEADER_LIMIT;
use header::bad_checkpoint_header;
pub use load::{Load, LoadReport};
pub use loaded::Loaded;
pub use lora::{merge, peft_name};
use safetensors::tensor::{Dtype, TensorView};
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

impl Entry<'_> {
    /// Whether no element is NaN or infinite.
    pub fn is_finite(&self) -> bool {
        let floats = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().all(|b| f32::from_le_bytes(*b).is_finite());
        let halves =
            |finite: fn(u16) -> bool| self.bytes.as_chunks::<2>().0.iter().all(|b| finite(u16::from_le_bytes(*b)));
        match self.dtype {
            DType::F32 | DType::C64 => floats(self.bytes),
            DType::F64 | DType::C128 => {
                self.bytes.as_chunks::<8>().0.iter().all(|b| f64::from_le_bytes(*b).is_finite())
            }
            DType::F16 => halves(|x| half::f16::from_bits(x).is_finite()),
            DType::BF16 => halves(|x| half::bf16::from_bits(x).is_finite()),
            _ => true,
        }
    }
}

/// The dtypes and their names in files.
const DTYPES: [(DType, Dtype); 14] = [
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U32, Dtype::U32),
    (DType::I16, Dtype::I16),
    (DType::U16, Dtype::U16),
    (DType::U64, Dtype::U64),
    (DType::Bool, Dtype::BOOL),
    (DType::C64, Dtype::C64),
];

/// Returns the entry, or an error if an element is no value of its type: a bool other than 0 and 1.
fn checked_checkpoint_entry<'a>(e: Entry<'a>) -> Result<Entry<'a>> {
    match e.dtype.misfit(e.bytes) {
        Some(at) => {
            let text = format!("element {at} of {:?} is {}; a bool is 0 or 1", e.name, e.bytes[at]);
            Err(bad_checkpoint_header(text))
        }
        None => Ok(e),
    }
}

/// The bytes of a safetensors file with these entries and a [`digest`]. Fails with
/// [`Kind::Data`](crate::error::Kind::Data) if a name occurs twice or a bool is neither 0 nor 1.
pub fn encode(entries: &[Entry<'_>]) -> Result<Vec<u8>> {
    let mut names: Vec<&str> = entries.iter().map(|e| e.name).collect();
    names.sort_unstable();
    if let Some(w) = names.windows(2).find(|w| w[0] == w[1]) {
        return Err(bad_checkpoint_header(format!("two tensors are called {:?}", w[0])));
    }
    let views = entries.iter().map(|e| {
        let e = checked_checkpoint_entry(*e)?;
        let dtype = DTYPES.iter().find(|d| d.0 == e.dtype).map(|d| d.1);
        let dtype = dtype.ok_or_else(|| {
            bad_checkpoint_header(format!("{:?}: safetensors files have no type for {}", e.name, e.dtype))
        })?;
        let view = TensorView::new(dtype, e.dims.to_vec(), e.bytes);
        Ok((e.name, view.map_err(|err| bad_checkpoint_header(format!("{:?}: {err}", e.name)))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    // One key only: a map of several keys has no fixed order, and equal tensors must give equal bytes.
    let meta = [("format".to_string(), "pt".to_string())].into();
    let mut file = safetensors::serialize(views, Some(meta)).map_err(|e| bad_checkpoint_header(e.to_string()))?;
    digest::seal(&mut file)?;
    Ok(file)
}

/// Writes the entries to `path`, as a whole or not at all.
pub fn save(path: &Path, entries: &[Entry<'_>]) -> Result<()> {
    write_atomically(path, &encode(entries)?)
}

#[cfg(test)]
mod tests;
