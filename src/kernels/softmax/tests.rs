//! Tests of the kernels in `softmax`: against naive loops in f64, at the edges of shapes and values, in 1, 2, 3 and
//! 7 unit ranges (see `harness`).

use super::*;
use crate::abi::Kernel;
use crate::harness::{In, Out, Outcome, close, noise, noise32, run_in_ranges, written_elements};
use crate::index::Index;

const SHAPES: [[usize; 3]; 21] = [
    [0, 3, 1],
    [3, 1, 1],
    [3, 0, 1],
    [100, 10, 1],
    [3, 33, 1],
    [37, 2, 1],
    [15, 8, 1],
    [100, 8, 1],
    [100, 9, 1],
    [700, 31, 1],
    [100, 32, 1],
    [7, 64, 1],
    [3, 100, 1],
    [5, 1025, 1],
    [6, 5000, 1],
    [2, 3000, 1],
    [4, 5, 3],
    [2, 1, 7],
    [1, 300, 40],
    [3, 9, 300],
    [2, 4, 513],
];

fn map<T: Float>(k: Kernel, reads: &[&[T]], [outer, n, inner]: [usize; 3]) -> Vec<T> {
    let p = Softmax { outer, n, inner };
    let reads: Vec<In> = reads.iter().map(|x| In::of(x)).collect();
    written_elements(
        &run_in_ranges(k, &p.to_words(), &reads, &[Out::of::<T>(outer * n * inner, p.per_unit())], p.units()),
        0,
    )
}

/// Applies `f` to each line along the axis.
fn lines(x: &[f64], [outer, n, inner]: [usize; 3], f: impl Fn(&[usize]) -> Vec<f64>) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for e in 0..outer * inner {
        let at: Vec<usize> = (0..n).map(|j| (e / inner * n + j) * inner + e % inner).collect();
        for (k, v) in at.iter().zip(f(&at)) {
            out[*k] = v;
        }
    }
    out
}

fn naive_probabilities(x: &[f64], shape: [usize; 3]) -> Vec<f64> {
    lines(x, shape, |at| {
        let s: f64 = at.iter().map(|k| x[*k].exp()).sum();
        at.iter().map(|k| x[*k].exp() / s).collect()
    })
}

#[test]
fn agree_with_the_naive_loops() {
    for shape in SHAPES {
        let x = noise(shape.iter().product(), 7);
        let x32: Vec<f32> = x.iter().map(|x| *x as f32).collect();
        let g = noise(x.len(), 8);
        let y = naive_probabilities(&x, shape);
        let log_y: Vec<f64> = y.iter().map(|y| y.ln()).collect();
        close(&map(softmax_kernel::<f64>, &[&x], shape), &y, 1e-14);
        close(&map(softmax_kernel::<f32>, &[&x32], shape), &y, 1e-6);
        close(&map(log_softmax_kernel::<f64>, &[&x], shape), &log_y, 1e-14);
        close(&map(log_softmax_kernel::<f32>, &[&x32], shape), &log_y, 1e-6);
        let dx = lines(&x, shape, |at| {
            let d: f64 = at.iter().map(|k| y[*k] * g[*k]).sum();
            at.iter().map(|k| y[*k] * (g[*k] - d)).collect()
        });
        close(&map(softmax_backward_kernel::<f64>, &[&y, &g], shape), &dx, 1e-13);
        let dx = lines(&x, shape, |at| {
            let s: f64 = at.iter().map(|k| g[*k]).sum();
            at.iter().map(|k| g[*k] - y[*k] * s).collect()
        });
        close(&map(log_softmax_backward_kernel::<f64>, &[&log_y, &g], shape), &dx, 1e-13);
    }
}

#[test]
fn infinities_and_large_logits() {
    let (inf, low, nan) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
    for inner in [1, 3] {
        let wide = |x: &[f32]| x.iter().flat_map(|v| vec![*v; inner]).collect::<Vec<_>>();
        let both = |x: &[f32], y: &[f32], log_y: &[f32]| {
            let shape = [1, x.len(), inner];
            close(&map(softmax_kernel::<f32>, &[&wide(x)], shape), &wide(y), 1e-6);
            close(&map(log_softmax_kernel::<f32>, &[&wide(x)], shape), &wide(log_y), 1e-6);
        };
        both(&[low, low], &[nan, nan], &[nan, nan]);
        both(&[low, 3.0], &[0.0, 1.0], &[low, 0.0]);
        both(&[inf, 3.0], &[nan, nan], &[nan, nan]);
        both(&[nan, 3.0], &[nan, nan], &[nan, nan]);
        both(&[3e38, 3e38], &[0.5, 0.5], &[-std::f32::consts::LN_2; 2]);
        both(&[-3e38, 3e38], &[0.0, 1.0], &[low, 0.0]);
    }
}

fn entropy<T: Float, I: Index>(x: &[T], labels: &[I], p: &CrossEntropy) -> Outcome {
    let out = || Out::of::<T>(p.rows, p.per_unit());
    run_in_ranges(cross_entropy_kernel::<T, I>, &p.to_words(), &[In::of(x), In::of(labels)], &[out(), out()], p.units())
}

fn entropy_backward<T: Float, I: Index>(x: &[T], labels: &[I], lse: &[T], d: &[T], p: &CrossEntropy) -> Outcome {
    let reads = [In::of(x), In::of(labels), In::of(lse), In::of(d)];
    let out = [Out::of::<T>(x.len(), p.per_unit_logits())];
    run_in_ranges(cross_entropy_backward_kernel::<T, I>, &p.to_words(), &reads, &out, p.units())
}

#[test]
fn cross_entropy_golden() {
    let (x, labels) = ([1f32, 2.0, 0.5, -1.0, 0.0, 3.0], [2i32, 1]);
    let p = CrossEntropy { rows: 2, classes: 3, ignore_index: -100, smoothing: 0.0 };
    let got = entropy(&x, &labels, &p);
    close(&written_elements::<f32>(&got, 0), &[1.9643688, 3.0658839], 1e-6);
    let grad = entropy_backward(&x, &labels, &written_elements::<f32>(&got, 1), &[1.0, -0.5], &p);
    close(
        &written_elements::<f32>(&grad, 0),
        &[0.2312239, 0.6285317, -0.8597556, -0.0085739, 0.4766937, -0.4681198],
        1e-6,
    );
}

#[test]
fn cross_entropy_is_torchs_formula() {
    for (rows, classes) in [(1, 1), (5, 3), (400, 10), (9, 2000), (0, 4)] {
        let x: Vec<f64> = noise(rows * classes, 2).iter().map(|x| 3.0 * x).collect();
        let d = noise(rows, 3);
        let labels: Vec<i64> = (0..rows).map(|r| if r % 4 == 3 { -7 } else { (r * 31 % classes) as i64 }).collect();
        for smoothing in [0.0, 0.1] {
            let p = CrossEntropy { rows, classes, ignore_index: -7, smoothing };
            assert_eq!(CrossEntropy::from_words(&p.to_words()), p);
            let got = entropy(&x, &labels, &p);
            let y = naive_probabilities(&x, [rows, classes, 1]);
            let target = |r: usize, c: usize| {
                let hit = if labels[r] == c as i64 { 1.0 - smoothing } else { 0.0 };
                if labels[r] == -7 { 0.0 } else { hit + smoothing / classes as f64 }
            };
            let loss: Vec<f64> =
                (0..rows).map(|r| (0..classes).map(|c| 0.0 - target(r, c) * y[r * classes + c].ln()).sum()).collect();
            close(&written_elements::<f64>(&got, 0), &loss, 1e-12);
            let grad: Vec<f64> = (0..rows * classes)
                .map(|k| {
                    let r = k / classes;
                    if labels[r] == -7 { 0.0 } else { d[r] * (y[k] - target(r, k % classes)) }
                })
                .collect();
            let lse = written_elements::<f64>(&got, 1);
            close(&written_elements::<f64>(&entropy_backward(&x, &labels, &lse, &d, &p), 0), &grad, 1e-12);
        }
    }
}

/// Loss and gradient in one call have the bits of two calls, for any number of classes, in place or not.
#[test]
fn the_gradient_comes_with_the_loss() {
    for (rows, classes) in [(1, 1), (37, 10), (5, 31), (700, 3), (16, 32), (40, 500)] {
        let p = CrossEntropy { rows, classes, ignore_index: 2, smoothing: 0.1 };
        let x = noise32(rows * classes, 5);
        let labels: Vec<i64> = (0..rows).map(|i| (i * 7 % classes.min(11)) as i64).collect();
        let first = entropy(&x, &labels, &p);
        let lse = written_elements::<f32>(&first, 1);
        let second = entropy_backward(&x, &labels, &lse, &vec![0.3f32; rows], &p);
        let mut words = p.to_words();
        words.push(f64::from(0.3f32).to_bits());
        let outs = [
            Out::of::<f32>(rows, p.per_unit()),
            Out::of::<f32>(rows, p.per_unit()),
            Out::of::<f32>(rows * classes, p.per_unit_logits()),
        ];
        for read in [In::of(&x), In::of(&x).over(2)] {
            let got = run_in_ranges(
                cross_entropy_gradient_kernel::<f32, i64>,
                &words,
                &[read, In::of(&labels)],
                &outs,
                p.units(),
            );
            let all = |j| written_elements::<f32>(&got, j);
            assert!(
                all(0) == written_elements::<f32>(&first, 0)
                    && all(1) == lse
                    && all(2) == written_elements::<f32>(&second, 0),
                "{classes}"
            );
        }
        // A single row, computed by a loop along it, has the same bits as among others.
        let row = &x[..classes];
        let max = pairwise::reduce_row(pairwise::Max, row);
        assert_eq!(lse[0], max + crate::vmath::log(pairwise::reduce_row(pairwise::ExpFrom(max), row)), "{classes}");
    }
}

#[test]
fn cross_entropy_of_large_logits_keeps_its_digits() {
    let p = CrossEntropy { rows: 1, classes: 2, ignore_index: -100, smoothing: 0.0 };
    let got = entropy(&[1e6f32, 1e6], &[0i32], &p);
    close(&written_elements::<f32>(&got, 0), &[std::f32::consts::LN_2], 1e-7);
    let (low, got_low) = (f32::NEG_INFINITY, entropy(&[f32::NEG_INFINITY, 1.0], &[1i32], &p));
    close(&written_elements::<f32>(&got_low, 0), &[0.0], 0.0);
    close(&written_elements::<f32>(&entropy(&[low, 1.0], &[0i32], &p), 0), &[f32::INFINITY], 0.0);
}

#[test]
fn bad_labels_are_named() {
    let x = noise32(40 * 500, 1);
    let mut labels = vec![0i64; 40];
    let p = CrossEntropy { rows: 40, classes: 500, ignore_index: -100, smoothing: 0.0 };
    (labels[31], labels[17], labels[9]) = (500, -1, -100);
    assert_eq!(entropy(&x, &labels, &p), Err(17));
    assert_eq!(entropy_backward(&x, &labels, &x[..40], &x[..40], &p), Err(17));
    labels[17] = 499;
    assert_eq!(entropy(&x, &labels, &p), Err(31));
    labels[31] = i64::MIN;
    assert_eq!(entropy(&x, &labels, &p), Err(31));
}

/// In-place operands give the same bits as separate ones.
#[test]
fn in_place_is_out_of_place() {
    for shape in SHAPES.into_iter().filter(|s| s[2] == 1) {
        let n = shape.iter().product();
        let (x, y) = (noise32(n, 3), noise32(n, 4));
        let p = Softmax { outer: shape[0], n: shape[1], inner: 1 };
        let over = |k: Kernel, reads: &[In]| -> Vec<f32> {
            written_elements(&run_in_ranges(k, &p.to_words(), reads, &[Out::of::<f32>(n, p.per_unit())], p.units()), 0)
        };
        for k in [softmax_kernel::<f32>, log_softmax_kernel::<f32>] {
            assert_eq!(over(k, &[In::of(&x).over(0)]), map(k, &[&x], shape));
        }
        let reads = [In::of(&y), In::of(&x).over(0)];
        assert_eq!(over(softmax_backward_kernel::<f32>, &reads), map(softmax_backward_kernel::<f32>, &[&y, &x], shape));
    }
    let p = CrossEntropy { rows: 40, classes: 500, ignore_index: 2, smoothing: 0.1 };
    let (x, d) = (noise32(20_000, 5), noise32(40, 6));
    let labels: Vec<i32> = (0..40).map(|i| i * 7 % 11).collect();
    let beside = entropy_backward(&x, &labels, &d, &d, &p);
    let reads = [In::of(&x).over(0), In::of(&labels), In::of(&d), In::of(&d)];
    let out = Out::of::<f32>(20_000, p.per_unit_logits());
    let over = run_in_ranges(cross_entropy_backward_kernel::<f32, i32>, &p.to_words(), &reads, &[out], p.units());
    assert!(written_elements::<f32>(&beside, 0) == written_elements::<f32>(&over, 0));
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    use crate::simd::{Isa, detect_isa, limit};
    let x = noise32(1500, 5);
    let labels: Vec<i32> = (0..150).map(|i| i * 7 % 10).collect();
    let p = CrossEntropy { rows: 150, classes: 10, ignore_index: 3, smoothing: 0.1 };
    let all = || {
        // The limit applies to this thread.
        let mut out: Vec<f32> = Vec::new();
        for shape in [[1, 10, 1], [7, 64, 1], [1, 500, 3]] {
            let x = &x[..shape.iter().product()];
            let (y, z) = (map(softmax_kernel::<f32>, &[x], shape), map(log_softmax_kernel::<f32>, &[x], shape));
            out.extend(map(softmax_backward_kernel::<f32>, &[&y, x], shape));
            out.extend(map(log_softmax_backward_kernel::<f32>, &[&z, x], shape));
            out.extend(y.iter().chain(&z));
        }
        let got = entropy(&x, &labels, &p);
        out.extend(written_elements::<f32>(&got, 0).iter().chain(&written_elements::<f32>(&got, 1)));
        out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    };
    let best = all();
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        limit(isa);
        assert!(all() == best, "{isa:?}");
    }
    limit(detect_isa());
}
