//! Scales of quantised numbers: a scale that is not a positive normal number ends the step.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`positive_scale_kernel`] | s: `T[len]` | the same, in place of s or not | [`PositiveScale`] |
//!
//! Invariant: the fault is that of the first scale that is 0 or less, subnormal, infinite, or NaN. The reciprocal of a
//! scale that passes is finite. Used by the lowering of `positive_scale`.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::fault::Cause;
use crate::float::Float;
use crate::params::params;

/// A scale of quantised numbers that is no normal number above 0.
pub static BAD_SCALE: Cause =
    Cause { name: "scale", text: |bad, f| write!(f, "scale {} is no normal number above 0", bad.element) };

/// Elements in one unit.
const UNIT: usize = 4096;

params! {
    /// Params of [`positive_scale_kernel`].
    pub struct PositiveScale {
        /// Number of scales.
        pub len: usize,
    }
}

impl PositiveScale {
    /// Elements in each unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// Copies scales. One that is no normal number above 0 is a fault.
///
/// Reads s: `T[len]`; writes the same, in place of s or not, [`PositiveScale::per_unit`]; params [`PositiveScale`].
pub fn positive_scale_kernel<T: Float>(args: &mut Args<'_>) {
    let from = args.inplace(0).is_none().then(|| args.read::<T>(0));
    let first = args.units().start * UNIT;
    let y = args.write::<T>(0);
    if let Some(s) = from {
        y.copy_from_slice(&s[first..][..y.len()]);
    }
    if let Some(i) = y.iter().position(|s| !(*s >= T::MIN_POSITIVE && *s < T::INFINITY)) {
        args.report(&BAD_SCALE, first + i, None);
    }
}

by_dtype!(positive_scale_kernel_for = positive_scale_kernel::<floats>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{In, Out, run_in_ranges, written_elements};

    fn scales(s: &[f32], over: bool) -> Result<Vec<f32>, usize> {
        let p = PositiveScale { len: s.len() };
        let read = if over { In::of(s).over(0) } else { In::of(s) };
        let writes = [Out::of::<f32>(s.len(), p.per_unit())];
        run_in_ranges(positive_scale_kernel::<f32>, &p.to_words(), &[read], &writes, p.units())
            .map(|all| written_elements(&Ok(all), 0))
    }

    #[test]
    fn scales_above_zero_pass_and_the_first_other_one_is_the_fault() {
        let mut fine: Vec<f32> = (0..9000).map(|i| 1e-12 + i as f32).collect();
        (fine[7], fine[8]) = (f32::MIN_POSITIVE, f32::MAX);
        assert!(fine[7].recip().is_finite());
        for over in [false, true] {
            assert_eq!(scales(&fine, over), Ok(fine.clone()));
            assert_eq!(scales(&[], over), Ok(vec![]));
            for bad in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE.next_down(), 1e-45] {
                let mut all = fine.clone();
                all[8000] = bad;
                all[8500] = bad;
                assert_eq!(scales(&all, over), Err(8000), "{bad}");
            }
        }
    }
}
