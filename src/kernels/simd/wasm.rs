//! WebAssembly's vectors of 16 bytes, which every browser has. There is no fused multiply-add.
//!
//! Invariant: results have the bits of the other instruction sets; `wasm_fma` sees to it.

use super::pair_products::{PairProducts, add_four_pairs};
use super::vector::{Simd, SimdOp, TileTerms, Vectors, first_lanes, vectors, write_first_lanes};
use super::wasm_fma::{multiply_add, multiply_add_pair, pair};
use super::wasm_terms::add_terms;
use std::arch::wasm32::*;

/// The token of WebAssembly's vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable;

/// An unsafe operation that the contract of the function around it allows.
macro_rules! here {
    ($e:expr) => {{
        // SAFETY: the caller keeps the trait's contract.
        #[allow(unsafe_code, unused_unsafe)]
        unsafe {
            $e
        }
    }};
}

impl Simd for Portable {
    const BYTES: usize = 16;
    const REGS: usize = 16;

    #[inline(always)]
    fn vectorize<O: SimdOp>(self, op: O) -> O::Out {
        /// A separate function, as on the other instruction sets.
        fn within<O: SimdOp>(op: O) -> O::Out {
            op.call()
        }
        within(op)
    }

    #[inline(always)]
    fn prefetch<T>(self, _: *const T) {}
}

impl PairProducts for Portable {
    type Lanes = [i32; 4];

    #[inline(always)]
    fn broadcast_pair(self, pair: i32) -> [i32; 4] {
        [pair; 4]
    }
    #[inline(always)]
    fn add_pair_products(self, sums: [i32; 4], a: [i32; 4], b: [i32; 4]) -> [i32; 4] {
        add_four_pairs(sums, a, b)
    }
}

vectors! {
    Portable, f32 in v128, mask usize, half Portable = Portable, block 4,
    broadcast: |x| f32x4_splat(x),
    add: |a, b| f32x4_add(a, b),
    fma: |x, y, z| multiply_add(x, y, z),
    mask: |lanes| lanes,
    load: |from| v128_load(from.cast()),
    load_partial: |from, lanes| v128_load(first_lanes::<f32, 4>(from, lanes).as_ptr().cast()),
    store: |to, v| v128_store(to.cast(), v),
    store_partial: |to, lanes, v| {
        let mut all = [0f32; 4];
        v128_store(all.as_mut_ptr().cast(), v);
        write_first_lanes(to, lanes, all);
    },
    transpose_block: |from, step, to, to_step| {
        let row = |l: usize| v128_load(from.add(l * step).cast());
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (ab, ba) = (i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
        let (cd, dc) = (i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
        v128_store(to.cast(), i64x2_shuffle::<0, 2>(ab, cd));
        v128_store(to.add(to_step).cast(), i64x2_shuffle::<1, 3>(ab, cd));
        v128_store(to.add(2 * to_step).cast(), i64x2_shuffle::<0, 2>(ba, dc));
        v128_store(to.add(3 * to_step).cast(), i64x2_shuffle::<1, 3>(ba, dc));
    },
    hsum: |r| {
        let mut sums = [0f32; J];
        for j in 0..J {
            let pairs = f32x4_add(r[j], i64x2_shuffle::<1, 1>(r[j], r[j]));
            sums[j] = f32x4_extract_lane::<0>(pairs) + f32x4_extract_lane::<1>(pairs);
        }
        sums
    },
    add_terms: add_terms,
}
vectors! {
    Portable, f64 in v128, mask usize, half Portable = Portable, block 2,
    broadcast: |x| f64x2_splat(x),
    add: |a, b| f64x2_add(a, b),
    fma: |x, y, z| multiply_add_pair(x, y, z),
    mask: |lanes| lanes,
    load: |from| v128_load(from.cast()),
    load_partial: |from, lanes| v128_load(first_lanes::<f64, 2>(from, lanes).as_ptr().cast()),
    store: |to, v| v128_store(to.cast(), v),
    store_partial: |to, lanes, v| write_first_lanes(to, lanes, pair(v)),
    transpose_block: |from, step, to, to_step| {
        let (a, b) = (v128_load(from.cast()), v128_load(from.add(step).cast()));
        v128_store(to.cast(), i64x2_shuffle::<0, 2>(a, b));
        v128_store(to.add(to_step).cast(), i64x2_shuffle::<1, 3>(a, b));
    },
    hsum: |r| {
        let mut sums = [0f64; J];
        for j in 0..J {
            let [low, high] = pair(r[j]);
            sums[j] = low + high;
        }
        sums
    },
}
