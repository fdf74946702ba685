//! The index along an axis. Used by the lowering of `iota`.

use super::UNIT;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::params::params;
use bytemuck::Pod;

/// A number type of [`iota_kernel`].
pub trait Count: Pod + Send + Sync {
    /// `i` as this type.
    fn count(i: usize) -> Self;
}

macro_rules! count {
    ($($t:ident)*) => {$(
        impl Count for $t {
            #[inline(always)]
            fn count(i: usize) -> $t {
                i as $t
            }
        }
    )*};
}

count!(f32 f64 i32 i64 u32);

params! {
    /// Params of [`iota_kernel`]: the view.
    pub struct Iota {
        /// Product of the axes before the indexed one.
        pub outer: usize,
        /// Length of the indexed axis.
        pub n: usize,
        /// Product of the axes after it.
        pub inner: usize,
    }
}

impl Iota {
    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.outer * self.n * self.inner).div_ceil(UNIT)
    }
}

/// The index along the axis.
///
/// Reads nothing; writes `T[outer, n, inner]`, [`Iota::per_unit`]; params [`Iota`].
pub fn iota_kernel<T: Count>(args: &mut Args<'_>) {
    let p = Iota::from_words(args.params());
    let mut at = args.units().start * UNIT;
    let mut rest = args.write::<T>(0);
    while !rest.is_empty() {
        // A run of equal values, or of consecutive ones.
        let (value, within) = (at / p.inner % p.n, at % p.inner);
        let run = if p.inner == 1 { p.n - value } else { p.inner - within };
        let (part, after) = rest.split_at_mut(run.min(rest.len()));
        at += part.len();
        if p.inner == 1 {
            for (i, o) in part.iter_mut().enumerate() {
                *o = T::count(value + i);
            }
        } else {
            part.fill(T::count(value));
        }
        rest = after;
    }
}

by_dtype!(iota_kernel_for = iota_kernel::<F32 f32, F64 f64, I32 i32, I64 i64, U32 u32>);
