//! Which matrix of an operand belongs to a matrix of the result, where batch axes are broadcast.
//!
//! Invariant: the words of a map follow those of the kernel's own params: the number of axes, then for each axis its
//! length and, for each operand, its step in matrices (0 where the operand is broadcast).

use std::ops::Range;

/// A map from matrices of the result to matrices of two operands, read from the words of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct BatchMap<'a> {
    axes: &'a [u64],
}

/// The step of each axis of `own` dimensions, aligned at the end with those of `result`.
fn axis_steps(own: &[usize], result: &[usize]) -> Vec<u64> {
    let (mut steps, mut step) = (vec![0; result.len()], 1u64);
    for (k, &n) in own.iter().enumerate().rev() {
        let at = (result.len() + k).saturating_sub(own.len());
        steps[at] = if n == 1 { 0 } else { step };
        step *= n as u64;
    }
    steps
}

impl<'a> BatchMap<'a> {
    /// The words of the map from the batch axes `result` to those of two operands.
    pub fn to_words(result: &[usize], first: &[usize], second: &[usize]) -> Vec<u64> {
        let (a, b) = (axis_steps(first, result), axis_steps(second, result));
        let axes = result.iter().zip(a).zip(b).flat_map(|((&n, a), b)| [n as u64, a, b]);
        std::iter::once(result.len() as u64).chain(axes).collect()
    }

    /// The map at the start of `words`.
    pub fn from_words(words: &'a [u64]) -> BatchMap<'a> {
        let (rank, axes) = words.split_first().map_or((0, words), |(rank, axes)| (*rank as usize, axes));
        BatchMap { axes: &axes[..3 * rank] }
    }

    /// The positions in both operands of matrix `m` of the result.
    pub fn matrices(&self, mut m: usize) -> (usize, usize) {
        let (mut a, mut b) = (0, 0);
        for axis in self.axes.chunks_exact(3).rev() {
            let n = (axis[0] as usize).max(1);
            a += m % n * axis[1] as usize;
            b += m % n * axis[2] as usize;
            m /= n;
        }
        (a, b)
    }
}

/// The elements of matrix `m`, each of `len` elements.
#[inline(always)]
pub fn matrix_range(m: usize, len: usize) -> Range<usize> {
    m * len..(m + 1) * len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_operand_stays_where_it_is() {
        let words = BatchMap::to_words(&[2, 3], &[3], &[2, 1]);
        let map = BatchMap::from_words(&words);
        let all: Vec<_> = (0..6).map(|m| map.matrices(m)).collect();
        assert_eq!(all, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]);
        assert_eq!(BatchMap::from_words(&BatchMap::to_words(&[], &[], &[])).matrices(0), (0, 0));
    }
}
