//! How far point-wise regions of the entry reach.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, DType, GraphBuf, Var};
use arenagrad::op::Op;
use arenagrad::tools::arena::{Node, ids::Id};
use arenagrad::tools::ops::pointwise::attrs::MapAttrs;
use arenagrad::tools::passes::pipeline::run_pipeline;

/// The number of steps and of inputs of each region that fusion makes, in order.
fn regions(g: &GraphBuf) -> Vec<(usize, usize)> {
    let done = run_pipeline(g, &["fuse", "clean"], true).unwrap().0;
    let v = done.view();
    let maps = (0..v.nodes()).map(Node::new).filter(|&n| v.op[n.at()] == Op::MAP);
    maps.map(|n| {
        let body = MapAttrs::of(&v.attrs(n)).body;
        let steps = v.region_nodes(body).filter(|&n| ![Op::ARG, Op::FULL, Op::BROADCAST].contains(&v.op[n.at()]));
        (steps.count(), v.args_of(n).len())
    })
    .collect()
}

fn inputs(g: &Builder, n: usize) -> Vec<Var<'_>> {
    (0..n).map(|i| g.input(&format!("x{i}"), [4], DType::F32)).collect()
}

/// `x` through `steps` steps, each of its own.
fn clamped(x: Var<'_>, steps: usize) -> Var<'_> {
    (1..=steps).fold(x, |y, i| y.clamp(0.0, i as f64))
}

/// The regions of what `body` makes of `n` inputs.
fn regions_of(n: usize, body: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) -> Vec<(usize, usize)> {
    let g = Builder::new("regions");
    let y = body(&inputs(&g, n));
    regions(&g.finish([y]).unwrap())
}

#[test]
fn a_region_has_at_most_24_steps() {
    let of = |steps: usize| regions_of(1, |x| clamped(x[0], steps));
    assert_eq!(of(24), [(24, 1)]);
    // One op is no region.
    assert_eq!(of(25), [(24, 1)]);
    assert_eq!(of(30), [(6, 1), (24, 1)]);
}

/// An operand that the region makes itself counts until the node that makes it has joined. Fills do not count.
#[test]
fn a_region_reads_few_operands() {
    let less = |n: usize| regions_of(n + 1, |x| x[1..].iter().fold(x[0], |y, &x| y - x));
    assert_eq!(less(10), [(10, 11)]);
    assert_eq!(less(21), [(10, 11); 2]);
    let scaled = |n: usize| regions_of(n + 1, |x| x[1..].iter().fold(x[0], |y, &x| y * 2.0 - x));
    assert_eq!(scaled(10), [(20, 11)]);
    assert_eq!(scaled(11), [(2, 2), (20, 11)]);
}

/// A sum is added up three operands at a time. What ends in another op is no sum.
#[test]
fn a_region_that_only_adds_is_short() {
    assert_eq!(regions_of(8, |x| x[1..].iter().fold(x[0], |y, &x| y + x)), [(3, 4); 2]);
    assert_eq!(regions_of(6, |x| x[1..5].iter().fold(x[0], |y, &x| y + x) * x[5]), [(5, 6)]);
}

/// A scaled value that two regions read is computed in both, unless one of them has no room for it.
#[test]
fn a_value_is_repeated_where_there_is_room() {
    let of = |n: usize, first: &dyn for<'g> Fn(Var<'g>, &[Var<'g>]) -> Var<'g>| {
        let g = Builder::new("repeated");
        let (x, s) = (g.input("x", [4], DType::F32), g.input("s", [], DType::F32));
        let scaled = x * s.broadcast([4]);
        let a = first(scaled, &inputs(&g, n));
        let b = scaled.exp().sin();
        regions(&g.finish([a, b, x.sum([0])]).unwrap())
    };
    assert_eq!(of(9, &|y, x| x.iter().fold(y, |y, &x| y - x)), [(10, 11), (3, 2)]);
    assert_eq!(of(10, &|y, x| x.iter().fold(y, |y, &x| y - x)), [(1, 2), (10, 11), (2, 1)]);
    assert_eq!(of(0, &|y, _| clamped(y, 23)), [(24, 2), (3, 2)]);
    assert_eq!(of(0, &|y, _| clamped(y, 24)), [(1, 2), (24, 1), (2, 1)]);
}
