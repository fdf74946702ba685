//! Start values of params and states.
//!
//! A draw is a function of the seed, the leaf's name and the element's index, and of nothing else. So a new layer, or
//! another order of the leaves, does not change the draws of the other leaves.

use crate::arena::philox::philox;
use crate::arena::rng;
use crate::ensure;
use crate::kernels::vmath;
use crate::nodes::DType;
use crate::nodes::ir::leaf::{InitKind, LeafInit};
use crate::nodes::ops::random::var::RNG_STATE;
use crate::sched::order::wait_for_workers;
use rayon::prelude::*;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// True for the state that holds the key of random ops: it starts with the seed.
fn is_start_value_key(name: &str, dtype: DType, dims: &[usize]) -> bool {
    name == RNG_STATE && dtype == DType::U32 && dims == [4]
}

/// An error if start values of leaf `name` are drawn, and no numbers of its dtype can be.
pub fn check_drawn_init((dtype, dims): (DType, &[usize]), init: &LeafInit, name: &str) -> Result<(), String> {
    let float = dtype.is_real_float();
    ensure!(float || !init.is_random() || is_start_value_key(name, dtype, dims), "no random start values of {dtype}");
    Ok(())
}

/// Fills the bytes of leaf `name`, of this dtype and these dims, which [`check_drawn_init`] passed.
pub fn fill_leaf_bytes(bytes: &mut [u8], (dtype, dims): (DType, &[usize]), init: &LeafInit, seed: u64, name: &str) {
    if is_start_value_key(name, dtype, dims) {
        bytes.copy_from_slice(bytemuck::cast_slice(&[seed as u32, (seed >> 32) as u32, 0, 0]));
        return;
    }
    let (stream, start, scale) = (start_value_stream(name), &init.start[..], init.scale);
    let uniform = |i: usize| uniform_start_value(seed, stream, i as u64);
    let normal = |i: usize| {
        let (u, v) = uniform(i);
        // Box–Muller; 1 − u is above 0.
        (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    let number = |i: usize| start.get(i).copied().unwrap_or(0.0);
    match init.kind {
        InitKind::Zeros => bytes.fill(0),
        InitKind::Ones => write_draws(bytes, dtype, &|_| 1.0),
        InitKind::Uniform => write_draws(bytes, dtype, &|i| scale * (2.0 * uniform(i).0 - 1.0)),
        InitKind::Normal => write_draws(bytes, dtype, &|i| scale * normal(i)),
        InitKind::Constant => write_draws(bytes, dtype, &|_| number(0)),
        InitKind::Between => {
            // The products of both ends cannot overflow, as their difference may.
            write_draws(bytes, dtype, &|i| {
                let u = uniform(i).0;
                number(0) * (1.0 - u) + number(1) * u
            });
        }
        InitKind::Around => write_draws(bytes, dtype, &|i| number(0) + scale * normal(i)),
        InitKind::TruncNormal => {
            let cut = TruncatedNormalStart::new(number(0), scale, number(1), number(2));
            write_draws(bytes, dtype, &|i| cut.at(uniform(i).0));
        }
        InitKind::Orthogonal => {
            let q = orthogonal_start(dims, scale, normal);
            write_draws(bytes, dtype, &|i| q.at(i));
        }
        InitKind::Eye => {
            let columns = dims.get(1).copied().unwrap_or(0).max(1);
            write_draws(bytes, dtype, &|i| f64::from(u8::from(i / columns == i % columns)));
        }
        InitKind::Dirac => write_draws(bytes, dtype, &|i| dirac_start(dims, number(0) as usize, i)),
        InitKind::Values => write_draws(bytes, dtype, &number),
    }
}

/// Fills `bytes` with `x`, rounded to the type.
pub fn fill_constant_start_value(bytes: &mut [u8], dtype: DType, x: f64) {
    write_draws(bytes, dtype, &|_| x);
}

/// Leaves above this many elements are drawn by all cores; below it, waking them would take longer.
const PARALLEL: usize = 1 << 20;

/// Elements that a core draws at a time.
const PIECE: usize = PARALLEL / 16;

/// Writes `draw(i)`, rounded to the type, to each element `i`.
fn write_draws(bytes: &mut [u8], dtype: DType, draw: &(dyn Fn(usize) -> f64 + Sync)) {
    let size = dtype.size();
    if bytes.len() <= PARALLEL * size {
        draw_start_value_piece(bytes, dtype, 0, draw);
        return;
    }
    let pieces = bytes.par_chunks_mut(PIECE * size).enumerate();
    pieces.for_each(|(i, piece)| draw_start_value_piece(piece, dtype, i * PIECE, draw));
    wait_for_workers();
}

/// As [`write_draws`], for a piece of the leaf that begins at element `from`.
fn draw_start_value_piece(bytes: &mut [u8], dtype: DType, from: usize, draw: &dyn Fn(usize) -> f64) {
    match dtype {
        DType::F32 => each_start_value(bytes, from, draw, |x| x as f32),
        DType::F64 => each_start_value(bytes, from, draw, |x| x),
        DType::F16 => each_start_value(bytes, from, draw, half::f16::from_f64),
        DType::BF16 => each_start_value(bytes, from, draw, half::bf16::from_f64),
        DType::I8 => each_start_value(bytes, from, draw, |x| x as i8),
        DType::U8 | DType::Bool => each_start_value(bytes, from, draw, |x| x as u8),
        DType::I32 => each_start_value(bytes, from, draw, |x| x as i32),
        DType::U32 => each_start_value(bytes, from, draw, |x| x as u32),
        DType::I16 => each_start_value(bytes, from, draw, |x| x as i16),
        DType::U16 => each_start_value(bytes, from, draw, |x| x as u16),
        DType::U64 => each_start_value(bytes, from, draw, |x| x as u64),
        DType::I64 => each_start_value(bytes, from, draw, |x| x as i64),
        DType::C64 => each_start_value(bytes, from, draw, |x| [x as f32, 0.0]),
        DType::C128 => each_start_value(bytes, from, draw, |x| [x, 0.0]),
        _ => unreachable!("start values of {dtype}"),
    }
}

fn each_start_value<T: bytemuck::Pod>(
    bytes: &mut [u8],
    from: usize,
    draw: &dyn Fn(usize) -> f64,
    round: impl Fn(f64) -> T,
) {
    let items = bytemuck::cast_slice_mut::<u8, T>(bytes);
    items.iter_mut().zip(from..).for_each(|(x, i)| *x = round(draw(i)));
}

/// FNV-1a.
fn start_value_stream(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Two numbers in [0, 1), of 53 and 53 bits.
fn uniform_start_value(seed: u64, stream: u64, i: u64) -> (f64, f64) {
    let counter = [i as u32, (i >> 32) as u32, stream as u32, (stream >> 32) as u32];
    let [a, b, c, d] = philox(counter.map(|word| [word]), [seed as u32, (seed >> 32) as u32]).map(|word| word[0]);
    let unit = |hi: u32, lo: u32| rng::unit(u64::from(hi) << 32 | u64::from(lo));
    (unit(a, b), unit(c, d))
}

/// A normal distribution without its tails, by the inverse of its distribution function.
pub struct TruncatedNormalStart {
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

impl TruncatedNormalStart {
    pub fn new(mean: f64, deviation: f64, low: f64, high: f64) -> TruncatedNormalStart {
        let unit = |x: f64| (x - mean) / deviation * FRAC_1_SQRT_2;
        let (a, b) = (unit(low), unit(high));
        let (side, from, to) = if a > 0.0 {
            (TruncatedSide::Above, vmath::erfc(b), vmath::erfc(a))
        } else if b < 0.0 {
            (TruncatedSide::Below, vmath::erfc(-a), vmath::erfc(-b))
        } else {
            (TruncatedSide::Around, vmath::erf(a), vmath::erf(b))
        };
        TruncatedNormalStart { mean, deviation, low, high, from, to, side }
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
const PARALLEL_VECTORS: usize = 1 << 16;

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
            match others.len() > PARALLEL_VECTORS {
                true => others.par_chunks_exact_mut(length).for_each(project),
                false => others.chunks_exact_mut(length).for_each(project),
            }
            rest = others;
        }
    }
    OrthogonalStart { vectors, length, columns: columns.max(1), gain }
}

#[cfg(test)]
mod tests;
