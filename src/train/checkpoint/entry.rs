//! Entries of files: named tensors, borrowed.

use super::header::bad_checkpoint;
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::DType;
use crate::session::{Binding, Program};

/// A named tensor, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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

/// The params and states of `program` that are `wanted`, as entries of a file. [`Binding::is_weight`] picks those of a
/// file of weights.
pub fn entries(program: &Program, wanted: impl Fn(&Binding) -> bool) -> Vec<Entry<'_>> {
    let kept = program.persistent().filter(|(b, _)| wanted(b));
    kept.map(|(b, bytes)| Entry { name: &b.name, dtype: b.dtype, dims: &b.dims, bytes }).collect()
}

/// An error if a param or state of `program` that is `wanted` has no value yet: its bytes are zeros, not weights.
pub fn check_values(program: &Program, wanted: impl Fn(&Binding) -> bool) -> Result<()> {
    let empty: Vec<&str> = program.without_values().filter(|b| wanted(b)).map(|b| b.name.as_str()).collect();
    match empty.len() {
        0 => Ok(()),
        _ => {
            let text = format!("without values, neither initialised nor loaded: {}", names::list_names(empty));
            Err(Error::new(Kind::Data, text))
        }
    }
}

impl<'a> Entry<'a> {
    /// A tensor. `bytes` are its elements.
    pub fn new(name: &'a str, dtype: DType, dims: &'a [usize], bytes: &'a [u8]) -> Entry<'a> {
        Entry { name, dtype, dims, bytes }
    }

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

/// Returns the entry, or an error if an element is no value of its type: a bool other than 0 and 1.
pub(super) fn check_bool_elements<'a>(e: Entry<'a>) -> Result<Entry<'a>> {
    match e.dtype.misfit(e.bytes) {
        Some(at) => {
            let text = format!("element {at} of {:?} is {}; a bool is 0 or 1", e.name, e.bytes[at]);
            Err(bad_checkpoint(text))
        }
        None => Ok(e),
    }
}
