//! Products of a few rows of x with a matrix of blocks, in `f32`, without decoding the matrix.
//!
//! Within a group, Σ (scale·code − min)·x = scale·Σ code·x − min·Σ x. The sums of x are the same for all rows of the
//! matrix and are made once. A row of the matrix is first written as codes, scales and mins.
//!
//! Invariant: an element of the result depends on one row of x and one row of the matrix. The order of its sum is
//! fixed. Lane `i` adds element `i` of each group, in ascending order of the groups, with one sum for even groups and
//! one for odd groups. Then the two sums of each lane are added, and the upper half of the lanes is added to the lower
//! half until one is left. All instruction sets give the same bits.

use super::block_codec::{BlockCodec, GROUP};
use super::block_type::{BlockType, with_block_codec};
use crate::scratch::scratch;
use crate::simd;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Rows ahead of the current one that are fetched from memory meanwhile.
pub const AHEAD: usize = 8;

/// The lanes of a sum.
pub type Lanes = [f32; GROUP];

/// A row of a matrix of blocks, as codes.
pub struct CodeDotsRow<'a> {
    /// The codes, one for each element.
    pub codes: &'a mut [i8],
    /// The scale of each group.
    pub scales: &'a mut [f32],
    /// The min of each group.
    pub mins: &'a mut [f32],
}

scratch! {
    /// The scratch of a row of `k` elements.
    struct CodeDotsScratch(k: usize) {
        /// Four codes in a number.
        codes: k.div_ceil(4),
        scales: k / GROUP,
        mins: k / GROUP,
        ..rest
    }
}

impl<'a> CodeDotsRow<'a> {
    /// `f32`s of scratch for a row of `k` elements.
    pub fn scratch(k: usize) -> usize {
        CodeDotsScratch::len(k)
    }

    /// A row of `k` elements in scratch, and the rest of the scratch.
    pub fn of(k: usize, scratch: &'a mut [f32]) -> (CodeDotsRow<'a>, &'a mut [f32]) {
        let CodeDotsScratch { codes, scales, mins, rest } = CodeDotsScratch::cut(k, scratch);
        (CodeDotsRow { codes: &mut bytemuck::cast_slice_mut(codes)[..k], scales, mins }, rest)
    }

    /// Reads a row of blocks.
    pub fn fill(&mut self, block_type: BlockType, row: &[u8]) {
        with_block_codec!(block_type, codec => unpack_code_dots_row(codec, row, self.codes, self.scales, self.mins));
    }
}

simd! {
    /// Writes codes, scales and mins of a row of blocks. Meanwhile the row after the next is fetched from memory.
    fn unpack_code_dots_row[C: BlockCodec](
        codec: C, row: &[u8], codes: &mut [i8], scales: &mut [f32], mins: &mut [f32],
    ) {
        let groups = C::ELEMENTS / GROUP;
        let next = row.as_ptr().addr() + 2 * row.len();
        (0..row.len()).step_by(LINE).for_each(|line| simd::prefetch_l2(next + line));
        let blocks = row.chunks_exact(C::BYTES).zip(codes.chunks_exact_mut(C::ELEMENTS));
        let numbers = scales.chunks_exact_mut(groups).zip(mins.chunks_exact_mut(groups));
        for ((block, codes), (scales, mins)) in blocks.zip(numbers) {
            codec.unpack(block, codes, scales, mins);
        }
    }
}

simd! {
    /// The sum of each group of x.
    pub fn code_group_sums(x: &[f32], sums: &mut [f32]) {
        for (x, sum) in x.as_chunks::<GROUP>().0.iter().zip(sums) {
            *sum = sum_of_code_lanes(*x);
        }
    }
}

simd! {
    /// The lanes of Σ scale·Σ code·x over the groups of a row.
    fn code_dot(row: &CodeDotsRow<'_>, x: &[f32], lanes: &mut Lanes) {
        // Two sums, so that the next addition need not wait for the last one. Blocks have an even number of groups.
        let (mut even, mut odd) = ([0.0; GROUP], [0.0; GROUP]);
        let pairs = row.codes.as_chunks::<{ 2 * GROUP }>().0.iter().zip(x.as_chunks::<{ 2 * GROUP }>().0);
        for ((codes, x), scales) in pairs.zip(row.scales.as_chunks::<2>().0) {
            for l in 0..GROUP {
                even[l] = (f32::from(codes[l]) * x[l]).mul_add(scales[0], even[l]);
            }
            for l in 0..GROUP {
                odd[l] = (f32::from(codes[GROUP + l]) * x[GROUP + l]).mul_add(scales[1], odd[l]);
            }
        }
        for l in 0..GROUP {
            lanes[l] = even[l] + odd[l];
        }
    }
}

simd! {
    /// Subtracts Σ min·sum from lanes.
    pub fn subtract_code_mins(mins: &[f32], sums: &[f32], lanes: &mut Lanes) {
        let (whole, rest) = mins.as_chunks::<GROUP>();
        let (sums, last) = sums.as_chunks::<GROUP>();
        let mut total = *lanes;
        for (mins, sums) in whole.iter().zip(sums) {
            for l in 0..GROUP {
                total[l] = (-mins[l]).mul_add(sums[l], total[l]);
            }
        }
        for ((min, sum), total) in rest.iter().zip(last).zip(&mut total) {
            *total = (-min).mul_add(*sum, *total);
        }
        *lanes = total;
    }
}

/// The sum of the lanes: the upper half is added to the lower half until one is left.
#[inline(always)]
pub fn sum_of_code_lanes<const N: usize>(mut lanes: [f32; N]) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The product of a row of codes with x, whose groups have these sums.
pub fn code_row_dot(row: &CodeDotsRow<'_>, x: &[f32], sums: &[f32]) -> f32 {
    let mut lanes = [0.0; GROUP];
    code_dot(row, x, &mut lanes);
    subtract_code_mins(row.mins, sums, &mut lanes);
    sum_of_code_lanes(lanes)
}
