//! Methods at the edges of their options: what changes nothing, the shortest and the longest of things, and what is
//! refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::window::PadMode;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Scatter, Var};
use arenagrad::tools::ir::text::{parse, print};

const F64: DType = DType::F64;
const I64: DType = DType::I64;
const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn tensor(dtype: DType, dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype, dims: dims.to_vec(), data: data.to_vec() }
}

/// A graph of one f64 input x of shape `dims`, with output y.
fn graph(dims: &[usize], f: impl for<'g> FnOnce(&'g Builder, Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("one");
    let y = f(&g, g.input("x", dims, F64));
    g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

/// y for the numbers `x`.
fn value(dims: &[usize], x: &[f64], f: impl for<'g> FnOnce(&'g Builder, Var<'g>) -> Var<'g>) -> Tensor {
    run(&graph(dims, f), &[tensor(F64, dims, x)], PLAIN).remove(0)
}

/// y for the numbers 1, 2 ….
fn of_counted(dims: &[usize], f: impl for<'g> FnOnce(&'g Builder, Var<'g>) -> Var<'g>) -> Tensor {
    let n: usize = dims.iter().product();
    let x: Vec<f64> = (1..=n).map(|i| i as f64).collect();
    value(dims, &x, f)
}

#[test]
fn what_changes_nothing_adds_no_node() {
    type Make = for<'g> fn(Var<'g>) -> Var<'g>;
    let nodes = |dims: &[usize], make: Make| graph(dims, |_, x| make(x)).view().nodes();
    let plain = nodes(&[2, 3], |x| -x);
    let nothing: [(&str, Make); 11] = [
        ("reshape", |x| -x.reshape([2, 3])),
        ("broadcast", |x| -x.broadcast([2, 3])),
        ("cast", |x| -x.cast(F64)),
        ("roll by 0", |x| -x.roll(0, 1)),
        ("roll by the length", |x| -x.roll(-3, 1)),
        ("tile", |x| -x.tile(&[1, 1])),
        ("pad_with", |x| -x.pad_with(&[0, 0], &[0, 0], PadMode::Reflect)),
        ("movedim", |x| -x.movedim(&[1], &[-1])),
        ("movedim of all", |x| -x.movedim(&[1, 0], &[1, 0])),
        ("flatten", |x| -x.flatten(1, 1)),
        ("unflatten", |x| -x.unflatten(1, &[usize::MAX])),
    ];
    for (name, make) in nothing {
        assert_eq!(nodes(&[2, 3], make), plain, "{name}");
    }
    assert_eq!(nodes(&[0, 3], |x| -x.roll(1, 0)), plain);
    assert_eq!(nodes(&[0, 3], |x| -x.logcumsumexp(1)), plain);
    // Only axes that stand elsewhere are moved, before and behind a sort, and before a diagonal.
    assert_eq!(nodes(&[2, 3], |x| x.arg_sort(-1, false)), plain);
    assert_eq!(nodes(&[2, 3], |x| x.arg_sort(0, false)), plain + 2);
    assert_eq!(nodes(&[2, 3], |x| x.diagonal(0, 1, 0)), nodes(&[2, 3], |x| x.diagonal(0, 0, 1)) + 1);
}

#[test]
fn a_slice_of_one_element_has_step_one() {
    let text = |start: usize, limit: usize, step: usize| {
        print(graph(&[10], |_, x| x.slice(&[start], &[limit], &[step])).view())
    };
    for ([start, limit, step], want) in [
        ([2, 5, 4], "starts=[2] limits=[3] steps=[1]"),
        ([2, 6, 4], "starts=[2] limits=[3] steps=[1]"),
        ([6, 10, 4], "starts=[6] limits=[7] steps=[1]"),
        ([2, 4, 2], "starts=[2] limits=[3] steps=[1]"),
        ([2, 2, 4], "starts=[2] limits=[2] steps=[1]"),
        ([2, 7, 4], "starts=[2] limits=[7] steps=[4]"),
        ([2, 7, 1], "starts=[2] limits=[7] steps=[1]"),
    ] {
        let text = text(start, limit, step);
        assert!(text.contains(want), "{want}: {text}");
    }
}

#[test]
fn moves_reach_the_edges() {
    let same = |y: Tensor, dims: &[usize], data: &[f64]| assert_eq!(y, tensor(F64, dims, data));
    same(of_counted(&[2, 3], |_, x| x.transpose(&[-1, 0])), &[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    same(of_counted(&[2, 3], |_, x| x.flatten(0, -1)), &[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    same(of_counted(&[], |_, x| x.flatten(-1, 0)), &[1], &[1.0]);
    let pad = |low: usize, high: usize, mode| of_counted(&[3], |_, x| x.pad_with(&[low], &[high], mode));
    same(pad(1, 1, PadMode::Circular), &[5], &[3.0, 1.0, 2.0, 3.0, 1.0]);
    same(pad(0, 2, PadMode::Reflect), &[5], &[1.0, 2.0, 3.0, 2.0, 1.0]);
    same(pad(0, 3, PadMode::Circular), &[6], &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    same(
        of_counted(&[2, 2], |_, x| x.pad_with(&[0, 0], &[0, 1], PadMode::Reflect)),
        &[2, 3],
        &[1.0, 2.0, 1.0, 3.0, 4.0, 3.0],
    );
    // A window of a scalar has no start.
    same(of_counted(&[], |_, x| x.dynamic_slice(&[], &[]) * 3.0), &[], &[3.0]);
    same(of_counted(&[], |_, x| x.dynamic_update_slice(x * 5.0, &[])), &[], &[5.0]);
    // Of no coordinates, each place is the whole.
    let whole = of_counted(&[3], |g, x| x.gather_nd(g.iota(0, [2, 0], I64)));
    same(whole, &[2, 3], &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let spread = of_counted(&[2, 3], |g, x| x.scatter_add(g.iota(0, [3], I64), -1, 4));
    same(spread, &[2, 4], &[1.0, 2.0, 3.0, 0.0, 4.0, 5.0, 6.0, 0.0]);
}

#[test]
fn diagonals_beyond_the_corners_are_as_good_as_any() {
    let x: Vec<f64> = (1..=6).map(f64::from).collect();
    let lower = |k: i64| of_counted(&[2, 3], |_, x| x.tril(k)).data;
    let upper = |k: i64| of_counted(&[2, 3], |_, x| x.triu(k)).data;
    for k in [i64::MIN, -3, -2] {
        assert_eq!((lower(k), upper(k)), (vec![0.0; 6], x.clone()), "{k}");
    }
    for k in [3, 4, i64::MAX] {
        assert_eq!((lower(k), upper(k)), (x.clone(), vec![0.0; 6]), "{k}");
    }
    assert_eq!((lower(-1), upper(2)), (vec![0.0, 0.0, 0.0, 4.0, 0.0, 0.0], vec![0.0, 0.0, 3.0, 0.0, 0.0, 0.0]));
    assert_eq!(of_counted(&[1, 4], |_, x| x.triu(3)).data, [0.0, 0.0, 0.0, 4.0]);
    assert_eq!(of_counted(&[4, 1], |_, x| x.tril(-3)).data, [0.0, 0.0, 0.0, 4.0]);
    // Each of several planes.
    let planes = of_counted(&[2, 2, 2], |_, x| x.tril(0)).data;
    assert_eq!(planes, [1.0, 0.0, 3.0, 4.0, 5.0, 0.0, 7.0, 8.0]);
}

/// The base and the updates are values of the step, with the shape of the result: either memory could be used again.
#[test]
fn a_scatter_reads_its_updates_before_they_are_overwritten() {
    let g = Builder::new("scatter");
    let (x, u, i) = (g.input("x", [3, 2], F64), g.input("u", [3, 2], F64), g.input("i", [3, 2], I64));
    let both = (x * 2.0).scatter(i, u * 2.0, 0, Scatter::Add);
    let updates = x.scatter(i, u * 4.0, 0, Scatter::Add);
    let graph = g.finish([both.named("both"), updates.named("updates")]).unwrap();
    let given = [
        tensor(F64, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        tensor(F64, &[3, 2], &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]),
        tensor(I64, &[3, 2], &[0.0, 2.0, 0.0, 1.0, 2.0, 2.0]),
    ];
    let outs = run(&graph, &given, PLAIN);
    assert_eq!(outs[0].data, [82.0, 4.0, 6.0, 88.0, 110.0, 172.0]);
    assert_eq!(outs[1].data, [161.0, 2.0, 3.0, 164.0, 205.0, 326.0]);
}

#[test]
fn reductions_over_axes_with_others_between_them() {
    let over = |f: for<'g> fn(Var<'g>) -> Var<'g>| {
        let y = of_counted(&[2, 3, 4, 5], |_, x| f(x));
        assert_eq!(y.dims, [3, 5]);
        y.data
    };
    // The element of row b and column d is 1 + 20b + d, and 60 and 5 more for each step along the others.
    let each = |f: fn(f64) -> f64| -> Vec<f64> {
        (0..15).map(|i| f(1.0 + f64::from(i / 5) * 20.0 + f64::from(i % 5))).collect()
    };
    assert_eq!(over(|x| x.sum([0, 2])), each(|first| 8.0 * first + 300.0));
    assert_eq!(over(|x| x.sum([2, 0])), each(|first| 8.0 * first + 300.0));
    assert_eq!(over(|x| x.mean([0, -2])), each(|first| first + 37.5));
    assert_eq!(over(|x| x.amax([0, 2])), each(|first| first + 75.0));
    assert_eq!(over(|x| x.amin([-2, 0])), each(|first| first));
    let spread = of_counted(&[2, 3], |_, x| x.var([1, 0], 0, false));
    assert!(spread.dims.is_empty() && (spread.data[0] - 35.0 / 12.0).abs() < 1e-14, "{spread:?}");
    // Of nothing, a sum is 0, a mean NaN, and a product 1.
    let of_none = |f: for<'g> fn(Var<'g>) -> Var<'g>| value(&[2, 3, 0], &[], |_, x| f(x)).data;
    assert_eq!(of_none(|x| x.sum([0, 2])), [0.0; 3]);
    assert_eq!(of_none(|x| x.prod([0, 2])), [1.0; 3]);
    let mean = of_none(|x| x.mean([0, 2]));
    assert!(mean.len() == 3 && mean.iter().all(|m| m.is_nan()), "{mean:?}");
}

/// Of all lengths: one part, and several.
#[test]
fn squares_are_summed_once() {
    for n in [1, 3, 20000, 33000] {
        for (mean, want) in [(false, 4.0 * n as f64), (true, 4.0)] {
            let text = format!(
                "graph @g {{
  %x = input : f64[{n}]
  %y = sum_squares %x mean={mean}
  return y=%y
}}
"
            );
            let y = run(&parse(&text).unwrap(), &[tensor(F64, &[n], &vec![-2.0; n])], PLAIN).remove(0);
            assert!((y.data[0] - want).abs() <= 1e-12 * want, "{n} {mean}: {y:?}");
        }
    }
}

#[test]
fn numbers_at_the_edges_of_formulas() {
    let of = |x: &[f64], f: for<'g> fn(Var<'g>) -> Var<'g>| value(&[x.len()], x, |_, x| f(x)).data;
    assert_eq!(of(&[0.0], |x| x.sinc()), [1.0]);
    assert_eq!(of(&[0.47, 0.72, 0.75, 3.0], |x| x.celu(0.7)), [0.47, 0.72, 0.75, 3.0]);
    assert_eq!(of(&[2.5], |x| x.celu(1.0)), [2.5]);
    assert_eq!(of(&[-2.0, 0.0, 3.0], |x| x.softshrink(0.0)), [-2.0, 0.0, 3.0]);
    assert_eq!(of(&[-2.0, 0.0, 3.0], |x| x.hardshrink(0.0)), [-2.0, 0.0, 3.0]);
    let most = f64::from(f32::MAX);
    let single = of(&[NAN, INF, -INF, 0.5], |x| x.cast(DType::F32).nan_to_num(7.0, None, None).cast(F64));
    assert_eq!(single, [7.0, most, -most, 0.5]);
    assert_eq!(of(&[0.0, 0.0, 1.0, 2.0], |x| x.norm(0.0, 0)), [2.0]);
    assert_eq!(of(&[1.0, 0.0], |x| x.norm(3.0, 0)), [1.0]);
    assert_eq!(of(&[1.0, 0.0], |x| x.norm(-2.0, 0)), [0.0]);
    // A range that is none of f32, and one of nothing.
    assert_eq!(of(&[1.0, 1.0 + 2e-10, 1.0 + 9e-10, 2.0], |x| x.histogram(2, 1.0, 1.0 + 1e-9)), [2.0, 1.0]);
    assert_eq!(of(&[-5e299, 5e299], |x| x.histogram(2, -1e300, 1e300)), [1.0, 1.0]);
    assert_eq!(of(&[], |x| x.histogram(3, 0.0, 0.0)), [0.0; 3]);
}

/// The first and the second derivative of `f` at each of the numbers `x`.
fn derivatives(x: &[f64], f: impl for<'g> FnOnce(Var<'g>) -> Var<'g>) -> [Vec<f64>; 2] {
    let wrt = GradOptions::wrt(&["x"]);
    let once = graph(&[x.len()], |_, x| f(x).sum(..)).grad("y", &wrt).and_then(|g| g.rename("grad.x", "slope"));
    let all = once.and_then(|g| g.extend(|_, value| vec![value("slope").sum(..).named("sum")]));
    let twice = all.and_then(|g| g.grad("sum", &wrt)).unwrap();
    let got: Vec<Tensor> = run(&twice, &[tensor(F64, &[x.len()], x)], PLAIN);
    [1, 3].map(|output| got[output].data.clone())
}

/// Of 60 digits. By a quotient, the second derivative has no right digit below 1e-8, and the first is NaN at 1e-320.
#[test]
fn sinc_has_its_derivatives_near_zero() {
    let x = [0.0, 1e-320, 1e-8, 1e-3, 0.159, 0.16, 2.0];
    let first =
        [0.0, -3.29e-320, -3.2898681336964526e-8, -3.28986488672789e-3, -0.51015302837168, -0.513198764254758, 0.5];
    let at_zero = -3.289868133696453;
    let second = [at_zero, at_zero, at_zero, -3.28985839279307, -3.04724208759371, -3.04422671805203, -0.5];
    for (got, want) in derivatives(&x, |x| x.sinc()).iter().zip([first, second]) {
        let near = got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-13 * b.abs().max(1e-300));
        assert!(near, "{got:?}, not {want:?}");
    }
}

#[test]
fn a_nan_makes_all_shares_of_a_logsumexp_nan() {
    let [of_nan, _] = derivatives(&[0.5, NAN, 1.0], |x| x.logsumexp(0));
    assert!(of_nan.iter().all(|d| d.is_nan()), "{of_nan:?}");
    let [of_none, _] = derivatives(&[-INF, -INF], |x| x.logsumexp(0));
    assert_eq!(of_none, [0.0, 0.0]);
}

#[test]
fn what_does_not_fit_is_named() {
    fn error(f: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>) -> String {
        let g = Builder::new("bad");
        f(&g, g.input("x", [2, 3], F64));
        g.finish([]).unwrap_err().to_string()
    }
    fn zero(g: &Builder) -> Var<'_> {
        g.full(0.0, [], I64)
    }
    for (e, parts) in [
        (error(|_, x| x.slice(&[0, 0], &[2, 9], &[1, 20])), ["slice", "0..9", "3 elements"]),
        (error(|_, x| x.pad_with(&[1], &[0, 0], PadMode::Reflect)), ["pad", "1 and 2 widths", "rank 2"]),
        (error(|_, x| x.pad_with(&[0, 0], &[1], PadMode::Reflect)), ["pad", "2 and 1 widths", "rank 2"]),
        (error(|_, x| x.pad_with(&[0, 0], &[0, 3], PadMode::Reflect)), ["pad", "0 and 3", "axis 1 of 3"]),
        (error(|_, x| x.tile(&[1 << 62, 2])), ["4611686018427387904", "", ""]),
        (error(|_, x| x.sum(..).flatten(-2, 0)), ["flatten", "axis -2", "rank 0"]),
        (error(|_, x| x.sum(..).flatten(0, 1)), ["flatten", "axis", "rank 0"]),
        (error(|_, x| x.narrow(0, 0, 1).unflatten(0, &[])), ["unflatten", "length 1", "[]"]),
        (error(|_, x| x.narrow(0, 0, 0).unflatten(0, &[0, usize::MAX])), ["beside a dimension of 0", "", ""]),
        (error(|_, x| x.top_k(4, 0).0), ["top_k", "axis 0 has 2 elements", "k is 4"]),
        (error(|_, x| x.softshrink(INF)), ["softshrink", "lambda must be finite", "inf"]),
        (error(|_, x| x.hardshrink(-1.0)), ["hardshrink", "lambda must be finite and not negative", "-1"]),
        (error(|_, x| x.celu(INF)), ["celu", "alpha must be finite", "inf"]),
        (error(|g, _| g.iota(0, [3], DType::I8)), ["iota", "no iota of i8", "cast"]),
        (error(|g, _| g.iota(0, [3], DType::U8)), ["iota", "no iota of u8", "cast"]),
        (error(|g, _| g.iota(0, [3], DType::Bool)), ["iota", "no iota of bool", "cast"]),
        (error(|g, _| g.iota(0, [(1 << 31) + 1], DType::I32)), ["iota", "2147483648", "i32"]),
        (error(|g, _| g.full(2.5, [], DType::I32)), ["full", "2.5", "no element of i32"]),
        (
            error(|g, x| x.cast(DType::C128).scatter(g.iota(0, [2, 3], I64), x.cast(DType::C128), 1, Scatter::Mul)),
            ["scatter", "c128", ""],
        ),
        (error(|g, x| x.dynamic_slice(&[zero(g); 2], &[1])), ["dynamic_slice", "2 starts and 1 sizes", "rank 2"]),
        (error(|g, x| x.dynamic_slice(&[zero(g)], &[1, 1])), ["dynamic_slice", "1 starts and 2 sizes", "rank 2"]),
        (
            error(|g, x| x.dynamic_slice(&[zero(g).cast(DType::I32), zero(g)], &[1, 1])),
            ["dynamic_slice", "axis 0 is i32[]", "i64[] is needed"],
        ),
        (
            error(|g, x| x.dynamic_slice(&[zero(g), zero(g).reshape([1])], &[1, 1])),
            ["dynamic_slice", "axis 1 is i64[1]", "i64[] is needed"],
        ),
        (
            error(|g, x| x.dynamic_update_slice(x.cast(I64), &[zero(g); 2])),
            ["dynamic_update_slice", "i64[2,3]", "does not fit"],
        ),
    ] {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/method_edges.rs"), "{e} {parts:?}");
    }
    // The longest that there may be.
    let g = Builder::new("long");
    assert!(g.iota(0, [1 << 31], DType::I32).is_some() && g.error().is_none());
}

#[test]
fn a_value_of_another_builder_is_refused_by_name() {
    type Make = for<'g> fn(&'g Builder, Var<'g>, Var<'g>) -> Var<'g>;
    let all: [(&str, Make); 5] = [
        ("gather_nd", |_, x, y| x.gather_nd(y)),
        ("stack", |_, x, y| x.stack(&[y], 0)),
        ("dynamic_slice", |_, x, y| x.dynamic_slice(&[y, y], &[1, 1])),
        ("dynamic_update_slice", |_, x, y| x.dynamic_update_slice(y, &[])),
        ("meshgrid", |g, x, y| g.meshgrid(&[x, y])[0]),
    ];
    for (name, make) in all {
        let (a, b) = (Builder::new("a"), Builder::new("b"));
        make(&a, a.input("x", [2, 3], F64), b.input("y", [2, 3], F64));
        let e = a.finish([]).unwrap_err().to_string();
        assert!(e.contains(&format!("{name}: ")) || e.contains(&format!("{name}(")), "{name}: {e}");
    }
}

#[test]
fn what_a_broadcast_repeats_is_summed() {
    for (from, to, data) in [
        (&[2, 2][..], &[2][..], &[4.0, 6.0][..]),
        (&[2, 2], &[1, 2], &[4.0, 6.0]),
        (&[2, 2], &[2, 1], &[3.0, 7.0]),
        (&[2, 2], &[], &[10.0]),
        (&[2, 1, 2], &[1, 2], &[4.0, 6.0]),
        (&[3, 2, 3, 2], &[2, 1, 2], &[135.0, 144.0, 189.0, 198.0]),
        (&[2, 2], &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
    ] {
        assert_eq!(of_counted(from, |_, x| x.unbroadcast(to)), tensor(F64, to, data), "{from:?} to {to:?}");
    }
}
