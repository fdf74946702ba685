//! Norms of a residual sum.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::norm::NormAttrs;

/// True if the node takes much longer than a sweep over its operands.
fn outweighs_sweep(f: &PatternFacts<'_>, n: Node) -> bool {
    let def = f.g.def_of(n);
    def.flags.has(Flags::PRODUCT) || def.flags.has(Flags::HEAVY) || matches!(def.lower, Lower::Loop)
}

/// True if `v` is computed in one sweep with the addition `sum`, its only reader.
fn shares_sweep(f: &PatternFacts<'_>, v: Value, sum: Value) -> bool {
    f.alone(v) && f.g.def_of(f.node(v)).is_pointwise() && f.dims(v) == f.dims(sum)
}

/// The norm of `x + res`, or of `(x + bias) + res`. The sum is a result of the fused op, for its other readers.
pub fn match_residual(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let Some(add) = f.is(args[0], Op::ADD) else { return Found::No };
    let sum = f.g.out(add);
    let n = f.dims(args[1]);
    // A biased addend without another reader. The bias of a product goes into the product instead.
    let biased = |v: Value| {
        let inner = f.is(v, Op::ADD).filter(|_| f.alone(v))?;
        let a = f.args(inner);
        [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
            let bias = f.repeated(a[j]).filter(|&b| f.dims(b) == n && f.is(a[i], Op::MATMUL).is_none())?;
            Some((inner, a[i], bias))
        })
    };
    let [x, res] = [0, 1].map(|i| f.args(add)[i]);
    if f.repeated(x).is_some() || f.repeated(res).is_some() || f.fill(x).is_some() || f.fill(res).is_some() {
        return Found::No;
    }
    let mut inner = Vec::new();
    let split = [(x, res), (res, x)].into_iter().find_map(|(x, res)| biased(x).map(|(n, x, b)| (n, x, b, res)));
    let (mut operands, addends) = match split {
        Some((node, x, bias, res)) => {
            inner.push(node);
            (vec![x, res, bias], [x, res])
        }
        None => (vec![x, res], [x, res]),
    };
    if addends.iter().any(|&v| shares_sweep(f, v, sum)) {
        return Found::Missed("the sum is computed in one sweep with the op before it".into());
    }
    // The norm moves up to its sum, so its results stay alive during the nodes in between.
    if let Some(n) = (add.at() + 1..root.at()).map(Node::new).find(|&n| outweighs_sweep(f, n)) {
        return Found::Missed(format!("{} stands between the sum and its norm", f.g.def_of(n).name));
    }
    operands.extend(&args[1..]);
    let op = if f.g.op[root.at()] == Op::LAYER_NORM { Op::RESIDUAL_LAYER_NORM } else { Op::RESIDUAL_RMS_NORM };
    let attrs = NormAttrs::of(&f.attrs(root));
    // Results of the fused op: y, the sum, statistics.
    let mut gives: Vec<(Value, usize)> =
        f.g.outs_of(root).enumerate().map(|(i, v)| (v, i + usize::from(i > 0))).collect();
    gives.push((sum, 1));
    Found::Fired(Match::new(operands, gives, inner, move |g, a| g.emit(op, a, &attrs.list()).into()))
}
