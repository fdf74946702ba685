//! Derivatives of activations, which gate the products that come back to them.

use super::{Facts, Found, Match};
use crate::arena::{Node, Value, ids::Id};
use crate::kernels::gemm::Act;
use crate::nodes::attrs::Attr;
use crate::nodes::ops::epilogue::GATES;
use crate::nodes::{Op, Var};

/// What gates a value: the value, how, by what, and how often the gate reads that.
type Gate = (Value, Act, Value, u32);

/// A product times the derivative of an activation that is written by what that gave, or times what another node made: each
/// block is gated while it is in cache. The product may lie under a reshape.
pub fn gate(f: &Facts<'_>, root: Node) -> Found {
    let product = |v: Value| {
        let reshape = f.is(v, Op::RESHAPE);
        let p = reshape.map_or(v, |n| f.args(n)[0]);
        f.is(p, Op::MATMUL).map(|n| (n, reshape))
    };
    let gates: Vec<Gate> =
        if f.g.op[root.at()] == Op::SELECT { relu(f, root).into_iter().collect() } else { times(f, root) };
    let found = gates.into_iter().find_map(|gate| Some((gate, product(gate.0)?)));
    let Some(((value, act, by, reads), (matmul, reshape))) = found else { return Found::No };
    // What is swept over for the gate alone is better left in one sweep with it.
    if f.reads[by] == reads && f.g.def_of(f.node(by)).is_pointwise() {
        return Found::No;
    }
    if let Some(read) = [value, f.g.out(matmul)].into_iter().find(|&v| !f.alone(v)) {
        return Found::Missed(f.reads_of("the product", read));
    }
    let (a, p, dims) = (f.args(matmul), f.dims(f.g.out(matmul)), f.dims(value));
    let choice = GATES.iter().position(|&g| g == act).unwrap_or(0) as u32;
    let t = f.attrs(matmul);
    let attrs = [Attr::Bool(t.bool(0)), Attr::Bool(t.bool(1)), Attr::Choice(choice)];
    let inner = [Some(matmul), reshape].into_iter().flatten().collect();
    let m = Match::one(f.g.out(root), vec![a[0], a[1], by], inner, move |g, a: &[Var<'_>]| match reshape {
        None => g.emit1(Op::MATMUL_GATE, a, &attrs),
        Some(_) => g.emit1(Op::MATMUL_GATE, &[a[0], a[1], a[2].reshape(p)], &attrs).reshape(dims),
    });
    Found::Fired(Match { makes: 1 + 2 * usize::from(reshape.is_some()), ..m })
}

/// A value where y > 0, else +0.
fn relu(f: &Facts<'_>, root: Node) -> Option<Gate> {
    let &[by, value, other] = f.args(root) else { return None };
    let compare = f.args(f.is(by, Op::GT)?);
    let zeros = f.fill(compare[1])? == 0.0 && f.fill(other)?.to_bits() == 0;
    zeros.then_some((value, Act::ReluGate, compare[0], 1))
}

/// A value times 1 − y², y·(1 − y), or what is as large and neither a constant nor repeated.
fn times(f: &Facts<'_>, root: Node) -> Vec<Gate> {
    let &[a, b] = f.args(root) else { return Vec::new() };
    let one_less = |v: Value| {
        let x = f.args(f.is(v, Op::SUB)?);
        (f.fill(x[0])? == 1.0).then_some(x[1])
    };
    let by = |value: Value, slope: Value| {
        let square = |v: Value| Some(f.args(f.is(v, Op::MUL)?)).filter(|x| x[0] == x[1]).map(|x| x[0]);
        let tanh = || Some((value, Act::TanhGate, square(one_less(slope)?)?, 2));
        let sigmoid = || {
            let x = f.args(f.is(slope, Op::MUL)?);
            let y = [(0, 1), (1, 0)].into_iter().find(|&(i, j)| one_less(x[j]) == Some(x[i])).map(|(i, _)| x[i])?;
            Some((value, Act::SigmoidGate, y, 2))
        };
        let plain = f.fill(slope).is_none() && f.repeated(slope).is_none();
        tanh().or_else(sigmoid).or(plain.then_some((value, Act::Times, slope, 1)))
    };
    [by(a, b), by(b, a)].into_iter().flatten().collect()
}
