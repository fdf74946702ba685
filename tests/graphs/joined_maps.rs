//! Pointwise ops that are joined in bodies of loops and branches keep every bit, whatever their number and shapes.

#![allow(clippy::unwrap_used)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, run, same_conform_bits};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Loop, Var, grad};
use arenagrad::op::Op;
use arenagrad::tools::arena::{Node, Region, ids::Id};
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::ir::text::parse;
use arenagrad::tools::ops::pointwise::attrs::MapAttrs;
use arenagrad::tools::passes::pipeline;

fn drawn(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let (v, mut d) = (g.view(), TensorDraws(seed));
    v.leaves().map(|l| d.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

fn times(length: usize) -> Loop {
    Loop::default().length(length)
}

/// Number of `map` nodes of the graph that runs.
fn maps(g: &GraphBuf) -> usize {
    let fused = pipeline::run_whole_pipeline(g).unwrap();
    let v = fused.view();
    v.op.iter().filter(|op| v.ops[op.0 as usize].name == "map").count()
}

/// The graph runs with and without passes, on any number of threads, to the same bits.
fn keeps_bits(g: &GraphBuf, what: &str) {
    let x = drawn(g, 5);
    let plain = run(g, &x, How { optimise: false, ..PLAIN });
    for threads in [1, 2, 3, 7] {
        for share in [false, true] {
            let fused = run(g, &x, How { threads, share, poison: share, ..PLAIN });
            assert!(fused.iter().zip(&plain).all(|(a, b)| same_conform_bits(a, b)), "{what}, {threads} threads");
        }
    }
}

/// A loop over `xs[6, …dims]` with `body`, which maps a carry and a slice to the next carry.
fn looped(dims: &[usize], dtype: DType, body: impl for<'g> Fn(Var<'g>, Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("looped");
    let stacked: Vec<usize> = [&[6], dims].concat();
    let (c, xs) = (g.input("c", dims, dtype), g.input("xs", &stacked, dtype));
    let (last, all) = g.scan(&[c], &[xs], |c, x| {
        let next = body(c[0], x[0]);
        (vec![next], vec![next * 2.0])
    });
    g.finish([last[0].named("last"), all[0].named("all")]).unwrap()
}

/// More inputs, results and steps than one region may have.
#[test]
fn a_body_of_many_operations_is_cut() {
    for dtype in [DType::F32, DType::F64] {
        // Each sum is read by a product of rows, so that it is a result.
        let g = looped(&[5, 7], dtype, |c, x| {
            let parts: Vec<Var<'_>> = (1..=40).map(|i| (c * f64::from(i) + x).sin()).collect();
            let sums = parts.iter().map(|p| p.sum(1).reshape([5, 1]).broadcast([5, 7]));
            sums.zip(&parts).fold(x, |y, (s, p)| y + s * *p).tanh()
        });
        assert!(maps(&g) >= 3, "{}", maps(&g));
        keeps_bits(&g, "many results");
        let g = looped(&[33], dtype, |c, x| (0..300).fold(c, |y, i| (y * 0.5 + x * f64::from(i)).sin()));
        keeps_bits(&g, "many steps");
        let g = looped(&[4, 3], dtype, |c, x| {
            let rows: Vec<Var<'_>> = (0..4).map(|i| c.narrow(0, i, 1).broadcast([4, 3])).collect();
            let columns: Vec<Var<'_>> = (0..3).map(|i| x.narrow(1, i, 1).broadcast([4, 3])).collect();
            let products = rows.iter().flat_map(|r| columns.iter().map(move |c| *r * *c));
            products.chain(rows.iter().copied()).fold(c, |y, p| y + p).tanh()
        });
        keeps_bits(&g, "many inputs");
    }
}

/// Operations of several shapes that wait for one another, forwards and backwards, are one region for each shape and
/// each time that they wait.
#[test]
fn gradients_of_a_cell_are_a_few_regions() {
    let g = Builder::new("cell");
    let (h, xs) = (g.param("h", [4, 8], DType::F32, Init::Zeros), g.input("xs", [6, 4, 8], DType::F32));
    let (w, b) = (g.input("w", [8, 8], DType::F32), g.input("b", [8], DType::F32));
    let (last, _) = g.scan(&[h], &[xs], |c, x| {
        let gate = (x[0] + b.broadcast([4, 8])).sigmoid();
        let new = (c[0].matmul(w) + x[0]).tanh();
        (vec![gate * c[0] + (1.0 - gate) * new], vec![])
    });
    let loss = g.finish([last[0].square().sum(..).named("loss")]).unwrap();
    let step = grad(&loss, "loss", &GradOptions::default()).unwrap();
    assert!(maps(&step) <= 6, "{}", maps(&step));
    keeps_bits(&step, "a cell");
}

/// Fusion copies ops into regions and leaves them behind without a reader. What only they read is no result.
#[test]
fn joined_regions_have_the_results_that_are_read() {
    let g = Builder::new("read");
    let (c, xs) = (g.input("c", [5, 7], DType::F32), g.input("xs", [6, 5, 7], DType::F32));
    let (last, all) = g.scan(&[c], &[xs], |c, x| {
        let y = (c[0] + x[0]).exp();
        (vec![(y * 2.0).tanh()], vec![(y * 3.0).sin()])
    });
    let g = g.finish([last[0].named("last"), all[0].named("all")]).unwrap();
    let fused = pipeline::run_whole_pipeline(&g).unwrap();
    let v = fused.view();
    let maps = (0..v.nodes()).map(Node::new).filter(|n| v.ops[v.op[n.at()].0 as usize].name == "map");
    assert_eq!(maps.map(|n| v.outs_of(n).count()).collect::<Vec<_>>(), [2]);
    keeps_bits(&g, "a value that two regions read");
}

/// Branches, loops in loops, integers, truth values, and sizes without an element.
#[test]
fn bodies_of_all_kinds_keep_their_bits() {
    let g = Builder::new("nested");
    let x = g.input("x", [3, 4], DType::F64);
    let (last, _) = g.scan_with(times(3), &[x], &[], |c, _| {
        let (inner, _) = g.scan_with(times(2), &[c[0]], &[], |c, _| (vec![(c[0] * 1.5).sin() + c[0].cos()], vec![]));
        let large = inner[0].sum(..).greater(0.0);
        let y = g.cond(
            large,
            || {
                let whole = (c[0] * 10.0).floor().cast(DType::I64);
                let odd = (whole.bitwise_and(g.full(1.0, [3, 4], DType::I64))).equal(g.full(1.0, [3, 4], DType::I64));
                vec![odd.select(c[0].exp(), -c[0]) + whole.cast(DType::F64)]
            },
            || vec![c[0].abs().sqrt() - c[0].square()],
        );
        (vec![(y[0] * 0.25).tanh() + inner[0]], vec![])
    });
    keeps_bits(&g.finish([last[0].named("y")]).unwrap(), "nested");
    let g = looped(&[0, 3], DType::F32, |c, x| (c.sin() + x).tanh());
    keeps_bits(&g, "no element");
    let g = looped(&[], DType::F32, |c, x| c.sin() * x + c.cos());
    assert_eq!(maps(&g), 1);
    keeps_bits(&g, "scalars");
}

/// A region broadcasts its arguments only. So it is not joined with the op that makes what it broadcasts, even if a
/// broadcast to one element leaves both with results of one shape.
#[test]
fn what_a_region_broadcasts_is_made_before_it() {
    for dtype in [DType::F32, DType::F64] {
        let g = looped(&[], dtype, |c, x| {
            let s = c.sin();
            s + s.broadcast([1, 1]).reshape([]).abs() * x
        });
        keeps_bits(&g, "a broadcast of one element");
    }
}

/// The number of steps and of results of each region that the pass alone writes, in order.
fn joined(g: &GraphBuf) -> Vec<(usize, usize)> {
    let done = pipeline::run_pipeline(g, &["join", "clean"], true).unwrap().0;
    let v = done.view();
    let maps = (0..v.nodes()).map(Node::new).filter(|&n| v.op[n.at()] == Op::MAP);
    maps.map(|n| {
        let r = MapAttrs::of(&v.attrs(n)).body;
        (v.region_nodes(r).len() - v.region_args(r).count(), v.outs_of(n).len())
    })
    .collect()
}

/// A loop whose carries go through `body`, and that stacks its other results.
fn chained(dims: &[usize], carries: usize, body: impl for<'g> Fn(&[Var<'g>]) -> [Vec<Var<'g>>; 2]) -> GraphBuf {
    let g = Builder::new("chained");
    let starts: Vec<Var<'_>> = (0..carries).map(|i| g.input(&format!("c{i}"), dims, DType::F32)).collect();
    let (last, all) = g.scan_with(times(2), &starts, &[], |c, _| {
        let [next, more] = body(c);
        (next, more)
    });
    g.finish(last.into_iter().chain(all)).unwrap()
}

/// `x` through `steps` steps, each of its own.
fn clamped(x: Var<'_>, steps: usize) -> Var<'_> {
    (1..=steps).fold(x, |y, i| y.clamp(0.0, i as f64))
}

/// A kernel call has 64 inputs and 32 results, and a region 224 steps.
#[test]
fn regions_are_cut_where_a_kernel_call_has_no_more_room() {
    let results =
        |n: usize| joined(&chained(&[4], 1, |c| [vec![c[0]], (1..=n).map(|i| c[0].clamp(0.0, i as f64)).collect()]));
    assert_eq!(results(32), [(32, 32)]);
    assert_eq!(results(2 * 32 + 1), [(32, 32); 2]);

    let inputs = |n: usize| {
        let g = Builder::new("inputs");
        let c = g.input("c", [4], DType::F32);
        let xs: Vec<Var<'_>> = (0..n).map(|i| g.input(&format!("x{i}"), [2, 4], DType::F32)).collect();
        let (last, _) = g.scan(&[c], &xs, |c, x| (vec![x.iter().fold(c[0], |y, &x| y + x)], vec![]));
        joined(&g.finish([last[0].named("y")]).unwrap())
    };
    assert_eq!(inputs(63), [(63, 1)]);
    assert_eq!(inputs(2 * 63 + 1), [(63, 1); 2]);

    let steps = |n: usize| joined(&chained(&[4], 1, |c| [vec![clamped(c[0], n)], vec![]]));
    assert_eq!(steps(224), [(224, 1)]);
    assert_eq!(steps(2 * 224 + 1), [(224, 1); 2]);
    // Equal steps on other operands count, too.
    let two = chained(&[4], 2, |c| [vec![clamped(c[0], 150), clamped(c[1], 150)], vec![]]);
    assert_eq!(joined(&two), [(224, 2), (76, 1)]);
}

/// Three regions that begin with the same 100 steps on one operand are one of 103 steps.
#[test]
fn equal_steps_of_joined_regions_are_one() {
    let first: String = (0..100).map(|i| format!("  %{} = clamp %{i} lo=0 hi={}\n", i + 1, i + 1)).collect();
    let regions: String = ["exp", "sin", "cos"]
        .map(|op| format!("region @{op}(%0: f32[4]) {{\n{first}  %101 = {op} %100\n  yield %101\n}}\n"))
        .concat();
    let text = format!(
        "{regions}region @body(%c: f32[4]) {{\n  %1 = map %c body=@exp\n  %2 = map %c body=@sin\n  %3 = map %c \
         body=@cos\n  yield %1, %2, %3\n}}\ngraph @equal {{\n  %h = input : f32[4]\n  %a, %b, %d = scan %h body=@body \
         carries=1 consts=0 length=2 reverse=false\n  return a=%a, b=%b, d=%d\n}}\n"
    );
    assert_eq!(joined(&parse(&text).unwrap()), [(103, 3)]);
}

/// Large tensors, tensors without an element, and bodies of very many nodes stay as they are.
#[test]
fn what_is_too_large_is_not_joined() {
    let of = |dims: &[usize]| joined(&chained(dims, 1, |c| [vec![c[0].sin().cos()], vec![]]));
    assert_eq!([of(&[1 << 14]), of(&[])], [[(2, 1)]; 2]);
    assert!(of(&[(1 << 14) + 1]).is_empty() && of(&[0, 3]).is_empty());
    let nodes = |n: usize| joined(&chained(&[4], 1, |c| [vec![clamped(c[0], n)], vec![]]));
    assert_eq!(nodes(1024), [(224, 1), (224, 1), (224, 1), (224, 1), (128, 1)]);
    assert!(nodes(1025).is_empty());
}

/// The number of operands with one element that the loops of the graph that runs have, and of those with more.
fn operands_of_loops(g: &GraphBuf) -> [usize; 2] {
    let run = pipeline::run_whole_pipeline(g).unwrap();
    let v = run.view();
    let loops = (0..v.nodes()).map(Node::new).filter(|n| v.ops[v.op[n.at()].0 as usize].name == "scan");
    let operands: Vec<usize> = loops.flat_map(|n| v.args_of(n)).map(|&a| v.numel(a)).collect();
    let one = operands.iter().filter(|&&n| n == 1).count();
    [one, operands.len() - one]
}

/// A constant that repeats one number is that number for the joined maps of a loop and of its gradient, but not where
/// the loop stacks it or a product reads it.
#[test]
fn constants_that_repeat_a_number_keep_their_bits() {
    for (dtype, dims) in [(DType::F32, [3, 200]), (DType::F32, [5, 5]), (DType::F64, [4, 9])] {
        let g = Builder::new("numbers");
        let (h, xs) = (g.input("h", dims, dtype), g.input("xs", [6, dims[0], dims[1]], dtype));
        let number = |name: &str, own: &[usize]| g.param(name, own, dtype, Init::Uniform(0.5)).broadcast(dims);
        let [a, b, c] = ["a", "b", "c"].map(|name| number(name, &[1]));
        let [d, e] = ["d", "e"].map(|name| number(name, &[]));
        let (last, all) = g.scan(&[h], &[xs], |h, x| {
            let y = (h[0] * a + x[0]).tanh() - b;
            let low = y.greater(c).select(c, y * 0.5) / (a.square() + 1.0);
            (vec![low + d * y.sum(..).sin() + e.transpose(&[1, 0]).sum(..)], vec![d, b - low])
        });
        let loss = (last[0].square() + (all[0] * all[1]).sum([0])).sum(..);
        let graph = g.finish([loss.named("loss")]).unwrap();
        let [one, more] = operands_of_loops(&graph);
        assert!(one >= 3 && more >= 3, "{one} numbers, {more} tensors");
        keeps_bits(&graph, "numbers");
        let step = grad(&graph, "loss", &GradOptions::default()).unwrap();
        assert!(operands_of_loops(&step)[0] > one, "{:?}", operands_of_loops(&step));
        keeps_bits(&step, "the gradient of numbers");
    }
}

/// Slices whose rows are apart are read in place; several of one value are several inputs.
#[test]
fn regions_read_slices_in_place() {
    let slices = |g: &GraphBuf| {
        let fused = pipeline::run_whole_pipeline(g).unwrap();
        let v = fused.view();
        let nodes = || (0..v.nodes()).map(Node::new);
        let maps: Vec<Region> =
            nodes().filter(|n| v.op[n.at()] == Op::MAP).map(|n| MapAttrs::of(&v.attrs(n)).body).collect();
        let regions = (0..v.regions()).map(Region::new).filter(|r| !maps.contains(r));
        regions.flat_map(|r| v.region_nodes(r)).filter(|n| v.op[n.at()] == Op::SLICE).count()
    };
    for dtype in [DType::F32, DType::F64] {
        let g = looped(&[5, 12], dtype, |c, x| {
            let [r, z, n] = [0, 4, 8].map(|at| c.narrow(1, at, 4).sigmoid() + x.narrow(1, at, 4));
            let odd = c.slice(&[0, 1], &[5, 8], &[1, 2]);
            let next = (r * z + n * odd - c.narrow(1, 3, 4)).tanh();
            next.concat(&[next * r, next + z], 1)
        });
        assert_eq!(slices(&g), 0);
        keeps_bits(&g, "slices of a carry");
        let g = looped(&[2, 3, 6], dtype, |c, x| {
            // A slice of a result of the same shape waits for it.
            let y = (c * 0.5 + x).sin();
            let part = y.slice(&[0, 1, 2], &[2, 3, 5], &[1, 1, 1]).exp() * x.slice(&[0, 0, 1], &[2, 2, 4], &[1, 1, 1]);
            (y + part.sum(..).broadcast([2, 3, 6])).tanh()
        });
        assert_eq!(slices(&g), 0);
        keeps_bits(&g, "slices of a result");
        let loss = looped(&[3, 8], dtype, |c, x| {
            let gates = (c * x).sigmoid();
            let half = gates.narrow(1, 0, 4) * c.narrow(1, 4, 4) + gates.narrow(1, 4, 4);
            half.concat(&[half * 0.5], 1)
        });
        let loss = loss.extend(|_, value| vec![value("last").sum(..).named("loss")]).unwrap();
        keeps_bits(&grad(&loss, "loss", &GradOptions::wrt(&["c", "xs"])).unwrap(), "gradients of slices");
    }
}
