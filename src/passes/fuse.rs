//! Fusion: pointwise ops that feed one another become one `map` region, which one sweep of the tile interpreter runs.
//!
//! A pointwise node joins the region of its readers if all of them are in one region of the node's shape. So every
//! region has one result, and no cycle can arise. A node with readers in several regions is computed in each of them if
//! it only scales or shifts one operand that stays alive anyway. Then its result need not be kept until the last
//! reader. An example is the normalised operand of a batch norm, which the backward half reads too. Broadcasts and
//! fills cost nothing inside a region (a strided read, a constant) and are copied into every region that reads them.
//! In bodies of loops and branches so are slices, whose copies would be calls in each iteration.
//! A sum, mean, maximum or minimum of the result of a region that has no other reader ends the region: what it reduces
//! is never stored. So that this holds for many terms that a gradient reads, too, such as the differences of all pairs
//! of two large sets of points, regions recompute them from the broadcasts that they are made of.
//! Invariant: fused and unfused graphs have the same bits, because each step of a region rounds on its own.

use super::fusion_notes::{Fusion, Outcome};
use super::rebuild::{RebuildVisit, rebuild};
use crate::arena::{DType, Node, Region, Shape, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::attrs::Kind;
use crate::nodes::ir::opdef::Flags;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use crate::nodes::ops::pointwise::map::ENDS;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::ops::reduce::lower::reduces_terms;
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

/// The most regions that recompute a value from broadcasts.
const MAX_REPEATS: usize = 4;
/// The most nodes that compute such a value.
const MAX_REPEATED: usize = 4;
/// The least elements of such a value. Fewer are read in less time, as caches hold most of them: a step with 10⁴ to 10⁶
/// of them takes 10 to 40 % longer if they are recomputed.
const LEAST_REPEATED: usize = 1 << 21;

/// The regions of each node of the entry and of bodies of loops. A region is known by its root: the node that makes its
/// result.
struct Clusters {
    /// The regions that compute a node, in order: one, or several if each of them computes it. Empty for nodes of no
    /// region.
    of: Side<Node, Vec<Node>>,
    /// The nodes of each root's region, last first.
    members: Side<Node, Vec<Node>>,
    /// How many operands each root's region has.
    outside: Side<Node, usize>,
}

impl Clusters {
    /// Whether region `root` can compute `n`, of which it is a reader.
    fn fits(&self, g: Graph<'_>, root: Node, n: Node) -> bool {
        let sum = self.members[root].len() >= MAX_SUM
            && g.op[n.at()] == Op::ADD
            && self.members[root].iter().all(|m| g.op[m.at()] == Op::ADD);
        !sum && self.members[root].len() < MAX_STEPS && self.outside[root] + fused_operands(g, n) <= MAX_ARGS
    }

    /// Adds `n`, which region `root` reads, to the region: its operands take its place.
    fn add(&mut self, g: Graph<'_>, root: Node, n: Node) {
        self.outside[root] = (self.outside[root] + fused_operands(g, n)).saturating_sub(1);
        self.members[root].push(n);
    }
}

/// Whether `n` reduces an operand that a region may compute part by part.
pub(super) fn is_reduction(g: Graph<'_>, n: Node) -> bool {
    if !ENDS.contains(&g.op[n.at()]) {
        return false;
    }
    let x = g.args_of(n)[0];
    let axes = to_size_attrs(&ReduceAttrs::of(&g.attrs(n)).axes);
    reduces_terms(g.op[n.at()], g.dtype[x.at()], &g.dims(x), &axes)
}

/// The shape in which the region of `root` computes.
fn region_shape(g: Graph<'_>, root: Node) -> Shape {
    let v = if g.def_of(root).is_pointwise() { g.out(root) } else { g.args_of(root)[0] };
    g.shape[v.at()]
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

/// What may end a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Pointwise ops alone.
    Maps,
    /// Reductions, too.
    Reductions,
}

/// Assigns pointwise nodes to regions, readers before operands.
fn assign_clusters(g: Graph<'_>, ends: Ends) -> Clusters {
    let readers = list_readers(g);
    let mut pinned = Side::filled(g.values(), false);
    for &v in g.yields.iter().chain(g.updates.iter().map(|u| &u.1)) {
        pinned[v] = true;
    }
    let mut c = Clusters {
        of: Side::filled(g.nodes(), Vec::new()),
        members: Side::filled(g.nodes(), Vec::new()),
        outside: Side::filled(g.nodes(), 0),
    };
    let fused = fused_regions(g);
    let nodes = (0..g.regions()).map(Region::new).filter(|r| !fused[*r]).flat_map(|r| g.region_nodes(r).rev());
    for n in nodes {
        let pointwise = g.def_of(n).is_pointwise();
        if !pointwise && (ends == Ends::Maps || !is_reduction(g, n)) {
            continue;
        }
        let v = g.out(n);
        let regions = if pointwise && !pinned[v] { regions_of_readers(g, &readers[v], v, &c) } else { Vec::new() };
        let joins = match regions.as_slice() {
            [] => false,
            &[root] => c.fits(g, root, n),
            several => several.iter().all(|&r| c.fits(g, r, n)) && is_repeated(g, n, &readers, several),
        };
        if joins {
            regions.iter().for_each(|&root| c.add(g, root, n));
            c.of[n] = regions;
        } else {
            c.outside[n] = fused_operands(g, n);
            c.members[n].push(n);
            c.of[n].push(n);
        }
    }
    c
}

/// The regions that read `v`, if they and nothing else do, and all of them have its shape.
fn regions_of_readers(g: Graph<'_>, readers: &[Node], v: Value, c: &Clusters) -> Vec<Node> {
    let mut regions = Vec::new();
    for &r in readers {
        if c.of[r].is_empty() || c.of[r].iter().any(|&root| region_shape(g, root) != g.shape[v.at()]) {
            return Vec::new();
        }
        regions.extend_from_slice(&c.of[r]);
    }
    regions.sort_unstable();
    regions.dedup();
    regions
}

/// Whether each of several regions should compute `n`: it adds, subtracts or multiplies, and what it reads is there
/// anyway. That is one operand that has a reader after the last reader of `n`, beside a free one
/// ([`is_free_in_region`]). Or, if one of the regions is a reduction, `n` is large and made of broadcasts.
fn is_repeated(g: Graph<'_>, n: Node, readers: &Side<Value, Vec<Node>>, regions: &[Node]) -> bool {
    let reduced = regions.iter().any(|&r| !g.def_of(r).is_pointwise());
    if reduced && regions.len() <= MAX_REPEATS && is_recomputed(g, n) {
        return true;
    }
    let scales = matches!(g.op[n.at()], Op::ADD | Op::SUB | Op::MUL);
    let mut full = g.args_of(n).iter().filter(|a| !is_free_in_region(g, g.def[a.at()]));
    let (Some(&a), None, true) = (full.next(), full.next(), scales) else { return false };
    let last = readers[g.out(n)].iter().max();
    readers[a].iter().filter(|&&r| r != n).max() >= last
}

/// Whether regions that end in reductions recompute `n`: it has many elements, and few cheap nodes compute it from
/// broadcasts of values that together have at most half as many.
pub(super) fn is_recomputed(g: Graph<'_>, n: Node) -> bool {
    let elements = g.numel(g.out(n));
    if elements < LEAST_REPEATED {
        return false;
    }
    let (mut todo, mut seen, mut nodes, mut read) = (vec![n], Vec::new(), 0, 0);
    while let Some(mut n) = todo.pop() {
        if seen.contains(&n) {
            continue;
        }
        seen.push(n);
        if is_free_in_region(g, n) && g.op[n.at()] != Op::CAST {
            if g.op[n.at()] == Op::RESHAPE {
                // Of a broadcast, whose operand is what is read.
                n = g.def[g.args_of(n)[0].at()];
            }
            read += g.args_of(n).iter().map(|a| g.numel(*a)).sum::<usize>();
            continue;
        }
        nodes += 1;
        let cheap = matches!(g.op[n.at()], Op::ADD | Op::SUB | Op::MUL | Op::NEG | Op::ABS | Op::SIGN);
        if !cheap || nodes > MAX_REPEATED {
            return false;
        }
        todo.extend(g.args_of(n).iter().map(|a| g.def[a.at()]));
    }
    nodes > 0 && read <= elements / 2
}

/// Fuses the pointwise nodes of `g`. The graph, and a report of each region.
pub fn fuse<'b>(g: Graph<'_>, ends: Ends, bump: &'b Bump) -> Result<(Graph<'b>, Vec<Fusion>)> {
    let c = assign_clusters(g, ends);
    let mut made = Vec::new();
    let fused = rebuild(g, bump, &mut |v| {
        let members = &c.members[v.node];
        let worth = |n: &Node| g.args_of(*n).iter().any(|&a| is_read_in_region(g, g.def[a.at()]));
        let alone = members.len() == 1 && (!v.def.is_pointwise() || !worth(&members[0]));
        if members.is_empty() || alone {
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
