//! Tests of factors and solves: naive products of the factors give the matrix back, for every division into units.

use super::cholesky::{Cholesky, cholesky_kernel};
use super::eigh::{Eigh, eigh_kernel};
use super::lu::{LuFactor, LuSolve, lu_kernel, lu_solve_kernel, lu_solve_small_kernel};
use super::qr::{Qr, qr_kernel};
use super::svd::{Svd, svd_kernel};
use super::triangular::{TriangularSolve, triangular_solve_kernel};
use super::*;
use crate::abi::{Kernel, Split};
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::harness::{In, Out, Outcome, close, fewer_under_miri, hash_numbers, noise, run_in_ranges, written_elements};
use crate::simd::{self, Isa};

/// `a · b`, with the operands transposed first where asked.
fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3], ta: bool, tb: bool) -> Vec<f64> {
    let at = |i: usize, p: usize| if ta { a[p * m + i] } else { a[i * k + p] };
    let bt = |p: usize, j: usize| if tb { b[j * k + p] } else { b[p * n + j] };
    (0..m * n).map(|e| (0..k).map(|p| at(e / n, p) * bt(p, e % n)).sum()).collect()
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|e| f64::from(u8::from(e / n.max(1) == e % n.max(1)))).collect()
}

fn wide<T: Float>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

/// Asserts that columns are orthonormal.
fn orthonormal(q: &[f64], m: usize, k: usize, tolerance: f64) {
    close(&product(q, q, [k, m, k], true, false), &identity(k), tolerance);
}

/// Scratch as the lowering has it: once for one matrix, else for each thread.
fn scratch<T>(count: usize, len: usize) -> Out {
    let (all, split) = if count == 1 { (len, Split::PerUnit(len)) } else { (7 * len, Split::PerThread(len)) };
    Out(all, size_of::<T>(), split)
}

fn decompose<T: Float>(kernel: Kernel, words: &[u64], a: &[T], outs: &[(usize, usize)], scratched: usize) -> Outcome {
    let count = outs[0].1;
    let mut writes: Vec<Out> = outs.iter().map(|&(len, count)| Out::of::<T>(len * count, len)).collect();
    writes.push(scratch::<T>(count, scratched));
    run_in_ranges(kernel, words, &[In::of(a)], &writes, count)
}

fn lu_of<T: GemmFloat>(count: usize, n: usize, a: &[T]) -> (Vec<T>, Vec<i32>, Vec<T>) {
    let p = LuFactor { count, n };
    let writes = [
        Out::of::<T>(count * n * n, n * n),
        Out::of::<i32>(count * n, n),
        Out::of::<T>(count, 1),
        scratch::<T>(p.count, p.scratch(size_of::<T>())),
    ];
    let apart = run_in_ranges(lu_kernel::<T>, &p.to_words(), &[In::of(a)], &writes, count);
    assert_eq!(apart, run_in_ranges(lu_kernel::<T>, &p.to_words(), &[In::of(a).over(0)], &writes, count));
    (written_elements(&apart, 0), written_elements(&apart, 1), written_elements(&apart, 2))
}

fn lu_gives_the_matrix_back<T: GemmFloat>(tolerance: f64) {
    for n in [0, 1, 2, 3, 5, 8, 31, 32, 33, 64, 65, 70, 129, 150, 257] {
        let a = hash_numbers::<T>(3 * n * n, 4);
        let (lu, rows, sign) = lu_of(3, n, &a);
        for m in 0..3 {
            let lu = wide(&lu[m * n * n..][..n * n]);
            let part = |e: usize, lower: bool| match (e / n).cmp(&(e % n)) {
                std::cmp::Ordering::Greater => {
                    if lower {
                        lu[e]
                    } else {
                        0.0
                    }
                }
                std::cmp::Ordering::Equal => {
                    if lower {
                        1.0
                    } else {
                        lu[e]
                    }
                }
                std::cmp::Ordering::Less => {
                    if lower {
                        0.0
                    } else {
                        lu[e]
                    }
                }
            };
            let l: Vec<f64> = (0..n * n).map(|e| part(e, true)).collect();
            let u: Vec<f64> = (0..n * n).map(|e| part(e, false)).collect();
            assert!(l.iter().all(|x| x.abs() <= 1.0), "the pivots are the largest magnitudes");
            let rows = &rows[m * n..][..n];
            let want: Vec<f64> = rows.iter().flat_map(|&r| wide(&a[m * n * n + r as usize * n..][..n])).collect();
            close(&product(&l, &u, [n, n, n], false, false), &want, tolerance);
            let inversions =
                (0..n).flat_map(|i| (0..i).map(move |j| (j, i))).filter(|&(j, i)| rows[j] > rows[i]).count();
            assert_eq!(sign[m].to_f64(), if inversions % 2 == 0 { 1.0 } else { -1.0 });
        }
    }
}

#[test]
fn lu_gives_the_permuted_matrix_back() {
    lu_gives_the_matrix_back::<f64>(1e-12);
    lu_gives_the_matrix_back::<f32>(2e-5);
}

#[test]
fn solves_give_the_right_hand_side_back() {
    for (n, k, transpose) in [(1, 1, false), (3, 1, false), (3, 2, true), (6, 1, true), (40, 5, false), (40, 5, true)] {
        // Two matrices, and three right-hand sides for each: [3, 2] from [2] and [3, 2].
        let (mut a, b) = (noise(2 * n * n, 7), noise(6 * n * k, 8));
        (0..2 * n).for_each(|i| a[i / n * n * n + i % n * (n + 1)] += 3.0);
        let map = BatchMap::to_words(&[3, 2], &[2], &[3, 2]);
        let (lu, rows, _) = lu_of(2, n, &a);
        let p = LuSolve { count: 6, n, k, transpose, nan: false };
        let writes = [Out::of::<f64>(6 * n * k, n * k), scratch::<f64>(p.count, p.scratch())];
        let reads = [In::of(&lu), In::of(&rows), In::of(&b)];
        let x: Vec<f64> = written_elements(
            &run_in_ranges(lu_solve_kernel::<f64>, &[p.to_words(), map.clone()].concat(), &reads, &writes, 6),
            0,
        );
        for m in 0..6 {
            let (a, x) = (&a[m % 2 * n * n..][..n * n], &x[m * n * k..][..n * k]);
            close(&product(a, x, [n, n, k], transpose, false), &b[m * n * k..][..n * k], 1e-11);
        }
        for (upper, unit) in [(false, false), (false, true), (true, false), (true, true)] {
            let p = TriangularSolve { count: 6, n, k, upper, transpose, unit, nan: false };
            // A unit triangle of many columns has a large inverse.
            let small: Vec<f64> = a.iter().map(|x| x * 0.2).collect();
            let words = [p.to_words(), map.clone()].concat();
            let reads = [In::of(&small), In::of(&b)];
            let x =
                run_in_ranges(triangular_solve_kernel::<f64>, &words, &reads, &[Out::of::<f64>(6 * n * k, n * k)], 6);
            let x: Vec<f64> = written_elements(&x, 0);
            for m in 0..6 {
                let mut t = small[m % 2 * n * n..][..n * n].to_vec();
                for (e, t) in t.iter_mut().enumerate() {
                    let (i, j) = (e / n, e % n);
                    let kept = if upper { i <= j } else { i >= j };
                    *t = match () {
                        _ if i == j && unit => 1.0,
                        _ if kept => *t,
                        _ => 0.0,
                    };
                }
                let x = &x[m * n * k..][..n * k];
                close(&product(&t, x, [n, n, k], transpose, false), &b[m * n * k..][..n * k], 1e-10);
            }
        }
    }
}

/// The factors of some matrices, X of A and of its transpose, and X without the factors.
fn small_systems<T: GemmFloat>(a: &[T], b: &[T], [count, n, k]: [usize; 3]) -> Vec<Outcome> {
    let p = LuFactor { count, n };
    let writes = [
        Out::of::<T>(count * n * n, n * n),
        Out::of::<i32>(count * n, n),
        Out::of::<T>(count, 1),
        scratch::<T>(p.count, p.scratch(size_of::<T>())),
    ];
    let factors = run_in_ranges(lu_kernel::<T>, &p.to_words(), &[In::of(a)], &writes, count);
    let (lu, rows) = (written_elements::<T>(&factors, 0), written_elements::<i32>(&factors, 1));
    let map = BatchMap::to_words(&[count], &[count], &[count]);
    let mut all = vec![factors];
    for transpose in [false, true] {
        let p = LuSolve { count, n, k, transpose, nan: true };
        let writes = [Out::of::<T>(count * n * k, n * k), scratch::<T>(p.count, p.scratch())];
        let reads = [In::of(&lu), In::of(&rows), In::of(b)];
        all.push(run_in_ranges(lu_solve_kernel::<T>, &[p.to_words(), map.clone()].concat(), &reads, &writes, count));
    }
    let p = LuSolve { count, n, k, transpose: false, nan: true };
    let writes = [Out::of::<T>(count * n * k, n * k), scratch::<T>(p.count, p.factor_scratch())];
    all.push(run_in_ranges(
        lu_solve_small_kernel::<T>,
        &[p.to_words(), map].concat(),
        &[In::of(a), In::of(b)],
        &writes,
        count,
    ));
    all
}

/// Whether all numbers have the same bits, or are NaN in both.
fn same_numbers<T: Float>(a: &[u8], b: &[u8]) -> bool {
    let nan = |x: &[u8]| bytemuck::pod_read_unaligned::<T>(x).is_nan();
    let mut pairs = a.chunks(size_of::<T>()).zip(b.chunks(size_of::<T>()));
    a.len() == b.len() && pairs.all(|(a, b)| a == b || (nan(a) && nan(b)))
}

fn groups_keep_each_bit<T: GemmFloat>() {
    for (n, k) in [(1, 1), (2, 3), (3, 1), (4, 1), (7, 2), (SMALL, 1), (SMALL, 3)] {
        let count = 27;
        let (mut a, b) = (hash_numbers::<T>(count * n * n, 11), hash_numbers::<T>(count * n * k, 12));
        // Of the second group, one matrix is zero, and one of the third has a NaN. A zero with a sign meets no pivot.
        a[11 * n * n..12 * n * n].fill(T::ZERO);
        a[17 * n * n] = T::NAN;
        a[20 * n * n] = -T::ZERO;
        let all = small_systems(&a, &b, [count, n, k]);
        let parts = |outcome: &Outcome, i: usize, m: usize| {
            let bytes = &outcome.as_ref().unwrap()[i];
            bytes[m * bytes.len() / count..(m + 1) * bytes.len() / count].to_vec()
        };
        for m in 0..count {
            let alone = small_systems(&a[m * n * n..][..n * n], &b[m * n * k..][..n * k], [1, n, k]);
            for (together, alone) in all.iter().zip(&alone) {
                let alone = alone.as_ref().unwrap();
                for (i, alone) in alone.iter().enumerate().take(alone.len() - 1) {
                    // The rows of the factors are no numbers of `T`.
                    let (together, rows) = (parts(together, i, m), i == 1);
                    let same = if rows { together == *alone } else { same_numbers::<T>(&together, alone) };
                    assert!(same, "{n} {k} {m}: {together:?} {alone:?}");
                }
            }
        }
        assert!(same_numbers::<T>(&all[1].as_ref().unwrap()[0], &all[3].as_ref().unwrap()[0]));
    }
}

#[test]
fn a_matrix_of_a_group_has_the_bits_it_has_alone() {
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512, simd::detect_isa()] {
        simd::limit(isa);
        groups_keep_each_bit::<f32>();
        groups_keep_each_bit::<f64>();
    }
}

#[test]
fn a_singular_matrix_of_a_group_is_named() {
    let (n, count) = (3, 24);
    let (mut a, b) = (hash_numbers::<f64>(count * n * n, 3), vec![1.0; count * n]);
    a[13 * n * n..14 * n * n].fill(1.0);
    let p = LuSolve { count, n, k: 1, transpose: false, nan: false };
    let words = [p.to_words(), BatchMap::to_words(&[count], &[count], &[count])].concat();
    let writes = [Out::of::<f64>(count * n, n), scratch::<f64>(p.count, p.factor_scratch())];
    assert_eq!(run_in_ranges(lu_solve_small_kernel::<f64>, &words, &[In::of(&a), In::of(&b)], &writes, count), Err(13));
}

#[test]
fn a_singular_matrix_gives_nan_where_a_solution_would_be() {
    // The rows are no permutation: a transposed solve puts nothing in row 1.
    let (lu, rows, b) = ([1.0, 2.0, 2.0, 0.0], [0i32, 0], [1.0, 1.0]);
    for (transpose, want) in [(false, [f64::NAN, f64::NAN]), (true, [f64::NAN, 0.0])] {
        let p = LuSolve { count: 1, n: 2, k: 1, transpose, nan: true };
        let words = [p.to_words(), BatchMap::to_words(&[1], &[1], &[1])].concat();
        let writes = [Out::of::<f64>(2, 2), scratch::<f64>(p.count, p.scratch())];
        let solve = |rows: &[i32]| {
            run_in_ranges(lu_solve_kernel::<f64>, &words, &[In::of(&lu), In::of(rows), In::of(&b)], &writes, 1)
        };
        close(&written_elements::<f64>(&solve(&rows), 0), &want, 0.0);
        // A row that there is not is a fault of a singular matrix too.
        assert!(solve(&[0, 2]).is_err());
    }
}

#[test]
fn singular_matrices_are_faults_or_nan() {
    let (eye, zero, b) = (identity(2), vec![1.0, 2.0, 2.0, 4.0], vec![1.0; 6]);
    let a = [eye.clone(), eye, zero].concat();
    let (lu, rows, _) = lu_of(3, 2, &a);
    for nan in [false, true] {
        let p = LuSolve { count: 3, n: 2, k: 1, transpose: false, nan };
        let words = [p.to_words(), BatchMap::to_words(&[3], &[3], &[3])].concat();
        let writes = [Out::of::<f64>(6, 2), scratch::<f64>(p.count, 0)];
        let done = run_in_ranges(lu_solve_kernel::<f64>, &words, &[In::of(&lu), In::of(&rows), In::of(&b)], &writes, 3);
        match nan {
            false => assert_eq!(done, Err(2)),
            true => close(&written_elements::<f64>(&done, 0), &[1.0, 1.0, 1.0, 1.0, f64::NAN, f64::NAN], 0.0),
        }
    }
    let p = Cholesky { count: 2, n: 2 };
    let bad = [identity(2), vec![1.0, 2.0, 2.0, 1.0]].concat();
    assert_eq!(
        run_in_ranges(
            cholesky_kernel::<f64>,
            &p.to_words(),
            &[In::of(&bad)],
            &[Out::of::<f64>(8, 4), scratch::<f64>(p.count, 0)],
            2
        ),
        Err(1)
    );
}

#[test]
fn large_matrices_without_factors_are_noticed() {
    let n = 150;
    let mut a = hash_numbers::<f64>(n * n, 3);
    // Column 97 is that of 20, doubled.
    (0..n).for_each(|i| a[i * n + 97] = 2.0 * a[i * n + 20]);
    let (lu, _, _) = lu_of(1, n, &a);
    assert!(lu[97 * (n + 1)].abs() < 1e-10, "{}", lu[97 * (n + 1)]);
    (0..n).for_each(|i| a[i * n + 97] = 0.0);
    let (lu, _, _) = lu_of(1, n, &a);
    assert!(lu[97 * (n + 1)] == 0.0 && lu.iter().all(|x| x.is_finite()));

    let p = Cholesky { count: 2, n };
    for at in [0, 63, 64, 70, 149] {
        let mut a = [identity(n), identity(n)].concat();
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            a[n * n + at * (n + 1)] = bad;
            let writes = [Out::of::<f64>(2 * n * n, n * n), scratch::<f64>(p.count, p.scratch(size_of::<f64>()))];
            assert_eq!(
                run_in_ranges(cholesky_kernel::<f64>, &p.to_words(), &[In::of(&a)], &writes, 2),
                Err(1),
                "{at} {bad}"
            );
        }
    }
}

#[test]
fn cholesky_gives_the_symmetric_part_back() {
    for n in [1, 2, 3, 17, 33, 40, 49, 65, 83, 150, 257, 290] {
        let mut a = noise(2 * n * n, 3);
        (0..2 * n).for_each(|i| a[i / n * n * n + i % n * (n + 1)] += n as f64);
        let p = Cholesky { count: 2, n };
        let writes = [Out::of::<f64>(2 * n * n, n * n), scratch::<f64>(p.count, p.scratch(size_of::<f64>()))];
        let l = run_in_ranges(cholesky_kernel::<f64>, &p.to_words(), &[In::of(&a)], &writes, 2);
        for (a, l) in a.chunks(n * n).zip(written_elements::<f64>(&l, 0).chunks(n * n)) {
            let sym: Vec<f64> = (0..n * n).map(|e| (a[e] + a[e % n * n + e / n]) / 2.0).collect();
            close(&product(l, l, [n, n, n], false, true), &sym, 1e-12);
            assert!((0..n * n).all(|e| e % n <= e / n || l[e] == 0.0));
        }
    }
}

#[test]
fn a_matrix_alone_has_the_factor_of_one_of_several() {
    // From 1,024 rows on, rows are 4 KiB, and U of a matrix that is alone is computed in scratch.
    let n = fewer_under_miri(1024, 65);
    let mut a = hash_numbers::<f32>(n * n, 4);
    (0..n).for_each(|i| a[i * (n + 1)] += n as f32);
    let [one, two] = [1, 2].map(|count| {
        let p = Cholesky { count, n };
        let writes = [Out::of::<f32>(count * n * n, n * n), scratch::<f32>(p.count, p.scratch(size_of::<f32>()))];
        run_in_ranges(cholesky_kernel::<f32>, &p.to_words(), &[In::of(&a.repeat(count))], &writes, count)
    });
    let scratches = [1, 2].map(|count| Cholesky { count, n }.scratch(size_of::<f32>()));
    assert_eq!(scratches[0] > scratches[1], fewer_under_miri(true, false));
    assert!(written_elements::<f32>(&two, 0) == written_elements::<f32>(&one, 0).repeat(2));
}

/// Shapes, and matrices with a scale: of no rank, of low rank, large and small.
fn matrices(m: usize, n: usize, scale: f64) -> Vec<f64> {
    let full = noise(m * n, 5).into_iter().map(|x| x * scale);
    let low = (0..m * n).map(|e| (e / n + 1) as f64 * ((e % n) as f64 - 1.5) * scale);
    full.chain(low).chain(std::iter::repeat_n(0.0, m * n)).collect()
}

#[test]
fn qr_gives_the_matrix_back() {
    for (m, n) in [(1, 1), (3, 3), (5, 2), (2, 5), (40, 17), (17, 40)] {
        for scale in [1.0, 1e200, 1e-200] {
            let (a, p, k) = (matrices(m, n, scale), Qr { count: 3, m, n }, m.min(n));
            let done = decompose(qr_kernel::<f64>, &p.to_words(), &a, &[(m * k, 3), (k * n, 3)], p.scratch());
            let (q, r) = (written_elements::<f64>(&done, 0), written_elements::<f64>(&done, 1));
            for i in 0..3 {
                let (q, r, a) = (&q[i * m * k..][..m * k], &r[i * k * n..][..k * n], &a[i * m * n..][..m * n]);
                orthonormal(q, m, k, 1e-13);
                let back: Vec<f64> = product(q, r, [m, k, n], false, false).iter().map(|x| x / scale).collect();
                close(&back, &a.iter().map(|x| x / scale).collect::<Vec<_>>(), 1e-12);
                assert!((0..k * n).all(|e| if e % n < e / n { r[e] == 0.0 } else { e % n > e / n || r[e] >= 0.0 }));
            }
        }
    }
}

#[test]
fn eigenvectors_give_the_symmetric_part_back() {
    for n in [1, 2, 3, 4, 16, 41] {
        for scale in [1.0, 1e200, 1e-200] {
            let (a, p) = (matrices(n, n, scale), Eigh { count: 3, n });
            let done = decompose(eigh_kernel::<f64>, &p.to_words(), &a, &[(n, 3), (n * n, 3)], p.scratch());
            let (w, u) = (written_elements::<f64>(&done, 0), written_elements::<f64>(&done, 1));
            for i in 0..3 {
                let (w, u, a) = (&w[i * n..][..n], &u[i * n * n..][..n * n], &a[i * n * n..][..n * n]);
                orthonormal(u, n, n, 1e-13);
                assert!(w.is_sorted());
                let scaled: Vec<f64> = (0..n * n).map(|e| u[e] * w[e % n] / scale).collect();
                let sym: Vec<f64> = (0..n * n).map(|e| (a[e] / scale + a[e % n * n + e / n] / scale) / 2.0).collect();
                close(&product(&scaled, u, [n, n, n], false, true), &sym, 1e-11);
            }
        }
    }
}

#[test]
fn singular_vectors_give_the_matrix_back() {
    for (m, n) in [(1, 1), (3, 3), (5, 2), (2, 5), (40, 17), (17, 40)] {
        for scale in [1.0, 1e200, 1e-200] {
            let (a, p, k) = (matrices(m, n, scale), Svd { count: 3, m, n }, m.min(n));
            let outs = [(m * k, 3), (k, 3), (k * n, 3)];
            let done = decompose(svd_kernel::<f64>, &p.to_words(), &a, &outs, p.scratch());
            let (u, s, vt) = (
                written_elements::<f64>(&done, 0),
                written_elements::<f64>(&done, 1),
                written_elements::<f64>(&done, 2),
            );
            for i in 0..3 {
                let (u, s, vt) = (&u[i * m * k..][..m * k], &s[i * k..][..k], &vt[i * k * n..][..k * n]);
                orthonormal(u, m, k, 1e-12);
                close(&product(vt, vt, [k, n, k], false, true), &identity(k), 1e-12);
                assert!(s.is_sorted_by(|a, b| a >= b) && s.iter().all(|s| *s >= 0.0));
                let scaled: Vec<f64> = (0..m * k).map(|e| u[e] * (s[e % k] / scale)).collect();
                let want: Vec<f64> = a[i * m * n..][..m * n].iter().map(|x| x / scale).collect();
                close(&product(&scaled, vt, [m, k, n], false, false), &want, 1e-11);
            }
        }
    }
}

#[test]
fn singular_values_in_groups_have_the_bits_of_those_alone() {
    for (m, n) in [(1, 1), (2, 5), (5, 2), (8, 8), (16, 16), (3, 16)] {
        let (count, k) = (37, m.min(n));
        let mut a = hash_numbers::<f64>(count * m * n, 8);
        a[5 * m * n..][..m * n].fill(0.0);
        (a[3 * m * n], a[20 * m * n]) = (f64::NAN, 1e200);
        let run = |a: &[f64], count: usize| {
            let p = Svd { count, m, n };
            let done = decompose(
                svd_kernel::<f64>,
                &p.to_words(),
                a,
                &[(m * k, count), (k, count), (k * n, count)],
                p.scratch(),
            );
            [0, 1, 2].map(|j| written_elements::<u64>(&done, j))
        };
        let all = run(&a, count);
        for i in 0..count {
            let alone = run(&a[i * m * n..][..m * n], 1);
            for (all, alone) in all.iter().zip(&alone) {
                assert_eq!(all[i * alone.len()..][..alone.len()], alone[..], "matrix {i} of {m} by {n}");
            }
        }
    }
}

#[test]
fn decompositions_of_nan_are_nan() {
    let a = [1.0, f64::NAN, 0.0, 1.0];
    let (e, s) = (Eigh { count: 1, n: 2 }, Svd { count: 1, m: 2, n: 2 });
    let w: Vec<f64> =
        written_elements(&decompose(eigh_kernel::<f64>, &e.to_words(), &a, &[(2, 1), (4, 1)], e.scratch()), 0);
    let values: Vec<f64> =
        written_elements(&decompose(svd_kernel::<f64>, &s.to_words(), &a, &[(4, 1), (2, 1), (4, 1)], s.scratch()), 1);
    assert!(w.iter().chain(&values).all(|x| x.is_nan()));
}

/// All factors of a matrix of `n` rows and columns, one after the other.
fn all_factors<T: GemmFloat>(n: usize) -> Vec<Outcome> {
    let mut a = hash_numbers::<T>(n * n, 6);
    (0..n).for_each(|i| a[i * (n + 1)] += T::from_f64(12.0));
    let (p, c) = (LuFactor { count: 1, n }, Cholesky { count: 1, n });
    let (e, q, s) = (Eigh { count: 1, n }, Qr { count: 1, m: n, n }, Svd { count: 1, m: n, n });
    let square = (n * n, 1);
    let lu = [
        Out::of::<T>(n * n, n * n),
        Out::of::<i32>(n, n),
        Out::of::<T>(1, 1),
        scratch::<T>(p.count, p.scratch(size_of::<T>())),
    ];
    let factor = [Out::of::<T>(n * n, n * n), scratch::<T>(c.count, c.scratch(size_of::<T>()))];
    vec![
        run_in_ranges(lu_kernel::<T>, &p.to_words(), &[In::of(&a)], &lu, 1),
        run_in_ranges(cholesky_kernel::<T>, &c.to_words(), &[In::of(&a)], &factor, 1),
        decompose(qr_kernel::<T>, &q.to_words(), &a, &[square, square], q.scratch()),
        decompose(eigh_kernel::<T>, &e.to_words(), &a, &[(n, 1), square], e.scratch()),
        decompose(svd_kernel::<T>, &s.to_words(), &a, &[square, (n, 1), square], s.scratch()),
    ]
}

#[test]
fn the_instruction_set_changes_no_bit_of_a_factor() {
    simd::limit(Isa::Portable);
    let all = || [40, 130].map(|n| [all_factors::<f32>(n), all_factors::<f64>(n)]);
    let want = all();
    assert!(want.iter().flatten().flatten().all(|outcome| outcome.is_ok()));
    for isa in [Isa::Avx2, Isa::Avx512, simd::detect_isa()] {
        simd::limit(isa);
        assert!(all() == want, "{isa:?}");
    }
}
