//! Loops that keep few carries: a loop with `keep_every` becomes a loop in stretches before it is differentiated.
//!
//! The outer loop keeps the carries of each of its iterations and nothing else ([`Scan::keeps_carries_only`]), so its
//! derivative runs a stretch again. Invariant: gradients have the bits of a loop that keeps all, as a constant's
//! cotangents are added in the same order (see [`super::backward`]).

use crate::arena::{Node, Side, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, Op, Var};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use crate::passes::stretches::{StretchYields, Stretches};

/// `g` with the loops among the `active` nodes in stretches, if they keep the carries of some iterations only.
pub(super) fn write_keep_every(g: Graph<'_>, active: &Side<Node, bool>) -> Result<GraphBuf> {
    rebuild_buf(g, &mut |v| {
        if !active[v.node] || !matches!(v.def.lower, Lower::Loop) {
            return None;
        }
        let scan = Scan::of(&v.src.attrs(v.node));
        let each = scan.stretch().filter(|&n| n > 1)?;
        Some(keep_every(v, &scan, each))
    })
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
    let stretches = Stretches {
        g,
        loc: v.src.loc[v.node.at()],
        scan: *scan,
        each,
        plain: 0..0,
        carries: carries.to_vec(),
        consts: consts.to_vec(),
        xs: xs.iter().map(sliced).collect(),
        rows: Vec::new(),
    };
    let body = v.regions[scan.body.at()];
    let results = stretches.write(|a| {
        let inner = Scan { length: a.length, keep_every: None, ..*scan };
        let outs = g.emit(Op::SCAN, &[a.carries, a.consts, a.xs].concat(), &inner.over(body, k, scan.consts).list());
        let mut carries = Vec::from(outs);
        let ys = carries.split_off(k.min(carries.len()));
        StretchYields { carries, ys, row: Vec::new() }
    });
    [results.carries, results.ys].concat()
}
