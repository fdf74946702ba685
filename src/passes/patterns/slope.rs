//! Activations of which a training step wants the derivative too.

use super::{Facts, Found, Match};
use crate::arena::{Node, ids::Id};
use crate::nodes::Op;
use crate::nodes::ops::pointwise::act_grad::Curve;
use crate::nodes::ops::pointwise::attrs::ActWithGradAttrs;

/// Whether `op` is the derivative of an activation.
pub fn is_slope(op: Op) -> bool {
    Curve::ALL.iter().any(|c| c.slope() == op)
}

/// act(x) and act'(x) where nothing else reads x: x dies where they are made, and the slope waits in its place.
pub fn slope(f: &Facts<'_>, root: Node) -> Found {
    let x = f.args(root)[0];
    let Some(act) = Curve::ALL.into_iter().find(|c| c.slope() == f.g.op[root.at()]) else { return Found::No };
    let Some(bent) = f.readers(x).iter().copied().find(|n| f.g.op[n.at()] == act.act()) else {
        return Found::No;
    };
    if f.reads[x] != 2 {
        return Found::Missed(f.reads_of("what the activation is taken of", x));
    }
    // A sweep over what x is made of gives y, and another the slope, and x need not be there at all.
    if f.g.def_of(f.node(x)).is_pointwise() {
        return Found::Missed("what the activation is taken of is computed in one sweep with it".into());
    }
    let gives = vec![(f.g.out(bent), 0), (f.g.out(root), 1)];
    Found::Fired(Match::new(vec![x], gives, Vec::new(), move |g, a| {
        g.emit(Op::ACT_WITH_GRAD, a, &ActWithGradAttrs { act }.list()).into()
    }))
}
