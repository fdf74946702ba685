//! Products with a low-rank correction.

use super::{Facts, Found, Match};
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::attrs::Attr;

/// `scale·((x·a)·b)`, the scale after either product or nowhere: its nodes from the last to that of x·a, and the scale.
fn correction(f: &Facts<'_>, v: Value) -> Option<(Vec<Node>, f64)> {
    let mut nodes = Vec::new();
    let (mut v, mut scale) = (v, 1.0);
    for last in [false, true] {
        if let Some((n, x, by)) = f.scaled(v)
            && scale == 1.0
        {
            nodes.push(n);
            (v, scale) = (x, by);
        }
        let n = f.is(v, Op::MATMUL)?;
        f.linear(n)?;
        nodes.push(n);
        if !last {
            v = f.args(n)[0];
        }
    }
    Some((nodes, scale))
}

/// `x·w + scale·(x·a)·b`; x·a may be read by others, who then read it as a result.
pub fn lora(f: &Facts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let pair = [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let (main, (nodes, scale)) = (f.is(args[i], Op::MATMUL)?, correction(f, args[j])?);
        let (x, w, t) = f.linear(main)?;
        let low = *nodes.last()?;
        let (from, a, ta) = f.linear(low)?;
        let up = nodes.iter().copied().filter(|&n| n != low).find(|&n| f.g.op[n.at()] == Op::MATMUL)?;
        let (_, b, tb) = f.linear(up)?;
        (from == x && !t[0] && t == ta && t == tb).then_some((main, nodes, scale, [x, w, a, b], t[1]))
    });
    let Some((main, nodes, scale, operands, transposed)) = pair else { return Found::No };
    let low = nodes[nodes.len() - 1];
    let dropped = nodes[..nodes.len() - 1].iter().chain([&main]);
    for &n in dropped.clone() {
        if !f.alone(f.g.out(n)) {
            return Found::Missed(f.reads_of("a part of it", f.g.out(n)));
        }
    }
    if !scale.is_finite() {
        return Found::Missed(format!("the scale is {scale}"));
    }
    let inner = dropped.copied().collect();
    let gives = vec![(f.g.out(root), 0), (f.g.out(low), 1)];
    let attrs = [Attr::F64(scale), Attr::Bool(transposed)];
    Found::Fired(Match::new(operands.to_vec(), gives, inner, move |g, a| g.emit(Op::LORA_MATMUL, a, &attrs)))
}
