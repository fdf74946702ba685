//! Copies of operand blocks into scratch, with the elements that a tile reads together side by side.
//!
//! Invariant: element (o, i) of the block lands at `dst[o * dst_step + i]`; nothing is padded, because tiles cut their
//! last vector. Only `blocked` and `vector` call this.

use crate::kernels::float::Float;

/// A strided block to copy: `outer` lines of `inner` elements.
#[derive(Clone, Copy)]
pub struct Block<'a, T> {
    /// The elements, from the block's first.
    pub src: &'a [T],
    /// Distance between lines.
    pub outer_step: usize,
    /// Distance between the elements of a line.
    pub inner_step: usize,
    /// Number of lines.
    pub outer: usize,
    /// Elements in a line.
    pub inner: usize,
}

/// Side of the squares that a transposing copy moves: both sides of one stay in L1.
const SIDE: usize = 16;

/// Copies a block into `dst`.
pub fn pack<T: Float>(b: Block<'_, T>, dst: &mut [T], dst_step: usize) {
    if b.inner_step == 1 {
        for (o, line) in dst.chunks_mut(dst_step).take(b.outer).enumerate() {
            line[..b.inner].copy_from_slice(&b.src[o * b.outer_step..][..b.inner]);
        }
    } else if b.outer_step == 1 {
        transpose(b, dst, dst_step);
    } else {
        for (o, line) in dst.chunks_mut(dst_step).take(b.outer).enumerate() {
            let from = b.src[o * b.outer_step..].iter().step_by(b.inner_step.max(1));
            if b.inner_step == 0 {
                line[..b.inner].fill(b.src[o * b.outer_step]);
            } else {
                line[..b.inner].iter_mut().zip(from).for_each(|(d, s)| *d = *s);
            }
        }
    }
}

fn transpose<T: Float>(b: Block<'_, T>, dst: &mut [T], dst_step: usize) {
    for o in (0..b.outer).step_by(SIDE) {
        let lines = SIDE.min(b.outer - o);
        for i in 0..b.inner {
            let from = &b.src[i * b.inner_step + o..][..lines];
            for (d, s) in dst[o * dst_step + i..].iter_mut().step_by(dst_step).zip(from) {
                *d = *s;
            }
        }
    }
}
