//! Start values of params and states.
//!
//! A draw is a function of the seed, the leaf's name and the element's index, and of nothing else. So a new layer, or
//! another order of the leaves, does not change the draws of the other leaves.

use crate::arena::HAS_SYSTEM;
use crate::ensure;
use crate::kernels::random::start_draws;
use crate::kernels::vmath;
use crate::nodes::DType;
use crate::nodes::ir::leaf::{InitKind, LeafInit};
use crate::nodes::ops::random::var::RNG_STATE;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
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

/// Fills the bytes of leaf `name`, of this dtype and these dims, which [`check_drawn_init`] passed, on the threads of
/// `pool`.
pub fn fill_leaf_bytes(
    bytes: &mut [u8],
    (dtype, dims): (DType, &[usize]),
    init: &LeafInit,
    (seed, name): (u64, &str),
    pool: Option<&ThreadPool>,
) {
    if is_start_value_key(name, dtype, dims) {
        bytes.copy_from_slice(bytemuck::cast_slice(&[seed as u32, (seed >> 32) as u32, 0, 0]));
        return;
    }
    let (stream, start, scale) = (start_value_stream(name), &init.start[..], init.scale);
    let uniform = |from: usize, x: &mut [f64]| start_draws::uniform(seed, stream, from as u64, x);
    let normal = |from: usize, x: &mut [f64]| start_draws::normal(seed, stream, from as u64, x);
    let number = |i: usize| start.get(i).copied().unwrap_or(0.0);
    let mut write = |draw: &Draw<'_>| write_draws(bytes, dtype, pool, draw);
    match init.kind {
        InitKind::Zeros => bytes.fill(0),
        InitKind::Ones => write(&|_, x| x.fill(1.0)),
        InitKind::Uniform => write(&|from, x| {
            uniform(from, x);
            x.iter_mut().for_each(|u| *u = scale * (2.0 * *u - 1.0));
        }),
        InitKind::Normal => write(&|from, x| {
            normal(from, x);
            x.iter_mut().for_each(|z| *z *= scale);
        }),
        InitKind::Constant => write(&|_, x| x.fill(number(0))),
        InitKind::Between => write(&|from, x| {
            uniform(from, x);
            // The products of both ends cannot overflow, as their difference may.
            x.iter_mut().for_each(|u| *u = number(0) * (1.0 - *u) + number(1) * *u);
        }),
        InitKind::Around => write(&|from, x| {
            normal(from, x);
            x.iter_mut().for_each(|z| *z = number(0) + scale * *z);
        }),
        InitKind::TruncNormal => {
            let cut = TruncatedNormalStart::new(number(0), scale, number(1), number(2));
            write(&|from, x| {
                uniform(from, x);
                x.iter_mut().for_each(|u| *u = cut.at(*u));
            });
        }
        InitKind::Orthogonal => {
            let mut draws = vec![0.0; dims.iter().product()];
            normal(0, &mut draws);
            let q = orthogonal_start(dims, scale, draws, pool);
            write(&by_element(|i| q.at(i)));
        }
        InitKind::Eye => {
            let columns = dims.get(1).copied().unwrap_or(0).max(1);
            write(&by_element(|i| f64::from(u8::from(i / columns == i % columns))));
        }
        InitKind::Dirac => write(&by_element(|i| dirac_start(dims, number(0) as usize, i))),
        InitKind::Values => write(&by_element(number)),
    }
}

/// Fills `bytes` with `x`, rounded to the type.
pub fn fill_constant_start_value(bytes: &mut [u8], dtype: DType, x: f64) {
    write_draws(bytes, dtype, None, &|_, block| block.fill(x));
}

/// Fills a block with the draws of the elements from an index on.
type Draw<'a> = dyn Fn(usize, &mut [f64]) + Sync + 'a;

/// The draws that `f` gives element by element.
fn by_element(f: impl Fn(usize) -> f64 + Sync) -> impl Fn(usize, &mut [f64]) + Sync {
    move |from, x| x.iter_mut().zip(from..).for_each(|(x, i)| *x = f(i))
}

/// Leaves above this many elements are drawn by all threads; below it, waking them would take longer.
const PARALLEL: usize = 1 << 17;

/// Elements that a thread draws at a time; the float numbers of a block stay in the first-level cache.
const PIECE: usize = PARALLEL / 8;
const BLOCK: usize = 512;

/// The threads that draw start values: `threads` of them, or none if the caller's thread draws alone. If the system
/// gives no threads, the caller's thread draws: the numbers are the same.
pub fn workers(threads: usize) -> Option<ThreadPool> {
    if threads < 2 || !HAS_SYSTEM {
        return None;
    }
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().ok()?;
    // A worker that starts late would allocate during the first steps.
    pool.broadcast(|_| ());
    Some(pool)
}

/// True if a leaf of these dims is drawn by all threads.
pub fn is_large(dims: &[usize]) -> bool {
    dims.iter().product::<usize>() > PARALLEL
}

/// Writes the draws, rounded to the type, to all elements.
fn write_draws(bytes: &mut [u8], dtype: DType, pool: Option<&ThreadPool>, draw: &Draw<'_>) {
    let size = dtype.size();
    match pool.filter(|_| bytes.len() > PARALLEL * size) {
        None => draw_start_value_piece(bytes, dtype, 0, draw),
        Some(pool) => pool.install(|| {
            let pieces = bytes.par_chunks_mut(PIECE * size).enumerate();
            pieces.for_each(|(i, piece)| draw_start_value_piece(piece, dtype, i * PIECE, draw));
        }),
    }
}

/// As [`write_draws`], for a piece of the leaf that begins at element `from`.
fn draw_start_value_piece(bytes: &mut [u8], dtype: DType, from: usize, draw: &Draw<'_>) {
    match dtype {
        DType::F32 => each_block(bytes, from, draw, |x| x as f32),
        DType::F64 => each_block(bytes, from, draw, |x| x),
        DType::F16 => each_block(bytes, from, draw, half::f16::from_f64),
        DType::BF16 => each_block(bytes, from, draw, half::bf16::from_f64),
        DType::I8 => each_block(bytes, from, draw, |x| x as i8),
        DType::U8 | DType::Bool => each_block(bytes, from, draw, |x| x as u8),
        DType::I32 => each_block(bytes, from, draw, |x| x as i32),
        DType::U32 => each_block(bytes, from, draw, |x| x as u32),
        DType::I16 => each_block(bytes, from, draw, |x| x as i16),
        DType::U16 => each_block(bytes, from, draw, |x| x as u16),
        DType::U64 => each_block(bytes, from, draw, |x| x as u64),
        DType::I64 => each_block(bytes, from, draw, |x| x as i64),
        DType::C64 => each_block(bytes, from, draw, |x| [x as f32, 0.0]),
        DType::C128 => each_block(bytes, from, draw, |x| [x, 0.0]),
        _ => unreachable!("start values of {dtype}"),
    }
}

fn each_block<T: bytemuck::Pod>(bytes: &mut [u8], from: usize, draw: &Draw<'_>, round: impl Fn(f64) -> T) {
    let mut numbers = [0.0; BLOCK];
    for (at, items) in bytemuck::cast_slice_mut::<u8, T>(bytes).chunks_mut(BLOCK).enumerate() {
        let numbers = &mut numbers[..items.len()];
        draw(from + at * BLOCK, numbers);
        items.iter_mut().zip(numbers).for_each(|(x, number)| *x = round(*number));
    }
}

/// FNV-1a.
fn start_value_stream(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
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

/// Vectors of at least this many elements in all are made orthogonal by all threads.
const PARALLEL_VECTORS: usize = 1 << 16;

/// The matrix of a weight of these dims, of `vectors`, one draw for each element. The vectors are made orthogonal to
/// each other twice (modified Gram–Schmidt), after which they are so to rounding. The bits do not depend on the number
/// of threads.
pub fn orthogonal_start(
    dims: &[usize],
    gain: f64,
    mut vectors: Vec<f64>,
    pool: Option<&ThreadPool>,
) -> OrthogonalStart {
    let rows = dims.first().copied().unwrap_or(0);
    let columns: usize = dims.iter().skip(1).product();
    let length = rows.max(columns).max(1);
    // A square matrix has orthonormal rows, and so also columns.
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
            match pool.filter(|_| others.len() > PARALLEL_VECTORS) {
                Some(pool) => pool.install(|| others.par_chunks_exact_mut(length).for_each(project)),
                None => others.chunks_exact_mut(length).for_each(project),
            }
            rest = others;
        }
    }
    OrthogonalStart { vectors, length, columns: columns.max(1), gain }
}

#[cfg(test)]
mod tests;
