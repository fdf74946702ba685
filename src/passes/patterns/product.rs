//! Products with a bias and an activation, products that a loop adds to a carry, and products that share an input.

use super::facts::Linear;
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::pattern::{Found, Match, PatternFacts};
use crate::nodes::ops::layout::attrs::SliceAttrs;
use crate::nodes::ops::matmul::activation::Activation;
use crate::nodes::ops::matmul::attrs::{MatmulAttrs, MatmulBiasActAttrs};
use crate::nodes::{Builder, Op, Var};

/// `a·b + broadcast(bias)`, in either order, with the bias along the last axis.
pub fn match_bias(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let Some((p, q, small)) = [(0, 1), (1, 0)].into_iter().find_map(|(p, q)| {
        f.is(args[p], Op::MATMUL)?;
        Some((args[p], args[q], f.repeated(args[q])?))
    }) else {
        return Found::No;
    };
    if !f.alone(p) {
        return Found::Missed(f.reads_of("the product", p));
    }
    let (n, d) = (f.dims(p).last().copied().unwrap_or(0), f.dims(small));
    if *d != [n] {
        return Found::Missed(format!("what is added has shape {d}; a bias has shape [{n}]"));
    }
    let product = f.node(p);
    let (a, mut inner) = (f.args(product), vec![product]);
    if f.alone(q) {
        inner.push(f.node(q));
    }
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&f.attrs(product));
    let attrs = MatmulBiasActAttrs { ta, tb, act: Activation::None };
    Found::Fired(Match::one(f.g.out(root), vec![a[0], a[1], small], inner, move |g, a| {
        g.emit1(Op::MATMUL_BIAS_ACT, a, &attrs.list())
    }))
}

/// A product that a loop adds to what it carries. The sum is then updated in place, as one sweep. Its bits may differ
/// from those of the product and the sum apart, since each element's sum begins with what is carried.
pub fn match_carried_sum(f: &PatternFacts<'_>, root: Node) -> Found {
    let args = f.args(root);
    let found = [(0, 1), (1, 0)].into_iter().find_map(|(sum, p)| Some((args[sum], f.is(args[p], Op::MATMUL)?)));
    let Some((sum, product)) = found.filter(|(sum, _)| f.is_carried_to(*sum, f.g.out(root))) else { return Found::No };
    let p = f.g.out(product);
    if let Some(read) = [sum, p].into_iter().find(|&v| !f.alone(v)) {
        return Found::Missed(f.reads_of(if read == p { "the product" } else { "the sum so far" }, read));
    }
    let (a, attrs) = (f.args(product), MatmulAttrs::of(&f.attrs(product)));
    Found::Fired(Match::one(f.g.out(root), vec![a[0], a[1], sum], vec![product], move |g, a| {
        g.emit1(Op::MATMUL_ADD, a, &attrs.list())
    }))
}

/// True if a product can have `op` as its activation.
pub fn is_possible_activation(op: Op) -> bool {
    Activation::of_op(op).is_some()
}

/// An activation of a biased product, perhaps through a reshape.
pub fn match_activation(f: &PatternFacts<'_>, root: Node) -> Found {
    let x = f.args(root)[0];
    let reshape = f.is(x, Op::RESHAPE);
    let p = reshape.map_or(x, |n| f.args(n)[0]);
    let plain = |n: Node| MatmulBiasActAttrs::of(&f.attrs(n)).act == Activation::None;
    let Some(product) = f.is(p, Op::MATMUL_BIAS_ACT).filter(|&n| plain(n)) else { return Found::No };
    if let Some(read) = [x, p].into_iter().find(|&v| !f.alone(v)) {
        return Found::Missed(f.reads_of("what the activation is taken of", read));
    }
    let Some(act) = Activation::of_op(f.g.op[root.at()]) else { return Found::No };
    let (attrs, dims) = (MatmulBiasActAttrs { act, ..MatmulBiasActAttrs::of(&f.attrs(product)) }, f.dims(x));
    let inner = [Some(product), reshape].into_iter().flatten().collect();
    let m = Match::one(f.g.out(root), f.args(product).to_vec(), inner, move |g, a| {
        let y = g.emit1(Op::MATMUL_BIAS_ACT, a, &attrs.list());
        if reshape.is_some() { y.reshape(dims) } else { y }
    });
    Found::Fired(Match { makes: 1 + usize::from(reshape.is_some()), ..m })
}

/// Neighbouring columns of a matrix.
#[derive(Clone, Copy)]
struct Columns {
    matrix: Value,
    first: usize,
    count: usize,
}

/// `w` as columns of a matrix, if `w` is such a slice.
fn read_columns(f: &PatternFacts<'_>, w: Value) -> Option<Columns> {
    let n = f.is(w, Op::SLICE)?;
    let (whole, cut) = (f.args(n)[0], SliceAttrs::of(&f.attrs(n)));
    let (starts, limits) = (to_size_attrs(&cut.starts), to_size_attrs(&cut.limits));
    let rows = f.dims(whole);
    let fits = rows.len() == 2 && starts[0] == 0 && limits[0] == rows[0] && cut.steps.iter().all(|&s| s == 1);
    fits.then(|| Columns { matrix: whole, first: starts[1], count: limits[1] - starts[1] })
}

/// True if the two values of `ys` have no reader but `silu(one)·other`.
fn products_feed_one_gate(f: &PatternFacts<'_>, ys: &[Value]) -> bool {
    let &[a, b] = ys else { return false };
    [(a, b), (b, a)].into_iter().any(|(gate, value)| {
        let silu = f.reader(gate).filter(|n| f.g.op[n.at()] == Op::SILU);
        let mul = f.reader(value).filter(|n| f.g.op[n.at()] == Op::MUL);
        silu.zip(mul).is_some_and(|(s, m)| f.alone(f.g.out(s)) && f.args(m).contains(&f.g.out(s)))
    })
}

/// Products of one input by slices of one matrix that cover its columns: one product, and slices of its result.
///
/// Slices of the weights are copied in every step, and so are slices of the result. So the rule fires only if the
/// result has no more rows than the weights, or if a SwiGLU reads the whole result.
pub fn match_shared_products(f: &PatternFacts<'_>, root: Node) -> Found {
    let Some(Linear { x, weight: w, transposed: t @ [false, false] }) = f.linear(root) else { return Found::No };
    // Only the last of the products is a root, so that each set is found once.
    let plain = |n: &Node| f.g.op[n.at()] == Op::MATMUL;
    let same = |n: &Node| plain(n) && f.linear(*n).is_some_and(|l| l.x == x && l.transposed == t);
    let mut all: Vec<Node> = f.readers(x).iter().copied().filter(same).collect();
    all.dedup();
    if all.len() < 2 || all.last() != Some(&root) {
        return Found::No;
    }
    let weights: Vec<Value> = all.iter().map(|&n| f.args(n)[1]).collect();
    let Some(Columns { matrix: whole, .. }) = read_columns(f, w) else {
        let params = weights.iter().all(|&w| f.args(f.node(w)).is_empty());
        let elements: usize = weights.iter().map(|&w| f.g.numel(w)).sum();
        let reason = format!(
            "{} products of one input, but packing their weights would copy {elements} elements a step",
            all.len()
        );
        return if params { Found::Missed(reason) } else { Found::No };
    };
    let Some(parts) =
        weights.iter().map(|&w| read_columns(f, w).filter(|c| c.matrix == whole)).collect::<Option<Vec<_>>>()
    else {
        return Found::Missed("the weights are parts of different matrices".into());
    };
    let mut sorted: Vec<(usize, usize)> = parts.iter().map(|p| (p.first, p.count)).collect();
    sorted.sort_unstable();
    let end = sorted.iter().try_fold(0, |at, &(from, n)| (from == at).then_some(at + n));
    let d = f.dims(whole);
    if end != Some(d[1]) {
        return Found::Missed(format!("the weights do not cover the {} columns they are part of", d[1]));
    }
    let ys: Vec<Value> = all.iter().map(|&n| f.g.out(n)).collect();
    let rows = f.g.numel(x) / d[0].max(1);
    if rows > d[0] && !products_feed_one_gate(f, &ys) {
        return Found::Missed(format!("taking the result apart would copy {rows} rows, slicing the weights {}", d[0]));
    }
    // Slices of the weights with other readers (derivatives) would stay, and slices of the result would be added.
    if let Some(&w) = weights.iter().find(|&&w| !f.alone(w)) {
        return Found::Missed(f.reads_of("a weight", w));
    }
    let inner: Vec<Node> = weights.iter().map(|&w| f.node(w)).collect();
    let gives = ys.iter().copied().zip(0..).collect();
    let m = Match::new(vec![x, whole], gives, inner, move |_: &Builder, a: &[Var<'_>]| {
        let y = a[0].matmul(a[1]);
        parts.iter().map(|p| y.narrow(-1, p.first, p.count)).collect()
    });
    Found::Fired(Match { makes: 1 + ys.len(), ..m })
}
