//! Random draws: Philox4x32-10 from its paper (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
//! section 3.3), one counter at a time, and the documented mapping from elements to counters.

use super::array::{Array, count_elements};
use super::layout_ops::oracle_zeros_layout;
use super::rounding::Rounding;
use crate::nodes::ops::random::attrs::{DrawAttrs, RandomIntAttrs};
use crate::nodes::{Attrs, DType, Op};
use std::f64::consts::TAU;

/// One counter through ten rounds: a 128-bit block of a keyed bijection.
fn oracle_random_philox_block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut l0, mut r0, mut l1, mut r1] = [counter[0], counter[1], counter[2], counter[3]];
    let mut k = key;
    for round in 0..10 {
        if round > 0 {
            // The key schedule is a Weyl sequence: the golden ratio, and √3 − 1.
            k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
        }
        let (p, q) = (0xD251_1F53_u64 * u64::from(l0), 0xCD9E_8D57_u64 * u64::from(l1));
        let (p_high, p_low, q_high, q_low) = ((p >> 32) as u32, p as u32, (q >> 32) as u32, q as u32);
        (l0, r0, l1, r1) = (q_high ^ r0 ^ k[0], q_low, p_high ^ r1 ^ k[1], p_low);
    }
    [l0, r0, l1, r1]
}

/// The words of a key, if all are known.
pub(super) fn oracle_random_key_words(key: &Array) -> Option<[u32; 4]> {
    let mut words = [0; 4];
    for (i, w) in words.iter_mut().enumerate() {
        *w = key.whole(i)? as u32;
    }
    Some(words)
}

/// The words of block `b` of a stream.
fn oracle_random_stream_block(key: [u32; 4], stream: u64, b: u64) -> [u32; 4] {
    let counter = [b as u32, stream as u32, key[2], key[3] ^ (b >> 32) as u32];
    oracle_random_philox_block(counter, [key[0], key[1] ^ (stream >> 32) as u32])
}

/// The 64 bits of element `e`.
fn oracle_wide_random_bits(key: [u32; 4], stream: u64, e: usize) -> u64 {
    let words = oracle_random_stream_block(key, stream, e as u64 / 2);
    let first = 2 * (e % 2);
    u64::from(words[first]) << 32 | u64::from(words[first + 1])
}

/// The uniform number of element `e`.
pub(super) fn oracle_random_uniform(key: [u32; 4], stream: u64, dtype: DType, e: usize) -> f64 {
    match dtype {
        DType::F32 => f64::from(oracle_random_stream_block(key, stream, e as u64 / 4)[e % 4] >> 8) / 2f64.powi(24),
        _ => (oracle_wide_random_bits(key, stream, e) >> 11) as f64 / 2f64.powi(53),
    }
}

/// The normal number of element `e`, by Box and Muller.
fn oracle_random_normal(key: [u32; 4], stream: u64, dtype: DType, e: usize) -> (f64, f64) {
    let r = Rounding::of(dtype);
    let (u, w) = (oracle_random_uniform(key, stream, dtype, e & !1), oracle_random_uniform(key, stream, dtype, e | 1));
    let length = (-2.0 * libm::log1p(-u)).sqrt();
    let angle = TAU * w;
    let y = length * if e.is_multiple_of(2) { libm::cos(angle) } else { libm::sin(angle) };
    // The angle is rounded, its factor too; the length and the sine have a few roundings.
    r.settled(y, length * r.unit * (3.0 * angle + 16.0) + r.least)
}

/// The result of a random op of type `dtype` and shape `to`, if it is one.
pub(super) fn apply_oracle_random_op(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    dtype: DType,
    to: &[usize],
) -> Option<Array> {
    if !matches!(op, Op::RNG_UNIFORM | Op::RNG_NORMAL | Op::RNG_INT | Op::RNG_NEXT | Op::RNG_FOLD) {
        return None;
    }
    let Some(key) = oracle_random_key_words(args.first()?) else {
        return Some(oracle_zeros_layout(dtype, to).unknown());
    };
    let all = 0..count_elements(to);
    Some(match op {
        Op::RNG_UNIFORM => {
            let stream = DrawAttrs::of(attrs).stream as u64;
            Array::reals(dtype, to, all.map(|e| (oracle_random_uniform(key, stream, dtype, e), 0.0)))
        }
        Op::RNG_NORMAL => {
            let stream = DrawAttrs::of(attrs).stream as u64;
            Array::reals(dtype, to, all.map(|e| oracle_random_normal(key, stream, dtype, e)))
        }
        Op::RNG_INT => {
            let a = RandomIntAttrs::of(attrs);
            let span = (i128::from(a.high) - i128::from(a.low)) as u128;
            let one = |e| {
                i128::from(a.low)
                    + ((u128::from(oracle_wide_random_bits(key, a.stream as u64, e)) * span) >> 64) as i128
            };
            Array::wholes(dtype, to, all.map(|e| Some(one(e))))
        }
        Op::RNG_NEXT => {
            let step = (u64::from(key[3]) << 32 | u64::from(key[2])).wrapping_add(1);
            let next = [key[0], key[1], step as u32, (step >> 32) as u32];
            Array::wholes(dtype, to, all.map(|e| Some(next[e].into())))
        }
        _ => match args.get(1)?.whole(0) {
            Some(number) => {
                // The counter has the letters "fold" where a draw has its stream.
                let fold = u32::from_be_bytes(*b"fold");
                let words = oracle_random_philox_block([number as u32, fold, key[2], key[3]], [key[0], !key[1]]);
                let folded = [words[0], words[1], key[2], key[3]];
                Array::wholes(dtype, to, all.map(|e| Some(folded[e].into())))
            }
            None => oracle_zeros_layout(dtype, to).unknown(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::oracle_random_philox_block;

    /// The known answers of Random123.
    #[test]
    fn philox_gives_the_published_words() {
        assert_eq!(oracle_random_philox_block([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            oracle_random_philox_block([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        let digits_of_pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let words = oracle_random_philox_block(digits_of_pi, [0xa409_3822, 0x299f_31d0]);
        assert_eq!(words, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }
}
