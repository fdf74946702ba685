//! Tests of group norm and its adjoint: against naive loops in f64, at the edges of shapes and values, the adjoint in
//! place or not, in 1, 2, 3 and 7 unit ranges (see `harness`).

use super::*;
use crate::harness::{In, Out, close, hash_numbers, run_in_ranges, written_elements};
use crate::reduce;

/// dy, x, mean, rstd, γ.
type Operands<T> = [Vec<T>; 5];

fn operands<T: Float>(p: &GroupNormGrad) -> Operands<T> {
    let (rows, all) = (p.samples * p.groups, p.samples * p.groups * p.row());
    let rstd = hash_numbers::<T>(rows, 4).into_iter().map(|x| x + T::TWO).collect();
    let x: Vec<T> = hash_numbers(all, 2);
    let mean_of = |x: &[T]| T::from_f64(x.iter().map(|x| x.to_f64()).sum::<f64>() / x.len() as f64);
    let mean = x.chunks(p.row()).map(mean_of).collect();
    [hash_numbers(all, 1), x, mean, rstd, hash_numbers(p.groups * p.channels, 5)]
}

/// dx, dγ, dβ of the kernel.
fn backward<T: Float>(p: &GroupNormGrad, of: &Operands<T>) -> [Vec<T>; 3] {
    assert_eq!(GroupNormGrad::from_words(&p.to_words()), *p);
    let partial = || Out::of::<T>(p.partials() * p.groups * p.channels, p.partials_per_unit());
    let writes = [Out::of::<T>(of[1].len(), p.per_unit()), partial(), partial()];
    let reads: Vec<In> = of.iter().map(|x| In::of(x)).collect();
    let got = run_in_ranges(group_norm_backward_kernel::<T>, &p.to_words(), &reads, &writes, p.units());
    if p.area > 1 {
        let mut reads = reads;
        reads[0] = In::of(&of[0]).over(0);
        let over = run_in_ranges(group_norm_backward_kernel::<T>, &p.to_words(), &reads, &writes, p.units());
        assert_eq!(got, over, "{p:?} in place");
    }
    let c = p.combine();
    let sum = |j: usize| {
        let out = [Out::of::<T>(p.groups * p.channels, c.per_unit())];
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
    [written_elements(&got, 0), sum(1), sum(2)]
}

/// dx, dγ, dβ by the definition.
fn naive<T: Float>(p: &GroupNormGrad, of: &Operands<T>) -> [Vec<f64>; 3] {
    let [dy, x, mean, rstd, gamma] = of.each_ref().map(|v| v.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
    let (n, c) = (p.row(), p.groups * p.channels);
    let (mut dx, mut dgamma, mut dbeta) = (vec![], vec![0.0; c], vec![0.0; c]);
    for r in 0..p.samples * p.groups {
        let channel = |i: usize| r % p.groups * p.channels + i / p.area;
        let g = |i: usize| dy[r * n + i] * gamma[channel(i)];
        let hat = |i: usize| (x[r * n + i] - mean[r]) * rstd[r];
        let a = (0..n).map(g).sum::<f64>() / n as f64;
        let b = (0..n).map(|i| g(i) * hat(i)).sum::<f64>() / n as f64;
        for i in 0..n {
            dx.push(rstd[r] * (g(i) - a - hat(i) * b));
            dgamma[channel(i)] += dy[r * n + i] * hat(i);
            dbeta[channel(i)] += dy[r * n + i];
        }
    }
    [dx, dgamma, dbeta]
}

fn check<T: Float>(p: GroupNormGrad, tolerance: f64) {
    let of = operands::<T>(&p);
    let (got, want) = (backward(&p, &of), naive(&p, &of));
    for (got, want) in got.iter().zip(&want) {
        let got: Vec<f64> = got.iter().map(|x| x.to_f64()).collect();
        // A sum of many terms has the error of its largest partial sum.
        close(&got, want, tolerance * (p.samples * p.area) as f64);
    }
}

const fn view(samples: usize, groups: usize, channels: usize, area: usize) -> GroupNormGrad {
    GroupNormGrad { samples, groups, channels, area }
}

/// One element, one channel, primes, one long channel, units of parts of a sample, units of many samples.
const VIEWS: &[GroupNormGrad] = &[
    view(1, 1, 1, 1),
    view(3, 1, 1, 7),
    view(2, 3, 2, 5),
    view(5, 3, 7, 1),
    view(2, 5, 1, 9001),
    view(3, 4, 40, 31),
    view(3, 700, 2, 3),
    view(70, 2, 3, 19),
    view(300, 3, 2, 1),
    view(2000, 1, 1, 2),
    view(1, 1, 33, 1100),
];

/// y, mean, rstd of the kernel.
fn forward<T: Float>(p: &GroupNorm, x: &[T], gamma: &[T], beta: &[T]) -> [Vec<T>; 3] {
    assert_eq!(GroupNorm::from_words(&p.to_words()), *p);
    let statistic = || Out::of::<T>(p.rows, p.rows_per_unit());
    let writes = [Out::of::<T>(x.len(), p.per_unit()), statistic(), statistic()];
    let reads = [x, gamma, beta].map(In::of);
    let got = run_in_ranges(group_norm_kernel::<T>, &p.to_words(), &reads, &writes, p.units());
    [0, 1, 2].map(|j| written_elements(&got, j))
}

#[test]
fn results_are_those_of_the_definition() {
    for &GroupNormGrad { samples, groups, channels, area } in VIEWS {
        let p = GroupNorm { rows: samples * groups, groups, channels, area, eps: 1e-3 };
        let n = channels * area;
        let (x, gamma, beta) = (
            hash_numbers::<f64>(p.rows * n, 2),
            hash_numbers::<f64>(groups * channels, 3),
            hash_numbers::<f64>(groups * channels, 4),
        );
        let [mut y, mut means, mut rstds] = [const { Vec::<f64>::new() }; 3];
        for (r, x) in x.chunks(n).enumerate() {
            let mean = x.iter().sum::<f64>() / n as f64;
            let rstd = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64 + p.eps).sqrt().recip();
            let channel = |i: usize| r % groups * channels + i / area;
            y.extend((0..n).map(|i| (x[i] - mean) * rstd * gamma[channel(i)] + beta[channel(i)]));
            means.push(mean);
            rstds.push(rstd);
        }
        let [got_y, got_means, got_rstds] = forward(&p, &x, &gamma, &beta);
        close(&got_y, &y, 1e-12);
        close(&got_means, &means, 1e-13);
        close(&got_rstds, &rstds, 1e-12);
    }
}

#[test]
fn results_far_from_0_keep_digits() {
    let p = GroupNorm { rows: 1, groups: 1, channels: 2, area: 32, eps: 0.0 };
    let x: Vec<f32> = (0..64).map(|i| 1e4 + (i % 2) as f32).collect();
    let [y, mean, rstd] = forward(&p, &x, &[1.0, 3.0], &[0.0, 1.0]);
    let want: Vec<f32> = (0..64).map(|i| (i % 2) as f32 * 2.0 - 1.0).collect();
    close(&y[..32], &want[..32], 1e-6);
    close(&y[32..], &want[32..].iter().map(|hat| 3.0 * hat + 1.0).collect::<Vec<_>>(), 1e-6);
    close(&[mean[0], rstd[0]], &[1e4 + 0.5, 2.0], 1e-6);
}

#[test]
fn gradients_are_those_of_the_definition() {
    for p in VIEWS {
        check::<f64>(*p, 1e-14);
        check::<f32>(*p, 2e-6);
    }
}

#[test]
fn partials_are_smaller_than_x() {
    for p in VIEWS {
        let (partials, all) = (p.partials() * p.groups * p.channels, p.samples * p.groups * p.row());
        assert!(partials * SHARE.min(p.samples * p.area) <= all + p.groups * p.row() * SHARE, "{p:?}: {partials}");
        assert!(p.units() * p.per_unit() >= all);
    }
}

#[test]
fn a_nan_stays_in_its_group() {
    let p = view(2, 2, 2, 20);
    let mut of = operands::<f64>(&p);
    of[0][43] = f64::NAN;
    let [dx, dgamma, dbeta] = backward(&p, &of);
    let of_group = |i: usize| i / 40 == 1;
    assert!(dx.iter().enumerate().all(|(i, x)| x.is_nan() == of_group(i)));
    let nan = |d: &[f64]| d.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
    assert_eq!(nan(&dgamma), [false, false, true, false]);
    assert_eq!(nan(&dbeta), [false, false, true, false]);
}

#[test]
fn a_large_mean_keeps_digits() {
    let p = view(1, 1, 2, 32);
    let x: Vec<f32> = (0..64).map(|i| 1e4 + (i % 2) as f32).collect();
    // dy = x̂ has no part of dx left, apart from rounding.
    let hat: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 }).collect();
    let [dx, dgamma, dbeta] = backward(&p, &[hat, x, vec![1e4 + 0.5], vec![2.0], vec![1.0, 1.0]]);
    close(&dx, &[0f32; 64], 1e-6);
    close(&dgamma, &[32f32, 32.0], 0.0);
    close(&dbeta, &[0f32, 0.0], 0.0);
}
