//! Tests of the kernels in `optim.rs`: against naive loops in f64, at the edges of shapes and values, in 1, 2, 3 and 7
//! unit ranges (see `harness`).

use super::*;
use crate::abi::{Kernel, Split};
use crate::gemm::{Gemm, gemm};
use crate::harness::{In, Out, close, noise, noise32, run_in_ranges, written_elements};

const LENGTHS: [usize; 5] = [0, 1, 1000, 1024, 5000];

/// The state of one parameter: p, and the moments of its optimiser.
type State = Vec<Vec<f64>>;

fn sgd_step(a: &Sgd, state: &[Vec<f64>], g: &[f64], lr: f64, t: i64, scale: f64, inplace: bool) -> State {
    let place = |x: &[f64], j: u8| if inplace { In::of(x).over(j) } else { In::of(x) };
    let mut reads = vec![place(&state[0], 0), In::of(g)];
    let mut writes = vec![Out::of::<f64>(a.len, UNIT)];
    if a.momentum != 0.0 {
        reads.push(place(&state[1], 1));
        writes.push(Out::of::<f64>(a.len, UNIT));
    }
    reads.push(In::of(&[lr]));
    if a.momentum != 0.0 {
        reads.push(In::of(&[t]));
    }
    if a.scaled {
        reads.push(In::of(&[scale]));
    }
    let got = run_in_ranges(sgd_update_kernel::<f64>, &a.to_words(), &reads, &writes, a.len.div_ceil(UNIT));
    (0..writes.len()).map(|j| written_elements(&got, j)).collect()
}

fn naive_sgd(a: &Sgd, state: &mut [Vec<f64>], g: &[f64], lr: f64, t: i64, scale: f64) {
    for i in 0..a.len {
        let p = state[0][i];
        let g = scale * g[i] + a.weight_decay * p;
        let mut step = g;
        if a.momentum != 0.0 {
            let buf = if t == 1 { g } else { a.momentum * state[1][i] + (1.0 - a.dampening) * g };
            state[1][i] = buf;
            step = if a.nesterov { g + a.momentum * buf } else { buf };
        }
        state[0][i] = p - lr * step;
    }
}

#[test]
fn sgd_is_torchs() {
    let plain = Sgd { len: 0, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, scaled: false };
    let kinds = [
        plain,
        Sgd { weight_decay: 0.1, scaled: true, ..plain },
        Sgd { momentum: 0.9, ..plain },
        Sgd { momentum: 0.9, nesterov: true, weight_decay: 0.01, ..plain },
        Sgd { momentum: 0.8, dampening: 0.5, scaled: true, ..plain },
    ];
    for len in LENGTHS {
        for a in kinds.map(|k| Sgd { len, ..k }) {
            assert_eq!(Sgd::from_words(&a.to_words()), a);
            // The initial contents of the buffer do not matter.
            let start = vec![noise(len, 1), vec![f64::NAN; if a.momentum != 0.0 { len } else { 0 }]];
            let (mut want, mut got) = (start.clone(), start);
            let scale = if a.scaled { 0.25 } else { 1.0 };
            for t in 1..4 {
                let g = noise(len, 10 + t as u64);
                let next = sgd_step(&a, &got, &g, 0.1, t, 0.25, false);
                assert_eq!(sgd_step(&a, &got, &g, 0.1, t, 0.25, true), next);
                got = next;
                naive_sgd(&a, &mut want, &g, 0.1, t, scale);
                for (got, want) in got.iter().zip(&want) {
                    close(got, want, 1e-14);
                }
            }
        }
    }
}

fn adam_step(a: &Adam, s: &[Vec<f64>], g: &[f64], lr: f64, t: i64, scale: f64, inplace: bool) -> State {
    let place = |x: &[f64], j: u8| if inplace { In::of(x).over(j) } else { In::of(x) };
    let mut reads = vec![place(&s[0], 0), In::of(g), place(&s[1], 1), place(&s[2], 2), In::of(&[lr]), In::of(&[t])];
    if a.scaled {
        reads.push(In::of(&[scale]));
    }
    let writes = [0; 3].map(|_| Out::of::<f64>(a.len, UNIT));
    let got = run_in_ranges(adam_update_kernel::<f64>, &a.to_words(), &reads, &writes, a.len.div_ceil(UNIT));
    (0..3).map(|j| written_elements(&got, j)).collect()
}

fn naive_adam(a: &Adam, s: &mut [Vec<f64>], g: &[f64], lr: f64, t: i32, scale: f64) {
    for i in 0..a.len {
        let mut g = scale * g[i];
        if a.decoupled {
            s[0][i] *= 1.0 - lr * a.weight_decay;
        } else {
            g += a.weight_decay * s[0][i];
        }
        s[1][i] = a.beta1 * s[1][i] + (1.0 - a.beta1) * g;
        s[2][i] = a.beta2 * s[2][i] + (1.0 - a.beta2) * g * g;
        let m = s[1][i] / (1.0 - a.beta1.powi(t));
        let v = s[2][i] / (1.0 - a.beta2.powi(t));
        s[0][i] -= lr * m / (v.sqrt() + a.eps);
    }
}

#[test]
fn adam_is_torchs() {
    let plain =
        Adam { len: 0, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, decoupled: false, scaled: false };
    let kinds = [
        plain,
        Adam { weight_decay: 0.1, ..plain },
        Adam { weight_decay: 0.1, decoupled: true, scaled: true, ..plain },
        Adam { beta1: 0.3, eps: 1e-3, ..plain },
    ];
    for len in LENGTHS {
        for a in kinds.map(|k| Adam { len, ..k }) {
            assert_eq!(Adam::from_words(&a.to_words()), a);
            let start = vec![noise(len, 1), vec![0.0; len], vec![0.0; len]];
            let (mut want, mut got) = (start.clone(), start);
            let scale = if a.scaled { 0.25 } else { 1.0 };
            for t in 1..4 {
                let g = noise(len, 10 + t as u64);
                let next = adam_step(&a, &got, &g, 1e-2, t, 0.25, false);
                assert_eq!(adam_step(&a, &got, &g, 1e-2, t, 0.25, true), next);
                got = next;
                naive_adam(&a, &mut want, &g, 1e-2, t as i32, scale);
                for (got, want) in got.iter().zip(&want) {
                    close(got, want, 1e-13);
                }
            }
        }
    }
}

#[test]
fn the_first_adam_step_in_f32_has_the_length_of_the_rate() {
    let a = Adam { len: 3, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, decoupled: false, scaled: false };
    let zeros = [0f32; 3];
    let reads = [&[1f32, 1.0, 1.0], &[3f32, -0.5, 0.0], &zeros, &zeros].map(|x| In::of(x)).into_iter();
    let reads: Vec<In> = reads.chain([In::of(&[0.1f32]), In::of(&[1i64])]).collect();
    let writes = [0; 3].map(|_| Out::of::<f32>(3, UNIT));
    let got = run_in_ranges(adam_update_kernel::<f32>, &a.to_words(), &reads, &writes, a.len.div_ceil(UNIT));
    close(&written_elements::<f32>(&got, 0), &[0.9, 1.1, 1.0], 1e-6);
    close(&written_elements::<f32>(&got, 1), &[0.3, -0.05, 0.0], 1e-7);
    close(&written_elements::<f32>(&got, 2), &[0.009, 0.00025, 0.0], 1e-7);
}

#[test]
fn subnormal_moments_become_zero() {
    let tiny = vec![f32::MIN_POSITIVE; 2000];
    let g = vec![0f32; 2000];
    let a = Adam { len: 2000, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0, decoupled: false, scaled: false };
    let p = noise32(2000, 1);
    let reads = [&p, &g, &tiny, &tiny].map(|x| In::of(x)).into_iter();
    let reads: Vec<In> = reads.chain([In::of(&[0.1f32]), In::of(&[9i64])]).collect();
    let writes = [0; 3].map(|_| Out::of::<f32>(2000, UNIT));
    let got = run_in_ranges(adam_update_kernel::<f32>, &a.to_words(), &reads, &writes, a.len.div_ceil(UNIT));
    assert_eq!(written_elements::<f32>(&got, 0), p);
    assert_eq!([written_elements::<f32>(&got, 1), written_elements::<f32>(&got, 2)], [g.clone(), g.clone()]);
    let a = Sgd { len: 2000, momentum: 0.9, dampening: 0.0, nesterov: false, weight_decay: 0.0, scaled: false };
    let reads = [In::of(&p), In::of(&g), In::of(&tiny), In::of(&[0.1f32]), In::of(&[2i64])];
    let got = run_in_ranges(sgd_update_kernel::<f32>, &a.to_words(), &reads, &writes[..2], a.len.div_ceil(UNIT));
    assert_eq!([written_elements::<f32>(&got, 0), written_elements::<f32>(&got, 1)], [p, g]);
}

/// Several parameters of different lengths in one call: the bits of a call for each.
#[test]
fn several_params_are_one_call() {
    let lens = [5, 2500, 1, 1024];
    let all: Vec<[Vec<f32>; 4]> =
        (0..lens.len()).map(|i| [0, 1, 2, 3].map(|k| noise32(lens[i], (4 * i + k) as u64 + 1))).collect();
    // Second moments are not negative.
    let all: Vec<[Vec<f32>; 4]> =
        all.into_iter().map(|[p, g, m, v]| [p, g, m, v.iter().map(|v| v * v).collect()]).collect();
    let adam = Adam { len: 0, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1, decoupled: true, scaled: true };
    let plain = Sgd { len: 0, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.1, scaled: true };
    let moving = Sgd { momentum: 0.9, nesterov: true, scaled: false, ..plain };
    let (lr, t, scale) = ([0.1f32], [3i64], [0.5f32]);
    let scalars = |kind: usize| match kind {
        0 => vec![In::of(&lr), In::of(&scale)],
        1 => vec![In::of(&lr), In::of(&t)],
        _ => vec![In::of(&lr), In::of(&t), In::of(&scale)],
    };
    for kind in 0..3 {
        let (reads, writes) = [(2, 1), (3, 2), (4, 3)][kind];
        let call = |which: &[usize]| -> Vec<Vec<f32>> {
            let len = which.iter().map(|&i| lens[i]).max().unwrap();
            let mut ins: Vec<In> = Vec::new();
            let mut outs: Vec<Out> = Vec::new();
            for (k, &i) in which.iter().enumerate() {
                // Every other parameter is updated in place.
                for (r, x) in all[i].iter().enumerate().take(reads) {
                    let read = In::of(x);
                    let write = (writes * k + r.saturating_sub(usize::from(r > 0))) as u8;
                    ins.push(if r != 1 && i % 2 == 0 { read.over(write) } else { read });
                }
                outs.extend((0..writes).map(|_| Out::of::<f32>(lens[i], UNIT)));
            }
            ins.extend(scalars(kind));
            let units = len.div_ceil(UNIT);
            let got = match kind {
                0 => run_in_ranges(sgd_update_kernel::<f32>, &Sgd { len, ..plain }.to_words(), &ins, &outs, units),
                1 => run_in_ranges(sgd_update_kernel::<f32>, &Sgd { len, ..moving }.to_words(), &ins, &outs, units),
                _ => run_in_ranges(adam_update_kernel::<f32>, &Adam { len, ..adam }.to_words(), &ins, &outs, units),
            };
            (0..outs.len()).map(|j| written_elements(&got, j)).collect()
        };
        let apart: Vec<Vec<f32>> = (0..lens.len()).flat_map(|i| call(&[i])).collect();
        assert!(call(&[0, 1, 2, 3]) == apart, "{kind}");
    }
}

/// A fused update has the bits of the product followed by the step, also where rows are prefetched and sums are split.
#[test]
fn steps_take_products_tile_by_tile() {
    let adam = Adam { len: 0, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.1, decoupled: false, scaled: true };
    let sgd = Sgd { len: 0, momentum: 0.9, dampening: 0.0, nesterov: false, weight_decay: 0.1, scaled: false };
    for (m, n, k) in [(400, 330, 20), (450, 300, 600), (70, 41, 600)] {
        let (g, len) = (Gemm::new(m, n, k).with_a_transposed(), m * n);
        let (a, b) = (noise32(m * k, 1), noise32(k * n, 2));
        let mut product = vec![0.0f32; len];
        gemm(&g, &a, &b, None, &mut product, 0..g.units(), &mut vec![0.0; g.scratch_len::<f32>()]);
        let states = [noise32(len, 3), noise32(len, 4), noise32(len, 5).iter().map(|v| v * v).collect()];
        let (lr, t, scale) = (In::of(&[0.1f32]), In::of(&[3i64]), In::of(&[0.5f32]));
        for (tensors, inplace) in [(2, false), (2, true), (3, false), (3, true)] {
            let place = |j: usize| {
                let x = In::of(&states[j]);
                if inplace { x.over(j as u8) } else { x }
            };
            let scalars = [lr.clone(), t.clone(), scale.clone()].into_iter().take(tensors);
            let outs = |per: usize| (0..tensors).map(move |_| Out::of::<f32>(len, per));
            let reads: Vec<In> = [place(0), In::of(&product)].into_iter().chain((1..tensors).map(place)).collect();
            let reads: Vec<In> = reads.into_iter().chain(scalars.clone()).collect();
            let (words, [after, behind]): (_, [Kernel; 2]) = match tensors {
                2 => (Sgd { len, ..sgd }.to_words(), [sgd_update_kernel::<f32>, fused_sgd_update_kernel::<f32>]),
                _ => (Adam { len, ..adam }.to_words(), [adam_update_kernel::<f32>, fused_adam_update_kernel::<f32>]),
            };
            let want = run_in_ranges(after, &words, &reads, &outs(UNIT).collect::<Vec<_>>(), len.div_ceil(UNIT));
            let reads = [In::of(&a), In::of(&b)].into_iter().chain((0..tensors).map(place)).chain(scalars);
            let scratch = g.sink_scratch::<f32>();
            let outs = outs(g.per_unit()).chain([Out(scratch, size_of::<f32>(), Split::PerThread(scratch))]);
            let words: Vec<u64> = g.to_words().into_iter().chain(words).collect();
            let got = run_in_ranges(behind, &words, &reads.collect::<Vec<_>>(), &outs.collect::<Vec<_>>(), g.units());
            for j in 0..tensors {
                assert!(
                    written_elements::<f32>(&got, j) == written_elements::<f32>(&want, j),
                    "{m} x {n} x {k}: {tensors} tensors, {inplace}"
                );
            }
        }
    }
}
