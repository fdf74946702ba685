//! Concatenation along an axis. Used by the lowering of `concat`.

use super::UNIT;
use crate::abi::Args;
use crate::by_dtype::by_size;
use bytemuck::Pod;

/// Params of [`concat_kernel`]. Only the widths become words.
#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    /// Product of the axes before the concatenated one.
    pub outer: usize,
    /// For each source, the length of the concatenated axis times the product of the axes after it.
    pub widths: Vec<usize>,
}

impl Concat {
    /// Elements of the output.
    pub fn out_len(&self) -> usize {
        self.outer * self.widths.iter().sum::<usize>()
    }

    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.out_len().div_ceil(UNIT)
    }

    /// The parameter words of the instruction.
    pub fn to_words(&self) -> Vec<u64> {
        self.widths.iter().map(|w| *w as u64).collect()
    }
}

/// Concatenates the sources along an axis.
///
/// Reads x₀ …: `T[outer, nᵢ, inner]`; writes `T[outer, Σ nᵢ, inner]`, [`Concat::per_unit`]; params [`Concat`].
pub fn concat_kernel<T: Pod>(args: &mut Args<'_>) {
    let widths = args.params();
    let lo = args.units().start * UNIT;
    let out = args.write::<T>(0);
    let (hi, row) = (lo + out.len(), widths.iter().sum::<u64>() as usize);
    let mut column = 0;
    for (i, width) in widths.iter().map(|w| *w as usize).enumerate() {
        let x = args.read::<T>(i);
        for r in lo / row.max(1)..hi.div_ceil(row.max(1)) {
            // The part of this source's row that lies in lo..hi.
            let start = r * row + column;
            let (from, to) = (start.max(lo), (start + width).min(hi));
            if from < to {
                out[from - lo..to - lo].copy_from_slice(&x[r * width + from - start..][..to - from]);
            }
        }
        column += width;
    }
}

by_size!(concat_kernel_for = concat_kernel);
