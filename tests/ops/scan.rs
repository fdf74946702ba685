//! Loops: what a scan computes, what its plan holds, and what its derivatives are, against the same loop unrolled.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::graph::Missing;
use arenagrad::graph::{Builder, DType, GraphBuf, Loop, Var};
use arenagrad::nn;
use arenagrad::optim::{self, LR, train};
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::ad::prepare::{flatten_regions, keep_outputs};
use arenagrad::tools::sched::instructions::BufKind;

/// `h' = tanh(x·W + h·U + b)`, `y = h'·v`, over `steps` steps.
fn rnn(steps: usize, batch: usize, hidden: usize, reverse: bool) -> GraphBuf {
    let g = Builder::new("rnn");
    let dtype = DType::F64;
    let x = g.input("x", [steps, batch, 3], dtype);
    let h0 = g.input("h0", [batch, hidden], dtype);
    let (w, u) = (g.input("w", [3, hidden], dtype), g.input("u", [hidden, hidden], dtype));
    let b = g.input("b", [hidden], dtype);
    let how = Loop::default().reverse(reverse);
    let (h, y) = g.scan_with(how, &[h0], &[x], |h, x| {
        let h = (x[0].matmul(w) + h[0].matmul(u) + b).tanh();
        (vec![h], vec![h * 2.0])
    });
    let loss = (y[0] * y[0]).sum(..) + h[0].sum(..);
    g.finish([loss.named("loss"), y[0].named("y"), h[0].named("h")]).unwrap()
}

fn inputs(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    use arenagrad::tools::arena::ids::Id;
    let v = g.view();
    let mut draw = TensorDraws(seed);
    v.leaves().map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

#[test]
fn a_scan_is_its_unrolled_loop() {
    for reverse in [false, true] {
        let g = rnn(7, 2, 5, reverse);
        let flat = flatten_regions(&g).unwrap();
        let x = inputs(&g, 1);
        let (a, b) = (run(&g, &x, PLAIN), run(&flat, &x, PLAIN));
        for (a, b) in a.iter().zip(&b) {
            assert!(conform_distance(&a.data, &b.data) < 1e-13, "{a:?}\n{b:?}");
        }
        let shared = How { threads: 3, share: true, ..PLAIN };
        for how in [shared, How { poison: true, ..PLAIN }, How { optimise: false, ..PLAIN }] {
            let c = run(&g, &x, how);
            assert!(a.iter().zip(&c).all(|(a, c)| same_conform_bits(a, c) || !how.optimise));
        }
    }
}

/// The gradients of the loss with respect to all inputs.
fn gradients(g: &GraphBuf) -> GraphBuf {
    let v = g.view();
    let names: Vec<&str> = v.leaves().map(|l| l.name).collect();
    arenagrad::graph::grad(v, "loss", &arenagrad::tools::passes::GradOptions::wrt(&names)).unwrap()
}

#[test]
fn gradients_are_those_of_the_unrolled_loop() {
    for reverse in [false, true] {
        let g = rnn(9, 2, 5, reverse);
        let (a, b) = (gradients(&g), gradients(&flatten_regions(&g).unwrap()));
        let x = inputs(&g, 2);
        let (ra, rb) = (run(&a, &x, PLAIN), run(&b, &x, PLAIN));
        assert_eq!(ra.len(), 8);
        for (a, b) in ra.iter().zip(&rb) {
            assert!(conform_distance(&a.data, &b.data) < 1e-12, "{a:?}\n{b:?}");
        }
        for how in [How { threads: 3, share: true, ..PLAIN }, How { poison: true, ..PLAIN }] {
            assert!(ra.iter().zip(&run(&a, &x, how)).all(|(a, c)| same_conform_bits(a, c)));
        }
    }
}

/// Bytes of scratch and number of instructions of a plan.
fn size(g: &GraphBuf) -> (usize, usize) {
    let p = Session::new().compile(g).unwrap();
    let scratch = p.plan().buffers.iter().filter(|b| b.kind == BufKind::Scratch).map(|b| b.size).sum();
    (p.plan().instructions, scratch)
}

#[test]
fn the_plan_of_a_loop_does_not_grow_with_its_length() {
    // Without the sum over all steps, whose own code depends on how many there are.
    let last = |steps| keep_outputs(rnn(steps, 4, 16, false).view(), |name| name == "h").unwrap();
    let (short, long) = (last(8), last(512));
    assert!(size(&short).1 > 0, "the loop has a workspace");
    assert_eq!(size(&short), size(&long));
    let back = |g: &GraphBuf| arenagrad::graph::vjp(g, &["h"], &["w", "u", "b", "h0"], Missing::Error).unwrap();
    // A sum of products behind the loop gathers 128 terms at once: four of each iteration.
    assert_eq!(size(&back(&last(32))), size(&back(&long)));
}

/// A loop in a loop: each row of `x` is summed with decay, row by row, and the sums feed one another.
fn nested() -> GraphBuf {
    let g = Builder::new("nested");
    let x = g.input("x", [3, 4, 2], DType::F64);
    let (a, h0) = (g.input("a", [2], DType::F64), g.input("h0", [2], DType::F64));
    let (h, y) = g.scan(&[h0], &[x], |h, row| {
        let (s, t) = g.scan(&[h[0] * 0.5], &[row[0]], |s, x| {
            let s = (s[0] * a).tanh() + x[0] * h[0];
            (vec![s], vec![s.sin()])
        });
        (vec![s[0] + h[0] * a], vec![t[0].sum([0])])
    });
    let loss = (y[0] * y[0]).sum(..) + h[0].sum(..);
    g.finish([loss.named("loss"), y[0].named("y")]).unwrap()
}

#[test]
fn loops_stand_in_loops() {
    let g = nested();
    assert_eq!(g.view().regions(), 3);
    let flat = flatten_regions(&g).unwrap();
    let hessian = |g: &GraphBuf| arenagrad::graph::hvp(g, "loss", &["x", "a", "h0"]).unwrap();
    for (a, b) in [(gradients(&g), gradients(&flat)), (hessian(&g), hessian(&flat))] {
        let x = inputs(&a, 4);
        let (ra, rb) = (run(&a, &x, PLAIN), run(&b, &x, PLAIN));
        for (a, b) in ra.iter().zip(&rb) {
            assert!(conform_distance(&a.data, &b.data) < 1e-12, "{a:?}\n{b:?}");
        }
        let poisoned = run(&a, &x, How { poison: true, ..PLAIN });
        assert!(ra.iter().zip(&poisoned).all(|(a, b)| same_conform_bits(a, b)));
    }
}

#[test]
fn each_iteration_draws_its_own_numbers_and_the_gradient_sees_the_same() {
    let g = Builder::new("noise");
    let x = g.input("x", [6, 40], DType::F64);
    let zero = g.full(0.0, [40], DType::F64);
    let (_, y) = g.scan(&[zero], &[x], |c, x| {
        let kept = x[0].dropout(0.5);
        (vec![c[0] + kept], vec![kept * kept])
    });
    let loss = y[0].sum(..) * 0.5;
    let graph = g.finish([loss.named("loss"), y[0].named("y")]).unwrap();
    let ones = Tensor { dtype: DType::F64, dims: vec![6, 40], data: vec![1.0; 240] };
    let key = Tensor { dtype: DType::U32, dims: vec![4], data: vec![5.0, 0.0, 3.0, 0.0] };
    let leaves = |g: &GraphBuf| g.view().leaves().map(|l| l.name == "rng").collect::<Vec<_>>();
    let feed =
        |g: &GraphBuf| leaves(g).iter().map(|rng| if *rng { key.clone() } else { ones.clone() }).collect::<Vec<_>>();
    let options = arenagrad::tools::passes::GradOptions::wrt(&["x"]);
    let d = arenagrad::graph::grad(&graph, "loss", &options).unwrap();
    let r = run(&d, &feed(&d), PLAIN);
    let rows: Vec<&[f64]> = r[1].data.chunks(40).collect();
    for (i, row) in rows.iter().enumerate() {
        assert!(row.contains(&0.0) && row.contains(&4.0), "about half is dropped");
        assert!(rows[..i].iter().all(|other| other != row), "rows {i} and another are equal");
    }
    // y = (x·m)² with x = 1, so dy/dx · ½ = m² = y.
    assert_eq!(r[2].data, r[1].data);
    let unrolled = run(&flatten_regions(&graph).unwrap(), &feed(&graph), PLAIN);
    assert_eq!(unrolled[1].data, r[1].data);
}

#[test]
fn a_bad_index_inside_a_loop_is_reported_with_its_line() {
    let g = Builder::new("bad");
    let (table, ids) = (g.input("table", [4, 3], DType::F32), g.input("ids", [5, 2], DType::I32));
    let start = g.full(0.0, [2, 3], DType::F32);
    let mut line = 0;
    let (h, _) = g.scan(&[start], &[ids], |h, id| {
        line = line!() + 1;
        let row = table.gather(id[0], 0);
        (vec![h[0] + row], vec![])
    });
    let graph = g.finish([h[0].named("h")]).unwrap();
    for threads in [1, 2] {
        let mut p = Session::new().threads(threads).share(true).compile(&graph).unwrap();
        p.values_mut::<f32>("table").unwrap().fill(1.0);
        p.values_mut::<i32>("ids").unwrap().copy_from_slice(&[0, 1, 2, 3, 0, 1, 2, 9, 0, 0]);
        let e = p.step().unwrap_err().to_string();
        assert!(e.contains("gather: element 1 ") && e.contains(&format!("{}:{line}", file!())), "{e}");
        assert!(e.contains("in iteration 3 of its loop"), "{e}");
        p.values_mut::<i32>("ids").unwrap().fill(1);
        p.step().unwrap();
    }
}

/// The error that the graph made by `f` has.
fn refused(f: impl FnOnce(&Builder)) -> String {
    let g = Builder::new("refused");
    f(&g);
    g.finish([]).unwrap_err().to_string()
}

#[test]
fn mistakes_are_named_with_both_types_and_the_line() {
    let line = line!() + 4;
    let e = refused(|g| {
        let h = g.input("h", [3], DType::F32);
        let x = g.input("x", [5, 4], DType::F32);
        g.scan(&[h], &[x], |_, x| (vec![x[0]], vec![]));
    });
    assert!(e.contains("carry 0 enters the body as f32[3] and leaves it as f32[4]"), "{e}");
    assert!(e.ends_with(&format!("{}:{line}", file!())), "{e}");
    let e = refused(|g| {
        let (h, x) = (g.input("h", [3], DType::F32), g.input("x", [5, 3], DType::F32));
        let how = Loop::default().length(4);
        g.scan_with(how, &[h], &[x], |h, x| (vec![h[0] + x[0]], vec![]));
    });
    assert!(e.contains("stacked input 0 has 5 slices, and the loop 4 iterations"), "{e}");
    let e = refused(|g| {
        let h = g.input("h", [3], DType::F32);
        let mut kept = h;
        g.scan_with(Loop::default().length(2), &[h], &[], |h, _| {
            kept = h[0].tanh();
            (vec![kept], vec![])
        });
        g.output("y", kept * 2.0);
    });
    assert!(e.contains("a value of a region that is closed is used outside it"), "{e}");
    let e = refused(|g| {
        let h = g.input("h", [3], DType::F32);
        g.scan(&[h], &[], |h, _| (vec![h[0]], vec![]));
    });
    assert!(e.contains("the number of iterations"), "{e}");
    let e = refused(|g| {
        let h = g.input("h", [3], DType::F32);
        g.region("plain", &[h.ty()], |a| vec![a[0] + h]);
    });
    assert!(e.contains("a region sees its own arguments only"), "{e}");
}

/// What the body reads in every iteration must outlive the iterations, and what one iteration leaves behind must not be
/// found by the next (PTOAS 913): the invariant `w` is read last, after temporaries of its size.
#[test]
fn what_does_not_change_in_a_loop_survives_it() {
    let g = Builder::new("invariant");
    let (x, s) = (g.input("x", [9, 32], DType::F64), g.input("s", [32], DType::F64));
    let w = (s * 3.0).exp();
    let (h, y) = g.scan(&[s.sin(), s.cos()], &[x], |h, x| {
        let a = (h[0] + x[0]).cumsum(0, false, false);
        let b = (a * h[1]).cumsum(0, false, true) * 0.01;
        // The carries change places, so that one of them must wait beside its place.
        (vec![h[1] * 0.5 + b, h[0]], vec![a * w])
    });
    let graph = g.finish([h[0].named("h0"), h[1].named("h1"), y[0].named("y"), w.named("w")]).unwrap();
    let x = inputs(&graph, 8);
    let want = run(&flatten_regions(&graph).unwrap(), &x, PLAIN);
    for how in [PLAIN, How { poison: true, ..PLAIN }, How { optimise: false, poison: true, ..PLAIN }] {
        for (a, b) in run(&graph, &x, how).iter().zip(&want) {
            assert!(conform_distance(&a.data, &b.data) < 1e-12, "{a:?}\n{b:?}");
        }
    }
}

/// A gated recurrent cell whose weights are made and captured inside the loop learns to add.
#[test]
fn a_gated_cell_trains() {
    let g = Builder::new("gru");
    let (steps, batch, n) = (5, 16, 12);
    let x = g.input("x", [steps, batch, 1], DType::F32);
    let target = g.input("target", [batch, 1], DType::F32);
    let h0 = g.full(0.0, [batch, n], DType::F32);
    let (h, _) = g.scan(&[h0], &[x], |h, x| {
        let both =
            |name: &str, h| nn::linear(&g, &format!("{name}.x"), x[0], n) + nn::linear(&g, &format!("{name}.h"), h, n);
        let (r, z) = (both("r", h[0]).sigmoid(), both("z", h[0]).sigmoid());
        let new = both("n", r * h[0]).tanh();
        (vec![z * h[0] + (new - z * new)], vec![])
    });
    let d = nn::linear(&g, "out", h[0], 1) - target;
    let loss = (d * d).mean(..);
    let graph = g.finish([loss.named("loss")]).unwrap();
    let step = train(&graph, "loss", optim::Adam::new(0.01)).unwrap();
    let mut p = Session::new().threads(2).compile(&step).unwrap();
    p.init(3).unwrap();
    p.values_mut::<f32>(LR).unwrap()[0] = 0.01;
    let mut draw = TensorDraws(5);
    let mut losses = Vec::new();
    for _ in 0..300 {
        let xs: Vec<f32> = (0..steps * batch).map(|_| draw.unit() as f32 - 0.5).collect();
        let sums: Vec<f32> = (0..batch).map(|b| (0..steps).map(|t| xs[t * batch + b]).sum()).collect();
        p.values_mut("x").unwrap().copy_from_slice(&xs);
        p.values_mut("target").unwrap().copy_from_slice(&sums);
        p.step().unwrap();
        losses.push(p.values::<f32>("loss").unwrap()[0]);
    }
    let mean = |l: &[f32]| l.iter().sum::<f32>() / l.len() as f32;
    let (first, last) = (mean(&losses[..10]), mean(&losses[290..]));
    assert!(last < first / 20.0, "from {first} to {last}");
}

/// σ.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The last state of a recurrent layer, step by step and number by number, from torch's formulas.
fn reference(gates: usize, t: &dyn Fn(&str) -> Vec<f64>, [steps, batch, inputs, n]: [usize; 4]) -> Vec<f64> {
    let (wi, wh, bi, bh) = (t("l.weight_ih_l0"), t("l.weight_hh_l0"), t("l.bias_ih_l0"), t("l.bias_hh_l0"));
    let (x, mut h, mut c) = (t("x"), t("h0"), vec![0.0; batch * n]);
    for s in 0..steps {
        let old = h.clone();
        for b in 0..batch {
            let of_x = |r: usize| {
                (0..inputs).map(|k| x[(s * batch + b) * inputs + k] * wi[r * inputs + k]).sum::<f64>() + bi[r]
            };
            let of_h = |r: usize| (0..n).map(|k| old[b * n + k] * wh[r * n + k]).sum::<f64>() + bh[r];
            let sum = |r: usize| of_x(r) + of_h(r);
            for j in 0..n {
                let at = b * n + j;
                h[at] = match gates {
                    1 => sum(j).tanh(),
                    3 => {
                        let (r, z) = (sigmoid(sum(j)), sigmoid(sum(n + j)));
                        (1.0 - z) * (of_x(2 * n + j) + r * of_h(2 * n + j)).tanh() + z * old[at]
                    }
                    _ => {
                        c[at] = sigmoid(sum(n + j)) * c[at] + sigmoid(sum(j)) * sum(2 * n + j).tanh();
                        sigmoid(sum(3 * n + j)) * c[at].tanh()
                    }
                };
            }
        }
    }
    h
}

#[test]
fn recurrent_layers_are_those_of_torch() {
    let sizes = [4, 2, 3, 5];
    for gates in [1, 3, 4] {
        let g = Builder::new("layer");
        let [steps, batch, inputs_, n] = sizes;
        let (x, h0) = (g.input("x", [steps, batch, inputs_], DType::F64), g.input("h0", [batch, n], DType::F64));
        let (y, h) = match gates {
            1 => nn::rnn(&g, "l", x, h0),
            3 => nn::gru(&g, "l", x, h0),
            _ => {
                let (y, h, _) = nn::lstm(&g, "l", x, h0, g.full(0.0, [batch, n], DType::F64));
                (y, h)
            }
        };
        let graph = g.finish([h.named("h"), y.named("y")]).unwrap();
        let x = inputs(&graph, 6);
        let r = run(&graph, &x, PLAIN);
        let v = graph.view();
        let named = |name: &str| x[v.leaves().position(|l| l.name == name).unwrap()].data.clone();
        let want = reference(gates, &named, sizes);
        assert!(conform_distance(&r[0].data, &want) < 1e-13, "{gates}: {:?}\n{want:?}", r[0].data);
        assert_eq!(r[1].data[(steps - 1) * batch * n..], r[0].data);
    }
}

/// `depth` loops in one another, each of `length` iterations, around `h + 1`.
fn nest<'g>(g: &'g Builder, h: Var<'g>, depth: usize, length: usize) -> Var<'g> {
    if depth == 0 {
        return h + 1.0;
    }
    let how = Loop::default().length(length);
    g.scan_with(how, &[h], &[], |h, _| (vec![nest(g, h[0], depth - 1, length)], vec![])).0[0]
}

#[test]
fn loops_nest_to_a_limit_that_is_named() {
    let build = |depth, length| {
        let g = Builder::new("deep");
        let h = g.input("h", [2], DType::F32);
        let y = nest(&g, h, depth, length);
        g.finish([y.named("y")]).unwrap()
    };
    let deepest = build(16, 2);
    let zero = Tensor { dtype: DType::F32, dims: vec![2], data: vec![0.0; 2] };
    assert_eq!(run(&deepest, std::slice::from_ref(&zero), PLAIN)[0].data, [65536.0; 2]);
    let e = Session::new().compile(&build(17, 2)).err().unwrap().to_string();
    assert!(e.contains("more than 16 deep") && e.contains(file!()), "{e}");
    // Written out, deeper loops are one region.
    let flat = flatten_regions(&build(24, 1)).unwrap();
    assert_eq!(run(&flat, &[zero], PLAIN)[0].data, [1.0, 1.0]);
}

#[test]
fn what_nobody_reads_of_a_loop_is_not_made() {
    let g = Builder::new("dead");
    let (x, z) = (g.input("x", [4, 3], DType::F32), g.input("z", [4, 3], DType::F32));
    let zero = g.full(0.0, [3], DType::F32);
    let (h, _) = g.scan(&[zero, zero], &[x, z], |h, x| {
        // The second carry has two readers: its own next value, and a result without readers.
        (vec![h[0] + x[0], h[1] * x[1]], vec![h[1].exp()])
    });
    let graph = g.finish([h[0].named("h")]).unwrap();
    let optimised = arenagrad::tools::passes::pipeline::run_whole_pipeline(&graph).unwrap();
    let text = arenagrad::tools::ir::text::print(optimised.view());
    let line = text.lines().find(|l| l.contains("= scan ")).unwrap();
    assert!(line.contains("carries=1 consts=0 length=4") && line.ends_with(": f32[3]"), "{line}");
    assert!(!line.contains("%z") && line.contains("%x"), "{line}");
    assert!(!text.contains("exp"), "{text}");
}

/// The caller may go on with the results of a loop that is refused.
#[test]
fn a_loop_that_is_refused_has_as_many_results() {
    let e = refused(|g| {
        let (h, x) = (g.input("h", [3], DType::F32), g.input("x", [5, 4], DType::F32));
        let (c, y) = g.scan(&[h], &[x], |_, x| (vec![x[0]], vec![x[0], x[0] * 2.0]));
        assert_eq!((c.len(), y.len()), (1, 2));
    });
    assert!(e.contains("carry 0 enters the body as f32[3] and leaves it as f32[4]"), "{e}");
}

#[test]
fn the_first_stacked_input_tells_the_number_of_iterations() {
    let e = refused(|g| {
        let (h, x) = (g.input("h", [3], DType::F32), g.input("x", [5, 3], DType::F32));
        let z = g.input("z", [4, 3], DType::F32);
        g.scan(&[h], &[x, z], |h, x| (vec![h[0] + x[0] + x[1]], vec![]));
    });
    assert!(e.contains("stacked input 1 has 4 slices, and the loop 5 iterations"), "{e}");
}
