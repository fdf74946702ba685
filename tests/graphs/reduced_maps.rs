//! Reductions that end pointwise regions: the bits of the region and then the reduction, without the terms.

#![allow(clippy::unwrap_used)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, run, same_conform_bits};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Var, grad};
use arenagrad::op::Op;
use arenagrad::prelude::Session;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::arena::{Region, Value};
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::pipeline;

fn drawn(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let (v, mut d) = (g.view(), TensorDraws(seed));
    v.leaves().map(|l| d.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

/// Nodes of the entry called `name`.
fn count(g: &GraphBuf, name: &str) -> usize {
    let v = g.view();
    v.region_nodes(v.entry()).filter(|&n| v.def_of(n).name == name).count()
}

/// The most elements of a value of the entry.
fn largest(g: &GraphBuf) -> usize {
    let v = g.view();
    v.region_nodes(v.entry()).flat_map(|n| v.outs_of(n)).map(|x: Value| v.numel(x)).max().unwrap()
}

/// The graph after all passes. It has the bits of the graph where no region ends in a reduction, on 1 to 3 threads.
fn fused(g: &GraphBuf, what: &str) -> GraphBuf {
    let made = pipeline::run_whole_pipeline(g).unwrap();
    let plain = pipeline::run_pipeline_without_scratch(g).unwrap();
    let (x, how) = (drawn(g, 5), How { optimise: false, ..PLAIN });
    let want = run(&plain, &x, how);
    for threads in 1..=3 {
        let got = run(&made, &x, How { threads, share: threads > 1, ..how });
        for (a, b) in got.iter().zip(&want) {
            assert!(same_conform_bits(a, b), "{what}, {threads} threads: {a:?}\nis not\n{b:?}");
        }
    }
    made
}

const REDUCTIONS: [(Op, &str); 4] = [
    (Op::REDUCE_SUM, "reduce_sum"),
    (Op::REDUCE_MEAN, "reduce_mean"),
    (Op::REDUCE_MAX, "reduce_max"),
    (Op::REDUCE_MIN, "reduce_min"),
];

/// Shapes, axes, and whether the terms are computed part by part.
const CASES: &[(&[usize], &[i64], bool)] = &[
    (&[3, 5], &[1], true),
    (&[3, 5], &[0], true),
    // Rows of few and of many elements; of so many that a part would not stay in the cache.
    (&[1000, 3], &[1], true),
    (&[37, 511], &[1], true),
    (&[37, 513], &[1], true),
    (&[40, 2049], &[1], true),
    (&[33, 32768], &[1], true),
    (&[33, 32769], &[1], false),
    // A sum in chunks, with a last one that is shorter; one that is worth two threads.
    (&[40001], &[0], true),
    (&[9000], &[0], false),
    // Columns, narrow and wide, in chunks or not.
    (&[9001, 8], &[0], true),
    (&[70, 33], &[0], true),
    (&[31, 65], &[0], true),
    (&[301, 257], &[0], true),
    (&[70, 1024], &[0], true),
    // A unit has a part of the columns, if one divides them.
    (&[70, 1025], &[0], true),
    (&[70, 1031], &[0], false),
    (&[31, 300], &[0], true),
    (&[3, 40, 5000], &[1], true),
    (&[100, 2, 65], &[1], true),
    (&[40, 32, 70], &[1], true),
    (&[33, 300], &[0], true),
    (&[63, 400], &[0], true),
    (&[2, 200, 300], &[1], true),
    (&[50, 20, 300], &[1], true),
    // Several runs of axes, of which the last comes first; axes of one element.
    (&[6, 7, 8, 9], &[0, 2], true),
    (&[6, 1, 80, 90], &[1, 3], true),
    (&[20, 70, 30], &[0, 2], true),
    (&[20, 70, 30], &[0, 1, 2], true),
];

/// `op` of a pointwise function of `x` and one of its rows or columns.
fn reduced<'g>(op: Op, x: Var<'g>, row: Var<'g>, axes: &[i64]) -> Var<'g> {
    ((x * row).sin() * x).reduce(op, axes, false)
}

#[test]
fn regions_that_end_in_a_reduction_have_the_bits_of_both() {
    for &(dims, axes, parts) in CASES {
        for ((op, name), dtype) in REDUCTIONS.iter().flat_map(|op| [(*op, DType::F32), (*op, DType::F64)]) {
            for first in [true, false] {
                let g = Builder::new("terms");
                let row: Vec<usize> =
                    dims.iter().enumerate().map(|(i, &d)| if (i == 0) == first { d } else { 1 }).collect();
                let (x, row) = (g.input("x", dims, dtype), g.input("row", row, dtype));
                let g = g.finish([reduced(op, x, row, axes).named("y")]).unwrap();
                let what = format!("{dims:?} {axes:?} {name} {dtype}");
                let made = fused(&g, &what);
                assert_eq!((count(&made, "map"), count(&made, name)), (1, usize::from(!parts)), "{what}");
            }
        }
    }
}

#[test]
fn whole_numbers_are_summed_where_they_are_computed() {
    let g = Builder::new("counts");
    let x = g.input("x", [50, 70], DType::F32);
    let hits = x.greater(0.5).cast(DType::I64).sum([1]).named("hits");
    let g = g.finish([hits]).unwrap();
    let made = fused(&g, "counts");
    assert_eq!((count(&made, "map"), count(&made, "reduce_sum")), (1, 0));
}

/// A loss of the distances of all pairs of `m` and 256 points.
fn distances(m: usize, loss: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("pairs");
    let (x, y) =
        (g.param("x", [m, 8], DType::F32, Init::Normal(1.0)), g.param("y", [256, 8], DType::F32, Init::Normal(1.0)));
    let y = loss(x.unsqueeze(1) - y.unsqueeze(0)).named("loss");
    grad(&g.finish([y]).unwrap(), "loss", &GradOptions::default()).unwrap()
}

/// Few differences are stored, as reading them takes less time than computing them again. Many are not.
#[test]
fn many_differences_of_all_pairs_are_never_stored() {
    for (m, stored) in [(60, 60 * 256 * 8), (1024, 1024 * 256)] {
        let squares = distances(m, |d| (-(d * d).sum([2])).exp().mean(..));
        let lengths = distances(m, |d| d.abs().sum([2]).mean(..));
        for (what, g) in [("squares", squares), ("lengths", lengths)] {
            assert_eq!(largest(&fused(&g, what)), stored, "{what} of {m}");
        }
    }
}

#[test]
fn special_values_are_reduced_where_they_are_computed() {
    let values = [0.0, -0.0, 1.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for (op, name, axis) in REDUCTIONS.iter().flat_map(|&(op, name)| [0, 1, 2].map(|axis| (op, name, axis))) {
        let g = Builder::new("special");
        let (x, y) = (g.input("x", [8, 8, 1], DType::F32), g.input("y", [1, 8, 8], DType::F32));
        let g = g.finish([(x + y).reduce(op, axis, false).named("z")]).unwrap();
        let [plain, made] = [pipeline::run_pipeline_without_scratch(&g), pipeline::run_whole_pipeline(&g)];
        let made = made.unwrap();
        assert_eq!(count(&made, name), 0, "{name}");
        let of = |dims: &[usize], data: Vec<f64>| Tensor { dtype: DType::F32, dims: dims.to_vec(), data };
        let rows = (0..8).flat_map(|r| (0..8).map(move |k| values[(k + r) % 8])).collect();
        let x = [of(&[8, 8, 1], rows), of(&[1, 8, 8], values.repeat(8))];
        let how = How { optimise: false, ..PLAIN };
        for (a, b) in run(&made, &x, how).iter().zip(&run(&plain.unwrap(), &x, how)) {
            assert!(same_conform_bits(a, b), "{name}: {a:?}\nis not\n{b:?}");
        }
    }
}

/// A region of several results is written whole: no part of it is a reduction.
#[test]
fn a_reduction_is_the_only_result_of_its_region() {
    let two = "region @0\"map\"(%0: f32[3,5]) {
  %1 = exp %0 : f32[3,5]
  %2 = reduce_sum %1 axes=[1] keep=false : f32[3]
  %3 = reduce_max %1 axes=[1] keep=false : f32[3]
  yield %2, %3
}
graph @two {
  %x = input : f32[3,5]
  %a, %b = map %x body=@0 : f32[3], f32[3]
  return a=%a, b=%b
}
";
    let error = Session::new().threads(1).compile(&text::parse(two).unwrap()).err().unwrap().to_string();
    assert!(error.contains("a reduction is the only yield"), "{error}");
}

#[test]
fn terms_with_another_reader_are_stored() {
    let g = Builder::new("both");
    let x = g.input("x", [30, 40], DType::F32);
    let y = x.exp();
    let g = g.finish([y.sum([1]).named("sum"), y.named("y")]).unwrap();
    let made = fused(&g, "both");
    assert_eq!(count(&made, "reduce_sum"), 1);
}

#[test]
fn reductions_in_loops_end_regions_that_are_not_joined() {
    let g = Builder::new("loop");
    let (x, w) = (g.input("x", [20, 30], DType::F32), g.input("w", [5, 20, 30], DType::F32));
    let outs = g.scan(&[x], &[w], |carry, xs| {
        let sum = (carry[0] * xs[0]).sin().sum([1]).reshape([20, 1]);
        (vec![(carry[0] + xs[0] * 0.5 - sum).tanh()], vec![])
    });
    let g = g.finish([outs.0[0].named("y")]).unwrap();
    let made = fused(&g, "loop");
    let v = made.view();
    let nodes = |name: &str| {
        (0..v.regions()).map(Region::new).flat_map(|r| v.region_nodes(r)).filter(|&n| v.def_of(n).name == name).count()
    };
    assert_eq!((nodes("map"), nodes("reduce_sum")), (2, 1), "the reduction stands inside of a region");
    Session::new().threads(1).compile(&g).unwrap();
}
