//! Fusion: pointwise ops that feed one another become one `map` region, which one sweep of the tile interpreter runs.
//!
//! A pointwise node joins the region of its readers if all of them are in one region of the node's shape. So every
//! region has one result, and no cycle can arise. A node with readers in several regions is computed in each of them if
//! it only scales or shifts one operand that stays alive anyway. Then its result need not be kept until the last
//! reader. An example is the normalised operand of a batch norm, which the backward half reads too. Broadcasts and
//! fills cost nothing inside a region (a strided read, a constant) and are copied into every region that reads them.
//! In bodies of loops and branches so are slices, whose copies would be calls in each iteration.
//! Invariant: fused and unfused graphs have the same bits, because each step of a region rounds on its own.

use super::fusion_notes::{Fusion, Outcome};
use super::rebuild::{RebuildVisit, rebuild};
use crate::arena::{DType, Node, Region, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::Kind;
use crate::nodes::ir::opdef::Flags;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use crate::nodes::{Graph, Op, Ty, Var};
use bumpalo::Bump;

/// The most steps of a region: its registers must stay in the L1 cache.
const MAX_STEPS: usize = 24;
/// The most operands of a region.
const MAX_ARGS: usize = 12;

/// The most axes of a slice that a region reads as a part of its operand.
const MOST_AXES: usize = 3;

/// The most additions of a region that only adds. A longer sum (the gradient of a param with many uses) becomes several
/// regions, each of which adds to the sum so far in place. One region would keep all operands alive until the last.
const MAX_SUM: usize = 3;

/// The region of each node of the entry and of bodies of loops.
struct Clusters {
    /// The root of a pointwise node's region: the node that makes the region's result.
    root: Side<Node, Option<Node>>,
    /// The nodes of each root's region, last first.
    members: Side<Node, Vec<Node>>,
}

/// True if the node costs nothing inside a region.
pub(super) fn is_free_in_region(g: Graph<'_>, n: Node) -> bool {
    match g.op[n.at()] {
        Op::FULL => true,
        // A broadcast of a broadcast or of a fill would need its operand inside too. Simplification merges these first.
        Op::BROADCAST => !matches!(g.op[g.def[g.args_of(n)[0].at()].at()], Op::FULL | Op::BROADCAST),
        // A broadcast along an inner axis (each row twice, say) and the reshape that merges it are one strided read.
        Op::RESHAPE => {
            let from = g.def[g.args_of(n)[0].at()];
            g.op[from.at()] == Op::BROADCAST && is_free_in_region(g, from)
        }
        // A value that is kept in half precision (`keep_half`). Each region that reads it widens it.
        Op::CAST => {
            let half = g.args_of(n)[0];
            matches!(g.dtype[half.at()], DType::BF16 | DType::F16)
                && g.op[g.def[half.at()].at()] == Op::OPTIMIZATION_BARRIER
        }
        _ => false,
    }
}

/// True if a region reads the result of `n` as a part of its operand: a slice in the body of a loop or a branch whose
/// rows are not adjacent. (A slice of adjacent rows is a view. In the entry, a region would keep all of the operand
/// alive.)
fn is_slice_in_body(g: Graph<'_>, n: Node) -> bool {
    let in_body = g.region_nodes(g.entry()).next().is_some_and(|first| n < first);
    if g.op[n.at()] != Op::SLICE || !in_body || !matches!(g.dtype[g.out(n).at()], DType::F32 | DType::F64) {
        return false;
    }
    let (from, to) = (g.args_of(n)[0], g.dims(g.out(n)));
    let inside = matches!(g.op[g.def[from.at()].at()], Op::FULL | Op::BROADCAST);
    let rows = to.iter().position(|&d| d != 1).unwrap_or(to.len());
    let apart = to.iter().zip(g.dims(from).iter()).skip(rows + 1).any(|(to, from)| to != from);
    !inside && apart && to.len() <= MOST_AXES && to.numel() > 0
}

/// True if a region reads `n` by way of the operand of `n`.
fn is_read_in_region(g: Graph<'_>, n: Node) -> bool {
    is_free_in_region(g, n) || is_slice_in_body(g, n)
}

/// The number of operands that a region must read for the node. Fills are made inside.
fn fused_operands(g: Graph<'_>, n: Node) -> usize {
    g.args_of(n).iter().filter(|a| g.op[g.def[a.at()].at()] != Op::FULL).count()
}

/// The nodes that read each value, in order.
pub(super) fn list_readers(g: Graph<'_>) -> Side<Value, Vec<Node>> {
    let mut r = Side::filled(g.values(), Vec::new());
    for n in (0..g.nodes()).map(Node::new) {
        for &a in g.args_of(n) {
            r[a].push(n);
        }
    }
    r
}

/// The regions of fused ops: each is one sweep already.
pub(super) fn fused_regions(g: Graph<'_>) -> Side<Region, bool> {
    let mut fused = Side::filled(g.regions(), false);
    for n in (0..g.nodes()).map(Node::new).filter(|&n| g.def_of(n).flags.has(Flags::FUSED)) {
        for i in (0..g.def_of(n).attrs.len()).filter(|&i| g.def_of(n).attrs[i].kind == Kind::Region) {
            fused[g.attrs(n).region(i)] = true;
        }
    }
    fused
}

/// Assigns pointwise nodes to regions, readers before operands.
fn assign_clusters(g: Graph<'_>) -> Clusters {
    let readers = list_readers(g);
    let mut pinned = Side::filled(g.values(), false);
    for &v in g.yields.iter().chain(g.updates.iter().map(|u| &u.1)) {
        pinned[v] = true;
    }
    let mut c = Clusters { root: Side::filled(g.nodes(), None), members: Side::filled(g.nodes(), Vec::new()) };
    let mut outside = Side::<Node, usize>::filled(g.nodes(), 0);
    let fused = fused_regions(g);
    let nodes = (0..g.regions()).map(Region::new).filter(|r| !fused[*r]).flat_map(|r| g.region_nodes(r).rev());
    for n in nodes {
        if !g.def_of(n).is_pointwise() {
            continue;
        }
        let v = g.out(n);
        let mut roots = readers[v].iter().map(|&r| c.root[r]);
        let first = roots.next().flatten();
        let one = first.filter(|_| roots.all(|r| r == first) && !pinned[v]);
        // The node replaces one operand of the region by its own operands.
        let joined = one.filter(|&root| {
            let same = g.shape[g.out(root).at()] == g.shape[v.at()];
            let sum = c.members[root].len() >= MAX_SUM
                && g.op[n.at()] == Op::ADD
                && c.members[root].iter().all(|m| g.op[m.at()] == Op::ADD);
            !sum && same && c.members[root].len() < MAX_STEPS && outside[root] + fused_operands(g, n) <= MAX_ARGS
        });
        let root = joined.unwrap_or(n);
        if joined.is_none() && !pinned[v] {
            let regions = regions_to_repeat(g, n, &readers, &c);
            let fits = |r: &Node| c.members[*r].len() < MAX_STEPS && outside[*r] + 1 < MAX_ARGS;
            if !regions.is_empty() && regions.iter().all(fits) {
                for r in regions {
                    outside[r] += 1;
                    c.members[r].push(n);
                }
                continue;
            }
        }
        outside[root] = (outside[root] + fused_operands(g, n)).saturating_sub(usize::from(joined.is_some()));
        c.root[n] = Some(root);
        c.members[root].push(n);
    }
    c
}

/// The regions that should each compute `n`, which several of them read. Empty unless `n` adds, subtracts or multiplies
/// one operand and a free one ([`is_free_in_region`]), and that operand has a reader after the last reader of `n`.
fn regions_to_repeat(g: Graph<'_>, n: Node, readers: &Side<Value, Vec<Node>>, c: &Clusters) -> Vec<Node> {
    let v = g.out(n);
    let cheap = matches!(g.op[n.at()], Op::ADD | Op::SUB | Op::MUL);
    let mut full = g.args_of(n).iter().filter(|a| !is_free_in_region(g, g.def[a.at()]));
    let (Some(&a), None, true) = (full.next(), full.next(), cheap) else { return Vec::new() };
    let last = readers[v].iter().max();
    if readers[a].iter().filter(|&&r| r != n).max() < last {
        return Vec::new();
    }
    let mut regions = Vec::new();
    for &r in &readers[v] {
        match c.root[r] {
            Some(root) if g.shape[g.out(root).at()] == g.shape[v.at()] => regions.push(root),
            _ => return Vec::new(),
        }
    }
    regions.sort_unstable();
    regions.dedup();
    regions
}

/// Fuses the pointwise nodes of `g`. The graph, and a report of each region.
pub fn fuse<'b>(g: Graph<'_>, bump: &'b Bump) -> Result<(Graph<'b>, Vec<Fusion>)> {
    let c = assign_clusters(g);
    let mut made = Vec::new();
    let fused = rebuild(g, bump, &mut |v| {
        let members = &c.members[v.node];
        let worth = |n: &Node| g.args_of(*n).iter().any(|&a| is_read_in_region(g, g.def[a.at()]));
        if !v.def.is_pointwise() || members.is_empty() || (members.len() == 1 && !worth(&members[0])) {
            return None;
        }
        let outcome = Outcome::Fired { saved: members.len() - 1 };
        made.push(Fusion { rule: "map-region", op: v.def.name, location: g.location(v.node), outcome });
        Some(write_map_node(v, members))
    })?;
    Ok((fused, made))
}

/// Writes the `map` node of the region with nodes `members` (last first) and root `v`.
///
/// The members were also copied one by one before the root was reached. Nothing reads these copies, and the next
/// rebuild drops them.
fn write_map_node<'g>(v: &RebuildVisit<'_, 'g>, members: &[Node]) -> Vec<Var<'g>> {
    let (src, g) = (v.src, v.g);
    let inside = |n: Node| members.contains(&n);
    let mut inputs: Vec<Value> = Vec::new();
    let note = |x: Value, inputs: &mut Vec<Value>| {
        if !inputs.contains(&x) {
            inputs.push(x);
        }
    };
    for &n in members.iter().rev() {
        for &a in src.args_of(n) {
            let d = src.def[a.at()];
            match src.op[d.at()] {
                _ if inside(d) => {}
                Op::FULL => {}
                Op::BROADCAST | Op::CAST | Op::SLICE if is_read_in_region(src, d) => {
                    note(src.args_of(d)[0], &mut inputs);
                }
                Op::RESHAPE if is_free_in_region(src, d) => {
                    note(src.args_of(src.def[src.args_of(d)[0].at()])[0], &mut inputs)
                }
                _ => note(a, &mut inputs),
            }
        }
    }
    let mapped: Vec<Var<'g>> = inputs.iter().map(|&i| v.map[i]).collect();
    let tys: Vec<Ty> = mapped.iter().map(|x| x.ty()).collect();
    let body = g.region("map", &tys, |args| {
        let mut local: Vec<(Value, Value)> = inputs.iter().zip(args).map(|(&i, a)| (i, a.v)).collect();
        for &n in members.iter().rev() {
            let ops: Vec<Value> = src.args_of(n).iter().map(|&a| fused_operand(v, a, &mut local)).collect();
            let out = g.with(|e| e.copy(&src, n, &ops, &[])).at(0);
            local.push((src.out(n), out));
        }
        vec![g.var(find_fused(&local, src.out(v.node)).unwrap_or(Value::NONE))]
    });
    g.emit(Op::MAP, &mapped, &MapAttrs { body: body.region }.list()).into()
}

/// The value in place of `a` inside the region. Regions are small, so a linear search is enough.
fn find_fused(local: &[(Value, Value)], a: Value) -> Option<Value> {
    local.iter().find(|l| l.0 == a).map(|l| l.1)
}

/// Operand `a` inside the region: a known value, or a broadcast, a slice, a reshape or a fill that is copied in.
fn fused_operand(v: &RebuildVisit<'_, '_>, a: Value, local: &mut Vec<(Value, Value)>) -> Value {
    if let Some(x) = find_fused(local, a) {
        return x;
    }
    let d = v.src.def[a.at()];
    let ops: Vec<Value> = v.src.args_of(d).iter().map(|&x| fused_operand(v, x, local)).collect();
    let x = v.g.with(|e| e.copy(&v.src, d, &ops, &[])).at(0);
    local.push((a, x));
    x
}

impl FusionPolicy {
    /// The policy for derivatives.
    pub fn for_autodiff() -> FusionPolicy {
        FusionPolicy::Fusable
    }
}

/// Which ops replace blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusionPolicy {
    /// Fused ops, for programs that run without further transforms.
    Direct,
    /// Primitive ops, for derivatives and for patterns that fuse across blocks.
    Fusable,
}
