//! Tensors that own their bytes. Invariant: the bytes are those of elements of the dtype, as many as the shape has.

use super::entry::{Entry, check_bool_elements};
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::session::Elem;

/// A named tensor that owns its bytes: what [`merge`](super::merge) makes, and what callers may save.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub(in crate::train) name: String,
    pub(in crate::train) dtype: DType,
    pub(in crate::train) dims: Vec<usize>,
    pub(in crate::train) bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor of elements of `dtype`. Errors: `T` does not hold that dtype; `data` has another number of elements
    /// than `dims`; an element of a bool is neither 0 nor 1.
    pub fn new<T: Elem>(name: &str, dtype: DType, dims: &[usize], data: &[T]) -> Result<Tensor> {
        let numel = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if !T::holds(dtype) || numel != Some(data.len()) {
            let text = format!("tensor {name:?} is {dtype}{dims:?}; it gets {} elements of {}", data.len(), T::NAME);
            return Err(Error::new(Kind::Shape, text));
        }
        let t = Tensor { name: name.into(), dtype, dims: dims.into(), bytes: bytemuck::cast_slice(data).to_vec() };
        check_bool_elements(t.entry())?;
        Ok(t)
    }

    /// The tensor as an entry of a file.
    pub fn entry(&self) -> Entry<'_> {
        Entry { name: &self.name, dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }
}
