//! Grouped products against loops over rows.

use super::group_rows::{GroupRows, group_rows_kernel, group_starts_kernel};
use super::outer::{GroupedOuter, grouped_outer_kernel};
use super::product::{GroupedProduct, grouped_product_kernel};
use crate::abi::Split;
use crate::gemm::GemmFloat;
use crate::harness::{In, Out, close, hash_numbers, run_in_ranges, written_elements};
use crate::index::Index;
use arenagrad_arena::dtype::DType;

/// Rows, terms, columns, groups: empty ones, one row, few rows in many groups, many rows in few, long sums.
const SHAPES: [(usize, usize, usize, usize); 9] = [
    (0, 3, 4, 2),
    (1, 1, 1, 1),
    (7, 5, 3, 4),
    (5, 9, 700, 3),
    (3, 2000, 300, 2),
    (40, 0, 6, 3),
    (130, 17, 33, 2),
    (1000, 24, 20, 8),
    (90, 600, 65, 1),
];

/// A group for each row: some have none, and the last row's is the last one.
fn groups(rows: usize, count: usize) -> Vec<i32> {
    let group = |i: usize| if i + 1 == rows { count - 1 } else { (i * i + i / 7) % count.max(2) / 2 * 2 % count };
    (0..rows).map(|i| group(i) as i32).collect()
}

/// Order, places and starts of `group`.
fn sorted<I: Index>(group: &[I], count: usize) -> Result<[Vec<i32>; 3], usize> {
    let (rows, whole) = (group.len(), |len| Out(len, size_of::<i32>(), Split::Whole));
    let p = GroupRows { rows, groups: count };
    let writes = [whole(rows), whole(rows), whole(count + 1)];
    // One unit: the harness has one range with it, and empty ones.
    let out = run_in_ranges(group_rows_kernel::<I>, &p.to_words(), &[In::of(group)], &writes, 1);
    out.as_ref()
        .map(|_| [written_elements(&out, 0), written_elements(&out, 1), written_elements(&out, 2)])
        .map_err(|e| *e)
}

#[test]
fn rows_are_sorted_by_group_and_keep_their_order() {
    for (rows, _, _, count) in SHAPES {
        let group = groups(rows, count);
        let mut want: Vec<i32> = (0..rows as i32).collect();
        want.sort_by_key(|&i| group[i as usize]);
        let [order, places, starts] = sorted(&group, count).unwrap();
        assert_eq!(order, want);
        assert!((0..rows).all(|i| order[places[i] as usize] == i as i32));
        let first = |e: usize| group.iter().filter(|&&g| (g as usize) < e).count() as i32;
        assert_eq!(starts, (0..=count).map(first).collect::<Vec<_>>());
        let wide: Vec<i64> = group.iter().map(|&g| i64::from(g)).collect();
        assert_eq!(sorted(&wide, count).unwrap(), [order, places, starts.clone()]);
        // The sizes give the same starts.
        let sizes: Vec<i64> = starts.windows(2).map(|w| i64::from(w[1] - w[0])).collect();
        assert_eq!(starts_of(&sizes, rows), Ok(starts));
    }
}

fn starts_of(sizes: &[i64], rows: usize) -> Result<Vec<i32>, usize> {
    let p = GroupRows { rows, groups: sizes.len() };
    let writes = [Out(sizes.len() + 1, size_of::<i32>(), Split::Whole)];
    let out = run_in_ranges(group_starts_kernel::<i64>, &p.to_words(), &[In::of(sizes)], &writes, 1);
    out.as_ref().map(|_| written_elements(&out, 0)).map_err(|e| *e)
}

#[test]
fn a_group_out_of_range_and_sizes_that_do_not_fit_are_faults() {
    assert_eq!(sorted(&[0, 1, 3, -1], 3).unwrap_err(), 2);
    assert_eq!(sorted(&[i64::MAX, 0], 3).unwrap_err(), 0);
    assert_eq!(sorted(&[1i64 << 32], 3).unwrap_err(), 0);
    assert_eq!(starts_of(&[2, -1, 2], 3), Err(1));
    assert_eq!(starts_of(&[0, 0, i64::MAX], 3), Err(2));
    assert!(starts_of(&[2, 2], 3).is_err() && starts_of(&[1, 1], 3).is_err() && starts_of(&[], 1).is_err());
}

/// The rows of `x`, of `n` elements, in `order`.
fn reordered<T: Copy>(x: &[T], order: &[i32], n: usize) -> Vec<T> {
    order.iter().flat_map(|&i| x[i as usize * n..][..n].to_vec()).collect()
}

fn scratch<T>(len: usize) -> Out {
    Out(len, size_of::<T>(), Split::PerThread(len))
}

fn check_products<T: GemmFloat>(dtype: DType, tolerance: f64) {
    for (rows, k, n, count) in SHAPES {
        let group = groups(rows, count);
        let [order, _, starts] = sorted(&group, count).unwrap();
        let (x, w, g): (Vec<T>, Vec<T>, Vec<T>) =
            (hash_numbers(rows * k, 1), hash_numbers(count * k * n, 2), hash_numbers(rows * n, 3));
        let (xs, gs) = (reordered(&x, &order, k), reordered(&g, &order, n));
        for transposed in [false, true] {
            let p = GroupedProduct { rows, k, n, groups: count, transposed };
            assert_eq!(GroupedProduct::from_words(&p.to_words()), p);
            let (split, units) = p.division();
            let writes = [Out(rows * n, size_of::<T>(), split), scratch::<T>(p.scratch(dtype))];
            let reads = [In::of(&xs), In::of(&w), In::of(&starts)];
            let y: Vec<T> =
                written_elements(&run_in_ranges(grouped_product_kernel::<T>, &p.to_words(), &reads, &writes, units), 0);
            let want: Vec<f64> = (0..rows * n)
                .map(|at| {
                    let (i, j) = (order[at / n] as usize, at % n);
                    let base = group[i] as usize * k * n;
                    let at = |t: usize| base + if transposed { j * k + t } else { t * n + j };
                    (0..k).map(|t| x[i * k + t].to_f64() * w[at(t)].to_f64()).sum()
                })
                .collect();
            let got: Vec<f64> = y.iter().map(|y| y.to_f64()).collect();
            close(&got, &want, tolerance * (k as f64).max(1.0));
        }
        let p = GroupedOuter { rows, k, n, groups: count };
        let writes = [Out::of::<T>(count * k * n, p.per_unit()), scratch::<T>(p.scratch(dtype))];
        let reads = [In::of(&xs), In::of(&gs), In::of(&starts)];
        let y: Vec<T> =
            written_elements(&run_in_ranges(grouped_outer_kernel::<T>, &p.to_words(), &reads, &writes, p.units()), 0);
        let mut want = vec![0.0; count * k * n];
        for (i, &e) in group.iter().enumerate() {
            for (t, j) in (0..k).flat_map(|t| (0..n).map(move |j| (t, j))) {
                want[(e as usize * k + t) * n + j] += x[i * k + t].to_f64() * g[i * n + j].to_f64();
            }
        }
        let got: Vec<f64> = y.iter().map(|y| y.to_f64()).collect();
        close(&got, &want, tolerance * (rows as f64).max(1.0));
        let idle = |e: usize| !group.contains(&(e as i32));
        assert!((0..count * k * n).all(|at| !idle(at / (k * n)) || got[at].to_bits() == 0), "zeros, exactly");
    }
}

#[test]
fn products_are_those_of_a_loop_over_rows() {
    check_products::<f64>(DType::F64, 1e-15);
    check_products::<f32>(DType::F32, 3e-7);
}

#[test]
fn a_row_does_not_depend_on_the_others() {
    let (k, n) = (300, 50);
    let w: Vec<f32> = hash_numbers(2 * k * n, 1);
    let x: Vec<f32> = hash_numbers(100 * k, 2);
    let rows = |rows: usize, transposed: bool| -> Vec<f32> {
        let p = GroupedProduct { rows, k, n, groups: 2, transposed };
        let (split, units) = p.division();
        let writes = [Out(rows * n, 4, split), scratch::<f32>(p.scratch(DType::F32))];
        let reads = [In::of(&x[..rows * k]), In::of(&w), In::of(&[0, rows as i32, rows as i32])];
        written_elements(&run_in_ranges(grouped_product_kernel::<f32>, &p.to_words(), &reads, &writes, units), 0)
    };
    for transposed in [false, true] {
        let all = rows(100, transposed);
        assert!([1, 2, 30, 60].iter().all(|&m| rows(m, transposed) == all[..m * n]), "transposed: {transposed}");
    }
}
