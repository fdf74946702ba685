//! Loops whose stacks are in half precision: a body rounds what it stacks, and widens the slices that it reads.

use super::HalfWriter;
use super::facts::{HalfFacts, Kept, loop_of_node};
use crate::arena::{DType, Node, Region, Value, Window, ids::Id};
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, Op, Ty, Var};
use crate::passes::rebuild::RebuildVisit;

/// The stacked results of loop `n` of the forward half that it may stack in half precision: nothing reads them in full.
/// By result; empty if there is none.
pub fn stacks_in_half(g: Graph<'_>, f: &HalfFacts, n: Node) -> Vec<bool> {
    let Some(scan) = loop_of_node(g, n) else { return Vec::new() };
    let half = |(i, v): (usize, Value)| i >= scan.carries && f.kept[v] == Kept::Half && !f.read_forward[v];
    let stacks: Vec<bool> = g.outs_of(n).enumerate().map(half).collect();
    if stacks.contains(&true) { stacks } else { Vec::new() }
}

/// The stacked inputs of loop `n` of the backward half that it may read in half precision. By operand; empty if there
/// is none.
pub fn loop_slices_in_half(g: Graph<'_>, f: &HalfFacts, n: Node) -> Vec<bool> {
    let Some(scan) = loop_of_node(g, n) else { return Vec::new() };
    let slices: Vec<bool> =
        g.args_of(n).iter().enumerate().map(|(i, &a)| i >= scan.xs() && f.kept[a] == Kept::Half).collect();
    if slices.contains(&true) { slices } else { Vec::new() }
}

/// Writes the body `r` with the arguments of `args` and the yields of `yields` in type `half`.
fn half_loop_body(v: &RebuildVisit<'_, '_>, r: Region, half: DType, args: &[bool], yields: &[bool]) -> Region {
    let (src, g) = (v.src, v.g);
    let is = |list: &[bool], i: usize| list.get(i) == Some(&true);
    let ty = |(i, a): (usize, Value)| match is(args, i) {
        true => Ty { dtype: half, ..src.ty(a) },
        false => src.ty(a),
    };
    let tys: Vec<Ty> = src.region_args(r).enumerate().map(ty).collect();
    let body = g.region(src.str(src.region_names[r.at()]), &tys, |given| {
        let mut map = Window::filled(src.region_values(r), Value::NONE);
        for (i, a) in src.region_args(r).enumerate() {
            map[a] = if is(args, i) { given[i].cast(src.dtype[a.at()]).v } else { given[i].v };
        }
        for n in src.region_nodes(r).filter(|&n| src.op[n.at()] != Op::ARG && v.live[n]) {
            g.with(|e| e.set_loc(src.loc[n.at()]));
            let ops: Vec<Value> = src.args_of(n).iter().map(|&a| map[a]).collect();
            let outs = g.with(|e| e.copy(&src, n, &ops, v.regions));
            src.outs_of(n).zip(outs.iter()).for_each(|(o, new)| map[o] = new);
        }
        let all = src.region_yields(r).iter().enumerate();
        all.map(|(i, &y)| if is(yields, i) { g.var(map[y]).cast(half) } else { g.var(map[y]) }).collect()
    });
    body.region
}

impl HalfWriter<'_> {
    /// Writes loop `v` on `args`, with these operands and results in half precision. Its results.
    pub fn half_loop<'g>(
        &self,
        v: &RebuildVisit<'_, 'g>,
        args: &[Var<'g>],
        slices: &[bool],
        stacks: &[bool],
    ) -> Vec<Var<'g>> {
        let scan = Scan::of(&v.src.attrs(v.node));
        let body = half_loop_body(v, scan.body, self.half_type, slices, stacks);
        v.g.with(|e| e.set_loc(v.src.loc[v.node.at()]));
        v.g.emit(Op::SCAN, args, &scan.over(body, scan.carries, scan.consts).list()).into()
    }
}
