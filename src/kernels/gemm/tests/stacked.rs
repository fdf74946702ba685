//! Tests of sums of products over a stack: they have the bits of products that accumulate, one after another.

use super::super::stacked_product::{StackedProduct, compute_stack};
use super::*;

/// The sum of one product after another.
fn one_by_one<T: GemmFloat>(s: &StackedProduct, a: &[T], b: &[T], c: &[T]) -> Vec<T> {
    let place = |t: usize| if s.reverse { s.count - 1 - t } else { t };
    (0..s.count).map(place).fold(c.to_vec(), |c, t| {
        let (a, b) = (a[t * s.a..].to_vec(), b[t * s.b..].to_vec());
        Case { g: s.one, a, b, third: Vec::new(), c }.by(Token::current(), 1, None)
    })
}

fn check_stack<T: GemmFloat>(s: StackedProduct) {
    let len = |one: Option<usize>, step: usize| one.unwrap_or(0) + s.count.saturating_sub(1) * step;
    let a = numbers::<T>(3, len(s.one.a_len(), s.a));
    let b = numbers::<T>(5, len(s.one.b_len(), s.b));
    let c = numbers::<T>(7, s.one.len());
    let (want, whole) = (one_by_one(&s, &a, &b, &c), s.whole());
    for token in tokens() {
        for parts in [1, 3] {
            let mut got = c.clone();
            for p in 0..parts {
                let units = whole.units() * p / parts..whole.units() * (p + 1) / parts;
                let mut scratch = vec![T::NAN; s.scratch_len::<T>()];
                let own = whole.unit_elements(&units);
                if own.is_empty() {
                    continue;
                }
                let (at, c) = rows_of_units(&whole, &mut got[own], &units);
                compute_stack(token, &s, (&a, &b), at, c, &mut scratch);
            }
            assert!(got == want, "{s:?} differs by {token:?} in {parts} parts");
        }
    }
}

/// Stacks of products in every layout, in both directions.
fn check_stacks(one: Gemm, count: usize) {
    for one in layouts(Gemm { accumulate: true, ..one }) {
        let (a, b) = (one.a_len().unwrap_or(0) + 3, one.b_len().unwrap_or(0) + 1);
        for reverse in [false, true] {
            let s = StackedProduct { one, count, a, b, reverse };
            check_stack::<f32>(s);
            check_stack::<f64>(s);
        }
    }
}

#[test]
fn stacks_have_the_bits_of_one_product_after_another() {
    // Rank 1, few terms, counts that are no multiple of what is gathered, long and single products, vectors.
    let all = vec![(33, 40, 1, 300), (60, 70, 8, 37), (7, 130, 3, 50), (50, 9, 200, 3), (1, 40, 5, 60), (40, 1, 5, 60)];
    for (m, n, k, count) in fewer_under_miri(all, vec![(5, 6, 2, 70)]) {
        check_stacks(Gemm::new(m, n, k), count);
    }
    check_stacks(Gemm::new(3, 4, 2), 1);
}

#[test]
fn blocks_of_rows_and_columns_of_a_stack() {
    for (m, n) in fewer_under_miri(vec![(530, 20), (20, 1040)], vec![]) {
        let one = Gemm { accumulate: true, ..Gemm::new(m, n, 4).with_a_transposed() };
        check_stack::<f32>(StackedProduct { one, count: 40, a: 4 * m, b: 4 * n, reverse: true });
    }
}

#[test]
fn batches_of_stacks_of_outer_products() {
    let one = Gemm { accumulate: true, ..Gemm::new(9, 11, 1).with_a_transposed() };
    let one = one.with_batch(&[Batch { size: 3, a: 9, b: 11 }, Batch { size: 2, a: 0, b: 33 }]).unwrap();
    for reverse in [false, true] {
        check_stack::<f32>(StackedProduct { one, count: 150, a: 27, b: 66, reverse });
    }
}

#[test]
fn words_of_a_stack_come_back() {
    let one = Gemm { accumulate: true, ..Gemm::new(3, 4, 5) };
    let s = StackedProduct { one, count: 7, a: 15, b: 20, reverse: true };
    assert_eq!(StackedProduct::from_words(&s.to_words()), Some(s));
    assert_eq!(StackedProduct::from_words(&one.to_words()), None);
}
