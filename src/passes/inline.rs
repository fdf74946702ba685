//! Inlining: the body of a region replaces each call of it. A custom function is inlined like a call, and its
//! derivative rules are dropped.
//!
//! A body may call further regions several times: forty short regions describe 2⁴⁰ nodes. So the nodes are counted
//! before any is written. Invariant: neither counting nor writing recurses, so calls may nest to any depth.

use super::rebuild::{RebuildVisit, nodes_that_stay, rebuild_buf};
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::attrs::Kind as Attr;
use crate::nodes::ir::emit::MAX_NODES;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::custom_fn::has_derivative_rules;
use crate::nodes::{Graph, GraphBuf, Op, Var};

/// True if node `n` is a call: of a region, or of a custom function.
fn is_region_call(g: Graph<'_>, n: Node) -> bool {
    matches!(g.def_of(n).lower, Lower::Control)
}

/// Calls to write out. Of calls inside a region that is written out, those that do not count stay calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineCalls {
    /// All calls.
    All,
    /// All but custom functions with derivative rules, which a derivative must see.
    WithoutRules,
}

impl InlineCalls {
    /// True if node `n` is a call that counts.
    pub fn has(self, g: Graph<'_>, n: Node) -> bool {
        is_region_call(g, n) && (self == InlineCalls::All || !has_derivative_rules(g, n))
    }
}

/// A region that is being written in place of a call: a frame of the explicit stack.
struct Frame<'g, N> {
    region: Region,
    nodes: N,
    args: std::vec::IntoIter<Var<'g>>,
    map: Window<Value, Option<Var<'g>>>,
    /// The call in the frame before.
    call: Node,
}

/// Writes region `r` of `v.src` on `args` in place of the node, with those `calls` in it inlined too, without the nodes
/// that nothing reads. The region's yields.
pub fn write_region_in_place<'g>(
    v: &RebuildVisit<'_, 'g>,
    r: Region,
    args: &[Var<'g>],
    calls: InlineCalls,
) -> Vec<Var<'g>> {
    let (src, g) = (v.src, v.g);
    let none = g.var(Value::NONE);
    let open = |region: Region, args: Vec<Var<'g>>, call: Node| {
        let map = Window::<Value, Option<Var<'g>>>::filled(src.region_values(region), None);
        Frame { region, nodes: src.region_nodes(region), args: args.into_iter(), map, call }
    };
    let mut frames = vec![open(r, args.to_vec(), Node::NONE)];
    while let Some(f) = frames.last_mut() {
        let Some(n) = f.nodes.next() else {
            let yields: Vec<Var<'g>> = src.region_yields(f.region).iter().map(|&y| f.map[y].unwrap_or(none)).collect();
            let call = f.call;
            frames.pop();
            let Some(outer) = frames.last_mut() else { return yields };
            for (out, y) in src.outs_of(call).zip(yields) {
                g.with(|e| e.set_name(y.v, src.names[out.at()]));
                outer.map[out] = Some(y);
            }
            continue;
        };
        if src.op[n.at()] == Op::ARG {
            f.map[src.out(n)] = f.args.next();
            continue;
        }
        if !v.live[n] {
            continue;
        }
        let ops = src.args_of(n).iter().map(|&a| f.map[a].unwrap_or(none));
        if calls.has(src, n) {
            let (ops, callee) = (ops.collect(), CallAttrs::of(&src.attrs(n)).body);
            // After an error nothing more is written, so the walk stops.
            if g.error().is_none() {
                frames.push(open(callee, ops, n));
            }
            continue;
        }
        let ops: Vec<Value> = ops.map(|x| x.v).collect();
        let outs = g.with(|e| e.copy(&src, n, &ops, v.regions));
        for (o, new) in src.outs_of(n).zip(outs.iter()) {
            f.map[o] = Some(g.var(new));
        }
    }
    Vec::new()
}

/// Number of nodes of each region with its calls inlined, saturating.
fn inlined_sizes(g: Graph<'_>) -> Side<Region, u64> {
    let mut sizes = Side::<Region, u64>::filled(g.regions(), 0);
    for r in (0..g.regions()).map(Region::new) {
        let size = |n: Node| if is_region_call(g, n) { sizes[CallAttrs::of(&g.attrs(n)).body] } else { 1 };
        let own = g.region_nodes(r).filter(|&n| g.op[n.at()] != Op::ARG);
        sizes[r] = own.map(size).fold(0, u64::saturating_add);
    }
    sizes
}

/// An error if `g` has more than [`MAX_NODES`] nodes after the `picked` nodes are replaced by their regions. It names
/// the first region that is too large alone, or else the region that exceeds the limit.
pub fn fits_inlined(g: Graph<'_>, picked: impl Fn(Node) -> bool) -> Result<()> {
    if g.regions() == 1 {
        // `Emit` has counted the nodes of this graph.
        return Ok(());
    }
    let (sizes, live) = (inlined_sizes(g), nodes_that_stay(g));
    let refuse = |n: Node, r: Region, size: u64| {
        let (def, name) = (g.def_of(n).name, g.str(g.region_names[r.at()]));
        let name = if name.is_empty() { r.0.to_string() } else { name.to_string() };
        let text =
            format!("{def}: with its calls written out, region @{name} is {size} nodes; {MAX_NODES} is the limit");
        Err(Error::new(Kind::Verify, text).at(g.location(n)))
    };
    let mut total = 0u64;
    for n in (0..g.nodes()).map(Node::new).filter(|&n| live[n]) {
        let region = g.def_of(n).attrs.iter().position(|f| f.kind == Attr::Region);
        let Some(i) = region.filter(|_| picked(n) && g.def_of(n).is_inlined()) else {
            total = total.saturating_add(1);
            continue;
        };
        let called = g.attrs(n).region(i);
        total = total.saturating_add(sizes[called]);
        if total <= MAX_NODES as u64 {
            continue;
        }
        // A region that is too large alone says more than the call that reaches it.
        let large = |r: &Region| sizes[*r] > MAX_NODES as u64;
        let Some(r) = (0..=called.at()).map(Region::new).find(large) else { return refuse(n, called, sizes[called]) };
        let size = |n: &Node| if is_region_call(g, *n) { sizes[CallAttrs::of(&g.attrs(*n)).body] } else { 0 };
        return refuse(g.region_nodes(r).rev().max_by_key(size).unwrap_or(n), r, sizes[r]);
    }
    Ok(())
}

/// The nodes of the entry, of bodies of loops and of fused regions. Nodes of regions that are only called are written
/// where the calls are.
fn nodes_to_keep(g: Graph<'_>, calls: InlineCalls) -> Side<Node, bool> {
    let mut run = Side::<Region, bool>::filled(g.regions(), false);
    run[g.entry()] = true;
    for n in (0..g.nodes()).map(Node::new).filter(|&n| !calls.has(g, n)) {
        for (i, _) in g.def_of(n).attrs.iter().enumerate().filter(|(i, f)| f.kind == Attr::Region && g.attrs(n).has(*i))
        {
            run[g.attrs(n).region(i)] = true;
        }
    }
    let mut kept = Side::filled(g.nodes(), false);
    for r in (0..g.regions()).map(Region::new).filter(|&r| run[r]) {
        g.region_nodes(r).for_each(|n| kept[n] = true);
    }
    kept
}

/// Replaces `calls` by the bodies of their regions.
///
/// # Errors
/// A result of more than [`MAX_NODES`] nodes.
pub fn inlined(g: Graph<'_>, calls: InlineCalls) -> Result<GraphBuf> {
    let kept = nodes_to_keep(g, calls);
    fits_inlined(g, |n| kept[n] && calls.has(g, n))?;
    let written = rebuild_buf(g, &mut |v| {
        let call = calls.has(v.src, v.node) && kept[v.node];
        call.then(|| write_region_in_place(v, CallAttrs::of(&v.src.attrs(v.node)).body, v.args, calls))
    })?;
    // One more rebuild drops the regions without a caller.
    rebuild_buf(written.view(), &mut |_| None)
}
