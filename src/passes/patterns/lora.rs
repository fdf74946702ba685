//! Products with a low-rank correction.

use super::{Facts, Found, Match};
use crate::arena::{Node, Value};
use crate::nodes::Op;
use crate::nodes::ops::matmul::attrs::LoraMatmulAttrs;

/// `scale·((x·a)·b)`: what goes, the products by b and by a, and the scale.
struct Correction {
    inner: Vec<Node>,
    up: Node,
    low: Node,
    scale: f64,
}

/// The correction `v`, the scale after either product or nowhere.
fn correction(f: &Facts<'_>, v: Value) -> Option<Correction> {
    let (mut inner, mut scale) = (Vec::new(), 1.0);
    let mut unscaled = |v: Value, inner: &mut Vec<Node>| match f.scaled(v) {
        Some((n, x, by)) if scale == 1.0 => {
            inner.push(n);
            scale = by;
            x
        }
        _ => v,
    };
    let v = unscaled(v, &mut inner);
    let up = f.is(f.through(v, &mut inner), Op::MATMUL)?;
    inner.push(up);
    let low = f.is(unscaled(f.args(up)[0], &mut inner), Op::MATMUL)?;
    Some(Correction { inner, up, low, scale })
}

/// `x·w + bias + scale·(x·a)·b`; x·a may be read by others, who then read it as a result.
pub fn lora(f: &Facts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let found = [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let mut c = correction(f, args[j])?;
        let main = f.node(f.through(args[i], &mut c.inner));
        let (x, w, t) = f.linear(main)?;
        let ((from, a, ta), (_, b, tb)) = (f.linear(c.low)?, f.linear(c.up)?);
        c.inner.push(main);
        let operands = [&[x, w, a, b], &f.args(main)[2..]].concat();
        (from == x && !t[0] && t == ta && t == tb).then_some((c, operands, t[1]))
    });
    let Some((Correction { inner, low, scale, .. }, operands, transposed)) = found else { return Found::No };
    if let Some(read) = inner.iter().map(|&n| f.g.out(n)).find(|&v| !f.alone(v)) {
        return Found::Missed(f.reads_of("a part of it", read));
    }
    if !scale.is_finite() {
        return Found::Missed(format!("the scale is {scale}"));
    }
    let gives = vec![(f.g.out(root), 0), (f.g.out(low), 1)];
    let (attrs, dims) = (LoraMatmulAttrs { scale, transposed }, f.dims(args[0]));
    Found::Fired(Match::new(operands, gives, inner, move |g, a| {
        let mut outs = Vec::from(g.emit(Op::LORA_MATMUL, a, &attrs.list()));
        outs.iter_mut().take(1).filter(|y| y.dims() != dims).for_each(|y| *y = y.reshape(dims));
        outs
    }))
}
