//! The trait of exact products of 16-bit integers, in pairs.
//!
//! Invariant: all instruction sets give the same integers. Sums wrap; nothing saturates. A factor is at most 2¹⁵ − 1 in
//! size, so the sum of a pair of products fits 32 bits.

use super::vector::Simd;
use bytemuck::Pod;

/// Sums of products of pairs of 16-bit integers, one sum in each lane of 32 bits.
pub trait PairProducts: Simd {
    /// A vector of `BYTES / 4` sums, or of as many pairs: the first integer of a pair is the lower half of a lane.
    type Lanes: Pod;

    /// The same pair in all lanes.
    fn broadcast_pair(self, pair: i32) -> Self::Lanes;

    /// `sums + a.0 * b.0 + a.1 * b.1` in each lane.
    fn add_pair_products(self, sums: Self::Lanes, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;
}

/// Four lanes in plain Rust.
#[inline(always)]
pub fn add_four_pairs(sums: [i32; 4], a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
    let mut r = sums;
    for i in 0..4 {
        let low = i32::from(a[i] as i16) * i32::from(b[i] as i16);
        let high = (a[i] >> 16) * (b[i] >> 16);
        r[i] = r[i].wrapping_add(low).wrapping_add(high);
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, SimdOp, Token, vnni};
    use crate::with_token;

    struct Sums<S>(S, [i32; 16], [i32; 16], [i32; 16]);

    impl<S: PairProducts> SimdOp for Sums<S> {
        type Out = [i32; 16];

        #[inline(always)]
        fn call(self) -> [i32; 16] {
            let Sums(s, mut sums, a, b) = self;
            let lanes = S::BYTES / 4;
            for i in (0..16).step_by(lanes) {
                let of =
                    |x: &[i32; 16]| bytemuck::pod_read_unaligned::<S::Lanes>(bytemuck::cast_slice(&x[i..i + lanes]));
                let r = s.add_pair_products(of(&sums), of(&a), of(&b));
                sums[i..i + lanes].copy_from_slice(bytemuck::cast_slice(&[r]));
            }
            sums
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_integers() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as i32
        };
        for round in 0..crate::harness::fewer_under_miri(2000, 20) {
            let mut draw = || std::array::from_fn::<i32, 16, _>(|_| next());
            let (sums, a, b) = (draw(), draw(), draw());
            // Factors of −2¹⁵ are outside the contract; the largest ones are not.
            let keep = |x: i32| if x as i16 == i16::MIN || x >> 16 == i32::from(i16::MIN) { 0x7fff_7fff } else { x };
            let (a, b) = if round == 0 { ([0x7fff_7fff; 16], [0x7fff_7fff; 16]) } else { (a.map(keep), b.map(keep)) };
            let want: [i32; 16] = std::array::from_fn(|i| {
                let halves = |x: i32| [i64::from(x as i16), i64::from(x >> 16)];
                let (a, b) = (halves(a[i]), halves(b[i]));
                (i64::from(sums[i]) + a[0] * b[0] + a[1] * b[1]) as i32
            });
            for isa in [Isa::Portable, Isa::Neon, Isa::Avx2, Isa::Avx512] {
                let got = with_token!(Token::at_most(isa), s => s.vectorize(Sums(s, sums, a, b)));
                assert_eq!(got, want, "{isa:?}");
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if let Some(s) = vnni() {
                assert_eq!(s.vectorize(Sums(s, sums, a, b)), want, "VNNI");
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            assert!(vnni().is_none());
        }
    }
}
