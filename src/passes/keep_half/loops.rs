//! Loops whose stacks are in half precision: a body rounds what it stacks, and widens the slices that it reads.
//!
//! A carry that is stacked before and behind each iteration gets a rounded carry beside it. So both stacks are of one
//! carry, and a plan makes them windows of one buffer, as those of the carry itself would be.

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

/// The carries of `scan` that it stacks twice in half precision: before and behind each iteration.
fn carries_stacked_twice(g: Graph<'_>, scan: &Scan, stacks: &[bool]) -> Vec<usize> {
    let yields = g.region_yields(scan.body);
    let stacked = |v: Value| (scan.carries..yields.len()).any(|i| stacks.get(i) == Some(&true) && yields[i] == v);
    let twice = |&(i, arg): &(usize, Value)| arg != yields[i] && stacked(arg) && stacked(yields[i]);
    let carries = g.region_args(scan.body).enumerate().take(scan.carries).filter(twice);
    // Stacks of a loop that ends early are no windows of one another.
    carries.filter(|_| scan.exit.is_none()).map(|(i, _)| i).collect()
}

/// Writes the body of `scan` with the arguments of `args` and the yields of `yields` in type `half`, and with a rounded
/// carry beside each of `twice`, behind the carries.
fn half_loop_body(
    v: &RebuildVisit<'_, '_>,
    scan: &Scan,
    half: DType,
    [args, yields]: [&[bool]; 2],
    twice: &[usize],
) -> Region {
    let (src, g, r) = (v.src, v.g, scan.body);
    let is = |list: &[bool], i: usize| list.get(i) == Some(&true);
    let ty = |(i, a): (usize, Value)| match is(args, i) {
        true => Ty { dtype: half, ..src.ty(a) },
        false => src.ty(a),
    };
    let mut tys: Vec<Ty> = src.region_args(r).enumerate().map(ty).collect();
    let rounded = twice.iter().map(|&c| Ty { dtype: half, ..tys[c] }).collect::<Vec<_>>();
    tys.splice(scan.carries..scan.carries, rounded);
    let body = g.region(src.str(src.region_names[r.at()]), &tys, |given| {
        let mut map = Window::filled(src.region_values(r), Value::NONE);
        let beside = &given[scan.carries..scan.carries + twice.len()];
        let given: Vec<Var<'_>> = [&given[..scan.carries], &given[scan.carries + twice.len()..]].concat();
        for (i, a) in src.region_args(r).enumerate() {
            map[a] = if is(args, i) { given[i].cast(src.dtype[a.at()]).v } else { given[i].v };
        }
        for n in src.region_nodes(r).filter(|&n| src.op[n.at()] != Op::ARG && v.live[n]) {
            g.with(|e| e.set_loc(src.loc[n.at()]));
            let ops: Vec<Value> = src.args_of(n).iter().map(|&a| map[a]).collect();
            let outs = g.with(|e| e.copy(&src, n, &ops, v.regions));
            src.outs_of(n).zip(outs.iter()).for_each(|(o, new)| map[o] = new);
        }
        let start = |y: Value| twice.iter().position(|&c| src.region_args(r).nth(c) == Some(y));
        let one = |(i, &y): (usize, &Value)| match is(yields, i) {
            true => start(y).map_or_else(|| g.var(map[y]).cast(half), |k| beside[k]),
            false => g.var(map[y]),
        };
        let mut all: Vec<Var<'_>> = src.region_yields(r).iter().enumerate().map(one).collect();
        let next = twice.iter().map(|&c| all[c].cast(half)).collect::<Vec<_>>();
        all.splice(scan.carries..scan.carries, next);
        all
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
        let twice = carries_stacked_twice(v.src, &scan, stacks);
        let body = half_loop_body(v, &scan, self.half_type, [slices, stacks], &twice);
        v.g.with(|e| e.set_loc(v.src.loc[v.node.at()]));
        let (carries, rest) = args.split_at(scan.carries);
        let rounded: Vec<Var<'g>> = twice.iter().map(|&c| carries[c].cast(self.half_type)).collect();
        let attrs = scan.over(body, scan.carries + twice.len(), scan.consts);
        let mut outs: Vec<Var<'g>> = v.g.emit(Op::SCAN, &[carries, &rounded, rest].concat(), &attrs.list()).into();
        outs.drain(scan.carries..scan.carries + twice.len());
        outs
    }
}
