//! Fourier transforms by definition: one sum for each result. A fast transform of N elements has an error of at most
//! c·u·log₂N·‖y‖₂. Source: Higham, "Accuracy and Stability of Numerical Algorithms", section 24.1.

use super::array::{Array, count_elements};
use super::oracle_node::{OracleNode, OracleOps};
use super::rounding::{LongSum, Rounding};
use crate::nodes::ops::fft::attrs::{FftAttrs, IrfftAttrs, RfftAttrs};
use crate::nodes::{Attrs, DType, Op};
use std::f64::consts::TAU;

/// The constant c, which covers lengths that are transformed through longer ones.
const GROWTH: f64 = 24.0;

/// Fourier transforms.
pub(super) const OPS: OracleOps = OracleOps {
    names: &["fft", "rfft", "irfft"],
    run: |node| {
        let (x, to) = (node.args[0], &node.dims[0]);
        let n = if node.op == Op::RFFT { x.dims.last() } else { to.last() }.copied().unwrap_or(1);
        let work = (n as u64).saturating_mul((x.len() + count_elements(to)) as u64);
        let y = |node: &OracleNode<'_>| {
            oracle_fourier_transform(node.op, &node.attrs, node.args[0], n, node.dtypes[0], &node.dims[0])
        };
        node.spend(work).map(|()| vec![y(node)])
    },
};

/// The transform `op` of the rows of `x`, of length `n`.
fn oracle_fourier_transform(op: Op, attrs: &Attrs<'_>, x: &Array, n: usize, dtype: DType, to: &[usize]) -> Array {
    let (sign, scale) = match op {
        Op::FFT => {
            let FftAttrs { inverse, scale } = FftAttrs::of(attrs);
            (if inverse { 1.0 } else { -1.0 }, scale)
        }
        Op::RFFT => (-1.0, RfftAttrs::of(attrs).scale),
        _ => (1.0, IrfftAttrs::of(attrs).scale),
    };
    let (from, width) = (x.dims.last().copied().unwrap_or(1), to.last().copied().unwrap_or(1));
    let all = (0..count_elements(to) / width.max(1)).flat_map(|r| {
        let row: Vec<([f64; 2], f64)> =
            (r * from..(r + 1) * from).map(|i| (fourier_element(x, i), x.bounds()[i])).collect();
        let row = if op == Op::IRFFT { whole_fourier_spectrum(&row, n) } else { row };
        let bound = fourier_row_bound(&row, dtype, scale);
        let r = Rounding::of(dtype.part());
        (0..width).map(move |k| {
            let y = fourier_sum_at(&row, k, sign).map(|x| x * scale);
            let bound = y.iter().map(|&y| r.settled(y, bound).1).fold(0.0, f64::max);
            (y, bound)
        })
    });
    match dtype.is_complex() {
        true => Array::pairs(dtype, to, all),
        false => Array::reals(dtype, to, all.map(|(y, bound)| (y[0], bound))),
    }
}

fn fourier_element(x: &Array, i: usize) -> [f64; 2] {
    x.pair(i).unwrap_or([x.number(i), 0.0])
}

/// The whole spectrum of real numbers, of which `half` is the first half. Parts that no real row has are left out.
fn whole_fourier_spectrum(half: &[([f64; 2], f64)], n: usize) -> Vec<([f64; 2], f64)> {
    let one = |k: usize| {
        let alone = k == 0 || 2 * k == n;
        let (z, bound) = half[k.min(n - k)];
        match (alone, 2 * k > n) {
            (true, _) => ([z[0], 0.0], bound),
            (_, true) => ([z[0], -z[1]], bound),
            _ => (z, bound),
        }
    };
    (0..n).map(one).collect()
}

fn fourier_sum_at(row: &[([f64; 2], f64)], k: usize, sign: f64) -> [f64; 2] {
    let n = row.len();
    // Plain additions of equal terms all round one way, by more than a fast transform may.
    let mut y = [LongSum::default(); 2];
    for (i, (z, _)) in row.iter().enumerate() {
        let (s, c) = (sign * TAU * ((i * k) % n) as f64 / n as f64).sin_cos();
        y[0].add(z[0] * c - z[1] * s);
        y[1].add(z[0] * s + z[1] * c);
    }
    y.map(fourier_total)
}

/// A sum with what its additions round away; infinite or NaN as that of plain additions.
fn fourier_total(sum: LongSum) -> f64 {
    if sum.lost.is_finite() { sum.rounded + sum.lost } else { sum.rounded }
}

/// How far each part of each result may be off: the growth of rounding, and the bounds of the operand.
fn fourier_row_bound(row: &[([f64; 2], f64)], dtype: DType, scale: f64) -> f64 {
    let r = Rounding::of(dtype.part());
    let n = row.len() as f64;
    let sizes = row.iter().map(|(z, _)| z[0].hypot(z[1]));
    let (norm, total) = (sizes.clone().map(|x| x * x).sum::<f64>().sqrt(), sizes.sum::<f64>());
    let bounds: f64 = row.iter().map(|x| x.1).sum();
    // Longer transforms sum more terms than the row has.
    if !total.is_finite() || !scale.is_finite() || 4.0 * (total + bounds) * n > r.most {
        return f64::INFINITY;
    }
    let own = GROWTH * (r.unit + f64::EPSILON) * (n.log2() + 2.0) * n.sqrt() * norm;
    scale.abs() * (own + 2.0 * bounds + n * r.least) + r.least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sum_of_equal_elements_is_their_product() {
        let x = 0.481_344_176_177_808_84;
        assert_eq!(fourier_sum_at(&vec![([x, 0.0], 0.0); 7000], 0, -1.0), [x * 7000.0, 0.0]);
        let far = [f64::INFINITY, 3.0].map(|x| ([x, 0.0], 0.0));
        assert_eq!(fourier_sum_at(&far, 0, -1.0)[0], f64::INFINITY);
    }
}
