//! Tests of the adjoint of batch norm: against naive loops in f64, at the edges of shapes and values, in place or not,
//! in 1, 2, 3 and 7 unit ranges (see `harness`).

use super::*;
use crate::abi::Split;
use crate::harness::{In, Out, close, hash_numbers, run_in_ranges, written_elements};

/// dy, x, mean, rstd, γ.
type Operands<T> = [Vec<T>; 5];

fn operands<T: Float>(p: &BatchNormGrad) -> Operands<T> {
    let (c, all) = (p.channels, p.samples * p.row());
    let rstd = hash_numbers::<T>(c, 4).into_iter().map(|x| x + T::TWO).collect();
    let x: Vec<T> = hash_numbers(all, 2);
    let of = |c: usize| (0..all).filter(|i| i / p.area % p.channels == c).map(|i| x[i].to_f64()).sum::<f64>();
    let mean = (0..c).map(|c| T::from_f64(of(c) / (p.samples * p.area) as f64)).collect();
    [hash_numbers(all, 1), x, mean, rstd, hash_numbers(c, 5)]
}

/// dx, dγ, dβ of the kernel.
fn backward<T: Float>(p: &BatchNormGrad, of: &Operands<T>) -> [Vec<T>; 3] {
    assert_eq!(BatchNormGrad::from_words(&p.to_words()), *p);
    let split = Split::Columns { row: p.row(), width: p.columns() };
    let sums = || Out::of::<T>(p.channels, p.per_unit());
    let writes = [Out(of[1].len(), size_of::<T>(), split), sums(), sums()];
    let mut reads: Vec<In> = of.iter().map(|x| In::of(x)).collect();
    let got = run_in_ranges(batch_norm_backward_kernel::<T>, &p.to_words(), &reads, &writes, p.units());
    reads[0] = In::of(&of[0]).over(0);
    let over = run_in_ranges(batch_norm_backward_kernel::<T>, &p.to_words(), &reads, &writes, p.units());
    assert_eq!(got, over, "{p:?} in place");
    [0, 1, 2].map(|j| written_elements(&got, j))
}

/// dx, dγ, dβ by the definition.
fn naive<T: Float>(p: &BatchNormGrad, of: &Operands<T>) -> [Vec<f64>; 3] {
    let [dy, x, mean, rstd, gamma] = of.each_ref().map(|v| v.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
    let (mut dx, mut dgamma, mut dbeta) = (vec![0.0; x.len()], vec![], vec![]);
    let n = (p.samples * p.area) as f64;
    for c in 0..p.channels {
        let own: Vec<usize> = (0..x.len()).filter(|i| i / p.area % p.channels == c).collect();
        let hat = |i: usize| (x[i] - mean[c]) * rstd[c];
        let (sum, dot) = (own.iter().map(|&i| dy[i]).sum::<f64>(), own.iter().map(|&i| dy[i] * hat(i)).sum::<f64>());
        own.iter().for_each(|&i| dx[i] = gamma[c] * rstd[c] * (dy[i] - sum / n - hat(i) * dot / n));
        dgamma.push(dot);
        dbeta.push(sum);
    }
    [dx, dgamma, dbeta]
}

fn check<T: Float>(p: BatchNormGrad, tolerance: f64) {
    let of = operands::<T>(&p);
    let (got, want) = (backward(&p, &of), naive(&p, &of));
    for (got, want) in got.iter().zip(&want) {
        let got: Vec<f64> = got.iter().map(|x| x.to_f64()).collect();
        // A sum of many terms has the error of its largest partial sum.
        close(&got, want, tolerance * (p.samples * p.area) as f64);
    }
}

const fn view(samples: usize, channels: usize, area: usize) -> BatchNormGrad {
    BatchNormGrad { samples, channels, area }
}

/// One element, one channel, primes, several units of columns, long channels, many samples.
const VIEWS: &[BatchNormGrad] = &[
    view(1, 1, 1),
    view(5, 1, 1),
    view(2, 3, 5),
    view(67, 301, 1),
    view(130, 7, 9),
    view(3, 5, 63),
    view(3, 5, 64),
    view(2, 70, 81),
    view(33, 2, 67),
    view(4, 3, 2503),
    view(1, 1, 40_000),
    view(1500, 1, 1),
];

#[test]
fn gradients_are_those_of_the_definition() {
    for p in VIEWS {
        check::<f64>(*p, 1e-14);
        check::<f32>(*p, 2e-6);
    }
}

#[test]
fn a_nan_stays_in_its_channel() {
    for area in [3, 70] {
        let p = view(4, 5, area);
        let mut of = operands::<f64>(&p);
        of[1][2 * area + 1] = f64::NAN;
        let [dx, dgamma, dbeta] = backward(&p, &of);
        assert!(dx.iter().enumerate().all(|(i, x)| x.is_nan() == (i / area % 5 == 2)), "{area}");
        assert!(dgamma.iter().enumerate().all(|(c, x)| x.is_nan() == (c == 2)));
        assert!(dbeta.iter().all(|x| x.is_finite()));
    }
}

#[test]
fn a_large_mean_keeps_digits() {
    for (samples, area) in [(64, 1), (1, 64)] {
        let p = view(samples, 1, area);
        let x: Vec<f32> = (0..64).map(|i| 1e4 + (i % 2) as f32).collect();
        // dy = x̂ has no part of dx left, apart from rounding.
        let hat: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
        let [dx, dgamma, dbeta] = backward(&p, &[hat, x, vec![1e4 + 0.5], vec![2.0], vec![1.0]]);
        close(&dx, &[0f32; 64], 1e-6);
        close(&dgamma, &[64f32], 0.0);
        close(&dbeta, &[0f32], 0.0);
    }
}
