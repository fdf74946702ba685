//! Attention written out in plain ops.
//!
//! The weight matrix must have no other reader. A derivative reads it, so a net that is trained should be built with
//! `attention`, whose backward op computes the weights again. A query whose scores are all −∞ gets zeros from the op
//! and NaN from the plain ops. Other values change by rounding only.

use crate::arena::dims::Dims;
use crate::arena::{Node, Value};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::softmax::attrs::SoftmaxAttrs;
use crate::nodes::{Attention, Op, Var};

/// The ops between q·kᵀ and the softmax.
struct Scores {
    /// Nodes, the product last.
    nodes: Vec<Node>,
    scale: f64,
    bias: Option<Value>,
}

/// The scores `v = scale·q·kᵀ + bias`; scale and bias are optional. `Err` is the reason of a miss.
fn match_scores(f: &PatternFacts<'_>, v: Value) -> Result<Option<Scores>, String> {
    let mut s = Scores { nodes: Vec::new(), scale: 1.0, bias: None };
    let mut v = v;
    let below =
        |v: Value| f.is(v, Op::MATMUL).is_some() || f.scaled(v).is_some_and(|s| f.is(s.value, Op::MATMUL).is_some());
    if let Some(n) = f.is(v, Op::ADD) {
        let a = f.args(n);
        let Some((x, bias)) = [(0, 1), (1, 0)].into_iter().find(|&(i, _)| below(a[i])).map(|(i, j)| (a[i], a[j]))
        else {
            return Ok(None);
        };
        s.nodes.push(n);
        (v, s.bias) = (x, Some(bias));
    } else if f.is(v, Op::SELECT).is_some_and(|n| f.args(n)[1..].iter().any(|&a| below(a))) {
        return Err("the mask is a select; add it as a bias, or build the graph with attention".into());
    }
    if let Some(scaled) = f.scaled(v) {
        s.nodes.push(scaled.node);
        (v, s.scale) = (scaled.value, scaled.factor);
    }
    let Some(n) = f.is(v, Op::MATMUL) else { return Ok(None) };
    s.nodes.push(n);
    // The op's attribute reads 0 as 1/√width.
    if s.scale == 0.0 || !s.scale.is_finite() {
        return Err(format!("the scale is {}", s.scale));
    }
    Ok(Some(s))
}

/// `d` extended by axes of length 1 to rank 4 `[batch, heads, length, width]`. If `heads`, an axis of a shape of rank 3
/// goes to position 1.
fn extend_dims(d: &[usize], heads: bool) -> Vec<usize> {
    let mut d = d.to_vec();
    if heads && d.len() == 3 {
        d.insert(1, 1);
    }
    while d.len() < 4 {
        d.insert(0, 1);
    }
    d
}

/// The bias in the op's form `[batch or 1, heads or 1, queries, keys]`.
fn shape_bias<'g>(x: Var<'g>, full: &[usize], rank: usize) -> Var<'g> {
    let mut d = x.dims().to_vec();
    while d.len() < rank {
        d.insert(0, 1);
    }
    let d = extend_dims(&d, true);
    let to = [d[0], d[1], full[2], full[3]];
    x.reshape(&d).broadcast(to)
}

/// `softmax(scale·q·kᵀ + bias)·v` over the last axis.
pub fn match_softmax_product(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let Some(softmax) = f.is(args[0], Op::SOFTMAX) else { return Found::No };
    let by_values = MatmulAttrs::of(&f.attrs(root));
    let d: Dims = f.dims(args[0]);
    if to_size_attr(SoftmaxAttrs::of(&f.attrs(softmax)).axis) + 1 != d.len() || by_values.ta || by_values.tb {
        return Found::No;
    }
    let s = match match_scores(f, f.args(softmax)[0]) {
        Ok(Some(s)) => s,
        Ok(None) => return Found::No,
        Err(why) => return Found::Missed(why),
    };
    let product = s.nodes[s.nodes.len() - 1];
    let (q, k, v) = (f.args(product)[0], f.args(product)[1], args[1]);
    let by_keys = MatmulAttrs::of(&f.attrs(product));
    if by_keys.ta || !by_keys.tb {
        return Found::No;
    }
    let lead = |v: Value| f.dims(v)[..f.dims(v).len() - 2].to_vec();
    if d.len() > 4 || lead(q) != lead(k) || lead(q) != lead(v) {
        return Found::Missed("queries, keys and values differ in batch and heads, or have more than 4 axes".into());
    }
    let widths = [q, v].map(|v| f.dims(v).last().copied().unwrap_or(0));
    if widths.contains(&0) || f.g.numel(args[0]) == 0 {
        return Found::No;
    }
    if !f.alone(args[0]) {
        return Found::Missed(format!("{}: build the graph with attention", f.reads_of("the weight matrix", args[0])));
    }
    for &n in &s.nodes {
        if !f.alone(f.g.out(n)) {
            return Found::Missed(f.reads_of("a part of the scores", f.g.out(n)));
        }
    }
    let mut operands = vec![q, k, v];
    operands.extend(s.bias.map(|b| f.repeated(b).unwrap_or(b)));
    let inner = s.nodes.iter().copied().chain([softmax]).collect();
    let (full, rank, out) = (extend_dims(&d, true), d.len(), f.dims(f.g.out(root)));
    Found::Fired(Match::one(f.g.out(root), operands, inner, move |_, a| {
        let [q, k, v] = [0, 1, 2].map(|i| a[i].reshape(extend_dims(&a[i].dims(), true)));
        let bias = a.get(3).map(|&b| shape_bias(b, &full, rank));
        q.attention(k, v, Attention { scale: s.scale, bias, ..Attention::default() }).reshape(out)
    }))
}
