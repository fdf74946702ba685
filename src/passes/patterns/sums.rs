//! Sums of squares, and losses that are fused with their gradients.

use crate::arena::{Node, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::reduce::attrs::SumSquaresAttrs;

/// True for sums and means.
pub fn can_match_sum(op: Op) -> bool {
    op == Op::REDUCE_SUM || op == Op::REDUCE_MEAN
}

/// The sum or mean of all x·x, if the squares have no other reader. The squares are then never stored.
pub fn match_sum_of_squares(f: &PatternFacts<'_>, root: Node) -> Found {
    let y = f.args(root)[0];
    let Some(mul) = f.is(y, Op::MUL).filter(|_| f.g.dtype[y.at()].is_float()) else { return Found::No };
    let (a, d) = (f.args(mul), f.dims(f.g.out(root)));
    if a[0] != a[1] || d.numel() != 1 || f.g.numel(y) == 1 || f.repeated(a[0]).is_some() {
        return Found::No;
    }
    if !f.alone(y) {
        return Found::Missed(f.reads_of("the squares", y));
    }
    let mean = f.g.op[root.at()] == Op::REDUCE_MEAN;
    let m = Match::one(f.g.out(root), vec![a[0]], vec![mul], move |g, a| {
        let y = g.emit1(Op::SUM_SQUARES, a, &SumSquaresAttrs { mean }.list());
        if d.is_empty() { y } else { y.reshape(d) }
    });
    Found::Fired(Match { makes: 1 + usize::from(!d.is_empty()), ..m })
}
