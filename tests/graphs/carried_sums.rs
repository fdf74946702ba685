//! Sums of products leave loops, and every bit stays.

#![allow(clippy::unwrap_used)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::graph::{Builder, DType, GradOptions, Graph, GraphBuf, Init, Loop, Var, Vmap, grad};
use arenagrad::prelude::{Precision, Session};
use arenagrad::tools::arena::Region;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::pipeline;

fn drawn(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let (v, mut d) = (g.view(), TensorDraws(seed));
    v.leaves().map(|l| d.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

/// The graph that runs, with its sums in the loops if they are not to leave.
fn optimised(g: &GraphBuf, leave: bool) -> GraphBuf {
    let names: Vec<&str> = pipeline::pipeline_passes().into_iter().filter(|&p| leave || p != "sums").collect();
    pipeline::run_pipeline(g, &names, true).unwrap().0
}

/// Number of nodes of op `name` in the entry, and in all other regions.
fn nodes_called(g: &GraphBuf, name: &str) -> (usize, usize) {
    let v: Graph<'_> = g.view();
    let inside = |r: Region| v.region_nodes(r).filter(|&n| v.def_of(n).name == name).count();
    (inside(v.entry()), (0..v.regions() - 1).map(|r| inside(Region::new(r))).sum())
}

/// `entry` and `inside` sums over stacks in the entry and in loops, `left` sums that stay in loops, and equal bits.
fn leaves(g: &GraphBuf, [entry, inside, left]: [usize; 3], what: &str) {
    let (moved, plain) = (optimised(g, true), optimised(g, false));
    let found = (nodes_called(&moved, "matmul_add_stack"), nodes_called(&moved, "matmul_add").1);
    assert_eq!(found, ((entry, inside), left), "{what}\n{moved:?}");
    assert_eq!(nodes_called(&plain, "matmul_add_stack"), (0, 0));
    let (x, how) = (drawn(g, 11), How { optimise: false, ..PLAIN });
    let want = run(&plain, &x, how);
    for (threads, share) in [(1, false), (2, true), (3, true)] {
        let got = run(&moved, &x, How { threads, share, poison: share, ..how });
        assert!(got.iter().zip(&want).all(|(a, b)| same_conform_bits(a, b)), "{what}, {threads} threads");
    }
}

/// The loss of a recurrent net of `rows` rows and `width` columns over 9 steps, in either direction.
fn recurrent_loss(dtype: DType, rows: usize, width: usize, reverse: bool) -> GraphBuf {
    let g = Builder::new("recurrent");
    let w = g.param("w", [width, width], dtype, Init::Normal(0.3));
    let (h, xs) = (g.input("h", [rows, width], dtype), g.input("xs", [9, rows, width], dtype));
    let how = if reverse { Loop::default().reverse(true) } else { Loop::default() };
    let (last, all) = g.scan_with(how, &[h], &[xs], |c, x| {
        let next = (c[0].matmul(w) + x[0]).tanh();
        (vec![next], vec![next])
    });
    g.finish([(last[0].sum(..) + all[0].square().sum(..)).named("loss")]).unwrap()
}

fn gradient(loss: &GraphBuf) -> GraphBuf {
    grad(loss, "loss", &GradOptions::default()).unwrap()
}

#[test]
fn the_gradient_of_a_recurrent_weight_leaves_its_loop() {
    for dtype in [DType::F32, DType::F64] {
        for reverse in [false, true] {
            leaves(&gradient(&recurrent_loss(dtype, 3, 20, reverse)), [1, 0, 0], "recurrent");
            leaves(&gradient(&recurrent_loss(dtype, 1, 33, reverse)), [1, 0, 0], "rank 1");
        }
    }
}

/// An iteration would stack more than the sum has.
#[test]
fn a_small_sum_of_many_rows_stays() {
    leaves(&gradient(&recurrent_loss(DType::F32, 40, 8, false)), [0, 0, 1], "many rows");
}

#[test]
fn gradients_of_examples_leave_together() {
    let loss = recurrent_loss(DType::F32, 1, 12, false);
    let each = gradient(&loss).vmap(&Vmap::new(5).leaf("h", 0).leaf("xs", 0)).unwrap();
    leaves(&each, [1, 0, 0], "each example");
}

/// Two weights share a factor, and the sums of a loop in a loop end in the loop around it.
#[test]
fn several_sums_and_loops_in_loops() {
    let g = Builder::new("nested");
    let [u, w] = ["u", "w"].map(|name| g.param(name, [16, 16], DType::F64, Init::Normal(0.3)));
    let (h, xs) = (g.input("h", [2, 16], DType::F64), g.input("xs", [4, 5, 2, 16], DType::F64));
    let (last, _) = g.scan(&[h], &[xs], |c, x| {
        let (inner, _) = g.scan(&[c[0]], &[x[0]], |c, x| {
            let gate = c[0].matmul(u).sigmoid();
            (vec![(c[0].matmul(w) * gate + x[0]).tanh()], vec![])
        });
        (vec![inner[0].matmul(w).sin()], vec![])
    });
    let step = gradient(&g.finish([last[0].sum(..).named("loss")]).unwrap());
    let moved = optimised(&step, true);
    assert_eq!(nodes_called(&moved, "matmul_add_stack").1, 2, "{moved:?}");
    let left = nodes_called(&moved, "matmul_add").1;
    leaves(&step, [nodes_called(&moved, "matmul_add_stack").0, 2, left], "nested");
}

/// A loop over `xs` and `ys` whose first carry is the sum of their products. `yields` are stacked.
fn summing(how: Loop, yields: impl for<'g> Fn(Var<'g>, Var<'g>) -> Vec<Var<'g>>) -> GraphBuf {
    let g = Builder::new("summing");
    let c = g.input("c", [6, 7], DType::F32);
    let (xs, ys) = (g.input("xs", [5, 2, 6], DType::F32), g.input("ys", [5, 2, 7], DType::F32));
    let (last, all) = g.scan_with(how, &[c], &[xs, ys], |c, x| {
        let next = c[0] + x[0].matmul_t(x[1], true, false);
        (vec![next], yields(c[0], next))
    });
    g.finish(last.iter().chain(&all).enumerate().map(|(i, y)| y.named(&format!("y{i}")))).unwrap()
}

#[test]
fn a_sum_that_the_loop_reads_stays() {
    leaves(&summing(Loop::default(), |_, _| vec![]), [1, 0, 0], "alone");
    leaves(&summing(Loop::default().reverse(true), |_, _| vec![]), [1, 0, 0], "backwards");
    leaves(&summing(Loop::default(), |c, _| vec![c.sin()]), [0, 0, 0], "the sum before");
    leaves(&summing(Loop::default(), |_, next| vec![next]), [0, 0, 1], "the sum after");
}

#[test]
fn what_no_iteration_changes_and_what_may_end_early_stays() {
    let g = Builder::new("constant");
    let (c, x) = (g.input("c", [6, 7], DType::F32), g.input("x", [2, 6], DType::F32));
    let ys = g.input("ys", [5, 2, 7], DType::F32);
    let (last, _) = g.scan(&[c], &[ys], |c, y| (vec![c[0] + x.matmul_t(y[0], true, false)], vec![]));
    leaves(&g.finish([last[0].named("y")]).unwrap(), [0, 0, 1], "constant");
    let g = Builder::new("early");
    let (c, n) = (g.input("c", [3, 3], DType::F32), g.input("n", [], DType::F32));
    let (y, _) = g.while_loop(
        &[c, n],
        9,
        |c| c[1].less(2.0),
        |c| {
            let x = c[1].broadcast([1, 3]);
            vec![c[0] + x.matmul_t(x, true, false), c[1] + 1.0]
        },
    );
    leaves(&g.finish([y[0].named("y")]).unwrap(), [0, 0, 1], "early");
}

/// In every precision a product behind the loop has the bits of those in the loop.
#[test]
fn precisions_keep_their_bits() {
    for rows in [8, 96] {
        let step = gradient(&recurrent_loss(DType::F32, rows, 128, false));
        for precision in [Precision::F32, Precision::Bf16, Precision::Bf16x3] {
            let [moved, plain] = [true, false].map(|leave| {
                let session = Session::new().precision(precision).optimise(false);
                let mut p = session.compile(&optimised(&step, leave)).unwrap();
                p.init(1).unwrap();
                for name in ["h", "xs"] {
                    let x = p.values_mut::<f32>(name).unwrap();
                    x.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32).sin());
                }
                p.step().unwrap();
                p.values::<f32>("grad.w").unwrap().iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
            });
            assert!(moved == plain, "{rows} rows in {}", precision.name());
        }
    }
}

/// The gradients of biases of a recurrent net, one of them outside the loop: both are one sum over a stack.
#[test]
fn sums_over_what_is_stacked_leave() {
    let g = Builder::new("biases");
    let (w, v) =
        (g.param("w", [4, 4], DType::F64, Init::Normal(0.3)), g.param("v", [3, 4], DType::F64, Init::Normal(0.3)));
    let [b, c] = ["b", "c"].map(|name| g.param(name, [4], DType::F64, Init::Zeros));
    let (h, xs) = (g.input("h", [5, 4], DType::F64), g.input("xs", [7, 5, 3], DType::F64));
    let ahead = xs.reshape([35, 3]).matmul(v) + b.broadcast([35, 4]);
    let (last, _) = g.scan_with(Loop::default(), &[h], &[ahead.reshape([7, 5, 4])], |s, x| {
        (vec![(s[0].matmul(w) + c.broadcast([5, 4]) + x[0]).tanh()], vec![])
    });
    let step = gradient(&g.finish([last[0].square().sum(..).named("loss")]).unwrap());
    let (moved, plain) = (optimised(&step, true), optimised(&step, false));
    assert_eq!([nodes_called(&moved, "reduce_sum").1, nodes_called(&plain, "reduce_sum").1], [0, 1], "{moved:?}");
    assert_eq!(nodes_called(&moved, "reduce_sum").0, nodes_called(&plain, "reduce_sum").0, "{moved:?}");
    let (x, how) = (drawn(&step, 3), How { optimise: false, ..PLAIN });
    let (got, want) = (run(&moved, &x, how), run(&plain, &x, how));
    assert!(got.iter().zip(&want).all(|(a, b)| conform_distance(&a.data, &b.data) <= 1e-14), "{got:?}\n{want:?}");
}
