//! Vectors of 16 bytes in plain Rust, for every target. Tests compare the other instruction sets with them.
//!
//! Invariant: results have the bits of the other instruction sets. If the target has no fused multiply-add, that of
//! `f32` is computed by `f64` arithmetic in vectors, and that of `f64` by a library call. Both are correctly rounded,
//! and 14 to 40 times slower than a product and a sum.

use super::pair_products::{PairProducts, add_four_pairs};
use super::vector::{Simd, SimdOp, Vectors, first_lanes, vectors, write_first_lanes};

/// The token of plain Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portable;

/// Whether the target always has a fused multiply-add instruction. Miri has one for every target.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64", miri));

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

/// `x * y + z`, rounded once, by `f64` arithmetic (Boldo and Melquiond, 2008).
///
/// The product is exact in `f64`. The sum is rounded to odd: if it is inexact and even, it becomes the odd neighbour on
/// the side of the exact value. It has more than two bits more than an `f32`, so rounding it to `f32` gives the rounded
/// exact value.
#[inline(always)]
fn multiply_add_number(x: f32, y: f32, z: f32) -> f32 {
    let (p, z) = (f64::from(x) * f64::from(y), f64::from(z));
    let sum = p + z;
    // The exact error of the sum; NaN where it is infinite.
    let of_z = sum - p;
    let rest = (p - (sum - of_z)) + (z - of_z);
    let bits = sum.to_bits();
    let step = if (rest > 0.0) == (sum > 0.0) { 1 } else { u64::MAX };
    let exact = rest == 0.0 || rest.is_nan();
    f64::from_bits(if exact || bits & 1 == 1 { bits } else { bits.wrapping_add(step) }) as f32
}

/// As [`multiply_add_number`], lane by lane. Rounding twice is wrong only if the `f64` is halfway between two `f32`, or
/// possibly below the normal range of `f32`, where halfway points are others. In these cases all lanes call
/// [`multiply_add_number`].
#[inline(always)]
fn multiply_add_lanes(x: [f32; 4], y: [f32; 4], z: [f32; 4]) -> [f32; 4] {
    let (mut sums, mut care) = ([0f64; 4], 0u32);
    for i in 0..4 {
        sums[i] = f64::from(x[i]) * f64::from(y[i]) + f64::from(z[i]);
    }
    for sum in sums {
        let bits = sum.to_bits();
        let middle = bits as u32 & 0x1fff_ffff == 0x1000_0000;
        // The exponent of 2⁻¹²⁶; 0 is exact.
        let small = ((bits >> 32) as u32 & 0x7fff_ffff).wrapping_sub(1) < 0x3810_0000 - 1;
        care |= u32::from(middle | small);
    }
    if care != 0 {
        return multiply_add_each(x, y, z);
    }
    sums.map(|sum| sum as f32)
}

/// [`multiply_add_number`] of each lane: a rare case, kept out of the loops that would grow by it.
#[cold]
#[inline(never)]
fn multiply_add_each(x: [f32; 4], y: [f32; 4], z: [f32; 4]) -> [f32; 4] {
    std::array::from_fn(|i| multiply_add_number(x[i], y[i], z[i]))
}

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
/// Element by element.
macro_rules! of_lanes {
    ($t:ident, $n:literal, |$x:ident, $y:ident, $z:ident| $fma:expr) => {
        vectors! {
            Portable, $t in [$t; $n], mask usize, half Portable = Portable, block $n,
            broadcast: |x| [x; $n],
            add: |a, b| {
                let mut r = a;
                for i in 0..$n {
                    r[i] = a[i] + b[i];
                }
                r
            },
            fma: |$x, $y, $z| if FUSED {
                let mut r = $z;
                for i in 0..$n {
                    r[i] = $x[i].mul_add($y[i], $z[i]);
                }
                r
            } else {
                $fma
            },
            mask: |lanes| lanes,
            load: |from| from.cast::<[$t; $n]>().read_unaligned(),
            load_partial: |from, lanes| first_lanes(from, lanes),
            store: |to, v| to.cast::<[$t; $n]>().write_unaligned(v),
            store_partial: |to, lanes, v| write_first_lanes(to, lanes, v),
            transpose_block: |from, step, to, to_step| {
                for q in 0..$n {
                    for l in 0..$n {
                        to.add(q * to_step + l).write(from.add(l * step + q).read());
                    }
                }
            },
            hsum: |r| {
                let mut sums = [0.0; J];
                for j in 0..J {
                    let (mut v, mut half) = (r[j], $n / 2);
                    while half > 0 {
                        for l in 0..half {
                            v[l] += v[l + half];
                        }
                        half /= 2;
                    }
                    sums[j] = v[0];
                }
                sums
            },
        }
    };
}

of_lanes!(f32, 4, |x, y, z| multiply_add_lanes(x, y, z));
of_lanes!(f64, 2, |x, y, z| [x[0].mul_add(y[0], z[0]), x[1].mul_add(y[1], z[1])]);

#[cfg(test)]
mod tests {
    use super::*;

    /// Operands of kind `kind % 4`: any bits; sums near ties; sums near the normal range's end; sums that cancel.
    fn operands(kind: u64, r: u64, q: u64) -> (f32, f32, f32) {
        let number = |bits: u64| f32::from_bits(bits as u32);
        let one = |bits: u64| f32::from_bits(0x3f80_0000 | bits as u32 & 0x7f_ffff);
        let few = |bits: u64| (1 << 23 | bits as u32 & 0x7f_0007) as f32;
        match kind % 4 {
            0 => (number(r), number(r >> 32), number(q)),
            1 => {
                let size = |at: u64, n: i32, low: i32| 2f32.powi((at % 64) as i32 % n - low);
                let sign = if q & 1 == 0 { 1.0 } else { -1.0 };
                (
                    few(r) * size(r >> 40, 20, 30),
                    few(q) * size(q >> 40, 20, 30),
                    sign * few(r >> 20) * size(q >> 50, 60, 60),
                )
            }
            2 => (number(r & 0x1fff_ffff), number((r >> 32) & 0x1fff_ffff), number(q & 0x80ff_ffff)),
            _ => {
                let (x, y) = (one(r), one(r >> 32));
                (x, y, -(x * y) * if q & 1 == 0 { 1.0 } else { 2f32.powi(-((q >> 20 & 31) as i32)) })
            }
        }
    }

    #[test]
    fn sums_by_f64_are_rounded_once() {
        let mut state = 88_172_645_463_325_252u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for kind in 0..crate::harness::fewer_under_miri(400_000, 400) {
            let all: [(f32, f32, f32); 4] = std::array::from_fn(|_| operands(kind, next(), next()));
            let lanes = multiply_add_lanes(all.map(|t| t.0), all.map(|t| t.1), all.map(|t| t.2));
            for ((x, y, z), lane) in all.into_iter().zip(lanes) {
                let want = x.mul_add(y, z);
                for got in [lane, multiply_add_number(x, y, z)] {
                    assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{x:e} {y:e} {z:e}");
                }
            }
        }
    }
}
