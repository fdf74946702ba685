//! A selective scan keeps states for its gradient: `selective_scan` becomes `selective_scan_keep`, and its
//! `selective_scan_backward` becomes `selective_scan_kept_backward`.
//!
//! The pass does this only if the states take no more bytes than x. That is so for long sequences: about S ≥ 4·N² for S
//! steps and N numbers of a state.

use super::rebuild::{RebuildVisit, rebuild_buf};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::kernels::recurrent::selective_scan_params;
use crate::nodes::ops::recurrent::attrs::{
    SelectiveScanAttrs, SelectiveScanBackwardAttrs, SelectiveScanKeepAttrs, SelectiveScanKeptBackwardAttrs,
};
use crate::nodes::{Graph, GraphBuf, Op, Var};

/// The operands of the scan of a `selective_scan_backward`.
fn kept_scan_operands<'a, T>(attrs: &SelectiveScanBackwardAttrs, args: &'a [T]) -> &'a [T] {
    &args[1 + usize::from(attrs.last)..]
}

/// Whether the states that a scan of x and A would keep take no more bytes than x.
fn fits_scan_states(g: Graph<'_>, x: Value, a: Value) -> bool {
    let (steps, states) = (g.dims(x)[1], g.dims(a)[1]);
    steps.div_ceil(selective_scan_params::steps_between_states(steps)).saturating_mul(states) <= steps
}

/// The scan of the same operands as the `selective_scan_backward` `n`, before it in its region, if it may keep states.
fn kept_scan_of_gradient(g: Graph<'_>, n: Node) -> Option<Node> {
    if g.op[n.at()] != Op::SELECTIVE_SCAN_BACKWARD {
        return None;
    }
    let attrs = SelectiveScanBackwardAttrs::of(&g.attrs(n));
    let operands = kept_scan_operands(&attrs, g.args_of(n));
    if !fits_scan_states(g, operands[0], operands[2]) {
        return None;
    }
    let is_scan = |&m: &Node| {
        let same = g.op[m.at()] == Op::SELECTIVE_SCAN && g.args_of(m) == operands;
        same && SelectiveScanAttrs::of(&g.attrs(m)) == SelectiveScanAttrs { d: attrs.d, h0: attrs.h0 }
    };
    g.region_nodes(g.region_of(n)).take_while(|&m| m != n).find(is_scan)
}

/// True if [`keep_scan_states`] changes `g`.
pub(super) fn has_scans_with_gradients(g: Graph<'_>) -> bool {
    (0..g.nodes()).map(Node::new).any(|n| kept_scan_of_gradient(g, n).is_some())
}

/// Steps between two states that a scan of `x` keeps.
fn steps_between_kept_scan_states(x: Var<'_>) -> i64 {
    x.dims().get(1).map_or(1, |&steps| selective_scan_params::steps_between_states(steps)) as i64
}

/// The scan that keeps states: the results of the plain one, then the states.
fn keeping_scan<'g>(v: &RebuildVisit<'_, 'g>) -> Vec<Var<'g>> {
    let SelectiveScanAttrs { d, h0 } = SelectiveScanAttrs::of(&v.src.attrs(v.node));
    let attrs = SelectiveScanKeepAttrs { d, h0, every: steps_between_kept_scan_states(v.args[0]) };
    v.g.emit(Op::SELECTIVE_SCAN_KEEP, v.args, &attrs.list()).to_vec()
}

/// The gradients from the states `kept`.
fn gradients_from_kept_scan_states<'g>(v: &RebuildVisit<'_, 'g>, kept: Value) -> Vec<Var<'g>> {
    let attrs = SelectiveScanBackwardAttrs::of(&v.src.attrs(v.node));
    let every = steps_between_kept_scan_states(kept_scan_operands(&attrs, v.args)[0]);
    let SelectiveScanBackwardAttrs { d, h0, last } = attrs;
    let (args, attrs) = ([v.args, &[v.g.var(kept)]].concat(), SelectiveScanKeptBackwardAttrs { d, h0, last, every });
    v.g.emit(Op::SELECTIVE_SCAN_KEPT_BACKWARD, &args, &attrs.list()).to_vec()
}

/// `g` with states that are kept for gradients.
pub(super) fn keep_scan_states(g: Graph<'_>) -> Result<GraphBuf> {
    let mut scan_of = Side::<Node, Option<Node>>::filled(g.nodes(), None);
    let mut has_gradient = Side::filled(g.nodes(), false);
    for n in (0..g.nodes()).map(Node::new) {
        scan_of[n] = kept_scan_of_gradient(g, n);
        if let Some(scan) = scan_of[n] {
            has_gradient[scan] = true;
        }
    }
    let mut kept = Side::<Node, Value>::filled(g.nodes(), Value::NONE);
    rebuild_buf(g, &mut |v| {
        if has_gradient[v.node] {
            let mut results = keeping_scan(v);
            kept[v.node] = results.pop().map_or(Value::NONE, |states| states.v);
            return Some(results);
        }
        // A scan whose results nothing reads is dead and not visited: then the gradient stays as it is.
        let states = scan_of[v.node].map_or(Value::NONE, |scan| kept[scan]);
        (states != Value::NONE).then(|| gradients_from_kept_scan_states(v, states))
    })
}
