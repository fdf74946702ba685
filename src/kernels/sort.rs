//! Orders of rows: where each element of a row would stand if the row were sorted.
//!
//! Invariant: equal elements keep their order, NaN stand last, and nothing allocates. For the lowering of `arg_sort`.
//!
//! | kernel | reads | writes | params |
//! |---|---|---|---|
//! | [`arg_sort`] | x: `T[rows, n]` | positions: `i32[rows, n]` | [`Sort`] |

use crate::kernels::abi::Args;
use crate::kernels::num::Num;
use crate::kernels::params::params;
use std::cmp::Ordering;

/// Elements in one unit, about.
const UNIT: usize = 1024;

params! {
    /// Params of [`arg_sort`].
    pub struct Sort {
        /// Number of rows.
        pub rows: usize,
        /// Elements in each; they fit an `i32`.
        pub n: usize,
        /// Whether the largest comes first.
        pub descending: bool,
    }
}

impl Sort {
    /// Elements of the output in each unit: whole rows.
    pub fn per_unit(&self) -> usize {
        let row = self.n.max(1);
        row * (UNIT / row).max(1)
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        (self.rows * self.n).div_ceil(self.per_unit())
    }
}

/// Less comes first. Ties are broken by position, which makes any sort a stable one.
fn order<T: Num>(x: &[T], descending: bool, a: i32, b: i32) -> Ordering {
    let (u, v) = (x[a as usize], x[b as usize]);
    let by_value = match (u.unordered(), v.unordered()) {
        (false, false) if descending => v.partial_cmp(&u),
        (false, false) => u.partial_cmp(&v),
        (u, v) => Some(u.cmp(&v)),
    };
    by_value.unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// Positions of the elements of each row in sorted order.
///
/// Reads x: `T[rows, n]`; writes positions: `i32[rows, n]`, [`Sort::per_unit`]; params [`Sort`].
pub fn arg_sort<T: Num>(args: &mut Args<'_>) {
    let p = Sort::from_words(args.params());
    let lo = args.units().start * p.per_unit();
    let (x, out) = (args.read::<T>(0), args.write::<i32>(0));
    for (x, out) in x[lo..].chunks_exact(p.n.max(1)).zip(out.chunks_exact_mut(p.n.max(1))) {
        out.iter_mut().zip(0..).for_each(|(o, i)| *o = i);
        out.sort_unstable_by(|&a, &b| order(x, p.descending, a, b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::harness::{In, Out, get, run};

    #[test]
    fn rows_sort_as_a_stable_sort_does() {
        let nan = f32::NAN;
        let cell = |i: usize| if i % 11 == 3 { nan } else { ((i * 7919) % 13) as f32 - 6.0 };
        for (rows, n) in [(0, 4), (1, 1), (3, 17), (70, 40), (2, 3000)] {
            for descending in [false, true] {
                let x: Vec<f32> = (0..rows * n).map(cell).collect();
                let p = Sort { rows, n, descending };
                let out = [Out::of::<i32>(rows * n, p.per_unit())];
                let got: Vec<i32> = get(&run(arg_sort::<f32>, &p.to_words(), &[In::of(&x)], &out, p.units()), 0);
                for (row, got) in x.chunks(n).zip(got.chunks(n)) {
                    let mut want: Vec<i32> = (0..n as i32).collect();
                    // The key of a NaN is above all; slice::sort_by is stable.
                    let key = |i: i32| match row[i as usize] {
                        v if v.is_nan() => f32::INFINITY,
                        v if descending => -v,
                        v => v,
                    };
                    want.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
                    assert_eq!(got, want, "{rows} rows of {n}, descending: {descending}");
                }
            }
        }
    }
}
