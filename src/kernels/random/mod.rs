//! Counter-based random numbers: Philox4x32-10, uniform and normal.
//!
//! Invariant: a number is a function of (seed, step, stream, element) alone. So any division of the work, any number of
//! threads and any recomputation give the same number. Used by the lowering of the rng ops.
//!
//! Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The mapping never changes: element
//! `e` comes from block `b = e / 4` (`f64`: `e / 2`). The block's counter is `[b, stream, step, step >> 32 ^ b >> 32]`
//! (low 32 bits of each), its key `[seed, seed >> 32 ^ stream >> 32]`. A uniform `f32` is the top 24 bits of word `e %
//! 4`, times 2⁻²⁴; a uniform `f64` is the top 53 bits of words `2i` (high) and `2i + 1` (low) with `i = e % 2`, times
//! 2⁻⁵³. Uniforms `2j` and `2j + 1`, called u and w, give the normals `r·cos θ, r·sin θ` with `r = √(−2·ln(1 − u))` and
//! `θ = 2π·w` (Box and Muller).
//!
//! A random integer of `low..low + span` is `low + (bits · span) >> 64`, where `bits` are the 64 bits from which a
//! uniform `f64` is made. Its probability is off by less than 2⁻⁶⁴ (Lemire, "Fast random integer generation in an
//! interval", 2019, without the rejection).
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`random_int_kernel`] | key: as below | `I[len]` | [`Int`] |
//! | [`random_uniform_kernel`], [`random_normal_kernel`] | key: `u32[4]` = seed low, seed high, step low, step high | `T[len]` | [`Random`] |

pub mod key;
mod philox_batch;
pub mod sample;
pub mod start_draws;

use crate::abi::Args;
use crate::by_dtype::by_dtype;
use crate::float::Float;
use crate::index::Index;
use crate::params::params;
use crate::simd;
use crate::vmath::log;
use arenagrad_arena::philox::pair_of_words;
use arenagrad_arena::rng;
use philox_batch::{LANES, PAIRS, Words, philox_batch};

/// Elements in a unit; a multiple of the elements of a batch.
const UNIT: usize = 4096;

params! {
    /// Params of the rng kernels.
    pub struct Random {
        /// Elements of the output.
        pub len: usize,
        /// Distinguishes the rng ops of a program.
        pub stream: u64,
    }
}

impl Random {
    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// The words of a batch whose first block is `block`.
#[inline(always)]
fn batch_words(key: [u32; 4], stream: u64, block: u64) -> Words {
    let (mut low, mut high) = ([0; PAIRS], [0; PAIRS]);
    for (i, (low, high)) in (0..).zip(low.iter_mut().zip(&mut high)) {
        let (b, next) = (block + 2 * i, block + 2 * i + 1);
        *low = pair_of_words([b as u32, next as u32]);
        *high = pair_of_words([key[3] ^ (b >> 32) as u32, key[3] ^ (next >> 32) as u32]);
    }
    let c = [low, [pair_of_words([stream as u32; 2]); PAIRS], [pair_of_words([key[2]; 2]); PAIRS], high];
    philox_batch(c, [key[0], key[1] ^ (stream >> 32) as u32])
}

/// A float type that random words convert to. Loops, as closures are not compiled for the instruction set.
pub trait Draw: Float {
    /// Elements per block.
    const PER_BLOCK: usize;
    /// Converts a batch to its `LANES * PER_BLOCK` elements.
    fn uniforms(words: &Words, out: &mut [Self]);
}

impl Draw for f32 {
    const PER_BLOCK: usize = 4;

    #[inline(always)]
    fn uniforms(words: &Words, out: &mut [f32]) {
        let (out, _) = out.as_chunks_mut::<4>();
        for (i, o) in out.iter_mut().enumerate().take(LANES) {
            for (o, word) in o.iter_mut().zip(words) {
                *o = (word[i] >> 8) as f32 * (1.0 / (1 << 24) as f32);
            }
        }
    }
}

impl Draw for f64 {
    const PER_BLOCK: usize = 2;

    #[inline(always)]
    fn uniforms(words: &Words, out: &mut [f64]) {
        let (out, _) = out.as_chunks_mut::<2>();
        for (i, o) in out.iter_mut().enumerate().take(LANES) {
            for (o, [high, low]) in o.iter_mut().zip(words.as_chunks::<2>().0) {
                *o = rng::unit(u64::from(high[i]) << 32 | u64::from(low[i]));
            }
        }
    }
}

simd! {
    /// Uniform numbers in [0, 1), starting with the first number of `block`.
    pub fn random_uniform[T: Draw](key: [u32; 4], stream: u64, block: u64, out: &mut [T]) {
        let batch = LANES * T::PER_BLOCK;
        for (i, out) in out.chunks_mut(batch).enumerate() {
            let words = batch_words(key, stream, block + (i * LANES) as u64);
            if out.len() == batch {
                T::uniforms(&words, out);
            } else {
                let mut whole = [T::ZERO; 4 * LANES];
                T::uniforms(&words, &mut whole[..batch]);
                for (o, x) in out.iter_mut().zip(&whole) {
                    *o = *x;
                }
            }
        }
    }
}

simd! {
    /// Replaces pairs of uniform numbers by pairs of normal ones.
    fn random_box_muller[T: Float](x: &mut [T]) {
        let (pairs, _) = x.as_chunks_mut::<2>();
        for [u, w] in pairs {
            // 1 − u is in (0, 1]: its logarithm is finite.
            let r = (T::from_f64(-2.0) * log(T::ONE - *u)).sqrt();
            let angle = T::from_f64(std::f64::consts::TAU) * *w;
            // The angle is well within the range of the branch-free forms.
            (*u, *w) = (r * T::cos_fit(angle), r * T::sin_fit(angle));
        }
    }
}

/// Normal numbers of mean 0 and variance 1, starting with the first number of `block`.
pub fn fill_normal<T: Draw>(key: [u32; 4], stream: u64, block: u64, out: &mut [T]) {
    let odd = out.len() % 2;
    let (pairs, last) = out.split_at_mut(out.len() - odd);
    random_uniform(key, stream, block, pairs);
    // If the length is odd, the partner of the last element is computed and dropped.
    let mut whole = [T::ZERO; 4];
    let at = pairs.len() / T::PER_BLOCK;
    random_uniform(key, stream, block + at as u64, &mut whole[..T::PER_BLOCK]);
    random_box_muller(pairs);
    random_box_muller(&mut whole);
    for (o, x) in last.iter_mut().zip(&whole[pairs.len() % T::PER_BLOCK..]) {
        *o = *x;
    }
}

fn fill_from_key<T: Draw>(args: &mut Args<'_>, f: impl Fn([u32; 4], u64, u64, &mut [T])) {
    let p = Random::from_words(args.params());
    let mut key = [0; 4];
    key.copy_from_slice(args.read::<u32>(0));
    let block = args.units().start * UNIT / T::PER_BLOCK;
    f(key, p.stream, block as u64, args.write::<T>(0));
}

/// Uniform numbers in [0, 1).
///
/// Reads key: `u32[4]`; writes `T[len]`, [`Random::per_unit`]; params [`Random`].
pub fn random_uniform_kernel<T: Draw>(args: &mut Args<'_>) {
    fill_from_key::<T>(args, |key, stream, block, out| random_uniform(key, stream, block, out));
}

by_dtype!(random_uniform_kernel_for = random_uniform_kernel::<F32 f32, F64 f64>);

/// Normal numbers of mean 0 and variance 1.
///
/// Reads key: `u32[4]`; writes `T[len]`, [`Random::per_unit`]; params [`Random`].
pub fn random_normal_kernel<T: Draw>(args: &mut Args<'_>) {
    fill_from_key::<T>(args, fill_normal);
}

by_dtype!(random_normal_kernel_for = random_normal_kernel::<floats>);

params! {
    /// Params of [`random_int_kernel`].
    pub struct Int {
        /// Elements of the output.
        pub len: usize,
        /// Distinguishes the rng ops of a program.
        pub stream: u64,
        /// The least number, as the bits of an `i64`.
        pub low: u64,
        /// How many numbers there are.
        pub span: u64,
    }
}

impl Int {
    /// Elements of the output in a unit.
    pub fn per_unit(&self) -> usize {
        UNIT
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.len.div_ceil(UNIT)
    }
}

/// Whole numbers from `low` on, `span` of them, all equally likely.
///
/// Reads key: `u32[4]`; writes `I[len]`, [`Int::per_unit`]; params [`Int`].
pub fn random_int_kernel<I: Index>(args: &mut Args<'_>) {
    let p = Int::from_words(args.params());
    let mut key = [0; 4];
    key.copy_from_slice(args.read::<u32>(0));
    let first = args.units().start * UNIT / 2;
    for (i, out) in args.write::<I>(0).chunks_mut(2 * LANES).enumerate() {
        let words = batch_words(key, p.stream, (first + i * LANES) as u64);
        for (e, o) in out.iter_mut().enumerate() {
            let w = 2 * (e % 2);
            let bits = u64::from(words[w][e / 2]) << 32 | u64::from(words[w + 1][e / 2]);
            let scaled = (u128::from(bits) * u128::from(p.span)) >> 64;
            *o = I::index_of_i64(p.low.wrapping_add(scaled as u64) as i64);
        }
    }
}

by_dtype!(random_int_kernel_for = random_int_kernel::<I32 i32, I64 i64>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Kernel;
    use crate::harness::{In, Out, close, run_in_ranges, written_elements};
    use arenagrad_arena::philox::philox;

    const KEY: [u32; 4] = [1, 2, 3, 4];

    fn call<T: Draw>(k: Kernel, len: usize, key: [u32; 4], stream: u64) -> Vec<T> {
        let p = Random { len, stream };
        assert_eq!(Random::from_words(&p.to_words()), p);
        written_elements(
            &run_in_ranges(k, &p.to_words(), &[In::of(&key)], &[Out::of::<T>(len, p.per_unit())], p.units()),
            0,
        )
    }

    #[test]
    fn known_answers() {
        let all = |c: u32| philox([[c; LANES]; 4], [c; 2]).map(|w| w[LANES - 1]);
        assert_eq!(all(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(all(u32::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        // From Random123: the digits of π.
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344].map(|c| [c; LANES]);
        let words = philox(counter, [0xa409_3822, 0x299f_31d0]).map(|w| w[0]);
        assert_eq!(words, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
        let scaled = |w: u32| (w >> 8) as f32 / 16_777_216.0;
        let got: Vec<f32> = call(random_uniform_kernel::<f32>, 4, [0; 4], 0);
        assert_eq!(got, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8].map(scaled));
    }

    /// The mapping from elements to counters, one element at a time.
    fn one(e: u64, key: [u32; 4], stream: u64) -> f32 {
        let b = e / 4;
        let c = [b as u32, stream as u32, key[2], key[3] ^ (b >> 32) as u32];
        let words = philox(c.map(|c| [c; LANES]), [key[0], key[1] ^ (stream >> 32) as u32]);
        (words[e as usize % 4][0] >> 8) as f32 / 16_777_216.0
    }

    #[test]
    fn each_element_has_its_own_counter() {
        let stream = 0x0123_4567_89ab_cdef;
        for len in [0, 1, 5, 64, 4096, 9001] {
            let got: Vec<f32> = call(random_uniform_kernel::<f32>, len, KEY, stream);
            assert!(got.iter().enumerate().all(|(e, x)| *x == one(e as u64, KEY, stream)));
        }
        let mut far = [0f32; 8];
        random_uniform(KEY, 7, (1 << 32) - 1, &mut far);
        assert_eq!(far[4], one(1 << 34, KEY, 7));
        for (key, other) in [([9, 2, 3, 4], 7), ([1, 2, 9, 4], 7), ([1, 2, 3, 9], 7), (KEY, 8), (KEY, 7 | 1 << 40)] {
            assert_ne!(one(0, key, other), one(0, KEY, 7));
        }
    }

    /// Mean, variance, and mean of fourth powers.
    fn moments(x: &[f64]) -> [f64; 3] {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        let power = |k: i32| x.iter().map(|x| (x - mean).powi(k)).sum::<f64>() / n;
        [mean, power(2), power(4)]
    }

    #[test]
    fn moments_are_right() {
        let n = 200_000;
        let wide = |x: Vec<f32>| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        for x in [wide(call(random_uniform_kernel::<f32>, n, KEY, 5)), call(random_uniform_kernel::<f64>, n, KEY, 5)] {
            assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
            close(&moments(&x), &[0.5, 1.0 / 12.0, 1.0 / 80.0], 3e-3);
        }
        for x in [wide(call(random_normal_kernel::<f32>, n, KEY, 5)), call(random_normal_kernel::<f64>, n, KEY, 5)] {
            assert!(x.iter().all(|x| x.is_finite()));
            close(&moments(&x), &[0.0, 1.0, 3.0], 2e-2);
        }
    }

    #[test]
    fn a_shorter_draw_is_the_start_of_a_longer_one() {
        let long: Vec<f32> = call(random_normal_kernel::<f32>, 9000, KEY, 1);
        let long64: Vec<f64> = call(random_normal_kernel::<f64>, 9000, KEY, 1);
        for len in [0, 1, 2, 3, 6, 7, 63, 65, 4097, 8999] {
            assert_eq!(call::<f32>(random_normal_kernel::<f32>, len, KEY, 1), long[..len]);
            assert_eq!(call::<f64>(random_normal_kernel::<f64>, len, KEY, 1), long64[..len]);
        }
    }

    #[test]
    fn whole_numbers_keep_to_their_range() {
        let draw = |len: usize, low: i64, span: u64| -> Vec<i64> {
            let p = Int { len, stream: 9, low: low as u64, span };
            written_elements(
                &run_in_ranges(
                    random_int_kernel::<i64>,
                    &p.to_words(),
                    &[In::of(&KEY)],
                    &[Out::of::<i64>(len, p.per_unit())],
                    p.units(),
                ),
                0,
            )
        };
        let x = draw(9001, -3, 7);
        assert!((-3..4).all(|k| x.contains(&k)) && x.iter().all(|x| (-3..4).contains(x)));
        assert_eq!(x[..8999], draw(8999, -3, 7));
        assert_eq!(draw(5, 40, 1), [40; 5]);
        // One element at a time, from the words of its block.
        for e in [0usize, 1, 2, 33, 4095, 4096, 8191] {
            let c = [(e / 2) as u32, 9, KEY[2], KEY[3]];
            let words = philox(c.map(|c| [c; LANES]), [KEY[0], KEY[1]]);
            let w = 2 * (e % 2);
            let bits = u64::from(words[w][0]) << 32 | u64::from(words[w + 1][0]);
            assert_eq!(x[e], -3 + ((u128::from(bits) * 7) >> 64) as i64);
        }
        let wide = draw(4000, i64::MIN, u64::MAX);
        assert!(wide.iter().any(|x| *x > i64::MAX / 2) && wide.iter().any(|x| *x < i64::MIN / 2));
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        use crate::simd::{Isa, detect_isa, limit};
        let draws = || {
            let (mut x, mut y) = (vec![0f32; 5001], vec![0f64; 5001]);
            fill_normal(KEY, 1, 0, &mut x);
            fill_normal(KEY, 1, 0, &mut y);
            x.iter().map(|x| u64::from(x.to_bits())).chain(y.iter().map(|y| y.to_bits())).collect::<Vec<_>>()
        };
        let best = draws();
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            limit(isa);
            assert!(draws() == best, "{isa:?}");
        }
        limit(detect_isa());
    }
}
