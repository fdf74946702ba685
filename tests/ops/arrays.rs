//! Methods that join, cut, count and measure tensors: values against plain loops in f64, derivatives against
//! differences, edges, and errors.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::slopes::derivatives_agree;
use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, try_run_once};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};
use arenagrad::tools::ir::opdef::Domain;

const F64: DType = DType::F64;
const I64: DType = DType::I64;
const INF: f64 = f64::INFINITY;

/// A graph of one f64 input x of shape `dims`, with output y.
fn graph(dims: &[usize], f: impl for<'g> FnOnce(Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("one");
    let y = f(g.input("x", dims, F64));
    g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

fn floats(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

/// y for the numbers `x`.
fn value(dims: &[usize], x: &[f64], f: impl for<'g> FnOnce(Var<'g>) -> Var<'g>) -> Tensor {
    run(&graph(dims, f), &[floats(dims, x)], PLAIN).remove(0)
}

/// The gradient of Σ y in x.
fn gradient(dims: &[usize], x: &[f64], f: impl for<'g> FnOnce(Var<'g>) -> Var<'g>) -> Vec<f64> {
    let g = graph(dims, |x| f(x).sum(..));
    let back = grad(&g, "y", &GradOptions::wrt(&["x"])).unwrap();
    run(&back, &[floats(dims, x)], PLAIN).remove(1).data
}

/// The positions of all elements of a shape, in row-major order.
fn places(dims: &[usize]) -> Vec<Vec<usize>> {
    let n: usize = dims.iter().product();
    let place = |mut i: usize| {
        let mut at = vec![0; dims.len()];
        for (a, d) in at.iter_mut().zip(dims).rev() {
            *a = i % d;
            i /= d;
        }
        at
    };
    (0..n).map(place).collect()
}

/// The number at a place of a tensor of shape `dims` whose elements count up from 1.
fn counted(dims: &[usize], at: &[usize]) -> f64 {
    1.0 + at.iter().zip(dims).fold(0, |i, (a, d)| i * d + a) as f64
}

/// Checks that `f` of the numbers 1, 2 … in shape `from` has shape `to` and, at each place, the element of x that
/// `source` names (none: 0); and that its derivatives agree with differences.
fn moves(
    from: &[usize],
    to: &[usize],
    f: impl for<'g> Fn(Var<'g>) -> Var<'g>,
    source: impl Fn(&[usize]) -> Option<Vec<usize>>,
) {
    let n: usize = from.iter().product();
    let x: Vec<f64> = (1..=n).map(|i| i as f64).collect();
    let y = value(from, &x, &f);
    let want: Vec<f64> = places(to).iter().map(|at| source(at).map_or(0.0, |s| counted(from, &s))).collect();
    assert_eq!((&y.dims[..], &y.data), (to, &want), "{from:?}");
    if y.data.iter().any(|&y| y != 0.0) {
        // A square: the second derivative of a move alone is 0.
        let g = graph(from, |x| f(x) * f(x));
        derivatives_agree(&g, &[TensorDraws(3).tensor(F64, from, Domain::Real)]);
    }
}

#[test]
fn parts_and_joins_move_elements() {
    moves(&[2, 3], &[2, 2, 3], |x| x.stack(&[x], 0), |at| Some(vec![at[1], at[2]]));
    moves(&[2, 3], &[2, 3, 2], |x| x.stack(&[x], -1), |at| Some(vec![at[0], at[1]]));
    moves(&[], &[3], |x| x.stack(&[x, x], 0), |_| Some(vec![]));
    moves(&[5, 2], &[2, 2], |x| x.split(&[1, 2, 2], 0)[1], |at| Some(vec![at[0] + 1, at[1]]));
    moves(&[2, 7], &[2, 1], |x| x.chunk(3, -1)[2], |at| Some(vec![at[0], 6]));
    moves(&[2, 1, 3, 1], &[2, 3], |x| x.squeeze([1, -1]), |at| Some(vec![at[0], 0, at[1], 0]));
    moves(&[2, 3], &[2, 3, 1], |x| x.unsqueeze(-1), |at| Some(vec![at[0], at[1]]));
    moves(&[2, 3, 4], &[2, 12], |x| x.flatten(1, -1), |at| Some(vec![at[0], at[1] / 4, at[1] % 4]));
    moves(&[], &[1], |x| x.flatten(0, -1), |_| Some(vec![]));
    moves(&[2, 6], &[2, 3, 2], |x| x.unflatten(1, &[3, usize::MAX]), |at| Some(vec![at[0], at[1] * 2 + at[2]]));
    moves(&[2, 3, 4], &[4, 2, 3], |x| x.movedim(&[2], &[0]), |at| Some(vec![at[1], at[2], at[0]]));
    moves(&[2, 3, 4, 5], &[3, 5, 2, 4], |x| x.movedim(&[0, -1], &[2, 1]), |at| Some(vec![at[2], at[0], at[3], at[1]]));
    moves(&[2, 3], &[2, 6], |x| x.repeat_interleave(2, 1), |at| Some(vec![at[0], at[1] / 2]));
    moves(&[2, 3], &[0, 3], |x| x.repeat_interleave(0, 0), |_| None);
}

/// torch: `torch.arange(7).chunk(n)` has parts of these sizes.
#[test]
fn chunks_are_those_of_torch() {
    for (n, parts, want) in [(7, 3, vec![3, 3, 1]), (7, 5, vec![2, 2, 2, 1]), (2, 4, vec![1, 1]), (0, 2, vec![0, 0])] {
        let g = Builder::new("c");
        let sizes: Vec<usize> = g.input("x", [n], F64).chunk(parts, 0).iter().map(|c| c.numel()).collect();
        assert_eq!(sizes, want);
    }
}

#[test]
fn diagonals_and_windows_move_elements() {
    for (rows, cols) in [(3, 3), (2, 5), (5, 2), (1, 4)] {
        for offset in -6..=6i64 {
            let (r0, c0) = ((-offset).max(0) as usize, offset.max(0) as usize);
            let len = rows.max(r0).saturating_sub(r0).min(cols.max(c0) - c0);
            let shape = [rows, 2, cols];
            moves(&shape, &[2, len], |x| x.diagonal(offset, 0, -1), |at| Some(vec![r0 + at[1], at[0], c0 + at[1]]));
        }
    }
    for offset in [i64::MIN, i64::MAX] {
        moves(&[3, 2, 5], &[2, 0], |x| x.diagonal(offset, 0, -1), |_| None);
    }
    for offset in -3..=3i64 {
        let (r0, c0, side) = ((-offset).max(0) as usize, offset.max(0) as usize, 4 + offset.unsigned_abs() as usize);
        let source = |at: &[usize]| {
            let k = at[0].checked_sub(r0)?;
            (k < 4 && at[2].checked_sub(c0) == Some(k)).then(|| vec![at[1], k])
        };
        moves(&[2, 4], &[side, 2, side], |x| x.diag_embed(offset, 0, 2), source);
    }
    moves(&[2, 0], &[2, 1, 1], |x| x.diag_embed(1, -2, -1), |_| None);
    moves(&[2, 9], &[2, 3, 4], |x| x.sliding_window(1, 4, 2), |at| Some(vec![at[0], 2 * at[1] + at[2]]));
    moves(&[5, 3], &[5, 3, 1], |x| x.sliding_window(0, 1, 1), |at| Some(vec![at[0], at[1]]));
    moves(
        &[2, 12, 2, 3],
        &[2, 3, 4, 6],
        |x| x.pixel_shuffle(2),
        |at| Some(vec![at[0], at[1] * 4 + at[2] % 2 * 2 + at[3] % 2, at[2] / 2, at[3] / 2]),
    );
    moves(&[2, 3, 4], &[2, 3, 4], |x| x.pixel_shuffle(1), |at| Some(at.to_vec()));
    moves(&[2, 3, 4], &[2, 3, 4], |x| x.pixel_unshuffle(1), |at| Some(at.to_vec()));
    moves(
        &[3, 4, 6],
        &[12, 2, 3],
        |x| x.pixel_unshuffle(2),
        |at| Some(vec![at[0] / 4, at[1] * 2 + at[0] % 4 / 2, at[2] * 2 + at[0] % 2]),
    );
}

#[test]
fn traces_products_and_grids() {
    let x: Vec<f64> = (1..=12).map(f64::from).collect();
    assert_eq!(value(&[3, 4], &x, |x| x.trace(1, 0, 1)).data, [2.0 + 7.0 + 12.0]);
    assert_eq!(value(&[2, 3, 2], &x, |x| x.trace(0, 0, 2)).data, [1.0 + 8.0, 3.0 + 10.0, 5.0 + 12.0]);
    let g = Builder::new("grid");
    let (a, b) = (g.input("a", [2], F64), g.input("b", [3], F64));
    let grid = g.meshgrid(&[a, b]);
    let f = g.finish([a.outer(b).named("y"), grid[0].named("i"), grid[1].named("j")]).unwrap();
    let inputs = [floats(&[2], &[2.0, 3.0]), floats(&[3], &[5.0, 7.0, 11.0])];
    let outs = run(&f, &inputs, PLAIN);
    assert_eq!(outs[0], floats(&[2, 3], &[10.0, 14.0, 22.0, 15.0, 21.0, 33.0]));
    assert_eq!(outs[1].data, [2.0, 2.0, 2.0, 3.0, 3.0, 3.0]);
    assert_eq!(outs[2].data, [5.0, 7.0, 11.0, 5.0, 7.0, 11.0]);
    derivatives_agree(&f, &inputs);
}

#[test]
fn tests_and_counts_of_elements() {
    let x = [0.0, -0.0, 0.0, f64::NAN, 0.0, 2.0];
    assert_eq!(value(&[2, 3], &x, |x| x.any(1)).data, [0.0, 1.0]);
    assert_eq!(value(&[2, 3], &x, |x| x.all(0)).data, [0.0, 0.0, 0.0]);
    assert_eq!(value(&[2, 3], &x, |x| x.count_nonzero(..)), Tensor { dtype: I64, dims: vec![], data: vec![2.0] });
    assert_eq!(value(&[2, 3], &x, |x| x.not_equal(0.0).all(-1)).data, [0.0, 0.0]);
    assert_eq!(value(&[1, 2], &[3.0, 1.0], |x| x.cast(DType::I32).all(1)).data, [1.0]);
    assert_eq!(value(&[0, 2], &[], |x| x.any(0)).data, [0.0, 0.0]);
    assert_eq!(value(&[0, 2], &[], |x| x.all(0)).data, [1.0, 1.0]);
    let kept = |dims: &[usize], f: for<'g> fn(Var<'g>) -> Var<'g>| {
        let y = value(&[2, 3], &x, f);
        assert_eq!(y.dims, dims);
        y.data
    };
    assert_eq!(kept(&[2, 1], |x| x.any_keep(-1)), [0.0, 1.0]);
    assert_eq!(kept(&[1, 3], |x| x.all_keep(0)), [0.0; 3]);
    assert_eq!(kept(&[1, 1], |x| x.count_nonzero_keep(..)), [2.0]);
    assert_eq!(kept(&[1, 1], |x| x.count_nonzero_keep([1, 0])), [2.0]);
}

#[test]
fn norms_are_roots_of_sums_of_powers() {
    let mut draw = TensorDraws(5);
    let x = draw.tensor(F64, &[4, 3], Domain::Real);
    for p in [-INF, -2.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, INF] {
        let column = |j: usize| (0..4).map(move |i| i * 3 + j);
        let of = |j: usize| {
            let all = column(j).map(|i| x.data[i].abs());
            match p {
                INF => all.fold(0.0, f64::max),
                f64::NEG_INFINITY => all.fold(INF, f64::min),
                0.0 => 4.0,
                _ => all.map(|a| a.powf(p)).sum::<f64>().powf(1.0 / p),
            }
        };
        let want: Vec<f64> = (0..3).map(of).collect();
        let got = value(&[4, 3], &x.data, |x| x.norm(p, 0));
        assert!(conform_distance(&got.data, &want) < 1e-14, "{p}: {got:?} {want:?}");
        let kept = value(&[4, 3], &x.data, |x| x.norm_keep(p, 0));
        assert_eq!((&kept.dims[..], kept.data), (&[1, 3][..], got.data));
        if p != 0.0 {
            derivatives_agree(&graph(&[4, 3], |x| x.norm(p, 0)), std::slice::from_ref(&x));
        }
    }
}

/// At zero the norm of order 2 has the derivative 0, as in torch, and the second derivative is no NaN either.
#[test]
fn norms_at_zero_have_no_gradient() {
    for p in [0.5, 1.0, 1.5, 2.0, 3.0, -1.0] {
        assert_eq!(value(&[2], &[0.0; 2], |x| x.norm(p, 0)).data, [0.0], "{p}");
        assert_eq!(gradient(&[2], &[0.0; 2], |x| x.norm(p, 0)), [0.0, 0.0], "{p}");
    }
    let g = gradient(&[2, 2], &[0.0, 0.0, 3.0, 4.0], |x| x.norm(2.0, 1));
    assert!(g[..2] == [0.0; 2] && conform_distance(&g, &[0.0, 0.0, 0.6, 0.8]) < 1e-15, "{g:?}");
    // An element at 0 beside others: torch masks it.
    assert!(conform_distance(&gradient(&[2], &[0.0, 2.0], |x| x.norm(0.5, 0)), &[0.0, 1.0]) < 1e-15);
    let sum = graph(&[3], |x| x.norm(2.0, 0) * x.norm(2.0, 0));
    let hessian = arenagrad::graph::hvp(&sum, "y", &["x"]).unwrap();
    let outs = run(&hessian, &[floats(&[3], &[0.0; 3]), floats(&[3], &[1.0; 3])], PLAIN);
    assert!(outs.iter().flat_map(|t| &t.data).all(|x| x.is_finite()), "{outs:?}");
    assert!(value(&[2], &[f64::NAN, 1.0], |x| x.norm(2.0, 0)).data[0].is_nan());
    assert_eq!(value(&[0, 2], &[], |x| x.norm(2.0, 0)).data, [0.0, 0.0]);
}

#[test]
fn deviations_are_roots_of_variances() {
    let x = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0];
    let y = value(&[2, 3], &x, |x| x.std(1, 1, true));
    assert_eq!((y.dims, y.data[1]), (vec![2, 1], 0.0));
    assert!((y.data[0] - (7.0f64 / 3.0).sqrt()).abs() < 1e-15);
    assert_eq!(gradient(&[3], &[8.0; 3], |x| x.std(0, 1, false)), [0.0; 3]);
    assert!(value(&[1], &[3.0], |x| x.std(0, 1, false)).data[0].is_nan());
    assert_eq!(value(&[1], &[3.0], |x| x.std(0, 0, false)).data, [0.0]);
    derivatives_agree(&graph(&[2, 3], |x| x.std(1, 0, false)), &[floats(&[2, 3], &[1.0, 2.0, 4.0, -8.0, 8.0, 3.0])]);
}

#[test]
fn running_sums_of_exponentials_do_not_overflow() {
    let x = [1.0, -2.0, 1000.0, 999.0, -INF, 3.0, -INF, -INF, -INF, -1000.0, -1000.0, -1001.0];
    let y = value(&[4, 3], &x, |x| x.logcumsumexp(0));
    for j in 0..3 {
        let mut sum = -INF;
        for i in 0..4 {
            let (a, b) = (sum, x[i * 3 + j]);
            sum = if f64::max(a, b) == -INF { -INF } else { f64::max(a, b) + (-(a - b).abs()).exp().ln_1p() };
            let far = (y.data[i * 3 + j] - sum).abs();
            assert!(y.data[i * 3 + j] == sum || far <= 1e-12 * sum.abs(), "{i} {j}: {} {sum}", y.data[i * 3 + j]);
        }
    }
    assert_eq!(gradient(&[2], &[-INF, -INF], |x| x.logcumsumexp(0)), [0.0, 0.0]);
    assert_eq!(gradient(&[2, 2], &[-INF; 4], |x| x.logsumexp(1)), [0.0; 4]);
    let mut draw = TensorDraws(6);
    for (dims, axis) in [(vec![5], 0), (vec![2, 4, 3], 1), (vec![3, 2], -1), (vec![1, 2], 0)] {
        derivatives_agree(&graph(&dims, |x| x.logcumsumexp(axis)), &[draw.tensor(F64, &dims, Domain::Real)]);
    }
    let soft = value(&[1, 3], &[1.0, 2.0, 3.0], |x| x.softmin(1)).data;
    let want = [1.0, 2.0, 3.0].map(|x: f64| (-x).exp() / (1..=3).map(|k| (-f64::from(k)).exp()).sum::<f64>());
    assert!(conform_distance(&soft, &want) < 1e-15);
}

#[test]
fn a_choice_takes_numbers() {
    let x = [1.0, -2.0, 3.0];
    assert_eq!(value(&[3], &x, |x| x.greater(0.0).select(x, 7.0)).data, [1.0, 7.0, 3.0]);
    assert_eq!(value(&[3], &x, |x| x.greater(0.0).select(0.5, x)).data, [0.5, -2.0, 0.5]);
    assert_eq!(gradient(&[3], &x, |x| x.greater(0.0).select(x * x, -1.0)), [2.0, 0.0, 6.0]);
    let e = refused(|_, x| x.greater(0.0).select(0.0, 1.0));
    assert!(e.contains("select") && e.contains("two numbers"), "{e}");
    let e = refused(|_, x| x.greater(0.0).select(x.cast(I64), 0.5));
    assert!(e.contains("select") && e.contains("0.5"), "{e}");
}

/// A window of x `[4, 5, 3]` at the starts i, and x with an update there; the loops that they equal.
fn window(sizes: [usize; 3], starts: [i64; 3], how: How) -> Result<[Tensor; 2], String> {
    let g = Builder::new("w");
    let (x, u) = (g.input("x", [4, 5, 3], F64), g.input("u", sizes, F64));
    let at: Vec<Var> = (0..3).map(|i| g.input(&format!("i{i}"), [], I64)).collect();
    let y = x.dynamic_slice(&at, &sizes);
    let z = x.dynamic_update_slice(u, &at);
    let f = g.finish([y.named("y"), z.named("z"), (y * u).named("yu"), (z * z).named("zz")]).unwrap();
    let mut draw = TensorDraws(4);
    let mut inputs = vec![draw.tensor(F64, &[4, 5, 3], Domain::Real), draw.tensor(F64, &sizes, Domain::Real)];
    inputs.extend(starts.map(|s| Tensor { dtype: I64, dims: vec![], data: vec![s as f64] }));
    let outs = try_run_once(&f, &inputs, how).map_err(|e| e.to_string())?;
    if sizes.iter().product::<usize>() > 0 {
        derivatives_agree(&f, &inputs);
    }
    let mut z = inputs[0].clone();
    let mut y = floats(&sizes, &[]);
    for at in places(&sizes) {
        let from: Vec<usize> = at.iter().zip(starts).map(|(a, s)| a + s as usize).collect();
        let (i, k) = (counted(&[4, 5, 3], &from) as usize - 1, counted(&sizes, &at) as usize - 1);
        y.data.push(z.data[i]);
        z.data[i] = inputs[1].data[k];
    }
    assert_eq!([&outs[0], &outs[1]], [&y, &z]);
    Ok([y, z])
}

#[test]
fn windows_at_computed_places() {
    let shared = How { threads: 3, share: true, ..PLAIN };
    for how in [PLAIN, shared] {
        for (sizes, starts) in [
            ([2, 2, 2], [1, 3, 0]),
            ([2, 5, 3], [2, 0, 0]),
            ([4, 5, 1], [0, 0, 2]),
            ([4, 1, 3], [0, 4, 0]),
            ([4, 5, 3], [0, 0, 0]),
            ([1, 1, 1], [3, 4, 2]),
            ([2, 0, 2], [1, 5, 1]),
        ] {
            window(sizes, starts, how).unwrap();
        }
        for (sizes, starts, element, bad) in [
            ([2, 2, 2], [3, 0, 0], 0, "3; it must be in 0..3"),
            ([2, 2, 2], [0, -1, 0], 1, "-1; it must be in 0..4"),
            ([2, 5, 3], [0, 1, 0], 1, "1; it must be in 0..1"),
            ([4, 5, 3], [0, 0, 1], 2, "1; it must be in 0..1"),
            ([4, 5, 1], [0, 0, i64::MAX], 2, "9223372036854775807; it must be in 0..3"),
        ] {
            let e = window(sizes, starts, how).unwrap_err();
            let want = format!("element {element} of the index operand is {bad}");
            assert!(e.contains(&want) && e.contains("tests/ops/arrays.rs"), "{e}");
        }
    }
}

/// The error of a graph that does not fit.
fn refused(f: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>) -> String {
    let g = Builder::new("bad");
    f(&g, g.input("x", [3, 4], F64));
    g.finish([]).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_named() {
    for (e, parts) in [
        (refused(|_, x| x.stack(&[x.t()], 0)), ["stack", "operand 1 is f64[4,3]", "one type and shape"]),
        (refused(|_, x| x.stack(&[x], 3)), ["stack", "new axis 3", "rank 3"]),
        (refused(|_, x| x.split(&[1, 1], 0)[0]), ["split", "[1, 1]", "sum to 3"]),
        (refused(|_, x| x.split(&[usize::MAX, 4], 0)[0]), ["split", "sum to 3", "axis 0"]),
        (refused(|_, x| x.split(&[3], 2)[0]), ["split", "axis 2", "rank 2"]),
        (
            refused(|g, x| x.chunk(0, 0).first().copied().unwrap_or(g.full(0.0, [], F64))),
            ["chunk", "is 0", "at least 1"],
        ),
        (refused(|_, x| x.squeeze(0)), ["squeeze", "axis 0", "length 3"]),
        (refused(|_, x| x.unsqueeze(-4)), ["unsqueeze", "-4", "rank 3"]),
        (refused(|_, x| x.flatten(1, 0)), ["flatten", "axis 1", "behind axis 0"]),
        (refused(|_, x| x.unflatten(1, &[3, usize::MAX])), ["unflatten", "length 4", "[3, -1]"]),
        (refused(|_, x| x.unflatten(1, &[])), ["unflatten", "length 4", "[]"]),
        (refused(|_, x| x.movedim(&[0, 1], &[0])), ["movedim", "2 axes", "1 positions"]),
        (refused(|_, x| x.movedim(&[0, -2], &[0, 1])), ["movedim", "axis 0", "twice"]),
        (refused(|_, x| x.diagonal(0, 1, -1)), ["diagonal", "axis 1", "twice"]),
        (refused(|_, x| x.diag_embed(i64::MIN, 0, 1)), ["diag_embed", "-9223372036854775808", "too large"]),
        (refused(|_, x| x.diag_embed(0, 0, 3)), ["diag_embed", "axis 3", "rank 3"]),
        (refused(|_, x| x.diag_embed(0, 1, -2)), ["diag_embed", "axis 1", "twice"]),
        (refused(|_, x| x.chunk(usize::MAX, 9)[0]), ["chunk", "axis 9", "rank 2"]),
        (refused(|_, x| x.narrow(0, 0, 0).chunk(usize::MAX, 0)[0]), ["chunk", "parts", "empty axis"]),
        (refused(|_, x| x.outer(x)), ["outer", "[3,4]", "two vectors"]),
        (refused(|_, x| x.sliding_window(0, 4, 1)), ["sliding_window", "windows of 4", "1..=3"]),
        (refused(|_, x| x.sliding_window(0, 1, 0)), ["sliding_window", "0 apart", "step above 0"]),
        (refused(|_, x| x.pixel_shuffle(2)), ["pixel_shuffle", "rank 3", "needed"]),
        (
            refused(|g, _| g.full(0.0, [1, 4, 0, 0], DType::F32).pixel_unshuffle(1 << 33)),
            ["pixel_unshuffle", "r = 8589934592", "too many"],
        ),
        (
            refused(|g, _| g.full(0.0, [0, 1 << 40, 1], DType::F32).pixel_shuffle(1 << 31)),
            ["pixel_shuffle", "r = 2147483648", "too large"],
        ),
        (refused(|_, x| x.unsqueeze(0).pixel_shuffle(0)), ["pixel_shuffle", "r = 0", "1 channels"]),
        (refused(|_, x| x.unsqueeze(0).pixel_shuffle(2)), ["pixel_shuffle", "r = 2", "1 channels"]),
        (refused(|_, x| x.unsqueeze(0).narrow(0, 0, 0).pixel_shuffle(0)), ["pixel_shuffle", "r = 0", "0 channels"]),
        (
            refused(|g, _| g.full(0.0, [0, 1, 1 << 40], F64).pixel_shuffle(1 << 31)),
            ["pixel_shuffle", "r =", "too large"],
        ),
        (refused(|_, x| x.pixel_unshuffle(2)), ["pixel_unshuffle", "rank 3", "needed"]),
        (refused(|_, x| x.unsqueeze(0).pixel_unshuffle(2)), ["pixel_unshuffle", "r = 2", "3 and 4"]),
        (refused(|_, x| x.t().unsqueeze(0).pixel_unshuffle(2)), ["pixel_unshuffle", "r = 2", "4 and 3"]),
        (refused(|g, _| g.full(0.0, [1, 0, 0], F64).pixel_unshuffle(0)), ["pixel_unshuffle", "r = 0", "0 and 0"]),
        (refused(|g, x| g.meshgrid(&[x])[0]), ["meshgrid", "operand 0", "[3,4]"]),
        (refused(|_, x| x.any(2)), ["any", "axis 2", "rank 2"]),
        (refused(|_, x| x.norm_keep(2.0, [0, 0])), ["norm", "axis 0", "twice"]),
        (refused(|_, x| x.norm(2.0, [0, 0])), ["norm", "axis 0", "twice"]),
        (refused(|_, x| x.norm(f64::NAN, 0)), ["norm", "order NaN", "f64"]),
        (refused(|_, x| x.cast(I64).norm(2.0, 0)), ["norm", "order 2", "i64"]),
        (refused(|_, x| x.cast(I64).logcumsumexp(0)), ["logcumsumexp", "i64", "is needed"]),
        (refused(|g, x| x.dynamic_slice(&[g.full(0.0, [], I64)], &[1])), ["dynamic_slice", "1 starts", "rank 2"]),
        (refused(|g, x| x.dynamic_slice(&[g.full(0.0, [], I64), x], &[1, 1])), ["dynamic_slice", "axis 1", "i64[]"]),
        (
            refused(|g, x| x.dynamic_slice(&[g.full(0.0, [], I64); 2], &[4, 1])),
            ["dynamic_slice", "4 elements", "length 3"],
        ),
        (
            refused(|g, x| x.dynamic_update_slice(x.sum(0), &[g.full(0.0, [], I64)])),
            ["dynamic_update_slice", "f64[4]", "does not fit"],
        ),
    ] {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/arrays.rs"), "{e} {parts:?}");
    }
}

/// The mean is rounded by much of the deviations, which are 1; the variance keeps its digits.
#[test]
fn variances_far_from_zero_keep_their_digits() {
    for mean in [1e5, 1e6, 4e6] {
        let x: Vec<f64> = (0..1000).map(|i| f64::from((mean + f64::from(i * 37 % 101) * 0.04) as f32)).collect();
        let exact = x.iter().sum::<f64>() / 1000.0;
        let var = x.iter().map(|x| (x - exact).powi(2)).sum::<f64>() / 999.0;
        let of = |f: for<'g> fn(Var<'g>) -> Var<'g>| {
            let g = Builder::new("var");
            let graph = g.finish([f(g.input("x", [1000], DType::F32)).named("y")]).unwrap();
            run(&graph, &[Tensor { dtype: DType::F32, dims: vec![1000], data: x.clone() }], PLAIN).remove(0).data[0]
        };
        let (ours, root) = (of(|x| x.var(0, 1, false)), of(|x| x.std(0, 1, false)));
        assert!((ours / var - 1.0).abs() < 1e-6, "{mean}: {ours}, not {var}");
        assert!((root / var.sqrt() - 1.0).abs() < 1e-6, "{mean}: {root}, not {}", var.sqrt());
    }
}
