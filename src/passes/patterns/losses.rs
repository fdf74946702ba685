//! Losses that are fused with their gradients.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::loss::attrs::{CrossEntropyAttrs, CrossEntropyGradientAttrs, SquaredErrorAttrs};
use crate::nodes::ops::reduce::attrs::SumSquaresAttrs;

/// A cross entropy and its gradient, if every row has the same weight: the logits are read once, and no weights are
/// stored.
pub fn match_cross_entropy_loss(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let loss = f.node(args[2]);
    if f.g.op[loss.at()] != Op::SOFTMAX_CROSS_ENTROPY || f.g.outs_of(loss).nth(1) != Some(args[2]) {
        return Found::No;
    }
    let Some(weight) = f.fill(args[3]) else { return Found::No };
    let attrs = CrossEntropyAttrs::of(&f.attrs(root));
    if f.args(loss) != &args[..2] || CrossEntropyAttrs::of(&f.attrs(loss)) != attrs {
        return Found::No;
    }
    let CrossEntropyAttrs { ignore_index, label_smoothing } = attrs;
    let mut gives: Vec<(Value, usize)> = f.g.outs_of(loss).zip(0..).collect();
    gives.push((f.g.out(root), 2));
    let attrs = CrossEntropyGradientAttrs { ignore_index, label_smoothing, weight };
    Found::Fired(Match::new(args[..2].to_vec(), gives, Vec::new(), move |g, a| {
        g.emit(Op::CROSS_ENTROPY_GRADIENT, a, &attrs.list()).into()
    }))
}

/// The sum or mean of (a − b)² and its derivative, `c·(a − b) + c·(a − b)`: one sweep over a and b.
pub fn match_squared_error_loss(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    if args[0] != args[1] {
        return Found::No;
    }
    let (scaled, d, weight) = match f.scaled(args[0]) {
        Some(s) => (Some(s.node), s.value, s.factor),
        None => (None, args[0], 1.0),
    };
    let Some(sub) = f.is(d, Op::SUB) else { return Found::No };
    let Some(loss) = f.readers(d).iter().copied().find(|n| f.g.op[n.at()] == Op::SUM_SQUARES) else {
        return Found::No;
    };
    // The only readers are the sum and the product, or the sum and both operands of this addition.
    let expected = if scaled.is_some() { 2 } else { 3 };
    if f.reads[d] != expected || (scaled.is_some() && f.reads[args[0]] != 2) {
        return Found::Missed(f.reads_of("the difference", d));
    }
    let mean = SumSquaresAttrs::of(&f.attrs(loss)).mean;
    if f.g.numel(d) == 0 {
        return Found::No;
    }
    let inner = std::iter::once(sub).chain(scaled).collect();
    let gives = vec![(f.g.out(loss), 0), (f.g.out(root), 1)];
    Found::Fired(Match::new(f.args(sub).to_vec(), gives, inner, move |g, a| {
        g.emit(Op::SQUARED_ERROR_GRADIENT, a, &SquaredErrorAttrs { mean, weight }.list()).into()
    }))
}
