//! Loops that keep few carries: the bits of gradients, and the bytes of their plans, against loops that keep all.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, run, same_conform_bits};
use arenagrad::graph::{Builder, DType, GraphBuf, Loop, Missing, Var};
use arenagrad::session::Session;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::graph::Leaf;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::GradOptions;

/// A loop of this length and direction.
fn how(length: usize, reverse: bool, keep_every: Option<usize>) -> Loop {
    Loop::default().length(length).reverse(reverse).keep_every(keep_every).at_once(false)
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
    let mut draw = TensorDraws(seed);
    let key = Tensor { dtype: DType::U32, dims: vec![4], data: vec![5.0, 0.0, 3.0, 0.0] };
    let one = |l: Leaf<'_>| match l.name {
        "rng" => key.clone(),
        _ => draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit),
    };
    v.leaves().map(one).collect()
}

/// The gradients of the loss with respect to all float inputs.
fn gradients(g: &GraphBuf) -> GraphBuf {
    let v = g.view();
    let names: Vec<&str> = v.leaves().filter(|l| v.dtype[l.value.at()].is_differentiable()).map(|l| l.name).collect();
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
            assert!(same_conform_bits(a, b), "{what}, output {i}, {how:?}\n{a:?}\n{b:?}");
        }
    }
}

#[test]
fn gradients_have_the_bits_of_a_loop_that_keeps_all() {
    for (length, reverse) in [0, 1, 2, 7, 16].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let dtype = if reverse { DType::F64 } else { DType::F32 };
        let all = gradients(&recurrent(dtype, how(length, reverse, None)));
        for n in 1..=length + 1 {
            let some = gradients(&recurrent(dtype, how(length, reverse, Some(n))));
            assert_same(&all, &some, &format!("{dtype}, length {length}, reverse {reverse}, every {n}"));
        }
    }
}

/// The bytes of the plan of `g`.
fn bytes(g: &GraphBuf) -> usize {
    Session::new().compile(g).unwrap().plan().arena_bytes
}

#[test]
fn plans_take_the_bytes_of_the_kept_carries_and_of_one_stretch() {
    let net = |length, keep_every| {
        let g = Builder::new("net");
        let (x, w) = (g.input("x", [length, 1], DType::F32), g.input("w", [64, 64], DType::F32));
        let start = g.full(0.0, [64, 64], DType::F32);
        let (h, _) = g.scan_with(how(length, false, keep_every), &[start], &[x], |h, x| {
            (vec![(h[0].matmul(w) + x[0].broadcast([64, 64])).tanh().matmul(w)], vec![])
        });
        let graph = g.finish([h[0].sum(..).named("loss")]).unwrap();
        arenagrad::graph::grad(&graph, "loss", &GradOptions::wrt(&["w"])).unwrap()
    };
    // What is kept of one iteration, of which one matrix is the carry; and what does not grow with the length.
    let carry = 64 * 64 * 4;
    let saved = (bytes(&net(512, None)) - bytes(&net(256, None))) / 256;
    let fixed = bytes(&net(256, None)) - 256 * saved;
    assert!((2 * carry..2 * carry + 64).contains(&saved), "{saved} bytes for each iteration");
    for (length, n) in [(256, 16), (4096, 64), (250, 16), (256, 1), (256, 2), (256, 300), (256, 128)] {
        let (all, some) = (bytes(&net(length, None)), bytes(&net(length, Some(n))));
        let share = if n == 16 { 6 } else { 16 };
        assert!(share * some <= all || n * n != length.next_power_of_two(), "{n} of {length}: {some} of {all} bytes");
        // A stretch has some carries and a sum of its own.
        let formula = length.div_ceil(n) * carry + n.min(length) * saved + fixed + 8 * carry + 64 * length;
        assert!(some <= formula, "every {n} of {length}: {some} bytes, {formula} by the formula");
    }
}

/// Dropout, a choice, a loop of a length known at run time and a loop of its own in the body.
fn mixed(keep_every: Option<usize>, inner: Option<usize>) -> GraphBuf {
    let g = Builder::new("mixed");
    let (x, w) = (g.input("x", [10, 6, 4], DType::F64), g.input("w", [4], DType::F64));
    let start = g.input("start", [4], DType::F64);
    let (h, y) = g.scan_with(how(10, false, keep_every), &[start], &[x], |h, rows| {
        let (s, t) = g.scan_with(how(6, true, inner), &[h[0]], &[rows[0]], |s, x| {
            let s = ((s[0] * w).tanh() + x[0]).dropout(0.3);
            (vec![s], vec![s.sin()])
        });
        let positive = s[0].sum(..).greater(0.0);
        let chosen = g.cond(positive, || vec![(s[0] * w).cos()], || vec![s[0] * 0.5]);
        let (grown, _) = g.while_loop(
            &[chosen[0]],
            4,
            |c| c[0].abs().sum(..).less(3.0),
            |c| vec![c[0] * 3.0 + c[0].sign() * 0.5 + w * 0.1],
        );
        (vec![grown[0].tanh()], vec![t[0].sum([0])])
    });
    let loss = (y[0] * y[0]).sum(..) + h[0].sum(..) + (w * w).sum(..);
    g.finish([loss.named("loss"), y[0].named("y")]).unwrap()
}

#[test]
fn bodies_with_random_numbers_choices_and_loops_have_the_bits_of_a_loop_that_keeps_all() {
    let all = gradients(&mixed(None, None));
    for (n, inner) in [(1, None), (3, Some(4)), (4, Some(1)), (5, Some(6)), (10, Some(2))] {
        let some = gradients(&mixed(Some(n), inner));
        assert_same(&all, &some, &format!("every {n}, inner loops every {inner:?}"));
    }
    // Masks differ from one iteration to the next, and from one stretch to the next.
    let outs = run(&all, &inputs(&all, 7), PLAIN);
    let rows: Vec<&[f64]> = outs[1].data.chunks(4).collect();
    assert!((1..10).all(|i| rows[..i].iter().all(|other| *other != rows[i])), "{rows:?}");
}

#[test]
fn inner_loops_keep_few_carries_of_each_iteration_of_the_outer_loop() {
    let net = |outer, inner| {
        let g = Builder::new("net");
        let (w, h0) = (g.input("w", [32, 32], DType::F32), g.input("h0", [32, 32], DType::F32));
        let (h, _) = g.scan_with(how(16, false, outer), &[h0], &[], |h, _| {
            let (s, _) = g.scan_with(how(64, false, inner), &[h[0]], &[], |s, _| (vec![s[0].matmul(w).tanh()], vec![]));
            (vec![s[0] + h[0]], vec![])
        });
        gradients(&g.finish([h[0].sum(..).named("loss")]).unwrap())
    };
    let all = bytes(&net(None, None));
    let [inner, outer, both] = [(None, Some(8)), (Some(4), None), (Some(4), Some(8))].map(|(o, i)| bytes(&net(o, i)));
    assert!(4 * inner <= all && 3 * outer <= all && 2 * both <= inner.min(outer), "{all} {inner} {outer} {both}");
}

#[test]
fn a_leaf_without_a_gradient_has_none_either_way() {
    let net = |keep_every| {
        let g = Builder::new("net");
        let (w, z) = (g.input("w", [3], DType::F64), g.input("z", [3], DType::F64));
        let start = g.full(0.5, [3], DType::F64);
        // `z` reaches the second carry alone, which reaches no result with a cotangent.
        let (h, _) = g.scan_with(how(7, false, keep_every), &[start, start], &[], |h, _| {
            (vec![(h[0] * w).sin(), h[1] * z + h[0]], vec![])
        });
        g.finish([h[0].sum(..).named("loss"), h[1].named("other")]).unwrap()
    };
    for keep_every in [None, Some(1), Some(3), Some(7)] {
        let grad = |missing| {
            let options = GradOptions::wrt(&["w", "z"]).missing(missing);
            arenagrad::graph::grad(&net(keep_every), "loss", &options)
        };
        let e = grad(Missing::Error).unwrap_err().to_string();
        assert!(e.contains("\"z\" gets no gradient"), "{e}");
        assert_eq!(run(&grad(Missing::Zero).unwrap(), &inputs(&net(None), 1), PLAIN)[3].data, [0.0; 3]);
    }
}

#[test]
fn a_count_below_one_is_refused() {
    let g = Builder::new("g");
    let h = g.input("h", [3], DType::F32);
    g.scan_with(how(4, false, Some(0)), &[h], &[], |h, _| (vec![h[0] * 2.0], vec![]));
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("keep_every is 0; it must be at least 1"), "{e}");
}

#[test]
fn deep_loops_keep_the_carries_of_each_iteration() {
    fn nest<'g>(g: &'g Builder, h: Var<'g>, w: Var<'g>, depth: usize, keep_every: Option<usize>) -> Var<'g> {
        match depth {
            0 => (h * w).sin(),
            _ => {
                let body = |h: &[Var<'g>], _: &[Var<'g>]| (vec![nest(g, h[0], w, depth - 1, keep_every)], vec![]);
                g.scan_with(how(3, depth.is_multiple_of(2), keep_every), &[h], &[], body).0[0]
            }
        }
    }
    let net = |depth, keep_every| {
        let g = Builder::new("deep");
        let (h, w) = (g.input("h", [2], DType::F64), g.input("w", [2], DType::F64));
        gradients(&g.finish([nest(&g, h, w, depth, keep_every).sum(..).named("loss")]).unwrap())
    };
    for depth in [3, 4, 5] {
        assert_same(&net(depth, None), &net(depth, Some(2)), &format!("{depth} deep"));
    }
    // Nor does a budget make loops too deep.
    assert_eq!(Session::new().budgets(&net(6, None)).unwrap()[0].recomputed.flops, 0);
}

/// A loop in stretches is two loops, and those around it are one each: six may stand in one another.
#[test]
fn a_loop_in_four_others_keeps_few_carries() {
    fn nest<'g>(g: &'g Builder, h: Var<'g>, w: Var<'g>, around: usize, keep_every: Option<usize>) -> Var<'g> {
        let body = |h: &[Var<'g>], _: &[Var<'g>]| match around {
            0 => (vec![h[0].matmul(w).tanh()], vec![]),
            _ => (vec![nest(g, h[0], w, around - 1, keep_every)], vec![]),
        };
        let steps = if around == 0 { how(64, false, keep_every) } else { how(2, false, None) };
        g.scan_with(steps, &[h], &[], body).0[0]
    }
    let net = |keep_every| {
        let g = Builder::new("deep");
        let (h, w) = (g.input("h", [8, 8], DType::F32), g.input("w", [8, 8], DType::F32));
        gradients(&g.finish([nest(&g, h, w, 4, keep_every).sum(..).named("loss")]).unwrap())
    };
    let (all, some) = (bytes(&net(None)), bytes(&net(Some(8))));
    assert!(2 * some <= all, "{some} of {all} bytes");
}
