//! Tests of the kernels in `layer_norm.rs`: against naive loops in f64, at the edges of shapes and values, in 1, 2, 3
//! and 7 unit ranges (see `harness`).

use super::*;
use crate::harness::{In, Out, close, noise, run_in_ranges, written_elements};
use crate::reduce;

/// y, mean, rstd.
fn forward<T: Float>(p: &LayerNorm, x: &[T], gamma: &[T], beta: &[T]) -> [Vec<T>; 3] {
    assert_eq!(LayerNorm::from_words(&p.to_words()), *p);
    let mut reads = vec![In::of(x)];
    if p.affine {
        reads.extend([In::of(gamma), In::of(beta)]);
    }
    let row = || Out::of::<T>(p.rows, p.rows_per_unit());
    let writes = [Out::of::<T>(x.len(), p.per_unit()), row(), row()];
    let got = run_in_ranges(layer_norm_kernel::<T>, &p.to_words(), &reads, &writes, p.units());
    [0, 1, 2].map(|j| written_elements(&got, j))
}

/// dx, dγ, dβ.
fn backward<T: Float>(p: &LayerNorm, dy: &[T], x: &[T], gamma: &[T], [_, mean, rstd]: &[Vec<T>; 3]) -> [Vec<T>; 3] {
    let mut reads = vec![In::of(dy), In::of(x), In::of(mean), In::of(rstd)];
    let mut writes = vec![Out::of::<T>(x.len(), p.per_block())];
    if p.affine {
        reads.push(In::of(gamma));
        writes.extend([0; 2].map(|_| Out::of::<T>(p.blocks() * p.n, p.n)));
    }
    let got = run_in_ranges(layer_norm_backward_kernel::<T>, &p.to_words(), &reads, &writes, p.blocks());
    let c = p.combine();
    let sum = |j: usize| {
        let out = [Out::of::<T>(p.n, c.per_unit())];
        written_elements(
            &run_in_ranges(
                reduce::sum::<T>,
                &c.to_words(),
                &[In::of(&written_elements::<T>(&got, j))],
                &out,
                c.units(),
            ),
            0,
        )
    };
    match p.affine {
        true => [written_elements(&got, 0), sum(1), sum(2)],
        false => [written_elements(&got, 0), vec![], vec![]],
    }
}

#[test]
fn golden() {
    let (x, gamma, dy) = ([1f32, 2.0, -0.5, 0.25], [0.5f32, 1.5, -1.0, 2.0], [1f32, -2.0, 0.5, 0.75]);
    let p = LayerNorm { rows: 1, n: 4, eps: 1e-5, affine: true };
    let got = forward(&p, &x, &gamma, &[0.0; 4]);
    close(&got[0], &[0.1689334, 2.1285603, 1.2838935, -0.9460268], 1e-6);
    let [dx, dgamma, dbeta] = backward(&p, &dy, &x, &gamma, &got);
    close(&dx, &[1.3255439, -1.2441087, -1.5773116, 1.4958764], 1e-6);
    close(&dgamma, &[0.3378667, -2.8380804, -0.6419468, -0.3547601], 1e-6);
    close(&dbeta, &dy, 0.0);
}

#[test]
fn agree_with_the_naive_loops() {
    for (rows, n) in [(0, 5), (1, 1), (3, 7), (100, 33), (700, 40), (9, 3000), (2100, 2), (3, 0)] {
        for affine in [false, true] {
            let p = LayerNorm { rows, n, eps: 1e-3, affine };
            let (x, dy) = (noise(rows * n, 1), noise(rows * n, 2));
            let (gamma, beta) = if affine { (noise(n, 3), noise(n, 4)) } else { (vec![1.0; n], vec![0.0; n]) };
            let (mut y, mut dx) = (vec![], vec![]);
            let (mut dgamma, mut dbeta) = (vec![0.0; n], vec![0.0; n]);
            for r in 0..rows {
                let (x, dy) = (&x[r * n..][..n], &dy[r * n..][..n]);
                let mean_of = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
                let mean = mean_of(&|i| x[i]);
                let s = 1.0 / (mean_of(&|i| (x[i] - mean).powi(2)) + 1e-3).sqrt();
                let hat = |i: usize| (x[i] - mean) * s;
                let (a, b) = (mean_of(&|i| dy[i] * gamma[i]), mean_of(&|i| dy[i] * gamma[i] * hat(i)));
                for i in 0..n {
                    y.push(hat(i) * gamma[i] + beta[i]);
                    dx.push(s * (dy[i] * gamma[i] - a - hat(i) * b));
                    dgamma[i] += dy[i] * hat(i);
                    dbeta[i] += dy[i];
                }
            }
            let got = forward(&p, &x, &gamma, &beta);
            close(&got[0], &y, 1e-12);
            let grads = backward(&p, &dy, &x, &gamma, &got);
            close(&grads[0], &dx, 1e-11);
            if affine {
                close(&grads[1], &dgamma, 1e-11);
                close(&grads[2], &dbeta, 1e-12);
            }
        }
    }
}

#[test]
fn a_large_mean_keeps_the_variance() {
    let x: Vec<f32> = (0..64).map(|i| 1e4 + (i % 2) as f32).collect();
    let p = LayerNorm { rows: 1, n: 64, eps: 0.0, affine: false };
    let want: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
    close(&forward(&p, &x, &[], &[])[0], &want, 1e-6);
    let nan = [1.0, f32::NAN, 2.0, 3.0, 4.0, 5.0];
    let p = LayerNorm { rows: 2, n: 3, eps: 0.0, affine: false };
    let got = forward(&p, &nan, &[], &[]);
    assert!(got[0][..3].iter().all(|y| y.is_nan()) && got[0][3..].iter().all(|y| y.is_finite()));
}

/// The rounding of the mean is no part of the results, of the variance, and of the gradients.
#[test]
fn the_rounding_of_a_mean_is_taken_off() {
    let (rows, n) = (3, 1500);
    let x: Vec<f32> = noise(rows * n, 1).iter().map(|x| (1e5 + x) as f32).collect();
    let (gamma, dy) = (noise(n, 3), noise(rows * n, 2));
    let exact: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let short = |x: &[f64]| x.iter().map(|x| *x as f32).collect::<Vec<_>>();
    let far = |ours: &[f32], want: &[f64]| {
        let size = want.iter().fold(0f64, |a, x| a.max(x.abs()));
        ours.iter().zip(want).fold(0f64, |a, (x, y)| a.max((f64::from(*x) - y).abs() / size))
    };
    for affine in [false, true] {
        let p = LayerNorm { rows, n, eps: 1e-5, affine };
        let want = forward(&p, &exact, &gamma, &vec![0.0; n]);
        let got = forward(&p, &x, &short(&gamma), &vec![0.0; n]);
        assert!(got.iter().zip(&want).all(|(got, want)| far(got, want) < 1e-6), "{affine}");
        let of = backward(&p, &short(&dy), &x, &short(&gamma), &got);
        let grads = backward(&p, &dy, &exact, &gamma, &want);
        assert!(of.iter().zip(&grads).all(|(got, want)| far(got, want) < 1e-5), "{affine}");
    }
}

/// Equal elements have the variance 0, whatever their mean is rounded to.
#[test]
fn equal_elements_have_no_variance() {
    for n in [3, 7, 33, 1000, 1500] {
        for x in [0.1f32, 1e5 + 0.1, 1e-30, 3e18] {
            let got = forward(&LayerNorm { rows: 1, n, eps: 1e-5, affine: false }, &vec![x; n], &[], &[]);
            assert!(got.iter().flatten().all(|x| x.is_finite()), "{n} {x}");
        }
    }
}
