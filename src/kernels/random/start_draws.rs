//! Draws of start values, many at a time.
//!
//! Invariant: a draw is a function of (seed, stream, element) alone, so any division of a leaf gives the same numbers.
//!
//! Element `i` takes the words of one block of Philox4x32-10: its counter is `[i, i >> 32, stream, stream >> 32]`, its
//! key `[seed, seed >> 32]` (low 32 bits of each). The top 53 bits of words 0 (high) and 1 (low), times 2⁻⁵³, are the
//! uniform number u; words 2 and 3 give v. The normal number is √(−2·ln(1 − u))·cos(2π·v) (Box and Muller).

use super::philox_batch::{LANES, PAIRS, philox_batch};
use crate::simd;
use crate::vmath::{Real, ln_of_normal};
use arenagrad_arena::philox::pair_of_words;
use arenagrad_arena::rng;

/// The numbers u and v of the elements from `from` on. Loops, as closures are not compiled for the instruction set.
#[inline(always)]
fn pairs(seed: u64, stream: u64, from: u64) -> [[f64; LANES]; 2] {
    let (mut low, mut high) = ([0; PAIRS], [0; PAIRS]);
    for (k, (low, high)) in (0..).zip(low.iter_mut().zip(&mut high)) {
        let (i, next) = (from.wrapping_add(2 * k), from.wrapping_add(2 * k + 1));
        *low = pair_of_words([i as u32, next as u32]);
        *high = pair_of_words([(i >> 32) as u32, (next >> 32) as u32]);
    }
    let [s0, s1] = [stream as u32, (stream >> 32) as u32].map(|s| [pair_of_words([s; 2]); PAIRS]);
    let words = philox_batch([low, high, s0, s1], [seed as u32, (seed >> 32) as u32]);
    let mut pairs = [[0.0; LANES]; 2];
    for k in 0..LANES {
        pairs[0][k] = rng::unit(u64::from(words[0][k]) << 32 | u64::from(words[1][k]));
        pairs[1][k] = rng::unit(u64::from(words[2][k]) << 32 | u64::from(words[3][k]));
    }
    pairs
}

simd! {
    /// Uniform numbers in [0, 1), of the elements from `from` on.
    pub fn uniform(seed: u64, stream: u64, from: u64, out: &mut [f64]) {
        for (part, out) in (0..).zip(out.chunks_mut(LANES)) {
            let [u, _] = pairs(seed, stream, from + part * LANES as u64);
            out.iter_mut().zip(u).for_each(|(o, u)| *o = u);
        }
    }
}

simd! {
    /// Normal numbers of mean 0 and variance 1, of the elements from `from` on.
    pub fn normal(seed: u64, stream: u64, from: u64, out: &mut [f64]) {
        for (part, out) in (0..).zip(out.chunks_mut(LANES)) {
            let [u, v] = pairs(seed, stream, from + part * LANES as u64);
            // 1 − u is in [2⁻⁵³, 1], and the angle is well within the range of the branch-free cosine.
            let mut normals = [0.0; LANES];
            for k in 0..LANES {
                let radius = (-2.0 * ln_of_normal(1.0 - u[k])).sqrt();
                normals[k] = radius * f64::cos_fit(std::f64::consts::TAU * v[k]);
            }
            out.iter_mut().zip(normals).for_each(|(o, x)| *o = x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arenagrad_arena::philox::philox;

    /// One element by the words of the published generator and std's functions.
    #[test]
    fn each_element_has_its_own_counter() {
        let (seed, stream, from) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210u64, (1 << 32) - 21);
        let (mut uniforms, mut normals) = ([0.0; 45], [0.0; 45]);
        uniform(seed, stream, from, &mut uniforms);
        normal(seed, stream, from, &mut normals);
        for (k, (&got, &gauss)) in uniforms.iter().zip(&normals).enumerate() {
            let i = from + k as u64;
            let counter = [i as u32, (i >> 32) as u32, stream as u32, (stream >> 32) as u32].map(|c| [c]);
            let [a, b, c, d] = philox(counter, [seed as u32, (seed >> 32) as u32]).map(|w| u64::from(w[0]));
            let (u, v) = (rng::unit(a << 32 | b), rng::unit(c << 32 | d));
            assert_eq!(got, u, "{i}");
            let want = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
            assert!((gauss - want).abs() <= 4.0 * f64::EPSILON * want.abs().max(1e-3), "{i}: {gauss} {want}");
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        use crate::simd::{Isa, detect_isa, limit};
        let draws = || {
            let mut x = [0.0; 501];
            normal(7, 8, 9, &mut x);
            x.map(f64::to_bits)
        };
        let best = draws();
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            limit(isa);
            assert!(draws() == best, "{isa:?}");
        }
        limit(detect_isa());
    }
}
