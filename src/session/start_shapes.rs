//! Start values that are more than independent draws: truncated normal, orthogonal matrices, identity convolutions.

use crate::kernels::vmath;
use rayon::prelude::*;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// A normal distribution without its tails, by the inverse of its distribution function.
pub struct TruncatedNormal {
    mean: f64,
    deviation: f64,
    low: f64,
    high: f64,
    /// The interval of the function that is inverted: erf, or erfc on one side of the mean, where it keeps its digits.
    from: f64,
    to: f64,
    side: TruncatedSide,
}

/// Where the interval lies.
#[derive(Clone, Copy, PartialEq)]
enum TruncatedSide {
    Above,
    Below,
    Around,
}

impl TruncatedNormal {
    pub fn new(mean: f64, deviation: f64, low: f64, high: f64) -> TruncatedNormal {
        let unit = |x: f64| (x - mean) / deviation * FRAC_1_SQRT_2;
        let (a, b) = (unit(low), unit(high));
        let (side, from, to) = if a > 0.0 {
            (TruncatedSide::Above, vmath::erfc(b), vmath::erfc(a))
        } else if b < 0.0 {
            (TruncatedSide::Below, vmath::erfc(-a), vmath::erfc(-b))
        } else {
            (TruncatedSide::Around, vmath::erf(a), vmath::erf(b))
        };
        TruncatedNormal { mean, deviation, low, high, from, to, side }
    }

    /// The number below which a share `u`, from 0 to 1, of the distribution lies (above which, on the side above).
    pub fn at(&self, u: f64) -> f64 {
        // Half a step of the draws away from 0, and as far from 1, so that no tail is infinite.
        let p = self.from + (self.to - self.from) * (u * (1.0 - 0.5f64.powi(53)) + 0.5f64.powi(54));
        let z = match self.side {
            TruncatedSide::Above => vmath::erfcinv(p),
            TruncatedSide::Below => -vmath::erfcinv(p),
            TruncatedSide::Around => vmath::erfinv(p),
        };
        (self.mean + self.deviation * SQRT_2 * z).clamp(self.low, self.high)
    }
}

/// Element `i` of a convolution's weight of these dims that copies its inputs, in `groups` groups.
pub fn dirac_start(dims: &[usize], groups: usize, i: usize) -> f64 {
    let mut rest = i;
    let mut at = [0; 8];
    for (k, &d) in dims.iter().enumerate().rev() {
        at[k] = rest % d.max(1);
        rest /= d.max(1);
    }
    let outputs = dims[0] / groups.max(1);
    let middle = dims.iter().zip(at).skip(2).all(|(&d, k)| k == d / 2);
    f64::from(u8::from(middle && at[0] % outputs.max(1) == at[1]))
}

/// A matrix of orthonormal rows, or columns if it is higher than wide, times a number.
pub struct OrthogonalStart {
    /// The orthonormal vectors, one after another.
    vectors: Vec<f64>,
    length: usize,
    columns: usize,
    gain: f64,
}

impl OrthogonalStart {
    /// Element `i` of the matrix, row by row.
    pub fn at(&self, i: usize) -> f64 {
        let (row, column) = (i / self.columns, i % self.columns);
        let at = if self.length == self.columns { row * self.length + column } else { column * self.length + row };
        self.gain * self.vectors[at]
    }
}

/// Vectors of at least this many elements in all are made orthogonal by all cores.
const PARALLEL: usize = 1 << 16;

/// The matrix of a weight of these dims, of `draws`. The vectors are made orthogonal to each other twice (modified
/// Gram–Schmidt), after which they are so to rounding. The bits do not depend on the number of threads.
pub fn orthogonal_start(dims: &[usize], gain: f64, draws: impl Fn(usize) -> f64) -> OrthogonalStart {
    let rows = dims.first().copied().unwrap_or(0);
    let columns: usize = dims.iter().skip(1).product();
    let length = rows.max(columns).max(1);
    // A square matrix has orthonormal rows, and so also columns.
    let mut vectors: Vec<f64> = (0..rows * columns).map(draws).collect();
    for _ in 0..2 {
        let mut rest = &mut vectors[..];
        while !rest.is_empty() {
            let (first, others) = rest.split_at_mut(length);
            let norm = first.iter().map(|x| x * x).sum::<f64>().sqrt();
            if norm > 0.0 {
                first.iter_mut().for_each(|x| *x /= norm);
            }
            let project = |v: &mut [f64]| {
                let dot: f64 = v.iter().zip(&*first).map(|(a, b)| a * b).sum();
                v.iter_mut().zip(&*first).for_each(|(a, b)| *a -= dot * b);
            };
            match others.len() > PARALLEL {
                true => others.par_chunks_exact_mut(length).for_each(project),
                false => others.chunks_exact_mut(length).for_each(project),
            }
            rest = others;
        }
    }
    OrthogonalStart { vectors, length, columns: columns.max(1), gain }
}
