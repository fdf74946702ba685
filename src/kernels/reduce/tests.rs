//! Tests of the kernels in `reduce.rs`: against naive loops in f64, at the edges of shapes and values, in 1, 2, 3 and 7
//! unit ranges (see `harness`).

use super::*;
use crate::abi::Kernel;
use crate::harness::{In, Out, close, noise, noise32, run_in_ranges, written_elements};

/// Runs a reduction as its plan says.
fn planned<T: Num>(one: Kernel, partial: Kernel, last: Kernel, x: &[T], shape: [usize; 3]) -> Vec<T> {
    let p = plan_steps(shape[0], shape[1], shape[2]);
    let reduce = |k: Kernel, x: &[T]| {
        let out = [Out::of::<T>(p.last.out_len(), p.last.per_unit())];
        written_elements(&run_in_ranges(k, &p.last.to_words(), &[In::of(x)], &out, p.last.units()), 0)
    };
    let Some(part) = p.partial else { return reduce(one, x) };
    let out = [Out::of::<T>(part.out_len(), part.per_unit())];
    let scratch: Vec<T> =
        written_elements(&run_in_ranges(partial, &part.to_words(), &[In::of(x)], &out, part.units()), 0);
    reduce(last, &scratch)
}

/// One value per output element by a fold in f64.
fn naive(x: &[f64], [outer, n, inner]: [usize; 3], start: f64, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let at = |o: usize, i: usize| (0..n).map(move |j| (o * n + j) * inner + i);
    (0..outer * inner).map(|e| at(e / inner, e % inner).map(|k| x[k]).fold(start, &f)).collect()
}

const SHAPES: [[usize; 3]; 22] = [
    [0, 3, 1],
    [1, 0, 1],
    [3, 0, 5],
    [2, 0, 100],
    [1, 1, 1],
    [5, 1, 7],
    [3, 31, 1],
    [4, 33, 1],
    [300, 10, 1],
    [2, 1024, 1],
    [3, 2500, 1],
    [1, 70000, 1],
    [2, 40000, 2],
    [3, 5, 3],
    [7, 1000, 10],
    [40, 9, 64],
    [2, 129, 65],
    [3, 300, 300],
    [1, 131, 520],
    [1, 2048, 40],
    [1, 1200, 96],
    [2, 6, 700],
];

#[test]
fn agree_with_the_naive_loops() {
    for shape in SHAPES {
        let x = noise32(shape.iter().product(), 7);
        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let n = shape[1] as f64;
        let total = naive(&wide, shape, 0.0, |a, b| a + b);
        close(&planned(sum::<f32>, sum_partial::<f32>, sum::<f32>, &x, shape), &total, 2e-6 * n.sqrt().max(1.0));
        let mean_: Vec<f64> = total.iter().map(|s| s / n).collect();
        close(
            &planned(reduce_mean_kernel::<f32>, sum_partial::<f32>, reduce_mean_kernel::<f32>, &x, shape),
            &mean_,
            1e-6,
        );
        let squares = naive(&wide, shape, 0.0, |a, b| a + b * b);
        close(&planned(sum_squares::<f32>, sum_squares_partial::<f32>, sum::<f32>, &x, shape), &squares, 1e-6);
        let most = naive(&wide, shape, f64::NEG_INFINITY, f64::max);
        close(&planned(max::<f32>, max_partial::<f32>, max::<f32>, &x, shape), &most, 0.0);
        let least = naive(&wide, shape, f64::INFINITY, f64::min);
        close(&planned(min::<f32>, min_partial::<f32>, min::<f32>, &x, shape), &least, 0.0);
        let near_one: Vec<f64> = wide.iter().map(|x| 1.0 + x / 64.0).collect();
        let product = naive(&near_one, shape, 1.0, |a, b| a * b);
        close(&planned(prod::<f64>, prod_partial::<f64>, prod::<f64>, &near_one, shape), &product, 1e-9);
    }
}

#[test]
fn integers_are_exact_and_wrap() {
    for shape in SHAPES {
        let x: Vec<i64> = noise(shape.iter().product(), 3).iter().map(|x| (x * 1e3) as i64).collect();
        let wide: Vec<f64> = x.iter().map(|x| *x as f64).collect();
        let got = planned(sum::<i64>, sum_partial::<i64>, sum::<i64>, &x, shape);
        let want = naive(&wide, shape, 0.0, |a, b| a + b);
        assert!(got.iter().zip(&want).all(|(a, b)| *a as f64 == *b), "{shape:?}");
    }
    let two = |x: [i32; 2], k: Kernel| planned(k, k, k, &x, [1, 2, 1])[0];
    assert_eq!(two([i32::MAX, 1], sum::<i32>), i32::MIN);
    assert_eq!(two([1 << 20, 1 << 20], prod::<i32>), 0);
    assert_eq!(two([-5, -9], max::<i32>), -5);
    assert_eq!(two([-5, -9], min::<i32>), -9);
}

#[test]
fn nan_wins_every_comparison() {
    for (shape, at) in [([1, 3, 1], 1), ([1, 3000, 1], 2999), ([1, 2000, 3], 10), ([1, 300, 100], 777)] {
        let mut x = noise32(shape.iter().product(), 1);
        x[at] = f32::NAN;
        for (k, part) in [(max::<f32> as Kernel, max_partial::<f32> as Kernel), (min::<f32>, min_partial::<f32>)] {
            let got = planned(k, part, k, &x, shape);
            let nans: Vec<usize> = (0..got.len()).filter(|i| got[*i].is_nan()).collect();
            assert_eq!(nans, [at % shape[2]]);
        }
    }
}

#[test]
fn long_sums_keep_their_digits() {
    let x = vec![0.1f32; 1 << 20];
    let want = 0.1f32 as f64 * x.len() as f64;
    for shape in [[1, 1 << 20, 1], [1, 1 << 18, 4], [1, 1 << 13, 128], [2, 1 << 19, 1]] {
        let got = planned(sum::<f32>, sum_partial::<f32>, sum::<f32>, &x, shape);
        let want = vec![want / got.len() as f64; got.len()];
        close(&got, &want, 1e-6);
    }
}

fn arg_of<T: Num, I: Index>(k: Kernel, x: &[T], [outer, n, inner]: [usize; 3]) -> Vec<I> {
    let p = Reduce::new(outer, n, inner);
    written_elements(
        &run_in_ranges(k, &p.to_words(), &[In::of(x)], &[Out::of::<I>(p.out_len(), p.per_unit())], p.units()),
        0,
    )
}

#[test]
fn arg_takes_the_first() {
    for [outer, n, inner] in SHAPES.into_iter().filter(|s| s[1] > 0) {
        // Few distinct values: many ties.
        let x: Vec<f32> = noise(outer * n * inner, 5).iter().map(|x| (x * 4.0).round() as f32).collect();
        let best = |sign: f32| -> Vec<i64> {
            let first = |e: usize| {
                let value = |j: usize| sign * x[(e / inner * n + j) * inner + e % inner];
                (0..n).fold(0, |b, j| if value(j) > value(b) { j } else { b }) as i64
            };
            (0..outer * inner).map(first).collect()
        };
        assert_eq!(arg_of::<f32, i64>(reduce_arg_max_kernel::<f32, i64>, &x, [outer, n, inner]), best(1.0));
        assert_eq!(arg_of::<f32, i64>(reduce_arg_min_kernel::<f32, i64>, &x, [outer, n, inner]), best(-1.0));
    }
    let nan = [1.0, f32::NAN, 9.0, f32::NAN];
    assert_eq!(arg_of::<f32, i32>(reduce_arg_max_kernel::<f32, i32>, &nan, [1, 4, 1]), [1]);
    assert_eq!(arg_of::<f32, i32>(reduce_arg_min_kernel::<f32, i32>, &nan, [1, 4, 1]), [1]);
    assert_eq!(arg_of::<f32, i32>(reduce_arg_max_kernel::<f32, i32>, &nan, [1, 2, 2]), [1, 0].map(|i: i32| i));
    assert_eq!(
        arg_of::<f32, i32>(reduce_arg_max_kernel::<f32, i32>, &[f32::NAN, f32::NAN, 2.0, 3.0], [1, 2, 2]),
        [0, 0]
    );
    assert_eq!(arg_of::<f32, i32>(reduce_arg_max_kernel::<f32, i32>, &[f32::NEG_INFINITY; 3], [1, 3, 1]), [0]);
    assert_eq!(arg_of::<i32, i32>(reduce_arg_min_kernel::<i32, i32>, &[3, 1, 1], [1, 3, 1]), [1]);
}

#[test]
fn logsumexp_at_the_edges() {
    let lse = |x: &[f64], [outer, n, inner]: [usize; 3]| -> Vec<f64> {
        let p = Reduce::new(outer, n, inner);
        let out = [Out::of::<f64>(p.out_len(), p.per_unit())];
        written_elements(
            &run_in_ranges(reduce_logsumexp_kernel::<f64>, &p.to_words(), &[In::of(x)], &out, p.units()),
            0,
        )
    };
    for shape in SHAPES {
        let x = noise(shape.iter().product(), 11);
        let want: Vec<f64> = naive(&x, shape, 0.0, |a, b| a + b.exp()).iter().map(|s| s.ln()).collect();
        close(&lse(&x, shape), &want, 1e-12);
    }
    let (inf, low) = (f64::INFINITY, f64::NEG_INFINITY);
    for inner in [1, 2] {
        let wide = |x: [f64; 2]| x.into_iter().flat_map(|v| vec![v; inner]).collect::<Vec<_>>();
        close(&lse(&wide([low, low]), [1, 2, inner]), &vec![low; inner], 0.0);
        close(&lse(&wide([low, inf]), [1, 2, inner]), &vec![inf; inner], 0.0);
        close(&lse(&wide([f64::NAN, inf]), [1, 2, inner]), &vec![f64::NAN; inner], 0.0);
        close(&lse(&wide([1000.0, 1000.0]), [1, 2, inner]), &vec![1000.0 + 2f64.ln(); inner], 1e-12);
        close(&lse(&wide([-1000.0, low]), [1, 2, inner]), &vec![-1000.0; inner], 1e-12);
    }
}

#[test]
fn params_survive_words() {
    let p = Plan { ..plan_steps(1, 70000, 1) };
    let part = p.partial.unwrap();
    assert_eq!(PartialReduce::from_words(&part.to_words()), part);
    assert_eq!(Reduce::from_words(&p.last.to_words()), p.last);
    assert_eq!((part.chunks(), p.last.n, p.last.divisor), (18, 18, 70000));
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    use crate::simd::{Isa, detect_isa, limit};
    let (x, y) = (noise32(30_000, 1), noise32(30_000, 2));
    let all = || {
        let (mut columns, mut narrow) = ([0f32; 100], [0f32; 3]);
        pairwise::fold_columns(pairwise::Sum, &x, 300, 100, &mut columns);
        pairwise::reduce_narrow_rows(pairwise::Squares, &x, &mut narrow);
        let (mut lse, mut lse_columns) = ([0f32; 21], [0f32; 100]);
        logsumexp_rows(&x, 1000, &mut lse);
        reduce_exp_columns(&x, 100, &[0.5; 100], &mut lse_columns);
        reduce_shifted_logs(&[0.5; 100], &mut lse_columns);
        columns.iter_mut().zip(lse_columns).for_each(|(c, l)| *c += l);
        narrow[0] += lse[20];
        let single = [pairwise::reduce_row(pairwise::Sum, &x), pairwise::dot_shifted(&x, &y, 0.3), lse[0]];
        columns.iter().chain(&narrow).chain(&single).map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    let best = all();
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        limit(isa);
        assert_eq!(all(), best);
    }
    limit(detect_isa());
}

#[test]
fn columns_of_blocks_are_rows() {
    for (n, inner) in [(33, 70), (128, 65), (1024, 66), (1025, 130), (2111, 300), (32769, 65)] {
        let x = noise32(n * inner, 5);
        let run = |k: Kernel, p: &[u64], units, x: &[f32], out: Out| {
            written_elements::<f32>(&run_in_ranges(k, p, &[In::of(x)], &[out], units), 0)
        };
        let one = |k: Kernel, n: usize, x: &[f32]| {
            let p = Reduce::new(1, n, inner);
            run(k, &p.to_words(), p.units(), x, Out::of::<f32>(inner, p.per_unit()))
        };
        let kernels =
            [(sum::<f32> as Kernel, sum_partial::<f32> as Kernel), (sum_squares::<f32>, sum_squares_partial::<f32>)];
        for (chunk, (whole, partial)) in
            [pairwise::ROWS, pairwise::ROWS * pairwise::ROWS].into_iter().flat_map(|chunk| kernels.map(|k| (chunk, k)))
        {
            let p = PartialReduce { outer: 1, n, inner, chunk };
            let parts = run(partial, &p.to_words(), p.units(), &x, Out::of::<f32>(p.out_len(), p.per_unit()));
            assert!(
                one(whole, n, &x) == one(sum::<f32>, p.chunks(), &parts),
                "{n} rows of {inner} in chunks of {chunk}"
            );
        }
    }
}
