//! Loops that keep few carries: a loop with `keep_every` becomes a loop in stretches before it is differentiated.
//!
//! The outer loop keeps the carries of each of its iterations and nothing else ([`Scan::keeps_carries_only`]), so its
//! derivative runs a stretch again. A loop that ends early becomes a loop in stretches, too. Invariant: gradients have
//! the bits of a loop that keeps the carries of each iteration, because the cotangents of a constant are added in the
//! same order (see [`super::backward`]).

use crate::arena::{Node, Region, Side, ids::Id};
use crate::error::Result;
use crate::kernels::abi::DEPTH;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::ops::control::{index_check_name, loop_method};
use crate::nodes::{DType, Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use crate::passes::stretches::{StretchYields, Stretches, stretch_levels_above, stretch_levels_inside};

/// `g` with the loops among the `active` nodes in stretches, if they keep the carries of some iterations only. Loops
/// that would stand too deep in one another, and those whose body reads the number of iterations that ends them, keep
/// the carries of each iteration instead.
pub(super) fn write_loops_in_stretches(g: Graph<'_>, active: &Side<Node, bool>) -> Result<GraphBuf> {
    let stretch = |n: Node| match active[n] && matches!(g.def_of(n).lower, Lower::Loop) {
        true => Scan::of(&g.attrs(n)).stretch().filter(|&each| each > 1),
        false => None,
    };
    let levels = |n: Node| if stretch(n).is_some() { 2 } else { 1 };
    let (above, inside) = (stretch_levels_above(g, levels), stretch_levels_inside(g, levels));
    let mut fits = Side::filled(g.nodes(), true);
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r).filter(|&n| stretch(n).is_some()) {
            let scan = Scan::of(&g.attrs(n));
            fits[n] = above[r] + 2 + inside[scan.body] <= DEPTH && !body_reads_count(g, &scan);
        }
    }
    rebuild_buf(g, &mut |v| {
        let each = stretch(v.node)?;
        let scan = Scan::of(&v.src.attrs(v.node));
        Some(if fits[v.node] { keep_every(v, &scan, each) } else { write_in_stretches(v, &scan) })
    })
}

/// True if the body of a loop that counts its iterations reads their number: a stretch has another one.
fn body_reads_count(g: Graph<'_>, scan: &Scan) -> bool {
    let Some(n) = g.region_args(scan.body).nth(scan.carries).filter(|_| scan.exit == Some(Exit::Count)) else {
        return false;
    };
    g.region_yields(scan.body).contains(&n) || g.region_nodes(scan.body).any(|node| g.args_of(node).contains(&n))
}

/// Writes the loop `v` so that it keeps the carries of each iteration. Its results.
fn write_in_stretches<'g>(v: &RebuildVisit<'_, 'g>, scan: &Scan) -> Vec<Var<'g>> {
    let each = Scan { keep_every: Some(1), ..*scan };
    v.g.emit(Op::SCAN, v.args, &each.over(v.regions[scan.body.at()], scan.carries, scan.consts).list()).into()
}

/// Writes the loop `v` in stretches of `each` iterations. Its results.
fn keep_every<'g>(v: &RebuildVisit<'_, 'g>, scan: &Scan, each: usize) -> Vec<Var<'g>> {
    let (g, k) = (v.g, scan.carries);
    // The barrier has the cotangents of two slices joined before others are added.
    let sliced = |x: &Var<'g>| match !scan.length.is_multiple_of(each) && x.dtype().is_differentiable() {
        true => g.emit1(Op::OPTIMIZATION_BARRIER, &[*x], &[]),
        false => *x,
    };
    let (carries, rest) = v.args.split_at(k);
    let (consts, xs) = rest.split_at(scan.consts);
    let mut consts = consts.to_vec();
    if let Some(n) = consts.first_mut().filter(|_| scan.exit == Some(Exit::Count)) {
        // The gather checks the number of iterations.
        let name = index_check_name(loop_method(v.src, scan.body), v.node.at());
        *n = g.iota(0, [scan.length.saturating_add(1)], DType::I64).gather(*n, 0).named(&name);
    }
    let stretches = Stretches {
        g,
        loc: v.src.loc[v.node.at()],
        method: loop_method(v.src, scan.body),
        scan: *scan,
        each,
        plain: 0..0,
        plain_alone: false,
        carries: carries.to_vec(),
        consts,
        xs: xs.iter().map(sliced).collect(),
        rows: Vec::new(),
    };
    let body = v.regions[scan.body.at()];
    let results = stretches.write(|a| {
        let bound = (scan.exit == Some(Exit::Flag)).then_some(0);
        let inner = Scan { length: a.length, keep_every: None, bound, ..*scan };
        let outs = g.emit(Op::SCAN, &[a.carries, a.consts, a.xs].concat(), &inner.over(body, k, scan.consts).list());
        let mut carries = Vec::from(outs);
        let ys = carries.split_off(k.min(carries.len()));
        StretchYields { carries, ys, row: Vec::new() }
    });
    [results.carries, results.ys].concat()
}
