//! Philox4x32-10: random numbers as a function of a counter and a key (Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3", SC 2011). Random ops and random start values take their numbers from it.

/// Multipliers of a round.
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of the key from round to round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds of Philox4x32 on `N` counters at once: `c[w][i]` is word `w` of counter `i`, and of its result.
#[inline(always)]
pub fn philox<const N: usize>(mut c: [[u32; N]; 4], key: [u32; 2]) -> [[u32; N]; 4] {
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let [c0, c1, c2, c3] = c;
        for i in 0..N {
            let a = u64::from(MULTIPLIERS[0]) * u64::from(c0[i]);
            let b = u64::from(MULTIPLIERS[1]) * u64::from(c2[i]);
            c[0][i] = (b >> 32) as u32 ^ c1[i] ^ k0;
            c[1][i] = b as u32;
            c[2][i] = (a >> 32) as u32 ^ c3[i] ^ k1;
            c[3][i] = a as u32;
        }
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    c
}

/// The bits of the first word of a pair.
const FIRST: u64 = 0xffff_ffff;

/// Two words as one number, the first in the low half.
#[inline(always)]
pub fn pair_of_words([first, second]: [u32; 2]) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// The words of a pair.
#[inline(always)]
pub fn words_of_pair(pair: u64) -> [u32; 2] {
    [pair as u32, (pair >> 32) as u32]
}

/// The low and the high words of the products of all words of `x` with `m`.
#[inline(always)]
fn multiply_pairs<const N: usize>(x: [u64; N], m: u32) -> [[u64; N]; 2] {
    let (mut low, mut high, m) = (x, x, u64::from(m));
    for i in 0..N {
        let (first, second) = ((x[i] & FIRST) * m, (x[i] >> 32) * m);
        low[i] = first & FIRST | second << 32;
        high[i] = first >> 32 | second & !FIRST;
    }
    [low, high]
}

/// `a ^ b ^ k` for all words.
#[inline(always)]
fn mix_pairs<const N: usize>(a: [u64; N], b: [u64; N], k: u32) -> [u64; N] {
    let (mut mixed, k) = (a, pair_of_words([k; 2]));
    for i in 0..N {
        mixed[i] = a[i] ^ b[i] ^ k;
    }
    mixed
}

/// [`philox`] on `2 * N` counters: `c[w][i]` is the pair of the words `w` of counters `2 * i` and `2 * i + 1`, and of
/// their results. A product has the 64 bits of the lane that its factors come from, so no lane moves.
#[inline(always)]
pub fn philox_pairs<const N: usize>(mut c: [[u64; N]; 4], key: [u32; 2]) -> [[u64; N]; 4] {
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let [a_low, a_high] = multiply_pairs(c[0], MULTIPLIERS[0]);
        let [b_low, b_high] = multiply_pairs(c[2], MULTIPLIERS[1]);
        c = [mix_pairs(b_high, c[1], k0), b_low, mix_pairs(a_high, c[3], k1), a_low];
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_the_words_of_single_counters() {
        let counter = |i: u32| [1u32, 2, 3, 4].map(|w| w.wrapping_mul(0x9e37_79b9).wrapping_add(i << 28 | i));
        let pairs = [0, 1, 2, 3].map(|w| [0, 2, 4].map(|i| pair_of_words([counter(i)[w], counter(i + 1)[w]])));
        let words = philox_pairs(pairs, [5, u32::MAX]);
        for i in 0..6 {
            let [one, other] =
                [philox(counter(i).map(|w| [w]), [5, u32::MAX]), words.map(|w| [w[i as usize / 2] as u32])];
            let other = if i % 2 == 0 { other } else { words.map(|w| [words_of_pair(w[i as usize / 2])[1]]) };
            assert_eq!(one, other, "{i}");
        }
    }

    #[test]
    fn philox_gives_the_published_words() {
        let all = |c: u32| philox([[c]; 4], [c; 2]).map(|w| w[0]);
        assert_eq!(all(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(all(u32::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
