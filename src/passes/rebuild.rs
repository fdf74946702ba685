//! The loop that most passes share: it reads a graph in order and writes another.
//!
//! Nodes without a reader are left out (one reverse scan), equal nodes merge (the builder hash-conses), and a rule may
//! replace the results of each node. Invariant: leaves of the entry always stay; they are the program's signature.

use super::copier::Copier;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::Result;
use crate::nodes::ir::site::Site;
use crate::nodes::ir::verify;
use crate::nodes::ir::verify::Stage;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Op, OpDef, Var};
use bumpalo::Bump;

/// A node of the source graph, as a rule sees it.
pub struct RebuildVisit<'x, 'g> {
    /// The source graph.
    pub src: Graph<'x>,
    /// The node.
    pub node: Node,
    /// Its op definition.
    pub def: &'static OpDef,
    /// Its operands in the new graph.
    pub args: &'x [Var<'g>],
    /// The builder of the new graph.
    pub g: &'g Builder,
    /// Region of the source → region of the new graph.
    pub regions: &'x [Region],
    /// Value of the source → value of the new graph, for the values before this node.
    pub map: &'x Side<Value, Var<'g>>,
    /// The nodes of the source that are copied. The new graph has the regions of these alone.
    pub live: &'x Side<Node, bool>,
}

impl<'x, 'g> RebuildVisit<'x, 'g> {
    /// The node in the form that derivative rules and decompositions take. `outs` are its results in the new graph.
    pub fn site<'s>(&'s self, outs: &'s [Var<'g>]) -> Site<'s, 'g> {
        Site { g: self.g, op: self.src.op[self.node.at()], attrs: self.src.attrs(self.node), args: self.args, outs }
    }

    /// Copies node `n` of a region to where the builder stands. `map` says which value of the region became which.
    pub fn copy_into(&self, n: Node, map: &mut Window<Value, Value>) {
        let ops: Vec<Value> = self.src.args_of(n).iter().map(|&a| map[a]).collect();
        let outs = self.g.with(|e| {
            e.set_loc(self.src.loc[n.at()]);
            e.copy(&self.src, n, &ops, self.regions)
        });
        self.src.outs_of(n).zip(outs.iter()).for_each(|(o, new)| map[o] = new);
    }

    /// The node's op.
    pub fn op(&self) -> Op {
        self.src.op[self.node.at()]
    }
}

/// A rewrite rule. `None` copies the node; `Some` replaces its results, one value of the same type for each.
pub type Rule<'r> = dyn for<'x, 'g> FnMut(&RebuildVisit<'x, 'g>) -> Option<Vec<Var<'g>>> + 'r;

/// The nodes that must stay: those of outputs and updates, leaves, nodes with effects, and the nodes that these read.
pub fn nodes_that_stay(g: Graph<'_>) -> Side<Node, bool> {
    let mut live = Side::filled(g.nodes(), false);
    let mut used = Side::<Region, bool>::filled(g.regions(), false);
    used[g.entry()] = true;
    for &(_, next) in g.updates {
        live[g.def[next.at()]] = true;
    }
    for r in (0..g.regions()).rev().map(Region::new) {
        if !used[r] {
            continue;
        }
        for &v in g.region_yields(r) {
            live[g.def[v.at()]] = true;
        }
        for n in g.region_nodes(r).rev() {
            let def = g.def_of(n);
            if !(live[n] || def.is_leaf() || !def.is_pure()) {
                continue;
            }
            live[n] = true;
            for &a in g.args_of(n) {
                live[g.def[a.at()]] = true;
            }
            for (i, f) in def.attrs.iter().enumerate() {
                if f.kind == crate::nodes::ir::attrs::Kind::Region && g.attrs(n).has(i) {
                    used[g.attrs(n).region(i)] = true;
                }
            }
        }
    }
    live
}

/// Writes `g` into `bump`, with `rule` applied to each node.
pub fn rebuild<'b>(g: Graph<'_>, bump: &'b Bump, rule: &mut Rule<'_>) -> Result<Graph<'b>> {
    let b = Builder::rewriting(Emit::like(&g));
    let mut copier = Copier::new(g, &b);
    copier.run(rule);
    copier.signature();
    finish_rebuild(b, bump)
}

/// As [`rebuild`], into a new bump.
pub fn rebuild_buf(g: Graph<'_>, rule: &mut Rule<'_>) -> Result<GraphBuf> {
    GraphBuf::make(|bump| rebuild(g, bump, rule))
}

/// The graph that pass `name` writes, in a new bump. Debug builds verify it, so that an error names the pass that made
/// it and not the next pass.
pub fn rebuilt_by_pass(name: &str, f: impl for<'b> FnOnce(&'b Bump) -> Result<Graph<'b>>) -> Result<GraphBuf> {
    let buf = GraphBuf::make(f)?;
    if cfg!(debug_assertions) {
        verify::check(buf.view(), Stage::Block).map_err(|e| e.context(format!("after pass {name}")))?;
    }
    Ok(buf)
}

/// Freezes the graph of `b` in `bump`.
pub fn finish_rebuild<'b>(b: Builder, bump: &'b Bump) -> Result<Graph<'b>> {
    b.into_emit().finish(bump)
}
