//! Code that no iteration changes leaves loops, and every bit stays.

#![allow(clippy::unwrap_used)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::graph::{Builder, DType, GradOptions, Graph, GraphBuf, Init, Loop, Var, grad};
use arenagrad::tools::arena::Region;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::ad::prepare::flatten_regions;
use arenagrad::tools::passes::pipeline;

fn drawn(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let (v, mut d) = (g.view(), TensorDraws(seed));
    v.leaves().map(|l| d.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

fn times(length: usize) -> Loop {
    Loop::default().length(length)
}

/// Number of nodes of op `name` in the entry, and in all other regions, behind the pass.
fn places(g: &GraphBuf, name: &str) -> (usize, usize) {
    nodes_called(&pipeline::run_pipeline(g, &["hoist"], true).unwrap().0, name)
}

/// Number of nodes of op `name` in the entry, and in all other regions.
fn nodes_called(g: &GraphBuf, name: &str) -> (usize, usize) {
    let v: Graph<'_> = g.view();
    let inside = |r: Region| v.region_nodes(r).filter(|&n| v.def_of(n).name == name).count();
    (inside(v.entry()), (0..v.regions() - 1).map(|r| inside(Region::new(r))).sum())
}

fn keeps_bits(g: &GraphBuf, what: &str) {
    let x = drawn(g, 7);
    let plain = run(g, &x, How { optimise: false, ..PLAIN });
    for threads in [1, 3] {
        let moved = run(g, &x, How { threads, poison: threads == 3, ..PLAIN });
        assert!(moved.iter().zip(&plain).all(|(a, b)| same_conform_bits(a, b)), "{what}, {threads} threads");
    }
}

/// What reads constants alone leaves a loop and the loop around it; what reads the outer carry stops there.
#[test]
fn invariant_code_leaves_nested_loops() {
    let g = Builder::new("nested");
    let (w, h) = (g.input("w", [3, 3], DType::F64), g.input("h", [2, 3], DType::F64));
    let (last, _) = g.scan_with(times(4), &[h], &[], |c, _| {
        let (inner, all) = g.scan_with(times(3), &[c[0]], &[], |d, _| {
            let fixed = w.exp().matmul(w.sin());
            let outer = c[0].cos();
            (vec![(d[0].matmul(fixed) * outer).tanh()], vec![fixed])
        });
        (vec![inner[0] + all[0].sum([0, 1])], vec![])
    });
    let graph = g.finish([last[0].named("y")]).unwrap();
    assert_eq!([places(&graph, "exp"), places(&graph, "sin")], [(1, 0); 2]);
    assert_eq!([places(&graph, "matmul"), places(&graph, "cos"), places(&graph, "tanh")], [(1, 1), (0, 1), (0, 1)]);
    keeps_bits(&graph, "nested");
}

#[test]
fn what_leaves_a_loop_is_counted() {
    let g = Builder::new("counted");
    let (w, h) = (g.input("w", [3], DType::F64), g.input("h", [3], DType::F64));
    let (last, _) = g.scan_with(times(4), &[h], &[], |c, _| (vec![c[0] * w.exp() + w.sin()], vec![]));
    let graph = g.finish([last[0].named("y")]).unwrap();
    let (_, traces) = pipeline::run_pipeline(&graph, &["hoist"], true).unwrap();
    assert_eq!(traces[0].hits.get("hoisted"), Some(&2));
}

/// Moves and fills stay, unless what leaves reads them; loops that may end early, or run nothing, keep their bodies.
#[test]
fn what_costs_nothing_and_what_may_not_run_stays() {
    let g = Builder::new("moves");
    let (w, h) = (g.input("w", [3], DType::F32), g.input("h", [4, 3], DType::F32));
    let (last, _) = g.scan_with(times(5), &[h], &[], |c, _| {
        let (wide, scaled) = (w.broadcast([4, 3]), w.broadcast([4, 3]) * 0.5);
        (vec![c[0] * wide + scaled.exp()], vec![])
    });
    let graph = g.finish([last[0].named("y")]).unwrap();
    assert_eq!([places(&graph, "exp"), places(&graph, "add")], [(1, 0), (0, 1)]);
    assert_eq!(places(&graph, "broadcast").1, 1);
    keeps_bits(&graph, "moves");

    let g = Builder::new("early");
    let (w, n) = (g.input("w", [3], DType::F32), g.input("n", [], DType::F32));
    let (y, _) = g.while_loop(&[w], 9, |c| c[0].sum(..).less(n), |c| vec![c[0] + w.exp()]);
    let (none, _) = g.scan_with(times(0), &[w], &[], |c, _| (vec![c[0] * w.sin()], vec![]));
    let graph = g.finish([y[0].named("y"), none[0].named("none")]).unwrap();
    assert_eq!([places(&graph, "exp"), places(&graph, "sin")], [(0, 1); 2]);
}

/// Gradients of a cell whose weights are made of others, which each iteration would make again.
#[test]
fn gradients_through_what_left() {
    let g = Builder::new("cell");
    let (w, s) = (g.param("w", [3, 3], DType::F64, Init::Normal(1.0)), g.param("s", [], DType::F64, Init::Zeros));
    let (h, xs) = (g.input("h", [2, 3], DType::F64), g.input("xs", [6, 2, 3], DType::F64));
    let (last, all) = g.scan(&[h], &[xs], |c, x| {
        let weight = w.tanh() * s.exp().broadcast([3, 3]);
        let next = (c[0].matmul(weight) + x[0]).sin();
        (vec![next], vec![next * s.exp().broadcast([2, 3])])
    });
    let loss = g.finish([(last[0].sum(..) + all[0].square().sum(..)).named("loss")]).unwrap();
    let step = grad(&loss, "loss", &GradOptions::default()).unwrap();
    assert_eq!(places(&step, "tanh").1, 0);
    // The sum of the products of the weight's gradient is joined with them, which rounds otherwise.
    let x = drawn(&step, 7);
    let (a, b) = (run(&step, &x, PLAIN), run(&step, &x, How { optimise: false, ..PLAIN }));
    assert!(a.iter().zip(&b).all(|(a, b)| conform_distance(&a.data, &b.data) < 1e-12), "{a:?}\n{b:?}");
}

/// `depth` loops in one another around `h·w`, where `w` is one number.
fn nest<'g>(g: &'g Builder, h: Var<'g>, w: Var<'g>, depth: usize) -> Var<'g> {
    match depth {
        0 => h * w.broadcast([4]),
        _ => g.scan_with(times(2), &[h], &[], |h, _| (vec![nest(g, h[0], w, depth - 1)], vec![])).0[0],
    }
}

/// Before a gradient, a broadcast leaves as many loops as a plan may have in one another.
#[test]
fn broadcasts_leave_all_loops_before_a_gradient() {
    let g = Builder::new("deep");
    let (h, w) = (g.input("h", [4], DType::F64), g.param("w", [], DType::F64, Init::Ones));
    let graph = g.finish([nest(&g, h, w, 6).named("y")]).unwrap();
    let prepared = pipeline::run_pipeline(&graph, &["prepare"], true).unwrap().0;
    assert_eq!(nodes_called(&prepared, "broadcast"), (1, 0));
}

/// The adjoint of a loop adds up cotangents of broadcasts, and reduces them once.
#[test]
fn gradients_of_scalars_are_summed_once() {
    let g = Builder::new("scalars");
    let (w, h) = (g.param("w", [4], DType::F64, Init::Normal(1.0)), g.input("h", [6], DType::F64));
    let rates: Vec<_> = (0..4).map(|i| w.narrow(0, i, 1).reshape([])).collect();
    let (last, _) = g.scan_with(times(5), &[h], &[], |c, _| {
        let (inner, _) = g.scan_with(times(2), &[c[0]], &[], |d, _| {
            (vec![(d[0] * rates[0].broadcast([6]) + rates[1].broadcast([6])).tanh()], vec![])
        });
        (vec![inner[0].sin() * rates[2].exp().broadcast([6]) + rates[3] * c[0]], vec![])
    });
    let loss = g.finish([last[0].square().sum(..).named("loss")]).unwrap();
    let step = grad(&loss, "loss", &GradOptions::default()).unwrap();
    assert_eq!(places(&step, "reduce_sum").1, 0);
    keeps_bits(&step, "scalars");
    // The unrolled graph has the same gradients but for rounding.
    let unrolled = grad(&flatten_regions(&loss).unwrap(), "loss", &GradOptions::default()).unwrap();
    let (a, b) = (run(&step, &drawn(&step, 7), PLAIN), run(&unrolled, &drawn(&unrolled, 7), PLAIN));
    assert!(a.iter().zip(&b).all(|(a, b)| conform_distance(&a.data, &b.data) < 1e-12), "{a:?}\n{b:?}");
}

/// Broadcasts in the entry and in the body of a loop of `c ← body(c, w)`, prepared for a gradient.
fn prepared_broadcasts(
    from: &[usize],
    to: &[usize],
    body: impl for<'g> FnOnce(Var<'g>, Var<'g>) -> Var<'g>,
) -> (usize, usize) {
    let g = Builder::new("body");
    let (h, w) = (g.input("h", to, DType::F64), g.param("w", from, DType::F64, Init::Ones));
    let (last, _) = g.scan_with(times(2), &[h], &[], |c, _| (vec![body(c[0], w)], vec![]));
    let graph = g.finish([last[0].named("y")]).unwrap();
    nodes_called(&pipeline::run_pipeline(&graph, &["prepare"], true).unwrap().0, "broadcast")
}

/// Before a gradient, broadcasts of at most 64 elements leave a loop, if they become more, and at most 16,384.
#[test]
fn broadcasts_of_a_few_floats_leave_before_a_gradient() {
    let of = |from: &[usize], to: &[usize]| prepared_broadcasts(from, to, |c, w| c * w.broadcast(to));
    assert_eq!([of(&[64], &[2, 64]), of(&[], &[1 << 14])], [(1, 0); 2]);
    assert_eq!([of(&[65], &[2, 65]), of(&[], &[(1 << 14) + 1]), of(&[3], &[1, 3])], [(0, 1); 3]);
}

/// A bias is fused with the product that it is added to, so it stays.
#[test]
fn broadcasts_of_biases_stay_before_a_gradient() {
    assert_eq!(prepared_broadcasts(&[3], &[3, 3], |c, w| c.matmul(c) + w.broadcast([3, 3])), (0, 1));
    assert_eq!(prepared_broadcasts(&[3], &[3, 3], |c, w| c.matmul(c) * w.broadcast([3, 3])), (1, 0));
    assert_eq!(prepared_broadcasts(&[3], &[3, 3], |c, w| c.sin() + w.broadcast([3, 3])), (1, 0));
}

/// A cell over seven inputs of two rows, whose product with `w` is one of dot products; with its gradients.
fn small_weight_cell(keep_every: Option<usize>) -> GraphBuf {
    let g = Builder::new("cell");
    let (h, w) = (g.input("h", [2, 40], DType::F32), g.input("w", [40, 40], DType::F32));
    let xs = g.input("xs", [7, 2, 40], DType::F32);
    let how = Loop::default().length(7).keep_every(keep_every).at_once(false);
    let (last, _) = g.scan_with(how, &[h], &[xs], |c, x| (vec![(c[0].matmul_t(w, false, true) + x[0]).tanh()], vec![]));
    let loss = g.finish([last[0].square().sum(..).named("loss"), last[0].named("last")]).unwrap();
    grad(&loss, "loss", &GradOptions::wrt(&["w", "h", "xs"])).unwrap()
}

/// Weights of a few rows have their axes exchanged before loops: sums are chains then. A loop in stretches has the bits
/// of the whole loop.
#[test]
fn small_weights_are_exchanged_before_loops() {
    let whole = small_weight_cell(None);
    assert_eq!(places(&whole, "transpose"), (1, 0));
    let x = drawn(&whole, 7);
    let (a, plain) = (run(&whole, &x, PLAIN), run(&whole, &x, How { optimise: false, ..PLAIN }));
    assert!(a.iter().zip(&plain).all(|(a, b)| conform_distance(&a.data, &b.data) < 1e-4), "{a:?}\n{plain:?}");
    for n in [1, 3, 7] {
        let some = small_weight_cell(Some(n));
        assert_eq!(places(&some, "transpose").1, 0, "every {n}");
        for threads in [1, 3] {
            let b = run(&some, &x, How { threads, ..PLAIN });
            assert!(a.iter().zip(&b).all(|(a, b)| same_conform_bits(a, b)), "every {n}, {threads} threads");
        }
    }
}
