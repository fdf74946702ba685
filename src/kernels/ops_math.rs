//! The transcendental functions that softmax, norms and random numbers use: one place to change them.
//!
//! Invariant: one result per argument, whatever the instruction set. For the kernels of this room.

use crate::kernels::float::Float;

macro_rules! by_type {
    ($x:ident, $f:ident) => {
        if size_of::<T>() == 4 { T::from_f64(($x.to_f64() as f32).$f() as f64) } else { T::from_f64($x.to_f64().$f()) }
    };
}

/// eˣ.
#[inline(always)]
pub fn exp<T: Float>(x: T) -> T {
    by_type!(x, exp)
}

/// The natural logarithm.
#[inline(always)]
pub fn ln<T: Float>(x: T) -> T {
    by_type!(x, ln)
}

/// The sine.
#[inline(always)]
pub fn sin<T: Float>(x: T) -> T {
    by_type!(x, sin)
}

/// The cosine.
#[inline(always)]
pub fn cos<T: Float>(x: T) -> T {
    by_type!(x, cos)
}
