//! Sequential random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014). Shuffles, searches, random graphs and test data draw from it. Random ops and random start values take
//! their numbers from [`philox`](super::philox).
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
#[inline(always)]
pub fn unit(bits: u64) -> f64 {
    // Words of 32 bits are converted in vectors. The parts are multiples of 2⁻⁵³ below 1, so their sum is exact.
    let (high, low) = ((bits >> 32) as u32, bits as u32 >> 11);
    f64::from(high) * (1.0 / (1u64 << 32) as f64) + f64::from(low) * (1.0 / (1u64 << 53) as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_number_has_the_upper_53_bits() {
        let mut stream = SplitMix64(1);
        let edges = [0, 1, 0x7ff, 0x800, 0xffff_ffff, 1 << 32, !0x7ff, u64::MAX];
        for bits in edges.into_iter().chain((0..10_000).map(|_| stream.bits())) {
            assert_eq!(unit(bits), (bits >> 11) as f64 / (1u64 << 53) as f64, "{bits:x}");
        }
    }

    /// The first words of seed 1234567, as in the reference implementation's published test vectors.
    #[test]
    fn the_stream_is_that_of_the_reference() {
        let mut s = SplitMix64(1_234_567);
        let want = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([s.bits(), s.bits(), s.bits()], want);
        assert_eq!([0, 1, 2].map(|i| SplitMix64::nth(1_234_567, i)), want);
    }
}
