//! Loops: what a scan computes, what its plan holds, and what its derivatives are, against the same loop unrolled.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::nodes::opdef::Domain;
use arenagrad::nodes::{Builder, DType, GraphBuf, Loop};
use arenagrad::passes::prepare::flatten;
use common::{Draw, How, PLAIN, Tensor, distance, run, same_bits};

/// `h' = tanh(x·W + h·U + b)`, `y = h'·v`, over `steps` steps.
fn rnn(steps: usize, batch: usize, hidden: usize, reverse: bool) -> GraphBuf {
    let g = Builder::new("rnn");
    let dtype = DType::F64;
    let x = g.input("x", [steps, batch, 3], dtype);
    let h0 = g.input("h0", [batch, hidden], dtype);
    let (w, u) = (g.input("w", [3, hidden], dtype), g.input("u", [hidden, hidden], dtype));
    let b = g.input("b", [hidden], dtype);
    let how = Loop { reverse, ..Loop::default() };
    let (h, y) = g.scan_with(how, &[h0], &[x], |h, x| {
        let h = (x[0].matmul(w) + h[0].matmul(u) + b).tanh();
        (vec![h], vec![h * 2.0])
    });
    let loss = (y[0] * y[0]).sum(..) + h[0].sum(..);
    g.finish([loss.named("loss"), y[0].named("y"), h[0].named("h")]).unwrap()
}

fn inputs(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    use arenagrad::arena::ids::Id;
    let v = g.view();
    let mut draw = Draw(seed);
    v.leaves().map(|(x, _, _)| draw.tensor(v.dtype[x.at()], &v.dims(x), Domain::Unit)).collect()
}

#[test]
fn a_scan_is_its_unrolled_loop() {
    for reverse in [false, true] {
        let g = rnn(7, 2, 5, reverse);
        let flat = flatten(g.view()).unwrap();
        let x = inputs(&g, 1);
        let (a, b) = (run(&g, &x, PLAIN), run(&flat, &x, PLAIN));
        for (a, b) in a.iter().zip(&b) {
            assert!(distance(&a.data, &b.data) < 1e-13, "{a:?}\n{b:?}");
        }
        for how in [How { threads: 3, ..PLAIN }, How { poison: true, ..PLAIN }, How { optimise: false, ..PLAIN }] {
            let c = run(&g, &x, how);
            assert!(a.iter().zip(&c).all(|(a, c)| same_bits(a, c) || !how.optimise));
        }
    }
}

/// The gradients of the loss by all inputs.
fn gradients(g: &GraphBuf) -> GraphBuf {
    let v = g.view();
    let names: Vec<&str> = v.leaves().map(|l| l.2).collect();
    arenagrad::passes::grad(v, "loss", &arenagrad::passes::GradOptions::wrt(&names)).unwrap()
}

#[test]
fn gradients_are_those_of_the_unrolled_loop() {
    for reverse in [false, true] {
        let g = rnn(9, 2, 5, reverse);
        let (a, b) = (gradients(&g), gradients(&flatten(g.view()).unwrap()));
        let x = inputs(&g, 2);
        let (ra, rb) = (run(&a, &x, PLAIN), run(&b, &x, PLAIN));
        assert_eq!(ra.len(), 8);
        for (a, b) in ra.iter().zip(&rb) {
            assert!(distance(&a.data, &b.data) < 1e-12, "{a:?}\n{b:?}");
        }
        for how in [How { threads: 3, ..PLAIN }, How { poison: true, ..PLAIN }] {
            assert!(ra.iter().zip(&run(&a, &x, how)).all(|(a, c)| same_bits(a, c)));
        }
    }
}
