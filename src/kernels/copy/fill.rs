//! Fills: tensors whose elements are all one number. Used by the lowering of `full`.

use super::{CopyBits, UNIT};
use crate::abi::Args;
use crate::by_dtype::by_size;
use crate::params::params;

params! {
    /// Params of [`fill_kernel`].
    pub struct Fill {
        /// Elements of the output.
        pub len: usize,
        /// The bits of the value.
        pub value: u64,
    }
}

impl Fill {
    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// Fills the output with one value.
///
/// Reads nothing; writes `T[len]`, [`Fill::per_unit`]; params [`Fill`].
pub fn fill_kernel<T: CopyBits>(args: &mut Args<'_>) {
    let value = T::from_word(Fill::from_words(args.params()).value);
    args.write::<T>(0).fill(value);
}

by_size!(fill_kernel_for = fill_kernel);
