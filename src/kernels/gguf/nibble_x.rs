//! Rows of x as integers, for products with codes of four bits.
//!
//! The largest of the 32 numbers that share a scale is below a power of two, 2^e. Each number is rounded to a multiple
//! of 2^(e − 29), so it is an integer of 30 bits. This rounds less than a sum of 32 products in `f32` does. The integer
//! is 2¹⁵·high + low: products of integers of 16 bits are exact and fast. They are written in the order in which the
//! codes come out of their bytes: see [`XPart`].

use crate::scratch::scratch;
use crate::simd;

/// Elements that share a scale: a block of Q4_0, an eighth of a block of Q4_K.
pub const PART: usize = 32;
/// Elements that are multiplied at a time: two parts.
pub const STEP: usize = 2 * PART;
/// Lanes of the words of a part.
pub const LANES: usize = PART / 4;
/// Sizes of the largest number of a part that integers hold: beyond, scales would leave the range of `f32`.
const SIZES: std::ops::Range<f32> = 1e-28..1e28;

/// Thirty-two elements of x as pairs of integers, the first of a pair in the lower bits. Lane `l` of the first words
/// has the elements `4l` and `4l + 2`, that of the second ones `4l + 1` and `4l + 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct XPart {
    /// The upper halves.
    pub high: [[u32; LANES]; 2],
    /// The lower halves.
    pub low: [[u32; LANES]; 2],
}

/// Two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct XStep {
    /// The even part and the odd part.
    pub parts: [XPart; 2],
}

/// A row of x as integers.
pub struct NibbleX<'a> {
    /// The integers.
    pub steps: &'a mut [XStep],
    /// The number that 2¹⁵ stands for, for each part.
    pub scales: &'a mut [f32],
}

scratch! {
    /// The scratch of a row of `k` elements.
    struct NibbleXScratch(k: usize) {
        steps: k,
        scales: k / PART,
        ..rest
    }
}

impl<'a> NibbleX<'a> {
    /// `f32`s of scratch for a row of `k` elements, a multiple of [`STEP`].
    pub fn scratch(k: usize) -> usize {
        NibbleXScratch::len(k)
    }

    /// A row of `k` elements in scratch, and the rest of the scratch.
    pub fn of(k: usize, scratch: &'a mut [f32]) -> (NibbleX<'a>, &'a mut [f32]) {
        let NibbleXScratch { steps, scales, rest } = NibbleXScratch::cut(k, scratch);
        (NibbleX { steps: bytemuck::cast_slice_mut(steps), scales }, rest)
    }

    /// Writes a row of x. Returns whether integers can hold it: they cannot hold numbers that are not finite, or parts
    /// of very large or very small ones.
    pub fn fill(&mut self, x: &[f32]) -> bool {
        let mut held = true;
        for (x, scale) in x.as_chunks::<PART>().0.iter().zip(&mut *self.scales) {
            let largest = largest_number(x);
            held &= largest == 0.0 || SIZES.contains(&largest);
            // The power of two above the largest number is twice that of its exponent.
            let above = 2.0 * f32::from_bits(largest.max(SIZES.start).to_bits() >> 23 << 23);
            *scale = above / (1 << 14) as f32;
        }
        if held {
            write_nibble_x_parts(x, self.scales, bytemuck::cast_slice_mut(self.steps));
        }
        held
    }
}

/// The largest size of a number; NaN if there is one.
#[inline(always)]
fn largest_number(x: &[f32; PART]) -> f32 {
    // Sizes have the order of their bits, in which NaN is above all numbers.
    f32::from_bits(x.iter().fold(0, |largest, x| largest.max(x.abs().to_bits())))
}

simd! {
    /// Writes x as integers. `scales` are those of its parts.
    fn write_nibble_x_parts(x: &[f32], scales: &[f32], parts: &mut [XPart]) {
        for ((x, scale), part) in x.as_chunks::<PART>().0.iter().zip(scales).zip(parts) {
            let by = (1 << 15) as f32 / scale;
            let mut integers = [0; PART];
            for e in 0..PART {
                // At most 2²⁹ in size.
                integers[e] = (x[e] * by).round_ties_even() as i32;
            }
            let upper = |integer: i32| (integer + (1 << 14)) >> 15;
            let lower = |integer: i32| integer - (upper(integer) << 15);
            let pair = |a: i32, b: i32| a as u16 as u32 | (b as u32) << 16;
            for place in 0..2 {
                for l in 0..LANES {
                    let (a, b) = (integers[4 * l + place], integers[4 * l + place + 2]);
                    part.high[place][l] = pair(upper(a), upper(b));
                    part.low[place][l] = pair(lower(a), lower(b));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::noise32;

    #[test]
    fn integers_are_the_numbers_to_thirty_bits() {
        for (k, scale) in [(64, 1.0), (320, 1e-20), (256, 3e20), (128, 0.0)] {
            let mut x: Vec<f32> = noise32(k, 5).into_iter().map(|x| x * scale).collect();
            x[7] *= 1e-3;
            let mut scratch = vec![7.0; NibbleX::scratch(k)];
            let (mut row, _) = NibbleX::of(k, &mut scratch);
            assert!(row.fill(&x));
            for (e, x) in x.iter().enumerate() {
                let part = &row.steps[e / STEP].parts[e % STEP / PART];
                let (lane, place, upper) = (e % PART / 4, e % 2, e % 4 / 2);
                let half = |words: &[[u32; LANES]; 2]| f64::from((words[place][lane] >> (16 * upper)) as i16);
                let unit = f64::from(row.scales[e / PART]) / 32768.0;
                let held = (half(&part.high) * 32768.0 + half(&part.low)) * unit;
                assert!((held - f64::from(*x)).abs() <= unit / 2.0, "{e}: {held}, not {x}");
            }
            // Units are small against the largest number of their part.
            for (x, scale) in x.as_chunks::<PART>().0.iter().zip(&*row.scales) {
                assert!(*scale <= largest_number(x).max(SIZES.start) * 2f32.powi(-13));
            }
        }
    }

    #[test]
    fn other_numbers_are_refused() {
        for bad in [f32::NAN, f32::INFINITY, -1e30, 1e-30] {
            let mut scratch = vec![0.0; NibbleX::scratch(64)];
            let (mut row, _) = NibbleX::of(64, &mut scratch);
            let mut x = [0.0; 64];
            x[40] = bad;
            assert!(!row.fill(&x), "{bad}");
        }
    }
}
