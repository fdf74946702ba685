//! Options of rounding with a learned scale.

use crate::nodes::arguments::setters::setters;
use crate::nodes::ops::quant::attrs::LsqFactor;

/// Options of [`Var::lsq`](crate::nodes::Var::lsq).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Lsq {
    /// The axis whose positions have a scale each. Without one there is one. The default is none.
    pub axis: Option<i64>,
    /// The lowest and the highest code.
    pub range: (i64, i64),
    /// The factor of the gradient of a scale. The default is [`LsqFactor::One`].
    pub factor: LsqFactor,
}

impl Lsq {
    /// Signed codes of `bits` bits, 2 to 8, for weights: −8 to 7 for 4 bits.
    pub fn bits(bits: u32) -> Lsq {
        let n = if (2..=8).contains(&bits) { 1 << (bits - 1) } else { 0 };
        Lsq::codes(-n, n - 1)
    }

    /// Codes of `bits` bits, 2 to 8, from 0 on, for results of `relu`: 0 to 15 for 4 bits.
    pub fn unsigned_bits(bits: u32) -> Lsq {
        Lsq::codes(0, if (2..=8).contains(&bits) { (1 << bits) - 1 } else { 0 })
    }

    /// Codes `lo` to `hi`.
    pub fn codes(lo: i64, hi: i64) -> Lsq {
        Lsq { axis: None, range: (lo, hi), factor: LsqFactor::One }
    }
}

setters! {
    [] Lsq { axis: impl Into<Option<i64>> => axis.into(), range: (i64, i64), factor: LsqFactor }
}
