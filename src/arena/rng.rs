//! Random numbers: SplitMix64, a sequential generator, and Philox4x32-10, a function of a counter and a key.
//!
//! Shuffles, searches, random graphs and test data draw from [`SplitMix64`] (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014). Random ops and start values come from [`philox`] (Salmon et al.,
//! "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//!
//! Invariant: a number of SplitMix64 is a function of the seed and of the count of numbers before it.

/// The increment of the state: 2⁶⁴ divided by the golden ratio, made odd.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser: a bijection of 64-bit words that spreads every input bit over all output bits.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The upper 53 bits of `bits` as a number in [0, 1).
#[inline]
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A stream of 64-bit words; the field is the state, and at first the seed.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Word `i` (from 0) of the stream of `seed`.
    #[inline]
    pub fn nth(seed: u64, i: u64) -> u64 {
        mix(seed.wrapping_add(i.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// The next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number below `n`: the upper 64 bits of `bits · n`. Its bias is below n/2⁶⁴. 0 if `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// Fills `order` with a permutation of `0..order.len()`, a function of `seed`, `epoch` and the length: Fisher–Yates
/// shuffling with the numbers of SplitMix64.
pub fn permutation(seed: u64, epoch: u64, order: &mut [u32]) {
    order.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
    let start = mix(seed.wrapping_add(GOLDEN)) ^ mix(epoch.wrapping_mul(GOLDEN).wrapping_add(1));
    let mut stream = SplitMix64(start);
    for i in (1..order.len()).rev() {
        order.swap(i, stream.below(i as u64 + 1) as usize);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of seed 1234567, as in the reference implementation's published test vectors.
    #[test]
    fn the_stream_is_that_of_the_reference() {
        let mut s = SplitMix64(1_234_567);
        let want = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([s.bits(), s.bits(), s.bits()], want);
        assert_eq!([0, 1, 2].map(|i| SplitMix64::nth(1_234_567, i)), want);
    }

    #[test]
    fn philox_gives_the_published_words() {
        let all = |c: u32| philox([[c]; 4], [c; 2]).map(|w| w[0]);
        assert_eq!(all(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(all(u32::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }
}
