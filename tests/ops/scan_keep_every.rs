//! Loops that keep few carries: the bits of gradients, and the bytes of their plans, against loops that keep all.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{Draw, How, PLAIN, Tensor, run, same_bits};
use arenagrad::graph::{Builder, DType, GraphBuf, Loop, Missing, Var};
use arenagrad::session::Session;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::GradOptions;

/// A loop of this length and direction.
fn how(length: usize, reverse: bool, keep_every: Option<usize>) -> Loop {
    Loop { length: Some(length), reverse, keep_every }
}

/// `h' = tanh(h·W + x + b)` with a number that counts on as integer carry, and stacked results. `w`, `b` and `x` are
/// also read before and after the loop.
fn recurrent(dtype: DType, how: Loop) -> GraphBuf {
    let g = Builder::new("recurrent");
    let length = how.length.unwrap();
    let x = g.input("x", [length, 2, 5], dtype);
    let (h0, w, b) = (g.input("h0", [2, 5], dtype), g.input("w", [5, 5], dtype), g.input("b", [5], dtype));
    let from = g.full(2.0, [], DType::I32);
    let early = (h0.matmul(w) * b).sum(..);
    let (last, y) = g.scan_with(how, &[h0, from], &[x], |c, x| {
        let h = (c[0].matmul(w) + x[0] + b).tanh();
        let scale = (c[1].cast(DType::F32) * 0.25).cast(dtype);
        (vec![h * b.sin(), c[1] + 1.0], vec![h * scale, c[0].matmul(w.sin())])
    });
    let late = (last[0].matmul(w) + b).square().sum(..) + (x * x * 0.5).sum(..) * b.sum(..);
    let loss = late + (y[0] * y[0]).sum(..) + y[1].sin().sum(..) + early;
    g.finish([loss.named("loss"), y[0].named("y"), last[0].named("h"), last[1].named("count")]).unwrap()
}

fn inputs(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let v = g.view();
    let mut draw = Draw(seed);
    v.leaves().map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

/// The gradients of the loss by all float inputs.
fn gradients(g: &GraphBuf) -> GraphBuf {
    let v = g.view();
    let names: Vec<&str> =
        v.leaves().filter(|l| v.dtype[l.value.at()].is_differentiable()).map(|l| l.name).collect();
    arenagrad::graph::grad(v, "loss", &GradOptions::wrt(&names)).unwrap()
}

/// Asserts that `a` and `b` compute the same bits, for several ways to run `b`.
fn assert_same(a: &GraphBuf, b: &GraphBuf, what: &str) {
    let x = inputs(a, 7);
    let want = run(a, &x, PLAIN);
    for how in [PLAIN, How { threads: 3, share: true, ..PLAIN }, How { poison: true, ..PLAIN }] {
        let got = run(b, &x, how);
        assert_eq!(want.len(), got.len());
        for (i, (a, b)) in want.iter().zip(&got).enumerate() {
            assert!(same_bits(a, b), "{what}, output {i}, {how:?}\n{a:?}\n{b:?}");
        }
    }
}

#[test]
fn gradients_have_the_bits_of_a_loop_that_keeps_all() {
    for length in [0, 1, 2, 7, 16] {
        for reverse in [false, true] {
            for dtype in [DType::F32, DType::F64] {
                let all = gradients(&recurrent(dtype, how(length, reverse, None)));
                for n in 1..=length + 1 {
                    let some = gradients(&recurrent(dtype, how(length, reverse, Some(n))));
                    assert_same(&all, &some, &format!("{dtype}, length {length}, reverse {reverse}, every {n}"));
                }
            }
        }
    }
}
