//! The loop over members: a scan without carries, whose body is the node as it is. It is right for every op, also for
//! choices whose predicate differs between members: each member runs its own branch.

use super::batched_region::{BatchContext, BatchMember};
use crate::arena::{Node, Value, ids::Id};
use crate::error::Location;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::control::scan::{Scan, ScanAttrs};
use crate::nodes::{Graph, Op, Var};

/// The name of the body that computes one member.
const BODY: &str = "members";

/// An op that runs one member after another.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OneByOne {
    /// The op.
    pub op: &'static str,
    /// Its place.
    pub location: Location,
}

/// The ops of a graph that [`vmap`](super::vmap) wrote which run one member after another, in order. All others run for
/// all members at once.
pub fn one_by_one_ops<'g>(g: impl Into<Graph<'g>>) -> Vec<OneByOne> {
    let g = g.into();
    let loops = (0..g.nodes()).map(Node::new).filter(|&n| g.op[n.at()] == Op::SCAN);
    let bodies = loops.map(|n| Scan::of(&g.attrs(n))).filter(|s| s.carries == 0).map(|s| s.body);
    let bodies = bodies.filter(|r| g.str(g.region_names[r.at()]) == BODY);
    let nodes = bodies.flat_map(|r| g.region_nodes(r)).filter(|&n| !matches!(g.op[n.at()], Op::ARG | Op::FULL));
    nodes.map(|n| OneByOne { op: g.def_of(n).name, location: g.location(n) }).collect()
}

/// The number that `x` is, if that is known.
fn number(x: Var<'_>) -> Option<f64> {
    let full = x.g.with(|e| e.def(x.v).filter(|d| d.op == Op::FULL).map(|d| FullAttrs::of(&d.attrs).value));
    full.filter(|_| x.dims().is_empty())
}

/// The results of node `n` for all members, one member after another.
pub(super) fn one_by_one<'g>(context: BatchContext<'_, '_, 'g>, n: Node, args: &[BatchMember<'g>]) -> Vec<Var<'g>> {
    let BatchContext { src, g, regions, size, .. } = context;
    // A number is written again in the body: passes know it there, as that from which a loop counts.
    let numbers: Vec<Option<f64>> = args.iter().map(|a| number(a.var).filter(|_| !a.batched)).collect();
    g.with(|e| e.open_region(BODY));
    // Other operands that all members share are constants of the loop; these come first.
    let of = |batched: bool| (0..args.len()).filter(move |&i| args[i].batched == batched);
    let consts: Vec<usize> = of(false).filter(|&i| numbers[i].is_none()).collect();
    let order: Vec<usize> = consts.iter().copied().chain(of(true)).collect();
    let mut inner = vec![Value::NONE; args.len()];
    for &i in &order {
        inner[i] = g.with(|e| e.region_arg(src.ty(src.args_of(n)[i])));
    }
    g.with(|e| e.set_loc(src.loc[n.at()]));
    for (i, x) in numbers.into_iter().enumerate().filter_map(|(i, x)| Some((i, x?))) {
        inner[i] = g.full(x, [], args[i].var.dtype()).v;
    }
    let yields: Vec<Value> = g.with(|e| e.copy(&src, n, &inner, regions)).iter().collect();
    let body = g.with(|e| e.close_region(&yields));
    let attrs = ScanAttrs {
        body,
        carries: 0,
        consts: consts.len() as i64,
        length: size as i64,
        reverse: false,
        keep_every: None,
        at_once: None,
        exit: None,
        bound: None,
    };
    let operands: Vec<Var<'g>> = order.iter().map(|&i| args[i].var).collect();
    g.emit(Op::SCAN, &operands, &attrs.list()).into()
}
