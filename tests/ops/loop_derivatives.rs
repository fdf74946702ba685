//! Derivatives of loops read what the loops stacked: they have the values of unrolled loops, and no product runs again.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::{Builder, DType, GraphBuf, Loop, Missing, Var};
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::ad::prepare::flatten_regions;
use arenagrad::tools::passes::pipeline::run_pipeline;

const F64: DType = DType::F64;

/// The number of products in `g` whose results are read.
fn products(g: &GraphBuf) -> usize {
    let (clean, _) = run_pipeline(g, &["clean"], true).unwrap();
    text::print(clean.view()).matches("= matmul ").count()
}

/// Asserts that the derivative of `g` is that of its loops unrolled.
fn assert_unrolled(g: &GraphBuf, derivative: impl Fn(&GraphBuf) -> GraphBuf) {
    let (a, b) = (derivative(g), derivative(&flatten_regions(g).unwrap()));
    let (v, mut draw) = (a.view(), TensorDraws(5));
    let x: Vec<Tensor> =
        v.leaves().map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect();
    let (have, want) = (run(&a, &x, PLAIN), run(&b, &x, PLAIN));
    assert_eq!(have.len(), want.len());
    for (have, want) in have.iter().zip(&want) {
        assert!(conform_distance(&have.data, &want.data) < 1e-12, "{have:?}\n{want:?}");
    }
}

fn tangent(g: &GraphBuf) -> GraphBuf {
    g.jvp(&["y"], &["h"]).unwrap()
}

fn cotangent(g: &GraphBuf) -> GraphBuf {
    g.vjp(&["y"], &["h"], Missing::Error).unwrap()
}

#[test]
fn loops_in_branches_have_derivatives() {
    let g = Builder::new("branch");
    let (h, w) = (g.input("h", [2, 3], F64), g.input("w", [3, 3], F64));
    let looped = || {
        let how = Loop::default().length(4);
        g.scan_with(how, &[h], &[], |h, _| (vec![h[0].matmul(w).sin()], vec![])).0
    };
    let y = g.cond(h.sum(..).less(1e9), looped, || vec![h]);
    let graph = g.finish([y[0].named("y")]).unwrap();
    assert_unrolled(&graph, tangent);
    assert_unrolled(&graph, cotangent);
}

/// The tangent of a product with a constant reads no value of the loop.
#[test]
fn a_tangent_does_not_run_its_loop_again() {
    let g = Builder::new("power");
    let (h, w) = (g.input("h", [2, 3], F64), g.input("w", [3, 3], F64));
    let how = Loop::default().length(4);
    let (y, _) = g.scan_with(how, &[h], &[], |h, _| (vec![h[0].matmul(w)], vec![]));
    let graph = g.finish([y[0].named("y")]).unwrap();
    assert_eq!(products(&tangent(&graph)), 2);
    // The loop of tangents has those of the last carry and of the stacked ones.
    let text = text::print(tangent(&graph).view());
    let last = text.lines().rfind(|l| l.contains("= scan ")).unwrap();
    assert!(last.ends_with("length=4 reverse=false : f64[2,3], f64[4,2,3]"), "{text}");
    assert_unrolled(&graph, tangent);
}

/// d ← d·cos(x), twice.
fn twice<'g>(g: &'g Builder, x: Var<'g>, d: Var<'g>) -> Var<'g> {
    let slope = x.cos();
    let how = Loop::default().length(2);
    g.scan_with(how, &[d], &[], |d, _| (vec![d[0] * slope], vec![])).0[0]
}

/// The rule, which holds a loop, reads a product of the loop that the function stands in.
#[test]
fn rules_with_loops_read_what_the_loop_around_them_stacked() {
    let g = Builder::new("rule");
    let (h, w) = (g.input("h", [2, 3], F64), g.input("w", [3, 3], F64));
    let how = Loop::default().length(4);
    let (y, _) = g.scan_with(how, &[h], &[], |h, _| {
        let f = g.custom_fn("bent", &[h[0].matmul(w)], |x| vec![x[0].tanh()]);
        (vec![f.jvp(|g, x, _, d| vec![Some(twice(g, x[0], d[0]))]).call()[0]], vec![])
    });
    let graph = g.finish([y[0].named("y")]).unwrap();
    assert_eq!([products(&tangent(&graph)), products(&cotangent(&graph))], [2, 2]);
    assert_unrolled(&graph, tangent);
    assert_unrolled(&graph, cotangent);
}

/// The product of the outer body is read by the inner loop, which may stand in a branch.
#[test]
fn inner_loops_read_what_the_loop_around_them_stacked() {
    for branch in [false, true] {
        let g = Builder::new("inner");
        let (h, w) = (g.input("h", [2, 3], F64), g.input("w", [3, 3], F64));
        let how = Loop::default().length(4);
        let (y, _) = g.scan_with(how, &[h], &[], |h, _| {
            let p = h[0].matmul(w);
            let next = match branch {
                true => g.cond(p.sum(..).less(1e9), || vec![twice(&g, p, h[0])], || vec![p])[0],
                false => twice(&g, p, h[0]),
            };
            (vec![next], vec![])
        });
        let graph = g.finish([y[0].named("y")]).unwrap();
        assert_eq!([products(&tangent(&graph)), products(&cotangent(&graph))], [2, 2], "{branch}");
        assert_unrolled(&graph, tangent);
        assert_unrolled(&graph, cotangent);
    }
}

/// The derivative reads the mean and the scale of each iteration, so no norm runs again.
#[test]
fn statistics_of_an_iteration_are_stacked() {
    let g = Builder::new("norms");
    let (h, gain) = (g.input("h", [2, 3], F64), g.input("gain", [3], F64));
    let how = Loop::default().length(4);
    let (y, _) = g.scan_with(how, &[h], &[], |h, _| (vec![h[0].layer_norm(gain, gain, 0.1) * 0.5 + h[0]], vec![]));
    let graph = g.finish([y[0].named("y")]).unwrap();
    for derivative in [tangent, cotangent] {
        let (clean, _) = run_pipeline(&derivative(&graph), &["clean"], true).unwrap();
        let text = text::print(clean.view());
        assert_eq!(text.matches("= layer_norm ").count(), 1, "{text}");
        assert_unrolled(&graph, derivative);
    }
}

/// What is an input of one loop is a carry of the other.
#[test]
fn loops_with_other_numbers_of_carries_may_share_a_body() {
    let graph = text::parse(
        "region @body(%a : f64[3], %b : f64[3]) {
            %p = mul %a, %b
            %q = sin %p
            yield %q, %p
        }
        graph @shared {
            %h = input : f64[3]
            %k = input : f64[3]
            %x = input : f64[4,3]
            %c, %ps = scan %h, %x body=@body carries=1 consts=0 length=4 reverse=false
            %d, %e = scan %h, %k body=@body carries=2 consts=0 length=5 reverse=false
            %all = reduce_sum %ps axes=[0] keep=false
            %f = add %c, %d
            %i = add %f, %e
            %y = add %i, %all
            return y=%y
        }",
    )
    .unwrap();
    assert_unrolled(&graph, tangent);
    assert_unrolled(&graph, cotangent);
    let sum = |g: &GraphBuf| {
        let h = g.vjp(&["y"], &["h", "k", "x"], Missing::Error).unwrap();
        h.jvp(&["grad.h"], &["h"]).unwrap()
    };
    assert_unrolled(&graph, sum);
}

/// Products with subnormal numbers take up to two hundred times as long as others.
#[test]
fn gradients_that_fade_become_zero_and_are_never_subnormal() {
    for in_branch in [false, true] {
        let g = Builder::new("fading");
        let (h, xs) = (g.input("h", [2, 8], F64), g.input("xs", [400, 2, 4], F64));
        let (w, u) = (g.input("w", [8, 8], F64), g.input("u", [4, 8], F64));
        let (y, _) = g.scan(&[h], &[xs], |h, x| {
            let product = || h[0].matmul(w) * 0.05;
            let parts = match in_branch {
                true => g.cond(x[0].sum(..).less(1e9), || vec![product()], || vec![h[0]])[0],
                false => product(),
            };
            let (a, b) = (parts.narrow(1, 0, 3).tanh(), parts.narrow(1, 3, 5).sin());
            (vec![a.concat(&[b], 1) + x[0].matmul(u)], vec![])
        });
        let graph = g.finish([y[0].named("y")]).unwrap();
        let back = graph.vjp(&["y"], &["h", "xs", "w", "u"], Missing::Error).unwrap();
        let (v, mut draw) = (back.view(), TensorDraws(7));
        let leaves: Vec<Tensor> =
            v.leaves().map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect();
        let grads = run(&back, &leaves, PLAIN);
        for x in grads.iter().flat_map(|t| &t.data) {
            assert!(*x == 0.0 || x.is_normal(), "{x:e}");
        }
        let of_xs = &grads.iter().find(|t| t.dims == [400, 2, 4]).unwrap().data;
        let least = of_xs.iter().map(|x| x.abs()).filter(|&x| x > 0.0).fold(1.0, f64::min);
        assert!(of_xs[..8].iter().all(|&x| x == 0.0) && least < 1e-290, "{least:e}");
    }
}
