//! The loops for CPUs without AVX2: the sums of `tile` and `order`, in plain Rust, with the same bits.
//!
//! Where the target has no fused multiply-add, a library call stands for it: slow, but the bits of a result must not depend
//! on the CPU. Only `tile` calls this.

use super::operands::{Dots, Tile};
use super::order::{self, LANES_BYTES};
use crate::kernels::float::Float;

/// Greatest height of a tile: four rows of two 16-byte vectors leave half of sixteen registers to operands.
pub const ROWS: usize = 4;

/// Columns computed at once: 32 bytes' worth for `f32`, 64 for `f64`.
const COLS: usize = 8;

/// Computes one tile.
pub fn tile<T: Float>(mut t: Tile<'_, T>) {
    let (rows, cols) = (t.c.rows(), t.c.cols());
    for j in (0..cols).step_by(COLS) {
        let w = COLS.min(cols - j);
        let mut acc = [[T::ZERO; COLS]; ROWS];
        if t.add {
            for (i, acc) in acc.iter_mut().take(rows).enumerate() {
                acc[..w].copy_from_slice(&t.c.row(i)[j..][..w]);
            }
        }
        for p in 0..t.k {
            let mut row = [T::ZERO; COLS];
            row[..w].copy_from_slice(&t.b[p * t.b_row + j..][..w]);
            for (i, acc) in acc.iter_mut().enumerate() {
                let x = t.a[i.min(rows - 1) * t.a_row + p * t.a_col];
                for (acc, y) in acc.iter_mut().zip(row) {
                    *acc = x.mul_add(y, *acc);
                }
            }
        }
        for (i, acc) in acc.iter().take(rows).enumerate() {
            let c = &mut t.c.row(i)[j..][..w];
            match t.step {
                Some(step) => c.iter_mut().zip(acc).for_each(|(c, g)| *c = step.apply(*c, *g)),
                None => c.copy_from_slice(&acc[..w]),
            }
        }
    }
}

/// Computes dot products.
pub fn dots<T: Float>(mut d: Dots<'_, T>) {
    for i in 0..d.out.rows() {
        let x = &d.x[i * d.x_step..][..d.k];
        for j in 0..d.out.cols() {
            let mut lanes = [T::ZERO; LANES_BYTES / 4];
            let lanes = &mut lanes[..LANES_BYTES / size_of::<T>()];
            for (x, y) in x.chunks(lanes.len()).zip(d.rows[j * d.step..][..d.k].chunks(lanes.len())) {
                for ((l, x), y) in lanes.iter_mut().zip(x).zip(y) {
                    *l = x.mul_add(*y, *l);
                }
            }
            let sum = match lanes.len() {
                8 => order::fold::<T, 8>(std::array::from_fn(|l| lanes[l])),
                _ => order::fold::<T, 16>(std::array::from_fn(|l| lanes[l])),
            };
            let out = &mut d.out.row(i)[j];
            *out = if d.add { *out + sum } else { sum };
        }
    }
}

/// Side of the squares that a transposing copy moves: both sides of one stay in L1.
const SIDE: usize = 16;

/// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
pub fn transpose<T: Float>(from: &[T], step: usize, to: &mut [T], to_step: usize, outer: usize, inner: usize) {
    for o in (0..outer).step_by(SIDE) {
        let lines = SIDE.min(outer - o);
        for i in 0..inner {
            let line = &from[i * step + o..][..lines];
            for (to, from) in to[o * to_step + i..].iter_mut().step_by(to_step).zip(line) {
                *to = *from;
            }
        }
    }
}
