//! Products with a low-rank correction (LoRA; Hu et al., arXiv:2106.09685).

use crate::arena::{Node, Value};
use crate::nodes::Op;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::matmul::attrs::LoraMatmulAttrs;

/// The low-rank term `scale·((x·a)·b)`.
struct Correction {
    /// Nodes that disappear.
    inner: Vec<Node>,
    /// The product by b.
    up: Node,
    /// The product by a.
    low: Node,
    scale: f64,
}

/// The low-rank term `v`. The scale may follow either product or be absent.
fn match_correction(f: &PatternFacts<'_>, v: Value) -> Option<Correction> {
    let (mut inner, mut scale) = (Vec::new(), 1.0);
    let mut unscaled = |v: Value, inner: &mut Vec<Node>| match f.scaled(v) {
        Some(s) if scale == 1.0 => {
            inner.push(s.node);
            scale = s.factor;
            s.value
        }
        _ => v,
    };
    let v = unscaled(v, &mut inner);
    let up = f.is(f.through(v, &mut inner), Op::MATMUL)?;
    inner.push(up);
    let low = f.is(unscaled(f.args(up)[0], &mut inner), Op::MATMUL)?;
    Some(Correction { inner, up, low, scale })
}

/// `x·w + bias + scale·(x·a)·b`. `x·a` may have other readers: it is a result of the fused op.
pub fn match_corrected_product(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let found = [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let mut c = match_correction(f, args[j])?;
        let main = f.node(f.through(args[i], &mut c.inner));
        let (base, low, up) = (f.linear(main)?, f.linear(c.low)?, f.linear(c.up)?);
        c.inner.push(main);
        let operands = [&[base.x, base.weight, low.weight, up.weight], &f.args(main)[2..]].concat();
        let t = base.transposed;
        let fits = low.x == base.x && !t[0] && t == low.transposed && t == up.transposed;
        fits.then_some((c, operands, t[1]))
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
