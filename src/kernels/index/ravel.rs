//! Row-major indices of coordinates. Used by the lowering of `ravel_index`.
//!
//! Invariant: each coordinate is checked against the size of its axis.

use super::report_out_of_range;
use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::index::Index;
use crate::params::params;

params! {
    /// Params of [`ravel_kernel`]. The sizes of the axes follow as further words.
    pub struct Ravel {
        /// Number of coordinate tuples.
        pub len: usize,
        /// Coordinates of a tuple.
        pub axes: usize,
    }
}

/// Tuples in a unit of [`ravel_kernel`].
const UNIT: usize = 1024;

impl Ravel {
    /// Elements in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// Row-major index of coordinates: `out[i] = (idx[i, 0]·n₁ + idx[i, 1])·n₂ + …`. Each coordinate is checked against its
/// axis.
///
/// Reads idx: `I[len, axes]`; writes `i64[len]`, [`Ravel::per_unit`]; params [`Ravel`], then n₀, n₁ ….
pub fn ravel_kernel<I: Index>(args: &mut Args<'_>) {
    let p = Ravel::from_words(args.params());
    let (idx, sizes) = (args.read::<I>(0), &args.params()[2..2 + p.axes]);
    let first = args.units().start * UNIT;
    let out = args.write::<i64>(0);
    for (i, o) in (first..).zip(out) {
        let mut at = 0;
        for (c, (&x, &n)) in (i * p.axes..).zip(idx[i * p.axes..][..p.axes].iter().zip(sizes)) {
            let Some(x) = x.within(n as usize) else {
                return report_out_of_range(args, idx, c, n as usize);
            };
            at = at * n as i64 + x as i64;
        }
        *o = at;
    }
}

by_dtype!(ravel_kernel_for = ravel_kernel::<I32 i32, I64 i64>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    #[test]
    fn coordinates_become_one_number_each_checked() {
        let sizes = [4u64, 3, 5];
        let places: Vec<[i64; 3]> = (0..3000).map(|i| [i % 4, i / 4 % 3, i / 12 % 5]).collect();
        let mut flat: Vec<i64> = places.iter().flatten().copied().collect();
        let p = Ravel { len: places.len(), axes: 3 };
        let words = [p.to_words(), sizes.to_vec()].concat();
        let call = |idx: &[i64]| {
            run_in_ranges(
                ravel_kernel::<i64>,
                &words,
                &[In::of(idx)],
                &[Out::of::<i64>(p.len, p.per_unit())],
                p.units(),
            )
        };
        let want: Vec<i64> = places.iter().map(|[a, b, c]| (a * 3 + b) * 5 + c).collect();
        assert_eq!(written_elements::<i64>(&call(&flat), 0), want);
        // In range as one number, and not as coordinates.
        flat[3 * 2000 + 1] = 3;
        assert_eq!(call(&flat), Err(3 * 2000 + 1));
        flat[3 * 1500] = -1;
        assert_eq!(call(&flat), Err(3 * 1500));
    }
}
