//! Tests of the kernels in `index.rs`: against naive loops in f64, at the edges of shapes and values, in 1, 2, 3 and 7
//! unit ranges (see `harness`).

use super::scatter::{scatter_add_kernel, scatter_along_axis_add_kernel};
use super::*;
use crate::abi::Kernel;
use crate::harness::{In, Out, Outcome, noise, run_in_ranges, written_elements};

/// outer, n, k, inner.
const SHAPES: [[usize; 4]; 14] = [
    [1, 1, 1, 1],
    [1, 5, 0, 1],
    [0, 5, 3, 2],
    [3, 5, 2, 0],
    [1, 10, 9000, 1],
    [1, 9000, 50, 1],
    [1, 700, 40, 33],
    [1, 3, 40, 5000],
    [5, 7, 4, 1],
    [300, 7, 40, 1],
    [4, 6, 9, 3],
    [3, 50, 1, 200],
    [2, 1, 5000, 2],
    [900, 2, 3, 5],
];

fn indices(len: usize, n: usize) -> Vec<i64> {
    noise(len, 5).iter().map(|x| ((x + 1.0) / 2.0 * n as f64) as i64).collect()
}

fn call<T: Pod, I: Index>(kernel: Kernel, p: &Indexed, x: &[T], idx: &[I], adds: bool) -> Outcome {
    assert_eq!(Indexed::from_words(&p.to_words()), *p);
    let (len, per, units) = match adds {
        true => (p.outer * p.n * p.inner, p.per_unit_scatter(), p.units_scatter()),
        false => (p.outer * p.k * p.inner, p.per_unit(), p.units()),
    };
    run_in_ranges(kernel, &p.to_words(), &[In::of(x), In::of(idx)], &[Out::of::<T>(len, per)], units)
}

#[test]
fn agree_with_the_naive_loops() {
    for [outer, n, k, inner] in SHAPES {
        let p = Indexed { outer, n, k, inner };
        let table: Vec<u16> = (0..outer * n * inner).map(|i| i as u16).collect();
        let updates: Vec<i32> = (0..outer * k * inner).map(|i| i as i32 % 100 - 50).collect();
        let idx = indices(k, n);
        let idx32: Vec<i32> = idx.iter().map(|i| *i as i32).collect();
        let each = indices(outer * k * inner, n);
        let parts = |e: usize| (e / (k * inner), e / inner % k, e % inner);
        let (mut taken, mut along) = (vec![], vec![]);
        let (mut added, mut added_along) = (vec![0i32; table.len()], vec![0i32; table.len()]);
        for e in 0..outer * k * inner {
            let (o, j, i) = parts(e);
            let at = (o * n + idx[j] as usize) * inner + i;
            let own = (o * n + each[e] as usize) * inner + i;
            taken.push(table[at]);
            along.push(table[own]);
            added[at] += updates[e];
            added_along[own] += updates[e];
        }
        assert_eq!(written_elements::<u16>(&call(gather_kernel::<u16, i64>, &p, &table, &idx, false), 0), taken);
        assert_eq!(written_elements::<u16>(&call(gather_kernel::<u16, i32>, &p, &table, &idx32, false), 0), taken);
        assert_eq!(
            written_elements::<u16>(&call(take_along_axis_kernel::<u16, i64>, &p, &table, &each, false), 0),
            along
        );
        assert_eq!(written_elements::<i32>(&call(scatter_add_kernel::<i32, i64>, &p, &updates, &idx, true), 0), added);
        let got = call(scatter_along_axis_add_kernel::<i32, i64>, &p, &updates, &each, true);
        assert_eq!(written_elements::<i32>(&got, 0), added_along);
    }
}

#[test]
fn duplicates_add_up_in_order() {
    // In another order the small numbers would be rounded differently.
    let x = [1e8f32, 1.0, -1e8, 1.0, 3.0, 4.0];
    let p = Indexed { outer: 1, n: 3, k: 6, inner: 1 };
    let idx = [2i32, 2, 2, 2, 0, 0];
    let want = [7.0, 0.0, ((1e8f32 + 1.0) - 1e8) + 1.0];
    assert_eq!(written_elements::<f32>(&call(scatter_add_kernel::<f32, i32>, &p, &x, &idx, true), 0), want);
    assert_eq!(written_elements::<f32>(&call(scatter_along_axis_add_kernel::<f32, i32>, &p, &x, &idx, true), 0), want);
}

#[test]
fn bad_indices_are_named() {
    for bad in [-1, 5, i64::MIN, i64::MAX] {
        for (outer, inner) in [(1, 1), (3, 1), (1, 4), (2, 3)] {
            let p = Indexed { outer, n: 5, k: 900, inner };
            let x = vec![1f64; outer * 900 * inner];
            let mut idx = vec![4i64; 900];
            (idx[800], idx[701]) = (bad, bad);
            assert_eq!(call(gather_kernel::<f64, i64>, &p, &x, &idx, false), Err(701));
            assert_eq!(call(scatter_add_kernel::<f64, i64>, &p, &x, &idx, true), Err(701));
            let mut each = vec![0i64; x.len()];
            let at = x.len() - 3;
            (each[at], each[at + 1]) = (bad, bad);
            assert_eq!(call(take_along_axis_kernel::<f64, i64>, &p, &x, &each, false), Err(at));
            assert_eq!(call(scatter_along_axis_add_kernel::<f64, i64>, &p, &x, &each, true), Err(at));
        }
    }
    // Every index into an empty table is bad.
    let p = Indexed { outer: 1, n: 0, k: 2, inner: 1 };
    assert_eq!(call::<f64, i64>(gather_kernel::<f64, i64>, &p, &[], &[0, 0], false), Err(0));
}
