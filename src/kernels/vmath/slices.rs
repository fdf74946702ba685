//! Slice forms: one loop per function, compiled for each instruction set.
//!
//! Invariant: element `i` of `dst` depends on element `i` of the sources alone. Slices of different lengths are
//! truncated to the shorter.

use super::real_trait::Real;
use super::remainder::{NEAR_IS_SHORT, floor_divide_of, fmod_near, is_near, remainder_of};
use crate::simd;

macro_rules! unary {
    ($($slice:ident $f:ident $what:literal)*) => {$(
        simd! {
            #[doc = concat!("`dst` = ", $what, ", element by element.")]
            pub fn $slice[T: Real](dst: &mut [T], src: &[T]) {
                for (d, s) in dst.iter_mut().zip(src) {
                    *d = super::$f(*s);
                }
            }
        }
    )*};
}

unary! {
    expm1_slice expm1 "eˣ − 1"
    log1p_slice log1p "log(1 + x)"
    sqrt_slice sqrt "√x"
    rsqrt_slice rsqrt "1/√x"
    recip_slice recip "1/x"
    atan_slice atan "atan x"
    tanh_slice tanh "tanh x"
    sigmoid_slice sigmoid "1 / (1 + e⁻ˣ)"
    erf_slice erf "erf x"
    gelu_slice gelu "x·Φ(x)"
    gelu_grad_slice gelu_grad "the derivative of gelu"
    gelu_tanh_slice gelu_tanh "½x(1 + tanh u)"
    gelu_tanh_grad_slice gelu_tanh_grad "the derivative of gelu_tanh"
    silu_slice silu "x·sigmoid(x)"
    silu_grad_slice silu_grad "the derivative of silu"
    softplus_slice softplus "log(1 + eˣ)"
}

/// Elements that are looked at together: they stay in the first-level cache.
const LOOKED_AT: usize = 512;

/// Slice forms in fewer steps for parts of the slice whose arguments all pass a test.
macro_rules! tested {
    ($($slice:ident $elements:ident $f:ident $simple:ident $what:literal |$x:ident: $t:ident| $test:expr;)*) => {$(
        #[doc = concat!("`dst` = ", $what, ", element by element, inside a loop that is compiled for an instruction \
            set.")]
        #[inline(always)]
        pub fn $elements<$t: Real>(dst: &mut [$t], src: &[$t]) {
            for (dst, src) in dst.chunks_mut(LOOKED_AT).zip(src.chunks(LOOKED_AT)) {
                let src = &src[..src.len().min(dst.len())];
                let simple = src.iter().fold(true, |all, &$x| all & $test);
                if simple {
                    dst.iter_mut().zip(src).for_each(|(d, s)| *d = super::$simple(*s));
                } else {
                    dst.iter_mut().zip(src).for_each(|(d, s)| *d = super::$f(*s));
                }
            }
        }

        simd! {
            #[doc = concat!("`dst` = ", $what, ", element by element.")]
            pub fn $slice[T: Real](dst: &mut [T], src: &[T]) {
                $elements(dst, src);
            }
        }
    )*};
}

tested! {
    exp_slice exp_elements exp exp_middle "eˣ" |x: T| x.abs() <= T::EXP_MIDDLE;
    log_slice log_elements log ln_of_normal "log x" |x: T| (x >= T::MIN_POSITIVE) & (x < T::INFINITY);
}

/// Slice forms of functions that compute in `f64`.
macro_rules! widened {
    ($($slice:ident $f:ident $what:literal)*) => {$(
        simd! {
            #[doc = concat!("`dst` = ", $what, ", element by element, computed in `f64`.")]
            pub fn $slice[T: Real](dst: &mut [T], src: &[T]) {
                for (d, s) in dst.iter_mut().zip(src) {
                    *d = T::from_f64(super::$f(s.to_f64()));
                }
            }
        }
    )*};
}

widened! {
    asin_slice asin "arcsin x"
    acos_slice acos "arccos x"
    sinh_slice sinh "sinh x"
    cosh_slice cosh "cosh x"
    asinh_slice asinh "arsinh x"
    acosh_slice acosh "arcosh x"
    atanh_slice atanh "artanh x"
    exp2_slice exp2 "2ˣ"
    log2_slice log2 "log₂ x"
    log10_slice log10 "log₁₀ x"
    erfc_slice erfc "1 − erf x"
    erfinv_slice erfinv "the inverse of erf"
    erfcinv_slice erfcinv "the inverse of erfc"
    lgamma_slice lgamma "log |Γ(x)|"
    digamma_slice digamma "ψ(x)"
}

/// Slice forms of functions of two numbers that compute in `f64`.
macro_rules! widened_pairs {
    ($($slice:ident $f:ident $what:literal)*) => {$(
        simd! {
            #[doc = concat!("`dst` = ", $what, ", element by element, computed in `f64`.")]
            pub fn $slice[T: Real](dst: &mut [T], x: &[T], y: &[T]) {
                for ((d, x), y) in dst.iter_mut().zip(x).zip(y) {
                    *d = T::from_f64(super::$f(x.to_f64(), y.to_f64()));
                }
            }
        }
    )*};
}

widened_pairs! {
    atan2_slice atan2 "the angle of (y, x)"
    hypot_slice hypot "√(x² + y²)"
}

/// Slice forms of what follows from a remainder, which is a loop over bits where the quotient is large.
macro_rules! remainders {
    ($($slice:ident $f:ident $what:literal |$r:ident, $x:ident, $y:ident| $near:expr;)*) => {$(
        simd! {
            #[doc = concat!("`dst` = ", $what, ", element by element, computed in `f64`.")]
            pub fn $slice[T: Real](dst: &mut [T], x: &[T], y: &[T]) {
                let parts = dst.chunks_mut(LOOKED_AT).zip(x.chunks(LOOKED_AT).zip(y.chunks(LOOKED_AT)));
                for (dst, (x, y)) in parts {
                    let near = || x.iter().zip(y).fold(true, |all, (x, y)| all & is_near(x.to_f64(), y.to_f64()));
                    if NEAR_IS_SHORT && near() {
                        for ((d, x), y) in dst.iter_mut().zip(x).zip(y) {
                            let ($x, $y) = (x.to_f64(), y.to_f64());
                            let $r = fmod_near($x, $y);
                            *d = T::from_f64($near);
                        }
                    } else {
                        for ((d, x), y) in dst.iter_mut().zip(x).zip(y) {
                            *d = T::from_f64(super::$f(x.to_f64(), y.to_f64()));
                        }
                    }
                }
            }
        }
    )*};
}

remainders! {
    fmod_slice fmod "x − trunc(x/y)·y" |r, _x, _y| r;
    remainder_slice remainder "x − ⌊x/y⌋·y" |r, _x, y| remainder_of(r, y);
    floor_divide_slice floor_divide "⌊x/y⌋" |r, x, y| floor_divide_of(r, x, y);
}

macro_rules! trig {
    ($($slice:ident $near:ident $far:ident $what:literal)*) => {$(
        #[doc = concat!("`dst` = ", $what, ", element by element.")]
        pub fn $slice<T: Real>(dst: &mut [T], src: &[T]) {
            simd! {
                fn near_trig_slice[T: Real](dst: &mut [T], src: &[T]) -> bool {
                    let mut all = true;
                    for (d, s) in dst.iter_mut().zip(src) {
                        *d = T::$near(*s);
                        all &= T::trig_fits(*s);
                    }
                    all
                }
            }
            if !near_trig_slice(dst, src) {
                for (d, s) in dst.iter_mut().zip(src).filter(|(_, s)| !T::trig_fits(**s)) {
                    *d = T::$far(*s);
                }
            }
        }
    )*};
}

trig! {
    sin_slice sin_fit sin_far "sin x"
    cos_slice cos_fit cos_far "cos x"
    tan_slice tan_fit tan_far "tan x"
}

simd! {
    /// `x` = log x, elementwise, in place.
    pub fn log_in_place_slice[T: Real](x: &mut [T]) {
        for x in x {
            *x = super::log(*x);
        }
    }
}

simd! {
    /// `dst` = x where x > 0, else alpha · expm1(x).
    pub fn elu_slice[T: Real](dst: &mut [T], src: &[T], alpha: T) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = super::elu(*s, alpha);
        }
    }
}

simd! {
    /// `dst` = xʸ, element by element.
    pub fn pow_slice[T: Real](dst: &mut [T], x: &[T], y: &[T]) {
        for ((d, x), y) in dst.iter_mut().zip(x).zip(y) {
            *d = super::pow(*x, *y);
        }
    }
}

simd! {
    /// `dst` = ψ⁽ⁿ⁾(x), element by element, computed in `f64`.
    pub fn polygamma_slice[T: Real](dst: &mut [T], src: &[T], n: usize) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = T::from_f64(super::polygamma(n, s.to_f64()));
        }
    }
}
