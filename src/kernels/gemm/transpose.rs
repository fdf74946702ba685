//! Transposing copies, block by block in registers, generic over the instruction set.
//!
//! Invariant: it only moves elements. Bounds are checked once for each call.

use super::gemm_float::GemmFloat;
use crate::simd::{Simd, SimdOp, Token, Vectors};

/// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`.
pub struct TransposeKernel<'a, S, T> {
    pub s: S,
    pub from: &'a [T],
    pub step: usize,
    pub to: &'a mut [T],
    pub to_step: usize,
    pub outer: usize,
    pub inner: usize,
}

impl<S: Vectors<T>, T: GemmFloat> SimdOp for TransposeKernel<'_, S, T> {
    type Out = ();

    #[inline(always)]
    fn call(self) {
        let TransposeKernel { s, from, step, to, to_step, outer, inner } = self;
        let (whole_o, whole_i) = (outer / S::BLOCK * S::BLOCK, inner / S::LANES * S::LANES);
        if whole_o > 0 && whole_i > 0 {
            let end = |lines: usize, step: usize, len: usize| (lines - 1).checked_mul(step)?.checked_add(len);
            let inside = |end: Option<usize>, len: usize| end.is_some_and(|end| end <= len);
            assert!(
                inside(end(whole_i, step, whole_o), from.len()) && inside(end(whole_o, to_step, whole_i), to.len())
            );
        }
        // Square blocks go along the longer side, other blocks along the lines that are read.
        let by_rows = S::BLOCK == S::LANES && outer < inner;
        let (along, across) = if by_rows { (whole_i, whole_o) } else { (whole_o, whole_i) };
        let (along_step, across_step) = if by_rows { (S::LANES, S::BLOCK) } else { (S::BLOCK, S::LANES) };
        for b in (0..across).step_by(across_step) {
            for a in (0..along).step_by(along_step) {
                let (i, o) = if by_rows { (a, b) } else { (b, a) };
                // SAFETY: `o + BLOCK <= whole_o` and `i + LANES <= whole_i`, which are multiples of those. So lines
                // read are below `whole_i` and their elements below `whole_o`, and the reverse for lines written. The
                // assertion above has checked that those are inside the slices.
                #[allow(unsafe_code)]
                unsafe {
                    let (from, to) = (from.as_ptr().add(i * step + o), to.as_mut_ptr().add(o * to_step + i));
                    s.transpose_block(from, step, to, to_step);
                }
            }
        }
        for o in whole_o..outer {
            (0..whole_i).for_each(|i| to[o * to_step + i] = from[i * step + o]);
        }
        let rest = inner - whole_i;
        if rest >= <S::Half as Vectors<T>>::LANES && <S::Half as Vectors<T>>::LANES < S::LANES {
            let (s, from, to) = (s.half(), &from[whole_i * step..], &mut to[whole_i..]);
            return s.vectorize(TransposeKernel { s, from, step, to, to_step, outer, inner: rest });
        }
        for o in 0..outer {
            (whole_i..inner).for_each(|i| to[o * to_step + i] = from[i * step + o]);
        }
    }
}

/// Copies `to[o * to_step + i] = from[i * step + o]` for `o` below `outer` and `i` below `inner`, in register blocks.
pub(crate) fn transpose<T: GemmFloat>(
    from: &[T],
    step: usize,
    to: &mut [T],
    to_step: usize,
    outer: usize,
    inner: usize,
) {
    T::transpose(Token::current(), from, step, to, to_step, outer, inner);
}
