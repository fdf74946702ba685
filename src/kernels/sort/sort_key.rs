//! Elements and their positions as integers of the same order.
//!
//! Invariant: of two packed elements of a row, the lesser is the one that comes first in the stable order, NaN last. So
//! an unstable sort of them gives the stable order.

use crate::num::Num;
use bytemuck::Pod;

/// Values of a digit.
const RADIX: usize = 256;
/// Rows of fewer elements are sorted by comparisons.
const SHORT: usize = 192;

/// A number that can be packed with its position.
pub trait SortKey: Num {
    /// The order of the number in the upper half, its position in the lower one.
    type Packed: Pod + Ord;

    /// The element at `place` of a row.
    fn pack(self, descending: bool, place: usize) -> Self::Packed;
    /// The position.
    fn place(packed: Self::Packed) -> usize;
    /// Byte `at` of the order; byte 0 is the lowest.
    fn digit(packed: Self::Packed, at: usize) -> usize;
}

macro_rules! sort_keys {
    ($($t:ident $key:ident $packed:ident |$x:ident, $falls:ident| $order:expr;)*) => {$(
        impl SortKey for $t {
            type Packed = $packed;

            #[inline(always)]
            fn pack(self, $falls: bool, place: usize) -> $packed {
                let $x = self;
                let order: $key = $order;
                ($packed::from(order) << $key::BITS) | place as $packed
            }
            #[inline(always)]
            fn place(packed: $packed) -> usize {
                packed as $key as usize
            }
            #[inline(always)]
            fn digit(packed: $packed, at: usize) -> usize {
                (packed >> ($key::BITS as usize + 8 * at)) as u8 as usize
            }
        }
    )*};
}

/// The order of a float: zeros of both signs are equal, and so are all NaN.
macro_rules! float_order {
    ($t:ident, $key:ident, $x:ident, $falls:ident) => {{
        // A sum, so that −0 becomes 0. Negative numbers have their bits inverted, others their sign.
        let bits = ($x + 0.0).to_bits();
        let negative = (bits >> ($key::BITS - 1)).wrapping_neg();
        let order = bits ^ (negative | 1 << ($key::BITS - 1)) ^ ($falls as $key).wrapping_neg();
        if $x.is_nan() { $key::MAX } else { order }
    }};
}

sort_keys! {
    f32 u32 u64 |x, falls| float_order!(f32, u32, x, falls);
    f64 u64 u128 |x, falls| float_order!(f64, u64, x, falls);
    i32 u32 u64 |x, falls| x as u32 ^ 1 << 31 ^ (falls as u32).wrapping_neg();
    i64 u64 u128 |x, falls| x as u64 ^ 1 << 63 ^ (falls as u64).wrapping_neg();
}

/// Sorts packed elements whose positions ascend. `spare` is as long. Returns the half that has the result.
pub fn sort_packed<'k, T: SortKey>(keys: &'k mut [T::Packed], spare: &'k mut [T::Packed]) -> &'k mut [T::Packed] {
    if keys.len() < SHORT {
        keys.sort_unstable();
        return keys;
    }
    // By bytes from the lowest on. Each pass keeps the order of equal bytes, so positions need no pass.
    let mut counts = [[0u32; RADIX]; 8];
    let counts = &mut counts[..size_of::<T>()];
    for key in &*keys {
        for (at, counts) in counts.iter_mut().enumerate() {
            counts[T::digit(*key, at)] += 1;
        }
    }
    let (mut from, mut to) = (keys, spare);
    for (at, counts) in counts.iter_mut().enumerate() {
        if counts[T::digit(from[0], at)] as usize == from.len() {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        for key in &*from {
            let next = &mut counts[T::digit(*key, at)];
            to[*next as usize] = *key;
            *next += 1;
        }
        (from, to) = (to, from);
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    /// Whether packed elements have the order of numbers, then of positions.
    fn check<T: SortKey>(x: &[T]) {
        for descending in [false, true] {
            for (i, a) in x.iter().enumerate() {
                assert_eq!(T::place(a.pack(descending, i)), i);
                for (j, b) in x.iter().enumerate() {
                    let by_value = match (a.unordered(), b.unordered()) {
                        (false, false) if descending => b.partial_cmp(a).unwrap_or(Ordering::Equal),
                        (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                        (a, b) => a.cmp(&b),
                    };
                    let got = a.pack(descending, i).cmp(&b.pack(descending, j));
                    assert_eq!(got, by_value.then(i.cmp(&j)), "{a:?} and {b:?}, descending: {descending}");
                }
            }
        }
    }

    #[test]
    fn packed_elements_have_the_stable_order() {
        let inf = f32::INFINITY;
        let x = [0.0, -0.0, 1.0, -1.0, f32::NAN, -f32::NAN, inf, -inf, 1e-45, -1e-45, f32::MAX, f32::MIN, 1.0];
        check(&x);
        check(&x.map(f64::from));
        check(&[0, -1, 1, i32::MIN, i32::MAX, 7, 7]);
        check(&[0, -1, 1, i64::MIN, i64::MAX, 1 << 40, 1 << 40]);
    }
}
