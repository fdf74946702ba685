//! Loops that keep few carries: a loop with `keep_every` becomes a loop over stretches of that many iterations, whose
//! body is the loop over one stretch.
//!
//! The outer loop keeps the carries of each of its iterations and nothing else ([`Scan::keeps_carries_only`]); its
//! derivative runs a stretch again. Iterations keep their order, their slices and so their random numbers. A last
//! stretch that is shorter is an outer loop of its own, of one iteration. Invariant: results keep their bits, and so do
//! gradients: a constant's cotangents are added in the same order (see [`super::backward`]).

use crate::arena::{Node, Side, ids::Id};
use crate::error::Result;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, GraphBuf, Op, Ty, Var};
use crate::passes::rebuild::{RebuildVisit, rebuild_buf};
use std::ops::Range;

/// `g` with the loops among the `active` nodes in stretches, if they keep the carries of some iterations only.
pub fn split_into_stretches(g: Graph<'_>, active: &Side<Node, bool>) -> Result<GraphBuf> {
    rebuild_buf(g, &mut |v| {
        if !active[v.node] || !matches!(v.def.lower, Lower::Loop) {
            return None;
        }
        let scan = Scan::of(&v.src.attrs(v.node));
        let each = scan.stretch().filter(|&n| n > 1)?;
        Some(Stretches { v, scan }.write(each))
    })
}

/// A loop that is written in stretches.
struct Stretches<'r, 'x, 'g> {
    v: &'r RebuildVisit<'x, 'g>,
    scan: Scan,
}

impl<'g> Stretches<'_, '_, 'g> {
    /// Writes the loop in stretches of `each` iterations. Its results.
    fn write(&self, each: usize) -> Vec<Var<'g>> {
        let (s, args) = (&self.scan, self.v.args);
        let whole = s.length / each * each;
        let rest = (whole < s.length).then_some(whole..s.length);
        let parts: Vec<_> = std::iter::once(0..whole).chain(rest).collect();
        let xs: Vec<Var<'g>> = args[s.xs()..].iter().map(|&x| self.sliced(x, parts.len())).collect();
        let order: Vec<usize> = if s.reverse { (0..parts.len()).rev().collect() } else { (0..parts.len()).collect() };
        let mut carries = args[..s.carries].to_vec();
        let mut ys = vec![Vec::new(); parts.len()];
        for i in order {
            let part = parts[i].clone();
            let mut outs = self.part(part.clone(), each.min(part.len()), &carries, &xs);
            ys[i] = outs.split_off(s.carries);
            carries = outs;
        }
        let mut parts = ys.into_iter();
        let first = parts.next().unwrap_or_default();
        let last = parts.next().unwrap_or_default();
        let joined = |(i, y): (usize, &Var<'g>)| last.get(i).map_or(*y, |z| y.concat(&[*z], 0));
        carries.extend(first.iter().enumerate().map(joined));
        carries
    }

    /// The stacked input `x` as `parts` slices are taken of it. The barrier has the slices' cotangents joined before
    /// others are added.
    fn sliced(&self, x: Var<'g>, parts: usize) -> Var<'g> {
        match parts > 1 && x.dtype().is_differentiable() {
            true => self.v.g.emit1(Op::OPTIMIZATION_BARRIER, &[x], &[]),
            false => x,
        }
    }

    /// Runs the iterations `part` in stretches of `each`. Results are the carries after them, and the stacked results
    /// of these iterations.
    fn part(&self, part: Range<usize>, each: usize, carries: &[Var<'g>], xs: &[Var<'g>]) -> Vec<Var<'g>> {
        let (g, s, src) = (self.v.g, &self.scan, self.v.src);
        let stretches = part.len() / each;
        let stack = |x: &Var<'g>| {
            let dims = x.dims();
            let x = if part.len() == s.length { *x } else { x.narrow(0, part.start, part.len()) };
            x.reshape([&[stretches, each], dims.get(1..).unwrap_or(&[])].concat())
        };
        let consts = &self.v.args[s.carries..s.xs()];
        let xs: Vec<Var<'g>> = xs.iter().map(stack).collect();
        let slice = |x: &Var<'g>| {
            let ty = x.ty();
            g.shape(x.dims().get(1..).unwrap_or(&[])).map_or(ty, |shape| Ty { shape, ..ty })
        };
        let tys: Vec<Ty> = carries.iter().chain(consts).map(|x| x.ty()).chain(xs.iter().map(slice)).collect();
        g.with(|e| e.open_region("scan.stretch"));
        let args: Vec<Var<'g>> = tys.iter().map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
        let inner = Scan { length: each, keep_every: None, ..*s };
        let body = self.v.regions[s.body.at()];
        let outs = g.emit(Op::SCAN, &args, &inner.over(body, s.carries, s.consts).list());
        let yields: Vec<_> = outs.iter().map(|y| y.v).collect();
        let region = g.with(|e| e.close_region(&yields));
        g.with(|e| e.set_loc(src.loc[self.v.node.at()]));
        let outer = Scan { length: stretches, keep_every: Some(1), ..*s };
        let operands = [carries, consts, &xs].concat();
        let outs = Vec::from(g.emit(Op::SCAN, &operands, &outer.over(region, s.carries, s.consts).list()));
        let flat = |y: &Var<'g>| y.reshape([&[part.len()], y.dims().get(2..).unwrap_or(&[])].concat());
        let (carries, ys) = outs.split_at(s.carries.min(outs.len()));
        carries.iter().copied().chain(ys.iter().map(flat)).collect()
    }
}
