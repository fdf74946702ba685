//! Products of a row of x with rows of Q4_K and Q4_0 blocks, where one instruction adds the products of four bytes.
//!
//! The integers of `nibble_x` have an upper and a lower half of 16 bits. Here each half is 256·high + low, two signed
//! bytes. A lane adds the products of four codes with four of them.
//!
//! Invariant: a lane has the integers that it has in `nibble_dots`, so the result has the same bits.

// Sums stay in registers only where every index is a constant, so loops are over indices: they are unrolled.
#![allow(clippy::needless_range_loop)]

use super::code_dots::AHEAD;
use super::nibble_codes::{NibbleCodes, NibbleLanes, NibbleProduct};
use super::nibble_x::{LANES, PART, STEP, XStep};
use crate::simd;
use crate::simd::{SimdOp, Vnni};
use bytemuck::{cast, cast_mut, cast_slice};

/// Sixty-four elements of x: the high and the low bytes of the upper halves, then of the lower halves.
type XBytes = [[i8; STEP]; 4];

simd! {
    /// Writes halves as bytes, in place.
    fn split_x_steps(steps: &mut [XStep]) {
        for step in steps {
            let parts = step.parts;
            let bytes: &mut XBytes = cast_mut(step);
            for (p, part) in parts.iter().enumerate() {
                for (half, words) in [part.high, part.low].iter().enumerate() {
                    for e in 0..PART {
                        // Element 4l + place is the lower half of a word, element 4l + place + 2 the upper half.
                        let value = (words[e % 2][e / 4] >> (16 * (e / 2 % 2))) as i16;
                        let low = value as i8;
                        bytes[2 * half][PART * p + e] = ((value - i16::from(low)) >> 8) as i8;
                        bytes[2 * half + 1][PART * p + e] = low;
                    }
                }
            }
        }
    }
}

/// Prepares a row of x: its integers as bytes, if this CPU has the instruction.
pub fn prepare_x_steps(steps: &mut [XStep]) {
    if simd::vnni().is_some() {
        split_x_steps(steps);
    }
}

/// Σ scale·Σ code·x over a row of blocks. x is prepared.
pub struct NibbleBytes<'p, 'a, C>(pub Vnni, pub &'p NibbleProduct<'a>, pub C);

impl<C: NibbleCodes> SimdOp for NibbleBytes<'_, '_, C> {
    type Out = NibbleLanes;

    #[inline(always)]
    fn call(self) -> NibbleLanes {
        let NibbleBytes(s, p, c) = self;
        let mut sums = [0.0; 2 * LANES];
        let mut next = p.row.as_ptr().addr() + AHEAD * p.row.len();
        let steps: &[XBytes] = cast_slice(&*p.x.steps);
        let steps = steps.chunks_exact(C::STEPS).zip(p.scales.as_chunks::<2>().0.chunks_exact(C::STEPS));
        for (bytes, (steps, scales)) in p.row.chunks_exact(C::AT_A_TIME).zip(steps) {
            for i in 0..C::STEPS {
                simd::prefetch_l2(next);
                next += C::AT_A_TIME / C::STEPS;
                let [first, second] = c.codes(bytes, i);
                let (mut codes, mut scale) = ([0; 2 * LANES], [0.0; 2 * LANES]);
                for l in 0..LANES {
                    codes[l] = first[l] & 0x0f0f_0f0f;
                    codes[LANES + l] = second[l] & 0x0f0f_0f0f;
                    scale[l] = scales[i][0];
                    scale[LANES + l] = scales[i][1];
                }
                let [upper_high, upper_low, lower_high, lower_low] = &steps[i];
                let upper = half_products(s, &codes, upper_high, upper_low);
                let lower = half_products(s, &codes, lower_high, lower_low);
                for l in 0..2 * LANES {
                    let dot = (lower[l] as f32).mul_add(1.0 / (1 << 15) as f32, upper[l] as f32);
                    sums[l] = dot.mul_add(scale[l], sums[l]);
                }
            }
        }
        let [even, odd] = cast(sums);
        NibbleLanes { even, odd }
    }
}

/// The sums of four products of codes with halves in each lane.
#[inline(always)]
fn half_products(s: Vnni, codes: &[u32; 2 * LANES], high: &[i8; STEP], low: &[i8; STEP]) -> [i32; 2 * LANES] {
    let mut sums: [i32; 2 * LANES] = cast(s.add_quad_products(cast([0; 2 * LANES]), cast(*codes), cast(*high)));
    for l in 0..2 * LANES {
        sums[l] <<= 8;
    }
    cast(s.add_quad_products(cast(sums), cast(*codes), cast(*low)))
}
