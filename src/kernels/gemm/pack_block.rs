//! Packing: copies of operand blocks in which the elements that a tile reads together are adjacent.
//!
//! Invariant: element (o, i) of the block goes to `dst[o * dst_step + i]`. Nothing is padded, because tiles mask their
//! last vector.

use super::gemm_float::GemmFloat;
use crate::simd::Token;

/// A strided block to copy: `outer` lines of `inner` elements.
#[derive(Clone, Copy)]
pub struct Block<'a, T> {
    /// The elements, from the block's first.
    pub src: &'a [T],
    /// Stride between lines.
    pub outer_step: usize,
    /// Stride between the elements of a line.
    pub inner_step: usize,
    /// Number of lines.
    pub outer: usize,
    /// Elements in a line.
    pub inner: usize,
}

/// Copies a block into `dst`.
pub fn pack_block<T: GemmFloat>(token: Token, b: Block<'_, T>, dst: &mut [T], dst_step: usize) {
    if b.inner_step == 1 {
        match b.inner {
            // A copy of constant length is a few moves, any other one a call.
            16 => copy_lines(b, dst, dst_step, 16),
            8 => copy_lines(b, dst, dst_step, 8),
            _ => copy_lines(b, dst, dst_step, b.inner),
        }
    } else if b.outer_step == 1 {
        T::transpose(token, b.src, b.inner_step, dst, dst_step, b.outer, b.inner);
    } else {
        for (o, line) in dst.chunks_mut(dst_step).take(b.outer).enumerate() {
            let from = &b.src[o * b.outer_step..];
            assert!(
                b.inner.saturating_sub(1).saturating_mul(b.inner_step) < from.len(),
                "a line ends outside its slice"
            );
            let from = from.iter().step_by(b.inner_step.max(1));
            if b.inner_step == 0 {
                line[..b.inner].fill(b.src[o * b.outer_step]);
            } else {
                line[..b.inner].iter_mut().zip(from).for_each(|(d, s)| *d = *s);
            }
        }
    }
}

/// Copies lines of `inner` adjacent elements.
#[inline(always)]
fn copy_lines<T: GemmFloat>(b: Block<'_, T>, dst: &mut [T], dst_step: usize, inner: usize) {
    for (o, line) in dst.chunks_mut(dst_step).take(b.outer).enumerate() {
        line[..inner].copy_from_slice(&b.src[o * b.outer_step..][..inner]);
    }
}
