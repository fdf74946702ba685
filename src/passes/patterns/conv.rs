//! Convolutions with a bias and an activation; relu masks that are applied before a max pool's gradient, not after it.

use super::facts::Facts;
use super::matches::{Found, Match};
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::build::sizes::sizes_to_i64;
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvBiasActAttrs};
use crate::nodes::ops::matmul::activation::Activation;
use crate::nodes::ops::pool::attrs::MaxPoolBackwardAttrs;
use crate::nodes::ops::pool::pool_plane;

/// `conv2d + broadcast(bias)`, in either order, with one number of the bias for each channel. There may be a reshape in
/// between that drops an axis of length 1, as after a convolution over one axis.
pub fn bias(f: &Facts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let under = |v: Value| {
        let reshape = f.is(v, Op::RESHAPE);
        let p = reshape.map_or(v, |n| f.args(n)[0]);
        f.is(p, Op::CONV2D).map(|n| (n, reshape))
    };
    let Some((p, q, (conv, reshape), small)) = [(0, 1), (1, 0)].into_iter().find_map(|(p, q)| {
        let found = under(args[p])?;
        Some((args[p], args[q], found, f.repeated(args[q])?))
    }) else {
        return Found::No;
    };
    if let Some(read) = [p, f.g.out(conv)].into_iter().find(|&v| !f.alone(v)) {
        return Found::Missed(f.reads_of("the convolution", read));
    }
    let (to, y, d) = (f.dims(p), f.dims(f.g.out(conv)), f.dims(small));
    // Aligned with the result's last axes, the bias must run along the channels, axis 1.
    let channels = y[1];
    let along = |lead: usize| d.iter().enumerate().all(|(i, &n)| n == if lead + i == 1 { channels } else { 1 });
    if to[..2] != y[..2] || d.numel() != channels || !along(to.len() - d.len()) {
        return Found::Missed(format!("what is added has shape {d}; a bias has one number for {channels} channels"));
    }
    let mut inner: Vec<Node> = [Some(conv), reshape].into_iter().flatten().collect();
    if f.alone(q) {
        inner.push(f.node(q));
    }
    let (a, attrs) = (f.args(conv), ConvAttrs::of(&f.attrs(conv)).bias_act(Activation::None));
    let m = Match::one(f.g.out(root), vec![a[0], a[1], small], inner, move |g, a| {
        let y = g.emit1(Op::CONV2D_BIAS_ACT, &[a[0], a[1], a[2].reshape([channels])], &attrs.list());
        if reshape.is_some() { y.reshape(to) } else { y }
    });
    Found::Fired(Match { makes: 1 + usize::from(reshape.is_some()), ..m })
}

/// An activation of a biased convolution, perhaps through a reshape.
pub fn activation(f: &Facts<'_>, root: Node) -> Found {
    let x = f.args(root)[0];
    let reshape = f.is(x, Op::RESHAPE);
    let p = reshape.map_or(x, |n| f.args(n)[0]);
    let Some(conv) = f.is(p, Op::CONV2D_BIAS_ACT) else { return Found::No };
    let before = ConvBiasActAttrs::of(&f.attrs(conv));
    if before.act != Activation::None {
        return Found::No;
    }
    if let Some(read) = [x, p].into_iter().find(|&v| !f.alone(v)) {
        return Found::Missed(f.reads_of("what the activation is taken of", read));
    }
    let act = Activation::of_op(f.g.op[root.at()]).unwrap_or(Activation::None);
    let (attrs, dims) = (ConvBiasActAttrs { act, ..before }, f.dims(x));
    let inner = [Some(conv), reshape].into_iter().flatten().collect();
    let m = Match::one(f.g.out(root), f.args(conv).to_vec(), inner, move |g, a| {
        let y = g.emit1(Op::CONV2D_BIAS_ACT, a, &attrs.list());
        if reshape.is_some() { y.reshape(dims) } else { y }
    });
    Found::Fired(Match { makes: 1 + usize::from(reshape.is_some()), ..m })
}

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
fn pool_gradient(f: &Facts<'_>, v: Value) -> Option<PoolGradient> {
    let a = f.args(f.is(v, Op::MAX_POOL2D_BACKWARD)?);
    let pool = f.node(a[1]);
    let own = f.g.op[pool.at()] == Op::MAX_POOL2D && f.g.out(pool) != a[1];
    // Positions in a plane of another size would drop elements or be out of range.
    let fits = own && pool_plane(&f.dims(f.args(pool)[0])) == pool_plane(&f.dims(v));
    fits.then_some(PoolGradient { dy: a[0], positions: a[1], pool })
}

/// `select(h > c, scatter(dy), 0)`, where the pool took its maxima from h: the mask moves in front of the scatter. It
/// then has fewer elements, and h need not be kept.
///
/// An element of h that a window chose equals that window's result y, NaN, −0 and ties included. So `h > c` at that
/// element is `y > c` for each window that chose it, and the mask passes all of the element's sum or nothing. Elsewhere
/// both forms are +0.
pub fn mask_before_unpool(f: &Facts<'_>, root: Node) -> Found {
    let a = f.args(root);
    let Some(PoolGradient { dy, positions, pool }) = pool_gradient(f, a[1]) else { return Found::No };
    let h = f.args(pool)[0];
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
    let (small, large) = (f.dims(y), MaxPoolBackwardAttrs { in_hw: sizes_to_i64(&pool_plane(&f.dims(h))) });
    let m = Match::one(f.g.out(root), vec![y, dy, positions], inner, move |g, a| {
        let mask = a[0].greater(g.full(c, small, dtype));
        let masked = mask.select(a[1], g.full(0.0, small, dtype));
        g.emit1(Op::MAX_POOL2D_BACKWARD, &[masked, a[2]], &large.list())
    });
    Found::Fired(Match { makes: 5, ..m })
}
