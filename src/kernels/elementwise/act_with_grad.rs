//! An activation and its derivative in one sweep, with one exponential for both.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`gelu`], [`gelu_tanh`], [`silu`] | x: `T[len]` | y, grad: `T[len]` | [`ActWithGrad`] |
//!
//! Either write may be in place of x.
//!
//! Invariant: y and grad have the bits of the slice forms in [`vmath`]. Used by the lowering of `act_with_grad`.

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::params::params;
use crate::simd;
use crate::vmath;

/// Elements in a unit.
pub const UNIT: usize = 4096;

params! {
    /// Params of the kernels.
    pub struct ActWithGrad {
        /// Number of elements.
        pub len: usize,
    }
}

impl ActWithGrad {
    /// Elements of each output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// A function with its derivative.
trait ActWithGradCurve<T>: Copy {
    /// f(x) and f'(x).
    fn at(self, x: T) -> (T, T);
}

macro_rules! curves {
    ($($curve:ident $both:ident $kernel:ident $what:literal;)*) => {$(
        #[derive(Clone, Copy)]
        struct $curve;

        impl<T: Float> ActWithGradCurve<T> for $curve {
            #[inline(always)]
            fn at(self, x: T) -> (T, T) {
                vmath::$both(x)
            }
        }

        #[doc = concat!($what, " and its derivative.")]
        ///
        /// Reads x: `T[len]`; writes y, grad: `T[len]`, [`ActWithGrad::per_unit`] each, one of them in place of x or
        /// none; params [`ActWithGrad`].
        pub fn $kernel<T: Float>(args: &mut Args<'_>) {
            sweep_curve::<T, $curve>($curve, args);
        }
    )*};
}

curves! {
    Gelu gelu_both gelu "x·Φ(x)";
    GeluTanh gelu_tanh_both gelu_tanh "½x(1 + tanh u)";
    Silu silu_both silu "x·sigmoid(x)";
}

by_dtype!(gelu_for = gelu::<floats>);
by_dtype!(gelu_tanh_for = gelu_tanh::<floats>);
by_dtype!(silu_for = silu::<floats>);

simd! {
    fn sweep_act_with_grad_apart[T: Float, C: ActWithGradCurve<T>](curve: C, x: &[T], y: &mut [T], grad: &mut [T]) {
        for ((y, s), x) in y.iter_mut().zip(grad).zip(x) {
            (*y, *s) = curve.at(*x);
        }
    }
}

simd! {
    /// In place: `y` holds x.
    fn sweep_act_with_grad_over_y[T: Float, C: ActWithGradCurve<T>](curve: C, y: &mut [T], grad: &mut [T]) {
        for (y, s) in y.iter_mut().zip(grad) {
            (*y, *s) = curve.at(*y);
        }
    }
}

simd! {
    /// In place: `grad` holds x.
    fn sweep_act_with_grad_over_grad[T: Float, C: ActWithGradCurve<T>](curve: C, y: &mut [T], grad: &mut [T]) {
        for (y, s) in y.iter_mut().zip(grad) {
            (*y, *s) = curve.at(*s);
        }
    }
}

fn sweep_curve<T: Float, C: ActWithGradCurve<T>>(curve: C, args: &mut Args<'_>) {
    let (lo, place) = (args.units().start * UNIT, args.inplace(0));
    let (y, grad) = (args.write::<T>(0), args.write::<T>(1));
    match place {
        None => sweep_act_with_grad_apart(curve, &args.read::<T>(0)[lo..lo + y.len()], y, grad),
        Some(0) => sweep_act_with_grad_over_y(curve, y, grad),
        Some(_) => sweep_act_with_grad_over_grad(curve, y, grad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Kernel;
    use crate::harness::{In, Out, noise32, run_in_ranges, written_elements};

    type Slices = fn(&mut [f32], &[f32]);

    #[test]
    fn both_are_the_single_forms() {
        let curves: [(Kernel, Slices, Slices); 3] = [
            (gelu::<f32>, vmath::gelu_slice, vmath::gelu_grad_slice),
            (gelu_tanh::<f32>, vmath::gelu_tanh_slice, vmath::gelu_tanh_grad_slice),
            (silu::<f32>, vmath::silu_slice, vmath::silu_grad_slice),
        ];
        for len in [0, 1, 37, UNIT, 2 * UNIT + 5] {
            let p = ActWithGrad { len };
            let x: Vec<f32> = noise32(len, 3).iter().map(|x| x * 4.0).collect();
            let (mut y, mut s) = (vec![0f32; len], vec![0f32; len]);
            for (kernel, value, grad) in curves {
                value(&mut y, &x);
                grad(&mut s, &x);
                for read in [In::of(&x), In::of(&x).over(0), In::of(&x).over(1)] {
                    let writes = [0; 2].map(|_| Out::of::<f32>(len, p.per_unit()));
                    let got = run_in_ranges(kernel, &p.to_words(), &[read], &writes, p.units());
                    assert_eq!(
                        (written_elements::<f32>(&got, 0), written_elements::<f32>(&got, 1)),
                        (y.clone(), s.clone())
                    );
                }
            }
        }
    }
}
