//! Relu masks that are applied before a max pool's gradient, not after it.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::arguments::size_attrs::size_attrs_to_i64;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::pool::attrs::MaxPoolBackwardAttrs;
use crate::nodes::ops::pool::last_two_dims;

/// The gradient of a max pool.
struct PoolGradient {
    /// Gradient of the pool's result.
    dy: Value,
    /// Positions of the windows' largest elements.
    positions: Value,
    /// The pool that found the positions.
    pool: Node,
}

/// The parts of `v`, if `v` is the gradient of a max pool.
fn match_pool_gradient(f: &PatternFacts<'_>, v: Value) -> Option<PoolGradient> {
    let a = f.args(f.is(v, Op::MAX_POOL2D_BACKWARD)?);
    let pool = f.node(a[1]);
    let own = f.g.op[pool.at()] == Op::MAX_POOL2D && f.g.out(pool) != a[1];
    own.then_some(PoolGradient { dy: a[0], positions: a[1], pool })
}

/// `select(h > c, scatter(dy), 0)`, where the pool took its maxima from h: the mask moves in front of the scatter. It
/// then has fewer elements, and h need not be kept.
///
/// An element of h that a window chose equals that window's result y, NaN, −0 and ties included. So `h > c` at that
/// element is `y > c` for each window that chose it, and the mask passes all of the element's sum or nothing. Elsewhere
/// both forms are +0.
pub fn match_mask_before_scatter(f: &PatternFacts<'_>, root: Node) -> Found {
    let a = f.args(root);
    let Some(PoolGradient { dy, positions, pool }) = match_pool_gradient(f, a[1]) else { return Found::No };
    let h = f.args(pool)[0];
    // So the plane that the positions are in is that of the gradient: the gate has the shape of both.
    let Some(compare) = f.is(a[0], Op::GT).filter(|&n| f.args(n)[0] == h) else { return Found::No };
    let Some(c) = f.fill(f.args(compare)[1]) else { return Found::No };
    if f.fill(a[2]).map(f64::to_bits) != Some(0) {
        return Found::No;
    }
    if !f.alone(a[1]) {
        return Found::Missed(f.reads_of("the gradient before the gate", a[1]));
    }
    let (y, dtype) = (f.g.out(pool), f.g.dtype[h.at()]);
    if 2 * f.g.numel(y) > f.g.numel(h) {
        return Found::Missed("the windows overlap so much that a gate of them saves nothing".into());
    }
    let mut inner = vec![f.node(a[1])];
    if f.alone(a[0]) {
        inner.push(compare);
    }
    let (small, large) = (f.dims(y), MaxPoolBackwardAttrs { in_hw: size_attrs_to_i64(&last_two_dims(&f.dims(h))) });
    let m = Match::one(f.g.out(root), vec![y, dy, positions], inner, move |g, a| {
        let mask = a[0].greater(g.full(c, small, dtype));
        let masked = mask.select(a[1], g.full(0.0, small, dtype));
        g.emit1(Op::MAX_POOL2D_BACKWARD, &[masked, a[2]], &large.list())
    });
    Found::Fired(Match { makes: 5, ..m })
}
