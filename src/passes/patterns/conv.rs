//! Convolutions with a bias and an activation.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::conv::attrs::{ConvAttrs, ConvBiasActAttrs};
use crate::nodes::ops::matmul::activation::Activation;

/// `conv2d + broadcast(bias)`, in either order, with one number of the bias for each channel. There may be a reshape in
/// between that drops an axis of length 1, as after a convolution over one axis.
pub fn match_bias(f: &PatternFacts<'_>, root: Node) -> Found {
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
pub fn match_activation(f: &PatternFacts<'_>, root: Node) -> Found {
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
