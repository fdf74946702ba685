//! Rematerialisation: the backward half computes values of the forward half again instead of keeping them.
//!
//! [`facts`] finds the forward-backward boundary (the node that makes the loss), and what each value costs to keep and
//! to compute again. A [`Choice`] says which forward values are kept for backward readers. [`list_choices`] lists a
//! few, from "keep all" to "keep the boundaries of blocks"; [`apply_choice`] writes the graph of one of them. Copies
//! read kept values through an `optimization_barrier`, so that no later pass merges a copy with its original. Each copy
//! stands right before the first backward node that needs it. Results do not change: ops are pure, and a random number
//! follows from the key, the stream and the position of the element.
//!
//! Runs between folding and fusion: copies of pointwise ops then fuse with their readers.

mod blocks;
mod cut;
mod facts;
mod loops;
#[cfg(test)]
mod tests;

pub use facts::{RematFacts, remat_facts};

use super::rebuild::{RebuildVisit, rebuild_buf};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::{Graph, GraphBuf, Op, Var};

/// The forward values that are kept for backward readers. Other forward values that the backward half needs are
/// computed again.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which values are computed again, in words.
    pub name: String,
    /// Floating-point operations that run twice.
    pub flops: u64,
    /// Nodes that run twice.
    pub nodes: usize,
    /// The values that are kept. Those of [`RematFacts::free`] are always available.
    pub kept: Side<Value, bool>,
}

/// A graph some loops of which run in stretches.
pub struct RematGraph {
    /// The graph.
    pub graph: GraphBuf,
    /// Its facts.
    pub facts: RematFacts,
    /// Which loops run in stretches, in words; empty: none.
    name: String,
    /// Number of loops that run in stretches, at least in part.
    loops: usize,
    /// Floating-point operations of the loops that run twice.
    flops: u64,
}

/// `g`, and `g` with shares of its loops in stretches: those first that save most bytes for each repeated operation.
/// `tidy` is applied to each graph that is written.
pub fn graphs_with_stretches(g: GraphBuf, tidy: impl Fn(Graph<'_>) -> Result<GraphBuf>) -> Result<Vec<RematGraph>> {
    let facts = remat_facts(g.view());
    let mut groups = loops::remat_loop_groups(g.view(), &facts);
    let count = groups.len();
    let mut list = Vec::new();
    for share in 1..=loops::LOOP_PARTS {
        let mut left = share * count;
        for group in &mut groups {
            group.stretched = left.min(loops::LOOP_PARTS);
            left -= group.stretched;
        }
        if groups.iter().all(|group| group.stretched == 0) {
            break;
        }
        let graph = tidy(loops::run_in_stretches(g.view(), &facts, &groups)?.view())?;
        let flops = groups.iter().map(loops::RematLoopGroup::flops).sum();
        let name =
            format!("{} % of {count} loop{}", 100 * share / loops::LOOP_PARTS, if count == 1 { "" } else { "s" });
        let loops = groups.iter().filter(|group| group.stretched > 0).count();
        list.push(RematGraph { facts: remat_facts(graph.view()), graph, name, loops, flops });
    }
    list.insert(0, RematGraph { graph: g, facts, name: String::new(), loops: 0, flops: 0 });
    Ok(list)
}

/// The choices worth trying on each of `graphs`, with the graph's place in the list: those with fewest repeated
/// operations first; the first repeats none. The list depends on the graphs alone, so a larger budget never picks a
/// choice that repeats more.
pub fn list_graph_choices(graphs: &[RematGraph]) -> Vec<(usize, Choice)> {
    let mut list = Vec::new();
    for (i, g) in graphs.iter().enumerate() {
        for mut choice in list_choices(g.graph.view(), &g.facts) {
            if g.loops > 0 {
                let more = if choice.nodes > 0 { format!(", {}", choice.name) } else { String::new() };
                choice.name = format!("{}{more}", g.name);
            }
            choice.flops = choice.flops.saturating_add(g.flops);
            choice.nodes += g.loops;
            list.push((i, choice));
        }
    }
    list.sort_by_key(|c| c.1.flops);
    list
}

/// The choices worth trying on `g`, those with fewest repeated operations first; the first repeats none.
pub fn list_choices(g: Graph<'_>, f: &RematFacts) -> Vec<Choice> {
    let mut list = vec![Choice { name: "nothing".into(), flops: 0, nodes: 0, kept: Side::filled(g.values(), true) }];
    let mut add = |name: String, recomputable: &dyn Fn(Node, Value) -> bool| {
        let kept = cut::least_cut(g, f, recomputable);
        let twice = find_repeated_nodes(g, f, &kept);
        let nodes = twice.iter().filter(|&&t| t).count();
        let flops = g.region_nodes(g.entry()).filter(|n| twice[n.at()]).map(|n| f.flops[n]).sum();
        if !list.iter().any(|c| c.kept.iter().eq(kept.iter())) {
            list.push(Choice { name, flops, nodes, kept });
        }
    };
    add("point-wise ops".into(), &|n, _| f.class[n] <= facts::Class::Pointwise);
    add("cheap ops".into(), &|n, _| f.class[n] <= facts::Class::Cheap);
    for b in blocks::find_divisions(g, f) {
        add(b.name(), &|n, v| b.recomputable(f, n, v));
    }
    list.sort_by_key(|c| c.flops);
    list
}

/// The forward nodes that run twice: backward nodes need their values, and the values are not kept.
fn find_repeated_nodes(g: Graph<'_>, f: &RematFacts, kept: &Side<Value, bool>) -> Vec<bool> {
    let mut twice = vec![false; g.nodes()];
    let gone = |v: Value| f.is_forward(g.def[v.at()]) && !f.free[v] && !kept[v];
    for n in g.region_nodes(g.entry()).rev() {
        if f.is_forward(n) && !twice[n.at()] {
            continue;
        }
        for &a in g.args_of(n).iter().filter(|&&a| gone(a)) {
            twice[g.def[a.at()].at()] = true;
        }
    }
    twice
}

/// `g` with the values that `choice` does not keep computed again before their backward readers.
pub fn apply_choice(g: Graph<'_>, f: &RematFacts, choice: &Choice) -> Result<GraphBuf> {
    let mut copies = RematCopies {
        f,
        kept: &choice.kept,
        made: vec![false; g.nodes()],
        copy: vec![None; g.values()],
        barrier: vec![None; g.values()],
    };
    rebuild_buf(g, &mut |v| copies.backward_node(v))
}

/// The copies made so far.
struct RematCopies<'r> {
    f: &'r RematFacts,
    kept: &'r Side<Value, bool>,
    /// Nodes that have a copy.
    made: Vec<bool>,
    /// Value of the source → its copy.
    copy: Vec<Option<Value>>,
    /// Value of the source → the barrier through which copies read it.
    barrier: Vec<Option<Value>>,
}

impl RematCopies<'_> {
    /// True if the backward half must compute `v` again.
    fn gone(&self, g: &Graph<'_>, v: Value) -> bool {
        self.f.is_forward(g.def[v.at()]) && !self.f.free[v] && !self.kept[v]
    }

    /// Rewrites a backward node so that it reads copies of the values that are not kept.
    fn backward_node<'g>(&mut self, v: &RebuildVisit<'_, 'g>) -> Option<Vec<Var<'g>>> {
        let old = v.src.args_of(v.node);
        if self.f.is_forward(v.node) || !old.iter().any(|&a| self.gone(&v.src, a)) {
            return None;
        }
        self.make(v, old);
        let args: Vec<Value> = old
            .iter()
            .zip(v.args)
            .map(|(&a, new)| if self.gone(&v.src, a) { self.copy[a.at()].unwrap_or(new.v) } else { new.v })
            .collect();
        let outs: Vec<Value> = v.g.with(|e| {
            e.set_loc(v.src.loc[v.node.at()]);
            e.copy(&v.src, v.node, &args, v.regions).iter().collect()
        });
        Some(outs.into_iter().map(|o| v.g.var(o)).collect())
    }

    /// Writes the copies of `wanted`, and of the values that these read, in the order of their originals.
    fn make(&mut self, v: &RebuildVisit<'_, '_>, wanted: &[Value]) {
        let src = v.src;
        let mut open: Vec<Value> = wanted.to_vec();
        let mut nodes: Vec<Node> = Vec::new();
        while let Some(a) = open.pop() {
            let n = src.def[a.at()];
            if self.gone(&src, a) && !self.made[n.at()] {
                self.made[n.at()] = true;
                nodes.push(n);
                open.extend_from_slice(src.args_of(n));
            }
        }
        nodes.sort_unstable();
        for n in nodes {
            let args: Vec<Value> = src.args_of(n).iter().map(|&a| self.operand(v, a)).collect();
            let outs: Vec<Value> = v.g.with(|e| {
                e.set_loc(src.loc[n.at()]);
                e.copy(&src, n, &args, v.regions).iter().collect()
            });
            for (o, new) in src.outs_of(n).zip(outs) {
                self.copy[o.at()] = Some(new);
            }
        }
    }

    /// The operand of a copy in place of `a`.
    fn operand(&mut self, v: &RebuildVisit<'_, '_>, a: Value) -> Value {
        let original = v.map[a];
        if let Some(copy) = self.copy[a.at()].filter(|_| self.gone(&v.src, a)) {
            return copy;
        }
        if self.f.constant[a] {
            return original.v;
        }
        *self.barrier[a.at()].get_or_insert_with(|| v.g.emit1(Op::OPTIMIZATION_BARRIER, &[original], &[]).v)
    }
}
