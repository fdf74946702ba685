//! Batches of losses, grouped products and optimiser steps are one op for all members, where the operands that differ
//! allow it. The conformance suite asks for the numbers, which a loop over the members has too.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, CrossEntropy, DType, GraphBuf, Var, Vmap, one_by_one_ops};
use arenagrad::optim::{AdamOptions, SgdOptions};

fn graph(f: impl for<'g> FnOnce(&'g Builder) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("one");
    let y = f(&g).named("y");
    g.finish([y]).unwrap()
}

/// In a batch of three whose leaves `own` differ, `op` is there once for each of `together`; for each of `apart` it
/// runs for single members.
fn check(op: &'static str, graph: &GraphBuf, together: &[&[&str]], apart: &[&[&str]]) {
    for (own, at_once) in together.iter().map(|own| (own, true)).chain(apart.iter().map(|own| (own, false))) {
        let map = own.iter().fold(Vmap::new(3), |map, leaf| map.leaf(leaf, 0));
        let all = graph.vmap(&map).unwrap();
        let alone: Vec<&str> = one_by_one_ops(&all).iter().map(|o| o.op).collect();
        assert_eq!(alone, if at_once { vec![] } else { vec![op] }, "{op}, {own:?}");
        assert!(!at_once || all.to_string().matches(&format!("= {op} ")).count() == 1, "{op}, {own:?}: {all}");
    }
}

fn floats<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, DType::F64)
}

#[test]
fn cross_entropies_of_members_are_one() {
    let loss = graph(|g| {
        let (x, y) = (floats(g, "x", &[4, 5]), g.input("y", [4], DType::I32));
        x.cross_entropy_with(y, CrossEntropy::per_row())
    });
    check("softmax_cross_entropy", &loss, &[&["x"], &["y"], &["x", "y"]], &[]);
}

/// Members with matrices of their own have groups of their own. Sizes of groups are those of one member.
#[cfg(feature = "gguf")]
#[test]
fn grouped_products_of_members_are_one() {
    for tw in [false, true] {
        let product = graph(|g| {
            let w = floats(g, "w", if tw { &[2, 5, 3] } else { &[2, 3, 5] });
            floats(g, "x", &[4, 3]).grouped_matmul_t(w, g.input("e", [4], DType::I32), tw)
        });
        check("grouped_matmul", &product, &[&["x"], &["w"], &["e"], &["x", "w", "e"]], &[]);
    }
    let sorted = graph(|g| {
        let sizes = g.input("sizes", [2], DType::I32);
        floats(g, "x", &[4, 3]).sorted_grouped_matmul(floats(g, "w", &[2, 3, 5]), sizes, false)
    });
    check("grouped_matmul", &sorted, &[], &[&["x"], &["w", "sizes"]]);
    let outer = graph(|g| {
        let (x, b) = (floats(g, "x", &[4, 3]), floats(g, "b", &[4, 5]));
        x.grouped_outer(b, g.input("e", [4], DType::I64), 2)
    });
    check("grouped_outer", &outer, &[&["x"], &["b"], &["e"], &["x", "b", "e"]], &[]);
}

/// Params of members are one larger param, if the members have one rate and one step number.
#[test]
fn optimiser_steps_of_members_are_one() {
    let sgd = graph(|g| {
        let [p, d] = ["p", "g"].map(|name| floats(g, name, &[2, 3]));
        p.sgd_step(d, floats(g, "lr", &[]), 0.1)
    });
    check("sgd", &sgd, &[&["p"], &["g"], &["p", "g"]], &[&["lr"], &["p", "g", "lr"]]);
    let momentum = graph(|g| {
        let [p, d, b] = ["p", "g", "b"].map(|name| floats(g, name, &[2, 3]));
        let (lr, t) = (floats(g, "lr", &[]), g.input("t", [], DType::I64));
        let [p, b] = p.sgd_momentum_step(d, b, lr, t, SgdOptions::default().momentum(0.9));
        p + b
    });
    check("sgd_momentum", &momentum, &[&["b"], &["p", "g", "b"]], &[&["lr"], &["t"]]);
    let adam = graph(|g| {
        let [p, d, m, v] = ["p", "g", "m", "v"].map(|name| floats(g, name, &[2, 3]));
        let (lr, t) = (floats(g, "lr", &[]), g.input("t", [], DType::I64));
        let [p, m, v] = p.adam_step(d, [m, v], lr, t, AdamOptions::default());
        p + m + v
    });
    check("adam", &adam, &[&["v"], &["p", "g", "m", "v"]], &[&["lr"], &["p", "t"]]);
}
