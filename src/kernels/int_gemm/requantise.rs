//! Requantises: turns sums of products of codes into codes with another scale, or into numbers.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`requantise`] | sums: `i32[outer, channels, inner]`, then bias: `i32[channels]`, then scales: `f32[channels]` | `i8`, `i32` or `f32`, of the sums' shape | [`Requantise`] |
//!
//! Let s = sum + bias, exactly, and v = s·multiplier·scale in `f64`. An `i32` result is s, wrapped. An `f32` result is
//! v, rounded. An `i8` result is round(v) + zero, clamped, where round is half to even, and 0 for NaN.
//!
//! Invariant: an element depends on its sum and its channel alone.

use crate::abi::{Args, Kernel};
use crate::by_dtype;
use crate::params::params;
use crate::simd;
use arenagrad_arena::dtype::DType;
use bytemuck::Pod;

/// About the number of elements in a unit.
const UNIT: usize = 8192;

params! {
    /// Params of [`requantise`].
    pub struct Requantise {
        /// Groups of channels.
        pub outer: usize,
        /// Channels.
        pub channels: usize,
        /// Elements of a channel.
        pub inner: usize,
        /// Whether there is a bias.
        pub bias: bool,
        /// Whether there are scales.
        pub scales: bool,
        /// What multiplies all sums.
        pub multiplier: f64,
        /// The zero of the result's codes.
        pub zero: i64,
    }
}

impl Requantise {
    /// Rows of a unit. A row is what is contiguous: all channels if they have one element, else one channel.
    fn rows(&self) -> usize {
        (UNIT / self.row().max(1)).max(1)
    }

    fn row(&self) -> usize {
        if self.inner == 1 { self.channels } else { self.inner }
    }

    /// Elements of the result in a unit.
    pub fn per_unit(&self) -> usize {
        self.rows() * self.row()
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.outer * self.channels * self.inner).div_ceil(self.per_unit().max(1))
    }
}

/// A type of results.
pub trait RequantiseTo: Pod {
    /// The result of a sum and its bias, by its multiplier.
    fn requantised(sum: i32, bias: i32, multiplier: f64, zero: i32) -> Self;
}

/// 1.5 · 2⁵²: adding it to a small number leaves the number's nearest integer in the lower bits, half to even.
const ROUND: f64 = 6_755_399_441_055_744.0;

impl RequantiseTo for i8 {
    #[inline(always)]
    fn requantised(sum: i32, bias: i32, multiplier: f64, zero: i32) -> i8 {
        let x = (f64::from(sum) + f64::from(bias)) * multiplier;
        let x = if x.is_nan() { 0.0 } else { x };
        // Far beyond the codes, and far from the limits of the rounding below.
        let x = if x < 1e6 { x } else { 1e6 };
        let x = if x > -1e6 { x } else { -1e6 };
        let code = ((x + ROUND).to_bits() as i32).wrapping_add(zero);
        code.clamp(-128, 127) as i8
    }
}

impl RequantiseTo for i32 {
    #[inline(always)]
    fn requantised(sum: i32, bias: i32, _: f64, _: i32) -> i32 {
        sum.wrapping_add(bias)
    }
}

impl RequantiseTo for f32 {
    #[inline(always)]
    fn requantised(sum: i32, bias: i32, multiplier: f64, _: i32) -> f32 {
        ((f64::from(sum) + f64::from(bias)) * multiplier) as f32
    }
}

simd! {
    /// A row of one channel.
    fn requantise_same[T: RequantiseTo](sums: &[i32], bias: i32, multiplier: f64, zero: i32, to: &mut [T]) {
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = T::requantised(*sum, bias, multiplier, zero);
        }
    }
}

simd! {
    /// A row of all channels, with scales.
    fn requantise_each[T: RequantiseTo](sums: &[i32], bias: &[i32], scales: &[f32], by: f64, zero: i32, to: &mut [T]) {
        for (((to, sum), bias), scale) in to.iter_mut().zip(sums).zip(bias).zip(scales) {
            *to = T::requantised(*sum, *bias, by * f64::from(*scale), zero);
        }
    }
}

simd! {
    /// A row of all channels, with one multiplier.
    fn requantise_biased[T: RequantiseTo](sums: &[i32], bias: &[i32], by: f64, zero: i32, to: &mut [T]) {
        for ((to, sum), bias) in to.iter_mut().zip(sums).zip(bias) {
            *to = T::requantised(*sum, *bias, by, zero);
        }
    }
}

simd! {
    /// A row of all channels, with scales and no bias.
    fn requantise_scaled[T: RequantiseTo](sums: &[i32], scales: &[f32], by: f64, zero: i32, to: &mut [T]) {
        for ((to, sum), scale) in to.iter_mut().zip(sums).zip(scales) {
            *to = T::requantised(*sum, 0, by * f64::from(*scale), zero);
        }
    }
}

/// Sums as codes or numbers.
///
/// Reads the sums, the bias and the scales; writes `T[outer, channels, inner]`, [`Requantise::per_unit`]; params
/// [`Requantise`].
pub fn requantise<T: RequantiseTo>(args: &mut Args<'_>) {
    let p = Requantise::from_words(args.params());
    let sums = args.read::<i32>(0);
    let bias = p.bias.then(|| args.read::<i32>(1));
    let scales = p.scales.then(|| args.read::<f32>(1 + usize::from(p.bias)));
    let (first, row, by, zero) = (args.units().start * p.rows(), p.row(), p.multiplier, p.zero as i32);
    for (i, to) in args.write::<T>(0).chunks_mut(row.max(1)).enumerate() {
        let sums = &sums[(first + i) * row..][..to.len()];
        if p.inner != 1 {
            let c = (first + i) % p.channels;
            let by = scales.map_or(by, |s| by * f64::from(s[c]));
            requantise_same(sums, bias.map_or(0, |b| b[c]), by, zero, to);
            continue;
        }
        match (bias, scales) {
            (None, None) => requantise_same(sums, 0, by, zero, to),
            (Some(bias), None) => requantise_biased(sums, bias, by, zero, to),
            (Some(bias), Some(scales)) => requantise_each(sums, bias, scales, by, zero, to),
            (None, Some(scales)) => requantise_scaled(sums, scales, by, zero, to),
        }
    }
}

/// The instance of [`requantise`] for a type of results.
#[inline(never)]
pub fn output_kernel_for(dtype: DType) -> Result<Kernel, String> {
    match dtype {
        DType::I8 => Ok(requantise::<i8>),
        DType::I32 => Ok(requantise::<i32>),
        DType::F32 => Ok(requantise::<f32>),
        d => by_dtype::missing_kernel_error(d),
    }
}
