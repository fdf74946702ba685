//! A selective scan whose gradient is taken keeps states for it: `selective_scan` becomes `selective_scan_keep`, and its
//! `selective_scan_backward` `selective_scan_kept_backward`.

use super::rebuild::{RebuildVisit, rebuild_buf};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::kernels::recurrent::selective_scan::selective_scan_stretch;
use crate::nodes::ops::recurrent::attrs::{
    SelectiveScanAttrs, SelectiveScanBackwardAttrs, SelectiveScanKeepAttrs, SelectiveScanKeptBackwardAttrs,
};
use crate::nodes::{Graph, GraphBuf, Op, Var};

/// The operands of the scan of a `selective_scan_backward`.
fn scan_operands<'a, T>(attrs: &SelectiveScanBackwardAttrs, args: &'a [T]) -> &'a [T] {
    &args[1 + usize::from(attrs.last)..]
}

/// The scan of the same operands as the `selective_scan_backward` `n`, before it in its region.
fn scan_of_gradient(g: Graph<'_>, n: Node) -> Option<Node> {
    if g.op[n.at()] != Op::SELECTIVE_SCAN_BACKWARD {
        return None;
    }
    let attrs = SelectiveScanBackwardAttrs::of(&g.attrs(n));
    let operands = scan_operands(&attrs, g.args_of(n));
    let is_scan = |&m: &Node| {
        let op = g.op[m.at()] == Op::SELECTIVE_SCAN && g.args_of(m) == operands;
        op && SelectiveScanAttrs::of(&g.attrs(m)) == SelectiveScanAttrs { d: attrs.d, h0: attrs.h0 }
    };
    g.region_nodes(g.region_of(n)).take_while(|&m| m != n).find(is_scan)
}

/// True if [`keep_scan_states`] changes `g`.
pub(super) fn has_scans_with_gradients(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| scan_of_gradient(g, n).is_some())
}

/// The scan that keeps states: the results of the plain one, then the states.
fn keeping_scan<'g>(v: &RebuildVisit<'_, 'g>) -> Vec<Var<'g>> {
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&v.src.attrs(v.node));
    let every = v.args[0].dims().get(1).map_or(1, |&steps| selective_scan_stretch(steps)) as i64;
    v.g.emit(Op::SELECTIVE_SCAN_KEEP, v.args, &SelectiveScanKeepAttrs { d, h0, every }.list()).to_vec()
}

/// The gradients from the states `kept`.
fn gradients_from_states<'g>(v: &RebuildVisit<'_, 'g>, kept: Value) -> Vec<Var<'g>> {
    let attrs = SelectiveScanBackwardAttrs::of(&v.src.attrs(v.node));
    let SelectiveScanBackwardAttrs { d, h0, last } = attrs;
    let x = scan_operands(&attrs, v.args)[0];
    let every = x.dims().get(1).map_or(1, |&steps| selective_scan_stretch(steps)) as i64;
    let (args, attrs) = ([v.args, &[v.g.var(kept)]].concat(), SelectiveScanKeptBackwardAttrs { d, h0, last, every });
    v.g.emit(Op::SELECTIVE_SCAN_KEPT_BACKWARD, &args, &attrs.list()).to_vec()
}

/// `g` with states that are kept for gradients.
pub(super) fn keep_scan_states(g: Graph<'_>) -> Result<GraphBuf> {
    let scan_of: Vec<Option<Node>> = (0..g.nodes()).map(|n| scan_of_gradient(g, Node::new(n))).collect();
    let mut has_gradient = Side::filled(g.nodes(), false);
    scan_of.iter().flatten().for_each(|&scan| has_gradient[scan] = true);
    let mut kept = Side::<Node, Value>::filled(g.nodes(), Value::NONE);
    rebuild_buf(g, &mut |v| {
        if has_gradient[v.node] {
            let results = keeping_scan(v);
            kept[v.node] = results[2].v;
            return Some(results[..2].to_vec());
        }
        // A scan without another reader is not written.
        let states = scan_of[v.node.at()].map_or(Value::NONE, |scan| kept[scan]);
        (states != Value::NONE).then(|| gradients_from_states(v, states))
    })
}
