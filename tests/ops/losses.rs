//! Losses against torch's formulas and plain loops in f64; derivatives against differences; edges; errors. The loss of
//! alignments is compared with the sum over all of them.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::slopes::derivatives_agree;
use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, try_run_once};
use arenagrad::graph::{Builder, CrossEntropy, DType, GradOptions, GraphBuf, Reduction, Var, grad};
use arenagrad::nn::{self, Ctc, PoissonNll, Triplet};
use arenagrad::tools::ir::opdef::Domain;

const F64: DType = DType::F64;
const I64: DType = DType::I64;
const INF: f64 = f64::INFINITY;
const REDUCTIONS: [Reduction; 3] = [Reduction::None, Reduction::Mean, Reduction::Sum];

/// A graph of inputs x0, x1 … like these tensors, with output y.
fn graph(inputs: &[Tensor], f: impl for<'g> FnOnce(&[Var<'g>]) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("loss");
    let xs: Vec<Var> = inputs.iter().enumerate().map(|(i, t)| g.input(&format!("x{i}"), &t.dims, t.dtype)).collect();
    g.finish([f(&xs).named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

fn floats(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

fn ints(dims: &[usize], data: &[i64]) -> Tensor {
    Tensor { dtype: I64, dims: dims.to_vec(), data: data.iter().map(|&x| x as f64).collect() }
}

fn reduced(reduction: Reduction, each: Vec<f64>, mean: f64, sum: f64) -> Vec<f64> {
    match reduction {
        Reduction::None => each,
        Reduction::Mean => vec![mean],
        Reduction::Sum => vec![sum],
        other => panic!("{other:?}"),
    }
}

/// Checks a loss that reduces `each` as torch does: values of all reductions, and derivatives.
fn loss_is(inputs: &[Tensor], each: &[f64], f: impl for<'g> Fn(&[Var<'g>], Reduction) -> Var<'g>) {
    let sum: f64 = each.iter().sum();
    for reduction in REDUCTIONS {
        let g = graph(inputs, |v| f(v, reduction));
        let got = run(&g, inputs, PLAIN).remove(0).data;
        let want = reduced(reduction, each.to_vec(), sum / each.len() as f64, sum);
        assert!(conform_distance(&got, &want) < 1e-13, "{reduction:?}: {got:?} {want:?}");
        derivatives_agree(&g, inputs);
    }
}

/// `f` of the elements of two tensors.
fn pairs(a: &Tensor, b: &Tensor, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.data.iter().zip(&b.data).map(|(&a, &b)| f(a, b)).collect()
}

/// The gradient of Σ y in x0.
fn gradient(inputs: &[Tensor], f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) -> Vec<f64> {
    let back = grad(&graph(inputs, |v| f(v).sum(..)), "y", &GradOptions::wrt(&["x0"])).unwrap();
    run(&back, inputs, PLAIN).remove(1).data
}

fn value(inputs: &[Tensor], f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) -> Vec<f64> {
    run(&graph(inputs, f), inputs, PLAIN).remove(0).data
}

#[test]
fn smooth_l1_is_a_parabola_and_lines() {
    let mut draw = TensorDraws(1);
    let [a, b] = [0; 2].map(|_| draw.tensor(F64, &[4, 5], Domain::Real));
    for beta in [0.7, 2.0] {
        let each = pairs(&a, &b, |a, b| {
            let d = (a - b).abs();
            if d < beta { 0.5 * d * d / beta } else { d - 0.5 * beta }
        });
        loss_is(&[a.clone(), b.clone()], &each, |v, r| nn::smooth_l1_loss(v[0], v[1], beta, r));
    }
    let each = pairs(&a, &b, |a, b| (a - b).abs());
    loss_is(&[a, b], &each, |v, r| nn::smooth_l1_loss(v[0], v[1], 0.0, r));
}

#[test]
fn huber_without_a_bend_is_a_parabola() {
    let inputs = [floats(&[3], &[1.0, -2.0, 0.0]), floats(&[3], &[0.5, 7.0, 0.0])];
    let each: Vec<f64> = pairs(&inputs[0], &inputs[1], |a, b| 0.5 * (a - b) * (a - b));
    loss_is(&inputs, &each, |v, r| nn::huber_loss(v[0], v[1], f64::INFINITY, r));
    let slopes = gradient(&inputs, |v| nn::huber_loss(v[0], v[1], f64::INFINITY, Reduction::None));
    assert_eq!(slopes, [0.5, -9.0, 0.0]);
}

#[test]
fn gaussian_and_poisson_likelihoods() {
    let mut draw = TensorDraws(2);
    let [x, t] = [0; 2].map(|_| draw.tensor(F64, &[3, 4], Domain::Real));
    let var = draw.tensor(F64, &[3, 1], Domain::Positive);
    let tau = 2.0 * std::f64::consts::PI;
    for full in [false, true] {
        let at = |i: usize| {
            let (d, v) = (x.data[i] - t.data[i], var.data[i / 4]);
            0.5 * (v.ln() + d * d / v) + if full { 0.5 * tau.ln() } else { 0.0 }
        };
        let each: Vec<f64> = (0..12).map(at).collect();
        let inputs = [x.clone(), t.clone(), var.clone()];
        loss_is(&inputs, &each, |v, r| nn::gaussian_nll_loss(v[0], v[1], v[2], full, 1e-6, r));
    }
    // Below the bound the variance is the bound, and has the gradient there: (1/v − d²/v²)/2 at v = 0.5.
    let small = [floats(&[1], &[0.1]), floats(&[1], &[1.0]), floats(&[1], &[3.0])];
    let g = gradient(&small, |v| nn::gaussian_nll_loss(v[1], v[2], v[0], false, 0.5, Reduction::Sum));
    assert!((g[0] - 0.5 * (2.0 - 4.0 / 0.25)).abs() < 1e-14, "{g:?}");
    let rate = draw.tensor(F64, &[6], Domain::Positive);
    let count = floats(&[6], &[0.0, 1.0, 2.0, 3.0, 0.5, 7.0]);
    for (log_input, full) in [(true, false), (true, true), (false, false), (false, true)] {
        let opt = PoissonNll::default().log_input(log_input).full(full);
        let each = pairs(&rate, &count, |x, t| {
            let stirling = if full && t > 1.0 { t * t.ln() - t + 0.5 * (tau * t).ln() } else { 0.0 };
            stirling + if log_input { x.exp() - t * x } else { x - t * (x + 1e-8).ln() }
        });
        let mut near = count.clone();
        near.data[1] = 1.3;
        let each_near = pairs(&rate, &near, |x, t| {
            let stirling = if full && t > 1.0 { t * t.ln() - t + 0.5 * (tau * t).ln() } else { 0.0 };
            stirling + if log_input { x.exp() - t * x } else { x - t * (x + 1e-8).ln() }
        });
        let got =
            value(&[rate.clone(), count.clone()], |v| nn::poisson_nll_loss(v[0], v[1], opt.reduction(Reduction::None)));
        assert!(conform_distance(&got, &each) < 1e-14);
        // Away from the kink at 1.
        loss_is(&[rate.clone(), near], &each_near, |v, reduction| {
            nn::poisson_nll_loss(v[0], v[1], opt.reduction(reduction))
        });
    }
}

#[test]
fn triplets_compare_distances() {
    let mut draw = TensorDraws(3);
    let all: Vec<Tensor> = (0..3).map(|_| draw.tensor(F64, &[6, 4], Domain::Real)).collect();
    for (p, swap, margin) in [(2.0, false, 1.0), (2.0, true, 0.5), (1.0, false, 2.0), (3.0, true, 1.0)] {
        let distance = |a: &Tensor, b: &Tensor, row: usize| {
            let each = (0..4).map(|k| (a.data[row * 4 + k] - b.data[row * 4 + k] + 1e-6).abs().powf(p));
            each.sum::<f64>().powf(1.0 / p)
        };
        let at = |row: usize| {
            let (near, far) = (distance(&all[0], &all[1], row), distance(&all[0], &all[2], row));
            let far = if swap { far.min(distance(&all[1], &all[2], row)) } else { far };
            (near - far + margin).max(0.0)
        };
        let each: Vec<f64> = (0..6).map(at).collect();
        assert!(each.iter().any(|&x| x > 0.0));
        loss_is(&all, &each, |v, reduction| {
            nn::triplet_margin_loss(
                v[0],
                v[1],
                v[2],
                Triplet::default().margin(margin).p(p).swap(swap).reduction(reduction),
            )
        });
    }
}

/// By default the margin is 1, the norm is Euclidean, and nothing is swapped: 10 − 9 + 1, less 4e-7 by eps.
#[test]
fn vectors_lie_along_the_last_axis() {
    let points = [[0.0, 0.0], [6.0, 8.0], [0.0, 9.0]].map(|p| floats(&[1, 1, 2], &p));
    let got = value(&points, |v| nn::triplet_margin_loss(v[0], v[1], v[2], Triplet::default()));
    assert!((got[0] - 2.0).abs() < 1e-6, "{got:?}");
    // Without a batch, as torch takes them, too. The cosine is 0.24 / 0.5².
    for (sign, want) in [(1.0, 0.04), (-1.0, 0.46)] {
        let inputs = [floats(&[2], &[0.3, 0.4]), floats(&[2], &[0.4, 0.3]), floats(&[], &[sign])];
        let got = value(&inputs, |v| nn::cosine_embedding_loss(v[0], v[1], v[2], 0.5, Reduction::None));
        assert!((got[0] - want).abs() < 1e-14, "{got:?}");
    }
}

/// torch.nn.BCELoss: logarithms are at least −100, and the gradient is (p − t)/max(p(1 − p), 1e-12).
#[test]
fn cross_entropy_of_probabilities_of_two_classes() {
    let p = floats(&[2, 3], &[0.1, 0.5, 0.9, 0.3, 0.7, 0.8]);
    let t = floats(&[2, 3], &[0.0, 1.0, 0.25, 1.0, 0.0, 1.0]);
    let each = pairs(&p, &t, |p, t| -(t * p.ln() + (1.0 - t) * (1.0 - p).ln()));
    loss_is(&[p, t], &each, |v, r| v[0].bce(v[1], r));
    let edge = [floats(&[4], &[0.0, 1.0, 0.0, 1.0]), floats(&[4], &[1.0, 0.0, 0.0, 1.0])];
    assert_eq!(value(&edge, |v| v[0].bce(v[1], Reduction::None)), [100.0, 100.0, 0.0, 0.0]);
    let g = gradient(&edge, |v| v[0].bce(v[1], Reduction::None));
    assert!(conform_distance(&g, &[-1e12, 1e12, 1.0, -1.0]) < 1e-12, "{g:?}");
    let bad = [floats(&[2], &[-0.1, f64::NAN]), floats(&[2], &[1.0, 0.0])];
    assert!(value(&bad, |v| v[0].bce(v[1], Reduction::None)).iter().all(|x| x.is_nan()));
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let most = row.iter().copied().fold(-INF, f64::max);
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    row.iter().map(|x| x - most - sum.ln()).collect()
}

#[test]
fn classes_have_weights() {
    let mut draw = TensorDraws(4);
    let (x, w) = (draw.tensor(F64, &[2, 3, 4], Domain::Real), draw.tensor(F64, &[4], Domain::Positive));
    let labels = ints(&[2, 3], &[3, 0, -7, 2, 2, 1]);
    for smooth in [0.0, 0.2, 1.0] {
        let row = |i: usize| {
            let (y, log) = (labels.data[i], log_softmax(&x.data[i * 4..][..4]));
            if y < 0.0 {
                return (0.0, 0.0);
            }
            let spread: f64 = log.iter().zip(&w.data).map(|(l, w)| -l * w).sum();
            let y = y as usize;
            (-(1.0 - smooth) * w.data[y] * log[y] + smooth / 4.0 * spread, w.data[y])
        };
        let rows: Vec<(f64, f64)> = (0..6).map(row).collect();
        let (sum, weights) = rows.iter().fold((0.0, 0.0), |s, r| (s.0 + r.0, s.1 + r.1));
        let inputs = [x.clone(), labels.clone(), w.clone()];
        for reduction in REDUCTIONS {
            let g = graph(&inputs, |v| {
                let opt =
                    CrossEntropy::default().ignore_index(-7).label_smoothing(smooth).reduction(reduction).weight(v[2]);
                v[0].cross_entropy_with(v[1], opt)
            });
            let got = run(&g, &inputs, PLAIN).remove(0);
            let want = reduced(reduction, rows.iter().map(|r| r.0).collect(), sum / weights, sum);
            assert_eq!(got.dims.len(), if reduction == Reduction::None { 2 } else { 0 });
            assert!(conform_distance(&got.data, &want) < 1e-14, "{smooth} {reduction:?}: {:?} {want:?}", got.data);
            derivatives_agree(&g, &inputs);
        }
    }
}

#[test]
fn targets_are_probabilities() {
    let mut draw = TensorDraws(5);
    let (x, w) = (draw.tensor(F64, &[5, 3], Domain::Real), draw.tensor(F64, &[3], Domain::Positive));
    let t = draw.tensor(F64, &[5, 3], Domain::Positive);
    for smooth in [0.0, 0.3] {
        for weighted in [false, true] {
            let row = |i: usize| -> f64 {
                let log = log_softmax(&x.data[i * 3..][..3]);
                let target = |k: usize| t.data[i * 3 + k] * (1.0 - smooth) + smooth / 3.0;
                (0..3).map(|k| -target(k) * log[k] * if weighted { w.data[k] } else { 1.0 }).sum()
            };
            let each: Vec<f64> = (0..5).map(row).collect();
            loss_is(&[x.clone(), t.clone(), w.clone()], &each, |v, reduction| {
                let weight = weighted.then_some(v[2]);
                let loss = v[0].cross_entropy_with(
                    v[1],
                    CrossEntropy::default().label_smoothing(smooth).reduction(reduction).weight(weight),
                );
                // Without weights there must still be a gradient of each input.
                if weighted { loss } else { loss + v[2].sum(..) * 0.0 }
            });
        }
    }
    // A class that cannot be: no 0·∞, neither in the value nor in the gradients.
    let inputs = [floats(&[1, 3], &[1.0, -INF, 2.0]), floats(&[1, 3], &[0.25, 0.0, 0.75])];
    let log = log_softmax(&[1.0, 2.0]);
    let want = -(0.25 * log[0] + 0.75 * log[1]);
    assert!((value(&inputs, |v| v[0].cross_entropy(v[1]))[0] - want).abs() < 1e-15);
    let g = gradient(&inputs, |v| v[0].cross_entropy(v[1]));
    assert!(conform_distance(&g, &[log[0].exp() - 0.25, 0.0, log[1].exp() - 0.75]) < 1e-15, "{g:?}");
}

/// −ln of the sum over all paths of `steps` classes that collapse to `labels`.
fn alignments(log: &[Vec<f64>], labels: &[usize], blank: usize) -> f64 {
    let (steps, classes) = (log.len(), log.first().map_or(1, Vec::len));
    let mut sum = 0.0;
    for mut n in 0..classes.pow(steps as u32) {
        let mut path = Vec::new();
        for _ in 0..steps {
            path.push(n % classes);
            n /= classes;
        }
        let p: f64 = path.iter().zip(log).map(|(&c, row)| row[c]).sum();
        path.dedup();
        path.retain(|&c| c != blank);
        if path == labels {
            sum += p.exp();
        }
    }
    -sum.ln()
}

const LABELS: [[i64; 3]; 6] = [[1, 2, 1], [2, 2, 77], [1, -5, 3], [9, 9, 9], [1, 1, 2], [2, 1, 2]];
const LENGTHS: [[i64; 2]; 6] = [[5, 3], [4, 2], [2, 1], [3, 0], [3, 3], [0, 0]];

/// Random logits `[5, 6, 3]`, and the labels with their lengths.
fn sequences() -> Vec<Tensor> {
    let x = TensorDraws(6).tensor(F64, &[5, 6, 3], Domain::Real);
    let column = |k: usize| LENGTHS.map(|l| l[k]);
    vec![x, ints(&[6, 3], LABELS.as_flattened()), ints(&[6], &column(0)), ints(&[6], &column(1))]
}

#[test]
fn alignments_are_summed() {
    let inputs = sequences();
    let (x, labels) = (&inputs[0], &inputs[1]);
    let one = |n: usize| {
        let [steps, len] = LENGTHS[n].map(|l| l as usize);
        let log: Vec<Vec<f64>> = (0..steps).map(|t| log_softmax(&x.data[(t * 6 + n) * 3..][..3])).collect();
        let labels: Vec<usize> = labels.data[n * 3..][..len].iter().map(|&c| c as usize).collect();
        alignments(&log, &labels, 0)
    };
    let each: Vec<f64> = (0..6).map(one).collect();
    // 1 1 2 needs four steps and has three.
    assert_eq!((each[4], each[5]), (INF, 0.0));
    for zero_infinity in [false, true] {
        let opt = Ctc::default().reduction(Reduction::None).zero_infinity(zero_infinity);
        let f = graph(&inputs, |v| nn::ctc_loss(v[0].log_softmax(-1), v[1], v[2], v[3], opt));
        for how in [PLAIN, How { threads: 3, share: true, ..PLAIN }, How { poison: true, ..PLAIN }] {
            let got = run(&f, &inputs, how).remove(0).data;
            let want: Vec<f64> = each.iter().map(|&l| if zero_infinity && l == INF { 0.0 } else { l }).collect();
            assert!(conform_distance(&got, &want) < 1e-13, "{got:?} {want:?}");
        }
        if zero_infinity {
            derivatives_agree(&f, &inputs);
        }
    }
    let mean = Ctc::default().zero_infinity(true);
    let got = value(&inputs, |v| nn::ctc_loss(v[0].log_softmax(-1), v[1], v[2], v[3], mean))[0];
    let terms = each.iter().zip(LENGTHS).map(|(&l, [_, len])| if l == INF { 0.0 } else { l / len.max(1) as f64 });
    assert!((got - terms.sum::<f64>() / 6.0).abs() < 1e-13);
    let g = gradient(&inputs, |v| nn::ctc_loss(v[0].log_softmax(-1), v[1], v[2], v[3], mean));
    assert!(g.iter().all(|x| x.is_finite()), "{g:?}");
    // Sequence 4 has no alignment, 5 no step; no step beyond a length counts.
    let of = |t: usize, n: usize| &g[(t * 6 + n) * 3..][..3];
    assert!((0..5).all(|t| of(t, 4) == [0.0; 3] && of(t, 5) == [0.0; 3]));
    assert!(of(4, 1) == [0.0; 3] && of(3, 1) != [0.0; 3]);
}

#[test]
fn another_class_may_be_the_blank() {
    let x = TensorDraws(7).tensor(F64, &[4, 2, 3], Domain::Real);
    let inputs = [x.clone(), ints(&[2, 2], &[0, 1, 1, 1]), ints(&[2], &[4, 4]), ints(&[2], &[2, 2])];
    let log = |n: usize| (0..4).map(|t| log_softmax(&x.data[(t * 2 + n) * 3..][..3])).collect::<Vec<_>>();
    let want = [alignments(&log(0), &[0, 1], 2), alignments(&log(1), &[1, 1], 2)];
    let opt = Ctc::default().blank(2).reduction(Reduction::None).zero_infinity(false);
    let got = value(&inputs, |v| nn::ctc_loss(v[0].log_softmax(-1), v[1], v[2], v[3], opt));
    assert!(conform_distance(&got, &want) < 1e-13, "{got:?} {want:?}");
    // No label at all: all steps are blank.
    let none = [x.clone(), ints(&[2, 0], &[]), ints(&[2], &[4, 1]), ints(&[2], &[0, 0])];
    let got = value(&none, |v| nn::ctc_loss(v[0].log_softmax(-1), v[1], v[2], v[3], opt));
    let blanks = |n: usize, steps: usize| -log(n)[..steps].iter().map(|row| row[2]).sum::<f64>();
    assert!(conform_distance(&got, &[blanks(0, 4), blanks(1, 1)]) < 1e-13);
}

#[test]
fn places_of_labels_fit_in_i32() {
    let of = |labels: usize| {
        let g = Builder::new("long");
        let i = |name: &str, dims: &[usize]| g.input(name, dims, I64);
        let (x, lengths) = (g.input("x", [3, 2, 4], F64), i("l", &[2]));
        let loss = nn::ctc_loss(x, i("t", &[2, labels]), lengths, lengths, Ctc::default());
        g.finish([loss]).map(|_| ()).map_err(|e| e.to_string())
    };
    let most = (i32::MAX / 4) as usize;
    assert_eq!(of(most), Ok(()));
    assert!(of(most + 1).unwrap_err().contains("ctc_loss: targets of 536870912 labels are too long"));
}

#[test]
fn labels_and_lengths_out_of_range_are_faults() {
    let fault = |labels: [i64; 2], steps: i64, len: i64| {
        let inputs =
            [floats(&[3, 1, 4], &[-1.0; 12]), ints(&[1, 2], &labels), ints(&[1], &[steps]), ints(&[1], &[len])];
        let f = graph(&inputs, |v| nn::ctc_loss(v[0], v[1], v[2], v[3], Ctc::default()));
        try_run_once(&f, &inputs, PLAIN).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(fault([3, 99], 3, 1), Ok(()));
    for (e, part) in [
        (fault([1, 4], 3, 2), "is 4; it must be in 0..4"),
        (fault([1, -1], 3, 2), "is -1; it must be in 0..4"),
        (fault([1, 2], 4, 2), "element 0 of the index operand is 4; it must be in 0..4"),
        (fault([1, 2], -1, 2), "element 0 of the index operand is -1; it must be in 0..4"),
        (fault([1, 2], 3, 3), "element 0 of the index operand is 3; it must be in 0..3"),
    ] {
        let e = e.unwrap_err();
        assert!(e.contains(part) && e.contains("tests/ops/losses.rs"), "{e}");
    }
}

/// The error of a graph of x `[3, 2, 4]`.
fn error(f: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>) -> String {
    let g = Builder::new("bad");
    f(&g, g.input("x", [3, 2, 4], F64));
    g.finish([]).unwrap_err().to_string()
}

/// The loss with labels and with two lengths of these numbers of rows.
fn ctc<'g>(g: &'g Builder, x: Var<'g>, [n, l, k]: [usize; 3], opt: Ctc) -> Var<'g> {
    let i = |name: &str, dims: &[usize]| g.input(name, dims, I64);
    nn::ctc_loss(x, i("t", &[n, 2]), i("l", &[l]), i("k", &[k]), opt)
}

fn labels<'g>(g: &'g Builder) -> Var<'g> {
    g.input("y", [3, 2], I64)
}

/// Checks that each error names the parts and this file.
fn named(errors: &[(String, [&str; 3])]) {
    for (e, parts) in errors {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/losses.rs"), "{e} {parts:?}");
    }
}

#[test]
fn what_does_not_fit_a_loss_is_named() {
    named(&[
        (error(|g, x| ctc(g, x.sum(0), [2; 3], Ctc::default())), ["ctc_loss", "f64[2,4]", "[T, N, classes]"]),
        // An error before is the one that counts.
        (error(|g, x| ctc(g, x.reshape([7]), [2; 3], Ctc::default())), ["reshape", "f64[3,2,4]", "shape [7]"]),
        (error(|g, x| ctc(g, x, [2; 3], Ctc::default().blank(4))), ["ctc_loss", "class 4", "of 4"]),
        (error(|g, x| ctc(g, x, [3, 2, 2], Ctc::default())), ["targets are i64[3,2]", "[N, S] is needed", "N = 2"]),
        (error(|g, x| ctc(g, x, [2, 3, 2], Ctc::default())), ["input lengths are i64[3]", "[N] is needed", "N = 2"]),
        (error(|g, x| ctc(g, x, [2, 2, 3], Ctc::default())), ["target lengths are i64[3]", "[N] is needed", "N = 2"]),
        (
            error(|g, x| nn::ctc_loss(x, labels(g).narrow(0, 0, 2), x, x, Ctc::default())),
            ["ctc_loss", "input lengths", "f64"],
        ),
        (error(|_, x| nn::smooth_l1_loss(x, x, -1.0, Reduction::Sum)), ["smooth_l1_loss", "beta is -1", "negative"]),
        (
            error(|_, x| nn::gaussian_nll_loss(x, x, x, false, 0.0, Reduction::Sum)),
            ["gaussian_nll_loss", "eps is 0", "positive"],
        ),
        (
            error(|_, x| nn::poisson_nll_loss(x, x, PoissonNll::default().eps(-1.0))),
            ["poisson_nll_loss", "eps is -1", "negative"],
        ),
    ]);
}

#[test]
fn what_does_not_fit_a_cross_entropy_is_named() {
    named(&[
        (error(|_, x| x.bce(x.sum(0), Reduction::Mean)), ["bce", "f64[2,4]", "f64[3,2,4]"]),
        (
            error(|g, x| {
                let weight = Some(x.sum([0, 2]));
                x.cross_entropy_with(labels(g), CrossEntropy::default().weight(weight))
            }),
            ["cross_entropy", "weights of f64[2]", "f64[3,2,4]"],
        ),
        (
            error(|_, x| x.cross_entropy_with(x, CrossEntropy::default().ignore_index(0))),
            ["cross_entropy", "ignore_index is 0", "no label"],
        ),
        (
            error(|_, x| x.cross_entropy_with(x, CrossEntropy::default().label_smoothing(2.0))),
            ["cross_entropy", "label_smoothing is 2", "[0, 1]"],
        ),
        (
            error(|g, x| {
                let (weight, label_smoothing) = (Some(x.sum([0, 1])), -0.5);
                x.cross_entropy_with(labels(g), CrossEntropy::default().weight(weight).label_smoothing(label_smoothing))
            }),
            ["cross_entropy", "label_smoothing is -0.5", "[0, 1]"],
        ),
        (error(|_, x| x.cross_entropy(x.cast(DType::F32))), ["cross_entropy", "targets are f32", "logits f64"]),
    ]);
}

#[test]
fn nothing_is_divided_by_0_and_no_logarithm_of_0_is_taken() {
    // A target of 0 counts for nothing, whatever the logarithm beside it.
    let inputs = [floats(&[3], &[0.25f64.ln(), -INF, 0.0]), floats(&[3], &[0.5, 0.0, 1.0])];
    let each = value(&inputs, |v| nn::kl_div(v[0], v[1], Reduction::None));
    assert!(conform_distance(&each, &[0.5 * 2f64.ln(), 0.0, 0.0]) < 1e-15, "{each:?}");
    assert_eq!(gradient(&inputs, |v| nn::kl_div(v[0], v[1], Reduction::None)), [-0.5, 0.0, -1.0]);
    // Norms count as eps at least: of 0.1, of 1e-9 and of 0.
    let inputs = [floats(&[3, 2], &[0.1, 0.0, 1e-9, 0.0, 0.0, 0.0]), floats(&[3, 2], &[0.2, 0.0, 1e-9, 0.0, 1.0, 1.0])];
    let cos = value(&inputs, |v| nn::cosine_similarity(v[0], v[1], 1, 1e-8));
    assert!(conform_distance(&cos, &[1.0, 0.01, 0.0]) < 1e-14, "{cos:?}");
    // A rate may be taken as it is; by default its logarithm is given.
    let inputs = [floats(&[1], &[2.0]), floats(&[1], &[3.0])];
    let by_log = value(&inputs, |v| nn::poisson_nll_loss(v[0], v[1], PoissonNll::default()));
    assert!((by_log[0] - (2f64.exp() - 6.0)).abs() < 1e-14);
    let exact = value(&inputs, |v| nn::poisson_nll_loss(v[0], v[1], PoissonNll::default().log_input(false).eps(0.0)));
    assert!((exact[0] - (2.0 - 3.0 * 2f64.ln())).abs() < 1e-15);
}

#[test]
fn numbers_and_shapes_of_losses_have_their_ranges() {
    let all = ["_loss", "is NaN", "it must"];
    named(&[
        (error(|_, x| nn::huber_loss(x, x, f64::NAN, Reduction::Sum)), all),
        (error(|_, x| nn::huber_loss(x, x, -1.0, Reduction::Sum)), ["huber_loss", "delta is -1", "positive"]),
        (error(|_, x| nn::smooth_l1_loss(x, x, f64::NAN, Reduction::Sum)), all),
        (error(|_, x| nn::gaussian_nll_loss(x, x, x, false, f64::NAN, Reduction::Sum)), all),
        (error(|_, x| nn::poisson_nll_loss(x, x, PoissonNll::default().eps(f64::NAN))), all),
        // Of three axes; labels of two axes, with as many rows; other rows.
        (
            error(|g, x| nn::nll_loss(x, labels(g).narrow(1, 0, 1).reshape([3]), Reduction::Sum)),
            ["nll_loss", "[3]", "[3,2,4]"],
        ),
        (error(|g, x| nn::nll_loss(x.sum(1), labels(g), Reduction::Sum)), ["nll_loss", "[3,2]", "[3,4]"]),
        (
            error(|g, x| nn::nll_loss(x.sum(0), labels(g).narrow(1, 0, 1).reshape([3]), Reduction::Sum)),
            ["nll_loss", "[3]", "[2,4]"],
        ),
    ]);
}
