//! Kernels that combine real and imaginary parts into complex numbers, and split complex numbers into parts. Used by
//! the lowering of `complex`, `real` and `imag`.
//!
//! Invariant: a complex number is two floats in memory, the real part first.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`complex_kernel`] | re, im: `T[len]` | `[T; 2][len]` | [`Parts`] |
//! | [`complex_part_kernel`] | z: `[T; 2][len]` | `T[len]` | [`Parts`] |

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::params::params;
use bytemuck::Pod;

/// Numbers in a unit.
const UNIT: usize = 4096;

params! {
    /// Params of the kernels of this file.
    pub struct Parts {
        /// Number of complex numbers.
        pub len: usize,
        /// The part that is taken: 0 is the real one, 1 the imaginary one.
        pub part: usize,
    }
}

impl Parts {
    /// Numbers in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// Complex numbers of their parts.
///
/// Reads re, im: `T[len]`; writes `[T; 2][len]`, [`Parts::per_unit`]; params [`Parts`].
pub fn complex_kernel<T: Pod>(args: &mut Args<'_>) {
    let from = args.units().start * UNIT;
    let (re, im, out) = (args.read::<T>(0), args.read::<T>(1), args.write::<[T; 2]>(0));
    for ((z, re), im) in out.iter_mut().zip(&re[from..]).zip(&im[from..]) {
        *z = [*re, *im];
    }
}

/// The real or the imaginary part of complex numbers.
///
/// Reads z: `[T; 2][len]`; writes `T[len]`, [`Parts::per_unit`]; params [`Parts`].
pub fn complex_part_kernel<T: Pod>(args: &mut Args<'_>) {
    let (part, from) = (Parts::from_words(args.params()).part, args.units().start * UNIT);
    let (z, out) = (args.read::<[T; 2]>(0), args.write::<T>(0));
    for (x, z) in out.iter_mut().zip(&z[from..]) {
        *x = z[part & 1];
    }
}

by_dtype!(complex_kernel_for = complex_kernel::<floats>);
by_dtype!(complex_part_kernel_for = complex_part_kernel::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    #[test]
    fn parts_are_joined_and_taken_apart() {
        for len in [1, 2, 4095, 4096, 4097, 9000] {
            let re: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let im: Vec<f32> = re.iter().map(|x| 0.5 - x).collect();
            let p = Parts { len, part: 0 };
            let out = [Out::of::<[f32; 2]>(len, p.per_unit())];
            let z: Vec<[f32; 2]> = written_elements(
                &run_in_ranges(complex_kernel::<f32>, &p.to_words(), &[In::of(&re), In::of(&im)], &out, p.units()),
                0,
            );
            assert!(z.iter().enumerate().all(|(i, z)| *z == [re[i], im[i]]));
            for (part, want) in [&re, &im].into_iter().enumerate() {
                let p = Parts { len, part };
                let out = [Out::of::<f32>(len, p.per_unit())];
                let kernel = complex_part_kernel::<f32>;
                assert_eq!(
                    written_elements::<f32>(&run_in_ranges(kernel, &p.to_words(), &[In::of(&z)], &out, p.units()), 0),
                    *want
                );
            }
        }
    }
}
