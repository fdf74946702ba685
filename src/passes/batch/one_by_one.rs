//! The loop over members: a scan without carries, whose body is the node as it is. It is right for every op, also for
//! choices whose predicate differs between members: each member runs its own branch.

use super::batched_region::{BatchContext, Member};
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::ops::control::scan::ScanAttrs;
use crate::nodes::{Op, Var};

/// The results of node `n` for all members, one member after another.
pub(super) fn one_by_one<'g>(context: BatchContext<'_, '_, 'g>, n: Node, args: &[Member<'g>]) -> Vec<Var<'g>> {
    let BatchContext { src, g, regions, size, .. } = context;
    g.with(|e| e.open_region("members"));
    // Operands that all members share are constants of the loop; these come first.
    let order: Vec<usize> = [false, true]
        .into_iter()
        .flat_map(|batched| (0..args.len()).filter(move |&i| args[i].batched == batched))
        .collect();
    let mut inner = vec![Value::NONE; args.len()];
    for &i in &order {
        inner[i] = g.with(|e| e.region_arg(src.ty(src.args_of(n)[i])));
    }
    g.with(|e| e.set_loc(src.loc[n.at()]));
    let yields: Vec<Value> = g.with(|e| e.copy(&src, n, &inner, regions)).iter().collect();
    let body = g.with(|e| e.close_region(&yields));
    let consts = args.iter().filter(|a| !a.batched).count() as i64;
    let attrs = ScanAttrs {
        body,
        carries: 0,
        consts,
        length: size as i64,
        reverse: false,
        keep_every: None,
        at_once: None,
        exit: None,
    };
    let operands: Vec<Var<'g>> = order.iter().map(|&i| args[i].var).collect();
    g.emit(Op::SCAN, &operands, &attrs.list()).into()
}
