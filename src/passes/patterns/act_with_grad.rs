//! Activations whose derivative a training step needs too.

use crate::arena::{Node, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::pointwise::attrs::ActWithGradAttrs;
use crate::nodes::ops::pointwise::attrs::CurveAttr;

/// True if `op` is the derivative of an activation.
pub fn is_activation_derivative(op: Op) -> bool {
    CurveAttr::ALL.iter().any(|c| c.act_grad_op() == op)
}

/// act(x) and act'(x), if x has no other reader: x dies here, and the derivative takes over its bytes.
pub fn match_activation_pair(f: &PatternFacts<'_>, root: Node) -> Found {
    let x = f.args(root)[0];
    let Some(act) = CurveAttr::ALL.into_iter().find(|c| c.act_grad_op() == f.g.op[root.at()]) else { return Found::No };
    let Some(activation) = f.readers(x).iter().copied().find(|n| f.g.op[n.at()] == act.act_op()) else {
        return Found::No;
    };
    if f.reads[x] != 2 {
        return Found::Missed(f.reads_of("what the activation is taken of", x));
    }
    // Two sweeps over the operands of x compute act(x) and act'(x), and x is never stored.
    if f.g.def_of(f.node(x)).is_pointwise() {
        return Found::Missed("what the activation is taken of is computed in one sweep with it".into());
    }
    let gives = vec![(f.g.out(activation), 0), (f.g.out(root), 1)];
    Found::Fired(Match::new(vec![x], gives, Vec::new(), move |g, a| {
        g.emit(Op::ACT_WITH_GRAD, a, &ActWithGradAttrs { act }.list()).into()
    }))
}
