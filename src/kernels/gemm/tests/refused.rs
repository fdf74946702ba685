//! Descriptors of one's own: what does not fit its slices is refused before anything is read, whatever the strides.

use super::*;
use crate::gemm::operands::Dots;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of elements that 16 columns of this stride seem to end at, where the product wraps, is small.
const WRAPS: usize = 0x2492_4924_9249_2493;

/// C, if the product is computed. The elements around A and B are NaN.
fn computed<T: GemmFloat>(g: &Gemm, lens: (usize, usize)) -> Option<Vec<T>> {
    let around = |len: usize| {
        let mut all = vec![T::NAN; len + 128];
        all[64..64 + len].fill(T::ONE);
        all
    };
    let (a, b, mut c) = (around(lens.0), around(lens.1), vec![T::ZERO; g.m * g.n]);
    let (a, b) = (&a[64..64 + lens.0], &b[64..64 + lens.1]);
    let mut scratch = vec![T::NAN; g.scratch_len::<T>()];
    let done = catch_unwind(AssertUnwindSafe(|| gemm(g, a, b, None, &mut c, 0..g.units(), &mut scratch)));
    let Err(panic) = done else { return Some(c) };
    let text = panic.downcast_ref::<String>().map_or("", String::as_str);
    assert!(text.contains("are too short for the product"), "{g:?}: {text:?}");
    None
}

#[test]
fn strides_whose_products_wrap_are_refused() {
    let dots = Gemm::new(4, 16, 1024).with_b_transposed();
    let wrapped = Gemm { b: Strides { row: 1, col: WRAPS }, ..dots };
    assert!(WRAPS.wrapping_mul(7) == 5 && matches!(Algorithm::of::<f32>(&wrapped), Algorithm::Dots));
    assert!(wrapped.b_len().is_none() && dots.b_len() == Some(16 * 1024));
    assert!(
        computed::<f32>(&wrapped, (4096, 16 * 1024)).is_none() && computed::<f64>(&wrapped, (4096, 2048)).is_none()
    );
    // The same strides in each place, under each algorithm.
    for (m, n, k) in [(1, 16, 64), (16, 1, 64), (16, 16, 1), (4, 16, 1024), (32, 128, 64), (40, 40, 40), (8, 9, 3)] {
        let g = Gemm::new(m, n, k);
        for step in [WRAPS, 1 << 62, 1 << 63, usize::MAX, usize::MAX / 3 + 1] {
            let mut all = vec![];
            all.extend([Strides { row: step, col: 1 }, Strides { row: 1, col: step }].map(|a| Gemm { a, ..g }));
            all.extend([Strides { row: step, col: 1 }, Strides { row: 1, col: step }].map(|b| Gemm { b, ..g }));
            all.extend([(step, 0), (0, step)].map(|(a, b)| g.with_batch(&[Batch { size: 3, a, b }]).unwrap()));
            for g in all {
                let fits = [g.a_len(), g.b_len()].iter().all(|len| len.is_some_and(|len| len <= 5000));
                assert_eq!(computed::<f32>(&Gemm { precision: Precision::Bf16, ..g }, (5000, 5000)).is_some(), fits);
                assert_eq!(computed::<f64>(&g, (5000, 5000)).is_some(), fits, "{g:?}");
            }
        }
    }
}

/// Slices that lack one element are refused, and those that have all of them are read no further.
#[test]
fn slices_are_read_to_their_end_and_no_further() {
    let shapes = [(1, 7, 5), (6, 1, 70), (9, 8, 1), (3, 5, 300), (16, 40, 33), (20, 9, 17)];
    for (m, n, k) in fewer_under_miri(shapes.to_vec(), vec![(1, 7, 5), (3, 5, 40)]) {
        for g in layouts(Gemm::new(m, n, k)) {
            let (a, b) = (g.a_len().unwrap(), g.b_len().unwrap());
            let c = computed::<f32>(&g, (a, b)).unwrap();
            assert!(c.iter().all(|c| *c == k as f32), "{g:?}: {c:?}");
            assert!(computed::<f32>(&g, (a - 1, b)).is_none() && computed::<f32>(&g, (a, b - 1)).is_none(), "{g:?}");
        }
    }
}

#[test]
fn dot_products_check_their_rows_themselves() {
    let x = vec![1f32; 64];
    for (x_step, step) in [(16, WRAPS), (WRAPS, 16), (16, 17), (usize::MAX, 0)] {
        let mut out = vec![0f32; 16];
        let out = MatrixMut::new(&mut out, 4, 4);
        let d = AssertUnwindSafe(Dots { x: &x, x_step, k: 16, rows: &x, step, out, add: false });
        assert!(catch_unwind(|| f32::dots(Token::current(), { d }.0)).is_err(), "{x_step} {step}");
    }
}

#[test]
fn numbers_of_elements_saturate() {
    let half = 1 << 32;
    let g = Gemm::new(half, half, half).with_batch(&[Batch { size: 5, a: 0, b: half }]).unwrap();
    assert_eq!((g.len(), g.all_b(), g.batches()), (usize::MAX, usize::MAX, 5));
    assert_eq!((g.is_empty(), Gemm { n: 0, ..g }.len(), g.a_len(), g.b_len()), (false, 0, None, None));
    assert_eq!(g.offsets(4), (0, 4 * half));
    assert_eq!(Gemm::new(2, 2, 2).with_batch(&[Batch { size: 3, a: WRAPS, b: 1 }]).unwrap().offsets(2).0, 2 * WRAPS);
    // Two dimensions whose sizes or strides together exceed `usize` stay apart.
    let [o, i] = [Batch { size: half, a: 0, b: 0 }, Batch { size: half, a: 0, b: 0 }];
    assert_eq!(
        Gemm { a: Strides { row: 0, col: 1 }, ..Gemm::new(3, 3, 3) }.with_batch(&[o, i]).unwrap().len(),
        usize::MAX
    );
    let wraps = [Batch { size: 2, a: 5, b: 5 }, Batch { size: 7, a: WRAPS, b: WRAPS }];
    assert_eq!(Gemm::new(3, 3, 3).with_batch(&wraps).unwrap().batch(), wraps);
    let rows = Gemm { a: Strides { row: WRAPS, col: 1 }, ..Gemm::new(7, 3, 3) };
    assert_eq!(rows.with_batch(&[Batch { size: 2, a: 5, b: 0 }]).unwrap().m, 7);
}

/// A row that is broadcast by a stride of 0, as an outer product.
#[test]
fn the_rows_of_an_outer_product_may_be_one() {
    let g = Gemm { a: Strides { row: 0, col: 1 }, ..Gemm::new(5, 3, 1) };
    assert_eq!(g.a_len(), Some(1));
    let mut c = vec![0f32; 15];
    gemm(&g, &[2.0], &[1.0, 3.0, 5.0], None, &mut c, 0..g.units(), &mut []);
    assert_eq!(c, [2.0, 6.0, 10.0].repeat(5));
}

#[test]
fn an_empty_product_reads_no_operand() {
    for (m, n, k) in [(1, 0, 8), (1, 0, 300), (0, 1, 8), (0, 7, 8), (6, 0, 5)] {
        let g = Gemm::new(m, n, k);
        for g in [g, g.with_b_transposed()] {
            let c = computed::<f32>(&g, (0, 0));
            assert!(c.is_some_and(|c| c.is_empty()) && computed::<f64>(&g, (0, 0)).is_some(), "{g:?}");
        }
    }
}
